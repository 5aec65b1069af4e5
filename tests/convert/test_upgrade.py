"""Version 1 → version 2, one update by itself: every row of the table, as JSON in and out."""

import base64
from typing import Any

import pytest

from tests.support.strategies import Json, v1_struct
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.upgrade import is_uri, upgrade, upgrade_outcome, upgrade_permission
from twofold.wire import codec, v1
from twofold.wire.base import Fault, Malformed

TEXT = {"type": "text", "text": "hello"}
CHUNKS = ["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]
SHOWN = {"type": "content", "content": TEXT}
WHOLE_CALL: Json = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "t",
    "title": "Read",
    "name": None,
    "kind": "other",
    "status": "pending",
    "content": [],
    "locations": [],
    "rawInput": None,
    "rawOutput": None,
    "_meta": None,
}


def converted(update: Json) -> tuple[list[Json], list[str]]:
    """What an update becomes, and the paths of what is lost."""
    losses = Losses()
    faults: list[Fault] = []
    struct = codec.read(update, v1.SessionUpdate, faults)
    assert not faults
    updates = [codec.to_json(each) for each in upgrade(struct, losses)]
    assert all(loss.reason for loss in losses)
    return updates, [loss.path for loss in losses]


def lossless(update: Json) -> Json:
    """The one update that an update becomes, where nothing is lost."""
    updates, losses = converted(update)
    assert losses == []
    (one,) = updates
    return one


def message_chunk(kind: str = "agent_message_chunk", **fields: Any) -> Json:
    return {"sessionUpdate": kind, "content": TEXT, **fields}


def tool_call(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read", **fields}


def patch(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", **fields}


# ---- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "beside", [{}, {"_meta": {"k": None}}, {"futureField": 1, "?": None, "unknown": 1}]
)
@pytest.mark.parametrize("kind", CHUNKS)
def test_a_chunk_with_an_id_stays_the_same(kind: str, beside: Json) -> None:
    chunk = message_chunk(kind, messageId="m", **beside)
    assert lossless(chunk) == chunk


@pytest.mark.parametrize("kind", CHUNKS)
def test_a_null_meta_of_a_chunk_is_left_out(kind: str) -> None:
    assert lossless(message_chunk(kind, messageId="m", _meta=None)) == message_chunk(
        kind, messageId="m"
    )


@pytest.mark.parametrize("no_id", [{}, {"messageId": None}, {"messageId": ""}])
@pytest.mark.parametrize("kind", CHUNKS)
def test_a_chunk_without_an_id_gets_one_and_its_message_has_no_known_end(
    kind: str, no_id: Json
) -> None:
    ((update,), losses) = converted(message_chunk(kind, **no_id))
    assert update["messageId"].startswith("v1:")
    assert losses == ["update.messageId"]


def test_chunks_of_different_kinds_without_an_id_are_different_messages() -> None:
    invented = {converted(message_chunk(kind))[0][0]["messageId"] for kind in CHUNKS}
    assert len(invented) == 3


@pytest.mark.parametrize(
    ("block", "becomes", "lost"),
    [
        pytest.param(
            {"type": "text", "text": "a", "annotations": {"priority": 7, "audience": ["user"]}},
            {"type": "text", "text": "a", "annotations": {"audience": ["user"]}},
            "update.content.annotations.priority",
            id="a priority above 1",
        ),
        pytest.param(
            {"type": "text", "text": "a", "annotations": {"priority": -0.1}},
            {"type": "text", "text": "a", "annotations": {}},
            "update.content.annotations.priority",
            id="a priority below 0",
        ),
        pytest.param(
            {"type": "resource_link", "name": "a", "uri": "urn:a", "size": -1},
            {"type": "resource_link", "name": "a", "uri": "urn:a"},
            "update.content.size",
            id="a size below 0",
        ),
        pytest.param(
            {"type": "resource_link", "name": "a", "uri": "file:///home/user/a b.py"},
            {"type": "resource_link", "name": "a", "uri": "file:///home/user/a%20b.py"},
            "update.content.uri",
            id="a link with a space",
        ),
        pytest.param(
            {"type": "image", "data": "", "mimeType": "image/png", "uri": "/tmp/a.png"},
            {"type": "image", "data": "", "mimeType": "image/png", "uri": "file:/tmp/a.png"},
            "update.content.uri",
            id="an image with a path",
        ),
        pytest.param(
            {"type": "resource", "resource": {"uri": "größe", "text": "a"}},
            {"type": "resource", "resource": {"uri": "file:gr%C3%B6%C3%9Fe", "text": "a"}},
            "update.content.resource.uri",
            id="a resource with a name",
        ),
    ],
)
def test_a_value_that_version_2_does_not_allow_is_changed_and_reported(
    block: Json, becomes: Json, lost: str
) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": block}
    assert converted(chunk) == ([{**chunk, "content": becomes}], [lost])
    ((update,), losses) = converted(patch(content=[{"type": "content", "content": block}]))
    assert update["content"] == [{"type": "content", "content": becomes}]
    assert losses == [lost.replace("update.content", "update.content[0].content")]


@pytest.mark.parametrize(
    "block",
    [
        *({**TEXT, "annotations": {"priority": priority}} for priority in (0, 0.5, 1, None)),
        {"type": "resource_link", "name": "a", "uri": "urn:a", "size": 0},
        {"type": "resource_link", "name": "a", "uri": "urn:a", "size": 5},
        {"type": "resource_link", "name": "a", "uri": "urn:a", "size": None},
        {"type": "image", "data": "", "mimeType": "", "uri": None},
        {"type": "resource", "resource": {"uri": "urn:a", "text": "a"}},
    ],
)
def test_a_value_that_version_2_allows_stays(block: Json) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": block}
    assert lossless(chunk) == chunk


@pytest.mark.parametrize(
    "uri",
    [
        *("https://example.com/x?y=z#f", "file:///home/user/a%20b.py", "urn:x:1", "mailto:a@b"),
        *("http://user:secret@host:80/", "http://[::1]:80/x", "data:,hello", "file:", "a:b"),
    ],
)
def test_a_uri_is_a_uri(uri: str) -> None:
    assert is_uri(uri)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "/home/a", "//host/a", "a b:c", "1:a", "http://a b", "http://host:port/"),
        *("http://a@b@c", "a:%zz", "a:%2", "a:#b#c", "a:[", "größe:a", "a:ö", "a:\n", "a:\ud800"),
    ],
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_uri(text)


