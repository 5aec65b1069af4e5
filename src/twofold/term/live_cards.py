"""The cards of the live area: one for each block that is not in the scrollback yet.

A card holds the part of its block that is not in the scrollback and draws it; rows that did not
change are not made again. The settled rows of a message can be taken off its card one by one
(`take_rows`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from twofold.session import FINISHED
from twofold.term.block_lines import (
    INDENT,
    MESSAGE_MARGINS,
    MESSAGE_STYLES,
    DrawOptions,
    block_lines,
    counted,
    item_lines,
    tool_call_top,
)
from twofold.term.lines import Drawable, Line, Row, all_rows, line, plain
from twofold.term.markdown_lines import MarkdownLines
from twofold.text import one_line
from twofold.view.blocks import (
    CompactionBlock,
    DescribedItem,
    DiffItem,
    Item,
    MessageBlock,
    Piece,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    content_items,
)
from twofold.view.live import Key, LiveBlock
from twofold.view.markdown import MarkdownBlock
from twofold.wire.content import ContentBlock, ImageContent

MOST_ITEMS: Final = 32
"""How many items of a tool call are shown, counted from the end, where there is folding at all."""
MOST_NOTES: Final = 100
"""After how many lines notes go on as a new card."""
THOUGHT_ROWS: Final = 4
"""How many rows of a thought are shown, while it is thought and when it is folded."""
_THOUGHT_TAIL: Final = 2000


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
        """Images that it shows in words and a terminal may be able to draw."""
        return []

    def put(self, block: LiveBlock) -> None:
        """Show this block instead."""

    def grow(self, settled: Sequence[Piece], tail: Sequence[Piece]) -> None:
        """Show more of the block, and another end."""

    def redraw(self) -> None:
        """Make its rows again: something that they depend on changed, but not the block."""

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet; no rows if there is nothing to show."""
        return []

    def folded_rows(self, width: int) -> list[Row]:
        """The same rows, long items folded whether or not the person has unfolded them."""
        return self.rows(width)

    def take_rows(self, width: int, count: int) -> list[Row]:
        """Take off at least the first `count` rows, as far as they are settled."""
        return []

    def finish(self) -> None:
        """Nothing more will be added to this card."""
        self.done = True


