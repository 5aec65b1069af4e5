"""One client of an agent: its requests, in either version, answered by the same handlers.

Requests of version 1 are converted to version 2 on their way in, and the results converted back.
Only the life of a prompt differs: version 1 gets its result when the turn is over, version 2 at
once, followed by the user's message, `running`, the agent's updates and `idle`.

A session is open for one client at a time: a client that resumes it takes it over.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from os.path import normpath
from typing import Any, TypeAlias

from msgspec.structs import replace

from twofold.agent import arguments
from twofold.agent.definition import Definition, SessionHandler
from twofold.agent.prompts import Prompts
from twofold.agent.session import ClientLink, OpenSession, now
from twofold.agent.tools import NotCancellable
from twofold.convert.capabilities import downgrade_agent, upgrade_client
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.options import NoSuchOption, mode_option, with_checked_value
from twofold.convert.requests import downgrade_result, upgrade_params
from twofold.convert.versions import claimed_version, version_of_client
from twofold.peer.inbox import spawn
from twofold.peer.peer import Peer
from twofold.peer.problems import Problem, described, guarded
from twofold.rpc.connection import Notification, Request
from twofold.rpc.errors import INVALID_REQUEST, RESOURCE_NOT_FOUND, RequestError
from twofold.session.listing import SessionInfos, age
from twofold.transport.base import Transport
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Implementation

PAGE = 100
"""How many sessions one answer to `session/list` holds."""
OPEN = 1000
"""How many sessions a client may have open."""
NOTIFIED = 1024
"""How many notifications of the client are handled at once; more are dropped."""
LET_GO = 1.0
"""How many seconds handlers of notifications have to stop at the end."""

_Handle: TypeAlias = Callable[[Any], Awaitable[Any]]


class AgentConnection:
    """An agent and one of its clients."""

    def __init__(self, definition: Definition, transport: Transport) -> None:
        report = guarded(definition.report)
        peer = Peer(transport, self, who="client", report=report, line_limit=definition.line_limit)
        self._definition = definition
        self._link = ClientLink(peer, report)
        self._sessions = _Sessions(definition, self._link)
        self._handlers: dict[str, _Handle] = {
            "auth/login": self._login,
            "auth/logout": self._logout,
            "session/new": self._sessions.new,
            "session/list": self._sessions.list,
            "session/delete": self._sessions.delete,
            "session/resume": self._sessions.resume,
            "session/close": self._sessions.close,
            "session/set_config_option": self._sessions.set_option,
            "session/prompt": self._sessions.prompt,
            "tool_call/cancel": self._sessions.cancel_call,
            "terminal/cancel": self._sessions.cancel_terminal,
        }
        self._notified: set[asyncio.Task[Any]] = set()
        """The handlers of notifications that are running."""

    async def serve(self) -> None:
        """Answer the client until it disconnects; then stop its turns and keep its sessions."""
        try:
            self._link.peer.start()
            await self._link.gone.wait()
        finally:
            await self._close()

    async def _close(self) -> None:
        self._link.gone.set()
        try:
            await self._sessions.end_all()
        finally:
            await self._link.peer.close()
        for task in self._notified:
            task.cancel()
        if self._notified:
            await asyncio.wait(self._notified, timeout=LET_GO)

    # ---- what the client sends (`Listener`)

    def updated(self, update: Any, size: int) -> None:
        """Never called: clients send no updates."""

    def notified(self, notification: Notification) -> None:
        """Handle a notification of the client."""
        if notification.method == "session/cancel":
            # when the requests before it have begun, so that it stops a prompt sent just before
            asyncio.get_running_loop().call_soon(self._cancelled, notification)
            return
        handler = self._definition.notifications.get(notification.method)
        if handler is not None and len(self._notified) >= NOTIFIED:
            text = f"{notification.method} is dropped: {NOTIFIED} notifications are being handled"
            self._link.report(Problem("limit", text))
        elif handler is not None:
            spawn(self._handle(handler, notification), self._notified)
        elif not notification.method.startswith(("_", "$/")):
            text = f"The client sent an unknown notification: {notification.method}"
            self._link.report(Problem("noise", text))

    async def _handle(self, handler: _Handle, notification: Notification) -> None:
        try:
            await handler(_plain(notification.params))
        except Exception as error:
            text = f"The handler of {notification.method} raised {described(error)}"
            self._link.report(Problem("handler", text, error=error))

    def _cancelled(self, notification: Notification) -> None:
        try:
            params = codec.decode(notification.params or b"{}", v2.SessionParams)
        except Malformed as error:
            self._link.report(Problem("noise", f"session/cancel: {error}"))
            return
        self._sessions.cancel(params.session_id)

    def requested(self, request: Request) -> None:
        """Answer a request of the client."""
        self._link.peer.serve(request, self._answer)

    def ended(self, error: Exception | None) -> None:
        """The client disconnected."""
        self._link.gone.set()

    # ---- requests

    async def _answer(self, request: Request) -> Any:
        if request.method == "initialize":
            return self._initialize(_plain(request.params))
        if not self._link.protocol_version:
            reason = {"reason": "initialize comes first"}
            raise RequestError(INVALID_REQUEST, "Not initialized", reason)
        extension = self._definition.requests.get(request.method)
        if extension is not None:
            return await extension(_plain(request.params))
        if self._link.protocol_version == 1:
            return await self._answer_v1(request)
        return await self._answer_v2(request)

    async def _answer_v2(self, request: Request) -> Any:
        handle = self._handlers.get(request.method)
        if handle is None:
            raise RequestError.method_not_found(request.method)
        shape = v2.METHODS[request.method].params
        return await handle(codec.decode(request.params or b"{}", shape))

    async def _answer_v1(self, request: Request) -> Any:
        method, params = self._upgraded(request)
        if method == "session/prompt":
            return await self._sessions.prompt_v1(params)
        if request.method == "session/set_mode":
            await self._sessions.set_mode(params)
            return v1.Empty()
        return self._downgraded(method, await self._handlers[method](params))

    def _upgraded(self, request: Request) -> tuple[str, Any]:
        """The method and params of version 2 for a request of version 1."""
        known = v1.METHODS.get(request.method)
        if known is None or known.side != "agent" or known.result is None:
            raise RequestError.method_not_found(request.method)
        losses = Losses()
        try:
            params = codec.decode(request.params or b"{}", known.params)
            upgraded = upgrade_params(request.method, params, losses)
        except NotConvertible as refused:
            raise RequestError.invalid_params(str(refused)) from None
        self._link.report_losses(losses)
        return upgraded

    def _downgraded(self, method: str, result: Any) -> Any:
        """The result of version 1 for a result of version 2."""
        losses = Losses()
        if isinstance(result, v2.NewSessionResponse | v2.ResumeSessionResponse):
            options = self._link.shown_options(result.config_options or [])
            result = replace(  # version 1 has commands in an update
                result, config_options=options or UNSET, available_commands=UNSET
            )
        elif isinstance(result, v2.SetSessionConfigOptionResponse):
            options = self._link.shown_options(result.config_options)
            result = replace(result, config_options=options)
        downgraded = downgrade_result(method, result, losses)
        self._link.report_losses(losses)
        return downgraded

    # ---- initialize and login

    def _initialize(self, params: Any) -> Any:
        if claimed_version(params) is None:
            raise RequestError.invalid_params("protocolVersion must be an integer")
        if self._sessions:
            reason = {"reason": "there are open sessions: close them first"}
            raise RequestError(INVALID_REQUEST, "Already initialized", reason)
        offered = self._definition.protocol_versions
        wanted = version_of_client(params)
        version = wanted if wanted in offered else min(offered)
        response = self._initialize_v1(params) if version == 1 else self._initialize_v2(params)
        self._link.protocol_version = version
        return response

    def _initialize_v2(self, params: Any) -> v2.InitializeResponse:
        read: v2.InitializeRequest | v2.AugustInitializeRequest = codec.read(
            params, v2.InitializeRequest
        )
        info = read.info or Implementation("unknown", "0")
        client = v2.InitializeRequest(read.protocol_version, info, read.capabilities)
        self._link.client = client
        return self._definition.initialize_response(client)

    def _initialize_v1(self, params: Any) -> v1.InitializeResponse:
        read: v1.InitializeRequest = codec.read(params, v1.InitializeRequest)
        client = upgrade_client(read, Losses())
        self._link.client = client
        declared = read.client_capabilities
        self._link.session_capabilities = (declared.session or None) if declared else None
        # losses are not reported: what only version 2 has is of no use to a client of version 1
        return downgrade_agent(self._definition.initialize_response(client), Losses())

    async def _login(self, params: v2.LoginAuthRequest) -> v2.Empty:
        methods = self._definition.auth_methods
        known = {each.method_id for each in methods if isinstance(each, v2.AuthMethodAgent)}
        if params.method_id not in known:
            raise RequestError.invalid_params(f"there is no method {params.method_id!r}")
        if self._definition.on_login is not None:
            await self._definition.on_login(params.method_id)
        return v2.Empty()

    async def _logout(self, params: v2.Empty) -> v2.Empty:
        if not self._definition.auth_methods:
            raise RequestError.method_not_found("logout")
        if self._definition.on_logout is not None:
            await self._definition.on_logout()
        return v2.Empty()


class _Sessions:
    """The sessions that one client has open, and its requests about sessions."""

    def __init__(self, definition: Definition, link: ClientLink) -> None:
        self._definition = definition
        self._link = link
        self._prompts = Prompts(definition, link)
        self._open: dict[str, OpenSession] = {}

    def __bool__(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def _find(self, session_id: str) -> OpenSession:
        session = self._open.get(session_id)
        if session is None:
            raise _not_found(f"there is no open session {session_id!r}")
        return session

    # ---- opening

    async def new(self, params: v2.NewSessionRequest) -> v2.NewSessionResponse:
        """Answer `session/new`: the agent's handler prepares the session."""
        self._check_room()
        identity = self._definition.new_session_id()
        arguments.text("The result of new_session_id", identity)
        info = v2.SessionInfo(identity, params.cwd, params.additional_directories, updated_at=now())
        store = self._definition.store
        store.create(info)
        session = OpenSession(self._link, store, info, self.end)
        session.mcp_servers = list(params.mcp_servers or [])
        try:
            await self._prepare(session, self._definition.on_new_session)
        except BaseException:
            store.delete(identity)
            raise
        session.keep()
        _announce_soon(session)
        options, commands = session.state.config_options, session.state.commands
        return v2.NewSessionResponse(identity, options or UNSET, commands or UNSET)

    async def resume(self, params: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """Answer `session/resume`, after the replay if the client asked for one."""
        if params.replay_from and not isinstance(params.replay_from, v2.ReplayFromStart):
            raise RequestError.invalid_params(
                f"cannot replay from {params.replay_from.tag!r}, only from the start"
            )
        session = self._open.get(params.session_id) or await self._load(params)
        async with session.opening:
            if session.closed:
                raise _not_found(f"there is no session {params.session_id!r}")
            session.cwd = params.cwd
            session.directories = list(params.additional_directories or [])
            session.mcp_servers = list(params.mcp_servers or [])
            if not session.announced:
                await self._prepare(session, self._definition.on_resume_session)
            if params.replay_from:
                await session.replay()
            else:
                session.send_state()
            _announce_soon(session)
            options, commands = session.state.config_options, session.state.commands
            return v2.ResumeSessionResponse(options or UNSET, commands or UNSET)

    async def _load(self, params: v2.ResumeSessionRequest) -> OpenSession:
        """Load a session from the store; another client that has it open loses it."""
        while (other := self._definition.open_sessions.get(params.session_id)) is not None:
            if other.link is self._link:
                return other  # another request of this client opened it meanwhile
            await other.end()
        self._check_room()
        store = self._definition.store
        info = store.info(params.session_id)
        state = store.load(params.session_id) if info is not None else None
        if info is None or state is None:
            raise _not_found(f"there is no session {params.session_id!r}")
        session = OpenSession(self._link, store, info, self.end, state)
        session.settle_loaded()
        self._register(session)
        return session

    def _check_room(self) -> None:
        if len(self._open) >= OPEN:
            raise RequestError.too_many("open sessions", OPEN, "close one before you open another")

    def _register(self, session: OpenSession) -> None:
        self._open[session.session_id] = session
        self._definition.open_sessions[session.session_id] = session

    async def _prepare(self, session: OpenSession, handler: SessionHandler | None) -> None:
        self._register(session)
        try:
            if handler is not None:
                await handler(session.face)
        except BaseException:
            self._forget(session)
            raise

    # ---- closing

    async def close(self, params: v2.SessionParams) -> v2.Empty:
        """Answer `session/close`; v2: a session that is not open is closed already."""
        session = self._open.get(params.session_id)
        if session is not None:
            await self.end(session)
        return v2.Empty()

    async def delete(self, params: v2.SessionParams) -> v2.Empty:
        """Answer `session/delete`; an unknown session is deleted already."""
        session = self._definition.open_sessions.get(params.session_id)
        if session is not None:
            await session.end()
        self._definition.store.delete(params.session_id)
        return v2.Empty()

    async def end(self, session: OpenSession) -> None:
        """Cancel the turns of a session, keep its updates, and close it."""
        self._prompts.cancel(session)
        async with session.busy:  # the turn has ended
            if self._open.get(session.session_id) is not session:
                return
            await self._handle_close(session)
            session.flush()
            self._forget(session)

    async def end_all(self) -> None:
        """The same for every session, when the client has disconnected."""
        sessions = list(self._open.values())
        for session in sessions:
            session.keep()
            self._prompts.cancel(session)
        await self._prompts.wait_ended()
        ends = [self.end(session) for session in sessions]
        await asyncio.gather(*ends, return_exceptions=True)

    async def _handle_close(self, session: OpenSession) -> None:
        """Call the agent's handler; the session is closed even if it fails or does not end."""
        handler = self._definition.on_close_session
        if handler is None:
            return
        try:
            async with asyncio.timeout(self._definition.cancel_timeout):
                await handler(session.face)
        except Exception as error:
            text = f"The on_close_session handler raised {described(error)}"
            self._link.report(Problem("handler", text, session.session_id, error))

    def _forget(self, session: OpenSession) -> None:
        session.keep()
        session.closed = True
        for table in (self._open, self._definition.open_sessions):
            if table.get(session.session_id) is session:
                del table[session.session_id]

    # ---- listing

    async def list(self, params: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        """Answer `session/list`: a page of the sessions, the last updated first."""
        infos = _in_directory(self._definition.store.list(), params.cwd or None)
        if params.cursor:
            # a page starts after the last session shown: others may appear, move or go meanwhile
            last = age(_read_cursor(params.cursor))
            infos = [info for info in infos if age(info) < last]
        page = infos[:PAGE]
        return v2.ListSessionsResponse(page, _cursor(page[-1]) if infos[PAGE:] else UNSET)

    # ---- setting

    async def set_option(
        self, params: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        """Answer `session/set_config_option`; the agent's handler may refuse or change it."""
        session = self._find(params.session_id)
        before = session.state.config_options
        try:
            options = with_checked_value(before, params.config_id, params.value)
        except NoSuchOption as error:
            raise RequestError.invalid_params(str(error)) from None
        session.record(v2.ConfigOptionUpdate(options))  # the client gets it in the answer
        if self._definition.on_config_option is not None:
            try:
                await self._definition.on_config_option(
                    session.face, params.config_id, params.value
                )
            except BaseException:
                if session.state.config_options is options:
                    session.record(v2.ConfigOptionUpdate(before))
                raise
        return v2.SetSessionConfigOptionResponse(session.state.config_options)

    async def set_mode(self, params: v2.SetSessionConfigOptionRequest) -> None:
        """Set the mode, for `session/set_mode` of version 1."""
        session = self._find(params.session_id)
        option = mode_option(session.state.config_options)
        if option is None:
            raise RequestError.invalid_params("this session has no modes")
        await self.set_option(replace(params, config_id=option.config_id))
        # the result of version 1 is empty: the client gets the options in an update
        await session.send(v2.ConfigOptionUpdate(session.state.config_options))

    # ---- prompts, and stopping what runs

    async def prompt(self, params: v2.PromptRequest) -> v2.PromptResponse:
        """Answer `session/prompt` of version 2."""
        return await self._prompts.prompt_v2(self._find(params.session_id), params.prompt)

    async def prompt_v1(self, params: v2.PromptRequest) -> v1.PromptResponse:
        """Answer `session/prompt` of version 1."""
        return await self._prompts.prompt_v1(self._find(params.session_id), params.prompt)

    def cancel(self, session_id: str) -> None:
        """Cancel the running turn and the prompts that wait; an unknown session has none."""
        session = self._open.get(session_id)
        if session is not None:
            self._prompts.cancel(session)

    async def cancel_call(self, params: v2.CancelToolCallRequest) -> v2.Empty:
        """Answer `tool_call/cancel`."""
        session = self._find(params.session_id)
        return await _cancel(self._prompts.cancel_call(session, params.tool_call_id))

    async def cancel_terminal(self, params: v2.CancelTerminalRequest) -> v2.Empty:
        """Answer `terminal/cancel`."""
        session = self._find(params.session_id)
        return await _cancel(self._prompts.cancel_terminal(session, params.terminal_id))


async def _cancel(cancelling: Awaitable[None]) -> v2.Empty:
    try:
        await cancelling
    except NotCancellable as error:
        raise RequestError.invalid_params(str(error)) from None
    return v2.Empty()


def _announce_soon(session: OpenSession) -> None:
    # the answer is written before the loop gets to this
    asyncio.get_running_loop().call_soon(session.announce)


def _in_directory(infos: SessionInfos, cwd: str | None) -> SessionInfos:
    if cwd is None:
        return infos
    return [info for info in infos if normpath(info.cwd) == normpath(cwd)]


def _not_found(reason: str) -> RequestError:
    return RequestError(RESOURCE_NOT_FOUND, "Session not found", {"reason": reason})


def _cursor(info: v2.SessionInfo) -> str:
    last = v2.SessionInfo(info.session_id, "", updated_at=info.updated_at)
    return base64.urlsafe_b64encode(codec.encode(last)).decode()


def _read_cursor(cursor: str) -> v2.SessionInfo:
    try:
        info = codec.decode(base64.urlsafe_b64decode(cursor), v2.SessionInfo)
    except (ValueError, Malformed):
        raise RequestError.invalid_params("this cursor is not one of ours") from None
    assert isinstance(info, v2.SessionInfo)
    return info


def _plain(params: Any) -> Any:
    return {} if params is UNSET else codec.parse(params)
