"""`session.stream`: the text of a reply as it is received, the same that `session.prompt` gives."""

import asyncio
import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twofold
from tests.support.idle_clock import SimulatedLoop, simulated, until, within
from tests.support.raw_agent import (
    CANCELLED,
    IDLE,
    RUNNING,
    begin,
    call,
    chunk,
    finish,
    in_session,
)

both = pytest.mark.parametrize("version", [1, 2])


async def read(stream: twofold.ReplyStream, pieces: list[str]) -> None:
    async for piece in stream:
        pieces += [piece]


@both
@simulated
async def test_pieces_are_read_as_they_arrive_and_then_the_reply(version: int) -> None:
    async with in_session(version) as (session, agent):
        stream, pieces = session.stream("hello"), list[str]()
        reading = asyncio.create_task(read(stream, pieces))
        prompt = await begin(version, agent)
        for text in ("one ", "two ", "three"):
            agent.update(chunk(text))
            await until(lambda: pieces[-1:] == [text])  # noqa: B023  # awaited here
        with pytest.raises(twofold.LocalError, match="no reply yet"):
            _ = stream.reply
        finish(version, agent, prompt)
        await reading
        assert pieces == ["one ", "two ", "three"]
        assert (stream.reply.text, stream.reply.stop_reason) == ("one two three", "end_turn")


@simulated
async def test_a_stream_has_nothing_of_the_work_that_its_prompt_is_held_back_for() -> None:
    async with in_session(2) as (session, agent):
        agent.update(RUNNING)
        await until(lambda: session.state.state == "running")
        stream, pieces = session.stream("hello"), list[str]()
        reading = asyncio.create_task(read(stream, pieces))
        prompt = await agent.receive("session/prompt")
        agent.update(chunk("other", "m1"))
        await asyncio.sleep(1)
        agent.update(IDLE)
        agent.answer(prompt, {"messageId": "u1"})
        agent.update(RUNNING, chunk("own", "m2"), IDLE)
        await reading
        assert pieces == ["own"]
        assert stream.reply.text == "own"


