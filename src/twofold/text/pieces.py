"""Text of a peer that comes in pieces, made safe to show.

Any split gives what `sanitize` makes of the whole. What cannot be judged before more has come is
held back: half of a line's end, what joins two characters, an escape sequence that is not closed.
A sequence of more than `LONGEST_HELD` characters is not waited for, and shows as harmless text.
The cost grows with the length of the piece.
"""

import re
from typing import Final

from twofold.text.safe import sanitize

LONGEST_HELD: Final = 512

# The beginnings of what `sanitize` drops or keeps as a whole, at the end of the text.
_UNFINISHED = re.compile(
    "[\r\x1b\x90\x98\x9b\x9d-\x9f\u200c\u200d]"
    r"(?:(?<=[\r\u200c\u200d])"
    r"|(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*+[ -/]*+"
    r"|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))[^\0-\x1f\x7f-\x9f]*+\x1b?"
    r"|(?<=\x1b)[ -/]*+"
    r")\Z"
)


class Pieces:
    """Text that comes in pieces, made safe as if it came in one."""

    def __init__(self) -> None:
        self._before = ""
        self._held = ""

    def add(self, piece: str) -> str:
        """What can be shown now."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        held = unfinished[0] if unfinished else ""
        self._held = held if len(held) <= LONGEST_HELD else ""
        return self._safe(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """What is left."""
        text, self._held = self._held, ""
        left = self._safe(text)
        self._before = ""
        return left

    def _safe(self, text: str) -> str:
        if not text:
            return ""
        # what joins characters counts only if one that can be seen is before it
        shown = sanitize(self._before + text)[len(self._before) :]
        self._before = text[-1] if sanitize(text[-1]) == text[-1] else ""
        return shown
