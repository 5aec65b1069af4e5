"""Session updates of version 1."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from twofold.wire.base import (
    UNSET,
    Items,
    Known,
    LenientItems,
    Maybe,
    Omittable,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.content import (
    ContentBlock,
)
from twofold.wire.shared import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    Notice,
    PlanEntryPriority,
    PlanRemoved,
    SessionConfigOptionCategory,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    ToolKind,
    UInt32,
    UsageUpdate,
)
from twofold.wire.v2.updates import (
    PlanFile,
    PlanMarkdown,
    SubagentUpdate,
    UnknownPlan,
)

ToolCallStatus: TypeAlias = Annotated[str, Known("pending", "in_progress", "completed", "failed")]
PlanEntryStatus: TypeAlias = Annotated[str, Known("pending", "in_progress", "completed")]


# ---- tool calls ------------------------------------------------------------------------------


class Diff(Wire, tag_field="type", tag="diff"):
    path: str
    new_text: str
    old_text: Maybe[str] = UNSET


class Terminal(Wire, tag_field="type", tag="terminal"):
    """Shows a client-owned terminal, made with `terminal/create`, inside a tool call."""

    terminal_id: str


class UnknownToolCallContent(Unknown, tag_field="type", tag="?"):
    pass


ToolCallContent: TypeAlias = Content | Diff | Terminal | UnknownToolCallContent


class ToolCallLocation(Wire):
    path: str
    line: Maybe[UInt32] = UNSET


class ToolCall(Wire, tag_field="sessionUpdate", tag="tool_call"):
    """A whole tool call; for an id seen before it replaces the call."""

    tool_call_id: str
    title: str
    name: Maybe[str] = UNSET
    kind: Omittable[ToolKind] = UNSET
    status: Omittable[ToolCallStatus] = UNSET
    content: Omittable[Items[ToolCallContent]] = UNSET
    locations: Omittable[Items[ToolCallLocation]] = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCallPatch(Wire):
    """A patch of one tool call, as a permission request carries it. Null is the same as omitted."""

    tool_call_id: str
    kind: Maybe[ToolKind] = UNSET
    status: Maybe[ToolCallStatus] = UNSET
    title: Maybe[str] = UNSET
    name: Maybe[str] = UNSET
    content: Maybe[Items[ToolCallContent]] = UNSET
    locations: Maybe[Items[ToolCallLocation]] = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCallUpdate(ToolCallPatch, tag_field="sessionUpdate", tag="tool_call_update"):
    """A patch of one tool call, as a session update."""


# ---- session/update --------------------------------------------------------------------------


class ContentChunk(Wire):
    content: ContentBlock
    message_id: Maybe[str] = UNSET


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


class PlanEntry(Wire):
    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Wire, tag_field="sessionUpdate", tag="plan"):
    entries: LenientItems[PlanEntry]


class PlanItems(Wire, tag_field="type", tag="items"):
    plan_id: str
    entries: LenientItems[PlanEntry]


PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown | UnknownPlan


class PlanUpdate(Wire, tag_field="sessionUpdate", tag="plan_update"):
    """Unstable in version 1."""

    plan: PlanUpdateContent


class UnstructuredCommandInput(Wire):
    hint: str


class AvailableCommand(Wire):
    name: str
    description: str
    input: Maybe[UnstructuredCommandInput] = UNSET


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: LenientItems[AvailableCommand]


class CurrentModeUpdate(Wire, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str


@alternative_to(CurrentModeUpdate)
class DocumentedCurrentModeUpdate(Wire, tag_field="sessionUpdate", tag="current_mode_update"):
    """The shape that the protocol's page on session modes shows, against its schema."""

    mode_id: str


class SessionConfigUngrouped(SessionConfigSelectOption):
    """An option that stands in no group."""


@alternative_to(SessionConfigUngrouped)
class SessionConfigSelectGroup(Wire):
    group: str
    name: str
    options: LenientItems[SessionConfigSelectOption]


if TYPE_CHECKING:
    SessionConfigSelectEntry: TypeAlias = SessionConfigUngrouped | SessionConfigSelectGroup
else:
    SessionConfigSelectEntry = SessionConfigUngrouped


class SessionConfigCommon(Wire):
    id: str
    name: str
    description: Maybe[str] = UNSET
    category: Maybe[SessionConfigOptionCategory] = UNSET


class SessionConfigSelect(SessionConfigCommon, tag_field="type", tag="select", kw_only=True):
    current_value: str
    options: list[SessionConfigSelectEntry]


class SessionConfigBoolean(SessionConfigCommon, tag_field="type", tag="boolean", kw_only=True):
    current_value: bool


class UnknownSessionConfig(Unknown, tag_field="type", tag="?"):
    pass


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean | UnknownSessionConfig


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    config_options: LenientItems[SessionConfigOption]


class UnknownUpdate(Unknown, tag_field="sessionUpdate", tag="?"):
    """An update of a kind we do not know."""

    tag_name = "sessionUpdate"


KnownUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
    | UnknownUpdate
)

if TYPE_CHECKING:
    SessionUpdate: TypeAlias = KnownUpdate | DocumentedCurrentModeUpdate
else:
    SessionUpdate = KnownUpdate


class SessionNotification(Wire):
    session_id: str
    update: SessionUpdate
