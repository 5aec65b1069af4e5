"""The client of Twofold: `python -m benchmarks.terminal_peers.twofold_client STREAM`.

The real one, from the agent's pipe to the terminal, which leaves after one turn. STREAM may be
`calls N` or `paced N` as well (see `agent`), or `idle SECONDS`: then it waits at its prompt, and
tells how much processor time that took. It needs a terminal (see `in_terminal`).
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.terminal_peers.report import Clock, told
from twofold.client.launch import Launch
from twofold.client.prompt_blocks import Part
from twofold.policy import Policy
from twofold.term import client
from twofold.term.client import Conversation
from twofold.term.input.prompt import Prompt
from twofold.term.run_options import RunOptions

AGENT = [sys.executable, "-m", "benchmarks.terminal_peers.agent"]


class Measured(Conversation):
    """Says how long a turn took, and how often was drawn meanwhile."""

    clock: Clock
    redraws = 0

    async def _turn(self, words: str, parts: Sequence[Part]) -> None:
        before = self._display.frames
        Measured.clock = Clock()
        await super()._turn(words, parts)
        Measured.clock.stop()
        Measured.redraws = self._display.frames - before


def main() -> None:
    """Have one turn, or none, and report."""
    arguments = argparse.ArgumentParser(prog="twofold")
    arguments.add_argument("stream")
    arguments.add_argument("--report", type=Path)
    given = arguments.parse_args()
    idle = float(given.stream.removeprefix("idle ")) if given.stream.startswith("idle ") else None
    asyncio.run(_idle(idle) if idle is not None else _turn(given.stream))
    told("twofold", Measured.clock, Measured.redraws, given.report)


async def _turn(stream: str) -> None:
    async def leave(prompt: Prompt, prefill: str = "") -> None:
        return None

    setattr(client, "Conversation", Measured)  # noqa: B010  # its type is meant to be fixed
    Prompt.ask = leave  # type: ignore[method-assign, assignment]
    await _interact(stream)


async def _idle(seconds: float) -> None:
    ask = Prompt.ask

    async def wait(prompt: Prompt, prefill: str = "") -> None:
        asked = asyncio.ensure_future(ask(prompt, prefill))
        await asyncio.sleep(1)  # until it is drawn
        Measured.clock = Clock()
        await asyncio.sleep(seconds)
        Measured.clock.stop()
        asked.cancel()

    Prompt.ask = wait  # type: ignore[method-assign, assignment]
    await _interact(None)


async def _interact(start: str | None) -> None:
    wanted = RunOptions(command=AGENT, policy=Policy(), cwd=Path.cwd(), start=start)
    status = await client.interact(wanted, Launch(AGENT))
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    main()
