"""Live views: frames, applied in order, give what reading all of the session gives."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.costs import functions_called
from tests.support.observer import Observer
from tests.support.strategies import v2_permission_requests, v2_struct_streams
from twofold.session import Session
from twofold.session.reduce import NotBase64
from twofold.view.blocks import (
    DescribedItem,
    MessageBlock,
    OutputBlock,
    RemarkBlock,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
)
from twofold.view.live import (
    FOOTER,
    KEPT_BLOCKS,
    KEPT_PIECES,
    LONGEST_OUTPUT,
    PLACED,
    Frame,
    Grow,
    Key,
    Live,
)
from twofold.view.markdown import Blank, Paragraph, Span
from twofold.view.outline import MOST_KINDS, MOST_LATEST
from twofold.view.timeline import outline
from twofold.wire import codec, v2
from twofold.wire.content import ImageContent, TextContent

# ---- laws ----------------------------------------------------------------------------------------


def play(
    session: Session, live: Live, updates: list[v2.SessionUpdate], requests: list[Any], data: Any
) -> Iterator[None]:
    """Apply updates, with questions and answers between them; stops after every change."""
    for update in updates:
        with suppress(NotBase64):
            live.take(session.apply(update))
        yield
        asks: bool = data.draw(st.booleans())
        if requests and asks:
            request = codec.read(requests.pop(), v2.RequestPermissionRequest)
            live.take(session.ask(len(requests), request))
        elif session.permissions:
            live.take(session.settle(next(iter(session.permissions))))
        yield


streams = given(
    v2_struct_streams(max_size=30), st.lists(v2_permission_requests(), max_size=3), st.data()
)


@streams
def test_frames_applied_in_order_give_what_a_view_from_scratch_shows(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    live, always = Live(session), Observer()
    always.look(live)
    for _ in play(session, live, updates, requests, data):
        always.look(live)
    scratch = Observer()
    scratch.look(Live(session))
    assert always.blocks == scratch.blocks


@streams
def test_an_observer_that_skips_frames_ends_with_the_same_view(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    live, always, seldom = Live(session), Observer(), Observer()
    for _ in play(session, live, updates, requests, data):
        always.look(live)
        if data.draw(st.integers(0, 4)) == 0:
            seldom.look(live)
    seldom.look(live)
    always.look(live)
    late = Observer()
    late.look(live)
    assert always.blocks == seldom.blocks == late.blocks
    assert always.look(live)[1:] == ([], [], [])


@streams
def test_frames_applied_in_order_give_the_outline(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    observer.look(live)
    for _ in play(session, live, updates, requests, data):
        observer.look(live)
    for key, block in list(observer.blocks.items()):
        if isinstance(block, MessageBlock):  # an outline takes what is there for all there is
            rest = Grow(key, tuple(live.cut(key)), ())
            observer.apply(Frame(live.seq, [], [rest], []))
    expected, shown = outline(session), observer.outline()
    assert len(shown) == len(expected)
    assert all(block in shown for block in expected)
    assert shown[-1] == expected[-1]


@streams
def test_a_window_is_sent_what_is_newer_in_it(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    for _ in play(session, live, updates, requests, data):
        if data.draw(st.booleans()):
            observer.look(live)
    window = {put.key for put in live.frame().put if data.draw(st.booleans())}
    part, whole = live.frame(observer.seen, window), live.frame(observer.seen)
    assert part.put == [put for put in whole.put if put.key in window]
    assert part.grow == [grow for grow in whole.grow if grow.key in window]


@streams
def test_blocks_keep_their_places_and_a_window_of_places_has_what_is_newer_in_it(
    updates: list[v2.SessionUpdate], requests: list[Any], data: st.DataObject
) -> None:
    session = Session("s")
    live, seen = Live(session), 0
    places: list[Key] = []
    for _ in play(session, live, updates, requests, data):
        if data.draw(st.integers(0, 9)) == 0:
            live.add(RemarkBlock("A remark."))
        assert live.places[: len(places)] == places
        places = list(live.places)
        if data.draw(st.integers(0, 5)) == 0:
            live.frame()
            seen = live.seq
    assert [live.at(key) for key in places] == list(range(len(places)))
    assert {key.kind for key in places} <= PLACED
    assert live.at(FOOTER) is None
    first, end = data.draw(st.integers(0, 10)), data.draw(st.integers(0, 10) | st.none())
    for since in (None, seen):
        there = {
            *places[first:end],
            *(put.key for put in live.frame().put if live.at(put.key) is None),
        }
        part, whole = live.window(since, first, end), live.frame(since)
        assert part.put == [put for put in whole.put if put.key in there]
        assert part.grow == [grow for grow in whole.grow if grow.key in there]
        assert set(part.gone) == {key for key in whole.gone if key.kind not in PLACED}


def test_a_remark_is_below_what_was_there_and_above_what_follows() -> None:
    session = Session("s")
    live = Live(session, seq=7, earlier=[RemarkBlock("Earlier.")])
    live.take(session.apply(chunk("One.", "m1")))
    key = live.add(RemarkBlock("The turn took 2 s."))
    live.take(session.apply(chunk("Two.", "m2")))
    assert live.places == [Key("turn", 0), Key("entry", 0), key, Key("entry", 1)]
    assert live.block(key) == RemarkBlock("The turn took 2 s.")
    assert [str(each) for each in live.places] == ["turn:0", "entry:0", "turn:1", "entry:1"]
    assert live.frame().put[0].version == 7
    assert live.seq == 10


def test_a_key_is_a_text_that_can_be_sent_whatever_the_agent_calls_things() -> None:
    assert str(Key("plan", "a\ud800b")).encode() == b"plan:a\\ud800b"


# ---- costs ---------------------------------------------------------------------------------------


def chunk(text: str, identity: str = "m") -> v2.AgentMessageChunk:
    return v2.AgentMessageChunk(identity, TextContent(text))


def printed(text: str, identity: str = "t") -> v2.TerminalOutputChunk:
    return v2.TerminalOutputChunk(identity, base64.b64encode(text.encode()).decode())


def item(text: str, identity: str = "c") -> v2.ToolCallContentChunk:
    return v2.ToolCallContentChunk(identity, v2.Content(TextContent(text)))


GROWTH: dict[str, Callable[[int], v2.SessionUpdate]] = {
    "a message": lambda number: chunk(f"Some words, number {number}.\n\n"),
    "a message of one paragraph": lambda number: chunk("word "),
    "a message of the person": lambda number: v2.UserMessageChunk("u", TextContent("word ")),
    "a thought": lambda number: v2.AgentThoughtChunk("a", TextContent("A thought.\n")),
    "the output of a terminal": lambda number: printed(f"line {number}\n"),
    "a tool call": lambda number: item(f"item {number}"),
    "a session": lambda number: chunk("Hello.", f"m{number}"),
}


@pytest.mark.parametrize("update", GROWTH.values(), ids=list(GROWTH))
def test_a_frame_costs_the_same_however_much_there_is(
    update: Callable[[int], v2.SessionUpdate],
) -> None:
    session = Session("s")
    live = Live(session)

    def cost(first: int, count: int) -> tuple[int, int]:
        """How many functions are called for the frames, and how large they are."""
        size = calls = 0
        for number in range(first, first + count):
            changes = session.apply(update(number))
            calls += functions_called(lambda: live.take(changes))  # noqa: B023
            calls += functions_called(lambda: live.frame(live.seq - 1))
            size += len(msgspec.json.encode(live.frame(live.seq - 1)))
        return size, calls

    cost(0, 1000)
    few = cost(1000, 200)
    cost(1200, 3000)
    many = cost(4200, 200)
    assert many[0] < 1.2 * few[0], (few, many)
    assert many[1] < 1.2 * few[1], (few, many)


@pytest.mark.parametrize("update", GROWTH.values(), ids=list(GROWTH))
def test_an_observer_that_was_away_is_sent_little_more_than_what_it_missed(
    update: Callable[[int], v2.SessionUpdate],
) -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    for number in range(3000):
        live.take(session.apply(update(number)))
        if number % 100 == 0:
            observer.look(live)
    missed = msgspec.json.encode(live.frame(observer.seen))
    assert len(missed) < 30_000
    observer.look(live)
    scratch = Observer()
    scratch.look(Live(session))
    assert observer.blocks == scratch.blocks


def test_pieces_are_kept_for_the_blocks_that_grew_last() -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    for number in range(3 * KEPT_BLOCKS):
        live.take(session.apply(chunk("One.\n\nTwo", f"m{number}")))
        observer.look(live)
    kept = [tracked for tracked in live._blocks.values() if tracked.stream]
    assert sum(bool(tracked.stream.log.pieces) for tracked in kept if tracked.stream) == KEPT_BLOCKS
    live.take(session.apply(chunk(" and more.\n\n", "m0")))
    frame = observer.look(live)
    assert frame.grow == [
        Grow(Key("entry", 0), (Blank(), paragraph("Two and more.")), ()),
    ]
    assert not frame.put
    for number in range(3 * KEPT_PIECES):
        live.take(session.apply(chunk(f"{number}\n\n", "m0")))
        live.frame(live.seq - 1)
    (tracked,) = [tracked for tracked in kept if tracked.key == Key("entry", 0)]
    assert tracked.stream is not None
    assert len(tracked.stream.log.pieces) <= 2 * KEPT_PIECES
    scratch = Observer()
    scratch.look(Live(session))
    assert observer.look(live).put  # of what was missed not all is kept: so the whole block
    assert observer.blocks == scratch.blocks


# ---- messages ------------------------------------------------------------------------------------


def test_what_is_settled_is_sent_once_and_the_tail_again_and_again() -> None:
    session = Session("s")
    live = Live(session)
    found = []
    for text in ("One.\n\nTw", "o", " and three.\n\n"):
        live.take(session.apply(chunk(text)))
        found.append(live.frame(live.seq - 1))
    first = MessageBlock("agent", (Paragraph((Span("One."),)),), None, (Blank(), paragraph("Tw")))
    assert [put.block for put in found[0].put] == [first]
    assert found[1].grow == [Grow(Key("entry", 0), (), (Blank(), paragraph("Two")))]
    assert found[2].grow == [
        Grow(Key("entry", 0), (Blank(), paragraph("Two and three.")), ()),
    ]


def paragraph(text: str) -> Paragraph:
    return Paragraph((Span(text),))


IMAGE = ImageContent("aGVsbG8=", "image/png")


@pytest.mark.parametrize(
    ("content", "grows"),
    [
        ([TextContent("one two")], True),
        ([TextContent("one "), TextContent("two three")], True),
        ([TextContent("one two"), IMAGE], True),
        ([TextContent("one")], False),
        ([TextContent("another")], False),
        ([IMAGE, TextContent("one two")], False),
        ([], False),
    ],
)
def test_a_replaced_message_continues_if_it_begins_with_the_shown_text(
    content: list[Any], grows: bool
) -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    for text in ("one ", "two"):
        live.take(session.apply(chunk(text)))
        observer.look(live)
    live.take(session.apply(v2.AgentMessage("m", content=content)))
    assert bool(observer.look(live).put) is not grows
    scratch = Observer()
    scratch.look(Live(session))
    assert observer.blocks == scratch.blocks


def test_an_image_at_another_place_is_another_message() -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    for content in (TextContent("a"), IMAGE, TextContent("b")):
        live.take(session.apply(v2.AgentMessageChunk("m", content)))
        observer.look(live)
    replaced = v2.AgentMessage("m", content=[TextContent("ab"), IMAGE])
    live.take(session.apply(replaced))
    assert observer.look(live).put
    block = observer.blocks[Key("entry", 0)]
    assert isinstance(block, MessageBlock)
    assert [type(item) for item in block.items] == [Paragraph, DescribedItem]


def test_after_a_cut_a_message_goes_on_with_a_new_text() -> None:
    session = Session("s")
    live = Live(session)
    live.take(session.apply(chunk("- one")))
    live.frame()
    assert [type(piece) for piece in live.cut(Key("entry", 0))] == [Paragraph]
    live.take(session.apply(chunk(" and two\n\n")))
    assert live.frame(live.seq - 1).grow == [Grow(Key("entry", 0), (paragraph("and two"),), ())]
    (whole,) = [put.block for put in live.frame().put if put.key.kind == "entry"]
    assert isinstance(whole, MessageBlock)
    assert len(whole.items) == 1  # an observer that begins now sees no cut


def test_a_cancel_changes_the_calls_that_are_open() -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    live.take(session.apply(v2.StateUpdate("running")))
    live.take(session.apply(v2.ToolCallUpdate("c", status="in_progress")))
    observer.look(live)
    session.cancel()
    live.take_cancel()
    assert [put.key for put in observer.look(live).put] == [FOOTER, Key("entry", 0)]
    block = observer.blocks[Key("entry", 0)]
    assert isinstance(block, ToolCallBlock)
    assert block.status == "cancelling"


# ---- tool calls and what else there is -----------------------------------------------------------


def test_output_of_a_terminal_is_a_block_of_its_own() -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    live.take(session.apply(v2.ToolCallUpdate("c", content=[v2.Terminal("t")])))
    observer.look(live)
    live.take(session.apply(v2.TerminalUpdate("t", "make")))
    observer.look(live)
    live.take(session.apply(printed("one\ntw")))
    observer.look(live)
    live.take(session.apply(printed("o\n")))
    assert observer.look(live).grow == [Grow(Key("terminal", "t"), (TextItem("two\n"),), ())]
    assert observer.outline()[0] == outline(session)[0]


def test_a_toolkit_that_interprets_output_itself_is_sent_the_calls_that_show_it() -> None:
    session = Session("s")
    live = Live(session, outputs=False)
    for number in (1, 2):
        live.take(session.apply(v2.ToolCallUpdate(f"c{number}", content=[v2.Terminal("t")])))
    live.take(session.apply(v2.ToolCallUpdate("c3")))
    live.frame()
    assert live.take(session.apply(printed("hello"))) == [Key("entry", 0), Key("entry", 1)]
    assert [put.key for put in live.frame(live.seq - 1).put] == [Key("entry", 0), Key("entry", 1)]


def question(call: str) -> v2.RequestPermissionRequest:
    subject = v2.ToolCallPermissionSubject(v2.ToolCallPatch(call))
    return v2.RequestPermissionRequest("s", "May I?", [], subject=subject)


class Uncounted(dict[Any, Any]):
    """A dict that must not be iterated."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all of it was looked at")

    values = items = keys = __iter__  # type: ignore[assignment]


