"""The translators: conversions that need what came before."""

import base64
from typing import Any

import pytest

from tests.support.strategies import Json
from twofold.convert.downgrade import Downgrader
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.upgrade import Upgrader
from twofold.session import Session
from twofold.wire import codec, v1, v2
from twofold.wire.base import Fault, Malformed


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def shown(words: str) -> Json:
    return {"type": "content", "content": text(words)}


def read(update: Json, shape: Any) -> Any:
    faults: list[Fault] = []
    struct = codec.read(update, shape, faults)
    assert not faults
    return struct


class Translator:
    """Either of them, JSON in and out."""

    kind: Any
    shape: Any

    def __init__(self, *, strict: bool = False, **options: Any) -> None:
        self.losses = Losses(strict=strict)
        self.translator = self.kind(self.losses, **options)

    def __call__(self, *updates: Json) -> list[Json]:
        lists = [self.translator.update(read(update, self.shape)) for update in updates]
        return [codec.to_json(each) for updates in lists for each in updates]

    @property
    def lost(self) -> list[str]:
        """Where something was lost since the last look."""
        paths = [loss.path for loss in self.losses]
        self.losses.clear()
        return paths


class Up(Translator):
    """An `Upgrader`, JSON in and out."""

    kind, shape = Upgrader, v1.SessionUpdate

    def prompt(self, *words: str) -> list[Json]:
        blocks = [codec.read(text(each), v1.ContentBlock) for each in words]
        return [codec.to_json(each) for each in self.translator.prompt(blocks)]

    def finish(self, **result: Any) -> Json:
        response = codec.read({"stopReason": "end_turn", **result}, v1.PromptResponse)
        return codec.to_json(self.translator.finished(response))  # type: ignore[no-any-return]

    def setup(self, **result: Any) -> None:
        self.translator.setup(codec.read({"sessionId": "s", **result}, v1.NewSessionResponse))

    def permission(self, **call: Any) -> Json:
        request = {"sessionId": "s", "toolCall": {"toolCallId": "t", **call}, "options": OPTIONS}
        asked = read(request, v1.RequestPermissionRequest)
        return codec.to_json(self.translator.permission(asked))  # type: ignore[no-any-return]


class Down(Translator):
    """A `Downgrader`, JSON in and out."""

    kind, shape = Downgrader, v2.SessionUpdate

    def permission(self, **fields: Any) -> Json:
        request = {"sessionId": "s", "title": "Sure?", "options": OPTIONS, **fields}
        asked = read(request, v2.RequestPermissionRequest)
        return codec.to_json(self.translator.permission(asked))  # type: ignore[no-any-return]


OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]

# ---- up: which message a chunk belongs to ----------------------------------------------------

KINDS = {
    "user_message_chunk": "user",
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
}


def v1_chunk(words: str = "a", kind: str = "agent_message_chunk", **fields: Any) -> Json:
    return {"sessionUpdate": kind, "content": text(words), **fields}


