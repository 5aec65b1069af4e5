"""What an agent said of itself, and what is not asked of it because it cannot do it."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from twofold.convert.capabilities import NAMELESS
from twofold.errors import LocalError, NotSupported
from twofold.runtime.client.negotiate import Negotiated, Version
from twofold.text import one_line
from twofold.wire import v1, v2

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
