"""Rows of what was measured, as one table: for a terminal and as Markdown.

A ratio is reckoned here and nowhere else, from the numbers that stand beside it.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

HEADINGS = (
    "what",
    "Twofold",
    "floor",
    "SDK",
    "ratio to floor",
    "ratio to SDK",
    "target",
    "reached",
)


Unit: TypeAlias = Literal["s", "B", "%", "/s", ""]


class Amount(NamedTuple):
    """Seconds, bytes, per cent, times a second or a count, and whose if the column does not."""

    value: float
    unit: Unit = "s"
    whose: str = ""

    def __str__(self) -> str:
        return f"{_shown(self.value, self.unit)} {self.whose}".rstrip()


class Missing(NamedTuple):
    """Nothing was measured, and why."""

    why: str

    def __str__(self) -> str:
        return "not measured"


class Target(NamedTuple):
    """What is aimed at: at most `share` of what stands in a column, or of one unit, and `plus`."""

    words: str
    share: float
    of: Literal["floor", "SDK", "unit"]
    plus: float = 0.0


def at_most(times: float, whose: str = "floor") -> Target:
    """As expensive as the floor column, so many times."""
    return Target(f"≤ {times:g}× {whose}", times, "floor")


def faster(times: float, whose: str = "SDK") -> Target:
    """So many times faster than what stands in the column of the SDK."""
    return Target(f"≥ {times:,g}× faster than {whose}", 1 / times, "SDK")


def bytes_below(limit: int) -> Target:
    """No more than so many bytes."""
    return below(limit, "B")


def below(limit: float, unit: Unit) -> Target:
    """No more than so much."""
    return Target(f"≤ {limit:g} {unit}", limit, "unit")


@dataclass(frozen=True)
class Row:
    """One thing that was measured."""

    what: str
    ours: Amount
    floor: Amount | Missing | None = None
    sdk: Amount | Missing | None = None
    target: Target | None = None
    flaw: str = ""
    """Why the target is missed whatever the numbers say."""

    @property
    def reached(self) -> bool | None:
        """Whether the target is; None if there is none, or nothing to compare with."""
        if self.target is None:
            return None
        if self.flaw:
            return False
        references = {"floor": self.floor, "SDK": self.sdk, "unit": Amount(1, self.ours.unit)}
        reference = references[self.target.of]
        if not isinstance(reference, Amount):
            return None
        return self.ours.value <= self.target.share * reference.value + self.target.plus

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `HEADINGS`."""
        return (
            self.what,
            str(self.ours),
            _cell(self.floor),
            _cell(self.sdk),
            _times(self.ours, self.floor),
            _pace(self.ours, self.sdk),
            self.target.words if self.target else "",
            self._verdict(),
        )

    def _verdict(self) -> str:
        if self.target is None:
            return ""
        if self.flaw:
            return f"NO: {self.flaw}"
        return {True: "yes", False: "NO", None: "not measured"}[self.reached]


class Topic(NamedTuple):
    """Rows that were measured in the same way, and what way that was."""

    name: str
    how: str
    rows: Sequence[Row]


def as_text(topics: Sequence[Topic], where: str = "") -> str:
    """The table for a terminal; `where` says beside and on what it was measured."""
    table = [HEADINGS, *(row.cells() for topic in topics for row in topic.rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    lines = [_aligned(row, widths) for row in table]
    lines.insert(1, "  ".join("─" * width for width in widths))
    notes = (textwrap.fill(note, 100, subsequent_indent="  ") for note in _notes(topics, where))
    return "\n".join([*lines, "", *notes])


def as_markdown(topics: Sequence[Topic], where: str = "") -> str:
    """The same table as Markdown."""
    lines = [_piped(HEADINGS), "|---|" + "---:|" * 5 + "---|---|"]
    lines += [_piped(row.cells()) for topic in topics for row in topic.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in _notes(topics, where))]) + "\n"


def _notes(topics: Sequence[Topic], where: str) -> list[str]:
    notes = [
        "ratios: Twofold by floor, where less is better; SDK by Twofold, where more is better.",
        "times: processor time, which other work hardly touches, unless a topic says otherwise.",
        *(f"{topic.name}: {topic.how}" for topic in topics),
    ]
    if where:
        notes.append(f"beside and on: {where}.")
    notes += dict.fromkeys(
        f"not measured: {cell.why}"
        for topic in topics
        for row in topic.rows
        for cell in (row.floor, row.sdk)
        if isinstance(cell, Missing)
    )
    return [*notes, _sum(row for topic in topics for row in topic.rows)]


def _sum(rows: Iterable[Row]) -> str:
    aimed = [row for row in rows if row.target]
    reached = sum(row.reached is True for row in aimed)
    text = f"{reached} of {len(aimed)} targets reached"
    missed = [row.what for row in aimed if row.reached is False]
    unknown = [row.what for row in aimed if row.reached is None]
    if missed:
        text += f"; MISSED: {', '.join(missed)}"
    if unknown:
        text += f"; not measured: {', '.join(unknown)}"
    return f"{text}."


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    text = [
        cell.rjust(width) if 0 < column < 6 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(text).rstrip()


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(cell: Amount | Missing | None) -> str:
    return "" if cell is None else str(cell)


def _times(ours: Amount, theirs: Amount | Missing | None) -> str:
    return f"{ours.value / theirs.value:.2f}×" if isinstance(theirs, Amount) else ""


def _pace(ours: Amount, theirs: Amount | Missing | None) -> str:
    if not isinstance(theirs, Amount):
        return ""
    word = "less" if ours.unit == "B" else "faster"
    times = theirs.value / ours.value
    return f"{times:,.0f}× {word}" if times >= 100 else f"{times:.1f}× {word}"


def _shown(value: float, unit: Unit) -> str:
    if unit != "s":
        return (f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}").rstrip()
    for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value / 1e-6:.3f} µs"
