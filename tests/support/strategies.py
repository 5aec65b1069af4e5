"""Random messages of both versions, as Hypothesis strategies.

`v2_updates()`, `v1_updates()` and what they are made of give JSON (dicts, lists, strings …) that
the official schemas allow; `v2_streams()` and `v1_streams()` give lists of them. `..._structs()`
give the same, decoded. Ids come from a small pool, so that the updates of a stream meet. Optional
fields are omitted, null or set. With `unknown` (on in version 2, whose schema is open; off in
version 1, whose schema is closed) there are unknown variants, content types and enum values.
Unknown fields and `_meta` are everywhere, in both versions.

    v2_streams()                                       anything
    v2_streams("agent_message", "agent_message_chunk") only these variants
    values_of(v2.PromptRequest)                        any type of `wire`, by its struct
"""

import base64
import json
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from twofold.wire import codec, v1, v2
from twofold.wire.base import NULL_IS_DEFAULT, Fault, Known, Unknown, UnsetType, Wire, alternates
from twofold.wire.elicitation import ElicitationScope

Json: TypeAlias = dict[str, Any]
Values: TypeAlias = SearchStrategy[Any]

IDS = ("a", "b", "c")
"""One pool for everything: a message, a thought and a tool call may share an id."""

UNKNOWN_WORDS = ("_acme.dev/thing", "future_kind", "zukünftig", "?", "")
"""Tags and enum values that are in no schema; `?` is what our own structs call an unknown tag."""

EXTRAS: tuple[Json, ...] = (
    {},
    {},
    {},
    {},
    {},
    {"_x": 1},
    {"futureField": {"nested": [None, 1.5, {"größe": "🙂"}]}},
    {"future_field": None, "": []},
    {"?": {"fields": {}}, "unknown": True, "meta": 1},
)
"""Fields that are in no schema; the last are what our own structs call their fields."""

METAS: tuple[Json, ...] = (
    {},
    {"k": 1},
    {"k": None},
    {"k": {"nested": None}},
    {"j": "other", "k": None},
    {"acme.dev/größe": [1, {"x": None}], "traceparent": "00-80e1afed08e019fc-01"},
)

TEXTS = (
    "",
    "a",
    "two words",
    "line\nbreak",
    "größe",
    "日本語",
    "👩‍💻",
    "\x1b[31mred\x1b[0m",
    "\0",
    "\u2028",
)
URIS = ("https://example.com/x?y=z", "file:///home/user/a%20b.py", "urn:x:1")
PATHS = ("/home/user/a.py", "/tmp/größe", "C:\\x", "/")
TIMES = ("2026-11-16T01:02:03Z", "2026-06-08T10:00:00.123456789+02:00")
OUTPUT = "größe 日本語 👩‍💻 \x1b[31mrot\x1b[0m\r\n".encode()
"""What terminals print; pieces of it end inside characters and escape sequences."""

texts: Values = st.sampled_from(TEXTS) | st.text(max_size=5)
uris: Values = st.sampled_from(URIS)
paths: Values = st.sampled_from(PATHS)
ids: Values = st.sampled_from(IDS)
metas: Values = st.sampled_from(METAS)
counts: Values = st.sampled_from((0, 1, 53_000, 2**53 + 1, 2**64 - 1))
scalars: Values = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1e9, 1e9, width=32) | texts
)
json_values: Values = (
    scalars
    | st.lists(scalars, max_size=3)
    | st.dictionaries(st.sampled_from(("x", "y", "größe", "")), scalars, max_size=3)
    | st.sampled_from(({"a": {"b": [[], {}]}}, [[["deep"]]], 2**70, -(2**63), 1e300))
)
base64_pieces: Values = (
    st.tuples(st.integers(0, len(OUTPUT)), st.integers(0, 12)).map(
        lambda cut: OUTPUT[cut[0] : cut[0] + cut[1]]
    )
    | st.binary(max_size=8)
).map(lambda data: base64.b64encode(data).decode())


