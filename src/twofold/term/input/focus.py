"""Whether the person is at the terminal: by the focus that it reports, or else by their keys.

Many terminals report when their window gets or loses the focus (mode 1004). A report arrives among
the keys and is none: `TerminalInput` takes it out before anything reads a key, so it types nothing,
answers nothing, and does not end a silence. Where a terminal never reports its focus, the person
counts as away after some seconds without a key.
"""

from collections.abc import Callable
from typing import Final

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.keys import Keys

AWAY: Final = 10.0
"""After how many seconds without a key the person counts as away, if the focus is unknown."""
REPORTS: Final = {"\x1b[I": True, "\x1b[O": False}
"""What a terminal sends when its window gets the focus, and when it loses it."""

# without this the parser takes a report for Escape and two letters
ANSI_SEQUENCES.update(dict.fromkeys(REPORTS, Keys.Ignore))


class Presence:
    """Whether the person is at the terminal. Nothing here has a clock: methods take the time."""

    def __init__(self, now: float) -> None:
        self.focused: bool | None = None
        """Whether the terminal has the focus; None: unknown."""
        self.on_return: Callable[[], None] = lambda: None
        """Called when the terminal gets the focus."""
        self._last_key = now

    def note_key(self, now: float) -> None:
        """A key was pressed: whatever was reported before, the terminal has the focus."""
        self._last_key = now
        if self.focused is False:
            self.focused = True

    def note_focus(self, focused: bool) -> None:
        """The terminal has reported its focus."""
        self.focused = focused
        if focused:
            self.on_return()

    def away_at(self, now: float) -> float | None:
        """When the person counts as away unless they press a key; None: they are here."""
        if self.focused is None:
            return max(now, self._last_key + AWAY)
        return None if self.focused else now
