"""One side of a bridge: a transport, read line by line.

The lines that one piece of input causes are written together. If the peer of one side does not
read, the other side stops reading, so that nothing piles up in between. A side can also pass its
bytes through unread, from the byte after the line that decided so. A batch is split: each entry is
handled as a line of its own, and the answers to them are sent together.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from twofold.rpc.batches import Apart
from twofold.rpc.connection import Batch, Malformed, cut_off, is_whole
from twofold.rpc.errors import INTERNAL_ERROR, RequestError
from twofold.rpc.frames import Lines, LineTooLong
from twofold.transport.base import Transport

OnLine: TypeAlias = Callable[[bytes | LineTooLong], None]
OnNoise: TypeAlias = Callable[[Malformed], None]
OnEnd: TypeAlias = Callable[[Exception | None], None]

# Why a side reads no further
_HOLDING_BACK = "its input is kept for later"
_OTHER_IS_FULL = "the other side does not read"


class Side:
    """The client or the agent of a bridge. `other` is the opposite side.

    Args:
        name: "client" or "agent", for reports.
        line_limit: The longest line that is read, in bytes.
        slack: How many bytes are still read from a peer that has to wait. Without any, the end of
            its stream would not be noticed.
    """

    def __init__(self, name: str, line_limit: int, slack: int = 0) -> None:
        self.name = name
        self.other: Side = self
        self.closed = False
        self.on_line: OnLine = lambda line: None
        self.on_noise: OnNoise = lambda event: None
        """Called with an entry of a batch that is no message, and with a last line cut off."""
        self.on_end: OnEnd = lambda error: None
        self.on_bytes: Callable[[bytes], None] | None = None
        """If set, called with the bytes that arrive, which are then not split into lines."""
        self.settled = False
        """`on_line` and `on_bytes` no longer change, so that input may be split all at once."""
        self.batches = Apart(strict=name == "client", limit=line_limit)
        self._line_limit = line_limit
        self._transport: Transport | None = None
        self._lines = Lines(line_limit)
        self._kept: list[bytes] = []
        self._out: list[bytes] = []
        self._flushing = False
        self._holders: set[str] = set()
        self._slack = slack
        self._slack_left = slack
        self._paused = False

    def start(self, transport: Transport) -> None:
        """Read from `transport` and write to it."""
        self._transport = transport
        self._lines = Lines(self._line_limit)
        self.closed = self._paused = False
        self._out.clear()  # it was meant for the transport before
        self.batches = Apart(strict=self.name == "client", limit=self._line_limit)
        self.other._release(_OTHER_IS_FULL)
        transport.start(_Receiver(self, transport))
        self._pause_if_due()

    # ---- reading

    def receive(self, data: bytes) -> None:
        """Handle bytes that arrived."""
        self._flushing = self.other._flushing = True  # below: no call is to be scheduled for it
        try:
            if self._holders:
                self._slack_left -= len(data)
                self._pause_if_due()
            if self.on_bytes is not None:
                self.on_bytes(data)
            elif self.settled:
                on_line = self.on_line
                for line in self._lines.feed(data):
                    on_line(line)
            else:
                self._receive_by_line(data)
        finally:
            self.other.flush()  # first, because most input causes output there
            self.flush()

    def _receive_by_line(self, data: bytes) -> None:
        """Split off one line at a time, because each may redirect the bytes behind it."""
        start = 0
        while start < len(data) and self.on_bytes is None:
            end = data.find(b"\n", start) + 1 or len(data)
            for line in self._lines.feed(data[start:end]):
                self.on_line(line)
            start = end
        if self.on_bytes is not None and start < len(data):
            self.on_bytes(data[start:])

    def take_apart(self, batch: Batch) -> None:
        """Handle the entries of a batch one by one, as lines."""
        gathering = self.batches.gathering()
        for event in gathering.read(batch):
            if isinstance(event, Malformed):
                self.on_noise(event)
                continue
            line = self.batches.line(event)
            if self.on_bytes is not None:  # an entry may redirect those behind it
                self.on_bytes(line)
            else:
                self.on_line(line)
        self._queue(gathering.end())

    def _ended(self, error: Exception | None) -> None:
        if self.closed:
            return
        if self.on_bytes is None:
            for line in self._lines.end():
                if is_whole(line):
                    self.on_line(line)
                else:
                    self.on_noise(cut_off(line))
        self.closed = True
        self.on_end(error)
        self.flush()
        self.other.flush()

    # ---- keeping input for later

    def keep(self) -> None:
        """Keep the bytes that arrive from now on, unread."""
        self.on_bytes = self._kept.append
        self._hold(_HOLDING_BACK)

    def resume(self, on_bytes: Callable[[bytes], None] | None = None) -> None:
        """Keep no more, and handle what was kept: by `on_bytes`, or as lines."""
        self.on_bytes = on_bytes
        kept, self._kept = b"".join(self._kept), []
        self._release(_HOLDING_BACK)
        if kept:
            self.receive(kept)

    # ---- writing

    def send(self, line: bytes) -> None:
        """Queue a line; it is written with the others that the same input causes."""
        if self.batches.open:
            line = self.batches.sent(line)
        self._out.append(line)
        if not self._flushing and line:
            self._schedule_flush()

    def _queue(self, data: bytes) -> None:
        self._out.append(data)
        if data and not self._flushing:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        self._flushing = True
        asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the queue to the transport."""
        self._flushing = False
        if self._out:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            if self._transport is not None and not self.closed:
                self._transport.write(data)

    # ---- making the peer wait

    def _hold(self, reason: str) -> None:
        """Read no further than the slack until every reason is gone."""
        if not self._holders:
            self._slack_left = self._slack
        self._holders.add(reason)
        self._pause_if_due()

    def _release(self, reason: str) -> None:
        self._holders.discard(reason)
        if not self._holders and self._paused and not self.closed and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _pause_if_due(self) -> None:
        due = self._holders and self._slack_left <= 0
        if due and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    async def close(self) -> None:
        """Write the rest and close the transport."""
        if self.batches.open:
            closing = RequestError(INTERNAL_ERROR, "The connection is being closed")
            self._queue(self.batches.abandon(closing))
        self.flush()
        self.closed = True
        if self._transport is not None:
            await self._transport.close()


class _Receiver:
    """Passes the events of a transport to its side, unless the side has a new transport."""

    def __init__(self, side: Side, transport: Transport) -> None:
        self._side = side
        self._transport = transport

    @property
    def _current(self) -> bool:
        return self._side._transport is self._transport

    def received(self, data: bytes) -> None:
        if self._side._transport is self._transport:  # `_current`, without the call
            self._side.receive(data)

    def ended(self, error: Exception | None) -> None:
        if self._current:
            self._side._ended(error)

    def pause_writing(self) -> None:
        if self._current:
            self._side.other._hold(_OTHER_IS_FULL)

    def resume_writing(self) -> None:
        if self._current:
            self._side.other._release(_OTHER_IS_FULL)
