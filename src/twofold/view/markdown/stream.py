"""Markdown that comes in pieces: what is settled, and what the rest looks like now."""

from twofold.view.markdown.blocks import MarkdownBlock
from twofold.view.markdown.structure import Structure


class Markdown:
    """Takes text in any pieces; whatever they are, the blocks are the same."""

    __slots__ = ("_fresh", "_line", "_structure")

    def __init__(self) -> None:
        self._structure = Structure()
        self._line = ""  # without its end yet, never longer than there is room
        self._fresh = True  # whether its beginning is the beginning of a line

    @property
    def unsettled(self) -> int:
        """How many characters are kept because they are not settled; there is a bound."""
        return self._structure.size + len(self._line)

    def feed(self, text: str) -> list[MarkdownBlock]:
        """The blocks that are settled now and were not before; they are never taken back."""
        *ended, rest = text.split("\n")
        for part in ended:
            self._extend(part)
            self._structure.add(self._line.removesuffix("\r"), fresh=self._fresh)
            self._line, self._fresh = "", True
        self._extend(rest)
        return self._take()

    def tail(self) -> list[MarkdownBlock]:
        """What is not settled, as it looks now; asking changes nothing.

        A mark at the beginning of a line that the next character can make something else of is
        not shown yet.
        """
        probe = self._structure.copy()
        if self._line and not (self._fresh and probe.undecided(self._line)):
            probe.add(self._line.removesuffix("\r"), fresh=self._fresh)
        probe.finish()
        return probe.settled

    def end(self) -> list[MarkdownBlock]:
        """The rest, as nothing follows; after that a new text may begin."""
        if self._line:
            self._structure.add(self._line.removesuffix("\r"), fresh=self._fresh)
        self._structure.finish()
        blocks = self._take()
        self._structure, self._line, self._fresh = Structure(), "", True
        return blocks

    def _take(self) -> list[MarkdownBlock]:
        blocks, self._structure.settled = self._structure.settled, []
        return blocks

    def _extend(self, part: str) -> None:
        """More of the line; what is too long to wait for its end is cut wherever that is."""
        room = self._structure.room
        if len(self._line) + len(part) <= room:
            self._line += part
            return
        line, start = self._line + part, 0
        while len(line) - start > room:
            self._structure.add(line[start : start + room], fresh=self._fresh)
            self._fresh = False
            start += room
            room = self._structure.room
        self._line = line[start:]
