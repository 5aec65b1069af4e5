"""Wrong arguments of an agent's author raise where they are passed, and nothing of them is sent."""

import asyncio
import functools
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twofold
from tests.support.raw_client import Version, an_agent, in_session, settled, talking
from tests.support.real_time import in_real_time, run
from twofold import InvalidArgument, v2
from twofold.agent.turn import ALLOW
from twofold.wire.base import UNSET

UNTYPED: Any = v2
"""The structs, so that they can be made with wrong fields."""

NOT_TEXT: list[Any] = [123, b"x", ["x"], object()]
NOT_TEXT_OR_NONE = NOT_TEXT
TEXT_ONLY = [None, *NOT_TEXT]
NOT_A_PATH: list[Any] = [123, b"x", Path, ["x"]]
NOT_A_NUMBER: list[Any] = ["1", 1.5, True, None, -1]
NOT_A_LIST: list[Any] = ["do it", b"x", 1, {"a": 1}]
NOT_JSON: list[Any] = [object(), {"a": object()}, {1j}]
NOT_CONTENT: list[Any] = [123, None, b"x", ["x"], object(), UNTYPED.TextContent(123)]
NOT_LOCATIONS: list[Any] = [
    *NOT_A_LIST[:3],
    [1],
    [("a", 0)],
    [("a", "1")],
    [("a", 1, 2)],
    [v2.ToolCallLocation("a", -1)],
]
NOT_CALLABLE: list[Any] = ["stop", 1]
NOT_A_KIND: list[Any] = [*NOT_TEXT, "", "reed"]
NOT_COMMANDS: list[Any] = [*NOT_A_LIST, None, ["tidy"], [UNTYPED.Command("a", 1)]]
NOT_OPTIONS: list[Any] = [
    *NOT_A_LIST,
    None,
    ["mode"],
    [UNTYPED.SessionConfigBoolean("a", "A", current_value="yes")],
]
NOT_AN_UPDATE: list[Any] = [
    "hello",
    None,
    v2.TextContent("x"),
    v2.UsageUpdate(-1, 2),
    UNTYPED.AgentMessageChunk("m", "x"),
    {"sessionUpdate": "notice"},
]
NOTICE = {"title": TEXT_ONLY, "description": TEXT_ONLY, "severity": [*NOT_A_KIND, None]}
USAGE = {
    "used": NOT_A_NUMBER,
    "size": NOT_A_NUMBER,
    "cost": [
        0.1,
        "1",
        UNTYPED.Cost("1", "USD"),
        UNTYPED.Cost(1.0, 2),
        UNTYPED.Cost(math.nan, "USD"),
    ],
}
TERMINAL = {"command": NOT_TEXT_OR_NONE, "cwd": NOT_A_PATH, "on_cancel": NOT_CALLABLE}

