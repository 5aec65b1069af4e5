"""Code in colours, line by line as it arrives.

Pygments reads the code and a small table gives its words their style; the colours are names of
the terminal's own palette that can be read on a dark ground as on a light one. The text is never
changed: a lexer that leaves anything out, adds to it or fails gives plain lines. Of what was
coloured before only a few lines are kept, so that further lines cost what they cost, however
many there were; code whose beginning is out of sight may be coloured wrongly, and no worse.

The agent chooses the lexer and the text, and some expressions of Pygments take the square or the
cube of what they look at. So only lexers on a list are used, each measured with hostile text. A
lexer is given little at once and never many blanks in a row, which is what most of these
expressions repeat. The clock is asked after every token. A lexer that was too slow is not used
again in this process, and `allowance` bounds all colouring of one stretch of work.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, Self

from twofold.styled import Parts

LONGEST_LINE: Final = 1_000
"""A longer line is not coloured: it is data more often than code."""
MOST_BLANKS: Final = 100
"""A line with more blanks in a row is not coloured."""
LINES_BEFORE: Final = 40
"""With new lines at most so many before them are read again, for strings over several lines."""
CHARACTERS_BEFORE: Final = 1_000
BATCH: Final = 2_000
"""Characters that are read in one go, beside those that are read again."""
PATIENCE: Final = 0.1
"""Seconds of work that a lexer has for one go, and that one piece of code may be late."""
RATE: Final = 20e-6
"""Seconds that a character may take on the average; one or two millionths are usual."""
STRIKES: Final = 2
"""A lexer that was too slow so many times is not used again."""

LANGUAGES: Final = (
    *("python", "pycon", "pytb", "javascript", "typescript", "jsx", "tsx", "json", "json5"),
    *("html", "xml", "css", "scss", "less", "sass", "vue", "php", "java", "kotlin", "scala"),
    *("groovy", "clojure", "c", "cpp", "csharp", "fsharp", "vbnet", "objective-c", "swift", "go"),
    *("rust", "zig", "nim", "d", "dart", "ruby", "perl", "lua", "r", "julia", "matlab", "haskell"),
    *("ocaml", "elm", "elixir", "erlang", "scheme", "common-lisp", "emacs-lisp", "bash", "console"),
    *("fish", "powershell", "awk", "sed", "make", "cmake", "docker", "nginx", "apache", "ini"),
    *("toml", "yaml", "properties", "terraform", "nix", "sql", "postgresql", "mysql", "tsql"),
    *("graphql", "protobuf", "thrift", "markdown", "tex", "diff", "gherkin", "vim", "cython"),
    *("nasm", "llvm", "wast", "wgsl", "glsl", "hlsl", "solidity", "verilog", "vhdl", "tcl"),
)
"""The lexers that are used; where two of them claim a file name the first counts.

`benchmarks/lexers.py` measures them. One that is not here can take seconds over one token of
hostile text, gives no token before it has read everything, or is seldom asked for.
"""

_ESCAPES: Final = re.compile(r"\\\\|\\[0-7]+")
_BACKSLASHES: Final = re.compile(r"\\\\")
AMBIGUOUS: Final = {
    **dict.fromkeys(("bash", "console", "docker", "fish"), (_ESCAPES, ('"', "'"))),
    **dict.fromkeys(("perl", "scala"), (_BACKSLASHES, ("",))),
}
"""What the lexer's expression for a string can read in several ways, and in which quotes.