def test_a_question_costs_the_same_however_many_wait() -> None:
    session = Session("s")
    live = Live(session)
    session.permissions = Uncounted()
    for number in range(100):
        for key in live.take(session.ask(number, question(f"t{number}"))):
            block = live.block(key)
            assert isinstance(block, ToolCallBlock)
            assert len(block.permissions) == 1
    for number in reversed(range(100)):
        for key in live.take(session.settle(number)):
            block = live.block(key)
            assert isinstance(block, ToolCallBlock)
            assert block.permissions == ()


def test_of_many_questions_about_one_call_the_first_are_shown_and_the_others_counted() -> None:
    session = Session("s")
    live = Live(session)
    for number in range(1000):
        (key,) = live.take(session.ask(number, question("t")))
    block = live.block(key)
    assert isinstance(block, ToolCallBlock)
    assert [each.request_id for each in block.permissions] == list(range(20))
    assert block.more_permissions == 980


def test_a_call_that_was_asked_about_before_it_was_there_shows_the_question() -> None:
    session = Session("s")
    live = Live(session)
    subject = v2.CommandPermissionSubject("make", "/w", "t")
    live.take(session.ask(1, v2.RequestPermissionRequest("s", "May I?", [], subject=subject)))
    assert [put.key for put in live.frame().put] == [FOOTER, Key("permission", 1)]
    moved, key = live.take(session.apply(v2.ToolCallUpdate("t")))
    assert live.frame(live.seq - 1).gone == [moved] == [Key("permission", 1)]
    block = live.block(key)
    assert isinstance(block, ToolCallBlock)
    assert [each.request_id for each in block.permissions] == [1]