def tool_call(call_id: str = "t", /, **fields: Any) -> Json:
    return {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": "Read", **fields}


def call_update(call_id: str = "t", /, **fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields}


def message_ids(updates: list[Json]) -> list[str]:
    return [update["messageId"] for update in updates if "messageId" in update]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_without_an_id_are_one_message_while_nothing_comes_between(kind: str) -> None:
    up = Up()
    first, second, third = message_ids(
        up(v1_chunk("a", kind), v1_chunk("b", kind), v1_chunk("c", kind))
    )
    assert first == second == third == f"v1:{KINDS[kind]}:1"
    assert up.lost == []


BOUNDARIES: dict[str, Any] = {
    "another kind": lambda up: up(v1_chunk("b", "agent_thought_chunk")),
    "a new tool call": lambda up: up(tool_call()),
    "an update of a new tool call": lambda up: up(call_update()),
    "a permission for a new tool call": lambda up: up.permission(),
    "a new prompt": lambda up: up.prompt("next"),
    "a message with an id of another kind": lambda up: up(
        v1_chunk("b", "user_message_chunk", messageId="m")
    ),
}


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_boundary_ends_the_open_message(boundary: str) -> None:
    up = Up()
    up(v1_chunk())
    BOUNDARIES[boundary](up)
    assert message_ids(up(v1_chunk())) != ["v1:agent:1"]


NO_BOUNDARIES: list[Json] = [
    {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    {"sessionUpdate": "session_info_update", "title": "a"},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
    {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    {"sessionUpdate": "plan", "entries": []},
    {"sessionUpdate": "notice", "severity": "info", "title": "a"},
    {"sessionUpdate": "_future"},
]


@pytest.mark.parametrize("update", NO_BOUNDARIES, ids=lambda update: str(update["sessionUpdate"]))
def test_an_update_about_something_else_does_not_end_the_open_message(update: Json) -> None:
    up = Up()
    up(v1_chunk(), update)
    assert message_ids(up(v1_chunk())) == ["v1:agent:1"]


@pytest.mark.parametrize("again", [call_update(status="completed"), tool_call(title="Again")])
def test_an_update_of_a_known_tool_call_does_not_end_the_open_message(again: Json) -> None:
    up = Up()
    up(tool_call(), v1_chunk())
    up(again)
    up.permission(title="Again")
    assert message_ids(up(v1_chunk())) == ["v1:agent:1"]


def test_a_message_that_was_ended_never_goes_on() -> None:
    up = Up()
    a, b, c = message_ids(up(v1_chunk(), v1_chunk("b", "agent_thought_chunk"), v1_chunk()))
    assert len({a, b, c}) == 3


def test_an_id_of_the_agents_own_is_kept_and_chunks_without_one_join_it() -> None:
    up = Up()
    made = up(
        v1_chunk(messageId="m"),
        v1_chunk(),
        v1_chunk(messageId="n"),
        v1_chunk(messageId="m"),
        v1_chunk(),
    )
    assert message_ids(made) == ["m", "m", "n", "m", "m"]


@pytest.mark.parametrize("no_id", [None, ""])
def test_a_null_or_empty_id_is_no_id(no_id: str | None) -> None:
    up = Up()
    assert message_ids(up(v1_chunk(messageId="m"), v1_chunk(messageId=no_id))) == ["m", "m"]


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        ("agent_message_chunk", "agent_message"),
        ("agent_thought_chunk", "agent_thought"),
        ("user_message_chunk", "user_message"),
    ],
)
def test_all_of_a_message_without_an_id_at_once_and_with_one_is_that_message(
    kind: str, whole: str
) -> None:
    copy = v1_chunk("ab", kind, messageId="m", _meta={"k": 1})
    made = Up()(v1_chunk("a", kind), v1_chunk("b", kind), copy, v1_chunk("c", kind, messageId="m"))
    first = made[0]["messageId"]
    assert made[2] == {
        "sessionUpdate": whole,
        "messageId": first,
        "content": [text("ab")],
        "_meta": {"k": 1},
    }
    assert message_ids(made) == [first] * 4


@pytest.mark.parametrize(
    "before",
    [
        [v1_chunk("a"), v1_chunk("c")],  # another text
        [
            v1_chunk("a"),
            tool_call(),
            v1_chunk("b"),
        ],  # what came after a boundary is another message
        [v1_chunk("ab", messageId="n")],  # it has a name
        [v1_chunk("ab", "agent_thought_chunk")],
        [
            v1_chunk("a"),
            {**v1_chunk("b"), "content": {"type": "image", "data": "", "mimeType": "x"}},
        ],
        [v1_chunk("")],
    ],
)
def test_a_message_with_an_id_that_repeats_no_nameless_one_is_a_message(before: list[Json]) -> None:
    *_, made = Up()(*before, v1_chunk("ab", messageId="m"))
    assert (made["sessionUpdate"], made["messageId"]) == ("agent_message_chunk", "m")


def test_what_comes_after_the_end_of_a_turn_joins_its_last_message() -> None:
    up = Up()
    up.prompt("hi")
    (before,) = message_ids(up(v1_chunk()))
    up.finish()
    assert message_ids(up(v1_chunk())) == [before]
    up.prompt("next")
    assert message_ids(up(v1_chunk())) != [before]


def test_invented_ids_carry_the_prefix_they_are_given() -> None:
    up = Up(prefix="bridge")
    assert message_ids(up(v1_chunk())) == ["bridge:agent:1"]
    assert message_ids(up.prompt("hi")) == ["bridge:user:2"]


def test_a_replay_starts_over_with_new_ids() -> None:
    up = Up()
    up.setup(modes=MODES)
    before = message_ids(up(v1_chunk(), tool_call()))
    up.translator = up.translator.replayed()
    assert message_ids(up(v1_chunk())) != before
    # the call is new again, so that nothing needs to be cleared
    assert up(tool_call()) == [call_update(title="Read")]
    assert up(mode("code"))[0]["configOptions"][0]["name"] == "Mode"


# ---- up: tool calls --------------------------------------------------------------------------


def test_a_tool_call_for_a_new_id_leaves_the_defaults_out() -> None:
    up = Up()
    assert up(tool_call(kind="read")) == [call_update(title="Read", kind="read")]


def test_a_tool_call_for_a_known_id_replaces_explicitly() -> None:
    up = Up()
    up(tool_call(rawInput={"a": 1}, content=[shown("a")], _meta={"k": 1}))
    assert up(tool_call(title="Again", status="failed")) == [
        call_update(
            title="Again",
            name=None,
            kind="other",
            status="failed",
            content=[],
            locations=[],
            rawInput=None,
            rawOutput=None,
            _meta=None,
        )
    ]


@pytest.mark.parametrize("first", ["update", "permission"])
def test_a_call_that_was_not_announced_first_is_known_all_the_same(first: str) -> None:
    up = Up()
    if first == "update":
        up(call_update(rawInput=1))
    else:
        up.permission(rawInput=1)
    assert up(tool_call())[0]["rawInput"] is None


def test_version_1_null_is_never_forwarded() -> None:
    up = Up()
    up(tool_call())
    assert up(call_update(title=None, status=None, content=None, rawInput=None, _meta=None)) == [
        call_update()
    ]


def test_a_permission_is_asked_by_the_title_that_the_call_is_known_by() -> None:
    up = Up()
    up(tool_call(title="Write a.py"))
    assert up.permission()["title"] == "Write a.py"
    assert up.permission(title="Write b.py")["title"] == "Write b.py"
    assert up.permission(name="write_file")["title"] == "Write b.py"


# ---- up: terminals ---------------------------------------------------------------------------

TERMINAL = {"type": "terminal", "terminalId": "x"}


def test_a_terminal_of_the_client_is_text() -> None:
    up = Up()
    (update,) = up(tool_call(content=[TERMINAL]))
    assert update["content"] == [shown("[terminal x]")]
    assert up.lost == ["update.content[0]"]


def test_a_terminal_that_the_client_runs_stays_a_terminal() -> None:
    up = Up(own_terminals=True)
    (update,) = up(tool_call(content=[{**TERMINAL, "_meta": {"k": 1}}]))
    assert update["content"] == [{**TERMINAL, "_meta": {"k": 1}}]
    assert up(call_update(content=None)) == [call_update()]
    assert up.lost == []


def test_a_terminal_that_meta_described_is_known_from_then_on() -> None:
    up = Up()
    up(tool_call(_meta={"terminal_info": {"terminal_id": "x"}}))
    (update,) = up(call_update(content=[TERMINAL, {**TERMINAL, "terminalId": "y"}]))
    assert update["content"] == [TERMINAL, shown("[terminal y]")]
    assert up.lost == ["update.content[1]"]


def test_terminal_output_in_meta_comes_before_the_update_that_carries_it() -> None:
    up = Up()
    meta = {"terminal_output": {"terminal_id": "x", "data": "a"}}
    output, update = up(call_update(content=[TERMINAL], _meta=meta))
    assert output["sessionUpdate"] == "terminal_output_chunk"
    assert update["content"] == [TERMINAL]


def codex_output(name: str, data: str, **fields: Any) -> Json:
    return call_update(_meta={name: {"terminal_id": "x", "data": data}}, **fields)


def screen(up: Up, *updates: Json) -> str:
    """The output of the terminal `x`, after the updates."""
    session = Session("s")
    for update in up(*updates):
        session.apply(read(update, v2.SessionUpdate))
    return session.terminals["x"].output.decode()


def test_terminal_output_that_comes_in_deltas_is_appended() -> None:
    deltas = [codex_output("terminal_output_delta", data) for data in ("h", "i\n", "h")]
    assert screen(Up(), *deltas) == "hi\nh"


@pytest.mark.parametrize(
    ("updates", "shown"),
    [
        ([("terminal_output_delta", "a"), ("terminal_output", "ab")], "ab"),
        ([("terminal_output_delta", "ab"), ("terminal_output", "ab")], "ab"),
        ([("terminal_output_delta", "ab"), ("terminal_output", "c")], "abc"),
        (
            [
                ("terminal_output_delta", "a"),
                ("terminal_output", "ab"),
                ("terminal_output_delta", "c"),
                ("terminal_output", "abcd"),
            ],
            "abcd",
        ),
        ([("terminal_output", "a"), ("terminal_output", "ab")], "aab"),
    ],
)
def test_terminal_output_that_came_in_deltas_is_there_once_when_all_of_it_follows(
    updates: list[tuple[str, str]], shown: str
) -> None:
    assert screen(Up(), *(codex_output(*each) for each in updates)) == shown


def test_terminal_output_under_both_names_in_one_update_is_there_once() -> None:
    def both(data: str) -> Json:
        output = {"terminal_id": "x", "data": data}
        return call_update(_meta={"terminal_output": output, "terminal_output_delta": output})

    assert screen(Up(), both("hi"), both("!")) == "hi!"


def test_a_call_without_content_shows_the_terminal_that_it_has_output_of() -> None:
    up = Up()
    up(tool_call(title="cat a"))
    *_, reference = up(codex_output("terminal_output_delta", "a"))
    assert reference == {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": reference["toolCallId"],
        "content": TERMINAL,
    }
    assert len(up(codex_output("terminal_output_delta", "b"))) == 2  # it is there already


@pytest.mark.parametrize("content", [TERMINAL, shown("what it printed")])
def test_a_call_with_content_is_not_given_a_terminal(content: Json) -> None:
    up = Up(own_terminals=True)
    up(tool_call(content=[content]))
    kinds = [each["sessionUpdate"] for each in up(codex_output("terminal_output_delta", "a"))]
    assert kinds == ["terminal_output_chunk", "tool_call_update"]


# ---- up: modes -------------------------------------------------------------------------------

MODES = {
    "currentModeId": "ask",
    "availableModes": [
        {"id": "ask", "name": "Ask", "description": "Asks first"},
        {"id": "code", "name": "Code"},
    ],
}
MODE_OPTION = {
    "type": "select",
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [
        {"value": "ask", "name": "Ask", "description": "Asks first"},
        {"value": "code", "name": "Code"},
    ],
}
SWITCH = {"type": "boolean", "name": "Fast", "currentValue": True}
OWN_MODE = {
    "type": "select",
    "name": "My mode",
    "category": "mode",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}],
}


