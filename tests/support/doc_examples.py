"""The examples in the documentation: blocks of code, and what they print."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FILE = re.compile(r"# (\w+\.py)\n")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    return [
        Block(page.name, source.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in _BLOCK.finditer(source)
    ]


def python_examples() -> list[tuple[Block, Block]]:
    """Each Python block that is run, with the block of its output after it."""
    found = []
    for page in PAGES:
        on_page = [*blocks(page), Block(page.name, 0, "end", "")]
        for block, after in pairwise(on_page):
            if block.language == "python" and (not file_name(block) or not after.language):
                found.append((block, after))
    return found


def file_name(block: Block) -> str:
    """The file name in the first line of a block, such as `# weather.py`."""
    match = _FILE.match(block.text)
    return match[1] if match else ""


def files(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    (path,) = [each for each in PAGES if each.name == page]
    return {file_name(each): each.text for each in blocks(path) if file_name(each)}


def consoles() -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == "console"]


def steps(block: Block) -> Iterator[tuple[list[str], str]]:
    """The commands of a console block, each with what it prints; `cat` shows a file to write."""
    for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        yield shlex.split(command), expected
