"""Figures about the shape of the code: `make metrics`.

    python -m scripts.metrics            of this tree
    python -m scripts.metrics FOLDER     of another one, such as an unpacked earlier version
    python -m scripts.metrics --steps    also list the functions of each walk

How they are counted:

- Files and lines are those of `*.py` below `src` and `tests`, blank lines and comments included.
- A module with one importer is imported by exactly one other module of the package, imports inside
  functions and for typing included. `__init__` and `__main__` are not counted, and do count as
  importers.
- An import cycle is a group of modules that reach each other by such imports.
- An inheritance chain is a class with its bases inside the package, the class itself included.
  Errors and structs of the wire are counted apart.
- An error is a class of the package that derives from Exception.
- A walk is described in `scripts/walk.py`. A function counts if it is in most repetitions.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts import walk
from tests.support.terminal_stage import Stage

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "twofold"
STARTS: Final = 15

# ---- files and imports -----------------------------------------------------------------------


def sizes(folder: Path) -> tuple[int, int]:
    """How many files there are below a folder, and how many lines they have."""
    files = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    return len(files), sum(text.count("\n") for text in files)


def imports(source: Path) -> dict[str, set[str]]:
    """Which modules of the package each of its modules imports."""
    paths = {_name(path, source): path for path in (source / PACKAGE).rglob("*.py")}
    found = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        wanted = _imported(ast.parse(path.read_bytes()), package)
        found[name] = {_module(each, paths) for each in wanted} & paths.keys() - {name}
    return found


def _name(path: Path, source: Path) -> str:
    steps = path.relative_to(source).with_suffix("").parts
    return ".".join(steps[:-1] if steps[-1] == "__init__" else steps)


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            steps = package.split(".")
            above = steps[: len(steps) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _module(name: str, modules: dict[str, Path]) -> str:
    """The module that a name is, or is in."""
    return name if name in modules else name.rpartition(".")[0]


def with_one_importer(graph: dict[str, set[str]], source: Path) -> tuple[int, int]:
    """How many modules have one importer, of how many."""
    counted = [
        name
        for name in graph
        if not (source.joinpath(*name.split(".")) / "__init__.py").exists()
        and not name.endswith("__main__")
    ]
    one = [name for name in counted if sum(name in others for others in graph.values()) == 1]
    return len(one), len(counted)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""
    reached = {name: _reach(name, graph) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reach(name: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [*graph[name]]
    while pending:
        if (other := pending.pop()) not in found:
            found.add(other)
            pending += graph[other]
    return found


# ---- classes ---------------------------------------------------------------------------------

_CLASSES: Final = """
import importlib, inspect, json, pkgutil, sys
import twofold

classes = {}
for module in pkgutil.walk_packages(twofold.__path__, "twofold."):
    if not module.name.endswith("__main__"):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and value.__module__.partition(".")[0] == "twofold":
                classes[f"{value.__module__}.{value.__qualname__}"] = value


def chain(value):
    bases = [each for each in value.__bases__ if each in classes.values()]
    return [value.__name__, *max(map(chain, bases), key=len, default=[])]


def longest(values):
    chains = [chain(value) for value in values]
    return max(sorted(chains), key=len, default=[])


errors = [each for each in classes.values() if issubclass(each, Exception)]
structs = [each for each in classes.values() if each.__module__.startswith("twofold.wire")]
exported = [getattr(twofold, name) for name in twofold.__all__]
print(json.dumps({
    "exported": len(twofold.__all__),
    "errors": len(errors),
    "errors exported": sum(any(each is name for name in exported) for each in errors),
    "chain": longest(set(classes.values()) - set(errors) - set(structs)),
    "chain of errors": longest(errors),
    "chain of structs": longest(structs),
}))
"""


def classes(source: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _CLASSES],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# ---- runs ------------------------------------------------------------------------------------


def walks(source: Path) -> dict[tuple[str, str], list[str]]:
    """The functions of each walk of the terminal client, by kind and by how they are counted."""
    script = str(Path(walk.__file__).resolve())
    with TemporaryDirectory() as folder:
        result = Path(folder, "walks.json")
        recorded = [sys.executable, "-P", script, "record", str(source), str(result)]
        agent = [sys.executable, "-P", script, "agent"]
        command = [*recorded, "run", "--start", "go", "--", *agent]
        with Stage(command, columns=100, rows=40, cwd=folder) as stage:
            for number in range(1, walk.QUESTIONS + 1):
                stage.wait_for(f"Step {number}")
                stage.wait_for("waiting for you")  # keys typed before that do not answer
                stage.wait_quiet()
                stage.type(walk.KEY.decode())
            stage.wait_quiet()
            stage.press("ctrl-d")
            stage.wait_end()
        found = json.loads(result.read_text(encoding="utf-8"))
    kinds = [("chunk", walk.CHUNKS), ("answer", walk.QUESTIONS)]
    functions = {}
    for kind, repetitions in kinds:
        for counted in ("passing", "called"):
            every = [set(each[counted]) for each in found if each["kind"] == kind]
            assert len(every) == repetitions, f"{len(every)} of {repetitions} walks of {kind}"
            times = Counter(name for each in every for name in each)
            functions[kind, counted] = sorted(
                name for name, count in times.items() if 2 * count > repetitions
            )
    return functions


def start_seconds(source: Path) -> float:
    """How long `twofold --version` takes: the least of some runs, for a busy machine only adds."""
    taken = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-P", "-m", PACKAGE, "--version"],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        taken.append(time.perf_counter() - begin)
    return min(taken)


# ---- the table -------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="make metrics", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT, help="the tree to measure")
    parser.add_argument("--steps", action="store_true", help="list the functions of each walk")
    options = parser.parse_args()
    root = options.folder.resolve()
    source = root / "src"
    graph = imports(source)
    inside = classes(source)

    def row(name: str, value: object) -> None:
        print(f"{name:38} {value}")

    row("source: files, lines", "{:,}, {:,}".format(*sizes(source)))
    row("tests: files, lines", "{:,}, {:,}".format(*sizes(root / "tests")))
    row("modules with one importer", "{} of {}".format(*with_one_importer(graph, source)))
    row("import cycles", len(cycles(graph)))
    for cycle in cycles(graph):
        row("", " ↔ ".join(cycle))
    for name in ("chain", "chain of errors", "chain of structs"):
        row(f"longest inheritance {name}", f"{len(inside[name])}: {' → '.join(inside[name])}")
    row("exported names", inside["exported"])
    row("errors exported", f"{inside['errors exported']} of {inside['errors']}")
    row("twofold --version", f"{start_seconds(source) * 1000:.0f} ms")
    titles = {"chunk": "a v1 chunk, bytes to screen", "answer": "a permission answer, key to bytes"}
    for (kind, counted), functions in walks(source).items():
        files = {each.partition(":")[0] for each in functions}
        text = f"{len(functions)} functions in {len(files)} files"
        row(titles[kind] if counted == "passing" else "  all that is called meanwhile", text)
        if options.steps and counted == "passing":
            print("".join(f"    {each}\n" for each in functions), end="")


if __name__ == "__main__":
    main()