def mode(mode_id: str, **fields: Any) -> Json:
    return {"sessionUpdate": "current_mode_update", "currentModeId": mode_id, **fields}


def option_update(*options: Json) -> Json:
    return {"sessionUpdate": "config_option_update", "configOptions": list(options)}


def test_a_mode_update_is_the_full_list_of_options() -> None:
    up = Up()
    up.setup(modes=MODES, configOptions=[{**SWITCH, "id": "fast"}])
    assert up(mode("code", _meta={"k": 1})) == [
        {
            **option_update(
                {**MODE_OPTION, "currentValue": "code"}, {**SWITCH, "configId": "fast"}
            ),
            "_meta": {"k": 1},
        }
    ]
    assert up.lost == []


def test_an_option_update_keeps_the_option_that_replaces_the_modes() -> None:
    up = Up()
    up.setup(modes=MODES)
    assert up(option_update({**SWITCH, "id": "fast"})) == [
        option_update(MODE_OPTION, {**SWITCH, "configId": "fast"})
    ]


def test_a_mode_that_was_never_listed_is_listed_from_then_on() -> None:
    up = Up()
    (update,) = up(mode("code"))
    assert update["configOptions"][0]["options"] == [{"value": "code", "name": "code"}]
    (update,) = up(mode("ask"))
    assert [each["value"] for each in update["configOptions"][0]["options"]] == ["code", "ask"]


@pytest.mark.parametrize(
    "own", [{**OWN_MODE, "id": "my-mode"}, {**SWITCH, "id": "mode"}], ids=["category", "id"]
)
def test_an_agents_own_mode_option_rules(own: Json) -> None:
    up = Up()
    up.setup(modes=MODES, configOptions=[own])
    assert up(mode("code")) == []
    assert [each["name"] for each in up(option_update(own))[0]["configOptions"]] == [own["name"]]
    assert len(up.translator.config_options) == 1


def test_a_mode_that_the_client_chose_is_the_value_of_the_mode_option() -> None:
    up = Up()
    up.setup(modes=MODES)
    assert up.translator.mode_option_id == "mode"
    up.translator.mode_chosen("code")
    assert codec.to_json(up.translator.config_options) == [{**MODE_OPTION, "currentValue": "code"}]
    own = Up()
    own.setup(modes=MODES, configOptions=[{**OWN_MODE, "id": "my-mode"}])
    assert own.translator.mode_option_id == "my-mode"
    own.translator.mode_chosen("b")
    assert codec.to_json(own.translator.config_options) == [
        {**OWN_MODE, "configId": "my-mode", "currentValue": "b"}
    ]


def test_options_of_another_kind_or_category_are_not_the_mode() -> None:
    up = Up()
    model = {**OWN_MODE, "id": "model", "category": "model"}
    switch = {**SWITCH, "id": "fast", "category": "mode"}
    up.setup(configOptions=[model, switch, {**OWN_MODE, "id": "my-mode"}])
    assert up.translator.mode_option_id == "my-mode"
    up.translator.mode_chosen("b")
    values = [each["currentValue"] for each in codec.to_json(up.translator.config_options)]
    assert values == ["a", True, "b"]


def test_what_was_handed_out_does_not_change_later() -> None:
    up = Up()
    update = option_update({**OWN_MODE, "id": "my-mode"})
    (made,) = up.translator.update(read(update, v1.SessionUpdate))
    before = codec.to_json(made)
    up.translator.mode_chosen("b")
    assert codec.to_json(made) == before


# ---- up: turns -------------------------------------------------------------------------------


def test_a_prompt_is_a_message_of_the_user_and_the_beginning_of_work() -> None:
    up = Up()
    message, state = up.prompt("look at", "this")
    assert message == {
        "sessionUpdate": "user_message",
        "messageId": "v1:user:1",
        "content": [text("look at"), text("this")],
    }
    assert state == {"sessionUpdate": "state_update", "state": "running"}
    assert up.translator.prompt_id == "v1:user:1"


