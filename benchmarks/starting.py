"""How long the command takes to start, beside Python itself and beside other clients of ACP.

Wall time, for a person waits for it. Everybody starts by turns, so that whatever else the machine
does hits all of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.peers import why
from benchmarks.table import Amount, Missing, Row, Target, Topic
from benchmarks.terminal_peers.first_answer import Failed, Started, at_prompt, one_shot
from tests.peers import install

_PASSES: Final = 21
_CLIENT_PASSES: Final = 7
_TWOFOLD: Final = str(Path(sys.executable).with_name("twofold"))
_DEMO: Final = [_TWOFOLD, "agent", "stream", "--speed", "0"]
"""Any prompt is answered with one, two, three, four, five."""
_FIRST: Final = "one"
_LAST: Final = "five"


def measure() -> Topic:
    """The command alone, then one prompt, then the interactive clients."""
    with tempfile.TemporaryDirectory() as home:
        # an environment that forbids bytecode would have every start compile what is not installed
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env["HOME"] = home
        alone = _alone(env)
        shots = _by_turns(_one_shots(env, home))
        prompts = _by_turns(_at_prompts(env, home))
    bound = Target("≤ 2× Python + 30 ms", 2, "floor", plus=0.03)
    python = _middle(alone["python -c pass"], "Python")
    rows = [
        Row(what, _middle(alone[what]), python, None, bound if what.endswith("version") else None)
        for what in ("twofold --version", "twofold --help")
    ]
    for what, which in (
        ("one prompt: first word of the answer", "ready"),
        ("one prompt: until the end of the process", "done"),
    ):
        rows.append(_beside(what, which, shots, "acpx"))
    for what, which in (
        ("interactive: until text can be typed", "ready"),
        ("interactive: until the first answer", "done"),
    ):
        rows.append(_beside(what, which, prompts, "Toad"))
    return Topic("start", _how(alone, shots, prompts), rows)


# ---- who starts ------------------------------------------------------------------------------


def _alone(env: Mapping[str, str]) -> dict[str, list[float]]:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "twofold --version": [_TWOFOLD, "--version"],
        "twofold --help": [_TWOFOLD, "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_PASSES):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - began)
    return times


def _one_shots(env: Mapping[str, str], cwd: str) -> "_Clients":
    ours = [_TWOFOLD, "run", "--prompt", "hello", "--", *_DEMO]
    clients: _Clients = {"Twofold": lambda: one_shot(ours, _FIRST, env, cwd)}
    try:
        acpx = [str(install.acpx()), "--agent", " ".join(_DEMO), "exec", "hello"]
    except install.Unavailable as error:
        return {**clients, "acpx": why(error)}
    return {**clients, "acpx": lambda: one_shot(acpx, _FIRST, env, cwd)}


def _at_prompts(env: Mapping[str, str], cwd: str) -> "_Clients":
    ours = [_TWOFOLD, "run", "--", *_DEMO]
    clients: _Clients = {"Twofold": lambda: at_prompt(ours, _LAST, env, cwd)}
    try:
        toad = [str(install.toad()), "acp", " ".join(_DEMO)]
    except install.Unavailable as error:
        return {**clients, "Toad": why(error)}
    return {**clients, "Toad": lambda: at_prompt(toad, _LAST, env, cwd)}


_Clients = dict[str, Callable[[], Started] | Missing]
_Times = dict[str, list[Started] | Missing]


def _by_turns(clients: _Clients) -> _Times:
    """What each client took. Its first start, which writes caches and settings, does not count."""
    times: _Times = {
        name: start if isinstance(start, Missing) else [] for name, start in clients.items()
    }
    for number in range(1 + _CLIENT_PASSES):
        for name, start in clients.items():
            found = times[name]
            if isinstance(start, Missing) or isinstance(found, Missing):
                continue
            try:
                started = start()
            except Failed as error:
                if name == "Twofold":
                    raise
                times[name] = Missing(f"{name} does not work here: {error}")
                continue
            if number:
                found.append(started)
    return times


# ---- the table -------------------------------------------------------------------------------


def _beside(what: str, which: str, times: _Times, other: str) -> Row:
    ours, theirs = (_seconds(times[name], which) for name in ("Twofold", other))
    assert not isinstance(ours, Missing)
    return Row(
        what,
        _middle(ours),
        None,
        theirs if isinstance(theirs, Missing) else _middle(theirs, other),
    )


def _seconds(times: list[Started] | Missing, which: str) -> list[float] | Missing:
    if isinstance(times, Missing):
        return times
    return [each.ready if which == "ready" else each.done for each in times]


def _middle(times: list[float], whose: str = "") -> Amount:
    return Amount(median(times), whose=whose)


def _how(alone: dict[str, list[float]], shots: _Times, prompts: _Times) -> str:
    found = dict(alone)
    for words, times in (("one prompt", shots), ("interactive", prompts)):
        for name in times:
            for which in ("ready", "done"):
                seconds = _seconds(times[name], which)
                if not isinstance(seconds, Missing):
                    found[f"{words}, {name}, {'first' if which == 'ready' else 'last'}"] = seconds
    spreads = ", ".join(
        f"{name} {1000 * min(times):.0f} to {1000 * max(times):.0f} ms"
        for name, times in found.items()
    )
    return (
        f"wall time from the start of the process, the median of {_PASSES} starts, of clients "
        f"{_CLIENT_PASSES}, by turns; the first start of a client does not count. Python: "
        "`python -c pass` of the same interpreter. All clients talk to the same demo agent, whose "
        "own start is part of it. One prompt: `twofold run --prompt` beside `acpx exec` "
        f"({install.ACPX}), with pipes. Interactive: `twofold run` beside `toad acp` "
        f"({install.TOAD}), in a terminal of 100 columns by 40 rows: until a letter that is typed "
        "is drawn, and with Enter until the answer is drawn. From the shortest to the longest: "
        f"{spreads}."
    )
