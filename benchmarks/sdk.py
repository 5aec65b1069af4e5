"""What the official Python SDK does with lines, and how long it takes.

Run by the interpreter of an environment that has the SDK, and by nobody else:

    python sdk.py 1|2

A line in is `{"task": ..., "lines": [...]}`, a line out `{"result": ...}` or `{"error": ...}`.
A line of the protocol is read as the SDK's own connection reads it: `json.loads`, then
`model_validate` of the params.
"""

import importlib
import json
import sys
import tracemalloc
from time import process_time
from typing import Any

SCHEMAS = {
    1: ("acp.schema", "SessionNotification"),
    2: ("acp.experimental.v2.schema", "UpdateSessionNotification"),
}


class Reader:
    """One version of the protocol, as the SDK reads it."""

    def __init__(self, version: int) -> None:
        module, name = SCHEMAS[version]
        self.validate = getattr(importlib.import_module(module), name).model_validate
        self.kept: list[Any] = []

    def start(self, lines: list[bytes]) -> None:
        """Forget what `stream` kept."""
        self.kept = []

    def decode(self, lines: list[bytes]) -> float:
        """Seconds to read the lines."""
        loads, validate = json.loads, self.validate
        start = process_time()
        for line in lines:
            validate(loads(line)["params"])
        return process_time() - start

    def stream(self, lines: list[bytes]) -> float:
        """Seconds to read the lines and append what they say to a list."""
        loads, validate, append = json.loads, self.validate, self.kept.append
        start = process_time()
        for line in lines:
            append(validate(loads(line)["params"]).update)
        return process_time() - start

    def accumulate(self, lines: list[bytes]) -> dict[str, float]:
        """Seconds to read the lines into a `SessionAccumulator`, and how much text it then has."""
        from acp.contrib.session_state import SessionAccumulator

        loads, validate, apply = json.loads, self.validate, SessionAccumulator().apply
        start = process_time()
        for line in lines:
            snapshot = apply(validate(loads(line)["params"]))
        seconds = process_time() - start
        text = sum(len(chunk.content.text) for chunk in snapshot.agent_messages)
        return {"seconds": seconds, "characters": text}

    def memory(self, lines: list[bytes]) -> float:
        """Bytes that are held for a line when its update is kept in a list."""
        self.decode(lines[:10])  # what is made once is not a line's
        tracemalloc.start()
        kept = [self.validate(json.loads(line)["params"]).update for line in lines]
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held / len(kept)


def main() -> None:
    """Answer every line until the input ends."""
    reader = Reader(int(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            result = getattr(reader, asked["task"])([each.encode() for each in asked["lines"]])
            answer = {"result": result}
        except Exception as error:
            # one task that fails is one row without a number
            answer = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
