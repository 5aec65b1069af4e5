"""The ACP page on tool calls in version 2: every rule, for `wire` and `session`."""

from typing import Any

import pytest

from tests.support.strategies import Json, canonical, dumps, v2_struct
from twofold.session import Session, ToolCall, snapshot
from twofold.session.changes import ContentAppended, EntryAdded, EntryChanged, PermissionChanged
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Malformed, Unknown
from twofold.wire.content import ImageContent, TextContent
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Content,
    PermissionOption,
    SelectedPermissionOutcome,
)


def update(tool_call_id: str = "a", /, **patch: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, **patch}


def text(value: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": value}}


def chunk(value: str, tool_call_id: str = "a") -> Json:
    return {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": tool_call_id,
        "content": text(value),
    }


def session_after(*updates: Json) -> Session:
    session = Session("s")
    for each in updates:
        session.apply(v2_struct(each))
    return session


def call_after(*updates: Json) -> ToolCall:
    return session_after(*updates).tool_calls["a"]


def texts(call: ToolCall) -> list[str]:
    return [
        item.content.text
        for item in call.content
        if isinstance(item, Content) and isinstance(item.content, TextContent)
    ]


# ---- reporting -------------------------------------------------------------------------------


def test_a_tool_call_is_reported_with_an_update() -> None:
    session = Session("s")
    assert session.apply(v2_struct(update(title="Reading", kind="read"))) == (EntryAdded(0),)
    assert session.entries == [ToolCall("a", 0, title="Reading", kind="read")]


def test_an_id_is_unique_within_the_session() -> None:
    session = session_after(update(title="one"), update("b"), update(title="two"))
    assert [call.title for call in session.tool_calls.values()] == ["two", None]


KINDS = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]


@pytest.mark.parametrize("kind", [*KINDS, "switch_mode"])
def test_the_kinds_of_tools_are_kept(kind: str) -> None:
    assert call_after(update(kind=kind)).kind == kind


@pytest.mark.parametrize("kind", ["_acme.dev/deploy", "future_kind"])
def test_custom_and_future_kinds_are_kept(kind: str) -> None:
    example = update(kind=kind)
    assert call_after(example).kind == kind
    assert canonical(codec.to_json(v2_struct(example))) == canonical(example)


def test_the_status_defaults_to_pending() -> None:
    assert call_after(update(title="t")).status == "pending"


def test_omitted_fields_leave_null_clears_and_values_replace() -> None:
    call = call_after(
        update(title="t", kind="read", status="in_progress", rawInput={"a": 1}),
        update(title=None, status="completed"),
    )
    assert (call.title, call.kind, call.status) == (None, "read", "completed")
    assert call.raw_input == {"a": 1}


def test_for_a_new_id_omitted_fields_use_the_defaults() -> None:
    assert call_after(update()) == ToolCall("a", 0, kind="other", status="pending")


@pytest.mark.parametrize("clearing", [[], None])
def test_content_and_locations_are_replaced_as_whole_arrays(clearing: Any) -> None:
    before = update(content=[text("1"), text("2")], locations=[{"path": "/1"}, {"path": "/2"}])
    replaced = call_after(before, update(content=[text("3")], locations=[{"path": "/3"}]))
    assert texts(replaced) == ["3"]
    assert [place.path for place in replaced.locations] == ["/3"]
    cleared = call_after(before, update(content=clearing, locations=clearing))
    assert (cleared.content, cleared.locations) == ([], [])


def test_only_the_fields_being_changed_need_to_be_included() -> None:
    call = call_after(update(title="t"), update(status="in_progress"), update(rawOutput="done"))
    assert (call.title, call.status, call.raw_output) == ("t", "in_progress", "done")


# ---- streaming content -----------------------------------------------------------------------


def test_a_content_chunk_appends_its_item_to_the_current_content() -> None:
    session = session_after(update(content=[text("1")]))
    assert session.apply(v2_struct(chunk("2"))) == (ContentAppended(0),)
    assert texts(session.tool_calls["a"]) == ["1", "2"]


def test_a_content_chunk_for_an_unknown_id_creates_the_tool_call() -> None:
    session = Session("s")
    assert session.apply(v2_struct(chunk("1"))) == (EntryAdded(0),)
    assert texts(session.tool_calls["a"]) == ["1"]
    assert session.tool_calls["a"].status == "pending"


@pytest.mark.parametrize("missing", ["toolCallId", "content"])
def test_a_content_chunk_needs_an_id_and_an_item(missing: str) -> None:
    with pytest.raises(Malformed):
        v2_struct({key: value for key, value in chunk("1").items() if key != missing})


