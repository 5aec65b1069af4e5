"""The requests that an agent answers: initialize, logins, extensions, new sessions, options."""

import asyncio
from typing import Any

import pytest

import twofold
from tests.peers.validators import SchemaValidator
from tests.support.raw_client import (
    INITIALIZE,
    Json,
    Version,
    an_agent,
    in_session,
    settled,
    talking,
)
from tests.support.real_time import in_real_time
from twofold import RequestError, v2
from twofold.errors import LocalError
from twofold.rpc.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
)

BOTH = pytest.mark.parametrize("version", [1, 2])

# ---- initialize ------------------------------------------------------------------------------

ME = {"name": "c", "version": "1"}


@pytest.mark.parametrize(
    ("params", "versions", "answered"),
    [
        ({"protocolVersion": 1}, (1, 2), 1),
        ({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": ME}, (1, 2), 1),
        ({"protocolVersion": 0}, (1, 2), 1),
        ({"protocolVersion": 2, "info": ME, "capabilities": {}}, (1, 2), 2),
        ({"protocolVersion": 2, "capabilities": {}}, (1, 2), 2),
        ({"protocolVersion": 2}, (1, 2), 2),
        ({"protocolVersion": 3, "info": ME, "novelty": [1]}, (1, 2), 2),
        # one that shows both speaks what it asks for
        ({"protocolVersion": 2, "capabilities": {}, "clientCapabilities": {}}, (1, 2), 2),
        ({"protocolVersion": 2, "info": ME, "clientInfo": ME}, (1, 2), 2),
        ({"protocolVersion": 1, "capabilities": {}, "clientCapabilities": {}}, (1, 2), 1),
        # its capabilities are of version 1, whatever version it asks for
        ({"protocolVersion": 2, "clientInfo": ME}, (1, 2), 1),
        ({"protocolVersion": 2, "clientCapabilities": {"terminal": True}}, (1, 2), 1),
        ({"protocolVersion": 1, "info": ME, "capabilities": {}}, (1, 2), 1),
        ({"protocolVersion": 2, "info": ME}, (1,), 1),
        ({"protocolVersion": 1, "clientInfo": ME}, (2,), 2),
    ],
)
@in_real_time
async def test_a_client_is_answered_in_the_version_it_speaks(
    params: Json, versions: tuple[Version, ...], answered: Version
) -> None:
    agent, problems = an_agent(protocol_versions=versions)
    async with talking(agent, answered, initialized=False) as client:
        result = await client.call("initialize", params)
        assert result["protocolVersion"] == answered
        assert ("info" if answered == 2 else "agentInfo") in result
        assert ("capabilities" if answered == 2 else "agentCapabilities") in result
        await client.new_session()
    assert problems == []


@pytest.mark.parametrize("asked", ["1", None, True, 1.5, -1.5, [], {}, 1 << 70])
@in_real_time
async def test_a_version_that_is_none_is_refused_and_nothing_is_agreed_on(asked: Any) -> None:
    agent, _ = an_agent()
    async with talking(agent, 2, initialized=False) as client:
        error = await client.refused("initialize", {"protocolVersion": asked, "info": ME})
        assert error["code"] == INVALID_PARAMS
        error = await client.refused("session/list")
        assert error["code"] == INVALID_REQUEST
        assert (await client.initialize())["protocolVersion"] == 2


@in_real_time
async def test_nothing_is_answered_before_initialize() -> None:
    agent, _ = an_agent()

    @agent.on_request("_mine")
    async def mine(params: Any) -> Any:
        return params

    async with talking(agent, 2, initialized=False) as client:
        for method in ("session/new", "session/list", "_mine", "nonsense"):
            error = await client.refused(method, {"cwd": "/"})
            assert error["code"] == INVALID_REQUEST
            assert error["data"]["reason"] == "initialize comes first"


@in_real_time
async def test_a_client_may_initialize_again_in_another_version_until_it_has_a_session() -> None:
    agent, _ = an_agent()
    async with talking(agent, 2) as client:
        assert (await client.call("initialize", INITIALIZE[1]))["protocolVersion"] == 1
        assert (await client.call("initialize", INITIALIZE[2]))["protocolVersion"] == 2
        await client.new_session()
        error = await client.refused("initialize", INITIALIZE[1])
        assert (error["code"], error["message"]) == (INVALID_REQUEST, "Already initialized")
        await client.call("session/close", {"sessionId": "s"})
        assert (await client.call("initialize", INITIALIZE[1]))["protocolVersion"] == 1


@in_real_time
async def test_a_client_may_send_everything_at_once_without_waiting() -> None:
    agent, _ = an_agent()
    async with talking(agent, 2, initialized=False) as client:
        with client.at_once():
            client.ask("initialize", INITIALIZE[2])
            client.ask("session/new", {"cwd": "/"})
            client.ask("session/list")
        await client.wait_for("result", 3)
        assert client.story() == ["result", "result", "result"]
        assert [session["sessionId"] for session in client.messages[2]["result"]["sessions"]]


METHODS = [
    v2.AuthMethodAgent("token", "Token", "from the settings"),
    v2.AuthMethodTerminal("tty", "In a terminal", args=["--login"]),
]
TERMINAL: dict[Version, Json] = {
    1: {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": True}}},
    2: {**INITIALIZE[2], "capabilities": {"auth": {"terminal": {}}}},
}


@BOTH
@in_real_time
async def test_an_agent_announces_the_capabilities_it_was_given_and_no_others(
    version: Version, valid: SchemaValidator
) -> None:
    plain, _ = an_agent(prompts=(), title="Tested")
    async with talking(plain, version, initialized=False) as client:
        modest = await client.initialize()
    able, _ = an_agent(prompts=["image"], mcp=["stdio", "http"], auth_methods=METHODS)
    async with talking(able, version, initialized=False) as client:
        proud = await client.initialize()
        prouder = await client.call("initialize", TERMINAL[version])
    for result in (modest, proud, prouder):
        assert valid(version, "stable", "InitializeResponse", result) == []
    assert ANNOUNCED[version] == (modest, proud, prouder)


_TESTED = {"name": "tested", "version": "1"}
_TOKEN = {"name": "Token", "description": "from the settings"}
_SESSION_V1: Json = {
    "list": {},
    "delete": {},
    "additionalDirectories": {},
    "resume": {},
    "close": {},
}
_PROUD_V1 = {
    "protocolVersion": 1,
    "agentInfo": _TESTED,
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True},
        "mcpCapabilities": {"http": True},
        "sessionCapabilities": _SESSION_V1,
        "auth": {"logout": {}},
    },
    "authMethods": [{"id": "token", **_TOKEN}],
}
_PROUD_V2 = {
    "protocolVersion": 2,
    "info": _TESTED,
    "capabilities": {
        "session": {
            "prompt": {"image": {}},
            "mcp": {"stdio": {}, "http": {}},
            "delete": {},
            "additionalDirectories": {},
        }
    },
    "authMethods": [{"type": "agent", "methodId": "token", **_TOKEN}],
}
ANNOUNCED: dict[Version, tuple[Json, Json, Json]] = {
    1: (
        {
            "protocolVersion": 1,
            "agentInfo": {**_TESTED, "title": "Tested"},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {},
                "sessionCapabilities": _SESSION_V1,
            },
        },
        _PROUD_V1,
        {
            **_PROUD_V1,
            "authMethods": [
                {"id": "token", **_TOKEN},
                {"type": "terminal", "id": "tty", "name": "In a terminal", "args": ["--login"]},
            ],
        },
    ),
    2: (
        {
            "protocolVersion": 2,
            "info": {**_TESTED, "title": "Tested"},
            "capabilities": {"session": {"prompt": {}, "delete": {}, "additionalDirectories": {}}},
        },
        _PROUD_V2,
        {
            **_PROUD_V2,
            "authMethods": [
                {"type": "agent", "methodId": "token", **_TOKEN},
                {
                    "type": "terminal",
                    "methodId": "tty",
                    "name": "In a terminal",
                    "args": ["--login"],
                },
            ],
        },
    ),
}


