"""What every journal promises, whatever engine keeps it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.support.journals import Place, bodies, entries, events, opened
from tests.support.real_time import in_real_time
from twofold.journal import journal as limits
from twofold.journal.journal import (
    Entry,
    Event,
    Hit,
    Journal,
    JournalBusy,
    JournalClosed,
    JournalRefused,
    NotInJournal,
    SessionNotOpen,
    SessionRow,
    Snapshot,
)


class Clock:
    """The time of a journal, which stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def journal_at(place: Place, *sessions: str, **options: Any) -> AsyncIterator[Journal]:
    """A journal, with sessions of these ids open."""
    journal = await place.open(**options)
    try:
        await opened(journal, *sessions)
        yield journal
        assert await journal.check() == []
    finally:
        await journal.close()


# ---- events


@in_real_time
async def test_events_are_numbered_from_one_in_each_session(place: Place) -> None:
    async with journal_at(place, "a", "b") as journal:
        assert [
            (each.first, each.last)
            for each in (
                journal.append("a", entries("1", "2")),
                journal.append("b", entries("1")),
                journal.append("a", entries("3")),
            )
        ] == [(1, 2), (1, 1), (3, 3)]
        await journal.committed("a", 3)
        await journal.committed("b", 1)
        assert bodies(await events(journal, "a")) == [(1, b'"1"'), (2, b'"2"'), (3, b'"3"')]
        assert bodies(await events(journal, "b")) == [(1, b'"1"')]


@in_real_time
async def test_an_event_has_its_kind_its_time_and_its_bytes(place: Place) -> None:
    clock = Clock()
    clock.now = 1_795_059_692.331538
    body = b'{ "a" : [1,\n2], "b": "\\ud800 \xc3\xa4" }'  # not as a serializer would write it
    async with journal_at(place, "s", clock=clock) as journal:
        await journal.append("s", [Entry("prompt", body)])
        assert await events(journal, "s") == [Event(1, 1_795_059_692.331538, "prompt", body, 0)]


