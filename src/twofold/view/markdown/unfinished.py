"""What is open between two lines of a markdown text: immutable values, to be copied for nothing."""

from typing import NamedTuple, TypeAlias

from twofold.view.markdown.blocks import Align, Cells, ListItem, Quote
from twofold.view.markdown.markers import Fence


class Container(NamedTuple):
    """A quote or an item of a list."""

    key: int
    """No two of a text have the same."""
    offset: int | None = None
    """How far the text of an item is indented; None for a quote."""
    number: int | None = None
    task: bool | None = None
    shown: bool = False
    """Whether a block stands in it already."""

    def public(self, opens: bool) -> Quote | ListItem:
        """How a block says that it is in here."""
        return Quote() if self.offset is None else ListItem(self.number, self.task, opens)


class OpenParagraph(NamedTuple):
    """Lines of prose."""

    text: str
    continues: bool = False


class OpenIndented(NamedTuple):
    """Indented code, all of it settled but for blank lines."""

    blanks: int = 0
    """They belong to the code if more of it follows."""


class OpenTable(NamedTuple):
    """A table; its rows wait until they are settled together, then none does."""

    header: Cells
    aligns: tuple[Align, ...]
    rows: tuple[Cells, ...] = ()
    size: int = 0
    settled: bool = False


Leaf: TypeAlias = OpenParagraph | OpenIndented | OpenTable | Fence | None
"""What stands in the innermost container and goes on with the next line."""
