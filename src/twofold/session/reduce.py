"""An update and a session → what changed. The semantics of ACP v2, and nothing else.

Upserts are keyed and an unknown id creates. A patch field that is omitted leaves the value, null
clears it, a value replaces it; arrays are replaced whole. A chunk appends exactly one item, and
its `_meta` is its own. Order is arrival order. Every reducer costs the same however long the
session is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec.structs import fields, replace

from twofold.errors import PeerError
from twofold.session.changes import (
    Change,
    Changes,
    CommandsChanged,
    CompactionChanged,
    ConfigChanged,
    EntryAdded,
    EntryChanged,
    InfoChanged,
    NoticeAdded,
    PermissionChanged,
    PlanChanged,
    StateChanged,
    SubagentChanged,
    TerminalChanged,
    TerminalOutputAppended,
    UnknownAdded,
    UsageChanged,
)
from twofold.session.state import (
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
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Extras, Meta, UnsetType, Wire
from twofold.wire.shared import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    PermissionOption,
    PlanRemoved,
    SelectedPermissionOutcome,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    UsageUpdate,
)


@dataclass(slots=True)
class Session:
    """The state of one session, folded from its updates.

    Only its methods change it; everything else reads. No clock, no task, no file.

    Args:
        session_id: The id of the session.
        draft: The draft of version 2 that the agent speaks, which decides how `_meta` is merged.
    """

    session_id: str
    draft: Draft = Draft.JUNE
    entries: list[Entry] = field(default_factory=list)
    """Messages, thoughts and tool calls, in order of first appearance."""
    terminals: dict[str, Terminal] = field(default_factory=dict)
    """The terminals that the agent owns, by id."""
    plans: dict[str, v2.PlanUpdate] = field(default_factory=dict)
    """The last update of each plan, by id."""
    commands_update: v2.AvailableCommandsUpdate | None = None
    """The last update of `commands`; None before the first."""
    config_update: v2.ConfigOptionUpdate | None = None
    """The last update of `config_options`; None before the first."""
    info: SessionInfoUpdate = field(default_factory=SessionInfoUpdate)
    """The title and the other facts about the session, with all updates merged."""
    usage: UsageUpdate | None = None
    """The tokens in the context, and the cost; None if the agent reported none."""
    state_update: v2.StateUpdate = field(default_factory=lambda: v2.StateUpdate("idle"))
    """The last update of `state` and `stop_reason`."""
    notices: list[Notice] = field(default_factory=list)
    """Notices of the agent for the user, in order."""
    compactions: dict[str, Compaction] = field(default_factory=dict)
    """The compactions of the context, by id."""
    subagents: dict[str, v2.SubagentUpdate] = field(default_factory=dict)
    """The last update of each subagent, by the id of the session in which it works."""
    unknown: list[v2.UnknownUpdate] = field(default_factory=list)
    """Updates of unknown kinds, in order."""
    permissions: dict[int | str, Permission] = field(default_factory=dict)
    """The requests that wait for an answer, by request id. A snapshot does not hold them."""
    cancelling: bool = False
    """A cancel was sent and the turn has not ended yet: later tool calls count as cancelled."""
    decisions: list[Decision] = field(default_factory=list, repr=False, compare=False)
    """The answers to permission requests that are about no tool call."""
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
    """`open` while a turn goes on, `ended` after a turn or a replay, empty before the first."""

    @property
    def state(self) -> str:
        """`running`, `idle`, `requires_action`, or an unknown word (which is not idle)."""
        return self.state_update.state

    @property
    def stop_reason(self) -> str | None:
        """Why the last turn ended; None unless the session is idle and the agent gave a reason."""
        return self.state_update.stop_reason or None

    @property
    def title(self) -> str | None:
        """The title of the session; None if it has none."""
        return self.info.title or None

    @property
    def commands(self) -> list[v2.AvailableCommand]:
        """The commands that the agent offers."""
        return self.commands_update.available_commands if self.commands_update else []

    @property
    def config_options(self) -> list[v2.SessionConfigOption]:
        """The options that the client may set; one of category `mode` holds the modes."""
        return self.config_update.config_options if self.config_update else []

    def apply(self, update: v2.SessionUpdate) -> Changes:
        """Apply one update.

        Args:
            update: An update of version 2; `Upgrader` makes them of version 1.

        Returns:
            What changed, as small facts; empty if nothing did.

        Raises:
            NotBase64: Terminal output cannot be decoded. The session is unchanged.
        """
        reducer = REDUCERS.get(type(update)) or reducer_for(update)
        return reducer(self, update)

    def ask(self, request_id: int | str, request: v2.RequestPermissionRequest) -> Changes:
        """Add a permission request, which waits for `settle`.

        Args:
            request_id: The id by which it is settled.
            request: The request; the tool call in it is applied first.

        Returns:
            What changed, as small facts.
        """
        return ask(self, request_id, request)

    def settle(
        self, request_id: int | str, outcome: v2.RequestPermissionOutcome | None = None
    ) -> Changes:
        """Remove a permission request, because it was answered or withdrawn.

        Args:
            request_id: The id that `ask` was given; an unknown one changes nothing.
            outcome: The answer; None if the request was withdrawn.

        Returns:
            What changed, as small facts.
        """
        return settle(self, request_id, outcome)

    def cancel(self) -> None:
        """Note that a cancel was sent: updates until the end of the turn belong to it."""
        self.cancelling = True

    def prompted(self) -> Changes:
        """Note that a prompt was sent: later updates belong to its turn."""
        return begin_turn(self)

    def replayed(self) -> Changes:
        """Note that a replay is complete: the calls that it left open are not going on."""
        return end_turn(self)

    def use_draft(self, draft: Draft) -> None:
        """Merge `_meta` by the rules of this draft from now on."""
        self.draft = draft

    def without_transcript(self) -> "Session":
        """A session of the same id to replay this one into; what no replay sends stays in it."""
        after = Session(self.session_id, self.draft)
        self.keep_settings(after)
        return after

    def keep_settings(self, after: "Session") -> None:
        """Give `after` what a replay does not send."""
        after.commands_update, after.config_update = self.commands_update, self.config_update
        after.info, after.usage = self.info, self.usage
        after.state_update, after.cancelling = self.state_update, self.cancelling
        after.permissions = self.permissions

    def cancelled_calls(self) -> list[v2.ToolCallUpdate]:
        """The updates with which a cancel ends the tool calls that its turn has open.

        Apply them after `cancel`, and once more before the end of the turn is applied. Calls of
        earlier turns are never among them.
        """
        if not self.cancelling or self.turn != "open":
            return []
        calls = sorted(self.open_calls.values(), key=lambda call: call.index)
        return [v2.ToolCallUpdate(call.tool_call_id, status="cancelled") for call in calls]

    def outcome(self, call: ToolCall) -> str:
        """The outcome of a tool call, for people: its status, or what became of it without one.

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


