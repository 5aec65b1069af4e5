"""A recording shows everything that the user saw."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import pytest
from rich.console import Console

from tests.support.idle_clock import simulated, until
from tests.support.raw_agent import HELLO, IDLE, RUNNING, Json, Problems, RawAgent, call
from twofold import Client, connect, memory_pair
from twofold.journal.recording import Recording, read_line
from twofold.rpc.errors import RequestFailed
from twofold.session import Session, snapshot
from twofold.term.transcript import render_blocks
from twofold.transport.tape import Tape, Taped
from twofold.view import HeadingBlock, RemarkBlock
from twofold.wire import codec

both = pytest.mark.parametrize("version", [1, 2])


def added_up(lines: list[bytes]) -> Recording:
    recording = Recording()
    read = [each for line in lines for each in read_line(line)]
    for line in read:
        recording.look(line)
    for line in read:
        recording.take(line)
    return recording


class Scene:
    """A client whose conversation with an agent is recorded."""

    def __init__(self, version: int, client: Client, agent: RawAgent, tape: list[bytes]) -> None:
        self.version = version
        self.client = client
        self.agent = agent
        self.tape = tape

    async def prompt(self, session: Any) -> tuple[asyncio.Task[Any], Json]:
        turn = asyncio.create_task(session.prompt("Do it"))
        request = await self.agent.receive("session/prompt")
        if self.version == 2:
            self.agent.answer(request, {"messageId": f"u{request['id']}"})
            self.agent.update(RUNNING)
        return turn, request

    def call(self, name: str, status: str, **fields: Any) -> None:
        kind = "tool_call" if self.version == 1 else "tool_call_update"
        update = {**call(name, status), "sessionUpdate": kind, "title": name, **fields}
        self.agent.update(update)

    def finish(self, request: Json, reason: str) -> None:
        if self.version == 1:
            self.agent.answer(request, {"stopReason": reason})
        else:
            self.agent.update({**IDLE, "stopReason": reason})


@asynccontextmanager
async def recorded(version: int, **options: Any) -> AsyncIterator[Scene]:
    ours, theirs = memory_pair()
    tape: list[bytes] = []
    answers = {"initialize": HELLO[version], "session/new": {"sessionId": "s"}}
    agent = RawAgent(theirs, answers)
    problems = Problems()
    taped = Taped(ours, Tape(tape.append, clock=lambda: 0.0))
    async with connect(taped, on_problem=problems.append, **options) as client:
        yield Scene(version, client, agent, tape)


def looks(session: Session) -> dict[str, str]:
    return {call.tool_call_id: session.outcome(call) for call in session.tool_calls.values()}


def snapshot_of(session: Session) -> list[bytes]:
    return [codec.encode(update) for update in snapshot(session)]


async def cancelled(scene: Scene, session: Any) -> None:
    """A turn leaves a call open; the next is cancelled with a call open, and with a late one."""
    turn, request = await scene.prompt(session)
    scene.call("edit", "in_progress")
    scene.finish(request, "end_turn")
    await turn
    turn, request = await scene.prompt(session)
    scene.call("run", "in_progress")
    await until(lambda: "run" in session.state.tool_calls)
    cancelling = asyncio.create_task(session.cancel())
    await scene.agent.receive("session/cancel")
    scene.call("late", "pending")
    scene.finish(request, "cancelled")
    await cancelling
    await turn


async def cancelled_with_an_error(scene: Scene, session: Any) -> None:
    turn, request = await scene.prompt(session)
    scene.call("run", "in_progress")
    await until(lambda: "run" in session.state.tool_calls)
    cancelling = asyncio.create_task(session.cancel())
    await scene.agent.receive("session/cancel")
    if scene.version == 1:
        scene.agent.refuse(request, -32603, "aborted")
    else:
        scene.finish(request, "cancelled")
    await cancelling
    await turn


async def given_up(scene: Scene, session: Any) -> None:
    turn, first = await scene.prompt(session)
    scene.call("run", "in_progress")
    await until(lambda: "run" in session.state.tool_calls)
    await session.cancel()  # the agent never ends it
    await turn
    turn, request = await scene.prompt(session)
    scene.call("next", "completed")
    if scene.version == 1:
        scene.finish(first, "end_turn")  # now, of all times
    scene.finish(request, "end_turn")
    await turn


async def failed(scene: Scene, session: Any) -> None:
    turn = asyncio.create_task(session.prompt("Do it"))
    request = await scene.agent.receive("session/prompt")
    scene.agent.refuse(request, -32000, "log in first")
    with pytest.raises(RequestFailed):
        await turn


async def rejected(scene: Scene, session: Any) -> None:
    turn, request = await scene.prompt(session)
    scene.call("run", "pending")
    options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
    if scene.version == 1:
        asked = {"sessionId": "s", "toolCall": {"toolCallId": "run"}, "options": options}
    else:
        subject = {"type": "tool_call", "toolCall": {"toolCallId": "run"}}
        asked = {"sessionId": "s", "title": "Run?", "subject": subject, "options": options}
    await scene.agent.ask("session/request_permission", asked)
    scene.finish(request, "end_turn")
    await turn


Story = Callable[[Scene, Any], Awaitable[None]]
LOOKS: dict[Story, dict[str, str]] = {
    cancelled: {"edit": "left_open", "run": "cancelled", "late": "cancelled"},
    cancelled_with_an_error: {"run": "cancelled"},
    given_up: {"run": "cancelled", "next": "completed"},
    failed: {},
    rejected: {"run": "rejected"},
}


@both
@pytest.mark.parametrize("story", LOOKS, ids=lambda story: story.__name__)
@simulated
async def test_a_record_adds_up_to_what_the_client_showed(version: int, story: Story) -> None:
    async with recorded(version) as scene:
        session = await scene.client.new_session("/work")
        await story(scene, session)
        seen = added_up(scene.tape).sessions["s"]
        assert looks(session.state) == LOOKS[story]
        assert looks(seen) == LOOKS[story]
        assert snapshot_of(seen) == snapshot_of(session.state)
        assert seen.state_update == session.state.state_update


# ---- what is there to read -------------------------------------------------------------------


def line(**record: Any) -> bytes:
    return codec.encode(record)


class Script:
    """A recording of version 1, written line by line."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._number = 0

    def ask(self, method: str, **params: Any) -> "Script":
        """The client sends a request."""
        self._number += 1
        return self._put("c2a", id=self._number, method=method, params=params)

    def prompt(self, words: str = "Do it", session: str = "s") -> "Script":
        content = [{"type": "text", "text": words}]
        return self.ask("session/prompt", sessionId=session, prompt=content)

    def answer(self, **result: Any) -> "Script":
        """The agent answers the last request."""
        return self._put("a2c", id=self._number, result=result)

    def refuse(self, message: str, code: int = -32603, **more: Any) -> "Script":
        error = {"code": code, "message": message, **more}
        return self._put("a2c", id=self._number, error=error)

    def cancel(self, session: str = "s") -> "Script":
        return self._put("c2a", method="session/cancel", params={"sessionId": session})

    def update(self, kind: str, session: str = "s", **fields: Any) -> "Script":
        update = {"sessionUpdate": kind, **fields}
        params = {"sessionId": session, "update": update}
        return self._put("a2c", method="session/update", params=params)

    def message(
        self, words: str, session: str = "s", kind: str = "agent_message_chunk"
    ) -> "Script":
        return self.update(kind, session, content={"type": "text", "text": words})

    def call(self, name: str, status: str) -> "Script":
        return self.update("tool_call", toolCallId=name, title=name, status=status)

    def load(self, session: str = "s") -> "Script":
        return self.ask("session/load", sessionId=session, cwd="/", mcpServers=[])

    def permission(self, name: str, outcome: Json) -> "Script":
        kinds = ("allow_once", "allow_always", "reject_once", "_odd")
        options = [{"optionId": kind, "name": f"<{kind}>", "kind": kind} for kind in kinds]
        asked = {"sessionId": "s", "toolCall": {"toolCallId": name}, "options": options}
        self._put("a2c", id="p", method="session/request_permission", params=asked)
        return self._put("c2a", id="p", result={"outcome": outcome})

    def _put(self, direction: str, **message: Any) -> "Script":
        self.lines.append(line(dir=direction, message={"jsonrpc": "2.0", **message}))
        return self

    @property
    def shown(self) -> str:
        out = io.StringIO()
        render_blocks(added_up(self.lines).outline(), Console(file=out))
        return out.getvalue()

    @property
    def paragraphs(self) -> list[str]:
        return self.shown.removesuffix("\n").split("\n\n")

    @property
    def body(self) -> list[str]:
        """What is shown below the headings of the session and its turns."""
        headings = ("── Session", "── Turn")
        return [each for each in self.paragraphs if not each.startswith(headings)]


