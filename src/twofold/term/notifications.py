"""Calls the person who is not at the terminal: with its bell, or a notification of the desktop.

Two things call: a question, once, and the end of a turn that took long. A question that a rule
decides never gets here. A terminal that is alone with another program is left alone, and so is
someone who is there (see `input.focus`). What an agent sent is one line, short and safe, and the
agent cannot ring the bell as often as it likes.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from twofold.host.settings import NotificationSettings
from twofold.term.input.focus import Presence
from twofold.term.terminal_writer import TerminalWriter
from twofold.text import one_line

BELL: Final = "\a"
_PAUSE: Final = 3.0
"""How many seconds have to pass between two notifications: the first one called already."""
_LONGEST: Final = 100

Protocol: TypeAlias = Literal["osc 9", "osc 777"]
"""How a terminal takes a notification: OSC 9 is one text, OSC 777 a title and a text."""

_OSC_9: Final = frozenset({"iterm.app", "wezterm", "ghostty", "warpterminal"})


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How the terminal takes notifications, as far as the environment shows; None: not at all.

    Terminals that are not known get OSC 777, which those that lack it pass over.
    """
    term = environment.get("TERM", "")
    program = environment.get("TERM_PROGRAM", "").lower()
    # a multiplexer passes the bell on, and nothing else unless it is configured to
    if environment.get("TMUX") or environment.get("STY") or program in ("tmux", "screen"):
        return None
    if term in ("", "dumb", "linux") or term.startswith(("screen", "tmux")):
        return None
    if term in ("xterm-kitty", "xterm-ghostty") or program in _OSC_9:
        return "osc 9"
    if program or term.startswith(("rxvt", "foot")):  # variables of another one may be inherited
        return "osc 777"
    others = ("KITTY_WINDOW_ID", "WT_SESSION")
    is_iterm = environment.get("LC_TERMINAL") == "iTerm2"
    return "osc 9" if is_iterm or any(map(environment.get, others)) else "osc 777"


def escape_of(protocol: Protocol, title: str, text: str) -> str:
    """The escape sequence of a notification; both words may be anybody's."""
    title, text = _part(title), _part(text)
    if protocol == "osc 9":
        return f"\x1b]9;{title}: {text}\x1b\\"
    return f"\x1b]777;notify;{title};{text}\x1b\\"


def _part(words: str) -> str:
    """Words that are one parameter: a `;` would begin the next one."""
    shown = one_line(words[: 4 * _LONGEST]).replace(";", ",")
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


class Notifier:
    """Calls the person if they are away.

    Args:
        settings: Whether and how.
        writer: Where the sequences go.
        presence: Whether the person is there.
        environment: Shows what the terminal can do.
        title: What begins every notification.
    """

    def __init__(
        self,
        settings: NotificationSettings,
        writer: TerminalWriter,
        presence: Presence,
        environment: Mapping[str, str],
        title: str,
    ) -> None:
        self._after = settings.after
        self._bell = settings.bell
        self._protocol = protocol_of(environment) if settings.desktop else None
        self._writer = writer
        self._presence = presence
        self._title = title
        self._next = float("-inf")
        self._timers: set[asyncio.TimerHandle] = set()

    def note_question(self, asked: Callable[[], str | None]) -> None:
        """A question has begun to wait: call the person once, as long as it does.

        Args:
            asked: Returns the words of the question, or None once it waits no more.
        """
        now = asyncio.get_running_loop().time()
        at = self._presence.away_at(now)
        if at is None:
            return
        if at > now:  # without reports of the focus only time will show
            self._later(at, lambda: self.note_question(asked))
        elif (words := asked()) is not None:
            self._notify(f"A question waits: {words}")

    def note_end(self, words: str, seconds: float) -> None:
        """The work of the agent has ended after so many seconds."""
        now = asyncio.get_running_loop().time()
        at = self._presence.away_at(now)
        if seconds >= self._after and at is not None and at <= now:
            self._notify(words)

    def _later(self, at: float, call: Callable[[], None]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            call()

        timer = asyncio.get_running_loop().call_at(at, ring)
        self._timers.add(timer)

    def close(self) -> None:
        """Call nobody any more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _notify(self, words: str) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return
        self._next = now + _PAUSE
        desktop = escape_of(self._protocol, self._title, words) if self._protocol else ""
        self._writer.call(desktop + BELL * self._bell)
