"""A client of version 2 and an agent of version 1: everything but turns and questions.

What version 2 takes for granted and the agent lacks is made up for, where that can be done: a
resume by a load whose replay is kept from the client, a close that only forgets.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from twofold.bridge.lifting import Lifting
from twofold.bridge.loss_log import LossLog
from twofold.bridge.side import End
from twofold.bridge.translation import (
    QUIET,
    REPLAY,
    Later,
    Notifications,
    Outcome,
    Requests,
    Side,
    Silence,
    Translation,
    as_request_error,
    read_result,
)
from twofold.bridge.up_session import Prompt, Question, Turn, UpSession
from twofold.convert.losses import Losses, NotConvertible, carried, recast
from twofold.convert.permissions import downgrade_outcome
from twofold.convert.requests import (
    downgrade_params,
    downgrade_result,
    upgrade_params,
    upgrade_result,
)
from twofold.peer.problems import Problem, Report
from twofold.rpc.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Extras, Malformed
from twofold.wire.elicitation import ElicitationCancel, UnknownElicitation
from twofold.wire.shared import CancelledPermissionOutcome, Error

# The turns of a version 1 agent, as a client of version 2 sees them.
#
# Version 1 runs one turn at a time and answers a prompt when the turn is over. The client is told
# that its prompt was taken in at the first sign of life of the agent (or after a moment), so that
# an early error still reaches it as an error; the turn's end becomes `idle`. A cancel settles what
# was asked, on both sides. What a session is doing is for the bridge to say, and nobody else.


ACKNOWLEDGE = 0.2
"""After how many seconds of silence a prompt counts as taken in."""
WAITING = 64
"""How many prompts of one session may wait for the turn to end."""


class UpTurns(Translation):
    """Sessions, updates and prompts of a version 1 agent."""

    def __init__(
        self,
        client: End,
        agent: End,
        log: LossLog,
        report: Report,
        later: Later,
        *,
        own_terminals: bool = False,
    ) -> None:
        super().__init__(client, agent, log, report, later)
        self._own_terminals = own_terminals
        self.sessions: dict[str, UpSession] = {}

    @property
    def losses(self) -> Losses:
        """Where converters report."""
        return self.log.losses

    def session(self, session_id: str) -> UpSession:
        """A session, made when it is first heard of."""
        session = self.sessions.get(session_id)
        if session is None:
            self.check_sessions(len(self.sessions))
            upgrader = Lifting(self.log.losses, own_terminals=self._own_terminals)
            session = UpSession(session_id, codec.update_head(codec.encode(session_id)), upgrader)
            self.sessions[session_id] = session
        return session

    # ---- updates

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """A line of the agent; updates are most of them, and are read in one go."""
        note = v1.decode_update_line(line) if isinstance(line, bytes) else None
        if note is None:
            super().from_agent(line)
            return
        try:
            self.update(note)
        except Exception as error:
            self.not_passed_on("session/update", self.agent, error)
        if self.log.losses:
            self.log.flush("session/update")

    def updated(self, notification: Notification) -> None:
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v1.SessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self.report(Problem("update", text, note.session_id))
        if isinstance(note.update, v1.UnknownUpdate) and note.update.tag == "state_update":
            # it would contradict what the bridge says
            self.log.tell("session/update", "state_update", "version 1 has no such update")
        else:
            self.update(note)

    def update(self, note: v1.SessionNotification) -> None:
        """Tell the client what the agent told."""
        session = self.sessions.get(note.session_id) or self.session(note.session_id)
        if session.settling is not None:
            session.settling.broken()
        if session.muted and session.keeps(note.update):
            if session.muted == "closed":
                self.log.tell("session/update", "", "the session was closed")
            else:
                session.upgrader.pass_over(note.update)
            return
        turn = session.turn
        if turn is not None and not turn.acknowledged:
            self.acknowledge(session, turn)
        lifted = session.upgrader.update(note.update)
        if note.meta is not UNSET or note.unknown is not UNSET:
            self._tell_with(session, lifted, note)
            return
        send, head = self.client.end.send, session.head
        for update in lifted:
            send(head + codec.encode(update) + b"}}\n")

    def _tell_with(
        self, session: UpSession, lifted: list[v2.SessionUpdate], note: v1.SessionNotification
    ) -> None:
        """Tell updates, the last of them with what stood beside the one they are made of."""
        for update in lifted[:-1]:
            self.tell(session, update)
        for update in lifted[-1:]:
            beside = carried(note, v2.UpdateSessionNotification, self.losses, "")
            params = v2.UpdateSessionNotification(session.session_id, update, **beside)
            self.notify(self.client, "session/update", params)

    def tell(self, session: UpSession, update: v2.SessionUpdate) -> None:
        """Tell the client one update."""
        self.client.end.send(session.head + codec.encode(update) + b"}}\n")

    # ---- prompts

    def prompt(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.PromptRequest)
        _, lowered = downgrade_params(request.method, params, self.losses)
        prompt = Prompt(request.id, lowered, params.prompt)
        session = self.session(params.session_id)
        session.in_use()
        if session.turn is None:
            self._begin(session, prompt)
        elif len(session.waiting) >= WAITING:
            raise RequestError.invalid_params("too many prompts wait in this session")
        else:
            session.waiting.append(prompt)

    def _begin(self, session: UpSession, prompt: Prompt) -> None:
        if session.settling is not None:
            session.settling.end()
        if session.muted == "late replay":
            session.muted = ""
        session.upgrader.prompt(prompt.params.prompt)
        turn = session.turn = Turn(prompt, session.upgrader.prompt_id)

        def ended(answer: Outcome) -> None:
            self._ended(session, turn, answer)

        params = codec.encode(prompt.params)
        turn.at_agent = self.agent.ask("session/prompt", params, prompt.identity, ended)
        turn.timer = self.later(ACKNOWLEDGE, lambda: self.acknowledge(session, turn))

    def acknowledge(self, session: UpSession, turn: Turn) -> None:
        """Tell the client that its prompt was taken in, and that work has begun."""
        if turn.acknowledged or session.turn is not turn:
            return
        turn.acknowledged = True
        if turn.timer is not None:
            turn.timer()
        self.agent.disown(turn.at_agent)
        self.respond(self.client, turn.prompt.identity, v2.PromptResponse(turn.message_id))
        self.tell(session, v2.UserMessage(turn.message_id, turn.prompt.shown))
        self.tell(session, v2.StateUpdate("running"))

    def _ended(self, session: UpSession, turn: Turn, answer: Outcome) -> None:
        """The agent answered the prompt: the turn is over, and what was asked in it is void."""
        self._dismiss(session, session.asked_in(turn))
        if turn.timer is not None:
            turn.timer()
        idle = self._idle(session, turn, answer)
        if isinstance(answer, Failure) and not (turn.acknowledged or turn.cancelled):
            session.upgrader.refused()
            self.give_back(self.client, turn.prompt.identity, answer)
        elif not turn.over:
            self.acknowledge(session, turn)
            self.tell(session, idle)
        session.turn = None
        if session.waiting:
            self._begin(session, session.waiting.popleft())
        elif session.muted == "closed":
            self.forget(session)

    def _idle(self, session: UpSession, turn: Turn, answer: Outcome) -> v2.StateUpdate:
        if isinstance(answer, Failure):
            # whatever comes now is no echo of the prompt
            session.upgrader.finished(v1.PromptResponse("cancelled"))
            if turn.cancelled:
                return v2.StateUpdate("idle", "cancelled")
            error = as_request_error(answer)
            told = Error(error.code, error.message, error.data)
            return v2.StateUpdate("idle", "error", told)
        try:
            return session.upgrader.finished(read_result(answer, v1.PromptResponse))
        except (Malformed, NotConvertible) as error:
            return v2.StateUpdate("idle", "error", Error(INTERNAL_ERROR, f"Bad answer: {error}"))

    # ---- cancel and close

    def cancelled(self, notification: Notification) -> None:
        params = codec.decode(notification.params or b"{}", v2.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is not None:
            self.cancel(session, params)

    def cancel(self, session: UpSession, params: v2.SessionParams) -> None:
        """Settle all that a session has not begun, and ask the agent to end what it has."""
        while session.waiting:
            self.fail(self.client, session.waiting.popleft().identity, RequestError.cancelled())
        self._cancel_turn(session, params)

    def _cancel_turn(self, session: UpSession, params: v2.SessionParams) -> None:
        turn = session.turn
        if turn is not None and not (turn.cancelled or turn.over):
            turn.cancelled = True
            self.notify(self.agent, "session/cancel", params)
        waited = turn is not None and bool(session.asked_in(turn))
        self._dismiss(session, list(session.asking))
        if waited:
            self.tell(session, v2.StateUpdate("running"))

    def _dismiss(self, session: UpSession, questions: list[RequestId]) -> None:
        """Answer what the agent asked as if the user had turned away."""
        for identity in questions:
            question = session.asking.pop(identity)
            # the first answer counts: what the client still answers is not waited for
            self.take_back(self.client, identity)
            question.dismiss()

    def withdraw(self, here: Side, identity: Any) -> bool:
        """A prompt that was not acknowledged is taken back; later there is nothing to take."""
        if here is not self.client:
            return False
        for session in self.sessions.values():
            turn = session.turn
            if turn is not None and turn.prompt.identity == identity and not turn.acknowledged:
                self._cancel_turn(session, v2.SessionParams(session.session_id))
                return True
            for prompt in session.waiting:
                if prompt.identity == identity:
                    session.waiting.remove(prompt)
                    self.fail(self.client, identity, RequestError.cancelled())
                    return True
        return False

    def closed(self, session: UpSession) -> None:
        """The client is done with a session, whatever the agent still does in it."""
        if session.settling is not None:
            session.settling.end()
        turn = session.turn
        if turn is not None and not turn.over:
            self.acknowledge(session, turn)
            turn.over = turn.cancelled = True
            self._dismiss(session, list(session.asking))
            self.tell(session, v2.StateUpdate("idle", "cancelled"))
        session.muted = "closed"
        if turn is None:
            self.forget(session)

    def forget(self, session: UpSession) -> None:
        """Nothing of a session has to be remembered any more."""
        self.sessions.pop(session.session_id, None)

    # ---- the end

    def agent_died(self, error: RequestError) -> None:
        """Prompts that wait fail, too."""
        for session in self.sessions.values():
            session.asking.clear()  # they are taken back, and there is nobody to answer
            if session.settling is not None:
                session.settling.end()  # it was loaded
            while session.waiting:
                self.fail(self.client, session.waiting.popleft().identity, error)
        super().agent_died(error)

    def client_left(self) -> None:
        """The agent is told to stop, and what it asked is answered."""
        for session in self.sessions.values():
            self.cancel(session, v2.SessionParams(session.session_id))
        super().client_left()

    def close(self) -> None:
        """Stop every timer."""
        for session in self.sessions.values():
            if session.turn is not None and session.turn.timer is not None:
                session.turn.timer()
            if session.settling is not None:
                session.settling.stop()


# What a version 1 agent asks the user of a version 2 client: permissions and elicitations.
#
# While a question of a turn is open, the session requires action. Each is answered once: by the
# user, or by the cancel that comes first.


_CANCELLED = v1.RequestPermissionResponse(CancelledPermissionOutcome())


class UpQuestions(UpTurns):
    """Permissions and elicitations of a version 1 agent."""

    def permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.RequestPermissionRequest)
        session = self.session(params.session_id)
        turn = session.turn
        if session.muted == "closed" or (turn is not None and turn.cancelled):
            # nobody is asked any more, but what is said of the tool call holds
            call = recast(params.tool_call, v1.ToolCallUpdate, self.losses)
            self.respond(self.agent, request.id, _CANCELLED)
            self.update(v1.SessionNotification(params.session_id, call))
            return
        lifted = session.upgrader.permission(params)

        def decided(answer: Response) -> Any:
            read = read_result(answer, v2.RequestPermissionResponse)
            return downgrade_outcome(read, self.losses)

        self._question(session, request, lifted, decided, _CANCELLED)

    def elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.CreateElicitationRequest)
        name, lifted = upgrade_params(request.method, params, self.losses)
        lifted = self._in_scope(lifted)
        session_id = _field(lifted, "session_id", "sessionId")
        session = self.session(session_id) if isinstance(session_id, str) else None

        def decided(answer: Response) -> Any:
            read = read_result(answer, v2.METHODS[name].result)
            return downgrade_result(name, read, self.losses)

        self._question(session, request, lifted, decided, ElicitationCancel())

    def _in_scope(self, question: v2.CreateElicitationRequest) -> v2.CreateElicitationRequest:
        """A question about a request, under the client's id for it.

        A prompt is answered early in version 2, so a question about one is about its session.
        """
        at_agent = _field(question, "request_id", "requestId")
        if at_agent is UNSET or at_agent is None:
            return question
        for session in self.sessions.values():
            if session.turn is not None and session.turn.at_agent == at_agent:
                return _scoped(question, UNSET, session.session_id)
        asked = self.agent.asked.get(at_agent) if isinstance(at_agent, int | str) else None
        if asked is None or asked.asker is None:
            raise RequestError.invalid_params("no such request is pending")
        return _scoped(question, asked.asker, UNSET)

    def _question(
        self,
        session: UpSession | None,
        request: Request,
        params: Any,
        convert: Callable[[Response], Any],
        dismissed: Any,
    ) -> None:
        """Ask the client's user for the agent."""

        def answered(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.agent, request.id, answer)
            else:
                self.respond(self.agent, request.id, convert(answer))

        def dismiss() -> None:
            self.respond(self.agent, request.id, dismissed)

        self.ask_user(session, request.method, params, request.id, answered, dismiss)

    def ask_user(
        self,
        session: UpSession | None,
        method: str,
        params: Any,
        asker: RequestId,
        answered: Callable[[Outcome], None],
        dismiss: Callable[[], None],
    ) -> None:
        """Ask the client's user; the session requires action while it waits.

        `asker` is the agent's request that this is about. Either `answered` or `dismiss` is
        called, unless the agent dies.
        """
        encoded = codec.encode(params)
        turn = session.turn if session is not None else None
        if session is not None and turn is not None:
            self.acknowledge(session, turn)
            if not session.asked_in(turn) and not turn.over:
                self.tell(session, v2.StateUpdate("requires_action"))

        def then(answer: Outcome) -> None:
            if session is not None:
                session.asking.pop(identity, None)
            try:
                answered(answer)
            finally:
                self._running_again(session, turn)

        identity = self.client.ask(method, encoded, asker, then)
        if session is not None:
            session.asking[identity] = Question(turn, dismiss)

    def _running_again(self, session: UpSession | None, turn: Turn | None) -> None:
        if session is None or turn is None or session.turn is not turn:
            return
        if not (turn.over or session.asked_in(turn)):
            self.tell(session, v2.StateUpdate("running"))


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


