"""What `twofold sessions` runs: it asks an agent for its sessions, and prints a table or JSON."""

import asyncio
from pathlib import Path

from msgspec import Struct
from rich.cells import cell_len

from twofold.cli.output import Output, not_written
from twofold.cli.unattended import Problems, has_terminal, slow_start, with_login
from twofold.client.known_sessions import MOST, Known, known_sessions, title, when
from twofold.client.launch import Launch, on_signals
from twofold.host.agent_choice import ChosenAgent
from twofold.term import exit_status
from twofold.text import one_line
from twofold.wire import codec, v2

_WIDEST = 40
"""The widest column; a longer value is not cut, it moves the rest of its line."""


class Listing(Struct):
    """The options of the command."""

    cwd: Path | None
    """None lists the sessions of every directory."""
    json: bool
    login: str | None


async def list_sessions(agent: ChosenAgent, listing: Listing, output: Output) -> int:
    """Start the agent, print its sessions, and return the exit status."""
    task, stopped = asyncio.current_task(), False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        if task is not None:
            task.cancel()  # the block below ends the agent

    on_signals(stop)
    command = agent.command
    launch = Launch(command, cwd=listing.cwd, env=agent.env)
    problems, on_slow = Problems(output), slow_start(output, command)
    try:
        async with launch.client(
            login=has_terminal(), on_problem=problems, on_slow=on_slow
        ) as client:
            problems.release()
            known = await with_login(
                client,
                lambda: known_sessions(client, listing.cwd),
                listing.login,
                command,
                listing.cwd,
                agent.env,
            )
    except asyncio.CancelledError:
        if not stopped:
            raise
        return exit_status.CANCELLED
    _print(known, listing, output)
    if output.out.fault is None:
        return exit_status.OK
    output.report(not_written("Standard output", output.out.fault))
    return exit_status.FAILED


def _print(known: Known, listing: Listing, output: Output) -> None:
    if not known.sessions:
        everywhere = listing.cwd is None
        output.report("No sessions." if everywhere else "No sessions in this directory.")
    elif listing.json:
        for info in known.sessions:
            output.json(codec.encode(info) + b"\n")
    else:
        output.text("".join(f"{line}\n" for line in table(known.sessions)))
    if known.more:
        output.report(f"Only the first {MOST:,} sessions or pages are listed.")


def table(sessions: list[v2.SessionInfo]) -> list[str]:
    """One line for each session: id, time, directory and title, in columns."""
    rows = [_cells(info) for info in sessions]
    widths = [min(_WIDEST, max(map(cell_len, column))) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _cells(info: v2.SessionInfo) -> tuple[str, str, str, str]:
    return one_line(info.session_id), when(info) or "-", one_line(info.cwd) or "-", title(info)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
