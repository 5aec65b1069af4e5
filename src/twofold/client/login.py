"""Logging in, when an agent wants that first: the ways that it names, and doing it.

A way is done by the agent itself, or by its own command in the person's terminal, where it is
alone: whoever calls `log_in` must not read keys or draw meanwhile, and what that command writes
reaches the terminal as it is. Ways of a kind that is not known are named and not offered. Nothing
is asked or printed here.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from twofold.client.client import Client
from twofold.client.launch import located
from twofold.errors import NotSupported, PeerError
from twofold.rpc.errors import AUTH_REQUIRED, RequestFailed
from twofold.text import one_line
from twofold.transport import platform
from twofold.transport.commands import (
    CommandNotStarted,
    checked,
    exit_code,
    shown,
    signal_name,
    why_not,
)
from twofold.wire import v2

PATIENCE = 2.0
"""How many seconds a login that nobody waits for any more has to end."""


class Way(Struct, frozen=True):
    """A way to log in that can be offered; name and description are safe to show."""

    method_id: str
    name: str
    description: str = ""
    terminal: v2.AuthMethodTerminal | None = None
    """What the agent's own command is to be given, if it is done in the terminal."""


class LoginNeeded(PeerError):
    """The agent wants someone to log in first; `methods` are the ways that it names."""

    def __init__(self, error: RequestFailed, client: Client) -> None:
        self.methods = [way.method_id for way in ways(client)]
        named = [*map(one_line, self.methods), *others(client)]
        known = f"; it names {', '.join(named)}" if named else ""
        advice = "Log in with the agent's own program, then try again."
        if self.methods:
            advice = "Choose one with --login, or log in with the agent's own program."
        super().__init__(f"{error}\nThe agent wants a login first{known}. {advice}")


class NoSuchWay(NotSupported):
    """Someone wants to log in in a way that the agent does not name."""

    def __init__(self, method_id: str, client: Client) -> None:
        named = ", ".join(one_line(way.method_id) for way in ways(client))
        can = f"it names {named}." if named else "it names none that can be used here."
        super().__init__(f"{client.agent_name} knows no login {one_line(method_id)!r}: {can}")
        self.method_id = method_id


class NoTerminal(PeerError):
    """The agent wants a login in a terminal, and there is none."""

    def __init__(self, way: Way) -> None:
        super().__init__(
            f"The login {one_line(way.method_id)} is done in a terminal, and standard input is"
            " none. Log in with the agent's own program first."
        )


class LoginFailed(PeerError):
    """The agent's command was run for a login, and ended with something else than success."""

    def __init__(self, command: Sequence[str], returncode: int) -> None:
        self.exit_code = exit_code(returncode)
        self.signal = signal_name(returncode)
        how = f"ended with exit code {self.exit_code}"
        if self.signal is not None:
            how = f"was ended by {self.signal}"
        super().__init__(f"The login ({shown(command)}) {how}.")


# ---- the ways ----------------------------------------------------------------------------------


def wants_login(error: BaseException) -> bool:
    """Whether the agent refused something because nobody is logged in."""
    return isinstance(error, RequestFailed) and error.code == AUTH_REQUIRED


def ways(client: Client) -> list[Way]:
    """The ways to log in that can be offered, in the order of the agent."""
    return [way for way in map(_way, client.auth_methods) if way is not None]


def others(client: Client) -> list[str]:
    """The ways of a kind that is not known, by name, safe to show."""
    unknown = [each for each in client.auth_methods if isinstance(each, v2.UnknownAuthMethod)]
    return [_unknown_name(each) for each in unknown]


def way_of(client: Client, method_id: str) -> Way:
    """The way of this id; raises `NoSuchWay`."""
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
    said = [fields.get(key) for key in ("methodId", "id", "name")]
    name = next((each for each in said if isinstance(each, str) and each), "one without a name")
    return f"{one_line(name)} (of the unknown kind {one_line(method.tag)})"


# ---- doing it ----------------------------------------------------------------------------------


async def log_in(
    client: Client,
    way: Way,
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
) -> None:
    """Log in; `command` is what started the agent, and `cwd` where, if not here.

    Raises `RequestFailed` if the agent refuses, `LoginFailed` if its command does not succeed in
    the terminal, and `CommandNotStarted`.
    """
    if way.terminal is None:
        await client.authenticate(way.method_id)
        return
    words = [*located(command, cwd), *(way.terminal.args or [])]
    env = {each.name: each.value for each in way.terminal.env or []}
    returncode = await _in_terminal(words, cwd, env)
    if returncode != 0:
        raise LoginFailed(words, returncode)


async def _in_terminal(
    words: list[str], cwd: str | os.PathLike[str] | None, env: dict[str, str]
) -> int:
    """Run a command with the standard streams of this process; its return code."""
    parts = checked(words, cwd)
    environ = platform.environment(env)
    # what scripts read is the turn, so where that goes to a file the login is not written there
    out = None if sys.stdout is not None and sys.stdout.isatty() else 2
    try:
        program = platform.program(parts[0], environ)
        process = await asyncio.create_subprocess_exec(
            program, *parts[1:], cwd=cwd, env=environ, stdout=out
        )
    except (OSError, ValueError) as error:
        raise CommandNotStarted(parts, why_not(error, parts[0], environ, cwd)) from error
    try:
        with _left_to_it():
            return await process.wait()
    finally:
        await _ended(process)


@contextmanager
def _left_to_it() -> Iterator[None]:
    """Ctrl-C is for the command that has the terminal, which was started before this."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # another thread than the main one hears no signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End what was broken off; nothing, if it ended by itself."""
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
