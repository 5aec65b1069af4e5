"""The rows of a table, as lines of text."""

import re
from typing import Final

from twofold.view.markdown.blocks import Align, Cells
from twofold.view.markdown.inline import spans

MOST_COLUMNS: Final = 64
"""What has more is no table: a short line must not become a long row."""

_PIPE = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r":?-++:?")


def cells(line: str) -> list[str]:
    """What stands between the bars of a line."""
    line = line.strip(" \t").removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    found = _PIPE.split(line.replace("\t", " "))
    return [cell.strip(" ").replace("\\|", "|") for cell in found]


def row(line: str, columns: int) -> Cells:
    """The cells of a row; what has no column is left out, as everywhere."""
    return tuple([spans(cell) for cell in cells(line)[:columns]])


def aligns(header: str, line: str) -> tuple[Align, ...] | None:
    """How the columns are aligned if the line makes a table of the header before it."""
    if "|" not in line or "-" not in line or header.startswith("    "):
        return None
    delimiters = cells(line)
    if len(delimiters) > MOST_COLUMNS or not all(map(_DELIMITER.fullmatch, delimiters)):
        return None
    return tuple(map(_align, delimiters)) if len(cells(header)) == len(delimiters) else None


def _align(delimiter: str) -> Align:
    if delimiter.endswith(":"):
        return "center" if delimiter.startswith(":") else "right"
    return "left"
