"""The marks at the beginning of a line that say what it is."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"(`{3,}+)([^`]*+)$|(~{3,}+)(.*+)$")
_ITEM = re.compile(r"(?:[-+*]|([0-9]{1,9})[.)])(?=[ \t]|$)")
_TASK = re.compile(r"\[([ xX])\][ \t]+(?=[^ \t])")
_UNDERLINE = re.compile(r"(?:=+|-+)$")

CODE_INDENT: Final = 4
_TAB: Final = 4


@dataclass(slots=True)
class Cursor:
    """A line that is read from its beginning; a tab goes to the next multiple of four."""

    rest: str
    column: int = 0

    def indent(self) -> int:
        """How many columns of blanks come next."""
        column = self.column
        for char in self.rest:
            if char == " ":
                column += 1
            elif char == "\t":
                column += _TAB - column % _TAB
            else:
                break
        return column - self.column

    def skip(self, columns: int) -> None:
        """Leave out so many columns of blanks, or as many as there are."""
        at, end = 0, self.column + columns
        while self.column < end and self.rest[at : at + 1] in (" ", "\t"):
            self.column += 1 if self.rest[at] == " " else _TAB - self.column % _TAB
            at += 1
        # half of a tab is left
        self.rest = " " * max(0, self.column - end) + self.rest[at:]
        self.column = min(self.column, end)

    def drop(self, count: int) -> None:
        """Leave out so many characters."""
        self.column += count
        self.rest = self.rest[count:]

    def blank(self) -> bool:
        """Whether nothing but blanks is left."""
        return not self.rest.strip(" \t")

    def text(self) -> str:
        """What is left, without the blanks before it."""
        return self.rest.lstrip(" \t")


class Fence(NamedTuple):
    """The line that opens a fence."""

    mark: str
    indent: int
    language: str

    def closed_by(self, line: Cursor) -> bool:
        """Whether the line ends the code."""
        text = line.rest.strip(" \t")
        return (
            len(text) >= len(self.mark)
            and text == self.mark[0] * len(text)
            and line.indent() < CODE_INDENT
        )


class Marker(NamedTuple):
    """The mark of a list item."""

    size: int
    number: int | None
    empty: bool


def heading(text: str) -> tuple[int, str] | None:
    """Level and text of a heading."""
    found = _HEADING.match(text)
    if found is None:
        return None
    title = text[found.end() :].strip(" \t")
    bare = title.rstrip("#")
    if not bare or bare[-1] in " \t":
        title = bare.rstrip(" \t")
    return len(found[1]), title


def fence(text: str, indent: int) -> Fence | None:
    """A fence that opens here."""
    found = _FENCE.match(text) if text[:3] in ("```", "~~~") else None
    if found is None:
        return None
    info = (found[2] if found[1] else found[4]).split(None, 1)
    return Fence(found[1] or found[3], indent, info[0].strip("{}.") if info else "")


def thematic_break(text: str) -> bool:
    """Whether the line is a rule."""
    if text[:1] not in ("-", "*", "_"):
        return False
    marks = text.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and marks == text[0] * len(marks)


def underline(text: str) -> int | None:
    """The level of the heading that the line makes of the paragraph before it."""
    if text[:1] not in ("=", "-") or not _UNDERLINE.match(text.rstrip(" \t")):
        return None
    return 1 if text[0] == "=" else 2


def item(text: str) -> Marker | None:
    """The mark of a list item that begins here."""
    found = _ITEM.match(text)
    if found is None:
        return None
    number = int(found[1]) if found[1] else None
    return Marker(found.end(), number, not text[found.end() :].strip(" \t"))


def task(line: Cursor) -> bool | None:
    """Whether the item that begins here is done, if it is a task; the mark is left out."""
    found = _TASK.match(line.rest)
    if found is None:
        return None
    line.drop(found.end())
    return found[1] != " "
