"""Messages of a megabyte of small things: few elements, and still all of it can be read."""

import json
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.support.page_blocks import agent, paragraph, plain, span, text_item, tool_call
from tests.support.page_server import PageServer, Played
from tests.web.conftest import OpenPage
from twofold.view.blocks import MessageBlock
from twofold.view.markdown import Markdown
from twofold.web.encode import encode_block

SIZE = 300_000
MOST = 3_000
"""Elements of the page, whatever a message holds: a screen full of words in styles of their own."""


def message(text: str) -> Any:
    """A message as a server sends it."""
    reader = Markdown()
    pieces = (*reader.feed(text), *reader.end())
    return json.loads(msgspec.json.encode(encode_block(MessageBlock("agent", pieces))))


def many(what: str) -> str:
    return what * (SIZE // len(what))


ROW = "|" + "a|" * 60 + "\n"
HOSTILE = {
    "spans of code": many("`a` "),
    "emphasis": many("*a* "),
    "links": many("[a](http://a.b) "),
    "fences": many("```\na\n```\n"),
    "lines of code": "```python\n" + many("x = [a(1), 'b']\n"),
    "a line of code": "```js\n" + many("a=b(1);"),
    "items": many("- a\n"),
    "items in items": many("- a\n  - b\n    - c\n"),
    "rows": "|a|b|c|\n|-|-|-|\n" + many("|a|b|c|\n"),
    "wide rows": ROW + "|" + "-|" * 60 + "\n" + many(ROW),
    "lines": many("a\n"),
    "paragraphs": many("a\n\n"),
    "quotes": many("> a\n\n"),
    "headings": many("# a\n"),
    "a word": many("a"),
}


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def scroll(page: Page, share: float) -> None:
    page.evaluate(
        """async (share) => {
             const log = document.getElementById("conversation");
             log.scrollTop = log.scrollHeight * share;
             for (let frame = 0; frame < 3; frame += 1) {
               await new Promise((resolve) => requestAnimationFrame(resolve));
             }
           }""",
        share,
    )


def opened(server: PageServer, open_page: OpenPage, *blocks: Any, **options: Any) -> Page:
    server.put(server.add(), *blocks)
    page = open_page(server.url, **options)
    expect(page.locator(".place:not(.loading)")).not_to_have_count(0)
    return page


BLANK = """() => {
  const box = document.getElementById("conversation").getBoundingClientRect();
  return [...document.querySelectorAll(".space")]
    .map((each) => each.getBoundingClientRect())
    .filter(({ height, top, bottom }) => height > 1 && bottom > box.top + 1 && top < box.bottom - 1)
    .map(({ top, bottom }) => [top, bottom]);
}"""


@pytest.mark.parametrize("name", HOSTILE)
def test_few_elements_show_a_message_of_many_things(
    server: PageServer, open_page: OpenPage, name: str
) -> None:
    block = message(f"The beginning.\n\n{HOSTILE[name]}\n```\n\nThe end.\n\nThe end.")
    page = opened(server, open_page, block)
    log = page.locator("#conversation")
    expect(log).to_contain_text("The end.")
    found = [elements(page)]
    for share in (0.7, 0.4, 0.1):
        scroll(page, share)
        found.append(elements(page))
        assert page.evaluate(BLANK) == []
    scroll(page, 0)
    expect(log).to_contain_text("The beginning.")
    assert max(found) < MOST
    page.locator("#prompt").evaluate("e => e.blur()")
    page.keyboard.press("e")
    expect(log.get_by_text("The end.").last).to_be_in_viewport()


def test_a_message_that_is_not_long_is_drawn_as_a_whole(
    server: PageServer, open_page: OpenPage
) -> None:
    page = opened(server, open_page, message("- a\n" * 150))
    expect(page.locator(".markdown li")).to_have_count(150)
    expect(page.locator(".section")).to_have_count(0)


def numbered(count: int) -> Any:
    return agent(*[paragraph(f"Line {number}.", span("x", code=True)) for number in range(count)])


def test_what_streams_into_a_long_message_is_drawn_once(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    server.put(session, numbered(20_000))
    page = open_page(server.url)
    log = page.locator("#conversation")
    last = page.locator(".markdown p").last
    expect(last).to_have_text("Line 19999.x")
    last.evaluate("e => { e.dataset.kept = 'yes'; }")
    for number in range(6):
        server.grow(session, 0, [paragraph(f"More {number}.")], [paragraph("and")])
    server.grow(session, 0, [paragraph("Done.")], [])
    expect(log.get_by_text("Done.")).to_be_in_viewport()
    expect(page.locator(".markdown p", has_text="and")).to_have_count(0)
    expect(page.locator("[data-kept]")).to_have_count(1)
    texts = page.locator(".markdown p").all_inner_texts()
    assert texts[-7:] == [*[f"More {number}." for number in range(6)], "Done."]
    assert elements(page) < MOST


def test_a_message_that_becomes_long_keeps_what_is_drawn(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    server.put(session, agent(paragraph("The first.")))
    page = open_page(server.url)
    log = page.locator("#conversation")
    first = log.get_by_text("The first.")
    first.evaluate("e => { e.dataset.kept = 'yes'; }")
    for start in range(0, 1200, 100):
        more = [paragraph(f"More {start + number}.") for number in range(100)]
        server.grow(session, 0, more, [paragraph("and")])
    expect(log.get_by_text("More 1199.")).to_be_in_viewport()
    scroll(page, 0)
    expect(first).to_be_in_viewport()
    for _ in range(40):
        scroll(page, 1)
        scroll(page, 0)
    expect(log.get_by_text("More 1.", exact=True)).to_have_count(1)


TOP = """() => {
  const { top } = document.getElementById("conversation").getBoundingClientRect();
  const all = [...document.querySelectorAll(".markdown p")];
  const found = all.find((each) => each.getBoundingClientRect().bottom > top + 300);
  return [found.textContent, found.getBoundingClientRect().top];
}"""


def test_scrolling_a_long_message_moves_it_by_as_much(
    server: PageServer, open_page: OpenPage
) -> None:
    texts = ["word " * (number % 97) for number in range(8_000)]
    page = opened(
        server, open_page, agent(*[paragraph(f"{at}. {text}") for at, text in enumerate(texts)])
    )
    expect(page.get_by_text("7999.")).to_be_in_viewport()
    scroll(page, 0.5)
    page.locator("#conversation").hover()
    for _ in range(25):
        before = page.evaluate(TOP)
        page.mouse.wheel(0, -100)
        page.wait_for_function(
            """([text, top]) => {
                 const all = [...document.querySelectorAll(".markdown p")];
                 const same = all.find((each) => each.textContent === text);
                 return same && Math.abs(same.getBoundingClientRect().top - top - 100) < 2;
               }""",
            arg=before,
        )


def clipboard(page: Page) -> str:
    return str(page.evaluate("() => navigator.clipboard.readText()"))


CLIPBOARD = ["clipboard-read", "clipboard-write"]


def test_all_of_a_long_message_is_copied(server: PageServer, open_page: OpenPage) -> None:
    page = opened(server, open_page, numbered(5_000), permissions=CLIPBOARD)
    page.locator(".message").hover()
    page.get_by_role("button", name="Copy this message").click(force=True)
    expect(page.locator(".copy[data-result]")).to_have_attribute("data-result", "copied")
    assert clipboard(page) == "\n\n".join(f"Line {number}.x" for number in range(5_000))


def test_all_of_long_code_is_copied_from_any_part_of_it(
    server: PageServer, open_page: OpenPage
) -> None:
    code = "".join(f"x = [{number}, 'b']\n" for number in range(3_000))
    page = opened(server, open_page, message(f"```python\n{code}```"), permissions=CLIPBOARD)
    for share in (1, 0.5, 0):
        scroll(page, share)
        page.evaluate("() => navigator.clipboard.writeText('')")
        button = page.get_by_role("button", name="Copy this code").first
        button.dispatch_event("click")
        expect(button).to_have_attribute("data-result", "copied")
        assert clipboard(page) == code.rstrip("\n")


AS_TEXT = {
    "paragraphs": ("One\ntwo.\n\nThree.", "One\ntwo.\n\nThree."),
    "a list": ("- a\n- b\n\n  more\n- [x] c", "- a\n- b\n\n  more\n- [x] c"),
    "numbers": ("3. a\n4. b\n   - c", "3. a\n4. b\n   - c"),
    "a quote": ("> a\n> b", "> a\n> b"),
    "code": ("Look:\n```py\na\n\nb\n```\nSo.", "Look:\n\na\n\nb\n\nSo."),
    "a table": ("|a|b|\n|-|-|\n|1|2|\n", "a\tb\n1\t2"),
    "a heading": ("# A *b*\nText `c`.", "A b\n\nText c."),
}


@pytest.mark.parametrize("name", AS_TEXT)
def test_what_is_copied_reads_as_it_is_shown(
    server: PageServer, open_page: OpenPage, name: str
) -> None:
    text, copied = AS_TEXT[name]
    page = opened(server, open_page, message(text))
    script = "async (items) => (await import('/static/blocks/as_text.js')).asText(items)"
    assert page.evaluate(script, message(text)["items"]) == copied


def search(page: Page, text: str) -> None:
    page.locator("#prompt").evaluate("e => e.blur()")
    page.keyboard.press("/")
    page.get_by_role("searchbox").fill(text)
    page.locator("#search-found a").click()


def test_search_goes_to_the_part_of_a_long_message_that_has_the_text(
    server: PageServer, open_page: OpenPage
) -> None:
    found = [{"session": "one", "at": 1, "text": "Line 4321."}]
    server.answers["search"] = lambda message: {"found": found if message["text"] else []}
    page = opened(server, open_page, plain("user", "Hello"), numbered(9_000))
    expect(page.get_by_text("Line 8999.")).to_be_in_viewport()
    search(page, "line 4321.")
    line = page.locator("#conversation").get_by_text("Line 4321.")
    expect(line).to_have_count(1)
    box = page.locator("#conversation").bounding_box()
    section = page.locator(".section", has_text="Line 4321.").bounding_box()
    assert box is not None
    assert section is not None
    assert abs(section["y"] - box["y"]) < 30, "its section begins where the screen does"


def test_a_permalink_shows_the_beginning_of_a_long_message(
    server: PageServer, open_page: OpenPage
) -> None:
    server.put(server.add(), numbered(9_000), plain("user", "Hello"))
    page = open_page(f"{server.url}#one/0")
    expect(page.get_by_text("Line 0.").first).to_be_in_viewport()


def test_a_list_goes_on_with_its_numbers_and_without_a_second_mark(
    server: PageServer, open_page: OpenPage
) -> None:
    item = {"type": "ListItem", "number": 7, "opens": True}
    more = {**item, "opens": False}
    first = paragraph("Seven", within=[item])
    page = opened(server, open_page, agent(first, *[paragraph("more", within=[more])] * 3_000))
    scroll(page, 0)
    expect(page.locator(".markdown li").first).to_have_attribute("value", "7")
    expect(page.locator(".markdown li").first).to_have_css("list-style-type", "decimal")
    scroll(page, 0.5)
    expect(page.locator(".markdown li").first).to_have_css("list-style-type", "none")


def test_a_tool_call_with_many_items_has_few_elements(
    server: PageServer, open_page: OpenPage
) -> None:
    items = [text_item(f"Output {number}\nand more") for number in range(3_000)]
    session = server.add()
    server.put(session, tool_call("Run", *items, status="in_progress"))
    page = open_page(server.url)
    expect(page.get_by_text("Output 2999")).to_be_in_viewport()
    server.grow(session, 0, [text_item("The last")], [])
    expect(page.get_by_text("The last")).to_be_in_viewport()
    assert elements(page) < MOST
    scroll(page, 0)
    expect(page.get_by_text("Output 0\n")).to_be_in_viewport()


def test_the_markdown_of_a_tool_is_unfolded_part_by_part(
    server: PageServer, open_page: OpenPage
) -> None:
    blocks = [paragraph(f"Line {number}.", span("x", code=True)) for number in range(2_000)]
    page = opened(server, open_page, tool_call("Look", {"type": "TextItem", "markdown": blocks}))
    scroll(page, 1)
    expect(page.get_by_role("button", name="more parts")).to_be_visible()
    assert elements(page) < MOST
    page.get_by_role("button", name="more parts").click()
    expect(page.get_by_text("Line 1999.")).to_have_count(1)


def test_many_lines_of_a_diff_are_unfolded_step_by_step(
    server: PageServer, open_page: OpenPage
) -> None:
    lines = [{"kind": "added", "text": f"line {number}"} for number in range(1_000)]
    page = opened(server, open_page, tool_call("Edit", {"type": "DiffItem", "lines": lines}))
    for count in (952, 752, 552):
        page.get_by_role("button", name=f"Show {count} more lines").click()
    expect(page.locator(".diff .line")).to_have_count(648)


def test_a_long_thought_is_drawn_only_when_it_is_opened(
    server: PageServer, open_page: OpenPage
) -> None:
    session: Played = server.add()
    thought = plain("thought", "".join(f"I wonder {number}\n" for number in range(40_000)))
    server.put(session, thought)
    page = open_page(server.url)
    summary = page.locator("details.thought summary")
    expect(summary).to_contain_text("Thought I wonder 0 I wonder 1")
    expect(page.locator(".section")).to_have_count(0)
    summary.click()
    expect(page.get_by_text("I wonder 39999")).to_be_in_viewport()
    assert elements(page) < MOST
    text = page.locator("details.thought .body").inner_text()
    assert len(text) < 100_000


def test_what_has_the_focus_keeps_it_while_its_section_is_out_of_sight(
    server: PageServer, open_page: OpenPage
) -> None:
    link = paragraph(span("The link", url="https://a.example/"))
    page = opened(server, open_page, agent(link, *numbered(9_000)["items"]))
    scroll(page, 0)
    page.get_by_role("link", name="The link").focus()
    scroll(page, 0.5)
    expect(page.get_by_role("link", name="The link")).to_be_focused()
    scroll(page, 0)
    expect(page.get_by_role("link", name="The link")).to_be_in_viewport()
    expect(page.get_by_role("link", name="The link")).to_be_focused()
