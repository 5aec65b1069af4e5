"""The updates that rebuild a session.

Whole upserts in entry order, then everything else, the state last. Fields at the protocol's
default are omitted. While a turn goes on, its state also precedes the calls that it has open: the
calls before that were left open by earlier turns. Folding the snapshot gives the session again.
"""

import base64
from collections.abc import Iterator
from typing import Any

from twofold.session.reduce import Session
from twofold.session.state import Compaction, Message, Terminal, ToolCall
from twofold.wire import v2
from twofold.wire.base import UNSET, Extras
from twofold.wire.shared import CompactionUpdate, SessionInfoUpdate, SessionMessage

_MESSAGES: dict[str, type[v2.UserMessage | v2.AgentMessage | v2.AgentThought]] = {
    "user": v2.UserMessage,
    "agent": v2.AgentMessage,
    "thought": v2.AgentThought,
}


def snapshot(session: Session) -> list[v2.SessionUpdate]:
    """The updates that rebuild a session, for a reader that has seen none of it."""
    return list(snapshot_steps(session))


def snapshot_steps(session: Session) -> Iterator[v2.SessionUpdate]:
    """The updates of `snapshot`, made one by one.

    If the session changes meanwhile, each entry is as it is when its turn has come.
    """
    yield from _entries(session)
    yield from map(_terminal, list(session.terminals.values()))
    yield from map(_compaction, list(session.compactions.values()))
    yield from session.notices
    yield from list(session.subagents.values())
    yield from session.unknown
    yield from list(session.plans.values())
    if session.commands_update is not None:
        yield session.commands_update
    if session.config_update is not None:
        yield session.config_update
    if session.info != SessionInfoUpdate():
        yield session.info
    if session.usage is not None:
        yield session.usage
    yield session.state_update


def _entries(session: Session) -> Iterator[v2.SessionUpdate]:
    calls = [call for call in session.tool_calls.values() if call.is_open]
    current = session.open_calls if session.state != "idle" else {}
    past = max([call.index for call in calls if call.tool_call_id not in current], default=-1)
    # a call of this turn among those of earlier ones was finished once, and opened again
    opened_again = [call for call in current.values() if call.index < past]
    first = min([call.index for call in current.values() if call.index > past], default=None)
    for entry in session.entries:
        if entry.index == first:
            yield session.state_update
        yield _message(entry) if isinstance(entry, Message) else _tool_call(entry)
    if opened_again and first is None:
        yield session.state_update
    for call in opened_again:
        yield v2.ToolCallUpdate(call.tool_call_id, status="completed")
        yield v2.ToolCallUpdate(call.tool_call_id, status=call.status)
    if calls and session.turn == "ended" and not session.stop_reason:
        yield v2.StateUpdate("running")  # else no update would show that a turn has ended


def _message(message: Message) -> v2.SessionUpdate:
    rest = _rest(message)
    if message.content:
        rest["content"] = list(message.content)
    if message.role == "session":
        rest |= message.addresses
        return SessionMessage(message.message_id, **rest)
    return _MESSAGES[message.role](message.message_id, **rest)


def _tool_call(call: ToolCall) -> v2.ToolCallUpdate:
    return v2.ToolCallUpdate(
        call.tool_call_id,
        name=_given(call.name),
        title=_given(call.title),
        kind=UNSET if call.kind == "other" else call.kind,
        status=UNSET if call.status == "pending" else call.status,
        content=list(call.content) or UNSET,
        locations=list(call.locations) or UNSET,
        raw_input=_given(call.raw_input),
        raw_output=_given(call.raw_output),
        capabilities=_given(call.capabilities),
        **_rest(call),
    )


def _terminal(terminal: Terminal) -> v2.TerminalUpdate:
    output: Any = UNSET
    if terminal.output or terminal.output_meta or terminal.output_unknown:
        output = v2.TerminalOutput(
            base64.b64encode(terminal.output).decode(),
            meta=_given(terminal.output_meta),
            unknown=_extras(terminal.output_unknown),
        )
    return v2.TerminalUpdate(
        terminal.terminal_id,
        command=_given(terminal.command),
        cwd=_given(terminal.cwd),
        output=output,
        exit_status=_given(terminal.exit_status),
        size=_given(terminal.size),
        capabilities=_given(terminal.capabilities),
        **_rest(terminal),
    )


def _compaction(compaction: Compaction) -> CompactionUpdate:
    return CompactionUpdate(
        compaction.compaction_id,
        compaction.status,
        summary=list(compaction.summary) or UNSET,
        error=_given(compaction.error),
        **_rest(compaction),
    )


def _rest(part: Message | ToolCall | Terminal | Compaction) -> dict[str, Any]:
    return {"meta": _given(part.meta), "unknown": _extras(part.unknown)}


def _given(value: Any) -> Any:
    return UNSET if value is None else value


def _extras(unknown: dict[str, Any]) -> Any:
    return Extras(dict(unknown)) if unknown else UNSET
