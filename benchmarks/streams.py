"""A stream of chunks, from the line to the state of the session, nothing left out in between."""

from collections.abc import Callable, Sequence

from benchmarks import floor, inputs
from benchmarks.clock import Contestant, Feed, asked, race, timed
from benchmarks.peers import Sdks
from benchmarks.table import Row, Topic, at_most
from twofold import Session, Sessions, Upgrader
from twofold.wire import v1, v2

COUNT = 50_000

_WINDOW = 100
_PASSES = 9
_SDK_WINDOWS = 20


def read_v2(sessions: Sessions) -> Callable[[Sequence[bytes]], None]:
    """Reads lines of version 2 into their sessions."""
    decode, apply = v2.decode_update_line, sessions.apply

    def work(lines: Sequence[bytes]) -> None:
        for line in lines:
            notification = decode(line)
            if notification is not None:
                apply(notification)

    return work


def read_v1(session: Session) -> Callable[[Sequence[bytes]], None]:
    """Reads lines of version 1 into a session."""
    decode, upgrade, apply = v1.decode_update_line, Upgrader().update, session.apply

    def work(lines: Sequence[bytes]) -> None:
        for line in lines:
            notification = decode(line)
            if notification is not None:
                for update in upgrade(notification.update):
                    apply(update)

    return work


def _floor() -> Feed:
    kept: list[object] = []
    decode, append = floor.chunk, kept.append

    def work(lines: Sequence[bytes]) -> None:
        for line in lines:
            append(decode(line).params.update.content)

    return timed(work)


def measure(sdks: Sdks) -> Topic:
    """Decode and apply, beside decode and append."""
    times = race(
        inputs.chunks(COUNT),
        {
            "v2": Contestant(lambda: timed(read_v2(Sessions()))),
            "v1": Contestant(lambda: timed(read_v1(Session(inputs.SESSION)))),
            "floor": Contestant(_floor),
            "SDK v2": asked(sdks.v2, "stream", _SDK_WINDOWS),
            "SDK v1": asked(sdks.v1, "stream", _SDK_WINDOWS),
        },
        size=_WINDOW,
        passes=_PASSES,
    )
    least = times.ours("floor")
    v2, v1 = times.ours("v2"), times.ours("v1")
    return Topic(
        "stream",
        f"{COUNT:,} lines of chunks that belong to {inputs.MESSAGES} messages by turns, from the "
        f"line to the state of the session. Time per line, in windows of {_WINDOW} lines, each "
        f"the shortest of {_PASSES}. The floor and the SDK decode and append to a list, the SDK "
        f"only the first {_SDK_WINDOWS * _WINDOW:,} lines.",
        [
            Row("stream v2: decode, apply", v2, least, times.theirs("SDK v2"), at_most(2.5)),
            Row("stream v1: decode, upgrade, apply", v1, least, times.theirs("SDK v1")),
        ],
    )
