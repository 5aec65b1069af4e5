"""Inputs of a session as events of a journal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.deeds import deeds, do, everything
from twofold.journal.session_events import KINDS, read_input, write_input
from twofold.session import Session
from twofold.session.inputs import Input, LoggedSession, put
from twofold.wire.base import Malformed


@given(st.lists(deeds, max_size=20))
def test_the_events_of_a_session_rebuild_it(done: list[tuple[object, ...]]) -> None:
    inputs: list[Input] = []
    session: Session = LoggedSession("s", lambda given, _: inputs.append(given))
    for deed in done:
        session = do(session, deed)
    again = Session("s")
    for given_input in inputs:
        kind, body = write_input(given_input)
        assert kind in KINDS
        again, _ = put(again, read_input(kind, body))
    assert everything(again) == everything(session)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("update", b"{"),
        ("update", b'{"sessionUpdate": "agent_message_chunk"}'),
        ("asked", b'{"id": 1}'),
        ("asked", b'{"id": null, "request": {}}'),
        ("settled", b'{"id": 1}'),
        ("settled", b'{"id": 1, "outcome": 3}'),
        ("settled", b"[]"),
        ("draft", b'{"draft": "1999"}'),
        ("no such kind", b"{}"),
    ],
)
def test_a_body_that_is_none_is_malformed(kind: str, body: bytes) -> None:
    with pytest.raises(Malformed):
        read_input(kind, body)
