"""An agent written with the official Python SDK, version 2 of the protocol."""

import asyncio
from typing import Any

from acp.experimental.v2 import PROTOCOL_VERSION, run_agent, schema

from benchmarks.stdio_peers.job import chunks


class BenchAgent:
    """Answers a prompt with the chunks it asks for."""

    def on_connect(self, connection: Any) -> None:
        self._connection = connection

    async def initialize(self, **rest: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            info=schema.Implementation(name="bench", version="1.0"),
            capabilities=schema.AgentCapabilities(session=schema.SessionCapabilities()),
        )

    async def new_session(self, cwd: str, **rest: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="sess_1")

    async def prompt(
        self, session_id: str, prompt: list[Any], **rest: Any
    ) -> schema.PromptResponse:
        self._work = asyncio.create_task(self._turn(session_id, prompt))
        return schema.PromptResponse(message_id="msg_user")

    async def handle_extension_request(self, method: str, params: Any) -> dict[str, Any]:
        return {}

    async def _turn(self, session_id: str, prompt: list[Any]) -> None:
        update = self._connection.session_update
        echo = schema.UserMessageUpdate(message_id="msg_user", content=prompt)
        await update(session_id=session_id, update=echo)
        running = schema.RunningSessionStateUpdate(state="running")
        await update(session_id=session_id, update=running)
        for text in chunks(prompt[0].text):
            content = schema.TextContentBlock(text=text)
            chunk = schema.AgentMessageChunk(message_id="msg_agent", content=content)
            await update(session_id=session_id, update=chunk)
        idle = schema.IdleSessionStateUpdate(state="idle", stop_reason="end_turn")
        await update(session_id=session_id, update=idle)


if __name__ == "__main__":
    asyncio.run(run_agent(BenchAgent()))
