"""An agent that breaks every rule it can: `broken.py [wrong | locked | refusing]`.

It shows that the probes and rules notice. As `locked` it makes no session and names no login, as
`refusing` it does not even answer `initialize`.
"""

import json
import sys
import time
from typing import Any

Json = dict[str, Any]

TWO_LINES = {"code": -32000, "message": "two\nlines"}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
LOGINS = {
    1: [
        {"type": "terminal", "id": "t", "name": "T"},
        {"id": "t", "name": "T"},
    ],
    2: [
        {
            "type": "terminal",
            "methodId": "t",
            "name": "T",
            "args": [1],
            "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        },
        {"type": "agent", "methodId": "t", "name": "T"},
        {"type": "strange", "methodId": "s", "name": "S"},
    ],
}
CAPABILITIES = {
    1: {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
        "sessionCapabilities": {
            "list": {},
            "resume": {},
            "close": {},
            "delete": {},
            "additionalDirectories": {},
        },
        "auth": {"logout": {}},
    },
    2: {
        "session": {
            "prompt": {"image": True, "audio": {}, "embeddedContext": {}},
            "delete": {},
            "additionalDirectories": {},
        },
        "vendor": {},
    },
}
CHOICES: list[Json] = [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}]
OPTIONS: list[Json] = [
    {"type": "select", "name": "M", "currentValue": "none of them", "options": CHOICES},
    {"type": "boolean", "name": 1, "currentValue": "yes"},
]
MODES = {"currentModeId": "none of them", "availableModes": [{"id": "a", "name": "A"}]}
UPDATES: list[Json] = [
    CHUNK,
    {"sessionUpdate": "tool_call_update", "kind": "strange", "status": 1},
    {"sessionUpdate": "plan_update", "plan": {"type": "items", "entries": []}},
    {"sessionUpdate": "terminal_update", "terminalId": "t", "cwd": "relative"},
    {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "not base64!"},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "strange_update", "_meta": 1},
]
REQUESTS = ["fs/read_text_file", "terminal/create", "elicitation/create", "strange/method"]
QUESTION = {"sessionId": "s", "title": "", "toolCall": {}, "options": []}


