"""Who speaks what, and what passes when both sides speak the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.real_time import PATIENCE, in_real_time
from twofold.bridge import Bridge, LossLog
from twofold.peer.problems import Problem
from twofold.transport.base import Receiver
from twofold.transport.process import ProcessEnded

Json = dict[str, Any]
Behaviour = Callable[["FakeAgent", Json], None]

INFO = {"name": "test", "version": "1"}
V1 = {"agentCapabilities": {"loadSession": True}, "agentInfo": INFO, "authMethods": []}
V2 = {"capabilities": {"session": {}}, "info": INFO}
DIED = ProcessEnded(["agent"], exit_code=3, stderr="boom")


def line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def new_session(identity: Any) -> Json:
    return {"id": identity, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}


# ---- both sides, played -----------------------------------------------------------------------


class Hand:
    """One end of a stream; the test is the other."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.paused = False
        self._receiver: Receiver | None = None
        self._changed = asyncio.Event()
        self._ended = False

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._changed.set()

    def write(self, data: bytes) -> None:
        self.written += data
        self._changed.set()

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    async def close(self) -> None:
        self.closed = True
        asyncio.get_running_loop().call_soon(self.end)

    @property
    def receiver(self) -> Receiver:
        assert self._receiver is not None
        return self._receiver

    def deliver(self, *data: bytes | Json) -> None:
        """Send, in one piece."""
        assert not self.paused, "reading is paused"
        self.receiver.received(
            b"".join(each if isinstance(each, bytes) else line(each) for each in data)
        )

    def end(self, error: Exception | None = None) -> None:
        if not self._ended:
            self._ended = True
            self.receiver.ended(error)

    @property
    def messages(self) -> list[Json]:
        return [json.loads(each) for each in self.written.splitlines() if each]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def answer(self, identity: Any) -> Json:
        """The answer to a request."""

        def answers() -> list[Json]:
            found = [each for each in self.messages if "method" not in each]
            return [each for each in found if each["id"] == identity]

        await self.until(lambda: bool(answers()))
        (found,) = answers()
        return found


