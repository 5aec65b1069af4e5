"""What there is to know of each message: facts, faults, losses, and which of them to show."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.any_records import RECORDS
from tests.support.recordings import (
    TEXT,
    Json,
    answer,
    entries_of,
    folded,
    notify,
    request,
    tape,
    update,
    words,
)
from twofold.convert.versions import Dialect
from twofold.journal.inspection import (
    SUMMARY,
    BadFilter,
    Inspected,
    Inspector,
    Selection,
    parse_filter,
    state_of,
)
from twofold.journal.script import with_member
from twofold.term.wire_lines import detail_rows, message_text

HELLO_V1 = answer(1, protocolVersion=1, agentInfo={"name": "a", "version": "2"})
HELLO_V2 = answer(1, protocolVersion=2, info={"name": "a", "version": "2"}, capabilities={})
INITIALIZE = request(1, "initialize", protocolVersion=1)
PROMPT = request(3, "session/prompt", sessionId="s", prompt=TEXT)
CALL: Json = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Edit a.txt"}


def inspected(*messages: tuple[str, Json], **options: Any) -> list[Inspected]:
    return list(Inspector(**options).read_all(tape(*messages).splitlines()))


def one(message: Json, hello: Json = HELLO_V1, way: str = "a2c") -> Inspected:
    """What there is to know of a message of an agent."""
    return inspected(("c2a", INITIALIZE), ("a2c", hello), (way, message))[-1]


def test_a_message_has_its_number_its_times_and_the_request_that_it_answers() -> None:
    *_, asked, answered = inspected(
        *(("c2a", INITIALIZE), ("a2c", HELLO_V1)),
        *(("c2a", PROMPT), ("a2c", answer(3, stopReason="end_turn"))),
    )
    assert (asked.number, asked.line, asked.elapsed) == (3, 3, 0.2)
    assert (answered.answers, answered.latency, answered.session) == (3, 0.1, "s")
    assert answered.size == len(json.dumps(answer(3, stopReason="end_turn")))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (words("Hello"), "Hello"),
        (update(**CALL, status="pending"), "pending Edit a.txt"),
        (update(sessionUpdate="plan", entries=[{}, {}]), "2 entries"),
        (update(sessionUpdate="usage_update", used=5, size=10), "5 of 10"),
        (update(sessionUpdate="current_mode_update", currentModeId="ask"), "ask"),
        (update(sessionUpdate="agent_message_chunk", content={"type": "image"}), "[image]"),
        (request(5, "fs/read_text_file", sessionId="s", path="/a"), "/a"),
        (request(5, "terminal/create", sessionId="s", command="make"), "make"),
        (answer(1, protocolVersion=1, agentInfo={"name": "a", "version": "2"}), "version 1 a 2"),
        (answer(9, outcome={"outcome": "selected", "optionId": "yes"}), "yes"),
        ({"jsonrpc": "2.0", "id": 9, "error": {"code": -32000, "message": "No"}}, "-32000 No"),
        (notify("_x/y", a=1), ""),
    ],
)
def test_a_message_is_summed_up_in_a_few_words(message: Json, text: str) -> None:
    assert one(message).summary == text


@pytest.mark.parametrize("junk", [None, 3, "x", [], [[]], {"a": []}, {"text": 3}])
@pytest.mark.parametrize("name", ["content", "title", "entries", "plan", "used", "prompt"])
def test_junk_in_any_place_is_no_reason_to_raise(name: str, junk: Any) -> None:
    assert len(one(update(sessionUpdate="agent_message", **{name: junk})).summary) <= SUMMARY
    assert one(request(5, "session/prompt", **{name: junk}), way="c2a").kind == "request"
    assert one(answer(9, **{name: junk})).kind == "result"


def test_what_is_long_is_cut() -> None:
    assert len(one(words("x" * 10_000)).summary) == SUMMARY
    assert len(one(update(sessionUpdate="y" * 10_000)).update) == SUMMARY


def test_malformed_fields_are_named() -> None:
    found = one(update(**CALL, kind=3))
    assert [(each.path, each.reason) for each in found.faults] == [
        ("update.kind", "Expected `str`, got `int`")
    ]
    assert found.is_marked


def test_a_message_that_does_not_fit_at_all_is_a_fault() -> None:
    found = one(update(sessionUpdate="tool_call", title="no id"))
    assert [each.path for each in found.faults] == ["update"]


def test_unknown_fields_and_variants_are_named() -> None:
    assert one(update(**CALL, mood="good")).unknown == ["update.mood"]
    assert one(update(sessionUpdate="_mood")).unknown == ["update (_mood)"]
    content = [{"type": "content", "content": {"type": "hologram"}}]
    (path,) = one(update(**CALL, content=content)).unknown
    assert path == "update.content[0].content (hologram)"
    assert one(update(**CALL, _meta={"mood": "good"})).unknown == []


def test_losses_of_the_other_version_are_named() -> None:
    update_v2: Json = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "E"}
    found = one(update(**update_v2, status="cancelled"), HELLO_V2)
    assert [each.path for each in found.losses] == ["update.status"]
    assert one(update(**CALL)).losses == []


def test_what_the_other_version_refuses_has_its_reason() -> None:
    empty: Json = {"sessionUpdate": "agent_message", "messageId": "m", "content": []}
    assert "update.content" in one(update(**empty), HELLO_V2).refused


def test_lines_that_cannot_be_read_are_counted_too() -> None:
    found = list(Inspector().read_all([b"{", b"", json.dumps(words("a")).encode()]))
    assert [(each.number, each.line, each.kind) for each in found] == [
        (1, 1, "unreadable"),
        (2, 3, "notification"),
    ]
    assert found[0].faults[0].reason.startswith("not JSON")


def test_a_line_that_cannot_be_read_is_kept_whole() -> None:
    line = b"{" * 1000
    inspector = Inspector()
    (found,) = inspector.read_all([line])
    assert (found.size, len(found.summary)) == (1000, SUMMARY)
    assert inspector.detail(found).raw == line


def test_the_version_of_early_lines_is_found_in_later_ones() -> None:
    ambiguous: Json = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "status": "completed",
    }
    inspector = Inspector()
    lines = tape(("a2c", update(**ambiguous)), ("a2c", update(**CALL))).splitlines()
    first = next(inspector.read_all(lines))
    assert inspector.detail(first).version == "1"


def test_the_detail_of_a_message_has_its_other_form_and_the_state_after_it() -> None:
    inspector = Inspector(keeps_state=True)
    messages = [("c2a", INITIALIZE), ("a2c", HELLO_V1), ("c2a", PROMPT), ("a2c", update(**CALL))]
    for found in inspector.read_all(tape(*messages).splitlines()):
        detail = inspector.detail(found)
    assert json.loads(detail.raw) == update(**CALL)
    assert detail.version == "1"
    (made,) = detail.converted
    assert made["params"]["update"]["sessionUpdate"] == "tool_call_update"
    assert detail.state == {"state": "running", "entries": 2, "openCalls": 1}


NAMES = ["claude.v1", "codex.v2", "fastagent.v1", "gemini.v1", "opencode.v1"]


@pytest.mark.parametrize("name", NAMES)
def test_of_a_real_conversation_every_record_is_there_and_only_the_wrong_prompt_is_malformed(
    name: str, shared: Callable[[str], Path]
) -> None:
    data = shared(f"transcripts/{name}.jsonl").read_bytes()
    inspector = Inspector(keeps_state=True)
    found = list(inspector.read_all(data.splitlines()))
    assert [each.number for each in found] == [*range(1, len(entries_of(data)) + 1)]
    malformed = [
        (each.name, [fault.path for fault in each.faults]) for each in found if each.faults
    ]
    assert malformed == [("session/prompt", ["params.prompt"])]
    assert inspector.recording is not None
    assert dict(inspector.recording.sessions) == folded(data)
    for each in inspector.recording.sessions.values():
        assert state_of(each)["state"] == "idle"


@given(records=st.lists(RECORDS, max_size=12), dialect=st.sampled_from([None, "1", "2", "guide"]))
def test_no_recording_makes_it_raise(records: list[Any], dialect: Dialect | None) -> None:
    lines = [json.dumps(each).encode() for each in records]
    inspector = Inspector(dialect, keeps_state=True)
    found = []
    for each in inspector.read_all(lines):
        found.append(each)
        for width in (40, None):
            assert list(detail_rows(inspector.detail(each), width))
        assert json.loads(message_text(each))["number"] == len(found)
    assert len(found) >= len(lines) - records.count([])


# ---- filters -----------------------------------------------------------------------------------

MESSAGES = [
    ("c2a", INITIALIZE),
    ("a2c", HELLO_V1),
    ("c2a", PROMPT),
    ("a2c", words("Grüße")),
    ("a2c", update("t", **CALL, mood="good")),
    ("a2c", {"jsonrpc": "2.0", "id": 3, "error": {"code": -1, "message": "No"}}),
]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["client"], [1, 3]),
        (["agent"], [2, 4, 5, 6]),
        (["errors"], [6]),
        (["faults"], [5]),
        (["unknown"], [5]),
        (["method=session/prompt"], [3, 6]),
        (["method=session/*", "agent"], [4, 5, 6]),
        (["method=tool_call"], [5]),
        (["session=t"], [5]),
        (["text=GOOD"], [5]),
        (["text=none"], []),
    ],
)
def test_filters_choose_messages_that_pass_all_of_them(
    filters: list[str], numbers: list[int]
) -> None:
    selection = Selection([parse_filter(each) for each in filters])
    inspector = Inspector()
    shown = [
        each.number
        for each in inspector.read_all(tape(*MESSAGES).splitlines())
        if selection.holds(each, inspector.raw)
    ]
    assert shown == numbers


@pytest.mark.parametrize("written", ["", "x", "=", "method=", "colour=red"])
def test_a_filter_that_cannot_be_understood_is_refused_in_words(written: str) -> None:
    with pytest.raises(BadFilter, match="method"):
        parse_filter(written)


def test_a_member_is_added_to_what_has_none() -> None:
    assert json.loads(with_member(b'{"params":null}', "params", "a", 1)) == {"params": {"a": 1}}
