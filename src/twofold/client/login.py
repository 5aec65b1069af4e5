"""Logs in to an agent that requires it, by one of the methods that the agent declares.

Either the agent does it itself, or its command runs in the person's terminal. It has that terminal
to itself: the caller of `log_in` must not read keys or draw meanwhile, and what the command writes
reaches the terminal unchanged. Methods of an unknown type are shown by name and cannot be used.
Nothing is asked or printed here.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from twofold.client.client import Client
from twofold.client.launch import located
from twofold.errors import NotSupported, PeerError
from twofold.rpc.errors import AUTH_REQUIRED, RequestFailed
from twofold.text import one_line
from twofold.transport.commands import (
    CommandNotStarted,
    checked,
    end_child,
    environment,
    exit_code,
    shown,
    signal_name,
    why_not,
)
from twofold.wire import v2

PATIENCE = 2.0
"""How many seconds a login that was cancelled has to end."""


class Way(Struct, frozen=True):
    """A way to log in that can be used; name and description are safe to show."""

    method_id: str
    name: str
    description: str = ""
    terminal: v2.AuthMethodTerminal | None = None
    """The arguments and variables for the agent's command, if it runs in the terminal."""


class LoginNeeded(PeerError):
    """The agent requires a login first.

    Attributes:
        methods: The ids of the ways that can be used.
    """

    def __init__(self, error: RequestFailed, client: Client) -> None:
        self.methods = [way.method_id for way in ways(client)]
        named = [*map(one_line, self.methods), *others(client)]
        declared = f"; it names {', '.join(named)}" if named else ""
        advice = "Log in with the agent's own program, then try again."
        if self.methods:
            advice = "Choose one with --login, or log in with the agent's own program."
        super().__init__(f"{error}\nThe agent wants a login first{declared}. {advice}")


class NoSuchWay(NotSupported):
    """The agent has no login method of this id."""

    def __init__(self, method_id: str, client: Client) -> None:
        named = ", ".join(one_line(way.method_id) for way in ways(client))
        can = f"it names {named}." if named else "it names none that can be used here."
        super().__init__(f"{client.agent_name} has no login {one_line(method_id)!r}: {can}")
        self.method_id = method_id


class NoTerminal(PeerError):
    """The login needs a terminal, and standard input is none."""

    def __init__(self, way: Way) -> None:
        super().__init__(
            f"The login {one_line(way.method_id)} is done in a terminal, and standard input is"
            " none. Log in with the agent's own program first."
        )


class LoginFailed(PeerError):
    """The agent's command was run for a login, and failed."""

    def __init__(self, command: Sequence[str], returncode: int) -> None:
        self.exit_code = exit_code(returncode)
        self.signal = signal_name(returncode)
        how = f"ended with exit code {self.exit_code}"
        if self.signal is not None:
            how = f"was ended by {self.signal}"
        super().__init__(f"The login ({shown(command)}) {how}.")


# ---- ways to log in ----------------------------------------------------------------------------


def wants_login(error: BaseException) -> bool:
    """Whether the agent refused a request because it requires a login."""
    return isinstance(error, RequestFailed) and error.code == AUTH_REQUIRED


def ways(client: Client) -> list[Way]:
    """The ways to log in that can be used, in the agent's order."""
    return [way for way in map(_way, client.auth_methods) if way is not None]


def others(client: Client) -> list[str]:
    """The names of the methods of an unknown type, safe to show."""
    unknown = [each for each in client.auth_methods if isinstance(each, v2.UnknownAuthMethod)]
    return [_unknown_name(each) for each in unknown]


def way_of(client: Client, method_id: str) -> Way:
    """The way of this id.

    Raises:
        NoSuchWay: The agent declares none of this id.
    """
    for way in ways(client):
        if way.method_id == method_id:
            return way
    raise NoSuchWay(method_id, client)


def _way(method: v2.AuthMethod) -> Way | None:
    if isinstance(method, v2.UnknownAuthMethod):
        return None
    name = one_line(method.name) or one_line(method.method_id)
    terminal = method if isinstance(method, v2.AuthMethodTerminal) else None
    return Way(method.method_id, name, one_line(method.description or ""), terminal)


def _unknown_name(method: v2.UnknownAuthMethod) -> str:
    fields = method.raw.fields
    names = [fields.get(key) for key in ("methodId", "id", "name")]
    name = next((each for each in names if isinstance(each, str) and each), "one without a name")
    return f"{one_line(name)} (of the unknown kind {one_line(method.tag)})"


# ---- logging in --------------------------------------------------------------------------------


async def log_in(
    client: Client,
    way: Way,
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Log in.

    Args:
        client: The connection to the agent.
        way: The way to log in.
        command: The command that started the agent.
        cwd: Where it was started, if not in the current directory.
        env: Variables that were set for it.

    Raises:
        RequestFailed: The agent refused.
        LoginFailed: The command failed in the terminal.
        CommandNotStarted: The command could not be started in the terminal.
    """
    if way.terminal is None:
        await client.authenticate(way.method_id)
        return
    words = [*located(command, cwd), *(way.terminal.args or [])]
    own = {each.name: each.value for each in way.terminal.env or []}
    returncode = await _in_terminal(words, cwd, {**(env or {}), **own})
    if returncode != 0:
        raise LoginFailed(words, returncode)


async def _in_terminal(
    words: list[str], cwd: str | os.PathLike[str] | None, env: dict[str, str]
) -> int:
    """Run a command with the standard streams of this process, and return its return code."""
    parts = checked(words, cwd)
    environ = environment(env)
    # scripts read the turn from standard output: the login must not be written there
    out = None if sys.stdout is not None and sys.stdout.isatty() else 2
    try:
        process = await asyncio.create_subprocess_exec(*parts, cwd=cwd, env=environ, stdout=out)
    except (OSError, ValueError) as error:
        raise CommandNotStarted(parts, why_not(error, parts[0], environ, cwd)) from error
    try:
        with _interrupts_ignored():
            return await process.wait()
    finally:
        await _ended(process)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Leave Ctrl-C to the command that has the terminal, which was started before this."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # only the main thread gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End the process if it still runs, because the login was cancelled."""
    end_child(process, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    end_child(process)
    await process.wait()
