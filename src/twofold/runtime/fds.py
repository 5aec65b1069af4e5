"""Bytes from and to a file descriptor of this process, whatever it is.

The event loop waits for pipes, sockets and terminals. What it refuses to wait for (plain files,
/dev/null) never makes one wait either: it is read in pieces, one in each turn of the loop, and
written directly. Where the loop cannot wait for descriptors at all, threads do. Nothing here
closes a descriptor.
"""

import asyncio
import errno
import os
import queue
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from twofold.runtime import platform
from twofold.runtime.transport import HIGH_WATER

PIECE = 64 * 1024
"""As much as a pipe holds."""
LOW_WATER = HIGH_WATER // 4

OnData: TypeAlias = Callable[[bytes], None]
OnEnd: TypeAlias = Callable[[OSError | None], None]
OnLost: TypeAlias = Callable[[OSError], None]
OnRoom: TypeAlias = Callable[[], None]


class Reader(Protocol):
    """Reads while it is asked to; what comes is told by the event loop, never by `resume`."""

    def resume(self) -> None: ...

    def pause(self) -> None: ...

    def stop(self) -> bool:
        """Read no more; tells whether the descriptor is out of use."""


class Writer(Protocol):
    """Writes without waiting; after an error it drops what it is given."""

    def write(self, data: bytes) -> None: ...

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, but not longer than that."""

    def stop(self) -> bool:
        """Write no more; tells whether the descriptor is out of use."""


class FdReader:
    """Reads when the event loop says so."""

    def __init__(self, fd: int, on_data: OnData, on_end: OnEnd) -> None:
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        # some systems can wait for a plain file, but then never tell of its end
        self._plain = stat.S_ISREG(os.fstat(fd).st_mode)
        self._next: asyncio.Handle | None = None
        self._wanted = False
        self._over = False

    def resume(self) -> None:
        if self._wanted or self._over:
            return
        self._wanted = True
        if not self._plain:
            try:
                self._loop.add_reader(self._fd, self._read)
            except OSError:
                self._plain = True
        if self._plain:
            self._next = self._loop.call_soon(self._read)

    def pause(self) -> None:
        if not self._wanted:
            return
        self._wanted = False
        if self._next is not None:
            self._next.cancel()
        if not self._plain:
            self._loop.remove_reader(self._fd)

    def stop(self) -> bool:
        self.pause()
        self._over = True
        return True

    def _read(self) -> None:
        # A descriptor that is ready does not block, so its flags, which others may share, stay.
        try:
            data = os.read(self._fd, PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
            return
        if not data:
            self._end(None)
            return
        if self._plain:
            self._next = self._loop.call_soon(self._read)
        self._on_data(data)

    def _end(self, error: OSError | None) -> None:
        self.stop()
        self._on_end(_unless_hung_up(error))


class FdWriter:
    """Writes what it can at once, and the rest when the event loop says so."""

    def __init__(self, fd: int, on_full: OnRoom, on_room: OnRoom, on_lost: OnLost) -> None:
        self._fd = fd
        self._on_full = on_full
        self._on_room = on_room
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._idle = asyncio.Event()
        self._idle.set()
        self._full = False
        self._over = False
        self._plain = stat.S_ISREG(os.fstat(fd).st_mode) or not self._can_wait()
        self._unblocked = not self._plain and platform.unblock(fd)

    def write(self, data: bytes) -> None:
        if self._over:
            return
        if self._waiting:
            self._waiting += data
        else:
            self._begin(data)
        if len(self._waiting) > HIGH_WATER and not self._full:
            self._full = True
            self._on_full()

    async def flush(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def stop(self) -> bool:
        if self._waiting:
            self._loop.remove_writer(self._fd)
            self._waiting.clear()
        self._over = True
        self._idle.set()
        if self._unblocked:
            self._unblocked = False
            platform.block(self._fd)
        return True

    def _can_wait(self) -> bool:
        try:
            self._loop.add_writer(self._fd, lambda: None)
        except OSError:
            return False
        self._loop.remove_writer(self._fd)
        return True

    def _begin(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._send(rest) :]
            if rest and not self._plain:
                self._waiting += rest
                self._idle.clear()
                self._loop.add_writer(self._fd, self._go_on)
                break

    def _go_on(self) -> None:
        sent = self._send(self._waiting)
        if self._over:
            return
        del self._waiting[:sent]
        if not self._waiting:
            self._loop.remove_writer(self._fd)
            self._idle.set()
        if self._full and len(self._waiting) <= LOW_WATER:
            self._full = False
            self._on_room()

    def _send(self, data: memoryview | bytearray) -> int:
        """How much was taken: all of it, if there is nobody to take it."""
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            size = len(data)
            self._lose(error)
            return size

    def _lose(self, error: OSError) -> None:
        self.stop()
        if self._full:  # nobody has to wait for what is dropped
            self._full = False
            self._on_room()
        self._on_lost(error)


class ThreadReader:
    """Reads in a thread: one piece at a time, the next when that one has been taken.

    A thread that waits for input cannot be called back, so after `stop` it stays until the
    process ends or one more piece comes, which it drops.
    """

    def __init__(self, fd: int, on_data: OnData, on_end: OnEnd) -> None:
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Semaphore(0)
        self._reading = False
        self._wanted = False
        self._over = False
        self._held: tuple[bytes, OSError | None] | None = None
        threading.Thread(target=self._work, name="twofold-stdin", daemon=True).start()

    def resume(self) -> None:
        if self._wanted or self._over:
            return
        self._wanted = True
        if self._held is not None:
            self._loop.call_soon(self._deliver)
        else:
            self._ask()

    def pause(self) -> None:
        self._wanted = False

    def stop(self) -> bool:
        self._wanted = False
        self._over = True
        self._may_read.release()
        return not self._reading

    def _work(self) -> None:
        while True:
            self._may_read.acquire()
            if self._over:
                return
            data, error = b"", None
            try:
                data = os.read(self._fd, PIECE)
            except OSError as raised:
                error = raised
            if not _tell(self._loop, self._came, data, error):
                return

    def _ask(self) -> None:
        if not self._reading:
            self._reading = True
            self._may_read.release()

    def _came(self, data: bytes, error: OSError | None) -> None:
        self._reading = False
        self._held = (data, error)
        self._deliver()

    def _deliver(self) -> None:
        if self._held is None or not self._wanted:
            return
        (data, error), self._held = self._held, None
        if data:
            self._ask()
            self._on_data(data)
        else:
            self.stop()
            self._on_end(_unless_hung_up(error))


class ThreadWriter:
    """Writes in a thread, in order."""

    def __init__(self, fd: int, on_full: OnRoom, on_room: OnRoom, on_lost: OnLost) -> None:
        self._fd = fd
        self._on_full = on_full
        self._on_room = on_room
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._size = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._full = False
        self._over = False
        threading.Thread(target=self._work, name="twofold-stdout", daemon=True).start()

    def write(self, data: bytes) -> None:
        if self._over or not data:
            return
        self._size += len(data)
        self._idle.clear()
        self._queue.put(data)
        if self._size > HIGH_WATER and not self._full:
            self._full = True
            self._on_full()

    async def flush(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def stop(self) -> bool:
        self._over = True
        self._queue.put(None)
        return self._idle.is_set()

    def _work(self) -> None:
        while (data := self._queue.get()) and not self._over:
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                _tell(self._loop, self._lose, error)
                return
            if not _tell(self._loop, self._wrote, len(data)):
                return

    def _wrote(self, size: int) -> None:
        self._size -= size
        if not self._size:
            self._idle.set()
        if self._full and self._size <= LOW_WATER:
            self._full = False
            self._on_room()

    def _lose(self, error: OSError) -> None:
        self._over = True
        self._idle.set()
        if self._full:
            self._full = False
            self._on_room()
        self._on_lost(error)


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *facts: Any) -> bool:
    """Have the loop call `what`; False if it is closed, and nobody is left to tell."""
    try:
        loop.call_soon_threadsafe(what, *facts)
    except RuntimeError:
        return False
    return True


def _unless_hung_up(error: OSError | None) -> OSError | None:
    """A terminal whose other side is gone says EIO: that is its way to end."""
    return None if error is not None and error.errno == errno.EIO else error
