"""What changed since the last look, at most so many times a second.

The session is the buffer: a view that lags gets one list of facts that names everything to read
again, however many updates came, so it never redraws per chunk and never falls behind. A fact
stands for all that were equal to it: after `ContentAppended(3)` the entry has one item more, or
many.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from twofold.runtime.problems import Problem, Report, described, log
from twofold.session.changes import (
    Change,
    Changes,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    StateChanged,
)

RATE = 60.0
"""How often a view is told of changes, per second."""
SILENCE_NEW = 0.05
"""For how many seconds a version 1 agent must add nothing to a new session before the first prompt.

An agent that greets does so in the next turn of its own loop, a few milliseconds after its answer.
"""
SILENCE_LOADED = 0.15
"""The same for a session that was loaded or resumed: a replay reads a file between two messages."""
LONGEST_SILENCE = 5.0
"""How many seconds after the answer the first prompt is sent in any case."""

OnChange: TypeAlias = Callable[[list[Change]], None]


class _Gathered:
    """Facts, each once, in the order in which they were first true; the state as it is now."""

    def __init__(self, rate: float) -> None:
        self._pause = 1 / rate if rate > 0 else 0.0
        self._facts: dict[Change, None] = {}
        self._last: Changes = ()
        self._next = 0.0

    def gather(self, changes: Changes) -> None:
        # chunks of one message bring the same tuple again and again
        if changes is self._last:
            return
        self._last = changes
        for change in changes:
            if isinstance(change, StateChanged):
                self._facts.pop(change, None)  # it was running in between: the last word counts
            self._facts[change] = None

    def take(self) -> list[Change]:
        facts, self._facts, self._last = list(self._facts), {}, ()
        self._next = asyncio.get_running_loop().time() + self._pause
        return facts

    @property
    def wait(self) -> float:
        """For how many seconds the view should be left in peace."""
        return max(0.0, self._next - asyncio.get_running_loop().time())


class ChangeFeed(_Gathered):
    """`async for changes in feed`: lists of facts until the session is gone, or `close`."""

    def __init__(self, rate: float = RATE, on_close: Callable[[], None] = lambda: None) -> None:
        super().__init__(rate)
        self._on_close = on_close
        self._something = asyncio.Event()
        self._over = False

    def add(self, changes: Changes) -> None:
        """More changed."""
        if not changes:
            return
        self.gather(changes)
        if not self._something.is_set():
            self._something.set()

    def end(self) -> None:
        """Nothing will change any more."""
        self._over = True
        self._something.set()

    def close(self) -> None:
        """Nobody looks any more: forget what was gathered, and gather no more."""
        self._on_close()
        self.take()
        self.end()

    def __aiter__(self) -> "ChangeFeed":
        return self

    async def __anext__(self) -> list[Change]:
        await self._something.wait()
        if self.wait and not self._over:
            await asyncio.sleep(self.wait)
        facts = self.take()
        if not self._over:
            self._something.clear()
        elif not facts:
            raise StopAsyncIteration
        return facts


class ChangeCallback(_Gathered):
    """Calls `callback` with lists of facts; what it raises is reported, and it is called again."""

    def __init__(self, callback: OnChange, rate: float = RATE, report: Report = log) -> None:
        super().__init__(rate)
        self._callback = callback
        self._report = report
        self._timer: asyncio.TimerHandle | None = None

    def add(self, changes: Changes) -> None:
        """More changed."""
        self.gather(changes)
        if self._timer is None and changes:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.wait, self._call)

    def flush(self) -> None:
        """Tell now what was gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._call()

    def end(self) -> None:
        """Nothing will change any more: the rest is told now."""
        self.flush()

    def close(self) -> None:
        """Nobody wants to be called any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call(self) -> None:
        self._timer = None
        try:
            self._callback(self.take())
        except Exception as error:
            text = f"A callback for changes failed: {described(error)}"
            self._report(Problem("handler", text, error=error))


class Silence:
    """How long a first prompt should wait for the end of what belongs to no turn.

    Version 1 does not mark where a turn begins: a replay that comes after the answer to
    `session/load`, or a greeting after the one to `session/new`, would count as the reply. So a
    prompt waits until nothing was added to the transcript for `seconds`, counted from the answer
    and from every addition: who prompts later than that does not wait at all.
    """

    def __init__(self, seconds: float, longest: float = LONGEST_SILENCE) -> None:
        self._seconds = seconds
        self._since = asyncio.get_running_loop().time()
        self._limit = self._since + longest

    def add(self, changes: Changes) -> None:
        """More changed; usage, commands and settings are no part of a reply."""
        if any(isinstance(change, _TRANSCRIPT) for change in changes):
            self._since = asyncio.get_running_loop().time()

    @property
    def left(self) -> float:
        """How many seconds a prompt should still wait; 0 or less: it may be sent."""
        return min(self._since + self._seconds, self._limit) - asyncio.get_running_loop().time()

    def end(self) -> None:
        """The session is gone: there is nothing to wait for."""
        self._limit = 0.0


_TRANSCRIPT = (EntryAdded, EntryChanged, ContentAppended)
