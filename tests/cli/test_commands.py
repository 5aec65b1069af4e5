"""The group of commands: what it lists, and what it imports for that."""

import json
import subprocess
import sys

import click
import pytest

from tests.support.commands import TWOFOLD, twofold
from twofold.cli.commands import SUMMARIES, commands
from twofold.cli.formats import PRINTERS
from twofold.cli.run import FORMATS

LOADED = """
import json, sys
from twofold.cli import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {"asyncio", "dataclasses", "msgspec", "prompt_toolkit", "pygments", "pyte", "rich"}


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_help_imports_nothing_that_it_does_not_need() -> None:
    loaded = json.loads(python(LOADED, "--help").stdout.splitlines()[-1])
    assert HEAVY.intersection(loaded) == set()
    assert [name for name in loaded if name.partition(".")[0] == "twofold"] == [
        *("twofold", "twofold.cli", "twofold.cli.commands", "twofold.cli.interrupts"),
        "twofold.version",
    ]


def test_the_version_alone_does_not_even_import_click() -> None:
    loaded = json.loads(python(LOADED, "--version").stdout.splitlines()[-1])
    assert not any(name.partition(".")[0] == "click" for name in loaded)


def test_the_version_alone_is_the_version_that_click_prints() -> None:
    done = subprocess.run([*TWOFOLD, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == twofold("--version").stdout


@pytest.mark.parametrize("name", ["agent", "bridge", "doctor", "run", "serve", "sessions"])
def test_the_help_of_a_command_that_runs_an_agent_imports_nothing_that_runs_one(name: str) -> None:
    loaded = json.loads(python(LOADED, name, "--help").stdout.splitlines()[-1])
    assert HEAVY.intersection(loaded) == set()


def test_the_formats_that_the_help_lists_are_those_that_exist() -> None:
    assert list(FORMATS) == list(PRINTERS)


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_lists_the_first_sentence_of_each_command(name: str) -> None:
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    assert command.name == name
    assert SUMMARIES[name] == (command.help or "").partition("\n")[0]


@pytest.mark.parametrize("package", ["click", "rich", "rich.console"])
def test_without_the_extra_the_command_says_how_to_get_it(package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; from twofold.cli import main; main()"
    done = python(script, "show")
    assert done.returncode == 1
    assert done.stderr == (
        "The twofold command needs more than the library: pip install 'twofold[cli]'\n"
    )


def test_what_draws_is_imported_only_by_what_draws() -> None:
    script = "import sys, twofold.cli.run; print([m for m in sys.argv if m in sys.modules])"
    assert python(script, "prompt_toolkit", "pygments", "pyte", "rich.console").stdout == "[]\n"
