"""Callers that wait until a queued prompt was sent: each gets the message, or why there is none."""

import asyncio
from typing import Any

import pytest

from tests.support.hosted import hosting
from tests.support.idle_clock import simulated
from tests.support.raw_agent import RUNNING, echo
from twofold.errors import ConnectionEnded
from twofold.host.sent_prompts import NotSent, SentPrompts
from twofold.rpc.errors import RequestFailed

both = pytest.mark.parametrize("version", [1, 2])


@simulated
@both
async def test_a_prompt_is_reported_with_its_message_while_the_turn_goes_on(version: int) -> None:
    async with hosting(version) as stage:
        sent = stage.hosted.when_sent(stage.hosted.prompt(["hello"], "Anna"))
        prompt = await stage.begin()
        assert await sent in ("u1", "v1:user:1")
        assert stage.hosted.state == "running"
        stage.finish(prompt)
        await stage.idle()


@simulated
async def test_a_message_that_the_agent_repeats_is_enough() -> None:
    async with hosting(2) as stage:
        sent = stage.hosted.when_sent(stage.hosted.prompt(["hello"], "Anna"))
        prompt = await stage.agent.receive("session/prompt")
        stage.agent.update(RUNNING, echo("hello", "u7"))
        assert await sent == "u7"
        stage.agent.answer(prompt, {})
        stage.finish(prompt)
        await stage.idle()


@simulated
async def test_an_agent_that_names_no_message_ends_the_wait_with_its_turn() -> None:
    async with hosting(2) as stage:
        sent = stage.hosted.when_sent(stage.hosted.prompt(["hello"], "Anna"))
        prompt = await stage.agent.receive("session/prompt")
        stage.agent.answer(prompt, {})
        stage.agent.update(RUNNING)
        await stage.settled()
        assert not sent.done()
        stage.finish(prompt)
        assert await sent == ""


async def reason(sent: "asyncio.Future[str]") -> str:
    with pytest.raises(NotSent) as caught:
        await sent
    return str(caught.value)


@simulated
async def test_prompts_that_are_held_or_removed_are_not_waited_for() -> None:
    async with hosting(2) as stage:
        stage.hosted.prompt(["one"], "Anna")
        prompt = await stage.begin()
        held = stage.hosted.when_sent(stage.hosted.prompt(["two"], "Anna"))
        removed = stage.hosted.prompt(["three"], "Anna")
        gone = stage.hosted.when_sent(removed)
        stage.hosted.remove_queued(removed)
        assert await reason(gone) == "The prompt was removed."
        stage.hosted.cancel("Ben")
        assert "was not sent" in await reason(held)
        stage.finish(prompt, "cancelled")
        await stage.idle()


@simulated
async def test_an_error_of_the_agent_is_raised() -> None:
    async with hosting(2) as stage:
        sent = stage.hosted.when_sent(stage.hosted.prompt(["hello"], "Anna"))
        prompt = await stage.agent.receive("session/prompt")
        stage.agent.refuse(prompt, -32603, "No")
        with pytest.raises(RequestFailed):
            await sent


@simulated
async def test_the_end_of_the_agent_ends_the_wait() -> None:
    async with hosting(2) as stage:
        sent = stage.hosted.when_sent(stage.hosted.prompt(["one"], "Anna"))
        waits = stage.hosted.when_sent(stage.hosted.prompt(["two"], "Anna"))
        await stage.agent.receive("session/prompt")
        await stage.agent.gone()
        with pytest.raises(ConnectionEnded):
            await sent
        assert "was not sent" in await reason(waits)


@simulated
async def test_closing_the_session_ends_the_wait() -> None:
    async with hosting(2, {"initialize": lambda *_: None}, opens=False) as stage:
        sent = stage.hosted.when_sent(stage.hosted.prompt(["one"], "Anna"))
        await stage.hosted.close()
        assert await reason(sent) == "The session was closed."


@simulated
async def test_a_message_is_reported_only_once_all_before_it_is_shown() -> None:
    prompts = SentPrompts()
    sent = prompts.wait("1")
    prompts.inserted("1", "u1")
    prompts.failed("1", NotSent("too late"))
    prompts.check((), None, "held")
    assert not sent.done()
    prompts.report()
    assert await sent == "u1"


@simulated
async def test_a_caller_that_has_left_is_no_problem() -> None:
    prompts = SentPrompts()
    left: list[Any] = [prompts.wait("1"), prompts.wait("2")]
    for each in left:
        each.cancel()
    prompts.inserted("1", "u1")
    prompts.report()
    prompts.close("closed")
    assert all(each.cancelled() for each in left)
