"""What the Python SDK's agents do, in the words of neither version.

The prompts, sessions and records of `README.md`, once for both versions; `py_agent_v1`
and `py_agent_v2` send it on the wire. Run by an interpreter that has the SDK, so it
imports nothing of the project.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from acp import RequestError

MODES = {"ask": "Ask", "code": "Code"}
OPTIONS = {
    "a1": ("allow_once", "Allow once"),
    "a2": ("allow_always", "Always allow"),
    "r1": ("reject_once", "Reject once"),
    "r2": ("reject_always", "Always reject"),
}
ALLOWED = {"a1", "a2"}

DEMO = "/tmp/demo.txt"
OLD, NEW = "old\n", "new\n"

TICK = 0.02
SLOW_ENDS_AFTER = 60


@dataclass
class UserMessage:
    """A message of the client, as the SDK's content blocks."""

    id: str
    blocks: list[Any]


@dataclass
class AgentMessage:
    """A message of the agent, all chunks joined."""

    id: str
    text: str = ""


@dataclass
class Terminal:
    """A terminal of the agent, with all that it wrote; version 1 has no word for it."""

    id: str
    command: str = "echo hello"
    output: str = ""
    exit_code: int | None = None


@dataclass
class Call:
    """A tool call in its present state; its form on the wire is up to the version."""

    id: str
    title: str
    kind: str
    status: str
    terminal: Terminal | None = None


@dataclass
class Session:
    """A session of this process, and its conversation so far."""

    id: str
    cwd: str
    mode: str = "ask"
    open: bool = True
    prompts: int = 0
    record: list[UserMessage | AgentMessage | Call] = field(default_factory=list)
    turn: "Turn | None" = None
    held: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"Session {self.id}"

    def set_mode(self, mode: Any) -> None:
        if mode not in MODES:
            raise RequestError.invalid_params({"details": f"there is no mode {mode!r}"})
        self.mode = mode

    async def wait_for_its_turn(self) -> None:
        """Return when no turn runs; a cancel of the session refuses the prompt that waits."""
        while self.turn is not None:
            held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.held.append(held)
            await held

    def release(self) -> None:
        """Let the prompts that wait try again, in their order."""
        waiting, self.held = self.held, []
        for held in waiting:
            if not held.done():
                held.set_result(None)

    def cancel(self) -> None:
        """Cancel the running turn and the prompts that wait; without any, nothing happens."""
        waiting, self.held = self.held, []
        for held in waiting:
            if not held.done():
                held.set_exception(RequestError(-32800, "Request cancelled"))
        if self.turn is not None:
            self.turn.cancelled.set()

    async def close(self) -> None:
        """Cancel the running turn, and wait for its end."""
        self.open = False
        self.cancel()
        if self.turn is not None:
            await self.turn.ended.wait()


