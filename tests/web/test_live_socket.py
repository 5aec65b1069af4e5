"""Pages that see and steer a session over their sockets."""

import asyncio
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from tests.support.raw_agent import begin, call, chunk, finish
from tests.web.mirror import Mirror
from tests.web.server_stage import PATIENCE, Page, ServerStage, serving, soon
from tests.web.test_server import quiet, real
from twofold.web import live_socket
from twofold.web.access import Guest
from twofold.web.live_socket import LiveSockets, Pace

__all__ = ["quiet"]

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def ask(stage: ServerStage) -> Any:
    told = {"toolCallId": "c", "title": "Edit", "kind": "edit"}
    params = {
        "sessionId": "s",
        "title": "May I?",
        "options": OPTIONS,
        "subject": {"type": "tool_call", "toolCall": told},
    }
    return stage.agent.ask("session/request_permission", params, None)


def questions(page: Page) -> list[Any]:
    found: list[Any] = page.mirror.facts.get("questions", [])
    return found


# ---- the whole walk ------------------------------------------------------------------------------


@real
async def test_two_browsers_see_the_same_and_one_answer_counts() -> None:
    async with serving() as stage, stage.page() as first, stage.page() as second:
        for page in (first, second):
            assert (await page.open())["resumed"] is False
        assert first.welcome["name"] != second.welcome["name"]
        assert (await first.ask("prompt", text="hello"))["type"] == "done"
        prompt = await begin(2, stage.agent)
        stage.agent.update(chunk("Some *words*."))
        stage.agent.update(call("c"))
        answer = ask(stage)
        for page in (first, second):
            await page.until(lambda page=page: questions(page))
        question = questions(first)[0]
        assert question["key"] in first.mirror.blocks
        assert [each["kind"] for each in question["options"]] == ["allow_once", "reject_once"]
        fields = {"question": question["question"], "option": question["options"][0]["option"]}
        assert (await first.ask("answer", **fields))["type"] == "done"
        late = await second.ask("answer", **fields)
        assert late["type"] == "error"
        assert "was answered already: " in late["message"]
        assert first.welcome["name"] in late["message"]
        await second.until(lambda: not questions(second))
        assert second.mirror.facts["answered"][-1]["by"] == first.welcome["name"]
        assert (await answer)["result"]["outcome"]["optionId"] == "yes"
        finish(2, stage.agent, prompt)
        for page in (first, second):
            await page.until(lambda page=page: page.mirror.facts["session"]["state"] == "idle")
            await page.ask("search", text="x")
        assert first.mirror.shown() == second.mirror.shown()


@real
async def test_a_page_that_comes_back_is_sent_what_it_missed() -> None:
    async with serving() as stage:
        stage.agent.update(call("a", title="First"))
        async with stage.page() as page:
            await page.open()
            await page.until(lambda: page.mirror.blocks.get("entry:0"))
        stage.agent.update(call("b", title="Second"))
        stage.agent.update(chunk("word"))
        mirror = page.mirror
        async with stage.page() as page:
            page.mirror = mirror
            opened = await page.open(epoch=mirror.epoch, since=mirror.seq)
            assert opened["resumed"] is True
            await page.until(lambda: len(mirror.blocks) >= 4)
            async with stage.page() as fresh:
                await fresh.open()
                assert fresh.mirror.shown() == mirror.shown()


@real
async def test_requests_reach_the_session_and_its_queue() -> None:
    async with serving() as stage, stage.page() as page:
        await page.open()
        await page.ask("prompt", text="one")
        prompt = await begin(2, stage.agent)
        item = (await page.ask("prompt", text="two"))["item"]
        await page.ask("queue.edit", item=item, text="three")
        await page.until(lambda: [each["text"] for each in page.mirror.facts["queue"]] == ["three"])
        await page.ask("cancel")
        await page.until(lambda: any(each["held"] for each in page.mirror.facts["queue"]))
        await page.ask("queue.remove", item=item)
        await page.until(lambda: page.mirror.facts["queue"] == [])
        assert (await page.ask("queue.send", item=item))["type"] == "error"
        finish(2, stage.agent, prompt, "cancelled")


@real
async def test_the_list_of_sessions_is_sent_when_it_changes() -> None:
    async with serving() as stage, stage.page() as page:
        await page.until(lambda: page.sessions)
        await page.open()
        made = (await page.ask("session.new"))["session"]
        await page.until(lambda: len(page.sessions) == 2)
        await page.ask("session.rename", session=made, title="Another")
        await page.until(lambda: "Another" in [each["title"] for each in page.sessions])
        await page.ask("session.close", session=stage.hosted.id)
        await page.until(lambda: page.closed)
        assert page.closed[0]["session"] == stage.hosted.id
        assert (await page.ask("prompt", text="x"))["message"] == "Open a session first."
        assert (await page.ask("open", session=stage.hosted.id, window=[0, None]))[
            "type"
        ] == "error"


