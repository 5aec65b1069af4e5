"""The direction of the imports, read from the source and held.

`LAYERS` lists what each part of the package may import of the others, and what from
outside. A part that is not in the table fails: a new layer is a decision. No module may
import itself through others, inside a part or between parts.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
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
SERVER = frozenset({"msgspec", "h11", "starlette", "uvicorn", "websockets"})
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
    "host": Layer(TOP, pure=False),
    "styled": Layer(PURE, outside=frozenset({"pygments", "rich"}), pure=False),
    "term": Layer(TOP | {"host", "styled"}, outside=SCREEN, pure=False),
    "web": Layer(TOP | {"host", "styled"}, outside=SERVER, pure=False),
    "demo": Layer(TOP | {"host"}, pure=False),
    "cli": Layer(TOP | {"host", "styled", "term", "web", "demo"}, outside=SCREEN, pure=False),
    "__main__": Layer(frozenset({"cli"}), pure=False),
}

# Modules of a pure part that may wait nevertheless.
MAY_WAIT = {
    "twofold.journal.sqlite": "the thread that writes a journal, and its clock",
    "twofold.journal.sqlite_reader": "queries in threads, so that the event loop goes on",
}

# What single modules import besides; nothing imports these modules before a URL is used.
REMOTE = {
    "twofold.transport.http": frozenset({"httpx2"}),
    "twofold.transport.websocket": frozenset({"websockets"}),
}

# A pure part has no clock, no task, no process, no chance: the same bytes, the same state.
WAITING = frozenset(
    {
        *("asyncio", "concurrent", "multiprocessing", "random", "sched", "secrets", "select"),
        *("selectors", "signal", "socket", "subprocess", "threading", "time"),
    }
)


class Import(NamedTuple):
    """A module that is imported, by its full name, where, and what is imported from it."""

    name: str
    line: int
    members: tuple[str, ...] = ()


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
                yield Import(base, node.lineno, tuple(alias.name for alias in node.names))


def objections(part: str, found: Import, parts: frozenset[str], module: str = "") -> Iterator[str]:
    """What the table has against an import of a module of a part."""
    layer = LAYERS[part]
    top, _, rest = found.name.partition(".")
    if top == PACKAGE:
        # a name of the package that is no part comes from its public face
        other = rest.partition(".")[0]
        other = other if other in parts else "__init__"
        if other != part and other not in layer.parts:
            yield f"{part} may not import {other}"
    elif top in sys.stdlib_module_names:
        if layer.pure and top in WAITING and module not in MAY_WAIT:
            yield f"{part} is pure and may not import {top}"
    elif top not in layer.outside | REMOTE.get(module, frozenset()):
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


def graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which of these modules each of them imports; a package's own module ends in `.__init__`."""
    names = {module.removesuffix(".__init__") for module in sources}
    made: dict[str, set[str]] = {}
    for module, source in sources.items():
        name = module.removesuffix(".__init__")
        found: set[str] = set()
        for each in imports(source, name, is_package=name != module):
            inside = [f"{each.name}.{member}" for member in each.members]
            for other in inside or [each.name]:
                while other not in names and "." in other:  # a name in a module, not a module
                    other = other.rpartition(".")[0]
                found.add(other)
        made[name] = (found & names) - {name}
    return made


def in_cycles(imported: Mapping[str, set[str]]) -> frozenset[str]:
    """The modules that import themselves through others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for other in imported[left.pop()] - seen:
                seen.add(other)
                left.append(other)
        return seen

    return frozenset(module for module in imported if module in reached(module))


def test_no_module_imports_itself_through_others() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    assert in_cycles(graph(sources)) == frozenset()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("from twofold.b import x", "from twofold.a import y"),
        ("from twofold import b", "import twofold.a"),
        ("from . import b", "from .a import y"),
        ("def f():\n    from twofold.b import x", "from twofold.c import z"),
        ("if TYPE_CHECKING:\n    from twofold.b import x", "from twofold.c import z"),
    ],
)
def test_a_cycle_is_found_however_its_imports_are_written(a: str, b: str) -> None:
    sources = {"twofold.__init__": "", "twofold.a": a, "twofold.b": b, "twofold.d": a}
    sources["twofold.c"] = "from twofold.a import y"
    cycle = {"twofold.a", "twofold.b"} | ({"twofold.c"} if ".c" in b else set())
    assert in_cycles(graph(sources)) == cycle


def test_a_package_may_import_its_modules() -> None:
    sources = {"twofold.wire.__init__": "from twofold.wire.base import x", "twofold.wire.base": ""}
    sources["twofold.wire.codec"] = "from twofold.wire import base"
    assert in_cycles(graph(sources)) == frozenset()


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
        for objection in objections(part, found, PARTS, name)
    ] == []


def test_every_module_that_may_wait_does_so() -> None:
    for module in MAY_WAIT:
        source = MODULES[module].read_text(encoding="utf-8")
        assert WAITING.intersection(
            found.name.partition(".")[0] for found in imports(source, module, is_package=False)
        )
        assert LAYERS[part_of(module)].pure


def at_once(module: str) -> set[str]:
    """Every module of the package that is imported with this one, by imports at its top."""
    tops = {}
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        source = "\n".join(
            ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
        )
        tops[name] = source
    imported, left, seen = graph(tops), [module], set[str]()
    while left:
        for other in imported[left.pop()] - seen:
            seen.add(other)
            left.append(other)
    return seen


@pytest.mark.parametrize("module", ["twofold.client.client", "twofold.transport.remote"])
def test_what_a_url_needs_is_imported_only_when_there_is_one(module: str) -> None:
    assert at_once(module) & REMOTE.keys() == set()
    assert "twofold.transport.endpoint" in at_once(module)


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
        ("client", "twofold.host"),
        ("host", "twofold.term"),
        ("host", "rich.console"),
        ("term", "twofold.cli"),
        ("term", "twofold.demo"),
        ("term", "twofold.web"),
        ("web", "twofold.term"),
        ("web", "twofold.cli"),
        ("host", "twofold.web"),
        ("cli", "starlette"),
        ("transport", "websockets"),
        ("transport", "httpx2"),
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
        ("host", "twofold.policy"),
        ("term", "twofold.host"),
        ("cli", "rich.console"),
        ("cli", "twofold.Agent"),
        ("cli", "twofold.demo"),
    ],
)
def test_an_import_along_the_direction_is_allowed(part: str, name: str) -> None:
    assert list(objections(part, Import(name, 1), PARTS)) == []
