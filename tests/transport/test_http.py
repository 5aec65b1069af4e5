"""Streamable HTTP as a transport, against a scripted server with every difference and fault."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.http_server import AcpServer, Asked, Json, Reply, serving
from tests.support.real_time import in_real_time
from tests.support.receiver import Recorder
from twofold.transport import http
from twofold.transport.base import HIGH_WATER
from twofold.transport.endpoint import NotReached, RemoteEnded
from twofold.transport.http import StreamableHttp

SECRET = "sesame-9"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried at once."""
    monkeypatch.setattr(http, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(http, "LONGEST_RETRY", 0.001)


class Line:
    """A transport in conversation with a scripted server."""

    def __init__(self, server: AcpServer, transport: StreamableHttp) -> None:
        self.server = server
        self.transport = transport
        self.recorder = Recorder()

    @property
    def messages(self) -> list[Any]:
        """What the receiver got, but for the answer to `initialize`."""
        lines = [json.loads(line) for line in bytes(self.recorder.data).splitlines()]
        return [each for each in lines if each.get("id") != 0]

    def send(self, *messages: Json) -> None:
        self.transport.write(b"".join(_line(each) for each in messages))

    async def got(self, count: int) -> list[Any]:
        await self.recorder.until(lambda: len(self.messages) >= count)
        return self.messages

    async def end(self) -> RemoteEnded:
        error = await self.recorder.end()
        assert isinstance(error, RemoteEnded)
        return error


def _line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def call(identity: int, method: str, session: str | None = None, **params: Any) -> Json:
    named = {} if session is None else {"sessionId": session}
    return {"id": identity, "method": method, "params": named | params}


def update(number: int, session: str = "s1") -> Json:
    params = {"sessionId": session, "number": number}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def answer(identity: Any, **result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def error_of(message: Json) -> str:
    return str(message["error"]["message"])


@asynccontextmanager
async def unopened(
    server: AcpServer, *, token: str | None = None, limit: int = 100_000, query: str = ""
) -> AsyncIterator[Line]:
    """A transport that has not sent `initialize`."""
    async with serving(server) as port:
        url = f"http://127.0.0.1:{port}/acp{query}"
        line = Line(server, await StreamableHttp.open(url, token=token, limit=limit))
        line.transport.start(line.recorder)
        try:
            yield line
        finally:
            await line.transport.close()
            assert len(line.recorder.errors) == 1


@asynccontextmanager
async def talking(server: AcpServer | None = None, **options: Any) -> AsyncIterator[Line]:
    """A connection that is open, with its stream."""
    server = server or AcpServer()
    async with unopened(server, **options) as line:
        line.send(call(0, "initialize"))
        await server.stream()
        yield line


@asynccontextmanager
async def in_session(server: AcpServer | None = None, **options: Any) -> AsyncIterator[Line]:
    """A connection with the session s1, whose stream is open."""
    async with talking(server, **options) as line:
        line.send(call(1, "session/new"))
        await line.server.until(lambda: line.server.posts)
        line.server.open[None].event(answer(1, sessionId="s1"))
        await line.server.stream("s1")
        await line.got(1)
        yield line


def refusing(*statuses: int, session: str | None = "s1") -> Callable[[AcpServer], Any]:
    """A script for GET that refuses the stream of a session with these statuses, one a request."""
    left = list(statuses)

    def scripted(server: AcpServer) -> Any:
        async def on_get(asked: Asked, reply: Reply) -> None:
            if asked.session == session and left:
                await reply.send(left.pop(0), b"no")
            else:
                await server.streamed(asked, reply)

        return on_get

    return scripted


# ---- the regular way


@in_real_time
async def test_a_conversation_uses_a_stream_of_the_connection_and_one_of_each_session() -> None:
    async with in_session(token=SECRET) as line:
        assert line.transport.connection_id == "c1"
        line.send(call(2, "session/prompt", "s1"))
        await line.server.until(lambda: len(line.server.posts) == 2)
        stream = line.server.open["s1"]
        stream.event(update(1))
        stream.event(answer(2, stopReason="end_turn"))
        assert (await line.got(3))[1:] == [update(1), answer(2, stopReason="end_turn")]
    first, *others = [each for each in line.server.asked if each.method != "DELETE"]
    assert "acp-connection-id" not in first.headers
    assert all(each.headers["acp-connection-id"] == "c1" for each in others)
    assert all(each.headers["authorization"] == f"Bearer {SECRET}" for each in line.server.asked)
    assert line.server.asked[-1].method == "DELETE"
    [prompt] = [each for each in others if each.body and each.message["id"] == 2]
    assert prompt.session == "s1"
    assert prompt.headers["content-type"] == "application/json"


@in_real_time
async def test_an_answer_to_the_agent_names_the_session_of_the_question() -> None:
    async with in_session() as line:
        line.server.open["s1"].event({"jsonrpc": "2.0", "id": "q", "method": "_ask"})
        line.server.open["s1"].event({"jsonrpc": "2.0", **call(7, "_ask", "s1")})
        await line.got(3)
        line.send({"id": "q", "result": {}}, {"id": 7, "error": {"code": 1, "message": "no"}})
        await line.server.until(lambda: len(line.server.posts) == 3)
        assert [each.session for each in line.server.asked if each.method == "POST"][-2:] == [
            "s1",
            "s1",
        ]


@in_real_time
async def test_lines_are_posted_in_order_one_after_the_other() -> None:
    async with talking() as line:
        under_way = 0

        async def slowly(asked: Asked, reply: Reply) -> None:
            nonlocal under_way
            under_way += 1
            assert under_way == 1
            await asyncio.sleep(0)
            under_way -= 1
            await reply.send(202)

        line.server.on_post = slowly
        line.send(*({"method": "_n", "params": {"n": number}} for number in range(20)))
        await line.server.until(lambda: len(line.server.posts) == 20)
        assert [each["params"]["n"] for each in line.server.posts] == list(range(20))


@in_real_time
async def test_a_batch_is_posted_message_by_message() -> None:
    async with talking() as line:
        batch = json.dumps([answer(1), answer(2)]).encode()
        line.transport.write(batch[:10])
        line.transport.write(batch[10:] + b"\n\n")
        await line.server.until(lambda: len(line.server.posts) == 2)


@in_real_time
async def test_comments_and_line_breaks_in_a_message_do_no_harm() -> None:
    async with talking() as line:
        line.server.open[None].raw(b': alive\n\ndata: {\ndata: "jsonrpc": "2.0",\r\n')
        line.server.open[None].raw(b'data: "method": "_x"}\n\n')
        assert await line.got(1) == [{"jsonrpc": "2.0", "method": "_x"}]


@in_real_time
async def test_another_initialize_begins_another_connection() -> None:
    async with in_session() as line:
        line.send(call(0, "initialize"))
        await line.server.until(lambda: len(line.server.gets()) == 2)
        methods = [each.method for each in line.server.asked]
        assert methods.index("DELETE") < len(methods) - 1
        assert line.transport.connection_id == "c1"


@in_real_time
async def test_the_token_is_not_logged_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with in_session(token=SECRET) as line:
        line.send(call(3, "session/list"))
        await line.server.until(lambda: len(line.server.posts) == 2)
    assert caplog.records
    assert not any(SECRET in each.getMessage() for each in caplog.records)


# ---- loading a session


def loading(line: Line) -> Json:
    request = call(5, "session/load", "s9", cwd="/", mcpServers=[])
    line.send(request)
    return request


@in_real_time
async def test_the_answer_to_a_load_waits_for_a_replay_on_another_stream() -> None:
    async with talking() as line:
        loading(line)
        stream = await line.server.stream("s9")
        await line.server.until(lambda: line.server.posts)
        line.server.open[None].event(answer(5))
        await line.server.until(lambda: len(line.server.posts) == 2)
        mark = line.server.posts[1]
        assert mark["params"] == {"sessionId": "s9"}
        assert line.messages == []
        stream.event(update(1, "s9"))
        stream.event(update(2, "s9"))
        stream.event({"jsonrpc": "2.0", "id": mark["id"], "error": {"code": -32601}})
        assert await line.got(3) == [update(1, "s9"), update(2, "s9"), answer(5)]


@in_real_time
async def test_it_waits_only_as_long_as_something_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "SILENCE", 0.01)
    async with talking() as line:
        loading(line)
        await line.server.stream("s9")
        await line.server.until(lambda: line.server.posts)
        line.server.open[None].event(answer(5))
        assert await line.got(1) == [answer(5)]


@in_real_time
async def test_a_stream_that_is_gone_holds_no_answer() -> None:
    async with talking() as line:
        loading(line)
        stream = await line.server.stream("s9")
        await line.server.until(lambda: line.server.posts)
        line.server.open[None].event(answer(5))
        await line.server.until(lambda: len(line.server.posts) == 2)
        stream.end()
        got = await line.got(1)
        assert answer(5) in got


@in_real_time
async def test_a_mark_that_the_server_refuses_holds_no_answer() -> None:
    async with talking() as line:
        loading(line)
        await line.server.stream("s9")
        await line.server.until(lambda: line.server.posts)

        async def refuse(asked: Asked, reply: Reply) -> None:
            await reply.send(400)

        line.server.on_post = refuse
        line.server.open[None].event(answer(5))
        assert await line.got(1) == [answer(5)]


@in_real_time
async def test_an_answer_on_the_stream_of_the_replay_does_not_wait() -> None:
    async with talking() as line:
        loading(line)
        stream = await line.server.stream("s9")
        await line.server.until(lambda: line.server.posts)
        stream.event(update(1, "s9"))
        stream.event(answer(5))
        assert await line.got(2) == [update(1, "s9"), answer(5)]
        assert len(line.server.posts) == 1


@in_real_time
async def test_a_server_without_a_stream_before_the_load_gets_no_header_and_a_stream_later() -> (
    None
):
    server = AcpServer()
    server.on_get = refusing(404, session="s9")(server)
    async with talking(server) as line:
        loading(line)
        await server.until(lambda: server.posts)
        assert [each.session for each in server.asked if each.method == "POST"] == [None, None]
        server.open[None].event(update(1, "s9"))
        server.open[None].event(answer(5))
        assert await line.got(2) == [update(1, "s9"), answer(5)]
        (await server.stream("s9")).event(update(2, "s9"))
        await line.got(3)


# ---- streams that end


@in_real_time
async def test_a_stream_with_ids_is_opened_again_after_the_last_of_them() -> None:
    async with in_session() as line:
        line.send(call(2, "session/prompt", "s1"))
        await line.server.until(lambda: len(line.server.posts) == 2)
        stream = line.server.open["s1"]
        stream.event(update(1), "e-1")
        stream.raw(b'id: e-2\ndata: {"cut')
        await line.got(2)
        stream.cut()
        await line.server.until(lambda: len(line.server.gets("s1")) == 2)
        again = await line.server.stream("s1")
        assert line.server.gets("s1")[1].headers["last-event-id"] == "e-1"
        again.event(answer(2), "e-2")
        assert (await line.got(3))[1:] == [update(1), answer(2)]


@pytest.mark.parametrize("session", [None, "s1"])
@in_real_time
async def test_a_stream_that_nobody_waits_for_is_opened_again(session: str | None) -> None:
    async with in_session() as line:
        line.server.open[session].end()
        await line.server.until(lambda: len(line.server.gets(session)) == 2)
        (await line.server.stream(session)).event(update(1))
        await line.got(2)


@in_real_time
async def test_the_end_of_a_session_s_stream_fails_what_waits_for_it_and_nothing_else() -> None:
    async with in_session() as line:
        line.send(call(2, "session/prompt", "s1"), call(3, "session/list"))
        await line.server.until(lambda: len(line.server.posts) == 3)
        line.server.open["s1"].end()
        failed = (await line.got(2))[1]
        assert failed["id"] == 2
        assert "closed the stream" in error_of(failed)
        line.server.open[None].event(answer(3))
        assert (await line.got(3))[2] == answer(3)
        line.send(call(4, "session/prompt", "s1"))
        (await line.server.stream("s1")).event(answer(4))
        await line.got(4)


@in_real_time
async def test_a_stream_that_is_gone_when_it_is_opened_again_fails_what_waits_for_it() -> None:
    async with in_session() as line:
        line.send(call(2, "session/prompt", "s1"))
        await line.server.until(lambda: len(line.server.posts) == 2)
        line.server.on_get = refusing(404)(line.server)
        line.server.open["s1"].event(update(1), "e-1")
        line.server.open["s1"].end()
        failed = (await line.got(3))[2]
        assert failed["id"] == 2
        assert "does not know the session" in error_of(failed)


@pytest.mark.parametrize("session", [None, "s1"])
@in_real_time
async def test_a_stream_that_is_cut_ends_the_connection_because_something_may_be_missing(
    session: str | None,
) -> None:
    async with in_session() as line:
        line.server.open[session].raw(b'data: {"half')
        line.server.open[session].cut()
        assert "ended" in str(await line.end())


@in_real_time
async def test_the_connection_s_stream_ending_with_a_request_under_way_is_the_end() -> None:
    async with talking() as line:
        line.send(call(3, "session/list"))
        await line.server.until(lambda: line.server.posts)
        line.server.open[None].end()
        assert "closed the stream" in str(await line.end())


@in_real_time
async def test_a_stream_that_always_ends_at_once_is_given_up() -> None:
    server = AcpServer()

    async def brief(asked: Asked, reply: Reply) -> None:
        reply.events()
        reply.end()

    server.on_get = brief
    async with unopened(server) as line:
        line.send(call(0, "initialize"))
        await line.end()
        assert len(server.gets()) == http.TRIES


@in_real_time
async def test_a_session_that_was_closed_loses_its_stream_and_no_other_is_opened() -> None:
    async with in_session() as line:
        line.send(call(2, "session/close", "s1"))
        await line.server.until(lambda: len(line.server.posts) == 2)
        line.server.open["s1"].event(answer(2))
        await line.got(2)
        line.send(call(3, "session/list"))
        await line.server.until(lambda: len(line.server.posts) == 3)
        assert len(line.server.gets("s1")) == 1


@in_real_time
async def test_a_stream_on_which_even_comments_stop_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "QUIET", 0.02)
    async with talking() as line:
        line.server.open[None].raw(b": alive\n\n")
        assert "no longer answers" in str(await line.end())