def test_the_end_of_every_turn_is_shown() -> None:
    script = Script().prompt("One").message("1").answer(stopReason="end_turn")
    script.prompt("Two").message("2").cancel().answer(stopReason="cancelled")
    script.prompt("Three").message("3").refuse("Internal error", data={"details": "no credit"})
    script.prompt("Four").message("4").answer(stopReason="max_tokens")
    script.prompt("Five").message("5").answer(stopReason="end_turn")
    assert script.body == [
        *("> One", "1", "· end of turn"),
        *("> Two", "2", "⊘ cancelled"),
        *("> Three", "3", '✗ an error: Internal error ({"details": "no credit"})'),
        *("> Four", "4", "⊘ the token limit is reached"),
        *("> Five", "5", "· end of turn"),
    ]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"outcome": "selected", "optionId": "allow_once"}, "allowed: <allow_once>"),
        ({"outcome": "selected", "optionId": "allow_always"}, "allowed for good: <allow_always>"),
        ({"outcome": "selected", "optionId": "reject_once"}, "rejected: <reject_once>"),
        ({"outcome": "selected", "optionId": "_odd"}, "answered: <_odd>"),
        ({"outcome": "selected", "optionId": "gone"}, "answered: gone"),
        ({"outcome": "cancelled"}, "cancelled"),
    ],
)
def test_how_a_permission_was_answered_is_shown_with_the_call(outcome: Json, words: str) -> None:
    script = Script().prompt().call("Build", "pending").permission("Build", outcome)
    script.update("tool_call_update", toolCallId="Build", status="completed")
    script.answer(stopReason="end_turn")
    assert script.body[1] == f"✓ Build  (completed)\n  permission {words}"