def dumps(value: Any) -> bytes:
    """JSON as a peer would write it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def canonical(value: Any) -> str:
    """The same for the same JSON: key order and 1.0 for 1 do not matter, everything else does."""
    return json.dumps(_canonical_numbers(value), sort_keys=True)


def _canonical_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical_numbers(item) for item in value]
    return value


def maybe(values: Values) -> Values:
    return st.none() | values


def words(*known: str, unknown: bool) -> Values:
    """The values of an open (or closed) enumeration."""
    return st.sampled_from(known + UNKNOWN_WORDS if unknown else known)


def objects(required: Mapping[str, Values], optional: Mapping[str, Values] | None = None) -> Values:
    """Objects with these fields, `_meta` and now and then unknown fields."""
    known = st.fixed_dictionaries(
        dict(required), optional={**(optional or {}), "_meta": maybe(metas)}
    )
    return st.builds(lambda extra, fields: {**extra, **fields}, st.sampled_from(EXTRAS), known)


def tagged(tag_field: str, tag: str, values: Values) -> Values:
    return values.map(lambda fields: {tag_field: tag, **fields})


def unknown_variants(tag_field: str, required: Mapping[str, Values] | None = None) -> Values:
    """Unknown variants, with any payload."""
    payload: dict[str, Values] = {"text": json_values, "content": json_values, "status": scalars}
    return st.fixed_dictionaries(
        {tag_field: st.sampled_from(UNKNOWN_WORDS), **(required or {})},
        optional={name: values for name, values in payload.items() if name not in (required or {})},
    )


def some(values: Values, max_size: int = 3, min_size: int = 0) -> Values:
    return st.lists(values, min_size=min_size, max_size=max_size)


# ---- content ---------------------------------------------------------------------------------


@cache
def content_blocks(version: int = 2, unknown: bool = True) -> Values:
    """Content blocks of every type."""
    annotations = maybe(
        objects(
            {},
            {
                "audience": maybe(some(words("assistant", "user", unknown=unknown))),
                "lastModified": maybe(st.sampled_from(TIMES)),
                "priority": maybe(st.sampled_from((0, 1, 0.5))),
            },
        )
    )
    data: Values = st.sampled_from(("", "aGVsbG8="))
    text = tagged("type", "text", objects({"text": texts}, {"annotations": annotations}))
    resource = objects({"text": texts, "uri": uris}, {"mimeType": maybe(texts)}) | objects(
        {"blob": data, "uri": uris}, {"mimeType": maybe(texts)}
    )
    variants = [
        text,
        text,  # the most common by far
        tagged(
            "type",
            "image",
            objects(
                {"data": data, "mimeType": texts},
                {"uri": maybe(uris), "annotations": annotations},
            ),
        ),
        tagged(
            "type",
            "audio",
            objects({"data": data, "mimeType": texts}, {"annotations": annotations}),
        ),
        tagged("type", "resource_link", _resource_links(version, unknown, annotations)),
        tagged("type", "resource", objects({"resource": resource}, {"annotations": annotations})),
    ]
    if unknown:
        variants.append(unknown_variants("type"))
    return st.one_of(variants)


def _resource_links(version: int, unknown: bool, annotations: Values) -> Values:
    optional: dict[str, Values] = {
        "title": maybe(texts),
        "description": maybe(texts),
        "mimeType": maybe(texts),
        "size": maybe(st.sampled_from((-1 if version == 1 else 0, 1024, 2**63 - 1))),
        "annotations": annotations,
    }
    if version == 2:
        icon = objects(
            {"src": uris},
            {
                "mimeType": maybe(texts),
                "sizes": maybe(some(st.sampled_from(("48x48", "any")))),
                "theme": maybe(words("light", "dark", unknown=unknown)),
            },
        )
        optional["icons"] = maybe(some(icon, 2))
    return objects({"name": texts, "uri": uris}, optional)


def text_blocks() -> Values:
    """Text, and now and then something else."""
    return st.builds(lambda text: {"type": "text", "text": text}, texts) | content_blocks()


# ---- tool calls ------------------------------------------------------------------------------

KINDS = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"),
    "other",
)


@cache
def diffs_v2(unknown: bool = True) -> Values:
    """Diffs of the newest draft (without the tag)."""
    about: dict[str, Values] = {
        "fileType": maybe(words("text", "binary", "directory", "symlink", unknown=unknown)),
        "mimeType": maybe(texts),
    }
    changes = [
        tagged("operation", operation, objects({"path": paths}, about))
        for operation in ("add", "delete", "modify")
    ] + [
        tagged("operation", operation, objects({"oldPath": paths, "path": paths}, about))
        for operation in ("move", "copy")
    ]
    if unknown:
        changes.append(unknown_variants("operation"))
    patch = objects({"format": words("git_patch", unknown=unknown), "text": texts})
    return objects({"changes": some(st.one_of(changes), 2)}, {"patch": maybe(patch)})


@cache
def tool_call_contents_v2(unknown: bool = True) -> Values:
    """What a tool call of version 2 produces."""
    variants = [
        tagged("type", "content", objects({"content": content_blocks(2, unknown)})),
        tagged("type", "diff", diffs_v2(unknown)),
        tagged("type", "terminal", objects({"terminalId": ids})),
    ]
    if unknown:
        variants.append(unknown_variants("type"))
    return st.one_of(variants)


@cache
def tool_call_contents_v1(unknown: bool = False) -> Values:
    """What a tool call of version 1 produces."""
    diff = objects({"path": paths, "newText": texts}, {"oldText": maybe(texts)})
    variants = [
        tagged("type", "content", objects({"content": content_blocks(1, unknown)})),
        tagged("type", "diff", diff),
        tagged("type", "terminal", objects({"terminalId": ids})),
    ]
    if unknown:
        variants.append(unknown_variants("type"))
    return st.one_of(variants)


def locations(version: int = 2) -> Values:
    """Places in files; only version 1 has a line 0."""
    return objects(
        {"path": paths}, {"line": maybe(st.sampled_from((version - 1, 1, 42, 2**32 - 1)))}
    )


@cache
def tool_call_patches_v2(unknown: bool = True) -> Values:
    """Patches of a tool call: a session update without its tag, or a permission's subject."""
    statuses = words(
        *("pending", "in_progress", "paused", "completed", "failed", "cancelled"), unknown=unknown
    )
    return objects(
        {"toolCallId": ids},
        {
            "name": maybe(texts),
            "title": maybe(texts),
            "kind": maybe(words(*KINDS, unknown=unknown)),
            "status": maybe(statuses),
            "content": maybe(some(tool_call_contents_v2(unknown), 2)),
            "locations": maybe(some(locations(), 2)),
            "rawInput": json_values,
            "rawOutput": json_values,
            "capabilities": maybe(objects({}, {"cancel": maybe(objects({}))})),
        },
    )


