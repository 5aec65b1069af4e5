"""The prompts of a client's session: each from when it is sent to the end of its turn.

An agent of version 1 answers a prompt when the turn is over, and has one turn at a time: further
prompts wait. An agent of version 2 answers when it has accepted the prompt, and reports the end of
the turn by an idle state. In both versions `prompt` returns when the turn is over and everything
that the agent sent before its end has been handled. A cancelled turn has some time to end, and is
then given up: nothing stays pending.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeGuard

from msgspec import Struct

from twofold.client.agent_peer import AgentPeer
from twofold.client.permissions import Permissions
from twofold.client.updates import Updates
from twofold.convert.turns import CANCELLED, OpenTurn, OpenTurns
from twofold.errors import ConnectionClosed, ConnectionEnded, LocalError
from twofold.peer.inbox import Inbox
from twofold.peer.problems import Problem
from twofold.rpc.errors import INTERNAL_ERROR, RequestFailed
from twofold.session import Draft, Message, Session
from twofold.session.changes import Changes, ContentAppended, EntryAdded, EntryChanged
from twofold.session.state import Entry
from twofold.wire import v1, v2
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Error, Usage

GIVE_UP = 30.0
"""How many seconds an agent has to end a turn that was cancelled."""
SETTLE = 1.0
"""How many seconds work may still begin after an idle state that no work led up to, if the agent
has sent something; the answer to a prompt may follow the end of its turn by as much."""
SETTLE_SILENT = 10.0
"""The same if the agent has sent nothing yet."""
QUIET_NEW = 0.05
"""How many seconds an agent of version 1 must add nothing to a new session before the first prompt.

An agent that greets does so in the next turn of its own loop, a few milliseconds after its answer.
"""
QUIET_LOADED = 0.15
"""The same for a session that was loaded or resumed: a replay reads a file between two messages."""
LONGEST_QUIET = 5.0
"""How many seconds after the answer the first prompt is sent in any case."""

OnAccepted: TypeAlias = Callable[[str], None]

_TRANSCRIPT = (EntryAdded, EntryChanged, ContentAppended)


class TurnFailed(RequestFailed):
    """The agent ended a turn with an error.

    Attributes:
        error: The error that the agent sent; None if it sent none.
    """

    def __init__(self, error: Error | None) -> None:
        shown = error or Error(INTERNAL_ERROR, "the agent sent no reason why the turn failed")
        super().__init__("session/prompt", shown.code, shown.message, shown.data)
        self.error = error


class Reply(Struct):
    """The result of a prompt."""

    stop_reason: str
    """`end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled` or a newer word."""
    entries: list[Entry]
    """The messages, thoughts and tool calls of the turn, the prompt among them."""
    usage: Usage | None = None
    """The tokens of the turn, if the agent reported them."""
    given_up: bool = False
    """The turn was cancelled, and the agent did not end it in time."""

    @property
    def text(self) -> str:
        """The text of the agent's messages, with a blank line between two of them."""
        texts = (entry.text for entry in self.entries if _is_of_agent(entry))
        return "\n\n".join(filter(None, texts))


def _is_of_agent(entry: Entry) -> TypeGuard[Message]:
    return isinstance(entry, Message) and entry.role == "agent"


class Quiet:
    """How long a first prompt has to wait for what belongs to no turn (`ChangeListener`).

    Version 1 does not mark where a turn begins: a replay that follows the answer to
    `session/load`, or a greeting that follows the one to `session/new`, would count as the reply.
    So a prompt waits until nothing was added to the transcript for `seconds`, counted from the
    answer and from every addition. A prompt that is sent later than that does not wait at all.
    """

    def __init__(self, seconds: float, longest: float = LONGEST_QUIET) -> None:
        self._seconds = seconds
        self._since = asyncio.get_running_loop().time()
        self._limit = self._since + longest

    def add(self, changes: Changes) -> None:
        """Begin again if the transcript has grown; usage, commands and settings do not count."""
        if any(isinstance(change, _TRANSCRIPT) for change in changes):
            self._since = asyncio.get_running_loop().time()

    @property
    def left(self) -> float:
        """How many seconds a prompt has to wait; 0 or less if it may be sent."""
        return min(self._since + self._seconds, self._limit) - asyncio.get_running_loop().time()

    def end(self) -> None:
        """The session is closed: there is nothing to wait for."""
        self._limit = 0.0


