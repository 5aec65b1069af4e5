"""One end of a conversation: drives `rpc.connection` over a transport.

Messages are read as they come and handed to a `Listener` in order, without a task in between. A
response is delivered when what came before it in its inbox has been handled. Requests of the peer
are answered by tasks of their own, so that one may wait for another. Writes are gathered and go
out together; a peer that stops reading makes whoever writes wait. After the end nothing stays
pending.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from msgspec import UNSET, Struct

from twofold.errors import TwofoldError
from twofold.rpc import connection
from twofold.rpc.connection import Connection, Malformed
from twofold.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RequestError,
    RequestFailed,
)
from twofold.rpc.frames import LIMIT
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.runtime.errors import (
    BadAnswer,
    ConnectionClosed,
    ConnectionEnded,
    NoAnswer,
    Problem,
    Report,
    log,
)
from twofold.runtime.inbox import Inbox, inside
from twofold.runtime.transport import Transport
from twofold.wire import codec
from twofold.wire.base import Malformed as NotAsSpecified
from twofold.wire.shared import CancelRequestNotification, Error

FLUSH = 64 * 1024
"""How many bytes are gathered before they are sent without waiting for more."""
SERVED = 1024
"""How many requests of the peer are worked on before it has to wait."""

Answer: TypeAlias = Callable[[Request], Awaitable[Any]]
Arrived: TypeAlias = Callable[[Any], Inbox | None]
"""Called with a result or an error the moment it comes; says in whose inbox it has to wait."""


class Listener(Protocol):
    """Who is told what the peer says, in order. None of it may wait."""

    def updated(self, update: Any, size: int) -> None:
        """What the connection's `first` made of a line of `size` bytes."""

    def requested(self, request: Request) -> None:
        """The peer wants an answer: `Peer.serve` gives it."""

    def notified(self, notification: Notification) -> None:
        """The peer tells something."""

    def ended(self, error: Exception | None) -> None:
        """The peer is gone; what was asked of it has been settled."""


class _Asked(Struct):
    method: str
    future: asyncio.Future[Any]
    shape: Any
    arrived: Arrived | None
    asker: Inbox | None
    """The inbox whose handler asks: it cannot wait for itself."""


