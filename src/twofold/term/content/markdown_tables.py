"""Tables of markdown on the screen: columns beside each other, as wide as there is room.

A column is as wide as what stands in it; if that is too much, the widest give way and their cells
are wrapped. Where there is no room for columns, every row is a list of what its cells are called
and what they hold. No row of the screen is wider than it may be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from twofold.term.lines import NARROWEST, AnyStyle, Line, Parts, Row, cells
from twofold.view.markdown import Align

Columns: TypeAlias = tuple[Parts, ...]

_GAP: Final = 2
_THINNEST: Final = 4
"""With less for each column on the average there are no columns."""
_LEAST: Final = 2
"""So wide is every column: a wide character needs as much."""


@dataclass(frozen=True, slots=True)
class Place:
    """What stands before a block: on every row, and on the first one."""

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
