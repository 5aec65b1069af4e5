"""Long pastes, shown in the input line as short marks."""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

MOST_LINES: Final = 8
MOST_CHARACTERS: Final = 800
"""A paste up to this size is shown unchanged."""
MOST_SHORT: Final = 20
"""How many pastes that are shown unchanged are remembered."""

_LOOK: Final = re.compile(
    r"\[pasted(?: before)? #([1-9][0-9]{0,8}): [0-9][0-9,]* (?:lines|characters?)\]"
)


class Pastes:
    """Long pastes as short marks: `[pasted #1: 2,000 lines]`.

    A person sees and edits the mark, the agent gets the text. A mark is plain text in the input: it
    can be moved, repeated or deleted, and it is a mark no longer once it was edited. Only marks
    that were made here are replaced; typed words that look like a mark stay.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._numbers = {"pasted": 0, "pasted before": 0}
        self._taken: set[int] = set()
        self._short: deque[str] = deque(maxlen=MOST_SHORT)

    def shown(self, text: str) -> str:
        """How a paste is shown in the input: the text itself, or its mark if it is long."""
        # a paste that contains one of our marks would be replaced by that other paste
        if is_long(text) or any(found[0] in self._texts for found in _LOOK.finditer(text)):
            return self.mark(text)
        self.typed(text)
        self._short.append(text)
        return text

    @property
    def short(self) -> list[str]:
        """The last pastes that are shown unchanged."""
        return list(self._short)

    def mark(self, text: str) -> str:
        """Make a new mark for a text of any length."""
        return self._mark("pasted", text)

    def _mark(self, word: str, text: str) -> str:
        number = self._numbers[word] + 1
        while number in self._taken:
            number += 1
        self._numbers[word] = number
        mark = f"[{word} #{number}: {_extent(text)}]"
        self._texts[mark] = text
        return mark

    def typed(self, text: str) -> str:
        """Return the text, and never make a mark that it already contains."""
        self._taken.update(int(found[1]) for found in _LOOK.finditer(text))
        return text

    def full(self, text: str) -> str:
        """The text with every mark replaced by its paste."""
        return "".join(self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        """The text, split at its marks: typed, pasted, typed, …; every second piece was pasted."""
        pieces: list[str] = []
        end = 0
        for found in _LOOK.finditer(text):
            if (pasted := self._texts.get(found[0])) is not None:
                pieces += (text[end : found.start()], pasted)
                end = found.end()
        return [*pieces, text[end:]]

    def joined(self, pieces: Sequence[str]) -> str:
        """The text to show for pieces from the history, with new marks for what was pasted."""
        for typed in pieces[::2]:
            self.typed(typed)
        return "".join(
            self._mark("pasted before", piece) if number % 2 else piece
            for number, piece in enumerate(pieces)
        )

    def mark_before(self, text: str) -> str:
        """The mark at the end of the text, which is deleted as a whole; or an empty string."""
        if not text.endswith("]"):
            return ""
        mark = text[text.rfind("[") :]
        return mark if mark in self._texts else ""


def is_long(text: str) -> bool:
    """True if a paste of this text is shown as a mark."""
    return len(text) > MOST_CHARACTERS or _lines(text) > MOST_LINES


def _extent(text: str) -> str:
    lines = _lines(text)
    if lines > MOST_LINES:
        return f"{lines:,} lines"
    return f"{len(text):,} character{'' if len(text) == 1 else 's'}"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))