In a string without an end all ways are tried, and every further one multiplies them. Perl has any
sign for a quote.
"""
MOST_WAYS: Final = 1 << 12
"""Code that a lexer could try to read in more ways is not coloured."""

# In these a line can be read by itself, unless a string or a comment goes on in it.
_BY_LINE: Final = frozenset(
    {
        *("python", "cython", "javascript", "typescript", "jsx", "tsx", "java", "kotlin", "c"),
        *("cpp", "csharp", "go", "rust", "swift", "scala", "lua", "sql", "postgresql", "json"),
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

    __slots__ = ("_before", "_clock", "_late", "_lexer", "_name", "_wall")

    def __init__(
        self,
        lexer: Any = None,
        *,
        name: str = "",
        clock: Callable[[], float] = time.process_time,
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        """`lexer`: one of Pygments; or `name`, one of `LANGUAGES`; without both, plain lines.

        `clock` counts work. `wall` costs less to ask, and is never behind it.
        """
        self._lexer = lexer
        self._name = name
        self._clock = clock
        self._wall = wall
        self._late = -PATIENCE  # how much more time was taken than there was for the characters
        self._before: list[str] = []

    @classmethod
    def for_language(cls, name: str) -> Self:
        """For code of a language by the name that people give it (`python`, `c++`)."""
        return cls(name=_by_alias().get(name.strip().lower(), "") if len(name) <= 64 else "")

    @classmethod
    def for_path(cls, path: str) -> Self:
        """For the code of a file; its name decides."""
        name = PurePosixPath(path).name
        return cls(name=_by_file(name) if len(name) <= 255 else "")

    def add(self, lines: list[str]) -> list[Parts]:
        """The next lines in their colours; the joined text of each is the line.

        Lines are safe to show, and without their newlines.
        """
        made: list[Parts] = []
        allowed = _allowed.get()
        for batch in _batches(lines):
            if self._is_off() or (allowed is not None and allowed.seconds <= 0):
                break
            began = self._clock()
            made += self._coloured(batch, began)
            if allowed is not None:
                allowed.seconds -= self._clock() - began
        if len(made) < len(lines):
            self._before = []
        return made + [_plain(line) for line in lines[len(made) :]]

    def _is_off(self) -> bool:
        if self._lexer is None and not self._name:
            return True
        return _strikes[self._name] >= STRIKES if self._name else False

    def _coloured(self, lines: list[str], began: float) -> list[Parts]:
        if self._lexer is None:
            self._lexer = _lexer(self._name)
            began = self._clock()  # what loading takes is not the fault of the code
        read, places = _readable(self._before, lines)
        if _is_ambiguous(self._name, read):
            self._before = []
            return [_plain(line) for line in lines]
        found = _read(self._lexer, read, _Watch(self._clock, self._wall))
        self._late += self._clock() - began - RATE * sum([len(line) + 1 for line in read])
        if self._late > 0 or (found is not None and found.late):
            _strikes[self._name] += bool(self._name)
            self._lexer, self._name = None, ""
        if found is None or found.late:
            self._before = []
            return [_plain(line) for line in lines]
        by_line = not found.open and self._name in _BY_LINE
        self._before = [] if by_line else _last(read)
        return [
            _with_end(found.lines[place], line) if place >= 0 else _plain(line)
            for place, line in zip(places, lines, strict=True)
        ]


def _plain(line: str) -> Parts:
    return ((line, ""),) if line else ()


def _with_end(parts: Parts, line: str) -> Parts:
    """The parts with the blanks at the end of the line; plain if they are of another text."""
    text = "".join([text for text, _ in parts])
    if text == line:
        return parts
    blanks = line[len(text) :]
    fits = text and line.startswith(text) and blanks.isspace()
    return (*parts, (blanks, "")) if fits else _plain(line)


# ---- what is read in one go --------------------------------------------------------------------

_BLANKS = re.compile(rf"\s{{{MOST_BLANKS + 1}}}")


def _batches(lines: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for line in lines:
        length = len(line) + 1 if len(line) <= LONGEST_LINE else 1
        if batch and size + length > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += length
    if batch:
        yield batch


def _readable(before: list[str], lines: list[str]) -> tuple[list[str], list[int]]:
    """What a lexer reads of the lines, and where each is in that; -1: it is not read.

    No blanks at the end of a line, no two blank lines in a row, nothing that is too long.
    """
    read = list(before)
    places: list[int] = []
    for line in lines:
        text = line.rstrip()
        if len(text) > LONGEST_LINE or "\n" in text or _BLANKS.search(text):
            text = ""
        if text or not read or read[-1]:
            places.append(len(read) if text else -1)
            read.append(text)
        else:
            places.append(-1)
    return read, places


def _is_ambiguous(name: str, lines: list[str]) -> bool:
    """Whether a string without an end could be read in too many ways."""
    escapes, quotes = AMBIGUOUS.get(name, (None, ()))
    text = "\n".join(lines)
    if escapes is None or "\\" not in text:
        return False
    for quote in quotes:
        # a quote behind a backslash ends no string
        inside = re.split(rf"(?<!\\){quote}", text)[1:] if quote else [text]
        for string in inside:
            ways = 1
            for found in escapes.finditer(string):
                ways *= len(found[0])  # as many digits of a number as there are, or fewer
                if ways > MOST_WAYS:
                    return True
    return False


def _last(lines: list[str]) -> list[str]:
    """What to read again before the next lines.

    It begins at a line that is not indented, if there is one: that is seldom in the middle of
    something, and a lexer that begins in the middle of a string takes all that follows for one.
    """
    kept: list[str] = []
    room = CHARACTERS_BEFORE
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


# ---- how long it may take ----------------------------------------------------------------------

_strikes: Counter[str] = Counter()  # how often a lexer was too slow, in this process


class _Allowed:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


_allowed: ContextVar[_Allowed | None] = ContextVar("_allowed", default=None)


@contextmanager
def allowance(seconds: float) -> Iterator[None]:
    """Code inside is coloured for about so many seconds of work, and plain after that.

    One inside of another has no effect. Without any, all code is coloured.
    """
    if _allowed.get() is not None:
        yield
        return
    token = _allowed.set(_Allowed(seconds))
    try:
        yield
    finally:
        _allowed.reset(token)


class _Watch:
    """Reports when a lexer has worked for longer than `PATIENCE`.

    Reading the clock of work costs as much as a short token, so it is read only after the wall
    clock has passed the limit.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock, self._wall = clock, wall
        self._end = clock() + PATIENCE
        self._look = wall() + PATIENCE

    def late(self) -> bool:
        if self._wall() < self._look:
            return False
        left = self._end - self._clock()
        self._look = self._wall() + left
        return left <= 0


