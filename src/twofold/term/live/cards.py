"""The cards of a live session: one for each block, drawn again only where it changed.

A card holds what of its block is not in the scrollback yet. What is settled of it can be given
away line by line (`give`), and a growing message costs what is new of it. A card whose block says
nothing has no rows.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from twofold.session import Message
from twofold.term.content.markdown import MarkdownLines
from twofold.term.draw import (
    INDENT,
    MESSAGE_MARGINS,
    MESSAGE_STYLES,
    Look,
    block_lines,
    counted,
)
from twofold.term.lines import Drawn, Line, Row, all_rows, line
from twofold.text import one_line, sanitize
from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    SubagentBlock,
    ToolCallBlock,
)
from twofold.view.content import described
from twofold.view.follow import Key
from twofold.wire.content import ContentBlock, ImageContent, TextContent

FINISHED: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses after which nothing more is expected."""

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
        """What it shows in words and a terminal may be able to draw."""
        return []

    def refresh(self) -> None:
        """The block changed."""

    def after_cancel(self) -> None:
        """What comes from here on comes after the turn was cancelled."""

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        raise NotImplementedError

    def give(self, width: int, count: int) -> list[Row]:
        """At least the first `count` rows, for good, as far as they are settled."""
        return []

    def finish(self) -> None:
        """Nothing more will come, or it will come on another card."""
        self.done = True


# ---- messages --------------------------------------------------------------------------------


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
        for block in more:
            if isinstance(block, TextContent):
                self._add(self._markdown.feed(block.text))
            else:
                self._add(self._markdown.end())
                self._markdown = MarkdownLines()
                self._add([line(described(block), "cyan")])
                if isinstance(block, ImageContent):
                    self._images.append(block)
        self._tail = None

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
        self._length = 0
        self._sum = 0

    def continues(self, message: Message) -> bool:
        """Whether the message begins with what was read of it."""
        if message.content is self._content:
            return True
        # replaced as a whole: most often by all that was said in pieces, or by more of it
        text = message.text
        if len(text) < self._length or _checked(text[: self._length]) != self._sum:
            return False
        rest = text[self._length :]
        self._content, self._count = message.content, len(message.content)
        self._rest = rest
        return True

    _rest = ""

    def more(self, message: Message) -> list[ContentBlock]:
        """What was not read yet."""
        new = list(message.content[self._count :])
        if self._rest:
            new.insert(0, TextContent(self._rest))
            self._rest = ""
        self._count = len(message.content)
        for block in new:
            if isinstance(block, TextContent):
                self._length += len(block.text)
                self._sum = _checked(block.text, self._sum)
        return new


def _checked(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"), before)


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

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        said = " ".join(self._message.text.split())
        if self._shown and self._shown.startswith(said):
            return []
        return all_rows(user_lines(self._message.content), width)


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


# ---- everything else ---------------------------------------------------------------------------


class BlockCard(Card):
    """A block that is drawn as a whole: a tool call, a notice and the like."""

    def __init__(
        self,
        key: Key,
        read: Callable[[Key], Block | None],
        look: Callable[[], Look],
        *,
        printed: frozenset[int] = frozenset(),
        cancelled: Callable[[], bool] = lambda: False,
        notes: Callable[[Key], Sequence[str]] = lambda key: (),
    ) -> None:
        super().__init__(key)
        self._read = read
        self._look = look
        self._printed = printed
        self._cancelled = cancelled
        self._notes = notes
        self._ended = False
        self._rows: list[Row] | None = None
        self._drawn_for = 0
        self.block: Block | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the block again."""
        self.block = self._read(self.key)
        self._rows = None
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

    def rows(self, width: int) -> list[Row]:
        """What is not in the scrollback yet."""
        if self._rows is None or width != self._drawn_for:
            self._drawn_for = width
            self._rows = all_rows(self._lines(), width)
        return self._rows

    def _lines(self) -> Iterable[Drawn]:
        block = self.block
        if block is None:
            return
        if isinstance(block, ToolCallBlock):
            # who asks shows all of it, and the question has a place of its own
            look = Look(None, self._look().output) if block.permissions else self._look()
            items = tuple(item for item in block.items if id(item) not in self._printed)
            status = self._status(block)
            shown = replace(block, items=items, status=status, permissions=())
            yield from block_lines(shown, look)
            for note in self._notes(self.key):
                yield line(one_line(note), "dim italic", INDENT)
        else:
            yield from block_lines(block, self._look())

    def _status(self, block: ToolCallBlock) -> str:
        """A call that is open when its turn has been cancelled is not going on any more."""
        open_end = self._ended and self._cancelled() and block.status not in FINISHED
        return "cancelled" if open_end else block.status

    def give(self, width: int, count: int) -> list[Row]:
        """All of it, if it is done."""
        return self.rows(width) if self.done else []

    def finish(self) -> None:
        """Nothing more will come, or it will come on another card."""
        self._ended = self.done = True
        self._rows = None


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
