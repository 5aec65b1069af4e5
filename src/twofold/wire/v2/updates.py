"""Session updates of version 2."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta as Limit

from twofold.wire.base import (
    UNSET,
    Items,
    Known,
    LenientItems,
    Maybe,
    StrictMaybe,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.content import (
    ContentBlock,
)
from twofold.wire.shared import (
    Capability,
    CompactionSummaryChunk,
    CompactionUpdate,
    Error,
    Notice,
    PlanEntryPriority,
    PlanRemoved,
    SessionConfigOptionCategory,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SubagentSessionCapabilities,
    Usage,
    UsageUpdate,
)
from twofold.wire.v2.tools import (
    ToolCallContentChunk,
    ToolCallUpdate,
)

PlanEntryStatus: TypeAlias = Annotated[
    str, Known("pending", "in_progress", "completed", "cancelled")
]
StopReason: TypeAlias = Annotated[
    str, Known("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
]
StateName: TypeAlias = Annotated[str, Known("running", "idle", "requires_action")]


# ---- messages --------------------------------------------------------------------------------


class ContentChunk(Wire):
    message_id: str
    content: ContentBlock


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


class MessagePatch(Wire):
    message_id: str
    content: Maybe[Items[ContentBlock]] = UNSET


class UserMessage(MessagePatch, tag_field="sessionUpdate", tag="user_message"):
    pass


class AgentMessage(MessagePatch, tag_field="sessionUpdate", tag="agent_message"):
    pass


class AgentThought(MessagePatch, tag_field="sessionUpdate", tag="agent_thought"):
    pass


# ---- the state of a session ------------------------------------------------------------------


class BackgroundTerminal(Wire, tag_field="type", tag="terminal"):
    terminal_id: str


class BackgroundToolCall(Wire, tag_field="type", tag="tool_call"):
    tool_call_id: str


class BackgroundSubagent(Wire, tag_field="type", tag="subagent"):
    """Unstable."""

    session_id: str


class UnknownBackgroundWork(Unknown, tag_field="type", tag="?"):
    pass


BackgroundWork: TypeAlias = (
    BackgroundTerminal | BackgroundToolCall | BackgroundSubagent | UnknownBackgroundWork
)


class State(Wire):
    """A snapshot of what a session is doing; which fields go with which state is the peer's."""

    state: StateName
    stop_reason: Maybe[StopReason] = UNSET
    error: Maybe[Error] = UNSET
    usage: Maybe[Usage] = UNSET  # unstable
    background: Maybe[list[BackgroundWork]] = UNSET


class StateUpdate(State, tag_field="sessionUpdate", tag="state_update"):
    pass


class SubagentUpdate(Wire, tag_field="sessionUpdate", tag="subagent_update"):
    """Unstable."""

    session_id: str
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    capabilities: Maybe[SubagentSessionCapabilities] = UNSET
    state: Maybe[State] = UNSET
    cwd: StrictMaybe[str] = UNSET
    additional_directories: StrictMaybe[list[str]] = UNSET


# ---- terminals -------------------------------------------------------------------------------


class TerminalOutput(Wire):
    data: str  # base64


class TerminalExitStatus(Wire):
    exit_code: Maybe[int] = UNSET
    signal: Maybe[str] = UNSET


TerminalSide: TypeAlias = Annotated[int, Limit(ge=1, le=0xFFFF)]


class TerminalSize(Wire):
    cols: TerminalSide
    rows: TerminalSide


class TerminalCapabilities(Wire):
    cancel: Maybe[Capability] = UNSET


class TerminalUpdate(Wire, tag_field="sessionUpdate", tag="terminal_update"):
    terminal_id: str
    command: Maybe[str] = UNSET
    cwd: Maybe[str] = UNSET
    output: Maybe[TerminalOutput] = UNSET
    exit_status: Maybe[TerminalExitStatus] = UNSET
    size: Maybe[TerminalSize] = UNSET
    capabilities: Maybe[TerminalCapabilities] = UNSET


class TerminalOutputChunk(Wire, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    terminal_id: str
    data: str  # base64; may end inside a character or an escape sequence


# ---- plans -----------------------------------------------------------------------------------


class PlanEntry(Wire):
    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class PlanItems(Wire, tag_field="type", tag="items"):
    plan_id: str
    entries: Items[PlanEntry]


@alternative_to(PlanItems)
class JunePlanItems(Wire, tag_field="type", tag="items"):
    """A plan as June 2026 wrote it: the id is called `id`."""

    id: str
    entries: Items[PlanEntry]


class PlanFile(Wire, tag_field="type", tag="file"):
    """Unstable."""

    plan_id: str
    uri: str


class PlanMarkdown(Wire, tag_field="type", tag="markdown"):
    """Unstable."""

    plan_id: str
    content: str


class UnknownPlan(Unknown, tag_field="type", tag="?"):
    @property
    def plan_id(self) -> str:
        return str(self.raw.fields.get("planId", ""))


if TYPE_CHECKING:
    PlanUpdateContent: TypeAlias = PlanItems | JunePlanItems | PlanFile | PlanMarkdown | UnknownPlan
else:
    PlanUpdateContent = PlanItems | PlanFile | PlanMarkdown | UnknownPlan


class PlanUpdate(Wire, tag_field="sessionUpdate", tag="plan_update"):
    plan: PlanUpdateContent


# ---- commands and config options -------------------------------------------------------------


class TextCommandInput(Wire, tag_field="type", tag="text"):
    hint: str


class UnknownCommandInput(Unknown, tag_field="type", tag="?"):
    pass


AvailableCommandInput: TypeAlias = TextCommandInput | UnknownCommandInput


class Command(Wire, tag_field="type", tag="command"):
    name: str
    description: str
    input: Maybe[AvailableCommandInput] = UNSET


class UnknownCommand(Unknown, tag_field="type", tag="?"):
    pass


@alternative_to(Command)
class AugustCommand(Wire):
    """A command as August 2026 wrote it, without a `type`."""

    name: str
    description: str
    input: Maybe[AvailableCommandInput] = UNSET


if TYPE_CHECKING:
    AvailableCommand: TypeAlias = Command | AugustCommand | UnknownCommand
else:
    AvailableCommand = Command | UnknownCommand


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: Items[AvailableCommand]


class SessionConfigUngrouped(SessionConfigSelectOption):
    """An option that stands in no group."""


@alternative_to(SessionConfigUngrouped)
class SessionConfigSelectGroup(Wire):
    group_id: str
    name: str
    options: LenientItems[SessionConfigSelectOption]


if TYPE_CHECKING:
    SessionConfigSelectEntry: TypeAlias = SessionConfigUngrouped | SessionConfigSelectGroup
else:
    SessionConfigSelectEntry = SessionConfigUngrouped


class SessionConfigCommon(Wire):
    config_id: str
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
    config_options: Items[SessionConfigOption]


# ---- session/update --------------------------------------------------------------------------


class UnknownUpdate(Unknown, tag_field="sessionUpdate", tag="?"):
    """An update of a kind we do not know."""

    tag_name = "sessionUpdate"


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | UserMessage
    | AgentMessageChunk
    | AgentMessage
    | AgentThoughtChunk
    | AgentThought
    | StateUpdate
    | ToolCallUpdate
    | ToolCallContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
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


class UpdateSessionNotification(Wire):
    session_id: str
    update: SessionUpdate