class Turn(OpenTurn, kw_only=True, eq=False):
    """A prompt of the caller, and the state of its turn."""

    ended: asyncio.Future[v2.StateUpdate]
    """How the turn ended, for the caller."""
    on_accepted: OnAccepted | None = None
    """Called with the id of the prompt's user message when the agent has named it."""
    sent: bool = False
    answered: bool = False
    start: int | None = None
    """How many entries there were before; None until everything received before is handled."""
    stop: int | None = None
    """How many entries there were at its end."""
    failure: Exception | None = None
    """Why there is no reply, if the agent did not end the turn itself."""
    given_up: bool = False
    settling: asyncio.TimerHandle | None = None
    limit: asyncio.TimerHandle | None = None

    def over(self, state: v2.StateUpdate) -> None:
        """End the turn, once."""
        for timer in (self.settling, self.limit):
            if timer is not None:
                timer.cancel()
        if not self.ended.done():
            self.ended.set_result(state)

    @property
    def first_entry(self) -> int | None:
        """The first entry of the turn; None as long as other work may still end before it."""
        if self.held and not self.ended.done():
            return None
        return self.start


class Prompts:
    """The prompts of one session whose turns have not ended."""

    def __init__(self, agent: AgentPeer, updates: Updates, permissions: Permissions) -> None:
        self._agent = agent
        self._updates = updates
        self._permissions = permissions
        self._unfinished: list[Turn] = []
        """The turns whose callers wait, those that were not sent yet among them."""
        self._turns: OpenTurns[Turn] = OpenTurns()
        """The turns that are open, as far as updates were handled."""
        self.broke_off = False
        """Whether the end of the connection has ended a turn."""
        self._one = asyncio.Lock()  # version 1 has one turn at a time
        self._quiet: Quiet | None = None
        updates.intercept(v2.StateUpdate, self._state_reported)
        updates.intercept(v2.UserMessage, self._user_message)
        updates.intercept(v2.UserMessageChunk, self._user_message)

    @property
    def waiting(self) -> bool:
        """Whether a prompt waits for the end of its turn."""
        return bool(self._unfinished)

    @property
    def in_turn(self) -> bool:
        """Whether a prompt was sent whose turn has not ended, as far as updates were handled."""
        return bool(self._turns)

    # ---- sending

    async def prompt(
        self, blocks: list[ContentBlock], on_accepted: OnAccepted | None = None
    ) -> Reply:
        """Send a prompt and wait for the end of its turn; a cancelled task cancels the turn."""
        turn, work = self.begin(blocks)
        turn.on_accepted = on_accepted
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.abandon(turn)
            raise

    def begin(self, blocks: list[ContentBlock]) -> tuple[Turn, asyncio.Task[Reply]]:
        """Send a prompt as soon as it may be sent.

        Returns:
            The turn, and the task that waits for its end.

        Raises:
            LocalError: The caller is a handler of updates, for which the turn would wait.
        """
        if self._updates.watchers.waiting_here:
            raise LocalError(
                "A handler of updates cannot wait for a turn, because the turn waits for the"
                " handler: prompt in a task of its own."
            )
        turn = Turn(prompt=blocks, ended=asyncio.get_running_loop().create_future())
        self._unfinished.append(turn)
        return turn, self._agent.in_background(self._work(turn))

    def abandon(self, turn: Turn) -> None:
        """Cancel a turn without waiting; it goes on until the agent has ended it."""
        if not turn.sent:
            turn.over(CANCELLED)
        elif not turn.ended.done():
            self.stop()

    async def _work(self, turn: Turn) -> Reply:
        try:
            if self._updates.upgrader is None:
                await self._run(turn)
            else:
                async with self._one:
                    await self._run(turn)
        finally:
            self._unfinished.remove(turn)
        return self._reply(turn, turn.ended.result())

    async def _run(self, turn: Turn) -> None:
        await self._agent.ready(turn.ended)
        if turn.ended.done():
            return  # it was cancelled while it waited
        self._updates.check_open()
        await self.quiet(turn.ended)
        self._stop_quiet()
        self._updates.check_open()
        sending = asyncio.create_task(self._send(turn))
        try:
            await turn.ended
        finally:
            # only version 2 still answers a prompt whose turn is over
            late = turn.failure is None and not turn.given_up
            await _finished(sending, SETTLE if late else 0)

    async def _send(self, turn: Turn) -> None:
        def arrived(outcome: Any) -> Inbox:
            turn.answered = True
            inbox.put(self._answered, (turn, outcome))
            return inbox

        if turn.ended.done():
            return
        inbox = self._updates.inbox
        turn.sent = True  # from here on a cancel follows the prompt on the wire
        inbox.put(self._begin, turn)
        request = v2.PromptRequest(self._updates.session_id, turn.prompt)
        try:
            await self._agent.call("session/prompt", request, arrived=arrived)
        except Exception as error:
            if not turn.answered:  # it could not be sent
                inbox.put(self._answered, (turn, error))

    def _begin(self, turn: Turn) -> Awaitable[None] | None:
        """Begin the turn, in wire order."""
        updates = self._updates
        if updates.upgrader is None:
            self._turns.state = updates.state.state_update  # the client ends work as well
        if not turn.ended.done():  # it may have been given up before
            self._turns.prompted(turn, turn.prompt)
        turn.start = len(updates.state.entries)
        return updates.prompted(turn.prompt)

    def _reply(self, turn: Turn, state: v2.StateUpdate) -> Reply:
        if turn.failure is not None:
            raise turn.failure
        if state.stop_reason == "error":
            raise TurnFailed(state.error or None)
        of_turn = slice(turn.start, turn.stop)
        entries = [] if turn.start is None else self._updates.state.entries[of_turn]
        reason = state.stop_reason or "end_turn"
        return Reply(reason, entries, state.usage or None, turn.given_up)

    # ---- before the first prompt

    def expect_quiet(self, seconds: float) -> None:
        """An agent of version 1 opened the session: it may still replay or greet."""
        self._stop_quiet()
        self._quiet = Quiet(seconds)
        self._updates.watchers.add(self._quiet)

    async def quiet(self, unless: asyncio.Future[Any]) -> None:
        """Wait until a first prompt may be sent, or `unless` is done."""
        while self._quiet is not None and self._quiet.left > 0 and not unless.done():
            await asyncio.wait({unless}, timeout=self._quiet.left)

    def _stop_quiet(self) -> None:
        if self._quiet is not None:
            self._updates.watchers.remove(self._quiet)
            self._quiet = None

    # ---- what the agent reports

    def _user_message(self, update: v2.UserMessage | v2.UserMessageChunk) -> Awaitable[None] | None:
        """A user message of an agent of version 2, which may repeat one of the prompts."""
        self._turns.user_message(update)
        return self._updates.apply(update)

    def _state_reported(self, update: v2.StateUpdate) -> Awaitable[None] | None:
        """The state of an agent of version 2, which may end turns."""
        idle = update.state == "idle"
        if idle:
            for turn in self._turns:
                if turn.held:  # the work that ends now is not part of it
                    turn.start = len(self._updates.state.entries)
        for turn in self._turns.report(update):
            self._updates.inbox.put_next(self._over, (turn, update))
        for turn in self._turns:
            if turn.end is None:
                self._settle(turn, update)
        return self._updates.apply_all([*(self._left_open() if idle else ()), update])

    def _answered(self, answer: tuple[Turn, Any]) -> Awaitable[None] | None:
        """The agent answered the prompt with a result or an error, or is gone."""
        turn, outcome = answer
        if turn.ended.done():
            return None  # it was given up before
        if isinstance(outcome, Exception):
            return self._failed(turn, outcome)
        if isinstance(outcome, v1.PromptResponse):
            return self._end(turn, self._updates.finished(outcome))
        if isinstance(outcome, v2.PromptResponse):
            self._updates.state.use_draft(Draft.NOVEMBER)  # only November names the message
        reported = turn.idle
        turn.accepted(outcome)
        if turn.on_accepted is not None and turn.message_id:
            turn.on_accepted(turn.message_id)
        if turn.end is None:
            self._settle(turn, self._updates.state.state_update)
        elif turn.end is reported:
            self._over((turn, turn.end))
        else:  # the answer ended the turn: no state was reported for it
            return self._end(turn, turn.end)
        return None

    def _settle(self, turn: Turn, state: v2.StateUpdate) -> None:
        """Wait for some seconds whether work begins, if the turn is over without it."""
        if not turn.may_be_over(state):
            return
        if turn.settling is not None:
            turn.settling.cancel()
        wait = SETTLE if self._has_sent_something(turn) else SETTLE_SILENT
        turn.settling = asyncio.get_running_loop().call_later(wait, self._settled, turn)

    def _has_sent_something(self, turn: Turn) -> bool:
        entries = self._updates.state.entries[turn.start or 0 :]
        return any(not isinstance(entry, Message) or entry.role != "user" for entry in entries)

    def _settled(self, turn: Turn) -> None:
        state = self._updates.state.state_update
        if turn.may_be_over(state):
            self._over((turn, state))

    # ---- ends

    def _end(self, turn: Turn, idle: v2.StateUpdate) -> Awaitable[None] | None:
        self._updates.inbox.put_next(self._over, (turn, idle))
        return self._updates.apply_all([*self._left_open(), idle])

    def _over(self, ended: tuple[Turn, v2.StateUpdate]) -> None:
        turn, idle = ended
        if not turn.ended.done():
            turn.stop = len(self._updates.state.entries)
            self._turns.close(turn)
            turn.over(idle)

    def _failed(self, turn: Turn, error: Exception) -> Awaitable[None] | None:
        idle = v2.StateUpdate("idle", "error", Error(INTERNAL_ERROR, str(error)))
        if isinstance(error, RequestFailed):
            sent = Error(error.code, error.message, error.data)
            idle = self._updates.failed(sent)
            if idle is not CANCELLED and self._updates.upgrader is not None:
                error = TurnFailed(sent)  # version 1 reports a failed turn only by this error
        if idle is not CANCELLED:
            turn.failure = error
        gone = isinstance(error, ConnectionEnded | ConnectionClosed)
        self.broke_off = self.broke_off or gone
        if self._updates.upgrader is None and self._updates.state.state != "idle" and not gone:
            self._over((turn, idle))  # other work goes on, so the session is not idle
            return None
        return self._end(turn, idle)

    def fail(self, error: Exception) -> None:
        """End every turn with `error`, because the session is closed."""
        for turn in self._unfinished:
            if turn.sent and not turn.ended.done():
                self._updates.inbox.put(self._answered, (turn, error))

    # ---- cancelling

    async def cancel(self, give_up: float) -> None:
        """Cancel the turns that go on, and wait until they have ended."""
        turns = self.stop(give_up)
        if turns:
            await asyncio.wait({turn.ended for turn in turns})

    def stop(self, give_up: float = GIVE_UP) -> list[Turn]:
        """Send `session/cancel`; turns that do not end within `give_up` seconds are given up.

        Returns:
            The turns to wait for.
        """
        updates, permissions, turns = self._updates, self._permissions, []
        for turn in self._unfinished:
            if not turn.sent:
                turn.over(CANCELLED)
            elif not turn.ended.done():
                turns.append(turn)
        working = bool(turns) or updates.state.state != "idle"
        if updates.closed or not (working or permissions.pending):
            return []
        self._agent.notify("session/cancel", v2.SessionParams(updates.session_id))
        if working:
            updates.state.cancel()
        permissions.cancel()
        updates.inbox.put(lambda _: updates.apply_all(self._left_open()), None)
        for turn in turns:
            self._limit(turn, give_up)
        return turns

    def _limit(self, turn: Turn, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if turn.limit is not None:
            if turn.limit.when() <= loop.time() + seconds:
                return
            turn.limit.cancel()
        turn.limit = loop.call_later(seconds, self._give_up, turn)

    def _left_open(self) -> list[v2.ToolCallUpdate]:
        """Updates that mark the tool calls that a cancelled turn leaves open as cancelled."""
        return self._updates.state.cancelled_calls()

    def _give_up(self, turn: Turn) -> None:
        if turn.ended.done():
            return
        text = "The agent did not end the cancelled turn in time; it was given up"
        self._agent.report(Problem("stuck", text, self._updates.session_id))
        turn.given_up = True
        self._updates.inbox.put(
            lambda idle: self._updates.apply_all([*self._left_open(), idle]), CANCELLED
        )
        self._over((turn, CANCELLED))  # even if a handler does not return: this is the limit


async def _finished(sending: asyncio.Task[None], seconds: float) -> None:
    """Wait `seconds` for an answer to the prompt that is missing after the end of its turn."""
    if not sending.done():
        await asyncio.wait({sending}, timeout=seconds)
    if not sending.done():
        sending.cancel()
        await asyncio.wait({sending}, timeout=SETTLE)


class ReplyStream:
    """The text of a reply while it is received: `async for piece in session.stream("…")`.

    The prompt is sent when the iteration begins. The pieces, joined, are the text of the reply: a
    blank line is between two messages. A reader that is slow gets several pieces as one; nothing
    is lost. When the iteration has ended by itself, `reply` is the whole reply.

    Leaving the loop before its end cancels the turn. `async with session.stream("…") as stream`
    also waits until it has ended, and cancels it even where something else holds the iterator.
    """

    def __init__(self, prompts: Prompts, updates: Updates, blocks: list[ContentBlock]) -> None:
        self._prompts = prompts
        self._updates = updates
        self._blocks = blocks
        self._turn: Turn | None = None
        self._reply: Reply | None = None

    @property
    def reply(self) -> Reply:
        """The whole reply.

        Raises:
            LocalError: The turn has not ended, or was not read to its end.
        """
        if self._reply is None:
            raise LocalError("There is no reply yet: read the stream to its end first.")
        return self._reply

    async def close(self) -> None:
        """Cancel the turn if it goes on, and wait until it has ended."""
        turn = self._turn
        if turn is None or turn.ended.done():
            return
        self._prompts.abandon(turn)
        await asyncio.wait({turn.ended})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[str]:
        if self._turn is not None:
            raise LocalError("A stream can be read once: prompt again for another reply.")
        self._turn, work = self._prompts.begin(self._blocks)
        pieces = _Pieces(self._turn)
        self._updates.watchers.add(pieces)
        return self._read(self._turn, work, pieces)

    async def _read(
        self, turn: Turn, work: asyncio.Task[Reply], pieces: "_Pieces"
    ) -> AsyncIterator[str]:
        work.add_done_callback(lambda _: pieces.end())
        try:
            over = False
            while not over:
                await pieces.ready()
                over = work.done()  # looked at first, so that nothing is added after the last look
                piece = pieces.take(self._updates.state)
                if piece:
                    yield piece
            self._reply = work.result()
        finally:
            self._updates.watchers.remove(pieces)
            self._prompts.abandon(turn)


class _Pieces:
    """The agent's text of one turn that was not read yet (`ChangeListener`).

    The session is the buffer: only which messages have grown is kept here.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._changed: dict[int, None] = {}
        self._read: dict[int, tuple[list[ContentBlock], int]] = {}
        """Of each message the content, as an object, and how many blocks of it were read."""
        self._texts: dict[int, list[str]] = {}
        self._last: int | None = None
        """The message of the last piece."""
        self._event = asyncio.Event()

    def add(self, changes: Changes) -> None:
        """Remember the entries that have changed."""
        for change in changes:
            if isinstance(change, _TRANSCRIPT):
                self._changed[change.index] = None
                self._event.set()

    def end(self) -> None:
        """Wake the reader, because the turn or the session has ended."""
        self._event.set()

    async def ready(self) -> None:
        """Wait until there may be something to read."""
        await self._event.wait()
        self._event.clear()

    def take(self, state: Session) -> str:
        """The text since the last call; empty if there is none."""
        first = self._turn.first_entry
        if first is None:
            return ""  # whether it belongs to this turn is not known yet
        changed, self._changed = self._changed, {}
        texts = []
        for index in changed:
            entry = state.entries[index] if first <= index < len(state.entries) else None
            text = self._new_text(entry) if entry is not None and _is_of_agent(entry) else ""
            if text:
                texts.append(f"\n\n{text}" if self._last not in (None, index) else text)
                self._last = index
        return "".join(texts)

    def _new_text(self, message: Message) -> str:
        content, count = self._read.get(message.index, (message.content, 0))
        before = self._texts.setdefault(message.index, [])
        if content is message.content:
            new = "".join(
                [block.text for block in content[count:] if isinstance(block, TextContent)]
            )
        else:  # the agent sent the message as a whole: usually all of it again, or more of it
            read = "".join(before)
            new = message.text[len(read) :] if message.text.startswith(read) else ""
        self._read[message.index] = message.content, len(message.content)
        before.append(new)
        return new
