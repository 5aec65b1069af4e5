"""Problems that users and implementers of ACP have reported, one test for each.

Problems of processes are tested with real ones. In the others the test sends the messages of the
agent, on a simulated clock.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.support.raw_process import gone, raw_agent
from tests.support.real_time import in_real_time, run
from tests.support.scripted import (
    HandTransport,
    Json,
    Version,
    in_session,
    line,
    meeting,
    new_session,
)
from tests.support.simulated import leaves_nothing, now, simulate, turns
from twofold.peer.inbox import LIMIT
from twofold.session.state import Message, ToolCall
from twofold.transport.base import HIGH_WATER
from twofold.wire import v2
from twofold.wire.shared import PermissionOption

BOTH = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture(autouse=True)
def no_noise_of_the_loop(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


async def never(question: twofold.Question) -> None:
    """A user who never answers."""
    await asyncio.Event().wait()


def texts(session: twofold.ClientSession, role: str = "agent") -> list[str]:
    return [
        entry.text
        for entry in session.state.entries
        if isinstance(entry, Message) and entry.role == role
    ]


def chunk(text: str, **more: Any) -> Json:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, **more}


async def ask(wire: HandTransport, identity: int, method: str, params: Json) -> Json:
    """Send a request to the agent and return the result."""

    def answers() -> list[Json]:
        return [each for each in wire.written if each.get("id") == identity]

    wire.deliver(line({"id": identity, "method": method, "params": params}))
    await wire.until(lambda: bool(answers()))
    result: Json = answers()[0]["result"]
    return result


# ---- 1. hangs


@BOTH
@leaves_nothing
async def test_a_permission_asked_for_inside_a_turn_is_answered(version: Version) -> None:
    """zeph#6656: awaiting the turn inside the handler blocks the reply to the permission."""
    agent = twofold.Agent("agent")

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Delete") as call:
            await turn.say("yes" if await turn.ask("May I?", call) else "no")

    ours, theirs = twofold.memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    async with twofold.connect(
        ours, version=version, ask=lambda question: question.option("allow_once")
    ) as client:
        session = await client.new_session()
        assert (await session.prompt("go")).text == "yes"
    await serving


@BOTH
@leaves_nothing
async def test_a_pending_permission_is_answered_when_the_turn_is_cancelled(
    version: Version,
) -> None:
    """deepchat#1881: the promise of a permission hangs after a cancel."""
    async with in_session(version, ask=never) as (session, agent):
        prompting, request = await agent.prompted(session)
        asked = agent.ask_permission()
        await turns()
        assert list(session.state.permissions) == [asked]
        cancelling = asyncio.create_task(session.cancel())
        outcome = await agent.answer_to(asked)
        assert outcome["result"]["outcome"] == {"outcome": "cancelled"}
        assert session.state.permissions == {}
        agent.finish(request, "cancelled")
        await cancelling
        assert (await prompting).stop_reason == "cancelled"


@BOTH
@leaves_nothing
async def test_a_session_works_on_after_a_stop_that_the_agent_ignored(version: Version) -> None:
    """hermes-agent#79196: stop wedges the session."""
    async with in_session(version) as (session, agent):
        prompting = asyncio.create_task(session.prompt("go"))
        await agent.begin()
        await session.cancel(give_up=3)
        assert (await prompting).given_up
        assert now() <= 10
        again = asyncio.create_task(session.prompt("again"))
        request = await agent.begin()
        agent.text("fine")
        agent.finish(request)
        assert (await again).text == "fine"


@BOTH
@leaves_nothing
async def test_no_tool_stays_in_progress_after_a_cancel(version: Version) -> None:
    """Universal-Agent-Manager#106: tools stay in_progress after a cancel."""
    async with in_session(version) as (session, agent):
        prompting, request = await agent.prompted(session)
        agent.tool_call("in_progress", "running")
        agent.tool_call("completed", "done")
        cancelling = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        await turns()
        assert session.state.tool_calls["running"].status == "cancelled"
        agent.tool_call("in_progress", "late")
        agent.finish(request, "cancelled")
        await cancelling
        await prompting
        calls = session.state.tool_calls
        assert {name: call.status for name, call in calls.items()} == {
            "running": "cancelled",
            "done": "completed",
            "late": "cancelled",
        }


