"""How the input line looks: nothing is lost, nothing is wider than the screen."""

from hypothesis import given
from hypothesis import strategies as st

from twofold.term.input.input_rows import completion_rows, text_rows
from twofold.term.lines import cells, plain

texts = st.text(st.sampled_from("ab \n日\t\x1b\u200d\u202eé"), max_size=60)


@given(texts, st.data(), st.integers(6, 30), st.integers(1, 8))
def test_no_row_is_wider_than_the_screen_and_the_cursor_is_in_one(
    text: str, data: st.DataObject, width: int, room: int
) -> None:
    cursor = data.draw(st.integers(0, len(text)))
    made = text_rows(">", text, cursor, width, room)
    assert 1 <= len(made.rows) <= room
    assert all(cells(row) <= width for row in made.rows)
    assert 0 <= made.row < len(made.rows)
    assert 0 <= made.column < width


@given(st.text("abc \n", max_size=60), st.integers(6, 30))
def test_with_room_enough_all_of_the_text_is_shown(text: str, width: int) -> None:
    made = text_rows(">", text, len(text), width, 100)
    assert "".join(plain(row)[2:] for row in made.rows) == text.replace("\n", "")


@given(st.text("abc ", max_size=40), st.data())
def test_the_cursor_is_before_the_character_at_its_position(text: str, data: st.DataObject) -> None:
    cursor = data.draw(st.integers(0, max(0, len(text) - 1)))
    made = text_rows(">", text, cursor, 12, 100)
    if text:
        assert plain(made.rows[made.row])[made.column :][:1] == text[cursor]


@given(texts)
def test_no_escape_sequence_of_a_text_is_shown(text: str) -> None:
    shown = "".join(plain(row) for row in text_rows(">", text, 0, 20, 100).rows)
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@given(
    st.lists(
        st.tuples(st.text("abc", min_size=1, max_size=20), st.text(max_size=40)),
        min_size=1,
        max_size=12,
    ),
    st.data(),
    st.integers(4, 40),
    st.integers(0, 6),
)
def test_the_chosen_completion_is_among_those_that_are_shown(
    offered: list[tuple[str, str]], data: st.DataObject, width: int, room: int
) -> None:
    chosen = data.draw(st.none() | st.integers(0, len(offered) - 1))
    rows = completion_rows(offered, chosen, width, room)
    assert len(rows) == min(room, len(offered))
    assert all(cells(row) <= width for row in rows)
    marked = sum(any(style == "reverse" for _, style in row) for row in rows)
    assert marked == (chosen is not None and room > 0)
