"""The server over real sockets: who is answered, with what, and what is refused."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.raw_agent import chunk
from tests.web import example_blocks
from tests.web.server_stage import PATIENCE, ServerStage, serving, soon
from twofold.web import app as app_module
from twofold.web import live_socket, server
from twofold.web.access import CODE_SECONDS, HEADERS, Place, Tokens, read_tokens, token_file
from twofold.web.server import BadCertificate, NotListening, certificate, listen, refresh
from twofold.wire import codec, v2

DATA = Path(__file__).with_name("data")
Test = Callable[..., Coroutine[Any, Any, None]]


def real(test: Test) -> Callable[..., None]:
    """Run an async test with real sockets."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that somebody else sends makes the server log an error, or a traceback."""
    caplog.set_level(logging.INFO)
    yield
    loud = [each for each in caplog.records if each.levelno >= logging.ERROR or each.exc_info]
    assert [each.getMessage() for each in loud] == []


# ---- who is answered -----------------------------------------------------------------------------

EVERYWHERE = ("/", "/static/x.js", "/session/x/file?path=a", "/session/x/export?format=html")
WHO: dict[str, tuple[Callable[[ServerStage], dict[str, str]], int | None]] = {
    "a program with a token": (lambda stage: stage.bearer(), None),
    "an observing program": (lambda stage: stage.bearer("observer"), None),
    "a browser with a cookie": (lambda stage: stage.browser(), None),
    "nobody": (lambda stage: {}, 401),
    "a wrong token": (lambda stage: {"Authorization": f"Bearer {'x' * 43}"}, 401),
    "a wrong cookie": (lambda stage: {"Cookie": f"twofold-{stage.port}=controller.1.x.y"}, 401),
    "another Host": (lambda stage: {**stage.browser(), "Host": "evil.example"}, 421),
    "another Host with a token": (lambda stage: {**stage.bearer(), "Host": "evil.example"}, 421),
    "another port": (lambda stage: {**stage.bearer(), "Host": "127.0.0.1:1"}, 421),
    "another Origin": (lambda stage: {**stage.browser(), "Origin": "http://evil.example"}, 403),
    "no Origin at all": (lambda stage: {**stage.browser(), "Origin": "null"}, 403),
    "another server here": (
        lambda stage: {**stage.browser(), "Origin": "http://127.0.0.1:3000"},
        403,
    ),
}


@pytest.mark.parametrize("who", WHO)
@real
async def test_whoever_is_not_let_in_is_refused_everywhere(who: str) -> None:
    make, status = WHO[who]
    async with serving() as stage:
        for path in EVERYWHERE:
            reply = await stage.get(path, make(stage))
            if status is None:
                assert reply.status in (200, 404)
            else:
                assert reply.status == status
                assert reply.words.endswith(".")
                assert "evil" not in reply.words
            for name, value in HEADERS.items():
                assert reply.headers[name.lower()] == value
            assert "access-control-allow-origin" not in reply.headers
        if status is None:
            async with stage.page(make(stage)) as page:
                await page.until(lambda: page.welcome)
        else:
            upgrade = {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }
            reply = await stage.get("/live", {**upgrade, **make(stage)})
            assert reply.status == status


@real
async def test_a_cookie_opens_no_socket_without_the_page_that_asks_for_it() -> None:
    async with serving() as stage:
        cookie = {"Cookie": stage.browser()["Cookie"]}
        with pytest.raises(InvalidStatus) as raised:
            async with stage.page(cookie):
                pass
        assert raised.value.response.status_code == 403
        assert (await stage.get("/links", cookie, method="POST", body=b"{}")).status == 403


@real
async def test_two_hosts_or_no_host_are_refused() -> None:
    async with serving() as stage:
        for head in (
            "Host: a\r\nHost: b",
            f"Host: 127.0.0.1:{stage.port}\r\nHost: evil.example",
            "X: y",
        ):
            data = await stage.send(
                f"GET / HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode()
            )
            assert data.split()[1] == b"400"


