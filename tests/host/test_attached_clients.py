"""Clients of both versions and a page share a session: all see the same, one answer counts."""

import asyncio
import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.attached import (
    Attaching,
    AttachStage,
    attaching,
    folded,
    shape,
    until_soon,
    words,
)
from tests.support.hosted import Page
from tests.support.hosted_walk import STEPS, Walk, accept, replay
from tests.support.idle_clock import simulated
from tests.support.raw_agent import HELLO, RawAgent, call, chunk, echo
from twofold.client.permissions import Question
from twofold.errors import LocalError
from twofold.host.session_feed import PIECE
from twofold.wire.shared import PermissionOption

Json = Any
both = pytest.mark.parametrize("version", [1, 2])


# ---- one session -------------------------------------------------------------------------------


@simulated
@both
async def test_clients_of_both_versions_and_a_page_see_the_same_session(version: int) -> None:
    async with attaching(version) as stage:
        page = Page(stage.hosted)
        async with stage.twofold(1) as (_, one), stage.twofold(2) as (_, two):
            turn = asyncio.create_task(one.prompt("hello"))
            prompt = await stage.stage.agent.receive("session/prompt")
            if version == 2:
                stage.stage.agent.update(echo("hello"))
                accept(stage.stage.agent, prompt)
            stage.stage.agent.update(chunk("Hi "), chunk("there."))
            if version == 2:
                stage.stage.agent.update(call("c", title="Work"), call("c", "completed"))
            stage.stage.finish(prompt)
            assert (await turn).stop_reason == "end_turn"
            await stage.stage.settled()
            assert shape(two.state) == shape(stage.hosted.live.session)
            assert words(one.state) == words(two.state)
            assert words(two.state)[:2] == [("user", "hello"), ("agent", "Hi there.")]
        page.subscription.cancel()
        assert page.facts["session"]["state"] == "idle"


@simulated
@both
async def test_each_of_them_may_prompt_and_each_turn_ends_for_its_own_caller(version: int) -> None:
    async with (
        attaching(version) as stage,
        stage.twofold(1) as (_, one),
        stage.twofold(2) as (_, two),
    ):
        turns = [asyncio.create_task(each.prompt("of a client")) for each in (one, two, one)]
        stage.hosted.prompt(["of a page"], "a page")
        for number in range(4):
            prompt = await stage.stage.begin()
            stage.stage.agent.update(chunk(f"Reply {number}.", f"m{number}"))
            stage.stage.finish(prompt)
        replies = [await turn for turn in turns]
        assert [reply.stop_reason for reply in replies] == ["end_turn"] * 3
        await stage.stage.idle()
        await stage.stage.settled()
        texts = [entry[1] for entry in words(two.state) if entry[0] == "agent"]
        assert texts == [f"Reply {number}." for number in range(4)]


# ---- questions ---------------------------------------------------------------------------------


async def asked_of(stage: AttachStage, *clients: Attaching) -> list[Json]:
    """The requests that the clients were sent for the question that waits."""
    await stage.stage.asked()
    return [await client.request() for client in clients]


@simulated
@both
async def test_a_question_is_asked_of_all_and_withdrawn_when_one_has_answered(
    version: int,
) -> None:
    async with attaching(version) as stage:
        clients = [await stage.client(each, f"C{each}") for each in (1, 2)]
        clients.append(await stage.client(2, "Third"))
        for client in clients:
            await client.attach()
        stage.hosted.prompt(["go"], "a page")
        prompt = await stage.stage.begin()
        answer = stage.stage.ask()
        one, two, three = await asked_of(stage, *clients)
        assert {each["params"]["sessionId"] for each in (one, two, three)} == {stage.session}
        clients[1].choose(two, "no")
        assert (await answer)["result"]["outcome"]["optionId"] == "no"
        await stage.stage.settled()
        for client, request in ((clients[0], one), (clients[2], three)):
            await until_soon(lambda: "$/cancel_request" in client.story())  # noqa: B023
            (gone,) = [m for m in client.messages if m.get("method") == "$/cancel_request"]
            assert gone["params"]["requestId"] == request["id"]
        assert "$/cancel_request" not in clients[1].story()
        assert clients[1].notices() == []
        assert clients[2].notices() == ["Work on c: rejected by C2"]
        assert stage.hosted.facts()["answered"][0]["by"] == "C2"
        stage.stage.finish(prompt)
        await stage.stage.idle()


