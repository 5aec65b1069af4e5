"""A stage on which a test drives a real program in a real terminal.

`Stage` is a pseudo terminal that the program controls, read all the time as a terminal would, with
the screen in memory. `TmuxStage` shows the same in tmux, which lays rows out anew when it is
resized, and keeps the scrollback that people have. A test types, waits for what it wants to see,
and never sleeps.

    with Stage([sys.executable, "-m", "twofold", "run"], columns=60) as stage:
        stage.wait_for("›")
        stage.type("hello")
        stage.press("enter")
        stage.wait_for("done")
        stage.press("ctrl-d")
        assert stage.wait_end() == 0
"""

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support.terminal_screen import BRACKETED_PASTE, Row, TerminalScreen, plain
from tests.support.terminal_waiting import KEYS, MARKER, PATIENCE, AnyStage, Env, key, process_stat

__all__ = ["KEYS", "MARKER", "PATIENCE", "AnyStage", "Env", "Stage", "TmuxStage", "key"]

_PIECE: Final = 1 << 16
_SCROLLBACK: Final = 100_000
# The terminal must be the program's own, or no resize and no Ctrl-C would reach it. Between fork
# and exec a process with threads must not run Python; so a first program does it, after the exec.
# What starts the tests may ignore signals, as nohup does, and programs inherit that: a login shell
# on a new terminal ignores none of these.
_CONTROLLING: Final = (
    "import fcntl, os, signal, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "for name in ('SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGTSTP'):\n"
    "    signal.signal(getattr(signal, name), signal.SIG_DFL)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Stage(AnyStage):
    """A program in a pseudo terminal. `encoding` is the one that the terminal reads.

    `background` is the colour that it reports (`rgb:ffff/ffff/ffff`), empty: none. A terminal that
    is `mute` answers nothing at all; a test can type the answers.

    Rows are not laid out anew when the terminal is resized: as in xterm, they are cut.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        cwd: str | Path | None = None,
        env: Env | None = None,
        encoding: str = "utf-8",
        background: str = "",
        mute: bool = False,
    ) -> None:
        answer = (lambda text: None) if mute else self._send
        self._screen = TerminalScreen(columns, rows, answer, encoding)
        self._screen.background = background
        self._outgoing = bytearray()
        self._encoding = encoding
        self._left = False  # no process is left that could write
        self._hung_up = False  # it is closed
        self._closing = False
        super().__init__(command, columns=columns, rows=rows, cwd=cwd, env=env)

    # ---- reading -----------------------------------------------------------------------------

    def screen(self) -> list[str]:
        with self._changed:
            return [plain(row) for row in self._screen.rows()]

    def scrollback(self) -> list[str]:
        with self._changed:
            return [*self._screen.history_text, *self.screen()]

    def styles(self) -> list[Row]:
        """Every row, scrolled away or not, in pieces that know their look."""
        with self._changed:
            return [*self._screen.history, *self._screen.rows()]

    @property
    def cursor(self) -> tuple[int, int]:
        """The position of the cursor on the screen: column and row, from 0."""
        with self._changed:
            return self._screen.cursor.x, self._screen.cursor.y

    @property
    def cursor_is_hidden(self) -> bool:
        with self._changed:
            return self._screen.cursor.hidden

    @property
    def title(self) -> str:
        """The title that the program gave to the window."""
        with self._changed:
            return self._screen.title

    @property
    def passed_over(self) -> list[str]:
        """The escape sequences that the screen did not understand, or that have no effect."""
        with self._changed:
            return list(self._screen.passed_over)

    def has_mode(self, private: int) -> bool:
        """Whether a private mode of the terminal is on (2004: bracketed paste)."""
        with self._changed:
            return self._screen.has_mode(private)

    # ---- acting ------------------------------------------------------------------------------

    def paste(self, text: str) -> None:
        text = text.replace("\r\n", "\r").replace("\n", "\r")
        self._send(f"\x1b[200~{text}\x1b[201~" if self.has_mode(BRACKETED_PASTE) else text)

    def resize(self, columns: int, rows: int) -> None:
        with self._changed:
            self.columns, self.rows = columns, rows
            self._screen.resize(rows, columns)
            if not self._hung_up:
                termios.tcsetwinsize(self._master, (rows, columns))

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed: the program gets a SIGHUP."""
        self._end_living()

    # ---- the terminal's own life -------------------------------------------------------------

    def _terminal_env(self) -> dict[str, str]:
        return {"TERM": "xterm-256color"}

    def _start(self, command: list[str], cwd: str, env: dict[str, str]) -> None:
        self._master, slave = os.openpty()
        self._waking, self._wake = os.pipe()
        termios.tcsetwinsize(self._master, (self.rows, self.columns))
        os.set_blocking(self._master, False)
        first = [sys.executable, "-I", "-S", "-c", _CONTROLLING]
        self._process = subprocess.Popen(
            [*first, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self.pid = self._process.pid
        self._threads = [threading.Thread(target=each) for each in (self._live, self._watch)]
        for thread in self._threads:
            thread.start()

    def _watch(self) -> None:
        self._process.wait()
        with self._changed:
            self._changed.notify_all()

    def _live(self) -> None:
        """Read what is written, and write what was typed: never waiting for one of them only."""
        try:
            while not self._closing and not self._left:
                writing = [self._master] if self._outgoing else []
                ready, writable, _ = select.select([self._master, self._waking], writing, [])
                with self._changed:
                    if self._waking in ready:
                        os.read(self._waking, _PIECE)
                    if writable:
                        self._write()
                    if self._master in ready:
                        self._read()
        except BaseException as failure:
            self._failure = failure  # the next wait raises it
        finally:
            if self._left:  # a program closes what it has open before it ends: no signal for that
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(PATIENCE)
            with self._changed:
                os.close(self._master)
                self._hung_up = True
                self._changed.notify_all()

    def _write(self) -> None:
        with suppress(OSError):
            del self._outgoing[: os.write(self._master, self._outgoing)]

    def _read(self) -> None:
        try:
            output = os.read(self._master, _PIECE)
        except BlockingIOError:  # a terminal may be called ready and have nothing
            return
        except OSError:  # on Linux, when the last one that had it open closed it
            output = b""
        if not output:
            self._left = True
            return
        self._screen.feed(output)
        self._written(output)

    def _send(self, text: str) -> None:
        with self._changed:
            self._outgoing += text.encode(self._encoding)
            os.write(self._wake, b"!")

    def _status(self) -> int | None:
        with self._changed:
            read_all = self._hung_up or not select.select([self._master], [], [], 0)[0]
            return self._process.returncode if read_all else None

    def _over(self) -> bool:
        return self._hung_up and self._process.returncode is not None

    def _end_living(self) -> None:
        self._closing = True
        os.write(self._wake, b"!")
        self._threads[0].join()

    def _stop(self) -> None:
        self._process.kill()
        self._end_living()
        self._threads[1].join()
        os.close(self._waking)
        os.close(self._wake)


class TmuxStage(AnyStage):
    """A program in tmux: rows are laid out anew on resize. `raw` may lag behind the screen."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        cwd: str | Path | None = None,
        env: Env | None = None,
    ) -> None:
        if shutil.which("tmux") is None:
            if os.environ.get("CI"):
                pytest.fail("CI needs tmux", pytrace=False)
            pytest.skip("tmux is not installed")
        self._closing = False
        super().__init__(command, columns=columns, rows=rows, cwd=cwd, env=env)

    # ---- reading -----------------------------------------------------------------------------

    def screen(self) -> list[str]:
        return self._captured()

    def scrollback(self) -> list[str]:
        return self._captured("-S", "-")

    def _captured(self, *options: str) -> list[str]:
        captured = self._tmux("capture-pane", "-p", *options)
        return [row.rstrip() for row in captured.removesuffix("\n").split("\n")]

    # ---- acting ------------------------------------------------------------------------------

    def paste(self, text: str) -> None:
        self._tmux("load-buffer", "-", given=text)
        self._tmux("paste-buffer", "-p", "-d")  # -p: in brackets if they are wanted

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._tmux("resize-window", "-x", f"{columns}", "-y", f"{rows}")

    def _send(self, text: str) -> None:
        if text:
            self._tmux("send-keys", "-H", *[f"{byte:x}" for byte in text.encode()])

    # ---- the terminal's own life -------------------------------------------------------------

    def _terminal_env(self) -> dict[str, str]:
        return {}  # tmux sets the variables itself

    def _tmux(self, *arguments: str, given: str = "") -> str:
        return subprocess.run(
            [*self._server, *arguments],
            input=given,
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=PATIENCE,
            env=self._env,
        ).stdout

    def _start(self, command: list[str], cwd: str, env: dict[str, str]) -> None:
        self._backstage = tempfile.TemporaryDirectory(prefix="tmux-")
        behind = Path(self._backstage.name)
        self._server = ["tmux", "-S", f"{behind / 'socket'}", "-f", "/dev/null", "-u"]
        # The server and what it needs are not the program's: only the program gets the mark.
        self._env = {name: value for name, value in env.items() if name != MARKER}
        script = behind / "start"
        script.write_text(
            f"{shlex.join([*self._server, 'wait-for', 'curtain'])}\n"
            f"export {MARKER}={env[MARKER]}\n"
            f"exec {shlex.join(command)}\n"
        )
        settings = [
            ["set", "-g", "history-limit", f"{_SCROLLBACK}"],
            ["set", "-g", "status", "off"],
            ["set", "-g", "default-terminal", env.get("TERM", "tmux-256color")],
            ["set", "-s", "escape-time", "0"],
            ["setw", "-g", "remain-on-exit", "on"],
            ["setw", "-g", "remain-on-exit-format", ""],
        ]
        size = ["-x", f"{self.columns}", "-y", f"{self.rows}"]
        session = ["new-session", "-d", *size, "-c", cwd, "-P", "-F", "#{pane_pid}"]
        once = [word for setting in settings for word in (*setting, ";")]
        self.pid = int(self._tmux(*once, *session, "sh", f"{script}"))
        os.mkfifo(behind / "written")
        self._reader = os.open(behind / "written", os.O_RDONLY | os.O_NONBLOCK)
        self._tmux("pipe-pane", "-O", f"exec cat > {shlex.quote(str(behind / 'written'))}")
        self._thread = threading.Thread(target=self._live)
        self._thread.start()
        self._tmux("wait-for", "-S", "curtain")

    def _live(self) -> None:
        """Read a copy of what is written: it wakes the waits."""
        try:
            while not self._closing:
                if not select.select([self._reader], [], [], 0.1)[0]:
                    continue
                output = os.read(self._reader, _PIECE)
                if not output:
                    return
                with self._changed:
                    self._written(output)
        except BaseException as failure:
            self._failure = failure
        finally:
            os.close(self._reader)

    def _status(self) -> int | None:
        status, killer = self._asked("pane_dead_status"), self._asked("pane_dead_signal")
        if status:
            return int(status)
        if killer:
            return -int(killer)
        with suppress(OSError):
            if process_stat(self.pid)[0] == "Z":
                # tmux now and then misses the signal that a child ended; another one and it looks
                os.kill(int(self._asked("pid")), signal.SIGCHLD)
        return None

    def _asked(self, variable: str) -> str:
        return self._tmux("display-message", "-p", f"#{{{variable}}}").strip()

    def _over(self) -> bool:
        return self._status() is not None

    def _stop(self) -> None:
        self._closing = True
        self._tmux("kill-server")
        self._thread.join()
        self._backstage.cleanup()
