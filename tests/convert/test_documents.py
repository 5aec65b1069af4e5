"""The rules of the ACP documents for conversion, sentence by sentence, with a memory and without.

"Message updates and chunks", point 5 of its plan (whole messages); "v2 tool-call updates", the
section "Compatibility"; the page on tool calls of version 1.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.strategies import Json, v1_struct, v2_struct
from twofold.convert.downgrade import Downgrader, downgrade
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.upgrade import Upgrader, upgrade
from twofold.session import Session
from twofold.wire import codec

Convert = Callable[[Json], list[Json]]


def _down(make: Callable[[Losses], Any]) -> Callable[[Losses], Convert]:
    def with_losses(losses: Losses) -> Convert:
        convert = make(losses)
        return lambda update: [codec.to_json(each) for each in convert(v2_struct(update))]

    return with_losses


def _up(make: Callable[[Losses], Any]) -> Callable[[Losses], Convert]:
    def with_losses(losses: Losses) -> Convert:
        convert = make(losses)
        return lambda update: [codec.to_json(each) for each in convert(v1_struct(update))]

    return with_losses


to_version_1 = pytest.mark.parametrize(
    "down",
    [
        pytest.param(_down(lambda losses: lambda each: downgrade(each, losses)), id="by itself"),
        pytest.param(_down(lambda losses: Downgrader(losses).update), id="with a memory"),
    ],
)
to_version_2 = pytest.mark.parametrize(
    "up",
    [
        pytest.param(_up(lambda losses: lambda each: upgrade(each, losses)), id="by itself"),
        pytest.param(_up(lambda losses: Upgrader(losses).update), id="with a memory"),
    ],
)
in_both_modes = pytest.mark.parametrize("strict", [False, True], ids=["best effort", "strict"])
each_kind = pytest.mark.parametrize("kind", ["user_message", "agent_message", "agent_thought"])

TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "name": "a", "uri": "file:///a"}


def message(kind: str = "agent_message", **fields: Any) -> Json:
    return {"sessionUpdate": kind, "messageId": "m1", **fields}


def chunk(block: Json, kind: str = "agent_message") -> Json:
    return {"sessionUpdate": f"{kind}_chunk", "messageId": "m1", "content": block}


def call(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "call_001", **fields}


# ---- message updates and chunks, plan, point 5 -----------------------------------------------


@to_version_1
@in_both_modes
@each_kind
def test_content_bearing_whole_message_updates_fan_out_one_chunk_per_content_block(
    down: Callable[[Losses], Convert], strict: bool, kind: str
) -> None:
    losses = Losses(strict=strict)
    blocks = [TEXT, IMAGE, LINK, TEXT]
    assert down(losses)(message(kind, content=blocks)) == [chunk(each, kind) for each in blocks]
    assert losses == []


@in_both_modes
def test_this_is_equivalent_when_the_v1_side_has_received_no_content_for_that_id(
    strict: bool,
) -> None:
    losses = Losses(strict=strict)
    update = v2_struct(message(content=[TEXT, IMAGE]))
    direct, through = Session("s"), Session("s")
    direct.apply(update)
    upgrader = Upgrader(losses)
    for lowered in Downgrader(losses).update(update):
        for lifted in upgrader.update(lowered):
            through.apply(lifted)
    assert through == direct
    assert losses == []


def test_it_is_not_equivalent_when_the_v1_side_has_received_content_and_that_is_reported() -> None:
    losses = Losses()
    downgrader = Downgrader(losses)
    downgrader.update(v2_struct(chunk(TEXT)))
    downgrader.update(v2_struct(message(content=[IMAGE])))
    assert [loss.path for loss in losses] == ["update.content"]


def test_v1_has_no_way_to_replace_earlier_chunks_so_strict_refuses() -> None:
    downgrader = Downgrader(Losses(strict=True))
    downgrader.update(v2_struct(chunk(TEXT)))
    with pytest.raises(NotConvertible):
        downgrader.update(v2_struct(message(content=[IMAGE])))


CANNOT_BE_REPRESENTED: dict[str, Json] = {
    "a patch-only update of nothing": {},
    "a patch-only update of _meta": {"_meta": {"source": "replay"}},
    "a patch-only update of a future field": {"annotations": {"a": 1}},
    "content: null": {"content": None},
    "content: []": {"content": []},
    "_meta: null": {"_meta": None},
    "_meta: null beside content": {"content": [TEXT], "_meta": None},
    "content: null beside _meta": {"content": None, "_meta": {"k": 1}},
    "content: [] and _meta: null": {"content": [], "_meta": None},
}


@to_version_1
@in_both_modes
@each_kind
@pytest.mark.parametrize("fields", CANNOT_BE_REPRESENTED.values(), ids=CANNOT_BE_REPRESENTED)
def test_what_v1_chunks_cannot_represent_fails_conversion_rather_than_being_dropped(
    down: Callable[[Losses], Convert], strict: bool, kind: str, fields: Json
) -> None:
    losses = Losses(strict=strict)
    with pytest.raises(NotConvertible) as refusal:
        down(losses)(message(kind, **fields))
    assert refusal.value.path in ("update.content", "update._meta")
    assert refusal.value.reason
    assert losses == []  # refused, not reported: there is nothing that was carried


@in_both_modes
@pytest.mark.parametrize("fields", CANNOT_BE_REPRESENTED.values(), ids=CANNOT_BE_REPRESENTED)
def test_it_fails_for_a_message_that_was_shown_too_and_the_message_stays_what_it_was(
    strict: bool, fields: Json
) -> None:
    downgrader = Downgrader(Losses(strict=strict))
    downgrader.update(v2_struct(chunk(TEXT)))
    with pytest.raises(NotConvertible):
        downgrader.update(v2_struct(message(**fields)))
    (rest,) = downgrader.update(v2_struct(message(content=[TEXT, IMAGE])))
    assert codec.to_json(rest) == chunk(IMAGE)


# ---- v2 tool-call updates, "Compatibility" ---------------------------------------------------

V1_EXAMPLES: list[Json] = [
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_001",
        "title": "Reading configuration file",
        "kind": "read",
        "status": "pending",
    },
    {"sessionUpdate": "tool_call_update", "toolCallId": "call_001", "status": "completed"},
]


@to_version_2
@in_both_modes
@pytest.mark.parametrize("example", V1_EXAMPLES, ids=lambda example: str(example["sessionUpdate"]))
def test_both_v1_tool_call_and_v1_tool_call_update_map_to_v2_tool_call_update(
    up: Callable[[Losses], Convert], strict: bool, example: Json
) -> None:
    (update,) = up(Losses(strict=strict))(example)
    assert update["sessionUpdate"] == "tool_call_update"
    assert update.items() >= {**example, "sessionUpdate": "tool_call_update"}.items()


def test_a_v2_update_can_be_represented_as_a_v1_tool_call_update() -> None:
    losses = Losses(strict=True)
    full = call(
        title="Read",
        kind="read",
        status="completed",
        content=[{"type": "content", "content": TEXT}],
        locations=[{"path": "/a"}],
        rawInput={"path": "/a"},
        rawOutput="text",
    )
    assert [codec.to_json(each) for each in downgrade(v2_struct(full), losses)] == [full]


def test_the_first_v2_update_of_a_call_is_the_v1_tool_call_that_clients_wait_for() -> None:
    downgrader = Downgrader(Losses(strict=True))
    made = [
        codec.to_json(each)
        for update in (call(title="Read"), call(status="completed"))
        for each in downgrader.update(v2_struct(update))
    ]
    assert [each["sessionUpdate"] for each in made] == ["tool_call", "tool_call_update"]


@to_version_1
@in_both_modes
@pytest.mark.parametrize("clear", [None, []], ids=["null", "[]"])
@pytest.mark.parametrize("field", ["content", "locations"])
def test_collection_clears_are_represented_as_empty_arrays(
    down: Callable[[Losses], Convert], strict: bool, field: str, clear: Any
) -> None:
    losses = Losses(strict=strict)
    convert = down(losses)
    convert(call(title="Read", content=[{"type": "content", "content": TEXT}]))
    assert convert(call(**{field: clear})) == [call(**{field: []})]
    assert losses == []


@to_version_1
@pytest.mark.parametrize("field", ["title", "rawInput", "rawOutput", "name"])
def test_scalar_and_raw_field_clears_are_omitted_and_reported(
    down: Callable[[Losses], Convert], field: str
) -> None:
    losses = Losses()
    convert = down(losses)
    convert(call(**{"title": "Read", field: "value"}))
    assert convert(call(**{field: None, "status": "completed"})) == [call(status="completed")]
    assert [loss.path for loss in losses] == [f"update.{field}"]
    assert all(loss.reason for loss in losses)


@to_version_1
@pytest.mark.parametrize("field", ["title", "rawInput", "rawOutput", "name"])
def test_strict_refuses_scalar_and_raw_field_clears(
    down: Callable[[Losses], Convert], field: str
) -> None:
    convert = down(Losses(strict=True))
    convert(call(**{"title": "Read", field: "value"}))
    with pytest.raises(NotConvertible) as refusal:
        convert(call(**{field: None}))
    assert refusal.value.path == f"update.{field}"


@to_version_1
@in_both_modes
@pytest.mark.parametrize(("field", "default"), [("kind", "other"), ("status", "pending")])
def test_a_cleared_kind_or_status_is_sent_as_the_default(
    down: Callable[[Losses], Convert], strict: bool, field: str, default: str
) -> None:
    losses = Losses(strict=strict)
    convert = down(losses)
    convert(call(title="Read", kind="read", status="completed"))
    assert convert(call(**{field: None})) == [call(**{field: default})]
    assert losses == []


@to_version_2
def test_v1_update_fields_do_not_distinguish_omitted_and_null_so_null_is_not_forwarded(
    up: Callable[[Losses], Convert],
) -> None:
    nulls = dict.fromkeys(
        ["title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "_meta"]
    )
    assert up(Losses(strict=True))(call(**nulls)) == [call()]


# ---- tool calls of version 1 -----------------------------------------------------------------


@to_version_2
def test_a_new_v1_call_with_only_a_title_is_pending_of_kind_other_and_empty(
    up: Callable[[Losses], Convert],
) -> None:
    session = Session("s")
    for update in up(Losses())({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read"}):
        session.apply(v2_struct(update))
    made = session.tool_calls["t"]
    assert (made.kind, made.status, made.content, made.locations) == ("other", "pending", [], [])
    assert (made.raw_input, made.raw_output) == (None, None)


@to_version_2
def test_a_terminal_is_the_clients_so_its_output_stays_there_and_that_is_reported(
    up: Callable[[Losses], Convert],
) -> None:
    losses = Losses()
    (update,) = up(losses)(call(content=[{"type": "terminal", "terminalId": "term_xyz789"}]))
    (item,) = update["content"]
    assert item["type"] == "content"
    assert "term_xyz789" in item["content"]["text"]
    assert [loss.path for loss in losses] == ["update.content[0]"]


def test_the_diff_of_the_page_is_the_same_diff_after_there_and_back() -> None:
    diff = {
        "type": "diff",
        "path": "/home/user/project/src/config.json",
        "oldText": '{\n  "debug": false\n}',
        "newText": '{\n  "debug": true\n}',
    }
    losses = Losses(strict=True)
    (lifted,) = upgrade(v1_struct(call(content=[diff])), losses)
    (lowered,) = downgrade(lifted, losses)
    assert codec.to_json(lowered) == call(content=[diff])
