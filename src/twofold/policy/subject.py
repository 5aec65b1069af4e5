"""What a permission request is about, as far as a rule can tell.

Everything in a `Subject` is the agent's word: it says what it means to do, and nothing here checks
that it does just that. Whatever the agent sends, a subject comes of it; what cannot be read as a
path or a command is left out.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

from msgspec import Struct

from twofold.session import Session, ToolCall
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.shared import ToolKind

KINDS: Final[tuple[str, ...]] = get_args(ToolKind)[1].values
"""The kinds of tool calls; a word that is not among them counts as `other`."""

# What agents call the file they are about to touch. `cwd` is where, not what.
_PATH_KEYS = (
    *("path", "paths", "file_path", "filePath", "filepath", "abs_path", "absolute_path"),
    *("notebook_path", "old_path", "new_path"),
)


class Subject(Struct, frozen=True):
    """What the agent asks permission for, in its own words."""

    kind: str = "other"
    name: str | None = None
    title: str = ""
    paths: tuple[str, ...] = ()
    """Every file it speaks of: locations, diffs and the input of the tool, as they were written."""
    command: str | None = None


def subject_of(request: v2.RequestPermissionRequest, session: Session) -> Subject:
    """What `request` is about; what it leaves out of a tool call, the session may know."""
    match request.subject:
        case v2.ToolCallPermissionSubject(tool_call=patch):
            known = session.tool_calls.get(patch.tool_call_id)
            return _of_call(_patched(known, patch), request.title)
        case v2.CommandPermissionSubject(command=command, tool_call_id=tool_call_id):
            known = session.tool_calls.get(tool_call_id) if tool_call_id else None
            call = _of_call(known or ToolCall("", 0), request.title)
            return Subject("execute", call.name, request.title, call.paths, command.strip() or None)
    return Subject(title=request.title)


def _patched(known: ToolCall | None, patch: v2.ToolCallPatch) -> ToolCall:
    """The tool call that `patch` makes of the known one, which stays as it is."""
    call = ToolCall(patch.tool_call_id, 0)
    for name in ("kind", "name", "title", "content", "locations", "raw_input"):
        value = getattr(patch, name)
        if value is UNSET and known is not None:
            value = getattr(known, name)
        if value is not UNSET and value is not None:  # null resets it
            setattr(call, name, value)
    return call


def _of_call(call: ToolCall, title: str) -> Subject:
    paths = [location.path for location in call.locations]
    paths += _diff_paths(call.content)
    given = call.raw_input if isinstance(call.raw_input, dict) else {}
    for key in _PATH_KEYS:
        paths += _strings(given.get(key))
    return Subject(
        call.kind if call.kind in KINDS else "other",
        call.name,
        call.title or title,
        tuple(dict.fromkeys(filter(None, paths))),
        _command(given) or None,
    )


def _diff_paths(content: Iterable[v2.ToolCallContent]) -> Iterator[str]:
    for item in content:
        if isinstance(item, v2.JuneDiff):
            yield item.path
        elif isinstance(item, v2.Diff | v2.JulyDiff):
            for change in item.changes:
                yield from _changed_paths(change)


def _changed_paths(change: v2.DiffChange) -> Iterator[str]:
    if isinstance(change, v2.UnknownDiffChange):  # it touches files all the same
        for key in ("oldPath", "path"):
            yield from _strings(change.raw.fields.get(key))
        return
    if isinstance(change, v2.DiffPathPairChange):
        yield change.old_path
    yield change.path


def _command(given: dict[Any, Any]) -> str:
    """The command line of a tool's input: one string, or words, or a program and its `args`."""
    program = _words(given.get("command")) or _words(given.get("cmd"))
    arguments = _words(given.get("args")) if program else ""
    return f"{program} {arguments}".strip()


def _words(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    words = value if isinstance(value, list) else []
    return shlex.join(word if isinstance(word, str) else "?" for word in words)


def _strings(value: object) -> list[str]:
    """The strings of a string or a list; of anything else, none."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]
