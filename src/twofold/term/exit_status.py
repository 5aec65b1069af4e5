"""Exit statuses of `twofold run` and `twofold sessions`."""

from typing import Final

from twofold.client.prompting import Reply
from twofold.errors import ConnectionEnded, LocalError, NoAnswer, NotSupported
from twofold.transport.commands import CommandNotStarted
from twofold.transport.endpoint import NotReached

OK: Final = 0
FAILED: Final = 1
"""The agent returned an error, does not support the request, or sent an invalid answer."""
USAGE: Final = 2
REFUSED: Final = 3
LIMIT: Final = 4
"""`max_tokens` or `max_turn_requests`."""
CANCELLED: Final = 5
DENIED: Final = 6
"""The turn ended normally, but a permission was denied."""
DIED: Final = 7
"""The agent ended, or could not be started or reached."""
TIMEOUT: Final = 124

_STOPS = {
    "end_turn": OK,
    "refusal": REFUSED,
    "max_tokens": LIMIT,
    "max_turn_requests": LIMIT,
    "cancelled": CANCELLED,
}


def of_reply(reply: Reply, *, denied: bool) -> int:
    """The status for a turn; some agents end a turn as cancelled when a permission was denied."""
    status = _STOPS.get(reply.stop_reason, FAILED)
    return DENIED if status in (OK, CANCELLED) and denied else status


def of_error(error: Exception) -> int:
    """The status for an error."""
    if isinstance(error, ConnectionEnded | CommandNotStarted | NotReached):
        return DIED
    if isinstance(error, NoAnswer):
        return TIMEOUT
    if isinstance(error, NotSupported):  # another agent may support it: the command was right
        return FAILED
    return USAGE if isinstance(error, LocalError) else FAILED
