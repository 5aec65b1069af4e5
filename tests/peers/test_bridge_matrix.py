"""Every client with every agent through `twofold bridge`, as processes, through every step.

What goes over the wire is recorded on both sides of the bridge. `docs/bridge-matrix.md` is made
of what was found; with TWOFOLD_WRITE_DOCS set it is written, otherwise compared.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

import pytest

from tests.peers import matrix_page
from tests.peers.differences import DIFFERENCES, PAIRS, Difference, Pair, expected_of
from tests.peers.facts import ALL_STEPS, Line, with_one_tick
from tests.peers.install import ROOT
from tests.peers.programs import PEERS, TWOFOLD, commands
from tests.peers.validators import Schemas, SchemaValidator, Version
from tests.support.schema_shapes import Method, methods_of

PAGE = ROOT / "docs" / "bridge-matrix.md"
AT_ONCE = (os.cpu_count() or 1) + 1
RUN_LIMIT = 120
STEP_SECONDS = "30"

TRANSLATED = [pair for pair in PAIRS if PEERS[pair[0]].version != PEERS[pair[1]].version]
PASSED = [pair for pair in PAIRS if pair not in TRANSLATED]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)
each_passed = pytest.mark.parametrize("pair", PASSED, ids="-".join)

Methods: TypeAlias = dict[str, Method]


# ---- running them ----------------------------------------------------------------------------


class Talk(NamedTuple):
    """The lines between two processes."""

    to_agent: list[bytes]
    from_agent: list[bytes]


class Meeting(NamedTuple):
    """The report of a client on its agent, the messages between them, and the bridge's log."""

    lines: dict[str, Line]
    at_client: Talk
    at_agent: Talk
    losses: list[Line]
    errors: list[str]


def meet(client: Sequence[str], agent: Sequence[str], folder: Path) -> Meeting:
    losses = folder / "losses"
    bridge = [*TWOFOLD, "bridge", "--losses", str(losses), "--"]
    behind = tapped(agent, folder / "agent")
    done = subprocess.run(
        [*client, *tapped([*bridge, *behind], folder / "client")],
        env=os.environ | {"STEP_SECONDS": STEP_SECONDS},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        # all of them write to this pipe: when it ends, they have
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return Meeting(
        {line.pop("step"): line for line in lines},
        recorded(folder / "client"),
        recorded(folder / "agent"),
        [json.loads(line) for line in losses.read_bytes().splitlines()],
        [line for line in done.stderr.splitlines() if line.startswith("twofold bridge:")],
    )


def tapped(command: Sequence[str], tap: Path) -> list[str]:
    tee = [shlex.join(["tee", f"{tap}.{way}"]) for way in ("in", "out")]
    return ["sh", "-c", f"{tee[0]} | {shlex.join(command)} | {tee[1]}"]


def recorded(tap: Path) -> Talk:
    return Talk(*(Path(f"{tap}.{way}").read_bytes().splitlines() for way in ("in", "out")))


class Matrix:
    """The meetings of pairs, some of them at the same time."""

    def __init__(self, pool: ThreadPoolExecutor, meeting: Callable[[Pair], Meeting]) -> None:
        self._pool = pool
        self._meeting = meeting
        self._meetings: dict[Pair, Future[Meeting]] = {}

    def start(self, pairs: Sequence[Pair]) -> None:
        for pair in pairs:
            self._meetings[pair] = self._pool.submit(self._meeting, pair)

    def __getitem__(self, pair: Pair) -> Meeting:
        return self._meetings[pair].result()


@pytest.fixture(scope="module")
def matrix(
    request: pytest.FixtureRequest,
    node_sdk: Path,
    python_sdk: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Matrix]:
    """What came of the pairs that the chosen tests look at; they run ahead of the tests."""
    clients, agents = commands(node_sdk, python_sdk)
    # Made here and not in the threads: two that ask for the first one at once make it twice.
    folders = {pair: tmp_path_factory.mktemp("-".join(pair)) for pair in PAIRS}

    def meeting(pair: Pair) -> Meeting:
        return meet(clients[pair[0]], agents[pair[1]], folders[pair])

    pool = ThreadPoolExecutor(AT_ONCE)
    found = Matrix(pool, meeting)
    found.start([pair for pair in PAIRS if pair in wanted(request.session.items)])
    yield found
    pool.shutdown(cancel_futures=True)


def wanted(items: Sequence[pytest.Item]) -> set[Pair]:
    """The pairs that the chosen tests of this file look at; one that names no pair needs all."""
    pairs: set[Pair] = set()
    for item in items:
        if item.path == Path(__file__) and "matrix" in getattr(item, "fixturenames", ()):
            named = item.callspec.params["pair"] if hasattr(item, "callspec") else None
            pairs.update(PAIRS if named is None else [cast("Pair", named)])
    return pairs


# ---- what the client sees --------------------------------------------------------------------


@each_pair
def test_a_client_sees_of_any_agent_what_is_written_down(pair: Pair, matrix: Matrix) -> None:
    lines = matrix[pair].lines
    assert list(lines) == ALL_STEPS
    assert with_one_tick(lines) == expected_of(*pair)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.step)
