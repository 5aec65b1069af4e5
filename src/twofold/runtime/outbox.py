"""What goes out to a peer: lines, gathered and sent together.

Sending never waits, so that order is the order of the calls. Whoever sends in a loop looks at
`crowded` and waits for `room`: a peer that stops reading makes it wait, instead of filling memory.
"""

import asyncio

from twofold.errors import ConnectionClosed
from twofold.runtime.transport import Transport

FLUSH = 64 * 1024
"""How many bytes are gathered before they are sent without waiting for more."""


class Outbox:
    """The writing half of a peer."""

    def __init__(self, transport: Transport) -> None:
        self.closed = False
        self.crowded = False
        """Whoever writes in a loop should wait for `room`."""
        self._transport = transport
        self._end: Exception | None = None
        """Why it is closed."""
        self._out: list[bytes] = []
        self._out_size = 0
        self._flushing = False
        self._paused = False
        self._room: asyncio.Future[None] | None = None

    def send(self, line: bytes) -> None:
        """Send a line, together with what else is sent in this turn of the loop."""
        self._out.append(line)
        self._out_size += len(line)
        if self._out_size >= FLUSH:
            self.flush()
            self.crowded = True
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def send_now(self, line: bytes) -> None:
        """Send a line that someone waits for, and what was gathered before it."""
        self._out.append(line)
        self.flush()

    def flush(self) -> None:
        """Hand what was gathered to the transport."""
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_size = 0
            if not self.closed:
                self._transport.write(data)

    async def room(self) -> None:
        """Wait until the peer has read enough of what was sent, and let others have a turn."""
        await asyncio.sleep(0)
        while self._paused and not self.closed:
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)
        self.check_open()
        self.crowded = False

    def check_open(self) -> None:
        """Raise why it is closed, if it is."""
        if self.closed:
            error = self._end or ConnectionClosed("The connection is closed.")
            raise error.with_traceback(None)  # raised again and again, it would only grow

    def pause_writing(self) -> None:
        """The peer does not read fast enough (`Receiver`)."""
        self._paused = self.crowded = True

    def resume_writing(self) -> None:
        """The peer has caught up (`Receiver`)."""
        self._paused = False
        self._wake()

    def _wake(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.set_result(None)
