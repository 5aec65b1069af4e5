"""One session of an agent: what was said in it, and how it is told to the client.

An agent speaks version 2 throughout. What goes to a client of version 1 is lowered here, on its
way out; what was said is kept, so that it can be told again. Terminal output and pieces of a tool
call's content are gathered for a client of version 1, which gets all of it each time. Nothing is
told before the client knows of the session, nor after it was closed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import asdict, replace

from twofold.agent.store import UnknownSession
from twofold.convert.downgrader import Downgrader
from twofold.convert.losses import NotConvertible
from twofold.convert.options import MODE
from twofold.convert.permissions import upgrade_outcome
from twofold.errors import BadAnswer, LocalError
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.session import Draft, Session, snapshot
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET
from twofold.wire.shared import (
    CancelledPermissionOutcome,
    Cost,
    Notice,
    SessionInfoUpdate,
    UsageUpdate,
)

# Config options: what a client may set, and what of it a client of version 1 can be shown.


Options: TypeAlias = list[v2.SessionConfigOption]

_SETTABLE = v2.SessionConfigSelect | v2.SessionConfigBoolean


class NoSuchOption(LocalError):
    """A config option was to be set that there is not, or to a value that it cannot have."""


def value_of(options: Sequence[v2.SessionConfigOption], config_id: str) -> str | bool | None:
    """What an option is set to; None if there is no such option."""
    for option in options:
        if isinstance(option, _SETTABLE) and option.config_id == config_id:
            return option.current_value
    return None


def with_value(
    options: Sequence[v2.SessionConfigOption], config_id: str, value: str | bool
) -> Options:
    """The options with one of them set; raises `NoSuchOption`."""
    changed: Options = list(options)
    for index, option in enumerate(options):
        if isinstance(option, _SETTABLE) and option.config_id == config_id:
            _check(option, value)
            changed[index] = replace(option, current_value=value)
            return changed
    raise NoSuchOption(f"there is no config option {config_id!r}")


def _check(option: v2.SessionConfigSelect | v2.SessionConfigBoolean, value: Any) -> None:
    if isinstance(option, v2.SessionConfigBoolean):
        if not isinstance(value, bool):
            raise NoSuchOption(f"{option.config_id!r} is true or false")
        return
    values: list[str] = []
    for entry in option.options:
        choices = entry.options if isinstance(entry, v2.SessionConfigSelectGroup) else [entry]
        values += [choice.value for choice in choices]
    if value not in values:
        raise NoSuchOption(f"{option.config_id!r} is one of {', '.join(values)}")


def mode_option(options: Sequence[v2.SessionConfigOption]) -> str | None:
    """The id of the option that is the mode; it has no fixed name."""
    for option in options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
            return option.config_id
    return None


def without_booleans(options: Sequence[v2.SessionConfigOption]) -> Options:
    """What a client of version 1 knows that did not say it knows more."""
    return [option for option in options if not isinstance(option, v2.SessionConfigBoolean)]


if TYPE_CHECKING:
    from twofold.agent.connection import AgentConnection
    from twofold.agent.turn import Turn

KEEP = 256
"""How many updates are gathered before they are given to the store."""
KEEP_WITHIN = 0.5
"""After how many seconds they are given to it in any case."""
GATHER = 0.1
"""For how many seconds a tool call's output is gathered for a client of version 1."""

_CANCELLED = v2.RequestPermissionResponse(CancelledPermissionOutcome())
_IN_THE_RESPONSE = (v2.ConfigOptionUpdate, v2.AvailableCommandsUpdate)


