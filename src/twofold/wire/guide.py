"""Session updates in the dialect of the client guide.

The guide describes updates by example, not by schema, so little is required here, and where it
leaves a shape open, those of versions 1 and 2 are read too. `convert.guide` makes version 2 of it;
nothing is written in this dialect except what was read in it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from twofold.wire import v1, v2
from twofold.wire.base import (
    UNSET,
    Items,
    Known,
    LenientItems,
    Maybe,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.content import ContentBlock, ImageContent, TextContent
from twofold.wire.shared import Content, PlanEntryPriority, ToolKind

ToolCallStatus: TypeAlias = Annotated[
    str, Known("pending", "running", "requires_permission", "completed", "failed", "cancelled")
]
PlanStepStatus: TypeAlias = Annotated[str, Known("pending", "running", "completed")]


# ---- messages --------------------------------------------------------------------------------


class ContentChunk(Wire):
    """A streamed item of a message, which its place in the conversation names."""

    content: ContentBlock
    index: Maybe[int | float] = UNSET
    message_id: Maybe[str] = UNSET  # of versions 1 and 2: a better name, where there is one


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


# ---- tool calls ------------------------------------------------------------------------------


class Code(Wire, tag_field="type", tag="code"):
    """A piece of code, and where it is from."""

    code: str
    language: Maybe[str] = UNSET
    path: Maybe[str] = UNSET


class Patch(Wire, tag_field="type", tag="patch"):
    """A change of files, as a diff."""

    diff: str
    path: Maybe[str] = UNSET


class Terminal(Wire, tag_field="type", tag="terminal"):
    """An agent-owned terminal, and all it has printed so far."""

    terminal_id: str
    output: Maybe[str] = UNSET
    exit_status: Maybe[v2.TerminalExitStatus] = UNSET


@alternative_to(Terminal)
class ExitCodeTerminal(Wire, tag_field="type", tag="terminal"):
    """A terminal whose exit status is the bare code."""

    terminal_id: str
    exit_status: int
    output: Maybe[str] = UNSET


class UnknownToolCallContent(Unknown, tag_field="type", tag="?"):
    """Content of an unknown type, to be shown generically."""


if TYPE_CHECKING:
    ToolCallContent: TypeAlias = (
        TextContent
        | ImageContent
        | Code
        | Patch
        | Terminal
        | ExitCodeTerminal
        | Content
        | v2.Diff
        | v2.JulyDiff
        | v2.JuneDiff
        | UnknownToolCallContent
    )
else:
    ToolCallContent = (
        TextContent
        | ImageContent
        | Code
        | Patch
        | Terminal
        | Content  # this and the next: the shapes of the versions themselves
        | v2.Diff
        | UnknownToolCallContent
    )


class ToolCallFields(Wire):
    """The fields of a tool call. Null is the same as omitted."""

    tool_call_id: str
    title: Maybe[str] = UNSET
    name: Maybe[str] = UNSET
    kind: Maybe[ToolKind] = UNSET
    status: Maybe[ToolCallStatus] = UNSET
    content: Maybe[Items[ToolCallContent]] = UNSET
    append_content: Maybe[Items[ToolCallContent]] = UNSET
    locations: Maybe[Items[v2.ToolCallLocation]] = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCall(ToolCallFields, tag_field="sessionUpdate", tag="tool_call"):
    """A whole tool call; for an id seen before it replaces the call."""


class ToolCallUpdate(ToolCallFields, tag_field="sessionUpdate", tag="tool_call_update"):
    """What is new about a tool call; `content` replaces, `append_content` adds."""


# ---- plans -----------------------------------------------------------------------------------


class PlanStep(Wire):
    description: str
    status: Maybe[PlanStepStatus] = UNSET
    priority: Maybe[PlanEntryPriority] = UNSET


class Plan(Wire, tag_field="sessionUpdate", tag="plan"):
    steps: LenientItems[PlanStep]
    description: Maybe[str] = UNSET


alternative_to(Plan)(v1.Plan)


# ---- modes, config options, commands ---------------------------------------------------------


class SessionMode(Wire):
    id: str
    name: Maybe[str] = UNSET
    description: Maybe[str] = UNSET


class CurrentModeUpdate(Wire, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode: SessionMode


@alternative_to(CurrentModeUpdate)
class BareCurrentModeUpdate(Wire, tag_field="sessionUpdate", tag="current_mode_update"):
    """The new mode as nothing but its id."""

    current_mode: str


alternative_to(CurrentModeUpdate)(v1.CurrentModeUpdate)
alternative_to(CurrentModeUpdate)(v1.DocumentedCurrentModeUpdate)


class SessionConfigSelect(v2.SessionConfigSelect):
    """A class of its own, so that only this dialect reads version 1's shape in its place."""


