"""Handles of what an agent does in a turn: tool calls and terminals.

A handle sends the updates of one tool call or terminal. Leaving the block of a tool call completes
it, an exception fails it, a cancel cancels it, unless it was ended before. Relative paths are taken
to be in the session's directory, because the protocol has absolute paths only.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from os import PathLike
from os.path import join
from types import TracebackType
from typing import Any, Self, TypeAlias

from msgspec.structs import asdict, replace

from twofold.agent import arguments
from twofold.agent.session import OpenSession, TurnState
from twofold.convert.patches import BadPatch, git_patch, parse_patch
from twofold.errors import LocalError
from twofold.wire import v2
from twofold.wire.base import UNSET, Maybe
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Capability, Content, ToolKind

OnCancel: TypeAlias = Callable[[], Awaitable[None] | None]
"""Stops one tool call or terminal; it may be a plain function or an async one."""
Location: TypeAlias = str | PathLike[str] | tuple[str | PathLike[str], int] | v2.ToolCallLocation
"""A path, a path with a line (from 1 on), or the whole struct."""
Item: TypeAlias = "str | ContentBlock | TerminalHandle | v2.ToolCallContent"
"""What a tool call can show: text, a content block, a diff, a terminal."""
Sending: TypeAlias = Coroutine[Any, Any, None]
"""To be awaited: it waits while the client does not read."""

LAST_LINE = 0xFFFF_FFFF
"""The largest line number that the schema allows."""

_ENDED = frozenset({"completed", "failed", "cancelled"})
_ITEM = "a str, a content block, a terminal handle or a v2.Diff"


class NotCancellable(LocalError):
    """The client asked to stop a tool call or terminal that has ended, or has no `on_cancel`."""


class TurnOver(LocalError):
    """A turn or one of its handles was used after the turn's end."""

    def __init__(self) -> None:
        super().__init__(
            "The turn is over: nothing more can be sent in it. Await what you started before the"
            " prompt handler returns, and use `session.send` for updates between turns."
        )


async def _refuse(update: v2.SessionUpdate) -> None:
    raise TurnOver


class TurnScope:
    """What the handles of one turn share: where updates go, until the turn is over."""

    def __init__(self, session: OpenSession) -> None:
        self.session = session
        self.state = TurnState()
        self.over = False
        self.calls: dict[str, ToolCallHandle] = {}
        self.terminals: dict[str, TerminalHandle] = {}
        self.send: Callable[[v2.SessionUpdate], Sending] = session.send

    def end(self) -> None:
        """From now on every handle of the turn raises `TurnOver`."""
        self.over = True
        self.send = _refuse

    def absolute(self, name: str, path: object) -> str:
        """A path of the author's, made absolute; `name` is the argument that it came as."""
        found = arguments.path(name, path)
        return join(self.session.cwd, found) if found else self.session.cwd

    def locations(self, name: str, values: object) -> list[v2.ToolCallLocation]:
        """Locations of the author's, with absolute paths."""
        found = arguments.items(name, values, "paths or (path, line)")
        return [self._location(f"{name}[{index}]", value) for index, value in enumerate(found)]

    def _location(self, name: str, value: object) -> v2.ToolCallLocation:
        if isinstance(value, v2.ToolCallLocation):
            return arguments.struct(name, value, v2.ToolCallLocation, "a location")
        if not isinstance(value, tuple):
            return v2.ToolCallLocation(self.absolute(name, value))
        if len(value) != 2:
            raise arguments.InvalidArgument(f"{name} must be a path or (path, line), not {value!r}")
        line = arguments.integer(f"{name}[1]", value[1], least=1, most=LAST_LINE)
        return v2.ToolCallLocation(self.absolute(f"{name}[0]", value[0]), line)


# ---- terminals -------------------------------------------------------------------------------


