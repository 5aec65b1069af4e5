"""The requests of a peer, each from its arrival to its one answer.

Every request is answered by a task of its own, so that one may wait for another. However the task
ends (with a result, an error, a cancel) the request is answered exactly once, unless the peer is
gone. A peer that sends more requests than can be worked on has to wait. An error that was not
meant for the peer is reported here, and the peer gets "Internal error".
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from twofold.peer.problems import Problem, Report, described
from twofold.rpc import connection
from twofold.rpc.connection import Request, RequestId, find_id
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.wire import codec
from twofold.wire.base import Malformed

Answer: TypeAlias = Callable[[Request], Awaitable[Any]]

SERVED = 1024
"""How many requests are worked on before the peer has to wait."""
REST = 0.05
"""How many seconds it waits: a message that lets them end may come after them on the wire."""
REFUSED = 16 * SERVED
"""How many requests are worked on before more are refused."""


class Answering:
    """Answers requests in tasks. `hold` and `release` make the peer wait.

    Args:
        who: What messages call the peer.
        reply: Called with a request and the line that answers it.
        report: Called with every problem.
        hold: Called with this object when the peer has to wait.
        release: Called with this object when it no longer has to.
    """

    def __init__(
        self,
        who: str,
        reply: Callable[[Request, bytes], None],
        report: Report,
        *,
        hold: Callable[["Answering"], None],
        release: Callable[["Answering"], None],
    ) -> None:
        self._who = who
        self._reply = reply
        self._report = report
        self._hold, self._release = hold, release
        self._fresh: dict[RequestId, bool] = {}
        """Requests that have no task yet, and whether the peer has cancelled them."""
        self._served: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        self._refusing = False
        """Whether it was reported that requests are refused."""
        self._stopped = False

    def add(self, request: Request) -> None:
        """Remember a request that arrived, so that the peer can cancel it before it is served."""
        self._fresh[request.id] = False

    def serve(self, request: Request, answer: Answer) -> None:
        """Answer `request` with what `answer` returns or raises, in a task of its own."""
        if self._stopped:
            return
        cancelled = self._fresh.pop(request.id, False)
        if len(self._tasks) >= REFUSED:
            advice = "wait for answers before you ask more"
            self.refuse(request, RequestError.too_many("requests at once", REFUSED, advice))
            self._report_refusing()
            return
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._serve(request, answer))
        if task.done():  # where tasks begin at once
            return
        self._tasks.add(task)
        # an id that is used twice at once is answered twice; only the latter can be cancelled
        self._served[request.id] = task
        if cancelled:
            _cancel(task)
        if len(self._tasks) >= SERVED and self._rest is None:
            self._hold(self)
            self._rest = loop.call_later(REST, self._rested)

    def _report_refusing(self) -> None:
        if not self._refusing:
            self._refusing = True
            text = f"More than {REFUSED} requests of the {self._who} wait: more are refused"
            self._report(Problem("limit", text))

    async def _serve(self, request: Request, answer: Answer) -> None:
        try:
            line = connection.respond(request.id, codec.encode(await answer(request)))
        except Exception as error:
            self.refuse(request, error)
        except asyncio.CancelledError:
            self.refuse(request, RequestError.cancelled())
            raise
        else:
            self._reply(request, line)
        finally:
            self._done(request)

    def _done(self, request: Request) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.discard(task)
        if self._served.get(request.id) is task:
            del self._served[request.id]
        if len(self._tasks) < SERVED:
            self._refusing = False
            if self._rest is not None:
                self._rested()

    def _rested(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._release(self)

    def cancel(self, identity: RequestId | None) -> None:
        """Cancel the task of a request; the peer gets "Request cancelled"."""
        served = find_id(self._served, identity)
        if served is not None:
            _cancel(self._served[served])
        elif identity in self._fresh:
            self._fresh[identity] = True

    # ---- errors

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer `request` with an error, or with "Internal error" if it was not for the peer."""
        self._fresh.pop(request.id, None)
        try:
            line = connection.fail(request.id, self._as_error(request, error), codec.encode)
        except Exception as wrong:  # the data of an error that a handler raised may be anything
            line = connection.fail(request.id, self._as_error(request, wrong))
        self._reply(request, line)

    def _as_error(self, request: Request, error: Exception) -> RequestError:
        meant = error_for_peer(error)
        if meant is not None:
            return meant
        text = f"Answering {request.method} failed: {described(error)}"
        self._report(Problem("handler", text, error=error))
        return RequestError(INTERNAL_ERROR, "Internal error")

    # ---- the end

    def stop(self) -> None:
        """Cancel every task: the peer is gone."""
        self._stopped = True
        self._fresh.clear()
        for task in self._tasks - {asyncio.current_task()}:
            _cancel(task)
        if self._rest is not None:
            self._rested()

    async def stopped(self, patience: float) -> None:
        """Wait until every task has ended, at most `patience` seconds."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=patience)


def error_for_peer(error: Exception) -> RequestError | None:
    """The error that a peer gets for what its request raised; None if it is not meant for peers."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, Malformed):
        return RequestError.invalid_params(str(error))
    return None


def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task, but let it begin first: only then is its request answered."""
    asyncio.get_running_loop().call_soon(task.cancel)
