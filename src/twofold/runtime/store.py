"""Where an agent keeps its sessions: what each is called, and what it adds up to.

A store is synchronous and quick, so that an agent may call it between two awaits; the cost of
`append` does not grow with the session. It keeps updates as they were given and folds them by the
rules of November; it makes none up: no title, no time, no `idle` after a crash. Permissions that
wait for an answer are not kept. `runtime.directory` has the store that survives a restart.
"""

import logging
import math
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeAlias

from twofold.errors import LocalError, PeerError
from twofold.session import Draft, Session, snapshot
from twofold.wire import v2

_logger = logging.getLogger("twofold")

DRAFT = Draft.NOVEMBER
"""What our agents write."""

SessionInfos: TypeAlias = list[v2.SessionInfo]


class StoreFailed(LocalError):
    """The file at `path` could not be read or written, for `reason`."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"No session can be kept in or read from {os.fspath(path)}: {reason}.")
        self.path = Path(path)
        self.reason = reason


class SessionExists(LocalError):
    """A new session was given an id that is taken."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is a session {session_id!r} already: choose another id.")
        self.session_id = session_id


class UnknownSession(LocalError):
    """Something was to be kept for a session that was never created, or was deleted."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}: create it first.")
        self.session_id = session_id


class Store(Protocol):
    """Keeps sessions. An id may be any string at all: peers choose what they ask for."""

    def list(self) -> SessionInfos:
        """Every session, the last updated first."""

    def info(self, session_id: str) -> v2.SessionInfo | None:
        """What the session is called, or None for an unknown id."""

    def create(self, info: v2.SessionInfo) -> None:
        """A new session; raises `SessionExists` for an id that is taken."""

    def describe(self, info: v2.SessionInfo) -> None:
        """A new title, time or directories; raises `UnknownSession` for an unknown id."""

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        """Keep what was said, all or nothing; raises `UnknownSession` for an unknown id."""

    def adopt(self, session: Session) -> bool:
        """Keep `session` itself, which the caller goes on changing, in place of what was kept.

        True: nothing has to be appended from now on. False: this store keeps only what is
        appended.
        """

    def load(self, session_id: str) -> Session | None:
        """What the session adds up to, the caller's own; None for an unknown id."""

    def delete(self, session_id: str) -> bool:
        """Forget the session, and say whether there was one."""


def newest_first(infos: Iterable[v2.SessionInfo]) -> SessionInfos:
    """The last updated first, those of the same time by their ids."""
    return sorted(infos, key=age, reverse=True)


def age(info: v2.SessionInfo) -> tuple[float, str]:
    """What sessions are sorted by: another one for each."""
    return _updated(info), info.session_id


def _updated(info: v2.SessionInfo) -> float:
    """When, for sorting: what does not say so, or not in ISO 8601, is the oldest."""
    try:
        time = datetime.fromisoformat(info.updated_at or "")
    except ValueError:
        return -math.inf
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


class MemoryStore:
    """Sessions that end with the process. Of more than `limit`, the oldest are forgotten."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._infos: dict[str, v2.SessionInfo] = {}
        self._sessions: dict[str, Session] = {}

    def list(self) -> SessionInfos:
        return newest_first(self._infos.values())

    def info(self, session_id: str) -> v2.SessionInfo | None:
        return self._infos.get(session_id)

    def create(self, info: v2.SessionInfo) -> None:
        if info.session_id in self._infos:
            raise SessionExists(info.session_id)
        if len(self._infos) >= self._limit:
            oldest = next(iter(self._infos))
            _logger.warning(
                "More than %d sessions are kept in memory: %r is forgotten", self._limit, oldest
            )
            self.delete(oldest)
        self._infos[info.session_id] = info
        self._sessions[info.session_id] = Session(info.session_id, DRAFT)

    def describe(self, info: v2.SessionInfo) -> None:
        if info.session_id not in self._infos:
            raise UnknownSession(info.session_id)
        self._infos[info.session_id] = info

    def append(self, session_id: str, updates: Sequence[v2.SessionUpdate]) -> None:
        if session_id not in self._sessions:
            raise UnknownSession(session_id)
        session = self._sessions[session_id]
        for update in updates:
            try:
                session.apply(update)
            except PeerError as error:  # a log would pass over it, too
                _logger.warning("An update of session %r is passed over: %s", session_id, error)

    def adopt(self, session: Session) -> bool:
        known = session.session_id in self._sessions
        if known:
            self._sessions[session.session_id] = session
        return known

    def load(self, session_id: str) -> Session | None:
        if session_id not in self._sessions:
            return None
        session = Session(session_id, DRAFT)
        for update in snapshot(self._sessions[session_id]):
            session.apply(update)
        return session

    def delete(self, session_id: str) -> bool:
        self._sessions.pop(session_id, None)
        return self._infos.pop(session_id, None) is not None
