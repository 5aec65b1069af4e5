"""Copies a text: by an escape sequence of the terminal (OSC 52), and with a tool of this machine.

The terminal is the one in front of the person, also over SSH, but not every terminal obeys, and
none reports whether it did. So a tool is used as well where one works for this screen.
"""

import asyncio
import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from twofold.errors import LocalError
from twofold.session import Message, Session
from twofold.transport.commands import end_child
from twofold.wire.content import TextContent

LARGEST: Final = 74_994
"""How many bytes a terminal takes: xterm and others read no sequence of more than 100,000."""
PATIENCE: Final = 2.0
"""How many seconds a tool has to take the text."""


class NotCopied(LocalError):
    """A text could not be copied."""


def osc52(text: str) -> str:
    """The escape sequence that has a terminal put a text on the clipboard.

    Raises:
        NotCopied: The text is too long for that.
    """
    data = text.encode(errors="replace")
    if len(data) > LARGEST:
        raise NotCopied(
            f"The text has {len(data):,} bytes, and terminals copy at most {LARGEST:,}."
            " Write it to a file instead: /export FILE.md"
        )
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


def copy_tool(
    environment: Mapping[str, str],
    has: Callable[[str], object],
    platform: str = sys.platform,
) -> list[str] | None:
    """The command that puts its input on the clipboard of this screen; None if there is none.

    Args:
        environment: Where the screen is looked up.
        has: Returns something true if a program is installed.
        platform: The system, as in `sys.platform`.
    """
    if environment.get("WAYLAND_DISPLAY") and has("wl-copy"):
        return ["wl-copy"]
    if environment.get("DISPLAY"):
        if has("xclip"):
            return ["xclip", "-selection", "clipboard"]
        if has("xsel"):
            return ["xsel", "--clipboard", "--input"]
    # over SSH this machine's clipboard is not the person's
    remote = environment.get("SSH_CONNECTION") or environment.get("SSH_TTY")
    if platform == "darwin" and not remote and has("pbcopy"):
        return ["pbcopy"]
    return None


def find_answer(session: Session, number: int = 1) -> str:
    """The text of the agent's last message, or of the one `number` before the end.

    Args:
        session: The session as it is now.
        number: 1 for the last one.

    Raises:
        NotCopied: There is none.
    """
    left = number
    for entry in reversed(session.entries):
        if isinstance(entry, Message) and entry.role == "agent":
            text = "".join([each.text for each in entry.content if isinstance(each, TextContent)])
            left -= bool(text.strip())
            if not left:
                return text.strip("\n")
    if left == number:
        raise NotCopied("The agent has sent no message that could be copied.")
    raise NotCopied(f"The agent has sent only {number - left:,} messages that could be copied.")


async def give_to_tool(command: Sequence[str], text: str) -> bool:
    """Run a command with a text as its input; returns whether it succeeded in time."""
    nowhere = asyncio.subprocess.DEVNULL  # such a tool stays, and would hold a pipe open
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(PATIENCE):
            await process.communicate(text.encode(errors="replace"))
    except TimeoutError:
        return False
    finally:
        end_child(process)
    return process.returncode == 0
