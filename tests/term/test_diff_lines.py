"""A diff on the screen: exact text, signs, colours, changed words, and what is folded away."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from twofold.styled.code import Highlighter
from twofold.term.diff_lines import LONGEST_FOLDED, SIDE_BY_SIDE, STYLES, DiffRows, diff_lines
from twofold.term.lines import Parts, Row, all_rows, cells, plain
from twofold.text import sanitize
from twofold.view.blocks import DiffItem
from twofold.view.diff import DiffLine, DiffLineKind

SIGNS = {"added": "+", "removed": "-", "context": " "}
KINDS: list[DiffLineKind] = list(get_args(DiffLineKind))


def item(*lines: tuple[DiffLineKind, str]) -> DiffItem:
    return DiffItem(tuple(DiffLine(kind, text) for kind, text in lines))


def rows(diff: DiffItem, fold: int | None = None) -> list[Row]:
    return all_rows(diff_lines(diff, fold=fold), None)


def exact(line: DiffLine) -> str:
    text = SIGNS.get(line.kind, "") + line.text
    return text if line.text else text.strip()  # a blank row is empty


any_text = st.one_of(
    st.sampled_from(["", "x", "return 'a'", "return 'b'", "/* x", "*/", "\tfoo(1, 2)", "漢字"]),
    st.text(max_size=20).map(lambda text: sanitize(text).replace("\n", " ")),
)
names = st.sampled_from(["a.py", "b.js (new file)", "a.c → b.c (moved)", "x", "..", "(new file)"])
any_line = st.one_of(
    st.tuples(st.sampled_from(KINDS), any_text), st.tuples(st.just("file"), names)
).map(lambda given: DiffLine(*given))
any_item = st.lists(any_line, max_size=30).map(lambda lines: DiffItem(tuple(lines)))


@given(any_item)
def test_the_text_of_a_row_is_the_sign_and_the_text(diff: DiffItem) -> None:
    assert [plain(row) for row in rows(diff)] == [exact(line) for line in diff.lines]


@given(any_item, st.integers(-1, 40))
def test_what_is_folded_is_told_and_what_is_not_is_exact(diff: DiffItem, fold: int) -> None:
    shown = [plain(row) for row in rows(diff, fold)]
    every = [exact(line) for line in diff.lines]
    if len(every) <= fold:
        assert shown == every
    elif every:
        *first, last = shown
        assert first == every[: max(0, fold - 1)]
        assert last.startswith(f"… {len(every) - len(first):,} more line")


@given(any_item, st.integers(3, 30))
def test_every_row_is_within_the_width_and_no_style_has_a_ground(
    diff: DiffItem, width: int
) -> None:
    for row in all_rows(diff_lines(diff, fold=None), width):
        assert cells(row) <= width
        for _, style in row:
            assert Style.parse(str(style)).bgcolor is None


def test_the_line_that_tells_of_the_others_counts_what_they_are() -> None:
    lines: list[tuple[DiffLineKind, str]] = [("file", "a.py"), ("hunk", "@@ -1 +1 @@")]
    counts: list[tuple[DiffLineKind, int]] = [("removed", 12), ("added", 30), ("context", 78)]
    lines += [(kind, "x") for kind, count in counts for _ in range(count)]
    assert plain(rows(item(*lines), 3)[-1]) == "… 120 more lines (30 added, 12 removed)"


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        ([("context", "z")] * 2, "… 2 more lines"),
        ([("added", "z")] * 2, "… 2 more lines (2 added)"),
        ([("file", "b"), ("removed", "z")], "… 2 more lines (1 more file, 1 removed)"),
        ([("file", "b"), ("file", "c")] * 700, "… 1,400 more lines (1,400 more files)"),
    ],
)
def test_what_is_hidden_is_told_in_numbers(
    hidden: list[tuple[DiffLineKind, str]], told: str
) -> None:
    shown = rows(item(("file", "a"), *hidden), 2)
    assert [plain(row) for row in shown] == ["a", told]
    assert shown[-1][0][1] == "dim"


def test_a_fold_of_one_line_shows_nothing_but_how_much_there_is() -> None:
    assert [plain(row) for row in rows(item(("file", "a"), ("added", "b")), 1)] == [
        "… 2 more lines (1 more file, 1 added)"
    ]


def test_of_a_long_line_the_rest_is_told_where_there_is_folding() -> None:
    diff = item(("added", "x" * (LONGEST_FOLDED + 12_345)))
    assert plain(rows(diff, 40)[0]) == "+" + "x" * LONGEST_FOLDED + "… 12,345 more characters"
    assert plain(rows(diff)[0]) == exact(diff.lines[0])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_line_has_its_style(kind: DiffLineKind) -> None:
    (row,) = rows(item((kind, "words")))
    assert {str(style) for _, style in row} <= {STYLES[kind], f"bold {STYLES[kind]}"}


def test_added_code_has_the_colours_of_its_language_on_green() -> None:
    diff = item(("file", "a.py (new file)"), ("added", "return x"))
    assert rows(diff)[1] == (("+", "bold green"), ("return ", "green magenta"), ("x", "green"))


def test_removed_code_is_red_throughout() -> None:
    diff = item(("file", "a.py"), ("removed", "return x"))
    assert rows(diff)[1] == (("-", "bold red"), ("return x", "red"))


def test_a_file_moved_goes_by_its_new_name() -> None:
    diff = item(("file", "a.txt → b.py (moved)"), ("added", "return x"))
    assert ("return ", "green magenta") in rows(diff)[1]


def test_context_is_read_with_the_code_and_shown_dim() -> None:
    diff = item(("file", "a.py"), ("context", "x = '''"), ("added", "return"), ("context", "'''"))
    assert rows(diff)[1:] == [
        ((" ", "dim"), ("x = '''", "dim")),
        (("+", "bold green"), ("return", "green green")),
        ((" ", "dim"), ("'''", "dim")),
    ]


def test_a_string_of_one_hunk_does_not_colour_the_next() -> None:
    diff = item(
        ("file", "a.py"), ("hunk", "@@"), ("added", "x = '''"), ("hunk", "@@"), ("added", "return")
    )
    assert rows(diff)[-1] == (("+", "bold green"), ("return", "green magenta"))


def test_the_words_that_changed_stand_out() -> None:
    diff = item(("removed", "say hello to a"), ("added", "say hello to b"))
    assert rows(diff) == [
        (("-", "bold red"), ("say hello to ", "red"), ("a", "red reverse")),
        (("+", "bold green"), ("say hello to ", "green"), ("b", "green reverse")),
    ]


def test_a_changed_word_has_one_colour_whatever_it_is_made_of() -> None:
    diff = item(("file", "a.py"), ("removed", "x = f(y, 1)"), ("added", "x = f(y, 'a', 2, 1)"))
    changed = [part for part in rows(diff)[2] if "reverse" in str(part[1])]
    assert "".join([text for text, _ in changed]) == "'a', 2, "
    assert {style for _, style in changed} == {"green reverse"}


def test_a_row_that_continues_a_line_does_not_begin_with_a_sign() -> None:
    diff = item(("removed", "x" * 19 + "+ not added"))
    made = all_rows(diff_lines(diff, fold=None), 20)
    assert [plain(row) for row in made] == ["-" + "x" * 19, " + not added"]


def test_only_the_lines_shown_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def add(self: Highlighter, lines: list[str]) -> list[Parts]:
        read.append(len(lines))
        return [((line, ""),) for line in lines]

    monkeypatch.setattr(Highlighter, "add", add)
    lines = (DiffLine("file", "a.py"), *[DiffLine("added", "return")] * 20_000)
    assert len(diff_lines(DiffItem(lines), fold=10)) == 10
    assert read == [8]


# ---- side by side --------------------------------------------------------------------------------


def beside(diff: DiffItem, width: int = SIDE_BY_SIDE, fold: int | None = None) -> list[str]:
    return [plain(row).rstrip() for row in DiffRows(diff, fold).rows(width)]


EDIT = item(
    ("file", "a.py"),
    ("hunk", "@@ -1,3 +1,3 @@"),
    ("context", "same"),
    ("removed", "the old line"),
    ("removed", "gone"),
    ("added", "the new line"),
    ("context", "end"),
)


def test_on_a_wide_screen_old_lines_are_beside_the_new_ones() -> None:
    assert [re.sub(" {3,}", "   ", row) for row in beside(EDIT)] == [
        "a.py",
        "@@ -1,3 +1,3 @@",
        " same   │  same",
        "-the old line   │ +the new line",
        "-gone   │",
        " end   │  end",
    ]


def test_all_rows_have_the_bar_in_the_same_column() -> None:
    bars = {row.index("│") for row in beside(EDIT) if "│" in row}
    assert bars == {(SIDE_BY_SIDE - 3) // 2 + 1}


@pytest.mark.parametrize("width", [None, 80, SIDE_BY_SIDE - 1])
def test_on_a_narrow_screen_and_in_a_file_there_is_one_column(width: int | None) -> None:
    assert DiffRows(EDIT).rows(width) == all_rows(diff_lines(EDIT, fold=None), width)


@pytest.mark.parametrize("kind", ["added", "removed", "context"])
def test_what_has_nothing_to_be_compared_with_is_one_column(kind: DiffLineKind) -> None:
    diff = item(("file", "a.py"), (kind, "x"), ("context", "y"))
    assert beside(diff) == [exact(line) for line in diff.lines]


@given(
    any_item, st.integers(SIDE_BY_SIDE, SIDE_BY_SIDE + 20), st.one_of(st.none(), st.integers(1, 40))
)
def test_side_by_side_shows_every_changed_line_once_and_fits_the_width(
    diff: DiffItem, width: int, fold: int | None
) -> None:
    made = DiffRows(diff, fold).rows(width)
    assert all(cells(row) <= width for row in made)
    one_column = all_rows(diff_lines(diff, fold=fold), None)
    for kind in ("added", "removed"):
        sign = SIGNS[kind]
        style = f"bold {STYLES[kind]}"
        counts = [sum([(sign, style) in row for row in rows]) for rows in (made, one_column)]
        assert counts[0] == counts[1]


def test_a_diff_that_is_folded_counts_what_is_missing() -> None:
    shown = beside(EDIT, fold=5)
    assert shown[-1] == "… 3 more lines (1 added, 1 removed)"
    assert len(shown) == 5
