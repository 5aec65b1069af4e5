"""Two transports in one process, each the other's peer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.receiver import Recorder
from tests.support.simulated import leaves_nothing, turns
from twofold.transport.base import HIGH_WATER, Transport
from twofold.transport.memory import MemoryTransport, memory_pair


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[MemoryTransport, MemoryTransport, Recorder, Recorder]]:
    """Two ends, and who reads at each."""
    one, two = memory_pair()
    ends: list[Transport] = [one, two]
    recorders = [Recorder(), Recorder()]
    for end, recorder in zip(ends, recorders, strict=True):
        end.start(recorder)
    yield one, two, recorders[0], recorders[1]
    for end in ends:
        await end.close()
    await turns()
    assert [recorder.errors for recorder in recorders] == [[None], [None]]


@leaves_nothing
async def test_what_one_end_writes_the_other_reads_in_order() -> None:
    async with pair() as (one, two, ours, theirs):
        for index in range(100):
            one.write(b"%d " % index)
            two.write(b"x")
        assert not ours.data  # never from inside `write`
        await turns()
        assert theirs.data == b"".join(b"%d " % index for index in range(100))
        assert ours.data == b"x" * 100


@leaves_nothing
async def test_what_came_before_the_start_is_kept() -> None:
    one, two = memory_pair()
    one.write(b"early")
    await turns()
    theirs = Recorder()
    two.start(theirs)
    await turns()
    assert theirs.data == b"early"
    await one.close()
    await two.close()
    await turns()
    assert theirs.errors == [None]


@leaves_nothing
async def test_nothing_comes_while_reading_is_paused_and_nothing_is_lost() -> None:
    async with pair() as (one, two, _, theirs):
        two.pause_reading()
        one.write(b"held")
        await turns()
        assert not theirs.data
        two.resume_reading()
        await turns()
        assert theirs.data == b"held"


@leaves_nothing
async def test_a_writer_is_asked_to_wait_until_the_other_end_has_read() -> None:
    async with pair() as (one, two, ours, _):
        two.pause_reading()
        one.write(b"x" * HIGH_WATER)
        assert ours.calls == []
        one.write(b"x")
        one.write(b"x")
        assert ours.calls == ["pause_writing"]
        two.resume_reading()
        await turns()
        assert ours.calls == ["pause_writing", "resume_writing"]


@leaves_nothing
async def test_a_writer_that_starts_late_is_paused() -> None:
    one, two = memory_pair()
    one.write(b"x" * (HIGH_WATER + 1))
    ours, theirs = Recorder(), Recorder()
    one.start(ours)
    assert ours.calls == ["pause_writing"]
    two.start(theirs)
    await turns()
    assert ours.calls == ["pause_writing", "resume_writing"]
    await one.close()
    await two.close()
    await turns()


@leaves_nothing
async def test_what_was_written_is_read_before_the_end() -> None:
    async with pair() as (one, two, ours, theirs):
        two.pause_reading()
        one.write(b"last words")
        await one.close()
        await turns()
        assert ours.errors == [None]
        assert not theirs.errors
        two.resume_reading()
        await turns()
        assert theirs.data == b"last words"
        assert theirs.errors == [None]
        two.write(b"too late")
        one.write(b"too late")
        await turns()


@leaves_nothing
async def test_closing_twice_is_closing_once() -> None:
    async with pair() as (one, two, ours, theirs):
        await asyncio.gather(one.close(), one.close(), two.close())
        await turns()
        assert ours.errors == theirs.errors == [None]
