"""The blocks of the parts of a session, without any toolkit.

Pure: the same session gives the same blocks. Whatever peers sent becomes a block, and every string
in it is safe to show. Paths inside the directory of the session are shown relative to it.
"""

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any

from twofold.convert.options import value_name
from twofold.session import (
    Compaction,
    Decision,
    Entry,
    Message,
    Permission,
    Session,
    Terminal,
    ToolCall,
)
from twofold.text.safe import one_line, sanitize
from twofold.text.terminal import TerminalText
from twofold.view.blocks import (
    KIND_ICONS,
    CompactionBlock,
    DescribedItem,
    DiffItem,
    FooterBlock,
    Item,
    Location,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PermissionOption,
    Piece,
    PlanBlock,
    PlanStep,
    RemarkBlock,
    Setting,
    SubagentBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
    UnknownBlock,
    content_items,
    unknown,
)
from twofold.view.diff import diff_lines, relative
from twofold.view.message import MessageReader
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.shared import Content, Cost, Error, Notice, UsageUpdate

TOOL_GLYPHS = {
    "pending": "○",
    "in_progress": "◐",
    "paused": "◑",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
}
GLYPHS = TOOL_GLYPHS | {
    "waiting": "?",
    "cancelling": TOOL_GLYPHS["cancelled"],
    "rejected": TOOL_GLYPHS["failed"],
    "left_open": "–",
}
"""The statuses of the protocol, and those that only a view has."""
PLAN_MARKS = {"pending": "○", "in_progress": "◐", "completed": "✓", "cancelled": "✗"}
STOP_REASONS = {
    "end_turn": "end of turn",
    "max_tokens": "the token limit is reached",
    "max_turn_requests": "the limit of requests is reached",
    "refusal": "the agent refused",
    "cancelled": "cancelled",
    "error": "an error",
}
CURRENCIES = {"USD": "$", "EUR": "€", "GBP": "£"}

# What tools of these kinds give is output and files; of those, words of the agent.
_LOGS = frozenset({"read", "edit", "delete", "move", "search", "execute"})
_PROSE = frozenset({"think", "switch_mode"})

# The raw input and output of a tool are shown when there is nothing else, and not without end.
LONGEST_RAW = 2000
MOST_QUESTIONS = 20
"""How many questions about one tool call, and how many answers, are shown with it."""
MOST_OPTIONS = 20
"""How many options of a question are shown: nobody reads more."""
MOST_KINDS = 20
"""How many kinds of unknown updates have a block of their own."""
MOST_LATEST = 5
"""How many unknown updates of one kind a block keeps, counted from the last."""
MOST_SETTINGS = 100
"""How many settings a footer has: no status line has room for more."""
OTHER_KINDS = -1
"""What all further kinds are called together."""


def entry_block(
    session: Session, entry: Entry, *, cwd: str | None = None
) -> MessageBlock | ToolCallBlock:
    """What to show of one entry, for views that follow the changes."""
    return Look(session, cwd=cwd).entry(entry)


