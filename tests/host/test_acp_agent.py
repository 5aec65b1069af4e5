"""The sessions of a host as an ACP agent: what clients of version 2 ask, and what they are sent."""

import asyncio
from typing import Any

import pytest

from tests.support.attached import attaching, folded, shape, until_soon
from tests.support.hosted import Page
from tests.support.idle_clock import simulated
from tests.support.raw_agent import RUNNING, chunk, echo
from twofold.host import acp_agent
from twofold.version import VERSION

both = pytest.mark.parametrize("version", [1, 2])


def texts(client: Any) -> list[str]:
    return [
        each["content"]["text"]
        for each in client.updates(client.session)
        if each["sessionUpdate"] == "agent_message_chunk"
    ]


# ---- initialize, list --------------------------------------------------------------------------


@simulated
async def test_initialize_names_the_host_and_the_role() -> None:
    async with attaching(2) as stage:
        client = await stage.client(name="Zed")
        (answer,) = [each["result"] for each in client.messages]
        assert answer["protocolVersion"] == 2
        assert answer["info"] == {"name": "twofold", "version": VERSION, "title": "Twofold"}
        assert answer["capabilities"]["session"]["delete"] == {}
        assert answer["_meta"]["_twofold"] == {"role": "controller", "name": "Zed"}


@simulated
async def test_only_what_the_agent_accepts_in_prompts_is_advertised() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        prompt = client.messages[0]["result"]["capabilities"]["session"]["prompt"]
        assert prompt == {"image": {}}


@simulated
async def test_two_clients_of_a_name_have_different_names() -> None:
    async with attaching(2) as stage:
        for expected in ("Zed", "Zed 2"):
            client = await stage.client(name="Zed")
            assert client.messages[0]["result"]["_meta"]["_twofold"]["name"] == expected


@simulated
async def test_a_request_before_initialize_is_refused() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        again = await client.refused("initialize", {"protocolVersion": 2, "info": {}})
        assert again["message"] == "Already initialized"
        unknown = await client.refused("tool_call/cancel", {"sessionId": "s", "toolCallId": "c"})
        assert unknown["code"] == -32601


@simulated
async def test_sessions_are_listed_by_directory() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        listed = await client.call("session/list", {})
        (session,) = listed["sessions"]
        assert session["sessionId"] == stage.session
        assert (session["cwd"], session["title"]) == ("/", "New session")
        assert session["updatedAt"].endswith("Z")
        assert session["_meta"]["_twofold"] == {"agent": "scripted", "state": "idle"}
        assert (await client.call("session/list", {"cwd": "/"}))["sessions"]
        assert (await client.call("session/list", {"cwd": "/elsewhere"}))["sessions"] == []


@simulated
async def test_the_id_of_an_unknown_session_is_refused_in_words() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        error = await client.refused("session/resume", {"sessionId": "none", "cwd": "/"})
        assert error["code"] == -32002
        assert "not open here" in error["message"]


# ---- attaching ---------------------------------------------------------------------------------


@simulated
@both
async def test_a_client_that_attaches_is_sent_everything_and_then_what_follows(
    version: int,
) -> None:
    async with attaching(version) as stage:
        stage.hosted.prompt(["hello"], "a page")
        prompt = await stage.stage.begin()
        stage.stage.agent.update(echo("hello") if version == 2 else chunk("One."))
        await stage.stage.settled()
        client = await stage.client()
        await client.attach()
        assert client.story()[-1] == "result"
        stage.stage.agent.update(chunk("Two."))
        stage.stage.finish(prompt)
        await stage.stage.idle()
        assert shape(folded(client)) == shape(stage.hosted.live.session)


@simulated
async def test_a_client_that_wants_no_replay_is_sent_the_state_only() -> None:
    async with attaching(2) as stage:
        stage.hosted.prompt(["hello"], "a page")
        await stage.stage.begin()
        stage.stage.agent.update(chunk("One."))
        await stage.stage.settled()
        client = await stage.client()
        client.mark()
        await client.attach(replay=False)
        assert client.story() == ["running", "result"]


