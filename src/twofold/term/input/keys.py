"""Keys that are pressed while no prompt waits for them.

What nobody takes is typed ahead: it stands in the next prompt. The terminal is in raw mode as long
as this is open, so Ctrl-C is a key like any other.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

ESCAPE: Final = "escape"
_PATIENCE: Final = 0.1
"""For how many seconds an Escape may still be the beginning of another key."""
_LONGEST: Final = 100_000
"""How many characters can be typed ahead."""


class Typed:
    """`on_key(name)`: `a`, `c-c`, `escape`, … True if it was for someone."""

    def __init__(self, source: Input, on_key: Callable[[str], bool]) -> None:
        self._source = source
        self._on_key = on_key
        self._ahead: list[str] = []
        self._flush: asyncio.TimerHandle | None = None

    def ahead(self) -> str:
        """What was typed ahead, once; an Enter at its end sends nothing and is left out."""
        text, self._ahead = "".join(self._ahead), []
        return text[:_LONGEST].strip("\n")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the keys of the terminal, in a block."""
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

    def _take(self, presses: list[KeyPress]) -> None:
        for press in presses:
            name = press.key.value if isinstance(press.key, Keys) else press.key
            if not self._on_key(name):
                self._keep(press, name)

    def _keep(self, press: KeyPress, name: str) -> None:
        if press.key == Keys.BracketedPaste:
            self._ahead.append(press.data.replace("\r\n", "\n").replace("\r", "\n"))
        elif name in ("backspace", "c-h"):
            self._ahead = [text for text in ["".join(self._ahead)[:-1]] if text]
        elif name in ("c-m", "c-j"):
            self._ahead.append("\n")
        elif len(name) == 1 and name.isprintable():
            self._ahead.append(name)