# ---- the way in ----------------------------------------------------------------------------------


@real
async def test_a_code_becomes_a_cookie_and_the_page_goes_on_to_a_clean_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as stage:
        link = stage.access.link("observer")
        path = link.removeprefix(f"http://127.0.0.1:{stage.port}")
        entered = await stage.get(path, {"Accept": "text/html"})
        assert entered.status == 200
        assert b'<script src="/enter.js">' in entered.body
        assert entered.headers["cache-control"] == "no-store"
        assert (await stage.get("/enter.js")).body == b'location.replace("/");\n'
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert (await stage.get("/static/x", {"Cookie": cookie.partition(";")[0]})).status == 404
        again = await stage.get(path)
        assert again.status == 401
        assert "set-cookie" not in again.headers
        assert "used already" in again.words
        code = path.rpartition("/")[2]
        await stage.get("/session/x/file?path=secret-path", stage.bearer())
        assert code not in caplog.text
        assert "secret-path" not in caplog.text
        assert stage.token() not in caplog.text


@real
async def test_an_old_code_and_a_guess_let_nobody_in() -> None:
    async with serving() as stage:
        path = stage.access.link("controller").partition(str(stage.port))[2]
        stage.now += CODE_SECONDS + 1
        for tried in (
            path,
            "/enter/",
            "/enter/x",
            f"/enter/{'x' * 43}",
            "/enter/%00",
            "/enter/x/y",
        ):
            reply = await stage.get(tried)
            assert reply.status in (401, 404)
            assert "set-cookie" not in reply.headers


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
@real
async def test_a_refusal_is_a_page_for_browsers_and_json_for_programs(accept: str) -> None:
    async with serving() as stage:
        reply = await stage.get("/", {"Accept": accept})
        assert reply.status == 401
        assert reply.headers["content-type"].startswith(accept)
        assert b"twofold serve --link" in reply.body


@real
async def test_a_controller_lets_others_in_and_an_observer_nobody() -> None:
    async with serving() as stage:
        for role in ("controller", "observer"):
            body = json.dumps({"role": role}).encode()
            reply = await stage.get("/links", stage.bearer(), method="POST", body=body)
            code = json.loads(reply.body)["url"].rpartition("/")[2]
            assert stage.access.use_code(code) == role
        for headers in (stage.bearer("observer"), stage.browser("observer")):
            assert (await stage.get("/links", headers, method="POST")).status == 403
        for wrong in (b"", b"{", b"{}", b"[]", b'{"role": "owner"}', b'{"role": null}'):
            reply = await stage.get("/links", stage.bearer(), method="POST", body=wrong)
            assert (reply.status, b"one of controller, observer" in reply.body) == (400, True)
        large = await stage.get("/links", stage.bearer(), method="POST", body=b"x" * 100_000)
        assert large.status == 413


@real
async def test_with_another_token_pages_are_closed_and_let_in_no_more(tmp_path: Path) -> None:
    async with serving() as stage:
        stage.access.tokens = read_tokens(tmp_path)
        headers, observer = stage.browser(), stage.browser("observer")
        async with stage.page(headers) as page, stage.page(observer) as other:
            await page.until(lambda: page.welcome)
            await other.until(lambda: other.sessions)
            token_file(tmp_path, "controller").unlink()
            refresh(stage.app, tmp_path)
            with pytest.raises(ConnectionClosed) as raised:
                await page.until(lambda: False)
            assert raised.value.rcvd is not None
            assert raised.value.rcvd.code == live_socket.PUT_OUT
            await other.ask("search", text="x")
        assert (await stage.get("/", headers)).status == 401


@real
async def test_a_server_without_tokens_still_refuses_other_names_and_pages() -> None:
    async with serving() as stage:
        stage.access.tokens = None
        assert (await stage.get("/static/x")).status == 404
        assert (await stage.get("/", {"Host": "evil.example"})).status == 421
        assert (await stage.get("/", {"Origin": "http://evil.example"})).status == 403


# ---- what is answered ----------------------------------------------------------------------------