@cache
def tool_call_patches_v1(unknown: bool = False) -> Values:
    """Patches of a tool call of version 1, where null is the same as omitted."""
    return objects(
        {"toolCallId": ids},
        {name: maybe(values) for name, values in _tool_call_fields_v1(unknown).items()},
    )


def _tool_call_fields_v1(unknown: bool) -> dict[str, Values]:
    statuses = words("pending", "in_progress", "completed", "failed", unknown=unknown)
    return {
        "title": texts,
        "name": texts,
        "kind": words(*KINDS, unknown=unknown),
        "status": statuses,
        "content": some(tool_call_contents_v1(unknown), 2),
        "locations": some(locations(1), 2),
        "rawInput": json_values,
        "rawOutput": json_values,
    }


# ---- permissions -----------------------------------------------------------------------------


@cache
def permission_options(unknown: bool = True) -> Values:
    kinds = words("allow_once", "allow_always", "reject_once", "reject_always", unknown=unknown)
    return objects({"optionId": ids, "name": texts, "kind": kinds})


@cache
def v2_permission_requests(unknown: bool = True) -> Values:
    """Params of `session/request_permission` in the newest draft."""
    subjects = [
        tagged("type", "tool_call", objects({"toolCall": tool_call_patches_v2(unknown)})),
        tagged(
            "type",
            "command",
            objects(
                {"command": texts, "cwd": paths},
                {"toolCallId": maybe(ids), "terminalId": maybe(ids)},
            ),
        ),
    ]
    if unknown:
        subjects.append(unknown_variants("type"))
    return objects(
        {"sessionId": ids, "title": texts, "options": some(permission_options(unknown), 3, 1)},
        {"description": maybe(texts), "subject": maybe(st.one_of(subjects))},
    )


