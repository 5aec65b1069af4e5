"""What two sessions add up to otherwise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recordings import folded
from twofold.journal.comparison import Difference, compare
from twofold.session import Session
from twofold.wire import codec, v2


def session(*updates: dict[str, Any]) -> Session:
    made = Session("s")
    for update in updates:
        made.apply(v2.decode_update(codec.encode(update)))
    return made


def message(text: str, identity: str, kind: str = "agent_message") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"sessionUpdate": kind, "messageId": identity, "content": content}


def call(identity: str, title: str, **fields: Any) -> dict[str, Any]:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": identity, "title": title}
    return {**update, **fields}


def facts(first: Session, second: Session) -> list[tuple[str, str, str, str]]:
    return [(each.kind, each.name, each.label, each.field) for each in compare(first, second)]


def test_ids_that_are_invented_anew_make_no_difference() -> None:
    assert (
        compare(
            session(message("a", "1"), call("t", "E")), session(message("a", "2"), call("u", "E"))
        )
        == []
    )


def test_the_pieces_in_which_a_text_arrived_make_no_difference() -> None:
    whole = session(message("one two", "m"))
    pieces = session(message("one ", "m"))
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m"}
    pieces.apply(
        v2.decode_update(codec.encode({**chunk, "content": {"type": "text", "text": "two"}}))
    )
    assert compare(whole, pieces) == []


def test_entries_that_only_one_has_are_named() -> None:
    first = session(message("a", "1"), message("b", "2"), call("t", "Edit"))
    second = session(message("a", "1"), call("t", "Edit"), call("u", "Run"))
    assert facts(first, second) == [
        ("only_first", "agent_message", "b", ""),
        ("only_second", "tool_call_update", "Run", ""),
    ]


def test_a_field_that_differs_has_both_values() -> None:
    first = session(call("t", "Edit", status="completed"), message("a", "m"))
    second = session(call("t", "Edit", status="failed"), message("b", "m"))
    assert compare(first, second) == [
        Difference("changed", "tool_call_update", "Edit", "status", "completed", "failed"),
        Difference("changed", "agent_message", "a", "content", "a", "b"),
    ]


def test_what_is_no_entry_is_compared_too() -> None:
    plan = {"type": "items", "planId": "p", "entries": []}
    first = session({"sessionUpdate": "plan_update", "plan": plan})
    second = session({"sessionUpdate": "usage_update", "used": 1, "size": 2})
    assert facts(first, second) == [
        ("only_first", "plan_update", "", ""),
        ("only_second", "usage_update", "", ""),
    ]


UPDATES = st.lists(
    st.sampled_from(
        [
            *(message(text, text) for text in "abc"),
            *(call(name, title) for name, title in [("t", "Edit"), ("u", "Run"), ("v", "Edit")]),
            call("t", "Edit", status="completed"),
            {"sessionUpdate": "usage_update", "used": 1, "size": 2},
        ]
    ),
    max_size=8,
)


@given(first=UPDATES, second=UPDATES)
def test_a_comparison_is_the_same_from_both_sides(first: Any, second: Any) -> None:
    """Whether there is a difference at all does not depend on the order."""
    one, two = session(*first), session(*second)
    assert compare(one, one) == compare(two, two) == []
    assert bool(compare(one, two)) == bool(compare(two, one))


@pytest.mark.parametrize("name", ["claude.v1", "codex.v2"])
def test_a_real_conversation_is_like_itself(name: str, shared: Callable[[str], Path]) -> None:
    data = shared(f"transcripts/{name}.jsonl").read_bytes()
    again = folded(data)
    for identity, each in folded(data).items():
        assert compare(each, again[identity]) == []