@BOTH
@leaves_nothing
async def test_an_update_of_its_tool_call_leaves_a_pending_permission_alone(
    version: Version,
) -> None:
    """agent-shell#369: a status update during a pending permission removes the prompt."""
    answer: asyncio.Future[PermissionOption | None] = asyncio.Future()

    async def ask(question: twofold.Question) -> PermissionOption | None:
        return await answer

    async with in_session(version, ask=ask) as (session, agent):
        agent.tool_call("pending")
        asked = agent.ask_permission()
        await turns()
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
        agent.update({**update, "status": "in_progress"})
        await turns()
        assert list(session.state.permissions) == [asked]
        permission = session.state.permissions[asked]
        answer.set_result(permission.request.options[0])
        outcome = await agent.answer_to(asked)
        assert outcome["result"]["outcome"]["outcome"] == "selected"


# ---- 2. order and turn boundaries


@BOTH
@leaves_nothing
async def test_an_update_before_the_answer_to_new_is_kept(version: Version) -> None:
    """OpenHands-CLI#543, fast-agent#481: an update comes before the `session/new` response."""
    async with meeting(version) as (client, agent):
        making = asyncio.create_task(client.new_session())
        request = await agent.receive("session/new")
        command = {"name": "plan", "description": "Plan"}
        if version == 2:
            command["type"] = "command"
        tag = "available_commands_update"
        agent.update({"sessionUpdate": tag, "availableCommands": [command]})
        await turns()
        agent.answer(request, {"sessionId": "s"})
        session = await making
        (known,) = session.state.commands
        assert isinstance(known, v2.Command)
        assert known.name == "plan"


@BOTH
@leaves_nothing
async def test_updates_after_the_answer_to_a_prompt_are_shown(version: Version) -> None:
    """opencode#18672: updates come after the prompt response."""
    async with in_session(version) as (session, agent):
        prompting, request = await agent.prompted(session)
        agent.text("Hel")
        agent.finish(request)
        await prompting
        agent.text("lo")
        assert texts(session) == ["Hello"]


@BOTH
@leaves_nothing
async def test_a_prompt_returns_after_its_updates_were_handled(version: Version) -> None:
    """python-sdk#129: the prompt is resolved before its updates were handled."""
    async with in_session(version) as (session, agent):
        handled: list[Any] = []

        @session.on_update
        async def handle(update: Any) -> None:
            await asyncio.sleep(0.5)
            handled.append(update)

        prompting, request = await agent.prompted(session)
        with agent.at_once():
            for index in range(10):
                agent.text(str(index))
            agent.finish(request)
        assert (await prompting).text == "0123456789"
        assert sum(isinstance(each, v2.AgentMessageChunk) for each in handled) == 10


# ---- 3. replay


@leaves_nothing
async def test_an_unknown_terminal_does_not_take_the_rest_of_an_update_with_it() -> None:
    """zed#64538: one unknown terminal id drops a whole update."""
    async with in_session(1) as (session, agent):
        content = {"type": "content", "content": {"type": "text", "text": "kept"}}
        call = {"toolCallId": "c", "title": "Run", "status": "completed", "kind": "execute"}
        terminal = {"type": "terminal", "terminalId": "unknown"}
        agent.update({"sessionUpdate": "tool_call", **call, "content": [terminal, content]})
        (shown,) = session.state.entries
        assert isinstance(shown, ToolCall)
        assert (shown.title, shown.status) == ("Run", "completed")
        assert "kept" in str(shown.content)


# ---- 4. processes


def test_what_a_wrapper_started_ends_with_it() -> None:
    """rust-sdk#249, zed#56146: killing the npx wrapper orphans the agent."""
    wrapper = """
inner = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
def prompt(request):
    text(str(inner.pid))
    answer(request, {"stopReason": "end_turn"})
"""

    async def main() -> None:
        async with twofold.connect(raw_agent(wrapper)) as client:
            session = await client.new_session()
            pids.append(int((await session.prompt("who?")).text))

    pids: list[int] = []
    run(main())
    assert gone(pids[0])


