"""Streamable HTTP to an agent as a transport: each line is a POST, and answers are events.

The first line has to be `initialize`; its answer is the body of the response, and every other
message of the server is read from an event stream: one for the connection, one for each session.
Lines are posted one after the other, so their order is kept. Servers differ, and all of these work:

- both headers are always sent: the id of the connection, and that of the session, also with the
  answer to a request of the agent;
- a stream of a session is opened before `session/load` is posted; if the server has none (404), the
  request is posted without the header, and the stream is opened after its answer;
- where the answer to `session/load` is on another stream than the replay, it is held until the
  replay was read: the answer to a request that follows on the replay's stream marks its end;
- a stream that ends is opened again, with `Last-Event-ID` if the server numbers its events. Without
  numbers nothing may be missing: then only a stream is opened again that nobody waits for.

An error of the server that concerns one request is the answer to that request. Memory is bounded:
messages have a limit, and while reading is paused nothing is read.
"""

import asyncio
import json
import random
from collections import deque
from contextlib import suppress
from typing import Any, Final

import httpx2
import msgspec
from msgspec import UNSET, Struct, UnsetType

from twofold.rpc import connection
from twofold.rpc.connection import Failure, Notification, Request, RequestId, Response, read_line
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.transport.base import HIGH_WATER, Receiver
from twofold.transport.endpoint import (
    MESSAGE_LIMIT,
    OPEN_TIMEOUT,
    Endpoint,
    NotReached,
    RemoteEnded,
    why_lost,
)
from twofold.transport.event_stream import MEDIA_TYPE, EventStream, EventTooLong

CONNECTION_ID: Final = "Acp-Connection-Id"
SESSION_ID: Final = "Acp-Session-Id"
LAST_EVENT_ID: Final = "Last-Event-ID"

POST_TIMEOUT = 120.0
"""How many seconds a server has to accept a message; it may wait until we have read more."""
STREAM_TIMEOUT = 5.0
"""How many seconds a message waits for the stream of its session to open."""
CLOSE = 2.0
"""How many seconds each step of `close` may take."""
TRIES = 6
"""How often a stream is opened in a row without an event."""
FIRST_DELAY = 0.25
LONGEST_DELAY = 8.0
"""How many seconds pass before a stream is opened again: twice as many each time."""
LONGEST_RETRY = 30.0
"""How many seconds a server may ask us to wait before a stream is opened again."""
QUIET = 60.0
"""After how many seconds without anything a stream is given up that had comments before."""
SILENCE = 5.0
"""After how many seconds without an event a replay is taken to be complete."""
ASKED = 4096
"""How many requests of the server are remembered with their session."""
COOKIES = 50
"""How many cookies are kept; they keep a client at one server behind a balancer."""
KEEP_ALIVE = 3.0
"""How many seconds an idle connection is kept: servers close theirs after five."""
ERROR_SIZE = 8 * 1024
LONGEST_ID = 4096
"""How many characters an id may have that is remembered or put into a header."""

_ATTACH = frozenset({"session/load", "session/resume"})
_OPEN = frozenset({"session/new", "session/fork"})
_CLOSE = frozenset({"session/close", "session/delete"})
_BARRIER = "_twofold/barrier"
_MARK = "twofold-barrier-"
"""How the ids of requests begin that mark the end of a replay: their answers are not passed on."""


