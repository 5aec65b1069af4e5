"""The client guide to session updates, rule by rule: its dialect in, the state of a session out."""

import base64
import json
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peers.validators import SchemaValidator
from twofold.convert.guide import GuideUpgrader, fenced, upgrade_guide
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.session import Message, Session, ToolCall, snapshot
from twofold.session.changes import Changes, ContentAppended, EntryAdded, UnknownAdded
from twofold.wire import codec, guide, v2
from twofold.wire.base import Extras, Fault, Malformed
from twofold.wire.content import AudioContent, ImageContent, TextContent
from twofold.wire.guide import looks_like_guide
from twofold.wire.shared import Content, UsageUpdate

Json: TypeAlias = dict[str, Any]


class Client:
    """A client as the guide wants it: whatever the agent sends becomes the state of a session."""

    def __init__(self) -> None:
        self.losses = Losses()
        self.faults: list[Fault] = []
        self.session = Session("s")
        self._upgrader = GuideUpgrader(self.losses)

    def upgrade(self, update: Json) -> list[v2.SessionUpdate]:
        return self._upgrader.update(codec.read(update, guide.SessionUpdate, self.faults))

    def take(self, *updates: Json) -> Changes:
        """The changes of all `updates`."""
        return tuple(
            change
            for update in updates
            for upgraded in self.upgrade(update)
            for change in self.session.apply(upgraded)
        )

    def call(self, tool_call_id: str = "c") -> ToolCall:
        return self.session.tool_calls[tool_call_id]


@pytest.fixture
def client() -> Client:
    return Client()


def chunk(index: float, content: str | Json, role: str = "agent_message") -> Json:
    block = {"type": "text", "text": content} if isinstance(content, str) else content
    return {"sessionUpdate": f"{role}_chunk", "index": index, "content": block}


def tool_call(tool_call_id: str = "c", **fields: Any) -> Json:
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": tool_call_id,
        "title": "Read file: config.ts",
        **fields,
    }


def tool_call_update(tool_call_id: str = "c", **fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, **fields}


def plan(description: str | None, *steps: Json) -> Json:
    return {"sessionUpdate": "plan", "description": description, "steps": list(steps)}


def current_mode(mode: Any) -> Json:
    return {"sessionUpdate": "current_mode_update", "currentMode": mode}


def config_options(*options: Json) -> Json:
    return {"sessionUpdate": "config_options_update", "configOptions": list(options)}


def commands(*available: Json) -> Json:
    return {"sessionUpdate": "available_commands_update", "availableCommands": list(available)}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def shown(value: str) -> Content:
    return Content(TextContent(value))


def select(**fields: Any) -> Json:
    options = [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]
    return {"name": "Effort", "type": "select", "currentValue": "low", "options": options} | fields


IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
DIFF = "--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-a\n+b\n"
HUNK = "@@ -1 +1 @@\n-a\n+b\n"


# ---- session update flow ---------------------------------------------------------------------


def test_updates_come_before_the_prompt_response(client: Client) -> None:
    client.session.apply(v2.StateUpdate("running"))
    client.take(
        chunk(0, "Let me look.", "agent_thought"),
        chunk(1, "I read "),
        chunk(1, "the file."),
        tool_call(status="pending"),
        tool_call_update(status="completed", appendContent=[text("port = 80")]),
        chunk(2, "It is "),
        chunk(2, "port 80."),
    )
    client.session.apply(v2.StateUpdate("idle", "end_turn"))

    thought, before, call, after = client.session.entries
    assert isinstance(thought, Message)
    assert isinstance(before, Message)
    assert isinstance(call, ToolCall)
    assert isinstance(after, Message)
    assert [thought.text, before.text, after.text] == [
        "Let me look.",
        "I read the file.",
        "It is port 80.",
    ]
    assert (call.status, call.content) == ("completed", [shown("port = 80")])
    assert client.session.stop_reason == "end_turn"
    assert (client.losses, client.faults) == ([], [])


def test_a_notification_names_its_session() -> None:
    params = {"sessionId": "s1", "update": chunk(0, "hi")}
    notification = codec.read(params, guide.SessionNotification)
    assert notification.session_id == "s1"
    assert isinstance(notification.update, guide.AgentMessageChunk)


# ---- update types: messages ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "role", "shape"),
    [
        ("agent_message", "agent", v2.AgentMessageChunk),
        ("agent_thought", "thought", v2.AgentThoughtChunk),
        ("user_message", "user", v2.UserMessageChunk),
    ],
)
def test_a_chunk_belongs_to_the_message_of_its_role_and_index(
    client: Client, tag: str, role: Any, shape: Any
) -> None:
    assert client.upgrade(chunk(3, "hi", tag)) == [shape(f"guide:{role}:3", TextContent("hi"))]
    client.take(chunk(3, "hel", tag), chunk(4, "other", tag), chunk(3, "lo", tag))
    assert client.session.messages[role][f"guide:{role}:3"].text == "hello"
    assert client.session.messages[role][f"guide:{role}:4"].text == "other"


def test_thoughts_and_messages_of_the_same_index_are_separate(client: Client) -> None:
    client.take(chunk(0, "hm", "agent_thought"), chunk(0, "yes"))
    assert [entry.role for entry in client.session.entries if isinstance(entry, Message)] == [
        "thought",
        "agent",
    ]


