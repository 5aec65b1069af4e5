"""Requests that wait for an answer, where both sides number their own.

In a recording the two sides' ids meet: an answer is matched by who gave it, and where that is not
known by what it says.
"""

from typing import Any, Generic, Literal, TypeAlias, TypeVar

from twofold.rpc.messages import Failure, Request, RequestId, Response

T = TypeVar("T")
Handler: TypeAlias = Literal["agent", "client"]

_CLIENT_METHODS = (
    "session/request_permission",
    "session/update",
    "fs/",
    "terminal/",
    "elicitation/",
)
_CLIENT_RESULTS = frozenset({"outcome", "action", "terminalId", "output", "exitCode", "content"})


def handler_of(method: str) -> Handler:
    """Which side handles a method, as far as its name tells."""
    client = method.startswith(_CLIENT_METHODS) and method != "terminal/cancel"
    return "client" if client else "agent"


class Pending(Generic[T]):
    """What was asked, by who must answer and under which id."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Handler, RequestId], T] = {}

    def ask(self, request: Request, asked: T, handler: Handler | None = None) -> None:
        """A request was sent; `handler` is who it was sent to, where that is known."""
        self._waiting[handler or handler_of(request.method), request.id] = asked

    def answer(self, answer: Response | Failure, handler: Handler | None = None) -> T | None:
        """What `answer` answers; None if nobody asked."""
        if answer.id is None:
            return None
        for side in [handler] if handler else _likely(answer):
            asked = self._waiting.pop((side, answer.id), None)
            if asked is not None:
                return asked
        return None


def _likely(answer: Response | Failure) -> list[Handler]:
    result: Any = answer.result if isinstance(answer, Response) else None
    if isinstance(result, dict) and result.keys() & _CLIENT_RESULTS:
        return ["client", "agent"]
    return ["agent", "client"]
