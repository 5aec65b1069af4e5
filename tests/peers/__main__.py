"""Install every peer, and print where it is or why it is not there.

Like the tests, this goes on without a peer unless CI is set.
"""

import os
import sys

from tests.peers.install import PYTHON_SDKS, Unavailable, node_sdk, python_sdk


def main() -> int:
    """Install all peers; the exit code is 1 if CI is set and one is missing."""
    missing = 0
    for name, install in (
        ("npm", node_sdk),
        *((version, lambda version=version: python_sdk(version)) for version in PYTHON_SDKS),
    ):
        try:
            print(f"peer {name}: {install()}")
        except Unavailable as error:
            missing += 1
            print(f"peer {name}: {error}", file=sys.stderr)
    return 1 if missing and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
