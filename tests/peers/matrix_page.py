"""`docs/bridge-matrix.md`, made of what a run of `test_bridge_matrix.py` found."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from tests.peers.differences import DIFFERENCES, OF_PEERS, PAIRS, TRANSLATION, Difference, Pair
from tests.peers.facts import Line
from tests.peers.programs import PEERS, Peer

WIDTH = 120

STEPS = {
    "initialize": "connects",
    "new": "begins a session",
    "stream": "receives text and thoughts in pieces",
    "tools": "receives a plan and two tool calls at once, with a diff and with a terminal",
    "allow": "allows what it is asked for",
    "reject": "rejects it",
    "cancel": "cancels in the middle of a turn",
    "cancel_permission": "cancels while it is asked",
    "error": "receives the error of a turn that failed",
    "mode": "changes the mode",
    "list": "lists the sessions",
    "replay": "has the session replayed",
    "resume": "resumes it without a replay",
    "close": "closes and deletes it",
}

INTRODUCTION = (
    "Every client below was run with every agent below through `twofold bridge`, as real processes."
    " What the client received was compared to the letter with what"
    " [tests/peers](../tests/peers/README.md) expects of these programs, and every message on both"
    " sides of the bridge with the official schema of its version."
)
HOW_TO = """\
The test run makes this page, and fails if the page is out of date. To make it anew:

```
TWOFOLD_WRITE_DOCS=1 make test ARGS=tests/peers/test_bridge_matrix.py
```"""
LEGEND = (
    "✓: every step was as expected. ✗: the steps that were not. The numbers refer to the"
    " differences of a pair, with their reasons, which are listed below."
)
LOSSES = (
    "What the bridge reported in these runs (`--losses FILE` lists every loss, standard error each"
    " kind once). Between peers of one version every line passes unchanged, and nothing is lost."
)


def page(failed: Mapping[Pair, Sequence[str]], losses: Mapping[Pair, Sequence[Line]]) -> str:
    """The page: the steps that failed, and the losses that were reported, of each pair."""
    translation, of_peers = _reasons(TRANSLATION), _reasons(OF_PEERS)
    steps = "; ".join(f"{what} (`{step}`)" for step, what in STEPS.items())
    parts = [
        *("# The bridge: who works with whom", _wrapped(INTRODUCTION)),
        *(_wrapped(f"Each client, in this order: {steps}."), HOW_TO),
        *(_wrapped(LEGEND), _table(failed, [*translation, *of_peers])),
        *("## What translation changes", _numbered(translation, 1)),
        "## What these peers do differently, with or without a bridge",
        _numbered(of_peers, len(translation) + 1),
        *("## What is lost", _wrapped(LOSSES)),
        *("A version 1 client with a version 2 agent:", _lost(losses, 1)),
        *("A version 2 client with a version 1 agent:", _lost(losses, 2)),
    ]
    return "\n\n".join(parts) + "\n"


def _reasons(differences: Iterable[Difference]) -> list[str]:
    return list(dict.fromkeys(each.because for each in differences))


def _table(failed: Mapping[Pair, Sequence[str]], reasons: Sequence[str]) -> str:
    rows = [["client \\ agent", *map(_name, PEERS.values())], ["---"] * (len(PEERS) + 1)]
    for client, peer in PEERS.items():
        cells = [_cell((client, agent), failed, reasons) for agent in PEERS]
        rows.append([f"**{_name(peer)}**", *cells])
    return _rows(rows)


def _name(peer: Peer) -> str:
    release = "" if peer.made_with == "Twofold" else f" {peer.release}"
    return f"{peer.made_with}{release}, v{peer.version}"


def _cell(pair: Pair, failed: Mapping[Pair, Sequence[str]], reasons: Sequence[str]) -> str:
    if failed[pair]:
        return f"✗ {', '.join(failed[pair])}"
    numbers = {reasons.index(each.because) + 1 for each in DIFFERENCES if each.holds(*pair)}
    return " ".join(["✓", *map(str, sorted(numbers))])


def _numbered(reasons: Sequence[str], start: int) -> str:
    return "\n".join(_wrapped(f"{at}. {why}", "   ") for at, why in enumerate(reasons, start))


def _lost(losses: Mapping[Pair, Sequence[Line]], version: int) -> str:
    kinds = {
        (loss["message"], place(loss), loss["reason"])
        for pair in PAIRS
        if PEERS[pair[0]].version == version
        for loss in losses.get(pair, ())
    }
    if not kinds:
        return "Nothing."
    rows = [["message", "where", "why"], ["---"] * 3]
    rows += [[f"`{message}`", f"`{path}`", why] for message, path, why in sorted(kinds)]
    return _rows(rows)


def place(loss: Line) -> str:
    """Where something was lost, whichever item of a list it was."""
    return re.sub(r"\d+", "…", loss["path"])


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
