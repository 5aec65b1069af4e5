"""One session of an agent: what was said in it, and how it is told to the client.

An agent speaks version 2 throughout. What goes to a client of version 1 is lowered here, on its
way out; what was said is kept, so that it can be told again. Terminal output is gathered for a
client of version 1, which gets the whole text of a terminal each time.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twofold.convert.downgrader import Downgrader
from twofold.convert.losses import NotConvertible
from twofold.runtime.errors import Problem
from twofold.session import Draft, Session, snapshot
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET
from twofold.wire.shared import Cost, Notice, SessionInfoUpdate, UsageUpdate

if TYPE_CHECKING:
    from twofold.runtime.agent.connection import AgentConnection
    from twofold.runtime.agent.turn import Turn

KEEP = 256
"""How many updates are gathered before they are given to the store."""
GATHER = 0.1
"""For how many seconds terminal output is gathered for a client of version 1."""


class AgentSession:
    """A conversation with a client. Handlers get it; they do not make it."""

    def __init__(
        self, connection: "AgentConnection", info: v2.SessionInfo, state: Session | None = None
    ) -> None:
        self.session_id = info.session_id
        self.cwd = info.cwd
        self.directories: list[str] = list(info.additional_directories or [])
        self.mcp_servers: list[v2.McpServer] = []
        self.state = state or Session(info.session_id, Draft.NOVEMBER)
        """What the session looks like now. Read it; sending changes it."""
        self.turn: Turn | None = None
        """The turn that is going on."""
        self.busy = asyncio.Lock()
        self.waiting = 0
        """How many prompts wait for the turn to end."""
        self.cancels = 0
        self._connection = connection
        self._peer = connection.peer
        self._unkept: list[v2.SessionUpdate] = []
        self._asking = 0
        self._made = 0
        head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
        self._head = head % codec.encode(self.session_id)
        self._downgrader: Downgrader | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self.start_telling()

    # ---- sending

    async def send(self, update: v2.SessionUpdate) -> None:
        """Tell the client one update, as it stands; the other methods make them."""
        self.record(update)
        if self._downgrader is None:
            self._peer.send(self._head + codec.encode(update) + b"}}\n")
        elif type(update) is not v2.StateUpdate:  # version 1 has it in the result of the prompt
            self._send_v1(self._downgrader, update)
        if self._peer.crowded:
            await self._peer.room()

    def record(self, update: v2.SessionUpdate) -> None:
        """Keep an update that the client knows already."""
        self.state.apply(update)
        self._unkept.append(update)
        if len(self._unkept) >= KEEP:
            self.keep()

    def keep(self) -> None:
        """Give the store what it has not got yet."""
        unkept, self._unkept = self._unkept, []
        self._connection.keep(self, unkept)

    def _send_v1(self, downgrader: Downgrader, update: v2.SessionUpdate) -> None:
        try:
            lowered = downgrader.update(update)
        except NotConvertible as refused:
            self._connection.lost(self, refused.path, refused.reason)
            return
        finally:
            self._report_losses(downgrader)
        for each in lowered:
            self._peer.send(self._head + codec.encode(each) + b"}}\n")
        if downgrader.gathered and self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(GATHER, self.flush_terminals)

    def flush_terminals(self) -> None:
        """Send what terminals printed meanwhile, to a client of version 1."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._downgrader is not None:
            for update in self._downgrader.flush():
                self._peer.send(self._head + codec.encode(update) + b"}}\n")

    def _report_losses(self, downgrader: Downgrader) -> None:
        for loss in downgrader.losses:
            self._connection.lost(self, loss.path, loss.reason)
        downgrader.losses.clear()

    def start_telling(self) -> None:
        """Whoever listens knows nothing of the session yet."""
        if self._connection.version == 1:
            able = self._connection.client_session_capabilities
            self._downgrader = Downgrader(
                notices=bool(able and able.notices),
                compactions=bool(able and able.compaction),
                gather=True,
            )

    async def replay(self) -> None:
        """Tell everything again, from the beginning."""
        self.start_telling()
        for update in snapshot(self.state):
            if self._downgrader is None:
                self._peer.send(self._head + codec.encode(update) + b"}}\n")
            elif type(update) is not v2.StateUpdate:
                self._send_v1(self._downgrader, update)
            if self._peer.crowded:
                await self._peer.room()
        self.flush_terminals()

    def tell_state(self) -> None:
        """Tell what the session is doing, to a client of version 2."""
        if self._downgrader is None:
            self._peer.send(self._head + codec.encode(self.state.state_update) + b"}}\n")

    def new_id(self, kind: str) -> str:
        """An id that is unique in this session."""
        self._made += 1
        while self._is_taken(f"{kind}-{self._made}"):
            self._made += 1
        return f"{kind}-{self._made}"

    def _is_taken(self, identity: str) -> bool:
        """Whether something has this id already, in a session that was loaded."""
        return (
            identity in self.state.tool_calls
            or identity in self.state.terminals
            or any(identity in messages for messages in self.state.messages.values())
        )

    # ---- what belongs to the session

    async def title(self, title: str | None) -> None:
        """What the session is called; None takes the title away."""
        await self.send(SessionInfoUpdate(title))
        self._connection.describe(self)

    async def usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """How much of the context is used, and what it cost so far."""
        await self.send(UsageUpdate(used, size, UNSET if cost is None else cost))

    async def commands(self, commands: Sequence[v2.Command]) -> None:
        """The slash commands that the user can give."""
        await self.send(v2.AvailableCommandsUpdate(list(commands)))

    async def config_options(self, options: Sequence[v2.SessionConfigOption]) -> None:
        """Everything that can be set, modes included (as an option of category `mode`)."""
        await self.send(v2.ConfigOptionUpdate(list(options)))

    async def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Something the user should know that is not part of the conversation."""
        await self.send(Notice(severity, title, description or UNSET))

    # ---- asking

    async def request_permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        """Ask the client's user; the session requires action meanwhile."""
        self._asking += 1
        if self._asking == 1 and self.turn is not None:
            await self.send(v2.StateUpdate("requires_action"))
        try:
            return await self._permission(request)
        finally:
            self._asking -= 1
            if self._asking == 0 and self.turn is not None and not self._peer.closed:
                running = v2.StateUpdate("running")
                self.record(running)
                self.tell_state()

    async def _permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        method = "session/request_permission"
        if isinstance(request.subject, v2.ToolCallPermissionSubject):
            call = request.subject.tool_call
            # the request tells the client of the call: what was said is kept as an update
            self.record(v2.ToolCallUpdate(**_fields(call)))
        if self._downgrader is None:
            result = await self._peer.request(method, request, v2.RequestPermissionResponse)
            return _as_v2(result)
        self.flush_terminals()
        lowered = self._downgrader.permission(request)
        self._report_losses(self._downgrader)
        result = await self._peer.request(method, lowered, v1.RequestPermissionResponse)
        return _as_v2(result)

    def problem(self, text: str, error: Exception | None = None) -> None:
        """Report something that went wrong and was survived."""
        self._connection.report(Problem("handler", text, self.session_id, error))


def _as_v2(result: Any) -> v2.RequestPermissionResponse:
    return v2.RequestPermissionResponse(result.outcome)


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
