"""What is done to a session, as data: its inputs, in order, rebuild it exactly.

A snapshot rebuilds what the agent sent. The inputs also rebuild what happened beside that: open
questions and their answers, prompts, cancels, replays. `LoggedSession` passes each on as it is
applied; one that failed left the session unchanged and is not passed on.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, assert_never

from twofold.session.changes import Changes
from twofold.session.reduce import Session
from twofold.session.state import Draft
from twofold.wire import v2


class Applied(NamedTuple):
    """An update was applied."""

    update: v2.SessionUpdate


class Asked(NamedTuple):
    """The agent asked for a permission."""

    request_id: int | str
    request: v2.RequestPermissionRequest


class Settled(NamedTuple):
    """A permission request was answered; without an outcome it was withdrawn."""

    request_id: int | str
    outcome: v2.RequestPermissionOutcome | None


class Prompted(NamedTuple):
    """A prompt was sent."""


class Cancelled(NamedTuple):
    """A cancel was sent."""


class Replayed(NamedTuple):
    """A replay is complete."""


class DraftKnown(NamedTuple):
    """The draft of version 2 that the agent speaks became known."""

    draft: Draft


class StartedOver(NamedTuple):
    """A replay of the whole session is about to come: its transcript was dropped."""


Input: TypeAlias = (
    Applied | Asked | Settled | Prompted | Cancelled | Replayed | DraftKnown | StartedOver
)
OnInput: TypeAlias = Callable[[Input, Changes], None]
"""Called with an input that was applied, and with what it changed."""


def put(session: Session, given: Input) -> tuple[Session, Changes]:
    """Do to a session what was done to another one.

    Returns:
        The session, which is another object if it started over, and what changed.

    Raises:
        NotBase64: The input is an update that cannot be applied. The session is unchanged.
    """
    match given:
        case Applied(update):
            return session, session.apply(update)
        case Asked(request_id, request):
            return session, session.ask(request_id, request)
        case Settled(request_id, outcome):
            return session, session.settle(request_id, outcome)
        case Prompted():
            return session, session.prompted()
        case Cancelled():
            session.cancel()
        case Replayed():
            return session, session.replayed()
        case DraftKnown(draft):
            session.use_draft(draft)
        case StartedOver():
            return session.without_transcript(), ()
        case _:
            assert_never(given)
    return session, ()


class LoggedSession(Session):
    """A session that passes on what is done to it.

    Args:
        session_id: The id of the session.
        on_input: Called with each input after it was applied, and with what it changed.
        draft: As for `Session`.
    """

    __slots__ = ("on_input",)

    def __init__(self, session_id: str, on_input: OnInput, draft: Draft = Draft.JUNE) -> None:
        super().__init__(session_id, draft)
        self.on_input = on_input

    def apply(self, update: v2.SessionUpdate) -> Changes:
        """As `Session.apply`."""
        changes = super().apply(update)
        self.on_input(Applied(update), changes)
        return changes

    def ask(self, request_id: int | str, request: v2.RequestPermissionRequest) -> Changes:
        """As `Session.ask`."""
        changes = super().ask(request_id, request)
        self.on_input(Asked(request_id, request), changes)
        return changes

    def settle(
        self, request_id: int | str, outcome: v2.RequestPermissionOutcome | None = None
    ) -> Changes:
        """As `Session.settle`."""
        changes = super().settle(request_id, outcome)
        self.on_input(Settled(request_id, outcome), changes)
        return changes

    def cancel(self) -> None:
        """As `Session.cancel`."""
        super().cancel()
        self.on_input(Cancelled(), ())

    def prompted(self) -> Changes:
        """As `Session.prompted`."""
        changes = super().prompted()
        self.on_input(Prompted(), changes)
        return changes

    def replayed(self) -> Changes:
        """As `Session.replayed`."""
        changes = super().replayed()
        self.on_input(Replayed(), changes)
        return changes

    def use_draft(self, draft: Draft) -> None:
        """As `Session.use_draft`."""
        if draft is not self.draft:
            super().use_draft(draft)
            self.on_input(DraftKnown(draft), ())

    def without_transcript(self) -> "LoggedSession":
        """As `Session.without_transcript`; the new session is logged, too."""
        after = LoggedSession(self.session_id, self.on_input, self.draft)
        self.keep_settings(after)
        self.on_input(StartedOver(), ())
        return after
