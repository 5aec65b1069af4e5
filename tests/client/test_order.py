"""Law 6: handlers see updates in wire order, and all of them before the answer that followed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twofold
from tests.support.scripted import Json, ScriptedAgent, Version, line, meeting, new_session
from tests.support.simulated import leaves_nothing, now, simulate, turns
from twofold.peer.inbox import LIMIT
from twofold.wire import v2
from twofold.wire.content import TextContent

BOTH = pytest.mark.parametrize("version", [1, 2])
TIMEOUT = 10.0


def text_of(update: Any) -> str | None:
    """The text of a piece of a message; None for any other update."""
    if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, TextContent):
        return update.content.text
    return None


class Watching:
    """What a handler saw, in the way it takes its time."""

    def __init__(self, session: twofold.ClientSession, way: str = "slow") -> None:
        self.texts: list[str] = []
        self._way = way
        session.on_update(self._sync if way in ("sync", "raises") else self._later)

    def _sync(self, update: Any) -> None:
        text = text_of(update)
        if text is not None:
            self.texts.append(text)
            if self._way == "raises":
                raise ValueError(text)

    async def _later(self, update: Any) -> None:
        text = text_of(update)
        if text is None:
            return
        if self._way != "a turn":
            # the later ones are faster, and overtake the earlier ones unless they are waited for
            await asyncio.sleep(1 / (1 + len(self.texts)))
        await asyncio.sleep(0)
        self.texts.append(text)
        if self._way == "raises later":
            raise ValueError(text)
        if self._way == "cancelled":
            raise asyncio.CancelledError


WAYS = pytest.mark.parametrize(
    "way", ["sync", "a turn", "slow", "raises", "raises later", "cancelled"]
)
THREE = ["0", "1", "2"]


# ---- every request

Call = Callable[[twofold.Client, twofold.ClientSession], Awaitable[Any]]

OPTIONS: dict[Version, Json] = {
    1: {"configOptions": [{"id": "o", "name": "O", "type": "boolean", "currentValue": True}]},
    2: {"configOptions": [{"configId": "o", "name": "O", "type": "boolean", "currentValue": True}]},
}

CALLS: dict[str, tuple[str, Call]] = {
    "extension": ("_ask", lambda client, session: client.request("_ask", {"sessionId": "s"})),
    "set option": (
        "session/set_config_option",
        lambda client, session: session.set_config_option("o", True),
    ),
    "close": ("session/close", lambda client, session: session.close()),
    "load": ("session/load", lambda client, session: client.load_session("s")),
    "resume": ("session/resume", lambda client, session: client.resume_session("s")),
    "delete": ("session/delete", lambda client, session: client.delete_session("s")),
}


def result_of(name: str, version: Version) -> Json:
    return OPTIONS[version] if name == "set option" else {}


@WAYS
@BOTH
@pytest.mark.parametrize("name", CALLS)
@leaves_nothing
async def test_an_answer_comes_after_the_updates_before_it(
    name: str, version: Version, way: str
) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)
        watching = Watching(session, way)
        method, call = CALLS[name]
        if name == "load" and version == 2:
            method = "session/resume"
        calling = asyncio.ensure_future(call(client, session))
        request = await agent.receive(method)
        with agent.at_once():
            for text in THREE:
                agent.text(text)
            agent.answer(request, result_of(name, version))
            agent.text("after")
        await calling
        assert watching.texts[:3] == THREE


@WAYS
@BOTH
@leaves_nothing
async def test_a_prompt_ends_after_everything_before_its_end_was_handled(
    version: Version, way: str
) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)
        watching = Watching(session, way)
        prompting = asyncio.create_task(session.prompt("go"))
        request = await agent.begin()
        with agent.at_once():
            for text in THREE:
                agent.text(text)
            agent.finish(request)
            agent.text("after")
        reply = await prompting
        assert watching.texts[:3] == THREE
        assert reply.text.startswith("012")
        await asyncio.sleep(10)
        assert watching.texts == [*THREE, "after"]


@BOTH
@leaves_nothing
async def test_a_replay_is_handled_before_the_load_returns(version: Version) -> None:
    async with meeting(version) as (client, agent):
        loading = asyncio.create_task(client.load_session("s"))
        method = "session/load" if version == 1 else "session/resume"
        request = await agent.receive(method)
        watching = Watching(client.sessions["s"])
        with agent.at_once():
            for text in THREE:
                agent.text(text)
            agent.answer(request, {})
        session = await loading
        assert watching.texts == THREE
        assert [entry.text for entry in session.state.entries] == ["012"]  # type: ignore[union-attr]


@BOTH
@leaves_nothing
async def test_updates_before_the_answer_to_new_are_kept(version: Version) -> None:
    async with meeting(version) as (client, agent):
        making = asyncio.create_task(client.new_session())
        request = await agent.receive("session/new")
        for text in THREE:
            agent.text(text)
            await turns()
        agent.text("of someone else", session="other")
        with agent.at_once():
            agent.answer(request, {"sessionId": "s"})
            agent.text("3")
        session = await making
        (message,) = session.state.entries
        assert isinstance(message, twofold.Message)
        assert message.text == "0123"
        assert list(client.sessions) == ["s"]


@BOTH
@leaves_nothing
async def test_updates_after_the_end_of_a_turn_are_handled_and_hurt_no_later_turn(
    version: Version,
) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)
        watching = Watching(session)
        for turn in range(2):
            prompting = asyncio.create_task(session.prompt("go"))
            request = await agent.begin()
            agent.text(f"sent {turn}")
            agent.finish(request)
            agent.text(f"late {turn}")
            await prompting
        await asyncio.sleep(5)
        assert watching.texts == ["sent 0", "late 0", "sent 1", "late 1"]


# ---- one session and another


@BOTH
@leaves_nothing
async def test_two_sessions_do_not_wait_for_each_other(version: Version) -> None:
    async with meeting(version) as (client, agent):
        stuck = await new_session(client, agent, "a")
        free = await new_session(client, agent, "b")
        go_on = asyncio.Event()
        held: list[Any] = []

        @stuck.on_update
        async def wait(update: Any) -> None:
            held.append(update)
            await go_on.wait()

        watching = Watching(free, "a turn")
        answers = [
            asyncio.create_task(client.request("_ask", {"sessionId": each})) for each in "ab"
        ]
        one, two = await agent.receive("_ask"), await agent.receive("_ask")
        with agent.at_once():
            agent.text("0", session="a")
            for text in THREE:
                agent.text(text, session="b")
            agent.answer(one, 1)
            agent.answer(two, 2)
        assert await answers[1] == 2
        assert watching.texts == THREE
        assert now() == 0
        assert len(held) == 1
        assert not answers[0].done()
        go_on.set()
        assert await answers[0] == 1


@BOTH
def test_a_stuck_handler_hurts_its_own_session_until_it_is_given_up(version: Version) -> None:
    problems: list[twofold.Problem] = []

    async def main() -> None:
        async with meeting(version, problems, handler_timeout=TIMEOUT) as (client, agent):
            stuck = await new_session(client, agent, "a")
            free = await new_session(client, agent, "b")
            prompts = [asyncio.create_task(each.prompt("go")) for each in (stuck, free)]
            requests = [await agent.begin("a"), await agent.begin("b")]

            @stuck.on_update
            async def wait(update: Any) -> None:
                if text_of(update) == "1":
                    await asyncio.Event().wait()

            watching = Watching(stuck, "sync")
            begun = now()
            for session, request in zip("ab", requests, strict=True):
                with agent.at_once():
                    for text in THREE:
                        agent.text(text, session)
                    agent.finish(request, session=session)
            assert (await prompts[1]).text == "012"
            assert now() == begun
            assert (await prompts[0]).text == "012"
            assert now() == begun + TIMEOUT
            assert set(watching.texts) >= {"0", "2"}

    simulate(main())
    assert [(problem.kind, problem.session_id) for problem in problems] == [("stuck", "a")]


# ---- handlers that ask

Inside = Callable[[twofold.Client, twofold.ClientSession], Awaitable[Any]]
INSIDE: dict[str, tuple[str, Inside]] = {
    "its own session": CALLS["extension"],
    "no session": ("_ask", lambda client, session: client.request("_ask")),
    "a config option": CALLS["set option"],
    "with a time limit": (
        "_ask",
        lambda client, session: asyncio.wait_for(client.request("_ask", {"sessionId": "s"}), 5),
    ),
    "a list": ("session/list", lambda client, session: _first(client)),
}


async def _first(client: twofold.Client) -> Any:
    return [info async for info in client.list_sessions()]


@BOTH
@pytest.mark.parametrize("name", INSIDE)
def test_a_handler_may_ask_the_agent_something(name: str, version: Version) -> None:
    problems: list[twofold.Problem] = []

    async def main() -> None:
        async with meeting(version, problems) as (client, agent):
            session = await new_session(client, agent)
            method, ask = INSIDE[name]
            done: list[str] = []

            @session.on_update
            async def handle(update: Any) -> None:
                text = text_of(update)
                if text == "1":
                    await ask(client, session)
                if text is not None:
                    done.append(text)

            prompting = asyncio.create_task(session.prompt("go"))
            prompt = await agent.begin()
            begun = now()
            with agent.at_once():
                for text in THREE:
                    agent.text(text)
                agent.finish(prompt)
            request = await agent.receive(method)
            result = (
                {"sessions": []}
                if name == "a list"
                else result_of("set option" if name == "a config option" else "", version)
            )
            agent.answer(request, result)
            assert (await prompting).text == "012"
            assert done == THREE
            assert now() == begun

    simulate(main())
    assert problems == []


@BOTH
@leaves_nothing
async def test_a_handler_may_cancel_the_turn(version: Version) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)

        @session.on_update
        async def handle(update: Any) -> None:
            if text_of(update) == "0":
                await session.cancel()

        prompting = asyncio.create_task(session.prompt("go"))
        request = await agent.begin()
        agent.text("0")
        await agent.receive("session/cancel")
        agent.finish(request, "cancelled")
        reply = await prompting
        assert (reply.stop_reason, reply.given_up) == ("cancelled", False)
        assert now() < 1


@BOTH
def test_a_handler_that_would_wait_for_itself_gets_an_error(version: Version) -> None:
    problems: list[twofold.Problem] = []

    async def main() -> None:
        async with meeting(version, problems) as (client, agent):
            session = await new_session(client, agent)

            @session.on_update
            async def handle(update: Any) -> None:
                if text_of(update) == "0":
                    await session.prompt("and then?")

            agent.text("0")
            await turns()
            assert agent.all_received("session/prompt") == []
            assert now() == 0

    simulate(main())
    (problem,) = problems
    assert "in a task of its own" in str(problem)


@BOTH
@leaves_nothing
async def test_a_handler_may_prompt_in_a_task_of_its_own(version: Version) -> None:
    async with meeting(version) as (client, agent):
        session = await new_session(client, agent)
        prompts: list[asyncio.Task[twofold.Reply]] = []

        @session.on_update
        async def handle(update: Any) -> None:
            if text_of(update) == "0":
                prompts.append(asyncio.create_task(session.prompt("and then?")))
                await asyncio.sleep(1)

        watching = Watching(session, "slow")
        agent.text("0")
        request = await agent.begin()
        with agent.at_once():
            agent.text("1")
            agent.text("2")
            agent.finish(request)
        assert (await prompts[0]).stop_reason == "end_turn"
        assert watching.texts == THREE


@BOTH
def test_a_handler_that_asks_is_answered_though_its_inbox_is_full(version: Version) -> None:
    problems: list[twofold.Problem] = []

    async def main() -> None:
        async with meeting(version, problems) as (client, agent):
            session = await new_session(client, agent)
            answers: list[Any] = []

            @session.on_update
            async def handle(update: Any) -> None:
                if text_of(update) == "0":
                    await asyncio.sleep(1)
                    answers.append(await client.request("_ask", {"sessionId": "s"}))

            agent.text("0")
            for _ in range(3):
                agent.text("x" * (LIMIT // 2))
            assert agent.transport.paused
            request = await agent.receive("_ask")
            await agent.transport.until(lambda: not agent.transport.paused)
            agent.answer(request, "fine")
            await turns()
            assert answers == ["fine"]
            assert now() == 1

    simulate(main())
    assert problems == []


# ---- permissions have their place too


@BOTH
@leaves_nothing
async def test_a_permission_is_asked_after_the_updates_before_it(version: Version) -> None:
    seen: list[list[str]] = []

    def ask(question: twofold.Question) -> Any:
        seen.append(list(watching.texts))
        return question.option("allow_once")

    async with meeting(version, ask=ask) as (client, agent):
        session = await new_session(client, agent)
        watching = Watching(session)
        prompting = asyncio.create_task(session.prompt("go"))
        request = await agent.begin()
        with agent.at_once():
            for text in THREE:
                agent.text(text)
            asked = agent.ask_permission()
            agent.text("after")
        answer = await agent.answer_to(asked)
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
        assert seen == [THREE]
        agent.finish(request)
        await prompting


# ---- any schedule


class Stream:
    """A stream of updates and answers of two sessions, and how it is cut and timed."""

    def __init__(self, steps: list[tuple[str, str]]) -> None:
        self.steps = steps
        """`(session, "update")` or `(session, "answer")`, in the order of the wire."""

    def paces(self, ways: list[str]) -> dict[int, str]:
        """How each update is handled; at most one is stuck, or the handler is called no more."""
        pace = {index: ways[index % len(ways)] for index in range(len(self.steps))}
        stuck = [index for index, way in pace.items() if way == "stuck"]
        return pace | dict.fromkeys(stuck[1:], "sync")

    def lines(self, requests: list[Json]) -> list[bytes]:
        answers = iter(requests)
        made = []
        for index, (session, what) in enumerate(self.steps):
            if what == "answer":
                made.append(line({"id": next(answers)["id"], "result": index}))
            else:
                content = {"type": "text", "text": str(index)}
                tag = "agent_message_chunk"
                update = {"sessionUpdate": tag, "messageId": "m", "content": content}
                params = {"sessionId": session, "update": update}
                made.append(line({"method": "session/update", "params": params}))
        return made


steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["update", "update", "answer"])),
    min_size=1,
    max_size=20,
)
paces = st.lists(
    st.sampled_from(["sync", "turn", "0.1", "3", "raise", "raise later", "stuck"]),
    min_size=1,
    max_size=20,
)
cuts = st.lists(st.tuples(st.integers(0, 5000), st.sampled_from([0.0, 0.05, 4.0])), max_size=8)


async def take_time(pace: str) -> None:
    if pace == "turn":
        await asyncio.sleep(0)
    elif pace == "stuck":
        await asyncio.Event().wait()
    elif pace == "raise later":
        await asyncio.sleep(0.2)
    else:
        await asyncio.sleep(float(pace))


def paced(
    session: str, pace: dict[int, str], log: list[tuple[str, int]]
) -> Callable[[Any], Awaitable[None] | None]:
    """A handler that takes a time of its own for each update, and notes what it has handled."""

    async def later(index: int) -> None:
        if pace[index] == "stuck":
            log.append((session, index))
        await take_time(pace[index])
        log.append((session, index))
        if pace[index] == "raise later":
            raise ValueError(index)

    def handle(update: Any) -> Awaitable[None] | None:
        index = int(text_of(update) or 0)
        if pace[index] not in ("sync", "raise"):
            return later(index)
        log.append((session, index))
        if pace[index] == "raise":
            raise ValueError(index)
        return None

    return handle


@settings(max_examples=60)
@given(st.sampled_from([1, 2]), steps.map(Stream), paces, cuts)
def test_any_schedule_keeps_order(
    version: Version, stream: Stream, ways: list[str], pieces: list[tuple[int, float]]
) -> None:
    async def main() -> None:
        async with meeting(version, handler_timeout=TIMEOUT) as (client, agent):
            log: list[tuple[str, int]] = []
            pace = stream.paces(ways)
            for name in "ab":
                (await new_session(client, agent, name)).on_update(paced(name, pace, log))

            async def ask(session: str) -> None:
                log.append((session, await client.request("_ask", {"sessionId": session})))

            named = [session for session, what in stream.steps if what == "answer"]
            asking = [asyncio.create_task(ask(session)) for session in named]
            requests = [await agent.receive("_ask") for _ in named]
            await deliver(agent, b"".join(stream.lines(requests)), pieces)
            await asyncio.gather(*asking)
            await asyncio.sleep(TIMEOUT * len(stream.steps) + 100)
            check(stream, log)

    simulate(main())


async def deliver(agent: ScriptedAgent, data: bytes, pieces: list[tuple[int, float]]) -> None:
    begin = 0
    for end, pause in sorted((each % (len(data) + 1), pause) for each, pause in pieces):
        if data[begin:end]:
            agent.transport.deliver(data[begin:end])
        begin = end
        await asyncio.sleep(pause)
    if data[begin:]:
        agent.transport.deliver(data[begin:])


def check(stream: Stream, log: list[tuple[str, int]]) -> None:
    """Each session's updates in order; each answer after all of them that came before it."""
    for session in "ab":
        seen = [index for name, index in log if name == session]
        mine = [index for index, (name, _) in enumerate(stream.steps) if name == session]
        updates = [index for index in seen if stream.steps[index][1] == "update"]
        assert sorted(seen) == mine
        assert updates == sorted(updates)
        for index in mine:
            if stream.steps[index][1] == "answer":
                before = seen[: seen.index(index)]
                assert {each for each in updates if each < index} <= set(before)


