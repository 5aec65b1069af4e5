"""The SDKs' clients of a server: how they reach it, and what they then see otherwise.

Each client runs the steps of `README.md` in a session of `twofold serve`. What it reports is what
`differences.expected_of` has for a bridge between it and the agent, but for what is stated here.
"""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.peers.differences import expected_of
from tests.peers.facts import Json, Line, replayed, with_one_tick
from tests.peers.programs import HERE, TWOFOLD
from tests.peers.validators import Version
from twofold.version import VERSION

WAYS: Final = ("ws", "http")
RUN_LIMIT: Final = 180
STEP_SECONDS: Final = "30"
LARGE_LENGTH: Final = len("echo: ") + 20_000_000


class RemoteClient(NamedTuple):
    """A client of an SDK."""

    made_with: str
    version: Version
    like: str
    """The peer of `programs.PEERS` that sees the same."""


CLIENTS: Final = {
    "ts1": RemoteClient("TypeScript SDK 2.4.0", 1, "ts1"),
    "ts2": RemoteClient("TypeScript SDK 2.4.0", 2, "ts2"),
    "rc1": RemoteClient("Python SDK 1.0.0rc3", 1, "py1"),
    "rc2": RemoteClient("Python SDK 1.0.0rc3", 2, "py2"),
}
AGENTS: Final = {"ts1": "TypeScript SDK 2.4.0, v1", "ts2": "TypeScript SDK 2.4.0, v2"}

Cell: TypeAlias = tuple[str, str, str]
"""A client, the way it comes, and the agent behind the server."""

CELLS: Final[list[Cell]] = [
    (client, way, agent) for client in CLIENTS for way in WAYS for agent in AGENTS
]


def client_command(name: str, node_sdk: Path, python_server: Path) -> list[str]:
    """The command line of a client, without the address."""
    client = CLIENTS[name]
    if name.startswith("ts"):
        # the WebSocket of Node 20 has to be asked for
        node = ["node", "--experimental-websocket", str(HERE / "ts_client.mjs")]
        return [*node, str(node_sdk), str(client.version), "--"]
    return [str(python_server), str(HERE / f"py_client_v{client.version}.py"), "--"]


class Server(NamedTuple):
    """A server that runs."""

    port: int
    token: str

    def url(self, way: str) -> str:
        return f"{way}://127.0.0.1:{self.port}/acp"


@contextmanager
def serving(state: Path, agent: str, node_sdk: Path) -> Iterator[Server]:
    """`twofold serve` with an agent, until the block ends."""
    behind = ["node", str(HERE / "ts_agent.mjs"), str(node_sdk), agent[-1]]
    process = subprocess.Popen(
        [*TWOFOLD, "serve", "--no-open", "--port", "0", "--", *behind],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        token = (state / "twofold" / "serve" / "token").read_text().strip()
        yield Server(int(found[1]), token)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def run(command: Sequence[str], server: Server, way: str, cwd: Path, steps: str = "") -> str:
    """What a client prints."""
    environment = os.environ | {"ACP_TOKEN": server.token, "STEP_SECONDS": STEP_SECONDS}
    environment |= {"CWD": str(cwd)} | ({"STEPS": steps} if steps else {})
    done = subprocess.run(
        [*command, server.url(way)],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def settled(lines: dict[str, Line]) -> Json:
    """The report with the session called `s1`, and without the sessions of others."""
    session = lines["new"]["session"]
    changed = {step: dict(line) for step, line in lines.items()}
    changed["new"]["session"] = "s1"
    for step in ("list", "close"):
        if "ids" in changed[step]:
            changed[step]["ids"] = ["s1" for each in changed[step]["ids"] if each == session]
    # the host shows within a frame how a question ended, and these steps take less
    resumed, loaded = changed["resume"], changed["replay"]
    resumed["kinds"] = [each for each in resumed.get("kinds", []) if each != "notice"]
    loaded["updates"] = [each for each in loaded.get("updates", []) if each["kind"] != "notice"]
    return with_one_tick(changed)


# ---- what is otherwise -------------------------------------------------------------------------

NOT_LARGE: Final = frozenset({("rc1", "ws"), ("rc2", "ws")})
"""Clients that refuse a message of 20 MB: the SDK reads at most 1 MiB of a WebSocket."""


def expected(client: str, agent: str) -> dict[str, Line]:
    """The report of a client in a session whose agent is `agent`.

    It is what the client sees through a bridge, but for what a host adds: it replays everything,
    as Twofold's agent does, and shows the error of a turn as version 2 does.
    """
    made = CLIENTS[client]
    lines = expected_of(made.like, agent)
    info: Json = {"name": "twofold", "version": VERSION}
    lines["initialize"] = {**lines["initialize"], "info": info, "auth": []}
    own = expected_of(made.like, f"tf{agent[-1]}")["replay"]
    if made.version == 2 and agent == "ts1":
        lines["error"] = expected_of(made.like, "ts2")["error"]
        own = {**own, "updates": [_of_version_1(each) for each in replayed(2, 2, everything=True)]}
        own["updates"] = [each for each in own["updates"] if each["kind"] != "terminal_update"]
    lines["replay"] = own
    settled_lines: dict[str, Line] = with_one_tick(lines)
    return settled_lines


def _of_version_1(update: Line) -> Line:
    """A version 1 agent has no status `cancelled`."""
    return {**update, "status": "failed" if update["id"] == "p6" else update["status"]}


# ---- the page ----------------------------------------------------------------------------------

INTRODUCTION: Final = (
    "Every client below was run in a session of `twofold serve`, as real processes, over both ways."
    " It took the same steps as in [the matrix of the bridge](bridge-matrix.md), and what it"
    " received was compared to the letter with what [tests/peers](../tests/peers/README.md) expects"
    " of it. In the last step it sends a message of 20 MB and receives it back."
)
HOW_TO: Final = """\
The test run makes this page, and fails if the page is out of date. To make it anew:

```
TWOFOLD_WRITE_DOCS=1 make test ARGS=tests/peers/test_remote_matrix.py
```"""
LEGEND: Final = (
    "✓: every step was as expected. ✗: the steps that were not. The agents behind the server are"
    " made with the TypeScript SDK 2.4.0; the server converts between the versions."
)
LARGE: Final = (
    "1. The Python SDK reads at most 1 MiB of one WebSocket message, and disconnects: a larger"
    " message reaches it over HTTP only."
)
_WAYS: Final = {"ws": "WebSocket", "http": "HTTP"}


def page(failed: Mapping[Cell, Sequence[str]]) -> str:
    """The page: the steps that failed in each cell."""
    columns = [(way, agent) for way in WAYS for agent in AGENTS]
    rows = [["client", *(f"{_WAYS[way]}, agent of v{agent[-1]}" for way, agent in columns)]]
    rows.append(["---"] * len(rows[0]))
    for name, client in CLIENTS.items():
        cells = []
        for way, agent in columns:
            steps = [step for step in failed[name, way, agent] if step != "large"]
            refuses = (name, way) in NOT_LARGE
            steps += ["large"] if ("large" in failed[name, way, agent]) != refuses else []
            cells.append(f"✗ {', '.join(steps)}" if steps else "✓ 1" if refuses else "✓")
        rows.append([f"**{client.made_with}, v{client.version}**", *cells])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    parts = ["# Attached from an editor: who works with whom", _wrapped(INTRODUCTION), HOW_TO]
    return "\n\n".join([*parts, _wrapped(LEGEND), table, _wrapped(LARGE, "   ")]) + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
