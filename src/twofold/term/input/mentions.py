"""Files that a person mentions in a prompt: `look at @src/a.py, please`.

The text keeps every typed word, the mention included, and the file follows right after it. So the
prompt reads the same to the person, in the transcript and to the agent, also if the file is sent
only as a link. It is a mention only if the file or directory exists: `@someone` and
`me@example.org` stay text, and `missing` finds mentions of files that do not exist. An `@` in
pasted text is not a mention. Nothing here opens a file.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from twofold.client.prompt_blocks import Part
from twofold.text.safe import one_line

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


def parts_of(text: str, cwd: Path, pasted: Iterable[str] = ()) -> list[Part]:
    """Split a text so that each mentioned file follows its mention; each file is sent once.

    Args:
        text: What the person sends.
        cwd: Where relative paths begin.
        pasted: Parts of the text in which an `@` is not a mention.

    Returns:
        Texts and paths. The texts, joined, are `text`.
    """
    parts: list[Part] = []
    start = 0
    mentions = list(_mentions(text, cwd, _stretches(text, pasted)))
    for number, mention in enumerate(mentions, 1):
        if mention.path in parts:
            continue
        # the rest of its word stays with it: `@a.py:12`, `@a.py,`
        following = mentions[number].start if number < len(mentions) else len(text)
        blank = _BLANK.search(text, mention.end, following)
        end = blank.start() if blank else following
        parts += (text[start:end], mention.path)
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
    closed = _stretches(text, pasted)
    found = []
    for match in islice(_MENTION.finditer(text), MOST_MISSING):
        if any(match.start() in stretch for stretch in closed) or _mention(match, cwd):
            continue
        if match["plain"] is None:
            path = unquoted(match["quoted"])
            if path.strip():
                found.append(f"@{written(path)}")
        elif _names_file(path := _TAIL.sub("", match["plain"]), cwd):
            found.append(f"@{path}")
    return list(dict.fromkeys(found))


def no_file(mention: str) -> str:
    """The message for a mention of a file that does not exist."""
    return f"There is no such file: {one_line(mention)} is sent as text."


def _names_file(path: str, cwd: Path) -> bool:
    directory, slash, name = path.rpartition("/")
    if not name or _NO_NAME.fullmatch(path):
        return False
    stem, _, extension = name.rpartition(".")
    if path.startswith(("/", "./", "../", "~/")) or (stem and _EXTENSIONS.fullmatch(extension)):
        return True
    return bool(slash) and _is_there(directory, cwd)


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
    path: Path


def _mentions(text: str, cwd: Path, closed: list[range]) -> Iterator[_Mention]:
    at = 0
    while found := _MENTION.search(text, at):
        start, at = found.start(), found.start() + 1
        stretch = next((stretch for stretch in closed if start in stretch), None)
        if stretch is not None:
            at = stretch.stop
        elif mention := _mention(found, cwd):
            at = mention.end
            yield mention


def _mention(found: re.Match[str], cwd: Path) -> _Mention | None:
    start = found.start()
    if found["plain"] is None:
        path = unquoted(found["quoted"])
        if path and _is_there(path, cwd):
            return _Mention(start, found.end(), located(path, cwd))
        return None
    for path in _candidates(found["plain"]):
        if not _NO_NAME.fullmatch(path) and _is_there(path, cwd):
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


def _stretches(text: str, pasted: Iterable[str]) -> list[range]:
    """Where the pasted texts are; blanks at their ends may have been removed since."""
    stretches = []
    for paste in {each.strip() for each in pasted} - {""}:
        at = text.find(paste)
        while at >= 0:
            stretches.append(range(at, at + len(paste)))
            at = text.find(paste, at + len(paste))
    return stretches
