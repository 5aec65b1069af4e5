"""The messages of a recording as rows: their columns, their marks, and how narrow they may be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.convert.losses import Loss
from twofold.journal.comparison import Difference
from twofold.journal.inspection import Detail, Inspected
from twofold.term.lines import cells, plain
from twofold.term.wire_lines import detail_rows, difference_rows, message_row, message_text
from twofold.wire.base import Fault

ASKED = Inspected(
    *(12, 14, "request", "client", "session/prompt"),
    id=3,
    session="0e235c11-b9f3",
    elapsed=3.471,
    size=227,
    summary="Say it",
)
ANSWERED = Inspected(
    *(19, 21, "error", "agent", "session/prompt"),
    id=3,
    session="s",
    elapsed=5.5,
    latency=2.029,
    answers=12,
    size=12_345,
    summary="-32000 No",
)
FAULTY = Inspected(
    *(20, 22, "notification", "agent", "session/update"),
    update="tool_call",
    summary="pending",
    faults=[Fault("update.kind", "Expected `str`"), Fault("update.b", "no")],
    unknown=["update.mood"],
    losses=[Loss("update.status", "none")],
)


def test_a_message_is_one_row_with_all_its_facts() -> None:
    asked = (
        "   12     3.471 → ? session/prompt                  3    227 B           0e235c11  Say it"
    )
    assert plain(message_row(ASKED, None)) == asked
    answered = plain(message_row(ANSWERED, None))
    facts = "19 5.500 ← ✗ session/prompt 3 12.3 kB 2.0 s s -32000 No"
    assert answered.split() == facts.split()
    assert answered.index("s         -32000") == asked.index("0e235c11")


def test_what_is_wrong_is_marked_before_the_summary() -> None:
    row = plain(message_row(FAULTY, None))
    marks = "[fault: update.kind: Expected `str` +1] [unknown: update.mood] [lost: update.status]"
    assert row.endswith(f" {marks} pending")


@pytest.mark.parametrize(
    ("width", "shown", "hidden"),
    [
        (110, ["227 B", "0e235c11"], []),
        (100, ["227 B", "Say it"], ["0e235c11"]),
        (70, ["session/prompt", "Say it"], ["227 B", "0e235c11"]),
        (40, ["session/pro…"], ["227 B"]),
    ],
)
def test_a_narrow_terminal_shows_fewer_facts(
    width: int, shown: list[str], hidden: list[str]
) -> None:
    row = message_row(ASKED, width)
    assert cells(row) <= width
    assert all(each in plain(row) for each in shown)
    assert not any(each in plain(row) for each in hidden)


ANY = st.text(max_size=40)


@given(name=ANY, text=ANY, session=ANY, path=ANY, width=st.integers(1, 160))
def test_whatever_a_peer_sends_a_row_fits_and_is_safe(
    name: str, text: str, session: str, path: str, width: int
) -> None:
    message = Inspected(
        *(1, 1, "notification", "agent", name), id=name, session=session, summary=text
    )
    message.faults = [Fault(path, text)]
    message.unknown = [path]
    row = message_row(message, width)
    assert cells(row) <= width
    for each in [row, *detail_rows(Detail(message, text.encode(errors="replace"), "1", []), width)]:
        assert not any(
            ord(character) < 32 or 127 <= ord(character) < 160 for character in plain(each)
        )


def test_the_detail_shows_the_recorded_json_the_converted_one_and_the_state() -> None:
    raw = json.dumps({"jsonrpc": "2.0", "method": "m", "params": {"a": "\x1b[31m\u202e"}}).encode()
    detail = Detail(FAULTY, raw, "1", [{"method": "m", "params": {}}], {"state": "running"})
    text = "\n".join(map(plain, detail_rows(detail, None)))
    for shown in [
        "  line 22, version 1, 0 bytes",
        "  fault: update.kind: Expected `str`",
        "  unknown: update.mood",
        "  as recorded\n    {",
        "  in version 2\n    {",
        "  lost: update.status: none",
        "  after it: state running",
    ]:
        assert shown in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_is_no_json_is_shown_as_it_is() -> None:
    detail = Detail(FAULTY, b"\x1b[1mnot json", "1", [])
    assert "     [1mnot json" in "\n".join(map(plain, detail_rows(detail, None)))


def test_the_line_for_programs_leaves_out_what_is_not_there() -> None:
    wanted: dict[str, Any] = {"number": 12, "line": 14, "kind": "request", "sender": "client"}
    wanted |= {"name": "session/prompt", "id": 3, "session": "0e235c11-b9f3"}
    wanted |= {"elapsed": 3.471, "size": 227, "summary": "Say it"}
    assert json.loads(message_text(ASKED)) == wanted


def drawn(*facts: Any) -> list[str]:
    return [plain(row) for row in difference_rows(Difference(*facts), 40)]


def test_a_difference_shows_only_the_lines_that_differ() -> None:
    assert drawn("changed", "agent_message", "a", "content", "a\nb\nc\nd", "a\nb\nx\nd") == [
        "~ agent_message a: content",
        "      b",
        "    - c",
        "    + x",
        "      d",
    ]


def test_an_entry_that_only_one_session_has_is_one_row() -> None:
    assert drawn("only_first", "tool_call_update", "Edit\x1b") == ["- tool_call_update Edit␛"]
    (row,) = drawn("only_second", "agent_message", "x" * 200)
    assert row.startswith("+ agent_message xxx")
    assert len(row) == 40
