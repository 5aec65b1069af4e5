"""A question on the screen: what would happen, drawn so that nothing in it can imitate it.

Words of the agent are behind a bar, on every row that they take; what would run is behind the
signs of a shell. So nothing of the agent can pass for the question itself or for its keys. Nothing
is left out in silence: what is folded can be unfolded, and a line counts what exceeds every limit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, assert_never

from twofold.term.block_lines import INDENT, counted, path_style
from twofold.term.diff_lines import diff_lines
from twofold.term.lines import NARROWEST, AnyStyle, Drawable, Line, Parts, Row, cells, cut, line
from twofold.view.blocks import (
    CommandPart,
    DiffItem,
    NotePart,
    PathsPart,
    QuestionBlock,
    QuestionPart,
    TextPart,
    Value,
    ValuesPart,
)
from twofold.view.diff import DiffLine

FOLD: Final = 12
"""How many lines of each part are shown where not everything is."""
MOST_FOLDED: Final = 100
"""How many lines there are in all where not everything is shown."""
MOST_LINES: Final = 5_000
"""How many lines are shown where everything is."""
MOST_CHARACTERS: Final = 500_000
"""How many characters these may have."""
_LONGEST: Final = 1_000
"""How many characters of a line are shown where not everything is."""
_DEEPEST: Final = 8
_BAR: Final = f"{INDENT}│ "
_COMMANDS: Final = 3
"""How many commands are shown beside the keys."""

Making: TypeAlias = Callable[[str], Drawable]
"""How a line of a part is drawn."""


class Page:
    """The lines of a question; `fold`: not all of them."""

    def __init__(
        self, block: QuestionBlock, *, fold: bool = False, unfold_key: str = "Ctrl-O"
    ) -> None:
        self.lines: list[Drawable] = [_Title(block.title, block.kind)]
        self.hidden = 0
        """How many lines are folded away."""
        self.missing = 0
        """How many lines are beyond what is shown of any question."""
        self._missing_characters = 0
        self._rest = 0  # lines of parts of which nothing is shown
        self._fold = fold
        self._unfold_key = unfold_key
        self._room = MOST_FOLDED if fold else MOST_LINES
        self._characters = MOST_CHARACTERS
        for part in block.parts:
            self._add(part)
        if self._rest:
            self._leave_out(self._rest)
        if block.why:
            self.lines.append(line(block.why, "dim", INDENT))
        if self.missing:
            lines, characters = counted(self.missing, "line"), self._missing_characters
            size = f"{lines}, {counted(characters, 'character')}"
            self.lines.append(line(f"… too long: {size} are not shown", "bold yellow", INDENT))

    def _add(self, part: QuestionPart) -> None:
        """The lines of a part, as many as there is room for."""
        room = min(FOLD, self._room) if self._fold else self._room
        begun = room > 0 and self._characters > 0
        hidden = part.more if isinstance(part, ValuesPart) else 0
        for text, make in _lines(part, room, _LONGEST if self._fold else MOST_CHARACTERS):
            if room <= 0 or self._characters <= 0:
                hidden += 1
                self._missing_characters += len(text)
                continue
            longest = min(_LONGEST, self._characters) if self._fold else self._characters
            room -= 1
            self._room -= 1
            self._characters -= len(text)
            self.lines.append(make(text[:longest]))
            if len(text) > longest:
                hidden += 1
                self._missing_characters += len(text) - longest
        if begun and isinstance(part, CommandPart) and part.cwd:
            self.lines.append(_directory(part.cwd))
        if hidden and begun:
            self._leave_out(hidden)
        else:
            self._rest += hidden

    def _leave_out(self, count: int) -> None:
        if not self._fold:
            self.missing += count
            return
        self.hidden += count
        shows = f"{self._unfold_key} shows {'it' if count == 1 else 'them'}"
        words = f"… {counted(count, 'more line')}, {shows}"
        self.lines.append(line(words, "bold yellow", INDENT))


# ---- parts -------------------------------------------------------------------------------------


def _lines(part: QuestionPart, room: int, longest: int) -> Iterator[tuple[str, Making]]:
    """The lines of a part; the first `room` will be drawn, and so much of each."""
    match part:
        case CommandPart():
            if part.name:
                yield f"{part.name}:", lambda text: _behind_bar(text, "dim")
            for number, text in enumerate(part.text.split("\n")):
                yield text, _Signed if number else lambda text: _Signed(text, "$ ")
        case PathsPart():
            for location in part.locations:
                style = path_style(location.path)
                yield f"{location}", partial(_behind_bar, style=style, prose=False)
        case TextPart():
            for text in part.text.split("\n"):
                yield text, _behind_bar
        case DiffItem():
            shown = [
                DiffLine(each.kind, each.text[:longest]) for each in part.lines[: max(0, room)]
            ]
            drawn = iter(diff_lines(DiffItem(tuple(shown)), fold=None))
            for each in part.lines:
                yield each.text, lambda text: _Barred(next(drawn))
        case ValuesPart():
            if part.name:
                yield f"{part.name}:", lambda text: _behind_bar(text, "dim")
            for value in part.values:
                yield from _value(value, INDENT if part.name else "")
        case NotePart():
            yield part.text, lambda text: line(text, "yellow", INDENT)
        case _:
            assert_never(part)


def _value(value: Value, margin: str) -> Iterator[tuple[str, Making]]:
    """A value beside its name; one of several lines below it."""
    margin += INDENT * min(value.depth, _DEEPEST)
    name = "- " if value.name == "-" else f"{value.name}: " if value.name else ""
    first, *others = value.text.split("\n")
    if others:
        yield name.rstrip(), lambda text: _behind_bar(text, "dim", margin)
        first, others, name, margin = "", [first, *others], "", margin + INDENT
    else:
        named = name if first else name.rstrip()
        yield first, lambda text: _behind_bar(text, "", margin, ((named, "dim"),))
    for each in others:
        yield each, lambda text: _behind_bar(text, "", margin)


def _behind_bar(
    text: str, style: AnyStyle = "", margin: str = "", name: Parts = (), *, prose: bool = True
) -> Line:
    """Words of the agent."""
    parts: Parts = (*name, (text, style)) if text else name
    return Line(parts, ((_BAR, "dim"), (margin, "")) if margin else ((_BAR, "dim"),), prose)


def _directory(cwd: str) -> Line:
    return Line(((cwd, "dim"),), ((INDENT, ""),), prose=False, head=(("in ", "dim"),))


@dataclass(frozen=True, slots=True)
class _Barred:
    """Something that is drawn elsewhere, behind a bar."""

    drawn: Drawable

    def rows(self, width: int | None) -> list[Row]:
        room = None if width is None else width - len(_BAR)
        if room is not None and room < NARROWEST:
            return self.drawn.rows(width)
        return [((_BAR, "dim"), *row) for row in self.drawn.rows(room)]


@dataclass(frozen=True, slots=True)
class _Signed:
    """A line of a command, with a sign on every row: none can pass for anything else."""

    text: str
    sign: str = "> "

    def rows(self, width: int | None) -> list[Row]:
        room = None if width is None else width - len(INDENT) - len(self.sign)
        if room is not None and room < NARROWEST:
            return line(self.sign + self.text, "bold", prose=False).rows(width)
        made: list[Row] = []
        for number, row in enumerate(line(self.text, "bold", prose=False).rows(room)):
            made.append(((INDENT, ""), ("· " if number else self.sign, "bold"), *row))
        return made


@dataclass(frozen=True, slots=True)
class _Title:
    """What is asked, on one row; if that is not enough, all of it below."""

    title: str
    kind: str

    def rows(self, width: int | None) -> list[Row]:
        kind: Parts = ((f"  ({self.kind.replace('_', ' ')})", "dim"),) if self.kind else ()
        row: Row = ((f"? {self.title}", "bold magenta"), *kind)
        if width is None or cells(row) <= width:
            return [row]
        room = width - cells(kind)
        first = (*cut(row[:1], room), *kind) if room > width // 2 else cut(row, width)
        return [first, *_behind_bar(self.title).rows(width)]


# ---- beside the keys -----------------------------------------------------------------------------


def in_short(block: QuestionBlock, width: int, *, printed: bool) -> list[Row]:
    """What is shown beside the keys: how each command begins and how long it is.

    A command of one line that is on the screen is not repeated. `printed`: nothing of the question
    is on the screen for sure.
    """
    made: list[Row] = []
    if printed:
        made.append(())
        made.append(cut(((f"? {block.title}", "bold magenta"),), width))
    shown = [each for each in block.commands if printed or "\n" in each.text]
    for command in shown[:_COMMANDS]:
        first, *others = command.text.split("\n")
        size = f"  … {counted(len(others), 'more line')}" if others else ""
        begin = cut(((INDENT, ""), ("$ ", "bold"), (first, "bold")), max(4, width - len(size)))
        made.append(cut((*begin, (size, "bold yellow")), width))
    if len(shown) > _COMMANDS:
        more = counted(len(shown) - _COMMANDS, "more command")
        made += line(f"… and {more}", "bold yellow", INDENT).rows(width)
    return made
