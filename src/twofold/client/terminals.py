"""The commands a client runs for its agent: `terminal/*` of version 1, for one session.

A command runs inside the session's directories, in a process group of its own, without input and
without a tty; what it and its children write is read from one pipe, in order. Everything is
reported as version 2's updates (`TerminalUpdate`, `TerminalOutputChunk`). However much a command
writes, memory stays bounded, and so does every wait after `kill`, `release` and `close`; a process
that puts itself into another session cannot be found again and is not ended. No thread is used.

`command` and `args` are executed as they are, without a shell. But many agents send a whole shell
line as `command` and no `args`: a command without `args` that has white space or shell syntax in
it, and is not the path of a program, goes to `/bin/sh -c`.

A command gets the environment that was given for the agent, and of this process only what any
command needs and what is named (see `plain_environment`). An agent that runs elsewhere, or
was given less, must not read this process's secrets by way of a command.

Nothing here asks for permission: the caller of `create` does, for the directory that
`directory_of` returns, and passes it on as `checked`, so that what was shown is what is used.
"""

import asyncio
import base64
import codecs
import os
import re
import shlex
import subprocess
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from twofold.client.files import MIB, Roots
from twofold.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RequestError,
)
from twofold.transport import groups
from twofold.transport.commands import (
    exit_code,
    plain_environment,
    shown,
    signal_name,
    why_not,
)
from twofold.wire import v1, v2

PIECE = 64 * 1024
"""How many bytes are read at a time, which is what a pipe usually holds."""
LARGEST_PIPE = 1024 * 1024
GRACE = 1.0
"""How many seconds a command has to end after it was asked to."""
LAST_WAIT = 2.0
"""How many seconds the system has to kill it before it is given up."""
POLL = 0.02
"""Every how many seconds a command is polled, where the system does not report its end."""
KEPT = 64 * MIB
"""How many bytes of output all terminals of a session keep that were not released."""
LEAST = 64 * 1024
"""How many bytes of output each of them keeps in any case."""
RELEASED_EACH = MIB
"""How many bytes of output of a released terminal stay in the view."""
RELEASED = 32 * MIB
"""The same for all of them; of the oldest nothing stays."""

_ENTRY = 1024  # even a terminal without output takes some memory

Update: TypeAlias = v2.TerminalUpdate | v2.TerminalOutputChunk
OnTerminal: TypeAlias = Callable[[Update], None]


# ---- one command ------------------------------------------------------------------------------


class Child(NamedTuple):
    """A process that leads a group of its own, and the pipe with everything that it writes."""

    process: subprocess.Popen[bytes]
    pipe: int


