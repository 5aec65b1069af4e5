"""What a scenario is, and what it is given to play with.

A scenario answers through the `Turn`, like any agent. One that shows a fault may also write lines
past it: these are sent as they are, and are not kept in the session. Nothing here reads a clock or
draws random numbers: the same prompts give the same answers.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct, field

from twofold.agent.session import AgentSession, OpenSession, open_session
from twofold.agent.turn import Turn
from twofold.peer.inbox import spawn
from twofold.rpc.connection import notify
from twofold.wire import codec

PIECE = 0.07
"""How many seconds pass between two pieces of a message, at speed 1."""
LONG = 60.0
"""How many seconds a turn that waits to be cancelled waits at most."""
CRASHED = 3
"""The exit status of a crash."""


class Demo(Struct):
    """What all sessions of one demo agent have in common."""

    scenario: str | None = None
    """What any prompt plays, if the agent was started with it."""
    speed: float = 1.0
    alone: bool = False
    """Whether it has a process of its own, which it may flood or end."""
    needs_login: bool = False
    """Whether a new session needs a login first."""
    logged_in: bool = False
    early: bool = False
    """Whether updates of a new session are sent before `session/new` is answered."""
    trusted: set[str] = field(default_factory=set)
    """The sessions whose user allowed commands always."""
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


class Scene:
    """One prompt as a scenario gets it: the `number`th of its session, and its `argument`."""

    def __init__(self, demo: Demo, turn: Turn, argument: str) -> None:
        self.demo = demo
        self.turn = turn
        self.session: AgentSession = turn.session
        self.argument = argument
        self.number = len(self.session.state.messages["user"])

    @property
    def _open(self) -> OpenSession:
        return open_session(self.session)

    @property
    def protocol_version(self) -> int:
        """The version of the protocol that the client speaks."""
        return self.session.protocol_version

    def count(self, default: int, most: int) -> int:
        """The argument as a number, or `default` if it is not one."""
        given = self.argument.isascii() and self.argument.isdecimal()
        return min(int(self.argument[:12]), most) if given else default

    # ---- time

    async def pause(self, seconds: float = PIECE) -> None:
        """Let the user watch; at speed 0 there is no pause at all."""
        if self.demo.speed > 0:
            await asyncio.sleep(seconds / self.demo.speed)

    async def say(self, *pieces: str) -> None:
        """Send a message piece by piece."""
        for piece in pieces:
            await self.turn.say(piece)
            await self.pause()

    async def wait(self) -> None:
        """Wait to be cancelled, at any speed, but at most `LONG` seconds."""
        await asyncio.sleep(LONG)

    async def until_gone(self) -> None:
        """Wait until the client has disconnected, and ignore cancels."""
        gone = self._open.link.gone
        while not gone.is_set():
            with suppress(asyncio.CancelledError):
                await gone.wait()

    def afterwards(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something when the turn is over and its end was sent."""

        async def later() -> None:
            async with self._open.busy:
                pass
            await work

        spawn(later(), self.demo.tasks)

    # ---- past the turn

    async def line(self, data: bytes) -> None:
        """Send a line as it is, newline included: whatever no agent should send."""
        peer = self._open.link.peer
        peer.send(data)
        if peer.crowded:
            await peer.room()

    async def update(self, tag: str, **fields: Any) -> None:
        """Send a `session/update` with the fields of the wire, right or wrong."""
        await self.line(self.update_line(tag, **fields))

    def update_line(self, tag: str, **fields: Any) -> bytes:
        """The line that `update` sends."""
        update = {"sessionUpdate": tag, **fields}
        params = {"sessionId": self.session.session_id, "update": update}
        return notify("session/update", codec.encode(params))

    async def crash(self, last_words: str) -> None:
        """Send what was written so far and die; in someone else's process, only disconnect."""
        peer = self._open.link.peer
        peer.flush()
        if self.demo.alone:
            os.write(2, last_words.encode() + b"\n")
            os._exit(CRASHED)
        spawn(peer.close(), self.demo.tasks)
        await self.until_gone()


Play: TypeAlias = Callable[[Scene], Awaitable[str | None]]
"""Answers a prompt; it may return a stop reason."""


class Scenario(Struct, frozen=True):
    """Something the demo agent can play, and the name that prompts ask for it by."""

    name: str
    summary: str
    play: Play
    hint: str = ""
    """What may follow the name."""


def text_content(text: str) -> dict[str, Any]:
    """A text block as JSON."""
    return {"type": "text", "text": text}


def call_content(text: str) -> dict[str, Any]:
    """A text that a tool call shows, as JSON."""
    return {"type": "content", "content": text_content(text)}
