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
    """The drafts of version 2 that differ in what an update does to the `_meta` of an object."""

    JUNE = "2026-06"
    """The `_meta` of an update replaces the one before."""
    NOVEMBER = "2026-11"
    """The `_meta` of an update is merged by top-level key; a null removes the key."""


@dataclass(slots=True)
class Message:
    """A message of the user or the agent, or a thought."""

    role: Role
    """`user`, `agent`, `thought`, or `session` for a message from another session."""
    message_id: str
    """The id of the message, unique among the messages of its role."""
    index: int
    """Its place in `Session.entries`."""
    content: list[ContentBlock] = field(default_factory=list)
    """The blocks in the order in which they arrived, one for each chunk."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Sender and recipient of a message between sessions."""
    meta: Meta | None = None
    """The `_meta` of its updates, merged as its draft requires; None if there is none."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """The fields of its updates that the schema does not have."""
    _text: str = field(default="", init=False, repr=False, compare=False)
    _joined: int = field(default=0, init=False, repr=False, compare=False)
    _appended: Changes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._appended = (ContentAppended(self.index),)  # the same fact for every chunk

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
        """Replace all content by `content`."""
        self.content = list(content)
        self._text, self._joined = "", 0


@dataclass(slots=True)
class ToolCall:
    """One thing the agent does, from announcement to result."""

    tool_call_id: str
    """The id of the call, unique in its session."""
    index: int
    """Its place in `Session.entries`."""
    name: str | None = None
    """The name of the tool, for programs; None if the agent gave none."""
    title: str | None = None
    """What the call does, for people; None if the agent gave none."""
    kind: str = "other"
    """`read`, `edit`, `execute` or another of the protocol's words, or a newer one."""
    status: str = "pending"
    """The status that the agent reported; see `Session.outcome` for what to show."""
    content: list[v2.ToolCallContent] = field(default_factory=list)
    """What the call shows: blocks of content, diffs and terminals."""
    locations: list[v2.ToolCallLocation] = field(default_factory=list)
    """The files that the call works on."""
    raw_input: Any = None
    """The input of the tool, any JSON; None if the agent sent none."""
    raw_output: Any = None
    """The output of the tool, any JSON; None if the agent sent none."""
    capabilities: v2.ToolCallCapabilities | None = None
    """What the client may do with the call, such as cancel it alone."""
    meta: Meta | None = None
    """The `_meta` of its updates, merged as its draft requires; None if there is none."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """The fields of its updates that the schema does not have."""
    _appended: Changes = field(init=False, repr=False, compare=False)
    decisions: list["Decision"] = field(default_factory=list, repr=False, compare=False)
    """How the permission requests about it were answered. A snapshot does not hold them."""
    rejected: bool = field(default=False, repr=False, compare=False)
    """The last answer rejected it, and the agent has not set a status since."""

    def __post_init__(self) -> None:
        self._appended = (ContentAppended(self.index),)

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
    """The id of the terminal, unique in its session."""
    command: str | None = None
    """The command that runs in it; None if the agent did not send it."""
    cwd: str | None = None
    """The working directory of the command."""
    output: bytearray = field(default_factory=bytearray)
    """All output so far; it may end inside a character or an escape sequence."""
    output_meta: Meta | None = None
    """The `_meta` of the output that the agent last sent whole."""
    output_unknown: dict[str, Any] = field(default_factory=dict)
    """The fields of that output that the schema does not have."""
    exit_status: v2.TerminalExitStatus | None = None
    """How the command ended; None while it runs."""
    size: v2.TerminalSize | None = None
    """Columns and rows; None if the agent did not send them."""
    capabilities: v2.TerminalCapabilities | None = None
    """What the client may do with the terminal, such as cancel its command."""
    meta: Meta | None = None
    """The `_meta` of its updates, merged as its draft requires; None if there is none."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """The fields of its updates that the schema does not have."""


@dataclass(slots=True)
class Compaction:
    """The agent made its context shorter."""

    compaction_id: str
    """The id of the compaction, unique in its session."""
    status: str = "in_progress"
    """`in_progress`, `completed`, `failed`, `cancelled`, or a newer word."""
    summary: list[ContentBlock] = field(default_factory=list)
    """What the agent keeps of the part that it made shorter."""
    error: str | None = None
    """Why it failed; None if it did not."""
    meta: Meta | None = None
    """The `_meta` of its updates, merged as its draft requires; None if there is none."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """The fields of its updates that the schema does not have."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How a permission request was answered."""

    request: v2.RequestPermissionRequest
    """The request that was answered."""
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
    """A permission request that waits for an answer."""

    request_id: int | str
    """The JSON-RPC id of the request, or the id that `Session.ask` was given."""
    request: v2.RequestPermissionRequest
    """What the agent asks, with the options to choose from."""
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
