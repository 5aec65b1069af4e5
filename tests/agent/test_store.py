"""A store returns the updates that it was given, whatever happened to its files."""

import json
import logging
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import sessions
from tests.support.strategies import v2_struct_streams, values_of
from twofold.agent.store import (
    DirectoryStore,
    MemoryStore,
    SessionExists,
    Store,
    StoreFailed,
    UnknownSession,
    safe_name,
)
from twofold.errors import LocalError
from twofold.session import Draft, Session, snapshot
from twofold.wire import codec, v2
from twofold.wire.base import UNSET
from twofold.wire.content import TextContent
from twofold.wire.shared import Notice, UsageUpdate

Stream = list[v2.SessionUpdate]
Opening = Callable[[Path], Store]

STORES: dict[str, Opening] = {
    "memory": lambda path: MemoryStore(),
    "directory": DirectoryStore,
    "directory, always compacting": lambda path: DirectoryStore(path, compact_after=0),
}
KINDS = pytest.mark.parametrize("kind", STORES)


def about(session_id: str = "s", **rest: Any) -> v2.SessionInfo:
    return v2.SessionInfo(session_id, "/home/user", **rest)


fold = partial(sessions.fold, draft=Draft.NOVEMBER)


def chunk(text: str, message_id: str = "m") -> v2.AgentMessageChunk:
    return v2.AgentMessageChunk(message_id, TextContent(text))


def texts(session: Session | None, message_id: str = "m") -> list[str]:
    assert session is not None
    content = session.messages["agent"][message_id].content
    return [block.text for block in content if isinstance(block, TextContent)]


def pieces(stream: Stream, cuts: Iterable[int]) -> list[Stream]:
    places = [0, *sorted({cut % (len(stream) + 1) for cut in cuts}), len(stream)]
    return [stream[start:end] for start, end in pairwise(places)]


