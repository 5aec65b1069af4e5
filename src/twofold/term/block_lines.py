"""What the blocks of a view look like: lines with styles, for a terminal or a file.

The same blocks look the same in a transcript and in the live client. `DrawOptions` holds what
differs: how much of a long item is shown, and what interprets the output of a terminal. Nothing is
left out in silence: where something is folded, a line shows how much.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never
from urllib.parse import quote

from rich.style import Style

from twofold.styled import emulator
from twofold.term.diff_lines import LONGEST_FOLDED, DiffRows
from twofold.term.half_blocks import HalfBlocks
from twofold.term.lines import AnyStyle, Drawable, Line, Parts, line
from twofold.term.markdown_lines import MarkdownLines, markdown_lines
from twofold.view.blocks import (
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    HeadingBlock,
    Item,
    MessageBlock,
    NoticeBlock,
    OutputBlock,
    PermissionBlock,
    PlanBlock,
    RemarkBlock,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
    joined,
)
from twofold.view.live import LiveBlock
from twofold.view.markdown import MarkdownBlock
from twofold.wire.content import ImageContent

STATUS_STYLES: Final = {
    "pending": "dim",
    "in_progress": "yellow",
    "paused": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "red dim",
    "cancelling": "red dim",
    "rejected": "red",
    "left_open": "dim",
    "waiting": "bold magenta",
}
NOTICE_STYLES: Final = {"info": "cyan", "warning": "yellow", "error": "red"}

_REMARKS: Final = {"": ("·", "dim"), "warning": ("⊘", "yellow"), "error": ("✗", "red")}

INDENT: Final = "  "

Output: TypeAlias = Callable[[TerminalItem, int | None], Sequence[Line]]
"""The rows of a terminal, at most so many of them, counted from the end."""


def plain_output(item: TerminalItem, limit: int | None) -> list[Line]:
    """The output of a terminal as text, without colours."""
    text = item.text.rstrip()
    if not text:
        return []
    rows = text.split("\n")
    left = len(rows) - limit if limit is not None else 0
    if limit is not None and left > 0:
        head = [line(f"… {counted(left, 'line')} before", "dim italic")]
        return [*head, line("\n".join(rows[-limit:]), "dim", prose=False)]
    return [line(text, "dim", prose=False)]


def whole_output(item: TerminalItem, limit: int | None) -> list[Line]:
    """All rows of a terminal that were ever written, for a transcript; `limit` has no effect."""
    return [Line(row, prose=False) for row in emulator.whole_output(item)]


def live_output(outputs: emulator.Outputs) -> Output:
    """Draws the last rows of terminals, and how many there are before them, for a live view."""

    def lines(item: TerminalItem, limit: int | None) -> list[Line]:
        rows, hidden = outputs(item, limit)
        above = [line(f"… {counted(hidden, 'line')} before", "dim italic")] if hidden else []
        return [*above, *(Line(row, prose=False) for row in rows)]

    return lines


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """How blocks are drawn."""

    fold: int | None = None
    """How many lines of an item are shown; None: all of them."""
    output: Output = plain_output
    half_blocks: bool = False
    """Whether pictures are drawn as half blocks below the words for them."""


def counted(number: int, what: str) -> str:
    """A number of things: `1 line`, `2,000 lines`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def block_lines(block: LiveBlock, options: DrawOptions) -> Iterator[Drawable]:
    """The lines of a block."""
    match block:
        case MessageBlock():
            yield from _message(block, options)
        case ToolCallBlock():
            yield from tool_call_lines(block, options)
        case OutputBlock():
            text = "".join([piece.text for piece in (*block.items, *block.tail)])
            yield line(text.rstrip(), "dim", prose=False)
        case PermissionBlock():
            yield from permission_lines(block)
        case PlanBlock():
            yield from plan_lines(block)
        case NoticeBlock():
            style = NOTICE_STYLES.get(block.severity, "cyan")
            yield line(f"! {block.severity}: {block.title}", style)
            if block.description:
                yield line(block.description, "", INDENT)
        case CompactionBlock():
            yield line(f"context compaction: {block.status.replace('_', ' ')}", "cyan")
            if block.error:
                yield line(block.error, "red", INDENT)
            yield from _items(block.items, INDENT, "dim", options)
        case SubagentBlock():
            state = f" ({block.state})" if block.state else ""
            yield line(f"subagent: {block.title}{state}", "cyan")
            if block.description:
                yield line(block.description, "dim", INDENT)
        case UnknownBlock():
            times = f" × {block.count}" if block.count > 1 else ""
            yield line(f"[unknown update: {block.name}]{times}", "dim")
        case FooterBlock():
            yield from _footer(block)
        case HeadingBlock():
            style = "bold cyan" if block.level == 1 else "cyan"
            facts = " · ".join(block.facts)
            beside = f" · {facts}" if block.level == 2 and facts else ""
            yield line(f"── {block.text}{beside} ──", style)
            if block.level == 1 and facts:
                yield line(facts, "dim")
        case RemarkBlock():
            sign, style = _REMARKS[block.tone]
            yield Line(((block.text, style),), head=((f"{sign} ", style),))
        case _:
            assert_never(block)


