"""Which request an answer is for, in a recording of both sides.

Each side numbers its own requests, so the ids of the two may collide. An answer is matched by who
sent it; where the recording does not have that, by the fields of the result.
"""

from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from twofold.rpc.messages import Failure, Request, Response
from twofold.rpc.pending import Pending
from twofold.wire import v1, v2

T = TypeVar("T")
Handler: TypeAlias = Literal["agent", "client"]
"""The side that handles a request, or sent an answer."""

OTHER: Final[dict[Handler | None, Handler]] = {"agent": "client", "client": "agent"}
"""Whom a side sends its requests to."""

# methods of these families that neither version has are the client's
_CLIENT_FAMILIES = ("fs/", "terminal/", "elicitation/")
_CLIENT_RESULTS = frozenset({"outcome", "action", "terminalId", "output", "exitCode", "content"})


def handler_of(method: str) -> Handler:
    """The side that handles a method; the agent for methods that are not known."""
    known = v1.METHODS.get(method) or v2.METHODS.get(method)
    if known is None:
        return "client" if method.startswith(_CLIENT_FAMILIES) else "agent"
    return "client" if known.side == "client" else "agent"


class RecordedRequests(Generic[T]):
    """The requests of both sides that have no answer yet; `T` is what is remembered of one."""

    def __init__(self) -> None:
        self._pending: dict[Handler, Pending[T]] = {"agent": Pending(), "client": Pending()}

    def add(self, request: Request, remembered: T, sender: Handler | None = None) -> None:
        """A request was sent; `sender` is the side that sent it, where that is known."""
        self._pending[OTHER.get(sender) or handler_of(request.method)].add(request.id, remembered)

    def take(self, answer: Response | Failure, sender: Handler | None = None) -> T | None:
        """What was remembered of the request that `answer` is for; None if there is none."""
        for side in [sender] if sender else _likely(answer):
            remembered = self._pending[side].take(answer.id)
            if remembered is not None:
                return remembered
        return None


def _likely(answer: Response | Failure) -> list[Handler]:
    result: Any = answer.result if isinstance(answer, Response) else None
    if isinstance(result, dict) and result.keys() & _CLIENT_RESULTS:
        return ["client", "agent"]
    return ["agent", "client"]
