"""A journal in SQLite, beside bare `sqlite3` and beside a file that is synced.

`python -m benchmarks.journaling` measures this topic alone.
"""

import asyncio
import os
import random
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from benchmarks import inputs
from benchmarks.page import share
from benchmarks.table import Amount, Row, Target, Topic, as_text, at_most, below
from twofold.journal.journal import Entry, SessionRow
from twofold.journal.sqlite import SqliteJournal

COUNT = 100_000
PACE = 65_000
"""Events a second, for the time until a commit."""

_PASSES = 3
_SINGLE = 1_000
_BATCH = 100
_SECONDS = 2.0
_TICK = 0.001
_WORDS = 20
"""In the text of a message."""
_MESSAGES = 10_000


class _Paced(NamedTuple):
    """Seconds until commits, and how many events a second there really were."""

    waits: list[float]
    rate: float


def measure() -> Topic:
    """Everything by turns, each time with fresh files."""
    bodies = [_update(line) for line in inputs.chunks(COUNT)]
    bulk = _Turns({"ours": _append_all, "sqlite3": _insert_all, "file": _write_all}, bodies)
    single = _Turns({"ours": _one_by_one, "sqlite3": _insert_each, "file": _write_each}, bodies)
    replay = _Turns({"ours": _replay, "sqlite3": _fetch}, bodies)
    paced: dict[str, list[_Paced]] = {"ours": [], "sqlite3": []}
    for _ in range(_PASSES):
        for each in (bulk, single, replay):
            each.go()
        with _directory() as place:
            paced["ours"].append(asyncio.run(_append_paced(place, bodies)))
        with _directory() as place:
            paced["sqlite3"].append(_insert_paced(place, bodies))
    return Topic(
        "journal", _how(bulk, bodies), [*_rows(bulk, single, replay, paced), *_sizes(bodies)]
    )


def _update(line: bytes) -> bytes:
    """The update of a notification, as a journal keeps it."""
    return msgspec.json.encode(msgspec.json.decode(line)["params"]["update"])


class _Turns:
    """Contestants that do the same, and the shortest time of each."""

    def __init__(
        self, contestants: dict[str, Callable[[Path, list[bytes]], float]], bodies: list[bytes]
    ) -> None:
        self.best: dict[str, float] = {}
        self._contestants = contestants
        self._bodies = bodies

    def go(self) -> None:
        for name, work in self._contestants.items():
            with _directory() as place:
                seconds = work(place, self._bodies)
            self.best[name] = min(seconds, self.best.get(name, seconds))

    def ours(self) -> Amount:
        return Amount(self.best["ours"])

    def beside(self, name: str) -> Amount:
        return Amount(self.best[name], whose=name)


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# ---- the journal -----------------------------------------------------------------------------


@asynccontextmanager
async def _journal(place: Path) -> AsyncIterator[SqliteJournal]:
    async with await SqliteJournal.open(place / "journal.db") as journal:
        await journal.open_session(SessionRow(session="s"))
        yield journal


def _run(work: Coroutine[Any, Any, float]) -> float:
    return asyncio.run(work)


def _append_all(place: Path, bodies: list[bytes]) -> float:
    async def work() -> float:
        async with _journal(place) as journal:
            start = perf_counter()
            for number, body in enumerate(bodies):
                if number % _BATCH == 0:
                    await asyncio.sleep(0)  # the event loop goes on
                last = journal.append("s", [Entry("update", body)])
            await last
            return perf_counter() - start

    return _run(work())


def _one_by_one(place: Path, bodies: list[bytes]) -> float:
    async def work() -> float:
        async with _journal(place) as journal:
            start = perf_counter()
            for body in bodies[:_SINGLE]:
                await journal.append("s", [Entry("update", body)])
            return (perf_counter() - start) / _SINGLE

    return _run(work())


def _replay(place: Path, bodies: list[bytes]) -> float:
    async def work() -> float:
        async with _journal(place) as journal:
            await journal.append("s", [Entry("update", body) for body in bodies])
            start = perf_counter()
            read = [event.body async for batch in journal.read("s") for event in batch]
            seconds = perf_counter() - start
            assert read == bodies
            return seconds

    return _run(work())


