"""What there is to know of each message of a recording, as plain data.

One pass: who sent it, when, how long an answer took, what is malformed or unknown in it, and what
the other version would lose. Beside what a session is made of, nothing is kept of a message that
was read. The texts in it are the peers' own: a view has to make them safe.
"""

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, field

from twofold.convert.conversation import Conversation, Out, Target
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.versions import Detector, Dialect
from twofold.errors import PeerError
from twofold.journal.recording import Recording
from twofold.journal.wire_log import Entry, Kind, Side, WireLog, look
from twofold.rpc.connection import (
    Failure,
    Notification,
    Request,
    RequestId,
    Response,
    write_message,
)
from twofold.session import Session
from twofold.wire import codec, guide, v1, v2
from twofold.wire.base import Extras, Fault, Malformed, Unknown, Wire

AHEAD: Final = 1000
"""How many lines are looked at ahead to find the version of those before them."""
SUMMARY: Final = 200
"""How long the summary of a message may be."""
_DIGITS: Final = 6
"""How exact a time is: tapes have microseconds."""
_LISTED: Final = 20
"""How many unknown fields of one message are named."""


class Inspected(Struct):
    """What there is to know of one message, or of one record of something else."""

    number: int
    """Counts from 1."""
    line: int
    """Its line in the file."""
    kind: Kind | Literal["unreadable"]
    sender: Side | None
    """Who sent it; None for a record of something else."""
    name: str
    """The method, also of an answer; of another record its name."""
    update: str = ""
    """The variant of a session update."""
    id: RequestId | None = None
    session: str | None = None
    time: float | None = None
    """As it is recorded, in seconds."""
    elapsed: float | None = None
    """Seconds since the first record that has a time."""
    latency: float | None = None
    """Seconds between a request and this answer to it."""
    answers: int | None = None
    """The number of the request that this answers."""
    size: int = 0
    """Of the message, in bytes."""
    summary: str = ""
    """Its text or its outcome, in short."""
    faults: list[Fault] = []
    """What is malformed in it."""
    unknown: list[str] = []
    """Paths of fields and variants that are in no schema."""
    losses: list[Loss] = []
    """What its conversion to the other version loses."""
    refused: str = ""
    """Why it cannot be converted to the other version."""

    @property
    def is_marked(self) -> bool:
        """Whether something is wrong with it."""
        return bool(self.faults or self.unknown or self.kind in ("unreadable", "noise"))


class Detail(Struct):
    """One message with all that belongs to it."""

    message: Inspected
    raw: bytes
    """The message or the record, byte for byte."""
    version: str
    """The version, or the dialect, that it was read in."""
    converted: list[Any]
    """The messages of the other version that it becomes."""
    state: dict[str, Any] = {}
    """The state of its session after it, in short."""


