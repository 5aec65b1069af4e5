"""One session with an agent: `ClientSession` is what users hold, `OpenSession` does the work.

Updates, permission requests and the answers to requests pass through one inbox, in wire order.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from twofold.client.agent_peer import AgentPeer
from twofold.client.models import SET_MODEL
from twofold.client.permissions import Ask, OnQuestion, Permissions, Waiting, response
from twofold.client.prompt_blocks import Part, blocks_of
from twofold.client.prompting import (
    GIVE_UP,
    QUIET_LOADED,
    QUIET_NEW,
    OnAccepted,
    Prompts,
    Reply,
    ReplyStream,
)
from twofold.client.updates import Handled, Setup, Updates
from twofold.client.watching import (
    RATE,
    ChangeFeed,
    ChangeSubscription,
    OnChange,
    OnUpdate,
    Subscription,
)
from twofold.convert.drafts import lift_permission
from twofold.convert.options import MODE, find_option, mode_option, model_option, with_value
from twofold.errors import BadAnswer, ConnectionClosed, LocalError, NotSupported, PeerError
from twofold.peer.inbox import Inbox
from twofold.peer.problems import Problem
from twofold.policy import Decided, Policy, Subject
from twofold.rpc.connection import Request
from twofold.rpc.errors import RESOURCE_NOT_FOUND, RequestFailed
from twofold.session import Session
from twofold.wire import v1, v2
from twofold.wire.content import ContentBlock
from twofold.wire.shared import CancelledPermissionOutcome


class OpenSession:
    """A session that the client or its agent has opened."""

    def __init__(
        self,
        agent: AgentPeer,
        state: Session,
        *,
        policy: Policy,
        ask: Ask | None,
        count_questions: Callable[[], int],
        own_terminals: bool,
        speaks_guide: bool,
        on_end: Callable[["OpenSession"], None],
    ) -> None:
        self.agent = agent
        self.session_id = state.session_id
        self.roots: list[str] = []
        """The directories that the session may touch; the first is where it works."""
        self.mcp_servers: list[v2.McpServer] = []
        """The MCP servers that the agent was given for it."""
        self.updates = Updates(agent, state, own_terminals=own_terminals, speaks_guide=speaks_guide)
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

    def interrupt(self, error: Exception) -> None:
        """The connection was lost: end what went on with `error`, and keep the session open."""
        if self.closed:
            return
        if self.prompts.in_turn or self.updates.state.state != "idle":
            self.prompts.broke_off = True
        self.permissions.cancel()
        self.prompts.fail(error)

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


class ClientSession:
    """A session with an agent. `Client.new_session`, `load_session` and `resume_session` make it.

    As an asynchronous context manager it is closed when the block is left:
    `async with await client.new_session() as session: …`.
    """

    def __init__(self, opened: OpenSession) -> None:
        self._opened = opened
        self._agent = opened.agent
        self._updates = opened.updates
        self._prompts = opened.prompts

    @property
    def session_id(self) -> str:
        """The id that the agent gave the session."""
        return self._opened.session_id

    @property
    def state(self) -> Session:
        """What the session looks like now. Read it; only updates change it.

        Loading the session again replaces it by another object.
        """
        return self._updates.state

    @property
    def roots(self) -> list[str]:
        """The directories that the session may touch; the first is where it works."""
        return list(self._opened.roots)

    @property
    def closed(self) -> bool:
        """Whether the session was closed, or its agent is gone."""
        return self._updates.closed

    @property
    def decisions(self) -> list[Decided]:
        """Every permission that was decided, by whom and by which rule."""
        return self._opened.permissions.decisions

    # ---- watching

    def on_update(self, handler: OnUpdate) -> Subscription:
        """Call `handler` with every update, in wire order.

        The next update and the answer to a prompt wait until the handler has returned, so a slow
        handler slows the agent down. One that does not return within the `handler_timeout` of
        `connect` is given up.

        Args:
            handler: A function or a coroutine function that gets an update of version 2.

        Returns:
            The subscription; its `cancel` stops the calls.
        """
        _check_callable(handler)
        return self._updates.watchers.on_update(handler)

    def on_change(self, callback: OnChange, rate: float = RATE) -> ChangeSubscription:
        """Call `callback` with lists of change facts at a frame rate.

        Args:
            callback: Gets a list of facts, each once: read again what they name.
            rate: How many calls a second are made at most; 0 for no limit.

        Returns:
            The subscription; its `cancel` stops the calls.
        """
        _check_callable(callback)
        return self._updates.watchers.on_change(callback, rate)

    def on_question(self, callback: OnQuestion) -> Subscription:
        """Call `callback` with every permission request, before anyone decides.

        Args:
            callback: Gets the id of the request, as in `state.permissions`, and its `Question`.

        Returns:
            The subscription; its `cancel` stops the calls.
        """
        _check_callable(callback)
        return self._opened.permissions.on_question(callback)

    def changes(self, rate: float = RATE) -> ChangeFeed:
        """Lists of change facts at a frame rate: `async for changes in session.changes()`.

        Args:
            rate: How many lists a second there are at most; 0 for no limit.

        Returns:
            The feed. It ends with the session; a reader that stops before calls its `close`.
        """
        return self._updates.watchers.feed(rate)

    def flush_changes(self) -> None:
        """Call every callback of `on_change` now that has not got all changes yet."""
        self._updates.watchers.flush()

    # ---- turns

    async def prompt(self, *parts: Part, on_accepted: OnAccepted | None = None) -> Reply:
        """Send a prompt, and wait until the agent has ended its turn.

        Cancelling the task cancels the turn. An agent of version 1 has one turn at a time: further
        prompts wait.

        Args:
            parts: Text, paths of files, content blocks.
            on_accepted: Called with the id of the user message that the prompt became, when an
                agent of version 2 has answered that it has it.

        Returns:
            The reply, with its text, the entries of the turn, and why it ended.

        Raises:
            LocalError: The session is closed, there is no content, or a handler of updates prompts
                in its own task.
            NotSupported: The agent does not accept a part.
            TurnFailed: The agent ended the turn with an error.
            ConnectionEnded: The agent is gone.
        """
        return await self._prompts.prompt(self.prompt_blocks(*parts), on_accepted)

    def stream(self, *parts: Part) -> ReplyStream:
        """Send a prompt, and read the agent's text while it is received.

        `async for piece in session.stream("…"): print(piece, end="")`. Leaving the loop before its
        end cancels the turn.

        Args:
            parts: Text, paths of files, content blocks.

        Returns:
            The stream of pieces of text. Its `reply` is the whole reply, after the last piece.

        Raises:
            LocalError: As in `prompt`. Iterating raises what else `prompt` does.
            NotSupported: The agent does not accept a part.
        """
        return ReplyStream(self._prompts, self._updates, self.prompt_blocks(*parts))

    @property
    def prompt_capabilities(self) -> v2.PromptCapabilities:
        """What the agent accepts in prompts beside text and links."""
        return self._agent.description.prompt_capabilities

    def prompt_blocks(self, *parts: Part) -> list[ContentBlock]:
        """The blocks that `prompt` sends for these parts; files are read.

        Args:
            parts: Text, paths of files, content blocks.

        Raises:
            LocalError: As in `prompt`.
            NotSupported: The agent does not accept a part.
        """
        self._updates.check_open()
        agent = self._agent.description
        return blocks_of(parts, agent.prompt_capabilities, agent.name)

    async def settled(self) -> None:
        """Wait until an agent of version 1 has sent a late replay or greeting.

        `prompt` does so itself. A view does it to show first what was before.
        """
        await self._prompts.quiet(asyncio.get_running_loop().create_future())

    @property
    def in_turn(self) -> bool:
        """Whether what the agent sends now belongs to the turn of a prompt of this client."""
        return self._prompts.in_turn

    async def cancel(self, give_up: float = GIVE_UP) -> None:
        """Cancel the turn, and wait until it has ended.

        Pending permissions are answered `cancelled`, running tool calls are shown as cancelled,
        and later updates are accepted. Prompts that wait for their turn are dropped. Called by a
        handler of updates it does not wait.

        Args:
            give_up: After how many seconds a turn that does not end is given up.

        Raises:
            ValueError: `give_up` is negative.
        """
        if give_up < 0:
            raise ValueError("give_up is a number of seconds, not less than 0.")
        if self._updates.watchers.waiting_here:
            self._prompts.stop(give_up)
        else:
            await self._prompts.cancel(give_up)

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Cancel one tool call, in version 2 and where the call's capabilities allow it.

        Raises:
            NotSupported: The agent speaks version 1.
            RequestFailed: The agent refused.
        """
        self._updates.check_open()
        request = v2.CancelToolCallRequest(self.session_id, tool_call_id)
        await self._agent.call("tool_call/cancel", request, arrived=self._opened.answered())

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Cancel the command of a terminal, in version 2 and where the terminal allows it.

        Raises:
            NotSupported: The agent speaks version 1.
            RequestFailed: The agent refused.
        """
        self._updates.check_open()
        request = v2.CancelTerminalRequest(self.session_id, terminal_id)
        await self._agent.call("terminal/cancel", request, arrived=self._opened.answered())

    # ---- settings

    async def set_mode(self, mode: str) -> None:
        """Choose a mode: the config option of category `mode`, whatever its id is.

        Args:
            mode: The id of the mode.

        Raises:
            NotSupported: The session has no modes.
            RequestFailed: The agent refused.
        """
        self._updates.check_open()
        option = mode_option(self.state.config_options)
        if option is None:
            raise NotSupported(f"{self._agent.description.name} has no modes in this session.")
        await self.set_config_option(option.config_id, mode)

    @property
    def models(self) -> v2.SessionConfigSelect | None:
        """The models that the agent offers, with the current one; None if it offers no choice.

        It is the config option of category `model`, or made of the `models` that some agents of
        version 1 send although no schema has them.
        """
        return model_option(self.state.config_options) or self._updates.models

    async def set_model(self, model: str) -> None:
        """Choose one of `models`.

        Args:
            model: The value of the choice.

        Raises:
            NotSupported: The session has no choice of models.
            RequestFailed: The agent refused.
        """
        self._updates.check_open()
        option = model_option(self.state.config_options)
        if option is not None:
            await self.set_config_option(option.config_id, model)
            return
        models = self._updates.models
        if models is None:
            name = self._agent.description.name
            raise NotSupported(f"{name} offers no choice of models in this session.")
        params = {"sessionId": self.session_id, "modelId": model}
        await self._agent.request(SET_MODEL, params)
        self._updates.models = replace(models, current_value=model)

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Choose a value for one of `state.config_options`; the state shows what the agent set.

        Args:
            config_id: The id of the option.
            value: The id of a choice, or whether it is on.

        Raises:
            TypeError: The value is of another type.
            RequestFailed: The agent refused.
        """
        if not isinstance(value, str | bool):
            raise TypeError(f"The value of an option is text or a bool, not {value!r}.")
        self._updates.check_open()
        upgrader = self._updates.upgrader
        # made of modes: the agent has no option of its own
        if upgrader is not None and upgrader.is_made_mode(config_id):
            await self._set_mode_v1(str(value))
            return
        kind = "boolean" if isinstance(value, bool) else "id"
        request = v2.SetSessionConfigOptionRequest(self.session_id, config_id, kind, value)
        arrived = self._opened.answered(lambda outcome: self._option_set(config_id, value, outcome))
        try:
            await self._agent.call("session/set_config_option", request, arrived=arrived)
        except BadAnswer as error:  # it is no refusal: the option was set
            self._agent.report(Problem("answer", str(error), self.session_id))

    async def _set_mode_v1(self, mode: str) -> None:
        def mode_set(outcome: Any) -> Awaitable[None] | None:
            return None if isinstance(outcome, Exception) else self._updates.mode_was_set(mode)

        request = v1.SetSessionModeRequest(self.session_id, mode)
        await self._agent.call_v1("session/set_mode", request, self._opened.answered(mode_set))

    def _option_set(
        self, config_id: str, value: str | bool, outcome: Any
    ) -> Awaitable[None] | None:
        """Apply the answer to `session/set_config_option`, in wire order."""
        if isinstance(outcome, BadAnswer):  # the options are missing in it
            options = with_value(self.state.config_options, config_id, value)
            upgrader = self._updates.upgrader
            if upgrader is not None and upgrader.is_made_mode(MODE):
                made = find_option(options, MODE)
                options = [option for option in options if option is not made]
            outcome = v2.SetSessionConfigOptionResponse(options)
        return None if isinstance(outcome, Exception) else self._updates.options_were_set(outcome)

    # ---- the end

    async def close(self) -> None:
        """Close the session; the agent frees its resources, and may load it again later.

        A turn that goes on is cancelled. A second time it does nothing.

        Raises:
            RequestFailed: The agent refused; the session is closed on this side all the same.
        """
        if self.closed:
            return
        self._prompts.stop()
        try:
            if self._agent.description.can("close") and not self._agent.paused:
                request = v2.SessionParams(self.session_id)
                arrived = self._opened.answered()
                await self._agent.call("session/close", request, arrived=arrived, within=GIVE_UP)
        except RequestFailed as error:
            if error.code != RESOURCE_NOT_FOUND:  # v2: it was closed already
                raise
        finally:
            self._opened.end(None)

    async def wait_closed(self) -> None:
        """Wait until the session is closed.

        Raises:
            ConnectionEnded: It was not closed, its agent is gone.
        """
        await self._updates.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except PeerError as failed:
            if error is None:
                raise
            # the error of the block is the one to raise
            self._agent.report(Problem("answer", str(failed), self.session_id, failed))


def _check_callable(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"A callback is a function, not {callback!r}.")
