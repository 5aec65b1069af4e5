"""A client: talks to an agent of either version.

`connect` starts the agent's command (or takes a transport), agrees on a version and gives a
`Client`, whose sessions are objects. Whatever the agent speaks, the client's side of it is version
2. When the block is left the agent and everything it started is gone.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import UNSET

from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.setup import downgrade_params, upgrade_result
from twofold.errors import LocalError, PeerError
from twofold.policy import Policy
from twofold.rpc.errors import RequestError
from twofold.rpc.frames import LIMIT
from twofold.rpc.messages import Notification, Request
from twofold.runtime.client.negotiate import Negotiated, Offer, StartOver, Version, negotiate
from twofold.runtime.client.offers import Offers
from twofold.runtime.client.permissions import Ask
from twofold.runtime.client.session import ClientSession
from twofold.runtime.errors import NotSupported, Problem, Report, log
from twofold.runtime.inbox import TIMEOUT, Inbox, spawn
from twofold.runtime.peer import Arrived, Peer
from twofold.runtime.process import Process
from twofold.runtime.transport import Transport
from twofold.version import VERSION
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed
from twofold.wire.shared import Implementation

START = 120.0
"""How many seconds an agent has to answer `initialize`: one that is downloaded first takes long."""
UNCLAIMED = 64
"""How many sessions that nobody asked for are kept: updates may come before `session/new` ends."""

Elicit: TypeAlias = Callable[[v2.CreateElicitationRequest], Awaitable[v2.CreateElicitationResponse]]
T = TypeVar("T")
Offered: TypeAlias = Literal["fs", "terminal"]

_LINES: dict[int, Callable[[bytes | str], Any]] = {
    1: codec.decode_update_line_v1,
    2: codec.decode_update_line_v2,
}


@asynccontextmanager
async def connect(
    agent: Sequence[str] | Transport,
    *,
    version: Version | None = None,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    policy: Policy | None = None,
    ask: Ask | None = None,
    elicit: Elicit | None = None,
    offer: Collection[Offered] = (),
    info: Implementation | None = None,
    on_problem: Report = log,
    on_stderr: Callable[[bytes], None] | None = None,
    start_timeout: float = START,
    handler_timeout: float = TIMEOUT,
    line_limit: int = LIMIT,
) -> AsyncIterator["Client"]:
    """Talk to an agent, in a block: `async with twofold.connect(["some-agent"]) as client: …`.

    `version` demands one; otherwise 2 is tried first. Permissions are decided by `policy`, then by
    `ask`, and rejected if there is nobody to ask. `offer` names what the client does for agents of
    version 1: `fs`, `terminal`.
    """

    async def start() -> Transport:
        if isinstance(agent, Sequence):
            return await Process.spawn(agent, cwd=cwd, env=env, on_stderr=on_stderr)
        return agent

    def client_on(transport: Transport) -> Client:
        return Client(
            transport,
            policy=policy or Policy(),
            ask=ask,
            elicit=elicit,
            offer=offer,
            report=on_problem,
            handler_timeout=handler_timeout,
            line_limit=line_limit,
            info=info or Implementation("twofold", VERSION),
        )

    client = client_on(await start())
    try:
        try:
            await client.initialize(version, within=start_timeout)
        except StartOver as over:
            if not isinstance(agent, Sequence):
                raise over.cause from None
            await client.close()
            client = client_on(await start())
            await client.initialize(1, within=start_timeout)
        yield client
    finally:
        await client.close()


class Client:
    """A connection to an agent. `connect` makes it."""

    def __init__(
        self,
        transport: Transport,
        *,
        policy: Policy,
        ask: Ask | None,
        elicit: Elicit | None,
        offer: Collection[Offered],
        report: Report,
        handler_timeout: float,
        line_limit: int,
        info: Implementation,
    ) -> None:
        self.policy = policy
        self.ask = ask
        self.report = report
        self.sessions: dict[str, ClientSession] = {}
        """The sessions that are open, by id."""
        self.peer = Peer(transport, self, who="agent", report=report, line_limit=line_limit)
        self._elicit = elicit
        self._offer = Offer(info, "fs" in offer, "terminal" in offer, elicit is not None)
        self._handler_timeout = handler_timeout
        self._agent: Negotiated | None = None
        self._unclaimed: dict[str, ClientSession] = {}
        self._offers: dict[str, Offers] = {}
        self._background: set[asyncio.Task[Any]] = set()

    # ---- who the agent is

    async def initialize(self, version: Version | None, *, within: float = START) -> None:
        """Agree on a version; `connect` has done it."""
        self.peer.start()
        self._agent = await negotiate(self.peer, self._offer, version, within=within)
        self.peer.read_first(_LINES[self._agent.version])

    @property
    def agent(self) -> Negotiated:
        """What the agent said of itself, in the words of version 2."""
        if self._agent is None:
            raise LocalError("The client has not been initialized.")
        return self._agent

    @property
    def version(self) -> Version:
        """The version of the protocol that both sides speak."""
        return self.agent.version

    @property
    def agent_name(self) -> str:
        """What to call the agent."""
        return self.agent.info.title or self.agent.info.name

    @property
    def capabilities(self) -> v2.AgentCapabilities:
        return self.agent.capabilities

    @property
    def prompt_capabilities(self) -> v2.PromptCapabilities:
        """What prompts may hold besides text and links."""
        session = self.agent.capabilities.session
        return (session.prompt if session else None) or v2.PromptCapabilities()

    @property
    def auth_methods(self) -> list[v2.AuthMethod]:
        """How one can log in, if one has to."""
        return self.agent.auth_methods

    async def authenticate(self, method_id: str) -> None:
        """Log in with one of `auth_methods`."""
        await self.call("auth/login", v2.LoginAuthRequest(method_id))

    async def logout(self) -> None:
        """Log out."""
        await self.call("auth/logout", v2.Empty())

    # ---- sessions

    async def new_session(
        self,
        cwd: str | PathLike[str] = ".",
        *,
        directories: Sequence[str | PathLike[str]] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Begin a conversation in `cwd`; `directories` are others that it may touch."""
        roots = _roots(cwd, directories)
        request = v2.NewSessionRequest(roots[0], roots[1:] or UNSET, list(mcp_servers))

        def arrived(outcome: Any) -> Inbox | None:
            if isinstance(outcome, Exception):
                return None
            session = self._claim(outcome.session_id, roots)
            session.inbox.put(session.setup, outcome)
            return session.inbox

        made = await self.call("session/new", request, arrived=arrived)
        return self.sessions[made.session_id]

    async def load_session(
        self,
        session_id: str,
        cwd: str | PathLike[str] = ".",
        *,
        directories: Sequence[str | PathLike[str]] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
        replay: bool = True,
    ) -> ClientSession:
        """Take a conversation up again; with `replay` the agent tells everything that was said."""
        if replay and not self.can("load"):
            raise NotSupported(f"{self.agent_name} cannot load sessions.")
        replay = replay or not self.can("resume")
        roots = _roots(cwd, directories)
        request = v2.ResumeSessionRequest(
            session_id,
            roots[0],
            roots[1:] or UNSET,
            list(mcp_servers),
            v2.ReplayFromStart() if replay else UNSET,
        )
        known = session_id in self.sessions
        session = self._claim(session_id, roots)
        before = session.start_over() if replay else None
        try:
            await self.call("session/resume", request, arrived=session.then(session.setup))
        except BaseException:
            if known and before is not None:
                session.state = before
            elif not known:
                session.ended(None)
            raise
        return session

    async def resume_session(
        self,
        session_id: str,
        cwd: str | PathLike[str] = ".",
        *,
        directories: Sequence[str | PathLike[str]] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Go on with a conversation without hearing again what was said."""
        if not (self.can("resume") or self.can("load")):
            raise NotSupported(f"{self.agent_name} cannot resume sessions.")
        return await self.load_session(
            session_id, cwd, directories=directories, mcp_servers=mcp_servers, replay=False
        )

    async def list_sessions(
        self, cwd: str | PathLike[str] | None = None
    ) -> AsyncIterator[v2.SessionInfo]:
        """The sessions that the agent knows, of `cwd` only if it is given, page by page."""
        if not self.can("list"):
            raise NotSupported(f"{self.agent_name} cannot list its sessions.")
        where = UNSET if cwd is None else _roots(cwd, ())[0]
        cursor: Any = UNSET
        seen: set[str] = set()
        while True:
            page = await self.call("session/list", v2.ListSessionsRequest(where, cursor))
            for info in page.sessions:
                yield info
            cursor = page.next_cursor
            if not cursor or cursor in seen:  # an agent that gives a cursor again would go on
                return
            seen.add(cursor)

    async def delete_session(self, session_id: str) -> None:
        """Have the agent forget a session for good."""
        if not self.can("delete"):
            raise NotSupported(f"{self.agent_name} cannot delete sessions.")
        await self.call("session/delete", v2.SessionParams(session_id))
        session = self.sessions.get(session_id)
        if session is not None:
            session.ended(None)

    def _claim(self, session_id: str, roots: list[str]) -> ClientSession:
        session = self._unclaimed.pop(session_id, None) or self.sessions.get(session_id)
        if session is None:
            session = ClientSession(self, session_id)
        session.roots = roots
        self.sessions[session_id] = session
        return session

    def forget(self, session: ClientSession) -> None:
        self.sessions.pop(session.session_id, None)
        self._unclaimed.pop(session.session_id, None)
        offers = self._offers.pop(session.session_id, None)
        if offers is not None:
            offers.release()

    def can(self, what: Literal["load", "resume", "list", "close", "delete"]) -> bool:
        """Whether the agent says that it can; version 2 takes most for granted."""
        if self.agent.as_v1 is None:
            session = self.agent.capabilities.session
            return bool(session and session.delete) if what == "delete" else True
        able = self.agent.as_v1.agent_capabilities or v1.AgentCapabilities()
        if what == "load":
            return bool(able.load_session)
        return bool(able.session_capabilities and getattr(able.session_capabilities, what))

    # ---- anything else

    async def request(self, method: str, params: Any = UNSET) -> Any:
        """Ask something that the protocol does not define; JSON in, JSON out.

        The answer comes after the updates before it, if `params` names a session.
        """
        named = params.get("sessionId") if isinstance(params, dict) else None
        session = self.sessions.get(str(named))
        arrived = session.then(lambda _: None) if session is not None else None
        return await self.peer.request(method, params, arrived=arrived)

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Tell something that the protocol does not define."""
        self.peer.notify(method, params)

    async def call(self, method: str, params: Any, *, arrived: Arrived | None = None) -> Any:
        """Ask in the words of version 2, whatever the agent speaks."""
        if self.version == 2:
            shape = v2.METHODS[method].result
            return await self.peer.request(method, params, shape, arrived=arrived)
        losses = Losses()
        try:
            name, lowered = downgrade_params(method, params, losses)
        except NotConvertible as refused:
            raise NotSupported(
                f"{self.agent_name} speaks version 1, which has no way to say this: {refused}"
            ) from None
        for loss in losses:
            self.report(Problem("loss", f"{name}: {loss.path}: {loss.reason}"))
        result = await self.request_v1(name, lowered, arrived)
        if method == "session/prompt":
            return result
        return upgrade_result(name, result, Losses())

    async def request_v1(self, method: str, params: Any, arrived: Arrived | None) -> Any:
        shape = v1.METHODS[method].result
        return await self.peer.request(method, params, shape, arrived=arrived)

    def tell(self, method: str, params: Any) -> None:
        if not self.peer.closed:
            self.peer.notify(method, params)

    # ---- what the agent says (`Listener`)

    def updated(self, update: Any, size: int) -> None:
        """A `session/update`, already read."""
        session = self.sessions.get(update.session_id) or self._early(update.session_id)
        if session is not None:
            session.update(update.update, size)

    def notified(self, notification: Notification) -> None:
        """Any other notification."""
        if notification.method == "session/update":
            self._slow_update(notification)
        elif notification.method not in v2.METHODS and not notification.method.startswith("_"):
            text = f"The agent sent a notification that is unknown: {notification.method}"
            self.report(Problem("noise", text))

    def _slow_update(self, notification: Notification) -> None:
        """An update that could not be read in one go: unknown, odd, or not as specified."""
        params = notification.params or b"{}"
        faults: list[Any] = []
        shape = (v1 if self._speaks_v1 else v2).METHODS["session/update"].params
        try:
            update = codec.decode(params, shape, faults)
        except Malformed as error:
            self.report(Problem("update", f"The agent sent an update that is none: {error}"))
            return
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self.report(Problem("update", text, update.session_id))
        self.updated(update, len(params))

    @property
    def _speaks_v1(self) -> bool:
        return self._agent is not None and self._agent.version == 1

    def _early(self, session_id: str) -> ClientSession | None:
        """An update of a session that nobody knows yet: it may be about to be made."""
        session = self._unclaimed.get(session_id)
        if session is None:
            if self._agent is None or len(self._unclaimed) >= UNCLAIMED:
                self.report(Problem("update", f"An update of an unknown session: {session_id}"))
                return None
            session = self._unclaimed[session_id] = ClientSession(self, session_id)
        return session

    def requested(self, request: Request) -> None:
        """The agent wants something."""
        method = (v1 if self._speaks_v1 else v2).METHODS.get(request.method)
        if method is None or method.side == "agent" or self._agent is None:
            self.peer.refuse(request, RequestError.method_not_found(request.method))
            return
        try:
            params = codec.decode(request.params or b"{}", method.params)
        except Malformed as error:
            self.peer.refuse(request, error)
            return
        if request.method.startswith("elicitation/"):
            self.peer.serve(request, lambda request: self._elicited(params))
            return
        session = self.sessions.get(params.session_id) or self._early(params.session_id)
        if session is None:
            self.peer.refuse(request, RequestError.invalid_params("unknown session"))
        elif request.method == "session/request_permission":
            session.inbox.put(session.permission, (request, params), len(request.params))
        else:
            session.inbox.put(self._offered, (session, request, params), len(request.params))

    async def _elicited(self, params: v2.CreateElicitationRequest) -> Any:
        if self._elicit is None:
            return {"action": "cancel"}
        return await self._elicit(params)

    def _offered(self, asked: tuple[ClientSession, Request, Any]) -> None:
        """Files and terminals, for agents of version 1."""
        session, request, params = asked
        able = self._offer.files if request.method.startswith("fs/") else self._offer.terminals
        if not able:
            self.peer.refuse(request, RequestError.method_not_found(request.method))
            return
        offers = self._offers.get(session.session_id)
        if offers is None:
            offers = self._offers[session.session_id] = Offers(session)
        self.peer.serve(request, lambda request: offers.answer(request.method, params))

    def ended(self, error: Exception | None) -> None:
        """The agent is gone, or we are."""
        for session in [*self.sessions.values(), *self._unclaimed.values()]:
            session.inbox.put(session.ended, error or PeerError("The connection was closed."))

    async def close(self) -> None:
        """End the conversation and the agent; bounded."""
        await self.peer.close()
        for session in [*self.sessions.values(), *self._unclaimed.values()]:
            session.inbox.close()
            session.ended(None)
        for offers in list(self._offers.values()):
            await offers.close()
        if self._background:
            await asyncio.wait(self._background, timeout=5)

    def in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something that goes on even if nobody waits for it; `close` does."""
        task = spawn(work, self._background)
        task.add_done_callback(_looked_at)
        return task

    def inbox_of(self, session_id: str) -> Inbox:
        return Inbox(
            session_id,
            self.report,
            hold=self.peer.hold,
            release=self.peer.release,
            timeout=self._handler_timeout,
        )


def _looked_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waits gets it; if nobody does, it is no news


def _roots(cwd: str | PathLike[str], directories: Sequence[str | PathLike[str]]) -> list[str]:
    return [str(Path(fspath(each)).absolute()) for each in (cwd, *directories)]
