"""Where an agent keeps its sessions: `MemoryStore`, `DirectoryStore`, or a `Store` of one's own.

A store is synchronous and quick, so that an agent may call it between two awaits; the cost of
`append` does not grow with the session. It keeps updates as they were given and applies them by the
rules of the November draft. It adds none of its own: no title, no time, no `idle` after a crash.
Permissions that wait for an answer are not kept.

`DirectoryStore` survives the end of the process, however it ends; after a loss of power the last
updates may be missing. Files that are torn, malformed or not its own are skipped with a warning,
and the rest is read.
"""

import fcntl
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from twofold.errors import LocalError, PeerError
from twofold.session import Draft, Session, snapshot
from twofold.session.listing import SessionInfos, newest_first
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Malformed, Omittable, Wire

_logger = logging.getLogger("twofold")

DRAFT = Draft.NOVEMBER
"""The draft of version 2 that agents write."""


class StoreFailed(LocalError):
    """A file of a store could not be read or written: `path` and `reason` hold which and why."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"Cannot read or write sessions at {os.fspath(path)}: {reason}.")
        self.path = Path(path)
        self.reason = reason


class SessionExists(LocalError):
    """A store was asked to create a session whose id is taken.

    Attributes:
        session_id: The id of the session.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is a session {session_id!r} already: choose another id.")
        self.session_id = session_id


class UnknownSession(LocalError):
    """A store was given an update or info of a session that it does not have.

    Attributes:
        session_id: The id of the session.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}: create it first.")
        self.session_id = session_id


@runtime_checkable
class Store(Protocol):
    """Keeps the sessions of an agent. An id may be any string: clients choose what they ask for."""

    def list(self) -> SessionInfos:
        """Return the infos of every session, the last updated first."""

    def info(self, session_id: str) -> v2.SessionInfo | None:
        """Return the title, directories and time of a session; None for an unknown id."""

    def create(self, info: v2.SessionInfo) -> None:
        """Create a session without any updates.

        Raises:
            SessionExists: The id is taken.
        """

    def describe(self, info: v2.SessionInfo) -> None:
        """Replace the title, directories and time of a session.

        Raises:
            UnknownSession: There is no such session.
        """

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        """Keep more updates of a session: all of them, or none if it fails.

        Raises:
            UnknownSession: There is no such session.
        """

    def adopt(self, session: Session) -> bool:
        """Keep the object `session` itself, which the agent goes on changing.

        Returns:
            True if the store does so, so that nothing needs to be appended. False if the store
            keeps only what is appended.
        """

    def load(self, session_id: str) -> Session | None:
        """Return a new `Session` with all the updates applied; None for an unknown id."""

    def delete(self, session_id: str) -> bool:
        """Delete a session.

        Returns:
            Whether there was one.
        """


class MemoryStore:
    """A `Store` in memory: its sessions end with the process.

    Args:
        limit: How many sessions are kept; when there are more, the oldest is deleted.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._infos: dict[str, v2.SessionInfo] = {}
        self._sessions: dict[str, Session] = {}

    def list(self) -> SessionInfos:
        """Return the infos of every session, the last updated first."""
        return newest_first(self._infos.values())

    def info(self, session_id: str) -> v2.SessionInfo | None:
        """Return the info of a session; None for an unknown id."""
        return self._infos.get(session_id)

    def create(self, info: v2.SessionInfo) -> None:
        """Create a session; raises `SessionExists`."""
        if info.session_id in self._infos:
            raise SessionExists(info.session_id)
        if len(self._infos) >= self._limit:
            oldest = next(iter(self._infos))
            _logger.warning(
                "More than %d sessions are kept in memory: %r is deleted", self._limit, oldest
            )
            self.delete(oldest)
        self._infos[info.session_id] = info
        self._sessions[info.session_id] = Session(info.session_id, DRAFT)

    def describe(self, info: v2.SessionInfo) -> None:
        """Replace the info of a session; raises `UnknownSession`."""
        if info.session_id not in self._infos:
            raise UnknownSession(info.session_id)
        self._infos[info.session_id] = info

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        """Keep more updates of a session; raises `UnknownSession`."""
        if session_id not in self._sessions:
            raise UnknownSession(session_id)
        session = self._sessions[session_id]
        for update in updates:
            try:
                session.apply(update)
            except PeerError as error:  # as when a log is read
                _logger.warning("An update of session %r is skipped: %s", session_id, error)

    def adopt(self, session: Session) -> bool:
        """Keep `session` itself, if it was created here."""
        known = session.session_id in self._sessions
        if known:
            self._sessions[session.session_id] = session
        return known

    def load(self, session_id: str) -> Session | None:
        """Return a new `Session` with all the updates applied; None for an unknown id."""
        if session_id not in self._sessions:
            return None
        session = Session(session_id, DRAFT)
        for update in snapshot(self._sessions[session_id]):
            session.apply(update)
        return session

    def delete(self, session_id: str) -> bool:
        """Delete a session, and return whether there was one."""
        self._sessions.pop(session_id, None)
        return self._infos.pop(session_id, None) is not None