@pytest.mark.parametrize(
    ("content", "block"),
    [
        (text("hi"), TextContent("hi")),
        (IMAGE, ImageContent("aGk=", "image/png")),
        (AUDIO, AudioContent("aGk=", "audio/wav")),
    ],
)
def test_a_chunk_is_text_an_image_or_audio(client: Client, content: Json, block: Any) -> None:
    client.take(chunk(0, content))
    assert client.session.messages["agent"]["guide:agent:0"].content == [block]


def test_a_chunk_of_unknown_content_is_kept(client: Client) -> None:
    client.take(chunk(0, {"type": "hologram", "size": 3}))
    (block,) = client.session.messages["agent"]["guide:agent:0"].content
    assert codec.to_json(block) == {"type": "hologram", "size": 3}


def test_an_index_is_a_number_however_it_is_written(client: Client) -> None:
    client.take(chunk(1, "a"), chunk(1.0, "b"), chunk(1.5, "c"))
    assert list(client.session.messages["agent"]) == ["guide:agent:1", "guide:agent:1.5"]


def test_a_message_id_is_a_better_name_than_an_index(client: Client) -> None:
    (upgraded,) = client.upgrade(chunk(1, "a") | {"messageId": "m"})
    assert upgraded == v2.AgentMessageChunk("m", TextContent("a"))


def test_a_chunk_without_an_index_continues_the_last_message_and_is_reported(
    client: Client,
) -> None:
    nameless = {"sessionUpdate": "agent_message_chunk", "content": text("b")}
    client.take(chunk(7, "a"), chunk(8, "hm", "agent_thought"), nameless)
    assert client.session.messages["agent"]["guide:agent:7"].text == "ab"
    assert [loss.path for loss in client.losses] == ["update.index"]


# ---- update types: tool calls ----------------------------------------------------------------


def test_a_tool_call_has_an_id_a_title_a_status_and_content(client: Client) -> None:
    client.take(tool_call(status="pending", content=[text("one"), text("two")]))
    call = client.call()
    assert (call.title, call.status) == ("Read file: config.ts", "pending")
    assert call.content == [shown("one"), shown("two")]


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        ("pending", "pending"),
        ("running", "in_progress"),
        ("requires_permission", "pending"),
        ("in_progress", "in_progress"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
        ("on_fire", "on_fire"),
    ],
)
def test_the_status_of_a_tool_call(client: Client, status: str, becomes: str) -> None:
    client.take(tool_call(status=status))
    assert client.call().status == becomes
    client.take(tool_call("d"), tool_call_update("d", status=status))
    assert client.call("d").status == becomes


@pytest.mark.parametrize("nothing", [{}, {"status": None}, {"status": ""}])
def test_an_update_without_a_status_leaves_it(client: Client, nothing: Json) -> None:
    client.take(tool_call(status="running"), tool_call_update(title="Reading", **nothing))
    assert (client.call().status, client.call().title) == ("in_progress", "Reading")


def test_content_is_appended_item_by_item(client: Client) -> None:
    client.take(tool_call(content=[text("a")]))
    upgraded = client.upgrade(tool_call_update(appendContent=[text("b"), IMAGE]))
    image = Content(ImageContent("aGk=", "image/png"))
    assert upgraded == [
        v2.ToolCallContentChunk("c", shown("b")),
        v2.ToolCallContentChunk("c", image),
    ]
    client.take(tool_call_update(appendContent=[text("b"), IMAGE]))
    assert client.call().content == [shown("a"), shown("b"), image]


def test_the_status_changes_before_content_is_appended(client: Client) -> None:
    client.take(tool_call())
    assert client.upgrade(tool_call_update(status="completed", appendContent=[text("b")])) == [
        v2.ToolCallUpdate("c", status="completed"),
        v2.ToolCallContentChunk("c", shown("b")),
    ]


def test_content_of_an_update_replaces_and_more_can_be_appended_to_it(client: Client) -> None:
    client.take(
        tool_call(content=[text("a")]),
        tool_call_update(content=[text("b")], appendContent=[text("c")]),
    )
    assert client.call().content == [shown("b"), shown("c")]


@pytest.mark.parametrize("nothing", [{}, {"appendContent": []}, {"appendContent": None}])
def test_an_update_for_an_unknown_tool_call_creates_it(client: Client, nothing: Json) -> None:
    assert client.take(tool_call_update("new", **nothing)) == (EntryAdded(0),)
    assert client.call("new").status == "pending"


def test_a_new_tool_call_has_no_more_than_it_was_sent(client: Client) -> None:
    assert client.upgrade(tool_call()) == [v2.ToolCallUpdate("c", title="Read file: config.ts")]


def test_a_tool_call_for_a_known_id_replaces_the_call(client: Client) -> None:
    everything: Json = {
        "status": "completed",
        "kind": "read",
        "name": "read",
        "content": [text("a"), {"type": "code", "code": "x", "path": "/b"}],
        "locations": [{"path": "/a", "line": 3}],
        "rawInput": {"a": 1},
        "rawOutput": [2],
        "_meta": {"m": 1},
    }
    client.take(tool_call(**everything))
    assert [location.path for location in client.call().locations] == ["/a", "/b"]
    client.take(tool_call(title="Again"))
    assert client.call() == ToolCall("c", 0, title="Again")
    client.take(tool_call_update(appendContent=[{"type": "code", "code": "x", "path": "/b"}]))
    assert client.call().locations == [v2.ToolCallLocation("/b")]


