"""What a session is now.

`Session.apply` and the permission methods are the only things that change it; everybody else
reads. Pure: no clock, no task, no file.
"""

from dataclasses import dataclass, field

from twofold.session import reduce
from twofold.session.changes import Changes
from twofold.session.parts import (
    Compaction,
    Draft,
    Entry,
    Message,
    Permission,
    Role,
    Terminal,
    ToolCall,
)
from twofold.wire import v2
from twofold.wire.shared import Notice, SessionInfoUpdate, UsageUpdate


@dataclass(slots=True)
class Session:
    """One conversation, added up from its updates."""

    session_id: str
    draft: Draft = Draft.JUNE
    entries: list[Entry] = field(default_factory=list)
    """Messages, thoughts and tool calls, in order of first appearance."""
    terminals: dict[str, Terminal] = field(default_factory=dict)
    plans: dict[str, v2.PlanUpdate] = field(default_factory=dict)
    commands_update: v2.AvailableCommandsUpdate | None = None
    config_update: v2.ConfigOptionUpdate | None = None
    info: SessionInfoUpdate = field(default_factory=SessionInfoUpdate)
    usage: UsageUpdate | None = None
    state_update: v2.StateUpdate = field(default_factory=lambda: v2.StateUpdate("idle"))
    notices: list[Notice] = field(default_factory=list)
    compactions: dict[str, Compaction] = field(default_factory=dict)
    subagents: dict[str, v2.SubagentUpdate] = field(default_factory=dict)
    unknown: list[v2.UnknownUpdate] = field(default_factory=list)
    """Updates of kinds we do not know, in order."""
    permissions: dict[int | str, Permission] = field(default_factory=dict)
    """What waits for an answer. Requests, not updates: a snapshot does not hold them."""
    cancelling: bool = False
    """A cancel was sent and the turn has not ended yet: show what still comes as cancelled."""
    messages: dict[Role, dict[str, Message]] = field(
        default_factory=lambda: {"user": {}, "agent": {}, "thought": {}, "session": {}},
        repr=False,
        compare=False,
    )
    """The same messages by role and id; an id is unique per role."""
    tool_calls: dict[str, ToolCall] = field(default_factory=dict, repr=False, compare=False)
    """The same tool calls by id."""

    @property
    def state(self) -> str:
        """`running`, `idle`, `requires_action`, or a word we do not know (which is not idle)."""
        return self.state_update.state

    @property
    def stop_reason(self) -> str | None:
        """Why the last turn ended, if the session is idle and said so."""
        return self.state_update.stop_reason or None

    @property
    def title(self) -> str | None:
        return self.info.title or None

    @property
    def commands(self) -> list[v2.AvailableCommand]:
        return self.commands_update.available_commands if self.commands_update else []

    @property
    def config_options(self) -> list[v2.SessionConfigOption]:
        return self.config_update.config_options if self.config_update else []

    def apply(self, update: v2.SessionUpdate) -> Changes:
        """Take in one update and say what it changed."""
        reducer = _reducers.get(type(update)) or reduce.reducer_for(update)
        return reducer(self, update)

    def ask(self, request_id: int | str, request: v2.RequestPermissionRequest) -> Changes:
        """A permission request came: its tool call is applied, then it waits for `settle`."""
        return reduce.ask(self, request_id, request)

    def settle(self, request_id: int | str) -> Changes:
        """A permission request was answered or withdrawn."""
        return reduce.settle(self, request_id)

    def cancel(self) -> None:
        """A cancel was sent: what still comes until the turn ends belongs to a cancelled turn."""
        self.cancelling = True


_reducers = reduce.REDUCERS


class Sessions(dict[str, Session]):
    """Many sessions side by side, made as they are first heard of."""

    def __init__(self, draft: Draft = Draft.JUNE) -> None:
        super().__init__()
        self.draft = draft

    def __missing__(self, session_id: str) -> Session:
        session = self[session_id] = Session(session_id, self.draft)
        return session

    def apply(self, notification: v2.UpdateSessionNotification) -> Changes:
        """Take in one `session/update`."""
        update = notification.update
        reducer = _reducers.get(type(update)) or reduce.reducer_for(update)
        return reducer(self[notification.session_id], update)
