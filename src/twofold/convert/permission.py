"""Permission requests, one version into the other.

An option is chosen by its kind, so a kind that version 1 does not know is never passed for
another: the option is left out, and a request that nothing is left of is refused.
"""

from typing import Any

from twofold.convert.carry import carried
from twofold.convert.downgrade import (
    OPTION_KINDS,
    downgrade_contents,
    downgrade_tool_call,
    report_clear,
)
from twofold.convert.losses import Losses
from twofold.convert.upgrade import upgrade_tool_call
from twofold.wire import v1, v2
from twofold.wire.content import TextContent
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Content,
    PermissionOption,
    SelectedPermissionOutcome,
)


def upgrade_permission(
    request: v1.RequestPermissionRequest, owned: set[str], losses: Losses, title: str | None = None
) -> v2.RequestPermissionRequest:
    """The tool call becomes the subject; `title` is what the call is known as, if it is known."""
    if not request.options:
        raise losses.refuse("options", "version 2 needs at least one option")
    call = upgrade_tool_call(request.tool_call, owned, losses, shape=v2.ToolCallPatch)
    return v2.RequestPermissionRequest(
        request.session_id,
        request.tool_call.title or title or request.tool_call.name or "Permission needed",
        request.options,
        subject=v2.ToolCallPermissionSubject(call),
        **carried(request, v2.RequestPermissionRequest, losses, ""),
    )


def downgrade_permission(
    request: v2.RequestPermissionRequest | v2.JuneRequestPermissionRequest,
    losses: Losses,
    tool_call_id: str = "permission",
) -> v1.RequestPermissionRequest:
    """The subject becomes the tool call; `tool_call_id` names the one made up where it is none."""
    options = _options(request.options, losses)
    if isinstance(request, v2.JuneRequestPermissionRequest):
        call = _tool_call(request.tool_call, losses)
    else:
        call = _subject(request, tool_call_id, losses)
    rest = carried(request, v1.RequestPermissionRequest, losses, "")
    return v1.RequestPermissionRequest(request.session_id, call, options, **rest)


def _options(options: list[PermissionOption], losses: Losses) -> list[PermissionOption]:
    kept = []
    for index, option in enumerate(options):
        if option.kind in OPTION_KINDS:
            kept.append(option)
        else:
            losses.report(f"options[{index}].kind", f"version 1 does not know {option.kind!r}")
    if not kept:
        raise losses.refuse("options", "version 1 knows none of the options")
    return kept


def _subject(
    request: v2.RequestPermissionRequest, tool_call_id: str, losses: Losses
) -> v1.ToolCallPatch:
    subject = request.subject
    if isinstance(subject, v2.ToolCallPermissionSubject):
        if request.description:
            losses.report("description", "version 1 shows the tool call, not a description")
        call = _tool_call(subject.tool_call, losses)
        if call.title is None or not isinstance(call.title, str):
            call.title = request.title  # a title is what people decide by
        elif call.title != request.title:
            losses.report("title", "version 1 shows the title of the tool call")
        return call
    values: dict[str, Any] = {"title": request.title, "status": "pending"}
    if request.description:
        values["content"] = [Content(TextContent(request.description))]
    if isinstance(subject, v2.CommandPermissionSubject):
        known = subject.tool_call_id or tool_call_id
        if not request.description:
            values["content"] = [Content(TextContent(f"{subject.command}\n(in {subject.cwd})"))]
        values["raw_input"] = {"command": subject.command, "cwd": subject.cwd}
        losses.report("subject", "version 1 asks about tool calls: the command became one")
        return v1.ToolCallPatch(known, kind="execute", **values)
    losses.report("subject", "version 1 asks about tool calls: one was made up")
    return v1.ToolCallPatch(tool_call_id, kind="other", **values)


def _tool_call(patch: v2.ToolCallPatch, losses: Losses) -> v1.ToolCallPatch:
    for name in ("title", "name", "raw_input", "raw_output"):
        if getattr(patch, name) is None:
            report_clear(name, losses)
    content = downgrade_contents(patch.content or [], losses, "toolCall.content")
    call: v1.ToolCallPatch = downgrade_tool_call(patch, content, losses, v1.ToolCallPatch)
    return call


def upgrade_outcome(response: v1.RequestPermissionResponse) -> v2.RequestPermissionResponse:
    """The answer, which both versions write alike."""
    outcome: v2.RequestPermissionOutcome
    if isinstance(response.outcome, v1.UnknownPermissionOutcome):
        outcome = v2.UnknownPermissionOutcome(raw=response.outcome.raw)
    else:
        outcome = response.outcome
    return v2.RequestPermissionResponse(outcome, meta=response.meta, unknown=response.unknown)


def downgrade_outcome(
    response: v2.RequestPermissionResponse, losses: Losses
) -> v1.RequestPermissionResponse:
    """The answer; one that version 1 does not know is never passed for a choice."""
    if not isinstance(response.outcome, SelectedPermissionOutcome | CancelledPermissionOutcome):
        losses.report("outcome", "version 1 does not know this outcome: it counts as cancelled")
        return v1.RequestPermissionResponse(CancelledPermissionOutcome())
    return v1.RequestPermissionResponse(
        response.outcome, meta=response.meta, unknown=response.unknown
    )
