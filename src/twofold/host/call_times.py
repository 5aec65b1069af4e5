"""How long the tool calls of a session took, as the host has seen it.

A call takes time from the frame that it appears in to the one in which it has ended, but for the
time in which it waits for a permission or is paused. Of a call that was there before the host
looked, or that had ended when it was first seen, the time is not known. Pure: the caller has the
clock.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from twofold.session import Session, ToolCall
from twofold.view.blocks import ToolCallBlock
from twofold.view.live import Key, Put

_WORKING: Final = frozenset({"pending", "in_progress", "cancelling"})


class Now(NamedTuple):
    """What the time is."""

    ticks: float
    """Seconds of a clock that is never set."""
    unix: float
    """For people: seconds of Unix time."""


class CallTime(NamedTuple):
    """How long a tool call has taken."""

    seconds: float
    """Until `since`, or in all."""
    since: float | None = None
    """Since when it works now (Unix time); None if it does not."""


class CallTimes:
    """The times of the tool calls of one session.

    Args:
        session: The session; of the calls that it holds already no time is known.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._first = len(session.entries)
        self._times: dict[str, _Time] = {}
        """By the id of the tool call: it stays the same when an agent replays its session."""
        self._kept: dict[Key, CallTime] = {}

    def note(self, puts: Iterable[Put], now: Now) -> None:
        """Note the blocks of a frame."""
        for put in puts:
            if isinstance(put.block, ToolCallBlock) and put.key.kind == "entry":
                self._note(put.key, put.block, now)

    def of(self, key: Key) -> CallTime | None:
        """How long the call of a block has taken; None if that is not known."""
        if key.kind != "entry":
            return self._kept.get(key)
        identity = self._identity(key)
        time = self._times.get(identity) if identity is not None else None
        return time.shown if time is not None else None

    def adopted(self, session: Session, kept: Sequence[Key] | None) -> "CallTimes":
        """The times for another state of the session, after its agent was started again.

        Args:
            session: The new state.
            kept: The blocks that stay above the new state, which does not repeat them; None if the
                new state repeats what there was: then its calls have the same ids.
        """
        made = CallTimes(session)
        if kept is None:
            made._times = dict(self._times)
            return made
        for number, key in enumerate(kept):
            time = self.of(key)
            if time is not None:
                made._kept[Key("turn", number)] = time
        return made

    def _note(self, key: Key, block: ToolCallBlock, now: Now) -> None:
        identity = self._identity(key)
        if identity is None:
            return
        works = not block.finished and block.status in _WORKING
        time = self._times.get(identity)
        if time is None:
            if block.finished or int(key.identity) < self._first:
                return
            time = self._times[identity] = _Time()
        time.note(now, works=works)

    def _identity(self, key: Key) -> str | None:
        number = int(key.identity)
        entries = self._session.entries
        entry = entries[number] if number < len(entries) else None
        return entry.tool_call_id if isinstance(entry, ToolCall) else None


class _Time:
    """The time of one call."""

    __slots__ = ("_began", "_seconds", "_since")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._began: float | None = None
        self._since = 0.0

    def note(self, now: Now, *, works: bool) -> None:
        """Whether it works from now on."""
        if works and self._began is None:
            self._began, self._since = now.ticks, now.unix
        elif not works and self._began is not None:
            self._seconds += now.ticks - self._began
            self._began = None

    @property
    def shown(self) -> CallTime:
        return CallTime(self._seconds, self._since if self._began is not None else None)
