"""Blocks as a Markdown document.

What the agent wrote as Markdown stays as it was written, made safe to show, but for what would
take in the text after it; everything else is fenced, quoted or escaped, so that it cannot end its
own part of the document. Pure: the same blocks give the same document.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, assert_never

from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    HeadingBlock,
    Item,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PlanBlock,
    PlanStep,
    RemarkBlock,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
    content_items,
)
from twofold.view.diff import DiffLine, DiffLineKind

_SIGNS: Final[dict[DiffLineKind, str]] = {
    "added": "+",
    "removed": "-",
    "context": " ",
    "hunk": "",
    "note": "\\ ",
}
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&$]")
_FIRST = re.compile(r"^(\d*)([#+\-=.)])")  # what makes a heading or a list of a line
_ITEM = re.compile(r" *(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_TAG = re.compile(r"(?:[ \t>]|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))*<[a-zA-Z/!?]")  # HTML may begin
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
# HTML that begins a block which goes on over blank lines, maybe to the end of the document.
_HTML = re.compile(r"^( {0,3})<(?=script|pre|style|textarea|!|\?)", re.IGNORECASE | re.MULTILINE)


def markdown_document(blocks: Iterable[Block]) -> str:
    """The blocks as one document, which ends with a newline."""
    return joined_parts(part for block in blocks for part in markdown_parts(block))


def markdown_parts(block: Block) -> list[str]:
    """The parts of a document that a block becomes."""
    return [part for part in _block(block) if part.strip()]


def joined_parts(parts: Iterable[str]) -> str:
    """The parts as one document."""
    text = "\n\n".join(parts)
    return text + "\n" if text else ""


def escaped(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    return _FIRST.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", text))


def fenced(text: str, language: str = "") -> str:
    """Text in a fence that nothing in it can close."""
    runs = [len(run) for run in re.findall(r"`+", text)]
    fence = "`" * max(3, max(runs, default=0) + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def quoted(text: str) -> str:
    """Text as a block quote."""
    return "\n".join([f"> {line}" if line else ">" for line in text.strip("\n").split("\n")])


def closed(text: str) -> str:
    """Markdown of the agent, unchanged but for what would take in the text that follows it.

    A fence that is left open is closed, and HTML that could go on to the end of the document is
    escaped.
    """
    made: list[str] = []
    readings: set[_Fence | None] = {None}  # None: outside of every fence
    lists = html = False
    for line in text.strip("\n").split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if line.strip():
            readings = {fence if fence and indent >= fence.depth else None for fence in readings}
        if None in readings:
            lists = lists or _ITEM.match(line) is not None
            html = bool(line.strip()) and (html or _TAG.match(line) is not None)
        if (found := _FENCE.match(line)) is not None:
            readings = {
                after
                for fence in readings
                for after in _after(fence, found, indent if lists else 0, html=html)
            }
        elif None in readings:
            line = _HTML.sub(r"\1\\<", line)
        made.append(line)
    return "\n".join([*made, *_ends(readings)])


class _Fence(NamedTuple):
    """A fence that may be open."""

    mark: str
    depth: int
    """It is in an item of a list: a line that is indented less ends it. 0: only a mark does."""


def _after(
    fence: _Fence | None, line: re.Match[str], indent: int, *, html: bool
) -> Iterator[_Fence | None]:
    """What a line that looks like a fence may mean where `fence` is open.

    Args:
        fence: The fence that is open, if one is.
        line: The line.
        indent: How far it is indented, if it may be in an item of a list.
        html: Whether it may be in HTML, where it means nothing.
    """
    mark, info = line["fence"], line["info"]
    if fence is not None:
        closes = mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not info.strip()
        yield None if closes else fence
    elif mark[0] == "`" and "`" in info:
        yield None
    else:
        yield from (_Fence(mark, depth) for depth in range(indent + 1))
        if html:
            yield None


def _ends(readings: set[_Fence | None]) -> list[str]:
    """The lines that end what may be open.

    In a comment a mark closes a fence if one is open, and else means nothing.
    """
    marks = sorted({fence.mark for fence in readings if fence is not None and not fence.depth})
    if readings == {_Fence(mark, 0) for mark in marks} and len(marks) == 1:
        return marks
    longest = {mark[0]: mark for mark in sorted(marks, key=len)}
    return [line for mark in longest.values() for line in ("", "<!--", mark, "-->")]


# ---- blocks ------------------------------------------------------------------------------------


def _block(block: Block) -> Iterator[str]:
    match block:
        case MessageBlock():
            yield from _message(block)
        case ToolCallBlock():
            yield from _tool_call(block)
        case PermissionBlock():
            yield from _permission(block)
        case PlanBlock():
            yield "### Plan"
            yield "\n".join(map(_step, block.steps)) if block.steps else closed(block.text or "")
        case NoticeBlock():
            yield f"**{escaped(block.severity)}:** {escaped(block.title)}"
            yield quoted(block.description) if block.description else ""
        case CompactionBlock():
            yield f"*Context compaction: {escaped(block.status.replace('_', ' '))}*"
            yield escaped(block.error) if block.error else ""
            yield from _items(block.items)
        case SubagentBlock():
            state = f" ({escaped(block.state)})" if block.state else ""
            yield f"**Subagent:** {escaped(block.title)}{state}"
            yield quoted(block.description) if block.description else ""
        case UnknownBlock():
            times = f" × {block.count}" if block.count > 1 else ""
            yield f"*{escaped(f'[unknown update: {block.name}]')}{times}*"
        case FooterBlock():
            yield f"**{escaped(block.title)}**" if block.title else ""
            facts = [f"{setting.name}: {setting.value}" for setting in block.settings]
            facts += [each for each in (block.usage, block.state) if each]
            yield f"*{escaped(' · '.join(facts))}*"
        case HeadingBlock():
            facts = [escaped(fact) for fact in block.facts]
            beside = [""] if block.level == 1 else [*facts]
            yield f"{'#' * block.level} {' · '.join(filter(None, [escaped(block.text), *beside]))}"
            yield " · ".join(facts) if block.level == 1 else ""
        case RemarkBlock():
            yield f"*{escaped(block.text)}*"
        case _:
            assert_never(block)


_SPEAKERS: Final = {"user": "**User:**", "agent": "", "thought": "*Thought:*", "session": ""}


def _message(block: MessageBlock) -> Iterator[str]:
    """A message as it was sent, if the block still has that; else as plain text."""
    yield _SPEAKERS[block.role]
    if block.role == "session":
        yield f"**Message from session {escaped(block.sender or 'unknown')}:**"
    sent = block.message.content if block.message is not None else ()
    items = content_items(sent) or [item for item in block.items if isinstance(item, Item)]
    for item in items:
        if not isinstance(item, TextItem):
            yield from _items((item,))
        else:
            yield closed(item.text) if block.role == "agent" else quoted(item.text)


def _tool_call(block: ToolCallBlock) -> Iterator[str]:
    kind = [] if block.kind == "other" else [block.kind.replace("_", " ")]
    yield f"### {block.glyph} {escaped(block.title)}"
    facts = [f"*{escaped(', '.join([*kind, block.word]))}*"]
    facts += [_code(str(location)) for location in block.unnamed_locations]
    yield " · ".join(facts)
    yield from _items(block.items)
    for permission in block.permissions:
        yield from _permission(permission)
    yield "\n".join([f"- {escaped(decision)}" for decision in block.decisions])


def _permission(block: PermissionBlock) -> Iterator[str]:
    yield f"**Waiting for permission:** {escaped(block.title)}"
    yield quoted(block.description) if block.description else ""
    if block.command is not None:
        yield fenced(block.command, "sh")
    yield "\n".join([f"- {escaped(option.name)}" for option in block.options])


def _step(step: PlanStep) -> str:
    text = escaped(step.text)
    shown = {"cancelled": f"~~{text}~~", "in_progress": f"{text} (in progress)"}
    return f"- [{'x' if step.status == 'completed' else ' '}] {shown.get(step.status, text)}"


# ---- items -------------------------------------------------------------------------------------


def _items(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        match item:
            case TextItem():
                text = item.text.strip("\n")
                yield closed(text) if item.markdown else fenced(text) if text else ""
            case DescribedItem():
                yield escaped(item.text)
            case DiffItem():
                yield from _diff(item.lines)
            case TerminalItem():
                yield from _terminal(item)
            case _:
                assert_never(item)


def _diff(lines: Sequence[DiffLine]) -> Iterator[str]:
    """Every file under its name."""
    rows: list[str] = []
    for line in lines:
        if line.kind != "file":
            rows.append(_SIGNS[line.kind] + line.text)
            continue
        yield fenced("\n".join(rows), "diff") if rows else ""
        rows = []
        yield _code(line.text)
    yield fenced("\n".join(rows), "diff") if rows else ""


def _terminal(item: TerminalItem) -> Iterator[str]:
    command = ["$ " + item.command.replace("\n", "\n> ")] if item.command else []
    text = item.text.strip("\n")
    yield fenced("\n".join([*command, *([text] if text else [])]), "console")
    facts = [f"in {item.cwd}"] if item.cwd else []
    facts += [] if item.received else ["output not received"]
    facts += [item.exit] if item.exit and not item.succeeded else []
    yield f"*{escaped(', '.join(facts))}*" if facts else ""


def _code(text: str) -> str:
    """A short text as code, whatever it holds."""
    runs = [len(run) for run in re.findall(r"`+", text)]
    ticks = "`" * (max(runs, default=0) + 1)
    space = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{space}{text}{space}{ticks}"