def test_what_a_turn_left_open_or_a_person_rejected_does_not_look_as_if_it_went_on() -> None:
    rejected = {"outcome": "selected", "optionId": "reject_once"}
    script = Script().prompt().call("Read", "in_progress").call("Build", "pending")
    script.permission("Build", rejected).answer(stopReason="end_turn")
    assert script.body[1:3] == [
        "– Read  (not finished)",
        "✗ Build  (rejected)\n  permission rejected: <reject_once>",
    ]


def test_an_answer_without_a_tool_call_is_placed_where_it_was_given() -> None:
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    subject = {"type": "command", "command": "make", "cwd": "/"}
    asked = {"sessionId": "s", "title": "Run make?", "subject": subject, "options": options}
    chunk = {"sessionUpdate": "agent_message", "content": [{"type": "text", "text": "Well."}]}
    updates = [{"sessionId": "s", "update": {**chunk, "messageId": each}} for each in "ab"]
    chosen = {"outcome": {"outcome": "selected", "optionId": "y"}}
    messages: list[Json] = [
        {"method": "session/update", "params": updates[0]},
        {"id": 1, "method": "session/request_permission", "params": asked},
        {"id": 1, "result": chosen},
        {"method": "session/update", "params": updates[1]},
    ]
    lines = [codec.encode({"jsonrpc": "2.0", **message}) for message in messages]
    out = io.StringIO()
    render_blocks(added_up(lines).outline(), Console(file=out))
    assert out.getvalue().strip().split("\n\n")[1:4] == [
        "Well.",
        "· Run make?: permission allowed: Yes",
        "Well.",
    ]


