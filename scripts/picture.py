"""A picture of the client, taken from the real program: `python -m scripts.picture FILE.svg`.

The program runs in a terminal and is answered as a person would; then the terminal is drawn, in its
colours. The same rows always give the same bytes, and nothing in the picture is
fetched from anywhere: the font is whichever monospace there is.
"""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.support.terminal_screen import Look, Row, plain
from tests.support.terminal_stage import Stage

# ---- the scene -------------------------------------------------------------------------------

COLUMNS: Final = 88
ROWS: Final = 45
DRAWN: Final = 45
"""How many rows there are in the picture at most, counted from the last one."""
TITLE: Final = "twofold run"
START: Final = "The report says “-0 °C” in Oslo. Can you fix that?"
PLACE: Final = Path("/tmp/weather")
"""Where it runs: the path is in the picture, so it is always the same."""
ASKED: Final = "Run this command?"
"""What is on the screen when it is drawn: a question shows most of the client at once."""

_TWOFOLD: Final = [sys.executable, "-P", "-m", "twofold"]
COMMAND: Final = [*_TWOFOLD, "run", "--start", START, "--", *_TWOFOLD, "agent", "--speed", "0"]


def until_asked(stage: Stage) -> None:
    """The client, from the first words to the question."""
    stage.wait_for(ASKED)
    stage.wait_for("waiting for you")  # by then the keys are not pale any more
    stage.wait_quiet()


def taken(
    command: Sequence[str],
    play: Callable[[Stage], None],
    *,
    columns: int = COLUMNS,
    rows: int = ROWS,
    drawn: int = DRAWN,
    cwd: Path | None = None,
) -> list[Row]:
    """The last rows of a program, scrolled away or not, after `play` had its way with it."""
    with Stage(command, columns=columns, rows=rows, cwd=cwd) as stage:
        play(stage)
        made = stage.styles()
    while made and not plain(made[-1]):
        made.pop()
    return made[-drawn:]


@contextmanager
def the_place() -> Iterator[Path]:
    """The directory of the picture, for as long as it is taken."""
    PLACE.mkdir(exist_ok=True)
    try:
        yield PLACE
    finally:
        with suppress(OSError):  # someone else takes a picture there
            PLACE.rmdir()


def of_the_client() -> list[Row]:
    """The client as it is asked something, in the middle of a turn."""
    with the_place() as place:
        return taken(COMMAND, until_asked, cwd=place)


# ---- the picture -----------------------------------------------------------------------------

_BACKGROUND = (27, 30, 36)
_FOREGROUND = (214, 217, 222)
_COLOURS = {
    "black": (60, 64, 72),
    "red": (224, 108, 117),
    "green": (140, 190, 110),
    "yellow": (222, 182, 105),
    "blue": (97, 165, 232),
    "magenta": (196, 128, 220),
    "cyan": (86, 182, 194),
    "white": (200, 204, 212),
    "brightblack": (122, 128, 140),
    "brightred": (240, 140, 146),
    "brightgreen": (170, 215, 145),
    "brightyellow": (238, 208, 145),
    "brightblue": (140, 192, 245),
    "brightmagenta": (215, 165, 235),
    "brightcyan": (130, 210, 220),
    "brightwhite": (240, 242, 246),
}
_THEME: Final = TerminalTheme(
    _BACKGROUND, _FOREGROUND, list(_COLOURS.values())[:8], list(_COLOURS.values())[8:]
)

_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, monospace;
  white-space: pre;
}}
.{unique_id}-title {{ font: 16px system-ui, sans-serif; opacity: 0.6 }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-whole">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-whole)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">{matrix}</g>
</g>
</svg>
"""


def picture(rows: Sequence[Row], *, columns: int = COLUMNS, title: str = TITLE) -> str:
    """The rows as an SVG of a terminal."""
    console = Console(
        record=True,
        file=io.StringIO(),
        width=columns,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},
    )
    for row in rows:
        text = Text.assemble(*[(run.text, _style(run.look)) for run in row])
        console.print(text, soft_wrap=True)
    console.print()  # Rich has no clip path for the last row, so that is an empty one
    return console.export_svg(
        title=title, theme=_THEME, code_format=_SVG, font_aspect_ratio=0.6, unique_id="terminal"
    )


def _style(look: Look) -> Style:
    return Style(
        color=_colour(look.fg),
        bgcolor=_colour(look.bg),
        bold=look.bold,
        dim=look.dim,
        italic=look.italic,
        underline=look.underline,
        strike=look.strike,
        reverse=look.reverse,
    )


def _colour(name: str) -> Color | None:
    if name == "default":
        return None
    if name in _COLOURS:
        return Color.from_ansi(list(_COLOURS).index(name))
    return Color.parse(f"#{name}")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m scripts.picture FILE.svg")
    Path(sys.argv[1]).write_text(picture(of_the_client()), encoding="utf-8")


if __name__ == "__main__":
    main()
