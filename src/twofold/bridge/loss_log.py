"""What a bridge could not carry, told to people: each kind once, and all of it to a file.

Nothing is dropped silently. A conversation may lose the same thing ten thousand times; a reader
wants to know what is lost, and a debugger where. Whoever is told may fail (a disk is full): then
it is told no more, and the conversation goes on.
"""

import logging
import re
from collections.abc import Callable
from typing import TypeAlias

from twofold.convert.losses import Losses, NotConvertible

Told: TypeAlias = Callable[[str, str, str], None]
"""Called with what a message was, the path in it, and the reason."""

KINDS = 1000
"""How many kinds of loss are told apart."""

_log = logging.getLogger("twofold")
_INDEX = re.compile(r"\[\d+\]")


class LossLog:
    """Where translations report. `every` hears all losses, `first` each kind once."""

    def __init__(
        self, *, strict: bool = False, first: Told | None = None, every: Told | None = None
    ) -> None:
        self.losses = Losses(strict=strict)
        """What the converters report to."""
        self.count = 0
        """How much was lost, what was refused included."""
        self.refused = 0
        """How many messages were not passed on at all."""
        self._first = first
        self._every = every
        self._seen: set[tuple[str, str]] = set()

    def flush(self, what: str) -> None:
        """Pass on what was reported while `what` was converted."""
        if self.losses:
            losses = self.losses[:]
            self.losses.clear()
            for loss in losses:
                self.tell(what, loss.path, loss.reason)

    def refuse(self, what: str, refusal: NotConvertible) -> None:
        """Something was not passed on at all."""
        self.flush(what)
        self.refused += 1
        self.tell(what, refusal.path, f"not passed on: {refusal.reason}")

    def tell(self, what: str, path: str, reason: str) -> None:
        """One loss."""
        self.count += 1
        if self._every is not None and not _told(self._every, what, path, reason):
            self._every = None
        kind = (_INDEX.sub("[]", path), reason)
        if kind not in self._seen and len(self._seen) < KINDS:
            self._seen.add(kind)
            if self._first is not None and not _told(self._first, what, path, reason):
                self._first = None


def _told(listener: Told, what: str, path: str, reason: str) -> bool:
    try:
        listener(what, path, reason)
    except Exception:
        _log.exception("Losses are not told any more: whoever is told of them failed")
        return False
    return True
