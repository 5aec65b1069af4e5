"""Keys that are pressed while no prompt waits for them."""

import asyncio
import os
import termios
from collections.abc import Collection
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.input import create_input, create_pipe_input

from tests.support.simulated import simulate
from twofold.term.input.keys import Keyboard, typed_rows
from twofold.term.lines import cells, plain

UP, ESCAPE, ENTER, BACKSPACE = "\x1b[A", "\x1b", "\r", "\x7f"


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def pressed(*typed: str, taken: Collection[str] = ()) -> tuple[list[str], str]:
    """The names of the keys, and what was typed ahead; some time passes after each piece."""
    names: list[str] = []

    def on_key(name: str) -> bool:
        names.append(name)
        return name in taken

    async def main() -> str:
        with create_pipe_input() as source:
            keys = Keyboard(source, on_key)
            with keys.listening():
                for piece in typed:
                    source.send_text(piece)
                    await asyncio.sleep(0.05)  # on a clock that jumps
            ahead = keys.take_ahead()
            assert keys.take_ahead() == ""
            return ahead

    ahead = simulate(main())
    return names, ahead


# ---- names -----------------------------------------------------------------------------------

NAMES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "letters": (("ay",), ["a", "y"]),
    "a character of several bytes": (("日",), ["日"]),
    "ctrl-c and ctrl-o": (("\x03\x0f",), ["c-c", "c-o"]),
    "enter": ((ENTER,), ["c-m"]),
    "escape alone": ((ESCAPE,), ["escape"]),
    "an arrow is no escape": ((UP,), ["up"]),
    "an arrow in two pieces is one": (("\x1b", "[A"), ["up"]),
    "an arrow in three": (("\x1b", "[", "A"), ["up"]),
    "escape, and after a while a letter": ((ESCAPE, "", "", "", "n"), ["escape", "n"]),
    "a paste is one key": ((pasted("yes\rno"),), ["<bracketed-paste>"]),
    "a paste in pieces": (("\x1b[20", "0~y", "y\x1b[2", "01~"), ["<bracketed-paste>"]),
}


@pytest.mark.parametrize(("typed", "names"), NAMES.values(), ids=list(NAMES))
def test_keys_have_names(typed: tuple[str, ...], names: list[str]) -> None:
    assert pressed(*typed)[0] == names


# ---- typing ahead ----------------------------------------------------------------------------

AHEAD: dict[str, tuple[str, str]] = {
    "words": ("hello there", "hello there"),
    "lines": (f"one{ENTER}two\nthree", "one\ntwo\nthree"),
    "an enter at the end, for nothing is sent yet": (f"hello{ENTER}{ENTER}", "hello"),
    "nothing but enter": (ENTER, ""),
    "backspace": (f"helo{BACKSPACE}lo", "hello"),
    "more backspaces than letters": (f"a{BACKSPACE}{BACKSPACE}{BACKSPACE}b", "b"),
    "backspace over the lines": (f"a{ENTER}{BACKSPACE}b", "ab"),
    "a paste": (f"see {pasted('a b')}!", "see a b!"),
    "a paste with the newlines of terminals": (pasted("a\rb\r\nc\nd"), "a\nb\nc\nd"),
    "no arrows, no escape, no control characters": (f"a{UP}\x01{ESCAPE}[5~\tb", "ab"),
}


@pytest.mark.parametrize(("typed", "ahead"), AHEAD.values(), ids=list(AHEAD))
def test_what_nobody_takes_is_typed_ahead(typed: str, ahead: str) -> None:
    assert pressed(typed)[1] == ahead


def test_nobody_types_ahead_without_end() -> None:
    assert pressed(*["x" * 30_000] * 4)[1] == "x" * 100_000


def test_what_somebody_takes_is_not_typed_ahead() -> None:
    assert pressed("hayn\x03", taken={"y", "c-c"}) == (["h", "a", "y", "n", "c-c"], "han")


def test_a_paste_is_never_taken_for_the_keys_in_it() -> None:
    names, ahead = pressed(pasted("y\ry"), taken={"y", "c-m"})
    assert (names, ahead) == (["<bracketed-paste>"], "y\ny")


