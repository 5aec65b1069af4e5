"""Handles for what an agent does: tool calls and terminals.

A handle says what changed; which messages tell it is not its business. Leaving the block of a tool
call completes it, an exception fails it, a cancel cancels it, unless it was ended before.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from twofold.convert.diffs import git_patch, parse_patch
from twofold.errors import LocalError
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Capability, Content

if TYPE_CHECKING:
    from twofold.runtime.agent.session import AgentSession

OnCancel: TypeAlias = Callable[[], Awaitable[None] | None]
Location: TypeAlias = str | PathLike[str] | tuple[str | PathLike[str], int] | v2.ToolCallLocation
"""A path, a path with a line, or the whole struct."""

_ENDED = frozenset({"completed", "failed", "cancelled"})


class Terminal:
    """A terminal that the agent runs; its output is bytes, told as they come."""

    def __init__(
        self, session: "AgentSession", terminal_id: str, on_cancel: OnCancel | None = None
    ) -> None:
        self.terminal_id = terminal_id
        self.on_cancel = on_cancel
        self._session = session

    async def write(self, output: bytes | str) -> None:
        """The terminal printed something; it may end inside a character or an escape sequence."""
        data = output.encode() if isinstance(output, str) else output
        text = base64.b64encode(data).decode()
        await self._session.send(v2.TerminalOutputChunk(self.terminal_id, text))

    async def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """The command ended."""
        status = v2.TerminalExitStatus(
            UNSET if code is None else code, UNSET if signal is None else signal
        )
        await self._session.send(v2.TerminalUpdate(self.terminal_id, exit_status=status))


class ToolCall:
    """One thing the agent does: `async with turn.tool_call("Read a.txt", kind="read") as call`."""

    def __init__(
        self,
        session: "AgentSession",
        first: v2.ToolCallUpdate,
        on_cancel: OnCancel | None = None,
    ) -> None:
        self.tool_call_id = first.tool_call_id
        self.on_cancel = on_cancel
        self._session = session
        self._first = first

    @property
    def status(self) -> str:
        """Where it stands: `pending`, `in_progress`, `completed`, `failed`, `cancelled`, …"""
        known = self._session.state.tool_calls.get(self.tool_call_id)
        return known.status if known is not None else "pending"

    async def start(self) -> None:
        """Announce the call, and that it runs. Entering its block does this."""
        await self._session.send(self._first)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.status in _ENDED:
            return
        if error is None:
            await self.complete()
        elif isinstance(error, asyncio.CancelledError):
            await self.update(status="cancelled")
        else:
            await self.fail()

    # ---- what it shows

    async def append(self, item: str | ContentBlock | Terminal | v2.ToolCallContent) -> None:
        """Show one more item: text, a content block, a diff, a terminal."""
        await self._session.send(v2.ToolCallContentChunk(self.tool_call_id, as_content(item)))

    async def replace(self, *items: str | ContentBlock | Terminal | v2.ToolCallContent) -> None:
        """Show these items instead of what was shown; none clears it."""
        await self.update(content=[as_content(item) for item in items])

    async def diff(self, path: str | PathLike[str], old: str | None, new: str | None) -> None:
        """Show a change of a file, from its two texts; None is a file that does not exist."""
        await self.append(diff_of(fspath(path), old, new))

    async def patch(self, text: str) -> None:
        """Show a Git patch, of one file or several."""
        await self.append(diff_of_patch(text))

    async def terminal(
        self,
        command: str | None = None,
        cwd: str | None = None,
        *,
        on_cancel: OnCancel | None = None,
    ) -> Terminal:
        """Show a new terminal, and give it to write to."""
        terminal = await open_terminal(self._session, command, cwd, on_cancel)
        await self.append(terminal)
        return terminal

    async def locate(self, *locations: Location) -> None:
        """Which files it is at, so that the client can follow along."""
        await self.update(locations=[as_location(each) for each in locations])

    # ---- how it goes

    async def update(self, **fields: Any) -> None:
        """Change any field: `title`, `kind`, `status`, `raw_input`, …; None clears it."""
        await self._session.send(v2.ToolCallUpdate(self.tool_call_id, **fields))

    async def complete(self, raw_output: Any = UNSET) -> None:
        """It is done."""
        await self.update(status="completed", raw_output=raw_output)

    async def fail(self, reason: str = "", raw_output: Any = UNSET) -> None:
        """It did not work out; `reason` is shown."""
        if reason:
            await self.append(reason)
        await self.update(status="failed", raw_output=raw_output)


def new_call(
    session: "AgentSession",
    title: str,
    *,
    kind: str,
    name: str | None,
    locations: Sequence[Location],
    raw_input: Any,
    tool_call_id: str | None,
    on_cancel: OnCancel | None,
) -> ToolCall:
    """A tool call that is not announced yet."""
    able = v2.ToolCallCapabilities(cancel=Capability()) if on_cancel else UNSET
    first = v2.ToolCallUpdate(
        tool_call_id or session.new_id("call"),
        name=UNSET if name is None else name,
        title=title,
        kind=kind,
        status="in_progress",
        locations=[as_location(each) for each in locations] or UNSET,
        raw_input=raw_input,
        capabilities=able,
    )
    return ToolCall(session, first, on_cancel)


async def open_terminal(
    session: "AgentSession", command: str | None, cwd: str | None, on_cancel: OnCancel | None
) -> Terminal:
    """A new terminal, which the client is told of."""
    terminal = Terminal(session, session.new_id("terminal"), on_cancel)
    able = v2.TerminalCapabilities(cancel=Capability()) if on_cancel else UNSET
    await session.send(
        v2.TerminalUpdate(
            terminal.terminal_id,
            command=UNSET if command is None else command,
            cwd=cwd or session.cwd,
            capabilities=able,
        )
    )
    if session.turn is not None:
        session.turn.terminals[terminal.terminal_id] = terminal
    return terminal


def as_content(item: str | ContentBlock | Terminal | v2.ToolCallContent) -> v2.ToolCallContent:
    """What a tool call can show."""
    if isinstance(item, str):
        return Content(TextContent(item))
    if isinstance(item, Terminal):
        return v2.Terminal(item.terminal_id)
    if isinstance(item, v2.ContentBlock):
        return Content(item)
    return item


def as_location(location: Location) -> v2.ToolCallLocation:
    """A place in a file."""
    if isinstance(location, v2.ToolCallLocation):
        return location
    if isinstance(location, tuple):
        return v2.ToolCallLocation(fspath(location[0]), location[1])
    return v2.ToolCallLocation(fspath(location))


def diff_of(path: str, old: str | None, new: str | None) -> v2.Diff:
    """A change of one file, from its two texts."""
    if old is None and new is None:
        raise LocalError(f"A diff of {path} needs a text, old or new.")
    change: v2.DiffChange = v2.DiffModify(path)
    if old is None:
        change = v2.DiffAdd(path)
    elif new is None:
        change = v2.DiffDelete(path)
    text = git_patch(path, old, new)
    return v2.Diff([change], v2.DiffPatch("git_patch", text) if text else UNSET)


_CHANGES: dict[str, Callable[[str, str | None], v2.DiffChange]] = {
    "add": lambda path, old: v2.DiffAdd(path),
    "delete": lambda path, old: v2.DiffDelete(path),
    "modify": lambda path, old: v2.DiffModify(path),
    "move": lambda path, old: v2.DiffMove(old or path, path),
    "copy": lambda path, old: v2.DiffCopy(old or path, path),
}


def diff_of_patch(text: str) -> v2.Diff:
    """The changes of a Git patch; raises `BadPatch` for what is none."""
    changes = [_CHANGES[file.operation](file.path, file.old_path) for file in parse_patch(text)]
    return v2.Diff(changes, v2.DiffPatch("git_patch", text))
