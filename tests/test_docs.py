"""The examples in the documentation run, and print the output that is shown there."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import twofold
from tests.support.doc_examples import (
    PAGES,
    ROOT,
    Block,
    blocks,
    consoles,
    files,
    python_examples,
    steps,
)
from twofold.cli.commands import commands

REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))


def name(example: Any) -> str:
    block = example[0] if not isinstance(example, Block) else example
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("example", python_examples(), ids=name)
def test_a_python_example_prints_the_output_on_the_page(
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
def test_a_console_example_prints_the_output_on_the_page(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, expected in steps(block):
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
