"""What a session costs in the browser, beside a page that renders Markdown with `marked`.

Frames are those of `requestAnimationFrame` in Chromium, which is driven without a screen.
"""

import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from playwright.sync_api import Browser, Page, expect

from benchmarks.peers import why
from benchmarks.table import Amount, Missing, Row, Target, Topic
from benchmarks.terminal_peers.streams import CHUNKS, prose, write
from tests.peers import install
from tests.support.browser import DESKTOP, launched
from tests.support.page_blocks import agent, paragraph, text_item, tool_call
from tests.support.page_server import PageServer
from tests.support.served import serving

ENTRIES: Final = 100_000
LIMIT: Final = 60.0
"""How many seconds a page has for a stream."""
LEAST_TASK: Final = 0.05
"""Seconds from which on a browser reports a task."""
_FRAMES: Final = Path(__file__).parent / "page_peers" / "frames.js"
_PASSES: Final = 3
_STREAMING: Final = (sys.executable, "-m", "benchmarks.terminal_peers.agent")
_LOADS: Final = 7
_SCROLLED: Final = 600
"""Frames that are scrolled."""
_STEP: Final = 120
"""Pixels a frame: so far goes a notch of a wheel."""


class Shown(NamedTuple):
    """What a page did with a stream."""

    frames: list[float]
    """Seconds that each frame was shown."""
    longest_task: float
    """0 if no task was long enough to be reported."""
    seconds: float
    chunks: int


class Long(NamedTuple):
    """What a page did with a long session."""

    paints: list[float]
    frames: list[float]
    elements: int


