"""Reports of the focus arrive among the keys, and are none."""

import asyncio
import os

import pytest
from prompt_toolkit.key_binding import KeyPress

from twofold.term.input.editor import key_name
from twofold.term.input.focus import AWAY, Presence
from twofold.term.input.terminal_input import TerminalInput

IN, OUT = "\x1b[I", "\x1b[O"
TYPED = [
    (f"a{OUT}b", ["a", "b"], True),
    (f"ab{OUT}", ["a", "b"], False),
    (f"{OUT}{IN}", [], True),
    (f"{OUT}", [], False),
    (f"\x1b{OUT}", ["escape"], False),
    (f"{OUT}\x1b[A", ["up"], True),
    (f"{OUT}\r", ["c-m"], True),
    (IN, [], True),
    (f"{OUT}y", ["y"], True),
    ("I[O", ["I", "[", "O"], None),
    ("\x1b[G", ["<ignore>"], None),
]


@pytest.mark.parametrize(("typed", "keys", "focused"), TYPED)
def test_a_report_is_no_key_and_does_not_keep_a_key_company(
    typed: str, keys: list[str], focused: bool | None
) -> None:
    primary, secondary = os.openpty()
    presence = Presence(0.0)

    async def read() -> list[KeyPress]:
        return [*source.read_keys(), *source.flush_keys()]

    with open(secondary, encoding="utf-8") as stdin:
        source = TerminalInput(stdin, presence)
        with source.raw_mode():
            os.write(primary, typed.encode())
            pressed = asyncio.run(read())
    os.close(primary)
    assert list(map(key_name, pressed)) == keys
    assert presence.focused is focused


def test_someone_is_away_by_the_focus_or_by_the_time_since_the_last_key() -> None:
    presence = Presence(100.0)
    assert presence.away_at(101.0) == 100.0 + AWAY
    assert presence.away_at(200.0) == 200.0
    presence.note_focus(False)
    assert presence.away_at(101.0) == 101.0
    presence.note_focus(True)
    assert presence.away_at(1000.0) is None
    presence.note_focus(False)
    presence.note_key(1001.0)  # the report that it has the focus again was lost
    assert presence.away_at(1000.0) is None


def test_a_return_is_reported() -> None:
    presence = Presence(0.0)
    returned: list[bool | None] = []
    presence.on_return = lambda: returned.append(presence.focused)
    for focused in (False, True, False, True):
        presence.note_focus(focused)
    assert returned == [True, True]
