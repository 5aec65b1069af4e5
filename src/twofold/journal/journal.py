"""The storage of sessions: what a journal promises, whatever engine keeps it.

A journal keeps the events of sessions. An event is a kind and a body of JSON; what they mean is the
business of the owner. Events of a session are numbered 1, 2, 3 … in the order of `append`.

- An event that was committed survives every crash. Events before it are committed, too: there is
  never a gap, and never a part of an event or of an `append`.
- If the file cannot be written any more, the journal fails as a whole: nothing is accepted until
  `resume`. Events that were not committed are gone then, and their numbers are given again. So
  `epoch` is counted up: a cursor of epoch and number that the journal no longer has must begin
  again. The same happens when a session is opened again after a crash.
- What waits to be written is bounded: `append` raises `JournalBusy`, and `wait_writable` waits.

Nothing here has a clock, a task or a file.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, TypedDict, Unpack

from msgspec import Struct

from twofold.errors import LocalError

LONGEST_KIND: Final = 64
"""How many ASCII characters the kind of an event may have."""
LONGEST_ID: Final = 1_000
"""How many characters the id of a session may have."""
LONGEST_FIELD: Final = 4_096
"""A longer title, agent, directory or other text of a session's row is cut."""
LONGEST_TEXT: Final = 1024 * 1024
"""How many characters of the text of an entry are searched; the rest is not."""
LARGEST_BODY: Final = 64 * 1024 * 1024
"""The largest body of an event, a snapshot or facts, in bytes."""
LARGEST_APPEND: Final = 256 * 1024 * 1024
"""The most bytes of one `append`."""


class Entry(NamedTuple):
    """What is to be appended.

    Attributes:
        kind: A short ASCII word.
        body: JSON. It is kept as it is; `check` reports what is no JSON.
        text: What `search` finds this event by; empty for an event that is not searched.
    """

    kind: str
    body: bytes
    text: str = ""


class Event(NamedTuple):
    """What was appended.

    Attributes:
        seq: Its number in its session, from 1.
        at: When it was appended, in seconds since 1970, to the microsecond.
        kind: As it was given.
        body: As it was given.
        epoch: That of the owner that appended it.
    """

    seq: int
    at: float
    kind: str
    body: bytes
    epoch: int = 0


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session, as lists show it.

    Attributes:
        session: The id.
        agent: What runs it.
        cwd: Its directory.
        title: Its title.
        first_words: What it began with.
        state: For lists, in the words of the owner.
        created: When it was created, in seconds since 1970.
        updated: When it last changed: the last event, or as `describe` was given it.
        head: The number of the last event; 0 if there is none.
        snapshot: The number of the event that the snapshot includes last; 0 without a snapshot.
        size: How many bytes the bodies of its events have.
        epoch: How often it was opened again since it was created.
        facts: JSON that the owner keeps beside it.
    """

    session: str
    agent: str = ""
    cwd: str = ""
    title: str = ""
    first_words: str = ""
    state: str = ""
    created: float = 0.0
    updated: float = 0.0
    head: int = 0
    snapshot: int = 0
    size: int = 0
    epoch: int = 0
    facts: bytes = b"{}"


class Description(TypedDict, total=False):
    """What `describe` changes of a `SessionRow`."""

    agent: str
    cwd: str
    title: str
    first_words: str
    state: str
    updated: float
    facts: bytes


class Snapshot(NamedTuple):
    """A state of a session: what the events up to `seq` add up to."""

    seq: int
    body: bytes


class Hit(NamedTuple):
    """An event whose text was found, with an excerpt of one line that is safe to show."""

    session: str
    seq: int
    excerpt: str


class Fault(NamedTuple):
    """What `check` found: in which session (empty: in the whole journal), and what."""

    session: str
    text: str

    def __str__(self) -> str:
        """The fault in one line."""
        return f"session {self.session!r}: {self.text}" if self.session else self.text


class Pending:
    """Events that were appended. Await it to know that they are committed.

    Args:
        first: The number of the first of them.
        last: The number of the last of them.
        committed: Waits until everything up to a number is committed.
    """

    __slots__ = ("_committed", "first", "last")

    def __init__(self, first: int, last: int, committed: Callable[[int], Awaitable[None]]) -> None:
        self.first = first
        self.last = last
        self._committed = committed

    def committed(self) -> Awaitable[None]:
        """Wait until the events are committed.

        Raises:
            JournalFailed: They are not in the journal, and never will be.
        """
        return self._committed(self.last)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait as `committed` does."""
        return self._committed(self.last).__await__()


