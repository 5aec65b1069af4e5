"""What a terminal of an agent shows, whatever bytes come, in whatever pieces."""

from itertools import pairwise

import pyte
import pyte.modes
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.style import Style

from twofold.styled.emulator import AT_ONCE, INTERPRETED, KEPT, Emulator
from twofold.term.lines import plain
from twofold.text import sanitize
from twofold.text.terminal import LONGEST_SEQUENCE


def shown(*pieces: bytes, columns: int = 80, rows: int = 24, limit: int = 1000) -> list[str]:
    emulator = Emulator(columns, rows)
    for piece in pieces:
        emulator.feed(piece)
    return texts(emulator, limit)


def texts(emulator: Emulator, limit: int = 1000) -> list[str]:
    return [plain(row) for row in emulator.rows(limit)]


def styled(output: bytes) -> tuple[tuple[str, object], ...]:
    emulator = Emulator()
    emulator.feed(output)
    (row,) = emulator.rows(10)
    return row


# ---- what is shown -----------------------------------------------------------------------------

CASES: list[tuple[bytes, list[str]]] = [
    (b"", []),
    (b"one\ntwo", ["one", "two"]),
    (b"one\r\ntwo\r\n", ["one", "two"]),
    (b"\n\none\n\n\n", ["", "", "one"]),
    (b"trailing   \n", ["trailing"]),
    (b" 10%\r 50%\r100%\n", ["100%"]),
    (b"abc\b\bX", ["aXc"]),
    (b"a\tb", ["a       b"]),
    (b"one\ntwo\x1b[A\rONE", ["ONE", "two"]),
    (b"one\ntwo\x1b[1;1HONE\x1b[2;2HW", ["ONE", "tWo"]),
    (b"one two\x1b[4D\x1b[K", ["one"]),
    (b"one\x1b[2K\rtwo", ["two"]),
    (b"one two\x1b[4G\x1b[1K", ["    two"]),
    (b"one\ntwo\nthree\x1b[2A\x1b[J", ["one"]),
    (b"one\ntwo\x1b[2J\x1b[Hnew", ["new"]),
    (b"one\x1bcnew", ["new"]),
    (b"abc\x1b[1G\x1b[2@", ["  abc"]),
    (b"abc\x1b[1G\x1b[2P", ["c"]),
    (b"abc\x1b[1G\x1b[2X", ["  c"]),
    (b"a\nb\nc\x1b[1;1H\x1b[L", ["", "a", "b", "c"]),
    (b"a\nb\nc\x1b[1;1H\x1b[M", ["b", "c"]),
    (b"a\x1b7b\nc\x1b8X", ["aX", "c"]),
    (b"a\x1b[sb\x1b[uX\x1b[uY", ["aY"]),
    (b"-\x1b[4b", ["-----"]),
    (b"a\nb\x1b[1;1H\x1bMnew", ["new", "a", "b"]),
    ("größe 日本語".encode(), ["größe 日本語"]),
    ("e\u0301".encode(), ["é"]),
    # what takes no room is left out, and what follows it is not
    ("👩\u200d💻 \u200b\ufe0fx".encode(), ["👩💻 x"]),
    (b"\xff\xfe!", ["��!"]),
    (b"\x00\x01\x07\x0e\x0f\x7fx", ["x"]),
    # titles, links, images, queries
    (b"\x1b]0;title\x07x", ["x"]),
    (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", ["link"]),
    (b"\x1b_Gf=100;AAAA\x1b\\x", ["x"]),
    (b"\x1bPq#0;2\x1b\\x", ["x"]),
    (b"\x1b]0;no end\nx", ["", "x"]),
    (b"\x1b[c\x1b[6n\x1b[>c\x1b[?6n\x1b]11;?\x07x", ["x"]),
    (b"\x1b[>4;2m\x1b[?4m\x1b[2 q\x1b[!p\x1b[?25l\x1b[?2004hx", ["x"]),
    # what is no sequence, or one with arguments that nobody expects
    (b"\x1b[1;2;3Ax\x1b[?5B\x1b[9Ky\x1b[7Jz", ["xyz"]),
    (b"\x1b[12\x1b[mx", ["x"]),
    (b"\x1b", []),
    (b"\x1b[", []),
    (b"\x1b#8x", ["x"]),
    (b"\x1b[?6h\x1b[5dx", ["", "", "", "", "x"]),
    # the second screen leaves nothing behind
    (b"main\x1b[?1049h\x1b[Hfull screen", ["full screen"]),
    (b"main\x1b[?1049hfull\n\nscreen\x1b[?1049l!", ["main!"]),
]


@pytest.mark.parametrize(("output", "expected"), CASES)
def test_the_screen_shows_what_was_written(output: bytes, expected: list[str]) -> None:
    assert shown(output) == expected


@pytest.mark.parametrize(
    ("output", "parts"),
    [
        (b"\x1b[31mred\x1b[0m plain", (("red", "red"), (" plain", ""))),
        (b"\x1b[1;3;4;9mx", (("x", "bold italic underline strike"),)),
        (b"\x1b[7mx\x1b[27my", (("x", "reverse"), ("y", ""))),
        (b"\x1b[33;45mx", (("x", "yellow on magenta"),)),
        (b"\x1b[93;105mx", (("x", "bright_yellow on bright_magenta"),)),
        (b"\x1b[38;5;196mx", (("x", "#ff0000"),)),
        (b"\x1b[38;2;1;2;3mx", (("x", "#010203"),)),
        (b"\x1b[38:2::1:2:3mx", (("x", "#010203"),)),
        (b"\x1b[48:5:196mx", (("x", "on #ff0000"),)),
        (b"\x1b[4:3mx\x1b[4:0my", (("x", "underline"), ("y", ""))),
        (b"\x1b[38;2;999;999;999mx", (("x", ""),)),
        (b"\x1b[38;5;999mx", (("x", ""),)),
        (b"\x1b[38;5mx\x1b[38mx\x1b[9999mx", (("xxx", ""),)),
        (b"\x1b[41m  \x1b[m  ", (("  ", "on red"),)),
        (b"a\x1b[31m   ", (("a", ""),)),
    ],
)
def test_text_has_the_style_it_was_written_in(
    output: bytes, parts: tuple[tuple[str, str], ...]
) -> None:
    assert styled(output) == parts


# ---- what scrolled off -------------------------------------------------------------------------


def test_what_scrolled_off_is_kept_above() -> None:
    output = b"".join([b"%d\n" % number for number in range(100)])
    emulator = Emulator(rows=5)
    emulator.feed(output)
    assert texts(emulator) == [str(number) for number in range(100)]
    assert emulator.hidden == 0
    assert texts(emulator, 3) == ["97", "98", "99"]
    assert emulator.hidden == 97
    assert texts(emulator, 0) == texts(emulator, -1) == []
    assert emulator.hidden == 100


def test_a_long_line_takes_as_many_rows_as_it_needs() -> None:
    assert shown(b"x" * 50, columns=20) == ["x" * 20, "x" * 20, "x" * 10]


def test_what_leaves_a_region_within_the_screen_is_gone() -> None:
    output = b"head\x1b[2;4r\x1b[4;1Ha\nb\nc\nd\x1b[r"
    assert shown(output, rows=5) == ["head", "b", "c", "d"]


def test_the_rows_kept_are_bounded_and_all_are_counted() -> None:
    emulator = Emulator()
    for _ in range(40):
        emulator.feed(b"\x1b[31mx\x1b[my" * 10 + b"\n" + (b"word " * 10 + b"\n") * 1000)
    kept = texts(emulator, 10**6)
    assert len(kept) * 50 < KEPT
    assert emulator.hidden + len(kept) == 40 * 1001


def test_erasing_all_that_ever_was_forgets_what_scrolled_off() -> None:
    emulator = Emulator(rows=5)
    emulator.feed(b"old\n" * 50 + b"\x1b[3J\x1b[H\x1b[2Jnew")
    assert texts(emulator) == ["new"]
    assert emulator.hidden == 0


# ---- a lot at once -----------------------------------------------------------------------------


def test_of_a_lot_of_output_the_end_is_shown_and_the_rest_counted() -> None:
    count = 3 * AT_ONCE // 10
    emulator = Emulator()
    emulator.feed(b"before\n")
    emulator.feed(b"".join([b"%09d\n" % number for number in range(count)]))
    assert texts(emulator, 2) == [f"{count - 2:09}", f"{count - 1:09}"]
    assert emulator.hidden == count + 1 - 2
    assert len(emulator.rows(10**6)) <= INTERPRETED // 10


def test_a_lot_of_output_without_a_newline_is_cut_between_characters() -> None:
    (row,) = shown(b"\r" + "é\r".encode() * AT_ONCE)
    assert row == "é"


def test_the_end_of_a_very_long_line_is_shown() -> None:
    rows = shown(b"first\n" + b"x" * 2 * AT_ONCE + b"last\n", limit=2)
    assert rows[0] == "x" * 80
    assert rows[1].endswith("xlast")


def test_nothing_stands_above_the_second_screen() -> None:
    emulator = Emulator(rows=5)
    emulator.feed(b"line\n" * 50 + b"\x1b[?1049h\x1b[Hfull\nscreen")
    assert texts(emulator) == ["full", "screen"]
    assert emulator.hidden == 0
    emulator.feed(b"\n" * 50 + b"\x1b[?1049l")
    assert texts(emulator) == ["line"] * 50


def test_a_lot_of_output_ends_what_was_open() -> None:
    opened = [b"\x1b]0;title", b"\x1b[31", b"\x1b[?1049h", b"\x1b[2;3r", b"\x1b[31m", b"\xe6\x97"]
    for before in opened:
        emulator = Emulator()
        emulator.feed(before)
        emulator.feed(b"line\n" * AT_ONCE)
        assert emulator.rows(2) == [(("line", ""),)] * 2
        assert emulator.hidden == AT_ONCE - 2


# ---- hostile output ----------------------------------------------------------------------------

SEQUENCES = [b"\x1b[999999999B", b"\x1b[99999999999999999999b", b"\x1b[9999L", b"\x1b[9999P"]
SEQUENCES += [b"\x1b[%sm" % b";".join([b"38"] * 20), b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?7l"]
SEQUENCES += [b"\x1b[2;3r", b"\x1b[;r", b"\x1b[5;2r", b"\x1b[H", b"\x1b[99;99H", b"\x1bM", b"\x1bD"]
SEQUENCES += [b"\x1b[2J", b"\x1b[1J", b"\x1b[K", b"\x1b[1K", b"\x1b[41m", b"\x1b[m", b"\x1b7"]
SEQUENCES += [
    b"\x1b8",
    b"\x1bc",
    b"\x1b[3g",
    b"\x1bH",
    b"\x1b[S",
    b"\x1b[9T",
    b"\x1b[3@",
    b"\x1b[d",
]
SEQUENCES += [b"\x1b[?3h", b"\x1b[?5h", b"\x1b[?6h", b"\x1b[4h", b"\x1b[20l", b"\x1b%@", b"\x1b(0"]
SEQUENCES += [b"\x1b]2;t", b"\x07", b"\x1b\\", b"\x1bP", b"\x1b[c", b"\x1b[5n", b"\x1b[6n", b"\x18"]
SEQUENCES += [
    b"\x9b1m",
    b"\xc2\x9b1m",
    b"\xc2\x9d0;x",
    b"\xc2\x90",
    b"\xc2\x85",
    b"\x1b[1$r",
    b"\x1b",
]
SEQUENCES += [
    "漢".encode(),
    "e\u0301\u0301".encode(),
    "\u202e".encode(),
    "\u200d".encode(),
    b"\xe6",
]
SEQUENCES += [
    b"\n",
    b"\r",
    b"\b",
    b"\t",
    b"x",
    b"words and more ",
    b"[",
    b"0;",
    b"m",
    b"1234567890",
]

outputs = st.lists(st.one_of(st.sampled_from(SEQUENCES), st.binary(max_size=6)), max_size=60).map(
    b"".join
)
cuts = st.lists(st.integers(0, 300), max_size=8)


@example(b"words \x1b%@", [8], 20, 5)
@given(outputs, cuts, st.integers(20, 30), st.integers(5, 8))
def test_any_split_of_the_bytes_gives_the_same_lines(
    output: bytes, at: list[int], columns: int, rows: int
) -> None:
    whole, split = Emulator(columns, rows), Emulator(columns, rows)
    whole.feed(output)
    edges = [0, *sorted(min(cut, len(output)) for cut in at), len(output)]
    for start, end in pairwise(edges):
        split.feed(output[start:end])
    assert split.rows(50) == whole.rows(50)
    assert split.hidden == whole.hidden


@given(outputs)
@example(b"\x1b[38;2;300;300;300mx\x1b[48;5;255m")
def test_whatever_is_written_is_safe_to_show_and_nothing_fails(output: bytes) -> None:
    emulator = Emulator(20, 5)
    emulator.feed(output)
    for row in emulator.rows(100):
        for text, style in row:
            assert text == sanitize(text)
            assert "\n" not in text
            Style.parse(style)
    assert emulator.hidden >= 0


@given(outputs, st.integers(0, 8))
def test_at_most_so_many_lines_are_given_and_the_last_is_not_blank(
    output: bytes, limit: int
) -> None:
    emulator = Emulator(20, 5)
    emulator.feed(output)
    every = emulator.rows(10**6)
    hidden = emulator.hidden
    assert not every or every[-1]
    assert emulator.rows(limit) == every[max(0, len(every) - limit) :]
    assert emulator.hidden == hidden + max(0, len(every) - limit)


@pytest.mark.parametrize(
    ("size", "clamped"),
    [
        ((80, 24), (80, 24)),
        ((0, 0), (20, 5)),
        ((-5, -(10**20)), (20, 5)),
        ((10**20, 10**20), (500, 200)),
    ],
)
def test_a_size_that_no_terminal_has_is_made_one(
    size: tuple[int, int], clamped: tuple[int, int]
) -> None:
    screen = Emulator(*size)._screen
    assert (screen.columns, screen.lines) == clamped


@pytest.mark.parametrize(
    ("start", "counted"), [(b"\x1b]0;", 2), (b"\x1bP", 0), (b"\x1b_G", 1), (b"\xc2\x9d2;", 2)]
)
def test_a_string_that_never_ends_is_given_up(start: bytes, counted: int) -> None:
    assert shown(start, b"x" * LONGEST_SEQUENCE, b"after") == ["x" * counted + "after"]


def test_accents_do_not_pile_up_without_end() -> None:
    (row,) = shown(b"e" + "\u0301".encode() * 10_000 + b"x")
    assert len(row) < 12
    assert row.endswith("x")


# ---- beside another terminal -------------------------------------------------------------------

# What pyte does as terminals do. It forgets to move rows that nothing was written to, keeps a cell
# beyond the last column when cells are inserted, and remembers more than one cursor.
PIECES = [b"words ", b"x", b"\n", b"\r", b"\b", b"\t", b"\x1bM", b"\x1bD", b"\x1bE"]
PIECES += [b"\x1b[%d%c" % (number, final) for number in (0, 1, 3, 9) for final in b"ABCDEFGPXde"]
PIECES += [b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[1J", b"\x1b[2J", b"\x1b[H"]
PIECES += [b"\x1b[3;7H", b"\x1b[99;99H", b"\x1b[1;31m", b"\x1b[44m", b"\x1b[m", b"a" * 33]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
def test_the_screen_is_the_one_that_another_emulator_has(output: bytes) -> None:
    judge = pyte.Screen(20, 5)
    judge.set_mode(pyte.modes.LNM)
    pyte.ByteStream(judge).feed(output)
    emulator = Emulator(20, 5)
    emulator.feed(output)
    rows = [*reversed([plain(row) for row in emulator._screen.upwards()][:5])]
    assert [row.rstrip() for row in rows] == [row.rstrip() for row in judge.display]
    assert (emulator._screen.x, emulator._screen.y) == (judge.cursor.x, judge.cursor.y)


def test_half_of_a_wide_character_is_a_blank() -> None:
    assert shown("日本\x1b[2Gx".encode()) == [" x本"]
    assert shown("日本\x1b[3Gx".encode()) == ["日x"]
    assert shown("日本\x1b[2G\x1b[P".encode()) == [" 本"]
