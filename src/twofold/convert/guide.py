"""The dialect of the client guide → version 2, one session at a time.

`GuideUpgrader` remembers what version 2 sends as a whole and the dialect in parts: the locations
of a call, the terminals it shows, the modes and the config options. Pure: updates in, updates out,
losses reported. Null is the same as omitted in this dialect and is never forwarded: in version 2 it
would clear.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from twofold.convert.drafts import lift, lift_content
from twofold.convert.losses import Losses, carried
from twofold.convert.options import MODE, choices, mode_option, upgrade_config_option
from twofold.convert.patches import BadPatch, FilePatch, parse_patch
from twofold.convert.upgrade import (
    PLAN_ID,
    REPLACED,
    mode_id,
    text_as_base64,
    upgrade_block,
    upgrade_plan,
    upgrade_simple,
)
from twofold.wire import codec, guide, v1, v2
from twofold.wire.base import UNSET, Fault, Malformed, Maybe, Wire
from twofold.wire.content import ImageContent, TextContent
from twofold.wire.shared import Content

# ---- the content of a tool call: code, patches, terminals ------------------------------------

AnyTerminal: TypeAlias = guide.Terminal | guide.ExitCodeTerminal
FileChange: TypeAlias = v2.DiffAdd | v2.DiffDelete | v2.DiffModify | v2.DiffMove | v2.DiffCopy


def upgrade_content(item: guide.ToolCallContent, losses: Losses, path: str) -> v2.ToolCallContent:
    """One item of a tool call's content."""
    match item:
        case TextContent() | ImageContent():
            return Content(upgrade_block(item, losses, path))
        case guide.Code():
            text = fenced(item.code, _info_string(item, losses, path))
            return Content(TextContent(text), **carried(item, Content, losses, path))
        case guide.Patch():
            return _diff(item, losses, path)
        case guide.Terminal() | guide.ExitCodeTerminal():
            return v2.Terminal(item.terminal_id, **carried(item, v2.Terminal, losses, path))
        case guide.UnknownToolCallContent():
            return v2.UnknownToolCallContent(raw=item.raw)
        case Content():
            return replace(item, content=upgrade_block(item.content, losses, f"{path}.content"))
    return lift_content(item)


# ---- code ----------------------------------------------------------------------------------


