"""All file changes of a session, by file: what its completed tool calls show as diffs.

Two diffs of a file become one where the second begins with the text that the first ended with, so
that one sees the change and not the way to it. Where a diff is a patch from the middle of a file,
that cannot be known, and the diffs follow each other in their order.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twofold.convert.patches import BadPatch, parse_patch
from twofold.session import Session, ToolCall
from twofold.text.safe import one_line
from twofold.view.blocks import DiffItem
from twofold.view.diff import AnyDiff, DiffLine, diff_lines, relative
from twofold.wire import v2
from twofold.wire.base import UNSET

_FACTS: Final = re.compile(r" \([a-z, ]*\)$")  # what the name of a file is followed by
_HUNK: Final = re.compile(r"^@@ -(\d+)", re.MULTILINE)


class FileChanges(NamedTuple):
    """What changed in one file."""

    name: str
    """Its path, relative to the directory of the session if it is inside of it; safe to show."""
    diffs: tuple[DiffItem, ...]
    """In their order."""

    def count(self, kind: str) -> int:
        """How many lines were `added` or `removed`."""
        return sum(line.kind == kind for item in self.diffs for line in item.lines)


class SessionChanges(NamedTuple):
    """What changed in a session."""

    files: list[FileChanges]
    """In the order in which they were changed first."""
    left_out: int
    """How many tool calls with diffs did not complete: rejected, failed, or still open."""


@dataclass(slots=True)
class _Texts:
    """A text before and after: of a file, or of the same piece of it from its first line on."""

    path: str
    old: str | None
    new: str | None


@dataclass(slots=True)
class _Piece:
    """One diff of one file; `texts` if another may follow it seamlessly."""

    lines: list[DiffLine] = field(default_factory=list)
    texts: _Texts | None = None


def session_changes(session: Session, cwd: str | None = None) -> SessionChanges:
    """All file changes of a session.

    Args:
        session: The session as it is now.
        cwd: Its directory: paths inside of it are shown relative to it.
    """
    files: dict[str, list[_Piece]] = {}
    left_out = 0
    for call in session.entries:
        if not isinstance(call, ToolCall):
            continue
        diffs = [each for each in call.content if isinstance(each, AnyDiff)]
        if session.outcome(call) != "completed":
            left_out += bool(diffs)
            continue
        for diff in diffs:
            for name, piece in _pieces(diff, cwd):
                _add(files.setdefault(name, []), piece)
    made = [
        FileChanges(name, tuple([DiffItem(tuple(_lines(piece, cwd))) for piece in pieces]))
        for name, pieces in files.items()
    ]
    return SessionChanges(made, left_out)


def _pieces(diff: AnyDiff, cwd: str | None) -> Iterator[tuple[str, _Piece]]:
    """What a diff holds, file by file."""
    texts = _texts(diff)
    if texts is not None:
        yield one_line(relative(texts.path, cwd)), _Piece(texts=texts)
        return
    name, piece = "", _Piece()
    for line in diff_lines(diff, cwd):
        if line.kind == "file":
            if piece.lines:
                yield name, piece
            name, piece = _FACTS.sub("", line.text).rpartition(" → ")[2], _Piece()
        piece.lines.append(line)
    if piece.lines:
        yield name, piece


def _texts(diff: AnyDiff) -> _Texts | None:
    """The texts before and after, if the diff is about one text file and begins at its top."""
    if isinstance(diff, v2.JuneDiff):
        return _Texts(diff.path, diff.old_text or None, diff.new_text)
    if len(diff.changes) != 1 or not isinstance(diff.changes[0], v2.DiffAdd | v2.DiffModify):
        return None
    patch = diff.patch.diff if isinstance(diff, v2.JulyDiff) else diff.patch and diff.patch.text
    if not patch or [*_HUNK.findall(patch)] not in (["0"], ["1"]):
        return None
    try:
        files = parse_patch(patch)
    except BadPatch:
        return None
    if len(files) != 1 or files[0].binary or files[0].operation not in ("add", "modify"):
        return None
    return _Texts(diff.changes[0].path, files[0].old, files[0].new)


def _add(pieces: list[_Piece], piece: _Piece) -> None:
    """Add a diff to those of its file, joined with the last one where that is possible."""
    before = pieces[-1].texts if pieces else None
    after = piece.texts
    if before is not None and after is not None and after.old and before.new == after.old:
        pieces[-1].texts = _Texts(after.path, before.old, after.new)
    else:
        pieces.append(piece)


def _lines(piece: _Piece, cwd: str | None) -> list[DiffLine]:
    if piece.texts is None:
        return piece.lines
    texts = piece.texts
    old = UNSET if texts.old is None else texts.old
    return diff_lines(v2.JuneDiff(path=texts.path, new_text=texts.new or "", old_text=old), cwd)