class BlockCard(Card):
    """A block that is drawn as a whole: a tool call, a notice and the like."""

    def __init__(
        self,
        key: Key,
        block: LiveBlock,
        options: Callable[[bool], DrawOptions],
        *,
        printed: frozenset[int] = frozenset(),
        notes: Callable[[Key], Sequence[str]] = lambda key: (),
        asked: Callable[[], Key | None] = lambda: None,
    ) -> None:
        """`options(fold)`: how to draw it, folded in any case or as the person wants it."""
        super().__init__(key)
        self._options = options
        self._printed = printed
        self._notes = notes
        self._asked = asked
        self._ended = False
        self._rows: dict[int | None, list[Row]] = {}  # by where they are folded
        self._drawn_for = 0
        self._items: dict[tuple[int | None, int], tuple[Item, list[Row]]] = {}
        self.put(block)

    def put(self, block: LiveBlock) -> None:
        """Show this block instead."""
        self.block = block
        self._rows = {}
        self.done = self._ended or is_finished(block)

    def grow(self, settled: Sequence[Piece], tail: Sequence[Piece]) -> None:
        """Show more of the block, and another end."""
        if isinstance(self.block, ToolCallBlock):
            added = [piece for piece in settled if isinstance(piece, Item)]
            self.put(replace(self.block, items=(*self.block.items, *added)))
        elif isinstance(self.block, MessageBlock):
            items = (*self.block.items, *settled)
            self.put(replace(self.block, items=items, tail=tuple(tail)))

    def redraw(self) -> None:
        """Make its rows again: something that they depend on changed, but not the block."""
        self._rows = {}

    @property
    def pictures(self) -> list[ImageContent]:
        """Images that it shows in words and a terminal may be able to draw."""
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
        """The diffs that it shows are in the scrollback, as part of a question."""
        self._printed |= self.diffs
        self._rows = {}

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        return self._drawn(width, self._options(False))

    def folded_rows(self, width: int) -> list[Row]:
        """The same rows, long items folded whether or not the person has unfolded them."""
        return self._drawn(width, self._options(True))

    def _drawn(self, width: int, options: DrawOptions) -> list[Row]:
        if width != self._drawn_for:
            self._drawn_for, self._rows, self._items = width, {}, {}
        if options.fold not in self._rows:
            self._rows[options.fold] = self._all_rows(options, width)
        return self._rows[options.fold]

    def _all_rows(self, options: DrawOptions, width: int) -> list[Row]:
        block = self.block
        if not isinstance(block, ToolCallBlock):
            return all_rows(block_lines(block, options), width)
        if block.permissions and self._asked() == self.key:
            return []  # the question below shows all of it
        shown = block
        if block.permissions:  # it waits for another question, which will show the rest
            shown = replace(block, items=(), locations=())
        made = all_rows(tool_call_top(shown, options), width)
        first = 0 if options.fold is None else max(0, len(shown.items) - MOST_ITEMS)
        if first:
            mark = f"… {counted(first, 'item')} before"
            made += line(mark, "dim italic", INDENT).rows(width)
        for place in range(first, len(shown.items)):
            made += self._item_rows(place, shown.items[place], options, width)
        # instead of the decisions of the block: the notes name who made them and by which rule
        notes = [line(one_line(note), "dim italic", INDENT) for note in self._notes(self.key)]
        return made + all_rows(notes, width)

    def _item_rows(self, place: int, item: Item, options: DrawOptions, width: int) -> list[Row]:
        """The rows of an item, which are not made again as long as it is the same."""
        if id(item) in self._printed:
            return []
        known, rows = self._items.get((options.fold, place), (None, []))
        # a terminal may options otherwise although its text is the same
        if known is None or (
            known is not item and (isinstance(item, TerminalItem) or known != item)
        ):
            rows = all_rows(item_lines(item, options), width)
            self._items[options.fold, place] = item, rows
        return rows

    def take_rows(self, width: int, count: int) -> list[Row]:
        """All of it, if it is done."""
        return self.rows(width) if self.done else []

    def finish(self) -> None:
        """Nothing more will be added to this card."""
        self._ended = self.done = True


def is_finished(block: LiveBlock) -> bool:
    """Whether nothing more is expected of a block."""
    match block:
        case ToolCallBlock():
            return block.finished or block.status in FINISHED
        case CompactionBlock():
            return block.status in FINISHED
        case SubagentBlock():
            return not (block.state or "").startswith("running")
    return True


class RemarkCard(Card):
    """Lines of the client itself, in their place among the messages of the agent."""

    done = True

    def __init__(self, lines: Sequence[Drawable]) -> None:
        super().__init__(Key("notice", ""))
        self._lines = lines

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        return all_rows(self._lines, width)


class NotesCard(Card):
    """Lines of the client that arrive one after the other, such as those of a standard error."""

    done = True

    def __init__(self, kind: str) -> None:
        """`kind`: what the lines are about."""
        super().__init__(Key("notice", ""))
        self.kind = kind
        self._lines: list[Drawable] = []
        self._rows: list[Row] = []
        self._drawn = self._width = 0

    @property
    def has_room(self) -> bool:
        """Whether lines may be added: what is drawn again and again must not be long."""
        return len(self._lines) < MOST_NOTES

    def add(self, lines: Iterable[Drawable]) -> None:
        """Show more lines below the others."""
        self._lines += lines

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        if width != self._width:
            self._width, self._rows, self._drawn = width, [], 0
        self._rows += all_rows(self._lines[self._drawn :], width)
        self._drawn = len(self._lines)
        return list(self._rows)


