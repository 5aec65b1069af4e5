"""The screen of an agent's terminal, and the outputs of a session on such screens.

Bytes go in as the program wrote them; lines come out as its screen has them now, with what scrolled
off above. Only what changes the picture is done: nothing is answered, nothing is set on the real
terminal, and no text comes out that is not safe to show. When a lot arrives at once, what nobody
could have seen is counted and not interpreted.
"""

import re
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from rich.cells import cell_len

from twofold.session import Terminal
from twofold.styled import Parts
from twofold.text.safe import sanitize
from twofold.text.terminal import Scanner
from twofold.view.blocks import TerminalItem

KEPT: Final = 1 << 18
"""How much is kept of rows that left the screen: characters, and some for every change of style."""
_MARKS: Final = 8  # accents and the like on one character, itself included
_TAB: Final = 8
_RUN = re.compile(r"[ -~]+|[^ -~]")

# ---- styles ----------------------------------------------------------------------------------


class _Pen(NamedTuple):
    """How text is written from now on."""

    switches: frozenset[str] = frozenset()
    """What is on of `_SWITCHES`."""
    fg: str = ""
    bg: str = ""

    @property
    def style(self) -> str:
        """The style as Rich calls it."""
        words = [name for name in _SWITCHES.values() if name in self.switches]
        words += [self.fg] if self.fg else []
        return " ".join([*words, *(["on", self.bg] if self.bg else [])])


_PLAIN_PEN: Final = _Pen()
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SWITCHES: Final = {1: "bold", 3: "italic", 4: "underline", 9: "strike", 7: "reverse"}
_OFF: Final = {20 + number: name for number, name in _SWITCHES.items()} | {22: "bold"}
# The palette of xterm: sixteen colours of its own, a cube of six levels, shades of grey.
_SIXTEEN: Final = (
    *("000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5"),
    *("7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff"),
)
_LEVELS: Final = (0, 95, 135, 175, 215, 255)


