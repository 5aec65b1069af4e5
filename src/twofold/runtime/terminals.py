"""The commands a client runs for its agent: `terminal/*` of version 1, for one session.

A command runs inside the session's directories, in a process group of its own, without input and
without a tty; what it and its children write comes through one pipe, in order. The view learns of
it as version 2 would tell it (`TerminalUpdate`, `TerminalOutputChunk`). However much a command
writes, memory stays bounded, and so does every wait after `kill`, `release` and `close`; a process
that puts itself into another session cannot be found again and is not ended. No thread is used.

`command` and `args` are executed as they are, without a shell. But many agents send a whole shell
line as `command` and no `args`: a command without `args` that has white space or shell syntax in
it, and is not the path of a program, goes to `/bin/sh -c`.

A command gets the environment that was given for the agent, not ours: of ours only what any
command needs and what is named (see `platform.plain_environment`). An agent that runs elsewhere, or
was given less, must not read our secrets by way of a command.

Nothing here asks for permission: the caller of `create` does, for the directory that
`directory_of` gives, and passes it on as `checked`: what was shown is what is used. On Windows,
where the event loop cannot wait for a pipe, every command is refused.
"""

import asyncio
import os
import re
import shlex
import uuid
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from twofold.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RequestError,
)
from twofold.runtime import platform
from twofold.runtime.commands import shown, why_not
from twofold.runtime.files import MIB, Roots
from twofold.runtime.terminal import GRACE, LAST_WAIT, Child, Tell, Terminal, Update, shows, spawn
from twofold.wire import v1, v2

KEPT = 64 * MIB
"""How many bytes of output all terminals of a session keep that were not released."""
LEAST = 64 * 1024
"""How many bytes of output each of them keeps in any case."""
RELEASED_EACH = MIB
"""How many bytes of output of a terminal that was released stay in the view."""
RELEASED = 32 * MIB
"""The same for all of them; of the oldest nothing stays."""

_ENTRY = 1024  # even a terminal without output takes some memory


def command_of(params: v1.CreateTerminalRequest) -> str:
    """The command as one would type it into a shell."""
    return shlex.join([params.command, *params.args]) if params.args else params.command


def typed_command(params: v1.CreateTerminalRequest) -> str:
    """The same with the variables that the agent sets for it.

    They belong to what is allowed: a variable can make any program run another.
    """
    variables = [f"{shlex.quote(one.name)}={shlex.quote(one.value)}" for one in params.env or ()]
    return " ".join([*variables, command_of(params)])


class Terminals:
    """The terminals of one session; `on_update` is told all that happens in them.

    The output that `terminal/output` gives is at most what the agent asks to keep, else
    `default_output_limit`, and never more than `max_output_limit` bytes. Of `limit_count`
    terminals, those that the agent forgot to release are forgotten when there is no room.

    `env` is what was set for the agent (None removes a variable), `pass_env` names variables of
    our environment that its commands get as well.
    """

    def __init__(
        self,
        roots: Sequence[os.PathLike[str] | str],
        *,
        on_update: Tell,
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
        """Released, and something of it still runs."""
        self._released: deque[tuple[str, int]] = deque()
        """Released, with how many bytes of output the view keeps."""
        self._released_size = 0
        self._closed = False

    def directory_of(self, params: v1.CreateTerminalRequest) -> Path:
        """The directory the command would run in; refused outside of the roots."""
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
        """Start a command, in the directory `checked` if it is given; refused if it cannot be."""
        if self._closed:
            raise RequestError(INVALID_REQUEST, "The session is closed: nothing is run in it.")
        if platform.THREADED_STDIO:
            raise RequestError(INTERNAL_ERROR, "This client runs no commands on Windows.")
        cwd = checked or self.directory_of(params)
        argv = _argv(params.command, list(params.args or ()), cwd)
        self._make_room()
        given = {one.name: one.value for one in params.env} if params.env else {}
        environ = platform.plain_environment({**self._env, **given}, self._pass_env)
        _refuse_if_moved(cwd)
        child = _started(argv, cwd, environ)
        limit = params.output_byte_limit
        limit = min(limit, self._max_limit) if isinstance(limit, int) else self._default_limit
        limit = min(limit, max(LEAST, KEPT - self._reserved))
        terminal_id = f"terminal-{uuid.uuid4().hex}"
        self._tell(
            v2.TerminalUpdate(terminal_id=terminal_id, command=command_of(params), cwd=str(cwd))
        )
        terminal = Terminal(terminal_id, child, limit=limit, grace=self._grace, tell=self._tell)
        self._terminals[terminal_id] = terminal
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    def output(self, params: v1.TerminalRequest) -> v1.TerminalOutputResponse:
        """What the command has written so far, or the end of it, and how it ended if it did."""
        terminal = self._get(params)
        ended = terminal.exit.done()
        text, truncated = terminal.output.text(complete=ended)
        response = v1.TerminalOutputResponse(output=text, truncated=truncated)
        if ended:
            response.exit_status = terminal.exit.result()
        return response

    async def wait_for_exit(self, params: v1.TerminalRequest) -> v1.TerminalExitStatus:
        """How the command ended, once it did; what it left running is not waited for."""
        return await asyncio.shield(self._get(params).exit)

    def kill(self, params: v1.TerminalRequest) -> v1.Empty:
        """End the command and all it started; what it wrote can still be read."""
        self._get(params).stop()
        return v1.Empty()

    def release(self, params: v1.TerminalRequest) -> v1.Empty:
        """End the command and all it started, and forget the terminal."""
        self._forget(self._get(params))
        return v1.Empty()

    async def close(self) -> None:
        """End and forget everything; returns when it is gone, or will not go."""
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
        """Bound what the view keeps of terminals that nobody can ask for any more."""
        self._ending.discard(terminal)
        if self._closed:
            return
        if len(terminal.output) > RELEASED_EACH:
            terminal.output.cut(RELEASED_EACH)
            self._tell(shows(terminal.terminal_id, terminal.output.kept()))
        self._released.append((terminal.terminal_id, len(terminal.output)))
        self._released_size += len(terminal.output) + _ENTRY
        while self._released_size > RELEASED:
            oldest, size = self._released.popleft()
            self._released_size -= size + _ENTRY
            note = f"({size} bytes of output were dropped to save memory)\n"
            self._tell(shows(oldest, note.encode()))

    def _tell(self, update: Update) -> None:
        try:
            self._on_update(update)
        except Exception as error:  # a view that fails must not stop the command it shows
            asyncio.get_running_loop().call_exception_handler(
                {"message": "on_update of Terminals failed", "exception": error}
            )


# ---- starting a command ----------------------------------------------------------------------

_SHELL_SYNTAX = re.compile(r"[\s|&;<>()$`\\\"'*?\[\]#~={}!]")


def _argv(command: str, args: list[str], cwd: Path) -> list[str]:
    """What to execute: the command as it is, or the shell if it is a line for one."""
    if not command.strip():
        raise RequestError(INVALID_PARAMS, "The command is empty: name a program to run.")
    if args or not _SHELL_SYNTAX.search(command) or _is_program(command, cwd):
        return [command, *args]
    return ["/bin/sh", "-c", command]


def _refuse_if_moved(cwd: Path) -> None:
    """Refuse a directory that has become a link since it was resolved: it leads somewhere else."""
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