def test_the_end_of_a_turn_is_idle_with_the_stop_reason() -> None:
    usage = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
    up = Up()
    assert up.finish(stopReason="max_tokens", usage=usage, _meta={"k": 1}) == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "max_tokens",
        "usage": usage,
        "_meta": {"k": 1},
    }
    assert "usage" not in up.finish(usage=None)


def user(words: str, **fields: Any) -> Json:
    return v1_chunk(words, "user_message_chunk", **fields)


@pytest.mark.parametrize(
    "echo",
    [
        [user("look at"), user("this")],
        [user("look"), user(" "), user("at"), user("this")],
        [user("look at", messageId="u"), user("this", messageId="u")],
        [{**user("look at"), "content": {**text("look at"), "_meta": {"k": 1}}}, user("this")],
    ],
)
def test_the_agents_echo_of_the_prompt_is_swallowed(echo: list[Json]) -> None:
    up = Up()
    up.prompt("look at", "this")
    assert up(*echo) == []
    assert message_ids(up(user("more"))) != []


@pytest.mark.parametrize("words", ["hi", "", "hello world", "ello"])
def test_a_user_message_that_is_not_the_prompt_is_kept(words: str) -> None:
    up = Up()
    up.prompt("hello")
    kept = [update["content"]["text"] for update in up(user(words), user("hello"))]
    assert kept == [words, "hello"]


def test_an_agent_may_repeat_the_text_of_the_user() -> None:
    up = Up()
    up.prompt("hello")
    assert len(up(v1_chunk("hello"), v1_chunk("hello", "agent_thought_chunk"))) == 2
    assert up(user("hello")) == []


def test_plain_text_of_an_answer_goes_the_short_way_while_an_echo_may_still_come() -> None:
    up, slow = Up(), Up()
    up.prompt("hello")
    slow.prompt("hello")
    first, *rest = [read(v1_chunk(words), v1.SessionUpdate) for words in ("a", "b", "c")]
    assert up.translator.plain(first) is None, "it opens the message"
    assert up.translator.update(first) == slow.translator.update(first)
    for update in rest:
        assert [up.translator.plain(update)] == slow.translator.update(update)
    assert up(user("hello")) == []


def test_an_echo_is_swallowed_even_if_a_user_message_was_open() -> None:
    up = Up()
    up(user("before"))
    up.prompt("hello")
    assert up.translator.plain(read(user("hello"), v1.SessionUpdate)) is None
    assert up(user("hello")) == []


def test_text_is_no_echo_of_an_image() -> None:
    up = Up()
    up.translator.prompt([read(IMAGE, v1.ContentBlock)])
    assert len(up(user("hello"))) == 1
    up.prompt("hello")
    assert len(up(v1_chunk("", "user_message_chunk", content=IMAGE))) == 1


def test_after_the_turn_nothing_is_taken_for_an_echo() -> None:
    up = Up()
    up.prompt("hello")
    up.finish()
    assert len(up(user("hello"))) == 1


def test_a_prompt_is_shown_as_version_2_allows_it() -> None:
    up = Up(strict=True)
    block = codec.read({**text("a"), "annotations": {"priority": 7}}, v1.ContentBlock)
    (message, _) = up.translator.prompt([block])
    assert codec.to_json(message)["content"] == [{**text("a"), "annotations": {}}]


# ---- up: what is refused ---------------------------------------------------------------------


def test_an_update_that_strict_refuses_leaves_no_trace() -> None:
    up = Up(strict=True)
    for lossy in (
        v1_chunk("a", "agent_thought_chunk", content={"type": "image", "data": "", "mimeType": "",
                                                  "uri": "no uri"}),
        tool_call(content=[TERMINAL]),
    ):  # fmt: skip
        with pytest.raises(NotConvertible):
            up(lossy)
    assert up(tool_call()) == [call_update(title="Read")]  # still new


# ---- down: messages --------------------------------------------------------------------------


def message(*blocks: Json, message_id: str = "m", kind: str = "agent_message") -> Json:
    return {"sessionUpdate": kind, "messageId": message_id, "content": list(blocks)}


def chunk(block: Json, message_id: str = "m", kind: str = "agent_message_chunk") -> Json:
    return {"sessionUpdate": kind, "messageId": message_id, "content": block}


IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
A, B, C, D, AB, EMPTY = (text(words) for words in ("A", "B", "C", "D", "AB", ""))


@pytest.mark.parametrize(
    ("sent", "whole", "suffix"),
    [
        pytest.param([], [A, IMAGE], [A, IMAGE], id="nothing was shown"),
        pytest.param([A], [A, B], [B], id="a block more"),
        pytest.param([A, B], [A, B], [], id="the same again"),
        pytest.param([A, IMAGE], [A, IMAGE, B], [B], id="after an image"),
        pytest.param([A, EMPTY], [A, EMPTY, B], [B], id="after empty text"),
        pytest.param([EMPTY], [EMPTY], [], id="the same empty text again"),
        pytest.param([A], [A, EMPTY], [EMPTY], id="empty text more"),
    ],
)
def test_a_whole_message_that_extends_what_was_shown_is_its_suffix(
    sent: list[Json], whole: list[Json], suffix: list[Json]
) -> None:
    for begun in ([chunk(block) for block in sent], [message(*sent)] if sent else []):
        down = Down()
        down(*begun)
        assert down(message(*whole)) == [chunk(block) for block in suffix]
        assert down.lost == []


@pytest.mark.parametrize(
    ("sent", "whole", "suffix"),
    [
        pytest.param([A], [AB], [B], id="the text goes on"),
        pytest.param([A, B], [AB], [], id="the pieces were glued"),
        pytest.param([AB], [A, B], [], id="the text was cut"),
        pytest.param([A, text("BC")], [AB, C], [], id="the text was cut elsewhere"),
        pytest.param([text("gr")], [text("größe"), A], [text("öße"), A], id="inside a word"),
        pytest.param([EMPTY, A], [A], [], id="without the empty text"),
        pytest.param([A, EMPTY], [A, IMAGE], [IMAGE], id="something for the empty text"),
        pytest.param([A, B], [AB, EMPTY], [], id="glued, and empty text"),
    ],
)
def test_text_that_is_only_cut_otherwise_is_not_sent_again(
    sent: list[Json], whole: list[Json], suffix: list[Json]
) -> None:
    down = Down()
    down(*(chunk(block) for block in sent))
    assert down(message(*whole)) == [chunk(block) for block in suffix]
    assert down.lost == ["update.content"]


