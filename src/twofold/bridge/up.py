"""Translates between a v2 client and a v1 agent.

v1 runs one turn at a time and answers a prompt when the turn is over. The client's prompt is
acknowledged when the agent first sends something, or after a moment, so that an early error still
reaches the client as an error. The end of the turn becomes an idle state. A cancel answers what the
agent asked, on both sides. Only the bridge reports the state of a session. While a question of a
turn is open, that state is `requires_action`.

What v2 takes for granted and the agent lacks is replaced where that is possible: a resume by a load
whose replay is kept from the client, a close by forgetting the session.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from twofold.bridge.exchange import (
    QUIET,
    REPLAY,
    Answer,
    Exchange,
    OnAnswer,
    SilenceTimer,
    StartTimer,
    StopTimer,
    as_request_error,
    check_session_count,
    read_result,
)
from twofold.bridge.lifting import Lifting
from twofold.bridge.loss_log import LossLog
from twofold.bridge.offers import Offers
from twofold.bridge.side import Side
from twofold.convert.downgrade import downgrade_outcome
from twofold.convert.losses import Losses, NotConvertible, carried, recast
from twofold.convert.requests import (
    downgrade_params,
    downgrade_result,
    upgrade_params,
    upgrade_result,
)
from twofold.convert.turns import CANCELLED
from twofold.peer.problems import Problem, Report
from twofold.rpc.connection import Failure, Notification, Request, RequestId, Response
from twofold.rpc.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Extras, Malformed
from twofold.wire.content import ContentBlock
from twofold.wire.elicitation import ElicitationCancel, UnknownElicitation
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Error,
    SessionInfoUpdate,
    UsageUpdate,
)

ACKNOWLEDGE = 0.2
"""After how many seconds a prompt is acknowledged if the agent sends nothing."""
WAITING = 64
"""How many prompts of one session may be queued."""

_NO_LOAD = "it has no session/load"
_PERMISSION_CANCELLED = v1.RequestPermissionResponse(CancelledPermissionOutcome())


class Prompt(Struct, eq=False):
    """A prompt of the client, converted to v1."""

    request_id: RequestId
    params: v1.PromptRequest
    content: list[ContentBlock]
    """The prompt as the client sent it."""


class Turn(Struct, eq=False):
    """The prompt that the agent works on."""

    prompt: Prompt
    message_id: str
    at_agent: RequestId = 0
    """The id of the request at the agent."""
    acknowledged: bool = False
    cancelled: bool = False
    over: bool = False
    """The end of the turn was reported to the client, and the agent still works on it."""
    stop_timer: StopTimer = lambda: None
    """Stops the timer that acknowledges the prompt."""

    @property
    def can_be_refused(self) -> bool:
        """Whether an error of the agent still is the answer to the client's prompt."""
        return not (self.acknowledged or self.cancelled)


Muted: TypeAlias = Literal["", "replay", "late replay", "closed"]
"""Why updates are kept from the client: it asked for no replay, or it closed the session.

Some agents replay after their answer to `session/load`, some half before and half after it. So
until the next prompt every update counts as part of the replay.
"""

# Updates about the session as it is now: they are sent while a replay is kept from the client
_CURRENT = (
    v1.AvailableCommandsUpdate,
    v1.ConfigOptionUpdate,
    v1.CurrentModeUpdate,
    v1.DocumentedCurrentModeUpdate,
    v1.Notice,
    SessionInfoUpdate,
    UsageUpdate,
)


class Question(Struct, eq=False):
    """A question that the client's user is asked."""

    turn: Turn | None
    dismiss: Callable[[], None]
    """Answers the question without the user."""


