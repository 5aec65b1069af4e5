"""A whole conversation, message by message, from one version into the other.

JSON-RPC messages in, messages out: updates through the translators, requests and results through
`convert.requests`, and the life of a prompt through `convert.turns`. Extension methods and unknown
methods are passed on unread.
"""

from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from twofold.convert.downgrade import Downgrader, downgrade_outcome
from twofold.convert.drafts import lift, lift_permission
from twofold.convert.guide import GuideUpgrader
from twofold.convert.losses import Losses
from twofold.convert.requests import (
    downgrade_params,
    downgrade_result,
    upgrade_params,
    upgrade_result,
)
from twofold.convert.turns import OpenTurn, OpenTurns, as_error, prompt_answer
from twofold.convert.upgrade import Upgrader, upgrade_outcome
from twofold.convert.versions import Detector, Dialect
from twofold.rpc.connection import Failure, Message, Notification, Pending, Request, Response
from twofold.wire import codec, guide, v1, v2
from twofold.wire.base import Fault, Malformed
from twofold.wire.shared import Error

T = TypeVar("T")
Target: TypeAlias = Literal["1", "2"]
Handler: TypeAlias = Literal["agent", "client"]
"""The side that handles a request, or sent an answer."""

OTHER: Final[dict[Handler | None, Handler]] = {"agent": "client", "client": "agent"}
"""Whom a side sends its requests to."""

# methods of these families that neither version has are the client's
_CLIENT_FAMILIES = ("fs/", "terminal/", "elicitation/")
_CLIENT_RESULTS = frozenset({"outcome", "action", "terminalId", "output", "exitCode", "content"})

# ---- which request an answer is for ----------------------------------------------------------
#
# Each side numbers its own requests, so the ids of the two may collide. An answer is matched by who
# sent it; where a recording does not have that, by the fields of the result.


def handler_of(method: str) -> Handler:
    """The side that handles a method; the agent for methods that are not known."""
    known = v1.METHODS.get(method) or v2.METHODS.get(method)
    if known is None:
        return "client" if method.startswith(_CLIENT_FAMILIES) else "agent"
    return "client" if known.side == "client" else "agent"


class RecordedRequests(Generic[T]):
    """The requests of both sides that have no answer yet; `T` is what is remembered of one."""

    def __init__(self) -> None:
        self._pending: dict[Handler, Pending[T]] = {"agent": Pending(), "client": Pending()}

    def add(self, request: Request, remembered: T, sender: Handler | None = None) -> None:
        """A request was sent; `sender` is the side that sent it, where that is known."""
        self._pending[OTHER.get(sender) or handler_of(request.method)].add(request.id, remembered)

    def take(self, answer: Response | Failure, sender: Handler | None = None) -> T | None:
        """What was remembered of the request that `answer` is for; None if there is none."""
        for side in [sender] if sender else _likely(answer):
            remembered = self._pending[side].take(answer.id)
            if remembered is not None:
                return remembered
        return None


def _likely(answer: Response | Failure) -> list[Handler]:
    result: Any = answer.result if isinstance(answer, Response) else None
    if isinstance(result, dict) and result.keys() & _CLIENT_RESULTS:
        return ["client", "agent"]
    return ["agent", "client"]


# ---- the conversation ------------------------------------------------------------------------


class Out(Struct):
    """A message to write; `back` if it travels against the message that caused it."""

    message: Message
    back: bool = False


class _Turn(OpenTurn, kw_only=True):
    """A turn of a version 2 agent, for a prompt that a version 1 client sent."""

    request_id: int | str


class _Asked(Struct):
    """A request, and what became of it."""

    method: str
    source: str
    params: Any = None
    """None until it was converted: an answer to what was not passed on is not passed on."""
    message_id: str = ""
    """The id that a prompt was given."""
    passed: bool = False
    """It was passed on unchanged, and so is its answer."""


