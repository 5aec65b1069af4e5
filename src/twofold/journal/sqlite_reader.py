"""Reads a SQLite journal, also while another process writes to it.

Queries run in threads, so the event loop goes on, and never more than two at a time. A batch of
events is a few megabytes at most, unless one event is larger. Nothing is locked between batches.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from twofold.journal import sqlite_file
from twofold.journal.journal import (
    Event,
    Fault,
    Hit,
    JournalClosed,
    NotInJournal,
    SessionRow,
    Snapshot,
)
from twofold.journal.sqlite_file import LAST_SEQ, SEQ_BITS
from twofold.text import one_line

T = TypeVar("T")

BATCH: Final = 1_000
"""How many events are read at once."""
BATCH_BYTES: Final = 1024 * 1024
"""After so many bytes a batch ends."""
SCANNED: Final = 100_000
"""How many of the newest texts are searched without an index."""
FAULTS: Final = 1_000
"""How many faults are reported."""
_THREADS: Final = 2
_LONGEST_QUERY: Final = 1_000
_MOST_WORDS: Final = 32
_EXCERPT: Final = 60
"""How many characters are shown before and after what was found."""
_WORD: Final = re.compile(r"\w+")

_SELECT_ROWS: Final = """
    SELECT session, agent, cwd, title, first_words, state, created, updated, head,
        coalesce(seq, 0), size, epoch, facts
    FROM sessions JOIN heads USING (id) LEFT JOIN snapshots USING (id)
"""
_SELECT_EVENTS: Final = f"""
    SELECT id & {LAST_SEQ}, at, kind, body, epoch FROM events
    WHERE id > ? AND id <= ? AND EXISTS (SELECT 1 FROM sessions WHERE id = ?)
    ORDER BY id LIMIT ?
"""


class SqliteReader:
    """A `JournalReader` of a SQLite file. Make it with `open`.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(_THREADS, "twofold-journal-read")
        self._closed = False

    @classmethod
    async def open(cls, path: str | PathLike[str]) -> Self:
        """Open a journal to read it.

        Raises:
            JournalNotOpened: There is none, a newer Twofold wrote it, or it is damaged.
        """
        reader = cls(Path(path))
        try:
            await reader._query(lambda connection: None)
        except BaseException:
            await reader.close()
            raise
        return reader

    async def __aenter__(self) -> Self:
        """Return the journal itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the journal."""
        await self.close()

    async def sessions(
        self, *, limit: int = 100, offset: int = 0, search: str = ""
    ) -> list[SessionRow]:
        """Return sessions, the last updated first; see `JournalReader.sessions`."""
        where = "WHERE instr(folded, ?)" if search else ""
        words = [storable(search).casefold()] if search else []
        order = "ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?"
        values = [*words, max(0, limit), max(0, offset)]
        return await self._query(
            lambda connection: [
                _row(found)
                for found in connection.execute(f"{_SELECT_ROWS} {where} {order}", values)
            ]
        )

    async def session(self, session: str) -> SessionRow | None:
        """Return a session; None for an unknown id."""
        return await self._query(lambda connection: read_row(connection, session))

    async def read(
        self, session: str, after: int = 0, limit: int | None = None
    ) -> AsyncIterator[list[Event]]:
        """Return the events of a session in batches; see `JournalReader.read`."""
        found = await self._query(lambda connection: _key_and_head(connection, session))
        if found is None:
            raise NotInJournal(session)
        key, head = found
        after = max(after, 0)
        while after < head and (limit is None or limit > 0):
            count = BATCH if limit is None else min(limit, BATCH)
            events = await self._query(partial(_events, key, after, head, count))
            if not events:  # the session was deleted meanwhile
                return
            after = events[-1].seq
            limit = None if limit is None else limit - len(events)
            yield events

    async def snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot of a session; None if it has none or is unknown."""

        def query(connection: sqlite3.Connection) -> Snapshot | None:
            found = connection.execute(
                "SELECT seq, body FROM sessions JOIN snapshots USING (id) WHERE session = ?",
                [as_id(session)],
            ).fetchone()
            return None if found is None else Snapshot(*found)

        return await self._query(query)

    async def search(self, text: str, limit: int = 50) -> list[Hit]:
        """Return events by the words of their text; see `JournalReader.search`."""
        words = _WORD.findall(storable(text[:_LONGEST_QUERY]))[:_MOST_WORDS]
        if not words or limit < 1:
            return []
        return await self._query(lambda connection: _hits(connection, words, limit))

    async def check(self) -> list[Fault]:
        """Read the whole journal, and return the first thousand things that are wrong with it."""
        return await self._query(_check, report=False)

    async def close(self) -> None:
        """Wait until what is being read is read, and close the file."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()

    async def _query(self, query: Callable[[sqlite3.Connection], T], *, report: bool = True) -> T:
        """The result of a query in a thread. `report`: raise SQLite's errors as ours."""
        if self._closed:
            raise JournalClosed
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._in_thread, query, report)

    def _in_thread(self, query: Callable[[sqlite3.Connection], T], report: bool) -> T:
        connection = None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = sqlite_file.open_to_read(self.path)
            return query(connection)
        except sqlite3.Error as error:
            if not report:
                raise
            raise sqlite_file.as_not_opened(self.path, error) from error
        finally:
            if connection is not None:
                self._idle.append(connection)