@contextmanager
def directory() -> Iterator[Path]:
    """A new one for every example."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path) / "sessions"


def log_of(path: Path, session_id: str = "s") -> Path:
    return path / f"{safe_name(session_id)}.jsonl"


def made(path: Path, *updates: v2.SessionUpdate, **options: Any) -> DirectoryStore:
    store = DirectoryStore(path, **options)
    store.create(about())
    store.append("s", updates)
    return store


# ---- laws ------------------------------------------------------------------------------------


@KINDS
@settings(max_examples=25)
@given(stream=v2_struct_streams(max_size=20), cuts=st.lists(st.integers(0, 20), max_size=4))
def test_what_was_appended_in_whatever_pieces_is_loaded(
    kind: str, stream: Stream, cuts: list[int]
) -> None:
    with directory() as path:
        store = STORES[kind](path)
        store.create(about())
        for piece in pieces(stream, cuts):
            store.append("s", piece)
        assert store.load("s") == fold(stream)


@settings(max_examples=25)
@given(v2_struct_streams(max_size=20), v2_struct_streams(max_size=10))
def test_a_session_goes_on_after_a_restart(before: Stream, after: Stream) -> None:
    with directory() as path:
        made(path, *before)
        assert DirectoryStore(path).load("s") == fold(before)
        DirectoryStore(path).append("s", after)
        assert DirectoryStore(path).load("s") == fold([*before, *after])


@settings(max_examples=25)
@given(v2_struct_streams(max_size=10), v2_struct_streams(max_size=10))
def test_a_session_goes_on_from_its_compacted_log(before: Stream, after: Stream) -> None:
    with directory() as path:
        store = made(path, *before * 5, compact_after=0)
        session = fold(before * 5)
        compacts = len(before) * 5 > 4 * len(snapshot(session))
        assert store.load("s") == session
        kept = len(snapshot(session)) if compacts else len(before) * 5
        assert len(log_of(path).read_bytes().splitlines()) == 1 + kept
        store.append("s", after)
        assert store.load("s") == store.load("s") == fold([*before * 5, *after])


@settings(max_examples=60)
@given(v2_struct_streams(max_size=8), st.integers(0, 2000), v2_struct_streams(max_size=3))
def test_any_bytes_cut_from_the_end_leave_a_prefix_that_goes_on(
    stream: Stream, cut: int, after: Stream
) -> None:
    with directory() as path:
        store = made(path, *stream)
        whole = log_of(path).read_bytes()
        left = whole[: max(0, len(whole) - cut)]
        log_of(path).write_bytes(left)
        # a line that lacks nothing but its end is whole; the first is the header
        ends = [place for place, byte in enumerate(whole) if byte == ord("\n")][1:]
        prefix = stream[: sum(end <= len(left) for end in ends)]
        assert store.load("s") == fold(prefix)
        store.append("s", after)
        assert store.load("s") == fold([*prefix, *after])


@settings(max_examples=60)
@given(st.binary(max_size=60), st.binary(max_size=60), st.booleans())
@example(b"\xff\n\0\0\0\n", b"[]", True)
@example(b'{"format":"twofold.session","version":"x"}\n', b'{"sessionId":"s"}', True)
def test_no_bytes_in_the_files_keep_the_rest_from_being_loaded(
    info: bytes, line: bytes, at_the_start: bool
) -> None:
    with directory() as path:
        store = made(path, chunk("one"), chunk("two"))
        log_of(path).with_suffix(".json").write_bytes(info)
        header, one, two = log_of(path).read_bytes().splitlines()
        lines = [line, one, two] if at_the_start else [header, one, line, two]
        log_of(path).write_bytes(b"\n".join(lines))
        assert store.load("s") == fold([chunk("one"), chunk("two")])
        store.list()


@settings(max_examples=60)
@given(st.lists(values_of(v2.SessionInfo).map(json.dumps), max_size=4))
def test_what_sessions_are_called_is_kept_whole(described: list[str]) -> None:
    infos = {i.session_id: i for i in (codec.decode(text, v2.SessionInfo) for text in described)}
    with directory() as path:
        for info in infos.values():
            DirectoryStore(path).create(info)
        store = DirectoryStore(path)
        assert {info.session_id: info for info in store.list()} == infos
        assert {session_id: store.info(session_id) for session_id in infos} == infos


# ---- what every store does -------------------------------------------------------------------


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path / "sessions")


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.list() == []
    assert store.info("s") is None
    assert store.load("s") is None
    assert store.delete("s") is False


def test_a_new_session_is_empty_and_known(store: Store) -> None:
    store.create(about(title="First"))
    assert store.info("s") == about(title="First")
    assert store.load("s") == fold([])


def test_an_id_that_is_taken_is_refused_and_its_session_stays(store: Store) -> None:
    store.create(about(title="First"))
    store.append("s", [chunk("hello")])
    with pytest.raises(SessionExists, match="'s'") as caught:
        store.create(about(title="Second"))
    assert isinstance(caught.value, LocalError)
    assert store.info("s") == about(title="First")
    assert texts(store.load("s")) == ["hello"]


def test_what_is_kept_for_an_unknown_session_is_refused(store: Store) -> None:
    with pytest.raises(UnknownSession, match="'s'"):
        store.append("s", [chunk("x")])
    with pytest.raises(UnknownSession, match="'s'"):
        store.describe(about())
    assert store.list() == []
    assert store.load("s") is None


def test_the_newest_session_is_listed_first_whatever_its_clock_shows(store: Store) -> None:
    times = {
        "third": "2026-06-08T09:59:59.5Z",
        "undated": UNSET,
        "first": "2026-06-08T12:00:00.123456789+01:00",
        "garbled": "yesterday",
        "second": "2026-06-08T13:00:00+03:00",
        "oldest": "0001-01-01T00:00:00+02:00",
        "naive": "2026-06-07T10:00:00",
    }
    for session_id, updated_at in times.items():
        store.create(about(session_id, updated_at=updated_at))
    order = ["first", "second", "third", "naive", "oldest", "undated", "garbled"]
    assert [info.session_id for info in store.list()] == order


def test_a_description_replaces_the_one_before(store: Store) -> None:
    store.create(about(title="Old", updated_at="2026-06-08T10:00:00Z"))
    store.append("s", [chunk("hello")])
    new = about(title="New", additional_directories=["/x"])
    store.describe(new)
    assert store.info("s") == new
    assert store.list() == [new]
    assert texts(store.load("s")) == ["hello"]


def test_a_deleted_session_is_gone_and_its_id_is_free(store: Store) -> None:
    store.create(about())
    store.create(about("other"))
    store.append("s", [chunk("hello")])
    assert store.delete("s") is True
    assert store.delete("s") is False
    assert store.load("s") is None
    assert [info.session_id for info in store.list()] == ["other"]
    store.create(about())
    assert store.load("s") == fold([])


def test_a_loaded_session_is_the_callers_own(store: Store) -> None:
    store.create(about())
    store.append("s", [chunk("hello")])
    loaded = store.load("s")
    assert loaded is not None
    loaded.apply(chunk("x"))
    loaded.apply(Notice("info", "t"))
    assert store.load("s") == fold([chunk("hello")])


def test_a_memory_store_keeps_a_session_that_the_agent_goes_on_changing() -> None:
    store, live = MemoryStore(), fold([chunk("hello")])
    store.create(about())
    assert store.adopt(live)
    live.apply(chunk(" again"))
    loaded = store.load("s")
    assert loaded == fold([chunk("hello"), chunk(" again")])
    live.apply(chunk("!"))
    assert texts(loaded) == ["hello", " again"], "what was loaded is the caller's own"


def test_adopt_returns_false_where_a_store_does_not_keep_the_live_session(store: Store) -> None:
    assert not store.adopt(Session("unknown", Draft.NOVEMBER))
    assert store.load("unknown") is None
    store.create(about())
    if not store.adopt(fold([chunk("sent")])):
        store.append("s", [chunk("sent")])
    assert store.load("s") == fold([chunk("sent")])


def test_sessions_do_not_mix(store: Store) -> None:
    for session_id in ("a", "b"):
        store.create(about(session_id))
    store.append("a", [chunk("for a")])
    store.append("b", [chunk("for b")])
    assert texts(store.load("a")) == ["for a"]
    assert texts(store.load("b")) == ["for b"]


def test_an_update_that_cannot_be_applied_is_passed_over_with_a_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.create(about())
    store.append("s", [chunk("one"), v2.TerminalOutputChunk("t", "not base64!"), chunk("two")])
    assert texts(store.load("s")) == ["one", "two"]
    assert "skipped" in caplog.text


def test_updates_are_folded_by_the_rules_of_november(store: Store) -> None:
    store.create(about())
    store.append("s", [v2.AgentMessage("m", meta={"a": 1}), v2.AgentMessage("m", meta={"b": 2})])
    session = store.load("s")
    assert session is not None
    assert session.messages["agent"]["m"].meta == {"a": 1, "b": 2}


# ---- ids that peers choose -------------------------------------------------------------------

HOSTILE = {
    "a way out": "../../etc/passwd",
    "an absolute path": "/etc/passwd",
    "nothing": "",
    "this directory": ".",
    "its parent": "..",
    "a folder": "a/b",
    "a backslash": "a\\b",
    "a NUL": "a\0b",
    "a line break": "a\nb",
    "long": "x" * 100_000,
    "long when quoted": "ä" * 100,
    "a capital": "S",
    "a quoted capital": "%53",
    "the name of a hash": safe_name("x" * 100_000),
    "the lock": ".lock",
    "a file of ours": "s.json",
    "a pattern": "*",
    "a stream": "s:stream",
    "a lone surrogate": "\ud800",
    "an option": "-rf",
    "a space": "s ",
    "a dot": "s.",
}


def everything_in(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*")}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_unknown_id_is_unknown_whatever_it_looks_like(tmp_path: Path, case: str) -> None:
    secret = tmp_path / "etc" / "passwd"
    for path in (secret, secret.with_suffix(".json"), secret.with_suffix(".jsonl")):
        path.parent.mkdir(exist_ok=True)
        path.write_text("secret")
    store = made(tmp_path / "a" / "sessions", chunk("hello"))
    before = everything_in(tmp_path)
    assert store.info(HOSTILE[case]) is None
    assert store.load(HOSTILE[case]) is None
    assert store.delete(HOSTILE[case]) is False
    assert everything_in(tmp_path) == before


def test_hostile_ids_neither_leave_the_directory_nor_meet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "sessions"
    store = made(path, chunk("s"))
    for session_id in HOSTILE.values():
        store.create(about(session_id))
        store.append(session_id, [chunk(session_id[:20])])
    everyone = {"s", *HOSTILE.values()}
    assert {info.session_id for info in store.list()} == everyone
    assert all(texts(store.load(each)) == [each[:20]] for each in everyone)
    assert all("/" not in name for name in everything_in(path))
    assert everything_in(tmp_path) == {
        *("a", "a/sessions"),
        *(f"a/sessions/{name}" for name in everything_in(path)),
    }
    assert all(store.delete(each) for each in everyone)
    assert everything_in(path) == {".lock"}


@settings(max_examples=200)
@given(st.text(max_size=60) | st.text("aA%6~1", max_size=4), st.text("aA%6~1", max_size=4))
def test_other_ids_have_other_names_in_whatever_case(one: str, two: str) -> None:
    assert (safe_name(one) == safe_name(two)) == (one == two)
    for name in (safe_name(one), safe_name(two)):
        assert name == name.casefold()
        assert 0 < len(name) <= 120
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_%~")


def test_an_ordinary_id_is_the_name_of_its_files(tmp_path: Path) -> None:
    session_id = "0191f5c2-7b1a-7e52-9d3c-sess_1"
    DirectoryStore(tmp_path).create(about(session_id))
    assert everything_in(tmp_path) == {".lock", f"{session_id}.json", f"{session_id}.jsonl"}


def test_files_under_the_name_of_another_session_are_not_its(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = made(tmp_path, chunk("of s"))
    for suffix in (".json", ".jsonl"):
        (tmp_path / f"s{suffix}").rename(tmp_path / f"t{suffix}")
    assert store.info("t") is None
    assert store.load("t") is None
    assert store.list() == []
    assert "belongs to session 's'" in caplog.text


# ---- private files ---------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_no_umask")
def test_conversations_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    store = made(path, *[chunk("x")] * 20, compact_after=0)
    store.describe(about(title="New"))
    modes = {file.name: mode(file) for file in path.iterdir()}
    assert modes == {".lock": 0o600, "s.json": 0o600, "s.jsonl": 0o600}
    assert mode(path) == 0o700
    size = log_of(path).stat().st_size
    store.load("s")
    assert log_of(path).stat().st_size < size, "compacted"
    assert mode(log_of(path)) == 0o600
    log_of(path).unlink()
    store.append("s", [chunk("x")])
    assert mode(log_of(path)) == 0o600


def test_the_mode_of_a_directory_that_was_there_is_its_owners_choice(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    made(tmp_path, chunk("x"))
    assert mode(tmp_path) == 0o750


# ---- files that something happened to --------------------------------------------------------


def test_a_log_is_a_header_and_an_update_a_line(tmp_path: Path) -> None:
    made(tmp_path, chunk("line\nbreak"), UsageUpdate(1, 2))
    header, *lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    assert json.loads(header) == {
        "format": "twofold.session",
        "version": 1,
        "sessionId": "s",
        "cwd": "/home/user",
    }
    assert lines == [
        codec.encode(each) + b"\n" for each in (chunk("line\nbreak"), UsageUpdate(1, 2))
    ]


def test_a_torn_line_is_passed_over_and_the_next_append_starts_afresh(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = made(tmp_path, chunk("one"), chunk("two"))
    log = log_of(tmp_path)
    log.write_bytes(log.read_bytes()[:-10])
    assert texts(store.load("s")) == ["one"]
    assert caplog.records == [], "nothing unusual: a process ended while it wrote"
    store.append("s", [chunk("three")])
    assert texts(store.load("s")) == ["one", "three"]


def test_malformed_lines_are_skipped_with_one_warning_that_names_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = made(tmp_path, chunk("one"))
    with log_of(tmp_path).open("ab") as log:
        log.write(b'{"sessionUpdate":"agent_message_chunk"}\n\0\0\0\n[1]\n\n')
    store.append("s", [chunk("two")])
    with caplog.at_level(logging.WARNING, "twofold"):
        assert texts(store.load("s")) == ["one", "two"]
    [record] = caplog.records
    assert record.name == "twofold"
    assert str(log_of(tmp_path)) in record.getMessage()
    assert "malformed lines skipped: 3" in record.getMessage()


def test_a_log_without_its_header_is_loaded_from_its_first_line(tmp_path: Path) -> None:
    store = made(tmp_path, *map(chunk, "ab" * 10), compact_after=0)
    log = log_of(tmp_path)
    header, rest = log.read_bytes().split(b"\n", 1)
    log.write_bytes(rest)
    assert store.load("s") == fold(map(chunk, "ab" * 10))
    assert log.read_bytes().split(b"\n", 1)[0] == header, "compacted, it has one again"


def test_a_session_whose_log_is_lost_is_empty_and_goes_on(tmp_path: Path) -> None:
    store = made(tmp_path, chunk("lost"))
    log_of(tmp_path).unlink()
    assert store.load("s") == fold([])
    with pytest.raises(SessionExists):
        store.create(about())
    store.append("s", [chunk("new")])
    assert texts(store.load("s")) == ["new"]
    (tmp_path / "s.json").unlink()
    assert store.info("s") == about(), "the new log has a header, too"


@pytest.mark.parametrize("damage", [None, b"", b"[]", b'{"sessionId":'])
def test_a_session_whose_info_is_lost_is_known_by_its_log(
    tmp_path: Path, damage: bytes | None
) -> None:
    store = made(tmp_path, chunk("hello"))
    store.describe(about(title="Lost"))
    info = tmp_path / "s.json"
    info.unlink() if damage is None else info.write_bytes(damage)
    assert store.info("s") == about()
    assert store.list() == [about()]
    assert texts(store.load("s")) == ["hello"]
    with pytest.raises(SessionExists):
        store.create(about())
    store.describe(about(title="Found"))
    assert store.list() == [about(title="Found")]


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    others = {"notes.txt", "package.json", "folder.json", "s.x.json"}
    for name in others - {"folder.json"}:
        (tmp_path / name).write_text("{}")
    (tmp_path / "folder.json").mkdir()
    store = made(tmp_path)
    assert store.list() == [about()]
    store.delete("s")
    assert everything_in(tmp_path) == {".lock", *others}


def test_what_a_crash_left_beside_a_log_is_not_listed_and_deleted_with_it(tmp_path: Path) -> None:
    store = made(tmp_path, chunk("private"))
    (tmp_path / "s.abc.tmp").write_text("private, too")
    (tmp_path / "sister.abc.tmp").write_text("of another session")
    assert store.list() == [about()]
    assert store.delete("s") is True
    assert everything_in(tmp_path) == {".lock", "sister.abc.tmp"}


# ---- compaction ------------------------------------------------------------------------------


def lines_in(path: Path) -> int:
    return len(log_of(path).read_bytes().splitlines())


@pytest.mark.parametrize(
    ("chunks", "messages", "compacted"),
    [(1_000, 1, False), (1_001, 1, True), (1_200, 298, True), (1_200, 299, False)],
)
def test_a_log_is_compacted_when_it_is_long_and_four_times_as_long_as_needed(
    tmp_path: Path, chunks: int, messages: int, compacted: bool
) -> None:
    updates = [chunk(str(n), f"m{n % messages}") for n in range(chunks)]
    store = made(tmp_path, *updates)
    assert store.load("s") == fold(updates)
    # one more for the header, one for the state
    assert lines_in(tmp_path) == 1 + (messages + 1 if compacted else chunks)
    assert store.load("s") == fold(updates)
    assert everything_in(tmp_path) == {".lock", "s.json", "s.jsonl"}


def test_a_compacted_log_keeps_its_header(tmp_path: Path) -> None:
    store = made(tmp_path, *[chunk("x")] * 20, compact_after=0)
    header = log_of(tmp_path).read_bytes().splitlines()[0]
    store.load("s")
    assert log_of(tmp_path).read_bytes().splitlines()[0] == header
    assert lines_in(tmp_path) == 3


class Meddler(DirectoryStore):
    """Another process acts just before a compacted log takes its place."""

    def __init__(self, path: Path, act: Callable[[], object]) -> None:
        super().__init__(path, compact_after=0)
        self.act: Callable[[], object] | None = act

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self.act is not None:
            act, self.act = self.act, None
            act()
        with super()._locked():
            yield


def test_what_is_appended_during_a_compaction_is_kept(tmp_path: Path) -> None:
    before = [chunk("x")] * 20
    other = made(tmp_path, *before)
    store = Meddler(tmp_path, lambda: other.append("s", [chunk("y")]))
    assert store.load("s") == fold(before)
    assert lines_in(tmp_path) == 4
    assert store.load("s") == fold([*before, chunk("y")])


def test_a_session_compacted_by_two_at_once_stays_whole(tmp_path: Path) -> None:
    updates = [chunk("x")] * 20
    made(tmp_path, *updates)

    def meddle() -> None:
        other = DirectoryStore(tmp_path, compact_after=0)
        other.load("s")
        other.append("s", [chunk("y")])

    assert Meddler(tmp_path, meddle).load("s") == fold(updates)
    assert DirectoryStore(tmp_path).load("s") == fold([*updates, chunk("y")])
    assert everything_in(tmp_path) == {".lock", "s.json", "s.jsonl"}


def test_a_session_deleted_during_a_compaction_stays_deleted(tmp_path: Path) -> None:
    other = made(tmp_path, *[chunk("x")] * 20)
    store = Meddler(tmp_path, lambda: other.delete("s"))
    assert store.load("s") is not None
    assert store.load("s") is None
    assert everything_in(tmp_path) == {".lock"}


# ---- two on one directory --------------------------------------------------------------------


def test_two_stores_on_one_directory_see_each_others_sessions(tmp_path: Path) -> None:
    one, two = DirectoryStore(tmp_path), DirectoryStore(tmp_path)
    one.create(about())
    with pytest.raises(SessionExists):
        two.create(about())
    for text, store in (("a", one), ("b", two), ("c", one), ("d", two)):
        store.append("s", [chunk(text)])
    two.describe(about(title="New"))
    assert one.info("s") == about(title="New")
    assert one.load("s") == two.load("s") == fold(map(chunk, "abcd"))
    one.delete("s")
    with pytest.raises(UnknownSession):
        two.append("s", [chunk("e")])
    assert two.list() == []


WRITER = """
import sys
from twofold.agent.store import DirectoryStore
from twofold.wire import v2
from twofold.wire.content import TextContent