@cache
def june_permission_requests(unknown: bool = True) -> Values:
    """Params of `session/request_permission` as June 2026 wrote them."""
    options = some(permission_options(unknown))
    return objects(
        {"sessionId": ids, "toolCall": tool_call_patches_v2(unknown), "options": options}
    )


@cache
def v1_permission_requests(unknown: bool = False) -> Values:
    """Params of `session/request_permission` in version 1."""
    options = some(permission_options(unknown))
    return objects(
        {"sessionId": ids, "toolCall": tool_call_patches_v1(unknown), "options": options}
    )


# ---- states, plans, commands, config options -------------------------------------------------


@cache
def states(version: int = 2, unknown: bool = True) -> Values:
    """What a session is doing (without the tag of a session update)."""
    work = [
        tagged("type", "terminal", objects({"terminalId": ids})),
        tagged("type", "tool_call", objects({"toolCallId": ids})),
        tagged("type", "subagent", objects({"sessionId": ids})),
    ]
    if unknown:
        work.append(unknown_variants("type"))
    background: dict[str, Values] = {}
    if version == 2:
        background["background"] = maybe(some(st.one_of(work), 2))
    optional_counts = maybe(counts)
    usage = objects(
        {"totalTokens": counts, "inputTokens": counts, "outputTokens": counts},
        {
            "thoughtTokens": optional_counts,
            "cachedReadTokens": optional_counts,
            "cachedWriteTokens": optional_counts,
        },
    )
    idle: dict[str, Values] = {"usage": maybe(usage), **background}
    error = objects({"code": st.sampled_from((-32603, 400)), "message": texts}, {"data": scalars})
    reasons = words(
        *("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"), unknown=unknown
    )
    variants = [
        tagged("state", "running", objects({}, background)),
        tagged("state", "requires_action", objects({}, background)),
        tagged("state", "idle", objects({}, {"stopReason": maybe(reasons), **idle})),
        tagged(
            "state",
            "idle",
            objects({"stopReason": st.just("error")}, {"error": maybe(error), **idle}),
        ),
    ]
    if unknown:
        variants.append(tagged("state", "unknown", objects({}, background)))
        variants.append(unknown_variants("state"))
    return st.one_of(variants)


@cache
def plans(version: int = 2, unknown: bool = True) -> Values:
    """Plans, as a `plan_update` holds them."""
    variants = [
        tagged(
            "type", "items", objects({"planId": ids, "entries": plan_entries(version, unknown)})
        ),
        tagged("type", "file", objects({"planId": ids, "uri": uris})),
        tagged("type", "markdown", objects({"planId": ids, "content": texts})),
    ]
    if unknown:
        variants.append(unknown_variants("type", {"planId": ids}))
    return st.one_of(variants)


@cache
def plan_entries(version: int = 2, unknown: bool = True) -> Values:
    statuses = ("pending", "in_progress", "completed", "cancelled")[: version + 2]
    entry = objects(
        {
            "content": texts,
            "priority": words("high", "medium", "low", unknown=unknown),
            "status": words(*statuses, unknown=unknown),
        }
    )
    return some(entry)


@cache
def commands(version: int = 2, unknown: bool = True) -> Values:
    described = {"name": texts, "description": texts}
    if version == 1:
        return objects(described, {"input": maybe(objects({"hint": texts}))})
    inputs = [tagged("type", "text", objects({"hint": texts}))]
    if unknown:
        inputs.append(unknown_variants("type"))
    command = tagged("type", "command", objects(described, {"input": maybe(st.one_of(inputs))}))
    return command | unknown_variants("type", described) if unknown else command


