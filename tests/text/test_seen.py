"""Texts that are recognised without being kept."""

from hypothesis import given
from hypothesis import strategies as st

from twofold.text.safe import Seen

pieces = st.lists(st.text(max_size=6), max_size=6)


@given(pieces, st.text(max_size=6))
def test_a_text_begins_with_what_came_however_it_was_cut(parts: list[str], rest: str) -> None:
    seen = Seen()
    for part in parts:
        seen.add(part)
    whole = "".join(parts)
    assert seen.length == len(whole)
    assert seen.begins(whole + rest)
    assert seen.is_all_of(whole)
    assert seen.is_all_of(whole + rest) is (rest == "")


@given(pieces, st.text(max_size=30))
def test_another_text_is_told_apart(parts: list[str], other: str) -> None:
    seen = Seen()
    for part in parts:
        seen.add(part)
    whole = "".join(parts)
    assert seen.is_all_of(other) is (other == whole)
    assert seen.begins(other) is other.startswith(whole)


def test_half_a_character_is_a_text_too() -> None:
    seen = Seen()
    seen.add("a\ud800")
    assert seen.is_all_of("a\ud800")
    assert not seen.is_all_of("a\ud801")
