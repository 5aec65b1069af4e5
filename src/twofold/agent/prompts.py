"""Prompts of one client: one turn at a time in a session, each with one end.

A prompt that arrives while a turn is running waits. A cancel ends the running turn and those that
wait. A handler that does not stop is abandoned after `cancel_timeout`, and raises `TurnOver` if it
still sends something. However a turn ends, its prompt is answered, and its tool calls and terminals
are ended.
"""

import asyncio
from typing import Any

from msgspec import Struct

from twofold.agent.definition import Definition
from twofold.agent.session import ClientLink, OpenSession
from twofold.agent.tools import (
    NotCancellable,
    TurnScope,
    cancel_call,
    cancel_terminal,
    ended,
    exited,
)
from twofold.agent.turn import Turn
from twofold.peer.inbox import spawn
from twofold.peer.problems import Problem, described
from twofold.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RequestError
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, known_values
from twofold.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    UnknownContent,
)
from twofold.wire.shared import Error

WAITING = 64
"""How many prompts of one session may wait."""
SLACK = 1.0
"""How many seconds a turn has to end after its handler was abandoned."""

_CANCELLED = v2.StateUpdate("idle", "cancelled")
_INTERNAL = Error(INTERNAL_ERROR, "Internal error", UNSET)
_STOP_REASONS = known_values(v1.StopReason)
_LEFT_OPEN = {"cancelled": "cancelled", "error": "failed"}
"""The status of tool calls that a handler left open, by the turn's stop reason."""

_CAPABILITIES: tuple[tuple[type, str], ...] = (
    (ImageContent, "image"),
    (AudioContent, "audio"),
    (EmbeddedResource, "embedded_context"),
    (UnknownContent, "unknown"),
)


class _Running(Struct, eq=False):
    """A turn from the moment it may begin to its end."""

    session: OpenSession
    scope: TurnScope
    turn: Turn
    handler: asyncio.Task[str | None] | None = None
    """Set while the prompt handler runs."""
    given_up: asyncio.Future[None] | None = None
    """Done when the handler did not stop in time."""
    limit: asyncio.TimerHandle | None = None


