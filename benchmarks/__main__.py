"""Measure everything, print one table.

The exit status says that the run came to its end, not that the targets are reached: the table
says that, and says it plainly.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import msgspec

from benchmarks import (
    accumulator,
    attaching,
    bridging,
    converting,
    decoding,
    diffs,
    growth,
    imports,
    journaling,
    memory,
    observers,
    page,
    peers,
    starting,
    stdio,
    streams,
    terminal,
)
from benchmarks.peers import Sdks
from benchmarks.table import Topic, as_markdown, as_text


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"accumulate {accumulator.QUICK_COUNT} chunks instead of {accumulator.COUNT}",
    )
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table there, too")
    parser.add_argument("--only", action="append", default=[], help="measure just this topic")
    chosen = parser.parse_args()
    start = perf_counter()
    topics = _measured(quick=chosen.quick, only=chosen.only)
    print(f"done in {perf_counter() - start:.0f} s\n", file=sys.stderr, flush=True)
    print(as_text(topics, _machine()))
    if chosen.markdown:
        chosen.markdown.write_text(as_markdown(topics, _machine()), encoding="utf-8")


def _measured(*, quick: bool, only: list[str]) -> list[Topic]:
    with Sdks() as sdks:
        topics: dict[str, Callable[[], Topic]] = {
            "stream": lambda: streams.measure(sdks),
            "growth": growth.measure,
            "accumulator": lambda: accumulator.measure(sdks, quick=quick),
            "memory": lambda: memory.measure(sdks),
            "decode": lambda: decoding.measure(sdks),
            "upgrade and downgrade": converting.measure,
            "diff": diffs.measure,
            "stdio": lambda: stdio.measure(sdks),
            "bridge": bridging.measure,
            "terminal": terminal.measure,
            "page": page.measure,
            "observers": observers.measure,
            "journal": journaling.measure,
            "remote": attaching.measure,
            "import": lambda: imports.measure(sdks),
            "start": starting.measure,
        }
        unknown = set(only) - topics.keys()
        if unknown:
            sys.exit(f"no such topic: {', '.join(sorted(unknown))}; there are {', '.join(topics)}")
        return [_announced(name, topics[name]) for name in topics if not only or name in only]


def _announced(name: str, measure: Callable[[], Topic]) -> Topic:
    print(f"measuring {name} …", file=sys.stderr, flush=True)
    return measure()


def _machine() -> str:
    """What was compared, and where."""
    return (
        f"the official Python SDK {peers.V1} for version 1 and {peers.V2} for version 2; "
        f"Python {platform.python_version()}, msgspec {msgspec.__version__}, "
        f"{platform.system()} {platform.machine()} with {os.cpu_count()} processors"
    )


if __name__ == "__main__":
    main()
