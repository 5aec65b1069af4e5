"""Where an agent keeps its sessions: what each is called, and what it adds up to.

A store is synchronous and quick, so that an agent may call it between two awaits; the cost of
`append` does not grow with the session. It keeps updates as they were given and folds them by the
rules of November; it makes none up: no title, no time, no `idle` after a crash. Permissions that
wait for an answer are not kept. `DirectoryStore` survives a restart.
"""

import logging
import os
import re
import shutil
import sys
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
"""What our agents write."""


class StoreFailed(LocalError):
    """The file at `path` could not be read or written, for `reason`."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"No session can be kept in or read from {os.fspath(path)}: {reason}.")
        self.path = Path(path)
        self.reason = reason


class SessionExists(LocalError):
    """A new session was given an id that is taken."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is a session {session_id!r} already: choose another id.")
        self.session_id = session_id


class UnknownSession(LocalError):
    """Something was to be kept for a session that was never created, or was deleted."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}: create it first.")
        self.session_id = session_id


@runtime_checkable
class Store(Protocol):
    """Keeps sessions. An id may be any string at all: peers choose what they ask for."""

    def list(self) -> SessionInfos:
        """Every session, the last updated first."""

    def info(self, session_id: str) -> v2.SessionInfo | None:
        """What the session is called, or None for an unknown id."""

    def create(self, info: v2.SessionInfo) -> None:
        """A new session; raises `SessionExists` for an id that is taken."""

    def describe(self, info: v2.SessionInfo) -> None:
        """A new title, time or directories; raises `UnknownSession` for an unknown id."""

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        """Keep what was said, all or nothing; raises `UnknownSession` for an unknown id."""

    def adopt(self, session: Session) -> bool:
        """Keep `session` itself, which the caller goes on changing, in place of what was kept.

        True: nothing has to be appended from now on. False: this store keeps only what is
        appended.
        """

    def load(self, session_id: str) -> Session | None:
        """What the session adds up to, the caller's own; None for an unknown id."""

    def delete(self, session_id: str) -> bool:
        """Forget the session, and say whether there was one."""


