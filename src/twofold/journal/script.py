"""A recording as a script: what each side sends, session by session, in what order and when.

Reads everything that `journal.wire_log` reads. What a recording of mere updates lacks is completed:
a turn for each user message, with an answer at its end. The guide's dialect is converted to
version 2, for no client speaks it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from twofold.convert.conversation import Conversation, Out
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.versions import Detector, Dialect, Version, version_of_agent
from twofold.errors import PeerError
from twofold.journal.wire_log import Entry, Side, WireLog, look
from twofold.rpc.connection import (
    Notification,
    Request,
    RequestId,
    Response,
    write_message,
)
from twofold.wire import codec

Kind: TypeAlias = Literal["request", "notification", "result", "error", "noise", "stderr"]

SETUPS: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
"""The methods that begin a session or continue one."""
_OF_SESSIONS: Final = frozenset({"session/update", "session/prompt", "session/request_permission"})
"""Messages of a session even if they do not have its id."""
_ASIDE: Final = frozenset(
    {
        *("available_commands_update", "config_option_update", "current_mode_update"),
        *("session_info_update", "usage_update"),
    }
)
"""Updates that an agent also sends outside of turns."""
USER_MESSAGES: Final = frozenset({"user_message", "user_message_chunk"})
"""Updates that hold what the user wrote."""


class Step(Struct):
    """One line that a side sent."""

    number: int
    """Its place in the recording."""
    line: int
    """The line of the file; 0 if the recording does not have it."""
    time: float | None
    sender: Side
    kind: Kind
    method: str
    """The method of a message, also of an answer."""
    raw: bytes
    """The message, byte for byte."""
    identity: RequestId | None = None
    noise: str = ""
    """What stands before the message on its line, or the whole line."""
    request: int | None = None
    """The number of the step that an answer is for."""
    update: str = ""
    """The variant of a session update."""
    replays: bool = False
    """A request that asks for a replay of the session."""
    ends: bool = False
    """An update of version 2 that ends a turn."""
    begins: str = ""
    """The session that a request begins beside its own."""
    invented: bool = False
    """The recording does not have it."""


class SessionScript(Struct):
    """The steps of one session; of the connection as a whole if there is no id."""

    session_id: str | None
    steps: list[Step]
    cwd: str | None = None
    """The directory of the session."""
    is_begun: bool = False
    """The recording has the request that began it."""
    setup: dict[str, Any] = {}
    """The agent's answer to the first request that began it, without the session's id."""

    @property
    def has_content(self) -> bool:
        """Whether the agent sent anything but errors."""
        return any(
            step.sender == "agent" and step.kind in ("notification", "result")
            for step in self.steps
        )


class Script(Struct):
    """What is played."""

    version: Version
    connection: SessionScript
    sessions: list[SessionScript]
    """In the order in which they began."""
    exit_code: int | None = None
    """How the agent exited, if it did and not at the client's wish."""
    problems: list[str] = []
    """Lines that could not be read, each with its number."""


def read_script(lines: Iterable[bytes], dialect: Dialect | None = None) -> Script:
    """The script in the lines of a recording.

    Args:
        lines: All lines of the file.
        dialect: The version, or the guide's dialect; detected if it is not given.
    """
    kept = list(lines)
    problems: list[str] = []
    detector = Detector(dialect)
    made = _Maker(detector)
    for entry in _entries(kept, problems):
        made.add(entry)
    if dialect == "guide" or detector.possible == {"guide"}:
        problems.clear()
        made = _Maker(Detector("2"))
        for entry in _converted(_entries(kept, problems), problems):
            made.add(entry)
    return made.script(problems)


def _entries(lines: Iterable[bytes], problems: list[str]) -> Iterator[Entry]:
    log = WireLog()
    for number, data in enumerate(lines, 1):
        if not data.strip():
            continue
        try:
            yield from log.read(data, number)
        except PeerError as error:
            problems.append(f"line {number}: {error}")


def _converted(entries: Iterable[Entry], problems: list[str]) -> Iterator[Entry]:
    """The guide's dialect in version 2."""
    conversation, log = Conversation("2", Losses(), "guide"), WireLog()
    for entry in entries:
        source = entry.source
        if source.message is None:
            yield from log.read(entry.raw, entry.line)
            continue
        try:
            outs = conversation.message(source.message, entry.sender)
        except (PeerError, NotConvertible) as error:
            problems.append(f"line {entry.line}: {error}")
            continue
        for out in outs:
            yield from log.read(codec.encode(_record(entry, out)), entry.line)


