"""What is done to a session, as data: the inputs rebuild it, whatever was done."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import v2_permission_requests, v2_struct, v2_update_structs
from twofold.session import Draft, Session
from twofold.session.inputs import Input, LoggedSession, StartedOver, put
from twofold.session.reduce import NotBase64
from twofold.wire import codec, v2
from twofold.wire.shared import CancelledPermissionOutcome, SelectedPermissionOutcome

request_ids = st.sampled_from([1, 2, "1", "a"])
outcomes = st.none() | st.sampled_from(
    [
        CancelledPermissionOutcome(),
        SelectedPermissionOutcome("allow"),
        SelectedPermissionOutcome("x"),
    ]
)


def requests(value: Any) -> v2.RequestPermissionRequest:
    request = codec.read({**value, "sessionId": "s"}, v2.RequestPermissionRequest)
    assert isinstance(request, v2.RequestPermissionRequest)
    return request


# what may be done to a session: the name of a method, and its arguments
deeds = st.one_of(
    st.tuples(st.just("apply"), v2_update_structs()),
    st.tuples(st.just("ask"), request_ids, v2_permission_requests().map(requests)),
    st.tuples(st.just("settle"), request_ids, outcomes),
    st.tuples(st.just("use_draft"), st.sampled_from(Draft)),
    st.sampled_from([("cancel",), ("prompted",), ("replayed",), ("without_transcript",)]),
)


def everything(session: Session) -> dict[str, Any]:
    """All of a session, also what is not compared and what a snapshot does not hold."""
    return {each.name: getattr(session, each.name) for each in fields(Session)}


def do(session: Session, deed: tuple[Any, ...]) -> Session:
    name, *arguments = deed
    result = getattr(session, name)(*arguments)
    return result if name == "without_transcript" else session


@given(st.lists(deeds, max_size=30))
def test_the_inputs_of_a_session_rebuild_it_exactly_at_every_point(
    done: list[tuple[Any, ...]],
) -> None:
    inputs: list[Input] = []
    session: Session = LoggedSession("s", inputs.append)
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
    session: Session = LoggedSession("s", inputs.append)
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
    session = LoggedSession("s", inputs.append)
    update = v2_struct(
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "not base64!"}
    )
    with pytest.raises(NotBase64):
        session.apply(update)
    assert inputs == []


def test_a_draft_that_is_known_already_is_no_input() -> None:
    inputs: list[Input] = []
    session = LoggedSession("s", inputs.append)
    session.use_draft(Draft.JUNE)
    assert inputs == []


def test_a_session_that_starts_over_goes_on_being_logged() -> None:
    inputs: list[Input] = []
    after = LoggedSession("s", inputs.append).without_transcript()
    after.prompted()
    assert [type(each).__name__ for each in inputs] == ["StartedOver", "Prompted"]
    assert inputs[0] == StartedOver()