def test_a_difference_that_is_stated_makes_one(difference: Difference) -> None:
    others = [each for each in DIFFERENCES if each is not difference]
    assert any(expected_of(*pair) != expected_of(*pair, others) for pair in PAIRS)


# ---- what goes over the wire -----------------------------------------------------------------


@each_pair
def test_both_sides_receive_only_what_the_official_schema_of_their_version_allows(
    pair: Pair, matrix: Matrix, schemas: Schemas, valid: SchemaValidator
) -> None:
    meeting = matrix[pair]
    methods: dict[Version, Methods] = {
        1: methods_of(schemas["v1", "stable"]),
        2: methods_of(schemas["v2", "stable"]),
    }
    for name, talk in zip(pair, (meeting.at_client, meeting.at_agent), strict=True):
        for version, shape, value in values(talk, PEERS[name].version, methods):
            assert valid(version, "stable", shape, value) == [], value


def values(
    talk: Talk, version: Version, methods: dict[Version, Methods]
) -> Iterator[tuple[Version, str, Line]]:
    """Every message, with the type that the schema has for it."""
    sides = [[json.loads(line) for line in side] for side in talk]
    for here, there in (sides, sides[::-1]):
        asked = {each["id"]: each["method"] for each in there if "method" in each and "id" in each}
        for message in here:
            method = message.get("method") or asked[message["id"]]
            value = message.get("params", message.get("result"))
            if "error" in message:
                yield version, "Error", message["error"]
                continue
            # until the version is agreed on, a message has it itself
            spoken = value["protocolVersion"] if method == "initialize" else version
            known = methods[spoken][method]
            shape = known.params if "method" in message else known.result
            assert shape is not None, message
            yield spoken, shape, value


@each_passed
def test_between_peers_of_one_version_every_line_passes_as_it_is(
    pair: Pair, matrix: Matrix
) -> None:
    client, agent = matrix[pair].at_client, matrix[pair].at_agent
    # initialize is the bridge's own
    assert client.to_agent[1:] == agent.to_agent[1:]
    assert client.from_agent[1:] == agent.from_agent[1:]


@each_passed
def test_between_peers_of_one_version_nothing_is_lost(pair: Pair, matrix: Matrix) -> None:
    assert matrix[pair].losses == []


@each_pair
def test_the_bridge_complains_of_nothing_but_losses(pair: Pair, matrix: Matrix) -> None:
    errors = matrix[pair].errors
    assert [line for line in errors if not line.startswith("twofold bridge: lost: ")] == []
    kinds = {(matrix_page.place(loss), loss["reason"]) for loss in matrix[pair].losses}
    assert len(errors) == len(kinds)


# ---- the page --------------------------------------------------------------------------------


def test_the_page_matches_the_results(matrix: Matrix) -> None:
    failed = {pair: failures(matrix, pair) for pair in PAIRS}
    losses = {pair: matrix[pair].losses for pair in TRANSLATED}
    page = matrix_page.page(failed, losses)
    if os.environ.get("TWOFOLD_WRITE_DOCS"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "TWOFOLD_WRITE_DOCS=1 makes it anew"


def test_the_page_lists_every_step() -> None:
    assert list(matrix_page.STEPS) == ALL_STEPS


def failures(matrix: Matrix, pair: Pair) -> list[str]:
    """The steps that did not go as written down."""
    try:
        lines = with_one_tick(matrix[pair].lines)
    except Exception:  # the test of this pair reports it
        return ["does not run"]
    return [step for step, facts in expected_of(*pair).items() if lines.get(step) != facts]
