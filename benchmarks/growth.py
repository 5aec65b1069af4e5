"""Whether an update costs more when the session is long. It must not."""

from benchmarks import inputs
from benchmarks.clock import Contestant, fresh, race, timed
from benchmarks.streams import read_v2
from benchmarks.table import Amount, Row, Topic, at_most
from twofold import Sessions
from twofold.wire import v2

SHORT = 1_000
LONG = 100_000

_WINDOW = 100
_PASSES = 15
_NEAR = 5
"""How many windows before and after the moment are looked at."""


def measure() -> Topic:
    """The same session at two moments of its life."""
    lines = inputs.chunks(LONG + _NEAR * _WINDOW)
    notifications = [v2.decode_update_line(line) for line in lines]
    whole = Contestant(lambda: timed(read_v2(Sessions())))
    rows = []
    for what, items, contestant in (
        ("growth: decode, apply", lines, whole),
        ("growth: apply alone", notifications, fresh(lambda: Sessions().apply)),
    ):
        times = race(items, {"v2": contestant}, size=_WINDOW, passes=_PASSES).times("v2")
        late, soon = (
            Amount(
                times.cost(moment // _WINDOW - _NEAR, moment // _WINDOW + _NEAR),
                whose=f"at {moment:,}",
            )
            for moment in (LONG, SHORT)
        )
        rows.append(Row(what, late, soon, None, at_most(1.25, f"at {SHORT:,}")))
    return Topic(
        "growth",
        f"one session that grows, at its {LONG:,}th chunk beside its {SHORT:,}th. Time per update "
        f"in the {2 * _NEAR} windows of {_WINDOW} around it, each the shortest of {_PASSES}.",
        rows,
    )
