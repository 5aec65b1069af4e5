"""What a scenario is, and what it is given to play with.

A scenario says what it has to say through the `Turn`, like any agent. One that shows a fault may
also write to the wire past it: such lines go out as they are, and are not kept in the session.
Nothing here reads a clock or rolls a die: the same prompts give the same words.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct, field

from twofold.agent.session import AgentSession
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
    """What any prompt plays, if the agent was started for it."""
    speed: float = 1.0
    alone: bool = False
    """It has a process of its own, which it may flood or take down."""
    needs_login: bool = False
    """No new session before someone has logged in."""
    logged_in: bool = False
    early: bool = False
    """New sessions are told of before they are answered."""
    trusted: set[str] = field(default_factory=set)
    """The sessions whose user allowed commands for always."""
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


class Scene:
    """One prompt as a scenario sees it: the `number`th of its session, and its `argument`."""

    def __init__(self, demo: Demo, turn: Turn, argument: str) -> None:
        self.demo = demo
        self.turn = turn
        self.session: AgentSession = turn.session
        self.argument = argument
        self.number = len(self.session.state.messages["user"])

    @property
    def version(self) -> int:
        """The version of the protocol that the client speaks."""
        return self.session.version

    def count(self, default: int, most: int) -> int:
        """The argument as a number, or `default` where it is none."""
        given = self.argument.isascii() and self.argument.isdecimal()
        return min(int(self.argument[:12]), most) if given else default

    # ---- time

    async def pause(self, seconds: float = PIECE) -> None:
        """Let the user watch; at speed 0 there is no pause at all."""
        if self.demo.speed > 0:
            await asyncio.sleep(seconds / self.demo.speed)

    async def say(self, *pieces: str) -> None:
        """Say something piece by piece."""
        for piece in pieces:
            await self.turn.say(piece)
            await self.pause()

    async def wait(self) -> None:
        """Wait to be cancelled, at any speed; not for ever."""
        await asyncio.sleep(LONG)

    async def until_gone(self) -> None:
        """Wait until the client is gone, and hear nothing else."""
        over = self.session.connection.over
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    def afterwards(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something when the turn is over and its end was told."""

        async def later() -> None:
            async with self.session.busy:
                pass
            await work

        spawn(later(), self.demo.tasks)

    # ---- past the turn

    async def line(self, data: bytes) -> None:
        """Write to the client what no agent should: as it is, newline included."""
        peer = self.session.connection.peer
        peer.send(data)
        if peer.crowded:
            await peer.room()

    async def update(self, tag: str, **fields: Any) -> None:
        """Write a `session/update` in the words of the wire, right or wrong."""
        await self.line(self.update_line(tag, **fields))

    def update_line(self, tag: str, **fields: Any) -> bytes:
        """The line that `update` writes."""
        update = {"sessionUpdate": tag, **fields}
        params = {"sessionId": self.session.session_id, "update": update}
        return notify("session/update", codec.encode(params))

    async def crash(self, last_words: str) -> None:
        """Break off; what was said so far is sent. Inside someone's process only the line dies."""
        peer = self.session.connection.peer
        peer.flush()
        if self.demo.alone:
            os.write(2, last_words.encode() + b"\n")
            os._exit(CRASHED)
        spawn(peer.close(), self.demo.tasks)
        await self.until_gone()


Play: TypeAlias = Callable[[Scene], Awaitable[str | None]]
"""Answers a prompt; it may return a stop reason."""


class Scenario(Struct, frozen=True):
    """Something the demo agent can do, by the name it is asked for."""

    name: str
    summary: str
    play: Play
    hint: str = ""
    """What may follow the name."""


def text_content(text: str) -> dict[str, Any]:
    """A text in the words of the wire."""
    return {"type": "text", "text": text}


def call_content(text: str) -> dict[str, Any]:
    """A text that a tool call shows, in the words of the wire."""
    return {"type": "content", "content": text_content(text)}