@real
async def test_texts_are_found_in_one_session_or_in_all() -> None:
    async with serving() as stage, stage.page() as page:
        stage.agent.update(chunk("A needle in a haystack."))
        await page.open()
        await page.until(lambda: page.mirror.count)
        for fields in ({}, {"session": stage.hosted.id}):
            (found,) = (await page.ask("search", text="NEEDLE", **fields))["found"]
            assert found == {"session": stage.hosted.id, "at": 0, "text": "A needle in a haystack."}
        assert (await page.ask("search", text="needle", session="x"))["found"] == []


@real
async def test_paths_of_the_session_are_offered(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "needle.py").write_text("")
    (tmp_path / "other.txt").write_text("")
    async with serving(cwd=tmp_path) as stage, stage.page() as page:
        await page.open()
        assert (await page.ask("complete", text="ndl"))["paths"] == ["src/needle.py"]


# ---- who may what --------------------------------------------------------------------------------

CHANGES: dict[str, dict[str, Any]] = {
    "prompt": {"text": "x"},
    "queue.edit": {"item": "1", "text": "x"},
    "queue.remove": {"item": "1"},
    "queue.send": {"item": "1"},
    "cancel": {},
    "answer": {"question": "q", "option": "yes"},
    "option": {"control": "mode", "value": "code"},
    "session.new": {},
    "session.resumable": {},
    "session.resume": {"session": "s"},
    "session.close": {"session": "ID"},
    "session.delete": {"session": "ID"},
    "session.restart": {"session": "ID"},
    "session.rename": {"session": "ID", "title": "x"},
}


@real
async def test_an_observer_sees_all_and_changes_nothing() -> None:
    async with serving() as stage, stage.page(stage.browser("observer")) as page:
        stage.agent.update(chunk("word"))
        await page.open()
        assert page.welcome["role"] == "observer"
        await page.until(lambda: page.mirror.blocks)
        before = len(stage.agent.messages)
        for kind, fields in CHANGES.items():
            given = {
                name: stage.hosted.id if value == "ID" else value for name, value in fields.items()
            }
            refused = await page.ask(kind, **given)
            assert refused["type"] == "error"
            assert refused["message"] == "You may look, and change nothing."
        assert len(stage.agent.messages) == before
        assert [each["id"] for each in stage.host.sessions] == [stage.hosted.id]
        assert (await page.ask("search", text="word"))["found"] != []


BAD: dict[str, str | bytes] = {
    "no JSON": "nonsense",
    "nothing": "",
    "bytes": b"\x00\x01",
    "a list": "[]",
    "no type": "{}",
    "an unknown type": '{"type": "format.disk", "id": 1}',
    "another type of a field": '{"type": "open", "session": 5}',
    "deep": "[" * 10_000,
    "an unknown session": '{"type": "open", "session": "x"}',
    "an unknown question": '{"type": "answer", "question": "x", "option": "yes"}',
    "an unknown control": '{"type": "option", "control": "x", "value": "y"}',
    "an unknown agent": '{"type": "session.new", "agent": "x y"}',
    "an agent with a slash": '{"type": "session.new", "agent": "/bin/sh"}',
    "no directory": '{"type": "session.new", "cwd": "/nowhere/at/all"}',
    "a null character": '{"type": "session.new", "cwd": "\\u0000"}',
    "no prompt": '{"type": "prompt", "text": " "}',
    "too large a window": '{"type": "window", "from": 0, "to": 99999}',
}


@pytest.mark.parametrize("name", BAD)
@real
async def test_a_bad_request_is_answered_in_words_and_the_socket_stays_open(name: str) -> None:
    async with serving() as stage, stage.page() as page:
        await page.open()
        await page.socket.send(BAD[name])
        await page.until(lambda: page.unasked or page.answers.get(1, {}).get("type") == "error")
        message = (page.unasked or [page.answers[1]])[0]["message"]
        assert message.endswith((".", "?")) or ": " in message
        assert "Traceback" not in message
        assert (await page.ask("search", text="x"))["type"] == "done"


# ---- a page that does not read -------------------------------------------------------------------


class Slow:
    """A socket that takes a message only when it is let."""

    def __init__(self, requests: list[Any]) -> None:
        self.sent: list[str] = []
        self.stalls = False
        self.room = asyncio.Event()
        self.closed: tuple[int, str] | None = None
        self._requests = [json.dumps(each) for each in requests]
        self._ended = asyncio.Event()

    async def receive(self) -> str | None:
        if self._requests:
            return self._requests.pop(0)
        await self._ended.wait()
        return None

    async def send(self, text: str) -> None:
        self.sent.append(text)
        if self.stalls:
            self.room.clear()
            await self.room.wait()

    async def close(self, code: int, reason: str) -> None:
        self.closed = code, reason

    has_room = False

    def write(self, message: bytes) -> None:
        raise AssertionError("there is no room")

    def end(self) -> None:
        self._ended.set()

    def of(self, kind: str) -> list[Any]:
        return [each for each in map(json.loads, self.sent) if each["type"] == kind]