class FakeAgent(Hand):
    """Answers `initialize` by its behaviour, and sessions by itself."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__()
        self.asked: list[Json] = []
        self._behaviour = behaviour

    def write(self, data: bytes) -> None:
        super().write(data)
        for each in data.splitlines():
            message = json.loads(each)
            if "method" in message:
                self.asked.append(message)
                asyncio.get_running_loop().call_soon(self._read, message)

    def _read(self, message: Json) -> None:
        if self.closed or self._ended:
            return
        if message["method"] == "initialize":
            self._behaviour(self, message)
        elif message["method"] == "session/new":
            self.result(message, {"sessionId": "s"})

    def result(self, request: Json, result: Any) -> None:
        self.deliver({"id": request["id"], "result": result})

    def error(self, request: Json, code: int) -> None:
        self.deliver({"id": request["id"], "error": {"code": code, "message": "no"}})

    @property
    def versions(self) -> list[int]:
        """What it was asked for."""
        inits = [each for each in self.asked if each["method"] == "initialize"]
        return [each["params"]["protocolVersion"] for each in inits]


class Play:
    """A bridge between a client and agents, one after the other."""

    def __init__(self, behaviour: Behaviour, *, restarts: bool = True, **options: Any) -> None:
        self.client = Hand()
        self.agents: list[FakeAgent] = []
        self.problems: list[Problem] = []
        self.lost: list[str] = []
        self._behaviour = behaviour
        options.setdefault("losses", LossLog(first=lambda what, path, why: self.lost.append(path)))
        self.bridge = Bridge(
            self.client,
            self.open if restarts else self._agent(),
            on_problem=self.problems.append,
            **options,
        )

    async def open(self) -> FakeAgent:
        return self._agent()

    def _agent(self) -> FakeAgent:
        self.agents.append(FakeAgent(self._behaviour))
        return self.agents[-1]

    @property
    def agent(self) -> FakeAgent:
        return self.agents[-1]

    async def initialize(self, params: Json) -> Json:
        self.client.deliver({"id": "init", "method": "initialize", "params": params})
        return await self.client.answer("init")


@asynccontextmanager
async def play(behaviour: Behaviour, **options: Any) -> AsyncIterator[Play]:
    stage = Play(behaviour, **options)
    running = asyncio.create_task(stage.bridge.run())
    await stage.client.until(lambda: stage.client._receiver is not None)
    try:
        yield stage
    finally:
        stage.client.end()
        async with asyncio.timeout(PATIENCE):
            await running
        assert all(agent.closed or agent._ended for agent in stage.agents)


# ---- who there is -----------------------------------------------------------------------------

CLIENTS: dict[str, tuple[int, Json]] = {
    "v1": (1, {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": INFO}),
    "v2": (2, {"protocolVersion": 2, "info": INFO, "capabilities": {}}),
    "claims 2, speaks 1": (1, {"protocolVersion": 2, "clientCapabilities": {"terminal": True}}),
    "asks for 0": (1, {"protocolVersion": 0, "clientCapabilities": {}}),
    "asks for 99": (2, {"protocolVersion": 99, "info": INFO}),
    "sends nothing": (1, {}),
    "without info": (2, {"protocolVersion": 2}),
    "2, with the fields of both": (
        2,
        {"protocolVersion": 2, "info": INFO, "capabilities": {}, "clientCapabilities": {}},
    ),
    "1, with the fields of both": (
        1,
        {"protocolVersion": 1, "clientInfo": INFO, "capabilities": {}, "clientCapabilities": {}},
    ),
}


def v1(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": 1, **V1})


def v2(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": 2, **V2})


def version_of(request: Json) -> int:
    return int(request["params"]["protocolVersion"])


def both(agent: FakeAgent, request: Json) -> None:
    (v2 if version_of(request) == 2 else v1)(agent, request)


def echoes(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": version_of(request), **V1})


def repeats_the_number(agent: FakeAgent, request: Json) -> None:
    """As the examples of the official Python SDK do."""
    agent.result(request, {"protocolVersion": version_of(request)})


def has_no_name(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": version_of(request), "info": {}, "capabilities": {}})


def names_null(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": version_of(request), "info": None})


def shows_both(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": version_of(request), **V1, **V2})


def claims_2(agent: FakeAgent, request: Json) -> None:
    agent.result(request, {"protocolVersion": 2, **V1})


def sends_no_number(agent: FakeAgent, request: Json) -> None:
    agent.result(request, V1)


def only_v2(agent: FakeAgent, request: Json) -> None:
    v2(agent, request) if version_of(request) == 2 else agent.error(request, -32022)


def refuses_2(agent: FakeAgent, request: Json) -> None:
    v1(agent, request) if version_of(request) == 1 else agent.error(request, -32602)


def cannot_read_2(agent: FakeAgent, request: Json) -> None:
    v1(agent, request) if version_of(request) == 1 else agent.error({"id": None}, -32700)


def dies_on_2(agent: FakeAgent, request: Json) -> None:
    v1(agent, request) if version_of(request) == 1 else agent.end(DIED)


def dies_on_1(agent: FakeAgent, request: Json) -> None:
    v2(agent, request) if version_of(request) == 2 else agent.end(DIED)


def refuses_a_second(agent: FakeAgent, request: Json) -> None:
    v1(agent, request) if len(agent.versions) == 1 else agent.error(request, -32600)


def dies_of_a_second(agent: FakeAgent, request: Json) -> None:
    v1(agent, request) if len(agent.versions) == 1 else agent.end(DIED)


def answers_later(agent: FakeAgent, request: Json) -> None:
    asyncio.get_running_loop().call_later(0.02, v1, agent, request)


def answers_twice(agent: FakeAgent, request: Json) -> None:
    v1(agent, request)
    v1(agent, request)


def noisy(agent: FakeAgent, request: Json) -> None:
    agent.deliver(b"Starting...\n\n", b"\x1b]0;agent\x07")
    agent.deliver({"id": 4711, "result": {}})
    v1(agent, request)


def never_answers(agent: FakeAgent, request: Json) -> None:
    pass


AGENTS: dict[str, tuple[Behaviour, int | None]] = {
    "v1": (v1, 1),
    "v2": (v2, 2),
    "speaks both": (both, None),
    "echoes any version, speaks 1": (echoes, 1),
    "repeats the number and sends nothing else": (repeats_the_number, 1),
    "repeats the number without a name": (has_no_name, 1),
    "repeats the number, named null": (names_null, 1),
    "shows the fields of both": (shows_both, None),
    "claims 2, speaks 1": (claims_2, 1),
    "sends no number": (sends_no_number, 1),
    "v2 only": (only_v2, 2),
    "refuses 2": (refuses_2, 1),
    "cannot read 2": (cannot_read_2, 1),
    "dies on 2": (dies_on_2, 1),
    "dies on 1": (dies_on_1, 2),
    "refuses a second initialize": (refuses_a_second, 1),
    "dies of a second initialize": (dies_of_a_second, 1),
    "answers later": (answers_later, 1),
    "answers twice": (answers_twice, 1),
    "noisy": (noisy, 1),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("agent", AGENTS)
@in_real_time
async def test_any_client_meets_any_agent(client: str, agent: str) -> None:
    version, params = CLIENTS[client]
    behaviour, speaks = AGENTS[agent]

    async with play(behaviour) as stage:
        result = (await stage.initialize(params))["result"]
        bridge = stage.bridge
        assert (bridge.client_version, bridge.agent_version) == (version, speaks or version)
        assert result["protocolVersion"] == version
        if version == 2 or speaks == 2:  # in version 1 the info may be missing
            assert ("agentInfo" if version == 1 else "info") in result
            assert ("agentCapabilities" if version == 1 else "capabilities") in result
        stage.client.deliver(new_session(2))
        answer = await stage.client.answer(2)
        assert answer["result"]["sessionId"] == "s"
        assert stage.agent.versions[-1] == bridge.agent_version


@pytest.mark.parametrize("client", CLIENTS)
@in_real_time
async def test_a_client_may_leave_an_agent_that_never_answers(client: str) -> None:
    async with play(never_answers) as stage:
        await stage.agent.until(lambda: True)
        params = CLIENTS[client][1]
        stage.client.deliver({"id": 1, "method": "initialize", "params": params})
        # also when it printed more than is kept
        stage.client.deliver(line({"method": "_x", "params": ["x" * 100_000]}) * 20)
        await stage.agent.until(lambda: bool(stage.agent.asked))
    assert stage.agent.closed
    assert stage.client.written == b""


@in_real_time
async def test_a_second_answer_to_one_question_is_not_taken_for_the_answer_to_the_next() -> None:
    def repeats(agent: FakeAgent, request: Json) -> None:
        info = {"name": "test", "version": str(version_of(request))}
        for _ in range(2):
            agent.result(request, {"protocolVersion": 1, "agentInfo": info})

    async with play(repeats) as stage:
        result = (await stage.initialize(CLIENTS["v2"][1]))["result"]
        assert result["info"]["version"] == "1", "as it was asked in its own words"


# ---- what agents of the other version are asked -----------------------------------------------


@in_real_time
async def test_an_agent_is_initialized_in_the_words_of_its_version() -> None:
    async with play(v1, offer=["terminal"]) as stage:
        capabilities: Json = {"elicitation": {"form": {}}}
        await stage.initialize({**CLIENTS["v2"][1], "capabilities": capabilities})
        last = stage.agent.asked[-1]["params"]
        assert last["clientInfo"] == INFO
        able = last["clientCapabilities"]
        assert able["fs"] == {"readTextFile": False, "writeTextFile": False}
        assert able["terminal"] is True
        assert able["elicitation"] == {"form": {}}
        assert "capabilities" not in last


@in_real_time
async def test_two_sides_of_one_version_are_introduced_in_their_own_words() -> None:
    params = {**CLIENTS["claims 2, speaks 1"][1], "_meta": {"x": 1}, "_more": [1]}

    async with play(v1) as stage:
        await stage.initialize(params)
        assert stage.agent.asked[0]["params"] == {**params, "protocolVersion": 1}


@pytest.mark.parametrize("strict", [False, True])
@in_real_time
async def test_what_one_side_cannot_do_is_reported_and_never_refused(strict: bool) -> None:
    fs = {"readTextFile": True, "writeTextFile": True}
    params = {"protocolVersion": 1, "clientCapabilities": {"fs": fs, "terminal": True}}

    lost: list[str] = []
    log = LossLog(strict=strict, first=lambda what, path, why: lost.append(path))
    async with play(only_v2, losses=log) as stage:
        assert "result" in await stage.initialize(params)
        assert "clientCapabilities.terminal" in lost
        assert "clientCapabilities.fs.readTextFile" in lost


def test_what_a_peer_cannot_do_is_not_lost() -> None:
    """A missing capability is no loss: a request for it is refused with that reason."""

    def plain(agent: FakeAgent, request: Json) -> None:
        methods = [{"id": "m", "name": "M"}]
        answer = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": methods}
        agent.result(request, answer)

    def sse(agent: FakeAgent, request: Json) -> None:
        able = {"mcpCapabilities": {"sse": True}, "auth": {"logout": {}}}
        agent.result(request, {"protocolVersion": 1, "agentCapabilities": able})

    async def run(behaviour: Behaviour, client: str) -> list[str]:
        async with play(behaviour) as stage:
            await stage.initialize(CLIENTS[client][1])
            return stage.lost

    assert asyncio.run(run(v1, "v2")) == []
    assert asyncio.run(run(plain, "v2")) == []
    assert asyncio.run(run(v2, "v1")) == []
    assert asyncio.run(run(sse, "v2")) == [
        "agentCapabilities.auth.logout",
        "agentCapabilities.mcpCapabilities.sse",
    ]


# ---- forced versions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "agent", "behaviour", "agreed", "asked"),
    [
        ("auto", 1, both, (2, 1), [1]),
        ("auto", 2, both, (2, 2), [2]),
        (1, "auto", both, (1, 1), [1]),
        (1, 2, both, (1, 2), [2]),
        ("auto", 1, refuses_2, (2, 1), [1]),
    ],
)
@in_real_time
async def test_a_version_that_is_demanded_is_not_found_out(
    client: Any, agent: Any, behaviour: Behaviour, agreed: tuple[int, int], asked: list[int]
) -> None:
    async with play(behaviour, client_version=client, agent_version=agent) as stage:
        await stage.initialize(CLIENTS["v2"][1])
        assert (stage.bridge.client_version, stage.bridge.agent_version) == agreed
        assert stage.agent.versions == asked


@pytest.mark.parametrize(
    ("behaviour", "wanted", "code"),
    [(v1, 2, -32603), (v2, 1, -32603), (only_v2, 1, -32022), (refuses_2, 2, -32602)],
)
@in_real_time
async def test_an_agent_that_does_not_speak_what_was_demanded_is_refused(
    behaviour: Behaviour, wanted: Any, code: int
) -> None:
    async with play(behaviour, agent_version=wanted) as stage:
        answer = await stage.initialize(CLIENTS["v2"][1])
        assert answer["error"]["code"] == code
        assert len(stage.agents) == 1


@in_real_time
async def test_an_agent_that_dies_of_the_version_that_was_demanded_is_not_started_again() -> None:
    async with play(dies_on_2, agent_version=2) as stage:
        answer = await stage.initialize(CLIENTS["v2"][1])
        assert answer["error"]["data"]["exitCode"] == 3
        assert len(stage.agents) == 1
    assert stage.bridge.agent_error is DIED


# ---- where there is no agreement --------------------------------------------------------------


def always_refuses(agent: FakeAgent, request: Json) -> None:
    agent.error(request, -32000 - version_of(request))


def always_dies(agent: FakeAgent, request: Json) -> None:
    agent.end(DIED)


@in_real_time
async def test_the_first_refusal_is_sent_and_the_client_may_try_again() -> None:
    async with play(always_refuses) as stage:
        answer = await stage.initialize(CLIENTS["v2"][1])
        assert answer["error"]["code"] == -32002
        assert [agent.versions for agent in stage.agents] == [[2, 1], [1]]
        request = {"id": "again", "method": "initialize", "params": CLIENTS["v1"][1]}
        stage.client.deliver(request)
        assert (await stage.client.answer("again"))["error"]["code"] == -32001


@in_real_time
async def test_an_agent_that_always_dies_is_started_twice_and_its_death_is_reported() -> None:
    async with play(always_dies) as stage:
        error = (await stage.initialize(CLIENTS["v1"][1]))["error"]
        assert error["data"] == {"stderr": "boom", "exitCode": 3}
        assert error["message"] == "The agent (agent) ended with exit code 3"
        assert [agent.versions for agent in stage.agents] == [[1], [2]]
    assert stage.bridge.agent_error is DIED


@in_real_time
async def test_an_agent_that_cannot_be_started_again_is_a_failure_and_not_a_hang() -> None:
    async with play(dies_on_2) as stage:

        async def open_no_more() -> FakeAgent:
            raise OSError("no more processes")

        stage.bridge._agent_transport = open_no_more
        error = (await stage.initialize(CLIENTS["v2"][1]))["error"]
        assert "no more processes" in error["message"]


@in_real_time
async def test_without_a_new_process_the_first_answer_has_to_do() -> None:
    async with play(refuses_a_second, restarts=False) as stage:
        result = (await stage.initialize(CLIENTS["v2"][1]))["result"]
        assert result["protocolVersion"] == 2
        assert stage.bridge.agent_version == 1


@pytest.mark.parametrize("result", [None, {}, [], "2", {"protocolVersion": "x", "info": 5}])
@in_real_time
async def test_an_answer_that_is_none_is_an_error(result: Any) -> None:
    def odd(agent: FakeAgent, request: Json) -> None:
        agent.result(request, result)

    async with play(odd) as stage:
        assert (await stage.initialize(CLIENTS["v1"][1]))["error"]["code"] == -32603


@in_real_time
async def test_an_agent_of_an_unknown_version_is_not_translated() -> None:
    def future(agent: FakeAgent, request: Json) -> None:
        agent.result(request, {"protocolVersion": 3, **V2})

    async with play(future) as stage:
        error = (await stage.initialize(CLIENTS["v1"][1]))["error"]
        assert "3" in error["data"]["reason"]
        stage.client.deliver({"id": 2, "method": "initialize", "params": CLIENTS["v2"][1]})
        assert (await stage.client.answer(2))["result"]["protocolVersion"] == 3


@pytest.mark.parametrize("params", [[], "x", 5])
@in_real_time
async def test_an_initialize_that_is_none_is_refused(params: Any) -> None:
    async with play(both) as stage:
        assert (await stage.initialize(params))["error"]["code"] == -32602
        stage.client.deliver({"id": 2, "method": "initialize", "params": CLIENTS["v1"][1]})
        assert "result" in await stage.client.answer(2)


# ---- what is sent too early -------------------------------------------------------------------


@in_real_time
async def test_requests_before_initialize_are_refused() -> None:
    async with play(both) as stage:
        stage.client.deliver(
            b"noise\n",
            {"method": "session/cancel", "params": {"sessionId": "s"}},
            {"id": 9, "result": {}},
            {"id": {}, "method": "initialize"},
            {"id": 1, "method": "session/new", "params": {"cwd": "/"}},
        )
        refused, too_early = stage.client.messages
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert (too_early["id"], too_early["error"]["code"]) == (1, -32600)
        assert len(stage.problems) == 4
        assert stage.agent.asked == []
        assert "result" in await stage.initialize(CLIENTS["v1"][1])


@pytest.mark.parametrize("sender", ["client", "agent"])
@in_real_time
async def test_noise_in_a_batch_before_initialize_is_reported_with_its_sender(sender: str) -> None:
    async with play(both, restarts=False) as stage:
        side: Hand = stage.client if sender == "client" else stage.agent
        side.deliver(b"[5]\n")
        (problem,) = stage.problems
        assert problem.kind == "noise"
        assert problem.text.startswith(f"The {sender} sent an unexpected message")


@pytest.mark.parametrize("agent", ["v1", "v2", "answers later", "dies on 2", "refuses 2"])
@pytest.mark.parametrize("client", ["v1", "v2"])
@pytest.mark.parametrize("batch", [False, True])
@in_real_time
async def test_messages_of_a_client_before_its_answer_are_queued(
    client: str, agent: str, batch: bool
) -> None:
    init = {"id": 1, "method": "initialize", "params": CLIENTS[client][1]}
    early = [new_session(2), {"method": "_x/note", "params": {"n": 1}}, new_session(3)]

    async with play(AGENTS[agent][0]) as stage:
        if batch:
            messages = [{"jsonrpc": "2.0", **each} for each in (init, *early)]
            stage.client.deliver(json.dumps(messages).encode() + b"\n")
        else:
            stage.client.deliver(init, *early[:2])
            stage.client.deliver(line(early[2])[:10])
            stage.client.deliver(line(early[2])[10:])
        answers: Any = stage.client.messages
        if batch:
            await stage.client.until(lambda: bool(stage.client.messages))
            (answers,) = stage.client.messages
        else:
            await stage.client.answer(3)
            answers = stage.client.messages
        assert [each["id"] for each in answers] == [1, 2, 3]
        methods = [each["method"] for each in stage.agent.asked]
        assert methods[-3:] == ["session/new", "_x/note", "session/new"]
        assert set(methods[:-3]) == {"initialize"}


@in_real_time
async def test_messages_of_a_client_are_read_again_when_its_first_initialize_was_refused() -> None:
    async with play(always_refuses) as stage:
        stage.client.deliver(
            {"id": 1, "method": "initialize", "params": CLIENTS["v1"][1]},
            new_session(2),
            {"id": 3, "method": "initialize", "params": CLIENTS["v1"][1]},
        )
        await stage.client.answer(3)
        codes = [each["error"]["code"] for each in stage.client.messages]
        assert codes == [-32001, -32600, -32001]


@pytest.mark.parametrize("client", ["v1", "v2"])
@in_real_time
async def test_what_an_agent_sends_before_it_answers_follows_the_answer(client: str) -> None:
    def eager(agent: FakeAgent, request: Json) -> None:
        agent.deliver({"method": "_x/note", "params": {"n": 1}}, {"id": "q", "method": "_x/ask"})
        v1(agent, request)

    async with play(eager) as stage:
        await stage.initialize(CLIENTS[client][1])
        first, *notes = stage.client.messages
        assert first["id"] == "init"
        assert {each["method"] for each in notes} == {"_x/note"}
        refused = await stage.agent.answer("q") if client == "v1" else None
        assert refused is None or refused["error"]["code"] == -32600


@in_real_time
async def test_what_else_is_in_the_batch_of_an_answer_is_passed_on() -> None:
    def batches(agent: FakeAgent, request: Json) -> None:
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": 1, **V1}}
        note = {"jsonrpc": "2.0", "method": "_x/note"}
        agent.deliver(json.dumps([answer, note]).encode() + b"\n")

    for client in ("v1", "v2"):
        async with play(batches) as stage:
            await stage.initialize(CLIENTS[client][1])
            answer, *notes = stage.client.messages
            assert answer["id"] == "init"
            assert {each["method"] for each in notes} == {"_x/note"}


@asynccontextmanager
async def stillborn() -> AsyncIterator[tuple[Play, asyncio.Task[None]]]:
    """An agent that died before it was asked anything."""
    stage = Play(both)
    running = asyncio.create_task(stage.bridge.run())
    await stage.client.until(lambda: stage.client._receiver is not None)
    stage.agent.end(DIED)
    yield stage, running
    async with asyncio.timeout(PATIENCE):
        await running
    assert stage.bridge.agent_error is DIED


@in_real_time
async def test_a_client_whose_agent_died_before_it_asked_gets_an_error() -> None:
    async with stillborn() as (stage, running):
        await asyncio.wait([running], timeout=0.01)
        error = (await stage.initialize(CLIENTS["v1"][1]))["error"]
        assert error["data"]["exitCode"] == 3


@in_real_time
async def test_a_dead_agent_does_not_wait_for_a_client_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("twofold.bridge.bridge.PATIENCE", 0.01)

    async with stillborn():
        pass


# ---- passing through --------------------------------------------------------------------------

ODD = [
    b'{ "jsonrpc":"2.0" ,"method":"_x/note",  "params":{"a":1.50,"a":2}}\r\n',
    b"\n  \n",
    b"a log line\n",
    b"\x1b]0;title\x07\xff\xfe\n",
    b'{"jsonrpc":"2.0","method":"_x/long","params":"' + b"x" * 5000 + b'"}\n',
    b'[{"jsonrpc":"2.0","id":77,"result":{}}]\n',
    b'{"jsonrpc":"2.0","method":"_x/ha',
    b'lf"}\n',
]


@pytest.mark.parametrize("split", [False, True])
@in_real_time
async def test_bytes_pass_through_untouched_both_ways(split: bool) -> None:
    """From the byte behind the answer on, even if they came in one piece with it."""
    client, agent = Hand(), Hand()
    bridge = Bridge(client, agent, on_problem=lambda problem: None, line_limit=4096)
    running = asyncio.create_task(bridge.run())
    await client.until(lambda: client._receiver is not None)
    init = line({"id": 1, "method": "initialize", "params": CLIENTS["v1"][1]})
    pieces = [init, *ODD] if split else [init + b"".join(ODD)]
    for each in pieces:
        client.deliver(each)
    await agent.until(lambda: b"\n" in agent.written)
    (request,) = agent.messages
    before = len(agent.written)
    answer = line({"id": request["id"], "result": {"protocolVersion": 1, **V1}})
    pieces = [answer, *ODD] if split else [answer + b"".join(ODD[:-1]), ODD[-1]]
    for each in pieces:
        agent.deliver(each)
    assert agent.written[before:] == b"".join(ODD)
    first, _, rest = bytes(client.written).partition(b"\n")
    assert json.loads(first)["id"] == 1
    assert rest == b"".join(ODD)
    client.end()
    async with asyncio.timeout(PATIENCE):
        await running


@in_real_time
async def test_an_agents_own_answer_passes_as_it_is() -> None:
    raw = b'{ "protocolVersion": 2,"info":{"name":"x","version":"1"}, "capabilities" : {} }'

    def spaced(agent: FakeAgent, request: Json) -> None:
        identity = json.dumps(request["id"]).encode()
        agent.deliver(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (identity, raw))

    async with play(spaced) as stage:
        await stage.initialize(CLIENTS["v2"][1])
        assert raw in stage.client.written


@asynccontextmanager
async def passing() -> AsyncIterator[Play]:
    async with play(both) as stage:
        await stage.initialize(CLIENTS["v1"][1])
        stage.client.written.clear()
        yield stage


def ask(identity: Any, method: str = "_x/ask") -> Json:
    return {"id": identity, "method": method}


HALF = b'{"jsonrpc":"2.0","id":1,"result":"'


@pytest.mark.parametrize("partial", [b"", HALF, HALF + b"x" * 100_000], ids=["", "held", "long"])
@in_real_time
async def test_what_is_open_when_the_agent_dies_is_settled(partial: bytes) -> None:
    async with passing() as stage:
        stage.client.deliver(*map(ask, [1, "1", 2, 3, 4]))
        stage.agent.deliver(
            b'{"jsonrpc": "2.0", "id" : 2, "result": {"method": "x"}}\n',
            b'{"result":{"method":"x"},"jsonrpc":"2.0","id":3}\n',
            {"id": 4, "error": {"code": 1, "message": ""}},
            {"method": "session/update", "params": {"id": 1}},
            {"id": 1, "method": "_x/ask"},
            partial,
        )
        before = len(stage.client.written)
        stage.agent.end(DIED)
        settled = stage.client.written[before:].splitlines()
        answers = [json.loads(each) for each in settled if each]
        assert [each["id"] for each in answers] == [1, "1"]
        assert all(each["error"]["data"]["exitCode"] == 3 for each in answers)
        assert (settled[0] == b"") == (len(partial) > 65_536), "not on the line that was cut off"
        assert (HALF in stage.client.written) == (len(partial) > 65_536)


@in_real_time
async def test_a_request_to_a_dead_agent_fails() -> None:
    async with passing() as stage:
        stage.agent.end(DIED)
        stage.client.deliver(ask(1), {"method": "_x/note"})
        assert [each["id"] for each in stage.client.messages] == [1]


@in_real_time
async def test_an_answer_in_pieces_is_an_answer() -> None:
    async with passing() as stage:
        stage.agent.deliver(b'{"jsonrpc":"2.0","method":"_x/to')
        stage.client.deliver(ask(1))
        answer = b'ld"}\n' + line({"id": 1, "result": {}})
        for index in range(len(answer)):
            stage.agent.deliver(answer[index : index + 1])
        stage.agent.end(DIED)
        assert len(stage.client.messages) == 2


@in_real_time
async def test_a_line_that_began_before_the_question_is_not_its_answer() -> None:
    note = line({"method": "_x/note", "params": {"jsonrpc": "2.0", "id": 1, "result": {}}})
    cut = note.index(b"{", 1)

    async with passing() as stage:
        stage.agent.deliver(b"\n" + note[:cut])
        stage.client.deliver(ask(1))
        stage.agent.deliver(note[cut:])
        stage.agent.end(DIED)
        assert stage.client.messages[-1]["error"]["data"]["exitCode"] == 3


# ---- peers that do not read -------------------------------------------------------------------


@pytest.mark.parametrize("client", ["v1", "v2"])
def test_an_agent_waits_for_a_client_that_does_not_read(client: str) -> None:
    async def run() -> list[bool]:
        async with play(v1) as stage:
            await stage.initialize(CLIENTS[client][1])
            stage.client.receiver.pause_writing()
            waits = [stage.agent.paused]
            stage.client.receiver.resume_writing()
            return [*waits, stage.agent.paused]

    assert asyncio.run(run()) == [True, False]


def test_a_client_waits_for_an_agent_that_does_not_read_but_not_at_once() -> None:
    """Who reads nothing at all from a client does not see it leave."""

    async def run() -> list[bool]:
        async with passing() as stage:
            stage.agent.receiver.pause_writing()
            stage.client.deliver(ask(1))
            waits = [stage.client.paused]
            for _ in range(16):
                stage.client.deliver(line({"method": "_x", "params": ["x" * 1024 * 1024]}))
            waits.append(stage.client.paused)
            stage.agent.receiver.resume_writing()
            return [*waits, stage.client.paused]

    assert asyncio.run(run()) == [False, True, False]


def test_when_the_client_leaves_the_agent_gets_its_answers_before_the_end() -> None:
    permission = {"sessionId": "s", "toolCall": {"toolCallId": "t"}}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]

    async def run() -> list[Json]:
        async with play(v1) as stage:
            await stage.initialize(CLIENTS["v2"][1])
            prompt = {"sessionId": "s", "prompt": []}
            stage.client.deliver({"id": 1, "method": "session/prompt", "params": prompt})
            params = {**permission, "options": options}
            stage.agent.deliver({"id": 7, "method": "session/request_permission", "params": params})
        return stage.agent.messages

    cancel, answer = asyncio.run(run())[-2:]
    assert cancel["method"] == "session/cancel"
    assert (answer["id"], answer["result"]) == (7, {"outcome": {"outcome": "cancelled"}})
