"""The lines that every contestant reads: whole JSON-RPC messages, valid in their version.

The shapes are those that the official SDKs read without complaint, so that nobody is slow
because of a mistake in the input.
"""

import json
from typing import Any

SESSION = "sess_7d1f3a52"
MESSAGES = 3
TEXT = 20
"""How many characters the text of a chunk has."""


def chunks(count: int, *, ids: bool = True) -> list[bytes]:
    """Chunks of three messages that are told at the same time; both versions read them alike."""
    return [_line(_chunk(number, ids=ids)) for number in range(count)]


def _chunk(number: int, *, ids: bool) -> dict[str, Any]:
    return {
        "sessionUpdate": "agent_message_chunk",
        **({"messageId": f"msg_{number % MESSAGES}"} if ids else {}),
        "content": {"type": "text", "text": f"chunk {number} of text ".ljust(TEXT, ".")[:TEXT]},
    }


def diffs_v1(count: int) -> list[bytes]:
    """Results of a tool call with a diff: two texts of 2 KB each."""
    return [_line(_tool_call(number, _diff_v1())) for number in range(count)]


def diffs_v2(count: int) -> list[bytes]:
    """Results of a tool call with a diff: a Git patch of 4 KB."""
    return [_line(_tool_call(number, _diff_v2())) for number in range(count)]


def _tool_call(number: int, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": f"call_{number}",
        "status": "completed",
        "content": [content],
    }


def _text(size: int, sign: str) -> str:
    lines = (f"{sign}    total_{number} = measure(rows[{number}])\n" for number in range(size))
    return "".join(lines)[:size]


def _diff_v1() -> dict[str, Any]:
    old, new = _text(2048, ""), _text(2048, " ")
    return {"type": "diff", "path": "/home/user/project/totals.py", "oldText": old, "newText": new}


def _diff_v2() -> dict[str, Any]:
    return {
        "type": "diff",
        "changes": [{"operation": "modify", "path": "/home/user/project/totals.py"}],
        "patch": {"format": "git_patch", "text": _text(4096, "+")},
    }


def plans_v1(count: int) -> list[bytes]:
    """Plans of 20 entries."""
    return [_line({"sessionUpdate": "plan", "entries": _entries(turn)}) for turn in range(count)]


def plans_v2(count: int) -> list[bytes]:
    """Plans of 20 entries."""
    return [
        _line(
            {
                "sessionUpdate": "plan_update",
                "plan": {"type": "items", "planId": "main", "entries": _entries(turn)},
            }
        )
        for turn in range(count)
    ]


def _entries(turn: int) -> list[dict[str, str]]:
    return [
        {
            "content": f"Step {number}: look at what the last step said",
            "priority": "medium",
            "status": "completed" if number < turn % 20 else "pending",
        }
        for number in range(20)
    ]


def _line(update: dict[str, Any]) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": SESSION, "update": update},
    }
    return json.dumps(message, separators=(",", ":")).encode()
