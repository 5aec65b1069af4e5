"""A client written with Twofold whose handler cannot keep up: what does it hold meanwhile?

The state of the session grows with every update that was handled, and is meant to. What is held
beyond that is what waits for the handler.
"""

import asyncio
import gc
import json
import sys
import tracemalloc
from typing import NamedTuple

import twofold
from benchmarks.stdio_peers.job import Job

AGENT = [sys.executable, "-m", "benchmarks.stdio_peers.twofold_agent"]
DELAY = 0.001
EVERY = 100
"""After so many updates the memory is looked at."""


class Moment(NamedTuple):
    """The most that was held since the moment before."""

    handled: int
    held: int


class Lagging:
    """A handler that takes a millisecond for every update."""

    def __init__(self) -> None:
        self.handled = 0
        self.moments: list[Moment] = []

    async def __call__(self, update: object) -> None:
        await asyncio.sleep(DELAY)
        self.handled += 1
        if self.handled % EVERY == 0:
            _, most = tracemalloc.get_traced_memory()
            self.moments.append(Moment(self.handled, most))
            tracemalloc.reset_peak()

    def most_waiting(self, start: int, end: int) -> float:
        """The most bytes held beyond a state that grew evenly from `start` to `end`."""
        step = (end - start) / self.handled
        return max(moment.held - start - moment.handled * step for moment in self.moments)


async def main() -> None:
    """Do the job with an agent of its own."""
    job = Job.read()
    async with twofold.connect(AGENT, version=2) as client:
        session = await client.new_session("/")
        await session.prompt(job.prompt(job.warm))
        lagging = Lagging()
        session.on_update(lagging)
        tracemalloc.start()
        start = _held()
        await session.prompt(job.prompt(job.updates))
        waiting = lagging.most_waiting(start, _held())
    print(json.dumps({"waiting": waiting, "handled": lagging.handled}))


def _held() -> int:
    gc.collect()
    now, _ = tracemalloc.get_traced_memory()
    return now


if __name__ == "__main__":
    asyncio.run(main())
