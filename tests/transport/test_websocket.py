"""A WebSocket as a transport, against a server that does what a test scripts."""

import asyncio
import base64
import hashlib
import json
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from tests.support.http_server import Asked, Reply, serving
from tests.support.real_time import in_real_time
from tests.support.receiver import Recorder
from twofold.transport import websocket
from twofold.transport.base import HIGH_WATER
from twofold.transport.endpoint import NotReached, RemoteEnded
from twofold.transport.websocket import WebSocket

SECRET = "sesame-9"
MIB = 1024 * 1024

Script = Callable[[ServerConnection], Awaitable[None]]


async def echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


class Line:
    """An open WebSocket and what it delivers."""

    def __init__(self, transport: WebSocket) -> None:
        self.transport = transport
        self.recorder = Recorder()
        transport.start(self.recorder)

    @property
    def lines(self) -> list[bytes]:
        return bytes(self.recorder.data).split(b"\n")[:-1]

    async def got(self, count: int) -> list[bytes]:
        await self.recorder.until(lambda: len(self.lines) >= count)
        return self.lines

    async def end(self) -> RemoteEnded:
        error = await self.recorder.end()
        assert isinstance(error, RemoteEnded)
        return error


@asynccontextmanager
async def talking(script: Script = echo, **options: Any) -> AsyncIterator[Line]:
    """A WebSocket to a server that runs `script` for it."""
    async with serve(script, "127.0.0.1", 0, max_size=64 * MIB, close_timeout=0.2) as server:
        line = Line(await opened(server.sockets[0].getsockname()[1], **options))
        try:
            yield line
        finally:
            await line.transport.close()
            assert len(line.recorder.errors) == 1


async def opened(port: int, **options: Any) -> WebSocket:
    return await WebSocket.open(f"ws://127.0.0.1:{port}/acp", **options)


# ---- the regular way


@in_real_time
async def test_each_line_is_a_text_frame_in_both_directions() -> None:
    frames: list[Any] = []

    async def script(socket: ServerConnection) -> None:
        async for frame in socket:
            frames.append(frame)
            await socket.send(frame)

    async with talking(script) as line:
        line.transport.write(b'{"a":1}\n{"b"')
        line.transport.write(b":2}\n\n  \n")
        assert await line.got(2) == [b'{"a":1}', b'{"b":2}']
        assert frames == ['{"a":1}', '{"b":2}']


@in_real_time
async def test_the_id_the_token_and_no_compression_are_agreed_at_the_beginning() -> None:
    seen: list[Headers] = []

    def answer(socket: ServerConnection, request: Request, response: Response) -> Response:
        seen.append(request.headers)
        response.headers["Acp-Connection-Id"] = "c1"
        return response

    async with serve(echo, "127.0.0.1", 0, process_response=answer) as server:
        transport = await opened(server.sockets[0].getsockname()[1], token=SECRET)
        assert transport.connection_id == "c1"
        line = Line(transport)
        await transport.close()
        assert line.recorder.errors == [None]
    [headers] = seen
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert "Sec-WebSocket-Extensions" not in headers
    assert "Sec-WebSocket-Protocol" not in headers


@in_real_time
async def test_binary_frames_are_ignored() -> None:
    async def script(socket: ServerConnection) -> None:
        await socket.send(b"\0\1")
        await socket.send("{}")
        await socket.wait_closed()

    async with talking(script) as line:
        assert await line.got(1) == [b"{}"]


@in_real_time
async def test_a_message_that_is_printed_on_several_lines_is_one_line() -> None:
    async def script(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"a": "b\nc"}, indent=2))
        await socket.send([" {", "}\r\n"])
        await socket.wait_closed()

    async with talking(script) as line:
        first, second = await line.got(2)
        assert json.loads(first) == {"a": "b\nc"}
        assert json.loads(second) == {}


