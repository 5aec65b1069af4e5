"""The lines of a recording, one by one: what each is, who sent it, and what it answers.

Reads the same lines as `journal.recording` and folds nothing. The bytes of a message are kept as
they were recorded. What is remembered between two lines is a few facts of each request that has no
answer yet.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from twofold.convert.conversation import OTHER, handler_of
from twofold.convert.versions import Detector
from twofold.journal.recording import Line, read_line
from twofold.rpc.connection import (
    Failure,
    Message,
    Notification,
    Pending,
    Request,
    RequestId,
    Response,
    write_message,
)
from twofold.wire import codec

Side: TypeAlias = Literal["client", "agent"]
Kind: TypeAlias = Literal["request", "notification", "result", "error", "noise", "note"]
"""What a line holds: a message, a line of a peer that is no message, or anything else."""

_SIDES: Final[dict[str, Side]] = {"c2a": "client", "a2c": "agent"}
_RESULTS_OF_CLIENTS: Final = frozenset(
    {"outcome", "action", "terminalId", "output", "exitCode", "content"}
)


class Answered(Struct, frozen=True):
    """The request that an answer is for."""

    number: int
    """Of the entry that holds it."""
    method: str
    session: str | None
    time: float | None


class Entry(Struct):
    """One message of a recording, or one record of something else."""

    number: int
    """Counts from 1."""
    line: int
    """The line of the file; a batch makes several entries of one line."""
    kind: Kind
    name: str
    """The method of a message, also of an answer; of a record the name that it has there."""
    sender: Side | None
    """Who sent it; None for a record of something else."""
    time: float | None
    """In seconds since 1970, or since the start of the recording; None if it is not recorded."""
    raw: bytes
    """The message or the record, byte for byte."""
    source: Line
    """The line as `journal.recording` reads it."""
    identity: RequestId | None = None
    """The id of a request or an answer."""
    session: str | None = None
    """The session that it belongs to."""
    noise: str = ""
    """What stood before the message on its line."""
    answered: Answered | None = None
    """The request that this answers."""

    @property
    def message(self) -> Message | None:
        """The message, parsed."""
        return self.source.message

    @property
    def latency(self) -> float | None:
        """How many seconds after its request an answer was sent."""
        if self.answered is None or self.time is None or self.answered.time is None:
            return None
        return max(0.0, self.time - self.answered.time)


class WireLog:
    """Reads the lines of a recording in their order."""

    def __init__(self) -> None:
        self._number = 0
        self._pending: dict[Side, Pending[Answered]] = {"client": Pending(), "agent": Pending()}
        """The requests that each side sent."""

    def read(self, data: bytes, line: int) -> list[Entry]:
        """The entries of a line.

        Args:
            data: The line.
            line: Its number in the file.

        Raises:
            Malformed: It cannot be understood.
        """
        lines = read_line(data)
        return [
            self._entry(each, raw, line)
            for each, raw in zip(lines, _raw_messages(data, lines), strict=True)
        ]

    def _entry(self, source: Line, raw: bytes, line: int) -> Entry:
        self._number += 1
        message = source.message
        noted = (source.record or {}).get("noise")
        noise = noted if isinstance(noted, str) else ""
        entry = Entry(self._number, line, "note", "", None, source.time, raw, source, noise=noise)
        match message:
            case None:
                self._note(entry)
            case Request() | Notification():
                self._sent(entry, message)
            case Response() | Failure():
                self._answer(entry, message)
        return entry

    def _note(self, entry: Entry) -> None:
        record = entry.source.record or {}
        kind = str(record.get("dir", ""))
        entry.name = kind
        if kind in _SIDES and isinstance(record.get("text"), str):
            entry.kind, entry.name, entry.sender = "noise", "", _SIDES[kind]
        elif "exit" in record:
            entry.name = "exit"

    def _sent(self, entry: Entry, message: Request | Notification) -> None:
        entry.name = message.method
        handler = handler_of(message.method)
        entry.sender = entry.source.sender or OTHER[handler]
        entry.session = _text(message.params, "sessionId")
        if isinstance(message, Notification):
            entry.kind = "notification"
            return
        entry.kind, entry.identity = "request", message.id
        asked = Answered(entry.number, message.method, entry.session, entry.time)
        self._pending[entry.sender].add(message.id, asked)

    def _answer(self, entry: Entry, message: Response | Failure) -> None:
        entry.kind = "result" if isinstance(message, Response) else "error"
        entry.identity = message.id
        sender = entry.source.sender
        for side in [sender] if sender else _likely_senders(message):
            answered = self._pending[OTHER[side]].take(message.id)
            if answered is not None:
                entry.sender, entry.answered, entry.name = side, answered, answered.method
                break
        else:
            entry.sender = sender or _likely_senders(message)[0]
        named = _text(message.result, "sessionId") if isinstance(message, Response) else None
        entry.session = entry.answered.session if entry.answered else None
        entry.session = entry.session or named


def _likely_senders(answer: Response | Failure) -> list[Side]:
    """Who may have sent an answer, where the recording does not have it; the likelier one first."""
    result = answer.result if isinstance(answer, Response) else None
    if isinstance(result, dict) and result.keys() & _RESULTS_OF_CLIENTS:
        return ["client", "agent"]
    return ["agent", "client"]


def _text(value: Any, field: str) -> str | None:
    found = value.get(field) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def look(detector: Detector, entry: Entry) -> None:
    """Narrow the version of a recording by a message."""
    message = entry.message
    if isinstance(message, Response):
        if entry.name in ("initialize", ""):
            detector.initialized(message.result)
    elif isinstance(message, Notification) and message.method == "session/update":
        update = message.params.get("update") if isinstance(message.params, dict) else None
        if isinstance(update, dict):
            detector.look(update)
    elif isinstance(message, Request | Notification):
        detector.requested(message.method)


# ---- the bytes of a message --------------------------------------------------------------------


class _Record(Struct):
    message: Raw | UnsetType = UNSET
    jsonrpc: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    session_update: Raw | UnsetType = msgspec.field(default=UNSET, name="sessionUpdate")


_record = msgspec.json.Decoder(_Record).decode
_batch = msgspec.json.Decoder(list[Raw]).decode


def _raw_messages(data: bytes, lines: list[Line]) -> list[bytes]:
    """The bytes of each message; they are encoded again only where msgspec cannot read them."""
    data = data.strip()
    try:
        found = [bytes(each) for each in _batch(data)] if data[:1] == b"[" else [data]
        raws = [_unwrapped(each) for each in found]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raws = []
    if len(raws) != len(lines):
        raws = [b""] * len(lines)
    return [_of(line, raw) for line, raw in zip(lines, raws, strict=True)]


def _unwrapped(data: bytes) -> bytes:
    record = _record(data)
    others = (record.jsonrpc, record.method, record.session_update)
    if record.message is not UNSET and all(each is UNSET for each in others):
        return bytes(record.message)
    return data


def _of(line: Line, raw: bytes) -> bytes:
    if line.message is None:
        return raw or codec.encode(line.record)
    if line.bare or not raw:
        return codec.encode(write_message(line.message))
    return raw
