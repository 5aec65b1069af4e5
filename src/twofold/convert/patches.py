"""File changes as Git patches: written from two texts, read back into pieces of text.

`git_patch` writes what v2 calls `git_patch`: Git's extended diff format with the
path as it is given (v2: absolute) and without the a/ and b/ prefixes.
`git apply --unsafe-paths -p0` takes it. `parse_patch` also reads what Git, diff(1)
and agents write: prefixes, renames, copies, binary files, quoted paths, plain
unified diffs, prose around them.

Nothing here touches a file or knows a working directory: a relative path stays
relative, and a patch is never applied. What cannot be understood is refused with
`BadPatch`, the only error any text can cause; reading costs as much as the text
is long. Lines end at a newline and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NoReturn

from twofold.convert.line_diff import Hunk, hunks
from twofold.errors import PeerError

Operation = Literal["add", "delete", "modify", "move", "copy"]

_NO_NEWLINE = "\\ No newline at end of file"
_DEV_NULL = "/dev/null"


class BadPatch(PeerError, ValueError):
    """A text is not a patch that Twofold can read.

    Attributes:
        line: The line of the text with the fault, from 1.
        reason: What is wrong with it.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch holds of one file; `old` and `new` hold the lines of its hunks only."""

    operation: Operation
    path: str
    old_path: str | None = None  # of a move or copy
    binary: bool = False
    old: str | None = None  # None: there was no file, or nothing of it is shown
    new: str | None = None


# --- Writing ---


def git_patch(path: str, old: str | None, new: str | None) -> str:
    """The patch that turns `old` into `new`; None is no file, equal texts give ""."""
    if old == new:
        return ""
    name = _quoted(path)
    parts = [f"diff --git {name} {name}\n"]
    if old is None:
        parts.append("new file mode 100644\n")
    elif new is None:
        parts.append("deleted file mode 100644\n")
    label = f"{name}\t" if " " in name else name  # Git: a TAB ends a name with spaces
    # Git itself leaves these out for an empty file, but needs them to apply an absolute path.
    parts.append(f"--- {_DEV_NULL if old is None else label}\n")
    parts.append(f"+++ {_DEV_NULL if new is None else label}\n")
    old_lines, new_lines = _lines(old or ""), _lines(new or "")
    for hunk in hunks(old_lines, new_lines):
        parts += _hunk(hunk, old_lines, new_lines)
    return "".join(parts)


def _lines(text: str) -> list[str]:
    """The lines of a text, a missing last newline shown as a patch shows it."""
    lines = text.split("\n")
    if lines[-1]:
        # No other line holds a newline, so this one is unlike its like that has its newline.
        lines[-1] += f"\n{_NO_NEWLINE}"
    else:
        lines.pop()
    return lines


def _hunk(hunk: Hunk, old: list[str], new: list[str]) -> list[str]:
    """A hunk, in parts to be joined."""
    parts = [f"{hunk.header}\n"]
    at = hunk.old
    for change in hunk.changes:
        parts.append(_signed(" ", old[at : change.old]))
        parts.append(_signed("-", old[change.old : change.old_end]))
        parts.append(_signed("+", new[change.new : change.new_end]))
        at = change.old_end
    parts.append(_signed(" ", old[at : hunk.old_end]))
    return parts


def _signed(sign: str, lines: list[str]) -> str:
    return sign + f"\n{sign}".join(lines) + "\n" if lines else ""


# --- Quoting, as Git does with core.quotePath ---

_ESCAPES = {
    7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"
}  # fmt: skip
_UNESCAPES = {ord(escape[1]): bytes([byte]) for byte, escape in _ESCAPES.items()}
_TO_QUOTE = re.compile(r"[^ !#-\[\]-~]")
_ESCAPED = re.compile(rb"\\([0-3][0-7][0-7]|.)", re.DOTALL)
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)


def _quoted(path: str) -> str:
    if not _TO_QUOTE.search(path):
        return path
    # JSON can hold half a surrogate pair, although no file has such a name.
    return '"' + "".join(map(_escaped, path.encode("utf-8", "surrogatepass"))) + '"'


def _escaped(byte: int) -> str:
    return _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _UNESCAPES[code[0]]


def _name(text: str) -> str:
    """The name that a line gives a file; ValueError with the reason if there is none to be read."""
    if not text.startswith('"'):
        return text.partition("\t")[0]  # a TAB ends a name, a date may follow
    match = _QUOTED.match(text)
    if not match:
        raise ValueError("a quote is not closed")
    try:
        raw = match[1].encode("utf-8", "surrogatepass")
        return _ESCAPED.sub(_unescaped, raw).decode("utf-8")
    except (UnicodeDecodeError, KeyError):
        # Bytes that are not UTF-8 have no place in JSON: better no path than another one.
        raise ValueError("a quoted path that cannot be read") from None


def _git_names(text: str) -> tuple[str, str] | None:
    """The names of a `diff --git` line, if it is clear where the first one ends."""
    if match := _QUOTED.match(text):
        return _name(match[0]), _name(text[match.end() :].removeprefix(" "))
    if text.endswith('"') and ' "' in text:
        first, _, second = text.partition(' "')
        return first, _name(f'"{second}')
    # Names may hold spaces, but unless the file moved (which other lines show) they are equal.
    half = len(text) // 2
    first, space, second = text[:half], text[half : half + 1], text[half + 1 :]
    if space == " " and len(set(_without_prefixes(first, second))) == 1:
        return first, second
    first, _, second = text.partition(" ")
    return (first, second) if second and " " not in second else None


# --- Reading, to convert ---


def parse_patch(text: str) -> list[FilePatch]:
    """The files a patch speaks of, in its order; none if it is blank."""
    return _Reader(text).files()


_HUNK = re.compile(r"@@ -[0-9]{1,18}(?:,([0-9]{1,18}))? \+[0-9]{1,18}(?:,([0-9]{1,18}))? @@")
_BINARY = re.compile(r"(?:literal|delta) [0-9]+|[A-Za-z][!-~]+|")

# Extended header lines that say what happened, and those that say nothing of paths or text.
_OPERATIONS: dict[str, Operation] = {
    "new file mode ": "add",
    "deleted file mode ": "delete",
    "rename from ": "move",
    "rename to ": "move",
    "copy from ": "copy",
    "copy to ": "copy",
}
_NOT_SHOWN = ("index ", "similarity index ", "dissimilarity index ")
_SILENT = ("old mode ", "new mode ", *_NOT_SHOWN)

# Git's prefixes of the two sides: the usual ones and those of diff.mnemonicPrefix.
_PREFIXES = {"ab", "iw", "ci", "cw", "ow", "12"}


@dataclass(slots=True)
class _Side:
    """One side of a file's hunks."""

    lines: list[str] = field(default_factory=list)
    owed: int = 0  # lines the current hunk still has to show
    ended: bool = False  # without a newline: no line can follow


