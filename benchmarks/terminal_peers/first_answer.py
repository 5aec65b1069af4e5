"""How long a program takes to start: until it takes text, and until it shows the first answer.

`at_prompt` starts an interactive program in a terminal of its own, which answers the questions that
programs ask of terminals. It types a letter every few milliseconds until one is drawn, then Enter
until the answer is drawn, because a program may take no Enter before its agent is there. `one_shot`
starts a program with pipes that sends one prompt.
"""

import errno
import os
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from benchmarks.terminal_peers.in_terminal import COLUMNS, ROWS

LETTER: Final = "ж"
"""A letter that no program draws of its own accord."""
LIMIT: Final = 60.0
"""After how many seconds without what is waited for a program counts as failed."""
_EVERY: Final = 0.02
_PIECE: Final = 1 << 16
_ANSWERS: Final = {
    b"\x1b[c": b"\x1b[?62;22c",  # what it is
    b"\x1b[6n": b"\x1b[1;1R",  # the position of the cursor
    b"\x1b[?u": b"\x1b[?0u",  # the keyboard protocol
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",  # the colors
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",  # whether frames can be drawn at once
    b"\x1b[?2048$p": b"\x1b[?2048;0$y",  # whether a change of the size is reported
}


class Failed(Exception):
    """A program did not start, or did not answer."""


class Started(NamedTuple):
    """Seconds since the start of the process."""

    ready: float
    """Until it drew a letter that was typed, or printed the first word of the answer."""
    done: float
    """Until the answer was drawn, or the process had ended."""


def at_prompt(command: Sequence[str], answer: str, env: Mapping[str, str], cwd: str) -> Started:
    """Start an interactive program and send one prompt; `Failed` if it does not get there."""
    master, slave = os.openpty()
    mode = termios.tcgetattr(slave)
    mode[3] &= ~termios.ECHO  # or the terminal itself would draw what is typed too early
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    termios.tcsetwinsize(master, (ROWS, COLUMNS))
    env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True
    )
    os.close(slave)
    try:
        terminal = _Terminal(master, began)
        ready = terminal.wait_for(LETTER, typing=LETTER)
        return Started(ready, terminal.wait_for(answer, typing="\r"))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(master)


class _Terminal:
    def __init__(self, master: int, began: float) -> None:
        self._master = master
        self._began = began
        self._output = b""

    def wait_for(self, words: str, typing: str) -> float:
        """Type until the program has written these words: when that was, since its start."""
        wanted = words.encode()
        self._output = b""
        typed = 0.0
        while wanted not in self._output:
            now = time.perf_counter()
            if now - self._began > LIMIT:
                raise Failed(f"it showed no {words!r} in {LIMIT:g} s")
            if now - typed >= _EVERY:
                self._write(typing.encode())
                typed = now
            self._read(typed + _EVERY - now)
        return time.perf_counter() - self._began

    def _write(self, data: bytes) -> None:
        os.write(self._master, data)

    def _read(self, seconds: float) -> None:
        if not select.select([self._master], [], [], max(seconds, 0))[0]:
            return
        try:
            output = os.read(self._master, _PIECE)
        except OSError as error:
            if error.errno != errno.EIO:  # on Linux, when the program has closed the terminal
                raise
            raise Failed(f"it ended with: {self._output[-300:]!r}") from None
        for question, answer in _ANSWERS.items():
            self._write(answer * output.count(question))
        self._output += output


def one_shot(command: Sequence[str], word: str, env: Mapping[str, str], cwd: str) -> Started:
    """Start a program that sends one prompt and ends; `Failed` if it prints no such word."""
    began = time.perf_counter()
    ready = None
    output = b""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(env),
        cwd=cwd,
    ) as process:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), _PIECE):
            output += piece
            if ready is None and word.encode() in output:
                ready = time.perf_counter() - began
        status = process.wait(LIMIT)
    if ready is None or status:
        raise Failed(f"it ended with {status}: {output[-300:].decode(errors='replace').strip()}")
    return Started(ready, time.perf_counter() - began)
