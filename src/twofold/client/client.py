"""A client: talks to an agent of either version.

`connect` starts the agent's command (or takes a transport), agrees on a version and gives a
`Client`, whose sessions are objects. Whatever the agent speaks, the client's side of it is version
2. When the block is left the agent and everything it started is gone.
"""

import asyncio
import os
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
from os import PathLike
from typing import Any, Literal, TypeAlias, TypeVar, get_args
from weakref import WeakSet

from msgspec import UNSET

from twofold.client.incoming import Elicit, Incoming
from twofold.client.negotiate import Negotiated, Offer, Silent, StartOver, negotiate
from twofold.client.permissions import Ask
from twofold.client.session import ClientSession
from twofold.convert.capabilities import NAMELESS
from twofold.convert.losses import Losses, NotConvertible
from twofold.convert.requests import downgrade_params, upgrade_result
from twofold.convert.versions import Version
from twofold.errors import LocalError, NoAnswer, NotSupported
from twofold.peer.inbox import TIMEOUT, Inbox, spawn
from twofold.peer.peer import PATIENCE, Arrived, Peer
from twofold.peer.problems import Problem, Report, guarded, log
from twofold.policy import Policy
from twofold.rpc.frames import LIMIT
from twofold.text import one_line
from twofold.transport.base import Transport
from twofold.transport.process import Process
from twofold.version import VERSION
from twofold.wire import v1, v2
from twofold.wire.shared import Implementation

# What an agent said of itself, and what is not asked of it because it cannot do it.


Able: TypeAlias = Literal[
    "new", "load", "resume", "list", "close", "delete", "directories", "login", "logout"
]


class Introduced:
    """An agent that said who it is and what it can do; before that, asking is an error."""

    def __init__(self) -> None:
        self._agent: Negotiated | None = None

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
        info = self.agent.info
        return "The agent" if info == NAMELESS else one_line(info.title or info.name)

    @property
    def capabilities(self) -> v2.AgentCapabilities:
        """What the agent says it can do, in the words of version 2."""
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

    def can(self, what: Able) -> bool:
        """Whether the agent says that it can; version 2 takes most for granted."""
        return _can(self.agent, what)

    def must(self, what: Able, words: str) -> None:
        """Refuse what the agent says it cannot do."""
        if not self.can(what):
            raise NotSupported(f"{self.agent_name} cannot {words}.")

    def check_setup(self, directories: Sequence[Any], mcp_servers: Sequence[v2.McpServer]) -> None:
        """Refuse what the agent says it cannot take at the beginning of a session."""
        if directories and not self.can("directories"):
            raise NotSupported(
                f"{self.agent_name} works in one directory only: leave out the others."
            )
        session = self.agent.capabilities.session
        able = (session.mcp if session else None) or v2.McpCapabilities()
        for server in mcp_servers:
            if isinstance(server, v2.McpServerStdio) and not able.stdio:
                raise NotSupported(f"{self.agent_name} starts no MCP servers ({server.name}).")
            if isinstance(server, v2.McpServerHttp) and not able.http:
                raise NotSupported(
                    f"{self.agent_name} reaches no MCP servers over HTTP ({server.name})."
                )


def _can(agent: Negotiated, what: Able) -> bool:
    """Whether the agent says that it can; version 2 takes most for granted."""
    session = agent.capabilities.session or None
    if what == "login":
        return bool(agent.auth_methods)
    if what == "delete":
        return bool(session and session.delete)
    if what == "directories":
        return bool(session and session.additional_directories)
    if agent.as_v1 is not None:
        return _can_v1(agent.as_v1.agent_capabilities or v1.AgentCapabilities(), what)
    # v2: `session` stands for all of its methods, and auth methods for logging in and out
    return bool(agent.auth_methods) if what == "logout" else session is not None


def _can_v1(able: v1.AgentCapabilities, what: Able) -> bool:
    if what == "new":
        return True
    if what == "load":
        return bool(able.load_session)
    if what == "logout":
        return bool(able.auth and able.auth.logout)
    return bool(able.session_capabilities and getattr(able.session_capabilities, what))


START = 120.0
"""How many seconds an agent has to answer `initialize`: one that is downloaded first takes long."""
CLOSE = 5.0
"""How many seconds what still goes on may take when the client is closed."""

PAGES = 10_000
"""How many pages of a list of sessions are read: an agent may go on for ever."""

T = TypeVar("T")
Directory: TypeAlias = str | PathLike[str]
Offered: TypeAlias = Literal["fs", "terminal", "login"]

Open: TypeAlias = Callable[[], Awaitable[Transport]]
"""Opens a transport to an agent: what is not a command but can be started again."""

_LINES: dict[int, Callable[[bytes | str], Any]] = {
    1: v1.decode_update_line,
    2: v2.decode_update_line,
}


