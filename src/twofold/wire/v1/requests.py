"""Requests of version 1 and their results."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from twofold.wire.base import (
    NULL_IS_DEFAULT,
    STRICT,
    UNSET,
    DefaultOnNull,
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
from twofold.wire.content import (
    ContentBlock,
)
from twofold.wire.elicitation import (
    ElicitationCapabilities,
    ElicitationPropertySchema,
    ElicitationSchemaType,
    ElicitationScope,
    ElicitationUrl,
    UnknownElicitation,
)
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Capability,
    EnvVariable,
    HttpHeader,
    Implementation,
    PermissionOption,
    SelectedPermissionOutcome,
    UInt,
    UInt16,
    UInt32,
    Usage,
)
from twofold.wire.v1.updates import (
    SessionConfigOption,
    ToolCallPatch,
)

StopReason: TypeAlias = Annotated[
    str, Known("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
]


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


class PromptRequest(Wire):
    session_id: str
    prompt: list[ContentBlock]


class PromptResponse(Wire):
    """The turn is over."""

    stop_reason: StopReason
    usage: Maybe[Usage] = UNSET  # unstable
