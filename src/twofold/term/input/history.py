"""What was sent before, kept in a file that only its owner can read.

One entry is one line of JSON: a list of texts, typed and pasted by turns. The last thousand are
kept, and no more than a few megabytes of them. Nothing here raises: without a file, or with one
that cannot be read or written, there is just nothing kept. Only regular files are used.
"""

import json
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_ENTRIES: Final = 1000
LARGEST: Final = 4 * 1024 * 1024
"""The size that the file may have, in bytes; an entry of a quarter of it is too large to keep."""


def read_entries(path: Path) -> list[list[str]]:
    """The entries of the file, the oldest first; lines that are no entry are passed over."""
    return [entry for line in _lines(path) if (entry := _entry(line)) is not None]


def keep_entry(path: Path, entry: Sequence[str]) -> None:
    """Add an entry to the file, and drop what is too old or too much."""
    line = json.dumps(list(entry)).encode() + b"\n"
    if len(line) > LARGEST // 4:
        return
    with suppress(OSError, ValueError):
        lines = _lines(path)
        if lines and not lines[-1].endswith(b"\n"):  # it was cut off
            line = b"\n" + line
        if len(lines) < MOST_ENTRIES and sum(map(len, lines)) + len(line) <= LARGEST:
            _append(path, line)
        else:
            _replace(path, _newest([*lines, line]))


def _lines(path: Path) -> list[bytes]:
    """The last lines of the file, as many as are kept."""
    with suppress(OSError, ValueError), open(path, "rb", opener=_opened) as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            start = max(0, status.st_size - LARGEST)
            file.seek(start)
            lines = file.read(LARGEST + 1).splitlines(keepends=True)
            return lines[start > 0 :][-MOST_ENTRIES:]
    return []


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o600)  # a pipe would make us wait


def _entry(line: bytes) -> list[str] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(entry, list) and entry and all(isinstance(piece, str) for piece in entry):
        return entry
    return None


def _newest(lines: list[bytes]) -> list[bytes]:
    kept: list[bytes] = []
    room = LARGEST
    for line in reversed(lines[-MOST_ENTRIES:]):
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", buffering=0, opener=_opened) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return
        if stat.S_IMODE(status.st_mode) != 0o600:  # made by somebody less careful
            os.fchmod(file.fileno(), 0o600)
        file.write(line)  # in one go: another client may add its own


def _replace(path: Path, lines: list[bytes]) -> None:
    """Write the file anew, so that it is there in full at any moment."""
    path = path.resolve()
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(fd, "wb") as file:
            file.writelines(lines)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
