"""Blocks as JSON: total, safe to show, bounded, and the same for every observer."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import v2_permission_requests, v2_struct_streams
from tests.view.test_live import play
from tests.web import example_blocks
from twofold.session import Session
from twofold.session.reduce import NotBase64
from twofold.text.safe import sanitize
from twofold.view.as_html import is_safe_link
from twofold.view.blocks import DiffItem, Item, MessageBlock, TerminalItem, TextItem, ToolCallBlock
from twofold.view.diff import DiffLine
from twofold.view.live import Key, Live
from twofold.view.markdown import CodeLine, CodeStart, Paragraph, Span
from twofold.web.encode import (
    LONGEST_DIFF,
    LONGEST_RAW,
    LONGEST_STRING,
    LONGEST_TEXT,
    MOST_LINES,
    ROWS,
    Encoder,
    contents,
    encode_block,
    encoded,
    media_bytes,
    parsed_key,
)
from twofold.wire import codec, v2


def written(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def strings(value: Any) -> Iterator[tuple[str, str]]:
    """Every string of a value, with the name of its field."""
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str):
                yield name, each
            else:
                yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str):
                yield "", each
            else:
                yield from strings(each)


@given(v2_struct_streams(max_size=30), st.lists(v2_permission_requests(), max_size=3), st.data())
def test_whatever_is_in_a_session_can_be_encoded_and_is_safe_to_show(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    live, encoder = Live(session, outputs=False), Encoder(session)
    since = None
    for _ in play(session, live, updates, requests, data):
        frame = live.frame(since)
        since = frame.seq
        made = [encoder.put(key, block) for key, _, block in frame.put]
        made += [encoder.grow(key, settled, tail) for key, settled, tail in frame.grow]
        for name, text in strings(written(made)):
            assert sanitize(text) == text
            assert name != "url" or is_safe_link(text)


@given(v2_struct_streams(max_size=30))
def test_a_block_read_from_scratch_looks_as_one_that_grew(
    updates: list[v2.SessionUpdate],
) -> None:
    session = Session("s")
    live, encoder = Live(session, outputs=False), Encoder(session)
    shown: dict[Key, Any] = {}
    since = None
    for update in [None, *updates]:
        with suppress(NotBase64):
            live.take(session.apply(update) if update is not None else ())
        frame = live.frame(since)
        since = frame.seq
        for key, _, block in frame.put:
            shown[key] = written(encoder.put(key, block))
        for key, settled, tail in frame.grow:
            more, end = written(encoder.grow(key, settled, tail))
            shown[key]["items"] += more
            if end:
                shown[key]["tail"] = end
        for key in frame.gone:
            shown.pop(key, None)
    for key, _, block in live.frame().put:
        if not isinstance(block, MessageBlock):  # whose plain text is in other pieces
            assert shown[key] == written(Encoder(session).put(key, block))


def test_examples_of_every_block_are_as_the_page_expects_them() -> None:
    assert example_blocks.FILE.read_text(encoding="utf-8") == example_blocks.written(), (
        "run `python -m tests.web.example_blocks` and look at what changed"
    )


def test_a_fence_that_grows_is_coloured_as_one_that_is_read_whole() -> None:
    key = Key("entry", 0)
    lines = [CodeLine(text) for text in ('x = """', "all of this", 'is text"""', "y = 1")]
    start = CodeStart("python")
    encoder = Encoder()
    grown = written(encoder.put(key, MessageBlock("agent", (start,))))["items"]
    for line in lines:
        settled, _ = encoder.grow(key, [line], [CodeLine("tail")])
        grown += written(settled)
    whole = written(encode_block(MessageBlock("agent", (start, *lines))))["items"]
    assert grown == whole
    # one that was away is sent the same
    assert written(encoder.grow(key, lines[1:], [])[0]) == whole[2:]


def test_the_end_of_a_message_does_not_change_the_colours_of_what_follows() -> None:
    key, start = Key("entry", 0), CodeStart("python")
    encoder = Encoder()
    encoder.put(key, MessageBlock("agent", (start,), None, (CodeLine('x = """'),)))
    settled, _ = encoder.grow(key, [CodeLine("y = 1")], [])
    assert written(settled)[0]["spans"][-1] == ["1", "cyan"]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x", "http:", "a/b"]
)
def test_a_link_elsewhere_than_to_the_web_is_text(url: str) -> None:
    block = MessageBlock("agent", (Paragraph((Span("x", url=url),)),))
    span = written(encode_block(block))["items"][0]["spans"][0]
    assert span == {"type": "Span", "text": "x", "target": url}


def test_marks_are_counted_as_a_browser_counts() -> None:
    lines = (DiffLine("removed", "👋 hello you"), DiffLine("added", "👋 hello me"))
    made = written(encoded(DiffItem(lines)))["lines"]
    assert [each["marks"] for each in made] == [[[9, 12]], [[9, 11]]]


