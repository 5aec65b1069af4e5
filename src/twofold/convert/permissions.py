"""Permission requests, one version into the other.

An option is chosen by its kind, so a kind that version 1 does not have is never passed for
another: the option is left out, and a request that nothing is left of is refused.
"""

from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from twofold.convert.downgrade import (
    OPTION_KINDS,
    downgrade_contents,
    downgrade_tool_call,
    report_clear,
)
from twofold.convert.losses import Losses, carried
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
    call = upgrade_tool_call(
        request.tool_call, owned, losses, shape=v2.ToolCallPatch, path="toolCall"
    )
    return v2.RequestPermissionRequest(
        request.session_id,
        request.tool_call.title or title or request.tool_call.name or "Permission needed",
        request.options,
        subject=v2.ToolCallPermissionSubject(call),
        **carried(request, v2.RequestPermissionRequest, losses, ""),
    )


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
    """The answer; an unknown outcome is never converted to a choice."""
    if not isinstance(response.outcome, SelectedPermissionOutcome | CancelledPermissionOutcome):
        losses.report("outcome", "version 1 has no such outcome: it counts as cancelled")
        return v1.RequestPermissionResponse(CancelledPermissionOutcome())
    return v1.RequestPermissionResponse(
        response.outcome, meta=response.meta, unknown=response.unknown
    )
