"""What the terminal of an agent shows.

Bytes go in as the program wrote them, whatever they are; lines come out as its screen has them
now, with what scrolled off above. Only what changes the picture is done: nothing is answered,
nothing is set on the real terminal, and no text comes out that is not safe to show. When a lot
comes at once, what nobody could have seen is counted and not interpreted.
"""

import codecs
import copy
import operator
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, dropwhile, islice
from typing import Any, Final, TypeAlias, cast

import pyte
from pyte import modes
from pyte.screens import Char, Cursor, Margins, StaticDefaultDict, wcwidth

from twofold.term.lines import Line, Parts
from twofold.text.safe import sanitize
from twofold.text.terminal import TerminalText

# What a program writes to its terminal, piece by piece: text, control characters, sequences.
#
# Bytes come in any pieces; whatever the split, the same comes out, but for text, which comes as it
# is there. A sequence is handed on only when it is complete. Titles, links, images and whatever
# else stands between an introducer and its end are passed over, and given up when they do not end.


LONGEST_STRING: Final = 1 << 16
"""So many characters of an unclosed title, link or image are dropped; the next one shows."""

_PIECE = re.compile(
    r"(?P<text>[^\0-\x1f\x7f-\x9f]++)"
    r"|(?:\x1b\[|\x9b)(?P<args>[0-?]{0,64}+)(?P<middle>[ -/]{0,4}+)(?P<final>[@-~])?"
    r"|(?P<osc>\x1b\]|\x9d)"
    r"|(?P<string>\x1b[PX^_]|[\x90\x98\x9e\x9f])"
    r"|\x1b(?P<between>[ -/]{0,4}+)(?P<escape>[0-Z\\`-~])?"
    r"|(?P<control>.)",
    re.DOTALL,
)
_STRING = re.compile(r"[^\x07\x18\x1a\x1b\x9c]*+")
_OSC = re.compile(r"[^\x07\x18\x1a\x1b\x9c\n]*+")  # its words stand on one line


@dataclass(frozen=True, slots=True)
class Written:
    """Text without any control character."""

    text: str


@dataclass(frozen=True, slots=True)
class Control:
    """A control character that stands for itself, such as a newline."""

    text: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """A control sequence: `ESC [`, its arguments, and what it does."""

    text: str
    args: str
    final: str
    """With what stands before it, if anything: `SP q`."""


@dataclass(frozen=True, slots=True)
class Escape:
    """`ESC` and what follows it: `7`, `(B`."""

    text: str
    name: str


Piece: TypeAlias = Written | Control | Sequence | Escape


class Reader:
    """Reads output. Feed it, and take what is complete."""

    __slots__ = ("_decoder", "_pending", "_string", "_swallowed")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""  # the beginning of a sequence, never long
        self._string: re.Pattern[str] | None = None  # what may stand in the string we are in
        self._swallowed = 0

    def feed(self, output: bytes | bytearray) -> Iterator[Piece]:
        """What is complete with this; it must be taken to the end."""
        text = self._pending + self._decoder.decode(output)
        self._pending = ""
        at = 0
        while at < len(text):
            if self._string is not None:
                at = self._in_string(text, at)
                continue
            found = _PIECE.match(text, at)
            assert found is not None  # any character is a piece
            at = found.end()
            piece = self._piece(found, at == len(text))
            if piece is not None:
                yield piece

    def _piece(self, found: re.Match[str], last: bool) -> Piece | None:
        match found.lastgroup:
            case "text":
                return Written(found[0])
            case "control":
                return Control(found[0])
            case "final":
                return Sequence(found[0], found["args"], found["middle"] + found["final"])
            case "escape":
                return Escape(found[0], found["between"] + found["escape"])
            case "osc" | "string":
                self._string = _OSC if found["osc"] else _STRING
                self._swallowed = 0
            case _ if last:  # a sequence that goes on
                self._pending = found[0]
        return None  # or one that cannot be: its beginning is left out

    def _in_string(self, text: str, at: int) -> int:
        """Pass over the words of a title, link or image, and tell what stands after them."""
        assert self._string is not None
        body = self._string.match(text, at, at + LONGEST_STRING - self._swallowed)
        end = body.end() if body else at
        self._swallowed += end - at
        if end == len(text) and self._swallowed < LONGEST_STRING:
            return end
        if text.startswith("\x1b", end) and end + 1 == len(text):
            self._pending = "\x1b"  # perhaps the first half of its end
            return end + 1
        self._string = None
        if text.startswith("\x1b\\", end):
            return end + 2
        return end + 1 if text.startswith(("\x07", "\x18", "\x1a", "\x9c"), end) else end


