"""Code in colours, line by line as it comes.

Pygments reads the code and a small table says what its words look like; the colours are names of
the terminal's own palette that can be read on a dark ground as on a light one. The text is never
changed: a lexer that leaves anything out, adds to it, fails or is slow gives plain lines. Of what
was coloured before only a few lines are kept, so that further lines cost what they cost, however
many there were; code whose beginning is out of sight may be coloured wrongly, and no worse.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, Self

from twofold.term.lines import Parts

LONGEST_LINE: Final = 2_000
"""A longer line is not coloured: it is data more often than code, and lexers can be slow."""
LINES_BEFORE: Final = 40
"""With new lines at most so many before them are read again, for strings over several lines."""
_CHARACTERS_BEFORE: Final = 2_000
_BATCH: Final = 4_000  # characters read in one go: with some lexers more would cost the square
PATIENCE: Final = 0.2
"""Seconds of work; of code that takes its lexer longer in one go the rest is not coloured."""

# In these a line can be read by itself, unless a string or a comment goes on in it.
_BY_LINE: Final = frozenset(
    {
        *("python", "python2", "pyrex", "javascript", "typescript", "jsx", "tsx", "java", "kotlin"),
        *("c", "cpp", "csharp", "go", "rust", "swift", "scala", "lua", "sql", "postgresql", "json"),
        *("toml", "ini", "bash", "fish", "ruby", "perl", "r", "zig", "julia", "haskell"),
    }
)

# The nearest name above a token type counts; what has none is plain.
STYLES: Final = {
    "Comment": "dim italic",
    "Comment.Preproc": "magenta",
    "Comment.PreprocFile": "green",
    "Generic.Deleted": "red",
    "Generic.Emph": "italic",
    "Generic.Error": "red",
    "Generic.Heading": "bold",
    "Generic.Inserted": "green",
    "Generic.Output": "dim",
    "Generic.Prompt": "bold",
    "Generic.Strong": "bold",
    "Generic.Subheading": "cyan",
    "Generic.Traceback": "red",
    "Keyword": "magenta",
    "Keyword.Constant": "cyan",
    "Keyword.Type": "cyan",
    "Literal.Date": "cyan",
    "Literal.Number": "cyan",
    "Literal.String": "green",
    "Literal.String.Escape": "cyan",
    "Literal.String.Interpol": "cyan",
    "Name.Attribute": "cyan",
    "Name.Builtin": "cyan",
    "Name.Class": "bold blue",
    "Name.Constant": "cyan",
    "Name.Decorator": "magenta",
    "Name.Exception": "cyan",
    "Name.Function": "blue",
    "Name.Tag": "blue",
    "Operator.Word": "magenta",
}


class Highlighter:
    """Colours the lines of one piece of code. Give it the lines as they come."""

    __slots__ = ("_before", "_clock", "_lexer")

    def __init__(
        self, lexer: Any = None, *, clock: Callable[[], float] = time.process_time
    ) -> None:
        """`lexer`: one of Pygments, or None for plain lines."""
        self._lexer = lexer
        self._clock = clock
        self._before: list[str] = []

    @classmethod
    def for_language(cls, name: str) -> Self:
        """For code of a language by the name that people give it (`python`, `c++`)."""
        return cls(_lexer_by_name(name.strip().lower()) if 0 < len(name) <= 64 else None)

    @classmethod
    def for_path(cls, path: str) -> Self:
        """For the code of a file; its name decides."""
        name = PurePosixPath(path).name
        return cls(_lexer_by_file(name) if 0 < len(name) <= 255 else None)

    def add(self, lines: list[str]) -> list[Parts]:
        """The next lines in their colours; the joined text of each is the line.

        Lines are safe to show, and without their newlines.
        """
        made: list[Parts] = []
        for batch in _batches(lines):
            if self._lexer is None:
                break
            made += self._coloured(batch)
        return made + [_plain(line) for line in lines[len(made) :]]

    @property
    def _lexer_name(self) -> str:
        return next(iter(getattr(self._lexer, "aliases", ())), "")

    def _coloured(self, lines: list[str]) -> list[Parts]:
        read = [line if len(line) <= LONGEST_LINE and "\n" not in line else "" for line in lines]
        every = [*self._before, *read]
        began = self._clock()
        found = _read(self._lexer, every)
        if self._clock() - began > PATIENCE:
            self._lexer = None
        new = found.lines[len(self._before) :] if found is not None else [()] * len(lines)
        done = found is not None and not found.open and self._lexer_name in _BY_LINE
        self._before = [] if done else _last(every)
        return [
            parts if "".join([text for text, _ in parts]) == line else _plain(line)
            for parts, line in zip(new, lines, strict=True)
        ]


def _plain(line: str) -> Parts:
    return ((line, ""),) if line else ()


def _batches(lines: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += min(len(line), LONGEST_LINE) + 1
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _last(lines: list[str]) -> list[str]:
    """What to read again before the next lines.

    It begins at a line that is not indented, if there is one: that is seldom in the middle of
    something, and whoever begins in the middle of a string takes all that follows for one.
    """
    kept: list[str] = []
    room = _CHARACTERS_BEFORE
    for line in reversed(lines[-LINES_BEFORE:]):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    kept.reverse()
    if len(kept) == len(lines) < LINES_BEFORE:
        return kept  # all there is, from the beginning
    for number, line in enumerate(kept):
        if line and not line[0].isspace():
            return kept[number:]
    return kept


# ---- lexers ----------------------------------------------------------------------------------

# Newlines are neither taken away nor added: the text stays as it is.
_OPTIONS: Final = {"stripnl": False, "ensurenl": False}


@lru_cache(maxsize=64)
def _lexer_by_name(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    try:
        return _told(get_lexer_by_name(name, **_OPTIONS))
    except Exception:  # no such language, or a lexer that cannot be made
        return None


@lru_cache(maxsize=64)
def _lexer_by_file(name: str) -> Any:
    from pygments.lexers import get_lexer_for_filename

    try:
        return _told(get_lexer_for_filename(name, **_OPTIONS))
    except Exception:
        return None


def _told(lexer: Any) -> Any:
    """The lexer, unless it is the one that tells nothing from anything."""
    return None if "text" in lexer.aliases else lexer


class _Read(NamedTuple):
    lines: list[Parts]
    open: bool
    """The last line ends inside of a string or a comment."""


def _read(lexer: Any, lines: Iterable[str]) -> _Read | None:
    """The lines as the lexer reads them; None if it fails or tells of another text."""
    last: tuple[str, ...] = ()
    made: list[Parts] = []
    parts: list[tuple[str, str]] = []
    text = "".join([f"{line}\n" for line in lines])
    at = 0
    try:
        for token, value in lexer.get_tokens(text):
            if not text.startswith(value, at):
                return None
            at += len(value)
            last = token if value else last
            style = _style(token)
            first, *others = value.split("\n")
            _append(parts, first, style)
            for other in others:
                made.append(tuple(parts))
                parts = []
                _append(parts, other, style)
    except Exception:  # whatever a lexer does, the code can be read without colours
        return None
    if at != len(text):
        return None
    return _Read(made, ".".join(last).startswith(("Comment", "Literal.String")))


def _append(parts: list[tuple[str, str]], text: str, style: str) -> None:
    if not text:
        return
    if parts and (parts[-1][1] == style or text.isspace()):
        parts[-1] = (parts[-1][0] + text, parts[-1][1])
    else:
        parts.append((text, "" if text.isspace() else style))


@lru_cache(maxsize=1024)
def _style(token: Any) -> str:
    """The style of a token type: that of the nearest one above it that has one."""
    while token:
        if (style := STYLES.get(".".join(token))) is not None:
            return style
        token = token.parent
    return ""
