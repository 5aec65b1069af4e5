"""Content blocks: what messages, prompts and tool results are made of. Shared by both versions."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from twofold.wire.base import UNSET, Items, Known, Maybe, Number, Unknown, Wire, alternative_to

Role: TypeAlias = Annotated[str, Known("assistant", "user")]
IconTheme: TypeAlias = Annotated[str, Known("light", "dark")]


class Annotations(Wire):
    audience: Maybe[Items[Role]] = UNSET
    last_modified: Maybe[str] = UNSET
    priority: Maybe[Number] = UNSET


class TextContent(Wire, tag_field="type", tag="text"):
    text: str
    annotations: Maybe[Annotations] = UNSET


class ImageContent(Wire, tag_field="type", tag="image"):
    data: str
    mime_type: str
    uri: Maybe[str] = UNSET
    annotations: Maybe[Annotations] = UNSET


class AudioContent(Wire, tag_field="type", tag="audio"):
    data: str
    mime_type: str
    annotations: Maybe[Annotations] = UNSET


class Icon(Wire):
    src: str
    mime_type: Maybe[str] = UNSET
    sizes: Maybe[Items[str]] = UNSET
    theme: Maybe[IconTheme] = UNSET


class ResourceLink(Wire, tag_field="type", tag="resource_link"):
    name: str
    uri: str
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    icons: Maybe[Items[Icon]] = UNSET  # v2 only; a v1 peer passes it over
    mime_type: Maybe[str] = UNSET
    size: Maybe[int] = UNSET  # v1 has an int64 here, v2 a uint64
    annotations: Maybe[Annotations] = UNSET


class TextResourceContents(Wire):
    text: str
    uri: str
    mime_type: Maybe[str] = UNSET


@alternative_to(TextResourceContents)
class BlobResourceContents(Wire):
    blob: str
    uri: str
    mime_type: Maybe[str] = UNSET


if TYPE_CHECKING:
    EmbeddedResourceResource: TypeAlias = TextResourceContents | BlobResourceContents
else:  # msgspec supports one untagged struct in a union: the second is an alternative
    EmbeddedResourceResource = TextResourceContents


class EmbeddedResource(Wire, tag_field="type", tag="resource"):
    resource: EmbeddedResourceResource
    annotations: Maybe[Annotations] = UNSET


class UnknownContent(Unknown, tag_field="type", tag="?"):
    """A content block of an unknown type."""


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)
