"""One command that runs for an agent: its group of processes, its output, its end.

It is started without input and without a tty; all that it and its children write comes through
one pipe. Whatever it writes, a bounded end of it is kept, and once it was told to stop its end is
known after a bounded time. No thread is used, and nothing here knows of the protocol's requests.
"""

import asyncio
import base64
import codecs
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from twofold.runtime import platform
from twofold.runtime.commands import exit_code, signal_name
from twofold.wire import v1, v2

PIECE = 64 * 1024
"""How much is read at a time, which is what a pipe usually holds."""
LARGEST_PIPE = 1024 * 1024
GRACE = 1.0
"""How many seconds a command has to end after it was asked to."""
LAST_WAIT = 2.0
"""How many seconds the system has to end it by force, until we no longer wait for it."""
POLL = 0.02
"""How often we look whether a command ended, where the system does not tell."""

Update: TypeAlias = v2.TerminalUpdate | v2.TerminalOutputChunk
Tell: TypeAlias = Callable[[Update], None]


class Child(NamedTuple):
    """A process that leads a group of its own, and where all that it writes can be read."""

    process: subprocess.Popen[bytes]
    pipe: int


class Terminal:
    """A command, from its start until nothing of it is left."""

    def __init__(
        self, terminal_id: str, child: Child, *, limit: int, grace: float, tell: Tell
    ) -> None:
        self.terminal_id = terminal_id
        self.output = Output(limit)
        self._loop = asyncio.get_running_loop()
        self.exit: asyncio.Future[v1.TerminalExitStatus] = self._loop.create_future()
        """How the command ended; what it started may still run."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """It was stopped, and so was all that it started."""
        self._process = child.process
        self._grace = grace
        self._tell = tell
        self._group = True
        """Whether something of its group may be left."""
        self._deadline: asyncio.TimerHandle | None = None
        """Set once it has been asked to end."""
        self._forced = False
        self._pipe: int | None = child.pipe
        self._loop.add_reader(child.pipe, self._read)
        self._watch = _exit_watch(child.process.pid)
        if self._watch is None:
            self._look_later(self._look)
        else:
            self._loop.add_reader(self._watch, self._look)

    def stop(self) -> None:
        """Ask it and all it started to end; what has not ended after the grace is made to."""
        if self.gone.done() or self._deadline is not None:
            return
        if self._group:
            platform.terminate_group(self._process.pid)
        self._deadline = self._loop.call_later(self._grace, self.force)
        if self.exit.done():
            self._look_for_rest()

    def force(self) -> None:
        """End it now; what even the system cannot end is given up after a while."""
        if self.gone.done():
            return
        self._forced = True
        if self._group:
            platform.kill_group(self._process.pid)
        if self.exit.done():
            self._end()
        else:
            self._cancel_deadline()
            self._deadline = self._loop.call_later(LAST_WAIT, self._give_up)

    # ---- its output

    def _read(self) -> bool:
        """Pass on what the pipe holds; tells whether there may be more in it."""
        if self._pipe is None:
            return False
        try:
            data = os.read(self._pipe, PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close_pipe()
            return False
        dropped = self.output.add(data)
        self._tell(v2.TerminalOutputChunk(terminal_id=self.terminal_id, data=_base64(data)))
        if dropped:
            # so that the view forgets what we forgot: its memory is to stay bounded, too
            self._tell(shows(self.terminal_id, self.output.kept()))
        return True

    def _read_rest(self) -> None:
        # bounded, for what it left running may go on writing
        for _ in range(LARGEST_PIPE // PIECE):
            if not self._read():
                break

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    # ---- its end

    def _look_later(self, look: Callable[[], None]) -> None:
        self._loop.call_later(POLL, look)

    def _look(self) -> None:
        """Did the command end?"""
        if self.exit.done():
            return
        if self._process.poll() is None:
            if self._watch is None:
                self._look_later(self._look)
            return
        # As long as something of the group is left, its number stays taken. Once nothing is, it
        # must not be signalled again: the number may be another's.
        self._group = platform.group_exists(self._process.pid)
        self._read_rest()
        self._exited(self._process.returncode)
        if self._deadline is not None:
            self._look_for_rest()

    def _look_for_rest(self) -> None:
        """Did all that it started end, too?"""
        if self.gone.done():
            return
        self._group = self._group and platform.group_exists(self._process.pid)
        if self._group and not self._forced and _runs(self._process.pid):
            self._look_later(self._look_for_rest)
        else:
            self._end()

    def _exited(self, returncode: int | None) -> None:
        if self._watch is not None:
            self._loop.remove_reader(self._watch)
            os.close(self._watch)
            self._watch = None
        code, by = exit_code(returncode), signal_name(returncode)
        self.exit.set_result(v1.TerminalExitStatus(exit_code=code, signal=by))
        status = v2.TerminalExitStatus(exit_code=code, signal=by)
        self._tell(v2.TerminalUpdate(terminal_id=self.terminal_id, exit_status=status))

    def _give_up(self) -> None:
        self._exited(None)
        self._end()

    def _end(self) -> None:
        self._cancel_deadline()
        if self._group:
            self._group = False
            platform.kill_group(self._process.pid)  # one may have been born while we looked
        platform.unguard(self._process.pid)
        self._read_rest()
        self._close_pipe()
        self.gone.set_result(None)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


class Output:
    """The end of what a command wrote, and not much more than twice that in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._written = 0

    def __len__(self) -> int:
        """How many bytes are in memory, here and in the view."""
        return len(self._bytes)

    def add(self, data: bytes) -> bool:
        """Take in more; tells whether older output was dropped for it."""
        self._bytes += data
        self._written += len(data)
        excess = len(self._bytes) - self._limit
        # rarely, as dropping moves all that is kept
        if excess <= self._limit + PIECE:
            return False
        del self._bytes[:excess]
        return True

    @property
    def limit(self) -> int:
        """How many bytes may be kept."""
        return self._limit

    def cut(self, limit: int) -> None:
        """Keep no more than `limit` bytes from now on."""
        self._limit = limit
        del self._bytes[: max(0, len(self._bytes) - limit)]

    def kept(self) -> bytes:
        """The last bytes, as many as may be kept, from the beginning of a character on."""
        if self._written <= self._limit:
            return bytes(self._bytes)
        return _end_of(self._bytes, self._limit)

    def text(self, *, complete: bool) -> tuple[str, bool]:
        """The same as text, and whether something is missing at its beginning."""
        # a character of which the second half is still to come is not shown yet
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self.kept(), complete)
        # what takes the place of bytes that are no text is longer than they are
        if len(encoded := text.encode()) > self._limit:
            return _end_of(encoded, self._limit).decode(), True
        return text, self._written > self._limit


