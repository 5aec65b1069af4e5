"""Twofold's client with servers made with the official SDKs, by WebSocket and by HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import twofold
from tests.peers.remote_servers import py_server, running, ts_server
from tests.support.real_time import PATIENCE, in_real_time
from tests.support.tcp_proxy import passing_on
from twofold import Client, Message, Problem, Question, Session
from twofold.transport.http import StreamableHttp
from twofold.transport.websocket import WebSocket
from twofold.wire.shared import PermissionOption

LARGE = 20_000_000


class Server(NamedTuple):
    """A server that runs, and the transport that a client has to it."""

    way: str
    port: int
    version: int
    kind: type

    @property
    def url(self) -> str:
        return f"{self.way}://127.0.0.1:{self.port}/acp"


CASES = [
    (sdk, version, way) for sdk in ("ts", "py") for version in (1, 2) for way in ("ws", "http")
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "{} v{} {}".format(*case))
def server(request: pytest.FixtureRequest, node_sdk: Path, python_server: Path) -> Iterator[Server]:
    sdk, version, way = request.param
    command = ts_server(node_sdk, version) if sdk == "ts" else py_server(python_server, version)
    with running(command, websocket=way == "ws") as port:
        kind = WebSocket if way == "ws" else StreamableHttp
        yield Server(way, port, version, kind)


@asynccontextmanager
async def talking(
    server: Server, kind: str = "allow_once", **options: Any
) -> AsyncIterator[Client]:
    """A client that answers every question with the option of this kind; no problem is allowed."""
    problems: list[Problem] = []

    async def ask(question: Question) -> PermissionOption | None:
        return question.option(kind)

    # by the URL, so that the choice between the two ways is part of the test
    connecting = twofold.connect(server.url, ask=ask, on_problem=problems.append, **options)
    async with connecting as client:
        assert isinstance(client._transport, server.kind)
        assert client.protocol_version == server.version
        yield client
    assert problems == []


def texts(state: Session) -> list[str]:
    return [each.text for each in state.entries if isinstance(each, Message)]


@in_real_time
async def test_a_session_is_made_and_a_prompt_answered(server: Server) -> None:
    async with talking(server) as client:
        session = await client.new_session("/tmp")
        reply = await session.prompt("stream")
        assert reply.text == "one two three four five"
        assert reply.stop_reason == "end_turn"
        assert (await session.prompt("hello")).text == "echo: hello"


@in_real_time
async def test_a_client_that_offers_files_agrees_on_the_version_all_the_same(
    server: Server,
) -> None:
    """Most servers refuse a second `initialize` on a connection: then there is another one."""
    async with talking(server, offer={"fs", "terminal"}) as client:
        session = await client.new_session("/tmp")
        assert (await session.prompt("hello")).text == "echo: hello"


@in_real_time
async def test_two_sessions_of_one_connection_do_not_mix(server: Server) -> None:
    async with talking(server) as client:
        one, two = await client.new_session("/tmp"), await client.new_session("/tmp")
        replies = await asyncio.gather(one.prompt("first"), two.prompt("second"))
        assert [reply.text for reply in replies] == ["echo: first", "echo: second"]


@pytest.mark.parametrize(("kind", "option"), [("allow_once", "a1"), ("reject_once", "r1")])
@in_real_time
async def test_a_permission_is_asked_for_and_answered(
    server: Server, kind: str, option: str
) -> None:
    async with talking(server, kind) as client:
        session = await client.new_session("/tmp")
        assert (await session.prompt("permission")).text == f"outcome: {option}"


@in_real_time
async def test_a_turn_is_cancelled(server: Server) -> None:
    async with talking(server) as client:
        session = await client.new_session("/tmp")
        turn = asyncio.create_task(session.prompt("slow"))
        async with asyncio.timeout(PATIENCE):
            async for _ in session.changes():
                if "tick tick" in "".join(texts(session.state)):
                    break
        await session.cancel()
        assert (await turn).stop_reason == "cancelled"


@in_real_time
async def test_a_session_is_loaded_and_its_replay_is_complete_before_the_answer(
    server: Server,
) -> None:
    async with talking(server) as client:
        session = await client.new_session("/tmp")
        for number in range(30):
            await session.prompt(f"number {number}")
        before = texts(session.state)
    assert len(before) == 60
    async with talking(server) as client:
        again = await client.load_session(session.session_id, "/tmp")
        assert texts(again.state) == before
        assert (await again.prompt("more")).text == "echo: more"
        reloaded = await client.load_session(session.session_id, "/tmp")
        assert texts(reloaded.state) == [*before, "more", "echo: more"]


@in_real_time
async def test_a_session_is_resumed_listed_and_closed(server: Server) -> None:
    async with talking(server) as client:
        session = await client.new_session("/tmp")
        await session.prompt("hello")
    async with talking(server) as client:
        again = await client.resume_session(session.session_id, "/tmp")
        listed = [info.session_id async for info in client.list_sessions()]
        assert session.session_id in listed
        assert (await again.prompt("more")).text == "echo: more"
        await again.close()


@in_real_time
async def test_a_message_of_20_mb_is_sent_and_received(server: Server) -> None:
    large = "x" * LARGE
    async with talking(server) as client:
        session = await client.new_session("/tmp")
        assert (await session.prompt(large)).text == f"echo: {large}"


@in_real_time
async def test_a_connection_that_is_cut_is_made_again_and_its_sessions_go_on(
    server: Server,
) -> None:
    states: list[str] = []
    connected = asyncio.Event()

    def note(change: twofold.ConnectionChange) -> None:
        states.append(change.state)
        if change.state == "connected":
            connected.set()

    async with passing_on(server.port) as proxy:
        through = server._replace(port=proxy.port)
        async with talking(through, on_connection=note) as client:
            idle, busy = await client.new_session("/tmp"), await client.new_session("/tmp")
            await idle.prompt("hello")
            turn = asyncio.create_task(busy.prompt("slow"))
            async for _ in busy.changes():
                if "tick" in "".join(texts(busy.state)):
                    break
            proxy.cut()
            with pytest.raises(twofold.RemoteEnded):
                await turn
            await connected.wait()
            assert states == ["lost", "connected"]
            assert (await idle.prompt("more")).text == "echo: more"
            assert texts(idle.state) == ["hello", "echo: hello", "more", "echo: more"]
            assert texts(busy.state)[0] == "slow"
            assert not busy.closed


@in_real_time
async def test_a_turn_is_cancelled_while_it_waits_for_a_permission(server: Server) -> None:
    asked = asyncio.Event()

    async def ask(question: Question) -> PermissionOption | None:
        asked.set()
        await asyncio.Event().wait()  # until it is cancelled
        return None

    async with twofold.connect(server.url, ask=ask) as client:
        session = await client.new_session("/tmp")
        turn = asyncio.create_task(session.prompt("slow-permission"))
        await asked.wait()
        await session.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert not session.state.permissions
        assert (await session.prompt("hello")).text == "echo: hello"
