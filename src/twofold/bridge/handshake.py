"""Who speaks what: a bridge agrees on a version with each side by itself.

The client's version shows in its `initialize`, whatever number it claims. The agent is asked for
the same; if it turns out to speak the other, it is initialized again in its own words, on the same
process if it lets us, else on a new one. Does no I/O. That one side can do something that the
other version has no word for is told, but is never a reason to refuse: this is where both sides
find out.
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
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.messages import Failure, Request, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed

Wanted: TypeAlias = Literal["auto", 1, 2]


class Agreed(Struct):
    """What came of it: the versions of both sides, and what the client is answered."""

    client: Version
    agent: Version
    answer: bytes
    client_capabilities: v1.ClientCapabilities
    agent_capabilities: v1.AgentCapabilities
    losses: list[Loss]


class Again(Struct):
    """The agent has to be asked again; on a new process if `restart`."""

    params: bytes
    restart: bool = False


class _Answer(Struct):
    """What an agent said of itself."""

    speaks: Version
    raw: bytes
    result: dict[str, Any]


class Handshake:
    """From the client's `initialize` to what both sides speak."""

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
        self._told: _Answer | None = None
        """An answer to a question in words that the agent does not know."""
        self._losses = Losses()
        self._first_error: RequestError | None = None
        self._restarted = False

    def begin(self) -> bytes:
        """The params of the first `initialize` that the agent gets."""
        return self._params_in(self._trying)

    def answered(self, answer: Response | Failure) -> Agreed | Again | RequestError:
        """The agent answered."""
        if isinstance(answer, Failure):
            return self._refused(as_request_error(answer))
        result = codec.parse(answer.result)
        told = _Answer(_speaks(result), answer.result, result)
        if self._wanted not in ("auto", told.speaks):
            return _another_version(told.speaks, self._wanted)
        if told.speaks in self._tried:
            return self._agreed(told)
        # it was asked in words that it does not know: ask in its own
        self._told = told
        return Again(self._other(told.speaks))

    def died(self, error: RequestError) -> Again | RequestError:
        """The agent ended instead of answering: once, a new one is asked."""
        self._first_error = self._first_error or error
        if self._restarted or (self._wanted != "auto" and len(self._tried) == 1):
            return self._first_error
        self._restarted = True
        if len(self._tried) == 1:
            return Again(self._other(other_version(self._trying)), restart=True)
        return Again(self._params_in(self._trying), restart=True)

    def without_restart(self) -> Agreed | RequestError:
        """There is no new process to be had: what is known has to do."""
        if self._told is not None:
            return self._agreed(self._told)
        return self._first_error or RequestError(INTERNAL_ERROR, "The agent refused both versions")

    def _refused(self, error: RequestError) -> Again | RequestError:
        self._first_error = self._first_error or error
        if self._wanted != "auto":
            return error
        if len(self._tried) == 1:
            return Again(self._other(other_version(self._trying)))
        if self._restarted:
            return self._first_error
        self._restarted = True
        return Again(self._params_in(self._trying), restart=True)

    def _other(self, version: Version) -> bytes:
        """Try another version: the params of its `initialize`."""
        self._trying = version
        self._tried.add(version)
        return self._params_in(version)

    # ---- words

    def _params_in(self, version: Version) -> bytes:
        """The client's introduction, in the words of `version`."""
        self._losses = Losses()
        if version == self.client:
            return codec.encode(self._params)
        if version == 1:
            read = codec.read(_without(self._params, CLIENT_FIELDS_OF_V1), v2.InitializeRequest)
            lowered = downgrade_client(read, self._losses)
            able = lowered.client_capabilities or v1.ClientCapabilities()
            able.fs, able.terminal = self._offer.fs, self._offer.terminal
            lowered.client_capabilities = able
            return codec.encode(lowered)
        return codec.encode(
            upgrade_client(codec.read(self._params, v1.InitializeRequest), self._losses)
        )

    def _agreed(self, told: _Answer) -> Agreed | RequestError:
        claimed = told.result.get("protocolVersion", told.speaks)
        if claimed != told.speaks and told.speaks == 2 and self.client == 1:
            return _another_version(claimed, 2)
        # some claim a version that they do not speak
        result = told.result | {"protocolVersion": told.speaks}
        able, agent_able = v1.ClientCapabilities(), v1.AgentCapabilities()
        if self.client == 1:
            client: v1.InitializeRequest = codec.read(self._params, v1.InitializeRequest)
            able = client.client_capabilities or able
        if told.speaks == 1:
            agent: v1.InitializeResponse = codec.read(result, v1.InitializeResponse)
            agent_able = agent.agent_capabilities or agent_able
        if told.speaks != self.client:
            answer = codec.encode(self._converted(result))
        elif told.speaks == 2 or told.result.get("protocolVersion") == 1:
            answer = told.raw
        else:
            answer = codec.encode(result)
        # what a peer cannot do is no loss: a request for it gets an error
        losses = [loss for loss in self._losses if loss.reason not in LACKING]
        return Agreed(self.client, told.speaks, answer, able, agent_able, losses)

    def _converted(self, result: Any) -> Any:
        if self.client == 2:
            return upgrade_agent(codec.read(result, v1.InitializeResponse), self._losses)
        read = codec.read(_without(result, AGENT_FIELDS_OF_V1), v2.InitializeResponse)
        return downgrade_agent(read, self._losses)


def _speaks(result: Any) -> Version:
    version = version_of_agent(result)
    if version is not None:
        return version
    raise Malformed("protocolVersion", "the agent does not say which version it speaks")


def _without(message: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Leave out fields of version 1 in a message of version 2: they repeat what it has."""
    return {name: value for name, value in message.items() if name not in fields}


def _another_version(speaks: Any, wanted: Any) -> RequestError:
    reason = {"reason": f"the agent speaks version {speaks!r}, not {wanted}"}
    return RequestError(INTERNAL_ERROR, "The agent speaks another version", reason)