class MessageCard(Card):
    """A message of the agent: markdown that grows."""

    def __init__(self, key: Key, mark: str = "", *, cancelled: bool = False) -> None:
        """`mark`: words that it begins with if there is more of it in the scrollback."""
        super().__init__(key)
        self._cancelled = cancelled
        self._late = False
        self._markdown = MarkdownLines()
        self._lines: deque[tuple[Drawable, list[Row]]] = deque()
        self._tail: Sequence[Piece] = ()
        self._tail_rows: list[Row] | None = []
        self._width = 0
        self._images: list[ImageContent] = []
        self._marked = bool(mark)
        if mark:
            self._add([line(mark, "dim")])

    def put(self, block: LiveBlock) -> None:
        """The message was replaced by another one: what is in the scrollback stays there."""
        if not isinstance(block, MessageBlock):
            return
        self._markdown = MarkdownLines()
        self._lines.clear()
        if self.begun or self._marked:
            self._add([line("⋯ sent again", "dim")])
        self.grow(block.items, block.tail)

    def grow(self, settled: Sequence[Piece], tail: Sequence[Piece]) -> None:
        """Show more of the message, and another end."""
        if (settled or tail) and self._cancelled and not self._late:
            self._late = True
            self._add([line("⊘ after the cancel:")])
        self._add(self._drawn(settled, self._markdown.settled))
        self._images += [
            piece.content
            for piece in settled
            if isinstance(piece, DescribedItem) and isinstance(piece.content, ImageContent)
        ]
        self._tail, self._tail_rows = tail, None

    def _drawn(
        self, pieces: Iterable[Piece], draw: Callable[[list[MarkdownBlock]], list[Drawable]]
    ) -> list[Drawable]:
        """The lines of pieces; blocks of markdown together, for code is coloured in one go."""
        made: list[Drawable] = []
        blocks: list[MarkdownBlock] = []
        for piece in pieces:
            if not isinstance(piece, Item):
                blocks.append(piece)
            elif isinstance(piece, DescribedItem):
                made += draw(blocks)
                made.append(line(piece.text, "cyan"))
                blocks = []
        return made + draw(blocks)

    @property
    def pictures(self) -> list[ImageContent]:
        """Images that it shows in words and a terminal may be able to draw."""
        return self._images

    @property
    def cancelled(self) -> bool:
        """Whether what is added now was sent after the turn was cancelled."""
        return self._cancelled

    def after_cancel(self) -> None:
        """What is added from here on was sent after the turn was cancelled."""
        self._cancelled = True

    def _add(self, lines: Iterable[Drawable]) -> None:
        for each in lines:
            shown = _Dimmed(each) if self._late else each
            self._lines.append((shown, shown.rows(self._width) if self._width else []))

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        if width != self._width:
            self._width = width
            self._lines = deque((each, each.rows(width)) for each, _ in self._lines)
            self._tail_rows = None
        if self._tail_rows is None:
            tail = self._drawn(self._tail, self._markdown.tail)
            self._tail_rows = all_rows(map(_Dimmed, tail) if self._late else tail, width)
        return [row for _, rows in self._lines for row in rows] + self._tail_rows

    def take_rows(self, width: int, count: int) -> list[Row]:
        """Take off at least the first `count` rows, as far as they are settled."""
        given: list[Row] = []
        self.rows(width)
        while self._lines and len(given) < count:
            given += self._lines.popleft()[1]
        return given


@dataclass(frozen=True, slots=True)
class _Dimmed:
    """The same, dimmed."""

    drawn: Drawable

    def rows(self, width: int | None) -> list[Row]:
        return [
            tuple(
                (text, f"{style} dim" if isinstance(style, str) else style) for text, style in row
            )
            for row in self.drawn.rows(width)
        ]


