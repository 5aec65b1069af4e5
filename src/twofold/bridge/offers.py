"""Files and terminals that a bridge offers to a v1 agent.

A v2 client has neither, so the bridge reads, writes and runs commands itself, if it was started
with `--offer`: inside the session's directories only, and only what the client's user allows. Each
file and each command is shown in full in a `session/request_permission`, and exactly that is done.
To the client a terminal of the bridge is a v2 terminal: it gets the output byte by byte and the
exit status, and it can cancel the command. When the session ends, its commands are ended.
"""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from msgspec.structs import replace

from twofold.bridge.exchange import Answer, Endpoint, OnAnswer, read_result
from twofold.client.files import Files
from twofold.client.terminals import Terminals, typed_command
from twofold.peer.problems import Problem, Report
from twofold.rpc.connection import Failure, Request, RequestId
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Capability, PermissionOption, SelectedPermissionOutcome

REMEMBERED = 1000
"""How many permissions for always are remembered in a session."""

_ALLOW = PermissionOption("allow", "Allow", "allow_once")
_ALWAYS = PermissionOption("allow-always", "Always allow exactly this", "allow_always")
_REJECT = PermissionOption("reject", "Reject", "reject_once")
_CAN_CANCEL = v2.TerminalCapabilities(cancel=Capability())


class OfferedSession(Protocol):
    """A session of the translation, as far as it matters here."""

    session_id: str
    roots: list[str]
    """The directories that it may touch."""

    @property
    def closed(self) -> bool:
        """Whether the client closed it."""

    @property
    def cancelled(self) -> bool:
        """Whether its turn was cancelled."""


class Translation(Protocol):
    """The translation that files and terminals are offered in, which is `Up`."""

    @property
    def sessions(self) -> Mapping[str, OfferedSession]: ...

    @property
    def agent(self) -> Endpoint: ...

    def ask_user(
        self,
        session: Any,
        method: str,
        params: Any,
        origin: RequestId,
        answered: OnAnswer,
        dismiss: Callable[[], None],
    ) -> None: ...

    def send_update(self, session: Any, update: v2.SessionUpdate) -> None: ...


class _Workspace:
    """The files and terminals of one session."""

    def __init__(
        self, translation: Translation, session: OfferedSession, pass_env: Collection[str]
    ) -> None:
        self.session = session
        self.roots = list(session.roots)
        self.files = Files(self.roots)
        self.terminals = Terminals(self.roots, on_update=self._terminal_update, pass_env=pass_env)
        self.running: set[str] = set()
        """The terminals that the client may cancel."""
        self._translation = translation
        self._always: dict[tuple[str, ...], None] = {}
        self._asking: set[asyncio.Future[bool | None]] = set()

    async def end(self) -> None:
        """End every command; a permission that is still open counts as cancelled."""
        for future in self._asking:
            if not future.done():
                future.set_result(None)
        await self.terminals.close()

    # ---- files

    async def read(self, origin: RequestId, params: v1.ReadTextFileRequest) -> Any:
        path = self.files.path_of(params.path)
        if ("read", str(path)) in self._always:
            return self.files.read(params, path)
        call = _file_call("read", f"Read {path}", path)
        return await self._with_call(origin, call, lambda: self.files.read(params, path))

    async def write(self, origin: RequestId, params: v1.WriteTextFileRequest) -> Any:
        path = self.files.path_of(params.path)
        change = self.files.change(params, path)
        call = _file_call("edit", f"Write {path}", path, *change)
        return await self._with_call(origin, call, lambda: self.files.write(params, path))

    async def _with_call(
        self, origin: RequestId, call: v2.ToolCallPatch, work: Callable[[], Any]
    ) -> Any:
        """Do `work` if it is allowed; the client is shown a tool call for it."""
        # a file that may be read is the same file next time; what is written is another text
        options = [_ALLOW, _ALWAYS, _REJECT] if call.kind == "read" else [_ALLOW, _REJECT]
        key = (str(call.kind), *(each.path for each in call.locations or ()))
        status = "failed"
        try:
            subject = v2.ToolCallPermissionSubject(call)
            await self._require_permission(origin, key, str(call.title), subject, options)
            result = work()
            status = "completed"
        finally:
            self._send(v2.ToolCallUpdate(call.tool_call_id, status=status))
        return result

    # ---- terminals

    async def create(self, origin: RequestId, params: v1.CreateTerminalRequest) -> Any:
        checked = self.terminals.directory_of(params)
        cwd = str(checked)
        command = typed_command(params)
        key = ("execute", command, cwd)
        if key not in self._always:
            subject = v2.CommandPermissionSubject(command, cwd)
            options = [_ALLOW, _ALWAYS, _REJECT]
            await self._require_permission(origin, key, f"Run {command}", subject, options)
        return await self.terminals.create(params, checked)

    async def output(self, origin: RequestId, params: v1.TerminalRequest) -> Any:
        return self.terminals.output(params)

    async def wait_for_exit(self, origin: RequestId, params: v1.TerminalRequest) -> Any:
        return await self.terminals.wait_for_exit(params)

    async def kill(self, origin: RequestId, params: v1.TerminalRequest) -> Any:
        return self.terminals.kill(params)

    async def release(self, origin: RequestId, params: v1.TerminalRequest) -> Any:
        return self.terminals.release(params)

    # ---- permission

    async def _require_permission(
        self,
        origin: RequestId,
        key: tuple[str, ...],
        title: str,
        subject: v2.RequestPermissionSubject,
        options: list[PermissionOption],
    ) -> None:
        """Ask the client's user; raise `RequestError` unless it is allowed."""
        if self.session.cancelled:
            raise RequestError.cancelled()
        future: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._asking.add(future)

        def decided(allowed: bool | None) -> None:
            if not future.done():
                future.set_result(allowed)

        def answered(answer: Answer) -> None:
            chosen = _chosen(answer)
            always = chosen == _ALWAYS.option_id and _ALWAYS in options
            if always and len(self._always) < REMEMBERED:
                self._always[key] = None
            decided(chosen in {each.option_id for each in options if each is not _REJECT})

        session = self.session
        request = v2.RequestPermissionRequest(session.session_id, title, options, subject=subject)
        method = "session/request_permission"
        ask = self._translation.ask_user
        try:
            ask(session, method, request, origin, answered, lambda: decided(None))
            allowed = await future
        finally:
            self._asking.discard(future)
        if allowed is None or session.closed:
            raise RequestError.cancelled()
        if not allowed:
            raise RequestError.not_allowed()

    # ---- updates

    def _terminal_update(self, update: v2.TerminalUpdate | v2.TerminalOutputChunk) -> None:
        if isinstance(update, v2.TerminalUpdate):
            update = self._with_capabilities(update)
        self._send(update)

    def _send(self, update: v2.SessionUpdate) -> None:
        session = self.session
        current = self._translation.sessions.get(session.session_id) is session
        if current and not session.closed:
            self._translation.send_update(session, update)

    def _with_capabilities(self, update: v2.TerminalUpdate) -> v2.TerminalUpdate:
        """Add whether the terminal can be cancelled, which ends with its exit."""
        if update.exit_status is not UNSET:
            self.running.discard(update.terminal_id)
            return replace(update, capabilities=None)
        if update.command is not UNSET:
            self.running.add(update.terminal_id)
            return replace(update, capabilities=_CAN_CANCEL)
        return update


