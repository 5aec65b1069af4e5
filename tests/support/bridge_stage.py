"""A translation between two sides that a test plays by hand: no transport, no clock, no loop.

What a side sends is translated before the call returns; what it receives is in `client.messages`
and `agent.messages`. Timers run when the test runs them.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from twofold.bridge import LossLog
from twofold.bridge.side import Side
from twofold.bridge.up import Up
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestError
from twofold.rpc.frames import LIMIT
from twofold.wire import codec, v1

Json = dict[str, Any]

ALL: Json = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}
"""An agent of version 1 that lacks nothing."""

_encode = msgspec.json.Encoder().encode


def text(words: str) -> Json:
    return {"type": "text", "text": words}


class RecordingSide(Side):
    """One side: what is sent to it is kept."""

    def __init__(self, name: str) -> None:
        super().__init__(name, LIMIT)
        self.lines: list[bytes] = []
        self._messages: list[Json] = []

    def send(self, line: bytes) -> None:
        self._queue(self.batches.sent(line) if self.batches.open else line)

    def _queue(self, line: bytes) -> None:
        if not line:  # it waits for the rest of its batch
            return
        assert line.endswith(b"\n")
        assert b"\n" not in line[:-1]
        self.lines.append(line)

    @property
    def messages(self) -> list[Json]:
        """What was sent to it, as messages."""
        self._messages += [json.loads(line) for line in self.lines[len(self._messages) :]]
        return self._messages


class Clock:
    """Timers that the test runs."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[float, Callable[[], None]]] = {}
        """When each is due, and what it does."""
        self.now = 0.0
        self._last = 0

    def later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self._last += 1
        number = self._last
        self.waiting[number] = (self.now + seconds, call)

        def stop() -> None:
            self.waiting.pop(number, None)

        return stop

    def elapse(self, seconds: float) -> None:
        """So much time passes: timers that are due by then run, in their order."""
        end = self.now + seconds
        while due := [each for each in self.waiting.items() if each[1][0] <= end]:
            number, (self.now, call) = min(due, key=lambda each: each[1][0])
            del self.waiting[number]
            call()
        self.now = end

    def run(self) -> list[float]:
        """Time passes: every timer that was set runs; when each was due."""
        fired = []
        for number in list(self.waiting):
            if number in self.waiting:  # another one may have stopped it
                due, call = self.waiting.pop(number)
                call()
                fired.append(due)
        return fired


class Player:
    """One side: what it sends, and what it received."""

    def __init__(self, end: RecordingSide, send: Callable[[bytes], None]) -> None:
        self._end = end
        self._send = send
        self._last_id = 100

    @property
    def messages(self) -> list[Json]:
        return self._end.messages

    @property
    def lines(self) -> list[bytes]:
        """The same, as it was written."""
        return self._end.lines

    def send(self, message: Any) -> None:
        """Send a message, or raw bytes."""
        self._send(message if isinstance(message, bytes) else _encode(message))

    def ask(self, method: str, params: Any = None, *, identity: Any = None) -> Any:
        """Send a request; its id."""
        self._last_id += 1
        identity = self._last_id if identity is None else identity
        rest = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": identity, "method": method, **rest})
        return identity

    def notify(self, method: str, params: Any = None) -> None:
        rest = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "method": method, **rest})

    def answer(self, identity: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": identity, "result": result})

    def fail(self, identity: Any, code: int = -32603, message: str = "no", **data: Any) -> None:
        error = {"code": code, "message": message, **data}
        self.send({"jsonrpc": "2.0", "id": identity, "error": error})

    # ---- what it received

    def answers(self, identity: Any) -> list[Json]:
        """Every answer to a request of this side."""
        return [each for each in self.messages if "method" not in each and each["id"] == identity]

    def result(self, identity: Any) -> Any:
        (answer,) = self.answers(identity)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, identity: Any) -> Any:
        (answer,) = self.answers(identity)
        assert "error" in answer, answer
        return answer["error"]

    def asked(self, method: str | None = None) -> list[Json]:
        """The requests that this side got."""
        requests = [each for each in self.messages if "method" in each and "id" in each]
        return [each for each in requests if method in (None, each["method"])]

    def notifications(self, method: str) -> list[Any]:
        """The params of the notifications that this side got."""
        return [
            each["params"]
            for each in self.messages
            if each.get("method") == method and "id" not in each
        ]

    def last_asked(self, method: str) -> Any:
        """The id of the last request of `method`."""
        return self.asked(method)[-1]["id"]

    @property
    def updates(self) -> list[Json]:
        """Every update, without its session."""
        return [params["update"] for params in self.notifications("session/update")]

    @property
    def states(self) -> list[str]:
        """Every state of a session, with the stop reason if it has one."""
        return [
            ":".join(filter(None, (each["state"], each.get("stopReason"))))
            for each in self.updates
            if each["sessionUpdate"] == "state_update"
        ]

    @property
    def texts(self) -> list[str]:
        """The text of every chunk."""
        return [
            each["content"]["text"]
            for each in self.updates
            if each["sessionUpdate"].endswith("_chunk")
        ]


