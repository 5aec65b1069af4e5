"""What is done to a session, as data: the inputs rebuild it, whatever was done."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.deeds import deeds, do, everything
from tests.support.strategies import v2_struct
from twofold.session import Draft, Session
from twofold.session.inputs import Input, LoggedSession, StartedOver, put
from twofold.session.reduce import NotBase64


@given(st.lists(deeds, max_size=30))
def test_the_inputs_of_a_session_rebuild_it_exactly_at_every_point(
    done: list[tuple[Any, ...]],
) -> None:
    inputs: list[Input] = []
    session: Session = LoggedSession("s", lambda given, _: inputs.append(given))
    again = Session("s")
    for deed in done:
        before = len(inputs)
        session = do(session, deed)
        for each in inputs[before:]:
            again, _ = put(again, each)
        assert everything(again) == everything(session)
        assert [call.decisions for call in again.tool_calls.values()] == [
            call.decisions for call in session.tool_calls.values()
        ]


@given(st.lists(deeds, max_size=10))
def test_an_input_changes_what_the_deed_changed(done: list[tuple[Any, ...]]) -> None:
    inputs: list[Input] = []
    session: Session = LoggedSession("s", lambda given, _: inputs.append(given))
    again = Session("s")
    for deed in done:
        before = len(inputs)
        name, *arguments = deed
        result = getattr(session, name)(*arguments)
        changes = result if isinstance(result, tuple) else ()
        session = result if name == "without_transcript" else session
        for each in inputs[before:]:
            again, same = put(again, each)
            assert same == changes


def test_an_update_that_cannot_be_applied_is_no_input() -> None:
    inputs: list[Input] = []
    session = LoggedSession("s", lambda given, _: inputs.append(given))
    update = v2_struct(
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "not base64!"}
    )
    with pytest.raises(NotBase64):
        session.apply(update)
    assert inputs == []


def test_a_draft_that_is_known_already_is_no_input() -> None:
    inputs: list[Input] = []
    session = LoggedSession("s", lambda given, _: inputs.append(given))
    session.use_draft(Draft.JUNE)
    assert inputs == []


def test_a_session_that_starts_over_goes_on_being_logged() -> None:
    inputs: list[Input] = []
    after = LoggedSession("s", lambda given, _: inputs.append(given)).without_transcript()
    after.prompted()
    assert [type(each).__name__ for each in inputs] == ["StartedOver", "Prompted"]
    assert inputs[0] == StartedOver()
