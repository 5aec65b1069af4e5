"""A replay on standard input and output, behind a bridge.

The bridge agrees on the version with the client. If that is the recording's, bytes pass through it
unread; if not, it converts every message.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from twofold.bridge import Bridge, LossLog
from twofold.cli.run_bridge import SIGNALLED, Stderr, cancelled_by_signals
from twofold.convert.versions import Dialect
from twofold.errors import LocalError
from twofold.journal.replay import Replay
from twofold.journal.script import Script, read_script
from twofold.peer.problems import Problem
from twofold.rpc.batches import Apart
from twofold.rpc.connection import Batch, Connection, Malformed, Message, read_line
from twofold.text.safe import one_line, sanitize
from twofold.transport.base import Transport
from twofold.transport.memory import memory_pair
from twofold.transport.stdio import Stdio

Report: TypeAlias = Callable[[str], None]

DEVIATED: Final = 3
"""The exit status with `--strict` if the client deviated."""


class NotPlayable(LocalError):
    """A file holds nothing that can be played."""


class Options(NamedTuple):
    """How a recording is played."""

    speed: float
    loop: bool
    strict: bool
    session: str | None
    version: Literal["auto", 1, 2]
    line_limit: int


def read_recording(path: str, source: str, session: str | None) -> Script:
    """Read what is played.

    Args:
        path: The file.
        source: The version of the recording, or `auto`.
        session: The session that has to be in it; None for any.

    Raises:
        NotPlayable: The file cannot be read, or there is nothing in it to play.
    """
    try:
        with open(path, "rb") as file:
            script = read_script(file, None if source == "auto" else cast("Dialect", source))
    except OSError as error:
        raise NotPlayable(f"{path} cannot be read: {error.strerror}.") from None
    known = [each.session_id or "" for each in script.sessions]
    if session is not None and session not in known:
        names = ", ".join(map(one_line, known)) or "none"
        raise NotPlayable(f"{path} has no session {session!r}. It has: {names}.")
    if not any(each.has_content for each in (script.connection, *script.sessions)):
        reasons = "".join(f"\n  {each}" for each in script.problems[:3])
        raise NotPlayable(sanitize(f"{path} has no message of an agent to play.{reasons}"))
    return script


async def run_replay(script: Script, options: Options) -> int:
    """Play until the client leaves, and return the exit status."""
    async with Stderr() as stderr:

        def write(text: str) -> None:
            stderr.write(text.encode(errors="replace"))

        def report(text: str) -> None:
            write(f"twofold replay: {one_line(text)}\n")

        for problem in script.problems:
            report(problem)
        with cancelled_by_signals() as received:
            try:
                return await play(script, options, await Stdio.open(), report, write)
            except asyncio.CancelledError:
                if not received:
                    raise
                return SIGNALLED + received[0]


async def play(
    script: Script,
    options: Options,
    client: Transport,
    report: Report,
    write: Report = lambda text: None,
) -> int:
    """Play to the client at the end of a transport, and return the exit status.

    Args:
        script: What is played.
        options: How it is played.
        client: The transport to the client.
        report: Called with each thing that the user should know.
        write: Called with what the agent of the recording wrote to its standard error.
    """
    replay = Replay(
        script,
        speed=options.speed,
        loop=options.loop,
        strict=options.strict,
        session=options.session,
    )

    def on_problem(problem: Problem) -> None:
        report(str(problem))

    def report_loss(what: str, path: str, reason: str) -> None:
        report(f"lost: {what}: {path}: {reason}" if path else f"lost: {what}: {reason}")

    here, there = memory_pair()
    bridge = Bridge(
        client,
        here,
        client_version=options.version,
        agent_version=script.version,
        losses=LossLog(first=report_loss),
        on_problem=on_problem,
        line_limit=options.line_limit,
    )
    player = Player(replay, there, report, write, options.line_limit)
    playing = asyncio.create_task(player.run())
    try:
        await bridge.run()
    finally:
        await there.close()
        await playing
    if replay.exit_code is not None:
        return replay.exit_code
    return DEVIATED if replay.deviated else 0


class Player:
    """Connects a replay with a transport and with the clock."""

    def __init__(
        self,
        replay: Replay,
        transport: Transport,
        report: Report,
        write: Report,
        line_limit: int,
    ) -> None:
        self._replay = replay
        self._transport = transport
        self._report = report
        self._write = write
        self._connection = Connection(limit=line_limit)
        self._batches = Apart(strict=True, limit=line_limit)
        self._changed = asyncio.Event()
        self._is_full = self._has_ended = False
        self._clock = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Play until the client leaves or the agent of the recording exits."""
        self._transport.start(self)
        while not self._has_ended:
            self._changed.clear()
            due = self._send()
            if self._replay.exit_code is not None:
                await self._transport.close()
                return
            delay = None if due is None or self._is_full else max(0.0, due - self._clock())
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _send(self) -> float | None:
        """Send what is due, and return when more will be; None if the client has to act."""
        while not self._is_full:
            now = self._clock()
            lines = self._replay.send(now)
            if lines:
                data = b"".join(lines)
                self._transport.write(self._batches.sent(data) if self._batches.open else data)
            self._pass_on_reports()
            if not lines:
                return self._replay.next_due(now)
        return None

    def _pass_on_reports(self) -> None:
        for text in self._replay.stderr:
            self._write(text)
        for text in self._replay.reports:
            self._report(text)
        self._replay.stderr.clear()
        self._replay.reports.clear()

    # ---- the transport

    def received(self, data: bytes) -> None:
        """Bytes of the client arrived."""
        for event in self._connection.receive(data):
            self._handle(event)
        self._changed.set()

    def _handle(self, event: Any) -> None:
        if isinstance(event, Batch):
            gathering = self._batches.gathering()
            for each in gathering.read(event):
                if not isinstance(each, Malformed):
                    (message,) = read_line(self._batches.line(each))
                    self._replay.receive(cast("Message", message), self._clock())
            self._transport.write(gathering.end())
        elif isinstance(event, Malformed):
            self._report(f"the client sent an unexpected message: {event.reason}")
            if event.refusal:
                self._transport.write(event.refusal)
        else:
            self._replay.receive(event, self._clock())

    def ended(self, error: Exception | None) -> None:
        """The client left."""
        self._has_ended = True
        self._changed.set()

    def pause_writing(self) -> None:
        """The client does not read as fast as the replay writes: read no further either."""
        self._is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_full = False
        self._transport.resume_reading()
        self._changed.set()
