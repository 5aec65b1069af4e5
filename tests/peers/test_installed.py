"""What a new user does: install the wheel in an empty environment, then what the pages show."""

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.peers.install import Unavailable, run_installer
from tests.support.doc_examples import ROOT, Block, consoles, files, python_examples, steps
from tests.support.plain_client import at_prompt, say
from tests.support.terminal_stage import Stage

IN_CI = bool(os.environ.get("CI"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has only `twofold[cli]`, from its wheel."""
    home = tmp_path_factory.mktemp("installed")
    run_installer(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home))
    (wheel,) = home.glob("*.whl")
    venv.create(home / "venv", with_pip=True)
    programs = home / "venv" / "bin"
    pip = (str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet")
    try:
        run_installer(*pip, "install", f"{wheel}[cli]")
    except Unavailable as error:
        if IN_CI:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    return programs


@pytest.fixture
def user(installed: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a person who has used nothing of this before."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "PATH": f"{installed}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONUNBUFFERED": "1",  # both streams in one file, in their order
    }


def output(command: list[str], cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        cwd=cwd,
        env=env,
        check=False,
    )
    return done.stdout


def name(example: Any) -> str:
    block = example if isinstance(example, Block) else example[0]
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", consoles(), ids=name)
def test_a_console_example_works_with_the_installed_package(
    block: Block, installed: Path, user: dict[str, str], tmp_path: Path
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    for words, expected in steps(block):
        if words[0] == "cat":
            (cwd / words[1]).write_text(expected, encoding="utf-8")
        else:
            assert output([str(installed / words[0]), *words[1:]], cwd, user) == expected


@pytest.mark.parametrize("example", python_examples(), ids=name)
def test_a_python_example_works_with_the_installed_package(
    example: tuple[Block, Block], installed: Path, user: dict[str, str], tmp_path: Path
) -> None:
    code, expected = example
    for file, text in files(code.page).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    (tmp_path / "example.py").write_text(code.text, encoding="utf-8")
    assert output([str(installed / "python"), "example.py"], tmp_path, user) == expected.text


def test_the_library_alone_needs_only_msgspec(installed: Path, user: dict[str, str]) -> None:
    code = "import sys, twofold; print(any(m in sys.modules for m in ('click', 'rich')))"
    assert output([str(installed / "python"), "-c", code], ROOT.parent, user) == "False\n"


def test_a_new_user_walks_through_the_client(
    installed: Path, user: dict[str, str], tmp_path: Path
) -> None:
    """docs/run.md from top to bottom, with the command as it is installed."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("remember the milk\n", encoding="utf-8")
    run = [str(installed / "twofold"), "run"]
    with Stage(run, columns=100, rows=60, cwd=work, env=user) as stage:
        stage.wait_for(at_prompt)
        stage.type("What can you do?")
        stage.press("enter")
        stage.wait_for("Run this command?", seconds=60)
        stage.wait_for("waiting for you")
        stage.press("y")
        stage.wait_for(at_prompt, seconds=60)
        assert "by you" in stage.text
        say(stage, "/echo look at @notes.txt", "echo: look at")
        assert "notes.txt · embedded, 1 line" in stage.text
        stage.type("/nonsense")
        stage.press("enter")
        stage.wait_for("There is no /nonsense.")
        stage.type("/help")
        stage.press("enter")
        stage.wait_for("Ctrl-T, Alt-1")
        stage.type("/new")
        stage.press("enter")
        stage.wait_for("── 2 · new session")
        say(stage, "/echo in the second", "echo: in the second")
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
    resume = re.findall(r"To resume it: (twofold run --resume \S+ demo)", stage.text)
    assert len(resume) == 2
    first = shlex.split(resume[0])
    with Stage([str(installed / first[0]), *first[1:]], rows=60, cwd=work, env=user) as stage:
        stage.wait_for("echo: look at")
        stage.wait_for(at_prompt)
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
    listed = output([str(installed / "twofold"), "sessions"], work, user)
    assert len(listed.splitlines()) == 2
