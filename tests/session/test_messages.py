"""The ACP document "message updates and chunks": its rules and examples, on wire and session.

Point 5 of its plan is about conversion and is tested there.
"""

from typing import Any

import pytest

from tests.support.strategies import Json, canonical, dumps, v2_struct
from twofold.session import Draft, Message, Role, Session, snapshot
from twofold.session.changes import ContentAppended, EntryAdded, EntryChanged
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.content import TextContent

ROLES: dict[str, tuple[Role, type[v2.MessagePatch], type[v2.ContentChunk]]] = {
    "user_message": ("user", v2.UserMessage, v2.UserMessageChunk),
    "agent_message": ("agent", v2.AgentMessage, v2.AgentMessageChunk),
    "agent_thought": ("thought", v2.AgentThought, v2.AgentThoughtChunk),
}
each_kind = pytest.mark.parametrize("kind", ROLES)


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def chunk(value: str, kind: str = "agent_message", message_id: str = "m1") -> Json:
    return {"sessionUpdate": f"{kind}_chunk", "messageId": message_id, "content": text(value)}


def whole(*values: str, kind: str = "agent_message", message_id: str = "m1", **more: Any) -> Json:
    content = {"content": [text(value) for value in values]} if values else {}
    return {"sessionUpdate": kind, "messageId": message_id, **content, **more}


def session_after(*updates: Json, draft: Draft = Draft.JUNE) -> Session:
    session = Session("s", draft)
    for each in updates:
        session.apply(v2_struct(each))
    return session


def message_after(*updates: Json, kind: str = "agent_message") -> Message:
    return session_after(*updates).messages[ROLES[kind][0]]["m1"]


def texts(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, TextContent)]


# ---- the examples ----------------------------------------------------------------------------

STREAMED = {
    "sessionUpdate": "agent_message_chunk",
    "messageId": "msg_agent_c42b9",
    "content": {"type": "text", "text": "Analyzing..."},
}
REPLACED: list[Json] = [
    {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m1",
        "content": {"type": "text", "text": "A"},
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m1",
        "content": {"type": "text", "text": "B"},
    },
    {
        "sessionUpdate": "agent_message",
        "messageId": "m1",
        "content": [{"type": "text", "text": "C"}],
    },
]
CONTINUED: list[Json] = [
    {
        "sessionUpdate": "agent_message",
        "messageId": "m1",
        "content": [{"type": "text", "text": "A"}],
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m1",
        "content": {"type": "text", "text": "B"},
    },
]
METADATA = {
    "sessionUpdate": "agent_message",
    "messageId": "m1",
    "_meta": {"source": "replay"},
}


def test_version_1_reports_messages_as_chunks() -> None:
    assert v1.decode_update(dumps(STREAMED)) == v1.AgentMessageChunk(
        TextContent("Analyzing..."), message_id="msg_agent_c42b9"
    )


@pytest.mark.parametrize("example", [STREAMED, *REPLACED, *CONTINUED, METADATA])
def test_the_examples_are_written_as_they_were_read(example: Json) -> None:
    assert canonical(codec.to_json(v2.decode_update(dumps(example)))) == canonical(example)


def test_content_of_a_message_update_replaces_what_chunks_accumulated() -> None:
    assert texts(message_after(*REPLACED)) == ["C"]


def test_chunks_after_a_message_update_append_to_its_content() -> None:
    assert texts(message_after(*CONTINUED)) == ["A", "B"]


def test_a_message_update_that_omits_content_does_not_change_it() -> None:
    message = message_after(*CONTINUED, METADATA)
    assert texts(message) == ["A", "B"]
    assert message.meta == {"source": "replay"}


# ---- whole-message updates are upserts keyed by messageId ------------------------------------


@each_kind
def test_there_is_a_whole_message_update_and_a_chunk_for_each_kind(kind: str) -> None:
    _, patch, chunk_type = ROLES[kind]
    assert isinstance(v2_struct(whole("A", kind=kind)), patch)
    assert isinstance(v2_struct(chunk("A", kind)), chunk_type)


@each_kind
@pytest.mark.parametrize("damage", [{}, {"messageId": None}, {"messageId": 5}])
def test_the_message_id_is_required_on_whole_messages_and_chunks(kind: str, damage: Json) -> None:
    for update in (whole("A", kind=kind), chunk("A", kind)):
        del update["messageId"]
        with pytest.raises(Malformed):
            v2.decode_update(dumps({**update, **damage}))


@each_kind
def test_an_unknown_id_creates_and_a_known_one_updates(kind: str) -> None:
    session = Session("s")
    assert session.apply(v2_struct(whole("A", kind=kind))) == (EntryAdded(0),)
    assert session.apply(v2_struct(whole("B", kind=kind))) == (EntryChanged(0),)
    assert session.apply(v2_struct(chunk("C", kind))) == (ContentAppended(0),)
    assert len(session.entries) == 1


@each_kind
def test_an_omitted_patch_field_leaves_the_previous_value_unchanged(kind: str) -> None:
    message = message_after(whole("A", kind=kind, _meta={"k": 1}), whole(kind=kind), kind=kind)
    assert (texts(message), message.meta) == (["A"], {"k": 1})


@each_kind
def test_null_explicitly_clears_or_unsets_the_field(kind: str) -> None:
    before = whole("A", kind=kind, _meta={"k": 1})
    without_content = message_after(before, whole(kind=kind, content=None), kind=kind)
    assert (without_content.content, without_content.meta) == ([], {"k": 1})
    without_meta = message_after(before, whole(kind=kind, _meta=None), kind=kind)
    assert (texts(without_meta), without_meta.meta) == (["A"], None)


