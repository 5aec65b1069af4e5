"""`/acp`: ACP clients of this server, over WebSocket or streamable HTTP.

Who may come in is decided before, as for the page. A connection has the role of the token that let
it in, and ends with that token. Each has bounds of its own, and there are so many of them at most.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from twofold.convert.versions import version_of_client
from twofold.errors import TwofoldError
from twofold.host.acp_agent import AcpAgents, NotReading, Visitor
from twofold.host.host import Host
from twofold.rpc.connection import Request as RpcRequest
from twofold.transport.base import Transport
from twofold.web.access import Guest
from twofold.web.acp_http import HttpClients
from twofold.web.acp_websocket import (
    GOING,
    PROTOCOL_ERROR,
    PUT_OUT,
    STALLED_CODE,
    TOO_MANY,
    Socket,
    SocketTransport,
    first_message,
)
from twofold.web.live_socket import Closed, Pace
from twofold.wire import codec
from twofold.wire.base import UNSET, Malformed

PATH: Final = "/acp"
MOST_CONNECTIONS: Final = 256
RATE: Final = 100.0
"""Messages per second that a client may send on the average; more of them are read later."""
BURST: Final = 1_000

_log = logging.getLogger("twofold.web")


class AcpConnection:
    """A client that is connected."""

    def __init__(self, identity: str, guest: Guest) -> None:
        self.identity = identity
        self.guest = guest
        self.code, self.reason = GOING, ""
        """Why it was ended, for a WebSocket."""
        self._serving: asyncio.Task[None] | None = None

    async def run(self, serving: Awaitable[None]) -> None:
        """Serve the client until it is gone, or `end` is called."""
        self._serving = asyncio.ensure_future(serving)
        try:
            await asyncio.wait([self._serving])
        finally:
            self._serving.cancel()
            result = (await asyncio.gather(self._serving, return_exceptions=True))[0]
        if isinstance(result, NotReading):
            self.code, self.reason = STALLED_CODE, str(result)
        elif isinstance(result, Exception) and not isinstance(result, TwofoldError):
            _log.error("A connection of an ACP client failed", exc_info=result)

    def end(self, code: int, reason: str) -> None:
        """End the connection."""
        self.code, self.reason = code, reason
        if self._serving is not None:
            self._serving.cancel()


class AcpEndpoint:
    """All ACP clients of a server.

    Args:
        host: The sessions.
    """

    def __init__(self, host: Host) -> None:
        self._agents = AcpAgents(host)
        self._open: set[AcpConnection] = set()
        self._closing = False
        self._http = HttpClients(self._begin)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another connection."""
        return self._closing or len(self._open) >= MOST_CONNECTIONS

    def put_out(self, is_valid: Callable[[Guest], bool]) -> None:
        """End the connections of guests whose token is no longer valid."""
        for connection in list(self._open):
            if not is_valid(connection.guest):
                connection.end(PUT_OUT, "You are no longer let in.")

    def close(self) -> None:
        """End all connections: the server is going."""
        self._closing = True
        for connection in list(self._open):
            connection.end(GOING, "The server is going.")

    # ---- WebSocket

    async def serve(self, socket: Socket, guest: Guest, identity: str) -> None:
        """Talk to a client until one side closes the socket."""
        if self.is_full:
            await socket.close(TOO_MANY, f"This server has {MOST_CONNECTIONS} clients already.")
            return
        connection = AcpConnection(identity, guest)
        self._open.add(connection)
        try:
            await connection.run(self._serve_socket(connection, socket))
        finally:
            self._open.discard(connection)
        with suppress(Closed, TimeoutError):
            async with asyncio.timeout(1):
                await socket.close(connection.code, connection.reason)

    async def _serve_socket(self, connection: AcpConnection, socket: Socket) -> None:
        first = await first_message(socket)
        if first is None:
            connection.code = PROTOCOL_ERROR
            connection.reason = "The first message has to be initialize."
            return
        request, line = first
        transport = SocketTransport(socket, line, Pace(RATE, BURST))
        try:
            await self._serve(transport, connection.guest, request)
        finally:
            await transport.close()

    async def _serve(self, transport: Transport, guest: Guest, request: RpcRequest) -> None:
        visitor = Visitor(guest.name, guest.role == "controller")
        await self._agents.serve(transport, visitor, version=_version(request))

    # ---- streamable HTTP

    async def answer(self, request: Request, guest: Guest) -> Response:
        """Answer one request of streamable HTTP."""
        return await self._http.answer(request, guest, is_full=self.is_full)

    def _begin(
        self, transport: Transport, guest: Guest, request: RpcRequest, identity: str
    ) -> "asyncio.Task[None]":
        connection = AcpConnection(identity, guest)
        self._open.add(connection)
        serving = connection.run(self._serve(transport, guest, request))
        task = asyncio.create_task(serving)
        task.add_done_callback(lambda _: self._open.discard(connection))
        return task


def new_identity() -> str:
    """An id of a connection, which nobody can guess."""
    return secrets.token_urlsafe(24)


def _version(request: RpcRequest) -> int:
    """The version that a client speaks, by its `initialize`."""
    try:
        return version_of_client({} if request.params is UNSET else codec.parse(request.params))
    except Malformed:
        return 2