# ---- lexers ----------------------------------------------------------------------------------

# Newlines are neither taken away nor added: the text stays as it is. Code inside of Markdown is
# not given to the lexer that it names.
_OPTIONS: Final = {"stripnl": False, "ensurenl": False, "handlecodeblocks": False}


@lru_cache(maxsize=len(LANGUAGES))
def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    return get_lexer_by_name(name, **_OPTIONS)


class _Known(NamedTuple):
    aliases: dict[str, str]
    files: dict[str, str]
    """By the whole name (`Makefile`) or by what it ends with (`.py`)."""
    patterns: dict[str, str]
    """Those that have to be compared one by one."""


@lru_cache(maxsize=1)
def _known() -> _Known:
    """The names of `LANGUAGES` by their aliases and by the names of files."""
    from pygments.lexers import get_all_lexers

    found = {
        alias: (aliases, files)
        for _, aliases, files, _ in get_all_lexers(plugins=False)
        for alias in aliases
    }
    known = _Known({}, {}, {})
    for name in LANGUAGES:
        aliases, files = found.get(name, ((), ()))  # an older Pygments has fewer
        for alias in aliases:
            known.aliases.setdefault(alias.lower(), name)
        for pattern in files:
            end = pattern.removeprefix("*") if pattern.startswith("*.") else pattern
            if any(sign in end for sign in "*?["):
                known.patterns.setdefault(pattern, name)
            else:
                known.files.setdefault(end, name)
    return known


def _by_alias() -> dict[str, str]:
    return _known().aliases


def _by_file(name: str) -> str:
    """The language of a file by its name, then by its longest ending; empty if there is none."""
    known = _known()
    if name in known.files:
        return known.files[name]
    for at, sign in enumerate(name):
        if sign == "." and name[at:] in known.files:
            return known.files[name[at:]]
    return next((known.patterns[each] for each in known.patterns if fnmatchcase(name, each)), "")


class _Read(NamedTuple):
    lines: list[Parts]
    open: bool = False
    """The last line ends inside of a string or a comment."""
    late: bool = False
    """It took too long, and the rest is missing."""


def _read(lexer: Any, lines: Iterable[str], watch: _Watch) -> _Read | None:
    """The lines as the lexer reads them; None if it fails or gives another text."""
    last: tuple[str, ...] = ()
    made: list[Parts] = []
    parts: list[tuple[str, str]] = []
    text = "".join([f"{line}\n" for line in lines])
    at = 0
    try:
        for token, value in lexer.get_tokens(text):
            if not text.startswith(value, at):
                return None
            if watch.late():
                return _Read([], late=True)
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