# ---- tool calls ------------------------------------------------------------------------------


def test_a_tool_call_sets_every_field_because_it_may_replace_another() -> None:
    assert lossless(tool_call()) == WHOLE_CALL


def test_a_tool_call_keeps_its_fields() -> None:
    fields = {
        "kind": "read",
        "status": "completed",
        "name": "read_file",
        "content": [SHOWN],
        "locations": [{"path": "/a", "line": 7}],
        "rawInput": {"path": "/a"},
        "rawOutput": "text",
        "_meta": {"k": None},
    }
    assert lossless(tool_call(**fields)) == {**WHOLE_CALL, **fields}


@pytest.mark.parametrize("beside", [{"_meta": None}, {"futureField": 1}])
def test_a_tool_call_without_meta_clears_it(beside: Json) -> None:
    assert lossless(tool_call(**beside))["_meta"] is None


@pytest.mark.parametrize(
    "field", ["title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput"]
)
def test_a_null_of_a_tool_call_update_is_never_forwarded(field: str) -> None:
    assert lossless(patch(**{field: None, "_meta": None})) == patch()


@pytest.mark.parametrize("field", ["content", "locations"])
def test_an_empty_list_stays_an_empty_list(field: str) -> None:
    assert lossless(patch(**{field: []})) == patch(**{field: []})


def test_a_tool_call_update_keeps_its_fields_and_gains_none() -> None:
    update = patch(
        status="failed", rawOutput=False, rawInput=0, title="", _meta={}, futureField=None
    )
    assert lossless(update) == update


@pytest.mark.parametrize("word", ["_acme", "future", ""])
@pytest.mark.parametrize("field", ["kind", "status"])
def test_an_unknown_kind_or_status_is_kept(field: str, word: str) -> None:
    assert lossless(patch(**{field: word})) == patch(**{field: word})


def test_line_0_is_left_out_because_version_2_counts_from_1() -> None:
    ((update,), losses) = converted(
        patch(locations=[{"path": "/a", "line": 1}, {"path": "/b", "line": 0}])
    )
    assert update["locations"] == [{"path": "/a", "line": 1}, {"path": "/b"}]
    assert losses == ["update.locations[1].line"]


def test_a_field_that_only_version_2_has_is_not_passed_for_it() -> None:
    assert converted(patch(capabilities={"cancel": {}})) == ([patch()], ["update.capabilities"])


# ---- diffs -----------------------------------------------------------------------------------


def diff(**fields: Any) -> Json:
    ((update,), losses) = converted(patch(content=[{"type": "diff", "path": "/a", **fields}]))
    assert losses == []
    (item,) = update["content"]
    assert item["type"] == "diff"
    return {name: value for name, value in item.items() if name != "type"}