# ---- messages --------------------------------------------------------------------------------

MESSAGE_STYLES: Final = {"user": "bold", "agent": "", "thought": "dim italic", "session": ""}
MESSAGE_MARGINS: Final = {"user": "> ", "agent": "", "thought": INDENT, "session": INDENT}


def _message(block: MessageBlock, options: DrawOptions) -> Iterator[Drawable]:
    if block.role == "session":
        yield line(f"message from session {block.sender or 'unknown'}:", "cyan")
    margin, style = MESSAGE_MARGINS[block.role], MESSAGE_STYLES[block.role]
    markdown = MarkdownLines()
    blocks: list[MarkdownBlock] = []
    for piece in joined((*block.items, *block.tail)):
        if isinstance(piece, Item):
            yield from markdown.settled(blocks)
            yield from _items((piece,), margin, style, options)
            blocks = []
        else:
            blocks.append(piece)
    yield from markdown.settled(blocks)


# ---- tool calls ------------------------------------------------------------------------------


def tool_call_lines(block: ToolCallBlock, options: DrawOptions) -> Iterator[Drawable]:
    """A tool call: title and status, locations, results, questions and decisions."""
    yield from tool_call_top(block, options)
    yield from _items(block.items, INDENT, "", options)
    for permission in block.permissions:
        yield from permission_lines(permission, INDENT)
    if block.more_permissions:
        yield line(f"… {counted(block.more_permissions, 'more question')}", "dim italic", INDENT)
    for decision in block.decisions:
        yield line(decision, "dim italic", INDENT)


def tool_call_top(block: ToolCallBlock, options: DrawOptions) -> Iterator[Drawable]:
    """A tool call without its results."""
    yield tool_call_head(block)
    locations = block.unnamed_locations if block.locations else []
    left = len(locations) - options.fold if options.fold is not None else 0
    for location in locations[: options.fold]:
        yield Line(((str(location), path_style(location.path)),), ((INDENT, ""),), prose=False)
    if left > 0:
        yield line(f"… {counted(left, 'more file')}", "dim italic", INDENT)


def item_lines(item: Item, options: DrawOptions) -> Iterator[Drawable]:
    """One item of a tool call."""
    yield from _items((item,), INDENT, "", options)


def path_style(path: str) -> Style:
    """How the path of a file looks: one can click on it where the terminal has links."""
    link = f"file://{quote(path)}" if path.startswith("/") else None
    return Style(color="blue", link=link)


def tool_call_head(block: ToolCallBlock) -> Line:
    """The first line of a tool call: its title and status."""
    style = STATUS_STYLES[block.status]
    parts: Parts = ((block.title, "bold"), (f"  ({block.word})", style))
    if block.kind != "other":
        facts = f"  ({block.kind.replace('_', ' ')}, {block.word})"
        parts = ((f"{block.icon} ", "dim"), (block.title, "bold"), (facts, style))
    return Line(parts, head=((f"{block.glyph} ", style),))


def permission_lines(block: PermissionBlock, margin: str = "") -> Iterator[Drawable]:
    """A question that waits: what it is about, and what can be answered."""
    yield line(f"? {block.title}", "bold magenta", margin)
    inner = margin + INDENT
    if block.description:
        yield line(block.description, "", inner)
    if block.command is not None:
        yield from _command(block.command, block.cwd, inner)
    for option in block.options:
        kind = option.kind.replace("_", " ")
        parts: Parts = ((option.name, ""), (f"  ({kind})", "dim"))
        yield Line(parts, ((inner, ""),), head=(("• ", ""),))
    if block.more_options:
        yield line(f"… {counted(block.more_options, 'more option')}", "dim italic", inner)


# ---- beside the entries ----------------------------------------------------------------------


