"""What the page draws of every kind of block, in a real browser."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_blocks import agent, paragraph, plain, span, text_item, tool_call
from tests.support.page_server import PageServer
from tests.web.conftest import OpenPage

ITEM = {"type": "ListItem"}
BULLET = {**ITEM, "opens": True}
QUOTE = {"type": "Quote"}
CODE = {"type": "CodeStart", "language": "python"}


def code_line(text: str, **fields: Any) -> Any:
    return {"type": "CodeLine", "text": text, **fields}


def diff(*lines: tuple[str, str]) -> Any:
    made = [{"kind": kind, "text": text} for kind, text in lines]
    return {"type": "DiffItem", "lines": made}


def shown(server: PageServer, open_page: OpenPage, *blocks: Any, **options: Any) -> Page:
    server.put(server.add(), *blocks)
    page = open_page(server.url, **options)
    expect(page.locator(".place:not(.loading)")).not_to_have_count(0)
    return page


MARKDOWN = {
    "a heading is below the headings of the page": (
        [{"type": "Heading", "level": 1, "spans": [span("One")]}],
        "<h3>One</h3>",
    ),
    "spans have their styles, and a line break stays one": (
        [paragraph(span("a", strong=True), span("b\nc", emphasis=True), span("d", code=True))],
        "<p><strong>a</strong><em><span>b<br>c</span></em><code>d</code></p>",
    ),
    "items are in one list, with what belongs to them": (
        [
            paragraph("one", within=[BULLET]),
            paragraph("more", within=[ITEM]),
            {"type": "Blank"},
            paragraph("two", within=[BULLET]),
        ],
        "<ul><li><p>one</p><p>more</p></li><li><p>two</p></li></ul>",
    ),
    "a list in a list keeps the number that was written": (
        [
            paragraph("one", within=[BULLET]),
            paragraph("three", within=[ITEM, {**BULLET, "number": 3}]),
            paragraph("four", within=[ITEM, {**BULLET, "number": 4}]),
            paragraph("two", within=[BULLET]),
        ],
        (
            '<ul><li><p>one</p><ol><li value="3"><p>three</p></li>'
            '<li value="4"><p>four</p></li></ol></li><li><p>two</p></li></ul>'
        ),
    ),
    "quotes with a blank line between them are two": (
        [
            paragraph("one", within=[QUOTE]),
            {"type": "Blank"},
            paragraph("two", within=[QUOTE]),
        ],
        "<blockquote><p>one</p></blockquote><blockquote><p>two</p></blockquote>",
    ),
    "a paragraph that goes on is one": (
        [paragraph("one "), paragraph("and on", continues=True)],
        "<p>one and on</p>",
    ),
    "a row that comes later is in the table": (
        [
            {"type": "Table", "header": [[span("a")]], "aligns": ["right"], "rows": []},
            {"type": "TableRow", "cells": [[span("b")]]},
        ],
        (
            '<table><thead><tr><th class="to-right">a</th></tr></thead>'
            '<tbody><tr><td class="to-right">b</td></tr></tbody></table>'
        ),
    ),
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_becomes_elements(server: PageServer, open_page: OpenPage, name: str) -> None:
    blocks, html = MARKDOWN[name]
    page = shown(server, open_page, agent(*blocks))
    selector = ".markdown table" if "<table>" in html else ".markdown"
    drawn = page.locator(selector).evaluate("e => e.outerHTML")
    assert drawn == (html if "<table>" in html else f'<div class="markdown">{html}</div>')


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_that_streams_ends_as_markdown_that_is_there(
    server: PageServer, open_page: OpenPage, name: str
) -> None:
    blocks, _ = MARKDOWN[name]
    session = server.add()
    server.put(session, agent(*blocks), agent())
    page = open_page(server.url)
    for block in blocks:
        server.grow(session, 1, [], [block])
        server.grow(session, 1, [block], [paragraph("what may become anything")])
    server.grow(session, 1, [], [])
    expect(page.locator(".markdown")).to_have_count(2)
    expect(page.locator("#conversation").get_by_text("anything")).to_have_count(0)
    first, second = page.locator(".markdown").evaluate_all("all => all.map(e => e.innerHTML)")
    assert second == first


def test_a_long_paragraph_is_in_parts_that_are_laid_out_by_themselves(
    server: PageServer, open_page: OpenPage
) -> None:
    long = "one " * 5000
    session = server.add()
    server.put(session, agent(paragraph(long)))
    page = open_page(server.url)
    expect(page.locator(".markdown p")).to_have_count(1)
    for words in ("two ", "three "):
        more = paragraph(words, continues=True)
        server.grow(session, 0, [], [more])
        server.grow(session, 0, [more], [])
    server.grow(session, 0, [paragraph("new")], [])
    expect(page.locator(".markdown p")).to_have_count(2)
    drawn = page.locator(".markdown").evaluate("e => e.innerHTML")
    assert drawn == f'<p>{long}<span class="part">two three </span></p><p>new</p>'


def test_code_is_coloured_by_words_of_style(server: PageServer, open_page: OpenPage) -> None:
    line = code_line("def f", spans=[["def", "bold magenta"], [" f", "on #ff8800"]])
    page = shown(server, open_page, agent(CODE, line, code_line(""), code_line("end")))
    assert page.locator("pre code").evaluate("e => e.textContent") == "def f\n\nend"
    word = page.locator("pre code span").first
    assert word.get_attribute("class") == "bold f-magenta"
    ground = page.locator("pre code span").nth(1).evaluate("e => e.style.backgroundColor")
    assert ground == "rgb(255, 136, 0)"


def test_text_that_streams_is_drawn_once(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.put(session, agent(paragraph("first")))
    page = open_page(server.url)
    page.locator(".markdown p").first.evaluate("e => e.dataset.kept = 'yes'")
    server.grow(session, 0, [paragraph("second")], [paragraph("thi")])
    server.grow(session, 0, [], [paragraph("third")])
    expect(page.locator(".markdown p")).to_have_text(["first", "second", "third"])
    assert page.locator(".markdown p").first.get_attribute("data-kept") == "yes"


def test_a_thought_is_closed_and_opens_by_key(server: PageServer, open_page: OpenPage) -> None:
    page = shown(server, open_page, plain("thought", "I wonder\nwhy"))
    expect(page.locator("details.thought .body")).to_be_hidden()
    expect(page.locator("details.thought summary")).to_have_text("Thought I wonder why")
    page.keyboard.press("t")
    expect(page.locator("details.thought .body")).to_be_visible()


def test_a_tool_call_shows_what_is_done_where_and_how_far_it_is(
    server: PageServer, open_page: OpenPage
) -> None:
    place = {"path": "/work/weather/a.py", "line": 7, "name": "a.py"}
    call = tool_call("Read a.py", kind="read", icon="≡", status="in_progress", locations=[place])
    session = server.add()
    server.put(session, call)
    page = open_page(server.url)
    expect(page.locator(".call")).to_have_text("≡Read a.pyread, in progressa.py:7")
    done = {**call, "status": "completed", "word": "completed", "items": [text_item("x = 1")]}
    server.put(session, done, at=0)
    expect(page.locator(".call.completed .output")).to_have_text("x = 1")


def test_the_file_of_a_location_opens_beside_the_conversation(
    server: PageServer, open_page: OpenPage
) -> None:
    place = {"path": "/work/weather/a.py", "line": 7, "name": "a.py"}
    page = shown(server, open_page, tool_call("Read", locations=[place]))
    page.get_by_role("button", name="a.py:7").click()
    expect(page.locator("#follow-name")).to_have_text("a.py:7")
    expect(page.locator("#follow-code .current")).to_have_text("line 7")


def test_the_panel_goes_where_the_agent_goes_until_somebody_opens_a_file(
    server: PageServer, open_page: OpenPage
) -> None:
    def call(line: int, **fields: Any) -> Any:
        places = [{"path": "/work/weather/a.py", "line": line, "name": "a.py"}]
        return tool_call("Read", locations=places, **fields)

    session = server.add()
    server.put(session, call(3))
    page = open_page(server.url)
    page.get_by_role("button", name="Follow along").click()
    expect(page.locator("#follow-code .current")).to_have_text("line 3")
    server.put(session, call(9, status="in_progress"), call(5))
    expect(page.locator("#follow-code .current")).to_have_text("line 9")
    page.get_by_role("button", name="a.py:5").click()
    expect(page.locator("#follow-code .current")).to_have_text("line 5")
    server.put(session, call(11, status="in_progress"))
    expect(page.get_by_role("button", name="a.py:11")).to_be_visible()
    expect(page.locator("#follow-code .current")).to_have_text("line 5")
    page.get_by_role("button", name="Follow the agent").click()
    expect(page.locator("#follow-code .current")).to_have_text("line 11")


DIFF = {
    "type": "DiffItem",
    "lines": [
        {"kind": "file", "text": "a.py"},
        {"kind": "hunk", "text": "@@ -1,2 +1,2 @@"},
        {"kind": "context", "text": "same", "old": 1, "new": 1},
        {"kind": "removed", "text": "one old word", "old": 2, "marks": [[4, 7]]},
        {"kind": "added", "text": "one new word", "new": 2, "marks": [[4, 7]]},
    ],
}


def test_a_diff_is_unified_with_its_words_marked(server: PageServer, open_page: OpenPage) -> None:
    page = shown(server, open_page, tool_call("Edit", DIFF))
    expect(page.locator(".diff del")).to_have_text("-one old word")
    expect(page.locator(".diff ins")).to_have_text("+one new word")
    expect(page.locator(".diff mark")).to_have_text(["old", "new"])
    assert page.locator(".diff ins").get_attribute("data-new") == "2"


def test_a_diff_has_two_sides_where_there_is_room(server: PageServer, open_page: OpenPage) -> None:
    page = shown(server, open_page, tool_call("Edit", DIFF), size=(1700, 900))
    expect(page.locator(".diff .pair")).to_have_count(2)
    expect(page.locator(".diff .pair").nth(1)).to_have_text("-one old word+one new word")
    page.get_by_role("button", name="Unified").click()
    expect(page.locator(".diff .pair")).to_have_count(0)
    expect(page.locator(".diff .line")).to_have_count(4)


def test_lines_that_did_not_change_are_folded_and_stay_unfolded(
    server: PageServer, open_page: OpenPage
) -> None:
    lines = [("context", f"line {number}") for number in range(30)]
    call = tool_call("Edit", diff(("file", "a.py"), *lines, ("added", "x")))
    session = server.add()
    server.put(session, call)
    page = open_page(server.url)
    page.get_by_role("button", name="24 lines did not change").click()
    expect(page.locator(".diff .context")).to_have_count(30)
    server.put(session, {**call, "title": "Edited"}, at=0)
    expect(page.locator("#conversation").get_by_text("Edited")).to_be_visible()
    expect(page.locator(".diff .context")).to_have_count(30)


def test_long_text_is_folded(server: PageServer, open_page: OpenPage) -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    page = shown(server, open_page, tool_call("Read", text_item(text)))
    expect(page.locator(".output")).not_to_contain_text("line 14")
    page.get_by_role("button", name="Show 86 more lines").click()
    assert page.locator(".output").evaluate("e => e.textContent") == text


def test_a_terminal_shows_its_command_its_rows_and_how_it_ended(
    server: PageServer, open_page: OpenPage
) -> None:
    item = {
        "type": "TerminalItem",
        "command": "make\nmake test",
        "cwd": "/work/weather",
        "received": True,
        "rows": [[["ok", "bold green"], [" 1", ""]], []],
        "hidden": 12,
        "exit": "exit code 2",
        "succeeded": False,
    }
    page = shown(server, open_page, tool_call("Run", item))
    text = "$ make\n> make test\n12 earlier lines are not shown\nok 1\n"
    assert page.locator(".terminal").evaluate("e => e.textContent") == text
    assert page.locator(".terminal .bold.f-green").inner_text() == "ok"
    expect(page.locator(".place .remark.error")).to_have_text("exit code 2")


OTHERS = {
    "a notice": (
        {"type": "NoticeBlock", "severity": "warning", "title": "Slow", "description": "Wait."},
        "warning: Slow\nWait.",
    ),
    "a compaction": (
        {"type": "CompactionBlock", "status": "in_progress", "items": [text_item("Short.")]},
        "Context compaction: in progress\nShort.",
    ),
    "a subagent": (
        {"type": "SubagentBlock", "title": "Search", "state": "running"},
        "Subagent: Search (running)",
    ),
    "the end of a turn": ({"type": "RemarkBlock", "text": "done in 3 s"}, "done in 3 s"),
    "an unknown update": (
        {"type": "UnknownBlock", "name": "dance", "count": 2},
        "[unknown update: dance] × 2",
    ),
    "a message of another session": (
        {"type": "MessageBlock", "role": "session", "sender": "b", "items": [text_item("Hi")]},
        "Message from session b\nHi",
    ),
    "a link": (
        agent({"type": "DescribedItem", "text": "[link x]", "media": {"kind": "link"}}),
        "Agent\n[link x]",
    ),
    "a block of a kind that nobody knows": ({"type": "Dance"}, "[unknown block: Dance]"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_kind_is_shown(server: PageServer, open_page: OpenPage, name: str) -> None:
    block, text = OTHERS[name]
    page = shown(server, open_page, block)
    assert page.locator(".place").inner_text().split() == text.split()


def test_unknown_content_shows_what_was_sent(server: PageServer, open_page: OpenPage) -> None:
    item = {
        "type": "DescribedItem",
        "text": "[unknown content: dance]",
        "media": {"kind": "unknown"},
        "raw": '{\n  "type": "dance"\n}',
    }
    page = shown(server, open_page, tool_call("Dance", item))
    page.get_by_text("[unknown content: dance]").click()
    expect(page.locator(".unknown pre")).to_have_text('{ "type": "dance" }')


def test_what_has_the_focus_keeps_it_when_its_block_is_drawn_again(
    server: PageServer, open_page: OpenPage
) -> None:
    place = {"path": "/work/weather/a.py", "line": 7, "name": "a.py"}
    call = tool_call("Read", status="in_progress", locations=[place])
    session = server.add()
    server.put(session, call)
    page = open_page(server.url)
    page.get_by_role("button", name="a.py:7").focus()
    server.put(session, {**call, "title": "Read on"}, at=0)
    expect(page.locator("#conversation").get_by_text("Read on")).to_be_visible()
    expect(page.get_by_role("button", name="a.py:7")).to_be_focused()


def test_a_tool_call_shows_how_long_it_takes_and_how_long_it_took(
    server: PageServer, open_page: OpenPage
) -> None:
    server.now = 1_800_000_000.0  # which the clock of the browser need not agree with
    session = server.add()
    call = tool_call("Build", status="in_progress", seconds=1.5, since=server.now - 70)
    server.put(session, call)
    page = open_page(server.url)
    page.clock.install(time=0)
    page.reload()
    status = page.locator(".call .status")
    expect(status).to_have_text("execute, in progress, 1 min 11 s")
    page.clock.run_for(5000)
    expect(status).to_have_text("execute, in progress, 1 min 16 s")
    server.put(session, tool_call("Build", seconds=3.25), at=0)
    expect(status).to_have_text("execute, completed, 3.3 s")
    page.clock.run_for(5000)
    expect(status).to_have_text("execute, completed, 3.3 s")
    page.reload()
    expect(status).to_have_text("execute, completed, 3.3 s")


def test_nothing_moves_if_that_is_not_wanted(server: PageServer, open_page: OpenPage) -> None:
    session = server.add()
    server.put(session, tool_call("It runs", status="in_progress"))
    page = open_page(server.url, size=(600, 800))
    icon, sidebar = page.locator(".call .icon"), page.locator("#sidebar")
    expect(icon).to_have_css("animation-name", "breathe")
    expect(sidebar).to_have_css("transition-duration", "0.15s")
    page.emulate_media(reduced_motion="reduce")
    expect(icon).to_have_css("animation-name", "none")
    expect(sidebar).to_have_css("transition-property", "none")


def test_on_paper_there_is_the_whole_conversation_and_nothing_else(
    server: PageServer, open_page: OpenPage
) -> None:
    session = server.add()
    server.put(session, plain("agent", "The words."))
    server.put(session, tool_call("A call", text_item("\n".join(["x" * 400] * 12))))
    page = open_page(server.url, color_scheme="dark")
    others = ["#sidebar", "#dock", ".copy", ".permalink", "main > header button"]
    expect(page.locator("#conversation")).to_contain_text("A call")
    for each in others[:2]:
        expect(page.locator(each).first).to_be_visible()
    log, output = page.locator("#conversation"), page.locator(".output")
    expect(log).to_have_css("overflow-y", "auto")
    page.emulate_media(media="print", color_scheme="dark")
    for each in others:
        expect(page.locator(each).first).to_be_hidden()
    expect(log).to_have_css("overflow-y", "visible")
    expect(output).to_have_css("max-height", "none")
    expect(output).to_have_css("white-space", "pre-wrap")
    expect(page.locator("html")).to_have_css("color-scheme", "light")
    expect(log.get_by_text("The words.")).to_be_visible()
