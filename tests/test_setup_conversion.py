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
from tests.strategies import Json, values_of
from twofold.convert.capabilities import NAMELESS
from twofold.convert.losses import Loss, Losses, NotConvertible
from twofold.convert.setup import (
    downgrade_command,
    downgrade_config_option,
    downgrade_params,
    downgrade_result,
    has_mode_option,
    mode_option,
    modes_of,
    upgrade_command,
    upgrade_config_option,
    upgrade_params,
    upgrade_result,
)
from twofold.wire import codec, v1, v2
from twofold.wire.base import UNSET, Fault, Malformed, Wire
from twofold.wire.methods import Method
from twofold.wire.shared import Capability

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
        params = upgrade_params if message.version == 1 else downgrade_params
        there, value = params(method, struct, losses)
    else:
        result = upgrade_result if message.version == 1 else downgrade_result
        value = result(method, struct, losses)
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


# ---- the same thing, said in both versions -------------------------------------------------

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
OPTIONS_1 = [{"id": "mode", **MODE_OPTION}, {"id": "s", **SELECT}, {"id": "b", **SWITCH}]
OPTIONS_2 = [
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


def same(method: str, part: str, value: Any) -> tuple[str, str, str, Any, Any]:
    return method, method, part, value, value


SAID_ALIKE = [
    (
        *("initialize", "initialize", "params"),
        {
            "protocolVersion": 1,
            "clientInfo": INFO,
            "clientCapabilities": {
                "session": UNDERSTOOD,
                "auth": {"terminal": True, "_x": 1},
                "elicitation": {"form": {}},
                "_meta": {"k": 1},
            },
        },
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {
                "auth": {"terminal": {}, "_x": 1},
                "elicitation": {"form": {}},
                "_meta": {"k": 1},
            },
        },
    ),
    (
        *("initialize", "initialize", "result"),
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "_meta": {"p": 1}},
                "mcpCapabilities": {"http": True},
                "sessionCapabilities": {**ALL_MARKERS, "delete": {"_meta": {"d": 1}}, "fork": {}},
                "auth": {"logout": {}, "_meta": {"status": {}}},
                "providers": {},
            },
            "authMethods": [
                {"id": "login", "name": "Log in", "description": "d"},
                {
                    "type": "terminal",
                    "id": "tui",
                    "name": "TUI",
                    "args": ["--login"],
                    "env": {"K": "v"},
                },
            ],
        },
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {
                "session": {
                    "prompt": {"image": {}, "_meta": {"p": 1}},
                    "mcp": {"stdio": {}, "http": {}},
                    "delete": {"_meta": {"d": 1}},
                    "fork": {},
                },
                "auth": {"_meta": {"status": {}}},
                "providers": {},
            },
            "authMethods": [
                {"type": "agent", "methodId": "login", "name": "Log in", "description": "d"},
                {
                    "type": "terminal",
                    "methodId": "tui",
                    "name": "TUI",
                    "args": ["--login"],
                    "env": ENV,
                },
            ],
        },
    ),
    (
        *("authenticate", "auth/login", "params"),
        {"methodId": "m", "_x": 1},
        {"methodId": "m", "_x": 1},
    ),
    ("authenticate", "auth/login", "result", {"_meta": {"k": 1}}, {"_meta": {"k": 1}}),
    ("logout", "auth/logout", "params", {}, {}),
    ("logout", "auth/logout", "result", {}, {}),
    (
        *("session/new", "session/new", "params"),
        {"cwd": "/w", "mcpServers": [STDIO, HTTP], "additionalDirectories": ["/x"]},
        {
            "cwd": "/w",
            "mcpServers": [{"type": "stdio", **STDIO}, HTTP],
            "additionalDirectories": ["/x"],
        },
    ),
    (
        *("session/new", "session/new", "result"),
        {"sessionId": "s", "modes": MODES, "configOptions": OPTIONS_1},
        {"sessionId": "s", "configOptions": OPTIONS_2},
    ),
    (
        *("session/load", "session/resume", "params"),
        {"sessionId": "s", "cwd": "/w", "mcpServers": [STDIO], "_meta": {"k": 1}},
        {
            "sessionId": "s",
            "cwd": "/w",
            "mcpServers": [{"type": "stdio", **STDIO}],
            "replayFrom": {"type": "start"},
            "_meta": {"k": 1},
        },
    ),
    same("session/resume", "params", {"sessionId": "s", "cwd": "/w"}),
    same("session/resume", "params", {"sessionId": "s", "cwd": "/w", "mcpServers": []}),
    (
        *("session/resume", "session/resume", "result"),
        {"modes": MODES, "configOptions": OPTIONS_1[:1]},
        {"configOptions": OPTIONS_2[:1]},
    ),
    same("session/resume", "result", {"configOptions": []}),
    same("session/list", "params", {"cwd": "/w", "cursor": "c"}),
    same(
        "session/list",
        "result",
        {
            "sessions": [
                {
                    "sessionId": "s",
                    "cwd": "/w",
                    "additionalDirectories": ["/x"],
                    "title": "t",
                    "updatedAt": "2026-11-16T00:21:28.602Z",
                }
            ],
            "nextCursor": "n",
        },
    ),
    same("session/delete", "params", {"sessionId": "s"}),
    same("session/delete", "result", {}),
    same("session/close", "params", {"sessionId": "s"}),
    same("session/close", "result", {}),
    same("session/cancel", "params", {"sessionId": "s"}),
    (
        *("session/set_config_option", "session/set_config_option", "params"),
        {"sessionId": "s", "configId": "c", "value": "a"},
        {"sessionId": "s", "configId": "c", "type": "id", "value": "a"},
    ),
    same(
        "session/set_config_option",
        "params",
        {"sessionId": "s", "configId": "c", "type": "boolean", "value": False},
    ),
    (
        *("session/set_config_option", "session/set_config_option", "result"),
        {"configOptions": OPTIONS_1},
        {"configOptions": OPTIONS_2},
    ),
    same("session/prompt", "params", {"sessionId": "s", "prompt": BLOCKS}),
    same(
        "elicitation/create",
        "params",
        {
            "mode": "form",
            "message": "m",
            "sessionId": "s",
            "toolCallId": "t",
            "requestedSchema": {
                "type": "object",
                "properties": QUESTIONS,
                "required": ["name"],
                "title": "T",
            },
        },
    ),
    same(
        "elicitation/create",
        "params",
        {
            "mode": "url",
            "message": "m",
            "requestId": 7,
            "elicitationId": "e",
            "url": "https://example.com",
        },
    ),
    same("elicitation/create", "params", {"mode": "_x", "message": "m", "sessionId": "s", "y": []}),
    same(
        "elicitation/create",
        "result",
        {"action": "accept", "content": {"a": "x", "b": 1, "c": 0.5, "d": True, "e": ["x"]}},
    ),
    same("elicitation/create", "result", {"action": "decline"}),
    same("elicitation/create", "result", {"action": "_x", "y": 1}),
    same("elicitation/complete", "params", {"elicitationId": "e"}),
    same("$/cancel_request", "params", {"requestId": "r"}),
]


