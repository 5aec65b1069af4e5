"""The verdict of the official schemas and SDKs on a value.

Three judges with one question, "is this value of that type?": the JSON schemas
(`SchemaValidator`), the TypeScript SDK (`NodeValidator`) and the Python SDKs
(`SdkValidator`). A type name is a name of the schema's `$defs`. A judge that does not
know the type raises `LookupError`: that is a mistake of the test, not a refusal.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import jsonschema_rs

Version = Literal[1, 2]
Flavour = Literal["stable", "unstable"]
Schema = dict[str, Any]
Schemas = dict[tuple[str, str], Schema]

HERE = Path(__file__).parent
SCHEMA_FILES = {"stable": "schema.json", "unstable": "schema.unstable.json"}
# The release of the Python SDK that is asked about each version of the protocol.
SDK_RELEASES: dict[Version, str] = {1: "0.12.1", 2: "1.0.0rc3"}


def load_schemas(node_sdk: Path) -> Schemas:
    """The four official schemas: ("v1" | "v2", "stable" | "unstable") to the whole document."""
    return {
        (version, flavour): json.loads((node_sdk / "schema" / version / file).read_text())
        for version in ("v1", "v2")
        for flavour, file in SCHEMA_FILES.items()
    }


class Verdict(NamedTuple):
    """The verdict of an SDK: whether it takes the value, what it made of it, or why not."""

    ok: bool
    value: Any = None
    error: str | None = None


class SchemaValidator:
    """The official JSON schemas, formats included. Call it: no errors, no objection."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._compiled: dict[tuple[int, str, str], jsonschema_rs.Draft202012Validator] = {}

    def __call__(self, version: Version, flavour: Flavour, name: str, value: Any) -> list[str]:
        """The errors of a value as `$defs[name]`, each with its place."""
        key = (version, flavour, name)
        if key not in self._compiled:
            self._compiled[key] = self._compile(*key)
        return [
            f"/{'/'.join(map(str, error.instance_path))}: {error.message}"
            for error in self._compiled[key].iter_errors(value)
        ]

    def _compile(self, version: int, flavour: str, name: str) -> jsonschema_rs.Draft202012Validator:
        defs = self._schemas[f"v{version}", flavour]["$defs"]
        if name not in defs:
            raise LookupError(f"v{version} {flavour} has no {name}")
        root = {"$ref": f"#/$defs/{name}", "$defs": defs}
        return jsonschema_rs.Draft202012Validator(root, validate_formats=True)


class NodeValidator:
    """The TypeScript SDK's own validators, in a Node process that lives as long as this.

    Numbers go through JavaScript: integers beyond 2**53 come back rounded.
    """

    def __init__(self, node_sdk: Path) -> None:
        self._process = _Conversation(["node", str(HERE / "validate.mjs"), str(node_sdk)])

    def check(
        self, version: Version, name: str, value: Any, flavour: Flavour = "stable"
    ) -> Verdict:
        """Whether the SDK's connection of that version accepts the value."""
        return self._process.ask(
            {"version": version, "flavour": flavour, "type": name, "value": value}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_info: object) -> None:
        self._process.close()


class SdkValidator:
    """The official Python SDKs: 0.12.1 reads v1, 1.0.0rc3 reads v2.

    The value of a verdict is the JSON that the SDK writes for what it parsed.
    """

    def __init__(self, python_sdk: Callable[[str], Path]) -> None:
        self._python_sdk = python_sdk
        self._processes: dict[int, _Conversation] = {}

    def check(self, version: Version, name: str, value: Any) -> Verdict:
        """Whether the SDK's models of that version accept the value."""
        if version not in self._processes:
            interpreter = self._python_sdk(SDK_RELEASES[version])
            self._processes[version] = _Conversation(
                [str(interpreter), str(HERE / "validate_sdk.py"), str(version)]
            )
        return self._processes[version].ask({"type": name, "value": value})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_info: object) -> None:
        for process in self._processes.values():
            process.close()


class _Conversation:
    """A process that answers every line with a line."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = " ".join(command)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, question: dict[str, Any]) -> Verdict:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question, allow_nan=False) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._command} ended with {self._process.wait()}")
        answer = json.loads(line)
        if answer.get("unknown"):
            raise LookupError(answer["error"])
        return Verdict(answer["ok"], answer.get("value"), answer.get("error"))

    def close(self) -> None:
        self._process.communicate()