@BOTH
@in_real_time
async def test_a_handler_is_given_the_info_of_the_client(version: Version) -> None:
    agent, _ = an_agent()
    seen: list[tuple[int, str]] = []

    @agent.on_new_session
    async def prepare(session: twofold.AgentSession) -> None:
        assert session.client is not None
        seen.append((session.protocol_version, session.client.info.name))

    async with talking(agent, version, initialized=False) as client:
        info = {"clientInfo" if version == 1 else "info": {"name": "it", "version": "1"}}
        await client.call("initialize", {"protocolVersion": version, **info})
        await client.new_session()
    assert seen == [(version, "it")]


@pytest.mark.parametrize("versions", [(), (3,), (1, 2, 3)])
def test_an_agent_speaks_versions_that_there_are(versions: Any) -> None:
    with pytest.raises(LocalError, match="protocol_versions must hold"):
        twofold.Agent("x", protocol_versions=versions)


# ---- requests and notifications --------------------------------------------------------------

REFUSED: list[tuple[Version, str, Json, int]] = [
    (1, "nonsense", {}, METHOD_NOT_FOUND),
    (2, "nonsense", {}, METHOD_NOT_FOUND),
    (1, "_nonsense", {}, METHOD_NOT_FOUND),
    (2, "_nonsense", {}, METHOD_NOT_FOUND),
    # what a client does, what only the other version has, what is no request
    (1, "fs/read_text_file", {"sessionId": "s", "path": "/a"}, METHOD_NOT_FOUND),
    (2, "session/request_permission", {}, METHOD_NOT_FOUND),
    (1, "auth/login", {"methodId": "x"}, METHOD_NOT_FOUND),
    (1, "tool_call/cancel", {"sessionId": "s", "toolCallId": "c"}, METHOD_NOT_FOUND),
    (2, "session/load", {"sessionId": "s", "cwd": "/"}, METHOD_NOT_FOUND),
    (2, "session/set_mode", {"sessionId": "s", "modeId": "m"}, METHOD_NOT_FOUND),
    (1, "session/cancel", {"sessionId": "s"}, METHOD_NOT_FOUND),
    (2, "session/cancel", {"sessionId": "s"}, METHOD_NOT_FOUND),
    (1, "$/cancel_request", {"requestId": 1}, METHOD_NOT_FOUND),
    (2, "logout", {}, METHOD_NOT_FOUND),
    (1, "logout", {}, METHOD_NOT_FOUND),
    (2, "auth/logout", {}, METHOD_NOT_FOUND),
    (1, "session/new", {}, INVALID_PARAMS),
    (1, "session/new", {"cwd": "/"}, INVALID_PARAMS),
    (2, "session/new", {"cwd": 5}, INVALID_PARAMS),
    (2, "session/new", {"cwd": "/", "mcpServers": [{"type": "stdio"}]}, INVALID_PARAMS),
    (1, "session/prompt", {"sessionId": "s"}, INVALID_PARAMS),
    (1, "session/prompt", {"sessionId": "s", "prompt": []}, INVALID_PARAMS),
    (2, "session/prompt", {"sessionId": "s", "prompt": []}, INVALID_PARAMS),
    (2, "session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]}, INVALID_PARAMS),
    (1, "session/prompt", {"sessionId": "?", "prompt": [{"type": "text", "text": "x"}]}, -32002),
    (2, "session/prompt", {"sessionId": "?", "prompt": [{"type": "text", "text": "x"}]}, -32002),
    (1, "session/load", {"sessionId": "?", "cwd": "/", "mcpServers": []}, RESOURCE_NOT_FOUND),
    (1, "session/resume", {"sessionId": "?", "cwd": "/"}, RESOURCE_NOT_FOUND),
    (2, "session/resume", {"sessionId": "?", "cwd": "/"}, RESOURCE_NOT_FOUND),
    (
        2,
        "session/resume",
        {"sessionId": "s", "cwd": "/", "replayFrom": {"type": "yesterday"}},
        INVALID_PARAMS,
    ),
    (1, "session/set_mode", {"sessionId": "s", "modeId": "m"}, INVALID_PARAMS),
    (1, "session/set_mode", {"sessionId": "?", "modeId": "m"}, RESOURCE_NOT_FOUND),
    (
        2,
        "session/set_config_option",
        {"sessionId": "s", "configId": "x", "type": "id", "value": "y"},
        INVALID_PARAMS,
    ),
    (2, "tool_call/cancel", {"sessionId": "s", "toolCallId": "c"}, INVALID_PARAMS),
    (2, "terminal/cancel", {"sessionId": "s", "terminalId": "t"}, INVALID_PARAMS),
    (2, "session/list", {"cursor": "not ours"}, INVALID_PARAMS),
    (2, "session/list", {"cursor": "e30="}, INVALID_PARAMS),
    (1, "authenticate", {"methodId": "?"}, INVALID_PARAMS),
    (2, "auth/login", {"methodId": "?"}, INVALID_PARAMS),
]


@pytest.mark.parametrize(("version", "method", "params", "code"), REFUSED)
@in_real_time
async def test_what_cannot_be_answered_is_refused_and_the_conversation_goes_on(
    version: Version, method: str, params: Json, code: int
) -> None:
    agent, problems = an_agent()
    async with in_session(agent, version) as client:
        assert (await client.refused(method, params))["code"] == code
        await client.call("session/list")
    assert problems == []


@pytest.mark.parametrize(
    ("block", "taken"),
    [
        ({"type": "text", "text": "x"}, True),
        ({"type": "resource_link", "name": "x", "uri": "file:///x"}, True),
        ({"type": "image", "data": "eA==", "mimeType": "image/png"}, False),
        ({"type": "audio", "data": "eA==", "mimeType": "audio/wav"}, False),
        ({"type": "resource", "resource": {"text": "x", "uri": "file:///x"}}, False),
        ({"type": "hologram", "data": "x"}, False),
    ],
)
@BOTH
@in_real_time
async def test_a_prompt_holds_only_content_that_the_agent_declared(
    version: Version, block: Json, taken: bool
) -> None:
    agent, _ = an_agent(prompts=())

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        assert len(turn.blocks) == 1

    async with in_session(agent, version) as client:
        reply = await client.reply(
            client.ask("session/prompt", {"sessionId": "s", "prompt": [block]})
        )
        assert ("result" in reply) == taken
        if not taken:
            assert reply["error"]["code"] == INVALID_PARAMS
            assert block["type"] in reply["error"]["data"]["reason"]


@BOTH
@in_real_time
async def test_extension_methods_and_notifications_reach_their_handlers(version: Version) -> None:
    agent, problems = an_agent()
    notes: list[Any] = []

    @agent.on_request("_tested/echo")
    async def echo(params: Any) -> Any:
        return {"you sent": params}

    @agent.on_request("_tested/refuse")
    async def refuse(params: Any) -> Any:
        raise RequestError(-31999, "Not today", {"try": "tomorrow"})

    @agent.on_request("_tested/fail")
    async def fail(params: Any) -> Any:
        raise ValueError("the password is hunter2")

    @agent.on_notification("_tested/note")
    async def note(params: Any) -> None:
        notes.append(params)

    @agent.on_notification("_tested/stumble")
    async def stumble(params: Any) -> None:
        raise ValueError("over a stone")

    async with talking(agent, version) as client:
        params = {"deep": [1, None, {"ü": True}]}
        assert await client.call("_tested/echo", params) == {"you sent": params}
        assert await client.refused("_tested/refuse") == {
            "code": -31999,
            "message": "Not today",
            "data": {"try": "tomorrow"},
        }
        error = await client.refused("_tested/fail")
        assert error == {"code": INTERNAL_ERROR, "message": "Internal error"}
        client.notify("_tested/note", {"n": 1})
        client.send({"method": "_tested/note"})
        client.notify("_tested/stumble")
        client.notify("_tested/unknown")
        client.notify("$/progress")
        client.notify("unknown")
        await settled()
    assert notes == [{"n": 1}, {}]
    assert [problem.kind for problem in problems] == ["handler", "noise", "handler"]
    assert "hunter2" in problems[0].text
    assert "unknown" in problems[1].text
    assert "over a stone" in problems[2].text
    assert b"hunter2" not in client.lines


def test_the_name_of_an_extension_starts_with_an_underscore() -> None:
    agent, _ = an_agent()
    for register in (agent.on_request, agent.on_notification):
        with pytest.raises(LocalError, match="_mine"):
            register("mine")


@in_real_time
async def test_a_handler_of_a_notification_that_does_not_end_ends_with_the_client() -> None:
    agent, _ = an_agent()
    ended = asyncio.Event()

    @agent.on_notification("_wait")
    async def wait(params: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with talking(agent, 2) as client:
        client.notify("_wait")
        await settled()
    assert ended.is_set()


# ---- authentication --------------------------------------------------------------------------


@BOTH
@in_real_time
async def test_a_session_may_need_a_login_first(version: Version) -> None:
    agent, problems = an_agent(auth_methods=METHODS)
    logged_in: list[str] = []

    @agent.on_new_session
    @agent.on_resume_session
    async def prepare(session: twofold.AgentSession) -> None:
        if not logged_in:
            raise RequestError(AUTH_REQUIRED, "Log in first")

    @agent.on_login
    async def log_in(method_id: str) -> None:
        logged_in.append(method_id)

    @agent.on_logout
    async def log_out() -> None:
        logged_in.clear()

    login = "authenticate" if version == 1 else "auth/login"
    async with talking(agent, version) as client:
        new = {"cwd": "/", "mcpServers": []}
        error = await client.refused("session/new", new)
        assert (error["code"], error["message"]) == (AUTH_REQUIRED, "Log in first")
        assert (await client.call("session/list"))["sessions"] == [], "nothing is left of it"
        assert (await client.refused(login, {"methodId": "tty"}))["code"] == INVALID_PARAMS
        await client.call(login, {"methodId": "token"})
        assert logged_in == ["token"]
        session = await client.new_session()
        await client.call("logout" if version == 1 else "auth/logout")
        assert logged_in == []
        await client.call("session/close", {"sessionId": session})
        assert (await client.reply(client.load(session)))["error"]["code"] == AUTH_REQUIRED
        assert (await client.reply(client.load(session)))["error"]["code"] == AUTH_REQUIRED
        await client.call(login, {"methodId": "token"})
        assert "result" in await client.reply(client.load(session))
    assert problems == []


@in_real_time
async def test_a_login_that_does_not_work_out_is_refused() -> None:
    agent, _ = an_agent(auth_methods=METHODS)

    @agent.on_login
    async def log_in(method_id: str) -> None:
        raise RequestError(AUTH_REQUIRED, "Wrong token")

    async with talking(agent, 2) as client:
        error = await client.refused("auth/login", {"methodId": "token"})
        assert error["message"] == "Wrong token"


# ---- what can be set -------------------------------------------------------------------------


def select(config_id: str, value: str, *values: str, **rest: Any) -> v2.SessionConfigSelect:
    return v2.SessionConfigSelect(
        config_id=config_id,
        name=config_id.title(),
        current_value=value,
        options=[v2.SessionConfigUngrouped(each, each.title()) for each in values],
        **rest,
    )


MODE = select("how", "ask", "ask", "code", category="mode")
MODEL = v2.SessionConfigSelect(
    config_id="model",
    name="Model",
    category="model",
    current_value="small",
    options=[
        v2.SessionConfigSelectGroup("all", "All", [v2.SessionConfigUngrouped("small", "Small")]),
        v2.SessionConfigSelectGroup("new", "New", [v2.SessionConfigUngrouped("large", "Large")]),
    ],
)
LOUD = v2.SessionConfigBoolean(config_id="loud", name="Loud", current_value=False)
COMMANDS = [v2.Command("tidy", "Tidy up"), v2.Command("go", "Go", v2.TextCommandInput("where"))]


def a_prepared_agent() -> twofold.Agent:
    agent, _ = an_agent()

    @agent.on_new_session
    async def prepare(session: twofold.AgentSession) -> None:
        await session.commands([v2.Command("too-early", "Is replaced")])
        await session.config_options([MODE])
        await session.config_options([MODE, MODEL, LOUD])
        await session.title("Prepared")
        await session.commands(COMMANDS)
        await session.usage(1, 100)

    return agent


@in_real_time
async def test_a_new_session_of_version_2_is_answered_before_its_updates() -> None:
    async with talking(a_prepared_agent(), 2) as client:
        client.mark()
        result = await client.call("session/new", {"cwd": "/"})
        assert [option["configId"] for option in result["configOptions"]] == [
            *("how", "model", "loud")
        ]
        assert [each["name"] for each in result["availableCommands"]] == ["tidy", "go"]
        await client.wait_for("usage_update")
        assert client.story() == PREPARED


PREPARED = ["result", "available_commands_update", "session_info_update", "usage_update"]
BOOLEANS = {
    "protocolVersion": 1,
    "clientCapabilities": {"session": {"configOptions": {"boolean": {}}}},
}


@pytest.mark.parametrize(
    ("hello", "shown"), [(INITIALIZE[1], ["how", "model"]), (BOOLEANS, ["how", "model", "loud"])]
)
@in_real_time
async def test_a_new_session_of_version_1_has_modes_and_gets_commands_afterwards(
    hello: Json, shown: list[str]
) -> None:
    async with talking(a_prepared_agent(), 1, initialized=False) as client:
        await client.call("initialize", hello)
        client.mark()
        result = await client.call("session/new", {"cwd": "/", "mcpServers": []})
        assert result["modes"] == {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
        }
        assert [option["id"] for option in result["configOptions"]] == shown
        assert "availableCommands" not in result
        await client.wait_for("usage_update")
        assert client.story() == PREPARED
        (update,) = [each for each in client.updates() if "availableCommands" in each]
        assert update["availableCommands"] == [
            {"name": "tidy", "description": "Tidy up"},
            {"name": "go", "description": "Go", "input": {"hint": "where"}},
        ]


@in_real_time
async def test_a_client_of_version_1_sets_a_mode_whatever_its_option_is_called() -> None:
    agent = a_prepared_agent()
    chosen: list[tuple[str, str | bool, str | bool | None]] = []

    @agent.on_config_option
    async def set_option(session: twofold.AgentSession, config_id: str, value: str | bool) -> None:
        chosen.append((config_id, value, session.option(config_id)))

    async with in_session(agent, 1) as client:
        assert await client.call("session/set_mode", {"sessionId": "s", "modeId": "code"}) == {}
        assert client.story() == ["config_option_update", "current_mode_update", "result"]
        assert client.updates()[-1]["currentModeId"] == "code"
        error = await client.refused("session/set_mode", {"sessionId": "s", "modeId": "?"})
        assert error["data"]["reason"] == "config option 'how' must be one of ask, code"
    assert chosen == [("how", "code", "code")]


SETTINGS: list[tuple[Json, Any]] = [
    ({"configId": "model", "type": "id", "value": "large"}, "large"),
    ({"configId": "loud", "type": "boolean", "value": True}, True),
    ({"configId": "how", "type": "id", "value": "code"}, "code"),
    ({"configId": "model", "type": "id", "value": "?"}, None),
    ({"configId": "loud", "type": "id", "value": "yes"}, None),
    ({"configId": "how", "type": "boolean", "value": True}, None),
    ({"configId": "?", "type": "id", "value": "x"}, None),
]


@pytest.mark.parametrize(("params", "value"), SETTINGS)
@BOTH
@in_real_time
async def test_setting_an_option_is_answered_with_all_of_them(
    version: Version, params: Json, value: Any
) -> None:
    async with talking(a_prepared_agent(), version, initialized=False) as client:
        await client.call("initialize", BOOLEANS if version == 1 else INITIALIZE[2])
        await client.new_session()
        key, asked = "configId", {"sessionId": "s", **params}
        if version == 1:
            key = "id"
            asked.pop("type")
        reply = await client.reply(client.ask("session/set_config_option", asked))
        assert client.story() == ["result" if value is not None else "error -32602"]
        if value is not None:
            options = {each[key]: each for each in reply["result"]["configOptions"]}
            assert list(options) == ["how", "model", "loud"]
            assert options[params["configId"]]["currentValue"] == value


@BOTH
@in_real_time
async def test_the_handler_of_an_option_has_the_last_word(version: Version) -> None:
    agent = a_prepared_agent()

    @agent.on_config_option
    async def set_option(session: twofold.AgentSession, config_id: str, value: str | bool) -> None:
        if value == "large":
            raise RequestError(AUTH_REQUIRED, "Too expensive")
        await session.set_option("model", "large")

    async with in_session(agent, version) as client:
        key, kind = ("id", {}) if version == 1 else ("configId", {"type": "id"})
        asked = {"sessionId": "s", "configId": "model", "value": "large", **kind}
        error = await client.refused("session/set_config_option", asked)
        assert error["message"] == "Too expensive"
        state = agent.open_sessions["s"]
        assert state.option("model") == "small", "nothing was set"
        asked = {"sessionId": "s", "configId": "how", "value": "code", **kind}
        result = await client.call("session/set_config_option", asked)
        values = {each[key]: each["currentValue"] for each in result["configOptions"]}
        assert (values["how"], values["model"]) == ("code", "large")
        assert (state.option("how"), state.option("model")) == ("code", "large")


@in_real_time
async def test_setting_an_option_that_there_is_not_raises() -> None:
    agent = a_prepared_agent()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        assert turn.session.option("?") is None
        for config_id, value in (("?", "x"), ("model", "?"), ("loud", "yes")):
            with pytest.raises(LocalError):
                await turn.session.set_option(config_id, value)

    async with in_session(agent, 2) as client:
        client.prompt()
        await client.wait_for("idle end_turn")


@in_real_time
async def test_an_id_that_is_taken_is_refused_and_its_session_stays() -> None:
    agent, problems = an_agent(new_session_id=lambda: "s")

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        await turn.say("still here")

    async with in_session(agent, 2) as client:
        assert (await client.refused("session/new", {"cwd": "/"}))["code"] == INTERNAL_ERROR
        client.prompt()
        await client.wait_for("idle end_turn")
        assert "agent_message_chunk" in client.story()
    assert "'s' already" in problems[0].text


@in_real_time
async def test_a_handler_that_fails_leaves_no_session_behind() -> None:
    agent, problems = an_agent()

    @agent.on_new_session
    async def prepare(session: twofold.AgentSession) -> None:
        await session.title("Half done")
        raise ValueError("the password is hunter2")

    async with talking(agent, 2) as client:
        client.mark()
        error = await client.refused("session/new", {"cwd": "/"})
        assert error == {"code": INTERNAL_ERROR, "message": "Internal error"}
        assert (await client.call("session/list"))["sessions"] == []
        await settled()
        assert client.story() == [f"error {INTERNAL_ERROR}", "result"]
    assert [problem.kind for problem in problems] == ["handler"]
    assert agent.open_sessions == {}


@in_real_time
async def test_permission_cannot_be_requested_before_the_client_has_the_session() -> None:
    agent, _ = an_agent()

    @agent.on_new_session
    async def prepare(session: twofold.AgentSession) -> None:
        options = [v2.PermissionOption("y", "Yes", "allow_once")]
        request = v2.RequestPermissionRequest(session.session_id, "May I?", options)
        with pytest.raises(LocalError, match="has the session"):
            await session.request_permission(request)

    async with talking(agent, 2) as client:
        await client.new_session()
