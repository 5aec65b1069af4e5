"""An agent with a record of what a diagnosis needs: versions, noise, the exit of its process.

The messages pass through unchanged. What is kept is bounded, whatever the agent writes.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from twofold.client.launch import RecentStderr, located
from twofold.peer.problems import Problem
from twofold.rpc.connection import (
    Batch,
    Failure,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    read_line,
)
from twofold.text import one_line
from twofold.transport import groups
from twofold.transport.base import Transport
from twofold.transport.endpoint import Endpoint
from twofold.transport.process import Process
from twofold.transport.remote import RemoteTransport, open_remote
from twofold.transport.tape import Direction, Tape, Taped
from twofold.wire import codec
from twofold.wire.base import Malformed as NotJson

LINGER = 1.0
"""How many seconds what the agent started may go on after the agent has exited."""
MOST = 100
"""How many different problems are kept."""
_POLL = 0.05
_MARK = "TWOFOLD_DOCTOR"


class Handshake(Struct):
    """One `initialize`: the version that was asked for, and what came back."""

    asked: Any
    answered: Any = None
    """The version of the answer; None if there was no answer or an error."""
    error: str = ""
    """The error that the agent answered with."""

    def __str__(self) -> str:
        answered = f"answered {self.answered!r}" if self.answered is not None else "no answer"
        return f"asked for version {self.asked}, {self.error or answered}"


class WatchedAgent:
    """The agent of a command or at a URL. `open` connects to it, again if need be."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.process: Process | None = None
        self.connection: RemoteTransport | None = None
        """The connection to an agent at a URL."""
        self.starts = 0
        self.start_seconds = 0.0
        self.handshakes: list[Handshake] = []
        self.early_updates = 0
        """How many updates arrived between the last `session/new` and its answer."""
        self.stderr = RecentStderr()
        self.stderr_size = 0
        self.problems: Counter[tuple[str, str]] = Counter()
        """How often each problem occurred, by its kind and text."""
        self.exit_seconds: float | None = None
        """How long the agent took to exit after the end of its input; None if it ended before."""
        self.detached: list[groups.Running] = []
        """Processes that left the agent's group and still ran after its end."""
        self._command = command
        self._cwd = cwd
        self._env = dict(env or {})
        self._endpoint = endpoint
        self._mark = secrets.token_hex(8)
        self._initializing: dict[RequestId, Handshake] = {}
        self._opening: RequestId | None = None

    async def open(self) -> Transport:
        """Start the command, or connect to the URL.

        Raises:
            CommandNotStarted: It cannot be started.
            NotReached: There is no connection.
        """
        clock = asyncio.get_running_loop().time
        begun = clock()
        self._initializing.clear()
        if self._endpoint is not None:
            self.connection = await open_remote(self._endpoint)
            self.starts += 1
            self.start_seconds = clock() - begun
            return Taped(self.connection, _Lines(self))
        self.process = await Process.spawn(
            located(self._command, self._cwd),
            cwd=self._cwd,
            env={**self._env, _MARK: self._mark},
            on_stderr=self._on_stderr,
            linger=LINGER,
        )
        self.starts += 1
        self.start_seconds = clock() - begun
        return _Watched(self.process, self)

    @property
    def over(self) -> bool:
        """Whether there is no agent any more, as far as this side can see."""
        if self._endpoint is not None:
            return self.connection is None
        return self.process is None or not self.process.running

    def report(self, problem: Problem) -> None:
        """Count a problem of the connection (`on_problem`)."""
        key = (problem.kind, str(problem))
        if key in self.problems or len(self.problems) < MOST:
            self.problems[key] += 1

    async def close(self, process: Process) -> None:
        """End the process, and note how long it took and what it left behind."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        ended_before = not process.running
        closing = asyncio.create_task(process.close())
        exited = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({closing, exited}, return_when=asyncio.FIRST_COMPLETED)
            self.exit_seconds = None if ended_before else clock() - begun
            await closing
        finally:
            exited.cancel()
        await self._find_detached(clock() + LINGER)

    async def _find_detached(self, deadline: float) -> None:
        clock = asyncio.get_running_loop().time
        while found := groups.with_variable(f"{_MARK}={self._mark}"):
            if clock() >= deadline:
                self.detached = found
                return
            await asyncio.sleep(_POLL)  # nothing reports the end of a process that is not ours

    # ---- what passes

    def _on_stderr(self, data: bytes) -> None:
        self.stderr_size += len(data)
        self.stderr.add(data)

    def read(self, direction: Direction, line: bytes) -> None:
        """Look at a line that was sent."""
        for event in read_line(line):
            if not isinstance(event, Batch | Malformed):
                self._read(direction, event)

    def _read(
        self, direction: Direction, event: Request | Notification | Response | Failure
    ) -> None:
        if direction == "c2a" and isinstance(event, Request):
            if event.method == "initialize":
                asked = Handshake(_field(event.params, "protocolVersion"))
                self.handshakes.append(asked)
                self._initializing[event.id] = asked
            elif event.method == "session/new":
                self._opening, self.early_updates = event.id, 0
        elif direction == "a2c" and isinstance(event, Response | Failure) and event.id is not None:
            handshake = self._initializing.pop(event.id, None)
            if handshake is not None and isinstance(event, Response):
                handshake.answered = _field(event.result, "protocolVersion")
            elif handshake is not None and isinstance(event, Failure):
                handshake.error = f"refused: {one_line(str(_field(event.error, 'message')))[:100]}"
            if event.id == self._opening:
                self._opening = None
        elif isinstance(event, Notification) and event.method == "session/update":
            self.early_updates += self._opening is not None


def _field(data: Any, name: str) -> Any:
    """A field of a JSON object that was not parsed yet; None if there is none."""
    try:
        value = codec.parse(bytes(data)) if data else None
    except (NotJson, TypeError):
        return None
    return value.get(name) if isinstance(value, dict) else None


class _Lines(Tape):
    """Passes every line to a `WatchedAgent` instead of writing it."""

    def __init__(self, agent: WatchedAgent) -> None:
        super().__init__(lambda line: None)
        self._agent = agent

    def line(self, direction: Direction, line: bytes) -> None:
        self._agent.read(direction, line)


class _Watched(Taped):
    """The transport to the agent."""

    def __init__(self, process: Process, agent: WatchedAgent) -> None:
        super().__init__(process, _Lines(agent))
        self._process = process
        self._agent = agent

    async def close(self) -> None:
        await self._agent.close(self._process)
