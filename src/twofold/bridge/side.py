"""One end of a bridge: lines come in, lines go out.

What one piece of input causes goes out in one write. An end whose peer does not read makes the
other end stop reading, so that nothing piles up in between. An end may stop looking at its lines
altogether: from then on bytes pass through as they are, to the last one of the piece in which that
was decided. A batch is taken apart: each entry is a line of its own, and the answers to them go
back together.
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

_KEPT = "what comes is kept"
_FULL = "the other side does not read"


class End:
    """A transport, and what is done with its lines. `other` is the end across the bridge.

    `slack` is how many bytes are still taken from a peer that has to wait: who reads nothing at
    all from a peer does not see it leave.
    """

    def __init__(self, name: str, line_limit: int, slack: int = 0) -> None:
        self.name = name
        self.other: End = self
        self.closed = False
        self.on_line: OnLine = lambda line: None
        self.on_noise: OnNoise = lambda event: None
        """Called with what is no message in a batch, or was cut off by the end."""
        self.on_end: OnEnd = lambda error: None
        self.on_bytes: Callable[[bytes], None] | None = None
        """If set, what comes is not read but given to it."""
        self.settled = False
        """What is done with lines does not change any more, so they may be cut all at once."""
        self.batches = Apart(strict=name == "client", limit=line_limit)
        self._line_limit = line_limit
        self._transport: Transport | None = None
        self._lines = Lines(line_limit)
        self._kept: list[bytes] = []
        self._out: list[bytes] = []
        self._flushing = False
        self._holders: set[str] = set()
        self._slack = slack
        self._left = slack
        self._paused = False

    def start(self, transport: Transport) -> None:
        """Read from `transport` and write to it."""
        self._transport = transport
        self._lines = Lines(self._line_limit)
        self.closed = self._paused = False
        self._out.clear()  # it was meant for someone else
        self.batches = Apart(strict=self.name == "client", limit=self._line_limit)
        self.other.release(_FULL)
        transport.start(_Receiver(self, transport))
        self._pause_if_due()

    # ---- what comes

    def receive(self, data: bytes) -> None:
        """More bytes came."""
        # what this causes is written at its end: nobody has to remind us
        self._flushing = self.other._flushing = True
        try:
            if self._holders:
                self._left -= len(data)
                self._pause_if_due()
            if self.on_bytes is not None:
                self.on_bytes(data)
            elif self.settled:
                on_line = self.on_line
                for line in self._lines.feed(data):
                    on_line(line)
            else:
                self._read_carefully(data)
        finally:
            self.flush()
            self.other.flush()

    def _read_carefully(self, data: bytes) -> None:
        """Line by line, for each may decide what becomes of the bytes behind it."""
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
            if self.on_bytes is not None:  # an entry may decide what becomes of those behind it
                self.on_bytes(line)
            else:
                self.on_line(line)
        self._put(gathering.end())

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

    # ---- keeping what comes for later

    def keep(self) -> None:
        """Keep the bytes that come from now on, unread."""
        self.on_bytes = self._kept.append
        self.hold(_KEPT)

    def look(self, on_bytes: Callable[[bytes], None] | None = None) -> None:
        """Keep nothing any more: what was kept comes now, to `on_bytes` or as lines."""
        self.on_bytes = on_bytes
        kept, self._kept = b"".join(self._kept), []
        self.release(_KEPT)
        if kept:
            self.receive(kept)

    # ---- what goes out

    def send(self, line: bytes) -> None:
        """Send a line; it goes out with the others that the same input causes."""
        if self.batches.open:
            line = self.batches.sent(line)
        self._put(line)

    def _put(self, data: bytes) -> None:
        self._out.append(data)
        if data and not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Hand what was gathered to the transport."""
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            if self._transport is not None and not self.closed:
                self._transport.write(data)

    # ---- making the peer wait

    def hold(self, why: str) -> None:
        """Read little more until every reason is gone."""
        if not self._holders:
            self._left = self._slack
        self._holders.add(why)
        self._pause_if_due()

    def release(self, why: str) -> None:
        """A reason is gone."""
        self._holders.discard(why)
        if not self._holders and self._paused and not self.closed and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _pause_if_due(self) -> None:
        if self._holders and self._left <= 0 and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    async def close(self) -> None:
        """End the stream, and what belongs to it."""
        if self.batches.open:
            closing = RequestError(INTERNAL_ERROR, "The connection is being closed")
            self._put(self.batches.abandon(closing))
        self.flush()
        self.closed = True
        if self._transport is not None:
            await self._transport.close()


class _Receiver:
    """What a transport talks to; one that was replaced is not listened to any more."""

    def __init__(self, end: End, transport: Transport) -> None:
        self._end = end
        self._transport = transport

    @property
    def _current(self) -> bool:
        return self._end._transport is self._transport

    def received(self, data: bytes) -> None:
        if self._current:
            self._end.receive(data)

    def ended(self, error: Exception | None) -> None:
        if self._current:
            self._end._ended(error)

    def pause_writing(self) -> None:
        if self._current:
            self._end.other.hold(_FULL)

    def resume_writing(self) -> None:
        if self._current:
            self._end.other.release(_FULL)
