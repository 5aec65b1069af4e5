"""Text of peers: pieces are made safe as if they came in one, and texts recognised, not kept."""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.markdown_texts import pieces_of
from twofold.text.safe import LONGEST_HELD, Pieces, Seen, sanitize

PARTS = [
    *(
        "a",
        "[",
        "]",
        "m",
        "0;",
        "(B",
        "\\",
        " ",
        "\r",
        "\n",
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x9b",
        "\x07",
    ),
    *("\x9c", "\x90", "\u200d", "\u200c", "\ufe0f", "❤", "\U0001f469", "\u202e", "\0", "\ud800"),
]


@example(parts=["\x1b]0;title\x1b\\", "a"], cuts=[1, 3, 9, 10])
@example(parts=["\x1b[31", ";1m"], cuts=[1, 2, 4, 6])
@given(st.lists(st.sampled_from(PARTS), max_size=20), st.lists(st.integers(0, 40), max_size=12))
def test_text_in_pieces_is_made_safe_like_all_of_it(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    pieces = Pieces()
    safe = "".join([pieces.add(piece) for piece in pieces_of(text, cuts)]) + pieces.end()
    assert safe == sanitize(text)


def test_a_sequence_that_is_never_closed_is_not_waited_for() -> None:
    pieces = Pieces()
    shown = "".join([pieces.add(char) for char in "\x1b]0;" + "x" * LONGEST_HELD])
    assert shown == "␛]0;" + "x" * LONGEST_HELD


pieces = st.lists(st.text(max_size=6), max_size=6)


def seen_after(parts: list[str]) -> Seen:
    seen = Seen()
    for part in parts:
        seen.add(part)
    return seen


@given(pieces, st.text(max_size=6))
def test_a_text_begins_with_what_came_however_it_was_cut(parts: list[str], rest: str) -> None:
    seen, whole = seen_after(parts), "".join(parts)
    assert seen.length == len(whole)
    assert seen.begins(whole + rest)
    assert seen.is_all_of(whole)
    assert seen.is_all_of(whole + rest) is (rest == "")


@given(pieces, st.text(max_size=30))
def test_another_text_is_distinguished(parts: list[str], other: str) -> None:
    seen, whole = seen_after(parts), "".join(parts)
    assert seen.is_all_of(other) is (other == whole)
    assert seen.begins(other) is other.startswith(whole)


def test_half_a_character_is_a_text_too() -> None:
    seen = Seen()
    seen.add("a\ud800")
    assert seen.is_all_of("a\ud800")
    assert not seen.is_all_of("a\ud801")
