"""A recording adds up to what the user saw, whatever happened to the turns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.idle_clock import simulated, until
from tests.raw_agent import HELLO, IDLE, RUNNING, Json, Problems, RawAgent, call
from twofold import Client, connect, memory_pair
from twofold.recording import Recording, read_line
from twofold.rpc.errors import RequestFailed
from twofold.runtime.taped import Tape, Taped
from twofold.session import Session, snapshot
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


def line(**record: Any) -> bytes:
    return codec.encode(record)


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
