"""The live part of the terminal, on a terminal in memory."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.screens import MemoryTerminal, memory_writer
from twofold.term.block_lines import path_style
from twofold.term.lines import Row
from twofold.term.row_encoder import RowEncoder, has_links
from twofold.term.terminal_writer import Cursor, TerminalWriter

words = st.text("abc äß日", max_size=12).map(lambda text: text.rstrip())
styles = st.sampled_from(["", "bold", "red", "dim italic"])
rows = st.builds(lambda text, style: ((text, style),) if text else (), words, styles)
frames = st.lists(st.tuples(st.lists(rows, max_size=14), st.lists(rows, max_size=12)), max_size=8)


def texts(some: Sequence[Row]) -> list[str]:
    return ["".join(text for text, _ in row) for row in some]


def without_blanks_below(some: list[str]) -> list[str]:
    while some and not some[-1]:
        some.pop()
    return some


@given(frames)
def test_the_terminal_shows_every_settled_row_once_and_then_the_live_ones(
    steps: list[tuple[list[Row], list[Row]]],
) -> None:
    writer, terminal = memory_writer(30, 8)
    settled: list[str] = []
    for done, live in steps:
        writer.show(done, live)
        settled += texts(done)
        expected = [*settled, *texts(live)[-writer.height :]]
        assert terminal.all == without_blanks_below(expected)


cursors = st.none() | st.builds(Cursor, st.integers(0, 11), st.integers(0, 28))


@given(st.lists(st.tuples(st.lists(rows, max_size=6), st.lists(rows, max_size=6), cursors)))
def test_the_cursor_is_where_it_was_asked_for_and_changes_no_row(
    steps: list[tuple[list[Row], list[Row], Cursor | None]],
) -> None:
    writer, terminal = memory_writer(30, 8)
    settled: list[str] = []
    for done, live, cursor in steps:
        writer.show(done, live, cursor)
        settled += texts(done)
        everything = [*settled, *texts(live)]
        assert terminal.all == without_blanks_below(list(everything))
        if cursor is not None and cursor.row < len(live):
            # fewer live rows than before leave blank ones below
            row = len(everything) - 1 - cursor.row - terminal.above
            assert terminal.cursor == (cursor.column, row, False)
        elif done or live:
            assert terminal.cursor[2], "it is hidden"


@given(frames)
def test_a_live_row_stays_when_it_becomes_settled_and_the_next_frame_is_below_it(
    steps: list[tuple[list[Row], list[Row]]],
) -> None:
    writer, terminal = memory_writer(30, 8)
    settled: list[str] = []
    for done, live in steps:
        kept = live[-writer.height :]
        writer.show(done, kept)
        writer.show(kept[:1], kept[1:])
        writer.show([], [*kept[1:], (("below", ""),)][-writer.height :])
        settled += [*texts(done), *texts(kept[:1])]
        expected = [*settled, *texts(kept[1:]), "below"]
        assert terminal.all == expected
        writer.show([], [])


@given(frames)
def test_a_frame_that_is_like_the_one_before_writes_nothing(
    steps: list[tuple[list[Row], list[Row]]],
) -> None:
    writer, terminal = memory_writer(30, 8)
    for done, live in steps:
        writer.show(done, live)
        if live:
            before = terminal.writes
            writer.show([], live)
            assert terminal.writes == before


@given(frames, st.lists(rows, min_size=1, max_size=5))
def test_a_live_row_that_becomes_settled_where_it_stands_is_not_written_again(
    steps: list[tuple[list[Row], list[Row]]], live: list[Row]
) -> None:
    writer, terminal = memory_writer(30, 8)
    for done, shown in steps:
        writer.show(done, shown)
    writer.show([], live)
    before = terminal.writes
    writer.show(live[:-1], live[-1:])
    assert terminal.writes == before


def test_only_the_rows_from_the_first_that_differs_are_written() -> None:
    writer, terminal = memory_writer()
    writer.show([], [(("one", ""),), (("two", ""),), (("three", ""),)])
    terminal.written = b""
    writer.show([], [(("one", ""),), (("two!", ""),), (("three", ""),)])
    assert b"one" not in terminal.written
    assert b"two!" in terminal.written
    assert terminal.screen == ["one", "two!", "three"]


def test_the_cursor_is_hidden_while_something_is_live_and_seen_after_it() -> None:
    writer, terminal = memory_writer()
    writer.show([], [(("working", ""),)])
    assert terminal.cursor[2] is True
    writer.leave()
    assert terminal.cursor == (0, 1, False)
    assert terminal.screen == ["working"]


def test_a_frame_is_one_write_that_asks_the_terminal_to_wait_for_its_end() -> None:
    writer, terminal = memory_writer()
    writer.show([(("done", ""),)], [(("live", ""),)])
    assert terminal.writes == 1
    assert terminal.written.startswith(b"\x1b[?2026h")
    assert terminal.written.endswith(b"\x1b[?2026l")


class Resized(MemoryTerminal):
    """A terminal that breaks rows that are too long when it becomes narrower, as most do."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self.now = (columns, rows)

    def size(self) -> tuple[int, int]:
        return self.now


