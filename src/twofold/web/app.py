"""The server of the page as an ASGI application: who is answered, and with what.

Every request passes one gate: its `Host` and `Origin`, its pace, who sends it. Behind that are the
page, its files, the socket, and the files, media and exports of sessions. Everything is answered
with the headers of `access`, and nothing is answered with a traceback.
"""

import asyncio
import hashlib
import logging
import mimetypes
import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from twofold import __version__
from twofold.errors import LocalError, TwofoldError
from twofold.host.host import Host, NoSuchSession
from twofold.host.hosted_session import HostedSession
from twofold.session import Session
from twofold.styled.documents import DocumentFormat, document_steps
from twofold.web.access import HEADERS, ROLES, Access, Guest, Refusal, Role
from twofold.web.acp import PATH, AcpEndpoint, new_identity
from twofold.web.acp_websocket import CONNECTION_ID
from twofold.web.encode import media_bytes, parsed_key
from twofold.web.files import NotShown, shown_file
from twofold.web.live_socket import Closed, LiveSockets, Pace

RATE: Final = 50.0
"""Requests per second of one peer, on the average."""
BURST: Final = 300
MOST_PEERS: Final = 1_000
"""Peers whose pace is remembered."""
AT_ONCE: Final = 0.002
"""Seconds that a document is worked on before it is the turn of all else."""
LONGEST_BODY: Final = 4_096
"""Bytes of what a request may bring along; messages come over the socket."""

_ENTER: Final = b'location.replace("/");\n'
_ENTERED: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Twofold</title>
<script src="/enter.js"></script></head>
<body><p>You are let in. <a href="/">Go on to the sessions.</a></p></body></html>
"""
_WORDS: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Twofold</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><h1>{title}</h1><p>{words}</p></body></html>
"""
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_PRINTED: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)
_SHOWN_MEDIA: Final = frozenset(
    {
        *("image/png", "image/jpeg", "image/gif", "image/webp"),
        *("audio/mpeg", "audio/wav", "audio/ogg", "audio/mp4", "audio/webm", "audio/flac"),
    }
)
_SUFFIXES: Final[Mapping[DocumentFormat, tuple[str, str]]] = {
    "markdown": ("md", "text/markdown; charset=utf-8"),
    "html": ("html", "text/html; charset=utf-8"),
    "jsonl": ("jsonl", "application/x-ndjson"),
}

_log = logging.getLogger("twofold.web")


class Refused(LocalError):
    """A request cannot be answered.

    Attributes:
        status: The status of the response.
    """

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Link(msgspec.Struct):
    """Asks for an address that lets somebody in."""

    role: Role


# ---- the files of the page ---------------------------------------------------------------------


class StaticFile(NamedTuple):
    """A file of the page."""

    data: bytes
    kind: str
    etag: str


def page_files() -> dict[str, StaticFile]:
    """The files of the page by their paths; they are read once."""
    return dict(_files(files("twofold.web") / "static", ""))


