"""The file of a SQLite journal: who may open it, what is in it, and how older ones are brought up.

The file and its directory are private. One process at a time writes: it holds a lock on the file
beside it (`….lock`), which ends with the process. Any number of others may read meanwhile.

An event has one key, its session's number and its own in one integer: so the events of a session
are side by side, and no second index is needed to find them.
"""

import fcntl
import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from twofold.journal.journal import (
    JournalDamaged,
    JournalLocked,
    JournalNotOpened,
    JournalNotPrivate,
    JournalTooNew,
)

SEQ_BITS: Final = 32
"""How many bits of the key of an event are its number."""
LAST_SEQ: Final = 2**SEQ_BITS - 1
"""The largest number of an event, and the mask for it."""

_APPLICATION: Final = 0x54774F66  # "TwOf", in the header of the file
_CHECKPOINT: Final = 200
"""After so many pages the write-ahead log is moved into the file, and the commit waits for it.
Measured at 65,000 events a second, p99 of a commit: 5 ms with 200, 17 ms with SQLite's 1,000, on a
machine that has time."""
_PATIENCE: Final = 5.0
"""For how many seconds another program may hold a lock of SQLite's on the file."""

# In their order, each a version of the format. A released one never changes: append another.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL UNIQUE,
            agent TEXT NOT NULL,
            cwd TEXT NOT NULL,
            title TEXT NOT NULL,
            first_words TEXT NOT NULL,
            state TEXT NOT NULL,
            created INTEGER NOT NULL,
            facts BLOB NOT NULL,
            folded TEXT NOT NULL
        )
        """,
        # what every event changes: apart, because SQLite writes whole rows
        """
        CREATE TABLE heads (
            id INTEGER PRIMARY KEY,
            head INTEGER NOT NULL,
            size INTEGER NOT NULL,
            updated INTEGER NOT NULL,
            epoch INTEGER NOT NULL
        )
        """,
        # id: the session's id << 32 | seq; at: microseconds since 1970
        """
        CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            epoch INTEGER NOT NULL,
            at INTEGER NOT NULL,
            kind TEXT NOT NULL,
            body BLOB NOT NULL
        )
        """,
        """
        CREATE TRIGGER appended AFTER INSERT ON events BEGIN
            UPDATE heads SET head = new.id & 4294967295,
                size = size + length(new.body), updated = new.at
            WHERE id = new.id >> 32;
        END
        """,
        # the numbers from first to last, of which some are gone
        """
        CREATE TABLE compactions (
            id INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            PRIMARY KEY (id, first)
        )
        """,
        "CREATE TABLE snapshots (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, body BLOB NOT NULL)",
        # deleted sessions whose events are still there
        "CREATE TABLE doomed (id INTEGER PRIMARY KEY)",
        "CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
        # present while the index has every text
        "CREATE TABLE indexed (id INTEGER PRIMARY KEY)",
        # for people who look into the file
        """
        CREATE VIEW history AS
            SELECT session, events.id & 4294967295 AS seq, epoch,
                strftime('%Y-%m-%d %H:%M:%f', at / 1e6, 'unixepoch') AS at,
                kind, CAST(body AS TEXT) AS body
            FROM sessions JOIN events
            ON events.id BETWEEN sessions.id << 32 AND (sessions.id << 32) + 4294967295
        """,
    ),
)

_INDEX: Final = """
    CREATE VIRTUAL TABLE IF NOT EXISTS text_index USING fts5(
        text, content='texts', content_rowid='id', tokenize='unicode61 remove_diacritics 2'
    )
"""


# ---- who may open it -------------------------------------------------------------------------


def prepare(path: Path) -> None:
    """Make the directory and the file if they are not there, and see that they are private.

    Raises:
        JournalNotPrivate: They belong to someone else, or others may write to the directory.
        JournalNotOpened: They cannot be made.
    """
    try:
        _make_directory(path.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            _sync(path.parent)
        # The file is not opened to look at it: closing it would end SQLite's locks of this process.
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise JournalNotOpened(str(path), "it is not a regular file. Choose another name.")
        _check_owner(path, path, status)
        if stat.S_IMODE(status.st_mode) & 0o077:  # another program made it, or copied it
            os.chmod(path, 0o600)
    except OSError as error:
        raise _not_opened(path, error) from error


def _make_directory(directory: Path) -> None:
    if not directory.exists():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(directory.parent)
    status = os.stat(directory)
    _check_owner(directory, directory, status)
    # Those who may write to it could put another file in place of the journal. Others may list
    # it: the files themselves are private.
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise JournalNotPrivate(
            str(directory),
            "other users may write to this directory. Make it private "
            f"(chmod go-w {directory}), or choose another.",
        )


def _sync(directory: Path) -> None:
    """Make sure that what was made in the directory is there after a loss of power."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check_owner(where: Path, what: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise JournalNotPrivate(
            str(where),
            f"{what} belongs to another user (uid {status.st_uid}). Choose a place of your own.",
        )


def _not_opened(path: Path, error: OSError) -> JournalNotOpened:
    reason = f"{error.filename or path}: {error.strerror or error}. Check it, or choose another."
    return JournalNotOpened(str(path), reason)


