"""What `run --prompt` and `sessions` share: they start an agent and ask the person nothing.

They report a slow start and problems on standard error, and log in with the method that `--login`
names.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from twofold.cli.output import Output
from twofold.client.client import Client
from twofold.client.launch import Launch, OnSlow
from twofold.client.login import LoginNeeded, NoTerminal, log_in, wants_login, way_of
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.text import terminal_text
from twofold.transport.commands import IS_IT, shown

SLOW_START = 5.0
"""After how many seconds a slow start is reported."""
_LONGEST_LINE = 64 * 1024
"""How many bytes of a line of the agent's standard error are kept until its end."""
_MOST_HELD = 100
"""How many lines that are not messages are kept until the agent answers."""

T = TypeVar("T")


def slow_start(output: Output, launch: Launch) -> OnSlow:
    """A callback that reports once that the agent is slow to start, with a hint."""

    def report(seconds: float) -> None:
        if seconds == SLOW_START:
            hint = f" {IS_IT}" if launch.endpoint is None else ""
            output.report(
                f"Still waiting for the agent ({shown(launch.command)}) to answer initialize.{hint}"
            )

    return report


class Problems:
    """An `on_problem` callback that reports problems on standard error.

    What an agent prints before it answers is held back: a command that is not an agent may be
    started twice, and the error that ends it shows what it printed. Losses of a conversion are
    reported only with `losses`, because they do not concern a turn.
    """

    def __init__(self, output: Output, *, losses: bool = False) -> None:
        self._output = output
        self._losses = losses
        self._held: dict[str, None] | None = {}

    def __call__(self, problem: Problem) -> None:
        if problem.kind == "loss" and not self._losses:
            return
        if problem.kind != "noise" or self._held is None:
            self._output.report(str(problem))
        elif len(self._held) < _MOST_HELD:
            self._held[str(problem)] = None

    def release(self) -> None:
        """The command is an agent: report what it printed before it answered, each line once."""
        held, self._held = self._held or {}, None
        for text in held:
            self._output.report(text)


class StderrLines:
    """An `on_stderr` callback that prints the agent's standard error, a line at a time."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._rest = b""

    def __call__(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._print(line)
        self._rest = rest
        if len(rest) > _LONGEST_LINE:
            self.end()

    def end(self) -> None:
        """Print the last line, which no newline ended."""
        rest, self._rest = self._rest, b""
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        self._output.report(f"[stderr] {terminal_text(line)}".rstrip())


async def with_login(
    client: Client,
    request: Callable[[], Awaitable[T]],
    login: str | None,
    command: Sequence[str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> T:
    """Make a request, and if the agent wants a login first, log in and make it again.

    Args:
        client: The connection to the agent.
        request: Makes the request.
        login: The id of the login method; None if the person gave none.
        command: The command that started the agent.
        cwd: Where it was started, if not here.
        env: Variables that were set for it.

    Raises:
        LoginNeeded: The agent wants a login, and there is no method.
        NoTerminal: The method needs a terminal, and standard input is not one.
        NoSuchWay: The agent does not offer the method.
        LoginFailed: The agent's login command failed.
    """
    try:
        return await request()
    except RequestFailed as error:
        if not wants_login(error):
            raise
        if login is None:
            raise LoginNeeded(error, client) from None
    way = way_of(client, login)
    if way.terminal is not None and not has_terminal():
        raise NoTerminal(way)
    await log_in(client, way, command, cwd, env)
    return await request()


def has_terminal() -> bool:
    """True if standard input is a terminal, where a person can log in."""
    return sys.stdin is not None and sys.stdin.isatty()
