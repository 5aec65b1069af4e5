"""A journal in one SQLite file, written by one thread.

`append` numbers its events and puts them into a queue; it never waits. The thread takes everything
that is queued and commits it together: at once if the commit is awaited or much is queued, and
otherwise after a few milliseconds, so that a slow stream of events does not sync the disk for each
of them. A batch is one statement, because each statement gives the interpreter's lock away and
waits for it again, for milliseconds if the event loop is busy.

Everything else that writes goes through the same queue, in order, each in a transaction. What is
deleted is invisible at once, and removed in small steps between the commits of others.
"""

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count
from os import PathLike
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Self, TypeVar, Unpack
from weakref import WeakSet

import msgspec

from twofold.journal import sqlite_file
from twofold.journal.journal import (
    LARGEST_APPEND,
    LARGEST_BODY,
    LONGEST_FIELD,
    LONGEST_ID,
    LONGEST_KIND,
    LONGEST_TEXT,
    Description,
    Entry,
    JournalBusy,
    JournalClosed,
    JournalFailed,
    JournalNotOpened,
    JournalRefused,
    NotInJournal,
    Pending,
    SessionNotOpen,
    SessionRow,
)
from twofold.journal.sqlite_file import LAST_SEQ, SEQ_BITS
from twofold.journal.sqlite_reader import SqliteReader, as_id, read_row, storable

T = TypeVar("T")

MOST_WAITING: Final = 64 * 1024 * 1024
"""How many bytes may wait to be written, by default."""
GATHER: Final = 0.005
"""For how many seconds events wait for others if nobody awaits their commit."""
BATCH: Final = 1_000
"""At most so many events are written by one statement."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""After so many bytes a batch is written."""
ENOUGH: Final = 250
"""So many events are written without waiting for others."""

_OVERHEAD: Final = 200
"""What an event takes in memory beside its body and text, about."""
_SLICE: Final = 1_000
"""How many events, texts or pages are removed in one step."""

_logger = logging.getLogger("twofold")
_encode = msgspec.json.Encoder().encode

_INSERT: Final = """
    INSERT INTO events (id, epoch, at, kind, body)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        json_extract(value, '$[3]'),
        substr(?, json_extract(value, '$[4]'), json_extract(value, '$[5]'))
    FROM json_each(?)
"""


class _OpenSession:
    """A session that can be appended to, until it is closed or the journal fails."""

    __slots__ = (
        *("__weakref__", "committed", "epoch", "failure", "head"),
        *("key", "session", "urgent", "waiters"),
    )

    def __init__(self, session: str, key: int, row: SessionRow, urgent: threading.Event) -> None:
        self.session = session
        self.key = key
        self.epoch = row.epoch
        self.head = row.head
        self.committed = row.head
        self.failure: JournalFailed | None = None
        self.waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self.urgent = urgent

    async def until(self, seq: int) -> None:
        """Wait until everything up to `seq` is committed."""
        if self.committed >= seq:
            return
        if self.failure is not None:
            raise self.failure
        waiter = asyncio.get_running_loop().create_future()
        heappush(self.waiters, (seq, next(_tickets), waiter))
        if not self.urgent.is_set():
            self.urgent.set()
        await waiter

    def commit(self, seq: int) -> None:
        """Everything up to `seq` is committed."""
        self.committed = seq
        while self.waiters and self.waiters[0][0] <= seq:
            _settle(heappop(self.waiters)[2])

    def fail(self, failure: JournalFailed) -> None:
        """What is not committed never will be."""
        self.failure = failure
        for _, _, waiter in self.waiters:
            _settle(waiter, error=failure)
        self.waiters.clear()


_tickets = count()  # of two that wait for the same number, neither is compared


def _settle(future: "asyncio.Future[Any]", result: Any = None, *, error: Any = None) -> None:
    if future.done():  # the task that waited was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


# ---- the thread ------------------------------------------------------------------------------


