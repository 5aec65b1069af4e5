"""The sessions that one client has open: new, resumed, listed, closed, deleted.

A session is open for one client at a time: whoever resumes it takes it over. What the client is
told before it knows of a session waits until it does; when a session was closed, nothing follows.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from os.path import normpath
from typing import TYPE_CHECKING, Any

from twofold.errors import LocalError
from twofold.rpc.errors import RESOURCE_NOT_FOUND, RequestError
from twofold.runtime.agent.options import NoSuchOption, with_value
from twofold.runtime.agent.session import AgentSession
from twofold.runtime.agent.tools import NotCancellable
from twofold.runtime.agent.turns import Turns
from twofold.runtime.problems import Problem, described
from twofold.runtime.store import SessionInfos, UnknownSession, age
from twofold.session import Session
from twofold.wire import codec, v2
from twofold.wire.base import UNSET, Malformed

if TYPE_CHECKING:
    from twofold.runtime.agent.connection import AgentConnection

PAGE = 100
"""How many sessions one answer to `session/list` holds."""

OPEN = 1000
"""How many sessions a client may have open."""

_ENDED = frozenset({"completed", "failed", "cancelled"})


class Sessions:
    """The sessions of one client, and what it asks about them."""

    def __init__(self, connection: "AgentConnection") -> None:
        self.turns = Turns(connection)
        self._connection = connection
        self._agent = connection.agent
        self._open: dict[str, AgentSession] = {}

    def __bool__(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def get(self, session_id: str) -> AgentSession | None:
        """An open session, if it is one."""
        return self._open.get(session_id)

    def __getitem__(self, session_id: str) -> AgentSession:
        """An open session; raises what the client is told if there is none."""
        session = self._open.get(session_id)
        if session is None:
            raise _not_found(f"there is no open session {session_id!r}")
        return session

    # ---- beginning

    async def new(self, params: v2.NewSessionRequest) -> v2.NewSessionResponse:
        """A new session, which the agent's handler prepares."""
        self._check_room()
        identity, directories = self._agent.new_session_id(), params.additional_directories
        info = v2.SessionInfo(identity, params.cwd, directories, updated_at=_now())
        self._agent.store.create(info)
        session = AgentSession(self._connection, info)
        session.mcp_servers = list(params.mcp_servers or [])
        try:
            await self._set_up(session, self._agent.on_session)
        except BaseException:
            self._agent.store.delete(identity)
            raise
        session.keep()
        self._once_answered(session)
        options, commands = session.state.config_options, session.state.commands
        return v2.NewSessionResponse(identity, options or UNSET, commands or UNSET)

    async def resume(self, params: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """Take a session up again, and tell everything that was said in it if that is wanted."""
        if params.replay_from and not isinstance(params.replay_from, v2.ReplayFromStart):
            raise RequestError.invalid_params(
                f"cannot replay from {params.replay_from.tag!r}, only from the start"
            )
        session = self._open.get(params.session_id) or await self._loaded(params)
        async with session.opening:
            if session.closed:
                raise _not_found(f"there is no session {params.session_id!r}")
            session.cwd = params.cwd
            session.directories = list(params.additional_directories or [])
            session.mcp_servers = list(params.mcp_servers or [])
            if not session.known:
                await self._set_up(session, self._agent.on_resume)
            if params.replay_from:
                await session.replay()
            else:
                session.tell_state()
            self._once_answered(session)
            options, commands = session.state.config_options, session.state.commands
            return v2.ResumeSessionResponse(options or UNSET, commands or UNSET)

    async def _loaded(self, params: v2.ResumeSessionRequest) -> AgentSession:
        while (other := self._agent.open_sessions.get(params.session_id)) is not None:
            if other.connection is self._connection:
                return other  # somebody was faster
            await other.connection.sessions.end(other)
        self._check_room()
        info = self._agent.store.info(params.session_id)
        state = self._agent.store.load(params.session_id) if info is not None else None
        if info is None or state is None:
            raise _not_found(f"there is no session {params.session_id!r}")
        session = AgentSession(self._connection, info, state)
        _settle(session, state)
        self._register(session)
        return session

    def _check_room(self) -> None:
        if len(self._open) >= OPEN:
            raise RequestError.too_many("open sessions", OPEN, "close one before you open another")

    def _register(self, session: AgentSession) -> None:
        self._open[session.session_id] = session
        self._agent.open_sessions[session.session_id] = session

    async def _set_up(
        self, session: AgentSession, handler: Callable[[AgentSession], Awaitable[None]] | None
    ) -> None:
        self._register(session)
        try:
            if handler is not None:
                await handler(session)
        except BaseException:
            self._forget(session)
            raise

    def _once_answered(self, session: AgentSession) -> None:
        # the answer is written before the loop gets to this
        asyncio.get_running_loop().call_soon(session.begin)

    # ---- the end

    async def close(self, params: v2.SessionParams) -> v2.Empty:
        """Close a session; v2: one that is not open is closed already."""
        session = self._open.get(params.session_id)
        if session is not None:
            await self.end(session)
        return v2.Empty()

    async def delete(self, params: v2.SessionParams) -> v2.Empty:
        """Forget a session, wherever it is open; one that is not there is forgotten already."""
        session = self._agent.open_sessions.get(params.session_id)
        if session is not None:
            await session.connection.sessions.end(session)
        self._agent.store.delete(params.session_id)
        return v2.Empty()

    async def end(self, session: AgentSession) -> None:
        """Stop what goes on in a session, keep what was said, and let it go."""
        self.turns.cancel(session)
        async with session.busy:  # the turn has ended
            if self._open.get(session.session_id) is not session:
                return
            await self._free(session)
            session.flush()
            self._forget(session)

    def _forget(self, session: AgentSession) -> None:
        session.keep()
        session.closed = True
        for table in (self._open, self._agent.open_sessions):
            if table.get(session.session_id) is session:
                del table[session.session_id]

    async def _free(self, session: AgentSession) -> None:
        """Have the agent free what it holds for a session; a failure of that changes nothing."""
        if self._agent.on_close is None:
            return
        try:
            async with asyncio.timeout(self._agent.cancel_timeout):
                await self._agent.on_close(session)
        except Exception as error:
            text = f"Closing a session failed: {described(error)}"
            self._connection.report(Problem("handler", text, session.session_id, error))

    async def end_all(self) -> None:
        """The client is gone."""
        sessions = list(self._open.values())
        for session in sessions:
            session.keep()
            self.turns.cancel(session)
        await self.turns.settle()
        ends = [self.end(session) for session in sessions]
        await asyncio.gather(*ends, return_exceptions=True)

    # ---- looking

    async def list(self, params: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        """A page of the sessions that there are, the last updated first."""
        infos = _in_directory(self._agent.store.list(), params.cwd or None)
        if params.cursor:
            # by what was shown last: sessions come, go and move up between two pages
            last = age(_read_cursor(params.cursor))
            infos = [info for info in infos if age(info) < last]
        page = infos[:PAGE]
        return v2.ListSessionsResponse(page, _cursor(page[-1]) if infos[PAGE:] else UNSET)

    # ---- what can be set and stopped

    async def set_option(
        self, params: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        """Set a config option; the agent's handler has the last word."""
        session = self[params.session_id]
        before = session.state.config_options
        try:
            options = with_value(before, params.config_id, params.value)
        except NoSuchOption as error:
            raise RequestError.invalid_params(str(error)) from None
        session.record(v2.ConfigOptionUpdate(options))  # the answer tells the client
        if self._agent.on_config_option is not None:
            try:
                await self._agent.on_config_option(session, params.config_id, params.value)
            except BaseException:
                if session.state.config_options is options:
                    session.record(v2.ConfigOptionUpdate(before))
                raise
        return v2.SetSessionConfigOptionResponse(session.state.config_options)

    async def cancel_call(self, params: v2.CancelToolCallRequest) -> v2.Empty:
        """Stop one tool call."""
        turn = self[params.session_id].turn
        return await _cancel(turn.calls.get(params.tool_call_id) if turn is not None else None)

    async def cancel_terminal(self, params: v2.CancelTerminalRequest) -> v2.Empty:
        """Stop what runs in one terminal."""
        turn = self[params.session_id].turn
        return await _cancel(turn.terminals.get(params.terminal_id) if turn is not None else None)

    async def prompt(self, params: v2.PromptRequest) -> v2.PromptResponse:
        """Begin a turn."""
        return await self.turns.prompt_v2(self[params.session_id], params.prompt)

    # ---- keeping

    def describe(self, session: AgentSession) -> None:
        """Have the store keep the title and the time."""
        info = v2.SessionInfo(
            session.session_id,
            session.cwd,
            session.directories or UNSET,
            session.state.info.title,
            _now(),
        )
        try:
            self._agent.store.describe(info)
        except UnknownSession:
            pass  # somebody deleted it
        except LocalError as error:
            self._connection.report(Problem("handler", str(error), session.session_id, error))


async def _cancel(what: Any) -> v2.Empty:
    try:
        if what is None:
            raise NotCancellable("there is nothing of that id that goes on")
        await what.cancel()
    except NotCancellable as error:
        raise RequestError.invalid_params(str(error)) from None
    return v2.Empty()


def _settle(session: AgentSession, state: Session) -> None:
    """What was going on when the agent was ended goes on no more."""
    for call in state.tool_calls.values():
        if call.status not in _ENDED:
            session.record(v2.ToolCallUpdate(call.tool_call_id, status="cancelled"))
    for terminal in state.terminals.values():
        if terminal.exit_status is None:
            status = v2.TerminalExitStatus()
            session.record(v2.TerminalUpdate(terminal.terminal_id, exit_status=status))
    if state.state != "idle":
        session.record(v2.StateUpdate("idle", "cancelled"))


def _in_directory(infos: SessionInfos, cwd: str | None) -> SessionInfos:
    if cwd is None:
        return infos
    return [info for info in infos if normpath(info.cwd) == normpath(cwd)]


def _not_found(reason: str) -> RequestError:
    return RequestError(RESOURCE_NOT_FOUND, "Session not found", {"reason": reason})


def _cursor(info: v2.SessionInfo) -> str:
    shown = v2.SessionInfo(info.session_id, "", updated_at=info.updated_at)
    return base64.urlsafe_b64encode(codec.encode(shown)).decode()


def _read_cursor(cursor: str) -> v2.SessionInfo:
    try:
        info = codec.decode(base64.urlsafe_b64decode(cursor), v2.SessionInfo)
    except (ValueError, Malformed):
        raise RequestError.invalid_params("this cursor is not one of ours") from None
    assert isinstance(info, v2.SessionInfo)
    return info


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