class UpSession(Struct, eq=False):
    """What is remembered of a session."""

    session_id: str
    head: bytes
    """The beginning of every line that sends an update of it."""
    lifting: Lifting
    roots: list[str] = field(default_factory=list)
    """The directories that it may touch; the first is its working directory."""
    turn: Turn | None = None
    queued: deque[Prompt] = field(default_factory=deque)
    """The prompts that wait for the end of the turn."""
    questions: dict[RequestId, Question] = field(default_factory=dict)
    """The questions that the user has not answered yet, by their ids at the client."""
    muted: Muted = ""
    replay_timer: SilenceTimer | None = None
    """Set while the answer to `session/load` waits for the rest of the replay."""

    @property
    def closed(self) -> bool:
        """Whether the client closed the session, even if the agent still works in it."""
        return self.muted == "closed"

    @property
    def cancelled(self) -> bool:
        """Whether the turn that runs was cancelled."""
        return self.turn is not None and self.turn.cancelled

    @property
    def state(self) -> v2.StateUpdate:
        """The state that the client was sent last."""
        turn = self.turn
        if turn is None or turn.over or not turn.acknowledged:
            return v2.StateUpdate("idle")
        return v2.StateUpdate("requires_action" if self.questions_of(turn) else "running")

    def questions_of(self, turn: Turn) -> list[RequestId]:
        """The open questions of a turn, by their ids at the client."""
        return [at for at, question in self.questions.items() if question.turn is turn]

    def finish_replay(self) -> None:
        """Wait no longer for the rest of a replay."""
        if self.replay_timer is not None:
            self.replay_timer.finish()


