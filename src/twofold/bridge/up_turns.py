"""The turns of a version 1 agent, as a client of version 2 sees them.

Version 1 runs one turn at a time and answers a prompt when the turn is over. The client is told
that its prompt was taken in at the first sign of life of the agent (or after a moment), so that an
early error still reaches it as an error; the turn's end becomes `idle`. A cancel settles what was
asked, on both sides. What a session is doing is for the bridge to say, and nobody else.
"""

from typing import Any

from twofold.bridge.end import End
from twofold.bridge.lifting import Lifting
from twofold.bridge.losses import LossLog
from twofold.bridge.translation import (
    Later,
    Outcome,
    Side,
    Translation,
    as_request_error,
    read_result,
)
from twofold.bridge.up_session import Prompt, Turn, UpSession
from twofold.convert.losses import Losses, NotConvertible, carried
from twofold.convert.requests import downgrade_params
from twofold.peer.problems import Problem, Report
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Error

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
        note = codec.decode_update_line_v1(line) if isinstance(line, bytes) else None
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
