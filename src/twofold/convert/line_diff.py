"""Which lines of a text were changed to get another, and the hunks that a diff shows of them.

Pure and bounded: the cost grows with the number of lines, whatever they hold.
A small edit gets the shortest answer, save where a text repeats itself for
hundreds of lines (Myers); so does a large one that only brings new lines. Any
other is cut at lines that both sides hold exactly once (patience) and walked in
limited steps between them: always right, not always the shortest. Lines are any
strings, compared whole; what separates them is the caller's business.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

CONTEXT = 3
"""How many equal lines a diff shows around a change."""

# Steps of an exact walk: enough for fifty edits in one place, and for more if they are far apart.
# Each is a fraction of a microsecond.
_STEPS = 2_000

# Steps of a walk between anchors, fewer if there are many lines, so that all of them together
# stay near a million.
_STEPS_BETWEEN = 1_500

# How many lines, of both sides together, a way may be behind the best and not be given up.
_LAG = 400


class Change(NamedTuple):
    """The lines `old:old_end` of one side gave way to `new:new_end` of the other."""

    old: int
    old_end: int
    new: int
    new_end: int


class Hunk(NamedTuple):
    """Changes that are shown together, with the equal lines around them."""

    changes: list[Change]
    old: int
    old_end: int
    new: int
    new_end: int

    @property
    def header(self) -> str:
        """The line that a diff begins the hunk with."""
        return f"@@ -{_span(self.old, self.old_end)} +{_span(self.new, self.new_end)} @@"


def _span(start: int, end: int) -> str:
    # Git: an empty range names the line before it, a count of one goes without saying.
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def hunks(old: list[str], new: list[str]) -> list[Hunk]:
    """The changes that turn `old` into `new`, those that are near to each other together."""
    together: list[list[Change]] = []
    for change in changed_lines(old, new):
        # Git: where the context of two changes would meet, they share a hunk.
        if together and change.old - together[-1][-1].old_end <= 2 * CONTEXT:
            together[-1].append(change)
        else:
            together.append([change])
    return [_hunk(changes, len(old)) for changes in together]


def _hunk(changes: list[Change], size: int) -> Hunk:
    first, last = changes[0], changes[-1]
    lead, trail = min(CONTEXT, first.old), min(CONTEXT, size - last.old_end)
    old, new = first.old - lead, first.new - lead
    return Hunk(changes, old, last.old_end + trail, new, last.new_end + trail)


class _Run(NamedTuple):
    """`length` equal lines, from `old` on one side and from `new` on the other."""

    old: int
    new: int
    length: int


class _Trail(NamedTuple):
    """A run and the way that led to it, last run first."""

    run: _Run
    before: _Trail | None


def changed_lines(old: list[str], new: list[str]) -> list[Change]:
    """The changes that turn `old` into `new`, in order, equal lines between any two of them."""
    head = _agree(old, 0, new, 0)
    tail = _agree_backwards(old, new, head)
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    runs: list[_Run] = []
    if a and b:
        runs, x, y = _walk(a, 0, b, 0, _STEPS)
        if x < len(a) or y < len(b):
            runs = _among_shared(a, b)
    changes: list[Change] = []
    x = y = 0
    for run_x, run_y, length in [*runs, _Run(len(a), len(b), 0)]:
        if x < run_x or y < run_y:
            changes.append(Change(x + head, run_x + head, y + head, run_y + head))
        x, y = run_x + length, run_y + length
    return changes


def _agree(a: list[str], x: int, b: list[str], y: int) -> int:
    """How many lines agree from `a[x]` and `b[y]` on."""
    limit = min(len(a) - x, len(b) - y)
    n = 0
    while n < limit and n < 4 and a[x + n] == b[y + n]:  # most runs off the path are this short
        n += 1
    if n < 4:
        return n
    # Whole slices are compared at the speed of C: ever longer ones, then ever shorter ones.
    size, growing = 8, True
    while size and n < limit:
        if a[x + n : x + n + size] == b[y + n : y + n + size]:
            n += min(size, limit - n)
            size = size * 2 if growing else size // 2
        else:
            size, growing = size // 2, False
    return n


def _agree_backwards(a: list[str], b: list[str], head: int) -> int:
    """How many lines agree at the end, the first `head` lines of both left alone."""
    limit = min(len(a), len(b)) - head
    n, size = 0, 1
    while n + size <= limit and a[-n - size : len(a) - n] == b[-n - size : len(b) - n]:
        n += size
        size *= 2
    while size:
        if n + size <= limit and a[-n - size : len(a) - n] == b[-n - size : len(b) - n]:
            n += size
        size //= 2
    return n


def _walk(a: list[str], x0: int, b: list[str], y0: int, steps: int) -> tuple[list[_Run], int, int]:
    """Myers' greedy walk from `a[x0]`, `b[y0]`: the best runs for the steps, and how far it got."""
    width, height = len(a), len(b)
    # Diagonal k holds the points x, y with x - y == k. A point may overshoot the edges, where no
    # run starts: its way has no fault, and it is only worth less than it seems.
    start, goal = x0 - y0, width - height
    low = high = start
    reach: dict[int, int] = {start + 1: x0}
    trails: dict[int, _Trail | None] = {start + 1: None}
    best = 0
    while steps > 0:
        steps -= (high - low) // 2 + 1
        for k in range(low, high + 1, 2):
            if k == low or (k != high and reach[k - 1] < reach[k + 1]):
                x, trail = reach[k + 1], trails[k + 1]
            else:
                x, trail = reach[k - 1] + 1, trails[k - 1]
            y = x - k
            if x < width and y < height and a[x] == b[y]:
                n = _agree(a, x, b, y)
                trail = _Trail(_Run(x, y, n), trail)
                x += n
                best = max(best, x + x - k)
            reach[k], trails[k] = x, trail
            if k == goal and x >= width:
                return _walked(trail), width, height
        # Ways that left the field are over, and ways that stay this far behind do not win any
        # more. Without them, edits far apart cost no more than one by one.
        behind = best - _LAG
        while low < high and (reach[low] - low > height or 2 * reach[low] - low < behind):
            low += 2
        while low < high and (reach[high] > width or 2 * reach[high] - high < behind):
            high -= 2
        low, high = low - 1, high + 1

    def end(k: int) -> tuple[int, int]:
        return min(reach[k], width), min(reach[k] - k, height)

    # Of equals the one nearest to the middle, or one side would be used up without the other.
    ends = range(low + 1, high, 2)
    furthest = max(ends, key=lambda k: (sum(end(k)), -abs(k - start)))
    return _walked(trails[furthest]), *end(furthest)


