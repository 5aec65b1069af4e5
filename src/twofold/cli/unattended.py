"""`--login`: logging in for commands that ask nobody anything."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from twofold.cli.printing import Screen
from twofold.client.client import Client
from twofold.client.launch import OnSlow
from twofold.client.login import LoginNeeded, NoTerminal, log_in, wants_login, way_of
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.transport.commands import IS_IT, shown

# What is told of an agent while a command for scripts waits for it.


SLOW = 5.0
"""After how many seconds a start is said to be slow."""
MOST_HELD = 100
"""How many lines that are no messages are kept until the agent answers."""


def slow(screen: Screen, command: Sequence[str]) -> OnSlow:
    """Reports once that the agent takes long, and what may be wrong."""

    def tell(seconds: float) -> None:
        if seconds == SLOW:
            screen.tell(
                f"Still waiting for the agent ({shown(command)}) to answer initialize. {IS_IT}"
            )

    return tell


class Problems:
    """Reports what went wrong and was survived (`Report`).

    What an agent prints before it answers is held back: a command that is no agent may be started
    twice, and the error that ends it shows what it printed. What a conversion loses is no concern
    of a turn.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held: dict[str, None] | None = {}

    def __call__(self, problem: Problem) -> None:
        if problem.kind == "loss":
            return
        if problem.kind != "noise" or self._held is None:
            self._screen.tell(str(problem))
        elif len(self._held) < MOST_HELD:
            self._held[str(problem)] = None

    def answered(self) -> None:
        """It is an agent: what it printed before it answered is reported, each line once."""
        held, self._held = self._held or {}, None
        for text in held:
            self._screen.tell(text)


T = TypeVar("T")


async def with_login(
    client: Client,
    do: Callable[[], Awaitable[T]],
    login: str | None,
    command: Sequence[str],
    cwd: Path | None = None,
) -> T:
    """What `do` gives; if the agent wants a login first, once more after the one of this id.

    `command` is what started the agent, and `cwd` where, if not here.

    Raises `LoginNeeded` if there is no id, and all that `twofold.client.login` does.
    """
    try:
        return await do()
    except RequestFailed as error:
        if not wants_login(error):
            raise
        if login is None:
            raise LoginNeeded(error, client) from None
    way = way_of(client, login)
    if way.terminal is not None and not sits_there():
        raise NoTerminal(way)
    await log_in(client, way, command, cwd)
    return await do()


def sits_there() -> bool:
    """Whether someone can log in here: standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()