def test_the_lines_of_a_diff_are_found_once_as_long_as_it_is_the_same() -> None:
    session = Session("s")
    live = Live(session)
    diff = v2.JuneDiff("/a", "new\n", old_text="old\n")
    session.apply(v2.ToolCallUpdate("c", content=[diff]))

    def item() -> object:
        block = live.block(Key("entry", 0))
        assert isinstance(block, ToolCallBlock)
        return block.items[0]

    first = item()
    session.apply(v2.ToolCallUpdate("c", status="completed"))
    assert item() is first
    session.apply(v2.ToolCallUpdate("c", content=[v2.JuneDiff("/a", "newer\n")]))
    assert item() is not first


def test_of_unknown_updates_the_first_kinds_are_named_and_the_others_counted() -> None:
    session = Session("s")
    live = Live(session)
    keys: list[Key] = []
    for number in range(MOST_KINDS + 5):
        for tag in ("often", f"tag{number}"):
            update = v2.decode_update(json.dumps({"sessionUpdate": tag}))
            keys += live.take(session.apply(update))
    found = [live.block(key) for key in dict.fromkeys(keys)]
    assert found[:2] == [UnknownBlock("often", MOST_KINDS + 5), UnknownBlock("tag0", 1)]
    assert found[MOST_KINDS:] == [UnknownBlock("6 more kinds", 6)]
    assert found == [block for block in outline(session) if isinstance(block, UnknownBlock)]


def test_the_last_updates_of_an_unknown_kind_are_kept_with_their_number() -> None:
    session = Session("s")
    live = Live(session)
    for number in range(MOST_LATEST + 3):
        update = v2.decode_update(json.dumps({"sessionUpdate": "often", "number": number}))
        live.take(session.apply(update))
    block = live.block(Key("unknown", "often"))
    assert isinstance(block, UnknownBlock)
    assert [each.raw.fields["number"] for each in block.latest] == [3, 4, 5, 6, 7]


def test_of_a_very_long_output_a_block_holds_the_end() -> None:
    session = Session("s")
    live, observer = Live(session), Observer()
    for _ in range(40):
        live.take(session.apply(printed("x" * 65_535 + "\n")))
        observer.look(live)
    late = Observer()
    late.look(live)
    block = late.blocks[Key("terminal", "t")]
    assert isinstance(block, OutputBlock)
    assert sum(len(item.text) for item in block.items) == LONGEST_OUTPUT
