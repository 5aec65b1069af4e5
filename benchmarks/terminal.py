"""What it costs to show a message that grows, beside what else shows markdown in a terminal.

Every program runs in a terminal of its own and is given the same chunks as fast as it takes them.
Wall time; a program that takes too long is stopped, and then it took at least as long.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.table import Amount, Missing, Row, Topic, at_most, below, faster
from benchmarks.terminal_peers.in_terminal import in_terminal
from benchmarks.terminal_peers.streams import CHUNKS, LINES, fence, prose, write
from tests.peers import install

CALLS: Final = 1_000
TIMES: Final = 4
"""How much more there is of everything to see whether the cost grows with it, and no faster."""
IDLE: Final = 10
PACED: Final = 3_000
TYPED: Final = "--typed"
LIMIT: Final = 60.0
"""How many seconds a peer has for a stream."""
_PASSES: Final = 3
_PEERS: Final = "benchmarks.terminal_peers"

Report: TypeAlias = dict[str, Any]


def measure() -> Topic:
    """Ours a few times, the peers once: they take long enough."""
    with tempfile.TemporaryDirectory() as folder:
        streams = _streams(Path(folder))
        wanted = {name: [str(path)] for name, path in streams.items()}
        wanted["calls"], wanted["more calls"] = [f"calls {CALLS}"], [f"calls {TIMES * CALLS}"]
        wanted["paced"] = [f"paced {PACED}"]
        wanted |= {f"{name}, typed": [*wanted[name], TYPED] for name in ("prose", "fence", "paced")}
        ours = _by_turns(wanted)
        idle = {
            words: _run("twofold_client", [f"idle {IDLE}", *more])
            for words, more in (("empty", []), ("typed", [TYPED]))
        }
        try:
            peers = install.textual()
        except install.Unavailable as error:
            return Topic("terminal", str(error), _rows(ours, idle, {}))
        theirs = {
            (program, name): _run(
                program, [str(streams[name]), "--limit-seconds", str(LIMIT)], peers
            )
            for program in ("rich_markdown", "textual_markdown")
            for name in ("prose", "fence")
        }
    return Topic("terminal", _how(ours, theirs), _rows(ours, idle, theirs))


def _streams(folder: Path) -> dict[str, Path]:
    made = {
        "prose": prose(CHUNKS),
        "more prose": prose(TIMES * CHUNKS),
        "fence": fence(LINES),
        "more fence": fence(TIMES * LINES),
    }
    paths = {name: folder / f"{number}.jsonl" for number, name in enumerate(made)}
    for name, chunks in made.items():
        write(paths[name], chunks)
    return paths


def _by_turns(wanted: dict[str, list[str]]) -> dict[str, Report]:
    """The best of a few runs, each figure by itself."""
    runs: dict[str, list[Report]] = {name: [] for name in wanted}
    for _ in range(_PASSES):
        for name, arguments in wanted.items():
            runs[name].append(_run("twofold_client", arguments))
    return {name: _best(each) for name, each in runs.items()}


def _best(runs: list[Report]) -> Report:
    best = {name: min(run[name] for run in runs) for name in ("wall_seconds", "cpu_seconds")}
    return {
        **runs[-1],
        **best,
        "redraw_seconds": min(run["draw_seconds"] / run["redraws"] for run in runs),
        "redraws_a_second": max(run["redraws"] / run["wall_seconds"] for run in runs),
    }


def _run(program: str, arguments: list[str], python: Path = Path(sys.executable)) -> Report:
    return in_terminal(f"{_PEERS}.{program}", arguments, python)


# ---- the table -------------------------------------------------------------------------------


def _rows(
    ours: dict[str, Report], idle: dict[str, Report], theirs: dict[tuple[str, str], Report]
) -> list[Row]:
    rows = []
    for name, what in (("fence", f"a fence of {LINES:,} lines"), ("prose", f"{CHUNKS:,} chunks")):
        for program, whose in (("rich_markdown", "Rich"), ("textual_markdown", "Textual")):
            target = faster(20, "Rich") if (name, whose) == ("fence", "Rich") else None
            other = _time(theirs.get((program, name)), whose)
            rows.append(Row(f"{what}, beside {whose}", _wall(ours[name]), None, other, target))
    for name, what in (("fence", "fence"), ("prose", "prose"), ("calls", f"{CALLS:,} tool calls")):
        rows.append(
            Row(
                f"{what}: {TIMES} times as much",
                Amount(ours[f"more {name}"]["cpu_seconds"]),
                Amount(ours[name]["cpu_seconds"], whose="once"),
                None,
                at_most(1.15 * TIMES, "once"),
            )
        )
    what, redraws = "redraws at 1,000 chunks a second", ours["paced"]["redraws_a_second"]
    rows.append(Row(what, Amount(redraws, "/s"), target=below(60, "/s")))
    for name, what, figure in (
        ("fence", f"a fence of {LINES:,} lines", "cpu_seconds"),
        ("prose", f"{CHUNKS:,} chunks", "cpu_seconds"),
        ("paced", "a redraw at 1,000 chunks a second", "redraw_seconds"),
    ):
        typed, empty = (Amount(ours[which][figure]) for which in (f"{name}, typed", name))
        rows.append(
            Row(
                f"{what}, two lines typed",
                typed,
                empty._replace(whose="empty line"),
                None,
                at_most(1.1, "empty line"),
            )
        )
    for words, what in (("empty", "at the prompt"), ("typed", "two lines typed")):
        share = 100 * idle[words]["cpu_seconds"] / idle[words]["wall_seconds"]
        rows.append(Row(f"processor, idle, {what}", Amount(share, "%"), target=below(1, "%")))
    textual = theirs.get(("textual_markdown", "prose"))
    peak = Amount(textual["peak_rss_bytes"], "B", "Textual") if textual else None
    rows.append(Row("most memory, prose", Amount(ours["prose"]["peak_rss_bytes"], "B"), None, peak))
    return rows


def _wall(report: Report) -> Amount:
    return Amount(report["wall_seconds"])


def _time(report: Report | None, whose: str) -> Amount | Missing:
    """How long all of it took or would have taken at least: what is stopped is not at its end."""
    if report is None:
        return Missing(f"{whose} could not be installed")
    stopped = report["shown"] < report["chunks"]
    told = f"{whose}, stopped at {report['shown'] / report['chunks']:.0%}" if stopped else whose
    return Amount(report["wall_seconds"], whose=told)


def _how(ours: dict[str, Report], theirs: dict[tuple[str, str], Report]) -> str:
    drawn = {name: report["redraws"] for name, report in ours.items()}
    others = {
        f"{program.removesuffix('_markdown').capitalize()} {name}": report["redraws"]
        for (program, name), report in theirs.items()
    }
    redraws = ", ".join(f"{name} {count:,}" for name, count in {**drawn, **others}.items())
    return (
        "each program in a terminal of its own, 100 columns by 40 rows, read as fast as it writes. "
        "Twofold: `twofold run` as it is, the shortest of "
        f"{_PASSES} turns with an agent that sends everything at once; decoding and the session "
        "are part of it. Two lines typed: this text is in the input line during the turn, which is "
        "drawn below it in any case; by turns with an empty one. Rich: `Live(Markdown(text))` "
        "rendered for every chunk. Textual: its "
        "`Markdown` widget, every chunk appended. Both are given the chunks in their own process "
        f"and stopped after {LIMIT:g} s: then the ratio is the least that it can be. "
        f"Redraws: {redraws}."
    )
