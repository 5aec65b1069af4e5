"""Completion: slash commands and their arguments after `/`, paths after `@`.

Paths are completed from one directory, plus one for each part of the path that was typed in another
case. Below them are paths of the whole tree (`FileIndex`) in which the typed letters occur. Files
and directories are read in threads, so that typing goes on. A name with control characters in it is
not offered, because a person could not see what it is.
"""

import asyncio
import os
import re
import stat
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from twofold.client import mentions
from twofold.convert.options import Option, mode_option, model_option
from twofold.host.file_index import FileIndex, Listing
from twofold.session import Session
from twofold.term.input.slash_commands import (
    CLIENT_COMMANDS,
    agent_commands,
    config_options,
    offered_choices,
    shorten,
    typable,
)
from twofold.text.fuzzy import best_paths
from twofold.text.safe import one_line
from twofold.wire import v2

MOST: Final = 200
"""How many entries are offered at once."""
MOST_FOUND: Final = 50
"""How many paths of the whole tree are offered."""
MOST_READ: Final = 20_000
"""How many entries of a directory are read."""

_OPEN_MENTION: Final = re.compile(
    mentions.BEFORE + r'(?P<word>"(?P<quoted>(?:[^"\\]|\\.)*)|(?P<plain>[^\s"]*))$'
)
_LONGEST_PATH: Final = 4096
# these name one directory, so nothing else is offered
_ELSEWHERE: Final = re.compile(r"/|~|\.{1,2}(?:/|$)|.*/\.{1,2}/")


class InputCompleter(Completer):
    """Completes what a person types, from the current state of the session."""

    def __init__(self, session: Callable[[], Session], cwd: Path) -> None:
        self._session = session
        self._cwd = cwd
        self._index = FileIndex(cwd)
        self._interrupted = asyncio.Event()

    def interrupt(self) -> None:
        """End the search that goes on, because the text has changed."""
        self._interrupted.set()

    def close(self) -> None:
        """End what is being done in the background."""
        self._interrupted.set()
        self._index.close()

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        line = _line(document)
        if _is_command(document):  # the arguments of an agent's command may be paths
            yield from islice(command_completions(line, self._session()), MOST)
        yield from islice(path_completions(line, self._cwd), MOST)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        line = _line(document)
        if _is_command(document):
            for each in islice(command_completions(line, self._session()), MOST):
                yield each
        mention = _open_mention(line)
        if mention is not None:
            async for path in self._paths(mention):
                yield mention.completion(path)

    async def _paths(self, mention: "_OpenMention") -> AsyncGenerator["Offered", None]:
        """The entries of the typed directory, what is found in the tree, and what Git ignores."""
        interrupted = self._interrupted = asyncio.Event()
        listing = self._index.current() if mention.is_searched else None
        nearby = await asyncio.to_thread(lambda: list(islice(mention.nearby(self._cwd), MOST)))
        ignored = {each for each in nearby if listing and each.path not in listing.known}
        for each in nearby:
            if each not in ignored:
                yield each
        if mention.is_searched and mention.typed:
            listing = listing or await self._index.first(interrupted)
            listed = {each.path for each in nearby}
            for each in await self._found(mention.typed, listing, interrupted):
                if each.path not in listed:
                    yield each
        for each in nearby:
            if each in ignored:
                yield each

    async def _found(
        self, needle: str, listing: Listing | None, interrupted: asyncio.Event
    ) -> list["Offered"]:
        if listing is None or interrupted.is_set():
            return []
        return await asyncio.to_thread(found_paths, needle, listing, self._cwd, interrupted.is_set)


def is_completed(document: Document) -> bool:
    """True if completions are offered here: in a slash command, and after an `@`."""
    return _is_command(document) or _OPEN_MENTION.search(_line(document)) is not None


def _is_command(document: Document) -> bool:
    return document.text.startswith("/") and document.cursor_position_row == 0


def _line(document: Document) -> str:
    return document.current_line_before_cursor[-_LONGEST_PATH:]


# ---- slash commands ----------------------------------------------------------------------------


def command_completions(line: str, session: Session) -> Iterator[Completion]:
    """Completions of a line that begins with a slash."""
    name, blank, argument = line[1:].partition(" ")
    if blank and name in ("mode", "model"):
        find = mode_option if name == "mode" else model_option
        option = find(session.config_options)
        return _values(argument, option) if option else iter(())
    if blank and name == "config":
        return _config(argument, session)
    return _fitting(line, _commands(session))


def _commands(session: Session) -> Iterator[tuple[str, str]]:
    for ours in CLIENT_COMMANDS.values():
        hint = f"{ours.arguments} " if ours.arguments else ""
        yield f"/{ours.name}", f"{hint}{ours.summary}"
    for command in agent_commands(session):
        slashes = "//" if command.name in CLIENT_COMMANDS else "/"
        yield f"{slashes}{command.name}", f"{command.hint} {command.description}".strip()


