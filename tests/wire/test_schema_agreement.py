"""The structs agree with the official schemas, and every difference is listed with its reason.

Compared are the methods, and from each of them down the names of fields, what is required,
what may be null, what a reader forgives, the words of enumerations, the tags of unions and
the range of numbers (see `tests.support.schema_shapes`). Of the unstable schemas only the session
updates are read, and what a turn used. `MEANT` lists the differences that stay, and why:
one that is not listed fails, and so does an entry that is no longer true.
"""

import copy
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tests.peers.validators import Flavour, Schemas, Version
from tests.support.schema_shapes import (
    Official,
    Schema,
    differences,
    methods_of,
    of_annotation,
    structs_in,
)
from twofold.wire import shared, v1, v2
from twofold.wire.base import Wire

VERSIONS: dict[Version, ModuleType] = {1: v1, 2: v2}

Place = tuple[Version, Flavour]
V1: Place = (1, "stable")
V2: Place = (2, "stable")
V1_UNSTABLE: Place = (1, "unstable")
V2_UNSTABLE: Place = (2, "unstable")


class Meant(NamedTuple):
    """Differences with one reason, in these schemas."""

    why: str
    where: set[Place]
    what: set[str]


MEANT = [
    Meant(
        "unstable, and read already: the unstable schema has them in the same place",
        {V1},
        {
            "PromptResponse.usage: only here",
            "SessionUpdate: the variant plan_removed only here",
            "SessionUpdate: the variant plan_update only here",
            "SessionUpdate: the variant session_message only here",
            "SessionUpdate: the variant session_message_chunk only here",
            "SessionUpdate: the variant subagent_update only here",
        },
    ),
    Meant(
        "unstable, and read already: the unstable schema has them in the same place",
        {V2},
        {
            "BackgroundWork: the variant subagent only here",
            "PlanUpdateContent: the variant file only here",
            "PlanUpdateContent: the variant markdown only here",
            "SessionUpdate: the variant plan_removed only here",
            "SessionUpdate: the variant session_message only here",
            "SessionUpdate: the variant session_message_chunk only here",
            "SessionUpdate: the variant subagent_update only here",
            "StateUpdate.usage: only here",
        },
    ),
    Meant(
        "unstable, and never taken for another state: read like any unknown value",
        {V1_UNSTABLE, V2_UNSTABLE},
        {"StateUpdate.state: 'unknown' is a word only in the schema"},
    ),
    Meant(
        "shared by both versions, so a peer of version 1 may send what only version 2 has",
        {V1, V1_UNSTABLE},
        {"ResourceLink.icons: only here"},
    ),
    Meant(
        "shared by both versions: the state of a subagent is that of a session of version 2",
        {V1_UNSTABLE},
        {"StateUpdate.background: only here"},
    ),
    Meant(
        "shared by both versions, and as wide as the wider one",
        {V2, V2_UNSTABLE},
        {
            "Annotations.priority: at least -inf here, 0 in the schema",
            "Annotations.priority: at most inf here, 1 in the schema",
            "ResourceLink.size: at least -inf here, 0 in the schema",
        },
    ),
    Meant(
        "shared by both versions, and only version 1 has a request whose id is null",
        {V2},
        {
            "CancelRequestNotification.requestId: may be null only here",
            "ElicitationFormMode.requestId: may be null only here",
            "ElicitationUrlMode.requestId: may be null only here",
        },
    ),
    Meant(
        "every object may carry `_meta`, these too: the schema does not forbid it",
        {V1},
        {
            "CompactionCapabilities._meta: only here",
            "NoticeCapabilities._meta: only here",
            "RequestPermissionOutcome[cancelled]._meta: only here",
        },
    ),
    Meant(
        "every object may carry `_meta`, an error too: the schema does not forbid it",
        {V1, V1_UNSTABLE, V2, V2_UNSTABLE},
        {"Error._meta: only here"},
    ),
    Meant(
        "one struct: which fields go with which state is the peer's",
        {V2},
        {"StateUpdate: one struct for running and idle and requires_action"},
    ),
    Meant(
        "one struct: which fields go with which state is the peer's",
        {V1_UNSTABLE, V2_UNSTABLE},
        {"StateUpdate: one struct for running and idle and requires_action and unknown"},
    ),
    Meant(
        "one struct: the two kinds differ in the type of `value` alone",
        {V1},
        {
            (
                "SetSessionConfigOptionRequest: one struct for boolean and"
                " SetSessionConfigOptionRequest[value_id]"
            )
        },
    ),
    Meant(
        "one struct: the kinds differ in the type of `value` alone, and new ones may have any",
        {V2},
        {
            "SetSessionConfigOptionRequest: one struct for id and boolean",
            "SetSessionConfigOptionRequest.value: anything here, the schema names boolean, string",
        },
    ),
    Meant(
        "one struct: it checks by itself that there is one scope",
        {V1, V2},
        {
            (
                "ElicitationFormMode: one struct for ElicitationSessionScope and"
                " ElicitationRequestScope"
            ),
            (
                "ElicitationUrlMode: one struct for ElicitationSessionScope and"
                " ElicitationRequestScope"
            ),
        },
    ),
    Meant(
        "one list: whether options and groups are mixed in it makes no difference to a reader",
        {V1, V1_UNSTABLE, V2, V2_UNSTABLE},
        {"SessionConfigSelect.options: items are mixed only here"},
    ),
    Meant(
        "what the user answered is handed on as it is, of whatever type",
        {V1},
        {
            (
                "ElicitationAcceptAction.content{}: anything here,"
                " boolean or integer or list or number or string in the schema"
            ),
            "ElicitationAcceptAction.content{}: may be null only here",
        },
    ),
    Meant(
        "what the user answered is handed on as it is, of whatever type",
        {V2},
        {
            (
                "ElicitationAcceptAction.content{}: anything here,"
                " the schema names boolean, integer, list, number, string"
            )
        },
    ),
    Meant(
        "a code is a number, the ones that are named and the ones that are not",
        {V1, V1_UNSTABLE, V2, V2_UNSTABLE},
        {"Error.code: integer here, words in the schema"},
    ),
    Meant(
        "what comes with an error is for its reader, and may be anything",
        {V2, V2_UNSTABLE},
        {
            (
                "Error.data: anything here,"
                " the schema names SessionNotFoundErrorData, UnsupportedProtocolVersionErrorData"
            )
        },
    ),
    Meant(
        "a variant that is not known is kept whole, its fields unread",
        {V1, V2},
        {
            (
                "CreateElicitationRequest: the schema gives an unknown variant"
                " message, requestId, sessionId, toolCallId"
            )
        },
    ),
    Meant(
        "a variant that is not known is kept whole, its fields unread",
        {V2},
        {"AuthMethod: the schema gives an unknown variant methodId, name"},
    ),
    Meant(
        "a variant that is not known is kept whole, its fields unread",
        {V2, V2_UNSTABLE},
        {
            "AvailableCommand: the schema gives an unknown variant description, name",
            "DiffChange: the schema gives an unknown variant fileType, mimeType",
            "PlanUpdateContent: the schema gives an unknown variant planId",
            (
                "SessionConfigOption: the schema gives an unknown variant"
                " category, configId, description, name"
            ),
        },
    ),
    Meant(
        "the protocol's page on session modes shows another shape than its schema",
        {V1, V1_UNSTABLE},
        {"CurrentModeUpdate: also read as DocumentedCurrentModeUpdate"},
    ),
    Meant(
        "a shape of an earlier draft",
        {V2},
        {
            "InitializeRequest: also read as AugustInitializeRequest",
            "InitializeResponse: also read as AugustInitializeResponse",
            "PromptResponse: also read as JunePromptResponse",
            "RequestPermissionRequest: also read as JuneRequestPermissionRequest",
        },
    ),
    Meant(
        "a shape of an earlier draft",
        {V2, V2_UNSTABLE},
        {
            "AvailableCommand: also read as AugustCommand",
            "Diff: also read as JulyDiff",
            "Diff: also read as JuneDiff",
            "PlanItems: also read as JunePlanItems",
        },
    ),
]

