"""Documents that are made step by step, while the session may go on."""

from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sessions import session_of
from tests.support.strategies import v2_struct_streams
from twofold.session import Session
from twofold.session.reduce import NotBase64
from twofold.styled.documents import DocumentFormat, document_steps, session_document
from twofold.wire import v2

FORMS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)


def apply(session: Session, update: v2.SessionUpdate) -> None:
    with suppress(NotBase64):
        session.apply(update)


@given(st.sampled_from(FORMS), v2_struct_streams(max_size=40), st.integers(0, 20), st.data())
def test_a_session_that_changes_meanwhile_becomes_a_document(
    form: DocumentFormat, updates: list[v2.SessionUpdate], before: int, data: st.DataObject
) -> None:
    session = Session("s")
    for update in updates[:before]:
        apply(session, update)
    later = updates[before:]
    goes_on: Any = st.booleans()
    steps = document_steps(session, form)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            text = done.value
            break
        if later and data.draw(goes_on):
            apply(session, later.pop(0))
    assert isinstance(text, str)
    assert text


@pytest.mark.parametrize("form", FORMS)
def test_a_longer_session_has_more_steps(form: DocumentFormat) -> None:
    def message(number: int) -> dict[str, object]:
        content = [{"type": "text", "text": "Some *words*.\n\n" * 20}]
        return {"sessionUpdate": "agent_message", "messageId": f"m{number}", "content": content}

    for count in (10, 300):
        session = session_of(*[message(number) for number in range(count)])
        steps = list(document_steps(session, form))
        assert len(steps) >= count


def test_a_long_message_is_read_in_many_steps() -> None:
    text = "Some *words*.\n\n" * 10_000
    content = [{"type": "text", "text": text}]
    update = {"sessionUpdate": "agent_message", "messageId": "m", "content": content}
    session = session_of(update)
    assert len(list(document_steps(session, "html"))) > 30
    assert session_document(session, "html").count("<em>words</em>") == 10_000
