"""One end of a conversation: an `rpc.connection` driven over a transport.

Messages are passed to a `Listener` in the order of the wire, without a task in between. A response
is delivered when everything before it in its inbox has been handled. After the end nothing stays
pending.

Sending never waits, so that the order on the wire is the order of the calls. Lines are gathered and
written together. A caller that sends in a loop looks at `crowded` and waits for `room`: a peer that
stops reading then makes it wait instead of filling memory.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from msgspec import UNSET, Struct

from twofold.errors import BadAnswer, ConnectionClosed, ConnectionEnded, NoAnswer, TwofoldError
from twofold.peer.answering import Answer, Answering
from twofold.peer.inbox import Inbox, Place, inside
from twofold.peer.problems import Problem, Report, described, guarded, log
from twofold.rpc import connection
from twofold.rpc.batches import Gathering
from twofold.rpc.connection import (
    Batch,
    Connection,
    Failure,
    Malformed,
    Notification,
    Pending,
    Request,
    Response,
)
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError, RequestFailed
from twofold.rpc.frames import LIMIT
from twofold.transport.base import Transport
from twofold.wire import codec
from twofold.wire.base import Malformed as NotAsSpecified
from twofold.wire.shared import CancelRequestNotification, Error

FLUSH = 64 * 1024
"""How many bytes are gathered before they are written without waiting for more."""
PATIENCE = 1.0
"""How many seconds `close` waits for the tasks that answer requests."""

Arrived: TypeAlias = Callable[[Any], Inbox | None]
"""Called with the result or error of a request as soon as it is read.

Returns the inbox in which the response has to wait, if any.
"""


class Listener(Protocol):
    """Receives the messages of the peer, in order. None of these methods may wait."""

    def updated(self, update: Any, size: int) -> None:
        """Called with what the connection's `first` made of a line of `size` bytes."""

    def requested(self, request: Request) -> None:
        """The peer sent a request: answer it with `Peer.serve`."""

    def notified(self, notification: Notification) -> None:
        """The peer sent a notification."""

    def ended(self, error: Exception | None) -> None:
        """The connection ended; every request to the peer has been settled."""


class _Sent(Struct):
    """A request that was sent and has no response yet."""

    method: str
    future: asyncio.Future[Any]
    shape: Any
    arrived: Arrived | None
    sender: Place | None
    """The handler that sent the request: it cannot wait for its own end."""

    @property
    def blocked(self) -> Inbox | None:
        """The inbox that is stopped until the response arrives."""
        return None if self.sender is None or self.sender.over else self.sender.inbox


