"""Batches: one array is answered by one array, by an agent, by a client and across a bridge."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twofold
from tests.bridge.test_handshake import CLIENTS, Play, play, v1, v2
from tests.peer.test_peer import Ends
from tests.support.raw_client import RawClient, Version, an_agent, settled, talking
from tests.support.real_time import in_real_time, run
from twofold.rpc import connection
from twofold.rpc.batches import Gathering
from twofold.rpc.connection import Batch, Request, read_line
from twofold.transport.process import ProcessEnded

Json = dict[str, Any]
VERSIONS: list[Version] = [1, 2]


def entry(**message: Any) -> Json:
    return {"jsonrpc": "2.0", **message}


def batch(*entries: Any) -> bytes:
    return json.dumps(entries).encode() + b"\n"


def with_arrays(messages: list[Json]) -> list[Any]:
    """The messages, typed so that they may be arrays."""
    return list(messages)


def ids(answers: Any) -> list[str]:
    """The ids of an array of answers, as they were written."""
    assert isinstance(answers, list)
    return sorted(json.dumps(each["id"]) for each in answers)


def codes(answers: Any) -> list[int]:
    return sorted(each["error"]["code"] for each in answers if "error" in each)


# ---- gathering the answers, without a peer

identities = st.sampled_from([1, 2, "1", "a"])
entries = st.lists(identities.map(lambda each: entry(id=each, method="m")) | st.just(5), max_size=8)


@given(entries, st.randoms(use_true_random=False))
def test_in_whatever_order_answers_come_the_last_one_sends_them_all(
    messages: list[Any], random: Any
) -> None:
    (event,) = read_line(batch(*messages))
    if not isinstance(event, Batch):
        return
    gathering = Gathering(strict=True)
    requests = [each for each in gathering.read(event) if isinstance(each, Request)]
    random.shuffle(requests)
    lines = [gathering.end()]
    for number, request in enumerate(requests):
        assert gathering.open
        lines.append(gathering.add(request.id, connection.respond(request.id, b"%d" % number)))
    assert not gathering.open
    *before, last = lines
    assert not any(before)
    answers = json.loads(last)
    assert len(answers) == len(messages)
    assert ids(answers) == sorted(
        json.dumps(each["id"] if each != 5 else None) for each in messages
    )


def test_a_second_answer_to_an_entry_changes_nothing() -> None:
    (event,) = read_line(batch(entry(id=1, method="m"), entry(id=2, method="m")))
    assert isinstance(event, Batch)
    gathering = Gathering(strict=True)
    assert len(list(gathering.read(event))) == 2
    assert gathering.end() == b""
    answer = connection.respond(1, b"{}")
    assert gathering.add(1, answer) == gathering.add(1, answer) == b""
    assert ids(json.loads(gathering.add(2, answer))) == ["1", "1"]


def test_answers_that_get_too_long_together_become_errors() -> None:
    (event,) = read_line(batch(*(entry(id=n, method="m") for n in range(100))))
    assert isinstance(event, Batch)
    gathering = Gathering(strict=True, limit=10_000)
    requests = list(gathering.read(event))
    gathering.end()
    for request in requests:
        assert isinstance(request, Request)
        due = gathering.add(request.id, connection.respond(request.id, b'"%b"' % (b"x" * 1000)))
    answers = json.loads(due)
    assert len(answers) == 100
    assert "ask one by one" in answers[-1]["error"]["data"]["reason"]
    assert len(due) < 40_000


# ---- an agent


def scenario(
    version: Version,
    play: Callable[[RawClient, twofold.Agent], Awaitable[None]],
    *,
    initialized: bool = True,
) -> None:
    async def main() -> None:
        agent, _ = an_agent()

        @agent.on_request("_x/echo")
        async def echo(params: Any) -> Any:
            return params

        @agent.on_request("_x/wait")
        async def wait(params: Any) -> Any:
            await asyncio.Event().wait()

        async with talking(agent, version, initialized=initialized) as client:
            client.messages.clear()
            await play(client, agent)

    run(main())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_with_requests_is_answered_by_one_array(version: Version) -> None:
    async def story(client: RawClient, agent: twofold.Agent) -> None:
        client.raw(
            batch(
                entry(id=7, method="_x/echo", params={"n": 1}),
                entry(method="_x/unknown"),
                entry(id="seven", method="_x/echo", params={"n": 2}),
                entry(id=8, method="no/such"),
            )
        )
        await client.until(lambda: client.messages)
        (answers,) = with_arrays(client.messages)
        assert ids(answers) == ['"seven"', "7", "8"]
        assert codes(answers) == [-32601]
        assert {each["id"]: each.get("result") for each in answers}["seven"] == {"n": 2}

    scenario(version, story)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"[]\n", [(None, -32600)]),
        (b"{}\n", [(None, -32600)]),
        (b'{"id": 4, "method": "initialize"}\n', [(None, -32600)]),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 1}\n', [(5, -32600)]),
        (b'{"jsonrpc": "2.0", "method"\n', [(None, -32700)]),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "_x/echo"}, {"jsonrpc"\n', [(None, -32700)]),
        (b"\x1b[0m{oops\n", [(None, -32700)]),
        (b'{"jsonrpc":"2.0","id":6,"method":"_x/echo","params":NaN}\n', [(6, -32700)]),
        (b"a line of a log\n", []),
        (b"42\n", []),
        (batch(entry(method="_x/one"), entry(method="_x/two")), []),
    ],
)
def test_an_agent_answers_what_is_no_message(
    version: Version, sent: bytes, answered: list[Any]
) -> None:
    async def story(client: RawClient, agent: twofold.Agent) -> None:
        client.raw(sent)
        await settled()
        assert [(each["id"], each["error"]["code"]) for each in client.messages] == answered
        assert await client.call("_x/echo", {"still": "usable"}) == {"still": "usable"}

    scenario(version, story)


def test_each_entry_that_is_no_message_gets_an_error_in_the_array() -> None:
    async def story(client: RawClient, agent: twofold.Agent) -> None:
        client.raw(batch(1, [], {"foo": "bar"}, entry(method=2), entry(id=1, method="_x/echo")))
        await client.until(lambda: client.messages)
        (answers,) = client.messages
        assert ids(answers) == ["1", "null", "null", "null", "null"]
        assert codes(answers) == [-32600] * 4
        client.raw(batch(1, 2))
        await client.until(lambda: len(client.messages) == 2)
        assert ids(client.messages[1]) == ["null", "null"]

    scenario(2, story)


def test_an_id_inside_a_batch_and_the_same_outside_do_not_mix() -> None:
    async def story(client: RawClient, agent: twofold.Agent) -> None:
        client.raw(
            batch(
                entry(id=1, method="_x/wait"),
                entry(id=1, method="_x/echo", params={"in": 1}),
            )
        )
        client.raw(json.dumps(entry(id=1, method="_x/echo", params={"out": 1})).encode() + b"\n")
        await client.until(lambda: client.messages)
        (single,) = client.messages
        assert single["result"] == {"out": 1}

    scenario(2, story)


def test_a_request_of_a_batch_is_withdrawn_and_the_array_is_sent() -> None:
    async def story(client: RawClient, agent: twofold.Agent) -> None:
        client.raw(batch(entry(id=1, method="_x/wait"), entry(id=2, method="_x/echo")))
        await settled()
        assert not client.messages
        client.notify("$/cancel_request", {"requestId": 1})
        await client.until(lambda: client.messages)
        (answers,) = client.messages
        assert ids(answers) == ["1", "2"]
        assert codes(answers) == [-32800]

    scenario(2, story)


def test_initialize_and_what_follows_it_may_be_one_batch() -> None:
    async def story(client: RawClient, agent: twofold.Agent) -> None:
        hello = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}, "capabilities": {}}
        client.raw(
            batch(
                entry(id=1, method="initialize", params=hello),
                entry(id=2, method="session/new", params={"cwd": "/work", "mcpServers": []}),
            )
        )
        await client.until(
            lambda: any(isinstance(each, list) for each in with_arrays(client.messages))
        )
        answers = next(each for each in with_arrays(client.messages) if isinstance(each, list))
        assert codes(answers) == []
        assert ids(answers) == ["1", "2"]

    scenario(2, story, initialized=False)


# ---- a client, and the side that closes


@in_real_time
async def test_a_client_answers_a_batch_of_its_agent_by_one_array() -> None:
    ends = Ends()
    ends.wire.deliver(batch(entry(id=1, method="m", params={}), entry(id=1, method="m"), 5))
    await ends.wire.until(lambda: bool(ends.wire.written))
    (answers,) = ends.wire.written
    assert ids(answers) == ["1", "1", "null"]
    await ends.peer.close()


@pytest.mark.parametrize("printed", [b"[]", b"[1, 2]", b"{}", b"{oops", b'[{"level":"info"}]'])
@in_real_time
async def test_a_client_does_not_answer_what_may_be_a_log(printed: bytes) -> None:
    ends = Ends()
    ends.wire.deliver(printed + b"\n")
    await settled()
    assert ends.wire.written == []
    assert {problem.kind for problem in ends.problems} == {"noise"}
    await ends.peer.close()


@in_real_time
async def test_closing_answers_the_requests_of_a_batch_that_have_no_answer() -> None:
    ends = Ends()

    async def answer(request: Request) -> Any:
        return {} if request.id == 1 else await asyncio.Event().wait()

    ends.listener.answer = answer
    ends.wire.deliver(batch(entry(id=1, method="m"), entry(id=2, method="m")))
    await settled()
    assert ends.wire.written == []
    await ends.peer.close()
    (answers,) = ends.wire.written
    assert ids(answers) == ["1", "2"]
    assert codes(answers) == [-32603]
    assert not ends.peer._gatherings


@in_real_time
async def test_batches_that_are_answered_leave_nothing_behind() -> None:
    ends = Ends()
    for number in range(100):
        ends.wire.deliver(batch(entry(id=number, method="m"), entry(method="n"), 5))
    ends.wire.deliver(batch(entry(method="n")))
    await ends.wire.until(lambda: len(ends.wire.written) == 100)
    assert not ends.peer._gatherings
    await ends.peer.close()


# ---- a bridge

AGENTS = {"1": v1, "2": v2}
DIED = ProcessEnded(["agent"], exit_code=3, stderr="one\ntwo")


def asks(*identities: Any) -> list[Json]:
    return [entry(id=each, method="_x/ask") for each in identities]


@pytest.mark.parametrize("client", ["v1", "v2"])
@in_real_time
async def test_across_a_bridge_the_entries_go_one_by_one_and_the_answers_come_together(
    client: str,
) -> None:
    other = v2 if client == "v1" else v1
    async with play(other) as stage:
        await stage.initialize(CLIENTS[client][1])
        stage.client.written.clear()
        new = {"cwd": "/work", "mcpServers": []}
        stage.client.deliver(
            batch(
                entry(id=1, method="session/new", params=new),
                entry(method="_x/note"),
                entry(id="b", method="session/new", params=new),
                {"foo": 1},
            )
        )
        await stage.client.until(lambda: bool(stage.client.messages))
        arrays = [each for each in with_arrays(stage.client.messages) if isinstance(each, list)]
        (answers,) = arrays
        assert ids(answers) == ['"b"', "1", "null"]
        assert codes(answers) == [-32600]
        methods = [each["method"] for each in stage.agent.asked]
        assert methods[-3:] == ["session/new", "_x/note", "session/new"]


@pytest.mark.parametrize("client", ["v1", "v2"])
@pytest.mark.parametrize(
    ("sent", "answered"),
    [(b"[]\n", (None, -32600)), (b"{}\n", (None, -32600)), (b"{oops\n", (None, -32700))],
)
@in_real_time
async def test_a_bridge_answers_what_is_no_message_of_its_client(
    client: str, sent: bytes, answered: Any
) -> None:
    other = v2 if client == "v1" else v1
    async with play(other) as stage:
        for _ in range(2):
            stage.client.written.clear()
            stage.client.deliver(sent)
            await stage.client.until(lambda: bool(stage.client.messages))
            (answer,) = stage.client.messages
            assert (answer["id"], answer["error"]["code"]) == answered
            await stage.initialize(CLIENTS[client][1])


@pytest.mark.parametrize("agent", ["1", "2"])
@pytest.mark.parametrize("client", ["v1", "v2"])
@in_real_time
async def test_when_the_agent_dies_a_batch_is_answered_as_one(client: str, agent: str) -> None:
    async with play(AGENTS[agent]) as stage:
        await stage.initialize(CLIENTS[client][1])
        stage.client.written.clear()
        stage.client.deliver(batch(*asks(1, 2)), json.dumps(asks(3)[0]).encode() + b"\n")
        stage.agent.end(DIED)
        await stage.client.until(lambda: len(stage.client.messages) == 2)
        (single,) = [each for each in with_arrays(stage.client.messages) if isinstance(each, dict)]
        (answers,) = [each for each in with_arrays(stage.client.messages) if isinstance(each, list)]
        assert single["id"] == 3
        assert ids(answers) == ["1", "2"]
        for error in [single["error"], *(each["error"] for each in answers)]:
            assert "\n" not in error["message"]
            assert error["data"]["stderr"] == "one\ntwo"


@in_real_time
async def test_a_bridge_that_is_closed_answers_its_open_batches() -> None:
    stage = Play(v1)
    running = asyncio.create_task(stage.bridge.run())
    await stage.client.until(lambda: stage.client._receiver is not None)
    await stage.initialize(CLIENTS["v2"][1])
    stage.client.written.clear()
    stage.client.deliver(batch(*asks(1, 1)))
    running.cancel()
    await asyncio.wait([running])
    (answers,) = stage.client.messages
    assert ids(answers) == ["1", "1"]


@in_real_time
async def test_a_request_of_a_batch_is_withdrawn_across_a_bridge() -> None:
    async with play(v1) as stage:
        await stage.initialize(CLIENTS["v2"][1])
        stage.client.deliver(
            batch(*asks("x")),
            json.dumps(entry(method="$/cancel_request", params={"requestId": "x"})).encode()
            + b"\n",
        )
        ask, cancel = stage.agent.asked[-2:]
        assert (ask["method"], cancel["method"]) == ("_x/ask", "$/cancel_request")
        assert cancel["params"]["requestId"] == ask["id"]
