"""One session of a client: what is said in it, and what it looks like now.

The state is the core's `Session`, whichever version the agent speaks: what a version 1 agent says
is lifted on its way in. Everything that belongs to the session (updates, permission requests, the
answers to what was asked) passes through one inbox, in the order of the wire.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from twofold.convert.drafts import lift, lift_permission
from twofold.convert.upgrader import Upgrader
from twofold.errors import LocalError
from twofold.policy import Decided, Subject
from twofold.rpc.messages import Request
from twofold.runtime.client.feed import RATE, ChangeCallback, ChangeFeed, OnChange
from twofold.runtime.client.permissions import Permissions, response
from twofold.runtime.client.prompting import Part, blocks_of
from twofold.runtime.client.turns import GIVE_UP, Reply, Turns
from twofold.runtime.errors import ConnectionClosed, NotSupported, Problem
from twofold.runtime.inbox import Inbox
from twofold.session import Session
from twofold.session.changes import Changes
from twofold.wire import v1, v2

if TYPE_CHECKING:
    from twofold.runtime.client.client import Client

OnUpdate: TypeAlias = Callable[[v2.SessionUpdate], Awaitable[None] | None]
F = TypeVar("F", bound=OnUpdate)

# what only version 1 says: an agent that claims version 2 and says it speaks version 1
_OF_V1 = frozenset({"tool_call", "plan", "current_mode_update"})


class ClientSession:
    """A session with an agent. `Client.new_session` and its siblings make it."""

    def __init__(self, client: "Client", session_id: str) -> None:
        self.client = client
        self.session_id = session_id
        self.state = Session(session_id)
        """What the session looks like now. Read it; only updates change it."""
        self.roots: list[str] = []
        """The directories that the session may touch; the first is where it works."""
        self.closed = False
        self.inbox: Inbox = client.inbox_of(session_id)
        self._upgrader = Upgrader() if client.version == 1 else None
        self.permissions = Permissions(
            lambda: self.state, self._told, client.policy, client.ask, client.report
        )
        self._turns = Turns(self)
        self._handlers: list[OnUpdate] = []
        self._feeds: list[ChangeFeed | ChangeCallback] = []

    @property
    def upgrader(self) -> Upgrader | None:
        """What lifts the words of an agent of version 1; None for version 2."""
        return self._upgrader

    @property
    def decisions(self) -> list[Decided]:
        """Every permission that was decided, by whom and by which rule."""
        return self.permissions.decisions

    # ---- watching

    def on_update(self, handler: F) -> F:
        """Have `handler(update)` called for every update, in order; it may be a coroutine.

        The next update and the answer to a prompt wait until it is done, so a slow one slows the
        agent down; one that never comes back is given up after a while.
        """
        self._handlers.append(handler)
        return handler

    def on_change(self, callback: OnChange, rate: float = RATE) -> Callable[[], None]:
        """Have `callback(changes)` called at most `rate` times a second; returns what stops it."""
        return self._watch(ChangeCallback(callback, rate))

    def changes(self, rate: float = RATE) -> ChangeFeed:
        """`async for changes in session.changes()`: facts, gathered `rate` times a second."""
        feed = ChangeFeed(rate)
        self._watch(feed)
        return feed

    def _watch(self, feed: ChangeFeed | ChangeCallback) -> Callable[[], None]:
        self._feeds.append(feed)
        if self.closed:
            feed.end()

        def stop() -> None:
            if feed in self._feeds:
                self._feeds.remove(feed)
                feed.end()

        return stop

    # ---- what the agent says

    def update(self, update: Any, size: int) -> None:
        self.inbox.put(self._take, update, size)

    def _take(self, update: Any) -> Awaitable[None] | None:
        """One update of the agent, in its own version."""
        if self._upgrader is not None:
            return self.apply_all(self._upgrader.update(update))
        special = _SPECIAL.get(type(update))
        if special is not None:
            return special(self, update)
        return self._apply(update)

    def _lifted(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        return self._apply(lift(update))

    def _unknown(self, update: v2.UnknownUpdate) -> Awaitable[None] | None:
        if update.tag in _OF_V1:
            text = f"The agent claims version 2 and sent {update.tag!r}, which is version 1"
            self.client.report(Problem("version", text, self.session_id))
        return self._apply(update)

    def _user_message(self, update: v2.UserMessage | v2.UserMessageChunk) -> Awaitable[None] | None:
        self._turns.heard(update)
        return self._apply(update)

    def _state_reported(self, update: v2.StateUpdate) -> Awaitable[None] | None:
        return self.apply_all(self._turns.reported(update))

    def _apply(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        changes = self.state.apply(update)
        if self._feeds:
            self._told(changes)
        return self._handled(update) if self._handlers else None

    def apply_all(self, updates: Sequence[v2.SessionUpdate]) -> Awaitable[None] | None:
        if len(updates) == 1:
            return self._apply(updates[0])
        waiting = [each for update in updates if (each := self._apply(update)) is not None]
        return _one_by_one(waiting) if waiting else None

    def _told(self, changes: Changes) -> None:
        for feed in self._feeds:
            feed.add(changes)

    def _handled(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        waiting = []
        for handler in self._handlers:
            result = handler(update)
            if inspect.isawaitable(result):
                waiting.append(result)
        if not waiting:
            return None
        return waiting[0] if len(waiting) == 1 else _one_by_one(waiting)

    # ---- turns

    async def prompt(self, *parts: Part) -> Reply:
        """Say something, and wait until the agent has ended its turn.

        Text, paths of files, content blocks; what the agent cannot take is refused. Cancelling the
        task cancels the turn.
        """
        self.check_open()
        blocks = blocks_of(parts, self.client.prompt_capabilities, self.client.agent_name)
        return await self._turns.prompt(blocks)

    async def cancel(self, give_up: float = GIVE_UP) -> None:
        """Stop the turn and wait until it has ended; after `give_up` seconds it is given up.

        Permissions that wait are answered `cancelled`, running tool calls are shown as cancelled,
        and what still comes is accepted.
        """
        await self._turns.cancel(give_up)

    # ---- settings

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Choose a value for one of `state.config_options`."""
        self.check_open()
        if self._upgrader is not None and self._sets_mode(config_id):
            await self._set_mode_v1(str(value))
            return
        kind = "boolean" if isinstance(value, bool) else "id"
        request = v2.SetSessionConfigOptionRequest(self.session_id, config_id, kind, value)
        await self.client.call(
            "session/set_config_option", request, arrived=self.then(self._options_set)
        )

    async def set_mode(self, mode: str) -> None:
        """Choose a mode: the config option of category `mode`, whatever it is called."""
        for option in self.state.config_options:
            if isinstance(option, v2.SessionConfigSelect) and option.category == "mode":
                await self.set_config_option(option.config_id, mode)
                return
        raise NotSupported(f"{self.client.agent_name} has no modes.")

    def _sets_mode(self, config_id: str) -> bool:
        # the option was made of modes: only then is there no option of the agent's own
        upgrader = self._upgrader
        return upgrader is not None and upgrader.is_made_mode(config_id)

    async def _set_mode_v1(self, mode: str) -> None:
        def chosen(outcome: Any) -> Awaitable[None] | None:
            if isinstance(outcome, Exception) or self._upgrader is None:
                return None
            return self.apply_all(self._upgrader.mode_set(mode))

        await self.client.request_v1(
            "session/set_mode",
            v1.SetSessionModeRequest(self.session_id, mode),
            self.then(chosen),
        )

    def _options_set(self, outcome: Any) -> Awaitable[None] | None:
        if isinstance(outcome, v1.SetSessionConfigOptionResponse) and self._upgrader is not None:
            return self._take(v1.ConfigOptionUpdate(outcome.config_options))
        if isinstance(outcome, v2.SetSessionConfigOptionResponse):
            return self._apply(v2.ConfigOptionUpdate(outcome.config_options))
        return None

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Stop one tool call (version 2, where the call says that it can be)."""
        request = v2.CancelToolCallRequest(self.session_id, tool_call_id)
        await self.client.call("tool_call/cancel", request)

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Stop what runs in a terminal (version 2, where the terminal says that it can be)."""
        request = v2.CancelTerminalRequest(self.session_id, terminal_id)
        await self.client.call("terminal/cancel", request)

    # ---- beginning and end

    def then(self, handle: Callable[[Any], Awaitable[None] | None]) -> Callable[[Any], Inbox]:
        """Have an answer handled in its place among the updates."""

        def arrived(outcome: Any) -> Inbox:
            self.inbox.put(handle, outcome)
            return self.inbox

        return arrived

    def setup(self, outcome: Any) -> Awaitable[None] | None:
        """The answer to new, load or resume."""
        updates: list[v2.SessionUpdate] = []
        if isinstance(outcome, v1.NewSessionResponse | v1.SessionSetup) and self._upgrader:
            self._upgrader.setup(outcome)
            if self._upgrader.config_options:
                updates.append(v2.ConfigOptionUpdate(self._upgrader.config_options))
        elif isinstance(outcome, v2.NewSessionResponse | v2.ResumeSessionResponse):
            if outcome.config_options:
                updates.append(v2.ConfigOptionUpdate(outcome.config_options))
            if outcome.available_commands:
                updates.append(lift(v2.AvailableCommandsUpdate(outcome.available_commands)))
        return self.apply_all(updates) if updates else None

    def start_over(self) -> Session:
        """A replay tells everything again: what it will tell is forgotten first."""
        before, after = self.state, Session(self.session_id, self.state.draft)
        after.commands_update, after.config_update = before.commands_update, before.config_update
        after.info, after.usage = before.info, before.usage
        self.state = after
        if self._upgrader is not None:
            self._upgrader = self._upgrader.replayed()
        return before

    async def close(self) -> None:
        """End the session; the agent frees what it holds for it, and can load it again later."""
        if self.closed:
            return
        self._turns.stop()
        try:
            if self.client.can("close"):
                request = v2.SessionParams(self.session_id)
                await self.client.call("session/close", request, arrived=self.then(lambda _: None))
        finally:
            self.ended(None)

    def ended(self, error: Exception | None) -> None:
        """The session is gone: nothing stays pending."""
        if self.closed:
            return
        self.closed = True
        self.permissions.cancel()
        self._turns.fail(error or ConnectionClosed("The session was closed."))
        for feed in self._feeds:
            feed.end()
        self.client.forget(self)

    def check_open(self) -> None:
        if self.closed:
            raise LocalError(f"The session {self.session_id} is closed.")

    # ---- permissions

    def permission(self, asked: tuple[Request, Any]) -> Awaitable[None] | None:
        """A permission request, in its place among the updates."""
        request, params = asked
        if self._upgrader is not None:
            lifted = self._upgrader.permission(params)
        else:
            lifted = lift_permission(params)
        key = request.id
        while key in self.state.permissions:  # an id that is used twice at once
            key = f"{key}:again"
        self._told(self.state.ask(key, lifted))

        async def answer(request: Request) -> v2.RequestPermissionResponse:
            return response(await self.permissions.decide(key, lifted))

        self.client.peer.serve(request, answer)
        return None

    async def ask_locally(
        self, key: str, request: v2.RequestPermissionRequest, subject: Subject
    ) -> Decided:
        """Ask for something that the agent wants this client to do."""
        self._told(self.state.ask(key, request))
        return await self.permissions.decide(key, request, subject)

    def happened(self, update: v2.SessionUpdate) -> None:
        """Something that happens on this side and belongs to the session."""
        self.inbox.put(self._apply, update)


_SPECIAL: dict[type, Callable[[ClientSession, Any], Awaitable[None] | None]] = {
    v2.ToolCallUpdate: ClientSession._lifted,
    v2.ToolCallContentChunk: ClientSession._lifted,
    v2.PlanUpdate: ClientSession._lifted,
    v2.AvailableCommandsUpdate: ClientSession._lifted,
    v2.StateUpdate: ClientSession._state_reported,
    v2.UserMessage: ClientSession._user_message,
    v2.UserMessageChunk: ClientSession._user_message,
    v2.UnknownUpdate: ClientSession._unknown,
}


async def _one_by_one(waiting: Sequence[Awaitable[None]]) -> None:
    for each in waiting:
        await each
