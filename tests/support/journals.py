"""Journals of every engine, for tests that hold for all of them.

A `Place` is where one journal is kept. `ENGINES` makes one of each engine in a fresh directory;
`place_at` finds it again by its name and address, also in another process.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from twofold.journal.journal import Entry, Event, Journal, JournalReader, SessionRow
from twofold.journal.sqlite import SqliteJournal
from twofold.journal.sqlite_reader import SqliteReader


class Place(Protocol):
    """Where one journal is kept."""

    @property
    def engine(self) -> str:
        """The name of its engine."""

    @property
    def address(self) -> str:
        """Where it is, in the words of its engine."""

    async def open(self, **options: Any) -> Journal:
        """Open it to write."""

    async def reader(self) -> JournalReader:
        """Open it to read."""


class SqlitePlace(NamedTuple):
    address: str
    engine: str = "sqlite"

    async def open(self, **options: Any) -> Journal:
        return await SqliteJournal.open(self.address, **options)

    async def reader(self) -> JournalReader:
        return await SqliteReader.open(self.address)


def _sqlite(directory: Path) -> Place:
    return SqlitePlace(str(directory / "kept" / "journal.db"))


# Another engine is added here.
ENGINES: dict[str, Callable[[Path], Place]] = {"sqlite": _sqlite}
_AT: dict[str, Callable[[str], Place]] = {"sqlite": SqlitePlace}


def place_at(engine: str, address: str) -> Place:
    """The place with this address."""
    return _AT[engine](address)


def entries(*texts: str, kind: str = "update") -> list[Entry]:
    """An entry for each text, which is its body as a JSON string."""
    return [Entry(kind, f'"{text}"'.encode()) for text in texts]


async def opened(journal: Journal, *sessions: str) -> None:
    """Open sessions of these ids."""
    for each in sessions:
        await journal.open_session(SessionRow(session=each))


async def events(
    journal: JournalReader, session: str, after: int = 0, limit: int | None = None
) -> list[Event]:
    """What `read` returns, without its batches."""
    return [event async for batch in journal.read(session, after, limit) for event in batch]


def bodies(events: Sequence[Event]) -> list[tuple[int, bytes]]:
    """The numbers and bodies of events."""
    return [(event.seq, event.body) for event in events]
