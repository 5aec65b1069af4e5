"""What a conversion could not carry, and why.

Best effort (the default) carries on and lists every loss; strict refuses at the first. Some things
must not be converted at all, whatever the mode: dropping them would be silent.
"""

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from twofold.errors import TwofoldError
from twofold.wire.base import UNSET, Extras, Wire


class Loss(Struct, frozen=True):
    """Something that the other version cannot express."""

    path: str
    """Where in the message, e.g. `update.status`."""
    reason: str
    """What was lost and why, in one line."""


class NotConvertible(TwofoldError):
    """The other version cannot express this, and leaving it out would change the session.

    Attributes:
        path: Where in the message, e.g. `update.status`; empty for the message as a whole.
        reason: What cannot be converted, and why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Losses(list[Loss]):
    """The list of what a conversion lost.

    Args:
        strict: Raise `NotConvertible` at the first loss, instead of adding it to the list.
    """

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__()
        self.strict = strict

    def report(self, path: str, reason: str) -> None:
        """Add something that was left out or changed.

        Raises:
            NotConvertible: The list is strict.
        """
        if self.strict:
            raise NotConvertible(path, reason)
        self.append(Loss(path, reason))

    def note(self, path: str, reason: str) -> None:
        """Add something that was left out beside an error; a refusal would hide the error."""
        self.append(Loss(path, reason))

    def refuse(self, path: str, reason: str) -> NotConvertible:
        """Return the error for something that must not be converted: `raise losses.refuse(…)`."""
        return NotConvertible(path, reason)


# What travels beside the fields: `_meta`, and fields that neither version has.


W = TypeVar("W", bound=Wire)


def carried(source: Wire, target: type[Wire], losses: Losses, path: str) -> dict[str, Any]:
    """The `meta` and `unknown` of `source`, as arguments for a struct of the other version.

    A null `_meta` means the same as none wherever metadata is not patched, so it is left out. A
    field that only the other version has would be taken for the real one there: it is lost.
    """
    if source.meta is UNSET and source.unknown is UNSET:
        return {}
    values: dict[str, Any] = {"meta": UNSET if source.meta is None else source.meta}
    if isinstance(source.unknown, Extras):
        kept = dict(source.unknown.fields)
        for name in _names(target) & kept.keys():
            del kept[name]
            losses.report(
                f"{path}.{name}".lstrip("."), "this field means something else in the other version"
            )
        if kept:
            values["unknown"] = Extras(kept)
    return values


@cache
def _names(shape: type[Wire]) -> frozenset[str]:
    tag = shape.__struct_config__.tag_field
    names = {info.encode_name for info in fields(shape) if info.name != "unknown"}  # that is ours
    return frozenset(names | ({tag} if tag else set()))


def recast(source: Wire, shape: type[W], losses: Losses, path: str = "", **changed: Any) -> W:
    """`source` as a `shape` of the other version: what has the same name there is the same."""
    same = set(source.__struct_fields__) & set(shape.__struct_fields__) - {"meta", "unknown"}
    values = {name: getattr(source, name) for name in same} | changed
    return shape(**values, **carried(source, shape, losses, path))
