"""What a bridge remembers of a session between a client of version 1 and an agent of version 2."""

from typing import Any

from msgspec import UNSET, Struct, field

from twofold.bridge.lowering import Lowering
from twofold.bridge.translation import Silence, Timer
from twofold.convert.options import MODE
from twofold.convert.turns import OpenTurn
from twofold.rpc.messages import RequestId
from twofold.wire import v2
from twofold.wire.content import ContentBlock


class DownTurn(OpenTurn, kw_only=True, eq=False):
    """A prompt of the client that waits for the end of its turn."""

    identity: RequestId
    prompt: list[ContentBlock]
    before: v2.StateUpdate
    """What the session did when it was sent."""
    at_agent: RequestId = 0
    cancelled: bool = False
    withdrawn: bool = False
    """The client does not want it any more, and the agent has not taken it in yet."""
    settling: Timer | None = None
    wait: float = float("inf")
    """How long it may take to settle."""

    def accepted(self, result: Any) -> None:
        """The prompt was answered."""
        if not self.inserted:
            self._taken_in()
        OpenTurn.accepted(self, result)

    def echoed(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a user message is this prompt."""
        before = self.inserted
        found = OpenTurn.echoed(self, update)
        if found and not before:
            self._taken_in()
        if not found and not self.message_id:
            self.echo.expect(self.prompt)  # another message came first
        return found

    def _taken_in(self) -> None:
        """What ended before the prompt was taken in was other work."""
        if self.busy:
            self.running, self.idle = False, None

    def repeated(self, update: v2.UserMessage | v2.UserMessageChunk) -> bool:
        """Whether a message that is this prompt says what the prompt said."""
        if update.meta or update.unknown is not UNSET:
            return False
        if isinstance(update, v2.UserMessageChunk):
            return self.echo.swallows(update.content)
        if update.content is not UNSET and not update.content:
            self.echo.expect(self.prompt)  # it is told again, piece by piece
            return True
        self.echo.forget()
        return update.content is UNSET or update.content == self.prompt

    def idle_since(self, state: v2.StateUpdate) -> bool:
        """Whether the session became idle since the prompt was sent, without any work."""
        return not self.running and state.state == "idle" and state is not self.before


class DownSession(Struct, eq=False):
    """What has to be remembered of a session."""

    session_id: str
    head: bytes
    lowering: Lowering
    turns: list[DownTurn] = field(default_factory=list)
    state: v2.StateUpdate = field(default_factory=lambda: v2.StateUpdate("idle"))
    cancelling: bool = False
    """A cancel was sent, and what it is to end has not ended yet."""
    own: dict[str, None] = field(default_factory=dict)
    """The messages that were the client's own prompts, in turns that are over."""
    options: list[v2.SessionConfigOption] = field(default_factory=list)
    mode_option: str = MODE
    """The option that stands for version 1's modes."""
    spoke: bool = False
    """The agent has said something since the last prompt was sent."""
    gathering: Timer | None = None
    complete: bool = True
    """The state came, with which a replay ends."""
    settling: Silence | None = None
    """The agent has resumed the session, and the rest of its replay is waited for."""


class Question(Struct, eq=False):
    """What the agent asked the user."""

    identity: RequestId
    """The agent's own id of it."""
    session: DownSession | None
    dismissed: Any
    """The answer if nobody will give one."""