# ---- names of files --------------------------------------------------------------------------

_INFO, _LOG, _TEMPORARY = ".json", ".jsonl", ".tmp"
_LONGEST_NAME = 120
_UNSAFE = re.compile(rb"[^a-z0-9_-]")


def safe_name(session_id: str) -> str:
    """The file name for an id: no two ids share one, even where case is ignored.

    Everything but small letters, digits, `-` and `_` is quoted, so that no id is a path. A name
    that gets too long is replaced by a hash, marked by a `~` that quoting never produces.
    """
    data = session_id.encode("utf-8", "surrogatepass")
    name = _quoted(_UNSAFE, data) if len(data) <= _LONGEST_NAME else None
    if name is None or len(name) > _LONGEST_NAME:
        return "~" + sha256(data).hexdigest()
    return name or "%"


def _quoted(what: re.Pattern[bytes], data: bytes) -> str:
    return what.sub(lambda found: b"%%%02x" % found[0][0], data).decode()


# ---- the lines of a log ----------------------------------------------------------------------

_FORMAT, _VERSION = "twofold.session", 1


class Header(Wire):
    """The first line of a log: its session, and what is needed if the info file is lost."""

    format: str
    version: int
    session_id: str
    cwd: Omittable[str] = UNSET


def _header_line(session_id: str, info: v2.SessionInfo | None) -> bytes:
    return _line(Header(_FORMAT, _VERSION, session_id, info.cwd if info else UNSET))


def _line(value: Wire) -> bytes:
    return codec.encode(value) + b"\n"


def _read_header(file: BinaryIO) -> Header | None:
    """Read the header; None if the log has none, and then nothing is read."""
    try:
        header = codec.decode(file.readline(), Header)
    except Malformed:
        header = None
    if isinstance(header, Header) and header.format == _FORMAT:
        return header
    file.seek(0)
    return None


def _fold(file: BinaryIO, session: Session) -> tuple[int, int]:
    """Apply the rest of a log; returns the number of lines, and where the last whole one ends."""
    lines, end, skipped, fault = 0, file.tell(), 0, ""
    for line in file:
        try:
            if not line.isspace():  # two processes that mend the same torn line leave an empty one
                session.apply(v2.decode_update(line))
        except PeerError as error:
            if not line.endswith(b"\n"):
                break  # torn by a crash, or another process is about to write the rest
            fault = fault or f"{error}, byte {end}"
            skipped += 1
        lines += 1
        end += len(line)
    if skipped:
        _logger.warning("%s: malformed lines skipped: %d (%s)", file.name, skipped, fault)
    return lines, end


