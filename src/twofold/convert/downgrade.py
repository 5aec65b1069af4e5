"""Version 2 → version 1: updates and permission requests.

Version 1 is closed: strict peers fail on an unknown variant, kind or status, so everything is
brought into its words and every change of meaning is reported. What version 1 has no words for at
all is refused, never dropped in silence. `downgrade` converts an update by itself. `Downgrader`
converts a session with the same functions and remembers what was sent of each message, what each
tool call holds and what each terminal printed. Pure: updates in, updates out, losses reported.
"""

from array import array
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from twofold.convert.drafts import lift_july
from twofold.convert.losses import Losses, carried
from twofold.convert.options import downgrade_command, downgrade_config_option, modes_of
from twofold.convert.patches import BadPatch, FilePatch, parse_patch
from twofold.convert.upgrade import PLAN_ID, is_plain, terminals_in, upgrade_diff
from twofold.text.terminal import TerminalText
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed, known_values
from twofold.wire.content import Annotations, ContentBlock, Role, TextContent, UnknownContent
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    Notice,
    PermissionOption,
    PermissionOptionKind,
    PlanEntryPriority,
    PlanRemoved,
    SelectedPermissionOutcome,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    ToolKind,
    UsageUpdate,
)

_KINDS = frozenset(known_values(ToolKind))
_STATUSES = frozenset(known_values(v1.ToolCallStatus))
_PLAN_STATUSES = frozenset(known_values(v1.PlanEntryStatus))
_PRIORITIES = frozenset(known_values(PlanEntryPriority))
_ROLES = frozenset(known_values(Role))
OPTION_KINDS = frozenset(known_values(PermissionOptionKind))

CHUNKS: dict[type[v2.ContentChunk], type[v1.ContentChunk]] = {
    v2.AgentMessageChunk: v1.AgentMessageChunk,
    v2.AgentThoughtChunk: v1.AgentThoughtChunk,
    v2.UserMessageChunk: v1.UserMessageChunk,
}
WHOLE: dict[type[v2.MessagePatch], type[v1.ContentChunk]] = {
    v2.AgentMessage: v1.AgentMessageChunk,
    v2.AgentThought: v1.AgentThoughtChunk,
    v2.UserMessage: v1.UserMessageChunk,
}


def downgrade(update: v2.SessionUpdate, losses: Losses) -> list[v1.SessionUpdate]:
    """Convert one update of version 2 by itself; `Downgrader` converts a session, and loses less.

    Args:
        update: The update.
        losses: Where everything is reported that version 1 cannot express.

    Returns:
        The updates of version 1 with the same meaning, in order, as far as there are any.

    Raises:
        NotConvertible: Something must not be left out, or `losses` is strict.
    """
    match update:
        case v2.ContentChunk():  # first, for there are thousands of them
            return [downgrade_chunk(update, losses)]
        case v2.MessagePatch():
            blocks = representable_content(update, losses)
            return downgrade_blocks(WHOLE[type(update)], update.message_id, blocks, losses)
        case v2.ToolCallUpdate():
            content = downgrade_contents(update.content or [], losses, "update.content")
            for name in ("title", "name", "raw_input", "raw_output", "meta"):
                if getattr(update, name) is None:
                    report_clear(name, losses)
            return [downgrade_tool_call(update, content, losses)]
        case v2.ToolCallContentChunk():
            raise losses.refuse(
                "update", "version 1 replaces content: appending needs the content before it"
            )
        case v2.TerminalUpdate() | v2.TerminalOutputChunk():
            raise losses.refuse(
                "update", "version 1 shows this only as text of the tool calls that refer to it"
            )
    return downgrade_simple(update, losses)


def downgrade_simple(update: v2.SessionUpdate, losses: Losses) -> list[v1.SessionUpdate]:
    """An update that needs no memory in any case."""
    match update:
        case v2.StateUpdate():
            losses.report("update", "version 1 has no session state but the result of a prompt")
            return []
        case v2.PlanUpdate():
            return downgrade_plan(update, losses)
        case PlanRemoved():
            losses.report("update", "version 1 cannot remove its one plan: it becomes empty")
            return [v1.Plan([])]
        case v2.AvailableCommandsUpdate():
            commands = [
                downgrade_command(each, losses, f"update.availableCommands[{index}]")
                for index, each in enumerate(update.available_commands)
            ]
            return [
                v1.AvailableCommandsUpdate(
                    [command for command in commands if command is not None],
                    **carried(update, v1.AvailableCommandsUpdate, losses, "update"),
                )
            ]
        case v2.ConfigOptionUpdate():
            return downgrade_config(update, losses)
        case CompactionUpdate():
            summary = update.summary
            if summary:
                summary = [
                    downgrade_block(each, losses, f"update.summary[{index}]")
                    for index, each in enumerate(summary)
                ]
            return [replace(update, summary=summary)]
        case CompactionSummaryChunk():
            block = downgrade_block(update.content, losses, "update.content")
            return [replace(update, content=block)]
        case SessionInfoUpdate() | UsageUpdate() | Notice():
            return [update]
        case v2.SubagentUpdate() | SessionMessage() | SessionMessageChunk():
            losses.report("update", "version 1 has this only as an unstable feature")
            return []
    tag = update.tag if isinstance(update, v2.UnknownUpdate) else type(update).__name__
    losses.report("update.sessionUpdate", f"version 1 peers fail on updates of kind {tag!r}")
    return []


