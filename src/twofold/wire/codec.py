"""JSON ↔ structs: strictly first, then forgivingly.

msgspec reads a message that fits the structs in one pass. One that does not is read again, field
by field: unknown fields and variants are kept, a malformed optional field counts as omitted, a
malformed item of a lenient list is skipped (each reported as a `Fault`), an earlier draft's shape
is recognised. Anything else is the peer's mistake: `Malformed` is raised, and no other exception.

Encoding is msgspec's too, unless a struct carries unknown fields or variants.
"""

import base64
import json
import types
from collections.abc import Callable
from functools import cache
from math import isinf
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, Struct, UnsetType

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

# ---- parsed JSON → structs, forgivingly: one reader per type, made once ----------------------

SKIPPED = 1000
"""How many malformed items of one list are skipped; a list with more is malformed itself."""

Reader: TypeAlias = Callable[[Any, str, list[Fault]], Any]


@cache
def reader(shape: Any) -> Reader:
    """The function that reads parsed JSON as `shape`, given the value, its path and the faults."""
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


_encode = msgspec.json.Encoder().encode


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):  # it would be written back as null
        raise ValueError(f"{text[:20]} is beyond what a number can hold")
    return number


# ---- decoding ------------------------------------------------------------------------------

NOT_DECODED: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for data that has to be read with care, or not at all."""


def decode(data: bytes | str, shape: Any, faults: list[Fault] | None = None) -> Any:
    """Decode JSON as `shape`, a struct or a union of structs.

    Args:
        data: The JSON text.
        shape: The type of the result.
        faults: What was malformed and could be left out is appended here.

    Raises:
        Malformed: The data is not JSON, or does not fit `shape`.
    """
    try:
        return decoder(shape).decode(data)
    except NOT_DECODED:
        return reader(shape)(parse(data), "", [] if faults is None else faults)


def read(value: Any, shape: Any, faults: list[Fault] | None = None) -> Any:
    """Read parsed JSON (dicts, lists, strings …) as `shape`; see `decode`."""
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, UnicodeError, RecursionError):
        return reader(shape)(value, "", [] if faults is None else faults)


def parse(data: bytes | str) -> Any:
    """JSON as dicts and lists; raises `Malformed` for anything that is not JSON."""
    try:
        return decoder(Any).decode(data)
    except NOT_DECODED as error:
        reason = str(error)
    try:  # msgspec refuses lone surrogates, which JSON may escape and peers do send
        text = data if isinstance(data, str) else data.decode()
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise Malformed("", f"not JSON: {reason}") from None


@cache
def decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """The strict decoder of `shape`, made once; it raises one of `NOT_DECODED`."""
    return msgspec.json.Decoder(shape, float_hook=_finite)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def output_bytes(data: str) -> bytes:
    """The bytes of terminal output; raises ValueError if `data` is not base64."""
    return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)  # some leave it unpadded


# ---- encoding ------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Encode structs or parsed JSON; unknown fields and variants are written as they were read."""
    try:
        return _encode(value)
    except (TypeError, UnicodeEncodeError):
        plain = to_json(value)
    try:
        return _encode(plain)
    except UnicodeEncodeError:  # a lone surrogate, which has to be escaped
        return json.dumps(plain, separators=(",", ":")).encode()


def update_head(session_id: bytes) -> bytes:
    """The start of a `session/update` line; the update and `}}` follow. The id is JSON."""
    return (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
        % session_id
    )


def to_json(value: Any) -> Any:
    """Structs as dicts and lists, unknown fields and variants in their places."""
    if isinstance(value, Unknown):
        return value.raw.fields
    if isinstance(value, Struct):
        return _struct_to_json(value)
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def _struct_to_json(value: Struct) -> dict[str, Any]:
    config = value.__struct_config__
    fields: dict[str, Any] = {}
    if config.tag is not None and config.tag_field is not None:
        fields[config.tag_field] = config.tag
    for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        item = getattr(value, name)
        if item is UNSET:
            continue
        if isinstance(item, Extras):
            fields.update({k: v for k, v in item.fields.items() if k not in fields})
        else:
            fields[key] = _field_to_json(item)
    return fields


def _field_to_json(item: Any) -> Any:
    # Plain JSON of a peer may be nested deeper than Python goes: it is not walked. Structs are
    # the value of a field, or items of a list or dict in a field, never deeper.
    items = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    plain = not isinstance(item, Struct) and not any(isinstance(each, Struct) for each in items)
    return item if plain else to_json(item)
