"""The ACP document "v2 tool-call updates": every rule and example, for `wire` and `session`.

The section "Compatibility" is about conversion and is tested there.
"""

from typing import Any

import pytest

from tests.support.strategies import Json, canonical, dumps, v2_struct
from twofold.session import Session, ToolCall
from twofold.session.changes import EntryAdded, EntryChanged
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed, Unknown
from twofold.wire.content import TextContent
from twofold.wire.shared import Content

# ---- the examples ----------------------------------------------------------------------------

CREATED_IN_VERSION_1 = {
    "sessionUpdate": "tool_call",
    "toolCallId": "call_001",
    "title": "Reading configuration file",
    "kind": "read",
    "status": "pending",
}
COMPLETED = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "call_001",
    "status": "completed",
}


def update(tool_call_id: str = "call_001", /, **patch: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, **patch}


def call_after(*updates: Json, tool_call_id: str = "call_001") -> ToolCall:
    session = Session("s")
    for each in updates:
        session.apply(v2_struct(each))
    return session.tool_calls[tool_call_id]


def text(value: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": value}}


def test_version_1_has_two_tool_call_updates() -> None:
    created = v1.decode_update(dumps(CREATED_IN_VERSION_1))
    assert created == v1.ToolCall(
        "call_001", "Reading configuration file", kind="read", status="pending"
    )
    completed = v1.decode_update(dumps(COMPLETED))
    assert completed == v1.ToolCallUpdate("call_001", status="completed")


@pytest.mark.parametrize("example", [CREATED_IN_VERSION_1, COMPLETED])
def test_the_examples_are_written_as_they_were_read(example: Json) -> None:
    assert canonical(codec.to_json(v1.decode_update(dumps(example)))) == canonical(example)


def test_version_2_has_no_tool_call_update_of_that_name() -> None:
    assert isinstance(v2.decode_update(dumps(CREATED_IN_VERSION_1)), Unknown)


def test_version_2_has_one_update_for_creating_and_updating() -> None:
    assert v2.decode_update(dumps(COMPLETED)) == v2.ToolCallUpdate("call_001", status="completed")


# ---- the payload is an upsert keyed by toolCallId --------------------------------------------


def test_an_id_that_was_not_seen_before_creates_a_tool_call() -> None:
    session = Session("s")
    assert session.apply(v2_struct(update(title="Reading"))) == (EntryAdded(0),)
    assert [entry.title for entry in session.entries if isinstance(entry, ToolCall)] == ["Reading"]


def test_an_id_that_was_seen_before_patches_the_tool_call() -> None:
    session = Session("s")
    session.apply(v2_struct(update(title="Reading", kind="read")))
    assert session.apply(v2_struct(COMPLETED)) == (EntryChanged(0),)
    assert session.entries == [
        ToolCall("call_001", 0, title="Reading", kind="read", status="completed")
    ]


def test_tool_calls_of_different_ids_are_patched_apart() -> None:
    session = Session("s")
    for each in (update("a", title="A"), update("b", title="B"), update("a", status="failed")):
        session.apply(v2_struct(each))
    assert [(call.title, call.status) for call in session.tool_calls.values()] == [
        ("A", "failed"),
        ("B", "pending"),
    ]


@pytest.mark.parametrize("damage", [{}, {"toolCallId": None}, {"toolCallId": 5}])
def test_the_tool_call_id_is_required(damage: Json) -> None:
    with pytest.raises(Malformed):
        v2.decode_update(dumps({"sessionUpdate": "tool_call_update", "title": "t", **damage}))


# ---- the patch fields: field, what it is set to, another value, what null makes of it --------

PATCH_FIELDS: dict[str, tuple[str, Any, Any, Any]] = {
    "title": ("title", "Reading", "Writing", None),
    "kind": ("kind", "read", "edit", "other"),
    "status": ("status", "in_progress", "completed", "pending"),
    "content": ("content", [text("a")], [text("b"), text("c")], []),
    "locations": ("locations", [{"path": "/a"}], [{"path": "/b", "line": 3}], []),
    "rawInput": ("raw_input", {"path": "/a", "n": 1}, [1, "two", None], None),
    "rawOutput": ("raw_output", "text", {"ok": True}, None),
}
EVERYTHING: Json = {key: first for key, (_, first, _, _) in PATCH_FIELDS.items()}


def as_json(value: Any) -> Any:
    return codec.to_json(value)


def value_of(call: ToolCall, key: str) -> Any:
    return as_json(getattr(call, PATCH_FIELDS[key][0]))


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_an_omitted_patch_field_leaves_the_previous_value_unchanged(key: str) -> None:
    others = {other: second for other, (_, _, second, _) in PATCH_FIELDS.items() if other != key}
    call = call_after(update(**EVERYTHING), update(), update(**others))
    assert value_of(call, key) == EVERYTHING[key]


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_null_explicitly_clears_or_unsets_the_field(key: str) -> None:
    call = call_after(update(**EVERYTHING), update(**{key: None}))
    assert value_of(call, key) == PATCH_FIELDS[key][3]
    for other in PATCH_FIELDS.keys() - {key}:
        assert value_of(call, other) == EVERYTHING[other]


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_any_concrete_value_replaces_the_previous_value(key: str) -> None:
    _, first, second, _ = PATCH_FIELDS[key]
    call = call_after(update(**{key: first}), update(**{key: second}))
    assert value_of(call, key) == second


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_a_cleared_field_may_be_set_again(key: str) -> None:
    _, first, second, _ = PATCH_FIELDS[key]
    call = call_after(update(**{key: first}), update(**{key: None}), update(**{key: second}))
    assert value_of(call, key) == second


@pytest.mark.parametrize("raw", [0, False, "", [], {}, {"a": None}])
@pytest.mark.parametrize("key", ["rawInput", "rawOutput"])
def test_an_empty_raw_value_is_a_value_and_not_a_clear(key: str, raw: Any) -> None:
    assert value_of(call_after(update(**{key: raw})), key) == raw


def test_content_and_locations_are_replaced_as_whole_arrays_and_not_appended() -> None:
    call = call_after(
        update(content=[text("a"), text("b")], locations=[{"path": "/a"}, {"path": "/b"}]),
        update(content=[text("c")], locations=[{"path": "/c"}]),
    )
    assert call.content == [Content(TextContent("c"))]
    assert call.locations == [v2.ToolCallLocation("/c")]


@pytest.mark.parametrize("clearing", [[], None])
@pytest.mark.parametrize("key", ["content", "locations"])
def test_an_empty_array_and_null_both_clear_a_collection_field(key: str, clearing: Any) -> None:
    call = call_after(update(**EVERYTHING), update(**{key: clearing}))
    assert value_of(call, key) == []


def test_for_a_new_id_omitted_fields_use_the_defaults() -> None:
    assert call_after(update()) == ToolCall(
        "call_001",
        0,
        name=None,
        title=None,
        kind="other",
        status="pending",
        content=[],
        locations=[],
        raw_input=None,
        raw_output=None,
    )


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_null_for_a_new_id_is_the_default_too(key: str) -> None:
    assert call_after(update(**{key: None})) == call_after(update())


def test_the_title_may_come_later_than_the_id() -> None:
    assert call_after(update(kind="read"), update(title="Reading")).title == "Reading"


# ---- the three states on the wire ------------------------------------------------------------


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_omitted_null_and_concrete_values_are_distinguished_on_the_wire(key: str) -> None:
    name, value, _, _ = PATCH_FIELDS[key]
    omitted, null, concrete = (
        v2.decode_update(dumps(each))
        for each in (update(), update(**{key: None}), update(**{key: value}))
    )
    assert getattr(omitted, name) is UNSET
    assert getattr(null, name) is None
    assert as_json(getattr(concrete, name)) == value
    for struct, each in ((null, update(**{key: None})), (concrete, update(**{key: value}))):
        assert canonical(codec.to_json(struct)) == canonical(each)


# ---- session/request_permission carries the same shape ---------------------------------------

PERMISSION = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "call_001", "title": None, "status": "pending"},
    "options": [{"optionId": "o", "name": "Allow", "kind": "allow_once"}],
}


