"""What those who observe a session cost the server, and what one costs who does not read."""

import json
import subprocess
import sys
from statistics import median
from typing import Any, Final

from benchmarks.table import Amount, Row, Target, Topic, at_most

FEW: Final = 1_000
MANY: Final = 100_000
OBSERVERS: Final = (10, 50)
LARGEST: Final = 1_000_000
"""Bytes that an observer may cost who does not read."""
_PASSES: Final = 3
_FRAMES: Final = 300
_CHUNKS: Final = 17
"""In a frame, as from an agent that sends a thousand a second."""
_WORDS: Final = 2_000
"""In each message that is sent beside an observer who does not read."""


def measure() -> Topic:
    """Everything by turns, each time in a fresh process."""
    wanted = {
        "one": ["--entries", str(FEW)],
        "long": ["--entries", str(MANY)],
        **{f"{count}": ["--entries", str(FEW), "--reading", str(count)] for count in OBSERVERS},
    }
    runs: dict[str, list[Any]] = {name: [] for name in wanted}
    large = ["--large", "--chunks", str(_WORDS)]
    beside = {"alone": large, "beside": [*large, "--stalled", "1"]}
    delays: dict[str, list[float]] = {name: [] for name in beside}
    for _ in range(_PASSES):
        for name, arguments in wanted.items():
            runs[name].append(_run(*arguments, "--chunks", str(_CHUNKS)))
        for name, arguments in beside.items():
            delays[name] += _run(*arguments)["delays"]
    held = {name: _run(*arguments, "--trace") for name, arguments in beside.items()}
    frames = {name: min(run["frame_seconds"] for run in each) for name, each in runs.items()}
    return Topic("observers", _how(held), _rows(frames, held, delays))


def _run(*arguments: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.page_peers.session_server"]
    done = subprocess.run(
        [*command, "--frames", str(_FRAMES), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _rows(
    frames: dict[str, float], held: dict[str, Any], delays: dict[str, list[float]]
) -> list[Row]:
    one = Amount(frames["one"])
    few = one._replace(whose=f"at {FEW:,}")
    length = [
        Row(
            "observers: a frame at the server",
            Amount(frames["long"], whose=f"at {MANY:,}"),
            few,
            None,
            at_most(1.25, few.whose),
        )
    ]
    people = [
        Row(
            f"observers: a frame for {count}",
            Amount(frames[f"{count}"]),
            one._replace(whose="for one"),
            None,
            at_most(2, "for one"),
        )
        for count in OBSERVERS
    ]
    without, beside = (Amount(median(delays[name])) for name in ("alone", "beside"))
    return [
        *length,
        *people,
        Row(
            "observers: memory for one who does not read",
            Amount(float(sum(_costs(held))), "B"),
            target=Target("≤ 1 MB", LARGEST, "unit"),
        ),
        Row(
            "observers: delay beside one who does not read",
            beside,
            without._replace(whose="without"),
            None,
            Target("≤ without + 1 ms", 1, "floor", plus=0.001),
        ),
    ]


def _costs(held: dict[str, Any]) -> tuple[int, int]:
    """Bytes in the process, and bytes that wait in the kernel."""
    in_process = held["beside"]["held_bytes"] - held["alone"]["held_bytes"]
    return max(0, in_process), held["beside"]["unsent_bytes"]


def _how(held: dict[str, Any]) -> str:
    in_process, unsent = _costs(held)
    return (
        "processor time of a server in a process of its own, per frame: sixty times a second the "
        f"agent, which is in the same process, sends {_CHUNKS} chunks, {_FRAMES} times; reading "
        "them, the session, the frame and its sending are part of it, and those who observe are "
        f"in another process. The least of {_PASSES} runs by turns. Who does not read: {_FRAMES} "
        f"messages of {_WORDS:,} words each, with one observer who reads, and with another one who "
        f"does not: what `tracemalloc` counts more at the end ({in_process:,} B) and the most that "
        f"waits in the kernel ({unsent:,} B). Delay: wall time from the agent's message until the "
        f"one who reads has it, the median of {_PASSES} runs together."
    )
