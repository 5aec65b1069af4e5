"""JSON ↔ structs: strictly first, then forgivingly.

msgspec reads a message that fits the structs in one pass. One that does not is read again, field
by field: unknown fields and variants are kept, a malformed optional field counts as omitted, a
malformed item of a lenient list is skipped (each reported as a `Fault`), an earlier draft's shape
is recognised. What is left is the peer's mistake: `Malformed`, and nothing else is ever raised.

Encoding is msgspec's too, unless a struct carries something we did not understand.
"""

import base64
import json
from functools import cache
from math import isinf
from typing import Any, NoReturn, cast

import msgspec
from msgspec import UNSET, Struct

from twofold.wire import v1, v2
from twofold.wire.base import Extras, Fault, Malformed, Unknown
from twofold.wire.forgiving import reader

_encode = msgspec.json.Encoder().encode


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):  # it would be written back as null
        raise ValueError(f"{text[:20]} is beyond what a number can hold")
    return number


# ---- decoding ------------------------------------------------------------------------------


def decode(data: bytes | str, shape: Any, faults: list[Fault] | None = None) -> Any:
    """Read JSON as `shape` (a struct, or a union of structs)."""
    try:
        return _decoder(shape).decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return reader(shape)(parse(data), "", [] if faults is None else faults)


def read(value: Any, shape: Any, faults: list[Fault] | None = None) -> Any:
    """Read parsed JSON (dicts, lists, strings …) as `shape`."""
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, UnicodeError, RecursionError):
        return reader(shape)(value, "", [] if faults is None else faults)


def parse(data: bytes | str) -> Any:
    """JSON as dicts and lists; raises `Malformed` for anything that is not JSON."""
    try:
        return _decoder(Any).decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason = str(error)
    try:  # msgspec refuses lone surrogates, which JSON can say and peers do send
        text = data if isinstance(data, str) else data.decode()
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise Malformed("", f"not JSON: {reason}") from None


def decode_update_v1(data: bytes | str, faults: list[Fault] | None = None) -> v1.SessionUpdate:
    """Read one session update of version 1."""
    return cast("v1.SessionUpdate", decode(data, v1.SessionUpdate, faults))


def decode_update_v2(data: bytes | str, faults: list[Fault] | None = None) -> v2.SessionUpdate:
    """Read one session update of version 2."""
    return cast("v2.SessionUpdate", decode(data, v2.SessionUpdate, faults))


class _UpdateLineV1(Struct, tag_field="method", tag="session/update", forbid_unknown_fields=True):
    params: v1.SessionNotification
    jsonrpc: str


class _UpdateLineV2(Struct, tag_field="method", tag="session/update", forbid_unknown_fields=True):
    params: v2.UpdateSessionNotification
    jsonrpc: str


_line_v1 = msgspec.json.Decoder(_UpdateLineV1, float_hook=_finite).decode
_line_v2 = msgspec.json.Decoder(_UpdateLineV2, float_hook=_finite).decode


def decode_update_line_v1(line: bytes | str) -> v1.SessionNotification | None:
    """The params of a plain `session/update` line in one pass; None for any other line."""
    try:
        return _line_v1(line).params
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def decode_update_line_v2(line: bytes | str) -> v2.UpdateSessionNotification | None:
    """The params of a plain `session/update` line in one pass; None for any other line."""
    try:
        return _line_v2(line).params
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape, float_hook=_finite)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def output_bytes(data: str) -> bytes:
    """The bytes of terminal output; raises ValueError for what is not base64."""
    return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)  # some leave it unpadded


# ---- encoding ------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Structs (or parsed JSON) as JSON, what was not understood written back as it came."""
    try:
        return _encode(value)
    except (TypeError, UnicodeEncodeError):
        plain = to_json(value)
    try:
        return _encode(plain)
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can say
        return json.dumps(plain, separators=(",", ":")).encode()


def update_head(session_id: bytes) -> bytes:
    """How a `session/update` line begins, for a session id in JSON; the update and `}}` follow."""
    return (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
        % session_id
    )


def to_json(value: Any) -> Any:
    """Structs as dicts and lists, what was not understood in its place."""
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
    # Plain JSON of a peer may be nested deeper than Python goes: it is not walked. Structs stand
    # in a field by themselves, in a list or in a dict, never deeper.
    items = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    plain = not isinstance(item, Struct) and not any(isinstance(each, Struct) for each in items)
    return item if plain else to_json(item)
