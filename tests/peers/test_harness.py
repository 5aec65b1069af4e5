"""The harness itself: what it generates is valid, and each validator separates good from bad."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from tests.conftest import ValuesOf
from tests.peers.validators import (
    Flavour,
    NodeValidator,
    Schemas,
    SchemaValidator,
    SdkValidator,
    Version,
)
from tests.support.schema_values import SchemaValues, method_types

SCHEMAS: list[tuple[Version, Flavour]] = [
    (1, "stable"),
    (1, "unstable"),
    (2, "stable"),
    (2, "unstable"),
]

NOTIFICATIONS = {1: "SessionNotification", 2: "UpdateSessionNotification"}

CHUNK = {
    "sessionId": "s",
    "update": {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m",
        "content": {"type": "text", "text": "größe"},
    },
}
BAD = [
    pytest.param({**CHUNK, "sessionId": 7}, id="wrong type"),
    pytest.param({"sessionId": "s"}, id="missing field"),
    pytest.param(
        {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk"}}, id="known tag"
    ),
    pytest.param([], id="no object"),
]


def every_value_is_valid(values: SearchStrategy[Any], valid: Any, examples: int = 20) -> None:
    @settings(max_examples=examples)
    @given(values)
    def check(value: Any) -> None:
        assert valid(value) == []

    check()


@pytest.mark.parametrize(("version", "flavour"), SCHEMAS)
def test_every_generated_params_and_result_is_valid(
    version: Version, flavour: Flavour, schemas: Schemas, valid: SchemaValidator
) -> None:
    schema = schemas[f"v{version}", flavour]
    values = SchemaValues(schema)
    for name in method_types(schema):
        every_value_is_valid(
            values.of(name), lambda value, name=name: valid(version, flavour, name, value)
        )


@pytest.mark.parametrize(("version", "flavour"), SCHEMAS)
@pytest.mark.parametrize("open_", [True, False], ids=["open", "known only"])
def test_every_generated_session_update_is_valid(
    version: Version, flavour: Flavour, open_: bool, schemas: Schemas, valid: SchemaValidator
) -> None:
    values = SchemaValues(
        schemas[f"v{version}", flavour], extras=open_, unknown=open_, safe_integers=not open_
    )
    for values_of_variant in values.variants("SessionUpdate").values():
        every_value_is_valid(
            values_of_variant, lambda value: valid(version, flavour, "SessionUpdate", value)
        )


def test_generated_values_use_the_room_a_schema_leaves(
    values_of: ValuesOf, schemas: Schemas
) -> None:
    named = schemas["v2", "stable"]["$defs"]["ToolCallUpdate"]["properties"]
    kinds = {each.get("const") for each in schemas["v2", "stable"]["$defs"]["ToolKind"]["anyOf"]}
    seen: set[str] = set()

    @settings(max_examples=400, derandomize=True, database=None)
    @given(values_of(2, "stable", "ToolCallUpdate"))
    def look(value: dict[str, Any]) -> None:
        if "title" not in value:
            seen.add("an omitted field")
        elif value["title"] is None:
            seen.add("a null")
        else:
            seen.add("a value")
        if value.get("kind") in {"read", "edit", "delete"}:
            seen.add("a known kind")
        if isinstance(value.get("kind"), str) and value["kind"] not in kinds:
            seen.add("an unknown kind")
        if value.keys() - named.keys():
            seen.add("an unknown field")
        if value.get("_meta"):
            seen.add("metadata")

    look()
    assert seen == {
        "an omitted field",
        "a null",
        "a value",
        "a known kind",
        "an unknown kind",
        "an unknown field",
        "metadata",
    }


def test_values_without_the_unknown_hold_only_what_the_schema_names(
    values_of: ValuesOf, schemas: Schemas
) -> None:
    named = schemas["v2", "stable"]["$defs"]["ToolCallUpdate"]["properties"]
    kinds = {each.get("const") for each in schemas["v2", "stable"]["$defs"]["ToolKind"]["anyOf"]}
    kinds = {
        option["const"]
        for option in schemas["v2", "stable"]["$defs"]["ToolKind"]["anyOf"]
        if "const" in option
    }

    @given(values_of(2, "stable", "ToolCallUpdate", extras=False, unknown=False))
    def look(value: dict[str, Any]) -> None:
        assert value.keys() <= named.keys()
        assert value.get("kind") in {None, *kinds}

    look()


@pytest.mark.parametrize("version", [1, 2])
def test_every_judge_accepts_a_plain_chunk(
    version: Version,
    valid: SchemaValidator,
    node_validator: NodeValidator,
    sdk_validator: SdkValidator,
) -> None:
    name = NOTIFICATIONS[version]
    assert valid(version, "stable", name, CHUNK) == []
    assert node_validator.check(version, name, CHUNK) == (True, CHUNK, None)
    assert node_validator.check(version, name, CHUNK, "unstable") == (True, CHUNK, None)
    assert sdk_validator.check(version, name, CHUNK) == (True, CHUNK, None)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("value", BAD)
def test_every_judge_refuses_a_bad_notification(
    version: Version,
    value: Any,
    valid: SchemaValidator,
    node_validator: NodeValidator,
    sdk_validator: SdkValidator,
) -> None:
    name = NOTIFICATIONS[version]
    assert valid(version, "stable", name, value) != []
    for verdict in (
        node_validator.check(version, name, value),
        sdk_validator.check(version, name, value),
    ):
        assert not verdict.ok
        assert verdict.error


def test_a_validator_refuses_an_unknown_type(
    valid: SchemaValidator, node_validator: NodeValidator, sdk_validator: SdkValidator
) -> None:
    with pytest.raises(LookupError):
        valid(1, "stable", "NoSuchType", {})
    with pytest.raises(LookupError):
        node_validator.check(1, "NoSuchType", {})
    with pytest.raises(LookupError):
        sdk_validator.check(1, "NoSuchType", {})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "name",
    [
        "ContentBlock",
        "CreateElicitationRequest",
        "CreateElicitationResponse",
        "RequestPermissionOutcome",
        "SessionUpdate",
        "SetSessionConfigOptionRequest",
    ],
)
def test_types_without_a_name_in_the_python_sdk_are_found(
    version: Version, name: str, sdk_validator: SdkValidator
) -> None:
    assert not sdk_validator.check(version, name, 0).ok
