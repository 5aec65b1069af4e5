"""What runs between a read and a write: the program and the agent that `scripts.metrics` needs.

    python scripts/walk.py record SOURCE RESULT ARGUMENTS...   `twofold ARGUMENTS`, recorded
    python scripts/walk.py agent                               an agent of version 1 on stdio

The agent answers a prompt with chunks that hold `chunk01,`, `chunk02,` and so on, each after the
one before it has been drawn, and then asks for permission a few times.

A walk is what happens from the moment `os.read` returns one of these chunks until `os.write` writes
its text to the terminal, or from the moment `os.read` returns the key that answers a question until
`os.write` sends the answer. Of each walk are recorded the functions of Twofold

- that were `called`, for whatever reason, drawing the rest of the screen included;
- that were `passing`: on the stack when the text was given to a function (as bytes, text, a struct
  of the wire, or a sequence of these), when something was handed on (a callback scheduled, a future
  resolved), or at the last write. These are the steps that a reader of the code has to follow.

Comprehensions and lambdas belong to the function they are in, and what started the event loop does
not count. Nothing else of the project is imported here, so it also measures other versions of it.
"""

import json
import os
import re
import sys
import time
from types import FrameType
from typing import Any

CHUNKS = 20
QUESTIONS = 5
KEY = b"y"
_CHUNK = re.compile(rb"chunk(\d\d),")
_ANSWER = re.compile(rb'"outcome":"selected"')

# ---- the program -----------------------------------------------------------------------------


_WIRE = "twofold.wire"
_HANDS_ON = frozenset({"call_soon", "call_later", "call_at", "set_result", "Event.set"})


class Recorder:
    """Stands between the program and `os`."""

    def __init__(self, source: str, result: str) -> None:
        self._source = os.path.join(source, "twofold", "")
        self._result = result
        self._called: set[str] = set()
        self._passing: set[str] = set()
        self._awaited = ""
        self._walks: list[dict[str, Any]] = []
        self._read, self._write = os.read, os.write

    def read(self, fd: int, size: int) -> bytes:
        data = self._read(fd, size)
        if found := _CHUNK.search(data):
            self._begin(f"chunk{found[1].decode()}")
        elif data == KEY and os.isatty(fd):
            self._begin("answer")
        return data

    def write(self, fd: int, data: Any) -> int:
        written = bytes(data)
        chunks = {f"chunk{each.decode()}" for each in _CHUNK.findall(written)}
        if self._awaited in chunks or (self._awaited == "answer" and _ANSWER.search(written)):
            self._end()
        return self._write(fd, data)

    def _begin(self, what: str) -> None:
        self._awaited = what
        self._called, self._passing = self._stack(sys._getframe(2)), set()
        sys.setprofile(self._profile)

    def _end(self) -> None:
        sys.setprofile(None)
        self._passing |= self._stack(sys._getframe(2))
        kind = self._awaited.rstrip("0123456789")
        functions = {"called": sorted(self._called), "passing": sorted(self._passing)}
        self._walks.append({"kind": kind, **functions})
        self._awaited = ""
        with open(self._result, "w", encoding="utf-8") as file:
            json.dump(self._walks, file)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            if name := self._name(frame):
                self._called.add(name)
                if self._is_given_the_text(frame):
                    self._passing |= self._stack(frame)
            elif not _HANDS_ON.isdisjoint((frame.f_code.co_name, frame.f_code.co_qualname)):
                self._passing |= self._stack(frame)
        elif event == "c_call" and argument.__name__ in _HANDS_ON:
            self._passing |= self._stack(frame)

    def _is_given_the_text(self, frame: FrameType) -> bool:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals.get(name) for name in names if name not in ("self", "cls")]
        return self._awaited != "answer" and _holds(given, self._awaited)

    def _stack(self, frame: FrameType | None) -> set[str]:
        """The functions of Twofold on the stack, down to the event loop."""
        found = set()
        while frame is not None and frame.f_code.co_qualname != "Handle._run":
            found.add(self._name(frame))
            frame = frame.f_back
        return found - {""}

    def _name(self, frame: FrameType) -> str:
        code = frame.f_code
        if not code.co_filename.startswith(self._source) or code.co_name.startswith("<"):
            return ""
        return f"{code.co_filename.removeprefix(self._source)}:{code.co_qualname}"


def _holds(value: Any, text: str, depth: int = 3) -> bool:
    match value:
        case str():
            return text in value
        case bytes() | bytearray() | memoryview():
            return text.encode() in bytes(value)
        case list() | tuple():
            return depth > 0 and any(_holds(each, text, depth - 1) for each in value)
    return type(value).__module__.startswith(_WIRE) and text in repr(value)


def record(source: str, result: str, arguments: list[str]) -> None:
    sys.path.insert(0, source)
    recorder = Recorder(source, result)
    os.read, os.write = recorder.read, recorder.write
    sys.argv = ["twofold", *arguments]
    from twofold.cli import main

    main()


# ---- the agent -------------------------------------------------------------------------------


def agent() -> None:
    numbers = iter(range(1, 1000))
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            _answer(number, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
        elif method == "session/new":
            _answer(number, {"sessionId": "s"})
        elif method == "session/prompt":
            prompt = number
            for chunk in range(CHUNKS):
                content = {"type": "text", "text": f"chunk{chunk:02}, "}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                _send(method="session/update", params={"sessionId": "s", "update": update})
                time.sleep(0.15)
            _ask(next(numbers))
        elif "result" in message:
            asked = next(numbers)
            if asked <= QUESTIONS:
                _ask(asked)
            else:
                _answer(prompt, {"stopReason": "end_turn"})


def _ask(number: int) -> None:
    _send(
        id=number,
        method="session/request_permission",
        params={
            "sessionId": "s",
            "toolCall": {"toolCallId": f"t{number}", "title": f"Step {number}", "kind": "execute"},
            "options": [
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ],
        },
    )


def _answer(number: Any, result: Any) -> None:
    _send(id=number, result=result)


def _send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        agent()
    else:
        record(sys.argv[2], sys.argv[3], sys.argv[4:])
