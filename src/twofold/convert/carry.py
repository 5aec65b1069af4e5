"""What travels beside the fields: `_meta`, and fields that neither version has."""

from functools import cache
from typing import Any, TypeVar

from msgspec.structs import fields

from twofold.convert.losses import Losses
from twofold.wire.base import UNSET, Extras, Wire

W = TypeVar("W", bound=Wire)


def carried(source: Wire, target: type[Wire], losses: Losses, path: str) -> dict[str, Any]:
    """The `meta` and `unknown` of `source`, as arguments for a struct of the other version.

    A null `_meta` means the same as none wherever metadata is not patched, so it is left out. A
    field that only the other version knows would be taken for the real one there: it is lost.
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
