"""An agent whose every message is sent by the test, over a transport without a loop in between.

`ScriptedAgent` answers `initialize` by itself and nothing else. What it sends arrives in one piece,
before the call returns.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import twofold
from twofold.transport.base import Receiver

Version = Literal[1, 2]
Json = dict[str, Any]

_INITIALIZED: dict[Version, Json] = {
    1: {
        "protocolVersion": 1,
        "agentInfo": {"name": "scripted", "version": "1"},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
    },
    2: {
        "protocolVersion": 2,
        "info": {"name": "scripted", "version": "1"},
        "capabilities": {"session": {"prompt": {}, "delete": {}}},
    },
}


def line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


class HandTransport:
    """A transport; the test is its other end."""

    def __init__(self, on_line: Callable[[Json], None] = lambda message: None) -> None:
        self.writes: list[bytes] = []
        self.written: list[Json] = []
        """The messages that were written."""
        self.paused = False
        self.closed = False
        self.ended = False
        self._on_line = on_line
        self._receiver: Receiver | None = None
        self._changed = asyncio.Event()

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        assert not self.closed, "written after the end"
        self.writes.append(data)
        for each in data.splitlines():
            self.written.append(json.loads(each))
            self._on_line(self.written[-1])
        self._changed.set()

    def pause_reading(self) -> None:
        self.paused = True
        self._changed.set()

    def resume_reading(self) -> None:
        self.paused = False
        self._changed.set()

    async def close(self) -> None:
        self.closed = True
        asyncio.get_running_loop().call_soon(self.end)

    # ---- for the test

    @property
    def receiver(self) -> Receiver:
        assert self._receiver is not None, "not started yet"
        return self._receiver

    def deliver(self, data: bytes) -> None:
        """The other side sends bytes."""
        assert not self.ended, "data after the end"
        self.receiver.received(data)

    def end(self, error: Exception | None = None) -> None:
        """The other side is gone."""
        if not self.ended:
            self.ended = True
            self.receiver.ended(error)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds after a write."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class ScriptedAgent:
    """The raw messages of an agent of one version."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.transport = HandTransport(self._keep)
        self._requests: list[Json] = []
        self._last_id = 1000
        self._gathered: list[bytes] | None = None

    def _keep(self, message: Json) -> None:
        if message.get("method") == "initialize":
            loop = asyncio.get_running_loop()
            loop.call_soon(self.answer, message, _INITIALIZED[self.version])
        elif "method" in message:
            self._requests.append(message)

    # ---- from the client

    async def receive(self, method: str) -> Json:
        """The next request or notification of `method`."""
        await self.transport.until(lambda: any(each["method"] == method for each in self._requests))
        found = next(each for each in self._requests if each["method"] == method)
        self._requests.remove(found)
        return found

    def all_received(self, method: str) -> list[Json]:
        """Every request or notification of `method` so far."""
        return [each for each in self.transport.written if each.get("method") == method]

    async def answer_to(self, identity: Any) -> Json:
        """The client's answer to a request of ours."""

        def answers() -> list[Json]:
            written = self.transport.written
            return [each for each in written if "method" not in each and each["id"] == identity]

        await self.transport.until(lambda: bool(answers()))
        (found,) = answers()
        return found

    # ---- to the client

    def _send(self, data: bytes) -> None:
        if self._gathered is None:
            self.transport.deliver(data)
        else:
            self._gathered.append(data)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Send everything inside the block in one piece."""
        self._gathered = []
        yield
        data, self._gathered = b"".join(self._gathered), None
        self.transport.deliver(data)

    def answer(self, request: Json, result: Any) -> None:
        self._send(line({"id": request["id"], "result": result}))

    def fail(self, request: Json, code: int, message: str, **data: Any) -> None:
        self._send(line({"id": request["id"], "error": {"code": code, "message": message, **data}}))

    def ask(self, method: str, params: Json) -> int:
        self._last_id += 1
        self._send(line({"id": self._last_id, "method": method, "params": params}))
        return self._last_id

    def notify(self, method: str, params: Json) -> None:
        self._send(line({"method": method, "params": params}))

    def update(self, update: Json, session: str = "s") -> None:
        self.notify("session/update", {"sessionId": session, "update": update})

    def text(self, text: str, session: str = "s") -> None:
        """A piece of a message."""
        content = {"type": "text", "text": text}
        chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
        self.update(chunk, session)

    def state(self, state: str, session: str = "s", **fields: Any) -> None:
        self.update({"sessionUpdate": "state_update", "state": state, **fields}, session)

    def tool_call(self, status: str, call: str = "c", session: str = "s") -> None:
        tag = "tool_call_update" if self.version == 2 else "tool_call"
        fields = {"toolCallId": call, "title": "Work", "status": status}
        self.update({"sessionUpdate": tag, **fields}, session)

    def ask_permission(self, session: str = "s", call: str = "c") -> int:
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        tool_call = {"toolCallId": call, "title": "Work"}
        subject: Json = {"toolCall": tool_call}
        if self.version == 2:
            subject = {"title": "May I?", "subject": {"type": "tool_call", "toolCall": tool_call}}
        params = {"sessionId": session, "options": options, **subject}
        return self.ask("session/request_permission", params)

    # ---- turns

    async def begin(self, session: str = "s") -> Json:
        """Receive the next prompt; in version 2, answer it and send the state `running`."""
        request = await self.receive("session/prompt")
        if self.version == 2:
            with self.at_once():
                self.answer(request, {"messageId": f"user-{request['id']}"})
                self.state("running", session)
        return request

    async def prompted(
        self, session: twofold.ClientSession, text: str = "go"
    ) -> tuple[asyncio.Task[twofold.Reply], Json]:
        """Let the client send a prompt and receive it: the client's task, and the request."""
        prompting = asyncio.create_task(session.prompt(text))
        return prompting, await self.begin(session.session_id)

    def finish(self, request: Json, reason: str = "end_turn", session: str = "s") -> None:
        """End the turn of a prompt."""
        if self.version == 2:
            self.state("idle", session, stopReason=reason)
        else:
            self.answer(request, {"stopReason": reason})


@asynccontextmanager
async def meeting(
    version: Version, problems: list[twofold.Problem] | None = None, **options: Any
) -> AsyncIterator[tuple[twofold.Client, ScriptedAgent]]:
    """A client and the scripted agent that it is connected to."""
    agent = ScriptedAgent(version)
    reported = [] if problems is None else problems
    options.setdefault("on_problem", reported.append)
    async with twofold.connect(agent.transport, version=version, **options) as client:
        yield client, agent
    assert agent.transport.closed


async def new_session(
    client: twofold.Client, agent: ScriptedAgent, session: str = "s"
) -> twofold.ClientSession:
    """A new session of the client."""
    making = asyncio.create_task(client.new_session())
    agent.answer(await agent.receive("session/new"), {"sessionId": session})
    return await making


@asynccontextmanager
async def in_session(
    version: Version, problems: list[twofold.Problem] | None = None, **options: Any
) -> AsyncIterator[tuple[twofold.ClientSession, ScriptedAgent]]:
    """A session of a client, and the scripted agent that it is connected to."""
    async with meeting(version, problems, **options) as (client, agent):
        yield await new_session(client, agent), agent
