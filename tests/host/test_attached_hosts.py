"""Clients of a whole host: sessions that they begin, and sessions that outlived an earlier host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.host.test_host import state
from tests.host.test_kept_by_journal import hosting as keeping
from tests.support.attached import Attaching, folded, settled, until_soon, words
from tests.support.hosted import MemoryLaunch, Page
from tests.support.raw_agent import HELLO, Answer, RawAgent
from tests.support.real_time import in_real_time
from twofold.host.acp_agent import AcpAgents, Visitor
from twofold.host.host import Host, Limits
from twofold.policy import Policy

Json = Any
both = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Scripted:
    """A host whose agents are scripted."""

    def __init__(self, answers: dict[str, Answer], limits: Limits | None) -> None:
        self.agents: list[RawAgent] = []
        self.launches: list[MemoryLaunch] = []
        new = {"sessionId": "s"}
        self.answers: dict[str, Answer] = {"initialize": HELLO[2], "session/new": new, **answers}
        self.host = Host(
            cwd="/",
            limits=limits,
            launch=lambda chosen, folder, policy: MemoryLaunch(self, Policy()),  # type: ignore[arg-type]
        )
        self.acp = AcpAgents(self.host)

    @asynccontextmanager
    async def client(self, version: int = 2) -> AsyncIterator[Attaching]:
        async with connected(self.acp, version) as client:
            yield client


@asynccontextmanager
async def connected(acp: AcpAgents, version: int = 2) -> AsyncIterator[Attaching]:
    """A client of a host."""
    client = Attaching(version, "Anna", "")  # type: ignore[arg-type]
    visitor = Visitor("a program", True)
    client.serving = asyncio.create_task(acp.serve(client, visitor, version=version))
    await settled()
    await client.initialize()
    try:
        yield client
    finally:
        client.leave()
        await client.serving


@asynccontextmanager
async def scripted(
    answers: dict[str, Answer] | None = None, limits: Limits | None = None
) -> AsyncIterator[Scripted]:
    made = Scripted(answers or {}, limits)
    try:
        yield made
    finally:
        await made.host.close()


# ---- sessions that clients begin ---------------------------------------------------------------


@both
@in_real_time
async def test_a_session_that_nobody_used_ends_with_the_client_that_began_it(
    version: int,
) -> None:
    async with scripted() as stage:
        async with stage.client(version) as client:
            await client.call("session/new", {"cwd": "/", "mcpServers": []})
            assert len(stage.host.sessions) == 1
        assert stage.host.sessions == []


@in_real_time
async def test_a_session_that_somebody_looks_at_or_used_stays() -> None:
    async with scripted() as stage:
        async with stage.client() as client:
            first = (await client.call("session/new", {"cwd": "/"}))["sessionId"]
            page = Page(stage.host.find(first))
            second = (await client.call("session/new", {"cwd": "/"}))["sessionId"]
            client.prompt("hello", second)
            await stage.agents[-1].receive("session/prompt")
        assert {each["id"] for each in stage.host.sessions} == {first, second}
        page.subscription.cancel()


@in_real_time
async def test_clients_that_begin_sessions_and_leave_keep_no_agent() -> None:
    async with scripted(limits=Limits(agents=2)) as stage:
        for _ in range(50):
            async with stage.client() as client:
                await client.call("session/new", {"cwd": "/"})
        assert stage.host.sessions == []
        assert len(stage.agents) == 50
        assert all(agent.ended_with for agent in stage.agents)


@in_real_time
async def test_what_cannot_be_begun_is_refused_in_words(tmp_path: Path) -> None:
    async with scripted(limits=Limits(sessions=1)) as stage, stage.client() as client:
        refusals: list[tuple[Json, str]] = [
            ({"cwd": "relative"}, "Invalid params"),
            ({"cwd": "/none/such"}, "is not a directory on this machine"),
            ({"cwd": "/", "_meta": {"_twofold.agent": "nobody"}}, "nobody"),
            ({"cwd": "/", "_meta": {"_twofold.agent": 5}}, "Invalid params"),
            ({"cwd": "/", "additionalDirectories": ["/tmp"]}, "Invalid params"),
        ]
        for params, expected in refusals:
            error = await client.refused("session/new", params)
            assert expected in error["message"], error
        await client.call("session/new", {"cwd": "/"})
        error = await client.refused("session/new", {"cwd": "/"})
        assert "This server has 1 sessions already" in error["message"]


@both
@in_real_time
async def test_an_agent_that_does_not_start_is_the_error_and_leaves_no_session(
    version: int,
) -> None:
    def refuse(agent: RawAgent, message: Json) -> None:
        agent.refuse(message, -32603, "The disk is full")

    async with scripted({"session/new": refuse}) as stage, stage.client(version) as client:
        error = await client.refused("session/new", {"cwd": "/", "mcpServers": []})
        assert "The disk is full" in error["message"]
        assert stage.host.sessions == []


@in_real_time
async def test_a_client_that_leaves_while_its_agent_starts_leaves_no_session() -> None:
    async with scripted({"session/new": lambda agent, message: None}) as stage:
        async with stage.client() as client:
            client.ask("session/new", {"cwd": "/"})
            await until_soon(lambda: stage.agents and "session/new" in stage.agents[0].methods())
        await until_soon(lambda: not stage.host.sessions)
        assert stage.agents[0].ended_with


@in_real_time
async def test_mcp_servers_of_a_client_are_not_used_and_it_is_shown_that() -> None:
    async with scripted() as stage, stage.client() as client:
        server = {"type": "stdio", "name": "evil", "command": "/bin/evil"}
        new = await client.call("session/new", {"cwd": "/", "mcpServers": [server]})
        client.session = new["sessionId"]
        await client.until(client.notices)
        assert "not used" in client.notices()[0]
        assert "evil" not in str(stage.agents[0].messages)


# ---- sessions that outlived an earlier host ----------------------------------------------------


@both
@in_real_time
async def test_a_cold_session_is_attached_to_without_its_agent_and_goes_on_with_a_prompt(
    version: int, tmp_path: Path
) -> None:
    demo = ("--version", str(version))
    async with keeping(tmp_path, *demo) as host, connected(AcpAgents(host)) as client:
        cwd = str(tmp_path)
        client.session = (await client.call("session/new", {"cwd": cwd}))["sessionId"]
        client.say("/stream")
        await client.wait_for("idle end_turn")
        before, session = words(folded(client)), client.session
    async with keeping(tmp_path, *demo) as host, connected(AcpAgents(host)) as client:
        client.session = session
        listed = await client.call("session/list", {})
        assert listed["sessions"][0]["_meta"]["_twofold"]["state"] == "cold"
        attached = await client.attach()
        assert attached["result"]["_meta"]["_twofold"]["state"] == "cold"
        assert not host.find(session).is_running
        assert words(folded(client)) == before
        client.mark()
        asked = client.say("/stream")
        assert "result" in await client.reply(asked)
        await client.wait_for("idle end_turn")
        await state(host.find(session), "idle")
        after = words(folded(client))
        assert after[: len(before)] == before
        assert len(after) > len(before)