class TerminalHandle:
    """A terminal whose command the agent runs, as `call.terminal(…)` returns it."""

    def __init__(self, scope: TurnScope, terminal_id: str, on_cancel: OnCancel | None) -> None:
        self._terminal_id = terminal_id
        self._scope = scope
        self._on_cancel = on_cancel

    @property
    def terminal_id(self) -> str:
        """The id of the terminal."""
        return self._terminal_id

    @property
    def ended(self) -> bool:
        """Whether the command has ended."""
        known = self._scope.session.state.terminals.get(self._terminal_id)
        return known is not None and known.exit_status is not None

    async def write(self, output: bytes | str) -> None:
        """Send output of the command.

        Args:
            output: Any piece of it; it may end inside a character or an escape sequence.

        Raises:
            TypeError: The output is neither bytes nor a str.
            TurnOver: The turn is over.
        """
        if isinstance(output, str):
            output = output.encode("utf-8", "surrogatepass")
        elif not isinstance(output, bytes | bytearray | memoryview):
            raise arguments.wrong_type("output", output, "bytes or a str")
        text = base64.b64encode(output).decode()
        await self._scope.send(v2.TerminalOutputChunk(self._terminal_id, text))

    async def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """Send that the command ended.

        Args:
            code: Its exit code, if it has one.
            signal: The name of the signal that ended it, if one did.
        """
        if code is not None:
            arguments.integer("code", code, least=None)  # negative ones are the signals of Python
        arguments.text_or_none("signal", signal)
        await self._scope.send(exited(self, code, signal))


def exited(
    terminal: TerminalHandle, code: int | None = None, signal: str | None = None
) -> v2.TerminalUpdate:
    """The update for a command that ended; it cannot be cancelled any more."""
    status = v2.TerminalExitStatus(
        UNSET if code is None else code, UNSET if signal is None else signal
    )
    capabilities = UNSET if terminal._on_cancel is None else None
    return v2.TerminalUpdate(terminal.terminal_id, exit_status=status, capabilities=capabilities)


async def cancel_terminal(terminal: TerminalHandle) -> None:
    """Stop one terminal because the client asked for it; raises `NotCancellable`."""
    if terminal.ended:
        raise NotCancellable("the command has ended")
    await _call_on_cancel(terminal._on_cancel)


async def open_terminal(
    scope: TurnScope,
    command: str | None,
    cwd: str | PathLike[str] | None,
    on_cancel: OnCancel | None,
) -> TerminalHandle:
    """Send that there is a new terminal, and return its handle."""
    arguments.text_or_none("command", command)
    where = scope.absolute("cwd", "" if cwd is None else cwd)
    _check_on_cancel(on_cancel)
    terminal = TerminalHandle(scope, scope.session.new_id("terminal"), on_cancel)
    update = v2.TerminalUpdate(
        terminal.terminal_id,
        command=UNSET if command is None else command,
        cwd=where,
        capabilities=UNSET if on_cancel is None else v2.TerminalCapabilities(cancel=Capability()),
    )
    await scope.send(update)
    scope.terminals[terminal.terminal_id] = terminal
    return terminal


# ---- tool calls ------------------------------------------------------------------------------


