"""A session as a document: Markdown, HTML, or JSON Lines, with code and terminals in colours.

The documents are safe to open: what peers sent is text in them, never markup or escape codes.
"""

from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Final, Literal, TypeAlias, assert_never

from twofold.session import Session
from twofold.session.snapshot import snapshot_steps
from twofold.styled import Parts
from twofold.styled.code import Highlighter
from twofold.styled.emulator import whole_output
from twofold.text.safe import one_line
from twofold.view.as_html import Colours, HtmlDocument, StyledRow
from twofold.view.as_markdown import joined_parts, markdown_parts
from twofold.view.blocks import Block, HeadingBlock, TerminalItem
from twofold.view.timeline import outline_steps, turn_headings
from twofold.wire import codec, v2

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
    steps = document_steps(session, form, cwd=cwd, facts=facts)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            text: str = done.value
            return text


def document_steps(
    session: Session,
    form: DocumentFormat,
    *,
    cwd: str | None = None,
    facts: Iterable[str] = (),
) -> Generator[None, None, str]:
    """The document of `session_document`, made step by step; other work may be done between them.

    If the session changes meanwhile, each entry is as it is when its turn has come.

    Returns:
        The document, as the value of the generator.
    """
    match form:
        case "jsonl":
            lines: list[str] = []
            for update in snapshot_steps(session):
                lines.append(_json_line(session, update))
                yield
            return "".join(lines)
        case "markdown":
            parts: list[str] = []
            for block in _block_steps(session, cwd, facts):
                if block is not None:
                    parts += markdown_parts(block)
                yield
            return joined_parts(parts)
        case "html":
            page = HtmlDocument(colours=COLOURS)
            for block in _block_steps(session, cwd, facts):
                if block is not None:
                    page.add(block)
                yield
            return page.text()
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
    return [block for block in _block_steps(session, cwd, facts) if block is not None]


def _block_steps(session: Session, cwd: str | None, facts: Iterable[str]) -> Iterator[Block | None]:
    name = one_line(session.title or "") or f"Session {one_line(session.session_id)}"
    given = (*facts, cwd) if cwd else (*facts,)
    yield HeadingBlock(name, tuple([one_line(fact) for fact in given]))
    yield from outline_steps(session, turn_headings(session), cwd=cwd)


def _json_line(session: Session, update: v2.SessionUpdate) -> str:
    return codec.encode({"sessionId": session.session_id, "update": update}).decode() + "\n"


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
