"""Which version a peer speaks, told from what it says.

Agents that answer `protocolVersion: 2` in the shapes of version 1 speak version 1; a stream
without an `initialize` gives itself away by its updates.
"""

from typing import Any, Literal, TypeAlias

from twofold.wire import v1, v2
from twofold.wire.guide import looks_like_guide

Dialect: TypeAlias = Literal["1", "2", "guide"]
Dialects: TypeAlias = frozenset[Dialect]

_V1: Dialects = frozenset({"1"})
_V2: Dialects = frozenset({"2"})
_GUIDE: Dialects = frozenset({"guide"})
_V1_OR_GUIDE: Dialects = frozenset({"1", "guide"})
_ANY: Dialects = frozenset({"1", "2", "guide"})

_BY_KIND: dict[str, Dialects] = {
    "tool_call": _V1_OR_GUIDE,
    "plan": _V1_OR_GUIDE,
    "current_mode_update": _V1_OR_GUIDE,
    "user_message": _V2,
    "agent_message": _V2,
    "agent_thought": _V2,
    "state_update": _V2,
    "tool_call_content_chunk": _V2,
    "terminal_update": _V2,
    "terminal_output_chunk": _V2,
}
_CHUNKS = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})


def dialects_of(update: dict[str, Any]) -> Dialects:
    """The dialects in which `update` makes sense."""
    if looks_like_guide(update):
        return _GUIDE
    kind = str(update.get("sessionUpdate"))
    if kind in _CHUNKS:
        return frozenset({"1", "2"}) if isinstance(update.get("messageId"), str) else _V1
    if kind == "config_option_update":
        return _by_option(update.get("configOptions"))
    if kind == "tool_call_update":
        return _by_content(update)
    return _BY_KIND.get(kind, _ANY)


def _by_option(options: Any) -> Dialects:
    if isinstance(options, list) and options and isinstance(options[0], dict):
        return _V2 if "configId" in options[0] else _V1
    return _ANY


def _by_content(update: dict[str, Any]) -> Dialects:
    if "capabilities" in update or update.get("status") in ("cancelled", "paused"):
        return _V2
    content = update.get("content")
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict) and item.get("type") == "diff" and "changes" in item:
            return _V2
    return _ANY


def dialect_of_request(params: Any) -> Dialect | None:
    """What an `initialize` request shows of the client, whatever version it asks for.

    A client that shows the fields of both versions speaks the one that it asks for.
    """
    if not isinstance(params, dict):
        return None
    first = "clientInfo" in params or "clientCapabilities" in params
    second = "info" in params or "capabilities" in params
    version = _integer(params.get("protocolVersion"))
    if first and second and version is not None:
        return "2" if version >= 2 else "1"
    if first or second:
        return "1" if first else "2"
    return "1" if version in (0, 1) else None


def dialect_of_initialize(result: Any) -> Dialect | None:
    """What the answer to `initialize` shows, whatever version it claims; None for nothing.

    Every draft of version 2 requires `info`, with a name and a version: without it an answer is
    not of version 2. Agents of version 1 that repeat any number are recognised by that.
    """
    if not isinstance(result, dict):
        return None
    named = _is_implementation(result.get("info"))
    if "protocolVersion" in result:
        version = _integer(result["protocolVersion"])  # what is no number is older than version 1
        return "2" if version is not None and version >= 2 and named else "1"
    if "agentInfo" in result or "agentCapabilities" in result:
        return "1"
    return "2" if named else None


def _integer(version: Any) -> int | None:
    return version if isinstance(version, int) and not isinstance(version, bool) else None


def _is_implementation(info: Any) -> bool:
    return isinstance(info, dict) and all(
        isinstance(info.get(name), str) for name in ("name", "version")
    )


class Detector:
    """What is known of the dialect of a stream: every line that tells more narrows it.

    A line that contradicts what is known is read as what it is, and changes nothing. Only the
    answer to `initialize` is believed more than the lines before it.
    """

    def __init__(self, fixed: Dialect | None = None) -> None:
        self._fixed = fixed
        self.possible: Dialects = frozenset({fixed}) if fixed else _ANY
        """The dialects in which everything so far makes sense."""

    def initializing(self, params: Any) -> None:
        """The client sent `initialize`: the best guess until the agent answers."""
        guess = dialect_of_request(params)
        if guess is not None:
            self._narrow(frozenset({guess}))

    def initialized(self, result: Any) -> None:
        """The agent answered `initialize`."""
        dialect = dialect_of_initialize(result)
        if self._fixed is None and dialect is not None:
            self.possible = frozenset({dialect})

    def look(self, update: dict[str, Any]) -> None:
        """Learn from an update."""
        self._narrow(dialects_of(update))

    def requested(self, method: str) -> None:
        """Learn from a request or a notification that not every version has."""
        self._narrow(_dialects_of_method(method))

    def _narrow(self, possible: Dialects) -> None:
        self.possible = self.possible & possible or self.possible

    def dialect(self, update: dict[str, Any], otherwise: Dialect = "2") -> Dialect:
        """How to read `update`; `otherwise` if it may be of several dialects."""
        if self._fixed is not None:
            return self._fixed
        self.look(update)
        possible = dialects_of(update)
        return _chosen(possible & self.possible or possible, otherwise)

    def of_requests(self, otherwise: Dialect = "2") -> Dialect:
        """How to read requests and results, which the guide takes from version 1."""
        dialect = _chosen(self.possible, otherwise)
        return "1" if dialect == "guide" else dialect


def _dialects_of_method(method: str) -> Dialects:
    known = (method in v1.METHODS, method in v2.METHODS)
    if known == (True, False):
        return _V1_OR_GUIDE
    return _V2 if known == (False, True) else _ANY


def _chosen(possible: Dialects, otherwise: Dialect) -> Dialect:
    if otherwise in possible:
        return otherwise
    return "1" if "1" in possible else next(iter(possible))
