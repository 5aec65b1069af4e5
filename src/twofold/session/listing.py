"""The order of a list of sessions: the last updated first."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from twofold.wire import v2

SessionInfos: TypeAlias = list[v2.SessionInfo]


def newest_first(infos: Iterable[v2.SessionInfo]) -> SessionInfos:
    """The last updated first, those of the same time by their ids."""
    return sorted(infos, key=age, reverse=True)


def age(info: v2.SessionInfo) -> tuple[float, str]:
    """The key that sessions are sorted by, different for each session."""
    return _updated(info), info.session_id


def _updated(info: v2.SessionInfo) -> float:
    """The time of the last update, for sorting: no time, or none in ISO 8601, is the oldest."""
    try:
        time = datetime.fromisoformat(info.updated_at or "")
    except ValueError:
        return -math.inf
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
