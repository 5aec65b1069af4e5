"""The lines of `/diff`: all changes of a session, file by file."""

from collections.abc import Iterator
from typing import Final

from twofold.errors import LocalError
from twofold.term.block_lines import counted
from twofold.term.diff_lines import DiffRows
from twofold.term.lines import BLANK, Drawable, Line, line
from twofold.view.blocks import DiffItem
from twofold.view.session_diff import FileChanges, SessionChanges

FOLD: Final = 200
"""How many lines of a file's changes are shown among those of the others."""
MOST_FILES: Final = 50
"""Of how many files the changes are shown; of the others the numbers."""
MOST_LISTED: Final = 500
"""How many files are listed."""


class NoSuchFile(LocalError):
    """The session has changed fewer files."""

    def __init__(self, number: int, count: int) -> None:
        files = counted(count, "file")
        super().__init__(f"There is no file {number:,}: this session has changed {files}.")


def change_lines(changes: SessionChanges, number: int | None = None) -> list[Drawable]:
    """The changes of all files, long ones folded, or all those of one file.

    Args:
        changes: The changes of a session.
        number: Which file, counted from 1; None for all.

    Raises:
        NoSuchFile: There is no file of this number.
    """
    files = changes.files
    if number is not None:
        if number > len(files):
            raise NoSuchFile(number, len(files))
        return [*_whole(files[number - 1])]
    made: list[Drawable] = [_summary(changes)]
    for place, file in enumerate(files[:MOST_FILES], 1):
        made += [BLANK, *_folded(file, place)]
    if files[MOST_FILES:]:
        made.append(BLANK)
    for place, file in enumerate(files[MOST_FILES:MOST_LISTED], MOST_FILES + 1):
        made.append(line(f"{file.name}{_counts(file)} · /diff {place} shows it", "dim"))
    if more := len(files[MOST_LISTED:]):
        made.append(line(f"… and {counted(more, 'more file')}", "dim"))
    return made


def _summary(changes: SessionChanges) -> Line:
    if not changes.files:
        words = "No completed tool call of this session shows a change."
    else:
        words = f"{counted(len(changes.files), 'changed file')}"
        words += _counts(*changes.files)
    if changes.left_out:
        calls = counted(changes.left_out, "tool call")
        words += f" · without {calls} that did not complete"
    return line(words, "bold" if changes.files else "dim")


def _counts(*files: FileChanges) -> str:
    added = sum(file.count("added") for file in files)
    removed = sum(file.count("removed") for file in files)
    counts = [f"+{added:,}" if added else "", f"-{removed:,}" if removed else ""]
    return "".join([f" {count}" for count in counts if count])


def _whole(file: FileChanges) -> Iterator[Drawable]:
    for item in file.diffs:
        yield DiffRows(item)


def _folded(file: FileChanges, place: int) -> Iterator[Drawable]:
    """The diffs of a file as far as there is room, and below them what shows the rest."""
    room = FOLD
    for number, item in enumerate(file.diffs):
        if room <= 1:
            yield line(f"… {counted(len(file.diffs) - number, 'more diff')}", "dim")
            break
        yield DiffRows(DiffItem(item.lines), room)
        room -= len(item.lines)
    if room < 0:
        yield line(f"/diff {place} shows all of it", "dim")
