"""Which words of a changed line changed.

For eyes only, and only where it helps: two lines that have little in common are simply two lines,
and nothing in them is marked. The cost of a pair of lines is bounded, whatever is in them.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from twofold.view.diff import DiffLine

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
