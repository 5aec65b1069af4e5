"""The inbox of a session: what arrives is handled one item after the other, in order.

A handler that returns at once is called at once, without a task. A handler that returns an
awaitable is waited for, and what arrives meanwhile is queued behind it. One that does not return
within `TIMEOUT` is abandoned and reported: a stuck handler delays its own session, and not for
ever.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from twofold.errors import PeerError
from twofold.peer.problems import Problem, Report, described, guarded

T = TypeVar("T")
Handle: TypeAlias = Callable[[Any], Awaitable[None] | None]

LIMIT = 1024 * 1024
"""How many bytes of messages may be queued before the peer has to wait."""
TIMEOUT = 30.0
"""How many seconds a handler is waited for."""

_OVERHEAD = 64  # bytes that every queued item counts beside its size


class Place:
    """One call of a handler, as seen by the handler itself and by the tasks it starts."""

    __slots__ = ("inbox", "over")

    def __init__(self, inbox: "Inbox") -> None:
        self.inbox = inbox
        self.over = False
        """Whether the handler has returned or was abandoned."""


_inside: ContextVar[Place | None] = ContextVar("inside", default=None)


def inside() -> Place | None:
    """The handler that runs in the current context: it must not wait for its own end."""
    place = _inside.get()
    return None if place is None or place.over else place


class Inbox:
    """Calls handlers in order.

    Args:
        name: The id of the session, for problems.
        report: Called with every problem.
        hold: Called with the inbox when more than `limit` bytes are queued.
        release: Called with the inbox when half of them have been handled.
        limit: How many bytes may be queued.
        timeout: How many seconds a handler is waited for.
    """

    def __init__(
        self,
        name: str,
        report: Report,
        *,
        hold: Callable[["Inbox"], None] = lambda inbox: None,
        release: Callable[["Inbox"], None] = lambda inbox: None,
        limit: int = LIMIT,
        timeout: float = TIMEOUT,
    ) -> None:
        self.name = name
        self._report = guarded(report)
        self._hold, self._release = hold, release
        self._limit = limit
        self._timeout = timeout
        self._queue: deque[tuple[Handle, Any, int]] = deque()
        self._size = 0
        self._full = False
        self._calling = False
        self._closed = False
        self._place: Place | None = None
        """The handler that is waited for."""
        self._worker: asyncio.Task[None] | None = None
        """The task that waits for it."""
        self._workers: set[asyncio.Task[Any]] = set()
        """All such tasks, with those that were abandoned and have not ended."""
        self._since = 0.0
        self._watch: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a handler runs."""
        return self._place is not None or self._calling

    def put(self, handle: Handle, item: Any, size: int = 0) -> None:
        """Call `handle(item)` when everything before it has been handled.

        `size` is the size of a message in bytes. An item without a size settles something: it is
        handled even if the inbox is closed.
        """
        if self._place is None and not self._calling:
            self._calling = True
            try:  # as `_call` does, without the call: most items are handled here
                waiting = handle(item)
            except Exception as error:
                self._failed(error)
                waiting = None
            finally:
                self._calling = False
            if waiting is None and self._queue:
                waiting = self._next()
            if waiting is not None:
                self._start(waiting)
            return
        self._queue.append((handle, item, size))
        self._size += size + _OVERHEAD
        if self._size > self._limit and not self._full:
            self._full = True
            self._hold(self)

    def put_next(self, handle: Handle, item: Any) -> None:
        """Call `handle(item)` right after the handler that runs now."""
        if self._place is None and not self._calling:
            self.put(handle, item)
        else:
            self._queue.appendleft((handle, item, 0))
            self._size += _OVERHEAD

    def close(self) -> None:
        """Drop the queued messages; from now on handlers are called and not waited for."""
        self._closed = True
        # an item without a size settles something: its caller must not wait for ever
        kept = [(handle, item) for handle, item, size in self._queue if not size]
        self._queue.clear()
        self._give_up()
        self._idle()
        for handle, item in kept:
            self.put(handle, item)

    async def stopped(self, patience: float) -> None:
        """After `close`: wait until no handler runs any more, at most `patience` seconds."""
        others = self._workers - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=patience)

    # ---- calling

    def _call(self, handle: Handle, item: Any) -> Awaitable[None] | None:
        self._calling = True
        try:
            return handle(item)
        except Exception as error:
            self._failed(error)
            return None
        finally:
            self._calling = False

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, PeerError):  # the peer's fault, not the handler's
            self._report(Problem("update", str(error), self.name, error))
            return
        text = f"A handler raised {described(error)}"
        self._report(Problem("handler", text, self.name, error))

    def _next(self) -> Awaitable[None] | None:
        """Handle queued items, up to the next handler that has to be waited for."""
        while self._queue:
            handle, item, size = self._queue.popleft()
            self._size -= size + _OVERHEAD
            if self._full and self._size <= self._limit // 2:
                self._full = False
                self._release(self)
            waiting = self._call(handle, item)
            if waiting is not None:
                return waiting
        return None

    # ---- waiting for handlers

    def _start(self, waiting: Awaitable[None]) -> None:
        if self._closed:
            self._dismiss(waiting)
            return
        loop = asyncio.get_running_loop()
        place = self._entered(loop)
        if self._watch is None:
            self._watch = loop.call_later(self._timeout, self._check)
        worker = spawn(self._work(waiting, place), self._workers)
        if self._place is place:  # where tasks begin at once, it may be over by now
            self._worker = worker

    def _entered(self, loop: asyncio.AbstractEventLoop) -> Place:
        self._since = loop.time()
        self._place = Place(self)
        return self._place

    async def _work(self, first: Awaitable[None], place: Place) -> None:
        loop = asyncio.get_running_loop()
        waiting: Awaitable[None] | None = first
        while waiting is not None:
            _inside.set(place)
            await self._wait(waiting, place)
            if self._place is not place:
                return  # it was abandoned: another task goes on
            waiting = self._next()
            if waiting is not None:
                place = self._entered(loop)
        self._idle()

    async def _wait(self, waiting: Awaitable[None], place: Place) -> None:
        try:
            await waiting
        except Exception as error:
            self._failed(error)
        except asyncio.CancelledError as error:
            me = asyncio.current_task()
            if me is None or me.cancelling():
                raise
            self._failed(error)  # something that the handler waited for was cancelled
        finally:
            place.over = True

    def _dismiss(self, first: Awaitable[None]) -> None:
        """Let the handlers begin, because they were called, and cancel them at once."""
        waiting: Awaitable[None] | None = first
        while waiting is not None:
            _stop(spawn(self._work(waiting, Place(self)), self._workers))
            waiting = self._next()

    def _idle(self) -> None:
        self._place = self._worker = None
        self._size = 0
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._full:
            self._full = False
            self._release(self)

    def _give_up(self) -> None:
        """Abandon the handler that runs."""
        if self._place is not None:
            self._place.over = True
        if self._worker is not None:
            _stop(self._worker)
        self._place = self._worker = None

    def _check(self) -> None:
        """Abandon the handler if it has been running for too long."""
        loop = asyncio.get_running_loop()
        self._watch = None
        if self._place is None:
            return
        left = self._since + self._timeout - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._check)
            return
        self._give_up()
        text = f"A handler did not return within {self._timeout:g} seconds and was abandoned"
        self._report(Problem("stuck", text, self.name))
        waiting = self._next()
        if waiting is None:
            self._idle()
        else:
            self._start(waiting)


def _stop(worker: asyncio.Task[None]) -> None:
    """Cancel a task, but let it begin first: the handler was called already."""
    asyncio.get_running_loop().call_soon(worker.cancel)


def spawn(work: Coroutine[Any, Any, T], keep: set[asyncio.Task[Any]]) -> asyncio.Task[T]:
    """Start a task and keep it in `keep` until it is done: asyncio itself holds no reference."""
    task = asyncio.create_task(work)
    keep.add(task)
    task.add_done_callback(keep.discard)
    return task
