"""A menu: a person chooses one of several entries with the arrow keys and Enter, or with a digit.

No key chooses that was meant for something else (see `guard`): it counts after a second without any
key, or after an arrow key or Tab. Every other key is typed ahead.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from twofold.term.block_lines import INDENT
from twofold.term.input.guard import DELIBERATE, TimedGuard
from twofold.term.input.keys import ESCAPE, Keyboard, typed_rows
from twofold.term.input.picker import Entry, entry_row
from twofold.term.lines import Line, Parts, Row, cut
from twofold.term.terminal_writer import TerminalWriter

_OPEN: Final = "Up and Down move, Enter chooses, Esc leaves"
_CLOSED: Final = "Press Tab to choose, Esc leaves"
_HOW: Final = "A key chooses after one second without any key, or after Tab."
_DIGITS: Final = 9
"""How many entries have a key of their own."""
_DUMB_ROWS: Final = 12
"""How many rows the menu has on a dumb terminal, where it is printed again for every move."""
_STEPS: Final = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -10, "pagedown": 10}
_LEAVE: Final = frozenset({ESCAPE, "c-c", "c-d"})


class Menu:
    """The entries, and which of them is marked."""

    def __init__(self, title: str, choices: Sequence[Entry]) -> None:
        self._title = title
        self._choices = choices
        self.at = 0

    def rows(self, width: int, height: int, *, opened: bool = True) -> list[Row]:
        """The entries around the mark, as many as fit; `opened` if a key would choose now."""
        head = (("? ", "bold magenta"),)
        title = Line(((self._title, "bold magenta"),), head=head).rows(width)
        hint = [cut(((INDENT, ""), (_OPEN if opened else _CLOSED, "dim")), width)]
        if height < len(title) + 3:  # the entries are needed most
            title, hint = [], []
        room = max(1, height - len(title) - len(hint))
        start = max(0, min(self.at - room // 2, len(self._choices) - room))
        made: list[Row] = []
        for number in range(start, min(start + room, len(self._choices))):
            key = f"{number + 1}" if number < _DIGITS else " "
            keys: Parts = ((f"{key} ", "bold" if opened else "dim"),)
            here = number == self.at
            made.append(entry_row(self._choices[number], width, keys, here=here))
        return [*title, *made, *hint]

    def chosen_by(self, key: str) -> int | None:
        """The index of the entry that a key chooses; None if it chooses none."""
        if key == "c-m":
            return self.at
        if key.isdecimal() and 0 < int(key) <= min(_DIGITS, len(self._choices)):
            return int(key) - 1
        return None

    def move(self, key: str) -> bool:
        """Move the mark; returns False if the key does not."""
        if key not in _STEPS:
            return False
        self.at = max(0, min(self.at + _STEPS[key], len(self._choices) - 1))
        return True


async def choose(
    writer: TerminalWriter, keys: Keyboard, title: str, choices: Sequence[Entry]
) -> int | None:
    """Show a menu until the person has chosen.

    Returns:
        The index of the chosen entry, or None if the person left the menu.
    """
    menu = Menu(title, choices)
    chosen: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def draw() -> None:
        if not writer.dumb:  # on a dumb terminal nothing can be drawn over
            typed = typed_rows(keys.text, writer.width)
            opened = guard.is_open(ahead=bool(keys.text))
            rows = menu.rows(writer.width, max(1, writer.height - len(typed)), opened=opened)
            writer.show([], [*rows, *typed])

    def print_dumb() -> None:
        if writer.dumb:
            how = cut(((_HOW, "dim"),), writer.width)
            writer.show([*menu.rows(writer.width, _DUMB_ROWS), how], [])

    def pressed(key: str) -> bool:
        if chosen.done():  # what follows the choice is typed ahead
            return False
        if key in _LEAVE:
            chosen.set_result(None)
            return True
        choice = menu.chosen_by(key)
        verdict = guard.press(
            key, answers=choice is not None, twice=False, alone=keys.alone, ahead=bool(keys.text)
        )
        if verdict == "answer":
            chosen.set_result(choice)
        elif menu.move(key):
            print_dumb()
        draw()
        return verdict != "keep"

    # nobody presses an arrow key in the middle of a sentence, either
    guard = TimedGuard(draw, deliberate=DELIBERATE.union(_STEPS))
    changed, keys.changed = keys.changed, draw
    try:
        with keys.listening(pressed):
            guard.show()
            print_dumb()
            draw()
            return await chosen
    finally:
        guard.close()
        keys.changed = changed
        writer.show([], [])
        writer.leave()
