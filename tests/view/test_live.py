"""Views that stay: reading again just what the keys name is as good as reading everything."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import v2_permission_requests, v2_struct_streams
from twofold.session import Session
from twofold.session.reduce import NotBase64
from twofold.view.blocks import Block, ToolCallBlock, UnknownBlock
from twofold.view.live import FOOTER, LONGEST_OUTPUT, Follower, Key
from twofold.view.outline import MOST_KINDS, entry_block, outline
from twofold.wire import codec, v2


@given(v2_struct_streams(max_size=30), st.lists(v2_permission_requests(), max_size=3), st.data())
def test_a_view_that_reads_what_the_keys_name_is_equal_to_one_that_reads_everything(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    follower = Follower(session)
    seen: dict[Key, Block | None] = {}

    def look(keys: list[Key]) -> None:
        assert len(keys) == len(set(keys))
        seen.update({key: follower.block(key) for key in keys})

    look(follower.everything())
    for update in updates:
        with suppress(NotBase64):
            look(follower.take(session.apply(update)))
        some: bool = data.draw(st.booleans())
        if requests and some:
            request = codec.read(requests.pop(), v2.RequestPermissionRequest)
            look(follower.take(session.ask(len(requests), request)))
        elif session.permissions:
            look(follower.take(session.settle(next(iter(session.permissions)))))
    for index, entry in enumerate(session.entries):
        assert seen[Key("entry", index)] == entry_block(session, entry)
    assert {key for key, block in seen.items() if block is not None} == set(follower.everything())
    shown = [block for block in seen.values() if block is not None]
    assert len(shown) == len(outline(session))
    assert all(block in shown for block in outline(session))
    assert seen[FOOTER] == outline(session)[-1]


def test_output_of_a_terminal_changes_the_calls_that_show_it() -> None:
    session = Session("s")
    follower = Follower(session)
    for number in (1, 2):
        call = v2.ToolCallUpdate(f"c{number}", content=[v2.Terminal("t")])
        follower.take(session.apply(call))
    follower.take(session.apply(v2.ToolCallUpdate("c3")))
    changes = session.apply(v2.TerminalOutputChunk("t", "aGVsbG8="))
    assert follower.take(changes) == [Key("entry", 0), Key("entry", 1)]
    block = follower.block(Key("entry", 1))
    assert isinstance(block, ToolCallBlock)
    assert [item.text for item in block.items if hasattr(item, "text")] == ["hello"]


def question(call: str) -> v2.RequestPermissionRequest:
    subject = v2.ToolCallPermissionSubject(v2.ToolCallPatch(call))
    return v2.RequestPermissionRequest("s", "May I?", [], subject=subject)


class Uncounted(dict[Any, Any]):
    """A dict that nobody may walk through."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all of it was looked at")

    values = items = keys = __iter__  # type: ignore[assignment]


def test_a_question_costs_the_same_however_many_wait() -> None:
    session = Session("s")
    follower = Follower(session)
    session.permissions = Uncounted()
    for number in range(100):
        for key in follower.take(session.ask(number, question(f"t{number}"))):
            block = follower.block(key)
            assert isinstance(block, ToolCallBlock)
            assert len(block.permissions) == 1
    for number in reversed(range(100)):
        for key in follower.take(session.settle(number)):
            block = follower.block(key)
            assert isinstance(block, ToolCallBlock)
            assert block.permissions == ()


def test_of_many_questions_about_one_call_the_first_are_shown_and_the_others_counted() -> None:
    session = Session("s")
    follower = Follower(session)
    for number in range(1000):
        (key,) = follower.take(session.ask(number, question("t")))
    block = follower.block(key)
    assert isinstance(block, ToolCallBlock)
    assert [each.request_id for each in block.permissions] == list(range(20))
    assert block.more_permissions == 980


def test_a_call_that_was_asked_about_before_it_was_there_shows_the_question() -> None:
    session = Session("s")
    follower = Follower(session)
    subject = v2.CommandPermissionSubject("make", "/w", "t")
    follower.take(session.ask(1, v2.RequestPermissionRequest("s", "May I?", [], subject=subject)))
    (key,) = follower.take(session.apply(v2.ToolCallUpdate("t")))
    block = follower.block(key)
    assert isinstance(block, ToolCallBlock)
    assert [each.request_id for each in block.permissions] == [1]


def test_the_lines_of_a_diff_are_found_once_as_long_as_it_is_the_same() -> None:
    session = Session("s")
    follower = Follower(session)
    diff = v2.JuneDiff("/a", "new\n", old_text="old\n")
    session.apply(v2.ToolCallUpdate("c", content=[diff]))

    def item() -> object:
        block = follower.block(Key("entry", 0))
        assert isinstance(block, ToolCallBlock)
        return block.items[0]

    first = item()
    session.apply(v2.ToolCallUpdate("c", status="completed"))
    assert item() is first
    session.apply(v2.ToolCallUpdate("c", content=[v2.JuneDiff("/a", "newer\n")]))
    assert item() is not first


def test_of_unknown_updates_the_first_kinds_are_named_and_the_others_counted() -> None:
    session = Session("s")
    follower = Follower(session)
    keys: list[Key] = []
    for number in range(MOST_KINDS + 5):
        for tag in ("often", f"tag{number}"):
            update = v2.decode_update(json.dumps({"sessionUpdate": tag}))
            keys += follower.take(session.apply(update))
    found = [follower.block(key) for key in dict.fromkeys(keys)]
    assert found[:2] == [UnknownBlock("often", MOST_KINDS + 5), UnknownBlock("tag0", 1)]
    assert found[MOST_KINDS:] == [UnknownBlock("6 more kinds", 6)]
    assert found == [block for block in outline(session) if isinstance(block, UnknownBlock)]


def test_of_a_very_long_output_a_block_holds_the_end() -> None:
    session = Session("s")
    follower = Follower(session)
    session.apply(v2.ToolCallUpdate("c", content=[v2.Terminal("t")]))
    line = base64.b64encode(b"x" * 65_535 + b"\n").decode()
    for _ in range(40):
        follower.take(session.apply(v2.TerminalOutputChunk("t", line)))
        block = follower.block(Key("entry", 0))
    assert isinstance(block, ToolCallBlock)
    assert len(getattr(block.items[0], "text", "")) == LONGEST_OUTPUT