class Look:
    """A look at a session; what costs much is found once, also by a look that is refreshed."""

    def __init__(self, session: Session, *, outputs: bool = True, cwd: str | None = None) -> None:
        """`outputs`: whether items of terminals hold the text of their output.

        `cwd`: the directory of the session, if it is known.
        """
        self._session = session
        self._cwd = cwd
        self._outputs = outputs
        self._texts: dict[str, TerminalText] = {}
        self._fed: dict[str, tuple[bytearray, int]] = {}  # what of the outputs is in the texts
        self._contents: dict[str, _Content] = {}  # by tool call
        self._terminals: dict[str, tuple[tuple[Any, ...], TerminalItem]] = {}
        self.refresh()

    def refresh(self) -> None:
        """The session may have changed: look again at all that waits for an answer."""
        self._asked: dict[str, dict[int | str, Permission]] = {}
        self._others: dict[int | str, Permission] = {}
        self._places: dict[int | str, str] = {}
        self._awaited: dict[str, dict[int | str, None]] = {}  # questions about calls to come
        for request_id in self._session.permissions:
            self.refresh_question(request_id)

    def refresh_question(self, request_id: int | str) -> None:
        """A question was asked or settled."""
        place = self._places.pop(request_id, None)
        self._others.pop(request_id, None)
        if place is not None:
            del self._asked[place][request_id]
            if not self._asked[place]:
                del self._asked[place]
        permission = self._session.permissions.get(request_id)
        if permission is None:
            return
        call = permission.tool_call_id
        if call is not None and call in self._session.tool_calls:
            self._asked.setdefault(call, {})[request_id] = permission
            self._places[request_id] = call
            return
        self._others[request_id] = permission
        if call is not None:
            self._awaited.setdefault(call, {})[request_id] = None

    def refresh_call(self, call: ToolCall) -> Collection[int | str]:
        """A tool call is new: the questions that were asked about it before are shown with it."""
        moved = self._awaited.pop(call.tool_call_id, ())
        for request_id in moved:
            self.refresh_question(request_id)
        return moved

    def forget_call(self, call: ToolCall) -> None:
        """A tool call changes no more, it seems; its diffs stay the same objects all the same."""
        known = self._contents.get(call.tool_call_id)
        if known is not None and not any(isinstance(item, DiffItem) for item in known.items):
            del self._contents[call.tool_call_id]

    def entry(self, entry: Entry) -> MessageBlock | ToolCallBlock:
        """What to show of an entry."""
        if isinstance(entry, Message):
            return MessageBlock(entry.role, message_items(entry), sender_of(entry))
        return self.tool_call(entry)

    def tool_call(self, call: ToolCall) -> ToolCallBlock:
        """What to show of a tool call."""
        asked = self._asked.get(call.tool_call_id, {})
        permissions = tuple(map(self.question, islice(asked.values(), MOST_QUESTIONS)))
        status = "waiting" if permissions else _outcome(self._session, call)
        kind = call.kind if call.kind in KIND_ICONS else "other"
        content = self._content(call, kind)
        return ToolCallBlock(
            glyph=GLYPHS[status],
            status=status,
            kind=kind,
            title=one_line(call.title or "") or one_line(call.name or "") or kind,
            locations=content.locations(call),
            items=tuple(content.items) or content.raw(call),
            permissions=permissions,
            more_permissions=len(asked) - len(permissions),
            decisions=tuple(map(decision_words, call.decisions[-MOST_QUESTIONS:])),
            finished=not call.is_open,
        )

    def _content(self, call: ToolCall, kind: str) -> "_Content":
        """What the call holds: only what is new is read, and its terminals."""
        known = self._contents.get(call.tool_call_id)
        if known is None or known.content is not call.content or known.kind != kind:
            known = self._contents[call.tool_call_id] = _Content(
                call.content, kind, known, self._cwd
            )
        known.read()
        for place, terminal_id in known.terminals:
            known.items[place] = self._terminal(terminal_id)
        return known

    def _text(self, terminal: Terminal) -> str:
        """The output as text; what was read before is not read again unless it was replaced."""
        output, identity = terminal.output, terminal.terminal_id
        known, read = self._fed.get(identity, (None, 0))
        if known is not output or read > len(output):
            self._texts[identity], read = TerminalText(), 0
        if read < len(output):
            self._texts[identity].feed(output[read:])
        self._fed[identity] = output, len(output)
        return self._texts[identity].text

    def _terminal(self, terminal_id: str) -> TerminalItem:
        terminal = self._session.terminals.get(terminal_id)
        if terminal is None:
            return _not_received(terminal_id)
        status, size = terminal.exit_status, terminal.size
        output = id(terminal.output), len(terminal.output)
        now = (*output, terminal.command, terminal.cwd, status, size)
        before, item = self._terminals.get(terminal_id, (None, None))
        if item is not None and before == now:
            return item
        item = TerminalItem(
            terminal_id=terminal_id,
            terminal=terminal,
            command=sanitize(terminal.command) if terminal.command else None,
            cwd=self._other_directory(terminal.cwd),
            text=self._text(terminal) if self._outputs else "",
            received=True,
            exit=_exit(status) if status else None,
            succeeded=status is not None and status.exit_code == 0,
        )
        self._terminals[terminal_id] = now, item
        return item

    def question(self, permission: Permission) -> PermissionBlock:
        """A question that waits for an answer."""
        block, subject = permission_block(permission), permission.request.subject
        if isinstance(subject, v2.CommandPermissionSubject):
            return replace(block, cwd=self._other_directory(subject.cwd))
        return block

    def _other_directory(self, cwd: str | None) -> str | None:
        """The directory of a command, unless it is the one of the session."""
        if not cwd or (self._cwd and cwd.rstrip("/") == self._cwd.rstrip("/")):
            return None
        return one_line(cwd)


def _outcome(session: Session, call: ToolCall) -> str:
    """What became of a call; many agents end one that was rejected as `failed`."""
    outcome = session.outcome(call)
    rejected = bool(call.decisions) and call.decisions[-1].rejects
    return "rejected" if rejected and outcome in ("failed", "cancelled") else outcome


