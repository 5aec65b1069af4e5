"""The laws of conversion: there and back, what is written is valid, nothing raises, constant.

There and back: what a strict conversion lets pass has lost nothing, so the session that comes back
is the one that went out. A refused update is left out on both sides, for it leaves no trace.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from tests.conftest import ValuesOf
from tests.peers.validators import Flavour, SchemaValidator
from tests.session.test_laws import least_memory, opcodes
from tests.support.sessions import fold
from tests.support.strategies import (
    IDS,
    KINDS,
    V1_TAGS,
    Json,
    Values,
    commands,
    config_options,
    content_blocks,
    ids,
    json_values,
    june_permission_requests,
    locations,
    metas,
    objects,
    some,
    tagged,
    texts,
    v1_permission_requests,
    v1_streams,
    v1_struct,
    v1_struct_streams,
    v1_updates,
    v2_permission_requests,
    v2_streams,
    v2_struct,
    v2_struct_streams,
    v2_updates,
    words,
)
from twofold.convert.conversation import Conversation
from twofold.convert.downgrade import Downgrader, downgrade
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.patches import git_patch
from twofold.convert.upgrade import Upgrader, upgrade
from twofold.errors import TwofoldError
from twofold.rpc.connection import read_message
from twofold.session import Draft, Session
from twofold.wire import codec, v1, v2
from twofold.wire.base import Extras, Malformed, Unknown

drafts = st.sampled_from(Draft)


def shown(value: Any) -> Any:
    """What there is to see: null and empty metadata are nothing, wherever they are a field."""
    if isinstance(value, Unknown):
        return value.raw.fields
    if isinstance(value, Extras):
        return value.fields
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, Struct):
        names = list(value.__struct_fields__)
    elif is_dataclass(value):
        names = [each.name for each in fields(value) if each.compare]
    else:
        return value
    items = {name: getattr(value, name) for name in names}
    return type(value), {
        name: shown(item)
        for name, item in items.items()
        if item is not None and item is not UNSET and not (name == "meta" and item == {})
    }


class ThereAndBack:
    """A stream of version 2 on its way to version 1 and back, through bytes."""

    def __init__(self) -> None:
        self.down = Downgrader(Losses(strict=True))
        self.up = Upgrader(Losses(strict=True))
        self.went: list[v2.SessionUpdate] = []
        self.came: list[v2.SessionUpdate] = []
        self.refused: list[v2.SessionUpdate] = []

    def take(self, stream: Iterable[v2.SessionUpdate]) -> "ThereAndBack":
        for update in stream:
            try:
                lowered = self.down.update(update)
            except NotConvertible:
                self.refused.append(update)
                continue
            self.went.append(update)
            for each in lowered:
                read = v1.decode_update(codec.encode(each))
                for back in self.up.update(read):
                    self.came.append(v2.decode_update(codec.encode(back)))
        return self

    def holds(self, draft: Draft) -> bool:
        return bool(shown(fold(self.came, draft)) == shown(fold(self.went, draft)))


# ---- law 5: streams that version 1 can express ------------------------------------------------

blocks: Values = content_blocks(2, False)
line_texts: Values = st.text("ab\n", max_size=12)


def _diff(old: str | None, new: str) -> Json:
    operation = "add" if old is None else "modify"
    patch = {"format": "git_patch", "text": git_patch("/a", old, new)}
    return {
        "type": "diff",
        "changes": [{"operation": operation, "path": "/a"}],
        "patch": patch,
    }


contents: Values = st.builds(_diff, st.none() | line_texts, line_texts).filter(
    lambda diff: diff["patch"]["text"]
) | tagged("type", "content", objects({"content": blocks}))


@cache
def _other_updates() -> Values:
    """Updates that version 1 can express, whatever came before."""
    entry = objects(
        {
            "content": texts,
            "priority": words("high", "medium", "low", unknown=False),
            "status": words("pending", "in_progress", "completed", unknown=False),
        }
    )
    plan = st.builds(
        lambda entries: {"type": "items", "planId": "main", "entries": entries}, some(entry)
    )
    return st.one_of(
        tagged("sessionUpdate", "plan_update", objects({"plan": plan})),
        tagged(
            "sessionUpdate",
            "available_commands_update",
            objects({"availableCommands": some(commands(2, False))}),
        ),
        tagged(
            "sessionUpdate",
            "config_option_update",
            objects({"configOptions": some(config_options(2, False))}),
        ),
        v2_updates(
            *("session_info_update", "usage_update", "notice"),
            *("compaction_update", "compaction_summary_chunk"),
            unknown=False,
        ),
    )


_CALL_FIELDS: dict[str, Values] = {
    "name": texts,
    "title": texts.filter(bool),
    "kind": words(*KINDS, unknown=False),
    "status": words("pending", "in_progress", "completed", "failed", unknown=False),
    "content": some(contents),
    "locations": some(locations()),
    "rawInput": json_values,
    "rawOutput": json_values,
    "_meta": metas,
    "_x": json_values,
}
_CANNOT_BE_CLEARED = {"name", "title", "rawInput", "rawOutput", "_meta"}
_KNOWN_CALLS: Values = st.fixed_dictionaries({}, optional=_CALL_FIELDS)
_NEW_CALLS: Values = st.builds(
    lambda title, patch: {"title": title, **patch}, _CALL_FIELDS["title"], _KNOWN_CALLS
)
_CLEARS: Values = st.lists(st.sampled_from(sorted(_CALL_FIELDS.keys() - {"_x"})), max_size=3)


class _UpdateMaker:
    """Makes updates that version 1 can express after those made before."""

    def __init__(self, draw: Callable[[Values], Any]) -> None:
        self.draw = draw
        self.contents: dict[tuple[str, str], list[Json]] = {}
        self.calls: dict[str, set[str]] = {}

    def chunk(self) -> Json:
        kind, message_id = self.draw(_KINDS), self.draw(ids)
        chunk: Json = self.draw(objects({"content": blocks}))
        self.contents.setdefault((kind, message_id), []).append(chunk["content"])
        return {**chunk, "sessionUpdate": f"{kind}_chunk", "messageId": message_id}

    def message(self) -> Json:
        kind, message_id = self.draw(_KINDS), self.draw(ids)
        content = self.contents.setdefault((kind, message_id), [])
        content += self.draw(st.lists(blocks, min_size=not content, max_size=2))
        return {"sessionUpdate": kind, "messageId": message_id, "content": list(content)}

    def call(self) -> Json:
        call_id = self.draw(ids)
        new = call_id not in self.calls
        given = self.calls.setdefault(call_id, set())
        patch = self.draw(_NEW_CALLS if new else _KNOWN_CALLS)
        for name in self.draw(_CLEARS):
            if not (new and name == "title") and name not in given & _CANNOT_BE_CLEARED:
                patch[name] = None
        for name in ("rawInput", "rawOutput"):
            if patch.get(name, UNSET) is None and name in given:
                del patch[name]
        given |= {name for name, value in patch.items() if value is not None}
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **patch}

    def content(self) -> Json:
        if not self.calls:
            return self.call()
        call_id, item = self.draw(st.sampled_from(sorted(self.calls))), self.draw(contents)
        return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": call_id, "content": item}

    def other(self) -> Json:
        return self.draw(_other_updates())  # type: ignore[no-any-return]


_KINDS: Values = st.sampled_from(("user_message", "agent_message", "agent_thought"))
_MAKE = (
    _UpdateMaker.chunk,
    _UpdateMaker.message,
    _UpdateMaker.call,
    _UpdateMaker.content,
    _UpdateMaker.other,
)


@st.composite
def streams_of_version_1(draw: Any) -> list[v2.SessionUpdate]:
    """Streams of version 2 that version 1 can express."""
    maker = _UpdateMaker(draw)
    makes = draw(st.lists(st.sampled_from(_MAKE), min_size=1, max_size=20))
    return [v2_struct(make(maker)) for make in makes]


@settings(max_examples=75)
@given(streams_of_version_1(), drafts)
def test_a_stream_that_version_1_can_express_gets_there_and_back_without_a_loss(
    stream: list[v2.SessionUpdate], draft: Draft
) -> None:
    trip = ThereAndBack().take(stream)
    assert trip.refused == []
    assert trip.holds(draft)


def test_the_streams_that_version_1_can_express_cover_every_kind_of_update() -> None:
    """The law above would be no law if its streams were poor."""
    seen: Counter[str] = Counter()

    @settings(max_examples=300, derandomize=True, database=None)
    @given(streams_of_version_1())
    def look(stream: list[v2.SessionUpdate]) -> None:
        seen.update(str(update.__struct_config__.tag) for update in stream)
        seen["diff"] += sum(
            isinstance(item, v2.Diff)
            for update in stream
            if isinstance(update, v2.ToolCallUpdate)
            for item in update.content or []
        )

    look()
    for kind in ("user_message", "agent_message", "agent_thought"):
        assert seen[kind] >= 10
        assert seen[f"{kind}_chunk"] >= 5
    assert seen["tool_call_update"] >= 50
    assert seen["tool_call_content_chunk"] >= 20
    assert seen["diff"] >= 10
    assert seen["plan_update"] + seen["config_option_update"] >= 10


# ---- law 5: any stream -----------------------------------------------------------------------


@settings(max_examples=80)
@given(v2_struct_streams(), drafts)
def test_what_is_let_pass_of_any_stream_comes_back_as_it_went(
    stream: list[v2.SessionUpdate], draft: Draft
) -> None:
    trip = ThereAndBack().take(stream)
    event(f"let pass: {len(trip.went) * 10 // max(len(stream), 1)} tenths")
    assert trip.holds(draft)


texts_of_one_message = st.sampled_from(("", "a", "b", "ab", "ba", "\0", "ÿ"))
blocks_of_one_message = st.builds(
    lambda text: {"type": "text", "text": text}, texts_of_one_message
) | st.sampled_from(
    (
        {"type": "image", "data": "", "mimeType": ""},
        {"type": "text", "text": "a", "_meta": {}},
        {"type": "text", "text": "a", "annotations": None},
    )
)
one_message = st.builds(
    lambda block: {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": block},
    blocks_of_one_message,
) | st.builds(
    lambda content: {"sessionUpdate": "agent_message", "messageId": "m", "content": content},
    st.lists(blocks_of_one_message, min_size=1, max_size=4),
)


@settings(max_examples=150)
@given(st.lists(one_message, max_size=8))
def test_a_message_that_is_sent_again_and_again_comes_back_as_it_went(stream: list[Json]) -> None:
    assert ThereAndBack().take(map(v2_struct, stream)).holds(Draft.JUNE)


@settings(max_examples=75)
@given(st.lists(one_message, max_size=8))
def test_the_text_of_a_message_is_never_shown_twice(stream: list[Json]) -> None:
    """Best effort: what version 1 shows last of a message is what version 2 has."""
    down, direct, seen = Downgrader(Losses()), Session("s"), Session("s")
    for update in map(v2_struct, stream):
        direct.apply(update)
        for each in down.update(update):
            seen.apply(Upgrader().update(each)[0])
    if stream:
        last = list(seen.messages["agent"].values())[-1]
        assert last.text.removeprefix("[correction]\n") == direct.messages["agent"]["m"].text


@settings(max_examples=80)
@given(v1_struct_streams(), drafts)
def test_a_stream_of_version_1_shows_the_same_after_there_and_back(
    stream: list[v1.SessionUpdate], draft: Draft
) -> None:
    upgrader = Upgrader()
    lifted = [each for update in stream for each in upgrader.update(update)]
    trip = ThereAndBack().take(lifted)
    event(f"let pass: {len(trip.went) * 10 // max(len(lifted), 1)} tenths")
    assert trip.holds(draft)


@settings(max_examples=100)
@given(
    st.lists(
        v1_updates(
            *("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "plan"),
            *("available_commands_update", "config_option_update", "current_mode_update"),
            *("session_info_update", "usage_update", "notice", "compaction_update"),
        ),
        max_size=20,
    )
)
@example(
    [
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"} | more}
        | named
        for more, named in [
            ({"annotations": None}, {}),
            ({}, {"messageId": "m"}),
        ]
    ]
)
def test_a_stream_of_version_1_without_tool_calls_gets_there_and_back_whole(
    stream: list[Json],
) -> None:
    upgrader = Upgrader()
    lifted = [each for update in stream for each in upgrader.update(v1_struct(update))]
    trip = ThereAndBack().take(lifted)
    assert trip.refused == []
    assert trip.holds(Draft.JUNE)


# ---- strict and best effort ------------------------------------------------------------------


def outcome(convert: Callable[[Any, Losses], list[Any]], update: Any, *, strict: bool) -> Any:
    """What becomes of an update: the JSON, and whether anything was lost; None if refused."""
    losses = Losses(strict=strict)
    made: list[Json] | None = None
    try:
        made = [codec.to_json(each) for each in convert(update, losses)]
    except NotConvertible as refusal:
        losses.append(Loss(refusal.path, refusal.reason))
    assert all(loss.path and loss.reason for loss in losses)
    return None if made is None else (made, bool(losses))


def with_memory(
    translator: type[Upgrader | Downgrader],
) -> Callable[[Any, Losses], list[Any]]:
    return lambda update, losses: translator(losses).update(update)


@pytest.mark.parametrize("convert", [downgrade, with_memory(Downgrader)], ids=["by itself", "with"])
@settings(max_examples=100)
@given(v2_updates())
def test_strict_refuses_to_lower_what_best_effort_reports_and_nothing_else(
    convert: Callable[[Any, Losses], list[Any]], update: Json
) -> None:
    best = outcome(convert, v2_struct(update), strict=False)
    strict = outcome(convert, v2_struct(update), strict=True)
    assert strict == (None if best is None or best[1] else best)


@pytest.mark.parametrize("convert", [upgrade, with_memory(Upgrader)], ids=["by itself", "with"])
@settings(max_examples=100)
@given(v1_updates(unknown=True))
def test_strict_refuses_to_lift_what_best_effort_reports_and_nothing_else(
    convert: Callable[[Any, Losses], list[Any]], update: Json
) -> None:
    best = outcome(convert, v1_struct(update), strict=False)
    strict = outcome(convert, v1_struct(update), strict=True)
    assert best is not None  # version 2 has words for everything
    assert strict == (None if best[1] else best)


@settings(max_examples=50)
@given(v2_struct_streams())
def test_best_effort_gives_the_result_of_strict_where_strict_accepts(
    stream: list[v2.SessionUpdate],
) -> None:
    strict, losses = Downgrader(Losses(strict=True)), Losses()
    best = Downgrader(losses)
    for update in stream:
        try:
            expected = strict.update(update)
        except NotConvertible:
            continue
        assert best.update(update) == expected
    assert losses == []


# ---- what is written is valid ----------------------------------------------------------------


def objections(valid: SchemaValidator, version: Any, updates: Iterable[Any]) -> list[str]:
    """The objections of the official schemas to updates; those of version 1 must be stable."""
    flavours: list[Flavour] = ["stable"] if version == 1 else ["stable", "unstable"]
    return [
        f"{flavour}: {error}"
        for update in updates
        for flavour in flavours
        for error in valid(version, flavour, "SessionUpdate", codec.to_json(update))
    ]


def every_update(valid: SchemaValidator, stream: list[Json], **options: Any) -> None:
    """Lift a stream of version 1 in every way, and ask the schemas of version 2."""
    upgrader = Upgrader(**options)
    for value in stream:
        update = codec.read(value, v1.SessionUpdate)
        assert not objections(valid, 2, upgrader.update(update))
        assert not objections(valid, 2, upgrade(update, Losses()))


@settings(max_examples=75)
@given(v1_streams(max_size=10), st.booleans())
def test_what_is_lifted_is_valid(
    valid: SchemaValidator, stream: list[Json], own_terminals: bool
) -> None:
    every_update(valid, stream, own_terminals=own_terminals)


@pytest.mark.parametrize("flavour", ["stable", "unstable"])
@settings(max_examples=60)
@given(data=st.data())
def test_what_is_lifted_of_anything_that_the_schema_allows_is_valid(
    valid: SchemaValidator, values_of: ValuesOf, flavour: Flavour, data: st.DataObject
) -> None:
    every_update(valid, data.draw(st.lists(values_of(1, flavour, "SessionUpdate"), max_size=4)))


def every_lowered_update(valid: SchemaValidator, stream: list[Json], **options: Any) -> None:
    """Lower a stream of version 2 in every way, and ask the stable schema of version 1."""
    downgrader = Downgrader(**options)
    for value in stream:
        update = codec.read(value, v2.SessionUpdate)
        for convert in (downgrader.update, lambda each: downgrade(each, Losses())):
            try:
                made = convert(update)
            except (NotConvertible, Malformed):  # output that is not base64 is malformed
                continue
            assert not objections(valid, 1, made)


@settings(max_examples=75)
@given(v2_streams(max_size=10), st.booleans())
def test_what_is_lowered_is_valid_for_strict_version_1_peers(
    valid: SchemaValidator, stream: list[Json], advertised: bool
) -> None:
    every_lowered_update(valid, stream, notices=advertised, compactions=advertised)


@settings(max_examples=75)
@given(
    v2_streams(
        *("tool_call_update", "tool_call_content_chunk", "terminal_update"),
        *("terminal_output_chunk", "plan_update", "plan_removed"),
        max_size=12,
    )
)
def test_what_is_lowered_of_tool_calls_and_terminals_is_valid(
    valid: SchemaValidator, stream: list[Json]
) -> None:
    every_lowered_update(valid, stream, terminal_limit=10)


@pytest.mark.parametrize("flavour", ["stable", "unstable"])
@settings(max_examples=60)
@given(data=st.data())
def test_what_is_lowered_of_anything_that_the_schema_allows_is_valid(
    valid: SchemaValidator, values_of: ValuesOf, flavour: Flavour, data: st.DataObject
) -> None:
    stream = data.draw(st.lists(values_of(2, flavour, "SessionUpdate"), max_size=4))
    every_lowered_update(valid, stream)


@settings(max_examples=100)
@given(v2_streams("tool_call_update", max_size=3), v2_permission_requests())
def test_a_permission_request_that_is_lowered_is_valid(
    valid: SchemaValidator, stream: list[Json], request: Json
) -> None:
    downgrader = Downgrader()
    for update in map(v2_struct, stream):
        downgrader.update(update)
    read = codec.read(request, v2.RequestPermissionRequest)
    try:
        made = downgrader.permission(read)
    except NotConvertible:
        return
    assert not valid(1, "stable", "RequestPermissionRequest", codec.to_json(made))


@settings(max_examples=100)
@given(v1_permission_requests())
def test_a_permission_request_that_is_lifted_is_valid(
    valid: SchemaValidator, request: Json
) -> None:
    try:
        made = Upgrader().permission(codec.read(request, v1.RequestPermissionRequest))
    except NotConvertible:
        assert not request["options"]
        return
    assert not valid(2, "stable", "RequestPermissionRequest", codec.to_json(made))


@settings(max_examples=50)
@given(june_permission_requests())
def test_a_permission_request_of_june_that_is_lowered_is_valid(
    valid: SchemaValidator, request: Json
) -> None:
    try:
        made = Downgrader().permission(codec.read(request, v2.RequestPermissionRequest))
    except NotConvertible:
        return
    assert not valid(1, "stable", "RequestPermissionRequest", codec.to_json(made))


# ---- anything at all -------------------------------------------------------------------------

_NAMES = (
    *("sessionUpdate", "type", "messageId", "toolCallId", "terminalId", "planId", "content"),
    *("title", "kind", "status", "locations", "rawInput", "plan", "entries", "configOptions"),
    *("availableCommands", "currentModeId", "data", "output", "state", "stopReason", "_meta"),
    *("terminal_output", "terminal_id", "text", "changes", "patch", "options", "outcome", "?", ""),
)
_WORDS = (
    *V1_TAGS,
    *("user_message", "agent_message", "state_update", "tool_call_content_chunk", "?", ""),
    *("terminal_update", "terminal_output_chunk", "text", "image", "diff", "terminal", "items"),
    *("idle", "running", "selected", "select", "cancelled", "git_patch", *IDS),
)
jsonish: Values = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from((0, -1, 2**70, 1e300, 1.5))
    | st.sampled_from(_WORDS)
    | st.sampled_from(("\ud800", "\0", "größe", "/a b", "====")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_NAMES), inner, min_size=1, max_size=6)
    ),
    max_leaves=12,
)
jsonish_updates: Values = st.builds(
    lambda tag, update: {**update, **tag},
    st.just({}) | st.sampled_from(_WORDS).map(lambda tag: {"sessionUpdate": tag}),
    st.dictionaries(st.sampled_from(_NAMES), jsonish, max_size=8),
)
_METHODS = sorted({*v1.METHODS, *v2.METHODS, "_acme/x", "future/x"})
jsonish_messages: Values = st.one_of(
    st.builds(
        lambda name, value: {"id": 1, "method": name, "params": value},
        st.sampled_from(_METHODS),
        jsonish,
    ),
    st.builds(
        lambda name, value: {"method": name, "params": value}, st.sampled_from(_METHODS), jsonish
    ),
    st.builds(
        lambda update, session: {
            "method": "session/update",
            "params": {"sessionId": session, "update": update},
        },
        jsonish_updates,
        ids | jsonish,
    ),
    st.builds(
        lambda blocks_, session: {
            "id": 1,
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": blocks_},
        },
        st.lists(content_blocks(), max_size=2),
        ids,
    ),
    st.builds(lambda value: {"id": 1, "result": value}, jsonish),
    st.builds(lambda value: {"id": 1, "error": value}, jsonish),
)


def written(updates: Iterable[Any]) -> None:
    for update in updates:
        json.loads(codec.encode(update))


@settings(max_examples=75)
@given(st.lists(jsonish_updates, max_size=8), st.booleans())
def test_no_update_causes_anything_but_declared_errors(stream: list[Json], strict: bool) -> None:
    up, down = Upgrader(Losses(strict=strict)), Downgrader(Losses(strict=strict))
    for value in stream:
        with suppress(TwofoldError):
            written(up.update(codec.read(value, v1.SessionUpdate)))
        with suppress(TwofoldError):
            written(down.update(codec.read(value, v2.SessionUpdate)))


@pytest.mark.parametrize("target", ["1", "2"])
@settings(max_examples=120)
@given(
    st.lists(jsonish_messages, max_size=10),
    st.booleans(),
    st.sampled_from((None, "1", "2", "guide")),
)
def test_no_message_causes_anything_but_declared_errors(
    target: Any, stream: list[Json], strict: bool, dialect: Any
) -> None:
    conversation = Conversation(target, Losses(strict=strict), dialect)
    for value in stream:
        message = read_message(value)
        if message is not None:
            with suppress(TwofoldError):
                conversation.message(message)


@pytest.mark.parametrize("target", ["1", "2"])
@settings(max_examples=60)
@given(
    st.lists(v2_updates() | v1_updates(unknown=True), max_size=8),
    st.sampled_from((None, "1", "2", "guide")),
)
def test_updates_of_the_other_version_cause_nothing_but_declared_errors(
    target: Any, stream: list[Json], dialect: Any
) -> None:
    conversation = Conversation(target, Losses(), dialect)
    for value in stream:
        with suppress(TwofoldError):
            written(conversation.update(value, "s"))


# ---- constant --------------------------------------------------------------------------------

SHORT, LONG = 20, 4_000
TEXT: Json = {"type": "text", "text": "some words "}


def _chunk(kind: str, **message_id: str) -> Json:
    return {"sessionUpdate": kind, "content": TEXT, **message_id}


UPWARDS: dict[str, Json] = {
    "a chunk without an id": _chunk("agent_message_chunk"),
    "a chunk with an id": _chunk("agent_thought_chunk", messageId="m"),
    "an update of a tool call": {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t0",
        "status": "completed",
    },
    "terminal output in meta": {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t0",
        "_meta": {"terminal_output": {"terminal_id": "x", "data": "a\n"}},
    },
    "usage": {"sessionUpdate": "usage_update", "used": 1, "size": 2},
}
DOWNWARDS: dict[str, Json] = {
    "a chunk": _chunk("agent_message_chunk", messageId="m"),
    "a user message chunk": _chunk("user_message_chunk", messageId="m"),
    "an update of a tool call": UPWARDS["an update of a tool call"],
    "a content chunk of a short call": {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t0",
        "content": [],
    },
    "usage": UPWARDS["usage"],
}


def _long_v1(length: int) -> Upgrader:
    upgrader = Upgrader()
    for number in range(length):
        for update in (
            _chunk("agent_thought_chunk", messageId="m"),
            {"sessionUpdate": "tool_call", "toolCallId": f"t{number}", "title": "Read"},
            UPWARDS["terminal output in meta"],
            _chunk("agent_message_chunk"),
        ):
            upgrader.update(v1_struct(update))
    return upgrader


def _long_v2(length: int) -> Downgrader:
    downgrader = Downgrader()
    for number in range(length):
        call = {"sessionUpdate": "tool_call_update", "toolCallId": f"t{number}", "title": "Read"}
        for update in (
            _chunk("user_message_chunk", messageId="m"),
            _chunk("agent_message_chunk", messageId="m"),
            {"sessionUpdate": "agent_message", "messageId": f"m{number}", "content": [TEXT]},
            call,
        ):
            downgrader.update(v2_struct(update))
    downgrader.losses.clear()
    return downgrader


@pytest.fixture(scope="module")
def upgraders() -> tuple[Upgrader, Upgrader]:
    return _long_v1(SHORT), _long_v1(LONG)


@pytest.fixture(scope="module")
def downgraders() -> tuple[Downgrader, Downgrader]:
    return _long_v2(SHORT), _long_v2(LONG)


@pytest.mark.parametrize("kind", UPWARDS)
def test_lifting_an_update_is_the_same_work_however_long_the_session_is(
    kind: str, upgraders: tuple[Upgrader, Upgrader]
) -> None:
    update = v1_struct(UPWARDS[kind])
    short, long = upgraders
    for each in upgraders:
        each.update(update)  # a first chunk opens its message
    in_short, in_long = (opcodes(partial(each.update, update)) for each in (short, long))
    assert 0 < in_short == in_long
    assert least_memory([lambda: long.update(update)] * 16) < 4_000


@pytest.mark.parametrize("kind", DOWNWARDS)
def test_lowering_an_update_is_the_same_work_however_long_the_session_is(
    kind: str, downgraders: tuple[Downgrader, Downgrader]
) -> None:
    update = v2_struct(DOWNWARDS[kind])
    short, long = downgraders
    in_short, in_long = (opcodes(partial(each.update, update)) for each in (short, long))
    assert 0 < in_short == in_long
    assert least_memory([lambda: long.update(update)] * 16) < 4_000


def test_terminal_output_costs_what_is_shown_of_it_however_much_there_was() -> None:
    def shows(printed: int) -> Downgrader:
        down = Downgrader(terminal_limit=1_000)
        reference = {"type": "terminal", "terminalId": "x"}
        call = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Shell"}
        down.update(v2_struct({**call, "content": [reference]}))
        for _ in range(printed):
            down.update(line)
        return down

    line = v2_struct(
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "YWJjZGVmZwo="}
    )
    used = [least_memory([partial(each.update, line)] * 16) for each in map(shows, (500, 5_000))]
    assert used[1] < used[0] * 1.5


def test_what_is_remembered_of_a_message_does_not_grow_with_it() -> None:
    down = Downgrader()
    update = v2_struct(_chunk("agent_message_chunk", messageId="m"))
    down.update(update)

    def ten_thousand() -> None:
        for _ in range(10_000):
            down.update(update)

    # a list of them alone would take 80,000
    assert least_memory([ten_thousand]) < 16_000


def test_a_message_of_many_chunks_can_still_be_sent_whole() -> None:
    down = Downgrader(Losses(strict=True))
    chunks = 3_000
    for _ in range(chunks):
        down.update(v2_struct(_chunk("agent_message_chunk", messageId="m")))
    whole = {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT] * (chunks + 1)}
    assert len(down.update(v2_struct(whole))) == 1
