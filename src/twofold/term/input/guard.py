"""Which keys answer a question: none that was meant for something else.

A question takes an answer after a silence (a second in which no key came, while it was on the
screen and nothing was typed ahead), or after a deliberate key. Whatever else comes is typed ahead.
An answer for always is asked for twice. What follows an answer without a silence belongs to it, and
sends nothing (`burst`).

Pure: every event comes with its time. A silence counts once it was reported by `elapse`: keys that
waited while the program was busy come before that, and so never seem to come late.
"""

from typing import Final, Literal, TypeAlias

SILENCE: Final = 1.0
"""How many seconds without a key make a silence."""
READ: Final = 0.35
"""For how many seconds a question is on the screen before a deliberate key counts."""
DELIBERATE: Final = frozenset({"c-i", "c-y"})
"""Keys that nobody presses in the middle of a sentence: Tab and Ctrl-Y."""

Verdict: TypeAlias = Literal["keep", "take", "answer"]
"""Keep: the key is typed ahead. Take: it was for the question, but is no answer yet."""


class Guard:
    """The keyboard, as long as something may be asked."""

    def __init__(self, silence: float = SILENCE) -> None:
        self._silence = silence
        self._last = float("-inf")
        self._shown: float | None = None
        self._quiet = False
        self._opened = False
        self.again: str | None = None
        """The key that has to come once more."""
        self.burst = False
        """What comes now follows an answer without a silence: it must not send anything."""

    # ---- events

    def show(self, now: float) -> None:
        """A question is on the screen from now on, or looks otherwise: it has to be read first."""
        self._shown = now
        self._start_anew()

    def clear(self) -> None:
        """No question is on the screen."""
        self._shown = None
        self._start_anew()

    def heard(self, now: float) -> None:
        """A key came, whoever it is for."""
        if now - self._last >= self._silence:
            self.burst = False
        self._last = now
        self._quiet = False

    def elapse(self, now: float) -> None:
        """Time has passed."""
        due = self.due
        if due is not None and now >= due:
            self._quiet = True

    def press(
        self, key: str, now: float, *, answers: bool, twice: bool, alone: bool, ahead: bool
    ) -> Verdict:
        """A key came, and `answers` says whether it stands for an answer, `twice` for one that is
        asked for again. `alone`: no other key came in the same moment. `ahead`: something was typed
        ahead before it.
        """
        quiet, opened, again = self._quiet, self._opened, self.again
        self.heard(now)
        self._opened, self.again = False, None
        if self._shown is None:
            return "keep"
        if key in DELIBERATE:
            self._opened = alone and now - self._shown >= READ
            return "take"
        if again is not None:
            return self._confirm(key, again, answers=answers, alone=alone, quiet=quiet)
        if not (answers and alone and (opened or (quiet and not ahead))):
            return "keep"
        if twice:
            self.again = key
            return "take"
        return self._answered()

    def _confirm(self, key: str, again: str, *, answers: bool, alone: bool, quiet: bool) -> Verdict:
        if alone and key == again:
            if quiet:
                return self._answered()
            self.again = again  # it was held down, or pressed twice without reading
            return "take"
        return "take" if answers and alone else "keep"

    def _answered(self) -> Verdict:
        self.clear()
        self.burst = True
        return "answer"

    def _start_anew(self) -> None:
        self._quiet = self._opened = False
        self.again = None

    # ---- what holds now

    @property
    def due(self) -> float | None:
        """When the silence will be long enough, unless a key comes."""
        if self._shown is None or self._quiet:
            return None
        return max(self._last, self._shown) + self._silence

    def is_open(self, *, ahead: bool) -> bool:
        """Whether an answer would count now; otherwise a deliberate key has to come first."""
        return self._opened or self.again is not None or (self._quiet and not ahead)
