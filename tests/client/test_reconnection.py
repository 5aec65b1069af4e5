"""A connection to a URL that is lost: what ends, what waits, what is resumed, when it is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

import twofold
from tests.support.real_time import in_real_time
from tests.support.socket_agent import SocketAgent, echo_agent, reachable
from twofold import ConnectionChange, Message, Problem, Question, RemoteEnded
from twofold.agent.store import MemoryStore
from twofold.client import reconnection
from twofold.wire.shared import PermissionOption

Version = Literal[1, 2]
VERSIONS: list[Version] = [1, 2]
TOKEN = "sesame-9"

pytestmark = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(reconnection, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(reconnection, "LONGEST_DELAY", 0.002)
    monkeypatch.setattr(reconnection, "TRIES", 1000)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """There are few attempts."""
    monkeypatch.setattr(reconnection, "TRIES", 3)
    return 3


class Meeting:
    """A client and an agent at a URL."""

    def __init__(self, served: SocketAgent) -> None:
        self.served = served
        self.changes: list[ConnectionChange] = []
        self.problems: list[Problem] = []
        self._changed = asyncio.Event()
        self.client: Any = None

    def note(self, change: ConnectionChange) -> None:
        self.changes.append(change)
        self._changed.set()

    @property
    def states(self) -> list[str]:
        return [change.state for change in self.changes]

    async def until(self, *states: str) -> None:
        """Wait until these changes, and no others, have been reported."""
        while len(self.changes) < len(states):
            self._changed.clear()
            await self._changed.wait()
        assert self.states == list(states)


@asynccontextmanager
async def meeting(agent: twofold.Agent, **options: Any) -> AsyncIterator[Meeting]:
    async with reachable(agent, TOKEN) as served:
        met = Meeting(served)
        connecting = twofold.connect(
            served.url,
            token=TOKEN,
            on_connection=met.note,
            on_problem=met.problems.append,
            **options,
        )
        async with connecting as met.client:
            yield met


class Slow:
    """An agent whose prompt `slow` sends one word and goes on when it is released."""

    def __init__(self, version: Version) -> None:
        self.agent = echo_agent([version])
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()
        """Set when the agent has noticed that the client is gone."""

        @self.agent.on_prompt
        async def answer(turn: twofold.Turn) -> None:
            await turn.say(f"echo: {turn.text}")
            if turn.text == "slow":
                self.began.set()
                await self.go_on.wait()
                await turn.say(" and more")

        @self.agent.on_close_session
        async def close(session: twofold.AgentSession) -> None:
            self.closed.set()


def texts(session: twofold.ClientSession) -> list[str]:
    return [each.text for each in session.state.entries if isinstance(each, Message)]


@in_real_time
async def test_an_idle_session_goes_on_without_a_replay(version: Version) -> None:
    async with meeting(echo_agent([version])) as met:
        session = await met.client.new_session("/tmp")
        await session.prompt("one")
        state = session.state
        met.served.cut()
        await met.until("lost", "connected")
        assert (await session.prompt("two")).text == "echo: two"
        assert session.state is state
        assert texts(session) == ["one", "echo: one", "two", "echo: two"]
        assert met.served.connections == 2
        assert set(met.served.tokens) == {f"Bearer {TOKEN}"}
        assert met.problems == []


@in_real_time
async def test_a_turn_that_went_on_ends_with_an_error_and_its_session_is_complete(
    version: Version,
) -> None:
    slow = Slow(version)
    async with meeting(slow.agent) as met:
        session = await met.client.new_session("/tmp")
        await session.prompt("one")
        turn = asyncio.create_task(session.prompt("slow"))
        await slow.began.wait()
        await met.served.stop()
        await slow.closed.wait()
        await met.served.start()
        with pytest.raises(RemoteEnded, match="broke it off"):
            await turn
        await met.until("lost", "connected")
        assert texts(session)[:4] == ["one", "echo: one", "slow", "echo: slow"]
        assert session.state.state == "idle"
        assert (await session.prompt("two")).text == "echo: two"
        assert not session.in_turn


@in_real_time
async def test_what_is_requested_meanwhile_waits(version: Version) -> None:
    async with meeting(echo_agent([version])) as met:
        session = await met.client.new_session("/tmp")
        await met.served.stop()
        await met.until("lost")
        prompt = asyncio.create_task(session.prompt("two"))
        other = asyncio.create_task(met.client.new_session("/tmp"))
        await asyncio.sleep(0)
        assert not prompt.done()
        await met.served.start()
        assert (await prompt).text == "echo: two"
        assert (await other).session_id != session.session_id
        assert met.states == ["lost", "connected"]


@in_real_time
async def test_a_prompt_that_waits_can_be_cancelled(version: Version) -> None:
    async with meeting(echo_agent([version])) as met:
        session = await met.client.new_session("/tmp")
        await met.served.stop()
        await met.until("lost")
        prompt = asyncio.create_task(session.prompt("two"))
        await asyncio.sleep(0)
        await session.cancel()
        assert (await prompt).stop_reason == "cancelled"
        await met.served.start()
        assert (await session.prompt("three")).text == "echo: three"
        assert "two" not in texts(session)


@in_real_time
async def test_a_question_that_was_open_is_withdrawn(version: Version) -> None:
    agent = echo_agent([version])
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Run make", kind="execute") as call:
            await turn.ask("Run make?", call)

    async def ask(question: Question) -> PermissionOption | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return None

    async with meeting(agent, ask=ask) as met:
        session = await met.client.new_session("/tmp")
        turn = asyncio.create_task(session.prompt("make"))
        await asked.wait()
        met.served.cut()
        with pytest.raises(RemoteEnded):
            await turn
        await withdrawn.wait()
        await met.until("lost", "connected")
        assert not session.state.permissions


@in_real_time
async def test_a_server_that_stays_away_is_given_up_and_nothing_waits(
    version: Version, few: int
) -> None:
    async with meeting(echo_agent([version])) as met:
        session = await met.client.new_session("/tmp")
        await met.served.stop()
        await met.until("lost")
        prompt = asyncio.create_task(session.prompt("two"))
        await met.until("lost", "ended")
        for waiting in (prompt, session.wait_closed(), met.client.new_session("/tmp")):
            with pytest.raises(RemoteEnded, match="nothing listens"):
                await waiting
        assert session.closed
        assert isinstance(met.changes[-1].error, RemoteEnded)


@pytest.mark.parametrize("status", [401, 403])
@in_real_time
async def test_a_server_that_shuts_the_client_out_is_given_up_at_once(
    version: Version, status: int
) -> None:
    async with meeting(echo_agent([version])) as met:
        session = await met.client.new_session("/tmp")
        met.served.refuse = status
        met.served.cut()
        await met.until("lost", "ended")
        with pytest.raises(RemoteEnded, match=str(status)):
            await session.wait_closed()
        assert len(met.served.tokens) == 2


@in_real_time
async def test_a_session_that_the_server_has_forgotten_ends_and_the_others_go_on(
    version: Version,
) -> None:
    store = MemoryStore()
    async with meeting(echo_agent([version], keep=store)) as met:
        forgotten = await met.client.new_session("/tmp")
        kept = await met.client.new_session("/tmp")
        await forgotten.prompt("one")
        await kept.prompt("one")
        await met.served.stop()
        store.delete(forgotten.session_id)
        await met.served.start()
        await met.until("lost", "connected")
        with pytest.raises(RemoteEnded, match="could not be resumed"):
            await forgotten.wait_closed()
        assert (await kept.prompt("two")).text == "echo: two"


@in_real_time
async def test_leaving_does_not_wait_for_the_attempts(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnection, "FIRST_DELAY", 1000.0)
    monkeypatch.setattr(reconnection, "LONGEST_DELAY", 1000.0)
    async with meeting(echo_agent([version])) as met:
        session = await met.client.new_session("/tmp")
        met.served.cut()
        await met.until("lost")
        await session.close()
    assert met.states == ["lost"]


@in_real_time
async def test_a_connection_that_is_lost_again_and_again_is_given_up(
    version: Version, few: int
) -> None:
    async with meeting(echo_agent([version])) as met:

        def cut(change: ConnectionChange) -> None:
            Meeting.note(met, change)
            if change.state == "connected":
                met.served.cut()

        met.client._reconnection._on_change = cut
        session = await met.client.new_session("/tmp")
        met.served.cut()
        with pytest.raises(RemoteEnded):
            await session.wait_closed()
        assert met.states == ["lost", "connected"] * few + ["lost", "ended"]


@in_real_time
async def test_without_it_the_sessions_end_with_the_connection(version: Version) -> None:
    async with meeting(echo_agent([version]), reconnect=False) as met:
        session = await met.client.new_session("/tmp")
        met.served.cut()
        with pytest.raises(RemoteEnded, match="broke it off"):
            await session.wait_closed()
        with pytest.raises(RemoteEnded):
            await met.client.new_session("/tmp")
    assert met.changes == []


@in_real_time
async def test_a_callback_that_raises_is_reported_and_stops_nothing(version: Version) -> None:
    async with reachable(echo_agent([version])) as served:
        problems: list[Problem] = []

        def fail(change: ConnectionChange) -> None:
            raise ValueError

        connecting = twofold.connect(served.url, on_connection=fail, on_problem=problems.append)
        async with connecting as client:
            session = await client.new_session("/tmp")
            served.cut()
            with pytest.raises(RemoteEnded):
                await client.request("_x/y")
            assert (await session.prompt("one")).text == "echo: one"
        assert [problem.kind for problem in problems] == ["handler", "handler"]
