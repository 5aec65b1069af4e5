"""The cards of a live session: one for each block, drawn again only where it changed.

A card holds what of its block is not in the scrollback yet. What is settled of it can be given
away (`give`). A card whose block says nothing has no rows. Those of messages, which grow, are in
`message_cards`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from twofold.session import FINISHED
from twofold.term.draw import INDENT, Look, block_lines, counted, item_lines, tool_call_top
from twofold.term.lines import Drawn, Row, all_rows, line
from twofold.text import one_line
from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    Item,
    SubagentBlock,
    TerminalItem,
    ToolCallBlock,
)
from twofold.view.live import Key
from twofold.wire.content import ImageContent

MOST_ITEMS: Final = 32
"""How many items of a tool call are shown, counted from the end, where there is folding at all."""


class Card:
    """What is still to be shown of one block."""

    done = False
    """Nothing more is expected: all of it may go to the scrollback."""
    begun = False
    """Its first rows are in the scrollback already."""

    def __init__(self, key: Key) -> None:
        self.key = key

    @property
    def pictures(self) -> list[ImageContent]:
        """What it shows in words and a terminal may be able to draw."""
        return []

    def refresh(self) -> None:
        """The block changed."""

    def after_cancel(self) -> None:
        """What comes from here on comes after the turn was cancelled."""

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet: nothing, if there is nothing to say."""
        return []

    def folded_rows(self, width: int) -> list[Row]:
        """The same rows, long items folded whether or not the person has unfolded them."""
        return self.rows(width)

    def give(self, width: int, count: int) -> list[Row]:
        """At least the first `count` rows, for good, as far as they are settled."""
        return []

    def finish(self) -> None:
        """Nothing more will come, or it will come on another card."""
        self.done = True


class BlockCard(Card):
    """A block that is drawn as a whole: a tool call, a notice and the like."""

    def __init__(
        self,
        key: Key,
        read: Callable[[Key], Block | None],
        look: Callable[[bool], Look],
        *,
        printed: frozenset[int] = frozenset(),
        notes: Callable[[Key], Sequence[str]] = lambda key: (),
        asked: Callable[[], Key | None] = lambda: None,
    ) -> None:
        """`look(fold)`: how to draw it, folded in any case or as the person wants it."""
        super().__init__(key)
        self._read = read
        self._look = look
        self._printed = printed
        self._notes = notes
        self._asked = asked
        self._ended = False
        self._rows: dict[int | None, list[Row]] = {}  # by where they are folded
        self._drawn_for = 0
        self._items: dict[tuple[int | None, int], tuple[Item, list[Row]]] = {}
        self.block: Block | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the block again."""
        self.block = self._read(self.key)
        self._rows = {}
        self.done = self._ended or is_finished(self.block)

    @property
    def pictures(self) -> list[ImageContent]:
        """What it shows in words and a terminal may be able to draw."""
        items = self.block.items if isinstance(self.block, ToolCallBlock) else ()
        shown = [item.content for item in items if isinstance(item, DescribedItem)]
        return [content for content in shown if isinstance(content, ImageContent)]

    @property
    def diffs(self) -> frozenset[int]:
        """The diffs that it shows, by identity, so that none is shown twice."""
        if not isinstance(self.block, ToolCallBlock):
            return frozenset()
        return frozenset(id(item) for item in self.block.items if isinstance(item, DiffItem))

    def printed_diffs(self) -> None:
        """What it shows of diffs stands in the scrollback, as part of a question."""
        self._printed |= self.diffs
        self._rows = {}

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        return self._drawn(width, self._look(False))

    def folded_rows(self, width: int) -> list[Row]:
        """The same rows, long items folded whether or not the person has unfolded them."""
        return self._drawn(width, self._look(True))

    def _drawn(self, width: int, look: Look) -> list[Row]:
        if width != self._drawn_for:
            self._drawn_for, self._rows, self._items = width, {}, {}
        if look.fold not in self._rows:
            self._rows[look.fold] = self._all_rows(look, width)
        return self._rows[look.fold]

    def _all_rows(self, look: Look, width: int) -> list[Row]:
        block = self.block
        if not isinstance(block, ToolCallBlock):
            return all_rows(block_lines(block, look), width) if block is not None else []
        if block.permissions and self._asked() == self.key:
            return []  # the question that stands below shows all of it
        # the notes tell more of the decisions: who made them, and by which rule
        shown = replace(block, permissions=(), decisions=())
        if block.permissions:  # it waits for another question, which will show the rest
            shown = replace(shown, items=(), locations=())
        made = all_rows(tool_call_top(shown, look), width)
        first = 0 if look.fold is None else max(0, len(shown.items) - MOST_ITEMS)
        if first:
            mark = f"… {counted(first, 'item')} before"
            made += line(mark, "dim italic", INDENT).rows(width)
        for place in range(first, len(shown.items)):
            made += self._item_rows(place, shown.items[place], look, width)
        notes = [line(one_line(note), "dim italic", INDENT) for note in self._notes(self.key)]
        return made + all_rows(notes, width)

    def _item_rows(self, place: int, item: Item, look: Look, width: int) -> list[Row]:
        """The rows of an item, which are not made again as long as it is the same."""
        if id(item) in self._printed:
            return []
        known, rows = self._items.get((look.fold, place), (None, []))
        # a terminal may look otherwise although its text is the same
        if known is None or (
            known is not item and (isinstance(item, TerminalItem) or known != item)
        ):
            rows = all_rows(item_lines(item, look), width)
            self._items[look.fold, place] = item, rows
        return rows

    def give(self, width: int, count: int) -> list[Row]:
        """All of it, if it is done."""
        return self.rows(width) if self.done else []

    def finish(self) -> None:
        """Nothing more will come, or it will come on another card."""
        self._ended = self.done = True
        self._rows = {}


def is_finished(block: Block | None) -> bool:
    """Whether nothing more is expected of a block."""
    match block:
        case ToolCallBlock():
            return block.status in FINISHED
        case CompactionBlock():
            return block.status in FINISHED
        case SubagentBlock():
            return not (block.state or "").startswith("running")
    return True


class RemarkCard(Card):
    """A word of the client itself, in its place among what the agent says."""

    done = True

    def __init__(self, lines: Sequence[Drawn]) -> None:
        super().__init__(Key("notice", ""))
        self._lines = lines

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        return all_rows(self._lines, width)
