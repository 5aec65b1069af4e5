"""What changed since the last look, at most so many times a second.

The session is the buffer: a view that lags gets one list of facts that names everything to read
again, however many updates came, so it never redraws per chunk and never falls behind. A fact
stands for all that were equal to it: after `ContentAppended(3)` the entry has one item more, or
many.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from twofold.peer.problems import Problem, Report, described, log
from twofold.session.changes import (
    Change,
    Changes,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    StateChanged,
)
from twofold.wire import v2

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


# Who watches a session: handlers that hear every update, views that are told of changes.
#
# Handlers hear updates in order, one after the other; one that fails is reported and hurts nobody
# else. One that does not come back is given up by the session's inbox; if that happens three times
# in a row it hears no more, for every update would cost as much time again.


OnUpdate: TypeAlias = Callable[[v2.SessionUpdate], Awaitable[None] | None]
Calls: TypeAlias = list[tuple[OnUpdate, v2.SessionUpdate]]

STUCK = 3
"""How often in a row a handler may not come back."""


class Watchers:
    """The handlers and the views of one session."""

    def __init__(self, session_id: str, report: Report) -> None:
        self.handlers: list[OnUpdate] = []
        self.feeds: list[ChangeFeed | ChangeCallback | Silence] = []
        self._session_id = session_id
        self._report = report
        self._stuck: dict[int, int] = {}  # by identity: a handler need not be hashable
        self._waiting: asyncio.Task[None] | None = None
        self._awaited: OnUpdate | None = None
        self._over = False
        self._silence: Silence | None = None

    # ---- views

    def feed(self, rate: float = RATE) -> ChangeFeed:
        feed = ChangeFeed(rate, lambda: self._forget(feed))
        self._add(feed)
        return feed

    def call_back(self, callback: OnChange, rate: float = RATE) -> Callable[[], None]:
        feed = ChangeCallback(callback, rate, self._report)
        self._add(feed)

        def stop() -> None:
            self._forget(feed)
            feed.close()

        return stop

    def expect_silence(self, seconds: float) -> None:
        """A version 1 agent answered for the session: it may still replay, or greet."""
        self.stop_silence()
        self._silence = Silence(seconds)
        self._add(self._silence)

    async def silence(self, unless: asyncio.Future[Any]) -> None:
        """Wait until a first prompt may be sent, or `unless` is done."""
        while self._silence is not None and self._silence.left > 0 and not unless.done():
            await asyncio.wait({unless}, timeout=self._silence.left)

    def stop_silence(self) -> None:
        """The first prompt is sent: later ones do not wait."""
        if self._silence is not None:
            self._forget(self._silence)
            self._silence = None

    def _add(self, feed: ChangeFeed | ChangeCallback | Silence) -> None:
        self.feeds.append(feed)
        if self._over:
            feed.end()

    def _forget(self, feed: ChangeFeed | ChangeCallback | Silence) -> None:
        if feed in self.feeds:
            self.feeds.remove(feed)

    def told(self, changes: Changes) -> None:
        """Something changed."""
        for feed in self.feeds:
            feed.add(changes)

    def flush(self) -> None:
        """Have every callback told of what has changed by now."""
        for feed in self.feeds:
            if isinstance(feed, ChangeCallback):
                feed.flush()

    def end(self) -> None:
        """Nothing will change any more."""
        self._over = True
        for feed in list(self.feeds):
            feed.end()

    # ---- handlers

    @property
    def waiting_here(self) -> bool:
        """Whether a handler asks, for whom the session waits: it must not wait for the session."""
        return self._waiting is not None and self._waiting is asyncio.current_task()

    def handled(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        """Have every handler called with an update, as far as that goes without waiting."""
        if self._awaited is not None:  # the session does not wait for it any more
            self._given_up(self._awaited)
        for at, handler in enumerate(self.handlers):
            waiting = self._call(handler, update)
            if waiting is not None:
                rest = [(each, update) for each in self.handlers[at + 1 :]]
                return self._go_on(handler, waiting, rest)
        return None

    def all_handled(self, updates: Sequence[v2.SessionUpdate]) -> Awaitable[None] | None:
        """The same with several updates, one after the other."""
        for at, update in enumerate(updates):
            waiting = self.handled(update)
            if waiting is not None:
                return self._one_by_one(waiting, updates[at + 1 :])
        return None

    async def _one_by_one(
        self, waiting: Awaitable[None], updates: Sequence[v2.SessionUpdate]
    ) -> None:
        await waiting
        for update in updates:
            more = self.handled(update)
            if more is not None:
                await more

    def _call(self, handler: OnUpdate, update: v2.SessionUpdate) -> Awaitable[None] | None:
        try:
            result = handler(update)
        except Exception as error:
            self._failed(error)
            return None
        return result if result is not None and inspect.isawaitable(result) else None

    async def _go_on(self, handler: OnUpdate, waiting: Awaitable[None], rest: Calls) -> None:
        here = self._waiting = asyncio.current_task()
        try:
            await self._wait(handler, waiting)
            for handler, update in rest:
                more = self._call(handler, update)
                if more is not None:
                    await self._wait(handler, more)
        finally:
            if self._waiting is here:  # one that was given up may end after its successor began
                self._waiting = None

    async def _wait(self, handler: OnUpdate, waiting: Awaitable[None]) -> None:
        self._awaited = handler
        try:
            await waiting
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # it was given up
            self._failed(error)  # of something that the handler waited for
        except Exception as error:
            self._failed(error)
        self._awaited = None
        self._stuck.pop(id(handler), None)

    def _given_up(self, handler: OnUpdate) -> None:
        self._awaited = None
        times = self._stuck[id(handler)] = self._stuck.get(id(handler), 0) + 1
        if times >= STUCK and handler in self.handlers:
            self.handlers.remove(handler)
            del self._stuck[id(handler)]
            text = f"A handler did not come back {times} times in a row: it hears no more"
            self._report(Problem("stuck", text, self._session_id))

    def _failed(self, error: BaseException) -> None:
        text = f"A handler failed: {described(error)}"
        self._report(Problem("handler", text, self._session_id, error))
