"""The least of an agent: `python -m benchmarks.terminal_peers.agent`, version 2.

A prompt names a stream, whose chunks it says without a pause, or `calls N`: so many tool calls,
each announced and completed, or `paced N`: so many chunks, a thousand a second.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.terminal_peers.streams import read

STDIN, STDOUT = 0, 1
ENOUGH = 1 << 16


def _requests() -> Iterator[Any]:
    rest = b""
    while data := os.read(STDIN, ENOUGH):
        *lines, rest = (rest + data).split(b"\n")
        yield from map(json.loads, lines)


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def _update(**update: Any) -> bytes:
    return _line(method="session/update", params={"sessionId": "s", "update": update})


def _write(lines: Iterable[bytes]) -> None:
    data = b""
    for line in lines:
        data += line
        if len(data) >= ENOUGH:
            _write_all(data)
            data = b""
    _write_all(data)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(STDOUT, data) :]


def _turn(prompt: str) -> Iterator[bytes]:
    yield _update(sessionUpdate="state_update", state="running")
    if prompt.startswith("calls "):
        for number in range(int(prompt.removeprefix("calls "))):
            yield from _call(number)
    elif prompt.startswith("paced "):
        for number in range(int(prompt.removeprefix("paced "))):
            time.sleep(0.001)
            _write_all(_said(f"word{number} "))
    else:
        for text in read(Path(prompt)):
            yield _said(text)
    yield _update(sessionUpdate="state_update", state="idle", stopReason="end_turn")


def _said(text: str) -> bytes:
    content = {"type": "text", "text": text}
    return _update(sessionUpdate="agent_message_chunk", messageId="m", content=content)


def _call(number: int) -> Iterator[bytes]:
    call = {"sessionUpdate": "tool_call_update", "toolCallId": str(number)}
    place = [{"path": f"/src/file_{number}.py", "line": number + 1}]
    yield _update(**call, title=f"Read file {number}", kind="read", status="in_progress")
    text = f"{number} lines\nand nothing else"
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    yield _update(**call, status="completed", locations=place, content=content)


def main() -> None:
    """Answer every request until the input ends."""
    info = {"name": "stream", "version": "1"}
    for request in _requests():
        match request.get("method"):
            case "initialize":
                able = {"protocolVersion": 2, "capabilities": {"session": {}}, "info": info}
                _write([_line(id=request["id"], result=able)])
            case "session/new":
                _write([_line(id=request["id"], result={"sessionId": "s"})])
            case "session/prompt":
                _write([_line(id=request["id"], result={"messageId": "u"})])
                _write(_turn(request["params"]["prompt"][0]["text"]))
            case _ if "id" in request:
                _write([_line(id=request["id"], result={})])


if __name__ == "__main__":
    main()
