"""Both sides speak the same version: bytes pass through as they are.

They are looked at only to know which requests are still open, so that a client whose agent dies is
told so instead of waiting for ever. Nothing is changed, held back or left out.
"""

import re

from twofold.bridge.end import End
from twofold.rpc import connection
from twofold.rpc.errors import RequestError
from twofold.rpc.frames import Lines
from twofold.rpc.messages import Failure, Request, RequestId, Response

_METHOD = re.compile(rb'"method"\s*:')
_LOOKED_AT = 64 * 1024 * 1024


class Relay:
    """Passes bytes on between two ends, and knows what is open."""

    def __init__(self, client: End, agent: End) -> None:
        self._client = client
        self._agent = agent
        self._open: dict[RequestId, None] = {}
        self._from_client = Lines(_LOOKED_AT)
        self._from_agent = Lines(_LOOKED_AT)
        client.on_bytes = self.from_client
        agent.on_bytes = self.from_agent

    def from_client(self, data: bytes) -> None:
        """Bytes of the client."""
        self._agent.send(data)
        for line in self._from_client.feed(data):
            if isinstance(line, bytes):
                for event in connection.read_line(line):
                    if isinstance(event, Request):
                        self._open[event.id] = None

    def from_agent(self, data: bytes) -> None:
        """Bytes of the agent; only what may be an answer is looked at."""
        self._client.send(data)
        if not self._open:
            self._from_agent = Lines(_LOOKED_AT) if b"\n" in data else self._from_agent
        for line in self._from_agent.feed(data):
            if isinstance(line, bytes) and _METHOD.search(line, 0, 200) is None:
                for event in connection.read_line(line):
                    if isinstance(event, Response | Failure) and event.id is not None:
                        self._open.pop(event.id, None)

    def agent_died(self, error: RequestError) -> None:
        """Whoever still waits is told."""
        for identity in self._open:
            self._client.send(connection.fail(identity, error))
        self._open.clear()
