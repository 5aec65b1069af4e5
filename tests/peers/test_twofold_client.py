"""The Twofold client of `README.md`, directly with agents, as a process.

With agents that do what is written down, and with some that do not: it must report what they do,
neither hide it nor hang, for a test that reads its lines relies on it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.peers.differences import expected_of
from tests.peers.facts import ALL_STEPS, Json, Line, with_one_tick
from tests.peers.programs import HERE, PEERS, TWOFOLD, commands
from tests.peers.test_ts_client import CHUNK, ECHO, IDLE, RUNNING
from tests.peers.validators import Version

RUN_LIMIT = 60
BOTH = pytest.mark.parametrize("version", [1, 2])
DEMO = [*TWOFOLD, "agent", "--speed", "0"]


def run_client(version: Version, agent: Sequence[str], **env: str) -> dict[str, Line]:
    """The report of the client on each step with this agent."""
    client = [sys.executable, str(HERE / "twofold_client.py"), str(version), "--"]
    done = subprocess.run(
        [*client, *agent],
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN_LIMIT,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("step"): line for line in lines}


# ---- agents that do what is written down -------------------------------------------------------


@pytest.mark.parametrize("agent", PEERS)
def test_it_goes_through_every_step(
    agent: str, node_sdk: Path, python_sdk: Callable[[str], Path]
) -> None:
    _, agents = commands(node_sdk, python_sdk)
    version = PEERS[agent].version
    lines = run_client(version, agents[agent])
    assert list(lines) == ALL_STEPS
    assert with_one_tick(lines) == expected_of(f"tf{version}", agent)


@BOTH
def test_the_environment_chooses_steps_and_prompts(version: Version) -> None:
    prompts = {"stream": "/stream", "permission": "wrong", "allow": "/echo hi there"}
    lines = run_client(version, DEMO, STEPS="stream,allow", PROMPTS=json.dumps(prompts))
    assert list(lines) == ["stream", "allow"]
    assert lines["stream"]["text"] == "one two three four five"
    assert lines["allow"]["text"] == "echo: hi there"
    assert lines["allow"]["options"] is None


@pytest.mark.parametrize(("mine", "theirs"), [(1, 2), (2, 1)])
def test_an_agent_of_the_other_version_is_not_for_it(mine: Version, theirs: Version) -> None:
    lines = run_client(mine, [*DEMO, "--version", str(theirs)])
    assert f"speaks version {theirs}" in lines.pop("initialize")["error"]
    assert list(lines.values()) == [{"ok": False, "error": "no session"}] * 13


# ---- agents that do not ------------------------------------------------------------------------


# An agent that begins sessions, named by their folders, and answers prompts as its argument lists.
STUB = """
import json, sys
initialized, turn = json.loads(sys.argv[1]), json.loads(sys.argv[2])
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for asked in map(json.loads, sys.stdin):
    params = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            send(id=asked["id"], result=initialized)
        case "session/new":
            send(id=asked["id"], result={"sessionId": params["cwd"]})
        case "session/prompt":
            for part in turn:
                if part == "result":
                    send(id=asked["id"], result={"stopReason": "end_turn", "messageId": "u"})
                else:
                    params = {"sessionId": params["sessionId"], "update": part}
                    send(method="session/update", params=params)
"""
INITIALIZED: dict[Version, Json] = {
    1: {"protocolVersion": 1},
    2: {
        "protocolVersion": 2,
        "info": {"name": "stub", "version": "1"},
        "capabilities": {"session": {}},
    },
}


def stub_steps(version: Version, turn: Sequence[Json], steps: str, **env: str) -> dict[str, Line]:
    arguments = [json.dumps(each) for each in (INITIALIZED[version], turn)]
    agent = [sys.executable, "-c", STUB, *arguments]
    return run_client(version, agent, STEPS=steps, **env)


ORDERS: dict[str, tuple[Version, list[Json], bool]] = {
    "as it should be": (2, ["result", ECHO, RUNNING, CHUNK, IDLE], True),
    "an update after the result": (1, ["result", CHUNK], False),
    "an update after idle": (2, ["result", ECHO, RUNNING, IDLE, CHUNK], False),
    "an update before running": (2, ["result", ECHO, CHUNK, RUNNING, IDLE], False),
}


@pytest.mark.parametrize(("version", "turn", "in_order"), ORDERS.values(), ids=list(ORDERS))
def test_updates_outside_the_turn_are_reported(
    version: Version, turn: list[Json], in_order: bool
) -> None:
    facts = stub_steps(version, turn, "stream")["stream"]
    assert facts["ok"]
    assert facts["order_ok"] is in_order


@BOTH
def test_an_update_that_cannot_be_read_fails_the_step(version: Version) -> None:
    turn = [RUNNING, {**CHUNK, "content": 7}, "result", IDLE]
    facts = stub_steps(version, turn if version == 2 else turn[1:3], "stream")["stream"]
    assert not facts["ok"]
    assert "update" in facts["error"]
    assert facts["stop"] == "end_turn"


@BOTH
def test_a_step_that_takes_too_long_does_not_stop_the_others(version: Version) -> None:
    lines = stub_steps(version, [], "stream,mode", STEP_SECONDS="2")
    late, missing = ({"ok": False, "error": why} for why in ("timeout", "not offered"))
    assert list(lines.values()) == [late, missing]


@BOTH
def test_what_an_agent_does_not_offer_is_not_tried(version: Version) -> None:
    steps = {1: "new,mode,list,replay,resume", 2: "new,mode"}[version]
    lines = stub_steps(version, [], steps, CWD="/some")
    assert lines.pop("new") == {"ok": True, "session": "/some", "modes": None}
    assert all(facts == {"ok": False, "error": "not offered"} for facts in lines.values())


@BOTH
def test_an_agent_that_dies_fails_every_step(version: Version) -> None:
    lines = run_client(version, [sys.executable, "-c", "input()"])
    assert list(lines) == ALL_STEPS
    assert not any(facts["ok"] for facts in lines.values())
    assert "ended" in lines["initialize"]["error"]
