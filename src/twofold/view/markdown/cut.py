"""Where a text that is too long to wait for its end is cut.

The place depends on the first `LONGEST` characters only, so that it is the same however the text
comes. It is between two sentences rather than two words, between words rather than inside one,
and not inside anything that is open or belongs together, as far as there is such a place.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from twofold.view.markdown.inline import Inline

LONGEST: Final = 4096
"""So many characters may wait for the end of their line, and so many for that of a paragraph."""

SHORTEST: Final = LONGEST // 2

_SENTENCE = re.compile(r"[.!?…:;][\"'”’)\]]?[ \n]|[。！？]|\n")
_GAP = re.compile(r"[ \t\n]")


def cut(text: str) -> int:
    """How many of the characters come before the cut; the text is longer than `LONGEST`."""
    window = text[:LONGEST]
    inline = Inline(window)
    joined = _joined(inline.whole())
    unclosed = inline.unclosed()

    def closed(at: int) -> bool:
        return at <= unclosed and not joined[at]

    def together(at: int) -> bool:
        return not joined[at]

    def anywhere(_: int) -> bool:
        return True

    for allowed in (closed, together, anywhere):
        for pattern in (_SENTENCE, _GAP):
            if at := _last(pattern, window, allowed):
                return at
    return LONGEST


def _last(pattern: re.Pattern[str], window: str, allowed: Callable[[int], bool]) -> int | None:
    found = [match.end() for match in pattern.finditer(window, SHORTEST)]
    return next((at for at in reversed(found) if allowed(at)), None)


def _joined(whole: Iterable[tuple[int, int]]) -> bytearray:
    """For every place, whether a cut there parts what belongs together."""
    depth = [0] * (LONGEST + 2)
    for start, end in whole:
        depth[start + 1] += 1
        depth[end] -= 1
    made, inside = bytearray(LONGEST + 1), 0
    for at in range(LONGEST + 1):
        inside += depth[at]
        made[at] = inside > 0
    return made
