"""The log of a hosted session in a journal, and reading it back.

What the journal cannot take at once waits here, in order and up to a bound; beyond that nothing
more of the session is kept, which is an error and never a gap.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from twofold.errors import LocalError
from twofold.host.recovery import Recovery
from twofold.journal.compaction import Thing, compaction
from twofold.journal.journal import Entry, Event, Journal, JournalBusy, JournalReader

MOST_HELD: Final = 64 * 1024 * 1024
"""How many bytes of one session may wait for a journal that is busy."""
FEWEST_COMPACTED: Final = 50
MOST_COMPACTED: Final = 500_000
"""Of so many events of a turn fewer are made; with more than that it would take too long."""


class JournalLog:
    """A `SessionLog` in a journal.

    Args:
        journal: The journal.
        session: The id of the session, which has to be open in the journal when something is put.
    """

    keeps = True

    def __init__(self, journal: Journal, session: str) -> None:
        self._journal = journal
        self._session = session
        self._last = 0
        self._fault: LocalError | None = None
        self._held: deque[Entry] = deque()
        self._size = 0
        self._waiting: asyncio.Task[None] | None = None
        self._compacted = 0

    def begin(self, head: int) -> None:
        """Go on after the event `head`, whatever failed before."""
        self._last, self._fault, self._size = head, None, 0
        self._compacted = head
        self._held.clear()

    def put(self, kind: str, body: bytes, text: str = "") -> None:
        """Append an event; an error is raised by `kept`."""
        entry = Entry(kind, body, text)
        if self._fault is not None:
            return
        if self._waiting is not None:
            self._hold(entry)
            return
        try:
            self._last = self._journal.append(self._session, [entry]).last
        except JournalBusy as error:
            self._hold(entry, error)
        except LocalError as error:
            self._fault = error

    def _hold(self, entry: Entry, busy: LocalError | None = None) -> None:
        self._held.append(entry)
        self._size += len(entry.body)
        if self._size > MOST_HELD:
            self._fault = busy or JournalBusy(self._size, MOST_HELD)
        elif self._waiting is None:
            self._waiting = asyncio.create_task(self._append_held())

    async def _append_held(self) -> None:
        try:
            while self._held and self._fault is None:
                await self._journal.wait_writable()
                entries = list(self._held)[:100]
                try:
                    self._last = self._journal.append(self._session, entries).last
                except JournalBusy:
                    continue
                for entry in entries:
                    self._held.popleft()
                    self._size -= len(entry.body)
        except LocalError as error:
            self._fault = error
        finally:
            self._waiting = None

    async def kept(self) -> None:
        """Return once all that was put is committed.

        Raises:
            JournalFailed: It never will be.
        """
        if self._waiting is not None:
            await asyncio.wait([self._waiting])
        if self._fault is not None:
            raise self._fault
        if self._last:
            await self._journal.committed(self._session, self._last)

    async def compact(self, is_known: Callable[[Thing], bool]) -> None:
        """Make fewer events of what was put since the last call; see `compaction`.

        Args:
            is_known: Whether the session had a message or a terminal before that.

        Raises:
            JournalFailed: The journal cannot be written.
        """
        begin, end = self._compacted, self._last
        self._compacted = end
        if not FEWEST_COMPACTED <= end - begin <= MOST_COMPACTED:
            return
        await self.kept()
        events: list[Event] = []
        async for batch in self._journal.read(self._session, begin, end - begin):
            events += [event for event in batch if event.seq <= end]
        found = await asyncio.to_thread(compaction, events, is_known)
        if found is not None:
            await self._journal.compact(self._session, *found)


async def read_session(
    journal: JournalReader, session: str, cwd: str, report: Callable[[str], None]
) -> Recovery:
    """Fold the events of a session; the event loop goes on meanwhile.

    Args:
        journal: The journal.
        session: The id of the session.
        cwd: Its directory.
        report: Called, in words, with an event that cannot be read.

    Raises:
        NotInJournal: There is no such session.
        JournalFailed: The journal cannot be read.
    """
    recovery = Recovery(cwd, report)
    async for events in journal.read(session):
        for event in events:
            recovery.put(event.seq, event.kind, event.body)
        await asyncio.sleep(0)
    return recovery
