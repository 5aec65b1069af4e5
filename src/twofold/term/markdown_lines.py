"""Markdown of an agent as lines on the screen, while it arrives.

Blocks of markdown that are settled are drawn once. The target of a link is shown behind its text.
The cost grows with the new blocks, however many there were before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias, assert_never

from twofold.styled.code import Highlighter
from twofold.term.lines import BLANK, NARROWEST, AnyStyle, Drawable, Line, Parts, Row, cells
from twofold.view.markdown import (
    Align,
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

# Tables of markdown on the screen: columns beside each other, as wide as there is room.
#
# A column is as wide as what is in it; if that is too much, the widest give way and their cells
# are wrapped. Where there is no room for columns, every row is a list of what its cells are called
# and what they hold. No row of the screen is wider than it may be.


Columns: TypeAlias = tuple[Parts, ...]

_GAP: Final = 2
_THINNEST: Final = 4
"""With less for each column on the average there are no columns."""
_LEAST: Final = 2
"""So wide is every column: a wide character needs as much."""


@dataclass(frozen=True, slots=True)
class Place:
    """The marks before a block: on every row, and on the first one."""

    margin: Parts = ()
    head: Parts = ()

    def room(self, width: int | None) -> int | None:
        """What is left of a width; a margin that leaves too little does not count."""
        if width is None:
            return None
        room = width - cells(self.margin) - cells(self.head)
        return room if room >= NARROWEST else max(1, width)

    def before(self, rows: Sequence[Row], width: int | None) -> list[Row]:
        """The rows behind the margin, if there is room for one."""
        head_width = cells(self.head)
        if width is not None and width - cells(self.margin) - head_width < NARROWEST:
            return list(rows)
        hang: Parts = ((" " * head_width, ""),) if head_width else ()
        return [
            (*self.margin, *(hang if number else self.head), *row)
            for number, row in enumerate(rows)
        ]


@dataclass(frozen=True, slots=True)
class TableLines:
    """The header of a table, a rule, and its first rows."""

    header: Columns
    aligns: tuple[Align, ...]
    body: tuple[Columns, ...]
    natural: tuple[int, ...]
    """How wide each column would like to be."""
    place: Place

    @classmethod
    def of(
        cls,
        header: Columns,
        aligns: tuple[Align, ...],
        body: tuple[Columns, ...],
        place: Place,
    ) -> "TableLines":
        """The table, its columns measured."""
        natural = [max(_LEAST, cells(cell)) for cell in header]
        for row in body:
            for number, cell in enumerate(row):
                natural[number] = max(natural[number], cells(cell))
        return cls(header, aligns, body, tuple(natural), place)

    def rows(self, width: int | None) -> list[Row]:
        room = self.place.room(width)
        widths = self.widths(room)
        if widths is None:
            made = [row for columns in self.body for row in self.stacked(columns, room)]
            if not self.body:
                made = [row for cell in self.header for row in Line(cell).rows(room)]
        else:
            made = list(self.beside(self.header, widths))
            made.append(_joined([(("─" * each, "dim"),) for each in widths]))
            for columns in self.body:
                made += self.beside(columns, widths)
        return self.place.before(made, width)

    def widths(self, room: int | None) -> list[int] | None:
        """How wide the columns are; None if there is no room for columns."""
        if room is None:
            return list(self.natural)
        room -= _GAP * (len(self.natural) - 1)
        if sum(self.natural) <= room:
            return list(self.natural)
        if room < _THINNEST * len(self.natural):
            return None
        return _shrunk(self.natural, room)

    def beside(self, columns: Columns, widths: Sequence[int]) -> Iterator[Row]:
        """The cells of a row beside each other."""
        wrapped = [Line(cell).rows(width) for cell, width in zip(columns, widths, strict=False)]
        for number in range(max(map(len, wrapped), default=1)):
            pieces: list[Row] = []
            for column, rows in enumerate(wrapped):
                piece = rows[number] if number < len(rows) else ()
                pieces.append(_aligned(piece, widths[column], self.aligns[column]))
            yield _joined(pieces)

    def stacked(self, columns: Columns, room: int | None) -> Iterator[Row]:
        """The cells of a row below each other, after a short rule."""
        yield (("─" * min(3, room or 3), "dim"),)
        for name, cell in zip(self.header, columns, strict=False):
            parts: Parts = (*name, (": ", "dim"), *cell) if name else cell
            yield from Line(parts).rows(room)


@dataclass(frozen=True, slots=True)
class TableRowLines:
    """A row that goes on with a table, in its columns."""

    table: TableLines
    columns: Columns
    place: Place

    def rows(self, width: int | None) -> list[Row]:
        room = self.place.room(width)
        widths = self.table.widths(room)
        if widths is None:
            made = list(self.table.stacked(self.columns, room))
        else:
            made = list(self.table.beside(self.columns, self._grown(widths, room)))
        return self.place.before(made, width)

    def _grown(self, widths: list[int], room: int | None) -> list[int]:
        """The columns, wider where this row needs it and as far as there is room."""
        grown = list(widths)
        for number, cell in enumerate(self.columns):
            more = max(0, cells(cell) - widths[number])
            if room is not None:
                more = min(more, room - sum(grown) - _GAP * (len(grown) - 1))
            grown[number] += more
        return grown


def _shrunk(natural: Sequence[int], room: int) -> list[int]:
    """The widths made to fit: narrow columns keep theirs, the others share what is left."""
    widths = list(natural)
    left = len(widths)
    for number in sorted(range(len(widths)), key=lambda each: (natural[each], each)):
        widths[number] = min(natural[number], room // left)
        room -= widths[number]
        left -= 1
    return widths


def _aligned(row: Row, width: int, align: Align) -> Row:
    blanks = max(0, width - cells(row))
    before = {"left": 0, "center": blanks // 2, "right": blanks}[align]
    return ((" " * before, ""), *row, (" " * (blanks - before), ""))


def _joined(pieces: Sequence[Row]) -> Row:
    """Pieces of a row with the gap between columns between them, without blanks at the end."""
    made: list[tuple[str, AnyStyle]] = []
    for number, piece in enumerate(pieces):
        if number:
            made.append((" " * _GAP, ""))
        made += piece
    while made and not made[-1][0].strip(" "):
        made.pop()
    return tuple([part for part in made if part[0]])


QUOTE: Final[Parts] = (("│ ", "dim"),)
BULLET: Final = "• "
TASKS: Final = {True: "☑ ", False: "☐ "}
CODE_MARGIN: Final[Parts] = (("  ", ""),)
HEADING_STYLES: Final = {1: "bold underline"}
LONGEST_RULE: Final = 80
SHORTEST_RULE: Final = 3
WIDEST_MARK: Final = NARROWEST - 2
"""Beside it even the narrowest line has room for a wide character."""


def markdown_lines(text: str) -> list[Drawable]:
    """The lines of a whole text, which is safe to show already."""
    markdown = Markdown()
    return MarkdownLines().settled([*markdown.feed(text), *markdown.end()])


class MarkdownLines:
    """Draws the blocks of one message in their order."""

    def __init__(self) -> None:
        self._highlighter: Highlighter | None = None
        self._table: TableLines | None = None  # the last one, to which further rows belong

    def tail(self, blocks: Iterable[MarkdownBlock]) -> list[Drawable]:
        """The lines of blocks that are not settled; drawing them changes nothing."""
        table = self._table
        made: list[Drawable] = []
        for block in blocks:
            if isinstance(block, CodeLine):
                made.append(_code(((block.text, ""),), block.within))
            else:
                made += self._drawn(block)
        self._table = table
        return made

    def settled(self, blocks: Iterable[MarkdownBlock]) -> list[Drawable]:
        """The lines of the blocks that settled next."""
        made: list[Drawable] = []
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

    def _coloured(self, lines: list[CodeLine]) -> list[Drawable]:
        """Lines of the same code, in one go: so they are coloured at the least cost."""
        parts: Iterable[Parts] = [((line.text, ""),) for line in lines]
        if self._highlighter is not None:
            parts = self._highlighter.add([line.text for line in lines])
        return [_code(each, line.within) for each, line in zip(parts, lines, strict=True)]

    def _drawn(self, block: MarkdownBlock) -> list[Drawable]:
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
    """Text behind a mark that takes much room: where there is too little, the mark is above it."""

    parts: Parts
    place: Place

    def rows(self, width: int | None) -> list[Row]:
        margin, head = self.place.margin, self.place.head
        if width is None or width - cells(margin) - cells(head) >= NARROWEST:
            return Line(self.parts, margin, head=head).rows(width)
        above = Line(head).rows(width)
        return above + Line(self.parts).rows(width) if self.parts else above


def _line(parts: Parts, place: Place) -> Drawable:
    if cells(place.head) > WIDEST_MARK:
        return ItemLine(parts, place)
    return Line(parts, place.margin, head=place.head)


def _code(parts: Parts, within: Within) -> Line:
    return Line(parts, (*_place(within).margin, *CODE_MARGIN), prose=False)


# ---- the marks before a block -----------------------------------------------------------------


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
        text = "".join([span.text for span in group])
        if url and (text != url.removeprefix("mailto:") or any(span.image for span in group)):
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