def test_a_diff_of_two_texts_is_a_modification_with_a_patch() -> None:
    assert diff(oldText="one\n", newText="two\n") == {
        "changes": [{"operation": "modify", "path": "/a"}],
        "patch": {
            "format": "git_patch",
            "text": "diff --git /a /a\n--- /a\n+++ /a\n@@ -1 +1 @@\n-one\n+two\n",
        },
    }


@pytest.mark.parametrize("no_text", [{}, {"oldText": None}])
def test_a_diff_without_an_old_text_is_an_addition(no_text: Json) -> None:
    made = diff(newText="one\n", **no_text)
    assert made["changes"] == [{"operation": "add", "path": "/a"}]
    assert "--- /dev/null\n+++ /a\n@@ -0,0 +1 @@\n+one\n" in made["patch"]["text"]


def test_an_empty_old_text_is_a_file_that_was_there() -> None:
    assert diff(oldText="", newText="one\n")["changes"] == [{"operation": "modify", "path": "/a"}]


def test_equal_texts_have_no_patch() -> None:
    assert diff(oldText="one\n", newText="one\n") == {
        "changes": [{"operation": "modify", "path": "/a"}]
    }


def test_a_missing_newline_at_the_end_is_kept() -> None:
    text = diff(oldText="one", newText="two\n")["patch"]["text"]
    assert "-one\n\\ No newline at end of file\n+two\n" in text


def test_the_meta_of_a_diff_is_kept() -> None:
    assert diff(oldText="", newText="a", _meta={"k": 1}, futureField=1).keys() == {
        *("changes", "patch", "_meta", "futureField")
    }


# ---- terminals -------------------------------------------------------------------------------


def test_a_terminal_of_the_client_is_never_mapped_by_shape_alone() -> None:
    ((update,), losses) = converted(patch(content=[{"type": "terminal", "terminalId": "x"}]))
    assert update["content"] == [
        {"type": "content", "content": {"type": "text", "text": "[terminal x]"}}
    ]
    assert losses == ["update.content[0]"]


def test_a_terminal_that_the_agent_describes_in_meta_is_the_agents() -> None:
    meta = {
        "terminal_info": {"terminal_id": "x", "command": "ls", "cwd": "/home"},
        "terminal_output": {"terminal_id": "x", "data": "größe\n"},
        "terminal_exit": {"terminal_id": "x", "exit_code": 1, "signal": None},
    }
    reference = {"type": "terminal", "terminalId": "x"}
    updates, losses = converted(patch(content=[reference], _meta=meta))
    assert losses == []
    assert updates == [
        {"sessionUpdate": "terminal_update", "terminalId": "x", "command": "ls", "cwd": "/home"},
        {
            "sessionUpdate": "terminal_output_chunk",
            "terminalId": "x",
            "data": base64.b64encode("größe\n".encode()).decode(),
        },
        {"sessionUpdate": "terminal_update", "terminalId": "x", "exitStatus": {"exitCode": 1}},
        patch(content=[reference], _meta=meta),
    ]


@pytest.mark.parametrize(
    ("key", "value", "becomes"),
    [
        ("terminal_exit", {"exit_code": True}, {"exitStatus": {}}),
        ("terminal_exit", {"exit_code": "1", "signal": 9}, {"exitStatus": {}}),
        ("terminal_exit", {"signal": "SIGTERM"}, {"exitStatus": {"signal": "SIGTERM"}}),
        ("terminal_output", {"data": {"a": 1}}, {"data": ""}),
        ("terminal_output", {}, {"data": ""}),
        ("terminal_output_delta", {"data": "a"}, {"data": base64.b64encode(b"a").decode()}),
        ("terminal_output_delta", {"data": 7}, {"data": ""}),
        ("terminal_output", {"data": "\ud800"}, {"data": base64.b64encode(b"?").decode()}),
        ("terminal_info", {"command": ["ls"], "cwd": None}, {}),
    ],
)
def test_what_meta_says_of_a_terminal_counts_only_if_it_fits(
    key: str, value: Json, becomes: Json
) -> None:
    (first, _), _ = converted(patch(_meta={key: {"terminal_id": "x", **value}}))
    assert {k: v for k, v in first.items() if k not in ("sessionUpdate", "terminalId")} == becomes


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, {"terminal_id": 7}])
def test_meta_that_names_no_terminal_is_just_meta(value: Any) -> None:
    update = patch(_meta={"terminal_output": value})
    assert lossless(update) == update


# ---- plans, commands, options, modes ---------------------------------------------------------