@pytest.mark.parametrize(("method_1", "method_2", "part", "value_1", "value_2"), SAID_ALIKE)
def test_what_both_versions_can_say_goes_there_and_back(
    method_1: str, method_2: str, part: str, value_1: Any, value_2: Any
) -> None:
    losses = Losses(strict=True)
    first, second = Message(1, method_1, part, value_1), Message(2, method_2, part, value_2)
    assert convert(first, losses) == second
    back = convert(second, losses)
    assert back.value == value_1
    assert back.method == method_1 or part == "result"


def test_every_method_has_an_example() -> None:
    shown = {(1, method, part) for method, _, part, *_ in SAID_ALIKE}
    shown |= {(2, method, part) for _, method, part, *_ in SAID_ALIKE}
    shown |= {(1, "session/load", "result"), (1, "session/set_mode", "params")}  # below
    assert set(ALL) <= shown


# ---- what the other version says differently, or not at all --------------------------------

NEW_2 = {"cwd": "/w"}
BARE_SELECT = {"type": "select", "name": "S", "currentValue": "a"}
UNKNOWN_OPTION = {"type": "_x", "name": "X", "of": 1}


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
        {"protocolVersion": 2, "info": {"name": "unknown", "version": "0"}},
        [],
    ),
    "what only version 1 lets a client offer is lost": Case(
        *(1, "initialize", "params"),
        {
            "protocolVersion": 1,
            "clientInfo": INFO,
            "clientCapabilities": {
                "fs": {"readTextFile": True, "writeTextFile": False, "_meta": {"k": 1}},
                "terminal": True,
                "auth": {"terminal": False},
                "session": {"notices": {"_meta": {"k": 1}}},
            },
        },
        {"protocolVersion": 2, "info": INFO, "capabilities": {"auth": {}}},
        [
            "clientCapabilities.fs.readTextFile",
            "clientCapabilities.fs",
            "clientCapabilities.terminal",
            "clientCapabilities.session.notices",
        ],
    ),
    "an agent that says nothing has sessions, and lacks what version 2 expects of them": Case(
        *(1, "initialize", "result"),
        {"protocolVersion": 1},
        {
            "protocolVersion": 2,
            "info": {"name": "unknown", "version": "0"},
            "capabilities": {"session": {"mcp": {"stdio": {}}}},
        },
        [
            "agentCapabilities.loadSession",
            "agentCapabilities.sessionCapabilities.list",
            "agentCapabilities.sessionCapabilities.resume",
            "agentCapabilities.sessionCapabilities.close",
        ],
    ),
    "SSE has no word in version 2, false is left out": Case(
        *(1, "initialize", "result"),
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {
                "loadSession": True,
                "sessionCapabilities": {**ALL_MARKERS, "delete": None},
                "promptCapabilities": {"image": False, "audio": True},
                "mcpCapabilities": {"http": False, "sse": True},
            },
        },
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {
                "session": {"prompt": {"audio": {}}, "mcp": {"stdio": {}}, "delete": None}
            },
        },
        ["agentCapabilities.mcpCapabilities.sse"],
    ),
    "logout without auth methods is lost": Case(
        *(1, "initialize", "result"),
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {
                "loadSession": True,
                "sessionCapabilities": ALL_MARKERS,
                "auth": {"logout": {}},
            },
            "authMethods": [],
        },
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {"session": {"mcp": {"stdio": {}}}},
            "authMethods": [],
        },
        ["agentCapabilities.auth.logout"],
    ),
    "auth methods promise logout; an unknown one is kept, one without an id is not": Case(
        *(1, "initialize", "result"),
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": ALL_MARKERS},
            "authMethods": [
                {"type": "env_var", "id": "k", "name": "Key", "vars": []},
                {"type": "agent", "id": "a", "name": "A"},
                {"type": "env_var", "name": "no id"},
                {"type": "env_var", "id": "k", "name": "Key", "methodId": "?"},
            ],
        },
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {"session": {"mcp": {"stdio": {}}}},
            "authMethods": [
                {"type": "env_var", "methodId": "k", "name": "Key", "vars": []},
                {"type": "agent", "methodId": "a", "name": "A"},
                {"type": "env_var", "methodId": "k", "name": "Key"},
            ],
        },
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
        {"modes": {**MODES, "_meta": {"k": 1}}, "configOptions": [{"id": "s", **SELECT}]},
        {
            "configOptions": [
                {"configId": "mode", **MODE_OPTION, "_meta": {"k": 1}},
                {"configId": "s", **SELECT},
            ]
        },
        [],
    ),
    "modes without config options become the only one": Case(
        *(1, "session/new", "result"),
        {"sessionId": "s", "modes": MODES, "configOptions": None},
        {"sessionId": "s", "configOptions": [{"configId": "mode", **MODE_OPTION}]},
        [],
    ),
    "nothing about modes and options stays nothing": Case(
        *(1, "session/resume", "result"), {"modes": None, "configOptions": None}, {}, []
    ),
    "an agent's own mode option rules": Case(
        *(1, "session/new", "result"),
        {
            "sessionId": "s",
            "modes": {**MODES, "currentModeId": "code"},
            "configOptions": OPTIONS_1[:1],
        },
        {"sessionId": "s", "configOptions": OPTIONS_2[:1]},
        ["modes"],
    ),
    "no second option is called mode": Case(
        *(1, "session/new", "result"),
        {"sessionId": "s", "modes": MODES, "configOptions": [{"id": "mode", **SWITCH}]},
        {"sessionId": "s", "configOptions": [{"configId": "mode", **SWITCH}]},
        ["modes"],
    ),
    "a choice among no modes is the current one": Case(
        *(1, "session/new", "result"),
        {"sessionId": "s", "modes": {"currentModeId": "a", "availableModes": []}},
        {
            "sessionId": "s",
            "configOptions": [
                {
                    "configId": "mode",
                    **MODE_OPTION,
                    "currentValue": "a",
                    "options": [{"value": "a", "name": "a"}],
                }
            ],
        },
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
        {"sessionId": "s", "modeId": "code", "_meta": {"k": 1}},
        {"sessionId": "s", "configId": "mode", "type": "id", "value": "code", "_meta": {"k": 1}},
        [],
    ),
    "a string is an id, whatever its type is called": Case(
        *(1, "session/set_config_option", "params"),
        {"sessionId": "s", "configId": "c", "type": "_x", "value": "a"},
        {"sessionId": "s", "configId": "c", "type": "id", "value": "a"},
        ["type"],
    ),
    "a time without an offset is no time of version 2": Case(
        *(1, "session/list", "result"),
        {
            "sessions": [
                {"sessionId": "s", "cwd": "/w", "updatedAt": "2026-11-16T00:21:28"},
                {"sessionId": "t", "cwd": "/w", "updatedAt": "2026-02-30T00:21:28Z"},
                {"sessionId": "u", "cwd": "/w", "updatedAt": None},
            ]
        },
        {
            "sessions": [
                {"sessionId": "s", "cwd": "/w"},
                {"sessionId": "t", "cwd": "/w"},
                {"sessionId": "u", "cwd": "/w", "updatedAt": None},
            ]
        },
        ["sessions[0].updatedAt", "sessions[1].updatedAt"],
    ),
    "a priority out of bounds is left out": Case(
        *(1, "session/prompt", "params"),
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {"priority": 2}}]},
        {"sessionId": "s", "prompt": [{"type": "text", "text": "hi", "annotations": {}}]},
        ["prompt[0].annotations.priority"],
    ),
    "a form without questions is an empty form": Case(
        *(1, "elicitation/create", "params"),
        {"mode": "form", "message": "m", "sessionId": "s", "requestedSchema": {}},
        {
            "mode": "form",
            "message": "m",
            "sessionId": "s",
            "requestedSchema": {"type": "object", "properties": {}},
        },
        [],
    ),
}