# Definitions that are no messages of the protocol but what they travel in, and extensions.
ENVELOPES = {
    *("AgentRequest", "AgentResponse", "AgentNotification"),
    *("ClientRequest", "ClientResponse", "ClientNotification"),
    *("ExtRequest", "ExtResponse", "ExtNotification"),
}


# ---- the walk --------------------------------------------------------------------------------


def pairs(version: Version, flavour: Flavour, schema: Schema) -> Iterator[tuple[Any, str]]:
    """The types of ours and the definitions that the walk begins with."""
    ours = VERSIONS[version]
    if flavour == "unstable":
        yield ours.SessionUpdate, "SessionUpdate"
        if version == 1:
            yield ours.PromptResponse, "PromptResponse"
        return
    for method, (_, params, result) in methods_of(schema).items():
        row = ours.METHODS.get(method)
        if row is not None:
            yield row.params, params
        if row is not None and row.result is not None and result is not None:
            yield row.result, result
    yield shared.Error, "Error"


def found(version: Version, flavour: Flavour, schema: Schema) -> set[str]:
    """Every difference between the structs and a schema."""
    official = Official(schema)
    return {
        difference
        for ours, name in pairs(version, flavour, schema)
        for difference in differences(of_annotation(ours), official.value(name), name)
    }


