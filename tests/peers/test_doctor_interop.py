"""`twofold doctor` with agents made with the official SDKs, as real processes."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from tests.peers.test_py_peers import program
from tests.peers.test_ts_peers import agent_command
from tests.peers.validators import Version
from tests.support.commands import lines, twofold


@pytest.mark.parametrize("version", get_args(Version))
@pytest.mark.parametrize("sdk", ["ts", "py"])
def test_an_agent_of_an_sdk_is_fine(
    sdk: str,
    version: Version,
    node_sdk: Path,
    python_sdk: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    command = (
        agent_command(node_sdk, version) if sdk == "ts" else program(python_sdk, "agent", version)
    )
    result = twofold(
        "doctor", "--json", "--prompt", "stream", "--cwd", str(tmp_path), "--", *command
    )
    steps = {step["name"]: step for step in lines(result.stdout)}
    wrong = {name: step for name, step in steps.items() if step["outcome"] in ("warning", "failed")}
    assert wrong == {}
    assert steps["initialize"]["facts"]["protocolVersion"] == version
    assert steps["prompt"]["facts"]["stopReason"] == "end_turn"
    assert result.exit_code == 0