_Handler: TypeAlias = Callable[[_Workspace, RequestId, Any], Awaitable[Any]]

_HANDLERS: dict[str, _Handler] = {
    "fs/read_text_file": _Workspace.read,
    "fs/write_text_file": _Workspace.write,
    "terminal/create": _Workspace.create,
    "terminal/output": _Workspace.output,
    "terminal/wait_for_exit": _Workspace.wait_for_exit,
    "terminal/kill": _Workspace.kill,
    "terminal/release": _Workspace.release,
}


class Offers:
    """Answers the agent's requests `fs/*` and `terminal/*`.

    Args:
        offered: Which of "fs" and "terminal" are offered.
        report: Receives the problems.
        pass_env: The names of further environment variables that commands get.
    """

    def __init__(
        self, offered: Collection[str], report: Report, pass_env: Collection[str] = ()
    ) -> None:
        self._offered = frozenset(offered)
        self._pass_env = tuple(pass_env)
        self._report = report
        self._workspaces: dict[str, _Workspace] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def answer(self, translation: Translation, request: Request) -> None:
        """Start to answer a request of the agent.

        Raises:
            RequestError: The method is not offered, or the session is not open.
        """
        if request.method.partition("/")[0] not in self._offered:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v1.METHODS[request.method].params)
        workspace = self._workspace(translation, params.session_id)
        _start(self._answer(translation.agent, request, workspace, params), self._answering)

    def _workspace(self, translation: Translation, session_id: str) -> _Workspace:
        session = translation.sessions.get(session_id)
        if session is None or not session.roots or session.closed:
            raise RequestError.invalid_params("there is no such session")
        known = self._workspaces.get(session_id)
        if known is not None and known.session is session and known.roots == session.roots:
            return known
        if not all(map(os.path.isabs, session.roots)):
            raise RequestError.invalid_params("the session's directories are not absolute")
        self.forget(session_id)  # it was set up again, with other directories
        workspace = _Workspace(translation, session, self._pass_env)
        self._workspaces[session_id] = workspace
        return workspace

    async def _answer(
        self, agent: Endpoint, request: Request, workspace: _Workspace, params: Any
    ) -> None:
        try:
            result = await _HANDLERS[request.method](workspace, request.id, params)
        except RequestError as error:
            agent.fail(request.id, error)
        except Exception as error:
            text = f"{request.method} failed: {type(error).__name__}: {error}"
            self._report(Problem("handler", text, error=error))
            agent.fail(request.id, RequestError(INTERNAL_ERROR, "Internal error"))
        else:
            agent.respond(request.id, result)

    def cancel(self, session_id: str, terminal_id: str) -> bool:
        """End the command of a terminal; false if none runs there."""
        workspace = self._workspaces.get(session_id)
        if workspace is None or terminal_id not in workspace.running:
            return False
        workspace.terminals.kill(v1.TerminalRequest(session_id, terminal_id))
        return True

    def forget(self, session_id: str) -> None:
        """End the commands of a session that is over."""
        workspace = self._workspaces.pop(session_id, None)
        if workspace is not None:
            _start(workspace.end(), self._ending)

    async def close(self) -> None:
        """End every command; return when they have ended, or do not react."""
        for session_id in list(self._workspaces):
            self.forget(session_id)
        # requests that wait for a command are answered when it has ended
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


def _chosen(answer: Answer) -> str | None:
    """The option that the user chose; None for any other answer."""
    if isinstance(answer, Failure):
        return None
    try:
        outcome = read_result(answer, v2.RequestPermissionResponse).outcome
    except Malformed:
        return None
    return outcome.option_id if isinstance(outcome, SelectedPermissionOutcome) else None
