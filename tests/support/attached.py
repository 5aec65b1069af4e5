"""ACP clients of either version that are attached to one hosted session with scripted agents.

    async with attaching(1) as stage:
        anna = await stage.client(2, "Anna")
        await anna.attach()
        prompt = anna.prompt("hello", stage.session)

`stage.client` is a client whose every message a test sends; `stage.twofold` is Twofold's own
client, which folds what it is sent. Pages, and the agents, are as in `hosted`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.hosted import HostStage, hosting, until_soon
from tests.support.raw_agent import Answer
from tests.support.raw_client import Json, RawClient, Version, settled
from twofold.client.client import Client, connect
from twofold.client.permissions import Ask
from twofold.client.session import ClientSession
from twofold.host.acp_agent import AcpAgents, Visitor
from twofold.host.host import Host
from twofold.peer.problems import Problem
from twofold.session import Draft, Session, ToolCall
from twofold.transport.memory import memory_pair
from twofold.wire import codec, v2


class Attaching(RawClient):
    """A client of the host."""

    def __init__(self, version: Version, name: str, session: str) -> None:
        super().__init__(version)
        self.name = name
        self.session = session
        self.serving: asyncio.Task[None]

    async def initialize(self) -> Json:
        params: Json = {"protocolVersion": self.version}
        info = {"name": self.name, "version": "1"}
        if self.version == 1:
            params |= {"clientInfo": info, "clientCapabilities": {}}
        else:
            params |= {"info": info, "capabilities": {}}
        result: Json = await self.call("initialize", params)
        return result

    async def attach(self, *, replay: bool = True) -> Json:
        """Resume the session; returns the answer."""
        return await self.reply(self.load(self.session, replay=replay))

    def say(self, text: str) -> int:
        """Send a prompt."""
        return self.prompt(text, self.session)

    def choose(self, request: Json, option: str) -> None:
        """Answer a question."""
        self.answer(request, {"outcome": {"outcome": "selected", "optionId": option}})

    def shown(self) -> list[str]:
        """The kinds of the updates of the session so far."""
        return [each["sessionUpdate"] for each in self.updates(self.session)]

    def notices(self) -> list[str]:
        """The titles of the notices so far."""
        found = self.updates(self.session)
        return [each["title"] for each in found if each["sessionUpdate"] == "notice"]


class AttachStage:
    """A hosted session, its host, and the clients."""

    def __init__(self, stage: HostStage) -> None:
        self.stage = stage
        self.hosted = stage.hosted
        self.session = stage.hosted.id
        self.problems: list[Problem] = []
        self.host = Host(cwd="/")
        self.host._hosted[self.session] = stage.hosted
        self.agents = AcpAgents(self.host, self.problems.append)
        self.clients: list[Attaching] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._closing: list[Any] = []

    async def client(
        self, version: Version = 2, name: str = "Anna", *, controls: bool = True
    ) -> Attaching:
        """A client that is connected."""
        client = Attaching(version, name, self.session)
        visitor = Visitor("a program", controls)
        client.serving = asyncio.create_task(self.agents.serve(client, visitor, version=version))
        self._serving.add(client.serving)
        self.clients.append(client)
        await settled()
        await client.initialize()
        return client

    @asynccontextmanager
    async def twofold(
        self, version: Version = 2, *, ask: Ask | None = None, replay: bool = True
    ) -> AsyncIterator[tuple[Client, ClientSession]]:
        """Twofold's own client, attached."""
        ours, theirs = memory_pair()
        visitor = Visitor("a program", True)
        serving = asyncio.create_task(self.agents.serve(theirs, visitor, version=version))
        async with connect(ours, version=version, ask=ask) as client:
            open_session = client.load_session if replay else client.resume_session
            yield client, await open_session(self.session, "/")
        await serving

    async def leave(self) -> None:
        """Disconnect all clients."""
        for client in self.clients:
            client.leave()
        await asyncio.gather(*self._serving, return_exceptions=True)


@asynccontextmanager
async def attaching(
    speaks: int, answers: Mapping[str, Answer] | None = None, /, **options: Any
) -> AsyncIterator[AttachStage]:
    """A hosted session with clients; when it is left, nothing of them is."""
    others = asyncio.all_tasks()
    async with hosting(speaks, answers, cwd=Path("/"), **options) as stage:
        made = AttachStage(stage)
        try:
            yield made
        finally:
            await made.leave()
        assert not made.agents.clients
    await settled()
    left = asyncio.all_tasks() - others
    assert not left, f"left behind: {left}"


def folded(client: Attaching) -> Session:
    """What a client of version 2 has been sent, added up."""
    session = Session("", Draft.NOVEMBER)
    for update in client.updates(client.session):
        session.apply(codec.read(update, v2.SessionUpdate))
    return session


def shape(session: Session) -> dict[str, Any]:
    """What a session shows; without notices, which are live only and which the host adds to."""
    return {
        "entries": session.entries,
        "terminals": session.terminals,
        "plans": session.plans,
        "commands": session.commands_update,
        "options": session.config_update,
        "info": session.info,
        "usage": session.usage,
        "state": session.state_update,
        "compactions": session.compactions,
        "unknown": session.unknown,
    }


def words(session: Session) -> list[tuple[str, ...]]:
    """The transcript in words, without the ids of messages and without what is empty."""
    made: list[tuple[str, ...]] = []
    for entry in session.entries:
        if isinstance(entry, ToolCall):
            identity = entry.tool_call_id.partition("~")[0]  # it was used before
            made.append((identity, entry.title or "", entry.status))
        elif entry.text:
            made.append((entry.role, entry.text))
    return made


__all__ = [
    "AttachStage",
    "Attaching",
    "attaching",
    "folded",
    "settled",
    "shape",
    "until_soon",
    "words",
]
