"""A hosted session: one fold, one writer, and any number of observers and controllers."""

import asyncio
import gc
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.costs import functions_called
from tests.support.hosted import OPTIONS, HostStage, Page, hosting, until_soon
from tests.support.hosted_walk import STEPS, Walk, accept, replay
from tests.support.idle_clock import SimulatedLoop, simulated, within
from tests.support.raw_agent import HELLO, Json, RawAgent, call, chunk
from twofold.client.incoming import UNCLAIMED
from twofold.errors import LocalError
from twofold.host.hosted_session import HostedSession, NotRunning, duration
from twofold.host.prompt_queue import NotQueued, QueueFull
from twofold.host.questions import MOST_SHOWN, AlreadyAnswered, NoSuchQuestion
from twofold.policy import Policy, Rule, parse_rule
from twofold.rpc.errors import RequestFailed
from twofold.session import Message
from twofold.view.blocks import MessageBlock, ToolCallBlock
from twofold.view.live import Frame, Key
from twofold.wire import v2
from twofold.wire.content import ImageContent, TextContent

both = pytest.mark.parametrize("version", [1, 2])


def message(version: int, text: str, message_id: str = "m1") -> Json:
    """A chunk of a message; an agent of version 1 gives it no id."""
    return chunk(text, message_id if version == 2 else None)


def working(version: int, identity: str, status: str = "in_progress") -> Json:
    update = call(identity, status)
    return update if version == 2 else {**update, "sessionUpdate": "tool_call", "title": "Work"}


# ---- the whole walk ------------------------------------------------------------------------------


@both
@simulated
async def test_a_prompt_is_sent_and_its_turn_is_shown_with_its_end(version: int) -> None:
    async with hosting(version) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["hello"], "Anna")
        prompt = await stage.begin()
        await stage.settled()
        assert page.facts["session"]["state"] == stage.hosted.state == "running"
        assert page.facts["session"]["since"] is not None
        await asyncio.sleep(12)
        stage.agent.update(message(version, "Hi."))
        stage.finish(prompt)
        await stage.idle()
        await stage.settled()
        assert stage.prompts() == ["hello"]
        assert stage.remarks() == ["The turn took 12 s."]
        assert page.facts["session"]["state"] == "idle"
        assert page.facts["session"]["since"] is None
        assert page.facts["session"]["title"] == "hello"
        texts = [block.role for block in page.blocks.values() if isinstance(block, MessageBlock)]
        assert texts[-1:] == ["agent"]
        assert page.places[Key("turn", 0)] == stage.hosted.count - 1, "below what was sent"


@both
@simulated
async def test_what_is_prompted_while_the_agent_starts_is_sent_when_it_has(version: int) -> None:
    async with hosting(version, opens=False) as stage:
        assert stage.hosted.state == "starting"
        stage.hosted.prompt(["hello"])
        await stage.begin()
        assert stage.prompts() == ["hello"]


# ---- the law of observers ------------------------------------------------------------------------


@settings(max_examples=100)
@given(STEPS, st.data())
def test_observers_end_with_the_same_whatever_they_missed(
    steps: list[str], data: st.DataObject
) -> None:
    @simulated
    async def run() -> None:
        answers: dict[str, Any] = {"session/prompt": accept, "session/resume": replay}
        async with hosting(2, answers) as stage:
            walk = Walk(stage, data)
            for name in steps:
                await walk.step(name)
            await stage.settled()
            walk.seldom.catch_up()
            late = Page(stage.hosted)
            assert walk.always.shown() == walk.seldom.shown() == late.shown()
            assert late.facts == stage.facts()
            assert sorted(at for at in late.places.values() if at is not None) == list(
                range(stage.hosted.count)
            )
            for asked in walk.asked:
                assert not asked.done() or "result" in asked.result() or "error" in asked.result()

    run()


@simulated
async def test_an_observer_that_came_before_the_agent_had_started_sees_all() -> None:
    new = {"sessionId": "s", "configOptions": [option("fast", True)]}
    async with hosting(2, {"session/new": new}, opens=False) as stage:
        page = Page(stage.hosted)
        assert page.facts["session"]["state"] == "starting"
        assert page.facts["session"]["canPrompt"] is True
        await stage.idle()
        await stage.settled()
        assert page.shown() == Page(stage.hosted).shown()
        assert page.facts["session"]["state"] == "idle"


@simulated
async def test_a_fact_that_changes_alone_has_a_number_of_its_own() -> None:
    async with hosting(2) as stage:
        stage.hosted.prompt(["first"])
        await stage.begin()
        await stage.settled()
        page, before = Page(stage.hosted), stage.hosted.seq
        stage.hosted.prompt(["second"])
        await stage.settled()
        assert stage.hosted.seq > before
        assert set(stage.hosted.facts(before)) == {"queue"}
        assert [each["text"] for each in page.facts["queue"]] == ["second"]
        assert stage.hosted.facts(stage.hosted.seq) == {}


@both
@simulated
async def test_a_window_has_the_blocks_of_its_places_and_those_without_one(version: int) -> None:
    async with hosting(version) as stage:
        hosted = stage.hosted
        for number in range(20):
            stage.agent.update(working(version, f"c{number}"))
        await stage.settled()
        frame = hosted.frame(None, (5, 8))
        assert [hosted.at(put.key) for put in frame.put] == [None, 5, 6, 7]
        assert frame.seq == hosted.seq
        assert [hosted.at(put.key) for put in hosted.frame(None, (18, None)).put] == [None, 18, 19]
        stage.agent.update(working(version, "c6", "completed"), working(version, "c12", "failed"))
        await stage.settled()
        newer = hosted.frame(frame.seq, (5, 8))
        assert [hosted.at(put.key) for put in newer.put] == [6]
        assert hosted.frame(newer.seq, (5, 8)) == Frame(newer.seq, [], [], [])


