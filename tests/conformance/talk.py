"""A conversation with an agent's process in raw lines, all of it recorded.

The client of it does nothing by itself but answer the agent's requests: permissions by
`permission`, everything else with "method not found". No line of the agent is refused here.
"""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.peers.install import ROOT
from tests.peers.validators import Version

Json = dict[str, Any]
Permission = Callable[[Json], Json | None]
"""The outcome of a permission request, or None to leave it open."""

METHOD_NOT_FOUND = -32601
LINE_LIMIT = 16 * 1024 * 1024


class Line(NamedTuple):
    """One line, as it was sent or received."""

    sent: bool
    data: bytes
    messages: list[Json]
    """The messages in it; more than one in a batch, none if it is not JSON."""


class Ended(NamedTuple):
    """How a process ended after its input."""

    in_time: bool
    status: int | None


class Turn(NamedTuple):
    """A prompt, from its request to the end of its turn."""

    session: str
    reply: Json
    messages: list[Json]
    """Everything that the agent sent meanwhile, in order."""
    stop_reason: str | None

    @property
    def updates(self) -> list[Json]:
        """The updates of the session."""
        return [each["params"]["update"] for each in self.messages if is_update(each, self.session)]


def is_update(message: Json, session: str | None = None) -> bool:
    """Whether a message is an update, of a certain session."""
    if message.get("method") != "session/update":
        return False
    return session is None or message["params"]["sessionId"] == session


def is_response(message: Json) -> bool:
    """Whether a message answers a request."""
    return "method" not in message


def first_allowed(params: Json) -> Json | None:
    """Allow what is asked for, once."""
    for option in params["options"]:
        if option["kind"] == "allow_once":
            return {"outcome": "selected", "optionId": option["optionId"]}
    return {"outcome": "cancelled"}


class Talk:
    """A client of one process. `lines` has both directions in the order seen here."""

    def __init__(self, version: Version, process: asyncio.subprocess.Process) -> None:
        self.version = version
        self.lines: list[Line] = []
        self.messages: list[Json] = []
        """Everything that the agent sent, batches taken apart."""
        self.stderr = b""
        self.ended: Ended | None = None
        self.initialized: Json = {}
        """The reply to `initialize`."""
        self.permission: Permission = first_allowed
        self._process = process
        self._last_id = 0
        self._changed = asyncio.Event()
        self._over = False
        self._reading = asyncio.gather(self._read(), self._read_errors())

    @classmethod
    async def start(cls, version: Version, command: Sequence[str]) -> "Talk":
        """Start the agent."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
        return cls(version, process)

    @property
    def spoken(self) -> Version:
        """The version that the agent answered, or was asked for."""
        answered = self.initialized.get("result", {}).get("protocolVersion")
        return answered if answered in (1, 2) else self.version

    # ---- receiving

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while data := await self._process.stdout.readline():
            messages = messages_of(data)
            self.lines.append(Line(False, data, messages))
            self.messages += messages
            for message in messages:
                if "method" in message and "id" in message:
                    self._answer(message)
            self._changed.set()
        self._over = True
        self._changed.set()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self.stderr = await self._process.stderr.read()

    def _answer(self, request: Json) -> None:
        if request["method"] != "session/request_permission":
            error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            self.send({"id": request["id"], "error": error})
            return
        outcome = self.permission(request["params"])
        if outcome is not None:
            self.send({"id": request["id"], "result": {"outcome": outcome}})

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that follows from what the agent sent."""
        while not condition():
            assert not self._over, "the agent ended the connection"
            self._changed.clear()
            await self._changed.wait()

    async def over(self) -> None:
        """Wait until the agent has ended the connection."""
        await self._reading

    # ---- sending

    def send_line(self, data: bytes) -> None:
        """Send bytes as one line, whatever they are."""
        assert self._process.stdin is not None
        self.lines.append(Line(True, data, messages_of(data)))
        self._process.stdin.write(data + b"\n")

    def send(self, *messages: Json) -> None:
        """Send one message, or several as a batch."""
        whole = [{"jsonrpc": "2.0", **message} for message in messages]
        self.send_line(json.dumps(whole[0] if len(whole) == 1 else whole).encode())

    def next_id(self) -> int:
        """An id that was not used yet."""
        self._last_id += 1
        return self._last_id

    def request(self, method: str, params: Any = None, request_id: Any = None) -> Any:
        """Send a request; its id."""
        if request_id is None:
            request_id = self.next_id()
        self.send({"id": request_id, "method": method, "params": params or {}})
        return request_id

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params or {}})

    async def reply(self, request_id: Any) -> Json:
        """The response to a request, with its result or its error."""

        def found() -> list[Json]:
            # 1 is not "1", and not True either
            return [
                each
                for each in self.messages
                if is_response(each)
                and each.get("id") == request_id
                and type(each["id"]) is type(request_id)
            ]

        await self.until(found)
        return found()[0]

    async def ask(self, method: str, params: Any = None) -> Json:
        """Send a request and wait for the response."""
        return await self.reply(self.request(method, params))

    async def call(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its result."""
        reply = await self.ask(method, params)
        assert "result" in reply, f"{method}: {reply.get('error')}"
        return reply["result"]

    async def fence(self) -> Json:
        """Wait until the agent has seen everything that was sent so far: its reply to a request."""
        return await self.ask("_conformance/fence")

    # ---- turns

    async def turn(self, session: str, prompt: Any, **more: Any) -> Turn:
        """Send a prompt, a text or a list of blocks, and wait for the end of its turn."""
        start = len(self.messages)
        return await self.end_of_turn(session, self.prompt(session, prompt, **more), start)

    def prompt(self, session: str, prompt: Any, **more: Any) -> Any:
        """Send a prompt; the id of the request."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        params = {"sessionId": session, "prompt": blocks, **more}
        return self.request("session/prompt", params)

    async def end_of_turn(self, session: str, request_id: Any, start: int) -> Turn:
        """Wait for the end of a turn whose messages begin at `start`."""
        reply = await self.reply(request_id)
        if self.version == 1 or "error" in reply:
            reason = reply.get("result", {}).get("stopReason")
        else:
            await self.until(lambda: self._idle(session, start))
            reason = self._idle(session, start)[0].get("stopReason")
        return Turn(session, reply, self.messages[start:], reason)

    def _idle(self, session: str, start: int) -> list[Json]:
        return [update for update in self.updates(session, start) if update.get("state") == "idle"]

    def updates(self, session: str, start: int = 0) -> list[Json]:
        """The updates of a session from message `start` on."""
        return [
            each["params"]["update"] for each in self.messages[start:] if is_update(each, session)
        ]

    def requests(self, method: str, start: int = 0) -> list[Json]:
        """The requests of the agent from message `start` on."""
        return [each for each in self.messages[start:] if each.get("method") == method]

    # ---- the end

    async def close(self, seconds: float) -> None:
        """End the agent's input, and see whether the agent ends within some seconds, too."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
                await self._reading
            self.ended = Ended(True, self._process.returncode)
        except TimeoutError:
            self.ended = Ended(False, None)
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """End the process at once, with what it started."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def messages_of(data: bytes) -> list[Json]:
    """The JSON-RPC messages of a line, none if it is something else."""
    try:
        read = json.loads(data)
    except ValueError:
        return []
    return [each for each in (read if isinstance(read, list) else [read]) if isinstance(each, dict)]
