"""Connects to an agent at a URL again after the connection was lost, and resumes its sessions.

What was requested ends with the error, turns included. The sessions stay open: each is resumed on
the new connection, without a replay if nothing went on in it, and with one otherwise, so that
nothing is missing in it. What is requested meanwhile waits. The attempts are bounded, with growing
pauses; after the last of them every session is closed with the error.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, TypeAlias

from msgspec import Struct

from twofold.client.agent_peer import AgentPeer
from twofold.client.session import OpenSession
from twofold.errors import ConnectionEnded, TwofoldError
from twofold.peer.problems import Problem
from twofold.transport.endpoint import NotReached, RemoteEnded

TRIES = 8
"""How many attempts are made."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 15.0
"""How many seconds pass before an attempt: twice as many each time, and some chance in it."""
WITHIN = 30.0
"""How many seconds the agent has to answer `initialize`, and to resume a session."""
STABLE = 30.0
"""A connection that is lost within so many seconds counts as a failed attempt."""

_FINAL = frozenset({401, 403, 1008})
"""Statuses and close codes with which a server shuts this client out."""

ConnectionState: TypeAlias = Literal["lost", "connected", "ended"]


class ConnectionChange(Struct, frozen=True):
    """The connection to an agent at a URL was lost, is there again, or is given up."""

    state: ConnectionState
    """`lost`: attempts are being made. `connected`: the sessions were resumed. `ended`: no more
    attempts are made."""
    error: TwofoldError | None = None
    """Why it was lost or given up."""


OnConnection: TypeAlias = Callable[[ConnectionChange], None]


class Reconnection:
    """The attempts to connect to one agent again.

    Args:
        agent: The agent; its requests wait during the attempts.
        sessions: The sessions to resume.
        reconnect: Makes one attempt: connects and agrees on the version that was spoken before.
        resume: Resumes a session on the new connection.
        on_change: Called with what happens.
    """

    def __init__(
        self,
        agent: AgentPeer,
        sessions: Callable[[], list[OpenSession]],
        reconnect: Callable[[], Awaitable[None]],
        resume: Callable[[OpenSession], Awaitable[None]],
        on_change: OnConnection,
    ) -> None:
        self._agent = agent
        self._sessions = sessions
        self._reconnect = reconnect
        self._resume = resume
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._tries = 0
        self._since = asyncio.get_running_loop().time()
        """When the connection was made."""
        self._over = False

    def lost(self, error: Exception | None) -> bool:
        """Begin, if the connection was lost in a way that can be mended; whether it was."""
        if self._over or not isinstance(error, RemoteEnded) or is_final(error):
            return self._task is not None and not self._over
        if self._task is None:  # otherwise an attempt has failed, and there are more
            self._task = asyncio.create_task(self._run(error))
            self._agent.pause(self._task)
            self._notify(ConnectionChange("lost", error))
        return True

    async def close(self) -> None:
        """Make no more attempts."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._agent.go_on()

    async def _run(self, lost: RemoteEnded) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._since > STABLE:
            self._tries = 0
        last: TwofoldError = lost
        while self._tries < TRIES:
            await asyncio.sleep(pause_before(self._tries))
            self._tries += 1
            try:
                await self._attempt(lost)
            except TwofoldError as error:
                last = error
                if is_final(error):
                    break
                continue
            self._since, self._task = loop.time(), None
            self._agent.go_on()
            self._notify(ConnectionChange("connected"))
            return
        self._give_up(lost, last)

    async def _attempt(self, lost: RemoteEnded) -> None:
        await self._interrupted()
        await self._reconnect()
        for opened in self._sessions():
            try:
                await self._resume(opened)
            except ConnectionEnded:
                raise
            except TwofoldError as error:
                self._leave(opened, lost, error)

    async def _interrupted(self) -> None:
        """Wait until every session has handled the loss, and everything before it."""
        for opened in self._sessions():
            for _ in range(2):  # what the loss ends is handled after it
                handled = asyncio.get_running_loop().create_future()
                opened.inbox.put(_set_done, handled)
                await handled

    def _leave(self, opened: OpenSession, lost: RemoteEnded, error: TwofoldError) -> None:
        """Close a session that cannot be resumed."""
        reason = f"The session could not be resumed afterwards: {error}"
        self._agent.report(Problem("answer", reason, opened.session_id, error))
        opened.end(RemoteEnded(lost.url, f"{lost.reason} {reason}", lost.code))

    def _give_up(self, lost: RemoteEnded, last: TwofoldError) -> None:
        self._over = True
        reason = f"{lost.reason} The last of {self._tries} attempts to connect again: {last}"
        error = RemoteEnded(lost.url, reason, lost.code)
        for opened in self._sessions():
            opened.inbox.put(opened.end, error)
        self._agent.give_up(error)
        self._notify(ConnectionChange("ended", error))

    def _notify(self, change: ConnectionChange) -> None:
        try:
            self._on_change(change)
        except Exception as error:
            self._agent.report(Problem("handler", "The on_connection callback raised", error=error))


def is_final(error: Exception) -> bool:
    """Whether the server shuts this client out, so that another attempt is of no use."""
    if isinstance(error, NotReached):
        return error.status in _FINAL
    return isinstance(error, RemoteEnded) and error.code in _FINAL


def _set_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def pause_before(tries: int) -> float:
    """How many seconds to wait before the next attempt, after so many."""
    return min(FIRST_DELAY * 2.0**tries, LONGEST_DELAY) * random.uniform(0.5, 1.0)
