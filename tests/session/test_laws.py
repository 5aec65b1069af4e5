"""The laws of the session (live = replay = snapshot, prefix, constant), and what it adds up to."""

import base64
import copy
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sessions import fold
from tests.support.strategies import (
    IDS,
    OUTPUT,
    Json,
    dumps,
    ids,
    v2_permission_requests,
    v2_struct,
    v2_struct_streams,
    v2_update_structs,
)
from twofold.session import Draft, Message, Session, Sessions, ToolCall, snapshot
from twofold.session.changes import (
    Change,
    CommandsChanged,
    CompactionChanged,
    ConfigChanged,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    InfoChanged,
    NoticeAdded,
    PermissionChanged,
    PlanChanged,
    StateChanged,
    SubagentChanged,
    TerminalChanged,
    TerminalOutputAppended,
    UnknownAdded,
    UsageChanged,
)
from twofold.session.reduce import NotBase64
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Unknown
from twofold.wire.content import TextContent
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    SelectedPermissionOutcome,
    SessionInfoUpdate,
)

Stream = list[v2.SessionUpdate]

drafts = st.sampled_from(Draft)


def folded(*updates: Json, draft: Draft = Draft.JUNE) -> Session:
    return fold(map(v2_struct, updates), draft)


def through_bytes(updates: Iterable[v2.SessionUpdate]) -> Stream:
    return [v2.decode_update(codec.encode(update)) for update in updates]


def chunk(message_id: str, text: str, kind: str = "agent_message_chunk") -> Json:
    return {
        "sessionUpdate": kind,
        "messageId": message_id,
        "content": {"type": "text", "text": text},
    }


def tool_call(tool_call_id: str = "a", **patch: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, **patch}


def state(name: str, **rest: Any) -> Json:
    return {"sessionUpdate": "state_update", "state": name, **rest}


def output_chunk(terminal_id: str, data: bytes) -> Json:
    return {
        "sessionUpdate": "terminal_output_chunk",
        "terminalId": terminal_id,
        "data": base64.b64encode(data).decode(),
    }


def summary_chunk(text: str) -> Json:
    return {
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": "c",
        "content": {"type": "text", "text": text},
    }


def message_of(session: Session, message_id: str, role: Any = "agent") -> Message:
    return session.messages[role][message_id]


# ---- law 3: live = replay = snapshot ---------------------------------------------------------


@settings(max_examples=100)
@given(v2_struct_streams(), drafts)
def test_a_snapshot_rebuilds_the_session(stream: Stream, draft: Draft) -> None:
    session = fold(stream, draft)
    assert fold(snapshot(session), draft) == session


@settings(max_examples=60)
@given(v2_struct_streams(), drafts)
def test_a_snapshot_rebuilds_the_session_through_bytes(stream: Stream, draft: Draft) -> None:
    session = fold(stream, draft)
    assert fold(through_bytes(snapshot(session)), draft) == session


@settings(max_examples=30)
@given(v2_struct_streams(), drafts)
def test_a_snapshot_is_its_own_snapshot(stream: Stream, draft: Draft) -> None:
    rebuilding = snapshot(fold(stream, draft))
    assert snapshot(fold(rebuilding, draft)) == rebuilding


@settings(max_examples=60)
@given(v2_struct_streams(max_size=20), v2_struct_streams(max_size=10), drafts)
def test_a_session_goes_on_from_its_snapshot_as_from_itself(
    before: Stream, after: Stream, draft: Draft
) -> None:
    """A client that joins late sees the same state as one that was connected from the start."""
    joined = fold([*snapshot(fold(before, draft)), *after], draft)
    assert joined == fold([*before, *after], draft)


@settings(max_examples=60)
@given(v2_struct_streams(), drafts)
def test_live_and_replayed_updates_give_the_same_session(stream: Stream, draft: Draft) -> None:
    assert fold(through_bytes(stream), draft) == fold(stream, draft)


@settings(max_examples=30)
@given(v2_struct_streams(max_size=20), v2_struct_streams(max_size=10))
def test_a_snapshot_does_not_change_when_the_session_goes_on(before: Stream, after: Stream) -> None:
    session = fold(before)
    taken = snapshot(session)
    written = [codec.encode(update) for update in taken]
    for update in after:
        session.apply(update)
    assert [codec.encode(update) for update in taken] == written


@settings(max_examples=30)
@given(v2_struct_streams(), drafts)
def test_folding_leaves_the_updates_as_they_were(stream: Stream, draft: Draft) -> None:
    written = [codec.encode(update) for update in stream]
    fold(stream, draft)
    assert [codec.encode(update) for update in stream] == written


@settings(max_examples=30)
@given(st.lists(v2_permission_requests(), max_size=5), v2_struct_streams(max_size=10))
def test_a_snapshot_keeps_the_fields_that_permission_requests_gave_tool_calls(
    requests: list[Json], stream: Stream
) -> None:
    session = fold(stream)
    for number, request in enumerate(requests):
        session.ask(number, codec.decode(dumps(request), v2.RequestPermissionRequest))
        session.settle(number)
    assert fold(through_bytes(snapshot(session))) == session


def outcomes(session: Session) -> dict[str, str]:
    """The outcome of every tool call, by its id."""
    return {call.tool_call_id: session.outcome(call) for call in session.tool_calls.values()}


@settings(max_examples=150)
@given(v2_struct_streams("tool_call_update", "state_update", "tool_call_content_chunk"))
def test_a_snapshot_keeps_which_calls_are_going_on_and_which_were_left_open(
    stream: Stream,
) -> None:
    session = fold(stream)
    again = fold(through_bytes(snapshot(session)))
    assert outcomes(again) == outcomes(session)
    for each in (session, again):
        each.cancel()
    assert again.cancelled_calls() == session.cancelled_calls()


# ---- law 4: prefix ---------------------------------------------------------------------------