@in_real_time
async def test_the_token_is_not_logged_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with talking(token=SECRET) as line:
        line.transport.write(b"{}\n")
        await line.got(1)
    sent = [each for each in caplog.records if "client" in each.name or "twofold" in each.name]
    assert not any(SECRET in each.getMessage() for each in sent)


@in_real_time
async def test_a_message_of_20_mb_passes_in_both_directions() -> None:
    large = b'"%b"' % (b"x" * 20_000_000)
    async with talking() as line:
        line.transport.write(large + b"\n")
        assert await line.got(1) == [large]


# ---- bounds


@in_real_time
async def test_a_message_has_a_limit() -> None:
    async with talking(limit=1000) as line:
        line.transport.write(b"x" * 1001 + b"\n")
        error = await line.end()
        assert error.code == 1009
        assert "is too large" in str(error)


@in_real_time
async def test_a_server_waits_while_reading_is_paused_and_nothing_is_lost() -> None:
    count, size, sent = 300, MIB // 4, 0

    async def script(socket: ServerConnection) -> None:
        nonlocal sent
        for number in range(count):
            await socket.send(f"{number} {'x' * size}")
            sent = number
        await socket.wait_closed()

    async with talking(script) as line:
        line.transport.pause_reading()
        before = -1
        while sent != before:  # until the buffers of the system are full
            before = sent
            await asyncio.sleep(0.1)
        assert sent < count - 1
        assert line.recorder.pieces == 0
        line.transport.resume_reading()
        await line.recorder.until(lambda: line.recorder.pieces == count)
        assert [int(each.split()[0]) for each in line.lines] == list(range(count))


@in_real_time
async def test_a_server_that_does_not_read_pauses_the_writer() -> None:
    read = asyncio.Event()

    async def script(socket: ServerConnection) -> None:
        await read.wait()
        async for _ in socket:
            pass

    async with talking(script) as line:
        for _ in range(100):
            line.transport.write(b'"%b"\n' % (b"x" * HIGH_WATER))
        assert line.recorder.calls == ["pause_writing"]
        read.set()
        await line.recorder.until(lambda: "resume_writing" in line.recorder.calls)


# ---- ends


CODES = [
    (1000, "", "the server closed it"),
    (1001, "", "going away"),
    (1008, "token revoked", "does not allow it (close code 1008: token revoked)"),
    (1011, "", "the server failed"),
    (4001, "\x1b[31mred", "the server closed it (close code 4001: red)"),
]


@pytest.mark.parametrize(("code", "reason", "words"), CODES)
@in_real_time
async def test_the_code_of_a_close_is_explained(code: int, reason: str, words: str) -> None:
    async def script(socket: ServerConnection) -> None:
        await socket.send("{}")
        await socket.close(code, reason)

    async with talking(script) as line:
        error = await line.end()
        assert line.lines == [b"{}"]
        assert words in str(error)
        assert error.code == code
        line.transport.write(b"dropped\n")


@in_real_time
async def test_a_connection_that_is_cut_in_the_middle_of_a_message_ends_without_it() -> None:
    async def script(socket: ServerConnection) -> None:
        await socket.send("{}")
        head = b"\x81\x7e\x10\x00"  # a text of 4096 bytes, of which 5 follow
        socket.transport.write(head + b'{"cut')
        await asyncio.sleep(0)
        socket.transport.close()

    async with talking(script) as line:
        assert "broke it off" in str(await line.end())
        assert line.lines == [b"{}"]


@in_real_time
async def test_a_text_that_is_not_utf_8_ends_the_connection() -> None:
    async def script(socket: ServerConnection) -> None:
        socket.transport.write(b"\x81\x01\xff")
        await socket.wait_closed()

    async with talking(script) as line:
        error = await line.end()
        assert error.code == 1007
        assert "not allowed in a WebSocket" in str(error)