@pytest.mark.parametrize("how", ["exits", "is killed"])
@in_real_time
async def test_the_error_has_the_exit_status_of_the_agent(how: str) -> None:
    """zed#56146: no exit code, no stderr."""
    end = "sys.exit(3)" if how == "exits" else "os.kill(os.getpid(), 9)"
    script = f"""
def prompt(request):
    text("working on it")
    print("fatal: out of cheese", file=sys.stderr, flush=True)
    {end}
"""
    async with twofold.connect(raw_agent(script)) as client:
        session = await client.new_session()
        with pytest.raises(twofold.ProcessEnded, match="out of cheese") as caught:
            await session.prompt("go")
        if how == "exits":
            assert caught.value.exit_code == 3
        else:
            assert caught.value.signal == "SIGKILL"
        assert texts(session) == ["working on it"]


@in_real_time
async def test_the_error_has_the_standard_error_of_an_agent_that_ended_at_the_start() -> None:
    """zed#56146: the cause of death is hidden."""
    script = 'print("no key", file=sys.stderr); sys.exit(2)'
    with pytest.raises(twofold.ProcessEnded, match="exit code 2") as caught:
        async with twofold.connect(raw_agent(script)):
            pytest.fail("it cannot be talked to")
    assert "no key" in str(caught.value)


# ---- 5. the identity of messages


@leaves_nothing
async def test_chunks_without_ids_are_neither_glued_nor_split() -> None:
    """vscode-acp#12, #56: chunks without ids are glued together or split."""
    async with in_session(1) as (session, agent):
        for _ in range(2):
            prompting, request = await agent.prompted(session)
            agent.update(chunk("One, "))
            agent.update({"sessionUpdate": "usage_update", "used": 1, "size": 9})
            agent.update(chunk("two."))
            agent.tool_call("completed", f"call-{request['id']}")
            agent.update(chunk("Three."))
            agent.finish(request)
            await prompting
        assert texts(session) == ["One, two.", "Three.", "One, two.", "Three."]


@leaves_nothing
async def test_a_copy_with_an_id_of_pieces_without_one_is_the_same_message() -> None:
    """claude-agent-acp#796: deltas without an id, and then a whole copy with one."""
    async with in_session(1) as (session, agent):
        agent.update(chunk("Hel"))
        agent.update(chunk("lo"))
        agent.update(chunk("Hello", messageId="m"))
        assert texts(session) == ["Hello"]
        agent.update(chunk(", world", messageId="m"))
        assert texts(session) == ["Hello, world"]
        agent.update(chunk("Another.", messageId="n"))
        assert texts(session) == ["Hello, world", "Another."]


@BOTH
@leaves_nothing
async def test_the_echo_of_a_prompt_is_shown_once(version: Version) -> None:
    """opencode#21708: the user's message is echoed twice."""
    async with in_session(version) as (session, agent):
        prompting = asyncio.create_task(session.prompt("Hello there"))
        request = await agent.begin()
        echo = chunk("Hello there", messageId=f"user-{request['id']}")
        agent.update({**echo, "sessionUpdate": "user_message_chunk"})
        agent.text("Hi.")
        agent.finish(request)
        await prompting
        assert texts(session, "user") == ["Hello there"]
        assert texts(session) == ["Hi."]


# ---- 6. drift


@BOTH
@leaves_nothing
async def test_unknown_updates_do_not_fail_a_good_run(version: Version) -> None:
    """cli-sub-agent#2585: an unknown `usage_update` fails a good run."""
    async with in_session(version) as (session, agent):
        prompting, request = await agent.prompted(session)
        agent.update({"sessionUpdate": "usage_update", "used": "much", "new": {"x": 1}})
        agent.update({"sessionUpdate": "mood_update", "mood": "fine"})
        agent.update({"sessionUpdate": 5})
        agent.update({})
        agent.notify("session/update", {"update": chunk("for no session")})
        agent.notify("session/update", {"sessionId": "s"})
        agent.text("done")
        agent.finish(request)
        assert (await prompting).text == "done"