ORDERS: dict[str, tuple[list[Json], list[str]]] = {
    "a later update with content replaces all content, chunks included": (
        [chunk("1"), chunk("2"), update(content=[text("3")])],
        ["3"],
    ),
    "later chunks append to the replacement": (
        [chunk("1"), update(content=[text("2")]), chunk("3"), chunk("4")],
        ["2", "3", "4"],
    ),
    "an empty array clears": ([chunk("1"), update(content=[])], []),
    "null clears": ([chunk("1"), update(content=None)], []),
    "chunks append to cleared content": ([chunk("1"), update(content=None), chunk("2")], ["2"]),
    "an update without content leaves the chunks": (
        [chunk("1"), update(status="completed"), chunk("2")],
        ["1", "2"],
    ),
    "another tool call's updates change nothing": (
        [chunk("1"), chunk("other", "b"), update("b", content=[]), chunk("2")],
        ["1", "2"],
    ),
}


@pytest.mark.parametrize("rule", ORDERS)
def test_updates_and_chunks_apply_in_the_order_they_are_received(rule: str) -> None:
    updates, expected = ORDERS[rule]
    assert texts(call_after(*updates)) == expected


# ---- requesting permission -------------------------------------------------------------------

OPTIONS = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]
PERMISSION: Json = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "a", "title": "rm -rf build", "kind": "execute"},
    "options": OPTIONS,
}


def test_a_permission_request_names_the_session_the_tool_call_and_the_options() -> None:
    request = codec.decode(dumps(PERMISSION), v2.RequestPermissionRequest)
    assert isinstance(request, v2.JuneRequestPermissionRequest)
    assert request.session_id == "s"
    assert request.tool_call == v2.ToolCallPatch("a", title="rm -rf build", kind="execute")
    assert [option.option_id for option in request.options] == ["allow-once", "reject-once"]
    assert canonical(codec.to_json(request)) == canonical(PERMISSION)


@pytest.mark.parametrize("missing", ["sessionId", "toolCall", "options"])
def test_each_field_of_a_permission_request_is_required(missing: str) -> None:
    with pytest.raises(Malformed):
        codec.decode(
            dumps({key: value for key, value in PERMISSION.items() if key != missing}),
            v2.RequestPermissionRequest,
        )


def test_a_pending_permission_shows_the_tool_call_it_is_about() -> None:
    session = session_after(update(status="in_progress", title="old"))
    subject = {"type": "tool_call", "toolCall": PERMISSION["toolCall"]}
    request = codec.read(
        {"sessionId": "s", "title": "May I?", "options": OPTIONS, "subject": subject},
        v2.RequestPermissionRequest,
    )
    assert session.ask(5, request) == (EntryChanged(0), PermissionChanged(5))
    assert session.tool_calls["a"].title == "rm -rf build"
    assert session.permissions[5].tool_call_id == "a"


