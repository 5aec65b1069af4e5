"""One session of an agent: `AgentSession` is what handlers use, `OpenSession` does the work.

Agents send updates of version 2 throughout. For a client of version 1 they are converted here, on
their way out; terminal output and pieces of a tool call's content are gathered for it, because
version 1 repeats the whole content each time. Updates are also applied to the session's state and
given to the store, so that they can be replayed. Nothing is sent before the client has the answer
to `session/new`, nor after the session was closed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import asdict, replace

from twofold.agent import arguments
from twofold.agent.store import DRAFT, Store, UnknownSession
from twofold.convert.downgrade import Downgrader
from twofold.convert.losses import Loss, NotConvertible
from twofold.convert.options import value_of, with_checked_value, without_booleans
from twofold.convert.upgrade import upgrade_outcome
from twofold.errors import BadAnswer, LocalError
from twofold.peer.peer import Peer
from twofold.peer.problems import Problem, Report
from twofold.rpc.errors import RequestFailed
from twofold.session import Session, snapshot
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Cost,
    Notice,
    NoticeSeverity,
    SessionInfoUpdate,
    UsageUpdate,
)

KEEP = 256
"""How many updates are gathered before they are given to the store."""
KEEP_WITHIN = 0.5
"""After how many seconds they are given to it in any case."""
GATHER = 0.1
"""For how many seconds a tool call's output is gathered for a client of version 1."""
LOSSES = 1000
"""How many different losses are reported for one client."""

_CANCELLED = v2.RequestPermissionResponse(CancelledPermissionOutcome())
_IN_THE_RESPONSE = (v2.ConfigOptionUpdate, v2.AvailableCommandsUpdate)
_ENDED = frozenset({"completed", "failed", "cancelled"})


class ClientLink:
    """The client of one connection: how to send to it, and what it can show.

    The sessions and turns of the connection share it.
    """

    def __init__(self, peer: Peer, report: Report) -> None:
        self.peer = peer
        self.report = report
        self.protocol_version: int = 0
        """The version that was agreed on; 0 before `initialize`."""
        self.client: v2.InitializeRequest | None = None
        """What the client sent in `initialize`, as version 2."""
        self.session_capabilities: v1.ClientSessionCapabilities | None = None
        """What a client of version 1 declared that it shows."""
        self.gone = asyncio.Event()
        """Set when the client has disconnected, or the connection is being closed."""
        self._lost: set[tuple[str, str]] = set()

    def shown_options(
        self, options: Sequence[v2.SessionConfigOption]
    ) -> list[v2.SessionConfigOption]:
        """The config options that this client of version 1 declared it can show."""
        declared = self.session_capabilities
        if declared and declared.config_options and declared.config_options.boolean:
            return list(options)
        shown = without_booleans(options)
        if len(shown) < len(options):
            self.report_loss("configOptions", "the client did not declare that it shows booleans")
        return shown

    def report_loss(self, path: str, reason: str, session_id: str | None = None) -> None:
        """Report something that version 1 cannot express, each path and reason once."""
        if (path, reason) not in self._lost and len(self._lost) < LOSSES:
            self._lost.add((path, reason))
            self.report(Problem("loss", f"{path}: {reason}", session_id))

    def report_losses(self, losses: Iterable[Loss], session_id: str | None = None) -> None:
        """Report what a conversion to version 1 lost."""
        for loss in losses:
            self.report_loss(loss.path, loss.reason, session_id)


