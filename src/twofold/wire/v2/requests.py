"""Requests of version 2 and their results."""

from typing import Annotated, Any, TypeAlias

from twofold.wire.base import (
    STRICT,
    UNSET,
    DefaultOnNull,
    Extras,
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
    UInt16,
)
from twofold.wire.v2.tools import (
    ToolCallPatch,
)
from twofold.wire.v2.updates import (
    AvailableCommand,
    SessionConfigOption,
)

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
