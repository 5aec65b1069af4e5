"""What a chunk holds for as long as its session lives."""

import tracemalloc
from collections.abc import Callable

from benchmarks import floor, inputs
from benchmarks.peers import Sdks, why
from benchmarks.streams import read_v2
from benchmarks.table import Amount, Missing, Row, Topic, bytes_below
from tests.peers.install import Unavailable
from twofold import Sessions
from twofold.session import Message

COUNT = 100_000

_SDK_COUNT = 2_000


def measure(sdks: Sdks) -> Topic:
    """Bytes per chunk, the text itself included."""
    lines = inputs.chunks(COUNT)
    sessions = Sessions()
    held = _held(lambda: read_v2(sessions)(lines))
    joined = _held(lambda: _look_at_all(sessions))
    least = _held(lambda: [floor.chunk(line).params.update.content for line in lines])
    theirs: Amount | Missing
    try:
        theirs = Amount(sdks.v2.ask("memory", lines[:_SDK_COUNT]), "B")
    except Unavailable as error:
        theirs = why(error)
    row = Row(
        "memory per chunk v2", Amount(held, "B"), Amount(least, "B"), theirs, bytes_below(300)
    )
    return Topic(
        "memory",
        f"what `tracemalloc` counts as held once {COUNT:,} chunks are decoded and applied, per "
        f"chunk. Its text of {inputs.TEXT} characters ({49 + inputs.TEXT} B as a Python string) is "
        f"part of it; reading `Message.text` afterwards adds {joined:.0f} B. The floor and the SDK "
        f"keep every update in a list, the SDK {_SDK_COUNT:,} of them.",
        [row],
    )


def _held(work: Callable[[], object]) -> float:
    tracemalloc.start()
    kept = work()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept  # not earlier
    return held / COUNT


def _look_at_all(sessions: Sessions) -> None:
    for entry in sessions[inputs.SESSION].entries:
        assert isinstance(entry, Message)
        assert entry.text
