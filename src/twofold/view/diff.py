"""A diff as lines to show, each with what it is.

For eyes only: nothing is applied, nothing is refused. A patch is read as far as it can be, what
it says beside its hunks is shown as a note, and a change that the patch leaves out is told in
words: who is asked to allow an edit sees all of it.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from twofold.text.safe import one_line, sanitize
from twofold.wire import v2

DiffLineKind: TypeAlias = Literal["file", "hunk", "added", "removed", "context", "note"]
AnyDiff: TypeAlias = v2.Diff | v2.JulyDiff | v2.JuneDiff

_CONTEXT = 3
# Comparing costs up to the square of the lines (difflib): of more, all old go and all new come.
_COMPARED = 1500


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff, safe to show; the sign of a changed line is its `kind`."""

    kind: DiffLineKind
    text: str


def diff_lines(diff: AnyDiff) -> list[DiffLine]:
    """What to show of a diff, whichever draft wrote it."""
    match diff:
        case v2.JuneDiff():
            return _compared(diff.path, diff.old_text, diff.new_text)
        case v2.JulyDiff():
            return _patched(diff.changes, diff.patch.format, diff.patch.diff)
        case v2.Diff(patch=v2.DiffPatch() as patch):
            return _patched(diff.changes, patch.format, patch.text)
        case _:
            return [_told(change) for change in diff.changes]


def _patched(changes: list[v2.DiffChange], written: str, text: str) -> list[DiffLine]:
    """The files of the patch, each under the name its change gives it; then the other changes."""
    if written != "git_patch":
        lines = [_told(change) for change in changes]
        lines.append(DiffLine("note", f"a patch of the format {one_line(written)}:"))
        return lines + [_line("context", line) for line in _split(text)]
    files = [file for file in _Reader(text).files() if file.lines or file.named]
    left = dict(enumerate(changes))
    places = {path: place for place, change in left.items() for path in _paths(change)}
    lines = []
    for place, file in enumerate(files):
        change = None
        for candidate in (places.get(file.path, -1), place):
            if candidate in left and _speaks_of(file.path, left[candidate]):
                change = left.pop(candidate)
                break
        lines += file.shown(change)
    return lines + [_told(change) for change in left.values()]


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


def _name(change: v2.DiffChange) -> str:
    match change:
        case v2.UnknownDiffChange():
            named = change.raw.fields.get("path")
            return one_line(named) if isinstance(named, str) else "a file"
        case v2.DiffMove() | v2.DiffCopy():
            return f"{one_line(change.old_path)} → {one_line(change.path)}"
        case _:
            return one_line(change.path)


def _words(change: v2.DiffChange) -> list[str]:
    if isinstance(change, v2.UnknownDiffChange):
        return [one_line(change.tag)]
    words = [word for shape, word in _WORDS.items() if isinstance(change, shape)]
    if change.file_type and change.file_type != "text":
        words.append(one_line(change.file_type))
    return words


def _file(name: str, words: list[str]) -> DiffLine:
    said = ", ".join(dict.fromkeys(words))
    return DiffLine("file", f"{name} ({said})" if said else name)


def _told(change: v2.DiffChange) -> DiffLine:
    """A change nothing else is known of."""
    return _file(_name(change), _words(change))


# ---- patches -------------------------------------------------------------------------------

_HUNK = re.compile(r"@@+ -[0-9]+(?:,([0-9]{1,9}))? \+[0-9]+(?:,([0-9]{1,9}))? @@")
_KINDS: dict[str, DiffLineKind] = {
    "+": "added",
    "-": "removed",
    " ": "context",
    "": "context",  # some editors strip the space of an empty line
    "\\": "note",  # "\ No newline at end of file"
}
_NO_NEWLINE = "\\ No newline at end of file"
_BINARY_DATA = re.compile(r"(?:literal|delta) [0-9]+|[A-Za-z][!-~]+|")
_HEADERS = {
    "new file mode": "new file",
    "deleted file mode": "deleted",
    "rename from": "moved",
    "rename to": "moved",
    "copy from": "copied",
    "copy to": "copied",
}
_HEADER = re.compile(f"({'|'.join(_HEADERS)}) (.*)")
_SILENT = ("index ", "similarity index ", "dissimilarity index ")


