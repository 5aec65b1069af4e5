"""Version 2 → version 1, one update by itself: every row of the table, as JSON in and out."""

from typing import Any

import pytest

from tests.support.strategies import Json, v2_struct
from twofold.convert.downgrade import downgrade, downgrade_outcome, downgrade_permission
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.patches import git_patch
from twofold.wire import codec, v2

TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
SHOWN = {"type": "content", "content": TEXT}
CHUNKS = ["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]
WHOLE = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}


def converted(update: Json) -> tuple[list[Json], list[str]]:
    """What an update becomes, and the paths of what is lost."""
    losses = Losses()
    updates = [codec.to_json(each) for each in downgrade(v2_struct(update), losses)]
    assert all(loss.reason for loss in losses)
    return updates, [loss.path for loss in losses]


def lossless(update: Json) -> Json:
    """The one update that an update becomes, where nothing is lost."""
    updates, losses = converted(update)
    assert losses == []
    (one,) = updates
    return one


def refused(update: Json, *, strict: bool = False) -> str:
    """Where an update is refused."""
    losses = Losses(strict=strict)
    with pytest.raises(NotConvertible) as refusal:
        downgrade(v2_struct(update), losses)
    assert losses == []
    assert refusal.value.reason
    return refusal.value.path


def patch(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", **fields}


def text_of(item: Json) -> str:
    assert item["type"] == "content"
    return str(item["content"]["text"])


# ---- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [{}, {"_meta": {"k": None}}, {"futureField": 1, "?": None}])
@pytest.mark.parametrize(
    "block",
    [
        TEXT,
        IMAGE,
        {**TEXT, "annotations": {"priority": 1}},
        {**TEXT, "annotations": {"audience": None}},
        {**TEXT, "annotations": {"audience": ["user", "assistant"]}},
    ],
)
@pytest.mark.parametrize("kind", CHUNKS)
def test_a_chunk_stays_the_same_with_its_id(kind: str, block: Json, beside: Json) -> None:
    chunk = {"sessionUpdate": kind, "messageId": "m", "content": block, **beside}
    assert lossless(chunk) == chunk


def test_an_empty_id_is_no_id_in_version_1() -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "", "content": TEXT}
    assert converted(chunk) == ([chunk], ["update.messageId"])
    message = {"sessionUpdate": "agent_message", "messageId": "", "content": [TEXT]}
    assert converted(message)[1] == ["update.messageId"]


@pytest.mark.parametrize(("kind", "becomes"), WHOLE.items())
def test_a_whole_message_is_a_chunk_for_each_block(kind: str, becomes: str) -> None:
    update = {"sessionUpdate": kind, "messageId": "m", "content": [TEXT, IMAGE]}
    assert converted(update) == (
        [
            {"sessionUpdate": becomes, "messageId": "m", "content": TEXT},
            {"sessionUpdate": becomes, "messageId": "m", "content": IMAGE},
        ],
        [],
    )


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "update.content"),
        ({"_meta": {"k": 1}}, "update.content"),
        ({"futureField": 1}, "update.content"),
        ({"content": None}, "update.content"),
        ({"content": []}, "update.content"),
        ({"content": [TEXT], "_meta": None}, "update._meta"),
    ],
)
@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_message_that_chunks_cannot_express_is_refused(
    kind: str, fields: Json, path: str, strict: bool
) -> None:
    update = {"sessionUpdate": kind, "messageId": "m", **fields}
    assert refused(update, strict=strict) == path


@pytest.mark.parametrize(
    ("fields", "path"), [({"_meta": {"k": 1}}, "update._meta"), ({"futureField": 1}, "update")]
)
def test_what_a_message_has_beside_its_content_is_lost(fields: Json, path: str) -> None:
    update = {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT], **fields}
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}
    assert converted(update) == ([chunk], [path])


