"""Code in colours: the text stays as it is, whatever the lexer makes of it."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import DelegatingLexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from rich.style import Style

from twofold.styled import Parts, code
from twofold.styled.code import (
    LANGUAGES,
    LINES_BEFORE,
    LONGEST_LINE,
    MOST_BLANKS,
    PATIENCE,
    RATE,
    STRIKES,
    STYLES,
    Highlighter,
    allowance,
)
from twofold.term.lines import plain
from twofold.text import sanitize

NAMES = ["python", "pycon", "javascript", "c++", "bash", "console", "json", "yaml", "html"]
NAMES += ["markdown", "diff", "rust", "make", "php", "sql", "toml", "tex", "perl", "cobol"]

SNIPPETS = ['"""', "'", "/*", "*/", "<?php", "{", "}", "def f(x):", "#", "\\", "$(", "<<EOF", "EOF"]
SNIPPETS += [">>> 1", "@@ -1 +1 @@", "<b class=", "\t", "    ", "```", "---", "0x1f", "ünï", "漢"]

line_texts = st.one_of(
    st.lists(st.sampled_from(SNIPPETS), max_size=6).map("".join),
    st.text(max_size=30).map(lambda text: sanitize(text).replace("\n", " ")),
)


def texts(lines: list[Parts]) -> list[str]:
    return [plain(parts) for parts in lines]


def style_of(lines: list[Parts], word: str) -> str:
    (found,) = [style for parts in lines for text, style in parts if word in text]
    return str(found)


@given(st.sampled_from(NAMES), st.lists(st.lists(line_texts, max_size=8), max_size=4))
def test_the_text_of_a_coloured_line_is_the_line(language: str, batches: list[list[str]]) -> None:
    highlighter = Highlighter.for_language(language)
    for batch in batches:
        assert texts(highlighter.add(batch)) == batch


@pytest.mark.parametrize(
    ("language", "text", "word", "style"),
    [
        ("python", "return x", "return", "magenta"),
        ("Python", "return x", "return", "magenta"),
        (" py ", "x = 'a'", "'a'", "green"),
        ("python", "x = 12", "12", "cyan"),
        ("python", "def name(): pass", "name", "blue"),
        ("python", "class A: pass", "A", "bold blue"),
        ("python", "# why", "why", "dim italic"),
        ("python", "a + b", "+", ""),
        ("json", '{"a": true}', "true", "cyan"),
        ("sh", "echo 'x'", "'x'", "green"),
    ],
)
def test_words_of_a_language_have_their_colours(
    language: str, text: str, word: str, style: str
) -> None:
    assert style_of(Highlighter.for_language(language).add([text]), word) == style


@pytest.mark.parametrize(
    ("path", "text", "word", "style"),
    [
        ("/src/a.py", "return x", "return", "magenta"),
        ("a.rs", "fn main() {}", "fn", "magenta"),
        ("dir/Makefile", "# why", "why", "dim italic"),
    ],
)
def test_the_name_of_a_file_tells_its_language(path: str, text: str, word: str, style: str) -> None:
    assert style_of(Highlighter.for_path(path).add([text]), word) == style


@pytest.mark.parametrize(
    "highlighter",
    [
        Highlighter(),
        Highlighter.for_language("no such language"),
        Highlighter.for_language(""),
        Highlighter.for_language("text"),
        Highlighter.for_language("python" * 1000),
        Highlighter.for_language("\0[*"),
        Highlighter.for_path(""),
        Highlighter.for_path("/"),
        Highlighter.for_path("README"),
        Highlighter.for_path("x" * 5000 + ".py"),
        Highlighter.for_path("[!a.zz\0"),
    ],
)
def test_what_nobody_knows_is_plain(highlighter: Highlighter) -> None:
    assert highlighter.add(["return 'x'", ""]) == [(("return 'x'", ""),), ()]


def test_a_string_over_several_lines_is_coloured_in_later_lines_too() -> None:
    highlighter = Highlighter.for_language("python")
    highlighter.add(["x = '''first", "second"])
    assert highlighter.add(["return third", "''' + y"]) == [
        (("return third", "green"),),
        (("''' ", "green"), ("+ y", "")),
    ]


def test_lines_one_by_one_are_coloured_as_lines_together() -> None:
    source = ["def f():", '    """Says', "    much.", '    """', "    return 'x'", "", "x = f()"]
    together = Highlighter.for_language("python").add(source)
    highlighter = Highlighter.for_language("python")
    assert [parts for line in source for parts in highlighter.add([line])] == together


def test_a_string_whose_beginning_is_out_of_sight_does_not_colour_the_code_after_it() -> None:
    doc = ["def f():", '    """Says', *["    and on"] * (LINES_BEFORE - 5), '    """']
    highlighter = Highlighter.for_language("python")
    for line in [*doc, "    x = 1", "", "def g():", *["    x = 2"] * 12]:
        highlighter.add([line])
    assert style_of(highlighter.add(["    return x"]), "return") == "magenta"


