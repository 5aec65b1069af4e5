"""Law 7: after cancel, close or the peer's death nothing stays pending, whenever it happens."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import twofold
from tests.support.raw_process import gone, raw_agent
from tests.support.real_time import run
from tests.support.scripted import (
    HandTransport,
    Json,
    ScriptedAgent,
    Version,
    line,
    meeting,
    new_session,
)
from tests.support.simulated import LONG, leaves_nothing, now, others, turns
from twofold.transport.process import ProcessEnded

BOTH = pytest.mark.parametrize("version", [1, 2])
GIVE_UP = 20.0
TIMEOUT = 1.0
OPEN = ("pending", "in_progress", "paused")

# ---- a turn of an agent, step by step


class Turn:
    """A prompt, as far as an agent has come with it."""

    def __init__(
        self, client: twofold.Client, agent: ScriptedAgent, session: twofold.ClientSession
    ) -> None:
        self.client = client
        self.agent = agent
        self.session = session
        self.prompting = asyncio.create_task(session.prompt("go"))
        self.request: Json | None = None
        self.asked: int | None = None

    async def receive(self) -> None:
        self.request = await self.agent.receive("session/prompt")

    async def accept(self) -> None:
        assert self.request is not None
        if self.agent.version == 2:
            self.agent.answer(self.request, {"messageId": "u"})

    async def run(self) -> None:
        if self.agent.version == 2:
            self.agent.state("running")

    async def send_text(self) -> None:
        self.agent.text("Let me see.")

    async def work(self) -> None:
        self.agent.tool_call("in_progress")

    async def ask(self) -> None:
        self.asked = self.agent.ask_permission()
        await turns()

    async def ask_more(self) -> None:
        self.agent.ask_permission(call="another")

    async def end(self) -> None:
        assert self.request is not None
        self.agent.finish(self.request)


STEPS: list[Callable[[Turn], Awaitable[None]]] = [
    Turn.receive,
    Turn.accept,
    Turn.run,
    Turn.send_text,
    Turn.work,
    Turn.ask,
    Turn.ask_more,
    Turn.end,
]
NAMES = ["nothing", *(step.__name__ for step in STEPS)]
POINTS = pytest.mark.parametrize("point", range(len(NAMES)), ids=NAMES)
SENT = pytest.mark.parametrize("point", range(1, len(NAMES)), ids=NAMES[1:])


async def never(question: twofold.Question) -> None:
    """A person who does not answer."""
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def turn_at(
    point: int, version: Version, way: str = "no handler", **options: Any
) -> AsyncIterator[tuple[ScriptedAgent, Turn]]:
    """An agent and its turn, which has come to a point."""
    async with meeting(version, **options) as (client, agent):
        session = await new_session(client, agent)
        watch(session, way)
        turn = Turn(client, agent, session)
        for step in STEPS[:point]:
            await step(turn)
        yield agent, turn


def watch(session: twofold.ClientSession, way: str) -> None:
    async def slow(update: Any) -> None:
        await asyncio.sleep(0.1)

    async def stuck(update: Any) -> None:
        await asyncio.Event().wait()

    if way != "no handler":
        session.on_update({"slow": slow, "stuck": stuck}[way])


WAYS = pytest.mark.parametrize("way", ["no handler", "slow", "stuck"])


def check_settled(turn: Turn) -> None:
    session = turn.session
    assert turn.prompting.done()
    assert session.state.permissions == {}
    assert session.state.state == "idle"


def check_answered(turn: Turn) -> None:
    """Every permission that the agent asked for was answered `cancelled`, once."""
    written = turn.agent.transport.written
    asked = range(1001, turn.agent._last_id + 1)
    answers = {each["id"]: each for each in written if "method" not in each}
    assert sorted(answers) == list(asked)
    for answer in answers.values():
        assert answer["result"]["outcome"] == {"outcome": "cancelled"}


# ---- cancel


@WAYS
@BOTH
@SENT
@leaves_nothing
async def test_a_cancel_settles_everything(point: int, version: Version, way: str) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=TIMEOUT) as (agent, turn):
        cancelling = asyncio.create_task(turn.session.cancel(GIVE_UP))
        if NAMES[point] != "end":
            await agent.receive("session/cancel")
            assert turn.request is not None
            agent.tool_call("in_progress")  # it has not received the cancel yet
            if version == 2 and point == 1:
                agent.answer(turn.request, {"messageId": "u"})
                agent.state("running")
            agent.finish(turn.request, "cancelled")
        await cancelling
        reply = await turn.prompting
        assert not reply.given_up
        if NAMES[point] != "end":
            assert reply.stop_reason == "cancelled"
            statuses = {call.status for call in turn.session.state.tool_calls.values()}
            assert statuses.isdisjoint(OPEN)
        await asyncio.sleep(TIMEOUT * 4)
        if NAMES[point] != "end":
            check_settled(turn)
            check_answered(turn)


@WAYS
@BOTH
@SENT
@leaves_nothing
async def test_a_cancel_that_the_agent_ignores_is_given_up(
    point: int, version: Version, way: str
) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=TIMEOUT) as (_, turn):
        begin = now()
        await turn.session.cancel(GIVE_UP)
        assert now() - begin <= GIVE_UP + 10 * TIMEOUT
        reply = await turn.prompting
        if NAMES[point] != "end":
            assert (reply.stop_reason, reply.given_up) == ("cancelled", True)
            check_settled(turn)
            check_answered(turn)


@WAYS
@BOTH
@POINTS
@leaves_nothing
async def test_cancelling_the_task_of_a_prompt_cancels_the_turn(
    point: int, version: Version, way: str
) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=TIMEOUT) as (agent, turn):
        turn.prompting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turn.prompting
        if NAMES[point] not in ("nothing", "end"):
            await agent.receive("session/cancel")
            assert turn.request is not None
            if version == 2 and point == 1:
                agent.answer(turn.request, {"messageId": "u"})
                agent.state("running")
            agent.finish(turn.request, "cancelled")
        await asyncio.sleep(TIMEOUT * 10)
        if NAMES[point] != "end":
            check_settled(turn)
            check_answered(turn)


@BOTH
@leaves_nothing
async def test_prompts_that_wait_for_their_turn_are_cancelled_with_it(version: Version) -> None:
    async with turn_at(STEPS.index(Turn.send_text), version) as (agent, turn):
        waiting = [asyncio.create_task(turn.session.prompt("and then?")) for _ in range(3)]
        await turns()
        cancelling = asyncio.create_task(turn.session.cancel(GIVE_UP))
        await agent.receive("session/cancel")
        if version == 2:
            for _ in waiting:
                request = await agent.receive("session/prompt")
                agent.fail(request, -32800, "Request cancelled")
        assert turn.request is not None
        agent.finish(turn.request, "cancelled")
        await cancelling
        replies = await asyncio.gather(turn.prompting, *waiting)
        assert {reply.stop_reason for reply in replies} == {"cancelled"}
        assert now() < GIVE_UP
        assert len(agent.all_received("session/prompt")) == (4 if version == 2 else 1)


@BOTH
@leaves_nothing
async def test_the_next_turn_after_a_cancel_is_like_any_other(version: Version) -> None:
    async with turn_at(STEPS.index(Turn.ask), version) as (agent, turn):
        cancelling = asyncio.create_task(turn.session.cancel(GIVE_UP))
        await agent.receive("session/cancel")
        assert turn.request is not None
        agent.finish(turn.request, "cancelled")
        await cancelling
        again = asyncio.create_task(turn.session.prompt("again"))
        request = await agent.begin()
        agent.tool_call("in_progress", call="new")
        agent.finish(request)
        assert (await again).stop_reason == "end_turn"
        assert turn.session.state.tool_calls["new"].status == "in_progress"
        assert not turn.session.state.cancelling


# ---- death

DEAD = ProcessEnded(["agent"], exit_code=3, signal=None, stderr="out of memory")


@WAYS
@BOTH
@POINTS
@leaves_nothing
async def test_the_death_of_the_agent_settles_everything(
    point: int, version: Version, way: str
) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=TIMEOUT) as (agent, turn):
        agent.transport.end(DEAD)
        if NAMES[point] == "end":
            assert (await turn.prompting).stop_reason == "end_turn"
        else:
            with pytest.raises(twofold.ProcessEnded, match="out of memory"):
                await turn.prompting
        await asyncio.sleep(TIMEOUT * 10)
        check_settled(turn)
        assert now() <= TIMEOUT * 20
        with pytest.raises(twofold.ProcessEnded, match="out of memory"):
            await turn.session.prompt("still there?")
        with pytest.raises(twofold.ProcessEnded, match="out of memory"):
            await turn.client.new_session()


@WAYS
@BOTH
@POINTS
@leaves_nothing
async def test_closing_right_after_the_death_of_the_agent_settles_everything(
    point: int, version: Version, way: str
) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=LONG) as (agent, turn):
        agent.transport.end(DEAD)
        begin = now()
    assert now() - begin <= 2
    assert others() - {turn.prompting} == set()
    outcome = (await asyncio.gather(turn.prompting, return_exceptions=True))[0]
    if NAMES[point] != "end":
        assert isinstance(outcome, twofold.ConnectionEnded | twofold.ConnectionClosed)
    assert turn.session.state.permissions == {}


@BOTH
@SENT
@leaves_nothing
async def test_the_death_of_the_agent_after_a_cancel_settles_everything(
    point: int, version: Version
) -> None:
    async with turn_at(point, version, ask=never) as (agent, turn):
        cancelling = asyncio.create_task(turn.session.cancel(GIVE_UP))
        await turns()
        agent.transport.end(DEAD)
        await cancelling
        outcome = (await asyncio.gather(turn.prompting, return_exceptions=True))[0]
        assert outcome is DEAD or NAMES[point] == "end"
        check_settled(turn)
        assert now() < GIVE_UP


@BOTH
@leaves_nothing
async def test_a_permission_that_waits_behind_a_handler_dies_with_the_agent(
    version: Version,
) -> None:
    asked: list[twofold.Question] = []

    async def ask(question: twofold.Question) -> None:
        asked.append(question)
        await never(question)

    async with meeting(version, ask=ask) as (client, agent):
        session = await new_session(client, agent)
        watch(session, "slow")
        with agent.at_once():
            agent.text("0")
            agent.ask_permission()
        agent.transport.end(DEAD)
        await asyncio.sleep(1)
        assert session.state.permissions == {}
        assert asked == []


@BOTH
@pytest.mark.parametrize("way", ["at once", "later"])
@leaves_nothing
async def test_a_withdrawn_permission_is_pending_no_more(version: Version, way: str) -> None:
    async with meeting(version, ask=never) as (client, agent):
        session = await new_session(client, agent)
        identity = 1001
        with agent.at_once():
            assert agent.ask_permission() == identity
            if way == "at once":
                agent.notify("$/cancel_request", {"requestId": identity})
        if way == "later":
            await turns()
            assert list(session.state.permissions) == [identity]
            agent.notify("$/cancel_request", {"requestId": identity})
        answer = await agent.answer_to(identity)
        assert answer["error"]["code"] == -32800
        await turns()
        assert session.state.permissions == {}


# ---- close


@WAYS
@BOTH
@POINTS
@leaves_nothing
async def test_closing_the_client_settles_everything(
    point: int, version: Version, way: str
) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=LONG) as (_, turn):
        begin = now()
    assert now() - begin <= 2
    assert others() - {turn.prompting} == set()
    outcome = (await asyncio.gather(turn.prompting, return_exceptions=True))[0]
    if NAMES[point] != "end":
        assert isinstance(outcome, twofold.ConnectionClosed)
    assert turn.session.state.permissions == {}
    assert turn.session.closed


@WAYS
@BOTH
@POINTS
@leaves_nothing
async def test_closing_the_session_settles_everything(
    point: int, version: Version, way: str
) -> None:
    async with turn_at(point, version, way, ask=never, handler_timeout=TIMEOUT) as (agent, turn):
        closing = asyncio.create_task(turn.session.close())
        agent.answer(await agent.receive("session/close"), {})
        await closing
        outcome = (await asyncio.gather(turn.prompting, return_exceptions=True))[0]
        if NAMES[point] not in ("nothing", "end"):
            assert isinstance(outcome, twofold.ConnectionClosed | twofold.Reply)
        assert turn.session.state.permissions == {}
        await asyncio.sleep(TIMEOUT * 10)
        again = await new_session(turn.client, agent, "another")
        assert list(turn.client.sessions) == [again.session_id]


@BOTH
@leaves_nothing
async def test_a_task_that_waits_for_changes_gets_the_end(version: Version) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)

        async def look() -> int:
            return sum([len(changes) async for changes in session.changes()])

        looking = asyncio.create_task(look())
        await turns()
        agent.text("0")
        await asyncio.sleep(1)
        agent.transport.end(DEAD)
        assert await looking > 0


@BOTH
@leaves_nothing
async def test_every_pending_request_fails_at_the_end(version: Version) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)
        watch(session, "stuck")
        asking = asyncio.create_task(client.request("_ask", {"sessionId": "s"}))
        request = await agent.receive("_ask")
        with agent.at_once():
            agent.text("0")
            agent.answer(request, 1)  # it waits behind a handler that does not come back
        making = asyncio.create_task(client.new_session())
        await turns()
        assert not asking.done()
    for task in (asking, making):
        with pytest.raises(twofold.ConnectionClosed):
            await task
    assert now() <= 2


# ---- an agent whose client goes


class ScriptedClient:
    """The raw messages of a client."""

    def __init__(self, version: Version, agent: twofold.Agent) -> None:
        self.version = version
        self.transport = HandTransport()
        self.serving = asyncio.create_task(agent.serve(self.transport))
        self._last_id = 0

    def ask(self, method: str, params: Json) -> int:
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        self.transport.deliver(line(message))
        return self._last_id

    def notify(self, method: str, params: Json) -> None:
        self.transport.deliver(line({"method": method, "params": params}))

    async def result(self, identity: int) -> Json:
        def found() -> list[Json]:
            return [
                each
                for each in self.transport.written
                if each.get("id") == identity and "method" not in each
            ]

        await self.transport.until(lambda: bool(found()))
        return found()[0]

    async def receive(self, method: str) -> Json:
        def found() -> list[Json]:
            return [each for each in self.transport.written if each.get("method") == method]

        await self.transport.until(lambda: bool(found()))
        return found()[-1]

    async def session(self) -> str:
        await turns(1)  # so that the agent begins to serve
        params: Json = {"protocolVersion": self.version}
        params["clientInfo" if self.version == 1 else "info"] = {"name": "c", "version": "1"}
        await self.result(self.ask("initialize", params))
        made = await self.result(self.ask("session/new", {"cwd": "/", "mcpServers": []}))
        session: str = made["result"]["sessionId"]
        return session

    def states(self) -> list[Json]:
        """The state updates of a version 2 agent."""
        updates = [
            each["params"]["update"]
            for each in self.transport.written
            if each.get("method") == "session/update"
        ]
        return [each for each in updates if each["sessionUpdate"] == "state_update"]


PLACES = ["begun", "sent", "working", "asking", "deaf"]


class Working:
    """An agent that stops at a place and waits there."""

    def __init__(self, place: str) -> None:
        self.agent = twofold.Agent("agent", cancel_timeout=3.0, on_problem=lambda problem: None)
        self.there = asyncio.Event()
        self.stopped = 0
        self.agent.on_prompt(self.answer)
        self._place = place

    async def answer(self, turn: twofold.Turn) -> None:
        try:
            await self.stay("begun")
            await turn.say("Let me see.")
            await self.stay("sent")
            async with turn.tool_call("Work") as call:
                await self.stay("working")
                if self._place == "asking":
                    self.there.set()
                await turn.ask("May I?", call)
        finally:
            self.stopped += 1
            if self._place == "deaf":
                await asyncio.sleep(60)

    async def stay(self, place: str) -> None:
        if place == self._place or (place == "begun" and self._place == "deaf"):
            self.there.set()
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def working(version: Version, place: str) -> AsyncIterator[tuple[ScriptedClient, str, int]]:
    """A client by hand, the session, and the prompt that is being worked on."""
    work = Working(place)
    client = ScriptedClient(version, work.agent)
    session = await client.session()
    prompt = client.ask(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
    )
    await work.there.wait()
    if place == "asking":
        await client.receive("session/request_permission")
    yield client, session, prompt
    client.transport.end()
    begin = now()
    await client.serving
    assert now() - begin <= 10
    assert work.stopped == 1
    await asyncio.sleep(100)


@BOTH
@pytest.mark.parametrize("place", PLACES)
@leaves_nothing
async def test_an_agent_ends_a_turn_that_its_client_cancels(version: Version, place: str) -> None:
    async with working(version, place) as (client, session, prompt):
        begin = now()
        client.notify("session/cancel", {"sessionId": session})
        if version == 1:
            answer = await client.result(prompt)
            assert answer["result"] == {"stopReason": "cancelled"}
        else:
            await client.transport.until(lambda: client.states()[-1]["state"] == "idle")
            assert client.states()[-1]["stopReason"] == "cancelled"
        assert now() - begin <= 3.0
        if place == "asking":
            withdrawn = await client.receive("$/cancel_request")
            asked = await client.receive("session/request_permission")
            assert withdrawn["params"] == {"requestId": asked["id"]}


@BOTH
@pytest.mark.parametrize("place", PLACES)
@leaves_nothing
async def test_an_agent_ends_when_its_client_is_gone(version: Version, place: str) -> None:
    async with working(version, place):
        pass


@BOTH
@pytest.mark.parametrize("place", PLACES)
@leaves_nothing
async def test_an_agent_closes_a_session_in_the_middle_of_a_turn(
    version: Version, place: str
) -> None:
    async with working(version, place) as (client, session, prompt):
        closed = await client.result(client.ask("session/close", {"sessionId": session}))
        assert closed["result"] == {}
        if version == 1:
            assert (await client.result(prompt))["result"] == {"stopReason": "cancelled"}


@leaves_nothing
async def test_an_agent_stops_when_the_prompt_is_withdrawn() -> None:
    async with working(1, "sent") as (client, _, prompt):
        client.notify("$/cancel_request", {"requestId": prompt})
        answer = await client.result(prompt)
        cancelled = answer.get("result") == {"stopReason": "cancelled"}
        assert cancelled or answer["error"]["code"] == -32800


# ---- both ends are Twofold


@BOTH
@pytest.mark.parametrize("how", ["cancel", "close", "close session", "agent gone"])
@pytest.mark.parametrize("place", PLACES)
@leaves_nothing
async def test_both_ends_settle(version: Version, place: str, how: str) -> None:
    work = Working(place)
    ours, theirs = twofold.memory_pair()
    serving = asyncio.create_task(work.agent.serve(theirs))
    async with twofold.connect(
        ours, version=version, ask=never, on_problem=lambda problem: None
    ) as client:
        session = await client.new_session()
        prompting = asyncio.create_task(session.prompt("go"))
        await work.there.wait()
        await turns(100)
        if how == "cancel":
            await session.cancel(GIVE_UP)
            reply = await prompting
            assert (reply.stop_reason, reply.given_up) == ("cancelled", False)
        elif how == "close session":
            await session.close()
        elif how == "agent gone":
            await theirs.close()
        if how != "close":
            await asyncio.gather(prompting, return_exceptions=True)
            assert session.state.permissions == {}
            assert session.state.state == "idle"
    await asyncio.gather(prompting, return_exceptions=True)
    assert session.state.permissions == {}
    await serving
    await asyncio.sleep(100)
    assert work.stopped == 1


# ---- processes

HANGING = """
def prompt(request):
    text(str(os.getpid()))
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}
    send({"id": 1, "method": "session/request_permission", "params": params})
    while read().get("id") != 1:
        pass
    time.sleep(60)
"""


@pytest.mark.parametrize("how", ["close", "death", "cancelled"])
def test_no_process_is_left(how: str) -> None:
    pids: list[int] = []

    async def main() -> None:
        asked = asyncio.Event()

        async def ask(question: twofold.Question) -> None:
            asked.set()
            await never(question)

        async with twofold.connect(raw_agent(HANGING), ask=ask) as client:
            session = await client.new_session()
            prompting = asyncio.create_task(session.prompt("go"))
            await asked.wait()
            pids.extend(
                int(entry.text)
                for entry in session.state.entries
                if isinstance(entry, twofold.Message) and entry.role == "agent"
            )
            if how == "death":
                os.kill(pids[0], signal.SIGKILL)
                with pytest.raises(twofold.ProcessEnded, match="SIGKILL"):
                    await prompting
            elif how == "cancelled":
                await session.cancel(give_up=0.1)
                assert (await prompting).given_up
        await asyncio.gather(prompting, return_exceptions=True)
        assert session.state.permissions == {}
        assert others() == set()

    run(main())
    assert gone(pids[0])