def storable(text: str) -> str:
    """The text without half a surrogate pair, which UTF-8 cannot have, and NUL, where LIKE ends."""
    text = text.replace("\0", " ")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def as_id(session: str) -> str | None:
    """The id to look for; None, which is found nowhere, for one that cannot be stored."""
    return session if storable(session) == session else None


def read_row(connection: sqlite3.Connection, session: str) -> SessionRow | None:
    """A session by its id; None if it is unknown."""
    found = connection.execute(f"{_SELECT_ROWS} WHERE session = ?", [as_id(session)]).fetchone()
    return None if found is None else _row(found)


def _row(found: tuple[Any, ...]) -> SessionRow:
    session, agent, cwd, title, first_words, state, created, updated = found[:8]
    head, snapshot, size, epoch, facts = found[8:]
    return SessionRow(
        session=session,
        agent=agent,
        cwd=cwd,
        title=title,
        first_words=first_words,
        state=state,
        created=created / 1e6,
        updated=updated / 1e6,
        head=head,
        snapshot=snapshot,
        size=size,
        epoch=epoch,
        facts=facts,
    )


def _key_and_head(connection: sqlite3.Connection, session: str) -> tuple[int, int] | None:
    query = "SELECT id, head FROM sessions JOIN heads USING (id) WHERE session = ?"
    found: tuple[int, int] | None = connection.execute(query, [as_id(session)]).fetchone()
    return found


def _events(
    key: int, after: int, last: int, count: int, connection: sqlite3.Connection
) -> list[Event]:
    """The next events, up to the limits of a batch; none if the session is gone."""
    start = key << SEQ_BITS
    size, events = 0, []
    rows = connection.execute(_SELECT_EVENTS, [start | after, start | last, key, count])
    for seq, at, kind, body, epoch in rows:
        events.append(Event(seq, at / 1e6, kind, body, epoch))
        size += len(body)
        if size >= BATCH_BYTES:
            break
    rows.close()
    return events


# ---- search ----------------------------------------------------------------------------------


def _hits(connection: sqlite3.Connection, words: list[str], limit: int) -> list[Hit]:
    if sqlite_file.has_index(connection):
        # in quotes, a word is never an operator
        query = " ".join(f'"{word}"' for word in words) + "*"
        rows = connection.execute(
            f"""
            SELECT session, text_index.rowid & {LAST_SEQ},
                snippet(text_index, 0, '', '', '…', 24)
            FROM text_index JOIN sessions ON sessions.id = text_index.rowid >> {SEQ_BITS}
            WHERE text_index MATCH ? ORDER BY text_index.rowid DESC LIMIT ?
            """,
            [query, limit],
        )
        return [Hit(session, seq, one_line(text)) for session, seq, text in rows]
    conditions = " AND ".join(["text LIKE ?"] * len(words))
    rows = connection.execute(
        f"""
        SELECT session, found.id & {LAST_SEQ}, text
        FROM (SELECT id, text FROM texts ORDER BY id DESC LIMIT {SCANNED}) AS found
        JOIN sessions ON sessions.id = found.id >> {SEQ_BITS}
        WHERE {conditions} ORDER BY found.id DESC LIMIT ?
        """,
        [*(f"%{word.replace('_', '%')}%" for word in words), limit],
    )
    return [Hit(session, seq, _excerpt(text, words[-1])) for session, seq, text in rows]


