"""How time is measured: in turns, in short windows, the shortest time of each window.

It is processor time, for none of the contestants waits: what a machine shared with others does
in between does not count.

All contestants get the first window of the input, one after the other, then the second, and so
on, so that whatever else the machine does hits all of them. The whole is repeated, with a fresh
start for everybody and somebody else first. The same window is the same work every time, the
garbage collector's share included, so what its times differ by is noise and the shortest is the
truest.
"""

from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any, NamedTuple

from benchmarks.peers import Sdk, why
from benchmarks.table import Amount, Missing
from tests.peers.install import Unavailable

Feed = Callable[[Sequence[Any]], float]
"""Takes a window of the input and says how many seconds that took."""


class Contestant(NamedTuple):
    """Somebody who starts afresh for every pass; one who is slow may stop early."""

    start: Callable[[], Feed]
    windows: int | None = None


class Times(NamedTuple):
    """The shortest time of each window, in seconds per item."""

    windows: list[float]

    def cost(self, first: int = 0, last: int | None = None) -> float:
        """What an item costs, in all windows or in some of them."""
        windows = self.windows[first:last]
        return sum(windows) / len(windows)


class Results(dict[str, Times | Missing]):
    """How the contestants did, by name."""

    def times(self, name: str) -> Times:
        """The times of somebody who cannot be missing."""
        times = self[name]
        assert isinstance(times, Times), times
        return times

    def ours(self, name: str, whose: str = "") -> Amount:
        """What an item costs somebody who cannot be missing."""
        return Amount(self.times(name).cost(), whose=whose)

    def theirs(self, name: str) -> Amount | Missing:
        """What an item costs an SDK, or why that is not known."""
        times = self[name]
        return Amount(times.cost()) if isinstance(times, Times) else times


def timed(work: Callable[[Sequence[Any]], None]) -> Feed:
    """A contestant's work, with a clock beside it."""

    def feed(window: Sequence[Any]) -> float:
        start = process_time()
        work(window)
        return process_time() - start

    return feed


def each(work: Callable[[Any], object]) -> Contestant:
    """A contestant who does the same with every item and remembers nothing."""
    return Contestant(lambda: timed(_loop(work)))


def fresh(make: Callable[[], Callable[[Any], object]]) -> Contestant:
    """A contestant who remembers, and starts with an empty memory."""
    return Contestant(lambda: timed(_loop(make())))


def _loop(work: Callable[[Any], object]) -> Callable[[Sequence[Any]], None]:
    def loop(window: Sequence[Any]) -> None:
        for item in window:
            work(item)

    return loop


def asked(sdk: Sdk, task: str, windows: int) -> Contestant:
    """An SDK, which takes its time by itself, for as many windows as fit into a run."""

    def start() -> Feed:
        sdk.ask("start")
        return lambda window: float(sdk.ask(task, window))

    return Contestant(start, windows)


class _Lane:
    """One contestant's way through the windows, and the best of it so far."""

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self._feed: Feed | None = None
        self.best: list[float] = []
        self.missing: Missing | None = None

    def start(self) -> None:
        self._try(self._start)

    def take(self, number: int, window: Sequence[Any]) -> None:
        if self._contestant.windows is None or number < self._contestant.windows:
            self._try(lambda: self._take(number, window))

    def _try(self, step: Callable[[], None]) -> None:
        if self.missing is None:
            try:
                step()
            except Unavailable as error:
                self.missing = why(error)

    def _start(self) -> None:
        self._feed = self._contestant.start()

    def _take(self, number: int, window: Sequence[Any]) -> None:
        assert self._feed is not None
        took = self._feed(window) / len(window)
        if number == len(self.best):
            self.best.append(took)
        else:
            self.best[number] = min(self.best[number], took)


def race(
    items: Sequence[Any], contestants: Mapping[str, Contestant], *, size: int, passes: int
) -> Results:
    """The times of every contestant in windows of so many items, or why there are none."""
    windows = [items[at : at + size] for at in range(0, len(items), size)]
    lanes = {name: _Lane(contestant) for name, contestant in contestants.items()}
    order = list(lanes.values())
    for _ in range(passes):
        for lane in order:
            lane.start()
        for number, window in enumerate(windows):
            for lane in order:
                lane.take(number, window)
        order = [*order[1:], order[0]]
    return Results({name: lane.missing or Times(lane.best) for name, lane in lanes.items()})
