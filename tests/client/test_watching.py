"""Changes at a frame rate: never too often, nothing lost, nothing while nothing changes.

Time is simulated: what takes a minute here takes a minute to the tick.
"""

import asyncio
import copy
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.idle_clock import SimulatedLoop, simulated, until
from tests.support.raw_agent import (
    IDLE,
    RUNNING,
    Problems,
    RawAgent,
    call,
    chunk,
    echo,
    in_session,
    talk,
)
from twofold.client.watching import ChangeCallback, ChangeFeed, ChangeQueue
from twofold.peer.problems import Problem
from twofold.session import Session
from twofold.session.changes import (
    Change,
    ConfigChanged,
    ContentAppended,
    EntryAdded,
    EntryChanged,
    StateChanged,
    UsageChanged,
)
from twofold.wire import v2
from twofold.wire.content import TextContent


def now() -> float:
    return asyncio.get_running_loop().time()


def chunk_of(message_id: str, text: str = "x") -> v2.AgentMessageChunk:
    return v2.AgentMessageChunk(message_id, TextContent(text))


async def stream(
    session: Session, add: Callable[[tuple[Change, ...]], None], count: int, every: float
) -> None:
    """Apply `count` chunks of one message, one `every` so many seconds."""
    for _ in range(count):
        add(session.apply(chunk_of("m")))
        await asyncio.sleep(every)


class Looks(list[tuple[float, list[Change]]]):
    """When a view was called, and with which changes."""

    def __call__(self, changes: list[Change]) -> None:
        self.append((now(), changes))

    @property
    def pauses(self) -> list[float]:
        times = [at for at, _ in self]
        return [after - before for before, after in pairwise(times)]


async def watch(feed: ChangeQueue | ChangeFeed, looks: Looks) -> None:
    async for changes in feed if isinstance(feed, ChangeFeed) else ChangeFeed(feed):
        looks(changes)


# ---- both kinds ------------------------------------------------------------------------------

RATES = [60.0, 10.0, 1.0]


@pytest.mark.parametrize("rate", RATES)
@simulated
async def test_a_callback_is_never_called_more_often_than_its_rate(rate: float) -> None:
    looks, session = Looks(), Session("s")
    feed = ChangeCallback(looks, rate)
    await stream(session, feed.add, 3000, 0.001)
    feed.end()
    assert min(looks.pauses[:-1]) >= 1 / rate - 1e-9
    assert len(looks) <= 3 * rate + 2
    assert len(looks) >= 3 * rate - 1
    assert looks[0] == (0.0, [EntryAdded(0)])
    assert all(changes == [ContentAppended(0)] for _, changes in looks[1:])


@pytest.mark.parametrize("rate", RATES)
@simulated
async def test_an_iterator_never_comes_more_often_than_its_rate(rate: float) -> None:
    looks, session = Looks(), Session("s")
    feed = ChangeQueue(rate)
    watching = asyncio.create_task(watch(feed, looks))
    await stream(session, feed.add, 3000, 0.001)
    feed.end()
    await watching
    assert min(looks.pauses[:-1]) >= 1 / rate - 1e-9
    assert 3 * rate - 1 <= len(looks) <= 3 * rate + 2


@simulated
async def test_the_first_change_is_reported_at_once() -> None:
    looks, feed = Looks(), ChangeQueue()
    watching = asyncio.create_task(watch(feed, looks))
    await asyncio.sleep(5)
    feed.add((UsageChanged(),))
    await asyncio.sleep(1)
    feed.add((ConfigChanged(),))
    await asyncio.sleep(1)
    assert looks == [(5.0, [UsageChanged()]), (6.0, [ConfigChanged()])]
    feed.end()
    await watching


@simulated
async def test_nothing_is_reported_while_nothing_changes() -> None:
    calls, looks = Looks(), Looks()
    callback, feed = ChangeCallback(calls), ChangeQueue()
    watching = asyncio.create_task(watch(feed, looks))
    for _ in range(10):
        callback.add(())
        feed.add(())
        await asyncio.sleep(60)
    assert (calls, looks) == ([], [])
    feed.end()
    await watching
    assert looks == []


