"""Which version is spoken, with agents that answer well, badly, late or not at all."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.support.idle_clock import simulated
from tests.support.raw_agent import V1, V2, Json, Problems, RawAgent, chunk, talk
from twofold import Client, connect
from twofold.client.negotiate import AgentSilent, NotAnAgent
from twofold.transport.memory import memory_pair


def asked_for(agent: RawAgent) -> list[int]:
    """The versions that the client asked for, in order."""
    asked = [each["params"] for each in agent.messages if each.get("method") == "initialize"]
    return [params["protocolVersion"] for params in asked]


def answering(*answers: Json) -> Any:
    """Answers to one `initialize` after the other; None is no answer, an int an error."""
    left = list(answers)

    def answer(agent: RawAgent, message: Json) -> None:
        what = left.pop(0)
        if isinstance(what, int):
            agent.refuse(message, what, "no such version")
        elif what is not None:
            agent.answer(message, what)

    return answer


async def refused(answer: Any, **options: Any) -> twofold.TwofoldError:
    """The error of a connection that does not come about."""
    with pytest.raises(twofold.TwofoldError) as caught:
        async with talk(2, {"initialize": answer}, problems=Problems(), **options):
            pass
    return caught.value


# ---- agents that answer ------------------------------------------------------------------------


@simulated
async def test_an_agent_of_version_2_is_asked_once() -> None:
    async with talk(2) as (client, agent):
        assert client.protocol_version == 2
        assert client.agent.as_v1 is None
        assert client.agent_name == "raw"
        assert asked_for(agent) == [2]


ECHOES = {
    "answers 1": V1,
    "answers 1 with nothing else": {"protocolVersion": 1},
    "echoes 2 with the fields of version 1": {**V1, "protocolVersion": 2},
    "echoes 2 with its name only": {"protocolVersion": 2, "agentInfo": V1["agentInfo"]},
    "echoes 2 and sends nothing else": {"protocolVersion": 2},
    "echoes 2 with the auth methods of version 1": {
        "protocolVersion": 2,
        "authMethods": V1["authMethods"],
    },
}


@pytest.mark.parametrize("first", ECHOES.values(), ids=list(ECHOES))
@simulated
async def test_an_agent_of_version_1_is_asked_again_in_its_own_words(first: Json) -> None:
    async with talk(1, {"initialize": answering(first, V1)}) as (client, agent):
        assert client.protocol_version == 1
        assert asked_for(agent) == [2, 1]
        first_asked, then = [each["params"] for each in agent.messages]
        assert set(first_asked) == {"protocolVersion", "info", "capabilities"}
        assert set(then) == {"protocolVersion", "clientInfo", "clientCapabilities"}
        assert client.agent.as_v1 is not None
        assert client.can("load")


AGAIN: dict[str, Json] = {
    "refuses": -32600,
    "gives nonsense": [],
    "gives another version": {"protocolVersion": 7},
    "null": None,
}


@pytest.mark.parametrize("again", AGAIN.values(), ids=list(AGAIN))
@simulated
async def test_an_agent_that_does_not_want_to_be_asked_twice_is_believed(again: Json) -> None:
    async with talk(1, {"initialize": answering(V1, again)}) as (client, _):
        assert client.protocol_version == 1
        assert client.agent.info.name == "raw"
        waited = asyncio.get_running_loop().time()
        assert waited == (0 if again is not None else pytest.approx(10))


@simulated
async def test_without_a_command_to_restart_no_offer_is_declared() -> None:
    hello = answering(V1, -32600)
    async with talk(1, {"initialize": hello}, offer={"fs"}) as (client, _):
        assert client.protocol_version == 1


@simulated
async def test_an_agent_that_refuses_version_2_is_asked_for_1_on_the_same_connection() -> None:
    async with talk(1, {"initialize": answering(-32602, V1)}) as (client, agent):
        assert client.protocol_version == 1
        assert asked_for(agent) == [2, 1]


@simulated
async def test_an_agent_that_refuses_both_gives_the_first_refusal() -> None:
    error = await refused(answering(-32602, -32603))
    assert isinstance(error, twofold.RequestFailed)
    assert error.code == -32602


@simulated
async def test_an_offer_is_declared_to_agents_of_version_1_only_if_it_is_made() -> None:
    for offer, fs, terminal in ((set(), False, False), ({"fs"}, True, False)):
        async with talk(1, {"initialize": answering(V1)}, version=1, offer=offer) as (_, agent):
            announced = agent.messages[0]["params"]["clientCapabilities"]
            assert announced["fs"] == {"readTextFile": fs, "writeTextFile": fs}
            assert announced["terminal"] is terminal
            assert "elicitation" not in announced


@simulated
async def test_a_login_at_a_terminal_is_declared_only_if_it_is_offered() -> None:
    for offer in (set(), {"login"}):
        async with talk(1, {"initialize": answering(V1)}, version=1, offer=offer) as (_, agent):
            announced = agent.messages[0]["params"]["clientCapabilities"]
            assert announced.get("auth") == ({"terminal": True} if offer else None)
        async with talk(2, {"initialize": answering(V2)}, offer=offer) as (_, agent):
            announced = agent.messages[0]["params"]["capabilities"]
            assert announced.get("auth") == ({"terminal": {}} if offer else None)


@simulated
async def test_an_unknown_offer_or_version_is_refused_before_a_process_is_started() -> None:
    with pytest.raises(twofold.LocalError, match="'fs', 'terminal' and 'login'"):
        async with connect(["never-started"], offer={"files"}):  # type: ignore[arg-type]
            pass
    with pytest.raises(twofold.LocalError, match="A version is 1, 2 or 'guide'"):
        async with connect(["never-started"], version=3):  # type: ignore[arg-type]
            pass


# ---- unknown versions ------------------------------------------------------------------------

STRANGE: dict[str, Json] = {
    "0": {"protocolVersion": 0},
    "3": {"protocolVersion": 3, "info": V2["info"]},
    "3 and nothing else": {"protocolVersion": 3},
    "3 in the shapes of version 1": {**V1, "protocolVersion": 3},
    "99": {"protocolVersion": 99, "info": V2["info"]},
    "-1": {"protocolVersion": -1},
    "text": {"protocolVersion": "2"},
    "a date": {"protocolVersion": "2025-06-18", "capabilities": {}},
    "a fraction": {"protocolVersion": 2.5},
    "a boolean": {"protocolVersion": True},
    "null": {"protocolVersion": None},
}


@pytest.mark.parametrize("demanded", [None, 1, 2])
@pytest.mark.parametrize("answer", STRANGE.values(), ids=list(STRANGE))
@simulated
async def test_an_unknown_version_is_named_in_the_error(answer: Json, demanded: Any) -> None:
    error = await refused(answer, version=demanded)
    assert isinstance(error, twofold.UnknownVersion)
    assert error.protocol_version == answer["protocolVersion"]
    assert repr(answer["protocolVersion"]) in str(error)


NO_ANSWERS: dict[str, Json] = {
    "null": lambda agent, message: agent.answer(message, None),
    "a list": [],
    "text": "hello",
    "an empty object": {},
    "no version": {"agentInfo": V1["agentInfo"]},
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=list(NO_ANSWERS))
@simulated
async def test_an_answer_without_a_version_is_none(answer: Json) -> None:
    error = await refused(answer)
    assert isinstance(error, twofold.BadAnswer)
    assert "protocolVersion" in str(error)


UNNAMED: dict[str, Json] = {
    "no info": {"protocolVersion": 2, "capabilities": {"session": {}}},
    "info null": {"protocolVersion": 2, "info": None, "capabilities": {}},
    "info empty": {"protocolVersion": 2, "info": {}, "capabilities": {}},
    "info a text": {"protocolVersion": 2, "info": "me", "capabilities": {}},
    "info without a version": {"protocolVersion": 2, "info": {"name": "me"}},
}


@pytest.mark.parametrize("answer", UNNAMED.values(), ids=list(UNNAMED))
@simulated
async def test_an_answer_without_info_is_not_of_version_2(answer: Json) -> None:
    async with talk(1, {"initialize": answering(answer, V1)}) as (client, agent):
        assert client.protocol_version == 1
        assert asked_for(agent) == [2, 1]


@simulated
async def test_an_agent_that_shows_both_versions_speaks_the_one_that_it_claims() -> None:
    async with talk(2, {"initialize": {**V1, **V2}}) as (client, agent):
        assert client.protocol_version == 2
        assert asked_for(agent) == [2]


# ---- versions that are demanded --------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@simulated
async def test_a_version_that_is_demanded_and_spoken_is_asked_for_once(version: Any) -> None:
    async with talk(version, version=version) as (client, agent):
        assert client.protocol_version == version
        assert asked_for(agent) == [version]


@simulated
async def test_an_agent_that_was_asked_for_1_and_echoes_any_version_speaks_1() -> None:
    async with talk(1, {"initialize": {**V1, "protocolVersion": 2}}, version=1) as (client, _):
        assert client.protocol_version == 1


@pytest.mark.parametrize(
    "answer", [V1, {**V1, "protocolVersion": 2}], ids=["1", "2 in shapes of 1"]
)
@simulated
async def test_a_demand_for_version_2_is_not_met_by_1(answer: Json) -> None:
    error = await refused(answer, version=2)
    assert isinstance(error, twofold.WrongVersion)
    assert (error.wanted, error.protocol_version) == (2, 1)
    assert "Leave the version open" in str(error)


@simulated
async def test_a_demand_for_version_1_is_not_met_by_2() -> None:
    error = await refused(V2, version=1)
    assert isinstance(error, twofold.WrongVersion)
    assert (error.wanted, error.protocol_version) == (1, 2)


@simulated
async def test_a_demand_is_not_met_by_asking_for_something_else() -> None:
    error = await refused(answering(-32602), version=2)
    assert isinstance(error, twofold.RequestFailed)


# ---- no answer -------------------------------------------------------------------------------


@simulated
async def test_an_agent_that_does_not_answer_is_given_up_after_the_timeout() -> None:
    start = asyncio.get_running_loop().time()
    error = await refused(answering(None), start_timeout=7)
    assert isinstance(error, twofold.NoAnswer)
    assert error.seconds == 7
    assert "within 7 seconds" in str(error)
    assert "--acp" in str(error)
    assert asyncio.get_running_loop().time() - start == pytest.approx(7)


@simulated
async def test_noise_before_the_answer_is_reported_and_survived() -> None:
    def noisy(agent: RawAgent, message: Json) -> None:
        agent.write(b"\x1b]0;agent\x07")
        agent.write(b'{"level": "info", "msg": "starting"}\nloading...\n\n')
        agent.update(chunk("early"))
        agent.answer(message, V2)

    problems = Problems()
    async with talk(2, {"initialize": noisy}, problems=problems) as (client, _):
        assert client.protocol_version == 2
    assert len(problems.of("noise")) >= 2
    [early] = problems.of("update")
    assert "before it answered initialize" in early


@simulated
async def test_a_request_before_the_answer_to_initialize_is_refused_and_the_answer_is_read() -> (
    None
):
    asked: list[asyncio.Future[Json]] = []

    def asks(agent: RawAgent, message: Json) -> None:
        asked.append(agent.ask("session/request_permission", {}))
        agent.answer(message, V2)

    async with talk(2, {"initialize": asks}) as (client, _):
        assert client.protocol_version == 2
        assert (await asked[0])["error"]["code"] == -32601


@simulated
async def test_a_connection_that_ends_during_initialize_raises_connection_ended() -> None:
    ours, theirs = memory_pair()
    await theirs.close()
    with pytest.raises(twofold.ConnectionEnded):
        async with connect(ours):
            pass


# ---- real processes --------------------------------------------------------------------------

PRELUDE = """
import json, sys, pathlib
V1, V2 = json.loads(sys.argv[1]), json.loads(sys.argv[2])
runs = pathlib.Path(sys.argv[3])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
def send(message, **more):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **more}), flush=True)
def messages():
    return map(json.loads, sys.stdin)