@dataclass(slots=True)
class _File:
    """What a patch says of one file."""

    old: str = ""
    new: str = ""
    words: list[str] = field(default_factory=list)
    lines: list[DiffLine] = field(default_factory=list)
    unended: list[int] = field(default_factory=list)
    """Where its lines say that one before has no newline."""
    labelled: bool = False
    hunks: bool = False
    binary: bool = False

    @property
    def path(self) -> str:
        return self.new or self.old

    @property
    def named(self) -> bool:
        return bool(self.path)

    def shown(self, change: v2.DiffChange | None) -> list[DiffLine]:
        """Its lines under its name; without a name they are prose around the files."""
        self._settle_ends()
        if change is not None:
            words = _words(change)
            if isinstance(change, v2.DiffModify) and self.lines:
                words.remove("modified")  # which the lines show
            return [_file(_name(change), words + self.words), *self.lines]
        if not self.named:
            return self.lines
        pair = self.words and self.words[0] in ("moved", "copied") and self.old and self.new
        name = f"{one_line(self.old)} → {one_line(self.new)}" if pair else one_line(self.path)
        return [_file(name, self.words), *self.lines]

    def _settle_ends(self) -> None:
        """Say that a newline is missing only where that is a difference, and once.

        Texts that both end without one may be pieces of a file, of whose end nobody knows.
        """
        before = {self.lines[place - 1].kind for place in self.unended if place}
        differ = len(before) == 1 and before <= {"added", "removed"}
        if differ and not {"new file", "deleted"} & set(self.words):
            self.lines[self.unended[0]] = DiffLine("note", "no newline at the end")
        for place in reversed(self.unended[1:] if differ else self.unended):
            del self.lines[place]
        self.unended = []

    def label(self, old: str, new: str) -> None:
        """Take the names of the `---` and `+++` lines."""
        self.labelled = True
        self.old, self.new = _sides(_label(old), _label(new))
        self.words += [word for side, word in ((old, "new file"), (new, "deleted")) if _no(side)]


class _Reader:
    """A walk down the lines of a patch."""

    def __init__(self, text: str) -> None:
        self._lines = _split(text)
        self._file = _File()
        self._found = [self._file]
        self._owed = [0, 0]  # lines the hunk still has to show, of the old side and of the new

    def files(self) -> list[_File]:
        for line, following in pairwise([*self._lines, ""]):
            if any(self._owed) and line[:1] in _KINDS:
                self._body(line)
            elif line.startswith("diff --git "):
                self._start()
                self._file.old, self._file.new = _git_names(line.removeprefix("diff --git "))
            elif line.startswith("--- ") and following.startswith("+++ "):
                if self._file.hunks or self._file.labelled or not self._file.named:
                    self._start()
                self._file.label(line[4:], following[4:])
            elif line.startswith("@@"):
                self._hunk(line)
            elif not self._header(line):
                self._other(line)
        return self._found

    def _start(self) -> None:
        self._file = _File()
        self._found.append(self._file)
        self._owed = [0, 0]

    def _hunk(self, line: str) -> None:
        counts = _HUNK.match(line)
        self._owed = [int(counts[1] or 1), int(counts[2] or 1)] if counts else [0, 0]
        self._file.hunks = True
        self._file.lines.append(_line("hunk", line.removesuffix("\r")))

    def _body(self, line: str) -> None:
        kind = _KINDS[line[:1]]
        if line.rstrip() == _NO_NEWLINE:
            self._file.unended.append(len(self._file.lines))
        # Like Git, show the CR that a changed line ends with: it may be all that changed.
        text = line[1:] if kind in ("added", "removed") else line[1:].removesuffix("\r")
        self._file.lines.append(_line(kind, text.strip() if kind == "note" else text))
        for side, kinds in enumerate((("context", "removed"), ("context", "added"))):
            if kind in kinds and self._owed[side]:
                self._owed[side] -= 1

    def _header(self, line: str) -> bool:
        """Read a line of the header of a file, if it is one."""
        file = self._file
        if file.hunks or not file.named:
            return False
        if line.startswith(_SILENT) or (file.labelled and line.startswith("+++ ")):
            return True
        header = _HEADER.match(line)
        if header:
            file.words.append(_HEADERS[header[1]])
            if header[1].endswith("from"):
                file.old = _label(header[2])
            elif header[1].endswith("to"):
                file.new = _label(header[2])
        return bool(header)

    def _other(self, line: str) -> None:
        file = self._file
        if file.hunks and line[:1] in _KINDS and line.strip():
            self._body(line)  # a line its hunk did not count: agents count badly
        elif line.startswith(("Binary files ", "GIT binary patch")):
            file.binary = True
            file.words.append("binary")
            if not file.named:
                file.lines.append(_line("note", line))
        elif line.strip() and not (file.binary and _BINARY_DATA.fullmatch(line)):
            file.lines.append(_line("note", line.removesuffix("\r")))