class WriterLock:
    """The right to write to a journal: one process has it, until it ends or releases it.

    Args:
        path: The file of the journal; the lock is on a file beside it.

    Raises:
        JournalLocked: Another process has it, or another journal of this process.
        JournalNotOpened: The file beside it cannot be made or locked.
    """

    def __init__(self, path: Path) -> None:
        beside = Path(f"{path}.lock")
        try:
            self._fd = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _not_opened(beside, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            text = os.pread(self._fd, 20, 0).strip()
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise JournalLocked(str(path), int(text) if text.isdigit() else None) from None
            raise _not_opened(beside, error) from error

    def release(self) -> None:
        """Let another process write."""
        os.close(self._fd)


class OpenFile:
    """The file of a journal, prepared, locked and brought to the newest format.

    Args:
        path: The file; it is made if it is not there.

    Attributes:
        path: The file.
        lock: The right to write to it.
        connection: A connection that may write.

    Raises:
        JournalNotOpened: Why it cannot be opened is in the subclass and the text.
    """

    def __init__(self, path: Path) -> None:
        prepare(path)
        self.path = path
        self.lock = WriterLock(path)
        try:
            self.connection = open_to_write(path)
        except BaseException:
            self.lock.release()
            raise


# ---- what is in it ---------------------------------------------------------------------------


def open_to_write(path: Path) -> sqlite3.Connection:
    """Connect to a prepared and locked file, and bring it to the newest format.

    Raises:
        JournalTooNew: A newer Twofold wrote it.
        JournalDamaged: It is no journal, or damaged.
        JournalNotOpened: It cannot be opened for another reason.
    """
    connection = None
    try:
        connection = _connect(str(path), uri=False)
        version = _version(path, connection)
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            reason = "its file system has no write-ahead log. Choose a local directory."
            raise JournalNotOpened(str(path), reason)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: through the cache of the disk
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        _migrate(connection, version)
        _make_index(connection)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise as_not_opened(path, error) from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Connect to a file that another process may write to meanwhile.

    Raises:
        JournalTooNew: A newer Twofold wrote it.
        JournalDamaged: It is no journal, or damaged.
        JournalNotOpened: There is no such file, or it cannot be opened for another reason.
    """
    if not path.is_file():
        raise JournalNotOpened(str(path), "there is no such file. Check the path.")
    query = "?mode=ro"
    if not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        query += "&immutable=1"  # without a writer, and where SQLite cannot make its files
    connection = None
    try:
        connection = _connect(path.absolute().as_uri() + query, uri=True)
        connection.execute("PRAGMA query_only = ON")
        version = _version(path, connection)
        if version < len(MIGRATIONS):
            reason = "it is empty, or of an older Twofold. Open it once with what writes to it."
            raise JournalNotOpened(str(path), reason)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise as_not_opened(path, error) from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def _connect(name: str, *, uri: bool) -> sqlite3.Connection:
    # one thread at a time uses a connection, but not always the same one
    return sqlite3.connect(
        name, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=uri
    )


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """The version of the format; 0 for an empty file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables or version or application:
            reason = "it is a database of another program. Choose another name."
            raise JournalDamaged(str(path), reason)
    if version > len(MIGRATIONS):
        raise JournalTooNew(str(path), version, len(MIGRATIONS))
    return int(version)


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the file to the newest format; what fails is rolled back with the connection."""
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite has the full text search compiled in."""
    found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'")
    return found.fetchone() is not None


def has_index(connection: sqlite3.Connection) -> bool:
    """Whether the texts can be searched by their index: without FTS5 it is not kept."""
    return has_fts5(connection) and bool(connection.execute("SELECT 1 FROM indexed").fetchall())


def _make_index(connection: sqlite3.Connection) -> None:
    """Make the index of the texts, or note that it is not kept any more."""
    if not has_fts5(connection):
        connection.execute("DELETE FROM indexed")
    elif not connection.execute("SELECT 1 FROM indexed").fetchall():
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_INDEX)
        connection.execute("INSERT INTO text_index (text_index) VALUES ('rebuild')")
        connection.execute("INSERT INTO indexed VALUES (1)")
        connection.execute("COMMIT")


# ---- what SQLite reports ---------------------------------------------------------------------

_REASONS: Final = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the file is read-only",
    "SQLITE_IOERR": "reading or writing fails",
    "SQLITE_BUSY": "another program holds a lock on the file",
    "SQLITE_LOCKED": "another program holds a lock on the file",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_NOTADB": "the file is not a database",
    "SQLITE_CANTOPEN": "the file, or one beside it, cannot be opened",
}


def reason_of(error: sqlite3.Error) -> str:
    """What failed, in words, with SQLite's own name for it."""
    name = getattr(error, "sqlite_errorname", "")
    for start, reason in _REASONS.items():
        if name.startswith(start):
            return f"{reason} ({name})"
    return str(error)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite reports that the file is damaged, or is no database."""
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def as_not_opened(path: Path, error: sqlite3.Error) -> JournalNotOpened:
    """The error for a file that SQLite cannot open or read."""
    if is_damage(error):
        reason = f"{reason_of(error)}. Restore a copy, or move the file away to begin a new one."
        return JournalDamaged(str(path), reason)
    return JournalNotOpened(str(path), f"{reason_of(error)}. Check the file and its directory.")