# ---- errors ----------------------------------------------------------------------------------


class JournalFailed(LocalError):
    """A journal cannot write: the disk is full, the file is read-only or damaged, or I/O fails.

    Attributes:
        where: The journal.
        reason: What failed.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The journal {where} cannot be written: {reason}. What was committed is safe; nothing "
            "more is accepted until that is mended and the journal resumed."
        )
        self.where = where
        self.reason = reason


class JournalBusy(LocalError):
    """More is appended than can be written: call `wait_writable` before appending more.

    Attributes:
        waiting: How many bytes wait to be written.
        limit: How many may wait.
    """

    def __init__(self, waiting: int, limit: int) -> None:
        super().__init__(
            f"{waiting} bytes wait to be written to the journal, and the limit is {limit}: "
            "wait until it is writable."
        )
        self.waiting = waiting
        self.limit = limit


class JournalClosed(LocalError):
    """This program closed the journal and then used it."""

    def __init__(self) -> None:
        super().__init__("The journal was closed: open it again.")


class JournalRefused(LocalError):
    """A journal was given something that it does not accept; nothing was changed.

    Attributes:
        what: What was refused.
        reason: Why.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"The journal refuses {what}: {reason}.")
        self.what = what
        self.reason = reason


class SessionNotOpen(LocalError):
    """Something was appended to a session that this journal has not opened.

    Attributes:
        session_id: The id of the session.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"The session {session_id!r} is not open in the journal: open it first.")
        self.session_id = session_id


class NotInJournal(LocalError):
    """A journal has no session of this id.

    Attributes:
        session_id: The id of the session.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"The journal has no session {session_id!r}.")
        self.session_id = session_id


class JournalNotOpened(LocalError):
    """A journal cannot be opened.

    Attributes:
        where: The journal.
        reason: Why, and what to do.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"The journal {where} cannot be opened: {reason}")
        self.where = where
        self.reason = reason


class JournalLocked(JournalNotOpened):
    """Another process writes to the journal.

    Attributes:
        pid: Its process id; None if it is not known.
    """

    def __init__(self, where: str, pid: int | None) -> None:
        process = "another process" if pid is None else f"process {pid}"
        super().__init__(
            where, f"{process} writes to it. End that process, or choose another journal."
        )
        self.pid = pid


class JournalTooNew(JournalNotOpened):
    """A newer Twofold wrote the journal.

    Attributes:
        found: The version of its format.
        known: The newest version that this Twofold reads.
    """

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            where,
            f"its format is version {found}, and this Twofold reads up to version {known}. "
            "Install a newer Twofold.",
        )
        self.found = found
        self.known = known


class JournalNotPrivate(JournalNotOpened):
    """The directory or file of a journal belongs to someone else, or others may write to it."""


class JournalDamaged(JournalNotOpened):
    """The file of a journal is damaged, or is no journal."""


# ---- the journal -----------------------------------------------------------------------------


class JournalReader(Protocol):
    """What can be read from a journal: what was committed, and nothing else."""

    async def sessions(
        self, *, limit: int = 100, offset: int = 0, search: str = ""
    ) -> list[SessionRow]:
        """Return sessions, the last updated first.

        Args:
            limit: How many at most.
            offset: How many to leave out at the start.
            search: Only those with this text in their id, agent, directory, title or first words,
                whatever its case.
        """

    async def session(self, session: str) -> SessionRow | None:
        """Return a session; None for an unknown id."""

    def read(
        self, session: str, after: int = 0, limit: int | None = None
    ) -> AsyncIterator[list[Event]]:
        """Return the events of a session in batches, up to the last one when reading begins.

        Args:
            session: The id of the session.
            after: Only events with a greater number; it need not be the number of an event.
            limit: How many events at most; None for all.

        Raises:
            NotInJournal: There is no such session.
        """

    async def snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot of a session; None if it has none or is unknown."""

    async def search(self, text: str, limit: int = 50) -> list[Hit]:
        """Return events whose text has all words of `text`, in the newest sessions first.

        The last word may be the beginning of a word. Without any word nothing is found.
        """

    async def check(self) -> list[Fault]:
        """Read the whole journal, and return everything that is wrong with it."""

    async def close(self) -> None:
        """Write what waits, and close the journal; a closed one stays closed."""