"""
AGENTS = {
    "dies when asked for 2": """
for message in messages():
    if message["params"]["protocolVersion"] != 1:
        sys.exit("Traceback: unsupported version 2")
    send(message, result=V1)
""",
    "dies after it refused 2": """
for message in messages():
    if message["params"]["protocolVersion"] != 1:
        send(message, error={"code": -32603, "message": "boom"})
        sys.exit(1)
    send(message, result=V1)
""",
    "refuses everything once it was asked for 2": """
broken = False
for message in messages():
    broken = broken or message["params"]["protocolVersion"] != 1
    send(message, **({"error": {"code": -32600, "message": "no"}} if broken else {"result": V1}))
""",
    "dies when it is initialized twice": """
for number, message in enumerate(messages()):
    if number:
        sys.exit(3)
    send(message, result=V1)
""",
}


@asynccontextmanager
async def started(script: str, runs: Path, **options: Any) -> AsyncIterator[Client]:
    command = [sys.executable, "-c", PRELUDE + script, json.dumps(V1), json.dumps(V2), str(runs)]
    options.setdefault("on_problem", lambda problem: None)
    async with connect(command, start_timeout=20, **options) as client:
        yield client


@pytest.mark.parametrize("script", AGENTS.values(), ids=list(AGENTS))
def test_an_agent_that_does_not_survive_version_2_is_started_once_more(
    script: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with started(script, tmp_path / "runs") as client:
            assert client.protocol_version == 1
            assert client.agent_name == "raw"

    asyncio.run(scenario())
    assert (tmp_path / "runs").read_text() == "xx"


def test_an_agent_that_refuses_version_2_is_not_started_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = """
for message in messages():
    if message["params"]["protocolVersion"] != 1:
        send(message, error={"code": -32602, "message": "unsupported"})
    else:
        send(message, result=V1)