@in_real_time
async def test_a_stream_without_comments_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "QUIET", 0.0)
    async with talking() as line:
        line.server.open[None].event(update(1))
        await line.got(1)
        line.send(call(3, "session/list"))
        await line.server.until(lambda: line.server.posts)
        line.server.open[None].event(answer(3))
        await line.got(2)


# ---- refusals


@in_real_time
async def test_a_stream_that_another_reader_has_is_tried_again() -> None:
    server = AcpServer()
    server.on_get = refusing(409, 409)(server)
    async with in_session(server) as line:
        assert len(server.gets("s1")) == 3
        server.open["s1"].event(update(1))
        await line.got(2)


@in_real_time
async def test_a_stream_that_another_reader_keeps_fails_the_requests_of_the_session() -> None:
    server = AcpServer()
    server.on_get = refusing(*[409] * 20, session="s1")(server)
    async with talking(server) as line:
        line.send(call(2, "session/prompt", "s1"))
        [failed] = await line.got(1)
        assert "another client" in error_of(failed)
        line.send(call(3, "session/list"))
        await server.until(lambda: server.posts)
        assert [each["id"] for each in server.posts] == [3]
        assert not line.recorder.errors


@pytest.mark.parametrize(("status", "words"), [(413, "too large"), (400, "400"), (502, "failed")])
@in_real_time
async def test_a_request_that_is_refused_gets_an_error_and_the_connection_goes_on(
    status: int, words: str
) -> None:
    async with talking() as line:

        async def refuse(asked: Asked, reply: Reply) -> None:
            await reply.send(status, b"why not")

        line.server.on_post = refuse
        line.send(call(3, "session/list"))
        [failed] = await line.got(1)
        assert failed["id"] == 3
        assert words in error_of(failed)
        line.server.on_post = line.server.accepted
        line.send(call(4, "session/list"))
        await line.server.until(lambda: len(line.server.posts) == 2)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
