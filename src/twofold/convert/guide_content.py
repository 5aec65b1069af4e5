"""Tool content of the client guide's dialect → version 2: code, patches, terminals."""

import re
from typing import TypeAlias

from msgspec.structs import replace

from twofold.convert.carry import carried
from twofold.convert.diffs import BadPatch, FilePatch, parse_patch
from twofold.convert.drafts import lift_content
from twofold.convert.losses import Losses
from twofold.convert.upgrade import text_as_base64, upgrade_block
from twofold.wire import guide, v2
from twofold.wire.base import UNSET
from twofold.wire.content import ImageContent, TextContent
from twofold.wire.shared import Content

AnyTerminal: TypeAlias = guide.Terminal | guide.ExitCodeTerminal
FileChange: TypeAlias = v2.DiffAdd | v2.DiffDelete | v2.DiffModify | v2.DiffMove | v2.DiffCopy


def upgrade_content(item: guide.ToolCallContent, losses: Losses, path: str) -> v2.ToolCallContent:
    """One item of a tool call's content."""
    match item:
        case TextContent() | ImageContent():
            return Content(upgrade_block(item, losses, path))
        case guide.Code():
            text = fenced(item.code, _info_string(item, losses, path))
            return Content(TextContent(text), **carried(item, Content, losses, path))
        case guide.Patch():
            return _diff(item, losses, path)
        case guide.Terminal() | guide.ExitCodeTerminal():
            return v2.Terminal(item.terminal_id, **carried(item, v2.Terminal, losses, path))
        case guide.UnknownToolCallContent():
            return v2.UnknownToolCallContent(raw=item.raw)
        case Content():
            return replace(item, content=upgrade_block(item.content, losses, f"{path}.content"))
    return lift_content(item)


# ---- code ----------------------------------------------------------------------------------


def fenced(code: str, language: str = "") -> str:
    """Code as a block of Markdown. All it does not say is whether the last line has its newline."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if not code or code.endswith("\n") else "\n"
    return f"{fence}{language}\n{code}{end}{fence}"


def _info_string(item: guide.Code, losses: Losses, path: str) -> str:
    language = (item.language or "").strip()
    if re.search("[`\r\n]", language):
        losses.report(f"{path}.language", "a fenced block cannot name this language")
        return ""
    return language


# ---- patches -------------------------------------------------------------------------------


def _diff(item: guide.Patch, losses: Losses, path: str) -> v2.Diff:
    named = item.path or ""
    text, files = _read_patch(item.diff, named)
    changes = [_change(file, named) for file in files]
    if not files and named:
        changes = [v2.DiffModify(named)]
    elif not files:
        losses.report(path, "which files the patch changes cannot be told")
    elif named and named not in {change.path for change in changes}:
        losses.report(f"{path}.path", "the patch is about other files")
    patch = v2.DiffPatch("git_patch", text) if text else UNSET
    return v2.Diff(list(changes), patch, **carried(item, v2.Diff, losses, path))


def _read_patch(diff: str, path: str) -> tuple[str, list[FilePatch]]:
    """A patch that says which file it changes, and the files; none if it cannot be read."""
    try:
        return diff, parse_patch(diff)
    except BadPatch:
        pass
    # Bare hunks: the path beside them is all that names the file. A TAB ends a name with spaces.
    label = f"{path}\t" if " " in path else path
    headed = f"--- {label}\n+++ {label}\n{diff}"
    try:
        files = parse_patch(headed)
    except BadPatch:
        return diff, []
    return (headed, files) if [file.path for file in files] == [path] else (diff, [])


def _change(file: FilePatch, named: str) -> FileChange:
    # The path beside the patch may be the whole of what the patch has relative to somewhere.
    path = named if named.endswith(f"/{file.path}") else file.path
    kind = "binary" if file.binary else UNSET
    match file.operation:
        case "add":
            return v2.DiffAdd(path, kind)
        case "delete":
            return v2.DiffDelete(path, kind)
        case "modify":
            return v2.DiffModify(path, kind)
        case "move":
            return v2.DiffMove(file.old_path or "", path, kind)
        case "copy":
            return v2.DiffCopy(file.old_path or "", path, kind)


# ---- terminals -----------------------------------------------------------------------------


def terminal_updates(items: list[guide.ToolCallContent]) -> list[v2.SessionUpdate]:
    """What content says of its terminals beside showing them."""
    updates: list[v2.SessionUpdate] = []
    for item in items:
        if not isinstance(item, AnyTerminal):
            continue
        output = UNSET if item.output is None else item.output
        status = item.exit_status
        if isinstance(status, int):
            status = v2.TerminalExitStatus(status)
        if output is not UNSET or status:
            printed = output if output is UNSET else v2.TerminalOutput(text_as_base64(output))
            updates.append(
                v2.TerminalUpdate(item.terminal_id, output=printed, exit_status=status or UNSET)
            )
    return updates
