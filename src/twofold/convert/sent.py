"""What a version 1 client has been shown of a message, in constant memory.

Version 1 only appends. A whole message of version 2 can be said to it if it extends what was
shown; whether it does is told by a running digest, not by keeping the content.
"""

from hashlib import blake2b

from twofold.wire import codec
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent


class Sent:
    """A message as far as it went out: how long, and a digest of it."""

    __slots__ = ("_digest", "_length", "blocks")

    def __init__(self) -> None:
        self.blocks = 0
        self._length = 0
        self._digest = blake2b(digest_size=16)

    def add(self, block: ContentBlock) -> None:
        """One more block went out."""
        data = _data(block)
        self.blocks += 1
        self._length += len(data)
        self._digest.update(data)

    def suffix(self, content: list[ContentBlock]) -> list[ContentBlock] | None:
        """What of `content` has not gone out yet; None if it does not begin with what has."""
        digest, left = blake2b(digest_size=16), self._length
        for index, block in enumerate(content):
            if left == 0:
                return content[index:] if digest.digest() == self._digest.digest() else None
            data = _data(block)
            digest.update(data[:left])
            if len(data) > left:
                if digest.digest() != self._digest.digest():
                    return None
                rest = TextContent(data[left:].decode("utf-8", "surrogatepass"))
                return [rest, *content[index + 1 :]]
            left -= len(data)
        return [] if left == 0 and digest.digest() == self._digest.digest() else None


def _data(block: ContentBlock) -> bytes:
    # Plain text runs together, as a reader sees it; anything else stands by itself.
    if isinstance(block, TextContent) and (
        block.annotations is UNSET and block.meta is UNSET and block.unknown is UNSET
    ):
        return block.text.encode("utf-8", "surrogatepass")
    return b"\0" + codec.encode(block) + b"\0"
