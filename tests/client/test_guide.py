"""Agents whose updates are in the dialect of the client guide, read live.

The handshake and the requests are version 1's. What a live session adds up to is what the guide's
upgrader makes of its updates, and the conversation around them is version 1's.
"""

import asyncio
from typing import Any

import pytest

from tests.support.idle_clock import simulated, until
from tests.support.raw_agent import Json, Problems, RawAgent, chunk, in_session, talk
from twofold import ClientSession, Message, Session, ToolCall, v2
from twofold.convert.guide import GuideUpgrader
from twofold.wire import codec, guide

DONE = {"stopReason": "end_turn"}
DRIFT = "The agent sends updates in the dialect of the client guide: read as such"


def piece(text: str, index: Any = None, role: str = "agent_message") -> Json:
    update = {"sessionUpdate": f"{role}_chunk", "content": {"type": "text", "text": text}}
    return update if index is None else {**update, "index": index}


def tool(status: str = "running", **more: Json) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status, **more}


CALL = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read it", "kind": "read"}
CODE = {"type": "code", "code": "x = 1\n", "language": "python", "path": "/work/a.py"}
PLAN = {"sessionUpdate": "plan", "steps": [{"description": "Look", "status": "running"}]}
MODE = {
    "sessionUpdate": "current_mode_update",
    "currentMode": {"id": "plan", "name": "Plan first", "description": "Asks"},
}
OPTION = {
    "type": "select",
    "configId": "model",
    "name": "Model",
    "currentValue": "small",
    "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
}
OPTION_V1 = {**{key: OPTION[key] for key in OPTION if key != "configId"}, "id": "model"}
OPTIONS = {"sessionUpdate": "config_options_update", "configOptions": [OPTION]}

GUIDE_ONLY = {
    "a chunk with an index": piece("hi", 0),
    "a thought with an index": piece("hi", 0, "agent_thought"),
    "a running tool call": {**CALL, "status": "running"},
    "a tool call that waits": tool("requires_permission"),
    "content that is appended": tool("completed", appendContent=[CODE]),
    "code": {**CALL, "content": [CODE]},
    "a plan of steps": PLAN,
    "a mode with a name": MODE,
    "config options": OPTIONS,
}


async def prompted(session: ClientSession, agent: RawAgent, *updates: Json) -> Any:
    turn = asyncio.create_task(session.prompt("hello"))
    prompt = await agent.receive("session/prompt")
    agent.update(*updates)
    agent.answer(prompt, DONE)
    return await turn


def entries(session: ClientSession) -> list[tuple[str, str | None]]:
    return [
        (each.status, each.title) if isinstance(each, ToolCall) else (each.role, each.text)
        for each in session.state.entries
    ]


def names(options: list[v2.SessionConfigOption]) -> dict[str, tuple[Any, list[str]]]:
    """The value of each option, and the names to choose from."""
    found = {}
    for each in options:
        assert isinstance(each, v2.SessionConfigSelect)
        found[each.config_id] = (each.current_value, [one.name for one in each.options])
    return found


# ---- recognised ------------------------------------------------------------------------------


@simulated
async def test_a_turn_of_an_agent_that_is_configured_as_the_dialect() -> None:
    async with talk(1, version="guide") as (client, agent):
        assert client.protocol_version == 1
        session = await client.new_session("/work")
        reply = await prompted(
            session,
            agent,
            piece("hello", 0, "user_message"),
            piece("Let me ", 1),
            piece("look.", 1),
            {**CALL, "status": "running", "content": [CODE]},
            tool("completed", appendContent=[{"type": "text", "text": "one line"}]),
            PLAN,
            piece("It is 1.", 2),
        )
        assert (reply.text, reply.stop_reason) == ("Let me look.\n\nIt is 1.", "end_turn")
        assert entries(session) == [
            ("user", "hello"),
            ("agent", "Let me look."),
            ("completed", "Read it"),
            ("agent", "It is 1."),
        ]
        assert len(session.state.tool_calls["t"].content) == 2
        (update,) = session.state.plans.values()
        assert isinstance(update.plan, v2.PlanItems)
        assert [entry.status for entry in update.plan.entries] == ["in_progress"]


