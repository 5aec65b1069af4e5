"""The blocks of a Markdown text, from top to bottom, as a flat list.

Blocks do not hold blocks: `within` of a block names the quotes and lists around it, outermost
first. So each can be shown as soon as it is settled, whatever it is part of.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Align: TypeAlias = Literal["left", "center", "right"]


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one style; it may hold newlines, which are the line breaks of the paragraph."""

    text: str
    strong: bool = False
    emphasis: bool = False
    strike: bool = False
    code: bool = False
    url: str = ""
    """Where a link or an image leads."""
    image: bool = False
    """Whether the text is the description of an image."""


Spans: TypeAlias = tuple[Span, ...]


# ---- what a block is in --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quote:
    """A block quote."""


@dataclass(frozen=True, slots=True)
class ListItem:
    """An item of a list."""

    number: int | None = None
    """As it was written; None for a bullet."""
    task: bool | None = None
    """Whether it is done, if it is a task."""
    opens: bool = False
    """Whether the block is the first in it, and so is shown beside its mark."""


Within: TypeAlias = tuple[Quote | ListItem, ...]


# ---- blocks ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    spans: Spans
    within: Within = ()


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Prose; without spans it is an item of a list that holds nothing."""

    spans: Spans
    within: Within = ()
    continues: bool = False
    """Whether it goes on with the paragraph before, which was too long to wait for its end."""


@dataclass(frozen=True, slots=True)
class CodeStart:
    """Code begins; its lines follow, one by one."""

    language: str = ""
    fenced: bool = True
    within: Within = ()


@dataclass(frozen=True, slots=True)
class CodeLine:
    text: str
    within: Within = ()
    continues: bool = False
    """Whether it goes on with the line before, which was too long to wait for its end."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A thematic break."""

    within: Within = ()


Cells: TypeAlias = tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its first rows; a row may have fewer cells than the header, never more."""

    header: Cells
    aligns: tuple[Align, ...]
    rows: tuple[Cells, ...]
    within: Within = ()


@dataclass(frozen=True, slots=True)
class TableRow:
    """A further row of the table before."""

    cells: Cells
    within: Within = ()


@dataclass(frozen=True, slots=True)
class Blank:
    """A blank line between two blocks, inside everything that both of them are in."""

    within: Within = ()


MarkdownBlock: TypeAlias = (
    Heading | Paragraph | CodeStart | CodeLine | Rule | Table | TableRow | Blank
)
