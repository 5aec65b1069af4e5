"""Writes rows to the terminal: settled rows once, live rows whenever they change.

The terminal keeps settled rows in its scrollback. Below them are the live rows, never more than fit
on the screen. `show` writes from the first row that differs from what is there, in one write, and
nothing at all if nothing differs: so a live row that becomes settled costs nothing. The cursor is
shown where the caller asks for it, and hidden otherwise. Between two calls nothing else may write
to the terminal; `leave` gives it back, and with it the title of the window.
"""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from rich.cells import cell_len

from twofold.term.lines import Row, cells
from twofold.term.row_encoder import RowEncoder
from twofold.term.themes import Theme

_BEGIN: Final = "\x1b[?2026h"
"""Show nothing until the frame is complete, in terminals that can wait."""
_END: Final = "\x1b[?2026l"
_HIDE: Final = "\x1b[?25l"
_SHOW: Final = "\x1b[?25h"
_TAKE: Final = f"{_HIDE}\x1b[?2004h"
"""Hide the cursor, and mark what is pasted: a `y` in it is not a key that somebody pressed."""
_GIVE_BACK: Final = f"\x1b[?2004l{_SHOW}"
_FOCUS: Final = "\x1b[?1004h"
"""Report when the window gets or loses the focus (see `input.focus`)."""
_NO_FOCUS: Final = "\x1b[?1004l"
_SAVE_TITLE: Final = "\x1b[22;0t"
_RESTORE_TITLE: Final = "\x1b]2;\x1b\\\x1b[23;0t"
"""Terminals that cannot restore a title are left with none: they show their own."""
_ERASE_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"


