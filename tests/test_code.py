"""Code in colours: the text stays as it is, whatever the lexer makes of it."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from twofold.term.content import code
from twofold.term.content.code import LINES_BEFORE, LONGEST_LINE, PATIENCE, STYLES, Highlighter
from twofold.term.lines import Parts, plain
from twofold.text import sanitize

LANGUAGES = ["python", "pycon", "javascript", "c++", "bash", "console", "json", "yaml", "html"]
LANGUAGES += ["markdown", "diff", "rust", "make", "php", "sql", "toml", "tex", "perl", "cobol"]

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


@given(st.sampled_from(LANGUAGES), st.lists(st.lists(line_texts, max_size=8), max_size=4))
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
    """What stands for a lexer of Pygments; it gives what it was told to give."""

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


def test_code_that_takes_too_long_is_plain_from_there_on() -> None:
    lexer = Lexer([(("Keyword",), "return\n")])
    times = iter([1.0, 1.0 + PATIENCE, 2.0, 2.1 + PATIENCE])
    highlighter = Highlighter(lexer, clock=lambda: next(times))
    for text, expected in (("return", "return"), ("other", "other"), ("return", "return")):
        assert texts(highlighter.add([text])) == [expected]
    assert len(lexer.read) == 2


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
    told = "import sys, twofold.term.content.code; print('pygments' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_lexers_are_found_once() -> None:
    first = Highlighter.for_language("python")
    found = code._lexer_by_name.cache_info().hits
    second = Highlighter.for_language("PYTHON")
    assert code._lexer_by_name.cache_info().hits == found + 1
    assert first.add(["return"]) == second.add(["return"])