# ---- the agreement ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_methods_are_those_of_the_schema(version: Version, schemas: Schemas) -> None:
    sides = {"protocol": "both"}
    assert {
        method: (row.side, "notification" if row.result is None else "request")
        for method, row in VERSIONS[version].METHODS.items()
    } == {
        method: (sides.get(side, side), "notification" if result is None else "request")
        for method, (side, _, result) in methods_of(schemas[f"v{version}", "stable"]).items()
    }


@pytest.mark.parametrize(("version", "flavour"), [V1, V1_UNSTABLE, V2, V2_UNSTABLE])
def test_the_structs_differ_from_the_schema_only_where_it_is_meant(
    version: Version, flavour: Flavour, schemas: Schemas
) -> None:
    differing = found(version, flavour, schemas[f"v{version}", flavour])
    meant = {what for each in MEANT if (version, flavour) in each.where for what in each.what}
    assert sorted(differing - meant) == [], "the structs and the schema disagree"
    assert sorted(meant - differing) == [], "entries of the table that are no longer true"


def test_a_difference_has_one_reason() -> None:
    entries = [(where, what) for each in MEANT for where in each.where for what in each.what]
    assert sorted(set(entries)) == sorted(entries)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_definition_of_the_schema_is_compared(version: Version, schemas: Schemas) -> None:
    schema = schemas[f"v{version}", "stable"]
    official = Official(schema)
    for _, name in pairs(version, "stable", schema):
        official.value(name)
    assert schema["$defs"].keys() - official.read == ENVELOPES


def test_every_struct_is_compared_with_a_schema(schemas: Schemas) -> None:
    compared = {
        struct
        for version in VERSIONS
        for ours, _ in pairs(version, "stable", schemas[f"v{version}", "stable"])
        for struct in structs_in(ours)
    }

    def made(base: type[Wire]) -> Iterator[type[Wire]]:
        for struct in base.__subclasses__():
            yield struct
            yield from made(struct)

    dialects = {"twofold.wire.base", "twofold.wire.guide"}
    assert {
        struct.__qualname__
        for struct in made(Wire)
        if struct.__module__.startswith("twofold.wire.")
        and struct.__module__ not in dialects
        and not any(issubclass(each, struct) for each in compared)
    } == set()


# ---- the comparison itself: a change of a schema does not go unnoticed -----------------------


def changed(path: str, value: Any) -> Callable[[Schema], None]:
    """Set something in a schema; `...` takes it away."""

    def change(schema: Schema) -> None:
        *steps, last = path.split("/")
        place: Any = schema["$defs"]
        for step in steps:
            place = place[int(step) if isinstance(place, list) else step]
        if value is ...:
            del place[last]
        elif isinstance(place, list):
            place.append(value)
        else:
            place[last] = value

    return change


LENIENCY = "x-deserialize-default-on-error"
SKIPPING = "x-deserialize-skip-invalid-items"
ON_NULL = "x-deserialize-default-on-null"

