"""Which asterisks, underscores and tildes belong together.

The rules of CommonMark for delimiter runs, but for underscores in names: a run that code goes on
after (`__init__.py`, `__call__(`) closes nothing. Every run is looked at a bounded number of
times, whatever the text.
"""

import unicodedata
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["strong", "emphasis", "strike"]

_BLANK: Final = ""
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CODE_GOES_ON: Final = frozenset("./\\:=-")


@dataclass(slots=True)
class Run:
    """Characters of one kind beside each other, of which `left` are not used up yet."""

    char: str
    size: int
    node: int
    """Where it stands among the nodes of its text."""
    opens: bool
    closes: bool
    left: int


class Pair(NamedTuple):
    """Two nodes between which the text is strong, emphasised or struck out."""

    opener: int
    closer: int
    kind: Kind


def run_at(text: str, start: int, end: int, node: int) -> Run | None:
    """The delimiter run that stands there; None if it can be nothing but text."""
    char = text[start]
    before = text[start - 1] if start else _BLANK
    after = text[end] if end < len(text) else _BLANK
    blank_before, blank_after = _blank(before), _blank(after)
    mark_before, mark_after = _mark(before), _mark(after)
    left = not blank_after and (not mark_after or blank_before or mark_before)
    right = not blank_before and (not mark_before or blank_after or mark_after)
    opens, closes = left, right
    if char == "_":
        opens = left and (not right or mark_before)
        closes = right and (not left or mark_after) and not _in_name(text, end)
    elif char == "~" and end - start != 2:
        return None
    return Run(char, end - start, node, opens, closes, end - start) if opens or closes else None


def _blank(char: str) -> bool:
    return not char or char.isspace()


def _mark(char: str) -> bool:
    return char in _PUNCTUATION or (char > "\x7f" and unicodedata.category(char)[0] in "PS")


def _in_name(text: str, end: int) -> bool:
    after = text[end : end + 2]
    return after[:1] in ("(", "[") or (
        len(after) == 2 and after[0] in _CODE_GOES_ON and after[1].isalnum()
    )


def pairs(runs: list[Run]) -> list[Pair]:
    """What belongs together; of each run `left` says how much stays text."""
    made: list[Pair] = []
    openers: list[tuple[int, Run]] = []
    # For each sort of closer, the run before which none opens for it: nothing is searched twice.
    bottoms: dict[tuple[str, bool, int], int] = {}
    for number, run in enumerate(runs):
        sort = (run.char, run.opens, run.size % 3)
        while run.closes and run.left:
            found = _opener(openers, run, bottoms.get(sort, 0))
            if found is None:
                bottoms[sort] = number
                break
            del openers[found + 1 :]  # what stands between is text
            opener = openers[found][1]
            used = 2 if min(opener.left, run.left) >= 2 else 1
            opener.left -= used
            run.left -= used
            made.append(Pair(opener.node, run.node, _kind(run.char, used)))
            if not opener.left:
                openers.pop()
        if run.opens and run.left:
            openers.append((number, run))
    return made


def _opener(openers: list[tuple[int, Run]], closer: Run, bottom: int) -> int | None:
    """Where the nearest run stands that this one closes."""
    for at in range(len(openers) - 1, -1, -1):
        number, run = openers[at]
        if number < bottom:
            return None
        if run.char == closer.char and not _odd(run, closer):
            return at
    return None


def _odd(opener: Run, closer: Run) -> bool:
    """The rule of three: `*a**b*` is not cut in the middle."""
    if not (opener.closes or closer.opens) or closer.char == "~":
        return False
    return (opener.size + closer.size) % 3 == 0 and (opener.size % 3 != 0 or closer.size % 3 != 0)


def _kind(char: str, used: int) -> Kind:
    if char == "~":
        return "strike"
    return "strong" if used == 2 else "emphasis"
