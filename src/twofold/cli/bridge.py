"""`twofold bridge`: an agent of either version for a client of either version.

The bridge is itself an agent on standard input and output. What it has to say to people goes to
standard error, beside what the agent itself says there. Nothing waits for whoever should read that.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self, TypeAlias, cast

import click

from twofold.bridge import Bridge, LossLog
from twofold.bridge.bridge import Offered, Open
from twofold.bridge.handshake import Wanted
from twofold.bridge.loss_log import OnLoss
from twofold.cli.files import opened
from twofold.cli.options import line_limit, offered, variable_names
from twofold.errors import LocalError
from twofold.peer.problems import Problem
from twofold.text.safe import one_line
from twofold.transport.process import CommandNotStarted, Process, ProcessEnded
from twofold.transport.stdio import Stdio
from twofold.wire import codec

# Standard error, for a program that must not wait for whoever reads it.
#
# What is not taken is kept for a while, and left out when too much of it is kept: a client that
# starts an agent and never looks at its standard error must not stop it. The descriptor stays as it
# is, for the client may write to the same one.


KEPT = 1024 * 1024
"""How many bytes may wait."""
LAST_WORDS = 1.0
"""How many seconds the end may take for them."""

_PIECE = 4096
"""A pipe that can be written to takes as much without blocking (PIPE_BUF of Linux)."""


class Stderr:
    """`async with Stderr() as stderr: stderr.write(b"…")`."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._waiting = bytearray()
        self._empty = asyncio.Event()
        self._empty.set()
        self._patient = True
        """The event loop can tell when there is room; what it cannot watch always has some."""
        self._lost = fd == 2 and sys.__stderr__ is None  # the number may be another's by now

    def write(self, data: bytes) -> None:
        """Write, without waiting."""
        if self._lost or len(self._waiting) + len(data) > KEPT:
            return
        self._waiting += data
        if not self._empty.is_set():
            return
        self._empty.clear()
        try:
            asyncio.get_running_loop().add_writer(self._fd, self._go_on)
        except (OSError, NotImplementedError):
            self._patient = False
            self._write_all()

    def _go_on(self) -> None:
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
        except BlockingIOError:  # others may have made it so
            if not self._patient:
                self._waiting.clear()
        except OSError:  # nobody listens any more
            self._lost = True
            self._waiting.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._empty.wait()
        self._lost = True
        if not self._empty.is_set():
            asyncio.get_running_loop().remove_writer(self._fd)


Say: TypeAlias = Callable[[str], None]

FAILED = 1
NOT_STARTED = 127
SIGNALLED = 128

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_VERSION = click.Choice(["auto", "1", "2"])


def _wanted(context: click.Context, option: click.Parameter, version: str) -> Wanted:
    return cast("Wanted", version if version == "auto" else int(version))


# what follows the command is the command's, also what looks like an option of ours
@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--client", default="auto", type=_VERSION, callback=_wanted, help="The version of the client."
)
@click.option(
    "--agent", default="auto", type=_VERSION, callback=_wanted, help="The version of the agent."
)
@click.option("--strict", is_flag=True, help="Pass nothing on that would lose something.")
@click.option(
    "--losses",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every loss to this file.",
)
@click.option(
    "--offer",
    default="",
    callback=offered,
    help="What to offer to an agent of version 1, if the client allows it each time:"
    " fs, terminal, or both with a comma.",
)
@click.option(
    "--pass-env",
    multiple=True,
    metavar="NAME",
    callback=variable_names,
    help="With --offer terminal: a variable of this environment that commands get, too.",
)
@line_limit
@click.argument("command", nargs=-1, required=True)
def bridge(
    client: Wanted,
    agent: Wanted,
    strict: bool,
    losses: Path | None,
    offer: frozenset[Offered],
    pass_env: tuple[str, ...],
    line_limit: int,
    command: tuple[str, ...],
) -> None:
    """Connect a client and an agent of different versions.

    The bridge is an agent on standard input and output, and COMMAND starts the agent behind it. If
    both sides speak the same version, messages pass unchanged. If not, they are translated, and
    each kind of loss is reported once on standard error. The exit status is the agent's.
    """
    sides: dict[str, Any] = {"client_version": client, "agent_version": agent, "offer": offer}
    sides["pass_env"] = pass_env
    sides["line_limit"] = line_limit
    with opened(losses, "ab", "--losses") as file:
        sys.exit(asyncio.run(_run(command, strict, file, sides)))


async def _run(
    command: tuple[str, ...], strict: bool, file: IO[bytes] | None, sides: dict[str, Any]
) -> int:
    async with Stderr() as stderr:

        def say(text: str) -> None:
            stderr.write(f"twofold bridge: {one_line(text)}\n".encode(errors="replace"))

        async def start() -> Process:
            return await Process.spawn(command, on_stderr=stderr.write)

        with _signals() as came:
            try:
                record = _Recorder(file, say)
                losses = LossLog(strict=strict, first=_teller(say), every=record)
                return await _bridge(start, losses, say, sides) or record.status
            except CommandNotStarted as error:
                say(str(error))
                return NOT_STARTED
            except LocalError as error:
                say(str(error))
                return FAILED
            except asyncio.CancelledError:
                if not came:
                    raise
                return SIGNALLED + came[0]


async def _bridge(start: Open, losses: LossLog, say: Say, sides: dict[str, Any]) -> int:
    def problem(problem: Problem) -> None:
        say(str(problem))

    bridge = Bridge(await Stdio.open(), start, losses=losses, on_problem=problem, **sides)
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
def _signals() -> Iterator[list[int]]:
    """Whoever wants this process to end wants the agent to end, too: the task is cancelled."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[int] = []

    def end(number: int) -> None:
        came.append(number)
        if task is not None:
            task.cancel()

    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    with suppress(NotImplementedError):  # Windows
        for number in heard:
            loop.add_signal_handler(number, end, number)
    try:
        yield came
    finally:
        with suppress(NotImplementedError):
            for number in heard:
                loop.remove_signal_handler(number)


def _teller(say: Say) -> OnLoss:
    def tell(what: str, path: str, reason: str) -> None:
        say(f"lost: {what}: {path}: {reason}" if path else f"lost: {what}: {reason}")

    return tell


class _Recorder:
    """Writes every loss to a file, if there is one; a file that takes no more is reported once."""

    def __init__(self, file: IO[bytes] | None, say: Say) -> None:
        self.status = 0
        self._file = file
        self._say = say

    def __call__(self, what: str, path: str, reason: str) -> None:
        if self._file is None:
            return
        line = codec.encode({"message": what, "path": path, "reason": reason}) + b"\n"
        try:
            self._file.write(line)
        except OSError as error:
            self._say(f"{self._file.name} could not be written to the end: {error.strerror}.")
            self._file, self.status = None, FAILED
