"""Sessions that an agent speaks of before anyone here knows them.

Agents send updates before `session/new` is answered: they are kept for whoever is about to get the
session. Only so many sessions and so many bytes are kept, the newest ones; what goes beyond, and
what still comes for sessions that are gone, is dropped.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from twofold.runtime.problems import Problem, Report

if TYPE_CHECKING:
    from twofold.runtime.client.session import ClientSession

UNCLAIMED = 64
"""How many sessions that nobody asked for are kept."""
KEPT = 64 * 1024 * 1024
"""How many bytes of messages of such sessions are kept."""
GONE = 1024
"""How many sessions that are gone are remembered."""
LONGEST = 4096
"""How long an id may be that an agent makes up."""


class Early:
    """The sessions that nobody asked for yet."""

    def __init__(self, make: Callable[[str], "ClientSession"], report: Report) -> None:
        self._make = make
        self._report = report
        self._sessions: dict[str, ClientSession] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._gone: dict[str, None] = {}

    def __iter__(self) -> Iterator["ClientSession"]:
        return iter(list(self._sessions.values()))

    def find(self, session_id: str, size: int) -> "ClientSession | None":
        """The session that a message of `size` bytes belongs to; None if it should be dropped."""
        if session_id in self._gone:
            return None
        if len(session_id) > LONGEST:
            text = f"The agent speaks of a session whose id is longer than {LONGEST}: passed over"
            self._report(Problem("limit", text))
            return None
        if session_id not in self._sessions:
            self._sessions[session_id] = self._make(session_id)
            self._sizes[session_id] = 0
        self._sizes[session_id] += size
        self._size += size
        while len(self._sessions) > UNCLAIMED or self._size > KEPT:
            self._drop(next(iter(self._sessions)))
        return self._sessions.get(session_id)

    def claim(self, session_id: str) -> "ClientSession | None":
        """Somebody asked for the session: what was heard of it so far, if anything."""
        self._size -= self._sizes.pop(session_id, 0)
        return self._sessions.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        """The session is gone: what still comes of it is dropped."""
        self.claim(session_id)
        self._gone[session_id] = None
        if len(self._gone) > GONE:
            del self._gone[next(iter(self._gone))]

    def _drop(self, session_id: str) -> None:
        text = "The agent says too much of sessions that nobody asked for: one is passed over"
        self._report(Problem("update", text, session_id))
        self._sessions[session_id].ended(None)  # which has it forgotten
