"""Which keys answer a question: none that was meant for something else.

A question takes an answer after a silence (a second without any key while it was on the screen and
nothing was typed ahead), or after a deliberate key. Every other key is typed ahead. An answer for
always has to be given twice. Keys that follow an answer without a silence belong to that answer,
and send nothing (`burst`).

`Guard` is pure: every event has its time as an argument. A silence counts only once `elapse` has
reported it, so keys that waited while the program was busy never seem to come late. `TimedGuard`
runs a guard on the clock of the event loop.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

SILENCE: Final = 1.0
"""How many seconds without a key make a silence."""
READ: Final = 0.35
"""How many seconds a question is on the screen before a deliberate key counts."""
DELIBERATE: Final = frozenset({"c-i", "c-y"})
"""Keys that nobody presses in the middle of a sentence: Tab and Ctrl-Y."""

Verdict: TypeAlias = Literal["keep", "take", "answer"]
"""keep: the key is typed ahead. take: it was for the question, but does not answer it yet."""


class Guard:
    """Decides for each key whether it answers the question on the screen.

    Args:
        silence: How many seconds without a key make a silence.
        deliberate: The keys after which the next key answers.
    """

    def __init__(self, silence: float = SILENCE, deliberate: frozenset[str] = DELIBERATE) -> None:
        self._silence = silence
        self._deliberate = deliberate
        self._last = float("-inf")
        self._shown: float | None = None
        self._quiet = False
        self._opened = False
        self.again: str | None = None
        """The key that has to be pressed once more."""
        self.burst = False
        """Keys that arrive now follow an answer without a silence: they must not send anything."""

    # ---- events

    def show(self, now: float) -> None:
        """A question is on the screen from now on, or has changed and has to be read again."""
        self._shown = now
        self._start_anew()

    def clear(self) -> None:
        """No question is on the screen."""
        self._shown = None
        self._start_anew()

    def note_key(self, now: float) -> None:
        """A key was pressed, for the question or for anything else."""
        if now - self._last >= self._silence:
            self.burst = False
        self._last = now
        self._quiet = False

    def hold(self, now: float) -> None:
        """Keys were meant for something that ends now: until a silence they send nothing."""
        self.note_key(now)
        self.burst = True

    def elapse(self, now: float) -> None:
        """Time has passed."""
        due = self.due
        if due is not None and now >= due:
            self._quiet = True

    def press(
        self, key: str, now: float, *, answers: bool, twice: bool, alone: bool, ahead: bool
    ) -> Verdict:
        """Judge a key.

        Args:
            key: The name of the key.
            now: When it was pressed.
            answers: Whether the key stands for an answer.
            twice: Whether that answer has to be given twice.
            alone: Whether no other key arrived in the same moment.
            ahead: Whether something was typed ahead before it.
        """
        quiet, opened, again = self._quiet, self._opened, self.again
        self.note_key(now)
        self._opened, self.again = False, None
        if self._shown is None:
            return "keep"
        if key in self._deliberate:
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

    # ---- state

    @property
    def due(self) -> float | None:
        """When the silence will be complete, unless a key is pressed."""
        if self._shown is None or self._quiet:
            return None
        return max(self._last, self._shown) + self._silence

    def is_open(self, *, ahead: bool) -> bool:
        """True if an answer would count now; otherwise a deliberate key is needed first."""
        return self._opened or self.again is not None or (self._quiet and not ahead)


class TimedGuard:
    """A `Guard` on the clock of the event loop.

    Args:
        changed: Called when a silence may be complete.
        silence: See `Guard`.
        deliberate: See `Guard`.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        silence: float = SILENCE,
        deliberate: frozenset[str] = DELIBERATE,
    ) -> None:
        self._guard = Guard(silence, deliberate)
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self.clear = self._guard.clear
        self.is_open = self._guard.is_open

    @property
    def again(self) -> str | None:
        """The key that has to be pressed once more."""
        return self._guard.again

    @property
    def burst(self) -> bool:
        """True while keys still belong to the last answer."""
        return self._guard.burst

    def show(self) -> None:
        """A question is on the screen from now on, or has changed and has to be read again."""
        self._guard.show(_now())
        self._watch()

    def note_key(self) -> None:
        """A key was pressed for anything else."""
        self._guard.note_key(_now())
        self._watch()

    def hold(self) -> None:
        """Keys were meant for something that ends now: until a silence they send nothing."""
        self._guard.hold(_now())
        self._watch()

    def press(self, key: str, *, answers: bool, twice: bool, alone: bool, ahead: bool) -> Verdict:
        """Judge a key that is pressed now; see `Guard.press`."""
        verdict = self._guard.press(
            key, _now(), answers=answers, twice=twice, alone=alone, ahead=ahead
        )
        self._watch()
        return verdict

    def close(self) -> None:
        """Call `changed` no more."""
        self._guard.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        due = self._guard.due
        if due is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._elapse)

    def _elapse(self) -> None:
        self._timer = None
        self._guard.elapse(_now())
        self._watch()
        self._changed()


def _now() -> float:
    return asyncio.get_running_loop().time()
