"""What `/verbose` shows, and that it is bounded."""

import asyncio
from collections.abc import Sequence

from tests.support.idle_clock import simulated
from twofold.peer.problems import Problem
from twofold.term.diagnosis import EVERY, LONGEST, MOST, Diagnosis
from twofold.term.lines import Line, all_rows, plain


class Shown:
    """What was shown, row by row, and how often."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.times = 0

    def show(self, lines: Sequence[Line]) -> None:
        self.rows += [plain(row) for row in all_rows(lines, None)]
        self.times += 1


@simulated
async def test_stderr_problems_and_losses_are_shown_together() -> None:
    diagnosis, shown = Diagnosis(on=True), Shown()
    diagnosis.show_with(shown.show)
    diagnosis.add_stderr(b"\x1b[31mstarting\x1b[0m\nhalf a ")
    diagnosis.add_problem(Problem("loss", "no image"))
    diagnosis.add_problem(Problem("noise", "not JSON"))
    diagnosis.add_stderr(b"line\n")
    assert shown.rows == []
    await asyncio.sleep(2 * EVERY)
    assert shown.rows == [
        "[stderr] starting",
        "[loss] no image",
        "! not JSON",
        "[stderr] half a line",
    ]
    assert shown.times == 1


@simulated
async def test_nothing_is_shown_while_it_is_off() -> None:
    diagnosis, shown = Diagnosis(), Shown()
    diagnosis.show_with(shown.show)
    diagnosis.add_stderr(b"one\n")
    diagnosis.add_problem(Problem("noise", "not JSON"))
    diagnosis.on = True
    diagnosis.add_stderr(b"two\n")
    await asyncio.sleep(2 * EVERY)
    assert shown.rows == ["[stderr] two"]


@simulated
async def test_what_was_written_before_there_is_a_screen_is_kept() -> None:
    diagnosis, shown = Diagnosis(on=True), Shown()
    diagnosis.add_stderr(b"early\n")
    await asyncio.sleep(2 * EVERY)
    diagnosis.show_with(shown.show)
    await asyncio.sleep(2 * EVERY)
    assert shown.rows == ["[stderr] early"]
    diagnosis.add_stderr(b"late\n")
    diagnosis.close()
    await asyncio.sleep(2 * EVERY)
    assert shown.times == 1
    diagnosis.show_with(shown.show)
    await asyncio.sleep(2 * EVERY)
    assert shown.rows == ["[stderr] early", "[stderr] late"]


@simulated
async def test_of_a_flood_the_last_lines_are_shown_and_the_others_counted() -> None:
    for size in (1, 1000):  # bytes at once
        diagnosis, shown = Diagnosis(on=True), Shown()
        diagnosis.show_with(shown.show)
        flood = b"".join([b"%d\n" % number for number in range(MOST + 200)])
        for at in range(0, len(flood), size):
            diagnosis.add_stderr(flood[at : at + size])
        await asyncio.sleep(2 * EVERY)
        last = [f"[stderr] {number}" for number in range(200, MOST + 200)]
        assert shown.rows == ["… 200 lines not shown", *last]


@simulated
async def test_a_long_line_is_cut() -> None:
    diagnosis, shown = Diagnosis(on=True), Shown()
    diagnosis.show_with(shown.show)
    diagnosis.add_stderr(b"x" * 5000 + b"\n")
    await asyncio.sleep(2 * EVERY)
    assert shown.rows == [f"[stderr] {'x' * (LONGEST - 1)}…"]
