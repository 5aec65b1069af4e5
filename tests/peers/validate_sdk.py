"""The verdict of the official Python SDK on a value, line by line.

Run by the interpreter of an environment that has the SDK:

    python validate_sdk.py 1|2

A line in is `{"type": "SessionNotification", "value": ...}`; a line out is
`{"ok": true, "value": ...}`, with the JSON that the SDK's own connection would write
for what it parsed, or `{"ok": false, "error": ...}`. A type the SDK has no model of is
an error, not a refusal.
"""

import importlib
import json
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from acp.utils import serialize_params
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

Dump = Callable[[BaseModel], Any]


class Dialect(NamedTuple):
    """How the SDK spells one version of the protocol."""

    schema: str
    params: Dump
    # the SDK has no name for these: where it uses them, as `Model.field`, or what they unite
    unnamed: dict[str, str]


def _with_nulls(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _without_nulls(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


DIALECTS = {
    1: Dialect(
        schema="acp.schema",
        params=serialize_params,
        unnamed={
            "ContentBlock": "ContentChunk.content",
            "RequestPermissionOutcome": "RequestPermissionResponse.outcome",
            "SessionUpdate": "SessionNotification.update",
            "SetSessionConfigOptionRequest": (
                "SetSessionConfigOptionBooleanRequest | SetSessionConfigOptionSelectRequest"
            ),
        },
    ),
    2: Dialect(
        schema="acp.experimental.v2.schema",
        params=_with_nulls,
        unnamed={
            "ContentBlock": "ContentChunk.content",
            "CreateElicitationRequest": (
                "CreateOtherSessionElicitationRequest | CreateOtherRequestElicitationRequest"
                " | CreateFormSessionElicitationRequest | CreateFormRequestElicitationRequest"
                " | CreateUrlSessionElicitationRequest | CreateUrlRequestElicitationRequest"
            ),
            "CreateElicitationResponse": (
                "AcceptElicitationResponse | DeclineElicitationResponse"
                " | CancelElicitationResponse | OtherElicitationResponse"
            ),
            "RequestPermissionOutcome": "RequestPermissionResponse.outcome",
            "SessionUpdate": "UpdateSessionNotification.update",
            "SetSessionConfigOptionRequest": (
                "SetSessionConfigOptionIdRequest | SetSessionConfigOptionBooleanRequest"
                " | SetSessionConfigOptionOtherRequest"
            ),
        },
    ),
}

# v1 results that the SDK's router writes as if they were params
NORMALIZED = {
    "AuthenticateResponse",
    "CloseSessionResponse",
    "CreateElicitationResponse",
    "DeleteSessionResponse",
    "KillTerminalResponse",
    "LoadSessionResponse",
    "LogoutResponse",
    "ReleaseTerminalResponse",
    "SetSessionConfigOptionResponse",
    "SetSessionModeResponse",
}


class Sdk:
    """The models of one version, by the schema's names."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._dialect = DIALECTS[version]
        self._models = importlib.import_module(self._dialect.schema)
        self._adapters: dict[str, Any] = {}

    def check(self, name: str, value: Any) -> dict[str, Any]:
        """Parse a value as the SDK would, and write it as the SDK would."""
        if name not in self._adapters:
            spelling = self._dialect.unnamed.get(name, name)
            try:
                self._adapters[name] = TypeAdapter(self._resolve(spelling))
            except (AttributeError, KeyError) as error:
                return {"unknown": True, "error": f"no model for {name}: {error}"}
        try:
            parsed = self._adapters[name].validate_python(value)
        except ValidationError as error:
            return {"ok": False, "error": str(error)}
        dump = self._dump(name)
        return {"ok": True, "value": dump(parsed) if isinstance(parsed, BaseModel) else parsed}

    def _resolve(self, spelling: str) -> Any:
        first, *others = spelling.split(" | ")
        model, _, field = first.partition(".")
        found = getattr(self._models, model)
        if field:
            info = found.model_fields[field]
            found = info.annotation
            if info.discriminator:
                found = Annotated[found, Field(discriminator=info.discriminator)]
        for other in others:
            found = found | getattr(self._models, other)
        return found

    def _dump(self, name: str) -> Dump:
        if not name.endswith("Response"):
            return self._dialect.params
        if self._version == 1 and name in NORMALIZED:
            return serialize_params  # type: ignore[no-any-return]
        return _without_nulls


def main() -> None:
    """Answer every line until the input ends."""
    sdk = Sdk(int(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(sdk.check(asked["type"], asked["value"])), flush=True)


if __name__ == "__main__":
    main()
