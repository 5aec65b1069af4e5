"""Process groups: how they are signalled, and how they end if this process is killed.

A group is named by the process id of its leader. Every process that Twofold starts leads a group
of its own (`start_new_session`), so that what it starts in turn can be found and ended with it.
Nothing here waits.
"""

import atexit
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple


class Running(NamedTuple):
    """A process that still runs."""

    pid: int
    command: str
    """Its command line, as it was started: not safe to show."""


def exists(leader: int) -> bool:
    """Whether a process of the group is left; a leader counts until it was waited for."""
    try:
        os.killpg(leader, 0)
    except OSError:  # there is none, or none that we may signal
        return False
    return True


def terminate(leader: int) -> None:
    """Send SIGTERM to the group."""
    with suppress(OSError):
        os.killpg(leader, signal.SIGTERM)


def kill(leader: int) -> None:
    """Send SIGKILL to the group."""
    with suppress(OSError):
        os.killpg(leader, signal.SIGKILL)


def processor_time(leader: int) -> float:
    """The processor time the group has used, in seconds; 0 where there is no /proc."""
    ticks = 0
    with suppress(OSError):
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError, ValueError, IndexError):  # it may end while it is read
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if int(fields[2]) == leader:
                    ticks += sum(map(int, fields[11:15]))  # with children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def members(leader: int) -> list[Running]:
    """The processes of the group that still run; empty where there is no /proc."""

    def is_member(pid: int) -> bool:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, _, group, *_ = file.read().rpartition(b")")[2].split()
        return int(group) == leader and state != b"Z"

    return _running(is_member)


def with_variable(variable: str) -> list[Running]:
    """The processes that were started with `variable` ("NAME=value") in their environment.

    They may have left the group of the process that got it first. Empty where there is no /proc.
    """
    wanted = variable.encode()

    def has_it(pid: int) -> bool:
        with open(f"/proc/{pid}/environ", "rb") as file:  # a zombie has none
            return wanted in file.read().split(b"\0")

    return _running(has_it)


def _running(wanted: Callable[[int], bool]) -> list[Running]:
    found = []
    with suppress(OSError):
        for pid in sorted(map(int, filter(str.isdecimal, os.listdir("/proc")))):
            with suppress(OSError, ValueError):  # it may end while it is read, or not be ours
                if wanted(pid):
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        words = file.read().rstrip(b"\0").split(b"\0")
                    found.append(Running(pid, b" ".join(words).decode(errors="replace")))
    return found


def guard(leader: int) -> None:
    """Have the group killed if this process is killed; a process that left it is not found."""
    _watch.send(b"+ %d\n" % leader)


def unguard(leader: int) -> None:
    """Stop guarding a group that is gone: the system may soon use its number again."""
    _watch.send(b"- %d\n" % leader)


# No process can act on its own SIGKILL, but the system then closes its end of a pipe. A shell reads
# the other end: it is small, every system has it, and it needs no fork of a threaded process. It
# leads a session of its own, so that no signal for our group reaches it.
_SHELL = "/bin/sh"
_WATCH = """
trap '' HUP INT QUIT TERM
groups=
while read -r change group; do
  case $change in
    +) groups="$groups $group " ;;
    -) case $groups in *" $group "*) groups="${groups%%" $group "*}${groups#*" $group "}" ;; esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""
_POLLS, _POLL = 100, 0.002


class _Watch:
    """The shell that kills the guarded groups once this process is gone."""

    def __init__(self) -> None:
        self._owner = 0
        self._pipe = self._shell = -1

    def send(self, line: bytes) -> None:
        try:
            if self._owner != os.getpid():  # not started yet, or this is a fork
                self._pipe = self._start()
                self._owner = os.getpid()
            os.write(self._pipe, line)
        except OSError:  # there is no shell, or something ended it: then nothing is guarded
            self._owner = 0

    def _start(self) -> int:
        read, write = os.pipe()
        try:
            os.set_blocking(write, False)
            shell = subprocess.Popen(
                [_SHELL, "-c", _WATCH],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        shell.returncode = 0  # it ends after us, so `Popen` must not warn that it still runs
        self._shell = shell.pid
        atexit.register(self._end)
        return write

    def _end(self) -> None:
        """End the shell when this process exits, and wait for it."""
        if self._owner != os.getpid():
            return
        with suppress(OSError):
            os.close(self._pipe)
            for _ in range(_POLLS):  # bounded: a fork of ours may hold the pipe open
                if os.waitpid(self._shell, os.WNOHANG)[0]:
                    break
                time.sleep(_POLL)


_watch = _Watch()
