"""The screen of a terminal, and the rows that left it at the top.

pyte keeps the cells and moves the cursor. What it leaves out is added here: rows that scroll off,
the second screen of full-screen programs, one saved cursor instead of any number. What costs it
the whole screen for a few bytes is done otherwise, and what it would lose of the text is kept.
Queries get no answer and titles go nowhere.
"""

import copy
import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import pyte
from pyte import modes
from pyte.screens import Char, Cursor, Margins, StaticDefaultDict, wcwidth

from twofold.term.lines import Parts
from twofold.text.safe import sanitize

Cells: TypeAlias = StaticDefaultDict[int, Char]
"""The cells of a row that something was written to, by column, and what the others are."""

KEPT: Final = 1 << 18
"""How much is kept of rows that left the screen: characters, and some for every change of style."""
_MARKS: Final = 8  # accents and the like on one character, itself included
_BLANK: Final = Char(" ")
_RUN = re.compile(r"[ -~]+|[^ -~]")


class Screen(pyte.Screen):
    """Cells, a cursor, and `left`: the rows that left at the top, of which `scrolled` says all."""

    def __init__(self, columns: int, lines: int) -> None:
        self.left: deque[Parts] = deque()
        self.scrolled = 0
        self._weight = 0
        self._main: tuple[list[Cells], Cursor] | None = None
        self._known = _Known(_BLANK)
        super().__init__(columns, lines)
        self.mode.add(modes.LNM)

    @property
    def above(self) -> int:
        """How many rows stand above the screen; the second screen has nothing above it."""
        return self.scrolled if self._main is None else 0

    @property
    def weight(self) -> int:
        """How many characters are kept, about: of the rows that left, and of the screen itself."""
        return self._weight + self.columns * self.lines

    def upwards(self) -> Iterator[Parts]:
        """The rows from the bottom of the screen up to the first that is kept."""
        for cells in reversed(self._rows):
            yield styled(cells, self.columns)
        if self._main is None:
            yield from reversed(self.left)

    def reset(self) -> None:
        """Begin anew: nothing is on the screen, and nothing has ever left it."""
        super().reset()
        self.savepoints = []
        self._main = None
        self._show([self._fresh() for _ in range(self.lines)])
        self._forget()
        # Most programs that we see write to a pipe, where nobody makes CR LF of LF.
        self.mode.add(modes.LNM)

    def skip(self, lines: int) -> None:
        """Count so many lines that nobody will see, and begin below them."""
        scrolled = self.scrolled + self.cursor.y + lines
        self.reset()
        self.scrolled = scrolled

    def _show(self, rows: list[Cells]) -> None:
        self._rows = rows
        # pyte asks for rows by number, which a list answers as well; it scrolls at once
        self.buffer = cast("Any", rows)

    def _fresh(self, bg: str = "default") -> Cells:
        return StaticDefaultDict(_BLANK if bg == "default" else Char(" ", bg=bg))

    # ---- text --------------------------------------------------------------------------------

    def draw(self, data: str) -> None:
        """Write text without control characters.

        What takes no room and is no accent is left out: pyte would leave out all that follows.
        """
        for run in _RUN.findall(data):
            if " " <= run[0] <= "~":
                self._draw_plain(run)
            elif wcwidth(run) > 0 or (unicodedata.combining(run) and self._takes_marks()):
                super().draw(run)

    def _draw_plain(self, text: str) -> None:
        if modes.DECAWM not in self.mode:
            super().draw(text)
            return
        cursor, columns = self.cursor, self.columns
        if self._known.attrs is not cursor.attrs:
            self._known = _Known(cursor.attrs)
        at = 0
        while at < len(text):
            if cursor.x >= columns:
                self.carriage_return()
                self.linefeed()
            start = cursor.x
            piece = text[at : at + columns - start]
            cells = map(self._known.__getitem__, piece)
            self._rows[cursor.y].update(zip(range(start, columns), cells, strict=False))
            cursor.x = start + len(piece)
            at += len(piece)

    def _takes_marks(self) -> bool:
        """Whether the character before the cursor has room for one more accent."""
        x, y = self.cursor.x, self.cursor.y
        if not x and not y:
            return False
        place = (y, x - 1) if x else (y - 1, self.columns - 1)
        return len(self._rows[place[0]][place[1]].data) < _MARKS

    # ---- rows --------------------------------------------------------------------------------

    def index(self) -> None:
        """One row down; at the bottom everything moves up."""
        if self.cursor.y == self._region().bottom:
            self.scroll_up()
        else:
            self.cursor_down()

    def reverse_index(self) -> None:
        """One row up; at the top everything moves down."""
        if self.cursor.y == self._region().top:
            self.scroll_down()
        else:
            self.cursor_up()

    def scroll_up(self, count: int | None = None) -> None:
        """Move the rows of the region up; what leaves at the top of the screen is kept."""
        top, bottom = self._region()
        gone = self._take(top, bottom, count or 1)
        while count and gone and not gone[-1]:  # a screen moved away, not a line written
            gone.pop()
        if not top and self._main is None:
            for cells in gone:
                self._leave(styled(cells, self.columns))

    def scroll_down(self, count: int | None = None) -> None:
        """Move the rows of the region down; what leaves at the bottom is gone."""
        top, bottom = self._region()
        self._shift(top, bottom, count or 1)

    def insert_lines(self, count: int | None = None) -> None:
        """Move the rows from the cursor on down."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            self._shift(self.cursor.y, bottom, count or 1)
            self.carriage_return()

    def delete_lines(self, count: int | None = None) -> None:
        """Move the rows below the cursor up over it."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            self._take(self.cursor.y, bottom, count or 1)
            self.carriage_return()

    def _take(self, first: int, bottom: int, count: int) -> list[Cells]:
        """Take out rows; those below them move up."""
        count = min(count, bottom - first + 1)
        gone = self._rows[first : first + count]
        del self._rows[first : first + count]
        below = bottom - count + 1
        self._rows[below:below] = [self._fresh() for _ in range(count)]
        return gone

    def _shift(self, first: int, bottom: int, count: int) -> None:
        count = min(count, bottom - first + 1)
        del self._rows[bottom - count + 1 : bottom + 1]
        self._rows[first:first] = [self._fresh() for _ in range(count)]

    def _region(self) -> Margins:
        return self.margins or Margins(0, self.lines - 1)

    def _leave(self, parts: Parts) -> None:
        self.left.append(parts)
        self.scrolled += 1
        self._weight += _weight(parts)
        while self._weight > KEPT:
            self._weight -= _weight(self.left.popleft())

    def _forget(self) -> None:
        self.left.clear()
        self.scrolled = self._weight = 0

    # ---- erasing -----------------------------------------------------------------------------

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase what follows (0), what comes before (1), all (2), or all that ever was (3)."""
        y = self.cursor.y
        erased = {0: (y + 1, self.lines), 1: (0, y), 2: (0, self.lines), 3: (0, self.lines)}
        if how not in erased:
            return
        first, end = erased[how]
        bg = self.cursor.attrs.bg
        for place in range(first, end):
            cells = self._rows[place]
            if cells or cells.default.bg != bg:
                self._rows[place] = self._fresh(bg)
        if how == 3:
            self._forget()
        elif how < 2:
            self.erase_in_line(how)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase the row from the cursor (0), up to it (1), or all of it (2)."""
        x, y, bg = self.cursor.x, self.cursor.y, self.cursor.attrs.bg
        cells = self._rows[y]
        if how == 2:
            self._rows[y] = self._fresh(bg)
        elif how == 0 and cells.default.bg == bg:
            for column in [column for column in cells if column >= x]:
                del cells[column]
        elif how in (0, 1):
            columns = range(x, self.columns) if how == 0 else range(min(x + 1, self.columns))
            cells.update(dict.fromkeys(columns, Char(" ", bg=bg)))

    # ---- within a row --------------------------------------------------------------------------

    def insert_characters(self, count: int | None = None) -> None:
        """Move what follows the cursor to the right."""
        self._move(self.cursor.x, count or 1)

    def delete_characters(self, count: int | None = None) -> None:
        """Move what follows to the left, over what stands at the cursor."""
        self._move(self.cursor.x + (count or 1), -(count or 1))

    def _move(self, first: int, by: int) -> None:
        """Move the cells from a column on; only those that something was written to cost."""
        cells = self._rows[self.cursor.y]
        moved = [(column + by, cell) for column, cell in cells.items() if column >= first]
        for column in [column for column in cells if column >= self.cursor.x]:
            del cells[column]
        cells.update([(column, cell) for column, cell in moved if column < self.columns])

    # ---- the cursor, and the second screen -----------------------------------------------------

    def save_cursor(self) -> None:
        """Remember the cursor, and forget the one remembered before."""
        self.savepoints = []
        super().save_cursor()

    def restore_cursor(self) -> None:
        """Back to the cursor that was remembered, which it stays."""
        saved = self.savepoints[-1:]
        super().restore_cursor()
        self.savepoints = [each._replace(cursor=copy.copy(each.cursor)) for each in saved]

    def show_second(self) -> None:
        """Show the second screen, which is empty."""
        if self._main is None:
            self._main = self._rows, copy.copy(self.cursor)
            self._show([self._fresh() for _ in range(self.lines)])

    def show_main(self) -> None:
        """Show what there was before the second screen."""
        if self._main is not None:
            rows, self.cursor = self._main
            self._main = None
            self._show(rows)