class Sessions(dict[str, Session]):
    """Many sessions by id; a session is created when its id is first used.

    Args:
        draft: The draft of version 2 that the agents speak.
    """

    def __init__(self, draft: Draft = Draft.JUNE) -> None:
        super().__init__()
        self.draft = draft

    def __missing__(self, session_id: str) -> Session:
        session = self[session_id] = Session(session_id, self.draft)
        return session

    def apply(self, notification: v2.UpdateSessionNotification) -> Changes:
        """Apply the params of one `session/update`."""
        update = notification.update
        reducer = REDUCERS.get(type(update)) or reducer_for(update)
        return reducer(self[notification.session_id], update)


Reducer: TypeAlias = Callable[[Session, Any], Changes]
W = TypeVar("W", bound=Wire)


class NotBase64(PeerError):
    """Output of the terminal `terminal_id` is not base64. The session is unchanged."""

    def __init__(self, terminal_id: str) -> None:
        super().__init__(f"The agent sent output of terminal {terminal_id!r} that is not base64.")
        self.terminal_id = terminal_id


# ---- messages ------------------------------------------------------------------------------


def _message(session: Session, role: Role, message_id: str) -> tuple[Message, Change]:
    message = session.messages[role].get(message_id)
    if message is not None:
        return message, EntryChanged(message.index)
    message = Message(role, message_id, len(session.entries))
    session.messages[role][message_id] = message
    session.entries.append(message)
    return message, EntryAdded(message.index)


def _chunk_of(role: Role) -> Reducer:
    def append_chunk(session: Session, update: v2.ContentChunk) -> Changes:
        message = session.messages[role].get(update.message_id)
        if message is not None:
            message.content.append(update.content)
            return message._appended
        message, added = _message(session, role, update.message_id)
        message.content.append(update.content)
        return (added,)

    return append_chunk