@pytest.mark.parametrize(("tag", "words"), [("_map", "[_map content]"), ("", "[unknown content]")])
def test_unknown_content_is_replaced_by_a_description(tag: str, words: str) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": tag}}
    named = {"type": "text", "text": words}
    assert converted(chunk) == ([{**chunk, "content": named}], ["update.content"])
    (update,), losses = converted(patch(content=[{"type": tag}]))
    assert (text_of(update["content"][0]), losses) == (words, ["update.content[0]"])


def test_an_unknown_audience_is_left_out() -> None:
    block = {**TEXT, "annotations": {"audience": ["user", "_auditor"], "priority": 1}}
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": block}
    kept = {**TEXT, "annotations": {"audience": ["user"], "priority": 1}}
    assert converted(chunk) == (
        [{**chunk, "content": kept}],
        ["update.content.annotations.audience"],
    )


# ---- tool calls ------------------------------------------------------------------------------


def test_a_tool_call_update_keeps_its_fields_and_gains_none() -> None:
    update = patch(
        title="Read",
        name="read_file",
        kind="read",
        status="completed",
        content=[SHOWN],
        locations=[{"path": "/a", "line": 7}],
        rawInput={"path": None},
        rawOutput=0,
        _meta={},
        futureField=None,
    )
    assert lossless(update) == update
    assert lossless(patch()) == patch()


@pytest.mark.parametrize("clear", [None, []])
@pytest.mark.parametrize("field", ["content", "locations"])
def test_a_cleared_collection_is_an_empty_list(field: str, clear: Any) -> None:
    assert lossless(patch(**{field: clear})) == patch(**{field: []})


@pytest.mark.parametrize(("field", "default"), [("kind", "other"), ("status", "pending")])
def test_a_cleared_kind_or_status_is_its_default(field: str, default: str) -> None:
    assert lossless(patch(**{field: None})) == patch(**{field: default})


@pytest.mark.parametrize("field", ["title", "name", "rawInput", "rawOutput", "_meta"])
def test_a_cleared_scalar_is_left_out_and_reported(field: str) -> None:
    assert converted(patch(**{field: None})) == ([patch()], [f"update.{field}"])


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        ("cancelled", "failed"),
        ("paused", "in_progress"),
        ("_acme.waiting", "in_progress"),
        ("", "in_progress"),
    ],
)
def test_a_status_that_version_1_lacks_becomes_one_it_has(status: str, becomes: str) -> None:
    assert converted(patch(status=status)) == ([patch(status=becomes)], ["update.status"])


@pytest.mark.parametrize("kind", ["_acme.dance", "future", ""])
def test_a_kind_that_version_1_lacks_is_other(kind: str) -> None:
    assert converted(patch(kind=kind)) == ([patch(kind="other")], ["update.kind"])


def test_cancelling_a_single_call_is_lost() -> None:
    assert converted(patch(capabilities={"cancel": {}})) == ([patch()], ["update.capabilities"])
    assert lossless(patch(capabilities=None)) == patch()


def test_meta_that_version_1_would_take_for_a_terminal_is_reported() -> None:
    update = patch(_meta={"terminal_output": {"terminal_id": "x", "data": "a"}})
    assert converted(update) == ([update], ["update._meta"])


def test_a_content_chunk_needs_what_came_before() -> None:
    chunk = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": SHOWN}
    assert refused(chunk) == "update"


def test_content_that_version_1_lacks_is_replaced_by_a_description() -> None:
    (update,), losses = converted(
        patch(
            content=[
                {"type": "_chart", "data": []},
                {"type": "content", "content": {"type": "_map"}},
                {"type": "terminal", "terminalId": "x"},
                SHOWN,
            ]
        )
    )
    assert [text_of(item) for item in update["content"]] == [
        *("[_chart content]", "[_map content]", "[terminal x]", "hello")
    ]
    assert losses == ["update.content[0]", "update.content[1].content", "update.content[2]"]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "terminal_update", "terminalId": "x", "command": "ls"},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": ""},
    ],
)
def test_a_terminal_needs_the_tool_calls_that_refer_to_it(update: Json) -> None:
    assert refused(update) == "update"


