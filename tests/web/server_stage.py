"""A server on a free port with scripted agents, and what talks to it over real sockets.

async with serving() as stage:
    async with stage.page() as page:
        opened = await page.open()
        await page.ask("prompt", text="hello")
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect

from tests.support.hosted import MemoryLaunch
from tests.support.raw_agent import HELLO, Answer, RawAgent
from tests.web.mirror import Mirror
from twofold.host.host import Host
from twofold.host.hosted_session import HostedSession
from twofold.policy import Policy
from twofold.web.access import Access, Place, Role, Tokens
from twofold.web.app import App
from twofold.web.server import Server, listen

Json = Any
PATIENCE = 20.0


class Reply(NamedTuple):
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def words(self) -> str:
        """The reason of a refusal."""
        found: str = json.loads(self.body)["message"]
        return found


class ServerStage:
    """A server, its host, and the agents of its sessions."""

    def __init__(self, cwd: Path, answers: Mapping[str, Answer], place: Place | None) -> None:
        self.agents: list[RawAgent] = []
        self.launches: list[MemoryLaunch] = []
        self.answers = {
            "initialize": HELLO[2],
            "session/new": {"sessionId": "s"},
            "session/close": {},
            **answers,
        }
        self.host = Host(
            cwd=cwd,
            launch=lambda chosen, folder, policy: MemoryLaunch(self, Policy()),  # type: ignore[arg-type]
        )
        self.listening = listen("127.0.0.1", 0)
        self.port: int = self.listening.getsockname()[1]
        self.now = 1_800_000_000.0
        names = ["127.0.0.1", "localhost"]
        self.access = Access(
            place or Place.of("http", names, self.port), Tokens.new(), lambda: self.now
        )
        self.app = App(self.host, self.access)
        self.hosted: HostedSession

    @property
    def agent(self) -> RawAgent:
        return self.agents[-1]

    def token(self, role: Role = "controller") -> str:
        assert self.access.tokens is not None
        found: str = getattr(self.access.tokens, role)
        return found

    def bearer(self, role: Role = "controller") -> dict[str, str]:
        """The headers of a program."""
        return {"Authorization": f"Bearer {self.token(role)}"}

    def browser(self, role: Role = "controller") -> dict[str, str]:
        """The headers of a browser that was let in."""
        cookie = self.access.new_cookie(role).partition(";")[0]
        return {"Cookie": cookie, "Origin": f"http://127.0.0.1:{self.port}"}

    async def get(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> Reply:
        """Send a request, and read the whole answer."""
        sent = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **(headers or {})}
        sent |= {"Content-Length": str(len(body))} if body else {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {sent[name]}" for name in sent), "", ""]
        data = await self.send("\r\n".join(lines).encode("latin-1") + body, tls=tls)
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *others = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in others)
        return Reply(int(first.split()[1]), {name.lower(): each for name, _, each in pairs}, rest)

    async def send(self, data: bytes, *, tls: ssl.SSLContext | None = None) -> bytes:
        """Send bytes, and read until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
            try:
                writer.write(data)
                await writer.drain()
                return await reader.read()
            finally:
                writer.close()

    @asynccontextmanager
    async def page(self, headers: Mapping[str, str] | None = None) -> AsyncIterator["Page"]:
        """A page that is open in a browser."""
        sent = dict(self.browser() if headers is None else headers)
        origin = sent.pop("Origin", None)
        async with connect(
            f"ws://127.0.0.1:{self.port}/live",
            additional_headers=sent,
            origin=origin,  # type: ignore[arg-type]
            max_size=None,
            compression=None,
        ) as socket:
            yield Page(socket, self.hosted)


class Page:
    """A page: sends requests, and keeps what it is sent."""

    def __init__(self, socket: ClientConnection, hosted: HostedSession) -> None:
        self.socket = socket
        self.mirror = Mirror()
        self.welcome: Json = None
        self.sessions: list[Json] = []
        self.closed: list[Json] = []
        self.answers: dict[int, Json] = {}
        self.unasked: list[Json] = []
        """Errors that answer no request by its id."""
        self._hosted = hosted
        self._last = 0

    async def read(self) -> Json:
        """The next message, which was taken note of."""
        async with asyncio.timeout(PATIENCE):
            text = await self.socket.recv()
        message = json.loads(text)
        match message["type"]:
            case "welcome":
                self.welcome = message
            case "sessions":
                self.sessions = message["sessions"]
            case "closed":
                self.closed.append(message)
            case "error" if message["id"] is None:
                self.unasked.append(message)
            case "done" | "error":
                self.answers[message["id"]] = message
            case _:
                self.mirror.take(str(text))
                if "id" in message:
                    self.answers[message["id"]] = message
        return message

    async def until(self, condition: Any) -> None:
        """Read until `condition` holds."""
        while not condition():
            await self.read()

    async def ask(self, kind: str, **fields: Json) -> Json:
        """Send a request; returns its answer."""
        self._last += 1
        number = self._last
        await self.socket.send(json.dumps({"type": kind, "id": number, **fields}))
        await self.until(lambda: number in self.answers)
        return self.answers[number]

    async def open(self, window: tuple[int, int | None] = (0, None), **fields: Json) -> Json:
        self.mirror.window = window
        return await self.ask("open", session=self._hosted.id, window=window, **fields)


async def soon(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  # there is no event for all of it
            await asyncio.sleep(0.002)


@asynccontextmanager
async def serving(
    answers: Mapping[str, Answer] | None = None,
    *,
    cwd: Path = Path("/"),
    place: Place | None = None,
    **options: Any,
) -> AsyncIterator[ServerStage]:
    """A server with one session whose agent has started."""
    stage = ServerStage(cwd, answers or {}, place)
    server = Server(stage.app, stage.listening, **options)
    running = asyncio.create_task(server.run())
    try:
        stage.hosted = await stage.host.new_session()
        await soon(lambda: server.is_ready and stage.hosted.state == "idle")
        yield stage
    finally:
        server.stop()
        await running
        await stage.host.close()