def test_the_meta_of_a_replaced_call_goes_even_if_unknown_fields_come(client: Client) -> None:
    client.take(tool_call(_meta={"m": 1}), tool_call(mood="good"))
    assert (client.call().meta, client.call().unknown) == (None, {"mood": "good"})


def test_null_counts_as_omitted_in_a_tool_call(client: Client) -> None:
    names = ("title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput")
    nothing: Json = dict.fromkeys([*names, "_meta"])
    assert client.upgrade(tool_call_update(**nothing)) == [v2.ToolCallUpdate("c")]


# ---- rendering tool call content -------------------------------------------------------------


@pytest.mark.parametrize("field", ["content", "appendContent"])
@pytest.mark.parametrize(
    ("item", "becomes"),
    [
        pytest.param(text("hi"), shown("hi"), id="text"),
        pytest.param(IMAGE, Content(ImageContent("aGk=", "image/png")), id="image"),
        pytest.param(
            {"type": "code", "code": "x = 1\n", "language": "python", "path": "/a.py"},
            shown("```python\nx = 1\n```"),
            id="code",
        ),
        pytest.param({"type": "code", "code": "x"}, shown("```\nx\n```"), id="bare code"),
        pytest.param(
            {"type": "patch", "diff": DIFF, "path": "src/x.py"},
            v2.Diff([v2.DiffModify("src/x.py")], v2.DiffPatch("git_patch", DIFF)),
            id="patch",
        ),
        pytest.param(
            {"type": "terminal", "terminalId": "t", "output": "hi", "exitStatus": {"exitCode": 0}},
            v2.Terminal("t"),
            id="terminal",
        ),
        pytest.param(
            {"type": "chart", "bars": [1, 2]},
            v2.UnknownToolCallContent(raw=Extras({"type": "chart", "bars": [1, 2]})),
            id="unknown",
        ),
        pytest.param(
            {"type": "content", "content": text("hi")}, shown("hi"), id="as the versions have it"
        ),
    ],
)
def test_tool_call_content_is_rendered_by_its_type(
    client: Client, field: str, item: Json, becomes: Any
) -> None:
    fields: Json = {field: [item]}
    client.take(tool_call_update(**fields))
    assert client.call().content == [becomes]
    assert (client.losses, client.faults) == ([], [])


def test_unknown_content_is_kept_whole_to_be_rendered_generically(client: Client) -> None:
    chart = {"type": "chart", "bars": [1, {"deep": None}], "_meta": {"a": 1}}
    client.take(tool_call(content=[chart]))
    (content,) = client.call().content
    assert isinstance(content, v2.UnknownToolCallContent)
    assert content.tag == "chart"
    assert codec.to_json(content) == chart


def test_malformed_content_is_passed_over_and_the_rest_is_shown(client: Client) -> None:
    client.take(tool_call_update(appendContent=[text("a"), {"type": "code"}, text("b")]))
    assert client.call().content == [shown("a"), shown("b")]
    assert [fault.path for fault in client.faults] == [".appendContent[1]"]


@pytest.mark.parametrize(
    ("code", "block"),
    [
        ("", "```\n```"),
        ("x", "```\nx\n```"),
        ("x\n", "```\nx\n```"),
        ("x\n\n", "```\nx\n\n```"),
        ("```\nx\n```", "````\n```\nx\n```\n````"),
        ("a ````` b", "``````\na ````` b\n``````"),
    ],
)
def test_a_fence_is_longer_than_any_inside(code: str, block: str) -> None:
    assert fenced(code) == block


def test_a_language_that_would_break_the_fence_is_left_out_and_reported(client: Client) -> None:
    client.take(tool_call(content=[{"type": "code", "code": "x", "language": "a\nb"}]))
    assert client.call().content == [shown("```\nx\n```")]
    assert [loss.path for loss in client.losses] == ["update.content[0].language"]


def test_the_paths_of_code_are_added_to_the_locations_of_its_call(client: Client) -> None:
    def code(path: str | None) -> Json:
        return {"type": "code", "code": "x", "path": path}

    client.take(tool_call(locations=[{"path": "/a", "line": 2}], content=[code("/b"), code("/a")]))
    before = [v2.ToolCallLocation("/a", 2), v2.ToolCallLocation("/b")]
    assert client.call().locations == before
    again = tool_call_update(appendContent=[code("/b"), code(None)])
    assert not any(isinstance(update, v2.ToolCallUpdate) for update in client.upgrade(again))
    client.take(tool_call_update(appendContent=[code("/c"), code("/c")]))
    assert client.call().locations == [*before, v2.ToolCallLocation("/c")]
    client.take(tool_call_update(locations=[]))
    assert client.call().locations == []


