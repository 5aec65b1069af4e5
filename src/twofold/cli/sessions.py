"""`twofold sessions`: the sessions that an agent knows.

A line each on standard output, the last updated first; everything else is said on standard error.
Nothing of an agent does anything to the terminal.
"""

import asyncio
import sys
from pathlib import Path

import click
from msgspec import Struct
from rich.cells import cell_len

from twofold.cli.demo_agent import DEMO
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.printing import Screen
from twofold.cli.unattended import Problems, sits_there, slow, with_login
from twofold.client.known_sessions import MOST, Known, known_sessions, title, when
from twofold.client.launch import Launch, on_signals
from twofold.errors import TwofoldError
from twofold.term import exit_status
from twofold.text import one_line
from twofold.wire import codec, v2

WIDEST = 40
"""How far a column pushes the next one away; what is longer is not cut."""


class Listing(Struct):
    """What was asked for on the command line."""

    cwd: Path | None
    """None: the sessions of every directory."""
    json: bool
    login: str | None


# what follows the command is the command's, also what looks like an option of ours
@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="List the sessions of this directory; the agent is started there.",
)
@click.option("--all", "everywhere", is_flag=True, help="List those of every directory.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, in the words of version 2."
)
@click.option("--login", metavar="METHOD", help="Log in like this, if the agent wants that first.")
@click.argument("command", nargs=-1)
def sessions(
    cwd: Path, everywhere: bool, as_json: bool, login: str | None, command: tuple[str, ...]
) -> None:
    """List an agent's sessions.

    COMMAND starts the agent; without COMMAND the demo agent answers. Each line is the id, the time
    of the last update, the directory and the title, the most recently updated session first. Exit
    status: 0 the agent answered, even if there is no session, 1 error, 2 wrong usage, 5 cancelled,
    7 the agent died or could not be started, 124 it never answered.
    """
    screen = Screen()
    listing = Listing(None if everywhere else cwd, as_json, login)
    try:
        raise_on_interrupt()
        code = asyncio.run(_list(list(command) or DEMO, listing, screen))
    except (TwofoldError, OSError) as error:
        screen.tell(str(error))
        code = exit_status.of_error(error)
    except KeyboardInterrupt:  # where signals are not handled
        code = exit_status.CANCELLED
    sys.exit(code)


async def _list(command: list[str], listing: Listing, screen: Screen) -> int:
    task, stopped = asyncio.current_task(), False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        if task is not None:
            task.cancel()  # what was started is ended on the way out

    on_signals(stop)
    connecting = Launch(command, cwd=listing.cwd)
    told, late = Problems(screen), slow(screen, command)
    try:
        async with connecting.client(login=sits_there(), on_problem=told, on_slow=late) as client:
            told.answered()
            known = await with_login(
                client,
                lambda: known_sessions(client, listing.cwd),
                listing.login,
                command,
                listing.cwd,
            )
    except asyncio.CancelledError:
        if not stopped:
            raise
        return exit_status.CANCELLED
    _print(known, listing, screen)
    return _written(screen)


# ---- what is printed ---------------------------------------------------------------------------


def _print(known: Known, listing: Listing, screen: Screen) -> None:
    if not known.sessions:
        where = "No sessions." if listing.cwd is None else "No sessions of this directory."
        screen.tell(where)
    elif listing.json:
        for info in known.sessions:
            screen.json(codec.encode(info) + b"\n")
    else:
        screen.text("".join(f"{line}\n" for line in table(known.sessions)))
    if known.more:
        screen.tell(f"The list goes on after {MOST:,} sessions or pages: the rest is left out.")


def _written(screen: Screen) -> int:
    fault = screen.out.fault
    if fault is None:
        return exit_status.OK
    screen.tell(f"Standard output could not be written to the end: {fault.strerror}.")
    return exit_status.FAILED


def table(sessions: list[v2.SessionInfo]) -> list[str]:
    """A line for each: id, time, directory, title; a column is as wide as it must be."""
    rows = [_cells(info) for info in sessions]
    widths = [min(WIDEST, max(map(cell_len, column))) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _cells(info: v2.SessionInfo) -> tuple[str, str, str, str]:
    return one_line(info.session_id), when(info) or "-", one_line(info.cwd) or "-", title(info)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