@simulated
async def test_updates_during_a_replay_follow_it() -> None:
    async with attaching(2) as stage:
        stage.stage.agent.update(*[chunk("x" * 1000, f"m{number}") for number in range(200)])
        await stage.stage.settled()
        client = await stage.client()
        client.reads = False
        attaching_ = client.load(stage.session)
        await stage.stage.drained()
        stage.stage.agent.update(chunk("late", "m0"))
        await stage.stage.drained()
        client.read_on()
        client.reads = True
        await client.reply(attaching_)
        await stage.stage.settled()
        assert shape(folded(client)) == shape(stage.hosted.live.session)


@simulated
async def test_an_update_is_encoded_once_for_all_clients() -> None:
    async with attaching(2) as stage:
        clients = [await stage.client(name=f"C{number}") for number in range(5)]
        for client in clients:
            await client.attach()
        feed = stage.agents.feed(stage.hosted)
        before = feed.encodings
        stage.stage.agent.update(*[chunk("x") for _ in range(100)])
        await stage.stage.settled()
        assert feed.encodings - before == 100
        assert all(texts(client) == ["x"] * 100 for client in clients)


@simulated
async def test_a_client_that_closes_a_session_is_sent_nothing_more_of_it() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        closed = await client.call("session/close", {"sessionId": stage.session})
        assert closed["_meta"]["_twofold"] == {"ended": False}
        client.mark()
        stage.stage.agent.update(chunk("x"))
        await stage.stage.settled()
        assert client.story() == []
        assert stage.hosted.state == "idle"
        error = await client.refused(
            "session/prompt",
            {"sessionId": stage.session, "prompt": [{"type": "text", "text": "x"}]},
        )
        assert error["message"] == "This session is not open in this client. Resume it first."


@simulated
async def test_close_ends_the_session_only_if_it_is_asked_to_and_nobody_else_has_it() -> None:
    async with attaching(2) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        await anna.attach()
        await ben.attach()
        ends = {"sessionId": stage.session, "_meta": {"_twofold.end": True}}
        assert not (await anna.call("session/close", ends))["_meta"]["_twofold"]["ended"]
        assert stage.host.sessions
        page = Page(stage.hosted)
        assert not (await ben.call("session/close", ends))["_meta"]["_twofold"]["ended"]
        page.subscription.cancel()
        await ben.attach()
        assert (await ben.call("session/close", ends))["_meta"]["_twofold"]["ended"]
        assert stage.host.sessions == []


@simulated
async def test_a_session_that_is_closed_elsewhere_says_so() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        await stage.host.close_session(stage.session)
        assert client.notices() == ["The session was closed."]
        error = await client.refused("session/resume", {"sessionId": stage.session, "cwd": "/"})
        assert error["code"] == -32002


# ---- prompts -----------------------------------------------------------------------------------


@simulated
@both
async def test_a_prompt_is_answered_with_its_message_and_shown_to_all(version: int) -> None:
    async with attaching(version) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        await anna.attach()
        await ben.attach()
        asked = anna.say("hello")
        prompt = await stage.stage.agent.receive("session/prompt")
        if version == 2:
            stage.stage.agent.update(echo("hello"))
            stage.stage.agent.answer(prompt, {"messageId": "u1"})
            stage.stage.agent.update(RUNNING)
        message_id = (await anna.reply(asked))["result"]["messageId"]
        stage.stage.agent.update(chunk("Hi."))
        stage.stage.finish(prompt)
        await stage.stage.idle()
        for client in (anna, ben):
            (user,) = [
                each
                for each in client.updates(stage.session)
                if each["sessionUpdate"] == "user_message"
            ]
            assert user["messageId"] == message_id
            assert client.story()[-1] == "idle end_turn"
        assert anna.story().index("user_message") < anna.story().index("result") + 10


@simulated
async def test_prompts_of_two_clients_are_sent_one_after_the_other() -> None:
    async with attaching(2) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        await anna.attach()
        await ben.attach()
        first = anna.say("one")
        prompt = await stage.stage.begin()
        second = ben.say("two")
        await anna.reply(first)
        await stage.stage.settled()
        assert stage.hosted.facts()["queue"][0]["by"] == "Ben"
        assert ben._replies(second) == []
        stage.stage.finish(prompt)
        prompt = await stage.stage.begin()
        await ben.reply(second)
        stage.stage.finish(prompt)
        await stage.stage.idle()
        assert stage.stage.prompts() == ["one", "two"]


