"""The files that the page may show: regular ones inside a session's directories, and no others.

A path is walked step by step from the directory, without following any symbolic link, so that what
was checked is what is read, even if the agent changes the directories meanwhile. Devices, pipes
and sockets are never opened for reading. Nothing is ever written.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from twofold.errors import LocalError
from twofold.styled import Parts
from twofold.styled.code import Highlighter, allowance
from twofold.text.safe import one_line, sanitize

LARGEST: Final = 1 << 20
"""Bytes of a file that are read; of a larger one only the beginning."""
AROUND: Final = 400
"""Lines before the one that is asked for, and after it."""
LONGEST_LINE: Final = 2_000
LONGEST_TEXT: Final = 200_000
"""Characters of all lines that are shown."""
LONGEST_PATH: Final = 4_096
COLOURING: Final = 0.25
"""Seconds of work for the colours."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotShown(LocalError):
    """A file is not one that the page may show, or cannot be read."""


class Found(NamedTuple):
    """The beginning of a file."""

    name: str
    """Its path as it is shown: relative to the directory of the session that it is in."""
    data: bytes
    size: int
    """How many bytes it has in all."""


def read_file(roots: Sequence[str], path: str) -> Found:
    """Read a file of a session.

    Args:
        roots: The directories of the session; a relative path is in the first of them.
        path: Where it is.

    Raises:
        NotShown: It is not inside of them, no regular file, or cannot be read.
    """
    root, steps = _inside(roots, path)
    try:
        with ExitStack() as stack:
            folder = os.open(os.path.realpath(root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            for step in steps[:-1]:
                folder = os.open(step, _DIRECTORY, dir_fd=folder)
                stack.callback(os.close, folder)
            # looked at before it is opened, because opening a device can have an effect
            _only_regular(os.stat(steps[-1], dir_fd=folder, follow_symlinks=False))
            fd = os.open(steps[-1], _FILE, dir_fd=folder)
            with open(fd, "rb") as file:
                found = os.fstat(fd)
                _only_regular(found)
                return Found("/".join(steps), file.read(LARGEST), found.st_size)
    except FileNotFoundError:
        raise NotShown("There is no such file.") from None
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise NotShown(f"The file cannot be read: {reason}.") from None


def _inside(roots: Sequence[str], path: str) -> tuple[str, tuple[str, ...]]:
    """The directory that a path is in, and the steps from there."""
    if not path or "\0" in path or len(path) > LONGEST_PATH:
        raise NotShown("This is no path.")
    if ".." in path.split("/"):
        raise NotShown("A path with `..` in it is not followed.")
    asked = PurePosixPath(path)
    for root in roots:
        for base in dict.fromkeys((root, os.path.realpath(root))):
            if not asked.is_absolute():
                return root, _steps(asked)
            if asked.is_relative_to(base):
                return root, _steps(asked.relative_to(base))
    raise NotShown("Only files inside the directories of the session are shown.")


def _steps(path: PurePosixPath) -> tuple[str, ...]:
    if not path.parts:
        raise NotShown("This is a directory, not a file.")
    return path.parts


def _only_regular(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise NotShown("This is a symbolic link, which is not followed.")
    if stat.S_ISDIR(found.st_mode):
        raise NotShown("This is a directory, not a file.")
    if not stat.S_ISREG(found.st_mode):
        raise NotShown("This is not a regular file.")


# ---- what is shown -----------------------------------------------------------------------------


def shown_file(roots: Sequence[str], path: str, line: int | None) -> dict[str, Any]:
    """A part of a file as the page shows it.

    Args:
        roots: The directories of the session.
        path: Where the file is.
        line: The line to show, the first of which is 1; None for the beginning.

    Returns:
        `path` and `name`, `first`: the number of the first of `lines`, each of which is its pieces
        `[text, style]`; `total` lines, and `more`: whether there is more of the file than that.

    Raises:
        NotShown: It is no text, or as `read_file`.
    """
    found = read_file(roots, path)
    if b"\0" in found.data[:8192]:
        raise NotShown("The file is no text.")
    lines = found.data.decode(errors="replace").split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    wanted = min(max(line or 1, 1), len(lines))
    begin = max(0, wanted - 1 - AROUND)
    shown = list(_cut(lines[begin : wanted + AROUND], wanted - 1 - begin))
    with allowance(COLOURING):
        rows: list[Parts] = Highlighter.for_path(found.name).add(shown)
    return {
        "path": one_line(path),
        "name": one_line(found.name),
        "line": wanted if line else None,
        "first": begin + 1,
        "lines": rows,
        "total": len(lines),
        "more": found.size > len(found.data),
    }


def _cut(lines: Sequence[str], wanted: int) -> Iterator[str]:
    """The lines, safe to show; the wanted one and those before it are shown in any case."""
    room = LONGEST_TEXT
    for place, line in enumerate(lines):
        text = sanitize(line.removesuffix("\r"))
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}… {len(text) - LONGEST_LINE:,} more characters"
        room -= len(text)
        if room < 0 and place > wanted:
            return
        yield text