DOWNGRADED = {
    "a client of version 2 understands all that version 1 asks for, and offers nothing": Case(
        *(2, "initialize", "params"),
        {"protocolVersion": 2, "info": INFO},
        {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": {"session": UNDERSTOOD}},
        [],
    ),
    "a client of August need not have a name": Case(
        *(2, "initialize", "params"),
        {"protocolVersion": 2, "capabilities": {"auth": {"terminal": {"_meta": {"k": 1}}}}},
        {
            "protocolVersion": 1,
            "clientCapabilities": {"session": UNDERSTOOD, "auth": {"terminal": True}},
        },
        ["capabilities.auth.terminal"],
    ),
    "sessions bring all that version 1 asks for one by one": Case(
        *(2, "initialize", "result"),
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {"session": {"mcp": {"stdio": {}}, "prompt": None}},
        },
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {
                "loadSession": True,
                "mcpCapabilities": {},
                "sessionCapabilities": ALL_MARKERS,
            },
        },
        [],
    ),
    "an agent without sessions is none of version 1": Case(
        *(2, "initialize", "result"),
        {"protocolVersion": 2, "info": INFO, "capabilities": {"session": None}},
        {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {}},
        ["capabilities.session"],
    ),
    "version 1 takes stdio for granted": Case(
        *(2, "initialize", "result"),
        {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}},
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": ALL_MARKERS},
        },
        ["capabilities.session.mcp.stdio"],
    ),
    "auth methods bring logout, except one that version 1 does not know": Case(
        *(2, "initialize", "result"),
        {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {"session": {"mcp": {"stdio": {}}}},
            "authMethods": [
                {"type": "_x", "methodId": "x", "name": "X"},
                {
                    "type": "terminal",
                    "methodId": "t",
                    "name": "T",
                    "env": [*ENV, {"name": "K", "value": "w", "_meta": {"k": 1}}],
                },
            ],
        },
        {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {
                "loadSession": True,
                "mcpCapabilities": {},
                "sessionCapabilities": ALL_MARKERS,
                "auth": {"logout": {}},
            },
            "authMethods": [{"type": "terminal", "id": "t", "name": "T", "env": {"K": "w"}}],
        },
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
        2, "session/new", "params", NEW_2, {**NEW_2, "mcpServers": []}, []
    ),
    "and that of a load": Case(
        *(2, "session/resume", "params"),
        {**NEW_2, "sessionId": "s", "replayFrom": {"type": "start", "_x": 1}},
        {**NEW_2, "sessionId": "s", "mcpServers": []},
        ["replayFrom"],
    ),
    "a null replay is none": Case(
        *(2, "session/resume", "params"),
        {**NEW_2, "sessionId": "s", "replayFrom": None},
        {**NEW_2, "sessionId": "s"},
        [],
    ),
    "servers that version 1 does not know are left out": Case(
        *(2, "session/new", "params"),
        {**NEW_2, "mcpServers": [{"type": "_acp", "id": "x"}]},
        {**NEW_2, "mcpServers": []},
        ["mcpServers[0]"],
    ),
    "modes are taken from the first option of that category, groups and all": Case(
        *(2, "session/new", "result"),
        {
            "sessionId": "s",
            "configOptions": [
                {"configId": "b", **SWITCH, "category": "mode"},
                {
                    "configId": "approval",
                    **BARE_SELECT,
                    "category": "mode",
                    "options": [
                        {"groupId": "g", "name": "G", "options": CHOICES},
                        {"groupId": "h", "name": "H", "options": [{"value": "c", "name": "C"}]},
                    ],
                },
                {"configId": "mode", **MODE_OPTION},
            ],
        },
        {
            "sessionId": "s",
            "modes": {
                "currentModeId": "a",
                "availableModes": [
                    {"id": "a", "name": "A", "description": "first"},
                    {"id": "b", "name": "B"},
                    {"id": "c", "name": "C"},
                ],
            },
            "configOptions": [
                {"id": "b", **SWITCH, "category": "mode"},
                {
                    "id": "approval",
                    **BARE_SELECT,
                    "category": "mode",
                    "options": [
                        {"group": "g", "name": "G", "options": CHOICES},
                        {"group": "h", "name": "H", "options": [{"value": "c", "name": "C"}]},
                    ],
                },
                {"id": "mode", **MODE_OPTION},
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
        2,
        "session/new",
        "result",
        {"sessionId": "s", "availableCommands": []},
        {"sessionId": "s"},
        [],
    ),
    "a role that version 1 does not know is left out": Case(
        *(2, "session/prompt", "params"),
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {"audience": ["_x", "user"]}}]},
        {"sessionId": "s", "prompt": [{**BLOCKS[0], "annotations": {"audience": ["user"]}}]},
        ["prompt[0].annotations.audience"],
    ),
    "a format that version 1 does not know is left out": Case(
        *(2, "elicitation/create", "params"),
        {
            "mode": "form",
            "message": "m",
            "sessionId": "s",
            "requestedSchema": {
                "type": "object",
                "properties": {"p": {"type": "string", "format": "_x", "maxLength": 3}},
            },
        },
        {
            "mode": "form",
            "message": "m",
            "sessionId": "s",
            "requestedSchema": {
                "type": "object",
                "properties": {"p": {"type": "string", "maxLength": 3}},
            },
        },
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

FORM = {"mode": "form", "message": "m", "sessionId": "s"}
URL = {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://example.com"}


def question(schema: Json) -> Json:
    return {**FORM, "requestedSchema": {"type": "object", "properties": {"p": schema}}}


REFUSED: dict[str, tuple[Version, str, str, Any, str]] = {
    "an empty prompt": (1, "session/prompt", "params", {"sessionId": "s", "prompt": []}, "prompt"),
    "content that version 1 does not know": (
        *(2, "session/prompt", "params"),
        {"sessionId": "s", "prompt": [BLOCKS[0], {"type": "_x"}]},
        "prompt[1]",
    ),
    "replay from somewhere": (
        *(2, "session/resume", "params"),
        {**NEW_2, "sessionId": "s", "replayFrom": {"type": "message", "id": "m"}},
        "replayFrom",
    ),
    "a value that version 1 has no type for": (
        *(2, "session/set_config_option", "params"),
        {"sessionId": "s", "configId": "c", "type": "_x", "value": "a"},
        "type",
    ),
    "a value that is not of its type": (
        *(2, "session/set_config_option", "params"),
        {"sessionId": "s", "configId": "c", "type": "id", "value": 1},
        "type",
    ),
    "the result of setting a mode, without the options": (
        *(1, "session/set_mode", "result", {}),
        "configOptions",
    ),
    "a string among no strings": (
        *(1, "elicitation/create", "params"),
        question({"type": "string", "enum": []}),
        "requestedSchema.properties.p",
    ),
    "a string among no titles": (
        *(1, "elicitation/create", "params"),
        question({"type": "string", "oneOf": []}),
        "requestedSchema.properties.p",
    ),
    "many of no strings": (
        *(1, "elicitation/create", "params"),
        question({"type": "array", "items": {"type": "string", "enum": []}}),
        "requestedSchema.properties.p",
    ),
    "many of no titles": (
        *(1, "elicitation/create", "params"),
        question({"type": "array", "items": {"anyOf": []}}),
        "requestedSchema.properties.p",
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
    params, result = (upgrade_params, upgrade_result)
    if version == 2:
        params, result = (downgrade_params, downgrade_result)
    for function in (params, result):
        with pytest.raises(NotConvertible, match="no such method") as refusal:
            function(method, Capability(), Losses())
        assert refusal.value.path == method


@pytest.mark.parametrize("method", [*sorted(REMEMBERED), "session/prompt"])
def test_what_needs_a_memory_is_left_to_the_translation(method: str) -> None:
    for result in (upgrade_result, downgrade_result):
        with pytest.raises(NotConvertible, match="by a translation"):
            result(method, Capability(), Losses())


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
    option = mode_option(modes, Losses(strict=True))
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
def test_commands_that_version_1_does_not_know_are_reported(
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
        assert said(back._replace(method=method).read()) == said(message.read())


def said(value: Any) -> Any:
    """What a struct says, in full, with what is of no consequence taken out."""
    if isinstance(value, list):
        return [said(item) for item in value]
    if not isinstance(value, Wire):
        return value
    value = DEFAULTS.get(type(value), lambda struct: struct)(value)
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    # null says no more than omitted; inside `_meta` and unknown fields it is left alone
    return type(value).__name__, {
        name: said(field) for name, field in fields.items() if field not in (UNSET, None)
    }


def _named(struct: Any) -> Any:
    name = "client_info" if isinstance(struct, v1.InitializeRequest) else "agent_info"
    return struct if getattr(struct, name) else replace(struct, **{name: NAMELESS})


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
    info = struct.info or NAMELESS
    return v2.InitializeRequest(2, info, capabilities, meta=struct.meta, unknown=struct.unknown)


def _agent_2(struct: Any) -> Any:
    capabilities = struct.capabilities or v2.AgentCapabilities()
    if capabilities.auth and not (capabilities.auth.meta or capabilities.auth.unknown):
        capabilities = replace(capabilities, auth=UNSET)  # without extensions it says nothing
    return v2.InitializeResponse(
        2,
        struct.info or NAMELESS,
        capabilities,
        struct.auth_methods,
        meta=struct.meta,
        unknown=struct.unknown,
    )


def _flags(struct: Any) -> Any:
    """False says no more than omitted."""
    names = [name for name in struct.__struct_fields__ if getattr(struct, name) is False]
    return replace(struct, **dict.fromkeys(names, UNSET))


def _setup_1(struct: Any) -> Any:
    # A mode also is a config option, and an option of that category also is a mode.
    options = [upgrade_config_option(option, Losses()) for option in struct.config_options or []]
    if struct.modes and not has_mode_option(options):
        options = [mode_option(struct.modes), *options]
    listed: Any = UNSET
    if options or struct.config_options == []:
        listed = [downgrade_config_option(option, Losses()) for option in options]
    return replace(struct, modes=modes_of(options), config_options=listed)


def _lists(*names: str) -> Callable[[Any], Any]:
    """An empty list says no more than none."""

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


# Texts that version 1 leaves free: whether they are URIs or patterns is not judged here.
FREE = {"uri": "file:///x", "pattern": "^x$"}


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
        except Malformed:  # sent to see what the agent would say
            continue
        type_there = type_name(schemas, there.version, there.method, there.part)
        assert valid(there.version, "stable", type_there, there.value) == []
        assert node_validator.check(there.version, type_there, there.value).error is None
