"""The turns of a client's session: from the prompt to its one end.

Version 1 answers a prompt when the turn is over, and has one turn at a time; version 2 answers when
the prompt was inserted, and tells the end by an idle state. Either way `prompt` returns when the
turn is over and everything that was said before its end has been handled. A turn that is cancelled
is given some time to end, and then given up: nothing stays pending.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from twofold.convert.turn import OpenTurn
from twofold.errors import PeerError, TwofoldError
from twofold.rpc.errors import INTERNAL_ERROR, REQUEST_CANCELLED, RequestFailed
from twofold.runtime.errors import Problem
from twofold.runtime.inbox import Inbox
from twofold.session import Draft, Message
from twofold.session.parts import Entry
from twofold.wire import v1, v2
from twofold.wire.content import ContentBlock
from twofold.wire.shared import Error, Usage

if TYPE_CHECKING:
    from twofold.runtime.client.session import ClientSession

GIVE_UP = 30.0
"""How many seconds an agent has to end a turn that was cancelled."""
SETTLE = 1.0
"""How many seconds after an idle that no work led up to work may still begin."""

_OPEN = frozenset({"pending", "in_progress", "paused"})


class TurnFailed(PeerError):
    """The agent ended a turn with an error."""

    def __init__(self, error: Error | None) -> None:
        said = f": {error.message} ({error.code})" if error else ", and did not say which."
        super().__init__(f"The agent ended its turn with an error{said}")
        self.error = error


class Reply(Struct):
    """What came of a prompt."""

    stop_reason: str
    """`end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled` or a newer word."""
    entries: list[Entry]
    """The messages, thoughts and tool calls that the turn brought."""
    usage: Usage | None = None
    given_up: bool = False
    """The turn was cancelled, and the agent did not end it in time."""

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(
            entry.text
            for entry in self.entries
            if isinstance(entry, Message) and entry.role == "agent"
        )


class _Turn(Struct, eq=False):
    """A prompt, and what it waits for."""

    open: OpenTurn
    end: asyncio.Future[v2.StateUpdate]
    start: int
    """How many entries there were before."""
    before: v2.StateUpdate
    """What the session was doing before."""
    failure: Exception | None = None
    """Why there is no result, if it is not for the agent to say."""
    given_up: bool = False
    settling: asyncio.TimerHandle | None = None
    limit: asyncio.TimerHandle | None = None

    def over(self, state: v2.StateUpdate) -> None:
        for timer in (self.settling, self.limit):
            if timer is not None:
                timer.cancel()
        if not self.end.done():
            self.end.set_result(state)


class Turns:
    """The turns that go on in one session."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session
        self._open: list[_Turn] = []
        self._one = asyncio.Lock()  # version 1 has one turn at a time

    # ---- prompts

    async def prompt(self, blocks: list[ContentBlock]) -> Reply:
        """Send a prompt and wait for the end of its turn; a cancelled task cancels the turn."""
        begun = asyncio.Event()
        turn = self._session.client.in_background(self._take(blocks, begun))
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            if begun.is_set():
                self.stop()  # it goes on until the agent has ended it
            else:
                turn.cancel()
            raise

    async def _take(self, blocks: list[ContentBlock], begun: asyncio.Event) -> Reply:
        if self._session.upgrader is None:
            return await self._turn(blocks, begun)
        async with self._one:
            self._session.check_open()
            return await self._turn(blocks, begun)

    async def _turn(self, blocks: list[ContentBlock], begun: asyncio.Event) -> Reply:
        session, state = self._session, self._session.state
        end: asyncio.Future[v2.StateUpdate] = asyncio.get_running_loop().create_future()
        opened = OpenTurn(state.state != "idle")
        opened.echo.expect(blocks)
        turn = _Turn(opened, end, len(state.entries), state.state_update)
        self._open.append(turn)
        begun.set()
        if session.upgrader is not None:
            session.inbox.put(session.apply_all, session.upgrader.prompt(blocks))
        sent = asyncio.create_task(self._send(turn, blocks))
        try:
            await end
        finally:
            self._open.remove(turn)
            await _finished(sent)
        return self._reply(turn, end.result())

    async def _send(self, turn: _Turn, blocks: list[ContentBlock]) -> None:
        def arrived(outcome: Any) -> Inbox:
            self._session.inbox.put(self._answered, (turn, outcome))
            return self._session.inbox

        request = v2.PromptRequest(self._session.session_id, blocks)
        try:
            await self._session.client.call("session/prompt", request, arrived=arrived)
        except TwofoldError as error:
            if not turn.end.done():  # it was never sent
                self._session.inbox.put(self._answered, (turn, error))

    def _reply(self, turn: _Turn, state: v2.StateUpdate) -> Reply:
        if turn.failure is not None:
            raise turn.failure
        if state.stop_reason == "error":
            raise TurnFailed(state.error or None)
        entries = self._session.state.entries[turn.start :]
        reason = state.stop_reason or "end_turn"
        return Reply(reason, entries, state.usage or None, turn.given_up)

    # ---- what the agent says of them

    def heard(self, update: v2.UserMessage | v2.UserMessageChunk) -> None:
        """A user message: it may be a prompt of ours."""
        for turn in self._open:
            if not turn.open.inserted:
                turn.open.echoed(update)

    def reported(self, update: v2.StateUpdate) -> list[v2.SessionUpdate]:
        """The agent of version 2 said what it is doing; what there is to apply."""
        ended = []
        for turn in self._open:
            turn.open.report(update)
            if self._look(turn, update):
                ended.append(turn)
        if update.state != "idle":
            return [update]
        for turn in ended:
            self._session.inbox.put_next(self._over, (turn, update))
        return [*self._left_open(), update]

    def _answered(self, answer: tuple[_Turn, Any]) -> Awaitable[None] | None:
        """The prompt was answered, with a result or with an error."""
        turn, outcome = answer
        upgrader = self._session.upgrader
        if isinstance(outcome, Exception):
            return self._fail(turn, outcome)
        if isinstance(outcome, v1.PromptResponse) and upgrader is not None:
            return self._end(turn, upgrader.finished(outcome))
        if isinstance(outcome, v2.PromptResponse):
            self._session.state.draft = Draft.NOVEMBER  # only November names the message
        turn.open.accepted(outcome)
        if self._look(turn, self._session.state.state_update) and turn.open.end is not None:
            turn.over(turn.open.end)
        return None

    def _look(self, turn: _Turn, state: v2.StateUpdate) -> bool:
        """Whether a turn of version 2 is over."""
        if turn.open.end is not None:
            return True
        if turn.open.inserted and state.state == "idle" and turn.settling is None:
            # No work led up to this idle. If none follows, it was the end all the same.
            loop = asyncio.get_running_loop()
            turn.settling = loop.call_later(SETTLE, self._still_idle, turn)
        return False

    def _still_idle(self, turn: _Turn) -> None:
        turn.settling = None
        state = self._session.state.state_update
        if not turn.open.running and state.state == "idle" and state is not turn.before:
            turn.over(state)

    # ---- ends

    def _end(self, turn: _Turn, idle: v2.StateUpdate) -> Awaitable[None] | None:
        if turn.end.done():
            return None
        self._session.inbox.put_next(self._over, (turn, idle))
        return self._session.apply_all([*self._left_open(), idle])

    def _over(self, ended: tuple[_Turn, v2.StateUpdate]) -> None:
        turn, idle = ended
        turn.over(idle)

    def _fail(self, turn: _Turn, error: Exception) -> Awaitable[None] | None:
        told = Error(INTERNAL_ERROR, str(error))
        if isinstance(error, RequestFailed):
            if self._session.state.cancelling or error.code == REQUEST_CANCELLED:
                return self._end(turn, v2.StateUpdate("idle", "cancelled"))
            told = Error(error.code, error.message, error.data)
        turn.failure = error
        return self._end(turn, v2.StateUpdate("idle", "error", told))

    def fail(self, error: Exception) -> None:
        """The session is gone: every turn ends with `error`."""
        for turn in list(self._open):
            self._session.inbox.put(self._answered, (turn, error))

    # ---- cancelling

    async def cancel(self, give_up: float) -> None:
        """Stop the turns that go on, and wait until they have ended."""
        turns = self.stop(give_up)
        if turns:
            await asyncio.wait({turn.end for turn in turns})

    def stop(self, give_up: float = GIVE_UP) -> list[_Turn]:
        """Ask the agent to stop; after `give_up` seconds the turns are given up."""
        session = self._session
        turns = [turn for turn in self._open if not turn.end.done()]
        if session.closed or not (turns or session.state.state != "idle"):
            return []
        session.client.tell("session/cancel", v2.SessionParams(session.session_id))
        session.state.cancel()
        session.permissions.cancel()
        session.inbox.put(session.apply_all, self._left_open())
        loop = asyncio.get_running_loop()
        for turn in turns:
            turn.limit = turn.limit or loop.call_later(give_up, self._give_up, turn)
        return turns

    def _left_open(self) -> list[v2.SessionUpdate]:
        """Tool calls that a cancelled turn leaves open are shown as cancelled."""
        if not self._session.state.cancelling:
            return []
        return [
            v2.ToolCallUpdate(call.tool_call_id, status="cancelled")
            for call in self._session.state.tool_calls.values()
            if call.status in _OPEN
        ]

    def _give_up(self, turn: _Turn) -> None:
        if turn.end.done():
            return
        text = "The agent did not end the cancelled turn in time; it was given up"
        self._session.client.report(Problem("stuck", text, self._session.session_id))
        turn.given_up = True
        self._session.inbox.put(
            lambda idle: self._end(turn, idle), v2.StateUpdate("idle", "cancelled")
        )


async def _finished(sent: asyncio.Task[None]) -> None:
    """The turn is over: an answer to the prompt that is still missing is not waited for long."""
    if not sent.done():
        await asyncio.wait({sent}, timeout=SETTLE)
    if not sent.done():
        sent.cancel()
        await asyncio.wait({sent}, timeout=SETTLE)
