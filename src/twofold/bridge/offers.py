"""Files and terminals that a bridge offers to an agent of version 1.

The client of version 2 has neither, so the bridge reads, writes and runs, if it was started
with `--offer`: inside the session's directories only, and only what the client's user allows. Each
file and each command is asked for by `session/request_permission`, showing all of it; what is
shown is what is done. A terminal of the bridge is one of version 2 for the client: its output byte
by byte, its exit status, and a cancel. When the session ends, so does what runs in it.
"""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from twofold.bridge.translation import Outcome, read_result
from twofold.client.files import Files
from twofold.client.terminals import Terminals, typed_command
from twofold.peer.problems import Problem, Report
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.messages import Failure, Request, RequestId
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Capability, PermissionOption, SelectedPermissionOutcome

if TYPE_CHECKING:
    from twofold.bridge.up import Up
    from twofold.bridge.up_session import UpSession

Answer: TypeAlias = Callable[["_Session", RequestId, Any], Awaitable[Any]]

REMEMBERED = 1000
"""How much of what is always allowed is remembered in a session."""

_ALLOW = PermissionOption("allow", "Allow", "allow_once")
_ALWAYS = PermissionOption("allow-always", "Always allow exactly this", "allow_always")
_REJECT = PermissionOption("reject", "Reject", "reject_once")
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
        self._always: dict[tuple[str, ...], None] = {}
        self._asking: set[asyncio.Future[bool | None]] = set()

    @property
    def over(self) -> bool:
        """The client is done with it, whatever the agent still does."""
        return self.known.muted == "closed"

    async def end(self) -> None:
        """End what runs here; what was asked is not allowed any more."""
        for future in self._asking:
            if not future.done():
                future.set_result(None)
        await self.terminals.close()

    # ---- files

    async def read(self, asker: RequestId, params: v1.ReadTextFileRequest) -> Any:
        path = self.files.path_of(params.path)
        if ("read", str(path)) in self._always:
            return self.files.read(params, path)
        call = _file_call("read", f"Read {path}", path)
        return await self._with_call(asker, call, lambda: self.files.read(params, path))

    async def write(self, asker: RequestId, params: v1.WriteTextFileRequest) -> Any:
        path = self.files.path_of(params.path)
        change = self.files.change(params, path)
        call = _file_call("edit", f"Write {path}", path, *change)
        return await self._with_call(asker, call, lambda: self.files.write(params, path))

    async def _with_call(
        self, asker: RequestId, call: v2.ToolCallPatch, work: Callable[[], Any]
    ) -> Any:
        """Do something if it is allowed; the client has a tool call of it."""
        # a file that may be read is the same file next time; what is written is another text
        options = [_ALLOW, _ALWAYS, _REJECT] if call.kind == "read" else [_ALLOW, _REJECT]
        key = (str(call.kind), *(each.path for each in call.locations or ()))
        status = "failed"
        try:
            subject = v2.ToolCallPermissionSubject(call)
            await self._allowed(asker, key, str(call.title), subject, options)
            result = work()
            status = "completed"
        finally:
            self._tell(v2.ToolCallUpdate(call.tool_call_id, status=status))
        return result

    # ---- terminals

    async def create(self, asker: RequestId, params: v1.CreateTerminalRequest) -> Any:
        checked = self.terminals.directory_of(params)
        cwd = str(checked)
        command = typed_command(params)
        key = ("execute", command, cwd)
        if key not in self._always:
            subject = v2.CommandPermissionSubject(command, cwd)
            options = [_ALLOW, _ALWAYS, _REJECT]
            await self._allowed(asker, key, f"Run {command}", subject, options)
        return await self.terminals.create(params, checked)

    # ---- permission

    async def _allowed(
        self,
        asker: RequestId,
        key: tuple[str, ...],
        title: str,
        subject: v2.RequestPermissionSubject,
        options: list[PermissionOption],
    ) -> None:
        """Ask the client's user; raises if it is not allowed."""
        turn = self.known.turn
        if turn is not None and turn.cancelled:
            raise RequestError.cancelled()
        future: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._asking.add(future)

        def decided(allowed: bool | None) -> None:
            if not future.done():
                future.set_result(allowed)

        def answered(answer: Outcome) -> None:
            chosen = _chosen(answer)
            if (
                chosen == _ALWAYS.option_id
                and _ALWAYS in options
                and len(self._always) < REMEMBERED
            ):
                self._always[key] = None
            decided(chosen in {each.option_id for each in options if each is not _REJECT})

        request = v2.RequestPermissionRequest(
            self.known.session_id, title, options, subject=subject
        )
        method = "session/request_permission"
        try:
            self._up.ask_user(self.known, method, request, asker, answered, lambda: decided(None))
            allowed = await future
        finally:
            self._asking.discard(future)
        if allowed is None or self.over:
            raise RequestError.cancelled()
        if not allowed:
            raise RequestError.not_allowed()

    # ---- what the client is told

    def _happened(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if isinstance(update, v2.TerminalUpdate):
            update = self._with_capabilities(update)
        self._tell(update)

    def _tell(self, update: v2.SessionUpdate) -> None:
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
            result = await _ANSWERS[request.method](session, request.id, params)
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
            _start(session.end(), self._ending)

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


def _file_call(kind: str, title: str, path: Path, *content: v2.ToolCallContent) -> v2.ToolCallPatch:
    return v2.ToolCallPatch(
        f"bridge:{uuid.uuid4().hex}",
        title=title,
        kind=kind,
        status="pending",
        content=list(content) or UNSET,
        locations=[v2.ToolCallLocation(str(path))],
    )


def _chosen(answer: Outcome) -> str | None:
    """The option that the user chose; None for an answer that is no choice."""
    if isinstance(answer, Failure):
        return None
    try:
        outcome = read_result(answer, v2.RequestPermissionResponse).outcome
    except Malformed:
        return None
    return outcome.option_id if isinstance(outcome, SelectedPermissionOutcome) else None


async def _output(session: _Session, asker: RequestId, params: v1.TerminalRequest) -> Any:
    return session.terminals.output(params)


async def _wait_for_exit(session: _Session, asker: RequestId, params: v1.TerminalRequest) -> Any:
    return await session.terminals.wait_for_exit(params)


async def _kill(session: _Session, asker: RequestId, params: v1.TerminalRequest) -> Any:
    return session.terminals.kill(params)


async def _release(session: _Session, asker: RequestId, params: v1.TerminalRequest) -> Any:
    return session.terminals.release(params)


_ANSWERS: dict[str, Answer] = {
    "fs/read_text_file": _Session.read,
    "fs/write_text_file": _Session.write,
    "terminal/create": _Session.create,
    "terminal/output": _output,
    "terminal/wait_for_exit": _wait_for_exit,
    "terminal/kill": _kill,
    "terminal/release": _release,
}
