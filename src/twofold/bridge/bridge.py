"""A bridge: any agent for any client, whichever version each of them speaks.

To the client it is an agent, to the agent a client. It agrees on a version with each side by
itself; if they are the same, bytes pass through, and if they differ, every message is translated.
Until both are known, what they say besides waits. When one side goes, nothing stays pending on the
other.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypeAlias

from twofold.bridge.down import Down
from twofold.bridge.handshake import Again, Agreed, Handshake, Wanted
from twofold.bridge.loss_log import LossLog
from twofold.bridge.offers import Offers
from twofold.bridge.side import End
from twofold.bridge.translation import Timer, events_of
from twofold.bridge.up import Up
from twofold.peer.problems import Problem, Report, guarded, log
from twofold.rpc import connection
from twofold.rpc.connection import Batch, Connection, is_whole
from twofold.rpc.connection import Malformed as NoMessage
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError
from twofold.rpc.frames import LIMIT, LineTooLong
from twofold.rpc.messages import Failure, Notification, Request, RequestId, Response
from twofold.transport.base import Transport
from twofold.transport.process import ProcessEnded
from twofold.wire import v1
from twofold.wire.base import UNSET, Malformed

# Both sides speak the same version: bytes pass through as they are.
#
# They are looked at only to know which requests are still open, so that a client whose agent dies
# gets an error instead of waiting for ever. Nothing is changed or left out, and nothing is
# held back but the beginning of a line, if it is short: half an answer of an agent
# that dies is not an answer.


_LOOKED_AT = 64 * 1024 * 1024
_OPEN = 64 * 1024  # how many requests without an answer are remembered
_HELD = 64 * 1024  # how long the beginning of a line may be that waits for the rest
# The name of a method at the top of a message: it is no answer. Names inside a result do not count.
_ASKS = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:\d+|"[^"\\]*")\s*,\s*)?"method"'
)


class Relay:
    """Passes bytes on between two ends, and knows what is open."""

    def __init__(self, client: End, agent: End) -> None:
        self._client = client
        self._agent = agent
        self._open: dict[RequestId, int] = {}
        """The requests without an answer, each with the number of its batch; 0 if it has none."""
        self._batches = 0
        self._from_client = Connection(limit=_LOOKED_AT)
        self._from_agent = Connection(limit=_LOOKED_AT, first=_passed_over)
        self._whole_lines = True
        self._held = b""
        self._died: RequestError | None = None

    def from_client(self, data: bytes) -> None:
        """Bytes of the client."""
        self._agent.send(data)
        for event in self._from_client.receive(data):
            if isinstance(event, Request):
                self._open[event.id] = 0
            elif isinstance(event, Batch):
                self._batches += 1
                asked = [each.id for each in event if isinstance(each, Request)]
                self._open |= dict.fromkeys(asked, self._batches)
        while len(self._open) > _OPEN:
            del self._open[next(iter(self._open))]
        if self._died is not None:
            self.agent_died(self._died)

    def from_agent(self, data: bytes) -> None:
        """Bytes of the agent; only what may be an answer is looked at."""
        if self._held or not data.endswith(b"\n"):
            data = self._without_beginning(self._held + data)
            if not data:
                return
        self._client.send(data)
        self._whole_lines = data.endswith(b"\n")
        if not self._open:
            data = self._last_line(data)
        for event in self._from_agent.receive(data):
            for each in event if isinstance(event, Batch) else [event]:
                if isinstance(each, Response | Failure) and each.id is not None:
                    self._open.pop(each.id, None)

    def _without_beginning(self, data: bytes) -> bytes:
        """Hold the beginning of the last line back, unless some of it was sent or it is long."""
        line = data.rfind(b"\n") + 1
        hold = (line or self._whole_lines) and len(data) - line <= _HELD
        self._held = data[line:] if hold else b""
        return data[:line] if hold else data

    def _last_line(self, data: bytes) -> bytes:
        """Nobody waits for what is complete; where the next line begins must be known."""
        newline = data.rfind(b"\n")
        if newline < 0:
            return data
        self._from_agent = Connection(limit=_LOOKED_AT, first=_passed_over)
        return data[newline + 1 :]

    def agent_died(self, error: RequestError) -> None:
        """Whoever still waits, or asks from now on, gets `error`."""
        self._died = error
        if self._held and is_whole(self._held):
            self.from_agent(b"\n")
        self._held = b""
        if self._open and not self._whole_lines:
            self._client.send(b"\n")  # it died in the middle of a line
            self._whole_lines = True
        batches: dict[int, list[bytes]] = {}
        for identity, batch in self._open.items():
            answer = connection.fail(identity, error)
            if batch:
                batches.setdefault(batch, []).append(answer.rstrip())
            else:
                self._client.send(answer)
        for answers in batches.values():
            self._client.send(b"[" + b",".join(answers) + b"]\n")
        self._open.clear()

    def client_left(self) -> None:
        """The agent sees for itself that nobody speaks to it any more."""

    def close(self) -> None:
        """Nothing here runs by itself."""


def _passed_over(line: bytes) -> Literal[True] | None:
    return True if _ASKS.match(line) else None


Open: TypeAlias = Callable[[], Awaitable[Transport]]
Offered: TypeAlias = Literal["fs", "terminal"]

SLACK = 16 * 1024 * 1024
"""How much of a client that has to wait is taken in: its departure comes after it."""
PATIENCE = 2.0
"""How many seconds a client whose agent died at once has to ask for it."""
EARLY = 1000
"""How many messages of an agent are kept that it sends before it answers `initialize`."""
EARLY_BYTES = 16 * 1024 * 1024
"""How many bytes of them."""


class Bridge:
    """Connects a client and an agent. `run` returns when one of them is gone.

    `agent` is a transport, or what opens one: then the agent can be started again if it does not
    survive being asked for a version that it does not know. Commands that the bridge runs for the
    agent get, beside what any command needs, the variables that `pass_env` names.
    """

    def __init__(
        self,
        client: Transport,
        agent: Transport | Open,
        *,
        client_version: Wanted = "auto",
        agent_version: Wanted = "auto",
        offer: Collection[Offered] = (),
        pass_env: Collection[str] = (),
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
        self._offered = frozenset(offer)
        self._pass_env = tuple(pass_env)
        self._report = guarded(on_problem)
        self._client = End("client", line_limit, SLACK)
        self._agent = End("agent", line_limit)
        self._client.other, self._agent.other = self._agent, self._client
        self._handshake: Handshake | None = None
        self._questions = 0
        self._early: list[bytes] = []
        self._early_size = 0
        self._stillborn: tuple[RequestError, Exception | None] | None = None
        self._mode: Up | Down | Relay | None = None
        self._offers: Offers | None = None
        self._over = asyncio.Event()
        self._restarting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Bridge until one side is gone, then end the other."""
        self._client.on_noise = lambda event: self._noise("client", event.reason)
        self._agent.on_noise = lambda event: self._noise("agent", event.reason)
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
        if self._mode is not None:
            self._mode.close()
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)
        ends = [self._client.close(), self._agent.close()]
        if self._offers is not None:
            ends.append(self._offers.close())
        await asyncio.gather(*ends, return_exceptions=True)

    # ---- the client, before both sides are known

    def _before(self, line: bytes | LineTooLong) -> None:
        """A line of a client that has not been answered yet."""
        for event in events_of(line):
            if isinstance(event, NoMessage):
                self._noise("client", event.reason)
                if event.refusal:
                    self._client.send(event.refusal)
            elif isinstance(event, Response | Failure):
                self._noise("client", "an answer that nobody waits for")
            elif isinstance(event, Batch):
                self._client.take_apart(event)
            elif isinstance(event, Notification):
                self._noise("client", f"{event.method} before initialize")
            elif event.method == "initialize":
                self._begin(event)
            else:
                self._client.send(connection.fail(event.id, _not_initialized()))

    def _begin(self, request: Request) -> None:
        try:
            handshake = Handshake(request, *self._wanted, self._capabilities())
            params = handshake.begin()
        except Malformed as error:
            refusal = RequestError.invalid_params(str(error))
            self._client.send(connection.fail(request.id, refusal))
            return
        self._handshake = handshake
        if self._stillborn is not None:
            self._agent_failed(*self._stillborn)
            return
        # its next messages wait until it is known how to read them
        self._client.keep()
        self._ask_agent(params)

    def _capabilities(self) -> v1.ClientCapabilities:
        fs, terminal = "fs" in self._offered, "terminal" in self._offered
        return v1.ClientCapabilities(fs=v1.FileSystemCapabilities(fs, fs), terminal=terminal)

    # ---- the agent, before both sides are known

    def _ask_agent(self, params: bytes) -> None:
        # a name for each time: some agents answer twice
        self._questions += 1
        self._agent.send(connection.request(self._question, "initialize", params))

    @property
    def _question(self) -> str:
        return f"bridge-{self._questions}"

    def _answer_of_agent(self, line: bytes | LineTooLong) -> None:
        for event in events_of(line):
            if isinstance(event, NoMessage):
                self._noise("agent", event.reason)
            elif isinstance(event, Response | Failure):
                self._answered(event)
            elif isinstance(event, Batch):
                self._agent.take_apart(event)
            elif isinstance(event, Request):
                self._agent.send(connection.fail(event.id, _not_initialized()))
            elif len(self._early) < EARLY and self._early_size < EARLY_BYTES:
                self._early.append(_line(event))
                self._early_size += len(self._early[-1])
            else:
                self._noise("agent", "too many messages before initialize is answered")

    def _answered(self, answer: Response | Failure) -> None:
        # one that could not even read the question answers null
        ours = answer.id == self._question or (answer.id is None and isinstance(answer, Failure))
        if self._handshake is None or self._mode is not None or not ours:
            self._noise("agent", "an answer that nobody waits for")
            return
        try:
            self._step(self._handshake.answered(answer))
        except Malformed as error:
            reason = {"reason": f"the agent's answer to initialize: {error}"}
            self._refuse(RequestError(INTERNAL_ERROR, "Bad answer", reason))

    def _step(self, step: Agreed | Again | RequestError) -> None:
        assert self._handshake is not None
        if isinstance(step, Agreed):
            self._settle(step, self._handshake.request)
        elif isinstance(step, RequestError):
            self._refuse(step)
        elif not step.restart:
            self._ask_agent(step.params)
        elif callable(self._agent_transport):
            self._restarting = asyncio.create_task(self._restart(step.params))
        else:
            self._step(self._handshake.without_restart())

    async def _restart(self, params: bytes) -> None:
        await self._agent.close()
        self._early.clear()
        self._early_size = 0
        try:
            await self._start_agent()
        except Exception as error:
            self._agent_failed(RequestError(INTERNAL_ERROR, str(error)), error)
        else:
            self._ask_agent(params)

    def _refuse(self, error: RequestError) -> None:
        """The client may try again, with other words."""
        handshake, self._handshake = self._handshake, None
        if handshake is not None:
            self._client.send(connection.fail(handshake.request.id, error))
        self._client.look()

    # ---- both sides are known

    def _settle(self, agreed: Agreed, request: Request) -> None:
        """From now on messages pass: first what each side said in the meantime."""
        self.agreed = agreed
        for loss in agreed.losses:
            self.log.tell("initialize", loss.path, loss.reason)
        self._client.send(connection.respond(request.id, agreed.answer))
        early, self._early = self._early, []
        if agreed.client == agreed.agent:
            relay = self._mode = Relay(self._client, self._agent)
            self._agent.on_bytes = relay.from_agent
            self._repeat(early)
            self._client.look(relay.from_client)
        else:
            mode = self._mode = self._translation(agreed)
            mode.introduction = agreed.answer
            self._agent.on_line, self._client.on_line = mode.from_agent, mode.from_client
            self._repeat(early)
            self._client.look()
            self._agent.settled = self._client.settled = True

    def _repeat(self, early: list[bytes]) -> None:
        for line in early:
            self._agent.receive(line)

    def _translation(self, agreed: Agreed) -> Up | Down:
        ends = (self._client, self._agent, self.log, self._report, _later)
        if agreed.client == 1:
            return Down(*ends, agreed.client_capabilities)
        if self._offered:
            self._offers = Offers(self._offered, self._report, self._pass_env)
        own_terminals = "terminal" in self._offered
        able = agreed.agent_capabilities
        return Up(*ends, able, own_terminals=own_terminals, offers=self._offers)

    def _noise(self, who: str, reason: str) -> None:
        self._report(Problem("noise", f"The {who} sent something that was not expected: {reason}"))

    # ---- the end

    def _client_gone(self, error: Exception | None) -> None:
        if self._mode is not None:
            self._mode.client_left()
        self._over.set()

    def _agent_gone(self, error: Exception | None) -> None:
        told = _as_error(error)
        if self._mode is not None:
            self.agent_error = error
            self._mode.agent_died(told)
            self._over.set()
            return
        step = self._handshake.died(told) if self._handshake is not None else told
        if isinstance(step, Again) and callable(self._agent_transport):
            self._step(step)
        else:
            self._agent_failed(step if isinstance(step, RequestError) else told, error)

    def _agent_failed(self, told: RequestError, error: Exception | None) -> None:
        """There is no agent, and there will be none: the client is told when it asks."""
        self.agent_error = error
        if self._handshake is not None:
            self._client.send(connection.fail(self._handshake.request.id, told))
            self._over.set()
        else:
            self._stillborn = (told, error)
            asyncio.get_running_loop().call_later(PATIENCE, self._over.set)


def _not_initialized() -> RequestError:
    return RequestError(INVALID_REQUEST, "Not initialized", {"reason": "initialize comes first"})


def _line(message: Request | Notification) -> bytes:
    """A message of a batch, by itself."""
    params = None if message.params is UNSET else message.params
    if isinstance(message, Notification):
        return connection.notify(message.method, params)
    return connection.request(message.id, message.method, params)


def _as_error(error: Exception | None) -> RequestError:
    """The agent's death, as a client is told of it."""
    if not isinstance(error, ProcessEnded):
        return RequestError(INTERNAL_ERROR, "The agent closed the connection")
    data: dict[str, Any] = {"stderr": error.stderr}
    if error.exit_code is not None:
        data["exitCode"] = error.exit_code
    if error.signal is not None:
        data["signal"] = error.signal
    return RequestError(INTERNAL_ERROR, error.summary, data)


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call).cancel
