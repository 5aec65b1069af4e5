"""The server's end of a WebSocket that carries ACP: one JSON-RPC message for each text frame.

The first message has to be `initialize`. Binary frames are ignored. What is written waits until the
socket can take it; the receiver pauses while much waits, so a client that does not read costs a
bounded amount of memory.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final, Protocol

from twofold.rpc.connection import Request, read_line
from twofold.transport.base import HIGH_WATER, Receiver
from twofold.web.live_socket import Closed

CONNECTION_ID: Final = "Acp-Connection-Id"
"""The header that names a connection."""
PROTOCOL_ERROR: Final = 1002
GOING: Final = 1001
TOO_MANY: Final = 1013
PUT_OUT: Final = 4401
STALLED_CODE: Final = 4408
"""Codes with which a socket is closed."""
FIRST_MESSAGE: Final = 30.0
"""How many seconds a client has to send `initialize`."""
CLOSING: Final = 2.0
"""How many seconds what was written has to be sent at the end."""


class Socket(Protocol):
    """A WebSocket that was accepted."""

    async def receive(self) -> str | bytes | None:
        """The next message; None if there are no more."""

    async def send(self, text: str) -> None:
        """Send a message; returns when it has room for the next one, or raises `Closed`."""

    async def close(self, code: int, reason: str) -> None:
        """Close it."""


async def first_message(socket: Socket) -> tuple[Request, bytes] | None:
    """The `initialize` of a client, and its line; None if it sends something else, or nothing."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_MESSAGE):
            message = await socket.receive()
            while isinstance(message, bytes):
                message = await socket.receive()
        if message is not None:
            line = as_line(message.encode(errors="replace"))
            first = initialize_of(line)
            return (first, line) if first is not None else None
    return None


def initialize_of(line: bytes) -> Request | None:
    """The request that a line is, if it is `initialize`."""
    event = next(iter(read_line(line)), None)
    if isinstance(event, Request) and event.method == "initialize":
        return event
    return None


def as_line(message: bytes) -> bytes:
    """A message on one line: newlines in JSON are between its parts only."""
    return message.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


class SocketTransport:
    """A WebSocket as a transport.

    Args:
        socket: The socket.
        first: The first line, which was read already.
        pace: Waits until one more message may be read.
    """

    def __init__(self, socket: Socket, first: bytes, pace: "Pace") -> None:
        self._socket = socket
        self._first = first
        self._pace = pace
        self._receiver: Receiver | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._partial = b""
        self._unsent: deque[bytes] = deque()
        self._unsent_size = 0
        self._has_unsent = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._all_sent.set()
        self._full = False
        self._ended = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on."""
        self._receiver = receiver
        self._tasks = [
            asyncio.create_task(self._receive_all()),
            asyncio.create_task(self._send_all()),
        ]

    def write(self, data: bytes) -> None:
        """Send each line that `data` completes as a message."""
        if self._ended:
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._unsent.append(line)
            self._unsent_size += len(line)
        if lines:
            self._all_sent.clear()
            self._has_unsent.set()
        if self._unsent_size > HIGH_WATER and not self._full:
            self._full = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._may_read.set()

    async def close(self) -> None:
        """Send what waits, in a bounded time; the caller closes the socket."""
        if not self._ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._all_sent.wait()
        self._end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- the socket

    async def _receive_all(self) -> None:
        self._deliver(self._first)
        self._first = b""
        while True:
            await self._may_read.wait()
            message = await self._socket.receive()
            if message is None:
                break
            if isinstance(message, bytes):
                continue
            await self._pace.wait()
            await self._may_read.wait()
            self._deliver(as_line(message.encode(errors="replace")))
        self._end()

    def _deliver(self, line: bytes) -> None:
        if self._receiver is not None and not self._ended:
            self._receiver.received(line)

    async def _send_all(self) -> None:
        try:
            while True:
                await self._has_unsent.wait()
                while self._unsent:
                    line = self._unsent.popleft()
                    await self._socket.send(line.decode(errors="replace"))
                    self._unsent_size -= len(line)
                    if self._full and self._unsent_size <= HIGH_WATER // 2:
                        self._full = False
                        if self._receiver is not None:
                            self._receiver.resume_writing()
                self._has_unsent.clear()
                self._all_sent.set()
        except Closed:  # the other side is gone
            self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._unsent.clear()
        self._all_sent.set()
        if self._receiver is not None:
            self._receiver.ended(None)


class Pace(Protocol):
    """How many messages a client may send per second."""

    async def wait(self) -> None:
        """Wait until one more may go."""