def _patch_of(role: Role) -> Reducer:
    def patch_message(session: Session, update: v2.MessagePatch) -> Changes:
        message, change = _message(session, role, update.message_id)
        if update.content is not UNSET:
            message.replace_content(update.content or [])
        message.meta = patched_meta(message.meta, update.meta, session.draft)
        _keep_unknown(message.unknown, update)
        return (change,)

    return patch_message


_ADDRESSES = (
    "sender_session_id",
    "recipient_session_id",
    "sender_message_id",
    "recipient_message_id",
)


def _session_message(session: Session, update: SessionMessage) -> Changes:
    changes = _patch_of("session")(session, update)
    addresses = session.messages["session"][update.message_id].addresses
    for name in _ADDRESSES:
        value = getattr(update, name)
        if value is None:
            addresses.pop(name, None)
        elif value is not UNSET:
            addresses[name] = value
    return changes


# ---- tool calls ----------------------------------------------------------------------------


def _tool_call(session: Session, tool_call_id: str) -> tuple[ToolCall, Change]:
    call = session.tool_calls.get(tool_call_id)
    if call is not None:
        return call, EntryChanged(call.index)
    call = ToolCall(tool_call_id, len(session.entries))
    session.tool_calls[tool_call_id] = call
    session.entries.append(call)
    _opened(session, call)
    return call, EntryAdded(call.index)


def _opened(session: Session, call: ToolCall) -> None:
    if session.turn != "ended":
        session.open_calls[call.tool_call_id] = call


def _tool_call_update(session: Session, update: v2.ToolCallPatch) -> Changes:
    call, change = _tool_call(session, update.tool_call_id)
    if update.kind is not UNSET:
        call.kind = "other" if update.kind is None else update.kind  # null resets it
    if update.status is not UNSET:
        _set_status(session, call, "pending" if update.status is None else update.status)
    if update.content is not UNSET:
        call.content = list(update.content or [])
    if update.locations is not UNSET:
        call.locations = list(update.locations or [])
    _patch(call, update, "name", "title", "raw_input", "raw_output", "capabilities")
    call.meta = patched_meta(call.meta, update.meta, session.draft)
    _keep_unknown(call.unknown, update)
    return (change,)


def _set_status(session: Session, call: ToolCall, status: str) -> None:
    was_open = call.is_open
    call.status, call.rejected = status, False
    if not call.is_open:
        session.open_calls.pop(call.tool_call_id, None)
    elif not was_open:
        _opened(session, call)


def _tool_call_content_chunk(session: Session, update: v2.ToolCallContentChunk) -> Changes:
    call = session.tool_calls.get(update.tool_call_id)
    if call is not None:
        call.content.append(update.content)
        return call._appended
    call, added = _tool_call(session, update.tool_call_id)
    call.content.append(update.content)
    return (added,)


# ---- terminals -----------------------------------------------------------------------------


def _terminal(session: Session, terminal_id: str) -> Terminal:
    terminal = session.terminals.get(terminal_id)
    if terminal is None:
        terminal = session.terminals[terminal_id] = Terminal(terminal_id)
    return terminal


def _terminal_update(session: Session, update: v2.TerminalUpdate) -> Changes:
    output = update.output
    data = _bytes(output.data, update.terminal_id) if isinstance(output, v2.TerminalOutput) else b""
    terminal = _terminal(session, update.terminal_id)
    if output is not UNSET:
        terminal.output = bytearray(data)
        terminal.output_meta = output.meta or None if output else None
        terminal.output_unknown = {}
        if output:
            _keep_unknown(terminal.output_unknown, output)
    _patch(terminal, update, "command", "cwd", "exit_status", "size", "capabilities")
    terminal.meta = patched_meta(terminal.meta, update.meta, session.draft)
    _keep_unknown(terminal.unknown, update)
    return (TerminalChanged(update.terminal_id),)


def _terminal_output_chunk(session: Session, update: v2.TerminalOutputChunk) -> Changes:
    data = _bytes(update.data, update.terminal_id)
    known = update.terminal_id in session.terminals
    _terminal(session, update.terminal_id).output += data
    if known:
        return (TerminalOutputAppended(update.terminal_id),)
    return (TerminalChanged(update.terminal_id),)


def _bytes(data: str, terminal_id: str) -> bytes:
    try:
        return codec.output_bytes(data)
    except ValueError:
        raise NotBase64(terminal_id) from None