@simulated
async def test_a_cancel_answers_prompts_that_wait_and_ends_the_turn() -> None:
    async with attaching(2) as stage:
        anna = await stage.client(name="Anna")
        await anna.attach()
        anna.say("one")
        prompt = await stage.stage.begin()
        waiting = anna.say("two")
        anna.cancel(stage.session)
        error = (await anna.reply(waiting))["error"]
        assert error["code"] == -32800
        assert "was not sent" in error["message"]
        await stage.stage.agent.receive("session/cancel")
        stage.stage.finish(prompt, "cancelled")
        await stage.stage.idle()
        assert stage.hosted.facts()["queue"] == []
        assert anna.story()[-1] == "idle cancelled"


@simulated
async def test_a_prompt_that_the_agent_refuses_is_answered_with_its_error() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        asked = client.say("hello")
        prompt = await stage.stage.agent.receive("session/prompt")
        stage.stage.agent.refuse(prompt, -32000, "Log in first")
        error = (await client.reply(asked))["error"]
        assert (error["code"], error["message"]) == (-32000, "Log in first")


@simulated
async def test_a_prompt_of_a_client_that_is_gone_is_not_sent_later() -> None:
    async with attaching(2) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        await anna.attach()
        await ben.attach()
        anna.say("one")
        prompt = await stage.stage.begin()
        ben.say("two")
        await stage.stage.settled()
        ben.leave()
        await ben.serving
        stage.stage.finish(prompt)
        await stage.stage.idle()
        await stage.stage.settled()
        assert stage.stage.prompts() == ["one"]
        assert stage.hosted.facts()["queue"] == []


@simulated
async def test_a_prompt_starts_an_agent_again_that_has_ended() -> None:
    async with attaching(2) as stage:
        client = await stage.client()
        await client.attach()
        await stage.stage.agent.gone()
        await stage.stage.state("failed")
        await until_soon(client.notices)
        assert "closed the connection" in client.notices()[0]
        asked = client.say("hello")
        await until_soon(lambda: len(stage.stage.agents) == 2)
        prompt = await stage.stage.begin()
        assert "result" in await client.reply(asked)
        stage.stage.finish(prompt)
        await stage.stage.idle()


# ---- settings ----------------------------------------------------------------------------------

OPTION = {
    "type": "select",
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}
MODES = {"sessionId": "s", "configOptions": [OPTION]}


@simulated
async def test_a_setting_is_set_and_shown_to_all() -> None:
    def set_mode(agent: Any, message: Any) -> None:
        options = [{**OPTION, "currentValue": message["params"]["value"]}]
        agent.answer(message, {"configOptions": options})

    answers = {"session/new": MODES, "session/set_config_option": set_mode}
    async with attaching(2, answers) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        attached = await anna.attach()
        assert attached["result"]["configOptions"][0]["currentValue"] == "ask"
        await ben.attach()
        params = {"sessionId": stage.session, "configId": "mode", "type": "id", "value": "code"}
        answer = await anna.call("session/set_config_option", params)
        assert answer["configOptions"][0]["currentValue"] == "code"
        await stage.stage.settled()
        assert ben.shown()[-1] == "config_option_update"
        error = await anna.refused("session/set_config_option", {**params, "value": "none"})
        assert error["message"] == "This setting has no such value any more."
        error = await anna.refused("session/set_config_option", {**params, "configId": "none"})
        assert error["message"] == "The session has no such setting."


# ---- observers ---------------------------------------------------------------------------------