"""
        async with started(script, tmp_path / "runs") as client:
            assert client.protocol_version == 1

    asyncio.run(scenario())
    assert (tmp_path / "runs").read_text() == "x"


def test_what_is_offered_is_worth_a_restart(tmp_path: Path) -> None:
    script = """
for number, message in enumerate(messages()):
    if number:
        send(message, error={"code": -32600, "message": "initialized already"})
    else:
        V1["agentInfo"]["title"] = str("clientCapabilities" in message["params"])
        send(message, result=V1)
"""

    async def scenario(offer: Any) -> str:
        async with started(script, tmp_path / "runs", offer=offer) as client:
            return client.agent_name

    assert asyncio.run(scenario(())) == "False"
    assert (tmp_path / "runs").read_text() == "x"
    assert asyncio.run(scenario(["fs"])) == "True"
    assert (tmp_path / "runs").read_text() == "xxx"


def test_an_agent_that_always_dies_is_started_twice_and_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started("sys.exit('no key\\nset KEY')", tmp_path / "runs"):
            pass

    with pytest.raises(twofold.ProcessEnded) as caught:
        asyncio.run(scenario())
    assert caught.value.exit_code == 1
    assert caught.value.stderr == "no key\nset KEY"
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_demanded_version_is_not_worth_a_restart(tmp_path: Path) -> None:
    async def scenario(version: Any) -> None:
        async with started("sys.exit(4)", tmp_path / "runs", version=version):
            pass

    for version, runs in ((1, "x"), (2, "xx")):
        with pytest.raises(twofold.ProcessEnded) as caught:
            asyncio.run(scenario(version))
        assert caught.value.exit_code == 4
        assert (tmp_path / "runs").read_text() == runs


def failing(command: Sequence[str], **options: Any) -> Exception:
    """What comes of a command that is no agent."""

    async def scenario() -> None:
        async with connect(command, on_problem=lambda problem: None, **options):
            raise AssertionError("that is no agent")

    with pytest.raises(twofold.TwofoldError) as caught:
        asyncio.run(scenario())
    return caught.value


def test_a_command_that_repeats_everything_is_no_agent() -> None:
    error = failing(["cat"])
    assert isinstance(error, NotAnAgent)
    assert "not an agent" in str(error)


def test_a_command_that_prints_and_ends_is_no_agent() -> None:
    error = failing(["echo", "hello"])
    assert isinstance(error, twofold.ProcessEnded)
    assert error.exit_code == 0
    assert "echo hello" in str(error)


def test_the_usage_that_a_command_prints_is_in_the_error() -> None:
    error = failing(["sh", "-c", "echo 'usage: agent [--acp]' >&2; exit 2"])
    assert isinstance(error, twofold.ProcessEnded)
    assert error.exit_code == 2
    assert "exit code 2" in str(error)
    assert "usage: agent [--acp]" in str(error)


def test_the_output_of_a_command_that_waits_for_something_else_is_in_the_error() -> None:
    error = failing(
        ["sh", "-c", "echo 'Ok to proceed? (y)' >&2; cat >/dev/null"], start_timeout=0.5
    )
    assert isinstance(error, AgentSilent)
    assert error.stderr == "Ok to proceed? (y)"
    assert "Ok to proceed? (y)" in str(error)


def test_a_command_that_does_not_exist_is_not_started() -> None:
    assert isinstance(failing(["no-such-agent-here"]), twofold.CommandNotStarted)


def test_a_command_that_is_one_text_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"a list of words, such as \['some agent'\]"):
        connect("some agent")


@pytest.mark.parametrize("declared", [False, True])
@simulated
async def test_an_agent_can_delete_sessions_only_if_it_declares_it(declared: bool) -> None:
    session: Json = {"delete": {}} if declared else {}
    hello = {**V2, "capabilities": {"session": session}}
    async with talk(2, {"initialize": hello}) as (client, _):
        assert client.can("delete") == declared
