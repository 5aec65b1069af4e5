"""One chunk into the other version, beside what it costs to decode it."""

from collections.abc import Callable
from typing import Any

from benchmarks import inputs
from benchmarks.clock import Contestant, each, fresh, race
from benchmarks.table import Row, Topic, at_most
from twofold import Downgrader, Losses, Upgrader
from twofold.convert.downgrade import downgrade
from twofold.convert.upgrade import upgrade
from twofold.wire import v1, v2

COUNT = 5_000

_WINDOW = 200
_PASSES = 15


def measure() -> Topic:
    """Both directions, with a memory and without."""
    rows = [
        *_rows(
            v1.decode_update_line,
            inputs.chunks(COUNT),
            {
                "upgrade chunk, stateless": fresh(_stateless(upgrade)),
                "upgrade chunk, stateful": fresh(lambda: Upgrader().update),
            },
        ),
        *_rows(
            v1.decode_update_line,
            inputs.chunks(COUNT, ids=False),
            {
                "upgrade chunk without id, stateless": fresh(_stateless(upgrade)),
                "upgrade chunk without id, stateful": fresh(lambda: Upgrader().update),
            },
        ),
        *_rows(
            v2.decode_update_line,
            inputs.chunks(COUNT),
            {
                "downgrade chunk, stateless": fresh(_stateless(downgrade)),
                "downgrade chunk, stateful": fresh(lambda: Downgrader().update),
            },
        ),
    ]
    return Topic(
        "upgrade, downgrade",
        "`upgrade` and `downgrade` are stateless, `Upgrader` and `Downgrader` remember the "
        f"session. Time per chunk of {COUNT:,}, decoded before, in windows of {_WINDOW}, each the "
        f"shortest of {_PASSES}. In the floor column: the decode of the same line, in turns.",
        rows,
    )


def _stateless(convert: Callable[[Any, Losses], object]) -> Callable[[], Callable[[Any], object]]:
    def start() -> Callable[[Any], object]:
        losses = Losses()
        return lambda update: convert(update, losses)

    return start


def _rows(
    decode: Callable[[bytes], Any], lines: list[bytes], converters: dict[str, Contestant]
) -> list[Row]:
    # a line and what it says, so that both kinds of contestants go through the same windows
    items = [(line, decode(line).update) for line in lines]
    contestants = {what: _second(converter) for what, converter in converters.items()}
    result = race(
        items, {**contestants, "decode": _first(each(decode))}, size=_WINDOW, passes=_PASSES
    )
    base = result.ours("decode", "decode")
    return [Row(what, result.ours(what), base, None, at_most(3, "decode")) for what in converters]


def _first(contestant: Contestant) -> Contestant:
    return Contestant(lambda: _picking(contestant, 0))


def _second(contestant: Contestant) -> Contestant:
    return Contestant(lambda: _picking(contestant, 1))


def _picking(contestant: Contestant, place: int) -> Callable[[Any], float]:
    feed = contestant.start()
    return lambda window: feed([item[place] for item in window])
