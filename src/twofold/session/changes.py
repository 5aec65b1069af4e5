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
    terminal_id: str


class TerminalOutputAppended(Struct, frozen=True):
    """The terminal has more output; nothing else of it changed."""

    terminal_id: str


class PlanChanged(Struct, frozen=True):
    """The plan is new, other or gone."""

    plan_id: str


class CommandsChanged(Struct, frozen=True):
    pass


class ConfigChanged(Struct, frozen=True):
    pass


class InfoChanged(Struct, frozen=True):
    pass


class UsageChanged(Struct, frozen=True):
    pass


class StateChanged(Struct, frozen=True):
    """The session reported its state; `ended` only if this ended foreground work."""

    state: str
    ended: bool


class NoticeAdded(Struct, frozen=True):
    index: int


class CompactionChanged(Struct, frozen=True):
    compaction_id: str


class SubagentChanged(Struct, frozen=True):
    session_id: str


class UnknownAdded(Struct, frozen=True):
    """An update of an unknown kind was kept at `index` of `session.unknown`."""

    index: int


class PermissionChanged(Struct, frozen=True):
    """A permission request is pending, or no longer."""

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

Changes: TypeAlias = tuple[Change, ...]