class Journal(JournalReader, Protocol):
    """A journal that this process writes. No other process does at the same time."""

    @property
    def failure(self) -> JournalFailed | None:
        """Why nothing can be written; None while all is well."""

    async def open_session(self, row: SessionRow) -> SessionRow:
        """Open a session to append to it; create it if there is none of this id.

        Args:
            row: What to create it with. `created` and `updated` are the current time unless they
                are given; `head`, `snapshot`, `size` and `epoch` are not read. Of a session that
                exists nothing but `session` is read.

        Returns:
            The session as it is in the journal. If it existed, its epoch is one more than before,
            unless this journal has it open already: then nothing is changed.

        Raises:
            JournalRefused: The id is empty, too long, not valid Unicode or has a NUL, or the facts
                are too large.
        """

    async def close_session(self, session: str) -> None:
        """Close a session, so that nothing can be appended; wait until everything is committed.

        Raises:
            JournalFailed: Not everything is, and never will be; the session is closed nevertheless.
        """

    async def describe(self, session: str, **changed: Unpack[Description]) -> None:
        """Change fields of a session.

        Raises:
            NotInJournal: There is no such session.
        """

    async def delete(self, session: str) -> bool:
        """Delete a session with everything of it, also if it is open.

        Returns:
            Whether there was one.
        """

    def append(self, session: str, entries: Sequence[Entry]) -> Pending:
        """Append events, all of them or none; they get their numbers at once.

        Returns:
            The numbers, and what to await for the commit. A commit is made soon in any case, and
            at once if it is awaited.

        Raises:
            SessionNotOpen: The session was not opened.
            JournalBusy: Too much waits to be written.
            JournalFailed: The journal has failed.
            JournalRefused: A kind or a body is not accepted.
        """

    async def committed(self, session: str, seq: int) -> None:
        """Wait until every event of an open session up to `seq` is committed.

        Raises:
            SessionNotOpen: The session was not opened.
            JournalRefused: There is no event `seq` yet.
            JournalFailed: They are not in the journal, and never will be.
        """

    async def wait_writable(self) -> None:
        """Wait until `append` accepts more; returns at once if it does.

        Raises:
            JournalFailed: The journal has failed.
        """

    async def put_snapshot(self, session: str, seq: int, body: bytes) -> None:
        """Keep a snapshot that includes the events up to `seq`; an older one is replaced.

        If there is a newer one, nothing is changed.

        Raises:
            NotInJournal: There is no such session.
            JournalRefused: The session has no event `seq`, or the body is too large.
        """

    async def compact(
        self, session: str, first: int, last: int, kept: Mapping[int, Entry | None]
    ) -> None:
        """Replace the events from `first` to `last` by fewer; no event gets another number.

        A reader that has read up to the middle of them is given what is kept after that. So an
        entry that replaces events before it has to make sense after any of them: the whole message
        instead of its chunks.

        Args:
            session: The id of the session.
            first: The first number that is replaced.
            last: The last number that is replaced; it must be kept.
            kept: What is left at which number: another entry, or None for the event that is
                there. It keeps its time and epoch.

        Raises:
            NotInJournal: There is no such session.
            JournalRefused: A number is outside the range, or there is no event of that number.
        """

    async def retain(self, keep: timedelta | None, cap: int | None) -> list[str]:
        """Delete the sessions that were not updated for the longest time; never an open one.

        Args:
            keep: Those that were not updated for longer than this are deleted; None for no limit.
            cap: More are deleted until all events and snapshots have at most so many bytes; None
                for no limit.

        Returns:
            The ids of the sessions that were deleted.
        """

    async def resume(self) -> None:
        """Write again after a failure; does nothing if there is none.

        What was not committed is gone. The epoch of every open session is one more than before,
        and `session` has its head.

        Raises:
            JournalFailed: It still cannot be written.
        """
