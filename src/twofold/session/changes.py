"""What an update changed, as small facts.

A view that reads again just what the facts name is always equal to the session.
"""

from typing import TypeAlias

from msgspec import Struct


class EntryAdded(Struct, frozen=True):
    """A new entry was added at `index`, the last."""

    index: int


class EntryChanged(Struct, frozen=True):
    """Anything about the entry at `index` may have changed."""

    index: int


class ContentAppended(Struct, frozen=True):
    """The entry at `index` has one more item of content; nothing else of it changed."""

    index: int


class TerminalChanged(Struct, frozen=True):
    """Anything about the terminal `terminal_id` may have changed, or it is new."""

    terminal_id: str


class TerminalOutputAppended(Struct, frozen=True):
    """The terminal `terminal_id` has more output; nothing else of it changed."""

    terminal_id: str


class PlanChanged(Struct, frozen=True):
    """The plan `plan_id` was added, replaced or removed."""

    plan_id: str


class CommandsChanged(Struct, frozen=True):
    """The commands that the agent offers were replaced: see `Session.commands`."""


class ConfigChanged(Struct, frozen=True):
    """The options that the client may set were replaced: see `Session.config_options`."""


class InfoChanged(Struct, frozen=True):
    """The title or another field of `Session.info` may have changed."""


class UsageChanged(Struct, frozen=True):
    """`Session.usage` was replaced."""


class StateChanged(Struct, frozen=True):
    """The agent reported `state`; `ended` is true only if this ended foreground work."""

    state: str
    ended: bool


class NoticeAdded(Struct, frozen=True):
    """A notice for the user was added at `index` of `Session.notices`, the last."""

    index: int


class CompactionChanged(Struct, frozen=True):
    """The compaction `compaction_id` is new, or anything about it may have changed."""

    compaction_id: str


class SubagentChanged(Struct, frozen=True):
    """The subagent that works in the session `session_id` is new or was replaced."""

    session_id: str


class UnknownAdded(Struct, frozen=True):
    """An update of an unknown kind was added at `index` of `Session.unknown`, the last."""

    index: int


class PermissionChanged(Struct, frozen=True):
    """The permission request `request_id` was added to `Session.permissions`, or removed."""

    request_id: int | str


Change: TypeAlias = (
    EntryAdded
    | EntryChanged
    | ContentAppended
    | TerminalChanged
    | TerminalOutputAppended
    | PlanChanged
    | CommandsChanged
    | ConfigChanged
    | InfoChanged
    | UsageChanged
    | StateChanged
    | NoticeAdded
    | CompactionChanged
    | SubagentChanged
    | UnknownAdded
    | PermissionChanged
)
"""One fact about what an update changed."""

Changes: TypeAlias = tuple[Change, ...]
"""What one update changed, in the order in which it changed."""
