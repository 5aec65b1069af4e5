"""How the input line looks: its text in rows, the place of the cursor, the completions below."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from twofold.term.lines import Row, cut
from twofold.text import one_line

_JOINERS: Final = "\u200c\u200d"
"""Characters without width that belong to words and emoji."""
_META_GAP: Final = 2
_WRONG: Final = "red underline"


class InputRows(NamedTuple):
    """Rows, and where the cursor is in them: row and column, both from 0."""

    rows: list[Row]
    row: int
    column: int


def text_rows(
    mark: str,
    text: str,
    cursor: int,
    width: int,
    room: int,
    wrong: Sequence[tuple[int, int]] = (),
) -> InputRows:
    """Lay out a text behind a mark; of a long text the rows around the cursor.

    Args:
        mark: Shown before the first row; the others are indented as far.
        text: Any text; what cannot be shown is replaced by what can.
        cursor: A position in the text, which may be its end.
        width: How wide a row may be.
        room: How many rows there may be.
        wrong: The starts and ends of what is drawn as an error.
    """
    mark = f"{one_line(mark)} "
    if cell_len(mark) > width // 2:
        mark = "> "
    indent = cell_len(mark)
    lines, row, column = _wrapped(text, cursor, max(1, width - indent), wrong)
    first = max(0, min(row - room + 1 + (room > 2 and row + 1 < len(lines)), len(lines) - room))
    made: list[Row] = []
    for number, words in enumerate(lines[first : first + max(1, room)], first):
        head = (mark, "bold cyan") if not number else (" " * indent, "")
        made.append(cut((head, *words), width))
    return InputRows(made, row - first, min(indent + column, max(0, width - 1)))


def _wrapped(
    text: str, cursor: int, room: int, wrong: Sequence[tuple[int, int]]
) -> tuple[list[list[tuple[str, str]]], int, int]:
    """The text in lines of a width, and the line and the column of the cursor."""
    lines: list[list[tuple[str, str]]] = [[]]
    styles = {at: _WRONG for start, end in wrong for at in range(start, end)}
    used = at_row = at_column = 0
    for position, character in enumerate(text):
        shown = "" if character == "\n" else _shown(character)
        size = cell_len(shown)
        if used + size > room:
            lines.append([])
            used = 0
        if position == cursor:
            at_row, at_column = len(lines) - 1, used
        _append(lines[-1], shown, styles.get(position, ""))
        used += size
        if character == "\n":
            lines.append([])
            used = 0
    if cursor >= len(text):
        if used >= room:  # the cursor is on a row of its own
            lines.append([])
            used = 0
        at_row, at_column = len(lines) - 1, used
    return lines, at_row, at_column


def _append(line: list[tuple[str, str]], shown: str, style: str) -> None:
    if line and line[-1][1] == style:
        line[-1] = line[-1][0] + shown, style
    elif shown:
        line.append((shown, style))


def _shown(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if character == "\t":
        return "    "
    if ord(character) < 0x20:
        return f"^{chr(ord(character) + 0x40)}"
    return "\ufffd"


def completion_rows(
    offered: Sequence[tuple[str, str]], chosen: int | None, width: int, room: int
) -> list[Row]:
    """The completions around the chosen one, each with what it means.

    Args:
        offered: The words to insert and what they mean.
        chosen: The number of the one that is in the input now.
        width: How wide a row may be.
        room: How many rows there may be.
    """
    if room <= 0:
        return []
    start = max(0, min((chosen or 0) - room // 2, len(offered) - room))
    shown = [(one_line(word), one_line(meaning)) for word, meaning in offered[start : start + room]]
    widest = min(max((cell_len(word) for word, _ in shown), default=0), max(1, width * 2 // 3))
    made: list[Row] = []
    for number, (word, meaning) in enumerate(shown, start):
        gap = " " * (max(0, widest - cell_len(word)) + _META_GAP)
        style = "reverse" if number == chosen else "cyan"
        made.append(cut((("  ", ""), (word, style), (gap, ""), (meaning, "dim")), width))
    return made
