"""A diff as lines to show, each with what it is.

For eyes only: nothing is applied, nothing is refused. A patch is read as far as it can be, what
it holds beside its hunks is shown as a note, and a change that the patch leaves out is named in
words: who is asked to allow an edit sees all of it.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from twofold.convert.line_diff import hunks
from twofold.convert.patches import Operation, ShownFile, read_patch
from twofold.text.safe import one_line, sanitize
from twofold.wire import v2

DiffLineKind: TypeAlias = Literal["file", "hunk", "added", "removed", "context", "note"]
AnyDiff: TypeAlias = v2.Diff | v2.JulyDiff | v2.JuneDiff


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff, safe to show; the sign of a changed line is its `kind`."""

    kind: DiffLineKind
    text: str


def relative(path: str, cwd: str | None) -> str:
    """The path as it is shown: relative to the directory `cwd` if it is inside of it."""
    base = (cwd or "").rstrip("/")
    inside = (
        path.removeprefix(f"{base}/").lstrip("/") if base and path.startswith(f"{base}/") else ""
    )
    return path if not inside or ".." in inside.split("/") else inside


def diff_lines(diff: AnyDiff, cwd: str | None = None) -> list[DiffLine]:
    """What to show of a diff, whichever draft wrote it.

    Args:
        diff: The diff.
        cwd: The directory of the session: paths inside of it are shown relative to it.
    """
    match diff:
        case v2.JuneDiff():
            return _compared(relative(diff.path, cwd), diff.old_text, diff.new_text)
        case v2.JulyDiff():
            return _patched(diff.changes, diff.patch.format, diff.patch.diff, cwd)
        case v2.Diff(patch=v2.DiffPatch() as patch):
            return _patched(diff.changes, patch.format, patch.text, cwd)
        case _:
            return [_named(change, cwd) for change in diff.changes]


def _patched(
    changes: list[v2.DiffChange], written: str, text: str, cwd: str | None
) -> list[DiffLine]:
    """The files of the patch, each under the name its change gives it; then the other changes."""
    if written != "git_patch":
        lines = [_named(change, cwd) for change in changes]
        lines.append(DiffLine("note", f"a patch of the format {one_line(written)}:"))
        return lines + [_line("context", line) for line in _split(text)]
    files = read_patch(text)
    left = dict(enumerate(changes))
    places = {path: place for place, change in left.items() for path in _paths(change)}
    lines = []
    for place, file in enumerate(files):
        change = None
        for candidate in (places.get(file.path, -1), place):
            if candidate in left and _speaks_of(file.path, left[candidate]):
                change = left.pop(candidate)
                break
        lines += _shown(file, change, cwd)
    return lines + [_named(change, cwd) for change in left.values()]


def _line(kind: DiffLineKind, text: str) -> DiffLine:
    return DiffLine(kind, sanitize(text))


