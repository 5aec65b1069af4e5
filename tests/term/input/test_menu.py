"""A choice of one among several."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.input import PipeInput, create_pipe_input

from tests.support.screens import MemoryTerminal, memory_writer
from tests.support.simulated import simulate
from twofold.term.input.keys import Keyboard
from twofold.term.input.menu import Menu, choose
from twofold.term.input.picker import Entry
from twofold.term.lines import cells, plain

UP, DOWN, PAGE_DOWN, ENTER, ESCAPE = "\x1b[A", "\x1b[B", "\x1b[6~", "\r", "\x1b"
MANY = [Entry(f"session {number}") for number in range(30)]


def shown(menu: Menu, width: int = 50, height: int = 10) -> list[str]:
    return [plain(row) for row in menu.rows(width, height)]


MOVED: dict[str, tuple[list[str], int]] = {
    "nothing yet": ([], 0),
    "down": (["down"], 1),
    "and up again": (["down", "down", "up"], 1),
    "the keys of emacs": (["c-n", "c-n", "c-p"], 1),
    "not beyond the first": (["up"], 0),
    "not beyond the last": (["down"] * 40, 29),
    "by pages": (["pagedown", "pagedown", "pageup"], 10),
    "a page beyond the last": (["pagedown"] * 5, 29),
    "any other key is nothing": (["x", " ", "left", "c-m", "3", "<bracketed-paste>"], 0),
}


@pytest.mark.parametrize(("keys", "at"), MOVED.values(), ids=list(MOVED))
def test_keys_move_the_mark(keys: list[str], at: int) -> None:
    menu = Menu("Which?", MANY)
    for key in keys:
        menu.move(key)
    assert menu.at == at


@pytest.mark.parametrize(
    ("key", "chosen"), [("c-m", 5), ("3", 2), ("0", None), ("x", None), ("½", None), ("down", None)]
)
def test_enter_chooses_what_is_marked_and_a_digit_what_it_counts(
    key: str, chosen: int | None
) -> None:
    menu = Menu("Which?", MANY)
    menu.at = 5
    assert menu.chosen_by(key) == chosen


def test_a_digit_beyond_the_choices_is_nothing() -> None:
    assert Menu("Which?", [Entry("a"), Entry("b")]).chosen_by("3") is None


def test_the_choices_stand_between_a_title_and_a_hint() -> None:
    menu = Menu("Which?", [Entry("one"), Entry("two", "its details")])
    menu.move("down")
    assert shown(menu) == [
        *("? Which?", "  1 one", "❯ 2 two  its details"),
        "  Up and Down move, Enter chooses, Esc leaves",
    ]


@given(st.integers(0, 29), st.integers(1, 60), st.integers(1, 40))
def test_the_mark_is_seen_on_any_screen(at: int, width: int, height: int) -> None:
    menu = Menu("Resume which session?", MANY)
    menu.at = at
    rows = menu.rows(width, height)
    assert len(rows) <= height
    assert all(cells(row) <= width for row in rows)
    assert [plain(row)[:2] for row in rows].count("❯ "[:width]) == 1 or width < 3


@given(st.integers(0, 29))
def test_where_there_is_room_every_choice_is_seen(at: int) -> None:
    menu = Menu("Which?", MANY)
    menu.at = at
    assert len(menu.rows(50, 40)) == len(MANY) + 2


# ---- on a terminal ---------------------------------------------------------------------------

SILENT = 1.1
"""More seconds than make a silence."""

# each piece is typed in one moment, after so many seconds
TYPED: dict[str, tuple[list[tuple[float, str]], int | None, str]] = {
    "enter after a silence": ([(SILENT, ENTER)], 0, ""),
    "a digit after a silence": ([(SILENT, "4")], 3, ""),
    "arrows and enter": ([(0.4, DOWN), (0.1, DOWN), (0.1, UP), (0.1, ENTER)], 1, ""),
    "a page and enter": ([(0.4, PAGE_DOWN), (0.1, ENTER)], 10, ""),
    "tab and enter": ([(0.4, "\t"), (0.1, ENTER)], 0, ""),
    "escape at once": ([(0, ESCAPE)], None, ""),
    "ctrl-c at once": ([(0, "\x03")], None, ""),
    "ctrl-d at once": ([(0, "\x04")], None, ""),
    "an enter that was typed ahead": ([(0, ENTER), (SILENT, "2")], 1, ""),
    "an arrow that was not seen": ([(0, DOWN), (0.1, ENTER), (SILENT, ENTER)], 1, ""),
    "a digit in a sentence": ([(0.5, "2"), (0.2, "x"), (SILENT, "\t"), (0.1, "3")], 2, "2x"),
    "nothing is chosen behind what was typed": (
        [(0, "fix it"), (SILENT, ENTER), (SILENT, "3"), (SILENT, ESCAPE)],
        None,
        "fix it\n3",
    ),
    "keys that come together": ([(SILENT, f"{ENTER}{ENTER}"), (0, "\x03")], None, ""),
    "keys after the choice": ([(SILENT, ENTER), (0.05, f"{DOWN}ab")], 0, "ab"),
}


def chosen(
    typed: Sequence[tuple[float, str]],
) -> tuple[int | None, str, MemoryTerminal]:
    """What is chosen, what is typed ahead, and the terminal afterwards."""
    writer, terminal = memory_writer(60, 10)
    writer.show([(("before", ""),)], [])

    async def type_all(source: PipeInput) -> None:
        for seconds, text in typed:
            await asyncio.sleep(seconds)
            source.send_text(text)

    async def main() -> tuple[int | None, str]:
        with create_pipe_input() as source:
            keys = Keyboard(source, lambda key: False)
            typing = asyncio.create_task(type_all(source))
            answer = await choose(writer, keys, "Which?", MANY)
            await typing
            with keys.listening():  # as whoever reads keys next
                await asyncio.sleep(1)
            return answer, keys.take_ahead()

    return *simulate(main()), terminal


@pytest.mark.parametrize(("typed", "answer", "ahead"), TYPED.values(), ids=list(TYPED))
def test_a_choice_is_made_on_purpose_and_nothing_is_left_of_the_menu(
    typed: list[tuple[float, str]], answer: int | None, ahead: str
) -> None:
    made, left, terminal = chosen(typed)
    column, _, hidden = terminal.cursor
    assert (made, left) == (answer, ahead)
    assert (terminal.all, column, hidden) == (["before"], 0, False)


def test_what_is_typed_ahead_is_shown_below_the_menu_and_how_to_choose_then() -> None:
    writer, terminal = memory_writer(60, 10)

    async def main() -> None:
        with create_pipe_input() as source:
            keys = Keyboard(source, lambda key: False)
            choosing = asyncio.create_task(
                choose(writer, keys, "Which?", [Entry("one"), Entry("two", "its details")])
            )
            await asyncio.sleep(0.1)
            assert terminal.screen[-1] == "  Press Tab to choose, Esc leaves"
            await asyncio.sleep(SILENT)
            assert terminal.screen[-1] == "  Up and Down move, Enter chooses, Esc leaves"
            source.send_text("hello")
            await asyncio.sleep(SILENT)
            assert terminal.screen[-2:] == ["  Press Tab to choose, Esc leaves", "> hello"]
            choosing.cancel()
            await asyncio.wait([choosing])

    simulate(main())
    assert terminal.all == []
    assert terminal.cursor == (0, 0, False)


def test_a_key_that_is_not_for_the_menu_goes_to_the_handler_behind_it() -> None:
    writer, _ = memory_writer(60, 10)
    behind: list[str] = []

    def on_key(key: str) -> bool:
        behind.append(key)
        return key == "c-z"

    async def main() -> str:
        with create_pipe_input() as source:
            keys = Keyboard(source, on_key)
            choosing = asyncio.create_task(choose(writer, keys, "Which?", MANY))
            await asyncio.sleep(SILENT)
            for key in ("\x1a", DOWN, "x", ESCAPE):
                source.send_text(key)
                await asyncio.sleep(0.2)
            await choosing
            return keys.text

    assert simulate(main()) == "x"
    assert behind == ["c-z", "x"]
