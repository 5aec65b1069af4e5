"""One line into structs, beside the models of the official SDK for the same version."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import floor, inputs
from benchmarks.clock import asked, each, race
from benchmarks.peers import Sdk, Sdks
from benchmarks.table import Row, Topic, faster
from twofold.wire import v1, v2

_WINDOW = 100
_WINDOWS = 20
_PASSES = 31
_SDK_WINDOWS = 2


class _Kind(NamedTuple):
    what: str
    lines: Callable[[int], list[bytes]]
    least: Callable[[bytes], object]


_V1 = (
    _Kind("chunk", inputs.chunks, floor.chunk),
    _Kind("4 KB diff", inputs.diffs_v1, floor.diff_v1),
    _Kind("plan of 20", inputs.plans_v1, floor.plan_v1),
)
_V2 = (
    _Kind("chunk", inputs.chunks, floor.chunk),
    _Kind("4 KB diff", inputs.diffs_v2, floor.diff_v2),
    _Kind("plan of 20", inputs.plans_v2, floor.plan_v2),
)


def measure(sdks: Sdks) -> Topic:
    """The three kinds of updates that are sent most, in both versions."""
    rows = [_row("v1", kind, v1.decode_update_line, sdks.v1, 5) for kind in _V1]
    rows += [_row("v2", kind, v2.decode_update_line, sdks.v2, 30) for kind in _V2]
    return Topic(
        "decode",
        f"a whole line into its structs or models; version 1 beside SDK {sdks.v1.release}, "
        f"version 2 beside {sdks.v2.release}. Time per line, in {_WINDOWS} windows of {_WINDOW} "
        f"lines, for the SDK {_SDK_WINDOWS}, each the shortest of {_PASSES}.",
        rows,
    )


def _row(
    version: str, kind: _Kind, decode: Callable[[bytes], object], sdk: Sdk, times: float
) -> Row:
    lines = kind.lines(_WINDOW * _WINDOWS)
    assert decode(lines[0]) is not None, "the input has to be one that needs no second look"
    result = race(
        lines,
        {
            "Twofold": each(decode),
            "floor": each(kind.least),
            "SDK": asked(sdk, "decode", _SDK_WINDOWS),
        },
        size=_WINDOW,
        passes=_PASSES,
    )
    what = f"decode {version}: {kind.what}"
    return Row(
        what, result.ours("Twofold"), result.ours("floor"), result.theirs("SDK"), faster(times)
    )
