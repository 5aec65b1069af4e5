"""Races of a turn between a version 2 client and a version 1 agent, in every order.

The events of a turn are played in every order, to the end or until one side is gone at any step.
After each event, and at the end, what must hold whatever happens is checked.
"""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest

from tests.support.bridge_stage import ALL, Json, Stage
from twofold.session import Session
from twofold.wire import codec, v2
from twofold.wire.base import Fault

Schedule = tuple[str, ...]


class Race:
    """One turn, and what each side has done in it so far."""

    def __init__(self, able: Json) -> None:
        self.stage = Stage(able)
        self.stage.session()
        self.prompts: list[Any] = []
        self.closes: list[Any] = []
        self.questions: list[Any] = []
        self.sent: list[str] = []
        self.answered_by_agent: set[Any] = set()
        self.answered_by_client: set[Any] = set()
        self.unasked: set[Any] = set()
        self.prompt()

    # ---- the events

    def play(self, event: str) -> None:
        getattr(self, event)()
        self.check()

    def prompt(self) -> None:
        self.prompts.append(self.stage.prompt(f"prompt {len(self.prompts)}"))

    def timer(self) -> None:
        self.stage.clock.run()

    def update(self) -> None:
        words = f"update {len(self.sent)}"
        closed = self.stage.up.session("s").muted == "closed"
        self.stage.chunk(words)
        if not closed:
            self.sent.append(words)

    def ask(self) -> None:
        self.questions.append(self.stage.permission(f"t{len(self.questions)}"))

    def elicit(self) -> None:
        schema = {"type": "object", "properties": {}}
        params = {"mode": "form", "message": "?", "requestedSchema": schema, "sessionId": "s"}
        self.questions.append(self.stage.agent.ask("elicitation/create", params))

    def unask(self) -> None:
        """The agent withdraws a question; an answer is due all the same."""
        before = len(self.stage.client.notifications("$/cancel_request"))
        if self.questions:
            self.stage.agent.notify("$/cancel_request", {"requestId": self.questions[-1]})
        new = self.stage.client.notifications("$/cancel_request")[before:]
        self.unasked |= {each["requestId"] for each in new}

    def answer(self) -> None:
        """The client answers what it was asked first, though it may have been withdrawn."""
        for request in self.stage.client.asked():
            if request["id"] not in self.answered_by_client:
                self.answered_by_client.add(request["id"])
                result: Json = {"outcome": {"outcome": "selected", "optionId": "yes"}}
                if request["method"] == "elicitation/create":
                    result = {"action": "accept", "content": {}}
                self.stage.client.answer(request["id"], result)
                return

    def result(self) -> None:
        for request in self._owed("session/prompt"):
            self.stage.agent.answer(request["id"], {"stopReason": "end_turn"})

    def error(self) -> None:
        for request in self._owed("session/prompt"):
            self.stage.agent.fail(request["id"], -32603, "model")

    def cancel(self) -> None:
        self.stage.cancel()

    def withdraw(self) -> None:
        self.stage.client.notify("$/cancel_request", {"requestId": self.prompts[0]})

    def close(self) -> None:
        self.closes.append(self.stage.client.ask("session/close", {"sessionId": "s"}))

    def closed(self) -> None:
        for request in self._owed("session/close"):
            self.stage.agent.answer(request["id"], {})

    def death(self) -> None:
        self.stage.die()

    def departure(self) -> None:
        self.stage.up.client_left()
        self.stage.up.close()

    def _owed(self, method: str) -> Iterator[Json]:
        """The first request that the agent has not answered."""
        for request in self.stage.agent.asked(method):
            if request["id"] not in self.answered_by_agent:
                self.answered_by_agent.add(request["id"])
                yield request
                return

    def play_out(self) -> None:
        """Everybody does what is left to do."""
        for _ in range(2 + len(self.prompts) + len(self.questions)):
            for event in ("timer", "answer", "result", "closed"):
                self.play(event)

    # ---- what must hold

    def open_questions(self) -> set[Any]:
        """What the client was asked and neither has answered nor need answer."""
        client = self.stage.client
        requests = [each["requestId"] for each in client.notifications("$/cancel_request")]
        withdrawn = {each for each in requests if requests.count(each) > (each in self.unasked)}
        return {each["id"] for each in client.asked()} - withdrawn - self.answered_by_client

    def check(self) -> None:
        """After each event."""
        stage = self.stage
        requests = [*self.prompts, *self.closes]
        assert all(len(stage.client.answers(each)) <= 1 for each in requests)
        assert all(len(stage.agent.answers(each)) <= 1 for each in self.questions)
        assert stage.client.texts == self.sent
        cancels = stage.agent.notifications("session/cancel")
        turns = stage.agent.asked("session/prompt")
        assert len(cancels) <= len(turns)
        states = stage.client.states
        assert len(_ends(states)) <= len(self._acknowledged())
        if states[-1:] == ["requires_action"]:
            assert self.open_questions()
        assert stage.problems == []

    def check_end(self) -> None:
        """When nothing more will happen."""
        stage = self.stage
        for identity in (*self.prompts, *self.closes):
            assert len(stage.client.answers(identity)) == 1
        assert len(_ends(stage.client.states)) == len(self._acknowledged())
        assert not self.open_questions()
        if stage.client.states:
            assert stage.client.states[-1].startswith("idle")
        self.check_settled()

    def check_settled(self) -> None:
        """On whichever side is left, nothing is pending."""
        assert self.stage.clock.waiting == {}
        assert not self.stage.up.client.pending
        assert not any(each.questions or each.queued for each in self.stage.up.sessions.values())
        self.check_fold()

    def check_answers(self) -> None:
        """Whatever the agent asked was answered."""
        assert all(len(self.stage.agent.answers(each)) == 1 for each in self.questions)

    def check_fold(self) -> None:
        """What the client received adds up, and nothing was skipped."""
        session, faults = Session("s"), list[Fault]()
        for message in self.stage.client.messages:
            method, params = message.get("method"), message.get("params", {})
            if method == "session/update":
                data = codec.encode(params["update"])
                session.apply(v2.decode_update(data, faults))
            elif method == "session/request_permission":
                read = codec.read(params, v2.RequestPermissionRequest, faults)
                session.ask(message["id"], read)
            elif method == "$/cancel_request":
                session.settle(params["requestId"])
        assert faults == []

    def _acknowledged(self) -> list[Any]:
        answers = [each for prompt in self.prompts for each in self.stage.client.answers(prompt)]
        return [each for each in answers if "result" in each]


