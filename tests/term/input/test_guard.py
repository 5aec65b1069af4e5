"""Which keys answer a question: none that was meant for something else."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.term.input.guard import DELIBERATE, READ, SILENCE, Guard, Verdict

ANSWERS = frozenset({"y", "a", "n", "d", "1", "escape"})
TWICE = frozenset({"a", "d"})
EDITING = frozenset({"escape", "up", "c-a"})
"""Keys that leave nothing in what is typed ahead."""


@dataclass
class Person:
    """Someone at a keyboard, and the clock of the program."""

    guard: Guard = field(default_factory=Guard)
    now: float = 100.0
    typed: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def wait(self, seconds: float) -> "Person":
        """Time passes, and the program looks at the clock when it wanted to."""
        until = self.now + seconds
        while (due := self.guard.due) is not None and due <= until:
            self.guard.elapse(due)
        self.now = until
        return self

    def busy(self, seconds: float) -> "Person":
        """Time passes, and the program does not get to look at the clock."""
        self.now += seconds
        return self

    def show(self) -> "Person":
        self.guard.show(self.now)
        return self

    def press(self, *keys: str, alone: bool = True) -> Verdict:
        """Press keys, all in the same moment."""
        for key in keys:
            verdict = self.guard.press(
                key,
                self.now,
                answers=key in ANSWERS,
                twice=key in TWICE,
                alone=alone and len(keys) == 1,
                ahead=bool(self.typed),
            )
            if verdict == "answer":
                self.answers.append(key)
            elif verdict == "keep" and key not in EDITING:
                self.typed.append(key)
        return verdict

    @property
    def open(self) -> bool:
        return self.guard.is_open(ahead=bool(self.typed))


# ---- silence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["y", "n", "1", "escape"])
def test_a_key_after_a_silence_answers(key: str) -> None:
    person = Person().show().wait(SILENCE)
    assert person.open
    assert person.press(key) == "answer"


@pytest.mark.parametrize("key", ["y", "n", "1", "escape", "a", "d"])
def test_a_key_before_the_silence_is_typed_ahead(key: str) -> None:
    person = Person().show().wait(SILENCE * 0.99)
    assert not person.open
    assert person.press(key) == "keep"
    assert person.wait(SILENCE * 0.99).press(key) == "keep"


def test_a_silence_counts_from_the_last_key_and_from_when_the_question_was_there() -> None:
    person = Person().wait(10 * SILENCE)
    assert person.show().press("y") == "keep"
    person.typed.clear()  # erased again, as with a backspace
    assert person.wait(SILENCE).press("y") == "answer"


def test_a_silence_is_not_enough_where_something_is_typed_ahead() -> None:
    person = Person()
    person.press("h")
    person.show().wait(60)
    assert not person.open
    assert person.press("y") == "keep"
    assert person.typed == ["h", "y"]


def test_a_key_that_waited_while_the_program_was_busy_does_not_come_late() -> None:
    person = Person().show().busy(10)
    assert person.press("y") == "keep"


# ---- the deliberate key ----------------------------------------------------------------------


@pytest.mark.parametrize("deliberate", sorted(DELIBERATE))
def test_after_a_deliberate_key_the_next_one_answers_and_what_was_typed_stays(
    deliberate: str,
) -> None:
    person = Person()
    person.press("h")
    person.show().wait(READ * 1.01)
    assert person.press(deliberate) == "take"
    assert person.open
    assert person.press("y") == "answer"
    assert person.typed == ["h"]


def test_a_deliberate_key_does_not_count_before_the_question_could_be_read() -> None:
    person = Person().show().wait(READ * 0.9)
    assert person.press("c-i") == "take"
    assert person.press("y") == "keep"


def test_any_other_key_takes_the_deliberate_one_back() -> None:
    person = Person().show().wait(READ * 1.01)
    person.press("c-i")
    assert person.press("x") == "keep"
    assert person.press("y") == "keep"


# ---- keys that come together -----------------------------------------------------------------


@pytest.mark.parametrize("keys", [("y", "c-m"), ("c-i", "y"), ("y", "y"), ("escape", "y")])
def test_keys_that_come_in_one_moment_never_answer(keys: tuple[str, ...]) -> None:
    person = Person().show().wait(5)
    person.press(*keys)
    assert person.answers == []
    person.press(*keys)
    assert person.answers == []


# ---- once more -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a", "d"])
def test_an_answer_for_always_is_asked_for_once_more(key: str) -> None:
    person = Person().show().wait(SILENCE)
    assert person.press(key) == "take"
    assert person.guard.again == key
    assert person.wait(SILENCE).press(key) == "answer"


def test_a_key_that_is_held_down_does_not_give_an_answer_for_always() -> None:
    person = Person().show().wait(SILENCE)
    person.press("a")
    person.wait(0.6)
    for _ in range(100):
        assert person.press("a") == "take"
        person.wait(0.03)
    assert person.guard.again == "a"


@pytest.mark.parametrize(("key", "verdict"), [("y", "take"), ("escape", "take"), ("l", "keep")])
def test_any_other_key_goes_back_and_answers_nothing(key: str, verdict: Verdict) -> None:
    person = Person().show().wait(SILENCE)
    person.press("a")
    assert person.wait(SILENCE).press(key) == verdict
    assert person.guard.again is None
    assert person.press("y") == "keep"


def test_a_word_that_begins_with_the_key_is_no_answer_for_always() -> None:
    person = Person().show().wait(SILENCE)
    for key in "also say why":
        person.press(key)
        person.wait(0.09)
    assert person.answers == []
    assert "".join(person.typed) == "lso say why"


# ---- after an answer -------------------------------------------------------------------------


def test_what_follows_an_answer_at_once_belongs_to_it_and_is_kept() -> None:
    person = Person().show().wait(SILENCE)
    person.press("y")
    for key in ("e", "s", "c-m"):
        person.wait(SILENCE * 0.9)
        assert person.press(key) == "keep"
        assert person.guard.burst
    person.wait(SILENCE)
    person.guard.note_key(person.now)
    assert not person.guard.burst


def test_keys_for_something_that_has_ended_send_nothing_until_a_silence() -> None:
    person = Person().show()
    person.press("x")
    person.wait(SILENCE * 5)
    person.guard.hold(person.now)
    person.wait(SILENCE * 0.9)
    person.press("c-m")
    assert person.guard.burst
    person.wait(SILENCE)
    person.press("c-m")
    assert not person.guard.burst


def test_the_next_question_starts_anew() -> None:
    person = Person().show().wait(SILENCE)
    person.press("y")
    assert person.press("y") == "keep"
    person.typed.clear()
    person.show()
    assert person.press("y") == "keep"
    person.typed.clear()
    person.wait(SILENCE)
    assert person.press("y") == "answer"


# ---- laws ------------------------------------------------------------------------------------

KEYS = st.sampled_from(["y", "a", "n", "d", "1", "escape", "x", " ", "c-m", "up"])
GAPS = st.floats(0, SILENCE, exclude_max=True, allow_nan=False)
EVENTS = st.lists(st.tuples(GAPS, st.one_of(KEYS, st.just("show"), st.just("withdraw"))))


@given(EVENTS)
def test_who_types_without_a_silence_and_without_a_deliberate_key_answers_nothing(
    events: list[tuple[float, str]],
) -> None:
    person = Person()
    person.press("x")  # they are typing
    for gap, event in events:
        person.wait(gap)
        if event == "show":
            person.show()
        elif event == "withdraw":
            person.guard.clear()
        else:
            person.press(event)
    assert person.answers == []
    pressed = [event for _, event in events if event not in ("show", "withdraw")]
    assert person.typed == ["x", *(key for key in pressed if key not in EDITING)]


@given(
    st.lists(st.tuples(st.floats(0, 5), KEYS), min_size=1),
    st.lists(st.tuples(st.floats(0, 5), KEYS)),
)
def test_what_was_typed_before_a_question_never_answers_it_and_is_kept_in_order(
    before: list[tuple[float, str]], after: list[tuple[float, str]]
) -> None:
    person = Person()
    person.press("x")
    for gap, key in before:
        person.wait(gap).press(key)
    kept = ["x", *(key for _, key in before if key not in EDITING)]
    assert person.typed == kept
    person.show()
    assert person.answers == []
    for gap, key in after:  # with something typed ahead no silence is long enough
        person.wait(gap).press(key)
    assert person.answers == []
    assert person.typed[: len(kept)] == kept


ANY = st.one_of(KEYS, st.sampled_from(sorted(DELIBERATE)), st.just("show"))


@given(st.lists(st.tuples(st.floats(0, 3), ANY, st.booleans())))
def test_an_answer_comes_only_after_a_silence_or_a_deliberate_key(
    events: list[tuple[float, str, bool]],
) -> None:
    person = Person()
    before, since = "", person.now
    for gap, event, alone in events:
        person.wait(gap)
        if event == "show":
            before = ""
            person.show()
        else:
            silent = person.now - since >= SILENCE
            if person.press(event, alone=alone) == "answer":
                assert alone
                assert silent or before in DELIBERATE
                assert silent or event not in TWICE
            before = event
        since = person.now
