"""Sessions of a client: what is asked of the agent, what it answers, and what comes of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.support.idle_clock import simulated, until, within
from tests.support.raw_agent import (
    IDLE,
    RUNNING,
    V1,
    V2,
    Json,
    Problems,
    RawAgent,
    call,
    chunk,
    in_session,
    talk,
)
from twofold import Client, ClientSession, connect, memory_pair
from twofold.client import incoming
from twofold.session import Draft
from twofold.wire import v2

both = pytest.mark.parametrize("version", [1, 2])

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
VALUES = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]


def select(key: str, name: str, current: str = "ask", category: str | None = "mode") -> Json:
    """A config option; `key` is what a version calls its id."""
    option = {key: name, "name": name, "type": "select", "currentValue": current}
    return {**option, "options": VALUES, **({"category": category} if category else {})}


def texts(session: ClientSession) -> list[str]:
    return [entry.text for entry in session.state.entries if isinstance(entry, twofold.Message)]


def current(session: ClientSession, config_id: str = "mode") -> Any:
    for option in session.state.config_options:
        if isinstance(option, v2.SessionConfigCommon) and option.config_id == config_id:
            return getattr(option, "current_value", None)
    raise AssertionError(f"no option {config_id}")


# ---- with an agent of Twofold's own ----------------------------------------------------------


@asynccontextmanager
async def parrot(version: Any, **options: Any) -> AsyncIterator[Client]:
    agent = twofold.Agent("parrot", "1.0", on_problem=lambda problem: None)

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Think", kind="think") as tool:
            if not await turn.ask("May I?", tool):
                return
        await turn.say(turn.text.upper())

    @agent.on_request("_add")
    async def add(params: Any) -> Any:
        return params["a"] + params["b"]

    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    async with connect(ours, version=version, **options) as client:
        yield client
    await serving


@pytest.mark.parametrize("version", [None, 1, 2])
@simulated
async def test_a_whole_conversation_with_an_agent_of_twofolds_own(version: Any) -> None:
    async with parrot(version, ask=lambda question: question.option("allow_once")) as client:
        assert client.protocol_version == (version or 2)
        assert client.agent_name == "parrot"
        session = await client.new_session("/work")
        assert client.sessions == {session.session_id: session}
        reply = await session.prompt("hello")
        assert (reply.text, reply.stop_reason, reply.given_up) == ("HELLO", "end_turn", False)
        assert [type(entry).__name__ for entry in reply.entries] == [
            "Message",
            "ToolCall",
            "Message",
        ]
        assert session.state.state == "idle"
        assert [info.session_id async for info in client.list_sessions()] == [session.session_id]
        assert [info async for info in client.list_sessions("/elsewhere")] == []
        assert await client.request("_add", {"a": 1, "b": 2}) == 3
        await session.close()
        assert client.sessions == {}
        again = await client.load_session(session.session_id, "/work")
        assert again is not session
        assert texts(again) == ["hello", "HELLO"]
        await client.delete_session(session.session_id)
        assert again.closed
        assert [info async for info in client.list_sessions()] == []


@pytest.mark.parametrize("version", [1, 2])
@simulated
async def test_a_resumed_session_is_not_replayed(version: Any) -> None:
    async with parrot(version) as client:
        session = await client.new_session("/work")
        await session.prompt("hello")
        await session.close()
        again = await client.resume_session(session.session_id, "/work")
        assert again.state.entries == []
        assert (await again.prompt("more")).stop_reason == "end_turn"


@simulated
async def test_two_sessions_do_not_get_updates_of_each_other() -> None:
    async with parrot(2, policy=twofold.Policy((), "allow")) as client:
        one, two = await client.new_session("/a"), await client.new_session("/b")
        replies = await asyncio.gather(one.prompt("one"), two.prompt("two"))
        assert [reply.text for reply in replies] == ["ONE", "TWO"]
        assert texts(one) == ["one", "ONE"]
        assert texts(two) == ["two", "TWO"]


@simulated
async def test_after_the_block_nothing_works_and_nothing_hangs() -> None:
    async with parrot(2) as client:
        session = await client.new_session("/work")
    with pytest.raises(twofold.ConnectionClosed):
        await client.new_session("/work")
    with pytest.raises(twofold.ConnectionClosed):
        await session.prompt("hello")
    await session.cancel()
    await session.close()


# ---- new, load, resume, list, close, delete --------------------------------------------------

ASKED: dict[str, tuple[Callable[[Client], Any], dict[int, tuple[str, Json]]]] = {
    "new": (
        lambda client: client.new_session("/work"),
        {
            1: ("session/new", {"cwd": "/work", "mcpServers": []}),
            2: ("session/new", {"cwd": "/work", "mcpServers": []}),
        },
    ),
    "load": (
        lambda client: client.load_session("old", "/work"),
        {
            1: ("session/load", {"sessionId": "old", "cwd": "/work", "mcpServers": []}),
            2: (
                "session/resume",
                {
                    "sessionId": "old",
                    "cwd": "/work",
                    "mcpServers": [],
                    "replayFrom": {"type": "start"},
                },
            ),
        },
    ),
    "resume": (
        lambda client: client.resume_session("old", "/work"),
        {
            1: ("session/resume", {"sessionId": "old", "cwd": "/work", "mcpServers": []}),
            2: ("session/resume", {"sessionId": "old", "cwd": "/work", "mcpServers": []}),
        },
    ),
    "delete": (
        lambda client: client.delete_session("old"),
        {
            1: ("session/delete", {"sessionId": "old"}),
            2: ("session/delete", {"sessionId": "old"}),
        },
    ),
    "log in": (
        lambda client: client.authenticate("token"),
        {
            1: ("authenticate", {"methodId": "token"}),
            2: ("auth/login", {"methodId": "token"}),
        },
    ),
    "log out": (lambda client: client.logout(), {1: ("logout", {}), 2: ("auth/logout", {})}),
}


@pytest.mark.parametrize("what", ASKED)
@both
@simulated
async def test_what_is_asked_of_an_agent_is_in_its_own_words(version: int, what: str) -> None:
    do, expected = ASKED[what]
    method, params = expected[version]
    result = {"sessionId": "s"} if what == "new" else {}
    async with talk(version, {method: result}) as (client, agent):
        await do(client)
        assert agent.messages[-1]["method"] == method
        assert agent.messages[-1]["params"] == params


@both
@simulated
async def test_directories_and_servers_are_sent_as_absolute_paths(
    version: int,
) -> None:
    here = Path.cwd()
    hello: Json = {
        **V1,
        "agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}},
    }
    if version == 2:
        session: Json = {"mcp": {"stdio": {}}, "additionalDirectories": {}}
        hello = {**V2, "capabilities": {"session": session}}
    async with talk(version, {"initialize": hello}) as (client, agent):
        server = v2.McpServerStdio("tools", "/bin/tools", ["-x"])
        made = await client.new_session("a/../b", directories=["c"], mcp_servers=[server])
        assert made.roots == [str(here / "b"), str(here / "c")]
        params = agent.messages[-1]["params"]
        assert params["cwd"] == str(here / "b")
        assert params["additionalDirectories"] == [str(here / "c")]
        [server] = params["mcpServers"]
        assert (server["name"], server["command"], server["args"]) == (
            "tools",
            "/bin/tools",
            ["-x"],
        )


LISTS: dict[str, tuple[list[list[str]], int | None, list[str], bool, int]] = {
    "all of it": ([["a", "b"], ["c"]], None, ["a", "b", "c"], False, 2),
    "in the middle of a page": ([["a", "b"], ["c"]], 1, ["a"], True, 1),
    "at the end of a page": ([["a", "b"], ["c"]], 2, ["a", "b"], True, 1),
    "at the end of the list": ([["a", "b"], ["c"]], 3, ["a", "b", "c"], False, 2),
    "pages without sessions": ([[], [], [], ["a"]], 2, [], True, 2),
    "sessions that are listed twice": ([["a", "a"], ["b"]], 2, ["a", "a", "b"], False, 2),
}


@pytest.mark.parametrize("case", LISTS.values(), ids=list(LISTS))
@simulated
async def test_a_list_of_sessions_ends_at_its_limit_and_reports_whether_there_is_more(
    case: tuple[list[list[str]], int | None, list[str], bool, int],
) -> None:
    pages, limit, ids, more, asked = case

    def page(agent: RawAgent, message: Json) -> None:
        number = int(message["params"].get("cursor", 0))
        infos = [{"sessionId": each, "cwd": "/"} for each in pages[number]]
        after = {"nextCursor": f"{number + 1}"} if number + 1 < len(pages) else {}
        agent.answer(message, {"sessions": infos, **after})

    async with talk(1, {"session/list": page}) as (client, agent):
        listed = client.list_sessions(limit=limit)
        assert [info.session_id async for info in listed] == ids
        assert listed.more is more
        assert agent.methods().count("session/list") == asked


@both
@simulated
async def test_sessions_are_listed_page_by_page(version: int) -> None:
    def page(agent: RawAgent, message: Json) -> None:
        cursor = message["params"].get("cursor")
        number = {None: 1, "p2": 2, "p3": 3}[cursor]
        infos = [{"sessionId": f"s{number}", "cwd": "/work", "title": f"Session {number}"}]
        more = {"nextCursor": f"p{number + 1}"} if number < 3 else {}
        agent.answer(message, {"sessions": infos, **more})

    async with talk(version, {"session/list": page}) as (client, agent):
        infos = [info async for info in client.list_sessions("/work")]
        assert [info.session_id for info in infos] == ["s1", "s2", "s3"]
        asked = [each["params"] for each in agent.messages if each.get("method") == "session/list"]
        assert asked == [
            {"cwd": "/work"},
            {"cwd": "/work", "cursor": "p2"},
            {"cwd": "/work", "cursor": "p3"},
        ]


@both
@simulated
async def test_a_page_that_is_given_again_ends_the_list(version: int) -> None:
    infos = [{"sessionId": "s1", "cwd": "/work"}]
    async with talk(version, {"session/list": {"sessions": infos, "nextCursor": "x"}}) as (
        client,
        _,
    ):
        assert len([info async for info in client.list_sessions()]) == 2


@both
@simulated
async def test_a_session_that_the_agent_does_not_find_is_an_error_and_not_open(
    version: int,
) -> None:
    def unknown(agent: RawAgent, message: Json) -> None:
        agent.update(chunk("a piece"), session_id="old")
        agent.refuse(message, -32002, "Resource not found")

    async with talk(version, {"session/load": unknown, "session/resume": unknown}) as (client, _):
        for reopen in (client.load_session, client.resume_session):
            with pytest.raises(twofold.RequestFailed, match="Resource not found"):
                await reopen("old", "/work")
            assert client.sessions == {}


@both
@simulated
async def test_a_load_that_fails_leaves_an_open_session_as_it_was(version: int) -> None:
    def failing(agent: RawAgent, message: Json) -> None:
        agent.update(chunk("half a replay"))
        agent.refuse(message, -32603, "disk on fire")

    async with talk(version, {"session/load": failing, "session/resume": failing}) as (
        client,
        agent,
    ):
        session = await client.new_session("/work")
        agent.update(chunk("before"))
        await until(lambda: session.state.entries)
        state = session.state
        with pytest.raises(twofold.RequestFailed, match="disk on fire"):
            await client.load_session("s", "/elsewhere")
        assert client.sessions == {"s": session}
        assert session.state is state
        assert texts(session) == ["before"]
        assert session.roots == ["/work"]
        assert not session.closed


@both
@simulated
async def test_an_open_session_that_is_loaded_is_replayed_from_its_beginning(version: int) -> None:
    def replay(agent: RawAgent, message: Json) -> None:
        agent.update(chunk("hello", "u1", "user"), chunk("one two", "m1"))
        agent.update(IDLE) if version == 2 else None
        agent.answer(message, {})

    async with talk(version, {"session/load": replay, "session/resume": replay}) as (client, agent):
        session = await client.new_session("/work")
        agent.update(chunk("one "), chunk("two"))
        await until(lambda: session.state.entries)
        assert await client.load_session("s", "/work") is session
        assert texts(session) == ["hello", "one two"]


@both
@simulated
async def test_a_replay_that_follows_the_answer_is_read_all_the_same(version: int) -> None:
    def late(agent: RawAgent, message: Json) -> None:
        agent.answer(message, {})
        agent.update(chunk("hello", "u1", "user"), chunk("one two", "m1"))

    async with talk(version, {"session/load": late, "session/resume": late}) as (client, _):
        session = await client.load_session("s", "/work")
        await until(lambda: len(session.state.entries) == 2)
        assert texts(session) == ["hello", "one two"]


@simulated
async def test_a_session_in_the_middle_of_a_turn_is_not_loaded_again() -> None:
    async with talk(1) as (client, agent):
        session = await client.new_session("/work")
        turn = asyncio.create_task(session.prompt("hello"))
        prompt = await agent.receive("session/prompt")
        with pytest.raises(twofold.LocalError, match="in the middle of a turn"):
            await client.load_session("s", "/work")
        agent.answer(prompt, {"stopReason": "end_turn"})
        assert (await turn).stop_reason == "end_turn"


@simulated
async def test_an_agent_that_can_only_load_is_loaded_to_be_resumed() -> None:
    hello = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    async with talk(1, {"initialize": hello, "session/load": None}) as (client, agent):
        session = await client.resume_session("old", "/work")
        assert session.session_id == "old"
        assert agent.methods()[-1] == "session/load"


@both
@simulated
async def test_a_session_is_closed_once(version: int) -> None:
    async with in_session(version, {"session/close": {}}) as (session, agent):
        await session.close()
        await session.close()
        assert agent.methods().count("session/close") == 1
        for late in (
            lambda: session.prompt("hello"),
            lambda: session.set_mode("code"),
            lambda: session.set_config_option("mode", "code"),
            lambda: session.cancel_tool_call("t"),
            lambda: session.cancel_terminal("t"),
        ):
            with pytest.raises(twofold.LocalError, match="The session s is closed"):
                await late()
        await session.cancel()


@both
@simulated
async def test_a_session_that_the_agent_closed_already_is_closed(version: int) -> None:
    def unknown(agent: RawAgent, message: Json) -> None:
        agent.refuse(message, -32002, "Resource not found")

    async with in_session(version, {"session/close": unknown}) as (session, _):
        await session.close()
        assert session.closed


@both
@simulated
async def test_a_session_that_the_agent_does_not_close_is_closed_on_this_side(version: int) -> None:
    async with talk(version) as (client, _):
        session = await client.new_session("/work")
        with pytest.raises(twofold.NoAnswer, match="session/close within 30 seconds"):
            await session.close()
        assert session.closed
        assert client.sessions == {}


@both
@simulated
async def test_the_end_of_a_session_can_be_waited_for(version: int) -> None:
    async with in_session(version, {"session/close": {}}) as (session, _):
        waiting = asyncio.ensure_future(session.wait_closed())
        await asyncio.sleep(1)
        assert not waiting.done()
        await session.close()
        await waiting
        await session.wait_closed()


@both
@simulated
async def test_waiting_for_the_end_of_a_session_fails_if_its_agent_dies(version: int) -> None:
    async with in_session(version) as (session, agent):
        waiting = asyncio.ensure_future(session.wait_closed())
        await asyncio.sleep(1)
        await agent.gone()
        with pytest.raises(twofold.ConnectionEnded):
            await waiting


@simulated
async def test_without_a_way_to_close_a_session_is_only_forgotten() -> None:
    async with in_session(1, {"initialize": {"protocolVersion": 1}}) as (session, agent):
        await session.close()
        assert session.closed
        assert agent.methods()[-1] == "session/new"


# ---- what an agent cannot do -----------------------------------------------------------------

BARE: dict[int, Json] = {
    1: {
        "protocolVersion": 1,
        "agentInfo": {"name": "bare", "title": "Bare\x1b[31m", "version": "1"},
    },
    2: {
        "protocolVersion": 2,
        "info": {"name": "bare", "title": "Bare\x1b[31m", "version": "1"},
        "capabilities": {},
    },
}


async def listed(client: Client) -> None:
    async for _ in client.list_sessions():
        pass


UNABLE: dict[str, tuple[Callable[[Client], Any], str]] = {
    "load": (lambda client: client.load_session("s"), "Bare cannot load sessions."),
    "resume": (lambda client: client.resume_session("s"), "Bare cannot resume sessions."),
    "list": (listed, "Bare cannot list its sessions."),
    "delete": (lambda client: client.delete_session("s"), "Bare cannot delete sessions."),
    "log out": (lambda client: client.logout(), "Bare cannot log out."),
    "log in": (
        lambda client: client.authenticate("x"),
        "Bare cannot be logged in to: it names no way to do it.",
    ),
}


@pytest.mark.parametrize(("do", "text"), UNABLE.values(), ids=list(UNABLE))
@both
@simulated
async def test_what_an_agent_cannot_do_is_refused_before_it_is_asked(
    version: int, do: Callable[[Client], Any], text: str
) -> None:
    async with talk(version, {"initialize": BARE[version]}) as (client, agent):
        asked = len(agent.messages)
        with pytest.raises(twofold.NotSupported) as caught:
            await do(client)
        assert str(caught.value) == text
        assert len(agent.messages) == asked


@simulated
async def test_an_agent_of_version_2_without_sessions_has_none() -> None:
    async with talk(2, {"initialize": BARE[2]}) as (client, _):
        with pytest.raises(twofold.NotSupported, match="Bare cannot hold sessions"):
            await client.new_session("/work")


@simulated
async def test_what_an_agent_cannot_take_at_the_beginning_of_a_session_is_refused() -> None:
    http = v2.McpServerHttp("web", "https://x.example")
    stdio = v2.McpServerStdio("local", "/bin/x")
    async with talk(1) as (client, _):
        with pytest.raises(twofold.NotSupported, match="raw works in one directory only"):
            await client.new_session("/work", directories=["/other"])
        with pytest.raises(twofold.NotSupported, match=r"over HTTP \(web\)"):
            await client.new_session("/work", mcp_servers=[http])
        await client.new_session("/work", mcp_servers=[stdio])
    hello = {**V2, "capabilities": {"session": {}}}
    async with talk(2, {"initialize": hello}) as (client, _):
        with pytest.raises(twofold.NotSupported, match=r"raw starts no MCP servers \(local\)"):
            await client.load_session("s", "/work", mcp_servers=[stdio])


@simulated
async def test_what_only_version_2_can_express_is_refused_in_version_1() -> None:
    async with in_session(1) as (session, _):
        for stop in (session.cancel_tool_call("t"), session.cancel_terminal("t")):
            with pytest.raises(
                twofold.NotSupported, match="raw speaks version 1, which cannot express this"
            ):
                await stop


@simulated
async def test_one_tool_call_and_one_terminal_can_be_stopped_in_version_2() -> None:
    async with in_session(2, {"tool_call/cancel": {}, "terminal/cancel": None}) as (session, agent):
        await session.cancel_tool_call("t")
        await session.cancel_terminal("x")
        assert [each["params"] for each in agent.messages[-2:]] == [
            {"sessionId": "s", "toolCallId": "t"},
            {"sessionId": "s", "terminalId": "x"},
        ]


@simulated
async def test_a_nameless_agent_is_called_the_agent() -> None:
    async with talk(1, {"initialize": {"protocolVersion": 1}}) as (client, _):
        assert client.agent_name == "The agent"


# ---- modes and config options ----------------------------------------------------------------


@simulated
async def test_a_mode_of_version_1_is_a_config_option() -> None:
    answers = {"session/new": {"sessionId": "s", "modes": MODES}, "session/set_mode": None}
    async with in_session(1, answers) as (session, agent):
        assert current(session) == "ask"
        await session.set_mode("code")
        assert agent.messages[-1]["params"] == {"sessionId": "s", "modeId": "code"}
        assert current(session) == "code"
        await session.set_config_option("mode", "ask")
        assert agent.methods()[-1] == "session/set_mode"
        assert current(session) == "ask"
        agent.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"})
        await until(lambda: current(session) == "code")


@simulated
async def test_a_config_option_of_version_1_is_set_as_one() -> None:
    def option(agent: RawAgent, message: Json) -> None:
        value = message["params"]["value"]
        agent.answer(message, {"configOptions": [select("id", "session-mode", value)]})

    answers: Json = {
        "session/new": {
            "sessionId": "s",
            "modes": MODES,
            "configOptions": [select("id", "session-mode")],
        },
        "session/set_config_option": option,
    }
    async with in_session(1, answers) as (session, agent):
        await session.set_mode("code")
        params = {"sessionId": "s", "configId": "session-mode", "value": "code"}
        assert agent.messages[-1]["params"] == params
        assert current(session, "session-mode") == "code"


@simulated
async def test_a_mode_of_version_2_goes_by_its_category() -> None:
    def option(agent: RawAgent, message: Json) -> None:
        value = message["params"]["value"]
        agent.update(
            {
                "sessionUpdate": "config_option_update",
                "configOptions": [select("configId", "session-mode", value)],
            }
        )
        agent.answer(message, {"configOptions": [select("configId", "session-mode", value)]})

    options = [select("configId", "model", category=None), select("configId", "session-mode")]
    answers: Json = {
        "session/new": {"sessionId": "s", "configOptions": options},
        "session/set_config_option": option,
    }
    async with in_session(2, answers) as (session, agent):
        await session.set_mode("code")
        params = {"sessionId": "s", "configId": "session-mode", "type": "id", "value": "code"}
        assert agent.messages[-1]["params"] == params
        assert current(session, "session-mode") == "code"


@pytest.mark.parametrize(("version", "key"), [(1, "id"), (2, "configId")])
@simulated
async def test_a_switch_is_set_with_a_boolean(version: int, key: str) -> None:
    switch = {key: "fast", "name": "Fast", "type": "boolean", "currentValue": False}
    answers = {
        "session/new": {"sessionId": "s", "configOptions": [switch]},
        "session/set_config_option": {"configOptions": [{**switch, "currentValue": True}]},
    }
    async with in_session(version, answers) as (session, agent):
        await session.set_config_option("fast", True)
        params = {"sessionId": "s", "configId": "fast", "type": "boolean", "value": True}
        assert agent.messages[-1]["params"] == params
        assert current(session, "fast") is True


@both
@simulated
async def test_an_agent_without_modes_has_none(version: int) -> None:
    async with in_session(version) as (session, _):
        with pytest.raises(twofold.NotSupported, match="raw has no modes in this session"):
            await session.set_mode("code")


@pytest.mark.parametrize(("version", "key"), [(1, "id"), (2, "configId")])
@simulated
async def test_an_agent_that_sets_an_option_without_saying_so_is_believed(
    version: int, key: str
) -> None:
    options = [select(key, "model", category="model"), select(key, "other", category=None)]
    modes = {"modes": MODES} if version == 1 else {}
    answers = {
        "session/new": {"sessionId": "s", "configOptions": options, **modes},
        "session/set_config_option": None,
        "session/set_mode": None,
    }
    problems = Problems()
    async with in_session(version, answers, problems=problems) as (session, _):
        await session.set_config_option("model", "code")
        assert (current(session, "model"), current(session, "other")) == ("code", "ask")
        if version == 1:
            await session.set_mode("code")
            assert current(session) == "code"
    [problem] = problems.of("answer")
    assert "session/set_config_option" in problem


@both
@simulated
async def test_a_setting_that_is_refused_changes_nothing(version: int) -> None:
    def refuse(agent: RawAgent, message: Json) -> None:
        agent.refuse(message, -32602, "no such mode")

    new: Json = {"sessionId": "s", "configOptions": [select("configId", "mode")]}
    answers: Json = {
        "session/new": {"sessionId": "s", "modes": MODES} if version == 1 else new,
        "session/set_mode": refuse,
        "session/set_config_option": refuse,
    }
    async with in_session(version, answers) as (session, _):
        with pytest.raises(twofold.RequestFailed, match="no such mode"):
            await session.set_mode("write")
        assert current(session) == "ask"


@simulated
async def test_commands_that_come_with_a_new_session_are_known() -> None:
    command = {"name": "help", "description": "Helps"}
    made = {"sessionId": "s", "availableCommands": [command]}
    async with in_session(2, {"session/new": made}) as (session, _):
        assert [each.name for each in session.state.commands if isinstance(each, v2.Command)] == [
            "help"
        ]


# ---- null, early and unknown -----------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["session/load", "session/resume", "session/close", "session/delete", "authenticate"]
)
@simulated
async def test_an_agent_that_answers_null_agrees(method: str) -> None:
    answers = {"session/new": {"sessionId": "s", "modes": MODES}, method: None}
    async with talk(1, answers) as (client, _):
        session = await client.new_session("/work")
        do: dict[str, Callable[[], Any]] = {
            "session/load": lambda: client.load_session("s", "/work"),
            "session/resume": lambda: client.resume_session("s", "/work"),
            "session/close": session.close,
            "session/delete": lambda: client.delete_session("s"),
            "authenticate": lambda: client.authenticate("token"),
        }
        await within(1, do[method]())
        assert current(session) == "ask"


@both
@simulated
async def test_a_new_session_without_an_id_is_a_bad_answer(version: int) -> None:
    answers: list[Json] = [None, {}, {"sessionId": 7}, []]
    for answer in answers:
        async with talk(version, {"session/new": answer}) as (client, _):
            with pytest.raises(twofold.BadAnswer, match="session/new"):
                await client.new_session("/work")


@both
@simulated
async def test_updates_before_the_session_is_answered_are_its_first(version: int) -> None:
    def eager(agent: RawAgent, message: Json) -> None:
        agent.update(chunk("early "))
        command = {"name": "help", "description": "Helps"}
        update = {"sessionUpdate": "available_commands_update", "availableCommands": [command]}
        agent.update(update)
        agent.answer(message, {"sessionId": "s"})
        agent.update(chunk("late"))

    async with in_session(version, {"session/new": eager}) as (session, _):
        await until(lambda: texts(session) == ["early late"])
        assert len(session.state.commands) == 1


@simulated
async def test_unrequested_sessions_are_kept_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incoming, "UNCLAIMED", 3)
    problems = Problems()
    async with talk(2, problems=problems) as (client, agent):
        for number in range(10):
            agent.update(chunk(f"of {number}"), session_id=f"x{number}")
        for number in range(7):
            agent.update(chunk("again"), session_id=f"x{number}")
        await until(lambda: len(problems) >= 7)
        assert client.sessions == {}
        agent.answers["session/new"] = {"sessionId": "x9"}
        assert texts(await client.new_session("/work")) == ["of 9"]
        agent.answers["session/new"] = {"sessionId": "x0"}  # its beginning was passed over
        session = await client.new_session("/work")
        assert session.state.entries == []
        agent.update(chunk("now"), session_id="x0")
        await until(lambda: texts(session) == ["now"])
    assert [problem.session_id for problem in problems] == [f"x{number}" for number in range(7)]
    assert {problem.kind for problem in problems} == {"update"}


@simulated
async def test_unrequested_sessions_are_kept_up_to_a_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incoming, "KEPT", 100_000)
    problems = Problems()
    async with talk(2, problems=problems) as (_, agent):
        for _ in range(100):
            agent.update(chunk("x" * 10_000), session_id="flood")
        await until(lambda: problems)
        agent.update(chunk("a word"), session_id="other")
    [problem] = problems
    assert problem.session_id == "flood"


@both
@simulated
async def test_what_still_comes_for_a_closed_session_is_passed_over(version: int) -> None:
    async with talk(version, {"session/close": {}, "session/resume": {}}) as (client, agent):
        session = await client.new_session("/work")
        await session.close()
        agent.update(chunk("late"))
        assert "error" in await agent.ask("_ping", {})
        assert session.state.entries == []
        again = await client.resume_session("s", "/work")
        assert again.state.entries == []
        agent.update(chunk("new"))
        await until(lambda: texts(again) == ["new"])


# ---- updates that are odd --------------------------------------------------------------------

ODD: list[Json] = [
    {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk"}},
    {"sessionId": "s", "update": {"sessionUpdate": "tool_call_update"}},
    {"sessionId": "s", "update": None},
    {"sessionId": "s"},
    {"update": {}},
    [],
    None,
]


@both
@simulated
async def test_malformed_updates_are_reported_and_survived(version: int) -> None:
    problems = Problems()
    async with in_session(version, problems=problems) as (session, agent):
        for params in ODD:
            agent.notify("session/update", params)
        agent.write(b'{"jsonrpc":"2.0","method":"session/update"}\n')
        agent.update(chunk("fine"))
        await until(lambda: texts(session) == ["fine"])
    assert len(problems.of("update")) == len(ODD) + 1
    assert problems.of("update") == [problem.text for problem in problems]


@both
@simulated
async def test_a_malformed_part_is_reported_and_the_rest_is_used(version: int) -> None:
    problems = Problems()
    async with in_session(version, problems=problems) as (session, agent):
        agent.update({**call("t", "completed"), "title": "Run", "locations": 7})
        await until(lambda: session.state.tool_calls)
        assert session.state.tool_calls["t"].status == "completed"
    [problem] = problems
    assert (problem.kind, problem.session_id) == ("update", "s")
    assert "locations" in problem.text


@both
@simulated
async def test_an_unknown_update_is_kept(version: int) -> None:
    async with in_session(version) as (session, agent):
        agent.update({"sessionUpdate": "_acme_mood", "mood": "good"})
        await until(lambda: session.state.unknown)
        assert session.state.unknown[0].tag == "_acme_mood"


@simulated
async def test_terminal_output_that_is_no_base64_hurts_nothing_else() -> None:
    problems = Problems()
    async with in_session(2, problems=problems) as (session, agent):
        agent.update({"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "?"})
        agent.update(chunk("fine"))
        await until(lambda: texts(session) == ["fine"])
    [problem] = problems.of("update")
    assert "not base64" in problem


@simulated
async def test_terminal_output_in_the_metadata_of_version_1_is_in_the_session() -> None:
    async with in_session(1) as (session, agent):
        meta = {"terminal_output_delta": {"terminal_id": "x", "data": "hi\n"}}
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "echo hi"})
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": meta})
        await until(lambda: session.state.terminals)
        assert session.state.terminals["x"].output == b"hi\n"
        assert session.state.tool_calls["c"].content == [v2.Terminal("x")]


@simulated
async def test_an_agent_that_claims_2_and_sends_updates_of_1_is_understood_and_reported() -> None:
    problems = Problems()
    async with in_session(2, problems=problems) as (session, agent):
        agent.update(chunk("one ", None), chunk("two", None))
        fields = {"toolCallId": "t", "title": "Edit", "kind": "edit", "status": "completed"}
        diff = {"type": "diff", "path": "/x", "oldText": "a\n", "newText": "b\n"}
        agent.update({"sessionUpdate": "tool_call", **fields, "content": [diff]})
        entries = [{"content": "do it", "priority": "high", "status": "pending"}]
        agent.update({"sessionUpdate": "plan", "entries": entries})
        agent.update(chunk("three", None))
        await until(lambda: texts(session) == ["one two", "three"])
        tool = session.state.tool_calls["t"]
        assert (tool.title, [type(item).__name__ for item in tool.content]) == ("Edit", ["Diff"])
        assert list(session.state.plans) == ["main"]
    [problem] = problems
    assert problem.kind == "version"
    assert "claims version 2" in problem.text


@simulated
async def test_an_agent_of_version_1_that_sends_a_state_is_not_lost() -> None:
    async with in_session(1) as (session, agent):
        agent.update(RUNNING, chunk("fine", None))
        await until(lambda: texts(session) == ["fine"])


@both
@simulated
async def test_unknown_notifications_are_reported_unless_they_are_extensions(
    version: int,
) -> None:
    problems = Problems()
    async with talk(version, problems=problems) as (_, agent):
        agent.notify("_acme/mood", {"mood": "good"})
        agent.notify("$/progress", {})
        agent.notify("session/mood", {})
        await until(lambda: problems)
    assert problems.of("noise") == [
        "The agent sent a notification with an unknown method: session/mood"
    ]


UNOFFERED = [
    *("fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output"),
    *("elicitation/create", "_acme/what", "session/mood", "session/new", "session/update"),
    "elicitation/complete",
]


@pytest.mark.parametrize("method", UNOFFERED)
@both
@simulated
async def test_a_service_that_is_not_offered_is_refused_as_unknown(
    version: int, method: str
) -> None:
    params: Json = {"sessionId": "s", "path": "/x", "content": "", "command": "ls"}
    params |= {"terminalId": "t", "message": "Who?", "mode": "form", "elicitationId": "e"}
    params |= {"requestedSchema": {"type": "object", "properties": {}}}
    by_method = {
        "fs/read_text_file": ("sessionId", "path"),
        "fs/write_text_file": ("sessionId", "path", "content"),
        "terminal/create": ("sessionId", "command"),
        "terminal/output": ("sessionId", "terminalId"),
        "elicitation/create": ("sessionId", "message", "mode", "requestedSchema"),
        "elicitation/complete": ("elicitationId",),
    }
    sent = {key: params[key] for key in by_method.get(method, ("sessionId",))}
    async with talk(version) as (client, agent):
        await client.new_session("/work")
        answer = await within(1, agent.ask(method, sent))
        assert answer["error"]["code"] == -32601


# ---- extensions and elicitation --------------------------------------------------------------


@both
@simulated
async def test_extension_requests_and_notifications_are_plain_json(version: int) -> None:
    async with talk(version, {"_acme/add": [1, {"x": None}]}) as (client, agent):
        assert await client.request("_acme/add", {"a": [1]}) == [1, {"x": None}]
        assert agent.messages[-1]["params"] == {"a": [1]}
        await client.request("_acme/add")
        assert "params" not in agent.messages[-1]
        client.notify("_acme/note", {"b": 2})
        assert (await agent.receive("_acme/note"))["params"] == {"b": 2}


@both
@simulated
async def test_the_answer_to_an_extension_comes_after_the_updates_before_it(version: int) -> None:
    def answer(agent: RawAgent, message: Json) -> None:
        agent.update(chunk("before"))
        agent.answer(message, {})

    async with talk(version, {"_acme/go": answer}) as (client, _):
        session = await client.new_session("/work")
        updates = []

        @session.on_update
        async def slowly(update: v2.SessionUpdate) -> None:
            await asyncio.sleep(5)
            updates.append(update)

        await client.request("_acme/go", {"sessionId": "s"})
        assert len(updates) == 1


@both
@simulated
async def test_an_extension_that_is_unknown_is_the_agents_error(version: int) -> None:
    def refuse(agent: RawAgent, message: Json) -> None:
        agent.refuse(message, -32601, "Method not found", details="no _acme here")

    async with talk(version, {"_acme/add": refuse}) as (client, _):
        with pytest.raises(twofold.RequestFailed) as caught:
            await client.request("_acme/add")
        assert caught.value.code == -32601
        assert "no _acme here" in str(caught.value)


FORM: Json = {
    "sessionId": "s",
    "message": "Who?",
    "mode": "form",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


@both
@simulated
async def test_a_question_of_the_agent_is_asked_in_the_words_of_version_2(version: int) -> None:
    asked = []

    async def elicit(question: v2.CreateElicitationRequest) -> v2.CreateElicitationResponse:
        asked.append(question)
        return v2.ElicitationAccept(content={"name": "Ada"})

    async with talk(version, elicit=elicit) as (client, agent):
        [hello] = [each for each in agent.messages if each["method"] == "initialize"][-1:]
        announced = hello["params"]["clientCapabilities" if version == 1 else "capabilities"]
        assert announced["elicitation"] == {"form": {}}
        await client.new_session("/work")
        answer = await within(1, agent.ask("elicitation/create", FORM))
        assert answer["result"] == {"action": "accept", "content": {"name": "Ada"}}
        [question] = asked
        assert isinstance(question, v2.ElicitationForm)
        assert isinstance(question.requested_schema, v2.ElicitationSchema)


@simulated
async def test_the_draft_of_november_is_known_by_its_prompt_result() -> None:
    async with in_session(2) as (session, agent):
        assert session.state.draft is Draft.JUNE
        for result, draft in (({}, Draft.JUNE), ({"messageId": "u1"}, Draft.NOVEMBER)):
            turn = asyncio.create_task(session.prompt("hello"))
            agent.answer(await agent.receive("session/prompt"), result)
            agent.update(RUNNING, IDLE)
            await turn
            assert session.state.draft is draft
