"""The settings and handlers of an agent: `Agent` fills them in, its connections read them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct, field

from twofold.agent.session import AgentSession, OpenSession
from twofold.agent.store import Store
from twofold.agent.turn import Turn
from twofold.peer.problems import Report
from twofold.wire import v2
from twofold.wire.base import UNSET
from twofold.wire.shared import Capability, Implementation

PromptHandler: TypeAlias = Callable[[Turn], Awaitable[str | None]]
"""Answers a prompt; it may return a stop reason."""
SessionHandler: TypeAlias = Callable[[AgentSession], Awaitable[None]]
OptionHandler: TypeAlias = Callable[[AgentSession, str, str | bool], Awaitable[None]]
LoginHandler: TypeAlias = Callable[[str], Awaitable[None]]
LogoutHandler: TypeAlias = Callable[[], Awaitable[None]]
RequestHandler: TypeAlias = Callable[[Any], Awaitable[Any]]
NotificationHandler: TypeAlias = Callable[[Any], Awaitable[None]]


class Definition(Struct, eq=False):
    """The settings and handlers of one agent, and the sessions that are open in it."""

    info: Implementation
    prompts: frozenset[str]
    """What prompts may hold besides text and links."""
    mcp: frozenset[str]
    """The kinds of MCP servers that the agent connects to."""
    auth_methods: list[v2.AuthMethod]
    protocol_versions: frozenset[int]
    store: Store
    new_session_id: Callable[[], str]
    cancel_timeout: float
    """How many seconds a handler has to stop when it is cancelled."""
    line_limit: int
    """How many bytes a line of a client may have."""
    report: Report
    on_prompt: PromptHandler | None = None
    on_new_session: SessionHandler | None = None
    on_resume_session: SessionHandler | None = None
    on_close_session: SessionHandler | None = None
    on_config_option: OptionHandler | None = None
    on_login: LoginHandler | None = None
    on_logout: LogoutHandler | None = None
    requests: dict[str, RequestHandler] = field(default_factory=dict)
    """Handlers of extension methods, by name."""
    notifications: dict[str, NotificationHandler] = field(default_factory=dict)
    """Handlers of extension notifications, by name."""
    open_sessions: dict[str, OpenSession] = field(default_factory=dict)
    """The open sessions of all clients: a session is open for one client at a time."""

    def initialize_response(self, client: v2.InitializeRequest) -> v2.InitializeResponse:
        """The answer to `initialize`, in version 2."""
        session = v2.SessionCapabilities(
            prompt=v2.PromptCapabilities(**_capabilities(self.prompts)),
            mcp=v2.McpCapabilities(**_capabilities(self.mcp)) if self.mcp else UNSET,
            delete=Capability(),
            additional_directories=Capability(),
        )
        methods = self.auth_methods
        declared = client.capabilities
        if not (declared and declared.auth and declared.auth.terminal):
            # v2: terminal logins are offered only to clients that declared they can run them
            methods = [each for each in methods if not isinstance(each, v2.AuthMethodTerminal)]
        capabilities = v2.AgentCapabilities(session=session)
        return v2.InitializeResponse(2, self.info, capabilities, methods or UNSET)


def _capabilities(names: Iterable[str]) -> dict[str, Any]:
    return {name: Capability() for name in names}
