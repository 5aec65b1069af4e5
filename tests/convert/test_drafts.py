"""Earlier drafts of version 2 → the newest: read whatever they wrote, write one."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.support.strategies import Json, v2_struct, v2_updates, values_of
from twofold.convert.drafts import lift, lift_permission
from twofold.convert.patches import git_patch
from twofold.session import Draft, Session
from twofold.wire import codec, v2

PATCH = git_patch("/a", "1\n", "2\n")
MODIFIED = {"operation": "modify", "path": "/a"}
NEWEST_DIFF: Json = {
    "type": "diff",
    "changes": [MODIFIED],
    "patch": {"format": "git_patch", "text": PATCH},
}
JULY_DIFF: Json = {
    "type": "diff",
    "changes": [MODIFIED],
    "patch": {"format": "git_patch", "diff": PATCH},
}
JUNE_DIFF: Json = {"type": "diff", "path": "/a", "oldText": "1\n", "newText": "2\n"}
BESIDE: Json = {"_meta": {"k": 1}, "futureField": 1}


def lifted(update: Json) -> Json:
    return codec.to_json(lift(v2_struct(update)))  # type: ignore[no-any-return]


def call(*content: Json, **fields: Any) -> Json:
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "content": list(content),
        **fields,
    }


@pytest.mark.parametrize("diff", [JUNE_DIFF, JULY_DIFF], ids=["June", "July"])
def test_a_diff_of_an_earlier_draft_is_a_change_and_a_git_patch(diff: Json) -> None:
    text = {"type": "content", "content": {"type": "text", "text": "a"}}
    assert lifted(call(text, diff, NEWEST_DIFF)) == call(text, NEWEST_DIFF, NEWEST_DIFF)
    chunk = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t"}
    assert lifted({**chunk, "content": diff}) == {**chunk, "content": NEWEST_DIFF}


@pytest.mark.parametrize("no_text", [{}, {"oldText": None}])
def test_a_diff_of_june_without_an_old_text_is_an_addition(no_text: Json) -> None:
    june = {"type": "diff", "path": "/a", "newText": "2\n", **no_text}
    (item,) = lifted(call(june))["content"]
    assert item["changes"] == [{"operation": "add", "path": "/a"}]


@pytest.mark.parametrize("diff", [JUNE_DIFF, JULY_DIFF], ids=["June", "July"])
def test_what_a_diff_has_beside_its_fields_is_kept(diff: Json) -> None:
    assert lifted(call({**diff, **BESIDE}))["content"] == [{**NEWEST_DIFF, **BESIDE}]


def test_what_a_patch_of_july_has_beside_its_fields_is_kept() -> None:
    july = {**JULY_DIFF, "patch": {"format": "git_patch", "diff": PATCH, **BESIDE}}
    newest = {**NEWEST_DIFF, "patch": {"format": "git_patch", "text": PATCH, **BESIDE}}
    assert lifted(call(july))["content"] == [newest]


def test_a_plan_of_june_calls_its_id_plan_id() -> None:
    entries = [{"content": "a", "priority": "low", "status": "pending"}]
    update = {"sessionUpdate": "plan_update", "_meta": {"j": 1}}
    june = {"type": "items", "id": "p", "entries": entries, **BESIDE}
    newest = {"type": "items", "planId": "p", "entries": entries, **BESIDE}
    assert lifted({**update, "plan": june}) == {**update, "plan": newest}
    assert lifted({**update, "plan": newest}) == {**update, "plan": newest}


def test_a_command_of_august_gains_its_type() -> None:
    august = {"name": "a", "description": "A", "input": {"type": "text", "hint": "h"}, **BESIDE}
    unknown = {"type": "_menu", "name": "m", "description": "M"}
    update = {"sessionUpdate": "available_commands_update"}
    assert lifted({**update, "availableCommands": [august, unknown]}) == {
        **update,
        "availableCommands": [{"type": "command", **august}, unknown],
    }


OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def permission(**fields: Any) -> Json:
    request = {"sessionId": "s", "options": OPTIONS, **fields}
    read = codec.read(request, v2.RequestPermissionRequest)
    return codec.to_json(lift_permission(read))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Write a.py", "name": "write"}, "Write a.py"),
        ({"title": None, "name": "write"}, "write"),
        ({}, "Permission needed"),
    ],
)
def test_a_permission_request_of_june_asks_about_its_tool_call(fields: Json, title: str) -> None:
    tool_call = {"toolCallId": "t", **fields, "content": [JUNE_DIFF]}
    assert permission(toolCall=tool_call, **BESIDE) == {
        "sessionId": "s",
        "title": title,
        "subject": {"type": "tool_call", "toolCall": {**tool_call, "content": [NEWEST_DIFF]}},
        "options": OPTIONS,
        **BESIDE,
    }


def test_a_newer_permission_request_may_still_carry_an_older_diff() -> None:
    def request(diff: Json) -> Json:
        subject = {"type": "tool_call", "toolCall": {"toolCallId": "t", "content": [diff]}}
        return permission(title="Sure?", subject=subject)

    assert request(JULY_DIFF) == request(NEWEST_DIFF)


@settings(max_examples=150)
@given(v2_updates())
def test_an_update_of_the_newest_draft_passes_as_it_is(update: Json) -> None:
    struct = v2_struct(update)
    assert lift(struct) is struct


def shapes_in(value: Any) -> Iterator[type]:
    """The classes of everything in an update."""
    if isinstance(value, Struct):
        yield type(value)
        for name in value.__struct_fields__:
            yield from shapes_in(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from shapes_in(item)


EARLIER = {
    *(v2.JuneDiff, v2.JulyDiff, v2.JulyDiffPatch, v2.JunePlanItems, v2.AugustCommand),
    v2.JuneRequestPermissionRequest,
}

earlier_updates = st.one_of(
    values_of(v2.ToolCallUpdate),
    values_of(v2.ToolCallContentChunk),
    values_of(v2.PlanUpdate),
    values_of(v2.AvailableCommandsUpdate),
)


@settings(max_examples=300)
@given(values_of(v2.SessionUpdate) | earlier_updates)
def test_nothing_of_an_earlier_draft_is_left(update: Json) -> None:
    lifted_update = lift(v2_struct(update))
    assert EARLIER.isdisjoint(shapes_in(lifted_update))
    assert lift(lifted_update) is lifted_update


@settings(max_examples=100)
@given(values_of(v2.RequestPermissionRequest))
def test_nothing_of_an_earlier_draft_is_left_in_a_permission_request(request: Json) -> None:
    lifted_request = lift_permission(codec.read(request, v2.RequestPermissionRequest))
    assert EARLIER.isdisjoint(shapes_in(lifted_request))


@settings(max_examples=100)
@given(st.lists(values_of(v2.PlanUpdate), max_size=5), st.sampled_from(Draft))
def test_an_earlier_shape_names_the_same_thing_in_the_session(
    stream: list[Json], draft: Draft
) -> None:
    read, newest = Session("s", draft), Session("s", draft)
    for update in map(v2_struct, stream):
        read.apply(update)
        newest.apply(lift(update))
    assert read.plans.keys() == newest.plans.keys()
