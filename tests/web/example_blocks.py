"""Examples of every block as the page is sent it: `blocks.json`, for tests of both sides.

`python -m tests.web.example_blocks` writes the file again.
"""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec

from twofold.session import Session
from twofold.view.blocks import (
    CommandPart,
    HeadingBlock,
    Location,
    NotePart,
    PathsPart,
    QuestionBlock,
    RemarkBlock,
    TextPart,
    Value,
    ValuesPart,
)
from twofold.view.live import Key, Live, LiveBlock
from twofold.web.encode import Encoder, encode_block, encoded
from twofold.wire import codec, v2

FILE = Path(__file__).with_name("blocks.json")

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
PROSE = """# Results

Some **strong**, *emphasised*, ~~struck~~ and `code` text with a [link](https://example.com/a),
and one that is [none](javascript:alert(1)).

- one
- two
  1. inner
- [x] done

> quoted

| name | value |
|:-----|------:|
| a    | 1     |

```python
def hello(name):
    return f"Hello {name}"
```

---

![a picture](https://example.com/picture.png)
"""
PATCH = """diff --git a/src/hello.py b/src/hello.py
--- a/src/hello.py
+++ b/src/hello.py
@@ -1,3 +1,4 @@
 def hello(name):
-    return "Hello 👋 " + name
+    return "Hello 👋 " + name.title()
+    # greet politely
 hello("you")
"""


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _content(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content", "content": block}


UPDATES: list[dict[str, Any]] = [
    {
        "sessionUpdate": "user_message",
        "messageId": "u",
        "content": [
            _text("Please greet *politely*.\n"),
            {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        ],
    },
    {"sessionUpdate": "agent_thought", "messageId": "t", "content": [_text("Let me see.\nSo.")]},
    {"sessionUpdate": "agent_message", "messageId": "a", "content": [_text(PROSE)]},
    {
        "sessionUpdate": "agent_message",
        "messageId": "media",
        "content": [
            _text("Here:"),
            {"type": "audio", "data": PICTURE, "mimeType": "audio/wav"},
            {
                "type": "resource_link",
                "name": "notes",
                "uri": "https://example.com/notes",
                "size": 1200,
                "description": "What was found",
            },
            {"type": "resource_link", "name": "file", "uri": "file:///work/a%20b.py"},
            {
                "type": "resource",
                "resource": {"uri": "file:///work/log.txt", "text": "one\ntwo\n"},
            },
            {
                "type": "resource",
                "resource": {
                    "uri": "urn:x:1",
                    "blob": PICTURE,
                    "mimeType": "application/octet-stream",
                },
            },
            {"type": "hologram", "depth": 3, "note": "\u001b[31mred"},
        ],
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "edit",
        "title": "Edit hello.py",
        "kind": "edit",
        "status": "completed",
        "locations": [{"path": "/work/src/hello.py", "line": 2}],
        "content": [
            {
                "type": "diff",
                "changes": [{"operation": "modify", "path": "/work/src/hello.py"}],
                "patch": {"format": "git_patch", "diff": PATCH},
            },
        ],
    },
    {
        "sessionUpdate": "terminal_update",
        "terminalId": "term",
        "command": "make test",
        "cwd": "/work/sub",
        "output": {
            "data": base64.b64encode(
                b"\x1b[1;32mok\x1b[0m 1%\rok 100%\r\n\x1b[32m2 passed\x1b[0m\r\n"
            ).decode()
        },
        "exitStatus": {"exitCode": 1},
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "run",
        "title": "Run the tests",
        "kind": "execute",
        "status": "failed",
        "content": [{"type": "terminal", "terminalId": "term"}],
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "think",
        "title": "Think",
        "kind": "think",
        "status": "in_progress",
        "content": [
            _content(_text("**First** this\n\n```js\nlet a = 1;\n```")),
            _content({"type": "image", "data": PICTURE, "mimeType": "image/png"}),
            {"type": "future_content", "value": {"nested": [1, None]}},
        ],
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "read",
        "title": "Read a log",
        "kind": "read",
        "status": "pending",
        "content": [_content(_text("2026-01-01 started\n**not markdown**"))],
    },
    {
        "sessionUpdate": "plan_update",
        "plan": {
            "type": "items",
            "planId": "p",
            "entries": [
                {"content": "Look", "priority": "high", "status": "completed"},
                {"content": "Change", "priority": "high", "status": "in_progress"},
                {"content": "Test", "priority": "low", "status": "pending"},
            ],
        },
    },
    {
        "sessionUpdate": "plan_update",
        "plan": {"type": "markdown", "planId": "q", "content": "1. Look\n2. Change"},
    },
    {
        "sessionUpdate": "compaction_update",
        "compactionId": "c",
        "status": "completed",
        "summary": [_text("What happened so far."), {"type": "hologram"}],
    },
    {
        "sessionUpdate": "subagent_update",
        "sessionId": "child",
        "title": "Reviewer",
        "description": "Looks over the change",
    },
    {
        "sessionUpdate": "notice",
        "severity": "warning",
        "title": "Slow network",
        "description": "Answers may take a while.",
    },
    {"sessionUpdate": "session_info_update", "title": "Greet politely"},
    {"sessionUpdate": "usage_update", "used": 53_000, "size": 200_000},
    {"sessionUpdate": "_acme.dev/thing", "x": 1},
    {"sessionUpdate": "_acme.dev/thing", "x": 2},
]

QUESTION: dict[str, Any] = {
    "sessionId": "s",
    "title": "Run the tests",
    "description": "To see whether it works",
    "subject": {"type": "command", "command": "make test\nmake lint", "cwd": "/work"},
    "options": [
        {"optionId": "1", "name": "Allow", "kind": "allow_once"},
        {"optionId": "2", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "3", "name": "Reject", "kind": "reject_once"},
    ],
}


def session() -> Session:
    """A session with one of everything."""
    made = Session("s")
    for update in UPDATES:
        made.apply(codec.read(update, v2.SessionUpdate))
    made.ask(1, codec.read(QUESTION, v2.RequestPermissionRequest))
    return made


def examples() -> dict[str, Any]:
    """Every block of the session by its key, and what is in no session by a name."""
    example = session()
    encoder = Encoder(example)
    live = Live(example, outputs=False, cwd="/work")
    found = {
        f"{key} {type(block).__name__}": encoder.put(key, block)
        for key, _, block in live.frame().put
    }
    others: dict[str, LiveBlock] = {
        "heading": HeadingBlock("Greet politely", ("demo agent", "/work")),
        "remark": RemarkBlock("cancelled after 12 s", "warning"),
    }
    found |= {name: encode_block(block) for name, block in others.items()}
    question = QuestionBlock(
        "Edit hello.py",
        "edit",
        (
            NotePart("The agent would run this:"),
            CommandPart("make test", "/work/sub", "script"),
            PathsPart((Location("/work/src/hello.py", 2, "src/hello.py"),)),
            TextPart("because it must be tested"),
            ValuesPart("input", (Value(0, "path", ""), Value(1, "name", "hello.py")), 3),
        ),
    )
    found["question"] = encoded(question)
    key = Key("entry", 2)
    example = Session("s")
    live, encoder = Live(example, outputs=False), Encoder(example)
    begin, end = PROSE.split("return", 1)
    for number, text in enumerate((begin, f"return{end}")):
        update = {"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": _text(text)}
        live.take(example.apply(codec.read(update, v2.SessionUpdate)))
        frame = live.frame(0 if not number else 1)
        if not number:
            found["growing: put"] = encoder.put(key, frame.put[0].block)
        else:
            settled, tail = encoder.grow(key, frame.grow[0].settled, frame.grow[0].tail)
            found["growing: settled, tail"] = [settled, tail]
    return json.loads(msgspec.json.encode(found))  # type: ignore[no-any-return]


def written() -> str:
    """The examples as they are in the file."""
    return json.dumps(examples(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
