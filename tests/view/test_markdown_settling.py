"""Markdown that comes in pieces: the same blocks, whatever they are, at the cost of what is new."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.markdown_texts import (
    BULLET,
    DOCS,
    DOCUMENTS,
    blocks,
    cells,
    in_pieces,
    texts,
    words,
)
from twofold.view.markdown import (
    Blank,
    CodeLine,
    CodeStart,
    Heading,
    Markdown,
    MarkdownBlock,
    Paragraph,
    Quote,
    Span,
    Table,
    TableRow,
)
from twofold.view.markdown.inline import spans
from twofold.view.markdown.structure import DEEPEST, FIRST_ROWS, LONGEST

# ---- laws ------------------------------------------------------------------------------------

CUTS = st.lists(st.integers(0, 3000), max_size=12)


@example(text=DOCUMENTS[0], cuts=[*range(len(DOCUMENTS[0]))])
@example(text=DOCUMENTS[1], cuts=[*range(len(DOCUMENTS[1]))])
@example(text=DOCUMENTS[2], cuts=[*range(len(DOCUMENTS[2]))])
@example(text="a **b** c. " * 1500, cuts=[4095, 4096, 4097, 4098, 9000])
@example(text="- x\r\n" + "| y " * 3000 + "\r\n\r\n", cuts=[4, 4100, 4101])
@given(DOCS, CUTS)
def test_any_split_gives_the_same_blocks(text: str, cuts: list[int]) -> None:
    whole = blocks(text)
    assert in_pieces(text, cuts) == whole
    assert in_pieces(text, cuts, asked=True) == whole


@given(st.text(max_size=300), CUTS)
def test_no_text_makes_it_raise(text: str, cuts: list[int]) -> None:
    assert in_pieces(text, cuts, asked=True) == blocks(text)


PROSE = st.text(st.characters(categories=["L", "Nd", "Zs"], include_characters=".,;?\"'()/%\n"))


@example("word " * 5000)
@example("x" * 20_000)
@given(PROSE)
def test_nothing_is_lost_of_text_without_markup(text: str) -> None:
    # a number at the beginning of a line would be the mark of an item
    text = "\n".join("x" + line if line[:1].isdecimal() else line for line in text.split("\n"))
    shown: list[str] = []
    for block in blocks(text):
        if isinstance(block, CodeLine):
            shown.append(block.text)
        elif isinstance(block, Paragraph):
            shown.append(texts(block.spans))
        else:
            assert isinstance(block, CodeStart | Blank)
    assert "".join("".join(shown).split()) == "".join(text.split())


@given(DOCS)
def test_blank_lines_are_only_between_blocks(text: str) -> None:
    made: list[MarkdownBlock] = [Blank(), *blocks(text), Blank()]
    if len(made) > 2:
        assert not any(isinstance(a, Blank) and isinstance(b, Blank) for a, b in pairwise(made))


@example(DOCUMENTS[0])
@example(DOCUMENTS[1])
@example(DOCUMENTS[2])
@given(DOCS)
def test_after_every_line_the_settled_and_the_tail_are_all_that_came(text: str) -> None:
    markdown = Markdown()
    settled: list[MarkdownBlock] = []
    came = ""
    for line in text.split("\n"):
        came += f"{line}\n"
        settled += markdown.feed(f"{line}\n")
        assert [*settled, *markdown.tail()] == blocks(came)


# ---- settling and its cost -------------------------------------------------------------------


def test_a_fence_that_grows_is_settled_line_by_line() -> None:
    markdown = Markdown()
    assert markdown.feed("```py\n") == [CodeStart("py")]
    for number in range(2000):
        assert markdown.feed(f"x = {number}") == []
        assert markdown.tail() == [CodeLine(f"x = {number}")]
        assert markdown.feed("\n") == [CodeLine(f"x = {number}")]
        assert (markdown.tail(), markdown.unsettled) == ([], 0)
    assert markdown.feed("```") == markdown.tail() == markdown.end() == []


def test_a_paragraph_is_settled_when_it_ends() -> None:
    markdown = Markdown()
    assert markdown.feed("a\n**b") == []
    assert markdown.tail() == [words("a\n**b")]
    assert markdown.feed("**\n") == []
    expected = Paragraph((Span("a\n"), Span("b", strong=True)))
    assert markdown.tail() == [expected]
    assert markdown.feed("\n") == [expected]
    assert markdown.tail() == []


def test_an_item_is_settled_when_the_next_one_begins() -> None:
    markdown = Markdown()
    assert markdown.feed("- a\n- ") == []
    assert markdown.feed("b\n") == [words("a", BULLET)]


@pytest.mark.parametrize("mark", ["-", "#", "##", "```", "|", ">", "*", "**", "="])
def test_the_tail_waits_for_marks_that_may_become_something_else(mark: str) -> None:
    markdown = Markdown()
    markdown.feed(f"a\n{mark}")
    assert markdown.tail() == [words("a")]


def test_the_tail_of_a_fence_waits_for_its_end() -> None:
    markdown = Markdown()
    markdown.feed("```\na\n``")
    assert markdown.tail() == []


def test_the_rows_of_a_long_table_are_settled_one_by_one() -> None:
    markdown = Markdown()
    assert markdown.feed("|a|\n|-|\n" + "|1|\n" * FIRST_ROWS) == []
    assert markdown.tail() == [Table(cells("a"), ("left",), (cells("1"),) * FIRST_ROWS)]
    assert markdown.feed("|2|\n") == [
        Table(cells("a"), ("left",), (cells("1"),) * FIRST_ROWS),
        TableRow(cells("2")),
    ]
    for _ in range(10_000):
        assert markdown.feed("|3") == []
        assert markdown.tail() == [TableRow(cells("3"))]
        assert markdown.feed("|\n") == [TableRow(cells("3"))]
        assert markdown.unsettled == 0
    assert markdown.end() == []


def test_a_table_of_long_rows_is_settled_before() -> None:
    long = "x" * 3000
    first, *others = blocks("|a|\n|-|\n" + f"|{long}|\n" * 5)
    assert isinstance(first, Table)
    assert len(first.rows) == 2
    assert others == [TableRow(cells(long))] * 3


@pytest.mark.parametrize(
    "text",
    [
        "Some **words** with `code`, and more. " * 3000,
        "word " * 20_000,
        "x" * 100_000,
        "**" + "a b " * 20_000,
        "a\n" * 40_000,
        "```\n" + "x" * 100_000,
        "    " + "x" * 100_000,
        "# " + "x " * 50_000,
        "| a " * 20_000,
        "|a|\n|-|\n" + "|x" * 50_000,
        "|a|\n|-|\n" + f"|{'x' * 900}|\n" * 100,
        ">" * 100_000,
        "- " * 50_000,
        "- a\n" * 20_000,
        "*a_" * 30_000,
        "[a](<" * 20_000,
        "\n" * 50_000,
        " " * 100_000,
        "".join(f"{' ' * depth}- a\n" for depth in range(0, 400, 2)),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_not_settled_has_a_bound(text: str) -> None:
    markdown = Markdown()
    most = longest = 0
    for at in range(0, len(text), 500):
        markdown.feed(text[at : at + 500])
        most = max(most, markdown.unsettled)
        tail = markdown.tail()
        longest = max(longest, sum([size(block) for block in tail]))
        assert all(len(block.within) <= DEEPEST for block in tail)
    assert most <= 3 * LONGEST
    assert longest <= 3 * LONGEST


def size(block: MarkdownBlock) -> int:
    match block:
        case Paragraph() | Heading():
            return len(texts(block.spans))
        case CodeLine():
            return len(block.text)
        case Table():
            return sum([len(texts(cell)) for row in (block.header, *block.rows) for cell in row])
        case TableRow():
            return sum([len(texts(cell)) for cell in block.cells])
        case _:
            return 0


SENTENCE = "One sentence with **two strong\nwords** in it, and [a link](https://example.org). "


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (SENTENCE * 200, (".",)),
        (
            SENTENCE.replace(".", ",") * 200,
            ("in", "and", "it,", "sentence", "with", "One", ")", ","),
        ),
        ("word " * 3000, ("word",)),
        ("**" + "word. " * 3000, ("word.",)),
    ],
)
def test_a_long_paragraph_is_cut_where_nothing_is_open(text: str, ends: tuple[str, ...]) -> None:
    made = blocks(text)
    assert len(made) >= 3
    for number, block in enumerate(made):
        assert isinstance(block, Paragraph)
        assert block.continues is (number > 0)
        assert texts(block.spans).endswith(ends)
    found = [block.spans for block in made if isinstance(block, Paragraph)]
    joined = " ".join(map(texts, found))
    assert joined.split() == texts(spans(text)).split()
    assert sum([span.strong for each in found for span in each]) == text.count("**") // 2


@pytest.mark.parametrize("size", range(LONGEST - 40, LONGEST + 10, 7))
def test_a_cut_parts_no_link(size: int) -> None:
    words_before = ("word " * LONGEST)[:size].rsplit(" ", 1)[0]
    made = blocks(f"{words_before} [some words](target 'a title') " + "word " * 100)
    urls = [span.url for block in made if isinstance(block, Paragraph) for span in block.spans]
    assert len(made) == 2
    assert "target" in urls


def test_a_paragraph_without_blanks_is_cut_hard() -> None:
    made = blocks("x" * 10_000)
    assert [size(block) for block in made] == [LONGEST, LONGEST, 10_000 - 2 * LONGEST]


def test_what_follows_a_cut_is_never_taken_for_a_mark() -> None:
    made = blocks(("x" * 100 + " - # > ") * 200)
    assert all(isinstance(block, Paragraph) and not block.within for block in made)


def test_a_long_line_of_code_goes_on_in_another() -> None:
    start, *lines = blocks("```\n" + "x" * 10_000 + "\ny\n")
    assert start == CodeStart()
    assert lines == [
        CodeLine("x" * LONGEST),
        CodeLine("x" * LONGEST, continues=True),
        CodeLine("x" * (10_000 - 2 * LONGEST), continues=True),
        CodeLine("y"),
    ]


def test_what_is_too_deep_is_text() -> None:
    (block,) = blocks(">" * (DEEPEST + 2) + " a")
    assert block == words(">> a", *[Quote()] * DEEPEST)


def test_a_new_text_may_begin_after_the_end() -> None:
    markdown = Markdown()
    markdown.feed("> ```\n> a")
    markdown.end()
    assert markdown.feed("b\n\n") == [words("b")]
