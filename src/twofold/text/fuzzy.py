"""Fuzzy matching: the letters of a needle occur in a text, in this order."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_BOUNDARIES: Final = frozenset(" /\\._-:")
_CHUNK: Final = 4096
_NEARNESS: Final = 8
"""So many characters of directories count as much as one character of a name."""


def match_score(needle: str, text: str) -> int | None:
    """How well the needle fits the text, or None if it does not; higher is better.

    Case does not matter. Letters that follow each other, and letters at the beginning of a word,
    count more; of two texts that fit alike the shorter one fits better.
    """
    return _score(needle.casefold(), text.casefold())


def _score(wanted: str, there: str) -> int | None:
    if not wanted:
        return 0
    whole = there.rfind(wanted)
    if whole >= 0:
        return 8 * len(wanted) + 8 * _begins_word(there, whole) - len(there)
    score, at, last = 0, 0, -2
    for letter in wanted:
        at = there.find(letter, at)
        if at < 0:
            return None
        score += 4 * (at == last + 1) + 3 * _begins_word(there, at)
        last, at = at, at + 1
    return score - len(there)


def best_matches(needle: str, items: Iterable[T], text: Callable[[T], str]) -> Sequence[T]:
    """The items whose text fits, the best first; equal ones stay in their order."""
    scored = [
        (score, item) for item in items if (score := match_score(needle, text(item))) is not None
    ]
    return [item for _, item in sorted(scored, key=lambda pair: -pair[0])]


def path_score(needle: str, path: str) -> int | None:
    """How well the needle fits a path, or None if it does not; higher is better.

    It fits the last name of a path better than the directories before it.
    """
    return _path_score(needle.casefold(), path.casefold())


def _path_score(wanted: str, path: str) -> int | None:
    whole = _score(wanted, path)
    if whole is None:
        return None
    name = path[path.rfind("/", 0, -1) + 1 :]
    named = _score(wanted, name)
    return whole if named is None else max(whole, named - (len(path) - len(name)) // _NEARNESS)


def best_paths(
    needle: str, folded: Sequence[str], most: int, stopped: Callable[[], bool] = lambda: False
) -> list[int]:
    """The positions of the paths that fit best, the best first; for very many paths.

    Args:
        needle: What to look for.
        folded: The paths, casefolded once by the caller.
        most: How many positions are returned.
        stopped: Asked from time to time; once it returns True, the result is empty.
    """
    wanted = needle.casefold()
    best: list[tuple[int, int]] = []
    for start in range(0, len(folded), _CHUNK):
        if stopped():
            return []
        scored = [
            (score, -position)
            for position, path in enumerate(folded[start : start + _CHUNK], start)
            if (score := _path_score(wanted, path)) is not None
        ]
        best = heapq.nlargest(most, best + scored)
    return [-position for _, position in best]


def _begins_word(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] in _BOUNDARIES
