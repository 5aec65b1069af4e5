"""Styled lines, and their layout as rows of a screen.

A line holds text and styles and does not depend on the screen; `rows` lays it out for a width, or
without one as a single row for a file. Text of peers is never read as markup or escape codes: a
part is text and a style, and every row fits the width that was asked for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from rich.cells import cell_len, chop_cells
from rich.style import Style

AnyStyle: TypeAlias = str | Style
"""A style by its definition (`bold cyan`) or as it is."""
Parts: TypeAlias = tuple[tuple[str, AnyStyle], ...]
Row: TypeAlias = Parts
"""One row of the screen, of known width."""

NARROWEST: Final = 8
"""A margin that leaves less than that goes, and what follows the first row has all of the width."""


class Drawable(Protocol):
    """Something that can be laid out for a width; None: every line as long as it is."""

    def rows(self, width: int | None) -> list[Row]: ...


@dataclass(frozen=True, slots=True)
class Line:
    """Styled text behind a margin; prose is wrapped between words, anything else is just cut.

    Every row begins with the margin. The first row has `head` after it and the others as many
    blanks, so that what is wrapped stays beside the mark of its item. Text may hold newlines.
    """

    parts: Parts
    margin: Parts = ()
    prose: bool = True
    head: Parts = ()

    def rows(self, width: int | None) -> list[Row]:
        head_width = cells(self.head)
        room = width - cells(self.margin) - head_width if width is not None else None
        if width is not None and room is not None and room < NARROWEST:
            # better without a margin than without a word on a row
            return list(_rows((*self.head, *self.parts), max(1, width), self.prose))
        hang: Parts = ((" " * head_width, ""),) if head_width else ()
        made: list[Row] = []
        for number, row in enumerate(_rows(self.parts, room, self.prose)):
            before = (*self.margin, *(hang if number else self.head))
            made.append((*before, *row) if row else _stripped(before))
        return made


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are laid out already; on a narrower screen they are cut."""

    made: list[Row]

    def rows(self, width: int | None) -> list[Row]:
        return list(self.made) if width is None else [cut(row, width) for row in self.made]


def line(text: str, style: AnyStyle = "", margin: str = "", *, prose: bool = True) -> Line:
    """A line in one style behind a plain margin."""
    return Line(((text, style),), ((margin, ""),) if margin else (), prose)


BLANK: Final = Line(())


def cells(parts: Parts) -> int:
    """How many columns the parts take."""
    return sum([cell_len(text) for text, _ in parts])


def plain(row: Row) -> str:
    """The text of a row without its styles."""
    return "".join([text for text, _ in row])


def all_rows(lines: Iterable[Drawable], width: int | None) -> list[Row]:
    """The rows of several lines, one after the other."""
    return [row for each in lines for row in each.rows(width)]


def cut(row: Row, width: int) -> Row:
    """The row, with an ellipsis where it leaves the width."""
    if cells(row) <= width:
        return row
    kept: list[tuple[str, AnyStyle]] = []
    room = max(0, width - 1)
    for text, style in row:
        if cell_len(text) > room:
            kept.append((_fitting(text, room), style))
            break
        kept.append((text, style))
        room -= cell_len(text)
    return (*kept, ("…", "")) if width > 0 else ()


# ---- rows ------------------------------------------------------------------------------------


def _rows(parts: Parts, width: int | None, prose: bool) -> Iterator[Row]:
    for row in _split(parts):
        if width is None:
            yield row
            continue
        row = _expanded(row)
        if cells(row) <= width:
            yield row
        elif prose:
            yield from _wrapped(row, width)
        else:
            yield from _chopped(row, width)


def _split(parts: Parts) -> Iterator[Row]:
    """The parts at their newlines."""
    row: list[tuple[str, AnyStyle]] = []
    for text, style in parts:
        first, *others = text.split("\n")
        if first:
            row.append((first, style))
        for other in others:
            yield tuple(row)
            row = [(other, style)] if other else []
    yield tuple(row)


_TAB: Final = 8


def _expanded(row: Row) -> Row:
    """Tabs as blanks up to the next stop, which depends on the parts before."""
    if not any("\t" in text for text, _ in row):
        return row
    made: list[tuple[str, AnyStyle]] = []
    column = 0
    for text, style in row:
        pieces: list[str] = []
        for number, piece in enumerate(text.split("\t")):
            if number:
                blanks = _TAB - column % _TAB
                pieces.append(" " * blanks)
                column += blanks
            pieces.append(piece)
            column += cell_len(piece)
        made.append(("".join(pieces), style))
    return tuple(made)


def _chopped(row: Row, width: int) -> Iterator[Row]:
    """The row in pieces of the width, cut wherever that is."""
    made: list[tuple[str, AnyStyle]] = []
    room = width
    for text, style in row:
        while text:
            if cell_len(text) <= room:
                made.append((text, style))
                room -= cell_len(text)
                break
            piece = _fitting(text, room)
            if not piece and room == width:
                piece = text[0]  # wider than the screen: better shown than lost
            if piece:
                made.append((piece, style))
                text = text[len(piece) :]
            yield tuple(made)
            made, room = [], width
    if made:
        yield tuple(made)


def _fitting(text: str, room: int) -> str:
    """As much of the beginning as fits; characters that belong together stay together."""
    if room <= 0:
        return ""
    if text.isascii():
        return text[:room]
    piece = chop_cells(text[: 4 * room + 64], room)[0]
    return piece if cell_len(piece) <= room else ""


def _wrapped(row: Row, width: int) -> Iterator[Row]:
    """The row cut at blanks; what has none for longer than the width is chopped."""
    made: list[tuple[str, AnyStyle]] = []
    room = width
    for word in _words(row):
        size = cells(word)
        if size <= room:
            made += word
            room -= size
            continue
        bare, blanks = _parted(word)
        if cells(bare) > room:
            if made:
                yield _stripped(tuple(made))
            *full, bare = _chopped(bare, width)
            yield from full
            made, room = [], width
        made += bare
        room -= cells(bare)
        # blanks that do not fit are left out, and a row does not begin with them
        fit = cells(blanks) <= room
        made += blanks if fit else ()
        room = room - cells(blanks) if fit else 0
    if made or not plain(row).strip(" "):
        yield _stripped(tuple(made))


def _parted(word: Row) -> tuple[Row, Row]:
    """A word, and the blanks after it."""
    bare = _stripped(word)
    if not bare:
        return (), word
    text, style = word[len(bare) - 1]
    return bare, ((text[len(bare[-1][0]) :], style), *word[len(bare) :])


def _words(row: Row) -> Iterator[Row]:
    """Pieces that must not be parted: a word, across styles, with the blanks after it."""
    word: list[tuple[str, AnyStyle]] = []
    open_end = True  # no blank yet after what is in the word
    for text, style in row:
        at = 0
        while at < len(text):
            end = text.find(" ", at)
            if end < 0:
                if not open_end:
                    yield tuple(word)
                    word = []
                word.append((text[at:], style))
                open_end = True
                break
            after = end
            while after < len(text) and text[after] == " ":
                after += 1
            if not open_end and end > at:
                yield tuple(word)
                word = []
            word.append((text[at:after], style))
            open_end = False
            at = after
    if word:
        yield tuple(word)


def _stripped(row: Row) -> Row:
    """The row without the blanks at its end."""
    made = list(row)
    while made:
        text, style = made.pop()
        if text := text.rstrip(" "):
            made.append((text, style))
            break
    return tuple(made)