@settings(max_examples=30)
@given(v2_struct_streams(), st.lists(st.integers(0, 40), max_size=4), drafts)
def test_a_stream_in_pieces_gives_the_same_session(
    stream: Stream, cuts: list[int], draft: Draft
) -> None:
    session = Session("s", draft)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(stream)], strict=True):
        for update in stream[start:end]:
            session.apply(update)
    assert session == fold(stream, draft)


MIRRORED = [field.name for field in fields(Session) if field.compare and field.name != "session_id"]


class Mirror:
    """A view that reads again just what the facts name."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.parts: dict[str, Any] = copy.deepcopy(
            {name: getattr(session, name) for name in MIRRORED}
        )

    def take(self, change: Change) -> None:
        entries = self.parts["entries"]
        match change:
            case EntryAdded(index):
                assert index == len(entries) == len(self.session.entries) - 1
                entries.append(copy.deepcopy(self.session.entries[index]))
            case EntryChanged(index):
                entries[index] = copy.deepcopy(self.session.entries[index])
            case ContentAppended(index):
                entries[index].content.append(self.session.entries[index].content[-1])
            case TerminalOutputAppended(terminal_id):
                whole = self.session.terminals[terminal_id].output
                mine = self.parts["terminals"][terminal_id].output
                assert whole.startswith(mine)
                mine += whole[len(mine) :]
            case NoticeAdded(index) | UnknownAdded(index):
                name = "notices" if isinstance(change, NoticeAdded) else "unknown"
                assert index == len(self.parts[name])
                self.parts[name].append(getattr(self.session, name)[index])
            case StateChanged():
                self.copy("state_update", "cancelling")
            case CommandsChanged():
                self.copy("commands_update")
            case ConfigChanged():
                self.copy("config_update")
            case InfoChanged():
                self.copy("info")
            case UsageChanged():
                self.copy("usage")
            case TerminalChanged(key):
                self.copy_item("terminals", key)
            case PlanChanged(key):
                self.copy_item("plans", key)
            case CompactionChanged(key):
                self.copy_item("compactions", key)
            case SubagentChanged(key):
                self.copy_item("subagents", key)
            case PermissionChanged(key):
                self.copy_item("permissions", key)

    def copy(self, *names: str) -> None:
        for name in names:
            self.parts[name] = copy.deepcopy(getattr(self.session, name))

    def copy_item(self, name: str, key: int | str) -> None:
        items = getattr(self.session, name)
        if key in items:
            self.parts[name][key] = copy.deepcopy(items[key])
        else:
            self.parts[name].pop(key, None)

    def is_equal(self) -> bool:
        return all(getattr(self.session, name) == self.parts[name] for name in MIRRORED)


@settings(max_examples=60)
@given(v2_struct_streams(), drafts)
def test_a_view_that_reads_what_the_facts_name_equals_the_session(
    stream: Stream, draft: Draft
) -> None:
    session = Session("s", draft)
    mirror = Mirror(session)
    for update in stream:
        for change in session.apply(update):
            mirror.take(change)
        assert mirror.is_equal()


@settings(max_examples=30)
@given(
    st.lists(v2_permission_requests() | st.integers(0, 2), max_size=8),
    v2_struct_streams(max_size=8),
)
def test_a_view_learns_of_permissions_by_facts_too(steps: list[Any], stream: Stream) -> None:
    session = fold(stream)
    mirror = Mirror(session)
    for number, step in enumerate(steps):
        if isinstance(step, int):
            changes = session.settle(step)
        else:
            request = codec.decode(dumps(step), v2.RequestPermissionRequest)
            changes = session.ask(number % 3, request)
        for change in changes:
            mirror.take(change)
        assert mirror.is_equal()


@settings(max_examples=30)
@given(v2_struct_streams(), drafts)
def test_every_update_is_reported_by_at_least_one_fact(stream: Stream, draft: Draft) -> None:
    session = Session("s", draft)
    assert all(session.apply(update) for update in stream)


@settings(max_examples=30)
@given(v2_struct_streams())
def test_entries_are_in_order_of_first_appearance_and_have_their_index(stream: Stream) -> None:
    session = fold(stream)
    assert [entry.index for entry in session.entries] == list(range(len(session.entries)))
    by_key = [*session.tool_calls.values()]
    by_key += [m for messages in session.messages.values() for m in messages.values()]  # type: ignore[misc]
    assert sorted(entry.index for entry in by_key) == list(range(len(session.entries)))
    assert all(session.entries[entry.index] is entry for entry in by_key)


# ---- law 8: constant -------------------------------------------------------------------------


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without the garbage collector, whose hooks are Python and would be counted."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def opcodes(act: Callable[[], object]) -> int:
    """How many instructions of Python an act takes: work, not time.

    It is done twice: Python 3.12 does not count everything the first time it traces a function.
    """
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    with undisturbed():
        for _ in range(2):
            count = 0
            sys.settrace(trace)
            try:
                act()
            finally:
                sys.settrace(before)
    return count


def least_memory(acts: Iterable[Callable[[], object]]) -> int:
    """How many bytes the cheapest of these acts needs while it runs.

    The cheapest, for a list or a bytearray grows in leaps: most appends allocate nothing. What
    copies a whole collection does so every time.
    """
    peaks = []
    with undisturbed():
        tracemalloc.start()
        try:
            for act in acts:
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                act()
                peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
    return min(peaks)


SHORT, LONG = 10, 10_000

STREAMED: dict[str, Json] = {
    "a message chunk": chunk("m", "x"),
    "a thought chunk": chunk("m", "x", "agent_thought_chunk"),
    "a user message chunk": chunk("m", "x", "user_message_chunk"),
    "a chunk of tool call content": {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": "a",
        "content": {"type": "content", "content": {"type": "text", "text": "x"}},
    },
    "a chunk of terminal output": output_chunk("t", b"x" * 30),
    "a chunk of a compaction's summary": summary_chunk("x"),
    "a chunk of a message between sessions": chunk("m", "x", "session_message_chunk"),
    "a notice": {"sessionUpdate": "notice", "severity": "info", "title": "t"},
    "an unknown update": {"sessionUpdate": "_x", "n": 1},
    "a status": tool_call(status="in_progress"),
    "a title": {"sessionUpdate": "session_info_update", "title": "t"},
    "a state": state("running"),
    "usage": {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    "a plan": {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": "p", "entries": []},
    },
    "a message without content": {"sessionUpdate": "agent_message", "messageId": "m"},
}


def long_session(length: int) -> Session:
    """A session with as much of everything."""
    session = Session("s")
    for number in range(length):
        session.apply(v2.AgentMessageChunk(f"m{number}", TextContent("x")))
    for update in STREAMED.values():
        struct = v2_struct(update)
        for _ in range(length):
            session.apply(struct)
    return session


@pytest.fixture(scope="module")
def short_and_long() -> tuple[Session, Session]:
    return long_session(SHORT), long_session(LONG)


@pytest.mark.parametrize("kind", STREAMED)
def test_the_work_of_an_update_does_not_grow_with_the_session(
    kind: str, short_and_long: tuple[Session, Session]
) -> None:
    update = v2_struct(STREAMED[kind])
    in_short, in_long = (opcodes(lambda: s.apply(update)) for s in short_and_long)  # noqa: B023
    assert 0 < in_short == in_long


@pytest.mark.parametrize("kind", STREAMED)
def test_the_memory_of_an_update_does_not_grow_with_the_session(
    kind: str, short_and_long: tuple[Session, Session]
) -> None:
    update = v2_struct(STREAMED[kind])
    needed = least_memory([lambda: short_and_long[1].apply(update)] * 32)
    assert needed < 4_000


def test_reading_the_text_after_each_chunk_is_the_same_work_however_long_it_is() -> None:
    update = v2_struct(chunk("m", "x"))
    session = Session("s")
    work: dict[int, int] = {}

    def apply_and_read() -> None:
        session.apply(update)
        assert message_of(session, "m").text[-1] == "x"

    for length in range(1, LONG + 1):
        if length in (SHORT, LONG):
            work[length] = opcodes(apply_and_read)
        else:
            apply_and_read()
    assert work[SHORT] == work[LONG]


def test_reading_the_text_again_joins_nothing() -> None:
    once, many = (folded(*[chunk("m", "x")] * count) for count in (1, 1_000))
    for session in (once, many):
        assert message_of(session, "m").text
    assert opcodes(lambda: message_of(once, "m").text) == opcodes(
        lambda: message_of(many, "m").text
    )


def test_a_new_message_costs_the_same_in_a_long_session(
    short_and_long: tuple[Session, Session],
) -> None:
    def work(session: Session) -> int:
        updates = [v2_struct(chunk(message_id, "x")) for message_id in ("new", "newer")]
        return opcodes(lambda: session.apply(updates.pop()))

    in_short, in_long = map(work, short_and_long)
    assert in_short == in_long


# ---- the text of a message -------------------------------------------------------------------

MESSAGES = [
    *("agent_message", "agent_message_chunk"),
    *("agent_thought", "agent_thought_chunk"),
    *("user_message", "user_message_chunk"),
]


def joined(message: Message) -> str:
    return "".join([block.text for block in message.content if isinstance(block, TextContent)])


@settings(max_examples=60)
@given(st.lists(st.tuples(v2_update_structs(*MESSAGES), st.booleans()), max_size=30))
def test_the_text_is_the_join_of_the_text_blocks_whenever_it_is_read(
    steps: list[tuple[v2.SessionUpdate, bool]],
) -> None:
    session = Session("s")
    for update, look in steps:
        session.apply(update)
        if look:
            for entry in session.entries:
                assert isinstance(entry, Message)
                assert entry.text == joined(entry)
    for entry in session.entries:
        assert isinstance(entry, Message)
        assert entry.text == joined(entry)


def test_reading_the_text_changes_nothing_about_the_session() -> None:
    read, unread = (folded(chunk("m", "a"), chunk("m", "b")) for _ in range(2))
    assert message_of(read, "m").text == "ab"
    assert read == unread


def test_text_read_before_a_replacement_is_forgotten() -> None:
    session = folded(chunk("m", "secret"))
    assert message_of(session, "m").text == "secret"
    redaction = {"sessionUpdate": "agent_message", "messageId": "m", "content": []}
    session.apply(v2_struct(redaction))
    assert message_of(session, "m").text == ""
    session.apply(v2_struct(chunk("m", "new")))
    assert message_of(session, "m").text == "new"


# ---- what a snapshot looks like --------------------------------------------------------------


def snapshot_json(*updates: Json) -> list[Json]:
    return [codec.to_json(update) for update in snapshot(folded(*updates))]


def test_the_snapshot_of_nothing_is_its_state() -> None:
    assert snapshot_json() == [state("idle")]


COMPACTION = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}
DEFAULTS: dict[str, tuple[Json, Json]] = {
    "a tool call": (
        {
            **tool_call(kind="other", status="pending", content=[], locations=[]),
            **dict.fromkeys(("name", "title", "rawInput", "rawOutput", "capabilities", "_meta")),
        },
        tool_call(),
    ),
    "a message": (
        {"sessionUpdate": "agent_message", "messageId": "m", "content": [], "_meta": None},
        {"sessionUpdate": "agent_message", "messageId": "m"},
    ),
    "a message between sessions": (
        {"sessionUpdate": "session_message", "messageId": "m", "senderSessionId": None},
        {"sessionUpdate": "session_message", "messageId": "m"},
    ),
    "a terminal": (
        {
            "sessionUpdate": "terminal_update",
            "terminalId": "t",
            **dict.fromkeys(("command", "cwd", "output", "exitStatus", "size", "capabilities")),
        },
        {"sessionUpdate": "terminal_update", "terminalId": "t"},
    ),
    "a compaction": (
        {**COMPACTION, "summary": [], "error": None},
        COMPACTION,
    ),
    "a subagent": (
        {"sessionUpdate": "subagent_update", "sessionId": "s", "title": None, "state": None},
        {"sessionUpdate": "subagent_update", "sessionId": "s"},
    ),
}


@pytest.mark.parametrize("part", DEFAULTS)
def test_a_snapshot_omits_what_is_at_the_default(part: str) -> None:
    update, expected = DEFAULTS[part]
    assert snapshot_json(update) == [expected, state("idle")]


@pytest.mark.parametrize("field", ["title", "updatedAt", "_meta"])
def test_a_snapshot_omits_a_cleared_title(field: str) -> None:
    info = {"sessionUpdate": "session_info_update"}
    assert snapshot_json(
        {**info, field: {} if field == "_meta" else "x"}, {**info, field: None}
    ) == [state("idle")]


def test_a_snapshot_is_whole_upserts_in_the_order_of_the_entries() -> None:
    taken = snapshot_json(
        state("running"),
        chunk("u", "question", "user_message_chunk"),
        tool_call("a", title="first"),
        chunk("m", "one"),
        tool_call("a", status="completed"),
        chunk("t", "hm", "agent_thought_chunk"),
        chunk("m", "two"),
    )
    assert taken == [
        {
            "sessionUpdate": "user_message",
            "messageId": "u",
            "content": [{"type": "text", "text": "question"}],
        },
        tool_call("a", title="first", status="completed"),
        {
            "sessionUpdate": "agent_message",
            "messageId": "m",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        },
        {
            "sessionUpdate": "agent_thought",
            "messageId": "t",
            "content": [{"type": "text", "text": "hm"}],
        },
        state("running"),
    ]


@settings(max_examples=30)
@given(v2_struct_streams(), drafts)
def test_a_snapshot_has_one_upsert_for_each_entry_and_ends_with_the_state(
    stream: Stream, draft: Draft
) -> None:
    session = fold(stream, draft)
    taken = snapshot(session)
    assert taken[-1] == session.state_update
    between = [update for update in taken[:-1] if isinstance(update, v2.StateUpdate)]
    assert len(between) <= any(call.is_open for call in session.tool_calls.values())
    upserts = [update for update in taken if not isinstance(update, v2.StateUpdate)]
    for entry, update in zip(session.entries, upserts, strict=False):
        if isinstance(entry, ToolCall):
            assert isinstance(update, v2.ToolCallUpdate)
            assert update.tool_call_id == entry.tool_call_id
        else:
            assert update.message_id == entry.message_id  # type: ignore[union-attr]


def test_a_snapshot_of_a_turn_that_ended_without_a_reason_runs_before_it_ends() -> None:
    left_open = tool_call("a", status="in_progress")
    expected = [left_open, state("running"), state("idle")]
    assert snapshot_json(state("running"), left_open, state("idle")) == expected


def test_a_snapshot_keeps_unknown_updates() -> None:
    update = tool_call(kind="_dance", status="waltzing", content=[{"type": "_step"}], futureField=1)
    unknown = {"sessionUpdate": "_x", "payload": [1]}
    assert snapshot_json(update, unknown) == [update, unknown, state("idle")]


@pytest.mark.parametrize("part", DEFAULTS)
def test_a_snapshot_keeps_unknown_fields(part: str) -> None:
    _, update = DEFAULTS[part]
    unknown = {**update, "futureField": 1}
    assert snapshot_json(unknown, update) == [unknown, state("idle")]


# ---- upserts, chunks, ids --------------------------------------------------------------------

CREATING: dict[str, tuple[Json, Change]] = {
    "a tool call": (tool_call("new"), EntryAdded(0)),
    "content of a tool call": (
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "new",
            "content": {"type": "terminal", "terminalId": "t"},
        },
        EntryAdded(0),
    ),
    "a message": ({"sessionUpdate": "user_message", "messageId": "new"}, EntryAdded(0)),
    "a chunk": (chunk("new", "x"), EntryAdded(0)),
    "a terminal": (
        {"sessionUpdate": "terminal_update", "terminalId": "new"},
        TerminalChanged("new"),
    ),
    "terminal output": (output_chunk("new", b"x"), TerminalChanged("new")),
    "a compaction": (
        {"sessionUpdate": "compaction_update", "compactionId": "new", "status": "in_progress"},
        CompactionChanged("new"),
    ),
    "a plan": (
        {"sessionUpdate": "plan_update", "plan": {"type": "_x", "planId": "new"}},
        PlanChanged("new"),
    ),
}


@pytest.mark.parametrize("part", CREATING)
def test_an_update_for_an_unknown_id_creates(part: str) -> None:
    update, change = CREATING[part]
    assert Session("s").apply(v2_struct(update)) == (change,)


def test_interleaved_messages_stay_apart() -> None:
    session = folded(chunk("A", "1"), chunk("B", "2"), chunk("A", "3"))
    assert [entry.text for entry in session.entries if isinstance(entry, Message)] == ["13", "2"]
    assert [len(entry.content) for entry in session.entries] == [2, 1]


def test_one_id_serves_a_thought_a_message_and_a_tool_call() -> None:
    session = folded(
        chunk("x", "thinking", "agent_thought_chunk"),
        chunk("x", "saying"),
        chunk("x", "asking", "user_message_chunk"),
        tool_call("x", title="doing"),
        chunk("x", " more", "agent_thought_chunk"),
    )
    assert [getattr(entry, "text", None) for entry in session.entries] == [
        "thinking more",
        "saying",
        "asking",
        None,
    ]


@given(st.lists(st.tuples(ids, st.sampled_from("xyz")), max_size=20))
def test_any_interleaving_of_chunks_adds_up_per_message(steps: list[tuple[str, str]]) -> None:
    session = folded(*[chunk(message_id, text) for message_id, text in steps])
    for message_id in IDS:
        texts = [text for each, text in steps if each == message_id]
        if texts:
            message = message_of(session, message_id)
            assert (message.text, len(message.content)) == ("".join(texts), len(texts))


def test_a_chunk_is_one_item_and_is_never_glued_to_another() -> None:
    session = folded(chunk("m", "a"), chunk("m", ""), chunk("m", "b"))
    assert message_of(session, "m").content == [TextContent("a"), TextContent(""), TextContent("b")]


def test_the_chunks_of_a_compactions_summary_append_to_what_an_update_set() -> None:
    session = folded(
        summary_chunk("lost"), {**COMPACTION, "summary": [{"type": "text", "text": "a"}]}
    )
    session.apply(v2_struct(summary_chunk("b")))
    assert session.compactions["c"].summary == [TextContent("a"), TextContent("b")]


def test_the_meta_of_a_chunk_patches_nothing() -> None:
    session = folded(
        {"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"k": 1}},
        {**chunk("m", "x"), "_meta": {"k": 2}},
        {**chunk("m", "x"), "_meta": None},
    )
    assert message_of(session, "m").meta == {"k": 1}


METAS: dict[str, tuple[Draft, list[Any], Any]] = {
    "June: a value replaces": (Draft.JUNE, [{"a": 1}, {"b": 2}], {"b": 2}),
    "June: null clears": (Draft.JUNE, [{"a": 1}, None], None),
    "June: an empty object replaces": (Draft.JUNE, [{"a": 1}, {}], {}),
    "June: null inside is a value": (Draft.JUNE, [{"a": 1}, {"a": None}], {"a": None}),
    "November: keys merge": (Draft.NOVEMBER, [{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
    "November: only at the top": (
        Draft.NOVEMBER,
        [{"a": {"x": 1}}, {"a": {"y": 2, "z": None}}],
        {"a": {"y": 2, "z": None}},
    ),
    "November: a null key is removed": (
        Draft.NOVEMBER,
        [{"a": 1, "b": 2}, {"a": None}],
        {"b": 2},
    ),
    "November: an empty object changes nothing": (Draft.NOVEMBER, [{"a": 1}, {}], {"a": 1}),
    "November: null clears": (Draft.NOVEMBER, [{"a": 1}, None], None),
    "November: removing what is not there": (Draft.NOVEMBER, [{"a": None}], None),
}
METAS_OF: dict[str, tuple[Json, Callable[[Session], Any]]] = {
    "a tool call": (tool_call(), lambda session: session.tool_calls["a"].meta),
    "a message": (
        {"sessionUpdate": "agent_message", "messageId": "m"},
        lambda session: message_of(session, "m").meta,
    ),
    "a terminal": (
        {"sessionUpdate": "terminal_update", "terminalId": "t"},
        lambda session: session.terminals["t"].meta,
    ),
    "a compaction": (
        COMPACTION,
        lambda session: session.compactions["c"].meta,
    ),
    "the session": (
        {"sessionUpdate": "session_info_update"},
        lambda session: session.info.meta or None,
    ),
    "a subagent": (
        {"sessionUpdate": "subagent_update", "sessionId": "x"},
        lambda session: session.subagents["x"].meta or None,
    ),
}


@pytest.mark.parametrize("part", METAS_OF)
@pytest.mark.parametrize("rule", METAS)
def test_meta_is_patched_by_the_rule_of_the_draft(rule: str, part: str) -> None:
    draft, patches, expected = METAS[rule]
    update, meta_of = METAS_OF[part]
    session = folded(*[{**update, "_meta": meta} for meta in patches], draft=draft)
    if part in ("the session", "a subagent"):  # an empty object and a missing one are the same here
        expected = expected or None
    assert meta_of(session) == expected


def test_a_malformed_field_does_not_clear() -> None:
    session = folded(tool_call(status="in_progress", title="t", content=[]))
    faults: list[Any] = []
    update = v2.decode_update(dumps(tool_call(status=5, title=[], _meta=3)), faults)
    session.apply(update)
    call = session.tool_calls["a"]
    assert (call.status, call.title, call.meta) == ("in_progress", "t", None)
    assert [fault.path for fault in faults] == [".status", ".title", "._meta"]


UNKNOWN_WORDS = ["_acme.dev/x", "future"]


@pytest.mark.parametrize("word", UNKNOWN_WORDS)
def test_an_unknown_kind_and_status_are_kept(word: str) -> None:
    call = folded(tool_call(kind=word, status=word)).tool_calls["a"]
    assert (call.kind, call.status) == (word, word)


def test_even_an_empty_kind_and_status_are_kept() -> None:
    call = folded(tool_call(kind="", status="")).tool_calls["a"]
    assert (call.kind, call.status) == ("", "")


def test_an_unknown_update_is_kept_and_reported() -> None:
    session = Session("s")
    changes = session.apply(v2_struct({"sessionUpdate": "_x", "n": 1}))
    assert changes == (UnknownAdded(0),)
    assert isinstance(session.unknown[0], Unknown)
    assert session.unknown[0].tag == "_x"


def test_what_is_not_an_update_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match="TextContent"):
        Session("s").apply(TextContent("x"))  # type: ignore[arg-type]


# ---- states ----------------------------------------------------------------------------------

TURNS: dict[str, tuple[list[str], list[bool]]] = {
    "a turn ends once": (["running", "idle"], [False, True]),
    "a repeated idle is not a completion": (
        ["running", "idle", "idle", "idle"],
        [False, True, False, False],
    ),
    "an idle at the beginning is not a completion": (["idle"], [False]),
    "a pending action does not end it": (
        ["running", "requires_action", "running", "idle"],
        [False, False, False, True],
    ),
    "a turn may end while an action is asked for": (["requires_action", "idle"], [False, True]),
    "two turns end twice": (["running", "idle", "running", "idle"], [False, True, False, True]),
    "a repeated running is no beginning and no end": (
        ["running", "running", "idle"],
        [False, False, True],
    ),
    "an unknown state is not idle": (["running", "_napping", "idle"], [False, False, True]),
    "an unknown state may be all there was": (["_napping", "idle"], [False, True]),
}


@pytest.mark.parametrize("case", TURNS)
def test_the_end_of_a_turn_is_sent_once(case: str) -> None:
    states, ended = TURNS[case]
    session = Session("s")
    changes = [session.apply(v2_struct(state(name))) for name in states]
    assert changes == [(StateChanged(name, end),) for name, end in zip(states, ended, strict=True)]


@pytest.mark.parametrize("word", ["_napping", "future", "unknown", ""])
def test_an_unknown_state_is_not_idle(word: str) -> None:
    session = folded(state("running"), state(word))
    assert session.state == word
    assert session.stop_reason is None


def test_the_stop_reason_is_that_of_the_last_state() -> None:
    session = folded(state("running"), state("idle", stopReason="end_turn"))
    assert session.stop_reason == "end_turn"
    session.apply(v2_struct(state("running")))
    assert session.stop_reason is None


def test_a_cancelled_turn_is_cancelling_until_it_is_idle() -> None:
    session = folded(state("running"))
    session.cancel()
    session.apply(v2_struct(chunk("m", "late")))
    session.apply(v2_struct(state("requires_action")))
    assert session.cancelling
    session.apply(v2_struct(state("idle", stopReason="cancelled")))
    assert (session.cancelling, session.stop_reason) == (False, "cancelled")
    assert message_of(session, "m").text == "late"


def turn(*updates: Json, **end: Any) -> list[Json]:
    return [state("running"), *updates, state("idle", **{"stopReason": "end_turn", **end})]


def test_a_cancel_concerns_the_open_calls_of_its_turn_only() -> None:
    session = folded(
        tool_call("replayed", status="in_progress"),
        *turn(tool_call("earlier", status="in_progress"), tool_call("done", status="completed")),
        state("running"),
        tool_call("open"),
        tool_call("finished", status="failed"),
    )
    assert session.cancelled_calls() == []
    session.cancel()
    assert session.cancelled_calls() == [v2.ToolCallUpdate("open", status="cancelled")]
    assert outcomes(session) == {
        "replayed": "left_open",
        "earlier": "left_open",
        "done": "completed",
        "open": "cancelling",
        "finished": "failed",
    }


def test_a_call_that_a_turn_leaves_open_is_not_going_on_any_more() -> None:
    session = folded(state("running"), tool_call("a", status="in_progress"), tool_call("b"))
    assert outcomes(session) == {"a": "in_progress", "b": "pending"}
    changes = session.apply(v2_struct(state("idle", stopReason="end_turn")))
    assert changes == (EntryChanged(0), EntryChanged(1), StateChanged("idle", ended=True))
    assert outcomes(session) == {"a": "left_open", "b": "left_open"}
    session.apply(v2_struct(tool_call("a", status="completed")))  # late, and the last word
    assert outcomes(session) == {"a": "completed", "b": "left_open"}


def test_a_call_that_is_opened_again_belongs_to_the_turn_that_opens_it() -> None:
    session = folded(
        *turn(tool_call("a", status="completed")),
        state("running"),
        tool_call("a", status="in_progress"),
    )
    session.cancel()
    assert [update.tool_call_id for update in session.cancelled_calls()] == ["a"]


@pytest.mark.parametrize("before", [[], [tool_call("a", status="completed")]], ids=["new", "known"])
def test_a_call_that_is_opened_after_its_turn_is_left_open(before: list[Json]) -> None:
    session = folded(*turn(*before), tool_call("a", status="in_progress"))
    assert outcomes(session) == {"a": "left_open"}


def test_a_call_in_the_background_goes_on_after_its_turn() -> None:
    work = [{"type": "tool_call", "toolCallId": "a"}]
    session = folded(*turn(tool_call("a", status="in_progress"), background=work))
    assert outcomes(session) == {"a": "in_progress"}
    assert EntryChanged(0) in session.apply(v2_struct(state("idle")))
    assert outcomes(session) == {"a": "left_open"}


def test_without_state_updates_the_outcome_of_a_call_is_that_of_its_status() -> None:
    session = folded(tool_call("a", status="in_progress"), state("idle"))
    assert outcomes(session) == {"a": "in_progress"}
    assert session.replayed() == (EntryChanged(0),)
    assert outcomes(session) == {"a": "left_open"}


@pytest.mark.parametrize(
    ("outcome", "after", "expected"),
    [
        ("no", {}, "rejected"),
        ("never", {}, "rejected"),
        ("yes", {}, "pending"),
        ("unknown", {}, "pending"),
        (None, {}, "pending"),
        ("no", {"status": "in_progress"}, "in_progress"),
        ("no", {"status": "completed"}, "completed"),
        ("no", {"title": "Other"}, "rejected"),
    ],
)
def test_a_call_that_was_rejected_looks_rejected_until_the_agent_sets_a_status(
    outcome: str | None, after: Json, expected: str
) -> None:
    request = {
        "sessionId": "s",
        "title": "May I?",
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "a"}},
        "options": [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
            {"optionId": "never", "name": "Never", "kind": "reject_always"},
        ],
    }
    session = folded(state("running"))
    session.ask(1, codec.decode(dumps(request), v2.RequestPermissionRequest))
    chosen = CancelledPermissionOutcome() if outcome is None else SelectedPermissionOutcome(outcome)
    session.settle(1, chosen)
    session.apply(v2_struct(tool_call("a", **after)))
    assert outcomes(session) == {"a": expected}
    [decision] = session.tool_calls["a"].decisions
    assert (decision.option.option_id if decision.option else None) == outcome


def test_updates_may_come_while_idle() -> None:
    session = folded(state("idle"), chunk("m", "background"), tool_call(status="in_progress"))
    assert (session.state, len(session.entries)) == ("idle", 2)


# ---- permissions -----------------------------------------------------------------------------

OPTIONS = [{"optionId": "o", "name": "n", "kind": "allow_once"}]


def permission(**rest: Any) -> v2.RequestPermissionRequest:
    request = {"sessionId": "s", "title": "May I?", "options": OPTIONS, **rest}
    return codec.read(request, v2.RequestPermissionRequest)  # type: ignore[no-any-return]


def about(**patch: Any) -> Json:
    return {"type": "tool_call", "toolCall": {"toolCallId": "a", **patch}}


def test_a_permission_keeps_the_tool_call_as_it_was_before_the_request_patched_it() -> None:
    session = folded(tool_call(title="Run", rawInput={"command": "rm -rf ~; ls"}))
    session.ask(7, permission(subject=about(title="Run: rm …", rawInput=None)))
    session.apply(v2.ToolCallUpdate("a", title="later"))
    before = session.permissions[7].before
    assert before is not None
    assert (before.title, before.raw_input) == ("Run", {"command": "rm -rf ~; ls"})
    assert session.tool_calls["a"].raw_input is None


def test_a_permissions_tool_call_is_applied_before_it_is_pending() -> None:
    session = folded(tool_call(title="old", status="in_progress"))
    changes = session.ask(7, permission(subject=about(title="rm -rf /", kind="execute")))
    assert changes == (EntryChanged(0), PermissionChanged(7))
    call = session.tool_calls["a"]
    assert (call.title, call.kind, call.status) == ("rm -rf /", "execute", "in_progress")
    assert session.permissions[7].tool_call_id == "a"


def test_a_permission_for_an_unknown_tool_call_creates_it() -> None:
    session = Session("s")
    assert session.ask("r", permission(subject=about(title="t"))) == (
        EntryAdded(0),
        PermissionChanged("r"),
    )
    assert session.tool_calls["a"].title == "t"


SUBJECTS: dict[str, tuple[Json, str | None]] = {
    "nothing": ({}, None),
    "null": ({"subject": None}, None),
    "a command": ({"subject": {"type": "command", "command": "ls", "cwd": "/"}}, None),
    "a command of a tool call": (
        {"subject": {"type": "command", "command": "ls", "cwd": "/", "toolCallId": "b"}},
        "b",
    ),
    "a command of no tool call": (
        {"subject": {"type": "command", "command": "ls", "cwd": "/", "toolCallId": None}},
        None,
    ),
    "something unknown": ({"subject": {"type": "_x", "toolCallId": "b"}}, None),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_permission_about_something_else_changes_no_tool_call(subject: str) -> None:
    rest, tool_call_id = SUBJECTS[subject]
    session = Session("s")
    assert session.ask(1, permission(**rest)) == (PermissionChanged(1),)
    assert session.entries == []
    assert session.permissions[1].tool_call_id == tool_call_id


def test_a_settled_permission_is_gone_and_settling_it_again_is_nothing() -> None:
    session = Session("s")
    session.ask(1, permission())
    session.ask("1", permission())
    assert session.settle(1) == (PermissionChanged(1),)
    assert session.settle(1) == ()
    assert list(session.permissions) == ["1"]


def test_sessions_are_compared_without_their_decisions_because_no_snapshot_holds_them() -> None:
    session = Session("s")
    session.ask(1, permission())
    session.settle(1, CancelledPermissionOutcome())
    assert session.decisions
    assert session == Session("s")


def test_a_status_during_a_pending_permission_leaves_it_pending() -> None:
    session = Session("s")
    session.ask(1, permission(subject=about(status="pending")))
    session.apply(v2_struct(tool_call(status="in_progress")))
    assert list(session.permissions) == [1]
    assert session.tool_calls["a"].status == "in_progress"


def test_a_snapshot_survives_a_permission_whose_tool_call_carries_the_tag_of_an_update() -> None:
    session = Session("s")
    session.ask(1, permission(subject=about(sessionUpdate="tool_call_update", title="t")))
    session.settle(1)
    assert fold(through_bytes(snapshot(session))) == session


# ---- terminals -------------------------------------------------------------------------------

REFERENCE = tool_call(content=[{"type": "terminal", "terminalId": "t"}])


@pytest.mark.parametrize(
    "updates",
    [
        [REFERENCE, output_chunk("t", b"out")],
        [output_chunk("t", b"out"), REFERENCE],
        [output_chunk("t", b"o"), REFERENCE, output_chunk("t", b"ut")],
    ],
)
def test_terminal_output_may_come_before_or_after_the_reference(updates: list[Json]) -> None:
    session = folded(*updates)
    assert session.terminals["t"].output == b"out"
    assert session.tool_calls["a"].content == [v2.Terminal("t")]


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=6))
def test_output_split_anywhere_adds_up_to_the_same_bytes(cuts: list[int]) -> None:
    """Inside a character, inside an escape sequence: bytes are bytes."""
    edges = [0, *sorted(cuts), len(OUTPUT)]
    pieces = [OUTPUT[start:end] for start, end in pairwise(edges)]
    session = folded(*[output_chunk("t", piece) for piece in pieces])
    assert session.terminals["t"].output == OUTPUT


def terminal(**patch: Any) -> Json:
    return {"sessionUpdate": "terminal_update", "terminalId": "t", **patch}


def test_a_terminal_update_replaces_the_output_and_chunks_append_to_it() -> None:
    session = folded(
        output_chunk("t", b"old"),
        terminal(output={"data": base64.b64encode(b"new").decode()}),
        output_chunk("t", b"er"),
        terminal(command="make"),
    )
    assert session.terminals["t"].output == b"newer"


@pytest.mark.parametrize("replacement", [None, {"data": "eA=="}])
def test_replaced_output_removes_its_metadata(replacement: Json | None) -> None:
    described = {"data": "", "_meta": {"k": 1}, "encoding": "latin-1"}
    part = folded(terminal(output=described)).terminals["t"]
    assert (part.output_meta, part.output_unknown) == ({"k": 1}, {"encoding": "latin-1"})
    part = folded(terminal(output=described), terminal(output=replacement)).terminals["t"]
    assert (part.output_meta, part.output_unknown) == (None, {})


@pytest.mark.parametrize("clearing", [None, {"data": ""}])
def test_output_is_cleared_by_null_and_by_nothing(clearing: Json | None) -> None:
    session = folded(output_chunk("t", b"old"), terminal(output=clearing))
    assert session.terminals["t"].output == b""


def test_the_fields_of_a_terminal_have_three_states() -> None:
    session = folded(
        terminal(command="make", cwd="/", exitStatus={"exitCode": 0}, size={"cols": 8, "rows": 2}),
        terminal(cwd=None, exitStatus={"signal": "SIGTERM"}),
    )
    part = session.terminals["t"]
    assert (part.command, part.cwd) == ("make", None)
    assert part.exit_status == v2.TerminalExitStatus(signal="SIGTERM")
    assert part.size == v2.TerminalSize(8, 2)


def test_output_may_come_without_padding() -> None:
    chunk_without = {**output_chunk("t", b"x"), "data": "eA"}
    assert folded(chunk_without).terminals["t"].output == b"x"


NOT_BASE64 = ["A", "größe", "AAAAA", "!!!!", "not base64 at all", "-_-_", "QQ==QQ=="]


@pytest.mark.parametrize("data", NOT_BASE64)
@pytest.mark.parametrize("known", [True, False])
def test_output_that_is_not_base64_leaves_the_session_unchanged(data: str, known: bool) -> None:
    before = [output_chunk("t", b"before")] if known else []
    for update in (
        {**output_chunk("t", b""), "data": data},
        terminal(command="make", output={"data": data}),
    ):
        session = folded(*before)
        with pytest.raises(NotBase64) as raised:
            session.apply(v2_struct(update))
        assert raised.value.terminal_id == "t"
        assert session == folded(*before)


# ---- what is replaced whole ------------------------------------------------------------------


def plan(plan_id: str, *entries: str) -> Json:
    steps = [{"content": each, "priority": "low", "status": "pending"} for each in entries]
    return {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": plan_id, "entries": steps},
    }


def test_plans_are_keyed_and_replaced_whole() -> None:
    session = folded(plan("p", "one", "two"), plan("q", "other"), plan("p", "three"))
    plans = {key: [e.content for e in u.plan.entries] for key, u in session.plans.items()}  # type: ignore[union-attr]
    assert plans == {"p": ["three"], "q": ["other"]}


def test_a_removed_plan_is_gone_and_removing_it_again_is_no_error() -> None:
    removal = {"sessionUpdate": "plan_removed", "planId": "p"}
    session = folded(plan("p", "one"), removal)
    assert session.plans == {}
    assert session.apply(v2_struct(removal)) == (PlanChanged("p"),)


def test_a_plan_of_june_is_the_same_plan() -> None:
    june = {"sessionUpdate": "plan_update", "plan": {"type": "items", "id": "p", "entries": []}}
    session = folded(plan("p", "one"), june)
    assert list(session.plans) == ["p"]
    assert session.plans["p"] == v2_struct(june)


def test_commands_options_and_usage_are_the_last_ones_reported() -> None:
    command = {"type": "command", "name": "c", "description": "d"}
    option = {"type": "boolean", "configId": "o", "name": "n", "currentValue": True}
    session = folded(
        {"sessionUpdate": "available_commands_update", "availableCommands": [command, command]},
        {"sessionUpdate": "config_option_update", "configOptions": [option]},
        {"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": None},
        {"sessionUpdate": "available_commands_update", "availableCommands": [command]},
        {"sessionUpdate": "usage_update", "used": 2, "size": 9},
    )
    assert session.commands == [v2.Command("c", "d")]
    assert [option.config_id for option in session.config_options] == ["o"]  # type: ignore[union-attr]
    assert session.usage is not None
    assert (session.usage.used, session.usage.cost) == (2, UNSET)


def test_the_title_of_the_session_has_three_states() -> None:
    info = {"sessionUpdate": "session_info_update"}
    session = folded({**info, "title": "t"}, {**info, "updatedAt": "2026-11-16T00:00:00Z"})
    assert (session.title, session.info.updated_at) == ("t", "2026-11-16T00:00:00Z")
    session.apply(v2_struct({**info, "title": None}))
    assert (session.title, session.info.updated_at) == (None, "2026-11-16T00:00:00Z")


def test_the_fields_of_a_subagent_have_three_states() -> None:
    subagent = {"sessionUpdate": "subagent_update", "sessionId": "x"}
    session = folded(
        {**subagent, "title": "t", "description": "d", "state": {"state": "running"}},
        {**subagent, "title": None, "state": {"state": "idle"}},
    )
    assert session.subagents["x"] == v2.SubagentUpdate("x", description="d", state=v2.State("idle"))


# ---- many sessions ---------------------------------------------------------------------------


def notified(session_id: str, update: v2.SessionUpdate) -> v2.UpdateSessionNotification:
    return v2.UpdateSessionNotification(session_id, update)


@settings(max_examples=30)
@given(st.lists(st.tuples(ids, v2_update_structs()), max_size=25), drafts)
def test_many_sessions_side_by_side_do_not_mix(
    steps: list[tuple[str, v2.SessionUpdate]], draft: Draft
) -> None:
    sessions = Sessions(draft)
    for session_id, update in steps:
        sessions.apply(notified(session_id, update))
    assert set(sessions) == {session_id for session_id, _ in steps}
    for session_id, session in sessions.items():
        alone = Session(session_id, draft)
        for each, update in steps:
            if each == session_id:
                alone.apply(update)
        assert session == alone


def test_two_sessions_share_no_part() -> None:
    sessions = Sessions()
    update = v2_struct(chunk("m", "x"))
    for session_id in ("one", "two"):
        sessions.apply(notified(session_id, update))
    sessions.apply(notified("one", update))
    texts = {key: message_of(session, "m").text for key, session in sessions.items()}
    assert texts == {"one": "xx", "two": "x"}


def test_asking_for_a_session_makes_it_with_the_draft_of_all() -> None:
    sessions = Sessions(Draft.NOVEMBER)
    assert (sessions["new"].session_id, sessions["new"].draft) == ("new", Draft.NOVEMBER)
    assert sessions["new"].info == SessionInfoUpdate()
