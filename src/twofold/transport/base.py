"""What every transport is: a two-way stream of bytes that delivers to a `Receiver`.

A transport delivers in order, from the event loop, and never from inside `write`. It does not look
at the bytes.
"""

from typing import Protocol

HIGH_WATER = 256 * 1024
"""How many bytes may wait to be written before the receiver's `pause_writing` is called."""


class Receiver(Protocol):
    """Reads a transport. The event loop makes all of these calls, one after the other."""

    def received(self, data: bytes) -> None:
        """More bytes arrived."""

    def ended(self, error: Exception | None) -> None:
        """No more bytes will arrive; called once. `error` is the reason if the peer broke off."""

    def pause_writing(self) -> None:
        """The peer does not read as fast as we write."""

    def resume_writing(self) -> None:
        """The peer has caught up."""


class Transport(Protocol):
    """One end of a two-way stream of bytes.

    `Process`, `Stdio` and `memory_pair` are transports; anything with these methods can be passed
    to `connect` and to `Agent.serve`.
    """

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on, beginning with what arrived before."""

    def write(self, data: bytes) -> None:
        """Send `data` without waiting. After the end, or after `close`, it is dropped."""

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`, so that in the end the peer has to wait."""

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""

    async def close(self) -> None:
        """Send what waits to be sent and end the stream. Waits a bounded time."""
