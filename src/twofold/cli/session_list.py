"""What `twofold sessions` runs: it asks an agent for its sessions, and prints a table or JSON."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from rich.cells import cell_len

from twofold.cli.output import Output, not_written
from twofold.cli.unattended import Problems, has_terminal, slow_start, with_login
from twofold.client.known_sessions import MOST, Known, known_sessions, title, when
from twofold.client.launch import Launch, on_signals
from twofold.host.agent_choice import ChosenAgent
from twofold.journal.journal import JournalReader, SessionRow
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
    launch = Launch(command, cwd=listing.cwd, env=agent.env, endpoint=agent.endpoint)
    problems, on_slow = Problems(output), slow_start(output, launch)
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


# ---- the sessions of a journal -------------------------------------------------------------------

_LISTED: Final = 1000
_HITS: Final = 200


async def print_kept(
    reader: JournalReader, cwd: str | None, search: str | None, as_json: bool, output: Output
) -> None:
    """Print the sessions of a journal, the last updated first.

    Args:
        reader: The journal.
        cwd: Only those of this directory.
        search: Only those in which this text is found, with an excerpt: in their titles, first
            words and directories, and in what was sent.
        as_json: Whether to print one JSON object per line.
        output: Where to print.
    """
    rows, excerpts = await _found(reader, search)
    rows = [row for row in rows if cwd is None or row.cwd == cwd]
    if not rows:
        output.report("No sessions." if cwd is None else "No sessions in this directory.")
    elif as_json:
        for row in rows:
            output.json(codec.encode(_facts(row, excerpts.get(row.session))) + b"\n")
    else:
        found = [
            v2.SessionInfo(
                row.session,
                row.cwd,
                title=row.title or row.first_words,
                updated_at=datetime.fromtimestamp(row.updated, UTC).isoformat(),
            )
            for row in rows
        ]
        lines = []
        for row, text in zip(rows, table(found), strict=True):
            lines.append(f"{text}\n")
            if row.session in excerpts:
                lines.append(f"    {one_line(excerpts[row.session])}\n")
        output.text("".join(lines))
    if len(rows) == _LISTED:
        output.report(f"Only the last {_LISTED:,} sessions are listed.")


async def _found(
    reader: JournalReader, search: str | None
) -> tuple[list[SessionRow], dict[str, str]]:
    rows = await reader.sessions(limit=_LISTED, search=search or "")
    excerpts: dict[str, str] = {}
    if search:
        for hit in await reader.search(search, _HITS):
            excerpts.setdefault(hit.session, hit.excerpt)
        known = {row.session for row in rows}
        for session in excerpts:
            row = await reader.session(session) if session not in known else None
            if row is not None:
                rows.append(row)
        rows.sort(key=lambda row: row.updated, reverse=True)
    return rows, excerpts


def _facts(row: SessionRow, excerpt: str | None) -> dict[str, Any]:
    facts = {
        "sessionId": row.session,
        "agent": row.agent,
        "cwd": row.cwd,
        "title": row.title or row.first_words,
        "state": row.state,
        "createdAt": datetime.fromtimestamp(row.created, UTC).isoformat(),
        "updatedAt": datetime.fromtimestamp(row.updated, UTC).isoformat(),
        "events": row.head,
        "bytes": row.size,
    }
    return facts if excerpt is None else {**facts, "excerpt": excerpt}
