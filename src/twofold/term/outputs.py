"""The output of the agent's terminals, interpreted as it comes: a screen for each.

Only what is new is fed, so a terminal that prints without end costs what it prints. Nothing of it
reaches the user's terminal but text and colours.
"""

from typing import Final

from twofold.session import Session, Terminal
from twofold.term.block_lines import counted
from twofold.term.emulator import AT_ONCE, Emulator
from twofold.term.lines import Line, line
from twofold.view.blocks import TerminalItem

MOST: Final = 2000
"""How many rows are shown when all of them are asked for."""

KEPT: Final = 256
"""How many screens are kept at most; one that is looked at after that is read again."""
WEIGHT: Final = 1 << 23
"""How many characters they hold together, about; the last one is kept in any case."""
FIRST: Final = 1 << 15
"""So many bytes of what is there already are read where the last rows are enough."""

UNKNOWN: Final = (500, 24)
"""The size of a terminal whose size nobody named: so wide that only the user's screen breaks rows.
Most such output was written to a pipe, which breaks none."""


class Outputs:
    """`outputs(item, limit)`: the last rows of a terminal of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._screens: dict[str, _Fed] = {}

    def __call__(self, item: TerminalItem, limit: int | None) -> list[Line]:
        """The last rows, and how many there are before them."""
        terminal = self._session.terminals.get(item.terminal_id)
        if terminal is None:
            return []
        fed = self._screens.pop(item.terminal_id, None)
        if fed is None or not fed.shows(terminal) or (fed.short and limit is None):
            fed = _Fed(terminal, FIRST if limit is not None else AT_ONCE)
        emulator = fed.up_to_date()
        self._screens[item.terminal_id] = fed  # the last to be forgotten
        self._forget()
        lines = emulator.lines(limit or MOST)
        if emulator.hidden:
            return [line(f"… {counted(emulator.hidden, 'line')} before", "dim italic"), *lines]
        return lines

    def _forget(self) -> None:
        weight = sum([fed.weight for fed in self._screens.values()])
        while len(self._screens) > KEPT or (weight > WEIGHT and len(self._screens) > 1):
            first = next(iter(self._screens))
            weight -= self._screens.pop(first).weight


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
        size = terminal.size
        self._emulator = Emulator(size.cols, size.rows) if size else Emulator(*UNKNOWN)

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