# ---- messages ------------------------------------------------------------------------------


def downgrade_chunk(update: v2.ContentChunk, losses: Losses) -> Any:
    """One chunk of a message."""
    content = update.content
    if not isinstance(content, TextContent) or content.annotations is not UNSET:
        content = downgrade_block(content, losses, "update.content")
    if not update.message_id:
        report_no_id(losses)
    shape = CHUNKS[type(update)]
    if update.meta is UNSET and update.unknown is UNSET:
        return shape(content, update.message_id)
    return shape(content, update.message_id, **carried(update, shape, losses, "update"))


def report_no_id(losses: Losses) -> None:
    """A message has an empty id, which a reader of version 1 takes for none."""
    losses.report("update.messageId", "an empty id is no id in version 1")


def representable_content(update: v2.MessagePatch, losses: Losses) -> list[ContentBlock]:
    """The content of a whole message.

    Refused where the ACP document on message updates (v2) requires that a conversion fails.
    """
    if not update.content:
        what = "clears" if update.content is not UNSET else "does not touch"
        raise losses.refuse(
            "update.content", f"version 1 only appends to messages; this one {what} the content"
        )
    if update.meta is None:
        raise losses.refuse("update._meta", "version 1 messages have no metadata to clear")
    if update.meta:
        losses.report("update._meta", "version 1 has metadata on chunks, not on messages")
    if update.unknown is not UNSET:
        losses.report("update", "version 1 has chunks only: a message has no fields of its own")
    if not update.message_id:
        report_no_id(losses)
    return update.content


def downgrade_blocks(
    shape: type[v1.ContentChunk], message_id: str, content: list[ContentBlock], losses: Losses
) -> list[Any]:
    """One chunk per content block."""
    return [
        shape(downgrade_block(block, losses, f"update.content[{index}]"), message_id)
        for index, block in enumerate(content)
    ]


def downgrade_block(block: ContentBlock, losses: Losses, path: str) -> ContentBlock:
    """A content block as version 1 has it."""
    if isinstance(block, UnknownContent):
        losses.report(path, f"version 1 peers fail on content of type {block.tag!r}")
        return TextContent(f"[{block.tag or 'unknown'} content]")
    notes = block.annotations
    if isinstance(notes, Annotations) and notes.audience:
        audience = [role for role in notes.audience if role in _ROLES]
        if audience != notes.audience:
            losses.report(f"{path}.annotations.audience", "version 1 has no other roles")
            return replace(block, annotations=replace(notes, audience=audience))
    return block


# ---- tool calls ----------------------------------------------------------------------------


def downgrade_tool_call(
    update: v2.ToolCallPatch,
    content: list[v1.ToolCallContent],
    losses: Losses,
    shape: type[v1.ToolCallPatch] = v1.ToolCallUpdate,
    path: str = "update",
) -> Any:
    """A patch of a tool call; the caller has converted the content and reported the clears."""
    values: dict[str, Any] = {
        name: value
        for name in ("title", "name", "raw_input", "raw_output")
        if (value := getattr(update, name)) is not UNSET and value is not None
    }
    if update.kind is not UNSET:
        values["kind"] = _kind(update.kind, losses, f"{path}.kind")
    if update.status is not UNSET:
        values["status"] = _status(update.status, losses, f"{path}.status")
    if update.content is not UNSET:
        values["content"] = content
    if update.locations is not UNSET:
        values["locations"] = [
            v1.ToolCallLocation(
                item.path,
                item.line,
                **carried(item, v1.ToolCallLocation, losses, f"{path}.locations[{index}]"),
            )
            for index, item in enumerate(update.locations or [])
        ]
    if update.capabilities:
        losses.report(f"{path}.capabilities", "version 1 cannot cancel a single tool call")
    if terminals_in(update):
        losses.report(f"{path}._meta", "version 1 has terminals there, and they would be shown")
    return shape(update.tool_call_id, **values, **carried(update, shape, losses, path))


def report_clear(name: str, losses: Losses, path: str = "update") -> None:
    """Report a field that is cleared, which version 1 cannot do (ACP v2, tool-call updates)."""
    key = {"raw_input": "rawInput", "raw_output": "rawOutput", "meta": "_meta"}.get(name, name)
    losses.report(f"{path}.{key}", "version 1 cannot clear this field; the old value stays")


def _kind(kind: str | None, losses: Losses, path: str) -> str:
    if kind is None or kind in _KINDS:
        return kind or "other"
    losses.report(path, f"version 1 has no kind {kind!r}")
    return "other"


def _status(status: str | None, losses: Losses, path: str) -> str:
    if status is None or status in _STATUSES:
        return status or "pending"
    losses.report(path, f"version 1 has no status {status!r}")
    return "failed" if status == "cancelled" else "in_progress"


