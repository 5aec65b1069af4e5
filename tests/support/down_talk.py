"""A client of version 1 and an agent of version 2, played by hand, and a bridge's `Down` between.

    talk = Talk()
    prompt = talk.prompt("hello")                  # the client asks
    talk.answer(talk.asked("session/prompt"), {"messageId": "u1"})
    talk.update(RUNNING, chunk("hi"), IDLE)
    assert talk.result(prompt) == {"stopReason": "end_turn"}

Nothing waits: a message arrives before the call that sends it returns, and the test fires timers.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

from tests.support.bridge_stage import Clock, RecordingSide, text
from twofold.bridge.down import Down
from twofold.bridge.loss_log import LossLog
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestError
from twofold.wire import codec, v1

Json = dict[str, Any]

S = "s"
RUNNING = {"sessionUpdate": "state_update", "state": "running"}
ACTION = {"sessionUpdate": "state_update", "state": "requires_action"}
SNAPSHOT = {"sessionUpdate": "state_update", "state": "idle"}
IDLE = {**SNAPSHOT, "stopReason": "end_turn"}
STOPPED = {**SNAPSHOT, "stopReason": "cancelled"}
ALL = {
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "elicitation": {"form": {}},
}
"""The capabilities of a client that shows everything."""
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
]
CHOSEN = {"outcome": {"outcome": "selected", "optionId": "yes"}}
DISMISSED = {"outcome": {"outcome": "cancelled"}}


def chunk(words: str, message_id: str = "m", kind: str = "agent_message") -> Json:
    """A chunk of a message."""
    tag = f"{kind}_chunk"
    return {"sessionUpdate": tag, "messageId": message_id, "content": text(words)}


def whole(*words: str, message_id: str = "m", kind: str = "agent_message", **rest: Any) -> Json:
    content = [text(each) for each in words]
    return {"sessionUpdate": kind, "messageId": message_id, "content": content, **rest}


def call(call_id: str = "c", **patch: Any) -> Json:
    """A tool call of version 2."""
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **patch}


def shell(call_id: str = "c", terminal_id: str = "t") -> Json:
    """A tool call that shows a terminal."""
    content = [{"type": "terminal", "terminalId": terminal_id}]
    return call(call_id, title="Shell", kind="execute", status="in_progress", content=content)


def printed(words: str, terminal_id: str = "t") -> Json:
    data = base64.b64encode(words.encode()).decode()
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": terminal_id, "data": data}


class Talk:
    """Both sides of a conversation, and what became of it."""

    def __init__(self, able: Json | None = None, *, strict: bool = False) -> None:
        self.client, self.agent = RecordingSide("client"), RecordingSide("agent")
        self.lost: list[tuple[str, str, str]] = []
        self.problems: list[Problem] = []
        self.clock = Clock()
        self.log = LossLog(strict=strict, every=lambda *loss: self.lost.append(loss))
        read = codec.read(ALL if able is None else able, v1.ClientCapabilities)
        report = self.problems.append
        self.down = Down(self.client, self.agent, self.log, report, self.clock.later, read)
        self._last_id = 0

    @property
    def timers(self) -> list[float]:
        """For how many seconds each timer was set that runs now."""
        return [due for due, _ in self.clock.waiting.values()]

    def fire(self) -> list[float]:
        """Let every timer fire that runs now; for how long they were set."""
        return self.clock.run()

    # ---- from the client

    def from_client(self, **message: Any) -> None:
        self.down.from_client(_line(message))

    def ask(self, method: str, params: Any = None) -> int:
        """A request of the client; its id."""
        self._last_id += 1
        self.from_client(id=self._last_id, method=method, params=params or {})
        return self._last_id

    def prompt(self, *words: str, session: str = S) -> int:
        blocks = [text(each) for each in words or ("hello",)]
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks})

    def cancel(self, session: str = S) -> None:
        self.from_client(method="session/cancel", params={"sessionId": session})

    def withdraw(self, identity: Any) -> None:
        self.from_client(method="$/cancel_request", params={"requestId": identity})

    # ---- from the agent

    def from_agent(self, **message: Any) -> None:
        self.down.from_agent(_line(message))

    def update(self, *updates: Json, session: str = S, **beside: Any) -> None:
        for update in updates:
            params = {"sessionId": session, "update": update, **beside}
            self.from_agent(method="session/update", params=params)

    def agent_asks(self, method: str, params: Json, identity: Any = "q1") -> Any:
        self.from_agent(id=identity, method=method, params=params)
        return identity

    def ask_permission(self, identity: Any = "q1", session: str = S, **rest: Any) -> Any:
        params = {"sessionId": session, "title": "May I?", "options": OPTIONS, **rest}
        return self.agent_asks("session/request_permission", params, identity)

    def die(self) -> None:
        """The agent is gone."""
        self.down.agent_died(RequestError(-32603, "The agent ended", {"exitCode": 3}))

    def leave(self) -> None:
        """The client is gone."""
        self.down.client_left()
        self.down.close()

    # ---- answers

    def answer(self, request: Json, result: Any) -> None:
        """Answer a request as the side that received it."""
        self._side_of(request)(id=request["id"], result=result)

    def refuse(self, request: Json, code: int, message: str = "no", **rest: Any) -> None:
        error = {"code": code, "message": message, **rest}
        self._side_of(request)(id=request["id"], error=error)

    def _side_of(self, request: Json) -> Callable[..., None]:
        of_client = any(each is request for each in self.client.messages)
        return self.from_client if of_client else self.from_agent

    def accepted(self, message_id: str = "u1", *words: str) -> int:
        """A prompt that the agent has accepted."""
        prompt = self.prompt(*words)
        self.answer(self.asked("session/prompt"), {"messageId": message_id})
        return prompt

    def begin(self, message_id: str = "u1", *words: str) -> int:
        """A prompt that the agent works on."""
        prompt = self.accepted(message_id, *words)
        self.update(RUNNING)
        return prompt

    # ---- what the sides received

    def asked(self, method: str) -> Json:
        """The last request or notification of `method` that the agent got."""
        return [each for each in self.agent.messages if each.get("method") == method][-1]

    def shown(self, method: str) -> Json:
        """The last request or notification of `method` that the client got."""
        return [each for each in self.client.messages if each.get("method") == method][-1]

    def updates(self) -> list[Json]:
        """The updates that the client got."""
        notes = [each for each in self.client.messages if each.get("method") == "session/update"]
        return [each["params"]["update"] for each in notes]

    def answers(self, identity: Any) -> list[Json]:
        """What the client was answered."""
        return _answers(self.client.messages, identity)

    def agent_answers(self, identity: Any) -> list[Json]:
        """What the agent was answered."""
        return _answers(self.agent.messages, identity)

    def result(self, identity: Any) -> Any:
        (answer,) = self.answers(identity)
        return answer["result"]

    def error(self, identity: Any) -> Json:
        (answer,) = self.answers(identity)
        error: Json = answer["error"]
        return error

    def agent_result(self, identity: Any) -> Any:
        (answer,) = self.agent_answers(identity)
        return answer["result"]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """The text of all chunks that the client received."""
        found = [each for each in self.updates() if each["sessionUpdate"] == kind]
        return "".join(each["content"]["text"] for each in found)

    @property
    def reasons(self) -> list[str]:
        """Why something was lost."""
        return [reason for _, _, reason in self.lost]


def _line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _answers(messages: list[Json], identity: Any) -> list[Json]:
    return [each for each in messages if "method" not in each and each["id"] == identity]
