"""Which words of a changed line changed, and which line became which."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.view.diff import DiffLine, DiffLineKind, Range, changed_words, pairs

WORDS = [
    "foo",
    "bar",
    "x",
    "1",
    "12",
    " ",
    "  ",
    "(",
    ")",
    ".",
    "_a",
    "é",
    "e\u0301",
    "\t",
    "👩\u200d💻",
]
line_texts = st.lists(st.sampled_from(WORDS), max_size=30).map("".join)
any_line = st.one_of(line_texts, st.text(max_size=40), st.text("ab ", max_size=900))


def without(text: str, ranges: list[Range]) -> str:
    for start, end in reversed(ranges):
        text = text[:start] + text[end:]
    return text


def marked(text: str, ranges: list[Range]) -> list[str]:
    return [text[start:end] for start, end in ranges]


@given(any_line, any_line)
def test_outside_the_ranges_the_lines_are_equal(old: str, new: str) -> None:
    in_old, in_new = changed_words(old, new)
    if in_old or in_new:
        assert without(old, in_old) == without(new, in_new)


@given(any_line, any_line)
def test_ranges_are_ordered_disjoint_and_inside_the_line(old: str, new: str) -> None:
    for text, ranges in zip((old, new), changed_words(old, new), strict=True):
        edges = [edge for each in ranges for edge in each]
        assert edges == sorted(edges)
        assert all(start < end for start, end in ranges)
        assert not edges or (edges[0] >= 0 and edges[-1] <= len(text))


@given(any_line)
def test_a_line_and_itself_have_no_changed_words(text: str) -> None:
    assert changed_words(text, text) == ([], [])


@pytest.mark.parametrize(
    ("old", "new", "in_old", "in_new"),
    [
        ("return a + b", "return a - b", ["+"], ["-"]),
        ("x = foo(1)", "x = foo(1, 2)", [], [", 2"]),
        ("x = foo(1, 2)", "x = foo(1)", [", 2"], []),
        ("timeout = 10", "timeout = 100", ["10"], ["100"]),
        ("first_name = read()", "last_name = read()", ["first_name"], ["last_name"]),
        ("    return value", "        return value", ["    "], ["        "]),
        ("say one two now please", "say three four now please", ["one two"], ["three four"]),
        ("int x; // cafe\u0301", "int x; // cafe", ["cafe\u0301"], ["cafe"]),
        ("same", "same\r", [], ["\r"]),
        ("    ", "\t", ["    "], ["\t"]),
    ],
)
def test_the_words_that_changed_are_marked(
    old: str, new: str, in_old: list[str], in_new: list[str]
) -> None:
    ranges = changed_words(old, new)
    assert (marked(old, ranges[0]), marked(new, ranges[1])) == (in_old, in_new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import os", "def main() -> None:"),
        ("", "something"),
        ("a = 1", ""),
        ("abc", "xyz"),
    ],
)
def test_lines_with_little_in_common_are_not_marked(old: str, new: str) -> None:
    assert changed_words(old, new) == ([], [])


def test_of_long_lines_only_the_common_ends_are_left_out() -> None:
    old = "head " + "a b " * 100 + "one " + "c d " * 100 + "two tail"
    new = old.replace("one", "1").replace("two", "2")
    in_old, in_new = changed_words(old, new)
    assert len(in_old) == len(in_new) == 1
    assert old[: in_old[0][0]].endswith("a b ")
    assert old[in_old[0][1] :] == " tail"


# ---- pairs -------------------------------------------------------------------------------------

KINDS: dict[str, DiffLineKind] = {
    "+": "added",
    "-": "removed",
    " ": "context",
    "@": "hunk",
    "#": "file",
    "\\": "note",
}


def lines(*texts: str) -> list[DiffLine]:
    return [DiffLine(KINDS[text[0]], text[1:]) for text in texts]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        (["-a", "+b"], [(0, 1)]),
        (["-a", "-b", "+c", "+d"], [(0, 2), (1, 3)]),
        (["+a", "-b"], []),
        (["-a", " x", "+b"], []),
        (["-a", "@@", "+b"], []),
        (["-a", "#f", "+b"], []),
        (["-a", "\\ No newline", "+b"], [(0, 2)]),
        (["-a", "+b", "-c", "+d"], [(0, 1), (2, 3)]),
        (["-total = 1", "+import os", "+total = 2"], [(0, 2)]),
        (["-import os", "-total = 1", "+total = 2"], [(1, 2)]),
        (["-a b", "-c d", "-e f", "+e f g", "+z"], [(2, 3)]),
        (["-a", "+b", "+c"], []),
    ],
)
def test_a_removed_line_goes_with_the_added_line_it_became(
    given: list[str], expected: list[tuple[int, int]]
) -> None:
    assert pairs(lines(*given)) == expected


@given(st.lists(st.tuples(st.sampled_from("+- @\\"), st.sampled_from(["a b", "b c", "d"]))))
def test_pairs_are_of_a_removed_and_a_later_added_line_and_never_cross(
    drawn: list[tuple[str, str]],
) -> None:
    given_lines = lines(*[sign + text for sign, text in drawn])
    made = pairs(given_lines)
    assert all(old < new for old, new in made)
    assert {given_lines[old].kind for old, _ in made} <= {"removed"}
    assert {given_lines[new].kind for _, new in made} <= {"added"}
    for (old, new), (next_old, next_new) in pairwise(made):
        assert old < next_old
        assert new < next_new


def test_a_long_run_is_paired_in_order() -> None:
    given_lines = lines(*["-x"] * 5000, *["+y"] * 4000)
    assert pairs(given_lines) == [(place, 5000 + place) for place in range(4000)]
