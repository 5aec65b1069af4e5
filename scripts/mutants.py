"""Changes the source at random places and checks that the unit tests notice: `make mutants`.

    make mutants ARGS="--count 200 --seed 1 --jobs 2"
    make mutants ARGS="--count 20 --rooms session policy --tests tests/session tests/policy"

A mutant is one small change: a comparison flipped, a boundary moved, a condition negated, a `not`
dropped, `and` and `or` exchanged, other arithmetic, another constant, a statement removed, two
arguments exchanged, None returned. It is killed when a test fails or does not end in time.

The unit tests run once unchanged, to record which test calls which function. A mutant is then run
against the tests that call its function, near ones and quick ones first, and ends with the first
failure. Every run is in a copy of the tree, never in the tree itself. A test that starts programs
counts as a unit test only in the folder of one of these rooms: what runs commands is tested so.

Left alone is what no test should hold: docstrings, messages and log lines, `__repr__`, types,
assertions, and numbers that are named at the top of a module (limits and times).

Results are kept in build/mutants, so that a run that was stopped goes on where it was. A mutant
is run again when its file has changed, or with `--fresh`.
"""

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = "src/twofold"
ROOMS: Final = ("session", "convert", "policy", "bridge", "peer", "client")
KEPT: Final = ROOT / "build" / "mutants"
COPIED: Final = ("src", "tests", "docs", "samples", "scripts", "benchmarks")
MEMORY: Final = 8 << 30
"""How many bytes of address space a run may take: a mutant may never stop to allocate."""
LEAST_SECONDS: Final = 30.0
FIRST_BATCH: Final = 20
"""How many tests are run first; most mutants do not survive these."""

# ---- mutants ---------------------------------------------------------------------------------


class Mutant(NamedTuple):
    path: str
    """The file, relative to the root of the project."""
    line: int
    function: int
    """The first line of the function around the change, 0 outside of functions."""
    kind: str
    source: str
    """The whole file, changed."""

    @property
    def room(self) -> str:
        return self.path.removeprefix(f"{SOURCE}/").partition("/")[0]

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:12]
        return f"{self.path}:{self.line} {self.kind} {digest}"

    def diff(self) -> str:
        before = (ROOT / self.path).read_text(encoding="utf-8")
        lines = unified_diff(
            before.splitlines(), self.source.splitlines(), self.path, self.path, n=2, lineterm=""
        )
        return "\n".join(lines)


_FLIPPED: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">="),
    ast.GtE: (">=", "<"),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_MOVED: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_OTHER: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "+"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_LOGS: Final = re.compile(r"(?:_?log|_?logger|logging|_?LOG|_?LOGGER)\b")


class Change(NamedTuple):
    """A place in a file and the text to put there."""

    path: str
    function: int
    kind: str
    begin: int
    end: int
    text: str

    def made(self) -> Mutant | None:
        """The mutant; None if it is no Python."""
        source = (ROOT / self.path).read_bytes()
        changed = source[: self.begin] + self.text.encode() + source[self.end :]
        try:
            compile(changed, self.path, "exec")
        except SyntaxError:
            return None
        line = source.count(b"\n", 0, self.begin) + 1
        return Mutant(self.path, line, self.function, self.kind, changed.decode())


def changes(room: str) -> Iterator[Change]:
    """Everything that can be changed in the files of a room."""
    for path in sorted((ROOT / SOURCE / room).rglob("*.py")):
        yield from Mutator(path.relative_to(ROOT).as_posix(), path.read_bytes()).changes()


