"""`/acp` over streamable HTTP: what is answered, and which stream carries what."""

import asyncio
import json
from typing import Any

import pytest

from tests.support import raw_agent
from tests.support.raw_agent import HELLO, chunk
from tests.support.real_time import in_real_time
from tests.web.acp_peers import HttpClient, Stream, http_client, socket_client
from tests.web.server_stage import ServerStage, serving, soon
from twofold.web import acp_http
from twofold.web.access import Tokens
from twofold.web.server import refresh

Json = Any
versions = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture(autouse=True)
def own_state(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def resume(client: HttpClient, session: str, *, replay: bool = False) -> Json:
    params: Json = {"sessionId": session, "cwd": "/"}
    if replay:
        params["replayFrom"] = {"type": "start"}
    return await client.call("session/resume", params)


def names(stream: Stream) -> list[str]:
    """The events of a stream, a word each."""
    return [name(each) for each in stream.events]


def name(message: Json) -> str:
    if message.get("method") == "session/update":
        return str(message["params"]["update"]["sessionUpdate"])
    return str(message.get("method") or ("result" if "result" in message else "error"))


# ---- walks -------------------------------------------------------------------------------------


@versions
@pytest.mark.parametrize("own_stream", [True, False])
@in_real_time
async def test_a_client_begins_a_session_prompts_and_answers(
    version: int, own_stream: bool
) -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin(version)
        new = await client.call("session/new", {"cwd": "/", "mcpServers": []})
        session = new["sessionId"]
        if own_stream:
            await client.stream(session)
        prompting = await client.prompt(session)
        prompt = await raw_agent.begin(2, stage.agent)
        stage.agent.update(chunk("Hi."))
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        asked = stage.agent.ask(
            "session/request_permission", {"sessionId": "s", "title": "?", "options": options}
        )
        await client.choose(await client.request(), "yes")
        assert (await asked)["result"]["outcome"]["optionId"] == "yes"
        raw_agent.finish(2, stage.agent, prompt)
        await client.reply(prompting)
        await client.until(lambda: "agent_message_chunk" in client.updates())
        carried = client.streams[-1]
        assert "agent_message_chunk" in names(carried)
        if version == 1:
            assert client.messages[-1]["result"]["stopReason"] == "end_turn"


@in_real_time
async def test_a_replay_and_its_answer_are_on_the_stream_of_the_session_if_it_is_open() -> None:
    async with serving() as stage, http_client(stage) as client:
        stage.agent.update(*[chunk(str(number), f"m{number}") for number in range(50)])
        connection = await client.begin()
        session = await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id, replay=True)
        assert connection.events == []
        assert names(session) == [*["agent_message"] * 50, "state_update", "result"]


@in_real_time
async def test_a_replay_and_its_answer_are_on_the_stream_of_the_connection_otherwise() -> None:
    async with serving() as stage, http_client(stage) as client:
        stage.agent.update(*[chunk(str(number), f"m{number}") for number in range(50)])
        connection = await client.begin()
        await resume(client, stage.hosted.id, replay=True)
        assert names(connection) == [*["agent_message"] * 50, "state_update", "result"]
        # what follows waits for the stream that most clients open now
        stage.agent.update(chunk("late", "m1"))
        session = await client.stream(stage.hosted.id)
        await client.until(lambda: names(session) == ["agent_message_chunk"])
        assert len(connection.events) == 52


@in_real_time
async def test_a_client_without_streams_of_sessions_reads_that_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acp_http, "HELD", 0.05)
    async with serving() as stage, http_client(stage) as client:
        connection = await client.begin()
        await resume(client, stage.hosted.id)
        stage.agent.update(chunk("one"))
        await client.until(lambda: "agent_message_chunk" in client.updates())
        stage.agent.update(chunk("two"))
        await client.until(lambda: client.updates().count("agent_message_chunk") == 2)
        assert names(connection)[-2:] == ["agent_message_chunk"] * 2


@in_real_time
async def test_the_stream_of_a_closed_session_is_kept_until_the_client_closes_it() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        session = await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id)
        await client.call("session/close", {"sessionId": stage.hosted.id})
        assert names(session)[-1] == "result"
        await resume(client, stage.hosted.id)
        assert names(session)[-1] == "result"
        await client.call("session/close", {"sessionId": stage.hosted.id})
        (transport,) = stage.app.acp._http._connections.values()
        await session.close()
        await soon(lambda: not transport._sessions)


