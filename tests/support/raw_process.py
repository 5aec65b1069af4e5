"""Agents as real processes that write raw JSON lines: small scripts for a bare interpreter."""

import os
import sys
import time
from pathlib import Path

_PRELUDE = """
import json, os, subprocess, sys, time

def write(data):
    while data:
        data = data[os.write(1, data):]

def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")

def answer(request, result):
    send({"id": request["id"], "result": result})

def fail(request, code, text, **more):
    send({"id": request["id"], "error": {"code": code, "message": text, **more}})

def update(update, session="s"):
    params = {"sessionId": session, "update": update}
    send({"method": "session/update", "params": params})

def text(words):
    content = {"type": "text", "text": words}
    update({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content})

def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)

def initialize(request):
    answer(request, {"protocolVersion": 1, "agentInfo": {"name": "raw", "version": "1"}})

def prompt(request):
    answer(request, {"stopReason": "end_turn"})

def serve():
    while True:
        request = read()
        method = request.get("method")
        if method == "initialize":
            initialize(request)
        elif method == "session/new":
            answer(request, {"sessionId": "s"})
        elif method == "session/prompt":
            prompt(request)
        elif method is not None and "id" in request:
            fail(request, -32601, "Method not found")
"""


def raw_agent(script: str) -> list[str]:
    """A command: `script` may replace `initialize` and `prompt`, and then the agent serves."""
    return [sys.executable, "-I", "-S", "-c", f"{_PRELUDE}\n{script}\nserve()"]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return sys.platform != "linux"
    return state != "Z"


def gone(pid: int) -> bool:
    """Whether a process ends, now or very soon."""
    deadline = time.monotonic() + 3
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.005)
    return not alive(pid)