_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_ESCAPED = re.compile(rb"\\([0-3][0-7][0-7]|.)", re.DOTALL)
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _no(label: str) -> bool:
    return _label(label) == "/dev/null"


def _label(text: str) -> str:
    """A name as Git writes it: quoted if it is unusual, else ended by a TAB or the line."""
    quoted = _QUOTED.match(text)
    if not quoted:
        return text.partition("\t")[0].removesuffix("\r")
    raw = quoted[1].encode("utf-8", "surrogatepass")
    return _ESCAPED.sub(_unescaped, raw).decode("utf-8", "replace")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPES.get(code, code)


def _sides(old: str, new: str) -> tuple[str, str]:
    """The two names without Git's prefixes; a side that does not exist goes by the other."""
    if old == "/dev/null":
        old = "a/" + new.removeprefix("b/") if new.startswith("b/") else new
    if new == "/dev/null":
        new = "b/" + old.removeprefix("a/") if old.startswith("a/") else old
    if old.startswith("a/") and new.startswith("b/"):
        return old[2:], new[2:]
    return old, new


def _git_names(text: str) -> tuple[str, str]:
    """The names of a `diff --git` line, as far as it is clear where the first one ends."""
    text = text.removesuffix("\r")
    if first := _QUOTED.match(text):
        return _sides(_label(first[0]), _label(text[first.end() :].strip()))
    half = len(text) // 2
    old, new = _sides(text[:half], text[half + 1 :])
    if old == new and text[half : half + 1] == " ":
        return old, new
    first_name, _, second = text.partition(" ")
    return _sides(first_name, second) if " " not in second else (text, text)


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
    # Of long equal ends only the context is compared, or two long files would cost too much.
    head = _agreeing(old, new)
    tail = _agreeing(old[head:][::-1], new[head:][::-1])
    start = max(0, head - _CONTEXT)
    a = old[start : len(old) - max(0, tail - _CONTEXT)]
    b = new[start : len(new) - max(0, tail - _CONTEXT)]
    for group in _groups(a, b, head - start, min(tail, _CONTEXT)):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        spans = (_span(start + i, i_end - i), _span(start + j, j_end - j))
        yield DiffLine("hunk", f"@@ -{spans[0]} +{spans[1]} @@")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (_line("context", line.removesuffix("\r")) for line in a[i:i_end])
            else:
                yield from (_line("removed", line) for line in a[i:i_end])
                yield from (_line("added", line) for line in b[j:j_end])


_Step: TypeAlias = tuple[str, int, int, int, int]


def _groups(a: list[str], b: list[str], head: int, tail: int) -> list[list[_Step]]:
    if len(a) + len(b) <= 2 * _COMPARED:
        return [list(group) for group in difflib.SequenceMatcher(None, a, b).get_grouped_opcodes()]
    i, j = len(a) - tail, len(b) - tail
    steps: list[_Step] = [
        ("equal", 0, head, 0, head),
        ("replace", head, i, head, j),
        ("equal", i, len(a), j, len(b)),
    ]
    return [steps]


def _agreeing(a: list[str], b: list[str]) -> int:
    for count, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return count
    return min(len(a), len(b))


def _span(start: int, count: int) -> str:
    # as Git writes it: an empty range names the line before it
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


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