class SessionClosed(LocalError):
    """Something was to be said in a session that was closed."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"The session {session_id!r} is closed: stop what works for it in `@agent.close`."
        )
        self.session_id = session_id


class AgentSession:
    """A conversation with a client. Handlers get it; they do not make it."""

    def __init__(
        self, connection: "AgentConnection", info: v2.SessionInfo, state: Session | None = None
    ) -> None:
        self.session_id = info.session_id
        self.cwd = info.cwd
        self.directories: list[str] = list(info.additional_directories or [])
        """Other directories that the client gave."""
        self.mcp_servers: list[v2.McpServer] = []
        """The MCP servers that the client gave."""
        self.state = state or Session(info.session_id, Draft.NOVEMBER)
        """What the session looks like now. Read it; sending changes it."""
        self.turn: Turn | None = None
        """The turn that is going on."""
        self.known = False
        """Whether the client knows of the session."""
        self.closed = False
        self.busy = asyncio.Lock()
        self.opening = asyncio.Lock()
        self.waiting = 0
        """How many prompts wait for the turn to end."""
        self.cancels = 0
        self.connection = connection
        self._peer = connection.peer
        self._store = connection.agent.store
        self._unkept: list[v2.SessionUpdate] | None = None
        if not self._store.adopt(self.state):
            self._unkept = []
        self._keep_at = KEEP
        self._keeping: asyncio.TimerHandle | None = None
        self._made = 0
        self._head = codec.update_head(codec.encode(self.session_id))
        self._downgrader: Downgrader | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._tell: Callable[[v2.SessionUpdate], None] = self._hold
        self._held: list[v2.SessionUpdate] = []
        """What was said and is not told yet."""
        self._free = asyncio.Event()
        """Whether what is said is told at once."""
        self._start_over()

    @property
    def version(self) -> int:
        """The version of the protocol that the client speaks."""
        return self.connection.version

    @property
    def client(self) -> v2.InitializeRequest | None:
        """What the client said of itself, in the words of version 2."""
        return self.connection.client

    # ---- sending

    async def send(self, update: v2.SessionUpdate) -> None:
        """Tell the client one update, as it stands; the other methods make them."""
        if self.closed:
            raise SessionClosed(self.session_id)
        self._tell(update)  # first: what cannot be written was not said
        self.state.apply(update)
        if self._unkept is not None:
            self._keep_later(self._unkept, update)
        if self._peer.crowded:
            await self._peer.room()

    def tell(self, update: v2.SessionUpdate) -> None:
        """The same without waiting, for the few updates that frame a turn."""
        self._tell(update)
        self.record(update)

    def record(self, update: v2.SessionUpdate) -> None:
        """Keep an update that the client knows already."""
        self.state.apply(update)
        if self._unkept is not None:
            self._keep_later(self._unkept, update)

    def _tell_v2(self, update: v2.SessionUpdate) -> None:
        self._peer.send(b"".join((self._head, codec.encode(update), b"}}\n")))

    def _tell_v1(self, update: v2.SessionUpdate) -> None:
        downgrader = self._downgrader
        if downgrader is None or type(update) is v2.StateUpdate:
            return  # version 1 has it in the result of the prompt
        plain = downgrader.plain(update)
        if plain is not None:
            self._peer.send(b"".join((self._head, codec.encode(plain), b"}}\n")))
            return
        if type(update) is v2.ConfigOptionUpdate:
            options = self.connection.known_options(update.config_options)
            update = replace(update, config_options=options)
        try:
            for lowered in downgrader.update(update):
                self._peer.send(b"".join((self._head, codec.encode(lowered), b"}}\n")))
        except NotConvertible as refused:
            self.connection.lost(self, refused.path, refused.reason)
        if downgrader.losses:
            self._report_losses(downgrader)
        if downgrader.gathered and self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(GATHER, self.flush)

    def flush(self) -> None:
        """Send what was gathered meanwhile, to a client of version 1."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._downgrader is not None and not self.closed:
            for update in self._downgrader.flush():
                self._peer.send(b"".join((self._head, codec.encode(update), b"}}\n")))

    def _report_losses(self, downgrader: Downgrader) -> None:
        for loss in downgrader.losses:
            self.connection.lost(self, loss.path, loss.reason)
        downgrader.losses.clear()

    # ---- not yet, and once more

    def _hold(self, update: v2.SessionUpdate) -> None:
        codec.encode(update)  # what cannot be written is refused now, not later
        self._held.append(update)

    def _start_over(self) -> None:
        """Whoever listens knows nothing of the session yet; what is said meanwhile waits."""
        self._tell, self._held = self._hold, []
        self._free.clear()
        if self.version == 1:
            able = self.connection.client_session_capabilities
            self._downgrader = Downgrader(
                notices=bool(able and able.notices),
                compactions=bool(able and able.compaction),
                gather=True,
            )

    def begin(self) -> None:
        """The client has its answer, which told it the config options."""
        if self.known or self.closed:
            return
        self.known = True
        held: list[v2.SessionUpdate] = [
            each for each in self._held if not isinstance(each, _IN_THE_RESPONSE)
        ]
        # version 1 has commands in an update only, and so had version 2 in August
        commands = self.state.commands_update
        self._held = held if commands is None else [commands, *held]
        self._let_go()

    def _let_go(self) -> None:
        self._tell = self._tell_v2 if self._downgrader is None else self._tell_v1
        held, self._held = self._held, []
        for update in held:
            self._tell(update)
        self._free.set()

    async def replay(self) -> None:
        """Tell everything again, from the beginning; what is said meanwhile follows."""
        self.known = True
        self._start_over()
        tell = self._tell_v2 if self._downgrader is None else self._tell_v1
        try:
            for update in snapshot(self.state):
                if not isinstance(update, Notice):  # v2: live only
                    tell(update)
                if self._peer.crowded:
                    await self._peer.room()
            self.flush()
        finally:
            self._let_go()

    def tell_state(self) -> None:
        """Tell what the session is doing, to a client of version 2."""
        if self._downgrader is None:
            self._tell_v2(self.state.state_update)

    # ---- keeping

    def _keep_later(self, unkept: list[v2.SessionUpdate], update: v2.SessionUpdate) -> None:
        unkept.append(update)
        if len(unkept) >= self._keep_at:
            self.keep()
        elif self._keeping is None and self._keep_at == KEEP:
            self._keeping = asyncio.get_running_loop().call_later(KEEP_WITHIN, self.keep)

    def keep(self) -> None:
        """Give the store what it has not got yet."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        if not self._unkept:
            return
        try:
            self._store.append(self.session_id, self._unkept)
        except UnknownSession:
            pass  # somebody deleted it
        except LocalError as error:
            self._keep_at = 2 * len(self._unkept)  # it is tried again, but not all the time
            self.connection.report(Problem("handler", str(error), self.session_id, error))
            return
        self._unkept.clear()
        self._keep_at = KEEP

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
        self.connection.sessions.describe(self)

    async def usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """How much of the context is used, and what it cost so far."""
        await self.send(UsageUpdate(used, size, UNSET if cost is None else cost))

    async def commands(self, commands: Sequence[v2.Command]) -> None:
        """The slash commands that the user can give."""
        await self.send(v2.AvailableCommandsUpdate(list(commands)))

    async def config_options(self, options: Sequence[v2.SessionConfigOption]) -> None:
        """Everything that can be set, modes included (as an option of category `mode`)."""
        await self.send(v2.ConfigOptionUpdate(list(options)))

    def option(self, config_id: str) -> str | bool | None:
        """What a config option is set to; None if there is no such option."""
        return value_of(self.state.config_options, config_id)

    async def set_option(self, config_id: str, value: str | bool) -> None:
        """Set a config option, a mode for example, as the user could; raises `NoSuchOption`."""
        await self.config_options(with_value(self.state.config_options, config_id, value))

    async def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Something the user should know that is not part of the conversation."""
        await self.send(Notice(severity, title, description or UNSET))

    # ---- asking

    async def request_permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        """Ask the client's user; the session requires action meanwhile.

        A client that cannot ask, or answers something odd, has not allowed anything.
        """
        if self.closed:
            raise SessionClosed(self.session_id)
        if not self.known:
            raise LocalError("Nobody can be asked before the client knows of the session.")
        if not request.options:
            raise LocalError("A permission request needs an option to choose.")
        turn = self.turn
        self._asking(turn, 1)
        try:
            return await self._permission(request)
        except (RequestFailed, BadAnswer) as error:
            self.connection.report(Problem("answer", str(error), self.session_id, error))
            return _CANCELLED
        finally:
            self._asking(turn, -1)

    def _asking(self, turn: "Turn | None", more: int) -> None:
        if turn is None or turn is not self.turn:
            return  # nobody waits for it
        before, turn.asking = turn.asking, turn.asking + more
        if before == 0:
            self.tell(v2.StateUpdate("requires_action"))
        elif turn.asking == 0 and not turn.cancelled and not self._peer.closed:
            self.tell(v2.StateUpdate("running"))

    async def _permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        await self._free.wait()
        method = "session/request_permission"
        if isinstance(request.subject, v2.ToolCallPermissionSubject):
            # the request tells the client of the call: what was said is kept as an update
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
            self.connection.lost(self, refused.path, refused.reason)
            return _CANCELLED
        self._report_losses(self._downgrader)
        result = await self._peer.request(method, lowered, v1.RequestPermissionResponse)
        return upgrade_outcome(result)
