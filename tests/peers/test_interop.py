"""Random valid messages between Twofold and the official SDKs, both ways and of both versions.

A message that the schema allows is read and written by Twofold, accepted by the SDK, and
what the SDK makes of it is read by Twofold again: without a fault, and written back as it
came. So for the params and result of every method and every session update.

The SDKs are not perfect, and older than the schema. `GAPS` lists what they refuse or make
unreadable, `CHANGES` what they write otherwise than they read it. Both are exact: an SDK
that comes to do better fails the test too.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from tests.peers.validators import (
    Flavour,
    NodeValidator,
    Schemas,
    SchemaValidator,
    SdkValidator,
    Version,
)
from tests.support.schema_shapes import methods_of
from tests.support.schema_values import SchemaValues
from tests.support.strategies import canonical
from twofold.wire import codec, v1, v2
from twofold.wire.base import Fault, Malformed, Wire

Json = Any
VERSIONS: dict[Version, ModuleType] = {1: v1, 2: v2}
EXAMPLES = 25


# ---- what is sent ----------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of message: params or result of a method, or one session update."""

    version: Version
    method: str
    part: Literal["params", "result"] = "params"
    tag: str | None = None
    """The tag of an update; `other` is an unknown one."""

    def __str__(self) -> str:
        return f"v{self.version} {self.tag or f'{self.method} {self.part}'}"

    @property
    def shape(self) -> Any:
        """How Twofold reads it."""
        module = VERSIONS[self.version]
        if self.tag is not None:
            return module.SessionUpdate
        return getattr(module.METHODS[self.method], self.part)


def kinds() -> Iterator[Kind]:
    for version, module in VERSIONS.items():
        for method, row in module.METHODS.items():
            yield Kind(version, method)
            if row.result is not None:
                yield Kind(version, method, "result")
        for update in get_args(module.SessionUpdate):
            tag = update.__struct_config__.tag
            if tag != "?":
                yield Kind(version, "session/update", tag=tag)
            elif version == 2:  # version 1 is closed: its peers know every update
                yield Kind(version, "session/update", tag="other")


KINDS = list(kinds())