# ---- files -----------------------------------------------------------------------------------


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """Raise an OSError as a `StoreFailed`."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(error.filename or path, error.strerror or str(error)) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # only the owner may read conversations


def _open(path: Path, mode: str) -> FileIO:
    """Open a file without a buffer, so that one write is one system call."""
    return FileIO(path, mode, opener=_private)


def _write(file: FileIO, data: bytes) -> None:
    """Append all of it, or nothing if that fails."""
    before = file.seek(0, os.SEEK_END)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        with suppress(OSError):
            file.truncate(before)
        raise


def _write_aside(path: Path, lines: Iterable[bytes], *, durable: bool) -> str:
    """Write a new file beside `path`; the caller moves it there or removes it."""
    descriptor, aside = tempfile.mkstemp(_TEMPORARY, f"{path.stem}.", path.parent)  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.writelines(lines)
            if durable:
                file.flush()
                os.fsync(descriptor)
    except BaseException:
        _remove(aside)
        raise
    return aside


def _remove(path: str | Path) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


# One process at a time writes to a directory. The lock is never held for long: not while a log is
# read, nor while its replacement is written.
def _lock(file: FileIO) -> None:
    fcntl.flock(file, fcntl.LOCK_EX)


class DirectoryStore:
    """A `Store` in a directory: its sessions survive a restart. Several processes may share it.

    A session has two files: `<name>.json` with its info, and `<name>.jsonl`, a log with a header
    and one update a line. A log that has more than `compact_after` lines, and four times as many as
    needed, is rewritten when it is loaded, without its malformed lines.

    Args:
        path: The directory; it is made if it does not exist.
        compact_after: How many lines a log may have before it is rewritten.

    Raises:
        StoreFailed: The directory cannot be made. Every method raises it, too, when it cannot
            read or write.
    """

    def __init__(self, path: str | os.PathLike[str], *, compact_after: int = 1_000) -> None:
        self.path = Path(path)
        self.compact_after = compact_after
        with _blamed_on(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def list(self) -> SessionInfos:
        """Return the infos of every session, the last updated first."""
        with _blamed_on(self.path):
            files = [Path(name) for name in os.listdir(self.path)]
        infos = []
        for name in {file.stem for file in files if file.suffix in (_INFO, _LOG)}:
            try:
                infos.append(self._info(name))
            except StoreFailed as error:  # the others can be listed
                _logger.warning("A session is missing from the list: %s", error)
        return newest_first(info for info in infos if info is not None)

    def info(self, session_id: str) -> v2.SessionInfo | None:
        """Return the info of a session; None for an unknown id."""
        return self._info(safe_name(session_id))

    def create(self, info: v2.SessionInfo) -> None:
        """Create a session; raises `SessionExists`."""
        log = self._file(info.session_id, _LOG)
        with _blamed_on(log), self._locked():
            if log.with_suffix(_INFO).exists():
                raise SessionExists(info.session_id)
            try:
                file = _open(log, "xb")
            except FileExistsError:
                raise SessionExists(info.session_id) from None
            try:  # all or nothing, so that the caller may try again
                with file:
                    _write(file, _header_line(info.session_id, info))
                self._write_info(info)
            except BaseException:
                _remove(log)
                raise

    def describe(self, info: v2.SessionInfo) -> None:
        """Replace the info of a session; raises `UnknownSession`."""
        path = self._file(info.session_id, _INFO)
        with _blamed_on(path), self._locked():
            if not path.exists() and not path.with_suffix(_LOG).exists():
                raise UnknownSession(info.session_id)
            self._write_info(info)

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        """Keep more updates of a session; raises `UnknownSession`."""
        data = b"".join([_line(update) for update in updates])
        log = self._file(session_id, _LOG)
        with _blamed_on(log), self._locked():
            if not log.exists() and self.info(session_id) is None:
                raise UnknownSession(session_id)
            with _open(log, "ab+") as file:
                if file.seek(0, os.SEEK_END) == 0:
                    data = _header_line(session_id, self.info(session_id)) + data
                else:
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # a crash tore the last line
                        data = b"\n" + data
                _write(file, data)

    def load(self, session_id: str) -> Session | None:
        """Return a new `Session` with all the updates applied; None for an unknown id."""
        session = Session(session_id, DRAFT)
        log = self._file(session_id, _LOG)
        with _blamed_on(log):
            try:
                file = open(log, "rb")  # noqa: SIM115
            except FileNotFoundError:
                return session if self.info(session_id) else None
            with file:
                if not self._is_of(session_id, _read_header(file), log):
                    return None
                lines, end = _fold(file, session)
                updates = snapshot(session)
                if lines > max(self.compact_after, 4 * len(updates)):
                    file.seek(end)
                    self._compact(session_id, file, log, updates)
        return session

    def adopt(self, session: Session) -> bool:
        """Return False: a session that is only in memory would not survive."""
        return False

    def delete(self, session_id: str) -> bool:
        """Delete a session, and return whether there was one."""
        info = self._file(session_id, _INFO)
        with _blamed_on(info), self._locked():
            for aside in self.path.glob(f"{info.stem}.*{_TEMPORARY}"):  # left by a crash
                _remove(aside)
            # the log first: if this is interrupted, nothing of the conversation is left
            found = _remove(info.with_suffix(_LOG))
            return _remove(info) or found

    def _file(self, session_id: str, suffix: str) -> Path:
        return self.path / (safe_name(session_id) + suffix)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _open(self.path / ".lock", "ab") as file:  # closing it releases the lock
            with suppress(OSError):  # some network file systems have no locks: go on without
                _lock(file)
            yield

    def _info(self, name: str) -> v2.SessionInfo | None:
        """The info in the files of this name, if its session has this name."""
        path = self.path / (name + _INFO)
        with _blamed_on(path):
            info = _read_info(path) or _info_from_log(path.with_suffix(_LOG))
        if info is not None and safe_name(info.session_id) != name:
            _logger.warning("%s is skipped: it belongs to session %r", path, info.session_id)
            return None
        return info

    def _write_info(self, info: v2.SessionInfo) -> None:
        path = self._file(info.session_id, _INFO)
        aside = _write_aside(path, [_line(info)], durable=False)
        try:
            os.replace(aside, path)
        except OSError:
            _remove(aside)
            raise

    def _is_of(self, session_id: str, header: Header | None, log: Path) -> bool:
        if header is None:
            return True  # torn or damaged: the name decides
        if header.version > _VERSION:
            raise StoreFailed(log, f"format {header.version} needs a newer Twofold")
        if header.session_id != session_id:
            _logger.warning("%s is skipped: it belongs to session %r", log, header.session_id)
        return header.session_id == session_id

    def _compact(
        self, session_id: str, file: BinaryIO, log: Path, updates: Iterable[v2.SessionUpdate]
    ) -> None:
        """Replace the log by the snapshot, followed by what `file` has from here on."""
        try:
            header = _header_line(session_id, self.info(session_id))
            # durable: a loss of power must not take the whole conversation
            aside = _write_aside(log, [header, *map(_line, updates)], durable=True)
            try:
                with self._locked():
                    # another process may have done the same, or deleted the session
                    if os.path.samestat(os.fstat(file.fileno()), os.stat(log)):
                        with open(aside, "ab") as rest:
                            shutil.copyfileobj(file, rest)
                        os.replace(aside, log)
            finally:
                _remove(aside)
        except (OSError, StoreFailed) as error:  # the session is loaded anyway
            _logger.warning("%s is not compacted: %s", log, error)


def _read_info(path: Path) -> v2.SessionInfo | None:
    try:
        info = codec.decode(path.read_bytes(), v2.SessionInfo)
    except FileNotFoundError:
        return None
    except Malformed as error:
        _logger.warning("%s is skipped: %s", path, error)
        return None
    assert isinstance(info, v2.SessionInfo)
    return info


def _info_from_log(log: Path) -> v2.SessionInfo | None:
    """The info in the header of a log, for a session whose info file is lost."""
    try:
        with open(log, "rb") as file:
            header = _read_header(file)
    except FileNotFoundError:
        return None
    if header is None or header.cwd is UNSET:
        return None
    return v2.SessionInfo(header.session_id, header.cwd)