@pytest.mark.parametrize(
    ("sent", "whole"),
    [
        pytest.param([A], [B], id="another text"),
        pytest.param([A, B], [A], id="less than was shown"),
        pytest.param([A, B], [B, A], id="another order"),
        pytest.param([IMAGE], [{**IMAGE, "data": ""}], id="another image"),
        pytest.param([A], [{**A, "_meta": {"k": 1}}], id="other metadata"),
        pytest.param([A], [{**A, "annotations": {"priority": 1}}], id="other annotations"),
        pytest.param([A], [{**A, "futureField": 1}], id="another field"),
        pytest.param([text("\0")], [IMAGE], id="a text that is no image"),
        pytest.param([text("\ud800")], [text("\udc00")], id="half a character"),
    ],
)
def test_a_whole_message_that_replaces_what_was_shown_follows_as_a_correction(
    sent: list[Json], whole: list[Json]
) -> None:
    down = Down()
    down(*(chunk(block) for block in sent))
    made = down(message(*whole))
    assert [update["content"] for update in made] == [text("[correction]\n"), *whole]
    assert {update["messageId"] for update in made}.isdisjoint({"m"})
    assert len(set(message_ids(made))) == 1
    assert down.lost == ["update.content"]


def test_strict_refuses_to_replace_what_was_shown() -> None:
    down = Down(strict=True)
    down(chunk(A))
    with pytest.raises(NotConvertible) as refusal:
        down(message(B))
    assert refusal.value.path == "update.content"
    assert down(message(A, B)) == [chunk(B)]  # what was refused was not shown


def test_after_a_correction_the_message_goes_on_there() -> None:
    down = Down()
    down(chunk(A))
    (corrected,) = set(message_ids(down(message(B))))
    assert down(chunk(C)) == [chunk(C, corrected)]
    down.losses.clear()
    assert down(message(B, C, D)) == [chunk(D, corrected)]
    assert down.lost == []
    (again,) = set(message_ids(down(message(A))))
    assert again not in ("m", corrected)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "update",
    [
        {"content": None},
        {"content": []},
        {"_meta": {"k": 1}},
        {"_meta": None},
        {},
        {"content": [A], "_meta": None},
    ],
)
@pytest.mark.parametrize("sent", [[], [chunk(A)]])
def test_a_whole_message_that_chunks_cannot_express_is_refused_in_both_modes(
    sent: list[Json], update: Json, strict: bool
) -> None:
    down = Down(strict=strict)
    down(*sent)
    with pytest.raises(NotConvertible):
        down({"sessionUpdate": "agent_message", "messageId": "m", **update})
    assert down(message(A, B)) == [chunk(block) for block in ([B] if sent else [A, B])]


def test_messages_of_different_kinds_may_share_an_id() -> None:
    down = Down()
    down(chunk(A), chunk(B, kind="agent_thought_chunk"))
    assert down(message(A, C)) == [chunk(C)]
    assert down(message(B, C, kind="agent_thought")) == [chunk(C, kind="agent_thought_chunk")]
    assert down(message(D, kind="user_message")) == [chunk(D, kind="user_message_chunk")]


def test_interleaved_messages_are_kept_apart() -> None:
    down = Down()
    stream = [chunk(A, "a"), chunk(B, "b"), chunk(C, "a")]
    assert down(*stream) == stream
    assert down(message(A, C, D, message_id="a")) == [chunk(D, "a")]
    assert down.lost == []


@pytest.mark.parametrize(
    "other",
    [
        chunk(text("a"), ""),
        chunk({**text("a"), "_meta": {"k": 1}}),
        {**chunk(text("a")), "_meta": {"k": 1}},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t"},
    ],
)
def test_only_plain_text_goes_the_short_way_down(other: Json) -> None:
    down, slow = Down(), Down()
    for update in (read(chunk(text(words)), v2.SessionUpdate) for words in ("a", "b")):
        assert [down.translator.plain(update)] == slow.translator.update(update)
    assert down.translator.plain(read(other, v2.SessionUpdate)) is None
    whole = {"sessionUpdate": "agent_message", "messageId": "m", "content": [text("a"), text("bc")]}
    assert down(whole) == slow(whole), "what went out is known either way"


# ---- down: tool calls ------------------------------------------------------------------------


def content_chunk(item: Json, call_id: str = "t", **fields: Any) -> Json:
    return {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": call_id,
        "content": item,
        **fields,
    }


def test_an_update_for_a_new_id_is_a_tool_call() -> None:
    down = Down()
    full = {"name": "n", "kind": "read", "status": "completed", "rawInput": 0, "_meta": {"k": 1},
            "content": [shown("a")], "locations": [{"path": "/a"}], "futureField": 1}  # fmt: skip
    assert down(call_update(title="Read", **full)) == [tool_call(**full)]
    assert down.lost == []


def test_an_update_for_a_known_id_is_an_update() -> None:
    down = Down()
    down(call_update(title="Read"))
    assert down(call_update(status="completed")) == [call_update(status="completed")]
    assert down.lost == []


@pytest.mark.parametrize(
    ("update", "title"),
    [
        (call_update(name="read_file", kind="read"), "read_file"),
        (call_update(kind="read"), "read"),
        (call_update(kind="_x"), "other"),
        (call_update(), "Tool call"),
        (call_update(title="", name="read_file"), "read_file"),
        (call_update(title=None, status=None), "Tool call"),
        (content_chunk(shown("a")), "Tool call"),
    ],
)
def test_a_tool_call_needs_a_title(update: Json, title: str) -> None:
    down = Down()
    (made,) = down(update)
    assert (made["sessionUpdate"], made["title"]) == ("tool_call", title)
    assert "update.title" in down.lost


@pytest.mark.parametrize("field", ["name", "rawInput", "rawOutput", "_meta"])
@pytest.mark.parametrize("first", [{}, {"name": None, "rawInput": None, "rawOutput": None}])
def test_clearing_what_was_never_set_loses_nothing(field: str, first: Json) -> None:
    down = Down()
    down(call_update(title="Read", **first))
    down(call_update(**{field: None}))
    assert down.lost == []


