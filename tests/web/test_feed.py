"""The frames of a session for its observers: encoded once, and right for everyone."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.costs import functions_called
from tests.support.hosted import HostStage, hosting
from tests.support.hosted_walk import STEPS, Walk, accept, replay
from tests.support.idle_clock import simulated
from tests.support.raw_agent import call, chunk
from tests.web.mirror import Mirror
from twofold.web.feed import LARGEST_BLOCK, LARGEST_SHARED, PIECE, Feed, Observer
from twofold.web.requests import Window


class Reader:
    """An observer and the page that it feeds."""

    def __init__(self, feed: Feed, window: Window = (0, None)) -> None:
        self.feed = feed
        self.mirror = Mirror(window)
        self.woken = 0
        self.pending: set[int] = set()
        self.observer = self._observe()

    def _observe(self, request: int | None = None) -> Observer:
        mirror = self.mirror
        since = mirror.seq if mirror.seq >= 0 else None
        return Observer(
            self.feed, mirror.window, self._wake, request=request, epoch=mirror.epoch, since=since
        )

    def _wake(self) -> None:
        self.woken += 1

    def read(self, most: int = 1_000) -> list[str]:
        """Take what there is to send, at most so many messages."""
        texts: list[str] = []
        while len(texts) < most and (text := self.observer.next()) is not None:
            self.mirror.take(text)
            texts.append(text)
        return texts

    def move(self, window: Window, request: int = 1) -> None:
        self.mirror.move(window)
        self.pending.add(request)
        self.observer.move(window, request)

    def come_back(self) -> None:
        """The network was lost, and is there again.

        A page that was not sent all of its window begins again.
        """
        self.observer.leave()
        if self.pending - {*self.mirror.done}:
            self.mirror.seq = -1
        self.pending.clear()
        self.mirror.done.clear()
        self.observer = self._observe()


class Viewing(Walk):
    """A walk with pages beside the observers of the host."""

    def __init__(self, stage: HostStage, data: st.DataObject) -> None:
        super().__init__(stage, data)
        self.feed = Feed(stage.hosted)
        self.stays, self.slow = Reader(self.feed), Reader(self.feed)

    async def step(self, name: str) -> None:
        await super().step(name)
        self.stays.read()
        if self.data.draw(st.booleans()):
            self.slow.read(self.data.draw(st.integers(0, 3)))
        match self.data.draw(st.sampled_from(["", "", "lost", "window", "window"])):
            case "lost":
                self.slow.come_back()
            case "window":
                begin = self.data.draw(st.integers(0, 6))
                size = self.data.draw(st.none() | st.integers(0, 6))
                window = begin, None if size is None else begin + size
                self.slow.move(window, len(self.slow.pending))


@settings(max_examples=60)
@given(STEPS, st.data())
def test_pages_end_with_the_same_whatever_they_missed(
    steps: list[str], data: st.DataObject
) -> None:
    @simulated
    async def run() -> None:
        answers: dict[str, Any] = {"session/prompt": accept, "session/resume": replay}
        async with hosting(2, answers) as stage:
            walk = Viewing(stage, data)
            for name in steps:
                await walk.step(name)
            await stage.settled()
            walk.slow.move((0, None))
            late = Reader(walk.feed)
            for reader in (walk.stays, walk.slow, late):
                reader.read()
                assert reader.observer.next() is None
            assert walk.stays.mirror.shown() == walk.slow.mirror.shown() == late.mirror.shown()
            assert late.mirror.count == stage.hosted.count
            assert (
                len([at for at in late.mirror.places.values() if at is not None])
                == late.mirror.count
            )

    run()


# ---- what it costs -------------------------------------------------------------------------------


@simulated
async def test_a_frame_is_encoded_once_for_any_number_of_observers() -> None:
    encodings, costs = [], []
    for count in (1, 50):
        async with hosting(2) as stage:
            feed = Feed(stage.hosted)
            readers = [Reader(feed) for _ in range(count)]
            for reader in readers:
                reader.read()
            before = feed.encodings
            called = 0
            for number in range(20):
                stage.agent.update(chunk(f"Line {number} of *Markdown*.\n\n"))
                await stage.drained()
                called += functions_called(stage.hosted.flush)
                texts = [reader.read() for reader in readers]
                assert all(text == texts[0] for text in texts)
                assert len({id(text[0]) for text in texts}) == 1, "the same text, not an equal one"
            encodings.append(feed.encodings - before)
            costs.append(called)
    assert encodings == [20, 20]
    assert costs[1] < costs[0] * 1.5


@simulated
async def test_one_that_is_behind_is_sent_what_changed_and_not_every_frame() -> None:
    async with hosting(2) as stage:
        feed = Feed(stage.hosted)
        fast, slow = Reader(feed), Reader(feed)
        fast.read()
        slow.read()
        for number in range(200):
            stage.agent.update(chunk(f"word {number} "))
            await stage.settled()
            assert len(fast.read()) == 1
        texts = slow.read()
        assert len(texts) == 1
        assert len(texts[0]) < 8_000
        assert slow.mirror.shown() == fast.mirror.shown()


@simulated
async def test_one_that_is_a_little_behind_is_sent_the_frames_of_the_others() -> None:
    async with hosting(2) as stage:
        feed = Feed(stage.hosted)
        fast, slow = Reader(feed), Reader(feed)
        fast.read()
        slow.read()
        sent = []
        for number in range(5):
            stage.agent.update(chunk(f"word {number} "))
            await stage.settled()
            sent += fast.read()
        assert list(map(id, slow.read())) == list(map(id, sent))


@simulated
async def test_a_long_session_is_sent_as_far_as_it_is_in_the_window() -> None:
    async with hosting(2) as stage:
        for number in range(300):
            stage.agent.update(call(f"c{number}", title=f"Call {number}"))
        await stage.settled()
        reader = Reader(Feed(stage.hosted), (290, None))
        reader.read()
        held = {at for at in reader.mirror.places.values() if at is not None}
        assert held == set(range(290, 300))
        assert reader.mirror.count == 300
        reader.move((100, 110), 7)
        (text, done) = reader.read()
        assert len(json.loads(text)["put"]) - 10 <= 1, "the footer has no place"
        assert json.loads(done) == {"type": "done", "id": 7}
        reader.move((105, 112), 8)
        assert [each[0] for each in json.loads(reader.read()[0])["put"] if each[0] is not None] == [
            110,
            111,
        ]


@simulated
async def test_a_window_beyond_the_end_holds_nothing_until_it_is_moved() -> None:
    async with hosting(2) as stage:
        stage.agent.update(call("c"))
        await stage.settled()
        reader = Reader(Feed(stage.hosted), (2**31 - 1, None))
        reader.read()
        assert [at for at in reader.mirror.places.values() if at is not None] == []
        reader.move((0, None))
        reader.read()
        assert [at for at in reader.mirror.places.values() if at is not None] == [0]


# ---- large things --------------------------------------------------------------------------------


def content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


@simulated
async def test_a_large_block_comes_in_pieces_and_counts_when_all_have_arrived() -> None:
    async with hosting(2) as stage:
        feed = Feed(stage.hosted)
        stage.agent.update(call("c", content=[content("x" * 40_000)] * 40))
        stage.agent.update(chunk("A paragraph of some words.\n\n" * 6_000))
        await stage.settled()
        reader = Reader(feed)
        texts = reader.read()
        assert len(texts) > 6
        assert max(map(len, texts)) < 2 * PIECE
        assert {json.loads(text)["seq"] for text in texts[:-1]} == {-1}
        again = Reader(feed)
        again.read(3)
        again.come_back()
        again.read()
        assert again.mirror.shown() == reader.mirror.shown()
        call_block = reader.mirror.blocks["entry:0"]
        assert [len(item["text"]) for item in call_block["items"]] == [40_000] * 40


@simulated
async def test_while_a_large_block_is_sent_further_frames_wait_and_fit() -> None:
    async with hosting(2) as stage:
        feed = Feed(stage.hosted)
        stage.agent.update(chunk("```python\n" + "x = 1\n" * 6_000))
        await stage.settled()
        stays, late = Reader(feed), Reader(feed)
        stays.read()
        late.read(1)
        stage.agent.update(chunk("y = 2\n"))
        await stage.settled()
        stays.read()
        late.read()
        assert late.mirror.shown() == stays.mirror.shown()
        assert late.mirror.seq == stays.mirror.seq


@simulated
async def test_a_frame_that_is_too_large_for_all_is_sent_to_those_who_look_there() -> None:
    async with hosting(2) as stage:
        feed = Feed(stage.hosted)
        near, far = Reader(feed), Reader(feed, (1_000, None))
        near.read()
        far.read()
        for number in range(30):
            stage.agent.update(call(f"c{number}", content=[content("x" * 40_000)]))
        await stage.settled()
        assert sum(map(len, near.read())) > LARGEST_SHARED
        assert sum(map(len, far.read())) < 4_000
        assert far.mirror.count == near.mirror.count == 30


@simulated
async def test_a_block_that_no_page_can_show_is_named_with_its_size() -> None:
    async with hosting(2) as stage:
        locations = [{"path": f"/{'x' * 100}/{number}"} for number in range(LARGEST_BLOCK // 100)]
        stage.agent.update(call("c", locations=locations))
        await stage.settled()
        reader = Reader(Feed(stage.hosted))
        assert max(map(len, reader.read())) < LARGEST_BLOCK
        assert reader.mirror.blocks["entry:0"]["type"] == "RemarkBlock"
        assert "too large to be shown" in reader.mirror.blocks["entry:0"]["text"]


# ---- beginning again -----------------------------------------------------------------------------


@pytest.mark.parametrize("since", [None, 0, 10**9, -5])
@simulated
async def test_one_with_a_cursor_of_another_session_begins_again(since: int | None) -> None:
    async with hosting(2) as stage:
        stage.agent.update(call("c"))
        await stage.settled()
        feed = Feed(stage.hosted)
        for epoch in ("other", None, stage.hosted.epoch if since in (10**9, -5) else "x"):
            observer = Observer(feed, (0, None), lambda: None, request=3, epoch=epoch, since=since)
            opened = json.loads(observer.next() or "")
            assert opened["resumed"] is False
            assert opened["id"] == 3
            observer.leave()


@simulated
async def test_all_are_sent_how_long_a_call_takes_and_how_long_it_took() -> None:
    async with hosting(2) as stage:
        reader = Reader(Feed(stage.hosted))
        reader.read()
        stage.agent.update(call("c"))
        await stage.settled()
        reader.read()
        block = reader.mirror.blocks["entry:0"]
        assert block["seconds"] == 0
        assert block["since"] > 1_700_000_000
        await asyncio.sleep(4)
        stage.agent.update(call("c", "completed"))
        await stage.settled()
        reader.read()
        late = Reader(reader.feed)
        late.read()
        assert late.mirror.shown() == reader.mirror.shown()
        block = late.mirror.blocks["entry:0"]
        assert 4 <= block["seconds"] < 4.1
        assert "since" not in block


@simulated
async def test_all_begin_again_when_the_agent_has_other_blocks() -> None:
    answers: dict[str, Any] = {"session/prompt": accept, "session/resume": replay}
    async with hosting(2, answers) as stage:
        stage.agent.update(chunk("before"))
        await stage.settled()
        reader = Reader(Feed(stage.hosted))
        reader.read()
        await stage.agent.gone()
        await stage.state("failed")
        stage.hosted.restart()
        await stage.idle()
        await stage.settled()
        reader.read()
        assert reader.mirror.opened == 2
        fresh = Reader(reader.feed)
        fresh.read()
        assert reader.mirror.shown() == fresh.mirror.shown()


@simulated
async def test_frames_that_nobody_looks_at_are_not_followed() -> None:
    async with hosting(2) as stage:
        feed = Feed(stage.hosted)
        reader = Reader(feed)
        reader.read()
        reader.observer.leave()
        feed.close()
        stage.agent.update(chunk("word"))
        await stage.settled()
        assert feed.encodings == 0
