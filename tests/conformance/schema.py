"""The objections of the official schema of a version to the messages of an agent."""

from collections.abc import Iterator
from typing import Any

from tests.conformance.talk import Json, Talk, is_response
from tests.peers.validators import Schema, Schemas, SchemaValidator, Version
from tests.support.schema_shapes import methods_of

ENVELOPE = {"jsonrpc", "id", "method", "params", "result", "error"}


class Official:
    """The stable schemas of both versions."""

    def __init__(self, schemas: Schemas, valid: SchemaValidator) -> None:
        self._documents: dict[Version, Schema] = {
            1: schemas["v1", "stable"],
            2: schemas["v2", "stable"],
        }
        self._valid = valid
        self._methods = {
            version: methods_of(document) for version, document in self._documents.items()
        }

    def objections(self, version: Version, name: str, value: Any) -> list[str]:
        """What is wrong with a value of a type."""
        return self._valid(version, "stable", name, value)

    def result_objections(self, version: Version, method: str, result: Any) -> list[str]:
        """What is wrong with the result of a request."""
        name = self._methods[version][method].result
        assert name is not None, f"{method} has no result"
        return self.objections(version, name, result)

    def client_methods(self, version: Version) -> set[str]:
        """The methods that an agent may call."""
        methods = self._methods[version].items()
        return {name for name, method in methods if method.side in ("client", "protocol")}

    def values(self, talk: Talk) -> Iterator[tuple[Version, str, Any]]:
        """Everything that the agent sent: its version, its type, and the value itself."""
        asked: dict[Any, str] = {}
        for line in talk.lines:
            for message in line.messages:
                if line.sent:
                    if "method" in message and "id" in message:
                        asked[message["id"]] = message["method"]
                    continue
                yield from self._value(talk, message, asked)

    def _value(
        self, talk: Talk, message: Json, asked: dict[Any, str]
    ) -> Iterator[tuple[Version, str, Any]]:
        version = talk.spoken
        if "error" in message:
            yield version, "Error", message["error"]
            return
        method = asked.get(message.get("id")) if is_response(message) else message["method"]
        known = self._methods[version].get(method or "")
        if known is not None:  # else it belongs to an extension
            name = known.result if is_response(message) else known.params
            assert name is not None, message
            yield version, name, message.get("result", message.get("params"))

    def keys(self, version: Version, name: str) -> set[str]:
        """The keys that the definition of an object names at its root."""
        return set(self._keys(version, self._documents[version]["$defs"][name]))

    def _keys(self, version: Version, schema: Schema) -> Iterator[str]:
        yield from schema.get("properties", ())
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            yield from self._keys(version, self._documents[version]["$defs"][name])
        for word in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(word, ()):
                yield from self._keys(version, part)
