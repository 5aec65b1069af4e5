"""What a user of the client sees in completion is what the guide to writing a client documents."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.support.idle_clock import simulated, until
from tests.support.raw_agent import Problems, chunk, in_session, talk
from twofold.session.changes import Change

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
CLASSES = (
    *(twofold.Client, twofold.ClientSession, twofold.Question, twofold.Reply),
    *(twofold.ReplyStream, twofold.SessionList, twofold.AgentDescription),
    *(twofold.Subscription, twofold.ChangeSubscription, twofold.ChangeFeed),
)

shown = pytest.mark.parametrize("shown", CLASSES, ids=lambda each: each.__name__)


def public(shown: type) -> list[str]:
    return [name for name in dir(shown) if not name.startswith("_")]


def documented(shown: type) -> list[str]:
    """The names in the table of a class, below its heading in "Everything there is"."""
    page = PAGE.read_text(encoding="utf-8")
    match = re.search(rf"^### `{shown.__name__}`\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
    assert match is not None, f"{shown.__name__} has no heading"
    return re.findall(r"^\| `(\w+)", match[1], re.MULTILINE)


@shown
def test_completion_shows_what_is_documented_and_nothing_else(shown: type) -> None:
    assert sorted(documented(shown)) == public(shown)


@shown
def test_an_object_shows_no_more_than_its_class(shown: type) -> None:
    source = inspect.getsource(shown)
    assert re.findall(r"^        self\.([a-z]\w*)[^=\n(]* = ", source, re.MULTILINE) == []


@shown
def test_every_method_and_property_has_a_docstring(shown: type) -> None:
    for name in public(shown):
        member = inspect.getattr_static(shown, name)
        if inspect.isfunction(member) or isinstance(member, property):
            assert inspect.getdoc(member), name


# ---- blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@simulated
async def test_a_session_is_closed_when_its_block_is_left(version: int) -> None:
    async with talk(version, {"session/close": {}}) as (client, agent):
        async with await client.new_session("/work") as session:
            assert client.sessions == {"s": session}
        assert session.closed
        assert client.sessions == {}
        assert agent.methods()[-1] == "session/close"


@simulated
async def test_an_error_in_the_block_is_raised_even_if_closing_fails() -> None:
    problems = Problems()
    refuse = {"session/close": lambda agent, message: agent.refuse(message, -32603, "no")}
    async with talk(2, refuse, problems=problems) as (client, _):
        with pytest.raises(ValueError, match="mine"):
            async with await client.new_session("/work") as session:
                raise ValueError("mine")
        assert session.closed
        with pytest.raises(twofold.RequestFailed, match="no"):
            async with await client.new_session("/work"):
                pass
    assert len(problems.of("answer")) == 1


# ---- subscriptions ---------------------------------------------------------------------------


@simulated
async def test_a_handler_that_was_cancelled_gets_no_more_updates() -> None:
    async with in_session(2) as (session, agent):
        first, second, once = list[object](), list[object](), list[object]()

        def only_once(update: object) -> None:
            once.append(update)
            leaving.cancel()

        subscription = session.on_update(first.append)
        leaving = session.on_update(only_once)
        session.on_update(second.append)
        agent.update(chunk("a"))
        await until(lambda: second)
        subscription.cancel()
        subscription.cancel()
        agent.update(chunk("b"))
        await until(lambda: len(second) == 2)
        assert (len(first), len(once)) == (1, 1)


@simulated
async def test_a_handler_that_is_registered_twice_is_cancelled_once() -> None:
    async with in_session(2) as (session, agent):
        seen: list[object] = []
        handler = seen.append
        session.on_update(handler)
        session.on_update(handler).cancel()
        agent.update(chunk("a"))
        await until(lambda: seen)
        await asyncio.sleep(1)
        assert len(seen) == 1


@simulated
async def test_a_view_can_ask_for_a_frame_and_shares_the_rate_with_changes() -> None:
    async with in_session(2) as (session, agent):
        times: list[float] = []
        calls: list[list[Change]] = []

        def draw(changes: list[Change]) -> None:
            times.append(asyncio.get_running_loop().time())
            calls.append(changes)

        view = session.on_change(draw, 1)
        view.soon()
        view.soon()
        await asyncio.sleep(0.5)
        assert calls == [[]]
        agent.update(chunk("a"))
        view.soon()
        await asyncio.sleep(2)
        assert len(calls) == 2
        assert calls[1] != []
        assert times[1] - times[0] == pytest.approx(1)
        view.soon()
        view.flush()
        assert len(calls) == 3
        view.soon()
        view.cancel()
        await asyncio.sleep(5)
        assert len(calls) == 3


@simulated
async def test_questions_are_shown_before_they_are_decided_until_it_is_cancelled() -> None:
    async with in_session(2) as (session, agent):
        asked: list[str] = []

        def note(request_id: int | str, question: twofold.Question) -> None:
            assert request_id in session.state.permissions
            asked.append(question.request.title)

        subscription = session.on_question(note)
        options = [{"optionId": "n", "name": "No", "kind": "reject_once"}]
        request = {"sessionId": "s", "title": "One?", "options": options}
        await agent.ask("session/request_permission", request)
        subscription.cancel()
        await agent.ask("session/request_permission", {**request, "title": "Two?"})
        assert asked == ["One?"]
        assert len(session.decisions) == 2


# ---- arguments -------------------------------------------------------------------------------


@simulated
async def test_wrong_arguments_are_refused_at_once() -> None:
    async with talk(2) as (client, agent):
        session = await client.new_session("/work")
        sent = len(agent.messages)
        subscribing: list[Any] = [session.on_update, session.on_change, session.on_question]
        for subscribe in subscribing:
            with pytest.raises(TypeError, match="A callback is a function"):
                subscribe("handler")
        with pytest.raises(ValueError, match="give_up"):
            await session.cancel(-1)
        with pytest.raises(TypeError, match="text or a bool"):
            await session.set_config_option("mode", 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a list of paths"):
            await client.new_session("/work", directories="/tmp")
        with pytest.raises(ValueError, match="'fly' is none of new"):
            client.can("fly")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at least 1"):
            client.list_sessions(limit=0)
        assert len(agent.messages) == sent
