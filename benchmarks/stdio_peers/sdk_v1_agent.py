"""An agent written with the official Python SDK, version 1 of the protocol."""

import asyncio
from typing import Any

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    update_agent_message_text,
)

from benchmarks.stdio_peers.job import chunks


class BenchAgent(Agent):  # type: ignore[misc]  # the SDK is not installed where this is checked
    """Answers a prompt with the chunks it asks for."""

    def on_connect(self, conn: Any) -> None:
        self._conn = conn

    async def initialize(self, protocol_version: int, **rest: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **rest: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="sess_1")

    async def prompt(self, prompt: list[Any], session_id: str, **rest: Any) -> PromptResponse:
        for text in chunks(prompt[0].text):
            update = update_agent_message_text(text)
            await self._conn.session_update(session_id=session_id, update=update)
        return PromptResponse(stop_reason="end_turn")

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    asyncio.run(run_agent(BenchAgent()))
