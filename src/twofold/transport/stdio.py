"""This process's standard input and output as a transport: how an agent is spoken to.

While the protocol has them, nothing else does: `claimed_stdio` gives it private copies, lets
everything that would be printed go to standard error, and leaves nothing to read on standard
input. Pipes, sockets, terminals, plain files and /dev/null all serve. Nothing is changed for good.
"""

import asyncio
import errno
import fcntl
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, TextIO, TypeAlias

from twofold.errors import LocalError, PeerError
from twofold.transport.base import HIGH_WATER, Receiver

# Bytes from and to a file descriptor of this process, whatever it is.
#
# The event loop waits for pipes, sockets and terminals. What it refuses to wait for (plain files,
# /dev/null) never makes one wait either: it is read in pieces, one in each turn of the loop, and
# written directly. Nothing here closes a descriptor.


PIECE = 64 * 1024
"""As much as a pipe holds."""
LOW_WATER = HIGH_WATER // 4

OnData: TypeAlias = Callable[[bytes], None]
OnEnd: TypeAlias = Callable[[OSError | None], None]
OnLost: TypeAlias = Callable[[OSError], None]
OnRoom: TypeAlias = Callable[[], None]


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

    def stop(self) -> None:
        self.pause()
        self._over = True

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
        self._unblocked = not self._plain and os.get_blocking(fd)
        if self._unblocked:
            os.set_blocking(fd, False)

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

    def stop(self) -> None:
        if self._waiting:
            self._loop.remove_writer(self._fd)
            self._waiting.clear()
        self._over = True
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


def _unless_hung_up(error: OSError | None) -> OSError | None:
    """A terminal whose other side is gone says EIO: that is its way to end."""
    return None if error is not None and error.errno == errno.EIO else error


FLUSH_TIMEOUT = 2.0
"""How many seconds `close` waits for what is still to be written."""
GRACE = 1.0
"""How long input may still come after the output was lost."""


class StdioUnavailable(LocalError):
    """Standard input or output cannot be used for the protocol."""


class StdioLost(PeerError):
    """The client is gone from one side of the conversation."""

    def __init__(self, stream: Literal["input", "output"], reason: str) -> None:
        done = "read from standard input" if stream == "input" else "written to standard output"
        super().__init__(f"Nothing can be {done} any more: {reason}. The client is probably gone.")
        self.stream = stream
        self.reason = reason


class Stdio:
    """Two file descriptors as a transport; make one with `open` or `from_fds`.

    The end of the input is not the end of the output: what is written after it is still sent.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        release: Callable[[], None],
        flush_timeout: float = FLUSH_TIMEOUT,
    ) -> None:
        """`release` is called at the end, when both descriptors are out of use."""
        self._reader = FdReader(read_fd, self._received, self._input_ended)
        self._writer = FdWriter(write_fd, self._is_full, self._has_room, self._output_lost)
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
        """Speak over standard input and output; `close` gives them back.

        Until then `print` and child processes write to standard error. Raises `StdioUnavailable`.
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
        """Speak over these two, which may be one; `close` closes them."""

        def release() -> None:
            for fd in {read_fd, write_fd}:
                os.close(fd)

        return cls(read_fd, write_fd, release, flush_timeout)

    # ---- the transport

    def start(self, receiver: Receiver) -> None:
        """From now on `receiver` is told what comes. What came before is kept for it."""
        self._receiver = receiver
        if self._full:
            receiver.pause_writing()
        if self._closing is not None:
            asyncio.get_running_loop().call_soon(self._tell_end, None)
            return
        if self._lost is not None:
            self._end_soon(self._lost)
        if not self._paused:
            self._reader.resume()

    def write(self, data: bytes) -> None:
        """Send, without waiting. What nobody takes any more is dropped."""
        if self._closing is None:
            self._writer.write(data)

    def pause_reading(self) -> None:
        """The receiver has enough for now."""
        self._paused = True
        self._reader.pause()

    def resume_reading(self) -> None:
        """The receiver wants more."""
        self._paused = False
        if self._receiver is not None and self._closing is None:
            self._reader.resume()

    async def close(self) -> None:
        """Send what waits, but not for long, and give the descriptors back.

        The receiver is told the end at once and gets no more data.
        """
        if self._closing is None:
            self._reader.pause()
            self._closing = asyncio.create_task(self._shut_down())
            asyncio.get_running_loop().call_soon(self._tell_end, None)
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

    # ---- what the descriptors say

    def _received(self, data: bytes) -> None:
        if self._receiver is not None and self._closing is None and not self._ended:
            self._receiver.received(data)

    def _input_ended(self, error: OSError | None) -> None:
        lost = None if error is None else StdioLost("input", _reason(error))
        self._tell_end(self._lost or lost)

    def _output_lost(self, error: OSError) -> None:
        """Without output there is nothing to go on for, but what was sent is still read."""
        if self._closing is None and not self._ended:
            self._lost = StdioLost("output", _reason(error))
            if self._receiver is not None:
                self._end_soon(self._lost)

    def _end_soon(self, error: StdioLost) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(GRACE, self._tell_end, error)

    def _tell_end(self, error: StdioLost | None) -> None:
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


class ClaimedStdio:
    """Standard input and output, taken for the protocol until `release`."""

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
        # Text that was printed before and still waits goes where later text goes.
        self._line_buffering = _line_buffering(True)

    def release(self) -> None:
        """Give them back."""
        if ClaimedStdio._claimed is not self:
            return
        ClaimedStdio._claimed = None
        _line_buffering(self._line_buffering)
        for fd, copy in ((0, self.read_fd), (1, self.write_fd)):
            os.dup2(copy, fd)
            os.close(copy)


@contextmanager
def claimed_stdio() -> Iterator[ClaimedStdio]:
    """Take standard input and output for the protocol: read `read_fd`, write `write_fd`.

    Inside, standard output is standard error, for this process and what it starts, and standard
    input is empty. Raises `StdioUnavailable` if one of them is closed or taken.
    """
    claimed = ClaimedStdio()
    try:
        yield claimed
    finally:
        claimed.release()


def _private_copy(fd: int) -> int:
    """A duplicate of `fd` that child processes do not inherit."""
    # never one of the standard three, even if standard error is closed
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _check_open(fd: int, at_start: TextIO | None, name: str) -> None:
    if not _is_open(fd, at_start):
        advice = "An agent is started by its client, or with pipes for both."
        raise StdioUnavailable(f"Standard {name} is closed, but the protocol needs it. {advice}")


def _is_open(fd: int, at_start: TextIO | None) -> bool:
    # What was closed when the program started may by now be a file of someone else, often the
    # event loop's; Python remembers it as None.
    if at_start is None:
        return False
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _line_buffering(wanted: bool) -> bool:
    """Flush `sys.stdout` and set whether each line is written at once; tells what it was."""
    stdout = sys.stdout
    was = getattr(stdout, "line_buffering", False)
    with suppress(OSError, ValueError):  # closed, or not to be written to
        if isinstance(stdout, io.TextIOWrapper):
            stdout.reconfigure(line_buffering=wanted)
        if stdout is not None:
            stdout.flush()
    return was


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