@simulated
async def test_a_view_that_lags_gets_one_list_that_names_everything() -> None:
    session, feed = Session("s"), ChangeQueue()
    for number in range(5000):
        feed.add(session.apply(chunk_of(f"m{number % 3}")))
        feed.add(session.apply(v2.ToolCallUpdate("t", status="in_progress")))
    facts = await feed.next()
    assert facts == [
        *(EntryAdded(0), EntryAdded(1), EntryAdded(2), EntryChanged(1), EntryAdded(3)),
        *(ContentAppended(0), ContentAppended(2), ContentAppended(3)),
    ]


@simulated
async def test_the_last_word_on_the_state_is_the_last_of_the_facts() -> None:
    session, feed = Session("s"), ChangeQueue()
    for state in ("running", "idle", "running"):
        feed.add(session.apply(v2.StateUpdate(state)))
    assert await feed.next() == [StateChanged("idle", True), StateChanged("running", False)]


@simulated
async def test_without_a_rate_every_turn_of_the_loop_may_be_reported() -> None:
    looks, feed = Looks(), ChangeQueue(0)
    watching = asyncio.create_task(watch(feed, looks))
    for _ in range(3):
        feed.add((UsageChanged(),))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    feed.end()
    await watching
    assert [changes for _, changes in looks] == [[UsageChanged()]] * 3


# ---- what is lost ----------------------------------------------------------------------------

UPDATES = st.one_of(
    st.builds(chunk_of, st.sampled_from("ab"), st.sampled_from(["x", "y"])),
    st.builds(
        lambda identity, status: v2.ToolCallUpdate(identity, status=status),
        st.sampled_from("tu"),
        st.sampled_from(["pending", "in_progress", "completed"]),
    ),
    st.builds(v2.StateUpdate, st.sampled_from(["running", "idle", "requires_action"])),
    st.builds(lambda used: v2.UsageUpdate(used, 100), st.integers(0, 9)),
)


def catch_up(copied: Session, session: Session, changes: list[Change]) -> None:
    """Read again just what the facts name."""
    for change in changes:
        match change:
            case EntryAdded(index):
                assert index == len(copied.entries)
                copied.entries.append(copy.deepcopy(session.entries[index]))
            case EntryChanged(index) | ContentAppended(index):
                copied.entries[index] = copy.deepcopy(session.entries[index])
            case StateChanged():
                copied.state_update = session.state_update
            case UsageChanged():
                copied.usage = session.usage
            case _:
                raise AssertionError(change)


@settings(max_examples=50)
@given(st.lists(st.tuples(UPDATES, st.sampled_from([0.0, 0.001, 0.02]))))
def test_facts_read_onto_a_copy_give_the_session(
    steps: list[tuple[v2.SessionUpdate, float]],
) -> None:
    async def scenario() -> None:
        session, seen, called = Session("s"), Session("s"), Session("s")
        feed = ChangeQueue()
        callback = ChangeCallback(lambda changes: catch_up(called, session, changes))

        async def view() -> None:
            async for changes in ChangeFeed(feed):
                catch_up(seen, session, changes)

        viewing = asyncio.create_task(view())
        for update, pause in steps:
            changes = session.apply(update)
            feed.add(changes)
            callback.add(changes)
            await asyncio.sleep(pause)
        feed.end()
        callback.end()
        await viewing
        assert seen == session
        assert called == session

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())


# ---- the end ---------------------------------------------------------------------------------


@simulated
async def test_what_was_not_reported_yet_is_reported_at_the_end() -> None:
    calls, looks = Looks(), Looks()
    callback, feed = ChangeCallback(calls, 1), ChangeQueue(1)
    watching = asyncio.create_task(watch(feed, looks))
    for change in (UsageChanged(), ConfigChanged()):
        callback.add((change,))
        feed.add((change,))
        await asyncio.sleep(0.01)
    callback.end()
    feed.end()
    await watching
    for seen in (calls, looks):
        assert [changes for _, changes in seen] == [[UsageChanged()], [ConfigChanged()]]


