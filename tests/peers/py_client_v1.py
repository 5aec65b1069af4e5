"""A client of protocol version 1, made with the official Python SDK 0.12.1 or 1.0.0rc3.

    python py_client_v1.py -- COMMAND ARGS… | URL

By an interpreter that has the SDK. The steps it takes with COMMAND as its agent are in
`README.md`; `deleted` is always null, for this SDK has no call for `session/delete`. A URL needs
1.0.0rc3.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any

import acp
from acp import schema

if TYPE_CHECKING:
    from tests.peers import py_script as script
    from tests.peers import py_sights as sights
else:  # a plain script, whose folder is on the path
    import py_script as script
    import py_sights as sights

# the default of the streams is 64 KiB, which kills the connection
LINE_LIMIT = 50 * 1024 * 1024


def json_of(model: Any) -> script.Json:
    """In this version null means the same as absence."""
    dumped: script.Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


class Client(script.Client):
    """The SDK's client: its handlers, and its calls."""

    version = 1

    def __init__(self) -> None:
        super().__init__()
        self._mode_option: str | None = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.saw(json_of(update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        chosen = await self.decide(tool_call.title, json_of(tool_call), options)
        if chosen is None:
            outcome = schema.DeniedOutcome(outcome="cancelled")
        else:
            outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def initialize(self) -> script.Json:
        answer = await self.connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_info=schema.Implementation(name="py-client-v1", version="0.12.1"),
        )
        capabilities = answer.agent_capabilities or schema.AgentCapabilities()
        self.offers = set(json_of(capabilities).get("sessionCapabilities", {})) - {"delete"}
        if capabilities.load_session:
            self.offers.add("load")
        info = answer.agent_info
        return {
            "version": answer.protocol_version,
            "info": info and {"name": info.name, "version": info.version},
            "auth": [method.id for method in answer.auth_methods or []],
        }

    async def new(self, cwd: str) -> script.Json:
        answer = await self.connection.new_session(cwd=cwd)
        self.session = answer.session_id
        facts = json_of(answer)
        option = sights.mode_option(facts.get("configOptions"))
        if option is not None and "modes" not in facts:
            self._mode_option = option["id"]
        return facts

    async def prompt(self, text: str) -> script.Ending:
        answer = await self.connection.prompt(
            session_id=self.session, prompt=[schema.TextContentBlock(type="text", text=text)]
        )
        return script.Ending(answer.stop_reason, len(self.updates))

    async def cancel(self) -> None:
        await self.connection.cancel(session_id=self.session)

    async def set_mode(self, mode: str) -> None:
        if self._mode_option is None:
            await self.connection.set_session_mode(session_id=self.session, mode_id=mode)
        else:
            await self.connection.set_config_option(
                session_id=self.session, config_id=self._mode_option, value=mode
            )

    async def list_page(self, cursor: str | None) -> tuple[list[str], str | None]:
        page = await self.connection.list_sessions(cursor=cursor)
        return [each.session_id for each in page.sessions], page.next_cursor

    async def replay(self, cwd: str) -> script.Json:
        return json_of(await self.connection.load_session(session_id=self.session, cwd=cwd))

    async def resume(self, cwd: str) -> None:
        await self.connection.resume_session(session_id=self.session, cwd=cwd)

    async def close(self) -> None:
        await self.connection.close_session(session_id=self.session)

    async def delete(self) -> None:
        raise NotImplementedError("SDK 0.12.1 has no call for session/delete")


async def main() -> None:
    client, command = Client(), script.agent_command()
    if script.is_url(command):
        transport = await script.remote_transport(command[0])
        connection = acp.connect_to_agent(client, transport, observers=[client.observe])
        client.on_connect(connection)
        await script.run(client)
        await connection.close()
        return
    spawned = acp.spawn_agent_process(
        client,
        *command,
        env=os.environ,
        # an undrained pipe would stop an agent that writes much to its stderr
        transport_kwargs={"stderr": None, "limit": LINE_LIMIT},
        observers=[client.observe],
    )
    async with spawned:
        await script.run(client)


if __name__ == "__main__":
    asyncio.run(main())
