"""`twofold run` at a terminal with agents made with the official SDKs, as real processes."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.test_py_peers import program
from tests.peers.test_ts_peers import agent_command
from tests.support.plain_client import at_prompt
from tests.support.terminal_stage import Stage

TWOFOLD = [sys.executable, "-P", "-m", "twofold", "run", "--"]


@pytest.fixture(scope="module", params=["ts v1", "ts v2", "py v1", "py v2"])
def agent(
    request: pytest.FixtureRequest, node_sdk: Path, python_sdk: Callable[[str], Path]
) -> list[str]:
    sdk, version = request.param.split(" v")
    if sdk == "ts":
        return agent_command(node_sdk, 1 if version == "1" else 2)
    return program(python_sdk, "agent", 1 if version == "1" else 2)


def rows_of_turn(stage: Stage, text: str) -> list[str]:
    """Send a prompt and wait for the end of its turn."""
    stage.wait_for(at_prompt)
    stage.type(text)
    stage.press("enter")
    stage.wait_for(lambda stage: f"> {text}" in stage.scrollback() and at_prompt(stage))
    rows = stage.scrollback()
    return rows[rows.index(f"> {text}") :]


def test_turns_tool_calls_and_questions_of_the_official_agents_are_shown(agent: list[str]) -> None:
    with Stage([*TWOFOLD, *agent], columns=100, rows=40) as stage:
        stage.wait_for("of the protocol")
        assert "one two three four five" in rows_of_turn(stage, "stream")
        rows = rows_of_turn(stage, "tools")
        assert any(row.startswith("✓") and "completed" in row for row in rows)
        assert any(row.strip().startswith("+") for row in rows), "a diff"
        stage.type("permission")
        stage.press("enter")
        stage.wait_for("waiting for you")
        stage.wait_quiet(0.6)
        stage.press("y")
        stage.wait_for("outcome: a1")
        stage.wait_gone("waiting for you")
        stage.wait_for(at_prompt)
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
        assert stage.children() == []
