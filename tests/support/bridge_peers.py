"""Peers that send what a test makes them send, on both sides of a bridge, over memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, ParamSpec

from twofold.bridge import Bridge
from twofold.transport.memory import MemoryTransport, memory_pair

Json = dict[str, Any]
P = ParamSpec("P")
Version = Literal[1, 2]

HELLO: dict[Version, Json] = {
    1: {
        "protocolVersion": 1,
        "clientInfo": {"name": "raw", "version": "1"},
        "clientCapabilities": {
            "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}}
        },
    },
    2: {"protocolVersion": 2, "info": {"name": "raw", "version": "1"}, "capabilities": {}},
}
HELLO_BACK: dict[Version, Json] = {
    1: {
        "protocolVersion": 1,
        "agentInfo": {"name": "raw", "version": "1"},
        "agentCapabilities": {
            "loadSession": True,
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
    },
    2: {
        "protocolVersion": 2,
        "info": {"name": "raw", "version": "1"},
        "capabilities": {"session": {"prompt": {}, "delete": {}}},
    },
}


class Refused(Exception):
    """A request was answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Raw:
    """One end of a connection (`Receiver`)."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self.messages: list[Json] = []
        """All that came, in order."""
        self.on_request: Callable[[Json], None] | None = None
        """If set, what is done with a request that comes."""
        self.ended_ = asyncio.Event()
        self._looked_at = 0
        self._rest = b""
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._changed = asyncio.Event()
        transport.start(self)

    # ---- what comes

    def received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.messages.append(message)
            if "method" not in message:
                future = self._asked.pop(message["id"])
                if "error" in message:
                    future.set_exception(Refused(message["error"]))
                else:
                    future.set_result(message["result"])
            elif "id" in message and self.on_request is not None:
                self.on_request(message)
        self._changed.set()

    def ended(self, error: Exception | None) -> None:
        self.ended_.set()
        for future in self._asked.values():
            future.cancel()
        self._changed.set()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that follows from what comes here."""
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def has(self, method: str) -> bool:
        """Whether there is a message of this method that was not looked at yet."""
        return any(each.get("method") == method for each in self.messages[self._looked_at :])

    async def receive(self, method: str) -> Json:
        """The next message of this method that was not looked at yet."""
        await self.until(lambda: self.has(method))
        while True:
            self._looked_at += 1
            if self.messages[self._looked_at - 1].get("method") == method:
                return self.messages[self._looked_at - 1]

    def updates(self) -> list[Json]:
        """The session updates that came."""
        notes = [each for each in self.messages if each.get("method") == "session/update"]
        return [each["params"]["update"] for each in notes]

    # ---- what is sent

    def send(self, **message: Any) -> None:
        self.transport.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def notify(self, method: str, params: Json) -> None:
        self.send(method=method, params=params)

    def update(self, update: Json, session: str = "s") -> None:
        self.notify("session/update", {"sessionId": session, "update": update})

    def answer(self, request: Json, result: Any) -> None:
        self.send(id=request["id"], result=result)

    async def ask(self, method: str, params: Json) -> Any:
        """The result; raises `Refused`."""
        identity = 1000 + len(self.messages) + len(self._asked)
        while identity in self._asked:
            identity += 1
        future = self._asked[identity] = asyncio.get_running_loop().create_future()
        self.send(id=identity, method=method, params=params)
        async with asyncio.timeout(10):
            return await future


@asynccontextmanager
async def bridged(
    client_version: Version, agent_version: Version, **options: Any
) -> AsyncIterator[tuple[Raw, Raw, Bridge]]:
    """A client and an agent that have introduced themselves to each other."""
    (client_end, front), (back, agent_end) = memory_pair(), memory_pair()
    bridge = Bridge(front, back, **options)
    running = asyncio.create_task(bridge.run())
    client, agent = Raw(client_end), Raw(agent_end)
    try:
        hello = asyncio.create_task(client.ask("initialize", HELLO[client_version]))
        while not hello.done():  # a bridge may ask twice
            if agent.has("initialize"):
                agent.answer(await agent.receive("initialize"), HELLO_BACK[agent_version])
            await asyncio.sleep(0)
        await hello
        yield client, agent, bridge
    finally:
        await client_end.close()
        async with asyncio.timeout(10):
            await running
        await agent_end.close()


async def new_session(client: Raw, agent: Raw, session: str = "s", **params: Any) -> None:
    """A session that both sides know."""
    params = {"cwd": "/", "mcpServers": [], **params}
    asking = asyncio.create_task(client.ask("session/new", params))
    agent.answer(await agent.receive("session/new"), {"sessionId": session})
    await asking
