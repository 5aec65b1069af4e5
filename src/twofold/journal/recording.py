"""A recorded conversation → its sessions, folded from the recorded lines.

A line is a JSON-RPC message, or its params, or a bare update, or a record that holds the message
in its field `message`. Prompts, results and permission requests count too, so that the sessions
are what the user saw; other messages are ignored. Reads either version, and the guide's dialect.
"""

from datetime import tzinfo
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from twofold.convert.conversation import Handler, RecordedRequests, handler_of
from twofold.convert.drafts import lift, lift_permission
from twofold.convert.guide import GuideUpgrader
from twofold.convert.losses import Losses
from twofold.convert.turns import CANCELLED, as_error, failed_turn, premature_stop_reason
from twofold.convert.upgrade import Upgrader, text_as_base64, upgrade_outcome
from twofold.convert.versions import Detector, Dialect
from twofold.journal.chapters import Chapter, SessionFacts, agent_words, shown
from twofold.rpc.connection import (
    Failure,
    Message,
    Notification,
    Request,
    Response,
    read_message,
    write_message,
)
from twofold.rpc.errors import INTERNAL_ERROR
from twofold.session import Draft, Session, Sessions
from twofold.session.changes import StateChanged
from twofold.text.safe import one_line
from twofold.view.blocks import Block, RemarkBlock
from twofold.view.outline import error_words, turn_block
from twofold.wire import codec, guide, v1, v2
from twofold.wire.base import Fault, Malformed
from twofold.wire.shared import Error

_SENDERS: dict[str, Handler] = {"c2a": "client", "a2c": "agent"}
_ENDED = StateChanged("idle", ended=True)
_LATEST = 4e9
"""No recording is of later than this time, in the year 2096."""


class Line(Struct):
    """One line of a recording, and how it was wrapped."""

    message: Message | None
    """None for a record of something else, such as a note that the agent exited."""
    bare: str = ""
    """`update` or `params` if the line holds just that."""
    record: dict[str, Any] | None = None
    """The record around the message."""

    @property
    def sender(self) -> Handler | None:
        """The side that sent the message; None if the record does not have it."""
        return _SENDERS.get(str(self.record.get("dir"))) if self.record else None

    @property
    def time(self) -> float | None:
        """When it was recorded, in seconds since 1970 or since the start of the recording (`t`).

        None if the record does not have it.
        """
        record = self.record or {}
        time = record.get("time", record.get("t"))
        return float(time) if isinstance(time, int | float) and 0 <= time < _LATEST else None

    def wrap(self, message: Message, *, back: bool = False) -> dict[str, Any]:
        """`message` in the wrapping of this line; `back` if it travels the other way."""
        value: dict[str, Any] = write_message(message)
        if self.bare and isinstance(message, Notification):
            value = message.params["update"] if self.bare == "update" else message.params
        if self.record is None:
            return value
        record = {**self.record, "message": value}
        if back and self.record.get("dir") in ("c2a", "a2c"):
            record["dir"] = "a2c" if self.record["dir"] == "c2a" else "c2a"
        return record


def read_line(data: bytes | str) -> list[Line]:
    """What a line holds: one message, or several where it is a JSON-RPC batch."""
    value = codec.parse(data)
    if isinstance(value, list) and value:
        return [_line(each) for each in value]
    return [_line(value)]


def _line(value: Any) -> Line:
    record = None
    if isinstance(value, dict) and "sessionUpdate" not in value:
        if "message" in value and "jsonrpc" not in value and "method" not in value:
            record, value = value, value["message"]
        elif "dir" in value:
            return Line(None, record=value)  # a record of something else than a message
    if not isinstance(value, dict):
        raise Malformed("", "not understood: neither a message nor an update")
    message = read_message(value)
    if message is not None:
        return Line(message, record=record)
    if isinstance(value.get("sessionUpdate"), str):
        return Line(Notification("session/update", {"update": value}), "update", record)
    if isinstance(value.get("update"), dict):
        return Line(Notification("session/update", value), "params", record)
    method = _method_of(value)
    if method is None:
        raise Malformed("", "not understood: neither a message nor an update")
    return Line(Notification(method, value), "params", record)