class Inspector:
    """Reads a recording message by message.

    Args:
        dialect: The version of the recording; detected if it is not given.
        keeps_state: Add the sessions up too, for their states.
    """

    def __init__(self, dialect: Dialect | None = None, *, keeps_state: bool = False) -> None:
        self.recording = Recording(dialect) if keeps_state else None
        """The sessions so far, if they are added up."""
        self.raw = b""
        """The bytes of the last message or record, or of the line that could not be read."""
        self._converted: list[Out] = []
        self._dialect = dialect
        self._detector = Detector(dialect)
        self._log = WireLog()
        self._number = 0
        self._start: float | None = None
        self._losses = Losses()
        self._conversation: Conversation | None = None

    def read_all(self, lines: Iterable[bytes]) -> Iterator[Inspected]:
        """Read the lines of a recording; the beginning is looked at ahead for its version."""
        rest = iter(lines)
        ahead = list(islice(rest, AHEAD))
        self._look(ahead)
        for number, data in enumerate(chain(ahead, rest), 1):
            if data.strip():
                yield from self.read(data, number)

    def _look(self, lines: list[bytes]) -> None:
        log = WireLog()
        for number, data in enumerate(lines, 1):
            try:
                entries = log.read(data, number) if data.strip() else []
            except Malformed:
                continue
            for entry in entries:
                look(self._detector, entry)
                if self.recording is not None:
                    self.recording.look(entry.source)

    def read(self, data: bytes, line: int) -> Iterator[Inspected]:
        """What there is to know of one line.

        Args:
            data: The line.
            line: Its number in the file.
        """
        try:
            entries = self._log.read(data, line)
        except Malformed as error:
            self._number += 1
            faults = [Fault(error.path, error.reason)]
            self.raw, self._converted = data, []
            text = data[:SUMMARY].decode(errors="replace").strip()
            yield Inspected(
                *(self._number, line, "unreadable", None, ""),
                size=len(data),
                summary=text,
                faults=faults,
            )
            return
        for entry in entries:
            self._number += 1
            self.raw = entry.raw
            yield self._inspected(entry)

    def detail(self, message: Inspected) -> Detail:
        """All that belongs to the last message.

        Args:
            message: The last one that was read.
        """
        converted = [write_message(out.message) for out in self._converted]
        detail = Detail(message, self.raw, self._version(), converted)
        sessions = self.recording.sessions if self.recording is not None else {}
        if message.session is not None and message.session in sessions:
            detail.state = state_of(sessions[message.session])
        return detail

    def _version(self) -> str:
        possible = self._detector.possible
        return "guide" if possible == {"guide"} else self._detector.of_requests()

    # ---- one message

    def _inspected(self, entry: Entry) -> Inspected:
        if self._start is None:
            self._start = entry.time
        elapsed = None
        if entry.time is not None and self._start is not None:
            elapsed = round(entry.time - self._start, _DIGITS)
        made = Inspected(
            *(self._number, entry.line, entry.kind, entry.sender, entry.name),
            id=entry.identity,
            session=entry.session,
            time=entry.time,
            elapsed=elapsed,
            latency=None if entry.latency is None else round(entry.latency, _DIGITS),
            answers=entry.answered.number if entry.answered else None,
            size=len(entry.raw),
        )
        made.faults, made.unknown, made.losses = [], [], []
        look(self._detector, entry)
        self._describe(made, entry)
        self._check(made, entry)
        self._convert(made, entry)
        if self.recording is not None:
            self._apply(made, entry)
        return made

    def _describe(self, made: Inspected, entry: Entry) -> None:
        made.summary = summary(entry)[:SUMMARY]
        message = entry.message
        if isinstance(message, Notification) and isinstance(message.params, dict):
            update = message.params.get("update")
            if message.method == "session/update" and isinstance(update, dict):
                made.update = str(update.get("sessionUpdate", ""))[:SUMMARY]

    def _check(self, made: Inspected, entry: Entry) -> None:
        """Read the message as the schema has it, and note what does not fit."""
        shape, value, path = self._shape(entry)
        if shape is None:
            return
        try:
            msgspec.convert(value, shape)  # fits exactly, as most messages do
            return
        except (msgspec.ValidationError, UnicodeError, RecursionError):
            faults: list[Fault] = []
        try:
            read = codec.read(value, shape, faults)
        except Malformed as error:
            made.faults.append(Fault(f"{path}{error.path}", error.reason))
            return
        made.faults += [Fault(f"{path}{each.path}", each.reason) for each in faults]
        made.unknown += islice(unknown_fields(read, path), _LISTED)

    def _shape(self, entry: Entry) -> tuple[Any, Any, str]:
        """The type that a message has to have, its value, and where that is."""
        message = entry.message
        if isinstance(message, Notification) and message.method == "session/update":
            update = message.params.get("update") if isinstance(message.params, dict) else None
            if isinstance(update, dict):
                return _UPDATES[self._detector.dialect(update)], update, "update"
        table = (v1 if self._detector.of_requests() == "1" else v2).METHODS
        known = table.get(entry.name)
        if known is None:
            return None, None, ""
        match message:
            case Request(params=params) | Notification(params=params):
                return known.params, {} if params is UNSET else params, "params"
            case Response(result=result) if known.result is not None:
                return known.result, {} if result is None else result, "result"
        return None, None, ""

    def _convert(self, made: Inspected, entry: Entry) -> None:
        """Convert the message to the other version, and note what that loses."""
        self._converted = []
        if entry.message is None:
            return
        if self._conversation is None:
            target: Target = "1" if self._version() == "2" else "2"
            self._conversation = Conversation(target, self._losses, self._dialect)
        try:
            self._converted = self._conversation.message(entry.message, entry.sender)
        except NotConvertible as refusal:
            made.refused = str(refusal)
        except PeerError as error:
            if not made.faults:  # it was found before
                made.faults.append(Fault("", str(error)))
        made.losses += self._losses
        self._losses.clear()

    def _apply(self, made: Inspected, entry: Entry) -> None:
        assert self.recording is not None
        try:
            self.recording.take(entry.source)
        except PeerError as error:
            if not made.faults:
                made.faults.append(Fault("", str(error)))
        self.recording.faults.clear()


