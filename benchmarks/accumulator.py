"""The state of a session, beside the one that the official SDK adds up."""

from benchmarks import inputs
from benchmarks.clock import timed
from benchmarks.peers import Sdks, why
from benchmarks.streams import read_v1
from benchmarks.table import Amount, Missing, Row, Topic, faster
from tests.peers.install import Unavailable
from twofold import Session
from twofold.session import Message

COUNT = 2_000
QUICK_COUNT = 500

_PASSES = 15


def measure(sdks: Sdks, *, quick: bool) -> Topic:
    """From the lines to the state; the SDK takes some 20 seconds, or 2 if `quick`."""
    count = QUICK_COUNT if quick else COUNT
    lines = inputs.chunks(count)
    seconds = []
    for _ in range(_PASSES):
        session = Session(inputs.SESSION)
        seconds.append(timed(read_v1(session))(lines))
    characters = sum(len(entry.text) for entry in session.entries if isinstance(entry, Message))
    theirs: Amount | Missing
    flaw = ""
    try:
        answer = sdks.v1.ask("accumulate", lines)
        theirs = Amount(answer["seconds"])
        if answer["characters"] != characters:
            flaw = "the texts differ"
    except Unavailable as error:
        theirs = why(error)
    how = (
        f"{count:,} chunks of version 1 from the lines to the state, beside `SessionAccumulator` "
        f"of SDK {sdks.v1.release}. The shortest of {_PASSES} times, of the SDK the only one. "
        "Both must end with the same text."
    )
    if quick:
        how += f" This was the quick run: the target is meant for {COUNT:,} chunks."
    what = f"accumulator: {count:,} chunks v1"
    row = Row(what, Amount(min(seconds)), None, theirs, faster(1_000), flaw)
    return Topic("accumulator", how, [row])
