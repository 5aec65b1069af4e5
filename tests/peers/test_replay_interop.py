"""Recordings of clients made with every SDK, replayed to clients of both versions.

A recording is made with the demo agent. The client that made it sees the same again, step by step;
a client of the other version sees what it would see of that agent through a bridge.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.peers.differences import expected_of
from tests.peers.facts import Line, with_one_tick
from tests.peers.install import ROOT
from tests.peers.programs import PEERS, TWOFOLD, commands

TAPING = [sys.executable, str(ROOT / "tests" / "support" / "taping_agent.py")]
DEMO = [*TWOFOLD, "agent", "--speed", "0", "--version"]
RUN_LIMIT = 120


def report(client: list[str], agent: list[str], folder: Path) -> tuple[dict[str, Line], list[str]]:
    """What the client saw, and what the replay reported."""
    done = subprocess.run(
        [*client, *agent],
        env={**os.environ, "STEP_SECONDS": "30", "PYTHONPATH": str(ROOT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    reports = [line for line in done.stderr.splitlines() if line.startswith("twofold replay: line")]
    settled: dict[str, Line] = with_one_tick({line.pop("step"): line for line in lines})
    return settled, reports


@pytest.fixture(scope="module")
def clients(node_sdk: Path, python_sdk: Callable[[str], Path]) -> dict[str, list[str]]:
    return {name: list(each) for name, each in commands(node_sdk, python_sdk)[0].items()}


@pytest.fixture(scope="module")
def tape_of(
    clients: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, dict[str, Line]]]:
    """The recording of a client, and what it saw meanwhile."""
    made: dict[str, tuple[Path, dict[str, Line]]] = {}

    def record(name: str) -> tuple[Path, dict[str, Line]]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            agent = [*TAPING, str(folder / "tape.jsonl"), *DEMO, str(PEERS[name].version)]
            made[name] = folder / "tape.jsonl", report(clients[name], agent, folder)[0]
        return made[name]

    return record


def replay(path: Path) -> list[str]:
    return [*TWOFOLD, "replay", "--speed", "max", str(path)]


@pytest.mark.parametrize("name", PEERS)
def test_a_client_sees_in_a_replay_of_its_recording_what_it_saw_then(
    name: str, clients: dict[str, list[str]], tape_of: Any, tmp_path: Path
) -> None:
    path, then = tape_of(name)
    now, reports = report(clients[name], replay(path), tmp_path)
    assert now == then
    assert all("waiting for session/cancel" in each for each in reports)


@pytest.mark.parametrize(
    ("name", "recorder"), [("ts1", "ts2"), ("py1", "py2"), ("ts2", "ts1"), ("py2", "py1")]
)
def test_a_client_of_the_other_version_sees_what_a_bridge_would_show_it(
    name: str, recorder: str, clients: dict[str, list[str]], tape_of: Any, tmp_path: Path
) -> None:
    path, then = tape_of(recorder)
    now, _ = report(clients[name], replay(path), tmp_path)
    expected = expected_of(name, f"tf{PEERS[recorder].version}")
    # a list is answered as it was, also to a client that cannot delete a session
    expected["close"] |= {"ids": then["close"]["ids"]}
    assert now == expected
