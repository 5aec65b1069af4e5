"""Handlers and views of one session: handlers get every update, views get changes at a frame rate.

Handlers are called in wire order, one after the other. A handler that raises is reported, and the
others are called all the same. The inbox of the session gives up a handler that does not return;
after three times in a row it is removed, because every update would cost that time again.

For views the session itself is the buffer: a view that lags gets one list of facts that names
everything to read again, however many updates were applied. So it never redraws for each chunk and
never falls behind. Equal facts are one fact: after `ContentAppended(3)` the entry has one or more
new items.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from twofold.peer.problems import Problem, Report, described, log
from twofold.session.changes import Change, Changes, StateChanged
from twofold.wire import v2

T = TypeVar("T")

RATE = 60.0
"""How often a view is called, per second, at most."""

STUCK = 3
"""How often in a row a handler may be given up before it is removed."""

OnChange: TypeAlias = Callable[[list[Change]], None]
OnUpdate: TypeAlias = Callable[[v2.SessionUpdate], Awaitable[None] | None]
Calls: TypeAlias = list[tuple[OnUpdate, v2.SessionUpdate]]


class ChangeListener(Protocol):
    """Gets the changes of a session as they happen."""

    def add(self, changes: Changes) -> None:
        """Changes of one update."""

    def end(self) -> None:
        """The session is closed: nothing changes any more."""


# ---- what callers hold ------------------------------------------------------------------------


class Subscription:
    """A callback that was registered. `cancel` removes it."""

    def __init__(self, on_cancel: Callable[[], None]) -> None:
        self._on_cancel: Callable[[], None] | None = on_cancel

    def cancel(self) -> None:
        """Stop the calls; a second time it does nothing."""
        on_cancel, self._on_cancel = self._on_cancel, None
        if on_cancel is not None:
            on_cancel()


class ChangeSubscription(Subscription):
    """A callback of `on_change`."""

    def __init__(self, callback: "ChangeCallback", on_cancel: Callable[[], None]) -> None:
        super().__init__(on_cancel)
        self._callback = callback

    def flush(self) -> None:
        """Call the callback now if it has not been called with all changes yet."""
        self._callback.flush()

    def soon(self) -> None:
        """Call the callback at the next frame, with an empty list if nothing changes until then.

        For views that also draw for other reasons, such as a key or a new window size: all of it
        shares one frame rate.
        """
        self._callback.soon()


class ChangeFeed:
    """Lists of facts at a frame rate: `async for changes in session.changes()`.

    It ends when the session is closed, or after `close`.
    """

    def __init__(self, queue: "ChangeQueue", on_close: Callable[[], None] = lambda: None) -> None:
        self._queue = queue
        self._on_close = on_close

    def close(self) -> None:
        """Drop the facts that were not read, and end the feed."""
        self._on_close()
        self._queue.close()

    def __aiter__(self) -> "ChangeFeed":
        return self

    async def __anext__(self) -> list[Change]:
        facts = await self._queue.next()
        if facts is None:
            raise StopAsyncIteration
        return facts


# ---- changes at a frame rate ------------------------------------------------------------------


class _Pace:
    """When the next frame may begin."""

    def __init__(self, rate: float) -> None:
        self._pause = 1 / rate if rate > 0 else 0.0
        self._next = 0.0

    def begin_frame(self) -> None:
        self._next = asyncio.get_running_loop().time() + self._pause

    @property
    def wait(self) -> float:
        """How many seconds are left until the next frame may begin."""
        return max(0.0, self._next - asyncio.get_running_loop().time())


class _Facts:
    """Facts, each once, in the order in which they first became true."""

    def __init__(self) -> None:
        self._facts: dict[Change, None] = {}
        self._last: Changes = ()

    def add(self, changes: Changes) -> None:
        # chunks of one message bring the same tuple again and again
        if changes is self._last:
            return
        self._last = changes
        for change in changes:
            if isinstance(change, StateChanged):
                self._facts.pop(change, None)  # the last state has to be the last fact
            self._facts[change] = None

    def take(self) -> list[Change]:
        """All facts since the last call."""
        facts, self._facts, self._last = list(self._facts), {}, ()
        return facts


class ChangeQueue:
    """Facts for a reader that awaits them (`ChangeListener`)."""

    def __init__(self, rate: float = RATE) -> None:
        self._facts = _Facts()
        self._pace = _Pace(rate)
        self._ready = asyncio.Event()
        self._over = False

    def add(self, changes: Changes) -> None:
        """Keep changes until the reader takes them."""
        if not changes:
            return
        self._facts.add(changes)
        if not self._ready.is_set():
            self._ready.set()

    def end(self) -> None:
        """Let the reader end after what is left."""
        self._over = True
        self._ready.set()

    def close(self) -> None:
        """Let the reader end at once."""
        self._facts.take()
        self.end()

    async def next(self) -> list[Change] | None:
        """The next list of facts, not before the next frame may begin; None at the end."""
        await self._ready.wait()
        if self._pace.wait and not self._over:
            await asyncio.sleep(self._pace.wait)
        self._pace.begin_frame()
        facts = self._facts.take()
        if not self._over:
            self._ready.clear()
        elif not facts:
            return None
        return facts


class ChangeCallback:
    """Calls `callback` with lists of facts (`ChangeListener`); what it raises is reported."""

    def __init__(self, callback: OnChange, rate: float = RATE, report: Report = log) -> None:
        self._facts = _Facts()
        self._pace = _Pace(rate)
        self._callback = callback
        self._report = report
        self._timer: asyncio.TimerHandle | None = None

    def add(self, changes: Changes) -> None:
        """Pass changes on at the next frame."""
        self._facts.add(changes)
        if self._timer is None and changes:
            self.soon()

    def soon(self) -> None:
        """Call the callback at the next frame."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pace.wait, self._call)

    def flush(self) -> None:
        """Call the callback now, if a call is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._call()

    def end(self) -> None:
        """Pass on what is left at once."""
        self.flush()

    def close(self) -> None:
        """Call the callback no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call(self) -> None:
        self._timer = None
        self._pace.begin_frame()
        try:
            self._callback(self._facts.take())
        except Exception as error:
            text = f"A callback of on_change raised {described(error)}"
            self._report(Problem("handler", text, error=error))


