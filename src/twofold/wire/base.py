"""What every message on the wire shares.

A field of a patch has three states: omitted (`UNSET`), `null` (`None`) or a value. Enumerations
are open: an unknown value is kept as the string it is. Unions are open: an unknown variant becomes
an `Unknown` that holds the whole object. Unknown fields are kept beside the struct in `unknown`.
All of it is written back unchanged.

The structs forbid unknown fields, so that msgspec's fast decoder rejects every message that needs
care; `wire.codec` then reads the message again, slowly and forgivingly.
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
"""A float that is not infinite: JSON text can hold a number so large, but not infinity itself."""


class Known:
    """The values of an open enumeration that the protocol has given a meaning to."""

    def __init__(self, *values: str) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Known{self.values}"


def known_values(enumeration: Any) -> tuple[str, ...]:
    """The values that the protocol has given a meaning to, of an alias such as `StopReason`."""
    return next(mark for mark in get_args(enumeration) if isinstance(mark, Known)).values


class Extras:
    """JSON fields kept as they were received. Not a type that msgspec supports, on purpose.

    Encoding a struct that carries one fails in msgspec, and `wire.codec` then takes the slow way;
    decoding into one fails too, so that no peer can set it.
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
    """Fields that are in no schema."""


class Unknown(Wire):
    """A variant that is in no schema, kept whole."""

    raw: Extras

    tag_name: ClassVar[str] = "type"

    @property
    def tag(self) -> str:
        """The name of the variant, as the peer sent it."""
        return str(self.raw.fields.get(self.tag_name, ""))


class Fault(Struct, frozen=True):
    """Something malformed that the schema lets a reader pass over, and where it was."""

    path: str
    """Where in the message, e.g. `.content[0].text`."""
    reason: str
    """What is wrong with it."""


class Malformed(PeerError):
    """The peer sent something that does not fit the protocol.

    Attributes:
        path: Where in the message, e.g. `.content[0].text`; empty for the message as a whole.
        reason: What is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason} (at {path})" if path else reason)
        self.path = path
        self.reason = reason


_ALTERNATIVES: dict[type[Wire], list[type[Wire]]] = {}


def alternative_to(*first: type[Wire]) -> Any:
    """Mark a shape without a tag of its own: it is tried where `first` does not fit."""

    def register(shape: W) -> W:
        for one in first:
            _ALTERNATIVES.setdefault(one, []).append(shape)
        return shape

    return register


def alternates(shape: type[Wire]) -> list[type[Wire]]:
    """The other shapes that are tried in the place of `shape`."""
    return _ALTERNATIVES.get(shape, [])
