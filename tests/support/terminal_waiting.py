"""What all stages share, whatever terminal they use: keys, waits, and the end of processes.

A wait ends with the output that it waits for; without it, it fails and shows the screen.
The program gets an environment of its own, and nothing that it started outlives the stage: it is
found by a variable in its environment, for a process may leave its parent, its group and its
session. That is read from `/proc`, so there must be one.
"""

import os
import secrets
import signal
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeAlias

PATIENCE: Final = 30.0
"""More seconds than anything here should take."""
MARKER: Final = "TWOFOLD_STAGE"
"""The variable by which everything that a program started is found."""

KEYS: Final = {
    "enter": "\r",
    "tab": "\t",
    "shift-tab": "\x1b[Z",
    "esc": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
}

_TICK = 0.05

Env: TypeAlias = Mapping[str, str | None]


def key(name: str) -> str:
    """What a terminal sends for a key: `enter`, `ctrl-c`, `alt-enter`, `y`."""
    if name.startswith("alt-"):
        return "\x1b" + key(name.removeprefix("alt-"))
    if name.startswith("ctrl-"):
        return chr(ord(name.removeprefix("ctrl-").upper()) & 0x1F)
    if name in KEYS:
        return KEYS[name]
    assert len(name) == 1, f"there is no key {name!r}"
    return name


