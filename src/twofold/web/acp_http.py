"""The server's end of streamable HTTP that carries ACP: posts to us, event streams from us.

`initialize` is answered in the body of its POST, and begins a connection. Every other message of
the client is a POST that is answered with 202; messages of ours are events: those of a session on
the stream of that session if the client has one, all others on the stream of the connection.

Clients differ, so the header of a session is needed nowhere; one that contradicts the message is an
error. What belongs to a session that was just opened waits a moment for its stream. The replay of a
session and the answer that ends it are on one stream. Events are numbered: a client that lost a
stream names the last event it has and is sent what followed. What waits for a client is bounded.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from twofold.rpc.connection import Batch, Failure, Malformed, Notification, RequestId, read_line
from twofold.rpc.connection import Request as RpcRequest
from twofold.rpc.connection import Response as RpcResponse
from twofold.transport.base import HIGH_WATER, Receiver, Transport
from twofold.web.access import Guest
from twofold.web.acp_websocket import CONNECTION_ID, as_line

SESSION_ID: Final = "Acp-Session-Id"
EVENTS: Final = "text/event-stream"

LARGEST_BODY: Final = 32 << 20
"""Bytes of one message of a client."""
MOST_BODIES: Final = 128 << 20
"""Bytes of all messages that are being read at once."""
COMMENT: Final = 15.0
"""Seconds between two comments on a stream: idle proxies cut after 16."""
HELD: Final = 1.0
"""Seconds for which messages of a session that was just opened wait for its stream."""
KEPT: Final = 4 << 20
"""Bytes of events that were sent and are kept, in case the client did not get them."""
MOST_STREAMS: Final = 1_000
"""Sessions of one connection that have a stream."""
ALONE: Final = 60.0
"""Seconds after which a connection is ended that has no stream and sends nothing."""
PENDING: Final = 16_384
"""Requests of either side that are remembered with their session."""
INITIALIZED: Final = 30.0
"""Seconds that the answer to `initialize` may take."""

_OPENING: Final = frozenset({"session/new", "session/fork", "session/load", "session/resume"})
_CLOSING: Final = frozenset({"session/close", "session/delete"})

Begin: TypeAlias = Callable[[Transport, Guest, RpcRequest, str], "asyncio.Task[None]"]
"""Begins to serve a client; the task ends when it is gone."""


class _Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class HttpClients:
    """The connections over streamable HTTP.

    Args:
        begin: Begins to serve a client.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._connections: dict[str, HttpTransport] = {}
        self._reading = 0
        """Bytes of messages that are being read."""

    async def answer(self, request: Request, guest: Guest, *, is_full: bool) -> Response:
        """Answer one request."""
        try:
            match request.method:
                case "POST":
                    return await self._post(request, guest, is_full=is_full)
                case "GET":
                    return self._get(request, guest)
                case "DELETE":
                    self._find(request, guest).leave()
                    return Response(status_code=202)
            raise _Refused(405, "Send POST, GET or DELETE.")
        except _Refused as refused:
            body = msgspec.json.encode({"message": str(refused)})
            return Response(body, refused.status, media_type="application/json")

    def _find(self, request: Request, guest: Guest) -> "HttpTransport":
        identity = request.headers.get(CONNECTION_ID)
        if not identity:
            raise _Refused(400, f"The header {CONNECTION_ID} is missing: begin with initialize.")
        found = self._connections.get(identity)
        if found is None or found.guest.token != guest.token:
            raise _Refused(404, "There is no such connection (any more). Begin with initialize.")
        return found

    # ---- messages of the client

    async def _post(self, request: Request, guest: Guest, *, is_full: bool) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise _Refused(415, "A message is application/json.")
        transport = self._find(request, guest) if CONNECTION_ID in request.headers else None
        line = as_line(await self._body(request))
        event = next(iter(read_line(line)), None)
        if isinstance(event, Batch):
            raise _Refused(501, "Batches are not supported: send one message at a time.")
        if event is None or isinstance(event, Malformed):
            raise _Refused(400, "This is no JSON-RPC message.")
        if isinstance(event, RpcRequest) and event.method == "initialize" and transport is None:
            if is_full:
                raise _Refused(503, "This server has too many clients already.")
            return await self._initialize(guest, event, line)
        if transport is None:
            raise _Refused(400, f"The header {CONNECTION_ID} is missing: begin with initialize.")
        await transport.deliver(event, line, request.headers.get(SESSION_ID))
        return Response(status_code=202)

    async def _body(self, request: Request) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in request.stream():
                pieces.append(piece)
                size += len(piece)
                self._reading += len(piece)
                if size > LARGEST_BODY:
                    raise _Refused(413, f"A message has at most {LARGEST_BODY:,} bytes.")
                if self._reading > MOST_BODIES:
                    raise _Refused(503, "This server is being sent too much at once.")
            return b"".join(pieces)
        finally:
            self._reading -= size

    async def _initialize(self, guest: Guest, request: RpcRequest, line: bytes) -> Response:
        identity = secrets.token_urlsafe(24)
        transport = HttpTransport(guest, request, line)
        self._connections[identity] = transport
        serving = self._begin(transport, guest, request, identity)
        serving.add_done_callback(lambda _: self._gone(identity))
        try:
            async with asyncio.timeout(INITIALIZED):
                answer = await transport.initialized
        except (TimeoutError, asyncio.CancelledError):
            transport.leave()
            raise _Refused(503, "The server did not answer in time.") from None
        headers = {CONNECTION_ID: identity}
        return Response(answer, 200, headers, media_type="application/json")

    def _gone(self, identity: str) -> None:
        transport = self._connections.pop(identity, None)
        if transport is not None:
            transport.leave()

    # ---- streams

    def _get(self, request: Request, guest: Guest) -> Response:
        accepted = request.headers.get("accept", "")
        if not any(kind in accepted for kind in (EVENTS, "text/*", "*/*")):
            raise _Refused(406, f"A stream is {EVENTS}: accept it.")
        transport = self._find(request, guest)
        session = request.headers.get(SESSION_ID) or None
        return _EventResponse(transport.open(session, request.headers.get("last-event-id")))


