"""A client whose every message is sent by the test, and the messages of the agent in order.

    async with talking(agent, 2) as client:
        prompt = client.ask("session/prompt", {...})
        await client.wait_for("idle end_turn")
        assert client.story() == ["result", "user_message", "running", "idle end_turn"]

A message arrives before the call that sends it returns. At the end of the block the client
disconnects; the agent has to end by itself, soon, and to leave no task behind.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import twofold
from twofold.transport.base import Receiver

Version = Literal[1, 2]
Json = dict[str, Any]

INITIALIZE: dict[Version, Json] = {
    1: {"protocolVersion": 1, "clientCapabilities": {}},
    2: {"protocolVersion": 2, "info": {"name": "by hand", "version": "1"}, "capabilities": {}},
}


class RawClient:
    """The other end of an agent's transport."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.messages: list[Json] = []
        """Everything the agent sent."""
        self.lines = bytearray()
        self.reads = True
        """Whether it takes what the agent writes."""
        self.ended = False
        self.asked: dict[int, str] = {}
        """The methods of our requests."""
        self._receiver: Receiver | None = None
        self._marked = 0
        self._last_id = 0
        self._gathered: list[bytes] | None = None
        self._changed = asyncio.Event()

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        if self.ended:
            return
        assert data.endswith(b"\n"), "half a line"
        self.lines += data
        self.messages += [json.loads(line) for line in data.splitlines()]
        self._changed.set()
        if not self.reads and self._receiver is not None:
            self._receiver.pause_writing()

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    async def close(self) -> None:
        self.ended = True

    # ---- to the agent

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        assert self._receiver is not None, "the agent has not started yet"
        if self._gathered is None:
            self._receiver.received(data)
        else:
            self._gathered.append(data)

    def at_once(self) -> "RawClient":
        """`with client.at_once(): …` sends everything inside the block in one piece."""
        return self

    def __enter__(self) -> None:
        self._gathered = []

    def __exit__(self, *error: object) -> None:
        data, self._gathered = b"".join(self._gathered or []), None
        self.raw(data)

    def send(self, message: Json) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._last_id += 1
        self.asked[self._last_id] = method
        self.send({"id": self._last_id, "method": method, "params": params or {}})
        return self._last_id

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"method": method, "params": params or {}})

    def answer(self, request: Json, result: Any) -> None:
        self.send({"id": request["id"], "result": result})

    def leave(self, error: Exception | None = None) -> None:
        """Disconnect."""
        if not self.ended and self._receiver is not None:
            self.ended = True
            self._receiver.ended(error)

    def read_on(self) -> None:
        """Read again what the agent writes."""
        assert self._receiver is not None
        self.reads = True
        self._receiver.resume_writing()

    # ---- from the agent

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that follows from what the agent sent."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def reply(self, identity: int) -> Json:
        """The answer to a request, with its `result` or its `error`."""
        await self.until(lambda: self._replies(identity))
        (found,) = self._replies(identity)
        return found

    def _replies(self, identity: int) -> list[Json]:
        return [
            each for each in self.messages if "method" not in each and each.get("id") == identity
        ]

    async def call(self, method: str, params: Any = None) -> Any:
        """Ask, and wait for the result."""
        reply = await self.reply(self.ask(method, params))
        assert "result" in reply, reply
        return reply["result"]

    async def refused(self, method: str, params: Any = None) -> Json:
        """Ask, and wait for the error."""
        error: Json = (await self.reply(self.ask(method, params)))["error"]
        return error

    async def request(self, method: str = "session/request_permission") -> Json:
        """The next request of the agent that was not looked at yet."""

        def found() -> list[Json]:
            return [each for each in self.messages if "id" in each and each.get("method") == method]

        await self.until(lambda: any("seen" not in each for each in found()))
        request = next(each for each in found() if "seen" not in each)
        request["seen"] = True
        return request

    def updates(self, session: str = "s") -> list[Json]:
        """The updates of a session so far."""
        return [
            each["params"]["update"]
            for each in self.messages
            if each.get("method") == "session/update" and each["params"]["sessionId"] == session
        ]

    def mark(self) -> None:
        """The story begins here."""
        self._marked = len(self.messages)

    def story(self) -> list[str]:
        """What came since the mark, a word each."""
        return [word(each) for each in self.messages[self._marked :]]

    async def wait_for(self, what: str, times: int = 1) -> None:
        """Wait until the story has a word."""
        await self.until(lambda: self.story().count(what) >= times)

    # ---- the usual beginning

    async def initialize(self) -> Json:
        result: Json = await self.call("initialize", INITIALIZE[self.version])
        return result

    async def new_session(self, cwd: str = "/work") -> str:
        """A new session; the story begins after it."""
        result = await self.call("session/new", {"cwd": cwd, "mcpServers": []})
        await settled()
        self.mark()
        return str(result["sessionId"])

    def prompt(self, text: str = "hello", session: str = "s") -> int:
        blocks = [{"type": "text", "text": text}]
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks})

    def cancel(self, session: str = "s") -> None:
        self.notify("session/cancel", {"sessionId": session})

    def load(self, session: str = "s", *, replay: bool = True) -> int:
        """Take a session up again."""
        params: Json = {"sessionId": session, "cwd": "/work", "mcpServers": []}
        if self.version == 1:
            return self.ask("session/load" if replay else "session/resume", params)
        return self.ask(
            "session/resume", {**params, **({"replayFrom": {"type": "start"}} if replay else {})}
        )

    def end_of(self, prompt: int, reason: str = "end_turn") -> str:
        """The word that ends a turn."""
        return f"idle {reason}" if self.version == 2 else f"result {reason}"


