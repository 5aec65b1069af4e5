"""What may be done to a session: calls of its methods, drawn at random."""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from tests.support.strategies import v2_permission_requests, v2_update_structs
from twofold.session import Draft, Session
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