class SessionClosed(LocalError):
    """An update was sent, or permission requested, in a session that was closed.

    Attributes:
        session_id: The id of the session.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"The session {session_id!r} is closed: stop the work for it in"
            " `@agent.on_close_session`."
        )
        self.session_id = session_id


class TurnState(Struct, eq=False):
    """What a session and the handles of its turn both need to know about the turn."""

    cancelled: bool = False
    asking: int = 0
    """How many permission requests wait for an answer."""


class OpenSession:
    """A session that one client has open: sends its updates, and keeps them.

    Args:
        link: The client.
        store: Where the updates are kept.
        info: The session's id and directories.
        state: What the session adds up to so far; a new session starts empty.
        end: Ends the session for this client, for example because another one takes it over.
    """

    def __init__(
        self,
        link: ClientLink,
        store: Store,
        info: v2.SessionInfo,
        end: "Callable[[OpenSession], Awaitable[None]]",
        state: Session | None = None,
    ) -> None:
        self.session_id = info.session_id
        self.cwd = info.cwd
        self.directories: list[str] = list(info.additional_directories or [])
        self.mcp_servers: list[v2.McpServer] = []
        self.state = state or Session(info.session_id, DRAFT)
        self.link = link
        self.turn: TurnState | None = None
        """The turn that is running."""
        self.announced = False
        """Whether the client has the answer to `session/new` or `session/resume`."""
        self.closed = False
        self.busy = asyncio.Lock()
        """Held while a turn runs."""
        self.opening = asyncio.Lock()
        """Held while the session is resumed."""
        self.waiting = 0
        """How many prompts wait for the running turn to end."""
        self.cancels = 0
        """How often the client cancelled; a prompt that waits compares it."""
        self.face = AgentSession(self)
        self._end = end
        self._peer = link.peer
        self._store = store
        self._unkept: list[v2.SessionUpdate] | None = None
        """Updates that the store has not got yet; None if it keeps `state` itself."""
        if not store.adopt(self.state):
            self._unkept = []
        self._keep_at = KEEP
        self._keeping: asyncio.TimerHandle | None = None
        self._ids = 0
        self._head = codec.update_head(codec.encode(self.session_id))
        self._downgrader: Downgrader | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._write: Callable[[v2.SessionUpdate], None] = self._hold
        self._held: list[v2.SessionUpdate] = []
        """Updates that wait until the client may have them."""
        self._released = asyncio.Event()
        """Set while updates are written at once."""
        self._hold_updates()

    async def end(self) -> None:
        """End the session for the client that has it open."""
        await self._end(self)

    # ---- sending

    async def send(self, update: v2.SessionUpdate) -> None:
        """Send, apply and keep one update; waits while the client does not read."""
        if self.closed:
            raise SessionClosed(self.session_id)
        self._write(update)  # first: an update that cannot be encoded must not change the state
        self.state.apply(update)
        if self._unkept is not None:
            self._keep_later(self._unkept, update)
        if self._peer.crowded:
            await self._peer.room()

    def send_nowait(self, update: v2.SessionUpdate) -> None:
        """The same without waiting, for the few updates that frame a turn."""
        self._write(update)
        self.record(update)

    def record(self, update: v2.SessionUpdate) -> None:
        """Apply and keep an update that the client has already."""
        self.state.apply(update)
        if self._unkept is not None:
            self._keep_later(self._unkept, update)

    def send_state(self) -> None:
        """Send whether the session is running or idle, to a client of version 2."""
        if self._downgrader is None:
            self._write_v2(self.state.state_update)

    def _write_v2(self, update: v2.SessionUpdate) -> None:
        self._peer.send(b"".join((self._head, codec.encode(update), b"}}\n")))

    def _write_v1(self, update: v2.SessionUpdate) -> None:
        downgrader = self._downgrader
        if downgrader is None or type(update) is v2.StateUpdate:
            return  # version 1 has it in the result of the prompt
        plain = downgrader.plain(update)
        if plain is not None:
            self._peer.send(b"".join((self._head, codec.encode(plain), b"}}\n")))
            return
        if type(update) is v2.ConfigOptionUpdate:
            options = self.link.shown_options(update.config_options)
            update = replace(update, config_options=options)
        try:
            for lowered in downgrader.update(update):
                self._peer.send(b"".join((self._head, codec.encode(lowered), b"}}\n")))
        except NotConvertible as refused:
            self.link.report_loss(refused.path, refused.reason, self.session_id)
        if downgrader.losses:
            self._report_losses(downgrader)
        if downgrader.gathered and self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(GATHER, self.flush)

    def flush(self) -> None:
        """Send the output that was gathered for a client of version 1."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._downgrader is not None and not self.closed:
            for update in self._downgrader.flush():
                self._peer.send(b"".join((self._head, codec.encode(update), b"}}\n")))

    def _report_losses(self, downgrader: Downgrader) -> None:
        self.link.report_losses(downgrader.losses, self.session_id)
        downgrader.losses.clear()

    # ---- holding back, and replaying

    def _hold(self, update: v2.SessionUpdate) -> None:
        codec.encode(update)  # an update that cannot be encoded raises now, not later
        self._held.append(update)

    def _hold_updates(self) -> None:
        """Hold updates back from now on: the client has nothing of the session yet."""
        self._write, self._held = self._hold, []
        self._released.clear()
        if self.link.protocol_version == 1:
            declared = self.link.session_capabilities
            self._downgrader = Downgrader(
                notices=bool(declared and declared.notices),
                compactions=bool(declared and declared.compaction),
                gather=True,
            )

    def announce(self) -> None:
        """Send what was held back: the client has the answer, which held the config options."""
        if self.announced or self.closed:
            return
        self.announced = True
        held: list[v2.SessionUpdate] = [
            each for each in self._held if not isinstance(each, _IN_THE_RESPONSE)
        ]
        # version 1 has commands in an update only, and so had the August draft of version 2
        commands = self.state.commands_update
        self._held = held if commands is None else [commands, *held]
        self._release()

    def _release(self) -> None:
        self._write = self._write_v2 if self._downgrader is None else self._write_v1
        held, self._held = self._held, []
        for update in held:
            self._write(update)
        self._released.set()

    async def replay(self) -> None:
        """Send everything again from the beginning; updates sent meanwhile follow."""
        self.announced = True
        self._hold_updates()
        write = self._write_v2 if self._downgrader is None else self._write_v1
        try:
            for update in snapshot(self.state):
                if not isinstance(update, Notice):  # v2: notices are live only
                    write(update)
                if self._peer.crowded:
                    await self._peer.room()
            self.flush()
        finally:
            self._release()

    # ---- keeping

    def _keep_later(self, unkept: list[v2.SessionUpdate], update: v2.SessionUpdate) -> None:
        unkept.append(update)
        if len(unkept) >= self._keep_at:
            self.keep()
        elif self._keeping is None and self._keep_at == KEEP:
            self._keeping = asyncio.get_running_loop().call_later(KEEP_WITHIN, self.keep)

    def keep(self) -> None:
        """Give the store the updates that it has not got yet."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        if not self._unkept:
            return
        try:
            self._store.append(self.session_id, self._unkept)
        except UnknownSession:
            pass  # it was deleted meanwhile
        except LocalError as error:
            self._keep_at = 2 * len(self._unkept)  # it is tried again, but not all the time
            self.link.report(Problem("handler", str(error), self.session_id, error))
            return
        self._unkept.clear()
        self._keep_at = KEEP

    def describe(self) -> None:
        """Give the store the title and the time of the last change."""
        info = v2.SessionInfo(
            self.session_id,
            self.cwd,
            self.directories or UNSET,
            self.state.info.title,
            now(),
        )
        try:
            self._store.describe(info)
        except UnknownSession:
            pass  # it was deleted meanwhile
        except LocalError as error:
            self.link.report(Problem("handler", str(error), self.session_id, error))

    def settle_loaded(self) -> None:
        """End what was running when the agent's process ended: it does not run any more."""
        for call in self.state.tool_calls.values():
            if call.status not in _ENDED:
                self.record(v2.ToolCallUpdate(call.tool_call_id, status="cancelled"))
        for terminal in self.state.terminals.values():
            if terminal.exit_status is None:
                status = v2.TerminalExitStatus()
                self.record(v2.TerminalUpdate(terminal.terminal_id, exit_status=status))
        if self.state.state != "idle":
            self.record(v2.StateUpdate("idle", "cancelled"))

    def new_id(self, kind: str) -> str:
        """An id that is unique in this session."""
        self._ids += 1
        while self._is_taken(f"{kind}-{self._ids}"):
            self._ids += 1
        return f"{kind}-{self._ids}"

    def _is_taken(self, identity: str) -> bool:
        """Whether a loaded session has this id already."""
        return (
            identity in self.state.tool_calls
            or identity in self.state.terminals
            or any(identity in messages for messages in self.state.messages.values())
        )

    # ---- permissions

    async def request_permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        """Send a permission request and wait for the answer."""
        if self.closed:
            raise SessionClosed(self.session_id)
        if not self.announced:
            raise LocalError(
                "Permission cannot be requested before the client has the session: wait for the"
                " first prompt."
            )
        if not request.options:
            raise arguments.InvalidArgument("A permission request needs an option to choose.")
        turn = self.turn
        self._count_questions(turn, 1)
        try:
            return await self._ask(request)
        except (RequestFailed, BadAnswer) as error:
            self.link.report(Problem("answer", str(error), self.session_id, error))
            return _CANCELLED
        finally:
            self._count_questions(turn, -1)

    def _count_questions(self, turn: TurnState | None, change: int) -> None:
        """The session requires action while any question of its turn is open."""
        if turn is None or turn is not self.turn:
            return  # the turn does not wait for this answer
        before, turn.asking = turn.asking, turn.asking + change
        if before == 0:
            self.send_nowait(v2.StateUpdate("requires_action"))
        elif turn.asking == 0 and not turn.cancelled and not self._peer.closed:
            self.send_nowait(v2.StateUpdate("running"))

    async def _ask(self, request: v2.RequestPermissionRequest) -> v2.RequestPermissionResponse:
        await self._released.wait()
        method = "session/request_permission"
        if isinstance(request.subject, v2.ToolCallPermissionSubject):
            # the client has the tool call from the request: it is kept as an update
            self.record(v2.ToolCallUpdate(**asdict(request.subject.tool_call)))
        if self._downgrader is None:
            answer: v2.RequestPermissionResponse = await self._peer.request(
                method, request, v2.RequestPermissionResponse
            )
            return answer
        self.flush()
        try:
            lowered = self._downgrader.permission(request)
        except NotConvertible as refused:
            self.link.report_loss(refused.path, refused.reason, self.session_id)
            return _CANCELLED
        self._report_losses(self._downgrader)
        result = await self._peer.request(method, lowered, v1.RequestPermissionResponse)
        return upgrade_outcome(result)

    # ---- updates about the session itself, from the session or from its turn

    async def send_title(self, title: str | None) -> None:
        """Send the title, and give it to the store."""
        await self.send(SessionInfoUpdate(arguments.text_or_none("title", title)))
        self.describe()

    async def send_usage(self, used: int, size: int, cost: Cost | None) -> None:
        """Send how much of the context is used."""
        used, size = arguments.integer("used", used), arguments.integer("size", size)
        if cost is not None:
            arguments.struct("cost", cost, Cost, "a Cost or None")
        await self.send(UsageUpdate(used, size, UNSET if cost is None else cost))

    async def send_commands(self, commands: Sequence[v2.AvailableCommand]) -> None:
        """Send the slash commands."""
        checked = arguments.structs("commands", commands, v2.AvailableCommand, "v2.Command")
        await self.send(v2.AvailableCommandsUpdate(checked))

    async def send_config_options(self, options: Sequence[v2.SessionConfigOption]) -> None:
        """Send the config options."""
        wanted = "v2.SessionConfigSelect or v2.SessionConfigBoolean"
        checked = arguments.structs("options", options, v2.SessionConfigOption, wanted)
        await self.send(v2.ConfigOptionUpdate(checked))

    async def send_notice(self, title: str, description: str, severity: str) -> None:
        """Send a notice."""
        arguments.text("title", title)
        arguments.text("description", description)
        arguments.enumerated("severity", severity, NoticeSeverity)
        await self.send(Notice(severity, title, description or UNSET))


