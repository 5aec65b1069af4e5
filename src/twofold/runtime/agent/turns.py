"""The turns of an agent: one at a time in a session, each with one end.

A prompt that comes while a turn goes on waits. A cancel ends the turn that goes on and those that
wait; a handler that does not stop is given up after a while. However a turn ends, its prompt is
answered, and nothing it left open stays so.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from twofold.errors import TwofoldError
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.runtime.agent.session import AgentSession
from twofold.runtime.agent.turn import Turn
from twofold.runtime.errors import Problem
from twofold.runtime.inbox import spawn
from twofold.wire import v1, v2
from twofold.wire.base import UNSET
from twofold.wire.content import ContentBlock
from twofold.wire.shared import Error

if TYPE_CHECKING:
    from twofold.runtime.agent.connection import AgentConnection

WAITING = 64
"""How many prompts of one session may wait."""
_OPEN = frozenset({"pending", "in_progress", "paused"})


class _Running(Struct, eq=False):
    turn: Turn
    handler: asyncio.Task[str | None]
    given_up: asyncio.Future[None]
    limit: asyncio.TimerHandle | None = None


class Turns:
    """Runs the prompt handler of an agent for one client."""

    def __init__(self, connection: "AgentConnection") -> None:
        self._connection = connection
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- prompts

    async def prompt_v1(
        self, session: AgentSession, blocks: list[ContentBlock]
    ) -> v1.PromptResponse:
        """Answer a prompt of version 1 when its turn is over."""
        if not await self._my_turn(session):
            return v1.PromptResponse("cancelled")
        turn = Turn(session, session.new_id("user"), blocks)
        session.turn = turn
        try:
            idle = await self._take(turn)
        finally:
            session.turn = None
            session.busy.release()
        if idle.error:
            raise RequestError(idle.error.code, idle.error.message, idle.error.data)
        return v1.PromptResponse(idle.stop_reason or "end_turn")

    async def prompt_v2(
        self, session: AgentSession, blocks: list[ContentBlock]
    ) -> v2.PromptResponse:
        """Answer a prompt of version 2 when it was inserted; its turn follows."""
        if not blocks:
            raise RequestError.invalid_params("a prompt needs content")
        if not await self._my_turn(session):
            raise RequestError.cancelled()
        turn = Turn(session, session.new_id("user"), blocks)
        session.turn = turn
        spawn(self._take_and_release(turn), self._tasks)
        return v2.PromptResponse(turn.message_id)

    async def _my_turn(self, session: AgentSession) -> bool:
        """Wait for the turn that goes on; false if the wait was cancelled."""
        if session.waiting >= WAITING:
            raise RequestError.invalid_params("too many prompts wait in this session")
        cancels = session.cancels
        session.waiting += 1
        try:
            await session.busy.acquire()
        finally:
            session.waiting -= 1
        if session.cancels == cancels and session.session_id in self._connection.sessions:
            return True
        session.busy.release()
        return False

    async def _take_and_release(self, turn: Turn) -> None:
        session = turn.session
        try:
            await self._take(turn)
        except TwofoldError:
            pass  # the client is gone
        finally:
            session.turn = None
            session.busy.release()

    # ---- one turn

    async def _take(self, turn: Turn) -> v2.StateUpdate:
        """The whole of a turn, in the order that version 2 reports it."""
        session = turn.session
        message = v2.UserMessage(turn.message_id, turn.blocks)
        if self._connection.version == 1:
            session.record(message)  # the client shows its own prompt
        else:
            await session.send(message)
        await session.send(v2.StateUpdate("running"))
        idle = await self._answered(turn)
        await self._settle(turn)
        session.flush_terminals()
        await session.send(idle)
        session.keep()
        self._connection.describe(session)
        return idle

    async def _answered(self, turn: Turn) -> v2.StateUpdate:
        """Run the handler to its end, or to the end of our patience."""
        loop = asyncio.get_running_loop()
        running = _Running(turn, asyncio.create_task(self._handle(turn)), loop.create_future())
        session_id = turn.session.session_id
        self._running[session_id] = running
        try:
            first: set[asyncio.Future[Any]] = {running.handler, running.given_up}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._running[session_id]
            running.given_up.cancel()
            if running.limit is not None:
                running.limit.cancel()
            if not running.handler.done():
                running.handler.cancel()
        return self._outcome(turn, running)

    async def _handle(self, turn: Turn) -> str | None:
        handler = self._connection.agent.on_prompt
        if handler is None:
            raise RequestError(INTERNAL_ERROR, "This agent has no prompt handler")
        return await handler(turn)

    def _outcome(self, turn: Turn, running: _Running) -> v2.StateUpdate:
        handler = running.handler
        if not handler.done() or handler.cancelled():
            return v2.StateUpdate("idle", "cancelled")
        error = handler.exception()
        if turn.cancelled:
            return v2.StateUpdate("idle", "cancelled")
        if error is None:
            return v2.StateUpdate("idle", handler.result() or "end_turn")
        if isinstance(error, RequestError):
            told = Error(error.code, error.message, error.data)
            return v2.StateUpdate("idle", "error", told)
        text = f"The prompt handler failed: {type(error).__name__}: {error}"
        self._connection.report(Problem("handler", text, turn.session.session_id, error))
        return v2.StateUpdate("idle", "error", Error(INTERNAL_ERROR, "Internal error", UNSET))

    async def _settle(self, turn: Turn) -> None:
        """A handler that was stopped may have left tool calls open."""
        status = "cancelled" if turn.cancelled else "failed"
        for call_id, call in turn.calls.items():
            known = turn.session.state.tool_calls.get(call_id)
            if known is not None and known.status in _OPEN:
                await call.update(status=status)

    # ---- the end

    def cancel(self, session: AgentSession) -> None:
        """Stop the turn that goes on, and those that wait."""
        session.cancels += 1
        running = self._running.get(session.session_id)
        if running is None or running.turn.cancelled:
            if session.turn is not None:
                session.turn.cancelled = True
            return
        running.turn.cancelled = True
        running.handler.cancel()
        loop, patience = asyncio.get_running_loop(), self._connection.agent.cancel_timeout
        running.limit = loop.call_later(patience, self._give_up, running)

    def _give_up(self, running: _Running) -> None:
        text = "The prompt handler did not stop when its turn was cancelled and was given up"
        session_id = running.turn.session.session_id
        self._connection.report(Problem("stuck", text, session_id))
        if not running.given_up.done():
            running.given_up.set_result(None)

    async def settle(self) -> None:
        """Wait, not for long, until every turn that was cancelled has ended."""
        handlers = {running.handler for running in self._running.values()}
        waiting = handlers | self._tasks
        if waiting:
            await asyncio.wait(waiting, timeout=self._connection.agent.cancel_timeout)