@cache
def config_options(version: int = 2, unknown: bool = True) -> Values:
    """Options the user may set; the id of version 1 is called `id`, that of a group `group`."""
    option_id, group_id = ("configId", "groupId") if version == 2 else ("id", "group")
    common = {option_id: ids, "name": texts}
    categories = words("mode", "model", "model_config", "thought_level", unknown=True)
    about: dict[str, Values] = {"description": maybe(texts), "category": maybe(categories)}
    choice = objects({"value": ids, "name": texts}, {"description": maybe(texts)})
    choices = some(choice, 3, 1)
    group = objects({group_id: ids, "name": texts, "options": choices})
    variants = [
        tagged(
            "type",
            "select",
            objects({**common, "currentValue": ids, "options": choices | some(group, 2, 1)}, about),
        ),
        tagged("type", "boolean", objects({**common, "currentValue": st.booleans()}, about)),
    ]
    if unknown:
        variants.append(unknown_variants("type", common))
    return st.one_of(variants)


# ---- session updates -------------------------------------------------------------------------


@cache
def _shared_variants(version: int, unknown: bool) -> dict[str, Values]:
    """The updates both versions have, by tag, without the tag."""
    blocks = content_blocks(version, unknown)
    compaction_statuses = words("in_progress", "completed", "failed", "cancelled", unknown=True)
    cost = objects({"amount": st.sampled_from((0, 0.045, -1.5, 12)), "currency": texts})
    text = maybe(texts)
    address = maybe(ids)
    return {
        "plan_update": objects({"plan": plans(version, unknown)}),
        "plan_removed": objects({"planId": ids}),
        "available_commands_update": objects(
            {"availableCommands": some(commands(version, unknown), 2)}
        ),
        "config_option_update": objects(
            {"configOptions": some(config_options(version, unknown), 2)}
        ),
        "session_info_update": objects(
            {}, {"title": text, "updatedAt": maybe(st.sampled_from(TIMES))}
        ),
        "usage_update": objects({"used": counts, "size": counts}, {"cost": maybe(cost)}),
        "notice": objects(
            {
                "severity": words("info", "warning", "error", unknown=True),
                "title": texts.filter(bool),  # the only string that must not be empty
            },
            {"description": text},
        ),
        "compaction_update": objects(
            {"compactionId": ids, "status": compaction_statuses},
            {"summary": maybe(some(blocks, 2)), "error": text},
        ),
        "compaction_summary_chunk": objects({"compactionId": ids, "content": blocks}),
        "subagent_update": objects(
            {"sessionId": ids},
            {
                "title": text,
                "description": text,
                "capabilities": maybe(objects({}, {"cancel": maybe(objects({}))})),
                "state": maybe(states(version, unknown)),
                "cwd": maybe(paths),
                "additionalDirectories": maybe(some(paths, 2)),
            },
        ),
        "session_message": objects(
            {"messageId": ids},
            {
                "senderSessionId": address,
                "recipientSessionId": address,
                "senderMessageId": address,
                "recipientMessageId": address,
                "content": maybe(some(blocks, 2)),
            },
        ),
        "session_message_chunk": objects({"messageId": ids, "content": blocks}),
    }