@simulated
async def test_a_window_that_is_read_in_mid_message_fits_the_frames_that_follow() -> None:
    async with hosting(2) as stage:
        watching = Page(stage.hosted)
        for text in ("One.\n\n", "Two", " words.\n\n", "Three"):
            stage.agent.update(chunk(text))
            for _ in range(8):
                await asyncio.sleep(0)
            Page(stage.hosted)  # its window is read before the frame is due
        await stage.settled()
        late = Page(stage.hosted)
        assert watching.shown() == late.shown()


# ---- frames --------------------------------------------------------------------------------------


@simulated
async def test_frames_are_made_at_most_sixty_times_a_second_and_only_for_changes() -> None:
    async with hosting(2) as stage:
        await asyncio.sleep(1)
        times: list[float] = []
        loop = asyncio.get_running_loop()
        stage.hosted.subscribe(lambda frame: times.append(loop.time()))
        for number in range(2000):
            stage.agent.update(chunk(f"word {number} "))
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert 100 < len(times) <= 122
        assert min(later - sooner for sooner, later in pairwise(times)) > 0.016
        before = len(times)
        await asyncio.sleep(60)
        assert len(times) == before


def raising(frame: Frame) -> None:
    raise ZeroDivisionError


@simulated
async def test_an_observer_that_raises_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(2) as stage:
        seen: list[Frame] = []
        stage.hosted.subscribe(raising)
        stage.hosted.subscribe(seen.append)
        stage.agent.update(chunk("Hello."))
        await stage.settled()
        assert len(seen) == 1
        assert "ZeroDivisionError" in caplog.text


@simulated
async def test_what_changes_nothing_makes_no_frame() -> None:
    async with hosting(2) as stage:
        stage.hosted.rename("Mine")
        await stage.settled()
        page, before = Page(stage.hosted), stage.hosted.seq
        stage.hosted.rename("Mine")
        stage.hosted.cancel("Anna")
        await asyncio.sleep(1)
        assert (page.frames, stage.hosted.seq) == (0, before)
        stage.hosted.rename("Another")
        await asyncio.sleep(1)
        assert page.frames == 1


@simulated
async def test_an_observer_that_left_is_called_no_more() -> None:
    async with hosting(2) as stage:
        seen: list[Frame] = []
        subscription = stage.hosted.subscribe(seen.append)
        subscription.cancel()
        stage.agent.update(chunk("Hello."))
        await stage.settled()
        assert seen == []


def apply(hosted: HostedSession, *updates: v2.SessionUpdate) -> None:
    """What the agent would send, without the wire."""
    for update in updates:
        hosted._changed(hosted.live.session.apply(update))


def entries(first: int, count: int) -> list[v2.SessionUpdate]:
    made: list[v2.SessionUpdate] = []
    for number in range(first, first + count):
        made.append(v2.AgentMessageChunk(f"m{number}", TextContent("Some words.")))
        made.append(v2.ToolCallUpdate(f"c{number}", status="completed"))
    return made


def test_a_frame_and_a_window_cost_the_same_in_a_session_of_100_000_entries() -> None:
    async def costs() -> None:
        async with hosting(2) as stage:
            hosted = stage.hosted
            frames: list[Frame] = []
            hosted.subscribe(frames.append)

            def one_frame() -> None:
                apply(hosted, v2.AgentMessageChunk("last", TextContent("word ")))
                hosted.flush()

            def measured() -> tuple[int, int, int]:
                one_frame()
                of_frame = functions_called(one_frame)
                middle = hosted.count // 2
                of_window = functions_called(lambda: hosted.frame(None, (middle, middle + 40)))
                newer = hosted.seq - 1
                of_newer = functions_called(lambda: hosted.frame(newer, (middle, middle + 40)))
                return of_frame, of_window, of_newer

            apply(hosted, *entries(0, 500))
            few = measured()
            apply(hosted, *entries(500, 49_500))
            hosted.flush()
            many = measured()
            assert len(hosted.live.session.entries) == 100_001
            for before, after in zip(few, many, strict=True):
                assert after <= 1.25 * before, (few, many)
            (grow,) = frames[-1].grow
            assert not frames[-1].put
            assert len(grow.tail) <= 2

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(costs())


# ---- the queue -----------------------------------------------------------------------------------


@both
@simulated
async def test_prompts_are_sent_one_after_the_other_in_order(version: int) -> None:
    async with hosting(version) as stage:
        for number in range(5):
            stage.hosted.prompt([f"prompt {number}"], "Anna")
        for number in range(5):
            prompt = await stage.begin()
            await stage.settled()
            assert len(stage.prompts()) == number + 1
            left = [each["text"] for each in stage.facts()["queue"]]
            assert left == [f"prompt {later}" for later in range(number + 1, 5)]
            stage.finish(prompt)
        await stage.idle()
        assert stage.prompts() == [f"prompt {number}" for number in range(5)]


@both
@simulated
async def test_a_queued_prompt_can_be_edited_and_removed(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["first"])
        prompt = await stage.begin()
        second = stage.hosted.prompt(["secnd", ImageContent("aGVsbG8=", "image/png")], "Anna")
        third = stage.hosted.prompt(["third"], "Anna")
        stage.hosted.edit_queued(second, "second")
        stage.hosted.remove_queued(third)
        await stage.settled()
        (fact,) = stage.facts()["queue"]
        assert fact == {
            "item": second,
            "text": "second",
            "attachments": ["[image image/png, 5 bytes]"],
            "by": "Anna",
            "held": False,
        }
        stage.finish(prompt)
        sent = (await stage.begin())["params"]["prompt"]
        assert [part["type"] for part in sent] == ["text", "image"]
        with pytest.raises(NotQueued):
            stage.hosted.edit_queued(second, "too late")
        with pytest.raises(NotQueued):
            stage.hosted.remove_queued(third)


@simulated
async def test_the_queue_has_a_bound() -> None:
    async with hosting(2, queued=3) as stage:
        stage.hosted.prompt(["first"])
        await stage.begin()
        for number in range(3):
            stage.hosted.prompt([f"{number}"])
        with pytest.raises(QueueFull, match="3 prompts"):
            stage.hosted.prompt(["one more"])
        stage.ask()
        (question,) = await stage.asked()
        with pytest.raises(QueueFull):  # and the question still waits
            stage.hosted.answer(question, "no", "Anna", "use make")
        stage.hosted.answer(question, "no", "Anna")


