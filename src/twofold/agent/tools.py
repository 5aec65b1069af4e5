"""Handles for what an agent does: tool calls and terminals.

A handle says what changed; which messages tell it is not its business. Leaving the block of a tool
call completes it, an exception fails it, a cancel cancels it, unless it was ended before. A path
that is not absolute is taken to be in the session's directory.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from os import PathLike, fspath, path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from msgspec.structs import asdict, replace

from twofold.convert.patches import git_patch, parse_patch
from twofold.errors import LocalError
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Capability, Content

if TYPE_CHECKING:
    from twofold.agent.turn import Turn

OnCancel: TypeAlias = Callable[[], Awaitable[None] | None]
Location: TypeAlias = str | PathLike[str] | tuple[str | PathLike[str], int] | v2.ToolCallLocation
"""A path, a path with a line, or the whole struct."""
Item: TypeAlias = "str | ContentBlock | Terminal | v2.ToolCallContent"
"""What a tool call can show: text, a content block, a diff, a terminal."""

_ENDED = frozenset({"completed", "failed", "cancelled"})


class NotCancellable(LocalError):
    """A tool call or a terminal was to be stopped by itself that has ended, or cannot be."""


async def _stop(on_cancel: OnCancel | None) -> None:
    if on_cancel is None:
        raise NotCancellable("this cannot be cancelled by itself")
    waiting = on_cancel()
    if waiting is not None:
        await waiting


class Terminal:
    """A terminal that the agent runs; its output is bytes, told as they come."""

    def __init__(self, turn: "Turn", terminal_id: str, on_cancel: OnCancel | None = None) -> None:
        self.terminal_id = terminal_id
        self.on_cancel = on_cancel
        self._turn = turn

    @property
    def ended(self) -> bool:
        """Whether the command has ended."""
        known = self._turn.session.state.terminals.get(self.terminal_id)
        return known is not None and known.exit_status is not None

    async def write(self, output: bytes | str) -> None:
        """The terminal printed something; it may end inside a character or an escape sequence."""
        data = output.encode("utf-8", "surrogatepass") if isinstance(output, str) else output
        text = base64.b64encode(data).decode()
        await self._turn.send(v2.TerminalOutputChunk(self.terminal_id, text))

    async def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """The command ended."""
        await self._turn.send(self.as_ended(code, signal))

    def as_ended(self, code: int | None = None, signal: str | None = None) -> v2.TerminalUpdate:
        """The update that says so; nothing is left to be stopped."""
        status = v2.TerminalExitStatus(
            UNSET if code is None else code, UNSET if signal is None else signal
        )
        able = UNSET if self.on_cancel is None else None
        return v2.TerminalUpdate(self.terminal_id, exit_status=status, capabilities=able)

    async def cancel(self) -> None:
        """The client wants just this terminal stopped; raises `NotCancellable`."""
        if self.ended:
            raise NotCancellable("the command has ended")
        await _stop(self.on_cancel)


class ToolCall:
    """One thing the agent does: `async with turn.tool_call("Read a.txt", kind="read") as call`."""

    def __init__(
        self, turn: "Turn", first: v2.ToolCallUpdate, on_cancel: OnCancel | None = None
    ) -> None:
        self.tool_call_id = first.tool_call_id
        self.cancelled = False
        """Whether the client asked to stop just this call."""
        self.on_cancel = on_cancel
        self._turn = turn
        self._first = first

    @property
    def status(self) -> str:
        """Where it stands: `pending`, `in_progress`, `completed`, `failed`, `cancelled`, …"""
        known = self._turn.session.state.tool_calls.get(self.tool_call_id)
        return known.status if known is not None else "pending"

    @property
    def ended(self) -> bool:
        """Whether it is completed, failed or cancelled."""
        return self.status in _ENDED

    async def start(self) -> None:
        """Announce the call, and that it runs. Entering its block does this."""
        await self._turn.send(self._first)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.ended:
            await self._turn.send(self.as_ended(self._outcome(error)))

    def _outcome(self, error: BaseException | None) -> str:
        if self.cancelled or isinstance(error, asyncio.CancelledError):
            return "cancelled"
        return "completed" if error is None else "failed"

    # ---- what it shows

    async def append(self, item: Item) -> None:
        """Show one more item: text, a content block, a diff, a terminal."""
        await self._turn.send(v2.ToolCallContentChunk(self.tool_call_id, as_content(item)))

    async def replace(self, *items: Item) -> None:
        """Show these items instead of what was shown; none clears it."""
        await self.update(content=[as_content(item) for item in items])

    async def diff(self, path: str | PathLike[str], old: str | None, new: str | None) -> None:
        """Show a change of a file, from its two texts; None is a file that does not exist."""
        await self.append(diff_of(_inside(self._turn, path), old, new))

    async def patch(self, text: str) -> None:
        """Show a Git patch, of one file or several."""
        await self.append(diff_of_patch(text, self._turn.session.cwd))

    async def terminal(
        self,
        command: str | None = None,
        cwd: str | PathLike[str] | None = None,
        *,
        on_cancel: OnCancel | None = None,
    ) -> Terminal:
        """Show a new terminal, and give it to write to."""
        terminal = await open_terminal(self._turn, command, cwd, on_cancel)
        await self.append(terminal)
        return terminal

    async def locate(self, *locations: Location) -> None:
        """Which files it is at, so that the client can follow along."""
        await self.update(locations=[_located(self._turn, each) for each in locations])

    def shown(self) -> v2.ToolCallPatch:
        """All that there is to see of it, for whoever is to decide about it."""
        known = self._turn.session.state.tool_calls.get(self.tool_call_id)
        if known is None:  # it was not announced yet, and does not run
            return v2.ToolCallPatch(**asdict(replace(self._first, status="pending")))
        return v2.ToolCallPatch(
            self.tool_call_id,
            title=known.title or UNSET,
            kind=known.kind,
            content=list(known.content) or UNSET,
            locations=list(known.locations) or UNSET,
            raw_input=UNSET if known.raw_input is None else known.raw_input,
        )

    # ---- how it goes

    async def update(self, **fields: Any) -> None:
        """Change any field: `title`, `kind`, `status`, `raw_input`, …; None clears it."""
        await self._turn.send(v2.ToolCallUpdate(self.tool_call_id, **fields))

    async def complete(self, raw_output: Any = UNSET) -> None:
        """It is done."""
        await self._turn.send(self.as_ended("completed", raw_output))

    async def fail(self, reason: str = "", raw_output: Any = UNSET) -> None:
        """It did not work out; `reason` is shown."""
        if reason:
            await self.append(reason)
        await self._turn.send(self.as_ended("failed", raw_output))

    def as_ended(self, status: str, raw_output: Any = UNSET) -> v2.ToolCallUpdate:
        """The update that says how it ended; nothing is left to be stopped."""
        able = UNSET if self.on_cancel is None else None
        return v2.ToolCallUpdate(
            self.tool_call_id, status=status, raw_output=raw_output, capabilities=able
        )

    async def cancel(self) -> None:
        """The client wants just this call stopped; raises `NotCancellable`."""
        if self.ended:
            raise NotCancellable("the tool call has ended")
        self.cancelled = self.on_cancel is not None
        await _stop(self.on_cancel)


# ---- making them -----------------------------------------------------------------------------


def new_call(
    turn: "Turn",
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
        tool_call_id or turn.session.new_id("call"),
        name=UNSET if name is None else name,
        title=title,
        kind=kind,
        status="in_progress",
        locations=[_located(turn, each) for each in locations] or UNSET,
        raw_input=raw_input,
        capabilities=able,
    )
    return ToolCall(turn, first, on_cancel)


async def open_terminal(
    turn: "Turn",
    command: str | None,
    cwd: str | PathLike[str] | None,
    on_cancel: OnCancel | None,
) -> Terminal:
    """A new terminal, which the client is told of."""
    terminal = Terminal(turn, turn.session.new_id("terminal"), on_cancel)
    able = v2.TerminalCapabilities(cancel=Capability()) if on_cancel else UNSET
    await turn.send(
        v2.TerminalUpdate(
            terminal.terminal_id,
            command=UNSET if command is None else command,
            cwd=_inside(turn, cwd or ""),
            capabilities=able,
        )
    )
    turn.terminals[terminal.terminal_id] = terminal
    return terminal


def as_content(item: Item) -> v2.ToolCallContent:
    """What a tool call can show."""
    if isinstance(item, str):
        return Content(TextContent(item))
    if isinstance(item, Terminal):
        return v2.Terminal(item.terminal_id)
    if isinstance(item, v2.ContentBlock):
        return Content(item)
    return item


def _located(turn: "Turn", location: Location) -> v2.ToolCallLocation:
    if isinstance(location, v2.ToolCallLocation):
        return location
    if isinstance(location, tuple):
        return v2.ToolCallLocation(_inside(turn, location[0]), location[1])
    return v2.ToolCallLocation(_inside(turn, location))


def _inside(turn: "Turn", place: str | PathLike[str]) -> str:
    # the protocol has absolute paths only
    where = fspath(place)
    return path.join(turn.session.cwd, where) if where else turn.session.cwd


# ---- diffs -----------------------------------------------------------------------------------


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


_CHANGES: dict[str, Callable[[str, str], v2.DiffChange]] = {
    "add": lambda path, old: v2.DiffAdd(path),
    "delete": lambda path, old: v2.DiffDelete(path),
    "modify": lambda path, old: v2.DiffModify(path),
    "move": lambda path, old: v2.DiffMove(old, path),
    "copy": lambda path, old: v2.DiffCopy(old, path),
}


def diff_of_patch(text: str, cwd: str) -> v2.Diff:
    """The changes of a Git patch made in `cwd`; raises `BadPatch` for one that is broken."""
    changes = [
        _CHANGES[file.operation](
            path.join(cwd, file.path), path.join(cwd, file.old_path or file.path)
        )
        for file in parse_patch(text)
    ]
    if not changes:
        raise LocalError("This is no patch: it does not speak of any file.")
    return v2.Diff(changes, v2.DiffPatch("git_patch", text))
