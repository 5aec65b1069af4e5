"""The TypeScript client of `README.md`, with agents that do other than written there.

It must report what they do, neither hide it nor hang: a test that reads its lines relies on it.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.peers.facts import ALL_STEPS, Json, Line
from tests.peers.test_ts_peers import VERSIONS, run_client
from tests.peers.validators import Version

STUB = """
import json, sys
version, turn = int(sys.argv[1]), json.loads(sys.argv[2])
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for message in map(json.loads, sys.stdin):
    match message.get("method"):
        case "initialize":
            more = {"info": {"name": "stub", "version": "1"}} if version == 2 else {}
            send(id=message["id"], result={"protocolVersion": version, **more})
        case "session/new":
            send(id=message["id"], result={"sessionId": "x"})
        case "session/prompt":
            for update in turn:
                if update == "result":
                    result = {"messageId": "u"} if version == 2 else {"stopReason": "end_turn"}
                    send(id=message["id"], result=result)
                else:
                    send(method="session/update", params={"sessionId": "x", "update": update})
"""

TEXT = {"type": "text", "text": "hi"}
CHUNK = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}
ECHO = {"sessionUpdate": "user_message", "messageId": "u", "content": [TEXT]}
RUNNING = {"sessionUpdate": "state_update", "state": "running"}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}


def stub_steps(
    node_sdk: Path, version: Version, turn: list[Json], steps: str = "stream"
) -> dict[str, Line]:
    stub = [sys.executable, "-c", STUB, str(version), json.dumps(turn)]
    return run_client(node_sdk, version, stub, STEPS=steps, STEP_SECONDS="1")


ORDERS = {
    "result first": ["result", ECHO, RUNNING, CHUNK, IDLE],
    "result in the middle": [ECHO, "result", RUNNING, CHUNK, IDLE],
    "result last": [RUNNING, ECHO, CHUNK, IDLE, "result"],
    "an idle of before": [IDLE, "result", RUNNING, ECHO, CHUNK, IDLE],
}


@pytest.mark.parametrize("turn", ORDERS.values(), ids=list(ORDERS))
def test_a_v2_turn_is_read_whatever_the_order_of_its_beginning(
    turn: list[Json], node_sdk: Path
) -> None:
    facts = stub_steps(node_sdk, 2, turn)["stream"]
    assert facts == {
        "ok": True,
        "stop": "end_turn",
        "text": "hi",
        "thoughts": "",
        "updates": len(turn) - 1,
        "order_ok": True,
    }


MISORDERED: list[tuple[Version, list[Json]]] = [
    (1, ["result", CHUNK]),
    (2, ["result", RUNNING, IDLE, CHUNK]),
    (2, ["result", CHUNK, RUNNING, IDLE]),
]


@pytest.mark.parametrize(("version", "turn"), MISORDERED)
def test_updates_outside_the_turn_are_reported(
    version: Version, turn: list[Json], node_sdk: Path
) -> None:
    facts = stub_steps(node_sdk, version, turn)["stream"]
    assert facts["ok"]
    assert facts["order_ok"] is False


BAD: list[tuple[Version, Json]] = [(1, RUNNING), (2, {**CHUNK, "content": 7})]


@pytest.mark.parametrize(("version", "update"), BAD)
def test_an_update_that_the_sdk_refuses_fails_the_step(
    version: Version, update: Json, node_sdk: Path
) -> None:
    turn = [update, "result"] if version == 1 else [RUNNING, update, "result", IDLE]
    facts = stub_steps(node_sdk, version, turn)["stream"]
    assert not facts["ok"]
    assert facts["error"] == "the SDK refused 1 update"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_that_takes_too_long_does_not_stop_the_others(
    version: Version, node_sdk: Path
) -> None:
    lines = stub_steps(node_sdk, version, [], "stream,tools,mode,replay,close")
    late, missing = ({"ok": False, "error": why} for why in ("timeout", "not offered"))
    nothing = {"ok": True, "closed": None, "deleted": None, "ids": None}
    assert list(lines.values()) == [late, late, missing, missing, nothing]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_agent_that_dies_fails_every_step(version: Version, node_sdk: Path) -> None:
    lines = run_client(node_sdk, version, [sys.executable, "-c", "input()"])
    assert list(lines) == ALL_STEPS
    assert not any(facts["ok"] for facts in lines.values())