def now() -> str:
    """The time as the protocol writes it: ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def checked_update(update: v2.SessionUpdate) -> v2.SessionUpdate:
    """An update that an agent's author made, if the protocol allows it."""
    return arguments.struct("update", update, v2.SessionUpdate, "a session update of twofold.v2")


class AgentSession:
    """A conversation with a client. Handlers are given one; they do not make it.

    Updates may be sent at any time while the session is open, also between two turns. After it was
    closed every method that sends raises `SessionClosed`.
    """

    def __init__(self, open_session: OpenSession) -> None:
        self._open = open_session

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id!r}>"

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._open.session_id

    @property
    def cwd(self) -> str:
        """The directory that the client gave."""
        return self._open.cwd

    @property
    def directories(self) -> list[str]:
        """Other directories that the client gave."""
        return self._open.directories

    @property
    def mcp_servers(self) -> list[v2.McpServer]:
        """The MCP servers that the client gave."""
        return self._open.mcp_servers

    @property
    def state(self) -> Session:
        """What the session looks like now. Read it; sending changes it."""
        return self._open.state

    @property
    def closed(self) -> bool:
        """Whether the session was closed, so that nothing more can be sent."""
        return self._open.closed

    @property
    def protocol_version(self) -> int:
        """The version of the protocol that the client speaks: 1 or 2."""
        return self._open.link.protocol_version

    @property
    def client(self) -> v2.InitializeRequest | None:
        """What the client sent in `initialize`, converted to version 2."""
        return self._open.link.client

    # ---- sending

    async def send(self, update: v2.SessionUpdate) -> None:
        """Send one update of version 2 as it is; the other methods make updates for you.

        Args:
            update: A session update of `twofold.v2`.

        Raises:
            TypeError: It is not a session update.
            InvalidArgument: A field of it is not as the protocol wants it.
            SessionClosed: The session was closed.
        """
        await self._open.send(checked_update(update))

    async def title(self, title: str | None) -> None:
        """Set the title of the session.

        Args:
            title: The title; None removes it.
        """
        await self._open.send_title(title)

    async def usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """Send how much of the context is used, and the cost so far.

        Args:
            used: The number of tokens in the context.
            size: The number of tokens that the context can hold.
            cost: The cost of the session so far, as `v2.Cost(amount, currency)`.
        """
        await self._open.send_usage(used, size, cost)

    async def commands(self, commands: Sequence[v2.AvailableCommand]) -> None:
        """Set the slash commands that the user can give.

        Args:
            commands: All of them; an empty list removes them.
        """
        await self._open.send_commands(commands)

    async def config_options(self, options: Sequence[v2.SessionConfigOption]) -> None:
        """Set the config options, modes included (as a select of category `mode`).

        Args:
            options: All of them, with their current values.
        """
        await self._open.send_config_options(options)

    def option(self, config_id: str) -> str | bool | None:
        """The current value of a config option.

        Args:
            config_id: The id of the option.

        Returns:
            The value; None if there is no such option.
        """
        return value_of(self.state.config_options, arguments.text("config_id", config_id))

    async def set_option(self, config_id: str, value: str | bool) -> None:
        """Set a config option, such as the mode, as the user could.

        Args:
            config_id: The id of the option.
            value: One of its values; a bool for a boolean option.

        Raises:
            NoSuchOption: There is no such option, or it cannot have this value.
        """
        arguments.text("config_id", config_id)
        if not isinstance(value, str | bool):
            raise arguments.wrong_type("value", value, "a str or a bool")
        options = with_checked_value(self.state.config_options, config_id, value)
        await self.config_options(options)

    async def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Show the user something that is not part of the conversation.

        Args:
            title: One line.
            description: More about it.
            severity: `info`, `warning` or `error`.
        """
        await self._open.send_notice(title, description, severity)

    # ---- permissions

    async def request_permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        """Send a permission request as it is; `Turn.ask` makes one for you.

        While it waits for the answer, the session's state is `requires_action`.

        Args:
            request: The request; its `session_id` is the one of this session.

        Returns:
            The client's answer. A client that answers with an error, or with something malformed,
            has not allowed anything: the outcome is `cancelled`.

        Raises:
            InvalidArgument: The request has no options, or a field that is not allowed.
            LocalError: The client does not have the session yet.
            SessionClosed: The session was closed.
        """
        shape = v2.RequestPermissionRequest
        arguments.struct("request", request, shape, "a v2.RequestPermissionRequest")
        if request.session_id != self.session_id:
            raise arguments.InvalidArgument(
                f"request.session_id must be {self.session_id!r}, not {request.session_id!r}"
            )
        return await self._open.request_permission(request)


def open_session(session: AgentSession) -> OpenSession:
    """The parts of a session that handlers do not see, for this package and the demo agent."""
    return session._open
