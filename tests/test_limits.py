"""What an untrusted peer can fill has a bound, and whoever meets it is answered."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.raw_client import an_agent, run, talking

Json = dict[str, Any]
MIB = 1024 * 1024


# ---- the length of a line


def long_request(identity: Any, size: int) -> bytes:
    params = {"filler": "x" * size}
    request = {"jsonrpc": "2.0", "id": identity, "method": "_x/echo", "params": params}
    return json.dumps(request).encode() + b"\n"


def test_an_agent_has_a_limit_for_lines_and_refuses_what_is_longer() -> None:
    async def main() -> None:
        agent, problems = an_agent(line_limit=10_000)
        async with talking(agent, 2) as client:
            client.raw(long_request(77, 20_000))
            error = (await client.reply(77))["error"]
            assert error["code"] == -32600
            assert "the limit is 10000" in error["data"]["reason"]
            assert [each.kind for each in problems] == ["noise"]

    run(main())


@pytest.mark.parametrize("command", [["agent"], ["bridge", "--", sys.executable, "-m", "twofold"]])
def test_the_commands_have_an_option_for_the_length_of_lines(command: list[str]) -> None:
    tail = ["agent"] if "--" in command else []
    words = [sys.executable, "-m", "twofold", command[0], "--line-limit", "1", *command[1:], *tail]
    done = subprocess.run(
        words, input=long_request(5, 2 * MIB), capture_output=True, timeout=60, check=False
    )
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert answer["id"] == 5
    assert f"the limit is {MIB}" in answer["error"]["data"]["reason"]
