"""Markdown as language models write it, while they write it.

`Markdown` takes text in any pieces and returns the blocks that are settled. The cost grows with the
new text only, and what is not settled yet is never more than a few thousand characters. It depends
on no toolkit, and expects text that is safe to show already (`twofold.text.safe`).

It is CommonMark with tables, task lists, struck out text and bare URLs, but for what a stream or a
conversation needs otherwise:

- a line break in a paragraph stays a line break;
- list items keep the number that was written;
- raw HTML is text, and so is what is between its tags;
- references to link definitions and the definitions are text, as they may come after their use;
- titles of links are left out, and a link without text shows its target;
- one tilde is a tilde: only two strike out;
- names as `__init__.py` and `__call__()` are not taken for strong text;
- a paragraph of more than 4,096 characters goes on in another one, a longer line of code in
  another line, and a longer heading or table row in a paragraph; a table with more than 20 rows
  goes on row by row;
- more than 20 quotes and lists in each other, and more than 64 columns, are text.
"""

from twofold.view.markdown.blocks import (
    Align,
    Blank,
    Cells,
    CodeLine,
    CodeStart,
    Heading,
    ListItem,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    TableRow,
    Within,
)
from twofold.view.markdown.structure import Markdown

__all__ = [
    "Align",
    "Blank",
    "Cells",
    "CodeLine",
    "CodeStart",
    "Heading",
    "ListItem",
    "Markdown",
    "MarkdownBlock",
    "Paragraph",
    "Quote",
    "Rule",
    "Span",
    "Spans",
    "Table",
    "TableRow",
    "Within",
]