@both
@simulated
async def test_what_was_queued_before_a_cancel_is_held_until_a_person_sends_it(
    version: int,
) -> None:
    async with hosting(version) as stage:
        hosted = stage.hosted
        hosted.prompt(["first"], "Anna")
        prompt = await stage.begin()
        second = hosted.prompt(["second"], "Anna")
        third = hosted.prompt(["third"], "Anna")
        hosted.cancel("Bert")
        hosted.prompt(["after the cancel"], "Bert")
        await stage.agent.receive("session/cancel")
        stage.finish(prompt, "cancelled")
        prompt = await stage.begin()
        assert stage.prompts() == ["first", "after the cancel"]
        (remark,) = stage.remarks()
        assert remark.startswith("Cancelled by Bert after 0.")
        await stage.settled()
        held = {each["text"]: each["held"] for each in stage.facts()["queue"]}
        assert held == {"second": True, "third": True}
        stage.finish(prompt)
        await asyncio.sleep(5)
        assert hosted.state == "idle"
        hosted.send_queued(third)
        prompt = await stage.begin()
        stage.finish(prompt)
        hosted.remove_queued(second)
        await stage.idle()
        assert stage.prompts() == ["first", "after the cancel", "third"]


@both
@simulated
async def test_what_was_queued_is_held_if_the_turn_fails(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["first"], "Anna")
        prompt = await stage.agent.receive("session/prompt")
        stage.hosted.prompt(["second"], "Anna")
        stage.agent.refuse(prompt, -32603, "The model is overloaded")
        await stage.idle()
        await stage.settled()
        assert [each["held"] for each in stage.facts()["queue"]] == [True]
        (remark,) = stage.remarks()
        assert remark.startswith("The turn failed after")
        assert "The model is overloaded" in remark
        assert "Send the prompt again" in remark


@both
@simulated
async def test_an_answer_that_is_none_fails_the_turn_and_not_the_session(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["first"])
        stage.agent.answer(await stage.agent.receive("session/prompt"), "nonsense")
        await stage.idle()
        (remark,) = stage.remarks()
        assert "answered session/prompt with an invalid result" in remark
        stage.hosted.prompt(["second"])
        stage.finish(await stage.begin())
        await stage.idle()


@both
@simulated
async def test_a_cancel_before_the_prompt_was_sent_keeps_it_in_the_queue(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["first"], "Anna")
        await until_soon(lambda: stage.hosted.state == "running")
        stage.hosted.cancel("Anna")
        await stage.settled()
        if stage.prompts():  # version 2 sends at once
            assert version == 2
            return
        assert [each["held"] for each in stage.facts()["queue"]] == [True]
        assert stage.remarks() == []


@simulated
async def test_who_sent_a_prompt_is_shown_once_there_are_several_who_do() -> None:
    async with hosting(2) as stage:
        for by in ("Anna", "Anna", "Bert"):
            stage.hosted.prompt(["hello"], by)
            stage.finish(await stage.begin())
            await stage.idle()
        assert stage.remarks() == [
            *("The turn took 0.0 s.", "The turn took 0.0 s."),
            "The turn took 0.0 s, sent by Bert.",
        ]


def test_files_that_a_prompt_mentions_are_sent_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("contents")

    async def run() -> None:
        hello = HELLO[1]
        async with hosting(1, {"initialize": hello}, cwd=tmp_path) as stage:
            stage.hosted.prompt(["look at @a.txt and @b.txt", tmp_path / "a.txt"])
            sent = (await stage.begin())["params"]["prompt"]
            assert [part["type"] for part in sent] == ["text", "resource", "text"]
            assert sent[1]["resource"]["text"] == "contents"
            await stage.settled()
            problems = [each["words"] for each in stage.facts()["problems"]]
            assert problems == ["There is no such file: @b.txt is sent as text."]

    asyncio.run(run())


def test_a_prompt_that_cannot_be_sent_stays_in_the_queue(tmp_path: Path) -> None:
    async def run() -> None:
        async with hosting(2, cwd=tmp_path) as stage:
            stage.hosted.prompt(["look", tmp_path / "missing.txt"], "Anna")
            stage.hosted.prompt(["second"], "Anna")
            await stage.begin()
            assert stage.prompts() == ["second"]
            (remark,) = stage.remarks()
            assert "Not sent" in remark
            assert "missing.txt" in remark
            (fact,) = stage.facts()["queue"]
            assert (fact["text"], fact["held"]) == ("look", True)

    asyncio.run(run())


# ---- questions -----------------------------------------------------------------------------------


@both
@simulated
async def test_a_question_shows_what_would_happen_and_is_answered_once(version: int) -> None:
    async with hosting(version) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["go"], "Anna")
        await stage.begin()
        asked = stage.ask("c1")
        (question,) = await stage.asked()
        await stage.settled()
        (fact,) = page.facts["questions"]
        assert page.facts["session"]["state"] == "waiting"
        assert fact["canReason"] is True
        assert [each["option"] for each in fact["options"]] == ["yes", "always", "no"]
        key = next(key for key, at in page.places.items() if str(key) == fact["key"])
        block = page.blocks[key]
        assert isinstance(block, ToolCallBlock)
        assert block.status == "waiting"
        stage.hosted.answer(question, "yes", "Anna")
        with pytest.raises(AlreadyAnswered, match="by Anna") as raised:
            stage.hosted.answer(question, "no", "Bert")
        assert raised.value.by == "Anna"
        answer = await within(1, asked)
        assert answer["result"]["outcome"]["optionId"] == "yes"
        await stage.settled()
        with pytest.raises(AlreadyAnswered, match="by Anna"):
            stage.hosted.answer(question, "no", "Bert")
        (answered,) = page.facts["answered"]
        assert answered["question"] == question
        assert (answered["by"], answered["words"]) == ("Anna", "allowed by Anna")
        assert page.facts["session"]["state"] == "running"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([], "No rule decides this."),
        ([parse_rule("edit", "ask")], "--ask edit says to ask."),
    ],
)
@both
@simulated
async def test_a_question_names_the_rule_that_applies(
    version: int, rules: list[Rule], words: str
) -> None:
    async with hosting(version, policy=Policy(rules)) as stage:
        stage.hosted.prompt(["go"], "Anna")
        await stage.begin()
        stage.ask("c1")
        await stage.asked()
        (fact,) = stage.facts()["questions"]
        assert fact["why"] == words