# ---- what is replaced whole ----------------------------------------------------------------


def _plan_update(session: Session, update: v2.PlanUpdate) -> Changes:
    plan_id = update.plan.id if isinstance(update.plan, v2.JunePlanItems) else update.plan.plan_id
    session.plans[plan_id] = update
    return (PlanChanged(plan_id),)


def _plan_removed(session: Session, update: PlanRemoved) -> Changes:
    session.plans.pop(update.plan_id, None)
    return (PlanChanged(update.plan_id),)


def _commands(session: Session, update: v2.AvailableCommandsUpdate) -> Changes:
    session.commands_update = update
    return (CommandsChanged(),)


def _config(session: Session, update: v2.ConfigOptionUpdate) -> Changes:
    session.config_update = update
    return (ConfigChanged(),)


def _usage(session: Session, update: UsageUpdate) -> Changes:
    session.usage = update
    return (UsageChanged(),)


def _state(session: Session, update: v2.StateUpdate) -> Changes:
    was_idle, is_idle = session.state == "idle", update.state == "idle"
    changed = [*_in_background(session.state_update), *_in_background(update)]
    calls = [session.tool_calls[each] for each in changed if each in session.tool_calls]
    facts: list[Change] = [EntryChanged(call.index) for call in calls]
    session.state_update = update
    if is_idle:
        session.cancelling = False
    if not is_idle:
        facts += begin_turn(session)
    elif not was_idle or (update.stop_reason and session.turn != "open"):
        facts += end_turn(session)
    # a repeated idle is a snapshot, not another completion
    return (*facts, StateChanged(update.state, is_idle and not was_idle))


def begin_turn(session: Session) -> Changes:
    """A turn begins, unless one goes on: the calls that are open by now are not part of it."""
    if session.turn == "open":
        return ()
    session.turn = "open"
    return _left_open(session)


def end_turn(session: Session) -> Changes:
    """A turn, or a replay, has ended: the calls that are open by now were left open."""
    session.turn = "ended"
    return _left_open(session)


def _left_open(session: Session) -> Changes:
    facts = tuple(EntryChanged(call.index) for call in session.open_calls.values())
    session.open_calls.clear()
    return facts


def _in_background(state: v2.State) -> list[str]:
    return [
        work.tool_call_id
        for work in state.background or []
        if isinstance(work, v2.BackgroundToolCall)
    ]


def _notice(session: Session, update: Notice) -> Changes:
    session.notices.append(update)
    return (NoticeAdded(len(session.notices) - 1),)


def _unknown(session: Session, update: v2.UnknownUpdate) -> Changes:
    session.unknown.append(update)
    return (UnknownAdded(len(session.unknown) - 1),)


# ---- what is patched -----------------------------------------------------------------------


def _info(session: Session, update: SessionInfoUpdate) -> Changes:
    session.info = _merged(session.info, update, session.draft)
    return (InfoChanged(),)


def _subagent(session: Session, update: v2.SubagentUpdate) -> Changes:
    old = session.subagents.get(update.session_id, v2.SubagentUpdate(update.session_id))
    session.subagents[update.session_id] = _merged(old, update, session.draft)
    return (SubagentChanged(update.session_id),)


def _compaction(session: Session, compaction_id: str) -> Compaction:
    compaction = session.compactions.get(compaction_id)
    if compaction is None:
        compaction = session.compactions[compaction_id] = Compaction(compaction_id)
    return compaction


def _compaction_update(session: Session, update: CompactionUpdate) -> Changes:
    compaction = _compaction(session, update.compaction_id)
    compaction.status = update.status
    if update.summary is not UNSET:
        compaction.summary = list(update.summary or [])
    _patch(compaction, update, "error")
    compaction.meta = patched_meta(compaction.meta, update.meta, session.draft)
    _keep_unknown(compaction.unknown, update)
    return (CompactionChanged(update.compaction_id),)


def _compaction_chunk(session: Session, update: CompactionSummaryChunk) -> Changes:
    _compaction(session, update.compaction_id).summary.append(update.content)
    return (CompactionChanged(update.compaction_id),)


# ---- permissions ---------------------------------------------------------------------------