@real
async def test_files_of_the_page_have_a_type_and_are_not_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = app_module.StaticFile(b"let a;", "text/javascript; charset=utf-8", '"tag"')
    async with serving() as stage:
        monkeypatch.setitem(stage.app._files, "blocks/a.js", found)
        reply = await stage.get("/static/blocks/a.js", stage.bearer())
        assert (reply.status, reply.body) == (200, b"let a;")
        assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
        assert reply.headers["cache-control"] == "no-cache"
        again = await stage.get(
            "/static/blocks/a.js", {**stage.bearer(), "If-None-Match": 'W/"x", "tag"'}
        )
        assert (again.status, again.body) == (304, b"")
        for path in (
            "/static/../app.py",
            "/static/%2e%2e/app.py",
            "/static//etc/passwd",
            "/static/",
        ):
            assert (await stage.get(path, stage.bearer())).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/", 405),
        ("PUT", "/static/x", 405),
        ("OPTIONS", "/", 405),
        ("DELETE", "/session/x/file", 405),
        ("GET", "/links", 404),
        ("GET", "/session/x", 404),
        ("GET", "/session/x/file", 404),
        ("GET", "/session/ID/export", 400),
        ("GET", "/session/ID/export?format=exe", 400),
        ("GET", "/session/ID/media/entry:0/0", 404),
        ("GET", "/session/ID/media/x/x", 404),
        ("GET", "/session/ID/file", 404),
        ("GET", "/session/ID/file?path=%ff%00&line=x", 404),
        ("GET", "/live", 404),
    ],
)
@real
async def test_what_is_not_there_is_named_so(method: str, path: str, status: int) -> None:
    async with serving() as stage:
        path = path.replace("ID", stage.hosted.id)
        reply = await stage.get(path, stage.bearer(), method=method)
        assert reply.status == status
        assert reply.words.endswith(".")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "/etc/passwd",
        "/proc/self/environ",
        "link.txt",
        "pipe",
        "a.py%00",
    ],
)
@real
async def test_files_outside_of_the_session_are_not_served(path: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(folder / "pipe")
    async with serving(cwd=folder) as stage:
        address = f"/session/{stage.hosted.id}/file?path="
        inside = await stage.get(f"{address}a.py&line=1", stage.browser("observer"))
        assert json.loads(inside.body)["lines"][0][0] == ["x = ", ""]
        reply = await stage.get(address + path, stage.browser())
        assert reply.status == 404
        assert "secret" not in reply.words.removesuffix("secret.txt")


@real
async def test_a_session_is_exported_and_its_pictures_are_no_pages() -> None:
    async with serving() as stage:
        for update in example_blocks.UPDATES:
            stage.agent.update(update)
        await soon(lambda: "unknown:_acme.dev/thing" in map(str, stage.hosted.live.places))
        stage.hosted.flush()
        address = f"/session/{stage.hosted.id}"
        for form, begin in (("markdown", b"# Greet"), ("html", b"<!doctype"), ("jsonl", b"{")):
            reply = await stage.get(f"{address}/export?format={form}", stage.browser())
            assert reply.status == 200
            assert reply.body.startswith(begin)
            assert reply.headers["content-disposition"].startswith("attachment")
        picture = await stage.get(f"{address}/media/entry:0/1", stage.browser())
        assert picture.body.startswith(b"\x89PNG")
        assert picture.headers["content-type"] == "image/png"
        assert picture.headers["content-security-policy"] == "default-src 'none'; sandbox"
        log = await stage.get(f"{address}/media/entry:3/4", stage.browser())
        assert (log.headers["content-type"], log.body) == (
            "application/octet-stream",
            b"one\ntwo\n",
        )


@real
async def test_an_export_of_a_long_session_stops_nobody() -> None:
    async with serving() as stage, stage.page() as page:
        await page.open((2**31 - 1, None))
        content = [{"type": "text", "text": "Some *words*.\n\n" * 10}]
        message = {"sessionUpdate": "agent_message", "content": content}
        for number in range(6_000):
            stage.hosted.live.session.apply(
                v2.decode_update(codec.encode({**message, "messageId": f"m{number}"}))
            )
        address = f"/session/{stage.hosted.id}/export?format=html"
        exporting = asyncio.create_task(stage.get(address, stage.browser()))
        await soon(lambda: stage.app.is_exporting)
        seen = page.mirror.seq
        for number in range(3):
            stage.agent.update(chunk("More.", f"x{number}"))
            await page.until(lambda: page.mirror.seq > seen)  # noqa: B023
            seen = page.mirror.seq
        assert not exporting.done()
        assert (await exporting).body.count(b"<em>words</em>") == 60_000


# ---- bounds --------------------------------------------------------------------------------------


@real
async def test_who_sends_too_many_requests_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "BURST", 5)
    monkeypatch.setattr(app_module, "RATE", 0.001)
    async with serving() as stage:
        replies = [await stage.get("/") for _ in range(6)]
        assert [each.status for each in replies] == [401] * 5 + [429]
        assert replies[-1].headers["retry-after"] == "2"
        with pytest.raises(InvalidStatus) as raised:
            async with stage.page():
                pass
        assert raised.value.response.status_code == 429


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
    ],
)
@real
async def test_a_connection_that_sends_no_whole_request_is_closed(
    beginning: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    async with serving() as stage:
        with contextlib.suppress(ConnectionError):
            await stage.send(beginning)
        assert (await stage.get("/")).status == 401


@real
async def test_a_header_that_trickles_in_after_an_answer_is_bounded_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    async with serving() as stage:
        host = f"Host: 127.0.0.1:{stage.port}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
        writer.write(f"GET / HTTP/1.1\r\n{host}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == b"401"
        ended = asyncio.create_task(reader.read())
        async with asyncio.timeout(PATIENCE):
            while not ended.done():
                with contextlib.suppress(ConnectionError):
                    writer.write(b"G")
                    await writer.drain()
                await asyncio.sleep(0.02)
        with contextlib.suppress(ConnectionError):
            await ended
        writer.close()


@real
async def test_a_page_that_is_silent_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.1)
    async with serving() as stage, stage.page() as page:
        await page.until(lambda: page.sessions)
        await asyncio.sleep(0.3)
        await page.ask("search", text="x")


@real
async def test_headers_without_end_are_refused() -> None:
    async with serving() as stage:
        data = await stage.send(b"GET / HTTP/1.1\r\nX: " + b"x" * (server.LONGEST_HEADERS + 1_000))
        assert data.split()[1] in (b"400", b"431")


@real
async def test_connections_beyond_the_limit_are_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    async with serving() as stage:
        idle = [await asyncio.open_connection("127.0.0.1", stage.port) for _ in range(3)]
        data = await stage.send(b"")
        assert data.split()[1] == b"503"
        assert b"too many connections" in data
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()
        assert (await stage.get("/")).status in (401, 503)  # some are still being closed


@real
async def test_pages_beyond_the_limit_are_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_socket, "MOST_SOCKETS", 1)
    async with serving() as stage, stage.page() as page:
        await page.until(lambda: page.welcome)
        async with stage.page() as other:
            with pytest.raises(ConnectionClosed) as raised:
                await other.until(lambda: False)
            assert raised.value.rcvd is not None
            assert raised.value.rcvd.code == live_socket.TOO_MANY
        await page.ask("search", text="x")