class AnyStage(ABC):
    """What both stages have: the waits, the keys, and the care for processes.

    `env` adds to the environment of the program, None takes a variable away. Nothing else of the
    test's own environment is in it but PATH. Without `cwd` the program runs in its empty HOME.
    """

    columns: int
    rows: int
    pid: int
    """The program's process."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        cwd: str | Path | None = None,
        env: Env | None = None,
    ) -> None:
        self.columns, self.rows = columns, rows
        self._home = tempfile.TemporaryDirectory(prefix="stage-", ignore_cleanup_errors=True)
        self.home = Path(self._home.name)
        self._mark = secrets.token_hex(8)
        self._changed = threading.Condition(threading.RLock())
        self._raw = bytearray()
        self._written_at = time.monotonic()
        self._failure: BaseException | None = None
        given = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._home.name,
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            MARKER: self._mark,
            **self._terminal_env(),
            **(env or {}),
        }
        try:
            self._start(
                list(command),
                str(cwd or self.home),
                {name: value for name, value in given.items() if value is not None},
            )
        except BaseException:
            self._home.cleanup()
            raise

    # ---- what each does its own way ----------------------------------------------------------

    @abstractmethod
    def _terminal_env(self) -> dict[str, str]: ...

    @abstractmethod
    def _start(self, command: list[str], cwd: str, env: dict[str, str]) -> None: ...

    @abstractmethod
    def _stop(self) -> None:
        """Give everything back, after the processes were killed."""

    @abstractmethod
    def _send(self, text: str) -> None: ...

    @abstractmethod
    def _status(self) -> int | None:
        """The exit status, once the program has ended and all that it wrote was read."""

    @abstractmethod
    def _over(self) -> bool:
        """Whether there is no more output: the program has ended, and no other process writes."""

    @abstractmethod
    def screen(self) -> list[str]:
        """The rows on the screen, without the blanks at their ends."""

    @abstractmethod
    def scrollback(self) -> list[str]:
        """Every row: those that scrolled away, and then those on the screen."""

    @abstractmethod
    def paste(self, text: str) -> None:
        """Paste, in brackets if the program asked the terminal for that."""

    @abstractmethod
    def resize(self, columns: int, rows: int) -> None: ...

    # ---- what was written --------------------------------------------------------------------

    @property
    def text(self) -> str:
        """Every row, scrolled away or not, in one text."""
        return "\n".join(self.scrollback())

    @property
    def raw(self) -> bytes:
        """Every byte that was written to the terminal."""
        with self._changed:
            return bytes(self._raw)

    def _written(self, output: bytes) -> None:
        self._raw += output
        self._written_at = time.monotonic()
        self._changed.notify_all()

    # ---- acting ------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Type text as it is; what it means for the terminal is up to its mode."""
        self._send(text)

    def press(self, *names: str) -> None:
        """Press keys, one after the other: `press("ctrl-c")`, `press("esc", "up")`."""
        self._send("".join(map(key, names)))

    # ---- waiting -----------------------------------------------------------------------------

    def wait_for(self, wanted: str | Callable[[Self], object], seconds: float = PATIENCE) -> None:
        """Wait until a text is in any row, scrolled away or not, or a predicate holds."""
        if isinstance(wanted, str):
            complaint = f"{wanted!r} did not come"
            self._wait(lambda: wanted in self.text, complaint, seconds, shown=True)
        else:
            self._wait(lambda: wanted(self), "what was waited for did not come", seconds)

    def wait_gone(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until no row on the screen has the text."""
        complaint = f"{text!r} did not go"
        self._wait(
            lambda: not any(text in row for row in self.screen()), complaint, seconds, shown=True
        )

    def wait_quiet(self, quiet: float = 0.3, seconds: float = PATIENCE) -> None:
        """Wait until nothing is written for a while: to check that something is not written."""
        now = time.monotonic()
        self._wait(
            lambda: time.monotonic() - max(now, self._written_at) >= quiet,
            "it did not stop writing",
            seconds,
        )

    def wait_end(self, seconds: float = PATIENCE) -> int:
        """Wait until the program has ended, and return its exit status (-2: by SIGINT)."""
        self._wait(lambda: self._status() is not None, "it did not end", seconds)
        status = self._status()
        assert status is not None
        return status

    def _wait(
        self, holds: Callable[[], object], complaint: str, seconds: float, *, shown: bool = False
    ) -> None:
        """`shown`: only output can make it hold, so it is no use to wait when that has ended."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not holds():
                if self._failure is not None:
                    raise self._failure
                left = deadline - time.monotonic()
                assert left > 0, f"{complaint} within {seconds:g} s\n{self._seen()}"
                if shown and self._over() and not holds():
                    status = f"{complaint}, and it ended with status {self._status()}"
                    raise AssertionError(f"{status}\n{self._seen()}")
                # Output wakes us; a predicate may ask for something else, a process that is gone.
                self._changed.wait(min(left, _TICK))

    def _seen(self) -> str:
        edge = "-" * self.columns
        return "\n".join([edge, *self.scrollback()[-max(self.rows, 100) :], edge])

    # ---- processes ---------------------------------------------------------------------------

    def children(self) -> list[int]:
        """The processes that the program started, at any remove, and that still run.

        One that neither descends from the program nor kept its environment is not found.
        """
        return [pid for pid in _belonging(self._mark) if pid != self.pid]

    def cpu_seconds(self) -> float:
        """The time that the program itself has spent on a processor."""
        after_name = process_stat(self.pid)
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    def is_idle(self) -> bool:
        """Whether the program, all its threads, waits for something."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return all(process_stat(int(task.name))[0] == "S" for task in tasks)

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Kill all there is, and forget it."""
        deadline = time.monotonic() + PATIENCE
        while (left := _belonging(self._mark)) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)  # a killed process needs a moment, and there is no event for its end
        self._stop()
        self._home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# ---- reading /proc ---------------------------------------------------------------------------


def _belonging(mark: str) -> list[int]:
    """The processes that run with the mark, and all below them."""
    marked = f"{MARKER}={mark}\0".encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        pid = int(entry.name)
        with suppress(OSError):  # it ended while we read, or belongs to somebody else
            state, parent, *_ = process_stat(pid)
            if state in "ZX":
                continue
            parents[pid] = int(parent)
            if marked in (entry / "environ").read_bytes():
                found.add(pid)
    while below := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= below
    return sorted(found)


def process_stat(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` from the state on (the name before it may hold anything)."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