@leaves_nothing
async def test_an_update_of_version_2_does_not_close_a_client_of_version_1() -> None:
    """crab#263: a `state_update` of version 2 closes a client of version 1."""
    async with in_session(1) as (session, agent):
        prompting, request = await agent.prompted(session)
        agent.state("running")
        agent.text("done")
        agent.state("idle", stopReason="end_turn")
        await turns()
        assert not prompting.done()
        agent.finish(request)
        assert (await prompting).text == "done"


@leaves_nothing
async def test_a_client_that_declares_2_and_speaks_1_is_spoken_to_in_1() -> None:
    """buzz#4728: a client declares 2 and speaks 1."""
    agent = twofold.Agent("agent")

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        await turn.say(turn.text)

    wire = HandTransport()
    serving = asyncio.create_task(agent.serve(wire))
    await turns()

    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}}
    params = {"protocolVersion": 2, "clientCapabilities": capabilities}
    introduced = await ask(wire, 1, "initialize", params)
    assert introduced["protocolVersion"] == 1
    assert "agentCapabilities" in introduced
    made = await ask(wire, 2, "session/new", {"cwd": "/", "mcpServers": []})
    prompt = [{"type": "text", "text": "Hello"}]
    params = {"sessionId": made["sessionId"], "prompt": prompt}
    assert await ask(wire, 3, "session/prompt", params) == {"stopReason": "end_turn"}
    wire.end()
    await serving


@pytest.mark.parametrize("how", ["refuses", "falls over"])
@in_real_time
async def test_an_agent_of_version_1_that_does_not_downgrade_is_asked_again(how: str) -> None:
    """kit#213: an agent of version 1 errors instead of downgrading."""
    script = f"""
ordinary = initialize
def initialize(request):
    if request["params"]["protocolVersion"] == 1:
        ordinary(request)
    elif {how == "falls over"}:
        sys.exit(1)
    else:
        fail(request, -32600, "unsupported protocol version")
"""
    async with twofold.connect(raw_agent(script)) as client:
        assert client.protocol_version == 1
        session = await client.new_session()
        assert (await session.prompt("go")).stop_reason == "end_turn"


# ---- 7. size


@in_real_time
async def test_a_line_of_many_megabytes_is_read() -> None:
    """python-sdk#27, kimi-cli#831: a limit of 64 KiB kills the connection."""
    script = """
def prompt(request):
    text("x" * 10_000_000)
    text(str(len(request["params"]["prompt"][0]["text"])))
    answer(request, {"stopReason": "end_turn"})
"""
    async with twofold.connect(raw_agent(script)) as client:
        session = await client.new_session()
        reply = await session.prompt("y" * 3_000_000)
        assert reply.text == "x" * 10_000_000 + "3000000"


def test_a_line_over_the_limit_is_passed_over() -> None:
    """python-sdk#27: a line that is too long kills the connection."""
    script = """
def prompt(request):
    text("x" * 1_000_000)
    text("still here")
    answer(request, {"stopReason": "end_turn"})
"""
    problems: list[twofold.Problem] = []

    async def main() -> None:
        command = raw_agent(script)
        async with twofold.connect(
            command, line_limit=100_000, on_problem=problems.append
        ) as client:
            session = await client.new_session()
            assert (await session.prompt("go")).text == "still here"

    run(main())
    (problem,) = problems
    assert "the limit is 100000" in str(problem)


