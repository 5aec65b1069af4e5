"""A choice of one among several."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.input import create_pipe_input

from tests.support.screens import memory_display
from tests.support.simulated import simulate
from twofold.term.input.menu import Menu, choose
from twofold.term.lines import cells, plain

UP, DOWN, PAGE_DOWN, ENTER, ESCAPE = "\x1b[A", "\x1b[B", "\x1b[6~", "\r", "\x1b"
MANY = [f"session {number}" for number in range(30)]


def shown(menu: Menu, width: int = 50, height: int = 10) -> list[str]:
    return [plain(row) for row in menu.rows(width, height)]


PRESSED: dict[str, tuple[list[str], int, int | None]] = {
    "nothing yet": ([], 0, None),
    "enter takes the first": (["c-m"], 0, 0),
    "down": (["down", "c-m"], 1, 1),
    "and up again": (["down", "down", "up", "c-m"], 1, 1),
    "the keys of emacs": (["c-n", "c-n", "c-p"], 1, None),
    "not beyond the first": (["up", "c-m"], 0, 0),
    "not beyond the last": (["down"] * 40, 29, None),
    "by pages": (["pagedown", "pagedown", "pageup"], 10, None),
    "a page beyond the last": (["pagedown"] * 5, 29, None),
    "a digit takes it at once": (["3"], 0, 2),
    "there is no zeroth": (["0"], 0, None),
    "escape takes none": (["down", "escape"], 1, -1),
    "nor does ctrl-c": (["c-c"], 0, -1),
    "nor ctrl-d": (["c-d"], 0, -1),
    "any other key is nothing": (["x", " ", "left", "<bracketed-paste>", "½"], 0, None),
}


@pytest.mark.parametrize(("keys", "at", "chosen"), PRESSED.values(), ids=list(PRESSED))
def test_keys_move_the_mark_and_choose(keys: list[str], at: int, chosen: int | None) -> None:
    menu = Menu("Which?", MANY)
    answers = [menu.press(key) for key in keys]
    assert menu.at == at
    assert (answers[-1] if answers else None) == chosen
    assert all(answer is None for answer in answers[:-1])


def test_a_digit_beyond_the_choices_is_nothing() -> None:
    assert Menu("Which?", ["a", "b"]).press("3") is None


def test_the_choices_stand_between_a_title_and_a_hint() -> None:
    menu = Menu("Which?", ["one", "two"])
    menu.press("down")
    assert shown(menu) == [
        *("Which?", "  one", "> two"),
        "Up and Down choose, Enter takes it, Esc leaves",
    ]


@given(st.integers(0, 29), st.integers(1, 60), st.integers(1, 40))
def test_the_mark_is_seen_on_any_screen(at: int, width: int, height: int) -> None:
    menu = Menu("Go on with which session?", MANY)
    menu.at = at
    rows = menu.rows(width, height)
    assert len(rows) <= height
    assert all(cells(row) <= width for row in rows)
    assert [plain(row)[:2] for row in rows].count("> "[:width]) == 1 or width < 3


@given(st.integers(0, 29))
def test_where_there_is_room_every_choice_is_seen(at: int) -> None:
    menu = Menu("Which?", MANY)
    menu.at = at
    assert len(menu.rows(50, 40)) == len(MANY) + 2


# ---- on a terminal ---------------------------------------------------------------------------

TYPED: dict[str, tuple[str, int | None]] = {
    "enter": (ENTER, 0),
    "arrows and enter": (f"{DOWN}{DOWN}{UP}{ENTER}", 1),
    "a page": (f"{PAGE_DOWN}{ENTER}", 10),
    "a digit": ("4", 3),
    "escape": (ESCAPE, None),
    "ctrl-c": ("\x03", None),
    "keys after the choice": (f"{ENTER}{DOWN}{DOWN}{ESCAPE}", 0),
    "another digit after it": ("25", 1),
}


def chosen(typed: str, choices: Sequence[str]) -> tuple[int | None, list[str], tuple[int, bool]]:
    """What is chosen, and the terminal afterwards: its rows, the column and whether it is hidden"""
    display, terminal = memory_display(60, 10)
    display.show([(("before", ""),)], [])

    async def main() -> int | None:
        with create_pipe_input() as keys:
            keys.send_text(typed)
            return await choose(display, keys, "Which?", choices)

    answer = simulate(main())
    column, _, hidden = terminal.cursor
    return answer, terminal.all, (column, hidden)


@pytest.mark.parametrize(("typed", "answer"), TYPED.values(), ids=list(TYPED))
def test_a_choice_is_made_and_nothing_is_left_of_the_menu(typed: str, answer: int | None) -> None:
    assert chosen(typed, MANY) == (answer, ["before"], (0, False))


def test_who_is_interrupted_leaves_nothing_of_the_menu() -> None:
    display, terminal = memory_display(60, 10)

    async def main() -> None:
        with create_pipe_input() as keys:
            choosing = asyncio.create_task(choose(display, keys, "Which?", MANY))
            await asyncio.sleep(1)
            assert "> session 0" in terminal.screen
            choosing.cancel()
            await asyncio.wait([choosing])

    simulate(main())
    assert terminal.all == []
    assert terminal.cursor == (0, 0, False)
