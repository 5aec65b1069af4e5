"""The SDKs' clients at `twofold serve`, over WebSocket and HTTP, through every step.

`docs/remote-matrix.md` is made of what was found; with TWOFOLD_WRITE_DOCS set it is written,
otherwise compared.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers import remote_peers
from tests.peers.facts import ALL_STEPS, Line
from tests.peers.install import ROOT
from tests.peers.remote_peers import AGENTS, CELLS, NOT_LARGE, Cell, Server

PAGE = ROOT / "docs" / "remote-matrix.md"
each_cell = pytest.mark.parametrize("cell", CELLS, ids="-".join)


class Matrix:
    """The reports of the cells, each made when it is asked for."""

    def __init__(self, servers: dict[str, Server], node: Path, python: Path, cwd: Path) -> None:
        self._servers = servers
        self._node, self._python, self._cwd = node, python, cwd
        self._found: dict[Cell, dict[str, Line]] = {}

    def __getitem__(self, cell: Cell) -> dict[str, Line]:
        if cell not in self._found:
            self._found[cell] = self._run(cell)
        return self._found[cell]

    def _run(self, cell: Cell) -> dict[str, Line]:
        client, way, agent = cell
        command = remote_peers.client_command(client, self._node, self._python)
        printed = "".join(
            remote_peers.run(command, self._servers[agent], way, self._cwd, steps)
            for steps in ("", "large")
        )
        lines = [json.loads(line) for line in printed.splitlines()]
        return {line.pop("step"): line for line in lines}


@pytest.fixture(scope="module")
def matrix(
    node_sdk: Path, python_server: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Matrix]:
    """A server for each agent, and what came of the cells."""
    states = [tmp_path_factory.mktemp(agent) for agent in AGENTS]
    one, two = [
        remote_peers.serving(state, agent, node_sdk)
        for state, agent in zip(states, AGENTS, strict=True)
    ]
    with one as first, two as second:
        servers = dict(zip(AGENTS, (first, second), strict=True))
        yield Matrix(servers, node_sdk, python_server, tmp_path_factory.mktemp("work"))


@each_cell
def test_a_client_sees_of_a_session_what_is_written_down(cell: Cell, matrix: Matrix) -> None:
    lines = {step: matrix[cell][step] for step in ALL_STEPS}
    assert remote_peers.settled(lines) == remote_peers.expected(cell[0], cell[2])


@each_cell
def test_a_message_of_20_mb_goes_to_the_agent_and_back(cell: Cell, matrix: Matrix) -> None:
    large = matrix[cell]["large"]
    if cell[:2] in NOT_LARGE:
        assert not large["ok"]
        return
    assert large == {"ok": True, "stop": "end_turn", "length": remote_peers.LARGE_LENGTH}


def test_the_page_matches_the_results(matrix: Matrix) -> None:
    page = remote_peers.page({cell: failures(matrix, cell) for cell in CELLS})
    if os.environ.get("TWOFOLD_WRITE_DOCS"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "TWOFOLD_WRITE_DOCS=1 makes it anew"


def failures(matrix: Matrix, cell: Cell) -> list[str]:
    """The steps that did not go as written down."""
    found = matrix[cell]
    lines = remote_peers.settled({step: found[step] for step in ALL_STEPS})
    wanted = remote_peers.expected(cell[0], cell[2])
    failed = [step for step in ALL_STEPS if lines[step] != wanted[step]]
    return failed + ([] if found["large"]["ok"] else ["large"])
