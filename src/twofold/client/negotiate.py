"""Agrees on a protocol version with an agent, and holds what the agent declared about itself.

Version 2 is requested first. An agent of version 1 may answer 1, answer 2 in the shapes of version
1, refuse, or crash. In the first two cases `initialize` is sent again in version 1, because the
first request declared nothing that version 1 reads. An agent that refuses gets a version 1 request
on the same connection. An agent that crashes, or refuses that as well, has to be started again by
the caller, who then requests version 1 only.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from twofold.convert.capabilities import NAMELESS, upgrade_agent
from twofold.convert.losses import Losses
from twofold.convert.versions import Version, claimed_version, version_of_agent
from twofold.errors import BadAnswer, ConnectionEnded, NoAnswer, NotSupported, PeerError
from twofold.peer.peer import Peer
from twofold.rpc.errors import RequestFailed
from twofold.text import one_line
from twofold.transport.commands import IS_IT, PRINTED, first_lines, indented
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Capability, Implementation

WantedVersion: TypeAlias = Literal[1, 2, "guide"]
"""What a caller can demand: a version, or the client guide's dialect of version 1."""
Able: TypeAlias = Literal[
    "new", "load", "resume", "list", "close", "delete", "directories", "login", "logout"
]
"""What an agent can declare that it supports."""

AGAIN = 10.0
"""How many seconds an agent has to answer a second `initialize`."""


class UnknownVersion(PeerError):
    """The agent speaks a version that Twofold does not support.

    Attributes:
        protocol_version: The version that the agent answered.
    """

    def __init__(self, protocol_version: Any) -> None:
        super().__init__(
            f"The agent speaks version {protocol_version!r} of the protocol; Twofold speaks 1 and"
            " 2."
        )
        self.protocol_version = protocol_version


class WrongVersion(PeerError):
    """The agent does not speak the version that the caller demanded.

    Attributes:
        wanted: The version that was demanded.
        protocol_version: The version that the agent speaks.
    """

    def __init__(self, wanted: int, protocol_version: int) -> None:
        super().__init__(
            f"The agent speaks version {protocol_version} of the protocol, and version {wanted} was"
            " demanded. Leave the version open to speak either."
        )
        self.wanted = wanted
        self.protocol_version = protocol_version


class NotAnAgent(PeerError):
    """The command writes its input back, so it is not an agent."""

    def __init__(self) -> None:
        super().__init__(
            "The command repeats its input: it is not an agent. Check the command; many programs"
            " need an option such as --acp to be one."
        )


class AgentSilent(NoAnswer):
    """The agent runs, but does not answer `initialize`.

    Attributes:
        stderr: The end of its standard error.
        stdout: What it printed instead of messages.
    """

    def __init__(self, seconds: float, stderr: str, stdout: str = "") -> None:
        super().__init__("agent", "initialize", seconds)
        self.stderr = "\n".join(stderr.rstrip().splitlines()[-_LAST_LINES:])
        self.stdout = first_lines(stdout)
        advice = IS_IT
        if self.stderr:
            advice += f" The end of its standard error:\n{indented(self.stderr)}"
        if self.stdout:
            advice += f"\n{PRINTED}\n{indented(self.stdout)}"
        self.args = (f"{self} {advice}",)


_LAST_LINES = 20


