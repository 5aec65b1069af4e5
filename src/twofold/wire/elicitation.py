"""Elicitation: the agent asks the user for something. Shared by both versions but for the schema.

The scope of a request is a session (`session_id`, perhaps `tool_call_id`) or another request
(`request_id`); exactly one of the two is there.
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from twofold.wire.base import (
    UNSET,
    Items,
    Known,
    Maybe,
    Number,
    StrictMaybe,
    StrictOmittable,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.shared import Capability, UInt, UInt32

ElicitationSchemaType: TypeAlias = Annotated[str, Known("object")]
StringFormat: TypeAlias = Annotated[str, Known("email", "uri", "date", "date-time")]


class EnumOption(Wire):
    const: str
    title: str
    description: Maybe[str] = UNSET


class StringPropertySchema(Wire, tag_field="type", tag="string"):
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    min_length: StrictMaybe[UInt32] = UNSET
    max_length: StrictMaybe[UInt32] = UNSET
    pattern: StrictMaybe[str] = UNSET
    format: StrictMaybe[StringFormat] = UNSET
    default: Maybe[str] = UNSET
    enum: StrictMaybe[list[str]] = UNSET
    one_of: StrictMaybe[list[EnumOption]] = UNSET


class NumberPropertySchema(Wire, tag_field="type", tag="number"):
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    minimum: StrictMaybe[Number] = UNSET
    maximum: StrictMaybe[Number] = UNSET
    default: Maybe[Number] = UNSET


class IntegerPropertySchema(Wire, tag_field="type", tag="integer"):
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    minimum: StrictMaybe[int] = UNSET
    maximum: StrictMaybe[int] = UNSET
    default: Maybe[int] = UNSET


class BooleanPropertySchema(Wire, tag_field="type", tag="boolean"):
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    default: Maybe[bool] = UNSET


class StringMultiSelectItems(Wire, tag_field="type", tag="string"):
    enum: list[str]


class UnknownMultiSelectItems(Unknown, tag_field="type", tag="?"):
    pass


@alternative_to(StringMultiSelectItems)
class TitledMultiSelectItems(Wire):
    any_of: list[EnumOption]


if TYPE_CHECKING:
    MultiSelectItems: TypeAlias = (
        StringMultiSelectItems | TitledMultiSelectItems | UnknownMultiSelectItems
    )
else:
    MultiSelectItems = StringMultiSelectItems | UnknownMultiSelectItems


class MultiSelectPropertySchema(Wire, tag_field="type", tag="array", kw_only=True):
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    min_items: StrictMaybe[UInt] = UNSET
    max_items: StrictMaybe[UInt] = UNSET
    items: MultiSelectItems
    default: Maybe[Items[str]] = UNSET


class UnknownPropertySchema(Unknown, tag_field="type", tag="?"):
    pass


ElicitationPropertySchema: TypeAlias = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
    | UnknownPropertySchema
)


class ElicitationCapabilities(Wire):
    form: Maybe[Capability] = UNSET
    url: Maybe[Capability] = UNSET


class ElicitationScope(Wire):
    """What a question belongs to."""

    message: str
    session_id: StrictOmittable[str] = UNSET
    tool_call_id: Maybe[str] = UNSET
    request_id: StrictMaybe[int | str] = UNSET

    def __post_init__(self) -> None:
        of_request = self.request_id is not UNSET and self.request_id is not None
        if self.session_id is UNSET and self.request_id is UNSET:
            raise ValueError("an elicitation belongs to a session or to a request")
        if self.session_id is not UNSET and of_request:
            raise ValueError("an elicitation belongs to a session or to a request")


class ElicitationUrl(ElicitationScope, tag_field="mode", tag="url", kw_only=True):
    elicitation_id: str
    url: str


class UnknownElicitation(Unknown, tag_field="mode", tag="?"):
    tag_name = "mode"


class ElicitationAccept(Wire, tag_field="action", tag="accept"):
    content: StrictMaybe[dict[str, Any]] = UNSET


class ElicitationDecline(Wire, tag_field="action", tag="decline"):
    pass


class ElicitationCancel(Wire, tag_field="action", tag="cancel"):
    pass


class UnknownElicitationAction(Unknown, tag_field="action", tag="?"):
    tag_name = "action"


CreateElicitationResponse: TypeAlias = (
    ElicitationAccept | ElicitationDecline | ElicitationCancel | UnknownElicitationAction
)
