"""One client of an agent: requests in either version, answered by the same handlers.

Version 1 is lifted on its way in and lowered on its way out, so that everything here is version 2
but the life of a prompt: version 1 gets its result when the turn is over, version 2 at once, and
then the user's message, `running`, what the agent says, and `idle`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.capabilities import downgrade_agent
from twofold.convert.detect import dialect_of_request
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.options import MODE
from twofold.convert.setup import downgrade_result, upgrade_params
from twofold.errors import LocalError
from twofold.rpc.errors import INVALID_REQUEST, RESOURCE_NOT_FOUND, RequestError
from twofold.rpc.messages import Notification, Request
from twofold.runtime.agent.session import AgentSession
from twofold.runtime.agent.turns import Turns
from twofold.runtime.errors import Problem
from twofold.runtime.inbox import spawn
from twofold.runtime.peer import Peer
from twofold.runtime.transport import Transport
from twofold.session import Session
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed

if TYPE_CHECKING:
    from twofold.runtime.agent.agent import Agent

Handle: TypeAlias = Callable[["AgentConnection", Any], Awaitable[Any]]

PAGE = 100
"""How many sessions one answer to `session/list` holds."""
_OPEN = frozenset({"pending", "in_progress", "paused"})


class AgentConnection:
    """An agent and one of its clients."""

    def __init__(self, agent: "Agent", transport: Transport) -> None:
        self.agent = agent
        self.version: int = 0
        """What was agreed on; 0 before the client has said anything."""
        self.client: v2.InitializeRequest | None = None
        """What the client said of itself, in the words of version 2."""
        self.client_session_capabilities: v1.ClientSessionCapabilities | None = None
        """What a client of version 1 said that it shows."""
        self.peer = Peer(transport, self, who="client", report=agent.report)
        self.report = agent.report
        self.sessions: dict[str, AgentSession] = {}
        self.over = asyncio.Event()
        self._turns = Turns(self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lost: set[tuple[str, str]] = set()

    async def serve(self) -> None:
        """Answer the client until it is gone."""
        self.peer.start()
        try:
            await self.over.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop every turn, keep what was said, and end the conversation."""
        self.over.set()
        for session in self.sessions.values():
            self._turns.cancel(session)
        await self._turns.settle()
        for session in self.sessions.values():
            session.keep()
        for task in self._tasks:
            task.cancel()
        await self.peer.close()

    # ---- what the client says (`Listener`)

    def updated(self, update: Any, size: int) -> None:
        """Never called: a client sends no updates."""

    def notified(self, notification: Notification) -> None:
        """The client tells something."""
        if notification.method == "session/cancel":
            self._cancelled(notification)
            return
        handler = self.agent.notifications.get(notification.method)
        if handler is not None:
            spawn(self._tell(handler, notification), self._tasks)
        elif not notification.method.startswith(("_", "$/")):
            text = f"The client sent a notification that is unknown: {notification.method}"
            self.report(Problem("noise", text))

    async def _tell(
        self, handler: Callable[[Any], Awaitable[None]], notification: Notification
    ) -> None:
        try:
            await handler(_plain(notification.params))
        except Exception as error:
            text = f"Handling {notification.method} failed: {error}"
            self.report(Problem("handler", text, error=error))

    def _cancelled(self, notification: Notification) -> None:
        try:
            params = codec.decode(notification.params or b"{}", v2.SessionParams)
        except Malformed as error:
            self.report(Problem("noise", f"session/cancel: {error}"))
            return
        session = self.sessions.get(params.session_id)
        if session is not None:
            self._turns.cancel(session)

    def requested(self, request: Request) -> None:
        """The client wants something."""
        self.peer.serve(request, self._answer)

    def ended(self, error: Exception | None) -> None:
        """The client is gone."""
        self.over.set()

    # ---- requests

    async def _answer(self, request: Request) -> Any:
        extension = self.agent.methods.get(request.method)
        if extension is not None:
            return await extension(_plain(request.params))
        if request.method == "initialize":
            return await self._initialize(_plain(request.params))
        if not self.version:
            reason = {"reason": "initialize comes first"}
            raise RequestError(INVALID_REQUEST, "Not initialized", reason)
        return await (self._answer_v1 if self.version == 1 else self._answer_v2)(request)

    async def _answer_v2(self, request: Request) -> Any:
        handle = _HANDLERS.get(request.method)
        if handle is None:
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", v2.METHODS[request.method].params)
        return await handle(self, params)

    async def _answer_v1(self, request: Request) -> Any:
        known = v1.METHODS.get(request.method)
        if known is None or known.side == "client":
            raise RequestError.method_not_found(request.method)
        params = codec.decode(request.params or b"{}", known.params)
        losses = Losses()
        try:
            method, lifted = upgrade_params(request.method, params, losses)
        except NotConvertible as refused:
            raise RequestError.invalid_params(str(refused)) from None
        for loss in losses:
            self.lost(None, loss.path, loss.reason)
        if request.method == "session/set_mode":
            lifted = replace(lifted, config_id=self._mode_option(lifted.session_id))
        if method == "session/prompt":
            return await self._turns.prompt_v1(self.session(lifted.session_id), lifted.prompt)
        result = await _HANDLERS[method](self, lifted)
        if request.method == "session/set_mode":
            return v1.Empty()
        return self._lowered(method, result)

    def _lowered(self, method: str, result: Any) -> Any:
        losses = Losses()
        if isinstance(result, v2.NewSessionResponse | v2.ResumeSessionResponse):
            result = replace(result, available_commands=UNSET)  # told by an update
        lowered = downgrade_result(method, result, losses)
        for loss in losses:
            self.lost(None, loss.path, loss.reason)
        return lowered

    def _mode_option(self, session_id: str) -> str:
        for option in self.session(session_id).state.config_options:
            if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
                return option.config_id
        raise RequestError.invalid_params("there are no modes")

    # ---- initialize and authentication

    async def _initialize(self, params: Any) -> Any:
        asked = params.get("protocolVersion") if isinstance(params, dict) else None
        if not isinstance(asked, int) or isinstance(asked, bool):
            raise RequestError.invalid_params("protocolVersion must be an integer")
        wanted = 2 if asked >= 2 and dialect_of_request(params) != "1" else 1
        self.version = wanted if wanted in self.agent.versions else min(self.agent.versions)
        if self.version == 1:
            return self._initialized_v1(params)
        read: v2.InitializeRequest | v2.AugustInitializeRequest = codec.read(
            params, v2.InitializeRequest
        )
        info = read.info or v2.Implementation("unknown", "0")
        self.client = v2.InitializeRequest(read.protocol_version, info, read.capabilities)
        return self.agent.introduction()

    def _initialized_v1(self, params: Any) -> v1.InitializeResponse:
        read: v1.InitializeRequest = codec.read(params, v1.InitializeRequest)
        info = read.client_info or v2.Implementation("unknown", "0")
        self.client = v2.InitializeRequest(1, info)
        able = read.client_capabilities
        self.client_session_capabilities = (able.session or None) if able else None
        lowered = downgrade_agent(self.agent.introduction(), Losses())
        return self.agent.as_v1(lowered)

    async def _login(self, params: v2.LoginAuthRequest) -> v2.Empty:
        known = {getattr(method, "method_id", "") for method in self.agent.auth_methods}
        if params.method_id not in known:
            raise RequestError.invalid_params(f"there is no method {params.method_id!r}")
        if self.agent.on_authenticate is not None:
            await self.agent.on_authenticate(params.method_id)
        return v2.Empty()

    async def _logout(self, params: v2.Empty) -> v2.Empty:
        if not self.agent.auth_methods:
            raise RequestError.method_not_found("logout")
        if self.agent.on_logout is not None:
            await self.agent.on_logout()
        return v2.Empty()

    # ---- sessions

    def session(self, session_id: str) -> AgentSession:
        """An open session; raises what the client is told if there is none."""
        session = self.sessions.get(session_id)
        if session is None:
            data = {"reason": f"there is no open session {session_id!r}"}
            raise RequestError(RESOURCE_NOT_FOUND, "Session not found", data)
        return session

    async def _new(self, params: v2.NewSessionRequest) -> v2.NewSessionResponse:
        info = v2.SessionInfo(
            self.agent.new_session_id(),
            params.cwd,
            params.additional_directories,
            updated_at=_now(),
        )
        session = AgentSession(self, info)
        session.mcp_servers = list(params.mcp_servers or [])
        self.sessions[info.session_id] = session
        try:
            await self._set_up(session)
        except BaseException:
            del self.sessions[info.session_id]
            raise
        self.agent.store.create(info)
        session.keep()
        return v2.NewSessionResponse(
            info.session_id,
            session.state.config_options or UNSET,
            session.state.commands or UNSET,
        )

    async def _set_up(self, session: AgentSession) -> None:
        if self.agent.on_session is not None:
            await self.agent.on_session(session)

    async def _resume(self, params: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        if params.replay_from and not isinstance(params.replay_from, v2.ReplayFromStart):
            raise RequestError.invalid_params(
                f"cannot replay from {params.replay_from.tag!r}, only from the start"
            )
        session = self.sessions.get(params.session_id) or self._loaded(params)
        session.mcp_servers = list(params.mcp_servers or [])
        if params.replay_from:
            await session.replay()
        else:
            session.start_telling()
            session.tell_state()
        return v2.ResumeSessionResponse(
            session.state.config_options or UNSET, session.state.commands or UNSET
        )

    def _loaded(self, params: v2.ResumeSessionRequest) -> AgentSession:
        info = self.agent.store.info(params.session_id)
        state = self.agent.store.load(params.session_id) if info is not None else None
        if info is None or state is None:
            data = {"reason": f"there is no session {params.session_id!r}"}
            raise RequestError(RESOURCE_NOT_FOUND, "Session not found", data)
        info = replace(info, cwd=params.cwd, additional_directories=params.additional_directories)
        session = AgentSession(self, info, state)
        self.sessions[info.session_id] = session
        _settle(session, state)
        return session

    async def _list(self, params: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        for session in self.sessions.values():
            session.keep()
        infos = [
            info for info in self.agent.store.list() if not params.cwd or info.cwd == params.cwd
        ]
        start = int(params.cursor) if params.cursor and params.cursor.isdecimal() else 0
        after = str(start + PAGE) if start + PAGE < len(infos) else UNSET
        return v2.ListSessionsResponse(infos[start : start + PAGE], after)

    async def _close_session(self, params: v2.SessionParams) -> v2.Empty:
        session = self.session(params.session_id)
        await self._end(session)
        return v2.Empty()

    async def _delete(self, params: v2.SessionParams) -> v2.Empty:
        session = self.sessions.get(params.session_id)
        if session is not None:
            await self._end(session)
        if not self.agent.store.delete(params.session_id):
            data = {"reason": f"there is no session {params.session_id!r}"}
            raise RequestError(RESOURCE_NOT_FOUND, "Session not found", data)
        return v2.Empty()

    async def _end(self, session: AgentSession) -> None:
        self._turns.cancel(session)
        async with session.busy:  # the turn has ended
            session.keep()
            self.sessions.pop(session.session_id, None)
        if self.agent.on_close is not None:
            await self.agent.on_close(session)

    async def _set_option(
        self, params: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        session = self.session(params.session_id)
        options = _with_value(session.state.config_options, params.config_id, params.value)
        if self.agent.on_config_option is not None:
            await self.agent.on_config_option(session, params.config_id, params.value)
        await session.config_options(options)
        return v2.SetSessionConfigOptionResponse(options)

    # ---- turns

    async def _prompt(self, params: v2.PromptRequest) -> v2.PromptResponse:
        return await self._turns.prompt_v2(self.session(params.session_id), params.prompt)

    async def _cancel_call(self, params: v2.CancelToolCallRequest) -> v2.Empty:
        turn = self.session(params.session_id).turn
        call = turn.calls.get(params.tool_call_id) if turn is not None else None
        return await _stopped(call.on_cancel if call is not None else None)

    async def _cancel_terminal(self, params: v2.CancelTerminalRequest) -> v2.Empty:
        turn = self.session(params.session_id).turn
        terminal = turn.terminals.get(params.terminal_id) if turn is not None else None
        return await _stopped(terminal.on_cancel if terminal is not None else None)

    # ---- keeping

    def keep(self, session: AgentSession, updates: Sequence[v2.SessionUpdate]) -> None:
        """Have the store keep what was said."""
        if not updates:
            return
        try:
            if self.agent.store.info(session.session_id) is not None:
                self.agent.store.append(session.session_id, updates)
        except LocalError as error:
            self.report(Problem("handler", str(error), session.session_id, error))

    def describe(self, session: AgentSession) -> None:
        """Have the store keep the title and the time."""
        title = session.state.info.title
        try:
            if self.agent.store.info(session.session_id) is not None:
                info = v2.SessionInfo(
                    session.session_id,
                    session.cwd,
                    session.directories or UNSET,
                    title,
                    _now(),
                )
                self.agent.store.describe(info)
        except LocalError as error:
            self.report(Problem("handler", str(error), session.session_id, error))

    def lost(self, session: AgentSession | None, path: str, reason: str) -> None:
        """Something that version 1 cannot say; each is told of once."""
        if (path, reason) not in self._lost and len(self._lost) < 1000:
            self._lost.add((path, reason))
            name = session.session_id if session is not None else None
            self.report(Problem("loss", f"{path}: {reason}", name))


_HANDLERS: dict[str, Handle] = {
    "auth/login": AgentConnection._login,
    "auth/logout": AgentConnection._logout,
    "session/new": AgentConnection._new,
    "session/list": AgentConnection._list,
    "session/delete": AgentConnection._delete,
    "session/resume": AgentConnection._resume,
    "session/close": AgentConnection._close_session,
    "session/set_config_option": AgentConnection._set_option,
    "session/prompt": AgentConnection._prompt,
    "tool_call/cancel": AgentConnection._cancel_call,
    "terminal/cancel": AgentConnection._cancel_terminal,
}


async def _stopped(on_cancel: Callable[[], Awaitable[None] | None] | None) -> v2.Empty:
    if on_cancel is None:
        raise RequestError.invalid_params("this cannot be cancelled by itself")
    waiting = on_cancel()
    if waiting is not None:
        await waiting
    return v2.Empty()


def _settle(session: AgentSession, state: Session) -> None:
    """What was going on when the agent was ended goes on no more."""
    for call in state.tool_calls.values():
        if call.status in _OPEN:
            session.record(v2.ToolCallUpdate(call.tool_call_id, status="cancelled"))
    if state.state != "idle":
        session.record(v2.StateUpdate("idle", "cancelled"))


def _with_value(
    options: list[v2.SessionConfigOption], config_id: str, value: Any
) -> list[v2.SessionConfigOption]:
    changed: list[v2.SessionConfigOption] = []
    found = False
    for option in options:
        if isinstance(option, v2.SessionConfigCommon) and option.config_id == config_id:
            _check_value(option, value)
            changed.append(replace(option, current_value=value))
            found = True
        else:
            changed.append(option)
    if not found:
        raise RequestError.invalid_params(f"there is no config option {config_id!r}")
    return changed


def _check_value(option: Any, value: Any) -> None:
    if isinstance(option, v2.SessionConfigBoolean):
        if not isinstance(value, bool):
            raise RequestError.invalid_params(f"{option.config_id!r} is true or false")
        return
    values: list[str] = []
    for entry in option.options:
        group = isinstance(entry, v2.SessionConfigSelectGroup)
        values += [each.value for each in entry.options] if group else [entry.value]
    if value not in values:
        raise RequestError.invalid_params(f"{option.config_id!r} is one of {', '.join(values)}")


def _plain(params: Any) -> Any:
    return {} if params is UNSET else codec.parse(params)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
