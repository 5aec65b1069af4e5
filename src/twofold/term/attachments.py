"""Lines that show what was attached to a prompt, from the blocks that are sent."""

import os
import stat
from collections.abc import Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Final

from twofold.client.prompt_blocks import PLAYED, Part
from twofold.term.input.image_marks import image_words
from twofold.term.lines import Line, line
from twofold.text import one_line
from twofold.view.blocks import base64_size, size
from twofold.wire import v2
from twofold.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextResourceContents,
)

MOST_ENTRIES: Final = 1000
"""How many entries of a directory are counted."""
_MARGIN: Final = "  └ "


def attachment_lines(
    parts: Sequence[Part], blocks: Sequence[ContentBlock], able: v2.PromptCapabilities, cwd: Path
) -> list[Line]:
    """One line for each part that is not text.

    Args:
        parts: What the prompt is made of.
        blocks: The block of each part.
        able: What the agent accepts.
        cwd: Paths in it are shown relative to it.
    """
    made = []
    for part, block in zip(parts, blocks, strict=True):
        if not isinstance(part, str):
            path = Path(part) if isinstance(part, PathLike) else None
            name = "clipboard" if path is None else _relative(path, cwd)
            kind, problem = _described(path, block, able)
            style = "yellow" if problem else "dim"
            words = f"{name} · {kind}{f': {problem}' if problem else ''}"
            made.append(line(one_line(words), style, _MARGIN))
    return made


def _described(
    path: Path | None, block: ContentBlock, able: v2.PromptCapabilities
) -> tuple[str, str]:
    """How something is sent, and why not as a person would expect."""
    match block:
        case ImageContent():
            return f"image, {image_words(block)}", ""
        case AudioContent():
            return f"audio, {base64_size(block.data)}", ""
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return f"embedded, {_counted(len(text.splitlines()), 'line')}", ""
        case ResourceLink() if path is not None:
            return _link(path, block, able)
    return "attached", ""


def _link(path: Path, link: ResourceLink, able: v2.PromptCapabilities) -> tuple[str, str]:
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return f"directory, {_entries(path)}, sent as a link", ""
    except OSError:
        return "sent as a link", ""
    if not stat.S_ISREG(status.st_mode):
        return "sent as a link", "it is not a regular file, so it is not read"
    how = f"{size(status.st_size)}, sent as a link"
    mime_type = link.mime_type if isinstance(link.mime_type, str) else ""
    if not mime_type.startswith("image/") or mime_type.endswith("+xml"):
        return how, ""
    if not able.image:
        return how, "the agent takes no images"
    return how, f"images may have {size(PLAYED)}" if status.st_size > PLAYED else ""


def _entries(path: Path) -> str:
    try:
        with os.scandir(path) as entries:
            number = sum(1 for _ in islice(entries, MOST_ENTRIES + 1))
    except OSError:
        return "not readable"
    if number > MOST_ENTRIES:
        return f"more than {MOST_ENTRIES:,} entries"
    return f"{number:,} entr{'y' if number == 1 else 'ies'}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _relative(path: Path, cwd: Path) -> str:
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return f"{shown}/" if path.is_dir() else f"{shown}"
