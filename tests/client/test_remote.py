"""A URL where a command stands: `twofold.connect("wss://…")`."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection, serve

import twofold
from tests.support.http_server import AcpServer, Asked, Reply, serving
from tests.support.real_time import in_real_time
from tests.support.socket_agent import echo_agent, reachable
from twofold import BadUrl, LocalError, NoAnswer, NotReached, Problem, RemoteEnded


def test_a_text_that_is_no_url_is_refused_as_before() -> None:
    with pytest.raises(TypeError, match=r"A command is a list of words, such as \['claude'\]"):
        twofold.connect("claude")


def test_a_url_is_checked_before_anything_is_tried() -> None:
    with pytest.raises(BadUrl, match="could be read on the way"):
        twofold.connect("ws://example.com/acp", token="sesame")


def test_a_token_without_a_url_is_refused() -> None:
    with pytest.raises(LocalError, match="A token is for an agent at a URL"):
        twofold.connect(["some-agent"], token="sesame")


@in_real_time
async def test_an_agent_at_a_url_is_talked_to_as_any_other() -> None:
    async with (
        reachable(echo_agent(), "sesame") as served,
        twofold.connect(served.url, token="sesame") as client,
    ):
        assert client.protocol_version == 2
        async with await client.new_session("/tmp") as session:
            assert (await session.prompt("hi")).text == "echo: hi"
        assert [each.session_id async for each in client.list_sessions()] == [session.session_id]


@in_real_time
async def test_a_token_that_is_not_accepted_is_an_error_of_connect() -> None:
    async with reachable(echo_agent(), "sesame") as served:
        for token in (None, "wrong"):
            with pytest.raises(NotReached) as caught:
                async with twofold.connect(served.url, token=token):
                    pass
            assert caught.value.status == 401
        assert len(served.tokens) == 2  # nothing is tried twice


@in_real_time
async def test_a_server_without_websockets_that_refuses_initialize_is_asked_once() -> None:
    server = AcpServer()

    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.send(404)

    server.on_get = server.on_initialize = refuse
    async with serving(server) as port:
        with pytest.raises(NotReached, match="nothing at /acp"):
            async with twofold.connect(f"http://127.0.0.1:{port}"):
                pass
    assert [each.method for each in server.asked] == ["GET", "POST"]


Script = Callable[[ServerConnection], Awaitable[None]]


async def connected(script: Script, problems: list[Problem]) -> None:
    """Connect to a server that runs this script, with little patience."""
    async with serve(script, "127.0.0.1", 0, close_timeout=0.1) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        connecting = twofold.connect(url, start_timeout=0.2, on_problem=problems.append)
        async with connecting as client:
            await client.new_session("/tmp")


@in_real_time
async def test_a_server_that_never_answers_initialize_is_given_up() -> None:
    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    with pytest.raises(NoAnswer) as caught:
        await connected(silent, [])
    assert "--acp" not in str(caught.value)  # nothing was started


@in_real_time
async def test_what_is_no_json_is_reported_and_the_conversation_goes_on() -> None:
    async def noisy(socket: ServerConnection) -> None:
        async for message in socket:
            request = json.loads(message)
            await socket.send("<html>not this</html>")
            await socket.send('{"jsonrpc": "2.0", "id":')
            answer = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}}
            answer |= {"capabilities": {"session": {}}, "authMethods": []}
            if request["method"] != "initialize":
                answer = {"sessionId": "s"}
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}))

    problems: list[Problem] = []
    await connected(noisy, problems)
    assert {problem.kind for problem in problems} == {"noise"}
    assert len(problems) == 4


@in_real_time
async def test_a_server_that_closes_at_initialize_is_explained() -> None:
    async def closing(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.close(1011, "out of agents")

    with pytest.raises(RemoteEnded, match="out of agents"):
        await connected(closing, [])


@in_real_time
async def test_an_agent_of_version_1_at_a_url_may_be_offered_files() -> None:
    async with (
        reachable(echo_agent([1])) as served,
        twofold.connect(served.url, offer={"fs"}) as client,
    ):
        assert client.protocol_version == 1
        session = await client.new_session("/tmp")
        await asyncio.gather(session.prompt("one"), session.prompt("two"))
        assert len(session.state.entries) == 4
