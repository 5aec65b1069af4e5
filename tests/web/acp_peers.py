"""ACP clients of a server over real sockets: WebSocket, and streamable HTTP.

    async with socket_client(stage) as client:
        await client.initialize()
        session = (await client.call("session/new", {"cwd": "/"}))["sessionId"]

Both have the same face; the one for HTTP opens a stream for each session if it is asked to.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.web.server_stage import PATIENCE, Reply, ServerStage

Json = Any
HELLO: dict[int, Json] = {
    1: {"protocolVersion": 1, "clientInfo": {"name": "t", "version": "1"}},
    2: {"protocolVersion": 2, "info": {"name": "t", "version": "1"}},
}
TEXT = {"type": "text", "text": "hello"}


class AcpPeer:
    """What both kinds of clients share."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._last = 0
        self._changed = asyncio.Event()

    async def send(self, message: Json) -> None:
        raise NotImplementedError

    def take(self, message: Json) -> None:
        self.messages.append(message)
        self._changed.set()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def ask(self, method: str, params: Json = None) -> int:
        self._last += 1
        number = self._last
        await self.send({"id": number, "method": method, "params": params or {}})
        return number

    async def reply(self, number: int) -> Json:
        def found() -> list[Json]:
            return [each for each in self.messages if "method" not in each and each["id"] == number]

        await self.until(found)
        return found()[0]

    async def call(self, method: str, params: Json = None) -> Json:
        reply = await self.reply(await self.ask(method, params))
        assert "result" in reply, reply
        return reply["result"]

    async def initialize(self, version: int = 2) -> Json:
        return await self.call("initialize", HELLO[version])

    async def prompt(self, session: str) -> int:
        return await self.ask("session/prompt", {"sessionId": session, "prompt": [TEXT]})

    async def request(self, method: str = "session/request_permission") -> Json:
        def found() -> list[Json]:
            return [each for each in self.messages if each.get("method") == method]

        await self.until(found)
        return found()[-1]

    async def choose(self, request: Json, option: str) -> None:
        outcome = {"outcome": "selected", "optionId": option}
        await self.send({"id": request["id"], "result": {"outcome": outcome}})

    def updates(self) -> list[str]:
        return [
            each["params"]["update"]["sessionUpdate"]
            for each in self.messages
            if each.get("method") == "session/update"
        ]


class SocketClient(AcpPeer):
    """A client over WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__()
        self.socket = socket
        self.reading = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        with suppress(ConnectionClosed):
            async for text in self.socket:
                self.take(json.loads(text))
        self._changed.set()

    async def send(self, message: Json) -> None:
        await self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))


@asynccontextmanager
async def socket_client(
    stage: ServerStage, headers: Mapping[str, str] | None = None, query: str = ""
) -> AsyncIterator[SocketClient]:
    """A client over WebSocket that is let in."""
    async with connect(
        f"ws://127.0.0.1:{stage.port}/acp{query}",
        additional_headers=stage.bearer() if headers is None else headers,
        max_size=None,
        compression=None,
    ) as socket:
        client = SocketClient(socket)
        try:
            yield client
        finally:
            client.reading.cancel()


class Stream:
    """An event stream of HTTP."""

    def __init__(self, client: "HttpClient", session: str | None) -> None:
        self.client = client
        self.session = session
        self.status = 0
        self.body = b""
        """Of a response that is no stream."""
        self.ids: list[str] = []
        self.comments = 0
        self.events: list[Json] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.ended = asyncio.Event()
        self._opened = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None]

    async def open(self, headers: Mapping[str, str]) -> "Stream":
        self._task = asyncio.create_task(self._run(headers))
        async with asyncio.timeout(PATIENCE):
            await self._opened.wait()
        return self

    async def _run(self, headers: Mapping[str, str]) -> None:
        reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self.client.stage.port, limit=64 << 20
        )
        lines = ["GET /acp HTTP/1.1", f"Host: 127.0.0.1:{self.client.stage.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.status = int(head.split()[1])
        if self.status != 200:
            size = int(head.lower().partition("content-length:")[2].split()[0])
            self.body = await reader.readexactly(size)
            self._opened.set()
            self.ended.set()
            return
        buffer = b""
        try:
            while True:
                await self.reads.wait()
                size = int(await reader.readuntil(b"\r\n"), 16)
                buffer += (await reader.readexactly(size + 2))[:-2]
                self._opened.set()
                if size == 0:
                    break
                *events, buffer = buffer.split(b"\n\n")
                for event in events:
                    self._event(event.decode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        self.ended.set()
        self.client._changed.set()

    def _event(self, text: str) -> None:
        for line in text.split("\n"):
            name, _, value = line.partition(": ")
            match name:
                case "id":
                    self.ids.append(value)
                case "data":
                    message = json.loads(value)
                    self.events.append(message)
                    self.client.take(message)
                case _:
                    self.comments += 1

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.ended.set()


class HttpClient(AcpPeer):
    """A client over streamable HTTP."""

    def __init__(self, stage: ServerStage, headers: Mapping[str, str], query: str) -> None:
        super().__init__()
        self.stage = stage
        self.headers = dict(headers)
        self.connection = ""
        self.streams: list[Stream] = []
        self._path = f"/acp{query}"

    async def post(
        self, body: bytes, headers: Mapping[str, str] | None = None, *, method: str = "POST"
    ) -> Reply:
        sent = {**self.headers, "Content-Type": "application/json"}
        sent |= {"Acp-Connection-Id": self.connection} if self.connection else {}
        sent |= headers or {}
        return await self.stage.get(self._path, sent, method=method, body=body)

    async def send(self, message: Json) -> None:
        reply = await self.post(json.dumps({"jsonrpc": "2.0", **message}).encode())
        assert reply.status in (200, 202), reply
        if reply.status == 200:
            self.connection = reply.headers["acp-connection-id"]
            self.take(json.loads(reply.body))

    async def stream(
        self, session: str | None = None, last: str | None = None, **headers: str
    ) -> Stream:
        sent = {**self.headers, "Accept": "text/event-stream"}
        sent |= {"Acp-Connection-Id": self.connection} if self.connection else {}
        sent |= {"Acp-Session-Id": session} if session else {}
        sent |= {"Last-Event-ID": last} if last else {}
        stream = Stream(self, session)
        self.streams.append(stream)
        return await stream.open(sent | headers)

    async def begin(self, version: int = 2) -> Stream:
        """Initialize, and open the stream of the connection."""
        await self.initialize(version)
        return await self.stream()


@asynccontextmanager
async def http_client(
    stage: ServerStage, headers: Mapping[str, str] | None = None, query: str = ""
) -> AsyncIterator[HttpClient]:
    """A client over streamable HTTP that is let in."""
    client = HttpClient(stage, stage.bearer() if headers is None else headers, query)
    try:
        yield client
    finally:
        for stream in client.streams:
            await stream.close()
