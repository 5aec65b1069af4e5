"""Everything that a peer can fill has a limit, and a request beyond it is refused."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.client.test_permissions import at_table, later
from tests.client.test_terminals import desk
from tests.session.test_laws import opcodes
from tests.support.bridge_stage import RecordingSide, Stage
from tests.support.down_talk import Talk
from tests.support.idle_clock import simulated, until
from tests.support.raw_agent import IDLE, Problems, talk
from tests.support.raw_client import Ids, an_agent, settled, talking
from tests.support.real_time import in_real_time
from tests.support.sessions import fold
from twofold.agent import connection
from twofold.agent.store import MemoryStore
from twofold.bridge import exchange
from twofold.client import client, incoming, permissions, terminals
from twofold.wire import v2

Json = dict[str, Any]
MIB = 1024 * 1024


# ---- the length of a line


def long_request(identity: Any, size: int) -> bytes:
    params = {"filler": "x" * size}
    request = {"jsonrpc": "2.0", "id": identity, "method": "_x/echo", "params": params}
    return json.dumps(request).encode() + b"\n"


@in_real_time
async def test_an_agent_has_a_limit_for_lines_and_refuses_what_is_longer() -> None:
    agent, problems = an_agent(line_limit=10_000)
    async with talking(agent, 2) as client:
        client.raw(long_request(77, 20_000))
        error = (await client.reply(77))["error"]
        assert error["code"] == -32600
        assert "the limit is 10000" in error["data"]["reason"]
        assert [each.kind for each in problems] == ["noise"]


@pytest.mark.parametrize("command", [["agent"], ["bridge", "--", sys.executable, "-m", "twofold"]])
def test_the_commands_have_an_option_for_the_length_of_lines(command: list[str]) -> None:
    tail = ["agent"] if "--" in command else []
    words = [sys.executable, "-m", "twofold", command[0], "--line-limit", "1", *command[1:], *tail]
    done = subprocess.run(
        words, input=long_request(5, 2 * MIB), capture_output=True, timeout=60, check=False
    )
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert answer["id"] == 5
    assert f"the limit is {MIB}" in answer["error"]["data"]["reason"]


# ---- questions


def refused(answer: Json) -> str:
    """The reason of a refusal that names a limit."""
    error = answer["error"]
    assert error["code"] == -32600
    assert error["message"].startswith("Too many")
    return str(error["data"]["reason"])


@simulated
async def test_permission_requests_beyond_the_limit_of_a_session_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permissions, "PENDING", 3)
    problems = Problems()
    async with at_table(2, ask=later, problems=problems) as table:
        asked = [table.ask(f"t{n}") for n in range(6)]
        await table.pending(3)
        for each in asked[3:]:
            assert "the limit is 3: wait for answers" in refused(await each)
        await table.session.cancel()
        assert [await table.outcome(each) for each in asked[:3]] == ["cancelled"] * 3
        assert len(table.session.decisions) == 3
    assert len(problems.of("limit")) == 1


@simulated
async def test_permission_requests_beyond_the_limit_of_a_connection_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permissions, "PENDING_IN_ALL", 2)
    async with at_table(2, ask=later, problems=Problems()) as table:
        asked = [table.ask(f"t{n}") for n in range(3)]
        assert "the limit is 2" in refused(await asked[2])
        await table.session.cancel()


@simulated
async def test_after_too_many_decisions_requests_are_refused_and_never_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permissions, "DECIDED", 2)
    async with at_table(2, policy=twofold.Policy((), "allow"), problems=Problems()) as table:
        for n in range(2):
            assert await table.outcome(table.ask(f"t{n}")) == "allow_once"
        for n in range(2, 4):
            assert "go on in a new session" in refused(await table.ask(f"t{n}"))


@simulated
async def test_one_id_asked_again_and_again_costs_the_same_each_time() -> None:
    """Finding a free name does not try the names of earlier requests again."""
    async with at_table(2, ask=later) as table:
        asked = [table.ask(f"t{n}", request_id="same") for n in range(300)]
        await table.pending(300)
        names = [str(each) for each in table.session.state.permissions]
        assert max(map(len, names)) < 40
        assert table.session._opened.permissions._again == 299
        await table.session.cancel()
        for each in asked:
            each.cancel()


# ---- sessions


@simulated
async def test_a_session_id_that_is_too_long_is_not_kept() -> None:
    problems = Problems()
    async with talk(2, problems=problems) as (talking_to, agent):
        for n in range(3):
            agent.update(IDLE, session_id=f"{n}" + "x" * incoming.LONGEST)
        await until(lambda: len(problems.of("limit")) == 3)
        assert talking_to._incoming._unclaimed._gone == {}


@in_real_time
async def test_a_client_that_opens_too_many_sessions_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "OPEN", 2)
    agent, _ = an_agent()
    async with talking(agent, 2) as client:
        first = await client.new_session()
        await client.new_session()
        params = {"cwd": "/", "mcpServers": []}
        reason = refused({"error": await client.refused("session/new", params)})
        assert "close one before you open another" in reason
        await client.call("session/close", {"sessionId": first})
        await client.new_session()
        assert "the limit is 2" in refused(await client.reply(client.load(first)))


def test_sessions_in_memory_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    store, ids = MemoryStore(limit=3), Ids()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            store.create(v2.SessionInfo(ids(), "/"))
    assert {info.session_id for info in store.list()} == {"s3", "s4", "s5"}
    assert store.load("s") is None
    assert "More than 3 sessions" in caplog.text


@simulated
async def test_a_list_of_sessions_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGES", 5)
    problems = Problems()
    async with talk(1, problems=problems) as (talking_to, agent):
        listing = asyncio.create_task(_all(talking_to))
        for n in range(5):
            asked = await agent.receive("session/list")
            info = {"sessionId": f"s{n}", "cwd": "/"}
            agent.answer(asked, {"sessions": [info], "nextCursor": f"c{n}"})
        assert len(await listing) == 5
        assert len(problems.of("limit")) == 1


async def _all(client: twofold.Client) -> list[Any]:
    return [info async for info in client.list_sessions()]


# ---- notifications and terminals


@in_real_time
async def test_notifications_that_pile_up_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "NOTIFIED", 3)
    agent, problems = an_agent()
    handled = []

    @agent.on_notification("_x/slow")
    async def slow(params: Any) -> None:
        handled.append(params)
        await asyncio.Event().wait()

    async with talking(agent, 2) as client:
        for n in range(5):
            client.notify("_x/slow", {"n": n})
        await settled()
        assert handled == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert [problem.kind for problem in problems] == ["limit", "limit"]


@in_real_time
async def test_the_output_of_released_terminals_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminals, "RELEASED", 40_000)
    monkeypatch.setattr(terminals, "RELEASED_EACH", 10_000)
    async with desk(tmp_path) as at:
        ids = []
        for _ in range(8):
            terminal = await at.sh("yes | head -c 30000")
            await at.wait(terminal)
            at.release(terminal)
            ids.append(terminal)
        session = fold(at.view.updates)
        kept = [bytes(session.terminals[each].output) for each in ids]
        assert sum(map(len, kept)) < 40_000
        assert len(kept[-1]) == 10_000
        assert kept[0] == b"(10000 bytes of output were dropped to save memory)\n"


@in_real_time
async def test_terminals_share_what_they_may_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminals, "KEPT", 100_000)
    monkeypatch.setattr(terminals, "LEAST", 1_000)
    async with desk(tmp_path) as at:
        outputs = []
        for _ in range(4):
            terminal = await at.sh("yes | head -c 90000", output_byte_limit=60_000)
            await at.wait(terminal)
            outputs.append(len(at.output(terminal).output))
        assert outputs == [60_000, 40_000, 1_000, 1_000]


# ---- a bridge


def test_requests_across_a_bridge_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PENDING", 2)
    stage = Stage()
    asked = [stage.client.ask("_x/ask") for _ in range(3)]
    assert "the limit is 2" in refused({"error": stage.client.error(asked[2])})
    for each in stage.agent.asked("_x/ask"):
        stage.agent.answer(each["id"], {})
    assert stage.client.result(asked[0]) == stage.client.result(asked[1]) == {}
    stage.client.ask("_x/ask")
    assert len(stage.agent.asked("_x/ask")) == 3


@pytest.mark.parametrize("version", [1, 2])
def test_sessions_that_an_agent_makes_up_across_a_bridge_have_a_bound(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SESSIONS", 2)
    stage: Stage | Talk = Stage() if version == 1 else Talk()
    for n in range(4):
        content = {"type": "text", "text": "x"}
        update = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
        stage.update(update, session=f"s{n}")
    sessions = stage.up.sessions if isinstance(stage, Stage) else stage.down.sessions
    assert len(sessions) == 2
    assert [problem.kind for problem in stage.problems] == ["update", "update"]
    for problem in stage.problems:
        assert "more than 2 sessions are open" in str(problem)


# ---- messages


def test_a_list_of_nothing_but_malformed_items_is_malformed_itself() -> None:
    faults: list[Any] = []
    message = {"sessionUpdate": "agent_message", "messageId": "m", "content": [{}] * 50_000}
    update = twofold.v2.decode_update(json.dumps(message).encode(), faults)
    assert update == v2.AgentMessage("m")
    assert len(faults) <= 1001
    assert "more than 1000 malformed items" in faults[-1].reason


# ---- one of many requests


def test_a_bridge_finds_a_request_that_is_withdrawn_at_the_same_cost_among_any_number() -> None:
    def work(count: int) -> int:
        side = exchange.Endpoint(RecordingSide("agent"))
        for number in range(count):
            side.request("_x", None, f"asked {number}", lambda answer: None)
        return opcodes(lambda: side.id_of(f"asked {count - 1}"))

    assert work(1000) == work(10)


def test_a_bridge_keeps_nothing_of_requests_that_are_over() -> None:
    side = exchange.Endpoint(RecordingSide("agent"))
    answered, withdrawn, disowned = (
        side.request("_x", None, asker, lambda answer: None) for asker in "abc"
    )
    assert [side.id_of(asker) for asker in "abc"] == [answered, withdrawn, disowned]
    side.take(answered)
    side.drop(withdrawn)
    side.detach(disowned)
    assert [side.id_of(asker) for asker in "abc"] == [None, None, None]
    assert ([each.request_id for each in side.pending], side._by_origin) == ([disowned], {})