class ToolCallHandle:
    """Something the agent does, as `turn.tool_call(…)` returns it.

    As a block (`async with turn.tool_call("Read a.txt", kind="read") as call`) it starts when the
    block is entered and ends when it is left. Every method that sends raises `TurnOver` after the
    end of the turn.
    """

    def __init__(
        self, scope: TurnScope, first: v2.ToolCallUpdate, on_cancel: OnCancel | None
    ) -> None:
        self._scope = scope
        self._first = first
        self._on_cancel = on_cancel
        self._cancelled = False

    @property
    def tool_call_id(self) -> str:
        """The id of the tool call."""
        return self._first.tool_call_id

    @property
    def cancelled(self) -> bool:
        """Whether the client asked to stop just this call."""
        return self._cancelled

    @property
    def status(self) -> str:
        """Its status: `pending`, `in_progress`, `completed`, `failed`, `cancelled`, …"""
        known = self._scope.session.state.tool_calls.get(self.tool_call_id)
        return known.status if known is not None else "pending"

    @property
    def ended(self) -> bool:
        """Whether it is completed, failed or cancelled."""
        return self.status in _ENDED

    async def start(self) -> None:
        """Send the tool call, as in progress. Entering its block does this."""
        await self._scope.send(self._first)

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
            await self._scope.send(ended(self, self._outcome(error)))

    def _outcome(self, error: BaseException | None) -> str:
        if self._cancelled or isinstance(error, asyncio.CancelledError):
            return "cancelled"
        return "completed" if error is None else "failed"

    # ---- what it shows

    async def append(self, item: Item) -> None:
        """Show one more item.

        Args:
            item: Text, a content block, a diff or a terminal.
        """
        await self._scope.send(v2.ToolCallContentChunk(self.tool_call_id, _content("item", item)))

    async def replace(self, *items: Item) -> None:
        """Show these items instead of all that was shown.

        Args:
            *items: Text, content blocks, diffs and terminals; none clears what was shown.
        """
        content = _contents("items", items)
        await self._scope.send(v2.ToolCallUpdate(self.tool_call_id, content=content))

    async def diff(self, path: str | PathLike[str], old: str | None, new: str | None) -> None:
        """Show a change of a file, from its two texts.

        Args:
            path: The file.
            old: Its text before; None for a file that is added.
            new: Its text afterwards; None for a file that is deleted.

        Raises:
            InvalidArgument: Both texts are None.
        """
        arguments.text_or_none("old", old)
        arguments.text_or_none("new", new)
        await self.append(_diff(self._scope.absolute("path", path), old, new))

    async def patch(self, text: str) -> None:
        """Show a Git patch, of one file or several.

        Args:
            text: The patch, with paths relative to the session's directory.

        Raises:
            InvalidArgument: The patch is malformed, or changes no file.
        """
        await self.append(_diff_of_patch(arguments.text("text", text), self._scope.session.cwd))

    async def terminal(
        self,
        command: str | None = None,
        cwd: str | PathLike[str] | None = None,
        *,
        on_cancel: OnCancel | None = None,
    ) -> TerminalHandle:
        """Show a new terminal.

        Args:
            command: The command that runs in it.
            cwd: The directory that it runs in; the session's by default.
            on_cancel: Called when the client asks to stop just this command.

        Returns:
            The handle to write its output to.
        """
        terminal = await open_terminal(self._scope, command, cwd, on_cancel)
        await self.append(terminal)
        return terminal

    async def locate(self, *locations: Location) -> None:
        """Send which files it works on, so that the client can follow.

        Args:
            *locations: Paths, or `(path, line)`; they replace the ones before.
        """
        found = self._scope.locations("locations", locations)
        await self._scope.send(v2.ToolCallUpdate(self.tool_call_id, locations=found))

    # ---- how it goes

    async def update(
        self,
        *,
        title: Maybe[str] = UNSET,
        kind: Maybe[str] = UNSET,
        status: Maybe[str] = UNSET,
        name: Maybe[str] = UNSET,
        content: Maybe[Sequence[Item]] = UNSET,
        locations: Maybe[Sequence[Location]] = UNSET,
        raw_input: Any = UNSET,
        raw_output: Any = UNSET,
        meta: Maybe[dict[str, Any]] = UNSET,
    ) -> None:
        """Change any fields at once. `None` clears a field; a field that is left out stays.

        Args:
            title: What it does, in a few words.
            kind: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`,
                `switch_mode` or `other`; one of your own starts with `_`.
            status: `pending`, `in_progress`, `paused`, `completed`, `failed` or `cancelled`; one
                of your own starts with `_`.
            name: The name of the tool.
            content: What it shows, as for `replace`.
            locations: The files it works on, as for `locate`.
            raw_input: The input of the tool, as JSON.
            raw_output: The output of the tool, as JSON.
            meta: The `_meta` of the update.
        """
        update = v2.ToolCallUpdate(
            self.tool_call_id,
            name=arguments.unless_unset(arguments.text, "name", name),
            title=arguments.unless_unset(arguments.text, "title", title),
            kind=arguments.unless_unset(_kind, "kind", kind),
            status=arguments.unless_unset(_status, "status", status),
            content=arguments.unless_unset(_contents, "content", content),
            locations=arguments.unless_unset(self._scope.locations, "locations", locations),
            raw_input=arguments.json_value("raw_input", raw_input),
            raw_output=arguments.json_value("raw_output", raw_output),
            meta=arguments.unless_unset(_meta, "meta", meta),
        )
        await self._scope.send(update)

    async def complete(self, raw_output: Any = UNSET) -> None:
        """End it as completed.

        Args:
            raw_output: The output of the tool, as JSON.
        """
        arguments.json_value("raw_output", raw_output)
        await self._scope.send(ended(self, "completed", raw_output))

    async def fail(self, reason: str = "", raw_output: Any = UNSET) -> None:
        """End it as failed.

        Args:
            reason: Shown as text, if there is one.
            raw_output: The output of the tool, as JSON.
        """
        arguments.text("reason", reason)
        arguments.json_value("raw_output", raw_output)
        if reason:
            await self.append(reason)
        await self._scope.send(ended(self, "failed", raw_output))


