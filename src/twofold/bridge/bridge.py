"""A bridge connects any client with any agent, whichever version each of them speaks.

To the client it is an agent, to the agent it is a client. It agrees on a version with each side
separately. If the two are the same, bytes pass through (`Relay`); if they differ, every message is
translated (`Up`, `Down`). Until both versions are known, other messages wait. When one side ends,
nothing stays pending on the other.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypeAlias

from twofold.bridge.down import Down
from twofold.bridge.exchange import StopTimer, events_of
from twofold.bridge.handshake import Again, Agreed, Handshake, Wanted
from twofold.bridge.loss_log import LossLog, LossReporter
from twofold.bridge.offers import Offers
from twofold.bridge.side import Side
from twofold.bridge.up import Up
from twofold.peer.problems import Problem, Report, guarded, log
from twofold.rpc import connection
from twofold.rpc.connection import (
    Batch,
    Connection,
    Failure,
    Notification,
    Request,
    RequestId,
    Response,
    is_whole,
)
from twofold.rpc.connection import Malformed as NoMessage
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError
from twofold.rpc.frames import LIMIT, LineTooLong
from twofold.transport.base import Transport
from twofold.transport.process import ProcessEnded
from twofold.wire import v1
from twofold.wire.base import UNSET, Malformed

Open: TypeAlias = Callable[[], Awaitable[Transport]]
Offered: TypeAlias = Literal["fs", "terminal"]

SLACK = 16 * 1024 * 1024
"""How many bytes are read from a client that has to wait, so that its end is noticed."""
PATIENCE = 2.0
"""How many seconds a client may take to send `initialize` if the agent died before."""
EARLY = 1000
"""How many messages are kept that an agent sends before it answers `initialize`."""
EARLY_BYTES = 16 * 1024 * 1024
"""How many bytes of such messages are kept."""

_UNEXPECTED_ANSWER = "an answer to a request that is not pending"


class Bridge:
    """Connects a client and an agent.

    Args:
        client: The transport to the client.
        agent: The transport to the agent, or a function that opens one. With a function the agent
            can be started again if it does not survive a version that it does not know.
        client_version: The version of the client; "auto" finds it out.
        agent_version: The version of the agent; "auto" finds it out.
        offer: What the bridge itself offers to a v1 agent of a v2 client, if the user allows it:
            "fs" for reading and writing files, "terminal" for running commands.
        pass_env: The names of environment variables that these commands get, besides those that
            every command needs.
        losses: Receives what the other version cannot express.
        on_problem: Called with each problem that the bridge survived; by default it is logged.
        line_limit: The longest line that is read, in bytes.
        cancel_at_end: Whether the work of the agent is cancelled when the client leaves. False
            where others use the sessions of the agent, too.
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
        cancel_at_end: bool = True,
    ) -> None:
        self.losses = losses or LossLog()
        self.agent_error: Exception | None = None
        """Why the agent ended, if it ended before the client."""
        self._client_transport = client
        self._agent_transport = agent
        self._wanted: tuple[Wanted, Wanted] = (client_version, agent_version)
        self._offered = frozenset(offer)
        self._pass_env = tuple(pass_env)
        self._report = guarded(on_problem)
        self._client = Side("client", line_limit, SLACK)
        self._agent = Side("agent", line_limit)
        self._client.other, self._agent.other = self._agent, self._client
        self._handshake: Handshake | None = None
        self._agreed: Agreed | None = None
        self._attempts = 0
        self._early: list[bytes] = []
        self._early_size = 0
        self._stillborn: tuple[RequestError, Exception | None] | None = None
        self._mode: Up | Down | Relay | None = None
        self._offers: Offers | None = None
        self._cancel_at_end = cancel_at_end
        self._over = asyncio.Event()
        self._restarting: asyncio.Task[None] | None = None

    @property
    def client_version(self) -> Literal[1, 2] | None:
        """The version that the client speaks; None until both versions are known."""
        return self._agreed.client if self._agreed is not None else None

    @property
    def agent_version(self) -> Literal[1, 2] | None:
        """The version that the agent speaks; None until both versions are known."""
        return self._agreed.agent if self._agreed is not None else None

    async def run(self) -> None:
        """Run until one side ends, then end the other."""
        self._client.on_noise = lambda event: self._report_noise("client", event.reason)
        self._agent.on_noise = lambda event: self._report_noise("agent", event.reason)
        self._client.on_line = self._before_initialize
        self._client.on_end = self._client_ended
        self._agent.on_line = self._before_agreement
        self._agent.on_end = self._agent_ended
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
        closing = [self._client.close(), self._agent.close()]
        if self._offers is not None:
            closing.append(self._offers.close())
        await asyncio.gather(*closing, return_exceptions=True)

    def _report_noise(self, sender: str, reason: str) -> None:
        self._report(Problem("noise", f"The {sender} sent an unexpected message: {reason}"))

    # ---- the client, until both versions are known

    def _before_initialize(self, line: bytes | LineTooLong) -> None:
        """Handle a line of a client whose `initialize` was not answered yet."""
        for event in events_of(line):
            if isinstance(event, NoMessage):
                self._report_noise("client", event.reason)
                if event.refusal:
                    self._client.send(event.refusal)
            elif isinstance(event, Response | Failure):
                self._report_noise("client", _UNEXPECTED_ANSWER)
            elif isinstance(event, Batch):
                self._client.take_apart(event)
            elif isinstance(event, Notification):
                self._report_noise("client", f"{event.method} before initialize")
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
        self._client.keep()  # it is not known yet how to read what follows
        self._initialize_agent(params)

    def _capabilities(self) -> v1.ClientCapabilities:
        fs, terminal = "fs" in self._offered, "terminal" in self._offered
        return v1.ClientCapabilities(fs=v1.FileSystemCapabilities(fs, fs), terminal=terminal)

    # ---- the agent, until both versions are known

    def _initialize_agent(self, params: bytes) -> None:
        self._attempts += 1
        self._agent.send(connection.request(self._initialize_id, "initialize", params))

    @property
    def _initialize_id(self) -> str:
        # a new one for each attempt, because some agents answer twice
        return f"bridge-{self._attempts}"

    def _before_agreement(self, line: bytes | LineTooLong) -> None:
        """Handle a line of an agent whose version is not known yet."""
        for event in events_of(line):
            if isinstance(event, NoMessage):
                self._report_noise("agent", event.reason)
            elif isinstance(event, Response | Failure):
                self._initialized(event)
            elif isinstance(event, Batch):
                self._agent.take_apart(event)
            elif isinstance(event, Request):
                self._agent.send(connection.fail(event.id, _not_initialized()))
            elif len(self._early) < EARLY and self._early_size < EARLY_BYTES:
                params = None if event.params is UNSET else event.params
                self._early.append(connection.notify(event.method, params))
                self._early_size += len(self._early[-1])
            else:
                self._report_noise("agent", "too many messages before the answer to initialize")

    def _initialized(self, answer: Response | Failure) -> None:
        # an agent that cannot even read the request answers with the id null
        unreadable = answer.id is None and isinstance(answer, Failure)
        ours = answer.id == self._initialize_id or unreadable
        if self._handshake is None or self._mode is not None or not ours:
            self._report_noise("agent", _UNEXPECTED_ANSWER)
            return
        try:
            self._step(self._handshake.answered(answer))
        except Malformed as error:
            reason = {"reason": f"the agent's answer to initialize: {error}"}
            self._refuse(RequestError(INTERNAL_ERROR, "Bad answer", reason))

    def _step(self, step: Agreed | Again | RequestError) -> None:
        assert self._handshake is not None
        if isinstance(step, Agreed):
            self._agree(step, self._handshake.request)
        elif isinstance(step, RequestError):
            self._refuse(step)
        elif not step.restart:
            self._initialize_agent(step.params)
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
            self._initialize_agent(params)

    def _refuse(self, error: RequestError) -> None:
        """Answer `initialize` with an error; the client may send another one."""
        handshake, self._handshake = self._handshake, None
        if handshake is not None:
            self._client.send(connection.fail(handshake.request.id, error))
        self._client.resume()

    # ---- both versions are known

    def _agree(self, agreed: Agreed, request: Request) -> None:
        """Answer `initialize`, handle what was kept, and pass on messages from now on."""
        self._agreed = agreed
        reporter = LossReporter(self.losses)
        for loss in agreed.losses:
            reporter.report("initialize", loss.path, loss.reason)
        self._client.send(connection.respond(request.id, agreed.answer))
        early, self._early = self._early, []
        if agreed.client == agreed.agent:
            relay = self._mode = Relay(self._client, self._agent)
            self._agent.on_bytes = relay.from_agent
            self._receive_early(early)
            self._client.resume(relay.from_client)
        else:
            mode = self._mode = self._translation(agreed)
            self._agent.on_line, self._client.on_line = mode.from_agent, mode.from_client
            self._receive_early(early)
            self._client.resume()
            self._agent.settled = self._client.settled = True

    def _receive_early(self, early: list[bytes]) -> None:
        for line in early:
            self._agent.receive(line)

    def _translation(self, agreed: Agreed) -> Up | Down:
        shared = (self._client, self._agent, self.losses, self._report, _start_timer)
        if agreed.client == 1:
            return Down(*shared, agreed.client_capabilities, agreed.answer)
        if self._offered:
            self._offers = Offers(self._offered, self._report, self._pass_env)
        return Up(
            *shared,
            agreed.agent_capabilities,
            agreed.answer,
            own_terminals="terminal" in self._offered,
            offers=self._offers,
        )

    # ---- the end of a side

    def _client_ended(self, error: Exception | None) -> None:
        if self._mode is not None and self._cancel_at_end:
            self._mode.client_left()
        self._over.set()

    def _agent_ended(self, error: Exception | None) -> None:
        request_error = _as_request_error(error)
        if self._mode is not None:
            self.agent_error = error
            self._mode.agent_died(request_error)
            self._over.set()
            return
        handshake = self._handshake
        step = handshake.died(request_error) if handshake is not None else request_error
        if isinstance(step, Again) and callable(self._agent_transport):
            self._step(step)
        else:
            self._agent_failed(step if isinstance(step, RequestError) else request_error, error)

    def _agent_failed(self, request_error: RequestError, error: Exception | None) -> None:
        """There is no agent, and there will be none: the client's `initialize` fails."""
        self.agent_error = error
        if self._handshake is not None:
            self._client.send(connection.fail(self._handshake.request.id, request_error))
            self._over.set()
        else:
            self._stillborn = (request_error, error)
            asyncio.get_running_loop().call_later(PATIENCE, self._over.set)


