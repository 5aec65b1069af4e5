"""Passes what an agent sends to the session it belongs to.

Nothing here waits: an update or a request goes into the inbox of its session, in wire order. A
request for something that the client does not offer is refused with "method not found", and the
connection goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from twofold.client.agent_peer import AgentPeer
from twofold.client.negotiate import NotAnAgent, Offer
from twofold.client.permissions import Ask
from twofold.client.services import Services
from twofold.client.session import OpenSession
from twofold.convert.losses import Losses
from twofold.convert.requests import downgrade_result, upgrade_params
from twofold.errors import ConnectionClosed
from twofold.peer.peer import PATIENCE
from twofold.peer.problems import Problem, Report
from twofold.policy import Policy
from twofold.rpc.connection import Notification, Request
from twofold.rpc.errors import RequestError
from twofold.session import Session
from twofold.wire import codec, guide, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.elicitation import ElicitationScope

UNCLAIMED = 64
"""How many sessions are kept that the client has not asked for."""
KEPT = 64 * 1024 * 1024
"""How many bytes of messages of such sessions are kept."""
GONE = 1024
"""How many ids of closed sessions are remembered."""
LONGEST = 4096
"""How long a session id may be."""

NewState: TypeAlias = Callable[[str], Session]
"""Makes the state of a session, by the id of the session."""
Elicit: TypeAlias = Callable[[v2.CreateElicitationRequest], Awaitable[v2.CreateElicitationResponse]]

# updates that version 2 does not have: an agent that sends them speaks version 1
_ONLY_V1 = frozenset({"tool_call", "plan", "current_mode_update"})


class UnclaimedSessions:
    """Sessions that the client has not asked for, and those that are closed.

    Agents send updates before they answer `session/new`: these are kept for the caller that is
    about to get the session. Only so many sessions and bytes are kept, the newest ones; more, and
    what agents still send for closed sessions, is dropped.
    """

    def __init__(self, make: Callable[[str], OpenSession], report: Report) -> None:
        self._make = make
        self._report = report
        self._sessions: dict[str, OpenSession] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._gone: dict[str, None] = {}

    def __iter__(self) -> Iterator[OpenSession]:
        return iter(list(self._sessions.values()))

    def find(self, session_id: str, size: int) -> OpenSession | None:
        """The session for a message of `size` bytes; None if the message should be dropped."""
        if session_id in self._gone:
            return None
        if len(session_id) > LONGEST:
            text = f"The agent sent a session id longer than {LONGEST} characters: dropped"
            self._report(Problem("limit", text))
            return None
        if session_id not in self._sessions:
            self._sessions[session_id] = self._make(session_id)
            self._sizes[session_id] = 0
        self._sizes[session_id] += size
        self._size += size
        while len(self._sessions) > UNCLAIMED or self._size > KEPT:
            self._drop(next(iter(self._sessions)))
        return self._sessions.get(session_id)

    def claim(self, session_id: str) -> OpenSession | None:
        """Remove and return a session that the client asks for, if the agent sent something."""
        self._size -= self._sizes.pop(session_id, 0)
        return self._sessions.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        """Drop what the agent still sends for a session that is closed."""
        self.claim(session_id)
        self._gone[session_id] = None
        if len(self._gone) > GONE:
            del self._gone[next(iter(self._gone))]

    def _drop(self, session_id: str) -> None:
        text = "The agent sends too much for sessions that were not asked for: one is dropped"
        self._report(Problem("update", text, session_id))
        self._sessions[session_id].end(None)  # calls `forget`


class Serving(Struct, kw_only=True):
    """How a client answers its agent's requests: arguments of `connect`."""

    offer: Offer
    policy: Policy
    ask: Ask | None
    elicit: Elicit | None
    env: Mapping[str, str | None] | None
    pass_env: Collection[str]
    new_state: NewState = Session


