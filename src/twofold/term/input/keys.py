"""Keys that are pressed while no prompt reads them.

A key that no handler takes is typed ahead: it is shown (`typed_rows`), and the next prompt begins
with it. While keys are read here the terminal is in raw mode, so Ctrl-C is a key like any other.
"""

import asyncio
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from rich.cells import cell_len

from twofold.term.lines import Row, cut
from twofold.text import sanitize

OnKey: TypeAlias = Callable[[str], bool]
"""Called with the name of a key (`a`, `c-c`, `escape`, …); returns True if it takes the key."""

ESCAPE: Final = "escape"
TAB: Final = "c-i"
_PATIENCE: Final = 0.1
"""How many seconds an Escape may still be the beginning of another key."""
_LONGEST: Final = 100_000
"""How many characters can be typed ahead."""
_ROWS: Final = 3
"""How many lines of what is typed ahead are shown."""


class Keyboard:
    """The keys of a terminal, and what is typed ahead.

    Args:
        source: The terminal.
        on_key: Takes keys, or leaves them to be typed ahead.
    """

    def __init__(self, source: Input, on_key: OnKey) -> None:
        self._source = source
        self._on_key = on_key
        self._first: OnKey | None = None
        self._ahead: list[str] = []
        self._size = 0
        self._flush: asyncio.TimerHandle | None = None
        self._modes: list[Any] | None = None
        """The modes of the terminal from before it was made raw."""
        self.alone = True
        """No other key arrived together with the one that is being handled."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the text that is typed ahead has changed."""

    @property
    def text(self) -> str:
        """What is typed ahead; an Enter at its end sends nothing and is left out."""
        return "".join(self._ahead).strip("\n")

    def take_ahead(self) -> str:
        """Return what is typed ahead, and forget it."""
        text, self._ahead, self._size = self.text, [], 0
        return text

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Keep the terminal in raw mode for a block, also while nothing reads its keys.

        In any other mode the terminal turns a Ctrl-C into a SIGINT, which ends the client.
        """
        before = self._modes
        self._modes = before or _modes(self._source)
        try:
            with self._source.raw_mode():
                yield
        finally:
            self._modes = before

    @contextmanager
    def listening(self, first: OnKey | None = None) -> Iterator[None]:
        """Read the keys for a block; `first` is called for each key before `on_key`."""
        with self.raw(), self._source.attach(self._ready):
            self._first = first
            try:
                # keys that arrived together with the Enter that ended a prompt
                asyncio.get_running_loop().call_soon(self._take, get_typeahead(self._source))
                yield
            finally:
                if self._flush is not None:
                    self._flush.cancel()
                self._take(self._source.flush_keys())
                self._first = None

    def _ready(self) -> None:
        self._take(self._source.read_keys())
        if self._flush is not None:
            self._flush.cancel()
        loop = asyncio.get_running_loop()
        self._flush = loop.call_later(_PATIENCE, lambda: self._take(self._source.flush_keys()))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to another process for a block, in the modes it had before `raw`."""
        ours = _modes(self._source)
        with self._source.detach():
            _set_modes(self._source, self._modes)
            try:
                yield
            finally:
                _set_modes(self._source, ours)

    def _take(self, presses: list[KeyPress]) -> None:
        self.alone = len(presses) == 1
        for press in presses:
            name = press.key.value if isinstance(press.key, Keys) else press.key
            taken = self._first is not None and self._first(name)
            if not taken and not self._on_key(name):
                self._keep(press, name)

    def _keep(self, press: KeyPress, name: str) -> None:
        if press.key == Keys.BracketedPaste:
            self._add(press.data.replace("\r\n", "\n").replace("\r", "\n"))
        elif name in ("backspace", "c-h"):
            self._delete()
        elif name in ("c-m", "c-j"):
            self._add("\n")
        elif len(name) == 1 and name.isprintable():
            self._add(name)

    def _add(self, text: str) -> None:
        text = text[: _LONGEST - self._size]
        if text:
            self._ahead.append(text)
            self._size += len(text)
            self.changed()

    def _delete(self) -> None:
        if self._ahead:
            last = self._ahead.pop()[:-1]
            self._size -= 1
            if last:
                self._ahead.append(last)
            self.changed()


def _modes(source: Input) -> list[Any] | None:
    """The modes of the terminal; None if it is not a terminal."""
    try:
        return termios.tcgetattr(source.fileno())
    except (OSError, termios.error):
        return None


def _set_modes(source: Input, modes: list[Any] | None) -> None:
    if modes is not None:
        with suppress(termios.error):
            termios.tcsetattr(source.fileno(), termios.TCSADRAIN, modes)


# ---- drawing -----------------------------------------------------------------------------------


def typed_rows(text: str, width: int) -> list[Row]:
    """The end of what is typed ahead, as the prompt will show it; no rows for no text."""
    if not text:
        return []
    lines = sanitize(text[-_ROWS * max(width, 1) * 4 :]).replace("\t", " ").split("\n")[-_ROWS:]
    begins = len(lines) == text.count("\n") + 1
    made: list[Row] = []
    for number, line in enumerate(lines):
        mark = "> " if begins and not number else "  "
        shown = _end(line, width - len(mark))
        made.append(cut(((mark, "dim"), (shown, "")), width))
    return made


def _end(line: str, room: int) -> str:
    """As much of the end of a line as fits."""
    if cell_len(line) <= room:
        return line
    kept = line[-max(room, 1) :]
    while kept and cell_len(kept) >= room:
        kept = kept[1:]
    return f"…{kept}"
