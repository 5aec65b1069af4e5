"""What a version 1 client has been shown of a message, in constant memory.

Version 1 only appends. A whole message of version 2 can be said to it if it extends what was
shown; whether it does is told by a running digest, not by keeping the content.
"""

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeGuard

from twofold.wire import codec
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent

_TOGETHER = 64  # pieces of text that are digested at once, for a stream has thousands of them
_LARGE = 4096  # a piece of so many characters does not wait for others


class Sent:
    """A message as far as it went out as `message_id`: how long, a digest, where it was cut."""

    __slots__ = ("_blocks", "_cuts", "_digest", "_length", "_texts", "growing", "message_id")

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._blocks = 0
        self._cuts = blake2b(digest_size=16)
        self._length = 0
        self._digest = blake2b(digest_size=16)
        self._texts: list[str] = []  # went out, and not digested yet
        self.growing = False
        """Whether it may have such text."""

    def add(self, block: ContentBlock) -> None:
        """One more block went out."""
        if is_plain(block):
            self.add_text(block.text)
            return
        self.digest()
        data = _data(block)
        self._take(data, [len(data)])

    def add_text(self, text: str) -> None:
        """One more block went out, which is plain text."""
        texts = self._texts
        texts.append(text)
        if len(texts) >= _TOGETHER or len(text) >= _LARGE:
            self.digest()

    def digest(self) -> None:
        """Forget the text that went out, but for its digest."""
        texts, self._texts = self._texts, []
        if texts:
            data = "".join(texts).encode("utf-8", "surrogatepass")
            self._take(data, [len(text) for text in texts])

    def _take(self, data: bytes, sizes: list[int]) -> None:
        self._length += len(data)
        self._digest.update(data)
        self._blocks += len(sizes)
        self._cuts.update(_cuts(sizes))

    def suffix(self, content: list[ContentBlock]) -> list[ContentBlock] | None:
        """What of `content` has not gone out yet; None if it does not begin with what has."""
        self.digest()
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
        self.digest()
        cuts = blake2b(_cuts(map(_size, content[: self._blocks])), digest_size=16)
        return cuts.digest() == self._cuts.digest()


def _cuts(sizes: Iterable[int]) -> bytes:
    return array("Q", sizes).tobytes()


def is_plain(block: ContentBlock) -> TypeGuard[TextContent]:
    """Whether a block is text and nothing else."""
    return (
        isinstance(block, TextContent)
        and block.annotations is UNSET
        and block.meta is UNSET
        and block.unknown is UNSET
    )


def _size(block: ContentBlock) -> int:
    return len(block.text) if is_plain(block) else len(_data(block))


def _data(block: ContentBlock) -> bytes:
    # Plain text runs together, as a reader sees it; anything else stands by itself, between
    # bytes that no text has.
    if is_plain(block):
        return block.text.encode("utf-8", "surrogatepass")
    return b"\xff" + codec.encode(block) + b"\xff"
