"""The demo agent and Twofold's own client, connected in memory, with a record of every message."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import twofold
from tests.peers.validators import Version
from tests.support.real_time import run
from twofold import memory_pair
from twofold.demo import demo_agent
from twofold.session import Message, Session
from twofold.transport.base import Receiver, Transport

Json = dict[str, Any]
VERSIONS: list[Version] = [1, 2]
LIMIT = 10
"""How many seconds a meeting may last."""


class Tap:
    """A transport that remembers what was written to it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.written = bytearray()

    def start(self, receiver: Receiver) -> None:
        self._inner.start(receiver)

    def write(self, data: bytes) -> None:
        self.written += data
        self._inner.write(data)

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    async def close(self) -> None:
        await self._inner.close()

    @property
    def messages(self) -> list[Json]:
        """What of it is one message in one line."""
        lines = bytes(self.written).split(b"\n")
        return [json.loads(line) for line in lines if line.startswith(b'{"jsonrpc"')]


class Meeting(NamedTuple):
    """A client and the demo agent, and what went between them."""

    client: twofold.Client
    to_agent: Tap
    from_agent: Tap
    problems: list[twofold.Problem]
    """Of the client."""
    failures: list[twofold.Problem]
    """Of the agent, losses aside."""


Ask = Callable[[twofold.Question], Any]


def choose(kind: str) -> Ask:
    return lambda question: question.option(kind)


allow_once = choose("allow_once")


@asynccontextmanager
async def meeting(
    version: Version | None,
    scenario: str | None = None,
    *,
    ask: Ask = allow_once,
    keep: Path | None = None,
    versions: tuple[Version, ...] = (1, 2),
) -> AsyncIterator[Meeting]:
    """Both in memory, at full speed; the agent has ended when it is left."""
    here, there = map(Tap, memory_pair())
    problems: list[twofold.Problem] = []
    failures: list[twofold.Problem] = []
    agent = demo_agent(scenario, 0, versions, keep, on_problem=failures.append)
    served = asyncio.create_task(agent.serve(there))
    async with asyncio.timeout(LIMIT):
        async with twofold.connect(
            here, version=version, ask=ask, on_problem=problems.append
        ) as client:
            yield Meeting(client, here, there, problems, failures)
        await served


class Played(NamedTuple):
    """What came of one prompt."""

    state: Session
    stop: str
    text: str
    problems: list[str]
    """Their kinds, in order."""
    to_agent: list[Json]
    from_agent: list[Json]
    bytes_from_agent: bytes
    """Noise and all; only where it is no noise are there messages."""


def play(prompt: str, version: Version, scenario: str | None = None, **more: Any) -> Played:
    """One session with one prompt, from the first byte to the last."""

    async def main() -> Played:
        async with meeting(version, scenario, **more) as met:
            session = await met.client.new_session("/home/ada/weather")
            reply = await session.prompt(prompt)
        assert met.failures == []
        problems: list[str] = [problem.kind for problem in met.problems]
        written = bytes(met.from_agent.written)
        sent, came = met.to_agent.messages, met.from_agent.messages
        return Played(session.state, reply.stop_reason, reply.text, problems, sent, came, written)

    return run(main())


def calls_of(state: Session) -> dict[str, tuple[str | None, str, str]]:
    return {
        call.tool_call_id: (call.title, call.kind, call.status)
        for call in state.tool_calls.values()
    }


def messages_of(state: Session, role: str) -> list[str]:
    return [
        entry.text
        for entry in state.entries
        if isinstance(entry, Message) and entry.role == role and entry.text
    ]