@both
@settings(max_examples=25)
@given(
    answers=st.lists(
        st.tuples(st.sampled_from(["yes", "always", "no", "none"]), st.integers(0, 3)),
        min_size=1,
        max_size=6,
    ),
    cancelled=st.integers(-1, 6),
)
def test_of_any_number_of_answers_exactly_one_reaches_the_agent(
    version: int, answers: list[tuple[str, int]], cancelled: int
) -> None:
    @simulated
    async def run() -> None:
        async with hosting(version) as stage:
            stage.hosted.prompt(["go"])
            await stage.begin()
            asked = stage.ask()
            (question,) = await stage.asked()
            counted = []
            for number, (option, pause) in enumerate([*answers, ("no", 0)]):
                if number == cancelled:
                    stage.hosted.cancel("Bert")
                try:
                    stage.hosted.answer(question, option, f"p{number}")
                except LocalError:
                    continue
                counted.append((option, f"p{number}"))
                for _ in range(pause):
                    await asyncio.sleep(0)
            outcome = (await within(1, asked))["result"]["outcome"]
            await stage.settled()
            (answered,) = stage.facts()["answered"]
            if outcome["outcome"] == "selected":
                assert [(outcome["optionId"], answered["by"])] == counted
            else:
                assert answered["by"] == "cancel"
                assert cancelled >= 0
            assert len(counted) <= 1
            sent = [each for each in stage.agent.messages if each.get("id") == "a1"]
            assert len(sent) == 1, "the agent gets one answer"

    run()


@both
@simulated
async def test_a_question_shows_what_its_tool_call_becomes_meanwhile(version: int) -> None:
    async with hosting(version) as stage:
        stage.ask("c1")
        await stage.asked()
        before = stage.facts()["questions"][0]["parts"]
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "c1"}
        stage.agent.update({**update, "rawInput": {"command": "rm -rf /"}})
        await stage.settled()
        (fact,) = stage.facts()["questions"]
        assert "rm -rf /" not in str(before)
        assert "rm -rf /" in str(fact["parts"])


@both
@simulated
async def test_many_questions_wait_at_once_and_some_of_them_are_shown(version: int) -> None:
    async with hosting(version) as stage:
        asked = [stage.ask(f"c{number}") for number in range(MOST_SHOWN + 10)]
        shown = await stage.asked(MOST_SHOWN)
        for question in reversed(shown):
            stage.hosted.answer(question, "yes", "Anna")
        rest = await stage.asked(10)
        assert not set(rest) & set(shown)
        for question in rest:
            stage.hosted.answer(question, "no", "Anna")
        answers = [(await within(1, each))["result"]["outcome"]["optionId"] for each in asked]
        assert answers == ["yes"] * MOST_SHOWN + ["no"] * 10


@both
@simulated
async def test_a_question_that_the_agent_withdraws_is_gone(version: int) -> None:
    async with hosting(version) as stage:
        page = Page(stage.hosted)
        stage.ask(request_id="w")
        (question,) = await stage.asked()
        stage.agent.notify("$/cancel_request", {"requestId": "w"})
        await stage.asked(0)
        await stage.settled()
        assert page.facts["questions"] == page.facts["answered"] == []
        with pytest.raises(NoSuchQuestion, match="withdrew it"):
            stage.hosted.answer(question, "yes", "Anna")
        asked = stage.ask(request_id="w")  # the same id again is another question
        (another,) = await stage.asked()
        assert another != question
        stage.hosted.answer(another, "yes", "Anna")
        assert (await within(1, asked))["result"]["outcome"]["optionId"] == "yes"


@both
@simulated
async def test_an_id_that_the_agent_uses_again_is_answered_by_the_right_person(
    version: int,
) -> None:
    async with hosting(version) as stage:
        for by in ("Anna", "Bert", "Cleo"):
            asked = stage.ask(request_id="same")
            (question,) = await stage.asked()
            stage.hosted.answer(question, "yes", by)
            await within(1, asked)
        await stage.settled()
        answered = stage.facts()["answered"]
        assert [each["by"] for each in answered] == ["Anna", "Bert", "Cleo"]


@both
@simulated
async def test_an_answer_for_always_settles_what_waits_and_names_it(version: int) -> None:
    async with hosting(version) as stage:
        asked = [stage.ask("c1"), stage.ask("c1"), stage.ask("c2")]
        first, second, third = await stage.asked(3)
        stage.hosted.answer(first, "always", "Anna")
        assert await stage.asked(1) == [third]
        for each in asked[:2]:
            assert (await within(1, each))["result"]["outcome"]["outcome"] == "selected"
        answered = {each["question"]: each["by"] for each in stage.facts()["answered"]}
        assert answered == {first: "Anna", second: "remembered"}
        with pytest.raises(AlreadyAnswered, match="as answered before"):
            stage.hosted.answer(second, "no", "Bert")
        # the id of a withdrawn question is used again for one that a rule answers
        stage.ask("c3", request_id="w")
        withdrawn = (await stage.asked(2))[1]
        stage.agent.notify("$/cancel_request", {"requestId": "w"})
        await stage.asked(1)
        await within(1, stage.ask("c1", request_id="w"))
        assert withdrawn not in [each["question"] for each in stage.facts()["answered"]]


