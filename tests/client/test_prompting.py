"""Turns of a client: from the prompt to its one end, whatever the agent sends in between."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import twofold
from tests.support.idle_clock import simulated, until, within
from tests.support.raw_agent import (
    CANCELLED,
    IDLE,
    RUNNING,
    Answer,
    Json,
    Problems,
    RawAgent,
    begin,
    call,
    chunk,
    echo,
    finish,
    in_session,
    talk,
)
from twofold import ClientSession, Reply
from twofold.client.prompting import LONGEST_QUIET, QUIET_LOADED, QUIET_NEW
from twofold.wire import v2

both = pytest.mark.parametrize("version", [1, 2])
DONE = {"stopReason": "end_turn"}
STOPPED = {"stopReason": "cancelled"}
INSERTED = {"messageId": "u1"}
ECHO_CHUNK = chunk("hello", "u1", "user")
SNAPSHOT = {"sessionUpdate": "state_update", "state": "idle"}


def now() -> float:
    return asyncio.get_running_loop().time()


def start(session: ClientSession, text: str = "hello") -> "asyncio.Task[Reply]":
    return asyncio.create_task(session.prompt(text))


@asynccontextmanager
async def in_turn(
    version: int, answers: Mapping[str, Answer] | None = None, /, **options: Any
) -> AsyncIterator[tuple[ClientSession, RawAgent, "asyncio.Task[Reply]", Json]]:
    """A session whose agent works on a prompt: its agent, the turn, and the request."""
    async with in_session(version, answers, **options) as (session, agent):
        turn = start(session)
        yield session, agent, turn, await begin(version, agent)


@simulated
async def test_the_caller_is_given_the_message_that_a_prompt_became_while_its_turn_goes_on() -> (
    None
):
    async with in_session(2) as (session, agent):
        named: list[str] = []
        turn = asyncio.create_task(session.prompt("hello", on_accepted=named.append))
        prompt = await begin(2, agent)
        await until(lambda: named)
        assert (named, turn.done()) == (["u1"], False)
        finish(2, agent, prompt)
        await turn
        assert named == ["u1"]


# ---- how a turn goes -------------------------------------------------------------------------

ORDERS: dict[str, list[Json]] = {
    "the protocol's": ["result", echo("hello"), RUNNING, chunk("one "), chunk("two"), IDLE],
    "claude's": [echo("hello"), "result", RUNNING, chunk("one "), chunk("two"), IDLE],
    "codex's": [RUNNING, ECHO_CHUNK, "result", chunk("one "), chunk("two"), IDLE],
    "the result last": [RUNNING, echo("hello"), chunk("one "), chunk("two"), IDLE, "result"],
    "the result last, without an echo": [RUNNING, chunk("one "), chunk("two"), IDLE, "result"],
    "an idle of before": [IDLE, "result", RUNNING, chunk("one "), chunk("two"), IDLE],
    "an idle between result and running": [
        *("result", SNAPSHOT, IDLE, RUNNING),
        *(chunk("one "), chunk("two"), IDLE),
    ],
    "it waits for someone": [
        *("result", RUNNING, chunk("one ")),
        {"sessionUpdate": "state_update", "state": "requires_action"},
        *(RUNNING, chunk("two"), IDLE),
    ],
    "it begins by waiting for someone": [
        "result",
        {"sessionUpdate": "state_update", "state": "requires_action"},
        *(chunk("one "), chunk("two"), IDLE),
    ],
    "an unknown state": [
        *("result", {"sessionUpdate": "state_update", "state": "_dreaming"}),
        *(chunk("one "), chunk("two"), IDLE),
    ],
    "June: accepted": ["accepted", echo("hello"), RUNNING, chunk("one "), chunk("two"), IDLE],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=list(ORDERS))
@simulated
async def test_a_turn_of_version_2_is_read_whatever_its_order(order: list[Json]) -> None:
    async with in_session(2) as (session, agent):
        turn = start(session)
        prompt = await agent.receive("session/prompt")
        begun = now()
        for each in order:
            assert not turn.done(), each
            if each in ("result", "accepted"):
                agent.answer(prompt, INSERTED if each == "result" else {})
            else:
                agent.update(each)
            await asyncio.sleep(0.1)
        reply = await turn
        assert (reply.text, reply.stop_reason) == ("one two", "end_turn")
        assert now() - begun == pytest.approx(0.1 * len(order))
        assert session.state.state == "idle"


@simulated
async def test_a_turn_of_version_1_ends_with_its_answer() -> None:
    async with in_session(1) as (session, agent):
        turn = start(session)
        prompt = await agent.receive("session/prompt")
        content = [{"type": "text", "text": "hello"}]
        assert prompt["params"] == {"sessionId": "s", "prompt": content}
        await until(lambda: session.state.state == "running")
        agent.update(chunk("hello", None, "user"), chunk("one ", None), chunk("two", None))
        usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
        agent.answer(prompt, {"stopReason": "max_tokens", "usage": usage})
        reply = await turn
        assert (reply.text, reply.stop_reason) == ("one two", "max_tokens")
        assert reply.usage is not None
        assert reply.usage.total_tokens == 3
        assert [getattr(entry, "role", "") for entry in reply.entries] == ["user", "agent"]
        assert (session.state.state, session.state.stop_reason) == ("idle", "max_tokens")


@both
@simulated
async def test_two_messages_of_a_reply_do_not_run_together(version: int) -> None:
    async with in_turn(version) as (_, agent, turn, prompt):
        agent.update(chunk("Let me look.", "m1"))
        agent.update({**call("t", "completed"), "title": "Look"})
        agent.update(chunk("Found it.", "m2"))
        finish(version, agent, prompt)
        assert (await turn).text == "Let me look.\n\nFound it."


@both
@simulated
async def test_a_reply_holds_what_the_turn_brought_and_nothing_from_before(version: int) -> None:
    async with in_session(version) as (session, agent):
        for number in (1, 2):
            turn = start(session, f"prompt {number}")
            prompt = await begin(version, agent)
            agent.update(chunk(f"answer {number}", f"m{number}"))
            finish(version, agent, prompt)
            assert (await turn).text == f"answer {number}"
        assert len(session.state.entries) == (4 if version == 1 else 2)


@both
@simulated
async def test_a_prompt_returns_when_everything_before_its_end_was_handled(version: int) -> None:
    async with in_session(version) as (session, agent):
        received: list[str] = []

        @session.on_update
        async def slowly(update: v2.SessionUpdate) -> None:
            await asyncio.sleep(1)
            if isinstance(update, v2.AgentMessageChunk):
                received.append(update.content.text)  # type: ignore[union-attr]

        turn = start(session)
        prompt = await begin(version, agent)
        agent.update(*(chunk(word) for word in "abc"))
        finish(version, agent, prompt)
        await turn
        assert received == ["a", "b", "c"]


@both
@simulated
async def test_updates_after_the_end_of_a_turn_are_applied(version: int) -> None:
    async with in_turn(version) as (_, agent, turn, prompt):
        agent.update(chunk("one "))
        finish(version, agent, prompt)
        agent.update(chunk("late"))
        reply = await turn
        assert reply.stop_reason == "end_turn"
        await until(lambda: reply.text == "one late")


# ---- idle without running --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "seconds"),
    [
        (["result", chunk("one"), IDLE], 1),
        (["result", echo("hello"), chunk("one"), IDLE], 1),
        ([chunk("one"), IDLE, "result"], 1),
        (["result", IDLE], 10),
        ([echo("hello"), "result", SNAPSHOT], 10),
    ],
)
@simulated
async def test_an_agent_that_goes_idle_without_running_has_ended_its_turn_if_nothing_follows(
    order: list[Json], seconds: float
) -> None:
    async with in_session(2) as (session, agent):
        turn = start(session)
        prompt = await agent.receive("session/prompt")
        for each in order:
            agent.answer(prompt, INSERTED) if each == "result" else agent.update(each)
        begun = now()
        assert (await turn).stop_reason == "end_turn"
        assert now() - begun == pytest.approx(seconds)


@simulated
async def test_a_repeated_idle_is_not_the_end_of_a_turn() -> None:
    async with in_session(2) as (session, agent):
        agent.update(IDLE)
        turn = start(session)
        prompt = await agent.receive("session/prompt")
        agent.update(IDLE, IDLE)
        agent.answer(prompt, INSERTED)
        agent.update(IDLE)
        await asyncio.sleep(5)  # a model that is slow to begin
        agent.update(RUNNING)
        await asyncio.sleep(60)
        assert not turn.done()
        agent.update(chunk("one"), IDLE, IDLE)
        assert (await turn).text == "one"
        agent.update(IDLE, IDLE)
        await asyncio.sleep(60)
        assert session.state.state == "idle"


@simulated
async def test_an_idle_of_before_the_prompt_is_never_its_end() -> None:
    async with in_session(2) as (session, agent):
        agent.update(IDLE)
        await until(lambda: session.state.stop_reason)
        turn = start(session)
        agent.answer(await agent.receive("session/prompt"), INSERTED)
        await asyncio.sleep(3600)
        assert not turn.done()
        agent.update(RUNNING, IDLE)
        await within(1, turn)


@simulated
async def test_a_prompt_into_running_work_ends_with_that_work() -> None:
    async with in_session(2) as (session, agent):
        agent.update(RUNNING)
        await until(lambda: session.state.state == "running")
        turn = start(session)
        agent.answer(await agent.receive("session/prompt"), INSERTED)
        agent.update(echo("hello"), chunk("one"))
        await asyncio.sleep(60)
        assert not turn.done()
        agent.update(IDLE)
        assert (await turn).text == "one"


@simulated
async def test_a_prompt_into_running_work_waits_for_a_slow_handler_of_its_end() -> None:
    async with in_session(2, handler_timeout=1000) as (session, agent):
        handled: list[str] = []

        @session.on_update
        async def slowly(update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.StateUpdate):
                await asyncio.sleep(100)
                handled.append(update.state)

        agent.update(RUNNING)
        await asyncio.sleep(101)
        turn = start(session)
        agent.answer(await agent.receive("session/prompt"), INSERTED)
        agent.update(chunk("one"), IDLE)
        await turn
        assert handled == ["running", "idle"]


@simulated
async def test_an_agent_that_claims_2_and_answers_with_a_stop_reason_has_ended_its_turn() -> None:
    problems = Problems()
    async with in_session(2, problems=problems) as (session, agent):
        turn = start(session)
        prompt = await agent.receive("session/prompt")
        agent.update(chunk("one", None))
        agent.answer(prompt, {"stopReason": "refusal"})
        reply = await within(1, turn)
        assert (reply.text, reply.stop_reason) == ("one", "refusal")
        assert (session.state.state, session.state.stop_reason) == ("idle", "refusal")
    assert {problem.kind for problem in problems} == {"version"}


# ---- several prompts -------------------------------------------------------------------------


@simulated
async def test_prompts_in_version_1_wait_for_their_turn() -> None:
    async with in_session(1) as (session, agent):
        turns = [start(session, f"prompt {number}") for number in range(3)]
        for number in range(3):
            prompt = await agent.receive("session/prompt")
            await asyncio.sleep(1)
            assert agent.methods().count("session/prompt") == number + 1
            assert prompt["params"]["prompt"][0]["text"] == f"prompt {number}"
            agent.update(chunk(f"answer {number}", None))
            agent.answer(prompt, DONE)
            assert (await turns[number]).text == f"answer {number}"


@simulated
async def test_prompts_in_version_2_are_sent_at_once() -> None:
    async with in_session(2) as (session, agent):
        first, second = start(session, "one"), start(session, "two")
        one = await agent.receive("session/prompt")
        two = await agent.receive("session/prompt")
        agent.answer(one, {"messageId": "u1"})
        agent.update(echo("one", "u1"), RUNNING, chunk("first"), IDLE)
        assert (await first).text == "first"
        assert not second.done()
        agent.answer(two, {"messageId": "u2"})  # it was held until then
        agent.update(echo("two", "u2"))
        await asyncio.sleep(5)
        assert not second.done()
        agent.update(RUNNING, chunk("second", "m2"))
        await asyncio.sleep(60)
        assert not second.done()
        agent.update(IDLE)
        assert (await second).text == "second"


@simulated
async def test_prompts_that_are_held_are_answered_one_by_one() -> None:
    async with in_session(2) as (session, agent):
        turns = [start(session, f"prompt {number}") for number in range(4)]
        prompts = [await agent.receive("session/prompt") for _ in turns]
        for number, prompt in enumerate(prompts):
            agent.answer(prompt, {"messageId": f"u{number}"})
            agent.update(echo(f"prompt {number}", f"u{number}"), RUNNING)
            agent.update(chunk(f"answer {number}", f"m{number}"), IDLE)
        replies = await asyncio.gather(*turns)
        assert [reply.text for reply in replies] == [f"answer {number}" for number in range(4)]
        assert {len(reply.entries) for reply in replies} == {2}


@simulated
async def test_two_prompts_that_are_the_same_are_two() -> None:
    async with in_session(2) as (session, agent):
        first, second = start(session, "go on"), start(session, "go on")
        one = await agent.receive("session/prompt")
        two = await agent.receive("session/prompt")
        agent.update(chunk("go ", "u1", "user"), chunk("on", "u1", "user"), RUNNING, chunk("first"))
        agent.answer(one, {"messageId": "u1"})
        agent.update(IDLE)
        assert (await first).text == "first"
        await asyncio.sleep(60)
        assert not second.done()
        agent.update(RUNNING, echo("go on", "u2"), chunk("second", "m2"), IDLE)
        agent.answer(two, {"messageId": "u2"})
        assert (await within(0.1, second)).text == "second"


@pytest.mark.parametrize("echoes", [True, False])
@simulated
async def test_two_prompts_that_the_agent_answers_in_one_go_end_together(echoes: bool) -> None:
    async with in_session(2) as (session, agent):
        first, second = start(session, "one"), start(session, "two")
        one = await agent.receive("session/prompt")
        two = await agent.receive("session/prompt")
        agent.update(RUNNING)
        if echoes:
            agent.update(echo("one", "u1"), echo("two", "u2"))
        agent.update(chunk("both"), IDLE)
        agent.answer(one, {"messageId": "u1"})
        agent.answer(two, {"messageId": "u2"})
        assert (await within(0.1, first)).text == "both"
        # without an echo it may have been held: work might still begin
        assert (await within(0.1 if echoes else 11, second)).stop_reason == "end_turn"


@simulated
async def test_a_prompt_that_is_refused_does_not_end_the_work_of_another() -> None:
    async with in_session(2) as (session, agent):
        first = start(session, "one")
        await begin(2, agent)
        await until(lambda: session.state.state == "running")
        second = start(session, "two")
        agent.refuse(await agent.receive("session/prompt"), -32600, "one at a time")
        with pytest.raises(twofold.RequestFailed, match="one at a time"):
            await second
        assert session.state.state == "running"
        agent.update(chunk("done"), IDLE)
        assert (await first).text == "done"


# ---- errors ----------------------------------------------------------------------------------


@both
@simulated
async def test_an_error_of_the_agent_ends_the_turn_with_one_kind_of_error(version: int) -> None:
    async with in_session(version) as (session, agent):
        turn = start(session)
        if version == 1:
            prompt = await agent.receive("session/prompt")
            agent.refuse(prompt, -32603, "boom", details="no model")
        else:
            await begin(2, agent)
            error = {"code": -32603, "message": "boom", "data": {"details": "no model"}}
            agent.update({**IDLE, "stopReason": "error", "error": error})
        with pytest.raises(twofold.TurnFailed) as caught:
            await turn
        assert (caught.value.code, caught.value.message) == (-32603, "boom")
        assert caught.value.error is not None
        assert str(caught.value) == "session/prompt failed: boom (-32603): no model"
        assert (session.state.state, session.state.stop_reason) == ("idle", "error")
        again = start(session)
        finish(version, agent, await begin(version, agent))
        assert (await again).stop_reason == "end_turn"


@simulated
async def test_an_error_state_without_a_reason_is_reported_as_such() -> None:
    async with in_turn(2) as (_, agent, turn, _):
        agent.update({**IDLE, "stopReason": "error"})
        with pytest.raises(twofold.TurnFailed, match="sent no reason why") as caught:
            await turn
        assert caught.value.error is None


@simulated
async def test_a_prompt_that_version_2_refuses_before_it_begins_is_a_failed_request() -> None:
    async with in_session(2) as (session, agent):
        turn = start(session)
        agent.refuse(await agent.receive("session/prompt"), -32000, "log in first")
        with pytest.raises(twofold.RequestFailed) as caught:
            await turn
        assert caught.value.code == -32000
        assert session.state.state == "idle"


@both
@simulated
async def test_an_answer_that_is_none_ends_the_turn(version: int) -> None:
    async with in_session(version) as (session, agent):
        turn = start(session)
        agent.answer(await agent.receive("session/prompt"), "done")
        with pytest.raises(twofold.BadAnswer, match="session/prompt"):
            await turn
        assert session.state.state == "idle"


@both
@simulated
async def test_an_agent_that_dies_in_a_turn_ends_it(version: int) -> None:
    async with in_turn(version) as (session, agent, turn, _):
        agent.update(chunk("one"))
        await agent.gone()
        with pytest.raises(twofold.ConnectionEnded):
            await within(1, turn)
        assert session.closed
        assert session.state.state == "idle"
        with pytest.raises(twofold.ConnectionEnded):
            await session.prompt("more")


@both
@simulated
async def test_an_agent_that_ends_its_turn_and_goes_has_ended_it(version: int) -> None:
    async with in_turn(version) as (_, agent, turn, prompt):
        agent.update(chunk("one"))
        finish(version, agent, prompt)
        await agent.gone()
        assert (await within(1, turn)).text == "one"


@both
@simulated
async def test_an_agent_that_goes_while_the_end_of_its_turn_is_handled_has_ended_it(
    version: int,
) -> None:
    async with in_session(version) as (session, agent):

        @session.on_update
        async def slowly(update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.StateUpdate):
                await asyncio.sleep(5)

        turn = start(session)
        prompt = await begin(version, agent)
        finish(version, agent, prompt)
        await agent.gone()
        assert (await within(15, turn)).stop_reason == "end_turn"


@both
@simulated
async def test_a_session_that_is_deleted_while_the_end_of_its_turn_is_handled_has_ended_it(
    version: int,
) -> None:
    async with talk(version, {"session/delete": {}}) as (client, agent):
        session = await client.new_session("/work")
        handling = asyncio.Event()

        @session.on_update
        async def slowly(update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.StateUpdate) and update.state == "idle":
                handling.set()
                await asyncio.sleep(5)

        turn = start(session)
        prompt = await begin(version, agent)
        finish(version, agent, prompt)
        await handling.wait()
        await client.delete_session("s")
        assert (await within(15, turn)).stop_reason == "end_turn"


@both
@simulated
async def test_a_client_that_is_closed_ends_its_turns(version: int) -> None:
    async with in_session(version) as (session, agent):
        turn, waiting = start(session), start(session)
        await begin(version, agent)
    for each in (turn, waiting):
        with pytest.raises(twofold.TwofoldError):
            await within(1, each)


@both
@simulated
async def test_a_block_that_cannot_be_written_is_an_error_and_not_a_hang(version: int) -> None:
    async with in_session(version) as (session, _):
        block = v2.TextContent(text=object())  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await within(1, session.prompt(block))


# ---- cancelling ------------------------------------------------------------------------------


@both
@simulated
async def test_a_cancel_waits_for_the_end_and_shows_what_runs_as_cancelled(version: int) -> None:
    async with in_turn(version) as (session, agent, turn, prompt):
        for name, status in (("a", "in_progress"), ("b", "pending"), ("c", "completed")):
            agent.update({**call(name, status), "title": name})
        calls = session.state.tool_calls
        await until(lambda: len(session.state.tool_calls) == 3)
        cancelling = asyncio.create_task(session.cancel())
        cancel = await agent.receive("session/cancel")
        assert cancel["params"] == {"sessionId": "s"}
        assert session.state.cancelling
        assert [calls[name].status for name in "abc"] == ["cancelled", "cancelled", "completed"]
        agent.update(chunk("still talking"), call("a", "in_progress"))
        await until(lambda: session.state.tool_calls["a"].status == "in_progress")
        assert session.state.cancelling
        assert not cancelling.done()
        finish(version, agent, prompt, "cancelled")
        await cancelling
        reply = await turn
        assert (reply.stop_reason, reply.text, reply.given_up) == (
            *("cancelled", "still talking"),
            False,
        )
        assert calls["a"].status == "cancelled"
        assert not session.state.cancelling


@both
@simulated
async def test_a_turn_that_does_not_end_when_it_is_cancelled_is_given_up(version: int) -> None:
    problems = Problems()
    async with in_turn(version, problems=problems) as (session, agent, turn, prompt):
        agent.update({**call("t"), "title": "Work"})
        begun = now()
        await session.cancel()
        assert now() - begun == pytest.approx(30)
        reply = await within(0.1, turn)
        assert (reply.stop_reason, reply.given_up) == ("cancelled", True)
        assert (session.state.state, session.state.cancelling) == ("idle", False)
        assert session.state.tool_calls["t"].status == "cancelled"
        again = start(session, "again")
        second = await begin(version, agent)
        finish(version, agent, prompt, "cancelled") if version == 1 else None  # too late
        agent.update(chunk("fine"))
        finish(version, agent, second)
        assert (await again).text == "fine"
    assert problems.of("stuck") == [
        "The agent did not end the cancelled turn in time; it was given up"
    ]


@both
@simulated
async def test_a_second_cancel_may_be_less_patient(version: int) -> None:
    async with in_turn(version, problems=Problems()) as (session, agent, turn, _):
        patient = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        await asyncio.sleep(2)
        begun = now()
        await session.cancel(give_up=3)
        assert now() - begun == pytest.approx(3)
        await session.cancel(give_up=100)
        await patient
        assert (await turn).given_up


@both
@simulated
async def test_a_turn_is_given_up_in_time_even_if_a_handler_is_stuck(version: int) -> None:
    async with in_session(version, problems=Problems(), handler_timeout=1000) as (session, agent):

        @session.on_update
        async def stuck(update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.AgentMessageChunk):
                await asyncio.Event().wait()

        turn = start(session)
        await begin(version, agent)
        agent.update(chunk("one"))
        await until(lambda: session._opened.inbox.busy)
        await within(6, session.cancel(give_up=5))
        assert (await within(3, turn)).given_up


@both
@simulated
async def test_a_prompt_that_is_given_up_before_it_begins_leaves_no_turn_open(version: int) -> None:
    async with in_session(version, problems=Problems(), handler_timeout=1000) as (session, agent):
        released = asyncio.Event()

        @session.on_update
        async def stuck(update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.AgentMessageChunk):
                await released.wait()

        agent.update(chunk("one"))
        await until(lambda: session._opened.inbox.busy)
        turn = start(session)
        await agent.receive("session/prompt")
        await within(6, session.cancel(give_up=5))
        assert (await within(3, turn)).given_up
        released.set()
        await until(lambda: not session._opened.inbox.busy)
        assert not session.in_turn


@both
@simulated
async def test_an_error_after_a_cancel_is_the_cancel(version: int) -> None:
    async with in_session(version) as (session, agent):
        turn = start(session)
        prompt = await agent.receive("session/prompt")
        cancelling = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        agent.refuse(prompt, -32603, "aborted")
        await cancelling
        assert (await turn).stop_reason == "cancelled"
        assert not session.state.cancelling
        assert session.state.state == "idle"


@simulated
async def test_a_prompt_that_was_cancelled_before_it_was_inserted_is_cancelled() -> None:
    async with in_session(2) as (session, agent):
        first, second = start(session, "one"), start(session, "two")
        await begin(2, agent)
        held = await agent.receive("session/prompt")
        cancelling = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        agent.refuse(held, -32800, "Request cancelled")
        agent.update(CANCELLED)
        await cancelling
        assert [reply.stop_reason for reply in await asyncio.gather(first, second)] == [
            "cancelled",
            "cancelled",
        ]


@simulated
async def test_a_cancel_drops_the_prompts_that_wait_for_their_turn() -> None:
    async with in_session(1) as (session, agent):
        first, second = start(session, "one"), start(session, "two")
        prompt = await agent.receive("session/prompt")
        cancelling = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        agent.answer(prompt, STOPPED)
        await cancelling
        replies = await asyncio.gather(first, second)
        assert [reply.stop_reason for reply in replies] == ["cancelled", "cancelled"]
        assert replies[1].entries == []
        assert agent.methods().count("session/prompt") == 1


@both
@simulated
async def test_a_cancel_never_overtakes_the_prompt(version: int) -> None:
    for ticks in range(6):
        async with in_session(version) as (session, agent):
            turn = start(session)
            for _ in range(ticks):
                await asyncio.sleep(0)
            cancelling = asyncio.create_task(session.cancel())
            await asyncio.sleep(0.1)
            methods = agent.methods()
            if "session/prompt" in methods and "session/cancel" in methods:
                assert methods.index("session/prompt") < methods.index("session/cancel")
                prompt = await begin(version, agent)
                finish(version, agent, prompt, "cancelled")
            elif "session/prompt" in methods:  # the cancel came before there was a turn
                finish(version, agent, await begin(version, agent), "cancelled")
            else:
                assert "session/cancel" not in methods
            await within(1, cancelling)
            assert (await within(1, turn)).stop_reason == "cancelled"


@both
@simulated
async def test_there_is_nothing_to_cancel_while_nothing_goes_on(version: int) -> None:
    async with in_session(version) as (session, agent):
        await session.cancel()
        assert "session/cancel" not in agent.methods()
        assert not session.state.cancelling


@simulated
async def test_work_without_a_prompt_can_be_cancelled() -> None:
    async with in_session(2) as (session, agent):
        agent.update(RUNNING, call("t"))
        await until(lambda: session.state.tool_calls)
        await session.cancel()
        await agent.receive("session/cancel")
        assert session.state.tool_calls["t"].status == "cancelled"
        agent.update(CANCELLED)
        await until(lambda: not session.state.cancelling)


# ---- a task that is cancelled ----------------------------------------------------------------


@both
@simulated
async def test_a_task_that_is_cancelled_in_a_prompt_cancels_the_turn(version: int) -> None:
    async with in_turn(version) as (session, agent, turn, prompt):
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await agent.receive("session/cancel")
        assert session.state.cancelling
        finish(version, agent, prompt, "cancelled")
        await until(lambda: session.state.state == "idle")
        again = start(session, "again")
        agent.update(chunk("fine")) if version == 1 else None
        second = await begin(version, agent)
        finish(version, agent, second)
        assert (await again).stop_reason == "end_turn"


@simulated
async def test_a_task_that_is_cancelled_while_its_prompt_waits_hurts_no_other() -> None:
    async with in_session(1) as (session, agent):
        first, second, third = (start(session, text) for text in ("one", "two", "three"))
        prompt = await agent.receive("session/prompt")
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        agent.answer(prompt, DONE)
        assert (await first).stop_reason == "end_turn"
        last = await agent.receive("session/prompt")
        assert last["params"]["prompt"][0]["text"] == "three"
        agent.answer(last, DONE)
        await third
        assert "session/cancel" not in agent.methods()


@both
@simulated
async def test_a_timeout_around_a_prompt_cancels_the_turn(version: int) -> None:
    async with in_session(version) as (session, agent):
        with pytest.raises(TimeoutError):
            await within(5, session.prompt("hello"))
        prompt = await agent.receive("session/prompt")
        await agent.receive("session/cancel")
        agent.answer(prompt, INSERTED | STOPPED if version == 1 else INSERTED)
        agent.update(CANCELLED) if version == 2 else None
        await until(lambda: session.state.state == "idle")


# ---- closing ---------------------------------------------------------------------------------


@both
@simulated
async def test_a_session_that_is_closed_in_a_turn_cancels_it_first(version: int) -> None:
    def close(agent: RawAgent, message: Json) -> None:
        finish(version, agent, prompt, "cancelled")
        agent.answer(message, {})

    async with in_turn(version, {"session/close": close}) as (session, agent, turn, prompt):
        await session.close()
        assert (await turn).stop_reason == "cancelled"
        assert agent.methods()[-2:] == ["session/cancel", "session/close"]


@both
@simulated
async def test_a_turn_that_the_agent_forgets_when_it_closes_ends_with_an_error(
    version: int,
) -> None:
    async with in_turn(version, {"session/close": {}}) as (session, _, turn, _):
        await session.close()
        with pytest.raises(twofold.ConnectionClosed, match="The session was closed"):
            await within(1, turn)
        assert session.state.state == "idle"


# ---- handlers --------------------------------------------------------------------------------


@both
@simulated
async def test_a_handler_that_fails_hurts_neither_the_state_nor_other_handlers(
    version: int,
) -> None:
    problems = Problems()
    async with in_session(version, problems=problems) as (session, agent):
        received: list[str] = []

        @session.on_update
        def fails(update: v2.SessionUpdate) -> None:
            raise ValueError("broken")

        @session.on_update
        async def fails_later(update: v2.SessionUpdate) -> None:
            await asyncio.sleep(0)
            raise ValueError("broken later")

        session.on_update(lambda update: received.append(type(update).__name__))
        turn = start(session)
        prompt = await begin(version, agent)
        agent.update({**call("t"), "title": "Work"}, chunk("one"))
        await until(lambda: "AgentMessageChunk" in received)
        cancelling = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        finish(version, agent, prompt, "cancelled")
        await cancelling
        assert (await turn).stop_reason == "cancelled"
        assert session.state.state == "idle"
        assert session.state.tool_calls["t"].status == "cancelled"
        assert received[-1] == "StateUpdate"
    assert len(problems.of("handler")) == 2 * len(received)
    assert {problem.kind for problem in problems} == {"handler"}


@simulated
async def test_a_handler_that_is_stuck_three_times_in_a_row_is_removed() -> None:
    problems = Problems()
    async with in_session(2, problems=problems, handler_timeout=10) as (session, agent):
        calls: list[str] = []
        fine: list[Any] = []

        async def stuck(update: v2.SessionUpdate) -> None:
            calls.append(type(update).__name__)
            await asyncio.Event().wait()

        session.on_update(fine.append)
        session.on_update(stuck)
        begun = now()
        agent.update(*(chunk(f"{number} ") for number in range(100)))
        await asyncio.sleep(31)
        assert len(calls) == 3
        assert len(fine) == 100
        assert now() - begun == pytest.approx(31)
    assert problems.of("stuck") == [
        *["A handler did not return within 10 seconds and was abandoned"] * 3,
        "A handler did not return 3 times in a row: it is not called any more",
    ]


@both
@simulated
async def test_a_handler_cannot_wait_for_the_turn_that_waits_for_it(version: int) -> None:
    async with in_session(version) as (session, agent):
        errors: list[Exception] = []

        @session.on_update
        async def prompts(update: v2.SessionUpdate) -> None:
            if not isinstance(update, v2.AgentMessageChunk):
                return
            await asyncio.sleep(0)
            try:
                await session.prompt("more")
            except twofold.LocalError as error:
                errors.append(error)
            await session.cancel()

        turn = start(session)
        prompt = await begin(version, agent)
        agent.update(chunk("one"))
        await agent.receive("session/cancel")
        finish(version, agent, prompt, "cancelled")
        assert (await within(1, turn)).stop_reason == "cancelled"
        [error] = errors
        assert "in a task of its own" in str(error)


@both
@simulated
async def test_a_handler_can_ask_the_agent_something(version: int) -> None:
    async with talk(version, {"_acme/ask": 7}) as (client, agent):
        session = await client.new_session("/work")
        answers: list[Any] = []

        @session.on_update
        async def asks(update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.AgentMessageChunk):
                answers.append(await client.request("_acme/ask", {"sessionId": "s"}))

        turn = start(session)
        prompt = await begin(version, agent)
        agent.update(chunk("one"))
        finish(version, agent, prompt)
        await within(1, turn)
        assert answers == [7]


@both
@simulated
async def test_tool_calls_that_were_open_when_the_agent_died_do_not_go_on(version: int) -> None:
    async with talk(version) as (client, agent):
        session = await client.new_session()
        turn = start(session)
        await begin(version, agent)
        tag = "tool_call" if version == 1 else "tool_call_update"
        for name, status in (("a", "completed"), ("b", "in_progress"), ("c", "pending")):
            agent.update({**call(name, status, title=name), "sessionUpdate": tag})
        await until(lambda: len(session.state.tool_calls) == 3)
        await agent.gone()
        with pytest.raises(twofold.ConnectionEnded):
            await turn
        outcomes = [session.state.outcome(each) for each in session.state.tool_calls.values()]
        assert outcomes == ["completed", "left_open", "left_open"]


# ---- what belongs to no turn -----------------------------------------------------------------


def load(agent: RawAgent) -> None:
    """Answer `session/load` at once; whatever else comes of it comes later."""
    agent.answers["session/load"] = {}


async def after(seconds: float, *updates: Json, agent: RawAgent) -> None:
    await asyncio.sleep(seconds)
    agent.update(*updates)


@simulated
async def test_a_replay_that_comes_after_the_answer_to_load_is_no_part_of_the_reply() -> None:
    async with talk(1) as (client, agent):
        load(agent)
        session = await client.load_session("s")
        turn = start(session)
        for number in range(20):  # longer than any silence, and without one
            await asyncio.sleep(0.1)
            agent.update(chunk(f"old {number} ", None))
        assert agent.methods().count("session/prompt") == 0
        prompt = await agent.receive("session/prompt")
        agent.update(chunk("new", None))
        agent.answer(prompt, DONE)
        assert (await turn).text == "new"
        assert now() == pytest.approx(2.0 + QUIET_LOADED)


@simulated
async def test_a_greeting_after_the_answer_to_new_is_no_part_of_the_reply() -> None:
    async with talk(1) as (client, agent):
        session = await client.new_session()
        turn = start(session)
        await after(0.04, chunk("Welcome!", None), agent=agent)
        prompt = await agent.receive("session/prompt")
        agent.update(chunk("new", None))
        agent.answer(prompt, DONE)
        assert (await turn).text == "new"
        greeting = session.state.entries[0]
        assert isinstance(greeting, twofold.Message)
        assert greeting.text == "Welcome!"


@simulated
async def test_only_the_first_prompt_waits_for_silence_and_not_if_there_was_enough() -> None:
    async with talk(1, {"session/prompt": DONE}) as (client, agent):
        session = await client.new_session()
        await session.prompt("one")
        assert now() == QUIET_NEW
        agent.update(chunk("an afterthought", None))
        await session.prompt("two")
        assert now() == QUIET_NEW
        load(agent)
        await client.load_session("s")  # a replay, which may come late
        await session.prompt("three")
        assert now() == QUIET_NEW + QUIET_LOADED
        await client.new_session()
        await asyncio.sleep(60)
        before = now()
        await session.prompt("four")
        assert now() == before


@simulated
async def test_version_2_marks_its_turns_and_waits_for_no_silence() -> None:
    async with talk(2) as (client, agent):
        session = await client.new_session()
        turn = start(session)
        finish(2, agent, await begin(2, agent))
        await turn
        assert now() == 0


@simulated
async def test_an_agent_that_never_falls_silent_gets_the_prompt_all_the_same() -> None:
    async with talk(1) as (client, agent):
        session = await client.new_session()
        turn = start(session)

        async def talk_on() -> None:
            while True:
                await after(QUIET_NEW / 2, chunk("on and ", None), agent=agent)

        talking = asyncio.create_task(talk_on())
        prompt = await agent.receive("session/prompt")
        assert now() == LONGEST_QUIET
        talking.cancel()
        agent.answer(prompt, DONE)
        await turn


@simulated
async def test_what_is_no_part_of_a_reply_delays_no_prompt() -> None:
    async with talk(1, {"session/prompt": DONE}) as (client, agent):
        session = await client.new_session()
        turn = start(session)
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        usage = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
        await after(QUIET_NEW / 2, commands, usage, agent=agent)
        await turn
        assert now() == QUIET_NEW


@simulated
async def test_a_prompt_that_waits_for_silence_can_be_cancelled_and_is_never_sent() -> None:
    async with talk(1) as (client, agent):
        session = await client.new_session()
        turn = start(session)
        await asyncio.sleep(0)
        await session.cancel()
        assert (await turn).stop_reason == "cancelled"
        other = start(session)
        await asyncio.sleep(0)
        other.cancel()
        await asyncio.wait([other])
        await asyncio.sleep(1)
        assert not {"session/prompt", "session/cancel"}.intersection(agent.methods())


@simulated
async def test_a_prompt_that_waits_for_silence_fails_when_the_agent_goes() -> None:
    async with talk(1) as (client, agent):
        session = await client.new_session()
        turn = start(session)
        await asyncio.sleep(0)
        await agent.gone()
        with pytest.raises(twofold.ConnectionEnded):
            await turn
        assert now() <= QUIET_NEW


@both
@simulated
async def test_a_session_is_in_a_turn_from_the_prompt_to_its_end(version: int) -> None:
    async with talk(version) as (client, agent):
        session = await client.new_session()
        seen: list[bool] = []
        session.on_update(lambda update: seen.append(session.in_turn))
        agent.update(chunk("before"))
        await until(lambda: seen == [False])
        turn = start(session)
        prompt = await begin(version, agent)
        agent.update(chunk("inside"))
        finish(version, agent, prompt)
        await turn
        agent.update(chunk("after"))
        await until(lambda: seen[-1] is False)
        assert seen[0] is False
        assert all(seen[1:-1])
