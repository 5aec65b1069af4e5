"""The seam: what POSIX and Windows do differently about processes and our own stdio.

The rest of the runtime asks here and does not look at `sys.platform`. Nothing here waits, except
that Windows ends a tree of processes with a command of its own.

Windows knows no process groups that outlive their leader: what a command leaves behind when it
ends by itself cannot be found again there. On POSIX it can, and is ended, also when this process is
killed: a shell waits for that at the end of a pipe.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

PIPE = 1024 * 1024
"""How many bytes a pipe to a process should hold: as much as Linux gives to anyone."""

if sys.platform == "win32":
    THREADED_STDIO = True
    """The event loop cannot wait for an anonymous pipe, so threads do."""

    GROUP_OPTIONS: Mapping[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    """What makes a new process the leader of a group of its own."""

    def group_exists(leader: int) -> bool:
        """Whether anything of a group is left after its leader ended: not known here."""
        return False

    def terminate_group(leader: int) -> None:
        """Ask a group whose leader lives to end."""
        with suppress(OSError):  # there may be no console to send it through
            os.kill(leader, signal.CTRL_BREAK_EVENT)

    def kill_group(leader: int) -> None:
        """End a leader that lives, and all it started."""
        command = ["taskkill", "/F", "/T", "/PID", str(leader)]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                command,
                check=False,
                timeout=5,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def processor_time(leader: int) -> float:
        """How many seconds a group has spent on processors: not known here."""
        return 0.0

    def guard(leader: int) -> None:
        """Have a group ended if this process is killed: not done here."""

    def unguard(leader: int) -> None:
        """Undo `guard`."""

    def environment(overrides: Mapping[str, str | None]) -> dict[str, str]:
        """Our environment with `overrides`; None removes a variable."""
        # names are the same in any case, and `os.environ` has them in upper case
        return _merged({name.upper(): value for name, value in overrides.items()})

    def program(name: str, environ: Mapping[str, str]) -> str:
        """The file to start: `npx` is `npx.cmd` here, which only a search finds."""
        return shutil.which(name, path=environ.get("PATH")) or name

    def private_copy(fd: int) -> int:
        """A duplicate of `fd` that child processes do not inherit."""
        return os.dup(fd)

    def unblock(fd: int) -> bool:
        """Never asked for here: threads may block."""
        return False

    def block(fd: int) -> None:
        """Undo `unblock`."""

    def widen(pipe: Any) -> None:
        """Let a pipe hold more: what it holds is not ours to say here."""

else:
    import fcntl

    THREADED_STDIO = False
    GROUP_OPTIONS: Mapping[str, Any] = {"start_new_session": True}

    def group_exists(leader: int) -> bool:
        """Whether anything of a group is left, its leader included until it was waited for."""
        try:
            os.killpg(leader, 0)
        except OSError:  # nobody is there, or nobody whom we may end
            return False
        return True

    def terminate_group(leader: int) -> None:
        """Ask a group to end."""
        with suppress(OSError):
            os.killpg(leader, signal.SIGTERM)

    def kill_group(leader: int) -> None:
        """End a group."""
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)

    def processor_time(leader: int) -> float:
        """How many seconds a group has spent on processors; 0 where there is no /proc."""
        ticks = 0
        with suppress(OSError):
            for name in filter(str.isdecimal, os.listdir("/proc")):
                with suppress(OSError, ValueError, IndexError):  # it may end while it is read
                    with open(f"/proc/{name}/stat", "rb") as file:
                        fields = file.read().rpartition(b")")[2].split()
                    if int(fields[2]) == leader:
                        ticks += sum(map(int, fields[11:15]))  # with children that have ended
        return ticks / os.sysconf("SC_CLK_TCK")

    # Nobody can act on SIGKILL, but the end of a pipe is closed by it. Who reads the other end is
    # a shell, which is small, is there on every system, and knows no threads that a fork would
    # hurt. It leads a session of its own, so that no signal for our group reaches it.
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
    _SHELL = "/bin/sh"
    _LOOKS, _LOOK = 100, 0.002

    class _Watch:
        """The shell that ends the groups of this process after it was killed."""

        def __init__(self) -> None:
            self._owner = 0
            self._pipe = self._shell = -1

        def report(self, line: bytes) -> None:
            try:
                if self._owner != os.getpid():  # not started, or this is a fork
                    self._pipe = self._start()
                    self._owner = os.getpid()
                os.write(self._pipe, line)
            except OSError:  # no shell, or somebody ended it: then nothing is watched
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
            shell.returncode = 0  # it ends after us: `Popen` need not know how
            self._shell = shell.pid
            atexit.register(self._end)
            return write

        def _end(self) -> None:
            """Leave nothing behind at a usual end, not even for a moment."""
            if self._owner != os.getpid():
                return
            with suppress(OSError):
                os.close(self._pipe)
                for _ in range(_LOOKS):  # bounded: a fork of ours may hold the pipe open
                    if os.waitpid(self._shell, os.WNOHANG)[0]:
                        break
                    time.sleep(_LOOK)

    _watch = _Watch()

    def guard(leader: int) -> None:
        """Have a group ended if this process is killed; what left the group is not found."""
        _watch.report(b"+ %d\n" % leader)

    def unguard(leader: int) -> None:
        """The group is gone: its number may be another's soon."""
        _watch.report(b"- %d\n" % leader)

    def environment(overrides: Mapping[str, str | None]) -> dict[str, str]:
        """Our environment with `overrides`; None removes a variable."""
        return _merged(overrides)

    def program(name: str, environ: Mapping[str, str]) -> str:
        """The file to start: the system searches for it."""
        return name

    def private_copy(fd: int) -> int:
        """A duplicate of `fd` that child processes do not inherit."""
        # never one of the standard three, even if standard error is closed
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)

    def unblock(fd: int) -> bool:
        """Let writes to `fd` return at once; tells whether that was new."""
        was_blocking = os.get_blocking(fd)
        os.set_blocking(fd, False)
        return was_blocking

    def block(fd: int) -> None:
        """Undo `unblock`."""
        with suppress(OSError):
            os.set_blocking(fd, True)

    def widen(pipe: Any) -> None:
        """Let a pipe hold more, where the system can: then both sides work at the same time."""
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError, ValueError):  # it may be closed, or a user have only so much
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE)


_PLAIN = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP"),
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
    }
)


def plain_environment(
    overrides: Mapping[str, str | None], passed: Collection[str] = ()
) -> dict[str, str]:
    """What any command needs of our environment, what is `passed` by name, and `overrides`.

    A shell that a client is started from holds tokens and keys, and nothing tells them from other
    variables: only those that are known to hold none are kept.
    """
    kept = [name for name in os.environ if name in _PLAIN or name.startswith("LC_")]
    base = {name: os.environ[name] for name in (*kept, *passed) if name in os.environ}
    return _merged(overrides, base)


def _merged(
    overrides: Mapping[str, str | None], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    given = {name: value for name, value in overrides.items() if value is not None}
    ours = os.environ if base is None else base
    kept = {name: value for name, value in ours.items() if name not in overrides}
    return kept | given
