"""An agent of version 1 that has only what version 1 demands, written without a library.

It gives neither itself nor its messages a name, answers one request after the other, and keeps a
session only as long as it runs. The prompt `slow` is answered when it is cancelled.
"""

import json
import sys
from typing import Any

Json = dict[str, Any]

NAMELESS = {"name": "", "version": ""}

sessions: set[str] = set()
running: dict[str, Any] = {}
"""The prompts that wait for a cancel: session to request id."""


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def refuse(request: Json, code: int, message: str) -> None:
    send(id=request["id"], error={"code": code, "message": message})


def new_session() -> Json:
    session = f"bare-{len(sessions) + 1}"
    sessions.add(session)
    return {"sessionId": session}


def prompt(request: Json) -> None:
    session = request["params"]["sessionId"]
    if session not in sessions:
        refuse(request, -32602, "There is no such session")
        return
    for text in ("Hello, ", "world."):
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        send(method="session/update", params={"sessionId": session, "update": update})
    if request["params"]["prompt"][0].get("text") == "slow":
        running[session] = request["id"]
    else:
        send(id=request["id"], result={"stopReason": "end_turn"})


def receive(message: Json) -> None:
    method = message.get("method")
    if method == "session/cancel":
        request_id = running.pop(message["params"]["sessionId"], None)
        if request_id is not None:
            send(id=request_id, result={"stopReason": "cancelled"})
    elif method is None or "id" not in message:
        pass
    elif method == "initialize":
        result = {"protocolVersion": 1, "agentInfo": NAMELESS, "agentCapabilities": {}}
        send(id=message["id"], result=result)
    elif method == "session/new":
        send(id=message["id"], result=new_session())
    elif method == "session/prompt":
        prompt(message)
    else:
        refuse(message, -32601, "Method not found")


if __name__ == "__main__":
    for line in sys.stdin:
        receive(json.loads(line))
