"""`/diff`: all changes of a session, and all of one file."""

import pytest

from twofold.term.change_lines import FOLD, MOST_FILES, MOST_LISTED, NoSuchFile, change_lines
from twofold.term.lines import all_rows, plain
from twofold.view.blocks import DiffItem
from twofold.view.diff import DiffLine
from twofold.view.session_diff import FileChanges, SessionChanges


def diff(name: str, added: int = 1) -> DiffItem:
    return DiffItem(
        (DiffLine("file", name), *(DiffLine("added", f"{name} {each}") for each in range(added)))
    )


def file(name: str, *diffs: DiffItem) -> FileChanges:
    return FileChanges(name, diffs or (diff(name),))


def shown(changes: SessionChanges, number: int | None = None) -> list[str]:
    return [plain(row) for row in all_rows(change_lines(changes, number), 100)]


def test_every_file_is_shown_below_the_number_of_files_and_lines() -> None:
    changes = SessionChanges([file("a"), file("b", diff("b"), diff("b", 2))], 1)
    assert shown(changes) == [
        "2 changed files +4 · without 1 tool call that did not complete",
        "",
        "a",
        "+a 0",
        "",
        "b",
        "+b 0",
        "b",
        "+b 0",
        "+b 1",
    ]
    assert shown(changes, 1) == ["a", "+a 0"]


def test_a_session_without_changes_says_so() -> None:
    assert shown(SessionChanges([], 0)) == [
        "No completed tool call of this session shows a change."
    ]


def test_a_long_change_is_folded_and_shown_in_full_by_its_number() -> None:
    changes = SessionChanges([file("a"), file("b", diff("b", FOLD + 50), diff("b", 3))], 0)
    rows = shown(changes)
    assert rows[-2:] == ["… 1 more diff", "/diff 2 shows all of it"]
    assert len(rows) < FOLD + 20
    assert shown(changes, 2)[-1] == "+b 2"
    assert f"+b {FOLD + 49}" in shown(changes, 2)


def test_a_file_that_is_not_there_is_reported() -> None:
    with pytest.raises(NoSuchFile, match="has changed 1 file"):
        change_lines(SessionChanges([file("a")], 0), 2)


def test_of_many_files_only_the_names_are_listed() -> None:
    names = [f"f{number}" for number in range(MOST_LISTED + 2)]
    rows = shown(SessionChanges([file(name) for name in names], 0))
    assert f"+f{MOST_FILES - 1} 0" in rows
    assert f"+f{MOST_FILES} 0" not in rows
    assert f"f{MOST_FILES} +1 · /diff {MOST_FILES + 1} shows it" in rows
    assert rows[-1] == "… and 2 more files"
