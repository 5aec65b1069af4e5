"""The sessions that were open in this client, in a file: first words and titles, by id.

ACP has no field for what a session began with, and no request that renames one. So the client
keeps both, for agents that send no titles, or cannot list their sessions at all.
"""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from twofold.host.state_files import keep_entry, read_entries
from twofold.text import one_line

_LONGEST: Final = 200


class KeptSession(NamedTuple):
    """A session, as the file has it."""

    session_id: str
    cwd: str
    updated_at: str
    first_words: str = ""
    title: str = ""
    """The title that the person gave it."""


def read_sessions(path: Path | None, command: Sequence[str]) -> dict[str, KeptSession]:
    """The sessions of an agent by their ids, the last updated last."""
    found: dict[str, KeptSession] = {}
    for entry in read_entries(path) if path is not None else []:
        if len(entry) == 6 and entry[0] == shlex.join(command):
            kept = KeptSession(*entry[1:])
            found.pop(kept.session_id, None)
            found[kept.session_id] = kept
    return found


def keep_session(
    path: Path | None,
    command: Sequence[str],
    session_id: str,
    cwd: Path,
    first_words: str,
    title: str,
) -> None:
    """Write a session to the file; a later entry of the same id replaces it."""
    if path is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        words = [one_line(text)[:_LONGEST] for text in (first_words, title)]
        keep_entry(path, [shlex.join(command), session_id, str(cwd), now, *words])