def test_what_was_live_is_shown_before_the_replay_that_repeats_it() -> None:
    script = Script().prompt("One").call("Edit", "completed").answer(stopReason="end_turn")
    script.load().message("One", kind="user_message_chunk").answer()
    script.message("late")  # some agents replay after the answer, too
    script.prompt("Two").message("2").answer(stopReason="end_turn")
    assert script.body == [
        *("> One", "✓ Edit  (completed)", "· end of turn"),
        "── Replayed by the agent (session/load) ──\n2 entries, 1 of them as shown above",
        "late",
        "── The replay ends here ──",
        *("> Two", "2", "· end of turn"),
    ]
    assert len(added_up(script.lines).sessions) == 1
    assert "Edit" not in str(snapshot_of(added_up(script.lines).sessions["s"]))


def test_a_replay_that_is_refused_leaves_what_was_live() -> None:
    script = Script().prompt("One").message("1").answer(stopReason="end_turn")
    script.load().refuse("Resource not found", -32002)
    assert script.body == [
        *("> One", "1", "· end of turn"),
        "✗ session/load failed: Resource not found",
    ]


def test_turns_that_end_in_the_same_place_are_all_shown() -> None:
    messages = [
        {"sessionUpdate": "state_update", "state": state, **end}
        for _ in range(2)
        for state, end in (("running", {}), ("idle", {"stopReason": "end_turn"}))
    ]
    blocks = added_up([codec.encode(each) for each in messages]).outline()
    assert blocks == [RemarkBlock("end of turn")] * 2


def test_an_empty_replay_is_noted_as_empty() -> None:
    script = Script().load().answer().prompt("One").message("1").answer(stopReason="end_turn")
    assert script.body[:2] == ["── The agent replayed nothing (session/load) ──", "> One"]


def test_every_session_and_every_turn_has_a_heading() -> None:
    script = Script().prompt("One", "a").message("1", "a").answer(stopReason="end_turn")
    script.prompt("Two", "a").answer(stopReason="end_turn").prompt("Three", "b").message("3", "b")
    assert [each for each in script.paragraphs if "──" in each] == [
        *("── Session a ──", "── Turn 1 ──", "── Turn 2 ──"),
        *("── Session b ──", "── Turn 1 ──"),
    ]


def test_the_heading_of_a_session_names_its_title_agent_directory_and_version() -> None:
    info = {"name": "demo", "title": "Demo Agent", "version": "1.2"}
    script = Script().ask("initialize", protocolVersion=1)
    script.answer(protocolVersion=1, agentInfo=info)
    script.ask("session/new", cwd="/home/me", mcpServers=[]).answer(sessionId="s")
    script.prompt("One").update("session_info_update", title="Fix it").answer(stopReason="end_turn")
    first, *others = script.paragraphs
    assert first == "── Fix it ──\nsession s · Demo Agent 1.2 · /home/me · ACP v1"
    assert not any("Fix it" in each for each in others)


def test_the_agent_is_named_also_where_the_start_of_the_session_was_not_recorded() -> None:
    script = Script().ask("initialize", protocolVersion=1)
    script.answer(protocolVersion=1, agentInfo={"name": "demo", "version": "1.2"}).message("1")
    assert script.paragraphs[0] == "── Session s ──\ndemo 1.2 · ACP v1"


