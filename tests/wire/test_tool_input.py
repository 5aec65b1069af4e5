"""The keys of a tool's input: what is judged by them is also shown by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.policy import subject_of
from twofold.session import Session
from twofold.view.blocks import CommandPart
from twofold.view.question import question_block
from twofold.wire import v2
from twofold.wire.tool_input import (
    COMMANDS,
    DIRECTORIES,
    PLAIN_PATHS,
    SCRIPTS,
    letters_of,
    names_path,
)


@st.composite
def spellings(draw: st.DrawFn, keys: frozenset[str]) -> str:
    """A key of a table, in one of the ways in which agents write it."""
    key = draw(st.sampled_from(sorted(keys)))
    marks = draw(st.lists(st.sampled_from(["", "_", "-", " ", "2"]), min_size=len(key)))
    upper = draw(st.booleans())
    written = "".join(letter + mark for letter, mark in zip(key, marks, strict=False))
    return written.upper() if upper else written


def asked(**given: object) -> v2.RequestPermissionRequest:
    patch = v2.ToolCallPatch("t", title="Work", raw_input=given)
    return v2.RequestPermissionRequest(
        "s", "Allow?", [], subject=v2.ToolCallPermissionSubject(patch)
    )


@given(spellings(COMMANDS | SCRIPTS))
def test_a_key_is_found_however_it_is_written(key: str) -> None:
    assert letters_of(key) in COMMANDS | SCRIPTS


@given(spellings(COMMANDS | SCRIPTS), spellings(DIRECTORIES))
def test_whatever_is_judged_as_a_command_is_shown_as_one(key: str, where: str) -> None:
    request = asked(**{key: "rm -rf build", where: "/elsewhere"})
    subject = subject_of(request, Session("s"), directories=("/work",))
    assert subject.kind == "execute"
    assert "rm -rf build" in (subject.command, *subject.scripts)
    assert subject.cwd == "/elsewhere"
    parts = question_block(request).parts
    shown = [(part.text, part.cwd) for part in parts if isinstance(part, CommandPart)]
    assert shown == [("rm -rf build", "/elsewhere")]


def test_two_keys_that_mean_the_same_are_both_shown() -> None:
    parts = question_block(asked(cmd="one", cmd2="two")).parts
    assert [part.text for part in parts if isinstance(part, CommandPart)] == ["one", "two"]


def test_arguments_are_shown_with_their_program() -> None:
    parts = question_block(asked(command="rm", argv=["-rf", "build"])).parts
    assert [part.text for part in parts if isinstance(part, CommandPart)] == ["rm -rf build"]


def test_showing_a_request_does_not_change_it() -> None:
    given = {"command": ["rm"], "args": ["-rf", "build"]}
    question_block(asked(**given))
    assert given == {"command": ["rm"], "args": ["-rf", "build"]}


@pytest.mark.parametrize(
    "key", ["path", "target_file", "outputDir", "PATH", "src-files", "toFolder"]
)
def test_a_path_is_named_by_the_last_word_of_its_key(key: str) -> None:
    assert names_path(key)


@pytest.mark.parametrize("key", ["", "pathology", "file_mode", "profile", "dirty", "x"])
def test_other_keys_name_no_path(key: str) -> None:
    assert not names_path(key)


def test_every_path_that_needs_no_name_is_a_path() -> None:
    assert all(names_path(key.replace("path", "_path")) for key in PLAIN_PATHS)
