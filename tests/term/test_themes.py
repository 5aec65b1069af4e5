"""The colours of the themes: every one can be read on every usual background of its kind."""

import pytest
from rich.color import Color, ColorSystem
from rich.style import Style

from twofold.styled.code import STYLES as CODE
from twofold.term.background import Rgb, contrast, parse_colour
from twofold.term.diff_lines import STYLES as DIFFS
from twofold.term.row_encoder import RowEncoder
from twofold.term.themes import DARK, LIGHT, Theme, ThemeName, themed

ENOUGH = 4.5
"""What WCAG 2 wants of text (level AA)."""
BACKGROUNDS: dict[ThemeName, dict[str, str]] = {
    "dark": {
        "black": "#000000",
        "VS Code": "#1e1e1e",
        "Solarized Dark": "#002b36",
        "Gruvbox": "#282828",
        "Dracula": "#282a36",
        "Nord": "#2e3440",
    },
    "light": {
        "white": "#ffffff",
        "Solarized Light": "#fdf6e3",
        "Gruvbox": "#fbf1c7",
        "Catppuccin Latte": "#eff1f5",
    },
}
PALETTES = {
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5"
    " 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff",
    "VGA": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa"
    " 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff",
}
THEMES = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])


def colour(words: str) -> Rgb:
    found = parse_colour(words)
    assert found is not None
    return found


def of_number(number: int) -> Rgb:
    return Rgb(*[part / 255 for part in Color.from_ansi(number).get_truecolor()])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("#000", "#fff", 21), ("#777", "#fff", 4.48), ("#00f", "#fff", 8.59), ("#f00", "#f00", 1)],
)
def test_the_contrast_is_that_of_wcag(one: str, other: str, expected: float) -> None:
    assert contrast(colour(one), colour(other)) == pytest.approx(expected, abs=0.005)


@THEMES
def test_every_fixed_colour_has_enough_contrast_on_every_background(theme: Theme) -> None:
    found = {
        (name, background): contrast(of_number(number), colour(code))
        for name, number in theme.fixed.items()
        for background, code in BACKGROUNDS[theme.name].items()
    }
    assert {each: ratio for each, ratio in found.items() if ratio < ENOUGH} == {}


@THEMES
def test_every_colour_of_sixteen_has_enough_contrast_in_the_usual_palettes(theme: Theme) -> None:
    ground = colour("#000" if theme is DARK else "#fff")
    numbers = {name: Color.parse(words).number or 0 for name, words in theme.named.items()}
    found = {
        (name, system): contrast(colour(f"#{palette.split()[number]}"), ground)
        for name, number in numbers.items()
        for system, palette in PALETTES.items()
    }
    # the magenta of xterm is 4.5 on white only when rounded
    assert {each: ratio for each, ratio in found.items() if ratio < ENOUGH - 0.05} == {}


def test_no_fixed_colour_is_one_that_a_palette_changes() -> None:
    assert min([*DARK.fixed.values(), *LIGHT.fixed.values()]) >= 16


# ---- what is drawn in them ---------------------------------------------------------------------

OURS = [*CODE.values(), *DIFFS.values(), "red underline", "bold reverse green", "dim", "bold dim"]


@THEMES
@pytest.mark.parametrize("system", [ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR])
@pytest.mark.parametrize("words", OURS)
def test_no_style_is_faint_or_in_a_colour_of_the_palette(
    words: str, system: ColorSystem, theme: Theme
) -> None:
    style = themed(words, theme, system)
    assert not style.dim
    if style.color is not None:
        assert style.color.number in theme.fixed.values()
    kept = Style.parse(words)
    assert (style.bold, style.italic, style.reverse) == (kept.bold, kept.italic, kept.reverse)


@pytest.mark.parametrize("words", ["white on red", "on blue", "#112233", "color(99)", "bold"])
def test_what_has_a_background_or_a_number_is_left_as_it_is(words: str) -> None:
    assert themed(words, LIGHT, ColorSystem.TRUECOLOR) == Style.parse(words)


SIXTEEN = {
    "green": (DARK, "\x1b[32mx\x1b[0m"),
    "blue": (DARK, "\x1b[36mx\x1b[0m"),
    "yellow": (LIGHT, "\x1b[39mx\x1b[0m"),
    "cyan": (LIGHT, "\x1b[34mx\x1b[0m"),
}


@pytest.mark.parametrize("words", SIXTEEN)
def test_a_terminal_of_sixteen_colours_gets_those_that_can_be_read(words: str) -> None:
    encoder = RowEncoder("standard", "utf-8")
    encoder.theme, expected = SIXTEEN[words]
    assert encoder.text(((("x"), words),)) == expected


def test_without_colours_what_is_dim_stays_dim() -> None:
    assert RowEncoder("256", "utf-8", color=False).text((("x", "dim"),)) == "\x1b[2mx\x1b[0m"
