"""Files that Twofold keeps for the user between two runs: entries that only the user can read.

The history of the prompt is one, and the list of sessions another. One entry is one line of JSON: a
list of texts. The last thousand entries are kept, and at most a few megabytes of them. Nothing here
raises: if a file cannot be read or written, it has no entries. Only regular files are used.
"""

import json
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from twofold.errors import LocalError

MOST_ENTRIES: Final = 1000
LARGEST: Final = 4 * 1024 * 1024
"""The largest size of the file in bytes; an entry larger than a quarter of it is not kept."""


def read_entries(path: Path) -> list[list[str]]:
    """The entries of the file, the oldest first; malformed lines are skipped."""
    return [entry for line in _lines(path) if (entry := _entry(line)) is not None]


def keep_entry(path: Path, entry: Sequence[str]) -> None:
    """Add an entry to the file, and drop the oldest ones if there are too many."""
    line = json.dumps(list(entry)).encode() + b"\n"
    if len(line) > LARGEST // 4:
        return
    with suppress(OSError, ValueError):
        lines = _lines(path)
        if lines and not lines[-1].endswith(b"\n"):  # the last entry was cut off
            line = b"\n" + line
        if len(lines) < MOST_ENTRIES and sum(map(len, lines)) + len(line) <= LARGEST:
            _append(path, line)
        else:
            _replace(path, _newest([*lines, line]))


def _lines(path: Path) -> list[bytes]:
    """The last lines of the file, up to the limits."""
    with suppress(OSError, ValueError), open(path, "rb", opener=_opened) as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            start = max(0, status.st_size - LARGEST)
            file.seek(start)
            lines = file.read(LARGEST + 1).splitlines(keepends=True)
            return lines[start > 0 :][-MOST_ENTRIES:]
    return []


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o600)  # opening a named pipe must not block


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
        if stat.S_IMODE(status.st_mode) != 0o600:  # another program made it
            os.fchmod(file.fileno(), 0o600)
        file.write(line)  # in one write: another client may append too


def _replace(path: Path, lines: list[bytes]) -> None:
    """Replace the file, so that it is complete at any moment."""
    path = path.resolve()
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(fd, "wb") as file:
            file.writelines(lines)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def state_file(name: str) -> Path | None:
    """A file of Twofold's state (XDG base directories); None without a home directory."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return folder / "twofold" / name


def default_journal() -> Path:
    """The file that keeps the sessions of hosts, unless another one is named.

    Raises:
        LocalError: There is no home directory.
    """
    folder = state_file("journal")
    if folder is None:
        raise LocalError("There is no home directory to keep sessions in: set XDG_STATE_HOME.")
    return folder / "sessions.db"