@in_real_time
async def test_a_server_that_answers_no_ping_and_sends_nothing_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "PING", 0.01)
    monkeypatch.setattr(websocket, "PONG", 0.01)

    async def deaf(asked: Asked, reply: Reply) -> None:
        accept = hashlib.sha1(
            asked.headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        )
        reply._writer.write(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n\r\n" % base64.b64encode(accept.digest())
        )
        await asyncio.Event().wait()

    async with serving(deaf) as port:
        line = Line(await opened(port))
        assert "no longer answers" in str(await line.end())
        await line.transport.close()


@in_real_time
async def test_closing_sends_what_was_written_and_does_not_wait_for_a_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "CLOSE", 0.05)
    got: list[Any] = []
    over = asyncio.Event()

    async def script(socket: ServerConnection) -> None:
        got.append(await socket.recv())
        socket.transport.pause_reading()
        await over.wait()

    async with talking(script) as line:
        line.transport.write(b'"last"\n')
        await line.transport.close()
        await line.transport.close()
        assert line.recorder.errors == [None]
        over.set()
    assert got == ['"last"']


# ---- no connection


def answering(status: int, **headers: str) -> Any:
    def refuse(socket: ServerConnection, request: Request) -> Response:
        return Response(status, HTTPStatus(status).phrase, Headers(headers), b"<html>\x1b[2Jno")

    return refuse


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "requires a token"), (403, "refuses"), (404, "nothing at /acp"), (503, "failed")],
)
@in_real_time
async def test_a_server_that_refuses_is_explained(status: int, words: str) -> None:
    async with serve(echo, "127.0.0.1", 0, process_request=answering(status)) as server:
        with pytest.raises(NotReached, match=words) as caught:
            await opened(server.sockets[0].getsockname()[1])
    assert caught.value.status == status
    assert "\x1b" not in str(caught.value)


@in_real_time
async def test_a_redirect_is_not_followed() -> None:
    visited = False

    async def visit(socket: ServerConnection) -> None:
        nonlocal visited
        visited = True

    async with serve(visit, "127.0.0.1", 0) as other:
        target = f"ws://127.0.0.1:{other.sockets[0].getsockname()[1]}/acp"
        refuse = answering(307, Location=target)
        async with serve(echo, "127.0.0.1", 0, process_request=refuse) as server:
            with pytest.raises(NotReached, match="redirects are not followed") as caught:
                await opened(server.sockets[0].getsockname()[1], token=SECRET)
    assert not visited
    assert target in str(caught.value)


@in_real_time
async def test_something_else_that_listens_is_explained() -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        with pytest.raises(NotReached):
            await opened(server.sockets[0].getsockname()[1])


@in_real_time
async def test_nothing_that_listens_and_a_host_that_is_unknown_are_explained() -> None:
    async with serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    with pytest.raises(NotReached, match="nothing listens"):
        await opened(port)
    with pytest.raises(NotReached, match="is unknown"):
        await WebSocket.open("ws://nowhere.invalid/acp")


@in_real_time
async def test_a_server_that_accepts_and_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "OPEN_TIMEOUT", 0.05)

    async def never(asked: Asked, reply: Reply) -> None:
        await asyncio.Event().wait()

    async with serving(never) as port:
        with pytest.raises(NotReached, match="did not answer within"):
            await opened(port)


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that nobody vouches for, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    file, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key)]
    command += ["-addext", "subjectAltName=DNS:localhost", "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return file, key


@in_real_time
async def test_a_certificate_has_to_be_trusted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with serve(echo, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"wss://localhost:{port}/acp"
        with pytest.raises(NotReached, match="certificate is not trusted"):
            await WebSocket.open(url, token=SECRET)
        with pytest.raises(NotReached):
            await opened(port)  # without TLS
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        line = Line(await WebSocket.open(url, token=SECRET))
        line.transport.write(b"{}\n")
        assert await line.got(1) == [b"{}"]
        await line.transport.close()


@in_real_time
async def test_a_server_without_tls_is_explained() -> None:
    async with serve(echo, "127.0.0.1", 0) as server:
        with pytest.raises(NotReached, match="TLS"):
            await WebSocket.open(f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp")