def fenced(code: str, language: str = "") -> str:
    """Code as a block of Markdown, which cannot show whether the last line ends with a newline."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if not code or code.endswith("\n") else "\n"
    return f"{fence}{language}\n{code}{end}{fence}"


def _info_string(item: guide.Code, losses: Losses, path: str) -> str:
    language = (item.language or "").strip()
    if re.search("[`\r\n]", language):
        losses.report(f"{path}.language", "a fenced block cannot name this language")
        return ""
    return language


# ---- patches -------------------------------------------------------------------------------


def _diff(item: guide.Patch, losses: Losses, path: str) -> v2.Diff:
    named = item.path or ""
    text, files = _read_patch(item.diff, named)
    changes = [_change(file, named) for file in files]
    if not files and named:
        changes = [v2.DiffModify(named)]
    elif not files:
        losses.report(path, "the patch does not name the files that it changes")
    elif named and named not in {change.path for change in changes}:
        losses.report(f"{path}.path", "the patch is about other files")
    patch = v2.DiffPatch("git_patch", text) if text else UNSET
    return v2.Diff(list(changes), patch, **carried(item, v2.Diff, losses, path))


def _read_patch(diff: str, path: str) -> tuple[str, list[FilePatch]]:
    """A patch that names its files, and the files; no files if it cannot be read."""
    try:
        return diff, parse_patch(diff)
    except BadPatch:
        pass
    # Bare hunks: the path beside them is all that names the file. A TAB ends a name with spaces.
    label = f"{path}\t" if " " in path else path
    headed = f"--- {label}\n+++ {label}\n{diff}"
    try:
        files = parse_patch(headed)
    except BadPatch:
        return diff, []
    return (headed, files) if [file.path for file in files] == [path] else (diff, [])


def _change(file: FilePatch, named: str) -> FileChange:
    # The path beside the patch may be the whole of what the patch has relative to somewhere.
    path = named if named.endswith(f"/{file.path}") else file.path
    kind = "binary" if file.binary else UNSET
    match file.operation:
        case "add":
            return v2.DiffAdd(path, kind)
        case "delete":
            return v2.DiffDelete(path, kind)
        case "modify":
            return v2.DiffModify(path, kind)
        case "move":
            return v2.DiffMove(file.old_path or "", path, kind)
        case "copy":
            return v2.DiffCopy(file.old_path or "", path, kind)


# ---- terminals -----------------------------------------------------------------------------


def terminal_updates(items: list[guide.ToolCallContent]) -> list[v2.SessionUpdate]:
    """The command, output and exit status of the terminals in content, as updates."""
    updates: list[v2.SessionUpdate] = []
    for item in items:
        if not isinstance(item, AnyTerminal):
            continue
        output = UNSET if item.output is None else item.output
        status = item.exit_status
        if isinstance(status, int):
            status = v2.TerminalExitStatus(status)
        if output is not UNSET or status:
            printed = output if output is UNSET else v2.TerminalOutput(text_as_base64(output))
            updates.append(
                v2.TerminalUpdate(item.terminal_id, output=printed, exit_status=status or UNSET)
            )
    return updates


W = TypeVar("W", bound=Wire)

AnyToolCall: TypeAlias = guide.ToolCall | guide.ToolCallUpdate
AnyModeUpdate: TypeAlias = (
    guide.CurrentModeUpdate
    | guide.BareCurrentModeUpdate
    | v1.CurrentModeUpdate
    | v1.DocumentedCurrentModeUpdate
)

PLAN_DESCRIPTION: Final = "description"
"""Where the `_meta` of a plan holds its description, for which version 2 has no field."""

_CHUNKS: dict[
    type[guide.ContentChunk],
    tuple[str, type[v2.AgentMessageChunk | v2.AgentThoughtChunk | v2.UserMessageChunk]],
] = {
    guide.AgentMessageChunk: ("agent", v2.AgentMessageChunk),
    guide.AgentThoughtChunk: ("thought", v2.AgentThoughtChunk),
    guide.UserMessageChunk: ("user", v2.UserMessageChunk),
}

# v2 has no status for "waits for permission": the pending request shows it.
_STATUSES: dict[str, str] = {"running": "in_progress", "requires_permission": "pending"}

# In the dialect a `tool_call` may leave out its title as well.
_REPLACED: dict[str, Any] = {**REPLACED, "title": None}


@dataclass(slots=True)
class _Call:
    """What must be remembered of a tool call."""

    locations: list[v2.ToolCallLocation] = field(default_factory=list)
    terminals: set[str] = field(default_factory=set)
    """The terminals that it shows."""


def upgrade_guide(update: guide.SessionUpdate, losses: Losses) -> list[v2.SessionUpdate]:
    """Convert one update of the guide's dialect by itself; `GuideUpgrader` loses less."""
    match update:
        case guide.ToolCallUpdate() if _code_paths(update) and not isinstance(
            update.locations, list
        ):
            losses.report("update.locations", "the call's other locations are not known here")
        case (
            guide.CurrentModeUpdate()
            | guide.BareCurrentModeUpdate()
            | v1.CurrentModeUpdate()
            | v1.DocumentedCurrentModeUpdate()
        ):
            losses.report("update", "the other modes and config options are not known here")
    return GuideUpgrader(losses).update(update)


