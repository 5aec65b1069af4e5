"""What a person or a program wants to say → the blocks of a prompt.

Text, files and content blocks; only what the agent said it can take. A file becomes an image where
it is one, a resource with its text where the agent takes those, and a link otherwise. Anything
that the agent cannot take is refused here, before it is sent.
"""

import base64
import mimetypes
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from twofold.errors import LocalError
from twofold.runtime.errors import NotSupported
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
"""Files up to this size travel inside the prompt; larger ones as a link."""

_WORDS: dict[type, tuple[str, str]] = {
    ImageContent: ("image", "images"),
    AudioContent: ("audio", "audio"),
    EmbeddedResource: ("embedded_context", "embedded resources"),
}


class FileNotReadable(LocalError):
    """A file that should go with the prompt cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot go with the prompt: {reason}")
        self.path = path
        self.reason = reason


def blocks_of(
    parts: tuple[Part, ...], able: v2.PromptCapabilities, agent: str
) -> list[ContentBlock]:
    """The blocks of a prompt; raises `NotSupported` for what the agent cannot take."""
    if not parts or all(isinstance(part, str) and not part for part in parts):
        raise LocalError("A prompt needs some content.")
    blocks = [_block(part, able) for part in parts]
    for block in blocks:
        name, words = _WORDS.get(type(block), ("", ""))
        if name and getattr(able, name) in (UNSET, None):
            raise NotSupported(
                f"{agent} does not take {words} in prompts. Send text or a link instead."
            )
    return blocks


def _block(part: Part, able: v2.PromptCapabilities) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(part)
    if isinstance(part, PathLike):
        return _file(Path(part), able)
    return part


def _file(path: Path, able: v2.PromptCapabilities) -> ContentBlock:
    path = path.absolute()
    kind = mimetypes.guess_type(path.name)[0]
    try:
        size = path.stat().st_size
        if kind and kind.startswith("image/") and able.image:
            data = base64.b64encode(path.read_bytes()).decode()
            return ImageContent(data, kind, uri=path.as_uri())
        if able.embedded_context and size <= EMBEDDED and path.is_file():
            text = path.read_text(encoding="utf-8")
            return EmbeddedResource(TextResourceContents(text, path.as_uri(), kind or UNSET))
    except UnicodeDecodeError:
        pass  # not text: a link says where it is
    except OSError as error:
        raise FileNotReadable(path, error.strerror or str(error)) from None
    return ResourceLink(path.name, path.as_uri(), mime_type=kind or UNSET, size=size)
