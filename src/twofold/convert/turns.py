"""When a turn is over, and how it ended.

Version 2 answers a prompt when it was inserted and tells the end of the turn by an idle state. An
idle is the end of a turn only if work went on since the prompt was sent: any other is a snapshot,
or the end of something else. A prompt that is answered with an error ends its turn in either
version.
"""

from typing import Any, Final

from msgspec import Struct, field

from twofold.rpc.errors import REQUEST_CANCELLED
from twofold.wire import v2
from twofold.wire.content import ContentBlock, TextContent
from twofold.wire.shared import Error

# Whether a user message only repeats the prompt that was just sent.


class Echo:
    """The part of a prompt that has not been repeated yet."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: list[ContentBlock] = []

    def expect(self, prompt: list[ContentBlock]) -> None:
        """A prompt was sent: its echo may follow."""
        self._expected = list(prompt)

    def __bool__(self) -> bool:
        """Whether an echo may still come."""
        return bool(self._expected)

    def forget(self) -> None:
        """Whatever comes now is no echo."""
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


CANCELLED: Final = v2.StateUpdate("idle", "cancelled")
"""The end of a turn that was cancelled."""


def failed_turn(error: Error, *, cancelling: bool) -> v2.StateUpdate:
    """The end of a turn whose prompt was answered with an error.

    An error that follows a cancel is how some agents end what was cancelled.
    """
    if cancelling or error.code == REQUEST_CANCELLED:
        return CANCELLED
    return v2.StateUpdate("idle", "error", error)


class OpenTurn(Struct):
    """A prompt that an agent of version 2 works on."""

    busy: bool
    """Work was going on already when the prompt was sent."""
    echo: Echo = field(default_factory=Echo)
    message_id: str = ""
    inserted: bool = False
    """The agent took the prompt in: it said so, or repeated it."""
    running: bool = False
    """Work has been going on since the prompt was sent."""
    idle: v2.StateUpdate | None = None
    """How that work ended."""

    def accepted(self, result: Any) -> None:
        """The prompt was answered."""
        self.inserted = True
        if isinstance(result, v2.PromptResponse):
            self.message_id = result.message_id

    def report(self, state: v2.StateUpdate) -> None:
        """The session said what it is doing."""
        if state.state != "idle":
            self.running, self.idle = True, None
        elif self.running or (self.busy and self.inserted):
            self.idle = state  # any other idle is a snapshot, or the end of something else

    @property
    def end(self) -> v2.StateUpdate | None:
        """How the turn ended; None while it goes on."""
        return self.idle if self.inserted else None

    def echoed(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a user message is this prompt."""
        if self.message_id:
            return self.message_id == update.message_id
        blocks: list[ContentBlock] = (
            list(update.content or []) if isinstance(update, v2.UserMessage) else [update.content]
        )
        if not blocks or not all(self.echo.swallows(block) for block in blocks):
            return False
        self.message_id, self.inserted = update.message_id, True
        return True