@pytest.mark.parametrize("update", GUIDE_ONLY.values(), ids=list(GUIDE_ONLY))
@simulated
async def test_a_version_1_agent_that_drifts_into_the_dialect_is_recognised(update: Json) -> None:
    problems = Problems()
    async with in_session(1, problems=problems) as (session, agent):
        await prompted(session, agent, chunk("As ever. ", None), update, update, piece("b", 7))
    alone, upgrader = Session("s"), GuideUpgrader()
    for each in (update, update):
        for lifted in upgrader.update(codec.read(each, guide.SessionUpdate)):
            alone.apply(lifted)
    assert problems.of("version") == [DRIFT]
    assert (session.state.unknown, session.state.plans) == ([], alone.plans)
    assert session.state.tool_calls.keys() == alone.tool_calls.keys()
    for name, call in alone.tool_calls.items():
        live = session.state.tool_calls[name]
        assert (live.status, live.content) == (call.status, call.content)
    assert names(session.state.config_options) == names(alone.config_options)
    assert [each.text for each in session.state.entries if isinstance(each, Message)][-1] == "b"


@simulated
async def test_what_either_could_mean_is_read_in_the_dialect_after_it_was_recognised() -> None:
    problems = Problems()
    async with in_session(1, problems=problems) as (session, agent):
        whole = {**CALL, "content": [CODE], "locations": [{"path": "/work/b.py"}]}
        await prompted(session, agent, whole, CALL)
        # a second `tool_call` replaces the call in the dialect, and patches it in version 1
        call = session.state.tool_calls["t"]
        assert (call.content, call.locations) == ([], [])
    assert problems.of("version") == [DRIFT]


@simulated
async def test_a_version_1_agent_that_stays_is_not_taken_for_the_dialect() -> None:
    async with in_session(1) as (session, agent):
        call = {**CALL, "status": "in_progress", "_meta": {"x": 1}}
        odd = {**chunk("a", None), "_meta": {"index": 1}}
        reply = await prompted(session, agent, odd, call, {**tool("completed")}, chunk("b", None))
        assert reply.text == "a\n\nb"
        assert not session._opened.updates.speaks_guide


@simulated
async def test_an_agent_of_version_2_is_never_read_in_the_dialect() -> None:
    problems = Problems()
    async with in_session(2, problems=problems) as (session, agent):
        agent.update({**chunk("a"), "index": 3})
        await until(lambda: session.state.entries)
        assert session.state.messages["agent"].keys() == {"m1"}
    assert problems.of("version") == []


@simulated
async def test_an_update_before_the_session_is_open_is_read_in_the_dialect() -> None:
    def early(agent: RawAgent, message: Json) -> None:
        agent.update(piece("Welcome", 0), piece(" here", 0))
        agent.answer(message, {"sessionId": "s"})

    problems = Problems()
    async with in_session(1, {"session/new": early}, problems=problems) as (session, agent):
        assert entries(session) == [("agent", "Welcome here")]
        assert (await prompted(session, agent, piece("hi", 1))).text == "hi"
    assert problems.of("version") == [DRIFT]


@simulated
async def test_a_malformed_update_of_the_dialect_is_reported_and_survived() -> None:
    problems = Problems()
    async with in_session(1, problems=problems, version="guide") as (session, agent):
        reply = await prompted(
            session, agent, {"sessionUpdate": "agent_message_chunk", "index": 0}, piece("hi", 0)
        )
        assert reply.text == "hi"
    assert len(problems.of("update")) == 1


# ---- messages --------------------------------------------------------------------------------


@simulated
async def test_chunks_without_an_index_are_messages_as_in_version_1() -> None:
    async with in_session(1, version="guide") as (session, agent):
        first = await prompted(
            session,
            agent,
            *(piece("hel", role="user_message"), piece("lo", role="user_message")),
            *(piece("one "), piece("two"), {**CALL, "status": "running"}, piece("three")),
            *(tool("completed"), piece(" four")),
        )
        assert first.text == "one two\n\nthree four"
        second = await prompted(session, agent, piece("five"))
        assert second.text == "five"
        assert entries(session)[:2] == [("user", "hello"), ("agent", "one two")]


@simulated
async def test_a_user_message_after_the_turn_is_no_echo_of_its_prompt() -> None:
    async with in_session(1, version="guide") as (session, agent):
        await prompted(session, agent, piece("one", 1))
        agent.update(piece("hello", 2, "user_message"))
        await until(lambda: len(session.state.entries) == 3)
        assert entries(session)[2] == ("user", "hello")