class ThoughtCard(Card):
    """A thought: its last rows while it goes on, its first ones when it is folded away."""

    def __init__(self, key: Key, folded: Callable[[], bool]) -> None:
        super().__init__(key)
        self._folded = folded
        self._texts: list[str] = []
        self._tail = ""

    def put(self, block: LiveBlock) -> None:
        """Show this thought instead."""
        if isinstance(block, MessageBlock):
            self._texts = []
            self.grow(block.items, block.tail)

    def grow(self, settled: Sequence[Piece], tail: Sequence[Piece]) -> None:
        """Show more of the thought, and another end."""
        self._texts += _texts(settled)
        self._tail = "".join(_texts(tail))

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        text = "".join(self._texts if self.done else self._last_texts()) + self._tail
        if not (text := text.strip()):
            return []
        if self.done and not self._folded():
            return _thought(text).rows(width)
        if self.done:
            return folded(_thought(text).rows(width), THOUGHT_ROWS)
        return _thought(text[-_THOUGHT_TAIL:]).rows(width)[-THOUGHT_ROWS:]

    def _last_texts(self) -> list[str]:
        """The last pieces, as many as can be seen while the thought goes on."""
        first, length = len(self._texts), 0
        while first and length < _THOUGHT_TAIL:
            first -= 1
            length += len(self._texts[first])
        return self._texts[first:]


def _texts(pieces: Iterable[Piece]) -> list[str]:
    return [piece.text for piece in pieces if isinstance(piece, TextItem)]


def _thought(text: str) -> Line:
    return line(text, MESSAGE_STYLES["thought"], MESSAGE_MARGINS["thought"])


def folded(rows: list[Row], limit: int) -> list[Row]:
    """The first rows, and how many more there are."""
    left = len(rows) - limit
    if left <= 1:  # a row that counts one more row is as long as that row
        return rows
    return [*rows[:limit], *line(f"… {counted(left, 'more row')}", "dim italic", INDENT).rows(None)]


class UserCard(Card):
    """A prompt of the person; what the client itself has printed of it is not shown again."""

    def __init__(self, key: Key, shown: str) -> None:
        super().__init__(key)
        self._shown = " ".join(shown.split())
        self._echo = bool(self._shown)
        """All of it so far is what the client has shown."""
        self._pieces: list[Piece] = []
        self._tail: Sequence[Piece] = ()
        self._rows: list[Row] = []
        self._width = self._drawn = 0

    def put(self, block: LiveBlock) -> None:
        """Show this message instead."""
        if isinstance(block, MessageBlock):
            self._pieces, self._rows, self._drawn = [], [], 0
            self._echo = bool(self._shown)
            self.grow(block.items, block.tail)

    def grow(self, settled: Sequence[Piece], tail: Sequence[Piece]) -> None:
        """Show more of the message, and another end."""
        self._pieces += settled
        self._tail = tail
        if self._echo:
            text = "".join(_texts([*self._pieces, *self._tail]))
            self._echo = self._shown.startswith(" ".join(text.split()))

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        if self._echo:
            return []
        if width != self._width:
            self._width, self._rows, self._drawn = width, [], 0
        for piece in self._pieces[self._drawn :]:
            self._rows += all_rows(_user_lines(piece, first=not self._rows), width)
        self._drawn = len(self._pieces)
        rows = list(self._rows)
        for piece in self._tail:
            rows += all_rows(_user_lines(piece, first=not rows), width)
        while rows and plain(rows[-1]).strip() == MESSAGE_MARGINS["user"].strip():
            rows.pop()  # a blank line without text after it
        return rows


def user_lines(content: Iterable[ContentBlock]) -> list[Line]:
    """The lines of a prompt: its text in the style of the person, anything else described."""
    made: list[Line] = []
    for item in content_items(content):
        if isinstance(item, TextItem):
            item = TextItem(item.text.rstrip("\n"))
        made += _user_lines(item, first=not made)
    return made


def _user_lines(piece: Piece, *, first: bool) -> list[Line]:
    margin, style = MESSAGE_MARGINS["user"], MESSAGE_STYLES["user"]
    if isinstance(piece, DescribedItem):
        return [line(piece.text, "cyan", margin)]
    if not isinstance(piece, TextItem):
        return []
    text = piece.text.lstrip("\n") if first else piece.text
    return [line(text.removesuffix("\n"), style, margin)] if text else []
