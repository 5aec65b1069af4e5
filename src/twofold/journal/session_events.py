"""The inputs of a session as events of a journal: a kind and a body in JSON, and back.

Pure. Reading what was written gives the same input; any other body is `Malformed`,
which is the fault of the journal and not of the agent.
"""

from typing import Any, Final

from twofold.session import Draft
from twofold.session.inputs import (
    Applied,
    Asked,
    Cancelled,
    DraftKnown,
    Input,
    Prompted,
    Replayed,
    Settled,
    StartedOver,
)
from twofold.wire import codec, v2
from twofold.wire.base import Malformed

UPDATE: Final = "update"
OPENING: Final = "opening"
OPENED: Final = "opened"
"""Before and after what was done to a session that takes the place of the one before."""
_BARE: Final[dict[str, Input]] = {
    "prompted": Prompted(),
    "cancelled": Cancelled(),
    "replayed": Replayed(),
    "started_over": StartedOver(),
}
_KINDS: Final = {type(given): kind for kind, given in _BARE.items()}
KINDS: Final = frozenset({UPDATE, "asked", "settled", "draft", *_BARE})
"""The kinds of events that are inputs of the session; a journal has others beside them."""


def write_input(given: Input) -> tuple[str, bytes]:
    """An input as an event: its kind and its body."""
    match given:
        case Applied(update):
            return UPDATE, codec.encode(update)
        case Asked(request_id, request):
            return "asked", codec.encode({"id": request_id, "request": request})
        case Settled(request_id, outcome):
            return "settled", codec.encode({"id": request_id, "outcome": outcome})
        case DraftKnown(draft):
            return "draft", codec.encode({"draft": str(draft)})
    return _KINDS[type(given)], b"{}"


def read_input(kind: str, body: bytes) -> Input:
    """The input that an event is.

    Args:
        kind: One of `KINDS`.
        body: Its body.

    Raises:
        Malformed: The body is not what was written for this kind.
    """
    if kind == UPDATE:
        return Applied(v2.decode_update(body))
    if kind in _BARE:
        return _BARE[kind]
    value = codec.parse(body)
    try:
        return _read(kind, value)
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed("", f"no event of kind {kind!r}: {error}") from None


def _read(kind: str, value: Any) -> Input:
    match kind:
        case "asked":
            request = codec.read(value["request"], v2.RequestPermissionRequest)
            return Asked(_request_id(value["id"]), request)
        case "settled":
            outcome = value["outcome"]
            if outcome is not None:
                outcome = codec.read({"outcome": outcome}, v2.RequestPermissionResponse).outcome
            return Settled(_request_id(value["id"]), outcome)
        case "draft":
            return DraftKnown(Draft(value["draft"]))
    raise ValueError("it is unknown")


def _request_id(value: Any) -> int | str:
    if not isinstance(value, int | str):
        raise TypeError("a request has no such id")
    return value
