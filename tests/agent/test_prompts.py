"""Turns as a client sees them: the order of their updates, and their one end."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import twofold
from tests.support.raw_client import (
    Json,
    RawClient,
    Version,
    an_agent,
    in_session,
    settled,
    talking,
)
from tests.support.real_time import in_real_time, run
from twofold import RequestError, TurnOver, v2
from twofold.agent.prompts import WAITING
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, REQUEST_CANCELLED

BOTH = pytest.mark.parametrize("version", [1, 2])
Handler = Callable[[twofold.Turn], Awaitable[Any]]


def agent_with(handler: Handler, **options: Any) -> tuple[twofold.Agent, list[twofold.Problem]]:
    agent, problems = an_agent(**options)
    agent.on_prompt(handler)
    return agent, problems


@asynccontextmanager
async def prompting(
    handler: Handler, version: Version, **options: Any
) -> AsyncIterator[tuple[RawClient, int, list[twofold.Problem]]]:
    """A client whose prompt `handler` works on, the id of the prompt, and the agent's problems."""
    agent, problems = agent_with(handler, **options)
    async with in_session(agent, version) as client:
        yield client, client.prompt(), problems


class Stage:
    """A handler that reports its step and waits until it may go on or is stopped."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.entered = 0
        self.go = asyncio.Event()
        self.stopped = asyncio.Event()
        self.turns: list[twofold.Turn] = []
        self._stubborn = stubborn
        self._changed = asyncio.Event()

    async def __call__(self, turn: twofold.Turn) -> None:
        self.turns.append(turn)
        await turn.say(f"{turn.text}?")
        self.entered += 1
        self._changed.set()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                if not self._stubborn:
                    raise
        await turn.say(f"{turn.text}!")

    async def until_entered(self, times: int) -> None:
        while self.entered < times:
            self._changed.clear()
            await self._changed.wait()


# ---- order -----------------------------------------------------------------------------------


async def a_rich_answer(turn: twofold.Turn) -> None:
    await turn.think("Hm.")
    await turn.plan(["look", ("fix", "in_progress")])
    async with turn.tool_call("Look", kind="read", locations=["/a"]) as call:
        await call.append("found")
    await turn.say("Done")
    await turn.say(".")


@in_real_time
async def test_version_2_gets_result_message_running_answer_idle() -> None:
    agent, problems = agent_with(a_rich_answer)
    async with in_session(agent, 2) as client:
        reply = await client.reply(client.prompt("Fix it"))
        await client.wait_for("idle end_turn")
        assert client.story() == [
            "result",
            "user_message",
            "running",
            "agent_thought_chunk",
            "plan_update",
            "tool_call_update in_progress",
            "tool_call_content_chunk",
            "tool_call_update completed",
            "agent_message_chunk",
            "agent_message_chunk",
            "idle end_turn",
        ]
        message = client.updates()[0]
        assert message["messageId"] == reply["result"]["messageId"]
        assert message["content"] == [{"type": "text", "text": "Fix it"}]
    assert problems == []


@in_real_time
async def test_version_1_gets_every_update_before_the_result() -> None:
    agent, problems = agent_with(a_rich_answer)
    async with in_session(agent, 1) as client:
        await client.reply(client.prompt("Fix it"))
        assert client.story() == [
            "agent_thought_chunk",
            "plan",
            "tool_call in_progress",
            "tool_call_update",
            "tool_call_update completed",
            "agent_message_chunk",
            "agent_message_chunk",
            "result end_turn",
        ]
    assert problems == []


@BOTH
@in_real_time
async def test_a_client_that_reads_slowly_loses_nothing_and_nothing_is_reordered(
    version: Version,
) -> None:
    async def flood(turn: twofold.Turn) -> None:
        for number in range(3000):
            await turn.say(f"{number:06} " + "x" * 100)

    agent, _ = agent_with(flood)
    async with in_session(agent, version) as client:
        client.reads = False
        prompt = client.prompt()
        await client.wait_for("agent_message_chunk")
        before = len(client.messages)
        await settled(100)
        assert len(client.messages) < before + 2000, "the agent waits for the client"
        client.read_on()
        await client.wait_for(client.end_of(prompt))
        texts = [
            each["content"]["text"][:6]
            for each in client.updates()
            if each["sessionUpdate"] == "agent_message_chunk"
        ]
        assert texts == [f"{number:06}" for number in range(3000)]
        assert client.story()[-1] == client.end_of(prompt)


# ---- ends ------------------------------------------------------------------------------------

ENDS: list[tuple[Any, str, str]] = [
    (None, "end_turn", "end_turn"),
    ("end_turn", "end_turn", "end_turn"),
    ("max_tokens", "max_tokens", "max_tokens"),
    ("max_turn_requests", "max_turn_requests", "max_turn_requests"),
    ("refusal", "refusal", "refusal"),
    ("cancelled", "cancelled", "cancelled"),
    # a reason of the agent's own, which version 1 lacks
    ("_lunch", "end_turn", "_lunch"),
    # no stop reason at all: reported as a problem of the handler
    ("lunch", "end_turn", "end_turn"),
    ("error", "end_turn", "end_turn"),
    (True, "end_turn", "end_turn"),
    ({"stop": "here"}, "end_turn", "end_turn"),
]


@pytest.mark.parametrize(("returned", "v1_hears", "v2_hears"), ENDS)
@BOTH
@in_real_time
async def test_what_the_handler_returns_is_the_stop_reason(
    version: Version, returned: Any, v1_hears: str, v2_hears: str
) -> None:
    async def answer(turn: twofold.Turn) -> Any:
        return returned

    agent, problems = agent_with(answer)
    async with in_session(agent, version) as client:
        await client.wait_for(client.end_of(client.prompt(), (v1_hears, v2_hears)[version - 1]))
    odd = returned in ("lunch", "error", True) or isinstance(returned, dict)
    kinds = ["handler"] if odd else ["loss"] if (returned, version) == ("_lunch", 1) else []
    assert [problem.kind for problem in problems] == kinds


@BOTH
@in_real_time
async def test_an_exception_reaches_the_client_as_an_error_without_its_text(
    version: Version,
) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Open the vault", tool_call_id="c"):
            raise ValueError("the password is hunter2")

    async with prompting(answer, version) as (client, prompt, problems):
        if version == 1:
            error = (await client.reply(prompt))["error"]
        else:
            await client.wait_for("idle error")
            error = client.updates()[-1]["error"]
        assert error == {"code": INTERNAL_ERROR, "message": "Internal error"}
        assert "tool_call_update failed" in client.story()
        assert b"hunter2" not in client.lines
        assert b"Traceback" not in client.lines
        await client.call("session/list")
    (problem,) = problems
    assert (problem.kind, problem.session_id) == ("handler", "s")
    assert problem.text == "The prompt handler raised ValueError: the password is hunter2"
    assert isinstance(problem.error, ValueError)


@BOTH
@in_real_time
async def test_an_error_that_was_meant_for_the_client_reaches_it(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        await turn.say("Well, ")
        raise RequestError(-32001, "Out of credit", {"left": 0})

    async with prompting(answer, version) as (client, prompt, problems):
        if version == 1:
            error = (await client.reply(prompt))["error"]
            assert client.story() == ["agent_message_chunk", "error -32001"]
        else:
            await client.wait_for("idle error")
            error = client.updates()[-1]["error"]
        assert error == {"code": -32001, "message": "Out of credit", "data": {"left": 0}}
    assert problems == []


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("error", [Unspeakable(), RequestError(-1, "x", object())])
@BOTH
@in_real_time
async def test_the_turn_ends_whatever_its_handler_and_on_problem_raise(
    version: Version, error: Exception
) -> None:
    async def answer(turn: twofold.Turn) -> None:
        raise error

    def fail(problem: twofold.Problem) -> None:
        raise ValueError("I cannot report it")

    async with prompting(answer, version, on_problem=fail) as (client, _, _):
        await client.wait_for(f"error {INTERNAL_ERROR}" if version == 1 else "idle error")
        await client.call("session/list")


@BOTH
@in_real_time
async def test_an_agent_without_a_prompt_handler_refuses_prompts_with_that_reason(
    version: Version,
) -> None:
    agent, _ = an_agent()
    async with in_session(agent, version) as client:
        client.prompt()
        await client.wait_for(f"error {INTERNAL_ERROR}" if version == 1 else "idle error")
        assert b"This agent has no prompt handler" in client.lines


LEFT_OPEN: list[tuple[Version, BaseException | None, str, str, str]] = [
    (1, None, "tool_call_update completed", "result end_turn", "completed"),
    (2, None, "tool_call_update completed", "idle end_turn", "completed"),
    (1, ValueError("x"), "tool_call_update failed", "error -32603", "failed"),
    (2, ValueError("x"), "tool_call_update failed", "idle error", "failed"),
    (1, asyncio.CancelledError(), "tool_call_update failed", "result cancelled", "cancelled"),
    (2, asyncio.CancelledError(), "tool_call_update cancelled", "idle cancelled", "cancelled"),
]


@pytest.mark.parametrize(("version", "end", "update", "ended", "status"), LEFT_OPEN)
@in_real_time
async def test_what_the_handler_left_open_ends_as_the_turn_does(
    version: Version, end: BaseException | None, update: str, ended: str, status: str
) -> None:
    async def answer(turn: twofold.Turn) -> None:
        turn.tool_call("never announced")
        call = turn.tool_call("started", tool_call_id="c")
        await call.start()
        await call.terminal("sleep 1000")
        if end is not None:
            raise end

    agent, _ = agent_with(answer)
    async with in_session(agent, version) as client:
        client.prompt()
        await client.wait_for(ended)
        assert update in client.story()
        assert client.story()[-1] == ended
        state = agent.open_sessions["s"].state
        assert [call.status for call in state.tool_calls.values()] == [status]
        assert [each.exit_status for each in state.terminals.values()] == [v2.TerminalExitStatus()]
        assert state.state == "idle"


@BOTH
@in_real_time
async def test_nothing_can_be_sent_in_a_turn_that_is_over(version: Version) -> None:
    kept: list[Any] = []

    async def answer(turn: twofold.Turn) -> None:
        call = turn.tool_call("Work")
        await call.start()
        terminal = await call.terminal("make")
        kept.extend([turn, turn.message(), call, terminal])

    agent, _ = agent_with(answer)
    async with in_session(agent, version) as client:
        await client.wait_for(client.end_of(client.prompt()))
        turn, message, call, terminal = kept
        client.mark()
        lates: list[Callable[[], Awaitable[Any]]] = [
            lambda: turn.say("late"),
            lambda: turn.think("late"),
            lambda: turn.plan(["late"]),
            lambda: turn.title("late"),
            lambda: turn.usage(1, 2),
            lambda: turn.commands([]),
            lambda: turn.config_options([]),
            lambda: turn.notice("late"),
            lambda: turn.ask("late"),
            turn.terminal,
            lambda: turn.tool_call("late").start(),
            lambda: message.append("late"),
            lambda: message.replace("late"),
            message.clear,
            lambda: call.append("late"),
            call.complete,
            lambda: call.fail("late"),
            lambda: terminal.write(b"late"),
            lambda: terminal.exit(0),
        ]
        for late in lates:
            with pytest.raises(TurnOver, match=r"session\.send"):
                await late()
        await turn.session.send(v2.AgentMessageChunk("m", v2.TextContent("in the background")))
        await settled()
        assert client.story() == ["agent_message_chunk"]


# ---- one after the other ---------------------------------------------------------------------


@in_real_time
async def test_prompts_of_version_1_wait_for_the_turn_that_goes_on() -> None:
    stage = Stage()
    agent, _ = agent_with(stage)
    async with in_session(agent, 1) as client:
        for text in ("a", "b", "c"):
            client.prompt(text)
        await stage.until_entered(1)
        await settled()
        assert stage.entered == 1
        stage.go.set()
        await client.wait_for("result end_turn", 3)
        texts = [
            message["params"]["update"]["content"]["text"] if "method" in message else "end"
            for message in client.messages
            if message.get("method") == "session/update" or "stopReason" in message["result"]
        ]
        assert texts == ["a?", "a!", "end", "b?", "b!", "end", "c?", "c!", "end"]


@in_real_time
async def test_prompts_of_version_2_are_answered_when_they_are_inserted() -> None:
    stage = Stage()
    agent, _ = agent_with(stage)
    async with in_session(agent, 2) as client:
        client.prompt("a")
        client.prompt("b")
        await stage.until_entered(1)
        await settled()
        first = ["result", "user_message", "running", "agent_message_chunk"]
        assert client.story() == first
        stage.go.set()
        await client.wait_for("idle end_turn", 2)
        assert client.story() == 2 * [*first, "agent_message_chunk", "idle end_turn"]


@in_real_time
async def test_turns_of_two_sessions_go_on_at_the_same_time() -> None:
    stage = Stage()
    agent, _ = agent_with(stage)
    async with in_session(agent, 1) as client:
        await client.new_session()
        client.prompt("a", "s")
        client.prompt("b", "s2")
        await stage.until_entered(2)
        client.cancel("s")
        await client.wait_for("result cancelled")
        stage.go.set()
        await client.wait_for("result end_turn")


@BOTH
@in_real_time
async def test_too_many_waiting_prompts_are_refused(version: Version) -> None:
    stage = Stage()
    async with prompting(stage, version) as (client, _, _):
        await stage.until_entered(1)
        for _ in range(WAITING):
            client.prompt()
        error = (await client.reply(client.prompt()))["error"]
        assert error["code"] == INVALID_REQUEST
        client.cancel()
        ends = f"error {REQUEST_CANCELLED}" if version == 2 else "result cancelled"
        await client.wait_for(ends, WAITING)


# ---- cancelling ------------------------------------------------------------------------------


@BOTH
@in_real_time
async def test_a_cancel_stops_the_handler_and_its_last_updates_are_sent(version: Version) -> None:
    waiting = asyncio.Event()
    seen: list[bool] = []

    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Work") as call:
            try:
                waiting.set()
                await asyncio.Event().wait()
            finally:
                seen.append(turn.cancelled)
                await call.append("half done")
                await turn.say("Stopped.")

    async with prompting(answer, version) as (client, prompt, problems):
        await waiting.wait()
        client.mark()
        client.cancel()
        client.cancel()
        await client.wait_for(client.end_of(prompt, "cancelled"))
        await settled()
        assert (
            client.story()
            == {
                1: [
                    "agent_message_chunk",
                    "tool_call_update",  # content is gathered until the call ends
                    "tool_call_update failed",  # its word for it
                    "result cancelled",
                ],
                2: [
                    "tool_call_content_chunk",
                    "agent_message_chunk",
                    "tool_call_update cancelled",
                    "idle cancelled",
                ],
            }[version]
        )
    assert seen == [True]
    assert [problem.kind for problem in problems if problem.kind != "loss"] == []


@BOTH
@in_real_time
async def test_an_error_after_a_cancel_is_a_cancel(version: Version) -> None:
    waiting = asyncio.Event()

    async def answer(turn: twofold.Turn) -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("the model's library was interrupted") from None

    async with prompting(answer, version) as (client, prompt, problems):
        await waiting.wait()
        client.cancel()
        await client.wait_for(client.end_of(prompt, "cancelled"))
    assert problems == []


@BOTH
@in_real_time
async def test_a_cancel_stops_the_prompts_that_wait_and_not_those_that_follow(
    version: Version,
) -> None:
    stage = Stage()
    agent, _ = agent_with(stage)
    async with in_session(agent, version) as client:
        for text in ("a", "b", "c"):
            client.prompt(text)
        await stage.until_entered(1)
        client.cancel()
        last = client.prompt("d")
        await stage.until_entered(2)
        stage.go.set()
        await client.wait_for(client.end_of(last))
        assert [turn.text for turn in stage.turns] == ["a", "d"]
        held = f"error {REQUEST_CANCELLED}"
        ends = [each for each in client.story() if "cancelled" in each or each == held]
        cancelled = {1: 3 * ["result cancelled"], 2: ["idle cancelled", held, held]}
        assert ends == cancelled[version]


@BOTH
@in_real_time
async def test_a_cancel_right_behind_its_prompt_stops_it(version: Version) -> None:
    stage = Stage()
    agent, _ = agent_with(stage)
    async with in_session(agent, version) as client:
        with client.at_once():
            prompt = client.prompt("a")
            client.cancel()
        await client.wait_for(client.end_of(prompt, "cancelled"))
        framed = ["result", "user_message", "running", "idle cancelled"]
        assert client.story() == (framed if version == 2 else ["result cancelled"])
        with client.at_once():
            client.cancel()
            prompt = client.prompt("b")
        await stage.until_entered(1)
        stage.go.set()
        await client.wait_for(client.end_of(prompt))
        assert [turn.text for turn in stage.turns] == ["b"]


def ends_in(client: RawClient) -> list[str]:
    return [each for each in client.story() if each.startswith(("idle", "result "))]


@BOTH
@in_real_time
async def test_a_cancel_at_any_moment_ends_the_turn_once(version: Version) -> None:
    async def talk(moment: int) -> None:
        async def answer(turn: twofold.Turn) -> None:
            async with turn.tool_call("Work"):
                for _ in range(4):
                    await asyncio.sleep(0)
                    await turn.say("x")

        agent, problems = agent_with(answer)
        async with in_session(agent, version) as client:
            prompt = client.prompt()
            await settled(moment)
            client.cancel()
            await client.until(lambda: ends_in(client))
            await client.reply(prompt)
            await settled(30)
            assert len(ends_in(client)) == 1, (moment, client.story())
            assert client.story()[-1] == ends_in(client)[0]
            client.mark()  # the next one is not cancelled
            await client.wait_for(client.end_of(client.prompt()))
            state = agent.open_sessions["s"].state
            assert {call.status for call in state.tool_calls.values()} <= {
                *("completed", "cancelled")
            }
        assert [problem for problem in problems if problem.kind != "loss"] == []

    for moment in range(20):
        await talk(moment)


@BOTH
@in_real_time
async def test_a_handler_that_ignores_a_cancel_is_abandoned_and_sends_no_more(
    version: Version,
) -> None:
    stage = Stage(stubborn=True)
    agent, problems = agent_with(stage, cancel_timeout=0.05)
    async with in_session(agent, version) as client:
        prompt = client.prompt("a")
        await stage.until_entered(1)
        client.cancel()
        await client.wait_for(client.end_of(prompt, "cancelled"))
        assert stage.stopped.is_set()
        assert [problem.kind for problem in problems] == ["stuck"]
        next_one = client.prompt("b")
        await stage.until_entered(2)
        client.mark()
        # now the first handler comes back to life, in the middle of the second turn
        stage.go.set()
        await client.wait_for(client.end_of(next_one))
        await settled()
        assert [each for each in client.story() if each == "agent_message_chunk"] == [
            "agent_message_chunk"
        ]
        assert client.updates()[-1 if version == 1 else -2]["content"]["text"] == "b!"
        first = stage.turns[0]
        assert (first.cancelled, first.over) == (True, True)


@BOTH
@in_real_time
async def test_a_handler_that_swallowed_a_cancel_is_stopped_by_the_next(version: Version) -> None:
    swallowed = asyncio.Event()

    async def answer(turn: twofold.Turn) -> None:
        await turn.say("x")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await asyncio.Event().wait()

    async with prompting(answer, version) as (client, prompt, problems):
        await client.wait_for("agent_message_chunk")
        client.cancel()
        await swallowed.wait()
        client.cancel()
        await client.wait_for(client.end_of(prompt, "cancelled"))
    assert problems == []


@BOTH
@in_real_time
async def test_a_prompt_can_be_withdrawn(version: Version) -> None:
    stage = Stage()
    agent, _ = agent_with(stage)
    async with in_session(agent, version) as client:
        running = client.prompt("a")
        waiting = client.prompt("b")
        await stage.until_entered(1)
        client.mark()
        client.notify("$/cancel_request", {"requestId": waiting})
        assert (await client.reply(waiting))["error"]["code"] == REQUEST_CANCELLED
        client.notify("$/cancel_request", {"requestId": running})
        if version == 1:  # the prompt is the turn
            assert (await client.reply(running))["error"]["code"] == REQUEST_CANCELLED
            assert stage.stopped.is_set()
        else:  # it was answered: the turn goes on
            stage.go.set()
            await client.wait_for("idle end_turn")
        stage.go.set()
        client.mark()
        await client.wait_for(client.end_of(client.prompt("c")))
        assert [turn.text for turn in stage.turns] == ["a", "c"]


@in_real_time
async def test_a_prompt_of_version_1_that_is_withdrawn_is_answered_when_its_turn_is_over() -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Work"):
            try:
                await asyncio.Event().wait()
            finally:
                await settled()  # cleaning up takes a moment
                await turn.say("Stopped.")

    async with prompting(answer, 1) as (client, prompt, _):
        await client.wait_for("tool_call in_progress")
        client.notify("$/cancel_request", {"requestId": prompt})
        await client.reply(prompt)
        assert client.story() == [
            "tool_call in_progress",
            "agent_message_chunk",
            "tool_call_update failed",
            f"error {REQUEST_CANCELLED}",
        ]


@BOTH
@in_real_time
async def test_a_cancel_of_nothing_changes_nothing(version: Version) -> None:
    stage = Stage()
    stage.go.set()
    agent, problems = agent_with(stage)
    async with in_session(agent, version) as client:
        client.cancel()
        client.cancel("unknown")
        client.notify("session/cancel", {"nonsense": 1})
        await settled()
        assert client.story() == []
        await client.wait_for(client.end_of(client.prompt()))
    assert [problem.kind for problem in problems] == ["noise"]


@BOTH
@pytest.mark.parametrize("stubborn", [False, True])
@in_real_time
async def test_when_the_client_is_gone_everything_ends(version: Version, stubborn: bool) -> None:
    stage = Stage(stubborn=stubborn)
    agent, _ = agent_with(stage, cancel_timeout=0.05)
    closed: list[str] = []

    @agent.on_close_session
    async def close(session: twofold.AgentSession) -> None:
        closed.append(session.session_id)

    async def left_behind() -> None:
        async with in_session(agent, version) as client:
            await client.new_session()
            client.prompt("a")
            client.prompt("b")
            await stage.until_entered(1)
            client.leave()

    if stubborn:
        with pytest.raises(AssertionError, match="left behind"):
            await left_behind()
        stage.go.set()  # it ends by itself, without a problem
        await settled()
    else:
        await left_behind()
    assert sorted(closed) == ["s", "s2"]
    assert agent.open_sessions == {}
    state = agent.store.load("s")
    assert state is not None
    assert (state.state, state.stop_reason) == ("idle", "cancelled")


# ---- tool calls and terminals by themselves --------------------------------------------------


@in_real_time
async def test_a_tool_call_and_a_terminal_can_be_cancelled_by_themselves() -> None:
    killed: list[str] = []
    done = asyncio.Event()

    async def answer(turn: twofold.Turn) -> None:
        stop = asyncio.Event()

        async def kill() -> None:
            killed.append("terminal")
            stop.set()

        async with turn.tool_call("Plain", tool_call_id="plain"):
            pass
        async with turn.tool_call(
            "Build", tool_call_id="c", on_cancel=lambda: killed.append("call")
        ) as call:
            terminal = await call.terminal("make", on_cancel=kill)
            await stop.wait()
            await terminal.exit(signal="SIGTERM")
            await done.wait()
        await turn.say("Next.")

    async with prompting(answer, 2) as (client, _, _):
        await client.wait_for("tool_call_content_chunk")
        able = [
            each
            for each in updates_of_the_work(client)
            if each.get("capabilities") == {"cancel": {}}
        ]
        assert [each.get("toolCallId") for each in able] == ["c", None]
        terminal = able[1]["terminalId"]
        stop_terminal = {"sessionId": "s", "terminalId": terminal}
        assert await client.call("terminal/cancel", stop_terminal) == {}
        await client.until(lambda: updates_of_the_work(client)[-1].get("exitStatus"))
        assert updates_of_the_work(client)[-1]["capabilities"] is None, "nothing is left to stop"
        assert (await client.refused("terminal/cancel", stop_terminal))["code"] == (INVALID_PARAMS)
        stop_call = {"sessionId": "s", "toolCallId": "c"}
        assert await client.call("tool_call/cancel", stop_call) == {}
        assert killed == ["terminal", "call"]
        plain = {"sessionId": "s", "toolCallId": "plain"}
        assert (await client.refused("tool_call/cancel", plain))["code"] == INVALID_PARAMS
        done.set()
        await client.wait_for("idle end_turn")
        assert client.story()[-3:] == [
            "tool_call_update cancelled",
            "agent_message_chunk",
            "idle end_turn",
        ]
        assert updates_of_the_work(client)[-2]["capabilities"] is None
        error = await client.refused("tool_call/cancel", stop_call)
        assert error["code"] == INVALID_PARAMS, "the turn is over"


def updates_of_the_work(client: RawClient) -> list[Json]:
    return [each for each in client.updates() if each["sessionUpdate"] != "state_update"]


# ---- permissions -----------------------------------------------------------------------------

ANSWERS: list[tuple[Json, str | None, bool]] = [
    ({"outcome": {"outcome": "selected", "optionId": "allow"}}, "allow", True),
    ({"outcome": {"outcome": "selected", "optionId": "reject"}}, "reject", False),
    ({"outcome": {"outcome": "cancelled"}}, None, False),
    ({"outcome": {"outcome": "selected", "optionId": "what?"}}, None, False),
    ({"outcome": {"outcome": "postponed"}}, None, False),
]


@pytest.mark.parametrize(("outcome", "chosen", "allowed"), ANSWERS)
@BOTH
@in_real_time
async def test_permission_is_given_only_by_an_option_that_allows(
    version: Version, outcome: Json, chosen: str | None, allowed: bool
) -> None:
    answers: list[twofold.Answer] = []

    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Delete all", tool_call_id="c", kind="delete") as call:
            answers.append(await turn.ask("Delete all?", call))

    async with prompting(answer, version) as (client, prompt, _):
        request = await client.request()
        assert client.story()[-1] == "session/request_permission"
        client.mark()
        client.answer(request, outcome)
        await client.wait_for(client.end_of(prompt))
        around = ["tool_call_update completed", client.end_of(prompt)]
        assert client.story() == (around if version == 1 else ["running", *around])
    (given,) = answers
    assert (given.option and given.option.option_id, bool(given)) == (chosen, allowed)


@in_real_time
async def test_version_2_requires_action_around_a_permission() -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("One") as one, turn.tool_call("Two") as two:
            await asyncio.gather(turn.ask("One?", one), turn.ask("Two?", two))
        await turn.say("Done.")

    async with prompting(answer, 2) as (client, _, _):
        first, second = await client.request(), await client.request()
        allow = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        client.answer(second, allow)
        client.answer(first, allow)
        await client.wait_for("idle end_turn")
        assert client.story()[3:] == [
            *2 * ["tool_call_update in_progress"],
            "requires_action",
            *2 * ["session/request_permission"],
            "running",
            *2 * ["tool_call_update completed"],
            "agent_message_chunk",
            "idle end_turn",
        ]


@pytest.mark.parametrize(("given", "sent"), [(None, "/work"), ("src", "/work/src"), ("/a", "/a")])
def test_the_directory_of_a_command_is_absolute(given: str | None, sent: str) -> None:
    async def main() -> None:
        async def answer(turn: twofold.Turn) -> None:
            assert not await turn.ask("Run it?", command="make", cwd=given)

        agent, _ = agent_with(answer)
        async with talking(agent, 2) as client:
            await client.new_session("/work")
            prompt = client.prompt()
            request = await client.request()
            assert request["params"]["subject"]["cwd"] == sent
            client.answer(request, {"outcome": {"outcome": "cancelled"}})
            await client.wait_for(client.end_of(prompt))

    run(main())


@BOTH
@in_real_time
async def test_a_permission_request_shows_all_of_the_call(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        call = turn.tool_call(
            "Write a", kind="edit", locations=["/a"], raw_input={"n": 1}, tool_call_id="c"
        )
        assert not await turn.ask("Write a?", call)
        async with call:
            await call.diff("/a", "old\n", "new\n")
            assert not await turn.ask("Really?", call)
        assert not await turn.ask("Run it?", command="make all", cwd="/src")

    async with prompting(answer, version) as (client, prompt, _):
        requests = []
        for _ in range(3):
            request = await client.request()
            requests.append(request["params"])
            client.answer(request, {"outcome": {"outcome": "cancelled"}})
        await client.wait_for(client.end_of(prompt))
    announced, running, command = requests
    if version == 2:
        assert (announced["title"], command["title"]) == ("Write a?", "Run it?")
        announced, running = (each["subject"]["toolCall"] for each in (announced, running))
        assert command["subject"] == {"type": "command", "command": "make all", "cwd": "/src"}
        assert running["content"][0]["patch"]["text"].endswith("-old\n+new\n")
    else:
        announced, running = announced["toolCall"], running["toolCall"]
        assert command["toolCall"]["rawInput"] == {"command": "make all", "cwd": "/src"}
        assert (running["content"][0]["oldText"], running["content"][0]["newText"]) == (
            *("old\n", "new\n"),
        )
    assert announced["status"] == "pending"
    for shown in (announced, running):
        assert (shown["title"], shown["kind"]) == ("Write a", "edit")
        assert shown["locations"] == [{"path": "/a"}]
        assert shown["rawInput"] == {"n": 1}


@BOTH
@in_real_time
async def test_a_cancel_withdraws_the_question(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Delete all") as call:
            await turn.ask("Delete all?", call)
            await turn.say("not reached")

    async with prompting(answer, version) as (client, prompt, _):
        request = await client.request()
        client.mark()
        client.cancel()
        client.answer(request, {"outcome": {"outcome": "cancelled"}})
        await client.wait_for(client.end_of(prompt, "cancelled"))
        await settled()
        ended = {1: "tool_call_update failed", 2: "tool_call_update cancelled"}[version]
        assert [each for each in client.story() if each != "$/cancel_request"] == [
            ended,
            client.end_of(prompt, "cancelled"),
        ]


@BOTH
@in_real_time
async def test_a_client_that_cannot_ask_has_not_allowed_anything(version: Version) -> None:
    answers: list[twofold.Answer] = []

    async def answer(turn: twofold.Turn) -> None:
        answers.append(await turn.ask("May I?"))
        answers.append(await turn.ask("May I?"))

    async with prompting(answer, version) as (client, prompt, problems):
        request = await client.request()
        client.send({"id": request["id"], "error": {"code": -32601, "message": "What?"}})
        client.answer(await client.request(), {"nonsense": 1})
        await client.wait_for(client.end_of(prompt))
    assert [bool(each) for each in answers] == [False, False]
    assert [each.kind for each in problems if each.kind != "loss"] == ["answer", "answer"]


@in_real_time
async def test_options_that_version_1_lacks_are_not_offered() -> None:
    some = [
        v2.PermissionOption("y", "Yes", "allow_once"),
        v2.PermissionOption("m", "Maybe", "_maybe"),
    ]
    answers: list[bool] = []

    async def answer(turn: twofold.Turn) -> None:
        answers.append(bool(await turn.ask("May I?", options=some)))
        answers.append(bool(await turn.ask("May I?", options=some[1:])))
        with pytest.raises(twofold.LocalError, match="an option"):
            await turn.ask("May I?", options=[])

    async with prompting(answer, 1) as (client, _, problems):
        request = await client.request()
        assert [each["optionId"] for each in request["params"]["options"]] == ["y"]
        client.answer(request, {"outcome": {"outcome": "selected", "optionId": "y"}})
        await client.wait_for("result end_turn")
    assert answers == [True, False]
    assert {problem.kind for problem in problems} == {"loss"}


# ---- what cannot be written ------------------------------------------------------------------


@BOTH
@in_real_time
async def test_an_update_that_cannot_be_encoded_does_not_change_the_state(version: Version) -> None:
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Work", tool_call_id="c") as call:
            with pytest.raises(TypeError):
                await call.update(raw_output=object())
            assert turn.session.state.tool_calls["c"].raw_output is None
            await call.update(raw_output={"fine": [1, 2]})

    agent, _ = agent_with(answer)
    async with in_session(agent, version) as client:
        await client.wait_for(client.end_of(client.prompt()))
        assert agent.open_sessions["s"].state.tool_calls["c"].raw_output == {"fine": [1, 2]}
        json.loads(bytes(client.lines).splitlines()[-1])
