"""Keys that are pressed while no prompt waits for them.

What nobody takes is typed ahead: it is shown (`typed_rows`), and stands in the next prompt. The
terminal is in raw mode as long as this is open, so Ctrl-C is a key like any other.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from rich.cells import cell_len

from twofold.term.lines import Row, cut
from twofold.text import sanitize

ESCAPE: Final = "escape"
_PATIENCE: Final = 0.1
"""For how many seconds an Escape may still be the beginning of another key."""
_LONGEST: Final = 100_000
"""How many characters can be typed ahead."""
_ROWS: Final = 3
"""How many lines of what was typed ahead are shown."""

if sys.platform == "win32":

    def _modes(source: Input) -> list[Any] | None:
        return None

    def _set_modes(source: Input, modes: list[Any] | None) -> None:
        """There are none."""

else:
    import termios

    def _modes(source: Input) -> list[Any] | None:
        """The modes of the terminal, if it is one."""
        try:
            return termios.tcgetattr(source.fileno())
        except (OSError, termios.error):
            return None

    def _set_modes(source: Input, modes: list[Any] | None) -> None:
        if modes is not None:
            with suppress(termios.error):
                termios.tcsetattr(source.fileno(), termios.TCSADRAIN, modes)


class Typed:
    """`on_key(name)`: `a`, `c-c`, `escape`, … True if it was for someone."""

    def __init__(self, source: Input, on_key: Callable[[str], bool]) -> None:
        self._source = source
        self._on_key = on_key
        self._ahead: list[str] = []
        self._size = 0
        self._flush: asyncio.TimerHandle | None = None
        self._modes: list[Any] | None = None
        self.alone = True
        """The key that is passed on is the only one that came in this moment."""
        self.changed: Callable[[], None] = lambda: None
        """Called when more or less is typed ahead."""

    @property
    def text(self) -> str:
        """What is typed ahead so far; an Enter at its end sends nothing and is left out."""
        return "".join(self._ahead).strip("\n")

    def ahead(self) -> str:
        """The same, once."""
        text, self._ahead, self._size = self.text, [], 0
        return text

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the keys of the terminal, in a block."""
        self._modes = _modes(self._source)
        with self._source.raw_mode(), self._source.attach(self._ready):
            try:
                # what came together with the Enter that ended a prompt, when its turn has begun
                asyncio.get_running_loop().call_soon(self._take, get_typeahead(self._source))
                yield
            finally:
                if self._flush is not None:
                    self._flush.cancel()
                self._take(self._source.flush_keys())

    def _ready(self) -> None:
        self._take(self._source.read_keys())
        if self._flush is not None:
            self._flush.cancel()
        loop = asyncio.get_running_loop()
        self._flush = loop.call_later(_PATIENCE, lambda: self._take(self._source.flush_keys()))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to somebody else, in a block; as it was before `listening`."""
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
            if not self._on_key(name):
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


def typed_rows(text: str, width: int) -> list[Row]:
    """The end of what was typed ahead, as it will stand in the prompt; no rows for no text."""
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