# ---- patches ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("diff", "path", "changes"),
    [
        (DIFF, None, [v2.DiffModify("src/x.py")]),
        (DIFF, "src/x.py", [v2.DiffModify("src/x.py")]),
        (DIFF, "/work/src/x.py", [v2.DiffModify("/work/src/x.py")]),
        ("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n", None, [v2.DiffAdd("n")]),
        ("--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", None, [v2.DiffDelete("o")]),
        (
            "diff --git a/o b/n\nrename from o\nrename to n\n",
            None,
            [v2.DiffMove("o", "n")],
        ),
        (
            "diff --git a/o b/n\ncopy from o\ncopy to n\n",
            None,
            [v2.DiffCopy("o", "n")],
        ),
        (
            "diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n",
            None,
            [v2.DiffModify("i.png", "binary")],
        ),
    ],
)
def test_a_patch_is_a_diff_of_the_files_it_touches(
    client: Client, diff: str, path: str | None, changes: Any
) -> None:
    client.take(tool_call(content=[{"type": "patch", "diff": diff, "path": path}]))
    assert client.call().content == [v2.Diff(changes, v2.DiffPatch("git_patch", diff))]
    assert client.losses == []


@pytest.mark.parametrize(
    ("path", "label"), [("x.py", "x.py"), ("my file", "my file\t"), ("a/x", "a/x")]
)
def test_bare_hunks_become_a_patch_of_the_path_beside_them(
    client: Client, path: str, label: str
) -> None:
    client.take(tool_call(content=[{"type": "patch", "diff": HUNK, "path": path}]))
    whole = f"--- {label}\n+++ {label}\n{HUNK}"
    assert client.call().content == [
        v2.Diff([v2.DiffModify(path)], v2.DiffPatch("git_patch", whole))
    ]


@pytest.mark.parametrize("path", ["x", "a\tb", '"x', "a\nb", "/dev/null"])
def test_an_unreadable_patch_becomes_a_modification_of_its_path(client: Client, path: str) -> None:
    diff = HUNK if path != "x" else "make it better"
    client.take(tool_call(content=[{"type": "patch", "diff": diff, "path": path}]))
    assert client.call().content == [
        v2.Diff([v2.DiffModify(path)], v2.DiffPatch("git_patch", diff))
    ]
    assert client.losses == []


def test_a_patch_without_any_path_is_kept_and_reported(client: Client) -> None:
    client.take(tool_call(content=[{"type": "patch", "diff": HUNK}]))
    assert client.call().content == [v2.Diff([], v2.DiffPatch("git_patch", HUNK))]
    assert [loss.path for loss in client.losses] == ["update.content[0]"]


def test_a_path_that_the_patch_is_not_about_is_reported(client: Client) -> None:
    client.take(tool_call(content=[{"type": "patch", "diff": DIFF, "path": "other"}]))
    assert [loss.path for loss in client.losses] == ["update.content[0].path"]


def test_an_empty_patch_is_a_change_without_a_patch(client: Client) -> None:
    client.take(tool_call(content=[{"type": "patch", "diff": "", "path": "x"}]))
    assert client.call().content == [v2.Diff([v2.DiffModify("x")])]


# ---- terminals -------------------------------------------------------------------------------


def terminal(output: str | None = None, status: Any = None, **fields: Any) -> Json:
    item = {"type": "terminal", "terminalId": "t", "output": output, "exitStatus": status}
    return {name: value for name, value in (item | fields).items() if value is not None}


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        (None, None),
        (0, v2.TerminalExitStatus(0)),
        (137, v2.TerminalExitStatus(137)),
        ({"exitCode": 1}, v2.TerminalExitStatus(1)),
        ({"exitCode": None, "signal": "KILL"}, v2.TerminalExitStatus(None, "KILL")),
    ],
)
def test_a_terminal_has_its_output_and_exit_status(
    client: Client, status: Any, becomes: Any
) -> None:
    client.take(tool_call(content=[terminal("größer\n", status)]))
    assert client.session.terminals["t"].output.decode() == "größer\n"
    assert client.session.terminals["t"].exit_status == becomes


def test_a_terminal_is_there_before_it_is_shown(client: Client) -> None:
    output = v2.TerminalOutput(base64.b64encode(b"hi").decode())
    assert client.upgrade(tool_call_update(appendContent=[terminal("hi")])) == [
        v2.TerminalUpdate("t", output=output),
        v2.ToolCallContentChunk("c", v2.Terminal("t")),
    ]


def test_a_terminal_that_says_nothing_yet_is_only_shown(client: Client) -> None:
    assert client.upgrade(tool_call(content=[terminal()]))[:-1] == []


def test_output_is_replaced_and_the_terminal_shown_once(client: Client) -> None:
    client.take(
        tool_call(content=[terminal("a")]),
        tool_call_update(appendContent=[terminal("ab"), text("and then")]),
        tool_call_update(appendContent=[terminal(status=0)]),
    )
    assert client.call().content == [v2.Terminal("t"), shown("and then")]
    assert bytes(client.session.terminals["t"].output) == b"ab"
    assert client.session.terminals["t"].exit_status == v2.TerminalExitStatus(0)


def test_a_terminal_is_shown_again_where_content_was_replaced(client: Client) -> None:
    client.take(
        tool_call(content=[terminal("a")]),
        tool_call_update(content=[text("b")]),
        tool_call_update(appendContent=[terminal("c")]),
    )
    assert client.call().content == [shown("b"), v2.Terminal("t")]


