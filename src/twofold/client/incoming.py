"""What an agent says to its client, handed to the session it belongs to.

None of it waits: an update, a question or a request goes into the inbox of its session, in the
order of the wire. What nobody offered is refused with "method not found", and the conversation
goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from twofold.client.negotiate import NotAnAgent, Offer
from twofold.client.offers import Offers
from twofold.client.session import ClientSession
from twofold.convert.losses import Losses
from twofold.convert.requests import downgrade_result, upgrade_params
from twofold.errors import ConnectionClosed
from twofold.peer.peer import PATIENCE
from twofold.peer.problems import Problem, Report
from twofold.rpc.errors import RequestError
from twofold.rpc.messages import Notification, Request
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Malformed
from twofold.wire.elicitation import ElicitationScope

# Sessions that an agent speaks of before anyone here knows them.
#
# Agents send updates before `session/new` is answered: they are kept for the caller who is about to
# get it. Only so many sessions and so many bytes are kept, the newest ones; what goes beyond, and
# what still comes for sessions that are gone, is dropped.


UNCLAIMED = 64
"""How many sessions that nobody asked for are kept."""
KEPT = 64 * 1024 * 1024
"""How many bytes of messages of such sessions are kept."""
GONE = 1024
"""How many sessions that are gone are remembered."""
LONGEST = 4096
"""How long an id may be that an agent makes up."""


class Early:
    """The sessions that nobody asked for yet."""

    def __init__(self, make: Callable[[str], "ClientSession"], report: Report) -> None:
        self._make = make
        self._report = report
        self._sessions: dict[str, ClientSession] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._gone: dict[str, None] = {}

    def __iter__(self) -> Iterator["ClientSession"]:
        return iter(list(self._sessions.values()))

    def find(self, session_id: str, size: int) -> "ClientSession | None":
        """The session that a message of `size` bytes belongs to; None if it should be dropped."""
        if session_id in self._gone:
            return None
        if len(session_id) > LONGEST:
            text = f"The agent speaks of a session whose id is longer than {LONGEST}: passed over"
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

    def claim(self, session_id: str) -> "ClientSession | None":
        """Somebody asked for the session: what was heard of it so far, if anything."""
        self._size -= self._sizes.pop(session_id, 0)
        return self._sessions.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        """The session is gone: what still comes of it is dropped."""
        self.claim(session_id)
        self._gone[session_id] = None
        if len(self._gone) > GONE:
            del self._gone[next(iter(self._gone))]

    def _drop(self, session_id: str) -> None:
        text = "The agent says too much of sessions that nobody asked for: one is passed over"
        self._report(Problem("update", text, session_id))
        self._sessions[session_id].ended(None)  # which has it forgotten


if TYPE_CHECKING:
    from twofold.client.client import Client

Elicit: TypeAlias = Callable[[v2.CreateElicitationRequest], Awaitable[v2.CreateElicitationResponse]]

# what only version 1 says: an agent that claims version 2 and says it speaks version 1
_OF_V1 = frozenset({"tool_call", "plan", "current_mode_update"})


class Incoming:
    """Hears an agent out (`Listener`)."""

    def __init__(self, client: "Client", offer: Offer, elicit: Elicit | None) -> None:
        self._client = client
        self._offer = offer
        self._elicit = elicit
        self._version: Literal[1, 2] | None = None
        self.sessions: dict[str, ClientSession] = {}
        self.early = Early(lambda session_id: ClientSession(client, session_id), client.report)
        self._offers: dict[str, Offers] = {}

    def agreed(self, version: Literal[1, 2]) -> None:
        """The version is known: from now on sessions are."""
        self._version = version

    # ---- sessions

    def claim(self, session_id: str, roots: list[str]) -> ClientSession:
        """The session that somebody asked for, with what was heard of it so far."""
        session = self.early.claim(session_id) or self.sessions.get(session_id)
        if session is None:
            session = ClientSession(self._client, session_id)
        if session.roots != roots:
            self._release(session_id)  # what was offered were other directories
        session.roots = roots
        self.sessions[session_id] = session
        return session

    def forget(self, session: ClientSession) -> None:
        """The session is gone."""
        self.sessions.pop(session.session_id, None)
        self.early.forget(session.session_id)
        self._release(session.session_id)

    def count_questions(self) -> int:
        """How many permission requests wait for an answer, in all sessions."""
        known = [*self.sessions.values(), *self.early]
        return sum(session.permissions.count for session in known)

    def _release(self, session_id: str) -> None:
        offers = self._offers.pop(session_id, None)
        if offers is not None:
            self._client.in_background(offers.close())

    # ---- updates

    def updated(self, update: Any, size: int) -> None:
        """A `session/update`, already read."""
        session = self.sessions.get(update.session_id)
        if session is None:
            session = self._early(update.session_id, size)
        if session is not None:
            session.inbox.put(session.take, update.update, size)

    def _early(self, session_id: str, size: int) -> ClientSession | None:
        if self._version is None:
            text = "The agent speaks of a session before it answered initialize"
            self._client.report(Problem("update", text, session_id))
            return None
        return self.early.find(session_id, size)

    def notified(self, notification: Notification) -> None:
        """Any other notification."""
        method = notification.method
        if method == "session/update":
            self._slow_update(notification.params or b"{}")
        elif method not in self._methods and not method.startswith(("_", "$/")):
            text = f"The agent sent a notification that is unknown: {method}"
            self._client.report(Problem("noise", text))

    @property
    def _methods(self) -> Any:
        return (v1 if self._version == 1 else v2).METHODS

    def _slow_update(self, params: bytes) -> None:
        """An update that could not be read in one go: unknown, odd, or not as specified."""
        faults: list[Any] = []
        try:
            update = codec.decode(params, self._methods["session/update"].params, faults)
        except Malformed as error:
            if not self._update_v1(params):
                text = f"The agent sent an update that is none: {error}"
                self._client.report(Problem("update", text))
            return
        for fault in faults:
            text = f"The agent sent something malformed at {fault.path}: {fault.reason}"
            self._client.report(Problem("update", text, update.session_id))
        claims_more = isinstance(update.update, v2.UnknownUpdate) and update.update.tag in _OF_V1
        if not (claims_more and self._update_v1(params)):
            self.updated(update, len(params))

    def _update_v1(self, params: bytes) -> bool:
        """Read an update in the words of version 1, which the agent says it does not speak."""
        if self._version != 2:
            return False
        try:
            update: v1.SessionNotification = codec.decode(params, v1.SessionNotification)
        except Malformed:
            return False
        said = update.update
        tells = isinstance(said, v1.ToolCall | v1.Plan | v1.CurrentModeUpdate) or (
            isinstance(said, v1.ContentChunk) and not said.message_id
        )
        session = self.sessions.get(update.session_id)
        if session is None and tells:
            session = self._early(update.session_id, len(params))
        if session is not None and tells:
            session.update_v1(said, len(params))
        return tells

    # ---- requests

    def requested(self, request: Request) -> None:
        """The agent wants something."""
        if self._version is None and request.method == "initialize":
            self._client.peer.ended(NotAnAgent())
            return
        method = self._methods.get(request.method)
        if (
            self._version is None
            or method is None
            or method.side == "agent"
            or method.result is None
        ):
            self._client.peer.refuse(request, RequestError.method_not_found(request.method))
            return
        try:
            params = codec.decode(request.params or b"{}", method.params)
        except Malformed as error:
            self._client.peer.refuse(request, error)
            return
        if request.method == "elicitation/create":
            self._elicitation(request, params)
        elif request.method == "session/request_permission":
            self._permission(request, params)
        else:
            self._use_offer(request, params)

    def _permission(self, request: Request, params: Any) -> None:
        size = len(request.params)
        session = self.sessions.get(params.session_id) or self._early(params.session_id, size)
        if session is None:
            self._client.peer.refuse(request, RequestError.invalid_params("unknown session"))
        else:
            session.inbox.put(session.permission, (request, params), size)

    def _elicitation(self, request: Request, params: Any) -> None:
        """A question to the user; if it belongs to a session, in its place among the updates."""
        elicit, peer = self._elicit, self._client.peer
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

    def _use_offer(self, request: Request, params: Any) -> None:
        """Files and terminals, for agents of version 1."""
        peer = self._client.peer
        session = self.sessions.get(params.session_id)
        able = self._offer.files if request.method.startswith("fs/") else self._offer.terminals
        if not able:
            peer.refuse(request, RequestError.method_not_found(request.method))
        elif session is None:
            peer.refuse(request, RequestError.invalid_params("unknown session"))
        else:
            session.inbox.put(self._serve, (session, request, params), len(request.params))

    def _serve(self, asked: tuple[ClientSession, Request, Any]) -> None:
        session, request, params = asked
        offers = self._offers.get(session.session_id)
        if offers is None:
            offers = self._offers[session.session_id] = Offers(session)
        self._client.peer.serve(request, lambda _: offers.answer(request.method, params))

    # ---- the end

    def ended(self, error: Exception | None) -> None:
        """The agent is gone, or we are."""
        why = error or ConnectionClosed("The connection was closed.")
        for session in [*self.sessions.values(), *self.early]:
            session.inbox.put(session.ended, why)

    async def close(self) -> None:
        """No handler is waited for for long; whatever still runs for the agent is ended."""
        sessions = [*self.sessions.values(), *self.early]
        for session in sessions:
            session.inbox.close()
            session.ended(ConnectionClosed("The connection was closed."))
        await asyncio.gather(*(session.inbox.stopped(PATIENCE) for session in sessions))
