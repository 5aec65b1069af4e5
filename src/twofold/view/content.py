"""Content blocks as items to show: text as text, everything else in a few words."""

from collections.abc import Iterable

from twofold.text.safe import one_line, sanitize
from twofold.view.blocks import DescribedItem, Item, TextItem
from twofold.wire.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def content_items(content: Iterable[ContentBlock]) -> tuple[Item, ...]:
    """Items in the order of the content; text that came in chunks is one item."""
    items: list[Item] = []
    chunks: list[str] = []
    for block in content:
        if isinstance(block, TextContent):
            chunks.append(block.text)
            continue
        if chunks:
            items.append(TextItem(sanitize("".join(chunks))))
            chunks = []
        items.append(DescribedItem(described(block), block))
    if chunks:
        items.append(TextItem(sanitize("".join(chunks))))
    return tuple(item for item in items if not isinstance(item, TextItem) or item.text)


def described(block: ContentBlock) -> str:
    """A content block in a few words, on one line."""
    match block:
        case TextContent():
            return one_line(block.text)
        case ImageContent():
            return _said(
                "image", block.mime_type, block.data and base64_size(block.data), block.uri
            )
        case AudioContent():
            return _said("audio", block.mime_type, base64_size(block.data))
        case ResourceLink():
            length = size(block.size) if block.size else None
            return _said("link", block.title or block.name, block.uri, length)
        case EmbeddedResource(resource=TextResourceContents() as resource):
            lines = resource.text.count("\n") + (not resource.text.endswith("\n"))
            length = f"{lines} lines" if lines != 1 else "1 line"
            return _said("resource", resource.uri, resource.mime_type, length)
        case EmbeddedResource(resource=BlobResourceContents() as blob):
            return _said("resource", blob.uri, blob.mime_type, base64_size(blob.blob))
        case _:
            return unknown("content", getattr(block, "tag", ""))


def unknown(what: str, tag: str) -> str:
    """Something of a type we do not know, by the name the peer gives it."""
    return f"[unknown {what}: {one_line(tag)}]" if tag else f"[unknown {what}]"


def size(count: int) -> str:
    """A number of bytes: `812 bytes`, `12 KB`, `3.4 MB`."""
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    number, unit = min(count, 10**18) / 1000, "KB"
    for bigger in ("MB", "GB"):
        if number >= 999.5:
            number, unit = number / 1000, bigger
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:,.0f} {unit}"


def base64_size(data: str) -> str:
    """The size of what `data` encodes, which is not decoded for that."""
    return size(max(0, len(data) * 3 // 4 - data[-2:].count("=")))


def _said(what: str, *facts: object) -> str:
    given = [one_line(fact) for fact in facts if isinstance(fact, str) and fact]
    return f"[{what} {', '.join(given)}]" if given else f"[{what}]"
