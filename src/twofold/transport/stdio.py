"""Standard input and output of this process as a transport: how an agent talks to its client.

While the protocol uses them, nothing else does: the transport works on private copies, what would
be printed goes to standard error, and standard input is empty. `Stdio.close` restores both. Pipes,
sockets, terminals, plain files and /dev/null all serve.
"""

import asyncio
import errno
import fcntl
import io
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TextIO

from twofold.errors import LocalError, PeerError
from twofold.transport.base import HIGH_WATER, Receiver

PIECE = 64 * 1024
"""How many bytes are read at a time: as many as a pipe holds."""
LOW_WATER = HIGH_WATER // 4
FLUSH_TIMEOUT = 2.0
"""How many seconds `close` waits for what is still to be written."""
GRACE = 1.0
"""How many seconds input is still read after the output was lost."""


class StdioUnavailable(LocalError):
    """Standard input or output is closed, or used by another `Stdio`."""


class StdioLost(PeerError):
    """Standard input or output failed: the client is probably gone.

    Attributes:
        stream: Which of the two failed.
        reason: What the system reported.
    """

    def __init__(self, stream: Literal["input", "output"], reason: str) -> None:
        done = "read from standard input" if stream == "input" else "written to standard output"
        super().__init__(f"Nothing can be {done} any more: {reason}. The client is probably gone.")
        self.stream = stream
        self.reason = reason