class Messages:
    """Random messages of a kind, and what the schema calls them."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._methods = {v: methods_of(schemas[f"v{v}", "stable"]) for v in VERSIONS}
        self._values = cache(self._make_values)
        self._updates = cache(self._make_updates)

    def name(self, kind: Kind) -> str:
        """The definition that describes the messages."""
        if kind.tag is not None:
            return "SessionUpdate"
        name = getattr(self._methods[kind.version][kind.method], kind.part)
        assert isinstance(name, str)
        return name

    def shapes(self, version: Version) -> dict[str, Any]:
        """How Twofold reads the definitions."""
        return {self.name(kind): kind.shape for kind in KINDS if kind.version == version}

    def flavour(self, kind: Kind) -> Flavour:
        """The schema that has them: the stable one, unless it does not know the update."""
        known = kind.tag is None or kind.tag in self._updates(kind.version, "stable", False)
        return "stable" if known else "unstable"

    def values(self, kind: Kind, *, safe_integers: bool = False) -> SearchStrategy[Json]:
        """Messages that the schema allows, with all that it leaves open."""
        key = (kind.version, self.flavour(kind), safe_integers)
        if kind.tag is not None:
            return self._updates(*key)[kind.tag]
        return self._values(*key).of(self.name(kind))

    def _make_values(self, version: Version, flavour: Flavour, safe: bool) -> SchemaValues:
        return SchemaValues(self._schemas[f"v{version}", flavour], safe_integers=safe)

    def _make_updates(
        self, version: Version, flavour: Flavour, safe: bool
    ) -> dict[str, SearchStrategy[Json]]:
        return self._values(version, flavour, safe).variants("SessionUpdate")


@pytest.fixture(scope="module")
def messages(schemas: Schemas) -> Messages:
    return Messages(schemas)


every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def for_all(values: SearchStrategy[Json], check: Callable[[Json], None]) -> None:
    some = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
    some(given(values)(check))()


def read(value: Json, shape: Any) -> Any:
    """What Twofold reads, which must not have a fault."""
    faults: list[Fault] = []
    struct = codec.read(value, shape, faults)
    assert faults == []
    return struct


def written(struct: Any) -> Json:
    return json.loads(codec.encode(struct))


def doubles(value: Json) -> Json:
    """The same with every number as JavaScript has it."""
    if isinstance(value, dict):
        return {key: doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [doubles(item) for item in value]
    return float(value) if type(value) is int else value


# ---- where the Python SDKs fall short --------------------------------------------------------


class Gap(NamedTuple):
    """Messages that a Python SDK cannot take or give back, and one of them."""

    why: str
    version: Version
    names: tuple[str, ...]
    """The definitions of the messages, that of the example first."""
    how: Literal["no model", "refused", "unreadable", "crash"]
    example: Json
    when: Callable[[Json], bool] = lambda message: True


def update_is(*tags: str) -> Callable[[Json], bool]:
    """Whether a message is, or carries, one of these updates."""
    return lambda message: message.get("update", message)["sessionUpdate"] in tags


def has_an_unusual_answer(message: Json) -> bool:
    """Whether a form was filled in with null, an object or a list of other things than text."""
    return message["action"] == "accept" and any(
        answer is None
        or isinstance(answer, dict)
        or (isinstance(answer, list) and not all(isinstance(item, str) for item in answer))
        for answer in (message.get("content") or {}).values()
    )


def request_is_null(message: Json) -> bool:
    return "requestId" in message and message["requestId"] is None


GAPS = {
    "updates newer than 0.12.1": Gap(
        "its schema is older, and a union without a way out for the unknown",
        1,
        ("SessionUpdate", "SessionNotification"),
        "refused",
        {"sessionUpdate": "notice", "severity": "info", "title": "t"},
        update_is(
            *("notice", "compaction_update", "compaction_summary_chunk"),
            *("subagent_update", "session_message", "session_message_chunk"),
        ),
    ),
    "a null request id, cancelled": Gap(
        "it writes no null, and the field is required",
        1,
        ("CancelRequestNotification",),
        "unreadable",
        {"requestId": None},
        request_is_null,
    ),
    "a null request id, asking": Gap(
        "it writes no null, and without it the question belongs to nobody",
        1,
        ("CreateElicitationRequest",),
        "unreadable",
        {
            "requestId": None,
            "mode": "url",
            "message": "m",
            "url": "https://x.example",
            "elicitationId": "e",
        },
        lambda message: request_is_null(message) and message["mode"] in {"form", "url"},
    ),
    "cancelling a tool call or a terminal": Gap(
        "its schema is older",
        2,
        (
            *("CancelToolCallRequest", "CancelToolCallResponse"),
            *("CancelTerminalRequest", "CancelTerminalResponse"),
        ),
        "no model",
        {},
    ),
    "answers of any type": Gap(
        "it takes an answer to be text, a number, a boolean or a list of texts",
        2,
        ("CreateElicitationResponse",),
        "refused",
        {"action": "accept", "content": {"k": None}},
        has_an_unusual_answer,
    ),
    "an unknown update with a nested state": Gap(
        "it looks up `state` in a set before it looks at the tag, and dies of a TypeError",
        2,
        ("SessionUpdate",),
        "crash",
        {"sessionUpdate": "subagent_update", "sessionId": "s", "state": {"state": "running"}},
        lambda message: isinstance(message.get("state"), dict),
    ),
}


def gap_at(version: Version, name: str, message: Json) -> Gap | None:
    for gap in GAPS.values():
        if gap.version == version and name in gap.names and gap.when(message):
            return gap
    return None


def asked(sdk: SdkValidator, version: Version, name: str, message: Json, shape: Any) -> str:
    """What becomes of a message at a Python SDK: `fine`, or one of the ways of a gap."""
    try:
        verdict = sdk.check(version, name, message)
    except LookupError:
        return "no model"
    except RuntimeError:
        return "crash"
    if not verdict.ok:
        return "refused"
    try:
        back = read(verdict.value, shape)
    except Malformed:
        return "unreadable"
    assert canonical(written(back)) == canonical(verdict.value)
    return "fine"


# ---- what the SDKs write otherwise than they read it -----------------------------------------


class Change(NamedTuple):
    """A message, and what an SDK makes of it."""

    sdk: Literal["python", "typescript"]
    version: Version
    name: str
    message: Json
    made: Json


PATCH = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
INFO = {"sessionUpdate": "session_info_update"}
USAGE = {"sessionUpdate": "usage_update", "size": 0}
STATE = {"sessionUpdate": "state_update", "state": "running"}
TERMINAL = {"sessionUpdate": "terminal_update", "terminalId": "t"}
COMMANDS = {"sessionUpdate": "available_commands_update"}
COMMAND = {"name": "n", "description": "d"}
CONFIG = {"id": "c", "name": "n", "currentValue": True}
FORM = {"sessionId": "s", "message": "m", "mode": "form"}
V2_HELLO = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}}

CHANGES = {
    "a null is dropped": Change("python", 1, "SessionUpdate", {**PATCH, "title": None}, PATCH),
    "a field newer than 0.12.1 is dropped": Change(
        "python", 1, "SessionUpdate", {**PATCH, "name": "grep"}, PATCH
    ),
    "a default is dropped": Change(
        "python",
        1,
        "CreateElicitationRequest",
        {**FORM, "requestedSchema": {"type": "object", "properties": {}}},
        {**FORM, "requestedSchema": {}},
    ),
    "a default is added": Change(
        "python",
        1,
        "InitializeRequest",
        {"protocolVersion": 1, "clientCapabilities": {"terminal": True}},
        {"protocolVersion": 1, "clientCapabilities": {"terminal": True, "auth": {}}},
    ),
    "a word that is not known is dropped": Change(
        "python",
        1,
        "SetSessionConfigOptionResponse",
        {"configOptions": [{"type": "boolean", **CONFIG, "category": "_x"}]},
        {"configOptions": [{"type": "boolean", **CONFIG}]},
    ),
    "an unknown field is dropped by the Python SDK of version 1": Change(
        "python", 1, "SessionUpdate", {**PATCH, "x": 1}, PATCH
    ),
    "an unknown field is dropped by the Python SDK of version 2": Change(
        "python", 2, "SessionUpdate", {**PATCH, "x": 1}, PATCH
    ),
    "a null of a result is dropped": Change(
        "python", 2, "PromptResponse", {"messageId": "m", "_meta": None}, {"messageId": "m"}
    ),
    "a date is rewritten": Change(
        "python",
        2,
        "SessionUpdate",
        {**INFO, "updatedAt": "2026-11-16T01:02:03.5+00:00"},
        {**INFO, "updatedAt": "2026-11-16T01:02:03.500000Z"},
    ),
    "what a tool call is capable of is dropped": Change(
        "python", 2, "SessionUpdate", {**PATCH, "capabilities": {"cancel": {}}}, PATCH
    ),
    "what a terminal is capable of, and its size, are dropped": Change(
        "python",
        2,
        "SessionUpdate",
        {**TERMINAL, "capabilities": {}, "size": {"cols": 80, "rows": 24}},
        TERMINAL,
    ),
    "background work is dropped": Change(
        "python", 2, "SessionUpdate", {**STATE, "background": []}, STATE
    ),
    "the type of a command is dropped": Change(
        "python",
        2,
        "SessionUpdate",
        {**COMMANDS, "availableCommands": [{"type": "command", **COMMAND}]},
        {**COMMANDS, "availableCommands": [COMMAND]},
    ),
    "the commands of a new session are dropped": Change(
        "python",
        2,
        "NewSessionResponse",
        {"sessionId": "s", "availableCommands": []},
        {"sessionId": "s"},
    ),
    "the metadata of a cancelled permission is dropped": Change(
        "python",
        2,
        "RequestPermissionResponse",
        {"outcome": {"outcome": "cancelled", "_meta": {"k": 1}}},
        {"outcome": {"outcome": "cancelled"}},
    ),
    "an integer beyond 2**53 is rounded": Change(
        "typescript",
        2,
        "SessionUpdate",
        {**USAGE, "used": 2**53 + 1},
        {**USAGE, "used": 2**53},
    ),
    "an unknown field is dropped by the TypeScript SDK": Change(
        "typescript", 2, "SessionUpdate", {**PATCH, "x": 1}, PATCH
    ),
    "capabilities are filled in": Change(
        "typescript", 2, "InitializeRequest", V2_HELLO, {**V2_HELLO, "capabilities": {}}
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_an_sdk_makes_is_still_made(
    what: str, valid: SchemaValidator, node_validator: NodeValidator, sdk_validator: SdkValidator
) -> None:
    sdk, version, name, message, made = CHANGES[what]
    assert valid(version, "stable", name, message) == []
    judge = sdk_validator if sdk == "python" else node_validator
    assert judge.check(version, name, message).value == made


# ---- there and back --------------------------------------------------------------------------


@every_kind
def test_the_schema_allows_what_twofold_writes(
    kind: Kind, messages: Messages, valid: SchemaValidator
) -> None:
    name, flavour = messages.name(kind), messages.flavour(kind)

    def check(message: Json) -> None:
        sent = written(read(message, kind.shape))
        assert valid(kind.version, flavour, name, sent) == []
        assert canonical(sent) == canonical(message)

    for_all(messages.values(kind), check)


@every_kind
def test_the_python_sdk_and_twofold_read_what_the_other_writes(
    kind: Kind, messages: Messages, sdk_validator: SdkValidator
) -> None:
    name = messages.name(kind)

    def check(message: Json) -> None:
        gap = gap_at(kind.version, name, message)
        if gap is not None and gap.how == "crash":
            return  # it would take the validator with it
        sent = written(read(message, kind.shape))
        outcome = asked(sdk_validator, kind.version, name, sent, kind.shape)
        assert outcome == ("fine" if gap is None else gap.how)

    for_all(messages.values(kind), check)


@every_kind
def test_the_typescript_sdk_and_twofold_read_what_the_other_writes(
    kind: Kind, messages: Messages, node_validator: NodeValidator
) -> None:
    name, flavour = messages.name(kind), messages.flavour(kind)

    def check(message: Json) -> None:
        sent = written(read(message, kind.shape))
        verdict = node_validator.check(kind.version, name, sent, flavour)
        assert verdict.ok, verdict.error
        back = read(verdict.value, kind.shape)
        assert canonical(doubles(written(back))) == canonical(doubles(verdict.value))

    for_all(messages.values(kind, safe_integers=True), check)


@pytest.mark.parametrize("what", GAPS)
def test_a_gap_of_the_python_sdk_is_still_there(
    what: str, messages: Messages, python_sdk: Callable[[str], Any]
) -> None:
    gap = GAPS[what]
    assert gap.when(gap.example)
    shapes = messages.shapes(gap.version)
    with SdkValidator(python_sdk) as own:  # which may crash
        for name in gap.names if gap.how == "no model" else gap.names[:1]:
            assert asked(own, gap.version, name, gap.example, shapes[name]) == gap.how


# ---- what a program builds -------------------------------------------------------------------

TEXT = v2.TextContent(text="hello")
OPTIONS = [v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")]

V1_SERVERS: list[v1.McpServer] = [
    v1.McpServerHttp(name="h", url="https://x.example", headers=[]),
    v1.McpServerStdio(name="s", command="/s", args=[], env=[v1.EnvVariable(name="A", value="1")]),
]
V1_AUTH: list[v1.AuthMethod] = [
    v1.AuthMethodAgent(id="a", name="Agent"),
    v1.AuthMethodTerminal(id="t", name="Terminal"),
]
V1_SELECT = v1.SessionConfigSelect(
    id="m",
    name="Model",
    category="model",
    current_value="big",
    options=[v1.SessionConfigUngrouped(value="big", name="Big")],
)
V1_CALL = v1.ToolCall(
    tool_call_id="t",
    title="Edit",
    kind="edit",
    content=[v1.Content(content=TEXT), v1.Diff(path="/x", new_text="b", old_text="a")],
    locations=[v1.ToolCallLocation(path="/x", line=3)],
    raw_input={"path": "/x"},
)
V2_CALL = v2.ToolCallUpdate(
    tool_call_id="t",
    title=None,
    kind="_acme",
    status="paused",
    content=[
        v2.Diff(
            changes=[v2.DiffModify(path="/x"), v2.DiffMove(old_path="/a", path="/b")],
            patch=v2.DiffPatch(format="git_patch", text="--- /x"),
        )
    ],
    meta={"k": None},
)
V2_FORM = v2.ElicitationSchema(
    type="object",
    properties={
        "name": v2.StringPropertySchema(min_length=1, format="email"),
        "tags": v2.MultiSelectPropertySchema(
            items=v2.TitledMultiSelectItems(any_of=[v2.EnumOption(const="a", title="A")])
        ),
    },
    required=["name"],
)
V2_COMMAND = v2.Command(name="n", description="d", input=v2.TextCommandInput(hint="h"))
V2_ENTRY = v2.PlanEntry(content="look", priority="high", status="cancelled")

BUILT: list[tuple[Version, str, Wire]] = [
    (1, "InitializeResponse", v1.InitializeResponse(protocol_version=1, auth_methods=V1_AUTH)),
    (1, "NewSessionRequest", v1.NewSessionRequest(cwd="/", mcp_servers=V1_SERVERS)),
    (1, "NewSessionResponse", v1.NewSessionResponse(session_id="s", config_options=[V1_SELECT])),
    (1, "SessionNotification", v1.SessionNotification(session_id="s", update=V1_CALL)),
    (1, "SessionUpdate", v1.AgentMessageChunk(content=TEXT)),
    (1, "PromptResponse", v1.PromptResponse(stop_reason="end_turn")),
    (
        1,
        "RequestPermissionRequest",
        v1.RequestPermissionRequest(
            session_id="s", tool_call=v1.ToolCallPatch(tool_call_id="t"), options=OPTIONS
        ),
    ),
    (
        2,
        "InitializeRequest",
        v2.InitializeRequest(protocol_version=2, info=v2.Implementation(name="n", version="1")),
    ),
    (
        2,
        "ResumeSessionRequest",
        v2.ResumeSessionRequest(session_id="s", cwd="/", replay_from=v2.ReplayFromStart()),
    ),
    (2, "PromptRequest", v2.PromptRequest(session_id="s", prompt=[TEXT])),
    (2, "UpdateSessionNotification", v2.UpdateSessionNotification(session_id="s", update=V2_CALL)),
    (2, "SessionUpdate", v2.UserMessage(message_id="m", content=[TEXT])),
    (2, "SessionUpdate", v2.StateUpdate(state="idle", stop_reason="end_turn")),
    (
        2,
        "SessionUpdate",
        v2.TerminalUpdate(terminal_id="1", output=v2.TerminalOutput(data="aGk="), exit_status=None),
    ),
    (2, "SessionUpdate", v2.PlanUpdate(plan=v2.PlanItems(plan_id="p", entries=[V2_ENTRY]))),
    (2, "SessionUpdate", v2.AvailableCommandsUpdate(available_commands=[V2_COMMAND])),
    (
        2,
        "RequestPermissionRequest",
        v2.RequestPermissionRequest(
            session_id="s",
            title="Run it?",
            subject=v2.CommandPermissionSubject(command="ls", cwd="/"),
            options=OPTIONS,
        ),
    ),
    (
        2,
        "CreateElicitationRequest",
        v2.ElicitationForm(message="Who?", session_id="s", requested_schema=V2_FORM),
    ),
    (2, "CreateElicitationResponse", v2.ElicitationAccept(content={"name": "x", "n": 1.5})),
]


@pytest.mark.parametrize(
    ("version", "name", "struct"),
    BUILT,
    ids=[f"v{row[0]} {type(row[2]).__name__}" for row in BUILT],
)
def test_every_judge_accepts_a_struct_that_was_built(
    version: Version,
    name: str,
    struct: Wire,
    messages: Messages,
    valid: SchemaValidator,
    node_validator: NodeValidator,
    sdk_validator: SdkValidator,
) -> None:
    sent = written(struct)
    assert valid(version, "stable", name, sent) == []
    for verdict in (
        node_validator.check(version, name, sent),
        sdk_validator.check(version, name, sent),
    ):
        assert verdict.ok, verdict.error
    assert read(sent, messages.shapes(version)[name]) == struct
