"""The report of a client of `README.md` on each step with an agent of `README.md`.

    with_one_tick(lines) == expected(1, info={"name": "ts-agent-v1", "version": "2.4.0"})

It holds for every pair of peers of one version, but for what an SDK lacks by `README.md`; what
is otherwise for other pairs is in `differences.py`. How often a slow agent ticks before it is
cancelled, when a terminal's text comes in a replay, and when commands are sent is left to chance:
`with_one_tick` takes that out.
"""

import json
import re
from itertools import pairwise
from typing import Any

from tests.peers.validators import Version

Json = Any
Line = dict[str, Json]

ALL_STEPS = [
    *("initialize", "new", "stream", "tools", "allow", "reject", "cancel", "cancel_permission"),
    *("error", "mode", "list", "replay", "resume", "close"),
]
PLAN = [
    {"content": "edit the file", "priority": "high", "status": "completed"},
    {"content": "say hello", "priority": "low", "status": "completed"},
]
OPTIONS = [
    *(["a1", "allow_once"], ["a2", "allow_always"]),
    *(["r1", "reject_once"], ["r2", "reject_always"]),
]


def call(kind: str, status: str, *content: str) -> Json:
    """A tool call in the end."""
    return {"kind": kind, "status": status, "content": list(content)}


def _asking(number: int, option: str, status: str) -> Line:
    return {
        "stop": "end_turn",
        "text": f"outcome: {option}",
        "calls": {f"p{number}": call("execute", status)},
        "options": OPTIONS,
        "asked": "Run make",
    }


def expected(version: Version, info: Json) -> dict[str, Line]:
    """The line of every step; `info` is the info of the agent."""
    return {step: {"ok": True, **facts} for step, facts in _facts(version, info).items()}


def _facts(version: Version, info: Json) -> dict[str, Line]:
    v1, modes = version == 1, ["ask", "code"]
    hello = call("execute", "completed", "content" if v1 else "terminal")
    terminals = {} if v1 else {"terminals": {"term2": {"output": "hello\n", "exit": 0}}}
    return {
        "initialize": {"version": version, "info": info, "auth": ["token"]},
        "new": {"session": "s1", "modes": {"current": "ask", "available": modes}},
        "stream": {
            "stop": "end_turn",
            "thoughts": "let me think",
            "text": "one two three four five",
            "updates": 7 if v1 else 10,
            "order_ok": True,
        },
        "tools": {
            "stop": "end_turn",
            "text": "done",
            "calls": {"t2a": call("edit", "completed", "diff"), "t2b": hello},
            "plan": PLAN,
            **terminals,
        },
        "allow": _asking(3, "a1", "completed"),
        "reject": _asking(4, "r1", "failed"),
        "cancel": {"stop": "cancelled", "text": "tick "},
        "cancel_permission": {
            "stop": "cancelled",
            "text": "",
            "calls": {"p6": call("execute", "failed" if v1 else "cancelled")},
        },
        "error": {"stop": None if v1 else "error", "code": -32603, "message": "boom"},
        "mode": {"current": "code"},
        "list": {"ids": ["s1"]},
        "replay": {
            "updates": replayed(version, version),
            "modes": {"current": "code", "available": modes},
        },
        "resume": {"updates": 0, "kinds": [] if v1 else ["state_update"]},
        "close": {"closed": True, "deleted": True, "ids": []},
    }


def replayed(client: Version, agent: Version, *, everything: bool = False) -> list[Line]:
    """The updates of a replay by an agent, as a client receives them.

    An agent that keeps `everything` also sends thoughts, plans and settings, and sends a message
    of version 1 in the pieces it came in. Whole messages, terminals and the status cancelled are
    there only between two of version 2; a client of version 2 is sent each message before its
    first piece.
    """
    both = client == agent == 2
    tool = "tool_call" if client == 1 else "tool_call_update"

    def message(role: str, *pieces: str) -> list[Line]:
        if both:
            return [seen(role, "".join(pieces))]
        chunks = pieces if everything else ("".join(pieces),)
        announced = [seen(role, "")] if client == 2 else []
        return [*announced, *(seen(f"{role}_chunk", text) for text in chunks)]

    thoughts = message("agent_thought", "let me ", "think")
    terminal = [seen("terminal_update")] if both else []
    return [
        *message("user_message", "stream"),
        *(thoughts if everything else []),
        *message("agent_message", "one ", "two ", "three ", "four ", "five"),
        *message("user_message", "tools"),
        seen(tool, None, "t2a", "completed"),
        *([] if everything else terminal),
        seen(tool, None, "t2b", "completed"),
        *message("agent_message", "done"),
        *message("user_message", "permission"),
        seen(tool, None, "p3", "completed"),
        *message("agent_message", "outcome: a1"),
        *message("user_message", "permission"),
        seen(tool, None, "p4", "failed"),
        *message("agent_message", "outcome: r1"),
        *message("user_message", "slow"),
        *message("agent_message", "tick "),
        *message("user_message", "slow-permission"),
        seen(tool, None, "p6", "cancelled" if both else "failed"),
        *message("user_message", "error"),
        *([*terminal, *map(seen, SETTINGS[client])] if everything else []),
        *([seen("state_update")] if client == 2 else []),
    ]


SETTINGS: dict[Version, list[str]] = {
    1: ["plan", "config_option_update", "current_mode_update"],
    2: ["plan_update", "config_option_update"],
}


def seen(kind: str, text: Json = None, call: Json = None, status: Json = None) -> Line:
    """One update of a replay."""
    return {"kind": kind, "text": text, "id": call, "status": status}


TERMINAL_TEXT = seen("tool_call_update", None, "t2b")
"""What a terminal wrote, sent to a client of version 1 once it is gathered."""


COMMANDS = "available_commands_update"


def with_one_tick(lines: dict[str, Line]) -> Json:
    """The lines of a client, without what is left to chance."""
    lines = json.loads(re.sub(r"(tick )+", "tick ", json.dumps(lines)))
    replay, resume = lines.get("replay", {}), lines.get("resume", {})
    if "updates" in replay:
        replay["updates"] = _settled(replay["updates"])
    if "kinds" in resume:
        resume["kinds"] = [kind for kind in resume["kinds"] if kind != COMMANDS]
    return lines


def _settled(updates: list[Line]) -> list[Line]:
    ticks = [seen("agent_message_chunk", "tick ")] * 2
    once = [update for before, update in pairwise([{}, *updates]) if [before, update] != ticks]
    rest = [update for update in once if update not in (TERMINAL_TEXT, seen(COMMANDS))]
    return [*rest, TERMINAL_TEXT] if TERMINAL_TEXT in once else rest
