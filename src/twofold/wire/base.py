"""What every message on the wire shares.

A field of a patch has three states: omitted (`UNSET`), `null` (`None`) or a value. Enumerations
are open: a value nobody has heard of is kept as the string it is. Unions are open: a variant
nobody has heard of becomes an `Unknown` that holds the whole object. Fields nobody has heard of
stay beside the struct in `unknown`. All of it is written back unchanged.

The structs forbid unknown fields, so that msgspec's fast decoder itself says when care is needed;
`wire.codec` then reads the message again, slowly and forgivingly.
"""

from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, Union, get_args

from msgspec import UNSET, Struct, UnsetType, field
from msgspec import Meta as Limit

from twofold.errors import PeerError

__all__ = [
    "UNSET",
    "Extras",
    "Fault",
    "Items",
    "Known",
    "Malformed",
    "Mark",
    "Maybe",
    "Meta",
    "Number",
    "Omittable",
    "Unknown",
    "UnsetType",
    "Wire",
    "alternates",
    "alternative_to",
    "field",
    "known_values",
]

T = TypeVar("T")
W = TypeVar("W", bound="type[Wire]")

Maybe: TypeAlias = Union[T, None, UnsetType]  # noqa: UP007  # a generic alias needs Union
"""Omitted, null or a value; a malformed value counts as omitted."""

Omittable: TypeAlias = Union[T, UnsetType]  # noqa: UP007
"""Omitted or a value, never null; a malformed value counts as omitted."""


class Mark:
    """How a field treats a value that does not fit (the schema's `x-deserialize-*`)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


STRICT: Final = Mark("STRICT")
"""An optional field that must fit all the same: a malformed value fails the whole message."""
LENIENT: Final = Mark("LENIENT")
"""A required list that a malformed value leaves empty."""
SKIP_INVALID: Final = Mark("SKIP_INVALID")
"""A list whose malformed items are skipped."""
NULL_IS_DEFAULT: Final = Mark("NULL_IS_DEFAULT")
"""Null is read as omitted, though the schema gives the field no null."""

Items: TypeAlias = Annotated[list[T], SKIP_INVALID]
LenientItems: TypeAlias = Annotated[list[T], SKIP_INVALID, LENIENT]
StrictMaybe: TypeAlias = Annotated[Union[T, None, UnsetType], STRICT]  # noqa: UP007
StrictOmittable: TypeAlias = Annotated[Union[T, UnsetType], STRICT]  # noqa: UP007
DefaultOnNull: TypeAlias = Annotated[Union[T, UnsetType], STRICT, NULL_IS_DEFAULT]  # noqa: UP007

Meta: TypeAlias = dict[str, Any]

_LARGEST = 1.7976931348623157e308
Number: TypeAlias = Annotated[float, Limit(ge=-_LARGEST, le=_LARGEST)]
"""A float that is not infinite: JSON can say one, and cannot be told it back."""


class Known:
    """The values of an open enumeration that the protocol has given a meaning to."""

    def __init__(self, *values: str) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Known{self.values}"


def known_values(enumeration: Any) -> frozenset[str]:
    """The values that the protocol has given a meaning to, of an alias such as `StopReason`."""
    known = next(mark for mark in get_args(enumeration) if isinstance(mark, Known))
    return frozenset(known.values)


class Extras:
    """JSON fields kept as they came. Not a type msgspec knows, on purpose.

    Encoding a struct that carries one fails in msgspec, which is how `wire.codec` learns that it
    must take the slow way; decoding into one fails too, so that no peer can set it.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extras) and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]  # holds a dict

    def __repr__(self) -> str:
        return f"Extras({self.fields!r})"


class Wire(Struct, kw_only=True, forbid_unknown_fields=True, rename="camel", gc=False):
    """A JSON object of the protocol. Shared once decoded: change a copy (`structs.replace`)."""

    meta: Maybe[Meta] = field(default=UNSET, name="_meta")
    unknown: Extras | UnsetType = field(default=UNSET, name="?")
    """Fields that no schema we know has."""


class Unknown(Wire):
    """A variant that no schema we know has, kept whole."""

    raw: Extras

    tag_name: ClassVar[str] = "type"

    @property
    def tag(self) -> str:
        """What the peer calls the variant."""
        return str(self.raw.fields.get(self.tag_name, ""))


class Fault(Struct, frozen=True):
    """Something malformed that the schema lets a reader pass over, and where it was."""

    path: str
    reason: str


class Malformed(PeerError):
    """The peer sent something that does not fit the protocol, at `path`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason} (at {path})" if path else reason)
        self.path = path
        self.reason = reason


_ALTERNATIVES: dict[type[Wire], list[type[Wire]]] = {}


def alternative_to(*first: type[Wire]) -> Any:
    """Mark a shape that no tag tells apart from `first`: it is tried where `first` does not fit."""

    def register(shape: W) -> W:
        for one in first:
            _ALTERNATIVES.setdefault(one, []).append(shape)
        return shape

    return register


def alternates(shape: type[Wire]) -> list[type[Wire]]:
    """The other shapes that may stand where `shape` stands."""
    return _ALTERNATIVES.get(shape, [])
