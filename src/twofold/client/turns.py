"""The turns of a client's session: from the prompt to its one end.

Version 1 answers a prompt when the turn is over, and has one turn at a time: further prompts wait.
Version 2 answers when the prompt was inserted, and tells the end by an idle state. Either way
`prompt` returns when the turn is over and everything that was said before its end has been
handled. A turn that is cancelled is given some time to end, and then given up: nothing stays
pending.
"""

import asyncio
import base64
import mimetypes
from collections.abc import Awaitable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from twofold.client.feed import Watchers
from twofold.convert.turns import CANCELLED, OpenTurn, failed_turn
from twofold.errors import ConnectionClosed, ConnectionEnded, LocalError, NotSupported
from twofold.peer.inbox import Inbox
from twofold.peer.problems import Problem
from twofold.rpc.errors import INTERNAL_ERROR, RequestFailed
from twofold.session import Draft, Message
from twofold.session.state import Entry
from twofold.wire import v1, v2
from twofold.wire.base import UNSET, Extras
from twofold.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from twofold.wire.shared import Error, Usage

# What a person or a program wants to say → the blocks of a prompt.
#
# Text, files and content blocks; only what the agent said it can take. A file becomes an image or a
# sound where it is one, a resource with its text where the agent takes those, and a link otherwise.
# Anything that the agent cannot take is refused here, before it is sent.


Part: TypeAlias = str | PathLike[str] | ContentBlock
"""What a prompt may be made of: text, the path of a file, a content block."""

EMBEDDED = 256 * 1024
"""Texts up to this size travel inside the prompt; larger ones as a link."""
PLAYED = 20 * 1024 * 1024
"""Images and sounds up to this size travel inside the prompt; larger ones as a link."""

_NEEDS: dict[type, tuple[str, str]] = {
    ImageContent: ("image", "images"),
    AudioContent: ("audio", "audio"),
    EmbeddedResource: ("embedded_context", "embedded resources"),
}


