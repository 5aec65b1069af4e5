"""The content of one message, read as it arrives: what is settled, and what its end looks like now.

Text is made safe to show. What the agent writes is Markdown; any other text is plain and settles
line by line. Reading more costs what is new, however long the message is.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Protocol

from twofold.text.safe import Pieces
from twofold.view.blocks import DescribedItem, Piece, TextItem, described
from twofold.view.markdown import Markdown
from twofold.wire.content import ContentBlock, TextContent

LONGEST_TAIL: Final = 512
"""A line of plain text that grows beyond this is settled before it ends."""


class _Text(Protocol):
    """Text that arrives in pieces and settles piece by piece."""

    def feed(self, text: str) -> Sequence[Piece]: ...

    def tail(self) -> Sequence[Piece]: ...

    def end(self) -> Sequence[Piece]: ...


class _PlainText:
    """Text that is shown as it is; the settled pieces, joined, are the text."""

    def __init__(self) -> None:
        self._line = ""

    def feed(self, text: str) -> list[Piece]:
        text = self._line + text
        end = text.rfind("\n") + 1
        if len(text) - end > LONGEST_TAIL:
            end = len(text)
        self._line = text[end:]
        return [TextItem(text[:end])] if end else []

    def tail(self) -> list[Piece]:
        return [TextItem(self._line)] if self._line else []

    def end(self) -> list[Piece]:
        rest = self.tail()
        self._line = ""
        return rest


class MessageReader:
    """Reads the content blocks of one message in the order in which they arrive."""

    __slots__ = ("_markdown", "_safe", "_text")

    def __init__(self, *, markdown: bool) -> None:
        self._markdown = markdown
        self._begin()

    def _begin(self) -> None:
        self._safe = Pieces()
        self._text: _Text = Markdown() if self._markdown else _PlainText()

    def add(self, content: Iterable[ContentBlock]) -> list[Piece]:
        """Read more content.

        Returns:
            The pieces that this settled; they never change.
        """
        settled: list[Piece] = []
        for is_text, blocks in groupby(content, lambda block: isinstance(block, TextContent)):
            if is_text:
                texts = [block.text for block in blocks if isinstance(block, TextContent)]
                settled += self._text.feed(self._safe.add("".join(texts)))
            else:
                settled += self.end()
                settled += [DescribedItem(described(block), block) for block in blocks]
        return settled

    def tail(self) -> tuple[Piece, ...]:
        """What is not settled, as it looks now; asking changes nothing."""
        return tuple(self._text.tail())

    def end(self) -> list[Piece]:
        """Settle the rest, as if nothing followed; what does follow begins a new text."""
        settled = [*self._text.feed(self._safe.end()), *self._text.end()]
        self._begin()
        return settled