class _Content:
    """What was found of the content of one tool call, which costs much and seldom changes."""

    def __init__(
        self,
        content: list[v2.ToolCallContent],
        kind: str,
        before: "_Content | None",
        cwd: str | None,
    ) -> None:
        self.content = content
        self.kind = kind
        self._cwd = cwd
        self.items: list[Item] = []
        self.terminals: list[tuple[int, str]] = []
        """Which of the items are terminals."""
        self._pieces: list[tuple[Item, ...]] = []  # the items of every piece that was read
        self._locations: tuple[object, tuple[Location, ...]] = (None, ())
        self._raw: tuple[object, object, tuple[Item, ...]] = (None, None, ())
        if before is not None and before.kind == kind:  # it may hold the same pieces
            self.read(dict(zip(map(id, before.content), before._pieces, strict=False)))

    def read(self, known: Mapping[int, tuple[Item, ...]] = MappingProxyType({})) -> None:
        """Read what was not read yet."""
        for piece in self.content[len(self._pieces) :]:
            if isinstance(piece, v2.Terminal):
                self.terminals.append((len(self.items), piece.terminal_id))
            items = known.get(id(piece)) or _items(piece, self.kind, self._cwd)
            self._pieces.append(items)
            self.items += items

    def locations(self, call: ToolCall) -> tuple[Location, ...]:
        """Where the call works."""
        if self._locations[0] is not call.locations:
            made = tuple([_location(each, self._cwd) for each in call.locations])
            self._locations = call.locations, made
        return self._locations[1]

    def raw(self, call: ToolCall) -> tuple[Item, ...]:
        """What it was given and gave, for a call without content."""
        given, gave, items = self._raw
        if given is not call.raw_input or gave is not call.raw_output:
            items = tuple(_raw_items(call))
            self._raw = call.raw_input, call.raw_output, items
        return items


def message_items(message: Message) -> tuple[Piece, ...]:
    """All of a message, read as if nothing followed."""
    if message.role != "agent":
        return content_items(message.content)
    reader = MessageReader(markdown=True)
    return (*reader.add(message.content), *reader.end())


def sender_of(message: Message) -> str | None:
    """The session that sent a message to this one."""
    sender = message.addresses.get("sender_session_id")
    return one_line(sender) if sender else None


def _not_received(terminal_id: str) -> TerminalItem:
    """A terminal of which no update has arrived."""
    return TerminalItem(None, None, "", False, exit=None, succeeded=False, terminal_id=terminal_id)


def _items(content: v2.ToolCallContent, kind: str, cwd: str | None) -> tuple[Item, ...]:
    match content:
        case Content():
            return tuple(_as_written(item, kind) for item in content_items([content.content]))
        case v2.Terminal():  # its output arrives by itself and is read each time
            return (_not_received(content.terminal_id),)
        case v2.Diff() | v2.JulyDiff() | v2.JuneDiff():
            return (DiffItem(tuple(diff_lines(content, cwd))),)
        case _:
            return (DescribedItem(unknown("content", content.tag), content),)


# ---- tool calls ----------------------------------------------------------------------------


def _location(location: v2.ToolCallLocation, cwd: str | None) -> Location:
    name = one_line(relative(location.path, cwd))
    return Location(one_line(location.path), location.line or None, name)


def _as_written(item: Item, kind: str) -> Item:
    """Text of a tool call; marked as Markdown if the agent wrote it so.

    What a tool printed or read is shown as it is, even if it holds Markdown (a README, say): it is
    Markdown only if the agent put it into a fence. What a tool of another kind gives may be prose
    with fences in it. Thoughts and plans are the agent's own words.
    """
    if not isinstance(item, TextItem):
        return item
    text = item.text.lstrip("\n")
    fenced = text.startswith("```")
    holds_fences = kind not in _LOGS and f"\n{text}".count("\n```") >= 2
    return replace(item, markdown=fenced or holds_fences or kind in _PROSE)


def _raw_items(call: ToolCall) -> Iterator[TextItem]:
    for name, value in (("input", call.raw_input), ("output", call.raw_output)):
        text = _raw(value)
        if text:
            yield TextItem(f"{name}: {text}")


def _raw(value: Any) -> str:
    """A raw value as text: what a tool was given or gave, in its own words."""
    if value is None or value == {} or value == "":
        return ""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "…"
    left = len(text) - LONGEST_RAW
    shown = sanitize(text[:LONGEST_RAW])
    return f"{shown} … and {left:,} characters more" if left > 0 else shown


