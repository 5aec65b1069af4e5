"""A WebSocket to an agent as a transport: each line is a text frame, in both directions.

The connection is opened by `WebSocket.open` and is ready then. Binary frames are ignored. A frame
that holds line breaks is one line all the same, because between the values of JSON a line break is
a blank. Memory is bounded: a message has a limit, only a few of them are read ahead while reading
is paused, and a server that does not read pauses the writer. Pings keep idle proxies from closing
the connection, and find a server that is gone. Redirects are not followed.
"""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import CloseCode

from twofold.transport.base import HIGH_WATER, Receiver
from twofold.transport.endpoint import (
    MESSAGE_LIMIT,
    OPEN_TIMEOUT,
    BadUrl,
    Endpoint,
    NotReached,
    RemoteEnded,
    short,
    why_lost,
)

PING = 15.0
"""How many seconds pass between two pings: some proxies close what is idle for 16 seconds."""
PONG = 45.0
"""How many seconds a server has to answer a ping, or to send something else."""
CLOSE = 2.0
"""How many seconds each step of `close` may take."""
READ_AHEAD: Final = 4
"""How many messages are read ahead."""
_SHOWN: Final = 1000

_CODES = {
    1000: "the server closed it",
    1001: "the server is going away",
    1002: "the server found an error of the protocol",
    1003: "the server does not accept this kind of data",
    1007: "a text was not UTF-8",
    1008: "the server does not allow it",
    1009: "a message was too large",
    1011: "the server failed",
    1012: "the server restarts",
    1013: "the server is too busy",
}

# The library logs the headers of requests, with the token, to a logger that is set to DEBUG.
_SILENT = logging.Logger("twofold.transport.websocket", logging.CRITICAL + 1)  # noqa: LOG001


