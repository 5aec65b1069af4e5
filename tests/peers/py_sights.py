"""What a client saw, as facts: session updates of either version, added up.

Updates are JSON as the SDK dumps them. Only what the steps of `README.md` report is kept;
this is no session state. Run by an interpreter that has the SDK, so it imports nothing of
the project.
"""

import base64
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

MESSAGES = {"user_message", "agent_message", "agent_thought"}
CHUNKS = {f"{tag}_chunk" for tag in MESSAGES}
CALLS = {"tool_call", "tool_call_update", "tool_call_content_chunk"}
PLANS = {"plan", "plan_update", "plan_removed"}
TERMINALS = {"terminal_update", "terminal_output_chunk"}
CONVERSATION = MESSAGES | CHUNKS | CALLS | PLANS | TERMINALS


def kind(update: Json) -> str:
    """The wire's tag."""
    return str(update["sessionUpdate"])


def conversation(updates: Iterable[Json]) -> list[Json]:
    return [update for update in updates if kind(update) in CONVERSATION]


def of_turn(updates: Iterable[Json]) -> list[Json]:
    """All but commands, which are sent at any time."""
    return [update for update in updates if kind(update) != "available_commands_update"]


def text_of(update: Json) -> str | None:
    """The text that a message, or a chunk of one, brings."""
    content = update.get("content")
    if kind(update) in CHUNKS:
        return str((content or {}).get("text", ""))
    if kind(update) in MESSAGES:
        return "".join(block.get("text", "") for block in content or [])
    return None


def text(updates: Iterable[Json], tag: str = "agent_message") -> str:
    """All messages of a kind, joined; a whole message replaces its chunks."""
    messages: dict[Any, str] = {}
    for update in updates:
        key = update.get("messageId")
        if kind(update) == f"{tag}_chunk":
            messages[key] = messages.get(key, "") + (text_of(update) or "")
        elif kind(update) == tag and "content" in update:
            messages[key] = text_of(update) or ""
    return "".join(messages.values())


def calls(updates: Iterable[Json]) -> Json:
    """Tool call id → its last status and kind, and the types of its last content."""
    found: dict[str, Json] = {}
    for update in updates:
        tag = kind(update)
        if tag not in CALLS:
            continue
        call = found.setdefault(update["toolCallId"], {})
        if tag == "tool_call":
            call.clear()
        if tag == "tool_call_content_chunk":
            call["content"] = [*(call.get("content") or []), update["content"]]
        else:
            call.update(update)
    return {
        call_id: {
            "status": call.get("status") or "pending",
            "kind": call.get("kind") or "other",
            "content": [item["type"] for item in call.get("content") or []],
        }
        for call_id, call in found.items()
    }


def plan(updates: Iterable[Json]) -> list[Json] | None:
    """The entries of the last plan."""
    entries = None
    for update in updates:
        if kind(update) in {"plan", "plan_update"}:
            entries = update.get("plan", update).get("entries")
    if entries is None:
        return None
    return [{key: entry[key] for key in ("content", "priority", "status")} for entry in entries]


def terminals(updates: Iterable[Json]) -> Json:
    """Terminal id → all that it wrote, and its exit code."""
    outputs: dict[str, bytes] = {}
    exits: dict[str, Any] = {}
    for update in updates:
        if kind(update) not in TERMINALS:
            continue
        terminal = update["terminalId"]
        outputs.setdefault(terminal, b"")
        if kind(update) == "terminal_output_chunk":
            outputs[terminal] += base64.b64decode(update["data"])
            continue
        if "output" in update:
            outputs[terminal] = base64.b64decode((update["output"] or {}).get("data", ""))
        if "exitStatus" in update:
            exits[terminal] = (update["exitStatus"] or {}).get("exitCode")
    return {
        terminal: {"output": output.decode(errors="replace"), "exit": exits.get(terminal)}
        for terminal, output in outputs.items()
    }


def mode_option(options: Iterable[Json] | None) -> Json | None:
    """The select of category mode."""
    selects = (option for option in options or [] if option.get("type") == "select")
    return next((option for option in selects if option.get("category") == "mode"), None)


def modes(answer: Json) -> Json | None:
    """The modes of an answer, from `modes` or from the option that replaces them."""
    if answer.get("modes"):
        available = [mode["id"] for mode in answer["modes"]["availableModes"]]
        return {"current": answer["modes"]["currentModeId"], "available": available}
    option = mode_option(answer.get("configOptions"))
    if option is None:
        return None
    values = [value for each in option["options"] for value in each.get("options", [each])]
    available = [value["value"] for value in values]
    return {"current": option["currentValue"], "available": available}


def current_mode(updates: Iterable[Json]) -> str | None:
    """The mode that the last update about it names."""
    current = None
    for update in updates:
        if kind(update) == "current_mode_update":
            current = update["currentModeId"]
        elif kind(update) == "config_option_update":
            option = mode_option(update.get("configOptions"))
            current = option["currentValue"] if option else current
    return current


def replayed(update: Json) -> Json:
    """One update of a replay."""
    is_call = kind(update) in CALLS
    return {
        "kind": kind(update),
        "text": text_of(update),
        "id": update["toolCallId"] if is_call else None,
        "status": update.get("status") if is_call else None,
    }


def starts_with_running(updates: Iterable[Json]) -> bool:
    """Whether a version 2 agent sent `running` before anything else."""
    for update in updates:
        if update.get("state") == "running":
            return True
        if kind(update) in CONVERSATION and not kind(update).startswith("user_"):
            return False
    return False
