"""The four things a JSON-RPC 2.0 message can be.

Nothing here raises for what a peer sent: `read_message` returns None for anything else.
"""

from typing import Any, TypeAlias

from msgspec import UNSET, Struct

RequestId: TypeAlias = int | str


class Request(Struct):
    """A message that wants an answer."""

    id: RequestId
    method: str
    params: Any = UNSET
    batch: Any = UNSET
    """The `Gathering` of its batch, which collects its answer; unset outside of a batch."""


class Notification(Struct):
    """A message that gets no answer."""

    method: str
    params: Any = UNSET


class Response(Struct):
    """The answer to a request."""

    id: RequestId | None
    result: Any


class Failure(Struct):
    """The answer to a request that failed."""

    id: RequestId | None
    error: Any


Message: TypeAlias = Request | Notification | Response | Failure


def read_message(value: Any) -> Message | None:
    """The message that parsed JSON is; None if it is not JSON-RPC."""
    if not isinstance(value, dict):
        return None
    identity: Any = value.get("id")
    method = value.get("method")
    if isinstance(method, str):
        params = value.get("params", UNSET)
        if "id" not in value:
            return Notification(method, params)
        return Request(identity, method, params) if _is_id(identity) else None
    if not _is_id(identity) and ("id" not in value or identity is not None):
        return None
    if "result" in value:
        return Response(identity, value["result"])
    if "error" in value:
        return Failure(identity, value["error"])
    return None


def write_message(message: Message) -> dict[str, Any]:
    """A message as JSON-RPC 2.0 writes it."""
    value: dict[str, Any] = {"jsonrpc": "2.0"}
    for name in message.__struct_fields__:
        field = getattr(message, name)
        if field is not UNSET:
            value[name] = field
    return value


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)
