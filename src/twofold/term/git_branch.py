"""The Git branch of a directory, read from `.git/HEAD` without running Git.

The file comes with a repository that may be anybody's: it is read only if it is a regular file,
only its beginning, and what it holds is made safe to show. `Branch` reads it in a thread, because
a disk may be slow; what is drawn is what was read last.
"""

import asyncio
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from twofold.text import one_line

_LARGEST: Final = 4096
"""How many bytes are read of a file."""
_LONGEST: Final = 60
_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHORT: Final = 7
_REFTABLE: Final = ".invalid"
"""What HEAD names where the branch is kept in another format."""


def branch_of(directory: Path) -> str:
    """The branch of the work tree that the directory is in, safe to show; often none.

    A detached head is the beginning of its hash.
    """
    for folder in (directory, *directory.parents):
        head = _head(folder / ".git")
        if head is not None:
            return _branch(head)
    return ""


def _head(git: Path) -> str | None:
    """What HEAD holds; None if `git` is not the place of a repository."""
    if git.is_dir():
        return _first_line(git / "HEAD")
    link = _first_line(git)  # of a work tree beside the main one, or of a submodule
    if link is None or not link.startswith("gitdir:"):
        return None
    return _first_line(git.parent / link.removeprefix("gitdir:").strip() / "HEAD")


def _first_line(path: Path) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        data = os.read(file, _LARGEST)
    except OSError:
        return None
    finally:
        os.close(file)
    return data.decode(errors="replace").partition("\n")[0].strip()


def _branch(head: str) -> str:
    if head.startswith("ref:"):
        name = one_line(head.removeprefix("ref:").strip().removeprefix("refs/heads/"))
        return "" if name == _REFTABLE else name[:_LONGEST]
    return head[:_SHORT] if _HASH.fullmatch(head) else ""


class Branch:
    """The branch of a directory, as it was read last.

    Args:
        directory: The directory.
        on_change: Called when `name` has changed.
    """

    def __init__(self, directory: Path, on_change: Callable[[], None]) -> None:
        self.name = ""
        """The branch, safe to show; empty if there is none, or if it was not read yet."""
        self._directory = directory
        self._on_change = on_change
        self._reading: asyncio.Task[None] | None = None
        self._again = False
        self._closed = False

    def refresh(self) -> None:
        """Read it again, in the background."""
        self._again = True
        if self._reading is None and not self._closed:
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while self._again:
                self._again = False
                name = await asyncio.to_thread(branch_of, self._directory)
                if name != self.name:
                    self.name = name
                    self._on_change()
        finally:
            self._reading = None

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