def _exit(status: v2.TerminalExitStatus) -> str:
    if status.signal:
        return f"ended by {one_line(status.signal)}"
    if isinstance(status.exit_code, int):
        return f"exit code {status.exit_code}"
    return "ended"


def permission_block(permission: Permission) -> PermissionBlock:
    """A question that waits for an answer."""
    request = permission.request
    description = sanitize(request.description) if request.description else None
    command = cwd = None
    match request.subject:
        case v2.CommandPermissionSubject() as subject:
            command, cwd = sanitize(subject.command), one_line(subject.cwd)
        case v2.UnknownPermissionSubject() as other:
            what = unknown("subject", other.tag)
            description = f"{description}\n{what}" if description else what
    return PermissionBlock(
        request_id=permission.request_id,
        title=one_line(request.title),
        description=description,
        command=command,
        cwd=cwd,
        options=tuple(
            PermissionOption(one_line(option.name), one_line(option.kind))
            for option in request.options[:MOST_OPTIONS]
        ),
        more_options=max(0, len(request.options) - MOST_OPTIONS),
    )


def decision_words(decision: Decision) -> str:
    """How a permission request was answered: `permission rejected: No, thanks`."""
    option = decision.option
    if option is None:
        return "permission cancelled"
    answer = {"allow": "allowed", "reject": "rejected"}.get(option.kind.partition("_")[0])
    known = option.kind in ("allow_once", "allow_always", "reject_once", "reject_always")
    words = f"permission {answer}" if known else "permission answered"
    if option.kind in ("allow_always", "reject_always"):
        words += " for good"
    return f"{words}: {one_line(option.name)}"


def decision_block(decision: Decision) -> RemarkBlock:
    """The answer to a question that is about no tool call."""
    return RemarkBlock(f"{one_line(decision.request.title)}: {decision_words(decision)}")


# ---- beside the entries --------------------------------------------------------------------


def plan_block(plan: v2.PlanUpdateContent) -> PlanBlock:
    """A plan."""
    match plan:
        case v2.PlanItems() | v2.JunePlanItems():
            return PlanBlock(tuple(map(_step, plan.entries)))
        case v2.PlanMarkdown():
            return PlanBlock((), sanitize(plan.content))
        case v2.PlanFile():
            return PlanBlock((), f"[plan in {one_line(plan.uri)}]")
        case _:
            return PlanBlock((), unknown("plan", plan.tag))


def _step(entry: v2.PlanEntry) -> PlanStep:
    status = entry.status if entry.status in PLAN_MARKS else "in_progress"
    return PlanStep(PLAN_MARKS[status], status, one_line(entry.content))


def notice_block(notice: Notice) -> NoticeBlock:
    """A notice."""
    description = sanitize(notice.description) if notice.description else None
    return NoticeBlock(one_line(notice.severity), one_line(notice.title), description)


def compaction_block(compaction: Compaction) -> CompactionBlock:
    """A compaction of the context."""
    error = sanitize(compaction.error) if compaction.error else None
    known = compaction.status in ("completed", "failed", "cancelled")
    status = compaction.status if known else "in_progress"
    return CompactionBlock(status, content_items(compaction.summary), error)


def subagent_block(subagent: v2.SubagentUpdate) -> SubagentBlock:
    """A subagent."""
    description = sanitize(subagent.description) if subagent.description else None
    state = state_words(subagent.state) if subagent.state else None
    return SubagentBlock(one_line(subagent.title or subagent.session_id), description, state)


class UnknownKinds:
    """Updates of kinds we do not know, counted by kind as they come.

    A kind goes by its tag, all beyond the first ones by `OTHER_KINDS`.
    """

    def __init__(self, session: Session) -> None:
        self._updates = session.unknown
        self._counts: dict[str, int] = {}
        self._others: set[str] = set()
        self._latest: defaultdict[int | str, deque[v2.UnknownUpdate]] = defaultdict(
            lambda: deque(maxlen=MOST_LATEST)
        )
        self._read = 0

    def all(self) -> list[int | str]:
        """The kinds that have a block."""
        self._count()
        return [*self._counts, *([OTHER_KINDS] if self._others else [])]

    def of(self, index: int) -> int | str:
        """The kind of an update."""
        self._count()
        tag = self._updates[index].tag
        return tag if tag in self._counts else OTHER_KINDS

    def block(self, kind: int | str) -> UnknownBlock | None:
        """How many updates there are of a kind, and the last of them."""
        self._count()
        if isinstance(kind, str):
            if kind not in self._counts:
                return None
            return UnknownBlock(one_line(kind), self._counts[kind], tuple(self._latest[kind]))
        if not self._others:
            return None
        number = len(self._others)
        words = f"{number:,} more kind{'' if number == 1 else 's'}"
        count = self._read - sum(self._counts.values())
        return UnknownBlock(words, count, tuple(self._latest[OTHER_KINDS]))

    def _count(self) -> None:
        for update in self._updates[self._read :]:
            if update.tag in self._counts or len(self._counts) < MOST_KINDS:
                self._counts[update.tag] = self._counts.get(update.tag, 0) + 1
                self._latest[update.tag].append(update)
            else:
                self._others.add(update.tag)
                self._latest[OTHER_KINDS].append(update)
        self._read = len(self._updates)