# The screen of a terminal, and the rows that left it at the top.
#
# pyte keeps the cells and moves the cursor. What it leaves out is added here: rows that scroll off,
# the second screen of full-screen programs, one saved cursor instead of any number. What costs it
# the whole screen for a few bytes is done otherwise, and what it would lose of the text is kept.
# Queries get no answer and titles go nowhere.


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


AT_ONCE: Final = 128 * 1024
"""Of more bytes in one go than this only the end is interpreted."""
INTERPRETED: Final = 64 * 1024
_PLAIN: Final = 1 << 18  # characters kept of a terminal that is shown as plain text
_LARGEST_ARGUMENT: Final = 9_999

_CONTROLS: Final = {
    "\b": "backspace",
    "\t": "tab",
    "\n": "linefeed",
    "\v": "linefeed",
    "\f": "linefeed",
    "\r": "carriage_return",
    "\x84": "index",
    "\x85": "linefeed",
    "\x88": "set_tab_stop",
    "\x8d": "reverse_index",
}
_ESCAPES: Final = {
    "7": "save_cursor",
    "8": "restore_cursor",
    "D": "index",
    "E": "linefeed",
    "H": "set_tab_stop",
    "M": "reverse_index",
    "c": "reset",
}
# What a sequence does, and how many arguments it takes.
_SEQUENCES: Final = {
    "@": ("insert_characters", 1),
    "A": ("cursor_up", 1),
    "B": ("cursor_down", 1),
    "C": ("cursor_forward", 1),
    "D": ("cursor_back", 1),
    "E": ("cursor_down1", 1),
    "F": ("cursor_up1", 1),
    "G": ("cursor_to_column", 1),
    "H": ("cursor_position", 2),
    "J": ("erase_in_display", 1),
    "K": ("erase_in_line", 1),
    "L": ("insert_lines", 1),
    "M": ("delete_lines", 1),
    "P": ("delete_characters", 1),
    "S": ("scroll_up", 1),
    "T": ("scroll_down", 1),
    "X": ("erase_characters", 1),
    "`": ("cursor_to_column", 1),
    "a": ("cursor_forward", 1),
    "d": ("cursor_to_line", 1),
    "e": ("cursor_down", 1),
    "f": ("cursor_position", 2),
    "g": ("clear_tab_stop", 1),
    "r": ("set_margins", 2),
    "s": ("save_cursor", 0),
    "u": ("restore_cursor", 0),
}
_SECOND_SCREEN: Final = frozenset({47, 1047, 1049})
_WRAP: Final = 7


