"""Translates between a v1 client and a v2 agent.

Every update of the agent is converted as it arrives and sent on at once, except for terminal output
and pieces of a tool call's content: they are collected for a moment, because v1 repeats the whole
content each time. What v1 has no word for is left out and reported.

v1 answers a prompt when its turn is over: the prompt stays open until the idle state that ends the
work on it, and everything the agent sent before goes out before the answer. What v2 puts into a
result and v1 into an update (commands, options that come with a mode) is sent as an update.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from twofold.bridge.exchange import (
    QUIET,
    REPLAY,
    Answer,
    Exchange,
    SilenceTimer,
    StartTimer,
    StopTimer,
    as_request_error,
    check_session_count,
    read_result,
)
from twofold.bridge.loss_log import LossLog
from twofold.bridge.lowering import Lowering
from twofold.bridge.side import Side
from twofold.convert.downgrade import CHUNKS
from twofold.convert.losses import NotConvertible, carried
from twofold.convert.options import MODE, mode_option
from twofold.convert.requests import downgrade_params, downgrade_result, upgrade_params
from twofold.convert.turns import CANCELLED, OpenTurn, OpenTurns, prompt_answer
from twofold.convert.upgrade import upgrade_outcome
from twofold.peer.problems import Problem, Report
from twofold.policy import choose
from twofold.rpc.connection import Failure, Notification, Request, RequestId, Response
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed
from twofold.wire.elicitation import ElicitationCancel
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Error,
    PermissionOption,
    SelectedPermissionOutcome,
)

GATHER = 0.1
"""For how many seconds terminal output and pieces of content are collected."""
CLOSED = 256
"""How many closed sessions are remembered, whose late updates are dropped."""
SETTLE = 1.0
"""How many seconds after an idle state that no work led up to work may still begin."""
SETTLE_UNSURE = 10.0
"""The same if the agent sent nothing yet, gave no stop reason, or other work ended."""
OWN = 256
"""How many of the client's own prompts are recognised after their turns."""

_CHANGED = "version 1 cannot change a prompt that was sent"
_NO_STATE = "version 1 has no session state but the result of a prompt"
_PERMISSION_CANCELLED = v2.RequestPermissionResponse(CancelledPermissionOutcome())
_ELICITATION_CANCELLED = ElicitationCancel()


class DownTurn(OpenTurn, kw_only=True, eq=False):
    """A prompt of the client that waits for the end of its turn."""

    request_id: RequestId
    at_agent: RequestId = 0
    """The id of the request at the agent."""
    withdrawn: bool = False
    """The client withdrew the prompt before the agent accepted it."""
    stop_settling: StopTimer | None = None
    settle_time: float = float("inf")
    """The seconds that the timer behind `stop_settling` was started with."""


class DownSession(Struct, eq=False):
    """What is remembered of a session."""

    session_id: str
    head: bytes
    """The beginning of every line that sends an update of it."""
    lowering: Lowering
    turns: OpenTurns[DownTurn] = field(default_factory=OpenTurns)
    cancelling: bool = False
    """A cancel was sent, and the work that it is to end has not ended yet."""
    own_messages: dict[str, None] = field(default_factory=dict)
    """The ids of the client's own prompts in turns that are over."""
    options: list[v2.SessionConfigOption] = field(default_factory=list)
    mode_option: str = MODE
    """The id of the option that stands for the modes of v1."""
    agent_spoke: bool = False
    """The agent sent an update since the last prompt was sent."""
    stop_gathering: StopTimer | None = None
    replay_over: bool = True
    """The state arrived with which v2 ends a replay."""
    replay_timer: SilenceTimer | None = None
    """Set while the answer to `session/load` waits for the rest of the replay."""


class Question(Struct, eq=False):
    """A request of the agent that the client's user is asked to answer."""

    request_id: RequestId
    """The id of the agent's request."""
    session: DownSession | None
    dismissed: Any
    """The answer if the user gives none."""


OnUpdate: TypeAlias = Callable[[DownSession, Any], bool]
"""Looks at an update before it is converted; true if it does not go to the client."""