async def _append_paced(place: Path, bodies: list[bytes]) -> _Paced:
    """Append what is due once a millisecond; the time is from there to the commit of all of it."""
    waits: list[float] = []

    async def wait(start: float, pending: Any) -> None:
        await pending
        waits.append(perf_counter() - start)

    async with _journal(place) as journal, asyncio.TaskGroup() as tasks:
        count, begin = 0, perf_counter()
        while (now := perf_counter()) - begin < _SECONDS:
            due = int((now - begin) * PACE) - count
            for number in range(count, count + due):
                pending = journal.append("s", [Entry("update", bodies[number % COUNT])])
            if due:
                tasks.create_task(wait(now, pending))
            count += due
            await asyncio.sleep(_TICK)
        await pending
        rate = count / (perf_counter() - begin)
    return _Paced(waits, rate)


# ---- bare sqlite3 ----------------------------------------------------------------------------


@contextmanager
def _database(place: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(place / "floor.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE events (id INTEGER PRIMARY KEY, session INTEGER, seq INTEGER, "
            "epoch INTEGER, at REAL, kind TEXT, body BLOB, UNIQUE (session, seq))"
        )
        yield connection


def _insert(connection: sqlite3.Connection, first: int, bodies: list[bytes]) -> None:
    rows = [(1, seq, 0, 1.8e9, "update", body) for seq, body in enumerate(bodies, first)]
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO events (session, seq, epoch, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)", rows
    )
    connection.execute("COMMIT")


def _insert_all(place: Path, bodies: list[bytes]) -> float:
    with _database(place) as connection:
        start = perf_counter()
        for first in range(0, len(bodies), _BATCH):
            _insert(connection, first + 1, bodies[first : first + _BATCH])
        return perf_counter() - start


def _insert_each(place: Path, bodies: list[bytes]) -> float:
    with _database(place) as connection:
        start = perf_counter()
        for seq, body in enumerate(bodies[:_SINGLE], 1):
            _insert(connection, seq, [body])
        return (perf_counter() - start) / _SINGLE


def _fetch(place: Path, bodies: list[bytes]) -> float:
    with _database(place) as connection:
        _insert(connection, 1, bodies)
        start = perf_counter()
        query = "SELECT seq, epoch, at, kind, body FROM events WHERE session = 1 ORDER BY seq"
        read = connection.execute(query).fetchall()
        seconds = perf_counter() - start
        assert len(read) == len(bodies)
        return seconds


def _insert_paced(place: Path, bodies: list[bytes]) -> _Paced:
    """The same pace, in the same thread: what is due is committed before more is looked at."""
    waits: list[float] = []
    with _database(place) as connection:
        count, begin = 0, perf_counter()

        async def work() -> None:
            nonlocal count
            while (now := perf_counter()) - begin < _SECONDS:
                due = int((now - begin) * PACE) - count
                if due:
                    some = [bodies[number % COUNT] for number in range(count, count + due)]
                    _insert(connection, count + 1, some)
                    waits.append(perf_counter() - now)
                count += due
                await asyncio.sleep(_TICK)

        asyncio.run(work())
        return _Paced(waits, count / (perf_counter() - begin))


# ---- a file ----------------------------------------------------------------------------------


def _write(place: Path, bodies: list[bytes], size: int) -> float:
    with (place / "floor.jsonl").open("wb", buffering=0) as file:
        start = perf_counter()
        for first in range(0, len(bodies), size):
            file.write(b"".join(body + b"\n" for body in bodies[first : first + size]))
            os.fdatasync(file.fileno())
        return perf_counter() - start


def _write_all(place: Path, bodies: list[bytes]) -> float:
    return _write(place, bodies, _BATCH)


def _write_each(place: Path, bodies: list[bytes]) -> float:
    return _write(place, bodies[:_SINGLE], 1) / _SINGLE


