"""The cards of a live session: one for each block, drawn again only where it changed.

A card holds what of its block is not in the scrollback yet. What is settled of it can be given
away (`give`). A card whose block says nothing has no rows. Those of messages, which grow, are in
`message_cards`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from twofold.session import FINISHED, Message
from twofold.term.block_lines import (
    INDENT,
    MESSAGE_MARGINS,
    MESSAGE_STYLES,
    Look,
    block_lines,
    counted,
    item_lines,
    tool_call_top,
)
from twofold.term.lines import Drawn, Line, Row, all_rows, line
from twofold.term.markdown_lines import MarkdownLines
from twofold.text import one_line, sanitize
from twofold.text.safe import Seen
from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    Item,
    SubagentBlock,
    TerminalItem,
    ToolCallBlock,
    described,
)
from twofold.view.live import Key
from twofold.wire.content import ContentBlock, ImageContent, TextContent

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


# The cards of messages: what the agent says and thinks, what the person said.
#
# A message grows while it is on its card: only what is new of it is read, and what is settled can
# go to the scrollback line by line. A message that is replaced by one that begins with it goes on;
# by another one, it is said again.


THOUGHT_ROWS: Final = 4
"""How many rows of a thought are shown, while it is thought and when it is folded."""
_THOUGHT_TAIL: Final = 2000


class MessageCard(Card):
    """A message of the agent: markdown that grows."""

    def __init__(
        self,
        key: Key,
        message: Message,
        before: "Heard | None" = None,
        *,
        cancelled: bool = False,
    ) -> None:
        super().__init__(key)
        self._message = message
        self._cancelled = cancelled
        self._markdown = MarkdownLines()
        self._lines: deque[tuple[Drawn, list[Row]]] = deque()
        self._width = 0
        self._tail: list[Row] | None = None
        self._late = False
        self._images: list[ImageContent] = []
        self.heard = before or Heard(message)
        if before is not None and self.heard.continues(message):
            self._add([line("⋯ continued", "dim")])
        elif before is not None:
            self.heard = Heard(message)
            self._add([line("⋯ said again", "dim")])
        self.refresh()

    def refresh(self) -> None:
        """Read what is new."""
        if not self.heard.continues(self._message):
            self._start_again()
        more = self.heard.more(self._message)
        if more and self._cancelled and not self._late:
            self._begin_late()
        for is_text, blocks in groupby(more, key=lambda block: isinstance(block, TextContent)):
            if is_text:  # all at once: code is coloured for less in many lines
                texts = [block.text for block in blocks if isinstance(block, TextContent)]
                self._add(self._markdown.feed("".join(texts)))
            else:
                self._add(self._markdown.end())
                self._markdown = MarkdownLines()
                self._describe(list(blocks))
        self._tail = None

    def _describe(self, blocks: Sequence[ContentBlock]) -> None:
        self._add([line(described(block), "cyan") for block in blocks])
        self._images += [block for block in blocks if isinstance(block, ImageContent)]

    @property
    def pictures(self) -> list[ImageContent]:
        """What it shows in words and a terminal may be able to draw."""
        return self._images

    def after_cancel(self) -> None:
        """What comes from here on comes after the turn was cancelled."""
        self._cancelled = True  # told with the first of it: often there is none

    def _begin_late(self) -> None:
        self._add(self._markdown.end())
        self._markdown, self._late = MarkdownLines(), True
        self._add([line("⊘ after the cancel:")])

    def _start_again(self) -> None:
        """The message was replaced by another one: what is in the scrollback stays there."""
        self._markdown, self.heard = MarkdownLines(), Heard(self._message)
        self._lines.clear()
        if self.begun:
            self._add([line("⋯ said again", "dim")])

    def _add(self, lines: Iterable[Drawn]) -> None:
        for each in lines:
            shown = _Dimmed(each) if self._late else each
            self._lines.append((shown, shown.rows(self._width) if self._width else []))

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        if width != self._width:
            self._width = width
            self._lines = deque((each, each.rows(width)) for each, _ in self._lines)
            self._tail = None
        if self._tail is None:
            tail = [] if self.done else self._markdown.tail()
            self._tail = all_rows(map(_Dimmed, tail) if self._late else tail, width)
        return [row for _, rows in self._lines for row in rows] + self._tail

    def give(self, width: int, count: int) -> list[Row]:
        """At least the first `count` rows, for good, as far as they are settled."""
        given: list[Row] = []
        self.rows(width)
        while self._lines and len(given) < count:
            given += self._lines.popleft()[1]
        return given

    def finish(self) -> None:
        """Nothing more will come, or it will come on another card."""
        if not self.done:
            self.done, self._tail = True, []
            self._add(self._markdown.end())


@dataclass(frozen=True, slots=True)
class _Dimmed:
    """The same, to be seen as of less weight."""

    drawn: Drawn

    def rows(self, width: int | None) -> list[Row]:
        return [
            tuple(
                (text, f"{style} dim" if isinstance(style, str) else style) for text, style in row
            )
            for row in self.drawn.rows(width)
        ]


class Heard:
    """How much of a message was read, and whether what it is now goes on from there."""

    def __init__(self, message: Message) -> None:
        self._content: Sequence[ContentBlock] = message.content
        self._count = 0
        self._seen = Seen()
        self._rest = ""
        """What a message that replaced another one says beyond it."""

    def continues(self, message: Message) -> bool:
        """Whether the message begins with what was read of it."""
        if message.content is self._content:
            return True
        # replaced as a whole: most often by all that was said in pieces, or by more of it
        if not self._seen.begins(message.text):
            return False
        self._content, self._count = message.content, len(message.content)
        self._rest = message.text[self._seen.length :]
        return True

    def more(self, message: Message) -> list[ContentBlock]:
        """What was not read yet."""
        new = list(message.content[self._count :])
        if self._rest:
            new.insert(0, TextContent(self._rest))
            self._rest = ""
        self._count = len(message.content)
        for block in new:
            if isinstance(block, TextContent):
                self._seen.add(block.text)
        return new


class ThoughtCard(Card):
    """A thought: its last rows while it goes on, its first ones when it is folded away."""

    def __init__(self, key: Key, message: Message, folded: Callable[[], bool], start: int) -> None:
        super().__init__(key)
        self._message = message
        self._folded = folded
        self._start = start
        """How much of the text is in the scrollback already."""

    @property
    def length(self) -> int:
        """How much of the text is shown."""
        return len(self._message.text)

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        text = self._message.text[self._start :].strip()
        if not text:
            return []
        if self.done and not self._folded():
            return _thought(text).rows(width)
        if self.done:
            return folded(_thought(text).rows(width), THOUGHT_ROWS)
        return _thought(text[-_THOUGHT_TAIL:]).rows(width)[-THOUGHT_ROWS:]


def _thought(text: str) -> Line:
    return line(sanitize(text), MESSAGE_STYLES["thought"], MESSAGE_MARGINS["thought"])


def folded(rows: list[Row], limit: int) -> list[Row]:
    """The first rows, and how many there are more."""
    left = len(rows) - limit
    if left <= 1:  # a row that says that there is one more is as long as that one
        return rows
    return [*rows[:limit], *line(f"… {counted(left, 'more row')}", "dim italic", INDENT).rows(None)]


class UserCard(Card):
    """What the person said; what the client itself has shown of it is not shown again."""

    def __init__(self, key: Key, message: Message, shown: str) -> None:
        super().__init__(key)
        self._message = message
        self._shown = " ".join(shown.split())
        self._content: Sequence[ContentBlock] = ()  # what the rows are of
        self._rows: list[Row] = []
        self._width = self._read = 0

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        content = self._message.content
        if content is not self._content or width != self._width:
            self._content, self._width = content, width
            self._rows, self._read = [], 0
        if not self._read and self._is_echo():
            return []
        new = content[self._read :]
        self._rows += all_rows(user_lines(new), width)
        self._read += len(new)
        return list(self._rows)

    def _is_echo(self) -> bool:
        """Whether the client has shown all of it."""
        said = " ".join(self._message.text.split())
        return bool(self._shown) and self._shown.startswith(said)


def user_lines(content: Iterable[ContentBlock]) -> list[Line]:
    """What the person said, text in the style of the person, anything else in a few words."""
    made = []
    margin, style = MESSAGE_MARGINS["user"], MESSAGE_STYLES["user"]
    for block in content:
        if not isinstance(block, TextContent):
            made.append(line(described(block), "cyan", margin))
        elif text := sanitize(block.text).strip("\n"):
            made.append(line(text, style, margin))
    return made
