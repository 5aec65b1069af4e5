"""A hostile agent behind `twofold serve`: a megabyte of nesting, and signs that mislead.

The server and the browser stay quick enough to take a key and the next prompt, and what could turn
the direction of a line or is not to be seen reaches no place of the page.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import Watched
from tests.support.raw_process import raw_agent
from tests.support.served import serving

MEGABYTE: Final = 1 << 20
PATIENCE: Final = 60_000
"""Milliseconds for a turn with a megabyte in it."""

NESTINGS: Final = {
    "quotes": ">",
    "quotes of lists": "> - ",
    "lists": "- ",
    "brackets": "[",
    "emphasis": "*a **b ",
}

MISLEADING: Final = (
    "\0\a\b\x1b[31m\x7f\x9b\u200e\u200f\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069"
)

AGENT: Final = f"""
NESTINGS = json.loads({json.dumps(json.dumps(NESTINGS))})

MISLEADING = {MISLEADING!a}

def mislead():
    bad = "begin" + MISLEADING + "end"
    content = {{"type": "text", "text": bad}}
    call = {{"sessionUpdate": "tool_call", "status": "completed", "locations": [{{"path": bad}}]}}
    diff = {{"type": "diff", "path": bad, "oldText": bad, "newText": bad + bad}}
    every = [{{"type": "content", "content": content}}, diff]
    update({{**call, "toolCallId": bad, "title": bad, "kind": bad, "content": every}})
    update({{**call, "toolCallId": "raw", "title": bad, "rawInput": {{bad: bad}}}})
    update({{"sessionUpdate": bad, bad: bad}})
    update({{"sessionUpdate": "session_info_update", "title": bad}})
    commands = [{{"name": "begin", "description": bad, "input": {{"hint": bad}}}}]
    update({{"sessionUpdate": "available_commands_update", "availableCommands": commands}})
    entries = [{{"content": bad, "priority": bad, "status": bad}}]
    update({{"sessionUpdate": "plan", "entries": entries}})
    for kind in ("agent_thought_chunk", "agent_message_chunk"):
        update({{"sessionUpdate": kind, "messageId": kind, "content": content}})
    other = {{"type": "resource_link", "name": bad, "uri": bad, "description": bad}}
    update({{"sessionUpdate": "agent_message_chunk", "messageId": "x", "content": other}})
    other = {{"type": bad, bad: bad}}
    update({{"sessionUpdate": "agent_message_chunk", "messageId": "x", "content": other}})

def prompt(request):
    words = request["params"]["prompt"][0]["text"]
    if words == "mislead":
        mislead()
        answer(request, {{"stopReason": "end_turn"}})
        return
    name, _, place = words.partition(" in ")
    piece = NESTINGS[name]
    nested = piece * ({MEGABYTE} // len(piece))
    content = {{"type": "text", "text": nested}}
    call = {{
        "sessionUpdate": "tool_call", "toolCallId": words, "title": words, "status": "completed"
    }}
    if place == "message":
        update({{"sessionUpdate": "agent_message_chunk", "messageId": words, "content": content}})
    elif place == "title":
        update({{**call, "title": nested}})
    elif place == "content":
        update({{**call, "content": [{{"type": "content", "content": content}}]}})
    else:
        diff = {{"type": "diff", "path": "a.md", "oldText": "a", "newText": nested}}
        update({{**call, "content": [diff]}})
    end = {{"type": "text", "text": "The end of " + words}}
    update({{"sessionUpdate": "agent_message_chunk", "messageId": "end " + words, "content": end}})
    answer(request, {{"stopReason": "end_turn"}})
"""


@pytest.fixture(scope="module")
def watched(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    work: Path = tmp_path_factory.mktemp("work")
    options = ("--cwd", str(work))
    with serving(tmp_path_factory.mktemp("state"), *raw_agent(AGENT), options=options) as served:
        made = Watched(browser, served.url.rstrip("/"))
        try:
            made.page.set_default_timeout(PATIENCE)
            made.page.goto(served.entry)
            yield made
        finally:
            made.context.close()


def ask(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Prompt").fill(words)
    page.locator("#send").click()


@pytest.mark.parametrize("name", NESTINGS)
@pytest.mark.parametrize("place", ["message", "title", "content", "diff"])
def test_a_megabyte_of_nesting_leaves_the_page_responsive(
    watched: Watched, place: str, name: str
) -> None:
    page = watched.page
    expect(page.locator("#send")).to_be_enabled()
    words = f"{name} in {place}"
    ask(page, words)
    ended = page.locator(".place", has_text=f"The end of {words}")
    ended.wait_for(timeout=PATIENCE)
    expect(page.locator("#state")).to_have_text("ready", timeout=PATIENCE)
    page.locator("#conversation").focus()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator(".place:focus")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    watched.check()


def test_signs_that_mislead_are_in_no_text_of_the_page(watched: Watched) -> None:
    page = watched.page
    expect(page.locator("#send")).to_be_enabled()
    ask(page, "mislead")
    page.locator(".place", has_text="unknown content").wait_for(timeout=PATIENCE)
    expect(page.locator("#state")).to_have_text("ready", timeout=PATIENCE)
    expect(page.locator("h1")).to_contain_text("begin")
    expect(page.locator("#plan-summary")).to_contain_text("begin")
    page.get_by_role("textbox", name="Prompt").fill("/")
    expect(page.get_by_role("option")).to_contain_text(["begin"])
    shown = page.evaluate(
        """() => {
          const attributes = [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes]);
          return document.title + document.body.textContent + attributes.map((e) => e.value).join();
        }"""
    )
    assert shown.count("begin") > 15
    assert {sign for sign in MISLEADING if sign in shown} <= set("[31m")
    page.get_by_role("textbox", name="Prompt").fill("")
    watched.check()
