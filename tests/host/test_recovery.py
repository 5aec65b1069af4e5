"""The log of a hosted session rebuilds it, whatever happened, up to where it ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.deeds import everything
from tests.support.hosted import HostStage, Page, hosting, until_soon
from tests.support.hosted_walk import STEPS, Walk, accept, replay
from tests.support.idle_clock import simulated
from tests.support.raw_agent import chunk
from twofold.errors import LocalError
from twofold.host.hosted_session import HostedSession
from twofold.host.recovery import INTERRUPTED, Recovery
from twofold.journal.compaction import Thing, compaction
from twofold.journal.journal import Event

Put = tuple[str, bytes, str]
DROPPED: Put = ("dropped", b"", "")


class MemoryLog:
    """A log that keeps events a moment after they were put."""

    keeps = True

    def __init__(self) -> None:
        self.events: list[Put] = []
        self.count = 0
        """How many are kept."""
        self.fault: LocalError | None = None
        self.compacted = self.compactions = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def put(self, kind: str, body: bytes, text: str = "") -> None:
        self.events.append((kind, body, text))

    async def compact(self, is_known: Callable[[Thing], bool]) -> None:
        begin, self.compacted = self.compacted, len(self.events)
        events = [
            Event(begin + number, 0.0, kind, body)
            for number, (kind, body, _) in enumerate(self.events[begin:], 1)
        ]
        found = compaction(events, is_known)
        for event in events if found is not None else ():
            assert found is not None
            if event.seq not in found.kept:
                self.events[event.seq - 1] = DROPPED
            elif (entry := found.kept[event.seq]) is not None:
                self.events[event.seq - 1] = (entry.kind, entry.body, "")
                self.compactions += 1

    async def kept(self) -> None:
        until = len(self.events)
        await asyncio.sleep(0.005)
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.count = max(self.count, until)


def recovered(events: list[Put]) -> Recovery:
    problems: list[str] = []
    recovery = Recovery("/", problems.append)
    for number, event in enumerate(events, 1):
        if event is not DROPPED:
            recovery.put(number, event[0], event[1])
    assert problems == []
    return recovery


def compare(hosted: HostedSession, log: MemoryLog) -> None:
    """The log adds up to what is there now."""
    hosted.flush()
    recovery = recovered(log.events)
    live, again = hosted.live, recovery.live
    assert everything(again.session) == everything(live.session)
    assert [again.block(key) for key in again.places] == [live.block(key) for key in live.places]
    queued = hosted.facts()["queue"]
    assert [each.item for each in recovery.queue] == [each["item"] for each in queued]
    assert [each.text for each in recovery.queue] == [each["text"] for each in queued]
    assert list(recovery.answered) == hosted.facts()["answered"]
    assert (recovery.failure is None) == (hosted.failure is None)
    assert recovery.agent_session == hosted.agent_session


@settings(max_examples=100)
@given(STEPS, st.data(), st.booleans())
def test_the_log_adds_up_to_what_is_there_at_every_point(
    steps: list[str], data: st.DataObject, resumes: bool
) -> None:
    @simulated
    async def run() -> None:
        log = MemoryLog()
        answers: dict[str, Any] = {
            "session/prompt": accept,
            "session/resume": {} if resumes else replay,
        }
        async with hosting(2, answers, log=log) as stage:
            walk = Walk(stage, data)
            for name in steps:
                await walk.step(name)
                if data.draw(st.booleans()):
                    await stage.drained()
                    compare(stage.hosted, log)
            await stage.settled()
            await asyncio.sleep(1)
            compare(stage.hosted, log)
            walk.seldom.catch_up()
            assert walk.always.shown() == walk.seldom.shown() == Page(stage.hosted).shown()

    run()


@settings(max_examples=50)
@given(STEPS, st.data())
def test_a_log_that_ends_anywhere_gives_a_session_in_which_nothing_is_pending(
    steps: list[str], data: st.DataObject
) -> None:
    @simulated
    async def run() -> None:
        log = MemoryLog()
        answers: dict[str, Any] = {"session/prompt": accept, "session/resume": replay}
        async with hosting(2, answers, log=log) as stage:
            walk = Walk(stage, data)
            for name in steps:
                await walk.step(name)
            end = data.draw(st.integers(0, len(log.events)))
            recovery = recovered(log.events[:end])
            going_on = recovery.session.state != "idle" or recovery.session.turn == "open"
            block = recovery.settle(lambda given, changes: None)
            assert recovery.session.permissions == {}
            assert recovery.session.state == "idle"
            assert recovery.session.turn != "open"
            assert recovery.session.open_calls == {}
            assert (block is not None) == going_on
            assert all(each.held for each in recovery.queue)

    run()


@simulated
async def test_the_pieces_of_a_turn_become_one_event_when_it_has_ended() -> None:
    log = MemoryLog()
    async with hosting(2, log=log) as stage:
        stage.hosted.prompt(["hello"], "Anna")
        prompt = await stage.begin()
        for number in range(100):
            stage.agent.update(chunk(f"{number} "))
        stage.finish(prompt)
        await stage.idle()
        await stage.settled()
        assert log.compactions == 1
        assert sum(event is DROPPED for event in log.events) == 98
        compare(stage.hosted, log)


# ---- what must not be lost -----------------------------------------------------------------------


async def restarted(stage: HostStage, log: MemoryLog) -> HostStage:
    """The same session at another host, which has read what was kept."""
    events = log.events[: log.count]

    async def read(hosted: HostedSession) -> Recovery:
        return recovered(events)

    again = HostStage(2, stage.answers, stage.policy, log=log, identity=stage.hosted.id, read=read)
    again.hosted.first_words = stage.hosted.first_words
    log.events = events
    return again


@simulated
async def test_a_prompt_is_sent_to_the_agent_only_when_it_is_kept() -> None:
    log = MemoryLog()
    async with hosting(2, log=log) as stage:
        log.gate.clear()
        stage.hosted.prompt(["hello"], "Anna")
        await asyncio.sleep(1)
        assert stage.prompts() == []
        log.gate.set()
        await stage.begin()
        kinds = [kind for kind, _, _ in log.events[: log.count]]
        assert "queued" in kinds


@simulated
async def test_an_answer_is_sent_to_the_agent_only_when_it_is_kept() -> None:
    log = MemoryLog()
    async with hosting(2, log=log) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["hello"], "Anna")
        await stage.begin()
        asked = stage.ask()
        await asyncio.sleep(1)
        log.gate.clear()
        stage.hosted.answer(page.facts["questions"][0]["question"], "yes", "Anna")
        await asyncio.sleep(1)
        assert not asked.done()
        log.gate.set()
        await asyncio.sleep(1)
        assert asked.result()["result"]["outcome"]["optionId"] == "yes"


@simulated
async def test_the_end_of_a_turn_is_shown_only_when_it_is_kept() -> None:
    log = MemoryLog()
    async with hosting(2, log=log) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["hello"], "Anna")
        prompt = await stage.begin()
        await asyncio.sleep(1)
        log.gate.clear()
        stage.finish(prompt)
        await asyncio.sleep(1)
        assert stage.hosted.is_keeping
        assert page.facts["session"]["state"] == "running"
        log.gate.set()
        await asyncio.sleep(1)
        assert page.facts["session"]["state"] == "idle"


@simulated
async def test_what_is_kept_no_more_ends_the_agent_and_says_why() -> None:
    log = MemoryLog()
    async with hosting(2, log=log) as stage:
        stage.hosted.prompt(["hello"], "Anna")
        await stage.begin()
        await asyncio.sleep(1)
        log.fault = LocalError("The journal cannot be written: no space left on device.")
        stage.hosted.prompt(["more"], "Anna")
        with pytest.raises(LocalError, match="no space left"):
            await stage.hosted.kept()
        await stage.state("failed")
        assert stage.hosted.failure == str(log.fault)
        await asyncio.sleep(1)
        assert not stage.hosted.is_running


# ---- another host --------------------------------------------------------------------------------


@simulated
async def test_a_session_of_an_earlier_host_is_cold_and_goes_on_at_the_next_prompt() -> None:
    log = MemoryLog()
    async with hosting(2, {"session/resume": {}}, log=log) as stage:
        stage.hosted.prompt(["hello"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(chunk("Hi."))
        stage.finish(prompt)
        await stage.idle()
        await stage.settled()
        await asyncio.sleep(1)
        log.count = len(log.events)
        shown = Page(stage.hosted).blocks
        again = await restarted(stage, log)
        assert again.hosted.state == "cold"
        with pytest.raises(LocalError, match="Open it first"):
            again.hosted.prompt(["too early"])
        await again.hosted.ready()
        page = Page(again.hosted)
        assert page.blocks == shown
        again.hosted.prompt(["and more"], "Anna")
        prompt = await again.begin()
        again.agent.update(chunk("Again.", "m2"))
        again.finish(prompt)
        await again.idle()
        await again.settled()
        assert "session/resume" in again.agent.methods()
        assert again.prompts() == ["and more"]
        assert len(page.blocks) > len(shown)
        compare(again.hosted, log)
        await again.hosted.close()


@simulated
async def test_what_was_going_on_when_the_host_ended_has_ended_with_it() -> None:
    log = MemoryLog()
    async with hosting(2, log=log) as stage:
        stage.hosted.prompt(["hello"], "Anna")
        await stage.begin()
        stage.agent.update(chunk("Hi."))
        stage.hosted.prompt(["next"], "Bert")
        asked = stage.ask()
        await asyncio.sleep(1)
        await log.kept()
        again = await restarted(stage, log)
        await again.hosted.ready()
        facts = again.facts()
        assert facts["questions"] == []
        assert [(each["text"], each["held"]) for each in facts["queue"]] == [("next", True)]
        assert again.remarks() == [INTERRUPTED]
        assert facts["session"]["state"] == "cold"
        assert again.hosted.live.session.state == "idle"
        assert not asked.done()
        await again.hosted.close()


@simulated
async def test_a_session_without_work_becomes_cold_and_is_resumed() -> None:
    log = MemoryLog()
    async with hosting(2, {"session/resume": {}}, log=log, idle_after=60.0) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["hello"], "Anna")
        stage.finish(await stage.begin())
        await stage.idle()
        await asyncio.sleep(59)
        assert stage.hosted.state == "idle"
        await asyncio.sleep(5)
        assert (stage.hosted.state, stage.hosted.is_running) == ("cold", False)
        assert page.facts["session"]["state"] == "cold"
        epoch = page.epoch
        stage.hosted.prompt(["again"], "Anna")
        await until_soon(lambda: len(stage.agents) == 2)
        stage.finish(await stage.begin())
        await stage.idle()
        assert stage.prompts() == ["again"]
        assert page.epoch == epoch
        compare(stage.hosted, log)


@simulated
async def test_a_cold_session_may_be_refused_to_start() -> None:
    def refuse() -> None:
        raise LocalError("Too many agents.")

    log = MemoryLog()
    async with hosting(2, {"session/resume": {}}, log=log, idle_after=1.0, may_start=refuse) as st:
        st.hosted.prompt(["hello"], "Anna")
        st.finish(await st.begin())
        await st.state("cold")
        with pytest.raises(LocalError, match="Too many"):
            st.hosted.prompt(["again"], "Anna")
        assert st.facts()["queue"] == []


def test_an_event_that_cannot_be_read_is_left_out_and_reported() -> None:
    problems: list[str] = []
    recovery = Recovery("/", problems.append)
    recovery.put(1, "update", b"{")
    recovery.put(2, "remark", b'{"text": "Hello.", "tone": ""}')
    recovery.put(3, "queued", b"[]")
    assert len(recovery.live.places) == 1
    assert [each.split(",")[0] for each in problems] == [
        "Event 1 of the journal",
        "Event 3 of the journal",
    ]