def _config(argument: str, session: Session) -> Iterator[Completion]:
    options = config_options(session)
    for option in options:
        config_id, rest = argument[: len(option.config_id)], argument[len(option.config_id) :]
        if config_id.casefold() == option.config_id.casefold() and rest.startswith(" "):
            yield from _values(rest.lstrip(" "), option)
            return
    yield from _fitting(argument, ((option.config_id, shorten(option.name)) for option in options))


def _values(typed: str, option: Option) -> Iterator[Completion]:
    if isinstance(option, v2.SessionConfigBoolean):
        return _fitting(typed, (("on", ""), ("off", "")))
    offered = offered_choices(option)
    return _fitting(typed, ((choice.value, shorten(choice.name)) for choice in offered))


def _fitting(typed: str, offered: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    """The words that begin with what was typed, in upper or lower case."""
    folded = typed.casefold()
    for word, meta in offered:
        if typable(word) and word.casefold().startswith(folded):
            yield Completion(word, -len(typed), display_meta=meta)


# ---- paths -------------------------------------------------------------------------------------


class Offered(NamedTuple):
    """A path to insert, with a slash at the end of a directory, and how it is listed."""

    path: str
    display: str


class _OpenMention(NamedTuple):
    """The `@path` at the end of a line."""

    word: str
    """All of it but the `@`."""
    typed: str
    """The path without quotes."""
    is_quoted: bool

    @property
    def is_searched(self) -> bool:
        """True if it may be a part of any path below the directory."""
        return not self.typed.endswith("/") and _ELSEWHERE.match(self.typed) is None

    def nearby(self, cwd: Path) -> Iterator[Offered]:
        """The entries of the typed directory that begin with what follows it."""
        above, slash, beginning = self.typed.rpartition("/")
        directory = _directory(above + slash, cwd)
        if directory is not None:
            for name, is_directory in _entries(directory, beginning, cwd):
                shown = f"{name}/" if is_directory else name
                yield Offered(f"{directory}{shown}", shown)

    def completion(self, offered: Offered) -> Completion:
        """The completion that replaces the typed path."""
        is_directory = offered.path.endswith("/")
        # more may follow a directory, so its quotes stay open
        word = mentions.written(offered.path, closed=not is_directory)
        if self.is_quoted and not word.startswith('"'):
            word = f'"{word}' if is_directory else f'"{word}"'
        return Completion(word, -len(self.word), display=offered.display)


def _open_mention(line: str) -> _OpenMention | None:
    found = _OPEN_MENTION.search(line)
    if found is None:
        return None
    quoted = found["quoted"]
    typed = found["plain"] if quoted is None else mentions.unquoted(quoted)
    return _OpenMention(found["word"], typed, quoted is not None)


def path_completions(line: str, cwd: Path) -> Iterator[Completion]:
    """Completions of the `@path` at the end of a line, from its directory."""
    mention = _open_mention(line)
    if mention is not None:
        yield from map(mention.completion, mention.nearby(cwd))


def found_paths(
    needle: str, listing: Listing, cwd: Path, stopped: Callable[[], bool] = lambda: False
) -> list[Offered]:
    """The paths that fit the needle best and that are still there."""
    found = []
    for position in best_paths(needle, listing.folded, MOST_FOUND, stopped):
        path = listing.paths[position].rstrip("/")
        # a directory of the name `~` would be read as the home directory
        if one_line(path) != path or path.startswith("~"):
            continue
        try:
            is_directory = stat.S_ISDIR(os.stat(cwd / path).st_mode)
        except (OSError, ValueError):
            continue
        shown = f"{path}/" if is_directory else path
        found.append(Offered(shown, shown))
    return found


def _directory(path: str, cwd: Path) -> str | None:
    """The directory in the case that it has on disk; None if there is none."""
    if not path or _is_directory(path, cwd):
        return path
    made = ""
    for part in path[:-1].split("/"):
        if not _is_directory(f"{made}{part}/", cwd):
            similar = (name for name, directory in _entries(made, part, cwd) if directory)
            folded = part.casefold()
            found = next((name for name in similar if name.casefold() == folded), None)
            if found is None:
                return None
            part = found
        made += f"{part}/"
    return made


def _is_directory(path: str, cwd: Path) -> bool:
    try:
        return os.path.isdir(mentions.located(path, cwd))
    except (OSError, ValueError, RuntimeError):
        return False


def _entries(directory: str, beginning: str, cwd: Path) -> list[tuple[str, bool]]:
    """The names in a directory with this beginning, and whether they are directories."""
    folded = beginning.casefold()
    found = []
    try:
        with os.scandir(mentions.located(directory, cwd)) as entries:
            for entry in islice(entries, MOST_READ):
                name = entry.name
                hidden = name.startswith(".") and not beginning.startswith(".")
                if not hidden and name.casefold().startswith(folded) and one_line(name) == name:
                    found.append((name, entry))
        found.sort(key=lambda each: (each[0].casefold(), each[0]))
        return [(name, entry.is_dir()) for name, entry in found[:MOST]]
    except (OSError, ValueError, RuntimeError):
        return []
