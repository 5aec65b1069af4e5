"""What the terminal of an agent shows.

Bytes go in as the program wrote them, whatever they are; lines come out as its screen has them
now, with what scrolled off above. Only what changes the picture is done: nothing is answered,
nothing is set on the real terminal, and no text comes out that is not safe to show. When a lot
comes at once, what nobody could have seen is counted and not interpreted.
"""

import operator
from collections.abc import Callable, Iterator
from itertools import chain, dropwhile, islice
from typing import Final

from twofold.term.content.screen import Screen
from twofold.term.content.sequences import Control, Escape, Piece, Reader, Sequence, Written
from twofold.term.lines import Line, Parts
from twofold.text.terminal import TerminalText

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