def measure() -> Topic:
    """Streams into the page and into the other one, then a long session."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        return Topic("page", "not measured: there is no command chromium", [])
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        numbers, words = Path(folder, "numbers.jsonl"), Path(folder, "words.jsonl")
        write(numbers, (f"{number} " for number in range(CHUNKS)))
        write(words, prose(CHUNKS))
        state = Path(folder, "state")
        state.mkdir()
        ours = {
            "numbers": _served(browser, state, "/flood"),
            "prose": _served(browser, state, str(words), *_STREAMING),
        }
        theirs = {
            name: _rendered(browser, path)
            for name, path in (("numbers", numbers), ("prose", words))
        }
        long = _long(browser)
        return Topic("page", _how(browser.version, ours, long), _rows(ours, theirs, long))


# ---- a stream --------------------------------------------------------------------------------


_SEND: Final = """async (limit) => {
  document.getElementById("send").click();
  return await bench.frames(() => document.querySelector("#conversation .remark.turn"), limit);
}"""
_RENDER: Final = """async ([chunks, limit]) => {
  start(limit);
  const found = await bench.frames(() => window.isOver || window.chunks >= chunks, limit);
  return {...found, chunks: window.chunks};
}"""


def _served(browser: Browser, state: Path, prompt: str, *agent: str) -> Shown:
    """The turns of several sessions, each of a server of its own."""
    turns = []
    for _ in range(_PASSES):
        with serving(state, *agent) as served, _opened(browser, served.entry) as page:
            expect(page.locator("#send")).to_be_enabled(timeout=30_000)
            page.locator("#prompt").fill(prompt)
            turns.append(page.evaluate(_SEND, 1000 * LIMIT))
    frames = [seconds for turn in turns for seconds in _seconds(turn["shown"])]
    tasks = [seconds for turn in turns for seconds in _seconds(turn["tasks"])]
    took = median(_seconds([turn["took"] for turn in turns]))
    return Shown(frames, max(tasks, default=0.0), took, CHUNKS)


def _rendered(browser: Browser, stream: Path) -> Shown | Missing:
    try:
        marked = install.marked()
    except install.Unavailable as error:
        return why(error)
    command = [sys.executable, "-m", "benchmarks.page_peers.marked_server"]
    with subprocess.Popen(
        [*command, str(marked), str(stream)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            with _opened(browser, server.stdout.readline().strip()) as page:
                page.wait_for_function("() => window.start !== undefined")
                page.set_default_timeout(0)
                turn = page.evaluate(_RENDER, [CHUNKS, 1000 * LIMIT])
        finally:
            server.terminate()
    tasks = _seconds(turn["tasks"])
    took = turn["took"] / 1000
    return Shown(_seconds(turn["shown"]), max(tasks, default=0.0), took, turn["chunks"])


# ---- a long session --------------------------------------------------------------------------


_SCROLL: Final = """async ([frames, step]) => {
  const conversation = document.getElementById("conversation");
  let elements = 0;
  let count = 0;
  const found = await bench.frames(() => count >= frames, 60_000, () => {
    count += 1;
    elements = Math.max(elements, document.querySelectorAll("*").length);
    conversation.scrollBy(0, -step);
  });
  return {...found, elements};
}"""


def _long(browser: Browser) -> Long:
    paints, shown, elements = [], [], 0
    with PageServer().serving() as server:
        session = server.add()
        session.seq = 1
        session.blocks = [(f"entry:{at}", 1, _block(at)) for at in range(ENTRIES)]
        for number in range(_LOADS):
            with _opened(browser, server.url) as page:
                page.wait_for_function("() => bench.painted !== null")
                paints.append(page.evaluate("bench.painted - bench.data") / 1000)
                if number < _PASSES:
                    found = page.evaluate(_SCROLL, [_SCROLLED, _STEP])
                    shown += _seconds(found["shown"])
                    elements = max(elements, found["elements"])
    return Long(paints, shown, elements)


def _block(number: int) -> Any:
    if number % 7 == 3:
        return tool_call(f"Call {number}", text_item("\n".join(["out"] * (number % 5 + 1))))
    return agent(paragraph(f"Message {number}. " + "Some words. " * (number % 23)))


# ---- the browser -----------------------------------------------------------------------------


@contextmanager
def _opened(browser: Browser, url: str) -> Iterator[Page]:
    """A page in a profile of its own, which measures itself."""
    width, height = DESKTOP
    context = browser.new_context(viewport={"width": width, "height": height})
    try:
        context.add_init_script(path=_FRAMES)
        page = context.new_page()
        page.goto(url)
        yield page
    finally:
        context.close()


def _seconds(milliseconds: list[float]) -> list[float]:
    return [each / 1000 for each in milliseconds]


def share(times: list[float], percent: float) -> float:
    """The time that so many per cent of them do not exceed."""
    return sorted(times)[math.ceil(len(times) * percent / 100) - 1]


# ---- the table -------------------------------------------------------------------------------


_MOST_FRAME: Final = Target("≤ 20 ms", 0.02, "unit")
_MOST_TASK: Final = Target("≤ 50 ms", LEAST_TASK, "unit")


def _rows(ours: dict[str, Shown], theirs: dict[str, Shown | Missing], long: Long) -> list[Row]:
    rows = []
    for name, shown in ours.items():
        what, other = f"page: {CHUNKS:,} chunks of {name}", theirs[name]
        rows += [
            _beside(f"{what}, frame p95", shown, other, lambda each: _frame(each, 95), _MOST_FRAME),
            _beside(f"{what}, frame p99", shown, other, lambda each: _frame(each, 99)),
            _beside(f"{what}, longest task", shown, other, _task, _MOST_TASK),
            _beside(f"{what}, until the end", shown, other, lambda each: Amount(each.seconds)),
        ]
    what = f"page: {ENTRIES:,} entries"
    paint, frame = Amount(median(long.paints)), Amount(share(long.frames, 99))
    return [
        *rows,
        Row(f"{what}, first paint", paint, target=Target("≤ 300 ms", 0.3, "unit")),
        Row(f"{what}, scroll frame p99", frame, target=_MOST_FRAME),
        Row(f"{what}, elements", Amount(long.elements, ""), target=Target("< 500", 499, "unit")),
    ]


def _beside(
    what: str,
    ours: Shown,
    theirs: Shown | Missing,
    figure: Callable[[Shown], Amount],
    target: Target | None = None,
) -> Row:
    if isinstance(theirs, Missing):
        return Row(what, figure(ours), None, theirs, target)
    shown = theirs.chunks / CHUNKS
    whose = "marked" if shown >= 1 else f"marked, stopped at {shown:.0%}"
    return Row(what, figure(ours), None, figure(theirs)._replace(whose=whose), target)


def _frame(shown: Shown, percent: float) -> Amount:
    return Amount(share(shown.frames, percent))


def _task(shown: Shown) -> Amount:
    longest = shown.longest_task
    return Amount(longest) if longest else Amount(LEAST_TASK, whose="or less")


def _how(version: str, ours: dict[str, Shown], long: Long) -> str:
    counted = ", ".join(f"{name} {len(shown.frames)}" for name, shown in ours.items())
    least, most = 1000 * min(long.paints), 1000 * max(long.paints)
    width, height = DESKTOP
    return (
        f"wall time in Chromium {version} without a screen and without a GPU, {width} by {height} "
        "pixels. A frame is the time between two calls of `requestAnimationFrame`. Numbers: "
        "`twofold serve` with the demo agent's `/flood`, one paragraph without an end; prose: "
        f"with an agent that sends the text of the topic terminal. {_PASSES} turns each in fresh "
        f"pages, their frames together ({counted}), from the click on “Send” until the turn has "
        "ended; the longest task of all of them. A browser reports only tasks of more than 50 ms. "
        f"In the column of the SDK: a page with {install.MARKED}, which is sent the same chunks, "
        "each a message of a WebSocket, and renders the whole text after each, scrolled to its "
        f"end; stopped after {LIMIT:g} s. Entries: a played server; from the arrival of the answer "
        "to `open` until the first block has been painted, the request for the window at the end "
        f"included, the median of {_LOADS} loads ({least:.0f} to {most:.0f} ms); then {_SCROLLED} "
        f"frames in {_PASSES} pages that each scroll up by {_STEP} pixels; the most elements that "
        "the page had meanwhile."
    )
