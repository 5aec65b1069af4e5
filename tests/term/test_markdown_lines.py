"""Markdown on the screen: what stands on its rows, and that they fit."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from tests.support.markdown_texts import DOCS, DOCUMENTS, pieces_of
from twofold.term.lines import Drawable, Row, all_rows, plain
from twofold.term.markdown_lines import MarkdownLines, parts_of
from twofold.text.safe import sanitize
from twofold.view.blocks import Item, Piece
from twofold.view.markdown import MarkdownBlock, Span
from twofold.view.markdown.structure import FIRST_ROWS
from twofold.view.message import MessageReader
from twofold.wire.content import TextContent

WIDTHS = [None, 1, 2, 5, 8, 9, 13, 20, 40, 80, 200]


class Stream:
    """A message of the agent that arrives in pieces, and its lines."""

    def __init__(self) -> None:
        self._reader = MessageReader(markdown=True)
        self._lines = MarkdownLines()

    def feed(self, text: str) -> list[Drawable]:
        return self._lines.settled(_markdown(self._reader.add([TextContent(text)])))

    def tail(self) -> list[Drawable]:
        return self._lines.tail(_markdown(self._reader.tail()))

    def end(self) -> list[Drawable]:
        return self._lines.settled(_markdown(self._reader.end()))


def _markdown(pieces: Iterable[Piece]) -> list[MarkdownBlock]:
    return [piece for piece in pieces if not isinstance(piece, Item)]


def drawn(text: str) -> list[Drawable]:
    lines = Stream()
    return [*lines.feed(text), *lines.end()]


def rows(text: str, width: int | None = None) -> list[Row]:
    return all_rows(drawn(text), width)


def shown(text: str, width: int | None = None) -> list[str]:
    return [plain(row) for row in rows(text, width)]


# ---- what it looks like ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("# a\n\nb **c**\nd", None, ["a", "", "b c", "d"]),
        ("one two three four", 9, ["one two", "three", "four"]),
        (
            "- one two three\n  - four five six\n\n12. [x] seven\n- [ ] eight\n-",
            12,
            [
                *("• one two", "  three", "  • four", "    five six", ""),
                *("12. ☑ seven", "☐ eight", "•"),
            ],
        ),
        ("- a\n\n  b\n- c", None, ["• a", "", "  b", "• c"]),
        (
            "> one two three\n>\n> - four five six\n>\n> > deep",
            12,
            ["│ one two", "│ three", "│", "│ • four", "│   five six", "│", "│ │ deep"],
        ),
        ("- > a", None, ["• │ a"]),
        ("---", None, ["───"]),
        ("---", 10, ["─" * 10]),
        ("---", 200, ["─" * 80]),
        ("> ---", 12, ["│ ──────────"]),
        (
            "```py\ndef f():\n    pass\n\n```\nx",
            None,
            ["py", "  def f():", "      pass", "  ", "x"],
        ),
        ("```\nabcdefghijkl\n```", 11, ["  abcdefghi", "  jkl"]),
        ("1. a\n   ```\n   b", None, ["1. a", "     b"]),
        ("- ```\n  a", None, ["•", "    a"]),
        ("- ```sh\n  a", None, ["• sh", "    a"]),
        ("    a", None, ["  a"]),
        ("1234567. a\n- - - - b", 9, ["1234567.", "a", "• • • •", "b"]),
    ],
)
def test_blocks_stand_where_they_belong(text: str, width: int | None, expected: list[str]) -> None:
    assert [row.rstrip(" ") for row in shown(text, width)] == [row.rstrip(" ") for row in expected]


TABLE = """\
| name | what it is for | n |
|:-----|:--------------:|--:|
| a | b | 1 |
| long name | `c` | 100 |
| x |
"""


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            None,
            [
                "name       what it is for    n",
                "─────────  ──────────────  ───",
                "a                b           1",
                "long name        c         100",
                "x",
            ],
        ),
        (
            22,
            [
                "name     what it     n",
                "          is for",
                "───────  ────────  ───",
                "a           b        1",
                "long        c      100",
                "name",
                "x",
            ],
        ),
        (
            12,
            [
                *("───", "name: a", "what it is", "for: b", "n: 1"),
                *("───", "name: long", "name", "what it is", "for: c", "n: 100"),
                *("───", "name: x"),
            ],
        ),
    ],
)
def test_a_table_is_laid_out_for_the_width(width: int | None, expected: list[str]) -> None:
    assert shown(TABLE, width) == expected


def test_rows_that_continue_a_table_use_its_columns() -> None:
    text = (
        "| a | b |\n|---|---|\n"
        + "| first | 1 |\n" * FIRST_ROWS
        + "| x | 2 |\n| longer cell | 3 |\n"
    )
    assert shown(text)[-3:] == ["first  1", "x      2", "longer cell  3"]
    assert shown(text, 12)[-4:] == ["first  1", "x      2", "longer    3", "cell"]


def test_a_table_in_an_item_stands_beside_its_mark() -> None:
    assert shown("- | a |\n  |---|\n  | b |") == ["• a", "  ──", "  b"]


def test_a_table_without_rows_shows_its_header_at_any_width() -> None:
    text = "| first | second |\n|---|---|"
    assert shown(text) == ["first  second", "─────  ──────"]
    assert shown(text, 8) == ["first", "second"]


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (Span("a"), [("a", "")]),
        (Span("a", strong=True, emphasis=True, strike=True), [("a", "bold italic strike")]),
        (Span("a", code=True), [("a", "cyan")]),
        (Span("a", url="b"), [("a", "underline"), (" (b)", "dim")]),
        (Span("a.b", url="a.b"), [("a.b", "underline")]),
        (Span("a@b.c", url="mailto:a@b.c"), [("a@b.c", "underline")]),
        (Span("a", url="b", image=True), [("[image: a]", ""), (" (b)", "dim")]),
        (Span("", url="b", image=True), [("[image]", ""), (" (b)", "dim")]),
    ],
)
def test_spans_have_their_styles(span: Span, expected: list[tuple[str, str]]) -> None:
    assert list(parts_of((span,))) == expected


def test_a_link_in_several_styles_says_once_where_it_leads() -> None:
    (row,) = rows("[a **b**](https://c.d)")
    assert plain(row) == "a b (https://c.d)"


def test_headings_are_bold_and_the_first_underlined() -> None:
    assert rows("# a *b*\n## c") == [
        (("a ", "bold underline"), ("b", "bold underline italic")),
        (("c", "bold"),),
    ]


def test_code_of_a_known_language_is_coloured_and_the_rest_is_not() -> None:
    def styles(text: str) -> set[str]:
        return {str(style) for row in rows(text) for part, style in row if part.strip()}

    assert len(styles("```python\ndef f(): return 'x'\n")) > 2
    assert styles("```\ndef f(): return 'x'\n") == {""}
    assert styles("    def f(): return 'x'\n") == {""}


def test_two_fences_in_one_piece_are_coloured_each_in_its_language() -> None:
    text = "```python\nx = '''\n```\n```python\ndef\n```\n"
    assert rows(text)[-1] == rows("```python\ndef\n```\n")[-1]


def test_the_tail_is_what_is_not_settled() -> None:
    lines = Stream()
    assert all_rows(lines.feed("a\n\n```python\ndef f():\n    retu"), None)[0] == (("a", ""),)
    assert [plain(row) for row in all_rows(lines.tail(), None)] == ["      retu"]
    assert [plain(row) for row in all_rows(lines.feed("rn\n"), None)] == ["      return"]
    assert lines.tail() == lines.end() == []


def test_asking_for_the_tail_of_a_table_does_not_change_the_one_before() -> None:
    lines = Stream()
    first = "| a | b |\n|---|---|\n" + "| wide cell | 1 |\n" * FIRST_ROWS
    lines.feed(first + "| x | 2 |\n")
    lines.tail()
    made = lines.feed("| y | 3 |\n")
    lines.feed("\n| c |\n|---|\n")
    lines.tail()
    assert [plain(row) for row in all_rows(made, None)] == ["y          3"]


# ---- laws ------------------------------------------------------------------------------------

TEXTS = st.one_of(DOCS, st.text(max_size=200))
CUTS = st.lists(st.integers(0, 3000), max_size=12)


@example(TABLE)
@example(
    "123456789. [x] 世界\n- - - - - - 世界\n> > > > > > 世\n\n"
    "- | 世 | b |\n  |---|---|\n  | 1 | 世界 |"
)
@example("|" + "a|" * 64 + "\n|" + "-|" * 64 + "\n|" + "b|" * 64)
@example(
    "| a | b |\n|---|---|\n" + "| x | y |\n" * 20 + "| 世 | 👩‍👩‍👧 |\n| long long | 世界世界 |\n"
)
@given(TEXTS)
def test_no_row_is_wider_than_the_width(text: str) -> None:
    made = drawn(text)
    for width in WIDTHS:
        found = all_rows(made, width)
        if width is not None and width >= 8:
            wide = [plain(row) for row in found if cell_len(plain(row)) > width]
            assert wide == []


@example(DOCUMENTS[0], [*range(len(DOCUMENTS[0]))])
@example(TABLE, [*range(len(TABLE))])
@given(TEXTS, CUTS)
def test_any_split_gives_the_same_rows(text: str, cuts: list[int]) -> None:
    lines = Stream()
    made: list[Drawable] = []
    for piece in pieces_of(text, cuts):
        made += lines.feed(piece)
        all_rows(lines.tail(), 40)
    made += lines.end()
    for width in (None, 30):
        assert [plain(row) for row in all_rows(made, width)] == shown(text, width)


@example("a\x1b[31mb `\x9b0m` &#27;[2J &#x9b; [x](\x1b]8;;y) ```\x07\n```\x1b[0m\n\x1b]0;t\x07")
@given(st.text(st.characters(categories=["Cc", "Cf", "L", "P"])))
def test_nothing_of_an_agent_acts_on_the_terminal(text: str) -> None:
    for row in rows(text):
        # what joins two characters may stand between any two that can be seen
        assert [char for char in plain(row) if char not in "\u200c\u200d" + sanitize(char)] == []
        assert "\n" not in plain(row)


@given(DOCS)
def test_every_style_is_one_that_rich_knows(text: str) -> None:
    for row in rows(text, 40):
        for _, style in row:
            assert isinstance(style, Style) or Style.parse(style) is not None


def test_the_tail_of_a_long_fence_is_one_line() -> None:
    lines = Stream()
    lines.feed("```\nlin")
    for number in range(500):
        assert len(lines.feed(f"e {number}\nlin")) == 1
        assert len(lines.tail()) == 1
