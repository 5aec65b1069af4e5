"""What a session is made of.

Plain objects with ids, changed by `session.reduce` and by nothing else. Content items are the
wire's own structs, in the order in which they arrived, never joined.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from twofold.session.changes import Changes, ContentAppended
from twofold.wire import v2
from twofold.wire.base import Meta
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import PermissionOption

Role: TypeAlias = Literal["user", "agent", "thought", "session"]

OPEN: Final = frozenset({"pending", "in_progress", "paused"})
"""The statuses of a tool call that goes on, or will; an unknown status is open, too."""
FINISHED: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses of a tool call after which nothing more is expected."""


class Draft(StrEnum):
    """The drafts of version 2 that differ in what a `_meta` object does to the one before."""

    JUNE = "2026-06"
    """It replaces."""
    NOVEMBER = "2026-11"
    """It merges by top-level key; a null removes the key."""


@dataclass(slots=True)
class Message:
    """A message of the user or the agent, or a thought."""

    role: Role
    message_id: str
    index: int
    """Its place in `Session.entries`."""
    content: list[ContentBlock] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """Sender and recipient of a message between sessions."""
    meta: Meta | None = None
    unknown: dict[str, Any] = field(default_factory=dict)
    _text: str = field(default="", repr=False, compare=False)
    _joined: int = field(default=0, repr=False, compare=False)
    appended: Changes = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        self.appended = (ContentAppended(self.index),)  # the same fact for every chunk

    @property
    def text(self) -> str:
        """The text of the message; only text that arrived since the last call is joined."""
        if self._joined < len(self.content):
            # held by nothing but a local, a string grows in place instead of being copied
            text, self._text = self._text, ""
            text += "".join(
                [
                    block.text
                    for block in self.content[self._joined :]
                    if isinstance(block, TextContent)
                ]
            )
            self._text, self._joined = text, len(self.content)
        return self._text

    def replace_content(self, content: list[ContentBlock]) -> None:
        """Forget what was accumulated and start from `content`."""
        self.content = list(content)
        self._text, self._joined = "", 0


@dataclass(slots=True)
class ToolCall:
    """One thing the agent does, from announcement to result."""

    tool_call_id: str
    index: int
    """Its place in `Session.entries`."""
    name: str | None = None
    title: str | None = None
    kind: str = "other"
    status: str = "pending"
    content: list[v2.ToolCallContent] = field(default_factory=list)
    locations: list[v2.ToolCallLocation] = field(default_factory=list)
    raw_input: Any = None
    raw_output: Any = None
    capabilities: v2.ToolCallCapabilities | None = None
    meta: Meta | None = None
    unknown: dict[str, Any] = field(default_factory=dict)
    appended: Changes = field(default=(), repr=False, compare=False)
    decisions: list["Decision"] = field(default_factory=list, repr=False, compare=False)
    """How the permission requests about it were answered. A snapshot does not hold them."""
    rejected: bool = field(default=False, repr=False, compare=False)
    """The last answer rejected it, and the agent has not set a status since."""

    def __post_init__(self) -> None:
        self.appended = (ContentAppended(self.index),)

    @property
    def is_open(self) -> bool:
        """Whether more is expected of it; an unknown status counts as in progress."""
        return self.status not in FINISHED

    def copy(self) -> "ToolCall":
        """The call as it is now: later updates do not change the copy."""
        return replace(self, content=list(self.content), locations=list(self.locations))


Entry: TypeAlias = Message | ToolCall


@dataclass(slots=True)
class Terminal:
    """An agent-owned terminal: its output is bytes, kept exactly."""

    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: bytearray = field(default_factory=bytearray)
    output_meta: Meta | None = None
    output_unknown: dict[str, Any] = field(default_factory=dict)
    exit_status: v2.TerminalExitStatus | None = None
    size: v2.TerminalSize | None = None
    capabilities: v2.TerminalCapabilities | None = None
    meta: Meta | None = None
    unknown: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Compaction:
    """The agent made its context shorter."""

    compaction_id: str
    status: str = "in_progress"
    summary: list[ContentBlock] = field(default_factory=list)
    error: str | None = None
    meta: Meta | None = None
    unknown: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """How a permission request was answered."""

    request: v2.RequestPermissionRequest
    option: PermissionOption | None
    """The option that was chosen; None if the request was cancelled."""
    place: int
    """How many entries the session had when it was answered."""

    @property
    def rejects(self) -> bool:
        """Whether the agent must not do what it asked about."""
        return self.option is not None and self.option.kind in ("reject_once", "reject_always")


@dataclass(slots=True)
class Permission:
    """A question that waits for an answer."""

    request_id: int | str
    request: v2.RequestPermissionRequest
    before: ToolCall | None = field(default=None, repr=False, compare=False)
    """The tool call as it was before the request patched it, if the session knew it: an agent may
    replace a full command by a shortened one in the moment it asks."""

    @property
    def tool_call_id(self) -> str | None:
        """The tool call it is about, if it is about one."""
        subject = self.request.subject
        if isinstance(subject, v2.ToolCallPermissionSubject):
            return subject.tool_call.tool_call_id
        if isinstance(subject, v2.CommandPermissionSubject) and isinstance(
            subject.tool_call_id, str
        ):
            return subject.tool_call_id
        return None