def test_the_plan_gets_an_id() -> None:
    entries = [{"content": "a", "priority": "high", "status": "pending", "_meta": {"k": 1}}]
    plan = {"sessionUpdate": "plan", "entries": entries, "_meta": {"j": 1}}
    assert lossless(plan) == {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": "main", "entries": entries},
        "_meta": {"j": 1},
    }


@pytest.mark.parametrize(
    "plan",
    [
        {"type": "items", "planId": "p", "entries": []},
        {"type": "file", "planId": "p", "uri": "file:///plan.md"},
        {"type": "markdown", "planId": "p", "content": "# Plan"},
        {"type": "_future", "planId": "p"},
    ],
)
def test_a_plan_with_an_id_stays_the_same(plan: Json) -> None:
    update = {"sessionUpdate": "plan_update", "plan": plan}
    assert lossless(update) == update


def test_commands_gain_a_type() -> None:
    update = {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            {"name": "web", "description": "Search", "input": {"hint": "query"}},
            {"name": "test", "description": "Run", "input": None},
            {"name": "plan", "description": "Plan"},
        ],
    }
    assert lossless(update)["availableCommands"] == [
        {
            "type": "command",
            "name": "web",
            "description": "Search",
            "input": {"type": "text", "hint": "query"},
        },
        {"type": "command", "name": "test", "description": "Run"},
        {"type": "command", "name": "plan", "description": "Plan"},
    ]


def test_a_field_that_version_2_would_take_for_the_type_is_lost() -> None:
    hint = {"hint": "a", "type": "_form"}
    command = {"name": "web", "description": "Search", "type": "_menu", "input": hint}
    updates, losses = converted(
        {"sessionUpdate": "available_commands_update", "availableCommands": [command]}
    )
    (made,) = updates[0]["availableCommands"]
    assert (made["type"], made["input"]["type"]) == ("command", "text")
    assert sorted(losses) == [
        *("update.availableCommands[0].input.type", "update.availableCommands[0].type")
    ]