def chosen(rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants, as many of each room: the same for the same source and number `seed`."""
    shuffled = random.Random(seed)
    pools = []
    for room in rooms:
        pool = [*changes(room)]
        shuffled.shuffle(pool)
        pools.append(pool)
    made: list[Mutant] = []
    for each_room in zip_longest(*pools):
        made += [mutant for change in each_room if change and (mutant := change.made())]
        if len(made) >= count:
            break
    return made[:count]


class Mutator:
    """Finds what can be changed in one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts

    def changes(self) -> Iterator[Change]:
        for node, function in _reached(ast.parse(self._source), 0):
            for change in self._at(node):
                yield Change(self._path, function, *change)

    def _at(self, node: Any) -> Iterator[tuple[str, int, int, str]]:
        match node:
            case ast.Compare(ops=[operator], comparators=[right]):
                for kind, table in (("comparison", _FLIPPED), ("boundary", _MOVED)):
                    if found := table.get(type(operator)):
                        yield from self._between(kind, node.left, right, *found)
            case ast.BinOp(left=left, op=operator, right=right) if not _of_text(left, right):
                if found := _OTHER.get(type(operator)):
                    yield from self._between("arithmetic", left, right, *found)
            case ast.BoolOp(values=[left, right], op=operator):
                names = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                yield from self._between("and/or", left, right, *names)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield ("dropped not", *self._span(node), f"({self._text(operand)})")
            case ast.Constant(value=value):
                if (text := _other_constant(value)) is not None:
                    yield ("constant", *self._span(node), text)
            case ast.Return(value=ast.expr() as value):
                if not (isinstance(value, ast.Constant) and value.value is None):
                    yield ("return None", *self._span(node), "return None")
            case ast.Call(args=[first, second, *_], func=function):
                # the order makes no difference, or makes every test fail
                fixed = ast.unparse(function) in ("min", "max", "isinstance", "issubclass")
                starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
                if not (fixed or starred) and ast.dump(first) != ast.dump(second):
                    (begin, middle), (after, end) = self._span(first), self._span(second)
                    gap = self._source[middle:after].decode()
                    swapped = self._text(second) + gap + self._text(first)
                    yield "swapped arguments", begin, end, swapped
        if _removable(node):
            yield ("removed statement", *self._span(node), "pass")
        condition = getattr(node, "test", None) or getattr(node, "guard", None)
        if isinstance(condition, ast.expr) and not isinstance(
            condition, ast.Compare | ast.Constant | ast.UnaryOp
        ):
            yield ("negated", *self._span(condition), f"(not ({self._text(condition)}))")

    def _between(
        self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str
    ) -> Iterator[tuple[str, int, int, str]]:
        """Replaces the operator between two operands; parentheses and comments may be there too."""
        begin, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[begin:end].decode()
        at = gap.find(old)
        if at >= 0 and "#" not in gap:
            yield kind, begin, end, gap[:at] + new + gap[at + len(old) :]

    def _span(self, node: Any) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: Any) -> str:
        begin, end = self._span(node)
        return self._source[begin:end].decode()


def _reached(node: ast.AST, function: int) -> Iterator[tuple[ast.AST, int]]:
    """The nodes that tests should hold, each with the first line of the function around it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            names = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            if node.name == "__repr__" or names & {"overload", "abstractmethod"}:
                return
            children: list[ast.AST] = [node.args, *node.body]
            function = first
        case ast.arguments():
            children = [each for each in [*node.defaults, *node.kw_defaults] if each]
        case ast.ClassDef():
            if any(ast.unparse(base).startswith("Protocol") for base in node.bases):
                return
            children = [*node.body]
        case ast.AnnAssign():
            if "TypeAlias" in ast.unparse(node.annotation) or _is_named_number(node, function):
                return
            children = [node.value] if node.value else []
        case ast.Assign():
            if _is_named_number(node, function) or ast.unparse(node.targets[0]).startswith("__"):
                return
            children = [node.value]
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr():
            return
        case ast.Import() | ast.ImportFrom():
            return
        case ast.Raise():
            children = []  # the statement may go; its text is for people
        case ast.Call() if _LOGS.match(ast.unparse(node.func)):
            return
        case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec")) | ast.keyword(arg="repr"):
            return
        case _:
            children = [*ast.iter_child_nodes(node)]
    yield node, function
    for child in children:
        yield from _reached(child, function)


def _is_named_number(node: ast.Assign | ast.AnnAssign, function: int) -> bool:
    """`LIMIT = 64 << 20` at the top of a module: a limit or a time, which is a choice."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    text = "" if node.value is None else ast.unparse(node.value)
    named = ast.unparse(target).strip("_").isupper()
    return not function and named and re.fullmatch(r"[-+*/<>.() \d_e]+", text) is not None


def _of_text(*operands: ast.expr) -> bool:
    return any(
        isinstance(each, ast.JoinedStr)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in operands
    )


def _other_constant(value: object) -> str | None:
    match value:
        case bool():
            return str(not value)
        case int() | float():
            return repr(value + 1)
        case str() if value and " " not in value:  # with a blank it is text for people
            return repr(f"{value}~")
        case bytes() if value:
            return repr(value + b"~")
    return None