def test_a_long_line_is_not_coloured_and_those_around_it_are() -> None:
    long = "return " * LONGEST_LINE
    made = Highlighter.for_language("python").add(["return a", long, "return b"])
    assert made[1] == ((long, ""),)
    assert [style_of([parts], "return") for parts in (made[0], made[2])] == ["magenta", "magenta"]


class Lexer:
    """Replaces a lexer of Pygments; it returns the given tokens."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.read: list[int] = []

    def get_tokens(self, text: str) -> Any:
        self.read.append(len(text))
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


@pytest.mark.parametrize(
    "given",
    [
        ValueError("no"),
        RecursionError(),
        [],
        [(("Keyword",), "return")],
        [(("Keyword",), "other\n")],
        [(("Keyword",), "return\n"), ((), "more\n")],
        [(("Keyword",), "RETURN\n")],
        [None],
        [(("Keyword",), 7)],
        None,
    ],
    ids=repr,
)
def test_a_lexer_that_fails_or_tells_of_another_text_gives_plain_lines(given: Any) -> None:
    assert Highlighter(Lexer(given)).add(["return"]) == [(("return", ""),)]


def test_what_is_read_again_does_not_grow_with_what_was_read() -> None:
    lexer = Lexer([])
    highlighter = Highlighter(lexer)
    for _ in range(500):
        highlighter.add(["x" * 50])
    assert max(lexer.read) <= (LINES_BEFORE + 1) * 51
    highlighter.add(["y" * LONGEST_LINE] * 4)
    highlighter.add(["z"])
    assert lexer.read[-1] < 3 * LONGEST_LINE


def test_many_lines_are_read_in_pieces() -> None:
    lexer = Lexer([])
    Highlighter(lexer).add(["x" * 100] * 10_000)
    assert max(lexer.read) < 4 * LONGEST_LINE


# ---- what takes too long -----------------------------------------------------------------------


class Clock:
    """A clock that goes on by `step` whenever a lexer gives a token."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step
        self.tokens = 0

    def __call__(self) -> float:
        return self.now

    def get_tokens(self, text: str) -> Iterator[tuple[tuple[str, ...], str]]:
        for sign in text:
            self.now += self.step
            self.tokens += 1
            yield ("Keyword",), sign


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The lexer of Python takes a hundredth of its patience for each token."""
    clock = Clock(PATIENCE / 100)
    monkeypatch.setattr(code, "_lexer", lambda name: clock)
    monkeypatch.setattr(code, "_strikes", Counter[str]())
    return clock


def highlighter(clock: Clock, name: str = "python") -> Highlighter:
    return Highlighter(name=name, clock=clock, wall=clock)


def test_the_clock_is_asked_after_every_token_and_the_rest_is_plain(slow: Clock) -> None:
    made = highlighter(slow).add(["x" * 900] * 10)
    assert made == [(("x" * 900, ""),)] * 10
    assert slow.tokens <= 101


def test_a_lexer_that_was_too_slow_is_not_used_again_in_any_piece_of_code(slow: Clock) -> None:
    for _ in range(STRIKES):
        highlighter(slow).add(["x" * 900])
    tokens = slow.tokens
    assert texts(highlighter(slow).add(["x"])) == ["x"]
    assert slow.tokens == tokens
    highlighter(slow, "rust").add(["x"])
    assert slow.tokens > tokens


def test_code_that_is_slow_in_every_line_is_plain_after_a_while(slow: Clock) -> None:
    slow.step = 2 * RATE
    one = highlighter(slow)
    added = [one.add(["xyz"]) for _ in range(10_000)]
    assert slow.now < 3 * PATIENCE
    assert added[0] == [(("xyz", "magenta"),)]
    assert added[-1] == [(("xyz", ""),)]


def test_code_of_the_usual_speed_is_coloured_to_its_end(slow: Clock) -> None:
    slow.step = RATE / 4
    one = highlighter(slow)
    assert [one.add(["xyz"]) for _ in range(10_000)][-1] == [(("xyz", "magenta"),)]


def test_colouring_ends_with_its_allowance_and_goes_on_with_the_next(slow: Clock) -> None:
    slow.step = RATE / 2
    with allowance(PATIENCE):
        for _ in range(1_000):
            with allowance(PATIENCE):  # counts within the first
                highlighter(slow).add(["x" * 100])
        assert slow.now < 2 * PATIENCE
        assert highlighter(slow).add(["x"]) == [(("x", ""),)]
    with allowance(PATIENCE):
        assert highlighter(slow).add(["x"]) == [(("x", "magenta"),)]


def test_a_lexer_that_is_kept_waiting_by_other_work_is_not_slow(slow: Clock) -> None:
    wall = Clock(0)

    def later() -> float:
        wall.now += PATIENCE
        return wall.now

    slow.step = RATE / 2
    one = Highlighter(name="python", clock=slow, wall=later)
    assert one.add(["xyz"] * 100) == [(("xyz", "magenta"),)] * 100


# ---- hostile text --------------------------------------------------------------------------------

SIGNS = [
    "\t",
    " ",
    '"',
    "'",
    "`",
    "(",
    "[",
    "{",
    "<",
    "\\",
    "/*",
    "#",
    "a",
    "0",
    "a ",
    "$'\\7",
    "\\7",
]
SIGNS += ["\\\\", "s!\\\\", "a\n", "\n", " \n\n", "<<A\n", '"\n', "<!--", "{{", "${", "a.b(", "%0"]


def hostile(sign: str) -> list[str]:
    """Lines of one sign without end: one as long as it may be, then short ones."""
    text = sign * (LONGEST_LINE // len(sign))
    if "\n" in sign:
        return text.split("\n")
    return [text, *[text[at : at + 79] for at in range(0, len(text), 79)]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_hostile_text_costs_a_listed_lexer_little(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "_strikes", Counter[str]())
    Highlighter(name=language).add(["x"])  # loads it
    for sign in SIGNS:
        lines = hostile(sign)
        began = time.process_time()
        made = Highlighter(name=language).add(lines)
        # work, not waiting; what is measured is a tenth of that, and without a bound it is hours
        assert time.process_time() - began < 3, sign
        assert texts(made) == lines


def test_every_listed_lexer_exists_and_gives_tokens_as_it_reads() -> None:
    lexers = {name: get_lexer_by_name(name) for name in LANGUAGES}
    late = [name for name, lexer in lexers.items() if isinstance(lexer, DelegatingLexer)]
    assert late == ["pycon"]  # which is as fast as Python in so few characters


@pytest.mark.parametrize(
    "name", ["easytrieve", "autohotkey", "racket", "html+php", "http", "x" * 99]
)
def test_a_language_that_is_not_listed_is_plain(name: str) -> None:
    assert Highlighter.for_language(name).add(["return 'x'"]) == [(("return 'x'", ""),)]


def test_code_inside_of_markdown_is_not_given_to_a_lexer_that_is_not_listed() -> None:
    lexer = code._lexer("markdown")
    lines = "```easytrieve\nIF 'a'\n```\n"
    kinds = {token for token, value in lexer.get_tokens(lines) if "IF" in value}
    assert not any("Keyword" in kind for kind in map(str, kinds))


def test_blanks_in_a_row_are_kept_from_lexers_and_shown() -> None:
    lexer = Lexer([])
    lines = ["a" + " " * MOST_BLANKS + "b", "a" + " " * (MOST_BLANKS + 1) + "b", "c" + "\t" * 900]
    lines += [" " * 900, *[""] * 500, "d"]
    assert texts(Highlighter(lexer).add(lines)) == lines
    assert max(lexer.read) < 2 * MOST_BLANKS


def test_blanks_at_the_end_of_a_line_leave_its_colours() -> None:
    made = Highlighter.for_language("python").add(["return  ", "", "", "return x\t"])
    assert [style_of([made[place]], "return") for place in (0, 3)] == ["magenta", "magenta"]
    assert texts(made) == ["return  ", "", "", "return x\t"]


def test_names_of_languages_and_files_cost_nothing_to_look_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code._known()
    monkeypatch.setattr("pygments.lexers.get_all_lexers", None)
    monkeypatch.setattr("pygments.lexers.get_lexer_by_name", None)
    for number in range(1_000):
        Highlighter.for_language(f"no{number}").add(["x"])
        Highlighter.for_path(f"no.no{number}").add(["x"])


def test_a_line_that_holds_a_newline_after_all_keeps_its_text() -> None:
    made = Highlighter.for_language("python").add(["return\nx", "return y"])
    assert texts(made) == ["return\nx", "return y"]


def test_every_style_is_one_and_can_be_read_on_dark_and_light() -> None:
    for style in STYLES.values():
        parsed = Style.parse(style)
        assert parsed.bgcolor is None
        assert parsed.color is None or parsed.color.name in {
            *("red", "green", "blue", "magenta", "cyan"),
        }


def test_pygments_is_not_imported_before_there_is_code_to_colour() -> None:
    script = "import sys, twofold.styled.code; print('pygments' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_lexers_are_found_once() -> None:
    first = Highlighter.for_language("python").add(["return"])
    found = code._lexer.cache_info().hits
    assert Highlighter.for_language("PYTHON").add(["return"]) == first
    assert code._lexer.cache_info().hits == found + 1