TEXTS = st.lists(
    st.tuples(
        st.sampled_from(["chunk", "thought", "call", "whole", "user"]),
        st.sampled_from(["m1", "m1", "m1", "m2"]),
        st.text("ab \n", max_size=3),
        st.sampled_from([0.0, 0.0, 0.1, 1.0]),
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(st.sampled_from([1, 2]), TEXTS, st.sampled_from([0.0, 0.25]))
def test_the_pieces_joined_are_the_text_of_the_reply(
    version: int, steps: list[tuple[str, str, str, float]], lag: float
) -> None:
    """Whatever else is sent, and however slowly they are read."""

    async def scenario() -> None:
        async with in_session(version) as (session, agent):
            stream, pieces = session.stream("hello"), list[str]()

            async def slowly() -> None:
                async for piece in stream:
                    pieces.append(piece)
                    await asyncio.sleep(lag)

            reading = asyncio.create_task(slowly())
            prompt = await begin(version, agent)
            sent, number = dict[str, str](), 0
            for kind, message_id, text, pause in steps:
                # a message does not go on after another has begun: then its place is not the end
                number += message_id == "m2"
                name = f"{message_id}:{number}"
                if kind == "chunk":
                    sent[name] = sent.get(name, "") + text
                    agent.update(chunk(text, name))
                elif kind == "thought":
                    agent.update({**chunk(text, "t"), "sessionUpdate": "agent_thought_chunk"})
                elif kind == "whole" and version == 2:
                    sent[name] = sent.get(name, "") + text
                    content = [{"type": "text", "text": sent[name]}]
                    whole = {"sessionUpdate": "agent_message", "messageId": name}
                    agent.update({**whole, "content": content})
                elif kind == "user":
                    agent.update(chunk(text, "u9", "user"))
                elif kind == "call":
                    agent.update({**call(f"t{number}"), "title": "x"})
                await asyncio.sleep(pause)
            finish(version, agent, prompt)
            await reading
            assert "".join(pieces) == stream.reply.text

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())


@simulated
async def test_a_message_that_is_rewritten_is_not_read_twice() -> None:
    async with in_session(2) as (session, agent):
        stream, pieces = session.stream("hello"), list[str]()
        reading = asyncio.create_task(read(stream, pieces))
        prompt = await begin(2, agent)
        agent.update(chunk("a draft"))
        await until(lambda: pieces)
        content = [{"type": "text", "text": "the text"}]
        agent.update({"sessionUpdate": "agent_message", "messageId": "m1", "content": content})
        agent.update(chunk(", and more"))
        finish(2, agent, prompt)
        await reading
        assert pieces[0] == "a draft"
        assert "the text" not in "".join(pieces)
        assert stream.reply.text == "the text, and more"


@simulated
async def test_text_of_work_that_went_on_before_is_not_read() -> None:
    async with in_session(2) as (session, agent):
        agent.update(RUNNING, chunk("of before", "m0"))
        await until(lambda: session.state.entries)
        stream, pieces = session.stream("hello"), list[str]()
        reading = asyncio.create_task(read(stream, pieces))
        prompt = await agent.receive("session/prompt")
        agent.update(chunk(" and still", "m0"), chunk("of other work", "m1"), IDLE)
        agent.answer(prompt, {"messageId": "u1"})
        agent.update(RUNNING, chunk("the reply", "m2"), IDLE)
        await reading
        assert pieces == ["the reply"]
        assert stream.reply.text == "the reply"


# ---- leaving early ---------------------------------------------------------------------------


@both
@simulated
async def test_leaving_the_loop_cancels_the_turn(version: int) -> None:
    async with in_session(version) as (session, agent):

        async def first() -> str:
            async for piece in session.stream("hello"):
                return piece
            return ""

        reading = asyncio.create_task(first())
        prompt = await begin(version, agent)
        agent.update(chunk("one "), chunk("two"))
        assert (await reading).startswith("one ")
        gc.collect()
        await within(1, agent.receive("session/cancel"))
        finish(version, agent, prompt, "cancelled")
        await until(lambda: not session.in_turn)


@both
@simulated
async def test_a_block_around_a_stream_waits_until_the_cancelled_turn_has_ended(
    version: int,
) -> None:
    async with in_session(version) as (session, agent):

        async def first() -> None:
            async with session.stream("hello") as stream:
                async for _ in stream:
                    raise ValueError("enough")

        reading = asyncio.create_task(first())
        prompt = await begin(version, agent)
        agent.update(chunk("one "))
        await agent.receive("session/cancel")
        await asyncio.sleep(1)
        assert not reading.done()
        finish(version, agent, prompt, "cancelled")
        with pytest.raises(ValueError, match="enough"):
            await reading
        assert not session.in_turn


@both
@simulated
async def test_cancelling_the_task_that_reads_cancels_the_turn(version: int) -> None:
    async with in_session(version) as (session, agent):
        reading = asyncio.create_task(read(session.stream("hello"), []))
        prompt = await begin(version, agent)
        await asyncio.sleep(1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await within(1, agent.receive("session/cancel"))
        finish(version, agent, prompt, "cancelled")


@simulated
async def test_a_turn_that_someone_cancels_ends_the_stream_with_its_reply() -> None:
    async with in_session(2) as (session, agent):
        stream, pieces = session.stream("hello"), list[str]()
        reading = asyncio.create_task(read(stream, pieces))
        await begin(2, agent)
        agent.update(chunk("one"))
        await until(lambda: pieces)
        cancelling = asyncio.create_task(session.cancel())
        await agent.receive("session/cancel")
        agent.update(CANCELLED)
        await asyncio.gather(reading, cancelling)
        assert stream.reply.stop_reason == "cancelled"


@both
@simulated
async def test_an_agent_that_dies_ends_the_stream_with_an_error(version: int) -> None:
    async with in_session(version) as (session, agent):
        stream, pieces = session.stream("hello"), list[str]()
        reading = asyncio.create_task(read(stream, pieces))
        await begin(version, agent)
        agent.update(chunk("one"))
        await agent.gone()
        with pytest.raises(twofold.ConnectionEnded):
            await reading
        assert pieces == ["one"]
        with pytest.raises(twofold.LocalError):
            _ = stream.reply


@simulated
async def test_a_failed_turn_raises_after_its_text() -> None:
    async with in_session(1) as (session, agent):
        pieces: list[str] = []
        reading = asyncio.create_task(read(session.stream("hello"), pieces))
        prompt = await begin(1, agent)
        agent.update(chunk("one"))
        agent.refuse(prompt, -32603, "out of order")
        with pytest.raises(twofold.TurnFailed, match="out of order"):
            await reading
        assert pieces == ["one"]


# ---- what is refused -------------------------------------------------------------------------


@simulated
async def test_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    async with in_session(2, {"session/close": {}}) as (session, agent):
        with pytest.raises(twofold.LocalError, match="needs some content"):
            session.stream("")
        with pytest.raises(twofold.LocalError, match="not of int"):
            session.stream(1)  # type: ignore[arg-type]
        stream = session.stream("hello")
        await session.close()
        with pytest.raises(twofold.LocalError, match="is closed"):
            session.stream("hello")
        with pytest.raises(twofold.LocalError, match="is closed"):
            await read(stream, [])
        assert "session/prompt" not in agent.methods()


@simulated
async def test_a_handler_cannot_read_a_stream_of_its_own_session() -> None:
    async with in_session(2) as (session, agent):
        stream = session.stream("hello")
        refused: list[Exception] = []

        async def handler(update: twofold.v2.SessionUpdate) -> None:
            await asyncio.sleep(0)
            try:
                await read(stream, [])
            except twofold.LocalError as error:
                refused.append(error)

        session.on_update(handler)
        agent.update(chunk("a"))
        await until(lambda: refused)
        assert "prompt in a task of its own" in str(refused[0])


@simulated
async def test_a_stream_is_read_once() -> None:
    async with in_session(2) as (session, agent):
        stream = session.stream("hello")
        await stream.close()
        reading = asyncio.create_task(read(stream, []))
        finish(2, agent, await begin(2, agent))
        await reading
        with pytest.raises(twofold.LocalError, match="read once"):
            await read(stream, [])
        await stream.close()