def downgrade_contents(
    items: list[v2.ToolCallContent], losses: Losses, path: str
) -> list[v1.ToolCallContent]:
    """A tool call's content; one item may become several."""
    return [
        each
        for index, item in enumerate(items)
        for each in downgrade_tool_content(item, losses, f"{path}[{index}]")
    ]


def downgrade_tool_content(
    item: v2.ToolCallContent, losses: Losses, path: str
) -> list[v1.ToolCallContent]:
    """One item of a tool call's content."""
    match item:
        case Content():
            block = downgrade_block(item.content, losses, f"{path}.content")
            return [item if block is item.content else replace(item, content=block)]
        case v2.Diff():
            return downgrade_diff(item, losses, path)
        case v2.JulyDiff():
            return downgrade_diff(lift_july(item), losses, path)
        case v2.JuneDiff():  # which is version 1's
            rest = carried(item, v1.Diff, losses, path)
            return [v1.Diff(item.path, item.new_text, item.old_text, **rest)]
        case v2.Terminal():
            losses.report(path, "version 1 has no agent-owned terminals")
            return [_text(f"[terminal {item.terminal_id}]")]
    losses.report(path, f"version 1 peers fail on tool content of type {item.tag!r}")
    return [_text(f"[{item.tag or 'unknown'} content]")]


def _text(text: str) -> Content:
    return Content(TextContent(text))


# ---- diffs ---------------------------------------------------------------------------------


def downgrade_diff(diff: v2.Diff, losses: Losses, path: str) -> list[v1.ToolCallContent]:
    """One version 1 diff per file, from the hunks; a summary where there is no text to show."""
    files = _files(diff)
    if files is None:
        losses.report(path, "version 1 needs the texts of a change, and there is no readable patch")
        return [_text(summary(diff.changes))]
    texts = [file for file in files if _has_texts(file)]
    items: list[v1.ToolCallContent] = [
        v1.Diff(file.path, file.new or "", file.old if file.operation != "add" else None)
        for file in texts
    ]
    rest = [file for file in files if not _has_texts(file)]
    if rest:
        items.append(
            _text("\n".join(_line(each.operation, each.path, each.old_path) for each in rest))
        )
    if len(items) == 1 and diff.meta:
        items[0] = replace(items[0], meta=diff.meta)
    # Version 1 has no line numbers, file types or groups of files. Whether any of that was
    # there to lose shows when the diff is brought back.
    back = [upgrade_diff(each, losses, path) for each in items if isinstance(each, v1.Diff)]
    if back != [diff]:
        losses.report(path, "version 1 shows the changed lines only, a file at a time")
    return items


def _files(diff: v2.Diff) -> list[FilePatch] | None:
    patch = diff.patch
    if not patch or patch.format != "git_patch":
        return None
    try:
        return parse_patch(patch.text) or None
    except BadPatch:
        return None


def _has_texts(file: FilePatch) -> bool:
    return not file.binary and (file.old is not None or file.new is not None)


def summary(changes: list[v2.DiffChange]) -> str:
    """The changes in words, a line each."""
    lines = []
    for change in changes:
        if isinstance(change, v2.UnknownDiffChange):
            lines.append(f"{change.tag} {change.raw.fields.get('path', '')}".rstrip())
        else:
            operation = str(change.__struct_config__.tag)
            lines.append(_line(operation, change.path, getattr(change, "old_path", None)))
    return "\n".join(lines) or "no changes"


def _line(operation: str, path: str, old_path: str | None) -> str:
    return f"{operation} {old_path} → {path}" if old_path else f"{operation} {path}"


# ---- plans and config options --------------------------------------------------------------


def downgrade_plan(update: v2.PlanUpdate, losses: Losses) -> list[v1.SessionUpdate]:
    """A plan of items; version 1 has one plan and no other form of it."""
    plan = update.plan
    if not isinstance(plan, v2.PlanItems | v2.JunePlanItems):
        losses.report("update.plan.type", "version 1 has plans of entries only")
        return []
    if plan_id(update) != PLAN_ID:
        losses.report("update.plan.planId", "version 1 has one plan, without an id")
    if plan.meta or plan.unknown:
        losses.report("update.plan", "version 1 has metadata on the update, not on the plan")
    entries = [
        _plan_entry(entry, losses, f"update.plan.entries[{index}]")
        for index, entry in enumerate(plan.entries)
    ]
    return [v1.Plan(entries, **carried(update, v1.Plan, losses, "update"))]


def plan_id(update: v2.PlanUpdate) -> str:
    """The id of a plan, in either shape."""
    return update.plan.id if isinstance(update.plan, v2.JunePlanItems) else update.plan.plan_id


