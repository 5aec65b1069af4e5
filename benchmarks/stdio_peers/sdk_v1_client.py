"""A client written with the official Python SDK, version 1 of the protocol."""

import asyncio
import sys
from typing import Any

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block

from benchmarks.stdio_peers.job import Job, carry_out

AGENT = [sys.executable, "-m", "benchmarks.stdio_peers.sdk_v1_agent"]


class BenchClient(Client):  # type: ignore[misc]  # the SDK is not installed where this is checked
    """Appends the text of every chunk."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.texts.append(update.content.text)


async def main() -> None:
    """Do the job with an agent of its own."""
    client = BenchClient()
    async with spawn_agent_process(client, *AGENT) as (connection, _):
        await connection.initialize(protocol_version=PROTOCOL_VERSION)
        session = await connection.new_session(cwd="/", mcp_servers=[])

        async def turn(prompt: str) -> str:
            client.texts.clear()
            # it returns when the updates before its answer are handled
            await connection.prompt(session_id=session.session_id, prompt=[text_block(prompt)])
            return "".join(client.texts)

        await carry_out(Job.read(), lambda: connection.ext_method("ping", {}), turn)


if __name__ == "__main__":
    asyncio.run(main())
