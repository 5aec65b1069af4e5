"""Exit statuses of `twofold run` and `twofold sessions`: how it ended, told to scripts."""

from typing import Final

from twofold.client.prompting import Reply
from twofold.errors import ConnectionEnded, LocalError, NoAnswer, NotSupported
from twofold.transport.commands import CommandNotStarted

OK: Final = 0
FAILED: Final = 1
"""The agent answered with an error, cannot do what was asked, or sent what cannot be used."""
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
    """How a turn ended; some agents end one as cancelled when something was not allowed."""
    status = _STOPS.get(reply.stop_reason, FAILED)
    return DENIED if status in (OK, CANCELLED) and denied else status


def of_error(error: Exception) -> int:
    """What went wrong."""
    if isinstance(error, ConnectionEnded | CommandNotStarted):
        return DIED
    if isinstance(error, NoAnswer):
        return TIMEOUT
    if isinstance(error, NotSupported):  # another agent could: nothing is wrong with the command
        return FAILED
    return USAGE if isinstance(error, LocalError) else FAILED
