"""Keys that are pressed while no prompt waits for them."""

import asyncio
from collections.abc import Collection

import pytest
from prompt_toolkit.input import create_pipe_input

from tests.simulated import simulate
from twofold.term.input.keys import Typed

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
            keys = Typed(source, on_key)
            with keys.listening():
                for piece in typed:
                    source.send_text(piece)
                    await asyncio.sleep(0.05)  # on a clock that jumps
            ahead = keys.ahead()
            assert keys.ahead() == ""
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
            with Typed(source, on_key).listening():
                source.send_text(ESCAPE)
                await asyncio.sleep(0.01)
                assert heard == []  # it may be the beginning of an arrow
            assert heard == ["escape"]
            await asyncio.sleep(1)
            assert heard == ["escape"]

    simulate(main())