@pytest.mark.parametrize("field", ["title", "name", "rawInput", "rawOutput", "_meta"])
def test_a_clear_that_version_1_cannot_express_is_left_out_and_reported(field: str) -> None:
    down = Down()
    value = {"k": 1} if field == "_meta" else "a"
    down(call_update(**{"title": "Read", field: value}))
    assert down(call_update(**{field: None})) == [call_update()]
    assert down.lost == [f"update.{field}"]


def test_a_title_that_was_made_up_cannot_be_cleared_either() -> None:
    down = Down()
    down(call_update(), call_update(title=None))
    assert down.lost == ["update.title", "update.title"]


def test_cleared_collections_are_empty_lists_and_resets_are_the_defaults() -> None:
    down = Down()
    down(call_update(title="Read", content=[shown("a")], kind="read", status="completed"))
    assert down(call_update(content=None, locations=None, kind=None, status=None)) == [
        call_update(content=[], locations=[], kind="other", status="pending")
    ]
    assert down.lost == []


def test_content_chunks_accumulate() -> None:
    down = Down()
    down(call_update(title="Read", content=[shown("a")]))
    assert down(content_chunk(shown("b"))) == [call_update(content=[shown("a"), shown("b")])]
    assert down(content_chunk(shown("c"))) == [
        call_update(content=[shown("a"), shown("b"), shown("c")])
    ]
    down(call_update(content=[shown("d")]))
    assert down(content_chunk(shown("e"))) == [call_update(content=[shown("d"), shown("e")])]
    down(call_update(content=None), call_update(status="completed"))
    assert down(content_chunk(shown("f"))) == [call_update(content=[shown("f")])]
    assert down.lost == []


def test_a_content_chunk_for_a_new_id_is_a_tool_call() -> None:
    down = Down()
    assert down(content_chunk(shown("a"))) == [tool_call(title="Tool call", content=[shown("a")])]
    assert down(content_chunk(shown("b"))) == [call_update(content=[shown("a"), shown("b")])]


def test_content_chunks_of_different_calls_are_kept_apart() -> None:
    down = Down()
    down(call_update("a", title="A"), call_update("b", title="B"))
    down(content_chunk(shown("1"), "a"), content_chunk(shown("2"), "b"))
    (update,) = down(content_chunk(shown("3"), "a"))
    assert update == call_update("a", content=[shown("1"), shown("3")])


@pytest.mark.parametrize("beside", [{"_meta": {"k": 1}}, {"futureField": 1}])
def test_what_a_content_chunk_has_beside_its_content_is_lost(beside: Json) -> None:
    down = Down()
    down(call_update(title="Read"))
    assert down(content_chunk(shown("a"), **beside)) == [call_update(content=[shown("a")])]
    assert down.lost == ["update"]


def test_an_update_that_strict_refuses_was_never_shown() -> None:
    down = Down(strict=True)
    for lossy in (
        call_update(),
        call_update(title="Read", status="cancelled"),
        call_update(title="Read", content=[{"type": "_x"}]),
        content_chunk(shown("a")),
        chunk({"type": "_map"}),
        message(A, {"type": "_map"}),
    ):
        with pytest.raises(NotConvertible):
            down(lossy)
    assert down(call_update(title="Read")) == [tool_call()]
    with pytest.raises(NotConvertible):
        down(call_update(content=[shown("a"), {"type": "_x"}]))
    with pytest.raises(NotConvertible):
        down(content_chunk({"type": "_x"}))
    assert down(content_chunk(shown("b"))) == [call_update(content=[shown("b")])]
    assert down(message(A)) == [chunk(A)]


def test_a_permission_shows_its_tool_call_from_then_on() -> None:
    down = Down()
    call = {"toolCallId": "t", "title": "Sure?", "content": [shown("a")], "rawInput": 1}
    request = down.permission(subject={"type": "tool_call", "toolCall": call})
    assert request["toolCall"] == call
    assert down(content_chunk(shown("b"))) == [call_update(content=[shown("a"), shown("b")])]
    assert down.lost == []
    down(call_update(rawInput=None))
    assert down.lost == ["update.rawInput"]


def test_a_permission_for_a_known_call_shows_its_title() -> None:
    down = Down()
    down(call_update(title="Write a.py"))
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t"}}
    named = {"toolCallId": "t", "title": "Write a.py"}
    assert down.permission(subject=subject)["toolCall"] == named
    assert down.lost == ["title"]
    assert down.permission(subject=subject, title="Write a.py")["toolCall"] == named
    assert down.lost == []


def test_a_command_of_a_known_call_is_shown_beside_what_the_call_shows() -> None:
    down = Down()
    down(call_update(title="Shell", status="in_progress", content=[shown("a")]))
    subject = {"type": "command", "command": "ls", "cwd": "/", "toolCallId": "t"}
    assert down.permission(subject=subject)["toolCall"] == {
        "toolCallId": "t",
        "title": "Shell",
        "content": [shown("a"), shown("ls\n(in /)")],
    }
    assert down(content_chunk(shown("b"))) == [call_update(content=[shown("a"), shown("b")])]


def test_every_call_that_a_permission_makes_up_has_an_id_of_its_own() -> None:
    down = Down()
    made = {down.permission()["toolCall"]["toolCallId"] for _ in range(3)}
    assert len(made) == 3


def test_a_title_that_a_permission_gave_to_its_call_stays() -> None:
    down = Down()
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t"}}
    for _ in range(2):
        asked = down.permission(subject=subject)["toolCall"]
        assert asked == {"toolCallId": "t", "title": "Sure?"}
        assert down.lost == []
    down(call_update(title=None))
    assert down.lost == ["update.title"]


def asked_in_june(down: Down, **call: Any) -> Json:
    request = {"sessionId": "s", "toolCall": {"toolCallId": "t", **call}, "options": OPTIONS}
    asked = read(request, v2.RequestPermissionRequest)
    return codec.to_json(down.translator.permission(asked))  # type: ignore[no-any-return]


def test_a_permission_of_june_is_converted_too() -> None:
    down = Down()
    down(output("a"))
    call = asked_in_june(down, content=[TERMINAL])["toolCall"]
    assert call == {"toolCallId": "t", "content": [shown("a")]}
    assert down(content_chunk(shown("b"))) == [call_update(content=[shown("a"), shown("b")])]


