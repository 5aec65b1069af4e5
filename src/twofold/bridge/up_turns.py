"""The turns of a version 1 agent, as a client of version 2 sees them.

Version 1 runs one turn at a time and answers a prompt when the turn is over. The client is told
that its prompt was taken in at the first sign of life of the agent (or after a moment), so that an
early error still reaches it as an error; the turn's end becomes `idle`. While the agent asks the
user something, the session requires action. A cancel settles what was asked, on both sides.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from twofold.bridge.end import End
from twofold.bridge.losses import LossLog
from twofold.bridge.translation import (
    Later,
    Outcome,
    Side,
    Timer,
    Translation,
    as_request_error,
    read_result,
)
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.permission import downgrade_outcome
from twofold.convert.setup import downgrade_params, upgrade_params
from twofold.convert.upgrader import Upgrader
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.runtime.errors import Problem, Report
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.content import ContentBlock
from twofold.wire.shared import CancelledPermissionOutcome, Error

ACKNOWLEDGE = 0.2
"""After how many seconds of silence a prompt counts as taken in."""
WAITING = 64
"""How many prompts of one session may wait for the turn to end."""

# What an agent says of a conversation while it replays it
_CONVERSATION = (v1.ContentChunk, v1.ToolCall, v1.ToolCallUpdate, v1.Plan, v1.PlanUpdate)
_CANCELLED = v1.RequestPermissionResponse(CancelledPermissionOutcome())


class _Prompt(Struct, eq=False):
    """A prompt of the client, in the words of version 1."""

    identity: RequestId
    params: v1.PromptRequest
    shown: list[ContentBlock]


class _Turn(Struct, eq=False):
    """The prompt that the agent works on."""

    prompt: _Prompt
    message_id: str = ""
    acknowledged: bool = False
    cancelled: bool = False
    timer: Timer | None = None


class _Question(Struct, eq=False):
    """What the agent asked the user."""

    identity: RequestId
    dismissed: Any
    """The answer if the turn is cancelled."""


class UpSession(Struct, eq=False):
    """What has to be remembered of a session."""

    session_id: str
    head: bytes
    upgrader: Upgrader
    roots: list[str] = field(default_factory=list)
    """The directories that it may touch; the first is where it works."""
    turn: _Turn | None = None
    waiting: deque[_Prompt] = field(default_factory=deque)
    asking: dict[RequestId, _Question] = field(default_factory=dict)
    """Questions of the agent that the user has not answered yet, by their ids at the client."""
    silent: bool = False
    """The agent replays what the client did not ask for."""
    closing: bool = False
    """The client is done with it; the agent is not."""


class UpTurns(Translation):
    """Sessions, updates, prompts and questions of a version 1 agent."""

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
            head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            upgrader = Upgrader(self.log.losses, own_terminals=self._own_terminals)
            session = UpSession(session_id, head % codec.encode(session_id), upgrader)
            self.sessions[session_id] = session
        return session

    # ---- updates

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """A line of the agent; updates are most of them, and are read in one go."""
        if isinstance(line, bytes):
            note = codec.decode_update_line_v1(line)
            if note is not None:
                self._update(note)
                return
        super().from_agent(line)

    def updated(self, notification: Notification) -> None:
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v1.SessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self.report(Problem("update", text, note.session_id))
        self._update(note)

    def _update(self, note: v1.SessionNotification) -> None:
        session = self.sessions.get(note.session_id) or self.session(note.session_id)
        if session.silent and isinstance(note.update, _CONVERSATION):
            return
        turn = session.turn
        if turn is not None and not turn.acknowledged:
            self._acknowledge(session, turn)
        try:
            lifted = session.upgrader.update(note.update)
        except NotConvertible as refusal:
            self.log.refuse("session/update", refusal)
            return
        send, head = self.client.end.send, session.head
        for update in lifted:
            send(head + codec.encode(update) + b"}}\n")
        if self.log.losses:
            self.log.flush("session/update")

    def tell(self, session: UpSession, update: v2.SessionUpdate) -> None:
        """Tell the client one update."""
        self.client.end.send(session.head + codec.encode(update) + b"}}\n")

    # ---- prompts

    def prompt(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.PromptRequest)
        _, lowered = downgrade_params(request.method, params, self.losses)
        prompt = _Prompt(request.id, lowered, params.prompt)
        session = self.session(params.session_id)
        if session.turn is None:
            self._begin(session, prompt)
        elif len(session.waiting) >= WAITING:
            raise RequestError.invalid_params("too many prompts wait in this session")
        else:
            session.waiting.append(prompt)

    def _begin(self, session: UpSession, prompt: _Prompt) -> None:
        turn = session.turn = _Turn(prompt)
        session.upgrader.prompt(prompt.params.prompt)
        turn.message_id = session.upgrader.prompt_id

        def ended(answer: Outcome) -> None:
            self._ended(session, turn, answer)

        self.agent.ask("session/prompt", codec.encode(prompt.params), prompt.identity, ended)
        turn.timer = self.later(ACKNOWLEDGE, lambda: self._acknowledge(session, turn))

    def _acknowledge(self, session: UpSession, turn: _Turn) -> None:
        """Tell the client that its prompt was taken in, and that work has begun."""
        if turn.acknowledged or session.turn is not turn:
            return
        turn.acknowledged = True
        if turn.timer is not None:
            turn.timer()
        self.respond(self.client, turn.prompt.identity, v2.PromptResponse(turn.message_id))
        self.tell(session, v2.UserMessage(turn.message_id, turn.prompt.shown))
        self.tell(session, v2.StateUpdate("running"))

    def _ended(self, session: UpSession, turn: _Turn, answer: Outcome) -> None:
        """The agent answered the prompt: the turn is over."""
        if isinstance(answer, Failure) and not (turn.acknowledged or turn.cancelled):
            self._over(session, turn)
            self.give_back(self.client, turn.prompt.identity, answer)
        else:
            self._acknowledge(session, turn)
            idle = self._idle(session, turn, answer)
            self._over(session, turn)
            self.tell(session, idle)
        if session.waiting and session.turn is None:
            self._begin(session, session.waiting.popleft())

    def _idle(self, session: UpSession, turn: _Turn, answer: Outcome) -> v2.StateUpdate:
        if isinstance(answer, Failure):
            if turn.cancelled:
                return v2.StateUpdate("idle", "cancelled")
            error = as_request_error(answer)
            told = Error(error.code, error.message, error.data)
            return v2.StateUpdate("idle", "error", told)
        try:
            return session.upgrader.finished(read_result(answer, v1.PromptResponse))
        except (Malformed, NotConvertible) as error:
            return v2.StateUpdate("idle", "error", Error(INTERNAL_ERROR, f"Bad answer: {error}"))

    def _over(self, session: UpSession, turn: _Turn) -> None:
        session.turn = None
        if turn.timer is not None:
            turn.timer()
        if session.closing:
            self.forget(session)

    def forget(self, session: UpSession) -> None:
        """Nothing of a session has to be remembered any more."""
        if session.turn is None:
            self.sessions.pop(session.session_id, None)
        session.closing = True

    # ---- cancel

    def cancelled(self, notification: Notification) -> None:
        params = codec.decode(notification.params or b"{}", v2.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is not None:
            self.cancel_turn(session)

    def cancel_turn(self, session: UpSession) -> None:
        while session.waiting:
            self.fail(self.client, session.waiting.popleft().identity, RequestError.cancelled())
        turn = session.turn
        if turn is None or turn.cancelled:
            return
        turn.cancelled = True
        self.notify(self.agent, "session/cancel", v1.SessionParams(session.session_id))
        asking, session.asking = session.asking, {}
        for here, question in asking.items():
            # the first answer counts: what the client still answers is not waited for
            self.take_back(self.client, here)
            self.respond(self.agent, question.identity, question.dismissed)

    def withdraw(self, here: Side, identity: Any) -> bool:
        """A prompt that still waits is taken back; so is the turn that one has become."""
        if here is not self.client:
            return False
        for session in self.sessions.values():
            for prompt in session.waiting:
                if prompt.identity == identity:
                    session.waiting.remove(prompt)
                    self.fail(self.client, identity, RequestError.cancelled())
                    return True
            if session.turn is not None and session.turn.prompt.identity == identity:
                self.cancel_turn(session)
                return True
        return False

    # ---- requests of the agent

    def permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.RequestPermissionRequest)
        session = self.session(params.session_id)
        turn = session.turn
        if turn is not None and turn.cancelled:
            self.respond(self.agent, request.id, _CANCELLED)
            return
        lifted = session.upgrader.permission(params)

        def decided(answer: Response) -> Any:
            read = read_result(answer, v2.RequestPermissionResponse)
            return downgrade_outcome(read, self.losses)

        self._question(session, request, "session/request_permission", lifted, decided)

    def elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.CreateElicitationRequest)
        name, lifted = upgrade_params(request.method, params, self.losses)
        if getattr(lifted, "request_id", UNSET) not in (UNSET, None):
            asked = self.agent.asked.get(lifted.request_id)
            if asked is None or asked.asker is None:
                raise RequestError.invalid_params("no such request is pending")
            lifted = replace(lifted, request_id=asked.asker)
        session_id = getattr(lifted, "session_id", UNSET)
        session = self.session(session_id) if isinstance(session_id, str) else None
        self._question(session, request, name, lifted, lambda answer: codec.parse(answer.result))

    def _question(
        self,
        session: UpSession | None,
        request: Request,
        method: str,
        params: Any,
        convert: Callable[[Response], Any],
    ) -> None:
        """Ask the client's user; the session requires action while it waits."""
        turn = session.turn if session is not None else None
        if session is not None and turn is not None:
            self._acknowledge(session, turn)
            if not session.asking:
                self.tell(session, v2.StateUpdate("requires_action"))

        def then(answer: Outcome) -> None:
            if session is not None:
                session.asking.pop(identity, None)
            if isinstance(answer, Failure):
                self.give_back(self.agent, request.id, answer)
            else:
                self.respond(self.agent, request.id, convert(answer))
            self._running_again(session, turn)

        identity = self.client.ask(method, codec.encode(params), request.id, then)
        if session is not None:
            permission = method == "session/request_permission"
            dismissed: Any = _CANCELLED if permission else {"action": "cancel"}
            session.asking[identity] = _Question(request.id, dismissed)

    def _running_again(self, session: UpSession | None, turn: _Turn | None) -> None:
        if session is None or turn is None or session.turn is not turn or session.asking:
            return
        if not turn.cancelled:
            self.tell(session, v2.StateUpdate("running"))

    # ---- the end

    def agent_died(self, error: RequestError) -> None:
        """Prompts that wait fail, too."""
        for session in self.sessions.values():
            while session.waiting:
                self.fail(self.client, session.waiting.popleft().identity, error)
        super().agent_died(error)

    def close(self) -> None:
        """Stop every timer."""
        for session in self.sessions.values():
            if session.turn is not None and session.turn.timer is not None:
                session.turn.timer()
