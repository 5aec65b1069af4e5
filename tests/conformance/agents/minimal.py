"""An agent of ours with nothing that is optional: `minimal.py [VERSION]`.

It answers every prompt with two words; the prompt `slow` it answers when it is cancelled.
"""

import asyncio
import sys
from typing import Literal

import twofold

VERSIONS: dict[str, tuple[Literal[1, 2], ...]] = {"1": (1,), "2": (2,)}


async def answer(turn: twofold.Turn) -> None:
    await turn.say("Hello, ")
    await turn.say("world.")
    if turn.text == "slow":
        await asyncio.Event().wait()


if __name__ == "__main__":
    versions = VERSIONS[sys.argv[1]] if len(sys.argv) > 1 else (1, 2)
    agent = twofold.Agent("minimal", "1", prompts=(), protocol_versions=versions)
    agent.on_prompt(answer)
    agent.run()
