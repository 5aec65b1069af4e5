"""JSON-RPC errors: the codes, what a handler raises, and what the sender of a request gets.

`RequestError` is raised on purpose by the handler of a request, and its text is sent to the peer.
`RequestFailed` is what the peer answered. Any other exception of a handler becomes
`INTERNAL_ERROR`, and neither its text nor its traceback leaves this program.
"""

from typing import Any

from msgspec import UNSET

from twofold.errors import PeerError, TwofoldError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
NOT_ALLOWED = -32001
"""The code of a refusal by a person or a rule; the protocol has none for it."""
REQUEST_CANCELLED = -32800

_CAUSES = ("details", "reason", "message", "error", "cause")
_DEEP = 4  # an error may wrap another
_SHOWN = 2000


class RequestError(TwofoldError):
    """Raised by a handler to refuse a request; the peer gets it as a JSON-RPC error.

    Args:
        code: The JSON-RPC error code.
        message: One line for people.
        data: Any JSON with details; left out by default.
    """

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @classmethod
    def method_not_found(cls, method: str) -> "RequestError":
        """The error for a method that the program does not have."""
        return cls(METHOD_NOT_FOUND, "Method not found", {"method": method})

    @classmethod
    def invalid_params(cls, reason: str) -> "RequestError":
        """The error for params that cannot be used; `reason` is sent to the peer."""
        return cls(INVALID_PARAMS, "Invalid params", {"reason": reason})

    @classmethod
    def too_many(cls, what: str, limit: int, advice: str) -> "RequestError":
        """The peer filled something that has a bound; `advice` is what it can do."""
        reason = f"the limit is {limit}: {advice}"
        return cls(INVALID_REQUEST, f"Too many {what}", {"reason": reason, "limit": limit})

    @classmethod
    def not_allowed(cls, reason: str = "") -> "RequestError":
        """A person or a rule does not allow it; `reason` may name who decided."""
        data = {"reason": reason} if reason else UNSET
        return cls(NOT_ALLOWED, "The client does not allow it", data)

    @classmethod
    def cancelled(cls) -> "RequestError":
        """The error for a request that its sender cancelled."""
        return cls(REQUEST_CANCELLED, "Request cancelled")


class RequestFailed(PeerError):
    """The peer answered a request with an error.

    Attributes:
        method: The method of the request.
        code: The JSON-RPC error code.
        message: The message of the peer.
        data: Any JSON with details; `UNSET` if the peer sent none.
    """

    def __init__(self, method: str, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(f"{method} failed: {message} ({code}){_details(data)}")
        self.method = method
        self.code = code
        self.message = message
        self.data = data


def _details(data: Any) -> str:
    """The cause in the data of an error, for agents that put it there."""
    cause = _cause(data)
    if cause:
        return f": {cause[:_SHOWN]}"
    # a bridge puts the end of the standard error of an agent that died there
    lines = data.get("stderr") if isinstance(data, dict) else None
    if not isinstance(lines, str) or not lines:
        return ""
    indented = "\n".join(f"  {line}" for line in lines[-_SHOWN:].split("\n"))
    return f". The end of its standard error:\n{indented}"


def _cause(data: Any) -> str:
    for _ in range(_DEEP):
        if isinstance(data, str):
            return data
        if not isinstance(data, dict):
            break
        data = next((data[key] for key in _CAUSES if data.get(key)), None)
    return ""
