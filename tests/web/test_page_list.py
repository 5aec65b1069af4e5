"""The list of any length, search, permalinks and the list of sessions."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.support.page_blocks import agent, paragraph, plain, text_item, tool_call
from tests.support.page_server import PageServer, Played
from tests.web.conftest import OpenPage

MANY = 100_000


def block(number: int) -> Any:
    if number % 7 == 3:
        return tool_call(f"Call {number}", text_item("\n".join(["out"] * (number % 5 + 1))))
    return agent(paragraph(f"Message {number}. " + "Some words. " * (number % 23)))


def many(server: PageServer, count: int = MANY) -> Played:
    session = server.add()
    session.seq = 1
    session.blocks = [(f"entry:{number}", 1, block(number)) for number in range(count)]
    return session


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def bottom(page: Page) -> float:
    return float(
        page.evaluate(
            "(e => e.scrollHeight - e.clientHeight - e.scrollTop)"
            "(document.getElementById('conversation'))"
        )
    )


def test_a_hundred_thousand_entries_are_shown_with_few_elements(
    server: PageServer, open_page: OpenPage
) -> None:
    many(server)
    page = open_page(server.url)
    log = page.locator("#conversation")
    expect(log).to_contain_text(f"Message {MANY - 1}.")
    assert elements(page) < 500
    for share in (0.5, 0.1, 0.77):
        log.evaluate("(e, share) => e.scrollTop = e.scrollHeight * share", share)
        page.wait_for_function(
            """() => {
                 const box = document.getElementById("conversation").getBoundingClientRect();
                 const middle = document.elementFromPoint(box.left + box.width / 2, box.top + 200);
                 const place = middle?.closest(".place");
                 return place && !place.classList.contains("loading");
               }"""
        )
        assert elements(page) < 500
    log.evaluate("e => e.scrollTop = 0")
    expect(log).to_contain_text("Message 0.")
    page.keyboard.press("e")
    expect(log).to_contain_text(f"Message {MANY - 1}.")
    assert bottom(page) < 2


def test_a_list_that_is_higher_than_browsers_allow_reaches_both_ends(
    server: PageServer, open_page: OpenPage
) -> None:
    many(server, 150_001)
    page = open_page(server.url)
    log = page.locator("#conversation")
    expect(log).to_contain_text("Message 150000.")
    assert log.evaluate("e => e.scrollHeight") <= 8_000_000
    log.hover()
    page.mouse.wheel(0, -3000)
    expect(log).not_to_contain_text("Message 150000.")
    first = page.locator(".place").first.get_attribute("data-at")
    assert first is not None
    assert 149_000 < int(first) < 149_990  # the wheel moves by pixels, not by shares of the list
    log.evaluate("e => e.scrollTop = 0")
    expect(log).to_contain_text("Message 0.")


def test_the_page_stays_at_the_end_while_text_streams(
    server: PageServer, open_page: OpenPage
) -> None:
    session = many(server, 201)
    page = open_page(server.url)
    expect(page.locator("#conversation")).to_contain_text("Message 200.")
    for number in range(20):
        server.grow(session, 200, [paragraph(f"more {number} " * 30)], [])
    expect(page.locator("#conversation")).to_contain_text("more 19")
    page.wait_for_function(
        """() => {
             const e = document.getElementById("conversation");
             return e.scrollHeight - e.clientHeight - e.scrollTop < 2;
           }"""
    )


def test_what_is_on_the_screen_stays_there_while_more_comes(
    server: PageServer, open_page: OpenPage
) -> None:
    session = many(server, 201)
    page = open_page(server.url)
    log = page.locator("#conversation")
    expect(log).to_contain_text("Message 200.")
    log.hover()
    page.mouse.wheel(0, -2000)
    jump = page.get_by_role("button", name="To the end")
    expect(jump).to_be_visible()
    before = page.evaluate(
        """() => {
             const box = document.getElementById("conversation").getBoundingClientRect();
             window.seen = document.elementFromPoint(box.left + box.width / 2, box.top + 200)
               .closest(".place");
             return window.seen.getBoundingClientRect().top;
           }"""
    )
    server.put(session, block(201), block(202))
    expect(page.get_by_role("button", name="2 new")).to_be_visible()
    assert abs(page.evaluate("window.seen.getBoundingClientRect().top") - before) < 1
    page.get_by_role("button", name="2 new").click()
    expect(log).to_contain_text("Message 202.")
    expect(jump).to_be_hidden()


def test_a_permalink_opens_its_place(server: PageServer, open_page: OpenPage) -> None:
    many(server)
    page = open_page(f"{server.url}#one/51234")
    place = page.locator('.place[data-at="51234"]')
    expect(place).to_be_focused()
    expect(place).to_be_in_viewport()
    expect(place).to_contain_text("Message 51234.")


def test_search_goes_to_what_it_finds(server: PageServer, open_page: OpenPage) -> None:
    many(server, 5000)
    found = [{"session": "one", "at": 1234, "text": "Message 1234. Some words."}]
    server.answers["search"] = lambda message: {"found": found if message["text"] else []}
    page = open_page(server.url)
    expect(page.locator("#conversation")).to_contain_text("Message 4999.")
    page.keyboard.press("/")
    page.get_by_role("searchbox").fill("1234")
    expect(page.locator("#search-found mark")).to_have_text("1234")
    assert server.wait_for("search")["session"] == "one"
    page.locator("#search-found a").click()
    expect(page.locator('.place[data-at="1234"]')).to_be_in_viewport()


def test_sessions_are_listed_and_opened(server: PageServer, open_page: OpenPage) -> None:
    server.put(server.add("one"), plain("user", "In the first"))
    second = server.add("two")
    server.put(second, plain("user", "In the second"))
    page = open_page(server.url)
    expect(page.locator("#conversation")).to_contain_text("In the first")
    page.get_by_role("link", name="Session two").click()
    expect(page.locator("#conversation")).to_contain_text("In the second")
    expect(page.locator("h1")).to_have_text("Session two")
    page.keyboard.press("Alt+ArrowUp")
    expect(page.locator("#conversation")).to_contain_text("In the first")
    server.set(second, session={"state": "waiting", "title": "Renamed"})
    expect(page.locator("#sessions")).to_contain_text("Renamed")
    expect(page.locator("#sessions")).to_contain_text("waits for you")


def test_a_new_session_is_started_in_a_directory(server: PageServer, open_page: OpenPage) -> None:
    server.add("one")
    server.add("made")
    server.answers["session.new"] = lambda message: {"session": "made"}
    page = open_page(server.url)
    page.keyboard.press("+")
    page.get_by_label("Directory").fill("/work/other")
    page.get_by_role("button", name="Start").click()
    assert server.wait_for("session.new")["cwd"] == "/work/other"
    expect(page.locator("h1")).to_have_text("Session made")


def test_a_failed_start_is_explained_in_the_dialog(server: PageServer, open_page: OpenPage) -> None:
    server.add("one")
    refusal = {"type": "error", "message": "There is no such directory."}
    server.answers["session.new"] = lambda message: refusal
    page = open_page(server.url)
    page.get_by_role("button", name="New session").click()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_have_text("There is no such directory.")


def test_a_session_is_renamed_restarted_closed_and_exported(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add("one")
    page = open_page(server.url)
    page.get_by_role("button", name="This session").click()
    for words, written in (("Markdown", "markdown"), ("a page", "html"), ("JSON Lines", "jsonl")):
        link = page.get_by_role("link", name=f"Export as {words}")
        assert link.get_attribute("href") == f"/session/one/export?format={written}"
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("Weather")
    page.get_by_role("button", name="Rename", exact=True).click()
    assert server.wait_for("session.rename")["title"] == "Weather"
    failure = {"state": "failed", "failure": "The agent has ended with 1."}
    server.set(session, session=failure)
    page.locator("#failure").get_by_role("button", name="Start the agent again").click()
    assert server.wait_for("session.restart")["session"] == "one"
    page.keyboard.press("m")
    page.get_by_role("button", name="Close the session").click()
    page.get_by_role("button", name="Close it").click()
    assert server.wait_for("session.close")["session"] == "one"


def test_what_goes_wrong_from_now_on_is_reported(server: PageServer, open_page: OpenPage) -> None:
    old = {"kind": "loss", "words": "Lost before."}
    session = server.add("one", problems=[old])
    page = open_page(server.url)
    expect(page.locator("#send")).to_be_enabled()
    server.set(session, problems=[old, {"kind": "loss", "words": "Lost now."}])
    expect(page.locator("#reports")).to_contain_text("Lost now.")
    assert "Lost before." not in page.locator("#reports").inner_text()
