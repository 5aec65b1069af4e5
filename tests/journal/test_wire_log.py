"""The lines of a recording one by one: kinds, senders, sessions, latencies and bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recordings import answer, entries_of, notify, request, tape, update
from twofold.journal.wire_log import WireLog
from twofold.wire.base import Malformed


def test_an_answer_has_the_method_the_session_and_the_time_of_its_request() -> None:
    data = tape(
        ("c2a", request(7, "session/prompt", sessionId="s", prompt=[])),
        ("a2c", answer(7, stopReason="end_turn")),
    )
    asked, answered = entries_of(data)
    assert (answered.kind, answered.name, answered.session) == ("result", "session/prompt", "s")
    assert answered.answered is not None
    assert answered.answered.number == asked.number
    assert answered.latency == pytest.approx(0.1)


def test_the_ids_of_the_two_sides_do_not_mix() -> None:
    data = tape(
        ("c2a", request(1, "session/prompt", sessionId="s", prompt=[])),
        ("a2c", request(1, "fs/read_text_file", sessionId="s", path="/a")),
        ("c2a", answer(1, content="a")),
        ("a2c", answer(1, stopReason="end_turn")),
    )
    assert [each.name for each in entries_of(data)][2:] == ["fs/read_text_file", "session/prompt"]


def test_senders_are_found_where_the_recording_does_not_have_them() -> None:
    messages = [
        request(1, "session/new", cwd="/", mcpServers=[]),
        answer(1, sessionId="s"),
        update(sessionUpdate="plan", entries=[]),
        request(2, "fs/read_text_file", sessionId="s", path="/a"),
        answer(2, content="a"),
        notify("session/cancel", sessionId="s"),
    ]
    data = b"".join(json.dumps(each).encode() + b"\n" for each in messages)
    senders = [each.sender for each in entries_of(data)]
    assert senders == ["client", "agent", "agent", "agent", "client", "client"]
    assert entries_of(data)[1].session == "s"


def test_a_batch_makes_an_entry_of_each_message() -> None:
    batch = [answer(1, a=1), update(sessionUpdate="plan", entries=[])]
    entries = WireLog().read(json.dumps(batch).encode(), 4)
    assert [(each.number, each.line, each.kind) for each in entries] == [
        (1, 4, "result"),
        (2, 4, "notification"),
    ]


@pytest.mark.parametrize(
    ("record", "kind", "name"),
    [
        ({"dir": "stderr", "text": "oh"}, "note", "stderr"),
        ({"dir": "exit", "code": 3, "signal": None}, "note", "exit"),
        ({"dir": "a2c", "exit": 0}, "note", "exit"),
        ({"dir": "a2c", "text": "Loading…"}, "noise", ""),
    ],
)
def test_what_is_no_message_is_an_entry_too(record: object, kind: str, name: str) -> None:
    (entry,) = WireLog().read(json.dumps(record).encode(), 1)
    assert (entry.kind, entry.name, entry.message) == (kind, name, None)


@pytest.mark.parametrize("line", [b"{", b"[]", b"3", b'{"a": 1}'])
def test_a_line_that_cannot_be_understood_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        WireLog().read(line, 1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    params=st.dictionaries(st.text(), JSON, max_size=4),
    spaces=st.integers(0, 3),
    wrap=st.booleans(),
)
def test_a_message_keeps_its_bytes(params: dict[str, object], spaces: int, wrap: bool) -> None:
    message = json.dumps(notify("_x/y", **params), separators=("," + " " * spaces, ": "))
    line = f'{{"dir": "a2c", "message": {message}, "t": 1}}' if wrap else message
    (entry,) = WireLog().read(line.encode(errors="surrogatepass"), 1)
    assert json.loads(entry.raw) == json.loads(message)
    if not any(0xD800 <= ord(each) <= 0xDFFF for each in line) and "\\ud" not in line:
        assert entry.raw == message.encode()
