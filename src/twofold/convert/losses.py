"""What a conversion could not carry, and why.

Best effort (the default) carries on and lists every loss; strict refuses at the first. Some things
must not be converted at all, whatever the mode: dropping them would be silent.
"""

from msgspec import Struct

from twofold.errors import TwofoldError


class Loss(Struct, frozen=True):
    """Something that the other version cannot say."""

    path: str
    """Where in the message, e.g. `update.status`."""
    reason: str


class NotConvertible(TwofoldError):
    """The other version has no way to say this, and leaving it out would change the session."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Losses(list[Loss]):
    """Where a conversion reports; `strict` turns every report into a refusal."""

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__()
        self.strict = strict

    def report(self, path: str, reason: str) -> None:
        """Something was left out or changed."""
        if self.strict:
            raise NotConvertible(path, reason)
        self.append(Loss(path, reason))

    def refuse(self, path: str, reason: str) -> NotConvertible:
        """The error for something that must not be converted: `raise losses.refuse(…)`."""
        return NotConvertible(path, reason)