def ask(session: Session, request_id: int | str, request: v2.RequestPermissionRequest) -> Changes:
    """Add a permission request: its tool call is applied *before* the user is asked."""
    changes: Changes = ()
    permission = Permission(request_id, request)
    known = session.tool_calls.get(permission.tool_call_id or "")
    if known is not None:
        permission.before = known.copy()
    if isinstance(request.subject, v2.ToolCallPermissionSubject):
        changes = _tool_call_update(session, request.subject.tool_call)
    session.permissions[request_id] = permission
    return (*changes, PermissionChanged(request_id))


def settle(
    session: Session, request_id: int | str, outcome: v2.RequestPermissionOutcome | None
) -> Changes:
    """A permission request was answered, or withdrawn if there is no outcome."""
    permission = session.permissions.pop(request_id, None)
    if permission is None:
        return ()
    if outcome is not None:
        _decide(session, permission, outcome)
    return (PermissionChanged(request_id),)


def _decide(session: Session, permission: Permission, outcome: v2.RequestPermissionOutcome) -> None:
    option = None
    if isinstance(outcome, SelectedPermissionOutcome):
        options = {option.option_id: option for option in permission.request.options}
        chosen = outcome.option_id
        option = options.get(chosen) or PermissionOption(chosen, chosen, "unknown")
    decision = Decision(permission.request, option, len(session.entries))
    call = session.tool_calls.get(permission.tool_call_id or "")
    if call is None:
        session.decisions.append(decision)
    else:
        call.decisions.append(decision)
        call.rejected = decision.rejects


# ---- the three states of a patch field -----------------------------------------------------


def _patch(target: Any, update: Wire, *names: str) -> None:
    for name in names:
        value = getattr(update, name)
        if value is not UNSET:
            setattr(target, name, value)


def patched_meta(current: Meta | None, patch: Meta | None | UnsetType, draft: Draft) -> Meta | None:
    """What a `_meta` patch makes of the stored metadata, by the rule of the draft."""
    if patch is UNSET:
        return current
    if patch is None:
        return None
    if draft is Draft.JUNE:
        return patch
    merged = {**(current or {}), **patch}
    return {key: value for key, value in merged.items() if value is not None} or None


def _keep_unknown(kept: dict[str, Any], update: Wire) -> None:
    if isinstance(update.unknown, Extras):
        kept.update(update.unknown.fields)
        kept.pop("sessionUpdate", None)  # some permission requests carry a whole update


def _merged(old: W, patch: W, draft: Draft) -> W:
    """`old` with every field that `patch` has; cleared fields are omitted."""
    values: dict[str, Any] = {}
    for info in fields(patch):
        value = getattr(patch, info.name)
        if info.name not in ("meta", "unknown") and value is not UNSET:
            values[info.name] = UNSET if value is None else value
    values["meta"] = patched_meta(old.meta or None, patch.meta, draft) or UNSET
    if isinstance(patch.unknown, Extras):
        kept = old.unknown.fields if isinstance(old.unknown, Extras) else {}
        values["unknown"] = Extras({**kept, **patch.unknown.fields})
    return replace(old, **values)


REDUCERS: dict[type, Reducer] = {
    v2.AgentMessageChunk: _chunk_of("agent"),
    v2.AgentThoughtChunk: _chunk_of("thought"),
    v2.UserMessageChunk: _chunk_of("user"),
    v2.AgentMessage: _patch_of("agent"),
    v2.AgentThought: _patch_of("thought"),
    v2.UserMessage: _patch_of("user"),
    v2.ToolCallUpdate: _tool_call_update,
    v2.ToolCallContentChunk: _tool_call_content_chunk,
    v2.TerminalUpdate: _terminal_update,
    v2.TerminalOutputChunk: _terminal_output_chunk,
    v2.StateUpdate: _state,
    v2.PlanUpdate: _plan_update,
    PlanRemoved: _plan_removed,
    v2.AvailableCommandsUpdate: _commands,
    v2.ConfigOptionUpdate: _config,
    SessionInfoUpdate: _info,
    UsageUpdate: _usage,
    Notice: _notice,
    CompactionUpdate: _compaction_update,
    CompactionSummaryChunk: _compaction_chunk,
    v2.SubagentUpdate: _subagent,
    SessionMessage: _session_message,
    SessionMessageChunk: _chunk_of("session"),
    v2.UnknownUpdate: _unknown,
}


def reducer_for(update: object) -> Reducer:
    """The reducer of a subclass of a known update."""
    for shape, reducer in REDUCERS.items():
        if isinstance(update, shape):
            return reducer
    raise TypeError(f"{type(update).__name__} is not a session update of version 2")
