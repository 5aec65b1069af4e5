"""Where each key of a TOML text is: `tomllib` reads the values, but gives no lines.

Pure: no file is opened. The text must be valid TOML.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""The keys that lead to a value: `("agents", "claude", "mode")`."""


def key_lines(text: str) -> dict[Path, int]:
    """The line of each key and table of a TOML text, counted from 1.

    A table that is written in several places has the line of the first. An element of a list has
    its own path, which ends in its number: `("rules", "allow", "0")`.
    """
    lines: dict[Path, int] = {}
    table: Path = ()
    for start, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _only_path(parsed)
            found = {table: start}
        else:
            found = dict(_value_lines(parsed, table, statement.splitlines(), start))
        for path, line in found.items():
            for length in range(1, len(path) + 1):
                lines.setdefault(path[:length], line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the number of its first line; one of several lines ends where it parses.

    A table header and a `key = value` are valid TOML by themselves.
    """
    start, pending = 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not pending and (not line.strip() or line.lstrip().startswith("#")):
            continue
        start = start if pending else number
        pending += f"{line}\n"
        try:
            tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        yield start, pending
        pending = ""


def _only_path(parsed: Mapping[str, Any]) -> Path:
    """The path of a table header, which was parsed by itself."""
    path: Path = ()
    value: Any = parsed
    while isinstance(value, dict) and value:
        [(key, value)] = value.items()
        path = (*path, key)
        value = value[0] if isinstance(value, list) else value
    return path


def _value_lines(
    value: Any, path: Path, statement: list[str], start: int
) -> Iterator[tuple[Path, int]]:
    """The line of a value and of all that is in it."""
    yield path, start
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _value_lines(inner, (*path, key), statement, start)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            at = next((n for n, line in enumerate(statement) if str(inner) in line), 0)
            yield (*path, str(number)), start + at
