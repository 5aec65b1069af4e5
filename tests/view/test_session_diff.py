"""All changes of a session, by file: the change, and not the way to it."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twofold.session import Session
from twofold.view.session_diff import session_changes
from twofold.wire import codec, v2

Json = dict[str, Any]


def edited(path: str, old: str | None, new: str) -> Json:
    """A diff of version 1, which has the texts."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def session(*calls: tuple[str, list[Json]]) -> Session:
    """A session with tool calls: their status, and the diffs that they show."""
    made = Session("s")
    for number, (status, diffs) in enumerate(calls):
        update = {"sessionUpdate": "tool_call_update", "toolCallId": f"{number}", "content": diffs}
        made.apply(codec.read({**update, "title": "Edit", "status": status}, v2.SessionUpdate))
    return made


def shown(made: Session, cwd: str | None = None) -> list[list[tuple[str, str]]]:
    """The lines of every diff, with their kinds."""
    files = session_changes(made, cwd).files
    return [
        [(line.kind, line.text) for line in diff.lines] for file in files for diff in file.diffs
    ]


def test_edits_that_follow_each_other_become_one() -> None:
    made = session(
        ("completed", [edited("/w/a.py", "one\n", "two\n")]),
        ("completed", [edited("/w/b.py", None, "new\n")]),
        ("completed", [edited("/w/a.py", "two\n", "three\n")]),
    )
    assert [file.name for file in session_changes(made, "/w").files] == ["a.py", "b.py"]
    first, second = shown(made, "/w")
    assert ("removed", "one") in first
    assert ("added", "three") in first
    assert not [text for _, text in first if text == "two"]
    assert ("added", "new") in second


def test_edits_of_other_places_stay_apart() -> None:
    made = session(
        ("completed", [edited("/w/a.py", "one\n", "two\n")]),
        ("completed", [edited("/w/a.py", "x\n", "y\n")]),
    )
    files = session_changes(made).files
    assert [(file.name, len(file.diffs)) for file in files] == [("/w/a.py", 2)]
    assert (files[0].count("added"), files[0].count("removed")) == (2, 2)


def test_only_what_completed_counts() -> None:
    edit = [edited("/w/a.py", "one\n", "two\n")]
    made = session(("failed", edit), ("in_progress", edit), ("completed", []))
    assert session_changes(made) == ([], 2)


def test_patches_are_shown_by_file() -> None:
    patch = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -7 +7 @@\n-one\n+two\n"
        "diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -9 +9 @@\n-x\n+y\n"
    )
    changes = [{"operation": "modify", "path": f"/w/{name}"} for name in ("a.py", "b.py")]
    diff = {"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": patch}}
    made = session(("completed", [diff]))
    first, second = shown(made, "/w")
    assert ("added", "two") in first
    assert ("added", "y") in second


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), min_size=1, max_size=4).map("".join)


@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_a_chain_of_edits_counts_as_one_from_its_beginning_to_its_end(texts: list[str]) -> None:
    chain = session(
        *(("completed", [edited("/w/a", old, new)]) for old, new in itertools.pairwise(texts))
    )
    whole = session(("completed", [edited("/w/a", texts[0], texts[-1])]))
    assert shown(chain) == shown(whole)
