"""The colours of the client on a dark and on a light background.

Everything is drawn in styles such as `yellow` or `dim`. A theme says which colour that is: one that
has enough contrast on every usual background of its kind, whatever the terminal's own palette is.
Colours that a program chose as numbers are not changed, nor is anything that has a background.
"""

from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from rich.color import Color, ColorSystem, ColorType
from rich.style import Style

from twofold.term.lines import AnyStyle

ThemeName: TypeAlias = Literal["dark", "light"]

GREY: Final = "grey"
"""What is dim: terminals draw that attribute too faint, or not at all."""
_NAMES: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class Theme(NamedTuple):
    """Which colour each of the eight names stands for; one without a colour is plain text."""

    name: ThemeName
    fixed: dict[str, int]
    """Numbers of the 256 colours, from 16 on: these are the same in every terminal."""
    named: dict[str, str]
    """Names of the 16 colours, for a terminal that has no more."""


DARK: Final = Theme(
    "dark",
    {
        "red": 210,
        "green": 114,
        "yellow": 221,
        "blue": 111,
        "magenta": 177,
        "cyan": 80,
        "white": 252,
        "black": 248,
        GREY: 248,
    },
    {
        "red": "bright_red",
        "green": "green",
        "yellow": "bright_yellow",
        "blue": "cyan",
        "magenta": "bright_magenta",
        "cyan": "cyan",
    },
)
LIGHT: Final = Theme(
    "light",
    {
        "red": 124,
        "green": 22,
        "yellow": 94,
        "blue": 26,
        "magenta": 127,
        "cyan": 24,
        "white": 241,
        GREY: 241,
    },
    {"red": "red", "blue": "blue", "magenta": "magenta", "cyan": "blue"},
)
THEMES: Final[dict[ThemeName, Theme]] = {"dark": DARK, "light": LIGHT}


def themed(style: AnyStyle, theme: Theme, system: ColorSystem) -> Style:
    """The style in the colours of a theme, for a terminal that has colours."""
    if isinstance(style, str):
        return _by_words(style, theme.name, system)
    return _by_style(style, theme.name, system) if _is_named(style) else style


@lru_cache(maxsize=1024)
def _by_words(words: str, theme: ThemeName, system: ColorSystem) -> Style:
    style = Style.parse(words)
    return _by_style(style, theme, system) if _is_named(style) else style


def _is_named(style: Style) -> bool:
    """Whether the style is up to the theme."""
    if style.bgcolor is not None and not style.bgcolor.is_default:
        return False
    if style.color is None:
        return bool(style.dim)
    return style.color.type in (ColorType.DEFAULT, ColorType.STANDARD)


@lru_cache(maxsize=1024)
def _by_style(style: Style, theme: ThemeName, system: ColorSystem) -> Style:
    name = GREY if style.dim else ""
    if style.color is not None and style.color.number is not None:
        bright, place = divmod(style.color.number, len(_NAMES))
        name = _NAMES[place]
        if bright and name in ("black", "white"):
            name = GREY if name == "black" else ""
    colour = _colour(name, THEMES[theme], system)
    return style + Style(color=colour or Color.default(), dim=False if style.dim else None)


def _colour(name: str, theme: Theme, system: ColorSystem) -> Color | None:
    if system == ColorSystem.STANDARD:
        return Color.parse(theme.named[name]) if name in theme.named else None
    return Color.from_ansi(theme.fixed[name]) if name in theme.fixed else None