def test_a_call_that_june_asked_about_without_a_title_gets_that_of_the_next_question() -> None:
    down = Down()
    asked_in_june(down)
    subject = {"type": "command", "command": "ls", "cwd": "/", "toolCallId": "t"}
    assert down.permission(subject=subject)["toolCall"]["title"] == "Sure?"


def test_the_losses_of_a_permission_are_reported_with_their_paths() -> None:
    down = Down()
    asked_in_june(down, title="a", status="paused", content=[TERMINAL])
    assert down.lost == ["toolCall.content[0]", "toolCall.status"]
    call = {"toolCallId": "t", "title": None, "status": "paused"}
    down.permission(title="a", subject={"type": "tool_call", "toolCall": call})
    assert down.lost == ["subject.toolCall.title", "subject.toolCall.status"]


def test_a_permission_that_is_refused_shows_nothing() -> None:
    down = Down()
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "a"}}
    with pytest.raises(NotConvertible):
        down.permission(subject=subject, options=[{**OPTIONS[0], "kind": "_x"}])
    assert down(call_update(title="Read")) == [tool_call()]


# ---- down: terminals -------------------------------------------------------------------------


def output(data: str | bytes, terminal_id: str = "x") -> Json:
    raw = data.encode() if isinstance(data, str) else data
    encoded = base64.b64encode(raw).decode()
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": terminal_id, "data": encoded}


def terminal(terminal_id: str = "x", /, **fields: Any) -> Json:
    return {"sessionUpdate": "terminal_update", "terminalId": terminal_id, **fields}


def texts_of(update: Json) -> list[str]:
    return [item["content"]["text"] for item in update["content"]]


def test_output_before_the_reference_shows_with_the_reference() -> None:
    down = Down()
    assert down(terminal(command="ls"), output("a\n")) == []
    assert down.lost == ["update", "update"]
    (made,) = down(call_update(title="Shell", content=[shown("text"), TERMINAL]))
    assert texts_of(made) == ["text", "$ ls\na\n"]
    assert down.lost == ["update.content[1]"]


def test_output_after_the_reference_updates_the_call() -> None:
    down = Down()
    (made,) = down(call_update(title="Shell", content=[TERMINAL, shown("text")]))
    assert texts_of(made) == ["[terminal x]", "text"]
    (made,) = down(output("a\n"))
    assert made == call_update(content=[shown("a\n"), shown("text")])
    (made,) = down(output("b"))
    assert texts_of(made) == ["a\nb", "text"]
    (made,) = down(terminal(exitStatus={"exitCode": 1}))
    assert texts_of(made) == ["a\nb\n[exit 1]", "text"]
    (made,) = down(output("\n"))
    assert texts_of(made) == ["a\nb\n[exit 1]", "text"]


def test_a_reference_in_a_chunk_is_a_reference() -> None:
    down = Down()
    down(call_update(title="Shell"), content_chunk(TERMINAL))
    (made,) = down(output("a"))
    assert made == call_update(content=[shown("a")])


def test_a_reference_in_a_permission_is_a_reference() -> None:
    down = Down()
    call = {"toolCallId": "t", "title": "Sure?", "content": [TERMINAL]}
    down(output("a"))
    request = down.permission(subject={"type": "tool_call", "toolCall": call})
    assert texts_of(request["toolCall"]) == ["a"]
    (made,) = down(output("b"))
    assert texts_of(made) == ["ab"]


def test_every_call_that_refers_to_a_terminal_shows_it() -> None:
    down = Down()
    down(
        call_update("b", title="B", content=[TERMINAL]),
        call_update("a", title="A", content=[TERMINAL, TERMINAL]),
    )
    assert [(made["toolCallId"], texts_of(made)) for made in down(output("o"))] == [
        ("a", ["o", "o"]),
        ("b", ["o"]),
    ]


def test_a_call_that_no_longer_refers_to_a_terminal_does_not_show_it() -> None:
    down = Down()
    down(call_update(title="Shell", content=[TERMINAL]), call_update(content=[shown("done")]))
    assert down(output("a")) == []
    down(call_update(content=[TERMINAL]))
    assert len(down(output("b"))) == 1


def test_characters_and_escape_sequences_may_be_split() -> None:
    down = Down()
    down(call_update(title="Shell", content=[TERMINAL]))
    data = "größe \x1b[31mred\x1b[0m 👩".encode()
    for index in range(len(data)):
        (made,) = down(output(data[index : index + 1]))
    assert texts_of(made) == ["größe red 👩"]


def test_whole_output_replaces_and_null_clears() -> None:
    down = Down()
    down(call_update(title="Shell", content=[TERMINAL]), output("a"))
    data = base64.b64encode(b"b").decode()
    (made,) = down(terminal(output={"data": data}, command="ls"))
    assert texts_of(made) == ["$ ls\nb"]
    (made,) = down(terminal(output=None, command=None, exitStatus={"signal": "SIGTERM"}))
    assert texts_of(made) == ["[ended by SIGTERM]"]
    (made,) = down(terminal(exitStatus={}))
    assert texts_of(made) == ["[ended]"]
    (made,) = down(terminal(exitStatus=None))
    assert texts_of(made) == [""]


def test_only_the_end_of_long_output_is_shown() -> None:
    down = Down(terminal_limit=10)
    down(call_update(title="Shell", content=[TERMINAL]), terminal(command="yes"))
    (made,) = down(output("0123456789" * 100 + "end"))
    assert texts_of(made) == ["$ yes\n3456789end"]


@pytest.mark.parametrize(
    "update", [{**output(""), "data": "a"}, terminal(output={"data": "a"}, command="ls")]
)
def test_output_that_is_not_base64_is_the_agents_mistake_and_changes_nothing(update: Json) -> None:
    down = Down()
    down(call_update(title="Shell", content=[TERMINAL]), output("before"))
    with pytest.raises(Malformed):
        down(update)
    (made,) = down(output(" and after"))
    assert texts_of(made) == ["before and after"]


# ---- down: plans, modes, capabilities --------------------------------------------------------


def plan(plan_id: str, *entries: str) -> Json:
    items = [{"content": each, "priority": "low", "status": "pending"} for each in entries]
    return {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": plan_id, "entries": items},
    }


def removed(plan_id: str) -> Json:
    return {"sessionUpdate": "plan_removed", "planId": plan_id}


NO_PLAN = {"sessionUpdate": "plan", "entries": []}


