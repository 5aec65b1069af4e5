"""What a program writes to its terminal, piece by piece: text, control characters, sequences.

Bytes come in any pieces; whatever the split, the same comes out, but for text, which comes as it
is there. A sequence is handed on only when it is complete. Titles, links, images and whatever
else stands between an introducer and its end are passed over, and given up when they do not end.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

LONGEST_STRING: Final = 1 << 16
"""So many characters of an unclosed title, link or image are dropped; the next one shows."""

_PIECE = re.compile(
    r"(?P<text>[^\0-\x1f\x7f-\x9f]++)"
    r"|(?:\x1b\[|\x9b)(?P<args>[0-?]{0,64}+)(?P<middle>[ -/]{0,4}+)(?P<final>[@-~])?"
    r"|(?P<osc>\x1b\]|\x9d)"
    r"|(?P<string>\x1b[PX^_]|[\x90\x98\x9e\x9f])"
    r"|\x1b(?P<between>[ -/]{0,4}+)(?P<escape>[0-Z\\`-~])?"
    r"|(?P<control>.)",
    re.DOTALL,
)
_STRING = re.compile(r"[^\x07\x18\x1a\x1b\x9c]*+")
_OSC = re.compile(r"[^\x07\x18\x1a\x1b\x9c\n]*+")  # its words stand on one line


@dataclass(frozen=True, slots=True)
class Written:
    """Text without any control character."""

    text: str


@dataclass(frozen=True, slots=True)
class Control:
    """A control character that stands for itself, such as a newline."""

    text: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """A control sequence: `ESC [`, its arguments, and what it does."""

    text: str
    args: str
    final: str
    """With what stands before it, if anything: `SP q`."""


@dataclass(frozen=True, slots=True)
class Escape:
    """`ESC` and what follows it: `7`, `(B`."""

    text: str
    name: str


Piece: TypeAlias = Written | Control | Sequence | Escape


class Reader:
    """Reads output. Feed it, and take what is complete."""

    __slots__ = ("_decoder", "_pending", "_string", "_swallowed")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""  # the beginning of a sequence, never long
        self._string: re.Pattern[str] | None = None  # what may stand in the string we are in
        self._swallowed = 0

    def feed(self, output: bytes | bytearray) -> Iterator[Piece]:
        """What is complete with this; it must be taken to the end."""
        text = self._pending + self._decoder.decode(output)
        self._pending = ""
        at = 0
        while at < len(text):
            if self._string is not None:
                at = self._in_string(text, at)
                continue
            found = _PIECE.match(text, at)
            assert found is not None  # any character is a piece
            at = found.end()
            piece = self._piece(found, at == len(text))
            if piece is not None:
                yield piece

    def _piece(self, found: re.Match[str], last: bool) -> Piece | None:
        match found.lastgroup:
            case "text":
                return Written(found[0])
            case "control":
                return Control(found[0])
            case "final":
                return Sequence(found[0], found["args"], found["middle"] + found["final"])
            case "escape":
                return Escape(found[0], found["between"] + found["escape"])
            case "osc" | "string":
                self._string = _OSC if found["osc"] else _STRING
                self._swallowed = 0
            case _ if last:  # a sequence that goes on
                self._pending = found[0]
        return None  # or one that cannot be: its beginning is left out

    def _in_string(self, text: str, at: int) -> int:
        """Pass over the words of a title, link or image, and tell what stands after them."""
        assert self._string is not None
        body = self._string.match(text, at, at + LONGEST_STRING - self._swallowed)
        end = body.end() if body else at
        self._swallowed += end - at
        if end == len(text) and self._swallowed < LONGEST_STRING:
            return end
        if text.startswith("\x1b", end) and end + 1 == len(text):
            self._pending = "\x1b"  # perhaps the first half of its end
            return end + 1
        self._string = None
        if text.startswith("\x1b\\", end):
            return end + 2
        return end + 1 if text.startswith(("\x07", "\x18", "\x1a", "\x9c"), end) else end
