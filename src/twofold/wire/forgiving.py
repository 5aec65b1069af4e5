"""Parsed JSON → structs, forgivingly: one reader per type, made once.

Unknown fields and variants are kept, a malformed optional field counts as omitted, a malformed
item of a lenient list is skipped (each noted as a `Fault`), a shape that no tag tells apart is
tried where the first does not fit. What is left is `Malformed`, and nothing else is ever raised.
"""

import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, UnsetType

from twofold.wire.base import (
    LENIENT,
    NULL_IS_DEFAULT,
    SKIP_INVALID,
    STRICT,
    Extras,
    Fault,
    Malformed,
    Unknown,
    Wire,
    alternates,
)

SKIPPED = 1000
"""How many malformed items of one list are skipped; a list with more is malformed itself."""

Reader: TypeAlias = Callable[[Any, str, list[Fault]], Any]


@cache
def reader(shape: Any) -> Reader:
    """How to read parsed JSON as `shape`: call it with the value, its path and a list of faults."""
    origin = get_origin(shape)
    if origin is Annotated:
        inner, *marks = get_args(shape)
        if get_origin(inner) is list:
            return _list_reader(get_args(inner)[0], skip_invalid=SKIP_INVALID in marks)
        return reader(inner) if _is_composite(inner) else _leaf_reader(shape)
    if origin is list:
        return _list_reader(get_args(shape)[0], skip_invalid=False)
    if origin is dict:
        return _dict_reader(get_args(shape)[1])
    if origin in (Union, types.UnionType):
        return _union_reader(get_args(shape))
    if isinstance(shape, type) and issubclass(shape, Wire):
        return _variant_reader(shape)
    return _leaf_reader(shape)


def _is_composite(shape: Any) -> bool:
    return get_origin(shape) is not None or (isinstance(shape, type) and issubclass(shape, Struct))


def _leaf_reader(shape: Any) -> Reader:
    if shape is Any:
        return lambda value, path, faults: value
    integer = (get_args(shape)[0] if get_origin(shape) is Annotated else shape) is int

    def read_leaf(value: Any, path: str, faults: list[Fault]) -> Any:
        if integer and isinstance(value, float) and value.is_integer():
            value = int(value)  # 1.0 is an integer in JSON
        try:
            return msgspec.convert(value, shape)
        except (msgspec.ValidationError, UnicodeError) as error:
            raise Malformed(path, str(error)) from None

    return read_leaf


def _list_reader(item: Any, *, skip_invalid: bool) -> Reader:
    read_item = reader(item)

    def read_list(value: Any, path: str, faults: list[Fault]) -> Any:
        if not isinstance(value, list):
            raise Malformed(path, "Expected a list")
        items = []
        skipped = 0
        for index, each in enumerate(value):
            try:
                items.append(read_item(each, f"{path}[{index}]", faults))
            except Malformed as error:
                if not skip_invalid:
                    raise
                skipped += 1
                if skipped > SKIPPED:
                    raise Malformed(path, f"more than {SKIPPED} malformed items") from None
                faults.append(Fault(error.path, error.reason))
        return items

    return read_list


def _dict_reader(item: Any) -> Reader:
    read_item = reader(item)

    def read_dict(value: Any, path: str, faults: list[Fault]) -> Any:
        if not isinstance(value, dict):
            raise Malformed(path, "Expected an object")
        return {key: read_item(each, f"{path}.{key}", faults) for key, each in value.items()}

    return read_dict


def _union_reader(members: tuple[Any, ...]) -> Reader:
    null = type(None) in members
    members = tuple(m for m in members if m is not type(None) and m is not UnsetType)
    structs = [m for m in members if isinstance(m, type) and issubclass(m, Wire)]
    if len(structs) > 1:
        inner = _tagged_reader(structs)
    elif len(members) == 1:
        inner = reader(members[0])
    else:
        inner = _leaf_reader(Union[members])  # noqa: UP007  # scalars, known only here

    def read_union(value: Any, path: str, faults: list[Fault]) -> Any:
        return None if value is None and null else inner(value, path, faults)

    return read_union


