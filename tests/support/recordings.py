"""Recordings made by hand, and what is in them."""

import json
from collections.abc import Iterable
from typing import Any

from twofold.convert.versions import Dialect
from twofold.journal.recording import Recording
from twofold.journal.recording import read_line as read_record
from twofold.journal.script import Script, read_script
from twofold.journal.wire_log import Entry, WireLog
from twofold.session import Session

Json = dict[str, Any]
TEXT = [{"type": "text", "text": "hi"}]


def tape(*messages: tuple[str, Json], step: float = 0.1) -> bytes:
    """A recording of messages, each with its direction."""
    records = [
        {"seq": number, "time": round(number * step, 3), "dir": way, "message": message}
        for number, (way, message) in enumerate(messages, 1)
    ]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def request(identity: Any, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def answer(identity: Any, **result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def notify(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def update(session: str = "s", **members: Any) -> Json:
    return notify("session/update", sessionId=session, update=members)


def words(text: str, session: str = "s", **members: Any) -> Json:
    content = {"type": "text", "text": text}
    return update(session, sessionUpdate="agent_message_chunk", content=content, **members)


def folded(lines: bytes | Iterable[bytes]) -> dict[str, Session]:
    """The sessions that a recording adds up to."""
    recording = Recording()
    read = [
        line
        for each in (lines.splitlines() if isinstance(lines, bytes) else lines)
        for line in read_record(each)
    ]
    for line in read:
        recording.look(line)
    for line in read:
        recording.take(line)
    return {session.session_id: session for session in recording.sessions.values()}


def entries_of(data: bytes) -> list[Entry]:
    log = WireLog()
    return [
        entry
        for number, each in enumerate(data.splitlines(), 1)
        for entry in log.read(each, number)
    ]


def script_of(data: bytes, dialect: Dialect | None = None) -> Script:
    return read_script(data.splitlines(keepends=True), dialect)
