"""An agent that plays a recording to any client, without any I/O and without a clock.

Messages of the client in, lines for the client out, each with the time at which it is due. Every
session is played by itself, in the recorded order. Where the client of the recording acted, the
replay waits for this client: for a request of the same method, an answer, or a cancel. What this
client does otherwise is reported and, where it can be, followed: requests that it leaves out are
passed over, and a turn that it cancels ends. A request that the recording has no answer to is
refused. Nothing that the client sends makes it raise.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from math import inf
from typing import Any, Final

from msgspec import UNSET, Struct

from twofold.journal.deviations import FAILED, decision, prompt_text, result_of, short
from twofold.journal.lanes import Lane, Turn
from twofold.journal.script import (
    USER_MESSAGES,
    Script,
    Step,
    params_of,
    with_member,
)
from twofold.journal.translation import written
from twofold.rpc import connection
from twofold.rpc.connection import (
    Failure,
    Message,
    Notification,
    Pending,
    Request,
    RequestId,
    Response,
)
from twofold.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    RequestError,
)
from twofold.version import VERSION
from twofold.wire import codec
from twofold.wire.base import Malformed

BATCH: Final = 256
"""How many lines are returned at once."""
WAITING: Final = 100
"""How many prompts may wait for the recording to start again."""
SESSIONS: Final = 1000
"""How many sessions a client may begin when the recording starts again."""

_OVER: Final = "The recording is over"
_DEVIATES: Final = "The client deviates from the recording"
_CAPABILITIES: Final = {
    "fs/read_text_file": ("fs", "readTextFile"),
    "fs/write_text_file": ("fs", "writeTextFile"),
    "terminal/create": ("terminal",),
    "elicitation/create": ("elicitation",),
}
"""What a client has to offer to be sent a request."""

_EMPTY_ANSWERS: Final = frozenset(
    {
        *("authenticate", "logout", "auth/login", "auth/logout"),
        *("session/close", "session/delete"),
    }
)
"""Requests that are granted even if the recording has none."""
_SETTERS: Final = frozenset({"session/set_mode", "session/set_config_option"})
_ANY_PARAMS: Final = frozenset({"initialize", "session/list", *_EMPTY_ANSWERS})
"""Requests whose recorded answer is good for any params."""


class _Asked(Struct):
    """A request to the client that has no answer yet."""

    lane: Lane
    place: int


class Replay:
    """Plays a script to one client.

    Args:
        script: What is played.
        speed: The factor by which it is faster than the recording; infinite for no pauses.
        loop: Start a session again when it is over.
        strict: A deviation of the client from the recording is an error.
        session: The id of the only session that is played; None for all.
    """

    def __init__(
        self,
        script: Script,
        *,
        speed: float = 1.0,
        loop: bool = False,
        strict: bool = False,
        session: str | None = None,
    ) -> None:
        self.version = script.version
        self.reports: list[str] = []
        """What the client did otherwise than the recording, for the user; the caller clears it."""
        self.stderr: list[str] = []
        """What the agent wrote to its standard error by now; the caller clears it."""
        self.exit_code: int | None = None
        """Set when the agent of the recording exited in the middle of a turn."""
        self.deviated = False
        """With `strict`: the client deviated from the recording."""
        self._script = script
        self._speed = speed
        self._loop = loop
        self._strict = strict
        chosen = [each for each in script.sessions if session in (None, each.session_id)]
        self._connection = Lane(script.connection, "", is_open=True)
        self._lanes = [Lane(each, each.session_id or "replay") for each in chosen]
        for lane in self._lanes:
            lane.names.session = _pair(lane.script.session_id or "", lane.session_id)
        self._by_id = {lane.session_id: lane for lane in self._lanes}
        self._open = [self._connection]
        self._requests = sorted(
            step.number
            for script in (self._connection, *self._lanes)
            for step in script.steps
            if step.sender == "client" and step.kind == "request"
        )
        self._asked: Pending[_Asked] = Pending()
        self._numbers: dict[tuple[int, int], RequestId] = {}
        """The ids of requests that were sent, by lane and place."""
        self._lines: deque[bytes] = deque()
        """Lines that are due at once."""
        self._reached = 0
        """The number of the furthest step of the client that this client has taken."""
        self._capabilities: dict[str, Any] = {}
        self._directory: str | None = None
        self._last_id = 0
        self._left_out: set[str] = set()
        """The methods that this client does not offer, and that were reported."""

    # ---- what is due -----------------------------------------------------------------------

    def send(self, now: float) -> list[bytes]:
        """The lines that are due, at most `BATCH` of them: call it until there are none.

        Args:
            now: The time, in seconds; it never goes backwards.
        """
        lines: list[bytes] = []
        while len(lines) < BATCH and self.exit_code is None:
            if self._lines:
                lines.append(self._lines.popleft())
                continue
            lane = self._next_lane(now)
            if lane is None or self._due(lane) > now:
                if self._lines:
                    continue
                break
            line = self._play(lane)
            if line:
                lines.append(line)
        return lines

    def next_due(self, now: float) -> float | None:
        """When the next line is due; None if the client has to act first."""
        lane = self._next_lane(now)
        if self._lines:
            return now
        return None if lane is None else self._due(lane)

    def _next_lane(self, now: float) -> Lane | None:
        """The session whose next step is due first."""
        # the connection is last, because it waits for what the client does in the sessions
        lanes = [*self._open[1:], self._connection]
        ready = [lane for lane in lanes if self._is_ready(lane, now)]
        return min(ready, key=lambda lane: (self._due(lane), lane.number), default=None)

    def _due(self, lane: Lane) -> float:
        step = lane.step
        before = lane.recorded_clock
        if step is None or step.time is None or before is None or self._speed == inf:
            return lane.clock
        return lane.clock + max(0.0, step.time - before) / self._speed

    def _is_ready(self, lane: Lane, now: float) -> bool:
        """Pass what needs no sending; true if the agent has a step to send then."""
        while (step := lane.step) is not None:
            if step.sender == "client":
                if not self._pass_client(lane, step, now):
                    return False
            elif lane is self._connection and self._is_held_back(step):
                return False
            elif self._is_left_out(lane, step):
                lane.at += 1
            else:
                return True
        self._at_end(lane)
        return False

    def _is_held_back(self, step: Step) -> bool:
        """Whether a step of the connection follows a request that this client has yet to send."""
        if step.kind in ("result", "error"):
            return False
        lane = self._connection
        if any(lane.answer_of.get(place, -1) >= lane.at for place in lane.matched):
            return False  # an answer is behind it
        before = bisect_left(self._requests, step.number) - 1
        return before >= 0 and self._reached < self._requests[before]

    # ---- the agent's steps -----------------------------------------------------------------

    def _is_left_out(self, lane: Lane, step: Step) -> bool:
        """Whether a step of the agent has no meaning for what this client did."""
        if step.kind in ("result", "error"):
            place = lane.place_of.get(step.request or 0)
            return place is None or place not in lane.matched
        if step.kind == "request":
            return not self._is_offered(lane, step)
        if step.method == "$/cancel_request":
            return self._withdrawn(lane, step) is None
        return False

    def _is_offered(self, lane: Lane, step: Step) -> bool:
        """Whether the client can answer a request, by its capabilities."""
        if step.method.startswith("terminal/") and lane.names.missing:
            terminal = params_of(step).get("terminalId")
            if terminal in lane.names.missing:
                return False
        wanted = _CAPABILITIES.get(step.method)
        if wanted is None or _lookup(self._capabilities, wanted):
            return True
        if step.method == "terminal/create":
            self._lose_terminal(lane, lane.at)
        if step.method not in self._left_out:
            self._left_out.add(step.method)
            self._report(step, f"left out {step.method}: the client does not offer it")
        return False

    def _lose_terminal(self, lane: Lane, place: int) -> None:
        recorded = self._recorded_result(lane, place).get("terminalId")
        if isinstance(recorded, str):
            lane.names.missing.add(recorded)

    def _withdrawn(self, lane: Lane, step: Step) -> RequestId | None:
        """The id under which the client has the request that the agent withdraws."""
        recorded = params_of(step).get("requestId")
        places = [place for place in lane.sent if lane.steps[place].identity == recorded]
        return self._numbers.get((id(lane), max(places))) if places else None

    def _play(self, lane: Lane) -> bytes:
        """Send the next step of the agent."""
        step = lane.step
        assert step is not None
        lane.clock = self._due(lane)
        place, lane.at = lane.at, lane.at + 1
        lane.recorded_clock = step.time if step.time is not None else lane.recorded_clock
        if step.kind == "stderr":
            self.stderr.append(step.noise)
            return b""
        line = self._written(lane, step, place) if step.raw else b""
        self._played(lane, step, place)
        return step.noise.encode(errors="replace") + line + b"\n"

    def _written(self, lane: Lane, step: Step, place: int) -> bytes:
        if step.kind == "request":
            raw = self._about_request(step) if step.method == "elicitation/create" else step.raw
            return written(raw, lane.names, self._ask(lane, step, place))
        if step.kind in ("result", "error"):
            request = lane.place_of[step.request or 0]
            raw = step.raw
            if request == lane.setup_as_new and step.kind == "result":
                raw = with_member(raw, "result", "sessionId", lane.script.session_id or "")
            return written(raw, lane.names, lane.matched[request])
        if step.method == "$/cancel_request":
            withdrawn = self._withdrawn(lane, step)
            if withdrawn != params_of(step).get("requestId"):
                return with_member(step.raw, "params", "requestId", withdrawn)
        if step.invented:
            raw = with_member(step.raw, "params", "sessionId", lane.session_id)
            return written(raw, lane.names)
        return written(step.raw, lane.names)

    def _about_request(self, step: Step) -> bytes:
        """A question about a request of the client, which has another id with this client."""
        recorded = params_of(step).get("requestId")
        for lane in self._open:
            for place, identity in lane.matched.items():
                if lane.steps[place].identity == recorded != identity:
                    return with_member(step.raw, "params", "requestId", identity)
        return step.raw

    def _ask(self, lane: Lane, step: Step, place: int) -> RequestId:
        """The id for a request to the client: the recorded one, unless it is in use."""
        identity = step.identity if step.identity is not None else 0
        while self._asked.get(identity) is not None:
            self._last_id += 1
            identity = f"replay:{self._last_id}"
        self._asked.add(identity, _Asked(lane, place))
        self._numbers[id(lane), place] = identity
        lane.sent.add(place)
        return identity

    def _played(self, lane: Lane, step: Step, place: int) -> None:
        """Note what a step of the agent changed."""
        turn = lane.turn
        if turn is None:
            return
        if step.request is not None and lane.place_of.get(step.request) == turn.place:
            turn.answered = True
        if place == turn.end:
            self._end_turn(lane)

    def _end_turn(self, lane: Lane) -> None:
        lane.turn = None
        self._loop_if_over(lane)

    def _at_end(self, lane: Lane) -> None:
        """The steps are over: so is a turn that the recording does not end."""
        if lane.turn is None:
            return
        if self._script.exit_code is not None:
            self.exit_code = self._script.exit_code
            return
        self.reports.append("the recording ends in the middle of a turn")
        reason = {"reason": "it ends in the middle of this turn"}
        self._fail_turn(lane, RequestError(INTERNAL_ERROR, "The recording is over", reason))

    # ---- the client's steps ----------------------------------------------------------------

    def _pass_client(self, lane: Lane, step: Step, now: float) -> bool:
        """Pass a step of the client if it was done or will not be; false if it is waited for."""
        if step.kind == "request":
            return self._pass_request(lane, step, now)
        if step.kind in ("result", "error"):
            return self._pass_answer(lane, step, now)
        if step.kind == "notification" and self._is_cancel(lane, step):
            turn = lane.turn
            if turn is not None and not turn.cancelled:
                self._mention(lane, step, step.method)
                return False
            self._take(lane, step, now)
            return True
        lane.at += 1
        return True

    def _is_cancel(self, lane: Lane, step: Step) -> bool:
        """Whether the client of the recording cancelled the turn here."""
        if step.method == "session/cancel":
            return True
        if step.method != "$/cancel_request" or lane.turn is None:
            return False
        return params_of(step).get("requestId") == lane.steps[lane.turn.place].identity

    def _pass_request(self, lane: Lane, step: Step, now: float) -> bool:
        place = lane.at
        if place in lane.matched:
            self._take(lane, step, now)
            if step.begins in self._by_id:  # its first updates come before the answer
                self._open_lane(self._by_id[step.begins], lane.clock, step.time)
            if step.method == "session/prompt":
                end = lane.end_of_turn(place, self.version)
                lane.turn = Turn(place, lane.matched[place], end)
            return True
        if lane.furthest > place or (lane is self._connection and self._reached > step.number):
            self._pass_over(lane, place)
            return True
        return False

    def _pass_over(self, lane: Lane, place: int) -> None:
        """Leave out a request that this client did not send, with all that came of it."""
        answer = lane.answer_of.get(place)
        if lane.steps[place].method == "session/prompt":
            answer = lane.end_of_turn(place, self.version)
        inside = range(place + 1, answer or place)
        if lane.turn is not None or any(each in lane.matched for each in inside):
            answer = None
        lane.at = place + 1 if answer is None else answer + 1

    def _pass_answer(self, lane: Lane, step: Step, now: float) -> bool:
        place = lane.place_of.get(step.request or 0)
        if place is None or place not in lane.sent:
            lane.at += 1
        elif place in lane.received:
            self._take(lane, step, now)
        else:
            return False
        return True

    def _take(self, lane: Lane, step: Step, now: float) -> None:
        """The client has done its step: what follows is due from now on."""
        lane.at += 1
        lane.clock, lane.recorded_clock = max(lane.clock, now), step.time
        self._reached = max(self._reached, step.number)

    def _mention(self, lane: Lane, step: Step, what: str) -> None:
        if lane.mentioned != lane.at:
            lane.mentioned = lane.at
            self._report(step, f"waiting for {what}, which the recorded client sent here")

    # ---- messages of the client ------------------------------------------------------------

    def receive(self, message: Message, now: float) -> None:
        """Handle a message of the client; its params or its result are JSON.

        Args:
            message: The message as `rpc.connection` reads it.
            now: The time, in seconds.
        """
        match message:
            case Request():
                self._requested(message, now)
            case Notification():
                self._notified(message, now)
            case Response() | Failure():
                self._answered(message)

    def _requested(self, request: Request, now: float) -> None:
        try:
            params = codec.parse(b"{}" if request.params is UNSET else request.params)
        except Malformed as error:
            self._refuse(request, RequestError.invalid_params(str(error)))
            return
        params = params if isinstance(params, dict) else {}
        if request.method == "initialize":
            self._initialize(params)
        if request.method == "session/new":
            self._begin(request, params, now)
            return
        named = params.get("sessionId")
        lane = self._by_id.get(named) if isinstance(named, str) else self._connection
        if lane is None:
            self._refuse(request, _no_session(named))
        elif request.method == "session/prompt":
            self._prompt(lane, request, params, now)
        elif request.method in ("session/load", "session/resume"):
            self._reopen(lane, request, params, now)
        else:
            self._other(lane, request, params, now)

    def _initialize(self, params: dict[str, Any]) -> None:
        given = params.get("clientCapabilities", params.get("capabilities"))
        self._capabilities = given if isinstance(given, dict) else {}

    def _match(self, lane: Lane, place: int, request: Request) -> None:
        lane.matched[place] = request.id
        lane.furthest = max(lane.furthest, place)

    def _other(self, lane: Lane, request: Request, params: dict[str, Any], now: float) -> None:
        """Any request that neither begins a session nor is a prompt."""
        if lane is not self._connection and not lane.is_open:
            self._open_lane(lane, now)
        place = self._place_for(lane, request.method)
        if place is None:
            self._unrecorded(lane, request, params)
        else:
            self._match(lane, place, request)

    def _place_for(self, lane: Lane, method: str) -> int | None:
        """Where the recording has such a request, before the next prompt and in this turn."""
        place = next(lane.requests(method, lane.at), None)
        prompt = lane.next_prompt()
        if place is None or (prompt is not None and prompt < place):
            return None
        turn = lane.turn
        is_late = turn is not None and (turn.end is None or turn.end < place)
        return None if is_late else place

    def _unrecorded(self, lane: Lane, request: Request, params: dict[str, Any]) -> None:
        """Answer a request that the recording does not have here: from elsewhere, or an error."""
        method = request.method
        recorded = self._elsewhere(lane, method, params)
        if method == "session/close" and lane.turn is not None:
            self._cancel(lane, lane.clock)
        if recorded is not None:
            self._lines.append(written(recorded.raw, lane.names, request.id) + b"\n")
        elif method == "initialize":
            self._respond(request, self._introduction())
        elif method == "session/list":
            self._respond(request, {"sessions": [self._listed(each) for each in self._lanes]})
        elif method in _EMPTY_ANSWERS:
            self._respond(request, {})
        elif method in _SETTERS and (chosen := _chosen(lane.settings, params)) is not None:
            self._set(lane, request, chosen, params)
        else:
            reason = {"reason": f"the recording has no {method} at this place"}
            message = "Not in the recording"
            self._refuse(request, RequestError(METHOD_NOT_FOUND, message, reason))

    def _set(
        self, lane: Lane, request: Request, chosen: dict[str, Any], params: dict[str, Any]
    ) -> None:
        """Grant a mode or an option that the agent offered."""
        lane.settings = chosen
        if request.method == "session/set_mode":
            mode = {"sessionUpdate": "current_mode_update", "currentModeId": params["modeId"]}
            self._lines.append(_update(lane, mode))
            self._respond(request, {})
        else:
            self._respond(request, {"configOptions": chosen["configOptions"]})

    def _elsewhere(self, lane: Lane, method: str, params: dict[str, Any]) -> Step | None:
        """The recorded result of the same request elsewhere in the session."""
        for place, answer in lane.answer_of.items():
            asked = lane.steps[place]
            if asked.method != method or lane.steps[answer].kind != "result":
                continue
            recorded = {**params_of(asked), "sessionId": params.get("sessionId")}
            if method in _ANY_PARAMS or recorded == {**params, "sessionId": recorded["sessionId"]}:
                return lane.steps[answer]
        return None

    def _introduction(self) -> dict[str, Any]:
        info = {"name": "twofold-replay", "title": "A recording", "version": VERSION}
        if self.version == 1:
            able = {"loadSession": True, "sessionCapabilities": {"list": {}}}
            return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": able}
        return {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}

    def _listed(self, lane: Lane) -> dict[str, Any]:
        return {"sessionId": lane.session_id, "cwd": lane.script.cwd or self._directory or "/"}

    # ---- sessions

    def _begin(self, request: Request, params: dict[str, Any], now: float) -> None:
        """Play the next session that the recording has."""
        refused = next(self._connection.requests("session/new", self._connection.at), None)
        lane = self._next_session()
        place = next(lane.requests("session/new", 0), None) if lane is not None else None
        if refused is not None:
            number = self._connection.steps[refused].number
            if lane is None or place is None or number < lane.steps[place].number:
                self._match(self._connection, refused, request)
                return
        if lane is None and self._loop and len(self._lanes) >= SESSIONS:
            advice = "close the connection and start again"
            self._refuse(request, RequestError.too_many("sessions", SESSIONS, advice))
            return
        if lane is None and self._loop:
            lane = self._next_round()
            place = next(lane.requests("session/new", 0), None) if lane is not None else None
        if lane is None:
            reason = {"reason": "the recording has no further session"}
            self._refuse(request, RequestError(INVALID_REQUEST, _OVER, reason))
            return
        self._directory = params.get("cwd") if isinstance(params.get("cwd"), str) else None
        self._open_lane(lane, now)
        self._begin_with(lane, place, request)

    def _begin_with(self, lane: Lane, place: int | None, request: Request) -> None:
        if place is None:
            loads = chain(*(lane.requests(each, 0) for each in ("session/load", "session/resume")))
            prompt = lane.next_prompt()
            found = [each for each in loads if prompt is None or each < prompt]
            place = lane.setup_as_new = min(found, default=None)
        if place is None:
            self._respond(request, {"sessionId": lane.session_id, **self._setup(lane)})
        else:
            self._match(lane, place, request)

    def _next_session(self) -> Lane | None:
        """The next session that the client does not know, in the order in which they began."""
        left = [lane for lane in self._lanes if not lane.is_open and lane.script.has_content]
        begun = [lane for lane in left if any(lane.requests("session/new", 0))]
        begun += [lane for lane in left if lane.begins]
        return next(iter(begun or left), None)

    def _next_round(self) -> Lane | None:
        """The first session once more, under another id."""
        first = next((lane for lane in self._lanes if lane.script.has_content), None)
        if first is None:
            return None
        script, count = first.script, len(self._lanes) + 1
        lane = Lane(script, f"{script.session_id or 'replay'}~{count}")
        lane.names.session = _pair(script.session_id or "", lane.session_id)
        self._lanes.append(lane)
        self._by_id[lane.session_id] = lane
        return lane

    def _open_lane(self, lane: Lane, now: float, recorded: float | None = None) -> None:
        if lane.is_open:
            return
        lane.is_open, lane.clock, lane.recorded_clock = True, now, recorded
        self._open.append(lane)
        if self._directory and lane.script.cwd:
            lane.names.directory = _pair(lane.script.cwd, self._directory)

    def _setup(self, lane: Lane) -> dict[str, Any]:
        translated: dict[str, Any] = lane.names.translate(lane.settings)
        return translated

    def _reopen(self, lane: Lane, request: Request, params: dict[str, Any], now: float) -> None:
        """Load or resume a session: as recorded, or with all that was played of it."""
        self._directory = params.get("cwd") if isinstance(params.get("cwd"), str) else None
        is_new = not lane.is_open
        self._open_lane(lane, now)
        replays = request.method == "session/load" or bool(params.get("replayFrom"))
        places = [
            place
            for place in lane.requests(request.method, lane.at)
            if lane.steps[place].replays == replays
        ]
        prompt = lane.next_prompt()
        place = places[0] if places else None
        is_next = place is not None and (prompt is None or place < prompt)
        if place is not None and lane.turn is None and (is_next or (is_new and replays)):
            if not is_next:
                lane.at = place
            self._match(lane, place, request)
            return
        if replays:
            self._lines += self._held(lane, len(lane.steps) if is_new else lane.at)
            lane.at = len(lane.steps) if is_new else lane.at
        elif is_new:
            self._skip_setup(lane)
        self._respond(request, self._setup(lane))

    def _skip_setup(self, lane: Lane) -> None:
        """Go on with the first turn."""
        prompt = lane.next_prompt()
        lane.at = len(lane.steps) if prompt is None else prompt

    def _held(self, lane: Lane, end: int) -> Iterator[bytes]:
        """What the session held when it was played up to a place, as a replay of it."""
        loads = [
            place
            for place, answer in lane.answer_of.items()
            if lane.steps[place].replays and answer < end and lane.steps[answer].kind == "result"
        ]
        for place in range(max(loads, default=0), end):
            step = lane.steps[place]
            if step.method == "session/prompt" and step.kind == "request":
                if not self._is_echoed(lane, place):
                    yield from _as_chunks(step, lane.session_id)
            elif step.update and step.update != "state_update" and step.raw:
                yield written(step.raw, lane.names) + b"\n"
        if self.version == 2:
            yield _update(lane, {"sessionUpdate": "state_update", "state": "idle"})

    def _is_echoed(self, lane: Lane, place: int) -> bool:
        """Whether the agent repeats a prompt among its updates."""
        end = lane.end_of_turn(place, self.version)
        turn = lane.steps[place : len(lane.steps) if end is None else end]
        return any(step.update in USER_MESSAGES for step in turn)

    # ---- prompts

    def _prompt(self, lane: Lane, request: Request, params: dict[str, Any], now: float) -> None:
        self._open_lane(lane, now)
        place = lane.next_prompt()
        if place is not None:
            self._prompt_at(lane, place, request, params)
        elif not self._loop or not any(lane.steps[each].raw for each in lane.place_of.values()):
            self._refuse(request, _over(lane))
        elif len(lane.waiting) >= WAITING:
            advice = "wait until the turns before have ended"
            self._refuse(request, RequestError.too_many("prompts", WAITING, advice))
        else:
            lane.waiting.append(request)
            self._loop_if_over(lane)

    def _prompt_at(self, lane: Lane, place: int, request: Request, params: dict[str, Any]) -> None:
        recorded = lane.steps[place]
        given, wanted = prompt_text(params), prompt_text(params_of(recorded))
        if not recorded.invented and given != wanted:
            what = f"the prompt is {short(given)}, the recorded one {short(wanted)}"
            self._deviate(recorded, what)
            if self._strict:
                reason = {"reason": f"expected {wanted!r}"}
                self._refuse(request, RequestError(INVALID_REQUEST, _DEVIATES, reason))
                return
        self._match(lane, place, request)

    def _loop_if_over(self, lane: Lane) -> None:
        """Start the turns of a session again for the first prompt that waits, if all are over."""
        if not lane.waiting or lane.turn is not None or lane.furthest >= lane.at:
            return
        request = lane.waiting.popleft()
        self._lines += self._answers_between(lane, lane.at, len(lane.steps))
        lane.matched.clear()
        lane.sent.clear()
        lane.received.clear()
        lane.names.terminals.clear()
        lane.furthest, lane.at = -1, 0
        lane.names.again += 1
        place = lane.next_prompt()
        if place is None:
            self._refuse(request, _over(lane))
            return
        lane.at, lane.recorded_clock = place, None
        self._match(lane, place, request)

    # ---- cancelling

    def _notified(self, message: Notification, now: float) -> None:
        try:
            params = codec.parse(b"{}" if message.params is UNSET else message.params)
        except Malformed:
            return
        params = params if isinstance(params, dict) else {}
        if message.method == "session/cancel":
            named = params.get("sessionId")
            lane = self._by_id.get(named) if isinstance(named, str) else None
            if lane is not None:
                self._cancel(lane, now)
        elif message.method == "$/cancel_request":
            self._cancel_request(params.get("requestId"), now)

    def _cancel_request(self, identity: Any, now: float) -> None:
        for lane in self._open:
            if lane.turn is not None and lane.turn.identity == identity:
                self._cancel(lane, now)
                return
            for place in [place for place, each in lane.matched.items() if each == identity]:
                answer = lane.answer_of.get(place)
                if place >= lane.at or (answer is not None and answer >= lane.at):
                    del lane.matched[place]
                    lane.furthest = max(lane.matched, default=-1)
                    self._refuse(Request(identity, ""), RequestError.cancelled())
                return

    def _cancel(self, lane: Lane, now: float) -> None:
        """Go on where the recorded client cancelled the turn; if it did not, end the turn."""
        self._catch_up(lane, now)
        turn = lane.turn
        if turn is None or turn.cancelled:
            return
        turn.cancelled = True
        stop = len(lane.steps) if turn.end is None else turn.end
        for place in range(lane.at, stop):
            step = lane.steps[place]
            if step.sender == "client" and self._is_cancel(lane, step):
                self._lines += self._answers_between(lane, lane.at, place)
                lane.at = place
                self._take(lane, step, now)
                return
        self._report(lane.steps[turn.place], "the client cancelled this turn; the recorded did not")
        self._leave_turn(lane)
        if self.version == 1:
            self._lines.append(connection.respond(turn.identity, b'{"stopReason":"cancelled"}'))
            return
        if not turn.answered:
            self._lines.append(connection.fail(turn.identity, RequestError.cancelled()))
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
        self._lines.append(_update(lane, idle))

    def _catch_up(self, lane: Lane, now: float) -> None:
        """Send at once what is before the prompt that this client has sent."""
        prompts = [place for place in lane.matched if lane.steps[place].method == "session/prompt"]
        while lane.turn is None and any(place >= lane.at for place in prompts):
            if not self._is_ready(lane, now):
                break
            if lane.turn is None:
                self._lines.append(self._play(lane))

    def _answers_between(self, lane: Lane, start: int, end: int) -> list[bytes]:
        """The answers among steps that are left out: the client waits for them."""
        lines: list[bytes] = []
        for place in range(start, end):
            step = lane.steps[place]
            is_answer = step.sender == "agent" and step.kind in ("result", "error")
            if is_answer and lane.place_of.get(step.request or 0) in lane.matched:
                lines.append(self._written(lane, step, place) + b"\n")
                self._played(lane, step, place)
        return lines

    def _leave_turn(self, lane: Lane) -> None:
        """Leave out the rest of a turn, but for the answers to its other requests."""
        turn = lane.turn
        assert turn is not None
        end = turn.end
        if end is None:
            prompt = lane.next_prompt()
            end = len(lane.steps) if prompt is None else prompt
        self._lines += self._answers_between(lane, lane.at, end)
        lane.at = min(end + (turn.end is not None), len(lane.steps))
        self._end_turn(lane)

    def _fail_turn(self, lane: Lane, error: RequestError) -> None:
        turn = lane.turn
        assert turn is not None
        self._leave_turn(lane)
        if self.version == 1 or not turn.answered:
            self._lines.append(connection.fail(turn.identity, error))
            return
        cause = {"code": error.code, "message": error.message, "data": error.data}
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "error"}
        self._lines.append(_update(lane, {**idle, "error": cause}))

    # ---- answers of the client

    def _answered(self, answer: Response | Failure) -> None:
        asked = self._asked.take(answer.id)
        if asked is None:
            return  # too late, or to nothing
        lane, place = asked.lane, asked.place
        lane.received.add(place)
        result = result_of(answer)
        if lane.steps[place].method == "terminal/create":
            self._note_terminal(lane, place, result)
        recorded = lane.answer_of.get(place)
        if recorded is None or not lane.steps[recorded].raw or recorded < lane.at:
            return
        given = decision(lane.steps[place].method, result)
        wanted = decision(lane.steps[place].method, self._recorded_result(lane, place))
        if given == wanted:
            return
        step = lane.steps[recorded]
        what = f"the client answered {step.method} with {given}, the recorded one with {wanted}"
        self._deviate(step, what)
        if self._strict and lane.turn is not None:
            reason = {"reason": f"{step.method}: expected {wanted}"}
            self._fail_turn(lane, RequestError(INVALID_REQUEST, _DEVIATES, reason))

    def _note_terminal(self, lane: Lane, place: int, result: dict[str, Any]) -> None:
        recorded = self._recorded_result(lane, place).get("terminalId")
        given = result.get("terminalId")
        if isinstance(recorded, str) and isinstance(given, str):
            lane.names.terminals[recorded] = given
        elif isinstance(recorded, str):
            lane.names.missing.add(recorded)

    def _recorded_result(self, lane: Lane, place: int) -> dict[str, Any]:
        answer = lane.answer_of.get(place)
        if answer is None or not lane.steps[answer].raw:
            return {}
        result = codec.parse(lane.steps[answer].raw).get("result")
        return result if isinstance(result, dict) else {FAILED: True}

    # ---- answers and reports

    def _respond(self, request: Request, result: dict[str, Any]) -> None:
        self._lines.append(connection.respond(request.id, codec.encode(result)))

    def _refuse(self, request: Request, error: RequestError) -> None:
        self._lines.append(connection.fail(request.id, error))

    def _deviate(self, step: Step, what: str) -> None:
        self.deviated = self.deviated or self._strict
        self._report(step, what)

    def _report(self, step: Step, what: str) -> None:
        self.reports.append(f"line {step.line}: {what}" if step.line else what)


# ---- what messages hold ------------------------------------------------------------------------


def _pair(recorded: str, given: str) -> tuple[str, str] | None:
    return (recorded, given) if recorded != given else None


def _lookup(capabilities: dict[str, Any], path: Iterable[str]) -> bool:
    value: Any = capabilities
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None and value is not False


def _chosen(settings: dict[str, Any], params: dict[str, Any]) -> dict[str, Any] | None:
    """The settings with the mode or the option that a client chose; None if there is no such."""
    modes, options = settings.get("modes"), settings.get("configOptions")
    mode = params.get("modeId")
    if isinstance(mode, str) and isinstance(modes, dict):
        offered = modes.get("availableModes")
        names = [each.get("id") for each in offered or [] if isinstance(each, dict)]
        if mode in names:
            return {**settings, "modes": {**modes, "currentModeId": mode}}
    option = params.get("configId")
    made = [
        {**each, "currentValue": params.get("value")} if _is_option(each, option) else each
        for each in (options if isinstance(options, list) else [])
    ]
    return {**settings, "configOptions": made} if made != (options or []) else None


def _is_option(value: Any, identity: Any) -> bool:
    known = value.get("configId", value.get("id")) if isinstance(value, dict) else None
    return known is not None and known == identity


def _as_chunks(prompt: Step, session_id: str) -> Iterator[bytes]:
    """A prompt as an agent of version 1 replays it."""
    blocks = params_of(prompt).get("prompt")
    for block in blocks if isinstance(blocks, list) else []:
        update = {"sessionUpdate": "user_message_chunk", "content": block}
        yield _notify(session_id, update)


def _update(lane: Lane, update: dict[str, Any]) -> bytes:
    return _notify(lane.session_id, update)


def _notify(session_id: str, update: dict[str, Any]) -> bytes:
    params = {"sessionId": session_id, "update": update}
    return connection.notify("session/update", codec.encode(params))


def _no_session(named: Any) -> RequestError:
    reason = {"reason": f"the recording has no session {named!r}"}
    return RequestError(RESOURCE_NOT_FOUND, "No such session", reason)


def _over(lane: Lane) -> RequestError:
    prompts = sum(step.method == "session/prompt" and step.kind == "request" for step in lane.steps)
    turns = "1 prompt" if prompts == 1 else f"{prompts} prompts"
    reason = f"it has {turns} of this session, and all were played: start it again, or with --loop"
    # as an agent of another protocol answers after its shutdown: the request itself is all right
    return RequestError(INVALID_REQUEST, _OVER, {"reason": reason})
