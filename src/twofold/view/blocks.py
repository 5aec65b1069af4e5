"""The blocks of a view: everything that is shown of a session, piece by piece.

Every string in here is safe to show, but for what is marked as not shown: ids, and what a peer
sent as it is.

Blocks hold what there is, in the order to show it, and leave colours, columns and keys to the
toolkit. Values of the protocol that are in no schema never reach a block as if they were: an
unknown status is shown as in progress, an unknown kind as `other`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, TypeAlias

from twofold.session import Message, Role, Terminal
from twofold.text.safe import one_line, sanitize
from twofold.view.diff import DiffLine
from twofold.view.markdown.blocks import MarkdownBlock
from twofold.wire.base import Unknown
from twofold.wire.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

NOT_SHOWN = {"shown": False}

# ---- inside messages and tool calls --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextItem:
    """Text as it was sent, of any number of lines."""

    text: str
    markdown: bool = False
    """The agent wrote it as Markdown, which is for the toolkit to draw."""


@dataclass(frozen=True, slots=True)
class DescribedItem:
    """Something that is not text, in a few words: `[image image/png, 12 KB]`."""

    text: str
    content: ContentBlock | Unknown | None = field(default=None, compare=False, metadata=NOT_SHOWN)
    """What it is, as the peer sent it, for views that can do more than name it."""


@dataclass(frozen=True, slots=True)
class DiffItem:
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class TerminalItem:
    """A terminal of the agent; `received` is False if no update about it has arrived."""

    command: str | None
    cwd: str | None
    text: str
    received: bool
    exit: str | None
    """How it ended, in words; None if it has not."""
    succeeded: bool
    terminal_id: str = field(default="", compare=False, metadata=NOT_SHOWN)
    terminal: Terminal | None = field(default=None, compare=False, metadata=NOT_SHOWN)
    """The terminal in the session, for a toolkit that interprets its output itself."""


Item: TypeAlias = TextItem | DescribedItem | DiffItem | TerminalItem
Piece: TypeAlias = Item | MarkdownBlock
"""A part of a block that grows: once settled, it never changes."""


# ---- blocks --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """A message of the user, the agent or another session, or a thought.

    The text of the agent is Markdown, as blocks of it; all other text is plain.
    """

    role: Role
    items: tuple[Piece, ...]
    """What is settled: in a view from scratch all of it."""
    sender: str | None = None
    """Of a message between sessions."""
    tail: tuple[Piece, ...] = ()
    """In a live view the end of the message, which may still become something else."""
    message: Message | None = field(default=None, compare=False, metadata=NOT_SHOWN)
    """In an outline the message in the session, for a view that needs its text as it was sent."""


@dataclass(frozen=True, slots=True)
class OutputBlock:
    """The output of a terminal as plain text, in a live view: tool calls refer to it by its id."""

    items: tuple[TextItem, ...]
    tail: tuple[TextItem, ...] = ()
    """The line that is being written."""


@dataclass(frozen=True, slots=True)
class PermissionOption:
    name: str
    kind: str
    """`allow_once` and the like, or a word that must not be taken for any of them."""


@dataclass(frozen=True, slots=True)
class PermissionBlock:
    """A question that waits for an answer."""

    request_id: int | str = field(metadata=NOT_SHOWN)
    title: str
    description: str | None
    command: str | None
    """What is to be run, of any number of lines, if it is about a command."""
    cwd: str | None
    options: tuple[PermissionOption, ...]
    more_options: int = 0
    """How many more there are."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where in the files a tool works."""

    path: str
    line: int | None
    name: str = ""
    """The path as it is shown, if that is not the whole of it."""

    def __str__(self) -> str:
        name = self.name or self.path
        return f"{name}:{self.line}" if self.line else name


# ---- questions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandPart:
    """A command or a script that would run, of any number of lines."""

    text: str
    cwd: str | None = None
    name: str = ""
    """What the agent calls it, if not a command: `script`."""