OUTCOMES: dict[str, tuple[Json, Any]] = {
    "selected": (
        {"outcome": {"outcome": "selected", "optionId": "allow-once"}},
        SelectedPermissionOutcome("allow-once"),
    ),
    "cancelled": ({"outcome": {"outcome": "cancelled"}}, CancelledPermissionOutcome()),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_decision_is_an_option_or_cancelled(outcome: str) -> None:
    result, expected = OUTCOMES[outcome]
    read = codec.decode(dumps(result), v2.RequestPermissionResponse)
    assert read.outcome == expected
    assert canonical(codec.to_json(read)) == canonical(result)


def test_a_selected_outcome_names_the_option() -> None:
    with pytest.raises(Malformed):
        codec.decode(b'{"outcome":{"outcome":"selected"}}', v2.RequestPermissionResponse)


@pytest.mark.parametrize("missing", ["optionId", "name", "kind"])
def test_each_field_of_an_option_is_required(missing: str) -> None:
    option = {key: value for key, value in OPTIONS[0].items() if key != missing}
    with pytest.raises(Malformed):
        codec.decode(dumps(option), PermissionOption)


@pytest.mark.parametrize(
    "kind",
    [
        *("allow_once", "allow_always", "reject_once", "reject_always"),
        *("_acme.dev/ask_again", "future_kind"),
    ],
)
def test_the_kind_of_an_option_is_preserved_whether_understood_or_not(kind: str) -> None:
    option = {"optionId": "o", "name": "n", "kind": kind}
    read = codec.decode(dumps(option), PermissionOption)
    assert read.kind == kind
    assert codec.to_json(read) == option


# ---- status ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["pending", "in_progress", "completed", "failed"])
def test_a_tool_call_progresses_through_its_statuses(status: str) -> None:
    assert call_after(update(), update(status=status)).status == status


@pytest.mark.parametrize("status", ["_acme.dev/queued", "future_status"])
def test_custom_and_future_statuses_are_kept(status: str) -> None:
    assert call_after(update(status=status)).status == status
    assert canonical(codec.to_json(v2_struct(update(status=status)))) == canonical(
        update(status=status)
    )


# ---- content ---------------------------------------------------------------------------------

UNKNOWN_CONTENT = {"type": "_acme.dev/chart", "series": [1, 2, {"x": None}], "text": 5}


def test_unknown_content_survives_storing_and_replaying() -> None:
    session = session_after(update(content=[text("1"), UNKNOWN_CONTENT]))
    (stored, _) = snapshot(session)
    assert codec.to_json(stored)["content"][1] == UNKNOWN_CONTENT
    replayed = session_after(codec.to_json(stored))
    assert isinstance(replayed.tool_calls["a"].content[1], Unknown)
    assert replayed == session


def test_unknown_content_survives_forwarding() -> None:
    sent = {**chunk("1"), "content": UNKNOWN_CONTENT}
    assert canonical(codec.to_json(v2.decode_update(dumps(sent)))) == canonical(sent)


@pytest.mark.parametrize("kind", ["content", "diff", "terminal"])
def test_known_content_that_is_malformed_is_skipped_and_never_unknown(kind: str) -> None:
    faults: list[Any] = []
    read: Any = v2.decode_update(dumps(update(content=[{"type": kind}, UNKNOWN_CONTENT])), faults)
    assert [fault.path for fault in faults] == [".content[0]"]
    assert [item.tag for item in read.content] == ["_acme.dev/chart"]


BLOCKS: dict[str, tuple[Json, Any]] = {
    "text": ({"type": "text", "text": "x"}, TextContent("x")),
    "an image": (
        {"type": "image", "data": "eA==", "mimeType": "image/png"},
        ImageContent("eA==", "image/png"),
    ),
}


@pytest.mark.parametrize("block", BLOCKS)
def test_regular_content_is_a_content_block(block: str) -> None:
    sent, expected = BLOCKS[block]
    call = call_after(update(content=[{"type": "content", "content": sent}]))
    assert call.content == [Content(expected)]


DIFFS: dict[str, tuple[Json, Any]] = {
    "the original and the new content": (
        {"type": "diff", "path": "/c.json", "oldText": "{}", "newText": "{ }"},
        v2.JuneDiff("/c.json", "{ }", old_text="{}"),
    ),
    "null for new files": (
        {"type": "diff", "path": "/c.json", "oldText": None, "newText": "{}"},
        v2.JuneDiff("/c.json", "{}", old_text=None),
    ),
    "nothing for new files": (
        {"type": "diff", "path": "/c.json", "newText": "{}"},
        v2.JuneDiff("/c.json", "{}", old_text=UNSET),
    ),
}


@pytest.mark.parametrize("diff", DIFFS)
def test_a_diff_is_a_path_the_original_and_the_new_content(diff: str) -> None:
    sent, expected = DIFFS[diff]
    assert call_after(update(content=[sent])).content == [expected]
    assert canonical(codec.to_json(v2_struct(update(content=[sent])))) == canonical(
        update(content=[sent])
    )


@pytest.mark.parametrize("missing", ["path", "newText"])
def test_a_diff_without_a_path_or_new_content_is_malformed(missing: str) -> None:
    sent = {"type": "diff", "path": "/c.json", "newText": "{}"}
    del sent[missing]
    with pytest.raises(Malformed):
        codec.decode(dumps(sent), v2.ToolCallContent)


# ---- following the agent ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "line"),
    [
        ({"path": "/a.py"}, UNSET),
        ({"path": "/a.py", "line": 42}, 42),
        ({"path": "/a.py", "line": None}, None),
    ],
)
def test_a_location_is_a_path_and_perhaps_a_line(location: Json, line: Any) -> None:
    (place,) = call_after(update(locations=[location])).locations
    assert (place.path, place.line) == ("/a.py", line)
    assert codec.to_json(place) == location


def test_a_location_needs_a_path() -> None:
    faults: list[Any] = []
    v2.decode_update(dumps(update(locations=[{"line": 1}])), faults)
    assert [fault.path for fault in faults] == [".locations[0]"]
