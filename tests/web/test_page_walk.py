"""`twofold serve` with the demo agent, as a person uses it in a browser."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Page, expect

from tests.support.served import Served, serving
from tests.web.conftest import OpenPage
from tests.web.test_page_network import CUTS
from twofold.demo.showcase import BEFORE, TEST

ASK = "The report says “-0 °C” when it is just below freezing. Please fix that and add a test."
Serve: TypeAlias = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve("--version", "2")`: the demo agent behind a page, in a directory of its own."""
    work = tmp_path / "weather"
    (work / "src" / "weather").mkdir(parents=True)
    (work / "src" / "weather" / "report.py").write_text(BEFORE)
    (work / "tests").mkdir()
    (work / "tests" / "test_report.py").write_text(TEST)
    with ExitStack() as stack:

        def started(*options: str) -> Served:
            where = ("--cwd", str(work), *options)
            return stack.enter_context(serving(tmp_path / "state", options=where))

        yield started


def opened(served: Served, open_page: OpenPage, entry: str = "") -> Page:
    page = open_page(entry or served.entry)
    expect(page.locator("#send")).to_be_enabled(timeout=30_000)
    return page


def ask(page: Page, text: str = ASK) -> None:
    page.get_by_role("textbox", name="Prompt").fill(text)
    page.keyboard.press("Enter")


def text_of(page: Page) -> str:
    """All that is to be read of the conversation, without what depends on the clock."""
    page.set_viewport_size({"width": 1280, "height": 4000})
    expect(page.locator("#conversation .remark.turn")).to_have_count(1)
    text = page.locator("#conversation").evaluate(
        """async (log) => {
             log.scrollTop = 0;
             for (let frame = 0; frame < 6; frame += 1) {
               await new Promise((resolve) => requestAnimationFrame(resolve));
             }
             return log.innerText;
           }"""
    )
    lines = [line.rstrip() for line in str(text).splitlines() if line.strip()]
    # a call that ended before anyone could see it begin has no time
    text = re.sub(r"(?m)^(\w+, completed), [\d.]+ s$", r"\1", "\n".join(lines))
    return re.sub(r"took [\d.]+ m?s", "took 1 s", text)


SHOWCASE = """\
You
The report says “-0 °C” when it is just below freezing. Please fix that and add a test.
info: This is a demonstration
No file is touched, and nothing is run.
Thought Formatting a small negative number with `.0f` keeps its sign, so -0.4 becomes “-0”. \
I should see how…
≡
Read report.py
read, completed
src/weather/report.py:6
\"\"\"The weather in words.\"\"\"
from weather.reading import Reading
def temperature(celsius: float) -> str:
    return f"{celsius:.0f} °C"
def line(reading: Reading) -> str:
    return f"{reading.place}: {temperature(reading.celsius)}, {reading.sky}"
⌕
Search for “°C”
search, completed
src/weather/report.py:7
src/weather/report.py:7:    return f"{celsius:.0f} °C"
tests/: no match
Agent
Only temperature() formats it, so that is the one place to change.
✎
Edit report.py
edit, completed
src/weather/report.py
@@ -4,7 +4,8 @@
 def temperature(celsius: float) -> str:
-    return f"{celsius:.0f} °C"
+    # round() gives an int, and an int has no negative zero
+    return f"{round(celsius)} °C"
 def line(reading: Reading) -> str:
✎
Write test_report.py
edit, completed
tests/test_report.py (new file)
@@ -0,0 +1,11 @@
+import pytest
+
+from weather.report import temperature
+
+
+@pytest.mark.parametrize(
+    ("celsius", "shown"),
+    [(-0.4, "0 °C"), (-0.6, "-1 °C"), (0.0, "0 °C"), (21.7, "22 °C")],
+)
+def test_a_temperature_is_shown_in_whole_degrees(celsius, shown):
+    assert temperature(celsius) == shown
$
Run the tests and look at Oslo
execute, completed
$ python -m pytest -q && python -m weather oslo
....                                       [100%]
4 passed in 0.03s
Oslo: 0 °C, light snow ❄
permission allowed: Run it
Agent
Fixed: Oslo is just below freezing, and the report says “0 °C”.
round() returns an int, so there is no sign left to print; four tests hold that. \
Here is the day ahead, on both sides of zero:
[image image/png, 128 bytes]
[link The weather in words, file:///WORK/src/weather/report.py, 316 bytes]
The turn took 1 s."""


