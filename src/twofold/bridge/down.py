"""A client of version 1 and an agent of version 2.

Version 1 is answered when the turn is over: its prompt stays open until the idle that ends the
work on it, and everything said before goes out before. Terminals become text, gathered for a
moment because the whole text is told each time. What version 1 does not know never reaches it.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from twofold.bridge.end import End
from twofold.bridge.losses import LossLog
from twofold.bridge.translation import (
    Later,
    Notifications,
    Outcome,
    Requests,
    Timer,
    Translation,
    read_result,
)
from twofold.convert.downgrader import Downgrader
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.options import MODE
from twofold.convert.permission import upgrade_outcome
from twofold.convert.setup import (
    downgrade_params,
    downgrade_result,
    upgrade_params,
)
from twofold.convert.turn import OpenTurn
from twofold.policy import choose
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId
from twofold.runtime.errors import Problem, Report
from twofold.wire import codec, v1, v2
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    PermissionOption,
    SelectedPermissionOutcome,
)

GATHER = 0.1
"""For how many seconds terminal output is gathered."""
SETTLE = 1.0
"""How many seconds after an idle that no work led up to work may still begin."""

_STOPS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
_CANCELLED = v2.RequestPermissionResponse(CancelledPermissionOutcome())


class _Turn(OpenTurn, kw_only=True, eq=False):
    """A prompt of the client that waits for the end of its turn."""

    identity: RequestId
    at_agent: RequestId = 0
    settling: Timer | None = None


class _Session(Struct, eq=False):
    """What has to be remembered of a session."""

    session_id: str
    head: bytes
    downgrader: Downgrader
    turns: list[_Turn] = field(default_factory=list)
    state: v2.StateUpdate = field(default_factory=lambda: v2.StateUpdate("idle"))
    cancelling: bool = False
    mode_option: str = MODE
    gathering: Timer | None = None


class Down(Translation):
    """Translates for a client of version 1; `able` is what it said that it shows."""

    def __init__(
        self,
        client: End,
        agent: End,
        log: LossLog,
        report: Report,
        later: Later,
        able: v1.ClientCapabilities,
    ) -> None:
        super().__init__(client, agent, log, report, later)
        self._able = able.session or v1.ClientSessionCapabilities()
        self.sessions: dict[str, _Session] = {}

    @property
    def losses(self) -> Losses:
        """Where converters report."""
        return self.log.losses

    def session(self, session_id: str) -> _Session:
        """A session, made when it is first heard of."""
        session = self.sessions.get(session_id)
        if session is None:
            head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            session = _Session(session_id, head % codec.encode(session_id), self._downgrader())
            self.sessions[session_id] = session
        return session

    def _downgrader(self) -> Downgrader:
        return Downgrader(
            self.losses,
            notices=bool(self._able.notices),
            compactions=bool(self._able.compaction),
            gather=True,
        )

    # ---- updates

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """A line of the agent; updates are most of them, and are read in one go."""
        if isinstance(line, bytes):
            note = codec.decode_update_line_v2(line)
            if note is not None:
                self._update(note)
                return
        super().from_agent(line)

    def _updated(self, notification: Notification) -> None:
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v2.UpdateSessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self.report(Problem("update", text, note.session_id))
        self._update(note)

    def _update(self, note: v2.UpdateSessionNotification) -> None:
        session = self.sessions.get(note.session_id) or self.session(note.session_id)
        special = _SPECIAL.get(type(note.update))
        if special is not None and special(self, session, note.update):
            return
        self._lower(session, note.update)

    def _lower(self, session: _Session, update: v2.SessionUpdate) -> None:
        try:
            lowered = session.downgrader.update(update)
        except NotConvertible as refusal:
            self.log.refuse("session/update", refusal)
            return
        send, head = self.client.end.send, session.head
        for each in lowered:
            send(head + codec.encode(each) + b"}}\n")
        if self.losses:
            self.log.flush("session/update")
        if session.downgrader.gathered and session.gathering is None:
            session.gathering = self.later(GATHER, lambda: self._flush(session))

    def _flush(self, session: _Session) -> None:
        """Tell what terminals printed meanwhile."""
        if session.gathering is not None:
            session.gathering()
            session.gathering = None
        for update in session.downgrader.flush():
            self.client.end.send(session.head + codec.encode(update) + b"}}\n")

    def _user_message(
        self, session: _Session, update: v2.UserMessage | v2.UserMessageChunk
    ) -> bool:
        """The client shows its own prompt; other user messages are news."""
        return any(turn.echoed(update) for turn in session.turns)

    def _options(self, session: _Session, update: v2.ConfigOptionUpdate) -> bool:
        self._know_mode(session, update.config_options)
        return False

    def _know_mode(self, session: _Session, options: list[v2.SessionConfigOption]) -> None:
        for option in options:
            if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
                session.mode_option = option.config_id
                return

    # ---- turns

    def _prompt(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.PromptRequest)
        _, lifted = upgrade_params(request.method, params, self.losses)
        session = self.session(params.session_id)
        turn = _Turn(session.state.state != "idle", identity=request.id)
        turn.echo.expect(lifted.prompt)
        session.turns.append(turn)

        def inserted(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self._failed(session, turn, answer)
                return
            turn.accepted(read_result(answer, v2.PromptResponse))
            self._look(session, turn)

        turn.at_agent = self.agent.ask("session/prompt", codec.encode(lifted), request.id, inserted)

    def _state(self, session: _Session, update: v2.StateUpdate) -> bool:
        session.state = update
        for turn in list(session.turns):
            turn.report(update)
            self._look(session, turn)
        if update.state == "idle":
            session.cancelling = False
        return True

    def _look(self, session: _Session, turn: _Turn) -> None:
        """Whether a turn is over."""
        if turn.end is not None:
            self._end(session, turn, turn.end)
        elif turn.inserted and session.state.state == "idle" and turn.settling is None:
            # No work led up to this idle. If none follows, it was the end all the same.
            before = session.state

            def settle() -> None:
                turn.settling = None
                idle = session.state
                if not turn.running and idle.state == "idle" and idle.stop_reason:
                    self._end(session, turn, idle)

            if before.stop_reason:
                turn.settling = self.later(SETTLE, settle)

    def _end(self, session: _Session, turn: _Turn, idle: v2.StateUpdate) -> None:
        if turn not in session.turns:
            return
        self._done(session, turn)
        self._flush(session)
        if idle.background:
            self.log.tell("state_update", "background", "version 1 knows no background work")
        try:
            self._answer(turn, idle)
        except NotConvertible as refusal:
            self.log.refuse("session/prompt", refusal)
            reason = {"reason": str(refusal)}
            error = RequestError(INTERNAL_ERROR, "The turn's end cannot be passed on", reason)
            self.fail(self.client, turn.identity, error)

    def _answer(self, turn: _Turn, idle: v2.StateUpdate) -> None:
        reason = idle.stop_reason or "end_turn"
        if reason == "error":
            told = idle.error or None
            error = RequestError(INTERNAL_ERROR, "The turn ended with an error")
            if told is not None:
                error = RequestError(told.code, told.message, told.data)
            self.fail(self.client, turn.identity, error)
            return
        if reason not in _STOPS:
            self.losses.report("stopReason", f"version 1 has no stop reason {reason!r}")
            reason = "end_turn"
        meta = idle.meta or UNSET
        usage = idle.usage or UNSET
        self.respond(self.client, turn.identity, v1.PromptResponse(reason, usage, meta=meta))
        self.log.flush("session/prompt")

    def _failed(self, session: _Session, turn: _Turn, failure: Failure) -> None:
        if turn in session.turns:
            self._done(session, turn)
            self._flush(session)
            self.give_back(self.client, turn.identity, failure)

    def _done(self, session: _Session, turn: _Turn) -> None:
        session.turns.remove(turn)
        if turn.settling is not None:
            turn.settling()
        self.agent.asked.pop(turn.at_agent, None)

    def _cancelled(self, notification: Notification) -> None:
        params = codec.decode(notification.params or b"{}", v1.SessionParams)
        session = self.session(params.session_id)
        session.cancelling = bool(session.turns) or session.state.state != "idle"
        self.notify(self.agent, "session/cancel", v2.SessionParams(params.session_id))

    # ---- requests of the client

    def _simple(self, request: Request) -> None:
        """A request that the other version has too, with or without another name."""
        name, params = self._lifted(request)
        self._ask(request, name, params, lambda result: result)

    def _ask(self, request: Request, name: str, params: Any, look: Callable[[Any], Any]) -> None:
        """Ask the agent, `look` at the result, and give it back converted."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            result = look(read_result(answer, v2.METHODS[name].result))
            lowered = downgrade_result(name, result, self.losses)
            self.respond(self.client, request.id, lowered)

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _lifted(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        return upgrade_params(request.method, params, self.losses)

    def _new(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: result.session_id)

    def _load(self, request: Request) -> None:
        name, params = self._lifted(request)
        # a replay tells everything again, to someone who forgets what it has seen
        self.session(params.session_id).downgrader = self._downgrader()
        self._set_up(request, name, params, lambda result: params.session_id)

    def _resume(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: params.session_id)

    def _set_up(
        self, request: Request, name: str, params: Any, name_of: Callable[[Any], str]
    ) -> None:
        """New, load and resume: commands, which version 2 has in the result, follow it."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            result = read_result(answer, v2.METHODS[name].result)
            session = self.session(name_of(result))
            self._know_mode(session, result.config_options or [])
            self._flush(session)
            bare = replace(result, available_commands=UNSET)
            self.respond(self.client, request.id, downgrade_result(name, bare, self.losses))
            if result.available_commands:
                self._lower(session, v2.AvailableCommandsUpdate(result.available_commands))

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _close_session(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.SessionParams)

        def closed(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None and not session.turns:
                del self.sessions[params.session_id]
            return result

        self._ask(request, "session/close", params, closed)

    def _set_mode(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)
        params = replace(params, config_id=session.mode_option)

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            read_result(answer, v2.SetSessionConfigOptionResponse)
            self.respond(self.client, request.id, v1.Empty())

        self.agent.ask(name, codec.encode(params), request.id, then)

    # ---- requests of the agent

    def _permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.RequestPermissionRequest)
        session = self.session(params.session_id)
        if not params.options or session.cancelling:
            self.respond(self.agent, request.id, _CANCELLED)
            return
        self._flush(session)
        lowered = session.downgrader.permission(params)

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.agent, request.id, answer)
                return
            read = read_result(answer, v1.RequestPermissionResponse)
            chosen = upgrade_outcome(read)
            self.respond(self.agent, request.id, self._chosen(session, params.options, chosen))

        self.client.ask("session/request_permission", codec.encode(lowered), request.id, then)

    def _chosen(
        self,
        session: _Session,
        options: list[PermissionOption],
        answer: v2.RequestPermissionResponse,
    ) -> v2.RequestPermissionResponse:
        """A dismissal outside a cancel is a no, not the end of the turn."""
        if session.cancelling or isinstance(answer.outcome, SelectedPermissionOutcome):
            return answer
        reject = choose(options, "reject")
        if reject is None:
            return answer
        return replace(answer, outcome=SelectedPermissionOutcome(reject.option_id))

    def _elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.CreateElicitationRequest)
        name, lowered = downgrade_params(request.method, params, self.losses)
        if getattr(lowered, "request_id", UNSET) not in (UNSET, None):
            asked = self.agent.asked.get(lowered.request_id)
            if asked is None or asked.asker is None:
                raise RequestError.invalid_params("no such request is pending")
            lowered = replace(lowered, request_id=asked.asker)

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.agent, request.id, answer)
            else:
                read = read_result(answer, v1.METHODS[name].result)
                self.respond(self.agent, request.id, read)

        self.client.ask(name, codec.encode(lowered), request.id, then)

    # ---- the end

    def agent_died(self, error: RequestError) -> None:
        """Turns that were taken in fail, too."""
        super().agent_died(error)
        for session in self.sessions.values():
            for turn in list(session.turns):
                self._done(session, turn)
                self.fail(self.client, turn.identity, error)

    def close(self) -> None:
        """Stop every timer."""
        for session in self.sessions.values():
            if session.gathering is not None:
                session.gathering()
            for turn in session.turns:
                if turn.settling is not None:
                    turn.settling()

    on_client_request: ClassVar[Requests] = {
        "authenticate": _simple,
        "logout": _simple,
        "session/new": _new,
        "session/load": _load,
        "session/resume": _resume,
        "session/list": _simple,
        "session/close": _close_session,
        "session/delete": _simple,
        "session/set_mode": _set_mode,
        "session/set_config_option": _simple,
        "session/prompt": _prompt,
    }
    on_client_notification: ClassVar[Notifications] = {"session/cancel": _cancelled}
    on_agent_request: ClassVar[Requests] = {
        "session/request_permission": _permission,
        "elicitation/create": _elicit,
    }
    on_agent_notification: ClassVar[Notifications] = {"session/update": _updated}


_SPECIAL: dict[type, Callable[[Down, _Session, Any], bool]] = {
    v2.StateUpdate: Down._state,
    v2.UserMessage: Down._user_message,
    v2.UserMessageChunk: Down._user_message,
    v2.ConfigOptionUpdate: Down._options,
}
