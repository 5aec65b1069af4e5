"""Races between a client of version 1 and an agent of version 2.

What both sides send in a turn is put into every order that either of them can cause. Whatever the
order: every request is answered exactly once, what was sent before the end goes out before the
prompt's answer, nothing stays pending, and the client receives only what version 1 has.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations

import msgspec
import pytest

from tests.support.down_talk import (
    CHOSEN,
    DISMISSED,
    IDLE,
    RUNNING,
    SNAPSHOT,
    STOPPED,
    Json,
    S,
    Talk,
    chunk,
    printed,
    shell,
    whole,
)
from twofold.wire import v1
from twofold.wire.shared import CancelRequestNotification

_PARAMS = {
    "session/request_permission": v1.RequestPermissionRequest,
    "$/cancel_request": CancelRequestNotification,
}


@cache
def _is_v1(line: bytes) -> bool:
    message = json.loads(line)
    if message.get("method") == "session/update":
        return v1.decode_update_line(line) is not None
    if "method" in message:
        msgspec.convert(message["params"], _PARAMS[message["method"]])
    elif "result" in message:
        msgspec.convert(message["result"], v1.PromptResponse if message["result"] else v1.Empty)
    return True


class Race:
    """A turn in which everything comes in an order that the test chose."""

    def __init__(self, *, eager: bool) -> None:
        self.talk = Talk()
        self.eager = eager
        """Timers fire after every step; if not, after the last one."""
        self.prompt = self.talk.prompt("hello")
        self._there = self.talk.asked("session/prompt")
        self.done: list[str] = []
        self.answered_after: list[str] | None = None
        self.words = 0
        self.dead = self.left = False

    def take(self, step: str) -> None:
        """Let one thing happen."""
        STEPS[step](self)
        self.done.append(step)
        if self.eager:
            self.talk.fire()
        if self.answered_after is None and self.talk.answers(self.prompt):
            self.answered_after = list(self.done)

    # ---- what the agent does

    def result(self) -> None:
        self.talk.answer(self._there, {"messageId": "u1"})

    def echo(self) -> None:
        self.talk.update(whole("hello", message_id="u1", kind="user_message"))

    def running(self) -> None:
        self.talk.update(RUNNING)

    def writes(self) -> None:
        self.words += 1
        self.talk.update(chunk("A"), shell(), printed("out"))

    def idle(self) -> None:
        cancelled = {"cancels", "withdraws"} & set(self.done)
        self.talk.update(STOPPED if cancelled else IDLE)

    def snapshot(self) -> None:
        self.talk.update(SNAPSHOT)

    def asks(self) -> None:
        self.talk.ask_permission("q1")

    def takes_back(self) -> None:
        self.talk.from_agent(method="$/cancel_request", params={"requestId": "q1"})

    def dies(self) -> None:
        self.dead = True
        self.talk.die()

    # ---- what the client does

    def decides(self) -> None:
        for asked in self._questions():
            self.talk.answer(asked, CHOSEN)

    def dismisses(self) -> None:
        for asked in self._questions():
            self.talk.answer(asked, DISMISSED)

    def _questions(self) -> list[Json]:
        messages = self.talk.client.messages
        return [each for each in messages if each.get("method") == "session/request_permission"]

    def cancels(self) -> None:
        self.talk.cancel()

    def withdraws(self) -> None:
        self.talk.withdraw(self.prompt)

    def closes(self) -> None:
        self.talk.ask("session/close", {"sessionId": S})
        self.talk.answer(self.talk.asked("session/close"), {})

    def leaves(self) -> None:
        self.left = True
        self.talk.leave()

    # ---- what has to hold

    def settle(self) -> None:
        """Everybody does what he still owes, and time passes."""
        for _ in range(4):
            self.talk.fire()
        if not (self.dead or self.left):
            self.take("running")
            self.take("idle")

    def check(self) -> None:
        talk = self.talk
        if not self.left:
            assert len(talk.answers(self.prompt)) == 1
            self._check_order()
        if "asks" in self.done and not self.dead:
            assert len(talk.agent_answers("q1")) == 1
        assert not talk.timers
        assert not talk.problems
        assert not talk.down.agent.pending or self.left
        assert not talk.down.client.pending
        assert not talk.down.questions
        for session in talk.down.sessions.values():
            assert not session.turns or self.left
            assert not session.cancelling or self.left or self.dead
        assert all(_is_v1(line) for line in talk.client.lines)

    def _check_order(self) -> None:
        after = self.answered_after
        assert after is not None
        messages = self.talk.client.messages
        place = messages.index(self.talk.answers(self.prompt)[0])
        before = [each["params"].get("update", {}) for each in messages[:place] if "params" in each]
        if "writes" in after[: len(after) - (after[-1] == "writes")]:
            assert any(each.get("content") == {"type": "text", "text": "A"} for each in before)
            assert "out" in json.dumps([each for each in before if "toolCallId" in each][-1])
        if not {"dies", "closes"} & set(after):
            assert {"result", "echo"} & set(after), "the agent had not taken it in"
            assert {"idle", "snapshot"} & set(after), "the agent had not ended it"


STEPS: dict[str, Callable[[Race], None]] = {
    name: member for name, member in vars(Race).items() if callable(member)
}


def orders(*steps: str, before: tuple[tuple[str, str], ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every order of the steps in which, of each pair, the first comes first."""
    for order in permutations(steps):
        if all(order.index(first) < order.index(second) for first, second in before):
            yield order