# ---- Twofold on both ends


def talkative(count: int, text: str = "{} ") -> twofold.Agent:
    agent = twofold.Agent("talkative", on_problem=lambda problem: None)

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        for index in range(count):
            await turn.say(text.format(index))

    return agent


class Pair:
    """A client and an agent of Twofold, in one process."""

    def __init__(self, agent: twofold.Agent, version: Version, **options: Any) -> None:
        self.problems: list[twofold.Problem] = []
        ours, theirs = twofold.memory_pair()
        self._serving = asyncio.create_task(agent.serve(theirs))
        self._connecting = twofold.connect(
            ours, version=version, on_problem=self.problems.append, **options
        )

    async def __aenter__(self) -> twofold.Client:
        return await self._connecting.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._connecting.__aexit__(None, None, None)
        await self._serving


@BOTH
@pytest.mark.parametrize("way", ["sync", "a turn", "slow"])
@leaves_nothing
async def test_a_turn_of_our_own_agent_is_received_in_order(version: Version, way: str) -> None:
    async with Pair(talkative(30), version, handler_timeout=TIMEOUT) as client:
        sessions = [await client.new_session() for _ in range(2)]
        watching = [Watching(session, way) for session in sessions]
        replies = await asyncio.gather(*(session.prompt("go") for session in sessions))
        expected = [f"{index} " for index in range(30)]
        assert [each.texts for each in watching] == [expected, expected]
        assert [reply.text for reply in replies] == ["".join(expected)] * 2


@BOTH
@leaves_nothing
async def test_a_slow_handler_slows_the_agent_down_and_loses_nothing(version: Version) -> None:
    count, size = 6000, 1000
    sent = 0
    agent = twofold.Agent("talkative")

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        nonlocal sent
        for sent in range(count):
            await turn.say(f"{sent:<{size}}")

    pair = Pair(agent, version, handler_timeout=TIMEOUT)
    async with pair as client:
        session = await client.new_session()
        lag, texts = [0], []

        @session.on_update
        async def slow(update: Any) -> None:
            text = text_of(update)
            if text is not None:
                await asyncio.sleep(0.01)
                texts.append(int(text))
                lag.append(sent - len(texts))

        await session.prompt("go")
        assert texts == list(range(count))
        assert max(lag) * size < 3 * LIMIT  # and not the whole of it
    assert pair.problems == []
