"""What `twofold bridge` runs: the bridge between the standard streams and the agent's process."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, Self, TypeAlias

from twofold.bridge import Bridge, LossLog
from twofold.bridge.bridge import Open
from twofold.cli.output import not_written
from twofold.errors import LocalError
from twofold.host.agent_choice import ChosenAgent
from twofold.peer.problems import Problem
from twofold.text.safe import one_line
from twofold.transport.base import Transport
from twofold.transport.endpoint import MESSAGE_LIMIT, NotReached
from twofold.transport.process import CommandNotStarted, Process, ProcessEnded
from twofold.transport.remote import open_remote
from twofold.transport.stdio import Stdio
from twofold.wire import codec

Report: TypeAlias = Callable[[str], None]

FAILED: Final = 1
NOT_STARTED: Final = 127
SIGNALLED: Final = 128
"""Exit statuses, as a shell has them; the number of a signal is added to the last one."""

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_bridge(
    agent: ChosenAgent, strict: bool, file: IO[bytes] | None, sides: dict[str, Any]
) -> int:
    """Start the agent, bridge until one side ends, and return the exit status.

    Args:
        agent: The agent to start.
        strict: Refuse messages that would lose something.
        file: Where to write every loss.
        sides: The other arguments of `Bridge`.
    """
    async with Stderr() as stderr:

        def report(text: str) -> None:
            stderr.write(f"twofold bridge: {one_line(text)}\n".encode(errors="replace"))

        def report_loss(what: str, path: str, reason: str) -> None:
            report(f"lost: {what}: {path}: {reason}" if path else f"lost: {what}: {reason}")

        async def start() -> Transport:
            if agent.endpoint is not None:
                return await open_remote(agent.endpoint, limit=limit)
            return await Process.spawn(agent.command, env=agent.env, on_stderr=stderr.write)

        limit = min(sides.get("line_limit", MESSAGE_LIMIT), MESSAGE_LIMIT)
        with cancelled_by_signals() as received:
            try:
                record = _LossFile(file, report)
                losses = LossLog(strict=strict, first=report_loss, every=record)
                return await _bridge(start, losses, report, sides) or record.status
            except (CommandNotStarted, NotReached) as error:
                report(str(error))
                return NOT_STARTED
            except LocalError as error:
                report(str(error))
                return FAILED
            except asyncio.CancelledError:
                if not received:
                    raise
                return SIGNALLED + received[0]


async def _bridge(start: Open, losses: LossLog, report: Report, sides: dict[str, Any]) -> int:
    def on_problem(problem: Problem) -> None:
        report(str(problem))

    bridge = Bridge(await Stdio.open(), start, losses=losses, on_problem=on_problem, **sides)
    await bridge.run()
    return _status(bridge.agent_error)


def _status(error: Exception | None) -> int:
    """The agent's exit status, as a shell has it."""
    if error is None:
        return 0
    if not isinstance(error, ProcessEnded):
        return FAILED
    if error.signal is not None:
        numbers = {each.name: each.value for each in signal.Signals}
        return SIGNALLED + numbers.get(error.signal, 0)
    return FAILED if error.exit_code is None else error.exit_code


@contextmanager
def cancelled_by_signals() -> Iterator[list[int]]:
    """Cancel this task at a signal that ends the process, so that the agent ends too.

    Yields the numbers of the signals that arrived. Signals that were ignored stay ignored.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    handled = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, end, number)
    try:
        yield received
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


class _LossFile:
    """Writes every loss to a file, if there is one. A full disk is reported once."""

    def __init__(self, file: IO[bytes] | None, report: Report) -> None:
        self.status = 0
        self._file = file
        self._report = report

    def __call__(self, what: str, path: str, reason: str) -> None:
        if self._file is None:
            return
        line = codec.encode({"message": what, "path": path, "reason": reason}) + b"\n"
        try:
            self._file.write(line)
        except OSError as error:
            self._report(not_written(self._file.name, error))
            self._file, self.status = None, FAILED


# ---- standard error ----------------------------------------------------------------------------

KEPT: Final = 1024 * 1024
"""How many bytes may wait to be written."""
_LAST_WAIT: Final = 1.0
"""How many seconds the end waits until they are written."""
_PIECE: Final = 4096
"""A pipe that is ready takes this many bytes without blocking (PIPE_BUF of Linux)."""


class Stderr:
    """Standard error that never blocks: `async with Stderr() as stderr: stderr.write(b"…")`.

    A client may start an agent and never read its standard error. What the pipe does not take is
    kept, and what exceeds `KEPT` is dropped. The descriptor stays in blocking mode, because the
    client may write to the same one.
    """

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._waiting = bytearray()
        self._empty = asyncio.Event()
        self._empty.set()
        self._watched = True
        """The event loop reports when there is room; a file, which it cannot watch, always has."""
        self._lost = fd == 2 and sys.__stderr__ is None  # the number may be another file's by now

    def write(self, data: bytes) -> None:
        """Write without waiting."""
        if self._lost or len(self._waiting) + len(data) > KEPT:
            return
        self._waiting += data
        if not self._empty.is_set():
            return
        self._empty.clear()
        try:
            asyncio.get_running_loop().add_writer(self._fd, self._write_when_ready)
        except OSError:
            self._watched = False
            self._write_all()

    def _write_when_ready(self) -> None:
        self._write_piece()
        if not self._waiting:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._empty.set()

    def _write_all(self) -> None:
        while self._waiting:
            self._write_piece()
        self._empty.set()

    def _write_piece(self) -> None:
        try:
            del self._waiting[: os.write(self._fd, self._waiting[:_PIECE])]
        except BlockingIOError:  # another process may have made it non-blocking
            if not self._watched:
                self._waiting.clear()
        except OSError:  # the reader has left
            self._lost = True
            self._waiting.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WAIT):
                await self._empty.wait()
        self._lost = True
        if not self._empty.is_set():
            asyncio.get_running_loop().remove_writer(self._fd)
