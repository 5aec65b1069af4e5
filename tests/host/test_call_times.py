"""How long tool calls took: counted while they work, and only if they were seen to begin."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.host.call_times import CallTime, CallTimes, Now
from twofold.session import Session
from twofold.view.live import Key, Live
from twofold.wire import codec, v2

START = 1_800_000_000.0
CALL = Key("entry", 0)


class Clocked:
    """A session whose frames are noted, on a clock that the test moves."""

    def __init__(self, session: Session | None = None) -> None:
        self.session = session or Session("s")
        self.live = Live(self.session, outputs=False)
        self.times = CallTimes(self.session)
        self.seen = self.live.seq
        self.now = 0.0

    def put(self, status: str, call: str = "c") -> None:
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}
        self.live.take(self.session.apply(v2.decode_update(codec.encode(update))))
        self.frame()

    def frame(self) -> None:
        frame = self.live.frame(self.seen)
        self.seen = frame.seq
        self.times.note(frame.put, Now(self.now, START + self.now))


def test_a_call_that_works_counts_from_when_it_was_seen() -> None:
    clocked = Clocked()
    clocked.now = 3.0
    clocked.put("in_progress")
    clocked.now = 5.0
    assert clocked.times.of(CALL) == CallTime(0, START + 3)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_the_time_of_a_call_that_has_ended_stays(end: str) -> None:
    clocked = Clocked()
    clocked.put("pending")
    clocked.now = 1.0
    clocked.put("in_progress")
    clocked.now = 4.5
    clocked.put(end)
    clocked.now = 60.0
    clocked.put("in_progress", "another")
    assert clocked.times.of(CALL) == CallTime(4.5)


def test_a_pause_is_not_counted() -> None:
    clocked = Clocked()
    for now, status in [(0, "in_progress"), (2, "paused"), (50, "in_progress"), (53, "completed")]:
        clocked.now = now
        clocked.put(status)
    assert clocked.times.of(CALL) == CallTime(5)


def test_of_a_call_that_was_never_seen_to_work_no_time_is_known() -> None:
    clocked = Clocked()
    clocked.put("completed")
    assert clocked.times.of(CALL) is None


def test_of_a_call_that_was_there_before_no_time_is_known() -> None:
    before = Clocked()
    before.put("in_progress")
    clocked = Clocked(before.session)
    clocked.now = 9.0
    clocked.put("completed")
    assert clocked.times.of(CALL) is None


def test_a_call_that_is_replayed_keeps_its_time() -> None:
    clocked = Clocked()
    clocked.put("in_progress")
    clocked.now = 2.0
    clocked.put("completed")
    again = Clocked()
    again.put("completed", "another")
    again.put("completed")
    times = clocked.times.adopted(again.session, None)
    assert times.of(Key("entry", 1)) == CallTime(2)
    assert times.of(CALL) is None


def test_calls_that_stay_above_keep_their_times_and_ids_may_be_used_again() -> None:
    clocked = Clocked()
    clocked.put("in_progress")
    clocked.now = 2.0
    clocked.put("completed")
    fresh = Clocked()
    fresh.times = clocked.times.adopted(fresh.session, [Key("turn", 0), CALL])
    fresh.now = 10.0
    fresh.put("in_progress")
    assert fresh.times.of(Key("turn", 1)) == CallTime(2)
    assert fresh.times.of(Key("turn", 0)) is None
    assert fresh.times.of(CALL) == CallTime(0, START + 10)


STATUSES = ("pending", "in_progress", "paused", "completed", "failed")
STEPS = st.lists(st.tuples(st.sampled_from(STATUSES), st.integers(0, 100)), max_size=12)


@given(STEPS)
def test_the_time_is_the_sum_of_the_steps_in_which_the_call_works(
    steps: Sequence[tuple[str, int]],
) -> None:
    clocked = Clocked()
    expected: int | None = None
    for status, seconds in steps:
        clocked.put(status)
        works = status in ("pending", "in_progress")
        if works or (status == "paused" and expected is None):
            expected = expected or 0
        clocked.now += seconds
        if works and expected is not None:
            expected += seconds
    clocked.put("completed")
    found = clocked.times.of(CALL)
    assert found == (CallTime(expected) if expected is not None else None)
