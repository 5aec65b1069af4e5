"""Where a command writes: the standard streams, and the files that options name.

A disk may be full, and the reader of a pipe may leave. Neither shows a traceback: a full disk is
reported in one line and changes the exit status, and a stream that nobody reads is left alone.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal, TextIO

import click

from twofold.text.safe import harmless_json, sanitize


class Stream:
    """A standard stream, which may be closed or fail."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.is_terminal = stream is not None and stream.isatty()
        self.fault: OSError | None = None
        """Why writing failed; None also when the reader left."""

    def same_as(self, other: "Stream") -> bool:
        """True if both write to the same file or terminal."""
        if self._stream is None or other._stream is None:
            return False
        try:
            return os.path.sameopenfile(self._stream.fileno(), other._stream.fileno())
        except (OSError, ValueError):  # a stream without a file descriptor
            return False

    def text(self, text: str) -> None:
        """Write text in the stream's encoding."""
        if self._stream is not None:
            self.data(text.encode(self._stream.encoding or "utf-8", errors="replace"))

    def data(self, data: bytes) -> None:
        """Write bytes. A slow reader makes this wait, and the agent with it."""
        if self._stream is None:
            return
        try:
            self._stream.buffer.write(data)
            self._stream.buffer.flush()
        except OSError as error:
            stream, self._stream = self._stream, None
            _discard(stream)
            if not isinstance(error, BrokenPipeError):
                self.fault = error


class Output:
    """Standard output and standard error, which may be the same terminal or log."""

    def __init__(self) -> None:
        self.out, self._err = Stream(sys.stdout), Stream(sys.stderr)
        self._shared = self.out.same_as(self._err)
        self._in_line = False

    def text(self, text: str) -> None:
        """Print the agent's text, which the caller has sanitized."""
        if text:
            self.out.text(text)
            self._in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Start a new line on standard output, unless it is at the start of one."""
        if self._in_line:
            self.text("\n")

    def json(self, line: bytes) -> None:
        """Print a line of JSON; on a terminal with control characters escaped."""
        self.out.data(harmless_json(line) if self.out.is_terminal else line)

    def report(self, text: str) -> None:
        """Print one or more lines on standard error."""
        if self._shared:
            self.end_line()
        self._err.text(sanitize(text) + "\n")


@contextmanager
def standard_output() -> Iterator[IO[bytes]]:
    """Standard output, flushed at the end of the block.

    Raises:
        click.ClickException: It is closed, or not all of it could be written.
    """
    if sys.stdout is None:
        raise click.ClickException("Standard output is closed: there is nowhere to print to.")
    try:
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            sys.exit(1)
        raise click.ClickException(not_written("Standard output", error)) from None


@contextmanager
def opened(path: Path | None, mode: Literal["ab", "wb"], option: str) -> Iterator[IO[bytes] | None]:
    """Open the file that `option` names, if it names one.

    Only its owner can read a new file: conversations hold secrets.

    Raises:
        click.BadParameter: The file cannot be opened for writing.
    """
    if path is None:
        yield None
        return
    try:
        file = open(path, mode, buffering=0, opener=_private)  # noqa: SIM115
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror}."
        raise click.BadParameter(reason, param_hint=f"'{option}'") from None
    with file:
        yield file


def not_written(name: str, error: OSError) -> str:
    """The message for a stream or file that ends too early."""
    return f"{name} could not be written to the end: {error.strerror}."


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _discard(stream: TextIO) -> None:
    """Send what is still buffered to nowhere, so that Python reports no error at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