def test_lines_of_a_diff_have_numbers_where_they_are_known() -> None:
    lines = [
        ("file", "a.py (new file)"),
        ("added", "x"),
        ("file", "b.py"),
        ("hunk", "@@ -7,2 +9,2 @@ def x"),
        ("context", "a"),
        ("removed", "b"),
        ("added", "c"),
        ("hunk", "somewhere"),
        ("context", "d"),
        ("file", "c.py (deleted)"),
        ("removed", "e"),
    ]
    item = DiffItem(tuple(DiffLine(kind, text) for kind, text in lines))  # type: ignore[arg-type]
    made = written(encoded(item))["lines"]
    numbers = [(each.get("old"), each.get("new")) for each in made]
    none = (None, None)
    assert numbers == [
        *(none, (None, 1), none, none, (7, 9), (8, None), (None, 10)),
        *(none, none, none, (1, None)),
    ]


LARGE: dict[str, Item] = {
    "text": TextItem("x" * (LONGEST_TEXT + 7)),
    "markdown": TextItem("x\n\n" * LONGEST_TEXT, markdown=True),
    "lines": DiffItem(tuple([DiffLine("added", "x")] * (MOST_LINES + 7))),
    "long lines": DiffItem(tuple([DiffLine("added", "x" * 1_000)] * 1_000)),
    "one line": DiffItem((DiffLine("added", "x" * 1_000_000),)),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_long_for_a_page_is_shortened_and_counted(name: str) -> None:
    block = ToolCallBlock("✓", "completed", "other", "x", (), (LARGE[name],), ())
    data = msgspec.json.encode(encode_block(block))
    assert len(data) < 6 * max(LONGEST_TEXT, LONGEST_DIFF)
    assert b'"hidden":' in data or b"more characters" in data


def test_a_long_command_is_not_cut_without_a_word() -> None:
    made = encoded("x" * (LONGEST_STRING + 7))
    assert made.endswith(" … and 7 more characters")


def test_a_terminal_is_its_last_rows_in_styles() -> None:
    session = Session("s")
    text = "".join([f"\x1b[31m{number}\x1b[0m\r\n" for number in range(ROWS + 50)])
    session.apply(v2.TerminalUpdate("t"))
    terminal = session.terminals["t"]
    terminal.output += text.encode()
    item = TerminalItem(None, None, "", True, None, False, "t", terminal)
    block = ToolCallBlock("✓", "completed", "other", "x", (), (item,), ())
    made = written(encode_block(block))["items"][0]
    assert made["hidden"] == 50
    assert len(made["rows"]) == ROWS
    assert made["rows"][-1] == [[str(ROWS + 49), "red"]]


def test_bytes_are_found_by_the_number_that_the_page_was_sent() -> None:
    session = example_blocks.session()
    live, encoder = Live(session, outputs=False), Encoder(session)
    found = []
    for key, _, block in live.frame().put:
        assert parsed_key(str(key)) in (key, None)
        made = json.dumps(written(encoder.put(key, block)))
        for item in _described(json.loads(made)):
            number = item["media"].get("n")
            if number is not None:
                bytes_ = media_bytes(session, key, number)
                assert bytes_ is not None
                assert len(bytes_.data) == item["media"]["size"]
                found.append(bytes_.mime)
    assert found == [
        *("image/png", "audio/wav", "text/plain", "application/octet-stream", "image/png")
    ]


def _described(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "media" in value:
            yield value
        for each in value.values():
            yield from _described(each)
    elif isinstance(value, list):
        for each in value:
            yield from _described(each)


@pytest.mark.parametrize("number", [-1, 0, 99])
@pytest.mark.parametrize(
    "key", ["", "entry", "entry:", "entry:-1", "entry:99", "entry:²", "plan:p", "compaction:x"]
)
def test_bytes_that_do_not_exist_are_not_found(key: str, number: int) -> None:
    session = example_blocks.session()
    parsed = parsed_key(str(key))
    assert parsed is None or media_bytes(session, parsed, number) is None
    assert media_bytes(session, Key("entry", 4), number) is None


def test_a_message_that_was_sent_again_keeps_its_pictures() -> None:
    picture = {"type": "image", "data": example_blocks.PICTURE, "mimeType": "image/png"}
    update = {"sessionUpdate": "user_message", "messageId": "u", "content": [picture]}
    session = Session("s")
    live, encoder = Live(session), Encoder(session)
    live.take(session.apply(codec.read(update, v2.SessionUpdate)))
    block = next(each.block for each in live.frame().put if each.key == Key("entry", 0))
    live.take(session.apply(codec.read(update, v2.SessionUpdate)))
    made = written(encoder.put(Key("entry", 0), block))
    assert made["items"][0]["media"]["n"] == 0
    assert len(contents(session, Key("entry", 0))) == 1


def test_unknown_updates_are_shown_as_json_within_bounds() -> None:
    session = Session("s")
    live = Live(session)
    for number in range(9):
        update = {"sessionUpdate": "_thing", "number": number, "text": "\u202e" + "x" * 10_000}
        live.take(session.apply(codec.read(update, v2.SessionUpdate)))
    key = Key("unknown", "_thing")
    block = live.block(key)
    assert block is not None
    raw = encode_block(block, key, session)["raw"]
    assert re.findall(r'"number": (\d)', raw) == ["4", "5", "6", "7", "8"]
    assert raw.count(" characters more") == 5
    assert len(raw) < 5 * (LONGEST_RAW + 100)
    assert "\u202e" not in raw
