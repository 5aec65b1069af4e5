"""Requests and results of one version as those of the other: `convert.setup`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from tests.conftest import ValuesOf
from tests.peers.validators import NodeValidator, Schemas, SchemaValidator, Version
from tests.support.strategies import Json, values_of
from twofold.convert.capabilities import named
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.options import (
    downgrade_command,
    downgrade_config_option,
    has_mode_option,
    modes_of,
    option_of_modes,
    upgrade_command,
    upgrade_config_option,
)
from twofold.convert.requests import (
    downgrade_params,
    downgrade_result,
    upgrade_params,
    upgrade_result,
)
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Fault, Malformed, Wire
from twofold.wire.shared import Capability, Method

METHODS: dict[Version, dict[str, Method]] = {1: v1.METHODS, 2: v2.METHODS}
OTHER: dict[Version, Version] = {1: 2, 2: 1}

# Converted elsewhere, for their sense depends on what went before.
REMEMBERED = {"session/update", "session/request_permission"}
# What one version has and the other has not.
ONLY: dict[Version, set[str]] = {
    1: {name for name in v1.METHODS if name.startswith(("fs/", "terminal/"))},
    2: {"tool_call/cancel", "terminal/cancel"},
}


class Message(NamedTuple):
    """Params or a result of one version, with the method they belong to."""

    version: Version
    method: str
    part: str
    value: Any

    @property
    def shape(self) -> Any:
        return getattr(METHODS[self.version][self.method], self.part)

    def read(self) -> Any:
        return codec.read(self.value, self.shape)


def convert(message: Message, losses: Losses) -> Message:
    """The message in the other version."""
    return converted(message, message.read(), losses)


def converted(message: Message, struct: Any, losses: Losses) -> Message:
    method = message.method
    if message.part == "params":
        convert_params = upgrade_params if message.version == 1 else downgrade_params
        there, value = convert_params(method, struct, losses)
    else:
        convert_result = upgrade_result if message.version == 1 else downgrade_result
        value = convert_result(method, struct, losses)
        there = THERE[message.version].get(method, method)
    return Message(OTHER[message.version], there, message.part, codec.to_json(value))


THERE: dict[Version, dict[str, str]] = {
    1: {
        "authenticate": "auth/login",
        "logout": "auth/logout",
        "session/load": "session/resume",
        "session/set_mode": "session/set_config_option",
    },
    2: {"auth/login": "authenticate", "auth/logout": "logout"},
}


def convertible(version: Version) -> list[tuple[str, str]]:
    """Every params and result that is converted here."""
    return [
        (method, part)
        for method, row in METHODS[version].items()
        for part in ("params", "result")
        if method not in REMEMBERED | ONLY[version]
        and getattr(row, part) is not None
        and (method, part) not in {("session/prompt", "result"), ("session/set_mode", "result")}
    ]


EXAMPLES = 30  # of each law, for each of the messages below
ALL = [(version, *each) for version in (1, 2) for each in convertible(version)]


# ---- the same message in both versions -----------------------------------------------------

CHOICES = [{"value": "a", "name": "A", "description": "first"}, {"value": "b", "name": "B"}]
MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
MODE_OPTION = {
    "type": "select",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}
SELECT = {"type": "select", "name": "S", "currentValue": "a", "options": CHOICES}
SWITCH = {
    "type": "boolean",
    "name": "B",
    "currentValue": True,
    "description": "d",
    "_meta": {"k": 1},
}
OPTIONS_1: list[Json] = [
    {"id": "mode", **MODE_OPTION},
    {"id": "s", **SELECT},
    {"id": "b", **SWITCH},
]
OPTIONS_2: list[Json] = [
    {"configId": "mode", **MODE_OPTION},
    {"configId": "s", **SELECT},
    {"configId": "b", **SWITCH},
]
ENV = [{"name": "K", "value": "v"}]
HTTP = {"type": "http", "name": "h", "url": "https://example.com/mcp", "headers": ENV}
STDIO = {"name": "s", "command": "/bin/s", "args": ["-x"], "env": ENV}
ALL_MARKERS: Json = {"list": {}, "resume": {}, "close": {}}
UNDERSTOOD: Json = {"compaction": {}, "notices": {}, "configOptions": {"boolean": {}}}
INFO = {"name": "n", "version": "1", "title": "T"}
QUESTIONS = {
    "name": {"type": "string", "format": "email", "minLength": 1},
    "many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    "other": {"type": "_x", "of": [None]},
}
BLOCKS: list[Json] = [
    {"type": "text", "text": "hi", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "resource_link", "name": "n", "uri": "file:///n"},
]


FORM = {"mode": "form", "message": "m", "sessionId": "s"}
URL = {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://example.com"}


def client_1(**capabilities: Any) -> Json:
    return {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": capabilities}


def client_2(**capabilities: Any) -> Json:
    return {"protocolVersion": 2, "info": INFO, "capabilities": capabilities}


def agent_1(*auth_methods: Json, **capabilities: Any) -> Json:
    """An agent that has what version 2 takes for granted, and these capabilities."""
    able = {"loadSession": True, "sessionCapabilities": ALL_MARKERS, **capabilities}
    agent = {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": able}
    return {**agent, "authMethods": [*auth_methods]} if auth_methods else agent


def agent_2(*auth_methods: Json, **capabilities: Any) -> Json:
    """An agent that has what version 1 takes for granted, and these capabilities."""
    able = {"session": {"mcp": {"stdio": {}}}, **capabilities}
    agent = {"protocolVersion": 2, "info": INFO, "capabilities": able}
    return {**agent, "authMethods": [*auth_methods]} if auth_methods else agent


def form(properties: Json, **rest: Any) -> Json:
    return {**FORM, "requestedSchema": {"type": "object", "properties": properties, **rest}}


class Alike(NamedTuple):
    """The same params or result in both versions."""

    methods: tuple[str, str]
    part: str
    first: Any
    second: Any


def params(method: str, first: Any, second: Any = None, there: str = "") -> Alike:
    return Alike((method, there or method), "params", first, second or first)


def result(method: str, first: Any, second: Any = None, there: str = "") -> Alike:
    return Alike((method, there or method), "result", first, second or first)


TERMINAL = {"type": "terminal", "name": "TUI", "args": ["--login"]}
NEW = {"cwd": "/w", "additionalDirectories": ["/x"]}
KNOWN = {"sessionId": "s", "cwd": "/w"}
CONFIG = {"sessionId": "s", "configId": "c"}
SESSION = {
    **KNOWN,
    "additionalDirectories": ["/x"],
    "title": "t",
    "updatedAt": "2026-11-16T00:21:28.602Z",
}

SAID_ALIKE = [
    params(
        "initialize",
        client_1(session=UNDERSTOOD, auth={"terminal": True, "_x": 1}, elicitation={"form": {}}),
        client_2(auth={"terminal": {}, "_x": 1}, elicitation={"form": {}}),
    ),
    result(
        "initialize",
        agent_1(
            {"id": "login", "name": "Log in", "description": "d"},
            {"id": "tui", **TERMINAL, "env": {"K": "v"}},
            promptCapabilities={"image": True, "_meta": {"p": 1}},
            mcpCapabilities={"http": True},
            sessionCapabilities={**ALL_MARKERS, "delete": {"_meta": {"d": 1}}, "fork": {}},
            auth={"logout": {}, "_meta": {"status": {}}},
            providers={},
        ),
        agent_2(
            {"type": "agent", "methodId": "login", "name": "Log in", "description": "d"},
            {"methodId": "tui", **TERMINAL, "env": ENV},
            session={
                "prompt": {"image": {}, "_meta": {"p": 1}},
                "mcp": {"stdio": {}, "http": {}},
                "delete": {"_meta": {"d": 1}},
                "fork": {},
            },
            auth={"_meta": {"status": {}}},
            providers={},
        ),
    ),
    params("authenticate", {"methodId": "m", "_x": 1}, there="auth/login"),
    result("authenticate", {"_meta": {"k": 1}}, there="auth/login"),
    params("logout", {}, there="auth/logout"),
    result("logout", {}, there="auth/logout"),
    params(
        "session/new",
        {**NEW, "mcpServers": [STDIO, HTTP]},
        {**NEW, "mcpServers": [{"type": "stdio", **STDIO}, HTTP]},
    ),
    result(
        "session/new",
        {"sessionId": "s", "modes": MODES, "configOptions": OPTIONS_1},
        {"sessionId": "s", "configOptions": OPTIONS_2},
    ),
    params(
        "session/load",
        {**KNOWN, "mcpServers": [HTTP], "_meta": {"k": 1}},
        {**KNOWN, "mcpServers": [HTTP], "_meta": {"k": 1}, "replayFrom": {"type": "start"}},
        there="session/resume",
    ),
    params("session/resume", KNOWN),
    params("session/resume", {**KNOWN, "mcpServers": []}),
    result(
        "session/resume",
        {"modes": MODES, "configOptions": OPTIONS_1[:1]},
        {"configOptions": OPTIONS_2[:1]},
    ),
    result("session/resume", {"configOptions": []}),
    params("session/list", {"cwd": "/w", "cursor": "c"}),
    result("session/list", {"sessions": [SESSION], "nextCursor": "n"}),
    params("session/delete", {"sessionId": "s"}),
    result("session/delete", {}),
    params("session/close", {"sessionId": "s"}),
    result("session/close", {}),
    params("session/cancel", {"sessionId": "s"}),
    params(
        "session/set_config_option",
        {**CONFIG, "value": "a"},
        {**CONFIG, "type": "id", "value": "a"},
    ),
    params("session/set_config_option", {**CONFIG, "type": "boolean", "value": False}),
    result("session/set_config_option", {"configOptions": OPTIONS_1}, {"configOptions": OPTIONS_2}),
    params("session/prompt", {"sessionId": "s", "prompt": BLOCKS}),
    params("elicitation/create", form(QUESTIONS, required=["name"], title="T")),
    params("elicitation/create", {**URL, "requestId": 7}),
    params("elicitation/create", {"mode": "_x", "message": "m", "sessionId": "s", "y": []}),
    result(
        "elicitation/create",
        {"action": "accept", "content": {"a": "x", "b": 1, "c": 0.5, "d": True, "e": ["x"]}},
    ),
    result("elicitation/create", {"action": "decline"}),
    result("elicitation/create", {"action": "_x", "y": 1}),
    params("elicitation/complete", {"elicitationId": "e"}),
    params("$/cancel_request", {"requestId": "r"}),
]


@pytest.mark.parametrize("alike", SAID_ALIKE, ids=lambda alike: f"{alike.methods[0]}-{alike.part}")
def test_a_message_that_both_versions_have_goes_there_and_back(alike: Alike) -> None:
    losses = Losses(strict=True)
    first = Message(1, alike.methods[0], alike.part, alike.first)
    second = Message(2, alike.methods[1], alike.part, alike.second)
    assert convert(first, losses) == second
    assert convert(second, losses) == first


def test_every_method_has_an_example() -> None:
    shown = {
        (version, each.methods[version - 1], each.part) for version in (1, 2) for each in SAID_ALIKE
    }
    # which come back as something else: see below
    shown |= {(1, "session/load", "result"), (1, "session/set_mode", "params")}
    assert set(ALL) <= shown


# ---- what the other version has differently, or not at all --------------------------------

BARE_SELECT = {"type": "select", "name": "S", "currentValue": "a"}
UNKNOWN_OPTION = {"type": "_x", "name": "X", "of": 1}
NO_NAME = {"name": "unknown", "version": "0"}


class Case(NamedTuple):
    """A message, what becomes of it, and the paths of the losses that are reported."""

    version: Version
    method: str
    part: str
    value: Any
    expected: Any
    losses: list[str]


UPGRADED = {
    "an unnamed client gets a name": Case(
        *(1, "initialize", "params"),
        {"protocolVersion": 1},
        {"protocolVersion": 2, "info": NO_NAME},
        [],
    ),
    "a client that names nothing but its title gets a name and a version": Case(
        *(1, "initialize", "params"),
        {"protocolVersion": 1, "clientInfo": {"name": "", "version": "", "title": "T"}},
        {"protocolVersion": 2, "info": {**NO_NAME, "title": "T"}},
        [],
    ),
    "what only version 1 lets a client offer is lost": Case(
        *(1, "initialize", "params"),
        client_1(
            fs={"readTextFile": True, "writeTextFile": False, "_meta": {"k": 1}},
            terminal=True,
            auth={"terminal": False},
            session={"notices": {"_meta": {"k": 1}}},
        ),
        client_2(auth={}),
        [
            "clientCapabilities.fs.readTextFile",
            "clientCapabilities.fs",
            "clientCapabilities.terminal",
            "clientCapabilities.session.notices",
        ],
    ),
    "an agent without capabilities has sessions, and lacks what version 2 expects of them": Case(
        *(1, "initialize", "result"),
        {"protocolVersion": 1},
        {**agent_2(), "info": NO_NAME},
        [
            "agentCapabilities.loadSession",
            "agentCapabilities.sessionCapabilities.list",
            "agentCapabilities.sessionCapabilities.resume",
            "agentCapabilities.sessionCapabilities.close",
        ],
    ),
    "an agent with an empty version gets one": Case(
        *(1, "initialize", "result"),
        {**agent_1(), "agentInfo": {"name": "n", "version": ""}},
        {**agent_2(), "info": {"name": "n", "version": "0"}},
        [],
    ),
    "SSE has no word in version 2, false is left out": Case(
        *(1, "initialize", "result"),
        agent_1(
            promptCapabilities={"image": False, "audio": True},
            mcpCapabilities={"http": False, "sse": True},
        ),
        agent_2(session={"prompt": {"audio": {}}, "mcp": {"stdio": {}}}),
        ["agentCapabilities.mcpCapabilities.sse"],
    ),
    "logout without auth methods is lost": Case(
        *(1, "initialize", "result"),
        agent_1(auth={"logout": {}}),
        agent_2(),
        ["agentCapabilities.auth.logout"],
    ),
    "auth methods promise logout; an unknown one is kept, one without an id is not": Case(
        *(1, "initialize", "result"),
        agent_1(
            {"type": "env_var", "id": "k", "name": "Key", "vars": []},
            {"type": "agent", "id": "a", "name": "A"},
            {"type": "env_var", "name": "no id"},
            {"type": "env_var", "id": "k", "name": "Key", "methodId": "?"},
        ),
        agent_2(
            {"type": "env_var", "methodId": "k", "name": "Key", "vars": []},
            {"type": "agent", "methodId": "a", "name": "A"},
            {"type": "env_var", "methodId": "k", "name": "Key"},
        ),
        ["authMethods[2]", "authMethods[3].methodId", "agentCapabilities.auth.logout"],
    ),
    "servers that version 2 has not are left out": Case(
        *(1, "session/new", "params"),
        {
            "cwd": "/w",
            "mcpServers": [
                {**HTTP, "type": "sse"},
                {**HTTP, "url": "no uri"},
                {"type": "stdio", **STDIO},
                {"type": "_acp", "id": "x"},
                {"type": "stdio", "name": "no command"},
            ],
        },
        {"cwd": "/w", "mcpServers": [{"type": "stdio", **STDIO}, {"type": "_acp", "id": "x"}]},
        ["mcpServers[0]", "mcpServers[1].url", "mcpServers[4]"],
    ),
    "modes become the first config option": Case(
        *(1, "session/load", "result"),
        {"modes": {**MODES, "_meta": {"k": 1}}, "configOptions": OPTIONS_1[1:]},
        {"configOptions": [{**OPTIONS_2[0], "_meta": {"k": 1}}, *OPTIONS_2[1:]]},
        [],
    ),
    "modes without config options become the only one": Case(
        *(1, "session/new", "result"),
        {"sessionId": "s", "modes": MODES, "configOptions": None},
        {"sessionId": "s", "configOptions": OPTIONS_2[:1]},
        [],
    ),
    "nothing about modes and options stays nothing": Case(
        1, "session/resume", "result", {"modes": None, "configOptions": None}, {}, []
    ),
    "an agent's own mode option rules": Case(
        *(1, "session/resume", "result"),
        {"modes": {**MODES, "currentModeId": "code"}, "configOptions": OPTIONS_1},
        {"configOptions": OPTIONS_2},
        ["modes"],
    ),
    "no second option is called mode": Case(
        *(1, "session/resume", "result"),
        {"modes": MODES, "configOptions": [{"id": "mode", **SWITCH}]},
        {"configOptions": [{"configId": "mode", **SWITCH}]},
        ["modes"],
    ),
    "a choice among no modes is the current one": Case(
        *(1, "session/resume", "result"),
        {"modes": {"currentModeId": "ask", "availableModes": []}},
        {"configOptions": [{**OPTIONS_2[0], "options": [{"value": "ask", "name": "ask"}]}]},
        ["modes.availableModes"],
    ),
    "a choice among nothing is the current value": Case(
        *(1, "session/set_config_option", "result"),
        {
            "configOptions": [
                {"id": "s", **BARE_SELECT, "options": []},
                {"id": "g", **BARE_SELECT, "options": [{"group": "x", "name": "X", "options": []}]},
            ]
        },
        {
            "configOptions": [
                {"configId": "s", **BARE_SELECT, "options": [{"value": "a", "name": "a"}]},
                {"configId": "g", **BARE_SELECT, "options": [{"value": "a", "name": "a"}]},
            ]
        },
        ["configOptions[0].options", "configOptions[1].options[0]", "configOptions[1].options"],
    ),
    "setting a mode is setting an option": Case(
        *(1, "session/set_mode", "params"),
        {"sessionId": "s", "modeId": "code", "_x": 1},
        {"sessionId": "s", "configId": "mode", "type": "id", "value": "code", "_x": 1},
        [],
    ),
    "a string is an id, whatever its type is called": Case(
        *(1, "session/set_config_option", "params"),
        {**CONFIG, "type": "_x", "value": "a"},
        {**CONFIG, "type": "id", "value": "a"},
        ["type"],
    ),
    "a time without an offset is no time of version 2": Case(
        *(1, "session/list", "result"),
        {
            "sessions": [
                {**KNOWN, "updatedAt": "2026-11-16T00:21:28"},
                {**KNOWN, "updatedAt": "2026-02-30T00:21:28Z"},
                {**KNOWN, "updatedAt": None},
            ]
        },
        {"sessions": [KNOWN, KNOWN, {**KNOWN, "updatedAt": None}]},
        ["sessions[0].updatedAt", "sessions[1].updatedAt"],
    ),
    "a priority out of bounds is left out": Case(
        *(1, "session/prompt", "params"),
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {"priority": 2}}]},
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {}}]},
        ["prompt[0].annotations.priority"],
    ),
    "a form without questions is an empty form": Case(
        1, "elicitation/create", "params", {**FORM, "requestedSchema": {}}, form({}), []
    ),
}

DOWNGRADED = {
    "a client of version 2 understands all that version 1 asks for, and offers nothing": Case(
        *(2, "initialize", "params"),
        {"protocolVersion": 2, "info": INFO},
        client_1(session=UNDERSTOOD),
        [],
    ),
    "a client of August need not have a name": Case(
        *(2, "initialize", "params"),
        {"protocolVersion": 2},
        {"protocolVersion": 1, "clientCapabilities": {"session": UNDERSTOOD}},
        [],
    ),
    "a flag has no metadata": Case(
        *(2, "initialize", "params"),
        client_2(auth={"terminal": {"_meta": {"k": 1}}}),
        client_1(session=UNDERSTOOD, auth={"terminal": True}),
        ["capabilities.auth.terminal"],
    ),
    "sessions bring all that version 1 asks for one by one": Case(
        2, "initialize", "result", agent_2(auth={}), agent_1(mcpCapabilities={}, auth={}), []
    ),
    "an agent without sessions is none of version 1": Case(
        *(2, "initialize", "result"),
        agent_2(session=None),
        {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {}},
        ["capabilities.session"],
    ),
    "version 1 takes stdio for granted": Case(
        *(2, "initialize", "result"),
        agent_2(session={"prompt": None}),
        agent_1(),
        ["capabilities.session.mcp.stdio"],
    ),
    "auth methods bring logout, except one that version 1 does not know": Case(
        *(2, "initialize", "result"),
        agent_2(
            {"type": "_x", "methodId": "x", "name": "X"},
            {"methodId": "t", **TERMINAL, "env": [*ENV, {"name": "K", "value": "w", "_x": 1}]},
        ),
        agent_1(
            {"id": "t", **TERMINAL, "env": {"K": "w"}}, mcpCapabilities={}, auth={"logout": {}}
        ),
        ["authMethods[0]", "authMethods[1].env[1]", "authMethods[1].env[1]"],
    ),
    "the lists that version 1 requires are filled in": Case(
        *(2, "session/new", "params"),
        {
            "cwd": "/w",
            "mcpServers": [
                {"type": "stdio", "name": "s", "command": "/s"},
                {"type": "http", "name": "h", "url": "https://h"},
            ],
        },
        {
            "cwd": "/w",
            "mcpServers": [
                {"name": "s", "command": "/s", "args": [], "env": []},
                {"type": "http", "name": "h", "url": "https://h", "headers": []},
            ],
        },
        [],
    ),
    "so is the list of servers": Case(
        2, "session/new", "params", {"cwd": "/w"}, {"cwd": "/w", "mcpServers": []}, []
    ),
    "and that of a load": Case(
        *(2, "session/resume", "params"),
        {**KNOWN, "replayFrom": {"type": "start", "_x": 1}},
        {**KNOWN, "mcpServers": []},
        ["replayFrom"],
    ),
    "a null replay is none": Case(
        2, "session/resume", "params", {**KNOWN, "replayFrom": None}, KNOWN, []
    ),
    "servers that version 1 does not know are left out": Case(
        *(2, "session/new", "params"),
        {"cwd": "/w", "mcpServers": [{"type": "_acp", "id": "x"}]},
        {"cwd": "/w", "mcpServers": []},
        ["mcpServers[0]"],
    ),
    "modes are taken from the first choice of that category, groups and all": Case(
        *(2, "session/resume", "result"),
        {
            "configOptions": [
                {"configId": "b", **SWITCH, "category": "mode"},
                {
                    **BARE_SELECT,
                    "configId": "approval",
                    "category": "mode",
                    "options": [{"groupId": "g", "name": "G", "options": CHOICES}],
                },
                *OPTIONS_2,
            ]
        },
        {
            "modes": {
                "currentModeId": "a",
                "availableModes": [
                    {"id": "a", "name": "A", "description": "first"},
                    {"id": "b", "name": "B"},
                ],
            },
            "configOptions": [
                {"id": "b", **SWITCH, "category": "mode"},
                {
                    **BARE_SELECT,
                    "id": "approval",
                    "category": "mode",
                    "options": [{"group": "g", "name": "G", "options": CHOICES}],
                },
                *OPTIONS_1,
            ],
        },
        [],
    ),
    "commands and unknown options have no place in a result of version 1": Case(
        *(2, "session/resume", "result"),
        {
            "configOptions": [{"configId": "x", **UNKNOWN_OPTION}],
            "availableCommands": [{"type": "command", "name": "c", "description": "d"}],
        },
        {"configOptions": []},
        ["availableCommands", "configOptions[0]"],
    ),
    "no commands are no loss": Case(
        2, "session/resume", "result", {"availableCommands": []}, {}, []
    ),
    "a role that version 1 does not know is left out": Case(
        *(2, "session/prompt", "params"),
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {"audience": ["_x", "user"]}}]},
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {"audience": ["user"]}}]},
        ["prompt[0].annotations.audience"],
    ),
    "a format that version 1 does not know is left out": Case(
        *(2, "elicitation/create", "params"),
        form({"p": {"type": "string", "format": "_x", "maxLength": 3}}),
        form({"p": {"type": "string", "maxLength": 3}}),
        ["requestedSchema.properties.p.format"],
    ),
    "an answer that version 1 cannot read is left out": Case(
        *(2, "elicitation/create", "result"),
        {"action": "accept", "content": {"a": "x", "b": {}, "c": [1], "d": None, "e": []}},
        {"action": "accept", "content": {"a": "x", "e": []}},
        ["content.b", "content.c", "content.d"],
    ),
}

CASES = UPGRADED | DOWNGRADED


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_cannot_be_carried_is_reported(case: Case) -> None:
    losses = Losses()
    value = convert(Message(*case[:4]), losses).value
    assert value == case.expected
    assert [loss.path for loss in losses] == case.losses


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_strict_refuses_the_first_loss(case: Case) -> None:
    message, losses = Message(*case[:4]), Losses(strict=True)
    if not case.losses:
        convert(message, losses)
        return
    with pytest.raises(NotConvertible) as refusal:
        convert(message, losses)
    assert refusal.value.path == case.losses[0]


def test_a_field_that_only_the_other_version_has_is_not_mistaken_for_its_own() -> None:
    losses = Losses()
    params = {"protocolVersion": 1, "clientInfo": INFO, "info": "mine", "_x": 1}
    message = convert(Message(1, "initialize", "params", params), losses)
    assert message.value == {"protocolVersion": 2, "info": INFO, "_x": 1}
    (loss,) = losses
    assert loss.path.endswith("info")


# ---- what is refused -----------------------------------------------------------------------

NO_CHOICE = {
    "a string among no strings": {"type": "string", "enum": []},
    "a string among no titles": {"type": "string", "oneOf": []},
    "many of no strings": {"type": "array", "items": {"type": "string", "enum": []}},
    "many of no titles": {"type": "array", "items": {"anyOf": []}},
}

REFUSED: dict[str, tuple[Version, str, str, Any, str]] = {
    "an empty prompt": (1, "session/prompt", "params", {"sessionId": "s", "prompt": []}, "prompt"),
    "content that version 1 does not know": (
        *(2, "session/prompt", "params"),
        {"sessionId": "s", "prompt": [BLOCKS[0], {"type": "_x"}]},
        "prompt[1]",
    ),
    "replay from somewhere": (
        *(2, "session/resume", "params"),
        {**KNOWN, "replayFrom": {"type": "message", "id": "m"}},
        "replayFrom",
    ),
    "a value that version 1 has no type for": (
        *(2, "session/set_config_option", "params"),
        {**CONFIG, "type": "_x", "value": "a"},
        "type",
    ),
    "a value that is not of its type": (
        *(2, "session/set_config_option", "params"),
        {**CONFIG, "type": "id", "value": 1},
        "type",
    ),
    "that a mode was set, without the options": (
        *(1, "session/set_mode", "result"),
        {},
        "configOptions",
    ),
    "a question about a request without an id": (
        *(1, "elicitation/create", "params"),
        {**URL, "requestId": None},
        "requestId",
    ),
    "an unknown question about two things": (
        *(1, "elicitation/create", "params"),
        {"mode": "_x", "message": "m", "sessionId": "s", "requestId": 1},
        "requestId",
    ),
    "the cancelling of a request without an id": (
        *(1, "$/cancel_request", "params"),
        {"requestId": None},
        "requestId",
    ),
    **{
        name: (1, "elicitation/create", "params", form({"p": each}), "requestedSchema.properties.p")
        for name, each in NO_CHOICE.items()
    },
}


@pytest.mark.parametrize(
    ("version", "method", "part", "value", "path"), REFUSED.values(), ids=REFUSED
)
def test_what_would_ask_something_else_is_refused(
    version: Version, method: str, part: str, value: Any, path: str
) -> None:
    with pytest.raises(NotConvertible) as refusal:
        convert(Message(version, method, part, value), Losses())
    assert refusal.value.path == path


@pytest.mark.parametrize(
    ("version", "method"), [(v, name) for v in (1, 2) for name in sorted(ONLY[v])]
)
def test_a_method_that_the_other_version_lacks_is_refused(version: Version, method: str) -> None:
    functions: tuple[Callable[..., Any], ...] = (upgrade_params, upgrade_result)
    if version == 2:
        functions = (downgrade_params, downgrade_result)
    for function in functions:
        with pytest.raises(NotConvertible, match="no such method") as refusal:
            function(method, Capability(), Losses())
        assert refusal.value.path == method


@pytest.mark.parametrize("method", [*sorted(REMEMBERED), "session/prompt"])
def test_what_needs_a_memory_is_left_to_the_translation(method: str) -> None:
    for function in (upgrade_result, downgrade_result):
        with pytest.raises(NotConvertible, match="by a translation") as refusal:
            function(method, Capability(), Losses())
        assert refusal.value.path == method


# ---- config options, modes and commands by themselves --------------------------------------


def test_an_unknown_option_keeps_everything_but_the_name_of_its_id() -> None:
    losses = Losses()
    option = codec.read({"id": "x", **UNKNOWN_OPTION, "configId": "?"}, v1.SessionConfigOption)
    upgraded = upgrade_config_option(option, losses)
    assert codec.to_json(upgraded) == {"configId": "x", **UNKNOWN_OPTION}
    assert losses == [
        Loss("configOption.configId", "this field means something else in the other version")
    ]
    assert downgrade_config_option(upgraded, losses) is None
    assert losses[1].path == "configOption"


def test_modes_go_into_an_option_and_come_out_of_it() -> None:
    modes = codec.read(
        {
            "currentModeId": "a",
            "availableModes": [
                {"id": "a", "name": "A", "description": "d", "_meta": {"k": 1}, "_x": 1}
            ],
            "_meta": {"k": 2},
            "_y": 2,
        },
        v1.SessionModeState,
    )
    option = option_of_modes(modes, Losses(strict=True))
    assert (option.config_id, option.name, option.category) == ("mode", "Mode", "mode")
    assert modes_of([option]) == modes


@pytest.mark.parametrize(
    "options", [[], [{"configId": "s", **SELECT}], [{"configId": "x", **UNKNOWN_OPTION}]]
)
def test_options_without_a_mode_have_no_modes(options: list[Json]) -> None:
    read = codec.read(options, list[v2.SessionConfigOption])
    assert modes_of(read) is None
    assert not has_mode_option(read)


COMMAND = {"name": "n", "description": "d", "_meta": {"k": 1}, "_x": 1}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (COMMAND, {"type": "command", **COMMAND}),
        (
            {**COMMAND, "input": {"hint": "h", "_y": 1}},
            {"type": "command", **COMMAND, "input": {"type": "text", "hint": "h", "_y": 1}},
        ),
    ],
)
def test_commands_go_there_and_back(first: Json, second: Json) -> None:
    losses = Losses(strict=True)
    upgraded = upgrade_command(codec.read(first, v1.AvailableCommand), losses)
    assert codec.to_json(upgraded) == second
    downgraded = downgrade_command(codec.read(second, v2.AvailableCommand), losses)
    assert codec.to_json(downgraded) == first


@pytest.mark.parametrize(
    ("command", "expected", "paths"),
    [
        (COMMAND, COMMAND, []),  # August
        ({"type": "command", **COMMAND, "input": None}, COMMAND, []),
        (
            {"type": "command", **COMMAND, "input": {"type": "_x", "hint": "h"}},
            COMMAND,
            ["availableCommand.input"],
        ),
        ({"type": "_x", **COMMAND}, None, ["availableCommand"]),
    ],
)
def test_commands_that_version_1_lacks_are_reported(
    command: Json, expected: Json | None, paths: list[str]
) -> None:
    losses = Losses()
    downgraded = downgrade_command(codec.read(command, v2.AvailableCommand), losses)
    assert codec.to_json(downgraded) == expected
    assert [loss.path for loss in losses] == paths


# ---- laws ----------------------------------------------------------------------------------


def values(version: Version, method: str, part: str) -> SearchStrategy[Any]:
    """JSON that our own structs read."""
    made = values_of(getattr(METHODS[version][method], part))
    if (version, method, part) == (1, "initialize", "result"):
        # few agents have all that version 2 expects, but the law is about those
        return st.builds(_able, made)
    return made


def _able(value: Json) -> Json:
    capabilities = value.get("agentCapabilities", {})
    sessions = capabilities.get("sessionCapabilities", {})
    auth = {**capabilities.get("auth", {}), "logout": {} if value.get("authMethods") else None}
    able = {"loadSession": True, "sessionCapabilities": {**sessions, **ALL_MARKERS}, "auth": auth}
    return {**value, "agentCapabilities": {**capabilities, **able}}


@pytest.mark.parametrize(("version", "method", "part"), ALL)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_whatever_is_read_is_converted_or_refused_and_read_by_the_other_version(
    version: Version, method: str, part: str, data: st.DataObject
) -> None:
    message = Message(version, method, part, data.draw(values(version, method, part)))
    try:
        there = convert(message, Losses())
    except NotConvertible:
        return
    faults: list[Fault] = []
    codec.read(there.value, there.shape, faults)
    assert faults == []


@pytest.mark.parametrize(("version", "method", "part"), ALL)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_strict_refuses_exactly_what_is_reported(
    version: Version, method: str, part: str, data: st.DataObject
) -> None:
    message = Message(version, method, part, data.draw(values(version, method, part)))
    losses = Losses()
    try:
        there = convert(message, losses)
    except NotConvertible:
        there = None
    try:
        assert convert(message, Losses(strict=True)) == there
        assert losses == []
    except NotConvertible:
        assert losses or there is None


@pytest.mark.parametrize(("version", "method", "part"), ALL)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_what_reports_no_loss_comes_back(
    version: Version, method: str, part: str, data: st.DataObject
) -> None:
    message = Message(version, method, part, data.draw(values(version, method, part)))
    strict = Losses(strict=True)
    try:
        back = convert(convert(message, strict), strict)
    except NotConvertible:
        return
    if part == "params" and method != "session/set_mode":  # which comes back as an option
        assert back.method == method
    if method != "session/set_mode":
        # in the version it set out from, a result is read as that of the method asked for
        assert normalised(back._replace(method=method).read()) == normalised(message.read())


def normalised(value: Any) -> Any:
    """The type and fields of a struct, without the fields that make no difference."""
    if isinstance(value, list):
        return [normalised(item) for item in value]
    if not isinstance(value, Wire):
        return value
    value = DEFAULTS.get(type(value), lambda struct: struct)(value)
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    # Null and an empty `_meta` mean the same as omitted; inside `_meta` and unknown fields all
    # is left alone.
    return type(value).__name__, {
        name: normalised(field)
        for name, field in fields.items()
        if field not in (UNSET, None) and not (name == "meta" and field == {})
    }


def _named(struct: Any) -> Any:
    name = "client_info" if isinstance(struct, v1.InitializeRequest) else "agent_info"
    return replace(struct, **{name: named(getattr(struct, name))})


def _client_1(struct: v1.InitializeRequest) -> Any:
    # What a client understands is taken for granted, what it could offer is reported.
    capabilities = struct.client_capabilities or v1.ClientCapabilities()
    capabilities = replace(capabilities, fs=UNSET, terminal=UNSET, session=UNSET)
    return _named(replace(struct, protocol_version=1, client_capabilities=capabilities))


def _agent_1(struct: v1.InitializeResponse) -> Any:
    capabilities = struct.agent_capabilities or v1.AgentCapabilities()
    mcp = capabilities.mcp_capabilities or v1.McpCapabilities()
    auth = capabilities.auth or v1.AgentAuthCapabilities()
    capabilities = replace(capabilities, mcp_capabilities=mcp, auth=auth)
    return _named(replace(struct, protocol_version=1, agent_capabilities=capabilities))


def _client_2(struct: Any) -> Any:
    capabilities = struct.capabilities or v2.ClientCapabilities()
    info = named(struct.info)
    return v2.InitializeRequest(2, info, capabilities, meta=struct.meta, unknown=struct.unknown)


def _agent_2(struct: Any) -> Any:
    capabilities = struct.capabilities or v2.AgentCapabilities()
    if capabilities.auth and not (capabilities.auth.meta or capabilities.auth.unknown):
        capabilities = replace(capabilities, auth=UNSET)  # without extensions it is empty
    return v2.InitializeResponse(
        2,
        named(struct.info),
        capabilities,
        struct.auth_methods,
        meta=struct.meta,
        unknown=struct.unknown,
    )


def _flags(struct: Any) -> Any:
    """False means the same as omitted."""
    names = [name for name in struct.__struct_fields__ if getattr(struct, name) is False]
    return replace(struct, **dict.fromkeys(names, UNSET))


def _setup_1(struct: Any) -> Any:
    # A mode also is a config option, and an option of that category also is a mode.
    options = [upgrade_config_option(option, Losses()) for option in struct.config_options or []]
    if struct.modes and not has_mode_option(options):
        options = [option_of_modes(struct.modes), *options]
    listed: Any = UNSET
    if options or struct.config_options == []:
        listed = [downgrade_config_option(option, Losses()) for option in options]
    return replace(struct, modes=modes_of(options), config_options=listed)


def _lists(*names: str) -> Callable[[Any], Any]:
    """An empty list means the same as none."""

    def filled(struct: Any) -> Any:
        return replace(struct, **{name: getattr(struct, name) or [] for name in names})

    return filled


def _schema_1(struct: v1.ElicitationSchema) -> Any:
    kind = "object" if struct.type is UNSET else struct.type
    return replace(struct, type=kind, properties=struct.properties or {})


def _command_2(struct: Any) -> Any:
    beside = {"meta": struct.meta, "unknown": struct.unknown}
    return v2.Command(struct.name, struct.description, struct.input, **beside)


def _set_option_1(struct: v1.SetSessionConfigOptionRequest) -> Any:
    return replace(struct, type="boolean" if isinstance(struct.value, bool) else UNSET)


DEFAULTS: dict[Any, Callable[[Any], Any]] = {
    v1.InitializeRequest: _client_1,
    v1.InitializeResponse: _agent_1,
    v1.PromptCapabilities: _flags,
    v1.McpCapabilities: _flags,
    v1.AuthCapabilities: _flags,
    v1.SessionSetup: _setup_1,
    v1.NewSessionResponse: _setup_1,
    v1.ElicitationSchema: _schema_1,
    v1.SetSessionConfigOptionRequest: _set_option_1,
    v2.InitializeRequest: _client_2,
    v2.AugustInitializeRequest: _client_2,
    v2.InitializeResponse: _agent_2,
    v2.AugustInitializeResponse: _agent_2,
    v2.NewSessionRequest: _lists("mcp_servers"),
    v2.ResumeSessionRequest: _lists("mcp_servers"),
    v2.McpServerStdio: _lists("args", "env"),
    v2.McpServerHttp: _lists("headers"),
    v2.NewSessionResponse: _lists("available_commands"),
    v2.ResumeSessionResponse: _lists("available_commands"),
    v2.AugustCommand: _command_2,
}


# ---- the official schemas and SDK ----------------------------------------------------------


def type_name(schemas: Schemas, version: Version, method: str, part: str) -> str:
    """What the schema calls the params or the result of a method."""
    name: str
    (name,) = (
        name
        for name, body in schemas[f"v{version}", "stable"]["$defs"].items()
        if body.get("x-method") == method and (part == "result") == name.endswith("Response")
    )
    return name


# Version 1 leaves free what a pattern is, and whether it is one is not judged here.
FREE = {"pattern": "^x$"}


def bounded(value: Any) -> Any:
    """JSON whose free texts are what version 2 has them be."""
    if isinstance(value, list):
        return [bounded(item) for item in value]
    if isinstance(value, dict):
        return {
            key: FREE[key] if key in FREE and isinstance(item, str) else bounded(item)
            for key, item in value.items()
        }
    return value


@pytest.mark.parametrize(("version", "method", "part"), ALL)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_what_is_written_is_valid_for_the_official_schema(
    schemas: Schemas,
    valid: SchemaValidator,
    values_of: ValuesOf,
    version: Version,
    method: str,
    part: str,
    data: st.DataObject,
) -> None:
    name = type_name(schemas, version, method, part)
    value = bounded(data.draw(values_of(version, "stable", name)))
    try:
        there = convert(Message(version, method, part, value), Losses())
    except (Malformed, NotConvertible):
        return
    there_name = type_name(schemas, there.version, there.method, part)
    assert valid(there.version, "stable", there_name, there.value) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_cases_are_accepted_by_the_official_sdk(
    schemas: Schemas, node_validator: NodeValidator, case: Case
) -> None:
    message = convert(Message(*case[:4]), Losses())
    name = type_name(schemas, message.version, message.method, message.part)
    assert node_validator.check(message.version, name, message.value).error is None


# ---- what real agents wrote ----------------------------------------------------------------

TRANSCRIPTS: dict[str, Version] = {
    "claude.v1": 1,
    "codex.v2": 2,
    "fastagent.v1": 1,
    "gemini.v1": 1,
    "opencode.v1": 1,
}


def recorded(path: Path, version: Version) -> Iterator[Message]:
    """The messages of a transcript that are converted here."""
    asked: dict[tuple[str, Any], str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        message = record.get("message", {})
        if "method" in message:
            asked[record["dir"], message.get("id")] = message["method"]
            part, value, method = "params", message.get("params", {}), message["method"]
        else:
            back = {"c2a": "a2c", "a2c": "c2a"}[record["dir"]]
            part, value = "result", message.get("result")
            method = asked.get((back, message.get("id")), "")
        if (method, part) in convertible(version) and isinstance(value, dict):
            yield Message(version, method, part, value)


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_what_real_agents_and_clients_wrote_is_accepted_in_the_other_version(
    shared: Callable[[str], Path],
    schemas: Schemas,
    valid: SchemaValidator,
    node_validator: NodeValidator,
    name: str,
) -> None:
    messages = list(recorded(shared(f"transcripts/{name}.jsonl"), TRANSCRIPTS[name]))
    assert {message.method for message in messages} >= {"initialize", "session/new"}
    for message in messages:
        try:
            there = convert(message, Losses())
        except Malformed:  # sent to see how the agent answers
            continue
        type_there = type_name(schemas, there.version, there.method, there.part)
        assert valid(there.version, "stable", type_there, there.value) == []
        assert node_validator.check(there.version, type_there, there.value).error is None
