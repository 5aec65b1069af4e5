"""Every method and every capability of both schemas, stable and unstable, and what becomes of it.

A method is translated, or both versions write it alike and it passes unread, or it is refused. A
capability is there on the other side under its name, or it is not. Nothing else: a method that a
new schema brings is in none of these lists, and fails here.
"""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from tests.peers.validators import Schemas, SchemaValidator, Version
from tests.support.bridge_stage import Stage
from tests.support.down_talk import Talk
from tests.support.schema_shapes import methods_of
from twofold.convert.capabilities import (
    downgrade_agent,
    downgrade_client,
    upgrade_agent,
    upgrade_client,
)
from twofold.convert.losses import Losses
from twofold.wire import codec, v1, v2

Json = dict[str, Any]
Side = Literal["agent", "client"]

SIDES: tuple[Side, ...] = ("agent", "client")
VERSIONS: tuple[Version, ...] = (1, 2)
INFO = {"name": "x", "version": "1"}

# ---- methods ---------------------------------------------------------------------------------

ALIKE = {
    "elicitation/complete": "it names an id that passes as it is",
    "auth/status": "no params, and a status that both write alike",
    "auth/status_update": "the same status",
    "mcp/message": "a message of MCP in an envelope that both write alike",
    "providers/list": "the same list; version 2 only asks for URLs that are URIs",
    "providers/set": "the same provider",
    "providers/disable": "the id of a provider",
    "session/archive": "the id of a session",
    "session/unarchive": "the id of a session",
    "session/set_title": "the id of a session and a title",
}
"""Methods that pass unread, and why they may."""
ONE_WAY = {
    (1, "session/status"): "version 2 only adds a state, which it need not have",
}
"""Results of a version that pass unread to the other one, but not the other way round."""
HANDLED_BY_ALL = {"initialize", "$/cancel_request"}


def translations(version: Version, side: Side) -> set[str]:
    """The methods that a bridge translates that come from a peer of `version`."""
    translation = Stage().up if (version == 2) == (side == "agent") else Talk().down
    sender = translation.client if side == "agent" else translation.agent
    return {*sender.on_request, *sender.on_notification, *HANDLED_BY_ALL}


def refuses(version: Version, side: Side, method: str) -> bool:
    """Whether a bridge refuses a method that comes from a peer of `version`."""
    if (version == 2) == (side == "agent"):
        stage = Stage()
        sender, other = (
            (stage.client, stage.agent) if side == "agent" else (stage.agent, stage.client)
        )
        identity = sender.ask(method, {})
        answers = sender.answers(identity)
        return not other.messages and bool(answers) and answers[0]["error"]["code"] == -32601
    talk = Talk()
    if side == "agent":
        identity = talk.ask(method, {})
        answers, at_the_other_side = talk.answers(identity), talk.agent.messages
    else:
        identity = talk.agent_asks(method, {})
        answers, at_the_other_side = talk.agent_answers(identity), talk.client.messages
    return not at_the_other_side and bool(answers) and answers[0]["error"]["code"] == -32601


@pytest.mark.parametrize("version", VERSIONS)
def test_every_method_is_translated_or_the_same_or_refused(
    version: Version, schemas: Schemas
) -> None:
    found = methods_of(schemas[f"v{version}", "unstable"])
    assert "session/fork" in found, "the unstable schema is looked at"
    for method, row in found.items():
        for side in SIDES:
            if row.side not in (side, "protocol", "proxy"):
                continue
            translated = method in translations(version, side)
            alike = method in ALIKE or (version == 2 and (1, method) in ONE_WAY)
            refused = not (translated or alike) and refuses(version, side, method)
            what = (translated, alike, refused)
            assert sum(what) == 1, f"version {version}, {method} to the {side}: {what}"


@pytest.mark.parametrize("flavour", ["stable", "unstable"])
def test_what_passes_unread_is_written_alike(flavour: Any, schemas: Schemas) -> None:
    first, second = (schemas[f"v{version}", flavour] for version in VERSIONS)
    methods, others = methods_of(first), methods_of(second)
    for method in ALIKE.keys() & (methods.keys() | others.keys()):
        here, there = methods[method], others[method]
        assert here.side == there.side
        for one, other in ((here.params, there.params), (here.result, there.result)):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert meaning(first, one) == meaning(second, other), method


