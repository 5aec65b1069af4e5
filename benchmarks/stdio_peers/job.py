"""What a client is asked to do, and how it does it; the same for all clients written in Python.

Only the standard library is imported, for the environments of the SDKs have nothing else of ours.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle, islice
from statistics import median
from time import perf_counter
from typing import NamedTuple


class Job(NamedTuple):
    """A turn that nobody measures, requests one after the other, and the turn that counts."""

    pieces: list[str]
    updates: int
    warm: int
    pings: int

    @classmethod
    def read(cls) -> "Job":
        """The job that this process was started for."""
        return cls(**json.loads(sys.argv[-1]))

    def prompt(self, count: int) -> str:
        """The prompt that asks for so many chunks."""
        return json.dumps({"pieces": self.pieces, "count": count})


def chunks(prompt: str) -> Iterator[str]:
    """The texts that a prompt asks for."""
    asked = json.loads(prompt)
    return islice(cycle(asked["pieces"]), asked["count"])


async def carry_out(
    job: Job, ping: Callable[[], Awaitable[object]], turn: Callable[[str], Awaitable[str]]
) -> None:
    """Do it and print what was found; a turn is over when its whole text is there."""
    await turn(job.prompt(job.warm))
    round_trip = await _median(ping, job.pings)
    start = perf_counter()
    text = await turn(job.prompt(job.updates))
    seconds = perf_counter() - start
    print(json.dumps({"seconds": seconds, "characters": len(text), "round_trip": round_trip}))


async def _median(ping: Callable[[], Awaitable[object]], count: int) -> float:
    times = []
    for _ in range(count):
        start = perf_counter()
        await ping()
        times.append(perf_counter() - start)
    return median(times)