def _excerpt(text: str, word: str) -> str:
    at = max(0, text.lower().find(word.lower()))
    start, end = max(0, at - _EXCERPT), at + len(word) + _EXCERPT
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return f"{before}{one_line(text[start:end])}{after}"


# ---- check -----------------------------------------------------------------------------------


def _check(connection: sqlite3.Connection) -> list[Fault]:
    """The faults, up to the limit; what SQLite cannot read is one of them."""
    faults: list[Fault] = []
    connection.execute("BEGIN")  # one state of the file, whatever is written meanwhile
    try:
        for examine in (_damage, _session_faults, _strays, _index_faults):
            try:
                for fault in examine(connection):
                    faults.append(fault)
                    if len(faults) == FAULTS:
                        return faults
            except sqlite3.Error as error:
                faults.append(Fault("", f"reading stopped: {sqlite_file.reason_of(error)}"))
    finally:
        connection.execute("ROLLBACK")
    return faults


def _damage(connection: sqlite3.Connection) -> Iterator[Fault]:
    for (text,) in connection.execute(f"PRAGMA integrity_check({FAULTS})"):
        if text != "ok":
            yield Fault("", str(text))


def _session_faults(connection: sqlite3.Connection) -> Iterator[Fault]:
    for key, session in connection.execute("SELECT id, session FROM sessions ORDER BY id"):
        row = read_row(connection, session)
        if row is None:
            yield Fault(session, "it has no head")
            continue
        yield from (Fault(session, text) for text in _faults_of(connection, key, row))


def _faults_of(connection: sqlite3.Connection, key: int, row: SessionRow) -> Iterator[str]:
    start = key << SEQ_BITS
    gone = connection.execute(
        "SELECT first, last FROM compactions WHERE id = ? ORDER BY first", [key]
    ).fetchall()
    last = size = 0
    bodies = connection.execute(
        f"SELECT id & {LAST_SEQ}, body FROM events WHERE id BETWEEN ? AND ? ORDER BY id",
        [start, start | LAST_SEQ],
    )
    for seq, body in bodies:
        if seq != last + 1 and not _covered(gone, last + 1, seq - 1):
            yield f"events {last + 1} to {seq - 1} are missing"
        if not _is_json(body):
            yield f"event {seq} is not JSON"
        last, size = seq, size + len(body)
    if last != row.head:
        yield f"its last event is {last}, and its head is {row.head}"
    if size != row.size:
        yield f"its events have {size} bytes, and its size is {row.size}"
    if row.snapshot > row.head:
        yield f"its snapshot includes event {row.snapshot}, and its head is {row.head}"
    if not _is_json(row.facts):
        yield "its facts are not JSON"


def _covered(gone: list[tuple[int, int]], first: int, last: int) -> bool:
    """Whether all these numbers belong to compactions."""
    for start, end in gone:
        if start <= first <= end:
            first = end + 1
    return first > last


def _is_json(body: Any) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, TypeError):
        pass
    else:
        return True
    try:
        json.loads(body)  # half a surrogate pair, which msgspec refuses
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _strays(connection: sqlite3.Connection) -> Iterator[Fault]:
    """Rows that belong to no session, and to none that is being deleted."""
    known = "(SELECT id FROM sessions UNION ALL SELECT id FROM doomed)"
    for table, key in (
        ("events", f"id >> {SEQ_BITS}"),
        ("texts", f"id >> {SEQ_BITS}"),
        ("snapshots", "id"),
        ("compactions", "id"),
        ("heads", "id"),
    ):
        query = f"SELECT count(*) FROM {table} WHERE {key} NOT IN {known}"
        (count,) = connection.execute(query).fetchone()
        if count:
            yield Fault("", f"{count} rows of the table {table} belong to no session")


def _index_faults(connection: sqlite3.Connection) -> Iterator[Fault]:
    if not sqlite_file.has_index(connection):
        return
    query = "SELECT (SELECT count(*) FROM texts), (SELECT count(*) FROM text_index_docsize)"
    texts, indexed = connection.execute(query).fetchone()
    if texts != indexed:
        yield Fault("", f"{texts} texts are kept, and {indexed} are in their index")
