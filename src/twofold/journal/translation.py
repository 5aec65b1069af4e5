"""Recorded messages in the names of the client that they are played to.

A session id, the directory of the session, the terminals of a version 1 client and the ids of a
turn that is played again. A message in which nothing is to be changed keeps its bytes, and so does
every member of a message that none of this concerns.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from twofold.rpc.connection import RequestId
from twofold.wire import codec

_PATHS: Final = frozenset({"path", "oldPath", "newPath", "cwd", "uri"})
_IDS: Final = frozenset({"toolCallId", "messageId", "terminalId"})
_OPAQUE: Final = frozenset({"_meta", "rawInput", "rawOutput"})
"""Fields that no part of the protocol gives a meaning to."""
_HEADER: Final = re.compile(
    r"^(?:diff --git |--- |\+\+\+ |(?:rename|copy) (?:from|to) ).*$", re.MULTILINE
)

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Names(Struct):
    """What has another name than in the recording."""

    session: tuple[str, str] | None = None
    """The recorded id of the session, and the one that the client has."""
    directory: tuple[str, str] | None = None
    """The recorded directory, and the client's."""
    terminals: dict[str, str] = field(default_factory=dict)
    """The client's terminals by their recorded ids."""
    missing: set[str] = field(default_factory=set)
    """Terminals of the recording that the client did not create."""
    again: int = 0
    """How often the turns were played before: their ids get this number."""

    @property
    def change_nothing(self) -> bool:
        """Whether every message can be sent as it was recorded."""
        terminals = any(one != other for one, other in self.terminals.items())
        return not (self.session or self.directory or terminals or self.missing or self.again)

    def translate(self, value: Any) -> Any:
        """Parsed JSON with the client's names."""
        if isinstance(value, list):
            return [self.translate(each) for each in value if not self._is_missing(each)]
        if not isinstance(value, dict):
            return value
        made = {name: self._member(name, each) for name, each in value.items()}
        if self.directory and isinstance(made.get("patch"), dict):
            made["patch"] = self._patch(made["patch"])
        return made

    def _is_missing(self, value: Any) -> bool:
        is_terminal = isinstance(value, dict) and value.get("type") == "terminal"
        return bool(self.missing) and is_terminal and value.get("terminalId") in self.missing

    def _member(self, name: str, value: Any) -> Any:
        if name in _OPAQUE:
            return value
        if not isinstance(value, str):
            return self.translate(value)
        if name == "sessionId" and self.session and value == self.session[0]:
            return self.session[1]
        if name == "terminalId" and value in self.terminals:
            return self.terminals[value]
        if name in _IDS and self.again:
            return f"{value}~{self.again + 1}"
        if name in _PATHS and self.directory:
            return self._path(value)
        return value

    def _path(self, path: str) -> str:
        assert self.directory is not None
        scheme = "file://" if path.startswith("file://") else ""
        bare, (old, new) = path[len(scheme) :], self.directory
        if bare == old or bare.startswith(f"{old.rstrip('/')}/"):
            return f"{scheme}{new.rstrip('/')}{bare[len(old.rstrip('/')) :]}" or "/"
        return path

    def _patch(self, patch: dict[str, Any]) -> dict[str, Any]:
        assert self.directory is not None
        old, new = (f" {each.rstrip('/')}/" for each in self.directory)

        def renamed(match: re.Match[str]) -> str:
            return match[0].replace(old, new)

        texts = {name: each for name, each in patch.items() if isinstance(each, str)}
        heads = {name: _HEADER.sub(renamed, each) for name, each in texts.items()}
        return {**patch, **heads}


def written(raw: bytes, names: Names, identity: RequestId | None = None) -> bytes:
    """A recorded message in the client's names.

    Args:
        raw: The message as it was recorded.
        names: The client's names.
        identity: The id that a request or an answer gets; None for the recorded one.
    """
    if identity is None and names.change_nothing:
        return raw
    try:
        members = _members(raw)
    except (msgspec.DecodeError, UnicodeError):  # a lone surrogate
        value = codec.parse(raw)
        value = {**value, "id": identity} if identity is not None else value
        return codec.encode(names.translate(value))
    changed = False
    if identity is not None and (encoded := codec.encode(identity)) != bytes(members["id"]):
        members["id"], changed = Raw(encoded), True
    if not names.change_nothing:
        for name in ("params", "result"):
            if name in members:
                before = codec.parse(bytes(members[name]))
                after = names.translate(before)
                if after != before:
                    members[name], changed = Raw(codec.encode(after)), True
    if not changed:
        return raw
    parts = [codec.encode(name) + b":" + bytes(each) for name, each in members.items()]
    return b"{" + b",".join(parts) + b"}"
