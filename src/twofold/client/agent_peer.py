"""The connection to one agent, as a client and its sessions use it.

Requests are written in version 2's types and converted for an agent that speaks version 1. Every
inbox and every background task of a client is made here, so that closing can wait for all of them.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

from twofold.client.negotiate import AgentDescription
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.requests import downgrade_params, upgrade_result
from twofold.errors import LocalError, NotSupported
from twofold.peer.inbox import Inbox, spawn
from twofold.peer.peer import PATIENCE, Arrived, Listener, Peer
from twofold.peer.problems import Problem, Report, guarded
from twofold.transport.base import Transport
from twofold.wire import v1, v2

T = TypeVar("T")

CLOSE = 5.0
"""How many seconds background tasks have to end when the client is closed."""


class AgentPeer:
    """One agent: its description, its requests, and the work that goes on for it."""

    peer: Peer
    """The JSON-RPC side of the connection; set by `open`."""

    def __init__(self, report: Report, handler_timeout: float) -> None:
        self.report = guarded(report)
        self._handler_timeout = handler_timeout
        self._description: AgentDescription | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self._inboxes: WeakSet[Inbox] = WeakSet()
        self._pausing: asyncio.Task[None] | None = None
        """The task that connects again; only its requests are sent."""
        self._ready = asyncio.Event()
        self._ready.set()
        self._given_up: Exception | None = None

    def open(self, transport: Transport, listener: Listener, line_limit: int) -> None:
        """Connect to the agent at the other end of `transport`, instead of an earlier one."""
        self.peer = Peer(
            transport, listener, who="agent", report=self.report, line_limit=line_limit
        )

    @property
    def description(self) -> AgentDescription:
        """What the agent declared; raises `LocalError` before `initialize` was answered."""
        if self._description is None:
            raise LocalError("The client has not been initialized.")
        return self._description

    @description.setter
    def description(self, description: AgentDescription) -> None:
        self._description = description

    # ---- while there is no connection

    @property
    def paused(self) -> bool:
        """Whether requests wait, because the connection was lost and is being made again."""
        return not self._ready.is_set()

    def pause(self, task: asyncio.Task[None]) -> None:
        """Let requests wait until `go_on`, but for those of `task`."""
        self._pausing = task
        self._ready.clear()

    def go_on(self) -> None:
        """Undo `pause`."""
        self._pausing = None
        self._ready.set()

    def give_up(self, error: Exception) -> None:
        """Undo `pause`: every request fails with `error`."""
        self._given_up = error
        self.go_on()

    async def ready(self, unless: "asyncio.Future[Any] | None" = None) -> None:
        """Wait while requests wait, or until `unless` is done."""
        if self._ready.is_set() or asyncio.current_task() is self._pausing:
            return
        waiting = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait(
                {waiting, *([unless] if unless is not None else [])},
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waiting.cancel()

    # ---- requests

    async def request(
        self,
        method: str,
        params: Any,
        shape: Any = None,
        *,
        arrived: Arrived | None = None,
        within: float | None = None,
    ) -> Any:
        """Send a request as `Peer.request` does; while there is no connection it waits for one."""
        await self.ready()
        if self._given_up is not None:
            raise self._given_up.with_traceback(None)
        return await self.peer.request(method, params, shape, arrived=arrived, within=within)

    async def call(
        self,
        method: str,
        params: Any,
        *,
        arrived: Arrived | None = None,
        within: float | None = None,
    ) -> Any:
        """Send a request of version 2 in the agent's version.

        Args:
            method: The method in version 2.
            params: Its params in version 2.
            arrived: Called with the result or the error as soon as it is read.
            within: How many seconds the agent has to answer.

        Returns:
            The result in version 2; only that of `session/prompt` stays in the agent's version,
            because the versions end a turn in different ways.

        Raises:
            NotSupported: Version 1 has no such request.
        """
        if self.description.protocol_version == 2:
            shape = v2.METHODS[method].result
            return await self.request(method, params, shape, arrived=arrived, within=within)
        losses = Losses()
        try:
            name, lowered = downgrade_params(method, params, losses)
        except NotConvertible as refused:
            raise NotSupported(
                f"{self.description.name} speaks version 1, which cannot express this: {refused}"
            ) from None
        for loss in losses:
            self.report(Problem("loss", f"{name}: {loss.path}: {loss.reason}"))
        result = await self.call_v1(name, lowered, arrived, within)
        return result if method == "session/prompt" else upgrade_result(name, result, Losses())

    async def call_v1(
        self, method: str, params: Any, arrived: Arrived | None, within: float | None = None
    ) -> Any:
        """Send a request of version 1 to an agent that speaks it."""
        shape = v1.METHODS[method].result
        return await self.request(method, params, shape, arrived=arrived, within=within)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, unless the connection is closed."""
        if not self.peer.closed and not self.paused:
            self.peer.notify(method, params)

    # ---- work

    def in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` in a task that goes on even if nobody awaits it, until `finish`."""
        task = spawn(work, self._background)
        task.add_done_callback(_retrieve_exception)
        return task

    def new_inbox(self, session_id: str) -> Inbox:
        """An inbox for a session; while it is full the agent has to wait."""
        inbox = Inbox(
            session_id,
            self.report,
            hold=self._hold,
            release=self._release,
            timeout=self._handler_timeout,
        )
        self._inboxes.add(inbox)
        return inbox

    def _hold(self, holder: Any) -> None:
        self.peer.hold(holder)  # which may be another one than when the inbox was made

    def _release(self, holder: Any) -> None:
        self.peer.release(holder)

    async def finish(self) -> None:
        """Wait, for a bounded time, until handlers and background tasks have ended."""
        for inbox in self._inboxes:  # also those of sessions that were closed before
            inbox.close()
        await asyncio.gather(*(inbox.stopped(PATIENCE) for inbox in self._inboxes))
        if self._background:
            await asyncio.wait(self._background, timeout=CLOSE)
        for task in self._background:
            task.cancel()


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from logging an exception that nobody awaits any more."""
    if not task.cancelled():
        task.exception()
