"""The turns of an agent: one at a time in a session, each with one end.

A prompt that comes while a turn goes on waits. A cancel ends the turn that goes on and those that
wait; a handler that does not stop is given up after a while, and what it still says reaches nobody.
However a turn ends, its prompt is answered, and nothing it left open stays so.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from twofold.agent.session import AgentSession
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

if TYPE_CHECKING:
    from twofold.agent.connection import AgentConnection

WAITING = 64
"""How many prompts of one session may wait."""
SLACK = 1.0
"""How many seconds a turn whose handler was given up has to end."""

_CANCELLED = v2.StateUpdate("idle", "cancelled")
_INTERNAL = Error(INTERNAL_ERROR, "Internal error", UNSET)
_REASONS = tuple(known_values(v1.StopReason))  # a handler may return what cannot be hashed
_LEFT_OPEN = {"cancelled": "cancelled", "error": "failed"}

_CAPABILITIES: tuple[tuple[type, str], ...] = (
    (ImageContent, "image"),
    (AudioContent, "audio"),
    (EmbeddedResource, "embedded_context"),
    (UnknownContent, "unknown"),
)


class _Running(Struct, eq=False):
    turn: Turn
    handler: asyncio.Task[str | None]
    given_up: asyncio.Future[None]
    limit: asyncio.TimerHandle | None = None


class Turns:
    """Runs the prompt handler of an agent for one client."""

    def __init__(self, connection: "AgentConnection") -> None:
        self._connection = connection
        self._agent = connection.agent
        self._running: dict[AgentSession, _Running] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()

    # ---- prompts

    async def prompt_v1(
        self, session: AgentSession, blocks: list[ContentBlock]
    ) -> v1.PromptResponse:
        """Answer a prompt of version 1 when its turn is over."""
        self._check(blocks)
        if not await self._my_turn(session):
            return v1.PromptResponse("cancelled")
        try:
            idle = await self._taken(self._begin(session, blocks))
        finally:
            # not earlier: the next turn says nothing before this one has its result
            session.busy.release()
        return _result(idle)

    async def _taken(self, turn: Turn) -> v2.StateUpdate:
        task = spawn(self._take(turn), self._tasks)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:  # the request was withdrawn, or the client is gone
            self.cancel(turn.session)
            await asyncio.wait({task})
            raise

    async def prompt_v2(
        self, session: AgentSession, blocks: list[ContentBlock]
    ) -> v2.PromptResponse:
        """Answer a prompt of version 2 when it was inserted; its turn follows."""
        self._check(blocks)
        if not await self._my_turn(session):
            raise RequestError.cancelled()
        turn = self._begin(session, blocks)
        spawn(self._take_and_release(turn), self._tasks)
        return v2.PromptResponse(turn.message_id)

    def _check(self, blocks: list[ContentBlock]) -> None:
        if not blocks:
            raise RequestError.invalid_params("a prompt needs content")
        for block in blocks:
            for shape, name in _CAPABILITIES:
                if isinstance(block, shape) and name not in self._agent.prompts:
                    kind = type(block).__struct_config__.tag
                    told = block.tag if isinstance(block, UnknownContent) else kind
                    raise RequestError.invalid_params(f"{told!r} is not taken in prompts")

    async def _my_turn(self, session: AgentSession) -> bool:
        """Wait for the turn that goes on; false if the wait was cancelled."""
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

    def _begin(self, session: AgentSession, blocks: list[ContentBlock]) -> Turn:
        session.turn = Turn(session, session.new_id("user"), blocks)
        return session.turn

    async def _take_and_release(self, turn: Turn) -> None:
        try:
            await self._take(turn)
        finally:
            turn.session.busy.release()

    # ---- one turn

    async def _take(self, turn: Turn) -> v2.StateUpdate:
        """The whole of a turn, in the order that version 2 reports it."""
        session = turn.session
        message = v2.UserMessage(turn.message_id, turn.blocks)
        if session.version == 1:
            session.record(message)  # the client shows its own prompt
        else:
            session.tell(message)
        session.tell(v2.StateUpdate("running"))
        session.keep()
        try:
            idle = await self._answered(turn)
        finally:
            turn.end()
            session.turn = None
        self._settle(turn, idle)
        session.flush()
        session.tell(idle)
        session.keep()
        self._connection.sessions.describe(session)
        return idle

    async def _answered(self, turn: Turn) -> v2.StateUpdate:
        """Run the handler to its end, or to the end of our patience."""
        if turn.cancelled:
            return _CANCELLED
        given_up = asyncio.get_running_loop().create_future()
        running = _Running(turn, asyncio.create_task(self._handle(turn)), given_up)
        self._running[turn.session] = running
        try:
            first: set[asyncio.Future[Any]] = {running.handler, given_up}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._running[turn.session]
            given_up.cancel()
            if running.limit is not None:
                running.limit.cancel()
            if not running.handler.done():
                self._abandon(running.handler)
        return self._outcome(turn, running.handler)

    async def _handle(self, turn: Turn) -> str | None:
        handler = self._agent.on_prompt
        if handler is None:
            raise RequestError(INTERNAL_ERROR, "This agent has no prompt handler")
        return await handler(turn)

    def _abandon(self, handler: asyncio.Task[Any]) -> None:
        """Nobody waits for it any more, nor wants to know how it ends."""
        self._abandoned.add(handler)
        handler.add_done_callback(self._abandoned.discard)
        handler.add_done_callback(lambda task: task.cancelled() or task.exception())
        handler.cancel()

    def _outcome(self, turn: Turn, handler: asyncio.Task[str | None]) -> v2.StateUpdate:
        if turn.cancelled or not handler.done() or handler.cancelled():
            if handler.done() and not handler.cancelled():
                handler.exception()  # libraries raise all kinds of things when they are stopped
            return _CANCELLED
        error = handler.exception()
        if error is None:
            return self._ended(turn, handler.result())
        if isinstance(error, RequestError):
            told = v2.StateUpdate("idle", "error", Error(error.code, error.message, error.data))
            try:
                codec.encode(told)
            except Exception as wrong:  # its data may be anything
                error = wrong
            else:
                return told
        text = f"The prompt handler failed: {described(error)}"
        self._connection.report(Problem("handler", text, turn.session.session_id, error))
        return v2.StateUpdate("idle", "error", _INTERNAL)

    def _ended(self, turn: Turn, returned: Any) -> v2.StateUpdate:
        """What the handler returned, if it is a stop reason."""
        if returned is None:
            return v2.StateUpdate("idle", "end_turn")
        if returned in _REASONS:
            return v2.StateUpdate("idle", returned)
        if isinstance(returned, str) and returned.startswith("_"):
            if turn.session.version == 2:
                return v2.StateUpdate("idle", returned)
            self._connection.lost(turn.session, "stopReason", "version 1 knows only its own")
            return v2.StateUpdate("idle", "end_turn")
        text = f"The prompt handler returned {returned!r}, which is no stop reason"
        self._connection.report(Problem("handler", text, turn.session.session_id))
        return v2.StateUpdate("idle", "end_turn")

    def _settle(self, turn: Turn, idle: v2.StateUpdate) -> None:
        """What the handler left open ends as the turn does."""
        session, status = turn.session, _LEFT_OPEN.get(idle.stop_reason or "", "completed")
        for call in turn.calls.values():
            if call.tool_call_id in session.state.tool_calls and not call.ended:
                # asked about and never begun, it is not completed
                session.tell(call.as_ended("cancelled" if call.status == "pending" else status))
        for terminal in turn.terminals.values():
            if not terminal.ended:
                session.tell(terminal.as_ended())

    # ---- the end

    def cancel(self, session: AgentSession) -> None:
        """Stop the turn that goes on, and those that wait."""
        session.cancels += 1
        if session.turn is not None:
            session.turn.cancelled = True
        running = self._running.get(session)
        if running is None:
            return
        running.handler.cancel()  # every time: someone may have swallowed the last one
        if running.limit is None:
            loop, patience = asyncio.get_running_loop(), self._agent.cancel_timeout
            running.limit = loop.call_later(patience, self._give_up, running)

    def _give_up(self, running: _Running) -> None:
        text = "The prompt handler did not stop when its turn was cancelled and was given up"
        session_id = running.turn.session.session_id
        self._connection.report(Problem("stuck", text, session_id))
        if not running.given_up.done():
            running.given_up.set_result(None)

    async def settle(self) -> None:
        """Wait, not for long, until every turn that was cancelled has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._agent.cancel_timeout + SLACK)


def _result(idle: v2.StateUpdate) -> v1.PromptResponse:
    if idle.error:
        raise RequestError(idle.error.code, idle.error.message, idle.error.data)
    return v1.PromptResponse(idle.stop_reason or "end_turn")