def test_a_terminal_that_carries_more_than_its_output_is_shown_for_it(client: Client) -> None:
    client.take(
        tool_call(content=[terminal("a")]),
        tool_call_update(appendContent=[terminal("b", _meta={"m": 1})]),
    )
    assert client.call().content == [v2.Terminal("t"), v2.Terminal("t", meta={"m": 1})]


def test_output_with_half_a_character_does_not_break_the_session(client: Client) -> None:
    client.take(tool_call(content=[terminal("a\ud800b")]))
    assert bytes(client.session.terminals["t"].output) == b"a?b"


# ---- plans -----------------------------------------------------------------------------------


def test_a_plan_has_a_description_and_steps(client: Client) -> None:
    client.take(
        plan(
            "Fix the port",
            {"description": "Read", "status": "completed"},
            {"description": "Change", "status": "running"},
            {"description": "Test"},
        )
    )
    (update,) = client.session.plans.values()
    entries = [
        v2.PlanEntry("Read", "medium", "completed"),
        v2.PlanEntry("Change", "medium", "in_progress"),
        v2.PlanEntry("Test", "medium", "pending"),
    ]
    assert update.plan == v2.PlanItems("main", entries, meta={"description": "Fix the port"})
    assert client.losses == []


@pytest.mark.parametrize("description", ["", None])
def test_a_plan_without_a_description_carries_none(client: Client, description: str | None) -> None:
    client.take(plan(description, {"description": "a", "status": "pending"}))
    entry = v2.PlanEntry("a", "medium", "pending")
    assert client.session.plans["main"].plan == v2.PlanItems("main", [entry])


def test_a_new_plan_replaces_the_old_one(client: Client) -> None:
    client.take(plan("one", {"description": "a"}), plan("two", {"description": "b"}))
    (update,) = client.session.plans.values()
    assert isinstance(update.plan, v2.PlanItems)
    assert [entry.content for entry in update.plan.entries] == ["b"]


def test_a_plan_of_version_1_is_read_too(client: Client) -> None:
    entry = {"content": "a", "priority": "high", "status": "in_progress"}
    client.take({"sessionUpdate": "plan", "entries": [entry]})
    assert client.session.plans["main"].plan == v2.PlanItems(
        "main", [v2.PlanEntry("a", "high", "in_progress")]
    )


# ---- modes and config options ----------------------------------------------------------------


def mode_of(client: Client) -> tuple[str, list[str]]:
    """The current mode and the names of all modes seen."""
    option = client.session.config_options[0]
    assert isinstance(option, v2.SessionConfigSelect)
    assert (option.config_id, option.category) == ("mode", "mode")
    return option.current_value, [choice.name for choice in option.options]


@pytest.mark.parametrize(
    ("update", "name"),
    [
        (current_mode({"id": "code", "name": "Code"}), "Code"),
        (current_mode({"id": "code"}), "code"),
        (current_mode("code"), "code"),
        ({"sessionUpdate": "current_mode_update", "currentModeId": "code"}, "code"),
        ({"sessionUpdate": "current_mode_update", "modeId": "code"}, "code"),
    ],
)
def test_the_current_mode_is_a_config_option(client: Client, update: Json, name: str) -> None:
    client.take(update)
    assert mode_of(client) == ("code", [name])


def test_the_mode_option_lists_the_modes_seen_so_far(client: Client) -> None:
    client.take(
        current_mode({"id": "ask", "name": "Ask", "description": "Questions only"}),
        current_mode({"id": "code", "name": "Code"}),
        current_mode("ask"),
    )
    assert mode_of(client) == ("ask", ["Ask", "Code"])
    option = client.session.config_options[0]
    assert isinstance(option, v2.SessionConfigSelect)
    assert option.options[0] == v2.SessionConfigUngrouped("ask", "Ask", "Questions only")


@pytest.mark.parametrize("order", [1, -1])
def test_the_mode_is_listed_with_the_other_options(client: Client, order: int) -> None:
    client.take(*[current_mode("code"), config_options(select(id="effort"))][::order])
    ids = [option.config_id for option in client.session.config_options]  # type: ignore[union-attr]
    assert ids == ["mode", "effort"]


def test_the_agents_own_mode_option_rules(client: Client) -> None:
    own = select(configId="m", category="mode", currentValue="low")
    client.take(current_mode("low"), config_options(own), current_mode("high"))
    (option,) = client.session.config_options
    assert isinstance(option, v2.SessionConfigSelect)
    assert (option.config_id, option.current_value) == ("m", "high")
    client.take(current_mode("medium"))
    assert client.session.config_options == [option]
    assert [loss.path for loss in client.losses] == ["update.currentMode"]


def test_a_grouped_mode_option_can_be_set(client: Client) -> None:
    group = {"groupId": "g", "name": "G", "options": [{"value": "deep", "name": "Deep"}]}
    client.take(config_options(select(configId="mode", options=[group])), current_mode("deep"))
    (option,) = client.session.config_options
    assert isinstance(option, v2.SessionConfigSelect)
    assert option.current_value == "deep"