@in_real_time
async def test_a_slow_consumer_slows_the_agent_down() -> None:
    """mosoo-agent-driver#97: a slow consumer overflows."""
    count, size = 5000, 2000
    script = f"""
def prompt(request):
    words = "x" * {size}
    for _ in range({count}):
        text(words)
    text("done")
    answer(request, {{"stopReason": "end_turn"}})
"""
    async with twofold.connect(raw_agent(script)) as client:
        session = await client.new_session()
        received, waiting = 0, [0]

        @session.on_update
        async def slow(update: Any) -> None:
            nonlocal received
            received += 1
            waiting.append(session._opened.inbox._size)
            if received % 100 == 0:
                await asyncio.sleep(0.002)

        reply = await session.prompt("go")
        assert reply.text.endswith("done")
        assert len(reply.text) == count * size + 4
        assert received >= count
        assert max(waiting) < LIMIT + 2 * HIGH_WATER  # of ten megabytes


# ---- 8. noise on standard output


def test_a_title_before_the_answer_to_initialize_is_passed_over() -> None:
    """obsidian-copilot#2909: an OSC title comes before the `initialize` reply."""
    script = """
ordinary = initialize
def initialize(request):
    write(b"\\x1b]0;my agent\\x07")
    ordinary(request)
"""
    problems: list[twofold.Problem] = []

    async def main() -> None:
        async with twofold.connect(raw_agent(script), on_problem=problems.append) as client:
            assert client.agent_name == "raw"

    run(main())
    assert {problem.kind for problem in problems} == {"noise"}
    assert "\x1b" not in str(problems[0])


@BOTH
def test_a_log_in_json_is_not_taken_for_an_answer(version: Version) -> None:
    """benchflow#236: JSON logs are taken for responses."""
    problems: list[twofold.Problem] = []

    async def main() -> None:
        async with in_session(version, problems) as (session, agent):
            prompting, request = await agent.prompted(session)
            logs: list[Any] = [
                {"level": "info", "id": request["id"], "result": {"stopReason": "refusal"}},
                {"id": request["id"], "error": {"code": 1, "message": "a log"}},
                {"id": 7, "method": "GET", "params": {"path": "/"}},
                {"msg": "a session/update", "jsonrpc": None},
                [],
                None,
            ]
            for log in logs:
                agent.transport.deliver(json.dumps(log).encode() + b"\n")
            agent.transport.deliver(b"[12:00] INFO ready\n\n   \nTraceback (most recent call)\n")
            agent.text("done")
            agent.finish(request)
            reply = await prompting
            assert (reply.text, reply.stop_reason) == ("done", "end_turn")
            assert all("method" in each for each in agent.transport.written)

    simulate(main())
    assert [problem.kind for problem in problems] == ["noise"] * 8


def test_what_agent_code_prints_does_not_get_between_the_messages() -> None:
    """`print()` in agent code."""
    script = """
import os, subprocess, twofold
print("before")
agent = twofold.Agent("printing")

@agent.on_prompt
async def answer(turn):
    print("inside")
    os.write(1, b"by number\\n")
    subprocess.run(["echo", "by a child"])
    await turn.say("clean")

agent.run()
print("after")
"""
    problems: list[twofold.Problem] = []
    printed = bytearray()

    async def main() -> None:
        async with twofold.connect(
            [sys.executable, "-c", script],
            env={"PYTHONUNBUFFERED": None},
            on_problem=problems.append,
            on_stderr=printed.extend,
        ) as client:
            session = await client.new_session()
            assert (await session.prompt("go")).text == "clean"

    run(main())
    assert problems == []
    assert {b"before", b"inside", b"by number", b"by a child"} <= set(bytes(printed).split(b"\n"))


# ---- 9. tool calls


@BOTH
@leaves_nothing
async def test_an_update_of_a_tool_call_that_was_never_announced_creates_it(
    version: Version,
) -> None:
    """gemini-cli#21783: an update comes before its `tool_call`."""
    async with in_session(version) as (session, agent):
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
        agent.update({**update, "status": "completed", "title": "Read"})
        (call,) = session.state.entries
        assert isinstance(call, ToolCall)
        assert (call.tool_call_id, call.title, call.status) == ("c", "Read", "completed")


