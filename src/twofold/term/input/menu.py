"""A choice of one among several, made with the arrow keys or a digit."""

import asyncio
from collections.abc import Sequence
from typing import Final

from prompt_toolkit.input import Input

from twofold.term.display import Display
from twofold.term.input.keys import ESCAPE, Typed
from twofold.term.lines import Row, cut, line

_HINT: Final = "Up and Down choose, Enter takes it, Esc leaves"
_ROWS: Final = 12
"""How many rows it takes where it is printed again for every key."""
_STEPS: Final = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -10, "pagedown": 10}


class Menu:
    """What there is to choose from, and where the mark is."""

    def __init__(self, title: str, choices: Sequence[str]) -> None:
        self._title = title
        self._choices = choices
        self.at = 0

    def rows(self, width: int, height: int) -> list[Row]:
        """The choices around the mark, as many as there is room for."""
        title, hint = line(self._title, "bold").rows(width), [cut(((_HINT, "dim"),), width)]
        if height < len(title) + 3:  # the choices are what is needed
            title, hint = [], []
        room = max(1, height - len(title) - len(hint))
        start = max(0, min(self.at - room // 2, len(self._choices) - room))
        made: list[Row] = []
        for number in range(start, min(start + room, len(self._choices))):
            mark, style = ("> ", "bold") if number == self.at else ("  ", "")
            made.append(cut(((mark, "green"), (self._choices[number], style)), width))
        return [*title, *made, *hint]

    def press(self, key: str) -> int | None:
        """Move the mark; the choice that was made, -1 for none of them, None to go on."""
        if key in _STEPS:
            self.at = max(0, min(self.at + _STEPS[key], len(self._choices) - 1))
        elif key == "c-m":
            return self.at
        elif key in (ESCAPE, "c-c", "c-d"):
            return -1
        elif key.isdecimal() and 0 < int(key) <= min(9, len(self._choices)):
            return int(key) - 1
        return None


async def choose(display: Display, source: Input, title: str, choices: Sequence[str]) -> int | None:
    """Have the person choose; the number of what was chosen, None if nothing was."""
    menu = Menu(title, choices)
    chosen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def draw() -> None:
        if display.dumb:
            display.show(menu.rows(display.width, _ROWS), [])
        else:
            display.show([], menu.rows(display.width, display.height))

    def pressed(key: str) -> bool:
        if chosen.done():  # it stands there no more
            return True
        answer = menu.press(key)
        if answer is not None:
            chosen.set_result(answer)
        else:
            draw()
        return True

    with Typed(source, pressed).listening():
        draw()
        try:
            answer = await chosen
        finally:
            display.show([], [])
            display.leave()
    return answer if answer >= 0 else None
