"""Markdown of an agent as lines on the screen, while it comes.

Text goes in as it came and is made safe first. What is settled comes out once, to be printed and
forgotten; `tail` says what the rest looks like now. Nothing leads where it does not say: behind
the text of a link stands its target. New text costs what it costs, however much there was before.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, assert_never

from twofold.term.content.code import Highlighter
from twofold.term.content.markdown_tables import Columns, Place, TableLines, TableRowLines
from twofold.term.lines import BLANK, NARROWEST, AnyStyle, Drawn, Line, Parts, Row, cells
from twofold.text.safe import Pieces
from twofold.view.markdown import (
    Blank,
    Cells,
    CodeLine,
    CodeStart,
    Heading,
    ListItem,
    Markdown,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    TableRow,
    Within,
)

QUOTE: Final[Parts] = (("│ ", "dim"),)
BULLET: Final = "• "
TASKS: Final = {True: "☑ ", False: "☐ "}
CODE_MARGIN: Final[Parts] = (("  ", ""),)
HEADING_STYLES: Final = {1: "bold underline"}
LONGEST_RULE: Final = 80
SHORTEST_RULE: Final = 3
WIDEST_MARK: Final = NARROWEST - 2
"""Beside it even the narrowest line has room for a wide character."""


class MarkdownLines:
    """One message in markdown: what to draw of it, piece by piece."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._markdown = Markdown()
        self._highlighter: Highlighter | None = None
        self._table: TableLines | None = None  # the last one, with which further rows go on

    def feed(self, text: str) -> list[Drawn]:
        """What is settled now and was not before."""
        return self._settled(self._markdown.feed(self._pieces.add(text)))

    def tail(self) -> list[Drawn]:
        """What is not settled, as it looks now; asking changes nothing."""
        made: list[Drawn] = []
        for block in self._markdown.tail():
            if isinstance(block, CodeLine):
                made.append(_code(((block.text, ""),), block.within))
            else:
                made += self._drawn(block)
        return made

    def end(self) -> list[Drawn]:
        """The rest, as nothing follows."""
        blocks = self._markdown.feed(self._pieces.end())
        return self._settled([*blocks, *self._markdown.end()])

    def _settled(self, blocks: list[MarkdownBlock]) -> list[Drawn]:
        made: list[Drawn] = []
        for is_code, group in groupby(blocks, lambda block: isinstance(block, CodeLine)):
            if is_code:
                made += self._coloured([block for block in group if isinstance(block, CodeLine)])
                continue
            for block in group:
                if isinstance(block, CodeStart):
                    language = block.language
                    self._highlighter = Highlighter.for_language(language) if language else None
                made += self._drawn(block)
        return made

    def _coloured(self, lines: list[CodeLine]) -> list[Drawn]:
        """Lines of the same code, in one go: so they are coloured at the least cost."""
        parts: Iterable[Parts] = [((line.text, ""),) for line in lines]
        if self._highlighter is not None:
            parts = self._highlighter.add([line.text for line in lines])
        return [_code(each, line.within) for each, line in zip(parts, lines, strict=True)]

    def _drawn(self, block: MarkdownBlock) -> list[Drawn]:
        place = _place(block.within)
        match block:
            case Heading():
                style = HEADING_STYLES.get(block.level, "bold")
                return [_line(parts_of(block.spans, style), place)]
            case Paragraph():
                return [_line(parts_of(block.spans), place)]
            case CodeStart():
                # an item that begins with code has its mark on a row of its own
                language: Parts = ((block.language, "dim"),) if block.language else ()
                return [_line(language, place)] if language or place.head else []
            case CodeLine():
                return [_code(((block.text, ""),), block.within)]
            case Rule():
                return [RuleLine(place)]
            case Table():
                body = tuple([_columns(row) for row in block.rows])
                header = _columns(block.header, "bold")
                self._table = TableLines.of(header, block.aligns, body, place)
                return [self._table]
            case TableRow():
                assert self._table is not None
                return [TableRowLines(self._table, _columns(block.cells), place)]
            case Blank():
                return [_line((), place) if place.margin else BLANK]
            case _:
                assert_never(block)


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A rule as long as the screen is wide, but not longer than is pleasant."""

    place: Place

    def rows(self, width: int | None) -> list[Row]:
        room = self.place.room(width)
        size = SHORTEST_RULE if room is None else min(LONGEST_RULE, room)
        return self.place.before([(("─" * size, "dim"),)], width)


@dataclass(frozen=True, slots=True)
class ItemLine:
    """Text behind a mark that takes much room: where there is too little, it stands above."""

    parts: Parts
    place: Place

    def rows(self, width: int | None) -> list[Row]:
        margin, head = self.place.margin, self.place.head
        if width is None or width - cells(margin) - cells(head) >= NARROWEST:
            return Line(self.parts, margin, head=head).rows(width)
        above = Line(head).rows(width)
        return above + Line(self.parts).rows(width) if self.parts else above


def _line(parts: Parts, place: Place) -> Drawn:
    if cells(place.head) > WIDEST_MARK:
        return ItemLine(parts, place)
    return Line(parts, place.margin, head=place.head)


def _code(parts: Parts, within: Within) -> Line:
    return Line(parts, (*_place(within).margin, *CODE_MARGIN), prose=False)


# ---- where it stands -------------------------------------------------------------------------


def _place(within: Within) -> Place:
    """The marks before a block; from the first item on that it opens, only on its first row."""
    margin: list[tuple[str, AnyStyle]] = []
    head: list[tuple[str, AnyStyle]] = []
    for container in within:
        mark = _mark(container)
        if head or (isinstance(container, ListItem) and container.opens):
            head += mark
        elif isinstance(container, Quote):
            margin += mark
        else:
            margin.append((" " * cells(mark), ""))
    return Place(tuple(margin), tuple(head))


def _mark(container: Quote | ListItem) -> Parts:
    if isinstance(container, Quote):
        return QUOTE
    task = "" if container.task is None else TASKS[container.task]
    if container.number is None:
        return ((task or BULLET, ""),)
    return ((f"{container.number}. {task}", ""),)


# ---- spans -----------------------------------------------------------------------------------


def parts_of(spans: Spans, style: str = "") -> Parts:
    """Spans as styled text, the target of every link behind it."""
    made: list[tuple[str, AnyStyle]] = []
    for url, linked in groupby(spans, lambda span: span.url):
        group = list(linked)
        made += [(_text(span), _style(span, style)) for span in group]
        said = "".join([span.text for span in group])
        if url and (said != url.removeprefix("mailto:") or any(span.image for span in group)):
            made.append((f" ({url})", "dim"))
    return tuple(made)


def _text(span: Span) -> str:
    if not span.image:
        return span.text
    return f"[image: {span.text}]" if span.text else "[image]"


def _style(span: Span, style: str) -> str:
    words = [style] if style else []
    if span.strong and "bold" not in style:
        words.append("bold")
    if span.emphasis:
        words.append("italic")
    if span.strike:
        words.append("strike")
    if span.code:
        words.append("cyan")
    if span.url and not span.image and "underline" not in style:
        words.append("underline")
    return " ".join(words)


def _columns(row: Cells, style: str = "") -> Columns:
    return tuple([parts_of(cell, style) for cell in row])