@simulated
async def test_a_page_answers_and_clients_are_shown_who_did() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        stage.stage.ask()
        await asked_of(stage, client)
        (question,) = await stage.stage.asked()
        stage.hosted.answer(question, "yes", "Firefox")
        await stage.stage.settled()
        assert client.notices() == ["Work on c: allowed by Firefox"]
        (shown,) = [
            each for each in client.updates(stage.session) if each["sessionUpdate"] == "notice"
        ]
        assert shown["_meta"]["_twofold.host"]["by"] == "Firefox"


@simulated
async def test_a_client_that_attaches_is_asked_what_waits() -> None:
    async with attaching(2) as stage:
        answer = stage.stage.ask()
        await stage.stage.asked()
        client = await stage.client()
        client.load(stage.session)
        client.choose(await client.request(), "yes")
        assert (await answer)["result"]["outcome"]["optionId"] == "yes"


@simulated
async def test_a_client_that_cannot_show_a_question_leaves_it_to_others() -> None:
    async with attaching(2) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        for client in (anna, ben):
            await client.attach()
        answer = stage.stage.ask()
        requests = await asked_of(stage, anna, ben)
        anna.send({"id": requests[0]["id"], "error": {"code": -32601, "message": "No"}})
        await stage.stage.settled()
        assert not answer.done()
        ben.choose(requests[1], "always")
        assert (await answer)["result"]["outcome"]["optionId"] == "always"


@simulated
@both
async def test_a_question_that_is_dismissed_is_rejected_so_that_no_turn_hangs(
    version: int,
) -> None:
    async with attaching(2) as stage:
        client = await stage.client(version)  # type: ignore[arg-type]
        await client.attach()
        answer = stage.stage.ask()
        (request,) = await asked_of(stage, client)
        client.answer(request, {"outcome": {"outcome": "cancelled"}})
        assert (await answer)["result"]["outcome"]["optionId"] == "no"


@simulated
async def test_a_question_without_an_option_that_rejects_waits_for_others() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        answer = stage.stage.ask(options=[{"optionId": "x", "name": "X", "kind": "allow_once"}])
        (request,) = await asked_of(stage, client)
        client.answer(request, {"outcome": {"outcome": "cancelled"}})
        await stage.stage.settled()
        assert not answer.done()


@simulated
async def test_a_cancel_withdraws_questions() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        client.say("go")
        prompt = await stage.stage.begin()
        answer = stage.stage.ask()
        await asked_of(stage, client)
        client.cancel(stage.session)
        assert (await answer)["result"]["outcome"]["outcome"] == "cancelled"
        stage.stage.finish(prompt, "cancelled")
        await stage.stage.idle()
        await stage.stage.settled()
        assert "$/cancel_request" in client.story()


@simulated
async def test_a_question_that_is_asked_late_changes_nothing_of_its_tool_call() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        content = {"type": "content", "content": {"type": "text", "text": "one"}}
        patch = {"toolCallId": "c", "title": "Edit", "content": [content]}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s", "title": "?", "options": options}
        stage.stage.agent.ask(
            "session/request_permission",
            {**params, "subject": {"type": "tool_call", "toolCall": patch}},
        )
        more = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": content}
        stage.stage.agent.update(more)
        (request,) = await asked_of(stage, client)
        session = folded(client)
        session.ask("1", _request(request))
        assert shape(session) == shape(stage.hosted.live.session)
        assert len(session.tool_calls["c"].content) == 2


def _request(request: Json) -> Any:
    from twofold.wire import codec, v2

    return codec.read(request["params"], v2.RequestPermissionRequest)


