"""`make demo`, as someone tries it who has just cloned the project."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.client_stage import send_prompt, wait_prompt, wait_question, wait_sending
from tests.support.terminal_stage import Stage

ROOT = Path(__file__).resolve().parents[2]
DEMO = ["make", "--no-print-directory", "-C", str(ROOT), "demo", "SPEED=20"]

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / ".venv" / ".cli").exists(),
    reason="there is no make, or no environment that it has made",
)


def test_without_a_terminal_it_plays_the_showcase_and_ends_well() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        DEMO, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Fixed: Oslo is just below freezing, and the report says “0 °C”." in done.stdout
    assert "[edit] Edit report.py\n" in done.stderr


def test_on_a_terminal_it_ends_in_a_live_prompt() -> None:
    with Stage(DEMO, columns=100, rows=40) as stage:
        wait_question(stage)
        stage.press("y")
        stage.wait_for("Fixed: Oslo is just below freezing")
        wait_prompt(stage)
        wait_sending(stage)
        send_prompt(stage, "/interleaved")
        stage.wait_for("The second message comes between.")
        wait_prompt(stage)
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
        assert stage.children() == []