class Cursor(NamedTuple):
    """Where the cursor is: a live row, counted from the last one, and a column from the left."""

    row: int
    column: int


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
        self._taken_over = False
        self._cursor: Cursor | None = None
        self._echoed: str | None = None
        self._recoloured = False
        self.title = ""
        """The title for the window, safe to show, set with the next live rows; empty: none."""
        self._shown_title = ""
        self._reports_focus = False
        self.frames = 0
        """How many times something was written."""

    @property
    def has_colors(self) -> bool:
        """Whether anything is written in colours."""
        return not self.dumb and self._encoder.has_colors

    def set_theme(self, theme: Theme) -> None:
        """Write in the colours of a theme from now on; live rows when they are shown next."""
        self._recoloured = self._recoloured or theme != self._encoder.theme
        self._encoder.theme = theme

    @property
    def width(self) -> int:
        """How wide rows may be; the last column stays free, for terminals disagree about it."""
        return max(1, self._terminal.size()[0] - 1)

    @property
    def height(self) -> int:
        """How many live rows there may be."""
        return 1 if self.dumb else max(1, self._terminal.size()[1] - 1)

    def show(
        self, settled: Sequence[Row], live: Sequence[Row], cursor: Cursor | None = None
    ) -> None:
        """Write `settled` for good where the live rows were, and `live` below it.

        The cursor is shown at `cursor`, which is one of the live rows, and hidden without one.
        """
        if self.dumb:
            if settled:
                self.echo(None)
                self._write("".join([f"{self._encoder.text(row)}\r\n" for row in settled]))
            return
        live = live[-self.height :]
        if cursor is not None and cursor.row >= len(live):
            cursor = None
        rows = [*settled, *live]
        size = self._terminal.size()
        titled = self._titled() if live else ""
        if size != self._size:
            # erased first: a row that was broken is else remembered as such, whatever is in it
            # later; and one by one, for who erases all of a screen may keep it in the scrollback
            text = self._begin_again(size) + self._written(rows, 0, before=_ERASE_LINE)
        elif rows == self._live and (live or not rows) and not self._recoloured:
            self._live = list(live)
            if cursor == self._cursor and not titled:
                return
            text = self._to_the_end()
        else:
            same = min(_common(self._live, rows), max(0, len(rows) - 1))
            if self._recoloured:
                same = 0
            text = self._to_the_end() + self._from(same) + self._written(rows, same)
        self._recoloured = False
        if not self._taken_over:
            focus = _FOCUS if self._reports_focus else ""
            text, self._taken_over = f"{_TAKE}{focus}{text}", True
        self._live = list(live)
        if rows and not live:
            text += "\r\n"
        self._write(f"{titled}{_BEGIN}{text}{self._to(cursor)}{_END}")

    def _titled(self) -> str:
        """What sets the title, if it differs from the one that is shown."""
        if self.title in ("", self._shown_title):
            return ""
        save = "" if self._shown_title else _SAVE_TITLE
        self._shown_title = self.title
        return f"{save}\x1b]2;{self.title}\x1b\\"

    def echo(self, text: str | None) -> None:
        """Show the input line on a dumb terminal by writing what is new of it; None ends it."""
        before, self._echoed = self._echoed, text
        if text == before:
            return
        if text is None:
            self._write("\r\n")
        elif before is None:
            self._write(text)
        elif text.startswith(before):
            self._write(text[len(before) :])
        elif before.startswith(text):
            self._write("\b \b" * cell_len(before[len(text) :]))
        else:
            self._write(f"\r\n{text}")

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
        text = self._to_the_end() + "\r\n" if self._live else ""
        if self._shown_title:
            text, self._shown_title = text + _RESTORE_TITLE, ""
        if self._taken_over:
            focus = _NO_FOCUS if self._reports_focus else ""
            text, self._taken_over = f"{text}{focus}{_GIVE_BACK}", False
        self._live = []
        self._cursor = None
        if text:
            self._write(text)

    def write(self, escape: str) -> None:
        """Write something of our own that is no row, such as a picture; nothing may be live."""
        assert not self._live, "a picture has no place between live rows"
        self._write(escape)

    @contextmanager
    def reporting_focus(self) -> Iterator[None]:
        """Have the terminal report its focus for a block, in which its keys are read.

        Where nobody reads them, a report would be shown as letters.
        """
        self._reports_focus = True
        if self._taken_over:
            self._write(_FOCUS)
        try:
            yield
        finally:
            self._reports_focus = False
            if self._taken_over:
                self._write(_NO_FOCUS)

    def copy(self, escape: str) -> None:
        """Write a sequence that copies a text and changes nothing on the screen."""
        if not self.dumb:
            self._write(escape)

    def call(self, sequence: str) -> None:
        """Write a bell or a notification, unless another program has the terminal."""
        if self._taken_over:
            self._write(sequence)

    def _write(self, text: str) -> None:
        self.frames += 1
        self._terminal.write(self._encoder.encode(text))

    # ---- moving the cursor, which is at the end of the last live row unless it is shown

    def _to(self, cursor: Cursor | None) -> str:
        """Show the cursor in its place; it is hidden and at the end of the last live row now."""
        self._cursor = cursor
        if cursor is None:
            return ""
        column = f"\x1b[{cursor.column}C" if cursor.column else ""
        return f"{_up(cursor.row)}{column}{_SHOW}"

    def _to_the_end(self) -> str:
        """Hide the cursor and go from where it is shown to the last live row."""
        if self._cursor is None:
            return ""
        below = self._cursor.row
        return f"{_HIDE}\x1b[{below}B" if below else _HIDE

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
        above = self._taken(columns) - 1
        if self._cursor is not None:  # it stays at its character
            at = len(self._live) - 1 - self._cursor.row
            above = _broken(self._live[:at], columns) + self._cursor.column // columns
        return _HIDE + _up(min(above, height - 1))

    def _taken(self, columns: int) -> int:
        """How many rows the live ones take where those that are too long are broken."""
        return _broken(self._live, columns)


def _broken(rows: Sequence[Row], columns: int) -> int:
    return sum(max(1, -(-cells(row) // columns)) for row in rows)


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