@versions
@in_real_time
async def test_a_message_of_20_mb_goes_through_either_way(version: int) -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin(version)
        session = stage.hosted.id
        await client.stream(session)
        method = "session/load" if version == 1 else "session/resume"
        await client.call(method, {"sessionId": session, "cwd": "/", "mcpServers": []})
        blocks = [{"type": "text", "text": "x" * 20_000_000}]
        await client.ask("session/prompt", {"sessionId": session, "prompt": blocks})
        prompt = await raw_agent.begin(2, stage.agent)
        assert len(prompt["params"]["prompt"][0]["text"]) == 20_000_000
        stage.agent.update(chunk("y" * 20_000_000))
        await client.until(lambda: "agent_message_chunk" in client.updates())


# ---- what is refused ---------------------------------------------------------------------------

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 2, "info": {"name": "n", "version": "1"}},
    }
).encode()
LIST = b'{"jsonrpc":"2.0","id":5,"method":"session/list","params":{}}'


@in_real_time
async def test_what_is_no_message_for_us_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as stage, http_client(stage) as client:
        plain = await client.post(INITIALIZE, {"Content-Type": "text/plain"})
        assert plain.status == 415
        assert (await client.post(b"[" + INITIALIZE + b"]")).status == 501
        assert (await client.post(b"noise")).status == 400
        assert (await client.post(b"")).status == 400
        missing = await client.post(LIST)
        assert missing.status == 400
        assert missing.words == "The header Acp-Connection-Id is missing: begin with initialize."
        assert (await client.post(LIST, {"Acp-Connection-Id": "none"})).status == 404
        assert (await client.stream()).status == 400
        await client.initialize()
        assert (await client.stream(Accept="application/json")).status == 406
        assert (await client.post(b"", method="PUT")).status == 405
        monkeypatch.setattr(acp_http, "LARGEST_BODY", 1_000)
        assert (await client.post(b" " * 1_001)).status == 413
        monkeypatch.setattr(acp_http, "MOST_BODIES", 500)
        assert (await client.post(b" " * 999)).status == 503
        assert (await client.post(LIST)).status == 202


@in_real_time
async def test_a_header_that_contradicts_the_message_is_refused() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id)
        message = {"jsonrpc": "2.0", "id": 9, "method": "session/close"}
        body = json.dumps({**message, "params": {"sessionId": stage.hosted.id}}).encode()
        assert (await client.post(body, {"Acp-Session-Id": "another"})).status == 400
        stage.hosted.prompt(["hello"], "a page")
        await raw_agent.begin(2, stage.agent)
        stage.agent.ask(
            "session/request_permission",
            {
                "sessionId": "s",
                "title": "?",
                "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
            },
        )
        request = await client.request()
        outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": outcome}).encode()
        assert (await client.post(answer, {"Acp-Session-Id": "another"})).status == 400
        assert (await client.post(answer, {"Acp-Session-Id": stage.hosted.id})).status == 202


@in_real_time
async def test_a_stream_is_opened_once() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        assert (await client.stream()).status == 409
        assert (await client.stream("s")).status == 200
        assert (await client.stream("s")).status == 409


@in_real_time
async def test_a_connection_belongs_to_its_token() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        async with http_client(stage, stage.bearer("observer")) as other:
            other.connection = client.connection
            assert (await other.post(LIST)).status == 404
            assert (await other.stream()).status == 404


@in_real_time
async def test_only_who_has_a_token_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as stage:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer x"}, 401),
            ({"Cookie": stage.browser()["Cookie"]}, 403),
            ({**stage.bearer(), "Origin": "https://other.example"}, 403),
            ({**stage.bearer(), "Host": "other.example"}, 421),
        ):
            async with http_client(stage, headers) as client:
                assert (await client.post(INITIALIZE)).status == status
        async with http_client(stage, {}, f"?token={stage.token()}") as client:
            assert (await client.post(INITIALIZE)).status == 200
        monkeypatch.setattr("twofold.web.acp.MOST_CONNECTIONS", 1)
        async with http_client(stage) as client:
            assert (await client.post(INITIALIZE)).status == 503


# ---- streams -----------------------------------------------------------------------------------


@in_real_time
async def test_a_stream_that_was_lost_goes_on_after_the_last_event() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        first = await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id)
        stage.agent.update(*[chunk(str(number)) for number in range(10)])
        await client.until(lambda: len(first.events) == 12)
        await first.close()
        stage.agent.update(*[chunk(str(number)) for number in range(10, 20)])
        again = await client.stream(stage.hosted.id, first.ids[6])
        await client.until(lambda: len(again.events) == 15)
        seen = [each["params"]["update"] for each in [*first.events[:7], *again.events][2:]]
        assert [each["content"]["text"] for each in seen] == [str(number) for number in range(20)]


