"""Coroutines on the clock of `idle_clock`, after which nothing may be left.

`simulate` fails where everybody waits for ever, where the event loop had to complain, and where a
task is left behind.
"""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.support.idle_clock import SimulatedLoop

T = TypeVar("T")

LONG = 100_000.0
"""More seconds than anything here should take, on a clock that jumps."""


async def turns(count: int = 20) -> None:
    """Let everybody go on who can."""
    for _ in range(count):
        await asyncio.sleep(0)


def others() -> set[asyncio.Task[Any]]:
    """The tasks that are there beside the one that asks."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def now() -> float:
    """What the clock says."""
    return asyncio.get_running_loop().time()


async def _bounded(main: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(LONG):
        result = await main
    left = others()
    assert not left, f"tasks are left behind: {left}"
    return result


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run `main`; nothing may be left when it is done."""
    complaints: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context))
        result = runner.run(_bounded(main))
        gc.collect(0)  # a failure that nobody looked at is told when it is collected
    assert complaints == []
    return result