class _Known(dict[str, Char]):
    """Characters in one style; made once, however often they are written."""

    def __init__(self, attrs: Char) -> None:
        self.attrs = attrs

    def __missing__(self, char: str) -> Char:
        made = self[char] = self.attrs._replace(data=char)
        return made


def _weight(parts: Parts) -> int:
    return 16 + sum([16 + len(text) for text, _ in parts])


# ---- rows as parts ---------------------------------------------------------------------------


def styled(cells: Cells, columns: int) -> Parts:
    """A row as text in styles, safe to show, without the blanks at its end."""
    default = cells.default
    if not cells:
        return () if default == _BLANK else ((" " * columns, _style(default[1:])),)
    width = max(cells) + 1 if default == _BLANK else columns
    made: list[tuple[str, str]] = []
    text: list[str] = []
    attrs: tuple[Any, ...] = default[1:]
    for column in range(width):
        char = cells.get(column, default)
        if char[1:] != attrs:
            made.append(("".join(text), _style(attrs)))
            text, attrs = [], char[1:]
        text.append(char.data)
    made.append(("".join(text), _style(attrs)))
    while made and not _grounded(made[-1][1]):
        last, style = made.pop()
        if last := last.rstrip(" "):
            made.append((last, style))
            break
    return tuple([(sanitize(text), style) for text, style in made if text])