# ---- diffs -----------------------------------------------------------------------------------


def diff(*changes: Json, text: str | None = None, **fields: Any) -> Json:
    patch_field = {} if text is None else {"patch": {"format": "git_patch", "text": text}}
    return {"type": "diff", "changes": list(changes), **patch_field, **fields}


def contents(*items: Json) -> tuple[list[Json], list[str]]:
    (update,), losses = converted(patch(content=list(items)))
    return update["content"], losses


MODIFIED = {"operation": "modify", "path": "/a"}
ADDED = {"operation": "add", "path": "/a"}


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (MODIFIED, "one\ntwo\n", "one\n2\n"),
        (MODIFIED, "one", "one\n"),
        (MODIFIED, "", "one\n"),
        (MODIFIED, "one\n", ""),
        (ADDED, None, "one\n"),
        (ADDED, None, ""),
    ],
)
def test_a_diff_is_the_two_texts_of_its_hunks(change: Json, old: str | None, new: str) -> None:
    item = diff(change, text=git_patch("/a", old, new), _meta={"k": 1})
    becomes = {"type": "diff", "path": "/a", "oldText": old, "newText": new, "_meta": {"k": 1}}
    assert contents(item) == ([becomes], [])


def test_the_lines_around_a_change_are_all_that_is_shown_of_a_long_file() -> None:
    old = "".join(f"{number}\n" for number in range(100))
    item = diff(MODIFIED, text=git_patch("/a", old, old.replace("50\n", "fifty\n")))
    ((made,), losses) = contents(item)
    assert made["oldText"] == "47\n48\n49\n50\n51\n52\n53\n"
    assert made["newText"] == "47\n48\n49\nfifty\n51\n52\n53\n"
    assert losses == ["update.content[0]"]  # the line numbers


def test_a_deleted_file_has_an_empty_new_text() -> None:
    item = diff({"operation": "delete", "path": "/a"}, text=git_patch("/a", "one\n", None))
    assert contents(item) == (
        [{"type": "diff", "path": "/a", "oldText": "one\n", "newText": ""}],
        ["update.content[0]"],
    )


def test_a_diff_of_several_files_is_several_diffs() -> None:
    text = git_patch("/a", "1\n", "2\n") + git_patch("/b", None, "3\n")
    both = diff(MODIFIED, {"operation": "add", "path": "/b"}, text=text, _meta={"k": 1})
    made, losses = contents(SHOWN, both)
    assert made == [
        SHOWN,
        {"type": "diff", "path": "/a", "oldText": "1\n", "newText": "2\n"},
        {"type": "diff", "path": "/b", "oldText": None, "newText": "3\n"},
    ]
    assert losses == ["update.content[1]"]


def test_a_moved_file_without_changed_lines_is_described_in_words() -> None:
    text = "diff --git /a /b\nsimilarity index 100%\nrename from /a\nrename to /b\n"
    made, losses = contents(diff({"operation": "move", "oldPath": "/a", "path": "/b"}, text=text))
    assert [text_of(item) for item in made] == ["move /a → /b"]
    assert losses == ["update.content[0]"]


def test_a_binary_file_is_described_in_words_beside_the_texts() -> None:
    text = git_patch("/a", "1\n", "2\n") + (
        "diff --git /b /b\nindex 1..2 100644\nBinary files /b and /b differ\n"
    )
    made, losses = contents(diff(MODIFIED, {"operation": "modify", "path": "/b"}, text=text))
    assert made[0]["type"] == "diff"
    assert text_of(made[1]) == "modify /b"
    assert losses == ["update.content[0]"]