def _removable(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call() as call):
            return not _LOGS.match(ast.unparse(call.func))
        case ast.Expr(value=ast.Await()):
            return True
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return isinstance(target, ast.Attribute | ast.Subscript) or isinstance(
                node, ast.AugAssign
            )
        case ast.Delete() | ast.Raise() | ast.Break() | ast.Continue() | ast.Return(value=None):
            return True
    return False


# ---- which test calls which function ---------------------------------------------------------


class Test(NamedTuple):
    node: str
    seconds: float
    calls: frozenset[str]
    """`path:first line` of the functions it calls."""


def tested(copy: "Copy", paths: Sequence[str], jobs: int) -> list[Test]:
    """The unit tests that pass, each with what it calls: recorded once for a state of the tree."""
    kept = KEPT / f"tests-{_state(paths)}.json"
    if not kept.exists():
        print("recording what each test calls", flush=True)
        recorded = _record(copy, paths, jobs)
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(recorded), encoding="utf-8")
    read = json.loads(kept.read_text(encoding="utf-8"))
    functions = read["functions"]
    return [
        Test(node, seconds, frozenset(functions[each] for each in calls))
        for node, seconds, calls in read["tests"]
    ]


def _record(copy: "Copy", paths: Sequence[str], jobs: int) -> dict[str, Any]:
    folder = copy.root / "recorded"
    folder.mkdir()
    options = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
    copy.pytest([*options, *paths], seconds=7200, TWOFOLD_RECORD=str(folder))
    numbers: dict[str, int] = {}
    tests, failed = [], []
    for part in sorted(folder.iterdir()):
        for line in part.read_text(encoding="utf-8").splitlines():
            node, seconds, outcomes, calls = json.loads(line)
            if outcomes == ["passed"]:
                known = [numbers.setdefault(each, len(numbers)) for each in calls]
                tests.append((node, seconds, known))
            elif "failed" in outcomes:
                failed.append(node)
    for node in failed:
        print(f"left out, for it fails without a mutant (or while recorded): {node}", flush=True)
    if not tests:
        sys.exit("No test passed: there is nothing to check mutants with.")
    # a test that cannot be found by its name would kill every mutant
    status, output = copy.pytest(["--collect-only", *(each[0] for each in tests)], seconds=600)
    if status != 0:
        sys.exit(f"Recorded tests cannot be run by their names:\n{output[-2000:]}")
    return {"functions": list(numbers), "tests": tests}


def _state(paths: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(paths).encode())
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def concerned(mutant: Mutant, tests: Sequence[Test]) -> list[Test]:
    """The tests that call the changed function, those that kill soonest first."""
    place = f"{mutant.path}:{mutant.function}"
    calling = [test for test in tests if place in test.calls]
    if not calling:  # what runs when a module is imported
        place = f"{mutant.path}:"
        calling = [test for test in tests if any(each.startswith(place) for each in test.calls)]
    module = Path(mutant.path).stem
    return sorted(
        calling,
        key=lambda test: (
            f"/{mutant.room}/test_{module}" not in test.node,
            f"/{mutant.room}/" not in test.node,
            test.seconds,
        ),
    )


# ---- runs ------------------------------------------------------------------------------------