path, name, count = sys.argv[1:]
store = DirectoryStore(path, compact_after=0)
sys.stdin.read()
for n in range(int(count)):
    store.append("s", [v2.AgentMessageChunk(name, TextContent(f"{n}.{i}")) for i in range(3)])
    store.describe(v2.SessionInfo("s", "/home/user", title=name))
"""


def test_processes_on_one_directory_lose_nothing_of_each_other(tmp_path: Path) -> None:
    count, names = 150, ("a", "b")
    store = made(tmp_path, compact_after=0)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen([*command, name, str(count)], stdin=subprocess.PIPE) for name in names
    ]
    deadline = time.monotonic() + 30
    try:
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()  # both begin
        while time.monotonic() < deadline and any(writer.poll() is None for writer in writers):
            assert store.load("s") is not None  # compacts again and again
    finally:
        for writer in writers:
            writer.kill()
    assert [writer.wait() for writer in writers] == [0, 0]
    expected = [f"{n}.{i}" for n in range(count) for i in range(3)]
    for name in names:
        assert texts(store.load("s"), name) == expected
    [info] = store.list()
    assert info.title in names
    assert everything_in(tmp_path) == {".lock", "s.json", "s.jsonl"}


# ---- what the system refuses -----------------------------------------------------------------


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """As on a full disk, a write that goes beyond is first cut short, then refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_append_that_fails_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    store = made(tmp_path, chunk("one"))
    before = log_of(tmp_path).read_bytes()
    more = [chunk("two"), chunk("x" * 1000)]
    with files_no_longer_than(len(before) + 500), pytest.raises(StoreFailed) as caught:
        store.append("s", more)
    assert isinstance(caught.value, LocalError)
    assert caught.value.path == log_of(tmp_path)
    assert caught.value.reason == "File too large"
    assert log_of(tmp_path).read_bytes() == before
    store.append("s", more)
    assert store.load("s") == fold([chunk("one"), *more])