@simulated
async def test_a_session_in_the_dialect_is_replayed_from_its_beginning() -> None:
    async with talk(1, version="guide") as (client, agent):
        session = await client.new_session("/work")
        await prompted(session, agent, piece("one", 1))
        loading = asyncio.create_task(client.load_session("s", "/work"))
        request = await agent.receive("session/load")
        agent.update(piece("hello", 0, "user_message"), piece("one", 1))
        agent.answer(request, {})
        assert await loading is session
        assert entries(session) == [("user", "hello"), ("agent", "one")]


@simulated
async def test_a_replay_that_is_refused_leaves_the_session_as_it_was() -> None:
    async with talk(1, version="guide") as (client, agent):
        session = await client.new_session("/work")
        await prompted(session, agent, piece("one", 1))
        loading = asyncio.create_task(client.load_session("s", "/work"))
        agent.refuse(await agent.receive("session/load"), -32603, "no")
        with pytest.raises(Exception, match="no"):
            await loading
        reply = await prompted(session, agent, piece(" more", 1), piece("two", 2))
        assert reply.text == "two"
        assert entries(session)[1] == ("agent", "one more")


# ---- permissions, modes and options ----------------------------------------------------------


@simulated
async def test_a_permission_of_the_dialect_is_that_of_version_1() -> None:
    async with in_session(1, version="guide") as (session, agent):
        turn = asyncio.create_task(session.prompt("hello"))
        prompt = await agent.receive("session/prompt")
        agent.update({**CALL, "status": "requires_permission"})
        titles: list[str] = []
        session.on_question(lambda _, question: titles.append(question.request.title))
        request = {
            "sessionId": "s",
            "toolCall": {"toolCallId": "t"},
            "options": [{"optionId": "n", "name": "No", "kind": "reject_once"}],
        }
        answer = await agent.ask("session/request_permission", request)
        assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": "n"}}
        agent.update(tool("failed"))
        agent.answer(prompt, DONE)
        await turn
        assert session.state.tool_calls["t"].status == "failed"
        assert titles == ["Read it"]


MODES = {
    "sessionId": "s",
    "modes": {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}],
    },
}


def options(session: ClientSession) -> dict[str, tuple[Any, list[str]]]:
    return names(session.state.config_options)


@simulated
async def test_modes_of_the_setup_and_options_of_the_dialect_stay_side_by_side() -> None:
    async with in_session(1, {"session/new": MODES}, version="guide") as (session, agent):
        assert options(session) == {"mode": ("ask", ["Ask", "Plan"])}
        await prompted(session, agent, OPTIONS)
        model = ("small", ["Small", "Large"])
        assert options(session) == {"mode": ("ask", ["Ask", "Plan"]), "model": model}
        await prompted(session, agent, {**MODE, "currentMode": "plan"})
        assert options(session) == {"mode": ("plan", ["Ask", "Plan"]), "model": model}
        setting = asyncio.create_task(session.set_mode("ask"))
        request = await agent.receive("session/set_mode")
        assert request["params"] == {"sessionId": "s", "modeId": "ask"}
        agent.answer(request, {})
        await setting
        assert options(session) == {"mode": ("ask", ["Ask", "Plan"]), "model": model}
        setting = asyncio.create_task(session.set_config_option("model", "large"))
        request = await agent.receive("session/set_config_option")
        agent.answer(
            request,
            {"configOptions": [{**OPTION_V1, "currentValue": "large"}]},
        )
        await setting
        assert options(session)["model"][0] == "large"
        assert options(session)["mode"][0] == "ask"


@simulated
async def test_a_mode_that_only_an_update_names_keeps_its_name_and_can_be_set() -> None:
    async with in_session(1, version="guide") as (session, agent):
        await prompted(session, agent, MODE, {**MODE, "currentMode": "code"})
        assert options(session) == {"mode": ("code", ["Plan first", "code"])}
        setting = asyncio.create_task(session.set_mode("plan"))
        agent.answer(await agent.receive("session/set_mode"), {})
        await setting
        assert options(session) == {"mode": ("plan", ["Plan first", "code"])}
