"""A journal in a SQLite file: full disks, damaged files, the search, and how it shares the loop."""

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.journals import bodies, entries, events, opened
from tests.support.real_time import in_real_time, run
from twofold.journal import sqlite, sqlite_file, sqlite_reader
from twofold.journal.journal import (
    Entry,
    JournalDamaged,
    JournalFailed,
    JournalLocked,
    JournalReader,
    SessionRow,
)
from twofold.journal.sqlite import SqliteJournal
from twofold.journal.sqlite_reader import SqliteReader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "journal.db"


@asynccontextmanager
async def journal_at(path: Path, *sessions: str, **options: Any) -> AsyncIterator[SqliteJournal]:
    async with await SqliteJournal.open(path, **options) as journal:
        await opened(journal, *sessions)
        yield journal


def change(path: Path, *statements: str) -> None:
    """Change a closed journal behind its back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in statements:
            connection.execute(each)


def pages(path: Path) -> int:
    """How many pages a closed journal has."""
    return path.stat().st_size // 4096


def overwrite(path: Path) -> None:
    """Overwrite half of the pages of a closed journal."""
    count = pages(path)
    with path.open("r+b") as file:
        for page in range(count // 2, count - 4):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)


async def faults(path: Path) -> list[str]:
    async with await SqliteReader.open(path) as reader:
        return [str(fault) for fault in await reader.check()]


# ---- disks that are full


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond this size meanwhile, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def fill(journal: SqliteJournal) -> int:
    """Append until that fails, and return the number of the last event that was committed."""
    committed = 0
    while journal.failure is None:
        pending = journal.append("s", entries("x" * 10_000))
        with suppress(JournalFailed):
            await pending
            committed = pending.last
    return committed


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory in a file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("only a privileged user can mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@in_real_time
async def test_a_full_disk_fails_what_is_pending_and_loses_nothing_committed(path: Path) -> None:
    failures: list[JournalFailed] = []
    async with journal_at(path, "s", on_failure=failures.append) as journal:
        await journal.append("s", [Entry("update", b"{}", "needle")])
        with limited(300_000):
            committed = await fill(journal)
            assert committed > 1
            assert journal.failure is not None
            assert failures == [journal.failure]
            for work in (
                journal.describe("s", title="x"),
                journal.delete("s"),
                journal.committed("s", committed),
                journal.wait_writable(),
                journal.open_session(SessionRow(session="t")),
            ):
                with pytest.raises(JournalFailed, match="reading or writing fails"):
                    await work
            with pytest.raises(JournalFailed, match=r"journal\.db cannot be written"):
                journal.append("s", entries("1"))
            # what was committed can be read
            assert len(await events(journal, "s")) == committed
            assert len(await journal.search("needle")) == 1
        await journal.resume()
        assert [journal.failure] == [None]
        row = await journal.session("s")
        assert row is not None
        assert (row.head, row.epoch) == (committed, 1)
        assert journal.append("s", entries("next")).first == committed + 1
        await journal.committed("s", committed + 1)
        assert await journal.check() == []
    async with journal_at(path) as journal:
        found = await events(journal, "s")
        assert (found[-1].body, found[-1].epoch) == (b'"next"', 1)


@in_real_time
async def test_what_was_pending_is_not_there_after_a_failure(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        before = journal.append("s", entries("1"))
        await before
        with limited(200_000):
            pending = [journal.append("s", entries("x" * 100_000)) for _ in range(5)]
            closing_session = asyncio.ensure_future(journal.close_session("s"))
            results = await asyncio.gather(
                *[each.committed() for each in pending], return_exceptions=True
            )
            with pytest.raises(JournalFailed):
                await closing_session
        assert {type(each) for each in results} == {JournalFailed}
        await journal.resume()
        await before  # it is committed, whatever came later
        with pytest.raises(JournalFailed):
            await pending[0]
        assert bodies(await events(journal, "s")) == [(1, b'"1"')]
        assert (await journal.open_session(SessionRow(session="s"))).head == 1


@in_real_time
async def test_a_callback_that_raises_is_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(failure: JournalFailed) -> None:
        raise ValueError

    async with journal_at(path, "s", on_failure=failing) as journal:
        with limited(200_000):
            await fill(journal)
    assert "The on_failure callback raised" in caplog.text


@in_real_time
async def test_a_journal_resumes_when_there_is_room_again(small: Path) -> None:
    ballast = small / "ballast"
    ballast.write_bytes(bytes(400_000))
    async with journal_at(small / "journal.db", "s") as journal:
        assert await fill(journal) > 1
        assert "the disk is full" in str(journal.failure)
        for _ in range(5):  # what SQLite cleans up gives a little room
            with suppress(JournalFailed):
                await journal.resume()
                await fill(journal)
        assert "the disk is full" in str(journal.failure)
        ballast.unlink()
        await journal.resume()
        row = await journal.session("s")
        assert row is not None
        await journal.append("s", entries("next"))
        numbers = [event.seq for event in await events(journal, "s")]
        assert numbers == list(range(1, row.head + 2))
        assert await journal.check() == []


@in_real_time
async def test_events_whose_commit_was_reported_as_lost_do_not_come_back(path: Path) -> None:
    """SQLite may fail after it has written a commit: then the event is in the file."""
    async with journal_at(path, "s") as journal:
        await journal.append("s", [Entry("update", b"{}", "needle")])
        execute = journal._writer._execute

        def failing(batch: Any) -> None:
            execute(batch)
            raise sqlite3.OperationalError("disk I/O error")

        journal._writer._execute = failing  # type: ignore[method-assign]
        with pytest.raises(JournalFailed, match="disk I/O error"):
            await journal.append("s", [Entry("update", b"[]", "needle")])
        journal._writer._execute = execute  # type: ignore[method-assign]
        assert len(await events(journal, "s")) == 2
        await journal.resume()
        assert bodies(await events(journal, "s")) == [(1, b"{}")]
        assert len(await journal.search("needle")) == 1
        assert await journal.check() == []


@in_real_time
async def test_a_mistake_of_the_caller_does_not_fail_the_journal(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        wrong: Any = object()
        with pytest.raises(TypeError):
            await journal.describe("s", title=wrong)
        await journal.append("s", entries("1"))


# ---- files that are damaged


@in_real_time
async def test_a_damaged_file_is_reported_by_its_check_and_by_readers(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        await journal.append("s", entries(*["x" * 1_000] * 200))
    overwrite(path)
    assert any("reading stopped: the file is damaged" in each for each in await faults(path))
    async with await SqliteReader.open(path) as reader:
        with pytest.raises(JournalDamaged, match="Restore a copy"):
            await events(reader, "s")
    async with await SqliteJournal.open(path) as journal:
        with pytest.raises(JournalFailed, match="the file is damaged"):
            await journal.compact("s", 1, 190, {190: None})
        assert journal.failure is not None


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("DELETE FROM events WHERE id & 7 IN (2, 3)", "events 2 to 3 are missing"),
        ("DELETE FROM events WHERE id & 7 = 5", "its last event is 4, and its head is 5"),
        ("UPDATE events SET body = '{' WHERE id & 7 = 3", "event 3 is not JSON"),
        ("UPDATE heads SET size = 7", "its events have 15 bytes, and its size is 7"),
        ("UPDATE snapshots SET seq = 6", "its snapshot includes event 6, and its head is 5"),
        ("UPDATE sessions SET facts = 'x'", "its facts are not JSON"),
        ("DELETE FROM heads", "it has no head"),
    ],
)
@in_real_time
async def test_the_check_names_what_is_wrong_with_a_session(
    path: Path, damage: str, fault: str
) -> None:
    async with journal_at(path, "s") as journal:
        await journal.append("s", entries(*"abcde"))
        await journal.put_snapshot("s", 5, b"{}")
    assert await faults(path) == []
    change(path, damage)
    assert f"session 's': {fault}" in await faults(path)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("DELETE FROM sessions", "2 rows of the table events belong to no session"),
        ("DELETE FROM texts", "0 texts are kept, and 1 are in their index"),
    ],
)
@in_real_time
async def test_the_check_names_what_is_wrong_with_the_file(
    path: Path, damage: str, fault: str
) -> None:
    async with journal_at(path, "s") as journal:
        await journal.append("s", [*entries("a"), Entry("update", b"{}", "text")])
    change(path, damage)
    assert fault in await faults(path)


@in_real_time
async def test_a_gap_that_no_compaction_explains_is_a_fault(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        journal.append("s", entries(*"abcdefgh"))
        await journal.compact("s", 2, 4, {4: None})
        await journal.compact("s", 6, 7, {7: None})
    assert await faults(path) == []
    change(path, "DELETE FROM events WHERE id & 15 IN (4, 5)")
    assert await faults(path) == [
        "session 's': events 2 to 6 are missing",
        "session 's': its events have 9 bytes, and its size is 15",
    ]


@in_real_time
async def test_so_many_faults_are_reported_and_no_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with journal_at(path, "s") as journal:
        await journal.append("s", entries(*"abcdefgh"))
    change(path, "UPDATE events SET body = '{'")
    monkeypatch.setattr(sqlite_reader, "FAULTS", 3)
    assert len(await faults(path)) == 3


# ---- search


@in_real_time
async def test_the_search_works_without_fts5_and_with_it_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(journal: JournalReader, text: str) -> list[int]:
        return [hit.seq for hit in await journal.search(text)]

    async with journal_at(path, "s") as journal:
        await journal.append("s", [Entry("update", b"{}", "The first Needle")])
    with monkeypatch.context() as without:
        without.setattr(sqlite_file, "has_fts5", lambda connection: False)
        async with journal_at(path, "s") as journal:
            await journal.append("s", [Entry("update", b"{}", "the second\nneedle, 100 %")])
            assert await found(journal, "need") == [2, 1]
            assert await found(journal, "first needle") == [1]
            assert await found(journal, "%") == []
            (hit,) = await journal.search("second")
            assert hit.excerpt == "the second needle, 100 %"
            monkeypatch.setattr(sqlite_reader, "SCANNED", 1)
            assert await journal.check() == []
            await journal.compact("s", 1, 1, {1: Entry("whole", b"{}", "changed")})
    async with journal_at(path) as journal:
        assert await found(journal, "need") == [2]
        assert await found(journal, "changed") == [1]
        assert await journal.check() == []


@given(text=st.text(max_size=60), query=st.text(max_size=60))
@pytest.mark.parametrize("fts5", [True, False])
def test_any_text_can_be_kept_and_searched(
    fts5: bool, text: str, query: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def searched() -> None:
        directory = tmp_path_factory.mktemp("journal")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite_file, "has_fts5", lambda connection: fts5)
            async with journal_at(directory / "journal.db", "s") as journal:
                await journal.append("s", [Entry("update", b"{}", f"{text} needle")])
                assert [hit.seq for hit in await journal.search("needle")] == [1]
                for words in (query, text):
                    assert len(await journal.search(words)) <= 1
                    assert len(await journal.sessions(search=words)) <= 1
                assert await journal.check() == []

    run(searched())


@in_real_time
async def test_only_so_many_words_are_looked_for(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        text = "needle " * 400
        await journal.append("s", [Entry("update", b"{}", text)])
        assert len(await journal.search(text)) == 1


@in_real_time
async def test_a_long_text_is_searched_up_to_its_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LONGEST_TEXT", 20)
    async with journal_at(path, "s") as journal:
        await journal.append("s", [Entry("update", b"{}", "inside " + "x" * 20 + " outside")])
        assert len(await journal.search("inside")) == 1
        assert await journal.search("outside") == []


@in_real_time
async def test_text_with_half_characters_is_searched(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        await journal.append("s", [Entry("update", b"{}", "needle \ud83d")])
        assert [hit.excerpt for hit in await journal.search("needle \ud83d")] == ["needle ?"]


# ---- what is deleted


@in_real_time
async def test_deleting_a_long_session_does_not_hold_up_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_SLICE", 50)
    async with journal_at(path, "long", "s") as journal:
        journal.append("long", [Entry("update", b"{}", "needle")] * 2_000)
        await journal.committed("long", 2_000)
        deleting = asyncio.ensure_future(journal.delete("long"))
        count = 0
        while not deleting.done():
            await journal.append("s", entries("x"))
            count += 1
        assert await deleting
        assert count > 10
        assert await journal.check() == []


@in_real_time
async def test_a_deletion_that_a_crash_interrupted_is_finished(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        journal.append("s", [Entry("update", b"{}", "needle")] * 50)
        await journal.close_session("s")
    change(
        path,
        "INSERT INTO doomed SELECT id FROM sessions",
        *[f"DELETE FROM {table}" for table in ("sessions", "heads")],
    )
    assert await faults(path) == []
    async with journal_at(path, "s") as journal:
        await journal.delete("s")  # it waits for what is being removed
    with closing(sqlite3.connect(path)) as connection:
        for table in ("events", "texts", "doomed", "text_index_docsize"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@in_real_time
async def test_a_deletion_that_a_failure_interrupted_is_finished(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(connection: sqlite3.Connection, *, indexed: bool) -> bool:
        raise sqlite3.OperationalError("disk I/O error")

    async with journal_at(path, "s") as journal:
        await journal.append("s", entries(*"abc"))
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "_clean", failing)
            with pytest.raises(JournalFailed, match="disk I/O error"):
                await journal.delete("s")
        assert await journal.sessions() == []
        await journal.resume()
        with closing(sqlite3.connect(path)) as connection:
            for table in ("events", "doomed"):
                while connection.execute(f"SELECT count(*) FROM {table}").fetchone() != (0,):
                    await journal.sessions()


@in_real_time
async def test_the_file_shrinks_when_sessions_are_deleted(path: Path) -> None:
    for retained in (False, True):
        async with journal_at(path, "s") as journal:
            await journal.append("s", entries(*["x" * 1_000] * 2_000))
        assert pages(path) > 500
        async with journal_at(path) as journal:
            if retained:
                await journal.retain(None, 0)
            else:
                await journal.delete("s")
        assert pages(path) < 50


# ---- the event loop


@in_real_time
async def test_events_that_nobody_waits_for_are_gathered_into_one_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "GATHER", 60.0)
    async with journal_at(path, "s") as journal:
        batches: list[int] = []
        execute = journal._writer._execute

        def counted(batch: list[Any]) -> None:
            batches.append(len(batch))
            execute(batch)

        journal._writer._execute = counted  # type: ignore[method-assign]
        for _ in range(20):
            journal.append("s", entries("1"))
            await asyncio.sleep(0)
        assert batches == []
        await journal.committed("s", 20)  # it does not take a minute
        assert batches == [20]


@in_real_time
async def test_many_events_are_written_before_somebody_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "GATHER", 60.0)
    async with journal_at(path, "s") as journal:
        for _ in range(sqlite.ENOUGH):
            journal.append("s", entries("1"))
        while not await events(journal, "s"):
            pass


@in_real_time
async def test_a_large_number_of_events_is_several_commits(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        size = 2 * sqlite.BATCH + 1
        pending = [journal.append("s", entries("1")) for _ in range(size)]
        assert journal.waiting > 0
        await pending[0]
        await pending[-1]
        assert journal.waiting == 0
        assert len(await events(journal, "s")) == size


class Counting:
    """A connection that keeps the statements that it was given."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.statements: list[str] = []

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self.statements.append(statement)
        return self.connection.execute(statement, *values)

    def close(self) -> None:
        self.connection.close()


