"""The sessions of an agent: replayed, listed, closed, deleted, kept, and shared by clients."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.support.raw_client import (
    Ids,
    Version,
    an_agent,
    in_session,
    settled,
    talking,
)
from tests.support.real_time import in_real_time
from tests.support.sessions import session_of
from twofold import Draft, Session, ToolCall, v2
from twofold.agent import connection as agent_sessions
from twofold.agent import session as agent_session
from twofold.agent.session import SessionClosed
from twofold.agent.store import MemoryStore, StoreFailed
from twofold.rpc.errors import REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from twofold.wire.content import ImageContent

BOTH = pytest.mark.parametrize("version", [1, 2])
COMMANDS = [v2.Command("tidy", "Tidy up")]
MODE = v2.SessionConfigSelect(
    config_id="mode",
    name="Mode",
    category="mode",
    current_value="ask",
    options=[v2.SessionConfigUngrouped("ask", "Ask"), v2.SessionConfigUngrouped("code", "Code")],
)


async def send_everything(turn: twofold.Turn) -> None:
    """One of everything that a session is made of."""
    await turn.think("Hm")
    await turn.think(".")
    await turn.plan(["look", ("fix", "in_progress")])
    one, two = turn.message(), turn.message()
    await one.append("A")
    await two.append("B")
    await one.append("a")
    async with turn.tool_call(
        "Look", kind="read", locations=[("/a", 3)], raw_input={"n": 1}
    ) as call:
        await call.append("found")
        await call.append(ImageContent("eA==", "image/png"))
        await call.complete({"lines": [1, 2]})
    async with turn.tool_call("Fix", kind="edit", name="edit") as call:
        await call.diff("/a", "old\n", "new\n")
        await call.diff("/b", None, "created\n")
    async with turn.tool_call("Test", kind="execute") as call:
        terminal = await call.terminal("make", "/src")
        await terminal.write("grün ".encode()[:3])
        await terminal.write("grün ".encode()[3:] + b"\x1b[32mok\x1b[0m\n")
        await terminal.exit(0)
    failing = turn.tool_call("Break", kind="delete")
    await failing.start()
    await failing.fail("it is made of steel")
    await turn.notice("By the way")
    await turn.usage(10, 100, v2.Cost(0.5, "EUR"))
    await turn.title("Everything")
    await turn.plan([("look", "completed"), ("fix", "completed")])
    await turn.say("Done")
    await turn.say(".")


def talkative(**options: Any) -> tuple[twofold.Agent, list[twofold.Problem]]:
    agent, problems = an_agent(**options)
    agent.on_prompt(send_everything)

    @agent.on_new_session
    async def prepare(session: twofold.AgentSession) -> None:
        await session.commands(COMMANDS)
        await session.config_options([MODE])

    return agent, problems


@asynccontextmanager
async def connected(
    agent: twofold.Agent, version: Version, **options: Any
) -> AsyncIterator[twofold.Client]:
    """A client of Twofold."""
    here, there = twofold.memory_pair()
    serving = asyncio.create_task(agent.serve(there))
    async with twofold.connect(here, version=version, **options) as client:
        yield client
    await serving


# ---- replayed --------------------------------------------------------------------------------


@in_real_time
async def test_a_replay_of_version_2_is_updates_state_and_result() -> None:
    agent, _ = talkative()
    async with in_session(agent, 2) as client:
        reply = await client.reply(client.prompt())
        await client.wait_for("idle end_turn")
        client.mark()
        result = (await client.reply(client.load()))["result"]
        assert client.story() == [
            "user_message",
            "agent_thought",
            "agent_message",
            "agent_message",
            *3 * ["tool_call_update completed"],
            "tool_call_update failed",
            "agent_message",
            "terminal_update",
            "plan_update",
            "available_commands_update",
            "config_option_update",
            "session_info_update",
            "usage_update",
            "idle end_turn",
            "result",
        ]
        assert [each["name"] for each in result["availableCommands"]] == ["tidy"]
        assert [each["configId"] for each in result["configOptions"]] == ["mode"]
        replayed = [each for each in client.updates() if each["sessionUpdate"] == "user_message"]
        assert replayed[-1]["messageId"] == reply["result"]["messageId"]


@in_real_time
async def test_a_replay_of_version_1_is_updates_and_result() -> None:
    agent, _ = talkative()
    async with in_session(agent, 1) as client:
        await client.reply(client.prompt())
        client.mark()
        result = (await client.reply(client.load()))["result"]
        assert client.story() == [
            "user_message_chunk",
            *2 * ["agent_thought_chunk"],
            *3 * ["agent_message_chunk"],
            *3 * ["tool_call completed"],
            "tool_call failed",
            *2 * ["agent_message_chunk"],
            "plan",
            "available_commands_update",
            "config_option_update",
            "current_mode_update",
            "session_info_update",
            "usage_update",
            "tool_call_update",  # what the terminal printed
            "result",
        ]
        assert result["modes"]["currentModeId"] == "ask"


@pytest.mark.parametrize(
    ("version", "story"),
    [
        (1, ["result", "available_commands_update"]),
        (2, ["idle end_turn", "result", "available_commands_update"]),
    ],
)
@in_real_time
async def test_a_session_that_is_resumed_is_not_replayed(
    version: Version, story: list[str]
) -> None:
    agent, _ = talkative()
    async with in_session(agent, version) as client:
        await client.wait_for(client.end_of(client.prompt()))
        await client.call("session/close", {"sessionId": "s"})
        client.mark()
        await client.reply(client.load(replay=False))
        await settled()
        assert client.story() == story


@BOTH
@in_real_time
async def test_a_replay_adds_up_to_the_live_session(version: Version) -> None:
    agent, _ = talkative()
    async with connected(agent, version) as client:
        live = await client.new_session("/work")
        await live.prompt("Everything, please")
        await live.prompt("Once more")
    async with connected(agent, version) as client:
        replayed = await client.load_session(live.session_id, "/work")
    assert comparable(replayed.state) == comparable(live.state)
    assert len(replayed.state.tool_calls) == 8
    if version == 2:  # to the letter, but for what is live only
        live.state.notices.clear()
        replayed.state.draft = live.state.draft
        assert replayed.state == live.state


def comparable(state: Session) -> list[Any]:
    """What a user can see."""
    entries = [
        (each.title, each.kind, each.status, each.content, each.locations, each.raw_output)
        if isinstance(each, ToolCall)
        else (each.role, each.content)
        for each in state.entries
    ]
    return [
        entries,
        state.terminals,
        state.plans,
        state.commands,
        state.config_options,
        (state.title, state.usage, state.state),
    ]


@in_real_time
async def test_a_replay_in_the_middle_of_a_turn_loses_and_doubles_nothing() -> None:
    go = asyncio.Event()

    async def answer(turn: twofold.Turn) -> None:
        for number in range(300):
            await turn.say(f"{number} " + "x" * 1000)
        await go.wait()
        async with turn.tool_call("Work", tool_call_id="c") as call:
            for number in range(20):
                await turn.say(f"later {number}")
                await call.append(f"item {number}")
            assert await turn.ask("May I?", call)

    agent, _ = an_agent()
    agent.on_prompt(answer)
    async with in_session(agent, 2) as client:
        client.prompt()
        await client.wait_for("agent_message_chunk", 300)
        client.reads = False
        before = len(client.updates())
        client.mark()
        loading = client.load()
        await client.until(lambda: len(client.updates()) > before)
        go.set()
        await settled(50)
        assert "result" not in client.story(), "it waits for the client to read"
        client.read_on()
        await client.reply(loading)
        request = await client.request()
        replayed = session_of(*client.updates()[before:], draft=Draft.NOVEMBER)
        assert replayed.tool_calls["c"].status == "in_progress"
        client.answer(request, {"outcome": {"outcome": "selected", "optionId": "allow"}})
        await client.wait_for("idle end_turn")
        replayed = session_of(*client.updates()[before:], draft=Draft.NOVEMBER)
        assert replayed == agent.open_sessions["s"].state


@in_real_time
async def test_a_question_in_the_middle_of_a_replay_waits_for_its_end() -> None:
    go = asyncio.Event()

    async def answer(turn: twofold.Turn) -> None:
        for number in range(300):
            await turn.say(f"{number} " + "x" * 1000)
        await go.wait()
        await turn.ask("May I?", turn.tool_call("Work"))

    agent, _ = an_agent()
    agent.on_prompt(answer)
    async with in_session(agent, 2) as client:
        client.prompt()
        await client.wait_for("agent_message_chunk", 300)
        client.reads = False
        client.mark()
        client.load()
        await client.wait_for("user_message")
        go.set()
        await settled(50)
        client.read_on()
        client.answer(await client.request(), {"outcome": {"outcome": "cancelled"}})
        await client.wait_for("idle end_turn")
        assert client.story() == [
            "user_message",
            "agent_message",
            "running",
            "requires_action",
            "result",
            "session/request_permission",
            "running",
            "tool_call_update cancelled",  # it was never begun
            "idle end_turn",
        ]


@BOTH
@in_real_time
async def test_what_is_prepared_for_a_resumed_session_is_sent_once(version: Version) -> None:
    agent, _ = talkative()
    seen: list[tuple[str, list[str], int, int]] = []

    @agent.on_resume_session
    async def prepare(session: twofold.AgentSession) -> None:
        await session.send(v2.AgentMessageChunk("hello", v2.TextContent("Hello again.")))
        await session.commands([v2.Command("new", "A new one")])
        entries = len(session.state.entries)
        seen.append((session.cwd, session.directories, len(session.mcp_servers), entries))

    async with in_session(agent, version) as client:
        await client.wait_for(client.end_of(client.prompt()))
        await client.call("session/close", {"sessionId": "s"})
        for replay in (True, False, False):
            client.mark()
            before = len(client.updates())
            await client.reply(client.load(replay=replay))
            await settled()
            hello = [each for each in client.updates()[before:] if "Hello again." in str(each)]
            commands = client.story().count("available_commands_update")
            if not seen[1:]:
                assert (len(hello), commands) == (1, 1)
            if replay:
                await client.call("session/close", {"sessionId": "s"})
    assert [each[0] for each in seen] == ["/work", "/work"], "an open one is not prepared"
    assert seen[0][3] > 8


@BOTH
@in_real_time
async def test_a_session_is_taken_up_in_the_directories_it_is_given(version: Version) -> None:
    agent, _ = talkative()
    async with talking(agent, version) as client:
        await client.new_session("/one")
        server = {"name": "x", "command": "/bin/x", "args": [], "env": []}
        params = {
            "sessionId": "s",
            "cwd": "/two",
            "additionalDirectories": ["/three"],
            "mcpServers": [{"type": "stdio", **server} if version == 2 else server],
        }
        await client.call("session/resume", params)
        session = agent.open_sessions["s"]
        assert (session.cwd, session.directories) == ("/two", ["/three"])
        assert [type(each) for each in session.mcp_servers] == [v2.McpServerStdio]
        await client.wait_for(client.end_of(client.prompt()))
        (info,) = (await client.call("session/list"))["sessions"]
        assert (info["cwd"], info["additionalDirectories"]) == ("/two", ["/three"])


# ---- closing and deleting --------------------------------------------------------------------


async def wait_for_ever(turn: twofold.Turn) -> None:
    await turn.say("I wait.")
    await asyncio.Event().wait()


@BOTH
@in_real_time
async def test_closing_ends_the_turn_first_and_nothing_follows(version: Version) -> None:
    agent, _ = an_agent()
    agent.on_prompt(wait_for_ever)
    closed: list[tuple[str, str]] = []

    @agent.on_close_session
    async def close(session: twofold.AgentSession) -> None:
        closed.append((session.session_id, session.state.state))
        await session.title("Closed")

    async with in_session(agent, version) as client:
        session = agent.open_sessions["s"]
        running = client.prompt("a")
        waiting = client.prompt("b")
        await client.wait_for("agent_message_chunk")
        client.mark()
        closing = client.ask("session/close", {"sessionId": "s"})
        late = client.prompt("c")
        for request in (running, waiting, closing, late):
            await client.reply(request)
        held = f"error {REQUEST_CANCELLED}"
        story = client.story()
        if version == 2:
            assert story[0] == "idle cancelled"
            assert sorted(story[1:]) == [held, held, "result", "session_info_update"]
        else:
            assert story.count("result cancelled") == 3
            assert story.index("result") > story.index("result cancelled")
        with pytest.raises(SessionClosed, match="is closed"):
            await session.send(v2.AgentMessageChunk("m", v2.TextContent("late")))
        question = v2.RequestPermissionRequest("s", "May I?", [])
        with pytest.raises(SessionClosed):
            await session.request_permission(question)
        client.mark()
        await settled()
        assert client.story() == []
        assert (await client.reply(client.prompt("d")))["error"]["code"] == RESOURCE_NOT_FOUND
    assert closed == [("s", "idle")]


@BOTH
@in_real_time
async def test_what_is_not_there_is_closed_and_deleted_already(version: Version) -> None:
    agent, problems = an_agent()
    async with talking(agent, version) as client:
        for method in ("session/close", "session/delete"):
            assert await client.call(method, {"sessionId": "?"}) == {}
    assert problems == []


@in_real_time
async def test_a_close_handler_that_fails_or_hangs_closes_all_the_same() -> None:
    agent, problems = an_agent(cancel_timeout=0.05)

    @agent.on_close_session
    async def close(session: twofold.AgentSession) -> None:
        if session.session_id == "s":
            raise ValueError("no")
        await asyncio.Event().wait()

    async with talking(agent, 2) as client:
        for session in ("s", "s2"):
            await client.new_session()
            assert await client.call("session/close", {"sessionId": session}) == {}
    assert [problem.session_id for problem in problems] == ["s", "s2"]
    assert agent.open_sessions == {}


@BOTH
@in_real_time
async def test_a_deleted_session_is_gone_wherever_it_is_open(version: Version) -> None:
    agent, problems = an_agent()
    agent.on_prompt(wait_for_ever)
    async with talking(agent, version) as owner, talking(agent, 2) as other:
        await owner.new_session()
        prompt = owner.prompt()
        await owner.wait_for("agent_message_chunk")
        await other.call("session/delete", {"sessionId": "s"})
        assert owner.end_of(prompt, "cancelled") in owner.story()
        for client in (owner, other):
            assert (await client.call("session/list"))["sessions"] == []
            assert (await client.reply(client.load()))["error"]["code"] == RESOURCE_NOT_FOUND
    assert problems == []


# ---- lists -----------------------------------------------------------------------------------


@in_real_time
async def test_lists_come_in_pages_that_skip_and_repeat_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_sessions, "PAGE", 3)
    agent, _ = an_agent()
    for number in range(8):
        time = f"2026-01-0{number + 1}T00:00:00Z"
        agent.store.create(v2.SessionInfo(f"old{number}", "/work", updated_at=time))

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None: ...

    async with talking(agent, 2) as client:
        page = await client.call("session/list")
        seen = [each["sessionId"] for each in page["sessions"]]
        assert seen == ["old7", "old6", "old5"]
        # meanwhile one goes, one comes and one moves up
        agent.store.delete("old6")
        await client.new_session()
        agent.store.describe(v2.SessionInfo("old2", "/", updated_at="2030-01-01T00:00:00Z"))
        while cursor := page.get("nextCursor"):
            page = await client.call("session/list", {"cursor": cursor})
            seen += [each["sessionId"] for each in page["sessions"]]
        assert seen[3:] == ["old4", "old3", "old1", "old0"]


@in_real_time
async def test_a_list_shows_titles_and_can_be_of_one_directory() -> None:
    agent, _ = talkative()
    async with talking(agent, 2) as client:
        await client.new_session("/work/a")
        await client.new_session("/work/b")
        client.prompt("x", "s2")
        await client.wait_for("idle end_turn")
        listed = (await client.call("session/list"))["sessions"]
        assert [(each["sessionId"], each.get("title")) for each in listed] == [
            *(("s2", "Everything"), ("s", None))
        ]
        assert all(each["updatedAt"].endswith("Z") for each in listed)
        for cwd, found in (("/work/a", ["s"]), ("/work/b/", ["s2"]), ("/work", [])):
            listed = (await client.call("session/list", {"cwd": cwd}))["sessions"]
            assert [each["sessionId"] for each in listed] == found


# ---- kept ------------------------------------------------------------------------------------


@BOTH
@in_real_time
async def test_sessions_survive_a_restart(version: Version, tmp_path: Path) -> None:
    agent, _ = talkative(keep=tmp_path)
    async with connected(agent, version) as client:
        live = await client.new_session("/work")
        await live.prompt("Everything, please")
    again, problems = talkative(keep=tmp_path, new_session_id=Ids())
    async with connected(again, version) as client:
        (info,) = [each async for each in client.list_sessions()]
        assert (info.session_id, info.title, info.cwd) == ("s", "Everything", "/work")
        replayed = await client.load_session("s", "/work")
        assert comparable(replayed.state) == comparable(live.state)
        await replayed.prompt("Once more")
        assert len(replayed.state.entries) == 2 * len(live.state.entries), "ids are not used again"
    kinds = {problem.kind for problem in problems}
    assert kinds <= {"loss"}


@BOTH
@in_real_time
async def test_a_session_that_was_killed_in_mid_turn_is_idle_and_nothing_goes_on_in_it(
    version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "KEEP_WITHIN", 0.01)

    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Done"):
            pass
        async with turn.tool_call("Build") as call:
            await call.terminal("make")
            await turn.ask("Go on?", call)

    agent, _ = an_agent(keep=tmp_path)
    agent.on_prompt(answer)
    append, kept = agent.store.append, asyncio.Event()

    def keep(session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        append(session_id, updates)
        if any(isinstance(update, v2.ToolCallUpdate) for update in updates):
            kept.set()

    monkeypatch.setattr(agent.store, "append", keep)
    async with talking(agent, version) as killed:
        await killed.new_session()
        killed.prompt("Build it")
        log = tmp_path / "s.jsonl"
        await killed.request()
        assert "Build it" in log.read_text(), "the message of the user is kept at once"
        assert "requires_action" not in log.read_text()
        await kept.wait()
        assert "requires_action" in log.read_text(), "and the rest soon after"
        # another agent reads what a killed process would have left
        heir, problems = an_agent(keep=tmp_path)
        async with connected(heir, version) as client:
            replayed = await client.load_session("s", "/work")
            statuses = [call.status for call in replayed.state.tool_calls.values()]
            assert statuses == ["completed", "cancelled" if version == 2 else "failed"]
            assert replayed.state.state == "idle"
            state = heir.open_sessions["s"].state
            assert state.stop_reason == "cancelled"
            assert [each.exit_status for each in state.terminals.values()] == [
                v2.TerminalExitStatus()
            ]
        assert {problem.kind for problem in problems} <= {"loss"}


@in_real_time
async def test_a_disk_that_is_full_for_a_while_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "KEEP", 4)
    agent, problems = talkative(keep=tmp_path)
    append, full = agent.store.append, True

    def failing(session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        if full:
            raise StoreFailed(tmp_path, "No space left on device")
        append(session_id, updates)

    monkeypatch.setattr(agent.store, "append", failing)
    async with in_session(agent, 2) as client:
        client.prompt()
        await client.wait_for("idle end_turn")
        assert agent.store.load("s") == Session("s", Draft.NOVEMBER)
        full = False
        live = agent.open_sessions["s"].state
    assert agent.store.load("s") == live
    assert {problem.kind for problem in problems} == {"handler"}
    assert "No space left" in problems[0].text
    assert len(problems) < 12, "it is not tried for every update"


@in_real_time
async def test_a_session_that_was_deleted_meanwhile_is_no_problem(tmp_path: Path) -> None:
    agent, problems = talkative(keep=tmp_path)
    async with in_session(agent, 2) as client:
        agent.store.delete("s")
        client.prompt()
        await client.wait_for("idle end_turn")
    assert problems == []
    assert agent.store.list() == []


@in_real_time
async def test_a_session_in_memory_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _ = talkative()
    appended: list[Any] = []
    monkeypatch.setattr(
        MemoryStore, "append", lambda store, session_id, updates: appended.append(updates)
    )
    async with in_session(agent, 2) as client:
        client.prompt()
        await client.wait_for("tool_call_update completed")
        assert agent.store.load("s") == agent.open_sessions["s"].state
        await client.wait_for("idle end_turn")
        live = agent.open_sessions["s"].state
    loaded = agent.store.load("s")
    assert loaded == live
    assert loaded is not live
    assert appended == []


# ---- two clients -----------------------------------------------------------------------------


@in_real_time
async def test_two_clients_do_not_get_each_others_updates() -> None:
    agent, _ = talkative()
    async with talking(agent, 1) as one, talking(agent, 2) as two:
        await one.new_session()
        await two.new_session()
        two_prompt = two.prompt("two", "s2")
        await one.reply(one.prompt("one", "s"))
        await two.reply(two_prompt)
        await two.wait_for("idle end_turn")
        assert not {"tool_call_content_chunk", "running"} & set(one.story())
        assert one.updates("s2") == two.updates("s") == []
        for client in (one, two):
            assert len((await client.call("session/list"))["sessions"]) == 2
        assert "error" in await one.reply(one.prompt("not mine", "s2"))


@BOTH
@in_real_time
async def test_a_client_that_resumes_a_session_takes_it_over(version: Version) -> None:
    agent, _ = an_agent()
    agent.on_prompt(wait_for_ever)
    events: list[str] = []

    @agent.on_resume_session
    async def resume(session: twofold.AgentSession) -> None:
        events.append("resumed")

    @agent.on_close_session
    async def close(session: twofold.AgentSession) -> None:
        events.append("closed")

    async with talking(agent, version) as first, talking(agent, 2) as second:
        await first.new_session()
        prompt = first.prompt("Do it")
        await first.wait_for("agent_message_chunk")
        with second.at_once():
            loading = [second.load(), second.load()]
        for load in loading:
            assert "result" in await second.reply(load)
        assert events == ["closed", "resumed"]
        assert first.story()[-1] == first.end_of(prompt, "cancelled")
        assert "error" in await first.reply(first.prompt("once more"))
        first.mark()
        second.prompt()
        await second.wait_for("running")
        second.cancel()
        await second.wait_for("idle cancelled", 3)
        await settled()
        assert first.story() == []
        texts = [each.content for each in agent.open_sessions["s"].state.messages["user"].values()]
        assert texts == [[v2.TextContent("Do it")], [v2.TextContent("hello")]]


@in_real_time
async def test_a_client_comes_back_and_goes_on() -> None:
    agent, _ = an_agent()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        await turn.say(f"{len(turn.session.state.messages['user'])}")

    for version in (1, 2, 1, 2):
        async with connected(agent, version) as client:
            sessions = [each async for each in client.list_sessions()]
            if sessions:
                session = await client.load_session("s", "/work")
            else:
                session = await client.new_session("/work")
            texts = [
                each.text
                for each in session.state.entries
                if isinstance(each, twofold.Message) and each.role == "agent"
            ]
            reply = await session.prompt("How many times?")
            assert texts == [str(number + 1) for number in range(int(reply.text) - 1)]
    assert reply.text == "4"