def _palette(number: int) -> str:
    """One of 256 colours; none for a number beyond them."""
    if number < 16:
        return f"#{_SIXTEEN[number]}"
    if number < 232:
        red, rest = divmod(number - 16, 36)
        return _rgb(_LEVELS[red], _LEVELS[rest // 6], _LEVELS[rest % 6])
    return _rgb(*[8 + 10 * (number - 232)] * 3) if number < 256 else ""


def _rgb(red: int, green: int, blue: int) -> str:
    return f"#{red:02x}{green:02x}{blue:02x}" if max(red, green, blue) < 256 else ""


@lru_cache(maxsize=512)
def _rendition(pen: _Pen, args: str) -> _Pen:
    """The pen after a sequence that selects a style; unknown arguments change nothing."""
    numbers = iter(_style_arguments(args))
    for number in numbers:
        if number == 0:
            pen = _PLAIN_PEN
        elif number in _SWITCHES:
            pen = pen._replace(switches=pen.switches | {_SWITCHES[number]})
        elif number in _OFF:
            pen = pen._replace(switches=pen.switches - {_OFF[number]})
        elif number in (38, 48):
            colour = _extended(numbers)
            pen = pen if colour is None else _coloured(pen, colour, ground=number == 48)
        elif number in (39, 49):
            pen = _coloured(pen, "", ground=number == 49)
        elif 30 <= number < 50 or 90 <= number < 110:
            base, bright = (90, "bright_") if number >= 90 else (30, "")
            ground, colour_number = divmod(number - base, 10)
            if colour_number < len(_COLOURS):
                pen = _coloured(pen, bright + _COLOURS[colour_number], ground=ground == 1)
    return pen


def _coloured(pen: _Pen, colour: str, *, ground: bool) -> _Pen:
    return pen._replace(bg=colour) if ground else pen._replace(fg=colour)


def _extended(numbers: Iterator[int]) -> str | None:
    """The colour that follows 38 or 48: of the palette, or red, green and blue."""
    kind = next(numbers, 0)
    if kind == 5:
        found = next(numbers, None)
        return None if found is None else _palette(found)
    if kind == 2:
        parts = [each for each, _ in zip(numbers, range(3), strict=False)]
        return _rgb(*parts) if len(parts) == 3 else None
    return None


def _style_arguments(args: str) -> list[int]:
    """The arguments of a style, those with colons in the older notation."""
    made: list[int] = []
    for arg in args.split(";"):
        first, *more = _numbers(arg.replace(":", ";"))
        if not more:
            made.append(first)
        elif first == 4:  # a kind of underline, or none
            made.append(4 if more[0] else 24)
        elif first in (38, 48) and more[0] == 5 and len(more) >= 2:
            made += (first, 5, more[1])
        elif first in (38, 48) and more[0] == 2 and len(more) >= 4:
            made += (first, 2, *more[-3:])  # a colour space may stand before the three
    return made


_LARGEST_ARGUMENT: Final = 9_999


def _numbers(args: str) -> list[int]:
    """Arguments as numbers; what is none of them is 0, which means the default."""
    return [min(int(arg), _LARGEST_ARGUMENT) if arg.isdecimal() else 0 for arg in args.split(";")]


# ---- rows ------------------------------------------------------------------------------------


class _Row:
    """The cells of a row up to the last that was written to: a character and a style for each.

    A wide character is followed by an empty cell.
    """

    __slots__ = ("chars", "styles")

    def __init__(self, width: int = 0, style: str = "") -> None:
        self.chars: list[str] = [" "] * width
        self.styles: list[str] = [style] * width

    def write(self, at: int, text: str | list[str], style: str) -> None:
        """Write over the cells from a column on, one for each character."""
        chars, styles = self.chars, self.styles
        size, end = len(chars), at + len(text)
        if at > size:
            chars += " " * (at - size)
            styles += [""] * (at - size)
        elif at < size:  # half of a wide character is none
            if not chars[at] and at:
                chars[at - 1] = " "
            if end < size and not chars[end]:
                chars[end] = " "
        chars[at:end] = text
        styles[at:end] = [style] * len(text)

    def insert(self, at: int, count: int, width: int) -> None:
        """Move the cells from a column on to the right."""
        if at < len(self.chars):
            self._split(at)
            self.chars[at:at] = " " * count
            self.styles[at:at] = [""] * count
            self.cut(width)

    def delete(self, at: int, count: int) -> None:
        """Move the cells that follow to the left."""
        self._split(at)
        self._split(at + count)
        del self.chars[at : at + count]
        del self.styles[at : at + count]

    def cut(self, at: int) -> None:
        """Forget the cells from a column on."""
        self._split(at)
        del self.chars[at:]
        del self.styles[at:]

    def _split(self, at: int) -> None:
        """Make blanks of a wide character that would be cut in half at a column."""
        if 0 < at < len(self.chars) and not self.chars[at]:
            self.chars[at - 1] = self.chars[at] = " "

    def parts(self) -> Parts:
        """The row as text in styles, safe to show, without the blanks at its end."""
        styles = self.styles
        if not styles:
            return ()
        if styles.count(styles[0]) == len(styles):
            made = [("".join(self.chars), styles[0])]
        else:
            made, at = [], 0
            for style, cells in groupby(styles):
                end = at + len(list(cells))
                made.append(("".join(self.chars[at:end]), style))
                at = end
        while made and not _shows_blanks(made[-1][1]):
            text, style = made.pop()
            if text := text.rstrip(" "):
                made.append((text, style))
                break
        return tuple([(sanitize(text), style) for text, style in made if text])


@lru_cache(maxsize=512)
def _shows_blanks(style: str) -> bool:
    return bool({"on", "reverse", "underline", "strike"}.intersection(style.split()))


def _weight(parts: Parts) -> int:
    return 16 + sum([16 + len(text) for text, _ in parts])


# ---- the screen ------------------------------------------------------------------------------


class _Saved(NamedTuple):
    """A cursor that was saved."""

    x: int = 0
    y: int = 0
    pen: _Pen = _PLAIN_PEN
    wraps: bool = True


class Screen:
    """Rows, a cursor, and the rows that left at the top.

    `x` is the number of columns after the last column was written to: the next character wraps.
    """

    x: int
    y: int
    wraps: bool
    """Whether text goes on in the next row where it does not fit."""

    def __init__(self, columns: int, lines: int, kept: int = KEPT) -> None:
        """`kept`: how much is kept of the rows that left, as `KEPT` counts it."""
        self.columns = columns
        self.lines = lines
        self._kept = kept
        self.reset()

    def reset(self) -> None:
        """Begin anew: nothing is on the screen, and nothing has ever left it."""
        self._rows = self._blank()
        self._main: tuple[list[_Row], _Saved] | None = None
        self._top, self._bottom = 0, self.lines - 1
        self._tabs = set(range(_TAB, self.columns, _TAB))
        self._saved = _Saved()
        self._move_to(self._saved)
        self._forget()

    def _blank(self) -> list[_Row]:
        return [_Row() for _ in range(self.lines)]

    def _forget(self) -> None:
        self._left: deque[Parts] = deque()
        self._scrolled = self._weight = 0

    @property
    def above(self) -> int:
        """How many rows left at the top; the second screen has nothing above it."""
        return self._scrolled if self._main is None else 0

    @property
    def weight(self) -> int:
        """How many characters are kept, about: of the rows that left, and of the screen itself."""
        return self._weight + self.columns * self.lines

    def upwards(self) -> Iterator[Parts]:
        """The rows from the bottom of the screen up to the first that is kept."""
        for row in reversed(self._rows):
            yield row.parts()
        if self._main is None:
            yield from reversed(self._left)

    def skip(self, lines: int) -> None:
        """Count so many lines that nobody will see, and begin below them."""
        scrolled = self._scrolled + self.y + lines
        self.reset()
        self._scrolled = scrolled

    # ---- text

    def draw(self, text: str) -> None:
        """Write text without control characters."""
        for run in _RUN.findall(text):
            if " " <= run[0] <= "~":
                self._draw_plain(run)
            elif width := cell_len(run):
                self._draw_plain(run) if width == 1 else self._draw_wide(run)
            elif unicodedata.combining(run):  # anything else without a width is left out
                self._add_mark(run)

    def _draw_plain(self, text: str) -> None:
        if not self.wraps:
            text = self._clipped(text)
        columns, at = self.columns, 0
        while at < len(text):
            if self.x >= columns:
                self.linefeed()
            start = self.x
            piece = text[at : at + columns - start] if at or len(text) > columns - start else text
            self._rows[self.y].write(start, piece, self._style)
            self.x = start + len(piece)
            at += len(piece)

    def _clipped(self, text: str) -> str:
        """What is seen where nothing wraps: all that does not fit is written to the last column."""
        self.x = min(self.x, self.columns - 1)
        room = self.columns - self.x
        return text if len(text) <= room else text[: room - 1] + text[-1]

    def _draw_wide(self, char: str) -> None:
        if self.x + 2 > self.columns:
            if self.wraps:
                self.linefeed()
            else:
                self.x = self.columns - 2
        self._rows[self.y].write(self.x, [char, ""], self._style)
        self.x += 2

    def _add_mark(self, mark: str) -> None:
        """Put an accent on the character before the cursor."""
        y, x = (self.y, self.x) if self.x else (self.y - 1, self.columns)
        chars = self._rows[y].chars if y >= 0 else []
        at = x - 1
        while 0 < at < len(chars) and not chars[at]:
            at -= 1
        if 0 <= at < len(chars) and len(chars[at]) < _MARKS:
            chars[at] = unicodedata.normalize("NFC", chars[at] + mark)

    # ---- rows

    def linefeed(self) -> None:
        """To the beginning of the next row.

        Most programs that we see write to a pipe, where nobody makes CR LF of LF.
        """
        self.index()
        self.x = 0

    def index(self) -> None:
        """One row down; at the bottom everything moves up."""
        if self.y == self._bottom:
            self._scroll_up(1)
        elif self.y < self.lines - 1:
            self.y += 1

    def reverse_index(self) -> None:
        """One row up; at the top everything moves down."""
        if self.y == self._top:
            self.scroll_down(1)
        elif self.y:
            self.y -= 1

    def scroll_up(self, count: int) -> None:
        """Move the rows of the region up; what leaves at the top of the screen is kept."""
        self._scroll_up(count, trim=True)

    def _scroll_up(self, count: int, *, trim: bool = False) -> None:
        gone = self._take(self._top, count)
        while trim and gone and not gone[-1].chars:  # a screen moved away, not a line written
            gone.pop()
        if self._top or self._main is not None:
            return
        for row in gone:
            parts = row.parts()
            self._left.append(parts)
            self._weight += _weight(parts)
        self._scrolled += len(gone)
        while self._weight > self._kept:
            self._weight -= _weight(self._left.popleft())

    def scroll_down(self, count: int) -> None:
        """Move the rows of the region down; what leaves at the bottom is gone."""
        self._shift(self._top, count)

    def insert_lines(self, count: int) -> None:
        """Move the rows from the cursor on down."""
        if self._top <= self.y <= self._bottom:
            self._shift(self.y, count)
            self.x = 0

    def delete_lines(self, count: int) -> None:
        """Move the rows below the cursor up over it."""
        if self._top <= self.y <= self._bottom:
            self._take(self.y, count)
            self.x = 0

    def _take(self, first: int, count: int) -> list[_Row]:
        """Take out rows; those below them, up to the end of the region, move up."""
        count = min(count, self._bottom - first + 1)
        gone = self._rows[first : first + count]
        del self._rows[first : first + count]
        below = self._bottom - count + 1
        self._rows[below:below] = [_Row() for _ in range(count)]
        return gone

    def _shift(self, first: int, count: int) -> None:
        count = min(count, self._bottom - first + 1)
        del self._rows[self._bottom - count + 1 : self._bottom + 1]
        self._rows[first:first] = [_Row() for _ in range(count)]

    def set_region(self, top: int, bottom: int) -> None:
        """Scroll only the rows from one to another, counted from 1; 0: the first, and the last."""
        first, last = max(1, top) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last:
            self._top, self._bottom = first, last
            self.x = self.y = 0

    # ---- erasing

    def erase_display(self, how: int) -> None:
        """Erase what follows (0), what comes before (1), all (2), or all that ever was (3)."""
        erased = {0: (self.y + 1, self.lines), 1: (0, self.y), 2: (0, self.lines)}
        erased[3] = erased[2]
        if how not in erased:
            return
        for place in range(*erased[how]):
            self._rows[place] = self._erased_row()
        if how == 3:
            self._forget()
        elif how < 2:
            self.erase_line(how)

    def _erased_row(self) -> _Row:
        return _Row(self.columns, f"on {self.pen.bg}") if self.pen.bg else _Row()

    def erase_line(self, how: int) -> None:
        """Erase the row from the cursor (0), up to it (1), or all of it (2)."""
        row = self._rows[self.y]
        if how == 2:
            self._rows[self.y] = self._erased_row()
        elif how == 1:
            self._erase(0, min(self.x + 1, self.columns))
        elif how == 0:
            row.cut(self.x)
            if self.pen.bg:
                self._erase(self.x, self.columns - self.x)

    def erase_characters(self, count: int) -> None:
        """Erase so many cells from the cursor on."""
        self._erase(self.x, min(count, self.columns - self.x))

    def _erase(self, at: int, count: int) -> None:
        if count > 0:
            style = f"on {self.pen.bg}" if self.pen.bg else ""
            self._rows[self.y].write(at, " " * count, style)

    def insert_characters(self, count: int) -> None:
        """Move what follows the cursor to the right."""
        self._rows[self.y].insert(self.x, min(count, self.columns), self.columns)

    def delete_characters(self, count: int) -> None:
        """Move what follows to the left, over what is at the cursor."""
        self._rows[self.y].delete(self.x, count)

    # ---- the cursor

    @property
    def pen(self) -> _Pen:
        """How text is written."""
        return self._pen

    @pen.setter
    def pen(self, pen: _Pen) -> None:
        self._pen, self._style = pen, pen.style

    def carriage_return(self) -> None:
        """To the beginning of the row."""
        self.x = 0

    def back(self, count: int = 1) -> None:
        """To the left."""
        self.x = max(0, min(self.x, self.columns - 1) - count)

    def forward(self, count: int) -> None:
        """To the right."""
        self.x = min(self.columns - 1, self.x + count)

    def up(self, count: int) -> None:
        """Up, not beyond the region."""
        self.y = max(self._top if self.y >= self._top else 0, self.y - count)

    def down(self, count: int) -> None:
        """Down, not beyond the region."""
        limit = self._bottom if self.y <= self._bottom else self.lines - 1
        self.y = min(limit, self.y + count)

    def up_to_start(self, count: int) -> None:
        """To the beginning of a row above."""
        self.up(count)
        self.x = 0

    def down_to_start(self, count: int) -> None:
        """To the beginning of a row below."""
        self.down(count)
        self.x = 0

    def to_column(self, column: int) -> None:
        """To a column, counted from 1."""
        self.x = min(max(column, 1), self.columns) - 1

    def to_line(self, row: int) -> None:
        """To a row, counted from 1."""
        self.y = min(max(row, 1), self.lines) - 1

    def to(self, row: int, column: int) -> None:
        """To a row and a column, counted from 1."""
        self.to_line(row)
        self.to_column(column)

    def tab(self) -> None:
        """To the next tab stop."""
        stops = [stop for stop in self._tabs if stop > self.x]
        self.x = min(stops, default=self.columns - 1)

    def set_tab(self) -> None:
        """Make a tab stop of this column."""
        self._tabs.add(self.x)

    def clear_tabs(self, how: int) -> None:
        """Remove the tab stop at this column (0), or all of them (3)."""
        if how == 0:
            self._tabs.discard(self.x)
        elif how == 3:
            self._tabs.clear()

    def save(self) -> None:
        """Remember the cursor, and forget the one remembered before."""
        self._saved = _Saved(self.x, self.y, self.pen, self.wraps)

    def restore(self) -> None:
        """Back to the cursor that was remembered, which it stays."""
        self._move_to(self._saved)

    def _move_to(self, saved: _Saved) -> None:
        self.x, self.y, self.pen, self.wraps = saved

    # ---- the second screen

    def show_second(self) -> None:
        """Show the second screen, which is empty."""
        if self._main is None:
            self._main = self._rows, _Saved(self.x, self.y, self.pen, self.wraps)
            self._rows = self._blank()

    def show_main(self) -> None:
        """Show what there was before the second screen."""
        if self._main is not None:
            self._rows, cursor = self._main
            self._main = None
            self._move_to(cursor)


# ---- what is written -------------------------------------------------------------------------

AT_ONCE: Final = 128 * 1024
"""Of more bytes in one go than this only the end is interpreted."""
INTERPRETED: Final = 64 * 1024

_CONTROLS: Final[dict[str, Callable[[Screen], None]]] = {
    "\b": Screen.back,
    "\t": Screen.tab,
    "\n": Screen.linefeed,
    "\v": Screen.linefeed,
    "\f": Screen.linefeed,
    "\r": Screen.carriage_return,
    "\x84": Screen.index,
    "\x85": Screen.linefeed,
    "\x88": Screen.set_tab,
    "\x8d": Screen.reverse_index,
}
_ESCAPES: Final[dict[str, Callable[[Screen], None]]] = {
    "7": Screen.save,
    "8": Screen.restore,
    "D": Screen.index,
    "E": Screen.linefeed,
    "H": Screen.set_tab,
    "M": Screen.reverse_index,
    "c": Screen.reset,
}
# Sequences that do something so many times, once if no number is given.
_REPEATED: Final[dict[str, Callable[[Screen, int], None]]] = {
    "@": Screen.insert_characters,
    "A": Screen.up,
    "B": Screen.down,
    "C": Screen.forward,
    "D": Screen.back,
    "E": Screen.down_to_start,
    "F": Screen.up_to_start,
    "G": Screen.to_column,
    "L": Screen.insert_lines,
    "M": Screen.delete_lines,
    "P": Screen.delete_characters,
    "S": Screen.scroll_up,
    "T": Screen.scroll_down,
    "X": Screen.erase_characters,
    "`": Screen.to_column,
    "a": Screen.forward,
    "d": Screen.to_line,
    "e": Screen.down,
}
# Sequences with a number that selects how; 0 if there is none.
_CHOSEN: Final[dict[str, Callable[[Screen, int], None]]] = {
    "J": Screen.erase_display,
    "K": Screen.erase_line,
    "g": Screen.clear_tabs,
}
_SECOND_SCREEN: Final = frozenset({47, 1047, 1049})
_WRAP: Final = 7


class Emulator:
    """A terminal that a program writes to. Feed it, and read its `rows`."""

    __slots__ = ("_drawn", "_scanner", "_screen", "hidden")

    def __init__(self, columns: int = 80, rows: int = 24, *, kept: int = KEPT) -> None:
        """Create a terminal; a size that none has becomes the nearest that one could have.

        Args:
            columns: The width of the screen.
            rows: The height of the screen.
            kept: How much is kept of the rows that left the screen, as `KEPT` counts it.
        """
        self._screen = Screen(min(max(columns, 20), 500), min(max(rows, 5), 200), kept)
        self._scanner = Scanner()
        self._drawn = ""  # the character written last, which can be repeated
        self.hidden = 0
        """How many rows are above those that `rows` returned last."""

    @property
    def weight(self) -> int:
        """How many characters it holds, about."""
        return self._screen.weight

    def feed(self, data: bytes | bytearray, most: int = AT_ONCE) -> None:
        """Read what the program wrote next; of more than `most` bytes only the end."""
        if len(data) > most:
            data = self._end(data, min(most, INTERPRETED))
        screen = self._screen
        for piece in self._scanner.scan(data):
            match piece.lastgroup:
                case "text":
                    screen.draw(piece[0])
                    self._drawn = piece[0][-1]
                case "control":
                    if act := _CONTROLS.get(piece[0]):
                        act(screen)
                case "final":
                    self._sequence(piece["args"], piece["middle"] + piece["final"])
                case "escape":
                    if act := _ESCAPES.get(piece["between"] + piece["escape"]):
                        act(screen)

    def rows(self, limit: int) -> list[Parts]:
        """The last rows of what there is to see, at most so many."""
        total = self._screen.above + self._screen.lines
        shown: list[Parts] = []
        blank = True  # so far
        for row in self._screen.upwards():
            blank = blank and not row
            if blank:
                total -= 1
            elif len(shown) < limit:
                shown.append(row)
            else:
                break
        self.hidden = total - len(shown)
        return shown[::-1]

    def _end(self, data: bytes | bytearray, size: int) -> bytes | bytearray:
        """The end of a lot of output, from the start of a line; what comes before is counted."""
        start = len(data) - size
        # a line that is longer than that is cut
        start = data.find(b"\n", start, start + size // 2) + 1 or start
        while start < len(data) and data[start] & 0xC0 == 0x80:  # within a character
            start += 1
        self._scanner = Scanner()
        self._screen.skip(data.count(b"\n", 0, start))
        return data[start:]

    def _sequence(self, args: str, final: str) -> None:
        screen = self._screen
        if final == "m" and args[:1] not in ("<", "=", ">", "?"):
            screen.pen = _rendition(screen.pen, args)
            return
        if args[:1] in ("<", "=", ">"):  # about keys, and about what the terminal can do
            return
        private = args.startswith("?")
        first, *more = _numbers(args.removeprefix("?"))
        if private and final in ("h", "l"):
            self._set_modes([first, *more], on=final == "h")
        elif act := _CHOSEN.get(final):
            act(screen, first)
        elif private:
            return
        elif act := _REPEATED.get(final):
            act(screen, first or 1)
        elif final in ("H", "f"):
            screen.to(first, more[0] if more else 0)
        elif final == "r":
            screen.set_region(first, more[0] if more else 0)
        elif final == "b" and self._drawn:
            screen.draw(self._drawn * min(first or 1, screen.columns))
        elif final == "s":
            screen.save()
        elif final == "u":
            screen.restore()

    def _set_modes(self, modes: list[int], *, on: bool) -> None:
        if _SECOND_SCREEN.intersection(modes):
            if on:
                self._screen.show_second()
            else:
                self._screen.show_main()
        if _WRAP in modes:
            self._screen.wraps = on


# ---- the outputs of a session ----------------------------------------------------------------

MOST: Final = 2000
"""How many rows are shown when all of them are asked for."""
KEPT_SCREENS: Final = 256
"""How many screens are kept at most; one that is looked at after that is read again."""
WEIGHT: Final = 1 << 23
"""How many characters they hold together, about; the last one is kept in any case."""
FIRST: Final = 1 << 15
"""So many bytes of what is there already are read where the last rows are enough."""
UNKNOWN_SIZE: Final = (500, 24)
"""The size of a terminal whose size nobody named: so wide that only the user's screen breaks rows.
Most such output was written to a pipe, which breaks none."""


class Output(NamedTuple):
    """What there is to see of a terminal."""

    rows: list[Parts]
    hidden: int
    """How many rows are above them."""


class Outputs:
    """`outputs(item, limit)`: the last rows of a terminal of one session."""

    def __init__(self) -> None:
        self._screens: dict[str, _Fed] = {}

    def __call__(self, item: TerminalItem, limit: int | None) -> Output:
        """The last rows, at most so many, and how many there are before them."""
        terminal = item.terminal
        if terminal is None:
            return Output([], 0)
        fed = self._screens.pop(item.terminal_id, None)
        if fed is None or not fed.shows(terminal) or (fed.short and limit is None):
            fed = _Fed(terminal, FIRST if limit is not None else AT_ONCE)
        emulator = fed.up_to_date()
        self._screens[item.terminal_id] = fed  # the last to be forgotten
        self._forget()
        rows = emulator.rows(limit or MOST)
        return Output(rows, emulator.hidden)

    def _forget(self) -> None:
        weight = sum([fed.weight for fed in self._screens.values()])
        while len(self._screens) > KEPT_SCREENS or (weight > WEIGHT and len(self._screens) > 1):
            first = next(iter(self._screens))
            weight -= self._screens.pop(first).weight


def whole_output(item: TerminalItem) -> list[Parts]:
    """All rows of a terminal that were ever written, for a transcript."""
    if item.terminal is None:
        return []
    emulator = Emulator(*_size_of(item.terminal), kept=sys.maxsize)
    emulator.feed(item.terminal.output, sys.maxsize)
    return emulator.rows(sys.maxsize)


def _size_of(terminal: Terminal) -> tuple[int, int]:
    """Columns and rows."""
    return (terminal.size.cols, terminal.size.rows) if terminal.size else UNKNOWN_SIZE


class _Fed:
    """A screen, and how much of the output it has seen."""

    def __init__(self, terminal: Terminal, most: int) -> None:
        """`most`: how many bytes of what is there already are read."""
        self._most = most
        self.short = most < min(len(terminal.output), AT_ONCE)
        """It has not seen all that it could have."""
        self._output = terminal.output
        self._size = terminal.size
        self._seen = 0
        self._emulator = Emulator(*_size_of(terminal))

    def shows(self, terminal: Terminal) -> bool:
        """Whether it is the screen of this terminal, as it is now."""
        return terminal.output is self._output and terminal.size == self._size

    @property
    def weight(self) -> int:
        """How many characters it holds, about."""
        return self._emulator.weight

    def up_to_date(self) -> Emulator:
        if self._seen < len(self._output):
            self._emulator.feed(bytes(self._output[self._seen :]), self._most)
            self._most = AT_ONCE
            self._seen = len(self._output)
        return self._emulator