@each_kind
def test_any_concrete_value_replaces_the_previous_value(kind: str) -> None:
    message = message_after(
        whole("A", kind=kind, _meta={"k": 1}), whole("B", kind=kind, _meta={"j": 2}), kind=kind
    )
    assert (texts(message), message.meta) == (["B"], {"j": 2})


@each_kind
def test_content_is_replaced_as_a_whole_array_and_not_appended(kind: str) -> None:
    message = message_after(whole("A", "B", kind=kind), whole("C", kind=kind), kind=kind)
    assert texts(message) == ["C"]


@each_kind
@pytest.mark.parametrize("clearing", [[], None])
def test_an_empty_array_and_null_both_clear_content(kind: str, clearing: Any) -> None:
    message = message_after(whole("A", kind=kind), whole(kind=kind, content=clearing), kind=kind)
    assert (message.content, message.text) == ([], "")


@each_kind
def test_for_a_new_id_omitted_fields_use_the_defaults(kind: str) -> None:
    message = message_after(whole(kind=kind), kind=kind)
    assert message == Message(ROLES[kind][0], "m1", 0, content=[], meta=None)


@each_kind
def test_a_chunk_appends_its_single_item_to_the_message_of_its_id(kind: str) -> None:
    message = message_after(chunk("A", kind), chunk("B", kind), kind=kind)
    assert message.content == [TextContent("A"), TextContent("B")]


@each_kind
@pytest.mark.parametrize("content", [[text("A")], "A", None])
def test_the_content_of_a_chunk_is_a_single_item(kind: str, content: Any) -> None:
    with pytest.raises(Malformed):
        v2.decode_update(dumps({**chunk("A", kind), "content": content}))


# ---- interaction between updates and chunks --------------------------------------------------

ORDERS: dict[str, tuple[list[Json], list[str]]] = {
    "an update before any chunks creates, and chunks append": (
        [whole("A"), chunk("B"), chunk("C")],
        ["A", "B", "C"],
    ),
    "an update without content before any chunks": ([whole(), chunk("A")], ["A"]),
    "chunks before an update are replaced by it": ([chunk("A"), chunk("B"), whole("C")], ["C"]),
    "chunks append to a replacement": ([chunk("A"), whole("B"), chunk("C")], ["B", "C"]),
    "a replacement after a replacement": ([whole("A"), chunk("B"), whole("C", "D")], ["C", "D"]),
    "chunks append to cleared content": ([chunk("A"), whole(content=None), chunk("B")], ["B"]),
    "replay as an empty upsert and chunks": (
        [whole(content=[]), chunk("A"), chunk("B")],
        ["A", "B"],
    ),
    "metadata between chunks": ([chunk("A"), whole(_meta={"k": 1}), chunk("B")], ["A", "B"]),
    "another message between chunks": (
        [chunk("A"), chunk("x", message_id="m2"), whole("y", message_id="m2"), chunk("B")],
        ["A", "B"],
    ),
    "a thought of the same id between chunks": (
        [chunk("A"), chunk("x", "agent_thought"), whole("y", kind="agent_thought"), chunk("B")],
        ["A", "B"],
    ),
}


@pytest.mark.parametrize("rule", ORDERS)
def test_updates_and_chunks_apply_in_the_order_they_are_received(rule: str) -> None:
    updates, expected = ORDERS[rule]
    assert texts(message_after(*updates)) == expected


def test_a_message_can_be_redacted() -> None:
    session = session_after(chunk("the password is hunter2"))
    assert "hunter2" in session.messages["agent"]["m1"].text
    session.apply(v2_struct(whole("[removed]")))
    assert session.messages["agent"]["m1"].text == "[removed]"
    assert b"hunter2" not in b"".join(codec.encode(update) for update in snapshot(session))


def test_an_accepted_user_message_is_acknowledged_with_its_id_and_content() -> None:
    session = session_after(whole("What's up?", kind="user_message", message_id="msg_user_1"))
    (message,) = session.entries
    assert isinstance(message, Message)
    assert (message.role, message.message_id, message.text) == ("user", "msg_user_1", "What's up?")


def test_the_metadata_of_a_chunk_is_not_that_of_the_message() -> None:
    message = message_after(whole(_meta={"k": 1}), {**chunk("A"), "_meta": {"k": 2}})
    assert message.meta == {"k": 1}


def test_a_future_message_field_is_kept_without_resending_the_content() -> None:
    message = message_after(whole("A"), whole(provenance={"model": "x"}))
    assert texts(message) == ["A"]
    assert message.unknown == {"provenance": {"model": "x"}}


# ---- the three states on the wire ------------------------------------------------------------


@each_kind
@pytest.mark.parametrize(("key", "name"), [("content", "content"), ("_meta", "meta")])
def test_omitted_null_and_concrete_values_are_distinguished_on_the_wire(
    kind: str, key: str, name: str
) -> None:
    value: Any = [text("A")] if key == "content" else {"k": 1}
    for given, expected in (({}, UNSET), ({key: None}, None), ({key: value}, value)):
        update = whole(kind=kind, **given)
        read = v2.decode_update(dumps(update))
        assert codec.to_json(getattr(read, name)) == expected
        assert canonical(codec.to_json(read)) == canonical(update)