def test_an_escape_at_the_very_end_is_heard() -> None:
    heard: list[str] = []

    def on_key(name: str) -> bool:
        heard.append(name)
        return True

    async def main() -> None:
        with create_pipe_input() as source:
            with Keyboard(source, on_key).listening():
                source.send_text(ESCAPE)
                await asyncio.sleep(0.01)
                assert heard == []  # it may be the beginning of an arrow
            assert heard == ["escape"]
            await asyncio.sleep(1)
            assert heard == ["escape"]

    simulate(main())


def test_keys_that_come_in_one_piece_do_not_come_alone() -> None:
    heard: list[tuple[str, bool]] = []

    async def main() -> None:
        with create_pipe_input() as source:

            def on_key(name: str) -> bool:
                heard.append((name, keys.alone))
                return False

            keys = Keyboard(source, on_key)
            with keys.listening():
                for piece in ("y", "y\r", UP):
                    source.send_text(piece)
                    await asyncio.sleep(0.05)

    simulate(main())
    assert heard == [("y", True), ("y", False), ("c-m", False), ("up", True)]


def test_a_first_handler_goes_before_the_other_for_one_block() -> None:
    heard: list[str] = []

    def on_key(name: str) -> bool:
        heard.append(f"other {name}")
        return False

    def first(name: str) -> bool:
        heard.append(f"first {name}")
        return name == "y"

    async def main() -> str:
        with create_pipe_input() as source:
            keys = Keyboard(source, on_key)
            with keys.listening(first):
                source.send_text("yn")
                await asyncio.sleep(0.05)
            with keys.listening():
                source.send_text("y")
                await asyncio.sleep(0.05)
            return keys.text

    assert simulate(main()) == "ny"
    assert heard == ["first y", "first n", "other n", "other y"]


# ---- the modes of the terminal ---------------------------------------------------------------


def test_ctrl_c_stays_a_key_between_two_readers_and_is_a_signal_for_others() -> None:
    main_end, terminal = os.openpty()

    def makes_signals() -> bool:
        return bool(termios.tcgetattr(terminal)[3] & termios.ISIG)

    async def main(stdin: TextIO) -> list[bool]:
        keys = Keyboard(create_input(stdin), lambda name: False)
        seen = [makes_signals()]
        with keys.raw():
            for _ in range(2):
                seen.append(makes_signals())
                with keys.listening():
                    seen.append(makes_signals())
                    with keys.suspended():
                        seen.append(makes_signals())
                    seen.append(makes_signals())
        return [*seen, makes_signals()]

    with open(main_end, "wb"), open(terminal, encoding="utf-8") as stdin:
        assert asyncio.run(main(stdin)) == [True, *[False, False, True, False] * 2, True]


# ---- what is to be seen of it ----------------------------------------------------------------


def test_what_is_typed_ahead_is_known_at_every_moment() -> None:
    seen: list[str] = []

    async def main() -> None:
        with create_pipe_input() as source:
            keys = Keyboard(source, lambda name: False)
            keys.changed = lambda: seen.append(keys.text)
            with keys.listening():
                for piece in ("a", "b", BACKSPACE, ENTER, "c", BACKSPACE, BACKSPACE, BACKSPACE):
                    source.send_text(piece)
                    await asyncio.sleep(0.05)

    simulate(main())
    assert seen == ["a", "ab", "a", "a", "a\nc", "a", "a", ""]


ROWS: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "a word": ("word", ["> word"]),
    "of a long line the end": ("word " * 10, ["> …d word word word "]),
    "lines": ("one\ntwo", ["> one", "  two"]),
    "of many lines the last": ("one\ntwo\nthree\nfour", ["  two", "  three", "  four"]),
    "nothing that acts": ("a\x1b[2Jb\tc", ["> ab c"]),
}


@pytest.mark.parametrize(("text", "rows"), ROWS.values(), ids=list(ROWS))
def test_what_is_typed_ahead_is_shown(text: str, rows: list[str]) -> None:
    assert [plain(row) for row in typed_rows(text, 20)] == rows


@given(st.text(max_size=200), st.integers(1, 30))
def test_rows_of_what_is_typed_ahead_are_never_wider_than_the_screen(text: str, width: int) -> None:
    rows = typed_rows(text, width)
    assert len(rows) <= 3
    assert all(cells(row) <= width for row in rows)