class Up:
    """Translates between a v2 client and a v1 agent.

    Args:
        client: The side of the client.
        agent: The side of the agent.
        log: Receives the losses.
        report: Receives the problems.
        start_timer: Starts a timer.
        capabilities: What the agent declared that it can do.
        initialize_result: The answer if the client sends `initialize` a second time.
        own_terminals: The bridge offers terminals to the agent.
        offers: Answers the agent's requests for files and terminals, if the bridge offers any.
    """

    def __init__(
        self,
        client: Side,
        agent: Side,
        log: LossLog,
        report: Report,
        start_timer: StartTimer,
        capabilities: v1.AgentCapabilities,
        initialize_result: bytes = b"{}",
        *,
        own_terminals: bool = False,
        offers: Offers | None = None,
    ) -> None:
        exchange = Exchange(client, agent, log, report, initialize_result, client_version=2)
        self.client, self.agent = exchange.client, exchange.agent
        self.sessions: dict[str, UpSession] = {}
        self._exchange = exchange
        self._log = exchange.log
        self._losses = exchange.log.losses
        self._report = report
        self._start_timer = start_timer
        self._can_load = bool(capabilities.load_session)
        self._capabilities = capabilities.session_capabilities or v1.SessionCapabilities()
        self._own_terminals = own_terminals
        self._offers = offers
        self.client.on_request = {
            "auth/login": self._simple,
            "auth/logout": self._simple,
            "session/new": self._new,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close_session,
            "session/delete": self._delete,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
            "tool_call/cancel": self._not_found,
            "terminal/cancel": self._cancel_terminal,
        }
        self.client.on_notification = {"session/cancel": self._cancel_request}
        self.client.on_withdrawal = self._withdraw_prompt
        self.agent.on_request = {
            "session/request_permission": self._permission,
            "elicitation/create": self._elicit,
            "fs/read_text_file": self._offered,
            "fs/write_text_file": self._offered,
            "terminal/create": self._offered,
            "terminal/output": self._offered,
            "terminal/wait_for_exit": self._offered,
            "terminal/kill": self._offered,
            "terminal/release": self._offered,
        }
        self.agent.on_notification = {"session/update": self._update_with_care}

    def from_client(self, line: bytes | LineTooLong) -> None:
        """Handle a line of the client."""
        self._exchange.from_client(line)

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """Handle a line of the agent; updates, which are most of them, are decoded in one pass."""
        note = v1.decode_update_line(line) if isinstance(line, bytes) else None
        if note is None:
            self._exchange.from_agent(line)
            return
        try:
            self._update(note)
        except Exception as error:
            self._exchange.report_failure("session/update", self.agent, error)
        if self._losses:
            self._log.flush("session/update")

    # ---- sessions

    def session(self, session_id: str) -> UpSession:
        """The session with this id; a new one if there is none."""
        session = self.sessions.get(session_id)
        if session is None:
            check_session_count(len(self.sessions))
            lifting = Lifting(self._losses, own_terminals=self._own_terminals)
            session = UpSession(session_id, codec.update_head(codec.encode(session_id)), lifting)
            self.sessions[session_id] = session
        return session

    def _resumed_lifting(self) -> Lifting:
        return Lifting.resumed(self._losses, own_terminals=self._own_terminals)

    # ---- updates

    def _update_with_care(self, notification: Notification) -> None:
        """Handle an update that the fast decoder refused."""
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v1.SessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self._report(Problem("update", text, note.session_id))
        if isinstance(note.update, v1.UnknownUpdate) and note.update.tag == "state_update":
            # it would contradict the states that the bridge reports
            self._log.report("session/update", "state_update", "version 1 has no such update")
        else:
            self._update(note)

    def _update(self, note: v1.SessionNotification) -> None:
        """Convert an update and send it to the client."""
        session = self.sessions.get(note.session_id) or self.session(note.session_id)
        if session.replay_timer is not None:
            session.replay_timer.restart()
        if session.muted and (session.closed or not isinstance(note.update, _CURRENT)):
            if session.closed:
                self._log.report("session/update", "", "the session was closed")
            else:
                session.lifting.skip(note.update)
            return
        turn = session.turn
        if turn is not None and not turn.acknowledged:
            self._acknowledge(session, turn)
        lifted = session.lifting.update(note.update)
        send, head = self.client.side.send, session.head
        if note.meta is UNSET and note.unknown is UNSET:
            for update in lifted:
                send(head + codec.encode(update) + b"}}\n")
            return
        # the notification's own _meta and unknown fields go with the last update
        for update in lifted[:-1]:
            send(head + codec.encode(update) + b"}}\n")
        for update in lifted[-1:]:
            rest = carried(note, v2.UpdateSessionNotification, self._losses, "")
            params = v2.UpdateSessionNotification(session.session_id, update, **rest)
            self.client.notify("session/update", params)

    def send_update(self, session: UpSession, update: v2.SessionUpdate) -> None:
        """Send the client an update that the bridge makes itself."""
        self.client.side.send(session.head + codec.encode(update) + b"}}\n")

    # ---- prompts

    def _prompt(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.PromptRequest)
        _, lowered = downgrade_params(request.method, params, self._losses)
        prompt = Prompt(request.id, lowered, params.prompt)
        session = self.session(params.session_id)
        if session.closed:
            session.muted = ""  # the client uses it again
        if session.turn is None:
            self._begin(session, prompt)
        elif len(session.queued) >= WAITING:
            raise RequestError.invalid_params("too many prompts are queued in this session")
        else:
            session.queued.append(prompt)

    def _begin(self, session: UpSession, prompt: Prompt) -> None:
        session.finish_replay()
        if session.muted == "late replay":
            session.muted = ""
        session.lifting.prompt(prompt.params.prompt)
        turn = session.turn = Turn(prompt, session.lifting.prompt_id)

        def answered(answer: Answer) -> None:
            self._end_turn(session, turn, answer)

        params = codec.encode(prompt.params)
        turn.at_agent = self.agent.request("session/prompt", params, prompt.request_id, answered)
        turn.stop_timer = self._start_timer(ACKNOWLEDGE, lambda: self._acknowledge(session, turn))

    def _acknowledge(self, session: UpSession, turn: Turn) -> None:
        """Answer the client's prompt, and report that work has begun."""
        if turn.acknowledged or session.turn is not turn:
            return
        turn.acknowledged = True
        turn.stop_timer()
        self.agent.detach(turn.at_agent)
        self.client.respond(turn.prompt.request_id, v2.PromptResponse(turn.message_id))
        self.send_update(session, v2.UserMessage(turn.message_id, turn.prompt.content))
        self.send_update(session, v2.StateUpdate("running"))

    def _end_turn(self, session: UpSession, turn: Turn, answer: Answer) -> None:
        """The agent answered the prompt: the turn is over, and so are its questions."""
        self._dismiss(session, session.questions_of(turn))
        turn.stop_timer()
        idle = self._end_state(session, turn, answer)
        if isinstance(answer, Failure) and turn.can_be_refused:
            session.lifting.refused()
            self.client.fail(turn.prompt.request_id, answer)
        elif not turn.over:
            self._acknowledge(session, turn)
            self.send_update(session, idle)
        session.turn = None
        if session.queued:
            self._begin(session, session.queued.popleft())
        elif session.closed:
            self.sessions.pop(session.session_id, None)

    def _end_state(self, session: UpSession, turn: Turn, answer: Answer) -> v2.StateUpdate:
        upgrader = session.lifting.upgrader
        if isinstance(answer, Failure):
            sent = as_request_error(answer)
            error = Error(sent.code, sent.message, sent.data)
            return upgrader.failed(error, cancelling=turn.cancelled)
        try:
            return upgrader.finished(read_result(answer, v1.PromptResponse))
        except (Malformed, NotConvertible) as reason:
            failure = Error(INTERNAL_ERROR, f"Bad answer: {reason}")
            return v2.StateUpdate("idle", "error", failure)

    # ---- cancel and close

    def _cancel_request(self, notification: Notification) -> None:
        params = codec.decode(notification.params or b"{}", v2.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is not None:
            self._cancel(session, params)

    def _cancel(self, session: UpSession, params: v2.SessionParams | None = None) -> None:
        """Refuse the queued prompts of a session, and cancel the turn that runs."""
        while session.queued:
            self.client.fail(session.queued.popleft().request_id, RequestError.cancelled())
        self._cancel_turn(session, params or v2.SessionParams(session.session_id))

    def _cancel_turn(self, session: UpSession, params: v2.SessionParams) -> None:
        turn = session.turn
        if turn is not None and not (turn.cancelled or turn.over):
            turn.cancelled = True
            self.agent.notify("session/cancel", params)
        had_questions = turn is not None and bool(session.questions_of(turn))
        self._dismiss(session, list(session.questions))
        if had_questions:
            self.send_update(session, v2.StateUpdate("running"))

    def _dismiss(self, session: UpSession, questions: list[RequestId]) -> None:
        """Answer questions of the agent without the user."""
        for at_client in questions:
            question = session.questions.pop(at_client)
            # the first answer counts: one that the client still sends is dropped
            self.client.cancel(at_client)
            question.dismiss()

    def _withdraw_prompt(self, request_id: RequestId) -> bool:
        """Cancel a prompt that was not acknowledged; later the client has its answer already."""
        for session in self.sessions.values():
            turn = session.turn
            if turn is not None and turn.prompt.request_id == request_id and not turn.acknowledged:
                self._cancel_turn(session, v2.SessionParams(session.session_id))
                return True
            for prompt in session.queued:
                if prompt.request_id == request_id:
                    session.queued.remove(prompt)
                    self.client.fail(request_id, RequestError.cancelled())
                    return True
        return False

    def _closed(self, session: UpSession) -> None:
        """End a session that the client closed, whatever the agent still does in it."""
        session.finish_replay()
        turn = session.turn
        if turn is not None and not turn.over:
            self._acknowledge(session, turn)
            turn.over = turn.cancelled = True
            self._dismiss(session, list(session.questions))
            self.send_update(session, CANCELLED)
        session.muted = "closed"
        if turn is None:
            self.sessions.pop(session.session_id, None)
        if self._offers is not None:
            self._offers.forget(session.session_id)

    # ---- questions of the agent

    def _permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.RequestPermissionRequest)
        session = self.session(params.session_id)
        if session.closed or session.cancelled:
            # the user is not asked, but the changes to the tool call are sent
            call = recast(params.tool_call, v1.ToolCallUpdate, self._losses)
            self.agent.respond(request.id, _PERMISSION_CANCELLED)
            self._update(v1.SessionNotification(params.session_id, call))
            return
        lifted = session.lifting.permission(params)

        def convert(answer: Response) -> Any:
            outcome = read_result(answer, v2.RequestPermissionResponse)
            return downgrade_outcome(outcome, self._losses)

        self._ask_for_agent(session, request, lifted, convert, _PERMISSION_CANCELLED)

    def _elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.CreateElicitationRequest)
        name, lifted = upgrade_params(request.method, params, self._losses)
        lifted = self._in_scope(lifted)
        session_id = _field(lifted, "session_id", "sessionId")
        session = self.session(session_id) if isinstance(session_id, str) else None

        def convert(answer: Response) -> Any:
            result = read_result(answer, v2.METHODS[name].result)
            return downgrade_result(name, result, self._losses)

        self._ask_for_agent(session, request, lifted, convert, ElicitationCancel())

    def _in_scope(self, question: v2.CreateElicitationRequest) -> v2.CreateElicitationRequest:
        """A question about a request, with the client's id for that request.

        v2 answers a prompt early, so a question about a prompt becomes one about its session.
        """
        at_agent = _field(question, "request_id", "requestId")
        if at_agent is UNSET or at_agent is None:
            return question
        for session in self.sessions.values():
            if session.turn is not None and session.turn.at_agent == at_agent:
                return _scoped(question, UNSET, session.session_id)
        pending = self.agent.pending.get(at_agent) if isinstance(at_agent, int | str) else None
        if pending is None or pending.origin is None:
            raise RequestError.invalid_params("no such request is pending")
        return _scoped(question, pending.origin, UNSET)

    def _ask_for_agent(
        self,
        session: UpSession | None,
        request: Request,
        params: Any,
        convert: Callable[[Response], Any],
        dismissed: Any,
    ) -> None:
        """Send a question of the agent to the client, and the converted answer back."""

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self.agent.fail(request.id, answer)
            else:
                self.agent.respond(request.id, convert(answer))

        def dismiss() -> None:
            self.agent.respond(request.id, dismissed)

        self.ask_user(session, request.method, params, request.id, answered, dismiss)

    def ask_user(
        self,
        session: UpSession | None,
        method: str,
        params: Any,
        origin: RequestId,
        answered: OnAnswer,
        dismiss: Callable[[], None],
    ) -> None:
        """Ask the client's user; the session requires action until there is an answer.

        Args:
            session: The session that the question is about, if it is about one.
            method: The method of the request to the client.
            params: Its params.
            origin: The id of the agent's request that the question stands for.
            answered: Called with the client's answer.
            dismiss: Called instead if the question is settled without the client. Neither is
                called if the agent dies.
        """
        encoded = codec.encode(params)
        turn = session.turn if session is not None else None
        if session is not None and turn is not None:
            self._acknowledge(session, turn)
            if not session.questions_of(turn) and not turn.over:
                self.send_update(session, v2.StateUpdate("requires_action"))

        def on_answer(answer: Answer) -> None:
            if session is not None:
                session.questions.pop(at_client, None)
            try:
                answered(answer)
            finally:
                self._resume_running(session, turn)

        at_client = self.client.request(method, encoded, origin, on_answer)
        if session is not None:
            session.questions[at_client] = Question(turn, dismiss)

    def _resume_running(self, session: UpSession | None, turn: Turn | None) -> None:
        if session is None or turn is None or session.turn is not turn:
            return
        if not (turn.over or session.questions_of(turn)):
            self.send_update(session, v2.StateUpdate("running"))

    # ---- other requests of the client

    def _simple(self, request: Request) -> None:
        """A request that v1 has too, with or without another name."""
        name, params = self._lowered(request)

        def convert(result: Any) -> Any:
            return upgrade_result(name, result, self._losses)

        self._exchange.convert_request(request, name, params, convert)

    def _lowered(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v2.METHODS[request.method].params)
        return downgrade_params(request.method, params, self._losses)

    def _new(self, request: Request) -> None:
        name, params = self._lowered(request)

        def convert(result: v1.NewSessionResponse) -> Any:
            session = self.session(result.session_id)
            session.roots = _roots(params)
            # the losses of options are reported once, where the result is converted
            session.lifting.upgrader.setup(result, Losses())
            return upgrade_result(name, result, self._losses)

        self._exchange.convert_request(request, name, params, convert)

    def _fork(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.ResumeSessionRequest)
        name, lowered = downgrade_params(request.method, params, self._losses)

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self.client.fail(request.id, answer)
                return
            result = read_result(answer, v1.NewSessionResponse)
            replayed = result.session_id in self.sessions  # by some agents, before the answer
            session = self.session(result.session_id)
            session.roots = _roots(lowered)
            if not replayed:
                session.lifting = self._resumed_lifting()
            session.lifting.upgrader.setup(result, Losses())
            self.client.respond(request.id, upgrade_result(name, result, self._losses))

        self.agent.request(name, codec.encode(lowered), request.id, answered)

    def _resume(self, request: Request) -> None:
        name, params = self._lowered(request)
        session = self.sessions.get(params.session_id)
        if session is not None:
            session.finish_replay()
        known = session is not None and bool(session.roots)
        if name == "session/load" and not self._can_load:
            raise RequestError(METHOD_NOT_FOUND, f"The agent cannot replay sessions: {_NO_LOAD}")
        if name == "session/resume" and not (self._capabilities.resume or self._can_load):
            if session is None or not known or session.closed:
                reason = f"{_NO_LOAD} and no session/resume, and the session is not open here"
                raise RequestError(METHOD_NOT_FOUND, f"The agent cannot resume sessions: {reason}")
            self._rejoin(request, session, params)
        else:
            self._set_up(request, name, params, known)

    def _rejoin(self, request: Request, session: UpSession, params: Any) -> None:
        """Resume a session that is open here, without the agent."""
        if _roots(params) != session.roots or params.mcp_servers:
            reason = "the agent cannot set up an open session anew: it goes on as it was"
            path = "cwd" if _roots(params) != session.roots else "mcpServers"
            self._losses.report(path, reason)
        self.send_update(session, session.state)
        options = session.lifting.upgrader.config_options
        result = v2.ResumeSessionResponse(config_options=options or UNSET)
        self.client.respond(request.id, result)

    def _set_up(self, request: Request, name: str, params: Any, known: bool) -> None:
        """Send a load or a resume; an agent that cannot resume loads, and its replay is muted."""
        unwanted = name == "session/resume" and not self._capabilities.resume
        if unwanted:
            name, servers = "session/load", params.mcp_servers or []
            params = recast(params, v1.LoadSessionRequest, self._losses, mcp_servers=servers)
        session = self.session(params.session_id)
        before, roots = session.lifting, session.roots
        session.roots = _roots(params)
        session.muted = "replay" if unwanted else ""
        if not known:
            session.lifting = self._resumed_lifting()
        if name == "session/load":
            session.lifting = session.lifting.replayed()

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                session.muted, session.lifting, session.roots = "", before, roots
                self.client.fail(request.id, answer)
                return
            setup = read_result(answer, v1.METHODS[name].result)
            session.lifting.upgrader.setup(setup, Losses())
            result = upgrade_result(name, setup, self._losses)
            if name == "session/load":  # some agents go on to replay
                session.replay_timer = SilenceTimer(
                    self._start_timer, lambda: finished(result), quiet=QUIET, longest=REPLAY
                )
            else:
                finished(result)

        def finished(result: Any) -> None:
            session.replay_timer = None
            if session.muted == "replay":
                session.muted = "late replay"
            self.send_update(session, session.state)
            self.client.respond(request.id, result)

        self.agent.request(name, codec.encode(params), request.id, answered)

    def _list(self, request: Request) -> None:
        if not self._capabilities.list:
            reason = "The agent cannot list its sessions: it has no session/list"
            raise RequestError(METHOD_NOT_FOUND, reason)
        self._simple(request)

    def _close_session(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is not None:
            self._cancel(session)
        if self._capabilities.close:
            self._end_session(request)
        else:
            if session is not None:
                self._closed(session)
            self.client.respond(request.id, v2.Empty())

    def _delete(self, request: Request) -> None:
        if not self._capabilities.delete:
            raise RequestError.method_not_found(request.method)
        self._end_session(request)

    def _end_session(self, request: Request) -> None:
        name, params = self._lowered(request)

        def convert(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None:
                self._closed(session)
            return upgrade_result(name, result, self._losses)

        self._exchange.convert_request(request, name, params, convert)

    def _set_option(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SetSessionConfigOptionRequest)
        session = self.session(params.session_id)
        upgrader = session.lifting.upgrader
        if upgrader.is_made_mode(params.config_id):
            self._set_mode(request, session, params)
            return
        name, lowered = downgrade_params(request.method, params, self._losses)

        def convert(result: v1.SetSessionConfigOptionResponse) -> Any:
            converted = upgrade_result(name, result, self._losses)
            options = session.lifting.upgrader.options_set(converted)
            return replace(converted, config_options=options)

        self._exchange.convert_request(request, name, lowered, convert)

    def _set_mode(
        self, request: Request, session: UpSession, params: v2.SetSessionConfigOptionRequest
    ) -> None:
        """v1 has a request of its own for modes."""
        mode = params.value
        if not isinstance(mode, str):
            raise RequestError.invalid_params("a mode is chosen by its id, which is a string")
        rest = carried(params, v1.SetSessionModeRequest, self._losses, "")
        lowered = v1.SetSessionModeRequest(params.session_id, mode, **rest)

        def convert(result: v1.Empty) -> Any:
            upgrader = session.lifting.upgrader
            upgrader.mode_chosen(mode)
            shape = v2.SetSessionConfigOptionResponse
            return shape(upgrader.config_options, **carried(result, shape, self._losses, ""))

        self._exchange.convert_request(request, "session/set_mode", lowered, convert)

    def _not_found(self, request: Request) -> None:
        raise RequestError.method_not_found(request.method)

    # ---- files and terminals of the bridge

    def _cancel_terminal(self, request: Request) -> None:
        """Only the bridge's own terminals can be cancelled."""
        if self._offers is None:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v2.CancelTerminalRequest)
        if not self._offers.cancel(params.session_id, params.terminal_id):
            raise RequestError.invalid_params("the bridge runs no such terminal")
        self.client.respond(request.id, v2.Empty())

    def _offered(self, request: Request) -> None:
        if self._offers is None:
            raise RequestError.method_not_found(request.method)
        self._offers.answer(self, request)

    # ---- the end of a side

    def agent_died(self, error: RequestError) -> None:
        """Answer every request of the client with `error`, queued prompts included."""
        for session in self.sessions.values():
            session.questions.clear()  # cancelled below, and there is no agent to answer
            session.finish_replay()  # the session was loaded
            while session.queued:
                self.client.fail(session.queued.popleft().request_id, error)
        self._exchange.agent_died(error)

    def client_left(self) -> None:
        """Cancel the work of the agent and answer its questions."""
        for session in self.sessions.values():
            self._cancel(session)
        self._exchange.client_left()

    def close(self) -> None:
        """Stop every timer."""
        for session in self.sessions.values():
            if session.turn is not None:
                session.turn.stop_timer()
            if session.replay_timer is not None:
                session.replay_timer.stop()


def _field(question: v2.CreateElicitationRequest, name: str, key: str) -> Any:
    if isinstance(question, UnknownElicitation):
        return question.raw.fields.get(key, UNSET)
    return getattr(question, name)


def _scoped(
    question: v2.CreateElicitationRequest, request_id: Any, session_id: Any
) -> v2.CreateElicitationRequest:
    if isinstance(question, UnknownElicitation):
        scope = {"requestId": request_id, "sessionId": session_id}
        given = {key: value for key, value in scope.items() if value is not UNSET}
        rest = {key: value for key, value in question.raw.fields.items() if key not in scope}
        return UnknownElicitation(raw=Extras(rest | given))
    return replace(question, request_id=request_id, session_id=session_id)


def _roots(params: Any) -> list[str]:
    return [params.cwd, *(params.additional_directories or [])]
