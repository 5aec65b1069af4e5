"""Runs a coroutine on the clock of `idle_clock` and checks that it leaves nothing behind.

    @leaves_nothing
    async def test_a_handler_that_raises_is_reported() -> None: ...

`simulate` and `leaves_nothing` fail if every task waits forever, if the event loop reported an
exception, or if a task is still there at the end.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tests.support.idle_clock import SimulatedLoop

P = ParamSpec("P")
T = TypeVar("T")

LONG = 100_000.0
"""More simulated seconds than any test takes."""


async def turns(count: int = 20) -> None:
    """Let every task that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def others() -> set[asyncio.Task[Any]]:
    """All tasks but the current one."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def now() -> float:
    """The simulated time."""
    return asyncio.get_running_loop().time()


async def _bounded(main: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(LONG):
        result = await main
    left = others()
    assert not left, f"tasks are left behind: {left}"
    return result


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and return its result."""
    complaints: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context))
        result = runner.run(_bounded(main))
        gc.collect(0)  # an exception that was never retrieved is reported when it is collected
    assert complaints == []
    return result


def leaves_nothing(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test with `simulate`."""

    @wraps(test)
    def clean(*args: P.args, **kwargs: P.kwargs) -> None:
        simulate(test(*args, **kwargs))

    return clean
