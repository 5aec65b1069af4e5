"""The inbox of a session: one thing after the other, whatever the handlers do."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulated import leaves_nothing, now, simulate, turns
from twofold.errors import PeerError
from twofold.peer.inbox import Inbox, Place, inside
from twofold.peer.problems import Problem

TIMEOUT = 30.0


class Seen:
    """An inbox and what happened to what was put into it."""

    def __init__(self, **options: Any) -> None:
        self.problems: list[Problem] = []
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.inbox = Inbox("s", self.problems.append, timeout=TIMEOUT, **options)

    def note(self, item: Any) -> None:
        self.begun.append(item)
        self.ended.append(item)

    async def slow(self, item: Any) -> None:
        self.begun.append(item)
        await asyncio.sleep(1)
        self.ended.append(item)

    async def stuck(self, item: Any) -> None:
        self.begun.append(item)
        await asyncio.Event().wait()

    async def idle(self) -> None:
        """Until everything that was put in is handled."""
        done = asyncio.Event()
        self.inbox.put(lambda _: done.set(), None)
        await done.wait()
        await turns()

    @property
    def kinds(self) -> list[str]:
        return [problem.kind for problem in self.problems]


# ---- order


@leaves_nothing
async def test_a_handler_that_is_done_at_once_is_called_at_once() -> None:
    seen = Seen()
    for item in range(3):
        seen.inbox.put(seen.note, item)
        assert seen.ended[-1] == item
    assert not seen.inbox.busy


@leaves_nothing
async def test_what_comes_meanwhile_waits_for_a_handler_that_takes_its_time() -> None:
    seen = Seen()
    seen.inbox.put(seen.slow, "slow")
    seen.inbox.put(seen.note, "next")
    seen.inbox.put(seen.slow, "last")
    await turns()
    assert (seen.begun, seen.ended) == (["slow"], [])
    await seen.idle()
    assert seen.begun == seen.ended == ["slow", "next", "last"]


@leaves_nothing
async def test_what_a_handler_puts_in_comes_after_what_waits_already() -> None:
    seen = Seen()

    def first(item: Any) -> None:
        seen.inbox.put(seen.note, "put inside")
        seen.inbox.put_next(seen.note, "put next")
        seen.note(item)

    seen.inbox.put(first, "first")
    assert seen.ended == ["first", "put next", "put inside"]
    seen.inbox.put(seen.slow, "slow")
    seen.inbox.put(first, "again")
    seen.inbox.put(seen.note, "waits")
    await seen.idle()
    assert seen.ended[3:] == ["slow", "again", "put next", "waits", "put inside"]
    seen.inbox.put_next(seen.note, "nothing waits")
    assert seen.ended[-1] == "nothing waits"


WAYS = ["at once", "a turn", "a second", "raises", "raises later", "cancelled", "stuck", "deaf"]


def handler(way: str, seen: Seen) -> Callable[[Any], Awaitable[None] | None]:
    async def wait(item: Any) -> None:
        seen.begun.append(item)
        match way:
            case "a turn":
                await asyncio.sleep(0)
            case "a second":
                await asyncio.sleep(1)
            case "raises later":
                await asyncio.sleep(0.5)
                raise KeyError(item)
            case "cancelled":
                other = asyncio.get_running_loop().create_future()
                other.cancel()
                await other
            case "stuck":
                await asyncio.Event().wait()
            case "deaf":
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                await asyncio.sleep(3)
                return
        seen.ended.append(item)

    def fail(item: Any) -> None:
        seen.begun.append(item)
        raise ValueError(item)

    return {"at once": seen.note, "raises": fail}.get(way, wait)


@given(st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 3)), max_size=15))
def test_order_is_kept_whatever_the_handlers_do(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        seen = Seen()
        for index, (way, pause) in enumerate(steps):
            seen.inbox.put(handler(way, seen), index)
            await asyncio.sleep(pause / 4)
        await seen.idle()
        ways = [way for way, _ in steps]
        assert seen.begun == list(range(len(steps)))
        fine = ("at once", "a turn", "a second")
        assert seen.ended == [index for index, way in enumerate(ways) if way in fine]
        failing = {"raises": "handler", "raises later": "handler", "cancelled": "handler"}
        expected = failing | {"stuck": "stuck", "deaf": "stuck"}
        assert seen.kinds == [expected[way] for way in ways if way in expected]
        await seen.inbox.stopped(TIMEOUT)

    simulate(main())


@leaves_nothing
async def test_two_handlers_never_run_at_once() -> None:
    seen, running = Seen(), 0

    async def alone(item: Any) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.1)
        running -= 1

    for item in range(20):
        seen.inbox.put(alone, item)
    await seen.idle()
    assert seen.problems == []


# ---- handlers that do not come back


@leaves_nothing
async def test_a_stuck_handler_is_given_up_and_the_next_one_is_called() -> None:
    seen = Seen()
    seen.inbox.put(seen.stuck, "stuck")
    seen.inbox.put(seen.note, "next")
    await seen.idle()
    assert now() == TIMEOUT
    assert seen.ended == ["next"]
    (problem,) = seen.problems
    assert (problem.kind, problem.session_id) == ("stuck", "s")
    assert "within 30 seconds" in str(problem)


@leaves_nothing
async def test_each_handler_has_its_own_time() -> None:
    seen = Seen()

    async def long(item: Any) -> None:
        await asyncio.sleep(TIMEOUT - 1)
        seen.ended.append(item)

    for item in range(5):
        seen.inbox.put(long, item)
    await seen.idle()
    assert seen.ended == list(range(5))
    assert seen.problems == []
    assert now() > 4 * TIMEOUT


@leaves_nothing
async def test_one_that_ignores_being_given_up_changes_nothing_when_it_ends() -> None:
    seen = Seen()
    seen.inbox.put(handler("deaf", seen), "deaf")
    for item in range(10):
        seen.inbox.put(seen.slow, item)
    await seen.idle()
    assert seen.ended == list(range(10))
    assert seen.kinds == ["stuck"]


# ---- handlers that fail


@leaves_nothing
async def test_failures_are_reported_by_whose_fault_they_are() -> None:
    seen = Seen()

    def blame(error: Exception) -> None:
        raise error

    seen.inbox.put(blame, PeerError("the peer did it"))
    seen.inbox.put(blame, ValueError("we did it"))
    assert [(each.kind, str(each)) for each in seen.problems] == [
        ("update", "the peer did it (session s)"),
        ("handler", "A handler raised ValueError: we did it (session s)"),
    ]


def test_the_callback_for_failures_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    async def main() -> None:
        def broken_report(problem: Problem) -> None:
            raise ValueError("cannot be reported")

        inbox = Inbox("s", broken_report)
        seen: list[str] = []

        async def fail(item: Any) -> None:
            raise Mute

        inbox.put(fail, None)
        inbox.put(seen.append, "next")
        await turns()
        assert seen == ["next"]

    simulate(main())
    (record,) = caplog.records
    assert "Mute" in record.getMessage()


# ---- making the sender wait


@leaves_nothing
async def test_the_sender_is_held_while_too_much_waits() -> None:
    calls: list[tuple[str, int]] = []
    seen = Seen(
        hold=lambda inbox: calls.append(("hold", inbox._size)),
        release=lambda inbox: calls.append(("release", inbox._size)),
        limit=10_000,
    )
    for item in range(40):
        seen.inbox.put(seen.slow, item, 1000)
        if calls:
            break
    (hold,) = calls
    assert hold[0] == "hold"
    assert 10_000 < hold[1] <= 10_000 + 1000 + 64
    await seen.idle()
    (release,) = calls[1:]
    assert release[0] == "release"
    assert 3000 < release[1] <= 5000  # not at once again, and not only at the very end
    assert seen.inbox._size == 0


@leaves_nothing
async def test_the_sender_is_not_held_while_as_much_waits_as_may() -> None:
    held: list[Inbox] = []
    seen = Seen(hold=held.append, limit=1064)
    seen.inbox.put(seen.slow, "slow")
    seen.inbox.put(seen.note, "the limit", 1000)
    assert held == []
    seen.inbox.put(seen.note, "more")
    assert held == [seen.inbox]
    await seen.idle()


@leaves_nothing
async def test_empty_messages_count_too() -> None:
    held: list[Inbox] = []
    seen = Seen(hold=held.append, limit=6400)
    seen.inbox.put(seen.slow, "slow")
    for item in range(102):
        seen.inbox.put(seen.note, item)
    assert held == [seen.inbox]
    await seen.idle()


@leaves_nothing
async def test_a_stuck_handler_holds_the_sender_only_until_it_is_given_up() -> None:
    calls: list[str] = []
    seen = Seen(
        hold=lambda inbox: calls.append("hold"),
        release=lambda inbox: calls.append("release"),
        limit=100,
    )
    seen.inbox.put(seen.stuck, "stuck")
    seen.inbox.put(seen.note, "large", 1000)
    assert calls == ["hold"]
    await seen.idle()
    assert calls == ["hold", "release"]
    assert seen.ended == ["large"]


# ---- the place of a handler


@leaves_nothing
async def test_the_context_of_a_handler_is_set_for_it_and_its_tasks_while_it_runs() -> None:
    seen = Seen()
    places: list[Place | None] = []
    go_on = asyncio.Event()

    async def outlive() -> None:
        places.append(inside())
        await go_on.wait()
        places.append(inside())

    async def start(item: Any) -> None:
        places.append(inside())
        item.append(asyncio.create_task(outlive()))
        await asyncio.sleep(1)

    started: list[asyncio.Task[None]] = []
    seen.inbox.put(start, started)
    seen.inbox.put(seen.slow, "another handler runs")
    await asyncio.sleep(1.5)
    assert seen.begun
    go_on.set()
    await started[0]
    first, second, third = places
    assert first is not None
    assert first is second
    assert first.inbox is seen.inbox
    assert first.over
    assert third is None  # another handler runs now
    assert inside() is None
    await seen.idle()


@leaves_nothing
async def test_a_task_that_puts_something_in_is_not_inside() -> None:
    seen = Seen()
    seen.inbox.put(lambda _: None, None)
    seen.inbox.put(seen.slow, None)
    assert inside() is None
    await seen.idle()


# ---- the end


@leaves_nothing
async def test_closing_stops_the_handler_and_drops_the_messages_that_wait() -> None:
    seen = Seen()
    seen.inbox.put(seen.slow, "slow", 1)
    seen.inbox.put(seen.note, "a message", 1)
    seen.inbox.put(seen.note, "an end that someone waits for")
    await turns()
    seen.inbox.close()
    assert not seen.inbox.busy
    await seen.inbox.stopped(TIMEOUT)
    assert seen.begun == ["slow", "an end that someone waits for"]
    assert seen.ended == ["an end that someone waits for"]
    assert seen.problems == []


@leaves_nothing
async def test_a_handler_may_close_the_inbox() -> None:
    seen = Seen()

    def close(item: Any) -> None:
        seen.inbox.put(seen.note, "after")
        seen.inbox.close()
        seen.note(item)

    seen.inbox.put(close, "close")
    assert seen.ended == ["close", "after"]

    async def close_later(item: Any) -> None:
        await asyncio.sleep(1)
        close(item)

    seen = Seen()
    seen.inbox.put(close_later, "close")
    seen.inbox.put(seen.note, "before")
    await asyncio.sleep(2)
    assert seen.ended == ["before", "after", "close"]
    assert not seen.inbox.busy


@leaves_nothing
async def test_a_handler_that_was_called_begins_before_it_is_stopped() -> None:
    seen = Seen()
    seen.inbox.put(seen.slow, "slow")
    seen.inbox.close()  # or its coroutine is never awaited, which Python warns of
    await seen.inbox.stopped(TIMEOUT)
    assert (seen.begun, seen.ended) == (["slow"], [])


@leaves_nothing
async def test_after_closing_what_is_put_in_is_handled_at_once() -> None:
    seen = Seen()
    seen.inbox.put(handler("deaf", seen), "deaf")
    await turns()
    seen.inbox.close()
    seen.inbox.put(seen.slow, "only called")
    seen.inbox.put(seen.note, "the end")
    assert seen.ended == ["the end"]
    await turns()
    assert seen.begun == ["deaf", "the end", "only called"]
    begin = now()
    await seen.inbox.stopped(1.0)
    assert now() - begin <= 1.0
    await seen.inbox.stopped(TIMEOUT)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin at once from Python 3.12 on")
@leaves_nothing
async def test_tasks_may_begin_at_once() -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # since 3.12
    seen = Seen()

    async def done(item: Any) -> None:
        seen.note(item)

    for item in range(5):
        seen.inbox.put(seen.slow if item == 2 else done, item)
    await seen.idle()
    assert seen.begun == seen.ended == list(range(5))
