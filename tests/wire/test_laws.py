"""Law 2, nothing lost; what the codec forgives, and what it refuses."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.peers.validators import SchemaValidator
from tests.support.strategies import (
    UNKNOWN_WORDS,
    V1_TAGS,
    V2_TAGS,
    Json,
    Values,
    canonical,
    content_blocks,
    dumps,
    json_values,
    june_permission_requests,
    v1_permission_requests,
    v1_updates,
    v2_permission_requests,
    v2_updates,
    values_of,
)
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Fault, Malformed, Unknown
from twofold.wire.content import ContentBlock, ResourceLink, TextContent

METHOD_TYPES = {
    f"{name} {method} {part}": getattr(row, part)
    for name, version in (("v1", v1), ("v2", v2))
    for method, row in version.METHODS.items()
    for part in ("params", "result")
    if getattr(row, part) is not None
}


def written_back(value: Any, shape: Any) -> str:
    """The JSON that is written for a message that was read, which must not have a fault."""
    faults: list[Fault] = []
    struct = codec.decode(dumps(value), shape, faults)
    assert faults == []
    return canonical(json.loads(codec.encode(struct)))


def read_with_faults(value: Any, shape: Any) -> tuple[Any, list[str]]:
    """What is read, and where there were faults."""
    faults: list[Fault] = []
    struct = codec.decode(dumps(value), shape, faults)
    return struct, [fault.path for fault in faults]


# ---- law 2: nothing lost ---------------------------------------------------------------------


@settings(max_examples=125)
@given(v2_updates())
def test_an_update_of_version_2_is_written_as_it_was_read(update: Json) -> None:
    assert written_back(update, v2.SessionUpdate) == canonical(update)


@settings(max_examples=125)
@given(v1_updates() | v1_updates(unknown=True))
def test_an_update_of_version_1_is_written_as_it_was_read(update: Json) -> None:
    assert written_back(update, v1.SessionUpdate) == canonical(update)


@given(v2_permission_requests() | june_permission_requests())
def test_a_permission_request_of_any_draft_is_written_as_it_was_read(request: Json) -> None:
    assert written_back(request, v2.RequestPermissionRequest) == canonical(request)


@given(v1_permission_requests() | v1_permission_requests(unknown=True))
def test_a_permission_request_of_version_1_is_written_as_it_was_read(request: Json) -> None:
    assert written_back(request, v1.RequestPermissionRequest) == canonical(request)


@pytest.mark.parametrize("name", METHOD_TYPES)
def test_what_a_method_takes_and_gives_is_written_as_it_was_read(name: str) -> None:
    shape = METHOD_TYPES[name]

    @settings(max_examples=12)
    @given(values_of(shape))
    def holds(message: Json) -> None:
        assert written_back(message, shape) == canonical(message)

    holds()


@given(v2_updates())
def test_parsed_json_and_bytes_are_read_alike(update: Json) -> None:
    assert codec.read(update, v2.SessionUpdate) == v2.decode_update(dumps(update))


@given(v1_updates(unknown=True))
def test_parsed_json_and_bytes_are_read_alike_in_version_1(update: Json) -> None:
    assert codec.read(update, v1.SessionUpdate) == v1.decode_update(dumps(update))


@given(v2_updates())
def test_text_and_bytes_are_read_alike(update: Json) -> None:
    data = dumps(update)
    assert v2.decode_update(data.decode()) == v2.decode_update(data)


@given(st.sampled_from((1, 2)), st.data())
def test_a_line_decoded_in_one_pass_equals_its_params_decoded_alone(
    version: int, data: st.DataObject
) -> None:
    update = data.draw(v2_updates() if version == 2 else v1_updates(unknown=True))
    params = {"sessionId": "s", "update": update}
    line = dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})
    if version == 2:
        in_one_pass: Any = v2.decode_update_line(line)
        slowly: Any = codec.decode(dumps(params), v2.UpdateSessionNotification)
    else:
        in_one_pass = v1.decode_update_line(line)
        slowly = codec.decode(dumps(params), v1.SessionNotification)
    assert in_one_pass is None or in_one_pass == slowly


PLAIN_CHUNK = {
    "sessionUpdate": "agent_message_chunk",
    "messageId": "m",
    "content": {"type": "text", "text": "hello"},
}


@pytest.mark.parametrize("read", [v1.decode_update_line, v2.decode_update_line])
def test_a_plain_line_is_read_in_one_pass(read: Any) -> None:
    params = {"sessionId": "s", "update": PLAIN_CHUNK}
    notification = read(dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    assert (notification.session_id, notification.update.content.text) == ("s", "hello")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not JSON",
        b"[]",
        b"null",
        b'"session/update"',
        b'{"jsonrpc":"2.0","method":"session/update"}',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/update","params":' + dumps({}) + b"}",
        b"\xff" * 9,
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("read", [v1.decode_update_line, v2.decode_update_line])
def test_any_other_line_is_left_to_the_slow_way(read: Any, line: bytes) -> None:
    assert read(line) is None


PATCHES: dict[str, Json] = {
    "omitted": {"toolCallId": "a"},
    "null": dict.fromkeys(
        (
            *("name", "title", "kind", "status", "content", "locations"),
            *("rawInput", "rawOutput", "capabilities", "_meta"),
        )
    ),
    "empty": {"title": "", "kind": "", "content": [], "locations": [], "rawInput": {}, "_meta": {}},
    "set": {"title": "t", "status": "failed", "rawInput": 0, "rawOutput": False},
}


@pytest.mark.parametrize("state", PATCHES)
@pytest.mark.parametrize("version", [1, 2])
def test_omitted_null_and_a_value_are_kept_apart(version: int, state: str) -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "a", **PATCHES[state]}
    shape = v1.SessionUpdate if version == 1 else v2.SessionUpdate
    assert written_back(update, shape) == canonical(update)


def test_omitted_is_unset_null_is_none_and_a_value_is_itself() -> None:
    update = v2.decode_update(
        b'{"sessionUpdate":"tool_call_update","toolCallId":"a","title":null,"content":[]}'
    )
    assert isinstance(update, v2.ToolCallUpdate)
    assert (update.kind, update.title, update.content) == (UNSET, None, [])


TEXT_BLOCK = {"type": "text", "text": "x"}
SURROGATES: dict[str, tuple[Any, Json]] = {
    "in a text": (
        v2.SessionUpdate,
        {**PLAIN_CHUNK, "content": {"type": "text", "text": "\ud800 and \udfff"}},
    ),
    "in an id": (v1.SessionUpdate, {**PLAIN_CHUNK, "messageId": "\ud800"}),
    "in a field's name": (v2.SessionUpdate, {**PLAIN_CHUNK, "\ud800": "\ud800"}),
    "in _meta": (v2.SessionUpdate, {**PLAIN_CHUNK, "_meta": {"\ud800": ["\udc00"]}}),
    "in a tag": (v2.SessionUpdate, {"sessionUpdate": "\ud800"}),
    "in the tag of a content block": (ContentBlock, {"type": "\ud800", "text": "\ud800"}),
    "in an enum value": (
        v2.SessionUpdate,
        {"sessionUpdate": "tool_call_update", "toolCallId": "a", "kind": "\udfff"},
    ),
    "in raw input": (
        v1.SessionUpdate,
        {"sessionUpdate": "tool_call_update", "toolCallId": "a", "rawInput": {"\ud83d": "\ud83d"}},
    ),
    "in the prompt": (
        v2.PromptRequest,
        {"sessionId": "s", "prompt": [{**TEXT_BLOCK, "text": "\udead"}]},
    ),
    "in a request id": (v2.METHODS["$/cancel_request"].params, {"requestId": "\ud800"}),
}


@pytest.mark.parametrize("where", SURROGATES)
def test_a_lone_surrogate_survives(where: str) -> None:
    shape, message = SURROGATES[where]
    escaped = json.dumps(message)  # \ud800 is written as an escape: plain ASCII
    assert canonical(json.loads(codec.encode(codec.decode(escaped, shape)))) == canonical(message)
    assert canonical(json.loads(codec.encode(codec.decode(escaped.encode(), shape)))) == canonical(
        message
    )


@pytest.mark.parametrize("where", SURROGATES)
def test_a_lone_surrogate_survives_in_parsed_json(where: str) -> None:
    shape, message = SURROGATES[where]
    assert canonical(codec.to_json(codec.read(message, shape))) == canonical(message)


NUMBERS = {
    "huge": str(10**40),
    "huge and negative": str(-(10**40)),
    "beyond int64": str(2**63),
    "beyond uint64": str(2**64),
    "an integer as a float": "1.0",
    "with an exponent": "1e3",
    "tiny": "5e-324",
    "the largest float": "1.7976931348623157e308",
    "minus zero": "-0",
    "a precise fraction": "0.1000000000000000055511151231257827",
}


def raw_input(text: str, more: str = "") -> str:
    return f'{{"sessionUpdate":"tool_call_update","toolCallId":"a","rawInput":{text}{more}}}'


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("unknown_field", ["", ',"futureField":1'])
def test_a_number_in_raw_input_survives(number: str, unknown_field: str) -> None:
    text = NUMBERS[number]
    written = codec.encode(v2.decode_update(raw_input(f"[{text}]", unknown_field)))
    assert json.loads(written)["rawInput"] == [json.loads(text)]


@pytest.mark.parametrize("number", ["1e400", "-1e400"])
def test_a_number_beyond_the_floats_is_not_written_as_null(number: str) -> None:
    try:
        read = v2.decode_update(raw_input(number))
    except Malformed:
        return  # refusing it is as good as keeping it
    assert json.loads(codec.encode(read))["rawInput"] is not None


@pytest.mark.parametrize("text", ["7", "7.0", "7e0", "70e-1"])
def test_an_integer_may_be_written_as_a_float(text: str) -> None:
    update = v2.decode_update(f'{{"sessionUpdate":"usage_update","used":{text},"size":7}}')
    assert json.loads(codec.encode(update))["used"] == 7


def nested(depth: int, extra: str = "") -> str:
    return raw_input("[" * depth + "]" * depth, extra)


@pytest.mark.parametrize("depth", [1, 100, 300])
@pytest.mark.parametrize("extra", ["", ',"futureField":1', ',"title":"\\ud800"'])
def test_deep_nesting_survives(depth: int, extra: str) -> None:
    update = nested(depth, extra)
    assert canonical(json.loads(codec.encode(v2.decode_update(update)))) == canonical(
        json.loads(update)
    )


@pytest.mark.parametrize("depth", [10_000, 100_000])  # Python 3.12 reads some thousands
@pytest.mark.parametrize("shape", [v2.SessionUpdate, v1.SessionUpdate, v2.RequestPermissionRequest])
def test_nesting_without_end_is_malformed(shape: Any, depth: int) -> None:
    with pytest.raises(Malformed):
        codec.decode(nested(depth), shape)


def test_what_was_read_can_be_written_however_deep() -> None:
    """A message that can be read can be written too, so that forwarding it never fails."""
    for depth in range(350, 950, 50):
        try:
            read = v2.decode_update(nested(depth, ',"futureField":1'))
        except Malformed:
            continue
        assert codec.encode(read).count(b"[") == depth


WITHIN_PLAIN_JSON: dict[str, Any] = {
    "in a list": lambda struct: [struct],
    "in an object": lambda struct: {"params": struct},
    "in a list in an object": lambda struct: {"updates": [struct]},
    "in a list in a list": lambda struct: [[struct]],
}


@pytest.mark.parametrize("where", WITHIN_PLAIN_JSON)
def test_a_struct_within_plain_json_keeps_unknown_fields(where: str) -> None:
    within, update = WITHIN_PLAIN_JSON[where], {**PLAIN_CHUNK, "futureField": 1}
    written = json.loads(codec.encode(within(v2.decode_update(dumps(update)))))
    assert canonical(written) == canonical(within(update))


def test_a_negative_size_is_valid_in_version_1() -> None:
    link = {"type": "resource_link", "name": "n", "uri": "file:///x", "size": -1}
    update = {"sessionUpdate": "agent_message_chunk", "content": link}
    assert written_back(update, v1.SessionUpdate) == canonical(update)


def test_a_resource_is_text_or_a_blob_by_its_fields() -> None:
    text, blob = (
        codec.read({"type": "resource", "resource": {"uri": "urn:x", key: "eA=="}}, ContentBlock)
        for key in ("text", "blob")
    )
    assert (text.resource.text, blob.resource.blob) == ("eA==", "eA==")


# ---- what is not known is kept ---------------------------------------------------------------


@pytest.mark.parametrize("word", UNKNOWN_WORDS)
@pytest.mark.parametrize("shape", [v1.SessionUpdate, v2.SessionUpdate])
def test_an_unknown_variant_is_kept_whole_and_named(shape: Any, word: str) -> None:
    update = {"sessionUpdate": word, "content": {"type": 5}, "_meta": [], "raw": {}}
    read = codec.decode(dumps(update), shape)
    assert isinstance(read, Unknown)
    assert (read.tag, read.raw.fields) == (word, update)


@pytest.mark.parametrize("word", UNKNOWN_WORDS)
def test_an_unknown_content_type_is_kept_whole_and_named(word: str) -> None:
    read = codec.decode(dumps({"type": word, "text": 5}), ContentBlock)
    assert isinstance(read, Unknown)
    assert (read.tag, read.raw.fields) == (word, {"type": word, "text": 5})


def test_unknown_fields_are_kept_with_the_struct() -> None:
    update = {**PLAIN_CHUNK, "x": 1, "content": {**TEXT_BLOCK, "y": {"z": None}}}
    read = codec.decode(dumps(update), v2.SessionUpdate)
    assert read.unknown.fields == {"x": 1}
    assert read.content.unknown.fields == {"y": {"z": None}}


def test_a_peer_cannot_set_our_own_fields() -> None:
    update = {**PLAIN_CHUNK, "?": 1, "unknown": 2, "meta": {"k": 3}}
    read = codec.decode(dumps(update), v2.SessionUpdate)
    assert read.meta is UNSET
    assert read.unknown.fields == {"?": 1, "unknown": 2, "meta": {"k": 3}}


@pytest.mark.parametrize(
    ("tag", "updates", "decode"),
    [
        *((tag, v1_updates, v1.decode_update) for tag in V1_TAGS),
        *((tag, v2_updates, v2.decode_update) for tag in V2_TAGS),
    ],
)
def test_every_known_tag_has_a_struct(tag: str, updates: Any, decode: Any) -> None:
    @settings(max_examples=5)
    @given(updates(tag))
    def holds(update: Json) -> None:
        assert not isinstance(decode(dumps(update)), Unknown)

    holds()


# ---- whatever the bytes ----------------------------------------------------------------------

SHAPES = [*METHOD_TYPES.values(), v1.SessionUpdate, v2.SessionUpdate, ContentBlock]


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(max_size=40), st.sampled_from(SHAPES))
@example(b"", v2.SessionUpdate)
@example(b"\xef\xbb\xbf{}", v2.SessionUpdate)
@example(b"\xff\xfe{\x00}\x00", v2.SessionUpdate)
@example(b'{"sessionUpdate":"\xed\xa0\x80"}', v2.SessionUpdate)
@example('{"sessionUpdate":"\ud800"}', v2.SessionUpdate)
@example("[" * 100_000, v2.SessionUpdate)
@example('{"a":' * 100_000, v1.SessionUpdate)
@example("9" * 10_000, v2.SessionUpdate)
@example("NaN", v2.SessionUpdate)
@example('{"requestId":-Infinity}', v2.METHODS["$/cancel_request"].params)
def test_any_bytes_are_read_or_malformed(data: bytes | str, shape: Any) -> None:
    with suppress(Malformed):
        codec.decode(data, shape)


@settings(max_examples=100)
@given(json_values, st.sampled_from(SHAPES))
def test_any_json_is_read_or_malformed(value: Any, shape: Any) -> None:
    with suppress(Malformed):
        codec.decode(dumps(value), shape)
    with suppress(Malformed):
        codec.read(value, shape)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)


@st.composite
def damaged(draw: st.DrawFn, messages: Values) -> Json:
    """A message with one value, anywhere in it, replaced or removed."""
    message: Json = json.loads(dumps(draw(messages)))
    everywhere = list(places(message))
    container, key = everywhere[draw(st.integers(0, len(everywhere) - 1))]
    if isinstance(container, dict) and draw(st.booleans()):
        del container[key]
    else:
        container[key] = draw(json_values)
    return message


DAMAGED = st.one_of(
    st.tuples(damaged(v2_updates()), st.just(v2.SessionUpdate)),
    st.tuples(damaged(v1_updates(unknown=True)), st.just(v1.SessionUpdate)),
    st.tuples(damaged(v2_permission_requests()), st.just(v2.RequestPermissionRequest)),
    st.tuples(damaged(v1_permission_requests()), st.just(v1.RequestPermissionRequest)),
)


@settings(max_examples=125)
@given(DAMAGED)
def test_a_damaged_message_is_read_or_malformed_and_what_is_read_can_be_written(
    case: tuple[Json, Any],
) -> None:
    message, shape = case
    faults: list[Fault] = []
    try:
        read = codec.decode(dumps(message), shape, faults)
    except Malformed:
        return
    again: list[Fault] = []
    assert codec.decode(codec.encode(read), shape, again) == read
    assert again == []


@settings(max_examples=125)
@given(DAMAGED)
def test_what_is_not_reported_as_a_fault_is_not_lost(case: tuple[Json, Any]) -> None:
    message, shape = case
    faults: list[Fault] = []
    try:
        read = codec.decode(dumps(message), shape, faults)
    except Malformed:
        return
    if not faults:
        assert canonical(json.loads(codec.encode(read))) == canonical(message)


# ---- leniency: what is passed over, and reported ---------------------------------------------


def tool_call(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "a", **fields}


LENIENT_FIELDS: dict[str, tuple[Json, list[str]]] = {
    "a status that is a number": (tool_call(status=5), [".status"]),
    "a kind that is a list": (tool_call(kind=["read"]), [".kind"]),
    "a title that is an object": (tool_call(title={}), [".title"]),
    "content that is no list": (tool_call(content="text"), [".content"]),
    "locations that are no list": (tool_call(locations={"path": "/x"}), [".locations"]),
    "_meta that is no object": (tool_call(_meta=[1]), ["._meta"]),
    "capabilities that are a flag": (tool_call(capabilities=True), [".capabilities"]),
    "two of them": (tool_call(status=5, title=6), [".status", ".title"]),
    "a message's content": (
        {"sessionUpdate": "agent_message", "messageId": "m", "content": 5},
        [".content"],
    ),
    "a title of the session": ({"sessionUpdate": "session_info_update", "title": 5}, [".title"]),
    "a cost without a currency": (
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1}},
        [".cost"],
    ),
    "a stop reason that is a number": (
        {"sessionUpdate": "state_update", "state": "idle", "stopReason": 5},
        [".stopReason"],
    ),
    "terminal output without data": (
        {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {}},
        [".output"],
    ),
    "an exit status that is a number": (
        {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": 1},
        [".exitStatus"],
    ),
    "a terminal's size of 0": (
        {"sessionUpdate": "terminal_update", "terminalId": "t", "size": {"cols": 0, "rows": 1}},
        [".size"],
    ),
    "a summary that is text": (
        {
            "sessionUpdate": "compaction_update",
            "compactionId": "c",
            "status": "completed",
            "summary": "short",
        },
        [".summary"],
    ),
}


@pytest.mark.parametrize("case", LENIENT_FIELDS)
def test_a_malformed_optional_field_counts_as_omitted_and_is_reported(case: str) -> None:
    update, expected = LENIENT_FIELDS[case]
    read, faults = read_with_faults(update, v2.SessionUpdate)
    assert [
        path for path in expected if any(fault.startswith(path) for fault in faults)
    ] == expected
    assert len(faults) == len(expected)
    left = {key: value for key, value in update.items() if f".{key}" not in expected}
    assert read == codec.decode(dumps(left), v2.SessionUpdate)


def test_a_malformed_optional_field_deep_inside_costs_nothing_else() -> None:
    block = {**TEXT_BLOCK, "annotations": {"priority": "high", "audience": ["user", 5]}}
    read, faults = read_with_faults({**PLAIN_CHUNK, "content": block}, v2.SessionUpdate)
    assert faults == [".content.annotations.priority", ".content.annotations.audience[1]"]
    assert read.content.annotations.audience == ["user"]
    assert read.content.annotations.priority is UNSET


LENIENT_ITEMS: dict[str, tuple[Json, Any, list[str], Any]] = {
    "content of a tool call": (
        tool_call(content=[{"type": "terminal"}, {"type": "terminal", "terminalId": "t"}, 5]),
        v2.SessionUpdate,
        [".content[0]", ".content[2]"],
        lambda read: [item.terminal_id for item in read.content] == ["t"],
    ),
    "content of a tool call of version 1": (
        tool_call(
            content=[{"type": "diff", "path": "/x"}, {"type": "terminal", "terminalId": "t"}]
        ),
        v1.SessionUpdate,
        [".content[0]"],
        lambda read: [item.terminal_id for item in read.content] == ["t"],
    ),
    "locations": (
        tool_call(locations=[{"line": 1}, {"path": "/x"}]),
        v2.SessionUpdate,
        [".locations[0]"],
        lambda read: [place.path for place in read.locations] == ["/x"],
    ),
    "content of a message": (
        {
            "sessionUpdate": "user_message",
            "messageId": "m",
            "content": [{"type": "text"}, TEXT_BLOCK, {"text": "no type"}],
        },
        v2.SessionUpdate,
        [".content[0]", ".content[2].type"],
        lambda read: [block.text for block in read.content] == ["x"],
    ),
    "commands": (
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"type": "command", "name": "no description"},
                {"type": "command", "name": "n", "description": "d"},
            ],
        },
        v2.SessionUpdate,
        [".availableCommands[0]"],
        lambda read: [command.name for command in read.available_commands] == ["n"],
    ),
    "plan entries": (
        {
            "sessionUpdate": "plan",
            "entries": [{"content": "c", "priority": "low", "status": "pending"}, "step", None],
        },
        v1.SessionUpdate,
        [".entries[1]", ".entries[2]"],
        lambda read: [entry.content for entry in read.entries] == ["c"],
    ),
    "config options": (
        {"sessionUpdate": "config_option_update", "configOptions": [{"type": "boolean"}]},
        v2.SessionUpdate,
        [".configOptions[0]"],
        lambda read: read.config_options == [],
    ),
    "changes of a diff": (
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "a",
            "content": {
                "type": "diff",
                "changes": [
                    {"operation": "move", "path": "/b"},
                    {"operation": "add", "path": "/b"},
                ],
            },
        },
        v2.SessionUpdate,
        [".content.changes[0]"],
        lambda read: [type(change) for change in read.content.changes] == [v2.DiffAdd],
    ),
    "sessions": (
        {"sessions": [{"sessionId": "s"}, {"sessionId": "s", "cwd": "/"}]},
        v2.ListSessionsResponse,
        [".sessions[0]"],
        lambda read: [session.cwd for session in read.sessions] == ["/"],
    ),
    "sign-in methods": (
        {
            "protocolVersion": 2,
            "info": {"name": "n", "version": "1"},
            "authMethods": [{"type": "agent"}, {"type": "agent", "methodId": "m", "name": "n"}],
        },
        v2.InitializeResponse,
        [".authMethods[0]"],
        lambda read: [method.method_id for method in read.auth_methods] == ["m"],
    ),
}


@pytest.mark.parametrize("case", LENIENT_ITEMS)
def test_a_malformed_item_is_skipped_and_reported(case: str) -> None:
    message, shape, expected, holds = LENIENT_ITEMS[case]
    read, faults = read_with_faults(message, shape)
    assert faults == expected
    assert holds(read)


@pytest.mark.parametrize("value", [5, "text", {}, True])
def test_a_required_list_of_version_1_that_is_malformed_is_empty(value: Any) -> None:
    read, faults = read_with_faults({"sessionUpdate": "plan", "entries": value}, v1.SessionUpdate)
    assert (read.entries, faults) == ([], [".entries"])


def test_background_work_is_all_or_nothing() -> None:
    """The schema forgives the field, not its items."""
    work = [{"type": "terminal", "terminalId": "t"}, {"type": "terminal"}]
    update = {"sessionUpdate": "state_update", "state": "running", "background": work}
    read, faults = read_with_faults(update, v2.SessionUpdate)
    assert read.background is UNSET
    assert faults == [".background[1]"]


def test_null_counts_as_omitted_where_the_schema_allows_it() -> None:
    request = codec.decode(b'{"cwd":"/","mcpServers":null}', v2.NewSessionRequest)
    assert request.mcp_servers is UNSET
    assert codec.decode(b'{"cwd":"/","mcpServers":null}', v1.NewSessionRequest).mcp_servers == []


# ---- strictness: a known tag, and fields that must fit ---------------------------------------

REQUIRED_NOTHING = {"session_info_update"}


@pytest.mark.parametrize(
    ("wire", "tag"),
    [
        pytest.param(wire, tag, id=f"{name}-{tag}")
        for name, wire, tags in (("v1", v1, V1_TAGS), ("v2", v2, V2_TAGS))
        for tag in tags
    ],
)
def test_a_known_tag_without_its_payload_is_malformed(wire: Any, tag: str) -> None:
    data = dumps({"sessionUpdate": tag})
    if tag in REQUIRED_NOTHING:
        assert not isinstance(wire.decode_update(data), Unknown)
        return
    with pytest.raises(Malformed, match="missing"):
        wire.decode_update(data)


@settings(max_examples=100)
@given(v2_updates(*(tag for tag in V2_TAGS if tag not in REQUIRED_NOTHING)), st.data())
def test_a_known_tag_with_a_damaged_payload_never_becomes_unknown(
    update: Json, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from([key for key in update if key != "sessionUpdate"]))
    update = {**update, key: data.draw(st.sampled_from((5, None, [], "x", {"type": "?"})))}
    try:
        read = v2.decode_update(dumps(update))
    except Malformed:
        return
    assert not isinstance(read, Unknown)


@given(content_blocks(), st.sampled_from((5, None, [], {})))
def test_a_known_content_type_with_a_damaged_payload_never_becomes_unknown(
    block: Json, damage: Any
) -> None:
    for key in block:
        if key == "type" or block["type"] in UNKNOWN_WORDS:
            continue
        try:
            read = codec.decode(dumps({**block, key: damage}), ContentBlock)
        except Malformed:
            continue
        assert not isinstance(read, Unknown)


@pytest.mark.parametrize("update", [{}, {"sessionUpdate": 5}, {"sessionUpdate": None}, [], 5, None])
@pytest.mark.parametrize("shape", [v1.SessionUpdate, v2.SessionUpdate])
def test_an_update_without_a_tag_is_malformed(shape: Any, update: Any) -> None:
    with pytest.raises(Malformed):
        codec.decode(dumps(update), shape)


OPTION = {"optionId": "o", "name": "n", "kind": "allow_once"}
PERMISSION = {"sessionId": "s", "title": "t", "options": [OPTION]}
ELICITATION = {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://x"}
STDIO = {"type": "stdio", "name": "n", "command": "/c"}
STRICT: dict[str, tuple[Any, Json]] = {
    "an option without a kind": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "options": [{"optionId": "o", "name": "n"}]},
    ),
    "an option whose kind is a number": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "options": [{**OPTION, "kind": 5}]},
    ),
    "one malformed option of two": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "options": [OPTION, 5]},
    ),
    "options that are no list": (v2.RequestPermissionRequest, {**PERMISSION, "options": OPTION}),
    "a malformed option of version 1": (
        v1.RequestPermissionRequest,
        {"sessionId": "s", "toolCall": {"toolCallId": "a"}, "options": [{}]},
    ),
    "a malformed option of June": (
        v2.RequestPermissionRequest,
        {"sessionId": "s", "toolCall": {"toolCallId": "a"}, "options": [{}]},
    ),
    "a subject that is text": (v2.RequestPermissionRequest, {**PERMISSION, "subject": "rm -rf"}),
    "a subject without a type": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "subject": {"command": "rm", "cwd": "/"}},
    ),
    "a subject without its command": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "subject": {"type": "command", "cwd": "/"}},
    ),
    "a subject without its directory": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "subject": {"type": "command", "command": "rm"}},
    ),
    "a subject whose tool call has no id": (
        v2.RequestPermissionRequest,
        {**PERMISSION, "subject": {"type": "tool_call", "toolCall": {"title": "t"}}},
    ),
    "a tool call of version 1 without an id": (
        v1.RequestPermissionRequest,
        {"sessionId": "s", "toolCall": {}, "options": [OPTION]},
    ),
    "a prompt that is no list": (v2.PromptRequest, {"sessionId": "s", "prompt": "not a list"}),
    "a prompt of version 1 that is no list": (
        v1.PromptRequest,
        {"sessionId": "s", "prompt": "not a list"},
    ),
    "one malformed block of a prompt": (
        v2.PromptRequest,
        {"sessionId": "s", "prompt": [TEXT_BLOCK, {"type": "text"}]},
    ),
    "no prompt": (v1.PromptRequest, {"sessionId": "s"}),
    "MCP servers that are no list": (v2.NewSessionRequest, {"cwd": "/", "mcpServers": STDIO}),
    "one malformed MCP server": (
        v2.NewSessionRequest,
        {"cwd": "/", "mcpServers": [STDIO, {"type": "http", "name": "n"}]},
    ),
    "a malformed MCP server of version 1": (
        v1.NewSessionRequest,
        {"cwd": "/", "mcpServers": [{"name": "n", "command": "/c", "args": [5], "env": []}]},
    ),
    "no MCP servers in version 1": (v1.NewSessionRequest, {"cwd": "/"}),
    "a malformed variable of an MCP server": (
        v2.ResumeSessionRequest,
        {"sessionId": "s", "cwd": "/", "mcpServers": [{**STDIO, "env": [{"name": "A"}]}]},
    ),
    "a replay from nowhere": (
        v2.ResumeSessionRequest,
        {"sessionId": "s", "cwd": "/", "replayFrom": "start"},
    ),
    "no directory": (v2.NewSessionRequest, {"mcpServers": []}),
    "a terminal's command": (v1.CreateTerminalRequest, {"sessionId": "s", "command": ["ls"]}),
    "a terminal's environment": (
        v1.CreateTerminalRequest,
        {"sessionId": "s", "command": "ls", "env": {"A": "1"}},
    ),
    "a variable of a terminal": (
        v1.CreateTerminalRequest,
        {"sessionId": "s", "command": "ls", "env": [{"name": "A", "value": 1}]},
    ),
    "a terminal's directory": (
        v1.CreateTerminalRequest,
        {"sessionId": "s", "command": "ls", "cwd": 5},
    ),
    "a terminal's arguments": (
        v1.CreateTerminalRequest,
        {"sessionId": "s", "command": "ls", "args": "-l"},
    ),
    "a subagent's directory": (
        v2.SessionUpdate,
        {"sessionUpdate": "subagent_update", "sessionId": "s", "cwd": 5},
    ),
    "a line to read from": (
        v1.ReadTextFileRequest,
        {"sessionId": "s", "path": "/x", "line": "first"},
    ),
    "a chunk's content": (v2.SessionUpdate, {**PLAIN_CHUNK, "content": "hello"}),
    "a chunk's content block": (v2.SessionUpdate, {**PLAIN_CHUNK, "content": {"type": "text"}}),
    "a chunk without its message": (
        v2.SessionUpdate,
        {"sessionUpdate": "agent_message_chunk", "content": TEXT_BLOCK},
    ),
    "a tool call's id": (v2.SessionUpdate, {"sessionUpdate": "tool_call_update", "toolCallId": 5}),
    "a tool call of version 1 without a title": (
        v1.SessionUpdate,
        {"sessionUpdate": "tool_call", "toolCallId": "a"},
    ),
    "an elicitation without a session or a request": (
        v2.CreateElicitationRequest,
        ELICITATION,
    ),
    "an elicitation of a session and a request": (
        v2.CreateElicitationRequest,
        {
            **ELICITATION,
            "sessionId": "s",
            "requestId": 1,
        },
    ),
}


@pytest.mark.parametrize("case", STRICT)
def test_what_the_schema_does_not_forgive_fails(case: str) -> None:
    shape, message = STRICT[case]
    with pytest.raises(Malformed):
        codec.decode(dumps(message), shape)
    with pytest.raises(Malformed):
        codec.read(message, shape)


def test_an_error_names_the_path() -> None:
    with pytest.raises(Malformed) as raised:
        codec.decode(dumps({"sessionId": "s", "prompt": [TEXT_BLOCK, 5]}), v2.PromptRequest)
    assert raised.value.path == ".prompt[1]"


def test_a_prompt_result_with_a_malformed_id_is_malformed() -> None:
    with pytest.raises(Malformed):
        codec.decode(b'{"messageId":5}', v2.PromptResponse)


def test_a_stdio_server_of_version_1_with_a_type_is_kept_unchanged() -> None:
    server = {"type": "stdio", "name": "n", "command": "/c", "args": [], "env": []}
    message = {"cwd": "/", "mcpServers": [server]}
    assert written_back(message, v1.NewSessionRequest) == canonical(message)


def test_an_elicitation_of_a_session_may_have_a_null_request() -> None:
    message = {**ELICITATION, "sessionId": "s", "requestId": None}
    assert written_back(message, v2.CreateElicitationRequest) == canonical(message)


# ---- the strategies themselves ---------------------------------------------------------------

BY_THE_SCHEMA: dict[str, tuple[Any, str, Values]] = {
    "updates of version 2": (2, "SessionUpdate", v2_updates()),
    "updates of version 1": (1, "SessionUpdate", v1_updates()),
    "permission requests of version 2": (2, "RequestPermissionRequest", v2_permission_requests()),
    "permission requests of version 1": (1, "RequestPermissionRequest", v1_permission_requests()),
}


@pytest.mark.parametrize("case", BY_THE_SCHEMA)
def test_the_official_schema_allows_what_the_strategies_make(
    valid: SchemaValidator, case: str
) -> None:
    version, name, values = BY_THE_SCHEMA[case]

    @settings(max_examples=100)
    @given(values)
    def holds(message: Json) -> None:
        assert valid(version, "unstable", name, message) == []

    holds()


def test_the_examples_of_this_file_are_what_they_claim_to_be() -> None:
    assert codec.read(TEXT_BLOCK, ContentBlock) == TextContent("x")
    assert codec.read(STDIO, v2.McpServer) == v2.McpServerStdio("n", "/c")
    assert isinstance(
        codec.read(PERMISSION, v2.RequestPermissionRequest), v2.RequestPermissionRequest
    )
    assert ResourceLink(name="n", uri="u").size is UNSET
