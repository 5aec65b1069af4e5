"""Ctrl-C before a command has something to clean up."""

import subprocess
import sys

import pytest

from tests.support.commands import PATIENCE
from tests.support.terminal_stage import Stage
from twofold.cli import interrupts
from twofold.term import exit_status

# the module is imported by the command itself: in that moment the process gets the signal
AT_IMPORT = """
import os, signal, sys

def heard(event, arguments):
    if event == "import" and arguments[0] == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(heard)
from twofold.cli import main
sys.argv[0] = "twofold"
main()
"""


def at_import(module: str, *arguments: str) -> list[str]:
    """The command as a process that is interrupted when it imports `module`."""
    return [sys.executable, "-c", AT_IMPORT.format(module=module), *arguments]


@pytest.mark.parametrize("command", ["bridge", "run", "sessions"])
@pytest.mark.parametrize(
    "module", ["twofold.cli.commands", "click", "asyncio", "msgspec", "twofold.peer"]
)
def test_an_interrupt_while_the_program_is_loaded_ends_it_without_a_traceback(
    module: str, command: str
) -> None:
    options = ["--prompt", "x"] if command == "run" else []
    words = at_import(module, command, *options, "--", "touch", "never")
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (exit_status.CANCELLED, b"", b"")


@pytest.mark.parametrize("module", ["twofold.term.client", "prompt_toolkit.application"])
def test_an_interrupt_while_the_client_is_loaded_ends_it_without_a_traceback(module: str) -> None:
    with Stage(at_import(module, "run", "--", "sleep", "60")) as stage:
        assert stage.wait_end() == exit_status.CANCELLED
        assert stage.text.strip() in ("", "^C")
        assert stage.children() == []


def test_nothing_that_takes_long_is_imported_before_interrupts_are_handled() -> None:
    look = "import sys, twofold.cli; print({*sys.modules} & {'asyncio', 'msgspec', 'click'})"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True)
    assert done.stdout == b"set()\n"


def test_an_interrupt_of_a_filter_is_an_exception_that_it_can_clean_up_after() -> None:
    words = at_import("rich.console", "show", "/dev/null")
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert b"Aborted!" in done.stderr


def test_the_early_exit_status_is_that_of_a_cancelled_command() -> None:
    assert interrupts.CANCELLED == exit_status.CANCELLED
