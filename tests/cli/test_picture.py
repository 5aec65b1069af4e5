"""The pictures of the documentation: what stands in a terminal is drawn, and nothing else."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.picture import TITLE, of_the_client, picture, taken
from tests.support.terminal_screen import Look, Row, Run, plain
from tests.support.terminal_stage import Stage

HOSTILE = "<a> & \"b\" 'c' ]]> 世界"
SVG = "{http://www.w3.org/2000/svg}"


def words(drawing: str) -> list[str]:
    texts = ElementTree.fromstring(drawing).iter(f"{SVG}text")
    return [(each.text or "").replace("\xa0", " ") for each in texts]


def rows(*texts: str) -> list[Row]:
    return [(Run(text, Look()),) if text else () for text in texts]


def test_the_same_rows_are_the_same_picture() -> None:
    made = [(Run("a", Look(fg="red")), Run("b", Look(bg="00ff00", bold=True)))]
    assert picture(made) == picture(made)


def test_every_row_is_drawn_as_it_is_written() -> None:
    drawn = words(picture(rows("first", "", HOSTILE, "  last"), title="a title"))
    assert [text for text in ["first", HOSTILE, "  last", "a title"] if text not in drawn] == []


def test_nothing_is_fetched_to_show_a_picture() -> None:
    drawing = picture(rows("text"))
    assert re.findall(r"https?://[^\"]*", drawing) == ["http://www.w3.org/2000/svg"]
    assert "@font-face" not in drawing


@pytest.mark.parametrize(
    ("look", "rule"),
    [
        (Look(fg="red"), "fill: #e06c75"),
        (Look(fg="0a0b0c"), "fill: #0a0b0c"),
        (Look(bold=True), "font-weight: bold"),
        (Look(italic=True), "font-style: italic"),
        (Look(underline=True), "text-decoration: underline"),
        (Look(strike=True), "text-decoration: line-through"),
        (Look(reverse=True), "fill: #1b1e24"),
        (Look(fg="0a0b0c", bg="0a0b0c", dim=True), "fill: #0a0b0c"),
        (Look(dim=True), "fill: #8b8e93"),
    ],
)
def test_a_look_is_drawn(look: Look, rule: str) -> None:
    drawing = picture([(Run("text", look),)])
    (style,) = ElementTree.fromstring(drawing).iter(f"{SVG}style")
    assert rule in (style.text or "")


def test_a_background_is_drawn_behind_its_text() -> None:
    drawing = picture([(Run("   ", Look()), Run("text", Look(bg="0a0b0c")))])
    (behind,) = [
        each
        for each in ElementTree.fromstring(drawing).iter(f"{SVG}rect")
        if each.get("fill") == "#0a0b0c"
    ]
    assert (behind.get("x"), behind.get("width")) == ("36", "48")


def test_a_picture_is_taken_of_what_a_program_wrote_last() -> None:
    def play(stage: Stage) -> None:
        stage.wait_for("ready")
        stage.type("typed\r")
        stage.wait_for("got typed")

    script = r"seq 1 50; printf '\033[1;32mready\033[0m '; read x; echo got $x; read x"
    made = taken(["sh", "-c", script], play, columns=30, rows=10, drawn=15)
    assert made == [
        *rows(*[f"{number}" for number in range(38, 51)]),
        (Run("ready", Look(fg="green", bold=True)), Run(" typed", Look())),
        *rows("got typed"),
    ]


def test_the_picture_in_the_documentation_shows_the_client_as_it_is() -> None:
    """If it does not: `python -m scripts.picture docs/client.svg`."""
    page = Path(__file__).resolve().parents[2] / "docs" / "client.svg"
    drawn = "".join(word for word in words(page.read_text("utf-8")) if word != TITLE)
    shown = "".join(map(plain, of_the_client()))
    assert "".join(drawn.split()) == "".join(shown.split())