class GuideUpgrader:
    """Converts a session of the guide's dialect to version 2, update by update."""

    def __init__(self, losses: Losses | None = None) -> None:
        self.losses = Losses() if losses is None else losses
        self._last: dict[str, str] = {}
        self._calls: dict[str, _Call] = {}
        self._options: list[v2.SessionConfigOption] = []
        self._modes: dict[str, v2.SessionConfigUngrouped] = {}
        self._current_mode = ""

    def update(self, update: guide.SessionUpdate) -> list[v2.SessionUpdate]:
        """Convert one update of the guide's dialect.

        Returns:
            The updates of version 2 with the same meaning, in order.
        """
        match update:
            case guide.ContentChunk():
                return [self._chunk(update)]
            case guide.ToolCall() | guide.ToolCallUpdate():
                return self._tool_call(update)
            case guide.Plan():
                return [_plan(update, self.losses)]
            case v1.Plan():
                return [upgrade_plan(update, self.losses)]
            case guide.ConfigOptionsUpdate():
                return [self._config(update)]
            case guide.AvailableCommandsUpdate():
                return [_commands(update, self.losses)]
            case guide.UnknownUpdate():
                return [self._unknown(update)]
        return [self._mode(update)]

    # ---- messages

    def _chunk(self, update: guide.ContentChunk) -> v2.SessionUpdate:
        role, shape = _CHUNKS[type(update)]
        content = upgrade_block(update.content, self.losses, "update.content")
        message_id = self._last[role] = self._message_id(update, role)
        return shape(message_id, content, **carried(update, shape, self.losses, "update"))

    def _message_id(self, update: guide.ContentChunk, role: str) -> str:
        if update.message_id:
            return update.message_id
        index = update.index
        if isinstance(index, float) and index.is_integer():
            index = int(index)  # 1.0 is 1 in JSON
        if isinstance(index, int | float):
            return f"guide:{role}:{index}"
        self.losses.report("update.index", "without an index, where a message ends is unknown")
        return self._last.get(role, f"guide:{role}")

    # ---- tool calls

    def _tool_call(self, update: AnyToolCall) -> list[v2.SessionUpdate]:
        known = self._calls.get(update.tool_call_id)
        whole = isinstance(update, guide.ToolCall)
        call = _Call() if known is None or whole else known
        # Whatever strict losses refuse is refused here, before anything is remembered.
        values = _stated(update, self.losses)
        appended = _content(update.append_content or [], self.losses, "update.appendContent")
        updates: list[v2.SessionUpdate] = []
        if isinstance(update.content, list):
            updates += terminal_updates(update.content)
            call.terminals = _terminals_in(update.content)
        locations = _locations(update, call.locations)
        if locations is not None:
            values["locations"] = call.locations = locations
        if whole and known is not None:
            values = _REPLACED | values
        self._calls[update.tool_call_id] = call
        if values or not appended:
            updates.append(v2.ToolCallUpdate(update.tool_call_id, **values))
        for item, content in zip(update.append_content or [], appended, strict=True):
            updates += terminal_updates([item])
            if not _is_shown(item, call):
                call.terminals |= _terminals_in([item])
                updates.append(v2.ToolCallContentChunk(update.tool_call_id, content))
        return updates

    # ---- modes and config options

    def _config(self, update: guide.ConfigOptionsUpdate) -> v2.SessionUpdate:
        self._options = [
            _option(option, self.losses, f"update.configOptions[{index}]")
            for index, option in enumerate(update.config_options)
        ]
        return self._config_update(update)

    def _mode(self, update: AnyModeUpdate) -> v2.SessionUpdate:
        mode = _mode_of(update)
        own = mode_option(self._options, by_id=True)
        if own is None:
            self._modes[mode.id] = self._choice(mode)
            self._current_mode = mode.id
        elif mode.id in {choice.value for choice in choices(own)}:
            chosen = replace(own, current_value=mode.id)
            self._options = [chosen if option is own else option for option in self._options]
        else:  # the agent's own option rules
            self.losses.report("update.currentMode", "the agent's mode option has no such mode")
        return self._config_update(update)

    def _choice(self, mode: guide.SessionMode) -> v2.SessionConfigUngrouped:
        before = self._modes.get(mode.id)
        if before is not None and mode == guide.SessionMode(mode.id):
            return before  # a bare id adds nothing
        name = mode.name or (before.name if before else mode.id)
        rest = carried(mode, v2.SessionConfigUngrouped, self.losses, "update.currentMode")
        return v2.SessionConfigUngrouped(mode.id, name, mode.description or UNSET, **rest)

    def _config_update(
        self, update: guide.ConfigOptionsUpdate | AnyModeUpdate
    ) -> v2.ConfigOptionUpdate:
        rest = carried(update, v2.ConfigOptionUpdate, self.losses, "update")
        return v2.ConfigOptionUpdate(self._all_options(), **rest)

    def _all_options(self) -> list[v2.SessionConfigOption]:
        # v2: the list is replaced whole, so the mode is part of it every time
        if not self._modes or mode_option(self._options, by_id=True) is not None:
            return self._options
        mode = v2.SessionConfigSelect(
            MODE,
            "Mode",
            category=MODE,
            current_value=self._current_mode,
            options=list(self._modes.values()),
        )
        return [mode, *self._options]

    # ---- what the guide does not have

    def _unknown(self, update: guide.UnknownUpdate) -> v2.SessionUpdate:
        """An update of version 2 or 1 if it is one, else as it came."""
        fields = update.raw.fields
        known: v2.SessionUpdate | None = _fitting(fields, v2.SessionUpdate)
        if known is None:
            old: v1.SessionUpdate | None = _fitting(fields, v1.SessionUpdate)
            if old is None or isinstance(old, v1.UnknownUpdate):
                return v2.UnknownUpdate(raw=update.raw)
            known = upgrade_simple(old, self.losses)
        if isinstance(known, v2.ConfigOptionUpdate):
            self._options = known.config_options
            return replace(known, config_options=self._all_options())
        return lift(known)


def _fitting(fields: dict[str, Any], shape: Any) -> Any:
    """What `fields` are as `shape`; None if not all of it can be read."""
    faults: list[Fault] = []
    try:
        value = codec.read(fields, shape, faults)
    except Malformed:
        return None
    return None if faults else value


# ---- tool calls ----------------------------------------------------------------------------


