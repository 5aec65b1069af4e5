"""Tool calls of version 2: what the agent does, and what comes of it."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Meta as Limit

from twofold.wire.base import (
    UNSET,
    Items,
    Known,
    Maybe,
    Unknown,
    Wire,
    alternative_to,
)
from twofold.wire.shared import (
    Capability,
    Content,
    ToolKind,
)

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
