"""What a permission request would do: every fact of the request and its call, each once."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.test_laws import opcodes
from tests.support.strategies import texts, tool_call_patches_v2, v2_permission_requests
from twofold.session import Session, Terminal
from twofold.text import one_line, sanitize
from twofold.view.blocks import (
    CommandPart,
    DiffItem,
    Location,
    NotePart,
    PathsPart,
    QuestionBlock,
    TextPart,
    Value,
    ValuesPart,
)
from twofold.view.question import MOST_VALUES, question_block
from twofold.wire import codec, v2

Json = dict[str, Any]
OPTIONS = [{"optionId": "o", "name": "Yes", "kind": "allow_once"}]
TITLE_ONLY = NotePart("The agent shows only this title.")
BEFORE = NotePart("Before it asked, the agent showed for the same tool call:")


def text(words: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": words}}


def asked(subject: Json | None, *updates: Json, **fields: Any) -> QuestionBlock:
    """The block of a request, after updates of the same session."""
    session = Session("s")
    for update in updates:
        session.apply(codec.read({"sessionUpdate": "tool_call_update", **update}, v2.SessionUpdate))
    params = {"sessionId": "s", "title": "May I?", "options": OPTIONS, **fields}
    if subject is not None:
        params["subject"] = subject
    return of_session(session, codec.read(params, v2.RequestPermissionRequest))


def of_session(session: Session, request: v2.RequestPermissionRequest) -> QuestionBlock:
    session.ask(1, request)
    permission = session.permissions[1]
    return question_block(
        request,
        call=session.tool_calls.get(permission.tool_call_id or ""),
        before=permission.before,
        terminals=session.terminals,
    )


def of_call(*updates: Json, **fields: Any) -> QuestionBlock:
    """The block of a request about the tool call `t`."""
    return asked({"type": "tool_call", "toolCall": {"toolCallId": "t", **fields}}, *updates)


# ---- what there is -----------------------------------------------------------------------------


def test_a_command_is_shown_with_its_directory() -> None:
    block = asked({"type": "command", "command": "make\nmake install", "cwd": "/w"})
    assert block.parts == (CommandPart("make\nmake install", "/w"),)


@pytest.mark.parametrize(
    ("cwd", "shown"),
    [("/w", None), ("/w/", None), ("/w/sub", "/w/sub"), ("/", "/"), ("/w\x1b[0m", "/w")],
)
def test_the_directory_of_a_command_is_not_shown_where_it_is_the_one_of_the_session(
    cwd: str, shown: str | None
) -> None:
    subject = {"type": "command", "command": "make", "cwd": cwd}
    params = {"sessionId": "s", "title": "May I?", "options": OPTIONS, "subject": subject}
    request = codec.read(params, v2.RequestPermissionRequest)
    assert question_block(request, directories=["/w"]).parts == (CommandPart("make", shown),)


def test_words_that_only_repeat_a_command_and_its_directory_are_left_out() -> None:
    command = {"command": "make", "cwd": "/w"}
    texts = ("make\n(in /w)", "make\n(in /other)")
    content = [{"type": "content", "content": {"type": "text", "text": each}} for each in texts]
    assert of_call(rawInput=command, content=content).parts == (
        CommandPart("make", "/w"),
        TextPart("make\n(in /other)"),
    )


def test_what_is_only_a_title_is_called_so() -> None:
    assert asked(None).parts == (TITLE_ONLY,)
    assert of_call(kind="execute").parts == (TITLE_ONLY,)
    assert of_call(title="May I?").parts == (TITLE_ONLY,)


def test_what_is_only_words_is_called_so() -> None:
    block = asked(None, description="It is harmless.")
    assert block.parts == (
        TextPart("It is harmless."),
        NotePart("The agent shows only these words."),
    )


def test_raw_input_is_shown_beside_content() -> None:
    block = of_call(
        content=[text("Lists the files")], rawInput={"script": "rm -rf ~", "force": True}
    )
    assert block.parts == (
        CommandPart("rm -rf ~", name="script"),
        TextPart("Lists the files"),
        ValuesPart("input", (Value(0, "force", "true"),)),
    )


def test_raw_input_is_shown_to_its_end() -> None:
    long = "x" * 100_000 + " the end"
    assert of_call(rawInput={"query": long}).parts == (
        ValuesPart("input", (Value(0, "query", long),)),
    )


def test_every_path_is_shown() -> None:
    locations = [{"path": f"/src/{number}.py", "line": number} for number in range(1, 201)]
    (part,) = of_call(locations=locations).parts
    assert part == PathsPart(tuple(Location(f"/src/{n}.py", n) for n in range(1, 201)))


def test_a_subject_of_an_unknown_kind_is_shown_whole() -> None:
    block = asked({"type": "spell", "words": ["abra", "cadabra"], "on": {"file": "/etc/passwd"}})
    assert block.parts == (
        ValuesPart(
            "subject",
            (
                Value(0, "type", "spell"),
                Value(0, "words", ""),
                Value(1, "-", "abra"),
                Value(1, "-", "cadabra"),
                Value(0, "on", ""),
                Value(1, "file", "/etc/passwd"),
            ),
        ),
    )


def test_fields_that_no_schema_has_are_shown() -> None:
    block = asked(
        {"type": "command", "command": "ls", "cwd": "/", "shell": "evil"},
        _meta={"why": "because"},
        sudo="yes",
    )
    assert block.parts == (
        CommandPart("ls", "/"),
        ValuesPart(
            "more", (Value(0, "sudo", "yes"), Value(0, "_meta", ""), Value(1, "why", "because"))
        ),
        ValuesPart("more", (Value(0, "shell", "evil"),)),
    )


def test_a_command_keeps_its_environment() -> None:
    block = of_call(rawInput={"command": "make", "cwd": "/w", "env": {"CC": "evil"}})
    assert block.parts == (
        CommandPart("make", "/w"),
        ValuesPart("input", (Value(0, "env", ""), Value(1, "CC", "evil"))),
    )


COMMANDS: dict[str, tuple[Json, CommandPart]] = {
    "a string": ({"command": "make"}, CommandPart("make")),
    "words": ({"cmd": ["ls", "-l"]}, CommandPart("ls -l")),
    "a program and its arguments": (
        {"command": "git", "args": ["commit", "-m", "a b"]},
        CommandPart("git commit -m 'a b'"),
    ),
    "a directory": ({"command": "make", "workdir": "/w"}, CommandPart("make", "/w")),
    "a script": ({"Script": "a\nb"}, CommandPart("a\nb", name="Script")),
    "deeper": ({"steps": [{"command": "make"}]}, CommandPart("make")),
}


@pytest.mark.parametrize(("given", "part"), COMMANDS.values(), ids=list(COMMANDS))
def test_what_would_run_is_found_in_the_input(given: Json, part: CommandPart) -> None:
    assert of_call(rawInput=given).commands == [part]


def test_words_that_a_shell_would_quote_are_shown_as_they_came() -> None:
    block = of_call(rawInput={"command": ["sh", "-c", "it's"]})
    assert block.commands == [CommandPart("""sh -c 'it'"'"'s'""")]
    assert Value(1, "-", "it's") in block.parts[1].values  # type: ignore[union-attr]


def test_what_the_terminal_of_a_call_runs_is_shown() -> None:
    request = codec.read(
        {"sessionId": "s", "title": "May I?", "options": OPTIONS}, v2.RequestPermissionRequest
    )
    terminals = {"t": Terminal("t", "make", "/w")}
    block = question_block(request, content=[v2.Terminal("t")], terminals=terminals)
    assert block.parts == (CommandPart("make", "/w"),)


def test_what_this_client_would_do_comes_first() -> None:
    request = codec.read(
        {"sessionId": "s", "title": "Write /a", "options": OPTIONS}, v2.RequestPermissionRequest
    )
    block = question_block(request, content=[v2.JuneDiff("/a", "new\n", "old\n")], paths=["/a"])
    (part,) = block.parts
    assert isinstance(part, DiffItem)
    assert [line.text for line in part.lines if line.kind in ("added", "removed")] == ["old", "new"]


def test_what_rules_judge_is_shown_where_nothing_else_shows_it() -> None:
    request = codec.read(
        {"sessionId": "s", "title": "Do it", "options": OPTIONS}, v2.RequestPermissionRequest
    )
    block = question_block(request, command="make", paths=["/a", "/a", "/b"])
    assert block.parts == (
        CommandPart("make"),
        PathsPart((Location("/a", None), Location("/b", None))),
    )


# ---- before the request ------------------------------------------------------------------------


def test_a_full_command_that_the_request_replaced_is_shown() -> None:
    full = "echo " + "a" * 500 + "; rm -rf ~"
    block = of_call({"toolCallId": "t", "content": [text(full)]}, content=[text("echo aaaa…")])
    assert block.parts == (TextPart("echo aaaa…"), BEFORE, TextPart(full))


def test_an_input_that_the_request_replaced_is_shown() -> None:
    before = {"toolCallId": "t", "rawInput": {"command": "rm -rf ~"}, "title": "Remove"}
    block = of_call(before, rawInput={"command": "ls"}, title="May I?")
    assert block.parts == (
        CommandPart("ls"),
        BEFORE,
        CommandPart("rm -rf ~"),
        ValuesPart("", (Value(0, "tool call", "Remove"),)),
    )


def test_what_stayed_the_same_is_not_shown_again() -> None:
    before = {"toolCallId": "t", "rawInput": {"command": "ls"}, "content": [text("Look")]}
    assert of_call(before).parts == (CommandPart("ls"), TextPart("Look"))
    assert of_call(before, rawInput={"command": "ls"}).parts == of_call(before).parts


def test_a_call_that_changes_while_it_is_asked_about_is_shown_with_both() -> None:
    session = Session("s")
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t", "rawInput": {"command": "ls"}}}
    params = {"sessionId": "s", "title": "May I?", "options": OPTIONS, "subject": subject}
    request = codec.read(params, v2.RequestPermissionRequest)
    session.ask(1, request)
    session.apply(v2.ToolCallUpdate("t", raw_input={"command": "rm -rf ~"}))
    block = question_block(request, call=session.tool_calls["t"])
    assert block.commands == [CommandPart("ls"), CommandPart("rm -rf ~")]


# ---- each thing once ---------------------------------------------------------------------------


def test_one_command_is_shown_once() -> None:
    call = {
        "toolCallId": "t",
        "title": "make",
        "rawInput": {"command": "make", "cwd": "/w"},
        "content": [text("make")],
    }
    subject = {"type": "command", "command": "make", "cwd": "/w", "toolCallId": "t"}
    block = asked(subject, call, title="`make`", description="make")
    assert block.title == "Run this command?"
    assert block.text.count("make") == 1
    assert asked(subject, call, title="`make`").text.count("make") == 1


def test_an_edit_is_shown_once() -> None:
    given = {"file_path": "/a.py", "old_string": "old\n", "new_string": "new\n"}
    diff = {"type": "diff", "path": "/a.py", "oldText": "old\n", "newText": "new\n"}
    block = of_call(
        rawInput=given, content=[diff, diff], locations=[{"path": "/a.py"}, {"path": "/a.py"}]
    )
    (part,) = block.parts
    assert isinstance(part, DiffItem)


def test_a_value_is_hidden_by_nothing_that_only_looks_like_it() -> None:
    given = {"command": "ls", "path": "/a", "delete": "/a", "undo": "ls"}
    block = of_call(rawInput=given, locations=[{"path": "/a"}])
    assert block.parts == (
        CommandPart("ls"),
        PathsPart((Location("/a", None),)),
        ValuesPart("input", (Value(0, "delete", "/a"), Value(0, "undo", "ls"))),
    )


# ---- much of it --------------------------------------------------------------------------------


def test_an_endless_object_is_cut_with_the_amount_left_out() -> None:
    (part,) = of_call(rawInput=list(range(MOST_VALUES + 7))).parts
    assert isinstance(part, ValuesPart)
    assert (len(part.values), part.more) == (MOST_VALUES, 7)


def test_a_part_of_a_question_costs_the_same_however_many_there_are() -> None:
    def work(count: int) -> int:
        content = [{"type": "_novel", "value": number} for number in range(count)]
        return opcodes(lambda: of_call(content=content))

    few, many = work(100), work(400)
    assert many < 5 * few


def test_what_is_nested_deeper_than_python_goes_is_shown() -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    request = v2.RequestPermissionRequest(
        "s",
        "May I?",
        [],
        subject=v2.ToolCallPermissionSubject(v2.ToolCallPatch("t", raw_input={"a": deep})),
    )
    (part,) = question_block(request).parts
    assert isinstance(part, ValuesPart)
    assert part.more == 100_001 - MOST_VALUES
    while isinstance(deep, list):  # taken apart from the outside, for Python cannot from the inside
        deep = deep.pop()


# ---- laws --------------------------------------------------------------------------------------

_NOT_SHOWN = frozenset(
    # ids; the choices, which are shown as keys; the state of the call
    {"sessionId", "toolCallId", "terminalId", "options", "status", "capabilities"}
    # bytes, which are not shown
    | {"data", "blob"}
)
_TAGS = {"type", "operation", "fileType", "mimeType", "kind"}
"""Words of the protocol; the known ones are shown by their meaning."""
_KEYS = st.sampled_from(
    [
        *("command", "cmd", "args", "cwd", "script", "path", "file_path", "content"),
        *("description", "title", "new_string", "delete", "env", "x"),
    ]
)
_INPUTS = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_KEYS, below, max_size=4),
    max_leaves=12,
)


def leaves(value: Any, key: str = "") -> Iterator[str]:
    """Every string of a value that a person has to see, line by line."""
    if key in _NOT_SHOWN or key in _TAGS:
        return
    if isinstance(value, str):
        yield from value.split("\n")
    elif isinstance(value, dict):
        if value.get("type") == "diff":  # what it does not change is not shown
            value = {k: v for k, v in value.items() if k not in ("oldText", "newText", "patch")}
        for name, item in value.items():
            yield from leaves(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)


@given(v2_permission_requests(), tool_call_patches_v2(), _INPUTS, _INPUTS)
def test_every_string_of_the_request_and_its_call_is_shown(
    params: Json, update: Json, given_before: Any, given: Any
) -> None:
    update = {**update, "toolCallId": "t", "rawInput": given_before}
    subject = params.get("subject")
    if isinstance(subject, dict) and subject.get("type") == "tool_call":
        call = {**subject["toolCall"], "toolCallId": "t"}
        if given is not None:
            call["rawInput"] = given
        params = {**params, "subject": {**subject, "toolCall": call}}
        given_values = [params, update]
    else:
        given_values = [params]
    session = Session("s")
    session.apply(codec.read({"sessionUpdate": "tool_call_update", **update}, v2.SessionUpdate))
    request = codec.read(params, v2.RequestPermissionRequest)
    block = of_session(session, request)
    shown = one_line(block.text)
    assert [leaf for leaf in leaves(given_values) if one_line(leaf) not in shown] == []


@given(v2_permission_requests(), _INPUTS)
def test_every_string_of_a_question_is_safe_to_show(params: Json, given: Any) -> None:
    params = {**params, "subject": {"type": "magic", "given": given}}
    block = of_session(Session("s"), codec.read(params, v2.RequestPermissionRequest))
    assert all(sanitize(word) == word for word in block.text.split("\n"))