@dataclass(slots=True)
class _File:
    """What has been read of one file."""

    line: int
    operation: Operation | None = None
    names: tuple[str, str] | None = None  # old and new, as written
    moved_from: str | None = None
    moved_to: str | None = None
    binary: bool = False
    hunks: int = 0
    old: _Side = field(default_factory=_Side)
    new: _Side = field(default_factory=_Side)


class _Reader:
    """A walk down the lines of a patch; every method leaves `_at` at the first line not its own."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if not self._lines[-1]:
            self._lines.pop()  # what follows the last newline is no line
        self._at = 0

    def files(self) -> list[FilePatch]:
        found: list[FilePatch] = []
        prose = True
        while self._at < len(self._lines):
            line = self._line()
            git = line.startswith("diff --git ")
            if git or self._at_labels() or _is_binary(line):
                file = _File(self._at + 1)
                if git:
                    self._git_header(file)
                self._body(file)
                found.append(self._finished(file))
                prose = False
            else:
                prose = self._skip(line, prose)
        if not found and any(map(str.strip, self._lines)):
            self._fail("there is no diff in it")
        return found

    def _line(self, ahead: int = 0) -> str:
        """A line outside the hunks, or "" after the last."""
        at = self._at + ahead
        # Git quotes a name with a CR, so that one at the end was added on the way.
        return self._lines[at].removesuffix("\r") if at < len(self._lines) else ""

    def _at_labels(self) -> bool:
        return self._line().startswith("--- ") and self._line(1).startswith("+++ ")

    def _fail(self, reason: str, line: int | None = None) -> NoReturn:
        raise BadPatch(line or self._at + 1, reason)

    def _skip(self, line: str, prose: bool) -> bool:
        """Pass a line that belongs to no file; returns whether prose may follow."""
        if line.startswith(("diff --cc ", "diff --combined ")):
            self._fail("a combined diff does not have two sides")
        if line.startswith("@@ -"):
            self._fail("a hunk without a file")
        # Next to a hunk this is a line its header did not count, and must not get lost; further
        # on it is part of a commit message. "-- " is how a mailed patch starts its signature.
        if not prose and line.startswith(("+", "-", " ", "\\")) and line != "-- ":
            self._fail("a line outside of any hunk")
        self._at += 1
        return prose or bool(line.strip())

    def _git_header(self, file: _File) -> None:
        try:
            names = _git_names(self._line().removeprefix("diff --git "))
        except ValueError as error:
            self._fail(str(error))
        if names:
            self._name_sides(file, *names)
        self._at += 1
        while line := self._line():
            for start, operation in _OPERATIONS.items():
                if line.startswith(start):
                    self._set_operation(file, operation)
                    if start.endswith("from "):
                        file.moved_from = self._name(line.removeprefix(start))
                    elif start.endswith("to "):
                        file.moved_to = self._name(line.removeprefix(start))
                    break
            else:
                if not line.startswith(_SILENT):
                    return
            self._at += 1

    def _name(self, text: str) -> str:
        try:
            return _name(text)
        except ValueError as error:
            self._fail(str(error))

    def _name_sides(self, file: _File, old: str, new: str) -> None:
        file.names = file.names or (old, new)
        if old == _DEV_NULL:
            self._set_operation(file, "add")
        if new == _DEV_NULL:
            self._set_operation(file, "delete")

    def _set_operation(self, file: _File, operation: Operation) -> None:
        if file.operation not in (None, operation):
            self._fail(f"{operation} and {file.operation} of one file")
        file.operation = operation

    def _body(self, file: _File) -> None:
        """Read what follows the header lines: hunks, a binary notice or patch, or nothing."""
        line = self._line()
        if _is_binary(line):
            old, _, new = line[len("Binary files ") : -len(" differ")].partition(" and ")
            if not file.names and new and " and " not in new:
                self._name_sides(file, self._name(old), self._name(new))
            file.binary = True
            self._at += 1
        elif line == "GIT binary patch":
            self._at += 1
            if not self._line().startswith(("literal ", "delta ")):
                self._fail("a binary patch without data")
            while self._at < len(self._lines) and _BINARY.fullmatch(self._line()):
                self._at += 1
            file.binary = True
        else:
            if labels := self._at_labels():
                self._name_sides(file, self._name(line[4:]), self._name(self._line(1)[4:]))
                self._at += 2
            while self._line().startswith("@@ -"):
                self._hunk(file)
            if labels and not file.hunks and not file.operation:
                self._fail("a file without a hunk")

    def _hunk(self, file: _File) -> None:
        counts = _HUNK.match(self._line())
        if not counts:
            self._fail("a hunk header that cannot be read")
        old, new = file.old, file.new
        old.owed, new.owed = int(counts[1] or 1), int(counts[2] or 1)
        # Some editors strip the space of an empty line; Git reads it all the same.
        sides_of = {" ": (old, new), "": (old, new), "-": (old,), "+": (new,)}
        sides: tuple[_Side, ...] = ()
        file.hunks += 1
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("\\"):  # the words after it depend on the language
                if not sides:
                    self._fail("a missing newline, but no line that misses it")
                for side in sides:
                    side.lines[-1] = side.lines[-1][:-1]
                    side.ended = True
                sides = ()
            elif not old.owed and not new.owed:
                return
            else:
                sides = sides_of.get(line[:1], ())
                if not sides:
                    self._fail("not a line of a hunk")
                for side in sides:
                    if side.ended or not side.owed:
                        self._fail("a line past the end of its hunk or file")
                    side.owed -= 1
                    side.lines.append(f"{line[1:]}\n")
            self._at += 1
        if old.owed or new.owed:
            self._fail("the patch ends inside a hunk")

    def _finished(self, file: _File) -> FilePatch:
        operation = file.operation or "modify"
        old_path = None
        if operation in ("move", "copy"):
            path, old_path = file.moved_to, file.moved_from
        elif file.names:
            path = _without_prefixes(*file.names)[0 if operation == "delete" else 1]
        else:
            path = None
        if not path or (operation in ("move", "copy") and not old_path):
            self._fail("the path is missing or cannot be told", file.line)
        if (operation == "add" and file.old.lines) or (operation == "delete" and file.new.lines):
            self._fail("lines of a file that does not exist", file.line)
        shown = not file.binary and (file.hunks or operation in ("add", "delete"))
        old = "".join(file.old.lines) if shown and operation != "add" else None
        new = "".join(file.new.lines) if shown and operation != "delete" else None
        return FilePatch(operation, path, old_path, file.binary, old, new)


def _is_binary(line: str) -> bool:
    return line.startswith("Binary files ") and line.endswith(" differ")


def _without_prefixes(old: str, new: str) -> tuple[str, str]:
    """The names without Git's prefixes, if both sides have them.

    What remains is relative where Git wrote it: it drops the first "/" of an absolute path. In
    `a//home/x` somebody put the prefix before an absolute path, so it is taken off there too.
    """
    if old == _DEV_NULL:
        return old, new.removeprefix("b/")
    if new == _DEV_NULL:
        return old.removeprefix("a/"), new
    prefixes = old[:1] + new[:1]
    known = prefixes in _PREFIXES or prefixes[::-1] in _PREFIXES  # -R swaps them
    return (old[2:], new[2:]) if known and old[1:2] == new[1:2] == "/" else (old, new)


# --- Reading, to show ---
#
# Who is asked to allow an edit must see all of it, also of a patch that nobody could apply: so this
# reader refuses nothing, counts forgivingly and keeps every line, where the one above refuses what
# it would have to guess. Both read names, headers and operations by the same rules.

PatchLineKind = Literal["hunk", "added", "removed", "context", "note"]

_SIGNS: dict[str, PatchLineKind] = {
    "+": "added",
    "-": "removed",
    " ": "context",
    "": "context",  # some editors strip the space of an empty line
    "\\": "note",  # "\\ No newline at end of file"
}
_LOOSE_HUNK = re.compile(r"@@+ -[0-9]+(?:,([0-9]{1,9}))? \+[0-9]+(?:,([0-9]{1,9}))? @@")


@dataclass(slots=True)
class ShownFile:
    """What a patch has of one file, line by line; without a name it is prose around the files."""

    old: str = ""
    new: str = ""
    operations: list[Operation] = field(default_factory=list)
    binary: bool = False
    lines: list[tuple[PatchLineKind, str]] = field(default_factory=list)
    unended: list[int] = field(default_factory=list)
    """Which lines say that the one before has no newline."""

    @property
    def path(self) -> str:
        """Its name after the change, or before it if there is none after."""
        return self.new or self.old


def read_patch(text: str) -> list[ShownFile]:
    """Every line of a patch, by file, in its order; nothing is refused."""
    return _LooseReader(text).files()


class _LooseReader:
    """A walk down the lines of a patch."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if not self._lines[-1]:
            self._lines.pop()
        self._found: list[ShownFile] = []
        self._start()

    def files(self) -> list[ShownFile]:
        for line, following in pairwise([*self._lines, ""]):
            if any(self._owed) and line[:1] in _SIGNS:
                self._body(line)
            elif line.startswith("diff --git "):
                self._start()
                self._file.old, self._file.new = _shown_names(line.removeprefix("diff --git "))
            elif line.startswith("--- ") and following.startswith("+++ "):
                if self._in_hunks or self._labelled or not self._file.path:
                    self._start()
                self._label(line[4:], following[4:])
            elif line.startswith("@@"):
                self._hunk(line)
            elif not self._header(line):
                self._other(line)
        return [file for file in self._found if file.lines or file.path]

    def _start(self) -> None:
        self._file = ShownFile()
        self._found.append(self._file)
        self._labelled = self._in_hunks = False
        self._owed = [0, 0]  # lines the hunk still has to show, of the old side and of the new

    def _label(self, old: str, new: str) -> None:
        """Take the names of the `---` and `+++` lines."""
        file, sides = self._file, (_shown_name(old), _shown_name(new))
        self._labelled = True
        file.old, file.new = _shown_sides(*sides)
        file.operations += ["add"] if sides[0] == _DEV_NULL else []
        file.operations += ["delete"] if sides[1] == _DEV_NULL else []

    def _hunk(self, line: str) -> None:
        counts = _LOOSE_HUNK.match(line)
        self._owed = [int(counts[1] or 1), int(counts[2] or 1)] if counts else [0, 0]
        self._in_hunks = True
        self._file.lines.append(("hunk", line.removesuffix("\r")))

    def _body(self, line: str) -> None:
        kind = _SIGNS[line[:1]]
        if line.rstrip() == _NO_NEWLINE:
            self._file.unended.append(len(self._file.lines))
        # Like Git, show the CR that a changed line ends with: it may be all that changed.
        text = line[1:] if kind in ("added", "removed") else line[1:].removesuffix("\r")
        self._file.lines.append((kind, text.strip() if kind == "note" else text))
        for side, kinds in enumerate((("context", "removed"), ("context", "added"))):
            if kind in kinds and self._owed[side]:
                self._owed[side] -= 1

    def _header(self, line: str) -> bool:
        """Read a line of the header of a file, if it is one."""
        file = self._file
        if self._in_hunks or not file.path:
            return False
        if line.startswith(_NOT_SHOWN) or (self._labelled and line.startswith("+++ ")):
            return True
        for start, operation in _OPERATIONS.items():
            if line.startswith(start):
                file.operations.append(operation)
                if start.endswith("from "):
                    file.old = _shown_name(line.removeprefix(start))
                elif start.endswith("to "):
                    file.new = _shown_name(line.removeprefix(start))
                return True
        return False

    def _other(self, line: str) -> None:
        file = self._file
        if self._in_hunks and line[:1] in _SIGNS and line.strip():
            self._body(line)  # a line its hunk did not count: agents count badly
        elif line.startswith(("Binary files ", "GIT binary patch")):
            file.binary = True
            if not file.path:
                file.lines.append(("note", line))
        elif line.strip() and not (file.binary and _BINARY.fullmatch(line)):
            file.lines.append(("note", line.removesuffix("\r")))


def _shown_name(text: str) -> str:
    """A name; one that cannot be read as it is written."""
    try:
        return _name(text).removesuffix("\r")
    except ValueError:
        return text


def _shown_sides(old: str, new: str) -> tuple[str, str]:
    """Both names without prefixes; a side that does not exist goes by the name of the other."""
    old, new = _without_prefixes(old, new)
    return (new if old == _DEV_NULL else old), (old if new == _DEV_NULL else new)


def _shown_names(text: str) -> tuple[str, str]:
    text = text.removesuffix("\r")
    try:
        return _shown_sides(*(_git_names(text) or (text, text)))
    except ValueError:
        return text, text
