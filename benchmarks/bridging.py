"""What a bridge costs, beside the least of a relay and no relay at all.

Client and agent are the least there can be of them, so that what is measured is what stands
between. Wall time, for the processes wait for each other.
"""

import json
import subprocess
import sys
from typing import NamedTuple

from benchmarks.table import Amount, Row, Target, Topic, at_most
from tests.peers.install import ROOT

COUNT = 50_000
PINGS = 2_000
SHORT = 100_000
LONG = 1_000_000
PER_SECOND = 100_000
_PASSES = 4
_PATIENCE = 300

_RELAY = [sys.executable, "-m", "benchmarks.bridge_peers.relay"]
_BRIDGE = [sys.executable, "-m", "twofold", "bridge", "--"]


class Way(NamedTuple):
    """What stands between a client of one version and an agent of another, or the same."""

    client: int
    agent: int
    between: list[str]


class Found(NamedTuple):
    """Seconds for a turn, seconds for a round trip, bytes of memory of what stands between."""

    stream: float
    round_trip: float
    resident: int

    def less(self, other: "Found") -> "Found":
        """The better of two runs, each figure by itself."""
        return Found(
            min(self.stream, other.stream),
            min(self.round_trip, other.round_trip),
            min(self.resident, other.resident),
        )


_WAYS = {
    "nothing": Way(2, 2, []),
    "relay": Way(2, 2, _RELAY),
    "passing": Way(2, 2, _BRIDGE),
    "up": Way(2, 1, _BRIDGE),
    "down": Way(1, 2, _BRIDGE),
}
_NAMES = {
    "passing": "bridge, same version",
    "up": "bridge, v1 agent for a v2 client",
    "down": "bridge, v2 agent for a v1 client",
}


def measure() -> Topic:
    """Every way by turns, then the memory over a long turn."""
    found = _race()
    rows = [_stream_row(name, found) for name in _NAMES]
    rows += [_round_trip_row(name, found) for name in _NAMES]
    rows += [_memory_row(name) for name in ("up", "down")]
    return Topic("bridge", _how(found), rows)


def _race() -> dict[str, Found]:
    found: dict[str, Found] = {}
    order = list(_WAYS)
    for _ in range(_PASSES):
        for name in order:
            run, best = _run(_WAYS[name], COUNT, PINGS), found.get(name)
            found[name] = run if best is None else run.less(best)
        order = [*order[1:], order[0]]
    return found


def _run(way: Way, updates: int, pings: int) -> Found:
    agent = [sys.executable, "-m", "benchmarks.bridge_peers.agent", str(way.agent)]
    client = [sys.executable, "-m", "benchmarks.bridge_peers.client", str(way.client)]
    done = subprocess.run(
        [*client, str(updates), str(pings), *way.between, *agent],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=True,
    )
    said = json.loads(done.stdout)
    assert said["seen"] == updates, said
    return Found(said["seconds"], said["round_trip"], said["resident"])


def _stream_row(name: str, found: dict[str, Found]) -> Row:
    relay = found["relay"].stream
    # whichever the machine allows: a third of the relay's rate, or so many a second
    share = max(3.0, COUNT / PER_SECOND / relay)
    words = f"≥ {PER_SECOND:,}/s or ≥ 1/3 of relay"
    target = None if name == "passing" else Target(words, share, "floor")
    ours = Amount(found[name].stream)
    return Row(
        f"{_NAMES[name]}: {COUNT:,} updates", ours, Amount(relay, whose="relay"), None, target
    )


def _round_trip_row(name: str, found: dict[str, Found]) -> Row:
    direct = found["nothing"].round_trip
    added = Amount(max(found[name].round_trip - direct, 0.0), whose="added")
    relay = Amount(max(found["relay"].round_trip - direct, 1e-9), whose="relay")
    return Row(f"{_NAMES[name]}: round trip", added, relay, None, at_most(2, "relay"))


def _memory_row(name: str) -> Row:
    long, short = (_run(_WAYS[name], count, 0).resident for count in (LONG, SHORT))
    return Row(
        f"{_NAMES[name]}: memory",
        Amount(long, "B", f"of {LONG:,}"),
        Amount(short, "B", f"of {SHORT:,}"),
        None,
        at_most(1.05, f"of {SHORT:,}"),
    )


def _how(found: dict[str, Found]) -> str:
    rates = ", ".join(f"{name} {COUNT / times.stream:,.0f}" for name, times in found.items())
    return (
        f"an agent sends {COUNT:,} chunks in one turn to a client, with a bridge between them, "
        "with a relay (a loop of read and write, in Python) and with nothing; client and agent are "
        f"bare loops. The shortest of {_PASSES} runs by turns. Round trip: the median of {PINGS:,} "
        "requests `_ping`, what the bridge and the relay add to it. Updates a second: "
        f"{rates}. Memory: the most that the bridge's process came to in a turn of so many chunks."
    )
