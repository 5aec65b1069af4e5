"""Who watches a session: handlers that hear every update, views that are told of changes.

Handlers hear updates in order, one after the other; one that fails is reported and hurts nobody
else. One that does not come back is given up by the session's inbox; if that happens three times
in a row it hears no more, for every update would cost as much time again.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from twofold.runtime.client.feed import RATE, ChangeCallback, ChangeFeed, OnChange, Silence
from twofold.runtime.problems import Problem, Report, described
from twofold.session.changes import Changes
from twofold.wire import v2

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
