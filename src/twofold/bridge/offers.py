"""Files and terminals that a bridge offers to an agent of version 1.

The client of version 2 has neither, so the bridge is asked, if whoever starts it wants that: inside
the session's directories only. A terminal of the bridge is one of version 2 for the client: its
output byte by byte, its exit status, and a cancel. Nobody is asked for permission here. When the
session ends, so does what runs in it.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.messages import Request
from twofold.runtime.errors import Problem, Report
from twofold.runtime.files import Files
from twofold.runtime.terminals import Terminals
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET
from twofold.wire.shared import Capability

if TYPE_CHECKING:
    from twofold.bridge.up import Up
    from twofold.bridge.up_session import UpSession

Answer: TypeAlias = Callable[["_Session", Any], Any]

_CAN_CANCEL = v2.TerminalCapabilities(cancel=Capability())


class _Session:
    """What a session may touch, and what runs in it."""

    def __init__(self, up: "Up", known: "UpSession", pass_env: Collection[str]) -> None:
        self.known = known
        self.roots = list(known.roots)
        self.files = Files(self.roots)
        self.terminals = Terminals(self.roots, on_update=self._happened, pass_env=pass_env)
        self.running: set[str] = set()
        """The terminals that the client may cancel."""
        self._up = up

    @property
    def over(self) -> bool:
        """The client is done with it, whatever the agent still does."""
        return self.known.muted == "closed"

    def _happened(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if isinstance(update, v2.TerminalUpdate):
            update = self._with_capabilities(update)
        if self._up.sessions.get(self.known.session_id) is self.known and not self.over:
            self._up.tell(self.known, update)

    def _with_capabilities(self, update: v2.TerminalUpdate) -> v2.TerminalUpdate:
        """Once it has exited, a terminal cannot be cancelled any more."""
        if update.exit_status is not UNSET:
            self.running.discard(update.terminal_id)
            return replace(update, capabilities=None)
        if update.command is not UNSET:
            self.running.add(update.terminal_id)
            return replace(update, capabilities=_CAN_CANCEL)
        return update


class Offers:
    """Answers `fs/*` and `terminal/*` for the sessions of a bridge."""

    def __init__(
        self, offered: Collection[str], report: Report, pass_env: Collection[str] = ()
    ) -> None:
        self._offered = frozenset(offered)
        self._pass_env = tuple(pass_env)
        self._report = report
        self._sessions: dict[str, _Session] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def answer(self, up: "Up", request: Request) -> None:
        """Answer a request of the agent, in its own time."""
        if request.method.partition("/")[0] not in self._offered:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        session = self._session(up, params.session_id)
        _start(self._serve(up, request, session, params), self._answering)

    def _session(self, up: "Up", session_id: str) -> _Session:
        known = up.sessions.get(session_id)
        if known is None or not known.roots or known.muted == "closed":
            raise RequestError.invalid_params("there is no such session")
        session = self._sessions.get(session_id)
        if session is not None and session.known is known and session.roots == known.roots:
            return session
        if not all(map(os.path.isabs, known.roots)):
            raise RequestError.invalid_params("the session's directories are not absolute")
        self.forget(session_id)  # it was set up again, elsewhere
        session = self._sessions[session_id] = _Session(up, known, self._pass_env)
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
            up.respond(up.agent, request.id, result)

    def cancel(self, session_id: str, terminal_id: str) -> bool:
        """End what runs in a terminal of the bridge; false if nothing does."""
        session = self._sessions.get(session_id)
        if session is None or terminal_id not in session.running:
            return False
        session.terminals.kill(v1.TerminalRequest(session_id, terminal_id))
        return True

    def forget(self, session_id: str) -> None:
        """A session is over: what runs in it is ended."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            _start(session.terminals.close(), self._ending)

    async def close(self) -> None:
        """End everything that runs; returns when it is gone, or will not go."""
        for session_id in list(self._sessions):
            self.forget(session_id)
        # whoever waits for a command is answered when it is gone
        await asyncio.gather(*self._ending, *self._answering, return_exceptions=True)


def _start(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


_ANSWERS: dict[str, Answer] = {
    "fs/read_text_file": lambda session, params: session.files.read(params),
    "fs/write_text_file": lambda session, params: session.files.write(params),
    "terminal/create": lambda session, params: session.terminals.create(params),
    "terminal/output": lambda session, params: session.terminals.output(params),
    "terminal/wait_for_exit": lambda session, params: session.terminals.wait_for_exit(params),
    "terminal/kill": lambda session, params: session.terminals.kill(params),
    "terminal/release": lambda session, params: session.terminals.release(params),
}