def _split(text: str) -> list[str]:
    """Lines end at a newline and nowhere else; what follows the last one is no line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


# ---- changes in words ----------------------------------------------------------------------

_WORDS: dict[type, str] = {
    v2.DiffAdd: "new file",
    v2.DiffDelete: "deleted",
    v2.DiffModify: "modified",
    v2.DiffMove: "moved",
    v2.DiffCopy: "copied",
}


def _paths(change: v2.DiffChange) -> tuple[str, ...]:
    return () if isinstance(change, v2.UnknownDiffChange) else (change.path,)


def _speaks_of(path: str, change: v2.DiffChange) -> bool:
    """Whether a path of a patch, which may be relative, is that of the change."""
    relative = path.lstrip("/")
    return bool(relative) and any(
        own == path or own.endswith(f"/{relative}") for own in _paths(change)
    )


def _name(change: v2.DiffChange, cwd: str | None) -> str:
    match change:
        case v2.UnknownDiffChange():
            named = change.raw.fields.get("path")
            return one_line(relative(named, cwd)) if isinstance(named, str) else "a file"
        case v2.DiffMove() | v2.DiffCopy():
            old = one_line(relative(change.old_path, cwd))
            return f"{old} → {one_line(relative(change.path, cwd))}"
        case _:
            return one_line(relative(change.path, cwd))


def _words(change: v2.DiffChange) -> list[str]:
    if isinstance(change, v2.UnknownDiffChange):
        return [one_line(change.tag)]
    words = [word for shape, word in _WORDS.items() if isinstance(change, shape)]
    if change.file_type and change.file_type != "text":
        words.append(one_line(change.file_type))
    return words


def _file(name: str, words: list[str]) -> DiffLine:
    facts = ", ".join(dict.fromkeys(words))
    return DiffLine("file", f"{name} ({facts})" if facts else name)


def _named(change: v2.DiffChange, cwd: str | None) -> DiffLine:
    """A change of which nothing else is known."""
    return _file(_name(change, cwd), _words(change))


# ---- patches -------------------------------------------------------------------------------

_OPERATIONS: dict[Operation, str] = {
    "add": "new file",
    "delete": "deleted",
    "move": "moved",
    "copy": "copied",
}


def _shown(file: ShownFile, change: v2.DiffChange | None, cwd: str | None) -> list[DiffLine]:
    """The lines of a file under its name; without a name they are prose around the files."""
    facts = [_OPERATIONS[each] for each in file.operations if each in _OPERATIONS]
    facts += ["binary"] if file.binary else []
    lines = [_line(kind, text) for kind, text in file.lines]
    _settle_ends(lines, file.unended, is_whole=bool({"new file", "deleted"} & {*facts}))
    if change is not None:
        words = _words(change)
        if isinstance(change, v2.DiffModify) and lines:
            words.remove("modified")  # which the lines show
        return [_file(_name(change, cwd), words + facts), *lines]
    if not file.path:
        return lines
    pair = facts and facts[0] in ("moved", "copied") and file.old and file.new
    old, new, path = (one_line(relative(each, cwd)) for each in (file.old, file.new, file.path))
    return [_file(f"{old} → {new}" if pair else path, facts), *lines]


def _settle_ends(lines: list[DiffLine], unended: list[int], *, is_whole: bool) -> None:
    """Mention a missing newline only where that is a difference, and once.

    Texts that both end without one may be pieces of a file, whose end is not known.
    """
    before = {lines[place - 1].kind for place in unended if place}
    differ = len(before) == 1 and before <= {"added", "removed"}
    if differ and not is_whole:
        lines[unended[0]] = DiffLine("note", "no newline at the end")
    for place in reversed(unended[1:] if differ else unended):
        del lines[place]


# ---- two texts -----------------------------------------------------------------------------


def _compared(path: str, before: object, after: str) -> list[DiffLine]:
    """A diff as June 2026 wrote it: the file before (if there was one) and after."""
    name = one_line(path)
    new = _split(after)
    if not isinstance(before, str):
        return [_file(name, ["new file"]), *(_line("added", line) for line in new)]
    old = _split(before)
    if old == new:
        what = "no change" if before == after else "only the newline at the end of the file changed"
        return [_file(name, []), DiffLine("note", what)]
    return [_file(name, []), *_hunks(old, new)]


def _hunks(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    for hunk in hunks(old, new):
        yield DiffLine("hunk", hunk.header)
        at = hunk.old
        for change in hunk.changes:
            yield from _context(old[at : change.old])
            yield from (_line("removed", line) for line in old[change.old : change.old_end])
            yield from (_line("added", line) for line in new[change.new : change.new_end])
            at = change.old_end
        yield from _context(old[at : hunk.old_end])


def _context(lines: list[str]) -> Iterator[DiffLine]:
    return (_line("context", line.removesuffix("\r")) for line in lines)


# Which words of a changed line changed.
#
# For eyes only, and only where it helps: two lines that have little in common are simply two lines,
# and nothing in them is marked. The cost of a pair of lines is bounded, whatever is in them.


Range: TypeAlias = tuple[int, int]
"""Where something begins in a line and where it ends."""
_Change: TypeAlias = tuple[int, int, int, int]  # of the old line, of the new one

_LONGEST: Final = 400  # characters of a line whose words are compared
_MOST_WORDS: Final = 80  # tokens; comparing costs the square of them, and with ill will more
_COMMON: Final = 0.4  # so much of both lines must be the same, or nothing is marked
_ALIGNED: Final = 24  # lines of a run; of more the first goes with the first, and so on
_ALIKE: Final = 0.25  # so many of the words of both lines must be the same for a pair

# Words, numbers, runs of blanks, single signs; accents and joined emoji are never cut off.
_TOKEN = re.compile(
    r"(?:[^\W\d]\w*+|\d++|\s++|.)(?:[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f]|\u200d.)*+", re.DOTALL
)
_WORD = re.compile(r"\w+")


def changed_words(old: str, new: str) -> tuple[list[Range], list[Range]]:
    """What changed in the old line, and what in the new one; no ranges if too much did.

    Without their ranges the two lines are the same.
    """
    changes = _joined(old, list(_changes(old, new)))
    kept = _weight(old) - sum([_weight(old[i:i_end]) for i, i_end, _, _ in changes])
    if 2 * kept < _COMMON * (_weight(old) + _weight(new)):
        return [], []
    return (
        [(i, i_end) for i, i_end, _, _ in changes if i < i_end],
        [(j, j_end) for _, _, j, j_end in changes if j < j_end],
    )


def _weight(text: str) -> int:
    """How much there is to see."""
    return len(text) - text.count(" ") - text.count("\t")


def _changes(old: str, new: str) -> Iterator[_Change]:
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    head = _agreeing_words(a, b)
    tail = _agreeing_words(a[head:][::-1], b[head:][::-1])
    i = j = sum(map(len, a[:head]))
    a, b = a[head : len(a) - tail], b[head : len(b) - tail]
    steps: Sequence[tuple[str, int, int, int, int]]
    if max(len(old), len(new)) > _LONGEST or max(len(a), len(b)) > _MOST_WORDS:
        steps = [("replace", 0, len(a), 0, len(b))]
    else:
        steps = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for tag, at, end, new_at, new_end in steps:
        i_end, j_end = i + sum(map(len, a[at:end])), j + sum(map(len, b[new_at:new_end]))
        if tag != "equal" and (i < i_end or j < j_end):
            yield i, i_end, j, j_end
        i, j = i_end, j_end


def _agreeing_words(a: list[str], b: list[str]) -> int:
    for count, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return count
    return min(len(a), len(b))


def _joined(old: str, changes: list[_Change]) -> list[_Change]:
    """The changes, those with nothing but blanks between them as one."""
    made: list[_Change] = []
    for change in changes:
        if made and not old[made[-1][1] : change[0]].strip():
            i, _, j, _ = made[-1]
            made[-1] = (i, change[1], j, change[3])
        else:
            made.append(change)
    return made


# ---- which line became which ------------------------------------------------------------------


def pairs(lines: Sequence[DiffLine]) -> list[tuple[int, int]]:
    """The removed lines and the added ones that they became, by their places, in order.

    Only lines of one run are paired: removed lines and the added ones that follow them.
    """
    made: list[tuple[int, int]] = []
    removed: list[int] = []
    added: list[int] = []
    for place, line in enumerate(lines):
        if line.kind == "note":  # "\ No newline at end of file" parts nothing
            continue
        if line.kind == "added":
            added.append(place)
            continue
        if added or line.kind != "removed":
            made += _paired(lines, removed, added)
            removed, added = [], []
        if line.kind == "removed":
            removed.append(place)
    return made + _paired(lines, removed, added)


def _paired(
    lines: Sequence[DiffLine], removed: list[int], added: list[int]
) -> list[tuple[int, int]]:
    if len(removed) == len(added) or max(len(removed), len(added)) > _ALIGNED:
        return list(zip(removed, added, strict=False))
    if not removed or not added:
        return []
    olds = [set(_WORD.findall(lines[place].text[:_LONGEST])) for place in removed]
    news = [set(_WORD.findall(lines[place].text[:_LONGEST])) for place in added]
    return [(removed[i], added[j]) for i, j in _aligned(olds, news)]


def _aligned(olds: list[set[str]], news: list[set[str]]) -> list[tuple[int, int]]:
    """The pairs, none crossing another, that have most in common taken together."""
    alike = [[_alike(old, new) for new in news] for old in olds]
    best = [[0.0] * (len(news) + 1) for _ in range(len(olds) + 1)]
    for i in reversed(range(len(olds))):
        for j in reversed(range(len(news))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], alike[i][j] + best[i + 1][j + 1])
    made: list[tuple[int, int]] = []
    i = j = 0
    while i < len(olds) and j < len(news):
        if alike[i][j] and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            made.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return made


def _alike(old: set[str], new: set[str]) -> float:
    share = len(old & new) / max(1, len(old | new))
    return share if share >= _ALIKE else 0.0