@pytest.mark.parametrize(
    "item",
    [
        diff(MODIFIED, {"operation": "copy", "oldPath": "/a", "path": "/b"}),
        diff(MODIFIED, {"operation": "copy", "oldPath": "/a", "path": "/b"}, patch=None),
        diff(MODIFIED, {"operation": "copy", "oldPath": "/a", "path": "/b"}, text="nonsense"),
        diff(MODIFIED, {"operation": "copy", "oldPath": "/a", "path": "/b"}, text=""),
        diff(
            MODIFIED,
            {"operation": "copy", "oldPath": "/a", "path": "/b"},
            patch={"format": "_acme", "text": git_patch("/a", "1", "2")},
        ),
    ],
)
def test_without_a_readable_patch_the_changes_are_described_in_words(item: Json) -> None:
    made, losses = contents(item)
    assert [text_of(each) for each in made] == ["modify /a\ncopy /a → /b"]
    assert losses == ["update.content[0]"]


def test_an_unknown_operation_is_described_in_its_own_words() -> None:
    made, _ = contents(diff({"operation": "_sign", "path": "/a"}, {"operation": "_sign"}))
    assert [text_of(each) for each in made] == ["_sign /a\n_sign"]
    made, _ = contents(diff())
    assert [text_of(each) for each in made] == ["no changes"]


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "modify", "path": "/b"},
        {"operation": "add", "path": "/a"},
        {"operation": "modify", "path": "/a", "fileType": "text"},
        {"operation": "modify", "path": "/a", "_meta": {"k": 1}},
    ],
)
def test_a_change_with_more_than_the_texts_is_reported(change: Json) -> None:
    made, losses = contents(diff(change, text=git_patch("/a", "1\n", "2\n")))
    assert made == [{"type": "diff", "path": "/a", "oldText": "1\n", "newText": "2\n"}]
    assert losses == ["update.content[0]"]


def test_a_diff_of_july_is_read_like_any_other() -> None:
    text = git_patch("/a", "1\n", "2\n")
    july = {"type": "diff", "changes": [MODIFIED], "patch": {"format": "git_patch", "diff": text}}
    assert contents(july) == contents(diff(MODIFIED, text=text))
    assert contents(july)[1] == []


def test_a_diff_of_june_is_version_1s_own() -> None:
    june = {"type": "diff", "path": "/a", "oldText": "1\n" * 99, "newText": "2", "_meta": {"k": 1}}
    assert contents(june) == ([june], [])


# ---- plans -----------------------------------------------------------------------------------


def plan(plan_id: str = "main", *entries: Json, **fields: Any) -> Json:
    items = {"type": "items", "planId": plan_id, "entries": list(entries), **fields}
    return {"sessionUpdate": "plan_update", "plan": items}


def test_a_plan_of_items_is_the_plan() -> None:
    entry = {"content": "a", "priority": "high", "status": "pending", "_meta": {"k": 1}}
    assert lossless({**plan("main", entry), "_meta": {"j": 1}}) == {
        "sessionUpdate": "plan",
        "entries": [entry],
        "_meta": {"j": 1},
    }


def test_version_1_has_one_plan_without_an_id() -> None:
    assert converted(plan("p")) == (
        [{"sessionUpdate": "plan", "entries": []}],
        ["update.plan.planId"],
    )


@pytest.mark.parametrize("beside", [{"_meta": {"k": 1}}, {"futureField": 1}])
def test_what_a_plan_has_beside_its_entries_is_lost(beside: Json) -> None:
    assert converted(plan("main", **beside))[1] == ["update.plan"]


@pytest.mark.parametrize(
    ("field", "word", "becomes"),
    [
        ("status", "cancelled", "pending"),
        ("status", "_blocked", "in_progress"),
        ("priority", "_urgent", "medium"),
    ],
)
def test_a_value_of_a_plan_entry_that_version_1_lacks_is_replaced(
    field: str, word: str, becomes: str
) -> None:
    entry = {"content": "a", "priority": "low", "status": "completed"}
    (update,), losses = converted(plan("main", entry, {**entry, field: word}))
    assert update["entries"] == [entry, {**entry, field: becomes}]
    assert losses == [f"update.plan.entries[1].{field}"]


