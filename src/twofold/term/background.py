"""The background of the terminal, which decides between a dark and a light theme.

`QUERY` asks for its colour (OSC 11) and then for the kind of terminal (DA1). Terminals answer in
this order, and nearly all of them answer the second question: its answer ends the wait for the
first. The answers arrive among the keys. `Answers` is pure, and takes them out, however they are
split; so they never reach an input line, even if they are late.
"""

import os
import re
import select
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final, NamedTuple

from twofold.host.settings import Theme as ThemeChoice
from twofold.term.themes import DARK, LIGHT, THEMES, Theme

QUERY: Final = "\x1b]11;?\x1b\\\x1b[c"
PATIENCE: Final = 0.2
"""How many seconds the first row waits for an answer, at most."""
LATEST: Final = 1.0
"""After so many seconds the terminal may be left: an answer would be typed into the shell."""

_SIGNS: Final = "[0-9A-Fa-frgb:/#]"
_ANSWER: Final = re.compile(
    rf"\x1b\]11;(?P<colour>{_SIGNS}*)(?:\x07|\x1b\\|\x9c|\udc9c)"  # the last: a byte, no UTF-8
    r"|\x1b\[\?[0-9;]*c"
)
_BEGUN: Final = re.compile(
    rf"\x1b(?:\](?:1(?:1(?:;{_SIGNS}{{0,99}}\x1b?)?)?)?|\[(?:\?[0-9;]{{0,99}})?)?"
)
_UNENDED: Final = re.compile(rf"\x1b\]11;{_SIGNS}*")


class Rgb(NamedTuple):
    """A colour; each part from 0 to 1."""

    red: float
    green: float
    blue: float

    @property
    def luminance(self) -> float:
        """The relative luminance of WCAG 2, from 0 for black to 1 for white."""
        red, green, blue = map(_linear, self)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def contrast(one: Rgb, other: Rgb) -> float:
    """The contrast of two colours by WCAG 2, from 1 to 21."""
    dark, bright = sorted((one.luminance, other.luminance))
    return (bright + 0.05) / (dark + 0.05)


_BLACK: Final = Rgb(0, 0, 0)
_WHITE: Final = Rgb(1, 1, 1)


def parse_colour(text: str) -> Rgb | None:
    """A colour as X11 writes it: `rgb:1e1e/1e1e/1e1e`, `rgba:…`, `#1e1e1e`; None: it is none."""
    digits = "([0-9a-f]{1,4})"
    if found := re.fullmatch(rf"rgba?:{digits}/{digits}/{digits}(?:/{digits})?", text.lower()):
        parts = list(found.groups()[:3])
    elif re.fullmatch(r"#(?:[0-9a-f]{3}){1,4}", text.lower()):
        size = len(text) // 3
        parts = [text[at : at + size] for at in range(1, len(text), size)]
    else:
        return None
    return Rgb(*[int(part, 16) / (16 ** len(part) - 1) for part in parts])


def choose_theme(
    wanted: ThemeChoice, background: Rgb | None, environment: Mapping[str, str]
) -> Theme:
    """The theme that is wanted, or that suits the background; dark if nothing is known of it."""
    if wanted != "auto":
        return THEMES[wanted]
    if background is not None:
        is_light = contrast(background, _BLACK) > contrast(background, _WHITE)
    else:
        # "0;15" or "0;default;15": of the 16 colours the background is the last
        is_light = environment.get("COLORFGBG", "").split(";")[-1] in _LIGHT_NUMBERS
    return LIGHT if is_light else DARK


_LIGHT_NUMBERS: Final = frozenset({"7", *map(str, range(9, 16))})


def can_ask(environment: Mapping[str, str]) -> bool:
    """Whether the terminal may be asked; the console of Linux is dark and prints the question."""
    return environment.get("TERM", "dumb") not in ("", "dumb", "linux")


class Answers:
    """Takes the answers out of what a terminal sends; everything else is returned unchanged."""

    def __init__(self) -> None:
        self.colour: Rgb | None = None
        """The colour of the background, once it was answered."""
        self.complete = False
        """Nothing more will be answered."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after an answer."""
        self._held = ""
        self._escaped = False
        """What is held has lost its Escape, which was passed on as a key."""

    def feed(self, text: str) -> str:
        """Return the keys in a text; what may be the beginning of an answer is held back."""
        if self.complete:
            return text
        if self._escaped and not self._held:
            text = f"\x1b{text}" if text else ""
        text, self._held = self._held + text, ""
        keys: list[str] = []
        at = 0
        while (escape := text.find("\x1b", at)) >= 0:
            keys.append(text[at:escape])
            if answer := _ANSWER.match(text, escape):
                at = answer.end()
                self._take(answer["colour"])
                if answer["colour"] is None:
                    break
            elif _BEGUN.fullmatch(text, escape):
                self._held, at = text[escape:], len(text)
            elif unended := _UNENDED.match(text, escape):
                at = unended.end()
            else:
                keys.append("" if self._escaped else "\x1b")
                at = escape + 1
            self._escaped = self._escaped and bool(self._held)
        keys.append(text[at:])
        return "".join(keys)

    def flush(self) -> str:
        """Return an Escape that nothing followed: it was a key.

        Should the rest of an answer follow nevertheless, it is still taken out.
        """
        if self._held != "\x1b" or self._escaped:
            return ""
        self._held, self._escaped = "", True
        return "\x1b"

    def _take(self, colour: str | None) -> None:
        if colour is None:
            self.complete = True
        else:
            self.colour = parse_colour(colour) or self.colour
        self.on_change()


# ---- for a command that prints and ends ---------------------------------------------------------


def ask_background(patience: float = LATEST) -> Rgb | None:
    """Ask the terminal of this process for its background, and wait for the answer.

    Returns:
        None without an answer, without a terminal, or in the background of a shell.
    """
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(fd) == os.getpgrp():  # else it would be stopped
                return _ask(fd, patience)
        return None
    finally:
        os.close(fd)


def _ask(fd: int, patience: float) -> Rgb | None:
    answers = Answers()
    until = monotonic() + patience
    with _unechoed(fd):
        os.write(fd, QUERY.encode())
        while not answers.complete and (left := until - monotonic()) > 0:
            if select.select([fd], [], [], left)[0]:
                answers.feed(os.read(fd, 1024).decode(errors="surrogateescape"))
    return answers.colour


@contextmanager
def _unechoed(fd: int) -> Iterator[None]:
    """Have the terminal neither echo an answer nor wait for the end of its line."""
    before = termios.tcgetattr(fd)
    ours = list(before)
    ours[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(fd, termios.TCSANOW, ours)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