@in_real_time
async def test_the_events_of_a_batch_are_committed_by_one_statement(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each statement gives the interpreter's lock away, and may wait for it again."""
    monkeypatch.setattr(sqlite, "GATHER", 60.0)
    async with journal_at(path, "s", "t") as journal:
        counting: Any = Counting(journal._writer._connection)
        journal._writer._connection = counting
        for number in range(80):
            pending = journal.append("st"[number % 2], entries("1", "2", "3"))
        await pending
        assert [each.split()[:3] for each in counting.statements] == [["INSERT", "INTO", "events"]]


def test_a_journal_whose_event_loop_has_ended_does_not_keep_the_process(path: Path) -> None:
    program = """
import asyncio, sys
from twofold.journal.journal import Entry, SessionRow
from twofold.journal.sqlite import SqliteJournal

async def main():
    journal = await SqliteJournal.open(sys.argv[1])
    await journal.open_session(SessionRow(session="s"))
    await journal.append("s", [Entry("update", b"{}")])
    journal.append("s", [Entry("update", b"{}")])

asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# ---- other programs


@in_real_time
async def test_a_copy_made_while_the_journal_is_written_is_a_journal(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"

    def back_up() -> None:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)

    async with journal_at(path, "s") as journal:
        await journal.append("s", entries(*["x" * 100] * 1_000))
        copying = asyncio.ensure_future(asyncio.to_thread(back_up))
        while not copying.done():
            await journal.append("s", entries("more"))
        await copying
    assert await faults(copy) == []
    async with await SqliteReader.open(copy) as reader:
        found = await events(reader, "s")
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        assert len(found) >= 1_000


@in_real_time
async def test_a_closed_journal_is_one_file(path: Path) -> None:
    async with journal_at(path, "s") as journal:
        await journal.append("s", entries("1"))
        assert await events(journal, "s")
        assert len(os.listdir(path.parent)) == 4
    assert sorted(os.listdir(path.parent)) == ["journal.db", "journal.db.lock"]


@in_real_time
async def test_people_can_look_into_the_file(path: Path) -> None:
    async with journal_at(path, "s", clock=lambda: 1_795_059_692.331) as journal:
        await journal.append("s", [Entry("prompt", b'{"text":"Why?"}')])
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute(
                "SELECT session, seq, at, kind, body ->> 'text' FROM history"
            ).fetchall()
    assert found == [("s", 1, "2026-11-19 03:41:32.331", "prompt", "Why?")]


@in_real_time
async def test_a_journal_that_could_not_be_opened_leaves_nothing_open(path: Path) -> None:
    async with journal_at(path, "s"):
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(JournalLocked):
                await SqliteJournal.open(path)
        other = path.with_name("x")
        other.write_bytes(b"x" * 100)
        with pytest.raises(JournalDamaged):
            await SqliteReader.open(other)
        assert set(os.listdir("/proc/self/fd")) == before