class Peer:
    """The other side of a connection; `who` is what errors call it."""

    def __init__(
        self,
        transport: Transport,
        listener: Listener,
        *,
        who: str,
        report: Report = log,
        line_limit: int = LIMIT,
    ) -> None:
        self.who = who
        self.report = report
        self.closed = False
        self.crowded = False
        """Whoever writes in a loop should wait for `room`."""
        self._transport = transport
        self._listener = listener
        self._connection = Connection(limit=line_limit)
        self._asked: dict[RequestId, _Asked] = {}
        self._last_id = 0
        self._served: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._out: list[bytes] = []
        self._out_size = 0
        self._flushing = False
        self._paused = False
        self._room: list[asyncio.Future[None]] = []
        self._holders: set[Any] = set()
        self._end: Exception | None = None

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    def read_first(self, first: Callable[[bytes], Any | None]) -> None:
        """From now on every line is shown to `first` before anyone else looks at it."""
        self._connection.first = first

    # ---- what comes

    def received(self, data: bytes) -> None:
        """Bytes came (`Receiver`)."""
        self._handle(self._connection.receive(data))

    def _handle(self, events: Iterator[Any]) -> None:
        updated, connection = self._listener.updated, self._connection
        for event in events:
            handle = _HANDLERS.get(type(event))
            try:
                if handle is None:
                    updated(event, connection.size)
                else:
                    handle(self, event)
            except Exception as error:  # one message must not take the others with it
                text = f"Handling a message of the {self.who} failed: {type(error).__name__}"
                self.report(Problem("handler", f"{text}: {error}", error=error))

    def _malformed(self, event: Malformed) -> None:
        shown = event.line.decode(errors="replace")
        text = f"The {self.who} sent something that is no message: {event.reason}: {shown}"
        self.report(Problem("noise", text))
        if event.refusal:
            self.send(event.refusal)

    def _requested(self, request: Request) -> None:
        self._listener.requested(request)

    def _notified(self, notification: Notification) -> None:
        if notification.method == "$/cancel_request":
            self._withdrawn(notification)
        else:
            self._listener.notified(notification)

    def _withdrawn(self, notification: Notification) -> None:
        try:
            params = codec.decode(notification.params or b"{}", CancelRequestNotification)
        except NotAsSpecified as error:
            self.report(Problem("noise", f"$/cancel_request: {error}"))
            return
        task = self._served.get(params.request_id)
        if task is not None:
            task.cancel()

    def _answered(self, answer: Response | Failure) -> None:
        asked = self._asked.pop(answer.id, None) if answer.id is not None else None
        if asked is None and isinstance(answer.id, str) and answer.id.isdecimal():
            asked = self._asked.pop(int(answer.id), None)  # some turn a number into a string
        if asked is None:
            text = f"The {self.who} answered a request that nobody waits for (id {answer.id!r})"
            self.report(Problem("answer", text))
            return
        self._deliver(asked, self._outcome(asked, answer))

    def _outcome(self, asked: _Asked, answer: Response | Failure) -> Any:
        if isinstance(answer, Failure):
            return _failure(asked.method, answer.error)
        result = b"{}" if answer.result == b"null" and asked.shape is not None else answer.result
        try:
            return codec.parse(result) if asked.shape is None else codec.decode(result, asked.shape)
        except NotAsSpecified as error:
            return BadAnswer(self.who, asked.method, str(error))

    def _deliver(self, asked: _Asked, outcome: Any) -> None:
        inbox = None
        if asked.arrived is not None:
            inbox = asked.arrived(outcome)
        if inbox is None or not inbox.busy or inbox is asked.asker:
            _settle((asked.future, outcome))
        else:
            inbox.put(_settle, (asked.future, outcome))

    # ---- what we ask

    async def request(
        self,
        method: str,
        params: Any = UNSET,
        shape: Any = None,
        *,
        arrived: Arrived | None = None,
        within: float | None = None,
    ) -> Any:
        """Ask, and wait for the result: a `shape`, or parsed JSON where none is given.

        `arrived` is called the moment the answer comes, before anything that came after it is
        looked at. Giving up (after `within` seconds, or because the task is cancelled) tells the
        peer so.
        """
        identity, future = self._ask(method, params, shape, arrived)
        try:
            async with asyncio.timeout(within):
                return await future
        except TimeoutError:
            self._give_up(identity)
            raise NoAnswer(self.who, method, within or 0) from None
        except asyncio.CancelledError:
            self._give_up(identity)
            raise

    def _ask(
        self, method: str, params: Any, shape: Any, arrived: Arrived | None
    ) -> tuple[int, asyncio.Future[Any]]:
        if self.closed:
            raise self._end or ConnectionClosed("The connection is closed.")
        self._last_id += 1
        identity = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[identity] = _Asked(method, future, shape, arrived, inside())
        self.send(connection.request(identity, method, _params(params)))
        return identity, future

    def _give_up(self, identity: int) -> None:
        if self._asked.pop(identity, None) is not None:
            self.notify("$/cancel_request", CancelRequestNotification(identity))

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Tell something."""
        self.send(connection.notify(method, _params(params)))

    # ---- what we are asked

    def serve(self, request: Request, answer: Answer) -> None:
        """Answer `request` with what `answer` returns or raises, in a task of its own."""
        if self.closed:
            return
        task = asyncio.create_task(self._serve(request, answer))
        self._tasks.add(task)
        # an id that is used twice at once is answered twice; only the latter can be withdrawn
        self._served[request.id] = task
        task.add_done_callback(lambda task: self._done(request.id, task))
        if len(self._tasks) >= SERVED:
            self.hold(self)

    def _done(self, identity: RequestId, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._served.get(identity) is task:
            del self._served[identity]
        if len(self._tasks) < SERVED:
            self.release(self)

    async def _serve(self, request: Request, answer: Answer) -> None:
        try:
            line = connection.respond(request.id, codec.encode(await answer(request)))
        except asyncio.CancelledError:
            self.send(connection.fail(request.id, RequestError.cancelled()))
            raise
        except Exception as error:
            self.refuse(request, error)
        else:
            self.send(line)
        if self.crowded:
            with suppress(TwofoldError):  # the peer is gone: nobody has to wait for it
                await self.room()

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer `request` with an error; only what was meant for the peer is told."""
        self.send(connection.fail(request.id, self._as_error(request, error)))

    def _as_error(self, request: Request, error: Exception) -> RequestError:
        if isinstance(error, RequestError):
            return error
        if isinstance(error, NotAsSpecified):
            return RequestError.invalid_params(str(error))
        text = f"Answering {request.method} failed: {type(error).__name__}: {error}"
        self.report(Problem("handler", text, error=error))
        return RequestError(INTERNAL_ERROR, "Internal error")

    # ---- what goes out

    def send(self, line: bytes) -> None:
        """Send a line, together with what else is sent in this turn of the loop."""
        self._out.append(line)
        self._out_size += len(line)
        if self._out_size >= FLUSH:
            self.flush()
            self.crowded = True
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Hand what was gathered to the transport."""
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_size = 0
            if not self.closed:
                self._transport.write(data)

    async def room(self) -> None:
        """Wait until the peer has read enough of what was sent, and let others have a turn."""
        await asyncio.sleep(0)
        while self._paused and not self.closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(future)
            await future
        if self.closed:
            raise self._end or ConnectionClosed("The connection is closed.")
        self.crowded = False

    def pause_writing(self) -> None:
        """The peer does not read fast enough (`Receiver`)."""
        self._paused = self.crowded = True

    def resume_writing(self) -> None:
        """The peer has caught up (`Receiver`)."""
        self._paused = False
        self._wake()

    def _wake(self) -> None:
        room, self._room = self._room, []
        for future in room:
            if not future.done():
                future.set_result(None)

    # ---- making the peer wait

    def hold(self, holder: Any) -> None:
        """Read no more until `holder` (and every other) has released it."""
        if not self._holders:
            self._transport.pause_reading()
        self._holders.add(holder)

    def release(self, holder: Any) -> None:
        """`holder` has room again."""
        if holder in self._holders:
            self._holders.discard(holder)
            if not self._holders and not self.closed:
                self._transport.resume_reading()

    # ---- the end

    def ended(self, error: Exception | None) -> None:
        """The peer is gone (`Receiver`)."""
        if self.closed:
            return
        self._handle(self._connection.end())
        if not isinstance(error, TwofoldError):
            error = ConnectionEnded(f"The {self.who} closed the connection.")
        self._settle_all(error)
        self._listener.ended(error)

    def _settle_all(self, error: Exception) -> None:
        self.closed, self._end = True, error
        asked, self._asked = self._asked, {}
        for each in asked.values():
            self._deliver(each, error)
        for task in self._tasks:
            task.cancel()
        self._wake()

    async def close(self) -> None:
        """End the conversation; what is pending is settled, and nothing is waited for for long."""
        if not self.closed:
            self.flush()
            error = ConnectionClosed("The connection was closed before the answer came.")
            self._settle_all(error)
            self._listener.ended(None)
        await self._transport.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)


_HANDLERS: dict[type, Callable[[Peer, Any], None]] = {
    Request: Peer._requested,
    Notification: Peer._notified,
    Response: Peer._answered,
    Failure: Peer._answered,
    Malformed: Peer._malformed,
}


def _params(params: Any) -> bytes | None:
    return None if params is UNSET else codec.encode(params)


def _failure(method: str, error: bytes) -> RequestFailed:
    try:
        read: Error = codec.decode(error, Error)
    except NotAsSpecified:
        sent = error.decode(errors="replace")[:200]
        return RequestFailed(method, INVALID_REQUEST, "an error that is none", sent)
    return RequestFailed(method, read.code, read.message, read.data)


def _settle(settled: tuple[asyncio.Future[Any], Any]) -> None:
    future, outcome = settled
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
