"""A child process as a transport: its standard input and output are the stream.

The child leads a process group of its own. The whole group ends with it, on `close` and when the
leader dies by itself, so that what a wrapper such as `npx` started does not stay behind. If this
process is killed, so is the group. Standard error is always read, and its end is kept for the error
that reports a death. Every wait is bounded. A pipe that the child closed is the end, not an error.
"""

import asyncio
import fcntl
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, cast

from twofold.transport import groups
from twofold.transport.base import HIGH_WATER, Receiver
from twofold.transport.commands import (
    STDOUT_KEPT,
    CommandNotStarted,
    ProcessEnded,
    StderrTail,
    checked,
    environment,
    exit_code,
    printed,
    signal_name,
    why_not,
)

__all__ = ["CloseTimeouts", "CommandNotStarted", "Process", "ProcessEnded"]

PIPE_SIZE = 1024 * 1024
"""How many bytes a pipe to a process should hold: as much as Linux gives to anyone."""
GRACE = 1.0
"""How many seconds may pass between the end of the output and the exit, in either order."""
LAST_CALL = 0.2
"""How many seconds pipes may stay open after every process that should hold them has ended."""
POLL = 0.01
"""How many seconds pass between two looks at a group that is ending."""
AT_WORK = 5
"""How many times longer a process that is still at work may take to end."""
LITTLE = 0.02
"""How many seconds of processor time an idle process may use: timers tick."""
HURRY = 0.5
"""How many seconds each step of `close` may take after `hurry`."""

Command: TypeAlias = Sequence[str]
Directory: TypeAlias = str | os.PathLike[str]
Environment: TypeAlias = Mapping[str, str | None]
OnStderr: TypeAlias = Callable[[bytes], None]


class CloseTimeouts(NamedTuple):
    """How many seconds each step of `close` may take."""

    stdin: float = 2.0
    """After the end of its input, until SIGTERM. A process that still uses the processor or writes
    something has `AT_WORK` times as much."""
    terminate: float = 2.0
    """After SIGTERM, until SIGKILL."""
    kill: float = 2.0
    """After SIGKILL."""


