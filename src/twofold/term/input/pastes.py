"""Long pastes as short marks: `[pasted #1: 2,000 lines]` stands for what was pasted.

A person sees and edits the mark, the agent gets the text. A mark is plain text in the input: it
may be moved, repeated or deleted, and one that was changed is a mark no longer. Only marks that
were made here are put back; words that look like one stay as they are. Pure: nothing here reads
a clipboard or a screen.
"""

import re
from collections.abc import Sequence
from typing import Final

MOST_LINES: Final = 8
MOST_CHARACTERS: Final = 800
"""A paste of no more lines and characters than these is shown as it is."""

_LOOK: Final = re.compile(
    r"\[pasted(?: before)? #([1-9][0-9]{0,8}): [0-9][0-9,]* (?:lines|characters?)\]"
)


class Pastes:
    """The long pastes of one prompt, by their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._numbers = {"pasted": 0, "pasted before": 0}
        self._taken: set[int] = set()

    def shown(self, text: str) -> str:
        """What stands for a paste in the input: the text itself, or its mark if it is long."""
        # words that pass for a mark of ours would be put back as another paste
        if is_long(text) or any(found[0] in self._texts for found in _LOOK.finditer(text)):
            return self.mark(text)
        self.typed(text)
        return text

    def mark(self, text: str) -> str:
        """A new mark for a text, however long."""
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
        """Never make a mark that already stands in this text; gives the text back."""
        self._taken.update(int(found[1]) for found in _LOOK.finditer(text))
        return text

    def full(self, text: str) -> str:
        """The text with every paste in place of its mark."""
        return "".join(self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        """The text cut at its marks: typed, pasted, typed, …; each second piece was pasted."""
        pieces: list[str] = []
        end = 0
        for found in _LOOK.finditer(text):
            if (pasted := self._texts.get(found[0])) is not None:
                pieces += (text[end : found.start()], pasted)
                end = found.end()
        return [*pieces, text[end:]]

    def joined(self, pieces: Sequence[str]) -> str:
        """The text to show for such pieces of another day: `full` of it is all of them."""
        for typed in pieces[::2]:
            self.typed(typed)
        return "".join(
            self._mark("pasted before", piece) if number % 2 else piece
            for number, piece in enumerate(pieces)
        )

    def mark_before(self, text: str) -> str:
        """The mark that the text ends with, so that it can be deleted as one; or nothing."""
        if not text.endswith("]"):
            return ""
        mark = text[text.rfind("[") :]
        return mark if mark in self._texts else ""


def is_long(text: str) -> bool:
    """Whether a paste is shown as a mark."""
    return len(text) > MOST_CHARACTERS or _lines(text) > MOST_LINES


def _extent(text: str) -> str:
    lines = _lines(text)
    if lines > MOST_LINES:
        return f"{lines:,} lines"
    return f"{len(text):,} character{'' if len(text) == 1 else 's'}"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))
