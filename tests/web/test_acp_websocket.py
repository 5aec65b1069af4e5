"""`/acp` over WebSocket: who gets in, what is carried, and how a connection ends."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support import raw_agent
from tests.support.raw_agent import HELLO, chunk
from tests.support.real_time import in_real_time
from tests.web.acp_peers import SocketClient, socket_client
from tests.web.server_stage import ServerStage, serving, soon
from twofold.web import acp, acp_websocket
from twofold.web.access import Tokens
from twofold.web.server import refresh

versions = pytest.mark.parametrize("version", [1, 2])

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.fixture
def own_state(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# ---- a walk ------------------------------------------------------------------------------------


@versions
@pytest.mark.parametrize("speaks", [1, 2])
@in_real_time
async def test_a_client_begins_a_session_prompts_answers_and_comes_back(
    version: int, speaks: int
) -> None:
    async with serving({"initialize": HELLO[speaks]}) as stage:
        async with socket_client(stage) as client:
            answer = await client.initialize(version)
            assert answer["protocolVersion"] == version
            new = await client.call("session/new", {"cwd": "/", "mcpServers": []})
            session = new["sessionId"]
            prompting = await client.prompt(session)
            agent = stage.agent
            prompt = await raw_agent.begin(speaks, agent)
            agent.update(chunk("Hi."))
            patch = {"toolCallId": "c", "title": "Edit", "kind": "edit"}
            params: Any = {
                "sessionId": "s",
                "options": [
                    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                    {"optionId": "no", "name": "No", "kind": "reject_once"},
                ],
            }
            if speaks == 1:
                params["toolCall"] = patch
            else:
                params |= {"title": "?", "subject": {"type": "tool_call", "toolCall": patch}}
            asked = agent.ask("session/request_permission", params)
            await client.choose(await client.request(), "yes")
            assert (await asked)["result"]["outcome"]["optionId"] == "yes"
            raw_agent.finish(speaks, agent, prompt)
            result = (await client.reply(prompting))["result"]
            assert result.get("stopReason") == ("end_turn" if version == 1 else None)
            assert "agent_message_chunk" in client.updates()
        async with socket_client(stage) as client:
            await client.initialize(version)
            params = {"sessionId": session, "cwd": "/", "mcpServers": []}
            if version == 1:
                await client.call("session/load", params)
                assert "agent_message_chunk" in client.updates()
                assert "tool_call" in client.updates()
            else:
                await client.call("session/resume", {**params, "replayFrom": {"type": "start"}})
                assert "agent_message" in client.updates()
                assert "tool_call_update" in client.updates()
        assert len(stage.agents) == 2


# ---- the upgrade -------------------------------------------------------------------------------


@in_real_time
async def test_the_upgrade_names_the_connection_and_needs_no_subprotocol() -> None:
    async with serving() as stage, socket_client(stage) as client:
        response = client.socket.response
        assert response is not None
        assert len(response.headers["Acp-Connection-Id"]) >= 32
        assert client.socket.subprotocol is None


async def refused(stage: ServerStage, headers: dict[str, str], query: str = "") -> int:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(f"ws://127.0.0.1:{stage.port}/acp{query}", additional_headers=headers):
            raise AssertionError("it was let in")
    return caught.value.response.status_code


@in_real_time
async def test_only_who_has_a_token_gets_in() -> None:
    async with serving() as stage:
        assert await refused(stage, {}) == 401
        assert await refused(stage, {"Authorization": "Bearer x"}) == 401
        assert await refused(stage, {}, "?token=x") == 401
        cookie = {"Cookie": stage.browser()["Cookie"]}
        assert await refused(stage, cookie) == 403
        other = {**stage.bearer(), "Origin": "https://other.example"}
        assert await refused(stage, other) == 403
        async with socket_client(stage, {}, f"?token={stage.token()}") as client:
            await client.initialize()
        async with socket_client(stage, stage.browser()) as client:
            await client.initialize()


@in_real_time
async def test_a_token_in_the_address_is_for_acp_only() -> None:
    async with serving() as stage:
        assert (await stage.get(f"/?token={stage.token()}")).status == 401


@in_real_time
async def test_an_observer_may_look() -> None:
    async with serving() as stage, socket_client(stage, stage.bearer("observer")) as client:
        answer = await client.initialize()
        assert answer["_meta"]["_twofold"]["role"] == "observer"
        reply = await client.reply(await client.ask("session/new", {"cwd": "/"}))
        assert reply["error"]["code"] == -32001


@in_real_time
async def test_a_new_token_ends_the_connections_of_the_old_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as stage, socket_client(stage) as client:
        await client.initialize()
        monkeypatch.setattr("twofold.web.server.read_tokens", lambda folder: Tokens.new())
        refresh(stage.app, tmp_path)
        await client.socket.wait_closed()
        assert client.socket.close_code == 4401
        await soon(lambda: not len(stage.app.acp))


@in_real_time
async def test_there_are_so_many_connections_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp, "MOST_CONNECTIONS", 1)
    async with serving() as stage, socket_client(stage) as client:
        await client.initialize()
        async with socket_client(stage) as other:
            await other.socket.wait_closed()
            assert other.socket.close_code == 1013


# ---- messages ----------------------------------------------------------------------------------


async def close_code(client: SocketClient) -> int | None:
    await client.socket.wait_closed()
    return client.socket.close_code


@pytest.mark.parametrize(
    "first",
    ["", "noise", "[]", '{"jsonrpc":"2.0","id":1,"method":"session/list"}', '{"jsonrpc":"2.0"}'],
)
@in_real_time
async def test_a_connection_that_does_not_begin_with_initialize_is_closed(first: str) -> None:
    async with serving() as stage, socket_client(stage) as client:
        await client.socket.send(first)
        assert await close_code(client) == 1002


@in_real_time
async def test_a_connection_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_websocket, "FIRST_MESSAGE", 0.05)
    async with serving() as stage, socket_client(stage) as client:
        assert await close_code(client) == 1002


@in_real_time
async def test_binary_is_ignored_and_newlines_in_a_message_are_none() -> None:
    async with serving() as stage, socket_client(stage) as client:
        await client.socket.send(b"\x00\xff")
        text = {"jsonrpc": "2.0", "id": 7, "method": "initialize"}
        params = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}}
        await client.socket.send(json.dumps({**text, "params": params}, indent=2))
        assert (await client.reply(7))["result"]["protocolVersion"] == 2
        await client.socket.send(b"\x00\xff")
        await client.call("session/list")


@versions
@in_real_time
async def test_a_message_of_20_mb_goes_through_either_way(version: int) -> None:
    async with serving() as stage, socket_client(stage) as client:
        await client.initialize(version)
        session = stage.hosted.id
        method = "session/load" if version == 1 else "session/resume"
        await client.call(method, {"sessionId": session, "cwd": "/", "mcpServers": []})
        blocks = [{"type": "text", "text": "x" * 20_000_000}]
        await client.ask("session/prompt", {"sessionId": session, "prompt": blocks})
        prompt = await raw_agent.begin(2, stage.agent)
        assert len(prompt["params"]["prompt"][0]["text"]) == 20_000_000
        stage.agent.update(chunk("y" * 20_000_000))
        await client.until(lambda: "agent_message_chunk" in client.updates())


@in_real_time
async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    async with serving() as stage, socket_client(stage) as client:
        await client.initialize()
        with suppress(ConnectionClosed):
            await client.socket.send("x" * (33 << 20))
        assert await close_code(client) == 1009


@in_real_time
async def test_reconnecting_again_and_again_starts_no_agent() -> None:
    async with serving() as stage:
        for _ in range(200):
            stage.app._paces.clear()  # the pace of one address is tested elsewhere
            async with socket_client(stage) as client:
                await client.initialize()
                params = {"sessionId": stage.hosted.id, "cwd": "/"}
                await client.call("session/resume", params)
        assert len(stage.agents) == 1
        await soon(lambda: not len(stage.app.acp))


@in_real_time
async def test_sessions_outlive_the_server_of_their_clients() -> None:
    async with serving() as stage, socket_client(stage) as client:
        await client.initialize()
        stage.app.close()
        assert await close_code(client) == 1001
        await asyncio.sleep(0)
        assert stage.hosted.state == "idle"
