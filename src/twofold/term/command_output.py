"""The output of a command of the person's, as lines that are safe to show and bounded in number.

The first lines are shown as they arrive. If there are too many, the last ones follow at the end,
below the number of those between.
"""

from collections import deque
from typing import Final

from twofold.text import TerminalText

FIRST: Final = 1_000
"""How many lines are shown as they arrive."""
LARGEST: Final = 100_000
"""How many characters are shown as they arrive."""
LAST: Final = 50
"""How many lines are shown at the end of an output that is longer."""
LONGEST: Final = 1_000
"""How many characters of a line are shown."""


class CommandOutput:
    """Feed it with what a command writes, and show the lines that it returns."""

    def __init__(self) -> None:
        self._text = TerminalText()
        self._shown: list[str] = []
        self._size = 0
        self._last: deque[str] = deque(maxlen=LAST)
        self._more = 0
        """How many lines were not shown as they arrived."""

    @property
    def text(self) -> str:
        """What was shown."""
        return "\n".join(self._shown)

    def feed(self, data: bytes) -> list[str]:
        """Read what the command wrote next, and return the lines to show."""
        self._text.feed(data)
        ended = self._text.take_ended()
        return self._add(ended.removesuffix("\n").split("\n")) if ended else []

    def end(self) -> list[str]:
        """The command has ended: return the rest of the lines to show."""
        rest = self._text.line
        made = self._add([rest]) if rest else []
        left = self._more - len(self._last)
        mark = [f"… {left:,} line{'' if left == 1 else 's'} not shown …"] if left else []
        last = [*mark, *self._last]
        self._last.clear()
        self._more = 0
        self._shown += last
        return made + last

    def _add(self, lines: list[str]) -> list[str]:
        made = []
        for each in lines:
            shown = each if len(each) <= LONGEST else f"{each[: LONGEST - 1]}…"
            if self._more or len(self._shown) >= FIRST or self._size >= LARGEST:
                self._more += 1
                self._last.append(shown)
            else:
                made.append(shown)
                self._shown.append(shown)
                self._size += len(shown)
        return made
