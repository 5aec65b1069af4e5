"""Text, files and content blocks of a caller → the blocks of a prompt.

A file becomes an image or a sound where it is one, a resource with its text where the agent
accepts those, and a link otherwise. What the agent does not accept is refused before it is sent.
"""

import base64
import mimetypes
import os
import stat
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from twofold.errors import LocalError, NotSupported
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

Part: TypeAlias = str | PathLike[str] | ContentBlock
"""What a prompt may be made of: text, the path of a file, a content block."""

EMBEDDED = 256 * 1024
"""Texts up to this size are sent inside the prompt; larger ones as a link."""
PLAYED = 20 * 1024 * 1024
"""Images and sounds up to this size are sent inside the prompt; larger ones as a link."""

_NEEDS: dict[type, tuple[str, str]] = {
    ImageContent: ("image", "images"),
    AudioContent: ("audio", "audio"),
    EmbeddedResource: ("embedded_context", "embedded resources"),
}


class FileNotReadable(LocalError):
    """A file of a prompt cannot be read.

    Attributes:
        path: The file.
        reason: Why it cannot be read or sent.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be sent with the prompt: {reason}")
        self.path = path
        self.reason = reason


def blocks_of(
    parts: tuple[Part, ...], able: v2.PromptCapabilities, agent: str
) -> list[ContentBlock]:
    """The blocks of a prompt.

    Raises:
        LocalError: There is no content, or a part is of another type.
        FileNotReadable: A file cannot be read.
        NotSupported: The agent does not accept a block of this kind.
    """
    blocks = [_block(part, able) for part in parts if part != ""]
    if not blocks:
        raise LocalError("A prompt needs some content.")
    for block in blocks:
        capability, words = _NEEDS.get(type(block), ("", ""))
        if capability and not getattr(able, capability):
            raise NotSupported(
                f"{agent} does not accept {words} in prompts. Send text or a link instead."
            )
    return blocks


def _block(part: Part, able: v2.PromptCapabilities) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(part)
    if isinstance(part, PathLike):
        return _file(Path(part).absolute(), able)
    if not isinstance(part, ContentBlock):
        raise LocalError(
            f"A prompt is made of text, paths and content blocks, not of {type(part).__name__}."
        )
    return part


def _file(path: Path, able: v2.PromptCapabilities) -> ContentBlock:
    kind = mimetypes.guess_type(path.name)[0] or ""
    try:
        size = path.stat().st_size
        if not path.is_file():  # a directory, or a pipe that would block
            return ResourceLink(path.name, path.as_uri())
        return _inside(path, kind, size, able) or ResourceLink(
            path.name, path.as_uri(), mime_type=kind or UNSET, size=size
        )
    except OSError as error:
        raise FileNotReadable(path, error.strerror or str(error)) from None


def _inside(path: Path, kind: str, size: int, able: v2.PromptCapabilities) -> ContentBlock | None:
    """The file itself, if it may be sent inside the prompt."""
    if size <= PLAYED:
        # a model reads a drawing in XML as text
        if able.image and kind.startswith("image/") and not kind.endswith("+xml"):
            data = _read(path, PLAYED)
            return (
                ImageContent(_base64(data), kind, uri=path.as_uri()) if data is not None else None
            )
        if able.audio and kind.startswith("audio/"):
            data = _read(path, PLAYED)
            return AudioContent(_base64(data), kind) if data is not None else None
    if able.embedded_context and size <= EMBEDDED:
        data = _read(path, EMBEDDED)
        if data is None:
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None  # not text: sent as a link
        return EmbeddedResource(TextResourceContents(text, path.as_uri(), kind or UNSET))
    return None


def _read(path: Path, most: int) -> bytes | None:
    """The content of a regular file; None if it has grown beyond the limit, or is not one."""
    with open(path, "rb", opener=_opened) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        data = file.read(most + 1)
    return data if len(data) <= most else None


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a named pipe must not block


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