def test_config_options_are_read_in_the_shape_of_either_version(client: Client) -> None:
    boolean = {"name": "Fast", "type": "boolean", "currentValue": True}
    unknown = {"type": "slider", "id": "s", "max": 3}
    client.take(
        config_options(
            select(id="a"), select(configId="a"), boolean | {"id": "b"}, unknown, {"no": "option"}
        )
    )
    first, second, fast, slider = client.session.config_options
    assert first == second
    assert type(first) is type(second) is v2.SessionConfigSelect
    assert fast == v2.SessionConfigBoolean("b", "Fast", current_value=True)
    assert codec.to_json(slider) == unknown
    assert [fault.path for fault in client.faults] == [".configOptions[4].type"]


def test_config_options_are_replaced_whole(client: Client) -> None:
    client.take(config_options(select(id="a"), select(id="b")), config_options(select(id="b")))
    assert len(client.session.config_options) == 1


# ---- commands --------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [{}, {"type": "command"}])
@pytest.mark.parametrize("hinted", [{}, {"type": "text"}])
def test_the_available_commands_change(client: Client, typed: Json, hinted: Json) -> None:
    client.take(commands({"name": "old", "description": "Old"}))
    web = {"name": "web", "description": "Search", "input": {"hint": "query", **hinted}, **typed}
    client.take(commands(web, {"name": "test"}))
    assert client.session.commands == [
        v2.Command("web", "Search", v2.TextCommandInput("query")),
        v2.Command("test", ""),
    ]


def test_unknown_commands_and_inputs_are_kept(client: Client) -> None:
    menu = {"name": "m", "description": "M", "input": {"type": "menu", "hint": "x", "of": [1]}}
    client.take(commands({"type": "gesture", "name": "wave"}, menu))
    assert [codec.to_json(command) for command in client.session.commands] == [
        {"type": "gesture", "name": "wave"},
        {"type": "command", **menu},
    ]


# ---- unknown updates, unknown fields ---------------------------------------------------------


def test_an_unknown_update_is_kept_to_warn_about_and_is_never_fatal(client: Client) -> None:
    weather = {"sessionUpdate": "weather", "sky": ["blue", None]}
    assert client.take(weather, chunk(0, "on we go")) == (UnknownAdded(0), EntryAdded(0))
    (kept,) = client.session.unknown
    assert kept.tag == "weather"
    assert codec.to_json(kept) == weather
    assert client.losses == []


def test_an_update_that_only_the_versions_have_is_understood(client: Client) -> None:
    client.take(
        {"sessionUpdate": "usage_update", "used": 1, "size": 9},
        {"sessionUpdate": "session_info_update", "title": "Ports"},
        current_mode("code"),
        {"sessionUpdate": "config_option_update", "configOptions": [select(configId="a")]},
    )
    assert client.session.usage == UsageUpdate(1, 9)
    assert client.session.title == "Ports"
    assert len(client.session.config_options) == 2
    client.take({"sessionUpdate": "config_option_update", "configOptions": [select(id="b")]})
    assert mode_of(client) == ("code", ["code"])
    option = client.session.config_options[1]
    assert isinstance(option, v2.SessionConfigSelect)
    assert option.config_id == "b"
    assert client.session.unknown == []


def test_an_update_of_the_versions_that_does_not_fit_is_kept_as_it_came(client: Client) -> None:
    client.take({"sessionUpdate": "usage_update", "used": "much"})
    assert [update.tag for update in client.session.unknown] == ["usage_update"]


EXTRA: Json = {"_meta": {"m": 1}, "mood": "good"}


@pytest.mark.parametrize(
    "update",
    [
        chunk(0, "a"),
        tool_call(),
        tool_call_update(status="completed"),
        tool_call_update(appendContent=[text("a")]),
        plan("p", {"description": "a"}),
        current_mode("code"),
        config_options(select(id="a")),
        commands({"name": "a", "description": "b"}),
    ],
    ids=lambda update: update["sessionUpdate"],
)
def test_meta_and_unknown_fields_of_an_update_are_carried(client: Client, update: Json) -> None:
    upgraded = codec.to_json(client.upgrade(update | EXTRA)[0])
    assert {name: upgraded.get(name) for name in EXTRA} == EXTRA
    assert client.losses == []


@pytest.mark.parametrize(
    ("update", "path"),
    [
        (tool_call(content=[{"type": "code", "code": "x", **EXTRA}]), "content/0"),
        (tool_call(content=[{"type": "patch", "diff": DIFF, **EXTRA}]), "content/0"),
        (tool_call(content=[terminal(**EXTRA)]), "content/0"),
        (tool_call(content=[text("a") | EXTRA]), "content/0/content"),
        (plan("p", {"description": "a", **EXTRA}), "plan/entries/0"),
        (current_mode({"id": "a", "name": "A", **EXTRA}), "configOptions/0/options/0"),
        (config_options(select(id="a", **EXTRA)), "configOptions/0"),
        (commands({"name": "a", "description": "b", **EXTRA}), "availableCommands/0"),
        (
            commands({"name": "a", "description": "b", "input": {"hint": "h", **EXTRA}}),
            "availableCommands/0/input",
        ),
    ],
)
def test_meta_and_unknown_fields_inside_an_update_are_carried(
    client: Client, update: Json, path: str
) -> None:
    value = codec.to_json(client.upgrade(update)[-1])
    for step in path.split("/"):
        value = value[int(step) if step.isdigit() else step]
    assert {name: value.get(name) for name in EXTRA} == EXTRA


