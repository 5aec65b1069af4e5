"""Files that an option names, to be written while a command runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import click


@contextmanager
def opened(path: Path | None, mode: Literal["ab", "wb"], option: str) -> Iterator[IO[bytes] | None]:
    """The file at `path`, if one was named; one that cannot be written is a wrong option."""
    if path is None:
        yield None
        return
    try:
        file = path.open(mode, buffering=0)
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror}."
        raise click.BadParameter(reason, param_hint=f"'{option}'") from None
    with file:
        yield file
