"""A small HTTP server on this machine that does what a test scripts, wrong things included.

Each request gets a connection of its own. `Reply.events` begins a stream of events; `Reply.cut`
breaks the connection off in the middle of whatever is being sent.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]


class Asked(NamedTuple):
    """A request, with the names of its headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def session(self) -> str | None:
        return self.headers.get("acp-session-id")


class Reply:
    """The response to one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.over = asyncio.Event()

    async def send(
        self, status: int, body: bytes | Json = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._head(status, {"Content-Length": str(len(data)), **(headers or {})})
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    def events(self, kind: str = "text/event-stream") -> None:
        """Begin a stream of events."""
        self._head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked"})

    def raw(self, data: bytes) -> None:
        """Send a piece of the stream."""
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, message: Json, identity: str = "") -> None:
        """Send a message as an event."""
        head = f"id: {identity}\n" if identity else ""
        self.raw(f"{head}data: {json.dumps(message)}\n\n".encode())

    def end(self) -> None:
        """End the stream regularly."""
        self._writer.write(b"0\r\n\r\n")
        self.over.set()

    def cut(self) -> None:
        """Break the connection off."""
        self._writer.transport.abort()
        self.over.set()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())


Script: TypeAlias = Callable[[Asked, Reply], Awaitable[None]]


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[int]:
    """Serve in a block; gives the port. What is still open at its end is cut."""
    writers: set[asyncio.StreamWriter] = set()
    failures: list[BaseException] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            asked = await _read(reader)
            if asked is not None:
                await script(asked, Reply(writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as error:
            failures.append(error)
        finally:
            writers.discard(writer)
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in list(writers):
            writer.transport.abort()
        await server.wait_closed()
    if failures:
        raise failures[0]


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    first = await reader.readline()
    if not first:
        return None
    method, path, _ = first.decode().split(" ", 2)
    headers = {}
    while (line := (await reader.readline()).strip()) != b"":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, body)


class AcpServer:
    """A server of streamable HTTP: remembers what was asked, and streams what a test sends.

    A test replaces `on_post`, `on_get` or `on_initialize` to have it misbehave.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.open: dict[str | None, Reply] = {}
        """The open streams by session; that of the connection is None's."""
        self.on_initialize: Script = self.initialized
        self.on_post: Script = self.accepted
        self.on_get: Script = self.streamed
        self._changed = asyncio.Event()

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        self._changed.set()
        if asked.method == "GET":
            await self.on_get(asked, reply)
        elif asked.method == "DELETE":
            await reply.send(202)
        elif asked.message.get("method") == "initialize":
            await self.on_initialize(asked, reply)
        else:
            await self.on_post(asked, reply)

    async def initialized(self, asked: Asked, reply: Reply) -> None:
        answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {}}
        kind = {"Content-Type": "application/json", "Acp-Connection-Id": "c1"}
        await reply.send(200, answer, kind)

    async def accepted(self, asked: Asked, reply: Reply) -> None:
        await reply.send(202)

    async def streamed(self, asked: Asked, reply: Reply) -> None:
        reply.events()
        self.open[asked.session] = reply
        self._changed.set()
        await reply.over.wait()
        if self.open.get(asked.session) is reply:
            del self.open[asked.session]

    @property
    def posts(self) -> list[Any]:
        """The messages that were posted, but for `initialize`."""
        found = [each.message for each in self.asked if each.method == "POST"]
        return [each for each in found if each.get("method") != "initialize"]

    def gets(self, session: str | None = None) -> list[Asked]:
        """The requests for a stream."""
        return [each for each in self.asked if each.method == "GET" and each.session == session]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until `condition` holds after a request."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def stream(self, session: str | None = None) -> Reply:
        """The stream of a session, once it is open."""
        await self.until(lambda: session in self.open)
        return self.open[session]
