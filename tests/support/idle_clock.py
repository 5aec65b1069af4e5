"""A simulated clock that advances only when every task waits.

    @simulated
    async def test_a_turn_that_does_not_end_is_given_up() -> None: ...

The test runs in an event loop of its own, whose clock jumps to the next timer whenever every task
waits: half a minute takes no time and is exactly half a minute. If every task waits and there is no
timer, the test fails with `Hang`. For tests without files, pipes and processes.
"""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Hang(Exception):
    """Every task waits, and there is no timer."""


class _Clock(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Hang("every task waits, and there is no timer")
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that never sleeps."""

    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def simulated(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on the simulated clock."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds; other tasks that are ready make it so."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition did not come true")


async def within(seconds: float, awaited: Awaitable[T]) -> T:
    """The result of `awaited`, which must not take longer than `seconds`."""
    async with asyncio.timeout(seconds):
        return await awaited
