"""What a terminal shows of the bytes that a program writes to it, with all that scrolled away.

It is pyte's screen, taught what real terminals do and pyte does not: to keep the rows that leave
at the top, to have an alternate screen, to know dim, to shrink from below the cursor. A sequence
that pyte would show as letters, or stumble over, is left out and noted in `passed_over`. A row is
never laid out anew for another width: that is for a real terminal (see `TmuxStage`).
"""

import codecs
import copy
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import pyte
from pyte.screens import Char, Cursor
from wcwidth import wcwidth


class Look(NamedTuple):
    """How a piece of a row looks; a colour is a name (`red`, `brightblack`) or six hex digits."""

    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    reverse: bool = False


class Run(NamedTuple):
    """A piece of a row in one look."""

    text: str
    look: Look


Row: TypeAlias = tuple[Run, ...]

BRACKETED_PASTE: Final = 2004
FOCUS: Final = 1004
_ALTERNATE: Final = frozenset({47, 1047, 1049})
_KNOWN: Final = frozenset({7, 25, FOCUS, BRACKETED_PASTE, *_ALTERNATE, 2026})
"""The private modes that the terminal reports as supported; 2026: synchronized output."""
_PRIVATE: Final = 5  # pyte keeps a private mode shifted by so many bits

_SAME_LOOK: Final = itemgetter(slice(1, None))  # of a cell: all but its character

_SEQUENCE: Final = re.compile(
    r"\x1b\[(?P<prefix>[<-?]?)(?P<args>[0-9:;]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
)
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?)?$")


