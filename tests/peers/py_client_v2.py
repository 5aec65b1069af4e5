"""A client of protocol version 2, made with the official Python SDK 1.0.0rc3.

    python py_client_v2.py -- COMMAND ARGS… | URL

By an interpreter that has the SDK. The steps it takes with COMMAND as its agent are in
`README.md`; the `message` of a failed turn is always null, for this SDK drops the error of
an idle update.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from acp.experimental import v2
from acp.experimental.v2 import schema
from acp.transports import spawn_stdio_transport

if TYPE_CHECKING:
    from tests.peers import py_script as script
    from tests.peers import py_sights as sights
else:  # a plain script, whose folder is on the path
    import py_script as script
    import py_sights as sights

# the default of the streams is 64 KiB, which kills the connection
LINE_LIMIT = 50 * 1024 * 1024


def json_of(model: Any) -> script.Json:
    """In this version null is not absence."""
    dumped: script.Json = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dumped


class Client(script.Client):
    """The SDK's client: its handlers, and its calls."""

    version = 2

    def __init__(self) -> None:
        super().__init__()
        self._mode_option: str | None = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.saw(json_of(update))

    async def request_permission(
        self, session_id: str, title: str, options: list[Any], subject: Any = None, **_: Any
    ) -> Any:
        call = getattr(subject, "tool_call", None)
        chosen = await self.decide(title, call and json_of(call), options)
        if chosen is None:
            outcome = schema.CancelledPermissionOutcome()
        else:
            outcome = schema.SelectedPermissionOutcomeVariant(option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def initialize(self) -> script.Json:
        answer = await self.connection.initialize(
            protocol_version=v2.PROTOCOL_VERSION,
            info=schema.Implementation(name="py-client-v2", version="1.0.0rc3"),
        )
        session = json_of(answer).get("capabilities", {}).get("session")
        if session is not None:
            self.offers = {"load", "list", "resume", "close"}
        if session and session.get("delete") is not None:
            self.offers.add("delete")
        return {
            "version": answer.protocol_version,
            "info": {"name": answer.info.name, "version": answer.info.version},
            "auth": [method.method_id for method in answer.auth_methods or []],
        }

    async def new(self, cwd: str) -> script.Json:
        answer = await self.connection.new_session(cwd=cwd)
        self.session = answer.session_id
        facts = json_of(answer)
        option = sights.mode_option(facts.get("configOptions"))
        self._mode_option = option["configId"] if option else None
        return facts

    async def prompt(self, text: str) -> script.Ending:
        mark = len(self.updates)
        block = schema.TextContentBlock(text=text)
        await self.connection.prompt(session_id=self.session, prompt=[block])
        await self.until(lambda: self._idle_after_running(mark))
        at = self._idle_after_running(mark)
        return script.Ending(self.updates[at - 1].get("stopReason"), at)

    def _idle_after_running(self, mark: int) -> int:
        """How many updates had come when the turn ended; 0 while it has not."""
        running = False
        for at, update in enumerate(self.updates[mark:], mark + 1):
            running = running or update.get("state") == "running"
            if running and update.get("state") == "idle":
                return at
        return 0

    async def cancel(self) -> None:
        await self.connection.cancel_session(session_id=self.session)

    async def set_mode(self, mode: str) -> None:
        await self.connection.set_config_option(
            session_id=self.session, config_id=self._mode_option, value=mode
        )

    async def list_page(self, cursor: str | None) -> tuple[list[str], str | None]:
        page = await self.connection.list_sessions(cursor=cursor)
        return [each.session_id for each in page.sessions], page.next_cursor

    async def replay(self, cwd: str) -> script.Json:
        start = schema.ReplayFromStartVariant()
        answer = await self.connection.resume_session(
            session_id=self.session, cwd=cwd, replay_from=start
        )
        return json_of(answer)

    async def resume(self, cwd: str) -> None:
        await self.connection.resume_session(session_id=self.session, cwd=cwd)

    async def close(self) -> None:
        await self.connection.close_session(session_id=self.session)

    async def delete(self) -> None:
        await self.connection.delete_session(session_id=self.session)


async def main() -> None:
    client, command = Client(), script.agent_command()
    if script.is_url(command):
        transport = await script.remote_transport(command[0])
        connection = v2.connect_to_agent(client, transport, observers=[client.observe])
        client.on_connect(connection)
        await script.run(client)
        await connection.close()
        return
    # an undrained pipe would stop an agent that writes much to its stderr
    spawned = spawn_stdio_transport(*command, env=os.environ, stderr=None, limit=LINE_LIMIT)
    async with (
        spawned as (reader, writer, _),
        v2.connect_to_agent(client, writer, reader, observers=[client.observe]),
    ):
        await script.run(client)


if __name__ == "__main__":
    asyncio.run(main())
