"""Lines and the rows of the screen that they take."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from twofold.term.lines import NARROWEST, Line, Parts, Row, all_rows, cells, cut, line, plain

styles = st.sampled_from(["", "bold", "red on blue"])
texts = st.text("abcdef    \t\näß日本", max_size=60)
parts = st.lists(st.tuples(texts, styles), max_size=4).map(tuple)
untabbed = st.lists(st.tuples(st.text("abc   ü日\n", max_size=40), styles), max_size=4).map(tuple)
margins = st.text("> |", max_size=6).map(lambda text: ((text, "dim"),) if text else ())
lines = st.builds(Line, parts, margins, st.booleans(), margins)
widths = st.integers(NARROWEST, 50)


def shown(some: Line, width: int | None) -> list[str]:
    return [plain(row) for row in some.rows(width)]


def without_blanks(text: str) -> str:
    return "".join(text.split())


# ---- laws ------------------------------------------------------------------------------------


@given(lines, widths)
def test_no_row_is_wider_than_the_screen(some: Line, width: int) -> None:
    assert all(cells(row) <= width for row in some.rows(width))


@given(lines, st.integers(1, NARROWEST))
def test_on_a_screen_of_one_column_only_a_wide_character_is_wider(some: Line, width: int) -> None:
    for row in some.rows(width):
        assert cells(row) <= width or (width == 1 and len(plain(row)) == 1)


@given(parts, st.booleans(), st.integers(1, 50))
def test_nothing_but_blanks_is_lost_when_a_text_is_laid_out(
    some: Parts, prose: bool, width: int
) -> None:
    rows = Line(some, prose=prose).rows(width)
    assert without_blanks("".join(map(plain, rows))) == without_blanks(plain(some))


@given(untabbed, st.integers(1, 50))
def test_what_is_no_prose_keeps_every_blank(some: Parts, width: int) -> None:
    rows = Line(some, prose=False).rows(width)
    assert "".join(map(plain, rows)) == plain(some).replace("\n", "")


@given(st.lists(st.text("abcü", min_size=1, max_size=10), min_size=1), st.integers(10, 40))
def test_words_that_fit_are_never_parted(words: list[str], width: int) -> None:
    rows = shown(line(" ".join(words)), width)
    assert " ".join(rows) == " ".join(words)


@given(st.lists(st.text("abc", min_size=1, max_size=30), min_size=1), st.integers(8, 20))
def test_a_row_holds_as_many_words_as_fit_and_begins_with_one(words: list[str], width: int) -> None:
    rows = shown(line("  ".join(words)), width)
    for row, after in pairwise(rows):
        assert after[0] != " "
        first = after.split(" ")[0]
        # unless it was parted, the first word of a row did not fit on the one before
        assert len(row) + 2 + len(first) > width or len(row) == width


@given(parts, widths)
def test_every_newline_begins_a_row(some: Parts, width: int) -> None:
    for prose in (True, False):
        each = [shown(line(text, prose=prose), width) for text in plain(some).split("\n")]
        assert shown(Line(some, prose=prose), width) == [row for rows in each for row in rows]


@given(parts, widths, st.booleans())
def test_each_character_keeps_its_style(some: Parts, width: int, prose: bool) -> None:
    def styled(row: Row) -> list[tuple[str, object]]:
        return [(char, style) for text, style in row for char in text if not char.isspace()]

    rows = Line(some, prose=prose).rows(width)
    assert [each for row in rows for each in styled(row)] == styled(some)


@given(untabbed, margins, margins, widths)
def test_every_row_begins_with_the_margin_and_the_head_or_as_many_blanks(
    some: Parts, margin: Parts, head: Parts, width: int
) -> None:
    width += cells(margin) + cells(head)
    first, *others = shown(Line(some, margin, head=head), width)
    blanks = " " * cells(head)
    assert first.startswith((plain(margin) + plain(head)).rstrip(" "))
    assert all(row.startswith((plain(margin) + blanks).rstrip(" ")) for row in others)
    inner = shown(Line(some), width - cells(margin) - cells(head))
    before = [plain(margin + head), *[plain(margin) + blanks] * len(others)]
    expected = [f"{a}{b}" if b else a.rstrip(" ") for a, b in zip(before, inner, strict=True)]
    assert [first, *others] == expected


@given(parts, margins, margins)
def test_without_a_width_a_line_is_as_long_as_it_is(
    some: Parts, margin: Parts, head: Parts
) -> None:
    rows = shown(Line(some, margin, head=head), None)
    assert len(rows) == plain(some).count("\n") + 1
    assert without_blanks("".join(shown(Line(some), None))) == without_blanks(plain(some))


rows_to_cut = st.lists(st.tuples(st.text("abc ü日…", max_size=20), styles), max_size=4).map(tuple)


@given(rows_to_cut, st.integers(0, 40))
def test_a_row_that_is_cut_fits_and_is_the_beginning_of_what_it_was(row: Row, width: int) -> None:
    made = cut(row, width)
    assert cells(made) <= width
    if cells(row) <= width:
        assert made == row
    elif width:
        assert plain(made).endswith("…")
        assert plain(row).startswith(plain(made)[:-1])
        # a wide character may leave one column free
        assert cells(made) >= width - 1


# ---- cases -----------------------------------------------------------------------------------

LAID_OUT: dict[str, tuple[Line, int, list[str]]] = {
    "nothing is one empty row": (line(""), 10, [""]),
    "blanks beyond the width are one empty row": (line(" " * 30), 10, [""]),
    "blanks before a word stay": (line("   abc"), 10, ["   abc"]),
    "a word of the very width": (line("0123456789 abc"), 10, ["0123456789", "abc"]),
    "a word that is too long, and blanks": (line("0123456789ab   c"), 10, ["0123456789", "ab   c"]),
    "blanks at the edge": (line("01234567    ab"), 10, ["01234567", "ab"]),
    "newlines": (line("a\n\nb\n"), 10, ["a", "", "b", ""]),
    "a tab goes to its stop": (line("a\tb\tc"), 20, ["a       b       c"]),
    "a tab behind another part": (
        *(Line((("ab", "bold"), ("\tc", ""))), 20),
        ["ab      c"],
    ),
    "wide characters are not halved": (line("日本語", prose=False), 5, ["日本", "語"]),
    "a margin on every row": (line("aaaaa bbbbb", margin="> "), 12, ["> aaaaa", "> bbbbb"]),
    "a margin before nothing": (line("", margin="| "), 12, ["|"]),
    "a head on the first": (
        *(Line((("aaaaaa bbbbbb", ""),), ((" ", ""),), head=(("* ", ""),)), 12),
        [" * aaaaaa", "   bbbbbb"],
    ),
    "a margin that leaves too little goes": (
        *(line("some words", margin=" " * 10), 12),
        ["some words"],
    ),
    "and what follows the head has the full width": (
        *(Line((("a word and another", ""),), ((" ", ""),), head=(("/help     ", ""),)), 14),
        ["/help     a", "word and", "another"],
    ),
    "a head that does not fit itself": (
        *(Line((("text", ""),), head=(("a-very-long-head ", ""),)), 10),
        ["a-very-lon", "g-head", "text"],
    ),
}


@pytest.mark.parametrize(("some", "width", "rows"), LAID_OUT.values(), ids=list(LAID_OUT))
def test_lines_are_laid_out(some: Line, width: int, rows: list[str]) -> None:
    assert shown(some, width) == rows


def test_the_rows_of_several_lines_stand_one_after_the_other() -> None:
    rows = all_rows([line("one two", margin="- "), line("three")], 9)
    assert [plain(row) for row in rows] == ["one two", "three"]
    assert all_rows([], 9) == []


def test_characters_that_belong_together_are_not_parted() -> None:
    thumb = "\N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}"
    umlaut = "u\N{COMBINING DIAERESIS}"
    for together in (thumb, umlaut):
        text = together * 20
        for row in shown(line(text, prose=False), 9):
            assert row == together * (len(row) // len(together))


def test_the_end_of_an_endless_row_is_not_looked_at() -> None:
    assert cut((("日" * 100_000, ""), ("b" * 100_000, "")), 10) == (("日" * 4, ""), ("…", ""))
    assert cell_len(plain(cut((("b" * 100_000, ""),), 10))) == 10
