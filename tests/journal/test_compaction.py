"""Fewer events that add up to the same session, also for a reader that has seen some of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.deeds import deeds, do, everything
from tests.support.strategies import v2_update_structs
from twofold.journal.compaction import Compaction, compaction
from twofold.journal.journal import Event
from twofold.journal.session_events import read_input, write_input
from twofold.session import Session
from twofold.session.inputs import Input, LoggedSession, put
from twofold.wire import v2

CHUNKS = (
    *("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"),
    "terminal_output_chunk",
)
streams = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), v2_update_structs(*CHUNKS)),
        st.tuples(st.just("apply"), v2_update_structs(*CHUNKS)),
        deeds,
    ),
    max_size=40,
)


def events_of(done: list[tuple[Any, ...]]) -> tuple[list[Event], Session]:
    inputs: list[Input] = []
    session: Session = LoggedSession("s", lambda given, _: inputs.append(given))
    for deed in done:
        session = do(session, deed)
    events = [
        Event(seq, 0.0, *write_input(given_input)) for seq, given_input in enumerate(inputs, 1)
    ]
    return events, session


def compacted(events: list[Event], found: Compaction | None) -> list[Event]:
    if found is None:
        return events
    made = []
    for event in events:
        if not found.first <= event.seq <= found.last:
            made.append(event)
        elif event.seq in found.kept:
            entry = found.kept[event.seq]
            made.append(event if entry is None else event._replace(kind=entry[0], body=entry[1]))
    return made


def folded(events: list[Event]) -> Session:
    session = Session("s")
    for event in events:
        session, _ = put(session, read_input(event.kind, event.body))
    return session


def known(session: Session) -> set[tuple[type, str]]:
    messages = session.messages
    return {
        *((v2.UserMessageChunk, each) for each in messages["user"]),
        *((v2.AgentMessageChunk, each) for each in messages["agent"]),
        *((v2.AgentThoughtChunk, each) for each in messages["thought"]),
        *((v2.TerminalOutputChunk, each) for each in session.terminals),
    }


def nothing(thing: tuple[type, str]) -> bool:
    return False


@given(streams, st.data())
def test_what_is_compacted_adds_up_to_the_same_session_for_every_reader(
    done: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    events, session = events_of(done)
    begin = data.draw(st.integers(0, len(events)))
    before, rest = events[:begin], events[begin:]
    # a replay that took the place of everything had nothing before it
    over = any(event.kind == "started_over" for event in rest)
    found = compaction(rest, nothing if over else known(folded(before)).__contains__)
    after = compacted(events, found)
    assert everything(folded(after)) == everything(session)
    if found is not None:
        assert len(after) < len(events)
        assert found.last in found.kept
    # somebody has read up to the middle of it, and is given what is kept after that
    seen = data.draw(st.integers(0, len(events)))
    reader = [*events[:seen], *(event for event in after if event.seq > seen)]
    assert everything(folded(reader)) == everything(session)


def chunk(text: str, message_id: str = "m") -> tuple[str, v2.SessionUpdate]:
    body = (
        '{"sessionUpdate": "agent_message_chunk", "messageId": "%s",'
        ' "content": {"type": "text", "text": "%s"}}'
    )
    return "apply", v2.decode_update((body % (message_id, text)).encode())


def test_of_many_pieces_of_a_message_two_events_are_left() -> None:
    events, session = events_of([chunk(str(number)) for number in range(1000)])
    after = compacted(events, compaction(events, nothing))
    assert [event.seq for event in after] == [1, 1000]
    assert everything(folded(after)) == everything(session)


def test_a_message_keeps_its_place_among_others() -> None:
    events, session = events_of(
        [chunk(str(n), message_id) for n in range(9) for message_id in "ab"]
    )
    after = compacted(events, compaction(events, nothing))
    assert len(after) == 4
    assert folded(after).entries == session.entries


def test_of_a_message_that_was_there_before_nothing_is_compacted() -> None:
    events, _ = events_of([chunk(str(number)) for number in range(10)])
    assert compaction(events[5:], lambda thing: thing == (v2.AgentMessageChunk, "m")) is None


def test_of_a_chunk_that_has_more_than_its_content_nothing_is_lost() -> None:
    body = b'{"sessionUpdate": "agent_message_chunk", "messageId": "m", "_meta": {"a": 1},'
    body += b' "content": {"type": "text", "text": "x"}}'
    events, _ = events_of([chunk("1"), ("apply", v2.decode_update(body)), chunk("2"), chunk("3")])
    assert compaction(events, nothing) is None
