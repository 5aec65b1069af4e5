"""What `twofold journal` runs."""

from pathlib import Path
from typing import cast

from twofold.cli.output import Output
from twofold.convert.versions import Dialect
from twofold.errors import PeerError
from twofold.host.state_files import default_journal
from twofold.journal.imported import ImportedSession, RecordingLog
from twofold.journal.recording import Line, Recording, read_line
from twofold.journal.sqlite import SqliteJournal
from twofold.journal.sqlite_reader import SqliteReader

_AT_ONCE = 1000


async def check_journal(path: Path | None, output: Output) -> int:
    """Print what is wrong with a journal; returns the exit status.

    Raises:
        JournalNotOpened: It cannot be read at all.
    """
    async with await SqliteReader.open(path or default_journal()) as reader:
        faults = await reader.check()
    for fault in faults:
        output.report(str(fault))
    if not faults:
        output.text("The journal has no faults.\n")
    return 1 if faults else 0


async def import_recording(file: Path, source: str, path: Path | None, output: Output) -> int:
    """Add the sessions of a recording to a journal; returns the exit status.

    Raises:
        JournalNotOpened: The journal cannot be written.
        OSError: The recording cannot be read.
    """
    log, faults = _read(file, source, output)
    async with await SqliteJournal.open(path or default_journal()) as journal:
        count = 0
        for each in log.sessions(file.stem):
            if await journal.session(each.row.session) is not None:
                words = f"{each.row.session} is in the journal already, and is left as it is."
                output.report(words)
                continue
            await _write(journal, each)
            output.text(f"{each.row.session}\n")
            count += 1
    if not count and not faults:
        output.report("No session was imported.")
    return 2 if faults else 0


def _read(file: Path, source: str, output: Output) -> tuple[RecordingLog, int]:
    recording = Recording(None if source == "auto" else cast("Dialect", source))
    log, faults = RecordingLog(recording), 0
    lines: list[tuple[int, Line]] = []
    with open(file, "rb") as opened:
        for number, data in enumerate(opened, 1):
            try:
                lines += [(number, line) for line in read_line(data)] if data.strip() else []
            except PeerError as error:
                faults += 1
                output.report(f"line {number}: {error}")
    for _, line in lines:  # the version may show only in a later line
        recording.look(line)
    for number, line in lines:
        try:
            log.take(line)
        except PeerError as error:
            faults += 1
            output.report(f"line {number}: {error}")
    return log, faults


async def _write(journal: SqliteJournal, session: ImportedSession) -> None:
    await journal.open_session(session.row)
    for begin in range(0, len(session.entries), _AT_ONCE):
        pending = journal.append(session.row.session, session.entries[begin : begin + _AT_ONCE])
        await pending
    await journal.describe(session.row.session, updated=session.row.updated or session.row.created)
    await journal.close_session(session.row.session)
