"""Recorded messages in the names of the client, and their bytes where nothing has another name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.test_wire_log import JSON
from tests.support.recordings import update
from twofold.journal.translation import Names, written

SPACED = b'{"jsonrpc": "2.0", "id":7 , "result": {"b": 1.50, "_x": [1e2]}, "extra": null}'


def test_a_message_without_other_names_keeps_its_bytes() -> None:
    assert written(SPACED, Names()) is SPACED
    assert written(SPACED, Names(session=("s", "t"))) == SPACED
    assert written(SPACED, Names(), 7) == SPACED


def test_another_id_leaves_the_other_members_as_they_were() -> None:
    made = written(SPACED, Names(), "c-1")
    assert made == b'{"jsonrpc":"2.0","id":"c-1","result":{"b": 1.50, "_x": [1e2]},"extra":null}'


@given(params=st.dictionaries(st.text(), JSON, max_size=4), identity=st.integers() | st.text())
def test_only_the_id_changes(params: dict[str, Any], identity: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
    made = json.loads(written(json.dumps(message).encode(), Names(), identity))
    assert made == {**message, "id": identity}


def translated(names: Names, **members: Any) -> Any:
    made = json.loads(written(json.dumps(update("s", **members)).encode(), names))
    assert made["method"] == "session/update"
    return made["params"]["update"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/work", "/home/me"),
        ("/work/a.txt", "/home/me/a.txt"),
        ("/workspace/a.txt", "/workspace/a.txt"),
        ("file:///work/a.txt", "file:///home/me/a.txt"),
        ("a.txt", "a.txt"),
    ],
)
def test_paths_in_the_directory_of_the_session_move_with_it(path: str, expected: str) -> None:
    names = Names(directory=("/work", "/home/me"))
    made = translated(names, locations=[{"path": path}], rawInput={"path": path}, title=path)
    assert made == {"locations": [{"path": expected}], "rawInput": {"path": path}, "title": path}


def test_the_heads_of_a_patch_move_too_and_its_lines_do_not() -> None:
    text = "diff --git /work/a /work/a\n--- /work/a\n+++ /work/a\n@@ -1 +1 @@\n-x /work/a\n+y\n"
    names = Names(directory=("/work/", "/w"))
    made = translated(names, content=[{"patch": {"format": "git_patch", "text": text}}])
    moved = "diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -1 +1 @@\n-x /work/a\n+y\n"
    assert made["content"][0]["patch"] == {"format": "git_patch", "text": moved}


def test_the_session_has_the_id_that_the_client_has() -> None:
    raw = json.dumps(update("s", sessionId="other")).encode()
    made = json.loads(written(raw, Names(session=("s", "s~2"))))
    assert made["params"] == {"sessionId": "s~2", "update": {"sessionId": "other"}}


def test_terminals_are_those_of_the_client_and_missing_ones_are_left_out() -> None:
    content = [{"type": "terminal", "terminalId": each} for each in ("t1", "t2")]
    names = Names(terminals={"t1": "mine"}, missing={"t2"})
    assert translated(names, content=content) == {
        "content": [{"type": "terminal", "terminalId": "mine"}]
    }


def test_a_turn_that_is_played_again_has_ids_of_its_own() -> None:
    made = translated(Names(again=1), toolCallId="t", messageId="m", title="t")
    assert made == {"toolCallId": "t~2", "messageId": "m~2", "title": "t"}


def test_a_lone_surrogate_is_kept() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}'
    assert json.loads(written(raw, Names(), 2)) == {**json.loads(raw), "id": 2}