class Peer:
    """The other side of a connection.

    Args:
        transport: Carries the bytes; `start` starts it, `close` closes it.
        listener: Receives the messages.
        who: What errors and problems call the peer: "agent" or "client".
        report: Called with every problem; by default they are logged.
        line_limit: How many bytes a line may have.
    """

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
        self.report = guarded(report)
        self.closed = False
        self.crowded = False
        """Whether a caller that sends in a loop should wait for `room`."""
        self._transport = transport
        self._listener = listener
        self._connection = Connection(limit=line_limit)
        self._end: Exception | None = None
        """Why the connection is closed."""

        self._out: list[bytes] = []
        self._out_size = 0
        self._flushing = False
        self._paused = False
        self._room: asyncio.Future[None] | None = None

        self._pending: Pending[_Sent] = Pending()
        self._last_id = 0
        self._undelivered: set[asyncio.Future[Any]] = set()
        """The futures of responses that arrived and wait for a handler."""

        self._strict = who == "client"
        """An agent answers a line that is no message; a client does not, for agents print logs."""
        self._answering = Answering(
            who, self._reply, self.report, hold=self.hold, release=self.release
        )
        self._gatherings: set[Gathering] = set()
        """The batches whose requests are not all answered."""

        self._holders: set[Any] = set()
        self._reading = True

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    def read_first(self, first: Callable[[bytes], Any | None]) -> None:
        """From now on pass every line to `first` before it is read as JSON-RPC."""
        self._connection.first = first

    # ---- sending lines

    def send(self, line: bytes) -> None:
        """Send a line, together with the other lines of this iteration of the event loop."""
        self._out.append(line)
        self._out_size += len(line)
        if self._out_size >= FLUSH:
            self.flush()
            self.crowded = True
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def _send_now(self, line: bytes) -> None:
        """Send a line that somebody waits for, after the lines that were gathered before it."""
        if self._out:
            self._out.append(line)
            self.flush()
        elif not self.closed:
            self._transport.write(line)

    def flush(self) -> None:
        """Write the gathered lines to the transport."""
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_size = 0
            if not self.closed:
                self._transport.write(data)

    async def room(self) -> None:
        """Wait until the peer has read enough, and let other tasks run."""
        await asyncio.sleep(0)
        while self._paused and not self.closed:
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)
        self.check_open()
        self.crowded = False

    def check_open(self) -> None:
        """Raise the reason why the connection is closed, if it is."""
        if self.closed:
            error = self._end or ConnectionClosed("The connection is closed.")
            raise error.with_traceback(None)  # raised again and again, its traceback would grow

    def pause_writing(self) -> None:
        """The peer does not read fast enough (`Receiver`)."""
        self._paused = self.crowded = True

    def resume_writing(self) -> None:
        """The peer has caught up (`Receiver`)."""
        self._paused = False
        self._wake()
        self.release(_RESPONSES)

    def _wake(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.set_result(None)

    # ---- reading

    def received(self, data: bytes) -> None:
        """Bytes arrived (`Receiver`)."""
        if not self.closed:
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
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        text = f"Handling a message of the {self.who} failed: {described(error)}"
        self.report(Problem("handler", text, error=error))

    def _malformed(self, event: Malformed) -> None:
        shown = event.line.decode(errors="replace")
        text = f"The {self.who} sent something that is no message: {event.reason}: {shown}"
        self.report(Problem("noise", text))
        if event.refusal and (self._strict or not event.maybe_log):
            self._respond(event.refusal)

    def _batched(self, batch: Batch) -> None:
        gathering = Gathering(strict=self._strict)
        self._gatherings.add(gathering)
        self._handle(gathering.read(batch))
        self._gathered(gathering, gathering.end())

    def _gathered(self, gathering: Gathering, due: bytes) -> None:
        if not gathering.open:
            self._gatherings.discard(gathering)
        if due:
            self._respond(due)

    def _requested(self, request: Request) -> None:
        self._answering.add(request)
        try:
            self._listener.requested(request)
        except Exception as error:
            self.refuse(request, error)

    def _notified(self, notification: Notification) -> None:
        if notification.method == "$/cancel_request":
            self._cancel_requested(notification)
        else:
            self._listener.notified(notification)

    def _cancel_requested(self, notification: Notification) -> None:
        try:
            params = codec.decode(notification.params or b"{}", CancelRequestNotification)
        except NotAsSpecified as error:
            self.report(Problem("noise", f"$/cancel_request: {error}"))
            return
        self._answering.cancel(params.request_id)

    def _responded(self, response: Response | Failure) -> None:
        sent = self._pending.take(response.id)
        if sent is not None:
            self._deliver(sent, self._outcome(sent, response))
            self._adjust_reading()
        elif not self._pending.is_late(response.id):
            text = f"The {self.who} answered a request that nobody waits for (id {response.id!r})"
            if isinstance(response, Failure):
                text += f": {response.error.decode(errors='replace')[:200]}"
            self.report(Problem("answer", text))

    def _outcome(self, sent: _Sent, response: Response | Failure) -> Any:
        try:
            if isinstance(response, Failure):
                return _failure(sent.method, response.error)
            if sent.shape is None:
                return codec.parse(response.result)
            # many peers send null for an empty result
            result = b"{}" if response.result == b"null" else response.result
            return codec.decode(result, sent.shape)
        except Exception as error:  # whatever it is, the caller must not wait for ever
            return BadAnswer(self.who, sent.method, str(error))

    def _deliver(self, sent: _Sent, outcome: Any) -> None:
        inbox = None
        if sent.arrived is not None:
            try:
                inbox = sent.arrived(outcome)
            except Exception as error:
                self._failed(error)
                outcome = error  # the caller must not wait for ever
        if inbox is None or not inbox.busy or inbox is sent.blocked:
            _settle((sent.future, outcome))
        elif not sent.future.done():
            self._undelivered.add(sent.future)
            sent.future.add_done_callback(self._undelivered.discard)
            inbox.put(_settle, (sent.future, outcome))

    # ---- requests and notifications to the peer

    async def request(
        self,
        method: str,
        params: Any = UNSET,
        shape: Any = None,
        *,
        arrived: Arrived | None = None,
        within: float | None = None,
    ) -> Any:
        """Send a request and wait for its result.

        A request that is abandoned (after `within` seconds, or because the task is cancelled) is
        cancelled by `$/cancel_request`.

        Args:
            method: The method.
            params: A struct, or parsed JSON.
            shape: The type of the result; parsed JSON is returned where there is none.
            arrived: Called as soon as the response is read, before anything after it is.
            within: After how many seconds to give up.

        Raises:
            RequestFailed: The peer answered with an error.
            BadAnswer: The peer answered with a result that is not a `shape`.
            NoAnswer: The peer did not answer in time.
            ConnectionEnded: The peer is gone.
            ConnectionClosed: This side closed the connection.
        """
        identity, future = self._send_request(method, params, shape, arrived)
        try:
            if within is None:
                return await future
            async with asyncio.timeout(within):
                return await future
        except TimeoutError:
            self._give_up(identity)
            raise NoAnswer(self.who, method, within or 0) from None
        except asyncio.CancelledError:
            self._give_up(identity)
            raise

    def _send_request(
        self, method: str, params: Any, shape: Any, arrived: Arrived | None
    ) -> tuple[int, asyncio.Future[Any]]:
        self.check_open()
        identity = self._last_id + 1
        line = connection.request(identity, method, _params(params))
        self._last_id = identity
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.add(identity, _Sent(method, future, shape, arrived, inside()))
        self._send_now(line)
        self._adjust_reading()
        return identity, future

    def _give_up(self, identity: int) -> None:
        if self._pending.give_up(identity) is None:
            return
        self.notify("$/cancel_request", CancelRequestNotification(identity))
        self._adjust_reading()

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification."""
        self.send(connection.notify(method, _params(params)))

    # ---- requests of the peer

    def serve(self, request: Request, answer: Answer) -> None:
        """Answer `request` with what `answer` returns or raises, in a task of its own."""
        self._answering.serve(request, answer)

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer `request` with an error, or with "Internal error" if it was not for the peer."""
        self._answering.refuse(request, error)

    def _reply(self, request: Request, line: bytes) -> None:
        """Send the response to `request`, or keep it for the batch that the request came in."""
        if request.batch is UNSET:
            self._respond(line)
        else:
            self._gathered(request.batch, request.batch.add(request.id, line))

    def _respond(self, line: bytes) -> None:
        """Send a response; requests of a peer that does not read them are no longer read."""
        self._send_now(line)
        if self._paused:
            self.hold(_RESPONSES)

    # ---- making the peer wait

    def hold(self, holder: Any) -> None:
        """Stop reading until `holder`, and every other holder, has released the peer."""
        self._holders.add(holder)
        self._adjust_reading()

    def release(self, holder: Any) -> None:
        """Undo `hold`."""
        if holder in self._holders:
            self._holders.discard(holder)
            self._adjust_reading()

    def _adjust_reading(self) -> None:
        """Read, unless a holder needs the peer to wait.

        A holder that itself waits for a response of the peer does not count: the response would
        never be read.
        """
        if self._reading and not self._holders:
            return
        wanted = self._holders <= {sent.blocked for sent in self._pending}
        if wanted != self._reading and not self.closed:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

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
        for sent in self._pending.clear():
            self._deliver(sent, error)
        self._answering.stop()
        self._wake()

    def _abandon_batches(self) -> None:
        """Send the responses that are there; the requests that have none get an error."""
        closing = RequestError(INTERNAL_ERROR, "The connection is being closed")
        for gathering in list(self._gatherings):
            self._gathered(gathering, gathering.abandon(closing))

    async def close(self) -> None:
        """End the conversation: settle every pending request and close the transport.

        Waits a bounded time for the tasks that answer requests.
        """
        error = ConnectionClosed("The connection was closed before the answer came.")
        try:
            if not self.closed:
                self._abandon_batches()
                self.flush()
                self._settle_all(error)
                self._listener.ended(None)
            for future in list(self._undelivered):
                _settle((future, error))
        finally:
            await self._transport.close()
            await self._answering.stopped(PATIENCE)


_RESPONSES = "responses"  # holds a peer that does not read its responses
_HANDLERS: dict[type, Callable[[Peer, Any], None]] = {
    Request: Peer._requested,
    Notification: Peer._notified,
    Response: Peer._responded,
    Failure: Peer._responded,
    Malformed: Peer._malformed,
    Batch: Peer._batched,
}


def _params(params: Any) -> bytes | None:
    return None if params is UNSET else codec.encode(params)


def _failure(method: str, error: bytes) -> RequestFailed:
    try:
        read: Error = codec.decode(error, Error)
    except NotAsSpecified:
        sent = error.decode(errors="replace")[:200]
        return RequestFailed(method, INVALID_REQUEST, "the peer sent a malformed error", sent)
    return RequestFailed(method, read.code, read.message, read.data)


def _settle(settled: tuple[asyncio.Future[Any], Any]) -> None:
    future, outcome = settled
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
