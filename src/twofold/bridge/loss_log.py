"""Reports what a bridge could not carry over: each kind once to people, every loss to a file.

Nothing is dropped silently. The same loss may occur ten thousand times in a session: a reader wants
each kind once, a debugger wants every place. A callback that raises (its disk is full, for example)
is not called again, and the bridge goes on.
"""

import logging
import re
from collections.abc import Callable
from typing import TypeAlias

from twofold.convert.losses import Losses, NotConvertible

OnLoss: TypeAlias = Callable[[str, str, str], None]
"""Called with the method of a message, the path inside it, and the reason of the loss."""

KINDS = 1000
"""How many kinds of loss are distinguished; further kinds are only counted and given to `every`."""

_log = logging.getLogger("twofold")
_INDEX = re.compile(r"\[\d+\]")


class LossLog:
    """Receives the losses of a bridge.

    Args:
        strict: Refuse a message that would lose something, instead of passing on the rest of it.
        first: Called with the first loss of each kind: the method, the path and the reason.
        every: Called with every loss.
    """

    def __init__(
        self, *, strict: bool = False, first: OnLoss | None = None, every: OnLoss | None = None
    ) -> None:
        self.count = 0
        """The number of losses, refused messages included."""
        self.refused = 0
        """The number of messages that were not passed on at all."""
        self._strict = strict
        self._first = first
        self._every = every
        self._seen: set[tuple[str, str]] = set()


class LossReporter:
    """Gives the losses of one translation to a `LossLog`."""

    def __init__(self, log: LossLog) -> None:
        self.losses = Losses(strict=log._strict)
        """Where the converters put losses until `flush`."""
        self._log = log

    def flush(self, method: str) -> None:
        """Report the losses that the conversion of a message of `method` left in `losses`."""
        if self.losses:
            losses = self.losses[:]
            self.losses.clear()
            for loss in losses:
                self.report(method, loss.path, loss.reason)

    def refuse(self, method: str, refusal: NotConvertible) -> None:
        """Report a message that was not passed on at all."""
        self.flush(method)
        self._log.refused += 1
        self.report(method, refusal.path, f"not passed on: {refusal.reason}")

    def report(self, method: str, path: str, reason: str) -> None:
        """Report one loss."""
        log = self._log
        log.count += 1
        if log._every is not None and not _call(log._every, method, path, reason):
            log._every = None
        kind = (_INDEX.sub("[]", path), reason)
        if kind not in log._seen and len(log._seen) < KINDS:
            log._seen.add(kind)
            if log._first is not None and not _call(log._first, method, path, reason):
                log._first = None


def _call(callback: OnLoss, method: str, path: str, reason: str) -> bool:
    try:
        callback(method, path, reason)
    except Exception:
        _log.exception("A callback of LossLog raised: it gets no further losses")
        return False
    return True