class Quick(Slow):
    """A socket that can be written to as long as it does not stall."""

    def __init__(self, requests: list[Any]) -> None:
        super().__init__(requests)
        self.written = 0

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return not self.stalls

    def write(self, message: bytes) -> None:
        reader = StreamReader()
        reader.feed_data(message)
        frame = run(Frame.parse(reader.read_exact, mask=False, max_size=None))
        assert frame.fin
        assert frame.opcode is Opcode.TEXT
        self.sent.append(bytes(frame.data).decode())
        self.written += 1


def run(steps: Generator[None, None, Frame]) -> Frame:
    """What the steps return, which wait for nothing."""
    try:
        next(steps)
    except StopIteration as done:
        found: Frame = done.value
        return found
    raise AssertionError("the message is not whole")


@real
async def test_a_frame_is_written_at_once_to_who_has_nothing_else_to_be_sent() -> None:
    async with serving() as stage:
        opening = {"type": "open", "id": 1, "session": stage.hosted.id}
        quick, slow = Quick([opening]), Slow([opening])
        guest = Guest("controller", "", "someone")
        serving_both = [
            asyncio.create_task(stage.app.sockets.serve(each, guest)) for each in (quick, slow)
        ]
        await soon(lambda: quick.of("opened") and slow.of("opened"))
        for number in range(20):
            quick.stalls = number == 10  # and so it falls behind
            stage.agent.update(chunk(f"word{number}. ", "m"))
            await soon(lambda: f"word{number}." in slow.sent[-1])  # noqa: B023
            if number == 12:
                quick.room.set()
        await soon(lambda: "word19." in quick.sent[-1])
        assert 10 < quick.written < 20
        for each in (quick, slow):
            mirror = Mirror()
            for text in each.sent:
                if json.loads(text)["type"] in ("opened", "frame"):
                    mirror.take(text)
            assert " ".join(f"word{number}." for number in range(20)) in json.dumps(mirror.blocks)
            each.end()
        await asyncio.gather(*serving_both)


@real
async def test_a_page_that_does_not_read_holds_little_and_delays_nobody() -> None:
    async with serving() as stage:
        sockets = stage.app.sockets
        opening = {"type": "open", "id": 1, "session": stage.hosted.id}
        stalled, reading = Slow([opening]), Slow([opening])
        guest = Guest("controller", "", "someone")
        serving_both = [
            asyncio.create_task(sockets.serve(each, guest)) for each in (stalled, reading)
        ]
        await soon(lambda: stalled.of("opened") and reading.of("opened"))
        stalled.stalls = True
        for number in range(300):
            stage.agent.update(chunk(f"Paragraph {number} of some length.\n\n{'x' * 4_000}\n\n"))
            wanted = f"Paragraph {number} "
            await soon(lambda: wanted in "".join(reading.sent[-3:]))  # noqa: B023
        held = stalled.sent[len([*stalled.of("welcome"), *stalled.of("sessions")]) :]
        assert sum(map(len, reading.sent)) > 1_000_000
        assert len(stalled.of("frame")) <= 1
        assert sum(map(len, held)) < 1_000_000
        stalled.stalls = False
        stalled.room.set()
        await soon(lambda: stalled.of("frame")[-1]["seq"] == reading.of("frame")[-1]["seq"])
        for each in (stalled, reading):
            each.end()
        await asyncio.gather(*serving_both)


@real
async def test_a_page_that_takes_nothing_for_long_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_socket, "STALLED", 0.05)
    async with serving() as stage:
        stalled = Slow([])
        stalled.stalls = True
        await asyncio.wait_for(
            stage.app.sockets.serve(stalled, Guest("observer", "", "someone")), PATIENCE
        )
        assert stalled.closed is not None
        assert len(stage.app.sockets) == 0


@real
async def test_requests_of_a_page_that_does_not_read_the_answers_are_not_read() -> None:
    async with serving() as stage:
        requests = [{"type": "search", "id": number, "text": "x"} for number in range(1_000)]
        stalled = Slow(requests)
        stalled.stalls = True
        task = asyncio.create_task(
            stage.app.sockets.serve(stalled, Guest("controller", "", "someone"))
        )
        await soon(lambda: len(stalled._requests) < 990)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(stalled._requests) > 900
        stalled.end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@real
async def test_nothing_is_left_of_pages_that_have_gone() -> None:
    async with serving() as stage:
        sockets: LiveSockets = stage.app.sockets
        for _ in range(3):
            async with stage.page() as page:
                await page.open()
                assert len(sockets.feeds) == 1
        await soon(lambda: len(sockets) == 0)
        assert sockets.feeds == {}
        assert stage.hosted._observers == []


def test_a_pace_lets_a_burst_through_and_then_so_many_a_second() -> None:
    now = 0.0
    clock: Callable[[], float] = lambda: now  # noqa: E731
    pace = Pace(10, 5, clock)
    assert [pace.take() for _ in range(5)] == [0] * 5
    assert pace.take() == pytest.approx(0.1)
    now = 100.0
    assert [pace.may_go() for _ in range(6)] == [True] * 5 + [False]