def _plan_entry(entry: v2.PlanEntry, losses: Losses, path: str) -> v1.PlanEntry:
    status, priority = entry.status, entry.priority
    if status not in _PLAN_STATUSES:
        losses.report(f"{path}.status", f"version 1 has no status {status!r}")
        # a cancelled step was not done: "completed" would be untrue
        status = "pending" if status == "cancelled" else "in_progress"
    if priority not in _PRIORITIES:
        losses.report(f"{path}.priority", f"version 1 has no priority {priority!r}")
        priority = "medium"
    return v1.PlanEntry(
        entry.content, priority, status, **carried(entry, v1.PlanEntry, losses, path)
    )


def downgrade_config(update: v2.ConfigOptionUpdate, losses: Losses) -> list[v1.SessionUpdate]:
    """The config options, and the mode among them once more as version 1's mode."""
    options = [
        downgrade_config_option(option, losses, f"update.configOptions[{index}]")
        for index, option in enumerate(update.config_options)
    ]
    updates: list[v1.SessionUpdate] = [
        v1.ConfigOptionUpdate(
            [option for option in options if option is not None],
            **carried(update, v1.ConfigOptionUpdate, losses, "update"),
        )
    ]
    modes = modes_of(update.config_options)
    if modes is not None:
        updates.append(v1.CurrentModeUpdate(modes.current_mode_id))
    return updates


# ---- permission requests -------------------------------------------------------------------
#
# An option is chosen by its kind, so a kind that version 1 does not have is never passed for
# another: the option is left out, and a request that nothing is left of is refused.


class Shown(Struct):
    """The tool call that a request is about, as the version 1 client has it so far."""

    title: str = ""
    content: list[v1.ToolCallContent] = field(default_factory=list)


def asked_about(
    request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest,
) -> v2.ToolCallPatch | str | None:
    """The tool call that a request patches, or the id of the one that it only names."""
    if isinstance(request, v2.JuneRequestPermissionRequest):
        return request.tool_call
    if isinstance(request.subject, v2.ToolCallPermissionSubject):
        return request.subject.tool_call
    if isinstance(request.subject, v2.CommandPermissionSubject):
        return request.subject.tool_call_id or None
    return None


def downgrade_permission(
    request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest,
    losses: Losses,
    tool_call_id: str = "permission",
    shown: Shown | None = None,
    patch: v1.ToolCallPatch | None = None,
) -> v1.RequestPermissionRequest:
    """A permission request for version 1, whose subject is always a tool call.

    Args:
        request: The request of version 2.
        losses: Where everything is reported that version 1 cannot express.
        tool_call_id: The id of the call that is made up for a subject of another type.
        shown: What version 1 was sent of the call, for a caller that remembers it.
        patch: The call of the request, for a caller that has converted it already.
    """
    options = _options(request.options, losses)
    if isinstance(request, v2.JuneRequestPermissionRequest):
        call = patch or _tool_call(request.tool_call, losses, "toolCall")
    elif isinstance(request.subject, v2.ToolCallPermissionSubject):
        call = patch or _tool_call(request.subject.tool_call, losses, "subject.toolCall")
        call = _titled(request, call, shown, losses)
    else:
        call = _made_up(request, tool_call_id, shown, losses)
    rest = carried(request, v1.RequestPermissionRequest, losses, "")
    return v1.RequestPermissionRequest(request.session_id, call, options, **rest)


def _options(options: list[PermissionOption], losses: Losses) -> list[PermissionOption]:
    kept = []
    for index, option in enumerate(options):
        if option.kind in OPTION_KINDS:
            kept.append(option)
        else:
            losses.report(f"options[{index}].kind", f"version 1 has no option kind {option.kind!r}")
    if not kept:
        raise losses.refuse("options", "version 1 has none of the kinds of options")
    return kept


def _titled(
    request: v2.RequestPermissionRequest,
    patch: v1.ToolCallPatch,
    shown: Shown | None,
    losses: Losses,
) -> v1.ToolCallPatch:
    if request.description:
        losses.report("description", "version 1 shows the tool call, not a description")
    title = patch.title or (shown and shown.title)
    if title and title != request.title:
        losses.report("title", "version 1 shows the title of the tool call")
    # a title is what people decide by, and some clients look at nothing but the request
    return replace(patch, title=title or request.title)


def _made_up(
    request: v2.RequestPermissionRequest, tool_call_id: str, shown: Shown | None, losses: Losses
) -> v1.ToolCallPatch:
    """The tool call for a request whose subject is a command, something unknown, or missing."""
    subject = request.subject
    words = [request.description] if request.description else []
    values: dict[str, Any] = {"kind": "other"}
    if isinstance(subject, v2.CommandPermissionSubject):
        losses.report("subject", "version 1 asks about tool calls: the command became one")
        tool_call_id = subject.tool_call_id or tool_call_id
        words.append(f"{subject.command}\n(in {subject.cwd})")
        values["kind"] = "execute"
        values["raw_input"] = {"command": subject.command, "cwd": subject.cwd}
    else:
        losses.report("subject", "version 1 asks about tool calls: one was made up")
    content: list[v1.ToolCallContent] = [Content(TextContent(text)) for text in words]
    if shown is not None:  # the call is there: nothing of it gives way to the question
        return v1.ToolCallPatch(
            tool_call_id, title=shown.title or request.title, content=[*shown.content, *content]
        )
    values |= {"title": request.title, "status": "pending"}
    return v1.ToolCallPatch(tool_call_id, content=content or UNSET, **values)


