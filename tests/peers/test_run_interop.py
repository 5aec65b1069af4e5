"""`twofold run --prompt` with agents made with the official SDKs, as real processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.test_py_peers import program
from tests.peers.test_ts_peers import agent_command
from tests.peers.validators import Version
from tests.support.commands import called, filtered, lines, process

Agent = tuple[Version, list[str]]
"""The version that an agent speaks, and the command line that starts it."""


@pytest.fixture(scope="module", params=["ts v1", "ts v2", "py v1", "py v2"])
def agent(
    request: pytest.FixtureRequest, node_sdk: Path, python_sdk: Callable[[str], Path]
) -> Agent:
    sdk, version = request.param.split(" v")
    spoken: Version = 1 if version == "1" else 2
    if sdk == "ts":
        return spoken, ["--", *agent_command(node_sdk, spoken)]
    return spoken, ["--", *program(python_sdk, "agent", spoken)]


def test_the_messages_of_the_agent_are_printed_and_its_version_is_detected(
    agent: Agent, tmp_path: Path
) -> None:
    version, command = agent
    tape = tmp_path / "tape.jsonl"
    done = process("--prompt", "stream", "--record", str(tape), *command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one two three four five\n", "")
    (agreed,) = [each for each in lines(tape.read_text("utf-8")) if each["dir"] == "negotiated"]
    assert agreed["version"] == version
    assert agreed["agent"]["name"].endswith(f"-agent-v{version}")


@pytest.mark.parametrize(
    ("rules", "status", "printed"),
    [(["--allow", "execute"], 0, "outcome: a1\n"), (["--allow", "read"], 6, "outcome: r1\n")],
    ids=["allowed", "rejected"],
)
def test_rules_answer_the_agent(agent: Agent, rules: list[str], status: int, printed: str) -> None:
    result = called("--prompt", "permission", "--format", "quiet", *rules, *agent[1])
    assert (result.exit_code, result.stdout) == (status, printed)
    answer = "allowed by --allow execute" if status == 0 else "rejected: nobody to ask"
    line, details, rest = result.stderr.split("\n")
    assert line.startswith(f"[permission] Run make: {answer} [execute]")
    assert (details, rest) == ("  The agent shows only this title.", "")


def test_an_error_of_the_agent_is_shown(agent: Agent) -> None:
    result = called("--prompt", "error", *agent[1])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "session/prompt failed: " in result.stderr


def test_updates_add_up_to_the_session_of_the_record(agent: Agent, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    arguments = ["--prompt", "tools", "--format", "updates", "--record", str(tape)]
    result = called(*arguments, *agent[1])
    assert (result.exit_code, result.stderr) == (0, "")
    folded = filtered("fold", data=result.stdout)
    assert folded == filtered("fold", str(tape))
    calls = [each["update"] for each in lines(folded) if "toolCallId" in each["update"]]
    assert [call["status"] for call in calls] == ["completed", "completed"]
