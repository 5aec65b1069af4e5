"""Bytes ↔ lines.

Bytes arrive in pieces that end anywhere, inside a character too; any split of them gives the same
lines. A line costs as much as it is long, in time and in memory, however many pieces it has. One
that is longer than the limit is skipped and reported once, and the lines after it are read as
usual. So is one that holds more values than a message needs: as objects they would take many times
its length.
"""

import re

from twofold.errors import PeerError

LIMIT = 64 * 1024 * 1024
"""How long a line may be, in bytes, unless the caller sets another limit."""

VALUES = 1_000_000
"""How many values a line may hold: commas and brackets outside of strings."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)
_SHOWN = 512  # of each end of a line that is too long: enough to find the id of a request


class LineTooLong(PeerError):
    """A peer sent a line longer than we accept."""

    def __init__(self, size: int, limit: int, head: bytes = b"", tail: bytes = b"") -> None:
        super().__init__(f"The peer sent a line of {size} bytes; the limit is {limit}.")
        self.size = size
        self.limit = limit
        self.head = head
        """How the line begins."""
        self.tail = tail
        """How it ends."""


class TooManyValues(LineTooLong):
    """A peer sent a line with more values than we accept."""

    def __init__(self, line: bytes, limit: int) -> None:
        super().__init__(len(line), limit, line[:_SHOWN], line[-_SHOWN:])
        self.args = (f"The peer sent a line with more than {limit} values.",)


class Lines:
    """Lines as they become complete. Blank ones are left out."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._parts = bytearray()  # of the line that is not complete yet
        self._size = 0
        self._head = self._tail = b""  # of a line that is passed over

    def feed(self, data: bytes) -> list[bytes | LineTooLong]:
        """Take in the next bytes; the lines that they complete."""
        *whole, rest = data.split(b"\n")
        lines: list[bytes | LineTooLong] = []
        if whole and self._size:
            self._add(whole.pop(0))
            lines += self._take()
        limit = self.limit
        usual = min(limit, VALUES)
        for line in whole:
            if len(line) > usual:
                if len(line) > limit:
                    lines.append(LineTooLong(len(line), limit, line[:_SHOWN], line[-_SHOWN:]))
                else:
                    lines.append(_checked(line))
            elif line and not line.isspace():
                lines.append(line)
        self._add(rest)
        return lines

    def end(self) -> list[bytes | LineTooLong]:
        """The stream ended: the last line, if no newline ended it."""
        return self._take()

    def rest(self) -> bytes:
        """Give the bytes of the line that is not complete away, unread."""
        parts, self._parts, self._size = self._parts, bytearray(), 0
        return bytes(parts)

    def _add(self, part: bytes) -> None:
        before, self._size = self._size, self._size + len(part)
        if self._size <= self.limit:
            self._parts += part
            return
        if before <= self.limit:  # from now on only its two ends and its length matter
            self._head, self._tail = bytes(self._parts[:_SHOWN]), bytes(self._parts[-_SHOWN:])
            self._parts = bytearray()
        self._head += part[: _SHOWN - len(self._head)]
        self._tail = (self._tail + part[-_SHOWN:])[-_SHOWN:]

    def _take(self) -> list[bytes | LineTooLong]:
        size, parts = self._size, self._parts
        self._size, self._parts = 0, bytearray()
        if size > self.limit:
            return [LineTooLong(size, self.limit, self._head, self._tail)]
        if not parts or parts.isspace():
            return []
        line = bytes(parts)
        return [_checked(line) if size > VALUES else line]


def _checked(line: bytes) -> bytes | LineTooLong:
    return TooManyValues(line, VALUES) if _holds_more(line, VALUES) else line


def _holds_more(line: bytes, values: int) -> bool:
    if _count(line, 0, len(line)) <= values:
        return False
    found = at = 0
    for string in _STRING.finditer(line):
        found += _count(line, at, string.start())
        if found > values:
            return True
        at = string.end()
    return found + _count(line, at, len(line)) > values


def _count(line: bytes, start: int, end: int) -> int:
    return (
        line.count(b",", start, end) + line.count(b"[", start, end) + line.count(b"{", start, end)
    )
