"""A picker: a person types a few letters, and chooses one of the entries that fit.

It is opened by a command, so every key is meant for it, unlike in `menu`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from twofold.term.input.keys import ESCAPE, Keyboard
from twofold.term.lines import Parts, Row, cells, cut
from twofold.term.terminal_writer import Cursor, TerminalWriter
from twofold.text.fuzzy import best_matches

_HINT: Final = "Type to search, Up and Down move, Enter chooses, Esc leaves"
_NOTHING: Final = "  Nothing fits."
_STEPS: Final = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -10, "pagedown": 10}
_LEAVE: Final = frozenset({ESCAPE, "c-c", "c-d"})
_MOST_ROWS: Final = 12
"""How many entries are shown at once."""
_ABOVE: Final = 3
"""How many rows there are down to the one that is typed in, with it."""
_LONGEST: Final = 200


class Entry(NamedTuple):
    """An entry: what is searched, and what is shown beside it."""

    text: str
    details: str = ""
    mark: str = ""


def entry_row(entry: Entry, width: int, before: Parts, *, here: bool) -> Row:
    """An entry behind its marks; a long text is cut before its details are."""
    mark: Parts = (("❯ " if here else "  ", "bold cyan"), *before)
    details = f"  {entry.details}" if entry.details else ""
    room = width - cells(mark)
    text = cut(
        ((entry.text, "bold" if here else ""),), max(room - cell_len(details), room * 2 // 3)
    )
    return cut((*mark, *text, (details, "dim")), width)


class Picker:
    """The entries that fit what is typed, and which of them is marked."""

    def __init__(self, title: str, entries: Sequence[Entry]) -> None:
        self._title = title
        self._entries = entries
        self._typed = ""
        self._fitting: Sequence[int] = range(len(entries))
        self._at = 0

    @property
    def chosen(self) -> int | None:
        """The index of the marked entry; None if nothing fits."""
        return self._fitting[self._at] if self._fitting else None

    def press(self, key: str) -> None:
        """Search or move, as the key says."""
        if key in _STEPS:
            self._at = max(0, min(self._at + _STEPS[key], len(self._fitting) - 1))
        elif key in ("backspace", "c-h"):
            self._search(self._typed[:-1])
        elif key == "c-u":
            self._search("")
        elif len(key) == 1 and key.isprintable():
            self._search((self._typed + key)[:_LONGEST])

    def _search(self, typed: str) -> None:
        self._typed, self._at = typed, 0
        everything = range(len(self._entries))
        self._fitting = best_matches(typed, everything, self._searched)

    def _searched(self, index: int) -> str:
        entry = self._entries[index]
        return f"{entry.text} {entry.details}"

    def rows(self, width: int, height: int) -> list[Row]:
        """The entries around the mark, as many as fit."""
        room = max(1, min(_MOST_ROWS, height - 5))
        start = max(0, min(self._at - room // 2, len(self._fitting) - room))
        shown = range(start, min(start + room, len(self._fitting)))
        listed = [self._row(number, width) for number in shown]
        more = len(self._fitting) - len(shown)
        hint = f"{more:,} more · {_HINT}" if more else _HINT
        return [
            (),
            cut((("? ", "bold magenta"), (self._title, "bold magenta")), width),
            self._search_row(width),
            *(listed or [cut(((_NOTHING, "dim"),), width)]),
            cut(((f"  {hint}", "dim"),), width),
        ]

    def _search_row(self, width: int) -> Row:
        return cut((("  search: ", "bold cyan"), (self._typed, "")), width)

    def cursor(self, rows: Sequence[Row], width: int) -> Cursor:
        """Where the cursor is in the rows: behind what is typed."""
        return Cursor(len(rows) - _ABOVE, min(cells(self._search_row(width)), max(0, width - 1)))

    def _row(self, number: int, width: int) -> Row:
        entry = self._entries[self._fitting[number]]
        mark: Parts = ((f"{entry.mark:1} ", "green"),)
        return entry_row(entry, width, mark, here=number == self._at)


async def pick(
    writer: TerminalWriter, keys: Keyboard, title: str, entries: Sequence[Entry]
) -> int | None:
    """Show a picker until the person has chosen.

    Returns:
        The index of the chosen entry, or None if the person left the picker.
    """
    picker = Picker(title, entries)
    chosen: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def draw() -> None:
        rows = picker.rows(writer.width, writer.height)
        if writer.dumb:  # nothing can be drawn over
            writer.show(rows, [])
        else:
            writer.show([], rows, picker.cursor(rows, writer.width))

    def pressed(key: str) -> bool:
        if chosen.done():  # what follows the choice is typed ahead
            return False
        if key in _LEAVE:
            chosen.set_result(None)
        elif key == "c-m":
            if picker.chosen is not None:
                chosen.set_result(picker.chosen)
        else:
            picker.press(key)
            draw()
        return True

    try:
        with keys.listening(pressed):
            draw()
            return await chosen
    finally:
        writer.show([], [])
        writer.leave()
