"""The changes of a session → the blocks to draw again, for views that stay.

A view asks which blocks became new or other, and reads just those again; what is large is not
computed twice. Blocks are known by keys, in the order in which they were first heard of. Pure:
nothing here draws or waits.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from twofold.session import Session, ToolCall
from twofold.session.changes import (
    Change,
    CommandsChanged,
    CompactionChanged,
    ConfigChanged,
    ContentAppended,
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
from twofold.view.blocks import Block
from twofold.view.outline import (
    Look,
    UnknownKinds,
    compaction_block,
    footer,
    notice_block,
    permission_block,
    plan_block,
    subagent_block,
)
from twofold.wire import v2

Kind: TypeAlias = Literal[
    "entry", "permission", "plan", "notice", "compaction", "subagent", "unknown", "footer"
]


class Key(NamedTuple):
    """Which block: its kind, and the index or id that the session knows it by."""

    kind: Kind
    identity: int | str


FOOTER = Key("footer", "")
LONGEST_OUTPUT: Final = 1 << 20
"""How many characters of a terminal's output a block holds, counted from the end."""


class Follower:
    """Follows one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._look = Look(session, LONGEST_OUTPUT)
        self._kinds = UnknownKinds(session)
        self._noted: dict[int, tuple[list[v2.ToolCallContent], int]] = {}  # what of an entry
        self._showing: dict[str, set[int]] = {}  # the entries that show a terminal, by its id
        self._asked: dict[int | str, Key] = {}  # where a question stands, also after its answer

    def everything(self) -> list[Key]:
        """The keys of all there is, for a view that begins now."""
        session = self.session
        self._look.refresh()
        keys = [Key("entry", index) for index in range(len(session.entries))]
        for index in range(len(session.entries)):
            self._note_terminals(index)
        keys += [self._question(request_id) for request_id in session.permissions]
        keys += [Key("plan", plan_id) for plan_id in session.plans]
        keys += [Key("notice", index) for index in range(len(session.notices))]
        keys += [Key("compaction", identity) for identity in session.compactions]
        keys += [Key("subagent", identity) for identity in session.subagents]
        keys += [Key("unknown", kind) for kind in self._kinds.all()]
        return list(dict.fromkeys([*keys, FOOTER]))

    def take(self, changes: Iterable[Change]) -> list[Key]:
        """The blocks that the changes made new, other or gone, each once."""
        every = dict.fromkeys(changes)  # many say the same
        return list(dict.fromkeys(key for change in every for key in self._keys(change)))

    def block(self, key: Key) -> Block | None:
        """What to show there now; None if there is nothing (any more)."""
        session, identity = self.session, key.identity
        match key.kind:
            case "entry":
                known = isinstance(identity, int) and identity < len(session.entries)
                return self._look.entry(session.entries[int(identity)]) if known else None
            case "permission":
                permission = session.permissions.get(identity)
                return permission_block(permission) if permission else None
            case "plan":
                update = session.plans.get(str(identity))
                return plan_block(update.plan) if update else None
            case "notice":
                return notice_block(session.notices[int(identity)])
            case "compaction":
                return compaction_block(session.compactions[str(identity)])
            case "subagent":
                return subagent_block(session.subagents[str(identity)])
            case "unknown":
                return self._kinds.block(identity)
            case "footer":
                return footer(session)
            case _:
                assert_never(key.kind)

    # ---- changes

    def _keys(self, change: Change) -> Iterator[Key]:
        match change:
            case EntryAdded() | EntryChanged() | ContentAppended():
                self._note_terminals(change.index)
                yield Key("entry", change.index)
            case TerminalChanged() | TerminalOutputAppended():
                showing = self._showing.get(change.terminal_id, ())
                yield from (Key("entry", index) for index in sorted(showing))
            case PermissionChanged():
                self._look.refresh_question(change.request_id)
                yield self._question(change.request_id)
            case PlanChanged():
                yield Key("plan", change.plan_id)
            case NoticeAdded():
                yield Key("notice", change.index)
            case CompactionChanged():
                yield Key("compaction", change.compaction_id)
            case SubagentChanged():
                yield Key("subagent", change.session_id)
            case UnknownAdded():
                yield Key("unknown", self._kinds.of(change.index))
            case (
                CommandsChanged()
                | ConfigChanged()
                | InfoChanged()
                | UsageChanged()
                | StateChanged()
            ):
                yield FOOTER
            case _:
                assert_never(change)

    def _note_terminals(self, index: int) -> None:
        entry = self.session.entries[index]
        if isinstance(entry, ToolCall):
            self._look.refresh_call(entry)
            noted, count = self._noted.get(index, (None, 0))
            for content in entry.content[count if noted is entry.content else 0 :]:
                if isinstance(content, v2.Terminal):
                    self._showing.setdefault(content.terminal_id, set()).add(index)
            self._noted[index] = entry.content, len(entry.content)

    def _question(self, request_id: int | str) -> Key:
        """Where a question stands: with its tool call, or by itself."""
        permission = self.session.permissions.get(request_id)
        if permission is not None:
            call = self.session.tool_calls.get(permission.tool_call_id or "")
            key = Key("entry", call.index) if call is not None else Key("permission", request_id)
            self._asked[request_id] = key
        # an answer may come before anyone looked: then nothing was shown by itself
        return self._asked.get(request_id) or Key("permission", request_id)
