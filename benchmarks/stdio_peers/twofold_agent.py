"""An agent written with Twofold; it speaks the version that the client asks for."""

from typing import Any

import twofold
from benchmarks.stdio_peers.job import chunks

agent = twofold.Agent("bench", version="1.0")


@agent.on_prompt
async def answer(turn: twofold.Turn) -> None:
    """The chunks that the prompt asks for."""
    for text in chunks(turn.text):
        await turn.say(text)


@agent.on_request("_ping")
async def ping(params: Any) -> dict[str, Any]:
    """Nothing, at once."""
    return {}


if __name__ == "__main__":
    agent.run()
