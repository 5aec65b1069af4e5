"""The programs that `benchmarks.stdio` runs: for every contestant a client, which starts its agent.

A client gets a job as its last argument, prints what it found as one line of JSON and ends. An
agent answers `_ping` at once, and a prompt with as many chunks as its text asks for. Each is
written as the users of its library write it, and none of them waits for anything but its peer.
"""