class StreamableHttp:
    """Streamable HTTP as a transport; make one with `open`.

    The receiver's `ended` gets a `NotReached` if the server does not accept `initialize`, and a
    `RemoteEnded` if the connection ends later.

    Attributes:
        endpoint: Where it is connected to.
        connection_id: The id that the server gave the connection; None before `initialize`.
    """

    way: Final = "streamable HTTP"
    """What it is called."""

    def __init__(self, endpoint: Endpoint, limit: int) -> None:
        self.endpoint = endpoint
        self.connection_id: str | None = None
        self._limit = limit
        self._http = httpx2.AsyncClient(
            headers={**endpoint.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(OPEN_TIMEOUT, read=None, pool=None),
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE),
            follow_redirects=False,
        )
        self._receiver: Receiver | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._unsent: deque[bytes] = deque()
        self._unsent_size = 0
        self._partial = b""
        """The beginning of a line whose end was not written yet."""
        self._has_unsent = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._all_sent.set()
        self._full = False
        self._streams: dict[str | None, _Stream] = {}
        """The open streams by session; that of the connection is None's."""
        self._pending: dict[RequestId, _Sent] = {}
        self._asked: dict[RequestId, str] = {}
        """The session of each request of the server that was not answered yet."""
        self._held: dict[RequestId, _Held] = {}
        """Answers that wait for the end of a replay, by the id of the request that marks it."""
        self._marks = 0
        self._posting: asyncio.Task[None] | None = None
        self._ended = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str | Endpoint,
        *,
        token: str | None = None,
        limit: int = MESSAGE_LIMIT,
    ) -> "StreamableHttp":
        """A transport to a server, which is connected to when `initialize` is written.

        Args:
            url: The URL, with the scheme http or https.
            token: Sent as `Authorization: Bearer`.
            limit: How many bytes a message of the server may have.

        Raises:
            BadUrl: The URL or the token cannot be used.
        """
        return cls(url if isinstance(url, Endpoint) else Endpoint(url, token), limit)

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on."""
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        self._posting = asyncio.create_task(self._post_all())

    def write(self, data: bytes) -> None:
        """Post the lines that `data` completes, without waiting; dropped after the end."""
        if self._ended or self._closing is not None:
            return
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            for message in _single(line):
                self._queue(message)
        if self._unsent_size > HIGH_WATER and not self._full:
            self._full = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`: a server that goes on sending has to wait."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._may_read.set()

    async def close(self) -> None:
        """Post what waits to be sent and delete the connection, in a bounded time.

        The receiver's `ended` is called, and it receives no more data.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut_down())
        await asyncio.shield(self._closing)

    # ---- posting

    def _queue(self, line: bytes) -> None:
        self._unsent.append(line)
        self._unsent_size += len(line)
        self._all_sent.clear()
        self._has_unsent.set()

    async def _post_all(self) -> None:
        while True:
            await self._has_unsent.wait()
            while self._unsent:
                line = self._unsent.popleft()
                try:
                    await self._post(line)
                except Exception as error:  # whatever it is, nobody may wait for ever
                    self._end(RemoteEnded(self.endpoint.shown, why_lost(error)))
                    return
                self._unsent_size -= len(line)
                if self._unsent_size <= HIGH_WATER // 2:
                    self._has_room()
            self._has_unsent.clear()
            self._all_sent.set()

    def _has_room(self) -> None:
        if self._full:
            self._full = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    async def _post(self, line: bytes) -> None:
        message = next(iter(read_line(line)), None)
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(message.id, line)
        elif self.connection_id is None:
            if isinstance(message, Request):
                self._fail(message.id, "the connection has to begin with initialize")
        elif isinstance(message, Request | Notification):
            await self._post_call(message, line)
        elif isinstance(message, Response | Failure) and message.id is not None:
            await self._post_message(line, self._asked.pop(message.id, None), None)

    async def _post_call(self, message: Request | Notification, line: bytes) -> None:
        session = _session_of(message.params)
        identity = message.id if isinstance(message, Request) else None
        if identity is not None:
            self._pending[identity] = _Sent(message.method, session)
        # a server that has no stream for the session wants no header for it, either
        named = session if session is None or await self._opened(session) else None
        if identity is not None and identity not in self._pending:
            return  # it failed with its stream
        await self._post_message(line, named, identity)

    async def _post_message(
        self, line: bytes, session: str | None, identity: RequestId | None
    ) -> None:
        headers = self._headers(session) | {"Content-Type": "application/json"}
        request = self._http.stream(
            "POST",
            self.endpoint.http_url,
            content=line,
            headers=headers,
            timeout=httpx2.Timeout(OPEN_TIMEOUT, read=POST_TIMEOUT, write=POST_TIMEOUT, pool=None),
        )
        async with request as response:
            self._bound_cookies()
            if not response.is_success:
                detail = await _beginning(response)
                self._refused(response.status_code, detail, session, identity)

    def _refused(
        self, status: int, detail: str, session: str | None, identity: RequestId | None
    ) -> None:
        """The server did not accept a message: its sender gets an error, or the connection ends."""
        alive = None in self._streams and session is not None
        reason = self.endpoint.why(status, detail)
        if status in (401, 403) or (status in (404, 410) and not alive):
            self._end(RemoteEnded(self.endpoint.shown, _gone(status) or reason, status))
        elif identity is not None:
            self._fail(identity, reason)
        elif status not in (404, 410):  # what was sent to a session that is gone is not missed
            self._end(RemoteEnded(self.endpoint.shown, reason, status))

    def _headers(self, session: str | None) -> dict[str, str]:
        headers = {CONNECTION_ID: self.connection_id or ""}
        return headers if session is None else headers | {SESSION_ID: session}

    def _fail(self, identity: RequestId, reason: str) -> None:
        """Answer a request that the server will not answer."""
        if self._is_mark(identity):
            return
        self._pending.pop(identity, None)
        error = RequestError(INTERNAL_ERROR, f"The server did not accept the request: {reason}")
        self._pass_on(connection.fail(identity, error))

    def _bound_cookies(self) -> None:
        if len(self._http.cookies) > COOKIES:
            self._http.cookies.clear()

    # ---- the beginning

    async def _initialize(self, identity: RequestId, line: bytes) -> None:
        """Begin a connection; another one, if there is one already."""
        await self._leave()
        try:
            async with self._http.stream(
                "POST",
                self.endpoint.http_url,
                content=line,
                headers={"Content-Type": "application/json"},
            ) as response:
                body = await _body(response, self._limit)
        except (httpx2.HTTPError, OSError) as error:
            self._end(self.endpoint.not_reached(error))
            return
        answer = body.replace(b"\n", b" ")
        given = response.headers.get(CONNECTION_ID)
        answers = _is_answer(answer, identity)
        if answers and (not response.is_success or given):
            self.connection_id = given if response.is_success else None
            if self.connection_id is not None:
                self._start_stream(None)
            self._pass_on(answer + b"\n")
        else:
            self._end(self._no_answer(response, body))

    def _no_answer(self, response: httpx2.Response, body: bytes) -> NotReached:
        if not response.is_success:
            detail = body[:ERROR_SIZE].decode(errors="replace")
            location = response.headers.get("Location", "")
            return self.endpoint.refused(response.status_code, detail, location)
        missing = f"there is no {CONNECTION_ID} in its answer"
        if response.headers.get(CONNECTION_ID):
            missing = "its answer to initialize is no answer of the protocol"
        return NotReached(
            self.endpoint.shown,
            f"it is not an ACP endpoint: {missing}. Check the URL.",
            response.status_code,
        )

    # ---- streams

    async def _opened(self, session: str) -> bool:
        """Whether the server has a stream for the session, once it is open or refused."""
        stream = self._streams.get(session) or self._start_stream(session)
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_TIMEOUT):
                return await asyncio.shield(stream.opened)
        return True  # some send nothing before the first event

    def _start_stream(self, session: str | None) -> "_Stream":
        stream = _Stream(session, asyncio.get_running_loop().create_future())
        self._streams[session] = stream
        stream.task = asyncio.create_task(self._follow(stream))
        return stream

    def _drop_stream(self, stream: "_Stream", *, found: bool) -> None:
        if self._streams.get(stream.session) is stream:
            del self._streams[stream.session]
        stream.over = True
        if not stream.opened.done():
            stream.opened.set_result(found)
        for mark in [mark for mark, held in self._held.items() if held.stream is stream]:
            self._release(mark)

    async def _follow(self, stream: "_Stream") -> None:
        """Read a stream, and open it again when it ends, until it is over."""
        while True:
            before = stream.received
            events = EventStream(self._limit, stream.last_id)
            try:
                outcome = await self._read(stream, events)
            except EventTooLong:
                reason = f"the server sent a message of more than {self._limit} bytes."
                self._end(RemoteEnded(self.endpoint.shown, reason))
                return
            except Exception as error:  # of the network, of a library, or of the receiver
                outcome = why_lost(error)
            if stream.over or self._ended:
                return
            stream.last_id = events.last_id
            stream.tries = stream.tries + 1 if stream.received == before else 0
            if not self._goes_on(stream, outcome, whole=events.whole):
                return
            await asyncio.sleep(_delay(stream.tries, events.retry))

    async def _read(self, stream: "_Stream", events: EventStream) -> "_Refused | str":
        """Read one response; how it ended: a refusal, a text, or "" for a regular end."""
        headers = self._headers(stream.session) | {"Accept": MEDIA_TYPE}
        if stream.last_id:
            headers[LAST_EVENT_ID] = stream.last_id.decode("latin-1")
        async with self._http.stream("GET", self.endpoint.http_url, headers=headers) as response:
            self._bound_cookies()
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            encoding = response.headers.get("Content-Encoding", "identity").lower()
            if response.status_code != 200 or kind != MEDIA_TYPE or encoding != "identity":
                return _Refused(response.status_code, await _beginning(response))
            if not stream.opened.done():
                stream.opened.set_result(True)
            async with asyncio.timeout(None) as limit:
                async for piece in response.aiter_raw():
                    limit.reschedule(None)
                    for event in events.feed(piece):
                        await self._may_read.wait()
                        if self._ended or stream.over:
                            return ""
                        self._deliver(event.data.replace(b"\n", b" "), stream)
                    await self._may_read.wait()
                    stream.last_at = asyncio.get_running_loop().time()
                    limit.reschedule(stream.last_at + QUIET if events.commented else None)
        return ""

    def _goes_on(self, stream: "_Stream", outcome: "_Refused | str", *, whole: bool) -> bool:
        """Decide what follows the end of a stream; False if it is not opened again."""
        if isinstance(outcome, _Refused):
            return self._goes_on_after(stream, outcome)
        regular = outcome == "" and whole
        reason = outcome or "the server closed the stream of its messages."
        waiting = any(stream.session in (None, sent.session) for sent in self._pending.values())
        if stream.last_id or (regular and not waiting):
            if stream.tries < TRIES:
                return True
            self._end(RemoteEnded(self.endpoint.shown, reason))
        elif regular and stream.session is not None:
            self._drop_stream(stream, found=True)  # the next message opens it again
            self._fail_session(stream.session, "it closed the stream of the session.")
        else:
            self._end(RemoteEnded(self.endpoint.shown, reason))
        return False

    def _goes_on_after(self, stream: "_Stream", refused: "_Refused") -> bool:
        status, session = refused.status, stream.session
        if status == 404 and session is not None:
            was_open = stream.opened.done()
            self._drop_stream(stream, found=False)
            if was_open:
                self._fail_session(session, "it does not know the session any more (status 404).")
            return False
        if status in (409, 429) or status >= 500:
            if stream.tries < TRIES:
                return True
            if session is not None:
                self._drop_stream(stream, found=True)
                words = "another client reads the session" if status == 409 else "it failed"
                self._fail_session(session, f"{words} (status {status}).")
                return False
        reason = _gone(status) or self.endpoint.why(status, refused.detail)
        self._end(RemoteEnded(self.endpoint.shown, reason, status))
        return False

    def _fail_session(self, session: str, reason: str) -> None:
        for identity, sent in list(self._pending.items()):
            if sent.session == session:
                self._fail(identity, reason)

    # ---- delivering

    def _deliver(self, line: bytes, stream: "_Stream") -> None:
        stream.received += 1
        stream.last_at = asyncio.get_running_loop().time()
        for message in read_line(line):
            if isinstance(message, Request):
                self._remember(message, stream)
            elif isinstance(message, Response | Failure) and self._waits(message, line, stream):
                return
        self._pass_on(line + b"\n")

    def _pass_on(self, line: bytes) -> None:
        if self._receiver is not None and not self._ended and self._closing is None:
            self._receiver.received(line)

    def _remember(self, request: Request, stream: "_Stream") -> None:
        session = _session_of(request.params) or stream.session
        if session is not None and len(str(request.id)) <= LONGEST_ID:
            self._asked[request.id] = session
            if len(self._asked) > ASKED:
                del self._asked[next(iter(self._asked))]

    def _waits(self, answer: Response | Failure, line: bytes, stream: "_Stream") -> bool:
        """Note the answer to a request; True if it is not passed on now."""
        if answer.id is None:
            return False
        if self._is_mark(answer.id):
            return True
        sent = self._pending.pop(answer.id, None)
        if sent is None or isinstance(answer, Failure):
            return False
        if sent.method in _OPEN:
            session = _session_of(answer.result)
            if session is not None and session not in self._streams:
                self._start_stream(session)
        elif sent.method in _ATTACH and sent.session is not None:
            replay = self._streams.get(sent.session)
            if replay is None:
                self._start_stream(sent.session)
            elif replay is not stream and replay.session is not None:
                self._hold(line, replay)
                return True
        elif sent.method in _CLOSE and (closed := self._streams.get(sent.session)) is not None:
            if closed is not stream and closed.task is not None:
                closed.task.cancel()
            self._drop_stream(closed, found=True)
        return False

    # ---- the end of a replay

    def _hold(self, line: bytes, stream: "_Stream") -> None:
        """Hold an answer until the stream has delivered what was sent before it.

        The answer to any request that names the session is written to its stream, after the replay.
        An agent refuses this one, because it does not know the method.
        """
        self._marks += 1
        mark = f"{_MARK}{self._marks}"
        stream.last_at = asyncio.get_running_loop().time()
        self._held[mark] = _Held(line, stream)
        params = json.dumps({"sessionId": stream.session}).encode()
        self._queue(connection.request(mark, _BARRIER, params).rstrip())
        self._watch(mark)

    def _watch(self, mark: str) -> None:
        """Release an answer if its stream was silent for too long: nothing may wait for ever."""
        held, loop = self._held.get(mark), asyncio.get_running_loop()
        if held is None or self._ended:
            return
        until = held.stream.last_at + SILENCE
        if until <= loop.time() and self._may_read.is_set():
            self._release(mark)
        else:
            loop.call_at(max(until, loop.time() + FIRST_DELAY), self._watch, mark)

    def _is_mark(self, identity: RequestId) -> bool:
        if not isinstance(identity, str) or not identity.startswith(_MARK):
            return False
        self._pending.pop(identity, None)
        self._release(identity)
        return True

    def _release(self, mark: RequestId) -> None:
        held = self._held.pop(mark, None)
        if held is not None:
            self._pass_on(held.line + b"\n")

    # ---- the end

    def _end(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._unsent.clear()
        self._all_sent.set()
        self._has_room()
        self._stop()
        if self._receiver is not None:
            self._receiver.ended(None if self._closing is not None else error)

    def _stop(self) -> list[asyncio.Task[None]]:
        """Cancel what reads and posts, but for the task that calls this."""
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        if self._posting is not None:
            tasks.append(self._posting)
        others = [task for task in tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        return others

    async def _leave(self) -> None:
        """Delete the connection, if there is one."""
        left, self.connection_id = self.connection_id, None
        self._pending.clear()
        self._asked.clear()
        streams = [stream for stream in self._streams.values() if stream.task is not None]
        for stream in streams:
            self._drop_stream(stream, found=False)
            if stream.task is not None:
                stream.task.cancel()
        if left is not None:
            with suppress(httpx2.HTTPError, OSError, TimeoutError):
                async with asyncio.timeout(CLOSE):
                    headers = {CONNECTION_ID: left}
                    await self._http.delete(self.endpoint.http_url, headers=headers)

    async def _shut_down(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE):
                await self._all_sent.wait()
        stopped = self._stop()
        self._end(None)
        await asyncio.gather(*stopped, return_exceptions=True)
        await self._leave()
        with suppress(TimeoutError, httpx2.HTTPError, OSError):
            async with asyncio.timeout(CLOSE):
                await self._http.aclose()


# ---- parts -------------------------------------------------------------------------------------


class _Sent(Struct, frozen=True):
    """A request that has no answer yet."""

    method: str
    session: str | None


class _Refused(Struct, frozen=True):
    """A stream that the server did not open."""

    status: int
    detail: str


class _Stream:
    """A stream of messages: that of a session, or of the connection."""

    def __init__(self, session: str | None, opened: asyncio.Future[bool]) -> None:
        self.session = session
        self.opened = opened
        """Done when the server has answered: whether there is such a stream."""
        self.task: asyncio.Task[None] | None = None
        self.last_id = b""
        self.last_at = 0.0
        """When the last event was read, by the clock of the loop."""
        self.received = 0
        self.tries = 0
        self.over = False


class _Held(Struct, frozen=True):
    """The answer to a request for a replay, and the stream that the replay is on."""

    line: bytes
    stream: Any


class _Named(Struct, rename="camel"):
    session_id: str | UnsetType = UNSET


_named = msgspec.json.Decoder(_Named).decode


def _session_of(value: Any) -> str | None:
    """The session that params or a result name; None if they name none, or one no header holds."""
    try:
        session = _named(value) if value else _Named()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    named = session.session_id
    if not named or len(named) > LONGEST_ID or not (named.isascii() and named.isprintable()):
        return None
    return named


def _single(line: bytes) -> list[bytes]:
    """The messages of a line, one by one: servers take no batches."""
    bare = line.strip()
    if bare[:1] != b"[":
        return [bare] if bare else []
    try:
        return [bytes(entry) for entry in msgspec.json.decode(bare, type=list[msgspec.Raw])]
    except msgspec.DecodeError:  # no message, either
        return []


def _is_answer(line: bytes, identity: RequestId) -> bool:
    events = list(read_line(line))
    return any(isinstance(each, Response | Failure) and each.id == identity for each in events)


def _gone(status: int) -> str:
    if status in (404, 410):
        return f"the server does not know the connection any more (status {status})."
    return ""


def _delay(tries: int, retry: float | None) -> float:
    """How long to wait before a stream is opened again, with some chance in it."""
    longest: float = min(FIRST_DELAY * 2.0**tries, LONGEST_DELAY)
    return max(longest * random.uniform(0.5, 1.0), min(retry or 0.0, LONGEST_RETRY))


async def _body(response: httpx2.Response, limit: int) -> bytes:
    """The body of an answer.

    Raises:
        httpx2.HTTPError: It is longer than `limit`, or broke off.
    """
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > limit:
            raise httpx2.RemoteProtocolError(f"a message of more than {limit} bytes")
    return bytes(body)


async def _beginning(response: httpx2.Response) -> str:
    """The beginning of what a server wrote about an error; never waited for long."""
    body = bytearray()
    with suppress(httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(CLOSE):
            async for piece in response.aiter_raw():
                body += piece[: ERROR_SIZE - len(body)]
                if len(body) >= ERROR_SIZE:
                    break
    return body.decode(errors="replace")
