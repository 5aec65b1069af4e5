"""ACP version 1.

What both versions share is in `content`, `elicitation` and `shared`, and is part of this module
too. The schema of version 1 is closed, and strict peers fail on anything unknown. Reading it
here is as open as reading version 2: an unknown variant, kind or status is kept.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from msgspec import Struct

from twofold.wire import codec
from twofold.wire.base import (
    NULL_IS_DEFAULT,
    STRICT,
    UNSET,
    DefaultOnNull,
    Fault,
    Items,
    Known,
    LenientItems,
    Maybe,
    Omittable,
    StrictMaybe,
    StrictOmittable,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.content import *
from twofold.wire.elicitation import *
from twofold.wire.shared import *

# ---- messages --------------------------------------------------------------------------------


class ContentChunk(Wire):
    content: ContentBlock
    message_id: Maybe[str] = UNSET


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


# ---- tool calls ------------------------------------------------------------------------------


ToolCallStatus: TypeAlias = Annotated[str, Known("pending", "in_progress", "completed", "failed")]


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


# ---- plans -----------------------------------------------------------------------------------


PlanEntryStatus: TypeAlias = Annotated[str, Known("pending", "in_progress", "completed")]


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


# ---- commands, modes and config options ------------------------------------------------------


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
    """A choice that is in no group."""


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


# ---- session/update --------------------------------------------------------------------------


class UnknownUpdate(Unknown, tag_field="sessionUpdate", tag="?"):
    """An update of an unknown kind."""

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


# ---- permission ------------------------------------------------------------------------------


class RequestPermissionRequest(Wire):
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


# ---- files and terminals, which the client owns ----------------------------------------------


class WriteTextFileRequest(Wire):
    session_id: str
    path: str
    content: str


class ReadTextFileRequest(Wire):
    session_id: str
    path: str
    line: StrictMaybe[UInt32] = UNSET
    limit: StrictMaybe[UInt32] = UNSET


class ReadTextFileResponse(Wire):
    content: str


class CreateTerminalRequest(Wire):
    session_id: str
    command: str
    args: DefaultOnNull[list[str]] = UNSET
    env: DefaultOnNull[list[EnvVariable]] = UNSET
    cwd: StrictMaybe[str] = UNSET
    output_byte_limit: StrictMaybe[UInt] = UNSET


class CreateTerminalResponse(Wire):
    terminal_id: str


class TerminalRequest(Wire):
    """Params that name a terminal: output, release, wait_for_exit, kill."""

    session_id: str
    terminal_id: str


class TerminalExitStatus(Wire):
    exit_code: Maybe[UInt32] = UNSET
    signal: Maybe[str] = UNSET


class TerminalOutputResponse(Wire):
    output: str
    truncated: bool
    exit_status: Maybe[TerminalExitStatus] = UNSET


# ---- elicitation -----------------------------------------------------------------------------


class ElicitationSchema(Wire):
    type: Omittable[ElicitationSchemaType] = UNSET
    properties: StrictOmittable[dict[str, ElicitationPropertySchema]] = UNSET
    title: Maybe[str] = UNSET
    required: StrictMaybe[list[str]] = UNSET
    description: Maybe[str] = UNSET


class ElicitationForm(ElicitationScope, tag_field="mode", tag="form", kw_only=True):
    requested_schema: ElicitationSchema


CreateElicitationRequest: TypeAlias = ElicitationForm | ElicitationUrl | UnknownElicitation


# ---- initialize and authentication -----------------------------------------------------------


class PromptCapabilities(Wire):
    image: Omittable[bool] = UNSET
    audio: Omittable[bool] = UNSET
    embedded_context: Omittable[bool] = UNSET


class McpCapabilities(Wire):
    http: Omittable[bool] = UNSET
    sse: Omittable[bool] = UNSET


class SessionCapabilities(Wire):
    list: Maybe[Capability] = UNSET
    delete: Maybe[Capability] = UNSET
    additional_directories: Maybe[Capability] = UNSET
    resume: Maybe[Capability] = UNSET
    close: Maybe[Capability] = UNSET


class AgentAuthCapabilities(Wire):
    logout: Maybe[Capability] = UNSET


class AgentCapabilities(Wire):
    load_session: Omittable[bool] = UNSET
    prompt_capabilities: Omittable[PromptCapabilities] = UNSET
    mcp_capabilities: Omittable[McpCapabilities] = UNSET
    session_capabilities: Omittable[SessionCapabilities] = UNSET
    auth: Omittable[AgentAuthCapabilities] = UNSET


class FileSystemCapabilities(Wire):
    read_text_file: Omittable[bool] = UNSET
    write_text_file: Omittable[bool] = UNSET


class SessionConfigOptionsCapabilities(Wire):
    boolean: Maybe[Capability] = UNSET


class ClientSessionCapabilities(Wire):
    compaction: Maybe[Capability] = UNSET
    config_options: Maybe[SessionConfigOptionsCapabilities] = UNSET
    notices: Maybe[Capability] = UNSET


class AuthCapabilities(Wire):
    terminal: Omittable[bool] = UNSET


class ClientCapabilities(Wire):
    fs: Omittable[FileSystemCapabilities] = UNSET
    terminal: Omittable[bool] = UNSET
    session: Maybe[ClientSessionCapabilities] = UNSET
    auth: Omittable[AuthCapabilities] = UNSET
    elicitation: Maybe[ElicitationCapabilities] = UNSET


class AuthMethodTerminal(Wire, tag_field="type", tag="terminal"):
    id: str
    name: str
    description: Maybe[str] = UNSET
    args: DefaultOnNull[list[str]] = UNSET
    env: DefaultOnNull[dict[str, str]] = UNSET


class UnknownAuthMethod(Unknown, tag_field="type", tag="?"):
    pass


@alternative_to(AuthMethodTerminal)
class AuthMethodAgent(Wire):
    id: str
    name: str
    description: Maybe[str] = UNSET


if TYPE_CHECKING:
    AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod
else:
    AuthMethod = AuthMethodTerminal | UnknownAuthMethod


class InitializeRequest(Wire):
    protocol_version: UInt16
    client_capabilities: Omittable[ClientCapabilities] = UNSET
    client_info: Maybe[Implementation] = UNSET


class InitializeResponse(Wire):
    protocol_version: UInt16
    agent_capabilities: Omittable[AgentCapabilities] = UNSET
    auth_methods: Omittable[Items[AuthMethod]] = UNSET
    agent_info: Maybe[Implementation] = UNSET


class AuthenticateRequest(Wire):
    method_id: str


# ---- sessions --------------------------------------------------------------------------------


StringsOrNull: TypeAlias = Annotated[list[str], NULL_IS_DEFAULT]
EnvOrNull: TypeAlias = Annotated[list[EnvVariable], NULL_IS_DEFAULT]
HeadersOrNull: TypeAlias = Annotated[list[HttpHeader], NULL_IS_DEFAULT]


class McpServerHttp(Wire, tag_field="type", tag="http"):
    name: str
    url: str
    headers: HeadersOrNull


class McpServerSse(Wire, tag_field="type", tag="sse"):
    name: str
    url: str
    headers: HeadersOrNull


class UnknownMcpServer(Unknown, tag_field="type", tag="?"):
    pass


@alternative_to(McpServerHttp)
class McpServerStdio(Wire):
    name: str
    command: str
    args: StringsOrNull
    env: EnvOrNull


if TYPE_CHECKING:
    McpServer: TypeAlias = McpServerHttp | McpServerSse | McpServerStdio | UnknownMcpServer
else:
    McpServer = McpServerHttp | McpServerSse | UnknownMcpServer

McpServersOrNull: TypeAlias = Annotated[list[McpServer], NULL_IS_DEFAULT]


class NewSessionRequest(Wire):
    cwd: str
    mcp_servers: McpServersOrNull
    additional_directories: DefaultOnNull[list[str]] = UNSET


class LoadSessionRequest(Wire):
    session_id: str
    cwd: str
    mcp_servers: McpServersOrNull
    additional_directories: DefaultOnNull[list[str]] = UNSET


class ResumeSessionRequest(Wire):
    session_id: str
    cwd: str
    additional_directories: DefaultOnNull[list[str]] = UNSET
    mcp_servers: DefaultOnNull[list[McpServer]] = UNSET


class SessionMode(Wire):
    id: str
    name: str
    description: Maybe[str] = UNSET


class SessionModeState(Wire):
    current_mode_id: str
    available_modes: LenientItems[SessionMode]


class SessionSetup(Wire):
    """The result of loading or resuming a session."""

    modes: Maybe[SessionModeState] = UNSET
    config_options: Maybe[Items[SessionConfigOption]] = UNSET


class NewSessionResponse(Wire):
    session_id: str
    modes: Maybe[SessionModeState] = UNSET
    config_options: Maybe[Items[SessionConfigOption]] = UNSET


class SessionInfo(Wire):
    session_id: str
    cwd: str
    additional_directories: Omittable[Items[str]] = UNSET
    title: Maybe[str] = UNSET
    updated_at: Maybe[str] = UNSET


class ListSessionsRequest(Wire):
    cwd: StrictMaybe[str] = UNSET
    cursor: StrictMaybe[str] = UNSET


class ListSessionsResponse(Wire):
    sessions: LenientItems[SessionInfo]
    next_cursor: Maybe[str] = UNSET


class SetSessionModeRequest(Wire):
    session_id: str
    mode_id: str


class SetSessionConfigOptionRequest(Wire):
    session_id: str
    config_id: str
    value: Annotated[str | bool, STRICT]
    type: StrictOmittable[Annotated[str, Known("boolean")]] = UNSET


class SetSessionConfigOptionResponse(Wire):
    config_options: LenientItems[SessionConfigOption]


# ---- prompts ---------------------------------------------------------------------------------


StopReason: TypeAlias = Annotated[
    str, Known("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
]


class PromptRequest(Wire):
    session_id: str
    prompt: list[ContentBlock]


class PromptResponse(Wire):
    """The turn is over."""

    stop_reason: StopReason
    usage: Maybe[Usage] = UNSET  # unstable


# ---- methods ---------------------------------------------------------------------------------


METHODS: dict[str, Method] = {
    "initialize": Method("agent", InitializeRequest, InitializeResponse),
    "authenticate": Method("agent", AuthenticateRequest, Empty),
    "logout": Method("agent", Empty, Empty),
    "session/new": Method("agent", NewSessionRequest, NewSessionResponse),
    "session/load": Method("agent", LoadSessionRequest, SessionSetup),
    "session/list": Method("agent", ListSessionsRequest, ListSessionsResponse),
    "session/delete": Method("agent", SessionParams, Empty),
    "session/resume": Method("agent", ResumeSessionRequest, SessionSetup),
    "session/close": Method("agent", SessionParams, Empty),
    "session/set_mode": Method("agent", SetSessionModeRequest, Empty),
    "session/set_config_option": Method(
        "agent", SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
    ),
    "session/prompt": Method("agent", PromptRequest, PromptResponse),
    "session/cancel": Method("agent", SessionParams, None),
    "session/request_permission": Method(
        "client", RequestPermissionRequest, RequestPermissionResponse
    ),
    "session/update": Method("client", SessionNotification, None),
    "fs/read_text_file": Method("client", ReadTextFileRequest, ReadTextFileResponse),
    "fs/write_text_file": Method("client", WriteTextFileRequest, Empty),
    "terminal/create": Method("client", CreateTerminalRequest, CreateTerminalResponse),
    "terminal/output": Method("client", TerminalRequest, TerminalOutputResponse),
    "terminal/release": Method("client", TerminalRequest, Empty),
    "terminal/wait_for_exit": Method("client", TerminalRequest, TerminalExitStatus),
    "terminal/kill": Method("client", TerminalRequest, Empty),
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
        Malformed: The data is not JSON, or not an update of version 1.
    """
    return cast("SessionUpdate", codec.decode(data, SessionUpdate, faults))


class _UpdateLine(Struct, tag_field="method", tag="session/update", forbid_unknown_fields=True):
    params: SessionNotification
    jsonrpc: str


_decode_line: Callable[[bytes | str], _UpdateLine] = codec.decoder(_UpdateLine).decode


def decode_update_line(line: bytes | str) -> SessionNotification | None:
    """Decode a `session/update` message in one pass.

    Returns:
        Its params; None for any other message, and for one that only `decode_update` can read.
    """
    try:
        return _decode_line(line).params
    except codec.NOT_DECODED:
        return None
