"""The least of an agent, in version 1 or 2: `python -m benchmarks.bridge_peers.agent 1|2`.

It answers what the client of this benchmark asks, and streams as many chunks as the prompt says.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

STDIN, STDOUT = 0, 1
ENOUGH = 1 << 16
TEXT = "a few words at a time, "

_ABLE = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "a", "version": "1"}}
_ABLE_V2 = {
    "protocolVersion": 2,
    "capabilities": {"session": {}},
    "info": {"name": "a", "version": "1"},
}


def _requests() -> Iterator[Any]:
    rest = b""
    while data := os.read(STDIN, ENOUGH):
        *lines, rest = (rest + data).split(b"\n")
        yield from map(json.loads, lines)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(STDOUT, data) :]


def _say(**message: Any) -> None:
    _write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _update(session: str, update: dict[str, Any]) -> None:
    _say(method="session/update", params={"sessionId": session, "update": update})


def _stream(session: str, count: int, version: int) -> None:
    chunk: dict[str, Any] = {"sessionUpdate": "agent_message_chunk"}
    if version == 2:
        chunk["messageId"] = "m1"
    chunk["content"] = {"type": "text", "text": TEXT}
    params = {"sessionId": session, "update": chunk}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    at_once = max(1, ENOUGH // len(line))
    while count > 0:
        _write(line * min(count, at_once))
        count -= at_once


def main() -> None:
    """Answer every request until the input ends."""
    version = int(sys.argv[1])
    for request in _requests():
        params = request.get("params", {})
        match request["method"]:
            case "initialize" if params["protocolVersion"] == version:
                _say(id=request["id"], result=_ABLE if version == 1 else _ABLE_V2)
            case "initialize":
                _say(id=request["id"], error={"code": -32602, "message": "another version"})
            case "session/new":
                _say(id=request["id"], result={"sessionId": "s1"})
            case "session/prompt" if version == 1:
                _stream("s1", int(params["prompt"][0]["text"]), version)
                _say(id=request["id"], result={"stopReason": "end_turn"})
            case "session/prompt":
                _say(id=request["id"], result={"messageId": "u1"})
                _update("s1", {"sessionUpdate": "state_update", "state": "running"})
                _stream("s1", int(params["prompt"][0]["text"]), version)
                idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
                _update("s1", idle)
            case _:
                _say(id=request["id"], result={})


if __name__ == "__main__":
    main()
