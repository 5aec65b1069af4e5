"""The other shapes that both versions share, to the letter."""

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from msgspec import Meta as Limit

from twofold.wire.base import UNSET, Items, Known, Maybe, Number, StrictMaybe, Unknown, Wire
from twofold.wire.content import ContentBlock

UInt: TypeAlias = Annotated[int, Limit(ge=0)]
UInt16: TypeAlias = Annotated[int, Limit(ge=0, le=0xFFFF)]
UInt32: TypeAlias = Annotated[int, Limit(ge=0, le=0xFFFF_FFFF)]

ToolKind: TypeAlias = Annotated[
    str,
    Known(
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    ),
]
PermissionOptionKind: TypeAlias = Annotated[
    str, Known("allow_once", "allow_always", "reject_once", "reject_always")
]
PlanEntryPriority: TypeAlias = Annotated[str, Known("high", "medium", "low")]
NoticeSeverity: TypeAlias = Annotated[str, Known("info", "warning", "error")]
CompactionStatus: TypeAlias = Annotated[
    str, Known("in_progress", "completed", "failed", "cancelled")
]
SessionConfigOptionCategory: TypeAlias = Annotated[
    str, Known("mode", "model", "model_config", "thought_level")
]


class Capability(Wire):
    """An empty object: its presence means that something is supported."""


class Implementation(Wire):
    """The program behind a peer."""

    name: str
    version: str
    title: Maybe[str] = UNSET


class Error(Wire):
    """The error of a JSON-RPC response, or of a turn."""

    code: int
    message: str
    data: Any = UNSET


class CancelRequestNotification(Wire):
    request_id: int | str | None


class EnvVariable(Wire):
    name: str
    value: str


class HttpHeader(Wire):
    name: str
    value: str


class PermissionOption(Wire):
    option_id: str
    name: str
    kind: PermissionOptionKind


class Content(Wire, tag_field="type", tag="content"):
    """A content block as a result of a tool call."""

    content: ContentBlock


class SessionConfigSelectOption(Wire):
    value: str
    name: str
    description: Maybe[str] = UNSET


class Cost(Wire):
    amount: Number
    currency: str


class Usage(Wire):
    """Tokens of a turn (unstable)."""

    total_tokens: UInt
    input_tokens: UInt
    output_tokens: UInt
    thought_tokens: Maybe[UInt] = UNSET
    cached_read_tokens: Maybe[UInt] = UNSET
    cached_write_tokens: Maybe[UInt] = UNSET


class SessionInfoUpdate(Wire, tag_field="sessionUpdate", tag="session_info_update"):
    title: Maybe[str] = UNSET
    updated_at: Maybe[str] = UNSET


class UsageUpdate(Wire, tag_field="sessionUpdate", tag="usage_update"):
    used: UInt
    size: UInt
    cost: Maybe[Cost] = UNSET


class Notice(Wire, tag_field="sessionUpdate", tag="notice"):
    severity: NoticeSeverity
    title: str
    description: Maybe[str] = UNSET


class CompactionUpdate(Wire, tag_field="sessionUpdate", tag="compaction_update"):
    compaction_id: str
    status: CompactionStatus
    summary: Maybe[Items[ContentBlock]] = UNSET
    error: Maybe[str] = UNSET


class CompactionSummaryChunk(Wire, tag_field="sessionUpdate", tag="compaction_summary_chunk"):
    compaction_id: str
    content: ContentBlock


class PlanRemoved(Wire, tag_field="sessionUpdate", tag="plan_removed"):
    """A plan is gone (unstable)."""

    plan_id: str


class SessionMessage(Wire, tag_field="sessionUpdate", tag="session_message"):
    """A message between sessions (unstable)."""

    message_id: str
    sender_session_id: Maybe[str] = UNSET
    recipient_session_id: Maybe[str] = UNSET
    sender_message_id: Maybe[str] = UNSET
    recipient_message_id: Maybe[str] = UNSET
    content: Maybe[Items[ContentBlock]] = UNSET


class SessionMessageChunk(Wire, tag_field="sessionUpdate", tag="session_message_chunk"):
    """A streamed item of a message between sessions (unstable)."""

    message_id: str
    content: ContentBlock


class SelectedPermissionOutcome(Wire, tag_field="outcome", tag="selected"):
    option_id: str


class CancelledPermissionOutcome(Wire, tag_field="outcome", tag="cancelled"):
    pass


class CompleteElicitationNotification(Wire):
    elicitation_id: str


class Empty(Wire):
    """Params or a result that carries nothing."""


class SessionParams(Wire):
    """Params that only name a session."""

    session_id: str


# ---- the state of a session, and of a subagent's ---------------------------------------------


SessionStopReason: TypeAlias = Annotated[
    str, Known("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
]
StateName: TypeAlias = Annotated[str, Known("running", "idle", "requires_action")]


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
    stop_reason: Maybe[SessionStopReason] = UNSET
    error: Maybe[Error] = UNSET
    usage: Maybe[Usage] = UNSET  # unstable
    background: Maybe[list[BackgroundWork]] = UNSET


class SubagentSessionCapabilities(Wire):
    cancel: Maybe[Capability] = UNSET


class SubagentUpdate(Wire, tag_field="sessionUpdate", tag="subagent_update"):
    """Unstable."""

    session_id: str
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    capabilities: Maybe[SubagentSessionCapabilities] = UNSET
    state: Maybe[State] = UNSET
    cwd: StrictMaybe[str] = UNSET
    additional_directories: StrictMaybe[list[str]] = UNSET


# ---- plans -----------------------------------------------------------------------------------


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


# ---- methods ---------------------------------------------------------------------------------


Side: TypeAlias = Literal["agent", "client", "both"]


class Method(NamedTuple):
    """One row of a version's method table."""

    side: Side
    """Who handles it."""
    params: Any
    """The type of its params."""
    result: Any
    """The type of its result; None for a notification."""
