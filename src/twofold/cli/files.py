"""Files that an option names, and standard output: what is written while a command runs.

A disk may be full and a reader gone: then a command ends with one line that says so, and a status
other than 0.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

import click


@contextmanager
def opened(path: Path | None, mode: Literal["ab", "wb"], option: str) -> Iterator[IO[bytes] | None]:
    """The file at `path`, if one was named; one that cannot be written is a wrong option.

    A new file is its owner's alone: conversations hold secrets.
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


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def standard_output() -> Iterator[IO[bytes]]:
    """Standard output, written to the end; what cannot be is a `click.ClickException`."""
    if sys.stdout is None:
        raise click.ClickException("Standard output is closed: there is nowhere to print to.")
    try:
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.flush()
    except OSError as error:
        _leave()
        if isinstance(error, BrokenPipeError):  # who reads has enough
            sys.exit(1)
        reason = f"Standard output could not be written to the end: {error.strerror}."
        raise click.ClickException(reason) from None


def _leave() -> None:
    """Let Python find nothing to write at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