@in_real_time
async def test_a_connection_that_the_server_no_longer_accepts_ends(status: int) -> None:
    async with talking(token=SECRET) as line:

        async def refuse(asked: Asked, reply: Reply) -> None:
            await reply.send(status)

        line.server.on_post = refuse
        line.send(call(3, "session/list"))
        error = await line.end()
        assert error.code == status
        assert SECRET not in str(error)


@in_real_time
async def test_an_unknown_session_fails_its_request_only() -> None:
    async with in_session() as line:

        async def refuse(asked: Asked, reply: Reply) -> None:
            await reply.send(404 if asked.session else 202)

        line.server.on_post = refuse
        line.send(call(2, "session/prompt", "s1"))
        assert "404" in error_of((await line.got(2))[1])
        line.send({"method": "session/cancel", "params": {"sessionId": "s1"}})
        line.send(call(3, "session/list"))
        await line.server.until(lambda: line.server.posts[-1].get("id") == 3)


@in_real_time
async def test_an_answer_that_the_server_does_not_take_ends_the_connection() -> None:
    """The agent would wait for it for ever."""
    async with in_session() as line:

        async def refuse(asked: Asked, reply: Reply) -> None:
            await reply.send(400, b"mismatch")

        line.server.open["s1"].event({"jsonrpc": "2.0", **call(7, "_ask", "s1")})
        await line.got(2)
        line.server.on_post = refuse
        line.send({"id": 7, "result": {}})
        assert "mismatch" in str(await line.end())


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, "requires a token"),
        (403, {}, "refuses access"),
        (404, {}, "nothing at /acp"),
        (308, {"Location": "https://elsewhere/"}, "redirects to https://elsewhere/"),
        (500, {}, "the server failed"),
        (200, {}, "no Acp-Connection-Id"),
        (200, {"Acp-Connection-Id": "c1"}, "no answer of the protocol"),
    ],
)
@in_real_time
async def test_a_server_that_does_not_accept_initialize_is_explained(
    status: int, headers: dict[str, str], words: str
) -> None:
    server = AcpServer()

    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.send(status, b"<html>hello</html>", headers)

    server.on_initialize = refuse
    async with unopened(server, query="?key=" + SECRET) as line:
        line.send(call(0, "initialize"))
        error = await line.recorder.end()
        assert isinstance(error, NotReached)
        assert words in str(error)
        assert error.status == status
        assert SECRET not in str(error)
    assert len(server.asked) == 1