@BOTH
@leaves_nothing
async def test_a_permission_for_a_tool_call_that_was_never_announced_is_shown(
    version: Version,
) -> None:
    """jupyter-ai-acp-client#61: a permission comes before its `tool_call`."""
    seen: list[str] = []

    def ask(question: twofold.Question) -> PermissionOption | None:
        seen.append(question.session.tool_calls["c"].title or "")
        return question.option("allow_once")

    async with in_session(version, ask=ask) as (session, agent):
        outcome = await agent.answer_to(agent.ask_permission())
        assert outcome["result"]["outcome"]["outcome"] == "selected"
        agent.tool_call("completed")
        assert seen == ["Work"]
        (call,) = session.state.entries
        assert isinstance(call, ToolCall)
        assert call.status == "completed"


@leaves_nothing
async def test_a_tool_call_that_is_announced_twice_is_one_tool_call() -> None:
    """claude-agent-acp#122: `tool_call` comes twice for one id."""
    async with in_session(1) as (session, agent):
        call = {"sessionUpdate": "tool_call", "toolCallId": "c"}
        text = {"type": "content", "content": {"type": "text", "text": "old"}}
        agent.update({**call, "title": "Edit", "status": "in_progress", "content": [text]})
        agent.update({**call, "title": "Edit a.txt", "status": "completed"})
        (shown,) = session.state.entries
        assert isinstance(shown, ToolCall)
        assert (shown.title, shown.status) == ("Edit a.txt", "completed")
        assert shown.content == []


# ---- 10. permissions

TRAPS: dict[str, list[tuple[str, str, str]]] = {
    "names that lie": [("reject", "Reject", "allow_always"), ("allow", "Allow", "reject_once")],
    "allow comes first": [("1", "Yes", "allow_once"), ("2", "No", "reject_once")],
    "an unknown kind": [("1", "Yes!", "allow_everything"), ("2", "No", "reject_once")],
}


@BOTH
@pytest.mark.parametrize("options", TRAPS.values(), ids=TRAPS)
@leaves_nothing
async def test_nothing_is_approved_by_accident(
    options: list[tuple[str, str, str]], version: Version
) -> None:
    """copilot-cli#845, #4537: approved by accident, by the name of an option or its position."""
    async with meeting(version) as (client, agent):  # and there is no person to ask
        await new_session(client, agent)
        subject = {"toolCall": {"toolCallId": "c", "title": "Delete"}}
        names = ("optionId", "name", "kind")
        asked = agent.ask(
            "session/request_permission",
            {
                "sessionId": "s",
                "options": [dict(zip(names, option, strict=True)) for option in options],
                **(subject if version == 1 else {"title": "Delete?"}),
            },
        )
        outcome = await agent.answer_to(asked)
        rejecting = next(each[0] for each in options if each[2] == "reject_once")
        expected = {"outcome": "selected", "optionId": rejecting}
        assert outcome["result"]["outcome"] == expected


@BOTH
@leaves_nothing
async def test_denying_is_not_cancelling(version: Version) -> None:
    """Memoh#972: deny is not `cancelled`."""
    async with in_session(version, ask=lambda question: None) as (session, agent):
        outcome = await agent.answer_to(agent.ask_permission())
        assert outcome["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}
        (decided,) = session.decisions
        assert (decided.option_kind, decided.allowed) == ("reject_once", False)


# ---- 12. diagnosis


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        "quota exceeded",
        {"details": "quota exceeded"},
        {"error": {"message": "quota exceeded"}},
        {"status": 429, "reason": "quota exceeded"},
    ],
)
@leaves_nothing
async def test_the_cause_is_not_hidden_behind_internal_error(version: Version, data: Any) -> None:
    """openab#885: the cause is hidden behind -32603."""
    async with meeting(version) as (client, agent):
        making = asyncio.create_task(client.new_session())
        request = await agent.receive("session/new")
        agent.fail(request, -32603, "Internal error", data=data)
        with pytest.raises(twofold.RequestFailed, match="quota exceeded") as caught:
            await making
        assert (caught.value.code, caught.value.data) == (-32603, data)


# ---- what was reproduced with the official SDKs


