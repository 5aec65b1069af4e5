"""Finds out which version each side of a bridge speaks.

The client's version shows in the fields of its `initialize`, whatever number it claims. The agent
is sent an `initialize` of the same version first. If it speaks the other version, it is sent one of
that version: to the same process if that goes on, else to a new one. A capability that the other
version does not have is reported as a loss, and never a reason to refuse. Does no I/O.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from twofold.bridge.exchange import as_request_error
from twofold.convert.capabilities import (
    LACKING,
    downgrade_agent,
    downgrade_client,
    upgrade_agent,
    upgrade_client,
)
from twofold.convert.losses import Loss, Losses
from twofold.convert.versions import (
    AGENT_FIELDS_OF_V1,
    CLIENT_FIELDS_OF_V1,
    Version,
    other_version,
    version_of_agent,
    version_of_client,
)
from twofold.rpc.connection import Failure, Request, Response
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed

Wanted: TypeAlias = Literal["auto", 1, 2]


class Agreed(Struct):
    """Both versions are known."""

    client: Version
    agent: Version
    answer: bytes
    """The result of the client's `initialize`."""
    client_capabilities: v1.ClientCapabilities
    agent_capabilities: v1.AgentCapabilities
    losses: list[Loss]


class Again(Struct):
    """Send the agent another `initialize`; to a new process if `restart`."""

    params: bytes
    restart: bool = False


class _Answer(Struct):
    """The agent's answer to `initialize`."""

    version: Version
    raw: bytes
    result: dict[str, Any]


class Handshake:
    """Leads from the client's `initialize` to the versions of both sides.

    Args:
        request: The client's `initialize`.
        client: The version of the client; "auto" finds it out.
        agent: The version of the agent; "auto" finds it out.
        offer: What the bridge itself offers to a v1 agent.

    Raises:
        Malformed: The params of `request` are no object.
    """

    def __init__(
        self, request: Request, client: Wanted, agent: Wanted, offer: v1.ClientCapabilities
    ) -> None:
        params = codec.parse(request.params or b"{}")
        if not isinstance(params, dict):
            raise Malformed("params", "initialize needs an object")
        self.request = request
        self.client: Version = version_of_client(params) if client == "auto" else client
        self._params = params | {"protocolVersion": self.client}
        self._offer = offer
        self._wanted = agent
        self._trying: Version = self.client if agent == "auto" else agent
        self._tried: set[Version] = {self._trying}
        self._misunderstood: _Answer | None = None
        """The answer to an `initialize` of a version that the agent does not speak."""
        self._losses = Losses()
        self._first_error: RequestError | None = None
        self._restarted = False

    def begin(self) -> bytes:
        """Return the params of the first `initialize` for the agent."""
        return self._params_in(self._trying)

    def answered(self, answer: Response | Failure) -> Agreed | Again | RequestError:
        """Return the next step after the agent's answer.

        Raises:
            Malformed: The answer does not show which version the agent speaks.
        """
        if isinstance(answer, Failure):
            return self._refused(as_request_error(answer))
        result = codec.parse(answer.result)
        version = version_of_agent(result)
        if version is None:
            raise Malformed("protocolVersion", "the agent does not say which version it speaks")
        if self._wanted not in ("auto", version):
            return _another_version(version, self._wanted)
        initialized = _Answer(version, answer.result, result)
        if version in self._tried:
            return self._agreed(initialized)
        self._misunderstood = initialized
        return Again(self._try(version))

    def died(self, error: RequestError) -> Again | RequestError:
        """Return the next step after the agent ended without an answer: one restart is tried."""
        self._first_error = self._first_error or error
        if self._restarted or (self._wanted != "auto" and len(self._tried) == 1):
            return self._first_error
        self._restarted = True
        if len(self._tried) == 1:
            return Again(self._try(other_version(self._trying)), restart=True)
        return Again(self._params_in(self._trying), restart=True)

    def without_restart(self) -> Agreed | RequestError:
        """Return the result if the agent cannot be started again."""
        if self._misunderstood is not None:
            return self._agreed(self._misunderstood)
        return self._first_error or RequestError(INTERNAL_ERROR, "The agent refused both versions")

    def _refused(self, error: RequestError) -> Again | RequestError:
        self._first_error = self._first_error or error
        if self._wanted != "auto":
            return error
        if len(self._tried) == 1:
            return Again(self._try(other_version(self._trying)))
        if self._restarted:
            return self._first_error
        self._restarted = True
        return Again(self._params_in(self._trying), restart=True)

    def _try(self, version: Version) -> bytes:
        """Try another version; return the params of its `initialize`."""
        self._trying = version
        self._tried.add(version)
        return self._params_in(version)

    # ---- conversion

    def _params_in(self, version: Version) -> bytes:
        """The params of the client's `initialize`, converted to `version`."""
        self._losses = Losses()
        if version == self.client:
            return codec.encode(self._params)
        if version == 1:
            read = codec.read(_without(self._params, CLIENT_FIELDS_OF_V1), v2.InitializeRequest)
            lowered = downgrade_client(read, self._losses)
            capabilities = lowered.client_capabilities or v1.ClientCapabilities()
            capabilities.fs, capabilities.terminal = self._offer.fs, self._offer.terminal
            lowered.client_capabilities = capabilities
            return codec.encode(lowered)
        return codec.encode(
            upgrade_client(codec.read(self._params, v1.InitializeRequest), self._losses)
        )

    def _agreed(self, initialized: _Answer) -> Agreed | RequestError:
        version = initialized.version
        claimed = initialized.result.get("protocolVersion", version)
        if claimed != version and version == 2 and self.client == 1:
            return _another_version(claimed, 2)
        # some agents claim a version that they do not speak
        result = initialized.result | {"protocolVersion": version}
        of_client, of_agent = v1.ClientCapabilities(), v1.AgentCapabilities()
        if self.client == 1:
            client: v1.InitializeRequest = codec.read(self._params, v1.InitializeRequest)
            of_client = client.client_capabilities or of_client
        if version == 1:
            agent: v1.InitializeResponse = codec.read(result, v1.InitializeResponse)
            of_agent = agent.agent_capabilities or of_agent
        if version != self.client:
            answer = codec.encode(self._converted(result))
        elif version == 2 or initialized.result.get("protocolVersion") == 1:
            answer = initialized.raw
        else:
            answer = codec.encode(result)
        # what a peer cannot do is no loss: a request for it gets an error
        losses = [loss for loss in self._losses if loss.reason not in LACKING]
        return Agreed(self.client, version, answer, of_client, of_agent, losses)

    def _converted(self, result: Any) -> Any:
        if self.client == 2:
            return upgrade_agent(codec.read(result, v1.InitializeResponse), self._losses)
        read = codec.read(_without(result, AGENT_FIELDS_OF_V1), v2.InitializeResponse)
        return downgrade_agent(read, self._losses)


def _without(message: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Leave out fields of version 1 in a message of version 2: they repeat what it has."""
    return {name: value for name, value in message.items() if name not in fields}


def _another_version(speaks: Any, wanted: Any) -> RequestError:
    reason = {"reason": f"the agent speaks version {speaks!r}, not {wanted}"}
    return RequestError(INTERNAL_ERROR, "The agent speaks another version", reason)