def new_call(
    scope: TurnScope,
    title: str,
    *,
    kind: str,
    name: str | None,
    locations: Sequence[Location],
    raw_input: Any,
    tool_call_id: str | None,
    on_cancel: OnCancel | None,
) -> ToolCallHandle:
    """A tool call that is not sent yet."""
    arguments.text("title", title)
    _kind("kind", kind)
    arguments.text_or_none("name", name)
    found = scope.locations("locations", locations)
    arguments.json_value("raw_input", raw_input)
    arguments.text_or_none("tool_call_id", tool_call_id)
    _check_on_cancel(on_cancel)
    first = v2.ToolCallUpdate(
        tool_call_id or scope.session.new_id("call"),
        name=UNSET if name is None else name,
        title=title,
        kind=kind,
        status="in_progress",
        locations=found or UNSET,
        raw_input=raw_input,
        capabilities=UNSET if on_cancel is None else v2.ToolCallCapabilities(cancel=Capability()),
    )
    call = ToolCallHandle(scope, first, on_cancel)
    scope.calls[call.tool_call_id] = call
    return call


def ended(call: ToolCallHandle, status: str, raw_output: Any = UNSET) -> v2.ToolCallUpdate:
    """The update for a call that ended; it cannot be cancelled any more."""
    capabilities = UNSET if call._on_cancel is None else None
    return v2.ToolCallUpdate(
        call.tool_call_id, status=status, raw_output=raw_output, capabilities=capabilities
    )


def as_patch(call: ToolCallHandle) -> v2.ToolCallPatch:
    """All that there is to see of a call, for the user who decides about it."""
    known = call._scope.session.state.tool_calls.get(call.tool_call_id)
    if known is None:  # it was not sent yet, and does not run
        return v2.ToolCallPatch(**asdict(replace(call._first, status="pending")))
    return v2.ToolCallPatch(
        call.tool_call_id,
        title=known.title or UNSET,
        kind=known.kind,
        content=list(known.content) or UNSET,
        locations=list(known.locations) or UNSET,
        raw_input=UNSET if known.raw_input is None else known.raw_input,
    )


async def cancel_call(call: ToolCallHandle) -> None:
    """Stop one tool call because the client asked for it; raises `NotCancellable`."""
    if call.ended:
        raise NotCancellable("the tool call has ended")
    call._cancelled = call._on_cancel is not None
    await _call_on_cancel(call._on_cancel)


async def _call_on_cancel(on_cancel: OnCancel | None) -> None:
    if on_cancel is None:
        raise NotCancellable("this cannot be cancelled by itself")
    waiting = on_cancel()
    if waiting is not None:
        await waiting


# ---- arguments -------------------------------------------------------------------------------


def _kind(name: str, value: object) -> str:
    return arguments.enumerated(name, value, ToolKind)


def _status(name: str, value: object) -> str:
    return arguments.enumerated(name, value, v2.ToolCallStatus)


def _meta(name: str, value: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise arguments.wrong_type(name, value, "a dict or None")
    return arguments.json_value(name, value)


def _check_on_cancel(on_cancel: object) -> None:
    if on_cancel is not None:
        arguments.callback("on_cancel", on_cancel)


def _content(name: str, item: Item) -> v2.ToolCallContent:
    if isinstance(item, str):
        return Content(TextContent(item))
    if isinstance(item, TerminalHandle):
        return v2.Terminal(item.terminal_id)
    if isinstance(item, v2.ContentBlock):
        return Content(arguments.struct(name, item, v2.ContentBlock, _ITEM))
    return arguments.struct(name, item, v2.ToolCallContent, _ITEM)


def _contents(name: str, values: object) -> list[v2.ToolCallContent]:
    found = arguments.items(name, values, _ITEM)
    return [_content(f"{name}[{index}]", item) for index, item in enumerate(found)]


# ---- diffs -----------------------------------------------------------------------------------


def _diff(path: str, old: str | None, new: str | None) -> v2.Diff:
    if old is None and new is None:
        raise arguments.InvalidArgument(f"old or new must be a str: a diff of {path} needs a text")
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


def _diff_of_patch(text: str, cwd: str) -> v2.Diff:
    try:
        files = parse_patch(text)
    except BadPatch as error:
        raise arguments.InvalidArgument(f"text must be a Git patch: {error}") from None
    changes = [
        _CHANGES[file.operation](join(cwd, file.path), join(cwd, file.old_path or file.path))
        for file in files
    ]
    if not changes:
        raise arguments.InvalidArgument("text must be a Git patch that changes a file")
    return v2.Diff(changes, v2.DiffPatch("git_patch", text))
