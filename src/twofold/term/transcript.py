"""A session printed from top to bottom.

Where the console is a terminal, text is wrapped and coloured; anywhere else it is plain text with
every line as long as it is. What peers wrote is never taken for markup or escape codes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias, assert_never

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

from twofold.session import Session
from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    Item,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PlanBlock,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
)
from twofold.view.diff import DiffLine
from twofold.view.outline import outline

STATUS_STYLES = {
    "pending": "dim",
    "in_progress": "yellow",
    "paused": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "red dim",
    "cancelling": "red dim",
    "waiting": "bold magenta",
}
DIFF_STYLES = {
    "file": "bold",
    "hunk": "cyan",
    "added": "green",
    "removed": "red",
    "context": "dim",
    "note": "dim italic",
}
DIFF_SIGNS = {"added": "+", "removed": "-", "context": " "}
NOTICE_STYLES = {"info": "cyan", "warning": "yellow", "error": "red"}

# Blocks go to the console in batches: one by one is slow, all at once holds everything twice.
_BATCH = 200

_INDENT = "  "


Style: TypeAlias = str


class _Line(NamedTuple):
    """Styled text behind a margin, on a line or several; prose is wrapped between words."""

    parts: tuple[tuple[str, Style], ...]
    margin: str
    prose: bool


def render(session: Session, console: Console) -> None:
    """Print the session as it is now."""
    printer = _Printer(console)
    for block in outline(session):
        printer.add(list(_lines(block)))
    printer.flush()


class _Printer:
    """Puts blocks on a console, a blank line between any two."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._terminal = console.is_terminal
        utf = console.encoding.lower().startswith("utf")
        self._encoding = None if utf else console.encoding
        self._segments: list[Segment] = []
        self._waiting = 0
        self._above = False  # whether something stands above the next block

    def add(self, lines: list[_Line]) -> None:
        """Print a block, sooner or later; one without lines leaves no trace."""
        if not lines:
            return
        if self._above:
            self._segments.append(Segment("\n"))
        self._above = True
        if self._terminal:
            for line in lines:
                for row in self._rows(line):
                    if row:
                        self._segments += (Segment(line.margin), *row)
                    self._segments.append(Segment("\n"))
        else:
            self._segments.append(Segment("".join([_plain(line) for line in lines])))
        self._waiting += 1
        if self._waiting >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Print what waits."""
        if self._encoding:
            self._segments = [self._encodable(segment) for segment in self._segments]
        self._console.print(Segments(self._segments), end="", soft_wrap=True)
        self._segments, self._waiting = [], 0

    def _rows(self, line: _Line) -> Iterator[list[Segment]]:
        """The line in its styles, in as many rows of the screen as it takes."""
        width = max(20, self._console.width - len(line.margin))
        if len(line.parts) > 1:
            for part in Text.assemble(*line.parts).wrap(self._console, width, overflow="fold"):
                yield list(part.render(self._console))
            return
        ((text, style_name),) = line.parts
        style = self._console.get_style(style_name)
        for row in text.expandtabs().split("\n"):
            if cell_len(row) <= width:
                yield [Segment(row, style)] if row else []
            elif line.prose:
                for part in Text(row).wrap(self._console, width, overflow="fold"):
                    yield [Segment(part.plain, style)]
            else:  # code and output are cut where they leave the screen
                yield from ([Segment(part, style)] for part in chop_cells(row, width))

    def _encodable(self, segment: Segment) -> Segment:
        """The segment as far as the console's encoding knows its characters."""
        assert self._encoding is not None
        text = segment.text.encode(self._encoding, "replace").decode(self._encoding)
        return Segment(text, segment.style)


def _plain(line: _Line) -> str:
    rows = "".join([text for text, _ in line.parts]).split("\n")
    return "".join([f"{line.margin}{row}\n" if row else "\n" for row in rows])


# ---- what the blocks look like -------------------------------------------------------------


def _line(text: str, style: Style = "", margin: str = "", *, prose: bool = True) -> _Line:
    return _Line(((text, style),), margin, prose)