@cache
def _v2_variants(unknown: bool) -> dict[str, Values]:
    blocks = content_blocks(2, unknown)
    chunk = objects({"messageId": ids, "content": blocks})
    message = objects({"messageId": ids}, {"content": maybe(some(blocks))})
    size = st.sampled_from((1, 80, 65535))
    exit_status = objects(
        {},
        {
            "exitCode": maybe(st.sampled_from((0, 1, -1, 2**32))),
            "signal": maybe(st.sampled_from(("SIGTERM", ""))),
        },
    )
    variants = {
        "user_message_chunk": chunk,
        "agent_message_chunk": chunk,
        "agent_thought_chunk": chunk,
        "user_message": message,
        "agent_message": message,
        "agent_thought": message,
        "tool_call_update": tool_call_patches_v2(unknown),
        "tool_call_content_chunk": objects(
            {"toolCallId": ids, "content": tool_call_contents_v2(unknown)}
        ),
        "terminal_update": objects(
            {"terminalId": ids},
            {
                "command": maybe(texts),
                "cwd": maybe(paths),
                "output": maybe(objects({"data": base64_pieces})),
                "exitStatus": maybe(exit_status),
                "size": maybe(objects({"cols": size, "rows": size})),
                "capabilities": maybe(objects({}, {"cancel": maybe(objects({}))})),
            },
        ),
        "terminal_output_chunk": objects({"terminalId": ids, "data": base64_pieces}),
        "state_update": states(2, unknown),
        **_shared_variants(2, unknown),
    }
    return _updates(variants, unknown)


@cache
def _v1_variants(unknown: bool) -> dict[str, Values]:
    chunk = objects({"content": content_blocks(1, unknown)}, {"messageId": maybe(ids)})
    fields = _tool_call_fields_v1(unknown)
    title = fields.pop("title")
    fields["name"] = maybe(fields["name"])
    variants = {
        "user_message_chunk": chunk,
        "agent_message_chunk": chunk,
        "agent_thought_chunk": chunk,
        "tool_call": objects({"toolCallId": ids, "title": title}, fields),
        "tool_call_update": tool_call_patches_v1(unknown),
        "plan": objects({"entries": plan_entries(1, unknown)}),
        "current_mode_update": objects({"currentModeId": ids}),
        **_shared_variants(1, unknown),
    }
    return _updates(variants, unknown)


def _updates(variants: dict[str, Values], unknown: bool) -> dict[str, Values]:
    updates = {tag: tagged("sessionUpdate", tag, values) for tag, values in variants.items()}
    if unknown:
        updates[UNKNOWN] = unknown_variants("sessionUpdate", {"messageId": ids})
    return updates


UNKNOWN = "?"
"""Asks `v2_updates` and `v1_updates` for unknown variants."""

V2_TAGS = tuple(tag for tag in _v2_variants(True) if tag != UNKNOWN)
V1_TAGS = tuple(tag for tag in _v1_variants(True) if tag != UNKNOWN)


def v2_updates(*tags: str, unknown: bool = True) -> Values:
    """Session updates of version 2, all or only these variants."""
    return _chosen(_v2_variants(unknown), tags)


def v1_updates(*tags: str, unknown: bool = False) -> Values:
    """Session updates of version 1, all or only these variants."""
    return _chosen(_v1_variants(unknown), tags)


def _chosen(variants: dict[str, Values], tags: Sequence[str]) -> Values:
    # an integer, and not one_of: that would flatten each variant's own choices into the draw
    chosen = [variants[tag] for tag in tags or variants]
    return st.sampled_from(range(len(chosen))).flatmap(lambda index: chosen[index])


def v2_streams(*tags: str, unknown: bool = True, max_size: int = 40) -> Values:
    """Lists of session updates of version 2."""
    return _streams(v2_updates(*tags, unknown=unknown), max_size)


def v1_streams(*tags: str, unknown: bool = False, max_size: int = 40) -> Values:
    """Lists of session updates of version 1."""
    return _streams(v1_updates(*tags, unknown=unknown), max_size)


def _streams(updates: Values, max_size: int) -> Values:
    # a list alone would rarely get longer than ten
    return st.lists(updates, max_size=max_size) | st.lists(
        updates, min_size=max_size // 2, max_size=max_size
    )


def v2_struct(update: Json) -> v2.SessionUpdate:
    """An update as its struct; a strategy that makes something malformed is a broken one."""
    return _struct(update, v2.SessionUpdate)  # type: ignore[no-any-return]


def v1_struct(update: Json) -> v1.SessionUpdate:
    """An update as its struct; a strategy that makes something malformed is a broken one."""
    return _struct(update, v1.SessionUpdate)  # type: ignore[no-any-return]


