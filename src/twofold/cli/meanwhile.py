"""What is told of an agent while a command for scripts waits for it."""

from collections.abc import Sequence

from twofold.cli.printing import Screen
from twofold.client.launch import OnSlow
from twofold.peer.problems import Problem
from twofold.transport.commands import IS_IT, shown

SLOW = 5.0
"""After how many seconds a start is said to be slow."""
MOST_HELD = 100
"""How many lines that are no messages are kept until the agent answers."""


def slow(screen: Screen, command: Sequence[str]) -> OnSlow:
    """Reports once that the agent takes long, and what may be wrong."""

    def tell(seconds: float) -> None:
        if seconds == SLOW:
            screen.tell(
                f"Still waiting for the agent ({shown(command)}) to answer initialize. {IS_IT}"
            )

    return tell


class Problems:
    """Reports what went wrong and was survived (`Report`).

    What an agent prints before it answers is held back: a command that is no agent may be started
    twice, and the error that ends it shows what it printed. What a conversion loses is no concern
    of a turn.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held: dict[str, None] | None = {}

    def __call__(self, problem: Problem) -> None:
        if problem.kind == "loss":
            return
        if problem.kind != "noise" or self._held is None:
            self._screen.tell(str(problem))
        elif len(self._held) < MOST_HELD:
            self._held[str(problem)] = None

    def answered(self) -> None:
        """It is an agent: what it printed before it answered is reported, each line once."""
        held, self._held = self._held or {}, None
        for text in held:
            self._screen.tell(text)
