"""What a version 1 agent asks the user of a version 2 client: permissions and elicitations.

While a question of a turn is open, the session requires action. Each is answered once: by the
user, or by the cancel that comes first.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from twofold.bridge.translation import Outcome, read_result
from twofold.bridge.up_session import Question, Turn, UpSession
from twofold.bridge.up_turns import UpTurns
from twofold.convert.losses import recast
from twofold.convert.permissions import downgrade_outcome
from twofold.convert.requests import downgrade_result, upgrade_params
from twofold.rpc.errors import RequestError
from twofold.rpc.messages import Failure, Request, RequestId, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Extras
from twofold.wire.elicitation import ElicitationCancel, UnknownElicitation
from twofold.wire.shared import CancelledPermissionOutcome

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
