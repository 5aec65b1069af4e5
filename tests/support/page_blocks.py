"""Blocks as a server sends them to the page, for tests that need no agent."""

from typing import Any

Json = Any


def span(text: str, **style: Any) -> Json:
    return {"type": "Span", "text": text, **style}


def paragraph(*spans: str | Json, **fields: Any) -> Json:
    made = [span(each) if isinstance(each, str) else each for each in spans]
    return {"type": "Paragraph", "spans": made, **fields}


def agent(*items: Json, tail: tuple[Json, ...] = ()) -> Json:
    return {"type": "MessageBlock", "role": "agent", "items": list(items), "tail": list(tail)}


def plain(role: str, text: str) -> Json:
    return {"type": "MessageBlock", "role": role, "items": [text_item(text)]}


def text_item(text: str) -> Json:
    return {"type": "TextItem", "text": text}


def tool_call(title: str, *items: Json, status: str = "completed", **fields: Any) -> Json:
    return {
        "type": "ToolCallBlock",
        "glyph": "✓",
        "status": status,
        "kind": "execute",
        "title": title,
        "locations": [],
        "items": list(items),
        "permissions": [],
        "icon": "$",
        "word": status.replace("_", " "),
        "finished": status == "completed",
        **fields,
    }


def question(identity: str = "q1", **fields: Any) -> Json:
    return {
        "question": identity,
        "key": None,
        "title": "Run this command?",
        "kind": "execute",
        "parts": [{"type": "CommandPart", "text": "rm -r build", "cwd": "/work/weather"}],
        "options": [
            {"option": "yes", "name": "Run it", "kind": "allow_once"},
            {"option": "always", "name": "Always run it", "kind": "allow_always"},
            {"option": "no", "name": "Do not run it", "kind": "reject_once"},
        ],
        "since": 0,
        "canReason": True,
        **fields,
    }