@simulated
async def test_answers_are_shown_after_a_restart_as_before() -> None:
    async with hosting(2) as stage:
        for by in ("Anna", "Bert"):
            asked = stage.ask()
            (question,) = await stage.asked()
            stage.hosted.answer(question, "yes", by)
            await within(1, asked)
            await stage.agent.gone()
            await stage.state("failed")
            stage.hosted.restart()
            await stage.idle()
        assert [each["by"] for each in stage.facts()["answered"]] == ["Anna", "Bert"]


@both
@simulated
async def test_a_reason_is_sent_before_what_is_queued(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["first"], "Anna")
        prompt = await stage.begin()
        stage.hosted.prompt(["second"], "Anna")
        asked = stage.ask()
        (question,) = await stage.asked()
        with pytest.raises(LocalError, match="rejects"):
            stage.hosted.answer(question, "yes", "Bert", "because")
        assert [each["text"] for each in stage.facts()["queue"]] == ["second"]
        stage.hosted.answer(question, "no", "Bert", " use make ")
        assert (await within(1, asked))["result"]["outcome"]["optionId"] == "no"
        await stage.settled()
        assert stage.facts()["answered"][0]["words"] == "rejected by Bert: use make"
        stage.finish(prompt, "cancelled")  # as agents do after a rejection
        stage.finish(await stage.begin())
        await stage.idle()
        assert stage.prompts() == ["first", "use make"]
        assert [each["held"] for each in stage.facts()["queue"]] == [True]


@both
@simulated
async def test_a_rule_answers_without_a_person_and_is_named(version: int) -> None:
    policy = Policy([parse_rule("edit", "allow")])
    async with hosting(version, policy=policy) as stage:
        asked = stage.ask()
        assert (await within(1, asked))["result"]["outcome"]["optionId"] == "yes"
        await stage.settled()
        (answered,) = stage.facts()["answered"]
        assert answered["by"] == "policy"
        assert "allowed by --allow edit" in answered["words"]


@simulated
async def test_options_with_the_same_id_and_unsendable_ones_have_ids_of_their_own() -> None:
    options = [
        {"optionId": "x", "name": "First", "kind": "allow_once"},
        {"optionId": "x", "name": "Second", "kind": "reject_once"},
        {"optionId": "a\x1b[31mb", "name": "\x1b[31mThird", "kind": "reject_always"},
    ]
    async with hosting(2) as stage:
        asked = stage.ask(options=options)
        (question,) = await stage.asked()
        (fact,) = stage.facts()["questions"]
        assert [each["option"] for each in fact["options"]] == ["x", "#2", "#3"]
        assert [each["name"] for each in fact["options"]] == ["First", "Second", "Third"]
        with pytest.raises(NoSuchQuestion, match="no such option"):
            stage.hosted.answer(question, "a\x1b[31mb", "Anna")
        stage.hosted.answer(question, "#3", "Anna")
        outcome = (await within(1, asked))["result"]["outcome"]
        assert outcome["optionId"] == "a\x1b[31mb"


# ---- cancel --------------------------------------------------------------------------------------


