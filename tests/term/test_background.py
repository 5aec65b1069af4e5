"""The question for the background of a terminal, and its answers among the keys."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.host.settings import Theme as ThemeChoice
from twofold.term.background import Answers, Rgb, choose_theme, parse_colour

WHITE, BLACK = Rgb(1, 1, 1), Rgb(0, 0, 0)
KIND = "\x1b[?62;22c"

COLOURS = {
    "rgb:ffff/ffff/ffff": WHITE,
    "rgb:ff/ff/ff": WHITE,
    "rgb:f/f/f": WHITE,
    "rgb:0000/0000/0000": BLACK,
    "RGB:FFFF/0000/ffff": Rgb(1, 0, 1),
    "rgba:ffff/ffff/ffff/8000": WHITE,
    "#ffffff": WHITE,
    "#fff": WHITE,
    "#ffff00000000": Rgb(1, 0, 0),
    "rgb:8/80/8000": Rgb(8 / 15, 128 / 255, 32768 / 65535),
    "rgb:ffff/ffff": None,
    "rgb:fffff/0/0": None,
    "#ffff": None,
    "white": None,
    "": None,
}


@pytest.mark.parametrize(("text", "colour"), COLOURS.items())
def test_a_colour_is_read_in_all_of_its_forms(text: str, colour: Rgb | None) -> None:
    assert parse_colour(text) == colour


THEMES: list[tuple[ThemeChoice, str, Mapping[str, str], str]] = [
    ("auto", "#fdf6e3", {}, "light"),
    ("auto", "#002b36", {}, "dark"),
    ("auto", "#fff", {"COLORFGBG": "15;0"}, "light"),
    ("auto", "", {}, "dark"),
    ("auto", "", {"COLORFGBG": "0;15"}, "light"),
    ("auto", "", {"COLORFGBG": "0;default;15"}, "light"),
    ("auto", "", {"COLORFGBG": "0;7"}, "light"),
    ("auto", "", {"COLORFGBG": "15;0"}, "dark"),
    ("auto", "", {"COLORFGBG": "15;8"}, "dark"),
    ("auto", "", {"COLORFGBG": "what"}, "dark"),
    ("dark", "#fff", {"COLORFGBG": "0;15"}, "dark"),
    ("light", "#000", {}, "light"),
]


@pytest.mark.parametrize(("wanted", "background", "environment", "name"), THEMES)
def test_the_theme_is_what_was_wanted_or_suits_the_background(
    wanted: ThemeChoice, background: str, environment: Mapping[str, str], name: str
) -> None:
    assert choose_theme(wanted, parse_colour(background), environment).name == name


# ---- among the keys ----------------------------------------------------------------------------

ENDS = ("\x07", "\x1b\\", "\x9c", "\udc9c")
KEYS = (
    "a",
    "]",
    "[",
    "\x1b[A",
    "\x1bb",
    "\x1b[1;5C",
    "ü",
    "\x1b[200~x\x1b[201~",
    "\x03",
    "11;rgb:",
)


@pytest.mark.parametrize("end", ENDS)
@given(
    st.lists(st.sampled_from(KEYS), max_size=4).map("".join),
    st.lists(st.sampled_from(KEYS), max_size=4).map("".join),
    st.lists(st.sampled_from(KEYS), max_size=4).map("".join),
    st.data(),
)
def test_any_split_takes_the_answers_out_and_leaves_the_keys(
    end: str, before: str, between: str, after: str, data: st.DataObject
) -> None:
    text = f"{before}\x1b]11;rgb:ffff/ffff/ffff{end}{between}{KIND}{after}"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    answers = Answers()
    pieces = [text[one:two] for one, two in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(map(answers.feed, pieces)) == before + between + after
    assert answers.colour == WHITE
    assert answers.complete


@given(st.lists(st.booleans(), min_size=40, max_size=40))
def test_an_answer_that_comes_byte_by_byte_reaches_no_input_however_slow_it_is(
    flushes: list[bool],
) -> None:
    answers, keys = Answers(), ""
    for sign, flush in zip(f"\x1b]11;rgb:ff/ff/ff\x1b\\{KIND}", flushes, strict=False):
        keys += answers.feed(sign) + (answers.flush() if flush else "")
    assert keys.strip("\x1b") == ""  # at most an Escape
    assert answers.complete
    assert answers.feed("typed\x1b") == "typed\x1b"


@pytest.mark.parametrize("key", ["\x1b", "\x1ba", "\x1b]", "\x1b[", "\x1bx]", "\x1b[B"])
def test_a_key_that_begins_like_an_answer_is_a_key(key: str) -> None:
    answers = Answers()
    made = answers.feed(key) + answers.flush()
    assert made + answers.feed("x") == f"{key}x"


def test_an_escape_counts_as_soon_as_nothing_follows() -> None:
    answers = Answers()
    assert (answers.feed("\x1b"), answers.flush(), answers.flush()) == ("", "\x1b", "")
    assert answers.feed("q]") == "q]"


@pytest.mark.parametrize("answer", ["\x1b]11;rgb:ffff/ff", "\x1b]11;#fff", "\x1b]11;"])
def test_an_answer_without_an_end_is_dropped_and_the_key_behind_it_is_not(answer: str) -> None:
    answers = Answers()
    assert answers.feed(f"{answer}\r") == "\r"
    assert answers.feed(f"{answer}\x1b[A") == "\x1b[A"
    assert answers.colour is None


def test_what_answers_something_else_is_not_touched() -> None:
    answers = Answers()
    for text in ("\x1b]10;rgb:0/0/0\x07", "\x1b[?2026;2$y", "\x1b[3;4R"):
        assert answers.feed(text) == text


def test_a_terminal_that_says_what_it_is_has_answered_everything() -> None:
    answers, changes = Answers(), []
    answers.on_change = lambda: changes.append((answers.colour, answers.complete))
    assert answers.feed(f"{KIND}\x1b]11;rgb:f/f/f\x07") == "\x1b]11;rgb:f/f/f\x07"
    assert changes == [(None, True)]