def run(order: tuple[str, ...], *, eager: bool) -> Race:
    race = Race(eager=eager)
    try:
        for step in order:
            race.take(step)
        race.settle()
        race.check()
    except AssertionError as error:
        raise AssertionError(f"{order}, eager={eager}: {error}") from error
    return race


both_clocks = pytest.mark.parametrize("eager", [False, True], ids=["patient", "eager"])
ASKED = ("asks", "decides")


@both_clocks
def test_a_turn_is_settled_in_every_order_of_its_messages(eager: bool) -> None:
    steps = ("result", "running", "writes", "asks", "decides", "idle")
    for order in orders(*steps, before=(ASKED,)):
        race = run(order, eager=eager)
        assert race.talk.result(race.prompt) == {"stopReason": "end_turn"}
        assert race.talk.agent_result("q1") == CHOSEN


@both_clocks
@pytest.mark.parametrize("answer", ["decides", "dismisses"])
def test_a_cancel_settles_a_turn_wherever_it_comes(answer: str, eager: bool) -> None:
    steps = ("result", "running", "asks", answer, "cancels", "idle")
    for order in orders(*steps, before=(("asks", answer),)):
        race = run(order, eager=eager)
        if race.answered_after is not None and "cancels" in race.answered_after:
            reason = race.talk.result(race.prompt)["stopReason"]
            assert reason == ("cancelled" if _ended_by_cancel(race.answered_after) else "end_turn")


def _ended_by_cancel(done: list[str]) -> bool:
    # an end that came before the cancel, and was recognised only later, is still an end
    last_idle = len(done) - 1 - done[::-1].index("idle")
    return done.index("cancels") < last_idle


@both_clocks
def test_an_agent_that_takes_its_question_back_is_answered_once(eager: bool) -> None:
    steps = ("result", "running", "asks", "takes_back", "decides", "idle")
    for order in orders(*steps, before=(ASKED, ("asks", "takes_back"))):
        run(order, eager=eager)


@both_clocks
def test_a_prompt_that_is_withdrawn_is_answered_once(eager: bool) -> None:
    steps = ("result", "running", "asks", "decides", "withdraws", "idle")
    for order in orders(*steps, before=(ASKED,)):
        run(order, eager=eager)


@both_clocks
def test_echoes_and_snapshots_come_wherever_they_like(eager: bool) -> None:
    for order in orders("result", "echo", "running", "writes", "snapshot", "idle"):
        race = run(order, eager=eager)
        assert race.talk.text("user_message_chunk") == ""


AGENTS_OWN = ("result", "running", "writes", "asks", "idle")
AFTER: dict[str, tuple[str, ...]] = {"dies": AGENTS_OWN, "leaves": tuple(STEPS), "closes": ()}
"""What does not happen any more after an end."""


@pytest.mark.parametrize("end", AFTER)
@pytest.mark.parametrize("fifth", ["writes", "cancels"])
def test_a_turn_is_settled_by_an_end_at_every_step(end: str, fifth: str) -> None:
    for order in orders("result", "running", "asks", "idle", fifth):
        for position in range(len(order) + 1):
            later = [step for step in order[position:] if step not in AFTER[end]]
            run((*order[:position], end, *later), eager=fifth == "writes")


def test_two_prompts_are_each_answered_once_in_every_order() -> None:
    for order in permutations(("first", "second", "running", "words", "idle", "cancel")):
        talk = Talk()
        prompts = {"first": talk.prompt("one"), "second": talk.prompt("two")}
        there = {
            "first": talk.agent.messages[0],
            "second": talk.agent.messages[1],
        }
        updates = {"running": RUNNING, "words": chunk("A"), "idle": IDLE}
        for step in order:
            if step in there:
                talk.answer(there[step], {"messageId": step})
            elif step == "cancel":
                talk.cancel()
            else:
                talk.update(updates[step])
        talk.fire()
        talk.update(RUNNING, STOPPED)
        for prompt in prompts.values():
            assert len(talk.answers(prompt)) == 1, order
        assert not talk.timers
        assert not talk.down.agent.pending
        assert not talk.problems