@real
async def test_a_message_that_is_too_large_ends_the_socket_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LARGEST_MESSAGE", 100_000)
    async with serving() as stage, stage.page() as other:
        async with stage.page() as page:
            await page.until(lambda: page.sessions)
            await page.socket.send("x" * 100_001)
            with pytest.raises(ConnectionClosed) as raised:
                await page.until(lambda: False)
            assert raised.value.rcvd is not None
            assert raised.value.rcvd.code == 1009
        await other.ask("search", text="x")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x82\0\0\0\0\xff\xfe", 1007),  # no UTF-8
        (b"\x83\x80\0\0\0\0", 1002),  # an opcode that there is not
        (b"\x81\x02ab", 1002),  # not masked
        (b"\xc1\x80\0\0\0\0", 1002),  # an extension that was not agreed on
    ],
)
@real
async def test_a_malformed_frame_ends_the_socket_with_a_code(frame: bytes, code: int) -> None:
    async with serving() as stage, stage.page() as page:
        await page.until(lambda: page.sessions)
        page.socket.transport.write(frame)
        with pytest.raises(ConnectionClosed) as raised:
            await page.until(lambda: False)
        assert raised.value.rcvd is None or raised.value.rcvd.code == code


@real
async def test_what_is_no_http_is_refused() -> None:
    async with serving() as stage:
        for data in (
            b"\x16\x03\x01\x02\x00",
            b"SSH-2.0-x\r\n\r\n",
            b"GET http://[ HTTP/1.1\r\n\r\n",
        ):
            assert (await stage.send(data + b"\r\n\r\n")).split()[1] == b"400"