def _tool_call(patch: v2.ToolCallPatch, losses: Losses, path: str) -> v1.ToolCallPatch:
    for name in ("title", "name", "raw_input", "raw_output", "meta"):
        if getattr(patch, name) is None:
            report_clear(name, losses, path)
    content = downgrade_contents(patch.content or [], losses, f"{path}.content")
    call: v1.ToolCallPatch = downgrade_tool_call(patch, content, losses, v1.ToolCallPatch, path)
    return call


def downgrade_outcome(
    response: v2.RequestPermissionResponse, losses: Losses
) -> v1.RequestPermissionResponse:
    """The answer; an unknown outcome is never converted to a choice."""
    if not isinstance(response.outcome, SelectedPermissionOutcome | CancelledPermissionOutcome):
        losses.report("outcome", "version 1 has no such outcome: it counts as cancelled")
        return v1.RequestPermissionResponse(CancelledPermissionOutcome())
    return v1.RequestPermissionResponse(
        response.outcome, meta=response.meta, unknown=response.unknown
    )


# ---- what version 1 was sent of a message --------------------------------------------------

_TOGETHER = 64  # pieces of text that are digested at once, for a stream has thousands of them
_LARGE = 4096  # a piece of so many characters does not wait for others


class Sent:
    """What was sent of a message, as `message_id`, in constant memory.

    Version 1 only appends. A whole message of version 2 can be sent if it extends what was sent;
    a running digest decides that, so the content is not kept. `text.safe.Seen` answers a smaller
    question with a checksum: whether a plain text is what was streamed. Here blocks that are not
    text and the cuts between blocks count too, the rest of the message is returned, and a collision
    would lose a part of it.
    """

    __slots__ = ("_blocks", "_cuts", "_digest", "_length", "_texts", "growing", "message_id")

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._blocks = 0
        self._cuts = blake2b(digest_size=16)
        self._length = 0
        self._digest = blake2b(digest_size=16)
        self._texts: list[str] = []  # went out, and not digested yet
        self.growing = False
        """Whether it may have such text."""

    def add(self, block: ContentBlock) -> None:
        """One more block went out."""
        if is_plain(block):
            self.add_text(block.text)
            return
        self.digest()
        data = _data(block)
        self._take(data, [len(data)])

    def add_text(self, text: str) -> None:
        """One more block went out, which is plain text."""
        texts = self._texts
        texts.append(text)
        if len(texts) >= _TOGETHER or len(text) >= _LARGE:
            self.digest()

    def digest(self) -> None:
        """Forget the text that went out, but for its digest."""
        texts, self._texts = self._texts, []
        if texts:
            data = "".join(texts).encode("utf-8", "surrogatepass")
            self._take(data, [len(text) for text in texts])

    def _take(self, data: bytes, sizes: list[int]) -> None:
        self._length += len(data)
        self._digest.update(data)
        self._blocks += len(sizes)
        self._cuts.update(_cuts(sizes))

    def suffix(self, content: list[ContentBlock]) -> list[ContentBlock] | None:
        """What of `content` has not gone out yet; None if it does not begin with what has."""
        self.digest()
        digest, left = blake2b(digest_size=16), self._length
        for index, block in enumerate(content):
            data = _data(block)
            # empty text went out too, as often as it was sent
            if left == 0 and (data or index >= self._blocks):
                return content[index:] if digest.digest() == self._digest.digest() else None
            digest.update(data[:left])
            if len(data) > left:
                if digest.digest() != self._digest.digest():
                    return None
                rest = TextContent(data[left:].decode("utf-8", "surrogatepass"))
                return [rest, *content[index + 1 :]]
            left -= len(data)
        return [] if digest.digest() == self._digest.digest() else None

    def cut_like(self, content: list[ContentBlock]) -> bool:
        """Whether what went out ends, block by block, where the blocks of `content` do."""
        self.digest()
        cuts = blake2b(_cuts(map(_size, content[: self._blocks])), digest_size=16)
        return cuts.digest() == self._cuts.digest()


def _cuts(sizes: Iterable[int]) -> bytes:
    return array("Q", sizes).tobytes()


def _size(block: ContentBlock) -> int:
    return len(block.text) if is_plain(block) else len(_data(block))


def _data(block: ContentBlock) -> bytes:
    # Plain text is joined, as a reader sees it; any other block is enclosed in bytes that are not
    # valid in UTF-8.
    if is_plain(block):
        return block.text.encode("utf-8", "surrogatepass")
    return b"\xff" + codec.encode(block) + b"\xff"


P = TypeVar("P", bound=v1.ToolCallPatch)

_GROWING = 8  # messages that may grow at the same time without being digested at every turn