@in_real_time
async def test_an_error_of_the_agent_is_its_answer_whatever_the_status_is() -> None:
    server = AcpServer()

    async def refuse(asked: Asked, reply: Reply) -> None:
        failure = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "no"}}
        await reply.send(500, failure)

    server.on_initialize = refuse
    async with unopened(server) as line:
        line.send(call(0, "initialize"))
        await line.recorder.until(lambda: b"-32603" in line.recorder.data)
        line.send(call(3, "session/list"))
        assert "initialize" in error_of((await line.got(1))[0])


@in_real_time
async def test_nothing_that_listens_is_explained() -> None:
    async with serving(AcpServer()) as port:
        pass
    transport = await StreamableHttp.open(f"http://127.0.0.1:{port}/acp")
    recorder = Recorder()
    transport.start(recorder)
    transport.write(_line(call(0, "initialize")))
    error = await recorder.end()
    assert isinstance(error, NotReached)
    assert "nothing listens" in str(error)
    await transport.close()


# ---- bounds


@in_real_time
async def test_a_message_has_a_limit() -> None:
    async with talking(limit=1000) as line:
        line.server.open[None].event({"method": "x" * 2000})
        assert "more than 1000 bytes" in str(await line.end())


@in_real_time
async def test_the_answer_to_initialize_has_the_same_limit() -> None:
    server = AcpServer()

    async def large(asked: Asked, reply: Reply) -> None:
        await reply.send(200, b"x" * 2000, {"Acp-Connection-Id": "c1"})

    server.on_initialize = large
    async with unopened(server, limit=1000) as line:
        line.send(call(0, "initialize"))
        assert isinstance(await line.recorder.end(), NotReached)