@both
@simulated
async def test_a_tool_call_takes_the_time_in_which_nobody_is_asked(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["go"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(working(version, "c"))
        await stage.settled()
        key = next(key for key in stage.hosted.live.places if is_call(stage, key))
        assert stage.hosted.call_time(key) is not None
        await asyncio.sleep(3)
        asked = stage.ask("c")
        (question,) = await stage.asked()
        await asyncio.sleep(600)
        stage.hosted.answer(question, "yes", "Anna")
        await within(1, asked)
        stage.agent.update(call("c", "in_progress") if version == 2 else working(version, "c"))
        await asyncio.sleep(2)
        stage.finish(prompt)  # and leaves the call open
        await stage.idle()
        await stage.settled()
        await asyncio.sleep(60)
        time = stage.hosted.call_time(key)
        assert time is not None
        assert time.since is None
        assert 5 <= time.seconds < 6.5


def is_call(stage: HostStage, key: Key) -> bool:
    return isinstance(stage.hosted.live.block(key), ToolCallBlock)


@both
@simulated
async def test_a_cancel_settles_the_questions_and_marks_what_is_open(version: int) -> None:
    async with hosting(version) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["go"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(working(version, "c1"))
        asked = stage.ask("c2")
        (question,) = await stage.asked()
        stage.hosted.cancel("Bert")
        answer = await within(1, asked)
        assert answer["result"]["outcome"] == {"outcome": "cancelled"}
        await stage.settled()
        assert page.facts["questions"] == []
        with pytest.raises(AlreadyAnswered):
            stage.hosted.answer(question, "yes", "Anna")
        calls = [each for each in page.blocks.values() if isinstance(each, ToolCallBlock)]
        assert {each.status for each in calls} <= {"cancelled", "cancelling", "rejected"}
        stage.finish(prompt, "cancelled")
        await stage.idle()


@both
@simulated
async def test_nobody_answers_a_question_whose_turn_was_just_cancelled(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["go"], "Anna")
        await stage.begin()
        asked = stage.ask()
        (question,) = await stage.asked()
        stage.hosted.cancel("Bert")
        with pytest.raises(NoSuchQuestion, match="the turn"):
            stage.hosted.answer(question, "no", "Anna", "use make")
        assert stage.facts()["questions"] == stage.facts()["queue"] == []
        assert (await within(1, asked))["result"]["outcome"] == {"outcome": "cancelled"}


@both
@simulated
async def test_an_agent_that_ignores_a_cancel_is_given_up(version: int) -> None:
    async with hosting(version) as stage:
        stage.hosted.prompt(["go"], "Anna")
        await stage.begin()
        stage.hosted.cancel("Anna")
        stage.hosted.cancel("Anna")
        await asyncio.sleep(9)
        assert stage.facts()["session"]["state"] == "running"
        await asyncio.sleep(2)
        assert stage.facts()["session"]["state"] == "idle"
        words = "The agent did not end the cancelled turn. It is no longer waited for."
        assert stage.remarks() == [words]
        stage.hosted.prompt(["again"], "Anna")
        stage.finish(await stage.begin())
        await stage.idle()


@simulated
async def test_a_cancel_without_a_turn_does_nothing() -> None:
    async with hosting(2) as stage:
        stage.hosted.cancel("Anna")
        await stage.settled()
        assert "session/cancel" not in stage.agent.methods()


# ---- the end of the agent ------------------------------------------------------------------------


@both
@simulated
async def test_nothing_is_pending_after_the_agent_died_in_a_turn(version: int) -> None:
    async with hosting(version) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["first"], "Anna")
        await stage.begin()
        queued = stage.hosted.prompt(["second"], "Anna")
        stage.ask()
        (question,) = await stage.asked()
        await stage.agent.gone()
        await stage.state("failed")
        await stage.settled()
        assert page.facts["questions"] == []
        assert [each["held"] for each in page.facts["queue"]] == [True]
        session = page.facts["session"]
        assert (session["state"], session["canPrompt"]) == ("failed", False)
        assert "closed the connection" in session["failure"]
        (remark,) = stage.remarks()
        assert "Start the agent again to go on." in remark
        for refused in (
            lambda: stage.hosted.prompt(["third"], "Anna"),
            lambda: stage.hosted.send_queued(queued),
        ):
            with pytest.raises(NotRunning, match="Start it again"):
                refused()
        with pytest.raises(LocalError):
            stage.hosted.answer(question, "yes", "Anna")
        with pytest.raises(NotRunning):
            await stage.hosted.set_mode("plan")
        stage.hosted.cancel("Anna")


def load(agent: RawAgent, request: Json) -> None:
    agent.update({**chunk("Before.", None), "sessionUpdate": "user_message_chunk"})
    agent.update(chunk("What was sent.", None))
    agent.answer(request, {})


@simulated
async def test_a_restart_waits_for_the_end_of_the_agent_before_it() -> None:
    async with hosting(2) as stage:
        ending = asyncio.Event()
        transport = stage.launches[-1].transport
        assert transport is not None
        close = transport.close

        async def close_slowly() -> None:
            await ending.wait()
            await close()

        transport.close = close_slowly  # type: ignore[method-assign]
        await stage.agent.gone()
        await stage.state("failed")
        await asyncio.sleep(1)
        assert stage.hosted.is_running
        stage.hosted.restart()
        await asyncio.sleep(1)
        assert (len(stage.launches), stage.hosted.state) == (1, "starting")
        ending.set()
        await stage.idle()
        assert len(stage.launches) == 2


@simulated
async def test_a_restart_loads_the_session_and_goes_on_with_what_a_person_sends() -> None:
    answers: dict[str, Any] = {"initialize": without(1, "resume"), "session/load": load}
    async with hosting(1, answers) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["first"], "Anna")
        await stage.begin()
        queued = stage.hosted.prompt(["second"], "Anna")
        epoch = page.epoch
        with pytest.raises(LocalError, match="still runs"):
            stage.hosted.restart()
        await stage.agent.gone()
        await stage.state("failed")
        stage.hosted.restart()
        assert stage.hosted.state == "starting"
        await stage.idle()
        await stage.settled()
        assert len(stage.agents) == 2
        assert [each for each in stage.agent.methods() if each != "initialize"] == ["session/load"]
        assert page.epoch == stage.hosted.epoch != epoch
        assert len([each for each in page.blocks.values() if isinstance(each, MessageBlock)]) == 2
        assert stage.prompts() == []
        stage.hosted.send_queued(queued)
        stage.finish(await stage.begin())
        await stage.idle()
        assert stage.prompts() == ["second"]


def without(version: int, *capabilities: str) -> Json:
    hello: Json = HELLO[version]
    able = dict(hello["agentCapabilities"])
    sessions = dict(able["sessionCapabilities"])
    for each in capabilities:
        able.pop(each, None)
        sessions.pop(each, None)
    return {**hello, "agentCapabilities": {**able, "sessionCapabilities": sessions}}


def refuse_to_load(agent: RawAgent, request: Json) -> None:
    agent.refuse(request, -32002, "No such session")


@simulated
async def test_a_session_that_the_agent_refuses_to_resume_is_loaded() -> None:
    answers: dict[str, Any] = {"session/resume": refuse_to_load, "session/load": load}
    async with hosting(1, answers) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["first"], "Anna")
        stage.finish(await stage.begin())
        await stage.idle()
        await stage.agent.gone()
        await stage.state("failed")
        stage.hosted.restart()
        await stage.idle()
        await stage.settled()
        asked = [each for each in stage.agent.methods() if each != "initialize"]
        assert asked == ["session/resume", "session/load"]
        texts = [each.text for each in stage.hosted.live.session.entries if hasattr(each, "text")]
        assert texts == ["Before.", "What was sent."]
        assert page.shown() == Page(stage.hosted).shown()


@simulated
async def test_what_the_agent_sends_of_sessions_that_nobody_opened_is_not_kept() -> None:
    async with hosting(2) as stage:
        tracemalloc.start()
        try:
            for number in range(1000):
                params = {"sessionId": f"other {number}", "update": chunk("x" * 10_000)}
                stage.agent.notify("session/update", params)
                await asyncio.sleep(0)
            await stage.drained()
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < 4 * UNCLAIMED * 10_000, "of all of them it would be 10 MB"