class Copy:
    """A copy of the tree in which mutants are run, one at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tree = root / "tree"
        self._writes = 0
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self._tree / name, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, self._tree)
        shared = ROOT.parent / "shared"  # data that some tests read beside the project
        if shared.is_dir():
            (root / "shared").symlink_to(shared)

    def run(self, mutant: Mutant, tests: Sequence[Test]) -> tuple[str, str]:
        """What became of a mutant: "killed", "timeout" or "survived", and by which test."""
        path = self._tree / mutant.path
        original = path.read_text(encoding="utf-8")
        self._write(path, mutant.source)
        try:
            for batch in _batches(tests):
                seconds = LEAST_SECONDS + 3 * sum(test.seconds for test in batch)
                nodes = [test.node for test in batch]
                status, output = self.pytest(["-x", *nodes], seconds=seconds)
                if status is None:
                    return "timeout", ""
                if status != 0:
                    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
                    return "killed", found[1] if found else output[-300:]
        finally:
            self._write(path, original)
        return "survived", ""

    def pytest(
        self, arguments: Sequence[str], *, seconds: float, **env: str
    ) -> tuple[int | None, str]:
        """Runs tests in the copy; the status is None if they did not end in time."""
        listed = self.root / "arguments"
        listed.write_text("\n".join(arguments), encoding="utf-8")
        options = ["-q", "-p", "no:cacheprovider", "-p", "scripts.mutants_pytest", f"@{listed}"]
        limited = f'ulimit -v {MEMORY >> 10}; exec "$@"'
        process = subprocess.Popen(
            ["/bin/sh", "-c", limited, "sh", sys.executable, "-m", "pytest", *options],
            cwd=self._tree,
            env={
                **os.environ,
                "PYTHONPATH": str(self._tree / "src"),
                "PYTEST_DEBUG_TEMPROOT": str(self.root),
                "CI": "true",  # examples of hypothesis are then the same in every run
                "TWOFOLD_FUZZ_SECONDS": "2",
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # what the tests started as well
            _kill_group(process.pid)
            process.wait()
        return process.returncode, output

    def _write(self, path: Path, source: str) -> None:
        # Python compares times to the second to find out whether its cached code is stale
        self._writes += 1
        path.write_text(source, encoding="utf-8")
        when = 1_000_000_000 + self._writes
        os.utime(path, (when, when))


def _batches(tests: Sequence[Test]) -> Iterator[Sequence[Test]]:
    begin, size = 0, FIRST_BATCH
    while begin < len(tests):
        yield tests[begin : begin + size]
        begin, size = begin + size, size * 5


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


# ---- the report ------------------------------------------------------------------------------


class Result(NamedTuple):
    mutant: Mutant
    outcome: str
    by: str


def report(results: Sequence[Result]) -> str:
    """The share killed for each room, and every survivor with its diff."""
    lines = [f"{'room':10} {'mutants':>8} {'killed':>8} {'share':>8}"]
    rooms = sorted({result.mutant.room for result in results})
    for room in [*rooms, "all"]:
        some = [each for each in results if room in (each.mutant.room, "all")]
        killed = sum(each.outcome in ("killed", "timeout") for each in some)
        lines.append(f"{room:10} {len(some):8} {killed:8} {killed / max(len(some), 1):8.1%}")
    survivors = [each for each in results if each.outcome not in ("killed", "timeout")]
    lines += ["", f"{len(survivors)} survivors"]
    for number, result in enumerate(sorted(survivors, key=lambda each: each.mutant), 1):
        outcome = "no unit test calls it" if result.outcome == "uncovered" else "survived"
        lines += ["", f"{number}. {result.mutant.kind}: {outcome}", result.mutant.diff()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--seed", type=int, default=1, help="which of them: a number (1)")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time (2)")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS, metavar="ROOM")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="folders of tests (tests)")
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / "results.jsonl"
    if options.fresh:
        kept.unlink(missing_ok=True)
    earlier = {}
    if kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            identity, outcome, by = json.loads(line)
            earlier[identity] = (outcome, by)
    sample = chosen(options.rooms, options.count, options.seed)
    results = [Result(each, *earlier[each.identity]) for each in sample if each.identity in earlier]
    pending = [each for each in sample if each.identity not in earlier]
    if results:
        print(f"{len(results)} of {len(sample)} are known from earlier runs")
    if pending:
        with TemporaryDirectory(prefix="twofold-mutants-") as folder:
            for result in _run(pending, Path(folder), options.tests, options.jobs):
                results.append(result)
                with kept.open("a", encoding="utf-8") as file:
                    file.write(
                        json.dumps([result.mutant.identity, result.outcome, result.by]) + "\n"
                    )
                name = result.mutant.identity.rpartition(" ")[0]
                print(f"{len(results)}/{len(sample)} {result.outcome:9} {name}", flush=True)
    text = report(results)
    (KEPT / "report.txt").write_text(text, encoding="utf-8")
    print(f"\n{text}\nwritten to {(KEPT / 'report.txt').relative_to(ROOT)}")


def _run(
    pending: Sequence[Mutant], folder: Path, paths: Sequence[str], jobs: int
) -> Iterator[Result]:
    copies: SimpleQueue[Copy] = SimpleQueue()
    first = Copy(folder / "0")
    tests = tested(first, paths, jobs)
    copies.put(first)
    for number in range(1, jobs):
        copies.put(Copy(folder / str(number)))

    def run(mutant: Mutant) -> Result:
        calling = concerned(mutant, tests)
        if not calling:
            return Result(mutant, "uncovered", "")
        copy = copies.get()
        try:
            return Result(mutant, *copy.run(mutant, calling))
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run, mutant) for mutant in pending]):
            yield done.result()


if __name__ == "__main__":
    begin = time.monotonic()
    main()
    print(f"{time.monotonic() - begin:.0f} seconds")
