"""Who speaks what: a bridge agrees on a version with each side by itself.

The client's version shows in its `initialize`, whatever number it claims. The agent is asked for
the same; if it turns out to speak the other, it is initialized again in its own words, on the same
process if it lets us, else on a new one. Until both are known the client's other messages wait.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from twofold.convert.capabilities import (
    downgrade_agent,
    downgrade_client,
    upgrade_agent,
    upgrade_client,
)
from twofold.convert.detect import dialect_of_initialize, dialect_of_request
from twofold.convert.losses import Losses
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.messages import Failure, Request, Response
from twofold.wire import codec, v1, v2
from twofold.wire.base import Malformed
from twofold.wire.shared import Implementation

Version: TypeAlias = Literal[1, 2]
Wanted: TypeAlias = Literal["auto", 1, 2]
Ask: TypeAlias = Callable[[bytes], None]
"""Sends `initialize` with these params to the agent."""


class Agreed(Struct):
    """What came of it: the versions of both sides, and what the client is answered."""

    client: Version
    agent: Version
    answer: bytes
    client_capabilities: v1.ClientCapabilities
    agent_capabilities: v1.AgentCapabilities


class Again(Struct):
    """The agent has to be asked again; on a new process if `restart`."""

    params: bytes
    restart: bool = False


class Handshake:
    """From the client's `initialize` to what both sides speak. Does no I/O."""

    def __init__(
        self,
        request: Request,
        client: Wanted,
        agent: Wanted,
        offer: v1.ClientCapabilities,
        losses: Losses,
    ) -> None:
        self.request = request
        self._losses = losses
        self._offer = offer
        params = codec.parse(request.params or b"{}")
        if not isinstance(params, dict):
            raise Malformed("params", "initialize needs an object")
        self._params = params
        self.client: Version = _version_of(params) if client == "auto" else client
        self._wanted = agent
        self.trying: Version = self.client if agent == "auto" else agent
        self._tried: set[Version] = set()
        self._first_error: RequestError | None = None
        self._in_own_words = False
        self._restarted = False

    def begin(self) -> bytes:
        """The params of the first `initialize` that the agent gets."""
        self._tried.add(self.trying)
        self._in_own_words = True
        return self._params_in(self.trying)

    def answered(self, answer: Response | Failure) -> Agreed | Again | RequestError:
        """The agent answered."""
        if isinstance(answer, Failure):
            return self._other(_as_error(answer))
        result = codec.parse(answer.result)
        speaks: Version = 1 if dialect_of_initialize(result) == "1" else 2
        if speaks == self.trying and self._in_own_words:
            return self._agreed(answer.result, result)
        if self._wanted != "auto" and speaks != self._wanted:
            reason = {"reason": f"the agent speaks version {speaks}, not {self._wanted}"}
            return RequestError(INTERNAL_ERROR, "The agent speaks another version", reason)
        # it was asked in words that it does not know: ask in its own
        self.trying = speaks
        if speaks in self._tried:
            return self._agreed(answer.result, result)
        self._tried.add(speaks)
        return Again(self._params_in(speaks))

    def died(self, error: RequestError) -> Again | RequestError:
        """The agent ended instead of answering: once, the other version is tried on a new one."""
        if self._restarted:
            return self._first_error or error
        self._first_error = self._first_error or error
        self._restarted = True
        if len(self._tried) == 1 and self._wanted == "auto":
            self.trying = 2 if self.trying == 1 else 1
            self._tried.add(self.trying)
        elif len(self._tried) == 1:
            return error
        return Again(self._params_in(self.trying), restart=True)

    def _other(self, error: RequestError) -> Again | RequestError:
        self._first_error = self._first_error or error
        if self._wanted != "auto":
            return error
        if len(self._tried) == 1:
            self.trying = 2 if self.trying == 1 else 1
            self._tried.add(self.trying)
            return Again(self._params_in(self.trying))
        if not self._restarted:
            self._restarted = True
            return Again(self._params_in(self.trying), restart=True)
        return self._first_error

    # ---- words

    def _params_in(self, version: Version) -> bytes:
        """The client's introduction, in the words of `version`."""
        if version == self.client:
            return codec.encode(self._params | {"protocolVersion": version})
        if version == 1:
            read = codec.read(self._params, v2.InitializeRequest)
            lowered = downgrade_client(read, self._losses)
            able = lowered.client_capabilities or v1.ClientCapabilities()
            able.fs, able.terminal = self._offer.fs, self._offer.terminal
            lowered.client_capabilities = able
            return codec.encode(lowered)
        return codec.encode(
            upgrade_client(codec.read(self._params, v1.InitializeRequest), self._losses)
        )

    def _agreed(self, raw: bytes, result: Any) -> Agreed:
        agent = self.trying
        capabilities, agent_capabilities = v1.ClientCapabilities(), v1.AgentCapabilities()
        if self.client == 1:
            read = codec.read(self._params, v1.InitializeRequest)
            capabilities = read.client_capabilities or capabilities
        if agent == 1:
            first: v1.InitializeResponse = codec.read(result, v1.InitializeResponse)
            agent_capabilities = first.agent_capabilities or agent_capabilities
        if self.client != agent:
            raw = codec.encode(self._converted(result))
        return Agreed(self.client, agent, raw, capabilities, agent_capabilities)

    def _converted(self, result: Any) -> Any:
        if self.client == 2:
            return upgrade_agent(codec.read(result, v1.InitializeResponse), Losses())
        read = codec.read(result, v2.InitializeResponse)
        if not read.info:
            read.info = Implementation("unknown", "0")
        return downgrade_agent(read, Losses())


def _version_of(params: dict[str, Any]) -> Version:
    if dialect_of_request(params) == "1":
        return 1
    asked = params.get("protocolVersion")
    return 2 if isinstance(asked, int) and asked >= 2 else 1


def _as_error(failure: Failure) -> RequestError:
    from twofold.bridge.translation import as_request_error

    return as_request_error(failure)
