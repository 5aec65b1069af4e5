"""The page for people: keyboard, screen readers, narrow screens, less movement, dark rooms."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import PHONE
from tests.support.page_blocks import agent, paragraph, plain, question, text_item, tool_call
from tests.support.page_server import PageServer, Played
from tests.web.conftest import OpenPage
from tests.web.test_page_hostile import examples


def everything(server: PageServer) -> Played:
    """A session with all that the page shows."""
    mode = {"id": "mode", "name": "Mode", "kind": "mode", "value": "ask"}
    session = server.add(
        controls=[{**mode, "choices": [{"value": "ask", "name": "Ask"}]}],
        usage={"words": "12 of 200,000 tokens"},
        plan=[{"steps": [{"mark": "▸", "status": "in_progress", "text": "Do it"}], "text": None}],
        queue=[{"item": "1", "text": "Then commit", "by": "anna", "held": True}],
    )
    place = {"path": "/work/weather/a.py", "line": 7, "name": "a.py"}
    server.put(session, plain("user", "Do it"), *examples())
    server.put(session, tool_call("Read", text_item("x = 1\n" * 40), locations=[place]))
    server.set(session, session={"state": "waiting"}, questions=[question()])
    return session


VIEWS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"size": PHONE},
    "wide": {"size": (1900, 1000)},
}


def violations(page: Page, page_checkers: Path) -> list[str]:
    page.evaluate((page_checkers / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("async () => (await window.axe.run()).violations")
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(
    server: PageServer, open_page: OpenPage, page_checkers: Path, view: str
) -> None:
    session = everything(server)
    page = open_page(server.url, **VIEWS[view])
    expect(page.locator("#question .answer").first).to_be_enabled()
    assert violations(page, page_checkers) == []
    server.set(session, session={"state": "failed", "failure": "Gone."}, questions=[])
    expect(page.locator("#failure")).to_be_visible()
    page.locator("#conversation").evaluate("e => e.scrollTop = 0")
    page.locator("#prompt").evaluate("e => e.blur()")
    page.keyboard.press("f")
    expect(page.locator("#follow-code .line").first).to_be_visible()
    assert violations(page, page_checkers) == []
    for key, dialog in (("?", "#help"), ("/", "#search"), ("+", "#new-session")):
        page.keyboard.press("c")
        page.locator("#prompt").evaluate("e => e.blur()")
        page.keyboard.press(key)
        expect(page.locator(dialog)).to_be_visible()
        assert violations(page, page_checkers) == []
        page.keyboard.press("Escape")


def test_a_phone_needs_no_scrolling_sideways(server: PageServer, open_page: OpenPage) -> None:
    everything(server)
    page = open_page(server.url, size=PHONE)
    expect(page.locator("#question")).to_be_visible()
    for selector in ("html", "body", "#conversation", "#dock", "main > header", "#question"):
        wider = page.locator(selector).evaluate("e => e.scrollWidth - e.clientWidth")
        assert wider <= 0, selector
    page.get_by_role("button", name="Sessions").click()
    expect(page.get_by_role("link", name="Session one")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#sidebar")).to_be_hidden()


def test_every_key_is_listed(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    page.locator("#conversation").focus()
    page.keyboard.press("?")
    expect(page.locator("#keys kbd").first).to_be_visible()
    keys = page.locator("#keys kbd").all_inner_texts()
    assert {"?", "Escape", "c", "j", "k", "e", "t", "f", "/", "s", "+", "m", "F6"} <= {*keys}
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_keys_of_one_sign_can_be_switched_off(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    page = open_page(server.url)
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("keys of one sign work").uncheck()
    page.get_by_role("button", name="Close").click()
    page.locator("#conversation").focus()
    page.keyboard.press("/")
    page.keyboard.press("F6")
    expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()
    expect(page.locator("#search")).to_be_hidden()


def test_the_keyboard_goes_from_block_to_block(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.put(session, *[agent(paragraph(f"Message {number}")) for number in range(30)])
    page = open_page(server.url)
    expect(page.locator("#conversation")).to_contain_text("Message 29")
    page.locator("#conversation").focus()
    page.keyboard.press("k")
    page.keyboard.press("k")
    first = page.locator(".place:focus").get_attribute("data-at")
    page.keyboard.press("j")
    second = page.locator(".place:focus").get_attribute("data-at")
    assert first is not None
    assert second is not None
    assert int(second) == int(first) + 1


def test_only_what_is_settled_is_read_out(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.set(session, session={"state": "running"})
    page = open_page(server.url)
    expect(page.locator("#stop")).to_be_visible()
    server.put(session, agent(tail=(paragraph("Half a sen"),)))
    expect(page.locator("#conversation")).to_contain_text("Half a sen")
    read = page.locator("#announcements")
    expect(read).to_be_empty()
    server.grow(session, 0, [paragraph("Half a sentence is whole.")], [])
    server.set(session, session={"state": "idle"})
    expect(read).to_have_text("Half a sentence is whole.")


def test_a_notification_is_sent_when_a_question_waits(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    page = open_page(server.url, permissions=["notifications"])
    page.evaluate(
        """() => {
             window.sent = [];
             window.Notification = class {
               static permission = "granted";
               static requestPermission = async () => "granted";
               constructor(title, options) { window.sent.push(`${title}: ${options.body}`); }
               addEventListener() {}
             };
             Object.defineProperty(document, "hidden", {get: () => true});
           }"""
    )
    page.get_by_role("button", name="Notify me").click()
    server.set(session, session={"state": "waiting"}, questions=[question()])
    expect(page.locator("#question")).to_be_visible()
    server.set(session, session={"state": "idle"}, questions=[])
    expect(page.locator("#question")).to_be_hidden()
    sent = page.evaluate("() => window.sent")
    assert sent == [
        "The agent asks: Session one: Run this command?",
        "The turn has ended: Session one",
    ]