def _walked(trail: _Trail | None) -> list[_Run]:
    runs: list[_Run] = []
    while trail is not None:
        runs.append(trail.run)
        trail = trail.before
    return runs[::-1]


def _among_shared(a: list[str], b: list[str]) -> list[_Run]:
    """The runs of two texts that differ much: exact if new lines are all there is to it."""
    xs, ys = _shared(a, b)
    a, b = [a[x] for x in xs], [b[y] for y in ys]
    runs, x, y = _walk(a, 0, b, 0, _STEPS)
    if x < len(a) and y < len(b):
        runs = _between_anchors(a, b)
    return _spread(runs, xs, ys)


def _shared(a: list[str], b: list[str]) -> tuple[list[int], list[int]]:
    """Where the lines are that the other side has too: the rest is in no run."""
    in_a, in_b = set(a), set(b)
    return (
        [x for x, line in enumerate(a) if line in in_b],
        [y for y, line in enumerate(b) if line in in_a],
    )


def _spread(runs: list[_Run], xs: list[int], ys: list[int]) -> list[_Run]:
    """Runs among selected lines, as runs in the whole: what was adjacent may not be any more."""
    spread: list[_Run] = []
    for x, y, length in runs:
        end = x + length
        while x < end:
            n = _adjacent(xs, x, ys, y, end - x)
            spread.append(_Run(xs[x], ys[y], n))
            x, y = x + n, y + n
    return spread


def _adjacent(xs: list[int], x: int, ys: list[int], y: int, limit: int) -> int:
    """How many of the places from `xs[x]` and `ys[y]` on lie side by side, on both sides."""

    def apart(n: int) -> bool:
        return xs[x + n] - xs[x] > n or ys[y + n] - ys[y] > n

    return limit if not apart(limit - 1) else bisect_left(range(limit), True, key=apart)


def _between_anchors(a: list[str], b: list[str]) -> list[_Run]:
    """The runs around every anchor, and those found between them by bounded walks."""
    runs: list[_Run] = []
    # A walk of n steps gets at least sqrt(2n) lines ahead.
    steps = min(_STEPS_BETWEEN, 2 * (1_000_000 // (len(a) + len(b))) ** 2 + 10)
    anchors = [*_anchors(a, b), (len(a), len(b))]
    x = y = at = 0
    while at < len(anchors):
        anchor_x, anchor_y = anchors[at]
        gap = _gap(a[x:anchor_x], b[y:anchor_y], steps)
        runs += [_Run(x + gap_x, y + gap_y, n) for gap_x, gap_y, n in gap]
        if n := _agree(a, anchor_x, b, anchor_y):
            runs.append(_Run(anchor_x, anchor_y, n))
        x, y = anchor_x + n, anchor_y + n
        at = bisect_left(anchors, (x, y), at + 1)  # past those inside the run
    return runs


def _gap(a: list[str], b: list[str], steps: int) -> list[_Run]:
    """The runs between two anchors, by walks of so many steps, each from where the last one got."""
    tail = _agree_backwards(a, b, 0)
    xs, ys = _shared(a[: len(a) - tail], b[: len(b) - tail])
    shared_a, shared_b = [a[x] for x in xs], [b[y] for y in ys]
    runs: list[_Run] = []
    x = y = 0
    while x < len(xs) and y < len(ys):
        found, x, y = _walk(shared_a, x, shared_b, y, steps)
        runs += _spread(found, xs, ys)
    if tail:
        runs.append(_Run(len(a) - tail, len(b) - tail, tail))
    return runs


def _anchors(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    """The most lines that both sides hold exactly once and in the same order."""
    count_a, count_b = Counter(a), Counter(b)
    where = dict(zip(b, range(len(b)), strict=True))
    pairs = [
        (x, where[line])
        for x, line in enumerate(a)
        if count_a[line] == 1 and count_b.get(line) == 1
    ]
    heights = [y for _, y in pairs]
    if heights == sorted(heights):  # nothing moved: the usual case, and cheap to see
        return pairs
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest selection whose second numbers rise, by patience sorting."""
    tops: list[int] = []  # the smallest end of a selection, by its length
    top_pairs: list[int] = []  # the index of the pair at that end
    before: list[int] = []  # for each pair, the index of the one it was laid upon
    for index, (_, y) in enumerate(pairs):
        pile = bisect_left(tops, y)
        before.append(top_pairs[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(y)
            top_pairs.append(index)
        else:
            tops[pile], top_pairs[pile] = y, index
    chosen: list[tuple[int, int]] = []
    index = top_pairs[-1] if top_pairs else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]