class Terminal:
    """A command, from its start until nothing of it is left."""

    def __init__(
        self, terminal_id: str, child: Child, *, limit: int, grace: float, report: OnTerminal
    ) -> None:
        self.terminal_id = terminal_id
        self.output = Output(limit)
        self._loop = asyncio.get_running_loop()
        self.exit: asyncio.Future[v1.TerminalExitStatus] = self._loop.create_future()
        """How the command ended; what it started may still run."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Set when it and everything that it started have ended after `stop`."""
        self._process = child.process
        self._grace = grace
        self._report = report
        self._group = True
        """Whether a process of its group may be left."""
        self._deadline: asyncio.TimerHandle | None = None
        """When it will be killed; set by `stop`."""
        self._forced = False
        self._pipe: int | None = child.pipe
        self._loop.add_reader(child.pipe, self._read)
        self._watch = _exit_watch(child.process.pid)
        if self._watch is None:
            self._look_later(self._look)
        else:
            self._loop.add_reader(self._watch, self._look)

    def stop(self) -> None:
        """Terminate it and everything it started; what is left after the grace period is killed."""
        if self.gone.done() or self._deadline is not None:
            return
        if self._group:
            groups.terminate(self._process.pid)
        self._deadline = self._loop.call_later(self._grace, self.force)
        if self.exit.done():
            self._look_for_rest()

    def force(self) -> None:
        """Kill it now; what even the system cannot end is given up after a while."""
        if self.gone.done():
            return
        self._forced = True
        if self._group:
            groups.kill(self._process.pid)
        if self.exit.done():
            self._end()
        else:
            self._cancel_deadline()
            self._deadline = self._loop.call_later(LAST_WAIT, self._give_up)

    # ---- output

    def _read(self) -> bool:
        """Report what the pipe holds; returns whether there may be more in it."""
        if self._pipe is None:
            return False
        try:
            data = os.read(self._pipe, PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close_pipe()
            return False
        dropped = self.output.add(data)
        self._report(v2.TerminalOutputChunk(terminal_id=self.terminal_id, data=_base64(data)))
        if dropped:
            # the view drops what was dropped here, so that its memory stays bounded, too
            self._report(shows(self.terminal_id, self.output.kept()))
        return True

    def _read_rest(self) -> None:
        # bounded, because what it left running may go on writing
        for _ in range(LARGEST_PIPE // PIECE):
            if not self._read():
                break

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    # ---- the end

    def _look_later(self, look: Callable[[], None]) -> None:
        self._loop.call_later(POLL, look)

    def _look(self) -> None:
        """Look whether the command has ended."""
        if self.exit.done():
            return
        if self._process.poll() is None:
            if self._watch is None:
                self._look_later(self._look)
            return
        # As long as something of the group is left, its number stays taken. Once nothing is, it
        # must not be signalled again: the number may be another's.
        self._group = groups.exists(self._process.pid)
        self._read_rest()
        self._exited(self._process.returncode)
        if self._deadline is not None:
            self._look_for_rest()

    def _look_for_rest(self) -> None:
        """Look whether everything that it started has ended."""
        if self.gone.done():
            return
        self._group = self._group and groups.exists(self._process.pid)
        if self._group and not self._forced and _runs(self._process.pid):
            self._look_later(self._look_for_rest)
        else:
            self._end()

    def _exited(self, returncode: int | None) -> None:
        if self._watch is not None:
            self._loop.remove_reader(self._watch)
            os.close(self._watch)
            self._watch = None
        code, by = exit_code(returncode), signal_name(returncode)
        self.exit.set_result(v1.TerminalExitStatus(exit_code=code, signal=by))
        status = v2.TerminalExitStatus(exit_code=code, signal=by)
        self._report(v2.TerminalUpdate(terminal_id=self.terminal_id, exit_status=status))

    def _give_up(self) -> None:
        self._exited(None)
        self._end()

    def _end(self) -> None:
        self._cancel_deadline()
        if self._group:
            self._group = False
            groups.kill(self._process.pid)  # one may have been born while we looked
        groups.unguard(self._process.pid)
        self._read_rest()
        self._close_pipe()
        self.gone.set_result(None)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


class Output:
    """The end of what a command wrote, and not much more than twice that in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._written = 0

    def __len__(self) -> int:
        """How many bytes are kept, here and in the view."""
        return len(self._bytes)

    def add(self, data: bytes) -> bool:
        """Add output; returns whether older output was dropped for it."""
        self._bytes += data
        self._written += len(data)
        excess = len(self._bytes) - self._limit
        # rarely, as dropping moves all that is kept
        if excess <= self._limit + PIECE:
            return False
        del self._bytes[:excess]
        return True

    @property
    def limit(self) -> int:
        """How many bytes are kept at most."""
        return self._limit

    def cut(self, limit: int) -> None:
        """Keep no more than `limit` bytes from now on."""
        self._limit = limit
        del self._bytes[: max(0, len(self._bytes) - limit)]

    def kept(self) -> bytes:
        """The last bytes, as many as may be kept, from the beginning of a character on."""
        if self._written <= self._limit:
            return bytes(self._bytes)
        return _end_of(self._bytes, self._limit)

    def text(self, *, complete: bool) -> tuple[str, bool]:
        """The same as text, and whether something is missing at its beginning."""
        # a character of which the second half is still to come is not shown yet
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self.kept(), complete)
        # the replacement of a byte that is no text is longer than the byte
        if len(encoded := text.encode()) > self._limit:
            return _end_of(encoded, self._limit).decode(), True
        return text, self._written > self._limit


def _end_of(data: bytes | bytearray, size: int) -> bytes:
    """At most the last `size` bytes, from the beginning of a character on."""
    cut = max(len(data) - size, 0)
    start = cut
    while start < min(cut + 3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return bytes(data[start:])


def shows(terminal_id: str, output: bytes) -> v2.TerminalUpdate:
    """An update that replaces the output of a terminal."""
    data = v2.TerminalOutput(data=_base64(output))
    return v2.TerminalUpdate(terminal_id=terminal_id, output=data)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def spawn(argv: list[str], cwd: Path, environ: Mapping[str, str]) -> Child:
    """Start a command; raises OSError or ValueError, and leaves nothing behind then."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=environ,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    groups.guard(process.pid)
    return Child(process, ours)


def _exit_watch(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has it."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


def _runs(group: int) -> bool:
    """Whether a group that still has a member has one that is not a zombie.

    Init reaps zombies, but in containers it is often a program that never does.
    """
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True  # not Linux: zombies count as running
    return not numbers or any(_group_if_alive(number) == group for number in numbers)


def _group_if_alive(number: str) -> int | None:
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            # the name before it may have anything in it, brackets too
            state, _, group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return None if state in b"ZX" else int(group)


# ---- all terminals of a session ---------------------------------------------------------------


def command_of(params: v1.CreateTerminalRequest) -> str:
    """The command as a line for a shell."""
    return shlex.join([params.command, *params.args]) if params.args else params.command


def typed_command(params: v1.CreateTerminalRequest) -> str:
    """The same with the variables that the agent sets for it.

    They are part of what a permission is about: a variable can make any program run another.
    """
    variables = [f"{shlex.quote(one.name)}={shlex.quote(one.value)}" for one in params.env or ()]
    return " ".join([*variables, command_of(params)])


class Terminals:
    """The terminals of one session.

    Args:
        roots: The directories that commands may run in.
        on_update: Called with an update of version 2 for everything that happens in them.
        env: Variables that were set for the agent; None removes one.
        pass_env: Names of variables of this process that commands get as well.
        limit_count: How many terminals there may be; terminals whose command has ended are
            released when there is no room.
        default_output_limit: How many bytes of output are kept if the agent sets no limit.
        max_output_limit: How many bytes of output are kept at most.
        grace: How many seconds a command has to end after it was asked to.
    """

    def __init__(
        self,
        roots: Sequence[os.PathLike[str] | str],
        *,
        on_update: OnTerminal,
        env: Mapping[str, str | None] | None = None,
        pass_env: Collection[str] = (),
        limit_count: int = 64,
        default_output_limit: int = MIB,
        max_output_limit: int = 16 * MIB,
        grace: float = GRACE,
    ) -> None:
        self._roots = Roots(roots)
        self._on_update = on_update
        self._env = dict(env or {})
        self._pass_env = tuple(pass_env)
        self._limit_count = limit_count
        self._default_limit = min(default_output_limit, max_output_limit)
        self._max_limit = max_output_limit
        self._grace = grace
        self._terminals: dict[str, Terminal] = {}
        self._ending: set[Terminal] = set()
        """Released terminals of which something still runs."""
        self._released: deque[tuple[str, int]] = deque()
        """Released terminals, with how many bytes of output the view keeps."""
        self._released_size = 0
        self._closed = False

    def directory_of(self, params: v1.CreateTerminalRequest) -> Path:
        """The directory the command would run in; raises `RequestError` outside of the roots."""
        given = params.cwd if isinstance(params.cwd, str) else str(self._roots.paths[0])
        resolved = self._roots.resolve(given)
        if not os.path.isdir(resolved):
            raise RequestError(
                RESOURCE_NOT_FOUND, f"{given!r} is not a directory to run in.", {"path": given}
            )
        return resolved

    async def create(
        self, params: v1.CreateTerminalRequest, checked: Path | None = None
    ) -> v1.CreateTerminalResponse:
        """Start a command, in the directory `checked` if it is given.

        Raises:
            RequestError: The command cannot be started.
        """
        if self._closed:
            raise RequestError(INVALID_REQUEST, "The session is closed: nothing is run in it.")
        cwd = checked or self.directory_of(params)
        argv = _argv(params.command, list(params.args or ()), cwd)
        self._make_room()
        given = {one.name: one.value for one in params.env} if params.env else {}
        environ = plain_environment({**self._env, **given}, self._pass_env)
        _refuse_if_moved(cwd)
        child = _started(argv, cwd, environ)
        limit = params.output_byte_limit
        limit = min(limit, self._max_limit) if isinstance(limit, int) else self._default_limit
        limit = min(limit, max(LEAST, KEPT - self._reserved))
        terminal_id = f"terminal-{uuid.uuid4().hex}"
        self._report(
            v2.TerminalUpdate(terminal_id=terminal_id, command=command_of(params), cwd=str(cwd))
        )
        terminal = Terminal(terminal_id, child, limit=limit, grace=self._grace, report=self._report)
        self._terminals[terminal_id] = terminal
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    def output(self, params: v1.TerminalRequest) -> v1.TerminalOutputResponse:
        """The end of the command's output so far, and its exit status if it has ended."""
        terminal = self._get(params)
        ended = terminal.exit.done()
        text, truncated = terminal.output.text(complete=ended)
        response = v1.TerminalOutputResponse(output=text, truncated=truncated)
        if ended:
            response.exit_status = terminal.exit.result()
        return response

    async def wait_for_exit(self, params: v1.TerminalRequest) -> v1.TerminalExitStatus:
        """Wait for the exit status of the command, not for what it left running."""
        return await asyncio.shield(self._get(params).exit)

    def kill(self, params: v1.TerminalRequest) -> v1.Empty:
        """End the command and everything it started; its output can still be read."""
        self._get(params).stop()
        return v1.Empty()

    def release(self, params: v1.TerminalRequest) -> v1.Empty:
        """End the command and everything it started, and remove the terminal."""
        self._forget(self._get(params))
        return v1.Empty()

    async def close(self) -> None:
        """End every command; returns when all have ended or were given up."""
        self._closed = True
        for terminal in list(self._terminals.values()):
            self._forget(terminal)
        ending = {terminal: terminal.gone for terminal in self._ending}
        if not ending:
            return
        try:
            await asyncio.wait(ending.values())
        except asyncio.CancelledError:
            for terminal in ending:
                terminal.force()
            await asyncio.wait(ending.values(), timeout=LAST_WAIT)
            raise

    def _get(self, params: v1.TerminalRequest) -> Terminal:
        terminal = self._terminals.get(params.terminal_id)
        if terminal is None:
            raise RequestError(
                RESOURCE_NOT_FOUND,
                "There is no such terminal: it was never created, or it was released.",
                {"terminalId": params.terminal_id},
            )
        return terminal

    def _make_room(self) -> None:
        if len(self._terminals) + len(self._ending) < self._limit_count:
            return
        for terminal in self._terminals.values():
            if terminal.exit.done():
                self._forget(terminal)
                return
        raise RequestError(
            INVALID_REQUEST,
            f"{self._limit_count} terminals are running in this session: release one of them "
            "before you create another.",
        )

    @property
    def _reserved(self) -> int:
        return sum(terminal.output.limit for terminal in self._terminals.values())

    def _forget(self, terminal: Terminal) -> None:
        del self._terminals[terminal.terminal_id]
        terminal.stop()
        if terminal.gone.done():
            self._retire(terminal)
        else:
            self._ending.add(terminal)
            terminal.gone.add_done_callback(lambda _: self._retire(terminal))

    def _retire(self, terminal: Terminal) -> None:
        """Bound what the view keeps of released terminals."""
        self._ending.discard(terminal)
        if self._closed:
            return
        if len(terminal.output) > RELEASED_EACH:
            terminal.output.cut(RELEASED_EACH)
            self._report(shows(terminal.terminal_id, terminal.output.kept()))
        self._released.append((terminal.terminal_id, len(terminal.output)))
        self._released_size += len(terminal.output) + _ENTRY
        while self._released_size > RELEASED:
            oldest, size = self._released.popleft()
            self._released_size -= size + _ENTRY
            note = f"({size} bytes of output were dropped to save memory)\n"
            self._report(shows(oldest, note.encode()))

    def _report(self, update: Update) -> None:
        try:
            self._on_update(update)
        except Exception as error:  # a callback that raises must not stop the command
            asyncio.get_running_loop().call_exception_handler(
                {"message": "on_update of Terminals failed", "exception": error}
            )


# ---- starting a command ----------------------------------------------------------------------

_SHELL_SYNTAX = re.compile(r"[\s|&;<>()$`\\\"'*?\[\]#~={}!]")


def _argv(command: str, args: list[str], cwd: Path) -> list[str]:
    """What to execute: the command itself, or the shell if it is a line for one."""
    if not command.strip():
        raise RequestError(INVALID_PARAMS, "The command is empty: name a program to run.")
    if args or not _SHELL_SYNTAX.search(command) or _is_program(command, cwd):
        return [command, *args]
    return ["/bin/sh", "-c", command]


def _refuse_if_moved(cwd: Path) -> None:
    """Refuse a directory that was replaced by a link since it was resolved."""
    try:
        moved = os.path.realpath(cwd) != str(cwd)
    except OSError:
        moved = True
    if moved:
        raise RequestError(
            INVALID_REQUEST,
            f"{str(cwd)!r} has become a link to another directory: nothing is run there.",
            {"path": str(cwd)},
        )


def _is_program(command: str, cwd: Path) -> bool:
    path = os.path.join(cwd, command)
    return "/" in command and os.path.isfile(path) and os.access(path, os.X_OK)


def _started(argv: list[str], cwd: Path, environ: Mapping[str, str]) -> Child:
    try:
        return spawn(argv, cwd, environ)
    except (OSError, ValueError) as error:
        code = INTERNAL_ERROR
        if isinstance(error, FileNotFoundError):
            code = RESOURCE_NOT_FOUND
        elif isinstance(error, PermissionError | ValueError):
            code = INVALID_PARAMS
        reason = why_not(error, argv[0], environ, cwd)
        raise RequestError(code, f"Cannot run {shown(argv)}: {reason}") from error
