"""One end of a conversation: drives `rpc.connection` over a transport.

Messages are read as they come and handed to a `Listener` in order, without a task in between. A
response is delivered when what came before it in its inbox has been handled. After the end nothing
stays pending.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import UNSET, Struct

from twofold.errors import BadAnswer, ConnectionClosed, ConnectionEnded, NoAnswer, TwofoldError
from twofold.peer.inbox import Inbox, Place, inside
from twofold.peer.problems import Problem, Report, described, guarded, log
from twofold.rpc import connection
from twofold.rpc.batches import Gathering
from twofold.rpc.connection import Batch, Connection, Malformed
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError, RequestFailed
from twofold.rpc.frames import LIMIT
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.transport.base import Transport
from twofold.wire import codec
from twofold.wire.base import Malformed as NotAsSpecified
from twofold.wire.shared import CancelRequestNotification, Error

# What goes out to a peer: lines, gathered and sent together.
#
# Sending never waits, so that order is the order of the calls. Whoever sends in a loop looks at
# `crowded` and waits for `room`: a peer that stops reading makes it wait, not fill memory.


FLUSH = 64 * 1024
"""How many bytes are gathered before they are sent without waiting for more."""


class Outbox:
    """The writing half of a peer."""

    def __init__(self, transport: Transport) -> None:
        self.closed = False
        self.crowded = False
        """Whoever writes in a loop should wait for `room`."""
        self._transport = transport
        self._end: Exception | None = None
        """Why it is closed."""
        self._out: list[bytes] = []
        self._out_size = 0
        self._flushing = False
        self._paused = False
        self._room: asyncio.Future[None] | None = None

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

    def send_now(self, line: bytes) -> None:
        """Send a line that someone waits for, and what was gathered before it."""
        self._out.append(line)
        self.flush()

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
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)
        self.check_open()
        self.crowded = False

    def check_open(self) -> None:
        """Raise why it is closed, if it is."""
        if self.closed:
            error = self._end or ConnectionClosed("The connection is closed.")
            raise error.with_traceback(None)  # raised again and again, it would only grow

    def pause_writing(self) -> None:
        """The peer does not read fast enough (`Receiver`)."""
        self._paused = self.crowded = True

    def resume_writing(self) -> None:
        """The peer has caught up (`Receiver`)."""
        self._paused = False
        self._wake()

    def _wake(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.set_result(None)


# The requests of a peer, each from when it comes to its one answer.
#
# A request is worked on in a task of its own, so that one may wait for another. However that ends
# (with a result, an error, a cancel) it is answered, once, unless the peer is gone. A peer that
# asks more than can be worked on has to wait. Of an error only what was meant for the peer is told.


T = TypeVar("T")
Answer: TypeAlias = Callable[[Request], Awaitable[Any]]

SERVED = 1024
"""How many requests of the peer are worked on before it has to wait."""
REST = 0.05
"""For how many seconds it waits: what it must tell us for them to end may come after them."""
REFUSED = 16 * SERVED
"""How many are worked on before more are refused."""


class Answering:
    """What the peer asked and has not been answered yet."""

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self._fresh: dict[RequestId, bool] = {}
        """Requests that nobody works on yet, and whether they were withdrawn."""
        self._served: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        self._full = False
        """It was reported that requests are refused."""

    def came(self, request: Request) -> None:
        """The peer asked something."""
        self._fresh[request.id] = False

    def serve(self, request: Request, answer: Answer) -> None:
        """Answer `request` with what `answer` returns or raises, in a task of its own."""
        if self._peer.closed:
            return
        withdrawn = self._fresh.pop(request.id, False)
        if len(self._tasks) >= REFUSED:
            advice = "wait for answers before you ask more"
            self.refuse(request, RequestError.too_many("requests at once", REFUSED, advice))
            self._report_full()
            return
        task = asyncio.create_task(self._serve(request, answer))
        self._tasks.add(task)
        # an id that is used twice at once is answered twice; only the latter can be withdrawn
        self._served[request.id] = task
        task.add_done_callback(lambda task: self._done(request, task))
        if withdrawn:
            _cancel(task)
        if len(self._tasks) >= SERVED and self._rest is None:
            self._peer.hold(self)
            self._rest = asyncio.get_running_loop().call_later(REST, self._rested)

    def _report_full(self) -> None:
        if not self._full:
            self._full = True
            text = f"More than {REFUSED} requests of the {self._peer.who} wait: more are refused"
            self._peer.report(Problem("limit", text))

    async def _serve(self, request: Request, answer: Answer) -> None:
        try:
            line = connection.respond(request.id, codec.encode(await answer(request)))
        except Exception as error:
            self.refuse(request, error)
        else:
            self._peer.reply(request, line)

    def _done(self, request: Request, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._served.get(request.id) is task:
            del self._served[request.id]
        if task.cancelled():
            self.refuse(request, RequestError.cancelled())
        if len(self._tasks) < SERVED:
            self._full = False
            if self._rest is not None:
                self._rested()

    def _rested(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._peer.release(self)

    def withdraw(self, identity: RequestId | None) -> None:
        """The peer does not want an answer any more, and gets one that says so."""
        task = find(self._served, identity)
        if task is not None:
            _cancel(task)
        elif identity in self._fresh:
            self._fresh[identity] = True

    # ---- errors

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer `request` with an error; only what was meant for the peer is told."""
        self._fresh.pop(request.id, None)
        told = self._as_error(request, error)
        try:
            line = connection.fail(request.id, told, codec.encode)
        except Exception as wrong:  # what a handler raised may hold anything
            line = connection.fail(request.id, self._as_error(request, wrong))
        self._peer.reply(request, line)

    def _as_error(self, request: Request, error: Exception) -> RequestError:
        if isinstance(error, RequestError):
            return error
        if isinstance(error, NotAsSpecified):
            return RequestError.invalid_params(str(error))
        text = f"Answering {request.method} failed: {described(error)}"
        self._peer.report(Problem("handler", text, error=error))
        return RequestError(INTERNAL_ERROR, "Internal error")

    # ---- the end

    def stop(self) -> None:
        """Nobody waits for an answer any more."""
        self._fresh.clear()
        for task in self._tasks - {asyncio.current_task()}:
            _cancel(task)
        if self._rest is not None:
            self._rested()

    async def stopped(self, patience: float) -> None:
        """Wait, not for long, until everything that was worked on has ended."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=patience)


def _cancel(task: asyncio.Task[None]) -> None:
    """Stop a task that may not have begun: it begins first, for it may have to clean up."""
    asyncio.get_running_loop().call_soon(task.cancel)


def find(table: dict[RequestId, T], identity: RequestId | None) -> T | None:
    """What has an id, also where a number was turned into a string or the other way round."""
    if identity is None:
        return None
    if identity in table:
        return table[identity]
    if isinstance(identity, int):
        return table.get(str(identity))
    # no id of ours is longer
    return table.get(int(identity)) if identity.isdecimal() and len(identity) < 20 else None


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