def _lines(block: Block) -> Iterator[_Line]:
    match block:
        case MessageBlock():
            yield from _message(block)
        case ToolCallBlock():
            yield from _tool_call(block)
        case PermissionBlock():
            yield from _permission(block, "")
        case PlanBlock():
            yield from _plan(block)
        case NoticeBlock():
            style = NOTICE_STYLES.get(block.severity, "cyan")
            yield _line(f"! {block.severity}: {block.title}", style)
            if block.description:
                yield _line(block.description, "", _INDENT)
        case CompactionBlock():
            yield _line(f"context compaction: {block.status.replace('_', ' ')}", "cyan")
            if block.error:
                yield _line(block.error, "red", _INDENT)
            yield from _items(block.items, _INDENT, "dim")
        case SubagentBlock():
            state = f" ({block.state})" if block.state else ""
            yield _line(f"subagent: {block.title}{state}", "cyan")
            if block.description:
                yield _line(block.description, "dim", _INDENT)
        case UnknownBlock():
            times = f" × {block.count}" if block.count > 1 else ""
            yield _line(f"[unknown update: {block.name}]{times}", "dim")
        case FooterBlock():
            yield from _footer(block)
        case _:
            assert_never(block)


_MESSAGE_STYLES = {"user": "bold", "agent": "", "thought": "dim italic", "session": ""}
_MESSAGE_MARGINS = {"user": "> ", "agent": "", "thought": _INDENT, "session": _INDENT}


def _message(block: MessageBlock) -> Iterator[_Line]:
    if block.role == "session":
        yield _line(f"message from session {block.sender or 'unknown'}:", "cyan")
    yield from _items(block.items, _MESSAGE_MARGINS[block.role], _MESSAGE_STYLES[block.role])


def _tool_call(block: ToolCallBlock) -> Iterator[_Line]:
    style = STATUS_STYLES[block.status]
    facts = block.word if block.kind == "other" else f"{block.kind.replace('_', ' ')}, {block.word}"
    head = ((f"{block.glyph} ", style), (block.title, "bold"), (f"  ({facts})", style))
    yield _Line(head, "", prose=True)
    diffs = [item.lines for item in block.items if isinstance(item, DiffItem)]
    named = {line.text for lines in diffs for line in lines if line.kind == "file"}
    for location in block.locations:
        # a diff names its file itself
        if location.path not in named and f"{location.path} (new file)" not in named:
            yield _line(str(location), "blue", _INDENT)
    yield from _items(block.items, _INDENT, "")
    for permission in block.permissions:
        yield from _permission(permission, _INDENT)


def _permission(block: PermissionBlock, margin: str) -> Iterator[_Line]:
    yield _line(f"? {block.title}", "bold magenta", margin)
    inner = margin + _INDENT
    if block.description:
        yield _line(block.description, "", inner)
    if block.command is not None:
        yield from _command(block.command, block.cwd, inner)
    for option in block.options:
        kind = option.kind.replace("_", " ")
        yield _Line(((f"• {option.name}", ""), (f"  ({kind})", "dim")), inner, prose=True)


def _plan(block: PlanBlock) -> Iterator[_Line]:
    yield _line("Plan", "bold")
    for step in block.steps:
        parts = ((f"{step.mark} ", STATUS_STYLES[step.status]), (step.text, ""))
        yield _Line(parts, _INDENT, prose=True)
    if block.text:
        yield _line(block.text.rstrip("\n"), "", _INDENT)


def _footer(block: FooterBlock) -> Iterator[_Line]:
    if block.title:
        yield _line(block.title, "bold")
    facts = [f"{setting.name}: {setting.value}" for setting in block.settings]
    if block.usage:
        facts.append(block.usage)
    facts.append(block.state)
    if block.cancelling:
        facts.append("cancelling")
    yield _line(" · ".join(facts), "dim")


# ---- what stands in them -------------------------------------------------------------------


def _items(items: Iterable[Item], margin: str, style: Style) -> Iterator[_Line]:
    for item in items:
        match item:
            case TextItem():
                text = item.text.strip("\n")
                if text:
                    yield _line(text, style, margin)
            case DescribedItem():
                yield _line(item.text, f"{style} cyan", margin)
            case DiffItem():
                yield from (_diff_line(line, margin) for line in item.lines)
            case TerminalItem():
                yield from _terminal(item, margin)
            case _:
                assert_never(item)


def _diff_line(line: DiffLine, margin: str) -> _Line:
    text = DIFF_SIGNS.get(line.kind, "") + line.text
    return _line(text, DIFF_STYLES[line.kind], margin, prose=False)


def _terminal(item: TerminalItem, margin: str) -> Iterator[_Line]:
    if item.command:
        yield from _command(item.command, item.cwd, margin)
    text = item.text.rstrip()
    if text:
        yield _line(text, "dim", margin + _INDENT, prose=False)
    if not item.received:
        yield _line("output not received", "dim italic", margin)
    if item.exit:
        yield _line(item.exit, "green" if item.succeeded else "red", margin)


def _command(command: str, cwd: str | None, margin: str) -> Iterator[_Line]:
    yield _line(f"$ {command}", "bold", margin, prose=False)
    if cwd:
        yield _line(f"in {cwd}", "dim", margin)
