"""What a program tells of itself when it has shown a stream: one line of JSON.

It is written to the file that was named, or else to standard error as the last line.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from benchmarks.terminal_peers.streams import read

_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # of the peak, in bytes


class Report(TypedDict):
    """From the first chunk until all of them, or as many as there was time for, were shown."""

    program: str
    redraws: int
    wall_seconds: float
    cpu_seconds: float
    """Of the system, too."""
    peak_rss_bytes: int
    """Of the whole process, from its start."""
    chunks: NotRequired[int]
    """How many there are in the stream."""
    shown: NotRequired[int]
    """How many of them were shown in time."""
    draw_seconds: NotRequired[float]
    """Processor time of the redraws alone."""


class Wanted:
    """The command line: a stream, where to report, and for how long to go on at most."""

    def __init__(self, program: str) -> None:
        arguments = argparse.ArgumentParser(prog=program)
        arguments.add_argument("stream", type=Path, help="JSON Lines of strings")
        arguments.add_argument("--report", type=Path, help="a file; else standard error")
        arguments.add_argument("--limit-seconds", type=float, default=float("inf"))
        arguments.add_argument(
            "--coalesce", action="store_true", help="redraw when there is time, as is usual"
        )
        given = arguments.parse_args()
        self.program = program
        self.chunks = read(given.stream)
        self.limit: float = given.limit_seconds
        self.coalesce: bool = given.coalesce
        self._file: Path | None = given.report

    def report(self, clock: "Clock", shown: int, redraws: int) -> None:
        """Tell how it went."""
        name = f"{self.program}{' --coalesce' if self.coalesce else ''}"
        told(name, clock, redraws, self._file, counts=(len(self.chunks), shown))


class Clock:
    """Starts when it is made; `stop` it once."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), _cpu()
        self.wall = self.cpu = 0.0

    def so_far(self) -> float:
        """Seconds on the wall."""
        return time.perf_counter() - self._began[0]

    def stop(self) -> None:
        self.wall, self.cpu = self.so_far(), _cpu() - self._began[1]


def told(
    program: str,
    clock: Clock,
    redraws: int,
    file: Path | None,
    *,
    counts: tuple[int, int] | None = None,
    draw_seconds: float | None = None,
) -> None:
    """Write the report; `counts`: of the chunks, and of those that were shown."""
    report: Report = {
        "program": program,
        "redraws": redraws,
        "wall_seconds": round(clock.wall, 3),
        "cpu_seconds": round(clock.cpu, 3),
        "peak_rss_bytes": _peak(),
    }
    if counts is not None:
        report["chunks"], report["shown"] = counts
    if draw_seconds is not None:
        report["draw_seconds"] = round(draw_seconds, 6)
    line = f"{json.dumps(report)}\n"
    if file is None:
        sys.stderr.write(line)
    else:
        file.write_text(line, encoding="utf-8")


def _peak() -> int:
    """The most memory that this program came to."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    # what `getrusage` tells was begun by whoever started this program
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