# ---- one client ----------------------------------------------------------------------------------


class HttpTransport:
    """A connection over streamable HTTP as a transport.

    Args:
        guest: Who it belongs to.
        request: The `initialize` of the client.
        first: Its line.
    """

    def __init__(self, guest: Guest, request: RpcRequest, first: bytes) -> None:
        self.guest = guest
        self.initialized: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """The answer to `initialize`."""
        self._first_id = request.id
        self._first = first
        self._receiver: Receiver | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._partial = b""
        self._full = False
        self._ended = False
        self._connection = _Mailbox(self._taken)
        self._sessions: dict[str, _Mailbox] = {}
        self._waits: dict[str, asyncio.TimerHandle] = {}
        """Sessions that were just opened: until then their messages wait for a stream."""
        self._pending: dict[RequestId, _Sent] = {}
        """Requests of the client that are not answered."""
        self._asked: dict[RequestId, str] = {}
        """The sessions of our requests that are not answered."""
        self._alone: asyncio.TimerHandle | None = None

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on."""
        self._receiver = receiver
        self._expect()
        first, self._first = self._first, b""
        asyncio.get_running_loop().call_soon(self._pass_on, first)

    def write(self, data: bytes) -> None:
        """Put each line that `data` completes on a stream."""
        if self._ended:
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._send(line)
        if self._size > HIGH_WATER and not self._full:
            self._full = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`: posts are answered later."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._may_read.set()

    async def close(self) -> None:
        """End all streams once what waits for them was sent, and the connection."""
        self.leave()

    def leave(self) -> None:
        """The client has left, or is put out."""
        if self._ended:
            return
        self._ended = True
        self._may_read.set()
        for timer in [*self._waits.values(), *filter(None, [self._alone])]:
            timer.cancel()
        if not self.initialized.done():
            self.initialized.cancel()
        for mailbox in self._mailboxes:
            mailbox.finish()
        if self._receiver is not None:
            self._receiver.ended(None)

    @property
    def _mailboxes(self) -> "list[_Mailbox]":
        return [self._connection, *self._sessions.values()]

    @property
    def _size(self) -> int:
        return sum(mailbox.size for mailbox in self._mailboxes)

    def _taken(self) -> None:
        """A stream took something, or is gone."""
        self._expect()
        for session in [name for name, mailbox in self._sessions.items() if mailbox.is_unused]:
            del self._sessions[session]
        if self._full and self._size <= HIGH_WATER // 2:
            self._full = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    def _expect(self) -> None:
        """End the connection if the client has no stream and sends nothing for long."""
        if self._alone is not None:
            self._alone.cancel()
            self._alone = None
        if not self._ended and not any(mailbox.is_read for mailbox in self._mailboxes):
            self._alone = asyncio.get_running_loop().call_later(ALONE, self.leave)

    # ---- what the client sends

    async def deliver(self, event: Any, line: bytes, header: str | None) -> None:
        """Pass on a message of the client, once there is room for it.

        Raises:
            _Refused: It contradicts its header.
        """
        session = self._session_of(event)
        if header and session is not None and header != session:
            raise _Refused(400, f"{SESSION_ID} names another session than the message.")
        self._expect()
        await self._may_read.wait()
        if self._ended:
            raise _Refused(404, "There is no such connection (any more). Begin with initialize.")
        if isinstance(event, RpcRequest):
            _remember(self._pending, event.id, _Sent(event.method, session or header))
        elif isinstance(event, RpcResponse | Failure) and event.id is not None:
            self._asked.pop(event.id, None)
        self._pass_on(line)

    def _session_of(self, event: Any) -> str | None:
        if isinstance(event, RpcRequest | Notification):
            return _named(event.params)
        identity = event.id
        return self._asked.get(identity) if identity is not None else None

    def _pass_on(self, line: bytes) -> None:
        if self._receiver is not None and not self._ended:
            self._receiver.received(line)

    # ---- what the client is sent

    def _send(self, line: bytes) -> None:
        event = next(iter(read_line(line)), None)
        if isinstance(event, RpcRequest | Notification):
            session = _named(event.params)
            if session is not None and isinstance(event, RpcRequest):
                _remember(self._asked, event.id, session)
            self._mailbox(session).put(line)
        elif isinstance(event, RpcResponse | Failure) and event.id is not None:
            self._send_answer(event.id, line, event)

    def _send_answer(self, identity: RequestId, line: bytes, event: RpcResponse | Failure) -> None:
        if not self.initialized.done() and identity == self._first_id:
            self.initialized.set_result(line)
            return
        sent = self._pending.pop(identity, None)
        session = sent.session if sent is not None else None
        mailbox = self._mailbox(session)
        mailbox.put(line)
        if sent is None:
            return
        if sent.method in _CLOSING and session in self._sessions:
            # the client closes it: some take the end of a stream for the end of their next request
            self._sessions[session].is_left = True
        elif sent.method in _OPENING and isinstance(event, RpcResponse):
            opened = session or _named(event.result)
            if opened is not None and opened not in self._sessions:
                self._wait_for_stream(opened)

    def _mailbox(self, session: str | None) -> "_Mailbox":
        return self._sessions.get(session or "", self._connection)

    def _wait_for_stream(self, session: str) -> None:
        """Hold what follows of a session until its stream is opened, but not for long."""
        if session in self._waits or len(self._sessions) >= MOST_STREAMS:
            return
        self._sessions[session] = _Mailbox(self._taken)
        loop = asyncio.get_running_loop()
        self._waits[session] = loop.call_later(HELD, self._has_no_stream, session)

    def _has_no_stream(self, session: str) -> None:
        """The client opened no stream for the session: it reads that of the connection."""
        del self._waits[session]
        held = self._sessions.pop(session)
        for line in held.lines():
            self._connection.put(line)

    def open(self, session: str | None, last: str | None) -> "_Stream":
        """Open a stream.

        Args:
            session: The session; None for the stream of the connection.
            last: The id of the last event that the client has, if it lost the stream.

        Raises:
            _Refused: It is open already, or what was missed is no longer kept.
        """
        mailbox = self._connection
        if session is not None:
            timer = self._waits.pop(session, None)
            if timer is not None:
                timer.cancel()
            found = self._sessions.get(session)
            if found is None and len(self._sessions) >= MOST_STREAMS:
                raise _Refused(429, f"A connection has at most {MOST_STREAMS:,} streams.")
            mailbox = found or self._sessions.setdefault(session, _Mailbox(self._taken))
        stream = mailbox.open(last)
        self._expect()
        return stream


class _Sent(Struct, frozen=True):
    """A request of the client."""

    method: str
    session: str | None


def _remember(table: dict[RequestId, Any], identity: RequestId, value: Any) -> None:
    table[identity] = value
    if len(table) > PENDING:
        del table[next(iter(table))]


class _Named(Struct, rename="camel"):
    session_id: str | UnsetType = UNSET


_decode_named = msgspec.json.Decoder(_Named).decode


def _named(value: Any) -> str | None:
    """The session that params or a result name; None if they name none."""
    try:
        found = _decode_named(value) if value else _Named()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found.session_id or None


# ---- streams -------------------------------------------------------------------------------------


class _Mailbox:
    """The events of one stream: those that wait, and the last that were sent.

    Args:
        on_taken: Called when the stream took something, or has no reader any more.
    """

    def __init__(self, on_taken: Callable[[], None]) -> None:
        self.size = 0
        """Bytes that wait."""
        self._on_taken = on_taken
        self._epoch = secrets.token_urlsafe(6)
        self._last = 0
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._sent: deque[tuple[int, bytes]] = deque()
        self._sent_size = 0
        self._stream: _Stream | None = None
        self._finished = False
        self._changed = asyncio.Event()

        self.is_left = False
        """The client has closed the session."""

    @property
    def is_read(self) -> bool:
        """Whether the stream is open."""
        return self._stream is not None

    @property
    def is_unused(self) -> bool:
        """Whether nothing more is expected of it."""
        return self.is_left and self._stream is None

    def put(self, line: bytes) -> None:
        """Add an event."""
        self._last += 1
        self._waiting.append((self._last, line))
        self.size += len(line)
        self._changed.set()

    def lines(self) -> Iterator[bytes]:
        """The events that wait."""
        return (line for _, line in self._waiting)

    def finish(self) -> None:
        """Nothing more is added: the stream ends when all was sent."""
        self._finished = True
        self._changed.set()

    def open(self, last: str | None) -> "_Stream":
        """Open the stream; with `last`, in the place of one that was lost."""
        if last is not None:
            self._go_back(last)
        elif self._stream is not None:
            raise _Refused(409, "This stream is open already.")
        if self._stream is not None:
            self._stream.is_over = True
            self._changed.set()
        self._stream = stream = _Stream(self)
        return stream

    def _go_back(self, last: str) -> None:
        """Send again what followed an event."""
        epoch, _, number = last.rpartition("-")
        known = number.isascii() and number.isdigit() and len(number) < 16
        seen = int(number) if known and epoch == self._epoch else -1
        oldest = self._sent[0][0] if self._sent else self._last - len(self._waiting) + 1
        if not oldest - 1 <= seen <= self._last:
            raise _Refused(410, "What followed this event is not kept any more. Begin again.")
        while self._sent and self._sent[-1][0] > seen:
            number_of, line = self._sent.pop()
            self._sent_size -= len(line)
            self._waiting.appendleft((number_of, line))
            self.size += len(line)

    async def next(self, stream: "_Stream") -> bytes | None:
        """The next event as it is sent; None at the end of the stream."""
        while not stream.is_over:
            if self._waiting:
                number, line = self._waiting.popleft()
                self.size -= len(line)
                self._keep(number, line)
                return b"id: %b-%d\ndata: %b\n\n" % (self._epoch.encode(), number, line)
            if self._finished:
                return None
            self._changed.clear()
            await self._changed.wait()
        return None

    def _keep(self, number: int, line: bytes) -> None:
        self._sent.append((number, line))
        self._sent_size += len(line)
        while self._sent_size > KEPT:
            self._sent_size -= len(self._sent.popleft()[1])

    def taken(self) -> None:
        """What `next` returned was sent."""
        self._on_taken()

    def closed(self, stream: "_Stream") -> None:
        """The client closed the stream, or lost it."""
        if self._stream is stream:
            self._stream = None
            self._on_taken()


class _Stream:
    """One response with events."""

    def __init__(self, mailbox: _Mailbox) -> None:
        self.mailbox = mailbox
        self.is_over = False
        """Another one took its place."""


class _EventResponse(Response):
    """The response that a stream is."""

    def __init__(self, stream: _Stream) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(None, 200, headers, media_type=EVENTS)
        del self.headers["content-length"]
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client is gone or there are no more."""
        sending = asyncio.create_task(self._send_all(send))
        watching = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait([sending, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)
            self._stream.mailbox.closed(self._stream)

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await send(_piece(b": open\n\n"))
        mailbox = self._stream.mailbox
        waiting = asyncio.ensure_future(mailbox.next(self._stream))
        try:
            while True:
                done, _ = await asyncio.wait([waiting], timeout=COMMENT)
                if not done:
                    await send(_piece(b": \n\n"))
                    continue
                event = waiting.result()
                if event is None:
                    break
                await send(_piece(event))
                mailbox.taken()
                waiting = asyncio.ensure_future(mailbox.next(self._stream))
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _piece(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