def _tagged_reader(members: list[type[Wire]]) -> Reader:
    tag_field = str(members[0].__struct_config__.tag_field)
    variants = {m.__struct_config__.tag: _variant_reader(m) for m in members}
    unknown = next((m for m in members if issubclass(m, Unknown)), None)
    untagged = [
        _struct_reader(shape)
        for member in members
        for shape in alternates(member)
        if shape.__struct_config__.tag is None
    ]

    def read_tagged(value: Any, path: str, faults: list[Fault]) -> Any:
        if not isinstance(value, dict):
            raise Malformed(path, "Expected an object")
        tag = value.get(tag_field)
        if isinstance(tag, str):
            variant = variants.get(tag)
            if variant is not None and tag != "?":
                return variant(value, path, faults)
            if unknown is not None:
                return unknown(raw=Extras(value))
        elif tag_field not in value:
            for read_shape in untagged:
                own: list[Fault] = []
                try:
                    result = read_shape(value, path, own)
                except Malformed:
                    continue
                faults.extend(own)
                return result
        raise Malformed(f"{path}.{tag_field}", f"no variant {tag!r}" if tag else "missing")

    return read_tagged


def _variant_reader(shape: type[Wire]) -> Reader:
    first = _struct_reader(shape)
    # Where the tag is known, a shape without one is not meant.
    tagged = shape.__struct_config__.tag is not None
    others = [
        _struct_reader(other)
        for other in alternates(shape)
        if not tagged or other.__struct_config__.tag is not None
    ]
    if not others:
        return first

    def read_variant(value: Any, path: str, faults: list[Fault]) -> Any:
        own: list[Fault] = []
        try:
            result = first(value, path, own)
            failure = None
        except Malformed as error:
            failure = error
        if failure is None and not own:
            return result
        for other in others:
            theirs: list[Fault] = []
            try:
                alternative = other(value, path, theirs)
            except Malformed:
                continue
            if not theirs:
                return alternative
        if failure is not None:
            raise failure
        faults.extend(own)
        return result

    return read_variant


class _Field(Struct, frozen=True):
    name: str
    read: Reader
    lenient: bool
    required: bool
    null_is_default: bool


@cache
def _fields(shape: type[Wire]) -> dict[str, _Field]:
    hints = get_type_hints(shape, include_extras=True)
    fields = {}
    for info in msgspec.structs.fields(shape):
        if info.name == "unknown":
            continue  # a field of ours, not of the peer
        hint = hints[info.name]
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        fields[info.encode_name] = _Field(
            info.name,
            reader(hint),
            lenient=LENIENT in marks or (not info.required and STRICT not in marks),
            required=info.required,
            null_is_default=NULL_IS_DEFAULT in marks,
        )
    return fields


@cache
def _struct_reader(shape: type[Wire]) -> Reader:
    fields = _fields(shape)
    config = shape.__struct_config__
    required = [(key, field.name) for key, field in fields.items() if field.required]

    def read_struct(value: Any, path: str, faults: list[Fault]) -> Any:
        if not isinstance(value, dict):
            raise Malformed(path, "Expected an object")
        known: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                if config.tag is None or key != config.tag_field:
                    rest[key] = item
                elif item != config.tag:
                    raise Malformed(f"{path}.{key}", f"Expected {config.tag!r}")
            else:
                read_field(field, known, item, f"{path}.{key}", faults)
        for key, name in required:
            if name not in known:
                raise Malformed(path, f"Object missing required field `{key}`")
        if rest:
            known["unknown"] = Extras(rest)
        try:
            return shape(**known)
        except ValueError as error:  # a __post_init__ that objects
            raise Malformed(path, str(error)) from None

    def read_field(
        field: _Field, known: dict[str, Any], item: Any, path: str, faults: list[Fault]
    ) -> None:
        if item is None and field.null_is_default:
            if field.required:
                known[field.name] = []
            return
        try:
            known[field.name] = field.read(item, path, faults)
        except Malformed as error:
            if not field.lenient:
                raise
            faults.append(Fault(error.path, error.reason))
            if field.required:
                known[field.name] = []

    return read_struct
