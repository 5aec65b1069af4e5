"""How a prompt lives and ends, in each version.

Version 1 answers `session/prompt` when the turn is over, with a stop reason, and runs one turn at
a time. Version 2 answers when the agent has inserted the prompt into the session, shows the prompt
as a user message, and ends the turn with an idle `state_update`.

The rules are pure. A driver (a client, a bridge, a converter of recordings) reports what was sent
and received, and asks which turns are over. The driver keeps the clock: `OpenTurn.may_be_over`
returns true for a turn that is over if no work begins within some seconds.
"""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct, field

from twofold.convert.losses import Losses, carried
from twofold.rpc.errors import INTERNAL_ERROR, REQUEST_CANCELLED
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Extras, Malformed, known_values
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Error

CANCELLED: Final = v2.StateUpdate("idle", "cancelled")
"""The end of a turn that was cancelled."""

STOP_REASONS: Final = frozenset(known_values(v1.StopReason))
"""The stop reasons that version 1 has."""


# ---- the echo of a prompt ------------------------------------------------------------------


class Echo:
    """The part of a prompt that the agent has not repeated yet."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: list[ContentBlock] = []

    def expect(self, prompt: list[ContentBlock]) -> None:
        """Expect the echo of a prompt, from its beginning."""
        self._expected = list(prompt)

    def __bool__(self) -> bool:
        """Whether a part of the echo is still expected."""
        return bool(self._expected)

    def forget(self) -> None:
        """Expect no echo any more."""
        self._expected = []

    def swallows(self, block: ContentBlock) -> bool:
        """Whether `block` is the next piece of the echo; an agent may cut text anywhere."""
        if not self._expected:
            return False
        expected = self._expected[0]
        if block == expected:
            del self._expected[0]
            return True
        if (
            isinstance(block, TextContent)
            and isinstance(expected, TextContent)
            and block.text
            and expected.text.startswith(block.text)
        ):
            rest = expected.text[len(block.text) :]
            self._expected[:1] = [TextContent(rest)] if rest else []
            return True
        self._expected = []
        return False


# ---- version 1 → version 2: the answer to a prompt becomes an idle state ----------------------


def ended_turn(response: v1.PromptResponse, losses: Losses) -> v2.StateUpdate:
    """The end of a turn whose prompt a version 1 agent answered."""
    return v2.StateUpdate(
        "idle",
        response.stop_reason,
        usage=UNSET if response.usage is None else response.usage,
        **carried(response, v2.StateUpdate, losses, ""),
    )


def failed_turn(error: Error, *, cancelling: bool) -> v2.StateUpdate:
    """The end of a turn whose prompt was answered with an error, in either version.

    Some agents end a cancelled turn with an error: then the turn was cancelled.
    """
    if cancelling or error.code == REQUEST_CANCELLED:
        return CANCELLED
    return v2.StateUpdate("idle", "error", error)


def as_error(value: Any) -> Error:
    """The error object of a failed request; one that is malformed is kept as it was sent."""
    try:
        error: Error = codec.read(value, Error)
    except Malformed:
        return Error(INTERNAL_ERROR, "unknown error", unknown=Extras({"sent": value}))
    return error


# ---- version 2 → version 1: an idle state becomes the answer to a prompt ----------------------


def prompt_answer(
    idle: v2.StateUpdate, losses: Losses, *, cancelled: bool = False, path: str = ""
) -> v1.PromptResponse | Error:
    """The answer that a version 1 client gets for a prompt whose turn ended with `idle`.

    Args:
        idle: The state that ended the turn.
        losses: Where a stop reason is reported that version 1 does not have.
        cancelled: The client cancelled the turn.
        path: Where `idle` is in its message; the first part of the paths of losses.
    """
    at = f"{path}." if path else ""
    reason = idle.stop_reason
    if cancelled and (not reason or reason == "error"):
        # v1: a cancelled turn ends as cancelled, whatever the cancel broke
        if reason and not (idle.error and idle.error.code == REQUEST_CANCELLED):
            losses.note(f"{at}error", "a cancelled turn of version 1 has no error")
        reason = "cancelled"
    if reason == "error":
        for name, value in (("usage", idle.usage), ("_meta", idle.meta)):
            if value:
                losses.note(f"{at}{name}", "an error of version 1 has no place for it")
        return idle.error or Error(INTERNAL_ERROR, "The turn ended with an error")
    if reason not in STOP_REASONS:
        losses.report(f"{at}stopReason", f"version 1 has no stop reason {reason!r}")
        reason = "end_turn"
    rest = carried(idle, v1.PromptResponse, losses, path)
    return v1.PromptResponse(reason, idle.usage or UNSET, **rest)


def premature_stop_reason(result: Any) -> str | None:
    """The stop reason in a version 2 answer to a prompt.

    Version 2 has none there. Agents that claim version 2 and answer as version 1 does end the turn
    with it.
    """
    if isinstance(result, v2.JunePromptResponse) and isinstance(result.unknown, Extras):
        reason = result.unknown.fields.get("stopReason")
        return reason if isinstance(reason, str) else None
    return None


# ---- version 2: the turns that are open in a session ------------------------------------------


class OpenTurn(Struct, eq=False):
    """A prompt that was sent to a version 2 agent and whose turn has not ended.

    A driver that needs more of a turn (the id of a request, a timer) adds fields in a subclass.
    """

    busy: bool = False
    """Other work goes on: its end is not the end of this turn."""
    echo: Echo = field(default_factory=Echo)
    message_id: str = ""
    """The id of the prompt's user message, as soon as the agent has sent it."""
    inserted: bool = False
    """The agent inserted the prompt: it answered the request, or repeated the prompt."""
    running: bool = False
    """Work has been reported since the prompt was sent, or since other work ended."""
    idle: v2.StateUpdate | None = None
    """How that work ended."""
    prompt: list[ContentBlock] = field(default_factory=list)
    before: v2.StateUpdate | None = None
    """The state of the session when the prompt was sent."""
    queued: bool = False
    """The session was busy when the prompt was sent."""
    cancelled: bool = False
    """A cancel was sent after the prompt."""

    def accepted(self, result: Any) -> None:
        """Record the agent's answer to the prompt; it is not the end of the turn.

        Args:
            result: The decoded result; None for one that could not be decoded.
        """
        self._insert()
        if isinstance(result, v2.PromptResponse):
            self.message_id = result.message_id
        elif (reason := premature_stop_reason(result)) is not None:
            self.idle = v2.StateUpdate("idle", reason)

    @property
    def held(self) -> bool:
        """Whether the agent may hold the prompt back until other work ends."""
        return self.busy and not self.inserted

    def _insert(self) -> None:
        if self.held:
            # an idle state before was the end of the other work
            self.running, self.idle = False, None
        self.inserted = True

    def report(self, state: v2.StateUpdate, *, ahead: bool = False) -> None:
        """Record a state of the session.

        Args:
            state: The state that the agent reported.
            ahead: A prompt that was sent before this one is still open.
        """
        if state.state != "idle":
            self.running, self.idle = True, None
        elif self.held:
            self.busy, self.running = ahead, False  # other work ended
        elif self.running or self.busy:
            self.idle = state  # any other idle is a snapshot, or the end of something else

    @property
    def end(self) -> v2.StateUpdate | None:
        """How the turn ended; None while it goes on."""
        return self.idle if self.inserted else None

    def may_be_over(self, state: v2.StateUpdate) -> bool:
        """Whether the turn is over unless work begins soon.

        The session, whose state is `state`, became idle since the prompt was sent, but no work was
        reported before: some agents report none, others report it late.
        """
        return (
            self.inserted
            and not self.running
            and state.state == "idle"
            and state is not self.before
        )

    def echoed(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a user message is this prompt: by its id, else by its content."""
        if self.message_id:
            return self.message_id == update.message_id
        blocks: list[ContentBlock] = (
            list(update.content or []) if isinstance(update, v2.UserMessage) else [update.content]
        )
        if not blocks:
            return False
        if not all(self.echo.swallows(block) for block in blocks):
            self.echo.expect(self.prompt)  # another message came first
            return False
        self._insert()
        self.message_id = update.message_id
        return True

    def repeats(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a user message that is this prompt has the content of the prompt."""
        if update.meta or update.unknown is not UNSET:
            return False
        if isinstance(update, v2.UserMessageChunk):
            return self.echo.swallows(update.content)
        if update.content is not UNSET and not update.content:
            self.echo.expect(self.prompt)  # its content follows in chunks
            return True
        self.echo.forget()
        return update.content is UNSET or update.content == self.prompt


T = TypeVar("T", bound=OpenTurn)


class OpenTurns(Generic[T]):
    """The open turns of one version 2 session, in the order in which their prompts were sent."""

    __slots__ = ("_turns", "state")

    def __init__(self) -> None:
        self._turns: list[T] = []
        self.state = v2.StateUpdate("idle")
        """The last state that the agent reported."""

    def __iter__(self) -> Iterator[T]:
        """Iterate over a copy: turns may be ended meanwhile."""
        return iter(self._turns[:])

    def __len__(self) -> int:
        return len(self._turns)

    def prompted(self, turn: T, prompt: list[ContentBlock]) -> None:
        """A prompt was sent: `turn` is open from now on."""
        turn.prompt, turn.before = prompt, self.state
        turn.busy = turn.queued = bool(self._turns) or self.state.state != "idle"
        turn.echo.expect(prompt)
        self._turns.append(turn)

    def user_message(self, update: v2.UserMessage | v2.UserMessageChunk) -> tuple[T | None, bool]:
        """Find the prompt that a user message is.

        Returns:
            The turn of the prompt, None for any other message; and whether the message has the
            content of the prompt, so that a client which shows its prompt itself misses nothing.
        """
        for turn in self._turns:
            if turn.message_id and turn.message_id == update.message_id:
                return turn, turn.repeats(update)
        for turn in self._turns:
            if not turn.message_id and turn.echoed(update):
                return turn, True
        return None, False

    def report(self, state: v2.StateUpdate) -> list[T]:
        """Record a state of the session, and return the turns that it ends."""
        self.state = state
        ahead = False
        for turn in self._turns:
            turn.report(state, ahead=ahead)
            ahead = ahead or turn.end is None
        return [turn for turn in self._turns if turn.end is not None]

    def cancel(self) -> None:
        """A cancel was sent: it is meant for all the turns that are open."""
        for turn in self._turns:
            turn.cancelled = True

    def close(self, turn: T) -> bool:
        """The driver is done with `turn`; false if it was done with it before."""
        if turn not in self._turns:
            return False
        self._turns.remove(turn)
        return True
