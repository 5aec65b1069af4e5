"""Files that a person mentions in a prompt: `look at @src/a.py, please`.

The text keeps every typed word, the mention included, and the file follows right after it. So the
prompt reads the same to the person, in the transcript and to the agent, also if the file is sent
only as a link. It is a mention only if the file or directory exists: `@someone` and
`me@example.org` stay text, and `missing` finds mentions of files that do not exist. An `@` in
pasted text is not a mention. Nothing here opens a file.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from twofold.client.prompt_blocks import Part
from twofold.text.safe import one_line
from twofold.wire.content import ImageContent

# An `@` inside a word is part of an address, and one after a slash or a dot part of a path.
BEFORE: Final = r"(?<![\w.+\-%/@\\])@"
# PATH_MAX is 4096 bytes.
_MENTION: Final = re.compile(
    BEFORE + r'(?:"(?P<quoted>(?:[^"\\\n]|\\.){0,4096})"?|(?P<plain>[^\s"]{1,4096}))'
)
_BLANK: Final = re.compile(r"\s")
_ESCAPED: Final = re.compile(r"\\(.)")
_NEEDS_QUOTES: Final = re.compile(r"""[\s"'`,;:!?()\[\]{}<>*…]|\.$""")
# Where a path may end before the word does: `@a.py:12`, `@a.py's`, `(@a.py)`.
_MARKS: Final = re.compile(r"[,;:!?()\[\]{}<>'`*…]")
_NO_NAME: Final = re.compile(r"\.*|/*|~")
_MOST_MARKS: Final = 8
_TAIL: Final = re.compile(r"(?:[,;:!?()\[\]{}<>'`*…].*|\.+)$", re.DOTALL)
# `@app.route` and `@pytest.fixture` are not files, so only common extensions count
_EXTENSIONS: Final = re.compile(
    r"bash|cc?|cfg|cpp|cs|css|csv|dart|go|h|hpp|html?|ini|ipynb|java|jpe?g|jsx?|jsonl?|kt|lock|log"
    r"|lua|md|mjs|patch|pdf|php|png|proto|pyi?|r|rb|rs|rst|scala|sh|sql|svg|swift|tex|toml|tsx?"
    r"|tsv|txt|vue|webp|xml|ya?ml|zig|zsh",
    re.IGNORECASE,
)
MOST_MISSING: Final = 100
"""How many mentions of a text are checked for files that do not exist."""
MOST_AGE: Final = 2.0
"""For how many seconds a path is not checked again while a person types."""
MOST_CHECKED: Final = 500
"""How many paths are remembered."""

IsThere: TypeAlias = Callable[[str, Path], bool]
"""Returns True if a typed path exists, relative to a directory."""


def parts_of(
    text: str,
    cwd: Path,
    pasted: Iterable[str] = (),
    images: Mapping[str, ImageContent] | None = None,
) -> list[Part]:
    """Split a text so that each mentioned file follows its mention; each file is sent once.

    Args:
        text: What the person sends.
        cwd: Where relative paths begin.
        pasted: Parts of the text in which an `@` is not a mention.
        images: Marks in the text, each with the image that follows it.

    Returns:
        Texts, paths and images. The texts, joined, are `text`.
    """
    parts: list[Part] = []
    start = 0
    closed = stretches(text, pasted)
    marks = _marks(text, images or {}, closed)
    mentions = sorted([*_mentions(text, cwd, closed), *marks], key=lambda each: each.start)
    for number, mention in enumerate(mentions, 1):
        if mention.part in parts:
            continue
        # the rest of its word stays with it: `@a.py:12`, `@a.py,`
        following = mentions[number].start if number < len(mentions) else len(text)
        blank = _BLANK.search(text, mention.end, following)
        end = blank.start() if blank else following
        parts += (text[start:end], mention.part)
        start = end
    rest = text[start:]
    if rest.strip() or not parts:
        return [*parts, rest] if rest else parts
    # some agents refuse a blank text
    return [*parts[:-2], f"{parts[-2]}{rest}", parts[-1]]


def missing(text: str, cwd: Path, pasted: Iterable[str] = ()) -> list[str]:
    """The mentions of files that do not exist, as they were typed, each once.

    `@someone` and `@scope/package` are not reported: a file has a common extension, quotes, or a
    directory that exists.
    """
    return list(dict.fromkeys(found.mention for found in missing_places(text, cwd, pasted)))


class Missing(NamedTuple):
    """A mention of a file that does not exist: its place in the text, and what was typed."""

    start: int
    end: int
    mention: str


