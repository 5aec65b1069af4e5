"""An agent that sends exactly what a test makes it send, over a transport in memory.

    async with talk(2) as (client, agent):
        session = await client.new_session("/work")
        turn = asyncio.create_task(session.prompt("hello"))
        prompt = await agent.receive("session/prompt")
        agent.update(RUNNING)
        agent.answer(prompt, {"messageId": "u1"})

It answers `initialize` and `session/new` by itself; `answers` replaces these or adds others.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from twofold.client.client import Client, connect
from twofold.client.session import ClientSession
from twofold.peer.problems import Problem
from twofold.transport.memory import MemoryTransport, memory_pair

Json = Any
Answer = Json | Callable[["RawAgent", Json], None]

TEXT = {"type": "text", "text": "hi"}
RUNNING = {"sessionUpdate": "state_update", "state": "running"}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
CANCELLED = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}

V1 = {
    "protocolVersion": 1,
    "agentInfo": {"name": "raw", "version": "1"},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True, "embeddedContext": True},
        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        "auth": {"logout": {}},
    },
    "authMethods": [{"id": "token", "name": "Token"}],
}
V2 = {
    "protocolVersion": 2,
    "info": {"name": "raw", "version": "1"},
    "capabilities": {"session": {"prompt": {"image": {}}, "mcp": {"stdio": {}}, "delete": {}}},
    "authMethods": [{"type": "agent", "methodId": "token", "name": "Token"}],
}
HELLO: dict[int, Json] = {1: V1, 2: V2}


def chunk(text: str, message_id: str | None = "m1", role: str = "agent") -> Json:
    """A chunk of a message."""
    chunk = {
        "sessionUpdate": f"{role}_message_chunk",
        "content": {"type": "text", "text": text},
    }
    return chunk if message_id is None else {**chunk, "messageId": message_id}


def echo(text: str, message_id: str = "u1") -> Json:
    """The user's message, whole."""
    content = [{"type": "text", "text": text}]
    return {"sessionUpdate": "user_message", "messageId": message_id, "content": content}


def call(tool_call_id: str, status: str = "in_progress", **more: Json) -> Json:
    """A tool call as version 2 has it."""
    update = {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, "status": status}
    return {**update, **more}


class RawAgent:
    """One end of a connection (`Receiver`)."""

    def __init__(self, transport: MemoryTransport, answers: Mapping[str, Answer]) -> None:
        self.transport = transport
        self.answers = dict(answers)
        self.messages: list[Json] = []
        """Every message of the client, in order."""
        self.ended_with: list[Exception | None] = []
        self._unread: list[Json] = []
        self._rest = b""
        self._last_id = 0
        self._asked: dict[Json, asyncio.Future[Json]] = {}
        self._changed = asyncio.Event()
        transport.start(self)

    # ---- from the client

    def received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._read(json.loads(line))
        self._changed.set()

    def _read(self, message: Json) -> None:
        self.messages.append(message)
        method = message.get("method")
        if method is None:
            asked = self._asked.pop(message["id"], None)  # none: it asked twice under one id
            if asked is not None:
                asked.set_result(message)
        elif method in self.answers:
            answer = self.answers[method]
            if callable(answer):
                answer(self, message)
            else:
                self.answer(message, answer)
        else:
            self._unread.append(message)

    def ended(self, error: Exception | None) -> None:
        self.ended_with.append(error)
        self._changed.set()

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    async def receive(self, method: str) -> Json:
        """Wait for the next message of the client with this method."""
        while True:
            for message in self._unread:
                if message["method"] == method:
                    self._unread.remove(message)
                    return message
            self._changed.clear()
            await self._changed.wait()

    def methods(self) -> list[str]:
        """The methods of the requests and notifications of the client so far."""
        return [message["method"] for message in self.messages if "method" in message]

    # ---- to the client

    def send(self, message: Json) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def answer(self, message: Json, result: Json) -> None:
        self.send({"id": message["id"], "result": result})

    def refuse(self, message: Json, code: int, text: str, **data: Json) -> None:
        error = {"code": code, "message": text, **({"data": data} if data else {})}
        self.send({"id": message["id"], "error": error})

    def notify(self, method: str, params: Json) -> None:
        self.send({"method": method, "params": params})

    def update(self, *updates: Json, session_id: str = "s") -> None:
        for update in updates:
            self.notify("session/update", {"sessionId": session_id, "update": update})

    def ask(self, method: str, params: Json, request_id: Json = None) -> asyncio.Future[Json]:
        """Ask the client; the future is its whole answer."""
        if request_id is None:
            self._last_id += 1
            request_id = f"a{self._last_id}"
        self._asked[request_id] = asyncio.get_running_loop().create_future()
        self.send({"id": request_id, "method": method, "params": params})
        return self._asked[request_id]

    async def gone(self) -> None:
        """End the connection from this side."""
        await self.transport.close()


class Problems(list[Problem]):
    """The problems that were reported."""

    def of(self, kind: str) -> list[str]:
        return [problem.text for problem in self if problem.kind == kind]


@asynccontextmanager
async def talk(
    speaks: int,
    answers: Mapping[str, Answer] | None = None,
    /,
    *,
    problems: Problems | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Client, RawAgent]]:
    """A client and the agent it is connected to; a problem fails the test without `problems`."""
    ours, theirs = memory_pair()
    agent = RawAgent(
        theirs,
        {"initialize": HELLO[speaks], "session/new": {"sessionId": "s"}, **(answers or {})},
    )
    reported = Problems() if problems is None else problems
    async with connect(ours, on_problem=reported.append, **options) as client:
        yield client, agent
    if problems is None:
        assert reported == []


@asynccontextmanager
async def in_session(
    speaks: int, answers: Mapping[str, Answer] | None = None, /, **options: Any
) -> AsyncIterator[tuple[ClientSession, RawAgent]]:
    """A new session in /work and its agent, connected by `talk`."""
    async with talk(speaks, answers, **options) as (client, agent):
        yield await client.new_session("/work"), agent


async def begin(version: int, agent: RawAgent) -> Json:
    """The next prompt, which the agent begins to work on."""
    prompt = await agent.receive("session/prompt")
    if version == 2:
        agent.answer(prompt, {"messageId": "u1"})
        agent.update(RUNNING)
    return prompt


def finish(version: int, agent: RawAgent, prompt: Json, reason: str = "end_turn") -> None:
    """End the turn of a prompt."""
    if version == 1:
        agent.answer(prompt, {"stopReason": reason})
    else:
        agent.update({**IDLE, "stopReason": reason})
