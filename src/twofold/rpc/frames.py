"""Bytes ↔ lines.

Bytes come in pieces that end anywhere, inside a character too; any split of them gives the same
lines. A line costs as much as it is long, however many pieces it came in. One that is longer than
the limit is passed over, told of once, and the lines after it are read as if nothing had been.
"""

from twofold.errors import PeerError

LIMIT = 256 * 1024 * 1024
"""How long a line may be, in bytes, unless the caller says otherwise."""


_HEAD = 512
_PASSED_OVER: list[bytes] = []  # stands for the parts of a line that is too long


class LineTooLong(PeerError):
    """A peer sent a line longer than we accept."""

    def __init__(self, size: int, limit: int, head: bytes = b"") -> None:
        super().__init__(f"The peer sent a line of {size} bytes; the limit is {limit}.")
        self.size = size
        self.limit = limit
        self.head = head
        """How the line begins."""


class Lines:
    """Lines as they become complete. Blank ones are left out."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._parts: list[bytes] = []  # of the line that is not complete yet
        self._size = 0
        self._head = b""  # of a line that is passed over

    def feed(self, data: bytes) -> list[bytes | LineTooLong]:
        """Take in the next bytes; the lines that they complete."""
        first, *rest = data.split(b"\n")
        self._add(first)
        if not rest:
            return []
        lines = self._take()
        *whole, last = rest
        for line in whole:
            self._add(line)
            lines += self._take()
        self._add(last)
        return lines

    def end(self) -> list[bytes | LineTooLong]:
        """No more bytes will come: the last line, if no newline ended it."""
        return self._take()

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self.limit:
            if part:
                self._parts.append(part)
        elif self._parts is not _PASSED_OVER:
            # only how it begins and how long it is still matters
            self._head = b"".join([*self._parts, part[:_HEAD]])[:_HEAD]
            self._parts = _PASSED_OVER

    def _take(self) -> list[bytes | LineTooLong]:
        size, parts = self._size, self._parts
        self._size, self._parts = 0, []
        if size > self.limit:
            return [LineTooLong(size, self.limit, self._head)]
        line = parts[0] if len(parts) == 1 else b"".join(parts)
        return [line] if line.strip() else []