# ---- the state of the session ----------------------------------------------------------------


def footer(session: Session) -> FooterBlock:
    """Title, settings, usage and state: what a status line shows."""
    return FooterBlock(
        title=one_line(session.title) if session.title else None,
        settings=_settings(_Same(session.config_options)),
        usage=usage_words(session.usage) if session.usage else None,
        state=state_words(session.state_update),
        cancelling=session.cancelling,
    )


class _Same:
    """Something that is compared by identity: nobody changes it, others replace it."""

    __slots__ = ("value",)

    def __init__(self, value: list[v2.SessionConfigOption]) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@lru_cache(maxsize=4)
def _settings(options: _Same) -> tuple[Setting, ...]:
    """What is set; a status line asks for it in every frame."""
    settings = [setting_of(option) for option in options.value[:MOST_SETTINGS]]
    return tuple(setting for setting in settings if setting is not None)


def setting_of(option: v2.SessionConfigOption) -> Setting | None:
    """A config option and its value, safe to show; None if its kind is unknown."""
    match option:
        case v2.SessionConfigSelect():
            value = value_name(option)
        case v2.SessionConfigBoolean():
            value = "on" if option.current_value else "off"
        case _:
            return None
    category = one_line(option.category) if option.category else None
    return Setting(one_line(option.name), one_line(value), category)


def state_words(state: v2.State) -> str:
    """A state and why it ended: `idle, end of turn`."""
    words = [{"requires_action": "waiting for you"}.get(state.state) or one_line(state.state)]
    if state.stop_reason:
        reason = STOP_REASONS.get(state.stop_reason) or one_line(state.stop_reason)
        words.append(f"{reason}: {one_line(state.error.message)}" if state.error else reason)
    elif state.error:
        words.append(f"an error: {one_line(state.error.message)}")
    if state.background:
        words.append(f"{len(state.background)} in the background")
    return ", ".join(words)


def turn_block(state: v2.State) -> RemarkBlock:
    """How a turn ended."""
    if state.stop_reason == "error" or state.error:
        words = f"an error: {error_words(state.error)}" if state.error else "an error"
        return RemarkBlock(words, "error")
    reason = state.stop_reason or "end_turn"
    words = STOP_REASONS.get(reason) or one_line(reason)
    return RemarkBlock(words, "" if reason == "end_turn" else "warning")


def error_words(error: Error) -> str:
    """The error that a peer reports, on one line, with its data."""
    words = one_line(error.message)
    more = one_line(_raw(error.data)) if error.data is not UNSET else ""
    return f"{words} ({more})" if more else words


def usage_words(usage: UsageUpdate) -> str:
    """Tokens and what they cost: `53k of 200k tokens, $0.05`."""
    tokens = short(usage.used)
    if usage.size:
        tokens += f" of {short(usage.size)}"
    words = f"{tokens} tokens"
    return f"{words}, {_price(usage.cost)}" if usage.cost else words


def short(number: int) -> str:
    """A number that is read at a glance: `812`, `1.5k`, `53k`, `1.2M`."""
    if number < 1000:
        return str(number)
    scaled, unit = min(number, 10**18) / 1000, "k"
    if scaled >= 999.5:
        scaled, unit = scaled / 1000, "M"
    digits = f"{scaled:.1f}".removesuffix(".0") if scaled < 9.95 else f"{scaled:,.0f}"
    return digits + unit


def _price(cost: Cost) -> str:
    amount = abs(cost.amount)
    if amount and (amount < 0.01 or amount >= 1e9):
        number = f"{amount:.2g}"
    else:
        number = f"{amount:,.2f}"
    sign = "-" if cost.amount < 0 else ""
    if cost.currency in CURRENCIES:
        return f"{sign}{CURRENCIES[cost.currency]}{number}"
    return f"{sign}{number} {one_line(cost.currency)}".strip()
