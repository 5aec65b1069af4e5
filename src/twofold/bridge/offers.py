"""Files and terminals that a bridge offers to an agent of version 1.

The client of version 2 has neither, so the bridge is asked, if whoever starts it wants that: inside
the session's directories only. A terminal of the bridge is one of version 2 for the client, byte by
byte.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.messages import Request
from twofold.runtime.errors import Problem, Report
from twofold.runtime.files import Files
from twofold.runtime.terminals import Terminals
from twofold.wire import codec, v1, v2

if TYPE_CHECKING:
    from twofold.bridge.up import Up

Answer: TypeAlias = Callable[["_Session", Any], Any]


class _Session:
    """What a session may touch, and what runs in it."""

    def __init__(self, roots: list[str], tell: Callable[[v2.SessionUpdate], None]) -> None:
        self.files = Files(roots)
        self.terminals = Terminals(roots, on_update=tell)


class Offers:
    """Answers `fs/*` and `terminal/*` for the sessions of a bridge."""

    def __init__(self, offered: Collection[str], report: Report) -> None:
        self._offered = frozenset(offered)
        self._report = report
        self._sessions: dict[str, _Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, up: "Up", request: Request) -> None:
        """Answer a request of the agent, in its own time."""
        kind = request.method.partition("/")[0]
        if kind not in self._offered:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        session = self._session(up, params.session_id)
        task = asyncio.create_task(self._serve(up, request, session, params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _session(self, up: "Up", session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            known = up.session(session_id)
            if not known.roots:
                raise RequestError.invalid_params("there is no such session")
            session = _Session(known.roots, lambda update: up.tell(known, update))
            self._sessions[session_id] = session
        return session

    async def _serve(self, up: "Up", request: Request, session: _Session, params: Any) -> None:
        try:
            result = _ANSWERS[request.method](session, params)
            if asyncio.iscoroutine(result):
                result = await result
        except RequestError as error:
            up.fail(up.agent, request.id, error)
        except Exception as error:
            text = f"{request.method} failed: {type(error).__name__}: {error}"
            self._report(Problem("handler", text, error=error))
            up.fail(up.agent, request.id, RequestError(INTERNAL_ERROR, "Internal error"))
        else:
            up.respond(up.agent, request.id, v1.Empty() if result is None else result)

    def cancel(self, session_id: str, terminal_id: str) -> bool:
        """End what runs in a terminal of the bridge; false if it has none of that name."""
        session = self._sessions.get(session_id)
        if session is None:
            return False
        try:
            session.terminals.kill(v1.TerminalRequest(session_id, terminal_id))
        except RequestError:
            return False
        return True

    def forget(self, session_id: str) -> None:
        """A session is over: what runs in it is ended."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            task = asyncio.create_task(session.terminals.close())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End everything that runs."""
        for task in list(self._tasks):
            task.cancel()
        for session in self._sessions.values():
            await session.terminals.close()


_ANSWERS: dict[str, Answer] = {
    "fs/read_text_file": lambda session, params: session.files.read(params),
    "fs/write_text_file": lambda session, params: session.files.write(params),
    "terminal/create": lambda session, params: session.terminals.create(params),
    "terminal/output": lambda session, params: session.terminals.output(params),
    "terminal/wait_for_exit": lambda session, params: session.terminals.wait_for_exit(params),
    "terminal/kill": lambda session, params: session.terminals.kill(params),
    "terminal/release": lambda session, params: session.terminals.release(params),
}