CHANGES: dict[str, tuple[Callable[[Schema], None], str]] = {
    "a new field": (
        changed("ToolCallUpdate/properties/color", {"type": "string"}),
        "ToolCallUpdate.color: only in the schema",
    ),
    "a field that is gone": (
        changed("TextContent/properties/annotations", ...),
        "TextContent.annotations: only here",
    ),
    "a field that is now required": (
        changed("ToolCallUpdate/required/-", "title"),
        "ToolCallUpdate.title: required only in the schema",
    ),
    "a field that is no longer required": (
        changed("SessionInfo/required", []),
        "SessionInfo.cwd: required only here",
    ),
    "a field that may now be null": (
        changed("TerminalOutputChunk/properties/data/type", ["string", "null"]),
        "TerminalOutputChunk.data: may be null only in the schema",
    ),
    "a field that may no longer be null": (
        changed("Implementation/properties/title/type", "string"),
        "Implementation.title: may be null only here",
    ),
    "a field of another type": (
        changed("Icon/properties/src", {"type": "integer"}),
        "Icon.src: string here, integer in the schema",
    ),
    "a field that is now a list": (
        changed("Icon/properties/src", {"type": "array", "items": {"type": "string"}}),
        "Icon.src: string here, list in the schema",
    ),
    "a new word": (
        changed("ToolKind/anyOf/-", {"type": "string", "const": "dream"}),
        "ToolCallUpdate.kind: 'dream' is a word only in the schema",
    ),
    "a word that is gone": (
        changed("Role/anyOf", [{"type": "string", "const": "user"}, {"type": "string"}]),
        "Annotations.audience[]: 'assistant' is a word only here",
    ),
    "a new state": (
        changed(
            "StateUpdate/anyOf/-",
            {
                "type": "object",
                "properties": {"state": {"type": "string", "const": "asleep"}},
                "required": ["state"],
            },
        ),
        "StateUpdate.state: 'asleep' is a word only in the schema",
    ),
    "a new variant": (
        changed(
            "ContentBlock/anyOf/-",
            {
                "type": "object",
                "properties": {"type": {"type": "string", "const": "video"}},
                "required": ["type"],
            },
        ),
        "ContentBlock: the variant video only in the schema",
    ),
    "a new variant without a tag": (
        changed("EmbeddedResourceResource/anyOf/-", {"$ref": "#/$defs/Icon"}),
        "EmbeddedResourceResource: the variant Icon only in the schema",
    ),
    "another field for the tag": (
        changed(
            "McpServer/anyOf",
            [
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "const": tag}},
                    "required": ["kind"],
                    "allOf": [{"$ref": f"#/$defs/{name}"}],
                }
                for tag, name in (("http", "McpServerHttp"), ("stdio", "McpServerStdio"))
            ],
        ),
        "McpServer: tagged by type here, by kind in the schema",
    ),
    "a field of a merged variant": (
        changed("RunningStateUpdate/properties/since", {"type": "string"}),
        "StateUpdate.since: only in the schema",
    ),
    "a field of a scope": (
        changed("ElicitationSessionScope/properties/turn", {"type": "string"}),
        "ElicitationFormMode.turn: only in the schema",
    ),
    "a field of unknown variants": (
        changed("PlanUpdateContent/anyOf/1/properties/title", {"type": "string"}),
        "PlanUpdateContent: the schema gives an unknown variant planId, title",
    ),
    "a field that is now forgiven": (
        changed(f"RequestPermissionRequest/properties/subject/{LENIENCY}", True),
        "RequestPermissionRequest.subject: forgiven only in the schema",
    ),
    "a field that is no longer forgiven": (
        changed(f"ToolCallUpdate/properties/status/{LENIENCY}", ...),
        "ToolCallUpdate.status: forgiven only here",
    ),
    "a list that is now forgiven": (
        changed(f"ConfigOptionUpdate/properties/configOptions/{LENIENCY}", True),
        "ConfigOptionUpdate.configOptions: forgiven only in the schema",
    ),
    "items that are now skipped": (
        changed(f"PromptRequest/properties/prompt/{SKIPPING}", True),
        "PromptRequest.prompt: skips invalid items only in the schema",
    ),
    "items that are no longer skipped": (
        changed(f"Diff/properties/changes/{SKIPPING}", ...),
        "Diff.changes: skips invalid items only here",
    ),
    "null that is now the default": (
        changed(f"ListSessionsRequest/properties/cwd/{ON_NULL}", True),
        "ListSessionsRequest.cwd: null is the default only in the schema",
    ),
    "null that is no longer the default": (
        changed(f"McpServerStdio/properties/args/{ON_NULL}", ...),
        "McpServerStdio.args: null is the default only here",
    ),
    "another minimum": (
        changed("TerminalSize/properties/cols/minimum", 2),
        "TerminalSize.cols: at least 1 here, 2 in the schema",
    ),
    "another maximum": (
        changed("TerminalSize/properties/rows/maximum", 999),
        "TerminalSize.rows: at most 65535 here, 999 in the schema",
    ),
    "another width": (
        changed("StringPropertySchema/properties/minLength/format", "uint16"),
        "StringPropertySchema.minLength: at most 4294967295 here, 65535 in the schema",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_the_schema_is_noticed(what: str, schemas: Schemas) -> None:
    change, difference = CHANGES[what]
    schema = copy.deepcopy(schemas["v2", "stable"])
    before = found(2, "stable", schema)
    change(schema)
    assert difference not in before
    assert difference in found(2, "stable", schema)


def test_an_open_union_of_the_schema_needs_an_unknown_variant(schemas: Schemas) -> None:
    official = Official(schemas["v2", "stable"])
    closed = of_annotation(v2.ReplayFromStart | v2.McpServerHttp)
    assert "ReplayFrom: open only in the schema" in set(
        differences(closed, official.value("ReplayFrom"), "ReplayFrom")
    )