class _Append(NamedTuple):
    """Events to write."""

    state: _OpenSession
    first: int
    at: int
    entries: tuple[Entry, ...]
    size: int


@dataclass(slots=True, eq=False)
class _Step:
    """Anything else to write, in a transaction."""

    work: Callable[[sqlite3.Connection], Any]
    future: "asyncio.Future[Any]"
    repeated: bool = False
    """Whether it is done again, after what is queued, as long as `work` returns True."""
    plain: bool = False
    """Whether it is done outside a transaction, and also after a failure."""


class _Held(NamedTuple):
    """What the thread has to know of an open session to write again after a failure."""

    session: str
    committed: int


class _Writer:
    """The thread, and the connection that only it uses.

    Args:
        file: The locked file.
        post: Calls a function in the event loop.
        committed: Called in the event loop, with the sessions and their last numbers, how many
            events were committed, and how many bytes do not wait any more.
        failed: Called in the event loop when nothing can be written any more, with the reason.
    """

    def __init__(
        self,
        file: sqlite_file.OpenFile,
        post: Callable[..., None],
        committed: Callable[[dict[_OpenSession, int], int, int], None],
        failed: Callable[[str], None],
    ) -> None:
        self.urgent = threading.Event()
        self.held: set[int] = set()
        self.indexed = sqlite_file.has_index(file.connection)
        self._file = file
        self._post = post
        self._committed = committed
        self._failed = failed
        self._queue: SimpleQueue[_Append | _Step | None] = SimpleQueue()
        self._reason = ""  # why nothing can be written
        self._connection = file.connection
        self._thread = threading.Thread(target=self._run, name="twofold-journal-write", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, work: _Append | _Step | None) -> None:
        """Queue work; None ends the thread after what is queued."""
        self._queue.put(work)
        if not isinstance(work, _Append):
            self.urgent.set()

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def reopen(self, sessions: Iterable[_Held]) -> dict[str, tuple[int, SessionRow]]:
        """Open the file again after a failure; runs in the thread.

        An event whose commit failed may be in the file, although it was reported as lost: then it
        is removed.

        Returns:
            The keys and rows of the sessions that are still there.
        """
        self._connection.close()
        self._connection = sqlite_file.open_to_write(self._file.path)
        self.indexed = sqlite_file.has_index(self._connection)
        found: dict[str, tuple[int, SessionRow]] = {}
        with _Transaction(self._connection):
            for session, committed in sessions:
                key = _key(self._connection, session)
                if key is not None:
                    _forget_after(self._connection, key, committed, indexed=self.indexed)
                    _count_epoch(self._connection, key)
                    row = read_row(self._connection, session)
                    assert row is not None
                    found[session] = (key, row)
        self.held = {key for key, _ in found.values()}
        self._reason = ""
        return found

    # ---- in the thread

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if isinstance(work, _Append) and not self.urgent.is_set():
                self.urgent.wait(GATHER)
            self.urgent.clear()
            if self._write(work):
                break
        while True:  # steps that were put back, or came too late
            try:
                left = self._queue.get_nowait()
            except Empty:
                break
            if isinstance(left, _Step):
                self._post(_settle, left.future, error=JournalClosed())
        self._connection.close()
        self._file.lock.release()

    def _write(self, work: _Append | _Step | None) -> bool:
        """Write everything that is queued; returns whether the end was among it."""
        batch: list[_Append] = []
        events = size = 0
        while work is not None:
            if isinstance(work, _Append):
                batch.append(work)
                events += len(work.entries)
                size += work.size
            if batch and (isinstance(work, _Step) or events >= BATCH or size >= BATCH_BYTES):
                self._insert(batch, events, size)
                batch, events, size = [], 0, 0
            if isinstance(work, _Step):
                self._do(work)
            try:
                work = self._queue.get_nowait()
            except Empty:
                break
        if batch:
            self._insert(batch, events, size)
        return work is None

    def _insert(self, batch: list[_Append], events: int, size: int) -> None:
        if self._reason:  # the event loop has yet to notice
            return
        try:
            self._execute(batch)
        except Exception as error:
            self._fail(error)
        else:
            heads = {each.state: each.first + len(each.entries) - 1 for each in batch}
            self._post(self._committed, heads, events, size)

    def _execute(self, batch: list[_Append]) -> None:
        rows: list[tuple[int, int, int, str, int, int]] = []
        bodies: list[bytes] = []
        texts: list[tuple[int, str]] = []
        at = 1
        for each in batch:
            start, epoch, time_ = each.state.key << SEQ_BITS, each.state.epoch, each.at
            for seq, (kind, body, text) in enumerate(each.entries, each.first):
                rows.append((start | seq, epoch, time_, kind, at, len(body)))
                bodies.append(body)
                at += len(body)
                if text:
                    texts.append((start | seq, storable(text[:LONGEST_TEXT])))
        values = [b"".join(bodies), _encode(rows).decode()]
        if texts:
            with _Transaction(self._connection):
                self._connection.execute(_INSERT, values)
                _add_texts(self._connection, texts, indexed=self.indexed)
        else:
            self._connection.execute(_INSERT, values)

    def _do(self, step: _Step) -> None:
        if self._reason and not step.plain:
            failure = JournalFailed(str(self._file.path), self._reason)
            self._post(_settle, step.future, error=failure)
            return
        try:
            if step.plain:
                result = step.work(self._connection)
            else:
                with _Transaction(self._connection):
                    result = step.work(self._connection)
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:  # a mistake of ours
            self._post(_settle, step.future, error=error)
        except sqlite3.Error as error:
            self._fail(error)
            failure = JournalFailed(str(self._file.path), self._reason)
            self._post(_settle, step.future, error=failure)
        except Exception as error:  # it concerns only the caller
            self._post(_settle, step.future, error=error)
        else:
            if step.repeated and result:
                self.put(step)
            else:
                self._post(_settle, step.future, result)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, sqlite3.Error):
            self._reason = sqlite_file.reason_of(error)
        else:
            _logger.error("The journal cannot write", exc_info=error)
            self._reason = f"{type(error).__name__} in the thread that writes"
        self._post(self._failed, self._reason)


