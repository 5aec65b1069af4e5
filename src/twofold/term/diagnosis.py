"""What `/verbose` shows: the agent's standard error, problems, and losses of the conversion.

Lines are collected for a moment and shown together, so that an agent that writes without end costs
neither memory nor the screen.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from twofold.peer.problems import Problem
from twofold.term.lines import Line
from twofold.text import TerminalText, one_line

MOST: Final = 50
"""How many lines are shown at once; of more the last ones."""
EVERY: Final = 0.1
"""How many seconds lines are collected."""
LONGEST: Final = 400
"""How many characters of a line are shown."""
KIND: Final = "diagnosis"
"""What notes with these lines are about."""


class Diagnosis:
    """Collects lines while it is on, and hands them to `show`."""

    def __init__(self, *, on: bool = False) -> None:
        self.on = on
        self._show: Callable[[Sequence[Line]], None] | None = None
        self._stderr = TerminalText()
        self._lines: deque[Line] = deque(maxlen=MOST)
        self._count = 0
        """How many lines were collected, with those that had no room."""
        self._timer: asyncio.TimerHandle | None = None

    def show_with(self, show: Callable[[Sequence[Line]], None]) -> None:
        """Show lines with this from now on; until then the last ones are kept."""
        self._show = show
        self._show_soon()

    def add_stderr(self, data: bytes) -> None:
        """Add what the agent wrote to its standard error; lines are shown when they have ended."""
        self._stderr.feed(data)
        ended = self._stderr.take_ended()
        if self.on and ended:
            lines = ended.removesuffix("\n").split("\n")
            self._count += len(lines[:-MOST])
            for each in lines[-MOST:]:
                self._add("[stderr] ", each, "dim")

    def add_problem(self, problem: Problem) -> None:
        """Add a problem, or a loss of the conversion."""
        if not self.on:
            return
        if problem.kind == "loss":
            self._add("[loss] ", one_line(str(problem)), "dim")
        else:
            self._add("! ", one_line(str(problem)), "yellow")

    def _add(self, mark: str, words: str, style: str) -> None:
        shown = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
        self._lines.append(Line(((shown, style),), head=((mark, style),)))
        self._count += 1
        self._show_soon()

    def _show_soon(self) -> None:
        if self._show is not None and self._lines and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)

    def close(self) -> None:
        """Show nothing more; what is collected from now on is kept for the next `show_with`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._show = None

    def _flush(self) -> None:
        self._timer = None
        assert self._show is not None, "the timer is cancelled with it"
        lines, left = [*self._lines], self._count - len(self._lines)
        self._lines.clear()
        self._count = 0
        if left:
            words = f"… {left:,} line{'' if left == 1 else 's'} not shown"
            lines.insert(0, Line(((words, "dim italic"),)))
        self._show(lines)