@pytest.mark.parametrize(
    "form",
    [
        {"type": "file", "planId": "main", "uri": "file:///plan.md"},
        {"type": "markdown", "planId": "main", "content": "# Plan"},
        {"type": "_graph", "planId": "main"},
    ],
)
def test_a_plan_of_another_form_is_dropped_with_a_loss(form: Json) -> None:
    assert converted({"sessionUpdate": "plan_update", "plan": form}) == ([], ["update.plan.type"])


def test_a_removed_plan_is_an_empty_plan() -> None:
    assert converted({"sessionUpdate": "plan_removed", "planId": "main"}) == (
        [{"sessionUpdate": "plan", "entries": []}],
        ["update"],
    )


# ---- commands and config options -------------------------------------------------------------


def test_commands_lose_their_type() -> None:
    update = {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            {
                "type": "command",
                "name": "web",
                "description": "Search",
                "input": {"type": "text", "hint": "query"},
            },
            {"type": "command", "name": "test", "description": "Run", "input": None},
            {"name": "plan", "description": "Without a type, as August wrote it"},
        ],
    }
    assert lossless(update)["availableCommands"] == [
        {"name": "web", "description": "Search", "input": {"hint": "query"}},
        {"name": "test", "description": "Run"},
        {"name": "plan", "description": "Without a type, as August wrote it"},
    ]


def test_commands_and_inputs_of_unknown_types_are_left_out() -> None:
    command = {"name": "a", "description": "A"}
    (update,), losses = converted(
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"type": "_menu", **command},
                {"type": "command", **command, "input": {"type": "_form"}},
            ],
        }
    )
    assert update["availableCommands"] == [command]
    assert losses == ["update.availableCommands[0]", "update.availableCommands[1].input"]


MODE = {
    "type": "select",
    "configId": "session-mode",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [{"groupId": "g", "name": "G", "options": [{"value": "ask", "name": "Ask"}]}],
}


def options(*config_options: Json) -> tuple[list[Json], list[str]]:
    return converted(
        {"sessionUpdate": "config_option_update", "configOptions": list(config_options)}
    )


def test_config_options_and_groups_rename_their_ids_and_the_mode_is_sent_again() -> None:
    updates, losses = options(MODE)
    assert losses == []
    assert updates == [
        {
            "sessionUpdate": "config_option_update",
            "configOptions": [
                {
                    "type": "select",
                    "id": "session-mode",
                    "name": "Mode",
                    "category": "mode",
                    "currentValue": "ask",
                    "options": [
                        {"group": "g", "name": "G", "options": [{"value": "ask", "name": "Ask"}]}
                    ],
                }
            ],
        },
        {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    ]


def test_the_first_select_of_category_mode_is_the_mode() -> None:
    switch = {
        "type": "boolean",
        "configId": "b",
        "name": "B",
        "category": "mode",
        "currentValue": True,
    }
    updates, _ = options(switch, MODE, {**MODE, "configId": "other", "currentValue": "code"})
    assert updates[1] == {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}


def test_without_a_mode_there_is_no_mode_update() -> None:
    updates, losses = options({**MODE, "category": "model"})
    assert [update["sessionUpdate"] for update in updates] == ["config_option_update"]
    assert losses == []


def test_an_option_of_an_unknown_type_is_left_out() -> None:
    (update,), losses = options({"type": "_slider", "configId": "s", "name": "S"})
    assert update["configOptions"] == []
    assert losses == ["update.configOptions[0]"]


# ---- what both versions share, and what version 1 does not know ------------------------------


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "session_info_update", "title": None, "updatedAt": None, "_meta": None},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": None, "_meta": {"k": 1}},
        {"sessionUpdate": "notice", "severity": "_acme", "title": "a", "description": None},
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "_acme"},
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed",
         "summary": [TEXT]},
        {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT},
    ],
)  # fmt: skip
def test_what_both_versions_share_stays_the_same(update: Json) -> None:
    assert lossless(update) == update