class Conversation:
    """Translates to version `target`; raises `Malformed` and `NotConvertible` per message."""

    def __init__(
        self, target: Target, losses: Losses, dialect: Dialect | None = None, faults: Any = None
    ) -> None:
        self.target = target
        self.losses = losses
        self.faults: list[Fault] = [] if faults is None else faults
        self._other: Dialect = "1" if target == "2" else "2"
        self._detector = Detector(dialect)
        self._upgraders: dict[str, Upgrader] = {}
        self._guides: dict[str, GuideUpgrader] = {}
        self._downgraders: dict[str, Downgrader] = {}
        self._turns: dict[str, OpenTurns[_Turn]] = {}
        self._cancelling: set[str] = set()  # sessions of version 1
        self._pending: RecordedRequests[_Asked] = RecordedRequests()

    # ---- updates

    def update(self, value: dict[str, Any], session_id: str = "") -> list[dict[str, Any]]:
        """One session update, parsed JSON in and out."""
        dialect = self._detector.dialect(value, self._other)
        if dialect == self.target == "1":
            return [value]
        lifted = self._lift(value, dialect, session_id)
        if self.target == "2":
            return [codec.to_json(each) for each in lifted]
        lowered = [low for each in lifted for low in self._lower(each, session_id)]
        return [codec.to_json(each) for each in lowered]

    def _lift(
        self, value: dict[str, Any], dialect: Dialect, session_id: str
    ) -> list[v2.SessionUpdate]:
        if dialect == "1":
            return self._upgrader(session_id).update(self._read(value, v1.SessionUpdate))
        if dialect == "guide":
            return self._guide(session_id).update(self._read(value, guide.SessionUpdate))
        read = self._read(value, v2.SessionUpdate)
        return [lift(read) if self.target == "2" else read]  # version 1 has June's texts itself

    def _lower(self, update: v2.SessionUpdate, session_id: str) -> list[v1.SessionUpdate]:
        turns = self._open_turns(session_id)
        if isinstance(update, v2.UserMessage | v2.UserMessageChunk):
            turn, same = turns.user_message(update)
            if turn is not None:  # the client shows its own prompt
                if not same:
                    reason = "version 1 cannot change a prompt that was sent"
                    self.losses.report("update.content", reason)
                return []
        if isinstance(update, v2.StateUpdate):
            turns.report(update)
            if turns:
                if update.background:
                    self.losses.report("update.background", "version 1 has no background work")
                return []  # it shows in the prompt's result
        return self._downgrader(session_id).update(update)

    # ---- messages

    def message(self, message: Message, sender: Handler | None = None) -> list[Out]:
        """One JSON-RPC message; `sender` is who wrote it, where that is known."""
        match message:
            case Notification(method="session/update"):
                return self._notified(message)
            case Request() | Notification():
                return self._received(message, sender)
            case Response():
                return self._answered(message, self._pending.take(message, sender))
        return self._failed(message, self._pending.take(message, sender))

    def _notified(self, message: Notification) -> list[Out]:
        params = message.params
        if not isinstance(params, dict) or not isinstance(params.get("update"), dict):
            raise Malformed("params", "a session/update needs an update")
        session_id = str(params.get("sessionId", ""))
        outs = [
            Out(Notification(message.method, {**params, "update": update}))
            for update in self.update(params["update"], session_id)
        ]
        return outs + self._ended(session_id)

    def _ended(self, session_id: str) -> list[Out]:
        """The results that a version 1 client waits for, of the turns that are over."""
        turns = self._open_turns(session_id)
        return [
            self._end(turns, turn, turn.end, "update") for turn in turns if turn.end is not None
        ]

    def _end(self, turns: OpenTurns[_Turn], turn: _Turn, idle: v2.StateUpdate, path: str) -> Out:
        turns.close(turn)
        answer = prompt_answer(idle, self.losses, cancelled=turn.cancelled, path=path)
        written = codec.to_json(answer)
        if isinstance(answer, Error):
            return Out(Failure(turn.request_id, written))
        return Out(Response(turn.request_id, written))

    def _received(self, message: Request | Notification, sender: Handler | None) -> list[Out]:
        if message.method == "initialize":
            self._detector.initializing(message.params)
        self._detector.requested(message.method)
        source = self._detector.of_requests(self._other)
        table = (v1 if source == "1" else v2).METHODS
        method = table.get(message.method)
        asked = _Asked(message.method, source)
        if isinstance(message, Request):
            self._pending.add(message, asked, sender)
        if method is None or source == self.target == "1":
            asked.passed = True
            return [Out(message)]
        params = self._read({} if message.params is UNSET else message.params, method.params)
        name, converted = self._params(message.method, params, source)
        asked.params = params
        converted_message = replace(message, method=name, params=codec.to_json(converted))
        if isinstance(params, v1.LoadSessionRequest) or (
            isinstance(params, v2.ResumeSessionRequest) and params.replay_from
        ):
            self._start_over(params.session_id)
        if message.method == "session/cancel":
            self._cancelling.add(params.session_id)
            self._open_turns(params.session_id).cancel()
        if isinstance(message, Request) and message.method == "session/prompt":
            self._cancelling.discard(params.session_id)
            return [Out(converted_message), *self._prompted(message, asked)]
        return [Out(converted_message)]

    def _params(self, method: str, params: Any, source: str) -> tuple[str, Any]:
        if method == "session/request_permission":
            return method, self._permission(params, source)
        if source == self.target:
            return method, params
        if source == "2":
            return downgrade_params(method, params, self.losses)
        name, converted = upgrade_params(method, params, self.losses)
        if isinstance(params, v1.SetSessionModeRequest):
            option = self._upgrader(params.session_id).mode_option_id
            converted = replace(converted, config_id=option)
        return name, converted

    def _permission(self, params: Any, source: str) -> Any:
        if source == "1":
            return self._upgrader(params.session_id).permission(params)
        if self.target == "1":
            return self._downgrader(params.session_id).permission(params)
        return lift_permission(params)

    def _start_over(self, session_id: str) -> None:
        """A replay repeats the session for a client that has seen none of it."""
        self._downgraders.pop(session_id, None)
        self._guides.pop(session_id, None)
        if session_id in self._upgraders:
            self._upgraders[session_id] = self._upgraders[session_id].replayed()

    def _prompted(self, message: Request, asked: _Asked) -> list[Out]:
        session_id, prompt = asked.params.session_id, asked.params.prompt
        if self.target == "2" and asked.source == "1":
            upgrader = self._upgrader(session_id)
            shown = upgrader.prompt(prompt)
            asked.message_id = upgrader.prompt_id
            return [self._update(session_id, each, back=True) for each in shown]
        if self.target == "1" and asked.source == "2":
            self._open_turns(session_id).prompted(_Turn(request_id=message.id), prompt)
        return []

    def _update(self, session_id: str, update: Any, *, back: bool = False) -> Out:
        params = {"sessionId": session_id, "update": codec.to_json(update)}
        return Out(Notification("session/update", params), back)

    # ---- answers

    def _answered(self, message: Response, asked: _Asked | None) -> list[Out]:
        if asked is None:
            return [Out(message)]
        if asked.method == "initialize":
            self._detector.initialized(message.result)
            asked.source = self._detector.of_requests(self._other)
            asked.passed = asked.source == self.target == "1"
        if asked.passed:
            return [Out(message)]
        if asked.params is None and asked.method != "initialize":
            return []
        return self._result(message, asked)

    def _result(self, message: Response, asked: _Asked) -> list[Out]:
        method = (v1 if asked.source == "1" else v2).METHODS[asked.method]
        result = self._read({} if message.result is None else message.result, method.result)
        if asked.source == self.target:
            return [Out(replace(message, result=codec.to_json(result)))]
        convert = self._result_of_v1 if asked.source == "1" else self._result_of_v2
        return convert(message, asked, result)

    def _result_of_v1(self, message: Response, asked: _Asked, result: Any) -> list[Out]:
        converted: Any
        outs: list[Out] = []
        if asked.method == "session/prompt":
            converted = v2.PromptResponse(asked.message_id)
            idle = self._upgrader(asked.params.session_id).finished(result)
            outs.append(self._update(asked.params.session_id, idle))
        elif asked.method == "session/request_permission":
            converted = upgrade_outcome(result)
        elif asked.method == "session/set_mode":
            upgrader = self._upgrader(asked.params.session_id)
            upgrader.mode_chosen(asked.params.mode_id)
            converted = v2.SetSessionConfigOptionResponse(upgrader.config_options)
        else:
            converted = upgrade_result(asked.method, result, self.losses)
            if isinstance(result, v1.NewSessionResponse | v1.SessionSetup):
                self._upgrader(_session_of(asked, result)).setup(result, Losses())
            elif isinstance(converted, v2.SetSessionConfigOptionResponse):
                options = self._upgrader(asked.params.session_id).options_set(converted)
                converted = replace(converted, config_options=options)
        return [Out(replace(message, result=codec.to_json(converted))), *outs]

    def _result_of_v2(self, message: Response, asked: _Asked, result: Any) -> list[Out]:
        if asked.method == "session/prompt":
            for turn in self._open_turns(asked.params.session_id):
                if turn.request_id == message.id:
                    turn.accepted(result)
            return self._ended(asked.params.session_id)  # version 1 answers when the turn is over
        if asked.method == "session/request_permission":
            answer = downgrade_outcome(result, self.losses)
            return [Out(replace(message, result=codec.to_json(answer)))]
        outs: list[Out] = []
        if isinstance(result, v2.NewSessionResponse | v2.ResumeSessionResponse):
            session_id = _session_of(asked, result)
            if result.available_commands:
                commands = v2.AvailableCommandsUpdate(result.available_commands)
                lowered = self._downgrader(session_id).update(commands)
                outs = [self._update(session_id, each) for each in lowered]
            result = replace(result, available_commands=UNSET)
        converted = downgrade_result(asked.method, result, self.losses)
        return [Out(replace(message, result=codec.to_json(converted))), *outs]

    def _failed(self, message: Failure, asked: _Asked | None) -> list[Out]:
        if asked is None or asked.passed:
            return [Out(message)]
        if asked.params is None:
            return []
        if asked.method != "session/prompt":
            return [Out(message)]
        session_id, error = asked.params.session_id, as_error(message.error)
        turns = self._open_turns(session_id)
        for turn in turns:
            if turn.request_id != message.id:
                continue
            if turn.cancelled:
                return [self._end(turns, turn, v2.StateUpdate("idle", "error", error), "")]
            turns.close(turn)
        if self.target == "2" and asked.source == "1":
            cancelling = session_id in self._cancelling
            idle = self._upgrader(session_id).failed(error, cancelling=cancelling)
            return [Out(message), self._update(session_id, idle)]
        return [Out(message)]

    # ---- what is remembered per session

    def _open_turns(self, session_id: str) -> OpenTurns[_Turn]:
        turns = self._turns.get(session_id)
        if turns is None:
            turns = self._turns[session_id] = OpenTurns()
        return turns

    def _upgrader(self, session_id: str) -> Upgrader:
        if session_id not in self._upgraders:
            self._upgraders[session_id] = Upgrader(self.losses)
        return self._upgraders[session_id]

    def _guide(self, session_id: str) -> GuideUpgrader:
        if session_id not in self._guides:
            self._guides[session_id] = GuideUpgrader(self.losses)
        return self._guides[session_id]

    def _downgrader(self, session_id: str) -> Downgrader:
        if session_id not in self._downgraders:
            self._downgraders[session_id] = Downgrader(self.losses)
        return self._downgraders[session_id]

    def _read(self, value: Any, shape: Any) -> Any:
        return codec.read(value, shape, self.faults)


def _session_of(asked: _Asked, result: Any) -> str:
    return str(getattr(result, "session_id", None) or getattr(asked.params, "session_id", ""))