class FileNotReadable(LocalError):
    """A file that should go with the prompt cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot go with the prompt: {reason}")
        self.path = path
        self.reason = reason


def blocks_of(
    parts: tuple[Part, ...], able: v2.PromptCapabilities, agent: str
) -> list[ContentBlock]:
    """The blocks of a prompt; raises `NotSupported` for what the agent cannot take."""
    blocks = [_block(part, able) for part in parts if part != ""]
    if not blocks:
        raise LocalError("A prompt needs some content.")
    for block in blocks:
        capability, words = _NEEDS.get(type(block), ("", ""))
        if capability and not getattr(able, capability):
            raise NotSupported(
                f"{agent} does not take {words} in prompts. Send text or a link instead."
            )
    return blocks


def _block(part: Part, able: v2.PromptCapabilities) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(part)
    if isinstance(part, PathLike):
        return _file(Path(part).absolute(), able)
    if not isinstance(part, ContentBlock):
        raise LocalError(
            f"A prompt is made of text, paths and content blocks, not of {type(part).__name__}."
        )
    return part


def _file(path: Path, able: v2.PromptCapabilities) -> ContentBlock:
    kind = mimetypes.guess_type(path.name)[0] or ""
    try:
        size = path.stat().st_size
        if not path.is_file():  # a directory, or a pipe that would make us wait
            return ResourceLink(path.name, path.as_uri())
        return _inside(path, kind, size, able) or ResourceLink(
            path.name, path.as_uri(), mime_type=kind or UNSET, size=size
        )
    except OSError as error:
        raise FileNotReadable(path, error.strerror or str(error)) from None


def _inside(path: Path, kind: str, size: int, able: v2.PromptCapabilities) -> ContentBlock | None:
    """The file itself, if it may travel inside the prompt."""
    if size <= PLAYED:
        # a drawing in XML is no picture to a model, but a text
        if able.image and kind.startswith("image/") and not kind.endswith("+xml"):
            return ImageContent(_base64(path), kind, uri=path.as_uri())
        if able.audio and kind.startswith("audio/"):
            return AudioContent(_base64(path), kind)
    if able.embedded_context and size <= EMBEDDED:
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            return None  # not text: a link says where it is
        return EmbeddedResource(TextResourceContents(text, path.as_uri(), kind or UNSET))
    return None


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


if TYPE_CHECKING:
    from twofold.client.session import ClientSession

GIVE_UP = 30.0
"""How many seconds an agent has to end a turn that was cancelled."""
SETTLE = 1.0
"""How many seconds after an idle that no work led up to work may still begin, if something was
said; an answer to the prompt may come after the end of its turn by as much."""
SETTLE_SILENT = 10.0
"""The same, if the agent has said nothing yet."""


class TurnFailed(RequestFailed):
    """The agent ended a turn with an error; `error` is None if it did not say which."""

    def __init__(self, error: Error | None) -> None:
        told = error or Error(INTERNAL_ERROR, "the agent did not say why the turn failed")
        super().__init__("session/prompt", told.code, told.message, told.data)
        self.error = error


class Reply(Struct):
    """What came of a prompt."""

    stop_reason: str
    """`end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled` or a newer word."""
    entries: list[Entry]
    """The messages, thoughts and tool calls that the turn brought, the prompt among them."""
    usage: Usage | None = None
    given_up: bool = False
    """The turn was cancelled, and the agent did not end it in time."""

    @property
    def text(self) -> str:
        """What the agent said; a blank line stands between two messages."""
        said = (
            entry.text
            for entry in self.entries
            if isinstance(entry, Message) and entry.role == "agent"
        )
        return "\n\n".join(filter(None, said))


class Turn(Struct, eq=False):
    """A prompt, and what it waits for."""

    blocks: list[ContentBlock]
    end: asyncio.Future[v2.StateUpdate]
    open: OpenTurn | None = None
    """What was heard of it; None until it was sent and what came before that is handled."""
    sent: bool = False
    answered: bool = False
    start: int | None = None
    """How many entries there were before."""
    stop: int | None = None
    """How many entries there were at its end."""
    before: v2.StateUpdate | None = None
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

    def __init__(self, session: "ClientSession", watchers: Watchers) -> None:
        self._session = session
        self._watchers = watchers
        self._open: list[Turn] = []
        self._one = asyncio.Lock()  # version 1 has one turn at a time

    @property
    def going_on(self) -> bool:
        """Whether a prompt waits for the end of its turn."""
        return bool(self._open)

    @property
    def begun(self) -> bool:
        """Whether a prompt was sent whose turn has not ended, as far as updates were handled."""
        return any(turn.open is not None and not turn.end.done() for turn in self._open)

    # ---- prompts

    async def prompt(self, blocks: list[ContentBlock]) -> Reply:
        """Send a prompt and wait for the end of its turn; a cancelled task cancels the turn."""
        turn = Turn(blocks, asyncio.get_running_loop().create_future())
        self._open.append(turn)
        work = self._session.client.in_background(self._work(turn))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if not turn.sent:
                turn.over(CANCELLED)
            elif not turn.end.done():
                self.stop()  # it goes on until the agent has ended it
            raise

    async def _work(self, turn: Turn) -> Reply:
        try:
            if self._session.upgrader is None:
                await self._play(turn)
            else:
                async with self._one:
                    await self._play(turn)
        finally:
            self._open.remove(turn)
        return self._reply(turn, turn.end.result())

    async def _play(self, turn: Turn) -> None:
        if turn.end.done():
            return  # it was cancelled while it waited
        self._session.check_open()
        await self._silence(turn)
        asking = asyncio.create_task(self._ask(turn))
        try:
            await turn.end
        finally:
            # version 2 may still answer a prompt whose turn is over; nobody else will
            late = turn.failure is None and not turn.given_up
            await _finished(asking, SETTLE if late else 0)

    async def _silence(self, turn: Turn) -> None:
        """Wait until what comes after the answer to new or load has come: it is no reply."""
        await self._watchers.silence(turn.end)
        self._watchers.stop_silence()
        self._session.check_open()

    async def _ask(self, turn: Turn) -> None:
        def arrived(outcome: Any) -> Inbox:
            turn.answered = True
            self._session.inbox.put(self._answered, (turn, outcome))
            return self._session.inbox

        if turn.end.done():
            return
        turn.sent = True  # from here on a cancel comes after the prompt on the wire
        self._session.inbox.put(self._begin, turn)
        request = v2.PromptRequest(self._session.session_id, turn.blocks)
        try:
            await self._session.client.call("session/prompt", request, arrived=arrived)
        except Exception as error:
            if not turn.answered:  # it could not be sent
                self._session.inbox.put(self._answered, (turn, error))

    def _begin(self, turn: Turn) -> Awaitable[None] | None:
        """The prompt, in its place among the updates."""
        state, upgrader = self._session.state, self._session.upgrader
        others = any(each.sent and not each.end.done() for each in self._open if each is not turn)
        turn.open = OpenTurn(others or state.state != "idle")
        turn.open.echo.expect(turn.blocks)
        turn.start, turn.before = len(state.entries), state.state_update
        if upgrader is not None:
            return self._session.apply_all(upgrader.prompt(turn.blocks))
        self._session.prompted()
        return None

    def _reply(self, turn: Turn, state: v2.StateUpdate) -> Reply:
        if turn.failure is not None:
            raise turn.failure
        if state.stop_reason == "error":
            raise TurnFailed(state.error or None)
        brought = slice(turn.start, turn.stop)
        entries = [] if turn.start is None else self._session.state.entries[brought]
        reason = state.stop_reason or "end_turn"
        return Reply(reason, entries, state.usage or None, turn.given_up)

    # ---- what the agent says of them

    def heard(self, update: v2.UserMessage | v2.UserMessageChunk) -> None:
        """A user message: it may be a prompt of ours, but not two of them."""
        heard = [turn.open for turn in self._open if turn.open is not None]
        if any(each.message_id == update.message_id for each in heard):
            return
        for each in heard:
            if not each.inserted and each.echoed(update):
                return

    def reported(self, update: v2.StateUpdate) -> list[v2.SessionUpdate]:
        """The agent of version 2 said what it is doing; what there is to apply."""
        ahead = False
        for turn in self._open:
            if turn.open is None:
                continue
            if update.state == "idle" and turn.open.busy and not turn.open.inserted:
                # what ended is other work: an agent may hold a prompt until then
                turn.open.busy, turn.open.running = ahead, False
                turn.start = len(self._session.state.entries)
            else:
                turn.open.report(update)
            if self._look(turn, turn.open, update):
                self._session.inbox.put_next(self._over, (turn, update))
            else:
                ahead = True
        return [update] if update.state != "idle" else [*self._left_open(), update]

    def _answered(self, answer: tuple[Turn, Any]) -> Awaitable[None] | None:
        """The prompt was answered, with a result or with an error."""
        turn, outcome = answer
        if turn.end.done():
            return None  # and then the agent went, or answered what was given up
        if isinstance(outcome, Exception):
            return self._failed(turn, outcome)
        if isinstance(outcome, v1.PromptResponse) and self._session.upgrader is not None:
            return self._end(turn, self._session.upgrader.finished(outcome))
        if isinstance(outcome, v2.PromptResponse):
            self._session.state.draft = Draft.NOVEMBER  # only November names the message
        elif (reason := _stop_reason(outcome)) is not None:
            return self._end(turn, v2.StateUpdate("idle", reason))
        if turn.open is not None:
            turn.open.accepted(outcome)
            self._look(turn, turn.open, self._session.state.state_update)
            if turn.open.end is not None:
                self._over((turn, turn.open.end))
        return None

    def _look(self, turn: Turn, opened: OpenTurn, state: v2.StateUpdate) -> bool:
        """Whether a turn of version 2 is over."""
        if opened.end is not None:
            return True
        if opened.inserted and state.state == "idle" and state is not turn.before:
            # No work led up to this idle. If none follows, it was the end all the same.
            if turn.settling is not None:
                turn.settling.cancel()
            wait = SETTLE if self._said_something(turn) else SETTLE_SILENT
            loop = asyncio.get_running_loop()
            turn.settling = loop.call_later(wait, self._still_idle, turn)
        return False

    def _said_something(self, turn: Turn) -> bool:
        brought = self._session.state.entries[turn.start or 0 :]
        return any(not isinstance(entry, Message) or entry.role != "user" for entry in brought)

    def _still_idle(self, turn: Turn) -> None:
        state = self._session.state.state_update
        if state.state == "idle" and turn.open is not None and not turn.open.running:
            self._over((turn, state))

    # ---- ends

    def _end(self, turn: Turn, idle: v2.StateUpdate) -> Awaitable[None] | None:
        self._session.inbox.put_next(self._over, (turn, idle))
        return self._session.apply_all([*self._left_open(), idle])

    def _over(self, ended: tuple[Turn, v2.StateUpdate]) -> None:
        turn, idle = ended
        if not turn.end.done():
            turn.stop = len(self._session.state.entries)
            turn.over(idle)

    def _failed(self, turn: Turn, error: Exception) -> Awaitable[None] | None:
        idle = v2.StateUpdate("idle", "error", Error(INTERNAL_ERROR, str(error)))
        if isinstance(error, RequestFailed):
            told = Error(error.code, error.message, error.data)
            idle = failed_turn(told, cancelling=self._session.state.cancelling)
            if idle is not CANCELLED and self._session.upgrader is not None:
                error = TurnFailed(told)  # version 1 has no other way to say so
        if idle is not CANCELLED:
            turn.failure = error
        gone = isinstance(error, ConnectionEnded | ConnectionClosed)
        if self._session.upgrader is None and self._session.state.state != "idle" and not gone:
            self._over(
                (turn, idle)
            )  # other work goes on: what the session does is for the agent to say
            return None
        return self._end(turn, idle)

    def fail(self, error: Exception) -> None:
        """The session is gone: every turn ends with `error`."""
        for turn in self._open:
            if turn.sent and not turn.end.done():
                self._session.inbox.put(self._answered, (turn, error))

    # ---- cancelling

    async def cancel(self, give_up: float) -> None:
        """Stop the turns that go on, and wait until they have ended."""
        turns = self.stop(give_up)
        if turns:
            await asyncio.wait({turn.end for turn in turns})

    def stop(self, give_up: float = GIVE_UP) -> list[Turn]:
        """Ask the agent to stop; after `give_up` seconds the turns are given up."""
        session, turns = self._session, []
        for turn in self._open:
            if not turn.sent:
                turn.over(CANCELLED)
            elif not turn.end.done():
                turns.append(turn)
        if session.closed or not (
            turns or session.state.state != "idle" or session.permissions.pending
        ):
            return []
        session.client.tell("session/cancel", v2.SessionParams(session.session_id))
        if turns or session.state.state != "idle":
            session.state.cancel()
        session.permissions.cancel()
        session.inbox.put(lambda _: session.apply_all(self._left_open()), None)
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
        """Tool calls that a cancelled turn leaves open are shown as cancelled."""
        return self._session.state.cancelled_calls()

    def _give_up(self, turn: Turn) -> None:
        if turn.end.done():
            return
        text = "The agent did not end the cancelled turn in time; it was given up"
        self._session.client.report(Problem("stuck", text, self._session.session_id))
        turn.given_up = True
        self._session.inbox.put(
            lambda idle: self._session.apply_all([*self._left_open(), idle]), CANCELLED
        )
        self._over((turn, CANCELLED))  # also if a handler is stuck: this is the limit


def _stop_reason(result: Any) -> str | None:
    """The stop reason of an agent that claims version 2 and answers a prompt as version 1 does."""
    if isinstance(result, v2.JunePromptResponse) and isinstance(result.unknown, Extras):
        reason = result.unknown.fields.get("stopReason")
        return reason if isinstance(reason, str) else None
    return None


async def _finished(asking: asyncio.Task[None], seconds: float) -> None:
    """The turn is over: an answer to the prompt that is still missing is not waited for long."""
    if not asking.done():
        await asyncio.wait({asking}, timeout=seconds)
    if not asking.done():
        asking.cancel()
        await asyncio.wait({asking}, timeout=SETTLE)
