"""A client written with the official Python SDK, version 2 of the protocol."""

import asyncio
import sys
from typing import Any

from acp.experimental.v2 import PROTOCOL_VERSION, connect_to_agent, schema
from acp.transports import spawn_stdio_transport

from benchmarks.stdio_peers.job import Job, carry_out

AGENT = [sys.executable, "-m", "benchmarks.stdio_peers.sdk_v2_agent"]


class BenchClient:
    """Appends the text of every chunk."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.idle = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.texts.append(update.content.text)
        elif update.session_update == "state_update" and update.state == "idle":
            self.idle.set()


async def main() -> None:
    """Do the job with an agent of its own."""
    client = BenchClient()
    async with (
        spawn_stdio_transport(*AGENT) as (reader, writer, _),
        connect_to_agent(client, writer, reader) as connection,
    ):
        info = schema.Implementation(name="bench", version="1.0")
        await connection.initialize(protocol_version=PROTOCOL_VERSION, info=info)
        session = await connection.new_session(cwd="/")

        async def turn(prompt: str) -> str:
            client.texts.clear()
            client.idle.clear()
            block = schema.TextContentBlock(text=prompt)
            await connection.prompt(session_id=session.session_id, prompt=[block])
            await client.idle.wait()
            return "".join(client.texts)

        await carry_out(Job.read(), lambda: connection.send_extension_request("_ping", {}), turn)


if __name__ == "__main__":
    asyncio.run(main())
