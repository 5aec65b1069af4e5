"""One session of a client: what is said in it, and what it looks like now.

The state is the core's `Session`, whichever version the agent speaks: what a version 1 agent says
is lifted on its way in. Everything that belongs to the session (updates, permission requests, the
answers to what was asked) passes through one inbox, in the order of the wire.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from twofold.client.feed import (
    RATE,
    SILENCE_LOADED,
    SILENCE_NEW,
    ChangeFeed,
    OnChange,
    OnUpdate,
    Watchers,
)
from twofold.client.permissions import Permissions, Waiting, response
from twofold.client.turns import GIVE_UP, Part, Reply, Turns, blocks_of
from twofold.convert.drafts import lift, lift_permission
from twofold.convert.losses import Loss, Losses
from twofold.convert.upgrader import Upgrader
from twofold.errors import BadAnswer, ConnectionClosed, LocalError, NotSupported, PeerError
from twofold.peer.inbox import Inbox
from twofold.peer.problems import Problem
from twofold.policy import Decided, Subject
from twofold.rpc.errors import RESOURCE_NOT_FOUND, RequestFailed
from twofold.rpc.messages import Request
from twofold.session import Session
from twofold.wire import v1, v2
from twofold.wire.shared import CancelledPermissionOutcome

# What can be set in a session: config options, and the modes of version 1 that stand for one.


async def set_mode(session: "ClientSession", mode: str) -> None:
    """Choose a mode: the config option of category `mode`, whatever it is called."""
    for option in session.state.config_options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == "mode":
            await set_config_option(session, option.config_id, mode)
            return
    raise NotSupported(f"{session.client.agent_name} has no modes in this session.")


async def set_config_option(session: "ClientSession", config_id: str, value: str | bool) -> None:
    """Choose a value for a config option; the state shows it when the agent has agreed."""
    upgrader = session.upgrader
    # the option was made of modes: only then is there no option of the agent's own
    if upgrader is not None and upgrader.is_made_mode(config_id):
        await _set_mode_v1(session, str(value))
        return

    def arrived(outcome: Any) -> Awaitable[None] | None:
        return _options_set(session, config_id, value, outcome)

    kind = "boolean" if isinstance(value, bool) else "id"
    request = v2.SetSessionConfigOptionRequest(session.session_id, config_id, kind, value)
    try:
        await session.client.call(
            "session/set_config_option", request, arrived=session.then(arrived)
        )
    except BadAnswer as error:  # it agreed, though not in the words of the protocol
        session.client.report(Problem("answer", str(error), session.session_id))


async def _set_mode_v1(session: "ClientSession", mode: str) -> None:
    def chosen(outcome: Any) -> Awaitable[None] | None:
        if isinstance(outcome, Exception) or session.upgrader is None:
            return None
        return session.apply_all(session.upgrader.mode_set(mode))

    request = v1.SetSessionModeRequest(session.session_id, mode)
    await session.client.request_v1("session/set_mode", request, session.then(chosen))


def _options_set(
    session: "ClientSession", config_id: str, value: str | bool, outcome: Any
) -> Awaitable[None] | None:
    """The answer, in its place among the updates."""
    upgrader = session.upgrader
    if isinstance(outcome, v1.SetSessionConfigOptionResponse) and upgrader is not None:
        return session.apply_all(upgrader.update(v1.ConfigOptionUpdate(outcome.config_options)))
    if isinstance(outcome, v2.SetSessionConfigOptionResponse):
        return session.apply_all([v2.ConfigOptionUpdate(outcome.config_options)])
    if not isinstance(outcome, BadAnswer):
        return None
    options = [_chosen(option, config_id, value) for option in session.state.config_options]
    if upgrader is not None:
        own = [option for option in options if not upgrader.is_made_mode(_id_of(option))]
        options = upgrader.options_set(v2.SetSessionConfigOptionResponse(own))
    return session.apply_all([v2.ConfigOptionUpdate(options)])


def _chosen(
    option: v2.SessionConfigOption, config_id: str, value: str | bool
) -> v2.SessionConfigOption:
    return replace(option, current_value=value) if _id_of(option) == config_id else option


def _id_of(option: v2.SessionConfigOption) -> str:
    return option.config_id if isinstance(option, v2.SessionConfigCommon) else ""


if TYPE_CHECKING:
    from twofold.client.client import Client

F = TypeVar("F", bound=OnUpdate)

LOSSES = 100
"""How many different losses of a session are told of."""


class ClientSession:
    """A session with an agent. `Client.new_session` and its siblings make it."""

    def __init__(self, client: "Client", session_id: str) -> None:
        self.client = client
        self.session_id = session_id
        self.state = Session(session_id)
        """What the session looks like now. Read it; only updates change it.

        When the session is loaded again it is told from its beginning, into another object.
        """
        self.roots: list[str] = []
        """The directories that the session may touch; the first is where it works."""
        self.closed = False
        self.inbox: Inbox = client.inbox_of(session_id)
        self._upgrader = self._new_upgrader() if client.version == 1 else None
        self._lifting: Upgrader | None = None
        self._watchers = Watchers(session_id, client.report)
        self._handlers, self._feeds = self._watchers.handlers, self._watchers.feeds
        self.permissions = Permissions(
            lambda: self.state,
            self._watchers.told,
            client.policy,
            client.ask,
            client.report,
            lambda: self.roots,
            client.count_questions,
        )
        self._turns = Turns(self, self._watchers)
        self._why: Exception | None = None

    @property
    def upgrader(self) -> Upgrader | None:
        """What lifts the words of an agent of version 1; None for version 2."""
        return self._upgrader

    @property
    def decisions(self) -> list[Decided]:
        """Every permission that was decided, by whom and by which rule."""
        return self.permissions.decisions

    def _new_upgrader(self) -> Upgrader:
        losses = _Told(self.session_id, self.client.report)
        return Upgrader(losses, own_terminals=self.client.offers_terminals)

    # ---- watching

    def on_update(self, handler: F) -> F:
        """Have `handler(update)` called for every update, in order; it may be a coroutine.

        The next update and the answer to a prompt wait until it is done, so a slow one slows the
        agent down; one that does not come back is given up after a while.
        """
        self._handlers.append(handler)
        return handler

    def on_change(self, callback: OnChange, rate: float = RATE) -> Callable[[], None]:
        """Have `callback(changes)` called at most `rate` times a second; returns what stops it."""
        return self._watchers.call_back(callback, rate)

    def flush_changes(self) -> None:
        """Have every callback of `on_change` called now with what has changed by now."""
        self._watchers.flush()

    def changes(self, rate: float = RATE) -> ChangeFeed:
        """`async for changes in session.changes()`: facts, gathered `rate` times a second.

        Whoever stops looking before the session is gone calls `close` on what this returns.
        """
        return self._watchers.feed(rate)

    # ---- what the agent says

    def take(self, update: Any) -> Awaitable[None] | None:
        """One update of the agent, in its own version."""
        upgrader = self._upgrader
        if upgrader is not None:
            lifted = upgrader.plain(update)
            if lifted is None:
                return self.apply_all(upgrader.update(update))
            update = lifted
        else:
            special = _SPECIAL.get(type(update))
            if special is not None:
                return special(self, update)
        # as `_apply` does, without the call: this is where most updates are applied
        changes = self.state.apply(update)
        if self._feeds:
            self._watchers.told(changes)
        return self._watchers.handled(update) if self._handlers else None

    def _lifted(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        return self._apply(lift(update))

    def _user_message(self, update: v2.UserMessage | v2.UserMessageChunk) -> Awaitable[None] | None:
        self._turns.heard(update)
        return self._apply(update)

    def _state_reported(self, update: v2.StateUpdate) -> Awaitable[None] | None:
        return self.apply_all(self._turns.reported(update))

    def _apply(self, update: v2.SessionUpdate) -> Awaitable[None] | None:
        changes = self.state.apply(update)
        if self._feeds:
            self._watchers.told(changes)
        return self._watchers.handled(update) if self._handlers else None

    def apply_all(self, updates: Sequence[v2.SessionUpdate]) -> Awaitable[None] | None:
        """Several updates that are one to the agent: none of them fails because another does."""
        if len(updates) == 1:
            return self._apply(updates[0])
        applied = []
        for update in updates:
            try:
                self._watchers.told(self.state.apply(update))
            except PeerError as error:
                self.client.report(Problem("update", str(error), self.session_id, error))
            else:
                applied.append(update)
        return self._watchers.all_handled(applied) if self._handlers else None

    def update_v1(self, update: v1.SessionUpdate, size: int) -> None:
        """An update in the words of version 1, of an agent that claims version 2."""
        self.inbox.put(self._take_v1, update, size)

    def _take_v1(self, update: v1.SessionUpdate) -> Awaitable[None] | None:
        if self._lifting is None:
            self._lifting = self._new_upgrader()
            text = "The agent claims version 2 of the protocol, and sends updates of version 1"
            self.client.report(Problem("version", text, self.session_id))
        return self.apply_all(self._lifting.update(update))

    # ---- turns

    async def prompt(self, *parts: Part) -> Reply:
        """Say something, and wait until the agent has ended its turn.

        Text, paths of files, content blocks; what the agent cannot take is refused. Cancelling the
        task cancels the turn. An agent of version 1 has one turn at a time: further prompts wait.
        """
        self.check_open()
        if self._watchers.waiting_here:
            raise LocalError(
                "A handler of updates cannot wait for a turn, for the turn waits for the handler:"
                " prompt in a task of its own."
            )
        blocks = blocks_of(parts, self.client.prompt_capabilities, self.client.agent_name)
        return await self._turns.prompt(blocks)

    async def settled(self) -> None:
        """Wait until a late replay or greeting of a version 1 agent has come.

        `prompt` does so by itself; a view does that shows first what was before.
        """
        await self._watchers.silence(asyncio.get_running_loop().create_future())

    @property
    def in_turn(self) -> bool:
        """Whether what the agent sends now belongs to the turn of a prompt of this client."""
        return self._turns.begun

    async def cancel(self, give_up: float = GIVE_UP) -> None:
        """Stop the turn and wait until it has ended; after `give_up` seconds it is given up.

        Permissions that wait are answered `cancelled`, running tool calls are shown as cancelled,
        and what still comes is accepted. Prompts that wait for their turn are dropped. A handler
        of updates that cancels does not wait.
        """
        if self._watchers.waiting_here:
            self._turns.stop(give_up)
        else:
            await self._turns.cancel(give_up)

    # ---- settings

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Choose a value for one of `state.config_options`."""
        self.check_open()
        await set_config_option(self, config_id, value)

    async def set_mode(self, mode: str) -> None:
        """Choose a mode: the config option of category `mode`, whatever it is called."""
        self.check_open()
        await set_mode(self, mode)

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Stop one tool call (version 2, where the call says that it can be)."""
        self.check_open()
        request = v2.CancelToolCallRequest(self.session_id, tool_call_id)
        await self.client.call("tool_call/cancel", request, arrived=self.then())

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Stop what runs in a terminal (version 2, where the terminal says that it can be)."""
        self.check_open()
        request = v2.CancelTerminalRequest(self.session_id, terminal_id)
        await self.client.call("terminal/cancel", request, arrived=self.then())

    # ---- beginning and end

    def then(
        self, handle: Callable[[Any], Awaitable[None] | None] = lambda outcome: None
    ) -> Callable[[Any], Inbox]:
        """Have an answer handled in its place among the updates."""

        def arrived(outcome: Any) -> Inbox:
            self.inbox.put(handle, outcome)
            return self.inbox

        return arrived

    def setup(self, outcome: Any) -> Awaitable[None] | None:
        """The answer to new, load or resume."""
        updates: list[v2.SessionUpdate] = []
        if isinstance(outcome, v1.NewSessionResponse | v1.SessionSetup) and self._upgrader:
            made = isinstance(outcome, v1.NewSessionResponse)
            self._watchers.expect_silence(SILENCE_NEW if made else SILENCE_LOADED)
            if outcome.modes or outcome.config_options:  # one that says nothing changes nothing
                self._upgrader.setup(outcome)
                updates.append(v2.ConfigOptionUpdate(self._upgrader.config_options))
        elif isinstance(outcome, v2.NewSessionResponse | v2.ResumeSessionResponse):
            if outcome.config_options:
                updates.append(v2.ConfigOptionUpdate(outcome.config_options))
            if outcome.available_commands:
                updates.append(lift(v2.AvailableCommandsUpdate(outcome.available_commands)))
        return self.apply_all(updates) if updates else None

    def prompted(self) -> None:
        """A prompt was sent: its turn begins before the agent says so."""
        self._watchers.told(self.state.prompted())

    def replayed(self, outcome: Any) -> Awaitable[None] | None:
        """The answer to a request for a replay, all of which came before it."""
        self._watchers.told(self.state.replayed())
        return self.setup(outcome)

    def start_over(self) -> Callable[[], None]:
        """A replay tells everything again: what it will tell is forgotten; returns what undoes it.

        It happens in its place among the updates.
        """
        if self._turns.going_on:
            raise LocalError(
                f"The session {self.session_id} is in the middle of a turn: wait for its end, or"
                " cancel it, before you load it again."
            )
        before = self.state, self._upgrader, self._lifting
        begun = False

        def forget(_: None) -> None:
            nonlocal begun
            begun = True
            self.state = _forgotten(self.state)
            if self._upgrader is not None:
                self._upgrader = self._upgrader.replayed()
            self._lifting = None

        def undo() -> None:
            if begun:
                self.state, self._upgrader, self._lifting = before

        self.inbox.put(forget, None)
        return undo

    async def close(self) -> None:
        """End the session; the agent frees what it holds for it, and can load it again later."""
        if self.closed:
            return
        self._turns.stop()
        try:
            if self.client.can("close"):
                request = v2.SessionParams(self.session_id)
                await self.client.call(
                    "session/close", request, arrived=self.then(), within=GIVE_UP
                )
        except RequestFailed as error:
            if error.code != RESOURCE_NOT_FOUND:  # v2: then it was closed already
                raise
        finally:
            self.ended(None)

    def ended(self, error: Exception | None) -> None:
        """The session is gone: nothing stays pending."""
        if self.closed:
            return
        self.closed = True
        self._why = error
        self.permissions.cancel()
        self._turns.fail(error or ConnectionClosed("The session was closed."))
        self.inbox.put(lambda _: self._watchers.end(), None)
        self.client.forget(self)

    def check_open(self) -> None:
        if self._why is not None:
            raise self._why.with_traceback(None)  # raised again and again, it would only grow
        if self.closed:
            raise LocalError(
                f"The session {self.session_id} is closed: load it again, or make a new one."
            )

    # ---- permissions

    def permission(self, asked: tuple[Request, Any]) -> None:
        """A permission request, in its place among the updates."""
        request, params = asked
        try:
            waiting = self._ask(request, params)
        except Exception as error:
            self.client.peer.refuse(request, error)
            return

        async def answer(_: Request) -> v2.RequestPermissionResponse:
            if waiting is None:  # there was nothing to choose from
                return v2.RequestPermissionResponse(CancelledPermissionOutcome())
            return response(await self.permissions.answered(waiting))

        self.client.peer.serve(request, answer)
        if waiting is not None:
            # by then whoever waits for the answer has begun to, unless the agent took it back
            asyncio.get_running_loop().call_soon(self.permissions.unless_awaited, waiting)

    def _ask(self, request: Request, params: Any) -> Waiting | None:
        if not params.options:
            return None
        upgrader = self._upgrader
        lifted = lift_permission(params) if upgrader is None else upgrader.permission(params)
        return self.permissions.ask(request.id, lifted)

    async def ask_locally(
        self,
        key: str,
        request: v2.RequestPermissionRequest,
        subject: Subject,
        content: tuple[v2.ToolCallContent, ...] = (),
    ) -> Decided:
        """Ask for something that the agent wants this client to do; `content` shows it."""
        waiting = self.permissions.ask(key, request, subject, content)
        return await self.permissions.answered(waiting)

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
}


def _forgotten(before: Session) -> Session:
    """A session that will be told again; what a replay does not tell stays."""
    after = Session(before.session_id, before.draft)
    after.commands_update, after.config_update = before.commands_update, before.config_update
    after.info, after.usage = before.info, before.usage
    after.state_update, after.cancelling = before.state_update, before.cancelling
    after.permissions = before.permissions
    return after


class _Told(Losses):
    """Tells of every loss once, and keeps none."""

    def __init__(self, session_id: str, tell: Callable[[Problem], None]) -> None:
        super().__init__()
        self._session_id = session_id
        self._tell = tell
        self._known: set[Loss] = set()

    def report(self, path: str, reason: str) -> None:
        loss = Loss(path, reason)
        if loss not in self._known and len(self._known) < LOSSES:
            self._known.add(loss)
            text = f"Something that the agent said was lost: {path}: {reason}"
            self._tell(Problem("loss", text, self._session_id))