@pytest.mark.parametrize("size", [0, 110])
def test_a_creation_that_fails_leaves_nothing_and_may_be_repeated(
    tmp_path: Path, size: int
) -> None:
    """The header fits into 110 bytes, the info does not."""
    store = DirectoryStore(tmp_path)
    info = about(title="x" * 1000)
    with files_no_longer_than(size), pytest.raises(StoreFailed, match="File too large"):
        store.create(info)
    assert everything_in(tmp_path) == {".lock"}
    store.create(info)
    assert store.info("s") == info


def test_a_description_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    store = made(tmp_path)
    with files_no_longer_than(500), pytest.raises(StoreFailed):
        store.describe(about(title="x" * 1000))
    assert store.info("s") == about()
    assert everything_in(tmp_path) == {".lock", "s.json", "s.jsonl"}


def test_a_compaction_that_fails_loads_the_session_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    updates = [chunk("x")] * 200
    store = made(tmp_path, *updates, compact_after=0)
    before = log_of(tmp_path).read_bytes()
    with files_no_longer_than(500):
        assert store.load("s") == fold(updates)
    assert log_of(tmp_path).read_bytes() == before
    assert "File too large" in caplog.text
    assert everything_in(tmp_path) == {".lock", "s.json", "s.jsonl"}


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed) as caught:
        DirectoryStore(tmp_path / "file")
    assert str(tmp_path / "file") in str(caught.value)
    assert "File exists" in str(caught.value)


