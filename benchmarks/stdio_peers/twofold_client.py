"""A client written with Twofold.

python -m benchmarks.stdio_peers.twofold_client 1|2 JOB
"""

import asyncio
import sys
from typing import Literal, cast

import twofold
from benchmarks.stdio_peers.job import Job, carry_out

AGENT = [sys.executable, "-m", "benchmarks.stdio_peers.twofold_agent"]


async def main() -> None:
    """Do the job with an agent of its own."""
    version = cast("Literal[1, 2]", int(sys.argv[1]))
    async with twofold.connect(AGENT, version=version) as client:
        session = await client.new_session("/")

        async def turn(prompt: str) -> str:
            await session.prompt(prompt)
            message = session.state.entries[-1]
            assert isinstance(message, twofold.Message)
            return message.text

        await carry_out(Job.read(), lambda: client.request("_ping", {}), turn)


if __name__ == "__main__":
    asyncio.run(main())
