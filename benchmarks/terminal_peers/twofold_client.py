"""The client of Twofold: `python -m benchmarks.terminal_peers.twofold_client STREAM`.

The real one, from the agent's pipe to the terminal, which leaves after one turn. STREAM may be
`calls N` or `paced N` as well (see `agent`), or `idle SECONDS`: then it waits at its prompt, and
tells how much processor time that took. With `--typed` there is text in the input line meanwhile.
It needs a terminal (see `in_terminal`).
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.terminal_peers.report import Clock, told
from twofold.client.launch import Launch
from twofold.client.prompt_blocks import Part
from twofold.policy import Policy
from twofold.term import client, session_switcher
from twofold.term.lines import Row
from twofold.term.open_session import OpenSession
from twofold.term.run_options import RunOptions
from twofold.term.session_display import SessionDisplay

AGENT = [sys.executable, "-m", "benchmarks.terminal_peers.agent"]


TYPED = (
    "and when that is done, run the tests again\nand list what is still slow in the client, please"
)


class Measured(OpenSession):
    """Says how long a turn took, and how often was drawn meanwhile."""

    clock: Clock
    redraws = 0
    draw_seconds = 0.0
    typed = ""

    async def run(self, start: str | None = None) -> None:
        self._editor.put(self.typed)
        await super().run(start)

    async def _turn(self, words: str, parts: Sequence[Part]) -> None:
        before = self.display.frames
        Measured.clock = Clock()
        Measured.draw_seconds = 0.0
        await super()._turn(words, parts)
        Measured.clock.stop()
        Measured.redraws = self.display.frames - before


def _measured_draw(display: SessionDisplay, printed: Sequence[Row] = ()) -> None:
    began = time.process_time()
    _draw(display, printed)
    Measured.draw_seconds += time.process_time() - began


_draw = SessionDisplay._draw


def main() -> None:
    """Have one turn, or none, and report."""
    arguments = argparse.ArgumentParser(prog="twofold")
    arguments.add_argument("stream")
    arguments.add_argument("--report", type=Path)
    arguments.add_argument("--typed", action="store_true")
    given = arguments.parse_args()
    Measured.typed = TYPED if given.typed else ""
    SessionDisplay._draw = _measured_draw  # type: ignore[method-assign, assignment]
    setattr(session_switcher, "OpenSession", Measured)  # noqa: B010  # its type is meant to be fixed
    idle = float(given.stream.removeprefix("idle ")) if given.stream.startswith("idle ") else None
    asyncio.run(_idle(idle) if idle is not None else _turn(given.stream))
    told(
        "twofold",
        Measured.clock,
        Measured.redraws,
        given.report,
        draw_seconds=Measured.draw_seconds,
    )


async def _turn(stream: str) -> None:
    async def leave(conversation: OpenSession) -> None:
        return None

    OpenSession._next = leave  # type: ignore[method-assign, assignment]
    await _interact(stream)


async def _idle(seconds: float) -> None:
    async def wait(conversation: OpenSession) -> None:
        await asyncio.sleep(1)  # until the input line is drawn
        Measured.clock = Clock()
        await asyncio.sleep(seconds)
        Measured.clock.stop()

    OpenSession._next = wait  # type: ignore[method-assign, assignment]
    await _interact(None)


async def _interact(start: str | None) -> None:
    wanted = RunOptions(command=AGENT, policy=Policy(), cwd=Path.cwd(), start=start)
    status = await client.interact(wanted, Launch(AGENT))
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    main()
