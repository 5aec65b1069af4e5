"""A session as a document in any format: those of `styled.documents`, and plain text.

The documents are safe to open: what peers sent is text in them, never markup or escape codes.
`/export FILE` writes one to a file, in the format that its suffix names.
"""

import io
import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Final, Literal, NamedTuple, TypeAlias

from rich.console import Console

from twofold.errors import LocalError
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


# ---- files ------------------------------------------------------------------------------------

FORCE: Final = "--force"
"""Before or after the name of the file: an existing file is overwritten."""


class NotExported(LocalError):
    """The session could not be written to a file; the text states why and what to do."""


class Exported(NamedTuple):
    """What was written."""

    path: Path
    size: int
    """How many bytes."""
    lines: int


class Target(NamedTuple):
    """Where to write to."""

    name: str
    force: bool


def parse_target(argument: str) -> Target:
    """The file name and `--force` of an argument; the name may have quotes around it.

    Raises:
        NotExported: There is no name, or the suffix names no format.
    """
    name, force = argument.strip(), False
    if name == FORCE or name.startswith(f"{FORCE} "):
        name, force = name.removeprefix(FORCE).strip(), True
    elif name.endswith(f" {FORCE}"):
        name, force = name.removesuffix(FORCE).strip(), True
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    suffixes = ", ".join(SUFFIXES)
    if not name:
        raise NotExported(f"/export needs the name of a file with one of the suffixes {suffixes}.")
    if format_of(name) is None:
        raise NotExported(
            f"The suffix of {name!r} names no format. Nothing was written: use one of {suffixes}."
        )
    return Target(name, force)


def export_file(target: Target, session: Session, cwd: Path, facts: Iterable[str] = ()) -> Exported:
    """Write a session to a file.

    Args:
        target: Where to; a relative name is relative to `cwd`.
        session: The session as it is now.
        cwd: The directory of the session.
        facts: As for `export`.

    Raises:
        NotExported: The file exists, or cannot be written.
    """
    form = format_of(target.name)
    assert form is not None, "parse_target checks it"
    path = Path(os.path.normpath(cwd / os.path.expanduser(target.name)))
    if not os.path.isdir(path.parent):
        raise NotExported(f"There is no directory {path.parent}. Nothing was written.")
    if os.path.isdir(path):
        raise NotExported(f"{path} is a directory. Nothing was written.")
    data = export(session, form, cwd=str(cwd), facts=facts).encode(errors="replace")
    try:
        with path.open("wb" if target.force else "xb") as file:
            file.write(data)
    except FileExistsError:
        raise NotExported(
            f"{path} exists already. Nothing was written:"
            f" choose another name, or overwrite it with /export {FORCE} {target.name}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotExported(f"{path} cannot be written: {reason}.") from None
    return Exported(path, len(data), data.count(b"\n"))
