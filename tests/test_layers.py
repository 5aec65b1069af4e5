"""The direction of the imports, read from the source and held.

`LAYERS` says what each part of the package may import of the others, and what from
outside. A part that is not in the table fails: a new layer is a decision.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "twofold"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE


class Layer(NamedTuple):
    """What a part may import: of the package, from outside, and whether it may wait."""

    parts: frozenset[str]
    outside: frozenset[str] = frozenset({"msgspec"})
    pure: bool = True


SCREEN = frozenset({"msgspec", "click", "prompt_toolkit", "pygments", "rich"})
LEAVES = frozenset({"errors", "text", "version"})
PURE = LEAVES | {"wire", "rpc", "convert", "session", "policy", "view"}
PEERS = PURE | {"transport", "peer"}
TOP = PEERS | {"client", "agent", "bridge", "journal", "__init__"}

# In the order of the arrows: a row imports from rows above it only.
LAYERS = {
    "errors": Layer(frozenset(), outside=frozenset()),
    "text": Layer(frozenset(), outside=frozenset()),
    "version": Layer(frozenset(), outside=frozenset()),
    "wire": Layer(frozenset({"errors"})),
    "rpc": Layer(frozenset({"errors"})),
    "convert": Layer(frozenset({"errors", "wire", "rpc", "text"})),
    "session": Layer(frozenset({"errors", "wire"})),
    "policy": Layer(frozenset({"errors", "wire", "session"})),
    "view": Layer(frozenset({"errors", "wire", "convert", "session", "text"})),
    "transport": Layer(frozenset({"errors", "wire", "rpc", "text"}), pure=False),
    "peer": Layer(PURE | {"transport"}, pure=False),
    "client": Layer(PEERS, pure=False),
    "agent": Layer(PEERS, pure=False),
    "bridge": Layer(PEERS | {"client"}, pure=False),
    "journal": Layer(PEERS),
    # the public names: usable without the extra `cli`
    "__init__": Layer(TOP - {"__init__"}, outside=frozenset(), pure=False),
    "term": Layer(TOP, outside=SCREEN, pure=False),
    "demo": Layer(TOP, pure=False),
    "cli": Layer(TOP | {"term", "demo"}, outside=SCREEN, pure=False),
    "__main__": Layer(frozenset({"cli"}), pure=False),
}

# A pure part has no clock, no task, no process, no chance: the same bytes, the same state.
WAITING = frozenset(
    {
        *("asyncio", "concurrent", "multiprocessing", "random", "sched", "secrets", "select"),
        *("selectors", "signal", "socket", "subprocess", "threading", "time"),
    }
)


class Import(NamedTuple):
    """A module that is imported, by its full name, and where."""

    name: str
    line: int


def imports(source: str, module: str, *, is_package: bool) -> Iterator[Import]:
    """Every import of a module, those inside functions and for typing included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                steps = module.split(".")
                here = steps[: len(steps) - node.level + is_package]
                base = ".".join([*here, base] if base else here)
            # `from twofold import wire` imports a part, `from twofold.wire import x` is in one
            if base == PACKAGE:
                for alias in node.names:
                    yield Import(f"{base}.{alias.name}", node.lineno)
            else:
                yield Import(base, node.lineno)


def objections(part: str, found: Import, parts: frozenset[str]) -> Iterator[str]:
    """What the table has against an import."""
    layer = LAYERS[part]
    top, _, rest = found.name.partition(".")
    if top == PACKAGE:
        # a name of the package that is no part comes from its public face
        other = rest.partition(".")[0]
        other = other if other in parts else "__init__"
        if other != part and other not in layer.parts:
            yield f"{part} may not import {other}"
    elif top in sys.stdlib_module_names:
        if layer.pure and top in WAITING:
            yield f"{part} is pure and may not import {top}"
    elif top not in layer.outside:
        yield f"{part} may not import {top}"


def modules() -> dict[str, Path]:
    """Every module of the package by its full name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        steps = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(steps)] = path
    return found


MODULES = modules()


def part_of(module: str) -> str:
    """The part of the package a module belongs to: the first step below it."""
    return module.split(".")[1]


PARTS = frozenset(map(part_of, MODULES)) | LAYERS.keys()


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_direction_of_the_layers(module: str) -> None:
    part = part_of(module)
    assert part in LAYERS, f"{part} has no place in the table of layers"
    path = MODULES[module]
    package = path.name == "__init__.py"
    name = module.removesuffix(".__init__")
    assert [
        f"{path.name}:{found.line}: {objection}"
        for found in imports(path.read_text(encoding="utf-8"), name, is_package=package)
        for objection in objections(part, found, PARTS)
    ] == []


@pytest.mark.parametrize(
    ("source", "module", "is_package", "names"),
    [
        ("import json, asyncio.queues", "twofold.cli", False, ["json", "asyncio.queues"]),
        ("from twofold import wire", "twofold.cli", False, ["twofold.wire"]),
        ("from twofold.wire import v2", "twofold.cli", False, ["twofold.wire"]),
        ("from . import v2", "twofold.wire.codec", False, ["twofold.wire"]),
        ("from .v2 import x", "twofold.wire", True, ["twofold.wire.v2"]),
        ("from ..rpc import frames", "twofold.wire.codec", False, ["twofold.rpc"]),
        ("from .. import rpc", "twofold.wire.codec", False, ["twofold.rpc"]),
        ("from . import rpc", "twofold", True, ["twofold.rpc"]),
        ("def f():\n    import time", "twofold.cli", False, ["time"]),
    ],
)
def test_every_form_of_import_is_read(
    source: str, module: str, is_package: bool, names: list[str]
) -> None:
    assert [found.name for found in imports(source, module, is_package=is_package)] == names


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("errors", "twofold.wire"),
        ("wire", "twofold.rpc"),
        ("rpc", "twofold.wire"),
        ("convert", "twofold.session"),
        ("session", "twofold.convert"),
        ("session", "twofold.Agent"),
        ("view", "twofold.agent"),
        ("view", "asyncio"),
        ("wire", "pydantic"),
        ("client", "rich.console"),
        ("client", "twofold.bridge"),
        ("client", "twofold.agent"),
        ("term", "twofold.cli"),
        ("term", "twofold.demo"),
        ("__init__", "twofold.cli"),
    ],
)
def test_an_import_against_the_direction_is_refused(part: str, name: str) -> None:
    assert list(objections(part, Import(name, 1), PARTS)) != []


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("wire", "twofold.errors"),
        ("wire", "twofold.wire.base"),
        ("wire", "msgspec"),
        ("convert", "twofold.wire"),
        ("view", "twofold.session"),
        ("view", "difflib"),
        ("client", "asyncio"),
        ("cli", "rich.console"),
        ("cli", "twofold.Agent"),
        ("cli", "twofold.demo"),
    ],
)
def test_an_import_along_the_direction_is_allowed(part: str, name: str) -> None:
    assert list(objections(part, Import(name, 1), PARTS)) == []
