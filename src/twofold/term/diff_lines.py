"""A diff on the screen: signs, colours, and the words that changed.

Signs mark what is added and what is removed, so that a diff can be read without colours, and a row
that continues a long line never begins with one. Nothing has a background of its own. The text is
unchanged; where lines or the rest of a line are folded away, a line counts them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from twofold.styled.code import Highlighter
from twofold.term.lines import AnyStyle, Drawable, Line, Parts, Row, all_rows, cells
from twofold.view.blocks import DiffItem
from twofold.view.diff import DiffLine, DiffLineKind, Range, changed_words, pairs

SIGNS: Final[dict[DiffLineKind, str]] = {"added": "+", "removed": "-", "context": " "}
# What is gone is red throughout. What is new is green where the code has no colour of its own.
STYLES: Final[dict[DiffLineKind, str]] = {
    "file": "bold",
    "hunk": "cyan",
    "added": "green",
    "removed": "red",
    "context": "dim",
    "note": "dim italic",
}
CHANGED: Final = "reverse"
"""How a changed word is marked in its line: the one way that works on every terminal."""
LONGEST_FOLDED: Final = 1_000
"""Of a longer line only so many characters are shown, where there is folding at all."""

SIDE_BY_SIDE: Final = 140
"""Where there are so many columns, the old lines are beside the new ones."""
_BETWEEN: Final[Parts] = ((" │ ", "dim"),)

_FACTS = re.compile(r" \([a-z, ]*\)$")  # what the name of a file is followed by: `(new file)`


def diff_lines(item: DiffItem, *, fold: int | None) -> list[Drawable]:
    """The lines of a diff, at most `fold` of them, the one that counts the others included.

    None: all of them, however long they are.
    """
    shown, hidden = item.lines, item.lines[:0]
    if fold is not None and len(item.lines) > fold:
        shown, hidden = item.lines[: max(0, fold - 1)], item.lines[max(0, fold - 1) :]
    longest = None if fold is None else LONGEST_FOLDED
    marked = _marked(shown)
    made: list[Drawable] = [
        _drawn(line, parts, marked.get(place, []), longest)
        for place, (line, parts) in enumerate(zip(shown, _coloured(shown), strict=True))
    ]
    if hidden:
        made.append(Line(((_counted(hidden), "dim"),)))
    return made


@dataclass(frozen=True, slots=True)
class DiffRows:
    """A diff that is laid out for the width: on a wide screen, the old lines beside the new ones.

    What is only added or only removed has nothing to be compared with, and is one column.
    """

    item: DiffItem
    fold: int | None = None

    def rows(self, width: int | None) -> list[Row]:
        kinds = {line.kind for line in self.item.lines}
        lines = diff_lines(self.item, fold=self.fold)
        if width is None or width < SIDE_BY_SIDE or not kinds >= {"added", "removed"}:
            return all_rows(lines, width)
        half = (width - cells(_BETWEEN)) // 2
        # where something is folded away, the last line counts it and is no line of the diff
        folded = self.fold is not None and len(self.item.lines) > self.fold
        shown = len(lines) - folded
        made: list[Row] = []
        for left, right in _columns(self.item.lines[:shown]):
            if left is not None and left == right and self._is_wide(left):
                made += lines[left].rows(width)
                continue
            olds = lines[left].rows(half) if left is not None else []
            news = lines[right].rows(half) if right is not None else []
            for old, new in zip_longest(olds, news, fillvalue=()):
                blanks = " " * (half - cells(old))
                made.append((*old, (blanks, ""), *_BETWEEN, *new))
        return made + all_rows(lines[shown:], width)

    def _is_wide(self, place: int) -> bool:
        return self.item.lines[place].kind in ("file", "hunk", "note")


def _columns(lines: Sequence[DiffLine]) -> Iterator[tuple[int | None, int | None]]:
    """Which lines are beside each other, by their places, from top to bottom.

    A line that did not change is beside itself.
    """
    partners = dict(pairs(lines))
    removed: list[int] = []
    added: list[int] = []
    for place, line in enumerate(lines):
        if line.kind == "added":
            added.append(place)
        elif line.kind == "removed" and not added:
            removed.append(place)
        else:
            yield from _beside(removed, added, partners)
            removed, added = [], []
            if line.kind == "removed":
                removed.append(place)
            else:
                yield place, place
    yield from _beside(removed, added, partners)


def _beside(
    removed: Sequence[int], added: Sequence[int], partners: dict[int, int]
) -> Iterator[tuple[int | None, int | None]]:
    """The lines of one run: each old one beside the new one that it became."""
    news = list(added)
    for old in removed:
        new = partners.get(old)
        while new is not None and news and news[0] < new:
            yield None, news.pop(0)
        if new is not None and news and news[0] == new:
            yield old, news.pop(0)
        else:
            yield old, None
    yield from ((None, new) for new in news)


def _drawn(line: DiffLine, parts: Parts, ranges: list[Range], longest: int | None) -> Line:
    style = STYLES[line.kind]
    size = len(line.text)
    sign = SIGNS.get(line.kind, "")
    parts = _within(parts, ranges, style)
    if longest is not None and size > longest:
        parts = (*_beginning(parts, longest), (f"… {size - longest:,} more characters", "dim"))
    strong = style if line.kind == "context" else f"bold {style}"
    return Line(parts, prose=line.kind == "file", head=((sign, strong),) if sign else ())


def _counted(hidden: Sequence[DiffLine]) -> str:
    """What is folded away, in numbers."""
    count = {kind: sum([line.kind == kind for line in hidden]) for kind in STYLES}
    facts = [f"{count[kind]:,} {kind}" for kind in ("added", "removed") if count[kind]]
    if files := count["file"]:
        facts.insert(0, f"{files:,} more file{'' if files == 1 else 's'}")
    counts = f" ({', '.join(facts)})" if facts else ""
    return f"… {len(hidden):,} more line{'' if len(hidden) == 1 else 's'}{counts}"


# ---- colours of the code ----------------------------------------------------------------------


def _coloured(lines: Sequence[DiffLine]) -> list[Parts]:
    """The parts of every line: those of added lines in the colours of their language."""
    made: list[Parts] = [((line.text, ""),) if line.text else () for line in lines]
    path = ""
    piece: list[int] = []  # the file as it is now, between two headers
    for place, line in enumerate(lines):
        if line.kind in ("file", "hunk"):
            _colour(made, lines, piece, path)
            piece = []
            path = _path(line.text) if line.kind == "file" else path
        elif line.kind in ("added", "context"):
            piece.append(place)
    _colour(made, lines, piece, path)
    return made


def _colour(made: list[Parts], lines: Sequence[DiffLine], piece: list[int], path: str) -> None:
    if not path or not any(lines[place].kind == "added" for place in piece):
        return
    found = Highlighter.for_path(path).add([lines[place].text for place in piece])
    for place, parts in zip(piece, found, strict=True):
        if lines[place].kind == "added":
            made[place] = parts


def _path(text: str) -> str:
    """The path that the line of a file names: the new one of two."""
    return _FACTS.sub("", text).rpartition(" → ")[2]


# ---- the words that changed -------------------------------------------------------------------


def _marked(lines: Sequence[DiffLine]) -> dict[int, list[Range]]:
    """What changed within lines that became others, by their places."""
    made: dict[int, list[Range]] = {}
    for old, new in pairs(lines):
        made[old], made[new] = changed_words(lines[old].text, lines[new].text)
    return made


def _within(parts: Parts, ranges: list[Range], style: str) -> Parts:
    """The parts in the style of their line, the ranges marked."""
    made: list[tuple[str, str]] = []
    edges = [edge for each in ranges for edge in each]
    at = 0
    passed = 0  # edges; after an odd number of them we are inside a range
    for text, own in parts:
        end = at + len(text)
        while at < end:
            while passed < len(edges) and edges[passed] <= at:
                passed += 1
            stop = min(end, edges[passed]) if passed < len(edges) else end
            piece = text[len(text) - (end - at) : len(text) - (end - stop)]
            changed = passed % 2 == 1
            # reversed, the colours of the code would be backgrounds of many colours
            made.append((piece, f"{style} {CHANGED}" if changed else f"{style} {own}".strip()))
            at = stop
    return tuple(made)


def _beginning(parts: Parts, size: int) -> Parts:
    made: list[tuple[str, AnyStyle]] = []
    for text, style in parts:
        if size <= 0:
            break
        made.append((text[:size], style))
        size -= len(text)
    return tuple(made)
