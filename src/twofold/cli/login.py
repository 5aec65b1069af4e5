"""`--login`: logging in for commands that ask nobody anything."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from twofold.client.client import Client
from twofold.client.login import LoginNeeded, NoTerminal, log_in, wants_login, way_of
from twofold.rpc.errors import RequestFailed

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