class _Transaction:
    """A transaction that is rolled back if it raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):  # the first error is the one to report
                    self._connection.execute("ROLLBACK")


# ---- what is written -------------------------------------------------------------------------


def _key(connection: sqlite3.Connection, session: str) -> int | None:
    query = "SELECT id FROM sessions WHERE session = ?"
    found = connection.execute(query, [as_id(session)]).fetchone()
    return None if found is None else int(found[0])


def _known_key(connection: sqlite3.Connection, session: str) -> int:
    key = _key(connection, session)
    if key is None:
        raise NotInJournal(session)
    return key


def _keys(key: int, first: int = 0, last: int = LAST_SEQ) -> tuple[int, int]:
    """The first and the last key of events of a session."""
    return key << SEQ_BITS | first, key << SEQ_BITS | last


def _count_epoch(connection: sqlite3.Connection, key: int) -> None:
    connection.execute("UPDATE heads SET epoch = epoch + 1 WHERE id = ?", [key])


def _add_texts(
    connection: sqlite3.Connection, texts: Sequence[tuple[int, str]], *, indexed: bool
) -> None:
    connection.executemany("INSERT INTO texts (id, text) VALUES (?, ?)", texts)
    if indexed:
        connection.executemany("INSERT INTO text_index (rowid, text) VALUES (?, ?)", texts)


def _remove_texts(
    connection: sqlite3.Connection, where: str, values: Sequence[Any], *, indexed: bool
) -> int:
    """Remove texts, and return how many. The index needs each text that is removed from it."""
    if indexed:
        connection.execute(
            "INSERT INTO text_index (text_index, rowid, text) "
            f"SELECT 'delete', id, text FROM texts WHERE {where}",
            values,
        )
    return connection.execute(f"DELETE FROM texts WHERE {where}", values).rowcount


def _forget_after(connection: sqlite3.Connection, key: int, seq: int, *, indexed: bool) -> None:
    """Remove the events after `seq`, whose commit was never reported."""
    keys = _keys(key, seq + 1)
    _remove_texts(connection, "id BETWEEN ? AND ?", keys, indexed=indexed)
    lost = "FROM events WHERE id BETWEEN ? AND ?"
    (size,) = connection.execute(f"SELECT total(length(body)) {lost}", keys).fetchone()
    if connection.execute(f"DELETE {lost}", keys).rowcount:
        connection.execute(
            "UPDATE heads SET head = ?, size = size - ? WHERE id = ?", [seq, int(size), key]
        )


def _folded(row: SessionRow) -> str:
    """What a search in the list of sessions looks at."""
    words = (row.session, row.agent, row.cwd, row.title, row.first_words)
    return "\n".join(words).casefold()


def _written(row: SessionRow) -> dict[str, Any]:
    """The texts and facts of a row, as they are stored."""
    names = ("agent", "cwd", "title", "first_words", "state")
    fields = {name: storable(getattr(row, name)[:LONGEST_FIELD]) for name in names}
    kept = msgspec.structs.replace(row, **fields)
    return {**fields, "facts": row.facts, "folded": _folded(kept), "session": row.session}


def _create(connection: sqlite3.Connection, row: SessionRow, now: float) -> int:
    created = _microseconds(row.created or now)
    values = {**_written(row), "created": created, "updated": _microseconds(row.updated or now)}
    key = connection.execute(
        """
        INSERT INTO sessions
            (session, agent, cwd, title, first_words, state, created, facts, folded)
        VALUES
            (:session, :agent, :cwd, :title, :first_words, :state, :created, :facts, :folded)
        """,
        values,
    ).lastrowid
    assert key is not None
    connection.execute("INSERT INTO heads VALUES (?, 0, 0, ?, 0)", [key, values["updated"]])
    return key


def _describe(connection: sqlite3.Connection, session: str, changed: Description) -> None:
    row = read_row(connection, session)
    if row is None:
        raise NotInJournal(session)
    row = msgspec.structs.replace(row, **changed)
    connection.execute(
        """
        UPDATE sessions SET agent = :agent, cwd = :cwd, title = :title,
            first_words = :first_words, state = :state, facts = :facts, folded = :folded
        WHERE session = :session
        """,
        _written(row),
    )
    if "updated" in changed:
        connection.execute(
            "UPDATE heads SET updated = ? WHERE id = ?",
            [_microseconds(changed["updated"]), _known_key(connection, session)],
        )


def _put_snapshot(connection: sqlite3.Connection, session: str, seq: int, body: bytes) -> None:
    key = _known_key(connection, session)
    (head,) = connection.execute("SELECT head FROM heads WHERE id = ?", [key]).fetchone()
    if not 0 < seq <= head:
        raise JournalRefused(f"a snapshot at {seq}", f"the session has events 1 to {head}")
    connection.execute(
        """
        INSERT INTO snapshots VALUES (?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, body = excluded.body
        WHERE excluded.seq >= seq
        """,
        [key, seq, body],
    )


def _compact(
    connection: sqlite3.Connection,
    session: str,
    first: int,
    last: int,
    kept: Mapping[int, Entry | None],
    *,
    indexed: bool,
) -> None:
    key = _known_key(connection, session)
    what = f"a compaction of {first} to {last}"
    outside = [seq for seq in kept if not first <= seq <= last]
    if outside or last not in kept or first < 1:
        raise JournalRefused(what, f"it must keep {last}, and keep nothing outside these numbers")
    keys = _keys(key, first, last)
    there = {seq: _keys(key, seq)[0] for seq in kept}
    listed = _encode(list(there.values())).decode()
    among = "id IN (SELECT value FROM json_each(?))"
    query = f"SELECT count(*) FROM events WHERE {among}"
    if connection.execute(query, [listed]).fetchone()[0] != len(kept):
        raise JournalRefused(what, "it keeps a number of which there is no event")
    size_query = "SELECT total(length(body)) FROM events WHERE id BETWEEN ? AND ?"
    (before,) = connection.execute(size_query, keys).fetchone()
    # what is left as it is keeps its text
    left = [there[seq] for seq, entry in kept.items() if entry is None]
    others = f"id BETWEEN ? AND ? AND NOT {among}"
    _remove_texts(connection, others, [*keys, _encode(left).decode()], indexed=indexed)
    connection.execute(f"DELETE FROM events WHERE {others}", [*keys, listed])
    entries = [(there[seq], entry) for seq, entry in kept.items() if entry is not None]
    connection.executemany(
        "UPDATE events SET kind = ?, body = ? WHERE id = ?",
        [(entry.kind, entry.body, key) for key, entry in entries],
    )
    texts = [(at, storable(entry.text[:LONGEST_TEXT])) for at, entry in entries if entry.text]
    _add_texts(connection, texts, indexed=indexed)
    (after,) = connection.execute(size_query, keys).fetchone()
    connection.execute("UPDATE heads SET size = size + ? WHERE id = ?", [int(after - before), key])
    _note_compaction(connection, key, first, last)


def _note_compaction(connection: sqlite3.Connection, key: int, first: int, last: int) -> None:
    """Note that numbers may be missing here; with what it touches it becomes one range."""
    touched = "FROM compactions WHERE id = ? AND first <= ? AND last >= ?"
    values = [key, last + 1, first - 1]
    found = connection.execute(f"SELECT min(first), max(last) {touched}", values).fetchone()
    if found[0] is not None:
        first, last = min(first, found[0]), max(last, found[1])
        connection.execute(f"DELETE {touched}", values)
    connection.execute("INSERT INTO compactions VALUES (?, ?, ?)", [key, first, last])


def _doom(connection: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Make sessions invisible; `_clean` removes what is left of them."""
    for key in keys:
        for table in ("sessions", "heads", "snapshots", "compactions"):
            connection.execute(f"DELETE FROM {table} WHERE id = ?", [key])
        connection.execute("INSERT INTO doomed VALUES (?)", [key])


def _expired(
    connection: sqlite3.Connection, before: int | None, cap: int | None, held: set[int]
) -> list[tuple[int, str]]:
    """The sessions to delete: those not updated since a time, and more until they fit."""
    rows = connection.execute(
        """
        SELECT id, session, updated, size + coalesce(length(body), 0)
        FROM sessions JOIN heads USING (id) LEFT JOIN snapshots USING (id)
        ORDER BY updated, id
        """
    ).fetchall()
    total = sum(size for _, _, _, size in rows)
    found = []
    for key, session, updated, size in rows:
        too_old = before is not None and updated < before
        too_much = cap is not None and total > cap
        if key not in held and (too_old or too_much):
            found.append((key, session))
            total -= size
    return found


def _clean(connection: sqlite3.Connection, *, indexed: bool) -> bool:
    """Remove some of what was deleted, or give some free pages back; False if nothing is left."""
    found = connection.execute("SELECT id FROM doomed LIMIT 1").fetchone()
    if found is None:
        return _shrink(connection)
    keys = _keys(found[0])
    for table in ("texts", "events"):
        query = f"SELECT max(id) FROM (SELECT id FROM {table} WHERE id BETWEEN ? AND ? LIMIT ?)"
        (last,) = connection.execute(query, [*keys, _SLICE]).fetchone()
        if last is not None:
            where = "id BETWEEN ? AND ?"
            if table == "texts":
                _remove_texts(connection, where, [keys[0], last], indexed=indexed)
            else:
                connection.execute(f"DELETE FROM events WHERE {where}", [keys[0], last])
            return True
    connection.execute("DELETE FROM doomed WHERE id = ?", found)
    return True


def _shrink(connection: sqlite3.Connection) -> bool:
    (before,) = connection.execute("PRAGMA freelist_count").fetchone()
    connection.execute(f"PRAGMA incremental_vacuum({_SLICE})").fetchall()
    (after,) = connection.execute("PRAGMA freelist_count").fetchone()
    return 0 < int(after) < int(before)


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


# ---- the journal -----------------------------------------------------------------------------


class SqliteJournal(SqliteReader):
    """A `Journal` in a SQLite file. Make it with `open`, and close it at the end."""

    def __init__(
        self,
        file: sqlite_file.OpenFile,
        most_waiting: int,
        on_failure: Callable[[JournalFailed], None] | None,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(file.path)
        self._most_waiting = most_waiting
        self._on_failure = on_failure
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, _OpenSession] = {}
        self._states: WeakSet[_OpenSession] = WeakSet()  # those that are being closed, too
        self._failure: JournalFailed | None = None
        self._resuming = asyncio.Lock()
        self._waiting = 0  # bytes
        self._queued = 0  # events
        self._writable: list[asyncio.Future[None]] = []
        self._writer = _Writer(file, self._post, self._on_committed, self._on_failed)
        self._writer.start()

    @classmethod
    async def open(
        cls,
        path: str | PathLike[str],
        *,
        most_waiting: int = MOST_WAITING,
        on_failure: Callable[[JournalFailed], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open a journal to write it; its directory and file are made if they are not there.

        Args:
            path: The file.
            most_waiting: How many bytes may wait to be written before `append` refuses more.
            on_failure: Called in the event loop when nothing can be written any more, and again
                when `resume` does not help.
            clock: The time in seconds since 1970.

        Raises:
            JournalLocked: Another process writes to it.
            JournalNotPrivate: It, or its directory, belongs to someone else, or others may write
                to the directory.
            JournalTooNew: A newer Twofold wrote it.
            JournalDamaged: It is damaged, or no journal.
            JournalNotOpened: It cannot be opened for another reason.
        """
        file = await asyncio.to_thread(sqlite_file.OpenFile, Path(path))
        journal = cls(file, most_waiting, on_failure, clock)
        journal._remove_deleted()  # what a crash left
        return journal

    @property
    def failure(self) -> JournalFailed | None:
        """Why nothing can be written; None while all is well."""
        return self._failure

    @property
    def waiting(self) -> int:
        """How many bytes wait to be written, about."""
        return self._waiting

    # ---- sessions

    async def open_session(self, row: SessionRow) -> SessionRow:
        """Open a session to append to it, and create it if needed; see `Journal.open_session`."""
        if not 0 < len(row.session) <= LONGEST_ID or as_id(row.session) is None:
            reason = f"an id is valid Unicode of 1 to {LONGEST_ID} characters without NUL"
            raise JournalRefused(f"the session {row.session[:100]!r}", reason)
        _check_size("facts", row.facts)

        def work(connection: sqlite3.Connection) -> tuple[int, SessionRow]:
            key = _key(connection, row.session)
            if key is None:
                key = _create(connection, row, self._clock())
            elif key not in self._writer.held:
                _count_epoch(connection, key)
            found = read_row(connection, row.session)
            assert found is not None
            self._writer.held.add(key)
            return key, found

        key, found = await self._step(work)
        if row.session not in self._open:
            self._open[row.session] = self._opened(key, found)
        return found

    async def close_session(self, session: str) -> None:
        """Let a session be appended to no more; see `Journal.close_session`."""
        state = self._open.pop(session, None)
        if state is not None:
            await self._step(lambda connection: self._writer.held.discard(state.key))

    async def describe(self, session: str, **changed: Unpack[Description]) -> None:
        """Change fields of a session; see `Journal.describe`."""
        if unknown := changed.keys() - Description.__annotations__.keys():
            raise JournalRefused(f"the fields {sorted(unknown)}", "a session has no such fields")
        _check_size("facts", changed.get("facts", b"{}"))
        await self._step(lambda connection: _describe(connection, session, changed))

    async def delete(self, session: str) -> bool:
        """Delete a session, also if it is open; returns whether there was one."""
        self._check_writable()
        self._open.pop(session, None)

        def work(connection: sqlite3.Connection) -> bool:
            key = _key(connection, session)
            if key is None:
                return False
            _doom(connection, [key])
            self._writer.held.discard(key)
            return True

        found: bool = await self._step(work)
        if found:
            await self._remove_deleted()
        return found

    async def retain(self, keep: timedelta | None, cap: int | None) -> list[str]:
        """Delete the sessions that were not updated for the longest time; see `Journal.retain`."""
        before = None if keep is None else _microseconds(self._clock() - keep.total_seconds())

        def work(connection: sqlite3.Connection) -> list[str]:
            expired = _expired(connection, before, cap, self._writer.held)
            _doom(connection, [key for key, _ in expired])
            return [session for _, session in expired]

        deleted = await self._step(work)
        if deleted:
            await self._remove_deleted()
        return deleted

    def _remove_deleted(self) -> "asyncio.Future[bool]":
        future: asyncio.Future[bool] = self._loop.create_future()
        future.add_done_callback(_retrieve)

        def work(connection: sqlite3.Connection) -> bool:
            return _clean(connection, indexed=self._writer.indexed)

        self._writer.put(_Step(work, future, repeated=True))
        return future

    # ---- events

    def append(self, session: str, entries: Sequence[Entry]) -> Pending:
        """Append events; see `Journal.append`."""
        state = self._state(session)
        if self._waiting >= self._most_waiting:
            raise JournalBusy(self._waiting, self._most_waiting)
        entries = tuple(entries)
        first, last = state.head + 1, state.head + len(entries)
        size = _checked(entries)
        if last > LAST_SEQ:
            raise JournalRefused("an event", f"a session has at most {LAST_SEQ} events")
        if entries:
            state.head = last
            self._waiting += size
            self._queued += len(entries)
            self._writer.put(_Append(state, first, _microseconds(self._clock()), entries, size))
            if self._queued >= ENOUGH and not self._writer.urgent.is_set():
                self._writer.urgent.set()
        return Pending(first, last, state.until)

    async def committed(self, session: str, seq: int) -> None:
        """Wait until every event of a session up to `seq` is committed; see `Journal.committed`."""
        state = self._state(session)
        if seq > state.head:
            reason = f"the last event of session {session!r} is {state.head}"
            raise JournalRefused(f"to wait for event {seq}", reason)
        await state.until(seq)

    async def wait_writable(self) -> None:
        """Wait until half of what may wait is written, if `append` would refuse more now."""
        self._check_writable()
        if self._waiting >= self._most_waiting:
            future: asyncio.Future[None] = self._loop.create_future()
            self._writable.append(future)
            self._writer.urgent.set()
            await future

    async def put_snapshot(self, session: str, seq: int, body: bytes) -> None:
        """Keep a snapshot; see `Journal.put_snapshot`."""
        _check_size("a snapshot", body)
        await self._step(lambda connection: _put_snapshot(connection, session, seq, body))

    async def compact(
        self, session: str, first: int, last: int, kept: Mapping[int, Entry | None]
    ) -> None:
        """Replace events by fewer; see `Journal.compact`.

        It is one transaction, and appended events wait for it: a few milliseconds for a few
        thousand events.
        """
        kept = dict(kept)
        _checked([entry for entry in kept.values() if entry is not None])
        await self._step(
            lambda connection: _compact(
                connection, session, first, last, kept, indexed=self._writer.indexed
            )
        )

    # ---- the whole journal

    async def resume(self) -> None:
        """Write again after a failure; see `Journal.resume`."""
        async with self._resuming:
            if self._closed:
                raise JournalClosed
            if self._failure is None:
                return
            held = [_Held(each.session, each.committed) for each in self._open.values()]
            try:
                found = await self._step(lambda _: self._writer.reopen(held), plain=True)
            except JournalNotOpened as error:
                raise JournalFailed(str(self.path), error.reason.rstrip(".")) from error
            self._open = {session: self._opened(key, row) for session, (key, row) in found.items()}
            self._failure = None
            self._remove_deleted()  # what the failure left

    async def close(self) -> None:
        """Write what waits, and close the file; does nothing if it is closed."""
        if self._closed:
            return
        try:
            await super().close()  # SQLite removes the log when the last connection is closed
        finally:
            self._writer.put(None)
            await asyncio.to_thread(self._writer.join)

    def _opened(self, key: int, row: SessionRow) -> _OpenSession:
        state = _OpenSession(row.session, key, row, self._writer.urgent)
        self._states.add(state)
        return state

    def _check_writable(self) -> None:
        if self._closed:
            raise JournalClosed
        if self._failure is not None:
            raise self._failure

    def _state(self, session: str) -> _OpenSession:
        self._check_writable()
        try:
            return self._open[session]
        except KeyError:
            raise SessionNotOpen(session) from None

    async def _step(self, work: Callable[[sqlite3.Connection], T], *, plain: bool = False) -> T:
        """The result of `work`, which the thread does after everything that is queued."""
        if not plain:
            self._check_writable()
        future: asyncio.Future[T] = self._loop.create_future()
        self._writer.put(_Step(work, future, plain=plain))
        return await future

    # ---- called by the thread, in the event loop

    def _post(self, function: Callable[..., None], *values: Any, **named: Any) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(lambda: function(*values, **named))

    def _on_committed(self, heads: dict[_OpenSession, int], events: int, size: int) -> None:
        self._waiting -= size
        self._queued -= events
        for state, head in heads.items():
            state.commit(head)
        if self._writable and self._waiting <= self._most_waiting // 2:
            self._release()

    def _on_failed(self, reason: str) -> None:
        self._failure = JournalFailed(str(self.path), reason)
        self._waiting = self._queued = 0
        for state in self._states:
            state.fail(self._failure)
        self._release()
        if self._on_failure is not None:
            try:
                self._on_failure(self._failure)
            except Exception:
                _logger.exception("The on_failure callback raised")

    def _release(self) -> None:
        for each in self._writable:
            _settle(each, error=self._failure)
        self._writable.clear()


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """What was left is removed when the journal is opened again: no error needs to be seen."""
    if not future.cancelled():
        future.exception()


def _check_size(what: str, body: bytes) -> None:
    if len(body) > LARGEST_BODY:
        reason = f"it has {len(body)} bytes, and the limit is {LARGEST_BODY}"
        raise JournalRefused(what, reason)


def _checked(entries: Sequence[Entry]) -> int:
    """What the entries take in memory, about; raises `JournalRefused`."""
    size = 0
    for kind, body, text in entries:
        if not (0 < len(kind) <= LONGEST_KIND and kind.isascii()):
            reason = f"a kind has 1 to {LONGEST_KIND} ASCII characters"
            raise JournalRefused(f"the kind {kind[:100]!r}", reason)
        if not 0 < len(body) <= LARGEST_BODY:
            reason = f"it has {len(body)} bytes, and may have 1 to {LARGEST_BODY}"
            raise JournalRefused(f"the body of an event of kind {kind!r}", reason)
        size += len(kind) + len(body) + 4 * len(text) + _OVERHEAD
    if size > LARGEST_APPEND:
        raise JournalRefused(f"{size} bytes at once", f"the limit is {LARGEST_APPEND}")
    return size
