"""One thing after the other: the inbox of a session.

Whatever belongs to a session is handled in the order it came. A handler that is done at once is
called at once, without a task; one that takes its time is waited for, and what comes meanwhile
queues up behind it. One that never comes back is given up after a while and told of: it hurts its
own session, and not for ever.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from twofold.errors import PeerError
from twofold.runtime.errors import Problem, Report

T = TypeVar("T")
Handle: TypeAlias = Callable[[Any], Awaitable[None] | None]

LIMIT = 1024 * 1024
"""How many bytes of messages may queue up before the peer has to wait."""
TIMEOUT = 30.0
"""For how many seconds a handler is waited for."""

_OVERHEAD = 64  # a message costs something even if it says little

_inside: ContextVar["Inbox | None"] = ContextVar("inside", default=None)


def inside() -> "Inbox | None":
    """The inbox whose handler is running here: it must not wait for its own end."""
    return _inside.get()


class Inbox:
    """Handles what is put into it in order. `hold` and `release` make the sender wait."""

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
        self._report = report
        self._hold, self._release = hold, release
        self._limit = limit
        self._timeout = timeout
        self._queue: deque[tuple[Handle, Any, int]] = deque()
        self._size = 0
        self._full = False
        self._calling = False
        self._worker: asyncio.Task[None] | None = None
        self._since = 0.0
        self._watch: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether something is being handled."""
        return self._worker is not None or self._calling

    def put(self, handle: Handle, item: Any, size: int = 0) -> None:
        """Have `handle(item)` called when everything before it is done."""
        if self._worker is None and not self._calling:
            waiting = self._call(handle, item)
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
        """Have `handle(item)` called right after what is being handled now."""
        if self._worker is None and not self._calling:
            self.put(handle, item)
        else:
            self._queue.appendleft((handle, item, 0))
            self._size += _OVERHEAD

    def close(self) -> None:
        """Handle nothing more."""
        self._queue.clear()
        if self._worker is not None:
            self._worker.cancel()
        self._idle()

    # ---- handlers that take their time

    def _call(self, handle: Handle, item: Any) -> Awaitable[None] | None:
        self._calling = True
        try:
            return handle(item)
        except Exception as error:
            self._failed(error)
            return None
        finally:
            self._calling = False

    def _failed(self, error: Exception) -> None:
        if isinstance(error, PeerError):  # the peer's fault, not the handler's
            self._report(Problem("update", str(error), self.name, error))
            return
        text = f"A handler failed: {type(error).__name__}: {error}"
        self._report(Problem("handler", text, self.name, error))

    def _start(self, waiting: Awaitable[None]) -> None:
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._worker = asyncio.create_task(self._work(waiting))
        if self._watch is None:
            self._watch = loop.call_later(self._timeout, self._check)

    async def _work(self, first: Awaitable[None]) -> None:
        _inside.set(self)
        me, loop = self._worker, asyncio.get_running_loop()
        waiting: Awaitable[None] | None = first
        while waiting is not None:
            try:
                await waiting
            except Exception as error:
                self._failed(error)
            if self._worker is not me:
                return  # it was given up: someone else goes on
            waiting = self._next()
            self._since = loop.time()
        self._idle()

    def _next(self) -> Awaitable[None] | None:
        """Handle what waits, up to the next handler that takes its time."""
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

    def _idle(self) -> None:
        self._worker, self._size = None, 0
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._full:
            self._full = False
            self._release(self)

    def _check(self) -> None:
        """Give the handler up that has been running for too long."""
        loop, worker = asyncio.get_running_loop(), self._worker
        self._watch = None
        if worker is None:
            return
        left = self._since + self._timeout - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._check)
            return
        self._worker = None
        worker.cancel()
        text = f"A handler did not come back within {self._timeout:g} seconds and was given up"
        self._report(Problem("stuck", text, self.name))
        waiting = self._next()
        if waiting is None:
            self._idle()
        else:
            self._start(waiting)


def spawn(work: Coroutine[Any, Any, T], keep: set[asyncio.Task[Any]]) -> asyncio.Task[T]:
    """A task that is not forgotten before it is done."""
    task = asyncio.create_task(work)
    keep.add(task)
    task.add_done_callback(keep.discard)
    return task
