"""Lists the files below a directory that is in no Git work tree.

Hidden directories and those of package managers are left out, and so is what plain patterns of
`.gitignore` files name. The walk is bounded, follows no link, and goes breadth first, so that a
large tree is listed near its top.
"""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from fnmatch import translate
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Directories of package managers and interpreters."""
SECONDS: Final = 5.0
"""How long a walk may take."""
_LARGEST: Final = 64 * 1024
"""How many bytes of a `.gitignore` are read."""
_MOST_RULES: Final = 500
_LONGEST_RULE: Final = 200


class Rule(NamedTuple):
    """One pattern of a `.gitignore`."""

    segments: tuple[re.Pattern[str], ...]
    """For each part of a path below the file; one for a name at any depth."""
    anchored: bool
    directories: bool
    """Only directories are ignored."""
    ignores: bool
    """False for a pattern that begins with `!`."""

    def matches(self, path: tuple[str, ...], *, is_directory: bool) -> bool:
        """True if the pattern names this path, which begins below the `.gitignore`."""
        if self.directories and not is_directory:
            return False
        parts = path if self.anchored else path[-1:]
        return len(parts) == len(self.segments) and all(
            pattern.match(part) for pattern, part in zip(self.segments, parts, strict=True)
        )


def parse_rules(text: str) -> list[Rule]:
    """The patterns of a `.gitignore`; those with `**` or a backslash within them are left out."""
    rules = (_rule(line) for line in text.splitlines() if len(line) <= _LONGEST_RULE)
    return list(islice((rule for rule in rules if rule is not None), _MOST_RULES))


def _rule(line: str) -> Rule | None:
    words = line.rstrip()
    if not words or words.startswith("#"):
        return None
    ignores = not words.startswith("!")
    words = words.removeprefix("!").removeprefix("\\")
    directories = words.endswith(("/", "/**"))
    anchored = "/" in words.rstrip("/").removeprefix("**/")
    if words.startswith("**/") and anchored:
        return None
    segments = words.removesuffix("/**").removeprefix("**/").strip("/").split("/")
    if "**" in segments or not all(segments) or "\\" in words:
        return None
    return Rule(tuple(map(_pattern, segments)), anchored, directories, ignores)


def _pattern(segment: str) -> re.Pattern[str]:
    return re.compile(translate(segment))


class _Directory(NamedTuple):
    parts: tuple[str, ...]
    rules: tuple[tuple[int, Rule], ...]
    """Each with the depth of its `.gitignore`; the later ones decide."""


def walk(root: Path, most: int, stopped: Callable[[], bool] = lambda: False) -> list[str]:
    """The paths of files below a directory, relative to it.

    Args:
        root: The directory.
        most: How many entries are looked at.
        stopped: Once it returns True, the walk ends.
    """
    until = time.monotonic() + SECONDS
    found: list[str] = []
    waiting = deque([_Directory((), ())])
    looked_at = 0
    while waiting:
        here = waiting.popleft()
        rules = (*here.rules, *((len(here.parts), rule) for rule in _rules_in(root, here.parts)))
        for name, is_directory in _entries(root, here.parts):
            looked_at += 1
            if looked_at > most or stopped() or time.monotonic() > until:
                return found
            path = (*here.parts, name)
            if _is_ignored(path, rules, is_directory=is_directory):
                continue
            if not is_directory:
                found.append("/".join(path))
            elif not name.startswith(".") and name not in LEFT_OUT:
                waiting.append(_Directory(path, rules))
    return found


def _is_ignored(
    path: tuple[str, ...], rules: tuple[tuple[int, Rule], ...], *, is_directory: bool
) -> bool:
    for depth, rule in reversed(rules):
        if rule.matches(path[depth:], is_directory=is_directory):
            return rule.ignores
    return False


def _entries(root: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    try:
        with os.scandir(root.joinpath(*parts)) as entries:
            for entry in entries:
                yield entry.name, entry.is_dir(follow_symlinks=False)
    except OSError:
        return


def _rules_in(root: Path, parts: tuple[str, ...]) -> list[Rule]:
    try:
        # opening a named pipe must not block
        file = os.open(root.joinpath(*parts, ".gitignore"), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return []
        return parse_rules(os.read(file, _LARGEST).decode("utf-8", "replace"))
    except OSError:
        return []
    finally:
        os.close(file)
