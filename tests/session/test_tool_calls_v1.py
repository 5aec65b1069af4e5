"""The ACP page on tool calls in version 1: its examples and rules, on the wire.

The sessions that they fold to are tested where they are converted to version 2.
"""

from typing import Any

import pytest

from tests.support.strategies import Json, canonical, dumps
from twofold.wire import codec, v1
from twofold.wire.base import UNSET, Malformed
from twofold.wire.content import TextContent
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Content,
    PermissionOption,
    SelectedPermissionOutcome,
)

CREATING = {
    "jsonrpc": "2.0",
    "method": "session/update",
    "params": {
        "sessionId": "sess_abc123def456",
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "call_001",
            "title": "Reading configuration file",
            "kind": "read",
            "status": "pending",
        },
    },
}
UPDATING = {
    "jsonrpc": "2.0",
    "method": "session/update",
    "params": {
        "sessionId": "sess_abc123def456",
        "update": {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_001",
            "status": "in_progress",
            "content": [
                {
                    "type": "content",
                    "content": {"type": "text", "text": "Found 3 configuration files..."},
                }
            ],
        },
    },
}
REQUESTING = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "session/request_permission",
    "params": {
        "sessionId": "sess_abc123def456",
        "toolCall": {"toolCallId": "call_001"},
        "options": [
            {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
        ],
    },
}
SELECTED = {
    "jsonrpc": "2.0",
    "id": 5,
    "result": {"outcome": {"outcome": "selected", "optionId": "allow-once"}},
}
CANCELLED = {"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "cancelled"}}}
REGULAR = {
    "type": "content",
    "content": {"type": "text", "text": "Analysis complete. Found 3 issues."},
}
DIFF = {
    "type": "diff",
    "path": "/home/user/project/src/config.json",
    "oldText": '{\n  "debug": false\n}',
    "newText": '{\n  "debug": true\n}',
}
TERMINAL = {"type": "terminal", "terminalId": "term_xyz789"}
LOCATION = {"path": "/home/user/project/src/main.py", "line": 42}

SESSION = "sess_abc123def456"
EXAMPLES: dict[str, tuple[Any, Any, Any]] = {
    "creating": (
        CREATING["params"],
        v1.SessionNotification,
        v1.SessionNotification(
            SESSION,
            v1.ToolCall("call_001", "Reading configuration file", kind="read", status="pending"),
        ),
    ),
    "updating": (
        UPDATING["params"],
        v1.SessionNotification,
        v1.SessionNotification(
            SESSION,
            v1.ToolCallUpdate(
                "call_001",
                status="in_progress",
                content=[Content(TextContent("Found 3 configuration files..."))],
            ),
        ),
    ),
    "requesting permission": (
        REQUESTING["params"],
        v1.RequestPermissionRequest,
        v1.RequestPermissionRequest(
            SESSION,
            v1.ToolCallPatch("call_001"),
            [
                PermissionOption("allow-once", "Allow once", "allow_once"),
                PermissionOption("reject-once", "Reject", "reject_once"),
            ],
        ),
    ),
    "the user's decision": (
        SELECTED["result"],
        v1.RequestPermissionResponse,
        v1.RequestPermissionResponse(SelectedPermissionOutcome("allow-once")),
    ),
    "a cancelled turn": (
        CANCELLED["result"],
        v1.RequestPermissionResponse,
        v1.RequestPermissionResponse(CancelledPermissionOutcome()),
    ),
    "regular content": (
        REGULAR,
        v1.ToolCallContent,
        Content(TextContent("Analysis complete. Found 3 issues.")),
    ),
    "a diff": (
        DIFF,
        v1.ToolCallContent,
        v1.Diff(
            "/home/user/project/src/config.json",
            '{\n  "debug": true\n}',
            old_text='{\n  "debug": false\n}',
        ),
    ),
    "a terminal": (TERMINAL, v1.ToolCallContent, v1.Terminal("term_xyz789")),
    "a location": (
        LOCATION,
        v1.ToolCallLocation,
        v1.ToolCallLocation("/home/user/project/src/main.py", line=42),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_decoded_to_the_expected_struct(name: str) -> None:
    example, shape, expected = EXAMPLES[name]
    assert codec.decode(dumps(example), shape) == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_written_as_it_was_read(name: str) -> None:
    example, shape, _ = EXAMPLES[name]
    assert canonical(codec.to_json(codec.decode(dumps(example), shape))) == canonical(example)


@pytest.mark.parametrize("line", [CREATING, UPDATING])
def test_an_update_is_read_from_its_line_in_one_pass(line: Json) -> None:
    assert v1.decode_update_line(dumps(line)) == codec.decode(
        dumps(line["params"]), v1.SessionNotification
    )


def test_the_methods_of_the_examples_are_known() -> None:
    for message in (CREATING, UPDATING, REQUESTING):
        assert v1.METHODS[str(message["method"])].side == "client"


# ---- creating --------------------------------------------------------------------------------


def created(**fields: Any) -> v1.ToolCall:
    update = {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "t", **fields}
    read = v1.decode_update(dumps(update))
    assert isinstance(read, v1.ToolCall)
    assert canonical(codec.to_json(read)) == canonical(update)
    return read


@pytest.mark.parametrize("missing", ["toolCallId", "title"])
def test_creating_needs_an_id_and_a_title(missing: str) -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "t"}
    del update[missing]
    with pytest.raises(Malformed, match=missing):
        v1.decode_update(dumps(update))


KINDS = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tool_is_read(kind: str) -> None:
    assert created(kind=kind).kind == kind


@pytest.mark.parametrize("status", ["pending", "in_progress", "completed", "failed"])
def test_every_status_is_read(status: str) -> None:
    assert created(status=status).status == status


def test_everything_but_the_id_and_the_title_may_be_omitted() -> None:
    call = created()
    assert (call.kind, call.status, call.content, call.locations) == (UNSET, UNSET, UNSET, UNSET)
    assert (call.raw_input, call.raw_output) == (UNSET, UNSET)


@pytest.mark.parametrize("raw", [{"path": "/x"}, {}, "text", [1], 5, None])
def test_raw_input_and_output_are_kept_whatever_they_are(raw: Any) -> None:
    call = created(rawInput=raw, rawOutput=raw)
    assert (call.raw_input, call.raw_output) == (raw, raw)


# ---- updating --------------------------------------------------------------------------------


def updated(**fields: Any) -> v1.ToolCallUpdate:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "a", **fields}
    read = v1.decode_update(dumps(update))
    assert isinstance(read, v1.ToolCallUpdate)
    assert canonical(codec.to_json(read)) == canonical(update)
    return read


FIELDS: dict[str, tuple[str, Any]] = {
    "title": ("title", "t"),
    "kind": ("kind", "read"),
    "status": ("status", "failed"),
    "content": ("content", [REGULAR, DIFF, TERMINAL]),
    "locations": ("locations", [LOCATION]),
    "rawInput": ("raw_input", {"a": 1}),
    "rawOutput": ("raw_output", {"b": 2}),
}


def test_an_update_needs_an_id() -> None:
    with pytest.raises(Malformed, match="toolCallId"):
        v1.decode_update(b'{"sessionUpdate":"tool_call_update","title":"t"}')


@pytest.mark.parametrize("key", FIELDS)
def test_all_fields_but_the_id_are_optional_in_updates(key: str) -> None:
    name, value = FIELDS[key]
    alone = updated(**{key: value})
    assert codec.to_json(getattr(alone, name)) == value
    for other, _ in FIELDS.values():
        assert other == name or getattr(alone, other) is UNSET


@pytest.mark.parametrize("key", FIELDS)
def test_null_and_omitted_are_still_distinguished_on_the_wire(key: str) -> None:
    """They mean the same in version 1, but a proxy passes on what it was given."""
    name, _ = FIELDS[key]
    assert getattr(updated(**{key: None}), name) is None
    assert getattr(updated(), name) is UNSET


def test_an_update_may_change_all_fields_at_once() -> None:
    everything = updated(**{key: value for key, (_, value) in FIELDS.items()})
    assert [type(item) for item in everything.content or []] == [Content, v1.Diff, v1.Terminal]


# ---- permission, content, locations ----------------------------------------------------------


def test_a_permission_request_may_add_fields_to_the_tool_call() -> None:
    params: Json = {**REQUESTING["params"]}  # type: ignore[dict-item]
    params["toolCall"] = {"toolCallId": "call_001", "title": "t", "content": [DIFF]}
    request = codec.decode(dumps(params), v1.RequestPermissionRequest)
    assert (request.tool_call.title, len(request.tool_call.content)) == ("t", 1)
    assert canonical(codec.to_json(request)) == canonical(params)


@pytest.mark.parametrize("missing", ["sessionId", "toolCall", "options"])
def test_each_field_of_a_permission_request_is_required(missing: str) -> None:
    params: Json = {**REQUESTING["params"]}  # type: ignore[dict-item]
    del params[missing]
    with pytest.raises(Malformed, match=missing):
        codec.decode(dumps(params), v1.RequestPermissionRequest)


@pytest.mark.parametrize("kind", ["allow_once", "allow_always", "reject_once", "reject_always"])
def test_every_kind_of_option_is_read(kind: str) -> None:
    option = codec.decode(dumps({"optionId": "o", "name": "n", "kind": kind}), PermissionOption)
    assert option == PermissionOption("o", "n", kind)


@pytest.mark.parametrize("missing", ["optionId", "name", "kind"])
def test_each_field_of_an_option_is_required(missing: str) -> None:
    option = {"optionId": "o", "name": "n", "kind": "allow_once"}
    del option[missing]
    with pytest.raises(Malformed, match=missing):
        codec.decode(dumps(option), PermissionOption)


def test_a_selected_outcome_names_the_option() -> None:
    with pytest.raises(Malformed, match="optionId"):
        codec.decode(b'{"outcome":{"outcome":"selected"}}', v1.RequestPermissionResponse)


@pytest.mark.parametrize(("given", "expected"), [({}, UNSET), ({"oldText": None}, None)])
def test_a_diff_of_a_new_file_has_no_original_content(given: Json, expected: Any) -> None:
    diff = {"type": "diff", "path": "/x", "newText": "new", **given}
    read = codec.decode(dumps(diff), v1.ToolCallContent)
    assert read.old_text is expected
    assert canonical(codec.to_json(read)) == canonical(diff)


@pytest.mark.parametrize(
    "malformed",
    [
        {"type": "diff", "path": "/x"},
        {"type": "diff", "newText": "new"},
        {"type": "terminal"},
        {"type": "content"},
        {"type": "content", "content": "text"},
    ],
)
def test_known_content_that_is_malformed_is_skipped_and_reported(malformed: Json) -> None:
    faults: list[Any] = []
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "a"}
    read: Any = v1.decode_update(dumps({**update, "content": [malformed, TERMINAL]}), faults)
    assert read.content == [v1.Terminal("term_xyz789")]
    assert len(faults) == 1
    assert faults[0].path.startswith(".content[0]")


def test_the_line_of_a_location_is_optional() -> None:
    read = codec.decode(b'{"path":"/x"}', v1.ToolCallLocation)
    assert read == v1.ToolCallLocation("/x", line=UNSET)


def test_a_location_needs_a_path() -> None:
    with pytest.raises(Malformed, match="path"):
        codec.decode(b'{"line":42}', v1.ToolCallLocation)
