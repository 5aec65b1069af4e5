"""What is told of an agent while a command for scripts waits for it."""

from collections.abc import Sequence

from twofold.cli.printing import Screen
from twofold.runtime.commands import shown
from twofold.runtime.errors import Problem, Report
from twofold.term.client.connecting import OnSlow

SLOW = 5.0
"""After how many seconds a start is said to be slow."""


def slow(screen: Screen, command: Sequence[str]) -> OnSlow:
    """Says once that the agent takes long."""

    def tell(seconds: float) -> None:
        if seconds == SLOW:
            screen.tell(f"Still waiting for the agent ({shown(command)}) to answer.")

    return tell


def problems(screen: Screen) -> Report:
    """Tells what went wrong and was survived; what a conversion loses is no concern of a turn."""

    def tell(problem: Problem) -> None:
        if problem.kind != "loss":
            screen.tell(str(problem))

    return tell