@pytest.mark.parametrize("able", ["load, and refuses", "resume", "do neither"])
@simulated
async def test_what_an_agent_does_not_repeat_after_a_restart_stays(able: str) -> None:
    missing = {"resume": [], "do neither": ["loadSession", "resume"]}.get(able, ["resume"])
    answers: dict[str, Any] = {
        "initialize": without(1, *missing),
        "session/resume": {},
        "session/load": refuse_to_load,
    }
    async with hosting(1, answers) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["first"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(working(1, "c"))
        await asyncio.sleep(2)
        stage.agent.update({**working(1, "c"), "status": "completed"})
        stage.agent.update(chunk("An answer.", None))
        stage.finish(prompt)
        await stage.idle()
        await stage.settled()
        live = stage.hosted.live
        before = [live.block(key) for key in live.places]
        assert len(before) == 4
        times = [stage.hosted.call_time(key) for key in live.places]
        assert [1.9 < time.seconds < 2.1 for time in times if time is not None] == [True]
        await stage.agent.gone()
        await stage.state("failed")
        stage.hosted.restart()
        await stage.idle()
        await stage.settled()
        places = stage.hosted.live.places[:4]
        assert [stage.hosted.live.block(key) for key in places] == before
        assert [stage.hosted.call_time(key) for key in places] == times
        assert ("session/resume" in stage.agent.methods()) is (able == "resume")
        forgotten = [each for each in stage.remarks() if "does not remember" in each]
        assert len(forgotten) == (able != "resume")
        assert all("No such session" in each for each in forgotten if able == "load, and refuses")
        stage.hosted.prompt(["second"], "Anna")
        stage.finish(await stage.begin())
        await stage.idle()
        await stage.settled()
        late = Page(stage.hosted)
        assert page.shown() == late.shown()


@both
@simulated
async def test_a_session_that_is_resumed_without_a_replay_goes_on_as_it_is(version: int) -> None:
    async with hosting(version, {"session/resume": {}}) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["first"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(message(version, "An answer."))
        stage.finish(prompt)
        await stage.idle()
        await stage.settled()
        epoch, session = page.epoch, stage.hosted.live.session
        await stage.agent.gone()
        await stage.state("failed")
        stage.hosted.restart()
        await stage.idle()
        stage.hosted.prompt(["second"], "Anna")
        prompt = await stage.begin()
        stage.agent.update(message(version, "Another.", "m2"))
        stage.finish(prompt)
        await stage.idle()
        await stage.settled()
        assert (page.epoch, stage.hosted.live.session) == (epoch, session)
        assert page.shown() == Page(stage.hosted).shown()
        texts = [each.text for each in session.entries if isinstance(each, Message)]
        mine = ["first", "second"] if version == 1 else []  # version 2 echoes prompts itself
        assert sorted(texts) == sorted(["An answer.", "Another.", *mine])


@simulated
async def test_a_session_without_a_prompt_begins_anew_after_a_restart() -> None:
    async with hosting(2) as stage:
        await stage.agent.gone()
        await stage.state("failed")
        stage.hosted.restart()
        await stage.idle()
        assert stage.agent.methods()[:2] == ["initialize", "session/new"]


@both
@simulated
async def test_an_agent_that_requires_a_login_fails_with_the_way_and_can_be_started_again(
    version: int,
) -> None:
    logged_in = False

    def new(agent: RawAgent, request: Json) -> None:
        if logged_in:
            agent.answer(request, {"sessionId": "s"})
        else:
            agent.refuse(request, -32000, "Authentication required")

    command = "twofold run raw"
    async with hosting(version, {"session/new": new}, opens=False, log_in=command) as stage:
        await stage.state("failed")
        assert stage.hosted.failure is not None
        assert "requires a login (Token)" in stage.hosted.failure
        assert "`twofold run raw`" in stage.hosted.failure
        logged_in = True
        stage.hosted.restart()
        await stage.idle()


@simulated
async def test_a_session_to_resume_that_the_agent_does_not_have_fails() -> None:
    async with hosting(1, {"session/load": refuse_to_load}, opens=False, resume="old") as stage:
        await stage.state("failed")
        assert "No such session" in str(stage.hosted.failure)
        assert "session/new" not in stage.agent.methods()


@simulated
async def test_an_agent_that_refuses_a_session_fails_it_with_its_words() -> None:
    def new(agent: RawAgent, request: Json) -> None:
        agent.refuse(request, -32603, "No \x1b[31mdisk")

    async with hosting(2, {"session/new": new}, opens=False) as stage:
        await stage.state("failed")
        assert "No disk" in str(stage.hosted.failure)


@simulated
async def test_an_agent_can_be_ended_without_waiting_for_it() -> None:
    async with hosting(2) as stage:
        stage.hosted.hurry()
        assert stage.launches[-1]._hurried


@pytest.mark.parametrize("error", [LocalError("no such rule"), ValueError("no such rule")])
@simulated
async def test_a_session_whose_agent_cannot_be_launched_fails(error: Exception) -> None:
    def launch() -> Any:
        raise error

    hosted = HostedSession("agent", Path("/"), launch)
    hosted.start()
    await until_soon(lambda: hosted.state == "failed")
    assert "no such rule" in str(hosted.failure)
    await hosted.close()


@both
@simulated
async def test_closing_ends_the_turn_the_questions_and_the_agent(version: int) -> None:
    async with hosting(version) as stage:
        page = Page(stage.hosted)
        stage.hosted.prompt(["first"], "Anna")
        await stage.begin()
        stage.ask()
        await stage.asked()
        await asyncio.gather(stage.hosted.close(), stage.hosted.close())
        assert page.facts["session"]["failure"] == "The session was closed."
        assert page.facts["questions"] == []
        frames = page.frames
        stage.hosted.rename("later")
        await asyncio.sleep(1)
        assert page.frames == frames


# ---- controls ------------------------------------------------------------------------------------


def option(identity: str, current: Any, **more: Any) -> Json:
    kind = "boolean" if isinstance(current, bool) else "select"
    base = {"configId": identity, "name": identity.title(), "type": kind, "currentValue": current}
    return {**base, **more}


def choices(*values: str) -> list[Json]:
    return [{"value": value, "name": value.upper()} for value in values]


@simulated
async def test_controls_are_set_by_the_ids_that_are_shown() -> None:
    mode = option("mode", "ask", category="mode", options=choices("ask", "plan"))
    model = option("model", "big", category="model", options=choices("big", "small\x1b[1m"))
    options = [mode, model, option("fast", False), option("size", "s", options=choices("s", "l"))]
    new = {"sessionId": "s", "configOptions": options}
    sent: list[Json] = []

    def set_option(agent: RawAgent, request: Json) -> None:
        sent.append([request["params"]["configId"], request["params"]["value"]])
        agent.answer(request, {"configOptions": options})

    async with hosting(2, {"session/new": new, "session/set_config_option": set_option}) as stage:
        hosted = stage.hosted
        await stage.settled()
        facts = stage.facts()["controls"]
        assert [(each["id"], each["kind"], each["value"]) for each in facts] == [
            *(("mode", "mode", "ask"), ("model", "model", "big")),
            *(("fast", "boolean", False), ("size", "select", "s")),
        ]
        assert [each["value"] for each in facts[1]["choices"]] == ["big", "#2"]
        await hosted.set_mode("plan")
        await hosted.set_model("#2")
        await hosted.set_option("fast", True)
        await hosted.set_option("size", "l")
        assert sent == [["mode", "plan"], ["model", "small\x1b[1m"], ["fast", True], ["size", "l"]]
        wrong: list[tuple[str, str | bool]] = [("none", "x"), ("size", "xl"), ("size", True)]
        for identity, value in [*wrong, ("fast", "yes")]:
            with pytest.raises(LocalError):
                await hosted.set_option(identity, value)


@simulated
async def test_an_agent_without_modes_offers_none() -> None:
    async with hosting(2) as stage:
        with pytest.raises(LocalError, match="no choice of modes"):
            await stage.hosted.set_mode("plan")


@simulated
async def test_a_setting_that_the_agent_refuses_is_an_error() -> None:
    new = {"sessionId": "s", "configOptions": [option("fast", False)]}

    def refuse(agent: RawAgent, request: Json) -> None:
        agent.refuse(request, -32602, "Not now")

    async with hosting(2, {"session/new": new, "session/set_config_option": refuse}) as stage:
        with pytest.raises(RequestFailed, match="Not now"):
            await stage.hosted.set_option("fast", True)


@simulated
async def test_what_the_agent_reports_beside_its_messages_are_facts() -> None:
    entry = {"content": "do it", "priority": "low", "status": "pending"}
    command = {"name": "go", "description": "It goes", "input": {"type": "text", "hint": "where"}}
    async with hosting(2) as stage:
        page = Page(stage.hosted)
        stage.agent.update(
            {"sessionUpdate": "usage_update", "used": 53_000, "size": 200_000},
            {
                "sessionUpdate": "plan_update",
                "plan": {"type": "items", "planId": "p", "entries": [entry]},
            },
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"type": "command", **command}],
            },
        )
        await stage.settled()
        assert page.facts["usage"]["words"] == "53k of 200k tokens"
        steps = [{"mark": "○", "status": "pending", "text": "do it"}]
        assert page.facts["plan"] == [{"steps": steps, "text": None}]
        shown = {"name": "go", "description": "It goes", "hint": "where"}
        assert page.facts["commands"] == [shown]


