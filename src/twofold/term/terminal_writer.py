"""Writes rows to the terminal: settled rows once, live rows whenever they change.

The terminal keeps settled rows in its scrollback. Below them are the live rows, never more than fit
on the screen. `show` writes from the first row that differs from what is there, in one write, and
nothing at all if nothing differs: so a live row that becomes settled costs nothing. Between two
calls nothing else may write to the terminal; `leave` gives it back.
"""

import os
import select
from collections.abc import Sequence
from typing import Final, Protocol

from twofold.term.lines import Row, cells
from twofold.term.row_encoder import RowEncoder

_BEGIN: Final = "\x1b[?2026h"
"""Show nothing until the frame is complete, in terminals that can wait."""
_END: Final = "\x1b[?2026l"
_TAKE: Final = "\x1b[?25l\x1b[?2004h"
"""Hide the cursor, and mark what is pasted: a `y` in it is not a key that somebody pressed."""
_GIVE_BACK: Final = "\x1b[?2004l\x1b[?25h"
_ERASE_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"


class Terminal(Protocol):
    """Where to write, and how large it is."""

    def write(self, data: bytes) -> None: ...

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        ...


class Tty:
    """A terminal behind a file descriptor; when it is gone, what is written to it goes nowhere."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self.gone = False

    def write(self, data: bytes) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view and not self.gone:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:  # someone else made it so
                select.select([], [self._fd], [])
            except OSError:  # its window was closed; a signal reports that as well
                self.gone = True

    def size(self) -> tuple[int, int]:
        """Columns and rows; 80 by 24 if the terminal does not report its size."""
        try:
            columns, rows = os.get_terminal_size(self._fd)
        except OSError:
            return 80, 24
        return columns or 80, rows or 24


class TerminalWriter:
    """Writes settled rows above and live rows below, and remembers the live rows."""

    def __init__(self, terminal: Terminal, encoder: RowEncoder, *, dumb: bool = False) -> None:
        """`dumb`: the terminal has no escape sequences, so nothing on it is ever live."""
        self.dumb = dumb
        self._terminal = terminal
        self._encoder = encoder
        self._live: list[Row] = []
        self._size = terminal.size()
        self._hidden = False
        self.frames = 0
        """How many times something was written."""

    @property
    def width(self) -> int:
        """How wide rows may be; the last column stays free, for terminals disagree about it."""
        return max(1, self._terminal.size()[0] - 1)

    @property
    def height(self) -> int:
        """How many live rows there may be."""
        return 1 if self.dumb else max(1, self._terminal.size()[1] - 1)

    def show(self, settled: Sequence[Row], live: Sequence[Row]) -> None:
        """Write `settled` for good where the live rows were, and `live` below it."""
        if self.dumb:
            if settled:
                self._write("".join([f"{self._encoder.text(row)}\r\n" for row in settled]))
            return
        live = live[-self.height :]
        rows = [*settled, *live]
        size = self._terminal.size()
        if size != self._size:
            # erased first: a row that was broken is else remembered as such, whatever is in it
            # later; and one by one, for who erases all of a screen may keep it in the scrollback
            text = self._begin_again(size) + self._written(rows, 0, before=_ERASE_LINE)
        elif rows == self._live and (live or not rows):
            self._live = list(live)
            return
        else:
            same = min(_common(self._live, rows), max(0, len(rows) - 1))
            text = self._from(same) + self._written(rows, same)
        if not self._hidden:
            text, self._hidden = _TAKE + text, True
        self._live = list(live)
        if rows and not live:
            text += "\r\n"
        self._write(f"{_BEGIN}{text}{_END}")

    @property
    def overflows(self) -> bool:
        """Whether the terminal became so small that live rows have left it for the scrollback."""
        size = self._terminal.size()
        return size != self._size and self._taken(size[0]) > size[1]

    @property
    def is_narrower(self) -> bool:
        """Whether rows may be cut that were written for a wider terminal."""
        return self._terminal.size()[0] < self._size[0]

    def keep(self, live: int) -> None:
        """Leave all but the last live rows where they are, for good."""
        self._live = self._live[-live:] if live else []

    def leave(self) -> None:
        """Leave what is live where it is, and the cursor on a new line, to be seen."""
        text = "\r\n" if self._live else ""
        if self._hidden:
            text, self._hidden = text + _GIVE_BACK, False
        self._live = []
        if text:
            self._write(text)

    def write(self, escape: str) -> None:
        """Write something of our own that is no row, such as a picture; nothing may be live."""
        assert not self._live, "a picture has no place between live rows"
        self._write(escape)

    def _write(self, text: str) -> None:
        self.frames += 1
        self._terminal.write(self._encoder.encode(text))

    # ---- moving the cursor, which is at the end of the last live row

    def _from(self, row: int) -> str:
        """Go to where the row is to be written."""
        if not self._live:
            return ""
        if row == len(self._live):
            return "\r\n"
        return _up(len(self._live) - 1 - row)

    def _written(self, rows: Sequence[Row], start: int, before: str = "") -> str:
        painted = [f"{before}{self._encoder.text(row)}{_ERASE_LINE}" for row in rows[start:]]
        return "\r\n".join(painted) + _ERASE_BELOW

    def _begin_again(self, size: tuple[int, int]) -> str:
        """After a change of size: most terminals have broken rows that are too long by now."""
        self._size = columns, height = size
        if not self._live:
            return ""
        return _up(min(self._taken(columns), height) - 1)

    def _taken(self, columns: int) -> int:
        """How many rows the live ones take where those that are too long are broken."""
        return sum(max(1, -(-cells(row) // columns)) for row in self._live)


def _up(rows: int) -> str:
    return f"\r\x1b[{rows}A" if rows > 0 else "\r"


def _common(old: Sequence[Row], new: Sequence[Row]) -> int:
    """How many rows at the beginning are the same."""
    same = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        same += 1
    return same
