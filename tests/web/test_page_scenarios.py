"""Every scenario of the demo agent, faults above all, in a real browser through `twofold serve`.

They are played one after the other in one session of each version, each by its command. The page
has to be as well after each of them as before: nothing waits, no script failed, nothing was loaded
from elsewhere, and the next prompt is taken. The one that ends the agent has a session of its own.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import Watched
from tests.support.served import serving
from twofold.demo import SCENARIOS

PATIENCE: Final = 20_000
"""Milliseconds for what takes longer on a machine that is busy."""


class Expected(NamedTuple):
    """How a scenario is played, and what is to be read after it."""

    texts: tuple[str, ...]
    argument: str = ""
    act: Callable[[Page], None] | None = None


def allow(page: Page) -> None:
    page.get_by_role("textbox", name="Prompt").evaluate("e => e.blur()")
    page.wait_for_selector("#question.quiet-now", timeout=PATIENCE)
    page.keyboard.press("y")


def stop_at(selector: str, text: str) -> Callable[[Page], None]:
    """Press Stop when this is to be seen."""

    def act(page: Page) -> None:
        expect(page.locator(selector).last).to_contain_text(text, timeout=PATIENCE)
        page.get_by_role("button", name="Stop").click()

    return act


AS_FAR = "This is as far as I get."
TABLE: Final = {
    "noise": Expected(("After a title, between log lines, in a batch of two.",)),
    "stream": Expected(("let me think", "one two three four five")),
    "tools": Expected(("Edit demo.txt", "+new", "Say hello", "hello", "done")),
    "permission": Expected(("permission allowed: Allow once", "outcome: a1"), act=allow),
    "slow-permission": Expected(("Cancelled by",), act=stop_at("#question", "Run make")),
    "slow": Expected(("tick tick", "Cancelled by"), act=stop_at("#conversation", "tick tick")),
    "error": Expected(("boom",)),
    "echo": Expected(("echo: what I say",), " what I say"),
    "update-first": Expected(("half of them: 21", "all of them: 42")),
    "call-twice": Expected(("Read notes.txt", "buy milk")),
    "permission-first": Expected(("Delete the build", "delete, completed"), act=allow),
    "string-output": Expected(("42 files, 3 of them new",)),
    "unknown": Expected(
        ("_demo_forecast", '"sky": "clear"', "_demo_hologram", "_demo_smell", "zzz")
    ),
    "no-ids": Expected(("One message, in two pieces.", "Another message.")),
    "whole-copy": Expected(("Piece by piece, and then all at once.",)),
    "user-echo": Expected(("That is what you said.",)),
    "interleaved": Expected(("The first message goes on after the second.",)),
    "early-update": Expected(("before its response.",)),
    "late-updates": Expected((", and I go on.", "Tidy up", "completed")),
    "after-cancel": Expected(
        ("I am almost done.", "Cancelled by"), act=stop_at("#conversation", "Cancel me.")
    ),
    "flood": Expected(("2998 2999",), " 3000"),
    "big-line": Expected(("0123456789abcdef",), " 1"),
    "stderr": Expected(("There is 1 MiB more on standard error now.",)),
    "max-tokens": Expected((AS_FAR, "token")),
    "max-turn-requests": Expected((AS_FAR, "request")),
    "refusal": Expected((AS_FAR, "refused")),
    "auth": Expected(("From now on, a new session needs a login.",)),
}
ELSEWHERE: Final = {
    "showcase": "to the letter in test_page_walk.py",
    "crash": "ends the agent, so it has a test of its own below",
    "ignore-cancel": "never ends while the client is there",
    "silent": "never ends while the client is there",
}

SHOWS: Final = """([prompt, texts]) => {
  const places = [...document.querySelectorAll("#conversation .place")];
  const at = places.findLastIndex((each) => each.querySelector(".message.user"));
  if (at >= 0 && !places[at].textContent.includes(prompt)) return false;
  const shown = places.slice(Math.max(at, 0)).map((each) => each.textContent).join("\\n");
  return texts.every((each) => shown.includes(each));
}"""
"""Whether the last turn is this prompt's, which may be far above its end, and shows these texts."""


@pytest.fixture(scope="module", params=["1", "2"])
def watched(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """A page of one version; what is high enough shows a whole turn."""
    command = (sys.executable, "-m", "twofold", "agent", "--speed", "0", "--version", request.param)
    work: Path = tmp_path_factory.mktemp("work")
    options = ("--version", request.param, "--cwd", str(work))
    with serving(tmp_path_factory.mktemp("state"), *command, options=options) as served:
        made = Watched(browser, served.url.rstrip("/"), size=(1280, 2400))
        try:
            made.page.set_default_timeout(PATIENCE)
            made.page.goto(served.entry)
            expect(made.page.locator("#send")).to_be_enabled(timeout=PATIENCE)
            yield made
        finally:
            made.context.close()


def play(page: Page, name: str) -> None:
    prompt = page.get_by_role("textbox", name="Prompt")
    prompt.fill(f"/{name}{TABLE[name].argument if name in TABLE else ''}")
    page.locator("#send").click()  # for a second after an answer Enter sends nothing
    expect(prompt).to_have_value("")


def test_every_scenario_has_its_place() -> None:
    assert {*TABLE, *ELSEWHERE} == SCENARIOS.keys()


@pytest.mark.parametrize("name", TABLE)
def test_the_page_is_well_after_a_scenario(watched: Watched, name: str) -> None:
    page = watched.page
    play(page, name)
    expected = TABLE[name]
    if expected.act is not None:
        expected.act(page)
    page.wait_for_function(SHOWS, arg=[f"/{name}", list(expected.texts)], timeout=PATIENCE)
    is_well(watched)


def test_an_agent_that_ended_is_started_again(watched: Watched) -> None:
    page = watched.page
    page.get_by_role("button", name="New session").click()
    page.locator("#new-session").get_by_role("button", name="Start").click()
    expect(page.locator("#new-session")).to_be_hidden()
    expect(page.locator("#empty")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#send")).to_be_enabled(timeout=PATIENCE)
    play(page, "crash")
    failure = page.locator("#failure")
    expect(failure).to_contain_text("ended with exit code 3", timeout=PATIENCE)
    expect(failure).to_contain_text("divided by zero, as it was asked to")
    expect(page.locator("#state")).to_have_class("state failed")
    expect(page.locator(".call")).to_contain_text("not finished")
    expect(page.locator("#stop")).to_be_hidden()
    failure.get_by_role("button", name="Start the agent again").click()
    expect(page.locator("#send")).to_be_enabled(timeout=PATIENCE)
    play(page, "echo")
    page.wait_for_function(SHOWS, arg=["/echo", ["echo: what I say"]], timeout=PATIENCE)
    is_well(watched)


def is_well(watched: Watched) -> None:
    """Nothing waits any more, and the page reports nothing of its own."""
    page = watched.page
    expect(page.locator("#state")).to_have_text("ready", timeout=PATIENCE)
    for left in ("#stop", "#question", "#queue", "#failure", "#connection"):
        expect(page.locator(left)).to_be_hidden()
    for status in ("pending", "in_progress", "waiting", "cancelling"):
        expect(page.locator(f".call.{status}")).to_have_count(0)
    assert page.get_by_text("[unknown block").count() == 0
    watched.check()
