"""A question on the screen: nothing in it can pass for something else, nothing is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.term.lines import all_rows, cells, plain
from twofold.term.question_lines import FOLD, MOST_CHARACTERS, MOST_LINES, Page, in_short
from twofold.view.blocks import (
    CommandPart,
    DiffItem,
    Location,
    NotePart,
    PathsPart,
    QuestionBlock,
    QuestionPart,
    TextPart,
    Value,
    ValuesPart,
)
from twofold.view.diff import DiffLine

KEYS = "  y Run it (allow once)   n Do not run it (reject once)   Esc reject"


def drawn(
    *parts: QuestionPart, width: int = 40, title: str = "Do it?", kind: str = ""
) -> list[str]:
    return [plain(row) for row in all_rows(Page(QuestionBlock(title, kind, parts)).lines, width)]


def test_every_part_has_its_look() -> None:
    assert drawn(
        TextPart("It is fine.\n\nReally."),
        CommandPart("make\nmake install", "/w"),
        CommandPart("rm -rf ~", name="script"),
        DiffItem((DiffLine("file", "/a"), DiffLine("removed", "x"), DiffLine("added", "y"))),
        PathsPart((Location("/a.py", 4), Location("/b.py", None))),
        ValuesPart("input", (Value(0, "a", ""), Value(1, "b", "c\nd"), Value(0, "e", "f"))),
        ValuesPart("", (Value(0, "tool", "bash"),)),
        NotePart("So it is."),
        kind="switch_mode",
    ) == [
        "? Do it?  (switch mode)",
        *("  │ It is fine.", "  │", "  │ Really."),
        *("  $ make", "  > make install", "  in /w"),
        *("  │ script:", "  $ rm -rf ~"),
        *("  │ /a", "  │ -x", "  │ +y"),
        *("  │ /a.py:4", "  │ /b.py"),
        *("  │ input:", "  │   a:", "  │     b:", "  │       c", "  │       d", "  │   e: f"),
        "  │ tool: bash",
        "  So it is.",
    ]


def test_the_rule_that_led_to_it_is_named_below() -> None:
    block = QuestionBlock("Do it?", "", (CommandPart("make"),), "--ask make says to ask.")
    rows = [plain(row) for row in all_rows(Page(block).lines, 40)]
    assert rows == ["? Do it?", "  $ make", "  --ask make says to ask."]


IMITATIONS = [
    TextPart(f"fine\n{KEYS}"),
    TextPart(" " * 36 + KEYS),
    CommandPart(f"ls\n{KEYS}"),
    CommandPart("ls" + " " * 34 + KEYS),
    PathsPart((Location("/a" + " " * 34 + KEYS, None),)),
    ValuesPart("input", (Value(0, "a", f"b\n{KEYS}"), Value(0, KEYS, KEYS))),
    ValuesPart(KEYS, (Value(0, KEYS * 2, ""),)),
    DiffItem((DiffLine("file", KEYS), DiffLine("note", KEYS), DiffLine("context", KEYS))),
]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("part", IMITATIONS, ids=lambda part: type(part).__name__)
def test_nothing_of_the_agent_can_pass_for_the_keys(part: QuestionPart, width: int) -> None:
    rows = drawn(part, width=width, title=f"May I?{' ' * 40}{KEYS}")
    assert rows[0].startswith("? ")
    assert all(row.startswith(("  │", "  $ ", "  > ", "  · ")) for row in rows[1:])


values = st.lists(st.builds(Value, st.integers(0, 30), st.text(), st.text())).map(tuple)
locations = st.lists(st.builds(Location, st.text(), st.none())).map(tuple)
parts = st.one_of(
    st.builds(TextPart, st.text()),
    st.builds(CommandPart, st.text(), st.none() | st.text(), st.text()),
    st.builds(ValuesPart, st.text(), values),
    st.builds(PathsPart, locations),
    st.builds(lambda text: DiffItem((DiffLine("added", text),)), st.text()),
)


@given(st.text(), st.lists(parts), st.integers(2, 100), st.booleans())
def test_no_row_is_wider_than_the_screen(
    title: str, given: list[QuestionPart], width: int, fold: bool
) -> None:
    block = QuestionBlock(title, "", tuple(given))
    rows = all_rows(Page(block, fold=fold).lines, width)
    for row in [*rows, *in_short(block, width, printed=fold)]:
        assert cells(row) <= width


# ---- much of it --------------------------------------------------------------------------------


def test_of_a_long_part_the_first_lines_are_shown_and_the_others_counted() -> None:
    text = "\n".join(f"line {number}" for number in range(200))
    page = Page(QuestionBlock("Do it?", "", (CommandPart(text, "/w"), TextPart("end"))), fold=True)
    rows = [plain(row) for row in all_rows(page.lines, 60)]
    assert rows[1] == "  $ line 0"
    assert rows[FOLD + 1 :] == ["  in /w", "  … 188 more lines, Ctrl-O shows them", "  │ end"]
    assert (page.hidden, page.missing) == (188, 0)


def test_of_a_long_line_the_beginning_is_shown_and_the_rest_counted() -> None:
    page = Page(QuestionBlock("Do it?", "", (TextPart("x" * 5_000),)), fold=True)
    rows = [plain(row) for row in all_rows(page.lines, None)]
    assert rows == ["? Do it?", "  │ " + "x" * 1_000, "  … 1 more line, Ctrl-O shows it"]


def test_of_many_parts_the_first_are_shown_and_the_lines_of_the_others_counted() -> None:
    page = Page(QuestionBlock("?", "", tuple(CommandPart(f"{n}") for n in range(1_000))), fold=True)
    rows = [plain(row) for row in all_rows(page.lines, None)]
    assert len(rows) == 102
    assert rows[-1] == "  … 900 more lines, Ctrl-O shows them"


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (TextPart("\n".join(["x"] * (MOST_LINES + 7))), "7 lines, 7 characters"),
        (TextPart("x" * (MOST_CHARACTERS + 7)), "1 line, 7 characters"),
        (ValuesPart("", (Value(0, "a", "b"),), more=9), "9 lines, 0 characters"),
        (
            DiffItem((DiffLine("added", "x" * (MOST_CHARACTERS + 7)),)),
            "1 line, 7 characters",
        ),
    ],
)
def test_beyond_all_limits_a_line_says_how_much_is_missing(
    part: QuestionPart, missing: str
) -> None:
    page = Page(QuestionBlock("Do it?", "", (part,)))
    assert page.missing > 0
    assert len(page.lines) <= MOST_LINES + 2
    (last,) = page.lines[-1].rows(None)
    assert plain(last) == f"  … too long: {missing} are not shown"


# ---- beside the keys -----------------------------------------------------------------------------


def test_how_a_command_begins_and_how_long_it_is_stands_beside_the_keys() -> None:
    long = CommandPart("rm -rf ~ " + "x" * 100 + "\n#\ngit status")
    block = QuestionBlock("Do it?", "", (CommandPart("ls"), long, TextPart("a\nb")))
    assert [plain(row) for row in in_short(block, 40, printed=False)] == [
        "  $ rm -rf ~ xxxxxxxxxx…  … 2 more lines"
    ]
    assert [plain(row) for row in in_short(block, 40, printed=True)] == [
        "",
        "? Do it?",
        "  $ ls",
        "  $ rm -rf ~ xxxxxxxxxx…  … 2 more lines",
    ]


def test_of_many_commands_the_first_stand_beside_the_keys() -> None:
    block = QuestionBlock("Do it?", "", tuple(CommandPart(f"{n}\n") for n in range(10)))
    assert plain(in_short(block, 40, printed=False)[-1]) == "  … and 7 more commands"