def _not_initialized() -> RequestError:
    return RequestError(INVALID_REQUEST, "Not initialized", {"reason": "initialize comes first"})


def _as_request_error(error: Exception | None) -> RequestError:
    """The end of the agent, as the error that the client's requests get."""
    if not isinstance(error, ProcessEnded):
        return RequestError(INTERNAL_ERROR, "The agent closed the connection")
    data: dict[str, Any] = {"stderr": error.stderr}
    if error.exit_code is not None:
        data["exitCode"] = error.exit_code
    if error.signal is not None:
        data["signal"] = error.signal
    return RequestError(INTERNAL_ERROR, error.summary, data)


def _start_timer(seconds: float, call: Callable[[], None]) -> StopTimer:
    return asyncio.get_running_loop().call_later(seconds, call).cancel


# ---- both sides speak the same version ---------------------------------------------------------

_LINE_LIMIT = 64 * 1024 * 1024  # of a line that may be an answer
_OPEN = 64 * 1024  # how many requests without an answer are remembered
_HELD = 64 * 1024  # how long the beginning of a line may be that waits for its rest
# A method at the top level of a message: it is no answer. Names inside a result do not count.
_HAS_METHOD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:\d+|"[^"\\]*")\s*,\s*)?"method"'
)


class Relay:
    """Passes bytes between two sides, and remembers which requests of the client are open.

    If the agent dies, these get an error instead of no answer. Nothing is changed or left out, and
    nothing is delayed but the short beginning of a line: half an answer of an agent that dies is
    not an answer.
    """

    def __init__(self, client: Side, agent: Side) -> None:
        self._client = client
        self._agent = agent
        self._open: dict[RequestId, int] = {}
        """The requests without an answer, each with the number of its batch; 0 if it has none."""
        self._batches = 0
        self._from_client = Connection(limit=_LINE_LIMIT)
        self._from_agent = _answers_only()
        self._whole_lines = True
        self._held = b""
        self._agent_error: RequestError | None = None

    def from_client(self, data: bytes) -> None:
        """Pass on bytes of the client, and remember the requests in them."""
        self._agent.send(data)
        self._agent.flush()  # before they are read: the agent need not wait for that
        for event in self._from_client.receive(data):
            if isinstance(event, Request):
                self._open[event.id] = 0
            elif isinstance(event, Batch):
                self._batches += 1
                requests = [each.id for each in event if isinstance(each, Request)]
                self._open |= dict.fromkeys(requests, self._batches)
        while len(self._open) > _OPEN:
            del self._open[next(iter(self._open))]
        if self._agent_error is not None:
            self.agent_died(self._agent_error)

    def from_agent(self, data: bytes) -> None:
        """Pass on bytes of the agent, and forget the requests that they answer."""
        if self._held or not data.endswith(b"\n"):
            data = self._hold_back(self._held + data)
            if not data:
                return
        self._client.send(data)
        self._client.flush()  # before they are read: the client need not wait for that
        self._whole_lines = data.endswith(b"\n")
        if not self._open:
            data = self._last_line(data)
        for event in self._from_agent.receive(data):
            for each in event if isinstance(event, Batch) else [event]:
                if isinstance(each, Response | Failure) and each.id is not None:
                    self._open.pop(each.id, None)

    def _hold_back(self, data: bytes) -> bytes:
        """Hold back the beginning of the last line, unless part of it was sent or it is long."""
        line = data.rfind(b"\n") + 1
        hold = (line or self._whole_lines) and len(data) - line <= _HELD
        self._held = data[line:] if hold else b""
        return data[:line] if hold else data

    def _last_line(self, data: bytes) -> bytes:
        """Skip whole lines while no request is open; where the next line begins must be known."""
        newline = data.rfind(b"\n")
        if newline < 0:
            return data
        self._from_agent = _answers_only()
        return data[newline + 1 :]

    def agent_died(self, error: RequestError) -> None:
        """Answer the open requests with `error`, and those that follow."""
        self._agent_error = error
        if self._held and is_whole(self._held):
            self.from_agent(b"\n")
        self._held = b""
        if self._open and not self._whole_lines:
            self._client.send(b"\n")  # it died in the middle of a line
            self._whole_lines = True
        batches: dict[int, list[bytes]] = {}
        for request_id, batch in self._open.items():
            answer = connection.fail(request_id, error)
            if batch:
                batches.setdefault(batch, []).append(answer.rstrip())
            else:
                self._client.send(answer)
        for answers in batches.values():
            self._client.send(b"[" + b",".join(answers) + b"]\n")
        self._open.clear()

    def client_left(self) -> None:
        """Do nothing: the agent notices the end of its input by itself."""

    def close(self) -> None:
        """Do nothing: there are no timers."""


def _answers_only() -> Connection:
    """Reads only the lines that may be answers."""
    return Connection(limit=_LINE_LIMIT, first=_skip_requests)


def _skip_requests(line: bytes) -> Literal[True] | None:
    return True if _HAS_METHOD.match(line) else None