class Sessions:
    """The sessions of this process, by id."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._made = 0

    def new(self, cwd: str) -> Session:
        self._made += 1
        session = Session(f"s{self._made}", cwd)
        self._sessions[session.id] = session
        return session

    def known(self, session_id: str) -> Session:
        """A session, open or closed."""
        if session_id not in self._sessions:
            raise RequestError.resource_not_found(session_id)
        return self._sessions[session_id]

    def active(self, session_id: str) -> Session:
        """A session that is open."""
        session = self.known(session_id)
        if not session.open:
            raise RequestError.resource_not_found(session_id)
        return session

    def reopened(self, session_id: str) -> Session:
        session = self.known(session_id)
        session.open = True
        return session

    def listed(self, cwd: str | None) -> list[Session]:
        return [each for each in self._sessions.values() if cwd in {None, each.cwd}]

    def cancel(self, session_id: str) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].cancel()

    async def delete(self, session_id: str) -> None:
        await self.known(session_id).close()
        self._sessions.pop(session_id, None)


class Turn(ABC):
    """One prompt and what follows from it; a version decides how each step is sent."""

    CANCELLED: str
    """The status of a call whose permission was withdrawn with the turn."""

    def __init__(self, session: Session, prompt: list[Any]) -> None:
        session.turn = self
        session.prompts += 1
        self.session = session
        self.number = session.prompts
        self.cancelled = asyncio.Event()
        self.ended = asyncio.Event()
        self.user = UserMessage(f"u{self.number}", prompt)
        session.record.append(self.user)
        self._message: AgentMessage | None = None

    @abstractmethod
    async def think(self, text: str) -> None: ...

    @abstractmethod
    async def send_chunk(self, message: AgentMessage, text: str) -> None: ...

    @abstractmethod
    async def send_plan(self, entries: list[dict[str, str]]) -> None: ...

    @abstractmethod
    async def send_call(self, call: Call) -> None:
        """Announce a call."""

    @abstractmethod
    async def send_end(self, call: Call) -> None:
        """The call's last status, with what it shows only now."""

    @abstractmethod
    async def send_terminal(self, terminal: Terminal) -> None:
        """Announce a terminal, or report that its command ended."""

    @abstractmethod
    async def send_output(self, terminal: Terminal, text: str) -> None: ...

    @abstractmethod
    async def ask(self, call: Call) -> str:
        """Ask permission: the id of the chosen option, or "cancelled"."""

    async def play(self) -> str:
        """Do what the prompt asks for; the stop reason."""
        text = next((block.text for block in self.user.blocks if block.type == "text"), "")
        word = text.strip().removeprefix("/")
        await SCENARIOS.get(word, echo)(self, word)
        return "cancelled" if self.cancelled.is_set() else "end_turn"

    def end(self) -> None:
        """The session is free for its next prompt."""
        self.session.turn = None
        self.ended.set()
        self.session.release()

    async def say(self, text: str) -> None:
        if self._message is None:
            self._message = AgentMessage(f"m{self.number}")
            self.session.record.append(self._message)
        self._message.text += text
        await self.send_chunk(self._message, text)

    async def plan(self, *statuses: str) -> None:
        texts = (("edit the file", "high"), ("say hello", "low"))
        await self.send_plan(
            [
                {"content": content, "priority": priority, "status": status}
                for (content, priority), status in zip(texts, statuses, strict=True)
            ]
        )

    async def write(self, terminal: Terminal, text: str) -> None:
        terminal.output += text
        await self.send_output(terminal, text)

    async def start(self, call: Call) -> Call:
        self.session.record.append(call)
        await self.send_call(call)
        return call

    async def finish(self, call: Call, status: str) -> None:
        call.status = status
        await self.send_end(call)


# ---- the prompts -----------------------------------------------------------------------------


async def stream(turn: Turn, _: str) -> None:
    for text in ("let me ", "think"):
        await turn.think(text)
    for text in ("one ", "two ", "three ", "four ", "five"):
        await turn.say(text)


async def tools(turn: Turn, _: str) -> None:
    n, terminal = turn.number, Terminal(f"term{turn.number}")
    await turn.plan("in_progress", "pending")
    await turn.send_terminal(terminal)
    edit = await turn.start(Call(f"t{n}a", "Edit demo.txt", "edit", "in_progress"))
    hello = await turn.start(Call(f"t{n}b", "Say hello", "execute", "in_progress", terminal))
    await turn.write(terminal, "hel")
    await turn.finish(edit, "completed")
    await turn.write(terminal, "lo\n")
    terminal.exit_code = 0
    await turn.send_terminal(terminal)
    await turn.finish(hello, "completed")
    await turn.plan("completed", "completed")
    await turn.say("done")


async def permission(turn: Turn, _: str) -> None:
    call = await turn.start(Call(f"p{turn.number}", "Run make", "execute", "pending"))
    try:
        chosen = await turn.ask(call)
    except RequestError:
        if not turn.cancelled.is_set():
            raise
    if turn.cancelled.is_set():
        await turn.finish(call, turn.CANCELLED)
        return
    await turn.finish(call, "completed" if chosen in ALLOWED else "failed")
    await turn.say(f"outcome: {chosen}")


async def slow(turn: Turn, _: str) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + SLOW_ENDS_AFTER
    while not turn.cancelled.is_set() and clock() < end:
        await turn.say("tick ")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(turn.cancelled.wait(), TICK)


async def error(_: Turn, __: str) -> None:
    raise RequestError(-32603, "boom")


async def echo(turn: Turn, text: str) -> None:
    await turn.say(f"echo: {text}")


SCENARIOS: dict[str, Callable[[Turn, str], Awaitable[None]]] = {
    "stream": stream,
    "tools": tools,
    "permission": permission,
    "slow": slow,
    "slow-permission": permission,
    "error": error,
}
