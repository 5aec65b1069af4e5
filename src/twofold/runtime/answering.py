"""The requests of a peer, each from when it comes to its one answer.

A request is worked on in a task of its own, so that one may wait for another. However that ends
(with a result, an error, a cancel) it is answered, once, unless the peer is gone. A peer that
asks more than can be worked on has to wait. Of an error only what was meant for the peer is told.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from twofold.rpc import connection
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.messages import Request, RequestId
from twofold.runtime.problems import Problem, described
from twofold.wire import codec
from twofold.wire.base import Malformed as NotAsSpecified

if TYPE_CHECKING:
    from twofold.runtime.peer import Peer

T = TypeVar("T")
Answer: TypeAlias = Callable[[Request], Awaitable[Any]]

SERVED = 1024
"""How many requests of the peer are worked on before it has to wait."""
REST = 0.05
"""For how many seconds it waits: what it must tell us for them to end may come after them."""
REFUSED = 16 * SERVED
"""How many are worked on before more are refused."""


class Answering:
    """What the peer asked and has not been answered yet."""

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self._fresh: dict[RequestId, bool] = {}
        """Requests that nobody works on yet, and whether they were withdrawn."""
        self._served: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        self._full = False
        """It was reported that requests are refused."""

    def came(self, request: Request) -> None:
        """The peer asked something."""
        self._fresh[request.id] = False

    def serve(self, request: Request, answer: Answer) -> None:
        """Answer `request` with what `answer` returns or raises, in a task of its own."""
        if self._peer.closed:
            return
        withdrawn = self._fresh.pop(request.id, False)
        if len(self._tasks) >= REFUSED:
            advice = "wait for answers before you ask more"
            self.refuse(request, RequestError.too_many("requests at once", REFUSED, advice))
            self._report_full()
            return
        task = asyncio.create_task(self._serve(request, answer))
        self._tasks.add(task)
        # an id that is used twice at once is answered twice; only the latter can be withdrawn
        self._served[request.id] = task
        task.add_done_callback(lambda task: self._done(request, task))
        if withdrawn:
            _cancel(task)
        if len(self._tasks) >= SERVED and self._rest is None:
            self._peer.hold(self)
            self._rest = asyncio.get_running_loop().call_later(REST, self._rested)

    def _report_full(self) -> None:
        if not self._full:
            self._full = True
            text = f"More than {REFUSED} requests of the {self._peer.who} wait: more are refused"
            self._peer.report(Problem("limit", text))

    async def _serve(self, request: Request, answer: Answer) -> None:
        try:
            line = connection.respond(request.id, codec.encode(await answer(request)))
        except Exception as error:
            self.refuse(request, error)
        else:
            self._peer.reply(request, line)

    def _done(self, request: Request, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._served.get(request.id) is task:
            del self._served[request.id]
        if task.cancelled():
            self.refuse(request, RequestError.cancelled())
        if len(self._tasks) < SERVED:
            self._full = False
            if self._rest is not None:
                self._rested()

    def _rested(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._peer.release(self)

    def withdraw(self, identity: RequestId | None) -> None:
        """The peer does not want an answer any more, and gets one that says so."""
        task = find(self._served, identity)
        if task is not None:
            _cancel(task)
        elif identity in self._fresh:
            self._fresh[identity] = True

    # ---- errors

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer `request` with an error; only what was meant for the peer is told."""
        self._fresh.pop(request.id, None)
        told = self._as_error(request, error)
        try:
            line = connection.fail(request.id, told, codec.encode)
        except Exception as wrong:  # what a handler raised may hold anything
            line = connection.fail(request.id, self._as_error(request, wrong))
        self._peer.reply(request, line)

    def _as_error(self, request: Request, error: Exception) -> RequestError:
        if isinstance(error, RequestError):
            return error
        if isinstance(error, NotAsSpecified):
            return RequestError.invalid_params(str(error))
        text = f"Answering {request.method} failed: {described(error)}"
        self._peer.report(Problem("handler", text, error=error))
        return RequestError(INTERNAL_ERROR, "Internal error")

    # ---- the end

    def stop(self) -> None:
        """Nobody waits for an answer any more."""
        self._fresh.clear()
        for task in self._tasks - {asyncio.current_task()}:
            _cancel(task)
        if self._rest is not None:
            self._rested()

    async def stopped(self, patience: float) -> None:
        """Wait, not for long, until everything that was worked on has ended."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=patience)


def _cancel(task: asyncio.Task[None]) -> None:
    """Stop a task that may not have begun: it begins first, for it may have to clean up."""
    asyncio.get_running_loop().call_soon(task.cancel)


def find(table: dict[RequestId, T], identity: RequestId | None) -> T | None:
    """What has an id, also where a number was turned into a string or the other way round."""
    if identity is None:
        return None
    if identity in table:
        return table[identity]
    if isinstance(identity, int):
        return table.get(str(identity))
    # no id of ours is longer
    return table.get(int(identity)) if identity.isdecimal() and len(identity) < 20 else None