RACERS = st.lists(
    st.tuples(
        st.sampled_from(["v1", "v2", "page"]),
        st.sampled_from(["yes", "always", "no"]),
        st.sampled_from([0, 0, 0, 1, 3, 20]),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=200)
@given(version=st.sampled_from([1, 2]), racers=RACERS, leaves=st.integers(-1, 8))
def test_of_answers_that_race_exactly_one_counts(
    version: int, racers: list[tuple[str, str, int]], leaves: int
) -> None:
    @simulated
    async def run() -> None:
        async with attaching(version) as stage:
            clients: list[Attaching | None] = []
            for number, (kind, _, _) in enumerate(racers):
                if kind == "page":
                    clients.append(None)
                    continue
                client = await stage.client(1 if kind == "v1" else 2, f"R{number}")
                await client.attach()
                clients.append(client)
            stage.hosted.prompt(["go"], "a page")
            prompt = await stage.stage.begin()
            answer = stage.stage.ask()
            (question,) = await stage.stage.asked()
            requests = [await client.request() if client else {} for client in clients]
            accepted: list[str] = []
            for number, (_, option, pause) in enumerate(racers):
                each = clients[number]
                if number == leaves and each is not None:
                    each.leave()
                elif each is not None:
                    each.choose(requests[number], option)
                else:
                    try:
                        stage.hosted.answer(question, option, f"R{number}")
                    except LocalError:
                        pass
                    else:
                        accepted.append(f"R{number}")
                for _ in range(pause):
                    await asyncio.sleep(0)
            await stage.stage.settled()
            if not answer.done():  # who would have answered has left
                stage.hosted.answer(question, "no", "last")
            outcome = (await answer)["result"]["outcome"]
            await stage.stage.settled()
            await asyncio.sleep(0.1)
            (fact,) = stage.hosted.facts()["answered"]
            assert len(accepted) <= 1
            if accepted:
                assert fact["by"] == accepted[0]
            if fact["by"] != "last":
                assert racers[int(fact["by"][1:])][1] == outcome["optionId"]
            sent = [each for each in stage.stage.agent.messages if each.get("id") == "a1"]
            assert len(sent) == 1, "the agent gets one answer"
            for number, other in enumerate(clients):
                if other is None or number == leaves or other.version == 1:
                    continue  # notices are for clients of version 1 that declare them
                shown = [title for title in other.notices() if f"by {fact['by']}" in title]
                assert bool(shown) == (fact["by"] != f"R{number}")
            stage.stage.finish(prompt)
            await stage.stage.idle()

    run()


@simulated
@both
async def test_the_answer_of_twofolds_own_client_counts_in_either_version(version: int) -> None:
    def ask(question: Question) -> PermissionOption | None:
        return question.option("allow_once")

    async with attaching(2) as stage, stage.twofold(version, ask=ask):  # type: ignore[arg-type]
        answer = stage.stage.ask()
        assert (await answer)["result"]["outcome"]["optionId"] == "yes"


@simulated
@both
async def test_a_client_that_leaves_cancels_nothing(version: int) -> None:
    async with attaching(2) as stage:
        client = await stage.client(version)  # type: ignore[arg-type]
        await client.attach()
        client.say("hello")
        prompt = await stage.stage.begin()
        answer = stage.stage.ask()
        await asked_of(stage, client)
        client.leave()
        await client.serving
        await stage.stage.settled()
        assert "session/cancel" not in stage.stage.agent.methods()
        assert not answer.done()
        (question,) = await stage.stage.asked()
        stage.hosted.answer(question, "yes", "a page")
        stage.stage.finish(prompt)
        await stage.stage.idle()


# ---- leaving and coming back -------------------------------------------------------------------


class AttachedWalk(Walk):
    """A walk with a client that stays, and one that leaves and comes back."""

    def __init__(self, stage: AttachStage, data: st.DataObject) -> None:
        super().__init__(stage.stage, data)
        self.attached = stage
        self.stays: Attaching
        self.comes: Attaching | None = None

    async def begin(self) -> None:
        self.stays = await self.attached.client(2, "stays")
        await self.stays.attach()

    async def _come(self) -> None:
        if self.comes is None:
            self.comes = await self.attached.client(2, "comes")
            self.comes.load(self.attached.session)

    async def _leave(self) -> None:
        if self.comes is not None:
            self.comes.leave()
            self.comes = None


COMING = st.lists(
    st.one_of(st.sampled_from(["come", "come", "leave", "leave"]), STEPS.map(lambda each: each[0])),
    min_size=10,
    max_size=60,
)


@settings(max_examples=100)
@given(COMING, st.data())
def test_clients_end_with_the_same_session_whenever_they_came(
    steps: list[str], data: st.DataObject
) -> None:
    @simulated
    async def run() -> None:
        answers: dict[str, Any] = {"session/prompt": accept, "session/resume": replay}
        async with attaching(2, answers) as stage:
            walk = AttachedWalk(stage, data)
            await walk.begin()
            for name in steps:
                await walk.step(name)
            await walk.step("leave")
            await walk.step("come")
            await stage.stage.settled()
            await asyncio.sleep(0.1)
            assert walk.comes is not None
            state = stage.hosted.live.session
            if "restart" in steps:  # then clients know messages by other ids
                seen, shown = words(folded(walk.comes)), words(state)
                assert seen[len(seen) - len(shown) :] == shown
            else:
                assert shape(folded(walk.comes)) == shape(state)
                assert shape(folded(walk.stays)) == shape(state)

    run()


@simulated
async def test_a_replay_of_much_is_sent_in_pieces_that_give_the_same() -> None:
    content = {"type": "content", "content": {"type": "text", "text": "y" * 50_000}}
    more = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": content}
    data = base64.b64encode(bytes(range(256)) * 4_001).decode()
    terminal = {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": data}}
    async with attaching(2) as stage:
        stage.stage.agent.update(*[chunk("x" * 50_000) for _ in range(20)], call("c"))
        stage.stage.agent.update(*[more for _ in range(20)], terminal, call("d"))
        await stage.stage.settled()
        client = await stage.client()
        await client.attach()
        assert shape(folded(client)) == shape(stage.hosted.live.session)
        assert max(map(len, bytes(client.lines).split(b"\n"))) < 2 * PIECE


# ---- an agent that is started again ------------------------------------------------------------


def replay_all(agent: RawAgent, request: Json) -> None:
    """What was sent before, under other ids."""
    agent.update(
        chunk("hello", "x1", "user"),
        chunk("Hi "[:1], "x2"),
        chunk("Hi "[1:], "x2"),
        chunk("there.", "x2"),
    )
    agent.answer(request, {})


@simulated
async def test_what_clients_have_seen_is_not_sent_again_when_the_agent_replays_it() -> None:
    load_only = {**HELLO[1], "agentCapabilities": {"loadSession": True}}
    answers = {"initialize": load_only, "session/load": replay_all}
    async with attaching(1, answers) as stage:
        client = await stage.client()
        await client.attach()
        client.say("hello")
        prompt = await stage.stage.begin()
        stage.stage.agent.update(chunk("Hi "), chunk("there."))
        stage.stage.finish(prompt)
        await stage.stage.idle()
        before = words(folded(client))
        await stage.stage.agent.gone()
        await stage.stage.state("failed")
        asked = client.say("again")
        await until_soon(lambda: len(stage.stage.agents) == 2)
        prompt = await stage.stage.begin()
        message_id = (await client.reply(asked))["result"]["messageId"]
        stage.stage.agent.update(chunk("Once more.", "m1"))
        stage.stage.finish(prompt)
        await stage.stage.idle()
        await stage.stage.settled()
        after = [*before, ("user", "again"), ("agent", "Once more.")]
        assert words(folded(client)) == after
        late = await stage.client(name="late")
        await late.attach()
        assert words(folded(late)) == after
        assert [m.message_id for m in folded(late).messages["user"].values()][-1] == message_id


@simulated
async def test_what_an_agent_has_forgotten_is_still_shown_above() -> None:
    forgets = {**HELLO[1], "agentCapabilities": {}}
    async with attaching(1, {"initialize": forgets}) as stage:
        client = await stage.client()
        await client.attach()
        client.say("hello")
        prompt = await stage.stage.begin()
        stage.stage.agent.update(chunk("Hi."))
        stage.stage.finish(prompt)
        await stage.stage.idle()
        await stage.stage.agent.gone()
        await stage.stage.state("failed")
        client.say("again")
        await until_soon(lambda: len(stage.stage.agents) == 2)
        prompt = await stage.stage.begin()
        stage.stage.agent.update(chunk("Who?"))
        stage.stage.finish(prompt)
        await stage.stage.idle()
        await stage.stage.settled()
        late = await stage.client(name="late")
        await late.attach()
        expected = [("user", "hello"), ("agent", "Hi."), ("user", "again"), ("agent", "Who?")]
        assert words(folded(client)) == expected
        assert words(folded(late)) == expected
