"""The screen of the stage: what real terminals show, where pyte by itself would not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.terminal_screen import Look, Run, TerminalScreen, plain


def shown(
    *output: bytes, columns: int = 20, lines: int = 4, encoding: str = "utf-8"
) -> TerminalScreen:
    screen = TerminalScreen(columns, lines, lambda _: None, encoding)
    for piece in output:
        screen.feed(piece)
    return screen


def texts(screen: TerminalScreen) -> list[str]:
    return [plain(row) for row in [*screen.history, *screen.rows()]]


@pytest.mark.parametrize(
    "sequence",
    [
        b"\x1b[?2026h",
        b"\x1b[?2004h",
        b"\x1b[>4;1m",
        b"\x1b[>1u",
        b"\x1b[<u",
        b"\x1b[=0;1u",
        b"\x1b[4:3m",
        b"\x1b[2 q",
        b"\x1b[!p",
        b"\x1b[?4m",
        b"\x1b[?6n",
        b"\x1b[1;2;3A",
        b"\x1b[9K",
        b"\x1b]8;;http://x\x1b\\",
        b"\x1b]133;A\x07",
        b"\x1bP+q544e\x1b\\",
        b"\x1b_Gq;AAAA\x1b\\",
        b"\x1b(B",
        b"\x1b=",
    ],
)
def test_a_sequence_that_draws_nothing_leaves_no_letters(sequence: bytes) -> None:
    screen = shown(b"a" + sequence + b"b")
    assert screen.rows()[0] == (Run("ab", Look()),)


def test_what_is_not_understood_is_noted() -> None:
    assert shown(b"\x1b[>4;1mx\x1b[1;2;3A").passed_over == ["\x1b[>4;1m", "\x1b[1;2;3A"]


@given(st.data())
def test_any_split_of_the_output_shows_the_same(data: st.DataObject) -> None:
    output = (
        "é世\x1b[1;31mred\x1b[0m\r\n\x1b]2;title\x07\x1bPq#\x1b\\a\x1b[>4;1mb\x1b[?2004h"
        "\x1b[2A\x1b[38;5;208mo\x1b(Bp\x1b[2;3Hq"
    ).encode()
    cuts = data.draw(st.lists(st.integers(0, len(output)), max_size=8).map(sorted))
    pieces = [
        output[start:end] for start, end in zip([0, *cuts], [*cuts, len(output)], strict=True)
    ]
    whole, split = shown(output), shown(*pieces)
    assert (split.rows(), split.title, split.mode) == (whole.rows(), "title", whole.mode)


@pytest.mark.parametrize(
    ("sgr", "look"),
    [
        (b"2", Look(dim=True)),
        (b"1;2;22", Look()),
        (b"5", Look()),
        (b"2;0", Look()),
        (b"1;3;4;7;9", Look(bold=True, italic=True, underline=True, reverse=True, strike=True)),
        (b"33;105", Look(fg="yellow", bg="brightmagenta")),
        (b"38;5;2;2", Look(fg="00cd00", dim=True)),
        (b"38;2;1;2;3", Look(fg="010203")),
        (b"48;2;5;22;2", Look(bg="051602")),
    ],
)
def test_a_run_knows_its_look(sgr: bytes, look: Look) -> None:
    assert shown(b"a\x1b[" + sgr + b"mb").rows()[0][-1] == Run(
        "b" if look != Look() else "ab", look
    )


@pytest.mark.parametrize(
    "text", ["❤️ and more", "a👩‍👩‍👧b", "e\u0301te\u0301", "x\u200by", "世界 in the middle"]
)
def test_what_joins_a_character_takes_nothing_away(text: str) -> None:
    assert texts(shown(text.encode()))[0] == text


def test_what_follows_a_full_row_does_as_in_xterm() -> None:
    assert texts(shown(b"12345\x1b[K", columns=5))[0] == "1234"
    assert texts(shown(b"\r\n12345\x1b[Aab", columns=5))[:2] == ["    a", "b2345"]


def test_the_alternate_screen_leaves_the_first_one_as_it_was() -> None:
    there = shown(b"one\r\ntwo\x1b[?1049h\x1b[H1\r\n2\r\n3\r\n4\r\n5\r\n6")
    assert texts(there) == ["3", "4", "5", "6"]
    there.feed(b"\x1b[?1049l three")
    assert texts(there) == ["one", "two three", "", ""]


def test_a_screen_that_shrinks_loses_the_rows_below_the_cursor_first() -> None:
    screen = shown(b"1\r\n2\r\n3\x1b[A\x1b[2C<")
    screen.resize(3, 20)
    assert (texts(screen), screen.history) == (["1", "2  <", "3"], [])
    screen.resize(2, 20)
    assert (texts(screen), screen.history) == (["1", "2  <"], [])
    screen.resize(1, 3)
    assert (texts(screen), len(screen.history)) == (["1", "2"], 1)


def test_the_scrollback_can_be_erased() -> None:
    assert texts(shown(b"1\r\n2\r\n3\r\n4\r\n5")) == ["1", "2", "3", "4", "5"]
    assert texts(shown(b"1\r\n2\r\n3\r\n4\r\n5\x1b[3J")) == ["2", "3", "4", "5"]
