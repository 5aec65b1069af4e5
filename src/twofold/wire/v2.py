"""ACP version 2 (draft of November 2026), and the shapes of its earlier drafts.

What both versions share is in `content`, `elicitation` and `shared`, and is part of this module
too. Shapes of earlier drafts carry the month in their name; they are read and written back as they
came, and `convert.drafts` lifts them to the newest.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from msgspec import Meta as Limit
from msgspec import Struct

from twofold.wire import codec
from twofold.wire.base import (
    STRICT,
    UNSET,
    DefaultOnNull,
    Extras,
    Fault,
    Items,
    Known,
    LenientItems,
    Maybe,
    Omittable,
    StrictMaybe,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.content import *
from twofold.wire.elicitation import *
from twofold.wire.shared import *

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


# ---- tool calls ------------------------------------------------------------------------------


ToolCallStatus: TypeAlias = Annotated[
    str, Known("pending", "in_progress", "paused", "completed", "failed", "cancelled")
]
DiffFileType: TypeAlias = Annotated[str, Known("text", "binary", "directory", "symlink")]
DiffPatchFormat: TypeAlias = Annotated[str, Known("git_patch")]


class DiffPathChange(Wire):
    path: str
    file_type: Maybe[DiffFileType] = UNSET
    mime_type: Maybe[str] = UNSET


class DiffAdd(DiffPathChange, tag_field="operation", tag="add"):
    pass


class DiffDelete(DiffPathChange, tag_field="operation", tag="delete"):
    pass


class DiffModify(DiffPathChange, tag_field="operation", tag="modify"):
    pass


class DiffPathPairChange(Wire):
    old_path: str
    path: str
    file_type: Maybe[DiffFileType] = UNSET
    mime_type: Maybe[str] = UNSET


class DiffMove(DiffPathPairChange, tag_field="operation", tag="move"):
    pass


class DiffCopy(DiffPathPairChange, tag_field="operation", tag="copy"):
    pass


class UnknownDiffChange(Unknown, tag_field="operation", tag="?"):
    tag_name = "operation"


DiffChange: TypeAlias = DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy | UnknownDiffChange


class DiffPatch(Wire):
    format: DiffPatchFormat
    text: str


class Diff(Wire, tag_field="type", tag="diff"):
    changes: Items[DiffChange]
    patch: Maybe[DiffPatch] = UNSET


class JulyDiffPatch(Wire):
    format: DiffPatchFormat
    diff: str


@alternative_to(Diff)
class JulyDiff(Wire, tag_field="type", tag="diff"):
    """A diff as July 2026 wrote it: the patch text is called `diff`."""

    changes: Items[DiffChange]
    patch: JulyDiffPatch


@alternative_to(Diff)
class JuneDiff(Wire, tag_field="type", tag="diff"):
    """A diff as June 2026 (and version 1) wrote it: two texts."""

    path: str
    new_text: str
    old_text: Maybe[str] = UNSET


class Terminal(Wire, tag_field="type", tag="terminal"):
    """Shows an agent-owned terminal inside a tool call."""

    terminal_id: str


class UnknownToolCallContent(Unknown, tag_field="type", tag="?"):
    pass


if TYPE_CHECKING:
    ToolCallContent: TypeAlias = (
        Content | Diff | Terminal | JulyDiff | JuneDiff | UnknownToolCallContent
    )
else:
    ToolCallContent = Content | Diff | Terminal | UnknownToolCallContent


class ToolCallLocation(Wire):
    path: str
    line: Maybe[Annotated[int, Limit(ge=1, le=0xFFFF_FFFF)]] = UNSET


class ToolCallCapabilities(Wire):
    cancel: Maybe[Capability] = UNSET


class ToolCallPatch(Wire):
    """A patch of one tool call, as a permission request carries it."""

    tool_call_id: str
    name: Maybe[str] = UNSET
    title: Maybe[str] = UNSET
    kind: Maybe[ToolKind] = UNSET
    status: Maybe[ToolCallStatus] = UNSET
    content: Maybe[Items[ToolCallContent]] = UNSET
    locations: Maybe[Items[ToolCallLocation]] = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    capabilities: Maybe[ToolCallCapabilities] = UNSET


class ToolCallUpdate(ToolCallPatch, tag_field="sessionUpdate", tag="tool_call_update"):
    """A patch of one tool call, as a session update."""


class ToolCallContentChunk(Wire, tag_field="sessionUpdate", tag="tool_call_content_chunk"):
    tool_call_id: str
    content: ToolCallContent


# ---- the state of a session ------------------------------------------------------------------


StopReason: TypeAlias = SessionStopReason


class StateUpdate(State, tag_field="sessionUpdate", tag="state_update"):
    pass


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


PlanEntryStatus: TypeAlias = Annotated[
    str, Known("pending", "in_progress", "completed", "cancelled")
]


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
    """A choice that is in no group."""


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
    """An update of an unknown kind."""

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


# ---- permission ------------------------------------------------------------------------------


class ToolCallPermissionSubject(Wire, tag_field="type", tag="tool_call"):
    tool_call: ToolCallPatch


class CommandPermissionSubject(Wire, tag_field="type", tag="command"):
    command: str
    cwd: str
    tool_call_id: Maybe[str] = UNSET
    terminal_id: Maybe[str] = UNSET


class UnknownPermissionSubject(Unknown, tag_field="type", tag="?"):
    pass


RequestPermissionSubject: TypeAlias = (
    ToolCallPermissionSubject | CommandPermissionSubject | UnknownPermissionSubject
)


class RequestPermissionRequest(Wire):
    session_id: str
    title: str
    options: list[PermissionOption]
    description: Maybe[str] = UNSET
    subject: StrictMaybe[RequestPermissionSubject] = UNSET


@alternative_to(RequestPermissionRequest)
class JuneRequestPermissionRequest(Wire):
    """A permission request as June 2026 wrote it: the tool call is the subject."""

    session_id: str
    tool_call: ToolCallPatch
    options: list[PermissionOption]


class UnknownPermissionOutcome(Unknown, tag_field="outcome", tag="?"):
    tag_name = "outcome"


RequestPermissionOutcome: TypeAlias = (
    SelectedPermissionOutcome | CancelledPermissionOutcome | UnknownPermissionOutcome
)


class RequestPermissionResponse(Wire):
    outcome: RequestPermissionOutcome


# ---- elicitation -----------------------------------------------------------------------------


class ElicitationSchema(Wire):
    type: ElicitationSchemaType
    properties: dict[str, ElicitationPropertySchema]
    title: Maybe[str] = UNSET
    required: StrictMaybe[list[str]] = UNSET
    description: Maybe[str] = UNSET


class ElicitationForm(ElicitationScope, tag_field="mode", tag="form", kw_only=True):
    requested_schema: ElicitationSchema


CreateElicitationRequest: TypeAlias = ElicitationForm | ElicitationUrl | UnknownElicitation


# ---- initialize and authentication -----------------------------------------------------------


class PromptCapabilities(Wire):
    image: Maybe[Capability] = UNSET
    audio: Maybe[Capability] = UNSET
    embedded_context: Maybe[Capability] = UNSET


class McpCapabilities(Wire):
    stdio: Maybe[Capability] = UNSET
    http: Maybe[Capability] = UNSET


class SessionCapabilities(Wire):
    prompt: Maybe[PromptCapabilities] = UNSET
    mcp: Maybe[McpCapabilities] = UNSET
    delete: Maybe[Capability] = UNSET
    additional_directories: Maybe[Capability] = UNSET


class AgentCapabilities(Wire):
    session: Maybe[SessionCapabilities] = UNSET
    auth: Maybe[Capability] = UNSET


class ClientAuthCapabilities(Wire):
    terminal: Maybe[Capability] = UNSET


class ClientCapabilities(Wire):
    auth: Maybe[ClientAuthCapabilities] = UNSET
    elicitation: Maybe[ElicitationCapabilities] = UNSET


class AuthMethodAgent(Wire, tag_field="type", tag="agent"):
    method_id: str
    name: str
    description: Maybe[str] = UNSET


class AuthMethodTerminal(Wire, tag_field="type", tag="terminal"):
    method_id: str
    name: str
    description: Maybe[str] = UNSET
    args: DefaultOnNull[list[str]] = UNSET
    env: DefaultOnNull[list[EnvVariable]] = UNSET


class UnknownAuthMethod(Unknown, tag_field="type", tag="?"):
    pass


AuthMethod: TypeAlias = AuthMethodAgent | AuthMethodTerminal | UnknownAuthMethod


class InitializeRequest(Wire):
    protocol_version: UInt16
    info: Implementation
    capabilities: Omittable[ClientCapabilities] = UNSET


@alternative_to(InitializeRequest)
class AugustInitializeRequest(Wire):
    """August 2026 did not yet require `info`."""

    protocol_version: UInt16
    info: Maybe[Implementation] = UNSET
    capabilities: Omittable[ClientCapabilities] = UNSET


class InitializeResponse(Wire):
    protocol_version: UInt16
    info: Implementation
    capabilities: Omittable[AgentCapabilities] = UNSET
    auth_methods: Omittable[Items[AuthMethod]] = UNSET


@alternative_to(InitializeResponse)
class AugustInitializeResponse(Wire):
    """August 2026 did not yet require `info`."""

    protocol_version: UInt16
    info: Maybe[Implementation] = UNSET
    capabilities: Omittable[AgentCapabilities] = UNSET
    auth_methods: Omittable[Items[AuthMethod]] = UNSET


class LoginAuthRequest(Wire):
    method_id: str


# ---- sessions --------------------------------------------------------------------------------


class McpServerHttp(Wire, tag_field="type", tag="http"):
    name: str
    url: str
    headers: DefaultOnNull[list[HttpHeader]] = UNSET


class McpServerStdio(Wire, tag_field="type", tag="stdio"):
    name: str
    command: str
    args: DefaultOnNull[list[str]] = UNSET
    env: DefaultOnNull[list[EnvVariable]] = UNSET


class UnknownMcpServer(Unknown, tag_field="type", tag="?"):
    pass


McpServer: TypeAlias = McpServerHttp | McpServerStdio | UnknownMcpServer


class NewSessionRequest(Wire):
    cwd: str
    additional_directories: DefaultOnNull[list[str]] = UNSET
    mcp_servers: DefaultOnNull[list[McpServer]] = UNSET


class ReplayFromStart(Wire, tag_field="type", tag="start"):
    pass


class UnknownReplayFrom(Unknown, tag_field="type", tag="?"):
    pass


ReplayFrom: TypeAlias = ReplayFromStart | UnknownReplayFrom


class ResumeSessionRequest(Wire):
    session_id: str
    cwd: str
    additional_directories: DefaultOnNull[list[str]] = UNSET
    mcp_servers: DefaultOnNull[list[McpServer]] = UNSET
    replay_from: StrictMaybe[ReplayFrom] = UNSET


class ResumeSessionResponse(Wire):
    config_options: Omittable[Items[SessionConfigOption]] = UNSET
    available_commands: Omittable[Items[AvailableCommand]] = UNSET


class NewSessionResponse(Wire):
    session_id: str
    config_options: Omittable[Items[SessionConfigOption]] = UNSET
    available_commands: Omittable[Items[AvailableCommand]] = UNSET


class SessionInfo(Wire):
    session_id: str
    cwd: str
    additional_directories: DefaultOnNull[list[str]] = UNSET
    title: Maybe[str] = UNSET
    updated_at: Maybe[str] = UNSET


class ListSessionsRequest(Wire):
    cwd: StrictMaybe[str] = UNSET
    cursor: StrictMaybe[str] = UNSET


class ListSessionsResponse(Wire):
    sessions: LenientItems[SessionInfo]
    next_cursor: StrictMaybe[str] = UNSET


class CancelToolCallRequest(Wire):
    session_id: str
    tool_call_id: str


class CancelTerminalRequest(Wire):
    session_id: str
    terminal_id: str


class SetSessionConfigOptionRequest(Wire):
    session_id: str
    config_id: str
    type: Annotated[str, Known("id", "boolean")]
    value: Annotated[Any, STRICT]


class SetSessionConfigOptionResponse(Wire):
    config_options: Items[SessionConfigOption]


# ---- prompts ---------------------------------------------------------------------------------


class PromptRequest(Wire):
    session_id: str
    prompt: list[ContentBlock]


class PromptResponse(Wire):
    """The prompt was inserted, as this message."""

    message_id: str


@alternative_to(PromptResponse)
class JunePromptResponse(Wire):
    """The prompt was accepted (June and August 2026)."""

    def __post_init__(self) -> None:
        if isinstance(self.unknown, Extras) and "messageId" in self.unknown.fields:
            raise ValueError("a prompt result that names a message is November's")


# ---- methods ---------------------------------------------------------------------------------


METHODS: dict[str, Method] = {
    "initialize": Method("agent", InitializeRequest, InitializeResponse),
    "auth/login": Method("agent", LoginAuthRequest, Empty),
    "auth/logout": Method("agent", Empty, Empty),
    "session/new": Method("agent", NewSessionRequest, NewSessionResponse),
    "session/list": Method("agent", ListSessionsRequest, ListSessionsResponse),
    "session/delete": Method("agent", SessionParams, Empty),
    "session/resume": Method("agent", ResumeSessionRequest, ResumeSessionResponse),
    "session/close": Method("agent", SessionParams, Empty),
    "session/set_config_option": Method(
        "agent", SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
    ),
    "session/prompt": Method("agent", PromptRequest, PromptResponse),
    "session/cancel": Method("agent", SessionParams, None),
    "tool_call/cancel": Method("agent", CancelToolCallRequest, Empty),
    "terminal/cancel": Method("agent", CancelTerminalRequest, Empty),
    "session/request_permission": Method(
        "client", RequestPermissionRequest, RequestPermissionResponse
    ),
    "session/update": Method("client", UpdateSessionNotification, None),
    "elicitation/create": Method("client", CreateElicitationRequest, CreateElicitationResponse),
    "elicitation/complete": Method("client", CompleteElicitationNotification, None),
    "$/cancel_request": Method("both", CancelRequestNotification, None),
}


# ---- decoding --------------------------------------------------------------------------------


def decode_update(data: bytes | str, faults: list[Fault] | None = None) -> SessionUpdate:
    """Decode one session update.

    Args:
        data: The update as JSON.
        faults: What was malformed and could be left out is appended here.

    Raises:
        Malformed: The data is not JSON, or not an update of version 2.
    """
    return cast("SessionUpdate", codec.decode(data, SessionUpdate, faults))


class _UpdateLine(Struct, tag_field="method", tag="session/update", forbid_unknown_fields=True):
    params: UpdateSessionNotification
    jsonrpc: str


_decode_line: Callable[[bytes | str], _UpdateLine] = codec.decoder(_UpdateLine).decode


def decode_update_line(line: bytes | str) -> UpdateSessionNotification | None:
    """Decode a `session/update` message in one pass.

    Returns:
        Its params; None for any other message, and for one that only `decode_update` can read.
    """
    try:
        return _decode_line(line).params
    except codec.NOT_DECODED:
        return None
