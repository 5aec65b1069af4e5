"""How a prompt lives and ends: the rules that clients, bridges and recordings share."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.turns import (
    CANCELLED,
    STOP_REASONS,
    Echo,
    OpenTurn,
    OpenTurns,
    as_error,
    ended_turn,
    failed_turn,
    premature_stop_reason,
    prompt_answer,
)
from twofold.rpc.errors import INTERNAL_ERROR, REQUEST_CANCELLED
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, ResourceLink, TextContent
from twofold.wire.shared import Error

RUNNING = v2.StateUpdate("running")
IDLE = v2.StateUpdate("idle", "end_turn")
INSERTED = v2.PromptResponse("u")
PROMPT: list[ContentBlock] = [TextContent("hello "), TextContent("world")]


def chunk(text: str, message_id: str = "u") -> v2.UserMessageChunk:
    return v2.UserMessageChunk(message_id, TextContent(text))


def whole(*blocks: ContentBlock, message_id: str = "u", **fields: Any) -> v2.UserMessage:
    return v2.UserMessage(message_id, list(blocks), **fields)


def opened(*, busy: bool = False) -> tuple[OpenTurns[OpenTurn], OpenTurn]:
    """The turns of a session, and one that is open in it."""
    turns = OpenTurns[OpenTurn]()
    if busy:
        turns.report(RUNNING)
    turn = OpenTurn()
    turns.prompted(turn, PROMPT)
    return turns, turn


# ---- echoes ----------------------------------------------------------------------------------


@given(st.text(min_size=1), st.data())
def test_an_echo_may_be_cut_anywhere(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1)))) if len(text) > 1 else []
    places = [0, *cuts, len(text)]
    echo = Echo()
    echo.expect([TextContent(text)])
    for start, end in pairwise(places):
        assert echo
        assert echo.swallows(TextContent(text[start:end]))
    assert not echo


def test_an_echo_ends_with_the_first_block_that_is_none() -> None:
    echo = Echo()
    echo.expect(PROMPT)
    assert echo.swallows(TextContent("hello "))
    assert not echo.swallows(TextContent("moon"))
    assert not echo.swallows(TextContent("world"))


def test_an_empty_text_is_no_echo_of_another() -> None:
    echo = Echo()
    echo.expect(PROMPT)
    assert not echo.swallows(TextContent(""))


# ---- version 1 → version 2 -------------------------------------------------------------------


@given(st.sampled_from(sorted(STOP_REASONS)))
def test_a_stop_reason_goes_to_version_2_and_back_without_a_loss(reason: str) -> None:
    losses = Losses()
    response = v1.PromptResponse(reason, meta={"k": 1})
    assert prompt_answer(ended_turn(response, losses), losses) == response
    assert losses == []


@pytest.mark.parametrize(
    ("code", "cancelling", "cancelled"),
    [(-32000, False, False), (-32000, True, True), (REQUEST_CANCELLED, False, True)],
)
def test_an_error_ends_a_turn_as_failed_or_as_cancelled(
    code: int, cancelling: bool, cancelled: bool
) -> None:
    error = Error(code, "why")
    idle = failed_turn(error, cancelling=cancelling)
    assert idle == (CANCELLED if cancelled else v2.StateUpdate("idle", "error", error))


@pytest.mark.parametrize("sent", [None, "no", {"code": "x"}, {"message": "only"}])
def test_a_malformed_error_is_kept_as_it_was_sent(sent: Any) -> None:
    error = as_error(sent)
    assert error.code == INTERNAL_ERROR
    assert codec.to_json(error)["sent"] == sent


# ---- version 2 → version 1 -------------------------------------------------------------------


@pytest.mark.parametrize("reason", [UNSET, None, "_tired"])
@pytest.mark.parametrize("path", ["", "update"])
def test_a_stop_reason_that_version_1_lacks_is_reported(reason: Any, path: str) -> None:
    losses = Losses()
    assert prompt_answer(v2.StateUpdate("idle", reason), losses, path=path) == v1.PromptResponse(
        "end_turn"
    )
    assert [loss.path for loss in losses] == [f"{path}.stopReason".lstrip(".")]
    with pytest.raises(NotConvertible):
        prompt_answer(v2.StateUpdate("idle", reason), Losses(strict=True))


@pytest.mark.parametrize(
    ("idle", "lost"),
    [
        (v2.StateUpdate("idle"), []),
        (CANCELLED, []),
        (v2.StateUpdate("idle", "error"), ["error"]),
        (v2.StateUpdate("idle", "error", Error(-32000, "why")), ["error"]),
        (v2.StateUpdate("idle", "error", Error(REQUEST_CANCELLED, "why")), []),
    ],
)
def test_a_cancelled_turn_ends_as_cancelled_whatever_the_cancel_broke(
    idle: v2.StateUpdate, lost: list[str]
) -> None:
    losses = Losses(strict=True)  # it is never refused: the client waits for the end of the turn
    assert prompt_answer(idle, losses, cancelled=True) == v1.PromptResponse("cancelled")
    assert [loss.path for loss in losses] == lost


def test_a_turn_that_was_cancelled_too_late_ended_as_it_did() -> None:
    assert prompt_answer(IDLE, Losses(), cancelled=True) == v1.PromptResponse("end_turn")


def test_the_meta_of_an_error_is_reported_as_lost_and_never_hides_the_error() -> None:
    error = Error(-32000, "why")
    losses = Losses(strict=True)
    idle = v2.StateUpdate("idle", "error", error, meta={"k": 1})
    assert prompt_answer(idle, losses) is error
    assert losses == [Loss("_meta", "an error of version 1 has no place for it")]
    unnamed = prompt_answer(v2.StateUpdate("idle", "error"), losses)
    assert isinstance(unnamed, Error)
    assert unnamed.code == INTERNAL_ERROR


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"stopReason": "refusal"}, "refusal"),
        ({"stopReason": 3}, None),
        ({}, None),
        ({"messageId": "u", "stopReason": "end_turn"}, None),
    ],
)
def test_a_version_1_answer_of_an_agent_that_claims_version_2_ends_the_turn(
    result: dict[str, Any], reason: str | None
) -> None:
    read = codec.read(result, v2.PromptResponse)
    assert premature_stop_reason(read) == reason
    _, turn = opened()
    turn.accepted(read)
    assert turn.end == (None if reason is None else v2.StateUpdate("idle", reason))


# ---- open turns ------------------------------------------------------------------------------


def test_a_turn_ends_with_the_idle_after_work() -> None:
    turns, turn = opened()
    turn.accepted(INSERTED)
    assert turns.report(RUNNING) == []
    assert turns.report(IDLE) == [turn]
    assert turn.end is IDLE


def test_a_turn_does_not_end_before_its_prompt_was_inserted() -> None:
    turns, turn = opened()
    turns.report(RUNNING)
    assert turns.report(IDLE) == []
    turn.accepted(None)  # an answer that could not be decoded is no refusal
    assert turn.end is IDLE


def test_an_idle_without_work_ends_a_turn_only_if_nothing_follows() -> None:
    turns, turn = opened()
    before = turns.state
    turn.accepted(INSERTED)
    assert not turn.may_be_over(before)
    assert turns.report(IDLE) == []
    assert turn.may_be_over(IDLE)
    turns.report(RUNNING)
    assert not turn.may_be_over(RUNNING)
    assert turns.report(IDLE) == [turn]


def test_an_idle_without_work_ends_nothing_before_the_prompt_was_inserted() -> None:
    turns, turn = opened()
    turns.report(IDLE)
    assert not turn.may_be_over(IDLE)


def test_the_end_of_other_work_is_not_the_end_of_the_turn() -> None:
    turns, turn = opened(busy=True)
    assert turn.queued
    turns.report(RUNNING)
    assert turns.report(IDLE) == []
    turn.accepted(INSERTED)
    assert turn.end is None
    assert turn.may_be_over(IDLE)
    turns.report(RUNNING)
    assert turns.report(IDLE) == [turn]


def test_a_prompt_that_joins_the_work_ends_with_it() -> None:
    turns, turn = opened(busy=True)
    turn.accepted(INSERTED)
    assert turns.report(IDLE) == [turn]


def test_a_prompt_that_waits_for_another_does_not_end_with_it() -> None:
    turns, first = opened()
    second = OpenTurn()
    turns.prompted(second, PROMPT)
    first.accepted(v2.PromptResponse("a"))
    turns.report(RUNNING)
    assert turns.report(IDLE) == [first]
    assert turns.close(first)
    second.accepted(v2.PromptResponse("b"))
    assert second.end is None
    turns.report(RUNNING)
    assert turns.report(IDLE) == [second]


def test_a_cancel_is_meant_for_the_turns_that_are_open() -> None:
    turns, turn = opened()
    turns.cancel()
    later = OpenTurn()
    turns.prompted(later, PROMPT)
    assert (turn.cancelled, later.cancelled) == (True, False)


def test_a_turn_is_closed_once() -> None:
    turns, turn = opened()
    assert turns.close(turn)
    assert not turns.close(turn)
    assert len(turns) == 0
    assert turns.report(RUNNING) == []


EVENTS = st.lists(st.sampled_from(["running", "idle", "accepted", "echo", "requires_action"]))


@given(EVENTS, st.booleans())
def test_every_turn_ends_once_its_prompt_is_inserted_and_work_comes_and_goes(
    events: list[str], busy: bool
) -> None:
    turns, turn = opened(busy=busy)
    for event in [*events, "accepted", "running", "idle"]:
        if turn.end is not None:
            break
        if event == "accepted":
            turn.accepted(INSERTED)
        elif event == "echo":
            turns.user_message(whole(*PROMPT))
        else:
            ended = turns.report(v2.StateUpdate(event))
            assert ended == [] or event == "idle"
    assert turn.end is not None
    assert turn.end.state == "idle"
    assert turn.inserted


@given(EVENTS)
def test_no_turn_ends_by_states_alone(events: list[str]) -> None:
    turns, turn = opened()
    for event in events:
        if event not in ("accepted", "echo"):
            assert turns.report(v2.StateUpdate(event)) == []
    assert turn.end is None


# ---- the user message of a prompt ------------------------------------------------------------


def test_a_user_message_is_the_prompt_by_its_content_and_then_by_its_id() -> None:
    turns, turn = opened()
    assert turns.user_message(chunk("hel")) == (turn, True)
    assert turn.inserted
    assert turns.user_message(chunk("lo ")) == (turn, True)
    assert turns.user_message(chunk("moon")) == (turn, False)
    assert turns.user_message(chunk("world", "other")) == (None, False)


def test_another_message_may_come_before_the_echo() -> None:
    turns, turn = opened()
    assert turns.user_message(whole(TextContent("hello "), TextContent("moon"))) == (None, False)
    assert turns.user_message(whole()) == (None, False)
    assert turns.user_message(whole(*PROMPT)) == (turn, True)


def test_one_message_is_one_prompt() -> None:
    turns, first = opened()
    second = OpenTurn()
    turns.prompted(second, PROMPT)
    assert turns.user_message(whole(*PROMPT, message_id="a")) == (first, True)
    assert turns.user_message(whole(*PROMPT, message_id="a")) == (first, True)
    assert turns.user_message(whole(*PROMPT, message_id="b")) == (second, True)


@pytest.mark.parametrize(
    ("update", "same"),
    [
        (whole(*PROMPT), True),
        (v2.UserMessage("u"), True),
        (whole(), True),
        (whole(TextContent("hello world")), False),
        (whole(*PROMPT, meta={"k": 1}), False),
        (whole(ResourceLink("a", "file:///a")), False),
        (chunk("hello "), True),
        (chunk("moon"), False),
    ],
)
def test_a_message_that_changes_the_prompt_is_distinguished_from_one_that_repeats_it(
    update: v2.UserMessage | v2.UserMessageChunk, same: bool
) -> None:
    turns, turn = opened()
    turn.accepted(INSERTED)
    assert turns.user_message(update) == (turn, same)


def test_an_emptied_message_is_repeated_in_chunks() -> None:
    turns, turn = opened()
    turn.accepted(INSERTED)
    assert turns.user_message(whole()) == (turn, True)
    for update in map(chunk, ["hello ", "wor", "ld"]):
        assert turns.user_message(update) == (turn, True)