# ---- starting and ending -------------------------------------------------------------------------


@real
async def test_pages_are_closed_when_the_server_ends() -> None:
    async with serving() as stage:
        page_context = stage.page()
        page = await page_context.__aenter__()
        await page.until(lambda: page.sessions)
    with pytest.raises(ConnectionClosed):
        await page.until(lambda: False)
    await page_context.__aexit__(None, None, None)


@real
async def test_over_tls_a_browser_is_given_a_secure_cookie() -> None:
    tls = certificate(DATA / "cert.pem", DATA / "key.pem")
    trusting = ssl.create_default_context(cafile=DATA / "cert.pem")
    trusting.check_hostname = False
    place = Place.of("https", ["box.example"], 443)
    async with serving(tls=tls, place=place) as stage:
        host = {"Host": "box.example"}
        path = stage.access.link("controller").partition(":443")[2]
        reply = await stage.get(path, host, tls=trusting)
        assert reply.headers["set-cookie"].startswith("__Host-twofold-443=")
        assert reply.headers["set-cookie"].endswith("; Secure")
        cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}
        assert (await stage.get("/static/x", {**host, **cookie}, tls=trusting)).status == 404


def test_what_waits_for_a_page_that_does_not_read_is_bounded() -> None:
    with listen("127.0.0.1", 0) as listening, socket.socket() as page:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        page.connect(listening.getsockname())
        connection, _ = listening.accept()
        with connection:
            connection.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 4 * server.UNSENT:
                    sent += connection.send(bytes(4096))
            assert sent < 3 * server.UNSENT


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    first = listen("127.0.0.1", 0)
    with contextlib.closing(first), pytest.raises(NotListening, match=r"in use.*--port 0"):
        listen("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "above 1023"),
        (errno.EADDRNOTAVAIL, "no address of this machine"),
        (errno.ENOBUFS, "cannot use"),
    ],
)
def test_a_port_that_cannot_be_used_is_named_with_the_reason(
    number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(NotListening, match=words):
        listen("127.0.0.1", 80)


def test_a_name_that_is_no_address_is_refused() -> None:
    with pytest.raises(NotListening, match="no address"):
        listen("no such host", 0)


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("cert.pem", "missing.pem", "cannot be read"),
        ("key.pem", "cert.pem", "no certificate and its key"),
        ("cert.pem", "cert.pem", "no certificate and its key"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named(cert: str, key: str, words: str) -> None:
    with pytest.raises(BadCertificate, match=words):
        certificate(DATA / cert, DATA / key)


def test_a_token_file_that_is_spoilt_while_the_server_runs_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with serving() as stage:
            before = stage.access.tokens = read_tokens(tmp_path)
            token_file(tmp_path, "controller").write_text("spoilt")
            refresh(stage.app, tmp_path)
            assert stage.access.tokens == before
            assert isinstance(before, Tokens)

    asyncio.run(run())
    assert "holds no token" in caplog.text