class Prompts:
    """Runs the prompt handler of an agent for one client."""

    def __init__(self, definition: Definition, link: ClientLink) -> None:
        self._definition = definition
        self._link = link
        self._running: dict[OpenSession, _Running] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()

    # ---- prompts

    async def prompt_v1(
        self, session: OpenSession, blocks: list[ContentBlock]
    ) -> v1.PromptResponse:
        """Answer a prompt of version 1: when its turn is over."""
        self._check(blocks)
        if not await self._next(session):
            return v1.PromptResponse("cancelled")
        try:
            idle = await self._finished(self._begin(session, blocks))
        finally:
            # not earlier: the next turn sends nothing before this one has its result
            session.busy.release()
        return _result_v1(idle)

    async def _finished(self, running: _Running) -> v2.StateUpdate:
        task = spawn(self._run(running), self._tasks)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:  # the request was withdrawn, or the client disconnected
            self.cancel(running.session)
            await asyncio.wait({task})
            raise

    async def prompt_v2(
        self, session: OpenSession, blocks: list[ContentBlock]
    ) -> v2.PromptResponse:
        """Answer a prompt of version 2: when it was accepted; its turn follows."""
        self._check(blocks)
        if not await self._next(session):
            raise RequestError.cancelled()
        running = self._begin(session, blocks)
        spawn(self._run_and_release(running), self._tasks)
        return v2.PromptResponse(running.turn.message_id)

    def _check(self, blocks: list[ContentBlock]) -> None:
        if not blocks:
            raise RequestError.invalid_params("a prompt needs content")
        for block in blocks:
            for shape, name in _CAPABILITIES:
                if isinstance(block, shape) and name not in self._definition.prompts:
                    tag = type(block).__struct_config__.tag
                    kind = block.tag if isinstance(block, UnknownContent) else tag
                    raise RequestError.invalid_params(
                        f"this agent does not accept {kind!r} content in prompts"
                    )

    async def _next(self, session: OpenSession) -> bool:
        """Wait for the running turn to end; False if the wait was cancelled."""
        if session.waiting >= WAITING:
            raise RequestError(INVALID_REQUEST, "Too many prompts wait in this session")
        cancels = session.cancels
        session.waiting += 1
        try:
            await session.busy.acquire()
        finally:
            session.waiting -= 1
        if session.cancels == cancels and not session.closed:
            return True
        session.busy.release()
        return False

    def _begin(self, session: OpenSession, blocks: list[ContentBlock]) -> _Running:
        scope = TurnScope(session)
        session.turn = scope.state
        turn = Turn(scope, session.new_id("user"), blocks)
        running = self._running[session] = _Running(session, scope, turn)
        return running

    async def _run_and_release(self, running: _Running) -> None:
        try:
            await self._run(running)
        finally:
            running.session.busy.release()

    # ---- one turn

    async def _run(self, running: _Running) -> v2.StateUpdate:
        """A whole turn, its updates in the order of version 2."""
        session, turn = running.session, running.turn
        message = v2.UserMessage(turn.message_id, turn.blocks)
        if session.link.protocol_version == 1:
            session.record(message)  # the client shows its own prompt
        else:
            session.send_nowait(message)
        session.send_nowait(v2.StateUpdate("running"))
        session.keep()
        try:
            idle = await self._answer(running)
        finally:
            running.scope.end()
            session.turn = None
            del self._running[session]
        self._end_left_open(running.scope, idle)
        session.flush()
        session.send_nowait(idle)
        session.keep()
        session.describe()
        return idle

    async def _answer(self, running: _Running) -> v2.StateUpdate:
        """Run the handler until it ends, or until it is abandoned."""
        if running.turn.cancelled:
            return _CANCELLED
        handler = running.handler = asyncio.create_task(self._handle(running.turn))
        given_up = running.given_up = asyncio.get_running_loop().create_future()
        try:
            first: set[asyncio.Future[Any]] = {handler, given_up}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.handler = None
            given_up.cancel()
            if running.limit is not None:
                running.limit.cancel()
            if not handler.done():
                self._abandon(handler)
        return self._outcome(running, handler)

    async def _handle(self, turn: Turn) -> str | None:
        handler = self._definition.on_prompt
        if handler is None:
            raise RequestError(INTERNAL_ERROR, "This agent has no prompt handler")
        return await handler(turn)

    def _abandon(self, handler: asyncio.Task[Any]) -> None:
        """Let a handler end by itself; its result and its error are not used."""
        self._abandoned.add(handler)
        handler.add_done_callback(self._abandoned.discard)
        handler.add_done_callback(lambda task: task.cancelled() or task.exception())
        handler.cancel()

    def _outcome(self, running: _Running, handler: asyncio.Task[str | None]) -> v2.StateUpdate:
        if running.turn.cancelled or not handler.done() or handler.cancelled():
            if handler.done() and not handler.cancelled():
                handler.exception()  # libraries raise all kinds of errors when they are cancelled
            return _CANCELLED
        error = handler.exception()
        session_id = running.session.session_id
        if error is None:
            return self._stopped(session_id, handler.result())
        if isinstance(error, RequestError):
            idle = v2.StateUpdate("idle", "error", Error(error.code, error.message, error.data))
            try:
                codec.encode(idle)
            except Exception as wrong:  # its data may be anything
                error = wrong
            else:
                return idle
        text = f"The prompt handler raised {described(error)}"
        self._link.report(Problem("handler", text, session_id, error))
        return v2.StateUpdate("idle", "error", _INTERNAL)

    def _stopped(self, session_id: str, returned: object) -> v2.StateUpdate:
        """The end of a turn whose handler returned."""
        if returned is None:
            return v2.StateUpdate("idle", "end_turn")
        if isinstance(returned, str) and returned in _STOP_REASONS:
            return v2.StateUpdate("idle", returned)
        if isinstance(returned, str) and returned.startswith("_"):
            if self._link.protocol_version == 2:
                return v2.StateUpdate("idle", returned)
            reason = "version 1 has only its own stop reasons"
            self._link.report_loss("stopReason", reason, session_id)
            return v2.StateUpdate("idle", "end_turn")
        known = ", ".join(_STOP_REASONS)
        text = (
            f"The prompt handler returned {returned!r}, which is not a stop reason: return None,"
            f" {known}, or one of your own that starts with '_'"
        )
        self._link.report(Problem("handler", text, session_id))
        return v2.StateUpdate("idle", "end_turn")

    def _end_left_open(self, scope: TurnScope, idle: v2.StateUpdate) -> None:
        """End the tool calls and terminals that the handler left open, as the turn ends."""
        session, status = scope.session, _LEFT_OPEN.get(idle.stop_reason or "", "completed")
        for call in scope.calls.values():
            if call.tool_call_id in session.state.tool_calls and not call.ended:
                # a call that was asked about and never started is not completed
                pending = call.status == "pending"
                session.send_nowait(ended(call, "cancelled" if pending else status))
        for terminal in scope.terminals.values():
            if not terminal.ended:
                session.send_nowait(exited(terminal))

    # ---- cancelling

    def cancel(self, session: OpenSession) -> None:
        """Stop the running turn, and the prompts that wait."""
        session.cancels += 1
        running = self._running.get(session)
        if running is None:
            return
        running.scope.state.cancelled = True
        if running.handler is None:
            return
        running.handler.cancel()  # every time: the handler may have swallowed the last one
        if running.limit is None:
            loop, patience = asyncio.get_running_loop(), self._definition.cancel_timeout
            running.limit = loop.call_later(patience, self._give_up, running)

    def _give_up(self, running: _Running) -> None:
        text = "The prompt handler did not stop when its turn was cancelled, and was abandoned"
        self._link.report(Problem("stuck", text, running.session.session_id))
        if running.given_up is not None and not running.given_up.done():
            running.given_up.set_result(None)

    async def cancel_call(self, session: OpenSession, tool_call_id: str) -> None:
        """Stop one tool call of the running turn; raises `NotCancellable`."""
        running = self._running.get(session)
        call = running.scope.calls.get(tool_call_id) if running is not None else None
        if call is None:
            raise NotCancellable("there is no tool call of that id in the running turn")
        await cancel_call(call)

    async def cancel_terminal(self, session: OpenSession, terminal_id: str) -> None:
        """Stop the command in one terminal of the running turn; raises `NotCancellable`."""
        running = self._running.get(session)
        terminal = running.scope.terminals.get(terminal_id) if running is not None else None
        if terminal is None:
            raise NotCancellable("there is no terminal of that id in the running turn")
        await cancel_terminal(terminal)

    async def wait_ended(self) -> None:
        """Wait until every cancelled turn has ended, or should have."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._definition.cancel_timeout + SLACK)


def _result_v1(idle: v2.StateUpdate) -> v1.PromptResponse:
    if idle.error:
        raise RequestError(idle.error.code, idle.error.message, idle.error.data)
    return v1.PromptResponse(idle.stop_reason or "end_turn")
