"""The sessions that an agent lists, for a person to choose from and open again.

However long the agent's list is, a bounded number of sessions and pages is read. Titles and times
are safe to show and of bounded length; ids are as the agent sent them, because requests need them.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct, UnsetType

from twofold.client.client import Client
from twofold.client.session import ClientSession
from twofold.errors import PeerError
from twofold.rpc.errors import AUTH_REQUIRED, RequestFailed
from twofold.session.listing import newest_first
from twofold.text import one_line
from twofold.transport.commands import shown
from twofold.wire import v2

MOST = 1000
"""How many sessions, and how many pages of them, are read."""


class Known(Struct, frozen=True):
    """The sessions of an agent."""

    sessions: list[v2.SessionInfo]
    """The last updated first."""
    more: bool = False
    """The agent's list goes on."""


class NotReopened(PeerError):
    """The agent refused to load or resume a session.

    Attributes:
        session_id: The session.
        error: The error that the agent sent.
    """

    def __init__(
        self, error: RequestFailed, session_id: str, client: Client, command: Sequence[str]
    ) -> None:
        advice = f" {client.agent_name} cannot list its sessions."
        if client.can("list"):
            advice = f" To list its sessions: twofold sessions --all -- {shown(command)}"
        super().__init__(
            f"The session {one_line(session_id)!r} cannot be resumed: {error}.{advice}"
        )
        self.session_id = session_id
        self.error = error


async def reopen(
    client: Client,
    session_id: str,
    cwd: str | os.PathLike[str],
    command: Sequence[str],
    *,
    replay: bool,
    mcp_servers: Sequence[v2.McpServer] = (),
) -> ClientSession:
    """Load the session if `replay` is wanted and the agent can, else resume it.

    Raises:
        NotReopened: The agent refused.
        RequestFailed: The agent wants a login first.
    """
    try:
        if replay and client.can("load"):
            return await client.load_session(session_id, cwd, mcp_servers=mcp_servers)
        return await client.resume_session(session_id, cwd, mcp_servers=mcp_servers)
    except RequestFailed as error:
        if error.code == AUTH_REQUIRED:
            raise
        raise NotReopened(error, session_id, client, command) from None


async def known_sessions(client: Client, cwd: str | os.PathLike[str] | None) -> Known:
    """List the sessions of `cwd`, or all.

    Raises:
        NotSupported: The agent cannot list its sessions.
        RequestFailed: The agent refused, for example because it wants a login first.
    """
    infos = client.list_sessions(cwd, limit=MOST)
    listed: dict[str, v2.SessionInfo] = {}
    async for info in infos:
        listed.setdefault(info.session_id, info)
    there = [each for each in listed.values() if cwd is None or _same(each.cwd, cwd)]
    return Known(newest_first(there), more=infos.more)


def _same(one: str, other: str | os.PathLike[str]) -> bool:
    """Whether both paths are one directory: some agents ignore the directory in the request."""
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # not a path
        return False


def when(info: v2.SessionInfo) -> str:
    """When a session was updated, in local time; empty if the agent did not send it."""
    time = _time(info.updated_at)
    try:
        return time.astimezone().strftime("%Y-%m-%d %H:%M") if time is not None else ""
    except (ValueError, OverflowError, OSError):
        return ""


def age(updated_at: str | UnsetType | None, now: datetime) -> str:
    """How long ago something was updated: `5 min ago`; empty if it is not known."""
    time = _time(updated_at)
    if time is None:
        return ""
    minutes = int((now - time).total_seconds() // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    if minutes < 48 * 60:
        return f"{minutes // 60} h ago"
    return f"{minutes // (24 * 60):,} days ago"


def _time(text: str | UnsetType | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def title(info: v2.SessionInfo, longest: int = 80) -> str:
    """The title of a session on one line; empty if it has none."""
    return shortened(info.title or "", longest)


def shortened(text: str, longest: int) -> str:
    """A text of the agent on one line of at most `longest` characters."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