def _files(folder: Traversable, above: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    if not folder.is_dir():
        return found
    for each in folder.iterdir():
        path = f"{above}{each.name}"
        if each.is_dir():
            found += _files(each, f"{path}/")
        else:
            data = each.read_bytes()
            kind = _TYPES.get(path[path.rfind(".") :]) or mimetypes.guess_type(path)[0]
            etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
            found.append((path, StaticFile(data, kind or "application/octet-stream", etag)))
    return found


# ---- the application ---------------------------------------------------------------------------


@dataclass
class App:
    """The ASGI application.

    Args:
        host: The sessions.
        access: Who may come in.
        behind_proxy: Whether peers are named by the last entry of `X-Forwarded-For`.
        home: The user's home directory, which the page writes as `~`.
    """

    host: Host
    access: Access
    behind_proxy: bool = False
    home: str = ""
    _paces: OrderedDict[str, Pace] = field(default_factory=OrderedDict)
    _exporting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a document is made: only one at a time takes turns with all else."""

    def __post_init__(self) -> None:
        self.sockets = LiveSockets(self.host, self._welcome)
        self.acp = AcpEndpoint(self.host)
        self._files = page_files()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or serve one socket."""
        if scope["type"] == "http":
            request = Request(scope, receive)
            response = await self._answered(request)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Cache-Control", "no-store")
            await response(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._upgrade(WebSocket(scope, receive, send), receive, send)

    @property
    def is_exporting(self) -> bool:
        """Whether a document is being made."""
        return self._exporting.locked()

    def put_out(self) -> None:
        """End what is open of guests whose token is no longer valid."""
        self.sockets.put_out(self.access.is_valid)
        self.acp.put_out(self.access.is_valid)

    def close(self) -> None:
        """End all that is open: the server is going."""
        self.sockets.close()
        self.acp.close()

    def _welcome(self) -> Mapping[str, Any]:
        try:
            agents = self.host.agents()
        except TwofoldError:  # a settings file that cannot be used: starting an agent says so
            agents = []
        facts = {"version": __version__, "agents": agents, "now": time.time()}
        return {**facts, "cwd": str(self.host.cwd), "home": self.home}

    # ---- the gate

    def _refusal(self, connection: HTTPConnection) -> Refusal | None:
        headers = connection.headers
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or len(origins) > 1:
            return Refusal(HTTPStatus.BAD_REQUEST, "A request names one host, and one origin.")
        return self.access.refusal(hosts[0], origins[0] if origins else None)

    def _guest(self, connection: HTTPConnection, *, upgrade: bool = False) -> Guest | Refusal:
        headers = connection.headers
        reads = not upgrade and connection.scope["method"] in ("GET", "HEAD")
        authorization = headers.get("authorization")
        if connection.url.path == PATH:
            reads = False  # what a stream sends is for programs, and for pages of ours
            # some clients can set no headers
            token = _query(connection).get("token")
            authorization = authorization or (f"Bearer {token}" if token else None)
        return self.access.guest(
            "upgrade" if upgrade else "read" if reads else "change",
            origin=headers.get("origin"),
            cookies=headers.getlist("cookie"),
            authorization=authorization,
            agent=headers.get("user-agent", ""),
        )

    def _is_too_fast(self, connection: HTTPConnection) -> bool:
        peer = connection.client.host if connection.client else ""
        forwarded = connection.headers.get("x-forwarded-for", "")
        if self.behind_proxy and forwarded:
            peer = forwarded.rpartition(",")[2].strip()[:64]
        pace = self._paces.pop(peer, None) or Pace(RATE, BURST)
        self._paces[peer] = pace
        if len(self._paces) > MOST_PEERS:
            self._paces.popitem(last=False)
        return not pace.may_go()

    # ---- requests

    async def _answered(self, request: Request) -> Response:
        try:
            if self._is_too_fast(request):
                words = "Too many requests. Wait a moment."
                raise Refused(HTTPStatus.TOO_MANY_REQUESTS, words)
            refusal = self._refusal(request)
            if refusal is not None:
                return _words(request, refusal)
            return await self._route(request)
        except Refused as error:
            return _words(request, Refusal(error.status, str(error)))
        except NoSuchSession as error:
            return _words(request, Refusal(HTTPStatus.NOT_FOUND, str(error)))
        except TwofoldError as error:
            return _words(request, Refusal(HTTPStatus.BAD_REQUEST, str(error)))
        except Exception as error:
            # the path may hold a code, and the query a path
            _log.error("A request of the page failed", exc_info=error)
            words = "The server failed to do this. Its log has the reason."
            return _words(request, Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, words))

    async def _route(self, request: Request) -> Response:
        steps = request.url.path.split("/")[1:]
        match request.method, steps:
            case (("GET" | "HEAD"), ["enter", code]):
                return self._enter(code)
            case (("GET" | "HEAD"), ["enter.js"]):
                return Response(_ENTER, media_type=_TYPES[".js"])
        guest = self._guest(request)
        if isinstance(guest, Refusal):
            return _words(request, guest)
        match request.method, steps:
            case (("GET" | "HEAD"), [""]):
                return self._file(request, "index.html")
            case (("GET" | "HEAD"), ["static", *names]):
                return self._file(request, "/".join(names))
            case (("GET" | "HEAD"), ["session", identity, "file"]):
                return await self._session_file(request, self.host.find(identity))
            case (("GET" | "HEAD"), ["session", identity, "export"]):
                return await self._export(request, self.host.find(identity))
            case (("GET" | "HEAD"), ["session", identity, "print"]):
                return await self._print(request, self.host.find(identity))
            case (("GET" | "HEAD"), ["session", identity, "media", key, number]):
                return self._media(self.host.find(identity), key, number)
            case "POST", ["links"]:
                return await self._link(request, guest)
            case _, ["acp"]:
                return await self.acp.answer(request, guest)
            case _, ["" | "static" | "session" | "enter" | "enter.js" | "links", *_]:
                raise Refused(
                    HTTPStatus.METHOD_NOT_ALLOWED
                    if request.method not in ("GET", "HEAD")
                    else HTTPStatus.NOT_FOUND,
                    "There is nothing here.",
                )
        raise Refused(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _enter(self, code: str) -> Response:
        """Let a browser in by a one-time code.

        The cookie is not sent with a redirect of a navigation that another site or a file began,
        because it is `SameSite=Strict`: so the page goes on by itself.
        """
        role = self.access.use_code(code) if self.access.tokens is not None else "controller"
        if role is None:
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "This address was used already, or is too old: it lets one browser in, once."
                " Run `twofold serve --link` for a new one.",
            )
        response = Response(_ENTERED, media_type=_TYPES[".html"])
        if self.access.tokens is not None:
            response.headers["Set-Cookie"] = self.access.new_cookie(role)
        return response

    def _file(self, request: Request, path: str) -> Response:
        found = self._files.get(path)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such file.")
        headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
        known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
        if found.etag in known:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(found.data, media_type=found.kind, headers=headers)

    async def _session_file(self, request: Request, hosted: HostedSession) -> Response:

        query = _query(request)
        line = query.get("line", "")
        number = int(line) if line.isascii() and line.isdigit() and len(line) < 10 else None
        try:
            shown = await asyncio.to_thread(shown_file, hosted.roots, query.get("path", ""), number)
        except NotShown as error:
            return _json({"message": str(error)}, HTTPStatus.NOT_FOUND)
        return _json(shown)

    async def _export(self, request: Request, hosted: HostedSession) -> Response:
        wanted = _query(request).get("format", "")
        chosen = next((form for form in _SUFFIXES if form == wanted), None)
        if chosen is None:
            known = ", ".join(_SUFFIXES)
            raise Refused(HTTPStatus.BAD_REQUEST, f"A session is exported as one of {known}.")
        text = await self._document(request, hosted, chosen)
        suffix, kind = _SUFFIXES[chosen]
        return _download(text.encode(errors="replace"), kind, f"session.{suffix}")

    async def _print(self, request: Request, hosted: HostedSession) -> Response:
        """The session as a page by itself, which the page that opens it prints.

        It has no script, and its own policy allows nothing but its own stylesheet; that of the
        response cannot name it, and forbids all else.
        """
        text = await self._document(request, hosted, "html")
        headers = {"Content-Security-Policy": _PRINTED}
        return Response(text.encode(errors="replace"), 200, headers, _TYPES[".html"])

    async def _document(self, request: Request, hosted: HostedSession, form: DocumentFormat) -> str:
        await hosted.ready()
        session, facts = hosted.live.session, (hosted.agent_name,)
        async with self._exporting:
            if await request.is_disconnected():
                return ""
            steps = document_steps(session, form, cwd=str(hosted.cwd), facts=facts)
            return await _in_turns(steps)

    def _media(self, hosted: HostedSession, key: str, number: str) -> Response:
        parsed = parsed_key(key)
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        session: Session = hosted.live.session
        found = media_bytes(session, parsed, int(number)) if parsed and is_number else None
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is nothing to show here (any more).")
        kind = found.mime.partition(";")[0].strip().lower()
        shown = kind if kind in _SHOWN_MEDIA else "application/octet-stream"
        return _download(found.data, shown, "media")

    async def _link(self, request: Request, guest: Guest) -> Response:
        """Make an address that lets one browser in, once."""
        if guest.role != "controller":
            raise Refused(HTTPStatus.FORBIDDEN, "You may look, and let nobody in.")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > LONGEST_BODY:
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This is too much.")
        try:
            role = msgspec.json.decode(body, type=_Link).role
        except msgspec.DecodeError:
            words = f"Name whom to let in: a role, which is one of {', '.join(ROLES)}."
            raise Refused(HTTPStatus.BAD_REQUEST, words) from None
        return _json({"url": self.access.link(role)})

    # ---- the socket

    async def _upgrade(self, websocket: WebSocket, receive: Receive, send: Send) -> None:
        if self._is_too_fast(websocket):
            refusal: Refusal | None = Refusal(
                HTTPStatus.TOO_MANY_REQUESTS, "Too many requests. Wait a moment."
            )
        elif websocket.url.path not in ("/live", PATH):
            refusal = Refusal(HTTPStatus.NOT_FOUND, "There is nothing here.")
        else:
            refusal = self._refusal(websocket)
        guest = refusal or self._guest(websocket, upgrade=True)
        if isinstance(guest, Refusal):
            response = Response(guest.reason, guest.status, dict(HEADERS), "text/plain")
            await websocket.send_denial_response(response)
            return
        writer: Writer | None = websocket.scope["extensions"].get(WRITER)
        socket = _Socket(receive, send, writer)
        if websocket.url.path == PATH:
            identity = new_identity()
            await websocket.accept(headers=[(CONNECTION_ID.lower().encode(), identity.encode())])
            await self.acp.serve(socket, guest, identity)
            return
        await websocket.accept(headers=[])
        with suppress(Closed):
            await self.sockets.serve(socket, guest)


WRITER: Final = "twofold.writer"
"""The extension of ASGI by which a server offers a `Writer` for a WebSocket."""


class Writer(Protocol):
    """Writes to a WebSocket that is open, without waiting."""

    @property
    def has_room(self) -> bool:
        """Whether a message may be written now."""

    def write(self, message: bytes) -> None:
        """Write a whole message of the WebSocket."""


class _Socket:
    """A WebSocket that was accepted."""

    def __init__(self, receive: Receive, send: Send, writer: Writer | None) -> None:
        self._receive = receive
        self._send = send
        self._writer = writer

    @property
    def has_room(self) -> bool:
        # a server that has no writer has its tasks send every message
        return self._writer is not None and self._writer.has_room

    def write(self, message: bytes) -> None:
        assert self._writer is not None  # there was room
        self._writer.write(message)

    async def receive(self) -> str | bytes | None:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return None
        text: str | None = message.get("text")
        return text if text is not None else message.get("bytes")

    async def send(self, text: str) -> None:
        # many pages are sent every frame: this is called more often than anything else here
        await self._sent({"type": "websocket.send", "text": text})

    async def close(self, code: int, reason: str) -> None:
        await self._sent({"type": "websocket.close", "code": code, "reason": reason})

    async def _sent(self, message: Message) -> None:
        try:
            await self._send(message)
        except (RuntimeError, OSError):  # it was closed meanwhile
            raise Closed from None


async def _in_turns(steps: Generator[None, None, str]) -> str:
    """What the steps return; the event loop does other work between some of them."""
    loop = asyncio.get_running_loop()
    until = loop.time() + AT_ONCE
    while True:
        try:
            next(steps)
        except StopIteration as done:
            text: str = done.value
            return text
        if loop.time() >= until:
            await asyncio.sleep(0)
            until = loop.time() + AT_ONCE


# ---- responses ---------------------------------------------------------------------------------


def _query(request: HTTPConnection) -> dict[str, str]:
    given = request.scope["query_string"].decode("latin-1")
    with suppress(ValueError):
        return {
            name: values[0]
            for name, values in parse_qs(given, max_num_fields=20, errors="replace").items()
        }
    return {}


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _download(data: bytes, kind: str, name: str) -> Response:
    """Bytes of a session: not a page of ours, whatever they hold."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(data, media_type=kind, headers=headers)


def _words(request: Request, refusal: Refusal) -> Response:
    """A refusal: a page for browsers, JSON for programs."""
    headers = {}
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "2"
    if "text/html" not in request.headers.get("accept", ""):
        response = _json({"message": refusal.reason}, refusal.status)
        response.headers.update(headers)
        return response
    words = refusal.reason.replace("&", "&amp;").replace("<", "&lt;")
    page = _WORDS.format(title=refusal.status.phrase, words=words)
    return Response(page, refusal.status, headers, _TYPES[".html"])
