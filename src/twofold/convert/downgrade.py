"""Version 2 → version 1, one update at a time, without memory.

Version 1 is closed: strict peers fail on an unknown variant, kind or status, so
everything is brought into its words and every change of meaning is reported. What version 1 has
no words for at all is refused, never dropped in silence. What needs a memory (accumulated
content, what a message already showed, terminals) is in `convert.downgrader`, which uses the same
functions.
"""

from typing import Any

from msgspec.structs import replace

from twofold.convert.drafts import lift_july
from twofold.convert.losses import Losses, carried
from twofold.convert.options import downgrade_command, downgrade_config_option, modes_of
from twofold.convert.patches import BadPatch, FilePatch, parse_patch
from twofold.convert.upgrade import PLAN_ID, terminals_in, upgrade_diff
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, known_values
from twofold.wire.content import Annotations, ContentBlock, Role, TextContent, UnknownContent
from twofold.wire.shared import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    Notice,
    PermissionOptionKind,
    PlanEntryPriority,
    PlanRemoved,
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
