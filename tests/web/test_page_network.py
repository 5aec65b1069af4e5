"""A lost network and reloads, at random points of a turn: the page ends as one that stayed.

`TWOFOLD_PAGE_CUTS` is how many times the network is lost or the page reloaded (20), and
`TWOFOLD_PAGE_SEED` where the random points begin.
"""

import os
import random

from playwright.sync_api import Page, expect

from tests.support.page_blocks import agent, paragraph, text_item, tool_call
from tests.support.page_server import PageServer, Played
from tests.web.conftest import OpenPage

CUTS = int(os.environ.get("TWOFOLD_PAGE_CUTS", "20"))
SEED = int(os.environ.get("TWOFOLD_PAGE_SEED", "1"))
STEPS = 12
"""Changes between two cuts."""


def change(server: PageServer, session: Played, chance: random.Random, number: int) -> None:
    """Something that happens in a turn."""
    open_message = len(session.blocks) - 1
    match chance.randrange(5):
        case 0:
            server.put(session, agent(paragraph(f"Message {number}")))
        case 1:
            server.put(session, tool_call(f"Call {number}", status="in_progress"))
        case 2:
            at = chance.randrange(max(0, open_message - 5), open_message + 1)
            if session.blocks[at][2]["type"] == "ToolCallBlock":
                done = tool_call(f"Call {number}", text_item(f"out {number}"))
                server.put(session, done, at=at)
        case _:
            if session.blocks[open_message][2]["type"] == "MessageBlock":
                settled = [paragraph(f"Settled {number}")] if chance.random() < 0.5 else []
                tail = [paragraph(f"Tail {number}")]
                server.grow(session, open_message, settled, tail)


def shown(page: Page, last: str) -> str:
    page.keyboard.press("e")
    expect(page.locator("#conversation")).to_contain_text(last)
    return page.locator("#conversation").inner_text()


def test_a_page_that_was_away_ends_as_one_that_stayed(
    server: PageServer, open_page: OpenPage
) -> None:
    chance = random.Random(SEED)
    session = server.add()
    server.put(session, agent(paragraph("The beginning")))
    stayed, comes_back = open_page(server.url), open_page(server.url)
    for page in (stayed, comes_back):
        expect(page.locator("#conversation")).to_contain_text("The beginning")
    for cut in range(CUTS):
        kind = chance.choice(("reload", "network", "network", "restart"))
        at = chance.randrange(STEPS)
        for step in range(STEPS):
            if step == at and kind == "reload":
                comes_back.reload(wait_until="commit")
            elif step == at:
                if kind == "restart":  # of the server: nothing it sent before counts any more
                    session.epoch = f"epoch {cut}"
                server.cut()
            change(server, session, chance, cut * STEPS + step)
        last = f"The end of {cut}"
        server.put(session, agent(paragraph(last)))
        assert shown(comes_back, last) == shown(stayed, last), f"seed {SEED}, cut {cut}: {kind}"


def test_what_was_seen_is_not_sent_again(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.put(session, *[agent(paragraph(f"Message {number}")) for number in range(20)])
    page = open_page(server.url)
    expect(page.locator("#conversation")).to_contain_text("Message 19")
    place = page.locator(".place", has_text="Message 19")
    place.evaluate("e => e.dataset.kept = 'yes'")
    server.cut()
    server.put(session, agent(paragraph("Message 20")))
    expect(page.locator("#conversation")).to_contain_text("Message 20")
    assert place.get_attribute("data-kept") == "yes"
    resumed = server.of_type("open")[-1]
    assert resumed["since"] == 1
    assert resumed["epoch"] == "first"


def test_a_window_whose_blocks_were_lost_with_the_connection_is_asked_for_again(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    server.put(session, *[agent(paragraph(f"Message {number}.")) for number in range(2000)])
    page = open_page(server.url)
    log = page.locator("#conversation")
    expect(log).to_contain_text("Message 1999.")
    asked = len(server.of_type("window"))
    server.refuses = server.loses_windows = True
    log.evaluate("e => e.scrollTop = 0")
    server.wait_for("window", asked + 1)
    expect(page.locator("#connection")).to_contain_text("The connection is lost")
    server.refuses = server.loses_windows = False
    expect(log).to_contain_text("Message 0.")
    assert server.of_type("open")[-1]["since"] == session.seq


def test_the_page_says_that_the_connection_is_lost(server: PageServer, open_page: OpenPage) -> None:
    server.add()
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    server.refuses = True
    server.cut()
    expect(page.locator("#connection")).to_contain_text("The connection is lost")
    expect(page.locator("#send")).to_be_disabled()
    server.refuses = False
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator("#send")).to_be_enabled()
