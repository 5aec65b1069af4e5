"""One end of a bridge: lines come in, lines go out.

What one piece of input causes goes out in one write. An end whose peer does not read makes the
other end stop reading, so that nothing piles up in between. An end may stop looking at its lines
altogether: from then on bytes pass through as they are.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from twofold.rpc.frames import Lines, LineTooLong
from twofold.runtime.transport import Transport

OnLine: TypeAlias = Callable[[bytes | LineTooLong], None]
OnEnd: TypeAlias = Callable[[Exception | None], None]


class End:
    """A transport, and what is done with its lines. `other` is the end across the bridge."""

    def __init__(self, name: str, line_limit: int) -> None:
        self.name = name
        self.other: End = self
        self.closed = False
        self.on_line: OnLine = lambda line: None
        self.on_end: OnEnd = lambda error: None
        self.on_bytes: Callable[[bytes], None] | None = None
        """If set, what comes is not read but given to it."""
        self._line_limit = line_limit
        self._transport: Transport | None = None
        self._lines = Lines(line_limit)
        self._out: list[bytes] = []
        self._flushing = False
        self._holders: set[str] = set()

    def start(self, transport: Transport) -> None:
        """Read from `transport` and write to it."""
        self._transport = transport
        self._lines = Lines(self._line_limit)
        self.closed = False
        transport.start(_Receiver(self, transport))
        if self._holders:
            transport.pause_reading()

    # ---- what comes

    def _received(self, data: bytes) -> None:
        if self.on_bytes is not None:
            self.on_bytes(data)
        else:
            self._read(self._lines.feed(data))
        self.flush()
        self.other.flush()

    def _read(self, lines: list[bytes | LineTooLong]) -> None:
        for index, line in enumerate(lines):
            if self.on_bytes is not None:  # a line before this one decided that
                rest = [each for each in lines[index:] if isinstance(each, bytes)]
                self.on_bytes(b"".join([*(each + b"\n" for each in rest), self._lines.rest()]))
                return
            self.on_line(line)
        if self.on_bytes is not None:
            rest_of_line = self._lines.rest()
            if rest_of_line:
                self.on_bytes(rest_of_line)

    def _ended(self, error: Exception | None) -> None:
        if not self.closed:
            if self.on_bytes is None:
                self._read(self._lines.end())
            self.closed = True
            self.on_end(error)
            self.flush()
            self.other.flush()

    # ---- what goes out

    def send(self, line: bytes) -> None:
        """Send a line; it goes out with the others that the same input causes."""
        self._out.append(line)
        if not self._flushing:
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
        """Read no more until every reason is gone."""
        if not self._holders and self._transport is not None:
            self._transport.pause_reading()
        self._holders.add(why)

    def release(self, why: str) -> None:
        """A reason is gone."""
        if why in self._holders:
            self._holders.discard(why)
            if not self._holders and self._transport is not None and not self.closed:
                self._transport.resume_reading()

    async def close(self) -> None:
        """End the stream, and what belongs to it."""
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
            self._end._received(data)

    def ended(self, error: Exception | None) -> None:
        if self._current:
            self._end._ended(error)

    def pause_writing(self) -> None:
        self._end.other.hold("full")

    def resume_writing(self) -> None:
        self._end.other.release("full")
