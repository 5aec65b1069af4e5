"""What a session begins with: MCP servers as far as the agent takes them, options, a mode."""

from typing import Any

import pytest

from tests.support.idle_clock import simulated
from tests.support.raw_agent import V2, Json, RawAgent, talk
from twofold.client.session_setup import SessionSetup, SetupFailed
from twofold.peer.problems import Problem
from twofold.rpc.errors import RequestFailed
from twofold.wire import v2

VALUES = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
STDIO = v2.McpServerStdio("files", "mcp-files", ["."], [])
HTTP = v2.McpServerHttp("web", "https://mcp.example", [])


def options(**current: Any) -> list[Json]:
    """The options of version 2, with other current values."""
    mode = {"configId": "mode", "name": "Mode", "category": "mode", "type": "select"}
    model = {"configId": "model", "name": "Model", "type": "select"}
    fast = {"configId": "fast", "name": "Fast", "type": "boolean"}
    return [
        {**mode, "options": VALUES, "currentValue": current.get("mode", "ask")},
        {**model, "options": VALUES, "currentValue": current.get("model", "ask")},
        {**fast, "currentValue": current.get("fast", False)},
    ]


def answers() -> Json:
    current: dict[str, Any] = {}

    def set_option(agent: RawAgent, message: Json) -> None:
        current[message["params"]["configId"]] = message["params"]["value"]
        agent.answer(message, {"configOptions": options(**current)})

    return {
        "session/new": {"sessionId": "s", "configOptions": options()},
        "session/resume": {},
        "session/set_config_option": set_option,
    }


def sent(agent: RawAgent, method: str) -> list[Json]:
    return [each["params"] for each in agent.messages if each.get("method") == method]


@simulated
async def test_options_are_set_in_order_and_the_mode_last() -> None:
    setup = SessionSetup(mode="code", options={"fast": True, "model": "code"})
    async with talk(2, answers()) as (client, agent):
        session = await setup.new_session(client, "/work", _never)
        assert [(each["configId"], each["value"]) for each in _set(agent)] == [
            ("fast", True),
            ("model", "code"),
            ("mode", "code"),
        ]
        values = [getattr(each, "current_value", None) for each in session.state.config_options]
        assert values == ["code", "code", True]


@simulated
async def test_what_is_set_already_is_not_set_again() -> None:
    setup = SessionSetup(mode="ask", options={"fast": False, "model": "ask"})
    async with talk(2, answers()) as (client, agent):
        await setup.new_session(client, "/work", _never)
        assert _set(agent) == []


WRONG: dict[str, tuple[SessionSetup, str]] = {
    "mode": (
        SessionSetup(mode="plan"),
        "mode 'plan': the agent does not offer it; there are ask, code.",
    ),
    "value": (
        SessionSetup(options={"model": "big"}),
        "option 'model' set to 'big': the agent does not offer it; there are ask, code.",
    ),
    "option": (
        SessionSetup(options={"modle": "ask"}),
        "option 'modle': the agent has no such option; there are mode, model, fast.",
    ),
    "text": (
        SessionSetup(options={"fast": "yes"}),
        "option 'fast': its value must be true or false.",
    ),
    "switch": (SessionSetup(options={"model": True}), "option 'model': its value must be a text."),
}


@pytest.mark.parametrize("case", WRONG)
@simulated
async def test_what_the_agent_does_not_have_is_an_error(case: str) -> None:
    setup, text = WRONG[case]
    async with talk(2, answers()) as (client, agent):
        with pytest.raises(SetupFailed) as caught:
            await setup.new_session(client, "/work", _never)
        assert str(caught.value) == f"The session cannot begin with {text}"
        assert _set(agent) == []


@simulated
async def test_a_mode_of_an_agent_without_modes_is_an_error() -> None:
    async with talk(2) as (client, _):
        with pytest.raises(SetupFailed, match="the agent has no modes"):
            await SessionSetup(mode="plan").new_session(client, "/work", _never)


@simulated
async def test_an_option_that_the_agent_refuses_is_an_error() -> None:
    def refuse(agent: RawAgent, message: Json) -> None:
        agent.refuse(message, -32000, "no")

    setup = SessionSetup(options={"fast": True})
    async with talk(2, {**answers(), "session/set_config_option": refuse}) as (client, _):
        with pytest.raises(RequestFailed):
            await setup.new_session(client, "/work", _never)


@simulated
async def test_a_server_that_the_agent_cannot_use_is_left_out_with_a_warning() -> None:
    reported: list[Problem] = []
    setup = SessionSetup(mcp_servers=(STDIO, HTTP))
    async with talk(2, answers()) as (client, agent):
        await setup.new_session(client, "/work", reported.append)
        (params,) = sent(agent, "session/new")
        assert [each["name"] for each in params["mcpServers"]] == ["files"]
    assert [(each.kind, str(each)) for each in reported] == [
        ("setup", "An MCP server is left out: raw reaches no MCP servers over HTTP (web).")
    ]


@simulated
async def test_every_server_goes_to_an_agent_that_takes_them() -> None:
    able: Json = {"session": {"prompt": {}, "mcp": {"stdio": {}, "http": {}}}}
    hello = {**answers(), "initialize": {**V2, "capabilities": able}}
    async with talk(2, hello) as (client, agent):
        setup = SessionSetup(mcp_servers=(STDIO, HTTP))
        await setup.new_session(client, "/work", _never)
        (params,) = sent(agent, "session/new")
        assert [each["name"] for each in params["mcpServers"]] == ["files", "web"]


@simulated
async def test_a_session_that_is_opened_again_gets_the_servers_but_keeps_its_mode() -> None:
    setup = SessionSetup(mcp_servers=(STDIO,), mode="code", options={"fast": True})
    async with talk(2, answers()) as (client, agent):
        await setup.reopen(client, "old", "/work", ["raw"], _never, replay=False)
        (params,) = sent(agent, "session/resume")
        assert [each["name"] for each in params["mcpServers"]] == ["files"]
        assert _set(agent) == []


def _never(problem: Problem) -> None:
    raise AssertionError(problem)


def _set(agent: RawAgent) -> list[Json]:
    return sent(agent, "session/set_config_option")