Wrong = dict[str, list[Any]]
WRONG: dict[type, dict[str, Wrong]] = {
    twofold.Turn: {
        "send": {"update": NOT_AN_UPDATE},
        "say": {"content": NOT_CONTENT},
        "think": {"content": NOT_CONTENT},
        "message": {"message_id": NOT_TEXT_OR_NONE},
        "thought": {"message_id": NOT_TEXT_OR_NONE},
        "tool_call": {
            "title": TEXT_ONLY,
            "kind": [*NOT_A_KIND, None],
            "name": NOT_TEXT_OR_NONE,
            "locations": [*NOT_LOCATIONS, None],
            "raw_input": NOT_JSON,
            "tool_call_id": NOT_TEXT_OR_NONE,
            "on_cancel": NOT_CALLABLE,
        },
        "terminal": TERMINAL,
        "plan": {
            "steps": [
                *NOT_A_LIST,
                None,
                [1],
                [("a",)],
                [("a", "done")],
                [(1, "pending")],
                [v2.PlanEntry("a", "urgent", "pending")],
                [v2.PlanEntry("a", "high", "done")],
                [UNTYPED.PlanEntry(1, "high", "pending")],
            ],
            "plan_id": TEXT_ONLY,
        },
        "ask": {
            "title": TEXT_ONLY,
            "call": ["call-1", 1],
            "description": TEXT_ONLY,
            "options": [
                *NOT_A_LIST,
                None,
                ["allow"],
                [v2.PermissionOption("a", "A", "allow")],
                [UNTYPED.PermissionOption(1, "A", "allow_once")],
            ],
            "command": NOT_TEXT_OR_NONE,
            "cwd": NOT_A_PATH,
        },
        "title": {"title": NOT_TEXT_OR_NONE},
        "usage": USAGE,
        "commands": {"commands": NOT_COMMANDS},
        "config_options": {"options": NOT_OPTIONS},
        "notice": NOTICE,
    },
    twofold.MessageHandle: {
        "append": {"content": NOT_CONTENT},
        "replace": {"content": NOT_CONTENT},
    },
    twofold.ToolCallHandle: {
        "append": {"item": [*NOT_CONTENT, UNTYPED.Diff([1])]},
        "replace": {"items": NOT_CONTENT},
        "diff": {"path": [*NOT_A_PATH, None], "old": NOT_TEXT_OR_NONE, "new": NOT_TEXT_OR_NONE},
        "patch": {"text": TEXT_ONLY},
        "terminal": TERMINAL,
        "locate": {"locations": [1, None, ("a", 0), ("a", True), v2.ToolCallLocation("a", 0)]},
        "update": {
            "title": NOT_TEXT,
            "kind": NOT_A_KIND,
            "status": [*NOT_A_KIND, "done"],
            "name": NOT_TEXT,
            "content": [*NOT_A_LIST, [1]],
            "locations": NOT_LOCATIONS,
            "raw_input": NOT_JSON,
            "raw_output": NOT_JSON,
            "meta": ["x", 1, {"a": object()}],
        },
        "complete": {"raw_output": NOT_JSON},
        "fail": {"reason": TEXT_ONLY, "raw_output": NOT_JSON},
    },
    twofold.TerminalHandle: {
        "write": {"output": [123, None, ["x"], object()]},
        "exit": {"code": ["0", 1.5, True], "signal": NOT_TEXT_OR_NONE},
    },
    twofold.AgentSession: {
        "send": {"update": NOT_AN_UPDATE},
        "title": {"title": NOT_TEXT_OR_NONE},
        "usage": USAGE,
        "commands": {"commands": NOT_COMMANDS},
        "config_options": {"options": NOT_OPTIONS},
        "option": {"config_id": TEXT_ONLY},
        "set_option": {"config_id": TEXT_ONLY, "value": [1, None, ["x"]]},
        "notice": NOTICE,
        "request_permission": {
            "request": [
                None,
                "May I?",
                v2.RequestPermissionRequest("another", "May I?", [ALLOW]),
                UNTYPED.RequestPermissionRequest("s", 1, [ALLOW]),
            ]
        },
    },
}
RIGHT: dict[str, Any] = {
    "content": "x",
    "item": "x",
    "items": "x",
    "title": "Work",
    "steps": ["a"],
    "text": "x",
    "used": 1,
    "size": 2,
    "commands": [],
    "options": [],
    "config_id": "mode",
    "value": "ask",
    "path": "a",
    "old": "a\n",
    "new": "b\n",
    "output": b"x",
    "locations": "a",
}
"""An allowed value for every parameter that has no default."""


def cases() -> list[Any]:
    return [
        pytest.param(shape, method, name, value, id=f"{shape.__name__}.{method}-{name}-{index}")
        for shape, methods in WRONG.items()
        for method, parameters in methods.items()
        for name, values in parameters.items()
        for index, value in enumerate(values)
    ]


def public_parameters(shape: type) -> dict[str, list[str]]:
    """The public methods that take arguments, and the names of these."""
    found = {}
    for name, member in inspect.getmembers(shape, inspect.isfunction):
        parameters = list(inspect.signature(member).parameters)[1:]
        if not name.startswith("_") and parameters:
            found[name] = parameters
    return found


@pytest.mark.parametrize("shape", WRONG)
def test_every_parameter_of_every_public_method_is_tried(shape: type) -> None:
    tried = {method: list(parameters) for method, parameters in WRONG[shape].items()}
    assert tried == public_parameters(shape)


async def call_with(target: Any, method: str, name: str, value: Any) -> None:
    """Call a method with one wrong argument, and allowed ones for the rest."""
    function = getattr(target, method)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.append(value if parameter.name == name else RIGHT[parameter.name])
        elif parameter.name == name:
            keywords[name] = value
        elif parameter.default is parameter.empty:
            keywords[parameter.name] = RIGHT[parameter.name]
    result = function(*positional, **keywords)
    if inspect.isawaitable(result):
        await result


async def refusals(version: Version, failures: list[str]) -> None:
    agent, problems = an_agent()

    async def tried(target: Any, method: str, name: str, value: Any) -> None:
        with pytest.raises((TypeError, InvalidArgument), match=name):
            await call_with(target, method, name, value)

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        call = turn.tool_call("Work", tool_call_id="c")
        await call.start()
        targets: dict[type, Any] = {
            twofold.Turn: turn,
            twofold.MessageHandle: turn.message("m"),
            twofold.ToolCallHandle: call,
            twofold.TerminalHandle: await call.terminal(),
            twofold.AgentSession: turn.session,
        }
        await settled()
        before, state = bytes(client.lines), twofold.snapshot(turn.session.state)
        for shape, method, name, value in (case.values for case in cases()):
            try:
                await tried(targets[shape], method, name, value)
            except (Exception, pytest.fail.Exception) as error:
                failures.append(f"{shape.__name__}.{method}({name}={value!r}): {error!r}")
        await settled()
        assert bytes(client.lines) == before
        assert twofold.snapshot(turn.session.state) == state

    async with in_session(agent, version) as client:
        client.prompt()
        await client.wait_for("idle end_turn" if version == 2 else "result end_turn")
    assert [each for each in problems if each.kind != "loss"] == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_wrong_argument_raises_names_itself_and_sends_nothing(version: Version) -> None:
    failures: list[str] = []
    run(refusals(version, failures))
    assert failures == []