def _record(entry: Entry, out: Out) -> dict[str, Any]:
    forth = entry.sender == "client"
    record = entry.source.record or {}
    written = {**record, "dir": "c2a" if forth != out.back else "a2c"}
    return {**written, "message": write_message(out.message)}


# ---- one session after the other ---------------------------------------------------------------


class _Maker:
    """Distributes the entries to the sessions that they belong to."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._version: Version | None = None
        self._connection = SessionScript(None, [])
        self._sessions: dict[str, SessionScript] = {}
        self._of_request: dict[int, SessionScript] = {}
        self._steps: dict[int, Step] = {}
        self._exit_code: int | None = None
        self._last = self._connection

    def add(self, entry: Entry) -> None:
        message = entry.message
        look(self._detector, entry)
        if entry.kind == "note":
            self._note(entry)
            return
        sender = entry.sender or "agent"
        step = Step(
            *(entry.number, entry.line, entry.time, sender, entry.kind, entry.name, entry.raw),
            identity=entry.identity,
            noise=entry.noise,
            request=entry.answered.number if entry.answered else None,
        )
        if entry.kind == "noise":
            if sender == "agent":
                step.noise, step.raw = str((entry.source.record or {})["text"]), b""
                self._last.steps.append(step)
            return
        if entry.kind in ("result", "error"):
            self._answer(entry, step)
            return
        params = message.params if isinstance(message, Request | Notification) else None
        params = params if isinstance(params, dict) else {}
        if entry.kind == "notification":
            self._describe(step, params)
        step.replays = entry.name == "session/load" or bool(params.get("replayFrom"))
        session_id = entry.session
        if session_id is None and entry.name in _OF_SESSIONS:
            session_id = ""
            step.raw = with_member(step.raw, "params", "sessionId", session_id)
        found = self._connection if session_id is None else self._session(session_id)
        cwd = params.get("cwd")
        if entry.name in SETUPS and isinstance(cwd, str):
            found.cwd = found.cwd or cwd
        self._put(found, step)

    def _put(self, session: SessionScript, step: Step) -> None:
        session.steps.append(step)
        if step.kind == "request":
            self._of_request[step.number] = session
            self._steps[step.number] = step
        if step.sender == "agent":
            self._last = session

    def _describe(self, step: Step, params: dict[str, Any]) -> None:
        update = params.get("update")
        if step.method == "session/update" and isinstance(update, dict):
            step.update = str(update.get("sessionUpdate", ""))
            idle = step.update == "state_update" and update.get("state") == "idle"
            step.ends = idle and update.get("stopReason") is not None
        elif step.method in ("session/prompt", "session/request_permission"):
            step.kind, step.invented = "request", True  # bare params, which have no id
            step.identity = f"replay-{step.number}"
            fields = {"jsonrpc": "2.0", "id": step.identity, "method": step.method}
            step.raw = codec.encode({**fields, "params": params})

    def _session(self, session_id: str) -> SessionScript:
        if session_id not in self._sessions:
            self._sessions[session_id] = SessionScript(session_id, [])
        return self._sessions[session_id]

    def _answer(self, entry: Entry, step: Step) -> None:
        if step.request is None:
            return  # to a request that the recording does not have
        session = self._of_request[step.request]
        result = entry.message.result if isinstance(entry.message, Response) else None
        result = result if isinstance(result, dict) else {}
        if step.method == "initialize" and self._version is None:
            self._version = version_of_agent(result)
        if step.method in SETUPS and step.kind == "result":
            session = self._set_up(entry, step, session, result)
        self._put(session, step)

    def _set_up(
        self, entry: Entry, step: Step, session: SessionScript, result: dict[str, Any]
    ) -> SessionScript:
        """The agent answered a request for a session; the request belongs to a new one, too."""
        request = self._steps[step.request or 0]
        named = result.get("sessionId")
        begun = session
        if isinstance(named, str) and named != session.session_id:
            begun = self._session(named)
            begun.cwd = begun.cwd or _cwd_of(request)
            if session is self._connection:
                session.steps.remove(request)
                place = _first_after(begun.steps, request.number)
                begun.steps.insert(place, request)
                self._of_request[request.number] = session = begun
            else:
                request.begins = named
        begun.is_begun = True
        if not begun.setup:
            begun.setup = {name: each for name, each in result.items() if name != "sessionId"}
        return session

    def _note(self, entry: Entry) -> None:
        record = entry.source.record or {}
        if entry.name == "stderr" and isinstance(record.get("text"), str):
            noise = record["text"]
            step = Step(entry.number, entry.line, entry.time, "agent", "stderr", "", b"")
            self._last.steps.append(replace(step, noise=noise))
        elif entry.name == "exit":
            code = record.get("code", record.get("exit"))
            self._exit_code = code if isinstance(code, int) and code > 0 else None

    def script(self, problems: list[str]) -> Script:
        version = self._version or (1 if self._detector.of_requests() == "1" else 2)
        sessions = [each for each in self._sessions.values() if each.steps]
        for session in sessions:
            session.steps = _completed(session, version)
        return Script(version, self._connection, sessions, self._exit_code, problems)


def _cwd_of(request: Step) -> str | None:
    cwd = codec.parse(request.raw).get("params", {}).get("cwd")
    return cwd if isinstance(cwd, str) else None


def _first_after(steps: list[Step], number: int) -> int:
    return next((place for place, each in enumerate(steps) if each.number > number), len(steps))


# ---- what a recording of mere updates lacks -----------------------------------------------------


def _completed(session: SessionScript, version: Version) -> list[Step]:
    """The steps with a prompt for each turn, and with an answer to each request without an id."""
    has_prompts = any(step.method == "session/prompt" for step in session.steps)
    steps = session.steps if has_prompts or session.is_begun else _with_prompts(session.steps)
    made: list[Step] = []
    open_prompt: Step | None = None
    ended = False
    for step in steps:
        if step.method == "session/prompt" and step.kind == "request":
            made += _end_of_turn(open_prompt, version, ended=ended)
            open_prompt, ended = step if step.invented else None, False
        ended = ended or step.ends
        made.append(step)
        if step.invented and step.method == "session/request_permission":
            made.append(_answer_to(step, "client", b""))
        if step.invented and step.method == "session/prompt" and version == 2:
            made.append(_answer_to(step, "agent", codec.encode({"messageId": str(step.identity)})))
    return [*made, *_end_of_turn(open_prompt, version, ended=ended)]


def _with_prompts(steps: list[Step]) -> list[Step]:
    """A prompt before each user message, and before the first update that is part of a turn."""
    made: list[Step] = []
    in_turn = after_user = False
    for step in steps:
        talks = step.sender == "agent" and step.update and step.update not in _ASIDE
        user = step.update in USER_MESSAGES
        if talks and ((user and not after_user) or not in_turn):
            identity = f"replay-{step.number}"
            prompt = Step(step.number, 0, step.time, "client", "request", "session/prompt", b"{}")
            made.append(replace(prompt, identity=identity, invented=True))
            in_turn = True
        if talks:
            after_user = user
            in_turn = in_turn and not step.ends
        made.append(step)
    return made


def _end_of_turn(prompt: Step | None, version: Version, *, ended: bool) -> list[Step]:
    if prompt is None:
        return []
    if version == 1:
        return [_answer_to(prompt, "agent", codec.encode({"stopReason": "end_turn"}))]
    if ended:
        return []
    update = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    params = {"sessionId": "", "update": update}
    fields = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return [
        Step(
            *(prompt.number, 0, None, "agent", "notification", "session/update"),
            codec.encode(fields),
            update="state_update",
            ends=True,
            invented=True,
        )
    ]


def _answer_to(request: Step, sender: Side, result: bytes) -> Step:
    raw = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (codec.encode(request.identity), result)
    return Step(
        *(request.number, 0, None, sender, "result", request.method, raw if result else b""),
        identity=request.identity,
        request=request.number,
        invented=True,
    )


def with_member(raw: bytes, owner: str, name: str, value: Any) -> bytes:
    """A message whose `params` or `result` has one more member, or another value of it."""
    message = codec.parse(raw)
    before = message.get(owner)
    members = before if isinstance(before, dict) else {}
    return codec.encode({**message, owner: {**members, name: value}})


def params_of(step: Step) -> dict[str, Any]:
    """The params of a request or a notification."""
    params = codec.parse(step.raw).get("params", UNSET)
    return params if isinstance(params, dict) else {}