# ---- sizes -----------------------------------------------------------------------------------


def _sizes(bodies: list[bytes]) -> list[Row]:
    with _directory() as place:
        asyncio.run(_keep(place, [[Entry("update", body) for body in bodies]]))
        ours = (place / "journal.db").stat().st_size / len(bodies)
    with _directory() as place:
        _insert_all(place, bodies)
        theirs = (place / "floor.db").stat().st_size / len(bodies)
    chance = random.Random(1)
    words = [f"{chance.choice('bcdfglmnprst')}{number:x}" for number in range(5_000)]
    texts = [" ".join(chance.choices(words, k=_WORDS)) for _ in range(_MESSAGES)]
    sizes = []
    for searched in (True, False):
        messages = [Entry("update", b'"%s"' % each.encode(), each * searched) for each in texts]
        with _directory() as place:
            asyncio.run(_keep(place, [messages]))
            sizes.append((place / "journal.db").stat().st_size / _MESSAGES)
    return [
        Row(
            "journal: bytes of an event",
            Amount(ours, "B"),
            Amount(theirs, "B", "sqlite3"),
            None,
            at_most(1, "sqlite3"),
        ),
        Row(
            f"journal: bytes of a message of {_WORDS} words",
            Amount(sizes[0], "B", "searched"),
            Amount(sizes[1], "B", "not searched"),
        ),
    ]


async def _keep(place: Path, appends: list[list[Entry]]) -> None:
    async with _journal(place) as journal:
        for each in appends:
            await journal.append("s", each)


# ---- the table -------------------------------------------------------------------------------


def _rows(
    bulk: _Turns, single: _Turns, replay: _Turns, paced: dict[str, list[_Paced]]
) -> Iterator[Row]:
    for name in ("sqlite3", "file"):
        yield Row(f"journal: {COUNT:,} events, beside {name}", bulk.ours(), bulk.beside(name))
    for percent, target in ((50, None), (99, Target("≤ 10 ms", 0.01, "unit"))):
        ours = [share(each.waits, percent) for each in paced["ours"]]
        theirs = [share(each.waits, percent) for each in paced["sqlite3"]]
        rate = median([each.rate for each in paced["ours"]])
        yield Row(
            f"journal: {rate:,.0f} events a second, commit p{percent}",
            Amount(median(ours)),
            Amount(median(theirs), whose="sqlite3"),
            None,
            target,
            "" if rate > 60_000 else "less than 60,000 events a second",
        )
    for name in ("sqlite3", "file"):
        yield Row(f"journal: one by one, beside {name}", single.ours(), single.beside(name))
    yield Row(
        f"journal: replay of {COUNT:,} events",
        replay.ours(),
        replay.beside("sqlite3"),
        None,
        below(0.5, "s"),
    )


def _how(bulk: _Turns, bodies: list[bytes]) -> str:
    rates = ", ".join(
        f"{name if name != 'ours' else 'Twofold'} {COUNT / each:,.0f}"
        for name, each in bulk.best.items()
    )
    size = sum(map(len, bodies)) / len(bodies)
    return (
        f"events of {size:.0f} B, each appended by itself, wall time, the shortest of {_PASSES} "
        f"turns; the event loop has its turn after each {_BATCH} of them. sqlite3: `executemany` "
        f"of {_BATCH} rows in a transaction, in a table with `UNIQUE (session, seq)`, WAL and "
        f"`synchronous=FULL` as the journal. File: a write of {_BATCH} lines and `fdatasync`. "
        f"Events a second: {rates}. Commit: once a millisecond what is due is appended, until all "
        "of it is committed; sqlite3 does that in the thread of the event loop, which waits; the "
        f"median of {_PASSES} turns of {_SECONDS:g} s. One by one: the next event when the last is "
        f"committed, {_SINGLE:,} times. Replay: into `Event` in batches; sqlite3: `fetchall`. "
        "Bytes: of the closed file, per event."
    )


if __name__ == "__main__":
    print(as_text([measure()]))