EXIT = {"1": "[exit 0]\n", "2": ""}
HUNK = {"1": "@@ -1,7 +1,8 @@", "2": "@@ -4,7 +4,8 @@"}


@pytest.mark.parametrize("version", HUNK)
def test_the_showcase_is_shown_to_the_letter(
    serve: Serve, open_page: OpenPage, version: str, tmp_path: Path
) -> None:
    page = opened(serve("--version", version), open_page)
    ask(page)
    page.get_by_role("textbox", name="Prompt").evaluate("e => e.blur()")
    page.wait_for_selector("#question.quiet-now", timeout=60_000)
    question = page.locator("#question")
    assert "$ python -m pytest -q && python -m weather oslo" in question.inner_text()
    page.keyboard.press("y")
    expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
    shown = text_of(page).replace(str(tmp_path / "weather"), "/WORK")
    # in version 1 a change is two texts, which may be pieces of a file, and output is a text
    wanted = SHOWCASE.replace("@@ -4,7 +4,8 @@", HUNK[version])
    wanted = wanted.replace("light snow ❄\n", "light snow ❄\n" + EXIT[version])
    assert shown.splitlines() == wanted.splitlines()
    expect(page.locator("h1")).to_have_text("No more negative zero")
    expect(page.locator("#plan-summary")).to_have_text("Plan 4/4")
    expect(page.locator("#usage")).to_contain_text("53k of 200k tokens")
    expect(page.locator("#conversation img")).to_have_js_property("naturalWidth", 40)


def test_a_keyboard_is_enough(serve: Serve, open_page: OpenPage) -> None:
    page = opened(serve(), open_page)
    page.keyboard.press("c")
    page.keyboard.type("Please fix it")
    page.keyboard.press("Enter")
    page.wait_for_selector("#question", timeout=60_000)
    page.keyboard.press("Tab")  # from the empty line to the question
    expect(page.locator("#question")).to_be_focused()
    page.wait_for_selector("#question.quiet-now")
    page.keyboard.press("y")
    expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
    page.keyboard.press("Escape")
    page.keyboard.press("F6")
    expect(page.locator("#conversation")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator(".place:focus")).to_have_count(1)
    page.keyboard.press("f")
    expect(page.locator("#follow")).to_be_visible()


def test_all_of_a_session_is_printed(serve: Serve, open_page: OpenPage) -> None:
    page = opened(serve(), open_page)
    page.context.add_init_script("window.print = () => { window.isPrinted = true; }")
    ask(page)
    page.wait_for_selector("#question", timeout=60_000)
    page.locator("#prompt").evaluate("e => e.blur()")
    presses: list[Callable[[], None]] = [
        lambda: page.keyboard.press("Control+p"),
        lambda: page.get_by_role("button", name="Print").click(),
    ]
    for press in presses:
        with page.context.expect_page() as found:
            press()
        printed = found.value
        printed.wait_for_function("() => window.isPrinted")
        printed.emulate_media(media="print")
        text = printed.locator("main").inner_text()
        for words in (ASK, "Search for “°C”", "test_report.py (new file)", "Run the tests"):
            assert words in text
        # what is closed on the screen is open on paper
        expect(printed.locator(".thought > .text").first).to_be_visible()
        assert printed.locator("script").count() == 0
        assert printed.evaluate("window.violations") == []
        printed.close()
        page.get_by_role("button", name="This session").click()


