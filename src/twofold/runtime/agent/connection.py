"""One client of an agent: requests in either version, answered by the same handlers.

Version 1 is lifted on its way in and lowered on its way out, so that everything behind this is
version 2 but the life of a prompt: version 1 gets its result when the turn is over, version 2 at
once, and then the user's message, `running`, what the agent says, and `idle`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from twofold.convert.capabilities import downgrade_agent, upgrade_client
from twofold.convert.detect import dialect_of_request
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.requests import downgrade_result, upgrade_params
from twofold.rpc.errors import INVALID_REQUEST, RequestError
from twofold.rpc.messages import Notification, Request
from twofold.runtime.agent.options import mode_option, without_booleans
from twofold.runtime.agent.session import AgentSession
from twofold.runtime.agent.sessions import Sessions
from twofold.runtime.inbox import spawn
from twofold.runtime.peer import Peer
from twofold.runtime.problems import Problem, described, guarded
from twofold.runtime.transport import Transport
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Implementation

if TYPE_CHECKING:
    from twofold.runtime.agent.agent import Agent

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
        asked = params.get("protocolVersion") if isinstance(params, dict) else None
        if not isinstance(asked, int) or isinstance(asked, bool):
            raise RequestError.invalid_params("protocolVersion must be an integer")
        if self.sessions:
            reason = {"reason": "there are open sessions: close them first"}
            raise RequestError(INVALID_REQUEST, "Already initialized", reason)
        wanted = 2 if asked >= 2 and dialect_of_request(params) != "1" else 1
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