if TYPE_CHECKING:
    from twofold.bridge.offers import Offers

_NO_LOAD = "it has no session/load"


class Up(UpQuestions):
    """Translates for a client of version 2; `able` is what the agent of version 1 can do."""

    def __init__(
        self,
        client: End,
        agent: End,
        log: LossLog,
        report: Report,
        later: Later,
        able: v1.AgentCapabilities,
        *,
        own_terminals: bool = False,
        offers: "Offers | None" = None,
    ) -> None:
        super().__init__(client, agent, log, report, later, own_terminals=own_terminals)
        self._load = bool(able.load_session)
        self._able = able.session_capabilities or v1.SessionCapabilities()
        self._offers = offers

    # ---- asking the agent

    def _simple(self, request: Request) -> None:
        """A request that the other version has too, with or without another name."""
        name, params = self._lowered(request)
        self._ask(request, name, params, lambda result: result)

    def _ask(
        self,
        request: Request,
        name: str,
        params: Any,
        look: Callable[[Any], Any],
        answered: Callable[[Outcome], None] = lambda answer: None,
    ) -> None:
        """Ask the agent, `look` at the result, and give it back converted."""

        def convert(result: Any) -> Any:
            return upgrade_result(name, look(result), self.losses)

        self._ask_for(request, name, params, convert, answered)

    def _ask_for(
        self,
        request: Request,
        name: str,
        params: Any,
        convert: Callable[[Any], Any],
        answered: Callable[[Outcome], None] = lambda answer: None,
    ) -> None:
        """Ask the agent; `answered` hears of any answer, and `convert` makes one of a result."""

        def then(answer: Outcome) -> None:
            answered(answer)
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
            else:
                result = read_result(answer, v1.METHODS[name].result)
                self.respond(self.client, request.id, convert(result))

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _lowered(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v2.METHODS[request.method].params)
        return downgrade_params(request.method, params, self.losses)

    # ---- sessions begin

    def _new(self, request: Request) -> None:
        name, params = self._lowered(request)

        def made(result: v1.NewSessionResponse) -> v1.NewSessionResponse:
            session = self.session(result.session_id)
            session.roots = _roots(params)
            # what is lost of options is reported once, where the result is converted
            session.upgrader.setup(result, Losses())
            return result

        self._ask(request, name, params, made)

    def _fork(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.ResumeSessionRequest)
        name, lowered = downgrade_params(request.method, params, self.losses)

        def answered(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            read = read_result(answer, v1.NewSessionResponse)
            told = read.session_id in self.sessions  # some replay it first
            session = self.session(read.session_id)
            session.roots = _roots(lowered)
            if not told:
                own = self._own_terminals
                session.upgrader = Lifting.resumed(self.log.losses, own_terminals=own)
            session.upgrader.setup(read, Losses())
            self.respond(self.client, request.id, upgrade_result(name, read, self.losses))

        self.agent.ask(name, codec.encode(lowered), request.id, answered)

    def _resume(self, request: Request) -> None:
        name, params = self._lowered(request)
        session = self.sessions.get(params.session_id)
        if session is not None and session.settling is not None:
            session.settling.end()
        known = session is not None and bool(session.roots)
        if name == "session/load" and not self._load:
            raise RequestError(METHOD_NOT_FOUND, f"The agent cannot replay sessions: {_NO_LOAD}")
        if name == "session/resume" and not (self._able.resume or self._load):
            if session is None or not known or session.muted == "closed":
                reason = f"{_NO_LOAD} and no session/resume, and the session is not open here"
                raise RequestError(METHOD_NOT_FOUND, f"The agent cannot resume sessions: {reason}")
            self._rejoin(request, session, params)
        else:
            self._set_up(request, name, params, known)

    def _rejoin(self, request: Request, session: UpSession, params: Any) -> None:
        """Go on with a session that is open here: the agent has no part in that."""
        if _roots(params) != session.roots or params.mcp_servers:
            reason = "the agent cannot set up an open session anew: it goes on as it was"
            self.losses.report("cwd" if _roots(params) != session.roots else "mcpServers", reason)
        self.tell(session, _state(session))
        options = session.upgrader.config_options
        result = v2.ResumeSessionResponse(config_options=options or UNSET)
        self.respond(self.client, request.id, result)

    def _set_up(self, request: Request, name: str, params: Any, known: bool) -> None:
        """Have the agent load or resume a session; one that cannot resume loads it unseen."""
        unwanted = name == "session/resume" and not self._able.resume
        if unwanted:
            name, servers = "session/load", params.mcp_servers or []
            params = recast(params, v1.LoadSessionRequest, self.losses, mcp_servers=servers)
        session = self.session(params.session_id)
        before, roots = session.upgrader, session.roots
        session.roots = _roots(params)
        session.muted = "replay" if unwanted else ""
        if not known:
            own = self._own_terminals
            session.upgrader = Lifting.resumed(self.log.losses, own_terminals=own)
        if name == "session/load":
            session.upgrader = session.upgrader.replayed()

        def answered(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                session.muted, session.upgrader, session.roots = "", before, roots
                self.give_back(self.client, request.id, answer)
                return
            read = read_result(answer, v1.METHODS[name].result)
            session.upgrader.setup(read, Losses())
            result = upgrade_result(name, read, self.losses)
            if name == "session/load":  # some go on to replay
                session.settling = Silence(
                    self.later, lambda: finished(result), quiet=QUIET, longest=REPLAY
                )
            else:
                finished(result)

        def finished(result: Any) -> None:
            session.settling = None
            if session.muted == "replay":
                session.muted = "late replay"
            self.tell(session, _state(session))
            self.respond(self.client, request.id, result)

        self.agent.ask(name, codec.encode(params), request.id, answered)

    # ---- sessions are listed, and end

    def _list(self, request: Request) -> None:
        if not self._able.list:
            reason = "The agent cannot list its sessions: it has no session/list"
            raise RequestError(METHOD_NOT_FOUND, reason)
        self._simple(request)

    def _close(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is not None:
            self.cancel(session, v2.SessionParams(params.session_id))
        if self._able.close:
            self._end_session(request)
        else:
            if session is not None:
                self.closed(session)
            self.respond(self.client, request.id, v2.Empty())

    def _delete(self, request: Request) -> None:
        if not self._able.delete:
            raise RequestError.method_not_found(request.method)
        self._end_session(request)

    def _end_session(self, request: Request) -> None:
        name, params = self._lowered(request)

        def ended(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None:
                self.closed(session)
            return result

        self._ask(request, name, params, ended)

    def closed(self, session: UpSession) -> None:
        """What the bridge runs for a session ends with it."""
        super().closed(session)
        if self._offers is not None:
            self._offers.forget(session.session_id)

    # ---- options

    def _set_option(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.SetSessionConfigOptionRequest)
        session = self.session(params.session_id)
        if session.upgrader.is_made_mode(params.config_id):
            self._set_mode(request, session, params)
            return
        name, lowered = downgrade_params(request.method, params, self.losses)

        def chosen(result: v1.SetSessionConfigOptionResponse) -> Any:
            converted = upgrade_result(name, result, self.losses)
            options = session.upgrader.options_set(converted)
            return replace(converted, config_options=options)

        self._ask_for(request, name, lowered, chosen)

    def _set_mode(
        self, request: Request, session: UpSession, params: v2.SetSessionConfigOptionRequest
    ) -> None:
        """The modes of version 1 have a request of their own."""
        mode = params.value
        if not isinstance(mode, str):
            raise RequestError.invalid_params("a mode is chosen by its id, which is a string")
        beside = carried(params, v1.SetSessionModeRequest, self.losses, "")
        asked = v1.SetSessionModeRequest(params.session_id, mode, **beside)

        def chosen(result: v1.Empty) -> Any:
            session.upgrader.mode_chosen(mode)
            shape = v2.SetSessionConfigOptionResponse
            return shape(session.upgrader.config_options, **carried(result, shape, self.losses, ""))

        self._ask_for(request, "session/set_mode", asked, chosen)

    # ---- what only one side has

    def _cannot(self, request: Request) -> None:
        raise RequestError.method_not_found(request.method)

    def _cancel_terminal(self, request: Request) -> None:
        """Only the bridge's own terminals can be cancelled."""
        if self._offers is None:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v2.CancelTerminalRequest)
        if not self._offers.cancel(params.session_id, params.terminal_id):
            raise RequestError.invalid_params("the bridge runs no such terminal")
        self.respond(self.client, request.id, v2.Empty())

    def _offered(self, request: Request) -> None:
        """Files and terminals: only if the bridge offers them."""
        if self._offers is None:
            raise RequestError.method_not_found(request.method)
        self._offers.answer(self, request)

    client_version = 2
    on_client_request: ClassVar[Requests] = {
        "auth/login": _simple,
        "auth/logout": _simple,
        "session/new": _new,
        "session/resume": _resume,
        "session/fork": _fork,
        "session/list": _list,
        "session/close": _close,
        "session/delete": _delete,
        "session/set_config_option": _set_option,
        "session/prompt": UpQuestions.prompt,
        "tool_call/cancel": _cannot,
        "terminal/cancel": _cancel_terminal,
    }
    on_client_notification: ClassVar[Notifications] = {"session/cancel": UpQuestions.cancelled}
    on_agent_request: ClassVar[Requests] = {
        "session/request_permission": UpQuestions.permission,
        "elicitation/create": UpQuestions.elicit,
        "fs/read_text_file": _offered,
        "fs/write_text_file": _offered,
        "terminal/create": _offered,
        "terminal/output": _offered,
        "terminal/wait_for_exit": _offered,
        "terminal/kill": _offered,
        "terminal/release": _offered,
    }
    on_agent_notification: ClassVar[Notifications] = {"session/update": UpQuestions.updated}


def _roots(params: Any) -> list[str]:
    return [params.cwd, *(params.additional_directories or [])]


def _state(session: UpSession) -> v2.StateUpdate:
    """What a session is doing, as far as its client knows."""
    turn = session.turn
    if turn is None or turn.over or not turn.acknowledged:
        return v2.StateUpdate("idle")
    return v2.StateUpdate("requires_action" if session.asked_in(turn) else "running")
