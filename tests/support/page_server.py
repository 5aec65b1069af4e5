"""A server that plays sessions to the page as a test writes them.

It serves the page with the policy that a real server sends, and speaks the page's messages over
`/live`. A test puts blocks and facts, cuts the connections, and reads what the page asked for. It
runs in a thread of its own, so that a browser can be driven by plain function calls.
"""

import asyncio
import json
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

STATIC = Path(__file__).resolve().parents[2] / "src" / "twofold" / "web" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; media-src blob:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
PICTURE = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Json = Any


@dataclass
class Played:
    """A session as the test writes it."""

    id: str
    seq: int = 0
    epoch: str = "first"
    blocks: list[tuple[str, int, Json]] = field(default_factory=list)
    """Key, version and block of every place."""
    facts: dict[str, Json] = field(default_factory=dict)

    @property
    def listed(self) -> Json:
        facts = self.facts["session"]
        return {name: facts[name] for name in ("id", "title", "agent", "cwd", "state")}


@dataclass
class _Observer:
    socket: WebSocket
    session: str = ""
    window: tuple[int, int | None] = (0, None)

    def sees(self, at: int) -> bool:
        first, end = self.window
        return first <= at and (end is None or at < end)


class PageServer:
    """What plays; its methods may be called from any thread."""

    def __init__(self) -> None:
        self.sessions: dict[str, Played] = {}
        self.received: list[Json] = []
        """Every request of every page, in order."""
        self.answers: dict[str, Callable[[Json], Json]] = {}
        """What is answered to a type of request; `done` with no more, if it is not here."""
        self.refuses = False
        """Whether new connections are closed at once."""
        self.loses_windows = False
        """Whether the connection is lost when a page asks for a window."""
        self.role = "controller"
        self.now: float | None = None
        """What the server's clock shows; the browser's own time if it is None."""
        self._arrived = threading.Condition()
        self._observers: list[_Observer] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = 0

    # ---- what a test does

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def add(self, identity: str = "one", **facts: Json) -> Played:
        """Add a session that is idle."""
        session = {
            "id": identity,
            "epoch": "first",
            "agent": "demo",
            "title": f"Session {identity}",
            "cwd": "/work/weather",
            "state": "idle",
            "failure": None,
            "since": None,
            "canPrompt": True,
            "capabilities": {"image": True, "audio": False, "embedded": True},
        }
        empty: dict[str, Json] = {
            name: [] for name in ("queue", "questions", "answered", "controls", "commands", "plan")
        }
        made = Played(identity, facts={"session": session, "usage": None, **empty, **facts})
        self.sessions[identity] = made
        return made

    def put(self, session: Played, /, *blocks: Json, at: int | None = None) -> None:
        """Append blocks, or put one at a place that has one."""

        def change() -> Json:
            session.seq += 1
            put = []
            for block in blocks:
                place = len(session.blocks) if at is None else at
                entry = (f"entry:{place}", session.seq, block)
                if at is None:
                    session.blocks.append(entry)
                else:
                    session.blocks[place] = entry
                put.append([place, *entry])
            return {"put": put}

        self._change(session, change)

    def grow(self, session: Played, at: int, settled: list[Json], tail: list[Json]) -> None:
        """Append to the block at a place."""

        def change() -> Json:
            session.seq += 1
            key, _, block = session.blocks[at]
            made = {**block, "items": [*block.get("items", ()), *settled], "tail": tail}
            session.blocks[at] = (key, session.seq, made)
            return {"grow": [[key, settled, tail]]}

        self._change(session, change)

    def set(self, session: Played, /, **facts: Json) -> None:
        """Change facts; those of the session are merged."""

        def change() -> Json:
            session.seq += 1
            for name, value in facts.items():
                merged = name == "session"
                session.facts[name] = {**session.facts[name], **value} if merged else value
            return {"facts": {name: session.facts[name] for name in facts}}

        self._change(session, change)

    def cut(self) -> None:
        """Close every connection, as a lost network does."""
        self._call(self._cut())

    def of_type(self, kind: str) -> list[Json]:
        """The requests of one type that have arrived."""
        return [message for message in self.received if message["type"] == kind]

    def wait_for(self, kind: str, count: int = 1) -> Json:
        """The request of this type with this number, as soon as it has arrived."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: len(self.of_type(kind)) >= count, timeout=20)
        assert came, f"{count} × {kind} was not sent; there came {self.received}"
        return self.of_type(kind)[count - 1]

    # ---- messages

    def _change(self, session: Played, change: Callable[[], Json]) -> None:
        if self._loop is None:
            change()
        else:
            self._call(self._send_change(session, change))

    async def _send_change(self, session: Played, change: Callable[[], Json]) -> None:
        frame = {"type": "frame", "count": len(session.blocks), **change()}
        frame |= {"seq": session.seq, "count": len(session.blocks)}
        for observer in list(self._observers):
            if observer.session == session.id:
                await self._send(observer, frame)
            if "facts" in frame:
                await self._send_list(observer)

    async def _cut(self) -> None:
        for observer in list(self._observers):
            await observer.socket.close()

    def _call(self, work: Any) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _send(self, observer: _Observer, message: Json) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):  # it was closed meanwhile
            await observer.socket.send_text(json.dumps(message))

    async def _send_list(self, observer: _Observer) -> None:
        listed = [each.listed for each in self.sessions.values()]
        await self._send(observer, {"type": "sessions", "sessions": listed})

    async def _live(self, socket: WebSocket) -> None:
        if self.refuses:
            await socket.close()
            return
        await socket.accept()
        observer = _Observer(socket)
        self._observers.append(observer)
        agents = [{"name": "demo", "installed": True}]
        welcome: Json = {"type": "welcome", "role": self.role, "name": "tester", "version": "1"}
        welcome |= {} if self.now is None else {"now": self.now}
        await self._send(observer, {**welcome, "agents": agents, "cwd": "/work", "home": "/root"})
        await self._send_list(observer)
        with suppress(RuntimeError, WebSocketDisconnect):
            while True:
                await self._take(observer, json.loads(await socket.receive_text()))
        self._observers.remove(observer)

    async def _take(self, observer: _Observer, message: Json) -> None:
        with self._arrived:
            self.received.append(message)
            self._arrived.notify_all()
        done = {"type": "done", "id": message.get("id")}
        match message["type"]:
            case "open":
                played = self.sessions.get(message["session"])
                if played is None:
                    await self._send(observer, {**done, "type": "error", "message": "no session"})
                    return
                await self._open(observer, played, message)
            case "window" if self.loses_windows:
                await observer.socket.close()
            case "window":
                first, end = message["from"], message["to"]
                observer.window = (first, end)
                played = self.sessions[observer.session]
                put = self._blocks(observer, played, -1)
                head = {"type": "frame", "seq": played.seq, "count": len(played.blocks)}
                await self._send(observer, {**head, "put": put})
                await self._send(observer, done)
            case kind:
                answer = self.answers[kind](message) if kind in self.answers else {}
                await self._send(observer, {**done, **answer})

    async def _open(self, observer: _Observer, played: Played, message: Json) -> None:
        first, end = message["window"]
        observer.session, observer.window = played.id, (first, end)
        resumed = message.get("epoch") == played.epoch
        since = message.get("since", -1) if resumed else -1
        put = self._blocks(observer, played, since)
        head = {"seq": played.seq, "count": len(played.blocks)}
        opened = {
            "type": "opened",
            "id": message.get("id"),
            "session": played.id,
            "epoch": played.epoch,
            "resumed": resumed,
            "facts": played.facts,
            "frame": {**head, "put": put},
        }
        await self._send(observer, {**head, **opened})

    def _blocks(self, observer: _Observer, played: Played, since: int) -> Json:
        first, end = observer.window
        last = len(played.blocks) if end is None else min(end, len(played.blocks))
        places = range(min(first, len(played.blocks)), last)
        return [[at, *played.blocks[at]] for at in places if played.blocks[at][1] > since]

    # ---- serving

    def _app(self) -> Starlette:
        async def page(request: Request) -> Response:
            headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
            return FileResponse(STATIC / "index.html", headers=headers)

        async def file(request: Request) -> Response:
            lines = [[[f"line {number}", ""]] for number in range(1, 41)]
            facts = {"path": request.query_params["path"], "first": 1, "total": 40, "more": False}
            return JSONResponse({**facts, "lines": lines})

        async def media(request: Request) -> Response:
            return Response(PICTURE, media_type="image/png")

        return Starlette(
            routes=[
                Route("/", page),
                Route("/session/{id}/media/{key}/{number}", media),
                Route("/session/{id}/file", file),
                Mount("/static", StaticFiles(directory=STATIC)),
                WebSocketRoute("/live", self._live),
            ]
        )

    @contextmanager
    def serving(self) -> Iterator["PageServer"]:
        """Serve until the block ends."""
        config = uvicorn.Config(
            self._app(), host="127.0.0.1", port=0, log_level="error", ws="websockets-sansio"
        )
        server = uvicorn.Server(config)
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            config.load()
            server.lifespan = config.lifespan_class(config)
            await server.startup()
            self.port = server.servers[0].sockets[0].getsockname()[1]
            ready.set()
            await server.main_loop()
            await server.shutdown()

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        assert ready.wait(20), "the server did not start"
        try:
            yield self
        finally:
            self._call(self._cut())
            server.should_exit = True
            thread.join(10)
            self._loop = None
