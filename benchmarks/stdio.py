"""Two processes and the pipes between them: updates, round trips, and a handler that lags.

The client starts the agent and measures. It is wall time, for here each side waits for the other;
so the pairs run by turns, somebody else first each time, and the shortest time of each counts.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import Sdks, why
from benchmarks.stdio_peers.job import Job
from benchmarks.table import Amount, Missing, Row, Target, Topic, at_most, faster
from tests.peers.install import ROOT, Unavailable, node_sdk

COUNT = 50_000
PINGS = 2_000
LAG_SHORT = 5_000
LAG_LONG = 20_000

# what a model says at a time: 20 to 40 characters
PIECES = [
    "The answer comes in small pieces, ",
    "a few words at a time, ",
    "as a model would tell them: ",
    "here is one that is a little longer, ",
    "and then `a_name` or two.\n",
]
_WARM = 2_000
_PASSES = 4
_SLOW_PASSES = 2
"""Of SDK 1.0.0rc3, which takes some ten seconds."""
_PATIENCE = 120

_TYPESCRIPT = Path(__file__).parent / "stdio_peers" / "ts_client.mjs"


class Pair(NamedTuple):
    """How its client is started, or `Unavailable`, and how often."""

    command: Callable[[], list[str]]
    passes: int


class Found(NamedTuple):
    """The shortest times of a pair, in seconds."""

    stream: float
    round_trip: float

    def shorter(self, other: "Found") -> "Found":
        """The better of two runs, each time by itself."""
        return Found(min(self.stream, other.stream), min(self.round_trip, other.round_trip))


Results = Mapping[str, Found | Missing]


def measure(sdks: Sdks) -> Topic:
    """Every pair by turns, then the client whose handler lags."""
    found = _race(_pairs(sdks))
    rows = [
        *_stream_rows(found, "v1", faster(8)),
        *_stream_rows(found, "v2", faster(20)),
        *_round_trip_rows(found, "v1", Target("≤ 1/2 of SDK", 1 / 2, "SDK")),
        *_round_trip_rows(found, "v2", None),
        _lag_row(),
    ]
    return Topic("stdio", _how(sdks, found), rows)


def _pairs(sdks: Sdks) -> dict[str, Pair]:
    def typescript(version: str) -> list[str]:
        return ["node", str(_TYPESCRIPT), str(node_sdk()), version]

    return {
        "Twofold v1": Pair(lambda: _python("twofold_client", "1"), _PASSES),
        "Twofold v2": Pair(lambda: _python("twofold_client", "2"), _PASSES),
        "floor": Pair(lambda: _python("floor_client"), _PASSES),
        "SDK v1": Pair(lambda: _python("sdk_v1_client", by=sdks.v1.interpreter()), _PASSES),
        "SDK v2": Pair(lambda: _python("sdk_v2_client", by=sdks.v2.interpreter()), _SLOW_PASSES),
        "TypeScript v1": Pair(lambda: typescript("1"), _PASSES),
        "TypeScript v2": Pair(lambda: typescript("2"), _PASSES),
    }


def _python(client: str, *arguments: str, by: Path = Path(sys.executable)) -> list[str]:
    return [str(by), "-m", f"benchmarks.stdio_peers.{client}", *arguments]


def _race(pairs: Mapping[str, Pair]) -> dict[str, Found | Missing]:
    found: dict[str, Found | Missing] = {}
    order = list(pairs)
    for number in range(max(pair.passes for pair in pairs.values())):
        for name in order:
            best = found.get(name)
            if number < pairs[name].passes and not isinstance(best, Missing):
                run = _run(pairs[name])
                found[name] = run.shorter(best) if best and isinstance(run, Found) else run
        order = [*order[1:], order[0]]
    return found


def _run(pair: Pair) -> Found | Missing:
    job = Job(PIECES, COUNT, _WARM, PINGS)
    try:
        answer = _answer(pair.command(), job)
    except Unavailable as error:
        return why(error)
    expected = sum(len(PIECES[number % len(PIECES)]) for number in range(COUNT))
    if answer["characters"] != expected:
        return Missing(f"{answer['characters']:,} characters arrived instead of {expected:,}")
    return Found(answer["seconds"], answer["round_trip"])


def _answer(command: list[str], job: Job) -> Any:
    """What a client prints, or `Unavailable`."""
    try:
        done = subprocess.run(
            [*command, json.dumps(job._asdict())],
            cwd=ROOT,  # `-m` finds `benchmarks` there
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{_name(command)}: {type(error).__name__}") from error
    try:
        return json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise Unavailable(f"{_name(command)} ended with {done.returncode}: {last}") from None


def _name(command: list[str]) -> str:
    return next(Path(part).name for part in command if "stdio_peers" in part)


def _stream_rows(found: Results, version: str, target: Target) -> list[Row]:
    what = f"stdio {version}: {COUNT:,} updates"
    ours = Amount(_ours(found, version).stream)
    floor, sdk, typescript = (_times(found, name, "stream") for name in _peers(version))
    return [
        Row(f"{what}, floor", ours, floor, None, at_most(3)),
        Row(f"{what}, Python", ours, None, sdk, target),
        Row(f"{what}, TypeScript", ours, None, typescript, faster(2)),
    ]


def _round_trip_rows(found: Results, version: str, target: Target | None) -> list[Row]:
    what = f"stdio {version}: round trip"
    ours = Amount(_ours(found, version).round_trip)
    floor, sdk, typescript = (_times(found, name, "round_trip") for name in _peers(version))
    return [
        Row(f"{what}, Python", ours, floor, sdk, target),
        Row(f"{what}, TypeScript", ours, None, typescript),
    ]


def _peers(version: str) -> tuple[str, str, str]:
    return "floor", f"SDK {version}", f"TypeScript {version}"


def _ours(found: Results, version: str) -> Found:
    ours = found[f"Twofold {version}"]
    if isinstance(ours, Missing):
        raise RuntimeError(f"Twofold itself cannot be measured: {ours.why}")
    return ours


def _times(found: Results, name: str, which: str) -> Amount | Missing:
    times = found[name]
    return Amount(getattr(times, which)) if isinstance(times, Found) else times


def _lag_row() -> Row:
    with ThreadPoolExecutor() as pool:  # they sleep most of the time, so they can do it together
        waiting = pool.map(_most_waiting, (LAG_LONG, LAG_SHORT))
        long, short = (Amount(each, "B") for each in waiting)
    return Row(
        "stdio v2: waiting for a slow handler",
        long._replace(whose=f"of {LAG_LONG:,}"),
        short._replace(whose=f"of {LAG_SHORT:,}"),
        None,
        at_most(1.25, f"of {LAG_SHORT:,}"),
    )


def _most_waiting(count: int) -> float:
    answer = _answer(_python("twofold_lagging"), Job(PIECES, count, _WARM, 0))
    # in version 2 the state, running and idle, and the user's message are updates, too
    assert answer["handled"] >= count, answer
    return float(answer["waiting"])


def _how(sdks: Sdks, found: Results) -> str:
    rates = ", ".join(
        f"{name} {COUNT / times.stream:,.0f}"
        for name, times in found.items()
        if isinstance(times, Found)
    )
    return (
        f"an agent process sends {COUNT:,} chunks of 20 to 40 characters in one turn, a client "
        "process of the same library handles every one: from the prompt to the end of the turn "
        f"and the whole text. Round trip: the median of {PINGS:,} requests `_ping`, one after the "
        "other. Wall time, for the processes wait for each other, measured in the client; the "
        f"shortest of {_PASSES} runs by turns, of SDK {sdks.v2.release} {_SLOW_PASSES}, each after "
        f"a turn of {_WARM:,} that does not count. The floor: bare structs, blocking pipes, writes "
        f"of 64 KB. Updates a second: {rates}. Waiting for a slow handler: it takes 1 ms for each "
        "update while the agent sends as fast as it may; the most that `tracemalloc` counted "
        "beyond the state itself."
    )
