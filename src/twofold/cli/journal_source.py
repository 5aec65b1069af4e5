"""The sessions of a journal as input of commands: which file, and which session.

A journal can be read while a server writes to it. Nothing here writes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from twofold.errors import LocalError
from twofold.host.journal_log import read_session
from twofold.host.recovery import Recovery
from twofold.host.state_files import default_journal
from twofold.journal.journal import SessionRow
from twofold.journal.session_events import UPDATE
from twofold.journal.sqlite_reader import SqliteReader
from twofold.text import one_line
from twofold.view.blocks import Block, HeadingBlock, OutputBlock
from twofold.view.timeline import outline, turn_headings

T = TypeVar("T")

_LOOKED_AT: Final = 100_000
"""Among how many sessions one is looked up by the beginning of its id."""
_NAMED: Final = 5
"""How many of those that are meant are named."""


class NoSuchKeptSession(LocalError):
    """The journal has no such session, or more than one is meant."""


def read_journal(path: Path | None, read: Callable[[SqliteReader], Awaitable[T]]) -> T:
    """What `read` returns of a journal.

    Raises:
        JournalNotOpened: It cannot be read.
    """

    async def run() -> T:
        async with await SqliteReader.open(path or default_journal()) as reader:
            return await read(reader)

    return asyncio.run(run())


async def find_row(reader: SqliteReader, wanted: str) -> SessionRow:
    """The session of an id, or of the beginning of one; the last one if nothing is wanted.

    Raises:
        NoSuchKeptSession: There is none, or more than one.
    """
    if wanted in ("", "-"):
        rows = await reader.sessions(limit=1)
        if not rows:
            raise NoSuchKeptSession("The journal has no session.")
        return rows[0]
    row = await reader.session(wanted)
    if row is not None:
        return row
    rows = await reader.sessions(limit=_LOOKED_AT)
    found = [row for row in rows if row.session.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoSuchKeptSession(
            f"The journal has no session {one_line(wanted)!r}. `twofold sessions --journal` lists"
            " its sessions."
        )
    names = ", ".join(one_line(row.session) for row in found[:_NAMED])
    more = " and more" if len(found) > _NAMED else ""
    raise NoSuchKeptSession(f"More than one session begins with that: {names}{more}.")


async def recovered(
    reader: SqliteReader, wanted: str, report: Callable[[str], None]
) -> tuple[SessionRow, Recovery]:
    """A session of the journal, folded; `report` is called with events that cannot be read."""
    row = await find_row(reader, wanted)
    return row, await read_session(reader, row.session, row.cwd, report)


async def update_lines(reader: SqliteReader, wanted: str) -> list[bytes]:
    """The updates of a session as JSON Lines, as they were applied, in version 2."""
    row = await find_row(reader, wanted)
    lines: list[bytes] = []
    async for events in reader.read(row.session):
        lines += [event.body for event in events if event.kind == UPDATE]
    return lines


def outline_of(row: SessionRow, recovery: Recovery) -> list[Block]:
    """Everything there is to show of a session, under its heading."""
    session, live = recovery.session, recovery.live
    remarks: list[tuple[int, Block]] = []
    entries = 0
    for key in live.places:
        block = live.block(key)
        if key.kind == "entry":
            entries += 1
        elif key.kind == "turn" and block is not None and not isinstance(block, OutputBlock):
            remarks.append((entries, block))
    name = one_line(row.title) or one_line(row.first_words) or f"Session {one_line(row.session)}"
    when = datetime.fromtimestamp(row.created).astimezone().strftime("%Y-%m-%d %H:%M")
    heading = HeadingBlock(name, (one_line(row.agent), one_line(row.cwd), when))
    between = [*turn_headings(session), *remarks]
    return [heading, *outline(session, between, cwd=row.cwd)]
