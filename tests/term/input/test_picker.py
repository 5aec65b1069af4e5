"""The picker: what is typed narrows the entries, and the mark is always on one that is shown."""

from hypothesis import given
from hypothesis import strategies as st

from twofold.term.input.picker import Entry, Picker, entry_row
from twofold.term.lines import cells, plain

ENTRIES = [
    Entry("fix the parser", "Alt-1 · just now", "●"),
    Entry("write the docs", "3 h ago"),
    Entry("add a table", "2 days ago · “of fruit”"),
]


def made(picker: Picker, width: int = 60, height: int = 24) -> list[str]:
    return [plain(row) for row in picker.rows(width, height)]


def type_into(picker: Picker, text: str) -> None:
    for character in text:
        picker.press(character)


def test_the_first_entry_is_marked_and_the_arrows_move_the_mark() -> None:
    picker = Picker("Sessions", ENTRIES)
    assert made(picker)[1:4] == ["? Sessions", "  search: ", "❯ ● fix the parser  Alt-1 · just now"]
    picker.press("down")
    assert picker.chosen == 1
    assert "❯   write the docs  3 h ago" in made(picker)
    for _ in range(5):
        picker.press("down")
    assert picker.chosen == 2
    for _ in range(5):
        picker.press("up")
    assert picker.chosen == 0


def test_a_long_text_is_cut_and_its_details_are_not() -> None:
    row = entry_row(Entry("words " * 20, "3 h ago"), 30, (), here=True)
    assert plain(row) == "❯ words words words …  3 h ago"
    assert cells(row) <= 30


def test_letters_search_texts_and_details() -> None:
    picker = Picker("Sessions", ENTRIES)
    type_into(picker, "docs")
    assert picker.chosen == 1
    picker.press("c-u")
    type_into(picker, "fruit")
    assert picker.chosen == 2
    assert not any("parser" in row for row in made(picker))


def test_nothing_is_chosen_if_nothing_fits() -> None:
    picker = Picker("Sessions", ENTRIES)
    type_into(picker, "qqq")
    assert picker.chosen is None
    picker.press("down")
    assert picker.chosen is None
    for _ in "qqq":
        picker.press("backspace")
    assert picker.chosen == 0


def test_what_does_not_fit_on_the_screen_is_counted() -> None:
    picker = Picker("Sessions", [Entry(f"session {number}") for number in range(1_500)])
    rows = made(picker, height=10)
    assert len(rows) <= 10
    assert rows[-1].startswith("  1,495 more")


@given(
    st.lists(st.text(max_size=5).map(Entry), max_size=30),
    st.lists(st.sampled_from(["up", "down", "pageup", "pagedown", "backspace", "c-u", "a", "é"])),
    st.integers(20, 80),
    st.integers(6, 40),
)
def test_the_mark_is_on_the_screen_whatever_is_pressed(
    entries: list[Entry], keys: list[str], width: int, height: int
) -> None:
    picker = Picker("Sessions", entries)
    for key in keys:
        picker.press(key)
        rows = made(picker, width, height)
        assert len(rows) <= height
        assert sum(row.startswith("❯") for row in rows) == (picker.chosen is not None)
