"""The turns of a version 2 agent, as a client of version 1 sees them.

Version 1 is answered when the turn is over: its prompt stays open until the idle that ends the
work on it, and everything said before goes out before. What the agent asks the user is settled on
both sides by a cancel, by the end of the session and by the death of the agent.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import UNSET

from twofold.bridge.down_session import DownSession, DownTurn, Question
from twofold.bridge.down_updates import DownUpdates, Special
from twofold.bridge.translation import Outcome, Side, as_request_error, read_result
from twofold.convert.losses import NotConvertible, carried
from twofold.convert.requests import upgrade_params
from twofold.peer.problems import Problem
from twofold.rpc.errors import INTERNAL_ERROR, REQUEST_CANCELLED, RequestError
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import Extras, Malformed

SETTLE = 1.0
"""How many seconds after an idle that no work led up to work may still begin."""
SETTLE_UNSURE = 10.0
"""The same, if the agent has said nothing yet, or not why it is idle, or if other work ended."""
OWN = 256
"""How many of the client's own prompts are known after their turns."""

_STOPS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
_TURN_CANCELLED = v2.StateUpdate("idle", "cancelled")
_CHANGED = "version 1 cannot change a prompt that was sent"
_NO_ERROR = "a cancelled turn of version 1 has no error"


class DownTurns(DownUpdates):
    """Prompts, states and cancels between a client of version 1 and an agent of version 2."""

    # ---- prompts

    def prompt(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.PromptRequest)
        _, lifted = upgrade_params(request.method, params, self.losses)
        session = self.session(params.session_id)
        self._settle_now(session)
        busy = session.state.state != "idle"
        turn = DownTurn(busy, identity=request.id, prompt=lifted.prompt, before=session.state)
        turn.echo.expect(lifted.prompt)
        if not session.turns:
            session.spoke = session.cancelling = False

        def inserted(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self._failed(session, turn, answer)
            else:
                self._inserted(session, turn, answer)

        turn.at_agent = self.agent.ask("session/prompt", codec.encode(lifted), request.id, inserted)
        session.turns.append(turn)

    def _inserted(self, session: DownSession, turn: DownTurn, answer: Response) -> None:
        result = None
        try:
            result = read_result(answer, v2.PromptResponse)
        except Malformed as error:
            # it is no refusal, so the agent works on the prompt
            text = f"The agent answered session/prompt with something else than a result: {error}"
            self.report(Problem("answer", text, session.session_id))
        turn.accepted(result)
        if isinstance(result, v2.PromptResponse) and result.message_id:
            self.merges = session.lowering.merges = True  # the draft of November has an id here
        if (reason := _stop_reason(result)) is not None:
            self._end(session, turn, v2.StateUpdate("idle", reason))
        elif turn.withdrawn:
            self.cancel(session)
        self._look(session, turn)

    def _user_message(
        self, session: DownSession, update: v2.UserMessage | v2.UserMessageChunk
    ) -> bool:
        """The client shows its own prompt; other user messages are news."""
        for turn in session.turns:
            known = bool(turn.message_id)
            if turn.echoed(update):
                if known and not turn.repeated(update):
                    self.log.tell("session/update", "update.content", _CHANGED)
                session.lowering.shown_elsewhere(update.message_id)
                return True
        if update.message_id in session.own:
            self.log.tell("session/update", "update.content", _CHANGED)
            return True
        return False

    def _options(self, session: DownSession, update: v2.ConfigOptionUpdate) -> bool:
        self.know_options(session, update.config_options)
        return False

    # ---- states

    def _state(self, session: DownSession, update: v2.StateUpdate) -> bool:
        session.state = update
        session.complete = True
        if not session.turns and update.state != "idle":
            reason = "version 1 has no session state but the result of a prompt"
            self.log.tell("session/update", "update.state", reason)
        for turn in list(session.turns):
            turn.report(update)
            self._look(session, turn)
        if update.state == "idle":
            session.cancelling = False
        return True

    def _look(self, session: DownSession, turn: DownTurn) -> None:
        """Whether a turn is over."""
        idle = session.state
        if turn.end is not None:
            self._end(session, turn, turn.end)
        elif turn.inserted and turn.idle_since(idle):
            if turn.cancelled:
                self._end(session, turn, idle)
            else:
                # No work led up to this idle. If none follows, it was the end all the same.
                surely = idle.stop_reason and session.spoke and not turn.busy
                self._wait(session, turn, SETTLE if surely else SETTLE_UNSURE)

    def _wait(self, session: DownSession, turn: DownTurn, seconds: float) -> None:
        if seconds >= turn.wait or turn not in session.turns:
            return
        if turn.settling is not None:
            turn.settling()
        turn.wait = seconds
        turn.settling = self.later(seconds, lambda: self._settle(session, turn))

    def _settle(self, session: DownSession, turn: DownTurn) -> None:
        turn.settling, turn.wait = None, float("inf")
        if turn.idle_since(session.state):
            self._end(session, turn, session.state)

    # ---- ends

    def _end(self, session: DownSession, turn: DownTurn, idle: v2.StateUpdate) -> None:
        """The turn is over: tell the rest of it, then answer the prompt."""
        if turn not in session.turns:
            return
        self.finish(session)
        self._done(session, turn)
        if idle.background:
            reason = "version 1 knows no background work"
            self.log.tell("session/update", "update.background", reason)
        try:
            self._answer(turn, idle)
        except (NotConvertible, RecursionError) as refusal:
            self.not_passed_on("session/prompt", self.agent, refusal)
            data = {"reason": str(refusal)}
            error = RequestError(INTERNAL_ERROR, "The turn's end cannot be passed on", data)
            self.fail(self.client, turn.identity, error)
        self.log.flush("session/prompt")

    def _answer(self, turn: DownTurn, idle: v2.StateUpdate) -> None:
        reason = idle.stop_reason or ("cancelled" if turn.cancelled else "end_turn")
        if reason == "error" and turn.cancelled:
            # v1: a cancelled turn ends as cancelled, whatever the cancel broke
            self.log.tell("session/prompt", "error", _NO_ERROR)
            reason = "cancelled"
        if reason == "error":
            for name, value in (("usage", idle.usage), ("_meta", idle.meta)):
                if value:
                    self.log.tell(
                        "session/prompt", name, "an error of version 1 has no place for it"
                    )
            self.fail(self.client, turn.identity, _error_of(idle))
            return
        if reason not in _STOPS:
            self.losses.report("stopReason", f"version 1 has no stop reason {reason!r}")
            reason = "end_turn"
        rest = carried(idle, v1.PromptResponse, self.losses, "")
        response = v1.PromptResponse(reason, idle.usage or UNSET, **rest)
        self.respond(self.client, turn.identity, response)

    def _failed(self, session: DownSession, turn: DownTurn, failure: Failure) -> None:
        """The agent refused the prompt."""
        if turn not in session.turns:
            return
        if turn.cancelled:
            if as_request_error(failure).code != REQUEST_CANCELLED:
                self.log.tell("session/prompt", "error", _NO_ERROR)
            self._end(session, turn, _TURN_CANCELLED)
            return
        self.finish(session)
        self._done(session, turn)
        self.give_back(self.client, turn.identity, failure)

    def _done(self, session: DownSession, turn: DownTurn) -> None:
        session.turns.remove(turn)
        if turn.settling is not None:
            turn.settling()
        self.agent.forget(turn.at_agent)  # its answer may still come
        if turn.message_id:
            session.own[turn.message_id] = None
            if len(session.own) > OWN:
                del session.own[next(iter(session.own))]
        if not session.turns and session.state.state == "idle":
            session.cancelling = False

    def forget(self, session: DownSession) -> None:
        """The session is over, and so is all that waits in it."""
        self._settle_now(session)
        self.dismiss(session)
        for turn in list(session.turns):
            self._end(session, turn, _TURN_CANCELLED)
        super().forget(session)

    # ---- cancel

    def cancelled(self, notification: Notification) -> None:
        params = codec.decode(notification.params or b"{}", v1.SessionParams)
        session = self.sessions.get(params.session_id)
        if session is None:
            self.notify(self.agent, "session/cancel", params)
        else:
            self.cancel(session, params)

    def cancel(self, session: DownSession, params: v1.SessionParams | None = None) -> None:
        """Stop the work that goes on, and answer what was asked for it."""
        self.notify(self.agent, "session/cancel", params or v2.SessionParams(session.session_id))
        for turn in session.turns:
            turn.cancelled = True
        if session.turns or session.state.state != "idle":
            session.cancelling = True
            # v1: a client that cancels dismisses by itself what it was asked
            self.dismiss(session, tell_client=params is None)

    def withdraw(self, here: Side, identity: Any) -> bool:
        """A prompt or a question is not wanted any more."""
        if here is self.agent:
            for at_client, question in self.asking.items():
                if question.identity == identity:
                    self._dismiss(at_client)
                    return True
            return False
        for session in self.sessions.values():
            for turn in session.turns:
                if turn.identity == identity:
                    return self._withdraw(session, turn)
        return False

    def _withdraw(self, session: DownSession, turn: DownTurn) -> bool:
        if turn.inserted:
            self.cancel(session)
        turn.withdrawn = True  # an agent that takes it in all the same is told to stop then
        return turn.inserted

    # ---- questions

    def question(
        self,
        request: Request,
        params: Any,
        session: DownSession | None,
        dismissed: Any,
        answer: Callable[[Response], None],
    ) -> None:
        """Ask the client's user, until someone answers or nobody has to any more."""

        def answered(outcome: Outcome) -> None:
            del self.asking[identity]
            if isinstance(outcome, Failure):
                self.give_back(self.agent, request.id, outcome)
            else:
                answer(outcome)

        data = codec.encode(params)
        identity = self.client.ask(request.method, data, request.id, answered)
        self.asking[identity] = Question(request.id, session, dismissed)

    def dismiss(self, session: DownSession, *, tell_client: bool = True) -> None:
        """Answer what the agent asked in a session: nobody else has to any more."""
        asked = [here for here, each in self.asking.items() if each.session is session]
        for identity in asked:
            self._dismiss(identity, tell_client)

    def _dismiss(self, identity: RequestId, tell_client: bool = True) -> None:
        question = self.asking.pop(identity)
        self.respond(self.agent, question.identity, question.dismissed)
        if tell_client:
            self.take_back(self.client, identity)
        else:
            self.client.forget(identity)

    # ---- the end

    def agent_died(self, error: RequestError) -> None:
        """Turns fail after all that was said in them; nobody has to answer any more."""
        self.asking.clear()
        for identity in list(self.client.asked):
            self.take_back(self.client, identity)
        for session in self.sessions.values():
            self._settle_now(session)
            self.finish(session)
            for turn in list(session.turns):
                self._done(session, turn)
                self.fail(self.client, turn.identity, error)
        super().agent_died(error)

    def client_left(self) -> None:
        """The agent is told to stop, and what it asked is answered."""
        for session in self.sessions.values():
            if session.turns or session.state.state != "idle":
                self.cancel(session)
        for identity in list(self.asking):
            self._dismiss(identity)
        super().client_left()

    def close(self) -> None:
        """Stop every timer."""
        for session in self.sessions.values():
            if session.gathering is not None:
                session.gathering()
            if session.settling is not None:
                session.settling.stop()
            for turn in session.turns:
                if turn.settling is not None:
                    turn.settling()

    special: ClassVar[Mapping[type, Special]] = {
        v2.StateUpdate: _state,
        v2.UserMessage: _user_message,
        v2.UserMessageChunk: _user_message,
        v2.ConfigOptionUpdate: _options,
    }


def _ignore(answer: Outcome) -> None:
    """The answer to a request that was settled before it."""


def _stop_reason(result: Any) -> str | None:
    """The stop reason of an agent that claims version 2 and answers a prompt as version 1 does."""
    if isinstance(result, v2.JunePromptResponse) and isinstance(result.unknown, Extras):
        reason = result.unknown.fields.get("stopReason")
        return reason if isinstance(reason, str) else None
    return None


def _error_of(idle: v2.StateUpdate) -> RequestError:
    told = idle.error or None
    if told is None:
        return RequestError(INTERNAL_ERROR, "The turn ended with an error")
    return RequestError(told.code, told.message, told.data)
