"""What the benchmarks compute, and the terminal in which they start clients."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import DEMO, TWOFOLD

pytest.importorskip("benchmarks", reason="the source distribution has no benchmarks")

from benchmarks.page import share
from benchmarks.table import Amount, Row, Target
from benchmarks.terminal_peers.first_answer import Failed, at_prompt, one_shot

BOUND = Target("≤ 2× Python + 30 ms", 2, "floor", plus=0.03)
COUNTING = [*DEMO, "stream"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(tmp_path)}


@pytest.mark.parametrize(("seconds", "reached"), [(0.049, True), (0.051, False)])
def test_a_target_allows_so_many_times_as_much_and_some_more(seconds: float, reached: bool) -> None:
    assert Row("start", Amount(seconds), Amount(0.01), target=BOUND).reached is reached


def test_a_client_is_ready_before_its_first_answer(env: dict[str, str], tmp_path: Path) -> None:
    started = at_prompt([*TWOFOLD, "run", *COUNTING], "five", env, str(tmp_path))
    assert 0 < started.ready < started.done


def test_a_prompt_prints_its_first_word_before_it_ends(env: dict[str, str], tmp_path: Path) -> None:
    command = [*TWOFOLD, "run", "--prompt", "hello", *COUNTING]
    started = one_shot(command, "one", env, str(tmp_path))
    assert 0 < started.ready < started.done


def test_a_program_that_ends_without_a_prompt_has_failed(
    env: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(Failed, match="ended with"):
        at_prompt([sys.executable, "-c", "print('no prompt')"], "five", env, str(tmp_path))


def test_a_program_that_prints_something_else_has_failed(
    env: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(Failed, match="ended with 0: no word"):
        one_shot([sys.executable, "-c", "print('no word')"], "one", env, str(tmp_path))


@pytest.mark.parametrize(("percent", "time"), [(50, 2.0), (75, 3.0), (76, 4.0), (99, 4.0)])
def test_a_share_of_the_times_does_not_exceed_it(percent: float, time: float) -> None:
    assert share([4.0, 1.0, 3.0, 2.0], percent) == time


def served(*arguments: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.page_peers.session_server", "--entries", "20"]
    done = subprocess.run([*command, "--frames", "5", *arguments], stdout=-1, check=True)
    return json.loads(done.stdout)


def test_a_frame_of_a_session_costs_processor_time() -> None:
    report = served("--reading", "2")
    assert 0 < report["frames"] <= 6
    assert report["frame_seconds"] > 0


def test_an_update_arrives_also_beside_one_who_does_not_read() -> None:
    report = served("--large", "--stalled", "1", "--trace")
    assert 0 < len(report["delays"]) <= 6
    assert report["held_bytes"] > 0
