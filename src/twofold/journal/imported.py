"""A recorded conversation → the events of its sessions in a journal.

Pure. Each session is written as it was at the end of the recording, with its questions and answers;
what a replay replaced is not. What was going on then goes on in it: a host that opens it ends it.
"""

from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from twofold.journal.journal import Entry, SessionRow
from twofold.journal.recording import Line, Recording
from twofold.journal.session_events import OPENED, OPENING, write_input
from twofold.session import Message, Session, Sessions
from twofold.session.inputs import Input, LoggedSession
from twofold.wire import codec


class ImportedSession(Struct):
    """A session to keep."""

    row: SessionRow
    entries: list[Entry]


class RecordingLog:
    """Folds the lines of a recording, and remembers what was done to its sessions.

    Args:
        recording: A recording of which nothing was folded yet.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._inputs: dict[int, list[Input]] = {}  # by the identity of the session
        recording.sessions = _LoggedSessions(recording.sessions, self._inputs)
        self._times: list[float] = []

    def take(self, line: Line) -> None:
        """Apply one line; raises what `Recording.take` does."""
        if line.time is not None:
            self._times = [*self._times[:1], line.time]
        self.recording.take(line)

    def sessions(self, name: str) -> Iterable[ImportedSession]:
        """The sessions that have any content.

        Args:
            name: What the ids of the sessions begin with, because ids of recordings repeat.
        """
        for session_id, session in self.recording.sessions.items():
            if session.entries:
                yield self._imported(name, session_id, session)

    def _imported(self, name: str, session_id: str, session: Session) -> ImportedSession:
        inputs = self._inputs[id(session)]
        facts = self.recording.facts(session_id)
        begin, end = (self._times[0], self._times[-1]) if self._times else (0.0, 0.0)
        row = SessionRow(
            session=f"{name}:{session_id}" if session_id else name,
            agent=facts.agent or "recording",
            cwd=facts.cwd or "",
            title=session.title or "",
            first_words=_first_words(session),
            state="cold",
            created=begin,
            updated=end,
        )
        entries = [
            Entry(OPENING, codec.encode({"session": session_id})),
            *(Entry(*write_input(each)) for each in inputs),
            Entry(OPENED, codec.encode({"keep": False}), _text(session)),
        ]
        return ImportedSession(row, entries)


class _LoggedSessions(Sessions):
    def __init__(self, like: Sessions, inputs: dict[int, list[Input]]) -> None:
        super().__init__(like.draft)
        self._inputs = inputs
        self._kept: list[Session] = []  # so that no identity is used twice

    def __missing__(self, session_id: str) -> Session:
        inputs: list[Input] = []
        session = LoggedSession(session_id, partial(_note, inputs), self.draft)
        self._inputs[id(session)] = inputs
        self._kept.append(session)
        self[session_id] = session
        return session


def _note(inputs: list[Input], given: Input, changes: object) -> None:
    inputs.append(given)


def _first_words(session: Session) -> str:
    for entry in session.entries:
        if isinstance(entry, Message) and entry.role == "user":
            return " ".join(entry.text.split())[:200]
    return ""


def _text(session: Session) -> str:
    """What a search finds the session by."""
    texts = [
        entry.text if isinstance(entry, Message) else entry.title or "" for entry in session.entries
    ]
    return "\n".join(filter(None, texts))