def test_a_permission_request_carries_the_same_patch_in_its_tool_call_field() -> None:
    request = codec.decode(dumps(PERMISSION), v2.RequestPermissionRequest)
    assert isinstance(request, v2.JuneRequestPermissionRequest)
    assert request.tool_call == v2.ToolCallPatch("call_001", title=None, status="pending")
    assert canonical(codec.to_json(request)) == canonical(PERMISSION)


@pytest.mark.parametrize("key", PATCH_FIELDS)
def test_a_permission_requests_patch_has_three_states_as_well(key: str) -> None:
    name, value, _, _ = PATCH_FIELDS[key]
    for given, expected in (({}, UNSET), ({key: None}, None), ({key: value}, value)):
        tool_call = {"toolCallId": "call_001", **given}
        request = codec.decode(
            dumps({**PERMISSION, "toolCall": tool_call}), v2.RequestPermissionRequest
        )
        assert as_json(getattr(request.tool_call, name)) == expected


def test_a_permission_requests_patch_is_applied_like_an_update() -> None:
    patch = codec.read({"toolCallId": "call_001", **EVERYTHING}, v2.ToolCallPatch)
    option = codec.read(PERMISSION["options"], list[v2.PermissionOption])
    request = v2.RequestPermissionRequest(
        "s", "May I?", option, subject=v2.ToolCallPermissionSubject(patch)
    )
    session = Session("s")
    session.ask(1, request)
    assert session.tool_calls["call_001"] == call_after(update(**EVERYTHING))