def _end_of(data: bytes | bytearray, size: int) -> bytes:
    """At most the last `size` bytes, from the beginning of a character on."""
    cut = max(len(data) - size, 0)
    start = cut
    while start < min(cut + 3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return bytes(data[start:])


def shows(terminal_id: str, output: bytes) -> v2.TerminalUpdate:
    """Has the view show `output` instead of what came before."""
    data = v2.TerminalOutput(data=_base64(output))
    return v2.TerminalUpdate(terminal_id=terminal_id, output=data)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def spawn(argv: list[str], cwd: Path, environ: Mapping[str, str]) -> Child:
    """Start a command. Raises OSError or ValueError, and then nothing is left of it."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=environ,
            **platform.GROUP_OPTIONS,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    platform.guard(process.pid)
    return Child(process, ours)


def _exit_watch(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where there is such a thing."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


def _runs(group: int) -> bool:
    """Whether anything of a group that still has a member does more than wait to be buried.

    The dead are buried by init, and in containers it is often a program that never does.
    """
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True  # not Linux: count the dead among the living
    return not numbers or any(_group_if_alive(number) == group for number in numbers)


def _group_if_alive(number: str) -> int | None:
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            # the name before it may have anything in it, brackets too
            state, _, group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return None if state in b"ZX" else int(group)
