"""One open session of a client: its updates, permission requests and turns.

`ClientSession` is what users hold; this is what the rest of the package works with. Updates,
permission requests and the answers to requests pass through one inbox, in wire order.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from twofold.client.agent_peer import AgentPeer
from twofold.client.permissions import Ask, Permissions, Waiting, response
from twofold.client.prompting import QUIET_LOADED, QUIET_NEW, Prompts
from twofold.client.updates import Handled, Setup, Updates
from twofold.convert.drafts import lift_permission
from twofold.errors import ConnectionClosed, LocalError
from twofold.peer.inbox import Inbox
from twofold.policy import Decided, Policy, Subject
from twofold.rpc.messages import Request
from twofold.wire import v1, v2
from twofold.wire.shared import CancelledPermissionOutcome


class OpenSession:
    """A session that the client or its agent has opened."""

    def __init__(
        self,
        agent: AgentPeer,
        session_id: str,
        *,
        policy: Policy,
        ask: Ask | None,
        count_questions: Callable[[], int],
        own_terminals: bool,
        speaks_guide: bool,
        on_end: Callable[["OpenSession"], None],
    ) -> None:
        self.agent = agent
        self.session_id = session_id
        self.roots: list[str] = []
        """The directories that the session may touch; the first is where it works."""
        self.updates = Updates(
            agent, session_id, own_terminals=own_terminals, speaks_guide=speaks_guide
        )
        self.inbox = self.updates.inbox
        self.permissions = Permissions(
            self.updates, policy, ask, agent.report, lambda: self.roots, count_questions
        )
        self.prompts = Prompts(agent, self.updates, self.permissions)
        self._on_end = on_end

    @property
    def closed(self) -> bool:
        """Whether the session was closed, or its agent is gone."""
        return self.updates.closed

    # ---- opening

    def answered(
        self, handle: Callable[[Any], Handled] = lambda outcome: None
    ) -> Callable[[Any], Inbox]:
        """An `arrived` callback for a request: its outcome is handled in wire order."""

        def arrived(outcome: Any) -> Inbox:
            self.inbox.put(handle, outcome)
            return self.inbox

        return arrived

    def set_up(self, outcome: Any) -> Handled:
        """Handle the answer to new, load or resume."""
        if isinstance(outcome, v1.NewSessionResponse):
            self.prompts.expect_quiet(QUIET_NEW)
        elif isinstance(outcome, v1.SessionSetup):
            self.prompts.expect_quiet(QUIET_LOADED)
        return self.updates.set_up(outcome) if isinstance(outcome, Setup) else None

    def replayed(self, outcome: Any) -> Handled:
        """Handle the answer to a request for a replay, all of which came before it."""
        self.updates.replayed()
        return self.set_up(outcome)

    def start_over(self) -> Callable[[], None]:
        """Prepare for a replay; returns a function that undoes it.

        Raises:
            LocalError: A turn goes on.
        """
        if self.prompts.waiting:
            raise LocalError(
                f"The session {self.session_id} is in the middle of a turn: wait for its end, or"
                " cancel it, before you load it again."
            )
        return self.updates.start_over()

    def end(self, error: Exception | None) -> None:
        """Close the session: nothing stays pending. `error` is why, if it was not the caller."""
        if self.closed:
            return
        self.updates.close(error)
        self.permissions.cancel()
        self.prompts.fail(error or ConnectionClosed("The session was closed."))
        self.inbox.put(lambda _: self.updates.watchers.end(), None)
        self._on_end(self)

    # ---- permissions

    def request_permission(self, asked: tuple[Request, Any]) -> None:
        """Handle a permission request of the agent, in wire order."""
        request, params = asked
        peer = self.agent.peer
        try:
            waiting = self._ask(request, params)
        except Exception as error:
            peer.refuse(request, error)
            return

        async def answer(_: Request) -> v2.RequestPermissionResponse:
            if waiting is None:  # there was no option to choose
                return v2.RequestPermissionResponse(CancelledPermissionOutcome())
            return response(await self.permissions.answered(waiting))

        peer.serve(request, answer)
        if waiting is not None:
            # by then `answer` has begun, unless the agent cancelled the request
            asyncio.get_running_loop().call_soon(self.permissions.unless_awaited, waiting)

    def _ask(self, request: Request, params: Any) -> Waiting | None:
        if not params.options:
            return None
        upgrader = self.updates.upgrader
        lifted = lift_permission(params) if upgrader is None else upgrader.permission(params)
        return self.permissions.ask(request.id, lifted)

    async def ask_locally(
        self,
        key: str,
        request: v2.RequestPermissionRequest,
        subject: Subject,
        content: tuple[v2.ToolCallContent, ...] = (),
    ) -> Decided:
        """Ask for something that this client would do for the agent; `content` shows it."""
        waiting = self.permissions.ask(key, request, subject, content)
        return await self.permissions.answered(waiting)

    def add_update(self, update: v2.SessionUpdate) -> None:
        """Apply an update that this client made, in wire order."""
        self.inbox.put(self.updates.apply, update)
