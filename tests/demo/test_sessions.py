"""The sessions of the demo agent: how they begin, who may begin one, and what is kept of them."""

import asyncio
from pathlib import Path

import pytest

import twofold
from tests.peers.validators import Version
from tests.support.demo_meeting import LIMIT, VERSIONS, Meeting, Tap, calls_of, meeting, messages_of
from tests.support.real_time import in_real_time, run
from twofold import memory_pair
from twofold.demo import demo_agent
from twofold.session import Session
from twofold.wire import v2

BOTH = pytest.mark.parametrize("version", VERSIONS)


def order_of_new(met: Meeting) -> list[str]:
    """The updates and the answer to `session/new` in the order they were sent, a word each."""
    return [
        "answer"
        if "sessionId" in message.get("result", {})
        else message["params"]["update"]["sessionUpdate"]
        for message in met.from_agent.messages
        if "params" in message or "sessionId" in message.get("result", {})
    ]


@BOTH
@in_real_time
async def test_updates_of_a_session_follow_its_answer(version: Version) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        await session.prompt("/echo")
        assert order_of_new(met)[:2] == ["answer", "available_commands_update"]
        assert [session.session_id, (await met.client.new_session()).session_id] == ["s1", "s2"]


@BOTH
@in_real_time
async def test_an_early_update_comes_before_the_session_and_is_not_lost(version: Version) -> None:
    async with meeting(version, "early-update") as met:
        session = await met.client.new_session()
        assert order_of_new(met)[:2] == ["agent_message_chunk", "answer"]
        early = ["This update was sent before its session was created."]
        assert messages_of(session.state, "agent") == early
        assert met.problems == []


@BOTH
@in_real_time
async def test_a_command_makes_later_sessions_early(version: Version) -> None:
    async with meeting(version) as met:
        first = await met.client.new_session()
        await first.prompt("/early-update")
        later = await met.client.new_session()
        assert "before its session was created" in messages_of(later.state, "agent")[0]


@BOTH
@in_real_time
async def test_a_session_needs_a_login_if_the_agent_requires_one(version: Version) -> None:
    async with meeting(version, "auth") as met:
        client = met.client
        with pytest.raises(twofold.RequestFailed, match="Authentication required") as refused:
            await client.new_session()
        assert refused.value.code == -32000
        [method] = client.auth_methods
        assert isinstance(method, v2.AuthMethodAgent)
        await client.authenticate(method.method_id)
        assert (await client.new_session()).session_id == "s1"
        await client.logout()
        with pytest.raises(twofold.RequestFailed):
            await client.new_session()


@in_real_time
async def test_a_command_locks_later_sessions() -> None:
    async with meeting(2) as met:
        session = await met.client.new_session()
        await session.prompt("/auth")
        with pytest.raises(twofold.RequestFailed, match="Authentication required"):
            await met.client.new_session()


def test_an_agent_that_is_silent_from_the_start_answers_nothing() -> None:
    async def main() -> bytes:
        here, there = map(Tap, memory_pair())
        served = asyncio.create_task(demo_agent("silent", 0).serve(there))
        with pytest.raises(twofold.NoAnswer):
            async with twofold.connect(here, start_timeout=0.05):
                raise AssertionError("there is no person")
        async with asyncio.timeout(LIMIT):
            await served
        return bytes(there.written)

    assert run(main()) == b""


@BOTH
@in_real_time
async def test_a_crash_in_someones_process_breaks_the_line_only(version: Version) -> None:
    async with meeting(version) as met:
        session = await met.client.new_session()
        with pytest.raises(twofold.ConnectionEnded):
            await session.prompt("/crash")
        assert messages_of(session.state, "agent") == ["I crash in the middle of a "]


@BOTH
def test_kept_sessions_survive_and_keep_their_numbers(version: Version, tmp_path: Path) -> None:
    async def before() -> Session:
        async with meeting(version, keep=tmp_path) as met:
            session = await met.client.new_session()
            await session.prompt("tools")
            await session.prompt("/echo remember me")
        return session.state

    async def after() -> Session:
        async with meeting(version, keep=tmp_path) as met:
            assert (await met.client.new_session()).session_id == "s2"
            session = await met.client.load_session("s1")
            loaded = messages_of(session.state, "agent")
            await session.prompt("permission")
            assert "p3" in session.state.tool_calls
            assert loaded == ["done", "echo: remember me"]
        return session.state

    old, new = run(before()), run(after())
    assert calls_of(old).items() <= calls_of(new).items()