def test_config_options_and_groups_rename_their_ids() -> None:
    update = {
        "sessionUpdate": "config_option_update",
        "configOptions": [
            {
                "type": "select",
                "id": "model",
                "name": "Model",
                "currentValue": "a",
                "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
            },
            {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": True},
        ],
    }
    assert lossless(update)["configOptions"] == [
        {
            "type": "select",
            "configId": "model",
            "name": "Model",
            "currentValue": "a",
            "options": [{"groupId": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
        },
        {"type": "boolean", "configId": "fast", "name": "Fast", "currentValue": True},
    ]


@pytest.mark.parametrize("field", ["currentModeId", "modeId"])
def test_a_mode_by_itself_is_an_option_with_one_choice(field: str) -> None:
    update = {"sessionUpdate": "current_mode_update", field: "ask", "_meta": {"k": 1}}
    assert converted(update) == (
        [
            {
                "sessionUpdate": "config_option_update",
                "configOptions": [
                    {
                        "type": "select",
                        "configId": "mode",
                        "name": "Mode",
                        "category": "mode",
                        "currentValue": "ask",
                        "options": [{"value": "ask", "name": "ask"}],
                    }
                ],
                "_meta": {"k": 1},
            }
        ],
        ["update"],
    )


# ---- what both versions share, and what both lack ----------------------------------------


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "session_info_update", "title": None, "updatedAt": None, "_meta": None},
        {"sessionUpdate": "session_info_update", "updatedAt": "2026-11-16T01:02:03Z"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": None},
        {"sessionUpdate": "notice", "severity": "_acme", "title": "a", "description": None},
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"},
        {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT},
        {"sessionUpdate": "plan_removed", "planId": "p"},
        {"sessionUpdate": "subagent_update", "sessionId": "s", "title": None},
        {"sessionUpdate": "session_message", "messageId": "m", "content": [TEXT]},
        {"sessionUpdate": "session_message", "messageId": "m", "content": None},
        {"sessionUpdate": "session_message_chunk", "messageId": "m", "content": TEXT},
    ],
    ids=lambda update: update["sessionUpdate"],
)
def test_what_both_versions_share_stays_the_same(update: Json) -> None:
    assert lossless(update) == update


@pytest.mark.parametrize(
    ("update", "field"),
    [
        (
            {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"},
            "summary",
        ),
        ({"sessionUpdate": "session_message", "messageId": "m"}, "content"),
    ],
)
def test_the_blocks_of_a_summary_or_message_are_converted_too(update: Json, field: str) -> None:
    block = {**TEXT, "annotations": {"priority": 2}}
    updates, losses = converted({**update, field: [TEXT, block]})
    assert updates[0][field] == [TEXT, {**TEXT, "annotations": {}}]
    assert losses == [f"update.{field}[1].annotations.priority"]


@pytest.mark.parametrize("time", ["yesterday", "2026-11-16T01:02:03", "2026-13-16T01:02:03Z", ""])
def test_a_time_that_version_2_does_not_read_is_left_out(time: str) -> None:
    update = {"sessionUpdate": "session_info_update", "title": "a"}
    assert converted({**update, "updatedAt": time}) == ([update], ["update.updatedAt"])


@pytest.mark.parametrize("tag", ["_acme.dev/thing", "future_update", "?", ""])
def test_an_unknown_update_passes_unchanged(tag: str) -> None:
    update = {"sessionUpdate": tag, "content": [None], "_meta": None}
    assert lossless(update) == update


def test_an_update_that_only_version_2_has_passes_unchanged() -> None:
    update = {"sessionUpdate": "state_update", "state": "running"}
    assert lossless(update) == update


def test_an_update_that_only_version_2_has_must_be_valid_there() -> None:
    with pytest.raises(Malformed):
        upgrade(v1_struct({"sessionUpdate": "state_update", "state": 7}), Losses())


def test_unknown_content_passes_unchanged() -> None:
    unknown = {"type": "_acme", "content": None}
    update = patch(content=[unknown, {"type": "content", "content": unknown}])
    assert lossless(update) == update


# ---- permission ------------------------------------------------------------------------------

OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def permission(losses: Losses | None = None, **fields: Any) -> Json:
    request = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": OPTIONS, **fields}
    read = codec.read(request, v1.RequestPermissionRequest)
    lifted = upgrade_permission(read, set(), Losses() if losses is None else losses)
    return codec.to_json(lifted)  # type: ignore[no-any-return]


def test_the_tool_call_of_a_permission_request_is_its_subject() -> None:
    call = {"toolCallId": "t", "title": "Write a.py", "content": [SHOWN]}
    assert permission(toolCall=call, _meta={"k": 1}) == {
        "sessionId": "s",
        "title": "Write a.py",
        "subject": {"type": "tool_call", "toolCall": call},
        "options": OPTIONS,
        "_meta": {"k": 1},
    }


@pytest.mark.parametrize(
    ("call", "title"), [({"name": "write_file"}, "write_file"), ({}, "Permission needed")]
)
def test_a_permission_request_without_a_title_gets_one(call: Json, title: str) -> None:
    assert permission(toolCall={"toolCallId": "t", **call})["title"] == title


def test_a_null_in_the_tool_call_of_a_permission_request_is_not_forwarded() -> None:
    call = {"toolCallId": "t", "title": None, "content": None, "rawInput": None}
    assert permission(toolCall=call)["subject"]["toolCall"] == {"toolCallId": "t"}


def test_a_permission_request_without_options_is_refused() -> None:
    with pytest.raises(NotConvertible) as refusal:
        permission(options=[])
    assert refusal.value.path == "options"


def test_an_option_of_an_unknown_kind_is_kept_as_it_is() -> None:
    options = [{"optionId": "x", "name": "X", "kind": "_acme.allow"}]
    assert permission(options=options)["options"] == options


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "selected", "optionId": "yes"}, "_meta": {"k": 1}},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "_later", "x": 1}},
    ],
)
def test_the_answer_to_a_permission_request_stays_the_same(answer: Json) -> None:
    assert (
        codec.to_json(upgrade_outcome(codec.read(answer, v1.RequestPermissionResponse))) == answer
    )


# ---- losses ----------------------------------------------------------------------------------

LOSSY = [
    message_chunk(),
    patch(locations=[{"path": "/a", "line": 0}]),
    patch(content=[{"type": "terminal", "terminalId": "x"}]),
    patch(capabilities={}),
    {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    {"sessionUpdate": "session_info_update", "updatedAt": "now"},
    {
        "sessionUpdate": "config_option_update",
        "configOptions": [
            {"type": "select", "id": "a", "name": "A", "currentValue": "x", "options": []}
        ],
    },
]


@pytest.mark.parametrize("update", LOSSY)
def test_strict_refuses_what_best_effort_reports(update: Json) -> None:
    losses = Losses()
    upgrade(v1_struct(update), losses)
    with pytest.raises(NotConvertible) as refusal:
        upgrade(v1_struct(update), Losses(strict=True))
    assert Loss(refusal.value.path, refusal.value.reason) == losses[0]
    assert losses[0].path.startswith("update")
