"""A whole session in reading order: turns, what is left out, paths and outcomes."""

from typing import Any

import pytest

from tests.support.sessions import session_of
from twofold.session import Session
from twofold.view.blocks import (
    HeadingBlock,
    MessageBlock,
    RemarkBlock,
    TerminalItem,
    ToolCallBlock,
)
from twofold.view.diff import relative
from twofold.view.timeline import outline, turn_headings
from twofold.wire import codec, v2
from twofold.wire.shared import SelectedPermissionOutcome


def message(kind: str, identity: str) -> dict[str, Any]:
    content = [{"type": "text", "text": identity}]
    return {"sessionUpdate": kind, "messageId": identity, "content": content}


def call(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **fields}


def only_call(session: Session, cwd: str | None = None) -> ToolCallBlock:
    block = outline(session, cwd=cwd)[0]
    assert isinstance(block, ToolCallBlock)
    return block


TALK = ("user a", "agent b", "user c", "user d", "thought e", "user f")


def talk() -> Session:
    kinds = {"user": "user_message", "agent": "agent_message", "thought": "agent_thought"}
    return session_of(*(message(kinds[kind], name) for kind, name in map(str.split, TALK)))


def test_a_turn_begins_with_a_user_message_after_another_role() -> None:
    assert turn_headings(talk()) == [
        (0, HeadingBlock("Turn 1", (), 2)),
        (2, HeadingBlock("Turn 2", (), 2)),
        (5, HeadingBlock("Turn 3", (), 2)),
    ]


def test_a_turn_without_an_answer_is_a_turn_if_it_ended() -> None:
    places = [place for place, _ in turn_headings(talk(), ends={3})]
    assert places == [0, 2, 3, 5]


def test_turns_have_the_time_of_their_first_entry() -> None:
    blocks = [block for _, block in turn_headings(talk(), times={0: "12:00", 1: "12:01"})]
    assert blocks[:2] == [HeadingBlock("Turn 1", ("12:00",), 2), HeadingBlock("Turn 2", (), 2)]


def test_remarks_are_between_the_entries_and_hidden_entries_are_left_out() -> None:
    session = session_of(message("user_message", "a"), message("agent_message", "b"))
    remarks = [(0, RemarkBlock("first")), (1, RemarkBlock("second")), (2, RemarkBlock("third"))]
    blocks = outline(session, remarks, hidden={0})
    assert [getattr(block, "text", type(block).__name__) for block in blocks] == [
        *("first", "second", "MessageBlock", "third", "FooterBlock")
    ]


def test_a_message_of_an_outline_has_the_message_it_shows() -> None:
    session = session_of(message("agent_message", "a"))
    block = outline(session)[0]
    assert isinstance(block, MessageBlock)
    assert block.message is session.entries[0]


# ---- what is shown of a tool call ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "cwd", "shown"),
    [
        ("/w/a.py", "/w", "a.py"),
        ("/w/a.py", "/w/", "a.py"),
        ("/w/b/a.py", "/w", "b/a.py"),
        ("/w/a.py", None, "/w/a.py"),
        ("/w/a.py", "", "/w/a.py"),
        ("/w/a.py", "/", "/w/a.py"),
        ("/wide/a.py", "/w", "/wide/a.py"),
        ("/w", "/w", "/w"),
        ("/w/", "/w", "/w/"),
        ("/w/../x", "/w", "/w/../x"),
        ("a.py", "/w", "a.py"),
    ],
)
def test_a_path_inside_the_directory_is_shown_relative_to_it(
    path: str, cwd: str | None, shown: str
) -> None:
    assert relative(path, cwd) == shown


def test_paths_of_locations_and_diffs_are_relative() -> None:
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "a\n", "newText": "b\n"}
    patch = {
        "type": "diff",
        "changes": [{"operation": "move", "path": "/w/new", "oldPath": "/w/old"}],
    }
    places = [{"path": "/w/a.py", "line": 2}, {"path": "/w/b.py", "line": 3}, {"path": "/x/c"}]
    block = only_call(session_of(call(locations=places, content=[diff, patch])), "/w")
    assert [str(location) for location in block.locations] == ["a.py:2", "b.py:3", "/x/c"]
    assert [location.path for location in block.locations] == ["/w/a.py", "/w/b.py", "/x/c"]
    assert [str(location) for location in block.unnamed_locations] == ["b.py:3", "/x/c"]
    texts = [line.text for item in block.items for line in getattr(item, "lines", ())]
    assert [text for text in texts if "a.py" in text or "old" in text] == [
        "a.py",
        "old → new (moved)",
    ]


@pytest.mark.parametrize(
    ("cwd", "shown"), [("/w", None), ("/w/", None), ("/w/b", "/w/b"), ("/", "/")]
)
def test_a_command_names_its_directory_only_if_it_is_another(cwd: str, shown: str | None) -> None:
    terminal = {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "x", "cwd": cwd}
    session = session_of(terminal, call(content=[{"type": "terminal", "terminalId": "t"}]))
    (item,) = only_call(session, "/w").items
    assert isinstance(item, TerminalItem)
    assert item.cwd == shown
    (item,) = only_call(session).items
    assert isinstance(item, TerminalItem)
    assert item.cwd == cwd


@pytest.mark.parametrize(
    ("kind", "status", "shown"),
    [
        ("reject_once", None, "rejected"),
        ("reject_once", "failed", "rejected"),
        ("reject_always", "cancelled", "rejected"),
        ("reject_once", "completed", "completed"),
        ("allow_once", "failed", "failed"),
    ],
)
def test_a_rejected_call_is_shown_as_rejected_whatever_status_the_agent_gives(
    kind: str, status: str | None, shown: str
) -> None:
    session = session_of(call(title="Run", status="pending"))
    request = {
        "sessionId": "s",
        "title": "Run?",
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}},
        "options": [{"optionId": "o", "name": "O", "kind": kind}],
    }
    session.ask(1, codec.read(request, v2.RequestPermissionRequest))
    session.settle(1, SelectedPermissionOutcome("o"))
    if status is not None:
        session.apply(codec.read(call(status=status), v2.SessionUpdate))
    block = only_call(session)
    assert block.status == shown
    assert block.finished is (status is not None)
