"""A session as a document: Markdown, HTML, or JSON Lines, with code and terminals in colours.

The documents are safe to open: what peers sent is text in them, never markup or escape codes.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, TypeAlias, assert_never

from twofold.session import Session, snapshot
from twofold.styled import Parts
from twofold.styled.code import Highlighter
from twofold.styled.emulator import whole_output
from twofold.text.safe import one_line
from twofold.view.as_html import Colours, StyledRow, html_document
from twofold.view.as_markdown import markdown_document
from twofold.view.blocks import Block, HeadingBlock, TerminalItem
from twofold.view.timeline import outline, turn_headings
from twofold.wire import codec

DocumentFormat: TypeAlias = Literal["markdown", "html", "jsonl"]


def session_document(
    session: Session,
    form: DocumentFormat,
    *,
    cwd: str | None = None,
    facts: Iterable[str] = (),
) -> str:
    """A session as a document; the arguments are those of `session_blocks`.

    JSON Lines are the updates that rebuild the session.
    """
    match form:
        case "jsonl":
            return json_lines(session)
        case "markdown":
            return markdown_document(session_blocks(session, cwd=cwd, facts=facts))
        case "html":
            return html_document(session_blocks(session, cwd=cwd, facts=facts), colours=COLOURS)
        case _:
            assert_never(form)


def session_blocks(
    session: Session, *, cwd: str | None = None, facts: Iterable[str] = ()
) -> list[Block]:
    """A session under its heading.

    Args:
        session: The session as it is now.
        cwd: Its directory, if it is known: paths inside of it are shown relative to it.
        facts: What the heading shows beside the title: the agent, say, and its version.
    """
    name = one_line(session.title or "") or f"Session {one_line(session.session_id)}"
    given = (*facts, cwd) if cwd else (*facts,)
    heading = HeadingBlock(name, tuple([one_line(fact) for fact in given]))
    return [heading, *outline(session, turn_headings(session), cwd=cwd)]


def json_lines(session: Session) -> str:
    """The updates that rebuild a session, each on a line."""
    updates = [{"sessionId": session.session_id, "update": each} for each in snapshot(session)]
    return "".join([codec.encode(each).decode() + "\n" for each in updates])


# ---- colours -----------------------------------------------------------------------------------


def _words(rows: Iterable[Parts]) -> list[StyledRow]:
    return [[(text, _style(str(style))) for text, style in row] for row in rows]


@lru_cache(maxsize=512)
def _style(words: str) -> str:
    return "" if words == "none" else words


def _code(language: str, lines: list[str]) -> list[StyledRow]:
    return _words(Highlighter.for_language(language).add(lines))


def _file(path: str, lines: list[str]) -> list[StyledRow]:
    return _words(Highlighter.for_path(path).add(lines))


def _output(item: TerminalItem) -> list[StyledRow]:
    return _words(whole_output(item))


COLOURS: Final = Colours(code=_code, file=_file, output=_output)
"""Colours by Pygments and by the terminal emulator."""
