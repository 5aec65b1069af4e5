"""A client of version 1 and an agent of version 2: everything but the turns.

What version 2 tells in a result and version 1 in an update (commands, options that a new mode
brings) goes out as an update. What version 1 does not know never reaches it.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from twofold.bridge.loss_log import LossLog
from twofold.bridge.lowering import Lowering
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
    Timer,
    Translation,
    as_request_error,
    read_result,
)
from twofold.convert.losses import NotConvertible, carried
from twofold.convert.options import MODE, modes_of
from twofold.convert.permissions import upgrade_outcome
from twofold.convert.requests import downgrade_params, downgrade_result, upgrade_params
from twofold.convert.turns import OpenTurn
from twofold.peer.problems import Problem, Report
from twofold.policy import choose
from twofold.rpc.errors import INTERNAL_ERROR, REQUEST_CANCELLED, RequestError
from twofold.rpc.frames import LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import Extras, Malformed
from twofold.wire.content import ContentBlock
from twofold.wire.elicitation import ElicitationCancel
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    PermissionOption,
    SelectedPermissionOutcome,
)

# What a bridge remembers of a session between a client of version 1 and an agent of version 2.


class DownTurn(OpenTurn, kw_only=True, eq=False):
    """A prompt of the client that waits for the end of its turn."""

    identity: RequestId
    prompt: list[ContentBlock]
    before: v2.StateUpdate
    """What the session did when it was sent."""
    at_agent: RequestId = 0
    cancelled: bool = False
    withdrawn: bool = False
    """The client does not want it any more, and the agent has not taken it in yet."""
    settling: Timer | None = None
    wait: float = float("inf")
    """How long it may take to settle."""

    def accepted(self, result: Any) -> None:
        """The prompt was answered."""
        if not self.inserted:
            self._taken_in()
        OpenTurn.accepted(self, result)

    def echoed(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a user message is this prompt."""
        before = self.inserted
        found = OpenTurn.echoed(self, update)
        if found and not before:
            self._taken_in()
        if not found and not self.message_id:
            self.echo.expect(self.prompt)  # another message came first
        return found

    def _taken_in(self) -> None:
        """What ended before the prompt was taken in was other work."""
        if self.busy:
            self.running, self.idle = False, None

    def repeated(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a message that is this prompt says what the prompt said."""
        if update.meta or update.unknown is not UNSET:
            return False
        if isinstance(update, v2.UserMessageChunk):
            return self.echo.swallows(update.content)
        if update.content is not UNSET and not update.content:
            self.echo.expect(self.prompt)  # it is told again, piece by piece
            return True
        self.echo.forget()
        return update.content is UNSET or update.content == self.prompt

    def idle_since(self, state: v2.StateUpdate) -> bool:
        """Whether the session became idle since the prompt was sent, without any work."""
        return not self.running and state.state == "idle" and state is not self.before


class DownSession(Struct, eq=False):
    """What has to be remembered of a session."""

    session_id: str
    head: bytes
    lowering: Lowering
    turns: list[DownTurn] = field(default_factory=list)
    state: v2.StateUpdate = field(default_factory=lambda: v2.StateUpdate("idle"))
    cancelling: bool = False
    """A cancel was sent, and what it is to end has not ended yet."""
    own: dict[str, None] = field(default_factory=dict)
    """The messages that were the client's own prompts, in turns that are over."""
    options: list[v2.SessionConfigOption] = field(default_factory=list)
    mode_option: str = MODE
    """The option that stands for version 1's modes."""
    spoke: bool = False
    """The agent has said something since the last prompt was sent."""
    gathering: Timer | None = None
    complete: bool = True
    """The state came, with which a replay ends."""
    settling: Silence | None = None
    """The agent has resumed the session, and the rest of its replay is waited for."""


class Question(Struct, eq=False):
    """What the agent asked the user."""

    identity: RequestId
    """The agent's own id of it."""
    session: DownSession | None
    dismissed: Any
    """The answer if nobody will give one."""


# The updates of a version 2 agent, as a client of version 1 sees them.
#
# Every update is lowered as it comes and goes out at once, but for terminal output and pieces of a
# tool call's content: they are gathered for a moment, because all of it is sent each time. What
# version 1 does not know never reaches it: it is left out and reported.


GATHER = 0.1
"""For how many seconds terminal output and pieces of content are gathered."""
CLOSED = 256
"""Of how many sessions that were closed nothing more is told."""


Special: TypeAlias = Callable[[Any, DownSession, Any], bool]
"""Looks at an update; true if nothing of it goes to the client."""


class DownUpdates(Translation):
    """Sessions and updates of a version 2 agent; `able` is what the client said that it shows."""

    special: ClassVar[Mapping[type, Special]]

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
        self.losses = log.losses
        """Where converters report."""
        self.sessions: dict[str, DownSession] = {}
        self.closed: dict[str, None] = {}
        """The sessions that the client was done with last."""
        self.asking: dict[RequestId, Question] = {}
        """Questions of the agent that wait for an answer, by their ids at the client."""
        self.merges = False
        """Whether the agent was seen to speak a draft that merges `_meta`."""
        self._able = able.session or v1.ClientSessionCapabilities()

    def session(self, session_id: str) -> DownSession:
        """A session, made when it is first heard of."""
        session = self.sessions.get(session_id)
        if session is None:
            self.check_sessions(len(self.sessions))
            head = codec.update_head(codec.encode(session_id))
            session = DownSession(session_id, head, self.lowering())
            self.sessions[session_id] = session
            self.closed.pop(session_id, None)
        return session

    def lowering(self) -> Lowering:
        """For a session of which the client has been shown nothing."""
        options = self._able.config_options
        lowering = Lowering(
            self.losses,
            notices=bool(self._able.notices),
            compactions=bool(self._able.compaction),
            booleans=bool(options and options.boolean),
        )
        lowering.merges = self.merges
        return lowering

    # ---- what comes

    def from_agent(self, line: bytes | LineTooLong) -> None:
        """A line of the agent; updates are most of them, and are read in one go."""
        if isinstance(line, bytes):
            note = v2.decode_update_line(line)
            if note is not None:
                self.update(note)
                return
        super().from_agent(line)

    def updated(self, notification: Notification) -> None:
        """An update that could not be read in one go."""
        faults: list[Any] = []
        note = codec.decode(notification.params or b"{}", v2.UpdateSessionNotification, faults)
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self.report(Problem("update", text, note.session_id))
        self.update(note)

    def update(self, note: v2.UpdateSessionNotification) -> None:
        """Tell the client an update, as far as it can be told."""
        session = self.sessions.get(note.session_id)
        if session is None:
            if note.session_id in self.closed:
                self.log.tell("session/update", "", "the session was closed")
                return
            try:
                session = self.session(note.session_id)
            except Malformed as error:
                self.not_passed_on("session/update", self.agent, error)
                return
        if session.settling is not None:
            session.settling.broken()
        special = self.special.get(type(note.update))
        try:
            if special is None or not special(self, session, note.update):
                self._lower(session, note)
        except Exception as error:
            self.not_passed_on("session/update", self.agent, error)
        if self.losses:
            self.log.flush("session/update")

    # ---- what goes out

    def _lower(self, session: DownSession, note: v2.UpdateSessionNotification) -> None:
        lowered = session.lowering.update(note.update)
        session.spoke = True
        if note.meta is UNSET and note.unknown is UNSET:
            send, head = self.client.end.send, session.head
            for each in lowered:
                send(head + codec.encode(each) + b"}}\n")
        else:
            beside = carried(note, v1.SessionNotification, self.losses, "")
            for each in lowered:
                told = v1.SessionNotification(session.session_id, each, **beside)
                self.notify(self.client, "session/update", told)
        if session.lowering.gathered and session.gathering is None:
            session.gathering = self.later(GATHER, lambda: self.flush(session))

    def flush(self, session: DownSession) -> None:
        """Send what was gathered meanwhile."""
        if session.gathering is not None:
            session.gathering()
            session.gathering = None
        for update in session.lowering.flush():
            self.client.end.send(session.head + codec.encode(update) + b"}}\n")

    def finish(self, session: DownSession) -> None:
        """Tell all that there is to tell: a result follows."""
        self.flush(session)
        for loss in session.lowering.unsaid():
            self.log.tell("session/update", loss.path, loss.reason)

    def forget(self, session: DownSession) -> None:
        """The client is done with a session, whatever the agent still says of it."""
        self.finish(session)
        self.sessions.pop(session.session_id, None)
        self.closed[session.session_id] = None
        if len(self.closed) > CLOSED:
            del self.closed[next(iter(self.closed))]

    def _settle_now(self, session: DownSession) -> None:
        """Wait no longer for the rest of a replay."""
        if session.settling is not None:
            session.settling.end()

    def know_options(self, session: DownSession, options: list[v2.SessionConfigOption]) -> None:
        """What there is to set, and which of it is the mode."""
        session.options = options
        for option in options:
            if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
                session.mode_option = option.config_id
                return


# The turns of a version 2 agent, as a client of version 1 sees them.
#
# Version 1 is answered when the turn is over: its prompt stays open until the idle that ends the
# work on it, and everything said before goes out before. What the agent asks the user is settled on
# both sides by a cancel, by the end of the session and by the death of the agent.


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
        turn = DownTurn(
            busy, queued=busy, identity=request.id, prompt=lifted.prompt, before=session.state
        )
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
                surely = idle.stop_reason and session.spoke and not turn.queued
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


_CANCELLED = v2.RequestPermissionResponse(CancelledPermissionOutcome())
_NO_ANSWER = ElicitationCancel()


class Down(DownTurns):
    """Translates for a client of version 1; `able` is what it said that it shows."""

    # ---- requests of the client

    def _simple(self, request: Request) -> None:
        """A request that the other version has too, with or without another name."""
        name, params = self._lifted(request)
        self._ask(request, name, params, lambda result: downgrade_result(name, result, self.losses))

    def _ask(self, request: Request, name: str, params: Any, convert: Callable[[Any], Any]) -> None:
        """Ask the agent, and give the result back converted."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
            else:
                result = read_result(answer, v2.METHODS[name].result)
                self.respond(self.client, request.id, convert(result))

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _lifted(self, request: Request) -> tuple[str, Any]:
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        return upgrade_params(request.method, params, self.losses)

    # ---- sessions

    def _new(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: self.session(result.session_id))

    def _fork(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v1.ResumeSessionRequest)
        name, lifted = upgrade_params(request.method, params, self.losses)
        self._set_up(request, name, lifted, lambda result: self.session(result.session_id))

    def _status(self, request: Request) -> None:
        """The state of a session is beside its status in version 2."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                self.give_back(self.client, request.id, answer)
                return
            result = codec.parse(answer.result)
            if isinstance(result, dict) and result.pop("state", None) is not None:
                reason = "version 1 has no session state but the result of a prompt"
                self.losses.report("state", reason)
            self.respond(self.client, request.id, result)

        params = None if request.params is UNSET else request.params
        self.agent.ask(request.method, params, request.id, then)

    def _resume(self, request: Request) -> None:
        name, params = self._lifted(request)
        self._set_up(request, name, params, lambda result: self.session(params.session_id))

    def _load(self, request: Request) -> None:
        name, params = self._lifted(request)
        known = params.session_id in self.sessions
        session = self.session(params.session_id)
        self._settle_now(session)
        self.finish(session)
        session.complete = False
        # a replay tells everything again, to someone who forgets what it has seen
        before, session.lowering = session.lowering, self.lowering()
        own, session.own = session.own, {}

        def refused() -> None:
            session.lowering, session.own, session.complete = before, own, True
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
        """New, load, resume and fork: commands, which version 2 has in the result, follow it."""

        def then(answer: Outcome) -> None:
            if isinstance(answer, Failure):
                refused()
                self.give_back(self.client, request.id, answer)
                return
            forked = name == "session/fork"
            shape = v2.NewSessionResponse if forked else v2.METHODS[name].result
            result = read_result(answer, shape)
            session = session_of(result)
            lowered = self._setup(session, name, result)

            def finished() -> None:
                session.settling, session.complete = None, True
                self.finish(session)
                self.respond(self.client, request.id, lowered)
                if result.available_commands:
                    self._tell(session, v2.AvailableCommandsUpdate(result.available_commands))

            if session.complete:
                finished()
            else:  # v1: nothing of a replay follows the answer
                session.settling = Silence(self.later, finished, quiet=QUIET, longest=REPLAY)

        self.agent.ask(name, codec.encode(params), request.id, then)

    def _setup(self, session: DownSession, name: str, result: Any) -> Any:
        bare = replace(result, available_commands=UNSET)
        if result.config_options is not UNSET:
            self.know_options(session, result.config_options)
            options = session.lowering.options(result.config_options, "configOptions")
            bare = replace(bare, config_options=options)
        return downgrade_result(name, bare, self.losses)

    def _tell(self, session: DownSession, update: v2.SessionUpdate) -> None:
        self.update(v2.UpdateSessionNotification(session.session_id, update))

    def _end_session(self, request: Request) -> None:
        """Close and delete: nothing of the session has to be remembered any more."""
        name, params = self._lifted(request)

        def ended(result: Any) -> Any:
            session = self.sessions.get(params.session_id)
            if session is not None:
                self.forget(session)
            return result

        self._ask(request, name, params, ended)

    # ---- modes and config options

    def _set_mode(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)

        def chosen(result: v2.SetSessionConfigOptionResponse) -> Any:
            if result.config_options != session.options:
                # a mode may bring other options, and version 1's result has no place for them
                self._tell(session, v2.ConfigOptionUpdate(result.config_options))
            return v1.Empty(**carried(result, v1.Empty, self.losses, ""))

        self._ask(request, name, replace(params, config_id=session.mode_option), chosen)

    def _set_option(self, request: Request) -> None:
        name, params = self._lifted(request)
        session = self.session(params.session_id)

        def chosen(result: v2.SetSessionConfigOptionResponse) -> Any:
            before, now = _mode(session.options), _mode(result.config_options)
            self.know_options(session, result.config_options)
            if now and now != before:
                note = v1.SessionNotification(session.session_id, v1.CurrentModeUpdate(now))
                self.notify(self.client, "session/update", note)
            options = session.lowering.options(result.config_options, "configOptions")
            bare = replace(result, config_options=options)
            return downgrade_result(name, bare, self.losses)

        self._ask(request, name, params, chosen)

    # ---- requests of the agent

    def _permission(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.RequestPermissionRequest)
        closed = params.session_id in self.closed
        if closed or not params.options or self.session(params.session_id).cancelling:
            self.respond(self.agent, request.id, _CANCELLED)
            return
        session = self.session(params.session_id)
        self.flush(session)
        lowered = session.lowering.permission(params)

        def decided(answer: Response) -> None:
            read = upgrade_outcome(read_result(answer, v1.RequestPermissionResponse))
            self.respond(self.agent, request.id, _or_rejected(read, params.options))

        self.question(request, lowered, session, _CANCELLED, decided)

    def _elicit(self, request: Request) -> None:
        params = codec.decode(request.params or b"{}", v2.CreateElicitationRequest)
        if isinstance(params, v2.UnknownElicitation):
            raise NotConvertible("mode", f"version 1 does not know the mode {params.tag!r}")
        name, lowered = downgrade_params(request.method, params, self.losses)
        if lowered.request_id is not UNSET and lowered.request_id is not None:
            asked = self.agent.asked.get(lowered.request_id)
            if asked is None or asked.asker is None:
                raise RequestError.invalid_params("no such request is pending")
            lowered = replace(lowered, request_id=asked.asker)
        session_id = lowered.session_id or ""
        if session_id in self.closed:
            self.respond(self.agent, request.id, _NO_ANSWER)
            return

        def given(answer: Response) -> None:
            read = read_result(answer, v1.METHODS[name].result)
            self.respond(self.agent, request.id, read)

        self.question(request, lowered, self.sessions.get(session_id), _NO_ANSWER, given)

    client_version = 1
    on_client_request: ClassVar[Requests] = {
        "authenticate": _simple,
        "logout": _simple,
        "session/new": _new,
        "session/load": _load,
        "session/resume": _resume,
        "session/fork": _fork,
        "session/status": _status,
        "session/list": _simple,
        "session/close": _end_session,
        "session/delete": _end_session,
        "session/set_mode": _set_mode,
        "session/set_config_option": _set_option,
        "session/prompt": DownTurns.prompt,
    }
    on_client_notification: ClassVar[Notifications] = {"session/cancel": DownTurns.cancelled}
    on_agent_request: ClassVar[Requests] = {
        "session/request_permission": _permission,
        "elicitation/create": _elicit,
    }
    on_agent_notification: ClassVar[Notifications] = {"session/update": DownTurns.updated}


def _mode(options: list[v2.SessionConfigOption]) -> str:
    modes = modes_of(options)
    return modes.current_mode_id if modes is not None else ""


def _or_rejected(
    answer: v2.RequestPermissionResponse, options: list[PermissionOption]
) -> v2.RequestPermissionResponse:
    """A dismissal outside a cancel is a no, not the end of the turn."""
    if not isinstance(answer.outcome, CancelledPermissionOutcome):
        return answer
    reject = choose(options, "reject")
    if reject is None:
        return answer
    return replace(answer, outcome=SelectedPermissionOutcome(reject.option_id))
