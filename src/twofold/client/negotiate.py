"""Which version a client and its agent speak.

Two is asked for first. An agent of version 1 may answer 1, answer 2 in the shapes of version 1,
refuse, or fall over. The first two are initialized again as what they are, for they were told
nothing yet that version 1 understands; one that refuses is asked for 1 on the same connection; one
that falls over, or refuses that too, is started once more (by the caller) and asked for 1 only.
"""

from typing import Any

from msgspec import Struct

from twofold.convert.capabilities import NAMELESS, upgrade_agent
from twofold.convert.losses import Losses
from twofold.convert.versions import Version, claimed_version, version_of_agent
from twofold.errors import BadAnswer, ConnectionEnded, NoAnswer, PeerError
from twofold.peer.peer import Peer
from twofold.rpc.errors import RequestFailed
from twofold.transport.commands import IS_IT, PRINTED, first_lines, indented
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.shared import Capability, Implementation

AGAIN = 10.0
"""How many seconds an agent that has answered `initialize` has to answer it once more."""


class UnknownVersion(PeerError):
    """The agent speaks a version that Twofold does not know."""

    def __init__(self, version: Any) -> None:
        super().__init__(
            f"The agent speaks version {version!r} of the protocol; Twofold speaks 1 and 2."
        )
        self.version = version


class WrongVersion(PeerError):
    """The agent does not speak the version that was demanded."""

    def __init__(self, wanted: int, version: int) -> None:
        super().__init__(
            f"The agent speaks version {version} of the protocol, and version {wanted} was"
            " demanded. Leave the version open to speak either."
        )
        self.wanted = wanted
        self.version = version


class NotAnAgent(PeerError):
    """The command gives back what it is given."""

    def __init__(self) -> None:
        super().__init__(
            "The command repeats what it is told: it is not an agent. Check the command; many"
            " programs need an option such as --acp to be one."
        )


class Silent(NoAnswer):
    """The agent runs, but does not answer `initialize`.

    `stderr` is the end of its standard error, `stdout` what it printed instead of messages.
    """

    def __init__(self, seconds: float, stderr: str, stdout: str = "") -> None:
        super().__init__("agent", "initialize", seconds)
        self.stderr = "\n".join(stderr.rstrip().splitlines()[-_LAST_LINES:])
        self.stdout = first_lines(stdout)
        told = IS_IT
        if self.stderr:
            told += f" The end of its standard error:\n{indented(self.stderr)}"
        if self.stdout:
            told += f"\n{PRINTED}\n{indented(self.stdout)}"
        self.args = (f"{self} {told}",)


_LAST_LINES = 20


class StartOver(Exception):  # not an error for users: the caller starts the agent again
    """The agent must be started once more and asked for version 1 only.

    `known` is what it said of itself already, for a caller who cannot start it.
    """

    def __init__(self, cause: PeerError, known: "Negotiated | None" = None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.known = known


class Offer(Struct):
    """What a client can do for its agent."""

    info: Implementation
    files: bool = False
    terminals: bool = False
    elicitation: bool = False
    logins: bool = False
    """Someone sits at a terminal in which the agent's command can be run for a login."""


class Negotiated(Struct):
    """What an agent said of itself, in the words of version 2."""

    version: Version
    info: Implementation
    capabilities: v2.AgentCapabilities
    auth_methods: list[v2.AuthMethod]
    as_v1: v1.InitializeResponse | None = None
    """What an agent of version 1 really said."""


async def negotiate(
    peer: Peer, offer: Offer, version: Version | None, *, within: float
) -> Negotiated:
    """Agree on a version; `version` demands one."""
    if version == 1:
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


# ---- what is said --------------------------------------------------------------------------


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


# ---- what is answered ----------------------------------------------------------------------


def _version_of(result: Any) -> int:
    """The version that an answer claims."""
    if not isinstance(result, dict) or "protocolVersion" not in result:
        raise BadAnswer("agent", "initialize", "there is no protocolVersion in it")
    version = claimed_version(result)
    if version is None:
        raise UnknownVersion(result["protocolVersion"])
    return version


def _second(result: Any) -> Negotiated:
    if _version_of(result) != 2:
        raise UnknownVersion(result["protocolVersion"])
    try:
        read: v2.InitializeResponse | v2.AugustInitializeResponse = codec.read(
            result, v2.InitializeResponse
        )
    except Malformed as error:
        raise BadAnswer("agent", "initialize", str(error)) from None
    return Negotiated(
        2,
        read.info or NAMELESS,
        read.capabilities or v2.AgentCapabilities(),
        list(read.auth_methods or []),
    )


def _as_first(result: Any) -> Negotiated:
    version = _version_of(result)
    if version not in (1, 2):
        raise UnknownVersion(version)
    if version_of_agent(result) == 2:
        raise WrongVersion(1, 2)
    try:
        read: v1.InitializeResponse = codec.read(result, v1.InitializeResponse)
    except Malformed as error:
        raise BadAnswer("agent", "initialize", str(error)) from None
    lifted = upgrade_agent(read, Losses())  # what only version 1 says is kept in `as_v1`
    return Negotiated(
        1,
        lifted.info,
        lifted.capabilities or v2.AgentCapabilities(),
        list(lifted.auth_methods or []),
        read,
    )


# ---- what comes of it ----------------------------------------------------------------------


async def _first(peer: Peer, offer: Offer, within: float) -> Negotiated:
    return _as_first(await peer.request("initialize", _request_v1(offer), within=within))


async def _again(peer: Peer, offer: Offer, known: Negotiated, within: float) -> Negotiated:
    """An agent of version 1 was asked in words that it does not know: ask in its own."""
    try:
        return await _first(peer, offer, min(within, AGAIN))
    except ConnectionEnded as error:
        raise StartOver(error) from None
    except PeerError as error:
        if offer.files or offer.terminals or offer.elicitation:
            raise StartOver(error, known) from None  # it would not know what it may ask for
        return known


async def _refused(peer: Peer, offer: Offer, error: PeerError, within: float) -> Negotiated:
    """An agent did not want to hear of version 2: perhaps it only wants to hear of 1."""
    if peer.closed:
        raise StartOver(error)
    try:
        return await _first(peer, offer, within)
    except (RequestFailed, ConnectionEnded):
        raise StartOver(error) from None
