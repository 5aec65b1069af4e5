"""Which version of the protocol a peer speaks.

A peer speaks the version of the shapes that it sends, whatever number it claims: some agents of
version 1 answer any `protocolVersion` that they are asked for. `initialize` and its answer decide;
a stream without them is recognised by its updates and methods.
"""

from typing import Any, Final, Literal, TypeAlias

from twofold.wire import v1, v2
from twofold.wire.guide import looks_like_guide

Version: TypeAlias = Literal[1, 2]
"""A version of the protocol that Twofold speaks."""
Dialect: TypeAlias = Literal["1", "2", "guide"]
"""A version, or the shapes of the client guide, which are of neither."""
Dialects: TypeAlias = frozenset[Dialect]

CLIENT_FIELDS_OF_V1: Final = ("clientInfo", "clientCapabilities")
"""The fields of an `initialize` request that only version 1 has."""
AGENT_FIELDS_OF_V1: Final = ("agentInfo", "agentCapabilities")
"""The fields of the answer to `initialize` that only version 1 has."""

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


# ---- initialize ------------------------------------------------------------------------------


def other_version(version: Version) -> Version:
    """The version to try next with a peer that refuses `version`."""
    return 2 if version == 1 else 1


def claimed_version(message: Any) -> int | None:
    """The `protocolVersion` of an `initialize` request or its answer; None if it is no integer."""
    version = message.get("protocolVersion") if isinstance(message, dict) else None
    return version if isinstance(version, int) and not isinstance(version, bool) else None


def version_of_client(params: Any) -> Version:
    """The version in which the sender of an `initialize` request is answered.

    A client that shows neither version is taken at its word; versions that do not exist yet are
    answered with the newest one.
    """
    if dialect_of_client(params) == "1":
        return 1
    return 2 if (claimed_version(params) or 0) >= 2 else 1


def version_of_agent(result: Any) -> Version | None:
    """The version of an agent by its answer to `initialize`; None if the answer shows none."""
    dialect = dialect_of_agent(result)
    if dialect != "1":
        return 2 if dialect == "2" else None
    shown = claimed_version(result) is not None or _has(result, AGENT_FIELDS_OF_V1)
    return 1 if shown else None


def dialect_of_client(params: Any) -> Dialect | None:
    """The dialect that the fields of an `initialize` request show; None if they show none.

    A client that sends the fields of both versions speaks the one that it asks for.
    """
    if not isinstance(params, dict):
        return None
    first = _has(params, CLIENT_FIELDS_OF_V1)
    second = "info" in params or "capabilities" in params
    version = claimed_version(params)
    if first and second and version is not None:
        return "2" if version >= 2 else "1"
    if first or second:
        return "1" if first else "2"
    return "1" if version in (0, 1) else None


def dialect_of_agent(result: Any) -> Dialect | None:
    """The dialect that the answer to `initialize` shows, whatever it claims; None for none.

    Every draft of version 2 requires `info`, with a name and a version: without it an answer is
    not of version 2. Agents of version 1 that repeat any number are recognised by that.
    """
    if not isinstance(result, dict):
        return None
    named = _is_implementation(result.get("info"))
    if "protocolVersion" in result:
        version = claimed_version(result)  # what is no integer is older than version 1
        return "2" if version is not None and version >= 2 and named else "1"
    if _has(result, AGENT_FIELDS_OF_V1):
        return "1"
    return "2" if named else None


def _has(message: dict[str, Any], names: tuple[str, ...]) -> bool:
    return any(name in message for name in names)


def _is_implementation(info: Any) -> bool:
    return isinstance(info, dict) and all(
        isinstance(info.get(name), str) for name in ("name", "version")
    )


# ---- a stream of messages --------------------------------------------------------------------


class Detector:
    """Finds the dialect of a stream: every message that fits fewer dialects narrows it.

    A message that contradicts those before it is read as what it is, and narrows nothing. Only the
    answer to `initialize` replaces what was found before it.
    """

    def __init__(self, fixed: Dialect | None = None) -> None:
        self._fixed = fixed
        self.possible: Dialects = frozenset({fixed}) if fixed else _ANY
        """The dialects in which everything so far makes sense."""

    def initializing(self, params: Any) -> None:
        """Narrow by an `initialize` request, until the agent answers it."""
        guess = dialect_of_client(params)
        if guess is not None:
            self._narrow(frozenset({guess}))

    def initialized(self, result: Any) -> None:
        """Decide by the answer to `initialize`."""
        dialect = dialect_of_agent(result)
        if self._fixed is None and dialect is not None:
            self.possible = frozenset({dialect})

    def look(self, update: dict[str, Any]) -> None:
        """Narrow by an update."""
        self._narrow(dialects_of(update))

    def requested(self, method: str) -> None:
        """Narrow by the method of a request or a notification."""
        self._narrow(_dialects_of_method(method))

    def _narrow(self, possible: Dialects) -> None:
        self.possible = self.possible & possible or self.possible

    def dialect(self, update: dict[str, Any], otherwise: Dialect = "2") -> Dialect:
        """The dialect to read `update` in; `otherwise` if it fits several."""
        if self._fixed is not None:
            return self._fixed
        self.look(update)
        possible = dialects_of(update)
        return _chosen(possible & self.possible or possible, otherwise)

    def of_requests(self, otherwise: Dialect = "2") -> Dialect:
        """The version to read requests and results in; the guide takes its own from version 1."""
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
