"""A client: starts an agent or connects to one, and gives its sessions as objects.

`connect` starts the agent's command (or connects to its URL, or takes a transport), agrees on a
version and gives a `Client`. Whatever version the agent speaks, the types on this side are version
2's. When the block is left, the agent and everything that it started has ended.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from msgspec import UNSET

from twofold.client.agent_peer import AgentPeer
from twofold.client.incoming import Elicit, Incoming, NewState, Serving
from twofold.client.negotiate import (
    Able,
    AgentDescription,
    AgentSilent,
    Offer,
    StartOver,
    WantedVersion,
    check_setup,
    negotiate,
    require,
)
from twofold.client.permissions import Ask
from twofold.client.reconnection import WITHIN, OnConnection, Reconnection
from twofold.client.session import ClientSession, OpenSession
from twofold.convert.versions import Version
from twofold.errors import LocalError, NoAnswer
from twofold.peer.inbox import TIMEOUT, Inbox
from twofold.peer.problems import Problem, Report, log
from twofold.policy import Policy
from twofold.rpc.frames import LIMIT
from twofold.session import Session
from twofold.transport.base import Transport
from twofold.transport.endpoint import MESSAGE_LIMIT, Endpoint, is_url
from twofold.transport.process import Process
from twofold.transport.remote import open_remote
from twofold.version import VERSION
from twofold.wire import v1, v2
from twofold.wire.shared import Implementation

START = 120.0
"""How many seconds an agent has to answer `initialize`; some are downloaded first."""
PAGES = 10_000
"""How many pages of a list of sessions are read: an agent may go on for ever."""

Directory: TypeAlias = str | PathLike[str]
Offered: TypeAlias = Literal["fs", "terminal", "login"]

Open: TypeAlias = Callable[[], Awaitable[Transport]]
"""Opens a transport to an agent, again if the agent has to be started again."""


def connect(
    agent: Sequence[str] | str | Transport | Open,
    *,
    token: str | None = None,
    version: WantedVersion | None = None,
    cwd: Directory | None = None,
    env: Mapping[str, str | None] | None = None,
    policy: Policy | None = None,
    ask: Ask | None = None,
    elicit: Elicit | None = None,
    offer: Collection[Offered] = (),
    info: Implementation | None = None,
    pass_env: Collection[str] = (),
    on_problem: Report = log,
    on_stderr: Callable[[bytes], None] | None = None,
    start_timeout: float = START,
    handler_timeout: float = TIMEOUT,
    line_limit: int = LIMIT,
    reconnect: bool = True,
    on_connection: OnConnection = lambda change: None,
    new_state: NewState = Session,
) -> AbstractAsyncContextManager["Client"]:
    """Connect to an agent, in a block: `async with twofold.connect(["some-agent"]) as client: …`.

    Args:
        agent: The command that starts the agent, as a list of words; or the URL of a running one
            (wss, https, and on this machine ws and http); or a transport; or a coroutine function
            that opens one.
        token: Sent to a URL as `Authorization: Bearer`.
        version: The protocol version to demand: 1, 2, or "guide" for an agent of version 1 whose
            updates are in the dialect of the client guide. By default 2 is tried first, then 1.
        cwd: The directory to start the command in.
        env: Variables to set for the command; None removes one.
        policy: The rules that decide permissions.
        ask: Called for permissions that no rule decides. Without it they are rejected.
        elicit: Called for questions of the agent to the user. Without it none is offered.
        offer: What the client does for the agent: "fs" and "terminal" for agents of version 1,
            "login" if a person can log in at a terminal.
        info: Name and version of this client.
        pass_env: Names of variables of this process that commands get which the client runs for
            the agent, besides those that every command needs and those of `env`.
        on_problem: Called with everything that went wrong and was survived; by default it is
            logged.
        on_stderr: Called with what the command writes to its standard error.
        start_timeout: How many seconds the agent has to answer `initialize`.
        handler_timeout: After how many seconds a handler of updates is given up.
        line_limit: How many bytes a line of the agent may have; longer ones are dropped. A server
            at a URL may send 32 MiB in one message, and a longer one ends the connection.
        reconnect: For a URL: whether to connect again when the connection is lost, and to resume
            the sessions.
        on_connection: Called when the connection to a URL is lost, is there again, or is given up.
        new_state: Makes the state of each session, by its id: a `Session`, or an object of a
            subclass that also does something else with what is applied.

    Returns:
        A context manager that gives the `Client`. Entering it raises `CommandNotStarted`,
        `ProcessEnded`, `NoAnswer`, `WrongVersion`, `UnknownVersion` or `NotAnAgent`; for a URL
        also `NotReached`, `RemoteEnded` or `RemoteNotInstalled`.

    Raises:
        TypeError: `agent` is a text that is no URL, instead of a list of words.
        BadUrl: The URL or the token cannot be used.
        LocalError: `version` or `offer` is not one of the above, or there is a token and no URL.
    """
    endpoint = Endpoint(agent, token) if isinstance(agent, str) and is_url(agent) else None
    if endpoint is None and isinstance(agent, str | bytes):
        raise TypeError(f"A command is a list of words, such as [{agent!r}], not a text.")
    if endpoint is None and token is not None:
        raise LocalError("A token is for an agent at a URL; a command gets variables by `env`.")
    if version not in (None, *get_args(WantedVersion)):
        raise LocalError(f"A version is 1, 2 or 'guide', not {version!r}.")
    if isinstance(offer, str) or not set(get_args(Offered)).issuperset(offer):
        raise LocalError(f"What can be offered is 'fs', 'terminal' and 'login', not {offer!r}.")
    restarts = isinstance(agent, Sequence) or callable(agent)  # a URL is a sequence, too

    async def start() -> Transport:
        if endpoint is not None:
            return await open_remote(endpoint, limit=min(line_limit, MESSAGE_LIMIT))
        if isinstance(agent, Sequence):
            return await Process.spawn(agent, cwd=cwd, env=env, on_stderr=on_stderr)
        return await agent() if callable(agent) else agent

    def client_on(transport: Transport) -> Client:
        return Client(
            transport,
            Serving(
                offer=Offer(
                    info or Implementation("twofold", VERSION),
                    files="fs" in offer,
                    terminals="terminal" in offer,
                    elicitation=elicit is not None,
                    logins="login" in offer,
                ),
                policy=policy or Policy(),
                ask=ask,
                elicit=elicit,
                env=env if isinstance(agent, Sequence) else None,
                pass_env=pass_env,
                new_state=new_state,
            ),
            report=on_problem,
            handler_timeout=handler_timeout,
            line_limit=line_limit,
            remote=endpoint is not None,
            reopen=start if endpoint is not None and reconnect else None,
            on_connection=on_connection,
        )

    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        client = client_on(await start())
        try:
            try:
                await client._initialize(version, start_timeout)
            except StartOver as over:
                if restarts:
                    await client._close()
                    client = client_on(await start())
                    await client._initialize(1, start_timeout)
                elif over.known is not None:
                    client._agree(over.known)
                else:
                    raise over.cause from None
            yield client
        finally:
            await client._close()

    return connected()


class Client:
    """A connection to an agent. `connect` makes it."""

    def __init__(
        self,
        transport: Transport,
        serving: Serving,
        *,
        report: Report,
        handler_timeout: float,
        line_limit: int,
        remote: bool = False,
        reopen: Open | None = None,
        on_connection: OnConnection = lambda change: None,
    ) -> None:
        self._transport = transport
        self._remote = remote
        self._line_limit = line_limit
        self._reopen_transport = reopen
        self._on_connection = on_connection
        self._reconnection: Reconnection | None = None
        self._spoken: WantedVersion | None = None
        """The version that was agreed on."""
        self._offer = serving.offer
        self._sessions: dict[str, ClientSession] = {}
        self._peer = AgentPeer(report, handler_timeout)
        self._incoming = Incoming(self._peer, serving, self._ended)
        self._peer.open(transport, self._incoming, line_limit)

    async def _initialize(self, version: WantedVersion | None, within: float) -> None:
        self._peer.peer.start()
        try:
            agent = await negotiate(self._peer.peer, self._offer, version, within=within)
        except NoAnswer as error:
            if self._remote:  # nothing was started that could have printed something
                raise
            process = self._transport if isinstance(self._transport, Process) else None
            printed = (process.stderr_tail, process.printed) if process is not None else ("",)
            raise AgentSilent(error.seconds, *printed) from None
        self._agree(agent, speaks_guide=version == "guide")

    def _agree(self, agent: AgentDescription, *, speaks_guide: bool = False) -> None:
        self._peer.description = agent
        self._spoken = "guide" if speaks_guide else agent.protocol_version
        self._incoming.agreed(agent.protocol_version, speaks_guide=speaks_guide)
        if agent.protocol_version == 2:
            self._peer.peer.read_first(v2.decode_update_line)
        elif not speaks_guide:
            self._peer.peer.read_first(v1.decode_update_line)

        if self._reopen_transport is not None and self._reconnection is None:
            self._reconnection = Reconnection(
                self._peer,
                lambda: list(self._incoming.sessions.values()),
                self._reconnect,
                self._resume,
                self._on_connection,
            )
            self._incoming.lost = self._reconnection.lost

    async def _close(self) -> None:
        """End the connection and the agent, in a bounded time."""
        if self._reconnection is not None:
            await self._reconnection.close()
        await self._peer.peer.close()
        await self._incoming.close()
        await self._peer.finish()

    # ---- after the connection was lost

    async def _reconnect(self) -> None:
        """Connect again, and agree on the version that was spoken before."""
        assert self._reopen_transport is not None
        await self._peer.peer.close()
        self._transport = await self._reopen_transport()
        self._peer.open(self._transport, self._incoming, self._line_limit)
        await self._initialize(self._spoken, WITHIN)

    async def _resume(self, opened: OpenSession) -> None:
        """Resume a session that stayed open; with a replay, if something of it may be missing."""
        replay = (opened.prompts.broke_off and self.can("load")) or not self.can("resume")
        if replay:
            require(self.agent, "load", "resume sessions")
        undo = opened.updates.start_over() if replay else None
        try:
            await self._request_resume(opened, replay=replay, within=WITHIN)
        except BaseException:
            if undo is not None:
                undo()
            raise
        opened.prompts.broke_off = False

    async def _request_resume(
        self, opened: OpenSession, *, replay: bool, within: float | None = None
    ) -> None:
        cwd, *others = opened.roots
        start = v2.ReplayFromStart() if replay else UNSET
        request = v2.ResumeSessionRequest(
            opened.session_id, cwd, others or UNSET, opened.mcp_servers, start
        )
        arrived = opened.answered(opened.replayed if replay else opened.set_up)
        await self._peer.call("session/resume", request, arrived=arrived, within=within)

    # ---- the agent

    @property
    def agent(self) -> AgentDescription:
        """What the agent declared about itself, in version 2's types."""
        return self._peer.description

    @property
    def agent_name(self) -> str:
        """The agent's title or name, on one line."""
        return self.agent.name

    @property
    def protocol_version(self) -> Version:
        """The version of the protocol that both sides speak; 1 for the guide's dialect."""
        return self.agent.protocol_version

    @property
    def capabilities(self) -> v2.AgentCapabilities:
        """What the agent supports, in version 2's types."""
        return self.agent.capabilities

    @property
    def prompt_capabilities(self) -> v2.PromptCapabilities:
        """What prompts may contain besides text and links."""
        return self.agent.prompt_capabilities

    @property
    def auth_methods(self) -> list[v2.AuthMethod]:
        """The ways to log in; empty if none is needed."""
        return self.agent.auth_methods

    def can(self, what: Able) -> bool:
        """Whether the agent declared that it supports something.

        Args:
            what: "new", "load", "resume", "list", "close", "delete", "directories" (more than
                one), "login" or "logout".

        Raises:
            ValueError: `what` is none of these.
        """
        if what not in get_args(Able):
            raise ValueError(f"{what!r} is none of {', '.join(get_args(Able))}.")
        return self.agent.can(what)

    async def authenticate(self, method_id: str) -> None:
        """Log in.

        Args:
            method_id: The id of one of `auth_methods`.

        Raises:
            NotSupported: The agent has no way to log in.
            RequestFailed: The agent refused.
        """
        require(self.agent, "login", "be logged in to: it names no way to do it")
        await self._peer.call("auth/login", v2.LoginAuthRequest(method_id))

    async def logout(self) -> None:
        """Log out.

        Raises:
            NotSupported: The agent cannot log out.
            RequestFailed: The agent refused.
        """
        require(self.agent, "logout", "log out")
        await self._peer.call("auth/logout", v2.Empty())

    # ---- sessions

    @property
    def sessions(self) -> Mapping[str, ClientSession]:
        """The open sessions, by id."""
        return MappingProxyType(self._sessions)

    async def new_session(
        self,
        cwd: Directory = ".",
        *,
        directories: Sequence[Directory] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Begin a session.

        Args:
            cwd: The directory that the session works in.
            directories: Other directories that it may touch.
            mcp_servers: MCP servers for the agent to use.

        Returns:
            The session; `async with` closes it at the end of a block.

        Raises:
            NotSupported: The agent does not support the directories or servers.
            RequestFailed: The agent refused, for example because it wants a login first.
        """
        require(self.agent, "new", "hold sessions")
        roots, servers = self._setup(cwd, directories, mcp_servers)
        request = v2.NewSessionRequest(roots[0], roots[1:] or UNSET, servers)

        def arrived(outcome: Any) -> Inbox | None:
            if isinstance(outcome, Exception):
                return None
            opened = self._claim(outcome.session_id, roots)
            opened.mcp_servers = servers
            opened.inbox.put(opened.set_up, outcome)
            return opened.inbox

        made = await self._peer.call("session/new", request, arrived=arrived)
        return self._sessions[made.session_id]

    async def load_session(
        self,
        session_id: str,
        cwd: Directory = ".",
        *,
        directories: Sequence[Directory] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Open a session again; the agent replays all of it.

        Args:
            session_id: The id of the session.
            cwd: The directory that the session works in.
            directories: Other directories that it may touch.
            mcp_servers: MCP servers for the agent to use.

        Raises:
            NotSupported: The agent cannot load sessions.
            LocalError: The session is open, and in the middle of a turn.
            RequestFailed: The agent refused.
        """
        require(self.agent, "load", "load sessions")
        return await self._reopen(session_id, cwd, directories, mcp_servers, replay=True)

    async def resume_session(
        self,
        session_id: str,
        cwd: Directory = ".",
        *,
        directories: Sequence[Directory] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Open a session again without a replay.

        An agent of version 1 that can only load sessions replays it all the same.

        Args:
            session_id: The id of the session.
            cwd: The directory that the session works in.
            directories: Other directories that it may touch.
            mcp_servers: MCP servers for the agent to use.

        Raises:
            NotSupported: The agent can neither resume nor load sessions.
            RequestFailed: The agent refused.
        """
        replay = not self.can("resume")
        if replay:
            require(self.agent, "load", "resume sessions")
        return await self._reopen(session_id, cwd, directories, mcp_servers, replay=replay)

    async def _reopen(
        self,
        session_id: str,
        cwd: Directory,
        directories: Sequence[Directory],
        mcp_servers: Sequence[v2.McpServer],
        *,
        replay: bool,
    ) -> ClientSession:
        roots, servers = self._setup(cwd, directories, mcp_servers)
        known = self._incoming.sessions.get(session_id)
        roots_before = known.roots if known is not None else []
        opened = self._claim(session_id, roots)
        opened.mcp_servers = servers
        session = self._sessions[session_id]
        undo = opened.start_over() if replay else None
        try:
            await self._request_resume(opened, replay=replay)
        except BaseException:
            if known is None:
                opened.end(None)
            elif not opened.closed:
                self._claim(session_id, roots_before)
                if undo is not None:
                    undo()
            raise
        return session

    def _setup(
        self,
        cwd: Directory,
        directories: Sequence[Directory],
        mcp_servers: Sequence[v2.McpServer],
    ) -> tuple[list[str], list[v2.McpServer]]:
        if isinstance(directories, str | bytes | PathLike):
            raise TypeError(f"directories is a list of paths, not {directories!r}.")
        check_setup(self.agent, directories, mcp_servers)
        return _absolute(cwd, *directories), list(mcp_servers)

    def _claim(self, session_id: str, roots: list[str]) -> OpenSession:
        opened = self._incoming.claim(session_id, roots)
        if session_id not in self._sessions:
            self._sessions[session_id] = ClientSession(opened)
        return opened

    def _ended(self, opened: OpenSession) -> None:
        self._sessions.pop(opened.session_id, None)

    def list_sessions(
        self, cwd: Directory | None = None, *, limit: int | None = None
    ) -> "SessionList":
        """The sessions that the agent has: `async for info in client.list_sessions()`.

        Args:
            cwd: Only those of this directory.
            limit: How many sessions, and how many pages of them, are read at most. By default all
                are read, if they are on no more than 10,000 pages.

        Returns:
            The list, which is requested page by page while it is read.

        Raises:
            NotSupported: The agent cannot list its sessions.
            ValueError: The limit is less than 1.
        """
        if limit is not None and limit < 1:
            raise ValueError("The limit is a number of sessions, at least 1.")
        require(self.agent, "list", "list its sessions")
        where = UNSET if cwd is None else _absolute(cwd)[0]

        async def read_page(cursor: Any) -> v2.ListSessionsResponse:
            request = v2.ListSessionsRequest(where, cursor)
            page: v2.ListSessionsResponse = await self._peer.call("session/list", request)
            return page

        return SessionList(read_page, limit, self._peer.report)

    async def delete_session(self, session_id: str) -> None:
        """Have the agent delete a session for good.

        Raises:
            NotSupported: The agent cannot delete sessions.
            RequestFailed: The agent refused.
        """
        require(self.agent, "delete", "delete sessions")
        opened = self._incoming.sessions.get(session_id)
        arrived = opened.answered() if opened is not None else None
        await self._peer.call("session/delete", v2.SessionParams(session_id), arrived=arrived)
        if opened is not None:
            opened.end(None)

    # ---- extensions

    async def request(self, method: str, params: Any = UNSET) -> Any:
        """Send a request that the protocol does not define.

        The answer is returned after the updates before it were handled, if `params` names a session
        as `sessionId`.

        Args:
            method: The method; by convention of the protocol it begins with an underscore.
            params: The params, as JSON values.

        Returns:
            The result, as JSON values.

        Raises:
            RequestFailed: The agent refused.
        """
        named = params.get("sessionId") if isinstance(params, dict) else None
        opened = self._incoming.sessions.get(named) if isinstance(named, str) else None
        arrived = opened.answered() if opened is not None else None
        return await self._peer.request(method, params, arrived=arrived)

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification that the protocol does not define.

        Args:
            method: The method; by convention of the protocol it begins with an underscore.
            params: The params, as JSON values.
        """
        self._peer.peer.notify(method, params)


class SessionList:
    """The sessions of an agent, read page by page: `async for info in client.list_sessions()`."""

    def __init__(
        self,
        read_page: Callable[[Any], Awaitable[v2.ListSessionsResponse]],
        limit: int | None,
        report: Report,
    ) -> None:
        self._read_page = read_page
        self._limit = limit
        self._report = report
        self._more = True

    @property
    def more(self) -> bool:
        """Whether the agent's list goes on after what was read."""
        return self._more

    async def __aiter__(self) -> AsyncIterator[v2.SessionInfo]:
        cursor: Any = UNSET
        cursors: set[str] = set()
        ids: set[str] = set()
        most_pages = self._limit or PAGES
        while len(cursors) < most_pages:
            page = await self._read_page(cursor)
            for info in page.sessions:
                if len(ids) == self._limit and info.session_id not in ids:
                    return
                ids.add(info.session_id)
                yield info
            cursor = page.next_cursor
            # an agent that sends a cursor again would go on for ever
            self._more = bool(cursor) and cursor not in cursors
            if not self._more or len(ids) == self._limit:
                return
            cursors.add(cursor)
        if self._limit is None:
            text = f"The agent lists more than {PAGES} pages of sessions: the rest is left out"
            self._report(Problem("limit", text))


def _absolute(*directories: Directory) -> list[str]:
    return [os.path.abspath(each) for each in directories]