def test_unknown_content_of_a_summary_is_replaced_by_a_description() -> None:
    (update,), losses = converted(
        {
            "sessionUpdate": "compaction_update",
            "compactionId": "c",
            "status": "completed",
            "summary": [TEXT, {"type": "_map"}],
        }
    )
    assert update["summary"] == [TEXT, {"type": "text", "text": "[_map content]"}]
    assert losses == ["update.summary[1]"]


@pytest.mark.parametrize(
    "state",
    [
        {"state": "running"},
        {"state": "idle", "stopReason": "end_turn"},
        {"state": "requires_action"},
        {"state": "_asleep"},
    ],
)
def test_the_state_is_lost_outside_a_prompt(state: Json) -> None:
    assert converted({"sessionUpdate": "state_update", **state}) == ([], ["update"])


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "subagent_update", "sessionId": "s"},
        {"sessionUpdate": "session_message", "messageId": "m", "content": [TEXT]},
        {"sessionUpdate": "session_message_chunk", "messageId": "m", "content": TEXT},
    ],
)
def test_what_is_unstable_in_version_1_is_dropped_with_a_loss(update: Json) -> None:
    assert converted(update) == ([], ["update"])


@pytest.mark.parametrize("tag", ["_acme.dev/thing", "future_update", "?", ""])
def test_an_unknown_update_is_dropped_with_a_loss(tag: str) -> None:
    assert converted({"sessionUpdate": tag, "content": 1}) == ([], ["update.sessionUpdate"])


# ---- permission ------------------------------------------------------------------------------

OPTIONS = [
    {"optionId": kind, "name": kind, "kind": kind}
    for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
]


def permission(**fields: Any) -> tuple[Json, list[str]]:
    request = {"sessionId": "s", "title": "Run it?", "options": OPTIONS, **fields}
    losses = Losses()
    read = codec.read(request, v2.RequestPermissionRequest)
    return codec.to_json(downgrade_permission(read, losses)), [loss.path for loss in losses]


def about(**call: Any) -> Json:
    return {"type": "tool_call", "toolCall": {"toolCallId": "t", **call}}


def test_the_subject_of_a_permission_request_is_the_tool_call() -> None:
    call = {"title": "Run it?", "kind": "execute", "rawInput": {"command": "ls"}, "_meta": {}}
    request, losses = permission(subject=about(**call), _meta={"k": 1})
    assert request == {
        "sessionId": "s",
        "toolCall": {"toolCallId": "t", **call},
        "options": OPTIONS,
        "_meta": {"k": 1},
    }
    assert losses == []


def test_a_tool_call_without_a_title_is_asked_about_by_the_title_of_the_request() -> None:
    request, losses = permission(subject=about())
    assert request["toolCall"] == {"toolCallId": "t", "title": "Run it?"}
    assert losses == []


def test_where_both_have_a_title_the_tool_call_keeps_its_own() -> None:
    request, losses = permission(subject=about(title="ls"), description="Lists files.")
    assert request["toolCall"]["title"] == "ls"
    assert losses == ["description", "title"]


def test_the_tool_call_of_a_request_loses_what_an_update_loses() -> None:
    terminal = {"type": "terminal", "terminalId": "x"}
    call = about(title=None, rawInput=None, status="paused", kind="_x", content=[terminal])
    request, losses = permission(subject=call)
    assert request["toolCall"] == {
        "toolCallId": "t",
        "title": "Run it?",
        "kind": "other",
        "status": "in_progress",
        "content": [{"type": "content", "content": {"type": "text", "text": "[terminal x]"}}],
    }
    assert sorted(losses) == [
        *("subject.toolCall.content[0]", "subject.toolCall.kind", "subject.toolCall.rawInput"),
        *("subject.toolCall.status", "subject.toolCall.title"),
    ]


