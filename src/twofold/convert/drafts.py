"""Earlier drafts of version 2 → the newest.

Every draft is read, the newest is written. Shapes that did not change are returned as they are.
"""

from typing import Any, TypeVar

from msgspec.structs import replace

from twofold.convert.losses import Losses, carried
from twofold.convert.patches import git_patch
from twofold.wire import v2
from twofold.wire.base import UNSET

P = TypeVar("P", bound=v2.ToolCallPatch)


def lift(update: v2.SessionUpdate) -> v2.SessionUpdate:
    """An update in the newest shape."""
    match update:
        case v2.ToolCallUpdate():
            return _lift_call(update)
        case v2.ToolCallContentChunk():
            content = lift_content(update.content)
            return update if content is update.content else replace(update, content=content)
        case v2.PlanUpdate() if isinstance(update.plan, v2.JunePlanItems):
            plan = v2.PlanItems(update.plan.id, update.plan.entries, **_rest(update.plan))
            return replace(update, plan=plan)
        case v2.AvailableCommandsUpdate():
            if any(isinstance(each, v2.AugustCommand) for each in update.available_commands):
                commands = [_lift_command(each) for each in update.available_commands]
                return replace(update, available_commands=commands)
    return update


def lift_permission(
    request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest,
) -> v2.RequestPermissionRequest:
    """A permission request in the newest shape."""
    if isinstance(request, v2.JuneRequestPermissionRequest):
        call = _lift_call(request.tool_call)
        return v2.RequestPermissionRequest(
            request.session_id,
            call.title or call.name or "Permission needed",
            request.options,
            subject=v2.ToolCallPermissionSubject(call),
            **_rest(request),
        )
    if isinstance(request.subject, v2.ToolCallPermissionSubject):
        call = _lift_call(request.subject.tool_call)
        if call is not request.subject.tool_call:
            return replace(request, subject=replace(request.subject, tool_call=call))
    return request


def _lift_call(patch: P) -> P:
    if not patch.content or not any(
        isinstance(item, v2.JuneDiff | v2.JulyDiff) for item in patch.content
    ):
        return patch
    return replace(patch, content=[lift_content(item) for item in patch.content])


def lift_content(item: v2.ToolCallContent) -> v2.ToolCallContent:
    """An item of a tool call's content in the newest shape."""
    if isinstance(item, v2.JuneDiff):
        return diff_of_texts(item.path, item.old_text, item.new_text, **_rest(item))
    if isinstance(item, v2.JulyDiff):
        return lift_july(item)
    return item


def diff_of_texts(path: str, old: Any, new: str, **beside: Any) -> v2.Diff:
    """Two texts, as June and version 1 have them, as a change and a patch.

    Args:
        path: The file that changes.
        old: The text before; anything but a string for a file that is new.
        new: The text after; equal texts have no patch.
        beside: The metadata and unknown fields of the diff.
    """
    before = old if isinstance(old, str) else None
    change = v2.DiffAdd(path) if before is None else v2.DiffModify(path)
    text = git_patch(path, before, new)
    patch = v2.DiffPatch("git_patch", text) if text else UNSET
    return v2.Diff([change], patch, **beside)


def lift_july(diff: v2.JulyDiff) -> v2.Diff:
    """A diff of July, whose patch had another name for its text."""
    patch = v2.DiffPatch(diff.patch.format, diff.patch.diff, **_rest(diff.patch))
    return v2.Diff(diff.changes, patch, **_rest(diff))


def _lift_command(command: v2.AvailableCommand) -> v2.AvailableCommand:
    if isinstance(command, v2.AugustCommand):
        return v2.Command(command.name, command.description, command.input, **_rest(command))
    return command


def _rest(source: Any) -> dict[str, Any]:
    return carried(source, type(source), Losses(), "")