# ---- the agent itself ------------------------------------------------------------------------

NOT_VALID: dict[str, list[Any]] = {
    "name": [*TEXT_ONLY, ""],
    "version": [*TEXT_ONLY, "", 1],
    "title": NOT_TEXT_OR_NONE,
    "prompts": [None, "image", 1, ["video"]],
    "mcp": [None, "stdio", 1, ["sse"]],
    "auth_methods": [None, "token", ["token"], [UNTYPED.AuthMethodAgent(1, "x")]],
    "keep": [1, b"x", object()],
    "protocol_versions": [None, 1, "1", ["1"], [True], [3], []],
    "new_session_id": [None, "s"],
    "cancel_timeout": [None, "5", -1, math.inf, math.nan, True],
    "line_limit": [None, "5", 0, -1, 1.5, True],
    "on_problem": [None, "log"],
}


def test_every_argument_of_the_constructor_is_tried() -> None:
    assert list(NOT_VALID) == list(inspect.signature(twofold.Agent).parameters)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in NOT_VALID.items() for value in values]
)
def test_an_agent_is_not_made_with_a_wrong_argument(name: str, value: Any) -> None:
    with pytest.raises((TypeError, InvalidArgument), match=name):
        twofold.Agent(**{"name": "x", name: value})


def test_an_agent_serves_a_transport_and_nothing_else() -> None:
    transport: Any = "stdio"
    with pytest.raises(TypeError, match="transport must be a Transport"):
        asyncio.run(twofold.Agent("x").serve(transport))


@in_real_time
async def test_a_session_id_that_is_no_string_is_reported_and_the_request_fails() -> None:
    agent, problems = an_agent(new_session_id=lambda: 7)
    async with talking(agent, 2) as client:
        reply = await client.reply(client.ask("session/new", {"cwd": "/", "mcpServers": []}))
        assert reply["error"]["code"] == -32603
    assert "new_session_id must be a str, not int" in problems[0].text


# ---- handlers --------------------------------------------------------------------------------


async def handler(*arguments: Any) -> None: ...


def plain(*arguments: Any) -> None: ...


class Callables:
    async def method(self, *arguments: Any) -> None: ...

    async def __call__(self, *arguments: Any) -> None: ...


@functools.wraps(handler)
def wrapped(*arguments: Any) -> Any:
    return handler(*arguments)


HOOKS = [name for name in dir(twofold.Agent) if name.startswith("on_")]


def registered(hook: str, function: Any) -> Any:
    agent = twofold.Agent("x")
    register: Callable[[Any], Any] = getattr(agent, hook)
    if hook in ("on_request", "on_notification"):
        register = register("_mine")
    return register(function)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_handler_that_is_not_async_is_refused_when_it_is_registered(hook: str) -> None:
    for wrong in (plain, lambda *arguments: None, None, "answer", Callables, functools.partial):
        with pytest.raises(TypeError, match=f"{hook} must be given an `async def` function"):
            registered(hook, wrong)


@pytest.mark.parametrize("hook", HOOKS)
def test_an_async_handler_of_any_form_is_registered_and_returned(hook: str) -> None:
    partial = functools.partial(handler, 1)
    for right in (handler, Callables().method, Callables(), partial, wrapped):
        assert registered(hook, right) is right


@pytest.mark.parametrize("hook", ["on_request", "on_notification"])
def test_the_name_of_an_extension_is_a_string(hook: str) -> None:
    with pytest.raises(TypeError, match="method must be a str, not int"):
        getattr(twofold.Agent("x"), hook)(1)


# ---- what is allowed stays allowed -----------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@in_real_time
async def test_values_of_ones_own_start_with_an_underscore(version: Version) -> None:
    agent, problems = an_agent()

    @agent.on_prompt
    async def answer(turn: twofold.Turn) -> None:
        async with turn.tool_call("Dream", kind="_dream", tool_call_id="c") as call:
            await call.update(status="_asleep", title=None, raw_input=UNSET, raw_output=None)
            assert call.status == "_asleep"
            await call.locate(Path("a"), ("b", 1), v2.ToolCallLocation("/c"))
        await turn.plan((("a", "_later"), v2.PlanEntry("b", "_some", "pending")))
        await turn.notice("Psst", severity="_whisper")

    async with in_session(agent, version) as client:
        client.prompt()
        await client.wait_for("idle end_turn" if version == 2 else "result end_turn")
        paths = [each.path for each in agent.open_sessions["s"].state.tool_calls["c"].locations]
        assert paths == ["/work/a", "/work/b", "/c"]
    assert [each for each in problems if each.kind != "loss"] == []
