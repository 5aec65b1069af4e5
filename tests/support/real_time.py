"""Runs async tests on the real clock, which processes need, for a bounded time.

@in_real_time
async def test_a_command_that_is_killed_ends() -> None: ...
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = 20.0
"""No test takes that long unless it hangs."""


async def _bounded(work: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await work


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in an event loop of its own and return its result."""
    return asyncio.run(_bounded(work))


def in_real_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in an event loop of its own."""

    @wraps(test)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return bounded