class MemoryStore:
    """Sessions that end with the process. Of more than `limit`, the oldest are forgotten."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._infos: dict[str, v2.SessionInfo] = {}
        self._sessions: dict[str, Session] = {}

    def list(self) -> SessionInfos:
        return newest_first(self._infos.values())

    def info(self, session_id: str) -> v2.SessionInfo | None:
        return self._infos.get(session_id)

    def create(self, info: v2.SessionInfo) -> None:
        if info.session_id in self._infos:
            raise SessionExists(info.session_id)
        if len(self._infos) >= self._limit:
            oldest = next(iter(self._infos))
            _logger.warning(
                "More than %d sessions are kept in memory: %r is forgotten", self._limit, oldest
            )
            self.delete(oldest)
        self._infos[info.session_id] = info
        self._sessions[info.session_id] = Session(info.session_id, DRAFT)

    def describe(self, info: v2.SessionInfo) -> None:
        if info.session_id not in self._infos:
            raise UnknownSession(info.session_id)
        self._infos[info.session_id] = info

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        if session_id not in self._sessions:
            raise UnknownSession(session_id)
        session = self._sessions[session_id]
        for update in updates:
            try:
                session.apply(update)
            except PeerError as error:  # a log would pass over it, too
                _logger.warning("An update of session %r is passed over: %s", session_id, error)

    def adopt(self, session: Session) -> bool:
        known = session.session_id in self._sessions
        if known:
            self._sessions[session.session_id] = session
        return known

    def load(self, session_id: str) -> Session | None:
        if session_id not in self._sessions:
            return None
        session = Session(session_id, DRAFT)
        for update in snapshot(self._sessions[session_id]):
            session.apply(update)
        return session

    def delete(self, session_id: str) -> bool:
        self._sessions.pop(session_id, None)
        return self._infos.pop(session_id, None) is not None


# Sessions in a directory, where they survive the end of the process, however it ends.
#
# Per session a file with its info and a log of its updates, an update a line. Several processes may
# share a directory: one at a time writes. About a loss of power nothing is promised. What is torn,
# malformed or somebody else's is passed over with a warning, never a reason to lose the rest.


# ---- names of files --------------------------------------------------------------------------

_INFO, _LOG, _TEMPORARY = ".json", ".jsonl", ".tmp"
_LONGEST_NAME = 120
_UNSAFE = re.compile(rb"[^a-z0-9_-]")
_FIRST = re.compile(rb"^.")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")


def safe_name(session_id: str) -> str:
    """A file's name for an id: another one for every other id, in whatever case they are compared.

    Everything but small letters, digits, `-` and `_` is quoted, so that no id is a path. What
    gets too long is a hash, marked by a `~` that no quoting makes.
    """
    data = session_id.encode("utf-8", "surrogatepass")
    name = _quoted(_UNSAFE, data) if len(data) <= _LONGEST_NAME else None
    if name is None or len(name) > _LONGEST_NAME:
        return "~" + sha256(data).hexdigest()
    if _DEVICE.fullmatch(name):  # Windows opens the device, whatever the ending
        return _quoted(_FIRST, data)
    return name or "%"


def _quoted(what: re.Pattern[bytes], data: bytes) -> str:
    return what.sub(lambda found: b"%%%02x" % found[0][0], data).decode()


# ---- the lines of a log ----------------------------------------------------------------------

_FORMAT, _VERSION = "twofold.session", 1


class Header(Wire):
    """The first line of a log: whose it is, and what is needed if all else is lost."""

    format: str
    version: int
    session_id: str
    cwd: Omittable[str] = UNSET


def _header_line(session_id: str, info: v2.SessionInfo | None) -> bytes:
    return _line(Header(_FORMAT, _VERSION, session_id, info.cwd if info else UNSET))


def _line(value: Wire) -> bytes:
    return codec.encode(value) + b"\n"


def _read_header(file: BinaryIO) -> Header | None:
    """The header, read; None if there is none, and then nothing is read."""
    try:
        header = codec.decode(file.readline(), Header)
    except Malformed:
        header = None
    if isinstance(header, Header) and header.format == _FORMAT:
        return header
    file.seek(0)
    return None


def _fold(file: BinaryIO, session: Session) -> tuple[int, int]:
    """Apply the lines of a log from here on → how many there are, and where the whole ones end."""
    lines, end, skipped, fault = 0, file.tell(), 0, ""
    for line in file:
        try:
            if not line.isspace():  # two who mend the same torn line leave an empty one
                session.apply(v2.decode_update(line))
        except PeerError as error:
            if not line.endswith(b"\n"):
                break  # torn by a crash, or somebody is about to write the rest
            fault = fault or f"{error}, byte {end}"
            skipped += 1
        lines += 1
        end += len(line)
    if skipped:
        _logger.warning("%s: malformed lines passed over: %d (%s)", file.name, skipped, fault)
    return lines, end


# ---- files -----------------------------------------------------------------------------------


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """What the system refuses is a `StoreFailed`."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(error.filename or path, error.strerror or str(error)) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # conversations are nobody else's business


def _open(path: Path, mode: str) -> FileIO:
    """A file without a buffer: one write is one write."""
    return FileIO(path, mode, opener=_private)


def _write(file: FileIO, data: bytes) -> None:
    """Write at the end, all of it or nothing."""
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
    """A new file beside `path`, that the caller puts in its place or removes."""
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


# One process at a time writes to a directory. Nobody holds the lock for long: not while a log is
# read, nor while its replacement is written.
if sys.platform == "win32":
    import msvcrt

    def _lock(file: FileIO) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
