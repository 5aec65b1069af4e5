"""How bytes get to a peer and back.

A transport tells a `Receiver` what came, in order and never from inside `write`; the receiver
answers by writing. Nothing here knows what the bytes mean.
"""

import asyncio
from typing import Protocol

HIGH_WATER = 256 * 1024
"""How many bytes may wait to be written before the writer is asked to wait, too."""


class Receiver(Protocol):
    """Who reads. All of it is called by the event loop, one call after the other."""

    def received(self, data: bytes) -> None:
        """More bytes came."""

    def ended(self, error: Exception | None) -> None:
        """Nothing comes any more: told once. `error` says why, if the other side broke off."""

    def pause_writing(self) -> None:
        """The other side does not read as fast as we write."""

    def resume_writing(self) -> None:
        """It has caught up."""


class Transport(Protocol):
    """One end of a two-way stream of bytes."""

    def start(self, receiver: Receiver) -> None:
        """From now on `receiver` is told what comes. What came before is kept for it."""

    def write(self, data: bytes) -> None:
        """Send, without waiting. After the end, or after `close`, it does nothing."""

    def pause_reading(self) -> None:
        """The receiver has enough for now; what comes waits, and so, in the end, does the peer."""

    def resume_reading(self) -> None:
        """The receiver wants more."""

    async def close(self) -> None:
        """Send what waits to be sent, end the stream and what belongs to it; never hangs."""


class MemoryTransport:
    """One end of a pair inside one process."""

    def __init__(self) -> None:
        self._other: MemoryTransport | None = None
        self._receiver: Receiver | None = None
        self._waiting: list[bytes] = []
        """What the other end wrote and our receiver has not got yet."""
        self._size = 0
        self._held = False
        self._scheduled = False
        self._full = False
        """Our writer was asked to wait."""
        self._closed = False
        self._ended = False

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        self._schedule()

    def write(self, data: bytes) -> None:
        other = self._other
        if self._closed or other is None or other._closed or not data:
            return
        other._waiting.append(data)
        other._size += len(data)
        other._schedule()
        if other._size > HIGH_WATER and not self._full:
            self._full = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        self._held = True

    def resume_reading(self) -> None:
        self._held = False
        self._schedule()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
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
        if self._held:
            return
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            receiver.received(data)
            other._emptied()
        if other._closed and not self._waiting:
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
    """Two transports, each the other's peer."""
    one, two = MemoryTransport(), MemoryTransport()
    one._other, two._other = two, one
    return one, two
