"""A bridge: any agent for any client, whichever version each of them speaks.

To the client it is an agent, to the agent a client. It agrees on a version with each side by
itself; if they are the same, bytes pass through, and if they differ, every message is translated.
When one side goes, nothing stays pending on the other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypeAlias

from twofold.bridge.down import Down
from twofold.bridge.end import End
from twofold.bridge.handshake import Again, Agreed, Handshake, Wanted
from twofold.bridge.losses import LossLog
from twofold.bridge.offers import Offers
from twofold.bridge.relay import Relay
from twofold.bridge.translation import Timer
from twofold.bridge.up import Up
from twofold.rpc import connection
from twofold.rpc.connection import Malformed as NoMessage
from twofold.rpc.connection import read_line
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError
from twofold.rpc.frames import LIMIT, LineTooLong
from twofold.rpc.messages import Failure, Request, Response
from twofold.runtime.errors import Problem, Report, log
from twofold.runtime.process import ProcessEnded
from twofold.runtime.transport import Transport
from twofold.wire import v1
from twofold.wire.base import Malformed

Open: TypeAlias = Callable[[], Awaitable[Transport]]
Offered: TypeAlias = Literal["fs", "terminal"]

_HANDSHAKE = "bridge"


class Bridge:
    """Connects a client and an agent. `run` returns when one of them is gone.

    `agent` is a transport, or what opens one: then the agent can be started again if it does not
    survive being asked for a version that it does not know.
    """

    def __init__(
        self,
        client: Transport,
        agent: Transport | Open,
        *,
        client_version: Wanted = "auto",
        agent_version: Wanted = "auto",
        offer: Collection[Offered] = (),
        losses: LossLog | None = None,
        on_problem: Report = log,
        line_limit: int = LIMIT,
    ) -> None:
        self.log = losses or LossLog()
        self.agreed: Agreed | None = None
        """What both sides speak, once it is known."""
        self.agent_error: Exception | None = None
        """Why the agent ended, if it did before the client."""
        self._client_transport = client
        self._agent_transport = agent
        self._wanted: tuple[Wanted, Wanted] = (client_version, agent_version)
        self._offer = v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities("fs" in offer, "fs" in offer),
            terminal="terminal" in offer,
        )
        self._offered = frozenset(offer)
        self._report = on_problem
        self._client, self._agent = End("client", line_limit), End("agent", line_limit)
        self._client.other, self._agent.other = self._agent, self._client
        self._handshake: Handshake | None = None
        self._mode: Up | Down | Relay | None = None
        self._offers: Offers | None = None
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Bridge until one side is gone, then end the other."""
        self._client.on_line = self._before
        self._client.on_end = self._client_gone
        self._agent.on_line = self._answer_of_agent
        self._agent.on_end = self._agent_gone
        try:
            await self._start_agent()
            self._client.start(self._client_transport)
            await self._over.wait()
        finally:
            await self._close()

    async def _start_agent(self) -> None:
        agent = self._agent_transport
        self._agent.start(await agent() if callable(agent) else agent)

    async def _close(self) -> None:
        if isinstance(self._mode, Up | Down):
            self._mode.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._client.close(), self._agent.close(), return_exceptions=True)
        if self._offers is not None:
            await self._offers.close()

    # ---- before both sides are known

    def _before(self, line: bytes | LineTooLong) -> None:
        """A line of a client that has not been answered yet."""
        if isinstance(line, LineTooLong):
            self._noise("client", str(line))
            return
        for event in read_line(line):
            if isinstance(event, NoMessage):
                self._noise("client", event.reason)
            elif isinstance(event, Request) and event.method == "initialize":
                self._begin(event)
            elif isinstance(event, Request):
                reason = {"reason": "initialize comes first"}
                error = RequestError(INVALID_REQUEST, "Not initialized", reason)
                self._client.send(connection.fail(event.id, error))

    def _begin(self, request: Request) -> None:
        try:
            self._handshake = Handshake(request, *self._wanted, self._offer, self.log.losses)
            params = self._handshake.begin()
        except Malformed as error:
            refusal = RequestError.invalid_params(str(error))
            self._client.send(connection.fail(request.id, refusal))
            return
        # its next messages wait until it is known how to read them
        self._client.hold(_HANDSHAKE)
        self._ask_agent(params)

    def _ask_agent(self, params: bytes) -> None:
        self._agent.send(connection.request(_HANDSHAKE, "initialize", params))

    def _answer_of_agent(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            self._noise("agent", str(line))
            return
        for event in read_line(line):
            answer = isinstance(event, Response | Failure) and event.id == _HANDSHAKE
            if not answer or self._handshake is None:
                self._noise("agent", getattr(event, "reason", "a message before initialize"))
                continue
            assert isinstance(event, Response | Failure)
            try:
                self._step(self._handshake.answered(event))
            except Malformed as error:
                reason = {"reason": f"the agent's answer to initialize: {error}"}
                self._refuse(RequestError(INTERNAL_ERROR, "Bad answer", reason))

    def _step(self, step: Agreed | Again | RequestError) -> None:
        if isinstance(step, Agreed):
            self._settle(step)
        elif isinstance(step, RequestError):
            self._refuse(step)
        elif not step.restart:
            self._ask_agent(step.params)
        elif callable(self._agent_transport):
            task = asyncio.create_task(self._restart(step.params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._refuse(RequestError(INTERNAL_ERROR, "The agent refused both versions"))

    async def _restart(self, params: bytes) -> None:
        await self._agent.close()
        await self._start_agent()
        self._ask_agent(params)

    def _refuse(self, error: RequestError) -> None:
        """The client may try again, with other words."""
        handshake, self._handshake = self._handshake, None
        if handshake is not None:
            self._client.send(connection.fail(handshake.request.id, error))
        self._client.release(_HANDSHAKE)

    def _settle(self, agreed: Agreed) -> None:
        """Both sides are known: from now on messages pass."""
        assert self._handshake is not None
        self.agreed = agreed
        self.log.flush("initialize")
        self._client.send(connection.respond(self._handshake.request.id, agreed.answer))
        if agreed.client == agreed.agent:
            self._mode = Relay(self._client, self._agent)
        else:
            self._translate(agreed)
        self._client.release(_HANDSHAKE)

    def _translate(self, agreed: Agreed) -> None:
        ends = (self._client, self._agent, self.log, self._report, _later)
        mode: Up | Down
        if agreed.client == 2:
            if self._offered:
                self._offers = Offers(self._offered, self._report)
            mode = Up(
                *ends,
                agreed.agent_capabilities,
                own_terminals="terminal" in self._offered,
                answer_offered=self._offers.answer if self._offers is not None else None,
            )
        else:
            mode = Down(*ends, agreed.client_capabilities)
        self._mode = mode
        answer = agreed.answer
        self._client.on_line = lambda line: self._from_client(mode, line, answer)
        self._agent.on_line = mode.from_agent

    def _from_client(self, mode: Up | Down, line: bytes | LineTooLong, answer: bytes) -> None:
        """A client that initializes once more is told the same again."""
        if isinstance(line, bytes) and b'"initialize"' in line[:200]:
            for event in read_line(line):
                if isinstance(event, Request) and event.method == "initialize":
                    self._client.send(connection.respond(event.id, answer))
                    return
        mode.from_client(line)

    def _noise(self, who: str, reason: str) -> None:
        self._report(Problem("noise", f"The {who} sent something that was not expected: {reason}"))

    # ---- the end

    def _client_gone(self, error: Exception | None) -> None:
        self._over.set()

    def _agent_gone(self, error: Exception | None) -> None:
        told = _as_error(error)
        if self._mode is None:
            self._gone_early(told, error)
            return
        self.agent_error = error
        self._mode.agent_died(told)
        self._over.set()

    def _gone_early(self, told: RequestError, error: Exception | None) -> None:
        step = self._handshake.died(told) if self._handshake is not None else told
        if isinstance(step, Again) and callable(self._agent_transport):
            self._step(step)
            return
        self.agent_error = error
        if self._handshake is not None:
            refusal = step if isinstance(step, RequestError) else told
            self._client.send(connection.fail(self._handshake.request.id, refusal))
        self._over.set()


def _as_error(error: Exception | None) -> RequestError:
    """The agent's death, as a client is told of it."""
    if not isinstance(error, ProcessEnded):
        return RequestError(INTERNAL_ERROR, "The agent closed the connection")
    data: dict[str, Any] = {"stderr": error.stderr}
    if error.exit_code is not None:
        data["exitCode"] = error.exit_code
    if error.signal is not None:
        data["signal"] = error.signal
    return RequestError(INTERNAL_ERROR, str(error), data)


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call).cancel
