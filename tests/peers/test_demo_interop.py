"""Twofold's demo agent as a real process, with clients made with the official SDKs.

They find in it what `README.md` lists for an agent, step by step; a replay has more than that,
for Twofold forgets nothing. And what the demo agent writes is what the official schemas allow.
"""

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.peers import test_py_peers, test_ts_peers
from tests.peers.facts import ALL_STEPS, Json, Line, expected, with_one_tick
from tests.peers.test_py_peers import LACKS
from tests.peers.validators import Schemas, SchemaValidator, Version
from tests.support.demo_meeting import choose, play
from tests.support.schema_shapes import methods_of

Sdk = Callable[[str], Path]
RunClient = Callable[..., dict[str, Line]]

BOTH = pytest.mark.parametrize("version", [1, 2])
DEMO = [sys.executable, "-m", "twofold", "agent", "--speed", "0"]
INFO = {"name": "twofold-demo", "version": twofold.__version__}


def run_ts(node_sdk: Path, version: Version, **env: str) -> dict[str, Line]:
    return test_ts_peers.run_client(node_sdk, version, DEMO, **env)


def run_py(python_sdk: Sdk, version: Version, **env: str) -> dict[str, Line]:
    client = test_py_peers.program(python_sdk, "client", version)
    lines = test_py_peers.run_client(client, DEMO, **env)
    return {line.pop("step"): line for line in lines}


# ---- every step --------------------------------------------------------------------------------


def wanted(version: Version) -> dict[str, Line]:
    """What is expected of every agent, with the replay of this one."""
    facts = expected(version, INFO)
    facts["replay"]["updates"] = everything(version, facts["replay"]["updates"])
    return facts


def everything(version: Version, rows: list[Line]) -> list[Line]:
    """A replay that has thoughts too, and then all that is no entry of the conversation."""
    kinds = {
        1: ("plan", "config_option_update", "current_mode_update"),
        2: (
            *("terminal_update", "plan_update"),
            *("config_option_update", "state_update"),
        ),
    }[version]
    entries = [row for row in rows if row["kind"] not in kinds]
    suffix = "_chunk" if version == 1 else ""
    thought = _row(f"agent_thought{suffix}", "let me think")
    return [entries[0], thought, *entries[1:], *map(_row, kinds)]


def _row(kind: str, text: str | None = None) -> Line:
    return {"kind": kind, "text": text, "id": None, "status": None}


def joined(lines: dict[str, Line]) -> Json:
    """The lines of a client, with the chunks of a replayed message as one."""
    rows = []
    for (kind, identity), group in groupby(
        lines["replay"]["updates"], lambda row: (row["kind"], row["id"])
    ):
        same = list(group)
        if kind.endswith("_chunk"):
            rows.append({**same[0], "text": "".join(row["text"] for row in same)})
        else:
            rows += same
            assert identity is None or len(same) == 1
    replay = {**lines["replay"], "updates": rows}
    return with_one_tick({**lines, "replay": replay})


@BOTH
def test_the_typescript_sdk_does_every_step_with_the_demo_agent(
    version: Version, node_sdk: Path
) -> None:
    lines = run_ts(node_sdk, version)
    assert list(lines) == ALL_STEPS
    assert joined(lines) == wanted(version)


@BOTH
def test_the_python_sdk_does_every_step_with_the_demo_agent(
    version: Version, python_sdk: Sdk
) -> None:
    lines = run_py(python_sdk, version)
    facts = wanted(version)
    for step, lacking in LACKS[version].items():
        facts[step] |= lacking
    assert list(lines) == ALL_STEPS
    assert joined(lines) == facts


# ---- the showcase ------------------------------------------------------------------------------

SHOWCASE = {
    "STEPS": "allow,reject,cancel_permission,replay",
    "PROMPTS": '{"permission": "fix it", "cancel_permission": "fix it"}',
}


def check_showcase(lines: dict[str, Line], version: Version) -> None:
    """The SDK understood all of it; the answers of the user decide what is done."""
    assert all(line["ok"] for line in lines.values()), lines
    allowed, rejected, cancelled = (
        lines[step] for step in ("allow", "reject", "cancel_permission")
    )
    runs = [list(line["calls"].values())[-1] for line in (allowed, rejected, cancelled)]
    assert [run["kind"] for run in runs] == ["execute"] * 3
    stopped = "failed" if version == 1 else "cancelled"
    assert [run["status"] for run in runs] == ["completed", "failed", stopped]
    assert "four tests hold that" in allowed["text"]
    assert "I ran nothing" in rejected["text"]
    assert cancelled["stop"] == "cancelled"
    assert [kind for _, kind in allowed["options"]] == ["allow_once", "allow_always", "reject_once"]


@BOTH
def test_the_typescript_sdk_understands_the_showcase(version: Version, node_sdk: Path) -> None:
    check_showcase(run_ts(node_sdk, version, **SHOWCASE), version)


@BOTH
def test_the_python_sdk_understands_the_showcase(version: Version, python_sdk: Sdk) -> None:
    check_showcase(run_py(python_sdk, version, **SHOWCASE), version)


# ---- the schema --------------------------------------------------------------------------------

RIGHT = [
    *("showcase", "stream", "tools", "permission", "echo", "string-output", "user-echo"),
    *("permission-first", "whole-copy", "interleaved", "no-ids", "call-twice", "update-first"),
    *("max-tokens", "max-turn-requests", "refusal", "early-update", "flood 10", "nobody-knows"),
]


@BOTH
@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
def test_the_demo_agent_writes_what_the_official_schema_allows(
    version: Version, kind: str, schemas: Schemas, valid: SchemaValidator
) -> None:
    methods = methods_of(schemas[f"v{version}", "stable"])
    for scenario in RIGHT:
        played = play(f"/{scenario}", version, ask=choose(kind))
        asked = {m["id"]: m["method"] for m in played.to_agent if "method" in m and "id" in m}
        for message in played.from_agent:
            name, value = _meaning(message, asked, methods)
            assert valid(version, "stable", name, value) == [], (scenario, message)


def _meaning(message: Json, asked: dict[Any, str], methods: Any) -> tuple[str, Json]:
    """What the schema calls a message, and what it describes of it."""
    if "method" in message:
        return methods[message["method"]].params, message["params"]
    return methods[asked[message["id"]]].result, message["result"]
