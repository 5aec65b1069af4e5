"""A journal does what a dictionary of lists would do, for any sequence of operations.

The operations are drawn at random, and the same ones are done to the journal and to a model of it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.conftest import Places
from tests.support.journals import Place, events
from tests.support.real_time import run
from twofold.journal.journal import (
    Entry,
    Hit,
    Journal,
    JournalRefused,
    NotInJournal,
    SessionRow,
    Snapshot,
)

SESSIONS = ("a", "b", "c")
WORDS = ("lorem", "ipsum", "dolor")


class Kept(NamedTuple):
    """An event of the model."""

    seq: int
    kind: str
    body: bytes
    epoch: int
    text: str


@dataclass
class Model:
    """A session, as it should be."""

    head: int = 0
    epoch: int = 0
    events: list[Kept] = field(default_factory=list)
    snapshot: Snapshot | None = None

    def append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.head += 1
            self.events.append(Kept(self.head, entry.kind, entry.body, self.epoch, entry.text))

    def compact(self, first: int, last: int, kept: dict[int, Entry | None]) -> None:
        compacted = []
        for each in self.events:
            if first <= each.seq <= last:
                if each.seq not in kept:
                    continue
                entry = kept[each.seq]
                if entry is not None:
                    each = each._replace(kind=entry.kind, body=entry.body, text=entry.text)
            compacted.append(each)
        self.events = compacted


texts = st.lists(st.sampled_from(WORDS), max_size=2).map(" ".join)
json_bodies = st.sampled_from([b"{}", b'"\\ud800"', b" [1, 2]\n", b'{"text": "\xc3\xa4"}', b"0"])
entry = st.builds(Entry, st.sampled_from(["update", "prompt"]), json_bodies, texts)
session = st.sampled_from(SESSIONS)
number = st.integers(0, 9)
append = st.tuples(st.just("append"), session, st.lists(entry, max_size=6), st.booleans())
kept_entries = st.lists(st.none() | entry, min_size=1, max_size=4)
operation = st.one_of(
    append,
    append,
    append,
    st.tuples(st.just("read"), session, number, st.none() | number),
    st.tuples(st.just("compact"), session, number, number, kept_entries),
    st.tuples(st.just("compact_any"), session, number, number, kept_entries),
    st.tuples(st.just("snapshot"), session, number, json_bodies),
    st.tuples(st.just("search"), st.sampled_from(WORDS)),
    st.tuples(st.just("close"), session),
    st.tuples(st.just("delete"), session),
    st.tuples(st.just("reopen")),
)


class Pair:
    """A journal and its model, side by side."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.models: dict[str, Model] = {}
        self.open: set[str] = set()
        self.journal: Journal

    async def do(self, operation: tuple[object, ...]) -> None:
        await getattr(self, f"do_{operation[0]}")(*operation[1:])

    async def do_append(self, session: str, entries: list[Entry], wait: bool) -> None:
        model = self.models.get(session)
        if session not in self.open:
            row = await self.journal.open_session(SessionRow(session=session))
            if model is None:
                model = self.models[session] = Model()
            else:
                model.epoch += 1
            self.open.add(session)
            assert (row.head, row.epoch) == (model.head, model.epoch)
        assert model is not None
        pending = self.journal.append(session, entries)
        assert (pending.first, pending.last) == (model.head + 1, model.head + len(entries))
        model.append(entries)
        if wait:
            await pending

    async def do_read(self, session: str, after: int, limit: int | None) -> None:
        model = self.models.get(session)
        if model is None:
            with pytest.raises(NotInJournal):
                await events(self.journal, session)
            return
        if session in self.open:
            await self.journal.committed(session, model.head)
        found = await events(self.journal, session, after, limit)
        assert [(each.seq, each.kind, each.body, each.epoch) for each in found] == [
            each[:4] for each in model.events if each.seq > after
        ][:limit]

    async def do_compact(
        self, session: str, start: int, length: int, entries: list[Entry | None]
    ) -> None:
        """Compact some of the events that are there."""
        there = [each.seq for each in self.models.get(session, Model()).events]
        if there:
            first = start % len(there)
            chosen = there[first : first + length + 1]
            await self.compact(session, chosen[0], chosen[-1], entries)

    async def do_compact_any(
        self, session: str, first: int, length: int, entries: list[Entry | None]
    ) -> None:
        """Compact any numbers."""
        await self.compact(session, first, first + length, entries)

    async def compact(
        self, session: str, first: int, last: int, entries: list[Entry | None]
    ) -> None:
        model = self.models.get(session, Model())
        there = [each.seq for each in model.events if first <= each.seq <= last]
        kept = dict(zip(reversed(there), entries, strict=False))
        try:
            await self.journal.compact(session, first, last, kept)
        except NotInJournal:
            assert session not in self.models
        except JournalRefused:
            assert first < 1 or last not in kept
        else:
            assert first >= 1
            model.compact(first, last, kept)

    async def do_snapshot(self, session: str, seq: int, body: bytes) -> None:
        model = self.models.get(session, Model())
        try:
            await self.journal.put_snapshot(session, seq, body)
        except NotInJournal:
            assert session not in self.models
        except JournalRefused:
            assert not 0 < seq <= model.head
        else:
            if model.snapshot is None or seq >= model.snapshot.seq:
                model.snapshot = Snapshot(seq, body)
        assert await self.journal.snapshot(session) == model.snapshot

    async def do_search(self, word: str) -> None:
        for session in self.open:
            await self.journal.committed(session, self.models[session].head)
        assert set(await self.journal.search(word, 1_000)) == {
            Hit(name, each.seq, each.text)
            for name, model in self.models.items()
            for each in model.events
            if word in each.text
        }

    async def do_close(self, session: str) -> None:
        await self.journal.close_session(session)
        self.open.discard(session)

    async def do_delete(self, session: str) -> None:
        assert await self.journal.delete(session) == (session in self.models)
        self.models.pop(session, None)
        self.open.discard(session)

    async def do_reopen(self) -> None:
        await self.journal.close()
        self.journal = await self.place.open()
        self.open.clear()

    async def compare(self) -> None:
        await self.do_reopen()
        for name in SESSIONS:
            await self.do_read(name, 0, None)
        rows = {row.session: row for row in await self.journal.sessions()}
        assert rows.keys() == self.models.keys()
        for name, model in self.models.items():
            snapshot = 0 if model.snapshot is None else model.snapshot.seq
            size = sum(len(each.body) for each in model.events)
            row = rows[name]
            assert (row.head, row.size, row.snapshot) == (model.head, size, snapshot)
        assert await self.journal.check() == []


@given(operations=st.lists(operation, min_size=5, max_size=25))
def test_any_operations_do_what_they_would_do_to_lists(
    places: Places, operations: list[tuple[object, ...]]
) -> None:
    async def compared() -> None:
        pair = Pair(places())
        pair.journal = await pair.place.open()
        try:
            for each in operations:
                await pair.do(each)
            await pair.compare()
        finally:
            await pair.journal.close()

    run(compared())


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30), after=number)
def test_any_split_of_events_into_appends_gives_the_same_session(
    places: Places, sizes: list[int], after: int
) -> None:
    async def split() -> None:
        place = places()
        journal = await place.open()
        try:
            await journal.open_session(SessionRow(session="s"))
            total = 0
            for size in sizes:
                numbers = range(total, total + size)
                journal.append("s", [Entry("update", b"%d" % each) for each in numbers])
                total += size
                if size % 3 == 0:  # let some be committed between others
                    await asyncio.sleep(0)
            await journal.committed("s", total)
            found = await events(journal, "s", after)
            assert [each.body for each in found] == [b"%d" % n for n in range(after, total)]
            assert [each.seq for each in found] == list(range(after + 1, total + 1))
        finally:
            await journal.close()

    run(split())
