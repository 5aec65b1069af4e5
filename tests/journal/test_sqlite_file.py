"""The file of a SQLite journal: who may open it, its lock, its format."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from twofold.journal import sqlite_file
from twofold.journal.journal import (
    JournalDamaged,
    JournalLocked,
    JournalNotOpened,
    JournalNotPrivate,
    JournalTooNew,
)
from twofold.journal.sqlite_file import OpenFile, open_to_read

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    file = OpenFile(path)
    try:
        yield file
    finally:
        file.connection.close()
        file.lock.release()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "journal.db"


# ---- who may open it


def test_the_directory_and_its_files_are_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(path) as file:
            file.connection.execute("INSERT INTO doomed VALUES (1)")
            beside = {each.name: mode(each) for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    assert beside == {f"journal.db{end}": 0o600 for end in ("", "-wal", "-shm", ".lock")}


def test_a_file_that_others_could_read_is_made_private(path: Path) -> None:
    with opened(path):
        pass
    path.chmod(0o644)
    with opened(path):
        assert mode(path) == 0o600


def test_a_directory_that_others_may_only_look_into_is_good_enough(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o755)
    with opened(path):
        assert mode(path) == 0o600


@pytest.mark.parametrize("bits", [0o770, 0o777, 0o1777, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(path: Path, bits: int) -> None:
    path.parent.mkdir()
    path.parent.chmod(bits)
    with pytest.raises(JournalNotPrivate, match=f"chmod go-w {path.parent}"):
        OpenFile(path)
    assert list(path.parent.iterdir()) == []


@AS_ROOT
@pytest.mark.parametrize("name", ["", "journal.db"])
def test_what_belongs_to_someone_else_is_refused(path: Path, name: str) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    os.chown(path.parent / name, 12_345, -1)
    with pytest.raises(JournalNotPrivate, match="another user \\(uid 12345\\)"):
        OpenFile(path)


def test_what_is_no_file_is_refused(path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    path.parent.chmod(0o700)
    with pytest.raises(JournalNotOpened, match="not a regular file"):
        OpenFile(path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalNotOpened, match="Not a directory"):
        OpenFile(tmp_path / "file" / "kept" / "journal.db")


# ---- the lock


def test_one_journal_at_a_time_writes_to_a_file(path: Path) -> None:
    with opened(path), pytest.raises(JournalLocked, match=f"process {os.getpid()} writes") as found:
        OpenFile(path)
    assert found.value.pid == os.getpid()
    with opened(path):
        pass


def test_the_process_that_has_the_lock_is_named_until_it_ends(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from twofold.journal.sqlite_file import OpenFile\n"
        "file = OpenFile(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(JournalLocked, match=f"process {other.pid} writes"):
            OpenFile(path)
        other.kill()
    with opened(path):
        pass


def test_a_lock_of_a_process_that_did_not_write_its_id_is_refused_too(path: Path) -> None:
    with opened(path):
        os.truncate(f"{path}.lock", 0)
        with pytest.raises(JournalLocked, match="another process writes") as found:
            OpenFile(path)
    assert found.value.pid is None


def test_a_program_that_is_started_does_not_inherit_the_lock(path: Path) -> None:
    with opened(path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with opened(path):
            pass
    finally:
        child.kill()
        child.wait()


# ---- the format


def test_a_file_that_is_empty_becomes_a_journal(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    with opened(path) as file:
        assert "events" in tables(file.connection)


def test_every_commit_is_synced(path: Path) -> None:
    with opened(path) as file:
        assert file.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert file.connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_file_system_without_a_write_ahead_log_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(name: str, *, uri: bool) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None)  # which has none either

    monkeypatch.setattr(sqlite_file, "_connect", connect)
    with pytest.raises(JournalNotOpened, match="Choose a local directory"):
        OpenFile(path)


def test_a_file_of_a_newer_format_is_refused_by_writers_and_readers(path: Path) -> None:
    with opened(path) as file:
        file.connection.execute("PRAGMA user_version = 99")
    newest = len(sqlite_file.MIGRATIONS)
    for work in (OpenFile, open_to_read):
        with pytest.raises(JournalTooNew, match="Install a newer Twofold") as found:
            work(path)
        assert (found.value.found, found.value.known) == (99, newest)
    with pytest.raises(JournalTooNew):  # and the lock was released
        OpenFile(path)


def test_a_file_of_an_older_format_is_brought_up_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as file:
        file.connection.execute("INSERT INTO doomed VALUES (7)")
    added = ("CREATE TABLE added (id)", "INSERT INTO added SELECT id FROM doomed")
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, added))
    with pytest.raises(JournalNotOpened, match="of an older Twofold"):
        open_to_read(path)
    for _ in range(2):
        with opened(path) as file:
            assert file.connection.execute("SELECT id FROM added").fetchall() == [(7,)]


def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path):
        pass
    before = sqlite_file.MIGRATIONS
    broken = ("CREATE TABLE added (id)", "CREATE TABLE added (id)")
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*before, broken))
    with pytest.raises(JournalNotOpened):
        OpenFile(path)
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", before)
    with opened(path) as file:
        assert "added" not in tables(file.connection)


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    for work in (OpenFile, open_to_read):
        with pytest.raises(JournalDamaged, match="a database of another program"):
            work(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"not a database at all, but long enough to look at\n" * 100)
    before = path.read_bytes()
    for work in (OpenFile, open_to_read):
        with pytest.raises(JournalDamaged, match="not a database"):
            work(path)
    assert path.read_bytes() == before


# ---- readers


def test_a_reader_makes_no_file(path: Path) -> None:
    with pytest.raises(JournalNotOpened, match="no such file"):
        open_to_read(path)
    assert not path.parent.exists()


def test_a_reader_cannot_write(path: Path) -> None:
    refused = pytest.raises(sqlite3.OperationalError, match="readonly")
    with opened(path), closing(open_to_read(path)) as connection, refused:
        connection.execute("INSERT INTO doomed VALUES (1)")


def test_an_empty_file_cannot_be_read(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    with pytest.raises(JournalNotOpened, match="it is empty"):
        open_to_read(path)


def test_a_copy_in_a_directory_that_cannot_be_written_to_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as file:
        file.connection.execute("INSERT INTO doomed VALUES (7)")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with closing(open_to_read(path)) as connection:
        assert connection.execute("SELECT id FROM doomed").fetchall() == [(7,)]
        assert [each.name for each in path.parent.iterdir() if "-" in each.name] == []


# ---- the words for what SQLite reports


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SQLITE_FULL", "the disk is full"),
        ("SQLITE_IOERR_WRITE", "reading or writing fails"),
        ("SQLITE_READONLY_DBMOVED", "the file is read-only"),
        ("SQLITE_CORRUPT_VTAB", "the file is damaged"),
    ],
)
def test_an_error_of_sqlite_is_put_into_words(name: str, words: str) -> None:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorname = name
    assert sqlite_file.reason_of(error) == f"{words} ({name})"
    assert sqlite_file.is_damage(error) == ("CORRUPT" in name)