class _Terminal:
    """A terminal as text, which is all that version 1 can show of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._output = TerminalText(self._limit)
        self._command = ""
        self._exit = ""

    def apply(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if isinstance(update, v2.TerminalOutputChunk):
            self._output.feed(_bytes(update.data))
            return
        if update.output is not UNSET:
            data = _bytes(update.output.data) if update.output else b""
            self._output = TerminalText(self._limit)
            self._output.feed(data)
        if update.command is not UNSET:
            self._command = f"$ {update.command}\n" if update.command else ""
        if update.exit_status is not UNSET:
            self._exit = _exit(update.exit_status) if update.exit_status else ""

    @property
    def text(self) -> str:
        text = self._command + self._output.text
        if self._exit and text and not text.endswith("\n"):
            text += "\n"
        return text + self._exit


def _exit(status: v2.TerminalExitStatus) -> str:
    if status.signal:
        return f"[ended by {status.signal}]"
    return f"[exit {status.exit_code}]" if isinstance(status.exit_code, int) else "[ended]"


def _bytes(data: str) -> bytes:
    try:
        return codec.output_bytes(data)
    except ValueError:
        raise Malformed("update", "terminal output that is not base64") from None


class _Call(Struct):
    """A tool call as the version 1 side has it."""

    title: str = ""
    shown: set[str] = field(default_factory=set)
    """Which of the fields that cannot be cleared it has."""
    content: list[str | list[v1.ToolCallContent]] = field(default_factory=list)
    """What its items became; a terminal is kept by its id, for its text still changes."""


# ---- a session, with a memory --------------------------------------------------------------


class Downgrader:
    """Converts a version 2 session to version 1, update by update.

    Args:
        losses: Where everything is reported that version 1 cannot express.
        notices: The client advertised that it shows notices.
        compactions: The client advertised that it shows compactions.
        terminal_limit: How much of a terminal's text is sent, counted from its end.
        gather: Terminal output and pieces of content are not sent at once but by `flush`, because
            the whole content of the tool call is sent each time. They are also sent before a call
            ends.
        cuts: A message that is the same text in other pieces counts as a loss.
    """

    def __init__(
        self,
        losses: Losses | None = None,
        *,
        notices: bool = True,
        compactions: bool = True,
        terminal_limit: int = 64 * 1024,
        gather: bool = False,
        cuts: bool = True,
    ) -> None:
        self.losses = Losses() if losses is None else losses
        self._notices = notices
        self._compactions = compactions
        self._terminal_limit = terminal_limit
        self._sent: dict[tuple[type[v1.ContentChunk], str], Sent] = {}
        self._growing: deque[Sent] = deque()  # those that have text in memory
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._referring: dict[str, set[str]] = {}  # terminal → tool calls
        self._gather = gather
        self._cuts = cuts
        self.gathered: dict[str, None] = {}
        """The tool calls that have content, or output of terminals, that was not sent yet."""
        self._plan = PLAN_ID  # the one that is shown
        self._made = 0

    def plain(self, update: Any) -> Any:
        """Lower a piece of plain text; None for any other update. It never loses anything.

        Most updates are such pieces. `update` lowers all others, and these too.
        """
        shape = CHUNKS.get(type(update))
        if shape is None or not update.message_id:
            return None
        content = update.content
        if (  # `is_plain`, without the call
            type(content) is not TextContent
            or content.annotations is not UNSET
            or content.meta is not UNSET
            or content.unknown is not UNSET
            or update.meta is not UNSET
            or update.unknown is not UNSET
        ):
            return None
        sent = self._sent.get((shape, update.message_id))
        if sent is None or not sent.growing:
            sent = self._shown(shape, update.message_id)
        sent.add_text(content.text)
        return shape(content, sent.message_id)

    def update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        """Convert one update of version 2.

        Returns:
            The updates of version 1 with the same meaning, in order, as far as there are any.
        """
        chunk = self.plain(update)
        if chunk is not None:
            return [chunk]
        if isinstance(update, v2.ToolCallUpdate) and update.tool_call_id in self.gathered:
            return self._of_gathered(update)
        return self._update(update)

    def _of_gathered(self, update: v2.ToolCallUpdate) -> list[v1.SessionUpdate]:
        """An update of a call some of whose content was not sent: most do not depend on it."""
        call_id, sent = update.tool_call_id, list[v1.SessionUpdate]()
        if update.content is UNSET and update.status not in _ENDS:
            return self._update(update)
        if update.content is UNSET:  # else it is replaced
            sent = self._gathered_of([call_id])
        lowered = self._update(update)  # which may be refused: then nothing was sent
        del self.gathered[call_id]
        return [*sent, *lowered]

    def flush(self) -> list[v1.SessionUpdate]:
        """The updates for content that was gathered since the last call."""
        sent = self._gathered_of(self.gathered)
        self.gathered = {}
        return sent

    def _gathered_of(self, calls: Iterable[str]) -> list[v1.SessionUpdate]:
        return [
            v1.ToolCallUpdate(call_id, content=self._contents(self._calls[call_id]))
            for call_id in calls
        ]

    def _update(self, update: v2.SessionUpdate) -> list[v1.SessionUpdate]:
        match update:
            case v2.ContentChunk():
                return [self._chunk(update)]
            case v2.MessagePatch():
                return self._message(update)
            case v2.ToolCallUpdate():
                return self._tool_call(update)
            case v2.ToolCallContentChunk():
                return self._content_chunk(update)
            case v2.TerminalUpdate() | v2.TerminalOutputChunk():
                return self._terminal(update)
            case Notice() if not self._notices:
                self.losses.report("update", "the client does not show notices")
                return []
            case CompactionUpdate() | CompactionSummaryChunk() if not self._compactions:
                self.losses.report("update", "the client does not show compactions")
                return []
            case v2.PlanUpdate() | PlanRemoved():
                return self._plan_changed(update)
        return downgrade_simple(update, self.losses)

    # ---- for a caller that decides about an update before it is converted

    def has_sent(self, shape: type[v1.ContentChunk], message_id: str) -> bool:
        """Whether version 1 was sent anything of a message; `shape` is the type of its chunks."""
        return (shape, message_id) in self._sent

    def knows_call(self, call_id: str) -> bool:
        """Whether version 1 was sent this tool call, by an update or a permission request."""
        return call_id in self._calls

    def title_of(self, call_id: str) -> str:
        """The title of a tool call as version 1 has it; empty for a call without one."""
        call = self._calls.get(call_id)
        return call.title if call is not None else ""

    def shows_terminal(self, terminal_id: str) -> bool:
        """Whether a tool call that version 1 was sent refers to the terminal."""
        return bool(self._referring.get(terminal_id))

    def keep_terminal(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        """Keep what a terminal printed for a tool call that will refer to it; sends nothing."""
        terminal = self._terminals.get(update.terminal_id) or _Terminal(self._terminal_limit)
        terminal.apply(update)
        self._terminals[update.terminal_id] = terminal

    # ---- messages

    def _shown(self, shape: type[v1.ContentChunk], message_id: str) -> Sent:
        sent = self._sent.get((shape, message_id))
        if sent is None:
            sent = self._sent[shape, message_id] = Sent(message_id)
        if not sent.growing:
            self._grow(sent)
        return sent

    def _grow(self, sent: Sent) -> None:
        """A message goes on; those that have not for the longest time are digested."""
        sent.growing = True
        self._growing.append(sent)
        if len(self._growing) > _GROWING:
            oldest = self._growing.popleft()
            oldest.growing = False
            oldest.digest()

    def _chunk(self, update: v2.ContentChunk) -> Any:
        sent = self._shown(CHUNKS[type(update)], update.message_id)
        chunk = downgrade_chunk(update, self.losses)
        sent.add(update.content)
        if sent.message_id != update.message_id:  # it was corrected
            chunk = replace(chunk, message_id=sent.message_id)
        return chunk

    def _message(self, update: v2.MessagePatch) -> list[v1.SessionUpdate]:
        shape = WHOLE[type(update)]
        content = representable_content(update, self.losses)
        sent = self._shown(shape, update.message_id)
        suffix = sent.suffix(content)
        if suffix is None:
            return self._correction(shape, update.message_id, content)
        if self._cuts and not sent.cut_like(content):
            self.losses.report("update.content", "version 1 keeps the chunks as they were sent")
        chunks = self._chunks(shape, sent.message_id, suffix)
        for block in suffix:
            sent.add(block)
        return chunks

    def _chunks(
        self, shape: type[v1.ContentChunk], message_id: str, blocks: list[ContentBlock]
    ) -> list[v1.SessionUpdate]:
        chunks: list[Any] = [
            shape(downgrade_block(block, self.losses, f"update.content[{index}]"), message_id)
            for index, block in enumerate(blocks)
        ]
        return chunks

    def _correction(
        self, shape: type[v1.ContentChunk], message_id: str, content: list[ContentBlock]
    ) -> list[v1.SessionUpdate]:
        self.losses.report(
            "update.content", "version 1 cannot replace what was sent: a correction follows it"
        )
        self._made += 1
        # from here on the message is what the correction shows
        sent = self._sent[shape, message_id] = Sent(f"{message_id}:correction:{self._made}")
        for block in content:
            sent.add(block)
        mark = TextContent("[correction]\n")
        return self._chunks(shape, sent.message_id, [mark, *content])

    # ---- tool calls

    def _tool_call(self, update: v2.ToolCallUpdate) -> list[v1.SessionUpdate]:
        known = update.tool_call_id in self._calls
        call, patch = self._patched(update, v1.ToolCallUpdate, "update")
        converted = patch if known else self._whole(patch, call)
        self._remember(update.tool_call_id, call)
        return [converted]

    def _patched(self, update: v2.ToolCallPatch, shape: type[P], path: str) -> tuple[_Call, P]:
        """The call after a patch, and the patch for version 1; nothing is remembered yet."""
        known = self._calls.get(update.tool_call_id, _Call())
        call = _Call(update.title or known.title, set(known.shown), known.content)
        for name in ("title", "name", "raw_input", "raw_output", "meta"):
            value = getattr(update, name)
            if value is None and name in call.shown:
                report_clear(name, self.losses, path)
            elif value is not UNSET and value is not None:
                call.shown.add(name)
        content: list[v1.ToolCallContent] = []
        if update.content is not UNSET:
            call.content = [
                self._rendered(item, f"{path}.content[{index}]")
                for index, item in enumerate(update.content or [])
            ]
            content = self._contents(call)
        return call, downgrade_tool_call(update, content, self.losses, shape, path)

    def _remember(self, call_id: str, call: _Call) -> None:
        old = self._calls.get(call_id, _NOTHING)
        self._calls[call_id] = call
        if old.content is call.content:
            return
        for item in old.content:
            if isinstance(item, str):
                self._referring[item].discard(call_id)
        for item in call.content:
            if isinstance(item, str):
                self._referring.setdefault(item, set()).add(call_id)

    def _whole(self, patch: v1.ToolCallUpdate, call: _Call) -> v1.ToolCall:
        if not patch.title:
            call.title = patch.name or (str(patch.kind) if patch.kind else "Tool call")
            self.losses.report("update.title", "version 1 needs a title")
        call.shown.add("title")
        given = {
            name: value
            for name in (*_CALL_FIELDS, "meta", "unknown")
            if (value := getattr(patch, name)) is not None
        }
        return v1.ToolCall(patch.tool_call_id, call.title, **given)

    def _content_chunk(self, update: v2.ToolCallContentChunk) -> list[v1.SessionUpdate]:
        if update.meta or update.unknown:
            self.losses.report("update", "version 1 has no chunks of content, nor their metadata")
        item = self._rendered(update.content, "update.content")
        call = self._calls.get(update.tool_call_id)
        if call is None:
            call = _Call(content=[item])
            patch = v1.ToolCallUpdate(update.tool_call_id, content=self._contents(call))
            whole = self._whole(patch, call)
            self._remember(update.tool_call_id, call)
            return [whole]
        call.content.append(item)
        if isinstance(item, str):
            self._referring.setdefault(item, set()).add(update.tool_call_id)
        if self._gather:
            self.gathered[update.tool_call_id] = None
            return []
        return [v1.ToolCallUpdate(update.tool_call_id, content=self._contents(call))]

    def _rendered(self, item: v2.ToolCallContent, path: str) -> str | list[v1.ToolCallContent]:
        if isinstance(item, v2.Terminal):
            self.losses.report(path, "version 1 has no agent-owned terminals: it becomes text")
            return item.terminal_id
        return downgrade_tool_content(item, self.losses, path)

    def _contents(self, call: _Call) -> list[v1.ToolCallContent]:
        items: list[v1.ToolCallContent] = []
        for item in call.content:
            if isinstance(item, str):
                items.append(Content(TextContent(self._terminal_text(item))))
            else:
                items += item
        return items

    def permission(
        self, request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest
    ) -> v1.RequestPermissionRequest:
        """A permission request; the tool call it shows is known from then on."""
        self._made += 1
        made_up = f"v2:permission:{self._made}"
        about = asked_about(request)
        patch = None
        if isinstance(about, v2.ToolCallPatch):
            known = self._calls.get(about.tool_call_id)
            june = isinstance(request, v2.JuneRequestPermissionRequest)
            path = "toolCall" if june else "subject.toolCall"
            call, patch = self._patched(about, v1.ToolCallPatch, path)
        else:
            known = self._calls.get(about or made_up)
            call = known or _Call()
        shown = None if known is None else Shown(known.title, self._contents(known))
        made = downgrade_permission(request, self.losses, made_up, shown, patch)
        if made.tool_call.title:
            call.title = made.tool_call.title
            call.shown.add("title")
        self._remember(made.tool_call.tool_call_id, call)
        return made

    # ---- plans

    def _plan_changed(self, update: v2.PlanUpdate | PlanRemoved) -> list[v1.SessionUpdate]:
        if isinstance(update, PlanRemoved) and update.plan_id != self._plan:
            self.losses.report("update.planId", "version 1 has one plan, and shows another")
            return []
        converted = downgrade_simple(update, self.losses)
        if converted and isinstance(update, v2.PlanUpdate):
            self._plan = plan_id(update)
        return converted

    # ---- terminals

    def _terminal(
        self, update: v2.TerminalUpdate | v2.TerminalOutputChunk
    ) -> list[v1.SessionUpdate]:
        self.keep_terminal(update)
        calls = self._referring.get(update.terminal_id)
        if not calls:
            # a tool call may still refer to it; until then nobody sees it
            self.losses.report("update", "version 1 shows a terminal only inside a tool call")
            return []
        if self._gather:
            self.gathered.update(dict.fromkeys(sorted(calls)))
            return []
        return [
            v1.ToolCallUpdate(call_id, content=self._contents(self._calls[call_id]))
            for call_id in sorted(calls)
        ]

    def _terminal_text(self, terminal_id: str) -> str:
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            return f"[terminal {terminal_id}]"
        return terminal.text


_NOTHING = _Call()
_ENDS = frozenset({"completed", "failed", "cancelled"})
_CALL_FIELDS = ("name", "kind", "status", "content", "locations", "raw_input", "raw_output")