def meaning(schema: Json, name: str, inside: tuple[str, ...] = ()) -> Any:
    """What a definition allows, without its words, its formats and the names of its parts."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            part = value["$ref"].rpartition("/")[2]
            return part if part in inside else meaning(schema, part, (*inside, name))
        words = {"description", "title", "format"}
        kept = {key: of(each) for key, each in value.items() if key not in words}
        return {key: each for key, each in kept.items() if not key.startswith("x-")}

    return of(schema["$defs"][name])


@pytest.mark.parametrize("method", ["authenticate", "logout", "session/load", "session/set_mode"])
def test_a_client_of_version_2_has_no_methods_of_version_1(method: str) -> None:
    assert refuses(2, "agent", method)


@pytest.mark.parametrize("method", ["auth/login", "auth/logout", "tool_call/cancel"])
def test_a_client_of_version_1_has_no_methods_of_version_2(method: str) -> None:
    assert refuses(1, "agent", method)


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file", "terminal/create"])
def test_an_agent_of_version_2_does_not_use_the_clients_files_and_terminals(method: str) -> None:
    assert refuses(2, "client", method)


def test_a_bridge_is_no_proxy() -> None:
    stage = Stage()
    stage.client.notify("proxy/successor", {"method": "session/cancel"})
    assert stage.agent.messages == []
    assert stage.lost == [("", "the bridge does not take part in chains of proxies")]


# ---- forks and states ------------------------------------------------------------------------

MODES = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
MODE = {
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A"}],
}
SERVER_V1 = {"name": "m", "command": "mcp", "args": [], "env": []}
SERVER_V2 = {"type": "stdio", "name": "m", "command": "mcp"}
PROMPT = {"mode": "append", "content": [{"type": "text", "text": "be brief"}]}


def test_a_fork_of_a_version_1_agent(valid: SchemaValidator) -> None:
    stage = Stage()
    stage.session()
    params = {"sessionId": "s", "cwd": "/w", "mcpServers": [SERVER_V2], "systemPrompt": PROMPT}
    asked = stage.client.ask("session/fork", params)
    forking = stage.agent.asked("session/fork")[-1]
    assert forking["params"] == {**params, "mcpServers": [SERVER_V1]}
    assert not valid(1, "unstable", "ForkSessionRequest", forking["params"])
    stage.agent.answer(forking["id"], {"sessionId": "t", "modes": MODES})
    result = stage.client.result(asked)
    assert (result["sessionId"], result["configOptions"][0]["configId"]) == ("t", "mode")
    assert not valid(2, "unstable", "ForkSessionResponse", result)
    # it is a session like any other
    stage.prompt(session="t")
    stage.chunk("hi", session="t")
    assert stage.client.texts == ["hi"]
    chosen = {"sessionId": "t", "configId": "mode", "type": "id", "value": "a"}
    stage.client.ask("session/set_config_option", chosen)
    assert stage.agent.asked("session/set_mode")[-1]["params"]["sessionId"] == "t"


def test_the_messages_of_a_fork_have_names_that_its_origin_has_not() -> None:
    stage = Stage()
    stage.session()
    stage.prompt()
    stage.chunk()
    stage.finish()
    before = {each["messageId"] for each in stage.client.updates if "messageId" in each}
    stage.client.ask("session/fork", {"sessionId": "s", "cwd": "/w"})
    stage.agent.answer(stage.agent.last_asked("session/fork"), {"sessionId": "t"})
    count = len(stage.client.updates)
    stage.prompt(session="t")
    stage.chunk(session="t")
    new = {each["messageId"] for each in stage.client.updates[count:] if "messageId" in each}
    assert new
    assert not new & before


def test_a_fork_of_a_version_2_agent(valid: SchemaValidator) -> None:
    talk = Talk()
    params = {"sessionId": "s", "cwd": "/w", "mcpServers": [SERVER_V1], "systemPrompt": PROMPT}
    asked = talk.ask("session/fork", params)
    forking = talk.asked("session/fork")
    assert forking["params"]["mcpServers"] == [{**SERVER_V2, "args": [], "env": []}]
    assert not valid(2, "unstable", "ForkSessionRequest", forking["params"])
    command = {"type": "command", "name": "go", "description": "Go"}
    result = {"sessionId": "t", "configOptions": [MODE], "availableCommands": [command]}
    talk.answer(forking, result)
    lowered = talk.result(asked)
    assert (lowered["sessionId"], lowered["modes"]) == ("t", MODES)
    assert not valid(1, "unstable", "ForkSessionResponse", lowered)
    assert talk.updates()[-1]["sessionUpdate"] == "available_commands_update"
    assert talk.lost == []


@pytest.mark.parametrize("method", ["session/fork", "session/status"])
def test_a_refusal_comes_back_as_it_is(method: str) -> None:
    stage, talk = Stage(), Talk()
    asked = stage.client.ask(method, {"sessionId": "s", "cwd": "/w"})
    stage.agent.fail(stage.agent.last_asked(method), -32601)
    assert stage.client.error(asked)["code"] == -32601
    asked = talk.ask(method, {"sessionId": "s", "cwd": "/w"})
    talk.refuse(talk.asked(method), -32601)
    assert talk.error(asked)["code"] == -32601


def test_the_state_beside_a_status_is_for_version_2_only(valid: SchemaValidator) -> None:
    talk = Talk()
    asked = talk.ask("session/status", {"sessionId": "s"})
    talk.answer(talk.asked("session/status"), {"status": "open", "state": {"state": "idle"}})
    assert talk.result(asked) == {"status": "open"}
    assert [(what, path) for what, path, _ in talk.lost] == [("session/status", "state")]
    stage = Stage()
    asked = stage.client.ask("session/status", {"sessionId": "s"})
    stage.agent.answer(stage.agent.last_asked("session/status"), {"status": "open"})
    result = stage.client.result(asked)
    assert not valid(2, "unstable", "SessionStatusResponse", result)


# ---- capabilities ----------------------------------------------------------------------------

ALWAYS = "always"  # version 2 takes it for granted
GONE = "gone"  # and reported

AGENT: dict[str, str] = {
    "loadSession": ALWAYS,
    "promptCapabilities.image": "session.prompt.image",
    "promptCapabilities.audio": "session.prompt.audio",
    "promptCapabilities.embeddedContext": "session.prompt.embeddedContext",
    "mcpCapabilities.http": "session.mcp.http",
    "mcpCapabilities.sse": GONE,
    "mcpCapabilities.acp": "session.mcp.acp",
    "sessionCapabilities.list": ALWAYS,
    "sessionCapabilities.delete": "session.delete",
    "sessionCapabilities.additionalDirectories": "session.additionalDirectories",
    "sessionCapabilities.systemPrompt.mode.override": "session.systemPrompt.mode.override",
    "sessionCapabilities.fork": "session.fork",
    "sessionCapabilities.archive": "session.archive",
    "sessionCapabilities.status": "session.status",
    "sessionCapabilities.title": "session.title",
    "sessionCapabilities.resume": ALWAYS,
    "sessionCapabilities.close": ALWAYS,
    "auth.status": "auth.status",
    "auth.logout": ALWAYS,  # where there are auth methods
    "providers": "providers",
}
"""What an agent of version 1 can do, and what that is in version 2."""
ONLY_2 = {"session.mcp.stdio"}  # version 1 takes it for granted
CLIENT: dict[str, str] = {
    "fs.readTextFile": GONE,
    "fs.writeTextFile": GONE,
    "terminal": GONE,
    "session.compaction": ALWAYS,
    "session.configOptions.boolean": ALWAYS,
    "session.notices": ALWAYS,
    "subagents": GONE,
    "plan": GONE,
    "auth.terminal": "auth.terminal",
    "elicitation.form": "elicitation.form",
    "elicitation.url": "elicitation.url",
}


def leaves(schema: Json, name: str, path: str = "") -> Iterator[tuple[str, bool]]:
    """The capabilities in a definition, and whether they are flags."""
    for key, part in schema["$defs"][name].get("properties", {}).items():
        if key == "_meta":
            continue
        place = f"{path}.{key}".lstrip(".")
        inner = [each for each in references(part) if "Capabilities" in each]
        below = [each for one in inner for each in leaves(schema, one, place)]
        yield from below or [(place, part.get("type") == "boolean")]


def references(part: Json) -> Iterator[str]:
    if "$ref" in part:
        yield part["$ref"].rpartition("/")[2]
    for union in ("anyOf", "allOf", "oneOf"):
        for each in part.get(union, ()):
            yield from references(each)


def everything(schema: Json, name: str) -> Json:
    """All capabilities of a definition at once."""
    able: Json = {}
    for path, flag in leaves(schema, name):
        at = able
        *above, last = path.split(".")
        for step in above:
            at = at.setdefault(step, {})
        at[last] = True if flag else {}
    return able


def paths(able: Json, path: str = "") -> set[str]:
    """The capabilities that are there."""
    found: set[str] = set()
    for key, value in able.items():
        place = f"{path}.{key}".lstrip(".")
        below = paths(value, place) if isinstance(value, dict) else set()
        found |= below or ({place} if value not in (None, False) else set())
    return found


def test_every_capability_is_in_the_list(schemas: Schemas) -> None:
    for name, known in (("AgentCapabilities", AGENT), ("ClientCapabilities", CLIENT)):
        first = {path for path, _ in leaves(schemas["v1", "unstable"], name)}
        second = {path for path, _ in leaves(schemas["v2", "unstable"], name)}
        assert first == known.keys()
        assert second - ONLY_2 == set(known.values()) - {ALWAYS, GONE}


def plain(value: Any) -> Json:
    read: Json = codec.parse(codec.encode(value))
    return read


def test_an_agent_of_version_1_that_can_do_everything(
    schemas: Schemas, valid: SchemaValidator
) -> None:
    able = everything(schemas["v1", "unstable"], "AgentCapabilities")
    losses = Losses()
    answer = {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": able}
    read = codec.read(answer, v1.InitializeResponse)
    lifted = plain(upgrade_agent(read, losses))
    assert not valid(2, "unstable", "InitializeResponse", lifted)
    assert paths(lifted["capabilities"]) == ({*AGENT.values()} - {ALWAYS, GONE}) | ONLY_2
    lost = {loss.path.removeprefix("agentCapabilities.") for loss in losses}
    gone = {path for path, becomes in AGENT.items() if becomes == GONE}
    assert lost == gone | {"auth.logout"}  # for which version 2 needs auth methods


def test_an_agent_of_version_2_that_can_do_everything(
    schemas: Schemas, valid: SchemaValidator
) -> None:
    able = everything(schemas["v2", "unstable"], "AgentCapabilities")
    losses = Losses()
    answer = {"protocolVersion": 2, "info": INFO, "capabilities": able}
    read = codec.read(answer, v2.InitializeResponse)
    lowered = plain(downgrade_agent(read, losses))
    assert not valid(1, "unstable", "InitializeResponse", lowered)
    expected = {path for path, becomes in AGENT.items() if becomes != GONE} - {"auth.logout"}
    assert paths(lowered["agentCapabilities"]) == expected
    assert losses == []


def test_clients_that_can_do_everything(schemas: Schemas, valid: SchemaValidator) -> None:
    able = everything(schemas["v1", "unstable"], "ClientCapabilities")
    losses = Losses()
    first = {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": able}
    lifted = plain(upgrade_client(codec.read(first, v1.InitializeRequest), losses))
    assert not valid(2, "unstable", "InitializeRequest", lifted)
    assert paths(lifted["capabilities"]) == set(CLIENT.values()) - {ALWAYS, GONE}
    lost = {loss.path.removeprefix("clientCapabilities.") for loss in losses}
    assert lost == {path for path, becomes in CLIENT.items() if becomes == GONE}
    able = everything(schemas["v2", "unstable"], "ClientCapabilities")
    second = {"protocolVersion": 2, "info": INFO, "capabilities": able}
    lowered = plain(downgrade_client(codec.read(second, v2.InitializeRequest), losses := Losses()))
    assert not valid(1, "unstable", "InitializeRequest", lowered)
    expected = {path for path, becomes in CLIENT.items() if becomes != GONE}
    assert paths(lowered["clientCapabilities"]) == expected
    assert losses == []


def test_a_server_that_is_reached_through_the_client_passes_both_ways() -> None:
    server = {"type": "acp", "name": "m", "serverId": "i"}
    stage, talk = Stage(), Talk()
    stage.client.ask("session/new", {"cwd": "/w", "mcpServers": [server]})
    assert stage.agent.asked("session/new")[-1]["params"]["mcpServers"] == [server]
    talk.ask("session/new", {"cwd": "/w", "mcpServers": [server]})
    assert talk.asked("session/new")["params"]["mcpServers"] == [server]
    assert (stage.lost, talk.lost) == ([], [])
