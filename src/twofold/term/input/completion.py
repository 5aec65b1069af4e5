"""Completion: slash commands and their arguments after `/`, paths after `@`.

Paths are completed from one directory, plus one for each part of the path that was typed in another
case; no tree is ever walked. A name with control characters in it is not offered, because a person
could not see what it is.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from twofold.convert.options import Option, mode_option
from twofold.session import Session
from twofold.term.input import mentions
from twofold.term.input.slash_commands import (
    CLIENT_COMMANDS,
    agent_commands,
    config_options,
    offered_choices,
    shorten,
    typable,
)
from twofold.text.safe import one_line
from twofold.wire import v2

MOST: Final = 200
"""How many entries are offered at once."""
MOST_READ: Final = 20_000
"""How many entries of a directory are read."""

_OPEN_MENTION: Final = re.compile(
    mentions.BEFORE + r'(?P<word>"(?P<quoted>(?:[^"\\]|\\.)*)|(?P<plain>[^\s"]*))$'
)
_LONGEST_PATH: Final = 4096


class InputCompleter(Completer):
    """Completes what a person types, from the current state of the session."""

    def __init__(self, session: Callable[[], Session], cwd: Path) -> None:
        self._session = session
        self._cwd = cwd

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        line = _line(document)
        if _is_command(document):  # the arguments of an agent's command may be paths
            yield from islice(command_completions(line, self._session()), MOST)
        yield from islice(path_completions(line, self._cwd), MOST)


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
    if blank and name == "mode":
        option = mode_option(session.config_options)
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


def path_completions(line: str, cwd: Path) -> Iterator[Completion]:
    """Completions of the `@path` at the end of a line."""
    found = _OPEN_MENTION.search(line)
    if found is None:
        return
    quoted = found["quoted"]
    typed = found["plain"] if quoted is None else mentions.unquoted(quoted)
    above, slash, beginning = typed.rpartition("/")
    directory = _directory(above + slash, cwd)
    if directory is None:
        return
    for name, is_directory in _entries(directory, beginning, cwd):
        path = f"{directory}{name}{'/' if is_directory else ''}"
        # more may follow a directory, so its quotes stay open
        word = mentions.written(path, closed=not is_directory)
        if quoted is not None and not word.startswith('"'):
            word = f'"{word}' if is_directory else f'"{word}"'
        display = f"{name}/" if is_directory else name
        yield Completion(word, -len(found["word"]), display=display)


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
