"""Time that passes only when nothing else happens.

    @simulated
    async def test_a_turn_that_does_not_end_is_given_up() -> None: ...

The test runs in an event loop of its own, whose clock jumps to the next timer whenever everybody
waits: half a minute takes no time and is exactly half a minute. Where everybody waits and there is
no timer nothing would ever happen again, which fails the test. For tests without files, pipes and
processes.
"""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Hang(Exception):
    """Everybody waits, and nobody will ever do anything."""


class _Clock(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Hang("everybody waits, and there is no timer")
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
    """Make a test of a coroutine."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that follows from what others do now."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")


async def within(seconds: float, awaited: Awaitable[T]) -> T:
    """What comes of `awaited`, which must not take longer."""
    async with asyncio.timeout(seconds):
        return await awaited