else:
    import fcntl

    def _lock(file: FileIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


class DirectoryStore:
    """Sessions that are there again after a restart; several processes may share a directory.

    Per session `<name>.json`, its info, and `<name>.jsonl`, its log: a header, then an update a
    line. A log of more than `compact_after` lines, and of four times as many as it takes to say
    the same, is rewritten when it is loaded; lines that are malformed end there.
    """

    def __init__(self, path: str | os.PathLike[str], *, compact_after: int = 1_000) -> None:
        self.path = Path(path)
        self.compact_after = compact_after
        with _blamed_on(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def list(self) -> SessionInfos:
        with _blamed_on(self.path):
            files = [Path(name) for name in os.listdir(self.path)]
        infos = []
        for name in {file.stem for file in files if file.suffix in (_INFO, _LOG)}:
            try:
                infos.append(self._info(name))
            except StoreFailed as error:  # the others are as good as ever
                _logger.warning("A session is left out of the list: %s", error)
        return newest_first(info for info in infos if info is not None)

    def info(self, session_id: str) -> v2.SessionInfo | None:
        return self._info(safe_name(session_id))

    def create(self, info: v2.SessionInfo) -> None:
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
        path = self._file(info.session_id, _INFO)
        with _blamed_on(path), self._locked():
            if not path.exists() and not path.with_suffix(_LOG).exists():
                raise UnknownSession(info.session_id)
            self._write_info(info)

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
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
        return False  # what is only in memory would not survive

    def delete(self, session_id: str) -> bool:
        info = self._file(session_id, _INFO)
        with _blamed_on(info), self._locked():
            for aside in self.path.glob(f"{info.stem}.*{_TEMPORARY}"):  # left by a crash
                _remove(aside)
            # the log first: if we go no further, what is left says nothing of the conversation
            found = _remove(info.with_suffix(_LOG))
            return _remove(info) or found

    def _file(self, session_id: str, suffix: str) -> Path:
        return self.path / (safe_name(session_id) + suffix)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _open(self.path / ".lock", "ab") as file:  # closing it lets go
            with suppress(OSError):  # some network file systems have no locks: go on without
                _lock(file)
            yield

    def _info(self, name: str) -> v2.SessionInfo | None:
        """The info in the files of this name, if they are those of the session it speaks of."""
        path = self.path / (name + _INFO)
        with _blamed_on(path):
            info = _read_info(path) or _info_from_log(path.with_suffix(_LOG))
        if info is not None and safe_name(info.session_id) != name:
            _logger.warning("%s is passed over: it is of session %r", path, info.session_id)
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
            return True  # torn or damaged; the name says whose it is
        if header.version > _VERSION:
            raise StoreFailed(log, f"format {header.version} needs a newer Twofold")
        if header.session_id != session_id:
            _logger.warning("%s is passed over: it is of session %r", log, header.session_id)
        return header.session_id == session_id

    def _compact(
        self, session_id: str, file: BinaryIO, log: Path, updates: Iterable[v2.SessionUpdate]
    ) -> None:
        """Put the snapshot in the place of the log; what is in `file` from here on comes after."""
        try:
            header = _header_line(session_id, self.info(session_id))
            # durable: without power a whole conversation would be gone, and not its last words
            aside = _write_aside(log, [header, *map(_line, updates)], durable=True)
            try:
                with self._locked():
                    # somebody may have done the same, or deleted the session
                    if os.path.samestat(os.fstat(file.fileno()), os.stat(log)):
                        with open(aside, "ab") as rest:
                            shutil.copyfileobj(file, rest)
                        file.close()  # Windows does not replace a file that is open
                        os.replace(aside, log)
            finally:
                _remove(aside)
        except (OSError, StoreFailed) as error:  # the session is loaded all the same
            _logger.warning("%s stays as long as it is: %s", log, error)


def _read_info(path: Path) -> v2.SessionInfo | None:
    try:
        info = codec.decode(path.read_bytes(), v2.SessionInfo)
    except FileNotFoundError:
        return None
    except Malformed as error:
        _logger.warning("%s is passed over: %s", path, error)
        return None
    assert isinstance(info, v2.SessionInfo)
    return info


def _info_from_log(log: Path) -> v2.SessionInfo | None:
    """What the header knows of a session whose info is lost."""
    try:
        with open(log, "rb") as file:
            header = _read_header(file)
    except FileNotFoundError:
        return None
    if header is None or header.cwd is UNSET:
        return None
    return v2.SessionInfo(header.session_id, header.cwd)
