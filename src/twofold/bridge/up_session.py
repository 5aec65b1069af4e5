"""What a bridge remembers of a session between a client of version 2 and an agent of version 1."""

from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from twofold.bridge.lifting import Lifting
from twofold.bridge.translation import Silence, Timer
from twofold.rpc.messages import RequestId
from twofold.wire import v1
from twofold.wire.content import ContentBlock
from twofold.wire.shared import SessionInfoUpdate, UsageUpdate

Muted: TypeAlias = Literal["", "replay", "late replay", "closed"]
"""Why updates are kept from the client: it did not ask for a replay, or is done with the session.

Some agents replay after they have answered, some the first half before and the second half after
it: until the next prompt, what they say is the past.
"""

# What is said of a session as it is now, and not of its past
_NEWS = (
    v1.AvailableCommandsUpdate,
    v1.ConfigOptionUpdate,
    v1.CurrentModeUpdate,
    v1.DocumentedCurrentModeUpdate,
    v1.Notice,
    SessionInfoUpdate,
    UsageUpdate,
)


class Prompt(Struct, eq=False):
    """A prompt of the client, in the words of version 1."""

    identity: RequestId
    params: v1.PromptRequest
    shown: list[ContentBlock]


class Turn(Struct, eq=False):
    """The prompt that the agent works on."""

    prompt: Prompt
    message_id: str
    at_agent: RequestId = 0
    acknowledged: bool = False
    cancelled: bool = False
    over: bool = False
    """The client was told its end; the agent has not said it yet."""
    timer: Timer | None = None


class Question(Struct, eq=False):
    """What the user was asked."""

    turn: Turn | None
    dismiss: Callable[[], None]
    """Answers whoever asked, if the turn is cancelled."""


class UpSession(Struct, eq=False):
    """What has to be remembered of a session."""

    session_id: str
    head: bytes
    """How every line that tells an update of it begins."""
    upgrader: Lifting
    roots: list[str] = field(default_factory=list)
    """The directories that it may touch; the first is where it works."""
    turn: Turn | None = None
    waiting: deque[Prompt] = field(default_factory=deque)
    asking: dict[RequestId, Question] = field(default_factory=dict)
    """Questions that the user has not answered yet, by their ids at the client."""
    muted: Muted = ""
    settling: Silence | None = None
    """The agent has loaded the session, and the rest of its replay is waited for."""

    def asked_in(self, turn: Turn) -> list[RequestId]:
        """The open questions that came up in `turn`."""
        return [here for here, question in self.asking.items() if question.turn is turn]

    def keeps(self, update: v1.SessionUpdate) -> bool:
        """Whether a session that is muted keeps `update` from the client."""
        return self.muted == "closed" or not isinstance(update, _NEWS)

    def in_use(self) -> None:
        """The client wants something of it again."""
        if self.muted == "closed":
            self.muted = ""