@BOTH
@leaves_nothing
async def test_meta_that_names_an_argument_overrides_nothing(version: Version) -> None:
    """`_meta` keys override the arguments of a call."""
    agent = twofold.Agent("agent")
    prompts: list[tuple[str, str]] = []

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        prompts.append((turn.session.session_id, turn.text))

    wire = HandTransport()
    serving = asyncio.create_task(agent.serve(wire))
    await turns()
    info = {"name": "c", "version": "1"}
    introduction = {"clientInfo" if version == 1 else "info": info}
    meta = {"sessionId": "other", "prompt": [], "cwd": "/other", "self": 1, "params": 2}
    steps: list[tuple[str, Json]] = [
        ("initialize", {"protocolVersion": version, **introduction, "_meta": meta}),
        ("session/new", {"cwd": "/", "mcpServers": [], "_meta": meta}),
    ]
    for identity, (method, params) in enumerate(steps):
        result = await ask(wire, identity, method, params)
    session = result["sessionId"]
    prompt = [{"type": "text", "text": "Hello", "_meta": {"text": "Bye"}}]
    params = {"sessionId": session, "prompt": prompt, "_meta": meta}
    await ask(wire, 9, "session/prompt", params)
    await turns()
    assert prompts == [(session, "Hello")]
    wire.end()
    await serving


@in_real_time
async def test_a_mebibyte_on_standard_error_holds_nothing_up() -> None:
    """1 MiB on the agent's stderr deadlocks."""
    script = """
def prompt(request):
    for _ in range(1024):
        os.write(2, b"x" * 1023 + b"\\n")
    os.write(2, b"the end\\n")
    text("sent")
    answer(request, {"stopReason": "end_turn"})
"""
    async with twofold.connect(raw_agent(script)) as client:
        session = await client.new_session()
        assert (await session.prompt("go")).text == "sent"


@in_real_time
async def test_an_agent_that_never_reads_does_not_hold_up_the_end() -> None:
    """A peer that never reads makes `close()` hang."""
    script = """
def prompt(request):
    text("I shall not read any more.")
    time.sleep(60)
"""
    async with twofold.connect(raw_agent(script)) as client:
        session = await client.new_session()
        asleep = asyncio.Event()
        session.on_update(lambda update: asleep.set() if texts(session) else None)
        prompting = asyncio.create_task(session.prompt("go"))
        await asleep.wait()
        requests = [
            asyncio.create_task(client.request("_large", "x" * 1_000_000)) for _ in range(5)
        ]
        await turns()
        before = now()
    assert now() - before < 6
    for task in (prompting, *requests):
        with pytest.raises(twofold.ConnectionClosed):
            await task


@in_real_time
async def test_a_client_that_never_reads_makes_the_agent_wait(tmp_path: Path) -> None:
    """A peer that never reads fills memory."""
    progress = tmp_path / "progress"
    script = f"""
import asyncio, twofold
agent = twofold.Agent("talkative")

@agent.on_prompt
async def answer(turn):
    for index in range(100_000):
        await turn.say("x" * 1000)
        if index % 100 == 0:
            open({str(progress)!r}, "w").write(str(index))

agent.run()
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1000,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    info = {"protocolVersion": 1}
    process.stdin.write(line({"id": 1, "method": "initialize", "params": info}))
    new = {"cwd": "/", "mcpServers": []}
    process.stdin.write(line({"id": 2, "method": "session/new", "params": new}))
    answers = [json.loads(await process.stdout.readline()) for _ in range(2)]
    params = {
        "sessionId": answers[1]["result"]["sessionId"],
        "prompt": [{"type": "text", "text": "go"}],
    }
    process.stdin.write(line({"id": 3, "method": "session/prompt", "params": params}))
    await until_still(progress)
    assert int(progress.read_text()) < 3000  # and not all of it
    process.stdin.close()  # the client goes without having read
    transport = process._transport  # type: ignore[attr-defined]
    transport.get_pipe_transport(1).close()
    await process.wait()


async def until_still(progress: Path) -> None:
    """Wait until a file no longer changes."""

    def read() -> str:
        return progress.read_text() if progress.exists() else ""

    seen = ""
    while not seen or seen != read():
        seen = read()
        await asyncio.sleep(0.25)