@in_real_time
async def test_a_stream_is_taken_over_by_who_names_its_last_event() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        first = await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id)
        second = await client.stream(stage.hosted.id, first.ids[-1])
        assert second.status == 200
        async with asyncio.timeout(5):
            await first.ended.wait()
        stage.agent.update(chunk("x"))
        await client.until(lambda: names(second) == ["agent_message_chunk"])


@in_real_time
async def test_events_that_are_not_kept_any_more_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_http, "KEPT", 100)
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        first = await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id)
        stage.agent.update(*[chunk(str(number)) for number in range(10)])
        await client.until(lambda: len(first.events) == 12)
        for last in (first.ids[0], "other-3", "none"):
            assert (await client.stream(stage.hosted.id, last)).status == 410
        assert (await client.stream(stage.hosted.id, first.ids[-1])).status == 200


@in_real_time
async def test_a_stream_without_events_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_http, "COMMENT", 0.02)
    async with serving() as stage, http_client(stage) as client:
        stream = await client.begin()
        await soon(lambda: stream.comments >= 4)


@in_real_time
async def test_a_client_that_does_not_read_makes_the_rest_wait_in_bounds() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        stream = await client.stream(stage.hosted.id)
        await resume(client, stage.hosted.id)
        stream.reads.clear()
        for number in range(100):
            stage.agent.update(chunk("x" * 100_000, f"m{number}"))
            await asyncio.sleep(0)
        (transport,) = stage.app.acp._http._connections.values()
        await soon(lambda: transport._full)
        stream.reads.set()
        await client.until(lambda: client.updates().count("agent_message_chunk") == 100)
        await soon(lambda: not transport._full)


# ---- the end -----------------------------------------------------------------------------------


async def gone(stage: ServerStage, client: HttpClient) -> None:
    await soon(lambda: not len(stage.app.acp))
    assert (await client.post(LIST)).status == 404
    for stream in client.streams:
        async with asyncio.timeout(5):
            await stream.ended.wait()
    assert stage.hosted.state == "idle"


@in_real_time
async def test_a_connection_is_deleted() -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        assert (await client.post(b"", method="DELETE")).status == 202
        await gone(stage, client)


@in_real_time
async def test_a_connection_without_streams_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_http, "ALONE", 0.2)
    async with serving() as stage, http_client(stage) as client:
        stream = await client.begin()
        await asyncio.sleep(0.4)
        assert len(stage.app.acp) == 1
        await stream.close()
        await gone(stage, client)


@in_real_time
async def test_a_new_token_ends_the_connections_of_the_old_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as stage, http_client(stage) as client:
        await client.begin()
        monkeypatch.setattr("twofold.web.server.read_tokens", lambda folder: Tokens.new())
        refresh(stage.app, tmp_path)
        client.headers = stage.bearer()
        await gone(stage, client)


@in_real_time
async def test_connecting_again_and_again_starts_no_agent() -> None:
    async with serving() as stage:
        for _ in range(100):
            stage.app._paces.clear()  # the pace of one address is tested elsewhere
            async with http_client(stage) as client:
                await client.begin()
                await resume(client, stage.hosted.id)
                assert (await client.post(b"", method="DELETE")).status == 202
        assert len(stage.agents) == 1
        await soon(lambda: not len(stage.app.acp))


@in_real_time
async def test_clients_of_both_ways_and_versions_share_a_session() -> None:
    async with (
        serving({"initialize": HELLO[1]}) as stage,
        http_client(stage) as anna,
        socket_client(stage) as ben,
    ):
        await anna.begin(2)
        await ben.initialize(1)
        await resume(anna, stage.hosted.id)
        params = {"sessionId": stage.hosted.id, "cwd": "/", "mcpServers": []}
        await ben.call("session/load", params)
        await anna.prompt(stage.hosted.id)
        prompt = await raw_agent.begin(1, stage.agent)
        stage.agent.update(chunk("Hi."))
        raw_agent.finish(1, stage.agent, prompt)
        for client in (anna, ben):
            await client.until(lambda: "agent_message_chunk" in client.updates())  # noqa: B023
        assert "user_message" in anna.updates()
        assert "user_message_chunk" in ben.updates()
