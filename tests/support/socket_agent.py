"""An agent of Twofold behind a WebSocket on this machine, whose connections a test can break.

All connections are served by one `Agent`, so its sessions outlive a connection. `in_a_thread`
serves commands that are run by the test's own thread, or by processes.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from typing import Any, Literal

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

import twofold
from twofold.transport.base import Receiver


class SocketTransport:
    """The server's end of a WebSocket as a transport."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket
        self._receiver: Receiver | None = None
        self._sending: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._may_read = asyncio.Event()
        self._may_read.set()

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._send())]

    async def _read(self) -> None:
        assert self._receiver is not None
        try:
            async for message in self._socket:
                await self._may_read.wait()
                self._receiver.received(str(message).encode() + b"\n")
        except ConnectionClosed:
            pass
        self._receiver.ended(None)

    async def _send(self) -> None:
        while True:
            message = await self._sending.get()
            with suppress(ConnectionClosed):
                await self._socket.send(message)
            self._sending.task_done()

    def write(self, data: bytes) -> None:
        for line in data.decode().splitlines():
            self._sending.put_nowait(line)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def close(self) -> None:
        await self._sending.join()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._socket.close()


class SocketAgent:
    """An agent that is reached at `url`."""

    def __init__(self, agent: twofold.Agent, token: str | None = None) -> None:
        self.agent = agent
        self.connections = 0
        """How many connections there were."""
        self.tokens: list[str | None] = []
        """The header `Authorization` of every attempt."""
        self.refuse: int | None = None
        """The status that every attempt gets, instead of a connection."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of its thread, if it has one."""
        self._token = token
        self._port = 0
        self._server: Server | None = None
        self._sockets: set[ServerConnection] = set()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/acp"

    async def start(self) -> None:
        """Listen, again on the same port if it was stopped."""
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self._port,
            process_request=self._check,
            max_size=None,
            close_timeout=0.2,
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, and break every connection off."""
        if self._server is not None:
            self._server.close(close_connections=False)
        self.cut()
        if self._server is not None:
            await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection off."""
        for socket in self._sockets:
            socket.transport.abort()

    def cut_from_outside(self) -> None:
        """Break every connection off, called in another thread."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.cut)

    def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        given = request.headers.get("Authorization")
        self.tokens.append(given)
        status = self.refuse
        if self._token is not None and given != f"Bearer {self._token}":
            status = 401
        return None if status is None else socket.respond(HTTPStatus(status), "no\n")

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        self._sockets.add(socket)
        try:
            await self.agent.serve(SocketTransport(socket))
        finally:
            self._sockets.discard(socket)


@asynccontextmanager
async def reachable(agent: twofold.Agent, token: str | None = None) -> AsyncIterator[SocketAgent]:
    """Serve an agent in a block."""
    served = SocketAgent(agent, token)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


def echo_agent(versions: Sequence[Literal[1, 2]] = (1, 2), **options: Any) -> twofold.Agent:
    """An agent that repeats the prompt."""
    agent = twofold.Agent("echo", version="1", protocol_versions=tuple(versions), **options)

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        await turn.say(f"echo: {turn.text}")

    return agent


@contextmanager
def in_a_thread(agent: twofold.Agent, token: str | None = None) -> Iterator[SocketAgent]:
    """Serve an agent in an event loop of its own."""
    served = SocketAgent(agent, token)
    served.loop = loop = asyncio.new_event_loop()

    def work() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(served.start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(served.stop())
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    ready = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(10)
        yield served
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