class TerminalScreen(pyte.Screen):
    """Feed it bytes; read `rows` and `history`. `answer` gets what a terminal would reply."""

    def __init__(
        self, columns: int, lines: int, answer: Callable[[str], None], encoding: str = "utf-8"
    ) -> None:
        self.history: list[Row] = []
        """The rows that scrolled away at the top, the oldest first."""
        self.history_text: list[str] = []
        """Their text: a wait reads it again with every output."""
        self.passed_over: list[str] = []
        """The escape sequences that were not understood, or have no effect here."""
        self.background = ""
        """The colour that it reports as its background (`rgb:ffff/ffff/ffff`); empty: none."""
        self._answer = answer
        self._titles: list[str] = []  # that were saved
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._pending = ""
        self._main: tuple[dict[int, Any], Cursor] | None = None  # while the other screen shows
        super().__init__(columns, lines)
        self._stream = pyte.Stream(self)

    # ---- reading -----------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """The rows that are on the screen."""
        return [self._row(self.buffer[y]) for y in range(self.lines)]

    def has_mode(self, private: int) -> bool:
        """Whether the program switched a private mode on (`CSI ? 2004 h`)."""
        return private << _PRIVATE in self.mode

    def _row(self, cells: Mapping[int, Char]) -> Row:
        shown = [cells[x] for x in range(self.columns)]
        runs = []
        for look, run in groupby(shown, key=_SAME_LOOK):
            runs.append(Run("".join([cell.data for cell in run]), _look(*look)))
        return _stripped(runs)

    # ---- writing -----------------------------------------------------------------------------

    def feed(self, output: bytes) -> None:
        """Take in what the program wrote next; a piece may end anywhere."""
        text = self._pending + self._decoder.decode(output)
        self._pending = ""
        at = 0
        while (escape := text.find("\x1b", at)) >= 0:
            self._stream.feed(text[at:escape])
            if sequence := _SEQUENCE.match(text, escape):
                self._obey(sequence)
                at = sequence.end()
            elif _UNFINISHED.match(text, escape):
                self._pending = text[escape:]
                return
            else:
                self._stream.feed(text[escape : escape + 2])  # `ESC M` and the like
                at = escape + 2
        self._stream.feed(text[at:])

    def _obey(self, sequence: re.Match[str]) -> None:
        """Execute a complete escape sequence, or record it as unknown."""
        final, args = sequence["final"], sequence["args"]
        match sequence["prefix"], sequence["between"], final:
            case (None, _, _):
                kind, _, words = (sequence["osc"] or "").partition(";")
                if (kind, words) == ("11", "?") and self.background:
                    self._answer(f"\x1b]11;{self.background}\x1b\\")
                    return
                if kind not in ("0", "2"):
                    self.passed_over.append(sequence[0])
                    return
                self.set_title(words)
            case ("?", "$", "p") if args.isdecimal():
                known = (1 if self.has_mode(int(args)) else 2) if int(args) in _KNOWN else 0
                self._answer(f"\x1b[?{args};{known}$y")
            case ("", "", "t") if args == "22;0":
                self._titles.append(self.title)
            case ("", "", "t") if args == "23;0" and self._titles:
                self.set_title(self._titles.pop())
            case ("", "", "s") if not args:
                self.save_cursor()
            case ("", "", "u") if not args:
                self.restore_cursor()
            case ("", "", "n") if args == "6":
                self._answer(f"\x1b[{self.cursor.y + 1};{min(self.cursor.x + 1, self.columns)}R")
            case ("" | "?", "", _) if _understood(sequence):
                if final not in "hlm":
                    # Behind the last column the cursor only waits to wrap, and waits no longer.
                    self.cursor.x = min(self.cursor.x, self.columns - 1)
                self._by_pyte(sequence[0])
            case _:
                self.passed_over.append(sequence[0])

    def _by_pyte(self, sequence: str) -> None:
        try:
            self._stream.feed(sequence)
        except (TypeError, UnboundLocalError):  # of arguments that it does not expect
            self.passed_over.append(sequence)

    def draw(self, data: str) -> None:
        """Pyte drops what follows a joiner or a variation selector; here it joins its cell."""
        if data.isascii():
            super().draw(data)
            return
        for joining, characters in groupby(data, key=lambda each: wcwidth(each) == 0):
            piece = "".join(characters)
            if not joining:
                super().draw(piece)
            elif self.cursor.x:
                line, x = self.buffer[self.cursor.y], self.cursor.x - 1
                x -= not line[x].data and x > 0  # the second half of a wide character
                line[x] = line[x]._replace(data=line[x].data + piece)

    def select_graphic_rendition(self, *attrs: int) -> None:
        """Pyte has no dim attribute: a dim cell is stored as blinking, which nothing else is."""
        made: list[int] = []
        rest = list(attrs)
        while rest:
            attr = rest.pop(0)
            if attr in (38, 48):
                size = {5: 2, 2: 4}.get(rest[0] if rest else 0, 0)
                made += [attr, *rest[:size]]
                del rest[:size]
            elif attr not in (5, 6):
                made += {2: [5], 22: [22, 25]}.get(attr, [attr])
        if made or not attrs:
            super().select_graphic_rendition(*made)

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    # ---- the scrollback ----------------------------------------------------------------------

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self._keep(self.buffer[0])
        super().index()

    def _keep(self, cells: Mapping[int, Char]) -> None:
        if self._main is None:  # what is on the alternate screen is never kept
            self.history.append(self._row(cells))
            self.history_text.append(plain(self.history[-1]))

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 3:
            self.history.clear()
            self.history_text.clear()
            return
        super().erase_in_display(how, *args, **kwargs)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and _ALTERNATE.intersection(modes) and self._main is None:
            self._main = dict(self.buffer), copy.copy(self.cursor)
            self.buffer.clear()

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and _ALTERNATE.intersection(modes) and self._main is not None:
            cells, self.cursor = self._main
            self._main = None
            self.buffer.clear()
            self.buffer.update(cells)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """As xterm does it: rows go below the cursor first, and then at the top, to the history."""
        lines = lines or self.lines
        while self.cursor.y >= lines:
            self._keep(self.buffer[0])
            for y in range(self.lines - 1):
                self.buffer[y] = self.buffer[y + 1]
            self.buffer.pop(self.lines - 1, None)
            self.cursor.y -= 1
        for y in range(lines, self.lines):
            self.buffer.pop(y, None)
        self.lines = lines
        super().resize(lines, columns)
        self.set_margins()
        self.tabstops = set(range(8, self.columns, 8))
        self.ensure_hbounds()


def _understood(sequence: re.Match[str]) -> bool:
    """Whether pyte can take it: of the private ones only those that it expects as such."""
    final = sequence["final"]
    finals = "hlJK" if sequence["prefix"] else pyte.Stream.csi
    return final in finals and ":" not in sequence["args"]


def _look(
    fg: str,
    bg: str,
    bold: bool,
    italics: bool,
    underscore: bool,
    strikethrough: bool,
    reverse: bool,
    blink: bool,
) -> Look:
    """The look of a cell of pyte's, which calls yellow brown and misspells a colour."""
    return Look(
        fg=fg.replace("brown", "yellow"),
        bg=bg.replace("brown", "yellow").replace("bfight", "bright"),
        bold=bold,
        dim=blink,
        italic=italics,
        underline=underscore,
        strike=strikethrough,
        reverse=reverse,
    )


def _stripped(runs: list[Run]) -> Row:
    """The row as text, without invisible blanks at its end."""
    if runs and not (runs[-1].look.reverse or runs[-1].look.underline):
        text, look = runs[-1]
        if look.bg == "default" and not (text := text.rstrip(" ")):
            runs.pop()
        else:
            runs[-1] = Run(text, look)
    return tuple(runs)


def plain(row: Row) -> str:
    """The text of a row, without the blanks at its end."""
    return "".join([run.text for run in row]).rstrip()
