"""An external editor for the input line: `$VISUAL`, `$EDITOR`, or `vi`."""

import asyncio
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from twofold.errors import LocalError

LARGEST: Final = 1_000_000
"""How many bytes are read of what was edited."""


class EditorFailed(LocalError):
    """The external editor could not be run, or left nothing to read."""


async def edited(text: str, environment: Mapping[str, str]) -> str:
    """Let the person edit a text in their own editor.

    Args:
        text: What the editor begins with.
        environment: Where `VISUAL` and `EDITOR` are looked up.

    Raises:
        EditorFailed: There is no such editor, or it failed. The text is as it was.
    """
    words = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    try:
        command = shlex.split(words)
    except ValueError as error:
        raise EditorFailed(f"cannot read the command of the editor, {words!r}: {error}") from None
    folder = tempfile.TemporaryDirectory(prefix="twofold-")  # 0700: a prompt may be private
    with folder as name:
        path = Path(name, "prompt.md")
        _write(path, text)
        try:
            process = await asyncio.create_subprocess_exec(*command, os.fspath(path))
        except OSError as error:
            reason = error.strerror or str(error)
            advice = "Set VISUAL or EDITOR to an editor that is installed."
            raise EditorFailed(f"cannot start the editor {words!r}: {reason}. {advice}") from None
        if status := await process.wait():
            raise EditorFailed(f"the editor {words!r} ended with status {status}; nothing changed.")
        return _read(path)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise EditorFailed(f"cannot read what was edited: {error.strerror}") from None
    if len(data) > LARGEST:
        raise EditorFailed(f"the edited text is longer than {LARGEST:,} bytes; nothing changed.")
    return data.decode("utf-8", "replace").removesuffix("\n")
