"""The least of a client, in version 1 or 2.

    python -m benchmarks.bridge_peers.client 1|2 UPDATES PINGS COMMAND...

Starts the command, which is an agent or leads to one, lets it say so many updates in one turn, and
prints how long that took, how long a round trip takes, and how much memory the command came to.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ENOUGH = 1 << 16
_INFO = {"name": "bench", "version": "1"}


class Client:
    """One request at a time."""

    def __init__(self, version: int, writes_to: int, reads_from: int) -> None:
        self._version = version
        self._writes_to = writes_to
        self._reads_from = reads_from
        self._rest = b""

    def request(self, method: str, params: dict[str, Any]) -> None:
        """Send a request and read until its answer."""
        self._send(method, params)
        while not any(b'"result"' in line or b'"error"' in line for line in self._lines()):
            pass

    def _send(self, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        os.write(self._writes_to, json.dumps(message).encode() + b"\n")

    def _lines(self) -> list[bytes]:
        data = os.read(self._reads_from, ENOUGH)
        if not data:
            raise EOFError("the agent ended")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def initialize(self) -> None:
        """Introduce ourselves and begin a session."""
        params: dict[str, Any] = {"protocolVersion": self._version}
        params |= {"clientInfo": _INFO} if self._version == 1 else {"info": _INFO}
        self.request("initialize", params)
        self.request("session/new", {"cwd": "/", "mcpServers": []})

    def turn(self, updates: int) -> int:
        """A prompt; how many chunks came before the end of its turn."""
        prompt = [{"type": "text", "text": str(updates)}]
        self._send("session/prompt", {"sessionId": "s1", "prompt": prompt})
        seen = 0
        over = b'"stopReason"'
        while True:
            for line in self._lines():
                if b"agent_message_chunk" in line:
                    seen += 1
                elif over in line or b'"error"' in line:
                    return seen


def _resident(pid: int) -> int:
    """The most memory that a process came to, in bytes; 0 where that is not known."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    (line,) = [each for each in status.splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def main() -> None:
    """Do it and print what was found."""
    version, updates, pings = map(int, sys.argv[1:4])
    with subprocess.Popen(sys.argv[4:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        client = Client(version, command.stdin.fileno(), command.stdout.fileno())
        client.initialize()
        client.turn(2_000)
        times = []
        for _ in range(pings):
            start = perf_counter()
            client.request("_ping", {})
            times.append(perf_counter() - start)
        start = perf_counter()
        seen = client.turn(updates)
        seconds = perf_counter() - start
        found = {
            "seconds": seconds,
            "seen": seen,
            "round_trip": median(times) if times else 0.0,
            "resident": _resident(command.pid),
        }
        print(json.dumps(found))
        command.stdin.close()


if __name__ == "__main__":
    main()
