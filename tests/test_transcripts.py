"""Real conversations: they fold without a complaint, convert both ways, and validate."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.validators import Schemas, SchemaValidator, Version
from tests.support.schema_values import method_types
from twofold.convert.conversation import Conversation
from twofold.convert.losses import Losses, NotConvertible
from twofold.journal.recording import Line, Recording, read_line
from twofold.session import Session, ToolCall, snapshot
from twofold.view.blocks import FooterBlock, RemarkBlock, ToolCallBlock
from twofold.wire import codec, v2
from twofold.wire.base import Malformed

NAMES = ["claude.v1", "codex.v2", "fastagent.v1", "gemini.v1", "opencode.v1"]


@pytest.fixture(params=NAMES)
def transcript(request: pytest.FixtureRequest, shared: Callable[[str], Path]) -> list[Line]:
    data = shared(f"transcripts/{request.param}.jsonl").read_bytes()
    return [line for each in data.splitlines() for line in read_line(each)]


def fold(lines: list[Line]) -> Recording:
    recording = Recording()
    for line in lines:
        recording.look(line)
    for line in lines:
        recording.take(line)
    return recording


def test_a_real_conversation_folds_without_a_complaint(transcript: list[Line]) -> None:
    recording = fold(transcript)
    assert not recording.faults
    # one agent writes times without an offset, which version 2 does not have
    assert {loss.path for loss in recording.losses} <= {"update.updatedAt"}
    assert any(session.entries for session in recording.sessions.values())


def test_nothing_is_left_pending_at_the_end_of_a_real_conversation(
    transcript: list[Line],
) -> None:
    for session in fold(transcript).sessions.values():
        assert session.state == "idle"
        assert not session.permissions
        assert not session.cancelling


def test_every_prompt_of_a_real_conversation_is_one_user_message(
    transcript: list[Line],
) -> None:
    # up to the first replay, in which the agent may write them differently
    live: list[Line] = []
    for line in transcript:
        if getattr(line.message, "method", "") in ("session/load", "session/resume"):
            break
        live.append(line)
    prompts = Counter(
        line.message.params["prompt"][0]["text"]  # type: ignore[union-attr]
        for line in live
        if getattr(line.message, "method", "") == "session/prompt"
    )
    seen = Counter(
        entry.text
        for session in fold(live).sessions.values()
        for entry in session.entries
        if not isinstance(entry, ToolCall) and entry.role == "user"
    )
    assert prompts
    assert prompts <= seen
    assert all(count == prompts[text] for text, count in seen.items() if text in prompts)


def test_the_snapshot_of_a_real_conversation_rebuilds_it(transcript: list[Line]) -> None:
    for session in fold(transcript).sessions.values():
        again = Session(session.session_id, session.draft)
        for update in snapshot(session):
            again.apply(v2.decode_update(codec.encode(update)))
        assert again == session


def test_the_snapshot_of_a_real_conversation_is_valid(
    transcript: list[Line], valid: SchemaValidator
) -> None:
    for session in fold(transcript).sessions.values():
        for update in snapshot(session):
            # usage in the state is an unstable feature that one agent uses
            assert not valid(2, "unstable", "SessionUpdate", codec.to_json(update))


def converted(lines: list[Line], target: Any) -> Iterator[tuple[Line, dict[str, Any]]]:
    conversation = Conversation(target, Losses())
    for line in lines:
        if line.message is None:
            continue
        try:
            outs = conversation.message(line.message, line.sender)
        except (Malformed, NotConvertible):
            continue
        for out in outs:
            yield line, json.loads(codec.encode(line.wrap(out.message, back=out.back)))


def types_by_method(schema: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {
        (
            schema["$defs"][name]["x-method"],
            "result" if name.endswith("Response") else "params",
        ): name
        for name in method_types(schema)
    }


def is_deliberately_malformed(line: Line) -> bool:
    params = getattr(line.message, "params", None)
    return isinstance(params, dict) and params.get("prompt") == "not a list"


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_real_conversation_converts_to_is_valid(
    transcript: list[Line], version: Version, schemas: Schemas, valid: SchemaValidator
) -> None:
    types = types_by_method(schemas[f"v{version}", "stable"])
    asked: dict[tuple[str, Any], str] = {}
    checked = 0
    for line, record in converted(transcript, str(version)):
        message, sender = record["message"], record["dir"]
        if is_deliberately_malformed(line):
            continue
        if "method" in message:
            name = types.get((message["method"], "params"))
            value = message.get("params", {})
            if "id" in message:
                asked[sender, message["id"]] = message["method"]
        elif "result" in message:
            other = "c2a" if sender == "a2c" else "a2c"
            name = types.get((asked.get((other, message["id"]), ""), "result"))
            value = message["result"]
        else:
            continue
        if name is not None:
            assert not valid(version, "stable", name, value), message
            checked += 1
    assert checked > 100


def test_a_conversation_brought_to_version_2_adds_up_to_the_same_session(
    transcript: list[Line],
) -> None:
    """Except for invented ids and what the conversion refuses."""
    again = [
        line for _, record in converted(transcript, "2") for line in read_line(json.dumps(record))
    ]
    stories = [
        {
            session.session_id: [story(entry) for entry in session.entries]
            for session in fold(lines).sessions.values()
        }
        for lines in (transcript, again)
    ]
    assert stories[0] == stories[1]


def story(entry: Any) -> tuple[Any, ...]:
    if isinstance(entry, ToolCall):
        return entry.tool_call_id, entry.title, entry.kind, entry.status
    return entry.role, entry.text


def test_every_tool_call_and_every_turn_of_a_real_conversation_is_shown(
    transcript: list[Line],
) -> None:
    """Also those that were live before the agent replayed the session."""
    calls, turns = set(), 0
    for line in transcript:
        params = getattr(line.message, "params", None)
        update = params.get("update", {}) if isinstance(params, dict) else {}
        calls.add((str(params and params.get("sessionId")), update.get("toolCallId")))
        turns += getattr(line.message, "method", "") == "session/prompt"
    blocks = fold(transcript).outline()
    assert sum(isinstance(block, ToolCallBlock) for block in blocks) >= len(
        [call for _, call in calls if call]
    )
    ends = [block for block in blocks if isinstance(block, RemarkBlock | FooterBlock)]
    assert len(ends) >= turns > 5