@dataclass(frozen=True, slots=True)
class PathsPart:
    """Files that the tool would work in."""

    locations: tuple[Location, ...]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Words of the agent, of any number of lines."""

    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """One value of an object, or the name of one that has others below it, `depth` levels deep."""

    depth: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ValuesPart:
    """An object of the agent, value by value; `more` of them are left out."""

    name: str
    values: tuple[Value, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class NotePart:
    """A note of the client about the parts that follow, or about there being none."""

    text: str


QuestionPart: TypeAlias = CommandPart | PathsPart | TextPart | DiffItem | ValuesPart | NotePart


@dataclass(frozen=True, slots=True)
class QuestionBlock:
    """Everything there is to see before one allows something, each thing once."""

    title: str
    kind: str
    parts: tuple[QuestionPart, ...]
    why: str = ""
    """The rule that led to the question, in words; empty if none did."""

    @property
    def commands(self) -> list[CommandPart]:
        """What would run."""
        return [part for part in self.parts if isinstance(part, CommandPart)]

    @property
    def text(self) -> str:
        """All of its words."""
        words = [word for part in self.parts for word in _words(part)]
        return "\n".join([self.title, self.kind, *words])


def _words(part: QuestionPart) -> list[str]:
    match part:
        case CommandPart():
            return [part.name, part.text, part.cwd or ""]
        case PathsPart():
            return [str(location) for location in part.locations]
        case DiffItem():
            return [line.text for line in part.lines]
        case ValuesPart():
            return [part.name, *(word for each in part.values for word in (each.name, each.text))]
        case _:
            return [part.text]


# ---- tool calls and what else there is -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCallBlock:
    glyph: str
    status: str
    """What it shows as: a status of the protocol, `waiting` for a permission, or what became of it
    without one: `cancelling`, `rejected`, `left_open`."""
    kind: str
    title: str
    locations: tuple[Location, ...]
    items: tuple[Item, ...]
    permissions: tuple[PermissionBlock, ...]
    more_permissions: int = 0
    """How many more questions wait that are about it."""
    decisions: tuple[str, ...] = ()
    """How requests for permission were answered, in words."""
    finished: bool = False
    """Whether nothing more is expected of it."""

    @property
    def word(self) -> str:
        """The status as a word for people."""
        return _STATUS_WORDS.get(self.status, self.status)

    @property
    def unnamed_locations(self) -> list[Location]:
        """The locations that no diff of the call names itself."""
        diffs = [item.lines for item in self.items if isinstance(item, DiffItem)]
        named = {row.text for lines in diffs for row in lines if row.kind == "file"}
        return [
            location
            for location in self.locations
            if not {name := location.name or location.path, f"{name} (new file)"} & named
        ]

    @property
    def icon(self) -> str:
        """The kind as a sign."""
        return KIND_ICONS.get(self.kind, KIND_ICONS["other"])


KIND_ICONS = {
    "read": "≡",
    "edit": "✎",
    "delete": "⌫",
    "move": "→",
    "search": "⌕",
    "execute": "$",
    "think": "∴",
    "fetch": "↓",
    "switch_mode": "⇄",
    "other": "•",
}
_STATUS_WORDS = {
    "in_progress": "in progress",
    "waiting": "waiting for permission",
    "left_open": "not finished",
}


@dataclass(frozen=True, slots=True)
class PlanStep:
    mark: str
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """A plan: its steps, or its text."""

    steps: tuple[PlanStep, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class NoticeBlock:
    severity: str
    title: str
    description: str | None


@dataclass(frozen=True, slots=True)
class CompactionBlock:
    """The agent made its context shorter."""

    status: str
    items: tuple[Item, ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class SubagentBlock:
    title: str
    description: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class UnknownBlock:
    """Updates of a kind we do not know."""

    name: str
    count: int
    latest: tuple[Unknown, ...] = field(default=(), compare=False, metadata=NOT_SHOWN)
    """The last ones as the peer sent them, for views that show more than how many there are."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A config option and its current value."""

    name: str
    value: str
    category: str | None