def test_an_unknown_field_that_version_2_reads_otherwise_is_reported(client: Client) -> None:
    client.take(plan("p", {"description": "a", "content": "b"}))
    assert [loss.path for loss in client.losses] == ["update.steps[0].content"]


# ---- handling cancellation -------------------------------------------------------------------


def test_updates_after_a_cancel_are_accepted_and_shown_as_cancelled(client: Client) -> None:
    client.session.apply(v2.StateUpdate("running"))
    client.take(tool_call(status="running"))
    client.session.cancel()
    client.take(
        chunk(1, "Stopping."),
        tool_call_update(status="cancelled", appendContent=[text("half of it")]),
    )
    cancelling = client.session.cancelling
    assert cancelling
    assert (client.call().status, client.call().content) == ("cancelled", [shown("half of it")])
    assert client.session.messages["agent"]["guide:agent:1"].text == "Stopping."
    client.session.apply(v2.StateUpdate("idle", "cancelled"))
    assert not client.session.cancelling
    assert client.session.stop_reason == "cancelled"


# ---- performance -----------------------------------------------------------------------------


def test_every_text_chunk_is_one_small_fact_that_a_view_can_coalesce(client: Client) -> None:
    client.take(chunk(0, "a"))
    facts = client.take(*[chunk(0, "b")] * 1000)
    assert set(facts) == {ContentAppended(0)}
    assert client.session.messages["agent"]["guide:agent:0"].text == "a" + "b" * 1000


def test_an_update_names_the_one_entry_to_draw_again(client: Client) -> None:
    client.take(*[chunk(index, "a") for index in range(100)])
    assert client.take(chunk(7, "b")) == (ContentAppended(7),)


# ---- without memory --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "losses"),
    [
        (chunk(0, "a"), []),
        (tool_call(content=[{"type": "code", "code": "x", "path": "/a"}]), []),
        (tool_call_update(appendContent=[text("x")]), []),
        (
            tool_call_update(appendContent=[{"type": "code", "code": "x", "path": "/a"}]),
            [Loss("update.locations", "the call's other locations are not known here")],
        ),
        (
            current_mode("code"),
            [Loss("update", "the other modes and config options are not known here")],
        ),
    ],
)
def test_an_update_without_context_becomes_the_same_and_what_is_missing_is_reported(
    client: Client, update: Json, losses: list[Loss]
) -> None:
    alone = Losses()
    assert upgrade_guide(codec.read(update, guide.SessionUpdate), alone) == client.upgrade(update)
    assert alone == losses


def test_strict_refuses_a_loss_and_remembers_nothing_of_it() -> None:
    upgrader = GuideUpgrader(Losses(strict=True))
    items = [terminal("a"), {"type": "patch", "diff": HUNK}]
    with pytest.raises(NotConvertible):
        upgrader.update(codec.read(tool_call(content=items), guide.SessionUpdate))
    assert upgrader.update(codec.read(tool_call(), guide.SessionUpdate)) == [
        v2.ToolCallUpdate("c", title="Read file: config.ts")
    ]


# ---- recognising the dialect -----------------------------------------------------------------


@pytest.mark.parametrize(
    "update",
    [
        chunk(0, "a"),
        chunk(0, "a", "agent_thought"),
        chunk(0, "a", "user_message"),
        tool_call(status="running"),
        tool_call_update(status="requires_permission"),
        tool_call_update(appendContent=[]),
        tool_call(content=[text("a")]),
        tool_call_update(content=[IMAGE]),
        tool_call(content=[{"type": "code", "code": "x"}]),
        tool_call(content=[{"type": "diff"}, {"type": "patch", "diff": ""}]),
        tool_call(content=[terminal("a")]),
        tool_call(content=[terminal(status=0)]),
        plan("p"),
        current_mode("code"),
        config_options(),
    ],
)
def test_an_update_that_only_this_dialect_has_identifies_it(update: Json) -> None:
    assert looks_like_guide(update)


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "agent_message_chunk", "content": text("a")},
        chunk(0, "a") | {"messageId": "m"},
        chunk(True, "a"),
        tool_call(),
        tool_call(status="in_progress", content=[{"type": "content", "content": text("a")}]),
        tool_call(status=["running"], content={"type": "text"}),
        tool_call(content=[terminal(), "text", None, {"type": ["text"]}]),
        tool_call_update(status="completed"),
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
        {"sessionUpdate": "config_option_update", "configOptions": []},
        commands({"name": "a", "description": "b"}),
        {"sessionUpdate": "weather", "index": 1},
        {"sessionUpdate": ["plan"], "steps": []},
        {"steps": []},
        {},
        [],
        None,
    ],
)
def test_an_update_that_the_versions_have_too_does_not_identify_it(update: Any) -> None:
    assert not looks_like_guide(update)


# ---- the laws, for this dialect --------------------------------------------------------------

