"""Sessions made of given updates."""

from collections.abc import Iterable
from typing import Any

from twofold import Draft, Session, v2
from twofold.wire import codec

Json = dict[str, Any]


def fold(updates: Iterable[v2.SessionUpdate], draft: Draft = Draft.JUNE) -> Session:
    session = Session("s", draft)
    for update in updates:
        session.apply(update)
    return session


def session_of(*updates: Json, draft: Draft = Draft.JUNE) -> Session:
    """The session after these updates of version 2, which may have malformed fields."""
    return fold((codec.read(update, v2.SessionUpdate) for update in updates), draft)