class Broken:
    """One connection of it."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.version = 0
        self.patient = False
        """It goes on when its input has ended."""
        self.locked = mode == "locked"
        self.slow: Any = None
        """The id of a prompt that was not answered yet."""
        self.cancelled = 0

    # ---- sending

    def line(self, data: bytes) -> None:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def update(self, update: Json, session: str = "s") -> None:
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def state(self, state: str, **more: Any) -> None:
        if self.version == 2:
            self.update({"sessionUpdate": "state_update", "state": state, **more})

    # ---- receiving

    def receive(self, line: str) -> None:
        try:
            read = json.loads(line)
        except ValueError:
            return
        if isinstance(read, list):
            self.batch(read)
        elif "method" in read and "id" in read:
            self.answer(read)
        elif "method" in read:
            self.notified(read)

    def batch(self, entries: list[Any]) -> None:
        if not entries:
            self.line(json.dumps([{"jsonrpc": "2.0", "id": None, "error": TWO_LINES}]).encode())
        elif all(isinstance(entry, dict) for entry in entries):
            for entry in entries:
                self.send(id=entry.get("id"), result={"sessionId": "s"})

    def notified(self, message: Json) -> None:
        self.send(id=None, result={})  # without a request
        if message["method"] == "session/cancel" and self.slow is not None:
            if "_meta" not in message["params"]:
                self.send(id=self.slow, error=TWO_LINES)
            elif self.version == 1:
                self.send(id=self.slow, result={"stopReason": "cancelled"})
                self.update(CHUNK)
            else:
                self.send(id=self.slow, result={})
                self.state("idle", stopReason="cancelled")
                self.state("running")
            self.slow = None

    def answer(self, request: Json) -> None:
        method, params = request["method"], request.get("params") or {}
        request_id = 17 if request["id"] == "17" else request["id"]
        if method == "session/prompt":
            self.prompt(request_id, params)
        elif method in ("session/resume", "session/load"):
            self.again(request_id, method, params)
        elif method == "session/close" and self.slow is not None:
            self.state("idle", stopReason="end_turn")
            self.send(id=self.slow, result={"stopReason": "end_turn"})
            self.slow = None
            self.send(id=request_id, result={})
        elif method.startswith("_conformance/fence"):
            self.send(id=request_id, result=None, error=TWO_LINES)
        elif not method.startswith("_"):
            result = self.result(method, params)
            if result is None:
                self.send(id=request_id, error=TWO_LINES)
            else:
                self.send(id=request_id, result=result)

    def result(self, method: str, params: Json) -> Any:
        """The result of a method; None is an error."""
        match method:
            case "initialize":
                return self.initialize(params)
            case "session/new":
                return self.new_session(params)
            case "authenticate" | "auth/login" | "session/set_mode":
                return {}
            case "logout" | "auth/logout":
                return []
            case "session/list":
                if "cwd" in params:
                    return {"sessions": [{"sessionId": "s", "cwd": "relative"}]}
                return {"sessions": "none"}
            case "session/close":
                return {"surprise": 1}
            case "session/delete":
                return [] if params["sessionId"] == "s" else None
            case "session/set_config_option":
                return {"configOptions": []}
        return None

    def initialize(self, params: Json) -> Json | None:
        asked = params["protocolVersion"]
        self.version = 2 if "info" in params else 1
        self.patient = asked == 65535
        if self.mode == "refusing" or (asked, self.version) == (1, 2):
            return None
        capabilities = params.get("capabilities" if self.version == 2 else "clientCapabilities")
        self.locked = self.locked or "auth" in (capabilities or {})
        result: Json = {"protocolVersion": asked if self.version == 2 else str(asked)}
        if self.version == 2:
            result["info"] = {"name": "", "version": ""}
        result["capabilities" if self.version == 2 else "agentCapabilities"] = CAPABILITIES[
            self.version
        ]
        if self.mode != "locked":
            result["authMethods"] = LOGINS[self.version]
        return result

    def new_session(self, params: Json) -> Json | None:
        if self.locked or "mcpServers" not in params or "additionalDirectories" in params:
            return None
        key = "configId" if self.version == 2 else "id"
        options = [{key: f"o{at}", **option} for at, option in enumerate(OPTIONS)]
        found = {"sessionId": "s", "configOptions": options, "surprise": 1}
        return found if self.version == 2 else {**found, "modes": MODES}

    def prompt(self, request_id: Any, params: Json) -> None:
        text = params.get("prompt", [{}])[0].get("text")
        if text == "slow":
            self.slow = request_id
            if self.version == 2 and self.cancelled == 2:  # so that a close has a turn to end
                self.send(id=request_id, result={})
            self.cancelled += 1
            self.update(CHUNK)
            return
        if text == "permission":
            self.send(id="q", method="session/request_permission", params=QUESTION)
        self.line(b"a line of a log")
        self.line(b'{"not": "\xff"}')
        for update in UPDATES:
            self.update(update)
        self.update(CHUNK, "another session")
        for at, method in enumerate(REQUESTS):
            self.send(id=f"r{at}", method=method, params={})
        self.state("idle", stopReason="done")
        self.send(id=request_id, result={"stopReason": "done"} if self.version == 1 else {})

    def again(self, request_id: Any, method: str, params: Json) -> None:
        self.update(CHUNK)
        self.send(id=request_id, result=[])
        if method == "session/load" or "replayFrom" in params:
            self.update(CHUNK)


if __name__ == "__main__":
    agent = Broken(sys.argv[1])
    for line in sys.stdin:
        agent.receive(line)
    if agent.patient:
        time.sleep(60)