@in_real_time
async def test_events_are_committed_also_if_nobody_waits_for_it(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", entries("1"))
        while not await events(journal, "s"):
            pass


@in_real_time
async def test_what_is_committed_includes_everything_before_it(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        pending = [journal.append("s", entries(str(n))) for n in range(2_500)]
        await pending[-1]
        assert len(await events(journal, "s")) == 2_500
        for each in pending:
            await asyncio.wait_for(each.committed(), 0.1)


@in_real_time
async def test_nothing_is_appended_by_no_entries(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", entries("1"))
        pending = journal.append("s", [])
        assert (pending.first, pending.last) == (2, 1)
        await pending
        assert bodies(await events(journal, "s")) == [(1, b'"1"')]


@in_real_time
async def test_what_is_appended_before_the_end_is_committed(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        pending = journal.append("s", entries("1"))
    await pending
    async with journal_at(place) as journal:
        assert bodies(await events(journal, "s")) == [(1, b'"1"')]


@in_real_time
async def test_a_reader_begins_after_any_number_and_stops_at_its_limit(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", entries(*"abcde"))
        assert bodies(await events(journal, "s", 2, 2)) == [(3, b'"c"'), (4, b'"d"')]
        assert bodies(await events(journal, "s", -3, 1)) == [(1, b'"a"')]
        assert await events(journal, "s", 5) == []
        assert await events(journal, "s", 99) == []
        assert await events(journal, "s", 0, 0) == []


@in_real_time
async def test_a_long_session_is_read_in_batches(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", entries(*map(str, range(2_345))))
        await journal.append("s", [Entry("large", b'"%s"' % (b"x" * 3_000_000))] * 3)
        batches = [batch async for batch in journal.read("s")]
        assert [event.seq for batch in batches for event in batch] == list(range(1, 2_349))
        assert max(map(len, batches)) <= 1_000
        assert max(sum(len(event.body) for event in batch) for batch in batches) < 4_100_000


@in_real_time
async def test_a_reader_ends_with_the_events_that_were_there_when_it_began(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", entries(*map(str, range(2_000))))
        seen = 0
        async for batch in journal.read("s"):
            seen += len(batch)
            await journal.append("s", entries("more"))
        assert seen == 2_000


@in_real_time
async def test_sessions_that_are_unknown_or_not_open_are_named(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        with pytest.raises(SessionNotOpen, match="'t' is not open"):
            journal.append("t", entries("1"))
        with pytest.raises(SessionNotOpen):
            await journal.committed("t", 1)
        for work in (
            events(journal, "t"),
            journal.describe("t", title="x"),
            journal.put_snapshot("t", 1, b"{}"),
            journal.compact("t", 1, 1, {1: None}),
        ):
            with pytest.raises(NotInJournal, match="no session 't'"):
                await work
        assert await journal.session("t") is None
        assert await journal.snapshot("t") is None
        assert await journal.delete("t") is False


@pytest.mark.parametrize(
    "entry",
    [
        Entry("", b"{}"),
        Entry("x" * (limits.LONGEST_KIND + 1), b"{}"),
        Entry("ä", b"{}"),
        Entry("update", b""),
    ],
)
@in_real_time
async def test_an_entry_that_is_refused_takes_no_number(place: Place, entry: Entry) -> None:
    async with journal_at(place, "s") as journal:
        with pytest.raises(JournalRefused):
            journal.append("s", [*entries("1"), entry])
        assert journal.append("s", entries("1")).last == 1


@in_real_time
async def test_what_is_too_large_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with journal_at(place, "s") as journal:
        large = b'"%s"' % (b"x" * limits.LARGEST_BODY)
        for work in (
            lambda: journal.put_snapshot("s", 1, large),
            lambda: journal.describe("s", facts=large),
            lambda: journal.compact("s", 1, 1, {1: Entry("update", large)}),
            lambda: journal.open_session(SessionRow(session="t", facts=large)),
        ):
            with pytest.raises(JournalRefused, match="67108866 bytes"):
                await work()
        with pytest.raises(JournalRefused, match="67108866 bytes"):
            journal.append("s", [Entry("update", large)])
        half = Entry("update", large[: limits.LARGEST_BODY // 2])
        with pytest.raises(JournalRefused, match="at once"):
            journal.append("s", [half] * 9)


# ---- what waits


@in_real_time
async def test_what_waits_to_be_written_has_a_bound(place: Place) -> None:
    async with journal_at(place, "s", most_waiting=10_000) as journal:
        for _ in range(9):  # the event loop does not run, so nothing is committed
            journal.append("s", entries("x" * 1_000))
        with pytest.raises(JournalBusy, match="the limit is 10000"):
            journal.append("s", entries("x"))
        await journal.wait_writable()
        assert journal.append("s", entries("more")).last == 10
        await journal.committed("s", 10)


@in_real_time
async def test_a_writer_that_waits_can_append_any_amount(place: Place) -> None:
    async with journal_at(place, "s", most_waiting=10_000) as journal:
        for number in range(500):
            await journal.wait_writable()
            journal.append("s", entries(f"{number:01000}"))
        await journal.committed("s", 500)
        assert [event.seq for event in await events(journal, "s")] == list(range(1, 501))


@in_real_time
async def test_a_number_that_does_not_exist_cannot_be_waited_for(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        with pytest.raises(JournalRefused, match="the last event of session 's' is 0"):
            await journal.committed("s", 1)


@in_real_time
async def test_a_wait_that_is_cancelled_changes_nothing(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        pending = journal.append("s", entries("1"))
        waiting = asyncio.ensure_future(pending.committed())
        await asyncio.sleep(0)
        waiting.cancel()
        await pending
        assert waiting.cancelled()
        assert len(await events(journal, "s")) == 1


@in_real_time
async def test_a_closed_journal_says_so(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        pass
    await journal.close()
    with pytest.raises(JournalClosed):
        journal.append("s", entries("1"))
    for work in (
        journal.session("s"),
        journal.check(),
        journal.delete("s"),
        journal.describe("s", title="x"),
        journal.wait_writable(),
        journal.resume(),
    ):
        with pytest.raises(JournalClosed):
            await work


# ---- sessions


@in_real_time
async def test_a_session_is_kept_with_its_facts(place: Place) -> None:
    row = SessionRow(
        session="s",
        agent="claude",
        cwd="/home/ada",
        title="Ein Titel",
        first_words="Why?",
        state="idle",
        created=1.5,
        updated=2.5,
        facts=b'{"id":"agent-1"}',
    )
    async with journal_at(place) as journal:
        assert await journal.open_session(row) == row
    async with journal_at(place) as journal:
        assert await journal.session("s") == row
        assert await journal.sessions() == [row]


@in_real_time
async def test_a_new_session_has_the_current_time(place: Place) -> None:
    clock = Clock()
    async with journal_at(place, "s", clock=clock) as journal:
        clock.now = 2_000.0
        await journal.append("s", entries("1234"))
        row = await journal.session("s")
        assert row is not None
        assert (row.created, row.updated, row.head, row.size) == (1_000.0, 2_000.0, 1, 6)


@in_real_time
async def test_a_session_that_is_opened_again_goes_on_in_another_epoch(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", entries("1"))
    async with journal_at(place) as journal:
        row = await journal.open_session(SessionRow(session="s", title="not read"))
        assert (row.epoch, row.head, row.title) == (1, 1, "")
        await journal.append("s", entries("2"))
        assert [(event.seq, event.epoch) for event in await events(journal, "s")] == [
            (1, 0),
            (2, 1),
        ]


@in_real_time
async def test_a_session_that_is_open_is_not_opened_again(place: Place) -> None:
    async with journal_at(place) as journal:
        row = SessionRow(session="s")
        assert [
            each.epoch
            for each in await asyncio.gather(
                journal.open_session(row), journal.open_session(row), journal.open_session(row)
            )
        ] == [0, 0, 0]
        assert journal.append("s", entries("1")).last == 1
        await journal.close_session("s")
        with pytest.raises(SessionNotOpen):
            journal.append("s", entries("2"))
        assert (await journal.open_session(row)).epoch == 1


@in_real_time
async def test_closing_a_session_commits_what_was_appended(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", entries(*"abc"))
        await journal.close_session("s")
        assert len(await events(journal, "s")) == 3
        await journal.close_session("s")


@in_real_time
async def test_fields_of_a_session_can_be_changed(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", entries("1"))
        await journal.describe("s", title="New", state="busy", facts=b"[1]", updated=5.25)
        row = await journal.session("s")
        assert row is not None
        assert (row.title, row.state, row.facts, row.updated) == ("New", "busy", b"[1]", 5.25)
        assert (row.session, row.agent, row.head) == ("s", "", 1)
        changed: Mapping[str, Any] = {"titel": "x"}
        with pytest.raises(JournalRefused, match="titel"):
            await journal.describe("s", **changed)


@in_real_time
async def test_long_fields_are_cut_and_half_characters_replaced(place: Place) -> None:
    async with journal_at(place) as journal:
        title = "x" * (limits.LONGEST_FIELD + 1)
        row = await journal.open_session(
            SessionRow(session="s", title=title, first_words="a\ud800b")
        )
        assert row.title == title[:-1]
        assert row.first_words == "a?b"


@pytest.mark.parametrize("session", ["", "x" * (limits.LONGEST_ID + 1), "a\ud800", "a\0"])
@in_real_time
async def test_an_id_that_cannot_be_kept_is_refused(place: Place, session: str) -> None:
    async with journal_at(place, "a?", "a ") as journal:
        with pytest.raises(JournalRefused):
            await journal.open_session(SessionRow(session=session))
        assert await journal.session(session) is None
        assert await journal.delete(session) is False


@in_real_time
async def test_sessions_are_listed_the_last_updated_first(place: Place) -> None:
    clock = Clock()
    async with journal_at(place, clock=clock) as journal:
        for name in "abcd":
            clock.now += 1
            await opened(journal, name)
        clock.now += 1
        await journal.append("b", entries("1"))

        async def listed(**options: Any) -> list[str]:
            return [row.session for row in await journal.sessions(**options)]

        assert await listed() == ["b", "d", "c", "a"]
        assert await listed(limit=2) == ["b", "d"]
        assert await listed(limit=2, offset=3) == ["a"]
        assert await listed(limit=0) == []


@pytest.mark.parametrize(
    ("search", "found"),
    [("ÜBER", ["a"]), ("%", ["b"]), ("claude", ["a", "b"]), ("home/B", ["b"]), ("x", [])],
)
@in_real_time
async def test_sessions_are_found_by_what_their_row_has(
    place: Place, search: str, found: list[str]
) -> None:
    async with journal_at(place) as journal:
        for row in (
            SessionRow(session="a", agent="Claude", title="Übersicht", updated=2),
            SessionRow(session="b", agent="claude", first_words="100 %", cwd="/home/b", updated=1),
        ):
            await journal.open_session(row)
        assert [row.session for row in await journal.sessions(search=search)] == found
        await journal.describe("a", agent="", title="")
        renamed = [row.session for row in await journal.sessions(search="claude")]
        assert renamed == ["b"]


@in_real_time
async def test_a_deleted_session_is_gone_with_everything_of_it(place: Place) -> None:
    async with journal_at(place, "s", "t") as journal:
        await journal.append("s", [Entry("update", b"{}", "needle")] * 3)
        await journal.put_snapshot("s", 3, b"{}")
        await journal.compact("s", 1, 2, {2: None})
        await journal.append("t", [Entry("update", b"{}", "needle")])
        journal.append("s", entries("4"))
        assert await journal.delete("s") is True
        with pytest.raises(SessionNotOpen):
            journal.append("s", entries("5"))
        with pytest.raises(NotInJournal):
            await events(journal, "s")
        assert await journal.search("needle") == [Hit("t", 1, "needle")]
        row = await journal.open_session(SessionRow(session="s"))
        assert (row.head, row.epoch, row.size, row.snapshot) == (0, 0, 0, 0)
        assert journal.append("s", entries("1")).last == 1


@in_real_time
async def test_a_session_that_is_deleted_while_it_is_read_ends_there(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", entries(*map(str, range(3_000))))
        numbers = []
        async for batch in journal.read("s"):
            numbers += [event.seq for event in batch]
            await journal.delete("s")
        assert numbers == list(range(1, 1_001))


# ---- snapshots


@in_real_time
async def test_the_newest_snapshot_is_kept(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        assert await journal.snapshot("s") is None
        await journal.append("s", entries(*"abc"))
        for seq, body in [(2, b'"two"'), (1, b'"one"')]:
            await journal.put_snapshot("s", seq, body)
        assert await journal.snapshot("s") == Snapshot(2, b'"two"')
        await journal.put_snapshot("s", 2, b'"again"')
        assert await journal.snapshot("s") == Snapshot(2, b'"again"')
        row = await journal.session("s")
        assert row is not None
        assert row.snapshot == 2


@pytest.mark.parametrize("seq", [-1, 0, 2])
@in_real_time
async def test_a_snapshot_of_an_event_that_is_not_there_is_refused(place: Place, seq: int) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", entries("1"))
        with pytest.raises(JournalRefused, match="events 1 to 1"):
            await journal.put_snapshot("s", seq, b"{}")


# ---- compaction


@in_real_time
async def test_events_are_replaced_by_fewer_and_no_number_changes(place: Place) -> None:
    clock = Clock()
    async with journal_at(place, "s", clock=clock) as journal:
        for letter in "abcdef":
            clock.now += 1
            journal.append("s", entries(letter))
        await journal.compact("s", 2, 5, {5: Entry("whole", b'"bcde"'), 3: None})
        kept = await events(journal, "s")
        assert bodies(kept) == [(1, b'"a"'), (3, b'"c"'), (5, b'"bcde"'), (6, b'"f"')]
        assert [(event.kind, event.at) for event in kept[1:3]] == [
            ("update", 1_003.0),
            ("whole", 1_005.0),
        ]
        row = await journal.session("s")
        assert row is not None
        assert (row.head, row.size) == (6, 15)
        await journal.append("s", entries("g"))
        for after in (1, 2, 3, 4):
            seen = [event.seq for event in await events(journal, "s", after)]
            assert seen == [seq for seq in (3, 5, 6, 7) if seq > after]


@in_real_time
async def test_ranges_that_were_compacted_can_be_compacted_again(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", entries(*"abcdefghij"))
        for first, last in [(2, 3), (6, 8), (9, 10), (1, 8)]:
            await journal.compact("s", first, last, {last: None})
        assert bodies(await events(journal, "s")) == [(8, b'"h"'), (10, b'"j"')]


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [
        (1, 3, {2: None}),  # the last is not kept
        (1, 3, {3: None, 4: None}),
        (2, 3, {1: None, 3: None}),
        (0, 3, {3: None}),
        (3, 2, {2: None}),
        (1, 5, {5: None}),  # there are four
        (1, 3, {2: None, 3: None}),  # 2 is gone already
    ],
)
@in_real_time
async def test_a_compaction_that_would_lose_events_is_refused(
    place: Place, first: int, last: int, kept: dict[int, Entry | None]
) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", entries(*"abcd"))
        await journal.compact("s", 1, 3, {1: None, 3: None})
        with pytest.raises(JournalRefused):
            await journal.compact("s", first, last, kept)
        assert [event.seq for event in await events(journal, "s")] == [1, 3, 4]


# ---- search


@in_real_time
async def test_events_are_found_by_the_words_of_their_text(place: Place) -> None:
    async with journal_at(place, "s", "t") as journal:
        journal.append("s", [Entry("prompt", b"{}", "Why does the Lexer skip a token?")])
        journal.append("s", [Entry("update", b'"lexer"')])  # it has no text
        await journal.append("t", [Entry("update", b"{}", "The lexer of \x1b[31m Äpfel")])

        async def found(text: str, limit: int = 50) -> list[tuple[str, int]]:
            return [(hit.session, hit.seq) for hit in await journal.search(text, limit)]

        assert await found("LEXER") == [("t", 1), ("s", 1)]
        assert await found("lexer", limit=1) == [("t", 1)]
        assert await found("skip lex") == [("s", 1)]
        assert await found("äpf") == [("t", 1)]
        assert await found("lexer AND parser") == []
        for nothing in ("", "  ", '"', "*", "NOT", "text:lexer"):
            assert await found(nothing) == []
        (hit,) = await journal.search("äpfel")
        assert "\x1b" not in hit.excerpt
        assert "Äpfel" in hit.excerpt


@in_real_time
async def test_the_search_follows_a_compaction(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        journal.append("s", [Entry("update", b"{}", word) for word in ("one", "two", "three")])
        await journal.compact("s", 1, 3, {2: None, 3: Entry("whole", b"{}", "four")})
        for text, found in {"one": [], "two": [2], "three": [], "four": [3]}.items():
            assert [hit.seq for hit in await journal.search(text)] == found


# ---- retention


@in_real_time
async def test_sessions_that_were_not_updated_for_long_are_deleted(place: Place) -> None:
    clock = Clock()
    async with journal_at(place, clock=clock) as journal:
        for name in ("old", "open", "new"):
            await opened(journal, name)
            clock.now += 100
        for name in ("old", "new"):
            await journal.close_session(name)
        assert await journal.retain(timedelta(seconds=150), None) == ["old"]
        assert [row.session for row in await journal.sessions()] == ["new", "open"]
        assert await journal.retain(None, None) == []


@in_real_time
async def test_the_oldest_sessions_are_deleted_until_the_rest_fits(place: Place) -> None:
    clock = Clock()
    async with journal_at(place, clock=clock) as journal:
        for name in "abcd":
            await opened(journal, name)
            clock.now += 1
            await journal.append(name, entries("x" * 98))
        await journal.put_snapshot("b", 1, b'"%s"' % (b"x" * 98))
        for name in "bcd":
            await journal.close_session(name)
        assert await journal.retain(None, 500) == []
        assert await journal.retain(None, 499) == ["b"]
        assert await journal.retain(None, 0) == ["c", "d"]
        assert [row.session for row in await journal.sessions()] == ["a"]


# ---- readers


@in_real_time
async def test_others_read_while_a_journal_is_written(place: Place) -> None:
    async with journal_at(place, "s") as journal:
        await journal.append("s", [Entry("update", b"{}", "needle")])
        reader = await place.reader()
        try:
            assert bodies(await events(reader, "s")) == [(1, b"{}")]
            await journal.append("s", entries("2"))
            assert len(await events(reader, "s")) == 2
            assert len(await reader.search("needle")) == 1
            assert [row.head for row in await reader.sessions()] == [2]
            assert await reader.check() == []
        finally:
            await reader.close()
