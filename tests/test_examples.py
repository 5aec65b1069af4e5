"""The examples of the protocol's documents and the recordings of real agents, message by message.

Each is decoded as its own type, without a fault and without unknown fields, and encoded to the same
JSON. Exceptions are in tables, with their reason. The examples are counted: none is skipped.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from tests.support.strategies import Json, canonical, dumps
from twofold.session import Draft, Session, Sessions, snapshot
from twofold.wire import codec, v1, v2
from twofold.wire.base import Extras, Fault, Malformed, Unknown
from twofold.wire.content import ContentBlock
from twofold.wire.shared import Error

SHARED = Path(__file__).parents[2] / "shared"

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason="there is no folder 'shared' beside the project"
)

VERSIONS: dict[str, Any] = {"v1": v1, "v2": v2}
UPDATES: dict[str, Any] = {"v1": list[v1.SessionUpdate], "v2": list[v2.SessionUpdate]}


def not_understood(value: Any, path: str = "") -> Iterator[str]:
    """Where something was kept without being understood."""
    if isinstance(value, Unknown):
        yield path or "."
    elif isinstance(value, Extras):
        yield from (f"{path.removesuffix('.unknown')}.{key}" for key in value.fields)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            if name != "meta":
                yield from not_understood(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from not_understood(item, f"{path}[{index}]")


def read(value: Any, shape: Any) -> list[str]:
    """The unknown fields of a message, which has no fault and is encoded to the same JSON."""
    faults: list[Fault] = []
    struct = codec.decode(dumps(value), shape, faults)
    assert faults == []
    assert canonical(json.loads(codec.encode(struct))) == canonical(value)
    return list(not_understood(struct))


# ---- the examples of the documents -----------------------------------------------------------


class Example(NamedTuple):
    version: str
    source: str
    n: int
    json: Any

    @property
    def key(self) -> tuple[str, str, int]:
        return self.version, self.source.rpartition("/")[2].removesuffix(".mdx"), self.n


def examples() -> list[Example]:
    return [
        Example(version, line["source"], line["n"], line["json"])
        for version in VERSIONS
        for line in map(json.loads, lines(f"examples/{version}.jsonl"))
    ]


def lines(name: str) -> list[str]:
    path = SHARED / name
    return path.read_text().splitlines() if SHARED.is_dir() else []


EXAMPLES = examples()

OLDER: dict[tuple[str, str, int], tuple[Any, str]] = {
    ("v2", "migration", 6): (v1.PromptResponse, "what the result of a prompt was in version 1"),
    ("v2", "plan-variants", 1): (v1.SessionUpdate, "the plan of version 1"),
    ("v2", "tool-call-updates", 0): (v1.SessionUpdate, "a tool call is created in version 1"),
}
"""Examples in texts on version 2 that quote version 1."""

PARTLY_UNKNOWN: dict[tuple[str, str, int], tuple[list[str], str]] = {
    ("v1", "file-system", 0): ([".clientCapabilities"], "shown as the agent's, by mistake"),
    ("v1", "session-modes", 3): (
        [".tool_call.content[0]"],
        "a content block where content of a tool call belongs",
    ),
    ("v1", "terminals", 0): ([".clientCapabilities"], "shown as the agent's, by mistake"),
    ("v2", "extensibility", 5): ([".capabilities.session.load"], "gone since"),
}
"""Examples with fields that the schema does not have."""

NULL_RESULTS: dict[tuple[str, str, int], str] = {
    ("v1", "file-system", 4): "fs/write_text_file",
    ("v1", "session-setup", 6): "session/load",
}
"""Results that the documents of version 1 show as null, where the schema has an object: null is
read as `{}` there."""

BY_KEY: dict[str, list[tuple[frozenset[str], Any]]] = {
    "v1": [
        (frozenset({"sessionUpdate"}), v1.SessionUpdate),
        (frozenset({"type", "currentValue"}), v1.SessionConfigOption),
        (frozenset({"id", "name"}), v1.AuthMethod),
        (frozenset({"name", "command"}), v1.McpServer),
        (frozenset({"type", "url"}), v1.McpServer),
        (frozenset({"name", "description"}), v1.AvailableCommand),
        (frozenset({"path", "line"}), v1.ToolCallLocation),
    ],
    "v2": [
        (frozenset({"sessionUpdate"}), v2.SessionUpdate),
        (frozenset({"configId"}), v2.SessionConfigOption),
        (frozenset({"methodId"}), v2.AuthMethod),
        (frozenset({"type", "name", "command"}), v2.McpServer),
        (frozenset({"type", "url"}), v2.McpServer),
        (frozenset({"type", "command"}), v2.RequestPermissionSubject),
        (frozenset({"name", "description"}), v2.AvailableCommand),
        (frozenset({"path", "line"}), v2.ToolCallLocation),
    ],
}
"""What a bare object is, by keys that only it has."""

BY_TYPE: dict[str, dict[str, Any]] = {
    version: {
        **dict.fromkeys(("text", "image", "audio", "resource", "resource_link"), ContentBlock),
        **dict.fromkeys(("content", "diff", "terminal"), wire.ToolCallContent),
    }
    for version, wire in VERSIONS.items()
}
BY_TYPE["v2"]["start"] = v2.ReplayFrom

PARTS: list[tuple[str, set[str], Any, Json]] = [
    ("v1", {"clientCapabilities"}, v1.InitializeRequest, {"protocolVersion": 1}),
    ("v2", {"clientCapabilities"}, v1.InitializeRequest, {"protocolVersion": 1}),
    (
        "v2",
        {"capabilities"},
        v2.InitializeRequest,
        {"protocolVersion": 2, "info": {"name": "n", "version": "1"}},
    ),
    ("v2", {"mcpServers"}, v2.NewSessionRequest, {"cwd": "/"}),
    (
        "v2",
        {"exitStatus"},
        v2.TerminalUpdate,
        {"sessionUpdate": "terminal_update", "terminalId": "t"},
    ),
    ("v2", {"title"}, v2.RequestPermissionRequest, {"sessionId": "s", "options": []}),
    (
        "v2",
        {"title", "description", "subject"},
        v2.RequestPermissionRequest,
        {"sessionId": "s", "options": []},
    ),
    ("v2", {"title", "subject"}, v2.RequestPermissionRequest, {"sessionId": "s", "options": []}),
    ("v2", {"title", "subject", "options"}, v2.RequestPermissionRequest, {"sessionId": "s"}),
]
"""Examples that show only some fields of a message, by all their keys, and what is left out."""

BY_RESULT: dict[str, list[tuple[set[str], str]]] = {
    "v1": [
        ({"protocolVersion"}, "initialize"),
        ({"sessionId"}, "session/new"),
        ({"stopReason"}, "session/prompt"),
    ],
    "v2": [
        ({"protocolVersion"}, "initialize"),
        ({"sessionId"}, "session/new"),
        ({"configOptions"}, "session/set_config_option"),
    ],
}
"""The method a result answers, by its keys, where the document does not show the request."""

AN_EMPTY_RESULT = "session/prompt"
"""What an example of version 2 answers with `{}`, where the document does not show the request."""


def request_before(example: Example) -> str | None:
    """The method of the last request with the same id before this one, in the same document."""
    asked = [
        other.json["method"]
        for other in EXAMPLES
        if (other.version, other.source) == (example.version, example.source)
        and other.n < example.n
        and isinstance(other.json, dict)
        and "method" in other.json
        and other.json.get("id") == example.json["id"]
    ]
    return asked[-1] if asked else None


def method_of_result(example: Example) -> str | None:
    method = request_before(example)
    result = example.json["result"]
    if (
        method is not None
        and method in VERSIONS[example.version].METHODS
        and not (isinstance(result, dict) and "protocolVersion" in result)
    ):
        return method
    if method is not None and method.startswith("_"):
        return method
    for keys, answered in BY_RESULT[example.version]:
        if isinstance(result, dict) and keys <= result.keys():
            return answered
    return AN_EMPTY_RESULT if result == {} else None


def what_is(example: Example) -> tuple[str, Any, Any]:
    """What kind of example this is, the value to read, and its type (None: of an extension)."""
    value, version = example.json, VERSIONS[example.version]
    if example.key in OLDER:
        bare = value.get("result", value)
        return "older", bare, OLDER[example.key][0]
    if isinstance(value, list):
        return "updates", value, UPDATES[example.version]
    if "error" in value and "jsonrpc" in value:
        return "error", value["error"], Error
    if "method" in value:
        method = value["method"]
        if method.startswith("_"):
            return "extension", value["params"], None
        return method, value["params"], version.METHODS[method].params
    if "result" in value:
        answered = method_of_result(example)
        assert answered is not None, "there is no request that this answers"
        if answered.startswith("_"):
            return "extension", value["result"], None
        return f"{answered} result", value["result"], version.METHODS[answered].result
    for name, keys, shape, rest in PARTS:
        if name == example.version and value.keys() == keys:
            return "part", {**value, **rest}, shape
    for needed, shape in BY_KEY[example.version]:
        if needed <= value.keys():
            return "bare", value, shape
    return "bare", value, BY_TYPE[example.version][value["type"]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(map(str, example.key)))
def test_an_example_is_read_as_what_it_is_and_written_as_it_was_read(example: Example) -> None:
    _, value, shape = what_is(example)
    if shape is None:
        assert canonical(codec.parse(dumps(value))) == canonical(value)
        return
    if example.key in NULL_RESULTS:
        assert value is None
        value = {}
    unknown, _ = PARTLY_UNKNOWN.get(example.key, ([], ""))
    assert read(value, shape) == unknown


def test_no_example_is_passed_over() -> None:
    keys = {example.key for example in EXAMPLES}
    assert len(keys) == len(EXAMPLES) > 200
    assert {*OLDER, *PARTLY_UNKNOWN, *NULL_RESULTS} <= keys
    kinds = Counter(what_is(example)[0] for example in EXAMPLES)
    assert kinds["older"] == len(OLDER)
    assert kinds["extension"] == 6  # in each version a request, its result and a notification


# ---- the recordings of real agents -----------------------------------------------------------

RECORDINGS = ["claude.v1", "codex.v2", "fastagent.v1", "gemini.v1", "opencode.v1"]


class Recorded(NamedTuple):
    line: int
    step: str
    kind: str
    """`request`, `notification`, `result`, `error` or `exit`."""
    method: str
    value: Any
    shape: Any
    """None for methods that are in no schema."""


def recorded(name: str) -> Iterator[Recorded]:
    """Every line of a recording: what it is and of which type."""
    methods = VERSIONS[name[-2:]].METHODS
    open_requests: dict[tuple[str, Any], str] = {}
    for number, line in enumerate(map(json.loads, lines(f"transcripts/{name}.jsonl")), 1):
        if "message" not in line:
            # the next process counts from 1 again, but an answer of this one may still follow
            yield Recorded(number, line["step"], "exit", "", line["exit"], None)
            continue
        message, sender = line["message"], line["dir"]
        if "method" in message:
            method = message["method"]
            kind = "request" if "id" in message else "notification"
            if kind == "request":
                open_requests[sender, message["id"]] = method
            shape = methods[method].params if method in methods else None
            yield Recorded(number, line["step"], kind, method, message.get("params"), shape)
            continue
        receiver = "c2a" if sender == "a2c" else "a2c"
        method = open_requests.pop((receiver, message["id"]))
        if "error" in message:
            yield Recorded(number, line["step"], "error", method, message["error"], Error)
        else:
            shape = methods[method].result if method in methods else None
            yield Recorded(number, line["step"], "result", method, message["result"], shape)


DELIBERATELY_MALFORMED = ("bad_params", "session/prompt")
"""The step and the method of the one request of each recording whose prompt is not a list."""


def is_malformed_on_purpose(each: Recorded) -> bool:
    return each.kind == "request" and (each.step, each.method) == DELIBERATELY_MALFORMED


@pytest.mark.parametrize("name", RECORDINGS)
def test_messages_of_real_agents_and_clients_are_written_as_they_were_read(name: str) -> None:
    for each in recorded(name):
        if each.shape is not None and not is_malformed_on_purpose(each):
            try:
                read(each.value, each.shape)
            except (AssertionError, Malformed) as error:
                pytest.fail(f"line {each.line}, {each.kind} of {each.method}: {error}")


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_request_that_is_malformed_on_purpose_is_malformed(name: str) -> None:
    (request,) = filter(is_malformed_on_purpose, recorded(name))
    assert request.value["prompt"] == "not a list"
    with pytest.raises(Malformed) as raised:
        codec.decode(dumps(request.value), request.shape)
    assert raised.value.path == ".prompt"


NOT_IN_THE_SCHEMA = {"session/fork", "session/no_such_method"}
"""An unstable method, and one that a client made up to see what happens."""

FIELDS_NOT_IN_THE_SCHEMA = {
    # unstable capabilities
    ".agent_capabilities.session_capabilities.fork",
    ".agent_capabilities.session_capabilities.systemPrompt",
    ".agent_capabilities.providers",
    ".capabilities.session.fork",
    ".capabilities.session.title",
    ".capabilities.session.systemPrompt",
    ".capabilities.providers",
    # an agent's own
    ".sessionId",
    ".models",
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_in_a_recording_is_passed_over(name: str) -> None:
    everything = list(recorded(name))
    assert [each.line for each in everything] == list(
        range(1, len(lines(f"transcripts/{name}.jsonl")) + 1)
    )
    unread = [each for each in everything if each.shape is None and each.kind != "exit"]
    assert all(each.method in NOT_IN_THE_SCHEMA or each.method[0] == "_" for each in unread)
    assert len(unread) < 10 < 100 < len(everything)


@pytest.mark.parametrize("name", RECORDINGS)
def test_real_agents_send_few_fields_that_the_schema_lacks(name: str) -> None:
    found = {
        path
        for each in recorded(name)
        if each.shape is not None and not is_malformed_on_purpose(each)
        for path in read(each.value, each.shape)
    }
    assert found <= FIELDS_NOT_IN_THE_SCHEMA


def test_there_is_a_test_for_every_recording() -> None:
    assert sorted(path.stem for path in (SHARED / "transcripts").glob("*.jsonl")) == RECORDINGS


@pytest.mark.parametrize("draft", Draft)
def test_a_recorded_session_of_version_2_is_rebuilt_by_its_snapshot(draft: Draft) -> None:
    sessions = Sessions(draft)
    for each in recorded("codex.v2"):
        if each.method == "session/update":
            sessions.apply(codec.decode(dumps(each.value), each.shape))
    assert sessions
    for session_id, session in sessions.items():
        rebuilt = Session(session_id, draft)
        for update in snapshot(session):
            rebuilt.apply(v2.decode_update(codec.encode(update)))
        assert rebuilt == session
        assert session.entries