def _struct(update: Json, shape: Any) -> Any:
    faults: list[Fault] = []
    struct = codec.decode(dumps(update), shape, faults)
    assert not faults, faults
    return struct


def v2_update_structs(*tags: str, unknown: bool = True) -> SearchStrategy[v2.SessionUpdate]:
    return v2_updates(*tags, unknown=unknown).map(v2_struct)


def v1_update_structs(*tags: str, unknown: bool = False) -> SearchStrategy[v1.SessionUpdate]:
    return v1_updates(*tags, unknown=unknown).map(v1_struct)


def v2_struct_streams(
    *tags: str, unknown: bool = True, max_size: int = 40
) -> SearchStrategy[list[v2.SessionUpdate]]:
    return v2_streams(*tags, unknown=unknown, max_size=max_size).map(
        lambda stream: [v2_struct(update) for update in stream]
    )


def v1_struct_streams(
    *tags: str, unknown: bool = False, max_size: int = 40
) -> SearchStrategy[list[v1.SessionUpdate]]:
    return v1_streams(*tags, unknown=unknown, max_size=max_size).map(
        lambda stream: [v1_struct(update) for update in stream]
    )


# ---- any type of `wire`, by its struct -------------------------------------------------------


def values_of(shape: Any) -> Values:
    """JSON that a type of `wire` reads without a fault: every draft's shape, every field."""
    return st.deferred(lambda: _values_of(shape))


@cache
def _values_of(shape: Any) -> Values:
    origin, args = get_origin(shape), get_args(shape)
    if origin is Annotated:
        return _annotated(args[0], args[1:])
    if origin is list:
        return st.lists(values_of(args[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(texts, values_of(args[1]), max_size=2)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(member) for member in args if member is not UnsetType])
    if isinstance(shape, type) and issubclass(shape, Wire):
        return st.one_of([_struct_values(each) for each in (shape, *alternates(shape))])
    return LEAVES[shape]


LEAVES: dict[Any, Values] = {
    Any: json_values,
    str: texts,
    bool: st.booleans(),
    int: st.sampled_from((0, 1, -1, 2**53 + 1)),
    float: st.sampled_from((0, 1, 0.5, -1e300)),
    type(None): st.none(),
}


def _annotated(inner: Any, marks: Sequence[Any]) -> Values:
    for mark in marks:
        if isinstance(mark, Known):
            return words(*mark.values, unknown=True)
        if isinstance(mark, msgspec.Meta):
            low, high = mark.ge or 0, mark.le or 2**53
            return st.sampled_from((low, low + 1, high))
    return values_of(inner)


def _struct_values(shape: type[Wire]) -> Values:
    config = shape.__struct_config__
    if issubclass(shape, Unknown):
        assert config.tag_field is not None
        return unknown_variants(config.tag_field)
    hints = get_type_hints(shape, include_extras=True)
    required: dict[str, Values] = {}
    optional: dict[str, Values] = {}
    for info in msgspec.structs.fields(shape):
        if info.name not in ("meta", "unknown"):
            fields = required if info.required else optional
            fields[info.encode_name] = _field_values(hints[info.name])
    values = objects(required, optional)
    if issubclass(shape, ElicitationScope):
        values = st.builds(_scoped, values, st.booleans(), ids)
    if config.tag is None or config.tag_field is None:
        return values
    return tagged(config.tag_field, str(config.tag), values)


def _field_values(hint: Any) -> Values:
    values = values_of(hint)
    if get_origin(hint) is Annotated and NULL_IS_DEFAULT in get_args(hint)[1:]:
        return values.filter(lambda value: value is not None)
    return values


def _scoped(fields: Json, of_session: bool, scope_id: str) -> Json:
    """An elicitation belongs to a session or to a request."""
    rest = {key: value for key, value in fields.items() if key not in ("sessionId", "requestId")}
    return {**rest, "sessionId" if of_session else "requestId": scope_id}