def _stated(update: AnyToolCall, losses: Losses) -> dict[str, Any]:
    """The fields of a call in an update, except its locations and the content it appends."""
    values = {
        name: value
        for name in ("title", "name", "kind", "raw_input", "raw_output")
        if (value := getattr(update, name)) is not UNSET and value is not None
    }
    if update.status:
        values["status"] = _status(update.status)
    if isinstance(update.content, list):
        values["content"] = _content(update.content, losses, "update.content")
    rest = carried(update, v2.ToolCallUpdate, losses, "update")
    return values | {name: value for name, value in rest.items() if value is not UNSET}


def _status(status: str) -> str:
    return _STATUSES.get(status, status)


def _locations(
    update: AnyToolCall, before: list[v2.ToolCallLocation]
) -> list[v2.ToolCallLocation] | None:
    """All locations of a call, where its code is from among them; None if nothing is new."""
    stated = isinstance(update.locations, list)
    locations = list(update.locations or []) if stated else before
    known = {location.path for location in locations}
    added = [path for path in _code_paths(update) if path not in known]
    if not stated and not added:
        return None
    return [*locations, *map(v2.ToolCallLocation, added)]


def _code_paths(update: AnyToolCall) -> list[str]:
    """Where the code in an update is from, each path once."""
    items = [*(update.content or []), *(update.append_content or [])]
    paths = [item.path for item in items if isinstance(item, guide.Code) and item.path]
    return list(dict.fromkeys(paths))


def _content(
    items: list[guide.ToolCallContent], losses: Losses, path: str
) -> list[v2.ToolCallContent]:
    return [upgrade_content(item, losses, f"{path}[{index}]") for index, item in enumerate(items)]


# ---- terminals -----------------------------------------------------------------------------


def _terminals_in(items: list[guide.ToolCallContent]) -> set[str]:
    return {item.terminal_id for item in items if isinstance(item, AnyTerminal)}


def _is_shown(item: guide.ToolCallContent, call: _Call) -> bool:
    """Whether an item only adds to a terminal that the call shows already.

    The dialect repeats a terminal to send more of its output: shown once for each time, all of
    them would show the same.
    """
    return (
        isinstance(item, AnyTerminal)
        and item.terminal_id in call.terminals
        and not item.meta
        and not item.unknown
    )


# ---- plans, modes, options, commands -------------------------------------------------------


def _plan(update: guide.Plan, losses: Losses) -> v2.PlanUpdate:
    entries = [
        v2.PlanEntry(
            step.description,
            step.priority or "medium",
            _status(step.status or "pending"),
            **carried(step, v2.PlanEntry, losses, f"update.steps[{index}]"),
        )
        for index, step in enumerate(update.steps)
    ]
    plan = v2.PlanItems(PLAN_ID, entries)
    if update.description:
        plan = replace(plan, meta={PLAN_DESCRIPTION: update.description})
    return v2.PlanUpdate(plan, **carried(update, v2.PlanUpdate, losses, "update"))


def _mode_of(update: AnyModeUpdate) -> guide.SessionMode:
    match update:
        case guide.CurrentModeUpdate():
            return update.current_mode
        case guide.BareCurrentModeUpdate():
            return guide.SessionMode(update.current_mode)
    return guide.SessionMode(mode_id(update))


def _option(option: guide.SessionConfigOption, losses: Losses, path: str) -> v2.SessionConfigOption:
    match option:
        case guide.SessionConfigSelect():
            return _plain(option, v2.SessionConfigSelect)
        case guide.SessionConfigBoolean():
            return _plain(option, v2.SessionConfigBoolean)
        case v2.UnknownSessionConfig():
            return option
    return upgrade_config_option(option, losses, path)


def _commands(update: guide.AvailableCommandsUpdate, losses: Losses) -> v2.SessionUpdate:
    commands = [
        _command(command, losses, f"update.availableCommands[{index}]")
        for index, command in enumerate(update.available_commands)
    ]
    rest = carried(update, v2.AvailableCommandsUpdate, losses, "update")
    return v2.AvailableCommandsUpdate(commands, **rest)


def _command(command: guide.AvailableCommand, losses: Losses, path: str) -> v2.AvailableCommand:
    if isinstance(command, v2.UnknownCommand):
        return command
    asks: Maybe[v2.AvailableCommandInput] = UNSET
    if isinstance(command.input, guide.TextCommandInput | v1.UnstructuredCommandInput):
        rest = carried(command.input, v2.TextCommandInput, losses, f"{path}.input")
        asks = v2.TextCommandInput(command.input.hint, **rest)
    elif command.input:
        asks = command.input
    rest = carried(command, v2.Command, losses, path)
    return v2.Command(command.name, command.description or "", asks, **rest)


def _plain(value: Wire, shape: type[W]) -> W:
    """`value`, of a subclass that only this dialect's reader needs, as the `shape` it is."""
    return shape(**{name: getattr(value, name) for name in value.__struct_fields__})
