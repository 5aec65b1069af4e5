"""One client of an agent: requests in either version, answered by the same handlers.

Version 1 is lifted on its way in and lowered on its way out, so that everything behind this is
version 2 but the life of a prompt: version 1 gets its result when the turn is over, version 2 at
once, and then the user's message, `running`, what the agent says, and `idle`.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from os.path import normpath
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from twofold.agent.prompts import Turns
from twofold.agent.session import (
    AgentSession,
    NoSuchOption,
    mode_option,
    with_value,
    without_booleans,
)
from twofold.agent.store import UnknownSession
from twofold.agent.tools import NotCancellable
from twofold.convert.capabilities import downgrade_agent, upgrade_client
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.requests import downgrade_result, upgrade_params
from twofold.convert.versions import claimed_version, version_of_client
from twofold.errors import LocalError
from twofold.peer.inbox import spawn
from twofold.peer.peer import Peer
from twofold.peer.problems import Problem, described, guarded
from twofold.rpc.errors import INVALID_REQUEST, RESOURCE_NOT_FOUND, RequestError
from twofold.rpc.messages import Notification, Request
from twofold.session import Session
from twofold.session.listing import SessionInfos, age
from twofold.transport.base import Transport
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Implementation

# The sessions that one client has open: new, resumed, listed, closed, deleted.
#
# A session is open for one client at a time: whoever resumes it takes it over. What the client is
# told before it knows of a session waits until it does; when a session was closed, nothing follows.


PAGE = 100
"""How many sessions one answer to `session/list` holds."""

OPEN = 1000
"""How many sessions a client may have open."""

_ENDED = frozenset({"completed", "failed", "cancelled"})


class Sessions:
    """The sessions of one client, and what it asks about them."""

    def __init__(self, connection: "AgentConnection") -> None:
        self.turns = Turns(connection)
        self._connection = connection
        self._agent = connection.agent
        self._open: dict[str, AgentSession] = {}

    def __bool__(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def get(self, session_id: str) -> AgentSession | None:
        """An open session, if it is one."""
        return self._open.get(session_id)

    def __getitem__(self, session_id: str) -> AgentSession:
        """An open session; raises what the client is told if there is none."""
        session = self._open.get(session_id)
        if session is None:
            raise _not_found(f"there is no open session {session_id!r}")
        return session

    # ---- beginning

    async def new(self, params: v2.NewSessionRequest) -> v2.NewSessionResponse:
        """A new session, which the agent's handler prepares."""
        self._check_room()
        identity, directories = self._agent.new_session_id(), params.additional_directories
        info = v2.SessionInfo(identity, params.cwd, directories, updated_at=_now())
        self._agent.store.create(info)
        session = AgentSession(self._connection, info)
        session.mcp_servers = list(params.mcp_servers or [])
        try:
            await self._set_up(session, self._agent.on_session)
        except BaseException:
            self._agent.store.delete(identity)
            raise
        session.keep()
        self._once_answered(session)
        options, commands = session.state.config_options, session.state.commands
        return v2.NewSessionResponse(identity, options or UNSET, commands or UNSET)

    async def resume(self, params: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """Take a session up again, and tell everything that was said in it if that is wanted."""
        if params.replay_from and not isinstance(params.replay_from, v2.ReplayFromStart):
            raise RequestError.invalid_params(
                f"cannot replay from {params.replay_from.tag!r}, only from the start"
            )
        session = self._open.get(params.session_id) or await self._loaded(params)
        async with session.opening:
            if session.closed:
                raise _not_found(f"there is no session {params.session_id!r}")
            session.cwd = params.cwd
            session.directories = list(params.additional_directories or [])
            session.mcp_servers = list(params.mcp_servers or [])
            if not session.known:
                await self._set_up(session, self._agent.on_resume)
            if params.replay_from:
                await session.replay()
            else:
                session.tell_state()
            self._once_answered(session)
            options, commands = session.state.config_options, session.state.commands
            return v2.ResumeSessionResponse(options or UNSET, commands or UNSET)

    async def _loaded(self, params: v2.ResumeSessionRequest) -> AgentSession:
        while (other := self._agent.open_sessions.get(params.session_id)) is not None:
            if other.connection is self._connection:
                return other  # somebody was faster
            await other.connection.sessions.end(other)
        self._check_room()
        info = self._agent.store.info(params.session_id)
        state = self._agent.store.load(params.session_id) if info is not None else None
        if info is None or state is None:
            raise _not_found(f"there is no session {params.session_id!r}")
        session = AgentSession(self._connection, info, state)
        _settle(session, state)
        self._register(session)
        return session

    def _check_room(self) -> None:
        if len(self._open) >= OPEN:
            raise RequestError.too_many("open sessions", OPEN, "close one before you open another")

    def _register(self, session: AgentSession) -> None:
        self._open[session.session_id] = session
        self._agent.open_sessions[session.session_id] = session

    async def _set_up(
        self, session: AgentSession, handler: Callable[[AgentSession], Awaitable[None]] | None
    ) -> None:
        self._register(session)
        try:
            if handler is not None:
                await handler(session)
        except BaseException:
            self._forget(session)
            raise

    def _once_answered(self, session: AgentSession) -> None:
        # the answer is written before the loop gets to this
        asyncio.get_running_loop().call_soon(session.begin)

    # ---- the end

    async def close(self, params: v2.SessionParams) -> v2.Empty:
        """Close a session; v2: one that is not open is closed already."""
        session = self._open.get(params.session_id)
        if session is not None:
            await self.end(session)
        return v2.Empty()

    async def delete(self, params: v2.SessionParams) -> v2.Empty:
        """Forget a session, wherever it is open; one that is not there is forgotten already."""
        session = self._agent.open_sessions.get(params.session_id)
        if session is not None:
            await session.connection.sessions.end(session)
        self._agent.store.delete(params.session_id)
        return v2.Empty()

    async def end(self, session: AgentSession) -> None:
        """Stop what goes on in a session, keep what was said, and let it go."""
        self.turns.cancel(session)
        async with session.busy:  # the turn has ended
            if self._open.get(session.session_id) is not session:
                return
            await self._free(session)
            session.flush()
            self._forget(session)

    def _forget(self, session: AgentSession) -> None:
        session.keep()
        session.closed = True
        for table in (self._open, self._agent.open_sessions):
            if table.get(session.session_id) is session:
                del table[session.session_id]

    async def _free(self, session: AgentSession) -> None:
        """Have the agent free what it holds for a session; a failure of that changes nothing."""
        if self._agent.on_close is None:
            return
        try:
            async with asyncio.timeout(self._agent.cancel_timeout):
                await self._agent.on_close(session)
        except Exception as error:
            text = f"Closing a session failed: {described(error)}"
            self._connection.report(Problem("handler", text, session.session_id, error))

    async def end_all(self) -> None:
        """The client is gone."""
        sessions = list(self._open.values())
        for session in sessions:
            session.keep()
            self.turns.cancel(session)
        await self.turns.settle()
        ends = [self.end(session) for session in sessions]
        await asyncio.gather(*ends, return_exceptions=True)

    # ---- looking

    async def list(self, params: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        """A page of the sessions that there are, the last updated first."""
        infos = _in_directory(self._agent.store.list(), params.cwd or None)
        if params.cursor:
            # by what was shown last: sessions come, go and move up between two pages
            last = age(_read_cursor(params.cursor))
            infos = [info for info in infos if age(info) < last]
        page = infos[:PAGE]
        return v2.ListSessionsResponse(page, _cursor(page[-1]) if infos[PAGE:] else UNSET)

    # ---- what can be set and stopped

    async def set_option(
        self, params: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        """Set a config option; the agent's handler has the last word."""
        session = self[params.session_id]
        before = session.state.config_options
        try:
            options = with_value(before, params.config_id, params.value)
        except NoSuchOption as error:
            raise RequestError.invalid_params(str(error)) from None
        session.record(v2.ConfigOptionUpdate(options))  # the answer tells the client
        if self._agent.on_config_option is not None:
            try:
                await self._agent.on_config_option(session, params.config_id, params.value)
            except BaseException:
                if session.state.config_options is options:
                    session.record(v2.ConfigOptionUpdate(before))
                raise
        return v2.SetSessionConfigOptionResponse(session.state.config_options)

    async def cancel_call(self, params: v2.CancelToolCallRequest) -> v2.Empty:
        """Stop one tool call."""
        turn = self[params.session_id].turn
        return await _cancel(turn.calls.get(params.tool_call_id) if turn is not None else None)

    async def cancel_terminal(self, params: v2.CancelTerminalRequest) -> v2.Empty:
        """Stop what runs in one terminal."""
        turn = self[params.session_id].turn
        return await _cancel(turn.terminals.get(params.terminal_id) if turn is not None else None)

    async def prompt(self, params: v2.PromptRequest) -> v2.PromptResponse:
        """Begin a turn."""
        return await self.turns.prompt_v2(self[params.session_id], params.prompt)

    # ---- keeping

    def describe(self, session: AgentSession) -> None:
        """Have the store keep the title and the time."""
        info = v2.SessionInfo(
            session.session_id,
            session.cwd,
            session.directories or UNSET,
            session.state.info.title,
            _now(),
        )
        try:
            self._agent.store.describe(info)
        except UnknownSession:
            pass  # somebody deleted it
        except LocalError as error:
            self._connection.report(Problem("handler", str(error), session.session_id, error))


async def _cancel(what: Any) -> v2.Empty:
    try:
        if what is None:
            raise NotCancellable("there is nothing of that id that goes on")
        await what.cancel()
    except NotCancellable as error:
        raise RequestError.invalid_params(str(error)) from None
    return v2.Empty()


def _settle(session: AgentSession, state: Session) -> None:
    """What was going on when the agent was ended goes on no more."""
    for call in state.tool_calls.values():
        if call.status not in _ENDED:
            session.record(v2.ToolCallUpdate(call.tool_call_id, status="cancelled"))
    for terminal in state.terminals.values():
        if terminal.exit_status is None:
            status = v2.TerminalExitStatus()
            session.record(v2.TerminalUpdate(terminal.terminal_id, exit_status=status))
    if state.state != "idle":
        session.record(v2.StateUpdate("idle", "cancelled"))


def _in_directory(infos: SessionInfos, cwd: str | None) -> SessionInfos:
    if cwd is None:
        return infos
    return [info for info in infos if normpath(info.cwd) == normpath(cwd)]


def _not_found(reason: str) -> RequestError:
    return RequestError(RESOURCE_NOT_FOUND, "Session not found", {"reason": reason})


def _cursor(info: v2.SessionInfo) -> str:
    shown = v2.SessionInfo(info.session_id, "", updated_at=info.updated_at)
    return base64.urlsafe_b64encode(codec.encode(shown)).decode()


def _read_cursor(cursor: str) -> v2.SessionInfo:
    try:
        info = codec.decode(base64.urlsafe_b64decode(cursor), v2.SessionInfo)
    except (ValueError, Malformed):
        raise RequestError.invalid_params("this cursor is not one of ours") from None
    assert isinstance(info, v2.SessionInfo)
    return info


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


if TYPE_CHECKING:
    from twofold.agent.agent import Agent

Handle: TypeAlias = Callable[[Any], Awaitable[Any]]

LOSSES = 1000
"""How many different losses are told of; a client gets each once."""
NOTIFIED = 1024
"""How many notifications of the client are handled at once; more are dropped."""
LET_GO = 1.0
"""How many seconds handlers of notifications have to stop at the end."""


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
        self.report = guarded(agent.report)
        self.peer = Peer(
            transport, self, who="client", report=self.report, line_limit=agent.line_limit
        )
        self.sessions = Sessions(self)
        self.over = asyncio.Event()
        self._handlers: dict[str, Handle] = {
            "auth/login": self._login,
            "auth/logout": self._logout,
            "session/new": self.sessions.new,
            "session/list": self.sessions.list,
            "session/delete": self.sessions.delete,
            "session/resume": self.sessions.resume,
            "session/close": self.sessions.close,
            "session/set_config_option": self.sessions.set_option,
            "session/prompt": self.sessions.prompt,
            "tool_call/cancel": self.sessions.cancel_call,
            "terminal/cancel": self.sessions.cancel_terminal,
        }
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lost: set[tuple[str, str]] = set()

    async def serve(self) -> None:
        """Answer the client until it is gone."""
        try:
            await self.listen()
        finally:
            await self.close()

    async def listen(self) -> None:
        """Answer the client; returns when it is gone, or `over` was set."""
        self.peer.start()
        await self.over.wait()

    async def close(self) -> None:
        """Stop every turn, keep what was said, and end the conversation."""
        self.over.set()
        try:
            await self.sessions.end_all()
        finally:
            await self.peer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LET_GO)

    # ---- what the client says (`Listener`)

    def updated(self, update: Any, size: int) -> None:
        """Never called: a client sends no updates."""

    def notified(self, notification: Notification) -> None:
        """The client tells something."""
        if notification.method == "session/cancel":
            # when the requests before it have begun, so that it stops a prompt sent just before
            asyncio.get_running_loop().call_soon(self._cancelled, notification)
            return
        handler = self.agent.notifications.get(notification.method)
        if handler is not None and len(self._tasks) >= NOTIFIED:
            text = f"{NOTIFIED} notifications are being handled: {notification.method} is dropped"
            self.report(Problem("limit", text))
        elif handler is not None:
            spawn(self._tell(handler, notification), self._tasks)
        elif not notification.method.startswith(("_", "$/")):
            text = f"The client sent a notification that is unknown: {notification.method}"
            self.report(Problem("noise", text))

    async def _tell(self, handler: Handle, notification: Notification) -> None:
        try:
            await handler(_plain(notification.params))
        except Exception as error:
            text = f"Handling {notification.method} failed: {described(error)}"
            self.report(Problem("handler", text, error=error))

    def _cancelled(self, notification: Notification) -> None:
        try:
            params = codec.decode(notification.params or b"{}", v2.SessionParams)
        except Malformed as error:
            self.report(Problem("noise", f"session/cancel: {error}"))
            return
        session = self.sessions.get(params.session_id)
        if session is not None:
            self.sessions.turns.cancel(session)

    def requested(self, request: Request) -> None:
        """The client wants something."""
        self.peer.serve(request, self._answer)

    def ended(self, error: Exception | None) -> None:
        """The client is gone."""
        self.over.set()

    # ---- requests

    async def _answer(self, request: Request) -> Any:
        if request.method == "initialize":
            return self._initialize(_plain(request.params))
        if not self.version:
            reason = {"reason": "initialize comes first"}
            raise RequestError(INVALID_REQUEST, "Not initialized", reason)
        extension = self.agent.methods.get(request.method)
        if extension is not None:
            return await extension(_plain(request.params))
        return await (self._answer_v1 if self.version == 1 else self._answer_v2)(request)

    async def _answer_v2(self, request: Request) -> Any:
        handle = self._handlers.get(request.method)
        if handle is None:
            raise RequestError.method_not_found(request.method)
        return await handle(codec.decode(request.params or b"{}", _params_v2(request.method)))

    async def _answer_v1(self, request: Request) -> Any:
        method, params = self._lifted(request)
        if method == "session/prompt":
            session = self.sessions[params.session_id]
            return await self.sessions.turns.prompt_v1(session, params.prompt)
        if request.method == "session/set_mode":
            return await self._set_mode(params)
        return self._lowered(method, await self._handlers[method](params))

    def _lifted(self, request: Request) -> tuple[str, Any]:
        known = v1.METHODS.get(request.method)
        if known is None or known.side != "agent" or known.result is None:
            raise RequestError.method_not_found(request.method)
        losses = Losses()
        try:
            read = codec.decode(request.params or b"{}", known.params)
            lifted = upgrade_params(request.method, read, losses)
        except NotConvertible as refused:
            raise RequestError.invalid_params(str(refused)) from None
        self._report(losses)
        return lifted

    def _lowered(self, method: str, result: Any) -> Any:
        losses = Losses()
        if isinstance(result, v2.NewSessionResponse | v2.ResumeSessionResponse):
            options = self.known_options(result.config_options or [])
            result = replace(  # commands are told by an update
                result, config_options=options or UNSET, available_commands=UNSET
            )
        elif isinstance(result, v2.SetSessionConfigOptionResponse):
            result = replace(result, config_options=self.known_options(result.config_options))
        lowered = downgrade_result(method, result, losses)
        self._report(losses)
        return lowered

    async def _set_mode(self, params: v2.SetSessionConfigOptionRequest) -> v1.Empty:
        session = self.sessions[params.session_id]
        option = mode_option(session.state.config_options)
        if option is None:
            raise RequestError.invalid_params("there are no modes")
        await self.sessions.set_option(replace(params, config_id=option))
        # the answer cannot tell what it came to
        await session.config_options(session.state.config_options)
        return v1.Empty()

    # ---- initialize and authentication

    def _initialize(self, params: Any) -> Any:
        if claimed_version(params) is None:
            raise RequestError.invalid_params("protocolVersion must be an integer")
        if self.sessions:
            reason = {"reason": "there are open sessions: close them first"}
            raise RequestError(INVALID_REQUEST, "Already initialized", reason)
        wanted = version_of_client(params)
        version = wanted if wanted in self.agent.versions else min(self.agent.versions)
        answer = self._initialize_v1(params) if version == 1 else self._initialize_v2(params)
        self.version = version
        return answer

    def _initialize_v2(self, params: Any) -> v2.InitializeResponse:
        read: v2.InitializeRequest | v2.AugustInitializeRequest = codec.read(
            params, v2.InitializeRequest
        )
        info = read.info or Implementation("unknown", "0")
        self.client = v2.InitializeRequest(read.protocol_version, info, read.capabilities)
        return self.agent.introduction(self.client)

    def _initialize_v1(self, params: Any) -> v1.InitializeResponse:
        read: v1.InitializeRequest = codec.read(params, v1.InitializeRequest)
        self.client = upgrade_client(read, Losses())
        able = read.client_capabilities
        self.client_session_capabilities = (able.session or None) if able else None
        # what only version 2 says is of no use to a client of version 1
        return downgrade_agent(self.agent.introduction(self.client), Losses())

    async def _login(self, params: v2.LoginAuthRequest) -> v2.Empty:
        known = [each for each in self.agent.auth_methods if isinstance(each, v2.AuthMethodAgent)]
        if params.method_id not in {method.method_id for method in known}:
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

    # ---- what version 1 cannot say

    def known_options(
        self, options: Sequence[v2.SessionConfigOption]
    ) -> list[v2.SessionConfigOption]:
        """The config options that a client of version 1 said it can show."""
        able = self.client_session_capabilities
        if able and able.config_options and able.config_options.boolean:
            return list(options)
        known = without_booleans(options)
        if len(known) < len(options):
            self.lost(None, "configOptions", "the client did not say that it shows booleans")
        return known

    def _report(self, losses: Losses) -> None:
        for loss in losses:
            self.lost(None, loss.path, loss.reason)

    def lost(self, session: AgentSession | None, path: str, reason: str) -> None:
        """Something that version 1 cannot say; each is told of once."""
        if (path, reason) not in self._lost and len(self._lost) < LOSSES:
            self._lost.add((path, reason))
            name = session.session_id if session is not None else None
            self.report(Problem("loss", f"{path}: {reason}", name))


def _params_v2(method: str) -> Any:
    return v2.METHODS[method].params


def _plain(params: Any) -> Any:
    return {} if params is UNSET else codec.parse(params)
