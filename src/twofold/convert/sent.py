"""What a version 1 client has been shown of a message, in constant memory.

Version 1 only appends. A whole message of version 2 can be said to it if it extends what was
shown; whether it does is told by a running digest, not by keeping the content.
"""

from hashlib import blake2b

from twofold.wire import codec
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent


class Sent:
    """A message as far as it went out as `message_id`: how long, a digest, where it was cut."""

    __slots__ = ("_blocks", "_cuts", "_digest", "_length", "message_id")

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._blocks = 0
        self._cuts = 0
        self._length = 0
        self._digest = blake2b(digest_size=16)

    def add(self, block: ContentBlock) -> None:
        """One more block went out."""
        data = _data(block)
        self._blocks += 1
        self._cuts = _cut(self._cuts, data)
        self._length += len(data)
        self._digest.update(data)

    def suffix(self, content: list[ContentBlock]) -> list[ContentBlock] | None:
        """What of `content` has not gone out yet; None if it does not begin with what has."""
        digest, left = blake2b(digest_size=16), self._length
        for index, block in enumerate(content):
            data = _data(block)
            # empty text went out too, as often as it was sent
            if left == 0 and (data or index >= self._blocks):
                return content[index:] if digest.digest() == self._digest.digest() else None
            digest.update(data[:left])
            if len(data) > left:
                if digest.digest() != self._digest.digest():
                    return None
                rest = TextContent(data[left:].decode("utf-8", "surrogatepass"))
                return [rest, *content[index + 1 :]]
            left -= len(data)
        return [] if digest.digest() == self._digest.digest() else None

    def cut_like(self, content: list[ContentBlock]) -> bool:
        """Whether what went out ends, block by block, where the blocks of `content` do."""
        cuts = 0
        for block in content[: self._blocks]:
            cuts = _cut(cuts, _data(block))
        return cuts == self._cuts


def _cut(cuts: int, data: bytes) -> int:
    return hash((cuts, len(data)))


def _data(block: ContentBlock) -> bytes:
    # Plain text runs together, as a reader sees it; anything else stands by itself, between
    # bytes that no text has.
    if isinstance(block, TextContent) and (
        block.annotations is UNSET and block.meta is UNSET and block.unknown is UNSET
    ):
        return block.text.encode("utf-8", "surrogatepass")
    return b"\xff" + codec.encode(block) + b"\xff"