@dataclass(frozen=True, slots=True)
class FooterBlock:
    """The state of the session."""

    title: str | None
    settings: tuple[Setting, ...]
    usage: str | None
    state: str
    """In words, the stop reason included."""
    cancelling: bool


@dataclass(frozen=True, slots=True)
class HeadingBlock:
    """The heading of a session, of a replay of one, or of a turn."""

    text: str
    facts: tuple[str, ...] = ()
    """What else there is to know about it: the agent, the directory, the time."""
    level: Literal[1, 2] = 1
    """1 for a session or a replay, 2 for a turn."""


@dataclass(frozen=True, slots=True)
class RemarkBlock:
    """What happened between two entries: how a turn ended, what was answered, what failed."""

    text: str
    tone: Literal["", "warning", "error"] = ""


Block: TypeAlias = (
    MessageBlock
    | ToolCallBlock
    | PermissionBlock
    | PlanBlock
    | NoticeBlock
    | CompactionBlock
    | SubagentBlock
    | UnknownBlock
    | FooterBlock
    | HeadingBlock
    | RemarkBlock
)


# Content blocks as items to show: text as text, everything else in a few words.


def joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The pieces; plain text in several of them is joined."""
    made: list[Piece] = []
    for is_text, group in groupby(pieces, lambda piece: isinstance(piece, TextItem)):
        if is_text:
            text = "".join([piece.text for piece in group if isinstance(piece, TextItem)])
            made += [TextItem(text)] if text else []
        else:
            made += group
    return tuple(made)


def content_items(content: Iterable[ContentBlock]) -> tuple[Item, ...]:
    """Items in the order of the content; text that was sent in chunks is one item."""
    items: list[Item] = []
    chunks: list[str] = []
    for block in content:
        if isinstance(block, TextContent):
            chunks.append(block.text)
            continue
        if chunks:
            items.append(TextItem(sanitize("".join(chunks))))
            chunks = []
        items.append(DescribedItem(described(block), block))
    if chunks:
        items.append(TextItem(sanitize("".join(chunks))))
    return tuple(item for item in items if not isinstance(item, TextItem) or item.text)


def described(block: ContentBlock) -> str:
    """A content block in a few words, on one line."""
    match block:
        case TextContent():
            return one_line(block.text)
        case ImageContent():
            return _in_brackets(
                "image", block.mime_type, block.data and base64_size(block.data), block.uri
            )
        case AudioContent():
            return _in_brackets("audio", block.mime_type, base64_size(block.data))
        case ResourceLink():
            length = size(block.size) if block.size else None
            return _in_brackets("link", block.title or block.name, block.uri, length)
        case EmbeddedResource(resource=TextResourceContents() as resource):
            lines = resource.text.count("\n") + (not resource.text.endswith("\n"))
            length = f"{lines} lines" if lines != 1 else "1 line"
            return _in_brackets("resource", resource.uri, resource.mime_type, length)
        case EmbeddedResource(resource=BlobResourceContents() as blob):
            return _in_brackets("resource", blob.uri, blob.mime_type, base64_size(blob.blob))
        case _:
            return unknown("content", getattr(block, "tag", ""))


def unknown(what: str, tag: str) -> str:
    """Something of a type we do not know, by the name the peer gives it."""
    return f"[unknown {what}: {one_line(tag)}]" if tag else f"[unknown {what}]"


def size(count: int) -> str:
    """A number of bytes: `812 bytes`, `12 KB`, `3.4 MB`."""
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    number, unit = min(count, 10**18) / 1000, "KB"
    for bigger in ("MB", "GB"):
        if number >= 999.5:
            number, unit = number / 1000, bigger
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:,.0f} {unit}"


def base64_size(data: str) -> str:
    """The size of what `data` encodes, which is not decoded for that."""
    return size(max(0, len(data) * 3 // 4 - data[-2:].count("=")))


def _in_brackets(what: str, *facts: object) -> str:
    given = [one_line(fact) for fact in facts if isinstance(fact, str) and fact]
    return f"[{what} {', '.join(given)}]" if given else f"[{what}]"