ACTS: dict[str, Callable[[Store], object]] = {
    "list": lambda store: store.list(),
    "create": lambda store: store.create(about("new")),
    "describe": lambda store: store.describe(about()),
    "append": lambda store: store.append("s", [chunk("x")]),
    "delete": lambda store: store.delete("s"),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_directory_that_went_away_is_a_failure_of_the_store(tmp_path: Path, act: str) -> None:
    path = tmp_path / "sessions"
    store = made(path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreFailed, match="No such file") as caught:
        ACTS[act](store)
    assert path in (caught.value.path, *caught.value.path.parents)


def test_a_log_that_is_no_file_is_a_failure_of_the_store(tmp_path: Path) -> None:
    store = made(tmp_path)
    log_of(tmp_path).unlink()
    log_of(tmp_path).mkdir()
    with pytest.raises(StoreFailed, match="Is a directory"):
        store.load("s")
    with pytest.raises(StoreFailed, match="Is a directory"):
        store.append("s", [chunk("x")])


def test_a_log_of_a_later_format_is_not_guessed_at(tmp_path: Path) -> None:
    store = made(tmp_path, chunk("x"))
    log = log_of(tmp_path)
    log.write_bytes(log.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(StoreFailed, match="format 2 needs a newer Twofold"):
        store.load("s")


# ---- constant --------------------------------------------------------------------------------


def test_an_append_costs_the_same_in_a_long_session(tmp_path: Path) -> None:
    costs = []
    for length in (10, 50_000):
        path = tmp_path / str(length)
        store = made(path, *[chunk("x" * 50)] * length)
        costs.append((calls(store), memory(store)))
    (few, little), (many, much) = costs
    assert few == many
    assert much < little + 10_000


def calls(store: Store) -> int:
    """How many functions an append calls."""
    count = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    store.append("s", [chunk("x")])  # whatever is only done the first time
    sys.setprofile(profile)
    try:
        store.append("s", [chunk("x")])
    finally:
        sys.setprofile(None)
    return count


def memory(store: Store) -> int:
    """How many bytes an append needs: one that reads the log needs as many as it has."""
    tracemalloc.start()
    try:
        store.append("s", [chunk("x")])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
