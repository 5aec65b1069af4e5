"""Whether a text is, or begins with, one that came in pieces and was not kept.

Only a length and a checksum are remembered, however much came.
"""

import zlib


class Seen:
    """A text that comes in pieces."""

    __slots__ = ("_sum", "length")

    def __init__(self) -> None:
        self.length = 0
        """How many characters came."""
        self._sum = 0

    def add(self, text: str) -> None:
        """More of it came."""
        self.length += len(text)
        self._sum = _sum(text, self._sum)

    def begins(self, text: str) -> bool:
        """Whether `text` begins with all that came."""
        return len(text) >= self.length and _sum(text[: self.length]) == self._sum

    def is_all_of(self, text: str) -> bool:
        """Whether `text` is all that came, and no more."""
        return len(text) == self.length and _sum(text) == self._sum


def _sum(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"), before)