words = st.sampled_from(["a", "b", "/src/x.py", "t", "", "```", DIFF, HUNK])
texts = words | st.just("half a pair: \ud800")
numbers = st.integers(-1, 3) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | words | st.text(max_size=3)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


def objects(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Json]:
    rest = {"_meta": st.none() | st.just({"m": 1}), "mood": anything}
    return st.fixed_dictionaries(required, optional=optional | rest)


blocks = st.one_of(
    objects({"type": st.just("text"), "text": texts}),
    st.just(IMAGE),
    st.just(AUDIO),
    objects({"type": st.just("hologram")}, size=anything),
)
statuses = st.sampled_from(
    ["pending", "running", "requires_permission", "completed", "failed", "cancelled", "odd"]
)
exits = st.integers(0, 255) | objects({}, exitCode=st.integers(0, 9), signal=words)
tool_content = st.one_of(
    blocks,
    objects({"type": st.just("code"), "code": texts}, language=words, path=words),
    objects({"type": st.just("patch"), "diff": words}, path=words),
    objects({"type": st.just("terminal"), "terminalId": words}, output=texts, exitStatus=exits),
    objects({"type": st.just("content"), "content": blocks}),
)
contents = st.lists(tool_content, max_size=3)
calls = {
    "status": statuses,
    "content": contents,
    "kind": words,
    "locations": st.lists(objects({"path": words}, line=st.integers(1, 9)), max_size=2),
    "rawInput": anything,
    "rawOutput": anything,
}
choices = st.lists(objects({"value": words, "name": words}), min_size=1, max_size=2)
option_fields = {
    "type": st.just("select"),
    "name": words,
    "currentValue": words,
    "options": choices,
}
options = objects({"id": words, **option_fields}) | objects({"configId": words, **option_fields})
modes = words | objects({"id": words}, name=words, description=words)


def updates_of(tag: str, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Json]:
    return objects({"sessionUpdate": st.just(tag), **required}, **optional)


guide_updates = st.one_of(
    *[
        updates_of(f"{role}_chunk", {"index": st.integers(0, 2), "content": blocks})
        for role in ("agent_message", "agent_thought", "user_message")
    ],
    updates_of("tool_call", {"toolCallId": words, "title": words}, **calls),
    updates_of("tool_call_update", {"toolCallId": words}, appendContent=contents, **calls),
    updates_of(
        "plan",
        {"steps": st.lists(objects({"description": words}, status=statuses), max_size=2)},
        description=words,
    ),
    updates_of("current_mode_update", {"currentMode": modes}),
    updates_of("config_options_update", {"configOptions": st.lists(options, max_size=2)}),
    updates_of(
        "available_commands_update",
        {
            "availableCommands": st.lists(
                objects({"name": words, "description": words}, input=objects({"hint": words})),
                max_size=2,
            )
        },
    ),
    updates_of("weather", {}),
)


@st.composite
def guide_ish(draw: st.DrawFn) -> Any:
    """An update in which something may be missing or may be anything."""
    update = dict(draw(guide_updates))
    for name in draw(st.sets(st.sampled_from(sorted(update)), max_size=2)):
        if draw(st.booleans()):
            update[name] = draw(anything | st.lists(tool_content | anything, max_size=2))
        else:
            del update[name]
    return update


@given(guide_updates)
def test_what_is_read_is_written_back_as_it_came(update: Json) -> None:
    faults: list[Fault] = []
    struct = codec.read(update, guide.SessionUpdate, faults)
    assert faults == []
    assert codec.to_json(struct) == update


@given(st.lists(guide_updates, max_size=8))
def test_a_stream_of_the_guide_folds_like_its_snapshot(updates: list[Json]) -> None:
    client = Client()
    client.take(*updates)
    copy = Session("s")
    for update in snapshot(client.session):
        copy.apply(update)
    assert copy == client.session
    assert client.faults == []


@given(st.lists(guide_updates, max_size=8))
def test_what_it_becomes_is_version_2_to_the_letter(updates: list[Json]) -> None:
    client = Client()
    for update in updates:
        for upgraded in client.upgrade(update):
            faults: list[Fault] = []
            again = codec.read(codec.to_json(upgraded), v2.SessionUpdate, faults)
            assert (again, faults) == (upgraded, [])


@given(updates=st.lists(guide_updates, max_size=4))
def test_what_it_becomes_is_valid_by_the_official_schema(
    valid: SchemaValidator, updates: list[Json]
) -> None:
    client = Client()
    for update in updates:
        for upgraded in client.upgrade(update):
            # the validator has no way to take half a surrogate pair
            value = json.loads(json.dumps(codec.to_json(upgraded)).replace("\\ud800", ""))
            assert valid(2, "stable", "SessionUpdate", value) == []


@given(st.lists(guide_ish() | anything, max_size=4), st.booleans())
def test_nothing_a_peer_sends_breaks_more_than_its_update(updates: list[Any], strict: bool) -> None:
    session, upgrader = Session("s"), GuideUpgrader(Losses(strict=strict))
    for update in updates:
        looks_like_guide(update)
        try:
            upgraded = upgrader.update(codec.read(update, guide.SessionUpdate))
        except (Malformed, NotConvertible):
            continue
        for each in upgraded:
            session.apply(each)
            codec.encode(each)
