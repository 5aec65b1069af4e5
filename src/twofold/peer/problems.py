"""Problems that did not end the conversation, and where they are reported.

They go to the `on_problem` callback of a client, an agent or a bridge; by default they are logged
as warnings of the logger `twofold`.
"""

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from twofold.text.safe import one_line

_log = logging.getLogger("twofold")

ProblemKind: TypeAlias = Literal[
    "noise", "answer", "update", "handler", "stuck", "version", "loss", "limit", "setup"
]


class Problem(Struct, frozen=True):
    """Something that went wrong and did not end the conversation.

    `str(problem)` is one line that is safe to show.
    """

    kind: ProblemKind
    """What went wrong: noise (a line that is no message), answer (a response to nothing), update
    (one that cannot be used), handler (one that raised), stuck (a handler that did not return),
    version (the peer mixes versions), loss (something one version cannot express), limit, setup
    (a session begins without something that the agent cannot use)."""
    text: str
    """What happened, in the words of this program; it may contain text of the peer."""
    session_id: str | None = None
    """The session in which it happened, if it was in one."""
    error: BaseException | None = None
    """The exception behind it, if there is one."""

    def __str__(self) -> str:
        where = f" (session {self.session_id})" if self.session_id else ""
        return one_line(f"{self.text}{where}")


Report: TypeAlias = Callable[[Problem], None]


def log(problem: Problem) -> None:
    """Log a problem: what happens to it where there is no callback."""
    _log.warning("%s", problem, exc_info=problem.error)


def described(error: BaseException) -> str:
    """The type of an error and its message, if it has one that can be shown."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an error of somebody else, whose `__str__` may raise
        return type(error).__name__


def guarded(report: Report) -> Report:
    """A `report` that never raises: an error in the callback is logged."""

    def safely(problem: Problem) -> None:
        try:
            report(problem)
        except Exception:
            _log.exception("The on_problem callback raised; the problem was: %s", problem)

    return safely