@simulated
async def test_an_observer_sees_everything_and_changes_nothing() -> None:
    async with attaching(2) as stage:
        client = await stage.client(controls=False)
        assert client.messages[0]["result"]["_meta"]["_twofold"]["role"] == "observer"
        await client.attach()
        text = [{"type": "text", "text": "x"}]
        identity: Any = {"sessionId": stage.session}
        refused: dict[str, Any] = {
            "session/new": {"cwd": "/"},
            "session/prompt": {**identity, "prompt": text},
            "session/delete": identity,
            "session/close": {**identity, "_meta": {"_twofold.end": True}},
            "session/set_config_option": {
                **identity,
                "configId": "m",
                "type": "id",
                "value": "v",
            },
        }
        for method, params in refused.items():
            error = await client.refused(method, params)
            assert error == {"code": -32001, "message": "You may look, and change nothing."}, method
        stage.hosted.prompt(["hello"], "a page")
        await stage.stage.begin()
        answer = stage.stage.ask()
        await stage.stage.asked()
        client.cancel(stage.session)
        stage.stage.agent.update(chunk("Hi."))
        await stage.stage.settled()
        assert texts(client) == ["Hi."]
        assert "session/request_permission" not in client.story()
        assert stage.hosted.state == "waiting"
        assert not answer.done()


# ---- what has to be kept first -----------------------------------------------------------------


class SlowLog:
    """A log that keeps what it is given when a test lets it."""

    keeps = True

    def __init__(self) -> None:
        self.may_keep = asyncio.Event()
        self.may_keep.set()

    def put(self, kind: str, body: bytes, text: str = "") -> None:
        """Write an event."""

    async def kept(self) -> None:
        await self.may_keep.wait()


@simulated
@both
async def test_nothing_is_shown_to_a_client_before_it_is_kept(version: int) -> None:
    log = SlowLog()
    async with attaching(version, log=log) as stage:
        anna, ben = await stage.client(name="Anna"), await stage.client(name="Ben")
        await anna.attach()
        await ben.attach()
        anna.mark()
        asked = anna.say("hello")
        prompt = await stage.stage.agent.receive("session/prompt")
        log.may_keep.clear()
        if version == 2:
            stage.stage.agent.update(RUNNING, echo("hello"))
            stage.stage.agent.answer(prompt, {"messageId": "u1"})
        stage.stage.agent.update(chunk("Hi."))
        stage.stage.finish(prompt)
        late = await stage.client(name="late")
        attaching_late = late.load(stage.session)
        await asyncio.sleep(5)
        if version == 2:
            assert anna.story() == []
            assert anna._replies(asked) == []
        assert late._replies(attaching_late) == []
        assert "idle end_turn" not in anna.story()
        log.may_keep.set()
        await anna.reply(asked)
        await late.reply(attaching_late)
        await stage.stage.idle()
        for client in (anna, ben, late):
            assert shape(folded(client)) == shape(stage.hosted.live.session)


# ---- clients that do not read ------------------------------------------------------------------


@simulated
@both
async def test_a_client_that_does_not_read_is_disconnected_and_may_come_back(
    version: int,
) -> None:
    async with attaching(2) as stage:
        client = await stage.client(version)  # type: ignore[arg-type]
        await client.attach()
        client.reads = False
        stage.stage.agent.update(*[chunk("x" * 300_000) for _ in range(4)])
        await stage.stage.drained()
        stage.stage.agent.update(*[chunk("x" * 300_000) for _ in range(4)])
        await asyncio.sleep(61)
        assert client.serving.done()
        assert stage.agents.clients == set()
        again = await stage.client()
        await again.attach()
        assert shape(folded(again)) == shape(stage.hosted.live.session)


@simulated
async def test_a_client_that_does_not_read_holds_a_bounded_amount(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acp_agent, "MOST_UNREAD", 1 << 20)
    async with attaching(2) as stage:
        client, other = await stage.client(), await stage.client(name="Ben")
        await client.attach()
        await other.attach()
        client.reads = False
        for number in range(20):
            assert client.serving.done() == (number > 10)
            stage.stage.agent.update(chunk("x" * 100_000, f"m{number}"))
            await stage.stage.drained()
        assert not other.serving.done()
        assert len(texts(other)) == 20


@simulated
async def test_a_thousand_clients_that_come_and_go_start_no_agent() -> None:
    async with attaching(2) as stage:
        for _ in range(1000):
            client = await stage.client()
            await client.attach(replay=False)
            client.leave()
            await client.serving
        assert len(stage.stage.launches) == 1