@simulated
async def test_a_closed_feed_reports_no_more() -> None:
    calls, closed = Looks(), []
    callback, queue = ChangeCallback(calls), ChangeQueue()
    feed = ChangeFeed(queue, on_close=lambda: closed.append(True))
    callback.add((UsageChanged(),))
    queue.add((UsageChanged(),))
    callback.close()
    feed.close()
    assert [changes async for changes in feed] == []
    await asyncio.sleep(10)
    assert calls == []
    assert closed == [True]


@simulated
async def test_a_callback_that_fails_is_reported_and_called_again() -> None:
    problems: list[Problem] = []
    calls = []

    def failing(changes: list[Change]) -> None:
        calls.append(changes)
        raise ValueError("broken view")

    callback = ChangeCallback(failing, 60, problems.append)
    for _ in range(2):
        callback.add((UsageChanged(),))
        await asyncio.sleep(1)
    callback.add((UsageChanged(),))
    callback.end()
    assert len(calls) == 3
    assert [problem.kind for problem in problems] == ["handler"] * 3
    assert "ValueError: broken view" in problems[0].text


# ---- in a session ----------------------------------------------------------------------------


async def short_turn(agent: RawAgent) -> None:
    prompt = await agent.receive("session/prompt")
    agent.answer(prompt, {"messageId": "u1"})
    agent.update(echo("hello"), RUNNING)
    for _ in range(1000):
        agent.update(chunk("x"))
    agent.update(call("t", "completed"), IDLE)


@simulated
async def test_a_session_reports_everything_to_its_views_and_not_per_chunk() -> None:
    async with in_session(2, {"session/close": {}}) as (session, agent):
        calls, looks = Looks(), Looks()
        session.on_change(calls)
        watching = asyncio.create_task(watch(session.changes(), looks))
        answering = asyncio.create_task(short_turn(agent))
        await session.prompt("hello")
        await answering
        await session.close()
        await watching
    for seen in (calls, looks):
        assert len(seen) < 10
        facts = [change for _, changes in seen for change in changes]
        assert {EntryAdded(0), EntryAdded(1), EntryAdded(2)} <= set(facts)
        assert facts[-1] == StateChanged("idle", True)


@simulated
async def test_a_session_forgets_the_views_that_stopped_looking() -> None:
    problems = Problems()
    async with in_session(2, problems=problems) as (session, agent):
        calls = Looks()
        stop = session.on_change(calls)
        feed = session.changes()
        agent.update(chunk("one"))
        await until(lambda: calls)
        stop.cancel()
        stop.cancel()
        feed.close()
        agent.update(chunk("two"))
        await until(lambda: session.state.entries[0].content[1:])
        await asyncio.sleep(1)
        assert len(calls) == 1
        assert [changes async for changes in feed] == []


@simulated
async def test_a_view_of_a_session_that_is_gone_ends_at_once() -> None:
    async with in_session(2, {"session/close": {}}) as (session, _):
        await session.close()
        assert [changes async for changes in session.changes()] == []


@simulated
async def test_a_callback_can_be_called_before_its_time_and_is_not_called_twice() -> None:
    calls = Looks()
    callback = ChangeCallback(calls, 1)
    session = Session("s")
    callback.add(session.apply(chunk_of("m")))
    await asyncio.sleep(0.1)
    callback.add(session.apply(chunk_of("m")))
    assert len(calls) == 1
    callback.flush()
    assert [changes for _, changes in calls] == [[EntryAdded(0)], [ContentAppended(0)]]
    callback.flush()
    await asyncio.sleep(5)
    assert len(calls) == 2


@simulated
async def test_when_a_turn_has_ended_a_view_can_get_all_of_it() -> None:
    async with talk(2) as (client, agent):
        session = await client.new_session()
        calls = Looks()
        session.on_change(calls, 0.1)
        agent.update(chunk("one"), session_id=session.session_id)
        await until(lambda: bool(calls))
        agent.update(chunk("two"), session_id=session.session_id)
        await until(lambda: len(session.state.messages["agent"]["m1"].content) == 2)
        assert len(calls) == 1
        session.flush_changes()
        assert [changes for _, changes in calls] == [[EntryAdded(0)], [ContentAppended(0)]]
