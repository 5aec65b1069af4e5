"""A terminal in memory, for tests of what draws on one."""

from typing import Any

import pyte

from twofold.term.row_encoder import RowEncoder
from twofold.term.terminal_writer import TerminalWriter


class MemoryTerminal:
    """Takes the bytes of a writer, and shows what a terminal would (`Terminal`)."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=1_000_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self.writes = 0

    def write(self, data: bytes) -> None:
        self.written += data
        self.writes += 1
        self._stream.feed(data)

    def size(self) -> tuple[int, int]:
        return self._screen.columns, self._screen.lines

    @property
    def screen(self) -> list[str]:
        """The rows on the screen, without blanks at their ends and without blank rows below."""
        return _trimmed([row.rstrip() for row in self._screen.display])

    @property
    def all(self) -> list[str]:
        """The scrollback, then the screen."""
        above = [self._text(row) for row in self._screen.history.top]
        return _trimmed([*above, *(row.rstrip() for row in self._screen.display)])

    @property
    def cursor(self) -> tuple[int, int, bool]:
        """Its column, its row, and whether it is hidden."""
        cursor = self._screen.cursor
        return cursor.x, cursor.y, cursor.hidden

    @property
    def above(self) -> int:
        """How many rows have left the screen."""
        return len(self._screen.history.top)

    def _text(self, row: Any) -> str:
        return "".join(row[column].data for column in range(self._screen.columns)).rstrip()


def _trimmed(rows: list[str]) -> list[str]:
    while rows and not rows[-1]:
        rows.pop()
    return rows


def memory_writer(columns: int = 40, rows: int = 10) -> tuple[TerminalWriter, MemoryTerminal]:
    """A writer on a terminal in memory."""
    terminal = MemoryTerminal(columns, rows)
    return TerminalWriter(terminal, RowEncoder("standard", "utf-8")), terminal