# ---- all of one session -----------------------------------------------------------------------


class Watchers:
    """The handlers and the change listeners of one session."""

    def __init__(self, session_id: str, report: Report) -> None:
        # both are replaced and never changed: one of them may be removed while they are called
        self.handlers: list[OnUpdate] = []
        self.listeners: list[ChangeListener] = []
        self._session_id = session_id
        self._report = report
        self._given_up: dict[int, int] = {}
        """How often in a row, by identity: a handler need not be hashable."""
        self._waiting: asyncio.Task[None] | None = None
        """The task that awaits a handler."""
        self._awaited: OnUpdate | None = None
        self._over = False

    # ---- subscriptions

    def on_update(self, handler: OnUpdate) -> Subscription:
        """Call `handler` with every update from now on."""
        self.handlers = [*self.handlers, handler]

        def cancel() -> None:
            self.handlers = _without(self.handlers, handler)

        return Subscription(cancel)

    def on_change(self, callback: OnChange, rate: float = RATE) -> ChangeSubscription:
        """Call `callback` with changes at a frame rate from now on."""
        listener = ChangeCallback(callback, rate, self._report)
        self.add(listener)

        def cancel() -> None:
            self.remove(listener)
            listener.close()

        return ChangeSubscription(listener, cancel)

    def feed(self, rate: float = RATE) -> ChangeFeed:
        """A feed of the changes from now on."""
        queue = ChangeQueue(rate)
        self.add(queue)
        return ChangeFeed(queue, lambda: self.remove(queue))

    def add(self, listener: ChangeListener) -> None:
        """Pass changes to `listener` from now on."""
        self.listeners = [*self.listeners, listener]
        if self._over:
            listener.end()

    def remove(self, listener: ChangeListener) -> None:
        """Pass no more changes to `listener`."""
        self.listeners = _without(self.listeners, listener)

    # ---- changes

    def changed(self, changes: Changes) -> None:
        """Pass changes to every listener."""
        for listener in self.listeners:
            listener.add(changes)

    def flush(self) -> None:
        """Call every callback of `on_change` that has not been called with all changes yet."""
        for listener in self.listeners:
            if isinstance(listener, ChangeCallback):
                listener.flush()

    def end(self) -> None:
        """The session is closed."""
        self._over = True
        for listener in self.listeners:
            listener.end()

    # ---- updates

    @property
    def waiting_here(self) -> bool:
        """Whether the current task is a handler: it must not wait for its own session."""
        return self._waiting is not None and self._waiting is asyncio.current_task()

    def handle(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        """Call every handler with an update; an awaitable if one of them has to be awaited."""
        if self._awaited is not None:  # the inbox has given it up
            self._count_given_up(self._awaited)
        for at, handler in enumerate(self.handlers):
            waiting = self._call(handler, update)
            if waiting is not None:
                rest = [(each, update) for each in self.handlers[at + 1 :]]
                return self._continue(handler, waiting, rest)
        return None

    def handle_all(self, updates: Sequence[v2.SessionUpdate]) -> Awaitable[None] | None:
        """The same for several updates, one after the other."""
        for at, update in enumerate(updates):
            waiting = self.handle(update)
            if waiting is not None:
                return self._one_by_one(waiting, updates[at + 1 :])
        return None

    async def _one_by_one(
        self, waiting: Awaitable[None], updates: Sequence[v2.SessionUpdate]
    ) -> None:
        await waiting
        for update in updates:
            more = self.handle(update)
            if more is not None:
                await more

    def _call(self, handler: OnUpdate, update: v2.SessionUpdate) -> Awaitable[None] | None:
        try:
            result = handler(update)
        except Exception as error:
            self._failed(error)
            return None
        return result if result is not None and inspect.isawaitable(result) else None

    async def _continue(self, handler: OnUpdate, waiting: Awaitable[None], rest: Calls) -> None:
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
                raise  # the inbox has given the handler up
            self._failed(error)  # the handler awaited something that was cancelled
        except Exception as error:
            self._failed(error)
        self._awaited = None
        self._given_up.pop(id(handler), None)

    def _count_given_up(self, handler: OnUpdate) -> None:
        self._awaited = None
        times = self._given_up[id(handler)] = self._given_up.get(id(handler), 0) + 1
        if times >= STUCK and any(each is handler for each in self.handlers):
            self.handlers = _without(self.handlers, handler)
            del self._given_up[id(handler)]
            text = f"A handler did not return {times} times in a row: it is not called any more"
            self._report(Problem("stuck", text, self._session_id))

    def _failed(self, error: BaseException) -> None:
        text = f"A handler raised {described(error)}"
        self._report(Problem("handler", text, self._session_id, error))


def _without(those: list[T], one: T) -> list[T]:
    """A copy of a list without `one`, or without the first of it if it is there twice."""
    for at, each in enumerate(those):
        if each is one:
            return those[:at] + those[at + 1 :]
    return those