class Emulator:
    """A terminal that a program writes to. Feed it, and look at its `lines`."""

    __slots__ = ("_before", "_drawn", "_plain", "_reader", "_screen", "_told", "hidden")

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        """A size that no terminal has is taken for the nearest that one could have."""
        self._screen = Screen(min(max(columns, 20), 500), min(max(rows, 5), 200))
        self._reader = Reader()
        self._drawn = ""  # the character written last, which can be repeated
        self._plain: TerminalText | None = None
        self._before: list[Parts] = []  # what stood on the screen when it failed, from below
        self._told = 0  # lines written since then
        self.hidden = 0
        """How many rows stand above those that `lines` gave last."""

    @property
    def weight(self) -> int:
        """How many characters it holds, about."""
        return self._screen.weight

    def feed(self, data: bytes | bytearray, most: int = AT_ONCE) -> None:
        """Take in what the program wrote next; of more than `most` bytes only the end."""
        if len(data) > most:
            data = self._end(data, min(most, INTERPRETED))
        for piece in self._reader.feed(data):
            if self._plain is None:
                try:
                    self._do(piece)
                    continue
                except Exception:  # what pyte cannot do is no reason to lose what follows
                    self._give_up()
            self._write_plain(piece)

    def lines(self, limit: int) -> list[Line]:
        """The last rows of what there is to see, at most so many."""
        rows, total = self._upwards()
        shown: list[Parts] = []
        blank = True  # so far
        for row in rows:
            blank = blank and not row
            if blank:
                total -= 1
            elif len(shown) < limit:
                shown.append(row)
            else:
                break
        self.hidden = total - len(shown)
        return [Line(parts, prose=False) for parts in reversed(shown)]

    def _upwards(self) -> tuple[Iterator[Parts], int]:
        """The rows from the last one up, and how many there are with those not kept any more."""
        screen = self._screen
        if self._plain is None:
            return screen.upwards(), screen.above + screen.lines
        written: list[Parts] = [((row, ""),) for row in self._plain.text.split("\n")]
        written = [parts if parts[0][0] else () for parts in written]
        rows = chain(reversed(written), self._before, reversed(screen.left))
        return rows, screen.scrolled + len(self._before) + self._told + 1

    def _end(self, data: bytes | bytearray, size: int) -> bytes | bytearray:
        """The end of a lot of output, from the start of a line; what comes before is counted."""
        start = len(data) - size
        # a line that is longer than that is cut
        start = data.find(b"\n", start, start + size // 2) + 1 or start
        while start < len(data) and data[start] & 0xC0 == 0x80:  # within a character
            start += 1
        lines = data.count(b"\n", 0, start)
        self._reader = Reader()
        if self._plain is None:
            self._screen.skip(lines)
        else:
            self._told += lines
        return data[start:]

    # ---- what is written -----------------------------------------------------------------------

    def _do(self, piece: Piece) -> None:
        screen = self._screen
        match piece:
            case Written(text):
                screen.draw(text)
                self._drawn = text[-1]
            case Control(text) if name := _CONTROLS.get(text):
                getattr(screen, name)()
            case Escape(_, name) if method := _ESCAPES.get(name):
                getattr(screen, method)()
            case Sequence(_, args, final):
                self._sequence(args, final)
            case _:
                pass  # does nothing that could be seen

    def _sequence(self, args: str, final: str) -> None:
        screen = self._screen
        if args[:1] in ("<", "=", ">"):  # speaks of keys and of what the terminal can do
            return
        private = args.startswith("?")
        if private and final in "hl":
            self._modes(_numbers(args[1:]), on=final == "h")
        elif private and final not in "JK":
            return
        elif final == "m":
            screen.select_graphic_rendition(*_rendition(args))
        elif final == "b" and self._drawn:
            screen.draw(self._drawn * min(_numbers(args)[0] or 1, screen.columns))
        elif final in _SEQUENCES:
            name, count = _SEQUENCES[final]
            act: Callable[..., None] = getattr(screen, name)
            act(*_numbers(args.removeprefix("?"))[:count])

    def _modes(self, modes: list[int], *, on: bool) -> None:
        if _SECOND_SCREEN.intersection(modes):
            if on:
                self._screen.show_second()
            else:
                self._screen.show_main()
        if _WRAP in modes:
            change = self._screen.set_mode if on else self._screen.reset_mode
            change(_WRAP, private=True)

    # ---- when it fails -------------------------------------------------------------------------

    def _give_up(self) -> None:
        """From here on plain text, below what there is."""
        self._plain = TerminalText(_PLAIN)
        rows = islice(self._screen.upwards(), self._screen.lines)
        self._before = list(dropwhile(operator.not_, rows))

    def _write_plain(self, piece: Piece) -> None:
        assert self._plain is not None
        self._plain.feed(piece.text.encode())
        self._told += piece.text in ("\n", "\v", "\f")


def _numbers(args: str) -> list[int]:
    """Arguments as numbers; what is none of them is 0, which stands for the usual."""
    return [min(int(arg), _LARGEST_ARGUMENT) if arg.isdecimal() else 0 for arg in args.split(";")]


def _rendition(args: str) -> list[int]:
    """The arguments of a style, those with colons in the old way of writing them."""
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