def test_paths_are_relative_to_the_directory_of_the_session() -> None:
    diff = {"type": "diff", "path": "/home/me/a.py", "oldText": "a\n", "newText": "b\n"}
    places = [{"path": "/home/me/b.py", "line": 3}, {"path": "/home/you/c.py"}]
    script = Script().ask("session/new", cwd="/home/me", mcpServers=[]).answer(sessionId="s")
    script.update("tool_call", toolCallId="c", title="Edit", content=[diff], locations=places)
    assert script.body[0].splitlines()[1:4] == ["  b.py:3", "  /home/you/c.py", "  a.py"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min")),
        *((200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min")),
    ],
)
def test_how_long_a_turn_took_is_shown_if_the_recording_has_times(
    seconds: float, words: str
) -> None:
    script = Script().prompt("One").message("1").answer(stopReason="end_turn")
    times = [1_800_000_000, 1_800_000_000, 1_800_000_000 + seconds]
    lines = [
        codec.encode({**codec.parse(each), "time": time})
        for each, time in zip(script.lines, times, strict=True)
    ]
    blocks = added_up(lines).outline(UTC)
    time = "2027-01-15 08:00:00"
    assert blocks[:2] == [HeadingBlock("Session s", (time,)), HeadingBlock("Turn 1", (time,), 2)]
    assert blocks[-1] == RemarkBlock(f"end of turn · {words}")


def test_a_replay_that_repeats_what_was_live_is_not_shown_again() -> None:
    script = (
        Script().prompt("One").message("A ").message("Hm.", kind="agent_thought_chunk").message("B")
    )
    script.call("Edit", "completed").answer(stopReason="end_turn")
    # it joins what had a thought between
    script.load().message("One", kind="user_message_chunk").message("A B").call("Edit", "completed")
    script.answer()
    assert script.body[-2:] == [
        "· end of turn",
        "── Replayed by the agent (session/load) ──\n3 entries, as shown above",
    ]
    script.load().message("One", kind="user_message_chunk").message("Else").answer()
    assert script.body[-3:] == [
        "── Replayed by the agent (session/load) ──\n3 entries, as shown above",
        "── Replayed by the agent (session/load) ──\n2 entries, 1 of them as shown above",
        "Else",
    ]


def test_more_of_a_tool_call_in_a_replay_is_shown() -> None:
    script = Script().prompt("One").call("Edit", "completed").answer(stopReason="end_turn")
    text = {"type": "content", "content": {"type": "text", "text": "more"}}
    script.load().call("Edit", "completed")
    script.update("tool_call_update", toolCallId="Edit", content=[text]).answer()
    assert script.body[-1] == "✓ Edit  (completed)\n  more"


def test_what_fails_before_there_is_a_session_is_shown() -> None:
    script = Script().ask("initialize", protocolVersion=1).answer(protocolVersion=1)
    script.ask("session/new", cwd="/", mcpServers=[]).refuse("Authentication required", -32000)
    script.ask("authenticate", methodId="key").refuse("Wrong key")
    assert script.paragraphs == [
        "✗ session/new failed: Authentication required",
        "✗ authenticate failed: Wrong key",
    ]


def test_a_recording_of_nothing_shows_nothing() -> None:
    script = Script().ask("initialize", protocolVersion=1).answer(protocolVersion=1)
    assert added_up(script.lines).outline() == []


# ---- how it ends -----------------------------------------------------------------------------


def test_an_agent_that_exits_ends_the_turn_that_it_did_not_end() -> None:
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "Do it"}]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt}
    recording = added_up([line(dir="c2a", message=message), line(dir="exit", code=3, signal=None)])
    state = recording.sessions["s"].state_update
    assert (state.state, state.stop_reason) == ("idle", "error")
    assert state.error
    assert state.error.message == "The agent exited with code 3 before the turn ended."


def test_a_cancel_between_two_turns_changes_nothing() -> None:
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
    assert not added_up([line(dir="c2a", message=cancel)]).sessions["s"].cancelling


def test_a_version_1_answer_of_an_agent_that_claims_version_2_ends_the_turn() -> None:
    script = Script().ask("initialize", protocolVersion=2)
    script.answer(protocolVersion=2, info={"name": "a", "version": "1"}, capabilities={})
    script.prompt().update("state_update", state="running").answer(stopReason="refusal")
    session = added_up(script.lines).sessions["s"]
    assert (session.state, session.stop_reason) == ("idle", "refusal")
