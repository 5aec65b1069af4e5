"""A session as a document in any format: those of `styled.documents`, and plain text.

The documents are safe to open: what peers sent is text in them, never markup or escape codes.
"""

import io
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final, Literal, TypeAlias

from rich.console import Console

from twofold.session import Session
from twofold.styled.documents import COLOURS, session_blocks, session_document
from twofold.term.transcript import render_blocks
from twofold.view.as_html import html_document
from twofold.view.as_markdown import markdown_document
from twofold.view.blocks import Block

Format: TypeAlias = Literal["text", "markdown", "html"]
ExportFormat: TypeAlias = Literal["text", "markdown", "html", "jsonl"]

SUFFIXES: Final[dict[str, ExportFormat]] = {
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}
"""The formats by the suffix of a file."""


def format_of(path: str) -> ExportFormat | None:
    """The format that the suffix of a file names; None if it names none."""
    return SUFFIXES.get(PurePath(path).suffix.lower())


def export(
    session: Session, form: ExportFormat, *, cwd: str | None = None, facts: Iterable[str] = ()
) -> str:
    """A session as a document.

    Args:
        session: The session as it is now.
        form: The format. JSON Lines are the updates that rebuild the session.
        cwd: Its directory, if it is known: paths inside of it are shown relative to it.
        facts: What the heading shows beside the title: the agent, say, and its version.
    """
    if form == "text":
        return document(session_blocks(session, cwd=cwd, facts=facts), form)
    return session_document(session, form, cwd=cwd, facts=facts)


def document(blocks: Iterable[Block], form: Format) -> str:
    """Blocks as a document."""
    match form:
        case "markdown":
            return markdown_document(blocks)
        case "html":
            return html_document(blocks, colours=COLOURS)
        case "text":
            out = io.StringIO()
            render_blocks(blocks, Console(file=out, color_system=None))
            return out.getvalue()