_UPDATES: Final[dict[Dialect, Any]] = {
    "1": v1.SessionUpdate,
    "2": v2.SessionUpdate,
    "guide": guide.SessionUpdate,
}


def unknown_fields(value: Any, path: str) -> Iterator[str]:
    """The paths of the fields and variants in a decoded message that are in no schema."""
    if isinstance(value, Unknown):
        yield f"{path} ({value.tag or 'no variant'})"
    elif isinstance(value, Wire):
        if isinstance(value.unknown, Extras):
            yield from [f"{path}.{name}" for name in value.unknown.fields]
        for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            item = getattr(value, name)
            if name not in ("meta", "unknown") and item is not UNSET:
                yield from unknown_fields(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            if isinstance(each, Wire):
                yield from unknown_fields(each, f"{path}[{index}]")


def state_of(session: Session) -> dict[str, Any]:
    """The state of a session in short."""
    made: dict[str, Any] = {"state": session.state}
    if session.stop_reason is not None:
        made["stopReason"] = session.stop_reason
    counts = {
        "entries": len(session.entries),
        "openCalls": len(session.open_calls),
        "permissions": len(session.permissions),
        "plans": len(session.plans),
        "terminals": len(session.terminals),
    }
    made |= {name: count for name, count in counts.items() if count}
    return made | ({"cancelling": True} if session.cancelling else {})


# ---- a message in short -------------------------------------------------------------------------


def summary(entry: Entry) -> str:
    """The text or the outcome of a message, in short; it is the peer's own."""
    message = entry.message
    match message:
        case None:
            return _of_record(entry)
        case Request(params=params) | Notification(params=params):
            return _of_params(message.method, params if isinstance(params, dict) else {})
        case Response(result=result):
            return _of_result(result if isinstance(result, dict) else {})
        case Failure(error=error):
            return _of_error(error)


def _of_record(entry: Entry) -> str:
    record = entry.source.record or {}
    known = {"seq", "time", "dir", "t", "step", "message"}
    if isinstance(record.get("text"), str):
        return str(record["text"])[:SUMMARY]
    facts = [f"{name} {value}" for name, value in record.items() if name not in known]
    return ", ".join(facts)[:SUMMARY]


def _of_params(method: str, params: dict[str, Any]) -> str:
    if method == "session/update":
        update = params.get("update")
        return _of_update(update if isinstance(update, dict) else {})
    if method == "session/prompt":
        return _texts(params.get("prompt"))
    if method == "session/request_permission":
        call = params.get("toolCall")
        return _first(params, "title") or _first(call if isinstance(call, dict) else {}, "title")
    if method == "initialize":
        info = params.get("clientInfo", params.get("info"))
        name = _first(info if isinstance(info, dict) else {}, "name")
        return f"version {params.get('protocolVersion')} {name}".strip()
    return _first(params, "path", "command", "cwd", "modeId", "configId", "message", "requestId")


def _of_update(update: dict[str, Any]) -> str:
    kind = update.get("sessionUpdate")
    if kind in ("tool_call", "tool_call_update"):
        words = [_first(update, "status"), _first(update, "title", "toolCallId")]
        return " ".join(word for word in words if word)
    if kind == "state_update":
        return " ".join(filter(None, [_first(update, "state"), _first(update, "stopReason")]))
    plan = update.get("plan")
    entries = plan.get("entries") if isinstance(plan, dict) else update.get("entries")
    if isinstance(entries, list):
        return f"{len(entries)} entries"
    if isinstance(update.get("used"), int):
        return f"{update['used']} of {update.get('size')}"
    content = update.get("content")
    return _texts(content if isinstance(content, list) else [content]) or _first(
        update, "title", "currentModeId", "terminalId", "message", "summary"
    )


def _of_result(result: dict[str, Any]) -> str:
    outcome = result.get("outcome")
    if isinstance(outcome, dict):
        return _first(outcome, "optionId", "outcome")
    if isinstance(result.get("content"), str):
        return str(result["content"])[:SUMMARY]
    info = result.get("agentInfo", result.get("info"))
    if isinstance(info, dict):
        version = f"version {result.get('protocolVersion')}"
        return " ".join(filter(None, [version, _first(info, "name"), _first(info, "version")]))
    return _first(result, "stopReason", "sessionId", "messageId", "terminalId", "output", "action")


def _of_error(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)[:SUMMARY]
    return f"{error.get('code')} {_first(error, 'message')}"


def _texts(blocks: Any) -> str:
    """The text of content, and the types of what is no text."""
    made = []
    for block in islice(blocks if isinstance(blocks, list) else [], _LISTED):
        if isinstance(block, dict):
            text = block.get("text")
            made.append(text[:SUMMARY] if isinstance(text, str) else f"[{block.get('type')}]")
    return " ".join(made)


def _first(value: dict[str, Any], *names: str) -> str:
    """The first of some fields that is text or a number."""
    for name in names:
        if isinstance(value.get(name), str | int) and value[name] != "":
            return str(value[name])[:SUMMARY]
    return ""


# ---- which messages to show ----------------------------------------------------------------------

Test: TypeAlias = Callable[[Inspected, bytes], bool]
"""Whether a message is to be shown, by what is known of it and by its bytes."""


class BadFilter(ValueError):
    """A filter that cannot be understood."""


_WORDS: Final[dict[str, Test]] = {
    "faults": lambda message, raw: message.is_marked,
    "unknown": lambda message, raw: bool(message.unknown),
    "losses": lambda message, raw: bool(message.losses or message.refused),
    "errors": lambda message, raw: message.kind == "error",
    "client": lambda message, raw: message.sender == "client",
    "agent": lambda message, raw: message.sender == "agent",
}
"""Filters that are one word."""


def parse_filter(written: str) -> Test:
    """A filter as it is written: a word, or `method=`, `session=` or `text=` with a value.

    Args:
        written: The filter; a method may hold `*`.

    Raises:
        BadFilter: It cannot be understood.
    """
    if written in _WORDS:
        return _WORDS[written]
    name, given, value = written.partition("=")
    if not given or not value:
        words = ", ".join(_WORDS)
        raise BadFilter(f"{written!r} is none of {words}, method=NAME, session=ID and text=WORDS.")
    if name == "method":
        return lambda message, raw: any(
            fnmatchcase(each, value) for each in (message.name, message.update) if each
        )
    if name == "session":
        return lambda message, raw: message.session == value
    if name == "text":
        sought = value.casefold()
        return lambda message, raw: sought in raw.decode(errors="replace").casefold()
    raise BadFilter(f"{name!r} cannot be filtered by; method, session and text can.")


class Selection(Struct):
    """The filters that a message has to pass, all of them."""

    tests: list[Test] = field(default_factory=list)

    def holds(self, message: Inspected, raw: bytes) -> bool:
        """Whether a message passes every filter."""
        return all(test(message, raw) for test in self.tests)
