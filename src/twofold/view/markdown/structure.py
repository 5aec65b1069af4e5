"""The blocks of a markdown text: line by line, and from text that arrives in any pieces.

A line either goes on with what is open or ends it; what has ended is settled and never looked at
again. What is open is small, whatever comes: a paragraph is cut, a long table settles row by row,
and nothing is nested without end. All of it is immutable values, so that a copy costs little.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from twofold.view.markdown.blocks import (
    Align,
    Blank,
    Cells,
    CodeLine,
    CodeStart,
    Heading,
    ListItem,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    TableRow,
    Within,
)
from twofold.view.markdown.inline import Inline, spans

# The marks at the beginning of a line that decide what it is.


_HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"(`{3,}+)([^`]*+)$|(~{3,}+)(.*+)$")
_ITEM = re.compile(r"(?:[-+*]|([0-9]{1,9})[.)])(?=[ \t]|$)")
_TASK = re.compile(r"\[([ xX])\][ \t]+(?=[^ \t])")
_UNDERLINE = re.compile(r"(?:=+|-+)$")

CODE_INDENT: Final = 4
_TAB: Final = 4


@dataclass(slots=True)
class Cursor:
    """A line that is read from its beginning; a tab goes to the next multiple of four."""

    rest: str
    column: int = 0

    def indent(self) -> int:
        """How many columns of blanks come next."""
        column = self.column
        for char in self.rest:
            if char == " ":
                column += 1
            elif char == "\t":
                column += _TAB - column % _TAB
            else:
                break
        return column - self.column

    def skip(self, columns: int) -> None:
        """Leave out so many columns of blanks, or as many as there are."""
        at, end = 0, self.column + columns
        while self.column < end and self.rest[at : at + 1] in (" ", "\t"):
            self.column += 1 if self.rest[at] == " " else _TAB - self.column % _TAB
            at += 1
        # half of a tab is left
        self.rest = " " * max(0, self.column - end) + self.rest[at:]
        self.column = min(self.column, end)

    def drop(self, count: int) -> None:
        """Leave out so many characters."""
        self.column += count
        self.rest = self.rest[count:]

    def blank(self) -> bool:
        """Whether nothing but blanks is left."""
        return not self.rest.strip(" \t")

    def text(self) -> str:
        """What is left, without the blanks before it."""
        return self.rest.lstrip(" \t")


class Fence(NamedTuple):
    """The line that opens a fence."""

    mark: str
    indent: int
    language: str

    def closed_by(self, line: Cursor) -> bool:
        """Whether the line ends the code."""
        text = line.rest.strip(" \t")
        return (
            len(text) >= len(self.mark)
            and text == self.mark[0] * len(text)
            and line.indent() < CODE_INDENT
        )


class Marker(NamedTuple):
    """The mark of a list item."""

    size: int
    number: int | None
    empty: bool


def heading(text: str) -> tuple[int, str] | None:
    """Level and text of a heading."""
    found = _HEADING.match(text)
    if found is None:
        return None
    title = text[found.end() :].strip(" \t")
    bare = title.rstrip("#")
    if not bare or bare[-1] in " \t":
        title = bare.rstrip(" \t")
    return len(found[1]), title


def fence_marker(text: str, indent: int) -> Fence | None:
    """A fence that opens here."""
    found = _FENCE.match(text) if text[:3] in ("```", "~~~") else None
    if found is None:
        return None
    info = (found[2] if found[1] else found[4]).split(None, 1)
    return Fence(found[1] or found[3], indent, info[0].strip("{}.") if info else "")


def thematic_break(text: str) -> bool:
    """Whether the line is a rule."""
    if text[:1] not in ("-", "*", "_"):
        return False
    marks = text.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and marks == text[0] * len(marks)


def underline(text: str) -> int | None:
    """The level of the heading that the line makes of the paragraph before it."""
    if text[:1] not in ("=", "-") or not _UNDERLINE.match(text.rstrip(" \t")):
        return None
    return 1 if text[0] == "=" else 2


def item(text: str) -> Marker | None:
    """The mark of a list item that begins here."""
    found = _ITEM.match(text)
    if found is None:
        return None
    number = int(found[1]) if found[1] else None
    return Marker(found.end(), number, not text[found.end() :].strip(" \t"))


def task(line: Cursor) -> bool | None:
    """Whether the item that begins here is done, if it is a task; the mark is left out."""
    found = _TASK.match(line.rest)
    if found is None:
        return None
    line.drop(found.end())
    return found[1] != " "


# Where a text that is too long to wait for its end is cut.
#
# The place depends on the first `LONGEST` characters only, so that it is the same however the text
# comes. It is between two sentences rather than two words, between words rather than inside one,
# and not inside anything that is open or belongs together, as far as there is such a place.


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


# The rows of a table, as lines of text.


MOST_COLUMNS: Final = 64
"""What has more is no table: a short line must not become a long row."""

_PIPE = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r":?-++:?")


def cells(line: str) -> list[str]:
    """The text between the bars of a line."""
    line = line.strip(" \t").removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    found = _PIPE.split(line.replace("\t", " "))
    return [cell.strip(" ").replace("\\|", "|") for cell in found]


def table_row(line: str, columns: int) -> Cells:
    """The cells of a row; what has no column is left out, as everywhere."""
    return tuple([spans(cell) for cell in cells(line)[:columns]])


def delimiter_aligns(header: str, line: str) -> tuple[Align, ...] | None:
    """How the columns are aligned if the line makes a table of the header before it."""
    if "|" not in line or "-" not in line or header.startswith("    "):
        return None
    delimiters = cells(line)
    if len(delimiters) > MOST_COLUMNS or not all(map(_DELIMITER.fullmatch, delimiters)):
        return None
    return tuple(map(_align, delimiters)) if len(cells(header)) == len(delimiters) else None


def _align(delimiter: str) -> Align:
    if delimiter.endswith(":"):
        return "center" if delimiter.startswith(":") else "right"
    return "left"


# What is open between two lines of a markdown text: immutable values, to be copied for nothing.


class Container(NamedTuple):
    """A quote or an item of a list."""

    key: int
    """No two of a text have the same."""
    offset: int | None = None
    """How far the text of an item is indented; None for a quote."""
    number: int | None = None
    task: bool | None = None
    shown: bool = False
    """Whether there is a block in it already."""

    def public(self, opens: bool) -> Quote | ListItem:
        """What a block that is in here has in `within`."""
        return Quote() if self.offset is None else ListItem(self.number, self.task, opens)


class OpenParagraph(NamedTuple):
    """Lines of prose."""

    text: str
    continues: bool = False


class OpenIndented(NamedTuple):
    """Indented code, all of it settled but for blank lines."""

    blanks: int = 0
    """They belong to the code if more of it follows."""


class OpenTable(NamedTuple):
    """A table; its rows wait until they are settled together, then none does."""

    header: Cells
    aligns: tuple[Align, ...]
    rows: tuple[Cells, ...] = ()
    size: int = 0
    settled: bool = False


Leaf: TypeAlias = OpenParagraph | OpenIndented | OpenTable | Fence | None
"""What is open in the innermost container and goes on with the next line."""


DEEPEST: Final = 20
"""So many quotes and items can be in each other; the marks of more are text."""

SHORTEST_LINE: Final = LONGEST // 4
"""A line is not cut before, so that what it begins with can be seen."""

FIRST_ROWS: Final = 20
"""A table with more rows settles row by row after these."""

# What a line may begin with that becomes something else with the next character.
_UNDECIDED = re.compile(r"[-=*_+#>~`|]{1,3}")


class Structure:
    """What is open, and in `settled` what is not any more, for the caller to take."""

    __slots__ = ("_blank", "_containers", "_keys", "_last", "_leaf", "settled")

    def __init__(self) -> None:
        self.settled: list[MarkdownBlock] = []
        self._containers: tuple[Container, ...] = ()
        self._leaf: Leaf = None
        self._blank = False
        self._last: tuple[int, ...] | None = None  # the containers of the last block
        self._keys = 0

    def copy(self) -> "Structure":
        """The same things open, and nothing settled."""
        copy = Structure()
        copy._containers, copy._leaf = self._containers, self._leaf
        copy._blank, copy._last, copy._keys = self._blank, self._last, self._keys
        return copy

    @property
    def size(self) -> int:
        """How many characters are kept of what is open."""
        match self._leaf:
            case OpenParagraph(text=text):
                return len(text)
            case OpenTable(size=size, settled=False):
                return size
            case _:
                return 0

    @property
    def room(self) -> int:
        """How many characters a line may have before it is cut.

        It depends on what is open only, which is the same however the text comes. A paragraph
        leaves less: with the line it should not be much longer than it may be.
        """
        if not isinstance(self._leaf, OpenParagraph):
            return LONGEST
        return max(SHORTEST_LINE, LONGEST + 1 - len(self._leaf.text))

    def undecided(self, line: str) -> bool:
        """Whether the beginning of a line may become markup that it does not look like yet."""
        text = line.strip(" \t")
        if isinstance(self._leaf, Fence):
            return bool(text) and text == self._leaf.mark[0] * len(text)
        return _UNDECIDED.fullmatch(text) is not None

    def add(self, text: str, *, fresh: bool = True) -> None:
        """Take in a line, or if it is not `fresh` more of the line before."""
        if not fresh:
            self._more(text)
            return
        line = Cursor(text)
        matched = self._match(line)
        if isinstance(self._leaf, Fence):
            if matched == len(self._containers):
                self._in_fence(self._leaf, line)
                return
            self._leaf = None
        if line.blank():
            self._blank_line(matched)
            return
        while len(self._containers) < DEEPEST and self._open_container(line, matched):
            matched = len(self._containers)
            if line.blank():
                return
        self._block(line, matched)

    def finish(self) -> None:
        """Nothing follows."""
        self._part(0)

    # ---- containers ------------------------------------------------------------------------

    def _match(self, line: Cursor) -> int:
        """How many of the open containers the line is in; their marks are left out."""
        for number, container in enumerate(self._containers):
            if container.offset is None:
                if line.indent() >= CODE_INDENT or not line.text().startswith(">"):
                    return number
                _skip_quote(line)
            elif line.blank():
                if not container.shown and self._leaf is None:
                    return number  # an item may begin with one blank line, not with two
                line.skip(container.offset)
            elif line.indent() >= container.offset:
                line.skip(container.offset)
            else:
                return number
        return len(self._containers)

    def _open_container(self, line: Cursor, matched: int) -> bool:
        text, indent = line.text(), line.indent()
        if indent >= CODE_INDENT:
            return False
        if text.startswith(">"):
            self._part(matched)
            _skip_quote(line)
            self._push(Container(self._keys))
            return True
        marker = None if thematic_break(text) else item(text)
        if marker is None:
            return False
        interrupts = isinstance(self._leaf, OpenParagraph) and matched == len(self._containers)
        if interrupts and (marker.empty or marker.number not in (None, 1)):
            return False
        self._part(matched)
        line.skip(indent)
        line.drop(marker.size)
        blanks = line.indent()
        if marker.empty or blanks > CODE_INDENT:
            blanks = 1
        line.skip(blanks)
        offset = indent + marker.size + blanks
        self._push(Container(self._keys, offset, marker.number, task(line)))
        return True

    def _push(self, container: Container) -> None:
        self._containers += (container,)
        self._keys += 1

    def _part(self, matched: int) -> None:
        """End what the next block is not in."""
        self._close_leaf()
        while len(self._containers) > matched:
            last = self._containers[-1]
            if last.offset is not None and not last.shown:
                self.settled.append(Paragraph((), self._stand()))
            self._containers = self._containers[:-1]

    def _stand(self) -> Within:
        """What the next block is in, after the blank line that was before it."""
        keys = tuple([container.key for container in self._containers])
        if self._blank and self._last is not None:
            common = 0
            for one, other in zip(keys, self._last, strict=False):
                if one != other:
                    break
                common += 1
            inside = self._containers[:common]
            self.settled.append(Blank(tuple([each.public(opens=False) for each in inside])))
        self._blank, self._last = False, keys
        within = tuple([each.public(opens=not each.shown) for each in self._containers])
        self._containers = tuple([each._replace(shown=True) for each in self._containers])
        return within

    # ---- lines -----------------------------------------------------------------------------

    def _blank_line(self, matched: int) -> None:
        if isinstance(self._leaf, OpenIndented) and matched == len(self._containers):
            self._leaf = OpenIndented(self._leaf.blanks + 1)
            return
        self._part(matched)
        self._blank = True

    def _block(self, line: Cursor, matched: int) -> None:
        """A line with something on it, whose containers are open or none of its business."""
        text, indent = line.text(), line.indent()
        paragraph = self._leaf if isinstance(self._leaf, OpenParagraph) else None
        inside = matched == len(self._containers)
        if indent >= CODE_INDENT:
            if paragraph is None:
                self._indented(line, matched)
                return
        elif (inside and paragraph and self._under(paragraph, text)) or self._starts(
            text, indent, matched
        ):
            return
        if paragraph is not None:  # also where it is not in its containers any more
            self._leaf = paragraph._replace(text=f"{paragraph.text}\n{text}")
            self._cut()
        elif isinstance(self._leaf, OpenTable) and inside:
            self._row(self._leaf, text)
        else:
            self._part(matched)
            self._leaf = OpenParagraph(text)

    def _under(self, paragraph: OpenParagraph, text: str) -> bool:
        """Whether the line makes a heading or a table of the paragraph, and if so do it."""
        level = underline(text)
        if level is not None:
            self._leaf = None
            self.settled.append(Heading(level, _prose(paragraph.text), self._stand()))
            return True
        before, _, header = paragraph.text.rpartition("\n")
        aligns = delimiter_aligns(header, text)
        if aligns is None:
            return False
        self._leaf = paragraph._replace(text=before) if before else None
        self._close_leaf()
        self._leaf = OpenTable(table_row(header, len(aligns)), aligns, size=len(header))
        return True

    def _starts(self, text: str, indent: int, matched: int) -> bool:
        """Take a heading, a fence or a rule; False if the line is none of them."""
        if text[0] == "#":
            found = heading(text)
            if found is not None:
                self._part(matched)
                self.settled.append(Heading(found[0], spans(found[1]), self._stand()))
                return True
        elif text[0] in "`~":
            fence = fence_marker(text, indent)
            if fence is not None:
                self._part(matched)
                self.settled.append(CodeStart(fence.language, within=self._stand()))
                self._leaf = fence
                return True
        elif thematic_break(text):
            self._part(matched)
            self.settled.append(Rule(self._stand()))
            return True
        return False

    def _more(self, text: str) -> None:
        """More of a line that was too long."""
        match self._leaf:
            case Fence() | OpenIndented():
                self.settled.append(CodeLine(text, self._stand(), continues=True))
            case OpenParagraph() as paragraph:
                self._leaf = paragraph._replace(text=paragraph.text + text)
                self._cut()
            case _:
                if text := text.lstrip(" \t"):
                    self._close_leaf()
                    self._leaf = OpenParagraph(text, continues=True)

    # ---- code ------------------------------------------------------------------------------

    def _in_fence(self, fence: Fence, line: Cursor) -> None:
        if fence.closed_by(line):
            self._leaf = None
        else:
            line.skip(fence.indent)
            self.settled.append(CodeLine(line.rest, self._stand()))

    def _indented(self, line: Cursor, matched: int) -> None:
        if isinstance(self._leaf, OpenIndented) and matched == len(self._containers):
            blanks = [CodeLine("", self._stand()) for _ in range(self._leaf.blanks)]
            self.settled += blanks
        else:
            self._part(matched)
            self.settled.append(CodeStart(fenced=False, within=self._stand()))
        line.skip(CODE_INDENT)
        self.settled.append(CodeLine(line.rest, self._stand()))
        self._leaf = OpenIndented()

    # ---- paragraphs and tables -------------------------------------------------------------

    def _cut(self) -> None:
        """Settle the beginning of a paragraph that is too long."""
        while isinstance(self._leaf, OpenParagraph) and len(self._leaf.text) > LONGEST:
            text, continues = self._leaf
            at = cut(text)
            self._settle(OpenParagraph(text[:at], continues))
            self._leaf = OpenParagraph(text[at:].lstrip(" \t\n"), continues=True)

    def _settle(self, paragraph: OpenParagraph) -> None:
        found = _prose(paragraph.text)
        if found:
            self.settled.append(Paragraph(found, self._stand(), paragraph.continues))

    def _row(self, table: OpenTable, text: str) -> None:
        row = table_row(text, len(table.aligns))
        if not table.settled:
            size = table.size + len(text)
            if len(table.rows) < FIRST_ROWS and size <= 2 * LONGEST:
                self._leaf = table._replace(rows=(*table.rows, row), size=size)
                return
            self._close_leaf()
            self._leaf = table._replace(rows=(), settled=True)
        self.settled.append(TableRow(row, self._stand()))

    def _close_leaf(self) -> None:
        match self._leaf:
            case OpenParagraph() as paragraph:
                self._settle(paragraph)
            case OpenIndented(blanks=blanks) if blanks:
                self._blank = True
            case OpenTable(settled=False) as table:
                made = Table(table.header, table.aligns, table.rows, self._stand())
                self.settled.append(made)
        self._leaf = None


def _skip_quote(line: Cursor) -> None:
    line.skip(line.indent())
    line.drop(1)
    line.skip(1)


def _prose(text: str) -> Spans:
    """The spans of a paragraph; one that is nothing but markup is shown as it is."""
    lines = "\n".join([line.strip(" \t") for line in text.split("\n")]).strip("\n")
    return spans(lines) or ((Span(lines),) if lines else ())


# ---- text in pieces --------------------------------------------------------------------------


class Markdown:
    """Takes text in any pieces; whatever they are, the blocks are the same."""

    __slots__ = ("_fresh", "_line", "_structure")

    def __init__(self) -> None:
        self._structure = Structure()
        self._line = ""  # without its end yet, never longer than there is room
        self._fresh = True  # whether its beginning is the beginning of a line

    @property
    def unsettled(self) -> int:
        """How many characters are kept because they are not settled; there is a bound."""
        return self._structure.size + len(self._line)

    def feed(self, text: str) -> list[MarkdownBlock]:
        """The blocks that are settled now and were not before; they are never taken back."""
        *ended, rest = text.split("\n")
        for part in ended:
            self._extend(part)
            self._structure.add(self._line.removesuffix("\r"), fresh=self._fresh)
            self._line, self._fresh = "", True
        self._extend(rest)
        return self._take()

    def tail(self) -> list[MarkdownBlock]:
        """What is not settled, as it looks now; asking changes nothing.

        A mark at the beginning of a line that the next character can make something else of is
        not shown yet.
        """
        probe = self._structure.copy()
        if self._line and not (self._fresh and probe.undecided(self._line)):
            probe.add(self._line.removesuffix("\r"), fresh=self._fresh)
        probe.finish()
        return probe.settled

    def end(self) -> list[MarkdownBlock]:
        """The rest, as nothing follows; after that a new text may begin."""
        if self._line:
            self._structure.add(self._line.removesuffix("\r"), fresh=self._fresh)
        self._structure.finish()
        blocks = self._take()
        self._structure, self._line, self._fresh = Structure(), "", True
        return blocks

    def _take(self) -> list[MarkdownBlock]:
        blocks, self._structure.settled = self._structure.settled, []
        return blocks

    def _extend(self, part: str) -> None:
        """More of the line; what is too long to wait for its end is cut wherever that is."""
        room = self._structure.room
        if len(self._line) + len(part) <= room:
            self._line += part
            return
        line, start = self._line + part, 0
        while len(line) - start > room:
            self._structure.add(line[start : start + room], fresh=self._fresh)
            self._fresh = False
            start += room
            room = self._structure.room
        self._line = line[start:]