@pytest.mark.parametrize("named", [{}, {"toolCallId": None}, {"toolCallId": "t"}])
def test_a_command_is_asked_about_as_an_execute_call_that_shows_it(named: Json) -> None:
    command = {"type": "command", "command": "rm -r x", "cwd": "/home", **named}
    request, losses = permission(subject=command, description="Cleans up.")
    call = request["toolCall"]
    assert call["toolCallId"] == (named.get("toolCallId") or "permission")
    assert (call["kind"], call["status"], call["title"]) == ("execute", "pending", "Run it?")
    assert call["rawInput"] == {"command": "rm -r x", "cwd": "/home"}
    assert [text_of(item) for item in call["content"]] == ["Cleans up.", "rm -r x\n(in /home)"]
    assert losses == ["subject"]


@pytest.mark.parametrize("subject", [{}, {"subject": None}, {"subject": {"type": "_payment"}}])
def test_any_other_question_is_asked_about_a_call_that_is_made_up(subject: Json) -> None:
    request, losses = permission(**subject, description="It costs 3 €.")
    call = request["toolCall"]
    assert (call["toolCallId"], call["kind"], call["title"]) == ("permission", "other", "Run it?")
    assert [text_of(item) for item in call["content"]] == ["It costs 3 €."]
    assert losses == ["subject"]
    assert "content" not in permission(**subject)[0]["toolCall"]


def test_an_option_of_an_unknown_kind_is_never_passed_for_another() -> None:
    unknown = {"optionId": "x", "name": "Allow", "kind": "_acme.allow"}
    request, losses = permission(subject=about(title="Run it?"), options=[unknown, *OPTIONS])
    assert request["options"] == OPTIONS
    assert losses == ["options[0].kind"]


@pytest.mark.parametrize("kinds", [[], ["_acme.allow"], ["", "allow"]])
def test_a_request_whose_options_version_1_lacks_is_refused(kinds: list[str]) -> None:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    with pytest.raises(NotConvertible) as refusal:
        permission(options=options)
    assert refusal.value.path == "options"


def test_a_permission_request_of_june_keeps_its_tool_call() -> None:
    call = {"toolCallId": "t", "title": "ls"}
    request = codec.read(
        {"sessionId": "s", "toolCall": call, "options": OPTIONS}, v2.RequestPermissionRequest
    )
    losses = Losses()
    made = codec.to_json(downgrade_permission(request, losses))
    assert made == {"sessionId": "s", "toolCall": call, "options": OPTIONS}
    assert losses == []


def test_an_answer_that_version_1_lacks_is_no_choice() -> None:
    losses = Losses()
    answers: list[Json] = [
        {"outcome": {"outcome": "selected", "optionId": "a"}, "_meta": {"k": 1}},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "_later", "optionId": "allow_once"}},
    ]
    made = [
        codec.to_json(downgrade_outcome(codec.read(each, v2.RequestPermissionResponse), losses))
        for each in answers
    ]
    assert made == [*answers[:2], {"outcome": {"outcome": "cancelled"}}]
    assert [loss.path for loss in losses] == ["outcome"]


# ---- losses ----------------------------------------------------------------------------------

LOSSY = [
    {"sessionUpdate": "state_update", "state": "idle"},
    {"sessionUpdate": "_future"},
    {"sessionUpdate": "plan_removed", "planId": "main"},
    plan("p"),
    patch(title=None),
    patch(status="cancelled"),
    patch(kind="_x"),
    patch(content=[{"type": "_x"}]),
    patch(content=[diff(MODIFIED)]),
    {
        "sessionUpdate": "agent_message",
        "messageId": "m",
        "content": [TEXT],
        "_meta": {"k": 1},
    },
]


@pytest.mark.parametrize("update", LOSSY)
def test_strict_refuses_what_best_effort_reports(update: Json) -> None:
    losses = Losses()
    downgrade(v2_struct(update), losses)
    with pytest.raises(NotConvertible) as refusal:
        downgrade(v2_struct(update), Losses(strict=True))
    assert Loss(refusal.value.path, refusal.value.reason) == losses[0]
    assert losses[0].path.startswith("update")