class SessionConfigBoolean(v2.SessionConfigBoolean):
    """A class of its own, as `SessionConfigSelect`."""


alternative_to(SessionConfigSelect)(v1.SessionConfigSelect)
alternative_to(SessionConfigBoolean)(v1.SessionConfigBoolean)

if TYPE_CHECKING:
    SessionConfigOption: TypeAlias = (
        SessionConfigSelect
        | SessionConfigBoolean
        | v1.SessionConfigSelect
        | v1.SessionConfigBoolean
        | v2.UnknownSessionConfig
    )
else:
    SessionConfigOption = SessionConfigSelect | SessionConfigBoolean | v2.UnknownSessionConfig


class ConfigOptionsUpdate(Wire, tag_field="sessionUpdate", tag="config_options_update"):
    config_options: LenientItems[SessionConfigOption]


class TextCommandInput(v2.TextCommandInput):
    """A class of its own, as `SessionConfigSelect`."""


alternative_to(TextCommandInput)(v1.UnstructuredCommandInput)

if TYPE_CHECKING:
    AvailableCommandInput: TypeAlias = (
        TextCommandInput | v1.UnstructuredCommandInput | v2.UnknownCommandInput
    )
else:
    AvailableCommandInput = TextCommandInput | v2.UnknownCommandInput


class CommandFields(Wire):
    name: str
    description: Maybe[str] = UNSET
    input: Maybe[AvailableCommandInput] = UNSET


class Command(CommandFields, tag_field="type", tag="command"):
    """A command as version 2 writes it."""


@alternative_to(Command)
class UntypedCommand(CommandFields):
    """A command as version 1 writes it, without a `type`."""


if TYPE_CHECKING:
    AvailableCommand: TypeAlias = Command | UntypedCommand | v2.UnknownCommand
else:
    AvailableCommand = Command | v2.UnknownCommand


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: LenientItems[AvailableCommand]


# ---- session/update --------------------------------------------------------------------------


class UnknownUpdate(Unknown, tag_field="sessionUpdate", tag="?"):
    """An update of a kind that the guide does not have: to be warned about, never fatal."""

    tag_name = "sessionUpdate"


KnownUpdate: TypeAlias = (
    AgentMessageChunk
    | AgentThoughtChunk
    | UserMessageChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | CurrentModeUpdate
    | ConfigOptionsUpdate
    | AvailableCommandsUpdate
    | UnknownUpdate
)

if TYPE_CHECKING:
    SessionUpdate: TypeAlias = (
        KnownUpdate
        | v1.Plan
        | BareCurrentModeUpdate
        | v1.CurrentModeUpdate
        | v1.DocumentedCurrentModeUpdate
    )
else:
    SessionUpdate = KnownUpdate


class SessionNotification(Wire):
    session_id: str
    update: SessionUpdate


# ---- recognising the dialect -----------------------------------------------------------------


def looks_like_guide(update: object) -> bool:
    """Whether an update (parsed JSON) can only be of this dialect, and of neither version."""
    if not isinstance(update, dict):
        return False
    tag = update.get("sessionUpdate")
    only_here = _ONLY_HERE.get(tag) if isinstance(tag, str) else None
    return only_here is not None and only_here(update)


def _is_chunk(update: dict[str, Any]) -> bool:
    return type(update.get("index")) in (int, float) and "messageId" not in update


def _is_tool_call(update: dict[str, Any]) -> bool:
    if "appendContent" in update or update.get("status") in ("running", "requires_permission"):
        return True
    content = update.get("content")
    return isinstance(content, list) and any(map(_is_tool_content, content))


def _is_tool_content(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if kind == "terminal":  # in version 2 it only refers to one, in version 1 the client has it
        return "output" in item or "exitStatus" in item
    return kind in ("text", "image", "code", "patch")


_ONLY_HERE: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "agent_message_chunk": _is_chunk,
    "agent_thought_chunk": _is_chunk,
    "user_message_chunk": _is_chunk,
    "tool_call": _is_tool_call,
    "tool_call_update": _is_tool_call,
    "plan": lambda update: "steps" in update and "entries" not in update,
    "current_mode_update": lambda update: "currentMode" in update,
    "config_options_update": lambda update: True,
}
