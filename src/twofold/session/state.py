"""What a session is now.

`Session.apply` and the permission methods are the only things that change it; everybody else
reads. Pure: no clock, no task, no file.
"""

from dataclasses import dataclass, field
from typing import Literal

from twofold.session import reduce
from twofold.session.changes import Changes
from twofold.session.parts import (
    OPEN,
    Compaction,
    Decision,
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
    decisions: list[Decision] = field(default_factory=list, repr=False, compare=False)
    """How permission requests were answered that are about no tool call. See `permissions`."""
    messages: dict[Role, dict[str, Message]] = field(
        default_factory=lambda: {"user": {}, "agent": {}, "thought": {}, "session": {}},
        repr=False,
        compare=False,
    )
    """The same messages by role and id; an id is unique per role."""
    tool_calls: dict[str, ToolCall] = field(default_factory=dict, repr=False, compare=False)
    """The same tool calls by id."""
    open_calls: dict[str, ToolCall] = field(default_factory=dict, repr=False, compare=False)
    """The tool calls that are not finished, without those that an earlier turn left open."""
    turn: Literal["", "open", "ended"] = field(default="", repr=False, compare=False)
    """Whether a turn goes on, or has ended (as has a replay); empty if nobody said so far."""

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

    def settle(
        self, request_id: int | str, outcome: v2.RequestPermissionOutcome | None = None
    ) -> Changes:
        """A permission request was answered, or withdrawn if there is no outcome."""
        return reduce.settle(self, request_id, outcome)

    def cancel(self) -> None:
        """A cancel was sent: what still comes until the turn ends belongs to a cancelled turn."""
        self.cancelling = True

    def prompted(self) -> Changes:
        """A prompt was sent: what comes from here on belongs to its turn."""
        return reduce.begin_turn(self)

    def replayed(self) -> Changes:
        """All of a replay came: the calls that it left open are not going on."""
        return reduce.end_turn(self)

    def cancelled_calls(self) -> list[v2.ToolCallUpdate]:
        """What a cancel makes of the tool calls: those that its turn has open are cancelled.

        Whoever cancels applies these updates, and once more before the end of the turn is applied:
        calls of earlier turns are never among them.
        """
        if not self.cancelling or self.turn != "open":
            return []
        calls = sorted(self.open_calls.values(), key=lambda call: call.index)
        return [v2.ToolCallUpdate(call.tool_call_id, status="cancelled") for call in calls]

    def outcome(self, call: ToolCall) -> str:
        """How a tool call stands, for people: its status, or what became of it without one.

        `rejected` by an answer, `cancelling` with its turn, `left_open` by a turn that ended.
        """
        if not call.is_open:
            return call.status
        if call.rejected:
            return "rejected"
        if call.tool_call_id in self.open_calls:
            if self.cancelling and self.turn == "open":
                return "cancelling"
        elif not self._is_in_background(call):
            return "left_open"
        return call.status if call.status in OPEN else "in_progress"

    def _is_in_background(self, call: ToolCall) -> bool:
        return any(
            isinstance(work, v2.BackgroundToolCall) and work.tool_call_id == call.tool_call_id
            for work in self.state_update.background or []
        )


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
