"""Hostile texts in every field that an agent controls: nothing runs, nothing is loaded."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.page_blocks import plain, question
from tests.support.page_server import PageServer
from tests.web.conftest import OpenPage

EXAMPLES = json.loads((Path(__file__).parent / "blocks.json").read_text())
FOREIGN = "http://203.0.113.9"

TEXTS = {
    "script": "<script>window.ran = 1</script>",
    "handler": '<img src=x onerror="window.ran = 1">',
    "attribute": '" onmouseover="window.ran = 1" autofocus onfocus="window.ran = 1" x="',
    "javascript": "javascript:window.ran=1",
    "data": "data:text/html,<script>parent.ran=1</script>",
    "svg": f'<svg onload="window.ran = 1"><image href="{FOREIGN}/a.png"/></svg>',
    "style": f"<style>@import '{FOREIGN}/a.css'; * {{ display: none }}</style>",
    "svg use": f'<svg><use href="{FOREIGN}/e.svg#x"/><set attributeName="href"/></svg>',
    "svg script": "<svg><script>window.ran = 1</script><foreignObject>",
    "animation": '<svg><animate onbegin="window.ran = 1" attributeName="x" dur="1s"/></svg>',
    "math": '<math><a xlink:href="javascript:window.ran=1">x</a></math>',
    "style attribute": f'<p style="background: url({FOREIGN}/f.png); position: fixed">x</p>',
    "css rule": f"}} * {{ background: url('{FOREIGN}/g.png') }} .x {{",
    "css escape": "\\3c script\\3e expression(window.ran = 1)",
    "controls": "".join(map(chr, [*range(32), 127, *range(128, 160)])),
    "css": f"red; background: url({FOREIGN}/b.png)",
    "picture": f'<img src="{FOREIGN}/c.png"><link rel=stylesheet href="{FOREIGN}/d.css">',
    "template": "{{constructor.constructor('window.ran=1')()}} ${window.ran=1}",
    "prototype": "__proto__",
    "constructor": "constructor",
    "bidi": "\u202egnp.exe\u2066 \u200b\ufeff\u200e\u200f\u202a\u202d\u2067\u2068\u2069",
    "long": "a" * 50_000,
    "nested": "[" * 20_000,
    "lines": "\n" * 500,
    "nothing": "",
}


def hostile(value: Any, text: str) -> Any:
    """The value with another text in every place that has one, but for the names of types."""
    match value:
        case str():
            return text
        case list():
            return [hostile(each, text) for each in value]
        case dict():
            return {
                name: each if name in ("type", "kind", "role") else hostile(each, text)
                for name, each in value.items()
            }
    return value


IN_THE_LIST = {
    *("MessageBlock", "ToolCallBlock", "NoticeBlock", "CompactionBlock", "SubagentBlock"),
    *("UnknownBlock", "HeadingBlock", "RemarkBlock"),
}


def examples() -> list[Any]:
    """The blocks of every kind that have a place in the list, as a server encodes them."""
    blocks = [each for each in EXAMPLES.values() if isinstance(each, dict)]
    return [block for block in blocks if block.get("type") in IN_THE_LIST]


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_stays_text(server: PageServer, open_page: OpenPage, name: str) -> None:
    text = TEXTS[name]
    facts: dict[str, Any] = {
        "controls": [
            {"id": "x", "name": text, "kind": "select", "value": text, "choices": []},
        ],
        "commands": [{"name": text, "description": text, "hint": text}],
        "usage": {"words": text},
        "plan": [{"steps": [{"mark": text, "status": text, "text": text}], "text": text}],
        "queue": [{"item": "1", "text": text, "by": text, "held": True}],
    }
    session = server.add(**facts)
    for block in examples():
        server.put(session, hostile(block, text))
    asked = hostile(question(), text) | {"question": "q1"}
    server.set(session, session={"title": text, "agent": text, "cwd": text}, questions=[asked])
    server.put(session, plain("agent", "the end of it"))
    page = open_page(server.url)
    expect(page.locator("#conversation")).to_contain_text("the end of it")
    # every block is drawn once, and everything that opens is opened
    for _ in range(12):
        page.locator("#conversation details").evaluate_all(
            "all => all.forEach(e => { e.open = true; })"
        )
        page.locator("#conversation").evaluate("e => e.scrollTop -= e.clientHeight / 2")
    page.locator("#prompt").fill("/")
    assert page.evaluate("() => window.ran") is None
    assert page.evaluate("() => ({}).polluted") is None
    links = page.locator("#conversation a:not(.permalink)").evaluate_all(
        "all => all.map(e => e.protocol + ' ' + e.rel)"
    )
    assert set(links) <= {f"{each}: noopener noreferrer" for each in ("http", "https", "mailto")}


def test_every_kind_of_block_that_a_server_sends_is_drawn(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    blocks = list(examples())
    server.put(session, *blocks)
    page = open_page(server.url, size=(1280, 20_000))
    expect(page.locator(".place")).to_have_count(len(blocks))
    assert page.get_by_text("[unknown block").count() == 0
    assert page.get_by_text("[unknown item").count() == 0