class Process:
    """A running command as a transport; make one with `spawn`.

    The receiver's `ended` gets a `ProcessEnded` if the process ended by itself.

    Attributes:
        command: The command and its arguments.
        pid: The id of the process, which is also that of its group.
        signals: The signals that `close` had to send, because the process did not exit by itself.
        left_behind: The processes of its group that still ran when `close` ended them, after the
            process itself had exited.
    """

    def __init__(
        self,
        command: Command,
        on_stderr: OnStderr | None,
        timeouts: tuple[float, float, float],
        linger: float = 0.0,
    ) -> None:
        self.command = tuple(command)
        self.pid = 0
        self.signals: list[str] = []
        self.left_behind: list[groups.Running] = []
        self._timeouts = CloseTimeouts(*timeouts)
        self._linger = linger
        self._receiver: Receiver | None = None
        self._held: deque[bytes] = deque()
        """Data that arrived before `start`, while the pipes were being connected."""
        self._paused = False
        self._scheduled = False
        self._full = False
        self._ended = False
        self._stderr = StderrTail()
        self._printed = bytearray()
        self._on_stderr = on_stderr
        self._open_pipes = {0, 1, 2}
        self._exited = asyncio.Event()
        self._hurried = asyncio.Event()
        self._pieces = 0
        self._released = asyncio.Event()
        self._group_ended = False
        self._waited_enough = False
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def spawn(
        cls,
        command: Command,
        *,
        cwd: Directory | None = None,
        env: Environment | None = None,
        on_stderr: OnStderr | None = None,
        close_timeouts: tuple[float, float, float] = CloseTimeouts(),
        linger: float = 0.0,
    ) -> "Process":
        """Start a command.

        Args:
            command: The program and its arguments.
            cwd: The directory to start it in; ours by default.
            env: Variables to set beside our environment; None removes one.
            on_stderr: Called with what the command writes to its standard error.
            close_timeouts: How many seconds `close` waits after the end of the input, after SIGTERM
                and after SIGKILL.
            linger: How many seconds the rest of its group may run after the process has exited,
                before `close` ends it.

        Raises:
            CommandNotStarted: It could not be started; the text states why and what to do.
        """
        parts = checked(command, cwd)
        environ = environment(env or {})
        process = cls(parts, on_stderr, close_timeouts, linger)
        starting = asyncio.create_task(_start(process, parts, cwd, environ))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # the process may run already: it must not outlive the call that asked for it
            with suppress(Exception):
                await starting
                process._kill_group()
                await process.close()
            raise
        except (OSError, TypeError, ValueError) as error:
            raise CommandNotStarted(parts, why_not(error, parts[0], environ, cwd)) from error
        return process

    # ---- facts

    @property
    def running(self) -> bool:
        """Whether the process itself still runs, whatever its children do."""
        return not self._exited.is_set()

    @property
    def exit_code(self) -> int | None:
        """The exit code, once the process has ended without a signal."""
        return exit_code(self._transport.get_returncode())

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the process, if one did."""
        return signal_name(self._transport.get_returncode())

    @property
    def stderr_tail(self) -> str:
        """The end of its standard error, as text that is safe to show."""
        return self._stderr.text

    @property
    def printed(self) -> str:
        """The beginning of its standard output, safe to show; empty once it may be a message."""
        return printed(self._printed)

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on, beginning with what arrived before."""
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        self._schedule()

    def write(self, data: bytes) -> None:
        """Send `data` without waiting; dropped if the process closed its input."""
        if not self._ended and not self._stdin.is_closing():
            self._stdin.write(data)

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`: a process that goes on writing has to wait."""
        self._paused = True
        if self._closing is None:
            self._stdout.pause_reading()

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._paused = False
        self._schedule()

    async def close(self) -> None:
        """Close the input, send SIGTERM, then SIGKILL to the group; returns when the group is gone.

        A process that uses the processor or writes something after the end of its input gets more
        time, unless `hurry` is called. The receiver's `ended` is called at once, and it receives no
        more data. The group is ended even if the caller is cancelled while it waits.
        """
        if self._closing is None:
            self._cancel_timer()
            self._held.clear()
            self._closing = asyncio.create_task(self._shut_down())
            self._schedule()
        await asyncio.shield(self._closing)

    async def wait(self) -> None:
        """Wait until the process itself has exited, whatever its children do."""
        await self._exited.wait()

    def hurry(self) -> None:
        """Shorten every step of `close`, even of one that is waiting already."""
        self._hurried.set()

    # ---- called by the event loop

    def _connected(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        self._stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        self._stdout = cast("asyncio.ReadTransport", transport.get_pipe_transport(1))
        self.pid = transport.get_pid()
        groups.guard(self.pid)
        self._stdin.set_write_buffer_limits(high=HIGH_WATER)
        _widen(self._stdout.get_extra_info("pipe"))
        self._stdout.pause_reading()  # until `start`
        if not self._stdout.is_closing():
            self._stdout.set_protocol(_Output(self, self._stdout.get_protocol()))

    def _received(self, data: bytes) -> None:
        self._pieces += 1
        if self._closing is not None or self._ended:
            return
        if len(self._printed) < STDOUT_KEPT:
            self._printed += data[:STDOUT_KEPT]
        if self._receiver is None or self._held:
            self._held.append(data)
        else:
            self._receiver.received(data)

    def _stderr_received(self, data: bytes) -> None:
        self._pieces += 1
        self._stderr.add(data)
        if self._on_stderr is not None:
            self._on_stderr(data)

    def _pipe_ended(self, fd: int) -> None:
        self._open_pipes.discard(fd)
        if fd == 0:
            self._has_room()  # what is written from now on is dropped
        else:
            self._check_end()

    def _has_exited(self) -> None:
        self._exited.set()
        self._check_end()

    def _is_full(self) -> None:
        self._full = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def _has_room(self) -> None:
        if self._full:
            self._full = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    # ---- delivering, and finding the end

    def _schedule(self) -> None:
        if not self._scheduled and not self._ended and self._receiver is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._ended or self._receiver is None:
            return
        if self._closing is not None:
            self._end(None)
        elif self._paused:
            pass
        elif self._held:
            self._schedule()  # for what comes after this piece
            self._receiver.received(self._held.popleft())
        else:
            self._read_on()

    def _read_on(self) -> None:
        self._stdout.resume_reading()
        if self._waited_enough and 1 in self._open_pipes:
            # it died while reading was paused: what it had written must be read first
            self._waited_enough = False
            self._wait(LAST_CALL)
        self._end_if_over()

    def _check_end(self) -> None:
        """End the stream once stdout, stderr and the process have all ended, or soon after."""
        if self._closing is not None:
            return
        if self.running and 1 in self._open_pipes:
            return  # only its standard error is closed, which is allowed
        if not self.running and 1 not in self._open_pipes:
            self._kill_rest()
            if 2 in self._open_pipes and not self._ended:
                self._wait(LAST_CALL)  # the end of its standard error may still be in the pipe
            self._end_if_over()
        elif self._timer is None and not self._waited_enough and not self._ended:
            self._wait(GRACE)

    def _wait(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._timed_out)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timed_out(self) -> None:
        self._timer = None
        if not self.running and not self._group_ended:
            # the process is gone, so another one of its group holds the output
            self._kill_rest()
            self._wait(LAST_CALL)
            return
        self._waited_enough = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        over = not self.running and self._open_pipes <= {0}
        held = self._held or self._paused or self._receiver is None
        if (over or self._waited_enough) and not held and not self._ended:
            self._end(
                ProcessEnded(
                    self.command,
                    exit_code=self.exit_code,
                    signal=self.signal,
                    stderr=self.stderr_tail,
                    stdout=self.printed,
                )
            )

    def _end(self, error: ProcessEnded | None) -> None:
        self._ended = True
        self._cancel_timer()
        if self._closing is None:
            self._stdout.close()
            if not self.running:
                self._transport.close()
        if self._receiver is not None:
            self._receiver.ended(error)

    # ---- ending it

    def _kill_rest(self) -> None:
        """Kill what a dead leader left behind, once: the system may use its number again."""
        if not self._group_ended:
            self._group_ended = True
            if groups.exists(self.pid):
                groups.kill(self.pid)
            groups.unguard(self.pid)

    @property
    def _alive(self) -> bool:
        return self.running or (not self._group_ended and groups.exists(self.pid))

    async def _shut_down(self) -> None:
        try:
            self._stdout.resume_reading()  # the process may have to write before it can end
            self._stdin.close()
            await self._until_ended(self._timeouts.stdin)
            if not self.running:
                await self._until_gone(self._linger)
            if self._alive:
                self._note_ending("SIGTERM")
                groups.terminate(self.pid)
                await self._until_gone(self._timeouts.terminate)
        finally:  # also when the loop is being closed
            self._kill_group()
            await self._until_exit(self._timeouts.kill)
            await self._release()

    def _note_ending(self, signal: str) -> None:
        """Note whom a signal is sent to: the process, or only what it left behind."""
        if self.running:
            self.signals.append(signal)
        elif not self.signals and not self.left_behind:
            self.left_behind = groups.members(self.pid)

    def _kill_group(self) -> None:
        if self._alive:
            self._note_ending("SIGKILL")
            groups.kill(self.pid)
        self._group_ended = not self.running
        if self._group_ended:
            groups.unguard(self.pid)

    async def _release(self) -> None:
        """Close our ends of the pipes, whatever process may hold the others."""
        if self._stdin.get_write_buffer_size():
            self._stdin.abort()
        self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_CALL):
                await self._released.wait()

    async def _until_ended(self, seconds: float) -> None:
        """Wait for the exit after the end of the input, longer while the process is at work."""
        if self._hurried.is_set():
            await self._until_exit(min(seconds, HURRY))
            return
        over = [asyncio.create_task(each.wait()) for each in (self._exited, self._hurried)]
        work = self._work()
        try:
            for _ in range(AT_WORK):
                done, _ = await asyncio.wait(
                    over, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
                before, work = work, self._work()
                idle = work[0] == before[0] and work[1] - before[1] <= LITTLE
                if done or idle:
                    break
        finally:
            for each in over:
                each.cancel()

    def _work(self) -> tuple[int, float]:
        """What the process has done so far: pieces of output, seconds of processor time."""
        return self._pieces, groups.processor_time(self.pid)

    async def _until_exit(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()

    async def _until_gone(self, seconds: float) -> None:
        for number in range(int(seconds / POLL)):
            if not self._alive or (self._hurried.is_set() and number * POLL >= HURRY):
                break
            await asyncio.sleep(POLL)  # the system reports only the end of our own children


async def _start(
    process: Process, parts: list[str], cwd: Directory | None, environ: Mapping[str, str]
) -> None:
    loop = asyncio.get_running_loop()
    await loop.subprocess_exec(
        lambda: _Pipes(process), *parts, cwd=cwd, env=environ, start_new_session=True
    )


def _widen(pipe: Any) -> None:
    """Let a pipe hold more, where the system can: then both sides work at the same time."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError, ValueError):  # it may be closed, or the user's limit be reached
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)


class _Output(asyncio.Protocol):
    """Passes output to a `Process` directly, without another iteration of the loop."""

    def __init__(self, process: Process, pipe: asyncio.BaseProtocol) -> None:
        self._process = process
        self._pipe = pipe

    def data_received(self, data: bytes) -> None:
        self._process._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pipe.connection_lost(exc)


class _Pipes(asyncio.SubprocessProtocol):
    """Passes the events of the pipes and of the process to a `Process`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process._connected(cast("asyncio.SubprocessTransport", transport))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._process._received(data)
        else:
            self._process._stderr_received(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._process._pipe_ended(fd)

    def process_exited(self) -> None:
        self._process._has_exited()

    def connection_lost(self, exc: Exception | None) -> None:
        self._process._released.set()

    def pause_writing(self) -> None:
        self._process._is_full()

    def resume_writing(self) -> None:
        self._process._has_room()
