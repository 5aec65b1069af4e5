"""One end of a conversation: drives `rpc.connection` over a transport.

Messages are read as they come and handed to a `Listener` in order, without a task in between. A
response is delivered when what came before it in its inbox has been handled. After the end nothing
stays pending.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from msgspec import UNSET, Struct

from twofold.errors import BadAnswer, ConnectionClosed, ConnectionEnded, NoAnswer, TwofoldError
from twofold.rpc import connection
from twofold.rpc.batches import Gathering
from twofold.rpc.connection import Batch, Connection, Malformed
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError, RequestFailed
from twofold.rpc.frames import LIMIT
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.runtime.answering import Answer, Answering, find
from twofold.runtime.inbox import Inbox, Place, inside
from twofold.runtime.outbox import Outbox
from twofold.runtime.problems import Problem, Report, described, guarded, log
from twofold.runtime.transport import Transport
from twofold.wire import codec
from twofold.wire.base import Malformed as NotAsSpecified
from twofold.wire.shared import CancelRequestNotification, Error

GIVEN_UP = 1024
"""How many requests that were given up are remembered: an answer to them is no news."""
PATIENCE = 1.0
"""How many seconds `close` waits for what was being worked on."""

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
    id: int
    method: str
    future: asyncio.Future[Any]
    shape: Any
    arrived: Arrived | None
    asker: Place | None
    """The handler that asks: it cannot wait for itself."""

    @property
    def asking(self) -> Inbox | None:
        """The inbox that is stopped until the answer comes."""
        return None if self.asker is None or self.asker.over else self.asker.inbox


class Peer(Outbox):
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
        super().__init__(transport)
        self.who = who
        self._strict = who == "client"
        """An agent answers what is no message; a client does not, for agents print logs."""
        self.report = guarded(report)
        self._listener = listener
        self._connection = Connection(limit=line_limit)
        self._asked: dict[RequestId, _Asked] = {}
        self._last_id = 0
        self._given_up: dict[RequestId, int] = {}
        self._undelivered: set[asyncio.Future[Any]] = set()
        """Those whose answer came and has to wait for a handler."""
        self._answering = Answering(self)
        self._gatherings: set[Gathering] = set()
        """The batches whose requests are not all answered."""
        self._holders: set[Any] = set()
        self._reading = True

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    def read_first(self, first: Callable[[bytes], Any | None]) -> None:
        """From now on every line is shown to `first` before anyone else looks at it."""
        self._connection.first = first

    # ---- what comes

    def received(self, data: bytes) -> None:
        """Bytes came (`Receiver`)."""
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
            self.answer(event.refusal)

    def _batched(self, batch: Batch) -> None:
        gathering = Gathering(strict=self._strict)
        self._gatherings.add(gathering)
        self._handle(gathering.read(batch))
        self._gathered(gathering, gathering.end())

    def _gathered(self, gathering: Gathering, due: bytes) -> None:
        if not gathering.open:
            self._gatherings.discard(gathering)
        if due:
            self.answer(due)

    def _requested(self, request: Request) -> None:
        self._answering.came(request)
        try:
            self._listener.requested(request)
        except Exception as error:
            self.refuse(request, error)

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
        self._answering.withdraw(params.request_id)

    def _answered(self, answer: Response | Failure) -> None:
        asked = find(self._asked, answer.id)
        if asked is not None:
            del self._asked[asked.id]
            self._deliver(asked, self._outcome(asked, answer))
            self._look()
            return
        late = find(self._given_up, answer.id)
        if late is not None:
            del self._given_up[late]
        else:
            text = f"The {self.who} answered a request that nobody waits for (id {answer.id!r})"
            if isinstance(answer, Failure):
                text += f": {answer.error.decode(errors='replace')[:200]}"
            self.report(Problem("answer", text))

    def _outcome(self, asked: _Asked, answer: Response | Failure) -> Any:
        try:
            if isinstance(answer, Failure):
                return _failure(asked.method, answer.error)
            if asked.shape is None:
                return codec.parse(answer.result)
            # many answer null where there is nothing to say
            return codec.decode(b"{}" if answer.result == b"null" else answer.result, asked.shape)
        except Exception as error:  # whatever it is, whoever asked must not wait for ever
            return BadAnswer(self.who, asked.method, str(error))

    def _deliver(self, asked: _Asked, outcome: Any) -> None:
        inbox = None
        if asked.arrived is not None:
            try:
                inbox = asked.arrived(outcome)
            except Exception as error:
                self._failed(error)
                outcome = error  # whoever asked must not wait for ever
        if inbox is None or not inbox.busy or inbox is asked.asking:
            _settle((asked.future, outcome))
        elif not asked.future.done():
            self._undelivered.add(asked.future)
            asked.future.add_done_callback(self._undelivered.discard)
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
        self.check_open()
        identity = self._last_id + 1
        line = connection.request(identity, method, _params(params))
        self._last_id = identity
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[identity] = _Asked(identity, method, future, shape, arrived, inside())
        self.send_now(line)
        self._look()
        return identity, future

    def _give_up(self, identity: int) -> None:
        if self._asked.pop(identity, None) is None:
            return
        self._given_up[identity] = identity
        if len(self._given_up) > GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]
        self.notify("$/cancel_request", CancelRequestNotification(identity))
        self._look()

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Tell something."""
        self.send(connection.notify(method, _params(params)))

    # ---- what we are asked

    def serve(self, request: Request, answer: Answer) -> None:
        """Answer `request` with what `answer` returns or raises, in a task of its own."""
        self._answering.serve(request, answer)

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer `request` with an error; only what was meant for the peer is told."""
        self._answering.refuse(request, error)

    def reply(self, request: Request, line: bytes) -> None:
        """Send the answer to `request`, or keep it for the batch that the request came in."""
        if request.batch is UNSET:
            self.answer(line)
        else:
            self._gathered(request.batch, request.batch.add(request.id, line))

    def answer(self, line: bytes) -> None:
        """Send an answer; a peer that does not read them may not ask more."""
        self.send_now(line)
        if self._paused:
            self.hold(_ANSWERS)

    # ---- making the peer wait

    def resume_writing(self) -> None:
        """The peer has caught up (`Receiver`)."""
        super().resume_writing()
        self.release(_ANSWERS)

    def hold(self, holder: Any) -> None:
        """Read no more until `holder` (and every other) has released it."""
        self._holders.add(holder)
        self._look()

    def release(self, holder: Any) -> None:
        """`holder` has room again."""
        if holder in self._holders:
            self._holders.discard(holder)
            self._look()

    def _look(self) -> None:
        """Read, unless someone needs the peer to wait; who waits for the peer needs it to talk."""
        if self._reading and not self._holders:
            return
        wanted = self._holders <= {asked.asking for asked in self._asked.values()}
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
        asked, self._asked = self._asked, {}
        for each in asked.values():
            self._deliver(each, error)
        self._answering.stop()
        self._wake()

    def _abandon_batches(self) -> None:
        """Send the answers that are there; the requests that have none get an error."""
        closing = RequestError(INTERNAL_ERROR, "The connection is being closed")
        for gathering in list(self._gatherings):
            self._gathered(gathering, gathering.abandon(closing))

    async def close(self) -> None:
        """End the conversation; what is pending is settled, and nothing is waited for for long."""
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


_ANSWERS = "answers"  # who holds the peer that does not read them
_HANDLERS: dict[type, Callable[[Peer, Any], None]] = {
    Request: Peer._requested,
    Notification: Peer._notified,
    Response: Peer._answered,
    Failure: Peer._answered,
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