_NAMES: Final = {"bfightmagenta": "bright_magenta"}  # which is how pyte spells it
_HEX: Final = re.compile(r"[0-9a-f]{6}")
_NAMED: Final = re.compile(r"(bright)?(black|red|green|yellow|blue|magenta|cyan|white)")


@lru_cache(maxsize=512)
def _style(attrs: tuple[Any, ...]) -> str:
    char = Char(" ", *attrs)
    fg, bg = _colour(char.fg), _colour(char.bg)
    flags = {
        "bold": char.bold,
        "italic": char.italics,
        "underline": char.underscore,
        "strike": char.strikethrough,
        "reverse": char.reverse,
    }
    words = [word for word, on in flags.items() if on]
    return " ".join([*words, *([fg] if fg else []), *(["on", bg] if bg else [])])


def _colour(name: str) -> str:
    """A colour as Rich calls it; none for what is no colour, whoever made it up."""
    if _HEX.fullmatch(name):
        return f"#{name}"
    name = name.replace("brown", "yellow")
    found = _NAMED.fullmatch(name)
    if found is None:
        return _NAMES.get(name, "")
    return f"bright_{found[2]}" if found[1] else found[2]


def _grounded(style: str) -> bool:
    """Whether blanks can be seen in this style."""
    return bool({"on", "reverse", "underline", "strike"}.intersection(style.split()))