def missing_places(
    text: str, cwd: Path, pasted: Iterable[str] = (), is_there: IsThere | None = None
) -> list[Missing]:
    """The places of the mentions that `missing` reports."""
    is_there = is_there or _is_there
    closed = stretches(text, pasted)
    found = []
    for match in islice(_MENTION.finditer(text), MOST_MISSING):
        start = match.start()
        if any(start in stretch for stretch in closed) or _mention(match, cwd, is_there):
            continue
        if match["plain"] is None:
            path = unquoted(match["quoted"])
            if path.strip():
                found.append(Missing(start, match.end(), f"@{written(path)}"))
        elif _names_file(path := _TAIL.sub("", match["plain"]), cwd, is_there):
            found.append(Missing(start, start + 1 + len(path), f"@{path}"))
    return found


class CheckedPaths:
    """Whether paths exist, checked at most once every few seconds for each of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._checked: dict[str, tuple[float, bool]] = {}

    def is_there(self, path: str, cwd: Path) -> bool:
        """True if the typed path exists, or did a moment ago."""
        now = self._clock()
        at, result = self._checked.get(path, (-MOST_AGE, False))
        if now - at < MOST_AGE:
            return result
        if len(self._checked) >= MOST_CHECKED:
            self._checked.clear()
        self._checked[path] = now, _is_there(path, cwd)
        return self._checked[path][1]


def no_file(mention: str) -> str:
    """The message for a mention of a file that does not exist."""
    return f"There is no such file: {one_line(mention)} is sent as text."


def _names_file(path: str, cwd: Path, is_there: IsThere) -> bool:
    directory, slash, name = path.rpartition("/")
    if not name or _NO_NAME.fullmatch(path):
        return False
    stem, _, extension = name.rpartition(".")
    if path.startswith(("/", "./", "../", "~/")) or (stem and _EXTENSIONS.fullmatch(extension)):
        return True
    return bool(slash) and is_there(directory, cwd)


def written(path: str, *, closed: bool = True) -> str:
    """A path as it is typed after the `@`: in quotes if it has blanks or punctuation in it."""
    if not _NEEDS_QUOTES.search(path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if closed else f'"{escaped}'


def unquoted(words: str) -> str:
    """The path between the quotes, without escapes."""
    return _ESCAPED.sub(r"\1", words)


def located(path: str, cwd: Path) -> Path:
    """The location of a typed path: relative to `cwd`, or to the home directory after `~/`."""
    return cwd / (os.path.expanduser(path) if path.startswith("~/") else path)


class _Mention(NamedTuple):
    """The place of a mention in the text, and its file."""

    start: int
    end: int
    part: Path | ImageContent


def _marks(
    text: str, images: Mapping[str, ImageContent], closed: list[range]
) -> Iterator[_Mention]:
    for mark, image in images.items():
        at = text.find(mark)
        while at >= 0 and any(at in stretch for stretch in closed):
            at = text.find(mark, at + 1)
        if at >= 0:
            yield _Mention(at, at + len(mark), image)


def _mentions(text: str, cwd: Path, closed: list[range]) -> Iterator[_Mention]:
    at = 0
    while found := _MENTION.search(text, at):
        start, at = found.start(), found.start() + 1
        stretch = next((stretch for stretch in closed if start in stretch), None)
        if stretch is not None:
            at = stretch.stop
        elif mention := _mention(found, cwd, _is_there):
            at = mention.end
            yield mention


def _mention(found: re.Match[str], cwd: Path, is_there: IsThere) -> _Mention | None:
    start = found.start()
    if found["plain"] is None:
        path = unquoted(found["quoted"])
        if path and is_there(path, cwd):
            return _Mention(start, found.end(), located(path, cwd))
        return None
    for path in _candidates(found["plain"]):
        if not _NO_NAME.fullmatch(path) and is_there(path, cwd):
            return _Mention(start, start + 1 + len(path), located(path, cwd))
    return None


def _candidates(word: str) -> Iterator[str]:
    """The possible paths in a word: all of it first, then without more and more of its end."""
    marks = [mark.start() for mark in islice(_MARKS.finditer(word), _MOST_MARKS)]
    for end in [len(word), *reversed(marks)]:
        yield word[:end]
        if (shorter := word[:end].rstrip(".")) != word[:end]:  # the end of a sentence
            yield shorter


def _is_there(path: str, cwd: Path) -> bool:
    try:
        return os.path.exists(located(path, cwd))
    except (OSError, ValueError, RuntimeError):
        return False  # not a valid name of a file


def stretches(text: str, pasted: Iterable[str]) -> list[range]:
    """Where the pasted texts are; blanks at their ends may have been removed since."""
    found = []
    for paste in {each.strip() for each in pasted} - {""}:
        at = text.find(paste)
        while at >= 0:
            found.append(range(at, at + len(paste)))
            at = text.find(paste, at + len(paste))
    return found
