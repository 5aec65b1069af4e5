"""What went wrong and was survived: reported to a callback, by default to the logger `twofold`."""

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from twofold.text.safe import one_line

_log = logging.getLogger("twofold")

ProblemKind: TypeAlias = Literal[
    "noise", "answer", "update", "handler", "stuck", "version", "loss", "limit"
]


class Problem(Struct, frozen=True):
    """Something that went wrong and was survived."""

    kind: ProblemKind
    text: str
    session_id: str | None = None
    error: BaseException | None = None

    def __str__(self) -> str:
        where = f" (session {self.session_id})" if self.session_id else ""
        return one_line(f"{self.text}{where}")


Report: TypeAlias = Callable[[Problem], None]


def log(problem: Problem) -> None:
    """Where problems go unless someone wants them."""
    _log.warning("%s", problem, exc_info=problem.error)


def described(error: BaseException) -> str:
    """The kind of an error and what it says, if it can say anything."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # someone else's error, and someone else's way to show it
        return type(error).__name__


def guarded(report: Report) -> Report:
    """`report`, from which nothing comes back: whoever is told of a problem must not make one."""

    def tell(problem: Problem) -> None:
        try:
            report(problem)
        except Exception:
            _log.exception("Whoever is told of problems failed; the problem was: %s", problem)

    return tell