class Incoming:
    """The receiving half of a client (`Listener`)."""

    def __init__(
        self, agent: AgentPeer, serving: Serving, on_end: Callable[[OpenSession], None]
    ) -> None:
        self.sessions: dict[str, OpenSession] = {}
        """The sessions that the client has asked for, by id."""
        self.lost: Callable[[Exception | None], bool] = lambda error: False
        """Called when the connection has ended; True if the sessions will be resumed."""
        self._agent = agent
        self._serving = serving
        self._on_end = on_end
        self._version: Literal[1, 2] | None = None
        self._speaks_guide = False
        self._unclaimed = UnclaimedSessions(self._make, agent.report)
        self._services: dict[str, Services] = {}

    def agreed(self, version: Literal[1, 2], *, speaks_guide: bool) -> None:
        """Begin to accept sessions, in this version."""
        self._version = version
        self._speaks_guide = speaks_guide

    # ---- sessions

    def _make(self, session_id: str) -> OpenSession:
        return OpenSession(
            self._agent,
            self._serving.new_state(session_id),
            policy=self._serving.policy,
            ask=self._serving.ask,
            count_questions=self._count_questions,
            own_terminals=self._serving.offer.terminals,
            speaks_guide=self._speaks_guide,
            on_end=self._ended_session,
        )

    def claim(self, session_id: str, roots: list[str]) -> OpenSession:
        """The session that a caller asks for, with what the agent has sent of it so far."""
        session = self._unclaimed.claim(session_id) or self.sessions.get(session_id)
        if session is None:
            session = self._make(session_id)
        if session.roots != roots:
            self._close_services(session_id)  # they serve other directories
        session.roots = roots
        self.sessions[session_id] = session
        return session

    def _ended_session(self, session: OpenSession) -> None:
        self.sessions.pop(session.session_id, None)
        self._unclaimed.forget(session.session_id)
        self._close_services(session.session_id)
        self._on_end(session)

    def _count_questions(self) -> int:
        return sum(session.permissions.count for session in self._all())

    def _all(self) -> list[OpenSession]:
        return [*self.sessions.values(), *self._unclaimed]

    def _close_services(self, session_id: str) -> None:
        services = self._services.pop(session_id, None)
        if services is not None:
            self._agent.in_background(services.close())

    # ---- updates

    def updated(self, update: Any, size: int) -> None:
        """A `session/update` that was decoded in one pass (`Listener`)."""
        session = self.sessions.get(update.session_id)
        if session is None:
            session = self._find_unclaimed(update.session_id, size)
        if session is not None:
            session.inbox.put(session.updates.take, update.update, size)

    def _find_unclaimed(self, session_id: str, size: int) -> OpenSession | None:
        if self._version is None:
            text = "The agent sent an update of a session before it answered initialize"
            self._agent.report(Problem("update", text, session_id))
            return None
        return self._unclaimed.find(session_id, size)

    def notified(self, notification: Notification) -> None:
        """Any other notification (`Listener`)."""
        method = notification.method
        if method == "session/update":
            self._read_update(notification.params or b"{}")
        elif method not in self._methods and not method.startswith(("_", "$/")):
            text = f"The agent sent a notification with an unknown method: {method}"
            self._agent.report(Problem("noise", text))

    @property
    def _methods(self) -> Any:
        return (v1 if self._version == 1 else v2).METHODS

    def _read_update(self, params: bytes) -> None:
        """Read an update that is unknown, malformed, or of another dialect."""
        if self._version == 1 and self._read_as_guide(params):
            return
        update = self._decode(params, self._methods["session/update"].params)
        if isinstance(update, Malformed):
            if not self._read_as_v1(params):
                text = f"The agent sent a malformed update: {update}"
                self._agent.report(Problem("update", text))
            return
        unknown = update.update
        drifted = isinstance(unknown, v2.UnknownUpdate) and unknown.tag in _ONLY_V1
        if not (drifted and self._read_as_v1(params)):
            self.updated(update, len(params))

    def _decode(self, params: bytes, shape: Any) -> Any:
        """The update, or what is wrong with it; what was dropped of it is reported."""
        faults: list[Any] = []
        try:
            update = codec.decode(params, shape, faults)
        except Malformed as error:
            return error
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self._agent.report(Problem("update", text, update.session_id))
        return update

    def _read_as_v1(self, params: bytes) -> bool:
        """Read an update of version 1 of an agent that claims version 2."""
        if self._version != 2:
            return False
        try:
            note: v1.SessionNotification = codec.decode(params, v1.SessionNotification)
        except Malformed:
            return False
        update = note.update
        if not isinstance(update, v1.ToolCall | v1.Plan | v1.CurrentModeUpdate) and (
            not isinstance(update, v1.ContentChunk) or update.message_id
        ):
            return False  # version 2 has it as well
        session = self._session_of(note.session_id, len(params))
        if session is not None:
            session.inbox.put(session.updates.take_drifted, update, len(params))
        return True

    def _read_as_guide(self, params: bytes) -> bool:
        """Read an update in the client guide's dialect, which has version 1's handshake.

        An update that only this dialect has switches its session to the dialect.
        """
        try:
            value = codec.parse(params)
        except Malformed:
            return False
        session_id = value.get("sessionId") if isinstance(value, dict) else None
        if not isinstance(session_id, str):
            return False
        known = self.sessions.get(session_id)
        speaks_guide = self._speaks_guide if known is None else known.updates.speaks_guide
        if not (speaks_guide or guide.looks_like_guide(value.get("update"))):
            return False
        note = self._decode(params, guide.SessionNotification)
        if isinstance(note, Malformed):
            return False
        session = self._session_of(session_id, len(params))
        if session is not None:
            session.inbox.put(session.updates.take_guide, note.update, len(params))
        return True

    def _session_of(self, session_id: str, size: int) -> OpenSession | None:
        return self.sessions.get(session_id) or self._find_unclaimed(session_id, size)

    # ---- requests

    def requested(self, request: Request) -> None:
        """A request (`Listener`)."""
        peer = self._agent.peer
        if self._version is None and request.method == "initialize":
            peer.ended(NotAnAgent())
            return
        method = self._methods.get(request.method)
        if (
            self._version is None
            or method is None
            or method.side == "agent"
            or method.result is None
        ):
            peer.refuse(request, RequestError.method_not_found(request.method))
            return
        try:
            params = codec.decode(request.params or b"{}", method.params)
        except Malformed as error:
            peer.refuse(request, error)
            return
        if request.method == "elicitation/create":
            self._elicitation(request, params)
        elif request.method == "session/request_permission":
            self._permission(request, params)
        else:
            self._service(request, params)

    def _permission(self, request: Request, params: Any) -> None:
        size = len(request.params)
        session = self._session_of(params.session_id, size)
        if session is None:
            self._agent.peer.refuse(request, RequestError.invalid_params("unknown session"))
        else:
            session.inbox.put(session.request_permission, (request, params), size)

    def _elicitation(self, request: Request, params: Any) -> None:
        """A question to the user; if it belongs to a session, it is asked in wire order."""
        elicit, peer = self._serving.elicit, self._agent.peer
        if elicit is None:
            peer.refuse(request, RequestError.method_not_found(request.method))
            return

        async def answer(_: Request) -> Any:
            if self._version == 2:
                return await elicit(params)
            lifted = upgrade_params(request.method, params, Losses())[1]
            return downgrade_result(request.method, await elicit(lifted), Losses())

        scope = params.session_id if isinstance(params, ElicitationScope) else UNSET
        session = self.sessions.get(scope) if scope else None
        if session is None:
            peer.serve(request, answer)
        else:
            session.inbox.put(lambda request: peer.serve(request, answer), request)

    def _service(self, request: Request, params: Any) -> None:
        """A request of an agent of version 1 for a file or a terminal."""
        peer, offer = self._agent.peer, self._serving.offer
        session = self.sessions.get(params.session_id)
        offered = offer.files if request.method.startswith("fs/") else offer.terminals
        if not offered:
            peer.refuse(request, RequestError.method_not_found(request.method))
        elif session is None:
            peer.refuse(request, RequestError.invalid_params("unknown session"))
        else:
            session.inbox.put(self._serve, (session, request, params), len(request.params))

    def _serve(self, asked: tuple[OpenSession, Request, Any]) -> None:
        session, request, params = asked
        services = self._services.get(session.session_id)
        if services is None:
            services = Services(session, self._serving.env, self._serving.pass_env)
            self._services[session.session_id] = services
        self._agent.peer.serve(request, lambda _: services.answer(request.method, params))

    # ---- the end

    def ended(self, error: Exception | None) -> None:
        """The connection has ended (`Listener`)."""
        why = error or ConnectionClosed("The connection was closed.")
        mended = self.lost(error)
        for session in self._all():
            kept = mended and session.session_id in self.sessions
            if kept:
                self._close_services(session.session_id)
            session.inbox.put(session.interrupt if kept else session.end, why)

    async def close(self) -> None:
        """Close every session; wait, for a bounded time, for their handlers."""
        sessions = self._all()
        for session in sessions:
            session.inbox.close()
            session.end(ConnectionClosed("The connection was closed."))
        await asyncio.gather(*(session.inbox.stopped(PATIENCE) for session in sessions))
