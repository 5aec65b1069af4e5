"""Exit statuses of `twofold run`: how the turn ended, told to scripts."""

from typing import Final

from twofold.errors import LocalError, TwofoldError
from twofold.runtime.client.turns import Reply
from twofold.runtime.errors import ConnectionEnded, NoAnswer

OK: Final = 0
FAILED: Final = 1
"""The agent answered with an error, or something it sent cannot be used."""
USAGE: Final = 2
REFUSED: Final = 3
LIMIT: Final = 4
"""`max_tokens` or `max_turn_requests`."""
CANCELLED: Final = 5
DENIED: Final = 6
"""The turn came to its end, but something that the agent asked for was not allowed."""
DIED: Final = 7
"""The agent ended, or could not be started."""
TIMEOUT: Final = 124

_STOPS = {
    "end_turn": OK,
    "refusal": REFUSED,
    "max_tokens": LIMIT,
    "max_turn_requests": LIMIT,
    "cancelled": CANCELLED,
}


def of_reply(reply: Reply, *, denied: bool) -> int:
    """How a turn ended."""
    status = _STOPS.get(reply.stop_reason, FAILED)
    return DENIED if status in (OK, CANCELLED) and denied else status


def of_error(error: TwofoldError) -> int:
    """What went wrong."""
    from twofold.runtime.process import CommandNotStarted

    if isinstance(error, ConnectionEnded | CommandNotStarted):
        return DIED
    if isinstance(error, NoAnswer):
        return TIMEOUT
    return USAGE if isinstance(error, LocalError) else FAILED