class Stage:
    """A client of version 2, an agent of version 1, and the translation between them."""

    def __init__(self, able: Json | None = None, *, strict: bool = False, **options: Any) -> None:
        self.clock = Clock()
        self.problems: list[Problem] = []
        self.lost: list[tuple[str, str]] = []
        """Path and reason of each loss, the first time it was reported."""
        self.every: list[tuple[str, str]] = []
        self.log = LossLog(
            strict=strict,
            first=lambda what, path, reason: self.lost.append((path, reason)),
            every=lambda what, path, reason: self.every.append((path, reason)),
        )
        client, agent = RecordingSide("client"), RecordingSide("agent")
        capabilities = codec.read(ALL if able is None else able, v1.AgentCapabilities)
        report = self.problems.append
        self.up = Up(client, agent, self.log, report, self.clock.later, capabilities, **options)
        client.on_line, agent.on_line = self.up.from_client, self.up.from_agent
        client.on_noise = agent.on_noise = lambda event: report(Problem("noise", event.reason))
        self.client = Player(client, self.up.from_client)
        self.agent = Player(agent, self.up.from_agent)

    # ---- scenes

    def session(self, session: str = "s", **result: Any) -> None:
        """A new session."""
        self.client.ask("session/new", {"cwd": "/work"})
        asked = self.agent.last_asked("session/new")
        self.agent.answer(asked, {"sessionId": session, **result})

    def prompt(self, words: str = "hi", session: str = "s") -> Any:
        """The client prompts; the id of its request."""
        return self.client.ask("session/prompt", {"sessionId": session, "prompt": [text(words)]})

    def cancel(self, session: str = "s") -> None:
        self.client.notify("session/cancel", {"sessionId": session})

    def update(self, update: Json, session: str = "s") -> None:
        self.agent.notify("session/update", {"sessionId": session, "update": update})

    def chunk(
        self, words: str = "a", kind: str = "agent_message_chunk", session: str = "s"
    ) -> None:
        self.update({"sessionUpdate": kind, "content": text(words)}, session)

    def permission(self, call: str = "t", session: str = "s", **fields: Any) -> Any:
        """The agent asks for permission; the id of its request."""
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        tool_call = {"toolCallId": call, "title": "Run make"}
        params = {"sessionId": session, "toolCall": tool_call, "options": options, **fields}
        return self.agent.ask("session/request_permission", params)

    def allow(self) -> None:
        """The client allows what it was asked last."""
        asked = self.client.last_asked("session/request_permission")
        self.client.answer(asked, {"outcome": {"outcome": "selected", "optionId": "yes"}})

    def finish(self, reason: str = "end_turn", **fields: Any) -> None:
        """The agent ends the turn of the last prompt."""
        asked = self.agent.last_asked("session/prompt")
        self.agent.answer(asked, {"stopReason": reason, **fields})

    def die(self) -> None:
        """The agent dies."""
        error = RequestError(-32603, "The agent ended", {"exitCode": 3, "stderr": "boom"})
        self.up.agent_died(error)

    @property
    def pending(self) -> list[str]:
        """What is still open, in words."""
        up = self.up
        found = [f"the agent owes {each.method}" for each in up.agent.pending]
        found += [f"the client owes {each.method}" for each in up.client.pending]
        for session in up.sessions.values():
            found += [f"{session.session_id} has a turn"] * (session.turn is not None)
            found += [f"{session.session_id} asks {each}" for each in session.questions]
            found += [f"{each.request_id} waits" for each in session.queued]
        return found


# ---- what many tests send ---------------------------------------------------------------------


def modes(current: str = "ask", *names: str) -> Json:
    listed = [{"id": name, "name": name.title()} for name in names or ("ask", "code")]
    return {"currentModeId": current, "availableModes": listed}


def resume(stage: Stage, *, replay: bool, session: str = "s") -> Any:
    params: Json = {"sessionId": session, "cwd": "/work"}
    if replay:
        params["replayFrom"] = {"type": "start"}
    return stage.client.ask("session/resume", params)


def choose(stage: Stage, option: str, value: Any, kind: str = "id") -> Any:
    params = {"sessionId": "s", "configId": option, "type": kind, "value": value}
    return stage.client.ask("session/set_config_option", params)