class WebSocket:
    """An open WebSocket as a transport; make one with `open`.

    The receiver's `ended` gets a `RemoteEnded` if the server or the network ended it.

    Attributes:
        endpoint: Where it is connected to.
        connection_id: The id that the server gave the connection; None if it gave none.
    """

    way: Final = "WebSocket"
    """What it is called."""

    def __init__(self, endpoint: Endpoint, connection: ClientConnection) -> None:
        self.endpoint = endpoint
        response = connection.response
        given = response.headers.get("Acp-Connection-Id") if response is not None else None
        self.connection_id: str | None = given
        self._connection = connection
        self._receiver: Receiver | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._unsent: deque[str] = deque()
        self._unsent_size = 0
        self._partial = b""
        """The beginning of a line whose end was not written yet."""
        self._has_unsent = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._all_sent.set()
        self._full = False
        self._ended = False
        self._received = 0
        """How many messages arrived."""
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str | Endpoint,
        *,
        token: str | None = None,
        limit: int = MESSAGE_LIMIT,
    ) -> "WebSocket":
        """Connect to a server.

        Args:
            url: The URL, with the scheme ws or wss.
            token: Sent as `Authorization: Bearer`.
            limit: How many bytes a message of the server may have.

        Raises:
            BadUrl: The URL or the token cannot be used.
            NotReached: There is no connection; the text states why and what to do.
        """
        endpoint = url if isinstance(url, Endpoint) else Endpoint(url, token)
        try:
            connection = await _Connect(
                endpoint.websocket_url,
                additional_headers=endpoint.headers,
                compression=None if endpoint.loopback else "deflate",
                max_size=limit,
                max_queue=READ_AHEAD,
                open_timeout=OPEN_TIMEOUT,
                ping_interval=None,  # ours are here: a reader that is paused reads no pong
                close_timeout=CLOSE,
                write_limit=HIGH_WATER,
                logger=_SILENT,
            )
        except InvalidURI as error:
            raise BadUrl(endpoint.shown, f"{short(error.msg)}.") from None
        except InvalidStatus as error:
            raise _refused(endpoint, error) from None
        except (OSError, EOFError, TimeoutError, InvalidHandshake) as error:
            raise endpoint.not_reached(error) from error
        return cls(endpoint, connection)

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on, beginning with what arrived before."""
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        works = (self._read(receiver), self._send(), self._keep_alive())
        self._tasks = [asyncio.create_task(work) for work in works]

    def write(self, data: bytes) -> None:
        """Send the lines that `data` completes, without waiting; dropped after the end."""
        if self._ended or self._closing is not None:
            return
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            if line.strip():
                self._unsent.append(line.decode(errors="replace"))
                self._unsent_size += len(line)
        if self._unsent:
            self._all_sent.clear()
            self._has_unsent.set()
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
        """Send what waits to be sent and close the connection, in a bounded time.

        The receiver's `ended` is called, and it receives no more data.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut_down())
        await asyncio.shield(self._closing)

    # ---- reading

    async def _read(self, receiver: Receiver) -> None:
        error: Exception | None = None
        try:
            while True:
                await self._may_read.wait()
                message = await self._connection.recv()
                self._received += 1
                if isinstance(message, str):
                    await self._may_read.wait()
                    if self._closing is None and message.strip():
                        receiver.received(_as_line(message))
        except ConnectionClosed as closed:
            error = self._why_closed(closed)
        except OSError as lost:
            error = RemoteEnded(self.endpoint.shown, why_lost(lost))
        self._end(error)

    def _why_closed(self, closed: ConnectionClosed) -> RemoteEnded:
        ours = closed.sent is not None and not closed.rcvd_then_sent
        frame = closed.sent if ours else closed.rcvd
        if frame is None:
            return RemoteEnded(self.endpoint.shown, "the server, or the network, broke it off.")
        words = _CODES.get(frame.code, "the server closed it")
        if ours:
            too_large = frame.code == CloseCode.MESSAGE_TOO_BIG
            wrong = "is too large" if too_large else "is not allowed in a WebSocket"
            words = f"the server sent something that {wrong}"
        more = f": {short(frame.reason)}" if frame.reason.strip() else ""
        text = f"{words} (close code {frame.code}{more})."
        return RemoteEnded(self.endpoint.shown, text, frame.code)

    def _end(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._unsent.clear()
        self._all_sent.set()
        self._has_room()
        if self._receiver is not None:
            self._receiver.ended(None if self._closing is not None else error)

    # ---- writing

    async def _send(self) -> None:
        with suppress(ConnectionClosed, OSError):  # the reader reports it
            while True:
                await self._has_unsent.wait()
                while self._unsent:
                    line = self._unsent.popleft()
                    await self._connection.send(line)
                    self._unsent_size -= len(line.encode())
                    if self._unsent_size <= HIGH_WATER // 2:
                        self._has_room()
                self._has_unsent.clear()
                self._all_sent.set()

    def _has_room(self) -> None:
        if self._full:
            self._full = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    # ---- keeping it open

    async def _keep_alive(self) -> None:
        with suppress(ConnectionClosed, OSError):
            while True:
                await asyncio.sleep(PING)
                before = self._received
                pong = await self._connection.ping()
                done, _ = await asyncio.wait({asyncio.ensure_future(pong)}, timeout=PONG)
                # what is read late, because reading is paused, is no sign of death
                if not done and before == self._received and self._may_read.is_set():
                    self._end(RemoteEnded(self.endpoint.shown, "the server no longer answers."))
                    self._connection.transport.abort()
                    return

    # ---- the end

    async def _shut_down(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE):
                await self._all_sent.wait()
        self._end(None)
        for task in self._tasks:
            task.cancel()
        try:
            async with asyncio.timeout(2 * CLOSE):
                await self._connection.close()
        except (TimeoutError, ConnectionClosed, OSError):
            self._connection.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Connect(connect):
    """Connects to exactly the URL that was given."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _as_line(message: str) -> bytes:
    data = message.encode(errors="replace")
    if "\n" in message:
        data = data.replace(b"\n", b" ")
    return data + b"\n"


def _refused(endpoint: Endpoint, error: InvalidStatus) -> NotReached:
    response = error.response
    body = bytes(response.body or b"")[:_SHOWN].decode(errors="replace")
    location = response.headers.get("Location", "")
    return endpoint.refused(response.status_code, body, location)