@asynccontextmanager
async def connect(
    agent: Sequence[str] | Transport | Open,
    *,
    version: Version | None = None,
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
) -> AsyncIterator["Client"]:
    """Talk to an agent, in a block: `async with twofold.connect(["some-agent"]) as client: …`.

    An agent is a command, a transport, or what opens one.
    `version` demands one; otherwise 2 is tried first. Permissions are decided by `policy`, then by
    `ask`, and rejected if there is nobody to ask. `offer` names what the client does: `fs` and
    `terminal` for agents of version 1, `login` if someone can log in at a terminal. Commands that
    the client runs for the agent get the variables that any command needs, those of `env`, and
    those of this process that `pass_env` names. Lines of the agent that are longer than
    `line_limit` bytes are passed over.
    """
    if version not in (None, 1, 2) or not set(get_args(Offered)).issuperset(offer):
        raise LocalError(
            "A version is 1 or 2, and what can be offered is 'fs', 'terminal' and 'login'."
        )

    async def start() -> Transport:
        if isinstance(agent, Sequence):
            return await Process.spawn(agent, cwd=cwd, env=env, on_stderr=on_stderr)
        return await agent() if callable(agent) else agent

    def client_on(transport: Transport) -> Client:
        return Client(
            transport,
            policy=policy or Policy(),
            ask=ask,
            elicit=elicit,
            offer=offer,
            env=env if isinstance(agent, Sequence) else None,
            pass_env=pass_env,
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
            if isinstance(agent, Sequence) or callable(agent):
                await client.close()
                client = client_on(await start())
                await client.initialize(1, within=start_timeout)
            elif over.known is not None:
                client.agree(over.known)
            else:
                raise over.cause from None
        yield client
    finally:
        await client.close()


class Client(Introduced):
    """A connection to an agent. `connect` makes it."""

    def __init__(
        self,
        transport: Transport,
        *,
        policy: Policy,
        ask: Ask | None,
        elicit: Elicit | None,
        offer: Collection[Offered],
        env: Mapping[str, str | None] | None,
        pass_env: Collection[str],
        report: Report,
        handler_timeout: float,
        line_limit: int,
        info: Implementation,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.ask = ask
        self.env, self.pass_env = env, pass_env
        self.report = guarded(report)
        able = ("fs" in offer, "terminal" in offer, elicit is not None, "login" in offer)
        self._offer = Offer(info, *able)
        self._handler_timeout = handler_timeout
        self._transport = transport
        self._incoming = Incoming(self, self._offer, elicit)
        self._background: set[asyncio.Task[Any]] = set()
        self._inboxes: WeakSet[Inbox] = WeakSet()
        self.sessions: Mapping[str, ClientSession] = self._incoming.sessions
        """The sessions that are open, by id."""
        self.peer = Peer(
            transport, self._incoming, who="agent", report=report, line_limit=line_limit
        )

    # ---- who the agent is

    async def initialize(self, version: Version | None, *, within: float = START) -> None:
        """Agree on a version; `connect` has done it."""
        self.peer.start()
        try:
            agent = await negotiate(self.peer, self._offer, version, within=within)
        except NoAnswer as error:
            process = self._transport if isinstance(self._transport, Process) else None
            said = (process.stderr_tail, process.printed) if process is not None else ("",)
            raise Silent(error.seconds, *said) from None
        self.agree(agent)

    def agree(self, agent: Negotiated) -> None:
        """What the agent said of itself is known now."""
        self._agent = agent
        self._incoming.agreed(agent.version)
        self.peer.read_first(_LINES[agent.version])

    @property
    def offers_terminals(self) -> bool:
        """Whether agents of version 1 may use terminals of this client."""
        return self._offer.terminals

    async def authenticate(self, method_id: str) -> None:
        """Log in with one of `auth_methods`."""
        self.must("login", "be logged in to: it names no way to do it")
        await self.call("auth/login", v2.LoginAuthRequest(method_id))

    async def logout(self) -> None:
        """Log out."""
        self.must("logout", "log out")
        await self.call("auth/logout", v2.Empty())

    # ---- sessions

    async def new_session(
        self,
        cwd: Directory = ".",
        *,
        directories: Sequence[Directory] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Begin a conversation in `cwd`; `directories` are others that it may touch."""
        self.must("new", "hold sessions")
        roots, servers = self._setup(cwd, directories, mcp_servers)
        request = v2.NewSessionRequest(roots[0], roots[1:] or UNSET, servers)

        def arrived(outcome: Any) -> Inbox | None:
            if isinstance(outcome, Exception):
                return None
            session = self._incoming.claim(outcome.session_id, roots)
            session.inbox.put(session.setup, outcome)
            return session.inbox

        made = await self.call("session/new", request, arrived=arrived)
        return self.sessions[made.session_id]

    async def load_session(
        self,
        session_id: str,
        cwd: Directory = ".",
        *,
        directories: Sequence[Directory] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Take a conversation up again; the agent tells everything that was said."""
        self.must("load", "load sessions")
        return await self._take_up(session_id, cwd, directories, mcp_servers, replay=True)

    async def resume_session(
        self,
        session_id: str,
        cwd: Directory = ".",
        *,
        directories: Sequence[Directory] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
    ) -> ClientSession:
        """Go on with a conversation without hearing again what was said.

        An agent of version 1 that can only load sessions tells it all the same.
        """
        replay = not self.can("resume")
        if replay:
            self.must("load", "resume sessions")
        return await self._take_up(session_id, cwd, directories, mcp_servers, replay=replay)

    async def _take_up(
        self,
        session_id: str,
        cwd: Directory,
        directories: Sequence[Directory],
        mcp_servers: Sequence[v2.McpServer],
        *,
        replay: bool,
    ) -> ClientSession:
        roots, servers = self._setup(cwd, directories, mcp_servers)
        start = v2.ReplayFromStart() if replay else UNSET
        request = v2.ResumeSessionRequest(session_id, roots[0], roots[1:] or UNSET, servers, start)
        known = self.sessions.get(session_id)
        before = known.roots if known is not None else []
        session = self._incoming.claim(session_id, roots)
        undo = session.start_over() if replay else None
        try:
            answered = session.replayed if replay else session.setup
            await self.call("session/resume", request, arrived=session.then(answered))
        except BaseException:
            if known is None:
                session.ended(None)
            elif not session.closed:
                self._incoming.claim(session_id, before)
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
        self.check_setup(directories, mcp_servers)
        return _absolute(cwd, *directories), list(mcp_servers)

    async def list_sessions(self, cwd: Directory | None = None) -> AsyncIterator[v2.SessionInfo]:
        """The sessions that the agent knows, of `cwd` only if it is given, page by page."""
        self.must("list", "list its sessions")
        where = UNSET if cwd is None else _absolute(cwd)[0]
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
            if len(seen) >= PAGES:
                text = f"The agent lists more than {PAGES} pages of sessions: the rest is left out"
                self.report(Problem("limit", text))
                return

    async def delete_session(self, session_id: str) -> None:
        """Have the agent forget a session for good."""
        self.must("delete", "delete sessions")
        session = self.sessions.get(session_id)
        arrived = session.then() if session is not None else None
        await self.call("session/delete", v2.SessionParams(session_id), arrived=arrived)
        if session is not None:
            session.ended(None)

    def forget(self, session: ClientSession) -> None:
        self._incoming.forget(session)

    # ---- anything else

    async def request(self, method: str, params: Any = UNSET) -> Any:
        """Ask something that the protocol does not define; JSON in, JSON out.

        The answer comes after the updates before it, if `params` names a session.
        """
        named = params.get("sessionId") if isinstance(params, dict) else None
        session = self.sessions.get(named) if isinstance(named, str) else None
        arrived = session.then() if session is not None else None
        return await self.peer.request(method, params, arrived=arrived)

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Tell something that the protocol does not define."""
        self.peer.notify(method, params)

    async def call(
        self,
        method: str,
        params: Any,
        *,
        arrived: Arrived | None = None,
        within: float | None = None,
    ) -> Any:
        """Ask in the words of version 2, whatever the agent speaks."""
        if self.version == 2:
            shape = v2.METHODS[method].result
            return await self.peer.request(method, params, shape, arrived=arrived, within=within)
        losses = Losses()
        try:
            name, lowered = downgrade_params(method, params, losses)
        except NotConvertible as refused:
            raise NotSupported(
                f"{self.agent_name} speaks version 1, which has no way to say this: {refused}"
            ) from None
        for loss in losses:
            self.report(Problem("loss", f"{name}: {loss.path}: {loss.reason}"))
        result = await self.request_v1(name, lowered, arrived, within)
        return result if method == "session/prompt" else upgrade_result(name, result, Losses())

    async def request_v1(
        self, method: str, params: Any, arrived: Arrived | None, within: float | None = None
    ) -> Any:
        shape = v1.METHODS[method].result
        return await self.peer.request(method, params, shape, arrived=arrived, within=within)

    def count_questions(self) -> int:
        """How many permission requests wait for an answer, in all sessions."""
        return self._incoming.count_questions()

    def tell(self, method: str, params: Any) -> None:
        if not self.peer.closed:
            self.peer.notify(method, params)

    async def close(self) -> None:
        """End the conversation and the agent; bounded."""
        await self.peer.close()
        await self._incoming.close()
        for inbox in self._inboxes:  # those too of sessions that were gone before
            inbox.close()
        await asyncio.gather(*(inbox.stopped(PATIENCE) for inbox in self._inboxes))
        if self._background:
            await asyncio.wait(self._background, timeout=CLOSE)
        for task in self._background:
            task.cancel()

    def in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something that goes on even if nobody waits for it; `close` does."""
        task = spawn(work, self._background)
        task.add_done_callback(_looked_at)
        return task

    def inbox_of(self, session_id: str) -> Inbox:
        inbox = Inbox(
            session_id,
            self.report,
            hold=self.peer.hold,
            release=self.peer.release,
            timeout=self._handler_timeout,
        )
        self._inboxes.add(inbox)
        return inbox


def _absolute(*directories: Directory) -> list[str]:
    return [os.path.abspath(each) for each in directories]


def _looked_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waits gets it; if nobody does, it is no news
