"""A recording adds up to what the user saw, and tells all of it."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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
from twofold.view import FooterBlock, RemarkBlock
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
        request = await self.agent.heard("session/prompt")
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
    await scene.agent.heard("session/cancel")
    scene.call("late", "pending")
    scene.finish(request, "cancelled")
    await cancelling
    await turn


async def cancelled_with_an_error(scene: Scene, session: Any) -> None:
    turn, request = await scene.prompt(session)
    scene.call("run", "in_progress")
    await until(lambda: "run" in session.state.tool_calls)
    cancelling = asyncio.create_task(session.cancel())
    await scene.agent.heard("session/cancel")
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
    request = await scene.agent.heard("session/prompt")
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

    def say(self, words: str, session: str = "s", kind: str = "agent_message_chunk") -> "Script":
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


def test_the_end_of_every_turn_is_shown() -> None:
    script = Script().prompt("One").say("1").answer(stopReason="end_turn")
    script.prompt("Two").say("2").cancel().answer(stopReason="cancelled")
    script.prompt("Three").say("3").refuse("Internal error", data={"details": "no credit"})
    script.prompt("Four").say("4").answer(stopReason="max_tokens")
    script.prompt("Five").say("5").answer(stopReason="end_turn")
    assert script.paragraphs == [
        *("> One", "1", "· end of turn"),
        *("> Two", "2", "⊘ cancelled"),
        *("> Three", "3", '✗ an error: Internal error ({"details": "no credit"})'),
        *("> Four", "4", "⊘ the token limit is reached"),
        *("> Five", "5", "idle, end of turn"),
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
    assert script.paragraphs[1] == f"✓ Build  (completed)\n  permission {words}"


def test_what_a_turn_left_open_or_a_person_rejected_does_not_look_as_if_it_went_on() -> None:
    rejected = {"outcome": "selected", "optionId": "reject_once"}
    script = Script().prompt().call("Read", "in_progress").call("Build", "pending")
    script.permission("Build", rejected).answer(stopReason="end_turn")
    assert script.paragraphs[1:3] == [
        "– Read  (not finished)",
        "✗ Build  (rejected)\n  permission rejected: <reject_once>",
    ]


def test_an_answer_that_is_about_no_tool_call_stands_where_it_was_given() -> None:
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
    assert out.getvalue().split("\n\n")[:3] == [
        "Well.",
        "· Run make?: permission allowed: Yes",
        "Well.",
    ]


def test_what_was_live_is_shown_before_the_replay_that_tells_it_again() -> None:
    script = Script().prompt("One").call("Edit", "completed").answer(stopReason="end_turn")
    script.load().say("One", kind="user_message_chunk").answer()
    script.say("late")  # some agents replay after the answer, too
    script.prompt("Two").say("2").answer(stopReason="end_turn")
    assert script.paragraphs == [
        *("> One", "✓ Edit  (completed)", "idle, end of turn"),
        "── Replayed by the agent (session/load) ──",
        *("> One", "late"),
        "── The replay ends here ──",
        *("> Two", "2", "idle, end of turn"),
    ]
    assert len(added_up(script.lines).sessions) == 1
    assert "Edit" not in str(snapshot_of(added_up(script.lines).sessions["s"]))


def test_a_replay_that_is_refused_leaves_what_was_live() -> None:
    script = Script().prompt("One").say("1").answer(stopReason="end_turn")
    script.load().refuse("Resource not found", -32002)
    assert script.paragraphs == [
        *("> One", "1", "· end of turn"),
        "✗ session/load failed: Resource not found",
        "idle, end of turn",
    ]


def test_turns_that_end_in_the_same_place_are_all_shown() -> None:
    messages = [
        {"sessionUpdate": "state_update", "state": state, **end}
        for _ in range(2)
        for state, end in (("running", {}), ("idle", {"stopReason": "end_turn"}))
    ]
    blocks = added_up([codec.encode(each) for each in messages]).outline()
    assert blocks[:-1] == [RemarkBlock("end of turn")]
    assert isinstance(blocks[-1], FooterBlock)


def test_a_replay_of_nothing_says_so() -> None:
    script = Script().load().answer().prompt("One").say("1").answer(stopReason="end_turn")
    assert script.paragraphs[:2] == ["── The agent replayed nothing (session/load) ──", "> One"]


def test_sessions_have_headings_if_there_are_several() -> None:
    script = Script().prompt("One", "a").say("1", "a").prompt("Two", "b").say("2", "b")
    assert [each for each in script.paragraphs if "──" in each] == [
        "── Session a ──",
        "── Session b ──",
    ]


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
