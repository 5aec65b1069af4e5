"""The sessions that an agent knows, for people to choose from.

An agent is believed in what it lists, not in how much: the list ends after so many sessions and so
many pages, and says so. Texts are safe to show and of bounded length, but for the ids, with which
sessions are asked for.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct

from twofold.client.client import Client
from twofold.client.session import ClientSession
from twofold.errors import PeerError
from twofold.rpc.errors import AUTH_REQUIRED, RequestFailed
from twofold.session.listing import newest_first
from twofold.text import one_line
from twofold.transport.commands import shown
from twofold.wire import v2

MOST = 1000
"""How many sessions are listed, and how many pages are asked for."""


class Known(Struct, frozen=True):
    """What an agent listed, the last updated first; `more` if it had not come to an end."""

    sessions: list[v2.SessionInfo]
    more: bool = False


class NotTakenUp(PeerError):
    """The agent refused to load or resume a session."""

    def __init__(
        self, error: RequestFailed, session_id: str, client: Client, command: Sequence[str]
    ) -> None:
        lists = f" {client.agent_name} cannot list those that it knows."
        if client.can("list"):
            lists = f" The sessions that it knows: twofold sessions --all -- {shown(command)}"
        super().__init__(f"The session {one_line(session_id)!r} cannot be resumed: {error}.{lists}")
        self.session_id = session_id
        self.error = error


async def take_up(
    client: Client,
    session_id: str,
    cwd: str | os.PathLike[str],
    command: Sequence[str],
    *,
    replay: bool,
) -> ClientSession:
    """Load the session if `replay` is wanted and the agent can, else resume it.

    Raises `NotTakenUp`; a login that is needed first is left to the caller.
    """
    try:
        if replay and client.can("load"):
            return await client.load_session(session_id, cwd)
        return await client.resume_session(session_id, cwd)
    except RequestFailed as error:
        if error.code == AUTH_REQUIRED:
            raise
        raise NotTakenUp(error, session_id, client, command) from None


async def known_sessions(client: Client, cwd: str | os.PathLike[str] | None) -> Known:
    """The sessions of `cwd`, or all; raises `NotSupported` for an agent that cannot list them."""
    client.must("list", "list its sessions")
    where = _absolute(cwd) if cwd is not None else UNSET
    cursor: Any = UNSET
    seen: set[str] = set()
    listed: dict[str, v2.SessionInfo] = {}
    while len(listed) < MOST and len(seen) < MOST:
        page = await client.call("session/list", v2.ListSessionsRequest(where, cursor))
        for info in page.sessions:
            listed.setdefault(info.session_id, info)
        cursor = page.next_cursor
        if not cursor or cursor in seen:  # an agent that gives a cursor again would go on
            cursor = None
            break
        seen.add(cursor)
    found = list(listed.values())
    there = [each for each in found[:MOST] if cwd is None or _same(each.cwd, cwd)]
    return Known(newest_first(there), more=bool(cursor) or len(found) > MOST)


def _absolute(cwd: str | os.PathLike[str]) -> str:
    return os.path.abspath(cwd)


def _same(one: str, other: str | os.PathLike[str]) -> bool:
    """Whether both name one directory; not every agent looks at the one it is asked for."""
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # no path at all
        return False


def when(info: v2.SessionInfo) -> str:
    """When it was updated, in the time of this place; empty if that is not said."""
    try:
        time = datetime.fromisoformat(info.updated_at or "")
        local = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone()
    except (ValueError, OverflowError, OSError):
        return ""
    return local.strftime("%Y-%m-%d %H:%M")


def title(info: v2.SessionInfo, longest: int = 80) -> str:
    """What it is called, on one line; empty if it has no name."""
    return shortened(info.title or "", longest)


def shortened(text: str, longest: int) -> str:
    """A text of a peer on one line of at most so many characters."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
