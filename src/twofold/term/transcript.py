"""Sessions printed from top to bottom.

On a terminal, a session looks as in the live client: text is wrapped and coloured, and output of
terminals is drawn as their screens show it. Anywhere else it is plain text, and no line is wrapped.
Text of peers is never read as markup or escape codes.
"""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

from twofold.term.block_lines import DrawOptions, block_lines, plain_output, whole_output
from twofold.term.lines import AnyStyle, Row, all_rows, plain
from twofold.term.row_encoder import SYSTEMS
from twofold.term.themes import DARK, Theme, themed
from twofold.view.blocks import Block

# Blocks go to the console in batches: one by one is slow, all at once holds everything twice.
_BATCH = 200

_NARROWEST = 20


def render_blocks(blocks: Iterable[Block], console: Console, theme: Theme = DARK) -> None:
    """Print blocks, one below the other; in the colours of the theme if there are any."""
    printer = _Printer(console, theme)
    width = max(_NARROWEST, console.width) if console.is_terminal else None
    utf = console.encoding.lower().startswith("utf")
    options = DrawOptions(
        output=whole_output if console.is_terminal else plain_output,
        half_blocks=console.color_system == "truecolor" and utf,
    )
    for block in blocks:
        printer.add(all_rows(block_lines(block, options), width))
    printer.flush()


def render_rows(rows: Iterable[Row], console: Console, theme: Theme = DARK) -> None:
    """Print rows as they come, without blank lines between them."""
    printer = _Printer(console, theme)
    for row in rows:
        printer.add_row(row)
    printer.flush()


class _Printer:
    """Puts blocks on a console, a blank line between any two."""

    def __init__(self, console: Console, theme: Theme) -> None:
        self._console = console
        self._theme = theme
        self._system = None if console.no_color else SYSTEMS.get(console.color_system or "")
        utf = console.encoding.lower().startswith("utf")
        self._encoding = None if utf else console.encoding
        self._segments: list[Segment] = []
        self._waiting = 0
        self._above = False  # whether there is something above the next block

    def add(self, rows: Sequence[Row]) -> None:
        """Print a block, sooner or later; one without rows leaves no trace."""
        if not rows:
            return
        if self._above:
            self._segments.append(Segment("\n"))
        self._above = True
        for row in rows:
            self._write(row)
        self._count()

    def add_row(self, row: Row) -> None:
        """Print one row, sooner or later."""
        self._write(row)
        self._count()

    def _write(self, row: Row) -> None:
        if self._console.is_terminal:
            self._segments += [Segment(text, self._style(style)) for text, style in row]
            self._segments.append(Segment("\n"))
        else:
            self._segments.append(Segment(f"{plain(row)}\n"))

    def _count(self) -> None:
        self._waiting += 1
        if self._waiting >= _BATCH:
            self.flush()

    def _style(self, style: AnyStyle) -> Style:
        """The style; what is shown here is read elsewhere than it was done: no links to files."""
        if self._system is None:
            return self._console.get_style(style).update_link(None)
        return themed(style, self._theme, self._system).update_link(None)

    def flush(self) -> None:
        """Print what waits."""
        if self._encoding:
            self._segments = [self._encodable(segment) for segment in self._segments]
        self._console.print(Segments(self._segments), end="", soft_wrap=True)
        self._segments, self._waiting = [], 0

    def _encodable(self, segment: Segment) -> Segment:
        """The segment as far as the console's encoding has its characters."""
        assert self._encoding is not None
        text = segment.text.encode(self._encoding, "replace").decode(self._encoding)
        return Segment(text, segment.style)
