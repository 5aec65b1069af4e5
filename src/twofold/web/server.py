"""Runs the application on a port: uvicorn, with the bounds that it does not have by itself.

A connection that does not send a request in time is closed, and so is one beyond the limit: many
idle connections keep nobody else out for long. Nothing is logged about requests, because their
paths hold one-time codes. What goes wrong at the start is raised in words.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from twofold.errors import LocalError
from twofold.web.access import Access, TokenNotKept, read_tokens
from twofold.web.app import WRITER, App
from twofold.web.requests import LARGEST_MESSAGE

MOST_CONNECTIONS: Final = 512
HEADER_SECONDS: Final = 10.0
"""How long a connection may take to send a request, from its first byte to the last."""
KEEP_ALIVE: Final = 30
"""Seconds after which an idle connection is closed."""
LONGEST_HEADERS: Final = 32 << 10
PING: Final = 20.0
"""Seconds between two signs of life of a page, and for how long one is waited for."""
ENDING: Final = 3
"""Seconds that open requests have when the server is stopped."""
UNSENT: Final = 256 << 10
"""Bytes that the kernel holds for a page, about: what waits there for one on a slow line is old."""
WATCHED: Final = 1.0
"""Seconds between two looks at the files of the tokens."""


class NotListening(LocalError):
    """The server cannot use its address."""


class BadCertificate(LocalError):
    """The files of the certificate cannot be used."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        NotListening: The port is in use, is not for us, or there is no such address.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise NotListening(f"{host} is no address of this machine: {error.strerror}.") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # connections inherit it; by itself it grows to megabytes
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT)
        made.bind(address)
        made.listen(128)
    except OSError as error:
        made.close()
        raise NotListening(_why_not(error, host, port)) from None
    return made


def _why_not(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"Port {port} is in use already. Stop what uses it, or choose another one"
                " with --port; --port 0 takes any that is free."
            )
        case errno.EACCES | errno.EPERM:
            return f"Port {port} is not for you to use. Choose one above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine."
    return f"The server cannot use {host}, port {port}: {error.strerror}."


def certificate(cert: Path, key: Path) -> ssl.SSLContext:
    """The TLS context of a certificate.

    Raises:
        BadCertificate: The files cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        reason = error.reason or "they hold something else"
        raise BadCertificate(
            f"{cert} and {key} are no certificate and its key in PEM: {reason}."
        ) from None
    except OSError as error:
        raise BadCertificate(f"{cert} or {key} cannot be read: {error.strerror}.") from None
    return context


class Server:
    """One application on one socket.

    Args:
        app: The application.
        listening: The socket.
        tls: The TLS context, if browsers come over TLS.
        tokens: The folder of the tokens, which is watched; None if there are none.
    """

    def __init__(
        self,
        app: App,
        listening: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        tokens: Path | None = None,
    ) -> None:
        self._app = app
        self._listening = listening
        self._tokens = tokens
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            http=_TimedHttp,
            ws=_QuietSocket,
            ws_max_size=LARGEST_MESSAGE,
            ws_per_message_deflate=False,
            ws_ping_interval=PING,
            ws_ping_timeout=PING,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=ENDING,
            h11_max_incomplete_event_size=LONGEST_HEADERS,
        )
        config.load()
        config.ssl = tls
        self._server = _Quiet(config)

    async def run(self) -> None:
        """Serve until `stop`."""
        watching = asyncio.create_task(self._watch())
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            watching.cancel()
            self._app.close()
            with suppress(asyncio.CancelledError):
                await watching

    @property
    def is_ready(self) -> bool:
        """Whether it answers requests."""
        return self._server.started

    def stop(self) -> None:
        """End `run`, once open requests have ended or after a short time."""
        self._app.close()
        self._server.should_exit = True

    async def _watch(self) -> None:
        """Put everyone out whose token is deleted or replaced."""
        if self._tokens is None:
            return
        while True:
            await asyncio.sleep(WATCHED)
            refresh(self._app, self._tokens)


def refresh(app: App, folder: Path) -> None:
    """Read the tokens again: who was let in by another one than these is let in no more."""
    access: Access = app.access
    try:
        tokens = read_tokens(folder)
    except TokenNotKept as error:
        logging.getLogger("twofold.web").warning("%s", error)
        return
    if tokens != access.tokens:
        access.replace(tokens)
        app.put_out()


# ---- uvicorn, bounded ----------------------------------------------------------------------------


_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Retry-After: 10\r\n\r\nThis server has too many connections. Try again in a while.\n"
)


class _Quiet(uvicorn.Server):
    """Leaves signals to the caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _TimedHttp(H11Protocol):
    """Closes connections that do not send a request in time, and those beyond the limit."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.write(_FULL)
            transport.close()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing() or self._is_answering:
            self._rest()
        else:
            self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.cycle.more_body:  # else the rest of the request is still to come
            self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._upgraded = True
        self._rest()
        super().handle_websocket_upgrade(event)

    _upgraded = False

    @property
    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        whole = cycle is not None and not cycle.more_body
        return self._upgraded or (whole and not cycle.response_complete)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()


class _QuietSocket(WebSocketsSansIOProtocol):
    """Closes a socket that is sent what is no text, without a traceback in the log.

    It is the `Writer` of its socket, too: nothing is compressed, and a message is never sent in
    parts, so one that is whole may be written between two others.
    """

    async def run_asgi(self) -> None:
        extensions: Any = self.scope["extensions"]
        extensions[WRITER] = self
        await super().run_asgi()

    @property
    def has_room(self) -> bool:
        is_open = self.handshake_complete and not self.close_sent and not self.disconnected
        return is_open and self.writable.is_set() and not self.transport.is_closing()

    def write(self, message: bytes) -> None:
        self.transport.write(message)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            data = b"".join(self.frames)
            try:
                data.decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(1007)
                self.transport.write(b"".join(self.conn.data_to_send()))
                self.close_sent = True
                self.transport.close()
                return
            self.frames = [data]
        super().send_receive_event_to_app()
