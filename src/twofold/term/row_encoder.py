"""Encodes rows for a terminal: escape sequences for the colours of a theme, and its encoding.

The text of a row is written unchanged between the escape sequences, so it must be safe already.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rich.color import ColorSystem
from rich.style import Style

from twofold.term.lines import AnyStyle, Row
from twofold.term.themes import DARK, Theme, themed

SYSTEMS: Final = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}

# Signs of ours for encodings that do not have them: each as wide as what it stands for.
_ASCII: Final = str.maketrans(
    "✓✗○●❯◐◑⊘…·≡✎⌫→⌕∴↓⇄•│─⋯×┃━“”’‘–—\u00a0",
    "vxo*>~=0~-=ed>s:fm*|-~x|-\"\"''-- ",
)


@lru_cache(maxsize=1024)
def _style(name: str) -> Style:
    return Style.parse(name)


def has_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal shows links that one can click on, as far as the environment shows it.

    Some terminals find `path:line` by themselves, and then open the very line: these are left
    alone.
    """
    if environment.get("TERM_PROGRAM") in ("vscode", "Apple_Terminal", "zed"):
        return False
    if "JETBRAINS" in environment.get("TERMINAL_EMULATOR", "").upper():
        return False
    return environment.get("TERM", "").startswith(("xterm", "tmux", "screen", "foot", "alacritty"))


class RowEncoder:
    """Turns rows into text with escape sequences, and text into bytes of one encoding."""

    def __init__(
        self, system: str | None, encoding: str, *, color: bool = True, links: bool = False
    ) -> None:
        """`system`: what the terminal can show (`standard`, `256`, `truecolor`; None: nothing)."""
        self._system = SYSTEMS.get(system or "")
        self._color = color
        self._links = links
        self.theme: Theme = DARK
        self.encoding = encoding
        self._utf = encoding.lower().replace("_", "-").startswith("utf")

    @property
    def has_colors(self) -> bool:
        """Whether anything is written in a colour, so that the theme matters."""
        return self._color and self._system is not None

    def text(self, row: Row) -> str:
        """The row as text with escape sequences."""
        return "".join([self._styled(text, style) for text, style in row if text])

    def encode(self, text: str) -> bytes:
        """The text in the terminal's encoding; what it lacks becomes a question mark."""
        if self._utf:
            return text.encode(errors="replace")
        return self._signs(text).encode(self.encoding, "replace")

    def _styled(self, text: str, style: AnyStyle) -> str:
        if not style or self._system is None:
            return text
        if self._color:
            found = themed(style, self.theme, self._system)
        else:
            found = (_style(style) if isinstance(style, str) else style).without_color
        if found.link and not self._links:
            found = found.update_link(None)
        return found.render(text, color_system=self._system) if found else text

    def _signs(self, text: str) -> str:
        """Our own signs as letters, where the encoding lacks them."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.translate(_ASCII)
        return text
