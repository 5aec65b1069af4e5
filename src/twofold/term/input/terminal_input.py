"""The keys of the terminal, without what the terminal itself sends among them.

These are the reports of its focus, and its answers to what the client asks (see `background`).
"""

import asyncio
from typing import Final, TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from twofold.term.background import Answers
from twofold.term.input.focus import REPORTS, Presence


class TerminalInput(Vt100Input):
    """Reads keys; `answers` has what the terminal answered.

    Args:
        stdin: The terminal.
        presence: Notes every key and every report of the focus.
    """

    def __init__(self, stdin: TextIO, presence: Presence) -> None:
        super().__init__(stdin)
        self.answers: Final = Answers()
        self.stdin_reader = _KeyReader(self.answers, self.fileno(), stdin.encoding)
        self._presence = presence

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that were pressed."""
        return self._noted(super().read_keys())

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that waited for a continuation."""
        self.vt100_parser.feed(self.answers.flush())
        return self._noted(super().flush_keys())

    def _noted(self, presses: list[KeyPress]) -> list[KeyPress]:
        keys = []
        for press in presses:
            focused = REPORTS.get(press.data) if press.key == Keys.Ignore else None
            if focused is None:
                self._presence.note_key(asyncio.get_running_loop().time())
                keys.append(press)
            else:
                self._presence.note_focus(focused)
        return keys


class _KeyReader(PosixStdinReader):
    def __init__(self, answers: Answers, fd: int, encoding: str) -> None:
        super().__init__(fd, encoding=encoding)
        self._answers = answers

    def read(self, count: int = 1024) -> str:
        return self._answers.feed(super().read(count))