@simulated
async def test_a_title_of_a_person_comes_before_those_of_the_agent() -> None:
    async with hosting(2) as stage:
        page = Page(stage.hosted)
        assert stage.hosted.title == "New session"
        stage.agent.update({"sessionUpdate": "session_info_update", "title": "The agent's"})
        await stage.settled()
        assert page.facts["session"]["title"] == "The agent's"
        stage.hosted.rename("  Mine \x1b[31m\n too ")
        await stage.settled()
        assert page.facts["session"]["title"] == "Mine   too"
        stage.hosted.rename("")
        await stage.settled()
        assert page.facts["session"]["title"] == "The agent's"


# ---- bounds --------------------------------------------------------------------------------------


@simulated
async def test_an_agent_that_floods_fills_nothing_but_its_own_transcript() -> None:
    async with hosting(2) as stage:
        frames: list[Frame] = []
        stage.hosted.subscribe(frames.append)
        for number in range(3000):
            stage.ask(f"c{number}")
            stage.agent.update(chunk("word "))
            stage.agent.write(b"this is no message\n")
            if number % 100 == 0:
                await asyncio.sleep(0)
        await stage.asked(MOST_SHOWN)
        await stage.settled()
        facts = stage.facts()
        assert len(facts["problems"]) <= 50
        assert len(facts["questions"]) == MOST_SHOWN
        assert len(stage.hosted.live.session.permissions) == 1000  # more are refused
        assert len(frames) < 100
        stage.hosted.prompt(["go"])
        stage.hosted.cancel("Anna")
        await stage.asked(0)
        await stage.settled()
        assert len(stage.facts()["answered"]) == 50


# ---- searching -----------------------------------------------------------------------------------


@simulated
async def test_a_text_is_found_wherever_it_is_shown() -> None:
    async with hosting(2) as stage:
        diff = {"type": "diff", "path": "/a/needle.py", "newText": "x", "oldText": "y"}
        terminal = {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "needle -v"}
        stage.agent.update(
            chunk("hay " * 100 + "a Needle\x1b[31m in it " + "hay " * 100),
            call("c1", title="Look for the NEEDLE"),
            call("c2", content=[diff]),
            terminal,
            call("c3", content=[{"type": "terminal", "terminalId": "t"}]),
            {"sessionUpdate": "notice", "severity": "info", "title": "needle"},
            chunk("nothing here", "m2"),
        )
        await stage.settled()
        found = await stage.hosted.search("needle")
        assert [each["at"] for each in found] == [0, 1, 2, 3, 4]
        assert "a Needle in it" in found[0]["text"]
        assert found[0]["text"].startswith("…")
        assert len(found[0]["text"]) < 150
        assert len(await stage.hosted.search("needle", 2)) == 2
        assert await stage.hosted.search(" ") == []
        assert await stage.hosted.search("(.*") == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 0 s")),
        *((125, "2 min 5 s"), (3599.6, "1 h 0 min"), (3_720, "1 h 2 min")),
    ],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_options_of_the_stage_are_distinct() -> None:
    assert len({each["optionId"] for each in OPTIONS}) == len(OPTIONS)