def _ends(states: list[str]) -> list[str]:
    return [state for state in states if state.startswith("idle:")]


TURNS: dict[str, tuple[Json, Schedule]] = {
    "a question and a cancel": (ALL, ("timer", "update", "ask", "answer", "result", "cancel")),
    "an error and another prompt": (ALL, ("update", "ask", "error", "cancel", "prompt")),
    "two questions": (ALL, ("ask", "elicit", "answer", "result", "cancel")),
    "a question that is withdrawn": (ALL, ("ask", "unask", "answer", "result", "cancel")),
    "a prompt that is withdrawn": (ALL, ("timer", "ask", "prompt", "withdraw", "result")),
    "a close": (ALL, ("ask", "result", "close", "closed", "prompt")),
    "a close that is made up": ({}, ("update", "ask", "result", "close", "prompt")),
}


def prefixes(events: Schedule) -> Iterator[Schedule]:
    """Every beginning of every order."""
    for length in range(len(events) + 1):
        yield from permutations(events, length)


def play(able: Json, schedule: Schedule, check: Callable[[Race], None]) -> None:
    race = Race(able)
    try:
        for event in schedule:
            race.play(event)
        check(race)
    except AssertionError as error:
        raise AssertionError(f"in the order {' → '.join(schedule)}") from error


def to_the_end(race: Race) -> None:
    race.play_out()
    race.check_end()
    race.check_answers()
    assert race.stage.pending == []


def until_the_agent_dies(race: Race) -> None:
    race.play("death")
    race.check_end()
    assert race.stage.pending == []
    late = race.stage.prompt("too late")
    assert race.stage.client.error(late)["data"]["exitCode"] == 3


def until_the_client_leaves(race: Race) -> None:
    race.play("departure")
    race.check_settled()
    race.check_answers()


@pytest.mark.parametrize("name", TURNS)
def test_every_order_of_events_comes_to_a_good_end(name: str) -> None:
    able, events = TURNS[name]
    for schedule in permutations(events):
        play(able, schedule, to_the_end)


@pytest.mark.parametrize("name", TURNS)
def test_the_agent_may_die_at_any_step(name: str) -> None:
    able, events = TURNS[name]
    for schedule in prefixes(events):
        play(able, schedule, until_the_agent_dies)


@pytest.mark.parametrize("name", TURNS)
def test_the_client_may_leave_at_any_step(name: str) -> None:
    able, events = TURNS[name]
    for schedule in prefixes(events):
        play(able, schedule, until_the_client_leaves)