def test_the_plan_that_is_shown_is_the_last_one() -> None:
    down = Down()
    made = down(plan("a", "one"), plan("b", "two"))
    assert [update["entries"][0]["content"] for update in made] == ["one", "two"]
    assert down.lost == ["update.plan.planId"] * 2


def test_removing_the_plan_that_is_shown_empties_it() -> None:
    down = Down()
    assert down(removed("main")) == [NO_PLAN]
    down(plan("a", "one"))
    assert down(removed("a")) == [NO_PLAN]


def test_removing_another_plan_leaves_the_one_that_is_shown() -> None:
    down = Down()
    down(plan("a", "one"), plan("b", "two"))
    assert down.lost
    assert down(removed("a")) == []
    assert down.lost == ["update.planId"]
    assert down(removed("b")) == [NO_PLAN]


def test_a_plan_of_another_form_is_not_shown_and_leaves_the_one_that_is() -> None:
    down = Down()
    down(plan("a", "one"))
    form = {"type": "markdown", "planId": "b", "content": "# Plan"}
    assert down({"sessionUpdate": "plan_update", "plan": form}) == []
    assert down(removed("b")) == []
    assert down(removed("a")) == [NO_PLAN]


def test_the_mode_among_the_options_is_sent_again_as_the_mode() -> None:
    down = Down()
    made = down(option_update(MODE_OPTION))
    assert made[1] == mode("ask")
    assert down.lost == []


@pytest.mark.parametrize(
    ("update", "capability"),
    [
        ({"sessionUpdate": "notice", "severity": "info", "title": "a"}, "notices"),
        (
            {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"},
            "compactions",
        ),
        (
            {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": A},
            "compactions",
        ),
    ],
)
def test_what_a_client_did_not_advertise_is_dropped_with_a_loss(
    update: Json, capability: str
) -> None:
    without = Down(**{capability: False})
    assert without(update) == []
    assert without.lost == ["update"]
    others = Down(**{name: False for name in ("notices", "compactions") if name != capability})
    assert others(update) == [update]
    assert others.lost == []


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "state_update", "state": "running"},
        {"sessionUpdate": "_future", "x": 1},
        {"sessionUpdate": "subagent_update", "sessionId": "s"},
    ],
)
def test_what_version_1_has_no_words_for_is_dropped_with_a_loss(update: Json) -> None:
    down = Down()
    assert down(update) == []
    assert len(down.lost) == 1


# ---- what a caller may ask, decide and name ----------------------------------------------------


def test_the_caller_may_make_up_the_ids_of_messages() -> None:
    made: list[type] = []

    def new_id(kind: type[v1.ContentChunk]) -> str:
        made.append(kind)
        return f"mine:{len(made)}"

    up = Up(new_id=new_id)
    updates = up(v1_chunk(), v1_chunk("b", "agent_thought_chunk"), v1_chunk("c", messageId="own"))
    assert message_ids(updates) == ["mine:1", "mine:2", "own"]
    assert message_ids(up.prompt("Hi")) == ["mine:3"]
    assert made == [v1.AgentMessageChunk, v1.AgentThoughtChunk, v1.UserMessageChunk]


def test_a_replay_makes_up_ids_as_before_unless_it_is_given_another_way() -> None:
    up = Up(new_id=lambda kind: "first")
    up.setup(modes={"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]})
    chunk = read(v1_chunk(), v1.SessionUpdate)
    for again, name in [
        (up.translator.replayed(), "first"),
        (up.translator.replayed(lambda kind: "second"), "second"),
    ]:
        assert message_ids([codec.to_json(each) for each in again.update(chunk)]) == [name]
        assert again.is_made_mode("mode")
        assert again.config_options == up.translator.config_options != []


def test_the_caller_may_name_the_message_of_a_prompt() -> None:
    up = Up(new_id=lambda kind: pytest.fail("an id was made up"))
    blocks = [codec.read(text("Hi"), v1.ContentBlock)]
    message, running = up.translator.prompt(blocks, "u7")
    assert codec.to_json(message)["messageId"] == up.translator.prompt_id == "u7"
    assert isinstance(running, v2.StateUpdate)
    assert up(v1_chunk("Hi", "user_message_chunk")) == []  # its echo


@pytest.mark.parametrize(
    ("update", "plain"),
    [
        (v1_chunk(messageId="m"), True),
        (v1_chunk(messageId=""), False),
        (v1_chunk(messageId="m", _meta={"k": 1}), False),
        (v1_chunk(messageId="m", extra=1), False),
        ({"sessionUpdate": "notice", "severity": "info", "title": "Hi"}, False),
    ],
)
def test_a_plain_chunk_by_itself_is_what_an_update_makes_of_it(update: Json, plain: bool) -> None:
    chunk = read(update, v2.SessionUpdate)
    lowered = Downgrader().plain(chunk)
    assert (lowered is not None) == plain
    if plain:
        assert [lowered] == Downgrader().update(chunk)


def test_a_message_has_been_sent_from_its_first_content_on() -> None:
    down = Down()
    key = (v1.AgentMessageChunk, "m")
    assert not down.translator.has_sent(*key)
    down(v1_chunk(messageId="m"))
    assert down.translator.has_sent(*key)
    assert not down.translator.has_sent(v1.AgentThoughtChunk, "m")


@pytest.mark.parametrize("asked", [False, True])
def test_a_tool_call_is_known_from_the_update_or_the_request_that_shows_it(asked: bool) -> None:
    down = Down()
    assert not down.translator.knows_call("t")
    assert down.translator.title_of("t") == ""
    if asked:
        call = {"toolCallId": "t", "title": "Read"}
        down.permission(subject={"type": "tool_call", "toolCall": call})
    else:
        down(call_update(title="Read"))
    assert down.translator.knows_call("t")
    assert down.translator.title_of("t") == "Read"


def test_a_terminal_can_be_kept_until_a_tool_call_shows_it() -> None:
    down = Down()
    printed = {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "aGk="}
    down.translator.keep_terminal(read(printed, v2.SessionUpdate))
    assert not down.translator.shows_terminal("x")
    assert down.lost == []
    (call,) = down(call_update(title="Run", content=[{"type": "terminal", "terminalId": "x"}]))
    assert call["content"] == [shown("hi")]
    assert down.translator.shows_terminal("x")
    down(call_update(content=[]))
    assert not down.translator.shows_terminal("x")
