"""What Twofold costs, beside the official SDKs and beside the least that can be done.

`python -m benchmarks` measures and prints one table. Nothing in the library or its tests
depends on this folder, and no result makes anything fail.
"""
