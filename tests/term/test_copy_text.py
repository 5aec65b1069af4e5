"""Copying: which message, and which way to the clipboard."""

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.session import Session
from twofold.term.copy_text import (
    LARGEST,
    NotCopied,
    copy_tool,
    find_answer,
    give_to_tool,
    osc52,
)
from twofold.wire import codec, v2


def session(*messages: tuple[str, str]) -> Session:
    made = Session("s")
    for number, (kind, text) in enumerate(messages):
        content = [{"type": "text", "text": text}]
        update = {"sessionUpdate": kind, "messageId": f"{number}", "content": content}
        made.apply(codec.read(update, v2.SessionUpdate))
    return made


TALK = (
    ("user_message", "one?"),
    ("agent_message", "one\n\n"),
    ("agent_thought", "hm"),
    ("agent_message", " \n"),
    ("agent_message", "two"),
    ("user_message", "thanks"),
)


@pytest.mark.parametrize(("number", "text"), [(1, "two"), (2, "one")])
def test_messages_of_the_agent_are_counted_from_the_end(number: int, text: str) -> None:
    assert find_answer(session(*TALK), number) == text


def test_a_message_that_is_not_there_is_reported() -> None:
    with pytest.raises(NotCopied, match="only 2 messages"):
        find_answer(session(*TALK), 3)
    with pytest.raises(NotCopied, match="sent no message"):
        find_answer(session(TALK[0]))


@given(st.text(max_size=50))
def test_the_sequence_holds_the_text_and_nothing_else(text: str) -> None:
    sequence = osc52(text)
    data = sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")
    assert base64.b64decode(data, validate=True) == text.encode(errors="replace")


def test_a_text_that_no_terminal_takes_is_refused() -> None:
    osc52("x" * LARGEST)
    with pytest.raises(NotCopied, match="/export"):
        osc52("x" * (LARGEST + 1))


TOOLS: dict[str, tuple[dict[str, str], set[str], str, str | None]] = {
    "Wayland": (
        {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"},
        {"wl-copy", "xclip"},
        "linux",
        "wl-copy",
    ),
    "X": ({"DISPLAY": ":0"}, {"wl-copy", "xclip", "xsel"}, "linux", "xclip"),
    "X without xclip": ({"DISPLAY": ":0"}, {"xsel"}, "linux", "xsel"),
    "no screen": ({}, {"wl-copy", "xclip", "pbcopy"}, "linux", None),
    "a Mac": ({}, {"pbcopy"}, "darwin", "pbcopy"),
    "a Mac far away": ({"SSH_CONNECTION": "x"}, {"pbcopy"}, "darwin", None),
    "no tool": ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, set(), "linux", None),
}


@pytest.mark.parametrize(("environment", "there", "platform", "tool"), TOOLS.values(), ids=TOOLS)
def test_a_tool_is_used_where_it_reaches_the_screen(
    environment: dict[str, str], there: set[str], platform: str, tool: str | None
) -> None:
    command = copy_tool(environment, there.__contains__, platform)
    assert (command and command[0]) == tool


@pytest.mark.parametrize(
    ("command", "succeeded"),
    [(["sh", "-c", "test $(cat) = text"], True), (["false"], False), (["/no/tool"], False)],
)
def test_a_tool_is_given_the_text(command: list[str], succeeded: bool) -> None:
    assert asyncio.run(give_to_tool(command, "text")) is succeeded