def test_two_browsers_see_the_same_and_one_answers(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    first = opened(served, open_page)
    second = opened(served, open_page, served.link())
    ask(first)
    for page in (first, second):
        expect(page.locator("#question")).to_be_visible(timeout=60_000)
    second.get_by_role("button", name="Run it y").click()
    for page in (first, second):
        expect(page.locator("#question")).to_be_hidden()
        expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
    assert text_of(first) == text_of(second)
    expect(first.locator("#reports")).to_contain_text("allowed by Chrome on Linux 2")


def test_an_observer_looks_and_changes_nothing(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    first = opened(served, open_page)
    observer = open_page(served.link("observer"))
    expect(observer.locator("#who")).to_contain_text("may only look")
    ask(first)
    expect(observer.locator("#question")).to_be_visible(timeout=60_000)
    expect(observer.locator("#question .answer")).to_have_count(0)
    expect(observer.locator("#send")).to_be_disabled()


def test_a_turn_is_cancelled_in_the_middle(serve: Serve, open_page: OpenPage) -> None:
    page = opened(serve(), open_page)
    ask(page)
    expect(page.locator("#question")).to_be_visible(timeout=60_000)
    page.get_by_role("textbox", name="Prompt").press("Escape")
    expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
    expect(page.locator("#question")).to_be_hidden()
    expect(page.locator(".call").last).to_contain_text("cancelled")
    expect(page.locator("#conversation .remark.turn")).to_contain_text("Cancelled by")


def test_a_session_is_opened_at_another_place_after_a_reload(
    serve: Serve, open_page: OpenPage
) -> None:
    page = opened(serve(), open_page)
    ask(page)
    expect(page.locator("#question")).to_be_visible(timeout=60_000)
    page.reload()
    expect(page.locator("#question")).to_be_visible()
    page.get_by_role("button", name="Do not run it").click()
    expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
    expect(page.locator("#conversation")).to_contain_text("I ran nothing, as you wished")


def test_a_page_that_lost_its_network_ends_as_one_that_stayed(
    serve: Serve, open_page: OpenPage
) -> None:
    served = serve()
    stays = opened(served, open_page)
    leaves = opened(served, open_page, served.link())
    stays.locator("#controls").get_by_label("Mode").select_option("code")  # asks nothing
    ask(stays)
    expect(leaves.locator("#stop")).to_be_visible()
    for _ in range(CUTS):
        leaves.context.set_offline(True)
        expect(leaves.locator("#connection")).to_be_visible()
        leaves.context.set_offline(False)
        expect(leaves.locator("#connection")).to_be_hidden()
    for page in (stays, leaves):
        expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
        expect(page.locator("#send")).to_be_enabled()
    assert text_of(leaves) == text_of(stays)
    expect(leaves.locator("#conversation img")).to_have_count(1)


@pytest.mark.parametrize(
    ("item", "suffix", "begins"),
    [
        ("Export as Markdown", ".md", b"# "),
        ("Export as a page", ".html", b"<!doctype html>"),
        ("Export as JSON Lines", ".jsonl", b"{"),
    ],
)
def test_a_session_is_exported_as_a_file(
    serve: Serve, open_page: OpenPage, item: str, suffix: str, begins: bytes
) -> None:
    page = opened(serve(), open_page)
    ask(page, "/echo what I say")
    expect(page.locator("#conversation")).to_contain_text("echo: what I say")
    page.get_by_role("button", name="This session").click()
    with page.expect_download() as waited:
        page.get_by_role("link", name=item).click()
    exported = waited.value
    assert exported.suggested_filename.endswith(suffix)
    content = exported.path().read_bytes()
    assert content.startswith(begins)
    assert b"what I say" in content


def test_a_session_that_the_agent_kept_is_resumed_from_the_dialog(
    open_page: OpenPage, tmp_path: Path
) -> None:
    agent = (
        sys.executable,
        "-m",
        "twofold",
        "agent",
        "--speed",
        "0",
        "--keep",
        str(tmp_path / "k"),
    )
    with serving(tmp_path / "state", *agent, options=("--cwd", str(tmp_path))) as served:
        page = opened(served, open_page)
        ask(page, "/echo what I say")
        expect(page.locator("#conversation")).to_contain_text("echo: what I say")
        expect(page.locator("#stop")).to_be_hidden()
    with serving(tmp_path / "other", *agent, options=("--cwd", str(tmp_path))) as served:
        page = opened(served, open_page)
        expect(page.locator("#conversation")).not_to_contain_text("echo: what I say")
        page.get_by_role("button", name="New session").click()
        dialog = page.locator("#new-session")
        dialog.get_by_role("button", name="Sessions the agent kept").click()
        kept = dialog.locator("#kept-sessions li", has_text="s1")
        expect(kept).to_contain_text(str(tmp_path))
        kept.get_by_role("button").click()
        expect(dialog).to_be_hidden()
        expect(page.locator("#conversation")).to_contain_text("echo: what I say")
        ask(page, "/echo and more")
        expect(page.locator("#conversation")).to_contain_text("echo: and more")
