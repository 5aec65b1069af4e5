"""What a client of `README.md` says of each step when its agent is one of `README.md`.

    with_one_tick(lines) == expected(1, info={"name": "ts-agent-v1", "version": "2.4.0"})

It holds for every pair of peers of one version, but for what `README.md` says an SDK lacks.
How often a slow agent ticks before it is cancelled is left to chance: `with_one_tick` takes
that out.
"""

import json
import re
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


def _call(kind: str, status: str, *content: str) -> Json:
    return {"kind": kind, "status": status, "content": list(content)}


def _asking(number: int, option: str, status: str) -> Line:
    return {
        "stop": "end_turn",
        "text": f"outcome: {option}",
        "calls": {f"p{number}": _call("execute", status)},
        "options": OPTIONS,
        "asked": "Run make",
    }


def expected(version: Version, info: Json) -> dict[str, Line]:
    """The line of every step; `info` is what the agent says of itself."""
    return {step: {"ok": True, **facts} for step, facts in _facts(version, info).items()}


def _facts(version: Version, info: Json) -> dict[str, Line]:
    v1, modes = version == 1, ["ask", "code"]
    hello = _call("execute", "completed", "content" if v1 else "terminal")
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
            "calls": {"t2a": _call("edit", "completed", "diff"), "t2b": hello},
            "plan": PLAN,
            **terminals,
        },
        "allow": _asking(3, "a1", "completed"),
        "reject": _asking(4, "r1", "failed"),
        "cancel": {"stop": "cancelled", "text": "tick "},
        "cancel_permission": {
            "stop": "cancelled",
            "text": "",
            "calls": {"p6": _call("execute", "failed" if v1 else "cancelled")},
        },
        "error": {"stop": None if v1 else "error", "code": -32603, "message": "boom"},
        "mode": {"current": "code"},
        "list": {"ids": ["s1"]},
        "replay": {
            "updates": _replayed(version),
            "modes": {"current": "code", "available": modes},
        },
        "resume": {"updates": 0, "kinds": [] if v1 else ["state_update"]},
        "close": {"closed": True, "deleted": True, "ids": []},
    }


def _replayed(version: Version) -> list[Line]:
    v1 = version == 1
    said, tool = ("message_chunk", "tool_call") if v1 else ("message", "tool_call_update")
    terminal = None if v1 else ("terminal_update", None, None, None)
    rows = [
        (f"user_{said}", "stream", None, None),
        (f"agent_{said}", "one two three four five", None, None),
        (f"user_{said}", "tools", None, None),
        (tool, None, "t2a", "completed"),
        terminal,
        (tool, None, "t2b", "completed"),
        (f"agent_{said}", "done", None, None),
        (f"user_{said}", "permission", None, None),
        (tool, None, "p3", "completed"),
        (f"agent_{said}", "outcome: a1", None, None),
        (f"user_{said}", "permission", None, None),
        (tool, None, "p4", "failed"),
        (f"agent_{said}", "outcome: r1", None, None),
        (f"user_{said}", "slow", None, None),
        (f"agent_{said}", "tick ", None, None),
        (f"user_{said}", "slow-permission", None, None),
        (tool, None, "p6", "failed" if v1 else "cancelled"),
        (f"user_{said}", "error", None, None),
        None if v1 else ("state_update", None, None, None),
    ]
    return [dict(zip(("kind", "text", "id", "status"), row, strict=True)) for row in rows if row]


def with_one_tick(lines: dict[str, Line]) -> Json:
    """The lines of a client, as if every slow agent had ticked once."""
    return json.loads(re.sub(r"(tick )+", "tick ", json.dumps(lines)))
