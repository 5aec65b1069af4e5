"""How far the script of one session was played, and what this client did in it.

Everything is named by places: the indexes of the steps. Decides nothing; `journal.replay` does.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from twofold.journal.script import SessionScript, Step
from twofold.journal.translation import Names
from twofold.rpc.connection import Request, RequestId


class Turn(Struct):
    """The turn that is being played."""

    place: int
    """Of the prompt among the steps."""
    identity: RequestId
    """The id of the client's prompt."""
    end: int | None
    """The place of the step that ends it; None if the recording has no end."""
    answered: bool = False
    cancelled: bool = False


class Lane(Struct, eq=False):
    """How far a session was played; the connection is played like a session."""

    script: SessionScript
    session_id: str
    """The id that the client has."""
    names: Names = field(default_factory=Names)
    at: int = 0
    """The place of the next step."""
    is_open: bool = False
    """The client knows the session."""
    clock: float = 0.0
    """When the last step was played."""
    recorded_clock: float | None = None
    """When it was recorded."""
    matched: dict[int, RequestId] = field(default_factory=dict)
    """The client's own ids, by the places of its requests that this client has sent."""
    furthest: int = -1
    """The greatest of these places."""
    sent: set[int] = field(default_factory=set)
    """The places of the agent's requests that were sent."""
    received: set[int] = field(default_factory=set)
    """The places of those that this client answered."""
    turn: Turn | None = None
    setup_as_new: int | None = None
    """The place of a request that loaded the session, which this client sent as `session/new`."""
    settings: dict[str, Any] = {}
    """What the agent offers: its answer when the session began, with what this client chose."""
    waiting: deque[Request] = field(default_factory=deque)
    """Prompts for which the recording has to start again."""
    mentioned: int = -1
    """The place of the last step that was reported to be waited for."""
    place_of: dict[int, int] = field(default_factory=dict)
    """The places of requests, by the number of the step."""
    answer_of: dict[int, int] = field(default_factory=dict)
    """The places of the answers, by the places of their requests."""

    def __post_init__(self) -> None:
        self.settings = self.script.setup
        for place, step in enumerate(self.script.steps):
            if step.kind == "request":
                self.place_of[step.number] = place
            elif step.request is not None and step.request in self.place_of:
                self.answer_of[self.place_of[step.request]] = place

    @property
    def steps(self) -> list[Step]:
        return self.script.steps

    @property
    def step(self) -> Step | None:
        return self.steps[self.at] if self.at < len(self.steps) else None

    def requests(self, method: str, start: int) -> Iterator[int]:
        """The places of the client's requests that this client has not sent yet."""
        for place in range(start, len(self.steps)):
            step = self.steps[place]
            asks = step.sender == "client" and step.kind == "request"
            if asks and step.method == method and place not in self.matched:
                yield place

    def next_prompt(self) -> int | None:
        return next(self.requests("session/prompt", self.at), None)

    def end_of_turn(self, place: int, version: int) -> int | None:
        """The place of the step that ends the turn of a prompt; None if there is none."""
        answer = self.answer_of.get(place)
        if answer is not None and (version == 1 or self.steps[answer].kind == "error"):
            return answer
        ends = (each for each in range(place, len(self.steps)) if self.steps[each].ends)
        return next(ends, None)

    @property
    def number(self) -> int:
        """The number of the next step; 0 at the end."""
        return self.step.number if self.step is not None else 0

    @property
    def begins(self) -> bool:
        """Whether the recording has requests of the client in it."""
        return any(step.kind == "request" and step.sender == "client" for step in self.steps)