@in_real_time
async def test_nothing_is_delivered_while_reading_is_paused_and_nothing_is_lost() -> None:
    async with talking() as line:
        line.transport.pause_reading()
        for number in range(50):
            line.server.open[None].event(update(number))
        line.send(call(3, "session/list"))
        await line.server.until(lambda: line.server.posts)
        assert line.messages == []
        line.transport.resume_reading()
        assert await line.got(50) == [update(number) for number in range(50)]


@in_real_time
async def test_a_server_that_is_slow_pauses_the_writer() -> None:
    async with talking() as line:
        release = asyncio.Event()

        async def wait(asked: Asked, reply: Reply) -> None:
            await release.wait()
            await reply.send(202)

        line.server.on_post = wait
        line.send({"method": "_x", "params": "x" * HIGH_WATER})
        line.send({"method": "_y"})
        assert line.recorder.calls == ["pause_writing"]
        release.set()
        await line.recorder.until(lambda: "resume_writing" in line.recorder.calls)


@in_real_time
async def test_closing_does_not_wait_for_a_server_that_never_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CLOSE", 0.02)
    server = AcpServer()
    async with unopened(server) as line:

        async def never(asked: Asked, reply: Reply) -> None:
            await asyncio.Event().wait()

        server.on_initialize = never
        line.send(call(0, "initialize"))
        await server.until(lambda: server.asked)
        await line.transport.close()
        assert line.recorder.errors == [None]


@in_real_time
async def test_what_is_no_message_is_passed_on_for_the_peer_to_report() -> None:
    async with talking() as line:
        line.server.open[None].raw(b"data: <html>\n\n")
        await line.recorder.until(lambda: b"<html>\n" in line.recorder.data)
        assert not line.recorder.errors