class StartOver(Exception):  # not an error for users: the caller starts the agent again
    """The agent has to be started again, with a request for version 1 only.

    `known` is what the agent declared already, for a caller who cannot start it again.
    """

    def __init__(self, cause: PeerError, known: "AgentDescription | None" = None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.known = known


class Offer(Struct):
    """What a client offers to its agent in `initialize`."""

    info: Implementation
    files: bool = False
    terminals: bool = False
    elicitation: bool = False
    logins: bool = False
    """A person can run the agent's command in a terminal to log in."""


class AgentDescription(Struct):
    """What an agent declared about itself in `initialize`, in version 2's types."""

    protocol_version: Version
    """The version that both sides speak; 1 for the client guide's dialect."""
    info: Implementation
    """Name and version of the agent's program."""
    capabilities: v2.AgentCapabilities
    """What the agent supports."""
    auth_methods: list[v2.AuthMethod]
    """The ways to log in; empty if none is needed."""
    as_v1: v1.InitializeResponse | None = None
    """The original answer of an agent that speaks version 1."""

    @property
    def name(self) -> str:
        """The agent's title or name on one line, or "The agent" if it has none."""
        return "The agent" if self.info == NAMELESS else one_line(self.info.title or self.info.name)

    @property
    def prompt_capabilities(self) -> v2.PromptCapabilities:
        """What prompts may contain besides text and links."""
        session = self.capabilities.session
        return (session.prompt if session else None) or v2.PromptCapabilities()

    def can(self, what: Able) -> bool:
        """Whether the agent declared that it supports `what`."""
        session = self.capabilities.session or None
        if what == "login":
            return bool(self.auth_methods)
        if what == "delete":
            return bool(session and session.delete)
        if what == "directories":
            return bool(session and session.additional_directories)
        if self.as_v1 is not None:
            return _can_v1(self.as_v1.agent_capabilities or v1.AgentCapabilities(), what)
        # v2: `session` stands for all of its methods, and auth methods for login and logout
        return bool(self.auth_methods) if what == "logout" else session is not None


def require(agent: AgentDescription, what: Able, action: str) -> None:
    """Raise `NotSupported` ("X cannot `action`") unless the agent supports `what`."""
    if not agent.can(what):
        raise NotSupported(f"{agent.name} cannot {action}.")


def check_setup(
    agent: AgentDescription, directories: Sequence[Any], mcp_servers: Sequence[v2.McpServer]
) -> None:
    """Raise `NotSupported` for a setup of a session that the agent does not support."""
    if directories and not agent.can("directories"):
        raise NotSupported(f"{agent.name} works in one directory only: leave out the others.")
    session = agent.capabilities.session
    able = (session.mcp if session else None) or v2.McpCapabilities()
    for server in mcp_servers:
        if isinstance(server, v2.McpServerStdio) and not able.stdio:
            raise NotSupported(f"{agent.name} starts no MCP servers ({server.name}).")
        if isinstance(server, v2.McpServerHttp) and not able.http:
            raise NotSupported(f"{agent.name} reaches no MCP servers over HTTP ({server.name}).")


def _can_v1(able: v1.AgentCapabilities, what: Able) -> bool:
    if what == "new":
        return True
    if what == "load":
        return bool(able.load_session)
    if what == "logout":
        return bool(able.auth and able.auth.logout)
    return bool(able.session_capabilities and getattr(able.session_capabilities, what))


async def negotiate(
    peer: Peer, offer: Offer, version: WantedVersion | None, *, within: float
) -> AgentDescription:
    """Send `initialize` and agree on a version.

    Args:
        peer: The connection to the agent.
        offer: What the client declares.
        version: The version to demand; None for either. The guide's dialect has version 1's
            handshake.
        within: How many seconds the agent has to answer.

    Raises:
        StartOver: The agent has to be started again.
        PeerError: The agent speaks another version, refuses, or does not answer.
    """
    if version in (1, "guide"):
        return await _first(peer, offer, within)
    try:
        result = await peer.request("initialize", _request_v2(offer), within=within)
    except (RequestFailed, ConnectionEnded) as error:
        if version == 2:
            raise
        return await _refused(peer, offer, error, within)
    if version_of_agent(result) == 2:
        return _second(result)
    known = _as_first(result)
    if version == 2:
        raise WrongVersion(2, 1)
    return await _again(peer, offer, known, within)


# ---- requests ------------------------------------------------------------------------------


def _request_v2(offer: Offer) -> v2.InitializeRequest:
    capabilities = v2.ClientCapabilities()
    if offer.elicitation:
        capabilities.elicitation = v2.ElicitationCapabilities(form=v2.Capability())
    if offer.logins:
        capabilities.auth = v2.ClientAuthCapabilities(terminal=v2.Capability())
    return v2.InitializeRequest(2, offer.info, capabilities)


def _request_v1(offer: Offer) -> v1.InitializeRequest:
    here = Capability()
    return v1.InitializeRequest(
        1,
        v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities(offer.files, offer.files),
            terminal=offer.terminals,
            session=v1.ClientSessionCapabilities(
                compaction=here,
                config_options=v1.SessionConfigOptionsCapabilities(here),
                notices=here,
            ),
            elicitation=v1.ElicitationCapabilities(form=here) if offer.elicitation else UNSET,
            auth=v1.AuthCapabilities(True) if offer.logins else UNSET,
        ),
        offer.info,
    )


# ---- answers -------------------------------------------------------------------------------


def _version_of(result: Any) -> int:
    """The version in an answer; raises if there is none."""
    if not isinstance(result, dict) or "protocolVersion" not in result:
        raise BadAnswer("agent", "initialize", "there is no protocolVersion in it")
    version = claimed_version(result)
    if version is None:
        raise UnknownVersion(result["protocolVersion"])
    return version


def _second(result: Any) -> AgentDescription:
    if _version_of(result) != 2:
        raise UnknownVersion(result["protocolVersion"])
    try:
        read: v2.InitializeResponse | v2.AugustInitializeResponse = codec.read(
            result, v2.InitializeResponse
        )
    except Malformed as error:
        raise BadAnswer("agent", "initialize", str(error)) from None
    return AgentDescription(
        2,
        read.info or NAMELESS,
        read.capabilities or v2.AgentCapabilities(),
        list(read.auth_methods or []),
    )


def _as_first(result: Any) -> AgentDescription:
    version = _version_of(result)
    if version not in (1, 2):
        raise UnknownVersion(version)
    if version_of_agent(result) == 2:
        raise WrongVersion(1, 2)
    try:
        read: v1.InitializeResponse = codec.read(result, v1.InitializeResponse)
    except Malformed as error:
        raise BadAnswer("agent", "initialize", str(error)) from None
    lifted = upgrade_agent(read, Losses())  # what version 2 has no field for stays in `as_v1`
    return AgentDescription(
        1,
        lifted.info,
        lifted.capabilities or v2.AgentCapabilities(),
        list(lifted.auth_methods or []),
        read,
    )


# ---- second attempts -----------------------------------------------------------------------


async def _first(peer: Peer, offer: Offer, within: float) -> AgentDescription:
    return _as_first(await peer.request("initialize", _request_v1(offer), within=within))


async def _again(
    peer: Peer, offer: Offer, known: AgentDescription, within: float
) -> AgentDescription:
    """Send version 1's `initialize` to an agent that answered version 2's as version 1."""
    try:
        return await _first(peer, offer, min(within, AGAIN))
    except ConnectionEnded as error:
        raise StartOver(error) from None
    except PeerError as error:
        if offer.files or offer.terminals or offer.elicitation:
            raise StartOver(error, known) from None  # it has not received what the client offers
        return known


async def _refused(peer: Peer, offer: Offer, error: PeerError, within: float) -> AgentDescription:
    """Send version 1's `initialize` to an agent that refused version 2's."""
    if peer.closed:
        raise StartOver(error)
    try:
        return await _first(peer, offer, within)
    except (RequestFailed, ConnectionEnded):
        raise StartOver(error) from None
