"""The examples in the documentation run, and print the output that is shown there."""

import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import twofold
from twofold.cli.commands import commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
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


def name(example: Any) -> str:
    block = example[0] if not isinstance(example, Block) else example
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("example", python_examples(), ids=name)
def test_a_python_example_prints_what_the_page_says(
    example: tuple[Block, Block], tmp_path: Path
) -> None:
    code, expected = example
    assert expected.language == "", "an example is followed by what it prints"
    for name, text in files(code.page).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    script = tmp_path / "example.py"
    script.write_text(code.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == expected.text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_file_that_a_page_shows_is_used_by_an_example(page: Path) -> None:
    for name, text in files(page.name).items():
        others = [each.text for each in blocks(page) if each.text != text]
        runs = any(code.text == text for code, _ in python_examples())
        assert runs or any(Path(name).stem in other for other in others), name


@pytest.mark.parametrize("block", consoles(), ids=name)
def test_a_console_example_prints_what_the_page_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        words = shlex.split(command)
        if words[0] == "cat":  # shows a file that the steps after it use
            Path(words[1]).write_text(expected, encoding="utf-8")
            continue
        assert words[0] == "twofold"
        result = CliRunner().invoke(commands, words[1:], catch_exceptions=False)
        assert result.output == expected


def test_every_page_is_linked_from_the_readme_or_another_page() -> None:
    pages = [*PAGES, *REFERENCE]
    linked = {target for page in pages for target in links(page)}
    assert linked >= set(pages[1:])


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *REFERENCE]:
        for target in links(page):
            assert target.exists(), f"{page.name}: {target}"


def links(page: Path) -> list[Path]:
    """The files of this project that a page links to, or shows."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return [(page.parent / target).resolve() for target in targets]


def test_the_architecture_names_every_part_of_the_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    parts = {path.stem for path in Path(twofold.__file__).parent.iterdir() if path.stem[0] != "_"}
    assert set(named) == parts - {"py"}
    assert len(named) == len(set(named))


def test_the_public_names_are_there_and_documented() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for public in twofold.__all__:
        assert hasattr(twofold, public)
        if not public.startswith("__"):
            assert f"`{public}" in text or f"twofold.{public}" in text, public