def test_after_a_change_of_size_the_live_rows_are_found_where_they_were_broken_to() -> None:
    terminal = Resized(20, 10)
    writer = TerminalWriter(terminal, RowEncoder(None, "utf-8"))
    writer.show([], [(("a" * 15, ""),), (("b" * 3, ""),)])
    terminal.now = (10, 10)
    terminal.written = b""
    writer.show([], [(("a" * 9, ""),), (("b" * 3, ""),)])
    assert b"\r\x1b[2A" in terminal.written  # 15 columns take two rows of 10 by now


def test_what_an_encoding_lacks_is_replaced_by_something_as_wide() -> None:
    encoder = RowEncoder("standard", "ascii")
    assert encoder.encode("✓ ✎ Edit … ü") == b"v e Edit ~ ?"
    assert RowEncoder("standard", "latin-1").encode("ü ✓") == "ü v".encode("latin-1")
    assert RowEncoder("standard", "utf-8").encode("✓") == "✓".encode()


def test_without_colours_there_is_weight_but_no_colour() -> None:
    row: Row = (("word", "bold red"), (" plain", ""))
    assert RowEncoder("standard", "utf-8").text(row) == "\x1b[1;91mword\x1b[0m plain"
    assert RowEncoder("standard", "utf-8", color=False).text(row) == "\x1b[1mword\x1b[0m plain"
    assert RowEncoder(None, "utf-8").text(row) == "word plain"


def test_a_path_is_a_link_where_the_terminal_has_links_and_nothing_of_it_can_end_the_link() -> None:
    row: Row = (("/a b/\x9c", path_style("/a b/\x9c")),)
    painted = RowEncoder("standard", "utf-8", links=True).text(row)
    assert re.sub("id=[0-9]+", "id=", painted) == (
        "\x1b]8;id=;file:///a%20b/%C2%9C\x1b\\\x1b[36m/a b/\x9c\x1b[0m\x1b]8;;\x1b\\"
    )
    assert RowEncoder("standard", "utf-8").text(row) == "\x1b[36m/a b/\x9c\x1b[0m"
    assert path_style("relative").link is None


@pytest.mark.parametrize(
    ("environment", "links"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "tmux-256color"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, False),
        ({"TERM": "xterm-256color", "TERMINAL_EMULATOR": "JetBrains-JediTerm"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "linux"}, False),
        ({}, False),
    ],
)
def test_links_are_made_for_terminals_that_know_them_and_find_no_lines_themselves(
    environment: dict[str, str], links: bool
) -> None:
    assert has_links(environment) is links


class Shrinking(MemoryTerminal):
    """A terminal that is said to be smaller, and writes down what is written then."""

    smaller: tuple[int, int] | None = None

    def size(self) -> tuple[int, int]:
        return self.smaller or super().size()


def test_rows_that_are_kept_are_not_written_again_when_the_terminal_becomes_too_small() -> None:
    terminal = Shrinking(30, 10)
    writer = TerminalWriter(terminal, RowEncoder(None, "utf-8"))

    def state() -> tuple[bool, bool]:
        return writer.overflows, writer.is_narrower

    writer.show([], [((f"row {number}", ""),) for number in range(8)])
    assert state() == (False, False)
    terminal.smaller = 30, 5
    assert state() == (True, False)
    writer.keep(1)
    writer.show([], [(("new", ""),)])
    assert terminal.all == [*(f"row {number}" for number in range(7)), "new"]
    assert state() == (False, False)
    terminal.smaller = 20, 5
    assert state() == (False, True)
