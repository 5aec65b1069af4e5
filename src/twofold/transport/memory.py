"""A transport inside one process: two ends, each the other's peer. Made for tests."""

import asyncio

from twofold.transport.base import HIGH_WATER, Receiver


class MemoryTransport:
    """One end of a pair that `memory_pair` made."""

    def __init__(self) -> None:
        self._other: MemoryTransport | None = None
        self._receiver: Receiver | None = None
        self._incoming: list[bytes] = []
        """What the other end wrote and our receiver has not received yet."""
        self._size = 0
        self._paused = False
        self._scheduled = False
        self._full = False
        """Whether our writer was asked to wait."""
        self._closed = False
        self._ended = False

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on, beginning with what was written before."""
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        self._schedule()

    def write(self, data: bytes) -> None:
        """Send `data` without waiting; dropped if either end is closed."""
        other = self._other
        if self._closed or other is None or other._closed or not data:
            return
        other._incoming.append(data)
        other._size += len(data)
        other._schedule()
        if other._size > HIGH_WATER and not self._full:
            self._full = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`."""
        self._paused = True

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._paused = False
        self._schedule()

    async def close(self) -> None:
        """End both directions; the other end still receives what was written before."""
        if self._closed:
            return
        self._closed = True
        self._incoming.clear()
        other = self._other
        if other is not None:
            other._schedule()
        self._schedule()

    def _schedule(self) -> None:
        if self._scheduled or self._receiver is None or self._ended:
            return
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        receiver, other = self._receiver, self._other
        if receiver is None or self._ended or other is None:
            return
        if self._closed:
            self._end(receiver)
            return
        if self._paused:
            return
        if self._incoming:
            data = b"".join(self._incoming)
            self._incoming.clear()
            self._size = 0
            receiver.received(data)
            other._emptied()
        if other._closed and not self._incoming:
            self._end(receiver)

    def _emptied(self) -> None:
        if self._full:
            self._full = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    def _end(self, receiver: Receiver) -> None:
        self._ended = True
        receiver.ended(None)


def memory_pair() -> tuple[MemoryTransport, MemoryTransport]:
    """Two transports, each the other's peer: one for a client, one for an agent.

    >>> ours, theirs = memory_pair()

    Pass one to `connect` and the other to `Agent.serve` to run both in one process, as tests do.
    """
    one, two = MemoryTransport(), MemoryTransport()
    one._other, two._other = two, one
    return one, two