class Stdio:
    """Two file descriptors as a transport; make one with `open` or `from_fds`.

    The end of the input is not the end of the output: what is written after it is still sent.
    The receiver's `ended` gets a `StdioLost` if one of the descriptors failed.
    """

    def __init__(
        self, read_fd: int, write_fd: int, release: Callable[[], None], flush_timeout: float
    ) -> None:
        self._reader = _Reader(read_fd, self._received, self._input_ended)
        self._writer = _Writer(write_fd, self._is_full, self._has_room, self._output_lost)
        self._release = release
        self._flush_timeout = flush_timeout
        self._receiver: Receiver | None = None
        self._paused = False
        self._full = False
        self._ended = False
        self._lost: StdioLost | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, *, flush_timeout: float = FLUSH_TIMEOUT) -> "Stdio":
        """Take standard input and output for the protocol until `close`.

        Until then `print` and child processes write to standard error.

        Args:
            flush_timeout: How many seconds `close` waits for what is still to be written.

        Raises:
            StdioUnavailable: One of them is closed, or another `Stdio` has them.
        """
        claimed = ClaimedStdio()
        try:
            return cls(claimed.read_fd, claimed.write_fd, claimed.release, flush_timeout)
        except BaseException:
            claimed.release()
            raise

    @classmethod
    def from_fds(
        cls, read_fd: int, write_fd: int, *, flush_timeout: float = FLUSH_TIMEOUT
    ) -> "Stdio":
        """Use two descriptors, which may be the same one; `close` closes them.

        Args:
            read_fd: Read from.
            write_fd: Written to.
            flush_timeout: How many seconds `close` waits for what is still to be written.
        """

        def release() -> None:
            for fd in {read_fd, write_fd}:
                os.close(fd)

        return cls(read_fd, write_fd, release, flush_timeout)

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        """Deliver to `receiver` from now on, beginning with what arrived before."""
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        if self._closing is not None:
            asyncio.get_running_loop().call_soon(self._end, None)
            return
        if self._lost is not None:
            self._end_soon(self._lost)
        if not self._paused:
            self._reader.resume()

    def write(self, data: bytes) -> None:
        """Send `data` without waiting; dropped if the output was lost."""
        if self._closing is None:
            self._writer.write(data)

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`."""
        self._paused = True
        self._reader.pause()

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._paused = False
        if self._receiver is not None and self._closing is None:
            self._reader.resume()

    async def close(self) -> None:
        """Send what waits to be sent, for a bounded time, and give the descriptors back.

        The receiver's `ended` is called at once, and it receives no more data.
        """
        if self._closing is None:
            self._reader.pause()
            self._closing = asyncio.create_task(self._shut_down())
            asyncio.get_running_loop().call_soon(self._end, None)
        await asyncio.shield(self._closing)

    async def _shut_down(self) -> None:
        try:
            await self._writer.flush(self._flush_timeout)
        finally:  # also when the loop is being closed
            if self._timer is not None:
                self._timer.cancel()
            self._reader.stop()
            self._writer.stop()
            self._release()

    # ---- called by the reader and the writer

    def _received(self, data: bytes) -> None:
        if self._receiver is not None and self._closing is None and not self._ended:
            self._receiver.received(data)

    def _input_ended(self, error: OSError | None) -> None:
        lost = None if error is None else StdioLost("input", error.strerror or str(error))
        self._end(self._lost or lost)

    def _output_lost(self, error: OSError) -> None:
        """The conversation cannot go on without output, but what the client sent is still read."""
        if self._closing is None and not self._ended:
            self._lost = StdioLost("output", error.strerror or str(error))
            if self._receiver is not None:
                self._end_soon(self._lost)

    def _end_soon(self, error: StdioLost) -> None:
        self._timer = asyncio.get_running_loop().call_later(GRACE, self._end, error)

    def _end(self, error: StdioLost | None) -> None:
        if self._ended or self._receiver is None:
            return
        self._ended = True
        self._reader.pause()
        if self._timer is not None:
            self._timer.cancel()
        self._receiver.ended(error)

    def _is_full(self) -> None:
        self._full = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def _has_room(self) -> None:
        self._full = False
        if self._receiver is not None:
            self._receiver.resume_writing()


# ---- one descriptor --------------------------------------------------------------------------
#
# The event loop waits for pipes, sockets and terminals. It refuses to wait for plain files and
# /dev/null, which are always ready: those are read in pieces, one in each iteration of the loop,
# and written directly. Nothing here closes a descriptor.


class _Reader:
    """Reads a descriptor between `resume` and `pause`; never calls back from inside `resume`."""

    def __init__(
        self,
        fd: int,
        on_data: Callable[[bytes], None],
        on_end: Callable[[OSError | None], None],
    ) -> None:
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        # some systems can wait for a plain file, but then never report its end
        self._always_ready = stat.S_ISREG(os.fstat(fd).st_mode)
        self._next: asyncio.Handle | None = None
        self._reading = False
        self._stopped = False

    def resume(self) -> None:
        if self._reading or self._stopped:
            return
        self._reading = True
        if not self._always_ready:
            try:
                self._loop.add_reader(self._fd, self._read)
            except OSError:
                self._always_ready = True
        if self._always_ready:
            self._next = self._loop.call_soon(self._read)

    def pause(self) -> None:
        if not self._reading:
            return
        self._reading = False
        if self._next is not None:
            self._next.cancel()
        if not self._always_ready:
            self._loop.remove_reader(self._fd)

    def stop(self) -> None:
        self.pause()
        self._stopped = True

    def _read(self) -> None:
        # A descriptor that is ready does not block, so its flags, which others may share, stay.
        try:
            data = os.read(self._fd, PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            # EIO is how a terminal reports that its other side is gone: the end, and no failure
            self._end(None if error.errno == errno.EIO else error)
            return
        if not data:
            self._end(None)
            return
        if self._always_ready:
            self._next = self._loop.call_soon(self._read)
        self._on_data(data)

    def _end(self, error: OSError | None) -> None:
        self.stop()
        self._on_end(error)


class _Writer:
    """Writes what it can at once, and the rest when the event loop reports that there is room.

    After an error it drops what it is given.
    """

    def __init__(
        self,
        fd: int,
        on_full: Callable[[], None],
        on_room: Callable[[], None],
        on_lost: Callable[[OSError], None],
    ) -> None:
        self._fd = fd
        self._on_full = on_full
        self._on_room = on_room
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._idle = asyncio.Event()
        self._idle.set()
        self._full = False
        self._stopped = False
        self._always_ready = stat.S_ISREG(os.fstat(fd).st_mode) or not self._can_wait()
        self._unblocked = not self._always_ready and os.get_blocking(fd)
        if self._unblocked:
            os.set_blocking(fd, False)

    def write(self, data: bytes) -> None:
        if self._stopped:
            return
        if self._waiting:
            self._waiting += data
        else:
            self._write_now(data)
        if len(self._waiting) > HIGH_WATER and not self._full:
            self._full = True
            self._on_full()

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def stop(self) -> None:
        if self._waiting:
            self._loop.remove_writer(self._fd)
            self._waiting.clear()
        self._stopped = True
        self._idle.set()
        if self._unblocked:
            self._unblocked = False
            with suppress(OSError):
                os.set_blocking(self._fd, True)

    def _can_wait(self) -> bool:
        try:
            self._loop.add_writer(self._fd, lambda: None)
        except OSError:
            return False
        self._loop.remove_writer(self._fd)
        return True

    def _write_now(self, data: bytes) -> None:
        sent = self._send(data)
        if sent == len(data):
            return
        rest = memoryview(data)[sent:]
        while rest and self._always_ready:
            rest = rest[self._send(rest) :]
        if rest:
            self._waiting += rest
            self._idle.clear()
            self._loop.add_writer(self._fd, self._write_waiting)

    def _write_waiting(self) -> None:
        sent = self._send(self._waiting)
        if self._stopped:
            return
        del self._waiting[:sent]
        if not self._waiting:
            self._loop.remove_writer(self._fd)
            self._idle.set()
        if self._full and len(self._waiting) <= LOW_WATER:
            self._full = False
            self._on_room()

    def _send(self, data: bytes | memoryview | bytearray) -> int:
        """How many bytes were taken: all of them if the output is lost."""
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


# ---- standard input and output ---------------------------------------------------------------


class ClaimedStdio:
    """Standard input and output, taken for the protocol until `release`.

    The protocol uses `read_fd` and `write_fd`. Meanwhile standard output is standard error, for
    this process and its children, and standard input is empty.

    Raises:
        StdioUnavailable: One of them is closed, or they are claimed already.
    """

    _claimed: "ClaimedStdio | None" = None

    def __init__(self) -> None:
        if ClaimedStdio._claimed is not None:
            raise StdioUnavailable(
                "Standard input and output already carry a conversation. Close that one first."
            )
        _check_open(0, sys.__stdin__, "input")
        _check_open(1, sys.__stdout__, "output")
        self.read_fd = _private_copy(0)
        self.write_fd = _private_copy(1)
        self._redirect()
        ClaimedStdio._claimed = self

    def _redirect(self) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        try:
            os.dup2(null, 0)
            os.dup2(2 if _is_open(2, sys.__stderr__) else null, 1)
        finally:
            os.close(null)
        # Text that was printed before and is still buffered goes where later text goes.
        self._line_buffering = _set_line_buffering(True)

    def release(self) -> None:
        """Restore standard input and output."""
        if ClaimedStdio._claimed is not self:
            return
        ClaimedStdio._claimed = None
        _set_line_buffering(self._line_buffering)
        for fd, copy in ((0, self.read_fd), (1, self.write_fd)):
            os.dup2(copy, fd)
            os.close(copy)


def _private_copy(fd: int) -> int:
    """A duplicate of `fd` that child processes do not inherit."""
    # never one of the standard three, even if standard error is closed
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _check_open(fd: int, at_start: TextIO | None, name: str) -> None:
    if not _is_open(fd, at_start):
        advice = "An agent is started by its client, or with pipes for both."
        raise StdioUnavailable(f"Standard {name} is closed, but the protocol needs it. {advice}")


def _is_open(fd: int, at_start: TextIO | None) -> bool:
    # A descriptor that was closed when the program started may by now be another file, often the
    # event loop's; Python has None for a stream that was closed at the start.
    if at_start is None:
        return False
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _set_line_buffering(wanted: bool) -> bool:
    """Flush `sys.stdout` and set whether each line is written at once; returns what it was."""
    stdout = sys.stdout
    was = getattr(stdout, "line_buffering", False)
    with suppress(OSError, ValueError):  # closed, or not to be written to
        if isinstance(stdout, io.TextIOWrapper):
            stdout.reconfigure(line_buffering=wanted)
        if stdout is not None:
            stdout.flush()
    return was
