"""What to show of a session, without any toolkit."""

from twofold.view.blocks import (
    Block,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    Item,
    Location,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PermissionOption,
    PlanBlock,
    PlanStep,
    Setting,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
)
from twofold.view.diff import DiffLine, diff_lines
from twofold.view.outline import entry_block, footer, outline
from twofold.view.terminal import TerminalText, terminal_text
from twofold.view.text import one_line, sanitize

__all__ = [
    "Block",
    "CompactionBlock",
    "DescribedItem",
    "DiffItem",
    "DiffLine",
    "FooterBlock",
    "Item",
    "Location",
    "MessageBlock",
    "NoticeBlock",
    "PermissionBlock",
    "PermissionOption",
    "PlanBlock",
    "PlanStep",
    "Setting",
    "SubagentBlock",
    "TerminalItem",
    "TerminalText",
    "TextItem",
    "ToolCallBlock",
    "UnknownBlock",
    "diff_lines",
    "entry_block",
    "footer",
    "one_line",
    "outline",
    "sanitize",
    "terminal_text",
]