class Down:
    """Translates between a v1 client and a v2 agent.

    Args:
        client: The side of the client.
        agent: The side of the agent.
        log: Receives the losses.
        report: Receives the problems.
        start_timer: Starts a timer.
        capabilities: What the client declared that it shows.
        initialize_result: The answer if the client sends `initialize` a second time.
    """

    def __init__(
        self,
        client: Side,
        agent: Side,
        log: LossLog,
        report: Report,
        start_timer: StartTimer,
        capabilities: v1.ClientCapabilities,
        initialize_result: bytes = b"{}",
    ) -> None:
        exchange = Exchange(client, agent, log, report, initialize_result, client_version=1)
        self.client, self.agent = exchange.client, exchange.agent
        self.sessions: dict[str, DownSession] = {}
        self.questions: dict[RequestId, Question] = {}
        """The agent's questions that wait for an answer, by their ids at the client."""
        self._exchange = exchange
        self._log = exchange.log
        self._losses = exchange.log.losses
        self._report = report
        self._start_timer = start_timer
        self._closed: dict[str, None] = {}
        self._merges_meta = False
        self._capabilities = capabilities.session or v1.ClientSessionCapabilities()
        self._on_update: Mapping[type, OnUpdate] = {
            v2.StateUpdate: self._state,
            v2.UserMessage: self._user_message,
            v2.UserMessageChunk: self._user_message,
            v2.ConfigOptionUpdate: self._options,
        }
        self.client.on_request = {
            "authenticate": self._simple,
            "logout": self._simple,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/status": self._status,
            "session/list": self._simple,
            "session/close": self._end_session,
            "session/delete": self._end_session,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
        }
        self.client.on_notification = {"session/cancel": self._cancel_request}
        self.client.on_withdrawal = self._withdraw_prompt
        self.agent.on_request = {
            "session/request_permission": self._permission,
            "elicitation/create": self._elicit,
        }
        self.agent.on_notification = {"session/update": self._update_with_care}
        self.agent.on_withdrawal = self._withdraw_question

    def from_client(self, line: bytes | LineTooLong) -> None:
        """Handle a line of the client."""
        self._exchange.from_client(line)

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """Handle a line of the agent; updates, which are most of them, are decoded in one pass."""
        if isinstance(line, bytes):
            note = v2.decode_update_line(line)
            if note is not None:
                self._update(note)
                return
        self._exchange.from_agent(line)

    # ---- sessions

    def session(self, session_id: str) -> DownSession:
        """The session with this id; a new one if there is none."""
        session = self.sessions.get(session_id)
        if session is None:
            check_session_count(len(self.sessions))
            head = codec.update_head(codec.encode(session_id))
            session = DownSession(session_id, head, self._new_lowering())
            self.sessions[session_id] = session
            self._closed.pop(session_id, None)
        return session

    def _new_lowering(self) -> Lowering:
        """The converter for a session of which the client was sent nothing yet."""
        options = self._capabilities.config_options
        return Lowering(
            self._losses,
            notices=bool(self._capabilities.notices),
            compactions=bool(self._capabilities.compaction),
            booleans=bool(options and options.boolean),
            merges_meta=self._merges_meta,
        )

    def _forget(self, session: DownSession) -> None:
        """End a session that the client closed, whatever the agent still sends for it."""
        _finish_replay(session)
        self._dismiss_all(session)
        for turn in session.turns:
            self._end_turn(session, turn, CANCELLED)
        self.finish(session)
        self.sessions.pop(session.session_id, None)
        self._closed[session.session_id] = None
        if len(self._closed) > CLOSED:
            del self._closed[next(iter(self._closed))]

    # ---- updates

    def _update_with_care(self, notification: Notification) -> None:
        """Handle an update that the fast decoder refused."""
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v2.UpdateSessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self._report(Problem("update", text, note.session_id))
        self._update(note)

    def _update(self, note: v2.UpdateSessionNotification) -> None:
        """Convert an update and send it to the client."""
        session = self.sessions.get(note.session_id)
        if session is None:
            if note.session_id in self._closed:
                self._log.report("session/update", "", "the session was closed")
                return
            try:
                session = self.session(note.session_id)
            except Malformed as error:
                self._exchange.report_failure("session/update", self.agent, error)
                return
        if session.replay_timer is not None:
            session.replay_timer.restart()
        update = note.update
        look = self._on_update.get(type(update))
        try:
            if look is None or not look(session, update):
                lowered = session.lowering.update(update)
                session.agent_spoke = True
                if note.meta is UNSET and note.unknown is UNSET:
                    send, head = self.client.side.send, session.head
                    for each in lowered:
                        send(head + codec.encode(each) + b"}}\n")
                else:
                    self._send_with_meta(session, lowered, note)
                if type(update) not in CHUNKS and session.lowering.has_gathered:
                    self._flush_later(session)
        except Exception as error:
            self._exchange.report_failure("session/update", self.agent, error)
        if self._losses:
            self._log.flush("session/update")

    def _send_with_meta(
        self,
        session: DownSession,
        lowered: list[v1.SessionUpdate],
        note: v2.UpdateSessionNotification,
    ) -> None:
        """Send updates with the `_meta` and the unknown fields of their notification."""
        rest = carried(note, v1.SessionNotification, self._losses, "")
        for update in lowered:
            params = v1.SessionNotification(session.session_id, update, **rest)
            self.client.notify("session/update", params)

    def _flush_later(self, session: DownSession) -> None:
        if session.stop_gathering is None:
            session.stop_gathering = self._start_timer(GATHER, lambda: self._flush(session))

    def _send(self, session: DownSession, update: v2.SessionUpdate) -> None:
        """Send an update that the bridge makes itself."""
        self._update(v2.UpdateSessionNotification(session.session_id, update))

    def _flush(self, session: DownSession) -> None:
        """Send the terminal output and pieces of content that were collected."""
        if session.stop_gathering is not None:
            session.stop_gathering()
            session.stop_gathering = None
        for update in session.lowering.flush():
            self.client.side.send(session.head + codec.encode(update) + b"}}\n")

    def finish(self, session: DownSession) -> None:
        """Send everything that was collected, because a result follows."""
        self._flush(session)
        for loss in session.lowering.unshown():
            self._log.report("session/update", loss.path, loss.reason)

    def _user_message(
        self, session: DownSession, update: v2.UserMessage | v2.UserMessageChunk
    ) -> bool:
        """Leave out the echo of the client's own prompt; other user messages are sent."""
        turn, repeats = session.turns.user_message(update)
        if turn is None and update.message_id not in session.own_messages:
            return False
        if not repeats:
            self._log.report("session/update", "update.content", _CHANGED)
        if turn is not None:
            session.lowering.shown_elsewhere(update.message_id)
        return True

    def _options(self, session: DownSession, update: v2.ConfigOptionUpdate) -> bool:
        _set_options(session, update.config_options)
        return False

    def _state(self, session: DownSession, update: v2.StateUpdate) -> bool:
        session.replay_over = True
        if not session.turns and update.state != "idle":
            self._log.report("session/update", "update.state", _NO_STATE)
        session.turns.report(update)
        for turn in session.turns:
            self._end_if_over(session, turn)
        if update.state == "idle":
            session.cancelling = False
        return True

    # ---- prompts

    def _prompt(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.PromptRequest)
        _, lifted = upgrade_params(request.method, params, self._losses)
        session = self.session(params.session_id)
        _finish_replay(session)
        turn = DownTurn(request_id=request.id)
        if not session.turns:
            session.agent_spoke = session.cancelling = False

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self._refused(session, turn, answer)
            else:
                self._accepted(session, turn, answer)

        data = codec.encode(lifted)
        turn.at_agent = self.agent.request("session/prompt", data, request.id, answered)
        session.turns.prompted(turn, lifted.prompt)

    def _accepted(self, session: DownSession, turn: DownTurn, answer: Response) -> None:
        """The agent accepted the prompt, and works on it."""
        result = None
        try:
            result = read_result(answer, v2.PromptResponse)
        except Malformed as error:
            # it is no refusal, so the agent works on the prompt
            text = f"The agent answered session/prompt with an invalid result: {error}"
            self._report(Problem("answer", text, session.session_id))
        turn.accepted(result)
        if isinstance(result, v2.PromptResponse) and result.message_id:
            # only the draft of November has an id here
            self._merges_meta = session.lowering.merges_meta = True
        if turn.withdrawn and turn.end is None:
            self._cancel(session)
        self._end_if_over(session, turn)

    def _refused(self, session: DownSession, turn: DownTurn, failure: Failure) -> None:
        """The agent answered the prompt with an error."""
        if turn not in session.turns:
            return
        if turn.cancelled:
            error = as_request_error(failure)
            end = v2.StateUpdate("idle", "error", Error(error.code, error.message, error.data))
            self._end_turn(session, turn, end)
            return
        self.finish(session)
        self._remove_turn(session, turn)
        self.client.fail(turn.request_id, failure)

    def _end_if_over(self, session: DownSession, turn: DownTurn) -> None:
        idle = session.turns.state
        if turn.end is not None:
            self._end_turn(session, turn, turn.end)
        elif turn.may_be_over(idle):
            if turn.cancelled:
                self._end_turn(session, turn, idle)
            else:
                sure = idle.stop_reason and session.agent_spoke and not turn.queued
                self._settle_in(SETTLE if sure else SETTLE_UNSURE, session, turn)

    def _settle_in(self, seconds: float, session: DownSession, turn: DownTurn) -> None:
        if seconds >= turn.settle_time or turn not in session.turns:
            return
        if turn.stop_settling is not None:
            turn.stop_settling()
        turn.settle_time = seconds
        turn.stop_settling = self._start_timer(seconds, lambda: self._settle(session, turn))

    def _settle(self, session: DownSession, turn: DownTurn) -> None:
        turn.stop_settling, turn.settle_time = None, float("inf")
        if turn.may_be_over(session.turns.state):
            self._end_turn(session, turn, session.turns.state)

    def _end_turn(self, session: DownSession, turn: DownTurn, idle: v2.StateUpdate) -> None:
        """Send the rest of the turn, then answer the prompt."""
        if turn not in session.turns:
            return
        self.finish(session)
        self._remove_turn(session, turn)
        if idle.background:
            reason = "version 1 has no background work"
            self._log.report("session/update", "update.background", reason)
        if not idle.stop_reason and not turn.cancelled:
            idle = replace(idle, stop_reason="end_turn")  # v2 need not give a reason
        try:
            answer = prompt_answer(idle, self._losses, cancelled=turn.cancelled)
            if isinstance(answer, Error):
                error = RequestError(answer.code, answer.message, answer.data)
                self.client.fail(turn.request_id, error)
            else:
                self.client.respond(turn.request_id, answer)
        except (NotConvertible, RecursionError) as refusal:
            self._exchange.report_failure("session/prompt", self.agent, refusal)
            data = {"reason": str(refusal)}
            error = RequestError(INTERNAL_ERROR, "The end of the turn cannot be converted", data)
            self.client.fail(turn.request_id, error)
        self._log.flush("session/prompt")

    def _remove_turn(self, session: DownSession, turn: DownTurn) -> None:
        session.turns.close(turn)
        if turn.stop_settling is not None:
            turn.stop_settling()
        self.agent.drop(turn.at_agent)
        if turn.message_id:
            session.own_messages[turn.message_id] = None
            if len(session.own_messages) > OWN:
                del session.own_messages[next(iter(session.own_messages))]
        if not session.turns and session.turns.state.state == "idle":
            session.cancelling = False

    # ---- cancel

    def _cancel_request(self, notification: Notification) -> None:
        params = codec.decode(notification.params or b"{}", v1.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is None:
            self.agent.notify("session/cancel", params)
        else:
            self._cancel(session, params)

    def _cancel(self, session: DownSession, params: v1.SessionParams | None = None) -> None:
        """Cancel the work of a session and answer what the agent asked for it.

        `params` are those of the client's own cancel, if it sent one.
        """
        self.agent.notify("session/cancel", params or v2.SessionParams(session.session_id))
        session.turns.cancel()
        if session.turns or session.turns.state.state != "idle":
            session.cancelling = True
            # v1: a client that cancels answers its open questions itself
            self._dismiss_all(session, cancel_at_client=params is None)

    def _withdraw_prompt(self, request_id: RequestId) -> bool:
        for session in self.sessions.values():
            for turn in session.turns:
                if turn.request_id == request_id:
                    if turn.inserted:
                        self._cancel(session)
                    turn.withdrawn = True  # if the agent accepts it all the same, it is cancelled
                    return turn.inserted
        return False

    # ---- questions of the agent

    def _permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.RequestPermissionRequest)
        closed = params.session_id in self._closed
        if closed or not params.options or self.session(params.session_id).cancelling:
            self.agent.respond(request.id, _PERMISSION_CANCELLED)
            return
        session = self.session(params.session_id)
        self._flush(session)
        lowered = session.lowering.permission(params)

        def decided(answer: Response) -> None:
            outcome = upgrade_outcome(read_result(answer, v1.RequestPermissionResponse))
            self.agent.respond(request.id, _or_rejected(outcome, params.options))

        self._ask_user(request, lowered, session, _PERMISSION_CANCELLED, decided)

    def _elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.CreateElicitationRequest)
        if isinstance(params, v2.UnknownElicitation):
            raise NotConvertible("mode", f"version 1 has no mode {params.tag!r}")
        name, lowered = downgrade_params(request.method, params, self._losses)
        if lowered.request_id is not UNSET and lowered.request_id is not None:
            pending = self.agent.pending.get(lowered.request_id)
            if pending is None or pending.origin is None:
                raise RequestError.invalid_params("no such request is pending")
            lowered = replace(lowered, request_id=pending.origin)
        session_id = lowered.session_id or ""
        if session_id in self._closed:
            self.agent.respond(request.id, _ELICITATION_CANCELLED)
            return

        def decided(answer: Response) -> None:
            self.agent.respond(request.id, read_result(answer, v1.METHODS[name].result))

        session = self.sessions.get(session_id)
        self._ask_user(request, lowered, session, _ELICITATION_CANCELLED, decided)

    def _ask_user(
        self,
        request: Request,
        params: Any,
        session: DownSession | None,
        dismissed: Any,
        decided: Callable[[Response], None],
    ) -> None:
        """Send a question to the client; `dismissed` answers the agent if the user does not."""

        def answered(answer: Answer) -> None:
            del self.questions[at_client]
            if isinstance(answer, Failure):
                self.agent.fail(request.id, answer)
            else:
                decided(answer)

        data = codec.encode(params)
        at_client = self.client.request(request.method, data, request.id, answered)
        self.questions[at_client] = Question(request.id, session, dismissed)

    def _dismiss_all(self, session: DownSession, *, cancel_at_client: bool = True) -> None:
        """Answer the agent's questions of a session without the user."""
        found = [at for at, question in self.questions.items() if question.session is session]
        for at_client in found:
            self._dismiss(at_client, cancel_at_client=cancel_at_client)

    def _dismiss(self, at_client: RequestId, *, cancel_at_client: bool = True) -> None:
        question = self.questions.pop(at_client)
        self.agent.respond(question.request_id, question.dismissed)
        if cancel_at_client:
            self.client.cancel(at_client)
        else:
            self.client.drop(at_client)

    def _withdraw_question(self, request_id: RequestId) -> bool:
        for at_client, question in self.questions.items():
            if question.request_id == request_id:
                self._dismiss(at_client)
                return True
        return False

    # ---- other requests of the client

    def _simple(self, request: Request) -> None:
        """A request that v2 has too, with or without another name."""
        name, params = self._lifted(request)

        def convert(result: Any) -> Any:
            return downgrade_result(name, result, self._losses)

        self._exchange.convert_request(request, name, params, convert)

    def _lifted(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        return upgrade_params(request.method, params, self._losses)

    def _new(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: self.session(result.session_id))

    def _fork(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.ResumeSessionRequest)
        name, lifted = upgrade_params(request.method, params, self._losses)
        self._set_up(request, name, lifted, lambda result: self.session(result.session_id))

    def _resume(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: self.session(params.session_id))

    def _load(self, request: Request) -> None:
        name, params = self._lifted(request)
        known = params.session_id in self.sessions
        session = self.session(params.session_id)
        _finish_replay(session)
        self.finish(session)
        session.replay_over = False
        # a replay sends everything again, to a client that drops what it has
        before, session.lowering = session.lowering, self._new_lowering()
        own_messages, session.own_messages = session.own_messages, {}

        def refused() -> None:
            session.lowering, session.own_messages = before, own_messages
            session.replay_over = True
            if not known:
                self.sessions.pop(params.session_id, None)

        self._set_up(request, name, params, lambda result: session, refused)

    def _set_up(
        self,
        request: Request,
        name: str,
        params: Any,
        session_of: Callable[[Any], DownSession],
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """New, load, resume and fork: the commands, which v2 has in the result, follow it."""

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                refused()
                self.client.fail(request.id, answer)
                return
            forked = name == "session/fork"
            shape = v2.NewSessionResponse if forked else v2.METHODS[name].result
            result = read_result(answer, shape)
            session = session_of(result)
            lowered = self._lowered_setup(session, name, result)

            def finished() -> None:
                session.replay_timer, session.replay_over = None, True
                self.finish(session)
                self.client.respond(request.id, lowered)
                if result.available_commands:
                    self._send(session, v2.AvailableCommandsUpdate(result.available_commands))

            if session.replay_over:
                finished()
            else:  # v1: nothing of a replay follows the answer
                session.replay_timer = SilenceTimer(
                    self._start_timer, finished, quiet=QUIET, longest=REPLAY
                )

        self.agent.request(name, codec.encode(params), request.id, answered)

    def _lowered_setup(self, session: DownSession, name: str, result: Any) -> Any:
        bare = replace(result, available_commands=UNSET)
        if result.config_options is not UNSET:
            _set_options(session, result.config_options)
            options = session.lowering.options(result.config_options, "configOptions")
            bare = replace(bare, config_options=options)
        return downgrade_result(name, bare, self._losses)

    def _status(self, request: Request) -> None:
        """v2 has the state of a session beside its status."""

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self.client.fail(request.id, answer)
                return
            result = codec.parse(answer.result)
            if isinstance(result, dict) and result.pop("state", None) is not None:
                self._losses.report("state", _NO_STATE)
            self.client.respond(request.id, result)

        params = None if request.params is UNSET else request.params
        self.agent.request(request.method, params, request.id, answered)

    def _end_session(self, request: Request) -> None:
        """Close and delete: nothing of the session is remembered afterwards."""
        name, params = self._lifted(request)

        def ended(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None:
                self._forget(session)
            return result

        self._exchange.convert_request(request, name, params, ended)

    def _set_mode(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)

        def chosen(result: v2.SetSessionConfigOptionResponse) -> Any:
            if result.config_options != session.options:
                # a mode may bring other options, and v1's result has no place for them
                self._send(session, v2.ConfigOptionUpdate(result.config_options))
            return v1.Empty(**carried(result, v1.Empty, self._losses, ""))

        self._exchange.convert_request(
            request, name, replace(params, config_id=session.mode_option), chosen
        )

    def _set_option(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)

        def chosen(result: v2.SetSessionConfigOptionResponse) -> Any:
            before, now = _mode(session.options), _mode(result.config_options)
            _set_options(session, result.config_options)
            if now and now != before:
                note = v1.SessionNotification(session.session_id, v1.CurrentModeUpdate(now))
                self.client.notify("session/update", note)
            options = session.lowering.options(result.config_options, "configOptions")
            bare = replace(result, config_options=options)
            return downgrade_result(name, bare, self._losses)

        self._exchange.convert_request(request, name, params, chosen)

    # ---- the end of a side

    def agent_died(self, error: RequestError) -> None:
        """Fail every turn, after all updates of it, and every other request of the client."""
        self.questions.clear()
        for pending in self.client.pending:
            self.client.cancel(pending.request_id)
        for session in self.sessions.values():
            _finish_replay(session)
            self.finish(session)
            for turn in session.turns:
                self._remove_turn(session, turn)
                self.client.fail(turn.request_id, error)
        self._exchange.agent_died(error)

    def client_left(self) -> None:
        """Cancel the work of the agent and answer its questions."""
        for session in self.sessions.values():
            if session.turns or session.turns.state.state != "idle":
                self._cancel(session)
        for at_client in list(self.questions):
            self._dismiss(at_client)
        self._exchange.client_left()

    def close(self) -> None:
        """Stop every timer."""
        for session in self.sessions.values():
            if session.stop_gathering is not None:
                session.stop_gathering()
            if session.replay_timer is not None:
                session.replay_timer.stop()
            for turn in session.turns:
                if turn.stop_settling is not None:
                    turn.stop_settling()


def _finish_replay(session: DownSession) -> None:
    """Wait no longer for the rest of a replay."""
    if session.replay_timer is not None:
        session.replay_timer.finish()


def _set_options(session: DownSession, options: list[v2.SessionConfigOption]) -> None:
    """Remember the options of a session, and which of them is the mode."""
    session.options = options
    option = mode_option(options)
    if option is not None:
        session.mode_option = option.config_id


def _mode(options: list[v2.SessionConfigOption]) -> str:
    option = mode_option(options)
    return option.current_value if option is not None else ""


def _or_rejected(
    answer: v2.RequestPermissionResponse, options: list[PermissionOption]
) -> v2.RequestPermissionResponse:
    """A dismissal outside a cancel is a rejection, not the end of the turn."""
    if not isinstance(answer.outcome, CancelledPermissionOutcome):
        return answer
    reject = choose(options, "reject")
    if reject is None:
        return answer
    return replace(answer, outcome=SelectedPermissionOutcome(reject.option_id))
