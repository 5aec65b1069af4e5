"""Long pastes: marks in the input, the text in the message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.term.input.pastes import MOST_CHARACTERS, MOST_LINES, Pastes

LONG = "\n".join(["a line"] * 2000)

SHOWN = {
    "nothing": ("", ""),
    "a word": ("hello", "hello"),
    "as many lines as are shown": ("x\n" * MOST_LINES, "x\n" * MOST_LINES),
    "a line more": ("x\n" * (MOST_LINES + 1), "[pasted #1: 9 lines]"),
    "a last line without an end": ("x\n" * MOST_LINES + "x", "[pasted #1: 9 lines]"),
    "as many characters as are shown": ("x" * MOST_CHARACTERS, "x" * MOST_CHARACTERS),
    "a character more": ("x" * (MOST_CHARACTERS + 1), "[pasted #1: 801 characters]"),
    "thousands of lines": (LONG, "[pasted #1: 2,000 lines]"),
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=list(SHOWN))
def test_a_long_paste_is_shown_as_a_mark(text: str, shown: str) -> None:
    pastes = Pastes()
    assert pastes.shown(text) == shown
    assert pastes.full(shown) == text


def test_each_paste_has_a_number_of_its_own() -> None:
    pastes = Pastes()
    first, second = pastes.shown(LONG), pastes.shown(LONG.upper())
    assert (first, second) == ("[pasted #1: 2,000 lines]", "[pasted #2: 2,000 lines]")
    assert pastes.full(f"{second} and {first}") == f"{LONG.upper()} and {LONG}"


def test_a_mark_that_was_changed_or_never_made_stays_as_it_is() -> None:
    pastes = Pastes()
    mark = pastes.shown(LONG)
    for text in (mark[:-1], mark.replace("#1", "#2"), mark.replace("2,000", "2,001"), "[pasted]"):
        assert pastes.full(f"see {text}") == f"see {text}"


def test_a_mark_inside_a_paste_is_not_put_back() -> None:
    pastes = Pastes()
    mark = pastes.shown(LONG)
    quoted = mark + "\n" + LONG
    assert pastes.full(pastes.shown(quoted)) == quoted


def test_a_short_paste_that_looks_like_a_mark_of_ours_becomes_one_itself() -> None:
    pastes = Pastes()
    mark = pastes.shown(LONG)
    shown = pastes.shown(mark)
    assert shown == "[pasted #2: 24 characters]"
    assert pastes.full(shown) == mark


def test_no_mark_is_made_that_was_typed_before() -> None:
    pastes = Pastes()
    typed = pastes.typed("[pasted #1: 2,000 lines]")
    assert pastes.shown(LONG) == "[pasted #2: 2,000 lines]"
    assert pastes.full(typed) == typed


def test_pieces_are_typed_and_pasted_by_turns() -> None:
    pastes = Pastes()
    mark = pastes.shown(LONG)
    assert pastes.pieces(f"a{mark}{mark}b") == ["a", LONG, "", LONG, "b"]
    assert pastes.pieces("") == [""]


def test_pastes_of_another_day_are_counted_apart() -> None:
    pastes = Pastes()
    shown = pastes.joined(["fix ", LONG, ""])
    assert shown == "fix [pasted before #1: 2,000 lines]"
    assert pastes.full(shown) == f"fix {LONG}"
    assert pastes.shown(LONG) == "[pasted #1: 2,000 lines]"


def test_the_mark_at_the_end_is_found_to_be_deleted_as_one() -> None:
    pastes = Pastes()
    mark = pastes.shown(LONG)
    assert pastes.mark_before(f"see {mark}") == mark
    for text in ("", "]", "see [1]", f"{mark} ", mark[1:], mark.replace("#1", "#2")):
        assert pastes.mark_before(text) == ""


MARKLIKE = st.builds(
    "[pasted{} #{}: {} {}]".format,
    st.sampled_from(["", " before"]),
    st.integers(1, 4),
    st.integers(1, 12),
    st.sampled_from(["lines", "characters"]),
)
PASTED = st.one_of(
    st.text(max_size=20), st.integers(9, 12).map(lambda count: "y\n" * count), MARKLIKE
)


@given(st.lists(PASTED, max_size=8))
def test_what_was_pasted_is_what_is_sent(texts: list[str]) -> None:
    pastes = Pastes()
    shown = [pastes.shown(text) for text in texts]
    # blanks between them: two pastes that make a mark together are one, for nobody can tell
    assert pastes.full(" ".join(shown)) == " ".join(texts)


@given(st.lists(PASTED, min_size=1, max_size=7).filter(lambda texts: len(texts) % 2 == 1))
def test_pieces_of_another_day_add_up_to_the_same_text(pieces: list[str]) -> None:
    pastes = Pastes()
    assert pastes.full(pastes.joined(pieces)) == "".join(pieces)


@given(st.text())
def test_text_without_a_paste_is_never_changed(text: str) -> None:
    assert Pastes().full(text) == text