def _method_of(params: dict[str, Any]) -> str | None:
    if "prompt" in params:
        return "session/prompt"
    if "options" in params and ("toolCall" in params or "title" in params):
        return "session/request_permission"
    return None


class _Asked(Struct):
    method: str
    params: Any
    speaks_v1: bool
    before: Session | None = None
    """The session before a replay was requested, in case the agent refuses the replay."""
    chapter_before: "Chapter | None" = None
    """The chapter of that session."""
    replays: bool = False
    given_up: bool = False
    """A prompt whose turn was cancelled and given up: its answer is too late."""


class Recording:
    """Folds the lines of a recording to sessions.

    Args:
        dialect: The version, or the guide's dialect; detected if it is not given.
        draft: The draft of version 2; detected if it is not given.
    """

    def __init__(self, dialect: Dialect | None = None, draft: Draft | None = None) -> None:
        self.sessions = Sessions(draft or Draft.JUNE)
        self.faults: list[Fault] = []
        """What was malformed and could be left out."""
        self.losses = Losses()
        self._draft = draft
        self._detector = Detector(dialect)
        self._upgraders: dict[str, Upgrader] = {}
        self._guides: dict[str, GuideUpgrader] = {}
        self._pending: RecordedRequests[_Asked] = RecordedRequests()
        self._bare = 0
        self._prompts: dict[str, _Asked] = {}  # the last of each session of version 1
        self._parts: list[Chapter | Block] = []
        self._chapters: dict[str, Chapter] = {}  # the newest of each session
        self._facts: dict[str, SessionFacts] = {}
        self._agent = self._version = ""
        self._time: float | None = None  # of the line that is read

    def look(self, line: Line) -> None:
        """Look ahead at a line, so that ambiguous lines before it are read right."""
        message = line.message
        if isinstance(message, Response):
            self._detector.initialized(message.result)
        elif isinstance(message, Notification) and message.method == "session/update":
            update = message.params.get("update") if isinstance(message.params, dict) else None
            if isinstance(update, dict):
                self._detector.look(update)
        elif isinstance(message, Request | Notification):
            self._detector.requested(message.method)

    def take(self, line: Line) -> None:
        """Apply one line.

        Raises:
            PeerError: The line is malformed. The recording is unchanged.
        """
        message, sender = line.message, line.sender
        self._time = line.time
        match message:
            case None if line.record and line.record.get("dir") == "exit":
                self._agent_exited(line.record)
            case Notification(method="session/update"):
                self._update(message.params)
            case Request():
                self._request(message, sender)
            case Notification():
                self._notification(message)
            case Response():
                self._response(message, self._pending.take(message, sender))
            case Failure():
                self._failure(message, self._pending.take(message, sender))

    # ---- updates

    def _update(self, params: Any) -> None:
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(update, dict):
            raise Malformed("params", "a session/update needs an update")
        session_id = str(params.get("sessionId", ""))
        match self._detector.dialect(update):
            case "1":
                lifted = self._upgrader(session_id).update(self._read(update, v1.SessionUpdate))
            case "guide":
                lifted = self._guide(session_id).update(self._read(update, guide.SessionUpdate))
            case _:
                lifted = [lift(self._read(update, v2.SessionUpdate))]
        self._apply(session_id, lifted)

    def _apply(self, session_id: str, updates: list[Any]) -> None:
        session, chapter = self.sessions[session_id], self._chapter(session_id)
        for update in updates:
            if isinstance(update, v2.StateUpdate) and update.state == "idle":
                self._mark_cancelled(session)
            changes = session.apply(update)
            if changes and changes[-1] == _ENDED:
                chapter.turn_ended(turn_block(session.state_update), self._time)
        chapter.note_entries(self._time)

    def _mark_cancelled(self, session: Session) -> None:
        """End the open calls of a cancelled turn, as the client did."""
        for update in session.cancelled_calls():
            session.apply(update)

    # ---- requests and notifications

    def _request(self, request: Request, sender: Handler | None) -> None:
        self._detector.requested(request.method)
        params = self._params(request.method, request.params)
        asked = _Asked(request.method, params, self._speaks_v1)
        self._pending.add(request, asked, sender)
        match params:
            case v1.PromptRequest():
                self._prompt_v1(params, asked)
            case v2.PromptRequest():
                self._begin_turn(params.session_id)
                self.sessions[params.session_id].prompted()
            case v1.RequestPermissionRequest():
                lifted = self._upgrader(params.session_id).permission(params)
                self.sessions[params.session_id].ask(request.id, lifted)
            case v2.RequestPermissionRequest() | v2.JuneRequestPermissionRequest():
                self.sessions[params.session_id].ask(request.id, lift_permission(params))
            case v1.LoadSessionRequest():
                self._start_over(params.session_id, asked)
            case v2.ResumeSessionRequest() if params.replay_from:
                self._start_over(params.session_id, asked)
        if session_id := getattr(params, "session_id", ""):
            self._note_facts(session_id, params)

    def _notification(self, message: Notification) -> None:
        params = self._params(message.method, message.params)
        if message.method == "session/cancel" and params is not None:
            session = self.sessions[params.session_id]
            if session.turn == "open":
                session.cancel()
                self._mark_cancelled(session)
        elif message.method in ("session/prompt", "session/request_permission"):
            # bare params, which have no answer: only the id is missing
            self._bare += 1
            self._request(Request(f"bare:{self._bare}", message.method, message.params), None)

    def _prompt_v1(self, params: v1.PromptRequest, asked: _Asked) -> None:
        session_id, last = params.session_id, self._prompts.get(params.session_id)
        if last is not None and self.sessions[session_id].cancelling:
            # version 1 has one turn at a time: the client gave up the last one
            last.given_up = True
            self._apply(session_id, [CANCELLED])
        self._begin_turn(session_id)
        self._prompts[session_id] = asked
        self._apply(session_id, self._upgrader(session_id).prompt(params.prompt))

    def _params(self, method: str, params: Any) -> Any:
        """The params as structs; None for what is not needed or what the agent will refuse."""
        known = (v1 if self._speaks_v1 else v2).METHODS.get(method)
        if known is None or not isinstance(params, dict):
            return None
        try:
            return self._read(params, known.params)
        except Malformed:
            return None

    @property
    def _speaks_v1(self) -> bool:
        return self._detector.of_requests() == "1"

    def _start_over(self, session_id: str, asked: _Asked) -> None:
        """A replay repeats the whole session: start with an empty one."""
        asked.replays = True
        before = asked.before = self.sessions.get(session_id)
        if before is not None:
            asked.chapter_before = self._chapter(session_id)
            del self.sessions[session_id]
        after = self.sessions[session_id]
        chapter = Chapter(after, asked.method, asked.chapter_before)
        self._chapters[session_id] = chapter
        self._parts.append(chapter)
        if before is None:
            return
        after.draft = before.draft
        after.commands_update, after.config_update = before.commands_update, before.config_update
        after.info, after.usage = before.info, before.usage
        old = self._upgraders.pop(session_id, None)
        if old is not None:
            self._upgraders[session_id] = old.replayed()
        self._guides.pop(session_id, None)

    # ---- answers

    def _response(self, response: Response, asked: _Asked | None) -> None:
        if asked is None or asked.method == "initialize":
            self._detector.initialized(response.result)
            self._note_agent(response.result)
            return
        known = (v1 if asked.speaks_v1 else v2).METHODS.get(asked.method)
        if known is None or known.result is None or asked.params is None:
            return
        try:
            result = self._read({} if response.result is None else response.result, known.result)
        except Malformed:
            return  # the peer that sent the request has to report it
        self._result(response, asked, result)

    def _result(self, response: Response, asked: _Asked, result: Any) -> None:
        session_id = str(
            getattr(result, "session_id", None) or getattr(asked.params, "session_id", "")
        )
        session = self.sessions[session_id] if session_id else None
        if session_id:
            self._note_facts(session_id, asked.params)
        match result:
            case v1.PromptResponse():
                if not asked.given_up:
                    self._apply(session_id, [self._upgrader(session_id).finished(result)])
            case v2.PromptResponse():
                if session is not None and self._draft is None:
                    session.draft = Draft.NOVEMBER  # only November names the message
            case v2.JunePromptResponse():
                if (reason := premature_stop_reason(result)) is not None:
                    self._apply(session_id, [v2.StateUpdate("idle", reason)])
            case v1.NewSessionResponse() | v1.SessionSetup():
                if asked.replays:
                    self.sessions[session_id].replayed()
                upgrader = self._upgrader(session_id)
                upgrader.setup(result)
                if upgrader.config_options:
                    self._apply(session_id, [v2.ConfigOptionUpdate(upgrader.config_options)])
            case v2.NewSessionResponse() | v2.ResumeSessionResponse():
                if asked.replays:
                    self.sessions[session_id].replayed()
                self._apply(session_id, _setup_updates(result))
            case v1.SetSessionConfigOptionResponse():
                updates = self._upgrader(session_id).update(
                    v1.ConfigOptionUpdate(result.config_options)
                )
                self._apply(session_id, updates)
            case v2.SetSessionConfigOptionResponse():
                self._apply(session_id, [v2.ConfigOptionUpdate(result.config_options)])
            case v1.RequestPermissionResponse() | v2.RequestPermissionResponse():
                if isinstance(result, v1.RequestPermissionResponse):
                    result = upgrade_outcome(result)
                if session is not None and response.id is not None:
                    session.settle(response.id, result.outcome)
            case _:
                self._other_result(session_id, asked, result)

    def _other_result(self, session_id: str, asked: _Asked, result: Any) -> None:
        """Modes, and the terminals that a version 1 client owns."""
        match asked.params:
            case v1.SetSessionModeRequest():
                self._apply(session_id, self._upgrader(session_id).mode_set(asked.params.mode_id))
            case v1.CreateTerminalRequest() if isinstance(result, v1.CreateTerminalResponse):
                words = [asked.params.command, *(asked.params.args or [])]
                made = v2.TerminalUpdate(
                    result.terminal_id, " ".join(words), asked.params.cwd or UNSET
                )
                self._apply(session_id, [made])
            case v1.TerminalRequest() if isinstance(result, v1.TerminalOutputResponse):
                output = v2.TerminalOutput(text_as_base64(result.output))
                shown = v2.TerminalUpdate(asked.params.terminal_id, output=output)
                self._apply(session_id, [replace(shown, exit_status=_exit(result.exit_status))])
            case v1.TerminalRequest() if isinstance(result, v1.TerminalExitStatus):
                ended = v2.TerminalUpdate(asked.params.terminal_id, exit_status=_exit(result))
                self._apply(session_id, [ended])

    def _failure(self, failure: Failure, asked: _Asked | None) -> None:
        if asked is None:
            return
        session_id = str(getattr(asked.params, "session_id", ""))
        error = as_error(failure.error)
        self._undo_replay(session_id, asked)
        if isinstance(asked.params, v1.PromptRequest | v2.PromptRequest):
            self._prompt_failed(session_id, asked, error)
        elif asked.method == "session/request_permission":
            if session_id in self.sessions and failure.id is not None:
                self.sessions[session_id].settle(failure.id)
        elif handler_of(asked.method) == "agent":
            self._failed(session_id, asked.method, error)

    def _prompt_failed(self, session_id: str, asked: _Asked, error: Error) -> None:
        session = self.sessions[session_id]
        state = session.state
        if asked.given_up:
            return
        if isinstance(asked.params, v1.PromptRequest):
            idle = self._upgrader(session_id).failed(error, cancelling=session.cancelling)
        elif state != "idle":  # other work goes on: the agent reports when the session is idle
            self._failed(session_id, asked.method, error)
            return
        else:
            idle = failed_turn(error, cancelling=session.cancelling)
        self._apply(session_id, [idle])
        if state == "idle":  # it never began
            self._chapter(session_id).turn_ended(turn_block(idle), self._time)

    def _undo_replay(self, session_id: str, asked: _Asked) -> None:
        """A replay was refused: restore the session before it."""
        if not asked.replays or (asked.before is None and self.sessions[session_id].entries):
            return
        self._parts.remove(self._chapters.pop(session_id))
        if asked.before is None:
            del self.sessions[session_id]
        else:
            self.sessions[session_id] = asked.before
        if asked.chapter_before is not None:
            self._chapters[session_id] = asked.chapter_before

    def _agent_exited(self, note: dict[str, Any]) -> None:
        """The agent exited: the turns that it did not end are over."""
        signal, code = note.get("signal"), note.get("code")
        how = f"by {signal}" if signal else f"with code {code}"
        error = Error(INTERNAL_ERROR, f"The agent exited {how} before the turn ended.")
        for session_id, session in list(self.sessions.items()):
            if session.turn == "open":
                self._apply(session_id, [v2.StateUpdate("idle", "error", error)])

    # ---- what to show

    def outline(self, zone: tzinfo | None = None) -> list[Block]:
        """The blocks to show: every session in the order of its start, replays and failures too.

        Args:
            zone: The time zone of the times; None for the local one.
        """
        for session_id in self.sessions:
            self._chapter(session_id)
        return shown(self._parts, self._facts, zone)

    def facts(self, session_id: str) -> SessionFacts:
        """The agent and the directory of a session, as far as the recording has them."""
        return self._facts.get(session_id) or SessionFacts(self._agent, self._version)

    def _note_facts(self, session_id: str, params: Any) -> None:
        """Note what the heading of the session shows."""
        known = self.facts(session_id)
        cwd = getattr(params, "cwd", None)
        is_setup = not isinstance(params, v1.CreateTerminalRequest)
        self._facts[session_id] = replace(
            known, cwd=cwd if isinstance(cwd, str) and is_setup else known.cwd
        )

    def _note_agent(self, result: Any) -> None:
        """Note what the agent said about itself."""
        if isinstance(result, dict) and isinstance(result.get("protocolVersion"), int):
            self._agent = agent_words(result)
            self._version = str(result["protocolVersion"])

    def _chapter(self, session_id: str) -> Chapter:
        if session_id not in self._chapters:
            self._facts.setdefault(session_id, SessionFacts(self._agent, self._version))
            chapter = self._chapters[session_id] = Chapter(self.sessions[session_id])
            self._parts.append(chapter)
        return self._chapters[session_id]

    def _remark(self, session_id: str, block: Block) -> None:
        self._chapter(session_id).remark(block)

    def _failed(self, session_id: str, method: str, error: Error) -> None:
        """A request of the client failed."""
        block = RemarkBlock(f"{one_line(method)} failed: {error_words(error)}", "error")
        if session_id in self.sessions:
            self._remark(session_id, block)
        else:
            self._parts.append(block)

    def _begin_turn(self, session_id: str) -> None:
        """A prompt ends a replay: everything since its request belonged to it."""
        chapter = self._chapter(session_id)
        chapter.end_replay()
        chapter.turn_began(self._time)

    # ---- what is remembered per session

    def _upgrader(self, session_id: str) -> Upgrader:
        if session_id not in self._upgraders:
            self._upgraders[session_id] = Upgrader(self.losses, own_terminals=True)
        return self._upgraders[session_id]

    def _guide(self, session_id: str) -> GuideUpgrader:
        if session_id not in self._guides:
            self._guides[session_id] = GuideUpgrader(self.losses)
        return self._guides[session_id]

    def _read(self, value: Any, shape: Any) -> Any:
        return codec.read(value, shape, self.faults)


def _setup_updates(result: v2.NewSessionResponse | v2.ResumeSessionResponse) -> list[Any]:
    updates: list[Any] = []
    if result.config_options:
        updates.append(v2.ConfigOptionUpdate(result.config_options))
    if result.available_commands:
        updates.append(lift(v2.AvailableCommandsUpdate(result.available_commands)))
    return updates


def _exit(status: Any) -> Any:
    if not isinstance(status, v1.TerminalExitStatus):
        return UNSET
    return v2.TerminalExitStatus(status.exit_code, status.signal)
