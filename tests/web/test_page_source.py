"""The scripts and the stylesheet of the page as source: types, style, mistakes.

`biome check --write --config-path=tests/web src/twofold/web/static` mends what it can.
"""

import subprocess
from pathlib import Path

import pytest

from tests.support.page_server import STATIC

HERE = Path(__file__).parent


def reports(*command: str) -> str:
    """What a checker reports; empty if it finds nothing."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def faults(page_checkers: Path, folder: Path) -> str:
    """What is not formatted, or is a mistake, in the files of a folder."""
    biome = str(page_checkers / ".bin" / "biome")
    options = ("--colors=off", "--error-on-warnings", f"--config-path={HERE}")
    return reports(biome, "ci", *options, str(folder))


def test_the_types_of_the_page_are_right(page_checkers: Path) -> None:
    tsc = str(page_checkers / ".bin" / "tsc")
    assert reports(tsc, "-p", str(HERE / "tsconfig.json")) == ""


def test_the_files_of_the_page_are_formatted_and_have_no_faults(page_checkers: Path) -> None:
    assert faults(page_checkers, STATIC) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("indent.js", "export function one() {\n      return 1;\n}\n"),
        ("unused.js", "const one = 1;\nexport const two = 2;\n"),
        ("style.css", "a {color: red}\n"),
        ("twice.css", "a {\n  color: red;\n  color: red;\n}\n"),
    ],
)
def test_a_file_with_a_fault_is_found(
    page_checkers: Path, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert name in faults(page_checkers, tmp_path)