def word(message: Json) -> str:
    """A message, summed up in a word or two."""
    if "method" not in message:
        if "error" in message:
            return f"error {message['error']['code']}"
        reason = (message["result"] or {}).get("stopReason")
        return f"result {reason}" if reason else "result"
    if message["method"] != "session/update":
        return str(message["method"])
    update = message["params"]["update"]
    if update["sessionUpdate"] == "state_update":
        return " ".join([update["state"], *filter(None, [update.get("stopReason")])])
    if update["sessionUpdate"] in ("tool_call", "tool_call_update") and "status" in update:
        return f"{update['sessionUpdate']} {update['status']}"
    return str(update["sessionUpdate"])


async def settled(turns: int = 10) -> None:
    """Let the loop do what is due: nothing that takes time, nothing that waits."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Ids:
    """Session ids that a test can predict: s, s2, s3 …"""

    def __init__(self) -> None:
        self._made = 0

    def __call__(self) -> str:
        self._made += 1
        return "s" if self._made == 1 else f"s{self._made}"


def an_agent(**options: Any) -> tuple[twofold.Agent, list[twofold.Problem]]:
    """An agent, and the problems it reports."""
    problems: list[twofold.Problem] = []
    options.setdefault("new_session_id", Ids())
    options.setdefault("on_problem", problems.append)
    return twofold.Agent("tested", "1", **options), problems


@asynccontextmanager
async def talking(
    agent: twofold.Agent, version: Version, *, initialized: bool = True
) -> AsyncIterator[RawClient]:
    """A client of `agent`; nothing is left of it when the block is left."""
    others = asyncio.all_tasks()
    client = RawClient(version)
    serving = asyncio.create_task(agent.serve(client))
    await settled()
    try:
        if initialized:
            await client.initialize()
        yield client
    finally:
        client.leave()
        await serving
    await settled()
    left = asyncio.all_tasks() - others
    assert not left, f"left behind: {left}"


@asynccontextmanager
async def in_session(agent: twofold.Agent, version: Version) -> AsyncIterator[RawClient]:
    """A client of `agent` with a new session."""
    async with talking(agent, version) as client:
        await client.new_session()
        yield client
