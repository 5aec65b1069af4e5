"""The output of a command of the person's: whole while it is short, bounded however long it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.term.command_output import FIRST, LARGEST, LAST, LONGEST, CommandOutput


def outputs(pieces: list[bytes]) -> tuple[list[str], str]:
    """The lines to show for these pieces, and the text that is kept."""
    output = CommandOutput()
    shown = [line for piece in pieces for line in output.feed(piece)]
    return [*shown, *output.end()], output.text


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_what_is_kept_is_what_was_shown_however_it_arrives(pieces: list[bytes]) -> None:
    shown, text = outputs(pieces)
    assert text == "\n".join(shown)
    assert outputs([b"".join(pieces)])[0] == shown
    assert not any(char < " " and char != "\t" for line in shown for char in line)


@given(st.lists(st.sampled_from(["a", "bb", "", "längst"])))
def test_a_short_output_is_shown_as_it_is(lines: list[str]) -> None:
    assert outputs(["".join(f"{line}\n" for line in lines).encode()])[0] == lines


def test_lines_are_shown_when_they_have_ended_and_the_last_one_at_the_end() -> None:
    output = CommandOutput()
    assert output.feed(b"one\ntw") == ["one"]
    assert output.feed(b"o\n\x1b[31mthr") == ["two"]
    assert output.end() == ["thr"]


def test_a_progress_bar_is_shown_in_its_last_state() -> None:
    assert outputs([b"10%\r50%\r100%\ndone\n"])[0] == ["100%", "done"]


@pytest.mark.parametrize("left", [0, 1, 2, 5000])
def test_of_a_long_output_the_beginning_and_the_end_are_shown(left: int) -> None:
    count = FIRST + LAST + left
    shown, _ = outputs([b"%d\n" % number for number in range(count)])
    mark = [f"… {left:,} line{'' if left == 1 else 's'} not shown …"] if left else []
    last = [f"{number}" for number in range(count - LAST, count)]
    assert shown == [*(f"{number}" for number in range(FIRST)), *mark, *last]


def test_long_lines_are_cut_and_count() -> None:
    shown, text = outputs([b"x" * 100_000 + b"\n"] * 1000)
    assert max(map(len, shown)) == LONGEST
    assert len(text) < 2 * LARGEST
