"""Reads an image from the clipboard with the program that the desktop has for it."""

import asyncio
import base64
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from twofold.errors import LocalError
from twofold.term.images import image_size
from twofold.transport.commands import end_child
from twofold.view.blocks import size
from twofold.wire.content import ImageContent

LARGEST: Final = 20 * 1024 * 1024
"""How many bytes an image may have."""
_PATIENCE: Final = 5.0
"""How many seconds the program may take."""
_TYPES: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The types that are read, the best first."""
_BEGINNINGS: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"RIFF": "image/webp",
    b"GIF8": "image/gif",
}


class ClipboardFailed(LocalError):
    """There is no image in the clipboard, or it cannot be read."""


class ClipboardTool(NamedTuple):
    """A program that reads the clipboard."""

    list_types: tuple[str, ...]
    """The command that lists the types of what is there; empty if the program has only one."""
    read: tuple[str, ...]
    """The command that writes an image; the type follows it if there are several."""


_WAYLAND: Final = ClipboardTool(("wl-paste", "--list-types"), ("wl-paste", "--type"))
_XCLIP: Final = ("xclip", "-selection", "clipboard", "-o", "-t")
_X11: Final = ClipboardTool((*_XCLIP, "TARGETS"), _XCLIP)
_MAC: Final = ClipboardTool((), ("pngpaste", "-"))


def choose_tool(
    environment: Mapping[str, str], is_installed: Callable[[str], bool]
) -> ClipboardTool | None:
    """The program for the clipboard of this environment, if it is installed."""
    usable = (
        (_WAYLAND, bool(environment.get("WAYLAND_DISPLAY"))),
        (_X11, bool(environment.get("DISPLAY"))),
        (_MAC, True),
    )
    found = (tool for tool, fits in usable if fits and is_installed(tool.read[0]))
    return next(found, None)


async def clipboard_image(environment: Mapping[str, str]) -> ImageContent:
    """The image in the clipboard.

    Args:
        environment: Where the display and the programs are looked up.

    Raises:
        ClipboardFailed: There is no image or no program that could read it, or it is too large.
    """
    path = environment.get("PATH")
    tool = choose_tool(environment, lambda name: shutil.which(name, path=path) is not None)
    if tool is None:
        raise ClipboardFailed(
            "There is no program that reads images from the clipboard. Install wl-clipboard "
            "(Wayland), xclip (X11) or pngpaste (macOS), or save the image and type @ and its path."
        )
    command = tool.read
    if tool.list_types:
        offered = (await _output(tool.list_types, environment)).decode("utf-8", "replace").split()
        mime_type = next((each for each in _TYPES if each in offered), None)
        if mime_type is None:
            raise ClipboardFailed("There is no image in the clipboard.")
        command = (*command, mime_type)
    data = await _output(command, environment)
    if len(data) > LARGEST:
        raise ClipboardFailed(f"The image in the clipboard is larger than {size(LARGEST)}.")
    found = [mime_type for start, mime_type in _BEGINNINGS.items() if data.startswith(start)]
    if not found or image_size(data) is None:
        raise ClipboardFailed("There is no image in the clipboard.")
    return ImageContent(base64.b64encode(data).decode(), found[0])


async def _output(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """What a program writes, up to one byte more than an image may have."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environment),
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise ClipboardFailed(f"{command[0]} cannot be started: {reason}.") from None
    assert process.stdout is not None
    data = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            while len(data) <= LARGEST and (piece := await process.stdout.read(1 << 16)):
                data += piece
    except TimeoutError:
        raise ClipboardFailed(f"{command[0]} did not answer in {_PATIENCE:.0f} s.") from None
    finally:
        end_child(process)
        await process.communicate()
    return bytes(data)