def plan_lines(block: PlanBlock) -> Iterator[Drawable]:
    """A plan with its check marks; nothing, if there is nothing in it."""
    if not block.steps and not (block.text or "").strip():
        return
    yield line("Plan", "bold")
    for step in block.steps:
        mark: Parts = ((f"{step.mark} ", STATUS_STYLES[step.status]),)
        style = "dim" if step.status in ("completed", "cancelled") else ""
        yield Line(((step.text, style),), ((INDENT, ""),), head=mark)
    if block.text:
        yield line(block.text.rstrip("\n"), "", INDENT)


def _footer(block: FooterBlock) -> Iterator[Drawable]:
    if block.title:
        yield line(block.title, "bold")
    yield line(" · ".join(footer_facts(block)), "dim")


def footer_facts(block: FooterBlock) -> list[str]:
    """The state of the session, fact by fact."""
    facts = [f"{setting.name}: {setting.value}" for setting in block.settings]
    if block.usage:
        facts.append(block.usage)
    facts.append(block.state)
    if block.cancelling:
        facts.append("cancelling")
    return facts


# ---- items ---------------------------------------------------------------------


def _items(
    items: Iterable[Item], margin: str, style: AnyStyle, options: DrawOptions
) -> Iterator[Drawable]:
    for item in items:
        match item:
            case TextItem():
                yield from _text(item, margin, style, options.fold)
            case DescribedItem():
                yield line(item.text, "cyan", margin)
                if options.half_blocks and isinstance(item.content, ImageContent):
                    yield from indented([HalfBlocks(item.content)], margin)
            case DiffItem():
                yield from indented([DiffRows(item, options.fold)], margin)
            case TerminalItem():
                yield from _terminal(item, margin, options)
            case _:
                assert_never(item)


def _text(item: TextItem, margin: str, style: AnyStyle, fold: int | None) -> Iterator[Drawable]:
    text = item.text.strip("\n")
    if not text:
        return
    text, left = _beginning(text, fold)
    if item.markdown or text.startswith("```"):
        drawn = markdown_lines(text)
        if fold is not None and len(drawn) > fold:
            left += len(drawn) - fold
            drawn = drawn[:fold]
        yield from indented(drawn, margin)
    elif fold is None:
        yield line(text, style, margin)
    else:
        rows = text.split("\n")
        left += max(0, len(rows) - fold)
        yield line("\n".join(rows[:fold]), style, margin)
    if left > 0:
        yield line(f"… {counted(left, 'more line')}", "dim italic", margin)


def _beginning(text: str, fold: int | None) -> tuple[str, int]:
    """What can be seen of a text that is folded, and how many lines follow.

    Agents send large texts again and again; so only what will be drawn is read.
    """
    if fold is None:
        return text, 0
    rows = text.split("\n", fold + 2)
    left = 0
    if len(rows) > fold + 2:
        rest = rows.pop()
        left = rest.count("\n") + 1
        left -= text.startswith("```") and rest.endswith("```")
    cut = [
        f"{row[:LONGEST_FOLDED]}… {len(row) - LONGEST_FOLDED:,} more characters"
        if len(row) > LONGEST_FOLDED
        else row
        for row in rows
    ]
    return "\n".join(cut), left


def _terminal(item: TerminalItem, margin: str, options: DrawOptions) -> Iterator[Drawable]:
    if item.command:
        yield from _command(item.command, item.cwd, margin)
    yield from indented(options.output(item, options.fold), margin + INDENT)
    if not item.received:
        yield line("output not received", "dim italic", margin)
    if item.exit and not item.succeeded:
        yield line(item.exit, "red", margin)


def _command(command: str, cwd: str | None, margin: str) -> Iterator[Line]:
    """As a shell shows it: no line of a command can pass for anything else."""
    for number, row in enumerate(command.split("\n")):
        sign: Parts = (("> " if number else "$ ", "bold"),)
        yield Line(((row, "bold"),), ((margin, ""),) if margin else (), prose=False, head=sign)
    if cwd:
        yield line(f"in {cwd}", "dim", margin)


@dataclass(frozen=True, slots=True)
class _Indented:
    drawn: Drawable
    margin: str

    def rows(self, width: int | None) -> list[Parts]:
        room = None if width is None else max(1, width - len(self.margin))
        return [((self.margin, ""), *row) if row else row for row in self.drawn.rows(room)]


def indented(lines: Iterable[Drawable], margin: str) -> Iterator[Drawable]:
    """The same lines behind a margin."""
    for each in lines:
        yield _Indented(each, margin) if margin else each
