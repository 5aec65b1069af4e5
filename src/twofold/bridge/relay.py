"""Both sides speak the same version: bytes pass through as they are.

They are looked at only to know which requests are still open, so that a client whose agent dies is
told so instead of waiting for ever. Nothing is changed or left out, and nothing is held back but
the beginning of a line, if it is short: half an answer of an agent that dies is not an answer.
"""

import re
from typing import Literal

from twofold.bridge.end import End
from twofold.rpc import connection
from twofold.rpc.connection import Batch, Connection, is_whole
from twofold.rpc.errors import RequestError
from twofold.rpc.messages import Failure, Request, RequestId, Response

_LOOKED_AT = 64 * 1024 * 1024
_OPEN = 64 * 1024  # how many requests without an answer are remembered
_HELD = 64 * 1024  # how long the beginning of a line may be that waits for the rest
# The name of a method at the top of a message: it is no answer. Names inside a result do not count.
_ASKS = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:\d+|"[^"\\]*")\s*,\s*)?"method"'
)


class Relay:
    """Passes bytes on between two ends, and knows what is open."""

    def __init__(self, client: End, agent: End) -> None:
        self._client = client
        self._agent = agent
        self._open: dict[RequestId, int] = {}
        """The requests without an answer, each with the number of its batch; 0 if it has none."""
        self._batches = 0
        self._from_client = Connection(limit=_LOOKED_AT)
        self._from_agent = Connection(limit=_LOOKED_AT, first=_passed_over)
        self._whole_lines = True
        self._held = b""
        self._died: RequestError | None = None

    def from_client(self, data: bytes) -> None:
        """Bytes of the client."""
        self._agent.send(data)
        for event in self._from_client.receive(data):
            if isinstance(event, Request):
                self._open[event.id] = 0
            elif isinstance(event, Batch):
                self._batches += 1
                asked = [each.id for each in event if isinstance(each, Request)]
                self._open |= dict.fromkeys(asked, self._batches)
        while len(self._open) > _OPEN:
            del self._open[next(iter(self._open))]
        if self._died is not None:
            self.agent_died(self._died)

    def from_agent(self, data: bytes) -> None:
        """Bytes of the agent; only what may be an answer is looked at."""
        if self._held or not data.endswith(b"\n"):
            data = self._without_beginning(self._held + data)
            if not data:
                return
        self._client.send(data)
        self._whole_lines = data.endswith(b"\n")
        if not self._open:
            data = self._last_line(data)
        for event in self._from_agent.receive(data):
            for each in event if isinstance(event, Batch) else [event]:
                if isinstance(each, Response | Failure) and each.id is not None:
                    self._open.pop(each.id, None)

    def _without_beginning(self, data: bytes) -> bytes:
        """Hold the beginning of the last line back, unless some of it was sent or it is long."""
        line = data.rfind(b"\n") + 1
        hold = (line or self._whole_lines) and len(data) - line <= _HELD
        self._held = data[line:] if hold else b""
        return data[:line] if hold else data

    def _last_line(self, data: bytes) -> bytes:
        """Nobody waits for what is complete; where the next line begins must be known."""
        newline = data.rfind(b"\n")
        if newline < 0:
            return data
        self._from_agent = Connection(limit=_LOOKED_AT, first=_passed_over)
        return data[newline + 1 :]

    def agent_died(self, error: RequestError) -> None:
        """Whoever still waits, or asks from now on, gets `error`."""
        self._died = error
        if self._held and is_whole(self._held):
            self.from_agent(b"\n")
        self._held = b""
        if self._open and not self._whole_lines:
            self._client.send(b"\n")  # it died in the middle of a line
            self._whole_lines = True
        batches: dict[int, list[bytes]] = {}
        for identity, batch in self._open.items():
            answer = connection.fail(identity, error)
            if batch:
                batches.setdefault(batch, []).append(answer.rstrip())
            else:
                self._client.send(answer)
        for answers in batches.values():
            self._client.send(b"[" + b",".join(answers) + b"]\n")
        self._open.clear()

    def client_left(self) -> None:
        """The agent sees for itself that nobody speaks to it any more."""

    def close(self) -> None:
        """Nothing here runs by itself."""


def _passed_over(line: bytes) -> Literal[True] | None:
    return True if _ASKS.match(line) else None
