"""The paths below the directory of a session, for completion: listed in the background, and kept.

In a Git work tree Git lists them, so what it ignores is left out; elsewhere the tree is walked.
Both are bounded in number and time. A list is used until a newer one is there.
"""

import asyncio
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from twofold.host.directory_walk import walk

MOST_PATHS: Final = 100_000
"""How many files are listed."""
AGE: Final = 3.0
"""After how many seconds a list is made anew, if it is used; a slow one is kept longer."""
_SLOWNESS: Final = 10
"""A list is kept so many times as long as it took to make."""
_PATIENCE: Final = 10.0
"""How many seconds Git may take."""
_LARGEST: Final = 16 * 1024 * 1024
"""How many bytes of Git's list are read."""
_PIECE: Final = 1 << 16
_POLL: Final = 0.1
"""After how many seconds without output it is checked whether Git may go on."""
# a repository may name a program as its file system monitor, which must not be run
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached")


class Listing(NamedTuple):
    """Paths relative to the directory, those of directories with a slash at their end."""

    paths: list[str]
    folded: list[str]
    """The same paths, casefolded."""
    known: frozenset[str]


def listing_of(files: Iterable[str]) -> Listing:
    """The listing of files and of all directories that they are in."""
    directories: dict[str, None] = {}
    kept: dict[str, None] = {}
    for path in files:
        if not path:
            continue
        kept[path] = None
        end = path.rfind("/", 0, len(path) - 1)
        while end > 0 and (above := path[: end + 1]) not in directories:
            directories[above] = None
            end = path.rfind("/", 0, end)
    paths = [*directories, *(path for path in kept if path not in directories)]
    return Listing(paths, [path.casefold() for path in paths], frozenset(paths))


class FileIndex:
    """The paths below a directory, made anew while they are used."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._listing: Listing | None = None
        self._making: asyncio.Task[None] | None = None
        self._stale_at = 0.0
        self._closed = Event()

    def current(self) -> Listing | None:
        """The newest list, or None before the first one; starts a new one if it is too old."""
        now = asyncio.get_running_loop().time()
        if self._making is None and (self._listing is None or now > self._stale_at):
            self._closed.clear()
            self._making = asyncio.create_task(self._make())
        return self._listing

    async def first(self, given_up: asyncio.Event) -> Listing | None:
        """Wait for the first list; None if the caller gives up before."""
        if self.current() is None and self._making is not None:
            waiting = asyncio.ensure_future(given_up.wait())
            await asyncio.wait({self._making, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        return self._listing

    def close(self) -> None:
        """End what is being done in the background."""
        self._closed.set()
        if self._making is not None:
            self._making.cancel()

    async def _make(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._listing = await asyncio.to_thread(_listing, self._cwd, self._closed.is_set)
            ended = loop.time()
            self._stale_at = ended + max(AGE, _SLOWNESS * (ended - began))
        finally:
            self._making = None


def _listing(cwd: Path, stopped: Callable[[], bool]) -> Listing:
    data = _listed_by_git(cwd, stopped)
    if data:
        return listing_of(os.fsdecode(data).split("\0", MOST_PATHS)[:MOST_PATHS])
    return listing_of(walk(cwd, MOST_PATHS, stopped))


def _listed_by_git(cwd: Path, stopped: Callable[[], bool]) -> bytes:
    """Git's list of files, each with a zero byte at its end; empty outside of a work tree."""
    # to look for new files may take too long, where the index is still read quickly
    for options in (("--others", "--exclude-standard"), ()):
        listed = _run_git(cwd, options, stopped)
        if listed is not None:
            return listed
    return b""


def _run_git(cwd: Path, options: Iterable[str], stopped: Callable[[], bool]) -> bytes | None:
    """What Git writes; None if it takes too long."""
    until = time.monotonic() + _PATIENCE
    try:
        process = subprocess.Popen(
            [*_GIT, *options],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, ValueError):
        return b""
    data = bytearray()
    with process:
        try:
            assert process.stdout is not None
            output = process.stdout.fileno()
            while len(data) < _LARGEST:
                if stopped():
                    return b""
                if time.monotonic() > until:
                    return None
                if not select.select([output], [], [], _POLL)[0]:
                    continue
                if not (piece := os.read(output, _PIECE)):
                    return b"" if process.wait() else bytes(data)
                data += piece
            return bytes(data[: data.rfind(0) + 1])
        finally:
            process.kill()
