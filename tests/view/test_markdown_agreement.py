"""Markdown as others read it: markdown-it, on what language models write."""

from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.markdown_texts import DOCUMENTS, blocks, texts
from twofold.view.markdown import (
    CodeLine,
    CodeStart,
    Heading,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Table,
)

Event = tuple[Any, ...]


def ours(text: str) -> list[Event]:
    """Kinds of blocks with their text and where they are."""
    made: list[Event] = []
    code: list[str] = []

    def place(block: MarkdownBlock) -> str:
        return "".join(">" if isinstance(each, Quote) else "-" for each in block.within)

    for block in blocks(text):
        match block:
            case Heading():
                made.append((place(block), f"h{block.level}", texts(block.spans)))
            case Paragraph():
                made.append((place(block), "p", styled(block.spans)))
            case CodeStart():
                code = []
                made.append((place(block), "code", block.language, code))
            case CodeLine():
                code.append(block.text)
            case Rule():
                made.append((place(block), "hr"))
            case Table():
                rows = [block.header, *block.rows]
                full = [[*map(styled, row), *[()] * (len(block.aligns) - len(row))] for row in rows]
                made.append((place(block), "table", full))
    return made


def styled(found: tuple[Span, ...]) -> Any:
    return tuple(
        (span.text, span.strong, span.emphasis, span.strike, span.code, span.url) for span in found
    )


def theirs(text: str) -> list[Event]:
    """The same as markdown-it reads it."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made: list[Event] = []
    place = ""
    rows: list[list[Any]] = []
    in_table = False
    tag = "p"
    for token in parser.parse(text):
        match token.type:
            case "blockquote_open" | "list_item_open":
                place += ">" if token.type == "blockquote_open" else "-"
            case "blockquote_close" | "list_item_close":
                place = place[:-1]
            case "heading_open" | "paragraph_open":
                tag = token.tag
            case "table_open":
                in_table, rows = True, []
                made.append((place, "table", rows))
            case "table_close":
                in_table = False
            case "tr_open":
                rows.append([])
            case "inline" if in_table:
                rows[-1].append(their_spans(token))
            case "inline":
                found = their_spans(token)
                made.append((place, tag, found if tag == "p" else "".join(s[0] for s in found)))
            case "fence" | "code_block":
                made.append(
                    (
                        place,
                        "code",
                        token.info.strip(),
                        token.content.removesuffix("\n").split("\n"),
                    )
                )
            case "hr":
                made.append((place, "hr"))
    return made


def their_spans(inline: Token) -> Any:
    made: list[list[Any]] = []
    depth = {"strong": 0, "em": 0, "s": 0}
    url = ""
    for token in inline.children or []:
        kind = token.type.rpartition("_")
        if token.type == "link_open":
            url = str(token.attrs["href"])
        elif token.type == "link_close":
            url = ""
        elif kind[0] in depth:
            depth[kind[0]] += token.nesting
        else:
            text = "\n" if token.type in ("softbreak", "hardbreak") else token.content
            target = str(token.attrs["src"]) if token.type == "image" else url
            style = [*(level > 0 for level in depth.values()), token.type == "code_inline", target]
            if made and made[-1][1:] == style:
                made[-1][0] += text
            elif text:
                made.append([text, *style])
    return tuple(tuple(span) for span in made)


@pytest.mark.parametrize("text", DOCUMENTS)
def test_documents_are_read_as_others_read_them(text: str) -> None:
    assert ours(text) == theirs(text)
